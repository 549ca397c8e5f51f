/* sim/world.c — time and order.
 *
 * One heap of events, ordered by time and then sequence number. A step takes
 * the earliest event, moves true time there, lets the one it concerns act, and
 * checks the theorems. Events for a client or a server that stands still are
 * put off until it moves again, in their order.
 *
 * A run has two phases. Under faults safety must hold. Then everything is
 * healed, and whoever wants something must get it within bounds (liveness). The
 * trace hash takes in every event; the same seed gives the same hash. */
#include "sim/world.h"
#include "sim/same.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The longest virtual run: plans end before PHASE_MS; the healed world must
 * come to rest within twice the longest lease or not_after. */
enum { PHASE_MS = 60000, CALM_MS = 180000, EVENTS_MAX = 400000 };

#define FNV_PRIME UINT64_C(0x100000001b3)

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

/* The number of an event decides between two at the same time. */
static void insert(struct sim_world *w, struct sim_event ev)
{
    if (w->heap_size + 1 >= w->heap_cap) {
        w->heap_cap = w->heap_cap ? 2 * w->heap_cap : 256;
        w->heap = realloc(w->heap, w->heap_cap * sizeof *w->heap);
        if (!w->heap) {
            abort();
        }
    }
    size_t i = ++w->heap_size;
    for (; i > 1 && before(&ev, &w->heap[i / 2]); i /= 2) {
        w->heap[i] = w->heap[i / 2];
    }
    w->heap[i] = ev;
}

void sim_push(struct sim_world *w, struct sim_event ev)
{
    ev.seq = ++w->seq;
    insert(w, ev);
}

static struct sim_event pop(struct sim_world *w)
{
    struct sim_event top = w->heap[1], last = w->heap[w->heap_size--];
    size_t i = 1, child;
    for (; (child = 2 * i) <= w->heap_size; i = child) {
        if (child < w->heap_size &&
            before(&w->heap[child + 1], &w->heap[child])) {
            child++;
        }
        if (!before(&w->heap[child], &last)) {
            break;
        }
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return top;
}

int64_t sim_local(const struct sim_client *c, int64_t t)
{
    return c->offset + t + t / 1000000 * c->ppm;
}

int64_t sim_true(const struct sim_client *c, int64_t own_time)
{
    int64_t t = (int64_t)((double)(own_time - c->offset) /
                          (1.0 + (double)c->ppm / 1e6));
    while (sim_local(c, t) < own_time) {
        t += 1000;
    }
    return t;
}

int64_t sim_wall_us(const struct sim_world *w, int node)
{
    return w->wall_base_us + w->node[node].step_us + w->t / 1000 +
           w->t / 1000000000 * w->node[node].ppm;
}

void sim_note(struct sim_world *w, const char *fmt, ...)
{
    if (w->trace) {
        va_list ap;
        fprintf(w->trace, "%12.6f ", (double)w->t / 1e9);
        va_start(ap, fmt);
        vfprintf(w->trace, fmt, ap);
        va_end(ap);
        fputc('\n', w->trace);
    }
}

void sim_fail(struct sim_world *w, const char *theorem, const char *fmt, ...)
{
    if (w->failed) {
        return;
    }
    w->failed = true;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w->why, sizeof w->why, fmt, ap);
    va_end(ap);
    snprintf(w->theorem, sizeof w->theorem, "%s", theorem);
    sim_note(w, "FAILED %s: %s", theorem, w->why);
}

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

/* An event for somebody that stands still comes later. */
static bool put_off(struct sim_world *w, struct sim_event *ev)
{
    int64_t until = 0;
    switch (ev->kind) {
    case SIM_EV_TIMER:
    case SIM_EV_OWNER:
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
        until = w->node[ev->node].paused_until;
        break;
    default:
        break;
    }
    if (until <= w->t) {
        return false;
    }
    ev->at = until;
    /* It keeps its number: streams keep their order, even if the standstill was
     * lengthened meanwhile. */
    insert(w, *ev);
    return true;
}

