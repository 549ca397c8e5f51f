/* sim/world.c — runs a world from its first event to its end.
 *
 * One heap of events, ordered by time and then sequence number. A step takes
 * the earliest event, moves true time there, lets the one it concerns act, and
 * checks the theorems. Events for a client or a server that stands still are
 * put off until it moves again, in their order.
 *
 * A run has two phases. Under faults safety must hold. Then everything is
 * healed, and whoever wants something must get it within bounds (liveness). The
 * trace hash takes in every event; the same seed gives the same hash. */
#include <stdlib.h>
#include <string.h>

#include "sim/table.h"

/* The longest virtual run: plans end before PHASE_MS; the healed world must
 * come to rest within twice the longest lease or not_after. */
enum { PHASE_MS = 60000, CALM_MS = 180000, EVENTS_MAX = 400000 };

#define FNV_PRIME UINT64_C(0x100000001b3)

static void stir(struct sim_world *w, uint64_t v)
{
    w->hash = (w->hash ^ v) * FNV_PRIME;
}

/* Most of what is hashed comes here. The hash is kept in a register, since
 * bytes could alias w->hash. */
static void stir_bytes(struct sim_world *w, const uint8_t *p, size_t n)
{
    uint64_t hash = w->hash;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ p[i]) * FNV_PRIME;
    }
    w->hash = hash;
}

/* An owner that stands still, or would begin while nobody does. */
static int64_t sleeps_until(const struct sim_world *w,
                            const struct sim_event *ev)
{
    const struct sim_client *c = &w->client[ev->client];
    bool begins =
        ev->life == c->life && c->owner[ev->a].state == SIM_OWNER_IDLE;
    return begins && w->asleep_until > c->paused_until ? w->asleep_until
                                                       : c->paused_until;
}

/* An event for somebody that stands still comes later. */
static bool put_off(struct sim_world *w, struct sim_event *ev)
{
    int64_t until = 0;
    switch (ev->kind) {
    case SIM_EV_OWNER:
        until = sleeps_until(w, ev);
        break;
    case SIM_EV_TIMER:
    case SIM_EV_MANY:
    case SIM_EV_PARAMS:
    case SIM_EV_FORCE:
    case SIM_EV_DOWN:
    case SIM_EV_OPENED:
    case SIM_EV_CLOSED:
        until = w->client[ev->client].paused_until;
        break;
    case SIM_EV_UP:
    case SIM_EV_GONE:
    case SIM_EV_SQL:
        until = w->node[ev->node].paused_until;
        break;
    default:
        break;
    }
    if (until <= w->t) {
        return false;
    }
    sim_put_off(w, *ev, until);
    return true;
}

/* An event of a process that still lives. */
static void client_acts(struct sim_world *w, const struct sim_event *ev)
{
    struct sim_client *c = &w->client[ev->client];
    switch (ev->kind) {
    case SIM_EV_TIMER:
        if (ev->at < c->timer_at) {
            return;
        }
        c->timer_at = INT64_MAX;
        snib__engine_tick(c->engine, sim_now(w, ev->client));
        break;
    case SIM_EV_OWNER:
        sim_owner_event(w, ev->client, ev->a);
        break;
    case SIM_EV_MANY:
        if (!sim_many_event(w, ev->client, ev->a)) {
            return;
        }
        break;
    case SIM_EV_PARAMS:
        if (!sim_kinds(w)) {
            return;
        }
        sim_kinds_open(w, ev->client);
        break;
    default: /* SIM_EV_FORCE */
        sim_force_now(w, ev->client, ev->a);
        break;
    }
    sim_client_after(w, ev->client);
}

static void act(struct sim_world *w, const struct sim_event *ev)
{
    struct snib__input heard;
    stir(w, (uint64_t)ev->at);
    stir(w, ((uint64_t)ev->node * 64 + (uint64_t)ev->kind) * 64 +
                (uint64_t)ev->client);
    stir(w, ev->size);
    stir_bytes(w, ev->bytes, ev->size);
    switch (ev->kind) {
    case SIM_EV_FAULT:
        if (!w->healed) {
            sim_fault_apply(w, ev->a);
        }
        break;
    case SIM_EV_PROMOTE:
        sim_promote(w, ev->a);
        break;
    case SIM_EV_DEMOTE:
        sim_failover_demote(w);
        break;
    case SIM_EV_MEMBERS:
    case SIM_EV_LEASE:
        sim_etcd_event(w, ev);
        sim_net_flush(w);
        break;
    case SIM_EV_SQL:
        sim_sql_event(w, ev);
        sim_net_flush(w);
        break;
    case SIM_EV_WITNESS:
        sim_witness_event(w, ev);
        break;
    case SIM_EV_ENDS:
        if (ev->life == w->client[ev->client].life) {
            sim_crash(w, ev->client);
        }
        break;
    case SIM_EV_TIMER:
    case SIM_EV_OWNER:
    case SIM_EV_MANY:
    case SIM_EV_PARAMS:
    case SIM_EV_FORCE:
        if (ev->life == w->client[ev->client].life) {
            client_acts(w, ev);
        }
        break;
    default:
        if (sim_net_event(w, ev, &heard)) {
            sim_client_input(w, ev->client, &heard);
        }
        break;
    }
}

