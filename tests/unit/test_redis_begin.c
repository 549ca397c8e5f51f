/* tests/unit/test_redis_begin.c — ?recovery=: whose greeting begins a recovery, and whose does not; what
 * who looks is shown of it; and who looks without it. What the scripts do then is live.redis_epoch's. */
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

/* They ask, and are answered that the connection is refused: that is enough. */
static void greets_as(struct snib__request *rq, const char *wish)
{
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq->said.result = &rows;
    rq->once = true;
    start(rq);
    hears_epoch(CALLERS, wish);
    say(CALLERS, "-SNIBRECOVERY no\r\n");
    answered(rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq->said.err, SNIB_ERR_CONFIG);
    snib__buf_free(&rows);
}

static void who_only_looks_begins_none(void **state)
{
    static const snib__verb looks_by[] = {
        SNIB__INSPECT, SNIB__LIST, SNIB__DOCTOR, SNIB__RECOVERY, SNIB__PARAMS};
    for (size_t k = 0; k < COUNT_OF(looks_by); k++) {
        tear_down(state);
        (void)set_up_recovery(state);
        struct snib__request rq = request(looks_by[k]);
        bool of_a_lock = rq.verb == SNIB__INSPECT || rq.verb == SNIB__PARAMS;
        rq.name = of_a_lock ? rq.name : NULL;
        rq.params.op = SNIB__PARAMS_GET;
        greets_as(&rq, "0");
    }
}

static void who_wants_a_lock_or_changes_one_begins_it(void **state)
{
    static const snib__verb verbs[] = {SNIB__ACQUIRE, SNIB__RELEASE,
                                       SNIB__CANCEL, SNIB__FORCE, SNIB__PARAMS};
    for (size_t k = 0; k < COUNT_OF(verbs); k++) {
        tear_down(state);
        (void)set_up_recovery(state);
        struct snib__request rq =
            verbs[k] == SNIB__ACQUIRE ? asked() : request(verbs[k]);
        rq.params.op = SNIB__PARAMS_SIZE;
        greets_as(&rq, "begin");
    }
}

/* Nobody has begun one, so the script that is to let somebody in does nothing:
 * that, and not the look, begins it. */
static void who_looked_first_begins_it_when_it_wants_a_lock(void **state)
{
    (void)state;
    struct snib__request look = request(SNIB__INSPECT), rq;
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    look.said.result = &rows;
    start(&look);
    hears_epoch(CALLERS, "0");
    say(CALLERS, EPOCH_AHEAD TIME_REPLY);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    say(CALLERS, "*6\r\n:1790000000000\r\n:5031\r\n:0\r\n*0\r\n*0\r\n"
                 "*2\r\n:-1\r\n:-1\r\n");
    answered(&look, SNIB__DONE);
    snib__buf_free(&rows);
    rq = asked();
    start(&rq);
    hears_acquire(CALLERS, "0");
    say(CALLERS,
        "-SNIBEPOCH the server was restarted, replaced or emptied\r\n");
    anew(CALLERS, "begin");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
}

/* A number that was mistyped was never served. */
static void who_was_served_or_holds_says_so(void **state)
{
    struct snib__request rq = asked();
    out.holds = true;
    greets_as(&rq, "known");
    tear_down(state);
    (void)set_up_recovery(state);
    rq = request(SNIB__INSPECT);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.said.result = &rows;
    start(&rq);
    looks(CALLERS);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    say(CALLERS, "-SNIBEPOCH x\r\n");
    anew(CALLERS, "0"); /* it is served, and looks all the same */
    say(CALLERS, "*6\r\n:1790000000000\r\n:5031\r\n:0\r\n*0\r\n*0\r\n"
                 "*2\r\n:-1\r\n:-1\r\n");
    answered(&rq, SNIB__DONE);
    snib__buf_free(&rows);
    rq = asked();
    start(&rq);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "-SNIBEPOCH x\r\n");
    anew(CALLERS, "known");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
}

/* The script was refused, and then the greeting: the request rests meanwhile. */
static void who_is_refused_for_good_after_a_change_is_told_why(void **state)
{
    (void)state;
    struct snib__request rq = asked();
    rq.limit = snib__after(now, snib__ms(1000));
    start(&rq);
    in_step(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "-SNIBEPOCH x\r\n");
    silence();
    assert_true(out.conn[CALLERS]->shut);
    closed(CALLERS);
    for (int k = 0; k < 50 && !out.conn[CALLERS]->open; k++) {
        pass(10);
    }
    hears_epoch(CALLERS, "known");
    say(CALLERS, "-SNIBRECOVERY use another number\r\n");
    closed(CALLERS);
    pass(200);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_CONFIG);
    assert_non_null(strstr(error.text, "use another number"));
}

/* -- what is shown ------------------------------------------------------------------ */

