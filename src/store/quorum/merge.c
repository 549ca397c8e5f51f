/* store/quorum/merge.c — what N nodes saw of locks, as one.
 *
 * A client holds if it holds at a majority of the nodes. It loses that majority
 * when the majority-th longest of its leases ends; that is what is shown as
 * left. A client that holds at fewer nodes is trying, or was cut off; it is
 * shown as waiting. The token of a lock is the highest that any node remembers.
 * The token of a holder is the one that most nodes have (a late node may not
 * have been told of it yet). */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/record.h"
#include "store/quorum/quorum_i.h"

enum { SEEN_MAX = 64 };

struct field {
    const uint8_t *p;
    size_t size;
};

/* One lock as one node shows it: where its rows are. */
struct index {
    struct field name;
    struct snib__rec at; /* at the row of the lock */
};

/* One client at one lock, from all nodes. */
struct seen {
    struct field client_id, about, request;
    int64_t left[NODES_MAX], token[NODES_MAX];
    int64_t age[NODES_MAX]; /* -1: not told */
    int64_t kind, permits, holds;
    uint32_t nodes;
    bool waiter;
};

static int merge_by_name(const void *a, const void *b)
{
    const struct field *x = &((const struct index *)a)->name,
                       *y = &((const struct index *)b)->name;
    size_t n = x->size < y->size ? x->size : y->size;
    int d = n ? memcmp(x->p, y->p, n) : 0;
    return d ? d : (x->size > y->size) - (x->size < y->size);
}

static uint32_t merge_count_locks(const struct snib__buf *rows)
{
    struct snib__rec r;
    uint32_t n = 0;
    snib__rec_begin(&r, snib__buf_bytes(rows), snib__buf_size(rows));
    while (snib__rec_next_row(&r)) {
        n += r.row == SNIB__ROW_LOCK;
    }
    return n;
}

static struct index *merge_note_locks(const struct snib__buf *rows,
                                      struct index *to)
{
    struct snib__rec r;
    snib__rec_begin(&r, snib__buf_bytes(rows), snib__buf_size(rows));
    while (snib__rec_next_row(&r)) {
        if (r.row == SNIB__ROW_LOCK) {
            to->at = r;
            while (snib__rec_next_field(&r)) {
                if (r.field == SNIB__F_NAME) {
                    to->name = (struct field){r.data, r.size};
                }
            }
            to++;
        }
    }
    return to;
}

static void merge_note_client(struct snib__rec *r, struct seen seen[],
                              uint32_t *n)
{
    struct seen one = {
        .nodes = 1, .waiter = r->row == SNIB__ROW_WAITER, .age = {-1}};
    uint32_t i = 0;
    while (snib__rec_next_field(r)) {
        struct field f = {r->data, r->size};
        switch ((enum snib__field)r->field) {
        case SNIB__F_CLIENT:
            one.client_id = f;
            break;
        case SNIB__F_ABOUT:
            one.about = f;
            break;
        case SNIB__F_LEFT:
            one.left[0] = snib__rec_value_i64(r);
            break;
        case SNIB__F_TOKEN:
            one.token[0] = snib__rec_value_i64(r);
            break;
        case SNIB__F_KIND:
            one.kind = snib__rec_value_i64(r);
            break;
        case SNIB__F_PERMITS:
            one.permits = snib__rec_value_i64(r);
            break;
        case SNIB__F_HOLDS:
            one.holds = snib__rec_value_i64(r);
            break;
        case SNIB__F_REQUEST:
            one.request = f;
            break;
        case SNIB__F_AGE:
            one.age[0] = snib__rec_value_i64(r);
            break;
        case SNIB__F_NAME:
        case SNIB__F_LEVEL:
        case SNIB__F_CHECK:
        case SNIB__F_TEXT:
        case SNIB__F_REMEDY:
        case SNIB__F_COUNT:
        case SNIB__F_SIZE:
        case SNIB__F_LATCH:
        case SNIB__F_WAITING:
        case SNIB__F_RANK:
        case SNIB__F_SLOT:
        case SNIB__F_KEEP:
        case SNIB__F_END:
        case SNIB__F_MISSING:
        case SNIB__F_SINCE:
            break;
        }
    }
    while (i < *n &&
           (seen[i].waiter != one.waiter ||
            seen[i].client_id.size != one.client_id.size ||
            (one.client_id.size && memcmp(seen[i].client_id.p, one.client_id.p,
                                          one.client_id.size)))) {
        i++;
    }
    if (i == *n) {
        if (*n < SEEN_MAX) {
            seen[(*n)++] = one;
        }
        return;
    }
    struct seen *s = &seen[i];
    if (s->nodes < NODES_MAX) {
        s->token[s->nodes] = one.token[0];
        s->age[s->nodes] = one.age[0];
        s->left[s->nodes++] = one.left[0];
    }
    s->about = one.about.size > s->about.size ? one.about : s->about;
}

