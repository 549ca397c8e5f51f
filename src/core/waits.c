/* core/waits.c — reads the rows, draws the edges, finds the sets.
 *
 * A *set* is a strongly connected component: waits of which each reaches each.
 * One wait that gives up breaks its set at least in part; what is left shows in
 * the next scan. Sets are found by cutting off waits that nobody reaches or
 * that reach nobody until nothing moves, then by two searches, forwards and
 * backwards, from each wait that is left. Cost: O(waits + edges) where there is
 * no deadlock, which is nearly always. A queue costs an edge per waiter (to the
 * one ahead) and one per holder that waits elsewhere. */
#include "core/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/record.h"

/* ALIVE_MOST_MS: no store keeps a waiter for longer than that without hearing
 * of it again. SLACK_MS is more than rounding and clock rates add. */
enum { EDGES_MAX = 1 << 22, ALIVE_MOST_MS = 3000, SLACK_MS = 50 };

/* What matters of a holder. Its rows are read again for each waiter. */
struct holder {
    const uint8_t *client_id;
    size_t owner_size;
    uint64_t grant;
    snib_kind kind;
};

/* "The owner of this wait holds this grant", sorted by grant. */
struct claim {
    uint64_t grant;
    uint32_t wait;
    bool above; /* … or a client above that owner does */
};

struct builder {
    struct snib__waits *g;
    struct claim *claims;
    uint32_t claim_count;
    bool failed;
};

static uint64_t waits_hex64(const uint8_t *p)
{
    uint64_t n = 0;
    for (int i = 0; i < 16; i++) {
        uint8_t c = p[i];
        uint64_t digit = c >= '0' && c <= '9'   ? (uint64_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint64_t)(c - 'a' + 10)
                                                : 0;
        n = n << 4 | digit;
    }
    return n;
}

static void waits_read_party(struct snib__rec *r, struct snib__wait *w)
{
    *w = (struct snib__wait){.set = SNIB__WAIT_NONE,
                             .sure_set = SNIB__WAIT_NONE};
    while (snib__rec_next_field(r)) {
        if (r->field == SNIB__F_OWNER && r->size < sizeof w->client_id) {
            memcpy(w->client_id, r->data, r->size);
        } else if (r->field == SNIB__F_REQUEST && r->size == 32) {
            w->request[0] = waits_hex64(r->data);
            w->request[1] = waits_hex64(r->data + 16);
        } else if (r->field == SNIB__F_RANK) {
            w->rank = snib__rec_value_i64(r);
        } else if (r->field == SNIB__F_KIND) {
            w->kind = (snib_kind)snib__rec_value_i64(r);
        } else if (r->field == SNIB__F_LEFT) {
            w->left_ms = snib__rec_value_i64(r);
        } else if (r->field == SNIB__F_ABOUT) {
            snib__about_read(r->data, r->size, &w->about);
        }
    }
}

static void waits_read_holder(struct snib__rec *r, struct holder *h)
{
    *h = (struct holder){0};
    while (snib__rec_next_field(r)) {
        if (r->field == SNIB__F_OWNER) {
            h->client_id = r->data;
            h->owner_size = r->size;
        } else if (r->field == SNIB__F_REQUEST && r->size == 32) {
            h->grant = waits_hex64(r->data);
        } else if (r->field == SNIB__F_KIND) {
            h->kind = (snib_kind)snib__rec_value_i64(r);
        }
    }
}

/* -- nodes ---------------------------------------------------------------- */

static uint32_t waits_count_waits(const void *rows, size_t size)
{
    struct snib__rec r;
    uint32_t n = 0;
    snib__rec_begin(&r, rows, size);
    while (snib__rec_next_row(&r)) {
        n += r.row == SNIB__ROW_WAITER;
    }
    return n;
}

struct lock_name {
    const void *p;
    uint32_t size, number;
};

static void waits_read_lock(struct snib__rec *r, struct lock_name *lock)
{
    lock->p = NULL;
    lock->size = 0;
    lock->number++;
    while (snib__rec_next_field(r)) {
        if (r->field == SNIB__F_NAME) {
            lock->p = r->data;
            lock->size = (uint32_t)r->size;
        }
    }
}

static void waits_read_waits(struct snib__waits *g, const void *rows,
                             size_t size)
{
    struct snib__rec r;
    struct lock_name lock = {NULL, 0, 0};
    snib__rec_begin(&r, rows, size);
    while (snib__rec_next_row(&r)) {
        if (r.row == SNIB__ROW_LOCK) {
            waits_read_lock(&r, &lock);
        } else if (r.row == SNIB__ROW_WAITER) {
            struct snib__wait *w = &g->waits[g->count++];
            waits_read_party(&r, w);
            w->name = lock.p;
            w->name_size = lock.size;
            w->lock = lock.number;
            w->apart =
                w->kind == SNIB_BARRIER || (!w->request[0] && !w->request[1]);
        }
    }
}

