/* sim/table_draw.c — worlds whose store is a table: what is drawn for them.
 *
 * The drawing comes from a stream of its own and changes what was drawn for one
 * Redis, so that all other worlds stay what they were. */
#include "sim/world.h"

static const int64_t leases[] = {200, 1000, 1000, 3000};

/* Nothing is broken, and many meet at one lock: conflicts. */
static void crowd(struct sim_options *o, struct snib__rng *r)
{
    static const int64_t latencies[] = {20, 100, 500};
    o->clients = 3 + sim_upto(r, 6);
    o->owners = 1 + sim_upto(r, 2);
    o->names = 1;
    o->ops = 4;
    o->latency_us = latencies[sim_upto(r, 3)];
    o->hold_us = o->think_us = sim_upto(r, 2) ? 0 : 500;
    o->lease_ms = 3000;
    o->fault_count = 0;
}

/* Writes are lost, or their answers, or both come late; their clients ask
 * again, or give up. */
static void lost_writes(struct sim_options *o, struct snib__rng *r)
{
    static const int kinds[] = {SIM_LOSE_REPLY, SIM_LOSE_REPLY, SIM_LATE,
                                SIM_LATE,       SIM_CUT,        SIM_HALF_OPEN};
    o->lease_ms = leases[sim_upto(r, 4)];
    o->hold_us = sim_upto(r, 2) ? 5000 : 50000;
    o->think_us = 5000;
    o->timed_pct = sim_upto(r, 2) ? 50 : 0;
    o->limit_ms = sim_upto(r, 2) ? 50 : 1000;
    o->names = 1;
    o->fault_count = 3 + sim_upto(r, 10);
    for (int i = 0; i < o->fault_count; i++) {
        struct sim_fault *f = &o->fault[i];
        *f = (struct sim_fault){.at_ms = 1 + sim_upto(r, 1500),
                                .kind = kinds[sim_upto(r, 6)],
                                .a = sim_upto(r, 3) ? sim_upto(r, o->clients)
                                                    : SIM_HOLDER,
                                .b = sim_upto(r, 2)};
        f->ms = f->kind == SIM_LATE ? 1 + sim_upto(r, 1 << sim_upto(r, 14)) : 0;
    }
}

/* Clients stand still between a fetch and its write, or while they hold, until
 * others have had the lock; and then go on. */
static void frozen(struct sim_options *o, struct snib__rng *r)
{
    o->lease_ms = leases[sim_upto(r, 4)];
    o->hold_us = o->lease_ms * (sim_upto(r, 2) ? 20 : 300);
    o->think_us = 2000;
    o->clients = 2 + sim_upto(r, 3);
    o->names = 1;
    o->ops = 6;
    o->fault_count = 2 + sim_upto(r, 8);
    for (int i = 0; i < o->fault_count; i++) {
        o->fault[i] = (struct sim_fault){
            .at_ms = 1 + sim_upto(r, 2500),
            .kind = sim_upto(r, 4) ? SIM_PAUSE : SIM_SLOW,
            .a = sim_upto(r, 2) ? sim_upto(r, o->clients) : SIM_HOLDER,
            .ms = 1 + o->lease_ms * (1 + sim_upto(r, 12)) / 8};
    }
}

/* A backup is restored: what was written since is lost, and its stamps are
 * given again, while writes from before are still on their way. */
static void restored(struct sim_options *o, struct snib__rng *r)
{
    o->lease_ms = leases[sim_upto(r, 4)];
    o->hold_us = 2000;
    o->think_us = 1000;
    o->clients = 3 + sim_upto(r, 3);
    o->owners = 1 + sim_upto(r, 2);
    o->names = 1;
    o->ops = 30;
    o->fault_count = 0;
    for (int n = 1 + sim_upto(r, 6); n > 0; n--) {
        int at = 20 + sim_upto(r, 600), ms = 1 + sim_upto(r, 60);
        o->fault[o->fault_count++] =
            (struct sim_fault){.at_ms = at, .kind = SIM_PROMOTE, .ms = ms};
        for (int k = sim_upto(r, 4); k > 0; k--) {
            o->fault[o->fault_count++] = (struct sim_fault){
                .at_ms = at + sim_upto(r, ms + 2),
                .kind = sim_upto(r, 2) ? SIM_PAUSE : SIM_LATE,
                .a = sim_upto(r, o->clients),
                .b = sim_upto(r, 2),
                .ms = 5 + sim_upto(r, 80)};
        }
    }
}

/* The table's clock steps while leases run, and it restarts. */
static void strange_server(struct sim_options *o, struct snib__rng *r)
{
    static const int kinds[] = {SIM_STEP_BACK, SIM_STEP_FORWARD, SIM_RESTART,
                                SIM_FREEZE,    SIM_ERROR,        SIM_SLOW};
    static const int errors[] = {SIM_REDIS_READONLY, SIM_REDIS_NOPERM_KEY,
                                 SIM_REDIS_NOPERM_CHANNEL};
    o->fault_count = 1 + sim_upto(r, 6);
    for (int i = 0; i < o->fault_count; i++) {
        struct sim_fault *f = &o->fault[i];
        *f = (struct sim_fault){.at_ms = 1 + sim_upto(r, 2000),
                                .kind = kinds[sim_upto(r, 6)],
                                .ms = 1 + sim_upto(r, 1 << sim_upto(r, 14))};
        if (f->kind == SIM_ERROR) {
            f->a = errors[sim_upto(r, 3)];
        }
    }
}

/* Notices come late or never, while locks change hands. */
static void deaf(struct sim_options *o, struct snib__rng *r)
{
    static const int kinds[] = {SIM_CUT, SIM_HALF_OPEN, SIM_HALF_OPEN,
                                SIM_LATE};
    o->clients = 2 + sim_upto(r, 4);
    o->names = 1;
    o->ops = 8;
    o->lease_ms = sim_upto(r, 2) ? 3000 : 10000;
    o->hold_us = 20000;
    o->think_us = 5000;
    o->fault_count = 1 + sim_upto(r, 8);
    for (int i = 0; i < o->fault_count; i++) {
        o->fault[i] = (struct sim_fault){.at_ms = 1 + sim_upto(r, 1500),
                                         .kind = kinds[sim_upto(r, 4)],
                                         .a = sim_upto(r, o->clients),
                                         .b = SIM_CONNS - 1,
                                         .ms = 1 + sim_upto(r, 3000)};
    }
}

void sim_table_draw(struct sim_options *o)
{
    static void (*const focus[])(struct sim_options *, struct snib__rng *) = {
        crowd, lost_writes, frozen, restored, strange_server, deaf};
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 19, 0, 0}});
    o->table = 1;
    o->workers = 1 + sim_upto(&r, 2);
    o->spin = o->spin_pct = o->searched = 0;
    o->value_pct = o->look_pct = o->circle_pct = 0;
    int which = sim_upto(&r, 16);
    if (which < 6 && !o->force_pct && !o->many_pct) {
        focus[which](o, &r);
    }
    if (o->flavour == SIM_BARRIER) {
        o->timed_pct = 100; /* the last ones would wait for ever */
    }
    /* Each step is two round trips, and more where others meet it, since here
     * nobody locks after a conflict: a lease that is no longer than some of them
     * is never held, and over before its release has had its turn. */
    o->latency_us = o->latency_us < 2000 ? o->latency_us : 2000;
    while (o->lease_ms * 1000 <= (75 + 25 * o->clients) * o->latency_us) {
        o->lease_ms *= 2;
    }
    int64_t most = 40000000 / (o->clients * o->owners * o->ops);
    o->hold_us = o->hold_us < most ? o->hold_us : most;
}
