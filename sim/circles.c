/* sim/circles.c — who waits for whom in truth now: from what the owners do and
 * what the server's books say. It is written a second time on purpose, without
 * the texts, the rows and the graph of core/waits.c, since it judges what that
 * refuses.
 *
 * A wait is a request in a queue for which some owner waits at this instant. (A
 * request whose owner has given up or died may stand there for a while yet. It
 * is no wait, but others see it: for them it is a ghost, which has what its
 * owner had when it waited.) A wait cannot end before the wait of an owner that
 * has a grant in its way, nor before one that stands ahead. An owner that has a
 * grant and does not wait can go on, and so can all that wait behind it. Edges
 * through permits are left out: it is enough that some of them come back, not
 * all. */
#include <string.h>

#include "core/engine_i.h"
#include "sim/world.h"

static uint64_t bit(int i)
{
    return UINT64_C(1) << i;
}

/* The request behind an acquisition; false: there is none. */
static bool id_of(const struct snib__acquisition *s, char ret[SIM_ID])
{
    char text[33];
    if (!s || !s->local || !s->local->claim) {
        return false;
    }
    sim_acquisition_id(s, text);
    memcpy(ret, text, SIM_ID);
    return true;
}

/* -- owners ---------------------------------------------------------------- */

enum { OWNERS = SIM_CLIENTS * SIM_OWNERS };

/* The waits and grants of owners, by the ids of the requests. */
struct owners {
    struct {
        char id[SIM_ID];
        int owner, name;
    } wait[OWNERS], grant[OWNERS * SIM_GRANTS];
    int waits, grants;
};

static const struct snib__acquisition *wait_of(const struct sim_owner *l)
{
    const struct snib__acquisition *s = l->state == SIM_OWNER_WAITING ? l->acq
                                        : l->state == SIM_OWNER_NESTING
                                            ? l->nest.wait
                                            : NULL;
    return s && s->state == SNIB__ACQ_WAITING ? s : NULL;
}

static void read_owner(const struct sim_owner *l, int owner, struct owners *v)
{
    struct sim_grant g[SIM_GRANTS];
    int n = sim_grants(l, g);
    if (id_of(wait_of(l), v->wait[v->waits].id)) {
        v->wait[v->waits].name = sim_wants(l);
        v->wait[v->waits++].owner = owner;
    }
    for (int k = 0; k < n; k++) {
        if (g[k].acq->state == SNIB__ACQ_SERVED &&
            id_of(g[k].acq, v->grant[v->grants].id)) {
            v->grant[v->grants].name = g[k].name;
            v->grant[v->grants++].owner = owner;
        }
    }
}

static uint64_t who_waits(const struct owners *v, int name, const char *id)
{
    uint64_t owners = 0;
    for (int i = 0; i < v->waits; i++) {
        if (v->wait[i].name == name && sim_same(v->wait[i].id, id)) {
            owners |= bit(v->wait[i].owner);
        }
    }
    return owners;
}

/* The owner that has this grant; -1: none, as far as it knows. */
static int who_has(const struct owners *v, int name, const char *id)
{
    for (int i = 0; i < v->grants; i++) {
        if (v->grant[i].name == name && sim_same(v->grant[i].id, id)) {
            return v->grant[i].owner;
        }
    }
    return -1;
}

/* -- ghosts ---------------------------------------------------------------- */

static struct sim_past *past_of(struct sim_world *w, int name, const char *id)
{
    for (int i = 0; i < w->pasts && i < SIM_PASTS; i++) {
        if (w->past[i].name == name && sim_same(w->past[i].id, id)) {
            return &w->past[i];
        }
    }
    return NULL;
}

static bool had(const struct sim_past *p, const char *grant)
{
    for (int i = 0; p && i < p->grants; i++) {
        if (sim_same(p->grant[i], grant)) {
            return true;
        }
    }
    return false;
}

/* The owner waits: remember what it has, since that may stay at the server
 * although it is given back. (An owner that waits gets nothing more.) */
static void remember(struct sim_world *w, const struct owners *v, int i)
{
    struct sim_past *p = past_of(w, v->wait[i].name, v->wait[i].id);
    if (!p) {
        p = &w->past[w->pasts++ % SIM_PASTS];
        *p = (struct sim_past){.name = v->wait[i].name};
        memcpy(p->id, v->wait[i].id, SIM_ID);
    }
    p->owners |= bit(v->wait[i].owner);
    for (int k = 0; k < v->grants && p->grants < SIM_GRANTS; k++) {
        if (v->grant[k].owner == v->wait[i].owner && !had(p, v->grant[k].id)) {
            memcpy(p->grant[p->grants++], v->grant[k].id, SIM_ID);
        }
    }
}

/* -- edges ----------------------------------------------------------------- */

/* Modes: 0 mutex, 1 read, 2 write, 3 permits, 4 barrier. */
static bool in_the_way(int holds, int wants)
{
    return sim_alone(wants) ? holds != 3 : wants != 4 && sim_alone(holds);
}

