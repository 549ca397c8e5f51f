/* sim/replicas.c — worlds of recovery= in which clients ask for replicas=1, too
 * (store/redis/confirm.c): the replica is cut off and then promoted, while the
 * old primary may go on, or wake from a standstill and do what lies in its
 * sockets (failover.c).
 *
 * Of three servers one replica is more than half of those that are neither of two
 * primaries. So exclusion holds in these worlds, though the one that is promoted
 * lacks what was acknowledged: theorems/exclusion.c.
 *
 * The drawing comes from a stream of its own. */
#include "sim/world.h"

void sim_replicas_draw(struct sim_options *o)
{
    struct snib__rng r;
    sim_recovery_draw(o);
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 53, 0, 0}});
    o->replicas = SIM_THIRD_GOES_OVER + sim_upto(&r, 3);
    o->unaware = 0;
    int planned = o->fault_count;
    for (int i = 0; i < planned; i++) {
        struct sim_fault *f = &o->fault[i];
        if (f->kind != SIM_PROMOTE || f->b == 2 || sim_upto(&r, 4) == 0) {
            continue;
        }
        f->a = 1 + sim_upto(&r, 2 * (int)o->lease_ms);
        f->b = sim_upto(&r, 2);
        for (int k = 0;
             k < SIM_CONNS && o->fault_count < SIM_FAULTS && sim_upto(&r, 2);
             k++) { /* who connects anew finds the new one */
            o->fault[o->fault_count++] =
                (struct sim_fault){.at_ms = f->at_ms + f->ms + 1,
                                   .kind = SIM_CUT,
                                   .a = sim_upto(&r, o->clients),
                                   .b = k};
        }
    }
}
