/* sim/quorum.c — worlds whose store is a quorum: two to five servers that know
 * nothing of each other, each with its own clock, keys and troubles.
 *
 * The promises depend on what the servers remember, so that is written down
 * here after every script: which grant stands at which server (`stand`), and
 * which servers lost it by a fault and not by its end (`forgotten`). A server
 * that restarts empty forgets, unless it stays away for longer than the longest
 * lease (docs/QUORUM.md, the delayed restart). So does a server whose clock
 * steps forward.
 *
 * The drawing comes from a stream of its own and changes what was drawn for one
 * server, so that all other worlds stay what they were. */
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

enum {
    ONE_IN = 64,                  /* one seed in so many is a quorum's */
    FAR_MS = 3 * 24 * 3600 * 1000 /* beyond a day: its vote is not counted */
};

int sim_majority(const struct sim_world *w)
{
    return w->nodes / 2 + 1;
}

/* -- drawing --------------------------------------------------------------- */

static int at_node(struct snib__rng *r, int node)
{
    return node * SIM_CONNS + sim_upto(r, SIM_CONNS);
}

/* A minority of the servers fails, is slow, forgets, or its connections break;
 * nobody may notice. */
static void a_minority_fails(struct sim_options *o, struct snib__rng *r)
{
    static const int kinds[] = {
        SIM_CUT,          SIM_LOSE_REPLY, SIM_HALF_OPEN, SIM_FREEZE,
        SIM_FREEZE,       SIM_RESTART,    SIM_WIPE,      SIM_FLUSHALL,
        SIM_STEP_FORWARD, SIM_ERROR,      SIM_SLOW,      SIM_EVICT,
        SIM_REFUSE,       SIM_LATE,       SIM_ISOLATE,   SIM_STEP_BACK};
    int few = (o->nodes - 1) / 2, from = sim_upto(r, o->nodes);
    o->fault_count = few ? 1 + sim_upto(r, 6) : 0;
    for (int i = 0; i < o->fault_count; i++) {
        struct sim_fault *f = &o->fault[i];
        int node = (from + sim_upto(r, few)) % o->nodes;
        *f = (struct sim_fault){
            .at_ms = 1 + sim_upto(r, 2000),
            .kind = kinds[sim_upto(r, sizeof kinds / sizeof kinds[0])],
            .a = sim_upto(r, o->clients),
            .b = at_node(r, node),
            .ms = 20 << sim_upto(r, 9)};
        if (f->kind == SIM_ERROR) {
            f->a = sim_upto(r, 2) ? SIM_REDIS_LOADING : SIM_REDIS_READONLY;
        } else if (f->kind == SIM_ISOLATE) {
            f->b = node * SIM_CONNS + 1;
        }
    }
}

/* One server is away, so that grants stand on a bare majority; then another
 * restarts empty. */
static void forgetful(struct sim_options *o, struct snib__rng *r)
{
    int away = sim_upto(r, o->nodes), empty = sim_upto(r, o->nodes);
    o->lease_ms = sim_upto(r, 2) ? 1000 : 3000;
    o->hold_us = o->lease_ms * 500;
    o->clients = 3;
    o->owners = o->names = 1;
    o->ops = 4;
    o->try_pct = 0;
    o->fault_count = 0;
    if (sim_upto(r, 2)) {
        o->fault[o->fault_count++] = (struct sim_fault){
            .at_ms = 1 + sim_upto(r, 100),
            .kind = sim_upto(r, 2) ? SIM_FREEZE : SIM_RESTART,
            .b = at_node(r, away),
            .ms = 1000 + sim_upto(r, 3000)};
    }
    for (int n = 1 + sim_upto(r, 2); n > 0; n--) {
        o->fault[o->fault_count++] =
            (struct sim_fault){.at_ms = 100 + sim_upto(r, 4000),
                               .kind = sim_upto(r, 3) ? SIM_WIPE : SIM_FLUSHALL,
                               .b = at_node(r, empty),
                               .ms = 5 << sim_upto(r, 7)};
        empty = sim_upto(r, 2) ? sim_upto(r, o->nodes) : empty;
    }
}

