/* proto/resp.h: commands come out exact, replies go in whole or split at any
 * byte, and a hostile server costs no more than the bounds say. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "proto/resp.h"

/* What was read, as text: i5 s"ok" +"OK" e"ERR x" n [ … ] */
static void print(struct snib__buf *out, const struct snib__resp_cell **c)
{
    const struct snib__resp_cell *cell = (*c)++;
    switch (cell->type) {
    case SNIB__RESP_NIL:
        snib__buf_puts(out, "n ");
        break;
    case SNIB__RESP_INTEGER:
        snib__buf_printf(out, "i%lld ", (long long)cell->integer);
        break;
    case SNIB__RESP_STATUS:
    case SNIB__RESP_ERROR:
    case SNIB__RESP_STRING:
        assert_int_equal(cell->text[cell->size], 0);
        snib__buf_puts(out, cell->type == SNIB__RESP_STATUS  ? "+"
                            : cell->type == SNIB__RESP_ERROR ? "e"
                                                             : "s");
        snib__buf_printf(out, "\"%.*s\" ", (int)cell->size, cell->text);
        break;
    case SNIB__RESP_ARRAY:
        snib__buf_puts(out, "[ ");
        for (uint32_t i = 0; i < cell->size; i++) {
            print(out, c);
        }
        snib__buf_puts(out, "] ");
        assert_int_equal(*c - cell, cell->span);
        break;
    }
}

static void drain(struct snib__resp *r, struct snib__buf *out,
                  snib__resp_result end)
{
    const struct snib__resp_cell *c;
    snib__resp_result got;
    while ((got = snib__resp_next(r, &c)) == SNIB__RESP_REPLY) {
        print(out, &c);
    }
    assert_int_equal(got, end);
    assert_null(c);
}

static const char STREAM[] = "+OK\r\n:-5\r\n$5\r\nhello\r\n-ERR no\r\n$-1\r\n"
                             "*3\r\n:1\r\n*2\r\n$0\r\n\r\n*-1\r\n+z\r\n*0\r\n"
                             "$4\r\na\r\nb\r\n";
static const char READ[] = "+\"OK\" i-5 s\"hello\" e\"ERR no\" n "
                           "[ i1 [ s\"\" n ] +\"z\" ] [ ] s\"a\r\nb\" ";

static void a_command_is_written_exactly(void **state)
{
    (void)state;
    struct snib__buf b;
    snib__buf_init(&b, 1000);
    snib__resp_begin(&b, 5);
    snib__resp_text(&b, "SET");
    snib__resp_arg(&b, "a\0b", 3);
    snib__resp_i64(&b, INT64_MIN);
    snib__resp_i64(&b, 0);
    snib__resp_open(&b, 4);
    snib__buf_add(&b, "ab", 2);
    snib__buf_add(&b, "cd", 2);
    snib__resp_end(&b);
    static const char want[] = "*5\r\n$3\r\nSET\r\n$3\r\na\0b\r\n"
                               "$20\r\n-9223372036854775808\r\n$1\r\n0\r\n"
                               "$4\r\nabcd\r\n";
    assert_int_equal(snib__buf_size(&b), sizeof want - 1);
    assert_memory_equal(snib__buf_bytes(&b), want, sizeof want - 1);
    snib__buf_free(&b);
}

static void all_types_are_read_from_one_chunk(void **state)
{
    (void)state;
    struct snib__resp *r;
    struct snib__buf out;
    snib__buf_init(&out, 10000);
    assert_int_equal(snib__resp_new(SNIB__RESP_UNREAD, &r), SNIB_ERR_OK);
    snib__resp_feed(r, STREAM, sizeof STREAM - 1);
    drain(r, &out, SNIB__RESP_MORE);
    assert_string_equal(snib__buf_text(&out), READ);
    snib__buf_free(&out);
    snib__resp_free(r);
}

static void split_at_every_byte_gives_the_same(void **state)
{
    (void)state;
    struct snib__resp *r;
    struct snib__buf out;
    snib__buf_init(&out, 10000);
    assert_int_equal(snib__resp_new(SNIB__RESP_UNREAD, &r), SNIB_ERR_OK);
    for (size_t cut = 0; cut < sizeof STREAM; cut++) {
        snib__buf_clear(&out);
        snib__resp_feed(r, STREAM, cut);
        drain(r, &out, SNIB__RESP_MORE);
        snib__resp_feed(r, STREAM + cut, sizeof STREAM - 1 - cut);
        drain(r, &out, SNIB__RESP_MORE);
        assert_string_equal(snib__buf_text(&out), READ);
    }
    snib__buf_clear(&out);
    for (size_t i = 0; i + 1 < sizeof STREAM; i++) {
        snib__resp_feed(r, STREAM + i, 1);
        drain(r, &out, SNIB__RESP_MORE);
    }
    assert_string_equal(snib__buf_text(&out), READ);
    snib__buf_free(&out);
    snib__resp_free(r);
}