static int waits_by_owner(const void *a, const void *b)
{
    const struct snib__wait *x = *(struct snib__wait *const *)a;
    const struct snib__wait *y = *(struct snib__wait *const *)b;
    int order = memcmp(x->client_id, y->client_id, sizeof x->client_id);
    return order ? order
                 : (x->about.owner > y->about.owner) -
                       (x->about.owner < y->about.owner);
}

/* Sets apart the waits of owners that wait for two things: such an owner may be
 * served with one of them and go on. (A scan that shows a lock twice has the
 * same effect: no cycle goes through it then, and the next scan will tell.)
 * Owner 0 is unknown. The owner of a wait that holds nothing does not count
 * either: a shared request may serve several owners by turns, and the one it
 * names may have left. */
static bool waits_set_apart(struct snib__waits *g)
{
    struct snib__wait **v = snib__alloc((g->count + 1) * sizeof(*v));
    if (!v) {
        return false;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        if (g->waits[i].about.owner && g->waits[i].about.held_count) {
            v[n++] = &g->waits[i];
        }
    }
    qsort(v, n, sizeof(*v), waits_by_owner);
    for (uint32_t i = 1; i < n; i++) {
        if (waits_by_owner(&v[i - 1], &v[i]) == 0) {
            v[i - 1]->apart = v[i]->apart = true;
        }
    }
    snib__free(v);
    return true;
}

static int waits_by_grant(const void *a, const void *b)
{
    const struct claim *x = a, *y = b;
    return (x->grant > y->grant) - (x->grant < y->grant);
}

static bool waits_read_claims(struct builder *b)
{
    struct snib__waits *g = b->g;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        n += g->waits[i].about.held_count;
    }
    b->claims = snib__alloc((n + 1) * sizeof *b->claims);
    for (uint32_t i = 0; b->claims && i < g->count; i++) {
        const struct snib__about *a = &g->waits[i].about;
        for (uint32_t k = 0; k < a->held_count; k++) {
            b->claims[b->claim_count++] = (struct claim){
                a->held[k], i, k >= a->held_count - a->above_count};
        }
    }
    if (b->claims) {
        qsort(b->claims, n, sizeof *b->claims, waits_by_grant);
    }
    return b->claims != NULL;
}

/* The wait whose owner holds this grant, or above which it is held. NONE: no
 * waiting owner says so, or more than one. */
static uint32_t waits_holder_waits(const struct builder *b,
                                   const struct holder *holder, bool *ret_above)
{
    uint32_t found = SNIB__WAIT_NONE, low = 0, high = b->claim_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (b->claims[middle].grant < holder->grant) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < b->claim_count && b->claims[low].grant == holder->grant;
         low++) {
        const struct snib__wait *w = &b->g->waits[b->claims[low].wait];
        bool own =
            strlen(w->client_id) == holder->owner_size &&
            memcmp(w->client_id, holder->client_id, holder->owner_size) == 0;
        if (own == b->claims[low].above) {
            continue;
        }
        if (found != SNIB__WAIT_NONE) {
            return SNIB__WAIT_NONE;
        }
        found = b->claims[low].wait;
        *ret_above = b->claims[low].above;
    }
    return found;
}

/* -- edges ---------------------------------------------------------------- */

static void waits_add_edge(struct builder *b, uint32_t from,
                           struct snib__edge e)
{
    struct snib__waits *g = b->g;
    if (g->edge_count == g->edge_cap) {
        uint32_t cap = g->edge_cap ? 2 * g->edge_cap : 64;
        void *v = cap > EDGES_MAX
                      ? NULL
                      : snib__realloc(g->edges, cap * sizeof *g->edges);
        if (!v) {
            b->failed = true;
            return;
        }
        g->edges = v;
        g->edge_cap = cap;
    }
    if (!g->waits[from].edges++) {
        g->waits[from].edge = g->edge_count;
    }
    e.from = from;
    g->edges[g->edge_count++] = e;
}

static bool waits_is_exclusive(snib_kind kind)
{
    return kind == SNIB_MUTEX || kind == SNIB_WRITE;
}

/* Must the holder go (of permits: may it have to) before w is served? */
static bool waits_in_the_way(const struct holder *holder,
                             const struct snib__wait *w)
{
    switch (w->kind) {
    case SNIB_MUTEX:
    case SNIB_WRITE:
        return true;
    case SNIB_READ:
        return waits_is_exclusive(holder->kind);
    case SNIB_PERMITS:
        return waits_is_exclusive(holder->kind) || holder->kind == SNIB_PERMITS;
    case SNIB_BARRIER:
        return false;
    }
    return false;
}

