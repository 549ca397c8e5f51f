/* core/waits.h: the graph alone. Locks are written as text:
 *
 *   "X h=A1:1:w w=B1:2:w:3,4 w=..."
 *
 * a lock named X; h: a holder, w: a waiter, each owner:request:kind and, for
 * waiters, the requests that its owner holds (^7: that are held above it), and
 * how long it counts as alive. Owner: a letter and the owner. */
#include "unit.h"

#include <stdlib.h>

#include "base/record.h"
#include "core/waits.h"

struct world {
    struct snib__buf rows;
    struct snib__waits *g;
    int64_t since;
};

static snib_kind kind_of(char c)
{
    switch (c) {
    case 'r':
        return SNIB_KIND_READ;
    case 'p':
        return SNIB_KIND_PERMITS;
    case 'b':
        return SNIB_KIND_BARRIER;
    default:
        return SNIB_KIND_MUTEX;
    }
}

static void put_party(struct world *w, char *text)
{
    struct snib__about about = {.host = "h", .pid = 1};
    bool holds = text[0] == 'h';
    char client_id[33] = "00000000000000000000000000000000", request[33];
    char *save, *part = strtok_r(text + 2, ":", &save);
    client_id[0] = part[0];
    about.owner = atoi(part + 1);
    int id = atoi(strtok_r(NULL, ":", &save));
    snprintf(request, sizeof request, "%016x%016x", (unsigned)id, 7u);
    about.since_ms = 1000 + (holds ? 0 : id);
    part = strtok_r(NULL, ":", &save);
    snib__rec_row(&w->rows, holds ? SNIB__ROW_HOLDER : SNIB__ROW_WAITER);
    snib__rec_text(&w->rows, SNIB__F_CLIENT, client_id);
    snib__rec_text(&w->rows, SNIB__F_REQUEST, request);
    snib__rec_i64(&w->rows, SNIB__F_KIND, kind_of(part[0]));
    if (part[1]) { /* a rank of its own */
        snib__rec_i64(&w->rows, SNIB__F_RANK, atoi(part + 1));
    }
    char *held = strtok_r(NULL, ":", &save), *inner;
    for (held = held ? strtok_r(held, ",", &inner) : NULL; held;
         held = strtok_r(NULL, ",", &inner)) {
        about.above_count += held[0] == '^';
        about.held[about.held_count++] =
            (uint64_t)atoi(held + (held[0] == '^'));
    }
    if ((part = strtok_r(NULL, ":", &save))) {
        snib__rec_i64(&w->rows, SNIB__F_LEFT, atoi(part));
    }
    struct snib__buf line;
    snib__buf_init(&line, SNIB__ABOUT_MAX);
    snib__about_write(&about, &line);
    snib__rec_bytes(&w->rows, SNIB__F_ABOUT, snib__buf_bytes(&line),
                    snib__buf_size(&line));
    snib__buf_free(&line);
}

static void see(struct world *w, const char *const *locks)
{
    snib__buf_init(&w->rows, 1 << 24);
    for (; *locks; locks++) {
        char text[512], *save;
        snprintf(text, sizeof text, "%s", *locks);
        char *part = strtok_r(text, " ", &save);
        snib__rec_row(&w->rows, SNIB__ROW_LOCK);
        snib__rec_text(&w->rows, SNIB__F_NAME, part);
        while ((part = strtok_r(NULL, " ", &save))) {
            put_party(w, part);
        }
    }
    w->g = snib__waits_new(snib__buf_bytes(&w->rows), snib__buf_size(&w->rows));
    assert_non_null(w->g);
}

#define SEE(w, ...) see(w, (const char *const[]){__VA_ARGS__, NULL})

static void forget(struct world *w)
{
    snib__waits_free(w->g);
    snib__buf_free(&w->rows);
}

static uint32_t node(const struct world *w, uint64_t id)
{
    uint32_t at = snib__waits_find(w->g, (uint64_t[2]){id, 7});
    assert_int_not_equal(at, SNIB__WAIT_NONE);
    return at;
}

