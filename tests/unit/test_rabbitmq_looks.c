/* tests/unit/test_rabbitmq_looks.c — the store rabbitmq beside a model of its broker:
 * who is there, as tries and looks ask it; what the doctor finds. */
#include "rabbitmq_world.h"

#include "base/record.h"
#include "snib/inspect.h"

/* -- tries ------------------------------------------------------------------------------ */

/* It is among those that are asked, and does not answer itself. */
static void a_try_asks_who_consumes_and_is_refused(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    a.acquire.may_queue = false;
    another_consumes();
    ask(&a);
    assert_int_equal(model.asked_who, 1);
    assert_int_equal(answer(&a), SNIB__PENDING);
    pass_ms(300); /* nobody says anything: frozen */
    assert_int_equal(answer(&a), SNIB__NO);
    assert_int_equal(a.said.err, SNIB_ERR_BUSY);
    assert_int_equal(model.consumers, 1);
}

static void a_try_goes_on_when_the_one_before_was_about_to_go(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    a.acquire.may_queue = false;
    another_consumes();
    lies_there("free", 9, 5, 0);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__PENDING);
    model_leave(MODEL_OTHER);
    pass_ms(50);
    assert_int_equal(answer(&a), SNIB__DONE);
    give_back(&a);
}

static void a_try_is_refused_by_who_answers_that_he_holds(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    b.acquire.may_queue = false;
    granted(&a);
    pass_ms(500);
    ask(&b);
    assert_int_equal(answer(&b), SNIB__NO);
    assert_int_equal(b.said.err, SNIB_ERR_BUSY);
    assert_int_equal(b.said.left.ns, snib__ms(1500).ns);
    give_back(&a);
}

static void an_answer_about_another_lock_refuses_nobody(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    a.acquire.may_queue = false;
    another_consumes();
    ask(&a);
    model_passes(model.asks, NULL, answers("held", "snib.l.other"));
    settle();
    assert_int_equal(answer(&a), SNIB__PENDING);
    model_passes(model.asks, NULL, answers("held", queue));
    settle();
    assert_int_equal(answer(&a), SNIB__NO);
}

/* The other one has gone since. What he has said is no message of the queue's. */
static void an_answer_that_comes_late_is_no_grant(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    a.acquire.may_queue = false;
    another_consumes();
    lies_there("free", 9, 5, 0);
    model.late_answer = answers("held", queue);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__PENDING);
    model_leave(MODEL_OTHER);
    pass_ms(50);
    assert_int_equal(answer(&a), SNIB__DONE);
    give_back(&a);
}

/* Nobody consumed when the try came, so silence may be the broker's. */
static void a_slow_broker_is_no_holder(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    a.acquire.may_queue = b.acquire.may_queue = false;
    lies_there("free", 9, 5, 0);
    model.slow = true;
    ask(&a);
    pass_ms(600);
    assert_int_equal(answer(&a), SNIB__PENDING);
    assert_int_equal(model.asked_who, 1);
    model.slow = false;
    model_deliver();
    settle();
    assert_int_equal(answer(&a), SNIB__DONE);
    give_back(&a);
    model.slow = true;
    ask(&b);
    pass_ms(800);
    assert_int_equal(answer(&b), SNIB__NOT_APPLIED);
    assert_int_equal(b.said.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(said.text, "slow"));
    assert_int_equal(model.consumers, 0);
}

/* It has asked before, when somebody was about to go. */
static void a_try_that_was_given_nothing_asks_again(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    a.acquire.may_queue = false;
    another_consumes();
    lies_there("free", 9, 5, 0);
    ask(&a);
    model_leave(MODEL_OTHER);
    model.slow = true;
    pass_ms(300);
    assert_int_equal(answer(&a), SNIB__PENDING);
    assert_int_equal(model.asked_who, 2);
    model.slow = false;
    model_deliver();
    settle();
    assert_int_equal(answer(&a), SNIB__DONE);
    give_back(&a);
}