static void waits_edge_to_holder(struct builder *b, uint32_t from, bool first,
                                 const struct holder *holder)
{
    const struct snib__wait *w = &b->g->waits[from];
    bool permits = holder->kind == SNIB_PERMITS;
    bool any = permits && w->kind == SNIB_PERMITS;
    if (!waits_in_the_way(holder, w) || (any && !first)) {
        return;
    }
    bool above = false;
    uint32_t to = waits_holder_waits(b, holder, &above);
    if (to == from && !permits) {
        return; /* its own grant, the one of its upgrade_of */
    }
    if (any || to != SNIB__WAIT_NONE) {
        waits_add_edge(b, from,
                       (struct snib__edge){.to = to,
                                           .any = any,
                                           .sure = !permits,
                                           .above = above,
                                           .by = holder->grant});
    }
}

/* The edges of the waiters [from, end) of one lock, whose holders' rows begin
 * at `holders`. Of the waiters ahead only the nearest gets an edge: the further
 * ones are reached through it. */
static void waits_connect(struct builder *b, struct snib__rec holders,
                          uint32_t from, uint32_t end)
{
    struct snib__waits *g = b->g;
    for (uint32_t i = from; i < end && !b->failed; i++) {
        uint32_t ahead = SNIB__WAIT_NONE;
        for (uint32_t k = i; k-- > from && ahead == SNIB__WAIT_NONE;) {
            /* An unresponsive waiter is shown last, out of its order. */
            ahead = g->waits[k].rank <= g->waits[i].rank ? k : ahead;
        }
        struct snib__rec r = holders;
        while (snib__rec_next_row(&r) && r.row != SNIB__ROW_LOCK) {
            if (r.row == SNIB__ROW_HOLDER) {
                struct holder holder;
                waits_read_holder(&r, &holder);
                waits_edge_to_holder(b, i, ahead == SNIB__WAIT_NONE, &holder);
            }
        }
        if (ahead != SNIB__WAIT_NONE) {
            waits_add_edge(
                b, i,
                (struct snib__edge){.to = ahead,
                                    .sure = true,
                                    .queue = true,
                                    .by = g->waits[ahead].request[0]});
        }
    }
}

static void waits_connect_all(struct builder *b, const void *rows, size_t size)
{
    struct snib__rec r;
    uint32_t wait = 0;
    snib__rec_begin(&r, rows, size);
    bool more = snib__rec_next_row(&r);
    while (more && !b->failed) {
        struct snib__rec at = r; /* on the lock's own row */
        uint32_t from = wait;
        while ((more = snib__rec_next_row(&r)) && r.row != SNIB__ROW_LOCK) {
            wait += r.row == SNIB__ROW_WAITER;
        }
        if (wait > from) {
            waits_connect(b, at, from, wait);
        }
    }
}

/* -- what is stuck -------------------------------------------------------- */

static bool waits_is_stuck(const struct snib__waits *g, const bool *free,
                           uint32_t to)
{
    return to != SNIB__WAIT_NONE && !g->waits[to].apart && !free[to];
}

/* Does something keep this wait from ending, as far as is known of the
 * others? */
static bool waits_is_kept(const struct snib__waits *g, const bool *free,
                          uint32_t i, bool sure)
{
    const struct snib__wait *w = &g->waits[i];
    bool any = false, all = true;
    for (uint32_t k = 0; k < w->edges; k++) {
        const struct snib__edge *e = &g->edges[w->edge + k];
        bool stuck = waits_is_stuck(g, free, e->to);
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
static void waits_release_free(const struct snib__waits *g, bool *free,
                               bool sure)
{
    bool moved = true;
    for (uint32_t i = 0; i < g->count; i++) {
        free[i] = g->waits[i].apart;
    }
    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < g->count; i++) {
            if (!free[i] && !waits_is_kept(g, free, i, sure)) {
                free[i] = moved = true;
            }
        }
    }
}

/* A wait that no stuck wait reaches is on no cycle, whether or not it waits for
 * one. */
