/* sim/rare.c — worlds of rare trouble where free mutexes are taken without a
 * script (store/redis/packet.c): what was asked arrives when its client holds
 * the lock anew, many seconds later; a login loses a right; who holds without a
 * token that the server knows is ended by force beside readers; days pass; the
 * server stands still for less than a lease; its clock is set back; somebody
 * else writes under a lock's keys.
 *
 * The drawing comes from a stream of its own. It takes the place of what was
 * drawn for other worlds, so those stay what they were. */
#include "sim/world.h"

/* Nobody gives up, tries, keeps a fixed lease or hands nothing on, unless it is
 * drawn below. */
static void plain(struct sim_options *o)
{
    *o = (struct sim_options){.seed = o->seed,
                              .clients = 2,
                              .owners = 1,
                              .names = 1,
                              .ops = 12,
                              .lease_ms = 10000,
                              .latency_us = 500,
                              .hold_us = 200000,
                              .think_us = 500000,
                              .request_ms = 500,
                              .limit_ms = 3000};
}

static void add(struct sim_options *o, int64_t at_ms, int kind, int a, int b,
                int64_t ms)
{
    if (o->fault_count < SIM_FAULTS) {
        o->fault[o->fault_count++] = (struct sim_fault){
            .at_ms = at_ms, .kind = kind, .a = a, .b = b, .ms = ms};
    }
}

/* A yield or its cancel is held back for longer than any tombstone lasts, in
 * which time nobody asks for anything. When it arrives, its client holds the same
 * lock by another request. */
static void late_ends(struct sim_options *o, struct snib__rng *r)
{
    int64_t at = 1500;
    o->clients = 1 + sim_upto(r, 2);
    o->owners = 2 + sim_upto(r, 2);
    o->ops = 40;
    o->hold_us = 300000;
    o->think_us = 300000;
    o->timed_pct = 100;
    o->limit_ms = 1000;
    for (int n = 0; n < 3; n++) {
        int64_t sleep = 11000 + sim_upto(r, 2000);
        int64_t late = sleep + 500 + sim_upto(r, 6000);
        int client = sim_upto(r, o->clients);
        at += sim_upto(r, 1000);
        add(o, at, SIM_LATE, client, 1, late);
        if (sim_upto(r, 4)) {
            add(o, at + sim_upto(r, 3), SIM_LATE, client, 0, late);
        }
        at += 300 + sim_upto(r, 700);
        add(o, at, SIM_SLEEP, 0, 0, sleep);
        at += sleep + 7000;
    }
}

/* A right is taken from the login while it is connected. */
static void lost_rights(struct sim_options *o, struct snib__rng *r)
{
    o->clients = 3;
    o->hold_us = 400000;
    int what = sim_upto(r, 2 + SIM_DENIED);
    bool renamed = what >= SIM_DENIED; /* exec, as a proxy may */
    add(o, 300 + sim_upto(r, 3000), SIM_DENY, renamed ? SIM_DENIED - 1 : what,
        renamed, 1000 + sim_upto(r, 2000));
}

/* Readers wait behind a mutex that was granted without a script, and it is ended
 * by force. What that leaves keeps the lock to scripts for ten seconds. */
static void forced_beside_readers(struct sim_options *o, struct snib__rng *r)
{
    int64_t at = 2000;
    o->flavour = SIM_RW;
    o->mixed = 1;
    o->read_pct = 40 + sim_upto(r, 30);
    o->force_pct = 30;
    o->clients = 4;
    o->ops = 30;
    o->lease_ms = 3000;
    o->hold_us = 300000;
    for (int n = 0; n < 5; n++) {
        add(o, at, SIM_SLEEP, 0, 0, 12000);
        at += 12000 + 1500 + sim_upto(r, 2000);
    }
}

/* Bursts of work, hours apart. At the end the clock is set back, and another
 * process asks. */
static void days(struct sim_options *o, struct snib__rng *r)
{
    const int64_t hour = 3600000;
    int64_t at = 3000;
    o->flavour = SIM_RW;
    o->mixed = 1;
    o->read_pct = 40 + sim_upto(r, 50);
    o->clients = 1;
    o->ops = 80;
    o->hold_us = 5000;
    o->think_us = 300000;
    for (int i = 0; i < 4; i++) {
        int64_t ms = hour * 10 + sim_upto(r, (int)(2 * hour));
        add(o, at, SIM_SLEEP, 0, 0, ms);
        at += ms + 2000 + sim_upto(r, 2000);
    }
    add(o, at, SIM_SLEEP, 0, 0, 9 * hour);
    at += 9 * hour;
    add(o, at - 2, SIM_STEP_BACK, 0, 0, 10 * hour);
    add(o, at - 1, SIM_CRASH, 0, 0, 1);
}

