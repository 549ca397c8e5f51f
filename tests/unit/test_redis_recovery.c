/* tests/unit/test_redis_recovery.c — ?recovery=: the greeting, what scripts are given in place of the
 * mark, and what their answers lead to. What the server does is the simulator's (--recovery) and
 * live.redis_recovery's. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_epoch.h"

#include "base/record.h"

static void
scripts_have_the_epoch_in_the_place_of_the_mark_and_nothing_is_a_packet(
    void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct snib__request rq = asked();
        start(&rq);
        if (k == 0) {
            in_step(CALLERS);
        }
        hears_acquire(CALLERS, "0");
        assert_string_equal(word[2], "8");
        assert_string_equal(word[10], "snib:epoch");
        assert_int_equal(words, 3 + 8 + 17);
        assert_string_equal(word[words - 1], "30000");
        grant_reply(CALLERS, 1000);
        answered(&rq, SNIB__DONE);
        assert_false(rq.thin);
    }
    assert_int_equal(snib__to_ms(out.lease_most), 30000);
}

static void
another_epoch_makes_the_connection_anew_and_the_request_is_sent_again(
    void **state)
{
    (void)state;
    struct snib__request rq = asked();
    start(&rq);
    in_step(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS,
        "-SNIBEPOCH the server was restarted, replaced or emptied\r\n");
    anew(CALLERS, "known");
    assert_string_equal(word[12], hex_of(&rq));
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
}

static void who_tries_hears_why_nobody_is_let_in(void **state)
{
    (void)state;
    struct snib__request rq = asked();
    start(&rq);
    in_step(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*4\r\n:3\r\n:1790000000300\r\n:2500\r\n:2500\r\n");
    answered(&rq, SNIB__NO);
    assert_int_equal(rq.said.err, SNIB_ERR_BUSY);
    assert_string_equal(
        error.text,
        "the server was restarted, replaced or emptied: it lets nobody in anew "
        "for 2.5 s more, since leases may be running that it has forgotten");
    rq = asked();
    error.text[0] = 0;
    start(&rq);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:2500\r\n");
    answered(&rq, SNIB__NO);
    assert_string_equal(error.text, ""); /* another holds it */
}

/* That its client may merely keep it matters only when it is to be had. */
static void
a_try_hears_of_the_recovery_and_not_of_who_keeps_the_lock(void **state)
{
    (void)state;
    struct snib__request rq = asked();
    start(&rq);
    in_step(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*5\r\n:3\r\n:1790000000300\r\n:2500\r\n:2500\r\n:1\r\n");
    answered(&rq, SNIB__NO);
    assert_false(rq.said.kept);
    assert_non_null(strstr(error.text, "it lets nobody in anew"));
    rq = asked();
    start(&rq);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*5\r\n:3\r\n:1790000000300\r\n:2500\r\n:0\r\n:1\r\n");
    answered(&rq, SNIB__NO);
    assert_true(rq.said.kept);
}

/* -- the end by hand --------------------------------------------------------------- */

/* What is asked for, and the row of its answer: left, end, ended, missing. */
static void is_ready(int64_t end, const char *asked_for, const char *reply,
                     const int64_t row[4])
{
    struct snib__request rq = request(SNIB__RECOVERY);
    struct snib__buf rows;
    struct snib__rec r;
    snib__buf_init(&rows, 1000);
    rq.name = NULL;
    rq.said.result = &rows;
    rq.params.op = end ? SNIB__PARAMS_OPEN : SNIB__PARAMS_GET;
    rq.params.amount = end;
    start(&rq);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_EPOCH);
    assert_int_equal(words, 3 + 2 + 2);
    assert_string_equal(word[2], "2");
    assert_string_equal(word[3], "snib:epoch");
    assert_string_equal(word[4], "snib:m");
    assert_string_equal(word[5], "30000");
    assert_string_equal(word[6], asked_for);
    say(CALLERS, reply);
    answered(&rq, SNIB__DONE);
    snib__rec_begin(&r, snib__buf_bytes(&rows), snib__buf_size(&rows));
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_RECOVERY);
    for (int i = 0; i < (row[3] ? 4 : 3); i++) {
        assert_true(snib__rec_next_field(&r));
        assert_int_equal(snib__rec_value_i64(&r), row[i]);
    }
    assert_false(snib__rec_next_field(&r));
    assert_false(snib__rec_next_row(&r));
    snib__buf_free(&rows);
}