static void act(struct sim_world *w, struct sim_event *ev)
{
    struct sim_client *c = &w->client[ev->client];
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
        sim_promote(w, ev->node);
        break;
    case SIM_EV_PARAMS:
        if (ev->life == c->life && sim_kinds(w)) {
            sim_kinds_open(w, ev->client);
            sim_client_after(w, ev->client);
        }
        break;
    case SIM_EV_FORCE:
        if (ev->life == c->life) {
            sim_force_now(w, ev->client, ev->a);
            sim_client_after(w, ev->client);
        }
        break;
    case SIM_EV_TIMER:
        if (ev->life == c->life && ev->at >= c->timer_at) {
            c->timer_at = INT64_MAX;
            sim_client_timer(w, ev->client);
        }
        break;
    case SIM_EV_OWNER:
        if (ev->life == c->life) {
            sim_owner_event(w, ev->client, ev->a);
        }
        break;
    case SIM_EV_MANY:
        if (ev->life == c->life) {
            sim_many_event(w, ev->client, ev->a);
        }
        break;
    default:
        sim_net_event(w, ev);
        break;
    }
}

static void look(struct sim_world *w)
{
    theorem_notes_waits(w);
    theorem_exclusion(w);
    theorem_permits_held(w);
    theorem_slots_told(w);
    theorem_loss_is_told(w);
    theorem_fence_loses_nothing(w);
    theorem_told_stands(w);
    theorem_circles(w);
    theorem_forced_are_told(w);
    theorem_parties_ask(w);
}

/* State that changes slowly is checked each 64th event and each 100 ms. */
static void look_now_and_then(struct sim_world *w)
{
    theorem_no_waiter_beside_a_free_lock(w);
    theorem_nobody_sleeps_beside_room(w);
    theorem_call_ends_by_its_limit(w);
    theorem_unwanted_is_given_back(w);
    theorem_refused_leave_nothing(w, false);
    theorem_spin(w);
    theorem_renewals_are_answered(w);
    if (sim_quorum(w)) {
        theorem_quorum_now_and_then(w);
    }
}

enum sim_script sim_script(const struct sim_redis_event *ev)
{
    if (!ev->script || ev->argc < SIM_SCRIPT_FORCE) {
        return SIM_SCRIPT_NONE;
    }
    if (strcmp(ev->argv[2].ptr, "8") == 0 &&
        ev->argc == SIM_SCRIPT_RELEASE + 1) { /* no renewal: 3 + 8 + 13 */
        return SIM_SCRIPT_RELEASE;
    }
    if (strcmp(ev->argv[2].ptr, "7") != 0) {
        return SIM_SCRIPT_NONE; /* a renewal has an even number of keys */
    }
    switch (ev->argc) {
    case SIM_SCRIPT_ACQUIRE:
    case SIM_SCRIPT_RELEASE:
    case SIM_SCRIPT_CANCEL:
    case SIM_SCRIPT_PARAMS:
    case SIM_SCRIPT_FORCE:
        return (enum sim_script)ev->argc;
    default:
        return SIM_SCRIPT_NONE;
    }
}

const struct sim_redis_arg *sim_args(const struct sim_redis_event *ev)
{
    return ev->argv + (strcmp(ev->argv[2].ptr, "8") == 0);
}

const char *sim_request_of(const struct sim_redis_event *ev)
{
    enum sim_script script = sim_script(ev);
    return script && script != SIM_SCRIPT_FORCE
               ? sim_args(ev)[SIM_ARG_REQUEST].ptr
               : "                                ";
}

/* A script as a line of the timeline: whose it is, for which request, its
 * answer. */
static void note_script(struct sim_world *w, int node,
                        const struct sim_redis_event *ev)
{
    char reply[72];
    size_t n = 0;
    const char *r = ev->reply;
    for (size_t i = 0; i < ev->reply_len && n + 1 < sizeof reply; i++) {
        if (r[i] != '\r') {
            reply[n++] = r[i] == '\n' ? ' ' : r[i];
        }
    }
    reply[n] = 0;
    sim_note(w,
             "    server%.*d: %s of %d args, %s, client %.6s request %.6s: %s",
             w->nodes > 1, node, ev->name, ev->argc,
             ev->argc > 3 ? ev->argv[3].ptr : "",
             sim_script(ev) ? sim_args(ev)[SIM_ARG_CLIENT].ptr : "",
             sim_request_of(ev), reply);
}

int sim_name_of(const struct sim_world *w, const char *key, const char *tail)
{
    for (int n = 0; n < w->opt.names; n++) {
        size_t size = strlen(sim_keys[n]);
        if (strncmp(key, sim_keys[n], size) == 0 &&
            strcmp(key + size, tail) == 0) {
            return n;
        }
    }
    return -1;
}

