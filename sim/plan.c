/* sim/plan.c — what a seed means, and what each fault does.
 *
 * Options and faults are drawn before the run from a stream of their own and
 * are data: printed, read back, shrunk. The seeds are a swarm (Groce et al.,
 * Swarm Testing, 2012): each takes a random subset of the kinds of faults,
 * often none or one, because faults mask each other. */
#include <string.h>

#include "sim/world.h"

static const char *const fault_names[SIM_FAULT_KINDS] = {
    "cut",       "lose-reply",   "half-open", "pause",        "crash",
    "freeze",    "restart",      "wipe",      "script-flush", "flushall",
    "step-back", "step-forward", "error",     "slow",         "evict",
    "jump",      "refuse",       "late",      "isolate",      "promote"};

const char *sim_fault_name(int kind)
{
    return kind >= 0 && kind < SIM_FAULT_KINDS ? fault_names[kind] : "?";
}

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
        f->kind = sim_upto(r, SIM_FAULT_KINDS);
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

/* A holder is cut off: a claim lease is only a part of the lease, and clock
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
        m.allowed[sim_upto(&r, SIM_FAULT_KINDS)] = true;
        m.most = 8;
    }
    focus(o, &r, &m);
    sim_kinds_draw(o);
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

/* -- text ------------------------------------------------------------------ */

/* clang-format off */
#define NUMBERS(X)                                                       \
    X(clients) X(owners) X(names) X(ops) X(lease_ms) X(latency_us)        \
    X(hold_us) X(think_us) X(request_ms) X(try_pct) X(timed_pct)         \
    X(fixed_pct) X(reenter_pct) X(confirm_pct) X(nopass_pct)             \
    X(overrun_pct) X(rate_ppm) X(split_pct) X(limit_ms)                  \
    X(flavour) X(read_pct) X(nest_pct) X(size) X(params_pct)              \
    X(delay_ms) X(prio_pct) X(many_pct) X(all_pct) X(mixed)              \
    X(searched)                                                          \
    X(nodes) X(node_ms) X(apart_ms) X(far_node)                          \
    X(circle_pct) X(skew_ms) X(force_pct) X(spin) X(spin_pct)            \
    X(value_pct) X(keep_ms) X(churn_pct) X(again_ms) X(look_pct)         \
    X(leave_pct) X(lease2_ms) X(renew_pct)
/* clang-format on */

void sim_options_print(const struct sim_options *o, FILE *f)
{
    fprintf(f, "seed %llu\n", (unsigned long long)o->seed);
#define PRINT(n) fprintf(f, #n " %lld\n", (long long)o->n);
    NUMBERS(PRINT)
#undef PRINT
    for (int i = 0; i < o->fault_count; i++) {
        const struct sim_fault *x = &o->fault[i];
        fprintf(f, "fault %lld %s %d %d %lld\n", (long long)x->at_ms,
                sim_fault_name(x->kind), x->a, x->b, (long long)x->ms);
    }
}

static bool read_fault(struct sim_options *o, const char *line)
{
    char kind[24];
    long long at, ms;
    struct sim_fault f = {0};
    if (o->fault_count >= SIM_FAULTS ||
        sscanf(line, "fault %lld %23s %d %d %lld", &at, kind, &f.a, &f.b,
               &ms) != 5) {
        return false;
    }
    f.at_ms = at;
    f.ms = ms;
    for (f.kind = 0; f.kind < SIM_FAULT_KINDS; f.kind++) {
        if (strcmp(kind, fault_names[f.kind]) == 0) {
            o->fault[o->fault_count++] = f;
            return true;
        }
    }
    return false;
}

