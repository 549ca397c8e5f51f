/* store/redis: inspect and list. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_session.h"

/* -- looking -------------------------------------------------------------------------- */

static void inspect_gives_rows(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__INSPECT);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.said.result = &rows;
    start(&rq);
    connected(CALLERS);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    static const char holder[] =
        "00000000000000070000000000000001 5000 1790000010000 0 1 1 31 host=h";
    static const char waiter[] = "0000000000000abc0000000000000def snib:abc 1 "
                                 "1 30000 0 0 0 1 host=w";
    static const char late[] = "00000000000000070000000000000002 5000 "
                               "1789999999000 1 1,d5000,b00 1 0 host=l";
    sayf(CALLERS,
         "*5\r\n:1790000000000\r\n:5031\r\n:1\r\n*4\r\n$3\r\nabc\r\n"
         "$%zu\r\n%s\r\n$3\r\nabd\r\n$%zu\r\n%s\r\n*3\r\n$1\r\nr\r\n$"
         "13\r\n1790000003000\r\n"
         "$%zu\r\n%s\r\n",
         strlen(holder), holder, strlen(late), late, strlen(waiter), waiter);
    answered(&rq, SNIB__DONE);
    struct snib__rec r;
    snib__rec_begin(&r, snib__buf_bytes(&rows), snib__buf_size(&rows));
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_LOCK);
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_HOLDER);
    while (snib__rec_next_field(&r)) {
        if (r.field == SNIB__F_LEFT) {
            assert_int_equal(snib__rec_value_i64(&r), 10000);
        } else if (r.field == SNIB__F_ABOUT) {
            assert_memory_equal(r.data, "host=h", 6);
        } else if (r.field == SNIB__F_TOKEN) {
            assert_int_equal(snib__rec_value_i64(&r), 5000);
        }
    }
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_CLOSED);
    while (snib__rec_next_field(&r)) {
        if (r.field == SNIB__F_LEFT) {
            assert_int_equal(snib__rec_value_i64(&r), 4000);
        }
    }
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_WAITER);
    assert_false(snib__rec_next_row(&r));
    snib__buf_free(&rows);
}

static void list_scans_once_each_and_filters_by_glob(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__LIST);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.name = NULL;
    rq.said.result = &rows;
    rq.text = "pay*";
    rq.text_size = 4;
    start(&rq);
    connected(CALLERS);
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "SCAN");
    say(CALLERS, "*2\r\n$2\r\n17\r\n*4\r\n$10\r\nsnib:{pay}\r\n"
                 "$12\r\nsnib:{pay}:a\r\n$12\r\nsnib:{pay}:t\r\n"
                 "$12\r\nsnib:{other}\r\n");
    assert_true(heard(CALLERS));
    assert_string_equal(word[1], "17");
    say(CALLERS, "*2\r\n$1\r\n0\r\n*2\r\n$10\r\nsnib:{pay}\r\n"
                 "$13\r\nsnib:{pay2}:a\r\n");
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    assert_string_equal(word[3], "snib:{pay}");
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    assert_string_equal(word[3], "snib:{pay2}");
    assert_false(heard(CALLERS));
    say(CALLERS, "*5\r\n:1\r\n:7\r\n:0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*0\r\n");
    silence();
    say(CALLERS, "*5\r\n:1\r\n:7\r\n:0\r\n*0\r\n*0\r\n"); /* ended meanwhile */
    answered(&rq, SNIB__DONE);
    struct snib__rec r;
    snib__rec_begin(&r, snib__buf_bytes(&rows), snib__buf_size(&rows));
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_LOCK);
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_HOLDER);
    assert_false(snib__rec_next_row(&r));
    snib__buf_free(&rows);
}

static void a_list_cut_in_the_middle_is_unknown_once(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__LIST);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.name = NULL;
    rq.said.result = &rows;
    start(&rq);
    connected(CALLERS);
    say(CALLERS, "*2\r\n$1\r\n0\r\n*2\r\n$8\r\nsnib:{a}\r\n$8\r\nsnib:{b}\r\n");
    closed(CALLERS);
    answered(&rq, SNIB__UNKNOWN);
    silence();
    snib__buf_free(&rows);
}

/* Each attempt is over before the next one begins: there are so many only. */
static void a_look_that_a_starting_server_puts_off_is_asked_anew(void **state)
{
    (void)state;
    const struct snib__redis *s = (const struct snib__redis *)(void *)store;
    struct snib__request rq = request(SNIB__INSPECT);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.said.result = &rows;
    start(&rq);
    connected(CALLERS);
    for (int i = 0; i <= INSPECTS_MAX; i++) {
        for (int ms = 0; !heard(CALLERS); ms++) {
            assert_true(ms < 5000);
            pass(1);
        }
        assert_int_equal(s->inspection_count, 1);
        say(CALLERS, "-LOADING the dataset is being read\r\n");
        silence();
        assert_int_equal(s->inspection_count, 0);
    }
    snib__buf_free(&rows);
}

