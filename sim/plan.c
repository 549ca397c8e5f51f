/* sim/plan.c — what a seed means: the options and the faults of its world.
 *
 * Options and faults are drawn before the run from a stream of their own and
 * are data: printed, read back, shrunk. The seeds are a swarm (Groce et al.,
 * Swarm Testing, 2012): each takes a random subset of the kinds of faults,
 * often none or one, because faults mask each other. */
#include <string.h>

#include "sim/world.h"

static int64_t pick(struct snib__rng *r, const int64_t *v, int n)
{
    return v[snib__rng_below(r, (uint64_t)n)];
}

static const int errors[] = {
    SIM_REDIS_LOADING,    SIM_REDIS_BUSY,       SIM_REDIS_READONLY,
    SIM_REDIS_OOM,        SIM_REDIS_MISCONF,    SIM_REDIS_NOREPLICAS,
    SIM_REDIS_NOAUTH,     SIM_REDIS_NOPERM_KEY, SIM_REDIS_NOPERM_CHANNEL,
    SIM_REDIS_MASTERDOWN, SIM_REDIS_MAXCLIENTS};

/* About how long the world works when nothing is broken: later faults would
 * meet nobody. */
static int busy_ms(const struct sim_options *o)
{
    int64_t queue = (int64_t)o->clients * o->owners / o->names + 1;
    int64_t us =
        o->ops * (o->think_us + queue * (o->hold_us + 4 * o->latency_us));
    us += o->overrun_pct ? o->lease_ms * 1000 : 0;
    return us < 10000 ? 10 : us < 4000000 ? (int)(us / 1000) : 4000;
}

/* Which kinds of faults a swarm may draw, and for how long. */
struct menu {
    bool allowed[SIM_FAULT_KINDS];
    int most;         /* faults, at most */
    int64_t within;   /* ms from the start; 0: while there is work */
    int64_t least_ms; /* each as long as this and up to twice; 0: any */
    int conn;         /* of faults of a connection; -1: any */
    bool slow_first;  /* every second one is a slow spell before the last */
    bool holder;      /* it meets the holder, not a client drawn here */
};

static void draw_fault(struct sim_options *o, struct snib__rng *r,
                       struct sim_fault *f, const struct menu *m)
{
    static const int64_t lengths[] = {5, 50, 300, 1000, 3000, 8000};
    do {
        f->kind = sim_upto(r, SIM_FAULTS_DRAWN);
    } while (!m->allowed[f->kind]);
    f->at_ms = 1 + sim_upto(r, m->within ? (int)m->within : busy_ms(o));
    f->ms = pick(r, lengths, 6);
    f->a =
        m->holder || sim_upto(r, 4) == 0 ? SIM_HOLDER : sim_upto(r, o->clients);
    f->b = sim_upto(r, 3);
    if (m->least_ms) {
        f->ms = m->least_ms + sim_upto(r, (int)m->least_ms);
    }
    if (f->kind == SIM_ERROR) {
        f->a = errors[sim_upto(r, (int)(sizeof errors / sizeof errors[0]))];
    } else if (f->kind == SIM_EVICT) {
        f->a = sim_upto(r, o->names);
    } else if (m->conn >= 0) {
        f->b = m->conn;
    }
}

/* -- focus: swarms that look for one kind of trouble ----------------------- */

/* More local hand-overs than one grant has tokens for. */
static void long_local_claims(struct sim_options *o)
{
    o->clients = 2;
    o->owners = SIM_OWNERS;
    o->names = 1;
    o->ops = 24;
    o->hold_us = o->think_us = 0;
    o->try_pct = o->timed_pct = o->fixed_pct = o->nopass_pct = 0;
    o->lease_ms = 3000;
}

