/* sim/work_keep.c — worlds in which clients keep what their owners release
 * (core/claim_keep.c): owners that want the same lock again and again, mostly
 * alone, beside others that want it now and then.
 *
 * The drawing is from a stream of its own, and only these worlds are changed. */
#include "sim/world.h"

static const int times_ms[] = {1, 5, 20, 100, 1000};

/* One client, which nobody disturbs, has a lock again and again for longer than
 * it may without asking the store. */
static void for_long(struct sim_options *o)
{
    o->clients = o->owners = o->names = 1;
    o->flavour = SIM_MUTEX;
    o->keeper_pct = 100;
    o->keeper_ms = 1000;
    o->lease_ms = 10000;
    o->think_us = 50000;
    o->ops = 60;
    o->fault_count = 0;
    o->try_pct = o->fixed_pct = o->nopass_pct = o->params_pct = 0;
}

void sim_keep_draw(struct sim_options *o)
{
    static const int64_t thinks[] = {0, 50, 500, 5000, 50000};
    static const int64_t leases[] = {200, 1000, 3000, 10000};
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 33, 0, 0}});
    o->flavour = sim_upto(&r, 4) ? SIM_MUTEX : SIM_RW;
    o->read_pct = 30;
    o->delay_ms = o->nest_pct = 0;
    o->keeper_pct = sim_upto(&r, 2) ? 100 : 60;
    o->keeper_ms = times_ms[sim_upto(&r, 5)];
    o->clients = 1 + sim_upto(&r, 4);
    o->owners = 1 + sim_upto(&r, 2);
    o->names = 1 + sim_upto(&r, 2);
    o->lease_ms = leases[sim_upto(&r, 4)];
    o->ops = 20 + sim_upto(&r, 80) / o->clients;
    o->hold_us = o->hold_us < 5000 ? o->hold_us : 5000;
    o->think_us = thinks[sim_upto(&r, 5)];
    o->overrun_pct = 0;
    if (sim_upto(&r, 3)) {
        o->fixed_pct = o->nopass_pct = 0;
    }
    if (sim_upto(&r, 3)) {
        o->try_pct = 0;
    }
    if (sim_upto(&r, 16) == 0) {
        for_long(o);
    }
}

uint16_t sim_keep_ask(struct sim_world *w)
{
    return w->opt.keeper_pct && sim_chance(w, w->opt.keeper_pct)
               ? (uint16_t)w->opt.keeper_ms
               : 0;
}