/* The cycle through request `from`, as the ids of its waits: "4 2 ". */
static const char *cycle(const struct world *w, uint64_t from, bool sure)
{
    static char text[256];
    uint32_t at[32], n = snib__waits_cycle(w->g, node(w, from), sure, at, 32);
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%d ",
                                 (int)w->g->waits[at[i]].request[0]);
    }
    return text;
}

static void there_is_none(struct world *w)
{
    assert_int_equal(w->g->sets, 0);
    assert_int_equal(w->g->sure_sets, 0);
    forget(w);
}

/* -- shapes ------------------------------------------------------------------ */

static void nothing_is_nothing(void **state)
{
    (void)state;
    struct world w;
    see(&w, (const char *const[]){NULL});
    there_is_none(&w);
    SEE(&w, "X", "Y h=A1:1:m");
    there_is_none(&w);
}

static void two_in_each_others_way(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=A1:3:m:1");
    assert_int_equal(w.g->sure_sets, 1);
    assert_int_equal(w.g->sets, 1);
    assert_string_equal(cycle(&w, 4, true), "4 3 ");
    assert_string_equal(cycle(&w, 3, true), "3 4 ");
    assert_int_equal(snib__waits_youngest(w.g, 0, true), node(&w, 4));
    forget(&w);
}

static void three_in_a_ring(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "X h=A1:1:m w=C1:6:m:3", "Y h=B1:2:m w=A1:4:m:1",
        "Z h=C1:3:m w=B1:5:m:2");
    assert_int_equal(w.g->sure_sets, 1);
    assert_string_equal(cycle(&w, 6, true), "6 4 5 ");
    forget(&w);
}

static void two_owners_of_one_client(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "X h=A1:1:m w=A2:4:m:2", "Y h=A2:2:m w=A1:3:m:1");
    assert_int_equal(w.g->sure_sets, 1);
    forget(&w);
}

static void a_client_is_not_a_owner(void **state)
{
    (void)state;
    struct world w;
    /* A holds X by owner 1 and waits for Y by owner 2: no cycle. */
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=A2:3:m:9");
    there_is_none(&w);
    /* The same grant id, said by another client. */
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=C1:3:m:1");
    there_is_none(&w);
}

static void what_is_held_above_a_wait_is_held_until_it_ends(void **state)
{
    (void)state;
    struct world w;
    /* A and B hold; C waits below A, D below B. */
    SEE(&w, "X h=A1:1:m w=D1:4:m:^2:2500", "Y h=B1:2:m w=C1:3:m:^1:2900");
    assert_int_equal(w.g->sure_sets, 1);
    assert_string_equal(cycle(&w, 4, true), "4 3 ");
    assert_int_equal(snib__waits_unheard(w.g, 0, true), 550);
    forget(&w);
    /* One of them is an ordinary owner: only the other must be heard of. */
    SEE(&w, "X h=A1:1:m w=B1:4:m:2:100", "Y h=B1:2:m w=C1:3:m:^1:2900");
    assert_int_equal(w.g->sure_sets, 1);
    assert_int_equal(snib__waits_unheard(w.g, 0, true), 150);
    forget(&w);
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=A1:3:m:1");
    assert_int_equal(snib__waits_unheard(w.g, 0, true), 0);
    forget(&w);
}

static void a_wait_of_unknown_age_was_never_heard_of(void **state)
{
    (void)state;
    struct world w;
    for (int i = 0; i < 3; i++) {
        SEE(&w, "X h=A1:1:m w=B1:4:m:2",
            i == 0   ? "Y h=B1:2:m w=C1:3:m:^1"
            : i == 1 ? "Y h=B1:2:m w=C1:3:m:^1:3001"
                     : "Y h=B1:2:m w=C1:3:m:^1:-5");
        assert_int_equal(w.g->sure_sets, 1);
        assert_true(snib__waits_unheard(w.g, 0, true) == INT64_MAX);
        forget(&w);
    }
}