/* The holder is cut off from a majority and outstays its lease; half of the
 * time after a spell in which all answers were slow, so that it matters from
 * when the lease counts. */
static void minority_holder(struct sim_options *o, struct snib__rng *r)
{
    bool slow = sim_upto(r, 2);
    o->clients = 3;
    o->owners = 1 + sim_upto(r, 2);
    o->names = 1;
    o->ops = 6;
    o->lease_ms = sim_upto(r, 2) ? 500 : 1000;
    o->latency_us = slow ? 300 : o->latency_us;
    o->hold_us = o->lease_ms * 300;
    o->overrun_pct = 60;
    o->try_pct = o->timed_pct = o->fixed_pct = 0;
    o->fault_count = 0;
    for (int n = 1 + sim_upto(r, 4); n > 0; n--) {
        int at = 300 + sim_upto(r, 3000);
        for (int k = 0; slow && k < o->nodes; k++) {
            o->fault[o->fault_count++] = (struct sim_fault){.at_ms = at - 200,
                                                            .kind = SIM_SLOW,
                                                            .b = k * SIM_CONNS,
                                                            .ms = 190};
        }
        o->fault[o->fault_count++] =
            (struct sim_fault){.at_ms = at,
                               .kind = SIM_ISOLATE,
                               .a = SIM_HOLDER,
                               .b = sim_upto(r, o->nodes) * SIM_CONNS + 2,
                               .ms = o->lease_ms * (1 + sim_upto(r, 3))};
    }
}

/* Clocks are seconds apart, and each client misses other servers. */
static void other_majorities(struct sim_options *o, struct snib__rng *r)
{
    o->apart_ms = 4000 + sim_upto(r, 6000);
    o->clients = 2 + sim_upto(r, 3);
    o->ops = 6;
    o->fault_count = 2 + sim_upto(r, 6);
    for (int i = 0; i < o->fault_count; i++) {
        o->fault[i] = (struct sim_fault){
            .at_ms = 1 + sim_upto(r, 1000),
            .kind = sim_upto(r, 4) ? SIM_ISOLATE : SIM_FREEZE,
            .a = sim_upto(r, o->clients),
            .b = sim_upto(r, o->nodes) * SIM_CONNS + 1,
            .ms = 50 << sim_upto(r, 6)};
    }
}

/* Answers come after their round has been decided, and within the patience. */
static void late_answers(struct sim_options *o, struct snib__rng *r)
{
    o->node_ms = 20 + sim_upto(r, 100);
    o->latency_us = 100;
    o->clients = 2 + sim_upto(r, 3);
    o->names = 1;
    o->ops = 8;
    o->hold_us = o->think_us = 500;
    o->fault_count = 1 + sim_upto(r, 6);
    for (int i = 0; i < o->fault_count; i++) {
        o->fault[i] =
            (struct sim_fault){.at_ms = 1 + sim_upto(r, 200),
                               .kind = sim_upto(r, 4) ? SIM_SLOW : SIM_FREEZE,
                               .b = at_node(r, sim_upto(r, o->nodes)),
                               .ms = 10 << sim_upto(r, 6)};
    }
}

static void focus(struct sim_options *o, struct snib__rng *r)
{
    int which = sim_upto(r, 16);
    if (which < 3) {
        a_minority_fails(o, r);
    } else if (which < 5) {
        forgetful(o, r);
    } else if (which < 7) {
        minority_holder(o, r);
    } else if (which < 9) {
        other_majorities(o, r);
    } else if (which < 11) {
        late_answers(o, r);
    }
}

bool sim_quorum_drawn(uint64_t seed)
{
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{seed, 12, 0, 0}});
    return sim_upto(&r, ONE_IN) == 0;
}