/* Late copies need patient and impatient callers. */
static void late_copies(struct sim_options *o, struct snib__rng *r,
                        struct menu *m)
{
    static const int64_t holds[] = {20000, 20000, 200000};
    *m = (struct menu){.most = 8, .conn = -1};
    m->allowed[SIM_LATE] = true;
    o->timed_pct = 50;
    o->lease_ms = 10000;
    o->hold_us = pick(r, holds, 3);
}

/* A short lease, a holder that is cut off and outstays it, and others that ask
 * all the time, so that somebody is granted in the very ms when it ends. If the
 * holder's deadline counts from too late an instant (the receipt of an answer,
 * a hand-over), both hold. Best seen when the holder's last answer was slow and
 * the others' are not. */
static void cut_off(struct sim_options *o, struct snib__rng *r, struct menu *m)
{
    *m = (struct menu){
        .most = 8, .conn = -1, .slow_first = sim_upto(r, 2), .holder = true};
    m->allowed[SIM_ISOLATE] = true;
    o->clients = 3;
    o->owners = 2 + sim_upto(r, 2);
    o->names = 1;
    o->ops = 30;
    o->lease_ms = 200;
    o->latency_us = m->slow_first ? 300 : 2000;
    o->hold_us = 500;
    o->think_us = 5000;
    o->limit_ms = 20;
    o->try_pct = 30;
    o->timed_pct = 70;
    o->fixed_pct = o->nopass_pct = o->confirm_pct = o->reenter_pct = 0;
    o->overrun_pct = 50;
    m->within = 800;
    m->least_ms = o->lease_ms * 3 / 2;
}

/* A long lease and sections about as long. */
static void long_holds(struct sim_options *o)
{
    o->clients = 3;
    o->owners = 1;
    o->names = 1;
    o->ops = 2;
    o->lease_ms = 10000;
    o->hold_us = 7000000;
    o->try_pct = o->timed_pct = o->fixed_pct = o->confirm_pct = 0;
    o->overrun_pct = 0;
}

/* A holder is cut off: a push lease is only a part of the lease, and clock
 * rates make it differ by more than the others' polls are late. */
static void cut_off_for_long(struct sim_options *o, struct snib__rng *r,
                             struct menu *m)
{
    *m = (struct menu){.most = 4, .conn = -1, .within = 20000, .holder = true};
    m->allowed[sim_upto(r, 2) ? SIM_ISOLATE : SIM_PAUSE] = true;
    m->least_ms = 12000;
    long_holds(o);
    o->rate_ppm = 4000;
}

/* The background thread's connection breaks, and nothing else: no lock may be
 * lost. */
static void lost_renewals(struct sim_options *o, struct snib__rng *r,
                          struct menu *m)
{
    static const int kinds[] = {SIM_CUT, SIM_LOSE_REPLY, SIM_HALF_OPEN};
    *m = (struct menu){.most = 4, .conn = 1, .within = 10000, .least_ms = 5};
    m->allowed[kinds[sim_upto(r, 3)]] = true;
    long_holds(o);
}

/* Callers give up while their request is on its way on a slow net, and what
 * should end it does not arrive: a grant must not stay for nobody. */
static void impatient(struct sim_options *o, struct snib__rng *r,
                      struct menu *m)
{
    static const int kinds[] = {SIM_ISOLATE, SIM_HALF_OPEN, SIM_LATE,
                                SIM_LOSE_REPLY};
    *m = (struct menu){.most = 8, .conn = -1};
    m->allowed[SIM_SLOW] = sim_upto(r, 2);
    m->allowed[kinds[sim_upto(r, 4)]] = m->allowed[kinds[sim_upto(r, 4)]] =
        true;
    o->clients = 2 + sim_upto(r, 3);
    o->owners = 2 + sim_upto(r, 2);
    o->names = 1;
    o->lease_ms = 30000;
    o->latency_us = sim_upto(r, 2) ? 2000 : 20000;
    o->limit_ms = o->latency_us * 6 / 1000;
    o->timed_pct = 50;
    o->try_pct = 0;
    o->hold_us = 5000;
}

