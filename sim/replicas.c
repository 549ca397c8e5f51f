/* sim/replicas.c — worlds of recovery= in which clients ask for replicas=1, too
 * (store/redis/confirm.c): the replica is cut off and then promoted, while the
 * old primary may go on, or wake from a standstill and do what lies in its
 * sockets (failover.c).
 *
 * Of three servers one replica is more than half of those that are neither of two
 * primaries. So exclusion holds in these worlds, though the one that is promoted
 * lacks what was acknowledged: theorems/exclusion.c.
 *
 * It would break where somebody holds at the old primary when the new one lets
 * in: a recovery after the promotion. Among drawn troubles that is rare. So in
 * half of the worlds a client or two stay at the old primary, which goes on for
 * longer than that, and all others find the new one at once.
 *
 * The drawing comes from a stream of its own. */
#include "sim/world.h"

/* The old primary goes on, or wakes, after three promotions in four. */
static void go_on(struct sim_options *o, struct snib__rng *r)
{
    int planned = o->fault_count;
    for (int i = 0; i < planned; i++) {
        struct sim_fault *f = &o->fault[i];
        if (f->kind != SIM_PROMOTE || f->b == 2 || sim_upto(r, 4) == 0) {
            continue;
        }
        f->a = 1 + sim_upto(r, 2 * (int)o->lease_ms);
        f->b = sim_upto(r, 2);
        for (int k = 0;
             k < SIM_CONNS && o->fault_count < SIM_FAULTS && sim_upto(r, 2);
             k++) { /* who connects anew finds the new one */
            o->fault[o->fault_count++] =
                (struct sim_fault){.at_ms = f->at_ms + f->ms + 1,
                                   .kind = SIM_CUT,
                                   .a = sim_upto(r, o->clients),
                                   .b = k};
        }
    }
}

/* Sections of some leases, so that renewals matter; or short ones, of which
 * each begins with a grant. */
static void sections(struct sim_options *o, struct snib__rng *r)
{
    bool longer = sim_upto(r, 2);
    o->names = o->owners = 1;
    o->clients = 3 + sim_upto(r, 2);
    o->lease_ms = sim_upto(r, 2) ? 600 : 2000;
    o->ops = longer ? 3 : 10;
    o->hold_us = o->lease_ms *
                 (longer ? 2000 + sim_upto(r, 2000) : 200 + sim_upto(r, 600));
    o->flavour = SIM_MUTEX;
    o->read_pct = o->nest_pct = o->params_pct = o->many_pct = o->all_pct = 0;
    o->try_pct = o->timed_pct = 0;
    o->delay_ms = o->lease2_ms = 0;
    o->recovery_ms = o->lease_ms * (100 + sim_upto(r, 50)) / 100;
}

static void left_behind(struct sim_options *o, struct snib__rng *r)
{
    sections(o, r);
    struct sim_fault f = {.kind = SIM_PROMOTE, .b = sim_upto(r, 2)};
    /* Somebody holds, once the first recovery is over. */
    f.at_ms = o->recovery_ms + 100 + sim_upto(r, 2 * (int)o->lease_ms);
    f.ms = 1 + sim_upto(r, (int)o->lease_ms / 2);
    f.a = (int)o->recovery_ms + sim_upto(r, 2 * (int)o->lease_ms);
    o->fault_count = 0;
    o->fault[o->fault_count++] = f;
    for (int c = 1 + sim_upto(r, 2); c < o->clients; c++) {
        for (int k = 0; k < SIM_CONNS; k++) {
            o->fault[o->fault_count++] = (struct sim_fault){
                .at_ms = f.at_ms + f.ms + 1, .kind = SIM_CUT, .a = c, .b = k};
        }
    }
}

void sim_replicas_draw(struct sim_options *o)
{
    struct snib__rng r;
    sim_recovery_draw(o);
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 53, 0, 0}});
    o->replicas = SIM_THIRD_GOES_OVER + sim_upto(&r, 3);
    o->unaware = 0;
    o->split_pct = 30 * sim_upto(&r, 2);
    if (sim_upto(&r, 2)) {
        left_behind(o, &r);
    } else {
        go_on(o, &r);
    }
}