/* Handle a script, or a message of one, for the name it is about. */
static void watch_name(struct sim_world *w, const struct sim_redis_event *ev)
{
    const char *key = NULL;
    enum sim_script script = sim_script(ev);
    if (script) {
        int n = sim_name_of(w, ev->argv[3].ptr, "");
        if (n >= 0) {
            bool held = sim_held(w, n);
            w->resource[n].held_at = held ? w->t : w->resource[n].held_at;
            theorem_served_promptly(w, n, held);
            if (script == SIM_SCRIPT_RELEASE || script == SIM_SCRIPT_CANCEL) {
                theorem_unwanted_ended(w, sim_args(ev)[SIM_ARG_REQUEST].ptr, n);
            }
        }
    } else if (ev->in_script && strcmp(ev->name, "publish") == 0 &&
               (key = strstr(ev->argv[2].ptr, "snib:{"))) {
        int n = sim_name_of(w, key, "");
        if (n >= 0 && strncmp(ev->argv[2].ptr, "g ", 2) == 0) {
            theorem_unwanted_pushed(w, ev->argv[1].ptr, ev->argv[2].ptr, n);
        }
    }
}

/* Several locks in one script. Each lock that was looked at is a step, checked
 * after the whole script. */
static void watch_batch(struct sim_world *w, const struct sim_batch *c)
{
    theorem_all_or_none(w, c);
    for (int k = 0; k < c->count; k++) {
        theorem_travel_as_asked(w, c, &c->part[k].ev);
        if (c->part[k].looked_at) {
            sim_book_step(w, &c->part[k].ev);
            watch_name(w, &c->part[k].ev);
        }
    }
}

static void watch_server(void *user, const struct sim_redis_event *ev)
{
    static _Thread_local struct sim_batch batch;
    struct sim_server *s = user;
    struct sim_world *w = s->world;
    sim_same_step(w, (int)(s - w->node), ev);
    if (sim_quorum(w)) {
        sim_quorum_step(w, (int)(s - w->node), ev);
    } else if (sim_several(w, ev, &batch)) {
        watch_batch(w, &batch);
    } else {
        theorem_travel_as_asked(w, NULL, ev);
        theorem_first_come_first_served(w, ev);
        theorem_token_given(w, ev);
        theorem_no_needless_cancel(w, ev);
        sim_book_step(w, ev);
        watch_name(w, ev);
        theorem_looks_are_few(w, ev);
        sim_directs_step(w, ev);
    }
    if (w->trace && ev->script) {
        note_script(w, (int)(s - w->node), ev);
    } else if (w->trace && strcmp(ev->name, "publish") == 0) {
        sim_note(w, "    server: publish %.60s", ev->argv[2].ptr);
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
    w->nodes = opt->nodes ? opt->nodes : 1;
    w->wires = w->nodes * SIM_CONNS;
    w->callers = opt->owners;
    w->opt.owners *= opt->many_pct ? 1 + SIM_NAMES : 1;
    for (int k = 0; k < w->nodes; k++) {
        w->node[k].world = w;
        w->node[k].redis = sim_redis_new(lua, opt->seed + (uint64_t)k);
        sim_redis_set_hook(w->node[k].redis, watch_server, &w->node[k]);
    }
    if (sim_quorum(w)) {
        sim_quorum_start(w);
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
    sim_directs_end(w);
    for (size_t i = 1; i <= w->heap_size; i++) {
        free(w->heap[i].bytes);
    }
    w->heap_size = 0;
    for (int k = 0; k < w->nodes; k++) {
        sim_redis_snapshot_free(w->node[k].replica);
        w->node[k].replica = NULL;
        sim_redis_free(w->node[k].redis);
        w->node[k].redis = NULL;
    }
}

static bool all_idle(const struct sim_world *w)
{
    for (int c = 0; c < w->opt.clients; c++) {
        if (w->client[c].engine && !snib__engine_idle(w->client[c].engine)) {
            return false;
        }
    }
    return true;
}

static int64_t last_fault_end(const struct sim_options *o)
{
    int64_t end = 0;
    for (int i = 0; i < o->fault_count; i++) {
        int64_t e = o->fault[i].at_ms + o->fault[i].ms;
        end = e > end ? e : end;
    }
    return end < PHASE_MS ? end : PHASE_MS;
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
        struct sim_event ev = pop(w);
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
    if (!w->failed) {
        theorem_nothing_left_behind(w);
        theorem_refused_leave_nothing(w, true);
    }
    clean_up(w);
    return !w->failed;
}
