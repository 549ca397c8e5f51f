/* tests/unit/test_engine_blocked.c — the engine over a library that is blocked
 * by others for longer than some of its callers wait. */
#include "core/blocking.h"
#include "core/engine.h"
#include "unit.h"

static int library;

static snib_err open_it(const struct snib__store_config *c, void **ret,
                        struct snib_error *e)
{
    (void)c, (void)e;
    *ret = &library;
    return SNIB_ERR_OK;
}

static void exec(void *instance, snib_instant now, struct snib__list *chain)
{
    (void)instance, (void)now, (void)chain; /* the test answers */
}

static int no_notifier(void *instance)
{
    (void)instance;
    return -1;
}

static const struct snib__request *notified; /* of it, once; NULL: of none */

static uint32_t notified_of(void *instance, uint64_t (*ids)[2], uint32_t max)
{
    (void)instance, (void)max;
    if (!notified) {
        return 0;
    }
    memcpy(ids[0], notified->id, sizeof ids[0]);
    notified = NULL;
    return 1;
}

static void free_it(void *instance)
{
    (void)instance;
}

static const struct snib__blocking_ops ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof ops,
    .scheme = "blocked",
    .caps = SNIB__CAN_QUEUE,
    .open = open_it,
    .exec = exec,
    .notifier_fd = no_notifier,
    .notified = notified_of,
    .free = free_it,
};

static struct desk {
    struct snib__engine *e;
    struct snib__local_lock *local;
    struct snib__list taken; /* inside the library                           */
    snib_instant now;
    struct snib_error err;
} d;