static void two_waits_below_one_grant_are_no_edge(void **state)
{
    (void)state;
    struct world w;
    /* The command above may go on with whichever ends first. */
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=C1:3:m:^1:2500",
        "Z h=E1:9:m w=D1:5:m:^1:2500");
    there_is_none(&w);
    /* Its own owner does not hold what it says is held above it. */
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=A1:3:m:^1:2500");
    there_is_none(&w);
    /* A stale claim: that grant is over. */
    SEE(&w, "X h=A1:8:m w=B1:4:m:2", "Y h=B1:2:m w=C1:3:m:^1:2500");
    there_is_none(&w);
}

/* Any holder of permits may be the one that goes: the edge leads to nobody, and
 * nobody's age is asked for. */
static void below_permits_nobody_in_particular_was_heard_of(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "S h=A1:1:p w=B1:4:p:2", "Y h=B1:2:m w=C1:3:m:^1:2500",
        "Z h=E1:9:m w=D1:5:m:^1:2500");
    const struct snib__edge *e = &w.g->edges[w.g->waits[node(&w, 4)].edge];
    assert_true(e->above && e->any);
    assert_int_equal(e->to, SNIB__WAIT_NONE);
    assert_int_equal(snib__waits_unheard(w.g, 0, false), 0);
    assert_int_equal(snib__waits_unheard(w.g, 0, true), 0);
    forget(&w);
}

static void an_id_of_other_letters_is_read_as_noughts(void **state)
{
    (void)state;
    static const char *const ids[] = {"0123456789abcdef", "ABCDEFGHIJKLMNOP",
                                      "`g/:~@ .`g/:~@ ."};
    static const uint64_t n[] = {UINT64_C(0x0123456789abcdef), 0, 0};
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        struct world w;
        char id[33];
        snprintf(id, sizeof id, "%s%s", ids[i], ids[0]);
        snib__buf_init(&w.rows, 1000);
        snib__rec_row(&w.rows, SNIB__ROW_LOCK);
        snib__rec_text(&w.rows, SNIB__F_NAME, "X");
        snib__rec_row(&w.rows, SNIB__ROW_WAITER);
        snib__rec_text(&w.rows, SNIB__F_REQUEST, id);
        w.g =
            snib__waits_new(snib__buf_bytes(&w.rows), snib__buf_size(&w.rows));
        assert_non_null(w.g);
        assert_int_equal(w.g->count, 1);
        assert_true(w.g->waits[0].request[0] == n[i]);
        assert_true(w.g->waits[0].request[1] == n[0]);
        forget(&w);
    }
}

static void a_long_chain_has_an_end(void **state)
{
    (void)state;
    struct world w;
    char text[200][64];
    const char *locks[201] = {NULL};
    for (int i = 0; i < 200; i++) { /* owner i holds i+1, waits for lock i+1 */
        snprintf(text[i], sizeof text[i], "L%d h=A%d:%d:m w=A%d:%d:m:%d", i,
                 i + 1, i + 1, i + 2, 1000 + i, i + 2);
        locks[i] = text[i];
    }
    see(&w, locks);
    there_is_none(&w);
    /* Its first holder waits for its last: a ring of 200. */
    snprintf(text[199], sizeof text[199], "L199 h=A200:200:m w=A1:1199:m:1");
    see(&w, locks);
    assert_int_equal(w.g->sure_sets, 1);
    assert_int_equal(
        snib__waits_cycle(w.g, node(&w, 1199), true, (uint32_t[1]){0}, 1), 200);
    forget(&w);
}

static void who_waits_for_a_cycle_is_not_in_it(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "X h=A1:1:m w=B1:4:m:2 w=D1:9:m:8", "Y h=B1:2:m w=A1:3:m:1",
        "Z h=D1:8:m w=E1:10:m");
    assert_int_equal(w.g->sure_sets, 1);
    assert_int_equal(w.g->waits[node(&w, 9)].sure_set, SNIB__WAIT_NONE);
    assert_int_equal(w.g->waits[node(&w, 10)].sure_set, SNIB__WAIT_NONE);
    assert_int_equal(snib__waits_youngest(w.g, 0, true), node(&w, 4));
    assert_string_equal(cycle(&w, 9, true), "");
    forget(&w);
}