/* What there is no room for waits, and lets others pass. */
static void looks_beyond_the_most_wait_for_the_first_to_end(void **state)
{
    (void)state;
    enum { MORE = 3, ALL = INSPECTS_MAX + MORE };
    static struct snib__request rq[ALL];
    static struct snib__buf rows[ALL];
    struct snib__request params = request(SNIB__PARAMS);
    struct snib__buf result;
    snib__buf_init(&result, 10000);
    params.said.result = &result;
    for (int i = 0; i < ALL; i++) {
        rq[i] = request(SNIB__INSPECT);
        snib__buf_init(&rows[i], 10000);
        rq[i].said.result = &rows[i];
        start(&rq[i]);
    }
    start(&params);
    connected(CALLERS);
    for (int i = 0; i < INSPECTS_MAX; i++) {
        assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    }
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_PARAMS);
    assert_false(heard(CALLERS));
    for (int i = 0; i < ALL; i++) { /* the first ends: the next one is sent */
        say(CALLERS, "*5\r\n:1\r\n:7\r\n:0\r\n*0\r\n*0\r\n");
        answered(&rq[i], SNIB__DONE);
        if (i == INSPECTS_MAX - 1) {
            say(CALLERS, "-OOM not now\r\n");
            answered(&params, SNIB__NOT_APPLIED);
        }
        assert_true(heard(CALLERS) == (i < MORE));
        snib__buf_free(&rows[i]);
    }
    snib__buf_free(&result);
}

/* The client's own look for deadlocks takes the background thread's line, and it may have
 * to wait there behind a renewal. */
static void a_list_waits_for_a_line_behind_a_renewal(void **state)
{
    (void)state;
    struct snib__request renewal = request(SNIB__RENEW);
    struct snib__request list = request(SNIB__LIST);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    renewal.background = list.background = true;
    list.name = NULL;
    list.said.result = &rows;
    start(&renewal);
    start(&list);
    assert_int_equal(list.said.valid_from.ns, 0);
    connected(BACKGROUND);
    assert_int_equal(script_heard(BACKGROUND), SNIB__SCRIPT_RENEW);
    assert_true(heard(BACKGROUND));
    assert_string_equal(word[0], "SCAN");
    assert_int_equal(list.said.valid_from.ns, now.ns); /* it began then */
    closed(BACKGROUND);
    snib__buf_free(&rows);
}

/* -- the pace of a search that nobody waits for --------------------------------- */

static void search(struct snib__request *list, struct snib__buf *rows)
{
    *list = request(SNIB__LIST);
    snib__buf_init(rows, 10000);
    list->background = list->list.awaited_only = true;
    list->name = NULL;
    list->said.result = rows;
    list->limit = snib__after(now, snib__ms(20000));
    start(list);
    connected(BACKGROUND);
    connected(CALLERS);
}

/* So many pages of ms each, as long as it asks for the next one at once. */
static uint32_t pages(int64_t ms, uint32_t most)
{
    uint32_t n = 0;
    for (; n < most && heard(BACKGROUND); n++) {
        assert_string_equal(word[0], "SCAN");
        pass(ms);
        say(BACKGROUND, "*2\r\n$2\r\n17\r\n*0\r\n");
    }
    return n;
}

static void a_search_leaves_the_server_its_time(void **state)
{
    (void)state;
    struct snib__request list;
    struct snib__buf rows;
    search(&list, &rows);
    assert_int_equal(pages(1, 1000), 100); /* a tenth of a second is free */
    for (int i = 0; i < 1000; i++) {
        pass(49);
        assert_false(heard(BACKGROUND));
        pass(1);
        assert_int_equal(pages(1, 1000), 1);
    }
    pass(50); /* longer in all than it was given: it moves on */
    assert_true(heard(BACKGROUND));
    say(BACKGROUND, "*2\r\n$1\r\n0\r\n*0\r\n");
    answered(&list, SNIB__DONE);
    assert_int_equal(snib__to_ms(list.said.left), 1100);
    snib__buf_free(&rows);
}

static void a_slow_network_makes_no_search_endless(void **state)
{
    (void)state;
    struct snib__request list;
    struct snib__buf rows;
    search(&list, &rows);
    assert_int_equal(pages(300, 1000), 1);
    pass(99);
    assert_false(heard(BACKGROUND));
    pass(1);
    assert_int_equal(pages(300, 1000), 1);
    closed(BACKGROUND);
    pass(100);
    answered(&list, SNIB__NOT_APPLIED); /* a cursor is one server's */
    assert_int_equal(list.said.err, SNIB_ERR_UNREACHABLE);
    snib__buf_free(&rows);
}

