/* core/waits_sets.c — what is stuck in the graph of waits, and who gives up.
 *
 * A *set* is a strongly connected component: waits of which each reaches each.
 * One wait that gives up breaks its set at least in part; what is left shows in
 * the next scan. Sets are found by cutting off waits that nobody reaches or
 * that reach nobody until nothing moves, then by two searches, forwards and
 * backwards, from each wait that is left. Cost: O(waits + edges) where there is
 * no deadlock, which is nearly always. */
#include "core/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ALIVE_MOST_MS: no store keeps a waiter for longer than that without hearing
 * of it again. SLACK_MS is more than rounding and clock rates add. */
enum { ALIVE_MOST_MS = 3000, SLACK_MS = 50 };

/* -- what is stuck -------------------------------------------------------- */

static bool waits_sets_is_stuck(const struct snib__waits *g, const bool *free,
                                uint32_t to)
{
    return to != SNIB__WAIT_NONE && !g->waits[to].apart && !free[to];
}

/* Does something keep this wait from ending, as far as is known of the
 * others? */
static bool waits_sets_is_kept(const struct snib__waits *g, const bool *free,
                               uint32_t i, bool sure)
{
    const struct snib__wait *w = &g->waits[i];
    bool any = false, all = true;
    for (uint32_t k = 0; k < w->edges; k++) {
        const struct snib__edge *e = &g->edges[w->edge + k];
        bool stuck = waits_sets_is_stuck(g, free, e->to);
        if (sure && !e->sure) {
            continue;
        }
        if (!e->any && stuck) {
            return true;
        }
        any = any || e->any;
        all = all && (!e->any || stuck);
    }
    return any && all;
}

/* free[i]: this wait can end. It is a greatest fixed point: all waits are taken
 * for stuck until the contrary shows. */
static void waits_sets_release_free(const struct snib__waits *g, bool *free,
                                    bool sure)
{
    bool moved = true;
    for (uint32_t i = 0; i < g->count; i++) {
        free[i] = g->waits[i].apart;
    }
    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < g->count; i++) {
            if (!free[i] && !waits_sets_is_kept(g, free, i, sure)) {
                free[i] = moved = true;
            }
        }
    }
}

/* A wait that no stuck wait reaches is on no cycle, whether or not it waits for
 * one. */
static void waits_sets_release_tails(const struct snib__waits *g, bool *free,
                                     bool *seen, bool sure)
{
    bool moved = true;
    while (moved) {
        moved = false;
        memset(seen, 0, g->count * sizeof *seen);
        for (uint32_t i = 0; i < g->count; i++) {
            const struct snib__wait *w = &g->waits[i];
            for (uint32_t k = 0; !free[i] && k < w->edges; k++) {
                const struct snib__edge *e = &g->edges[w->edge + k];
                if (e->to != SNIB__WAIT_NONE && (e->sure || !sure)) {
                    seen[e->to] = true;
                }
            }
        }
        for (uint32_t i = 0; i < g->count; i++) {
            if (!free[i] && !seen[i]) {
                free[i] = moved = true;
            }
        }
    }
}

/* Marks what `from` reaches along the edges, or against them. Repeats until
 * nothing is new: deadlocks are small. */
static void waits_sets_reach(const struct snib__waits *g, const bool *free,
                             bool *in, uint32_t from, bool against, bool sure)
{
    bool moved = true;
    memset(in, 0, g->count * sizeof *in);
    in[from] = true;
    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < g->count; i++) {
            const struct snib__wait *w = &g->waits[i];
            for (uint32_t k = 0; !free[i] && k < w->edges; k++) {
                const struct snib__edge *e = &g->edges[w->edge + k];
                if (!waits_sets_is_stuck(g, free, e->to) ||
                    (sure && !e->sure)) {
                    continue;
                }
                uint32_t a = against ? e->to : i, z = against ? i : e->to;
                if (in[a] && !in[z]) {
                    in[z] = moved = true;
                }
            }
        }
    }
}

static bool waits_sets_points_at_itself(const struct snib__waits *g, uint32_t i,
                                        bool sure)
{
    return snib__waits_edge(g, i, i, sure) != NULL;
}

static uint32_t waits_sets_number_sets(struct snib__waits *g, const bool *free,
                                       bool *out, bool *back, bool sure)
{
    uint32_t sets = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        uint32_t *mine = sure ? &g->waits[i].sure_set : &g->waits[i].set;
        uint32_t members = 0;
        if (free[i] || *mine != SNIB__WAIT_NONE) {
            continue;
        }
        waits_sets_reach(g, free, out, i, false, sure);
        waits_sets_reach(g, free, back, i, true, sure);
        for (uint32_t k = 0; k < g->count; k++) {
            members += out[k] && back[k];
        }
        if (members < 2 && !waits_sets_points_at_itself(g, i, sure)) {
            continue;
        }
        for (uint32_t k = 0; k < g->count; k++) {
            if (out[k] && back[k]) {
                *(sure ? &g->waits[k].sure_set : &g->waits[k].set) = sets;
            }
        }
        sets++;
    }
    return sets;
}

bool snib__waits_find_sets(struct snib__waits *g)
{
    bool *free = snib__alloc(3 * ((size_t)g->count + 1) * sizeof *free);
    if (!free) {
        return false;
    }
    bool *out = free + g->count, *back = out + g->count;
    for (int sure = 0; sure < 2; sure++) {
        waits_sets_release_free(g, free, sure);
        waits_sets_release_tails(g, free, out, sure);
        uint32_t sets = waits_sets_number_sets(g, free, out, back, sure);
        *(sure ? &g->sure_sets : &g->sets) = sets;
    }
    snib__free(free);
    return true;
}