/* Somebody came between its question and its consuming. */
static void who_was_first_refuses_a_try_if_he_holds(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    a.acquire.may_queue = false;
    lies_there("free", 9, 5, 0);
    model.first_to_consume = MODEL_OTHER;
    ask(&a);
    pass_ms(210);
    assert_int_equal(answer(&a), SNIB__PENDING);
    model_passes(model.asks, NULL, answers("waits", queue));
    settle();
    assert_int_equal(answer(&a), SNIB__PENDING);
    model_passes(model.asks, NULL, answers("held", queue));
    settle();
    assert_int_equal(answer(&a), SNIB__NO);
    assert_int_equal(a.said.err, SNIB_ERR_BUSY);
    assert_int_equal(a.said.left.ns, snib__ms(1000).ns);
    assert_int_equal(model.consumers, 1);
}

/* -- looks ------------------------------------------------------------------------------ */

/* The row of a holder that went, if the answer has one. */
static bool shows_closed(void)
{
    struct snib__request r = request(SNIB__INSPECT, 50);
    struct snib__buf rows;
    snib__buf_init(&rows, 4096);
    r.said.result = &rows;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    bool closed = memmem(snib__buf_bytes(&rows), snib__buf_size(&rows), "went",
                         4) != NULL;
    snib__buf_free(&rows);
    return closed;
}

/* It counts from when it was seen first, so whoever looks again sees an end. */
static void a_grant_without_its_holder_is_shown_for_its_lease(void **state)
{
    (void)state;
    lies_there("held", 9, 5, 2000);
    assert_true(shows_closed());
    pass_ms(1500);
    assert_true(shows_closed());
    pass_ms(600);
    assert_false(shows_closed());
    lies_there("free", 9, 5, 0);
    lies_there("held", 8, 6, 2000); /* another one */
    assert_true(shows_closed());
    pass_ms(2100);
    assert_false(shows_closed());
}

static void a_pattern_that_is_too_long_costs_nothing(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request r = request(SNIB__LIST, 50);
    struct snib__buf rows;
    char pattern[2000];
    memset(pattern, '*', sizeof pattern);
    snib__buf_init(&rows, 4096);
    r.said.result = &rows;
    r.text = pattern;
    r.text_size = sizeof pattern;
    granted(&a);
    out.ended_count = 0;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_USAGE);
    pass_ms(100);
    assert_true(up && !out.ended_count);
    snib__buf_free(&rows);
    give_back(&a);
}

/* One more look, and what it shows. */
static struct shown {
    int holders, waiters, closed;
    bool silent;
} shown;

static struct snib__request inspect;
static struct snib__buf rows;

static void begins_to_look(uint64_t id)
{
    snib__buf_free(&rows);
    snib__buf_init(&rows, 8192);
    inspect = request(SNIB__INSPECT, id);
    inspect.said.result = &rows;
    ask(&inspect);
}

static void read_rows(void)
{
    struct snib__rec r;
    shown =
        (struct shown){.silent = memmem(snib__buf_bytes(&rows),
                                        snib__buf_size(&rows), "silent", 6)};
    snib__rec_begin(&r, snib__buf_bytes(&rows), snib__buf_size(&rows));
    while (snib__rec_next_row(&r)) {
        shown.holders += r.row == SNIB__ROW_HOLDER;
        shown.waiters += r.row == SNIB__ROW_WAITER;
        shown.closed += r.row == SNIB__ROW_CLOSED;
    }
    snib__buf_free(&rows);
}

static void who_is_there_is_shown(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    granted(&a);
    ask(&b);
    pass_ms(200);
    assert_int_equal(answer(&b), SNIB__QUEUED);
    begins_to_look(50);
    pass_ms(100);
    assert_int_equal(answer(&inspect), SNIB__DONE);
    read_rows();
    assert_true(shown.holders == 1 && shown.waiters == 1);
    assert_true(!shown.closed && !shown.silent);
    cancelled(&b);
    give_back(&a);
}

