/* sim/etcd/draw.c — worlds whose store is a cluster of etcd: what is drawn for them.
 *
 * The drawing comes from a stream of its own and changes what was drawn for one
 * Redis, so that all other worlds stay what they were. */
#include "sim/etcd/etcd.h"

static const int64_t leases[] = {1000, 2000, 3000, 5000};

bool sim_etcd_is_built(void)
{
    return true;
}

static int64_t lease(struct snib__rng *r)
{
    return leases[sim_upto(r, 4)];
}

static void add(struct sim_options *o, struct sim_fault f)
{
    if (o->fault_count < SIM_FAULTS) {
        o->fault[o->fault_count++] = f;
    }
}

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
    o->lease_ms = 5000;
    o->fault_count = 0;
}

/* Transactions are lost, or their answers, or both come late; their clients ask
 * again, or give up. */
static void lost_writes(struct sim_options *o, struct snib__rng *r)
{
    static const int kinds[] = {SIM_LOSE_REPLY, SIM_LOSE_REPLY, SIM_LATE,
                                SIM_LATE,       SIM_CUT,        SIM_HALF_OPEN,
                                SIM_GOAWAY,     SIM_GOAWAY};
    o->lease_ms = lease(r);
    o->hold_us = sim_upto(r, 2) ? 5000 : 50000;
    o->think_us = 5000;
    o->timed_pct = sim_upto(r, 2) ? 50 : 0;
    o->limit_ms = sim_upto(r, 2) ? 50 : 1000;
    o->names = 1;
    o->ops += 6;
    o->fault_count = 0;
    for (int n = 3 + sim_upto(r, 10); n > 0; n--) {
        int kind = kinds[sim_upto(r, 8)];
        add(o,
            (struct sim_fault){
                .at_ms = 1 + sim_upto(r, 2500),
                .kind = kind,
                .a = sim_upto(r, 3) ? sim_upto(r, o->clients) : SIM_HOLDER,
                .b = sim_upto(r, o->etcd),
                .ms = kind == SIM_LATE ? 1 + sim_upto(r, 1 << sim_upto(r, 14))
                                       : 0});
    }
}

/* Clients stand still between a fetch and its transaction, or while they hold,
 * until others have had the lock; and then go on. */
static void frozen(struct sim_options *o, struct snib__rng *r)
{
    o->lease_ms = lease(r);
    o->hold_us = o->lease_ms * (sim_upto(r, 2) ? 20 : 300);
    o->think_us = 2000;
    o->clients = 2 + sim_upto(r, 3);
    o->names = 1;
    o->ops = 6;
    o->fault_count = 0;
    for (int n = 2 + sim_upto(r, 8); n > 0; n--) {
        add(o, (struct sim_fault){
                   .at_ms = 1 + sim_upto(r, 4000),
                   .kind = sim_upto(r, 4) ? SIM_PAUSE : SIM_SLOW,
                   .a = sim_upto(r, 2) ? sim_upto(r, o->clients) : SIM_HOLDER,
                   .ms = 1 + o->lease_ms * (1 + sim_upto(r, 20)) / 8});
    }
}

/* Holders are cut off, or die, and others come when their leases end: in the very
 * millisecond, where the cluster is quick. */
static void leases_end(struct sim_options *o, struct snib__rng *r)
{
    o->lease_ms = 1000 * (2 + sim_upto(r, 3)) - (sim_upto(r, 2) ? 250 : 0);
    o->latency_us = sim_upto(r, 2) ? 300 : 2000;
    o->hold_us = o->lease_ms * 400;
    o->think_us = 5000;
    o->clients = 3;
    o->owners = 1 + sim_upto(r, 2);
    o->names = 1;
    o->ops = 8;
    o->rate_ppm = sim_upto(r, 2) ? 4000 : 0;
    o->try_pct = 50;
    o->timed_pct = 30;
    o->limit_ms = 20;
    o->overrun_pct = 40;
    o->fixed_pct = o->nopass_pct = o->confirm_pct = o->reenter_pct = 0;
    o->fault_count = 0;
    for (int n = 2 + sim_upto(r, 6); n > 0; n--) {
        int kind = sim_upto(r, 5);
        add(o, (struct sim_fault){.at_ms = 1 + sim_upto(r, 9000),
                                  .kind = kind == 0   ? SIM_CRASH
                                          : kind == 1 ? SIM_PAUSE
                                                      : SIM_ISOLATE,
                                  .a = SIM_HOLDER,
                                  .b = sim_upto(r, o->etcd),
                                  .ms = o->lease_ms * 3 / 2 +
                                        sim_upto(r, (int)o->lease_ms)});
    }
}

/* A backup is restored: what was written since is lost, and its revisions are
 * given again, while transactions from before are still on their way. */
static void restored(struct sim_options *o, struct snib__rng *r)
{
    o->lease_ms = lease(r);
    o->hold_us = 2000;
    o->think_us = 1000;
    o->clients = 3 + sim_upto(r, 3);
    o->owners = 1 + sim_upto(r, 2);
    o->names = 1;
    o->ops = 30;
    o->rate_ppm = 0;
    o->fault_count = 0;
    for (int n = 1 + sim_upto(r, 4); n > 0; n--) {
        int at = 20 + sim_upto(r, 900), ms = 1 + sim_upto(r, 60);
        add(o, (struct sim_fault){.at_ms = at,
                                  .kind = SIM_PROMOTE,
                                  .a = sim_upto(r, 2),
                                  .ms = ms});
        for (int k = sim_upto(r, 4); k > 0; k--) {
            add(o, (struct sim_fault){.at_ms = at + sim_upto(r, ms + 2),
                                      .kind =
                                          sim_upto(r, 2) ? SIM_PAUSE : SIM_LATE,
                                      .a = sim_upto(r, o->clients),
                                      .b = sim_upto(r, o->etcd),
                                      .ms = 5 + sim_upto(r, 80)});
        }
    }
}