static int set_up(void **state)
{
    struct snib__engine_config cfg = {
        .blocking = &ops, .seed = {{1, 2, 3, 4}}, .request = snib__ms(2000)};
    (void)state;
    d = (struct desk){.now = {1000000000}};
    snib__list_init(&d.taken);
    assert_int_equal(snib__engine_open(&cfg, &d.e, &d.err), SNIB_ERR_OK);
    assert_int_equal(snib__engine_local_lock(d.e, "door", 0, &d.local, &d.err),
                     SNIB_ERR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    snib__engine_free(d.e);
    return 0;
}

static struct snib__acquisition *acquire(uint64_t owner, int64_t limit_ms)
{
    struct snib__acquire_spec spec = {
        .owner = owner,
        .limit = snib__after(d.now, snib__ms(limit_ms)),
        .lease = snib__ms(30000)};
    struct snib__acquisition *s = NULL;
    assert_int_equal(
        snib__engine_acquire(d.e, d.now, d.local, &spec, &s, &d.err),
        SNIB_ERR_OK);
    return s;
}

/* The one request that the library has been given; NULL: none. */
static struct snib__request *inside(void)
{
    snib__list_append(&d.taken, &snib__engine_out(d.e)->exec);
    struct snib__link *l = snib__list_first(&d.taken);
    return l ? SNIB__CONTAINER(l, struct snib__request, link) : NULL;
}

static void comes_back(snib__answer answer, snib_err err)
{
    struct snib__list back;
    struct snib__request *r = inside();
    assert_non_null(r);
    snib__list_init(&back);
    snib__unlink(&r->link);
    assert_true(snib__list_empty(&d.taken));
    snib__list_push(&back, &r->link);
    r->said.answer = answer;
    r->said.err = err;
    r->said.position = 1;
    r->said.left.ns = -1;
    snib__engine_executed(d.e, d.now, &back);
}

static void pass_ms(int64_t ms)
{
    d.now = snib__after(d.now, snib__ms(ms));
    snib__engine_tick(d.e, d.now);
}

/* One thread is in the queue, the file is blocked, and a second one joins while
 * the first one's last poll is inside the library. */
static void a_cancel_of_what_stands_in_the_queue_is_carried_out(void **state)
{
    (void)state;
    struct snib__acquisition *a = acquire(1, 1500);
    comes_back(SNIB__QUEUED, SNIB_ERR_OK);
    pass_ms(1001); /* a poll */
    assert_int_equal(inside()->said.answer, SNIB__QUEUED);
    struct snib__acquisition *b = acquire(2, 60000);
    d.now = snib__after(d.now, snib__ms(499));
    comes_back(SNIB__NOT_APPLIED, SNIB_ERR_STORE);
    assert_int_equal(a->state, SNIB__ACQ_REFUSED);
    snib__acquisition_done(d.e, a);
    assert_int_equal(inside()->verb, SNIB__ACQUIRE); /* goes on for b */
    comes_back(SNIB__PENDING, SNIB_ERR_STORE);
    assert_int_equal(
        snib__engine_give_up_now(d.e, d.now, b, SNIB_ERR_CANCELLED),
        SNIB_ERR_CANCELLED);
    assert_int_equal(inside()->verb, SNIB__CANCEL);
    comes_back(SNIB__PENDING, SNIB_ERR_STORE);
    pass_ms(30);
    assert_non_null(inside()); /* not done: the place stands */
    assert_int_equal(inside()->verb, SNIB__CANCEL);
    comes_back(SNIB__DONE, SNIB_ERR_OK);
    pass_ms(30);
    assert_null(inside());
}

/* Of what the library never got to nothing stands. */
static void a_cancel_of_what_was_never_there_is_done(void **state)
{
    (void)state;
    struct snib__acquisition *a = acquire(1, 1500);
    comes_back(SNIB__PENDING, SNIB_ERR_STORE);
    (void)snib__engine_give_up_now(d.e, d.now, a, SNIB_ERR_CANCELLED);
    assert_int_equal(inside()->verb, SNIB__CANCEL);
    comes_back(SNIB__PENDING, SNIB_ERR_STORE);
    pass_ms(30);
    assert_null(inside());
}

/* The library was occupied by others until the limit. */
static void occupied(void)
{
    inside()->exec.blocked = true;
    comes_back(SNIB__NOT_APPLIED, SNIB_ERR_STORE);
}

static void is_told(struct snib__acquisition *s, snib_err err)
{
    assert_int_equal(s->state, SNIB__ACQ_REFUSED);
    assert_int_equal(s->err, err);
    snib__acquisition_done(d.e, s);
}

/* For a moment that is no fault of the store's; later it is one. */
static void a_short_wait_behind_a_write_is_a_time_out(void **state)
{
    (void)state;
    struct snib__acquisition *a = acquire(1, 20); /* of another hour */
    inside()->exec.blocked = false;
    comes_back(SNIB__NOT_APPLIED, SNIB_ERR_NOMEM);
    is_told(a, SNIB_ERR_NOMEM);
    pass_ms(3600000);
    for (int64_t ms = 0; ms < 200; ms += 20) {
        a = acquire(1, 20);
        assert_non_null(inside());
        d.now = snib__after(d.now, snib__ms(20));
        occupied();
        is_told(a, ms < 80 ? SNIB_ERR_TIMEOUT : SNIB_ERR_STORE);
        assert_null(inside()); /* nothing of it is anywhere */
    }
}

/* Each wait behind a write is one of its own when nothing was asked before, and
 * what it has said of the store does not grow while nobody asks. */
static void what_was_blocked_an_hour_ago_says_nothing_of_now(void **state)
{
    struct snib__store_state is;
    (void)state;
    struct snib__acquisition *a = acquire(1, 200);
    assert_non_null(inside());
    d.now = snib__after(d.now, snib__ms(200));
    occupied();
    is_told(a, SNIB_ERR_STORE);
    snib_instant since = snib__before(d.now, snib__ms(200));
    pass_ms(3600000);
    snib__engine_store_state(d.e, d.now, &is);
    assert_false(is.reachable);
    assert_int_equal(is.since.ns, since.ns);
    a = acquire(1, 3);
    assert_non_null(inside());
    d.now = snib__after(d.now, snib__ms(3));
    occupied();
    is_told(a, SNIB_ERR_TIMEOUT);
    pass_ms(3600000);
    snib__engine_store_state(d.e, d.now, &is);
    assert_true(is.reachable);
    a = acquire(1, 30); /* a full disk stays one, however seldom it is asked */
    comes_back(SNIB__NOT_APPLIED, SNIB_ERR_STORE);
    is_told(a, SNIB_ERR_STORE);
    pass_ms(3600000);
    snib__engine_store_state(d.e, d.now, &is);
    assert_false(is.reachable);
    assert_int_equal(is.err, SNIB_ERR_STORE);
}

static struct snib__acquisition *try_it(struct snib__local_lock *local,
                                        int64_t limit_ms)
{
    struct snib__acquire_spec spec = {
        .owner = 2,
        .try_only = true,
        .limit = snib__after(d.now, snib__ms(limit_ms)),
        .lease = snib__ms(30000)};
    struct snib__acquisition *s = NULL;
    assert_int_equal(snib__engine_acquire(d.e, d.now, local, &spec, &s, &d.err),
                     SNIB_ERR_OK);
    return s;
}

/* Others get an answer meanwhile, as who reads does: that says nothing of who
 * wants to write. */
static void a_long_wait_behind_a_write_blames_the_store(void **state)
{
    (void)state;
    struct snib__local_lock *other;
    assert_int_equal(snib__engine_local_lock(d.e, "other", 0, &other, &d.err),
                     SNIB_ERR_OK);
    struct snib__acquisition *a = acquire(1, 400);
    for (int64_t ms = 0; ms < 360; ms += 40) {
        assert_non_null(inside());
        inside()->exec.blocked = true;
        comes_back(SNIB__PENDING, SNIB_ERR_STORE);
        struct snib__acquisition *b = try_it(other, 1000);
        assert_non_null(inside());
        comes_back(SNIB__NO, SNIB_ERR_BUSY);
        is_told(b, SNIB_ERR_BUSY);
        pass_ms(40);
    }
    d.now = snib__after(d.now, snib__ms(40));
    occupied();
    is_told(a, SNIB_ERR_STORE);
}

/* It waits as long as for any answer: nobody knows whether it is free. */
static void a_try_behind_a_write_blames_the_store(void **state)
{
    (void)state;
    struct snib__acquisition *s = try_it(d.local, 20);
    d.now = snib__after(d.now, snib__ms(20));
    occupied();
    is_told(s, SNIB_ERR_STORE);
}

/* A try hears of the first failure. Who has joined its request meanwhile waits. */
static void who_joins_a_try_is_not_refused_with_it(void **state)
{
    (void)state;
    struct snib__acquisition *a = try_it(d.local, 1000);
    assert_true(inside()->exec.impatient);
    struct snib__acquisition *b = acquire(3, 60000);
    comes_back(SNIB__NOT_APPLIED, SNIB_ERR_UNREACHABLE);
    is_told(a, SNIB_ERR_UNREACHABLE);
    assert_int_equal(b->state, SNIB__ACQ_WAITING);
    assert_int_equal(inside()->verb, SNIB__ACQUIRE);
    assert_true(inside()->acquire.may_queue);
    assert_false(inside()->exec.impatient);
    comes_back(SNIB__NOT_APPLIED, SNIB_ERR_DENIED); /* a wait would not help */
    is_told(b, SNIB_ERR_DENIED);
    assert_null(inside());
}

/* A store that fails says so at once, however short the wait. */
static void a_full_disk_is_no_time_out(void **state)
{
    (void)state;
    struct snib__acquisition *a = acquire(1, 20);
    d.now = snib__after(d.now, snib__ms(20));
    comes_back(SNIB__NOT_APPLIED, SNIB_ERR_STORE);
    is_told(a, SNIB_ERR_STORE);
    a = acquire(1, 30); /* and what blocked it before is forgotten */
    inside()->exec.blocked = true;
    comes_back(SNIB__PENDING, SNIB_ERR_STORE);
    pass_ms(20);
    d.now = snib__after(d.now, snib__ms(10));
    comes_back(SNIB__NOT_APPLIED, SNIB_ERR_STORE);
    is_told(a, SNIB_ERR_STORE);
}

/* The place in the queue goes with it, and before it is told. */
static void who_stands_in_the_queue_leaves_it_first(void **state)
{
    (void)state;
    struct snib__acquisition *a = acquire(1, 1010);
    comes_back(SNIB__QUEUED, SNIB_ERR_OK);
    pass_ms(1001); /* a poll */
    assert_int_equal(inside()->said.answer, SNIB__QUEUED);
    d.now = snib__after(d.now, snib__ms(9));
    occupied();
    assert_int_equal(a->state, SNIB__ACQ_LEAVING);
    assert_int_equal(inside()->verb, SNIB__CANCEL);
    comes_back(SNIB__DONE, SNIB_ERR_OK);
    is_told(a, SNIB_ERR_TIMEOUT);
    assert_null(inside());
}

/* A notice makes the library be asked again before anybody was told that the
 * request is in the queue. If it can do nothing then, the place still goes. */
static void a_place_that_nobody_was_told_of_goes_too(void **state)
{
    static const struct snib__input notice = {.kind = SNIB__IN_NOTIFIED};
    (void)state;
    struct snib__acquisition *a = acquire(1, 60000);
    notified = inside();
    snib__engine_input(d.e, d.now, &notice);
    comes_back(SNIB__QUEUED, SNIB_ERR_OK);
    assert_int_equal(inside()->verb, SNIB__ACQUIRE); /* at once */
    comes_back(SNIB__NOT_APPLIED, SNIB_ERR_DENIED);
    is_told(a, SNIB_ERR_DENIED);
    assert_non_null(inside());
    assert_int_equal(inside()->verb, SNIB__CANCEL);
    comes_back(SNIB__DONE, SNIB_ERR_OK);
    assert_null(inside());
}

/* A request is executed until the last limit of those who wait by it. Whose own
 * limit comes sooner does not wait for that. */
static void a_limit_is_kept_beside_a_longer_one(void **state)
{
    (void)state;
    struct snib__acquisition *a = acquire(1, 60000);
    assert_non_null(inside());
    struct snib__acquisition *b = acquire(2, 20);
    assert_true(snib__engine_is_run(d.e, a->ticket));
    assert_false(snib__engine_is_run(d.e, b->ticket));
    d.now = snib__after(d.now, snib__ms(20));
    assert_int_equal(
        snib__engine_give_up(d.e, d.now, b, SNIB_ERR_TIMEOUT, &d.err),
        SNIB_ERR_TIMEOUT);
    assert_int_equal(a->state, SNIB__ACQ_WAITING);
}

/* A copy that was not answered may stand, whatever became of the next one. */
static void doubt_it_until_the_limit(int64_t limit_ms)
{
    comes_back(SNIB__UNKNOWN, SNIB_ERR_UNKNOWN);
    assert_true(inside()->resent);
    d.now = snib__after(d.now, snib__ms(limit_ms));
    comes_back(SNIB__NOT_APPLIED, SNIB_ERR_UNREACHABLE);
}

static void a_limit_after_a_doubt_waits_for_the_cancel(void **state)
{
    (void)state;
    struct snib__acquisition *a = acquire(1, 20);
    doubt_it_until_the_limit(20);
    assert_int_equal(a->state, SNIB__ACQ_LEAVING);
    assert_int_equal(inside()->verb, SNIB__CANCEL);
    comes_back(SNIB__DONE, SNIB_ERR_OK);
    is_told(a, SNIB_ERR_TIMEOUT);
    assert_null(inside());
}

static void a_limit_after_a_doubt_is_unknown_without_the_cancel(void **state)
{
    (void)state;
    struct snib__acquisition *a = acquire(1, 20);
    doubt_it_until_the_limit(20);
    assert_int_equal(inside()->verb, SNIB__CANCEL);
    pass_ms(400); /* a fifth of the time for an answer */
    is_told(a, SNIB_ERR_UNKNOWN);
    struct snib__acquisition *s = try_it(d.local, 20);
    comes_back(SNIB__DONE, SNIB_ERR_OK);
    doubt_it_until_the_limit(20);
    is_told(s, SNIB_ERR_UNKNOWN);
    assert_int_equal(inside()->verb, SNIB__CANCEL);
    comes_back(SNIB__DONE, SNIB_ERR_OK);
    assert_null(inside());
}

/* What the copy was given would go to the one that waits still. */
static void only_the_last_limit_after_a_doubt_is_unknown(void **state)
{
    (void)state;
    struct snib__acquisition *a = acquire(1, 20), *b = acquire(2, 20);
    doubt_it_until_the_limit(20);
    is_told(a, SNIB_ERR_UNREACHABLE);
    assert_int_equal(b->state, SNIB__ACQ_LEAVING);
    comes_back(SNIB__DONE, SNIB_ERR_OK);
    is_told(b, SNIB_ERR_TIMEOUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_cancel_of_what_stands_in_the_queue_is_carried_out, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            a_cancel_of_what_was_never_there_is_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_short_wait_behind_a_write_is_a_time_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            what_was_blocked_an_hour_ago_says_nothing_of_now, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            a_long_wait_behind_a_write_blames_the_store, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_try_behind_a_write_blames_the_store,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_joins_a_try_is_not_refused_with_it,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_is_no_time_out, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_stands_in_the_queue_leaves_it_first,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_place_that_nobody_was_told_of_goes_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_limit_is_kept_beside_a_longer_one,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_limit_after_a_doubt_waits_for_the_cancel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_limit_after_a_doubt_is_unknown_without_the_cancel, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            only_the_last_limit_after_a_doubt_is_unknown, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
