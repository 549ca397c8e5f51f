/* sim/work_force.c — somebody force-releases a lock soon after a grant was
 * given at the server: while its answer is on the way, while it is handed over,
 * renewed or given back, or when all of that is over. It may be any client,
 * also the holder itself. And callers that do not stand in the queue but ask
 * again and again (spin): all of them, on servers with or without channels, or
 * some clients, or some calls of a client.
 *
 * The drawing comes from a stream of its own. */
#include <string.h>

#include "sim/world.h"

/* -- drawing --------------------------------------------------------------- */

enum { FORCE_ONE_IN = 16, SPIN_ONE_IN = 24 };

static void draw_wire_fault(struct sim_options *o, struct snib__rng *r,
                            struct sim_fault *f)
{
    static const int kinds[] = {SIM_LATE, SIM_LATE, SIM_LOSE_REPLY, SIM_CUT,
                                SIM_HALF_OPEN};
    int64_t work = o->ops * (o->think_us + 3 * o->hold_us) / 1000 + 20;
    *f = (struct sim_fault){
        .at_ms = 1 + sim_upto(r, work < 4000 ? (int)work : 4000),
        .kind = kinds[sim_upto(r, 5)],
        .a = sim_upto(r, 2) ? SIM_HOLDER : sim_upto(r, o->clients),
        .b = sim_upto(r, SIM_CONNS)};
    if (f->kind == SIM_LATE) {
        f->ms = 300 + sim_upto(r, 6000);
    }
}

/* Replies and copies come late, or not at all: is what was force-released let
 * in again? */
static void late_repeats(struct sim_options *o, struct snib__rng *r)
{
    static const int64_t holds[] = {500, 5000, 20000, 200000};
    o->fault_count = 1 + sim_upto(r, 6);
    o->lease_ms = sim_upto(r, 2) ? 10000 : 3000;
    o->hold_us = holds[sim_upto(r, 4)];
    o->think_us = 5000;
    o->names = 1;
    for (int i = 0; i < o->fault_count; i++) {
        draw_wire_fault(o, r, &o->fault[i]);
    }
}

/* A holder dies, or outstays a fixed lease, and a lock-delay keeps the lock
 * closed, except for a forced release. */
static void kept_closed(struct sim_options *o, struct snib__rng *r)
{
    o->delay_ms = 200 << sim_upto(r, 3);
    o->lease_ms = sim_upto(r, 2) ? 200 : 1000;
    o->hold_us = o->lease_ms * 300;
    o->names = 1;
    o->fixed_pct = 50;
    o->overrun_pct = 50;
    o->fault_count = 1 + sim_upto(r, 3);
    for (int i = 0; i < o->fault_count; i++) {
        o->fault[i] =
            (struct sim_fault){.at_ms = 1 + sim_upto(r, 3000),
                               .kind = sim_upto(r, 2) ? SIM_CRASH : SIM_PAUSE,
                               .a = SIM_HOLDER,
                               .ms = 2 * o->lease_ms};
    }
}

/* The subscription of a client that holds for long is cut off, and nothing
 * else. */
static void deaf_holders(struct sim_options *o, struct snib__rng *r)
{
    o->lease_ms = 10000;
    o->hold_us = 5000000;
    o->clients = 3;
    o->owners = 1;
    o->names = 1;
    o->ops = 2;
    o->try_pct = o->timed_pct = o->fixed_pct = o->overrun_pct = 0;
    o->fault_count = 1 + sim_upto(r, 3);
    for (int i = 0; i < o->fault_count; i++) {
        o->fault[i] = (struct sim_fault){.at_ms = 1 + sim_upto(r, 15000),
                                         .kind = SIM_CUT,
                                         .a = SIM_HOLDER,
                                         .b = SIM_CONNS - 1};
    }
}

/* Nothing is broken, but messages are slow against the lease: news cross with
 * requests. */
static void crossing(struct sim_options *o, struct snib__rng *r)
{
    o->fault_count = 0;
    o->overrun_pct = 0;
    o->latency_us = 500;
    o->lease_ms = sim_upto(r, 2) ? 200 : 1000;
    o->hold_us = o->lease_ms * (100 + sim_upto(r, 500));
    o->names = 1;
    o->ops = o->ops < 5 ? o->ops : 5;
}

/* Readers want to write, and give up while they go on reading. */
static void spinning_upgrades(struct sim_options *o)
{
    o->clients = o->clients > 2 ? o->clients : 3;
    o->names = 1;
    o->lease_ms = 1000;
    o->hold_us = 400000;
    o->read_pct = 90;
    o->nest_pct = 60;
    o->limit_ms = 100;
    o->ops = 3;
    o->fault_count = 0;
}

