/* store/zookeeper/order.c — who is next, from the nodes below a lock's.
 *
 * The order is that of the numbers which the server gives. They are compared on
 * a circle, as they get negative after 2^31 nodes: of two that stand at the same
 * time neither is half the circle away. (From ZooKeeper 3.6 on they stay at the last
 * one, and the order is lost: who has that is refused, in acquire.c.)
 *
 * Who wants to write waits for all before it, and watches the one right before
 * it; a reader waits for those before it who write, and watches the last one of
 * them. So the end of a node wakes one, or the readers behind a writer, and not
 * everybody.
 *
 * Besides, nobody is let in where a record of somebody else's excludes it,
 * wherever that one's node stands; and while a record is there whose node is not,
 * its holder may believe in its grant (store.c). */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/zookeeper/zookeeper_i.h"

enum {
    ORDER_FIRST = 16,
    ORDER_LEAST = 4 + 1, /* bytes of a child's name */
    ORDER_MOST = 100000  /* more of ours do not fit into an answer */
};

static bool order_same(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

/* Is that the id of this grant? No id is nobody's, whatever others call theirs. */
static bool order_is(const uint64_t id[2], const uint64_t grant[2])
{
    return (grant[0] || grant[1]) && order_same(id, grant);
}

static bool order_is_before(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] != b[0] ? a[0] < b[0] : a[1] < b[1];
}

static int order_compare(const void *left, const void *right)
{
    const struct zoo_child *a = left, *b = right;
    if (a->what != b->what) {
        return a->what < b->what ? -1 : 1;
    }
    if (a->what == ZOO_RECORD && !order_same(a->id, b->id)) {
        return order_is_before(a->id, b->id) ? -1 : 1;
    }
    if (a->what != ZOO_STANDS) {
        return strcmp(a->name, b->name);
    }
    uint32_t ahead = (uint32_t)b->seq - (uint32_t)a->seq;
    return ahead ? (ahead < UINT32_C(1) << 31 ? -1 : 1)
                 : strcmp(a->name, b->name);
}

void snib__zoo_view_clear(struct zoo_view *v)
{
    v->count = v->standing = v->records = 0;
    v->foreign[0] = 0;
}

void snib__zoo_view_free(struct zoo_view *v)
{
    snib__free(v->child);
    *v = (struct zoo_view){.child = NULL};
}

static bool order_reserve(struct zoo_view *v, uint32_t n)
{
    if (n <= v->room) {
        return true;
    }
    uint32_t room = n < ORDER_FIRST ? ORDER_FIRST : n;
    struct zoo_child *child = snib__realloc(v->child, room * sizeof *child);
    if (!child) {
        return false;
    }
    v->child = child;
    v->room = room;
    return true;
}