static bool ahead(const struct sim_waiter *a, const struct sim_waiter *b)
{
    return a->queued && (a->class != b->class ? a->class < b->class
                                              : a->arrival < b->arrival);
}

static void edges_of(struct sim_world *w, const struct owners *owners,
                     bool ghosts, struct sim_wait *v, int count, int i)
{
    const struct sim_book *b = &w->shelf[v[i].name].book;
    const struct sim_waiter *x = sim_waiter_of(b, v[i].id);
    for (int k = 0; k < count; k++) {
        if (k != i && v[k].name == v[i].name &&
            ahead(sim_waiter_of(b, v[k].id), x)) {
            v[i].wire |= bit(k);
        }
    }
    for (int n = 0; n < b->holders; n++) {
        const struct sim_holder *h = &b->holder[n];
        bool closed =
            h->end > sim_wall_us(w, 0) / 1000 && in_the_way(h->mode, x->mode);
        int owner = who_has(owners, v[i].name, h->id);
        for (int k = 0; closed && k < count; k++) {
            if (k != i &&
                ((owner >= 0 && !v[k].ghost && v[k].owners & bit(owner)) ||
                 (ghosts && had(past_of(w, v[k].name, v[k].id), h->id)))) {
                v[i].hold |= bit(k);
            }
        }
    }
    v[i].reach = v[i].hold | v[i].wire;
}

static struct owners *read_owners(const struct sim_world *w)
{
    static _Thread_local struct owners owners;
    owners.waits = owners.grants = 0;
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        int c = i / w->opt.owners, l = i % w->opt.owners;
        read_owner(&w->client[c].owner[l], c * SIM_OWNERS + l, &owners);
    }
    return &owners;
}

void sim_waits_note(struct sim_world *w)
{
    const struct owners *owners = read_owners(w);
    for (int i = 0; i < owners->waits; i++) {
        remember(w, owners, i);
    }
}

int sim_waits(struct sim_world *w, bool ghosts, struct sim_wait ret[SIM_WAITS])
{
    const struct owners *owners = read_owners(w);
    int64_t now_ms = sim_wall_us(w, 0) / 1000;
    int count = 0;
    for (int n = 0; n < w->opt.names; n++) {
        const struct sim_book *b = &w->shelf[n].book;
        for (int i = 0; i < b->waiters && count < SIM_WAITS; i++) {
            const struct sim_waiter *x = &b->waiter[i];
            uint64_t who = x->alive > now_ms ? who_waits(owners, n, x->id) : 0;
            struct sim_past *p =
                x->alive > now_ms ? past_of(w, n, x->id) : NULL;
            if (p) {
                p->over = who ? 0 : p->over ? p->over : w->t;
            }
            if (p && (who || ghosts)) {
                ret[count] = (struct sim_wait){.name = n,
                                               .owners = who ? who : p->owners,
                                               .ever = p->owners,
                                               .ghost = !who,
                                               .since = x->since};
                memcpy(ret[count++].id, x->id, SIM_ID);
            }
        }
    }
    for (int i = 0; i < count; i++) {
        edges_of(w, owners, ghosts, ret, count, i);
    }
    for (int k = 0; k < count; k++) {
        for (int i = 0; i < count; i++) {
            ret[i].reach |= ret[i].reach & bit(k) ? ret[k].reach : 0;
        }
    }
    return count;
}

/* -- circles --------------------------------------------------------------- */

uint64_t sim_waits_set(const struct sim_wait *v, int count, int i)
{
    uint64_t set = 0;
    for (int k = 0; k < count; k++) {
        set |= v[i].reach & bit(k) && v[k].reach & bit(i) ? bit(k) : 0;
    }
    return set;
}

/* The youngest wait whose owners have what another of the set waits for. Other
 * waits do not count: giving up, their owners would only leave the queue. */
int sim_waits_youngest(const struct sim_wait *v, int count, uint64_t set)
{
    uint64_t held = 0;
    int found = -1;
    for (int k = 0; k < count; k++) {
        held |= set & bit(k) ? v[k].hold : 0;
    }
    for (int k = 0; k < count; k++) {
        if (set & held & bit(k) &&
            (found < 0 || v[k].since > v[found].since ||
             (v[k].since == v[found].since &&
              memcmp(v[k].id, v[found].id, SIM_ID) > 0))) {
            found = k;
        }
    }
    return found;
}

static uint64_t mix(uint64_t n)
{
    n = (n ^ n >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    return n ^ n >> 29;
}

static uint64_t number(const struct sim_wait *v)
{
    uint64_t n = 0;
    for (int i = 0; i < SIM_ID; i++) {
        n = mix(n + (uint8_t)v->id[i]);
    }
    return n;
}

uint64_t sim_waits_mark(const struct sim_wait *v, int count, uint64_t set)
{
    uint64_t mark = 1;
    for (int i = 0; i < count; i++) {
        for (int k = 0; set & bit(i) && k < count; k++) {
            if (set & bit(k)) {
                mark += mix(number(&v[i]) + 3 * number(&v[k]) +
                            (v[i].hold >> k & 1) + 2 * (v[i].wire >> k & 1));
            }
        }
    }
    return mark;
}