void sim_force_draw(struct sim_options *o)
{
    static const int often[] = {10, 30, 60};
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 15, 0, 0}});
    if (o->circle_pct) {
        return;
    }
    bool force = sim_upto(&r, FORCE_ONE_IN) == 0;
    bool spin = sim_upto(&r, SPIN_ONE_IN) == 0 && o->flavour != SIM_BARRIER;
    if (force) {
        o->force_pct = often[sim_upto(&r, 3)];
        switch (sim_upto(&r, 4)) {
        case 0:
            late_repeats(o, &r);
            break;
        case 1:
            crossing(o, &r);
            break;
        case 2:
            if (o->flavour != SIM_BARRIER) {
                (sim_upto(&r, 2) ? kept_closed : deaf_holders)(o, &r);
            }
            break;
        default:
            break;
        }
    }
    if (spin) {
        int how = sim_upto(&r, 4);
        o->spin = how < 2 ? how + 1 : SIM_SPIN_NONE;
        o->spin_pct = how < 2 ? 0 : 50;
        if (o->flavour == SIM_RW && sim_upto(&r, 3) == 0) {
            spinning_upgrades(o);
        }
    }
}

/* -- forced releases ------------------------------------------------------- */

/* Are there as many forced releases as have entries, less those of one
 * script? */
static bool enough(const struct sim_world *w, int name)
{
    return w->forced_count[name] > SIM_FORCED - SIM_BOOK;
}

static void later(struct sim_world *w, int name, int64_t ns)
{
    int client = sim_upto(&w->work, w->opt.clients);
    sim_push(w, (struct sim_event){.at = w->t + (int64_t)snib__rng_below(
                                                    &w->work, (uint64_t)ns + 1),
                                   .kind = SIM_EV_FORCE,
                                   .client = client,
                                   .a = name,
                                   .life = w->client[client].life});
}

void sim_force_soon(struct sim_world *w, int name)
{
    const struct sim_options *o = &w->opt;
    if (sim_upto(&w->work, 100) >= o->force_pct || enough(w, name)) {
        return;
    }
    switch (sim_upto(&w->work, 5)) {
    case 0: /* while the answer is on its way */
        later(w, name, 2000 * o->latency_us);
        break;
    case 1:
        later(w, name, 16000 * o->latency_us);
        break;
    case 2:
        later(w, name, 2000 * o->hold_us + 1000000);
        break;
    case 3:
        later(w, name, o->lease_ms * SIM_MS);
        break;
    default: /* until the end of the lease or its lock-delay */
        later(w, name, (2 * o->lease_ms + o->delay_ms) * SIM_MS);
        break;
    }
}

void sim_force_now(struct sim_world *w, int client, int name)
{
    struct sim_client *c = &w->client[client];
    if (c->force_busy || enough(w, name)) {
        return;
    }
    c->force = (struct snib__direct){.verb = SNIB__FORCE,
                                     .name = sim_names[name],
                                     .name_size = strlen(sim_names[name]),
                                     .text = "why not",
                                     .user = (void *)(intptr_t)(name + 1)};
    c->force.limit = snib__after(sim_now(w, client), snib__ms(3000));
    c->force_at = w->t;
    sim_note(w, "client %d forces name %d", client, name);
    c->force_busy =
        !snib__engine_direct(c->engine, sim_now(w, client), &c->force);
}

void sim_force_told(struct sim_world *w, int client, struct snib__direct *q)
{
    sim_note(w, "client %d forced name %d: %s", client,
             (int)(intptr_t)q->user - 1, snib_err_name(q->err));
    if (q->err && !w->faults && w->opt.latency_us <= 2000) {
        sim_fail(w, "a force is answered", "client %d: %s, nothing is broken",
                 client, snib_err_name(q->err));
    }
    sim_foreign_forced(w, client, (int)(intptr_t)q->user - 1, q->err);
    snib__buf_free(&q->result);
    w->client[client].force_busy = false;
}

void sim_force_entered(struct sim_world *w, int client, int owner, bool more)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    char *id = more ? l->more_id : l->id;
    sim_acquisition_id(more ? l->more : l->acq, id);
    if (sim_force(w)) {
        *(more ? &l->more_forced : &l->forced) = sim_forced_of(w, l->name, id);
    }
}

/* -- callers who spin ------------------------------------------------------ */

void sim_force_begin(struct sim_world *w, int client)
{
    struct snib__rng r;
    snib__rng_init(
        &r, &(struct snib__seed){{w->opt.seed, 15, 1 + (uint64_t)client, 0}});
    int kind =
        sim_upto(&r, 100) >= w->opt.spin_pct ? SIM_QUEUES : SIM_SPINS_ALWAYS;
    w->client[client].spins = w->opt.spin ? SIM_SPINS_ALWAYS
                              : w->opt.spin_pct && sim_upto(&r, 3) == 0
                                  ? SIM_SPINS_OR_QUEUES
                                  : kind;
}

bool sim_spin_ask(struct sim_world *w, int client, struct sim_owner *l)
{
    int kind = w->client[client].spins;
    l->spins = kind == SIM_SPINS_ALWAYS ||
               (kind == SIM_SPINS_OR_QUEUES && sim_upto(&w->work, 2));
    l->unqueued_since = l->behind = 0;
    return l->spins && !w->opt.spin; /* else the URL says so */
}

void sim_force_deafen(struct sim_world *w)
{
    if (w->opt.spin == SIM_SPIN_UNRESPONSIVE) {
        sim_redis_set_fault(w->node[0].redis, SIM_REDIS_NOPERM_CHANNEL, true);
    }
}