/* The first record whose id is not before this one. */
static uint32_t order_search(const struct zoo_view *v, const uint64_t id[2])
{
    uint32_t from = v->standing, to = v->standing + v->records;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (order_is_before(v->child[middle].id, id)) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

static bool order_is_record_of(const struct zoo_view *v, uint32_t i,
                               const uint64_t id[2])
{
    return i < v->standing + v->records && order_same(v->child[i].id, id);
}

/* Which node has its record there, and which record its node. */
static void order_pair(struct zoo_view *v)
{
    for (uint32_t i = 0; i < v->standing; i++) {
        struct zoo_child *c = &v->child[i];
        for (uint32_t m = order_search(v, c->id);
             order_is_record_of(v, m, c->id); m++) {
            c->paired = v->child[m].paired = true;
        }
    }
}

bool snib__zoo_view_read(struct zoo_view *v, struct snib__jute *j,
                         bool *ret_bad)
{
    uint32_t n = snib__jute_count(j, ORDER_LEAST);
    snib__zoo_view_clear(v);
    *ret_bad = j->bad = j->bad || n > ORDER_MOST;
    if (j->bad || !order_reserve(v, n)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct snib__jute_bytes name = snib__jute_bytes(j);
        struct zoo_child *c = &v->child[v->count++];
        snib__zoo_child_read(name.bytes ? name.bytes : "", name.size, c);
        if (c->what == ZOO_STANDS && c->mutex != v->mutexes) {
            c->what = ZOO_FOREIGN; /* a path is one or the other */
        }
        v->standing += c->what == ZOO_STANDS;
        v->records += c->what == ZOO_RECORD;
        if (c->what == ZOO_FOREIGN) {
            memcpy(v->foreign, c->name, sizeof v->foreign);
        }
    }
    if (j->bad) {
        *ret_bad = true;
        snib__zoo_view_clear(v);
        return false;
    }
    if (n) {
        qsort(v->child, v->count, sizeof *v->child, order_compare);
        order_pair(v);
    }
    return true;
}

int snib__zoo_view_find(const struct zoo_view *v, const uint64_t id[2],
                        int after)
{
    for (uint32_t i = (uint32_t)(after + 1); i < v->standing; i++) {
        if (order_same(v->child[i].id, id)) {
            return (int)i;
        }
    }
    return -1;
}

int snib__zoo_view_own(const struct zoo_view *v, const uint64_t id[2],
                       const char *node)
{
    int first = snib__zoo_view_find(v, id, -1);
    for (int at = first; at >= 0; at = snib__zoo_view_find(v, id, at)) {
        if (!strcmp(v->child[at].name, node)) {
            return at;
        }
    }
    return first;
}

const struct zoo_child *snib__zoo_view_record(const struct zoo_view *v,
                                              const uint64_t id[2])
{
    uint32_t i = order_search(v, id);
    return order_is_record_of(v, i, id) ? &v->child[i] : NULL;
}

int snib__zoo_view_granted(const struct zoo_view *v, const uint64_t id[2])
{
    bool somebody = id[0] || id[1];
    return somebody && snib__zoo_view_record(v, id)
               ? snib__zoo_view_find(v, id, -1)
               : -1;
}

/* Is that another one's, who and this one cannot both have it? */
static bool order_excludes(const struct zoo_child *c,
                           const struct zoo_request *request)
{
    return c->what != ZOO_FOREIGN && !(c->reads && request->reads) &&
           !order_same(c->id, request->id) &&
           !order_is(c->id, request->upgrade_of) &&
           !order_is(c->id, request->prior);
}

int snib__zoo_view_ahead(const struct zoo_view *v,
                         const struct zoo_request *request, int at)
{
    for (int i = at - 1; i >= 0; i--) {
        if (order_excludes(&v->child[i], request)) {
            return i;
        }
    }
    for (uint32_t i = v->standing; i < v->count; i++) {
        if (v->child[i].paired && order_excludes(&v->child[i], request)) {
            return snib__zoo_view_find(v, v->child[i].id, -1);
        }
    }
    return -1;
}

bool snib__zoo_view_is_dead(const struct zoo_child *c,
                            const struct zoo_request *request)
{
    return c->what == ZOO_RECORD && !c->paired && order_excludes(c, request);
}

int64_t snib__zoo_view_dead(const struct zoo_view *v,
                            const struct zoo_request *request,
                            uint64_t *ret_hash)
{
    int64_t longest = 0;
    *ret_hash = 0;
    for (uint32_t i = v->standing; i < v->count; i++) {
        const struct zoo_child *c = &v->child[i];
        if (snib__zoo_view_is_dead(c, request)) {
            longest = c->lease_ms > longest ? c->lease_ms : longest;
            longest = longest ? longest : 1;
            *ret_hash ^= snib__zoo_hash(c->name, strlen(c->name));
        }
    }
    return longest;
}

/* Those before it that hold: who has a record; the first one, if nobody has. */
uint32_t snib__zoo_view_position(const struct zoo_view *v, int at)
{
    uint32_t holding = 0;
    for (int i = 0; i < at; i++) {
        holding += v->child[i].paired;
    }
    holding = holding || at == 0 ? holding : 1;
    return (uint32_t)at - holding + 1;
}

int64_t snib__zoo_view_lease(const struct zoo_view *v,
                             const struct zoo_request *request)
{
    int64_t longest = 0;
    for (uint32_t i = v->standing; i < v->count; i++) {
        const struct zoo_child *c = &v->child[i];
        if (order_excludes(c, request) && c->lease_ms > longest) {
            longest = c->lease_ms;
        }
    }
    return longest;
}