/* The fields left and count of the lock's row; of a reply that ends so. */
static void inspected(const char *end, int64_t left, int64_t count)
{
    struct snib__request rq = request(SNIB__INSPECT);
    struct snib__buf rows;
    struct snib__rec r;
    int64_t its_left = 0, its_count = 0;
    snib__buf_init(&rows, 10000);
    rq.said.result = &rows;
    start(&rq);
    if (out.conn[CALLERS]->open) {
        looks(CALLERS);
    }
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    assert_int_equal(words, 3 + 7 + 3);
    assert_string_equal(word[9], "snib:epoch");
    assert_string_equal(word[12], "30000");
    sayf(CALLERS,
         "*%d\r\n:1790000000000\r\n:5031\r\n:0\r\n*0\r\n*0\r\n*2\r\n"
         ":-1\r\n:-1\r\n%s",
         count ? 9 : 8, end);
    answered(&rq, SNIB__DONE);
    snib__rec_begin(&r, snib__buf_bytes(&rows), snib__buf_size(&rows));
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_LOCK);
    while (snib__rec_next_field(&r)) {
        int64_t v = snib__rec_value_i64(&r);
        its_left = r.field == SNIB__F_LEFT ? v : its_left;
        its_count = r.field == SNIB__F_COUNT ? v : its_count;
    }
    assert_int_equal(its_left, left);
    assert_int_equal(its_count, count);
    snib__buf_free(&rows);
}

static void an_inspection_shows_how_long_nobody_is_let_in(void **state)
{
    (void)state;
    inspected(":0\r\n:2500\r\n", 2500, 0);
    inspected(":0\r\n:30000\r\n:1\r\n", 30000, 1); /* it has not begun */
}

#define BULK_MAX 200

static const char *bulk(char ret[BULK_MAX], const char *text)
{
    snprintf(ret, BULK_MAX, "$%zu\r\n%s\r\n", strlen(text), text);
    return ret;
}

/* How often the doctor finds something of that kind, and the last text. info:
 * what INFO says; epochs: what MGET says of the epoch and the mark. */
static int doctor_finds(void **state, const char *info, const char *epochs,
                        const char *check, char ret_text[300])
{
    int found = 0;
    bool its = false;
    char as_bulk[BULK_MAX];
    struct snib__request rq = request(SNIB__DOCTOR);
    struct snib__buf rows;
    struct snib__rec r;
    tear_down(state);
    (void)set_up_recovery(state);
    snib__buf_init(&rows, 10000);
    rq.name = NULL;
    rq.said.result = &rows;
    start(&rq);
    looks(CALLERS);
    while (heard(CALLERS) && strcmp(word[0], "MGET") != 0) {
    }
    assert_string_equal(word[1], "snib:epoch");
    assert_string_equal(word[2], "snib:m");
    while (heard(CALLERS)) {
    }
    sayf(CALLERS,
         "+PONG\r\n" TIME_REPLY "%s*0\r\n*0\r\n*0\r\n*0\r\n$1\r\n2\r\n",
         bulk(as_bulk, info));
    say(CALLERS, epochs);
    say(CALLERS, "+OK\r\n*0\r\n*2\r\n*0\r\n:1\r\n*3\r\n:2\r\n:0\r\n$"
                 "0\r\n\r\n" TIME_REPLY);
    connected(SUBS);
    answered(&rq, SNIB__DONE);
    snib__rec_begin(&r, snib__buf_bytes(&rows), snib__buf_size(&rows));
    while (snib__rec_next_row(&r)) {
        while (snib__rec_next_field(&r)) {
            if (r.field == SNIB__F_CHECK) {
                its = r.size == strlen(check) && !memcmp(r.data, check, r.size);
                found += its;
            } else if (r.field == SNIB__F_TEXT && its) {
                snprintf(ret_text, 300, "%.*s", (int)r.size,
                         (const char *)r.data);
            }
        }
    }
    snib__buf_free(&rows);
    return found;
}

static void the_doctor_says_when_others_are_let_in_besides(void **state)
{
    char text[300];
    assert_int_equal(
        doctor_finds(state, "", "*2\r\n$10\r\nab 1 30 40\r\n$8\r\nrecovery\r\n",
                     "mark", text),
        0);
    assert_int_equal(doctor_finds(state, "",
                                  "*2\r\n$10\r\nab 1 30 40\r\n$-1\r\n", "mark",
                                  text),
                     1);
}