static void a_recovery_is_looked_at_and_ended(void **state)
{
    (void)state;
    struct snib__request rq = asked();
    start(&rq);
    in_step(CALLERS);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    is_ready(0, "0",
             "*4\r\n:1790000000000\r\n:2500\r\n:1790000002500\r\n:0\r\n",
             (const int64_t[]){2500, 1790000002500, 0, 0});
    is_ready(1790000002500, "1790000002500",
             "*4\r\n:1790000000100\r\n:2400\r\n:1790000002500\r\n:1\r\n",
             (const int64_t[]){2400, 1790000002500, 1, 0});
    is_ready(-1790000000000, "-1790000000000",
             "*4\r\n:1790000000100\r\n:30000\r\n:1790000000100\r\n:1\r\n",
             (const int64_t[]){30000, 1790000000100, 1, 0});
    is_ready(0, "0",
             "*6\r\n:1790000000100\r\n:30000\r\n:-1790000000100\r\n:0\r\n"
             "$2\r\nab\r\n:3\r\n",
             (const int64_t[]){30000, -1790000000100, 0, 3});
}

/* -- to reclaim -------------------------------------------------------------------- */

static struct snib__request renewal(int64_t floor)
{
    struct snib__request rq = request(SNIB__RENEW);
    rq.token = 77;
    rq.lease = snib__ms(20000);
    rq.floor = floor;
    rq.acquire.kind = SNIB_KIND_WRITE;
    rq.acquire.reserve = 31;
    rq.acquire.delay = snib__ms(500);
    rq.acquire.upgrade_of[1] = 0xab;
    rq.text = "host=h";
    rq.text_size = 6;
    return rq;
}

static void what_is_not_known_may_be_reclaimed_once(void **state)
{
    (void)state;
    struct snib__request rq = renewal(0);
    start(&rq);
    in_step(CALLERS);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RENEW);
    say(CALLERS, "*2\r\n:1790000000300\r\n:2\r\n");
    answered(&rq, SNIB__NO);
    assert_true(rq.said.forgotten);
    assert_true(rq.said.reclaim);
    rq = renewal(77 + 31);
    start(&rq);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_KEEP);
    assert_string_equal(word[2], "9");
    assert_string_equal(word[11], "snib:epoch");
    assert_string_equal(word[14], "77");
    assert_string_equal(word[15], "108");
    assert_string_equal(word[17], "2 1,d500,b000000000000000000000000000000ab");
    assert_string_equal(word[words - 1], "30000");
    snib_instant sent = now;
    pass(10);
    say(CALLERS, "*2\r\n:1790000000310\r\n:1\r\n");
    answered(&rq, SNIB__DONE);
    assert_int_equal(rq.said.valid_from.ns, sent.ns);
    rq = renewal(77 + 31);
    start(&rq);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_KEEP);
    say(CALLERS, "*2\r\n:1790000000310\r\n:0\r\n");
    answered(&rq, SNIB__NO);
    assert_false(rq.said.forgotten);
    assert_false(rq.said.reclaim);
}

static void without_it_nothing_is_reclaimed(void **state)
{
    (void)state;
    struct snib__request rq = renewal(0);
    start(&rq);
    connected(CALLERS);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RENEW);
    say(CALLERS, "*2\r\n:1790000000300\r\n:2\r\n");
    answered(&rq, SNIB__NO);
    assert_true(rq.said.forgotten);
    assert_false(rq.said.reclaim);
    assert_int_equal(out.lease_most.ns, 0);
}

/* -- a release ------------------------------------------------------------------ */

static void released(const char *reply, bool forgotten)
{
    struct snib__request rq = request(SNIB__RELEASE);
    rq.token = 77;
    start(&rq);
    if (out.conn[CALLERS]->open) {
        in_step(CALLERS);
    }
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    say(CALLERS, reply);
    answered(&rq, SNIB__NO);
    assert_int_equal(rq.said.err, SNIB_ERR_LOST);
    assert_int_equal(rq.said.forgotten, forgotten);
    assert_false(rq.said.revoked);
}

static void
what_a_release_does_not_find_in_a_recovery_is_forgotten(void **state)
{
    (void)state;
    released("*1\r\n:3\r\n", true);
    released("*1\r\n:0\r\n", false);
}