static int merge_longest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

static int64_t merge_commonest(const struct seen *s)
{
    int64_t ret = 0;
    uint32_t most = 0;
    for (uint32_t i = 0; i < s->nodes; i++) {
        uint32_t n = 0;
        for (uint32_t j = 0; j < s->nodes; j++) {
            n += s->token[j] == s->token[i];
        }
        if (n > most || (n == most && s->token[i] > ret)) {
            most = n;
            ret = s->token[i];
        }
    }
    return ret;
}

/* For how long a majority has had it. A server may have given its vote long
 * before, in the same round or in one that was lost. */
static int64_t merge_age_of(const struct snib__quorum *q, struct seen *s)
{
    qsort(s->age, s->nodes, sizeof s->age[0], merge_longest_first);
    return s->age[q->majority - 1];
}

static void merge_show(const struct snib__quorum *q, struct seen *s,
                       bool holder, struct snib__buf *out)
{
    qsort(s->left, s->nodes, sizeof s->left[0], merge_longest_first);
    snib__rec_row(out, holder ? SNIB__ROW_HOLDER : SNIB__ROW_WAITER);
    snib__rec_bytes(out, SNIB__F_CLIENT, s->client_id.p, s->client_id.size);
    if (holder) {
        int64_t age = merge_age_of(q, s);
        snib__rec_i64(out, SNIB__F_TOKEN, merge_commonest(s));
        snib__rec_i64(out, SNIB__F_HOLDS, s->holds);
        snib__rec_bytes(out, SNIB__F_REQUEST, s->request.p, s->request.size);
        if (age >= 0) {
            snib__rec_i64(out, SNIB__F_AGE, age);
        }
    }
    snib__rec_i64(out, SNIB__F_LEFT, s->left[holder ? q->majority - 1 : 0]);
    snib__rec_i64(out, SNIB__F_KIND, s->kind);
    snib__rec_i64(out, SNIB__F_PERMITS, s->permits);
    if (s->about.size) {
        snib__rec_bytes(out, SNIB__F_ABOUT, s->about.p, s->about.size);
    }
}

/* Note all clients in the n entries of one name. *ret_token: the highest token
 * there. */
static uint32_t merge_note_all(const struct index *v, uint32_t n,
                               struct seen seen[], int64_t *ret_token)
{
    uint32_t count = 0;
    *ret_token = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct snib__rec r = v[i].at;
        while (snib__rec_next_field(&r)) {
            if (r.field == SNIB__F_TOKEN &&
                snib__rec_value_i64(&r) > *ret_token) {
                *ret_token = snib__rec_value_i64(&r);
            }
        }
        while (snib__rec_next_row(&r) && r.row != SNIB__ROW_LOCK) {
            if (r.row == SNIB__ROW_HOLDER || r.row == SNIB__ROW_WAITER) {
                merge_note_client(&r, seen, &count);
            }
        }
    }
    return count;
}