/* Not by what the greeting said: somebody may have begun one since. */
static void the_doctor_says_whether_a_recovery_has_begun(void **state)
{
    static const char info[] = "role:master\r\nconnected_slaves:0\r\n"
                               "master_replid:" LIFE "\r\n";
    static const struct {
        const char *epoch, *says;
    } t[] = {
        {LIFE " 1 30000 7", "after the server was restarted, promoted"},
        {LIFE " 1790000002750 30000 7", "nobody is let in anew for 2500 ms "},
        {LIFE " 1790000030250 30000 7", "let in anew for 30000 ms more"},
        /* the clock was set back */
        {LIFE " 1790000030251 30000 7", "for 30000 ms from when the first"},
        {"ffff 1 30000 7", "for 30000 ms from when the first"}};
    char text[300], as_bulk[BULK_MAX], epochs[BULK_MAX + 30];
    for (size_t k = 0; k < COUNT_OF(t); k++) {
        snprintf(epochs, sizeof epochs, "*2\r\n%s$8\r\nrecovery\r\n",
                 bulk(as_bulk, t[k].epoch));
        assert_int_equal(doctor_finds(state, info, epochs, "recovery", text),
                         1);
        assert_non_null(strstr(text, t[k].says));
    }
    assert_int_equal(
        doctor_finds(state, info, "*2\r\n$-1\r\n$-1\r\n", "recovery", text), 1);
    assert_non_null(strstr(text, "from when the first asks"));
    assert_int_equal(doctor_finds(state, info, "-ERR x\r\n", "recovery", text),
                     1);
    assert_non_null(strstr(text, "could not look at the epoch"));
}

/* -- who looks without it ----------------------------------------------------------- */

#define EMPTY                                                                  \
    ":1790000000000\r\n:5031\r\n:0\r\n*0\r\n*0\r\n*2\r\n:-1\r\n:-1\r\n"
#define DENIED "-NOPERM No permissions to access a key\r\n"

static void hears_inspect(bool epoch)
{
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    assert_int_equal(words, 3 + 6 + 2 + 2 * epoch);
    if (epoch) {
        assert_string_equal(word[9], "snib:epoch");
        assert_string_equal(word[12], "0");
    }
}

static void who_looks_without_it_sees_a_recovery_too(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__INSPECT);
    struct snib__buf rows;
    struct snib__rec r;
    int64_t left = 0;
    snib__buf_init(&rows, 10000);
    rq.said.result = &rows;
    start(&rq);
    connected(CALLERS);
    hears_inspect(true);
    say(CALLERS, "*8\r\n" EMPTY ":0\r\n:2500\r\n");
    answered(&rq, SNIB__DONE);
    snib__rec_begin(&r, snib__buf_bytes(&rows), snib__buf_size(&rows));
    assert_true(snib__rec_next_row(&r));
    while (snib__rec_next_field(&r)) {
        left = r.field == SNIB__F_LEFT ? snib__rec_value_i64(&r) : left;
    }
    assert_int_equal(left, 2500);
    snib__buf_free(&rows);
}

static void who_may_not_read_the_epoch_looks_without_it(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) { /* each time: it may be of the lock's keys */
        struct snib__request rq = request(SNIB__INSPECT);
        struct snib__buf rows;
        snib__buf_init(&rows, 10000);
        rq.said.result = &rows;
        start(&rq);
        if (k == 0) {
            connected(CALLERS);
        }
        hears_inspect(true);
        say(CALLERS, DENIED);
        hears_inspect(false);
        say(CALLERS, k ? DENIED : "*6\r\n" EMPTY);
        answered(&rq, k ? SNIB__NOT_APPLIED : SNIB__DONE);
        assert_int_equal(rq.said.err, k ? SNIB_ERR_DENIED : SNIB_ERR_OK);
        snib__buf_free(&rows);
    }
}

static void list_of(bool awaited_only)
{
    struct snib__request rq = request(SNIB__LIST);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.name = NULL;
    rq.list.awaited_only = awaited_only;
    rq.said.result = &rows;
    start(&rq);
    if (!awaited_only) {
        connected(CALLERS);
    }
    for (int k = awaited_only; k < 2; k++) {
        assert_true(heard(CALLERS));
        assert_string_equal(word[0], "SCAN");
        say(CALLERS, "*2\r\n$1\r\n0\r\n*2\r\n$10\r\nsnib:{a}:a\r\n"
                     "$10\r\nsnib:{b}:a\r\n");
        hears_inspect(k == 0);
        hears_inspect(k == 0);
        for (int n = 0; n < 2; n++) {
            say(CALLERS, k ? "*6\r\n" EMPTY : DENIED);
        }
    }
    answered(&rq, SNIB__DONE);
    snib__buf_free(&rows);
}

/* The search for deadlocks does not look at it. */
static void so_does_a_list_and_who_searches_for_deadlocks(void **state)
{
    (void)state;
    list_of(false);
    list_of(true);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up_recovery, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(who_only_looks_begins_none),
        T(who_wants_a_lock_or_changes_one_begins_it),
        T(who_looked_first_begins_it_when_it_wants_a_lock),
        T(who_was_served_or_holds_says_so),
        T(who_is_refused_for_good_after_a_change_is_told_why),
        T(an_inspection_shows_how_long_nobody_is_let_in),
        T(the_doctor_says_when_others_are_let_in_besides),
        T(the_doctor_says_whether_a_recovery_has_begun),
        CASE(who_looks_without_it_sees_a_recovery_too),
        CASE(who_may_not_read_the_epoch_looks_without_it),
        CASE(so_does_a_list_and_who_searches_for_deadlocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