static void a_holder_that_does_not_answer_is_shown_as_one(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    another_consumes();
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    begins_to_look(50);
    pass_ms(900);
    assert_int_equal(answer(&inspect), SNIB__PENDING);
    pass_ms(200);
    assert_int_equal(answer(&inspect), SNIB__DONE);
    assert_int_equal(model.asked_who, 2);
    read_rows();
    assert_true(shown.holders == 1 && shown.silent && !shown.closed);
    assert_int_equal(shown.waiters, 1);
    cancelled(&a);
}

/* It was the one who had the messages of a lock that nobody holds. */
static void another_that_looks_is_shown_as_nobody(void **state)
{
    (void)state;
    another_consumes();
    lies_there("free", 9, 5, 0);
    begins_to_look(50);
    pass_ms(300);
    model_leave(MODEL_OTHER);
    pass_ms(300);
    assert_int_equal(answer(&inspect), SNIB__DONE);
    assert_int_equal(model.asked_who, 1);
    read_rows();
    assert_true(!shown.holders && !shown.waiters && !shown.closed);
}

/* Between "nobody consumes" and its own consuming somebody was first. */
static void a_look_whose_messages_went_to_another_asks_again(void **state)
{
    (void)state;
    lies_there("free", 9, 5, 0);
    model.first_to_consume = MODEL_OTHER;
    begins_to_look(50);
    assert_int_equal(answer(&inspect), SNIB__PENDING);
    assert_int_equal(model.asked_who, 0);
    pass_ms(600);
    assert_int_equal(model.asked_who, 1);
    pass_ms(1100);
    assert_int_equal(answer(&inspect), SNIB__DONE);
    read_rows();
    assert_true(shown.silent);
    model_leave(MODEL_OTHER);
}

/* A number may not be used again before that. */
static void channels_are_used_again_when_their_ends_are_confirmed(void **state)
{
    (void)state;
    model.wishes.channels = 3; /* one of them hears who asks */
    model.late_ends = true;
    lies_there("free", 9, 5, 0);
    for (uint64_t i = 0; i < 3; i++) {
        begins_to_look(50 + i);
        assert_int_equal(answer(&inspect),
                         i < 2 ? SNIB__DONE : SNIB__NOT_APPLIED);
    }
    assert_int_equal(inspect.said.err, SNIB_ERR_LIMIT);
    model.late_ends = false;
    for (int chan = 1; chan <= 3; chan++) {
        if (chan != model.own) {
            model.open[chan] = false;
            model_say(chan, SNIB__AMQP_CHANNEL_CLOSE_OK);
        }
    }
    settle();
    begins_to_look(60);
    assert_int_equal(answer(&inspect), SNIB__DONE);
    read_rows();
}

/* -- the doctor ------------------------------------------------------------------------- */

static char found_text[400];

static void copied(const struct snib__rec *r, char *to, size_t size)
{
    snprintf(to, size, "%.*s", (int)r->size, (const char *)r->data);
}

/* The level of this finding; -1: there is none. */
static int64_t level_of(const char *check)
{
    struct snib__rec r;
    int64_t level = -1, found = -1;
    snib__rec_begin(&r, snib__buf_bytes(&rows), snib__buf_size(&rows));
    while (snib__rec_next_row(&r)) {
        char text[400] = "", name_of[40] = "";
        assert_int_equal(r.row, SNIB__ROW_FINDING);
        while (snib__rec_next_field(&r)) {
            if (r.field == SNIB__F_LEVEL) {
                level = snib__rec_value_i64(&r);
            } else if (r.field == SNIB__F_CHECK) {
                copied(&r, name_of, sizeof name_of);
            } else if (r.field == SNIB__F_TEXT) {
                copied(&r, text, sizeof text);
            }
        }
        if (!strcmp(name_of, check)) {
            memcpy(found_text, text, sizeof text);
            found = level;
        }
    }
    return found;
}