static void two_cycles_are_two(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=A1:3:m:1",
        "U h=C1:11:m w=D1:14:m:12", "V h=D1:12:m w=C1:13:m:11");
    assert_int_equal(w.g->sure_sets, 2);
    assert_int_equal(w.g->sets, 2);
    assert_true(snib__waits_id(w.g, 0, true) != snib__waits_id(w.g, 1, true));
    forget(&w);
}

static void a_wait_between_two_cycles_is_in_neither(void **state)
{
    (void)state;
    struct world w;
    /* A and B, C and D; A waits for E too, and E for C. */
    SEE(&w, "W h=A1:1:m w=B1:11:m:2", "X h=B1:2:r h=E1:3:r w=A1:10:m:1",
        "Y h=C1:4:m w=D1:13:m:5 w=E1:14:m:3", "Z h=D1:5:m w=C1:12:m:4");
    const struct snib__wait *between = &w.g->waits[node(&w, 14)];
    assert_int_equal(w.g->sets, 2);
    assert_int_equal(w.g->sure_sets, 2);
    assert_int_equal(between->set, SNIB__WAIT_NONE);
    assert_int_equal(between->sure_set, SNIB__WAIT_NONE);
    forget(&w);
}

static void two_cycles_that_share_a_wait_have_one_victim(void **state)
{
    (void)state;
    struct world w;
    /* A holds X and U; B and C want them and hold Y, which A wants, both by
     * reading. */
    SEE(&w, "X h=A1:1:m w=B1:5:m:3", "U h=A1:2:m w=C1:6:m:4",
        "Y h=B1:3:r h=C1:4:r w=A1:7:m:1,2");
    assert_int_equal(w.g->sure_sets, 1);
    assert_int_equal(snib__waits_youngest(w.g, 0, true), node(&w, 7));
    forget(&w);
}

static void who_only_stands_in_the_queue_need_not_give_up(void **state)
{
    (void)state;
    struct world w;
    /* C, who came last and ahead of B (a better class), holds nothing; D holds
     * what nobody wants. Neither could end the circle of A and B. */
    SEE(&w, "X h=A1:1:m w=C1:9:m1 w=D1:8:m2:5 w=B1:4:m3:2",
        "Y h=B1:2:m w=A1:3:m:1");
    assert_int_equal(w.g->waits[node(&w, 9)].sure_set, 0);
    assert_int_equal(w.g->waits[node(&w, 8)].sure_set, 0);
    assert_int_equal(snib__waits_youngest(w.g, 0, true), node(&w, 4));
    forget(&w);
}

/* -- kinds ------------------------------------------------------------------- */

static void readers_are_not_in_each_others_way(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "X h=A1:1:r w=B1:4:r:2", "Y h=B1:2:r w=A1:3:r:1");
    there_is_none(&w);
}

static void a_reader_and_a_writer_are(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "X h=A1:1:r w=B1:4:w:2", "Y h=B1:2:w w=A1:3:r:1");
    assert_int_equal(w.g->sure_sets, 1);
    forget(&w);
}

static void every_reader_must_go_before_a_writer_comes(void **state)
{
    (void)state;
    struct world w;
    /* One reader can go on, the other cannot: still a deadlock. */
    SEE(&w, "X h=C1:9:r h=A1:1:r w=B1:4:w:2", "Y h=B1:2:w w=A1:3:w:1");
    assert_int_equal(w.g->sure_sets, 1);
    forget(&w);
}