void sim_quorum_draw(struct sim_options *o)
{
    static const int counts[] = {3, 3, 3, 5, 5, 2, 4};
    static const int64_t leases[] = {200, 500, 1000, 3000};
    static const int64_t apart[] = {0, 0, 30, 2000, 10000, 5400000};
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 11, 0, 0}});
    o->flavour = SIM_MUTEX;
    o->delay_ms = o->prio_pct = o->nest_pct = o->params_pct = 0;
    o->force_pct = o->spin = o->spin_pct = 0;
    /* A round trip beyond the patience for a server is as if it were down. */
    o->latency_us = o->latency_us < 2000 ? o->latency_us : 2000;
    o->nodes = counts[sim_upto(&r, 7)];
    o->node_ms =
        sim_upto(&r, 4) ? 0 : 20 + (int)o->latency_us / 50 + sim_upto(&r, 80);
    o->apart_ms = apart[sim_upto(&r, 6)];
    o->far_node = sim_upto(&r, 16) ? 0 : 1 + sim_upto(&r, o->nodes);
    o->owners = o->owners < 3 ? o->owners : 3;
    o->ops = o->ops < 8 ? o->ops : 8;
    if (o->lease_ms > 10000) { /* a waiter asks five times a second */
        o->lease_ms = leases[sim_upto(&r, 4)];
    }
    while (o->lease_ms * 1000 <= 100 * o->latency_us && sim_upto(&r, 4)) {
        o->lease_ms *= 2;
    }
    for (int i = 0; i < o->fault_count; i++) {
        o->fault[i].b = at_node(&r, sim_upto(&r, o->nodes));
        /* a quorum's servers have no replicas */
        if (o->fault[i].kind == SIM_PROMOTE) {
            o->fault[i].kind = SIM_WIPE;
        }
    }
    focus(o, &r);
    int64_t most = 40000000 / (o->clients * o->owners * o->ops);
    o->hold_us = o->hold_us < most ? o->hold_us : most;
    for (int i = 0; i < o->fault_count; i++) {
        if (o->fault[i].kind == SIM_WIPE && sim_upto(&r, 2)) {
            o->fault[i].ms = o->lease_ms * 11 / 10 + 50;
        }
    }
}

/* -- what stands where ----------------------------------------------------- */

struct reading {
    struct sim_world *w;
    struct sim_stand stand;
    int64_t now;
    int node, name, live;
};

static void read_holder(void *user, const struct sim_redis_item *item)
{
    struct reading *r = user;
    char id[SIM_ID + 1];
    long long token, end;
    if (item->name.len < SIM_ID ||
        sscanf(item->value.ptr, "%32s %lld %lld", id, &token, &end) != 3 ||
        end <= r->now) {
        return;
    }
    r->live++;
    memcpy(r->stand.id, id, SIM_ID);
    memcpy(r->stand.client, item->name.ptr, SIM_ID);
    r->stand.token = token;
    r->stand.end = end;
}

static void read_stand(struct sim_world *w, int node, int name)
{
    struct sim_stand *was = &w->stand[node][name];
    struct reading r = {
        .w = w, .now = sim_wall_us(w, node) / 1000, .node = node, .name = name};
    sim_redis_each_item(w->node[node].redis, 0, sim_keys[name],
                        strlen(sim_keys[name]), sim_wall_us(w, node),
                        read_holder, &r);
    if (r.live > 1) {
        sim_fail(w, "mutual exclusion", "name %d: %d grants at server %d", name,
                 r.live, node);
    }
    if (sim_same(r.stand.id, was->id)) {
        r.stand.stray_since = was->stray_since;
    }
    *was = r.stand;
}

bool sim_stand_live(const struct sim_world *w, int node, int name)
{
    return w->stand[node][name].end > sim_wall_us(w, node) / 1000;
}

uint32_t sim_stands(const struct sim_world *w, int name, const char *id)
{
    uint32_t at = 0;
    for (int k = 0; k < w->nodes; k++) {
        at |= (uint32_t)(sim_stand_live(w, k, name) &&
                         sim_same(w->stand[k][name].id, id))
              << k;
    }
    return at;
}

