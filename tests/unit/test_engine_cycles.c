/* core/cycles.c at a store of wax: which looks for deadlocks there are, and
 * what is made of their answers. (Of circles: unit.waits, unit.deadlock.) */
#include "engine_desk.h"

static char logged[400];
static int logged_level;

static void keep_log(void *data, int level, const char *line)
{
    assert_ptr_equal(data, logged);
    logged_level = level;
    snprintf(logged, sizeof logged, "%s", line);
}

/* The desk's, at a store that has queues. */
static int set_up_looking(void **state)
{
    static struct snib__store_ops ops;
    struct snib__engine_config cfg = {.ops = &ops,
                                      .seed = {{1, 2, 3, 4}},
                                      .request = snib__ms(2000),
                                      .log = keep_log,
                                      .log_data = logged,
                                      .deadlocks = true};
    logged[0] = 0;
    ops = wax;
    ops.caps = SNIB__CAN_QUEUE;
    set_up(state);
    struct desk *d = *state;
    snib__engine_free(d->e);
    assert_int_equal(snib__engine_open(&cfg, &d->e, &d->err), SNIB_ERR_OK);
    return snib__engine_local_lock(d->e, "door", 0, &d->local, &d->err);
}

/* Owner 1 holds the desk's door and waits for another, which somebody has. */
static struct snib__acquisition *nested_wait(struct desk *d)
{
    struct snib__local_lock *door = d->local;
    acquire(d, ask_of(1));
    grant(d, 9);
    assert_int_equal(
        snib__engine_local_lock(d->e, "gate", 0, &d->local, &d->err),
        SNIB_ERR_OK);
    struct snib__acquisition *s = acquire(d, ask_of(1));
    d->local = door;
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    return s;
}

/* Its request has ended, or came after the store had looked there: nothing is
 * known of it, and it is no deadlock. */
static void a_wait_that_the_look_did_not_meet_goes_on(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = nested_wait(d);
    pass_ms(d, 999);
    assert_null(at(SNIB__LIST));
    pass_ms(d, 1);
    for (int look = 0; look < 3; look++) {
        assert_non_null(at(SNIB__LIST));
        say(d, at(SNIB__LIST), SNIB__DONE);
        assert_int_equal(s->state, SNIB__ACQ_WAITING);
        pass_ms(d, 1999);
        assert_null(at(SNIB__LIST));
        pass_ms(d, 502); /* up to a quarter more */
    }
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
}

static void look_of(struct desk *d, int64_t ms)
{
    assert_non_null(at(SNIB__LIST));
    at(SNIB__LIST)->said.valid_from = d->now;
    pass_ms(d, ms);
    say(d, at(SNIB__LIST), SNIB__DONE);
}

/* The pause behind a look is counted from when the store got it: 400 ms of its
 * work are made good by 20 s, 400 ms without a line cost it nothing. */
static void a_look_that_waited_for_a_line_is_no_long_one(void **state)
{
    struct desk *d = *state;
    nested_wait(d);
    pass_ms(d, 1000);
    pass_ms(d, 400);
    at(SNIB__LIST)->said.valid_from = d->now;
    say(d, at(SNIB__LIST), SNIB__DONE);
    pass_ms(d, 2501);
    look_of(d, 400);
    pass_ms(d, 2501);
    look_of(d, 400);
    pass_ms(d, 19999);
    assert_null(at(SNIB__LIST));
    pass_ms(d, 1);
    assert_non_null(at(SNIB__LIST));
}

/* Or the process was stopped while it looked: a circle must not stand for
 * minutes because of that. */
static void one_long_look_alone_puts_nothing_off(void **state)
{
    struct desk *d = *state;
    nested_wait(d);
    pass_ms(d, 1000);
    look_of(d, 1);
    pass_ms(d, 2501);
    look_of(d, 3000);
    pass_ms(d, 2501);
    look_of(d, 600); /* the second long one in a row: 30 s */
    pass_ms(d, 29999);
    assert_null(at(SNIB__LIST));
    pass_ms(d, 1);
    assert_non_null(at(SNIB__LIST));
}

/* There is none before it: nothing tells it from a stop of the process. */
static void nor_does_the_very_first_one(void **state)
{
    struct desk *d = *state;
    nested_wait(d);
    pass_ms(d, 1000);
    look_of(d, 3000);
    pass_ms(d, 2501);
    look_of(d, 1000);
    pass_ms(d, 49999);
    assert_null(at(SNIB__LIST));
    pass_ms(d, 1);
    assert_non_null(at(SNIB__LIST));
}

static void a_look_that_failed_is_in_the_log(void **state)
{
    struct desk *d = *state;
    nested_wait(d);
    pass_ms(d, 1000);
    struct snib__request *rq = at(SNIB__LIST);
    rq->said.err = SNIB_ERR_DENIED;
    snprintf(rq->said.reterr->text, sizeof rq->said.reterr->text,
             "no SCAN for you");
    say(d, rq, SNIB__NO);
    assert_string_equal(logged, "no look for deadlocks: no SCAN for you");
    assert_int_equal(logged_level, SNIB_LOG_DEBUG);
}

int main(void)
{
    const struct CMUnitTest engine_cycles[] = {
        cmocka_unit_test_setup_teardown(
            a_wait_that_the_look_did_not_meet_goes_on, set_up_looking,
            tear_down),
        cmocka_unit_test_setup_teardown(
            a_look_that_waited_for_a_line_is_no_long_one, set_up_looking,
            tear_down),
        cmocka_unit_test_setup_teardown(one_long_look_alone_puts_nothing_off,
                                        set_up_looking, tear_down),
        cmocka_unit_test_setup_teardown(nor_does_the_very_first_one,
                                        set_up_looking, tear_down),
        cmocka_unit_test_setup_teardown(a_look_that_failed_is_in_the_log,
                                        set_up_looking, tear_down),
    };
    return RUN(engine_cycles);
}
