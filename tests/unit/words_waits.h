/* tests/unit/words_waits.h — rows of a look by chance, and all that the graph of
 * who waits for whom says of them. */
#ifndef SNIB_TESTS_WORDS_WAITS_H
#define SNIB_TESTS_WORDS_WAITS_H

#include "core_same.h"

#include "base/record.h"
#include "core/waits.h"

static struct { /* so few that they meet                                    */
    uint32_t owners, grants, owner_numbers, requests;
    bool odd;
} cast;

static void put_owner(struct snib__buf *b, uint32_t client_id)
{
    char text[60];
    snprintf(text, sizeof text, "%032x%s", client_id,
             cast.odd && one_in(12) ? "-and-more" : "");
    snib__rec_text(b, SNIB__F_CLIENT, text + (cast.odd ? below(3) : 0));
}

static void put_request(struct snib__buf *b, uint32_t high, uint32_t low)
{
    char text[40];
    snprintf(text, sizeof text, "%016x%016x", high * 0x1111111, low);
    if (cast.odd && one_in(8)) {
        text[below(32)] = "GZ`:/A\x01"[below(7)];
    }
    snib__rec_bytes(b, SNIB__F_REQUEST, text,
                    cast.odd && one_in(10) ? 31 + below(3) : 32);
}

static void put_kind(struct snib__buf *b)
{
    static const uint8_t weights[] = {8, 2, 2, 3, 1};
    if (!one_in(5)) {
        snib__rec_i64(b, SNIB__F_KIND, weighted(weights, COUNT_OF(weights)));
    }
}

static void put_holder(struct snib__buf *b)
{
    snib__rec_row(b, SNIB__ROW_HOLDER);
    put_owner(b, below(cast.owners));
    put_request(b, below(cast.grants), 0);
    put_kind(b);
    if (one_in(6)) {
        snib__rec_i64(b, SNIB__F_LEFT, below(1000));
    }
}

static void put_about(struct snib__buf *b)
{
    struct snib__about about = {.host = "h", .pid = 1};
    struct snib__buf text;
    about.since_ms = 1000 + below(4);
    about.owner = below(cast.owner_numbers);
    about.held_count = below(4);
    for (uint32_t i = 0; i < about.held_count; i++) {
        about.held[i] = UINT64_C(0x1111111) * below(cast.grants);
    }
    about.above_count = one_in(3) ? below(about.held_count + 1) : 0;
    snib__buf_init(&text, 4000);
    snib__about_write(&about, &text);
    snib__rec_bytes(b, SNIB__F_ABOUT, snib__buf_bytes(&text),
                    snib__buf_size(&text));
    snib__buf_free(&text);
}

static void put_waiter(struct snib__buf *b)
{
    static const int64_t left[] = {-1, 0, 1, 500, 2999, 3000, 3001};
    snib__rec_row(b, SNIB__ROW_WAITER);
    put_owner(b, below(cast.owners));
    put_request(b, below(cast.requests), below(3));
    if (!one_in(3)) {
        snib__rec_i64(b, SNIB__F_RANK, (int64_t)below(4) - 1);
    }
    put_kind(b);
    if (!one_in(3)) {
        snib__rec_i64(b, SNIB__F_LEFT, ONE_OF(left));
    }
    if (!one_in(8)) {
        put_about(b);
    }
}

static void put_locks(struct snib__buf *b, uint32_t locks, uint32_t waits)
{
    for (uint32_t i = 0; i < locks; i++) {
        snib__rec_row(b, SNIB__ROW_LOCK);
        if (!one_in(9)) {
            snib__rec_text(b, SNIB__F_NAME, &"abcdefghij"[below(10)]);
        }
        for (uint32_t n = below(3); n; n--) {
            put_holder(b);
        }
        if (one_in(8)) {
            snib__rec_row(b, SNIB__ROW_MORE);
        }
        for (uint32_t n = below(waits); n; n--) {
            put_waiter(b);
        }
    }
}

/* Each holds one thing and waits for others' at a lock of its own: circles, and
 * paths from one to the next. */
