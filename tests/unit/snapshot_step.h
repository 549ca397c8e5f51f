/* tests/unit/snapshot_step.h — two clients at one table, whose steps are cut by
 * hand: begun, decided on, written, one after the other. */
#ifndef SNIB_TESTS_UNIT_SNAPSHOT_STEP_H
#define SNIB_TESTS_UNIT_SNAPSHOT_STEP_H

#include "snapshot_table.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)
#define START  (INT64_C(1700000000) * SECOND)

static const struct snib__name name = {1, 1, 5, "a", "a"};
static const struct snib__name name_b = {1, 1, 6, "b", "b"};

/* The table, and a step for each client: 0 and 1 are two clients. */
static struct {
    struct table table;
    int64_t now;
    struct snib__snapshot s[2];
    struct snib_error error;
} w;

static int begin_world(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    w.now = START;
    for (uint64_t i = 0; i < 2; i++) {
        snib__snapshot_init(&w.s[i], (uint64_t[2]){i + 1, 9});
        snprintf(w.s[i].notifier, sizeof w.s[i].notifier, "notifier %d",
                 (int)i);
    }
    return 0;
}

static int end_world(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        snib__snapshot_free(&w.s[i]);
    }
    return 0;
}

static struct snib__request verb(snib__verb v, uint64_t id)
{
    return (struct snib__request){.verb = v,
                                  .name = &name,
                                  .id = {id, id + 7},
                                  .acquire.permits = 1,
                                  .acquire.may_queue = true,
                                  .lease = snib__ms(10000),
                                  .said.reterr = &w.error};
}

static struct snib__request acquire(uint64_t id)
{
    return verb(SNIB__ACQUIRE, id);
}

static struct snib__request of(snib__verb v, const struct snib__request *r)
{
    struct snib__request of = verb(v, r->id[0]);
    of.token = r->token;
    return of;
}

/* -- the parts of a step --------------------------------------------------- */

static void start(int i, struct snib__request *r)
{
    snib__snapshot_begin(&w.s[i], &r, 1);
}

/* The clients' clocks are an hour behind the store's. */
static snib_instant client_clock(void)
{
    return (snib_instant){w.now - 3600 * SECOND};
}

static snib__snapshot_todo decide(int i)
{
    snib_instant sent = client_clock();
    w.now += MS; /* on the way */
    fetch(&w.table, &w.s[i], sent, (snib_instant){w.now});
    return snib__snapshot_decide(&w.s[i]);
}

static bool write_it(int i)
{
    static struct message m;
    pack(&w.s[i], &m);
    return apply(&w.table, &m, (snib_instant){w.now});
}

static void do_all(int i, struct snib__request *r)
{
    start(i, r);
    if (decide(i) == SNIB__SNAPSHOT_WRITE) {
        assert_true(write_it(i));
        snib__snapshot_written(&w.s[i]);
    }
}

/* A step that waits to be written. */
static void half(int i, struct snib__request *r)
{
    start(i, r);
    assert_int_equal(decide(i), SNIB__SNAPSHOT_WRITE);
}

static void finish_again(int i)
{
    snib__snapshot_again(&w.s[i]);
    if (decide(i) == SNIB__SNAPSHOT_WRITE) {
        assert_true(write_it(i));
        snib__snapshot_written(&w.s[i]);
    }
}

/* How many rows of this kind the write has; todo as well. */
static int guards(int i, snib__key_kind kind, snib__guard_todo todo)
{
    int n = 0;
    for (uint32_t k = 0; k < w.s[i].guards; k++) {
        n += w.s[i].guard[k].key.kind == kind && w.s[i].guard[k].todo == todo;
    }
    return n;
}

/* -- what others do to the table ------------------------------------------- */

/* The lock row goes, and leaves its token in the floor. */
static void clean_up(void)
{
    struct snib__buf b;
    snib__buf_init(&b, 100);
    snib__layout_put_floor(&b, lock_in(lock_row(&w.table, &name)).token);
    w.table.revision++;
    delete_row(&w.table, lock_row(&w.table, &name));
    put_row(&w.table, &(struct snib__key){.kind = SNIB__KEY_FLOOR},
            snib__buf_bytes(&b), snib__buf_size(&b));
    snib__buf_free(&b);
}

/* The last token of this name, or the floor, is no token. */
static void spoil(const struct snib__name *of, snib__key_kind kind)
{
    struct snib__buf b;
    snib__buf_init(&b, 100);
    w.table.revision++;
    if (kind == SNIB__KEY_LOCK) {
        snib__layout_put_lock(
            &b, &(struct snib__lock_row){INT64_MAX, {.size = -1}});
    } else {
        snib__layout_put_floor(&b, INT64_MAX);
    }
    put_row(&w.table, &(struct snib__key){kind, of, {0}}, snib__buf_bytes(&b),
            snib__buf_size(&b));
    snib__buf_free(&b);
}

#define STEP(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)

#endif
