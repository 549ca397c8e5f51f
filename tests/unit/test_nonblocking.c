/* tests/unit/test_nonblocking.c — core/nonblocking.c: who is notified is listed, in
 * the table of a store that takes its requests itself. */
#include "core/nonblocking.h"

#include "base/error.h"
#include "unit.h"

static struct snib__out out;
static struct snib__nonblocking n;
static struct snib__name name = {.raw = "n", .safe = "n", .raw_size = 1};
/* The table has them until it is freed, which is behind a case's end. */
static struct snib__request r[SNIB__NONBLOCKING_IDS + 1];

static const struct snib__store_config config = {.out = &out,
                                                 .seed = {{1, 2, 3, 4}}};

static int set_up(void **state)
{
    (void)state;
    memset(&out, 0, sizeof out);
    memset(&n, 0, sizeof n);
    snib__list_init(&out.answered);
    snib__conns_init(&out, 0);
    return snib__nonblocking_open(&n, &config, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    snib__nonblocking_free(&n);
    assert_int_equal(snib__mem_alive(), 0);
    return 0;
}

static snib_instant at(int64_t ms)
{
    return (snib_instant){ms * 1000000};
}

static struct snib__request *listed(void)
{
    return snib__blocking_peek(n.table, SNIB__SESSION_CALLERS, NULL);
}

/* So many acquires, with these indexes as ids, were taken, and wait. */
static void queue(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct snib__list chain;
        r[i] = (struct snib__request){.verb = SNIB__ACQUIRE,
                                      .name = &name,
                                      .id = {i, 5},
                                      .limit = SNIB__NEVER};
        snib__list_init(&chain);
        snib__list_push(&chain, &r[i].link);
        snib__blocking_store_ops.start(n.table, at(1), &chain);
        assert_ptr_equal(listed(), &r[i]);
        snib__blocking_take_one(n.table, &r[i]);
        r[i].said.answer = SNIB__QUEUED;
        snib__list_push(&n.executed, &r[i].link);
        snib__blocking_done(n.table, at(1), &n.executed);
        assert_null(listed());
        assert_ptr_equal(snib__list_pop(&n.out.answered), &r[i].link);
    }
}

/* How many are listed; they are taken. */
static uint32_t take_all(void)
{
    struct snib__request *one;
    uint32_t count = 0;
    while ((one = listed())) {
        snib__blocking_take_one(n.table, one);
        count++;
    }
    return count;
}

static void who_is_notified_is_listed_and_nobody_else(void **state)
{
    (void)state;
    queue(2);
    assert_false(snib__nonblocking_is_notified(&n));
    snib__nonblocking_hear(&n, at(2));
    assert_null(listed());
    snib__nonblocking_notify(&n, r[1].id);
    assert_true(snib__nonblocking_is_notified(&n));
    snib__nonblocking_hear(&n, at(2));
    assert_false(snib__nonblocking_is_notified(&n));
    assert_ptr_equal(listed(), &r[1]);
    assert_int_equal(take_all(), 1);
}

/* They fit: nobody else is asked about. The table asks for less at once. */
static void as_many_as_it_keeps_are_listed_and_nobody_else(void **state)
{
    (void)state;
    queue(SNIB__NONBLOCKING_IDS + 1);
    for (uint32_t i = 0; i < SNIB__NONBLOCKING_IDS; i++) {
        snib__nonblocking_notify(&n, r[i].id);
    }
    snib__nonblocking_hear(&n, at(2));
    assert_false(snib__nonblocking_is_notified(&n));
    assert_int_equal(take_all(), SNIB__NONBLOCKING_IDS);
}

static void with_more_than_it_keeps_each_that_waits_is_listed(void **state)
{
    const uint64_t strange[2] = {700, 7};
    (void)state;
    queue(3);
    for (int i = 0; i < SNIB__NONBLOCKING_IDS + 1; i++) {
        snib__nonblocking_notify(&n, strange);
    }
    snib__nonblocking_hear(&n, at(2));
    assert_false(snib__nonblocking_is_notified(&n));
    assert_int_equal(take_all(), 3);
    assert_int_equal(n.out.ended_count, 0);
}

static void without_an_id_each_that_waits_is_listed(void **state)
{
    (void)state;
    queue(3);
    snib__nonblocking_notify(&n, NULL);
    assert_true(snib__nonblocking_is_notified(&n));
    snib__nonblocking_hear(&n, at(2));
    assert_false(snib__nonblocking_is_notified(&n));
    assert_int_equal(take_all(), 3);
}

/* It may be of a grant that somebody has ended: the store knows what that is. */
static void an_id_that_nobody_waits_with_is_told_as_ended(void **state)
{
    const uint64_t strange[2] = {700, 7};
    (void)state;
    queue(1);
    snib__nonblocking_notify(&n, strange);
    snib__nonblocking_hear(&n, at(2));
    assert_null(listed());
    assert_int_equal(n.out.ended_count, 1);
    assert_memory_equal(n.out.ended[0], strange, sizeof strange);
    assert_int_equal(out.ended_count, 0);
}

static void without_memory_it_is_not_opened_and_may_be_freed(void **state)
{
    struct snib__nonblocking other = {.table = NULL};
    (void)state;
    for (int i = 1; i < 3; i++) {
        snib__mem_fail_at(i, false);
        assert_int_equal(snib__nonblocking_open(&other, &config, NULL),
                         SNIB_ERR_NOMEM);
        assert_null(other.table);
        snib__nonblocking_free(&other);
    }
    snib__mem_fail_at(0, false);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest nonblocking[] = {
        CASE(who_is_notified_is_listed_and_nobody_else),
        CASE(as_many_as_it_keeps_are_listed_and_nobody_else),
        CASE(with_more_than_it_keeps_each_that_waits_is_listed),
        CASE(without_an_id_each_that_waits_is_listed),
        CASE(an_id_that_nobody_waits_with_is_told_as_ended),
        CASE(without_memory_it_is_not_opened_and_may_be_freed),
    };
    return RUN(nonblocking);
}