static void a_reader_behind_a_writer_waits_for_it(void **state)
{
    (void)state;
    struct world w;
    /* C reads X and waits for Y; B holds Y and wants to read X, where W waits
     * to write: only the queue closes the circle. */
    SEE(&w, "X h=C1:1:r w=W1:3:w w=B1:4:r:2", "Y h=B1:2:m w=C1:5:m:1");
    assert_int_equal(w.g->sure_sets, 1);
    assert_string_equal(cycle(&w, 5, true), "5 4 3 ");
    assert_true(snib__waits_edge(w.g, node(&w, 4), node(&w, 3), true)->queue);
    forget(&w);
    /* Without the writer it fits. */
    SEE(&w, "X h=C1:1:r w=B1:4:r:2", "Y h=B1:2:m w=C1:5:m:1");
    there_is_none(&w);
}

static void an_upgrade_does_not_wait_for_itself(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "X h=A1:1:r h=B1:2:r w=A1:3:w:1");
    there_is_none(&w);
    /* The other reader waits for what the upgrader holds besides. */
    SEE(&w, "X h=A1:1:r h=B1:2:r w=A1:3:w:1,9", "Y h=A1:9:m w=B1:4:m:2");
    assert_int_equal(w.g->sure_sets, 1);
    assert_string_equal(cycle(&w, 4, true), "4 3 ");
    forget(&w);
}

static void permits_are_shown_but_never_sure(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "S h=A1:1:p w=B1:4:p:2", "Y h=B1:2:m w=A1:3:m:1");
    assert_int_equal(w.g->sure_sets, 0);
    assert_int_equal(w.g->sets, 1);
    assert_string_equal(cycle(&w, 4, false), "4 3 ");
    assert_string_equal(cycle(&w, 4, true), "");
    forget(&w);
    /* Who only keeps permits may be the youngest. */
    SEE(&w, "S h=A1:1:p w=B1:4:p:2", "Y h=B1:2:m w=A1:5:m:1");
    assert_int_equal(snib__waits_youngest(w.g, 0, false), node(&w, 5));
    forget(&w);
}

static void one_holder_of_permits_that_can_go_on_is_enough(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "S h=A1:1:p h=C1:9:p w=B1:4:p:2", "Y h=B1:2:m w=A1:3:m:1");
    there_is_none(&w);
    /* It waits, too, for somebody who can go on. */
    SEE(&w, "S h=A1:1:p h=C1:9:p w=B1:4:p:2", "Y h=B1:2:m w=A1:3:m:1",
        "Z h=D1:8:m w=C1:7:m:9");
    there_is_none(&w);
    /* It waits in the circle. */
    SEE(&w, "S h=A1:1:p h=C1:9:p w=B1:4:p:2",
        "Y h=B1:2:m w=A1:3:m:1 w=C1:7:m:9");
    assert_int_equal(w.g->sets, 1);
    assert_int_equal(w.g->sure_sets, 0);
    forget(&w);
}

static void its_own_permits_are_in_its_way(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "S h=A1:1:p w=A1:3:p:1");
    assert_int_equal(w.g->sets, 1);
    assert_int_equal(w.g->sure_sets, 0);
    assert_string_equal(cycle(&w, 3, false), "3 ");
    forget(&w);
}

static void a_barrier_waits_for_somebody_to_come(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "X h=A1:1:m w=B1:4:b:2", "Y h=B1:2:m w=A1:3:m:1");
    there_is_none(&w);
}

/* -- doubt ------------------------------------------------------------------- */

static void a_owner_with_two_wishes_can_go_on(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=A1:3:m:1",
        "Z h=C1:8:m w=A1:9:m:1");
    there_is_none(&w);
    /* The two were seen at two times: what they hold is not the same. */
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=A1:3:m:1",
        "Z h=C1:8:m w=A1:9:m:7");
    there_is_none(&w);
    SEE(&w, "Z h=C1:8:m w=A1:9:m:7", "X h=A1:1:m w=B1:4:m:2",
        "Y h=B1:2:m w=A1:3:m:1");
    there_is_none(&w);
    SEE(&w, "Z h=C1:8:m w=A1:9:m:7", "X h=A1:1:m w=B1:4:m:2",
        "Y h=B1:2:m w=A1:3:m:1", "U h=D1:6:m w=A1:10:m:5");
    there_is_none(&w);
}

