/* Slots of permits. At the server, after every step: two grants of permits
 * that stand never have the same slot. Each keeps the slot with which it was
 * given for as long as it stands. A new one has the lowest slot that was free,
 * so that slots stay below a size that never shrank.
 *
 * At the clients, after every event: an owner that holds permits with its own
 * deadline ahead was told the slot that the server has for that grant, in
 * whichever way it heard of it: an answer, a repeat, a message. And no two who
 * hold have one slot. Excused once the store has lost what it acknowledged; with
 * recovery= the latter holds then, too. */
#include "sim/world.h"

enum { SIM_SLOTS = 64 };

/* The standing grant of permits that has this slot, but not `except`; or
 * NULL. */
static const struct sim_holder *who_has(const struct sim_book *b, int64_t slot,
                                        const struct sim_holder *except)
{
    for (int i = 0; i < b->holders; i++) {
        const struct sim_holder *h = &b->holder[i];
        if (h != except && h->mode == 3 && h->slot == slot &&
            sim_live(h, b->now)) {
            return h;
        }
    }
    return NULL;
}

/* Was this the slot of a grant whose request is given anew in this script,
 * within its own lock-delay? While the script ran both stood, in one record. */
static bool was_of_one_given_anew(const struct sim_step *s, int64_t slot)
{
    const struct sim_holder *h = who_has(s->was, slot, NULL);
    return h && h->end <= s->is->now && sim_live(h, s->is->now) &&
           sim_holder_of(s->is, h->id);
}

void theorem_slots(struct sim_world *w, const struct sim_step *s)
{
    const struct sim_book *b = s->is;
    for (int i = 0; i < b->holders; i++) {
        const struct sim_holder *h = &b->holder[i];
        const struct sim_holder *was = sim_holder_of(s->was, h->id);
        if (h->mode != 3 || !sim_live(h, b->now)) {
            continue;
        }
        const struct sim_holder *other = who_has(b, h->slot, h);
        if (h->slot < 0 || other) {
            sim_fail(w, "slots", "name %d: %.8s has slot %lld, as %.8s",
                     s->name, h->id, (long long)h->slot,
                     other ? other->id : "nobody");
        }
        /* (A grant whose lease is over may be given anew within its own
         * lock-delay.) */
        if (!sim_is_new(s, h) && was->slot != h->slot &&
            (was->end > b->now || was->token == h->token)) {
            sim_fail(w, "slots", "name %d: %.8s had slot %lld and has %lld",
                     s->name, h->id, (long long)was->slot, (long long)h->slot);
        }
        /* In etcd a lease may have ended since that was decided. */
        bool changed =
            sim_etcd(w) && sim_etcd_left_at(w, s->name) >= s->by->decided;
        for (int64_t k = 0; !changed && sim_is_new(s, h) && k < h->slot; k++) {
            if (!who_has(b, k, h) && !was_of_one_given_anew(s, k)) {
                sim_fail(w, "slots",
                         "name %d: %.8s got slot %lld, %lld was free", s->name,
                         h->id, (long long)h->slot, (long long)k);
                break;
            }
        }
    }
}

static void look_at(struct sim_world *w, int client, const struct sim_grant *g)
{
    const struct sim_client *c = &w->client[client];
    const struct sim_book *b = &w->shelf[g->name].book;
    struct snib_status st;
    snib__engine_status(c->engine, (snib_instant){sim_local(c, w->t)}, g->acq,
                        &st);
    if (st.kind != SNIB_KIND_PERMITS ||
        (st.state != SNIB_STATE_HELD && st.state != SNIB_STATE_AT_RISK)) {
        return;
    }
    for (int k = 0; k < b->holders; k++) {
        const struct sim_holder *h = &b->holder[k];
        if (h->mode == 3 && h->token == st.token && h->slot != st.slot) {
            sim_fail(w, "slots", "name %d: client %d was told %lld of %.8s",
                     g->name, client, (long long)st.slot, h->id);
        }
    }
}

/* No two who hold have one slot. */
static void look_at_two(struct sim_world *w, int client,
                        const struct sim_grant *g, int ret_of[][SIM_SLOTS])
{
    struct snib_status st;
    snib__engine_status(w->client[client].engine, sim_now(w, client), g->acq,
                        &st);
    if (st.kind != SNIB_KIND_PERMITS || st.slot >= SIM_SLOTS ||
        (st.state != SNIB_STATE_HELD && st.state != SNIB_STATE_AT_RISK)) {
        return;
    }
    int *of = &ret_of[g->name][st.slot];
    if (*of) {
        sim_fail(w, "slots", "name %d: clients %d and %d both have %d", g->name,
                 *of - 1, client, (int)st.slot);
    }
    *of = client + 1;
}

void theorem_slots_held(struct sim_world *w)
{
    int of[SIM_NAMES][SIM_SLOTS] = {{0}};
    if (w->opt.flavour != SIM_PERMITS || (w->p1_off && !sim_recovery(w))) {
        return;
    }
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        int client = i / w->opt.owners;
        const struct sim_owner *l = &w->client[client].owner[i % w->opt.owners];
        struct sim_grant g[SIM_GRANTS];
        int n = l->forced ? 0 : sim_grants(l, g);
        for (int k = 0; k < n; k++) {
            look_at_two(w, client, &g[k], of);
        }
    }
}

void theorem_slots_told(struct sim_world *w)
{
    if (w->opt.flavour != SIM_PERMITS || w->p1_off) {
        return;
    }
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        struct sim_grant g[SIM_GRANTS];
        int client = i / w->opt.owners;
        int n = sim_grants(&w->client[client].owner[i % w->opt.owners], g);
        for (int k = 0; k < n; k++) {
            look_at(w, client, &g[k]);
        }
    }
}