/* The connection of the callers dies unseen while they wait with short limits:
 * with a cancel in it, or a poll that arrives when its grant is long over. */
static void deaf_callers(struct sim_options *o, struct snib__rng *r,
                         struct menu *m)
{
    static const int64_t leases[] = {200, 1000, 10000};
    *m = (struct menu){.most = 8, .conn = 0};
    m->allowed[sim_upto(r, 3) ? SIM_LATE : SIM_HALF_OPEN] = true;
    m->least_ms = 1000;
    o->clients = 3 + sim_upto(r, 2);
    o->owners = 1 + sim_upto(r, 3);
    o->names = 1;
    o->lease_ms = pick(r, leases, 3);
    o->hold_us = 20000;
    o->limit_ms = sim_upto(r, 2) ? 100 : 500;
    o->timed_pct = 70;
    o->try_pct = 0;
}

/* A server that says no for reasons of its own, and callers that only try. */
static void refusing(struct sim_options *o, struct menu *m)
{
    *m = (struct menu){.most = 4, .conn = -1, .within = 3000};
    m->allowed[SIM_ERROR] = true;
    m->least_ms = 4000;
    o->clients = 2;
    o->owners = 1;
    o->ops = 12;
    o->lease_ms = 200;
    o->hold_us = 5000;
    o->think_us = 400000;
    o->try_pct = 80;
}

static void focus(struct sim_options *o, struct snib__rng *r, struct menu *m)
{
    int which = sim_upto(r, 32);
    if (which < 2) {
        long_local_claims(o);
    } else if (which < 5) {
        late_copies(o, r, m);
    } else if (which < 8) {
        cut_off(o, r, m);
    } else if (which < 10) {
        cut_off_for_long(o, r, m);
    } else if (which < 11) {
        lost_renewals(o, r, m);
    } else if (which < 14) {
        impatient(o, r, m);
    } else if (which < 16) {
        deaf_callers(o, r, m);
    } else if (which < 17) {
        refusing(o, m);
    }
}

/* -- free mutexes, which are taken without a script -------------------------- */

/* Late copies of a packet. Its connection is given up first, and the repeat by
 * another one is granted, or has to wait until its limit is over. Where the
 * server's clock steps back they come when a tombstone of ten seconds has
 * ended. */
static void late_packets(struct sim_options *o, struct menu *m, bool steps)
{
    *m = (struct menu){.most = 8, .conn = 0, .least_ms = steps ? 9000 : 0};
    m->allowed[SIM_LATE] = true;
    m->allowed[SIM_STEP_BACK] = steps;
    o->clients = 3;
    o->owners = 2;
    o->names = 2;
    o->lease_ms = 10000;
    o->hold_us = steps ? 500 : 200000;
    o->try_pct = steps ? 40 : o->try_pct;
    o->timed_pct = 50;
    o->limit_ms = 700;
}

/* A late release comes when the lease is over and another holds, and before it
 * was sent again. */
static void late_releases(struct sim_options *o, struct menu *m)
{
    *m = (struct menu){.most = 8, .conn = 0, .least_ms = 220};
    m->allowed[SIM_LATE] = true;
    o->clients = 3;
    o->owners = 1;
    o->names = 1;
    o->lease_ms = 200;
    o->hold_us = 60000;
    o->overrun_pct = 0;
}

/* Holders die, and the one that waits stands still at that instant: others come
 * that have not waited. */
static void dead_holders(struct sim_options *o, struct menu *m)
{
    *m = (struct menu){.most = 12, .conn = -1};
    m->allowed[SIM_CRASH] = m->allowed[SIM_PAUSE] = true;
    o->clients = 4;
    o->owners = 1;
    o->names = 1;
    o->lease_ms = 1000;
    o->hold_us = 5000;
    o->try_pct = 30;
    o->timed_pct = o->overrun_pct = 0;
}