static void one_that_left_a_common_request_waits_for_one_thing(void **state)
{
    (void)state;
    struct world w;
    /* Request 9 is that of several owners, and A1, whom it names, has left. */
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=A1:3:m:1",
        "Z h=C1:8:m w=A1:9:m");
    assert_string_equal(cycle(&w, 4, true), "4 3 ");
    forget(&w);
}

static void who_does_not_say_what_it_holds_can_go_on(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=A1:3:m");
    there_is_none(&w);
}

static void what_was_given_back_is_no_edge(void **state)
{
    (void)state;
    struct world w;
    /* A says it held 1, but X is held by another request of A now. */
    SEE(&w, "X h=A1:5:m w=B1:4:m:2", "Y h=B1:2:m w=A1:3:m:1");
    there_is_none(&w);
}

static void who_is_shown_last_out_of_order_is_not_behind(void **state)
{
    (void)state;
    struct world w;
    /* B is unresponsive and shown behind W, whose rank is higher. */
    SEE(&w, "X h=C1:1:r w=W1:3:w9 w=B1:4:r5:2", "Y h=B1:2:m w=C1:5:m:1");
    there_is_none(&w);
    SEE(&w, "X h=C1:1:r w=W1:3:w9 w=B1:4:r12:2", "Y h=B1:2:m w=C1:5:m:1");
    assert_int_equal(w.g->sure_sets, 1);
    forget(&w);
}

static void the_mark_changes_with_any_part(void **state)
{
    (void)state;
    static const char *const other[][2] = {
        {"X h=A1:1:m w=B1:5:m:2", "Y h=B1:2:m w=A1:3:m:1"}, /* a request  */
        {"X h=A1:6:m w=B1:4:m:2", "Y h=B1:2:m w=A1:3:m:6"}, /* a grant    */
    };
    struct world w;
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=A1:3:m:1");
    uint64_t id = snib__waits_id(w.g, 0, true);
    forget(&w);
    /* In another order, with others about. */
    SEE(&w, "Q h=Z1:77:m w=Z2:78:m", "Y h=B1:2:m w=A1:3:m:1 w=Q1:9:m",
        "X h=A1:1:m w=B1:4:m:2");
    assert_true(snib__waits_id(w.g, 0, true) == id);
    forget(&w);
    for (size_t i = 0; i < COUNT_OF(other); i++) {
        SEE(&w, other[i][0], other[i][1]);
        assert_int_equal(w.g->sure_sets, 1);
        assert_true(snib__waits_id(w.g, 0, true) != id);
        forget(&w);
    }
}

/* Owners that take locks in one order only, each at most one wait. */
static void ordered_locking_never_makes_a_cycle(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int round = 0; round < 300; round++) {
        enum { LOCKS = 8, LANES = 8 };
        char text[LOCKS][512], holds[LANES + 1][128];
        const char *locks[LOCKS + 1] = {NULL};
        int top[LANES + 1] = {0};
        memset(holds, 0, sizeof holds);
        for (int l = 0; l < LOCKS; l++) {
            unsigned owner = dice(&seed) % (LANES + 1);
            snprintf(text[l], sizeof text[l], "L%d", l);
            locks[l] = text[l];
            if (owner) {
                snprintf(text[l] + strlen(text[l]), 64, " h=A%u:%d:m", owner,
                         l + 1);
                snprintf(holds[owner] + strlen(holds[owner]), 16, ",%d", l + 1);
                top[owner] = l + 1;
            }
        }
        for (int owner = 1; owner <= LANES; owner++) {
            if (top[owner] < LOCKS) {
                int want = top[owner] +
                           (int)(dice(&seed) % (unsigned)(LOCKS - top[owner]));
                snprintf(text[want] + strlen(text[want]), 128, " w=A%d:%d:m:%s",
                         owner, 100 + owner,
                         holds[owner][0] ? holds[owner] + 1 : "99");
            }
        }
        struct world w;
        see(&w, locks);
        there_is_none(&w);
    }
}