/* The server stands still for a part of the lease. The owners begin one after
 * another, so that the renewals of some do not take along those of all. */
static void stalls(struct sim_options *o, struct snib__rng *r)
{
    o->lease_ms = 30000;
    o->clients = 1; /* a push lease is shorter than that */
    o->owners = 3;
    o->names = 4;
    o->ops = 2;
    o->hold_us = 12000000;
    o->think_us = 7000000;
    add(o, 4000 + sim_upto(r, 9000), SIM_FREEZE, 0, 0, 5400 + sim_upto(r, 600));
}

/* The clock was ahead and is set back: requests of before keep nobody out any
 * more, those of later ones no longer than ever. */
static void clock_back(struct sim_options *o, struct snib__rng *r)
{
    o->owners = 2;
    o->ops = 40;
    o->hold_us = 300000;
    o->think_us = 600000;
    o->timed_pct = 100;
    o->limit_ms = 400;
    add(o, 500 + sim_upto(r, 3000), SIM_STEP_BACK, 0, 0,
        60000 + sim_upto(r, 600000));
    add(o, 40000, SIM_SLOW, 0, 0, 1); /* not healed before that */
}

/* A holder has died, the clock is set back, and the others only try. */
static void dead_and_clock_back(struct sim_options *o, struct snib__rng *r)
{
    int64_t at = 500 + sim_upto(r, 2000);
    o->clients = 3;
    o->ops = 60;
    o->lease_ms = 3000;
    o->hold_us = 20000;
    o->think_us = 300000;
    o->try_pct = 100;
    for (int i = 0; i < 4; i++) {
        add(o, at, SIM_CRASH, SIM_HOLDER, 0, 1);
        add(o, at, SIM_STEP_BACK, 0, 0, 20000 + sim_upto(r, 40000));
        at += 4000 + sim_upto(r, 2000);
    }
}

/* The first packets are under way when their connection breaks. */
static void first_cut(struct sim_options *o, struct snib__rng *r)
{
    o->clients = 1;
    o->owners = 4;
    o->names = 4;
    o->latency_us = 20000;
    o->hold_us = 1000;
    o->think_us = 30000;
    add(o, 100 + sim_upto(r, 500), SIM_CUT, 0, 0, 1);
}

/* What travels together has leases of two lengths, and so ends at two instants;
 * and what is known of the clock is as old as an answer is under way. */
static void two_leases(struct sim_options *o, struct snib__rng *r)
{
    o->owners = SIM_OWNERS;
    o->names = SIM_NAMES;
    o->ops = 12;
    o->latency_us = 20000;
    o->lease_ms = 2000 + sim_upto(r, 500);
    o->lease2_ms = 5000;
    o->hold_us = 1000;
    o->think_us = 4000;
}

/* Somebody else writes under the keys of the locks. */
static void foreign(struct sim_options *o, struct snib__rng *r)
{
    int what = sim_upto(r, SIM_FOREIGNS);
    int64_t at = 300 + sim_upto(r, 2000);
    o->force_pct = 1; /* and by hand */
    o->clients = 3;
    o->names = 2;
    o->hold_us = 100000;
    o->think_us = 200000;
    if (what == SIM_TOKEN_FAR) {
        o->flavour = SIM_RW;
        o->mixed = 1;
        o->read_pct = 50;
    }
    if (what == SIM_THIN_DAMAGED || what == SIM_THIN_FOREVER) {
        o->names = 1;
        add(o, at, SIM_CRASH, SIM_HOLDER, 0, 1); /* nobody gives it back */
    }
    add(o, at, SIM_FOREIGN, what, sim_upto(r, o->names),
        1000 + sim_upto(r, 1500));
}

typedef void draw_fn(struct sim_options *, struct snib__rng *);
static draw_fn *const draws[] = {late_ends,
                                 two_leases,
                                 lost_rights,
                                 forced_beside_readers,
                                 days,
                                 stalls,
                                 dead_and_clock_back,
                                 first_cut,
                                 clock_back,
                                 foreign,
                                 foreign,
                                 foreign};

void sim_rare_draw(struct sim_options *o)
{
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 41, 0, 0}});
    plain(o);
    /* Each of them with clients that remember and with others: keen.c. */
    draws[o->seed / 2 % (sizeof draws / sizeof draws[0])](o, &r);
}
