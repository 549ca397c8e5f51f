/* sim/recovery.c — worlds in which clients ask for recovery= (store/redis/
 * recovery.c), and the server forgets: it is restarted empty, or emptied; a
 * replica that lags is promoted, when the old primary is dead (failover.c); it
 * is restarted with its data, or its epoch is deleted, which it cannot tell from
 * that. With it come the usual troubles of clients and connections.
 *
 * In some of these worlds one client, which came first, does not ask for it.
 * Then nothing is forgotten but by a replica that knows of the others.
 *
 * The drawing comes from a stream of its own, and takes the place of what was
 * drawn for other worlds. */
#include <string.h>

#include "sim/world.h"

/* The epoch as it stands at the server; till 0: there is none. */
static struct sim_epoch epoch(const struct sim_world *w)
{
    static const char key[] = "snib:epoch";
    const struct sim_redis *redis = w->node[0].redis;
    struct sim_epoch e = {.till = 0};
    struct sim_redis_arg v;
    long long till;
    if (sim_redis_string(redis, 0, key, sizeof key - 1, sim_wall_us(w, 0),
                         &v) &&
        sscanf(v.ptr, "%40s %lld", e.id, &till) == 2) {
        e.till = till;
    }
    return e;
}

bool sim_recovery_runs(const struct sim_world *w)
{
    if (!sim_recovery(w)) {
        return false;
    }
    struct sim_epoch e = epoch(w);
    return strcmp(e.id, sim_redis_replid(w->node[0].redis)) != 0 ||
           e.till * 1000 > sim_wall_us(w, 0);
}

void sim_recovery_look(struct sim_world *w)
{
    struct sim_epoch was = w->epoch;
    if (!sim_recovery(w)) {
        return;
    }
    w->epoch = epoch(w);
    if (sim_recovery_runs(w)) {
        w->closed_at = w->t;
    }
    /* Further ahead than it lasts: the clock was set back, it begins anew. */
    int64_t most = sim_wall_us(w, 0) / 1000 + w->opt.recovery_ms;
    if (!strcmp(was.id, w->epoch.id) && was.till && w->epoch.till &&
        was.till <= most) {
        theorem_recovery_ends(w, was.till, w->epoch.till);
    }
}

/* -- drawing --------------------------------------------------------------- */

static void kinds(struct sim_options *o, struct snib__rng *r)
{
    int what = sim_upto(r, 10);
    if (what < 3) {
        o->flavour = SIM_RW;
        o->read_pct = 30 + sim_upto(r, 50);
        o->nest_pct = 30 * sim_upto(r, 3);
    } else if (what < 4) {
        o->flavour = SIM_PERMITS;
        o->size = 1 + sim_upto(r, 3);
        o->params_pct = 20;
    } else if (what < 5) {
        o->names = 2 + sim_upto(r, 2);
        o->many_pct = 50;
        o->all_pct = 50;
    } else if (what < 6) {
        o->delay_ms = o->lease_ms / 4;
    } else if (what < 7) {
        o->lease2_ms = 3 * o->lease_ms; /* which is refused */
        o->hold_us = o->lease_ms * 2000;
    }
}

/* In some of them owners look, too. To look begins no recovery, so who looked
 * first comes to a server that has no epoch. */
static void looks(struct sim_options *o)
{
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 52, 1, 0}});
    if (!o->many_pct && sim_upto(&r, 4) == 0) {
        o->look_pct = 30;
    }
}

static void plain(struct sim_options *o, struct snib__rng *r)
{
    sim_sections_draw(o, r, 6, 1000);
    o->fixed_pct = 10 * sim_upto(r, 2);
    o->rate_ppm = 2000 * sim_upto(r, 2);
    o->apart_ms = sim_upto(r, 2) ? 0 : 1 + sim_upto(r, 400);
    kinds(o, r);
    while (o->ops > 2 && (int64_t)o->clients * o->owners * o->ops * o->hold_us >
                             INT64_C(60000000)) {
        o->ops--;
    }
    looks(o);
    o->recovery_ms =
        (o->lease_ms + o->delay_ms) * (100 + sim_upto(r, 50)) / 100;
}

/* What makes a server forget, or look as if it had. */
static struct sim_fault forget(const struct sim_options *o, struct snib__rng *r)
{
    static const int whats[] = {SIM_PROMOTE, SIM_PROMOTE,  SIM_PROMOTE,
                                SIM_WIPE,    SIM_FLUSHALL, SIM_RESTART,
                                SIM_EVICT};
    struct sim_fault f = {.kind = whats[sim_upto(r, o->unaware ? 1 : 7)]};
    f.ms = 1 + sim_upto(r, sim_upto(r, 2) ? 30 : (int)o->lease_ms);
    f.b = f.kind == SIM_PROMOTE && sim_upto(r, 4) == 0 ? 2 : 0;
    return f;
}

static struct sim_fault trouble(const struct sim_options *o,
                                struct snib__rng *r)
{
    static const int whats[] = {SIM_CUT,   SIM_HALF_OPEN, SIM_LOSE_REPLY,
                                SIM_LATE,  SIM_PAUSE,     SIM_ISOLATE,
                                SIM_CRASH, SIM_FREEZE,    SIM_SCRIPT_FLUSH};
    return (struct sim_fault){.kind = whats[sim_upto(r, 9)],
                              .a = sim_upto(r, 3) ? sim_upto(r, o->clients)
                                                  : SIM_HOLDER,
                              .b = sim_upto(r, 3),
                              .ms = 1 + sim_upto(r, (int)o->lease_ms)};
}

void sim_recovery_draw(struct sim_options *o)
{
    struct snib__rng r;
    int64_t at = 0;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 52, 0, 0}});
    plain(o, &r);
    o->unaware = sim_upto(&r, 8) == 0 && !o->many_pct && !o->flavour;
    at = o->recovery_ms; /* not before there is an epoch */
    if (o->unaware) { /* it gives back what it had before, during a recovery */
        o->names = 1;
        o->hold_us = 1500000;
        at = 800;
    }
    for (int n = 1 + sim_upto(&r, 4); n > 0; n--) {
        at += 50 + sim_upto(&r, o->unaware ? 900 : 3 * (int)o->lease_ms);
        o->fault[o->fault_count] = forget(o, &r);
        o->fault[o->fault_count++].at_ms = at;
        if (o->lease2_ms) { /* and its holder could not reclaim */
            o->fault[o->fault_count++] =
                (struct sim_fault){.at_ms = at - 10,
                                   .kind = SIM_ISOLATE,
                                   .a = SIM_HOLDER,
                                   .ms = 3 * o->lease_ms};
        }
        at += o->fault[o->fault_count - 1 - (o->lease2_ms > 0)].ms;
        for (int k = sim_upto(&r, 3); k > 0; k--) {
            struct sim_fault f = trouble(o, &r);
            f.at_ms = at + sim_upto(&r, (int)o->lease_ms) - o->lease_ms / 3;
            /* Where one does not ask, the others are there first. */
            int64_t least = o->unaware ? 500 : 1;
            f.at_ms = f.at_ms > least ? f.at_ms : least;
            o->fault[o->fault_count++] = f;
        }
    }
}