/* -- asking the graph ----------------------------------------------------- */

static uint32_t waits_sets_set_of(const struct snib__waits *g, uint32_t i,
                                  bool sure)
{
    return sure ? g->waits[i].sure_set : g->waits[i].set;
}

uint32_t snib__waits_find(const struct snib__waits *g,
                          const uint64_t request[2])
{
    for (uint32_t i = 0; i < g->count; i++) {
        if (g->waits[i].request[0] == request[0] &&
            g->waits[i].request[1] == request[1]) {
            return i;
        }
    }
    return SNIB__WAIT_NONE;
}

static bool waits_sets_is_younger(const struct snib__wait *a,
                                  const struct snib__wait *b)
{
    if (a->about.since_ms != b->about.since_ms) {
        return a->about.since_ms > b->about.since_ms;
    }
    if (a->request[0] != b->request[0]) {
        return a->request[0] > b->request[0];
    }
    return a->request[1] > b->request[1];
}

uint32_t snib__waits_youngest(const struct snib__waits *g, uint32_t set,
                              bool sure)
{
    uint32_t found = SNIB__WAIT_NONE;
    for (uint32_t i = 0; i < g->edge_count; i++) {
        const struct snib__edge *e = &g->edges[i];
        if (!e->queue && (e->sure || !sure) && e->to != SNIB__WAIT_NONE &&
            waits_sets_set_of(g, e->from, sure) == set &&
            waits_sets_set_of(g, e->to, sure) == set &&
            (found == SNIB__WAIT_NONE ||
             waits_sets_is_younger(&g->waits[e->to], &g->waits[found]))) {
            found = e->to;
        }
    }
    return found;
}

static uint64_t waits_sets_mix(uint64_t n)
{
    n = (n ^ n >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    n = (n ^ n >> 27) * UINT64_C(0x94d049bb133111eb);
    return n ^ n >> 31;
}

uint64_t snib__waits_id(const struct snib__waits *g, uint32_t set, bool sure)
{
    uint64_t id = 1;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct snib__wait *w = &g->waits[i];
        if (waits_sets_set_of(g, i, sure) != set) {
            continue;
        }
        uint64_t me =
            waits_sets_mix(w->request[0] ^ waits_sets_mix(w->request[1]));
        id += waits_sets_mix(me + (uint64_t)w->about.since_ms);
        for (uint32_t k = 0; k < w->edges; k++) {
            const struct snib__edge *e = &g->edges[w->edge + k];
            if (e->to != SNIB__WAIT_NONE && (e->sure || !sure) &&
                waits_sets_set_of(g, e->to, sure) == set) {
                id += waits_sets_mix(me ^ waits_sets_mix(e->by) ^
                                     g->waits[e->to].request[1]);
            }
        }
    }
    return id;
}

int64_t snib__waits_unheard(const struct snib__waits *g, uint32_t set,
                            bool sure)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < g->edge_count; i++) {
        const struct snib__edge *e = &g->edges[i];
        if (!e->above || e->to == SNIB__WAIT_NONE ||
            waits_sets_set_of(g, e->to, sure) != set) {
            continue;
        }
        int64_t left = g->waits[e->to].left_ms;
        int64_t ms = left > 0 && left <= ALIVE_MOST_MS
                         ? ALIVE_MOST_MS + SLACK_MS - left
                         : INT64_MAX;
        most = ms > most ? ms : most;
    }
    return most;
}

const struct snib__edge *snib__waits_edge(const struct snib__waits *g,
                                          uint32_t from, uint32_t to, bool sure)
{
    const struct snib__wait *w = &g->waits[from];
    const struct snib__edge *found = NULL;
    for (uint32_t k = 0; k < w->edges; k++) {
        const struct snib__edge *e = &g->edges[w->edge + k];
        if (e->to == to && (e->sure || !sure) && (!found || found->queue)) {
            found = e;
        }
    }
    return found;
}

/* Breadth first. came[i]: the wait from which i was reached, plus one. */
static bool waits_sets_search(const struct snib__waits *g, uint32_t from,
                              bool sure, uint32_t *came, uint32_t *queue)
{
    uint32_t head = 0, tail = 0;
    queue[tail++] = from;
    while (head < tail) {
        uint32_t i = queue[head++];
        const struct snib__wait *w = &g->waits[i];
        for (uint32_t k = 0; k < w->edges; k++) {
            const struct snib__edge *e = &g->edges[w->edge + k];
            if (e->to == SNIB__WAIT_NONE || (sure && !e->sure) ||
                waits_sets_set_of(g, e->to, sure) !=
                    waits_sets_set_of(g, from, sure) ||
                came[e->to]) {
                continue;
            }
            came[e->to] = i + 1;
            if (e->to == from) {
                return true;
            }
            queue[tail++] = e->to;
        }
    }
    return false;
}

uint32_t snib__waits_cycle(const struct snib__waits *g, uint32_t from,
                           bool sure, uint32_t *ret, uint32_t max)
{
    uint32_t length = 0;
    if (waits_sets_set_of(g, from, sure) == SNIB__WAIT_NONE) {
        return 0;
    }
    uint32_t *came = snib__alloc(2 * ((size_t)g->count + 1) * sizeof *came);
    if (came && waits_sets_search(g, from, sure, came, came + g->count)) {
        uint32_t i = from;
        do { /* backwards, from `from` to itself */
            i = came[i] - 1;
            length++;
        } while (i != from);
        uint32_t place = length;
        do {
            i = came[i] - 1;
            place--;
            if (place < max) {
                ret[place] = i;
            }
        } while (i != from);
    }
    snib__free(came);
    return length;
}
