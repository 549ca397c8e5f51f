/* sim/work_lease.c — callers that ask for leases of two lengths, so that a
 * grant of one length may meet an owner that wants the other; and callers that
 * renew by hand (snib_renew), for as long as before, for longer or for less.
 *
 * The drawing is from a stream of its own; only these worlds are changed. */
#include "sim/world.h"

enum {
    ONE_IN = 16,
    LEAST_MS = 60,
    MOST_MS = 30000,
    BY_HAND_MAX = 4,
    TRIPS = 10
};

/* -- drawing --------------------------------------------------------------- */

/* Short sections of several owners of one client: grants are handed over. */
static void handed_on(struct sim_options *o, struct snib__rng *r)
{
    o->clients = 1 + sim_upto(r, 2);
    o->owners = 3 + sim_upto(r, SIM_OWNERS - 2);
    o->names = 1;
    o->ops = 8;
    o->hold_us = 50;
    o->think_us = 500;
    o->try_pct = o->fixed_pct = o->nopass_pct = 0;
}

/* Sections that last for some round trips and for a good part of the lease. */
static void held_for_long(struct sim_options *o, struct snib__rng *r)
{
    static const int64_t leases[] = {200, 1000, 3000};
    o->lease_ms = leases[sim_upto(r, 3)];
    o->hold_us = 20 * o->latency_us + sim_upto(r, (int)o->lease_ms * 200);
    o->fixed_pct = sim_upto(r, 2) ? 0 : 50;
    o->ops = o->ops < 4 ? o->ops : 4;
}

void sim_lease_draw(struct sim_options *o)
{
    static const int pcts[] = {0, 30, 80}, parts[] = {10, 30, 300, 1000};
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 18, 0, 0}});
    bool other = o->many_pct || o->circle_pct || o->force_pct || o->spin ||
                 o->spin_pct || o->value_pct || o->look_pct || o->nodes > 1;
    if (sim_upto(&r, ONE_IN) || other) {
        return;
    }
    o->renew_pct = pcts[sim_upto(&r, 3)];
    int which = sim_upto(&r, 4);
    if (which == 0) {
        handed_on(o, &r);
    } else if (which < 3) {
        held_for_long(o, &r);
    }
    int64_t most = 3000000 / (o->clients * o->owners * o->ops);
    o->hold_us = o->hold_us < most ? o->hold_us : most;
    int64_t second = o->lease_ms * parts[sim_upto(&r, 4)] / 100;
    int64_t trips = TRIPS * 2 * o->latency_us / 1000; /* else nobody holds it */
    o->lease2_ms = second < LEAST_MS  ? 3 * LEAST_MS
                   : second > MOST_MS ? MOST_MS / 3
                                      : second;
    o->lease2_ms = o->lease2_ms < trips ? trips : o->lease2_ms;
}

/* -- asking ---------------------------------------------------------------- */

int64_t sim_lease_ask(struct sim_world *w)
{
    const struct sim_options *o = &w->opt;
    return o->lease2_ms && sim_upto(&w->work, 2) ? o->lease2_ms : o->lease_ms;
}

/* -- renewing by hand ------------------------------------------------------ */

bool sim_lease_renew(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    struct sim_by_hand *by = &l->by_hand;
    struct snib__acquisition *s;
    if (!w->opt.renew_pct || by->asked || by->count == BY_HAND_MAX ||
        !sim_chance(w, w->opt.renew_pct)) {
        return false;
    }
    int64_t ms = sim_chance(w, 20) ? 0 : sim_lease_ask(w);
    ms = ms && sim_chance(w, 20) ? ms / 2 : ms;
    by->count++;
    theorem_renews(w, client, owner, ms);
    snib_err err = snib__engine_renew(c->engine, sim_now(w, client), l->ticket,
                                      snib__ms(ms), &s, &l->error);
    sim_note(w, "client %d owner %d renews name %d for %lld ms: %s", client,
             owner, l->name, (long long)ms, snib_err_name(err));
    if (err) {
        theorem_renewed(w, client, owner, err);
    }
    sim_owner_wake(w, client, owner, w->opt.hold_us);
    return true;
}