/* -- what the greeting refuses ------------------------------------------------------ */

static void greeting_says(const char *reply, snib_err err, const char *text)
{
    struct snib__request rq = asked();
    rq.once = true;
    start(&rq);
    hears_epoch(CALLERS, "begin");
    say(CALLERS, reply);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, err);
    if (!strstr(error.text, text)) {
        fail_msg("%s", error.text);
    }
}

static void another_number_is_refused(void **state)
{
    (void)state;
    greeting_says(
        "-SNIBRECOVERY the server is used with recovery=86399999ms&replicas=8, "
        "this URL "
        "says 86399998ms&replicas=7: write 86399999ms&replicas=8 here; to "
        "change it for all, stop "
        "them, wait for the longest lease, delete snib:epoch\r\n",
        SNIB_ERR_CONFIG,
        "the server is used with recovery=86399999ms&replicas=8, this URL says "
        "86399998ms&replicas=7: write 86399999ms&replicas=8 here; to change it "
        "for all, stop them, "
        "wait for the longest lease, delete snib:epoch");
}

/* Also to who waits without a limit: it is not asked for again and again. */
static void a_key_that_is_not_ours_is_told(void **state)
{
    (void)state;
    struct snib__request rq = asked();
    rq.acquire.may_queue = true;
    start(&rq);
    hears_epoch(CALLERS, "begin");
    say(CALLERS, "-CORRUPT the epoch snib:epoch is not ours: rename or delete "
                 "it, which begins a recovery\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_CORRUPT);
    assert_non_null(strstr(error.text, "rename or delete it"));
}

static void a_right_that_is_missing_is_told(void **state)
{
    (void)state;
    greeting_says(
        "-NOPERM this user has no permissions to run the 'info' command\r\n",
        SNIB_ERR_DENIED, "'info'");
}

static void what_is_no_answer_is_no_epoch(void **state)
{
    (void)state;
    greeting_says("+OK\r\n", SNIB_ERR_STORE,
                  "does not answer like a Redis server");
}

static void
no_right_to_the_epoch_is_not_taken_for_none_to_the_mark(void **state)
{
    (void)state;
    struct snib__request rq = asked();
    start(&rq);
    in_step(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "-NOPERM this user has no permissions to access one of the "
                 "keys used as arguments\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
}

static void its_time_is_read_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms; /* 0: refused */
    } t[] = {{"30s", 30000},
             {"1ms", 1},
             {"5m", 300000},
             {"24h", 86400000},
             {"0s", 0},
             {"", 0},
             {"30", 0},
             {"s", 0},
             {"-1s", 0},
             {"25h", 0},
             {"1.5s", 0},
             {"30 s", 0},
             {"99999999999999999999s", 0},
             {"86400001ms", 0}};
    for (size_t k = 0; k < COUNT_OF(t); k++) {
        char query[80];
        snib_duration most;
        struct snib_error e;
        snprintf(query, sizeof query, "recovery=%s", t[k].text);
        snib_err err = url_opens(query, &most, &e);
        assert_int_equal(err, t[k].ms ? SNIB_ERR_OK : SNIB_ERR_USAGE);
        if (err) {
            assert_non_null(strstr(e.text, "recovery is the longest lease"));
        } else {
            assert_int_equal(snib__to_ms(most), t[k].ms);
        }
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up_recovery, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(scripts_have_the_epoch_in_the_place_of_the_mark_and_nothing_is_a_packet),
        T(another_epoch_makes_the_connection_anew_and_the_request_is_sent_again),
        T(who_tries_hears_why_nobody_is_let_in),
        T(a_try_hears_of_the_recovery_and_not_of_who_keeps_the_lock),
        T(a_recovery_is_looked_at_and_ended),
        T(what_is_not_known_may_be_reclaimed_once),
        cmocka_unit_test_setup_teardown(without_it_nothing_is_reclaimed, set_up,
                                        tear_down),
        T(what_a_release_does_not_find_in_a_recovery_is_forgotten),
        T(another_number_is_refused),
        T(a_key_that_is_not_ours_is_told),
        T(a_right_that_is_missing_is_told),
        T(what_is_no_answer_is_no_epoch),
        T(no_right_to_the_epoch_is_not_taken_for_none_to_the_mark),
        cmocka_unit_test(its_time_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