/* A lock that is free when it is asked for is seldom drawn: in one world of four
 * owners take their time, and have more locks and more turns, unless these are
 * long. */
bool sim_calm(const struct sim_options *o)
{
    return o->seed % 4 == 3 && o->flavour == 0;
}

static void calm(struct sim_options *o, struct menu *m)
{
    if (!sim_calm(o)) {
        return;
    }
    if (o->seed % 64 == 39) {
        late_releases(o, m);
    } else if (o->seed % 16 == 7) {
        late_packets(o, m, o->seed % 32 == 23);
    } else if (o->seed % 32 == 15) {
        dead_holders(o, m);
    } else if (o->hold_us >= 1000000) {
        return;
    } else {
        o->names = o->names < 3 ? o->names + 1 : o->names;
    }
    o->think_us = 30000;
    o->ops += 6;
    o->fixed_pct = o->nopass_pct = 0;
}

void sim_options_draw(struct sim_options *o, uint64_t seed)
{
    static const int64_t leases[] = {60, 200, 1000, 3000, 10000, 30000};
    static const int64_t latencies[] = {20, 100, 500, 2000};
    static const int64_t holds[] = {0, 50, 500, 5000, 50000};
    static const int64_t pcts[] = {0, 0, 10, 50};
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{seed, 9, 0, 0}});
    *o =
        (struct sim_options){.seed = seed, .request_ms = 500, .limit_ms = 3000};
    o->clients = 1 + sim_upto(&r, 5);
    o->owners = 1 + sim_upto(&r, 3);
    o->names = 1 + sim_upto(&r, 2);
    o->ops = 2 + sim_upto(&r, 6);
    o->lease_ms = pick(&r, leases, 6);
    o->latency_us = pick(&r, latencies, 4);
    o->hold_us = pick(&r, holds, 5);
    if (o->lease_ms <= 3000 && sim_upto(&r, 3) == 0) {
        int64_t most = 15000000 / (o->clients * o->owners * o->ops);
        o->hold_us = o->lease_ms * 400; /* so that renewals matter */
        o->hold_us = o->hold_us < most ? o->hold_us : most;
    }
    o->think_us = pick(&r, holds, 5);
    o->try_pct = (int)pick(&r, pcts, 4);
    o->timed_pct = (int)pick(&r, pcts, 4);
    o->fixed_pct = (int)pick(&r, pcts, 4);
    o->reenter_pct = (int)pick(&r, pcts, 4);
    o->confirm_pct = (int)pick(&r, pcts, 4);
    o->nopass_pct = (int)pick(&r, pcts, 4);
    o->overrun_pct = sim_upto(&r, 3) ? 0 : 30;
    o->rate_ppm = sim_upto(&r, 2) ? 0 : 4000;
    o->split_pct = (int)pick(&r, pcts, 4);
    struct menu m = {.conn = -1};
    int kinds = sim_upto(&r, 4); /* none, one, or a few */
    for (int i = 0; i < kinds; i++) {
        m.allowed[sim_upto(&r, SIM_FAULTS_DRAWN)] = true;
        m.most = 8;
    }
    focus(o, &r, &m);
    sim_kinds_draw(o);
    calm(o, &m);
    o->fault_count = m.most ? 1 + sim_upto(&r, m.most) : 0;
    for (int i = 0; i < o->fault_count; i++) {
        draw_fault(o, &r, &o->fault[i], &m);
        if (m.slow_first && i % 2) {
            const struct sim_fault *last = &o->fault[i - 1];
            o->fault[i].kind = SIM_SLOW;
            o->fault[i].ms = 50 + sim_upto(&r, 100);
            o->fault[i].at_ms = last->at_ms - o->fault[i].ms - sim_upto(&r, 50);
            if (o->fault[i].at_ms < 1) {
                o->fault[i].at_ms = 1;
            }
        }
    }
}