static void waits_release_tails(const struct snib__waits *g, bool *free,
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
static void waits_reach(const struct snib__waits *g, const bool *free, bool *in,
                        uint32_t from, bool against, bool sure)
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
                if (!waits_is_stuck(g, free, e->to) || (sure && !e->sure)) {
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

static bool waits_points_at_itself(const struct snib__waits *g, uint32_t i,
                                   bool sure)
{
    return snib__waits_edge(g, i, i, sure) != NULL;
}

static uint32_t waits_number_sets(struct snib__waits *g, const bool *free,
                                  bool *out, bool *back, bool sure)
{
    uint32_t sets = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        uint32_t *mine = sure ? &g->waits[i].sure_set : &g->waits[i].set;
        uint32_t members = 0;
        if (free[i] || *mine != SNIB__WAIT_NONE) {
            continue;
        }
        waits_reach(g, free, out, i, false, sure);
        waits_reach(g, free, back, i, true, sure);
        for (uint32_t k = 0; k < g->count; k++) {
            members += out[k] && back[k];
        }
        if (members < 2 && !waits_points_at_itself(g, i, sure)) {
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

static bool waits_find_sets(struct snib__waits *g)
{
    bool *free = snib__alloc(3 * ((size_t)g->count + 1) * sizeof *free);
    if (!free) {
        return false;
    }
    bool *out = free + g->count, *back = out + g->count;
    for (int sure = 0; sure < 2; sure++) {
        waits_release_free(g, free, sure);
        waits_release_tails(g, free, out, sure);
        uint32_t sets = waits_number_sets(g, free, out, back, sure);
        *(sure ? &g->sure_sets : &g->sets) = sets;
    }
    snib__free(free);
    return true;
}

struct snib__waits *snib__waits_new(const void *rows, size_t size)
{
    struct builder b = {.g = snib__alloc(sizeof *b.g)};
    if (!b.g) {
        return NULL;
    }
    uint32_t count = waits_count_waits(rows, size);
    b.g->waits = snib__alloc(((size_t)count + 1) * sizeof *b.g->waits);
    if (b.g->waits) {
        waits_read_waits(b.g, rows, size);
    }
    b.failed = !b.g->waits || !waits_set_apart(b.g) || !waits_read_claims(&b);
    if (!b.failed) {
        waits_connect_all(&b, rows, size);
    }
    snib__free(b.claims);
    if (b.failed || !waits_find_sets(b.g)) {
        snib__waits_free(b.g);
        return NULL;
    }
    return b.g;
}

void snib__waits_free(struct snib__waits *g)
{
    if (g) {
        snib__free(g->waits);
        snib__free(g->edges);
        snib__free(g);
    }
}

/* -- asking the graph ----------------------------------------------------- */

static uint32_t waits_set_of(const struct snib__waits *g, uint32_t i, bool sure)
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

static bool waits_is_younger(const struct snib__wait *a,
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
            waits_set_of(g, e->from, sure) == set &&
            waits_set_of(g, e->to, sure) == set &&
            (found == SNIB__WAIT_NONE ||
             waits_is_younger(&g->waits[e->to], &g->waits[found]))) {
            found = e->to;
        }
    }
    return found;
}

static uint64_t waits_mix(uint64_t n)
{
    n = (n ^ n >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    n = (n ^ n >> 27) * UINT64_C(0x94d049bb133111eb);
    return n ^ n >> 31;
}

uint64_t snib__waits_mark(const struct snib__waits *g, uint32_t set, bool sure)
{
    uint64_t mark = 1;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct snib__wait *w = &g->waits[i];
        if (waits_set_of(g, i, sure) != set) {
            continue;
        }
        uint64_t me = waits_mix(w->request[0] ^ waits_mix(w->request[1]));
        mark += waits_mix(me + (uint64_t)w->about.since_ms);
        for (uint32_t k = 0; k < w->edges; k++) {
            const struct snib__edge *e = &g->edges[w->edge + k];
            if (e->to != SNIB__WAIT_NONE && (e->sure || !sure) &&
                waits_set_of(g, e->to, sure) == set) {
                mark += waits_mix(me ^ waits_mix(e->by) ^
                                  g->waits[e->to].request[1]);
            }
        }
    }
    return mark;
}

int64_t snib__waits_unheard(const struct snib__waits *g, uint32_t set,
                            bool sure)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < g->edge_count; i++) {
        const struct snib__edge *e = &g->edges[i];
        if (!e->above || e->to == SNIB__WAIT_NONE ||
            waits_set_of(g, e->to, sure) != set) {
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
static bool waits_search(const struct snib__waits *g, uint32_t from, bool sure,
                         uint32_t *came, uint32_t *queue)
{
    uint32_t head = 0, tail = 0;
    queue[tail++] = from;
    while (head < tail) {
        uint32_t i = queue[head++];
        const struct snib__wait *w = &g->waits[i];
        for (uint32_t k = 0; k < w->edges; k++) {
            const struct snib__edge *e = &g->edges[w->edge + k];
            if (e->to == SNIB__WAIT_NONE || (sure && !e->sure) ||
                waits_set_of(g, e->to, sure) != waits_set_of(g, from, sure) ||
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
    if (waits_set_of(g, from, sure) == SNIB__WAIT_NONE) {
        return 0;
    }
    uint32_t *came = snib__alloc(2 * ((size_t)g->count + 1) * sizeof *came);
    if (came && waits_search(g, from, sure, came, came + g->count)) {
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
