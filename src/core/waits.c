/* core/waits.c — reads the rows and draws the edges.
 *
 * A queue costs an edge per waiter (to the one ahead) and one per holder that
 * waits elsewhere. What is stuck in the graph: core/waits_sets.c. */
#include "core/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/record.h"

enum { EDGES_MAX = 1 << 22 };

/* What matters of a holder. Its rows are read again for each waiter. */
struct holder {
    const uint8_t *client_id;
    size_t client_id_size;
    uint64_t grant;
    snib_kind kind;
};

/* "The owner of this wait holds this grant", sorted by grant. */
struct says_held {
    uint64_t grant;
    uint32_t wait;
    bool above; /* … or a client above that owner does */
};

struct builder {
    struct snib__waits *g;
    struct says_held *claims;
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
        if (r->field == SNIB__F_CLIENT && r->size < sizeof w->client_id) {
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
        if (r->field == SNIB__F_CLIENT) {
            h->client_id = r->data;
            h->client_id_size = r->size;
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
            w->apart = w->kind == SNIB_KIND_BARRIER ||
                       (!w->request[0] && !w->request[1]);
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
    const struct says_held *x = a, *y = b;
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
            b->claims[b->claim_count++] = (struct says_held){
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
        bool own = strlen(w->client_id) == holder->client_id_size &&
                   memcmp(w->client_id, holder->client_id,
                          holder->client_id_size) == 0;
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
    return kind == SNIB_KIND_MUTEX || kind == SNIB_KIND_WRITE;
}

/* Must the holder go (of permits: may it have to) before w is served? */
static bool waits_in_the_way(const struct holder *holder,
                             const struct snib__wait *w)
{
    switch (w->kind) {
    case SNIB_KIND_MUTEX:
    case SNIB_KIND_WRITE:
        return true;
    case SNIB_KIND_READ:
        return waits_is_exclusive(holder->kind);
    case SNIB_KIND_PERMITS:
        return waits_is_exclusive(holder->kind) ||
               holder->kind == SNIB_KIND_PERMITS;
    case SNIB_KIND_BARRIER:
        return false;
    }
    return false;
}

static void waits_edge_to_holder(struct builder *b, uint32_t from, bool first,
                                 const struct holder *holder)
{
    const struct snib__wait *w = &b->g->waits[from];
    bool permits = holder->kind == SNIB_KIND_PERMITS;
    bool any = permits && w->kind == SNIB_KIND_PERMITS;
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

/* -- the graph ------------------------------------------------------------ */

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
    if (b.failed || !snib__waits_find_sets(b.g)) {
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
