/* No lost wake-up, for all kinds of locks (P6).
 *
 * At the server, after every step: one that ends a grant, cancels, changes
 * the params or lets somebody wait leaves nobody in the queue who fits, is
 * alive and is heard of. All such waiters, not only the first, are granted
 * before it returns. (In etcd nobody is told when a lease ends: a step that was
 * decided on before leaves whom it did not know; polls find them.)
 *
 * In time, checked now and then once healed: no waiter that fits sleeps longer
 * than the alive window, a push lease and a poll. And no grant stands at the
 * server for as long that nobody here has. Excused from the latter: worlds
 * where somebody has died or a clock was set back; and a lost grant with a
 * lock-delay is left to end by itself, which takes its lease. */
#include "sim/world.h"

enum { ASLEEP_MAX_MS = 7500 };

/* Was a request given anew within the lock-delay of its earlier grant? While
 * the script ran both stood, in one record; what they leave free is found by a
 * poll. */
static bool given_anew(const struct sim_step *s)
{
    for (int i = 0; i < s->is->holders; i++) {
        const struct sim_holder *h = &s->is->holder[i];
        const struct sim_holder *was = sim_holder_of(s->was, h->id);
        if (was && was->end <= s->is->now && sim_live(was, s->is->now) &&
            h->end > s->is->now) {
            return true;
        }
    }
    return false;
}

void theorem_who_fits_is_served(struct sim_world *w, const struct sim_step *s)
{
    const struct sim_waiter *x;
    const struct sim_seen *by = s->by;
    const struct sim_holder *own = sim_holder_of(s->is, by->request);
    if (by->said == SIM_SAID_ERROR || sim_recovery_runs(w)) {
        return;
    }
    /* Who asks for no recovery hands on to nobody where others do. */
    if (w->opt.unaware && sim_same(by->client, w->client[0].hex)) {
        return;
    }
    /* A lease has ended between the look and the write: nobody was told. */
    if (sim_etcd(w) && sim_etcd_left_at(w, s->name) >= by->decided) {
        return;
    }
    /* The request was too late or cancelled, or its grant stood already. */
    if (by->deed == SIM_DID_ACQUIRE &&
        (by->said == SIM_SAID_LATE || by->said == SIM_SAID_ENDED ||
         (own && !sim_is_new(s, own)))) {
        return;
    }
    if (by->deed == SIM_DID_PARAMS && s->was->size == s->is->size &&
        s->was->gate == s->is->gate) {
        return;
    }
    x = sim_book_fits(w, s->is);
    if (x && sim_recovery(w) && x->upgrade_of[0] && !sim_alone(x->mode)) {
        return; /* it waited for a recovery inside its own: its poll finds it */
    }
    if (x && !given_anew(s)) {
        sim_fail(w, "who fits is served",
                 "name %d: %.8s (mode %d, %lld) is left waiting", s->name,
                 x->id, x->mode, (long long)x->permits);
    }
}

/* The number of grants that callers have or are giving back. */
static int known(const struct sim_world *w, int name)
{
    int n = 0;
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        const struct sim_owner *l =
            &w->client[i / w->opt.owners].owner[i % w->opt.owners];
        if (l->name == name && l->state != SIM_OWNER_IDLE &&
            l->state != SIM_OWNER_WAITING && l->state != SIM_OWNER_DONE &&
            l->state != SIM_OWNER_MANY) {
            n += 1 + (l->more != NULL);
        }
        for (int k = 0; k < l->nest.depth; k++) {
            n += l->nest.in[k].name == name;
        }
    }
    return n;
}

static bool too_long(const struct sim_world *w, bool bad, int64_t most_ms,
                     int64_t *since)
{
    if (!bad) {
        *since = -1;
    } else if (*since < 0) {
        *since = w->t;
    }
    return bad && w->t - *since > most_ms * SIM_MS;
}

void theorem_nobody_sleeps_beside_room(struct sim_world *w)
{
    static _Thread_local struct sim_book b;
    for (int n = 0; sim_kinds(w) && w->healed && n < w->opt.names; n++) {
        struct sim_shelf *s = &w->shelf[n];
        int live = 0;
        sim_book_read(w, n, &b);
        for (int i = 0; i < b.holders; i++) {
            live += b.holder[i].end > b.now;
        }
        bool calm = !w->died && !w->p2_off;
        int64_t most_ms = ASLEEP_MAX_MS + sim_longer_ms(w);
        if (too_long(w, sim_book_fits(w, &b) != NULL, most_ms,
                     &s->fits_since)) {
            sim_fail(w, "nobody sleeps beside room",
                     "name %d: somebody fits and waits for %lld ms", n,
                     (long long)most_ms);
        }
        most_ms +=
            w->opt.delay_ms ? sim_lease_most(&w->opt) + w->opt.delay_ms : 0;
        if (too_long(w, calm && b.waiters && live > known(w, n), most_ms,
                     &s->ghost_since)) {
            sim_fail(w, "no ghost",
                     "name %d: %d grants at the server, %d here, for %lld ms",
                     n, live, known(w, n), (long long)most_ms);
        }
    }
}