static void hostile_bytes_are_refused_and_stay_refused(void **state)
{
    (void)state;
    static const char *const hostile[] = {
        "*2147483647\r\n",
        "*1025\r\n",
        "*9223372036854775807\r\n",
        "*-2\r\n",
        "*x\r\n",
        "$-2\r\n",
        "$9999999999999999999999\r\n",
        "$x\r\n",
        ":\r\n",
        ":1x\r\n",
        ":99999999999999999999\r\n",
        ":-\r\n",
        "%1\r\n",
        "~1\r\n",
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "(1\r\n",
        "=4\r\ntxt:\r\n",
        ">2\r\n",
        "|1\r\n",
        "hello\r\n",
        "\r\n",
        "HTTP/1.1 400 Bad Request\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(hostile); i++) {
        struct snib__resp *r;
        const struct snib__resp_cell *c;
        assert_int_equal(snib__resp_new(SNIB__RESP_UNREAD, &r), SNIB_ERR_OK);
        snib__resp_feed(r, hostile[i], strlen(hostile[i]));
        if (snib__resp_next(r, &c) != SNIB__RESP_BROKEN) {
            fail_msg("accepted: %s", hostile[i]);
        }
        assert_true(*snib__resp_why(r));
        snib__resp_feed(r, "+OK\r\n", 5);
        assert_int_equal(snib__resp_next(r, &c), SNIB__RESP_BROKEN);
        assert_true(snib__resp_reset(r));
        snib__resp_feed(r, "+OK\r\n", 5);
        assert_int_equal(snib__resp_next(r, &c), SNIB__RESP_REPLY);
        assert_true(snib__resp_is(c, "OK"));
        snib__resp_free(r);
    }
}

/* $9223372036854775807 and 512 MiB are "incomplete" to hiredis. */
static void unread_bytes_are_bounded(void **state)
{
    (void)state;
    static const char *const start[] = {
        "$9223372036854775807\r\n", "$536870912\r\n", "+", "-", "*9999",
        "*2\r\n$9999999\r\n"};
    static char junk[1000];
    memset(junk, '7', sizeof junk);
    for (size_t i = 0; i < COUNT_OF(start); i++) {
        struct snib__resp *r;
        const struct snib__resp_cell *c;
        snib__resp_result got;
        size_t fed = 0;
        assert_int_equal(snib__resp_new(8000, &r), SNIB_ERR_OK);
        snib__resp_feed(r, start[i], strlen(start[i]));
        while ((got = snib__resp_next(r, &c)) == SNIB__RESP_MORE) {
            snib__resp_feed(r, junk, sizeof junk);
            fed += sizeof junk;
            assert_true(fed < 10000);
        }
        assert_int_equal(got, SNIB__RESP_BROKEN);
        snib__resp_free(r);
    }
}

static void texts_of_one_reply_are_bounded_too(void **state)
{
    (void)state;
    struct snib__resp *r;
    const struct snib__resp_cell *c;
    char item[1100];
    assert_int_equal(snib__resp_new(8000, &r), SNIB_ERR_OK);
    snib__resp_feed(r, "*100\r\n", 6);
    int n = snprintf(item, sizeof item, "$1000\r\n%01000d\r\n", 1);
    snib__resp_result got = SNIB__RESP_MORE;
    for (int i = 0; i < 100 && got == SNIB__RESP_MORE; i++) {
        snib__resp_feed(r, item, (size_t)n);
        got = snib__resp_next(r, &c);
        assert_true(i < 12);
    }
    assert_int_equal(got, SNIB__RESP_BROKEN);
    snib__resp_free(r);
}

static void the_largest_array_fits(void **state)
{
    (void)state;
    struct snib__resp *r;
    const struct snib__resp_cell *c;
    int64_t v;
    assert_int_equal(snib__resp_new(SNIB__RESP_UNREAD, &r), SNIB_ERR_OK);
    snib__resp_feed(r, "*1024\r\n", 7);
    for (int i = 0; i < 1024; i++) {
        char text[16];
        int n = snprintf(text, sizeof text, ":%d\r\n", i);
        assert_int_equal(snib__resp_next(r, &c), SNIB__RESP_MORE);
        snib__resp_feed(r, text, (size_t)n);
    }
    assert_int_equal(snib__resp_next(r, &c), SNIB__RESP_REPLY);
    assert_true(snib__resp_number(snib__resp_at(c, 1023), &v));
    assert_int_equal(v, 1023);
    assert_null(snib__resp_at(c, 1024));
    assert_null(snib__resp_at(snib__resp_at(c, 0), 0));
    snib__resp_free(r);
}