static void damaged_rows_are_read_without_harm(void **state)
{
    (void)state;
    struct world w;
    uint64_t seed = 9;
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=A1:3:m:1");
    size_t size = snib__buf_size(&w.rows);
    for (int i = 0; i < 3000; i++) {
        uint8_t bytes[2048];
        assert_true(size <= sizeof bytes);
        memcpy(bytes, snib__buf_bytes(&w.rows), size);
        bytes[dice(&seed) % size] = (uint8_t)dice(&seed);
        snib__waits_free(snib__waits_new(bytes, size - dice(&seed) % 8));
    }
    forget(&w);
}

static void without_memory_there_is_no_graph(void **state)
{
    (void)state;
    struct world w;
    SEE(&w, "X h=A1:1:m w=B1:4:m:2", "Y h=B1:2:m w=A1:3:m:1");
    for (int i = 1;; i++) {
        snib__mem_fail_at(i, false);
        struct snib__waits *g =
            snib__waits_new(snib__buf_bytes(&w.rows), snib__buf_size(&w.rows));
        snib__mem_fail_at(0, false);
        if (g) {
            snib__waits_free(g);
            assert_true(i > 4);
            break;
        }
    }
    forget(&w);
}

int main(void)
{
    const struct CMUnitTest waits[] = {
        cmocka_unit_test(nothing_is_nothing),
        cmocka_unit_test(two_in_each_others_way),
        cmocka_unit_test(three_in_a_ring),
        cmocka_unit_test(two_owners_of_one_client),
        cmocka_unit_test(a_client_is_not_a_owner),
        cmocka_unit_test(what_is_held_above_a_wait_is_held_until_it_ends),
        cmocka_unit_test(a_wait_of_unknown_age_was_never_heard_of),
        cmocka_unit_test(two_waits_below_one_grant_are_no_edge),
        cmocka_unit_test(below_permits_nobody_in_particular_was_heard_of),
        cmocka_unit_test(an_id_of_other_letters_is_read_as_noughts),
        cmocka_unit_test(a_long_chain_has_an_end),
        cmocka_unit_test(who_waits_for_a_cycle_is_not_in_it),
        cmocka_unit_test(two_cycles_are_two),
        cmocka_unit_test(a_wait_between_two_cycles_is_in_neither),
        cmocka_unit_test(two_cycles_that_share_a_wait_have_one_victim),
        cmocka_unit_test(who_only_stands_in_the_queue_need_not_give_up),
        cmocka_unit_test(readers_are_not_in_each_others_way),
        cmocka_unit_test(a_reader_and_a_writer_are),
        cmocka_unit_test(every_reader_must_go_before_a_writer_comes),
        cmocka_unit_test(a_reader_behind_a_writer_waits_for_it),
        cmocka_unit_test(an_upgrade_does_not_wait_for_itself),
        cmocka_unit_test(permits_are_shown_but_never_sure),
        cmocka_unit_test(one_holder_of_permits_that_can_go_on_is_enough),
        cmocka_unit_test(its_own_permits_are_in_its_way),
        cmocka_unit_test(a_barrier_waits_for_somebody_to_come),
        cmocka_unit_test(a_owner_with_two_wishes_can_go_on),
        cmocka_unit_test(one_that_left_a_common_request_waits_for_one_thing),
        cmocka_unit_test(who_does_not_say_what_it_holds_can_go_on),
        cmocka_unit_test(what_was_given_back_is_no_edge),
        cmocka_unit_test(who_is_shown_last_out_of_order_is_not_behind),
        cmocka_unit_test(the_mark_changes_with_any_part),
        cmocka_unit_test(ordered_locking_never_makes_a_cycle),
        cmocka_unit_test(damaged_rows_are_read_without_harm),
        cmocka_unit_test(without_memory_there_is_no_graph),
    };
    return RUN(waits);
}
