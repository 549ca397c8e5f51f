/* sim/sql/draw.c — worlds whose store is a database: those of a table, and what is
 * drawn besides.
 *
 * The drawing comes from a stream of its own. */
#include "sim/world.h"

bool sim_sql_is_built(void)
{
    return true;
}

static void add(struct sim_options *o, struct sim_fault f)
{
    if (o->fault_count < SIM_FAULTS) {
        o->fault[o->fault_count++] = f;
    }
}

/* The server is killed and comes back, again and again; what was committed last,
 * and not durably, may be lost. */
static void crashes(struct sim_options *o, struct snib__rng *r)
{
    o->names = 1;
    o->clients = 2 + sim_upto(r, 4);
    o->ops = 8;
    o->lease_ms = sim_upto(r, 2) ? 1000 : 3000;
    o->hold_us = sim_upto(r, 2) ? 5000 : 200000;
    o->think_us = 3000;
    o->fault_count = 0;
    for (int n = 1 + sim_upto(r, 6); n > 0; n--) {
        add(o, (struct sim_fault){.at_ms = 1 + sim_upto(r, 2500),
                                  .kind = SIM_RESTART,
                                  .ms = 1 + sim_upto(r, 1 << sim_upto(r, 12))});
    }
}

/* Many wait, so steps lock their rows; clients stand still inside their
 * transactions, are cut off there, or die. */
static void inside(struct sim_options *o, struct snib__rng *r)
{
    static const int kinds[] = {SIM_PAUSE,     SIM_PAUSE, SIM_CUT,
                                SIM_HALF_OPEN, SIM_CRASH, SIM_LATE};
    o->names = 1;
    o->clients = 3 + sim_upto(r, 4);
    o->ops = 8;
    o->lease_ms = sim_upto(r, 2) ? 1000 : 3000;
    o->latency_us = sim_upto(r, 2) ? 500 : 2000;
    o->hold_us = sim_upto(r, 2) ? 500 : 20000;
    o->think_us = 1000;
    o->fault_count = 0;
    for (int n = 3 + sim_upto(r, 12); n > 0; n--) {
        add(o, (struct sim_fault){.at_ms = 1 + sim_upto(r, 800),
                                  .kind = kinds[sim_upto(r, 6)],
                                  .a = sim_upto(r, o->clients),
                                  .b = sim_upto(r, 2),
                                  .ms = 1 + sim_upto(r, 1 << sim_upto(r, 13))});
    }
}

/* Transactions fail for no reason of ours. */
static void serialized(struct sim_options *o, struct snib__rng *r)
{
    o->names = 1;
    o->lease_ms = 3000;
    o->fault_count = 0;
    add(o, (struct sim_fault){.at_ms = 1 + sim_upto(r, 500),
                              .kind = SIM_ERROR,
                              .a = SIM_REDIS_BUSY,
                              .ms = 1 + sim_upto(r, 3000)});
}

void sim_sql_draw(struct sim_options *o)
{
    static void (*const focus[])(struct sim_options *, struct snib__rng *) = {
        crashes, inside, serialized};
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 73, 0, 0}});
    sim_table_draw(o);
    o->sql = 1;
    o->workers = 2;
    int which = sim_upto(&r, 12);
    if (which < 3 && !o->force_pct && !o->many_pct) {
        focus[which](o, &r);
    }
    while (o->lease_ms * 1000 <= (150 + 50 * o->clients) * o->latency_us) {
        o->lease_ms *= 2;
    }
    if (o->flavour == SIM_BARRIER) {
        o->timed_pct = 100;
    }
}