static bool read_number(struct sim_options *o, const char *key, long long v)
{
    if (strcmp(key, "seed") == 0) {
        o->seed = (uint64_t)v;
        return true;
    }
#define READ(n)                                                                \
    if (strcmp(key, #n) == 0) {                                                \
        o->n = (__typeof__(o->n))v;                                            \
        return true;                                                           \
    }
    NUMBERS(READ)
#undef READ
    return false;
}

bool sim_options_read(struct sim_options *o, FILE *f, char *why, size_t size)
{
    char line[256], key[32];
    long long v;
    int n = 0;
    *o = (struct sim_options){.clients = 2,
                              .owners = 1,
                              .names = 1,
                              .ops = 3,
                              .lease_ms = 1000,
                              .latency_us = 100,
                              .hold_us = 500,
                              .request_ms = 500,
                              .limit_ms = 3000};
    while (fgets(line, sizeof line, f)) {
        n++;
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        bool ok = strncmp(line, "fault ", 6) == 0
                      ? read_fault(o, line)
                      : sscanf(line, "%31s %lld", key, &v) == 2 &&
                            read_number(o, key, v);
        if (!ok) {
            snprintf(why, size, "line %d is not understood: %.80s", n, line);
            return false;
        }
    }
    if (o->limit_ms < 1) {
        snprintf(why, size, "limit_ms must be 1 or more");
        return false;
    }
    if (o->clients < 1 || o->clients > SIM_CLIENTS || o->owners < 1 ||
        o->owners > SIM_OWNERS || o->names < 1 || o->names > SIM_NAMES) {
        snprintf(why, size, "clients 1..%d, owners 1..%d, names 1..%d",
                 SIM_CLIENTS, SIM_OWNERS, SIM_NAMES);
        return false;
    }
    if (o->flavour < 0 || o->flavour >= SIM_FLAVOURS ||
        (o->flavour >= SIM_PERMITS && o->size < 1)) {
        snprintf(why, size,
                 "flavour 0 mutex, 1 read/write, 2 permits, 3 barrier, 4 "
                 "latch; the last three with a size of at least 1");
        return false;
    }
    if (o->nodes < 0 || o->nodes > SIM_NODES ||
        (o->nodes > 1 &&
         (o->flavour || o->delay_ms || o->prio_pct || o->many_pct ||
          o->circle_pct || o->force_pct || o->spin || o->spin_pct))) {
        snprintf(why, size, "nodes 0..%d; a quorum has plain mutexes only",
                 SIM_NODES);
        return false;
    }
    if (o->many_pct && (o->names < 2 || o->flavour == SIM_BARRIER)) {
        snprintf(why, size, "many_pct: of 2 names or more, no barriers");
        return false;
    }
    if (o->circle_pct && (o->flavour > SIM_PERMITS || o->nest_pct ||
                          o->params_pct || o->many_pct || o->skew_ms < 0)) {
        snprintf(why, size,
                 "circle_pct: flavour 0 to 2, without nest_pct, terms_pct, "
                 "many_pct");
        return false;
    }
    if (o->lease2_ms < 0 || ((o->lease2_ms || o->renew_pct) &&
                             (o->nodes > 1 || o->many_pct || o->circle_pct))) {
        snprintf(why, size,
                 "lease2_ms, renew_pct: without nodes, many_pct, circle_pct");
        return false;
    }
    if (o->nodes > 1 && (o->value_pct || o->look_pct)) {
        snprintf(why, size, "a quorum has no values, and nobody looks");
        return false;
    }
    if (o->look_pct < 0 || o->look_pct > 90 || o->keep_ms < 0 ||
        o->again_ms < 0) {
        snprintf(why, size, "look_pct 0..90, keep_ms, again_ms 0 or more");
        return false;
    }
    if (o->spin < 0 || o->spin >= SIM_SPINS ||
        ((o->spin || o->spin_pct) && o->flavour == SIM_BARRIER)) {
        snprintf(why, size, "spin 0..%d; those who spin never meet",
                 SIM_SPINS - 1);
        return false;
    }
    return true;
}

/* -- deeds ----------------------------------------------------------------- */

static void down(struct sim_world *w, int node, bool keep, int64_t ms)
{
    sim_net_break_all(w, node);
    sim_redis_restart(w->node[node].redis, keep);
    int64_t *until = &w->node[node].down_until, end = w->t + ms * SIM_MS;
    *until = sim_quorum(w) && *until > end ? *until : end;
}

static void evict(struct sim_redis *redis, int name)
{
    static const char *const safe[SIM_NAMES] = {"stock", "a%7Db%7Bc", "%257B",
                                                "d"};
    static const char *const tails[] = {"", ":t", ":q", ":w"};
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        char key[64];
        int n = snprintf(key, sizeof key, "snib:{%s}%s", safe[name], tails[i]);
        sim_redis_evict(redis, 0, key, (size_t)n);
    }
}