static void examine(uint64_t id, int64_t slow_ms)
{
    snib__buf_free(&rows);
    snib__buf_init(&rows, 8192);
    inspect = request(SNIB__DOCTOR, id);
    inspect.said.result = &rows;
    model.slow = slow_ms;
    ask(&inspect);
    pass_ms(slow_ms);
    model.slow = false;
    model_deliver();
    settle();
    assert_int_equal(answer(&inspect), SNIB__DONE);
}

#define assert_found(check, expected, words)                                   \
    do {                                                                       \
        assert_int_equal(level_of(check), expected);                           \
        assert_non_null(strstr(found_text, words));                            \
    } while (0)

static void the_doctor_looks_at_what_a_lock_needs(void **state)
{
    (void)state;
    examine(60, 0);
    assert_found("permissions", SNIB_LEVEL_OK, "written to and read");
    assert_found("latency", SNIB_LEVEL_OK, "comes back in");
    assert_found("server", SNIB_LEVEL_OK, "RabbitMQ 3.10.8 at h:5672");
    assert_found("heartbeat", SNIB_LEVEL_OK, "20 to 30 s");
    assert_found("servers", SNIB_LEVEL_WARN, "1 server in");
    assert_found("alarm", SNIB_LEVEL_OK, "takes messages");
    assert_found("login", SNIB_LEVEL_WARN, "guest");
    assert_found("tls", SNIB_LEVEL_WARN, "not encrypted");
    assert_found("force-release", SNIB_LEVEL_WARN, "mutexes only");
    examine(61, 100);
    assert_found("latency", SNIB_LEVEL_WARN, "100.00 ms");
    snib__buf_free(&rows);
}

static void the_doctor_says_what_is_wrong(void **state)
{
    (void)state;
    examine(60, 0);
    size_t begun = model_method(0, SNIB__AMQP_BLOCKED);
    snib__amqp_put_short(&model_out, "low on disk");
    model_end(begun);
    settle();
    model.close_declare = 403;
    examine(61, 0);
    assert_found("permissions", SNIB_LEVEL_FAIL, "403 as the test says");
    assert_int_equal(level_of("latency"), -1);
    assert_found("alarm", SNIB_LEVEL_FAIL, "low on disk");
    snib__buf_free(&rows);
}

static void the_doctor_knows_which_version_is_too_old(void **state)
{
    (void)state;
    static const char *const version[] = {"3.10.0", "4.0.1", "10.1",
                                          "3.9.29", "2.8.7", "3.9"};
    out.holds = true;
    for (size_t i = 0; i < COUNT_OF(version); i++) {
        model.version = version[i];
        cut();
        pass_ms(200);
        examine(60 + i, 0);
        assert_found("server", i < 3 ? SNIB_LEVEL_OK : SNIB_LEVEL_WARN,
                     version[i]);
    }
    snib__buf_free(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_try_asks_who_consumes_and_is_refused),
        CASE(a_try_goes_on_when_the_one_before_was_about_to_go),
        CASE(a_try_is_refused_by_who_answers_that_he_holds),
        CASE(an_answer_about_another_lock_refuses_nobody),
        CASE(an_answer_that_comes_late_is_no_grant),
        CASE(a_slow_broker_is_no_holder),
        CASE(a_try_that_was_given_nothing_asks_again),
        CASE(who_was_first_refuses_a_try_if_he_holds),
        CASE(a_grant_without_its_holder_is_shown_for_its_lease),
        CASE(a_pattern_that_is_too_long_costs_nothing),
        CASE(who_is_there_is_shown),
        CASE(a_holder_that_does_not_answer_is_shown_as_one),
        CASE(another_that_looks_is_shown_as_nobody),
        CASE(a_look_whose_messages_went_to_another_asks_again),
        CASE(channels_are_used_again_when_their_ends_are_confirmed),
        CASE(the_doctor_looks_at_what_a_lock_needs),
        CASE(the_doctor_says_what_is_wrong),
        CASE(the_doctor_knows_which_version_is_too_old),
    };
    return RUN(tests);
}