/* Where a replica may lack what was acknowledged, and two may be primaries at
 * once, only what callers are told of each other is checked. */
static void look_at_callers(struct sim_world *w)
{
    theorem_exclusion(w);
    theorem_loss_is_told(w);
    if (sim_recovery(w)) {
        theorem_permits_held(w);
        theorem_slots_held(w);
    }
    if (!w->two_primaries) {
        theorem_fence_loses_nothing(w);
    }
}

static void look(struct sim_world *w)
{
    if (sim_failover(w)) {
        look_at_callers(w);
        return;
    }
    theorem_notes_waits(w);
    theorem_exclusion(w);
    theorem_permits_held(w);
    theorem_slots_told(w);
    theorem_slots_held(w);
    theorem_loss_is_told(w);
    theorem_fence_loses_nothing(w);
    theorem_told_stands(w);
    theorem_circles(w);
    theorem_forced_are_told(w);
    theorem_parties_ask(w);
    theorem_keepers(w);
}

/* State that changes slowly is checked each 64th event and each 100 ms. */
static void look_now_and_then(struct sim_world *w)
{
    if (sim_failover(w)) {
        theorem_call_ends_by_its_limit(w);
        return;
    }
    theorem_no_waiter_beside_a_free_lock(w);
    theorem_nobody_sleeps_beside_room(w);
    theorem_call_ends_by_its_limit(w);
    theorem_granted_hear_of_it(w);
    theorem_unwanted_is_given_back(w);
    theorem_refused_leave_nothing(w, false);
    theorem_spin(w);
    theorem_renewals_are_answered(w);
    theorem_witness_leaves_nothing(w);
    if (sim_quorum(w)) {
        theorem_quorum_now_and_then(w);
    }
}

static void set_up(struct sim_world *w, const struct sim_options *opt,
                   struct sim_lua *lua, FILE *trace)
{
    struct sim_event *heap = w->heap;
    size_t cap = w->heap_cap;
    memset(w, 0, sizeof *w);
    w->heap = heap;
    w->heap_cap = cap;
    w->opt = *opt;
    w->trace = trace;
    w->hash = w->same = UINT64_C(0xcbf29ce484222325);
    snib__rng_init(&w->net, &(struct snib__seed){{opt->seed, 1, 0, 0}});
    snib__rng_init(&w->work, &(struct snib__seed){{opt->seed, 2, 0, 0}});
    snib__rng_init(&w->misc, &(struct snib__seed){{opt->seed, 3, 0, 0}});
    w->t = 1000 * SIM_MS;
    w->wall_base_us = INT64_C(1790000000000000) +
                      (int64_t)snib__rng_below(&w->misc, 1000000000);
    /* Nobody knows what was before; where one does not ask, nobody minds. */
    w->forgot_at = opt->unaware ? INT64_MIN / 2 : w->t;
    w->nodes = opt->nodes ? opt->nodes : 1;
    w->wires = sim_list(w)   ? SIM_CONNS + 1
               : sim_etcd(w) ? opt->etcd
                             : w->nodes * SIM_CONNS;
    w->callers = opt->owners;
    w->opt.owners *= opt->many_pct ? 1 + SIM_NAMES : 1;
    if (sim_etcd(w)) {
        sim_etcd_start(w);
    }
    for (int k = 0; k < w->nodes && !sim_etcd(w); k++) {
        w->node[k].world = w;
        if (sim_table(w)) {
            w->node[k].table = sim_table_new(&w->node[k]);
            continue;
        }
        w->node[k].redis = sim_redis_new(lua, opt->seed + (uint64_t)k);
        sim_redis_set_hook(w->node[k].redis, sim_redis_watch, &w->node[k]);
    }
    if (sim_quorum(w)) {
        sim_quorum_start(w);
    }
    if (sim_list(w)) {
        sim_list_start(w, lua);
    }
    if (sim_failover(w)) {
        sim_failover_start(w, lua);
    }
    sim_force_deafen(w);
    for (int i = 0; i < SIM_NAMES; i++) {
        w->resource[i].free_since = w->resource[i].ghost_since = -1;
        w->shelf[i].fits_since = w->shelf[i].ghost_since = -1;
        w->shelf[i].book.size = -1;
    }
    sim_directs_start(w);
    for (int i = 0; i < opt->fault_count; i++) {
        sim_push(w,
                 (struct sim_event){.at = w->t + opt->fault[i].at_ms * SIM_MS,
                                    .kind = SIM_EV_FAULT,
                                    .a = i});
    }
    for (int c = 0; c < opt->clients && !w->failed; c++) {
        int span = 2 * opt->rate_ppm + 1;
        w->client[c].ppm =
            (int64_t)snib__rng_below(&w->misc, (uint64_t)span) - opt->rate_ppm;
        w->client[c].offset =
            (int64_t)snib__rng_below(&w->misc, 1000000) * SIM_MS;
        sim_client_start(w, c);
    }
}