/* All that was acknowledged since the snapshot is lost; connections break. */
void sim_promote(struct sim_world *w, int node)
{
    struct sim_server *s = &w->node[node];
    if (s->replica) {
        sim_note(w, "  the replica takes over");
        w->p1_off = true;
        w->died = true; /* grants that had ended are there again */
        down(w, node, false, 20);
        sim_redis_restore(s->redis, s->replica);
        sim_redis_snapshot_free(s->replica);
        s->replica = NULL;
        w->told.lost_at = w->t;
        w->faults++; /* one more: connections are cut now */
        sim_book_again(w);
        sim_directs_fault(w, &(struct sim_fault){.kind = SIM_PROMOTE});
    }
}

/* The client that holds something just now (preferably one that also waits
 * inside), or any client. */
static int holder(const struct sim_world *w)
{
    int n = w->opt.clients * w->opt.owners;
    for (int i = 0; sim_circles(w) && i < n; i++) {
        int c = i / w->opt.owners;
        if (w->client[c].owner[i % w->opt.owners].state == SIM_OWNER_NESTING) {
            return c;
        }
    }
    for (int i = 0; i < n; i++) {
        int c = i / w->opt.owners;
        if (w->client[c].owner[i % w->opt.owners].state == SIM_OWNER_HOLDING) {
            return c;
        }
    }
    return 0;
}

/* Cut a client off from a server; in a quorum from all, one, or all but one. */
static void isolate(struct sim_world *w, const struct sim_fault *f, int client,
                    int node, int64_t until)
{
    int how = f->b % SIM_CONNS;
    for (int k = 0; k < w->nodes; k++) {
        if (w->nodes == 1 || how == 0 || (how == 1) == (k == node)) {
            w->client[client].isolated_until[k] = until;
        }
    }
}

/* Is something lost that was acknowledged, or may what is over come again? */
static bool forgets(int kind)
{
    return kind == SIM_WIPE || kind == SIM_FLUSHALL || kind == SIM_EVICT ||
           kind == SIM_STEP_BACK;
}