void sim_quorum_start(struct sim_world *w)
{
    uint32_t touched = 0;
    bool servers_only = true;
    for (int k = 0; k < w->nodes; k++) {
        uint64_t span = 2 * (uint64_t)w->opt.apart_ms + 1;
        w->node[k].step_us =
            ((int64_t)snib__rng_below(&w->misc, span) - w->opt.apart_ms) * 1000;
        w->node[k].ppm = (int64_t)snib__rng_below(
                             &w->misc, 2 * (uint64_t)w->opt.rate_ppm + 1) -
                         w->opt.rate_ppm;
        if (w->opt.far_node == k + 1) {
            w->node[k].step_us += FAR_MS * INT64_C(1000);
        }
    }
    for (int i = 0; i < w->opt.fault_count; i++) {
        const struct sim_fault *f = &w->opt.fault[i];
        touched |= 1u << f->b / SIM_CONNS % w->nodes;
        servers_only &= f->kind != SIM_PAUSE && f->kind != SIM_CRASH &&
                        f->kind != SIM_JUMP && f->kind != SIM_PROMOTE &&
                        (f->kind != SIM_ISOLATE || f->b % SIM_CONNS == 1);
    }
    w->touched = touched;
    touched |= w->opt.far_node ? 1u << (w->opt.far_node - 1) : 0;
    w->minor = touched && servers_only &&
               __builtin_popcount(touched) <= w->nodes - sim_majority(w);
}

static void note_memory(struct sim_world *w, int node, int name)
{
    struct sim_memory *m = &w->memory[node][name];
    int64_t is = sim_redis_last_token(w, node, name);
    const char *by = w->stand[node][name].id;
    if (is != m->is && !sim_same(by, m->by)) {
        m->was = m->is;
        memcpy(m->by, by, SIM_ID);
    }
    m->is = is;
}

struct sim_stand sim_quorum_read(struct sim_world *w, int node, int name)
{
    struct sim_stand was = w->stand[node][name];
    read_stand(w, node, name);
    note_memory(w, node, name);
    return was;
}

/* -- what is forgotten ----------------------------------------------------- */

uint32_t sim_remember(const struct sim_world *w, int name, int64_t token,
                      const char *id)
{
    uint32_t at = 0;
    for (int k = 0; k < w->nodes; k++) {
        const struct sim_memory *m = &w->memory[k][name];
        int64_t had = sim_same(m->by, id) ? m->was : m->is;
        at |= (uint32_t)(had >= token) << k;
    }
    return at;
}

struct sim_forgotten sim_lost_at(const struct sim_world *w, int name,
                                 const char *id)
{
    struct sim_forgotten lost = {0};
    for (uint32_t i = 0; i < w->forgotten_count[name] && i < SIM_FORGOTTEN;
         i++) {
        const struct sim_forgotten *f = &w->forgotten[name][i];
        if (sim_same(f->id, id)) {
            lost.nodes |= f->nodes;
            lost.early |= f->early;
        }
    }
    return lost;
}

/* About the fault that is being applied. */
static _Thread_local struct {
    struct sim_stand stand[SIM_NAMES];
    bool live[SIM_NAMES];
} before;

void sim_quorum_before(struct sim_world *w, int node)
{
    memset(w->ended[node], 0, sizeof w->ended[node]); /* tombstones may go */
    for (int n = 0; n < w->opt.names; n++) {
        before.stand[n] = w->stand[node][n];
        before.live[n] = sim_stand_live(w, node, n);
    }
}

void sim_quorum_after(struct sim_world *w, int node, const struct sim_fault *f)
{
    /* The rule of the delayed restart: what the server forgets is over by
     * then. */
    bool delayed = f->kind == SIM_WIPE &&
                   f->ms >= w->opt.lease_ms + w->opt.lease_ms / 50 + 20;
    for (int n = 0; n < w->opt.names; n++) {
        read_stand(w, node, n);
        bool still = sim_stand_live(w, node, n) &&
                     sim_same(w->stand[node][n].id, before.stand[n].id) &&
                     f->kind != SIM_STEP_FORWARD;
        if (before.live[n] && !still) {
            uint32_t i = w->forgotten_count[n]++ % SIM_FORGOTTEN;
            memcpy(w->forgotten[n][i].id, before.stand[n].id, SIM_ID);
            w->forgotten[n][i].nodes = 1u << node;
            w->forgotten[n][i].early = delayed ? 0 : 1u << node;
        }
        if (sim_redis_last_token(w, node, n) < w->memory[node][n].is) {
            w->no_memory[n] |= 1u << node;
            w->memory[node][n] = (struct sim_memory){0};
        }
    }
}