/* Why a majority of the nodes cannot show it; empty: they can. */
static struct field merge_damage(const struct snib__quorum *q,
                                 const struct index *v, uint32_t n)
{
    struct field why = {NULL, 0};
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct snib__rec r = v[i].at;
        while (snib__rec_next_field(&r)) {
            if (r.field == SNIB__F_TEXT) {
                nodes++;
                why = (struct field){r.data, r.size};
            }
        }
    }
    return nodes >= q->majority ? why : (struct field){NULL, 0};
}

/* Merge the n entries of one name into rows. */
static void merge(const struct snib__quorum *q, const struct index *v,
                  uint32_t n, bool always, struct snib__buf *out)
{
    struct seen seen[SEEN_MAX];
    int64_t token;
    uint32_t count = merge_note_all(v, n, seen, &token);
    struct field damage = merge_damage(q, v, n);
    if (!count && !always && !damage.p) {
        return;
    }
    snib__rec_row(out, SNIB__ROW_LOCK);
    snib__rec_bytes(out, SNIB__F_NAME, v->name.p, v->name.size);
    if (damage.p) {
        snib__rec_bytes(out, SNIB__F_TEXT, damage.p, damage.size);
        return;
    }
    snib__rec_i64(out, SNIB__F_TOKEN, token);
    for (int waiters = 0; waiters < 2; waiters++) {
        for (uint32_t i = 0; i < count; i++) {
            bool holder = !seen[i].waiter && seen[i].nodes >= q->majority;
            if (holder != waiters) {
                merge_show(q, &seen[i], holder, out);
            }
        }
    }
}

/* With so many answers missing, is it certain of each client whether it
 * holds? */
static bool merge_is_settled(const struct snib__quorum *q,
                             const struct index *v, uint32_t n,
                             uint32_t missing)
{
    struct seen seen[SEEN_MAX];
    int64_t token;
    uint32_t count = merge_note_all(v, n, seen, &token);
    for (uint32_t i = 0; i < count; i++) {
        if (!seen[i].waiter && seen[i].nodes < q->majority &&
            seen[i].nodes + missing >= q->majority) {
            return false;
        }
    }
    return count < SEEN_MAX;
}

/* All locks in the answers, sorted by name. NULL: no memory. */
static struct index *merge_all_places(const struct snib__quorum *q,
                                      const struct task *task, uint32_t *ret)
{
    bool answered[NODES_MAX];
    uint32_t n = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        const struct part *p = &task->part[k];
        answered[k] = p->has == HAS_NOTHING && p->doing == DO_NOTHING;
        n += answered[k] ? merge_count_locks(&task->results[k]) : 0;
    }
    struct index *v = snib__alloc((n + 1) * sizeof *v), *to = v;
    for (uint32_t k = 0; v && k < q->count; k++) {
        to = answered[k] ? merge_note_locks(&task->results[k], to) : to;
    }
    if (v) {
        qsort(v, n, sizeof *v, merge_by_name);
    }
    *ret = n;
    return v;
}

static uint32_t merge_same_name(const struct index *v, uint32_t n)
{
    uint32_t i = 1;
    while (i < n && merge_by_name(&v[0], &v[i]) == 0) {
        i++;
    }
    return i;
}

void snib__merge_locks(const struct snib__quorum *q, const struct task *task,
                       struct snib__buf *out)
{
    uint32_t n;
    struct index *v = merge_all_places(q, task, &n);
    if (!v) {
        out->failed = true;
        return;
    }
    for (uint32_t i = 0, m; i < n; i += m) {
        m = merge_same_name(&v[i], n - i);
        merge(q, &v[i], m, task->parent->verb == SNIB__INSPECT, out);
    }
    snib__free(v);
}

bool snib__merge_settled(const struct snib__quorum *q, const struct task *task)
{
    uint32_t n;
    struct index *v = merge_all_places(q, task, &n);
    bool settled = v != NULL;
    for (uint32_t i = 0, m; settled && i < n; i += m) {
        m = merge_same_name(&v[i], n - i);
        settled = merge_is_settled(q, &v[i], m, task->busy);
    }
    snib__free(v);
    return settled;
}