static void put_web(struct snib__buf *b)
{
    uint32_t n = 2 + below(9);
    for (uint32_t i = 0; i < n; i++) {
        char text[60];
        snib__rec_row(b, SNIB__ROW_LOCK);
        snib__rec_text(b, SNIB__F_NAME, "web");
        for (uint32_t k = 1 + below(2); k; k--) {
            snib__rec_row(b, SNIB__ROW_HOLDER);
            snib__rec_text(b, SNIB__F_CLIENT, "me");
            put_request(b, 1 + below(n), 0);
            snib__rec_i64(b, SNIB__F_KIND, one_in(8) ? SNIB_KIND_PERMITS : 0);
        }
        snib__rec_row(b, SNIB__ROW_WAITER);
        snib__rec_text(b, SNIB__F_CLIENT, "me");
        put_request(b, 100 + i, 0);
        snib__rec_i64(b, SNIB__F_KIND, one_in(8) ? SNIB_KIND_PERMITS : 0);
        snprintf(text, sizeof text, "since=%d&owner=%d&held=%016x",
                 (int)below(3) + 1, one_in(9) ? 1 : (int)i + 1,
                 (i + 1) * 0x1111111);
        snib__rec_text(b, SNIB__F_ABOUT, text);
    }
}

/* -- what is said of it -------------------------------------------------------- */

static void tell_wait(const struct snib__wait *x)
{
    tell_bytes("name", x->name_size ? x->name : "", x->name_size);
    tell_text("owner", x->client_id);
    TELL("wait", x->lock, (int64_t)x->request[0], (int64_t)x->request[1],
         x->rank, x->kind, x->apart, x->left_ms, x->edges,
         x->edges ? x->edge : 0, x->set, x->sure_set, x->about.owner,
         x->about.held_count);
}

static void tell_cycle(const struct snib__waits *g, uint32_t from, bool sure)
{
    enum { MOST = 64 };
    uint32_t cycle[MOST], max = one_in(4) ? below(5) : MOST;
    uint32_t n = snib__waits_cycle(g, from, sure, cycle, max);
    TELL("cycle", from, sure, max, n);
    for (uint32_t i = 0; i < n && i < max; i++) {
        uint32_t next = cycle[i + 1 < n ? i + 1 : 0];
        TELL("in it", cycle[i]);
        assert_true(cycle[i] < g->count);
        if (n <= max) {
            assert_non_null(snib__waits_edge(g, cycle[i], next, sure));
        }
    }
}

static void tell_sets(const struct snib__waits *g, bool sure)
{
    for (uint32_t i = 0; i <= (sure ? g->sure_sets : g->sets); i++) {
        TELL("set", i, snib__waits_youngest(g, i, sure),
             (int64_t)snib__waits_id(g, i, sure),
             snib__waits_unheard(g, i, sure));
    }
    for (uint32_t i = 0; i < g->count; i++) {
        tell_cycle(g, i, sure);
    }
}

static void tell_graph(const struct snib__waits *g)
{
    TELL("graph", g->count, g->edge_count, g->sets, g->sure_sets);
    for (uint32_t i = 0; i < g->count; i++) {
        tell_wait(&g->waits[i]);
    }
    for (uint32_t i = 0; i < g->edge_count; i++) {
        const struct snib__edge *e = &g->edges[i];
        TELL("edge", e->from, e->to, e->any, e->sure, e->queue, e->above,
             (int64_t)e->by);
    }
    for (uint32_t i = 0; i < g->count; i++) {
        const struct snib__edge *e =
            snib__waits_edge(g, i, below(g->count), one_in(2));
        TELL("between", e ? e - g->edges : -1,
             snib__waits_find(g, g->waits[i].request));
    }
    tell_sets(g, false);
    tell_sets(g, true);
}

static void look_at_waits(void)
{
    struct snib__buf rows;
    uint32_t locks = 1 + below(6);
    cast.owners = 1 + below(3);
    cast.grants = 2 + below(6);
    cast.owner_numbers = 1 + below(30);
    cast.requests = 4 + below(40);
    cast.odd = one_in(3);
    snib__buf_init(&rows, 1 << 20);
    if (one_in(6)) {
        put_waiter(&rows); /* of no lock */
    }
    if (one_in(3)) {
        put_web(&rows);
    } else {
        put_locks(&rows, locks, 2 + below(one_in(40) ? 60 : 4));
    }
    if (one_in(8)) {
        snib__mem_fail_at(1 + below(7), one_in(2));
    }
    struct snib__waits *g =
        snib__waits_new(snib__buf_bytes(&rows), snib__buf_size(&rows));
    snib__mem_fail_at(0, false);
    TELL("look", g != NULL);
    if (g && g->count) {
        static const uint64_t nobody[2] = {5, 5};
        TELL("nobody", snib__waits_find(g, nobody));
        tell_graph(g);
        snib__mem_fail_at(one_in(2), true);
        tell_cycle(g, below(g->count), one_in(2));
        snib__mem_fail_at(0, false);
    }
    snib__waits_free(g);
    snib__buf_free(&rows);
}

#endif
