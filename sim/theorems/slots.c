/* Slots of permits. At the server, after every script: two grants of permits
 * that stand never have the same slot, each has the one with which it was
 * given for as long as it stands, and a new one has the lowest that was free.
 * Those of a size that never shrank are below it.
 *
 * At the clients: whoever holds permits with his own deadline ahead was told
 * the slot that the server has for that grant, by whichever way he heard of
 * it: an answer, a repeat, a message. */
#include "sim/world.h"

/* The standing grant of permits that has it, but not `except`; or NULL. */
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
        /* A claim that nobody heard of may be over, and its request granted
         * anew while the lock-delay runs. */
        if (!sim_is_new(s, h) && was->token == h->token &&
            was->slot != h->slot) {
            sim_fail(w, "slots", "name %d: %.8s had slot %lld and has %lld",
                     s->name, h->id, (long long)was->slot, (long long)h->slot);
        }
        for (int64_t k = 0; sim_is_new(s, h) && k < h->slot; k++) {
            if (!who_has(b, k, h)) {
                sim_fail(w, "slots",
                         "name %d: %.8s got slot %lld, %lld was free", s->name,
                         h->id, (long long)h->slot, (long long)k);
                break;
            }
        }
    }
}

static bool is_holding(const struct sim_world *w, int i,
                       struct snib_status *ret)
{
    const struct sim_client *c = &w->client[i / w->opt.lanes];
    const struct sim_lane *l = &c->lane[i % w->opt.lanes];
    if (l->state != SIM_LANE_HOLDING) {
        return false;
    }
    snib__engine_status(c->engine, (snib_instant){sim_local(c, w->t)}, l->seat,
                        ret);
    return ret->kind == SNIB_PERMITS &&
           (ret->state == SNIB_HELD || ret->state == SNIB_AT_RISK);
}

void theorem_slots_told(struct sim_world *w)
{
    if (w->opt.flavour != SIM_PERMITS || w->p1_off) {
        return;
    }
    for (int i = 0; i < w->opt.clients * w->opt.lanes; i++) {
        int name = w->client[i / w->opt.lanes].lane[i % w->opt.lanes].name;
        const struct sim_book *b = &w->shelf[name].book;
        struct snib_status st;
        for (int k = 0; is_holding(w, i, &st) && k < b->holders; k++) {
            const struct sim_holder *h = &b->holder[k];
            if (h->mode == 3 && h->token == st.token && h->slot != st.slot) {
                sim_fail(w, "slots", "name %d: client %d was told %lld of %.8s",
                         name, i / w->opt.lanes, (long long)st.slot, h->id);
            }
        }
    }
}