static void clean_up(struct sim_world *w)
{
    for (int c = 0; c < w->opt.clients; c++) {
        sim_client_stop(w, c);
    }
    sim_witnesses_free(w); /* a client that is closed still writes there */
    sim_directs_end(w);
    for (size_t i = 1; i <= w->heap_size; i++) {
        free(w->heap[i].bytes);
    }
    w->heap_size = 0;
    sim_etcd_free(w);
    for (int k = 0; k < w->nodes + sim_list(w) + sim_failover(w); k++) {
        sim_serve_free(&w->node[k]);
    }
}

static bool all_idle(const struct sim_world *w)
{
    for (int c = 0; c < w->opt.clients; c++) {
        if (w->client[c].engine &&
            (!snib__engine_idle(w->client[c].engine) || sim_keeps(w, c))) {
            return false;
        }
    }
    return sim_witnesses_idle(w);
}

static int64_t last_fault_end(const struct sim_options *o)
{
    int64_t end = 0;
    bool sleeps = false; /* for as long as that is */
    for (int i = 0; i < o->fault_count; i++) {
        int64_t e = o->fault[i].at_ms + o->fault[i].ms;
        if (o->failover && o->fault[i].kind == SIM_PROMOTE) {
            e += o->fault[i].a; /* so long the old primary goes on */
        }
        end = e > end ? e : end;
        sleeps |= o->fault[i].kind == SIM_SLEEP;
    }
    return end < PHASE_MS || sleeps ? end : PHASE_MS;
}

bool sim_run(struct sim_world *w, const struct sim_options *opt,
             struct sim_lua *lua, FILE *trace)
{
    set_up(w, opt, lua, trace);
    int64_t heal_at = w->t + (last_fault_end(opt) + 1) * SIM_MS;
    while (!w->failed) {
        if (sim_work_done(w) && all_idle(w) && w->healed) {
            break;
        }
        if (!w->healed &&
            (!w->heap_size || w->heap[1].at > heal_at || w->t >= heal_at)) {
            sim_heal(w);
            continue;
        }
        if (!w->heap_size) {
            sim_fail(w, "progress",
                     "nothing will ever happen again, but "
                     "somebody still waits");
            break;
        }
        if (w->healed && w->t > w->healed_at + CALM_MS * SIM_MS) {
            sim_fail(w, "progress",
                     "%d s after all faults ended the work is not done",
                     CALM_MS / 1000);
            break;
        }
        struct sim_event ev = sim_pop(w);
        w->t = ev.at > w->t ? ev.at : w->t;
        if (put_off(w, &ev)) {
            continue;
        }
        act(w, &ev);
        free(ev.bytes);
        look(w);
        if (++w->events % 64 == 0 || w->t - w->looked_at > 100 * SIM_MS) {
            w->looked_at = w->t;
            look_now_and_then(w);
        }
        if (w->events > EVENTS_MAX) {
            sim_fail(w, "progress", "more than %d events", EVENTS_MAX);
        }
    }
    if (!w->failed && !sim_failover(w)) {
        theorem_nothing_left_behind(w);
        theorem_refused_leave_nothing(w, true);
        theorem_packets_go_on(w);
    }
    clean_up(w);
    return !w->failed;
}
