/* sim/sections.c — worlds of few clients whose sections take about a lease, so
 * that somebody holds when something happens to the server. Worlds of a failover
 * and of a recovery begin with these. */
#include "sim/world.h"

void sim_sections_draw(struct sim_options *o, struct snib__rng *r, int ops,
                       int thousandths)
{
    static const int64_t leases[] = {600, 2000, 5000};
    *o = (struct sim_options){.seed = o->seed,
                              .clients = 2 + sim_upto(r, 3),
                              .owners = 1 + sim_upto(r, 2),
                              .names = 1 + sim_upto(r, 2),
                              .ops = ops,
                              .lease_ms = leases[sim_upto(r, 3)],
                              .latency_us = 200 + sim_upto(r, 2000),
                              .think_us = 20000,
                              .request_ms = 500,
                              .limit_ms = 3000,
                              .failover = 1};
    o->hold_us = o->lease_ms * (100 + sim_upto(r, thousandths - 100));
    o->try_pct = 20 * sim_upto(r, 2);
    o->timed_pct = 30 * sim_upto(r, 2);
}