/* Members stand still, restart, do not reach each other, hand over: for less than
 * an election takes, or for longer. */
static void members(struct sim_options *o, struct snib__rng *r)
{
    static const int kinds[] = {SIM_FREEZE, SIM_APART,   SIM_APART,
                                SIM_LEADER, SIM_RESTART, SIM_REFUSE};
    o->etcd = SIM_MEMBERS;
    o->lease_ms = lease(r);
    o->hold_us = o->lease_ms * (sim_upto(r, 2) ? 30 : 400);
    o->think_us = 3000;
    o->ops = 5 + sim_upto(r, 5);
    o->clients = 2 + sim_upto(r, 4);
    o->names = 1;
    o->timed_pct = sim_upto(r, 2) ? 40 : 0;
    o->fault_count = 0;
    for (int n = 2 + sim_upto(r, 7); n > 0; n--) {
        add(o, (struct sim_fault){.at_ms = 1 + sim_upto(r, 5000),
                                  .kind = kinds[sim_upto(r, 6)],
                                  .a = sim_upto(r, o->clients),
                                  .b = sim_upto(r, SIM_MEMBERS),
                                  .ms = 1 + sim_upto(r, 1 << sim_upto(r, 13))});
    }
}

/* Nobody is told of a grant, while locks change hands. */
static void deaf(struct sim_options *o, struct snib__rng *r)
{
    static const int kinds[] = {SIM_CUT, SIM_HALF_OPEN, SIM_UNWATCH,
                                SIM_UNWATCH, SIM_LATE};
    o->clients = 2 + sim_upto(r, 4);
    o->names = 1;
    o->ops = 8;
    o->lease_ms = sim_upto(r, 2) ? 3000 : 10000;
    o->hold_us = 20000;
    o->think_us = 5000;
    o->fault_count = 0;
    for (int n = 1 + sim_upto(r, 8); n > 0; n--) {
        add(o, (struct sim_fault){.at_ms = 1 + sim_upto(r, 1500),
                                  .kind = kinds[sim_upto(r, 5)],
                                  .a = sim_upto(r, o->clients),
                                  .b = sim_upto(r, o->etcd),
                                  .ms = 1 + sim_upto(r, 3000)});
    }
}

/* The cluster says no for reasons of its own. */
static void unfit(struct sim_options *o, struct snib__rng *r)
{
    static const int errors[] = {SIM_REDIS_LOADING, SIM_REDIS_LOADING,
                                 SIM_REDIS_BUSY, SIM_REDIS_OOM,
                                 SIM_REDIS_NOPERM_KEY};
    o->lease_ms = lease(r);
    o->hold_us = o->lease_ms * (sim_upto(r, 2) ? 30 : 300);
    o->think_us = 5000;
    o->names = 1;
    o->fault_count = 0;
    for (int n = 1 + sim_upto(r, 3); n > 0; n--) {
        add(o, (struct sim_fault){.at_ms = 1 + sim_upto(r, 3000),
                                  .kind = SIM_ERROR,
                                  .a = errors[sim_upto(r, 5)],
                                  .ms = 1 + sim_upto(r, 3000)});
    }
}

/* A swarm for one Redis: what etcd does not know is something else here. Its
 * errors are told by the focus above: else they last until all is healed. */
static void translate(struct sim_options *o, struct snib__rng *r)
{
    for (int i = 0; i < o->fault_count; i++) {
        struct sim_fault *f = &o->fault[i];
        f->b = sim_upto(r, o->etcd);
        f->kind = f->kind == SIM_STEP_BACK || f->kind == SIM_STEP_FORWARD
                      ? SIM_APART
                  : f->kind == SIM_WIPE         ? SIM_PROMOTE
                  : f->kind == SIM_SCRIPT_FLUSH ? SIM_UNWATCH
                  : f->kind == SIM_ERROR        ? SIM_LEADER
                                                : f->kind;
    }
}

void sim_etcd_draw(struct sim_options *o)
{
    static void (*const focus[])(struct sim_options *, struct snib__rng *) = {
        crowd, lost_writes, frozen, leases_end, restored, members, deaf, unfit};
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 63, 0, 0}});
    o->etcd = sim_upto(&r, 2) ? SIM_MEMBERS : 1;
    o->spin = o->spin_pct = o->searched = 0;
    o->value_pct = o->look_pct = o->circle_pct = 0;
    o->skew_ms = sim_upto(&r, 4) ? 0 : 500;
    int which = sim_upto(&r, 16);
    if (which < 8 && !o->force_pct && !o->many_pct) {
        focus[which](o, &r);
    } else {
        translate(o, &r);
    }
    /* When the delay begins is read from a row, by another host's clock: the book
     * does not know whether a grant may still be upgraded by then. */
    o->nest_pct = o->delay_ms ? 0 : o->nest_pct;
    if (o->flavour == SIM_BARRIER) {
        o->timed_pct = 100; /* the last ones would wait for ever */
    }
    /* Each step is two round trips, and more where others meet it. */
    o->latency_us = o->latency_us < 2000 ? o->latency_us : 2000;
    while (o->lease_ms * 1000 <= (150 + 50 * o->clients) * o->latency_us) {
        o->lease_ms *= 2;
    }
    int64_t most = 40000000 / (o->clients * o->owners * o->ops);
    o->hold_us = o->hold_us < most ? o->hold_us : most;
}