/* Many small replies in one chunk are no long reply. */
static void a_full_pipeline_is_not_too_long(void **state)
{
    (void)state;
    struct snib__resp *r;
    const struct snib__resp_cell *c;
    static char many[30000];
    for (size_t i = 0; i < sizeof many; i += 5) {
        memcpy(many + i, "+OK\r\n", 5);
    }
    assert_int_equal(snib__resp_new(1000, &r), SNIB_ERR_OK);
    snib__resp_feed(r, many, sizeof many);
    for (size_t i = 0; i < sizeof many; i += 5) {
        assert_int_equal(snib__resp_next(r, &c), SNIB__RESP_REPLY);
    }
    assert_int_equal(snib__resp_next(r, &c), SNIB__RESP_MORE);
    snib__resp_free(r);
}

static void numbers_are_canonical(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        int64_t v;
    } cases[] = {
        {"0", true, 0},
        {"-7", true, -7},
        {"9007199254740991", true, INT64_C(9007199254740991)},
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"01", false, 0},
        {"+1", false, 0},
        {"1 ", false, 0},
        {"1e3", false, 0},
        {"0x1", false, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct snib__resp_cell c = {.type = SNIB__RESP_STRING,
                                    .span = 1,
                                    .size = (uint32_t)strlen(cases[i].text),
                                    .text = cases[i].text};
        int64_t v = 0;
        assert_int_equal(snib__resp_number(&c, &v), cases[i].good);
        assert_int_equal(v, cases[i].v);
    }
    int64_t v;
    assert_false(snib__resp_number(NULL, &v));
}

static void no_memory_is_told_and_nothing_leaks(void **state)
{
    (void)state;
    struct snib__resp *r = (void *)1;
    const struct snib__resp_cell *c;
    snib__mem_fail_at(1, false);
    assert_int_equal(snib__resp_new(1000, &r), SNIB_ERR_NOMEM);
    assert_null(r);
    assert_int_equal(snib__resp_new(1000, &r), SNIB_ERR_OK);
    snib__mem_fail_at(1, true);
    snib__resp_feed(r, "+OK\r\n", 5);
    assert_int_equal(snib__resp_next(r, &c), SNIB__RESP_NOMEM);
    assert_int_equal(snib__resp_next(r, &c), SNIB__RESP_NOMEM);
    snib__mem_fail_at(0, false);
    assert_true(snib__resp_reset(r));
    snib__resp_feed(r, "+OK\r\n", 5);
    assert_int_equal(snib__resp_next(r, &c), SNIB__RESP_REPLY);
    snib__resp_free(r);
    snib__resp_free(NULL);
}

static void random_bytes_never_leave_the_bounds(void **state)
{
    (void)state;
    static const char alphabet[] = "*$:+-\r\n\r\n0123456789ab%_";
    uint64_t seed = 7;
    for (int round = 0; round < 20000; round++) {
        struct snib__resp *r;
        const struct snib__resp_cell *c;
        snib__resp_result got = SNIB__RESP_MORE;
        assert_int_equal(snib__resp_new(2000, &r), SNIB_ERR_OK);
        for (int k = 0; k < 40 && got != SNIB__RESP_BROKEN; k++) {
            char bytes[8];
            for (size_t i = 0; i < sizeof bytes; i++) {
                bytes[i] = alphabet[dice(&seed) % (sizeof alphabet - 1)];
            }
            snib__resp_feed(r, bytes, sizeof bytes);
            while ((got = snib__resp_next(r, &c)) == SNIB__RESP_REPLY) {
                assert_true(c->span >= 1 && c->span <= SNIB__RESP_CELLS);
            }
        }
        snib__resp_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest resp[] = {
        cmocka_unit_test(a_command_is_written_exactly),
        cmocka_unit_test(all_types_are_read_from_one_chunk),
        cmocka_unit_test(split_at_every_byte_gives_the_same),
        cmocka_unit_test(hostile_bytes_are_refused_and_stay_refused),
        cmocka_unit_test(unread_bytes_are_bounded),
        cmocka_unit_test(texts_of_one_reply_are_bounded_too),
        cmocka_unit_test(the_largest_array_fits),
        cmocka_unit_test(a_full_pipeline_is_not_too_long),
        cmocka_unit_test(numbers_are_canonical),
        cmocka_unit_test(no_memory_is_told_and_nothing_leaks),
        cmocka_unit_test(random_bytes_never_leave_the_bounds),
    };
    return RUN(resp);
}
#endif