static void a_search_that_somebody_waits_for_makes_no_pause(void **state)
{
    (void)state;
    struct snib__request list = request(SNIB__LIST);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    list.name = NULL;
    list.said.result = &rows;
    list.limit = snib__after(now, snib__ms(20000));
    start(&list);
    connected(CALLERS);
    for (int i = 0; i < 300; i++) {
        assert_true(heard(CALLERS));
        pass(1);
        say(CALLERS, "*2\r\n$2\r\n17\r\n*0\r\n");
    }
    assert_true(heard(CALLERS));
    say(CALLERS, "*2\r\n$1\r\n0\r\n*0\r\n");
    answered(&list, SNIB__DONE);
    snib__buf_free(&rows);
}

/* -- how long a list may take --------------------------------------------------- */

static void list_from(struct snib__request *list, struct snib__buf *rows)
{
    *list = request(SNIB__LIST);
    snib__buf_init(rows, 10000);
    list->list.limit_moves = true;
    list->name = NULL;
    list->said.result = rows;
    list->limit = snib__after(now, snib__ms(PATIENCE));
    start(list);
    connected(CALLERS);
}

/* One more page, just in time. */
static void page_in_time(void)
{
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "SCAN");
    pass(PATIENCE - 1);
    say(CALLERS, "*2\r\n$2\r\n17\r\n*1\r\n$8\r\nsnib:{a}\r\n");
}

static void a_list_has_the_time_of_a_request_for_each_page(void **state)
{
    (void)state;
    struct snib__request list;
    struct snib__buf rows;
    list_from(&list, &rows);
    for (int i = 0; i < 6; i++) {
        page_in_time();
        silence();
    }
    assert_true(heard(CALLERS));
    say(CALLERS, "*2\r\n$1\r\n0\r\n*1\r\n$8\r\nsnib:{b}\r\n");
    for (int i = 0; i < 2; i++) { /* the names have as much */
        assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
        silence();
        if (i == 0) {
            pass(PATIENCE - 1);
        }
        say(CALLERS, "*5\r\n:1\r\n:7\r\n:0\r\n*0\r\n*0\r\n");
    }
    answered(&list, SNIB__DONE);
    snib__buf_free(&rows);
}

static void a_list_without_a_page_in_time_was_not_answered(void **state)
{
    (void)state;
    struct snib__request list;
    struct snib__buf rows;
    list_from(&list, &rows);
    page_in_time();
    page_in_time();
    assert_true(heard(CALLERS));
    pass(PATIENCE - 1);
    silence();
    pass(1);
    answered(&list, SNIB__UNKNOWN);
    assert_int_not_equal(list.said.err, SNIB_ERR_LIMIT);
    assert_non_null(strstr(error.text, "answer"));
    snib__buf_free(&rows);
}

/* As where a server says for ever that there is more. */
static void a_list_ends_and_says_that_it_took_too_long(void **state)
{
    (void)state;
    struct snib__request list;
    struct snib__buf rows;
    snib_instant began;
    list_from(&list, &rows);
    began = list.said.valid_from;
    while (now.ns + (PATIENCE - 1) * INT64_C(1000000) <
           began.ns + 10 * PATIENCE * INT64_C(1000000)) {
        page_in_time();
        silence();
    }
    pass(PATIENCE - 1);
    answered(&list, SNIB__NOT_APPLIED);
    assert_int_equal(list.said.err, SNIB_ERR_LIMIT);
    assert_non_null(strstr(error.text, "so many keys"));
    assert_non_null(strstr(error.text, "; 1 were found by then"));
    snib__buf_free(&rows);
}

static void a_list_that_nobody_waits_for_keeps_its_limit(void **state)
{
    (void)state;
    struct snib__request list;
    struct snib__buf rows;
    list_from(&list, &rows);
    list.list.limit_moves = false;
    page_in_time();
    assert_true(heard(CALLERS));
    pass(1);
    answered(&list, SNIB__UNKNOWN);
    snib__buf_free(&rows);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(inspect_gives_rows),
        CASE(list_scans_once_each_and_filters_by_glob),
        CASE(a_list_cut_in_the_middle_is_unknown_once),
        CASE(a_look_that_a_starting_server_puts_off_is_asked_anew),
        CASE(looks_beyond_the_most_wait_for_the_first_to_end),
        CASE(a_list_waits_for_a_line_behind_a_renewal),
        CASE(a_search_leaves_the_server_its_time),
        CASE(a_slow_network_makes_no_search_endless),
        CASE(a_search_that_somebody_waits_for_makes_no_pause),
        CASE(a_list_has_the_time_of_a_request_for_each_page),
        CASE(a_list_without_a_page_in_time_was_not_answered),
        CASE(a_list_ends_and_says_that_it_took_too_long),
        CASE(a_list_that_nobody_waits_for_keeps_its_limit),
    };
    return RUN(cases);
}

#endif