void sim_fault_apply(struct sim_world *w, int index)
{
    const struct sim_fault *f = &w->opt.fault[index];
    int c = f->a == SIM_HOLDER ? holder(w) : f->a % w->opt.clients;
    int node = f->b / SIM_CONNS % w->nodes;
    struct sim_server *s = &w->node[node];
    int64_t until = w->t + f->ms * SIM_MS;
    w->trouble_until = until > w->trouble_until ? until : w->trouble_until;
    w->faults++;
    sim_note(w, "FAULT %s %d %d %lld ms", sim_fault_name(f->kind), f->a, f->b,
             (long long)f->ms);
    if (sim_quorum(w)) {
        sim_quorum_before(w, node);
    }
    switch (f->kind) {
    case SIM_CUT:
        sim_net_break(w, c, f->b % w->wires);
        break;
    case SIM_LOSE_REPLY:
        w->client[c].wire[f->b % w->wires].lose_reply = true;
        break;
    case SIM_HALF_OPEN:
        w->client[c].wire[f->b % w->wires].half_open = true;
        break;
    case SIM_PAUSE:
        if (until > w->client[c].paused_until) {
            w->client[c].paused_until = until;
        }
        break;
    case SIM_CRASH:
        w->died = true;
        sim_client_stop(w, c);
        sim_net_drop_client(w, c);
        w->client[c].life++;
        sim_client_start(w, c);
        break;
    case SIM_FREEZE:
        if (until > s->paused_until) {
            s->paused_until = until;
        }
        break;
    case SIM_RESTART:
        down(w, node, true, f->ms);
        break;
    case SIM_WIPE:
        w->p1_off = true;
        down(w, node, false, f->ms);
        break;
    case SIM_SCRIPT_FLUSH:
        sim_redis_script_flush(s->redis);
        break;
    case SIM_FLUSHALL:
        w->p1_off = true;
        sim_redis_flushall(s->redis);
        break;
    case SIM_STEP_BACK:
        s->step_us -= f->ms * 1000;
        w->p2_off = true;
        break;
    case SIM_STEP_FORWARD:
        s->step_us += f->ms * 1000;
        w->p1_off = true;
        sim_book_lapse(w);
        break;
    case SIM_ERROR:
        sim_redis_set_fault(s->redis, (enum sim_redis_fault)f->a, true);
        break;
    case SIM_SLOW:
        s->slow_until = until;
        break;
    case SIM_EVICT:
        w->p1_off = true;
        evict(s->redis, f->a % w->opt.names);
        break;
    case SIM_JUMP:
        snib__engine_jumped(w->client[c].engine,
                            (snib_instant){sim_local(&w->client[c], w->t)});
        theorem_jump_puts_at_risk(w, c);
        sim_client_after(w, c);
        break;
    case SIM_REFUSE:
        s->refuse_until = until;
        break;
    case SIM_LATE:
        w->client[c].wire[f->b % w->wires].late = f->ms * SIM_MS;
        break;
    case SIM_PROMOTE:
        sim_redis_snapshot_free(s->replica);
        s->replica = sim_redis_snapshot(s->redis);
        sim_push(w, (struct sim_event){
                        .at = until, .kind = SIM_EV_PROMOTE, .node = node});
        break;
    case SIM_ISOLATE:
        isolate(w, f, c, node, until);
        break;
    default:
        break;
    }
    if (f->kind != SIM_PROMOTE) { /* a promotion comes later */
        sim_directs_fault(w, f);
        w->told.lost_at = forgets(f->kind) ? w->t : w->told.lost_at;
    }
    if (sim_quorum(w)) {
        w->p1_off = w->p2_off = false;
        sim_quorum_after(w, node, f);
    } else if (w->p1_off) {
        sim_book_again(w);
    }
}

bool sim_planned(const struct sim_world *w, int kind)
{
    for (int i = 0; i < w->opt.fault_count; i++) {
        if (w->opt.fault[i].kind == kind) {
            return true;
        }
    }
    return false;
}

/* End all trouble: broken connections are told to both ends, states of refusal
 * end, everybody runs. Clock rates stay. */
void sim_heal(struct sim_world *w)
{
    sim_note(w, "-- healed");
    /* By then no late copy closes a latch any more. */
    sim_push(w, (struct sim_event){.at = w->t + 15000 * SIM_MS,
                                   .kind = SIM_EV_PARAMS,
                                   .life = w->client[0].life});
    w->healed = true;
    w->healed_at = w->t;
    for (int k = 0; k < w->nodes; k++) {
        struct sim_server *s = &w->node[k];
        s->paused_until = s->down_until = 0;
        s->refuse_until = s->slow_until = 0;
        for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
            sim_redis_set_fault(s->redis, (enum sim_redis_fault)errors[i],
                                false);
        }
    }
    sim_force_deafen(w);
    for (int c = 0; c < w->opt.clients; c++) {
        w->client[c].paused_until = 0;
        memset(w->client[c].isolated_until, 0,
               sizeof w->client[c].isolated_until);
        for (int i = 0; i < w->wires; i++) {
            w->client[c].wire[i].lose_reply = false;
            if (w->client[c].wire[i].half_open || w->client[c].wire[i].late) {
                sim_net_break(w, c, i);
            }
        }
    }
}
