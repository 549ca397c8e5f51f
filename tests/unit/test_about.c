/* core/about.h: what is written is read back, whatever was in it. */
#include "unit.h"

#include "core/about.h"

static void write_and_read(const struct snib__about *a, struct snib__about *ret)
{
    struct snib__buf text;
    snib__buf_init(&text, SNIB__ABOUT_MAX);
    snib__about_write(a, &text);
    assert_false(text.failed);
    snib__about_read(snib__buf_bytes(&text), snib__buf_size(&text), ret);
    snib__buf_free(&text);
}

static void read_text(const char *text, struct snib__about *ret)
{
    snib__about_read(text, strlen(text), ret);
}

static void it_reads_like_the_example(void **state)
{
    (void)state;
    struct snib__about a = {.host = "ci-7",
                            .pid = 4312,
                            .user = "anna",
                            .program = "backup",
                            .reason = "release 4.2",
                            .since_ms = 1790000000000};
    struct snib__buf text;
    snib__buf_init(&text, SNIB__ABOUT_MAX);
    snib__about_write(&a, &text);
    assert_string_equal(snib__buf_text(&text),
                        "host=ci-7&pid=4312&user=anna&program=backup&reason="
                        "release%204.2&since=1790000000000");
    snib__buf_free(&text);
}

static void everything_comes_back(void **state)
{
    (void)state;
    struct snib__about b, a = {.host = "h&=%\n",
                               .user = "\xc3\xa4\x01",
                               .program = "a=b&c",
                               .reason = "100% \"sure\" {x}\x7f",
                               .pid = INT64_MAX,
                               .start = INT64_MAX,
                               .since_ms = INT64_MAX,
                               .leashed = true};
    write_and_read(&a, &b);
    assert_string_equal(b.host, a.host);
    assert_string_equal(b.user, a.user);
    assert_string_equal(b.program, a.program);
    assert_string_equal(b.reason, a.reason);
    assert_true(b.pid == a.pid && b.start == a.start);
    assert_true(b.since_ms == a.since_ms);
    assert_true(b.leashed);
}

static void what_the_owner_holds_comes_back_beside_long_words(void **state)
{
    (void)state;
    struct snib__about b, a = {.pid = INT64_MAX,
                               .start = INT64_MAX,
                               .since_ms = INT64_MAX,
                               .owner = INT64_MAX,
                               .leashed = true,
                               .held_count = SNIB__ABOUT_HELD};
    memset(a.host, '%', sizeof a.host - 1);
    memset(a.reason, '%', sizeof a.reason - 1);
    for (uint32_t i = 0; i < a.held_count; i++) {
        a.held[i] = UINT64_MAX - i;
    }
    write_and_read(&a, &b);
    assert_int_equal(b.held_count, SNIB__ABOUT_HELD);
    assert_memory_equal(a.held, b.held, sizeof a.held);
    assert_true(b.owner == a.owner && b.pid == a.pid && b.leashed);
    a.above_count = 4;
    write_and_read(&a, &b);
    assert_int_equal(b.above_count, 4);
    assert_memory_equal(a.held, b.held, sizeof a.held);
    read_text("held=0123456789abcdef,123,0123456789abcdef", &b);
    assert_int_equal(b.held_count, 1);
    assert_true(b.held[0] == UINT64_C(0x0123456789abcdef));
}

static void what_is_held_above_comes_back_apart(void **state)
{
    (void)state;
    struct snib__about b, a = {.owner = 7, .held_count = 3, .above_count = 2};
    a.held[0] = 1;
    a.held[1] = 2;
    a.held[2] = UINT64_MAX;
    write_and_read(&a, &b);
    assert_int_equal(b.held_count, 3);
    assert_int_equal(b.above_count, 2);
    assert_memory_equal(a.held, b.held, 3 * sizeof a.held[0]);
    a.above_count = 3;
    write_and_read(&a, &b);
    assert_int_equal(b.held_count, 3);
    assert_int_equal(b.above_count, 3);
    /* Out of order, twice, too many, no ids: never more than there is room. */
    read_text("above=0123456789abcdef&held=0123456789abcdef"
              "&above=0123456789abcdef",
              &b);
    assert_int_equal(b.held_count, 1);
    assert_int_equal(b.above_count, 1);
    read_text("held=1111111111111111,1111111111111111,1111111111111111,"
              "1111111111111111,1111111111111111,1111111111111111"
              "&above=2222222222222222,2222222222222222,2222222222222222",
              &b);
    assert_int_equal(b.held_count, SNIB__ABOUT_HELD);
    assert_int_equal(b.above_count, 2);
    read_text("above=&held=&above=zz", &b);
    assert_int_equal(b.held_count, 0);
    assert_int_equal(b.above_count, 0);
}

/* The beginning is written once; the lines are as if it had been each time. */
static void a_line_on_its_head_has_the_same_bytes(void **state)
{
    (void)state;
    struct snib__about a[] = {
        {.owner = 7},
        {.host = "ci-7", .pid = 4312, .user = "anna", .program = "backup"},
        {.host = "h%", .pid = INT64_MAX, .reason = "a b", .leashed = true},
        {.user = "u", .start = 5, .since_ms = INT64_MAX, .owner = INT64_MAX},
        {.program = "p", .held_count = 3, .above_count = 1, .held = {1, 2, 3}},
        {.pid = 1},
    };
    struct snib__about *full = &a[COUNT_OF(a) - 1];
    memset(full->host, '%', sizeof full->host - 1);
    memset(full->user, '%', sizeof full->user - 1);
    memset(full->program, '%', sizeof full->program - 1);
    memset(full->reason, 'x', sizeof full->reason - 1);
    for (size_t i = 0; i < COUNT_OF(a); i++) {
        struct snib__about_head head;
        struct snib__buf whole, on;
        snib__buf_init(&whole, SNIB__ABOUT_MAX);
        snib__buf_init(&on, SNIB__ABOUT_MAX);
        snib__about_head(&a[i], &head);
        snib__about_write(&a[i], &whole);
        snib__about_write_on(&head, &a[i], &on);
        assert_string_equal(snib__buf_text(&on), snib__buf_text(&whole));
        snib__buf_free(&whole);
        snib__buf_free(&on);
    }
}

static void nothing_known_is_nothing_written(void **state)
{
    (void)state;
    struct snib__about none = {0};
    struct snib__buf text;
    snib__buf_init(&text, SNIB__ABOUT_MAX);
    snib__about_write(&none, &text);
    assert_int_equal(snib__buf_size(&text), 0);
    snib__buf_free(&text);
}

static void the_written_text_is_plain_ascii(void **state)
{
    (void)state;
    struct snib__about a = {.pid = 1};
    for (int i = 0; i < 128; i++) {
        a.reason[i] = (char)(i + 1);
    }
    for (int i = 0; i < 64; i++) {
        a.host[i] = (char)(0x80 + i);
    }
    struct snib__buf text;
    snib__buf_init(&text, SNIB__ABOUT_MAX);
    snib__about_write(&a, &text);
    for (size_t i = 0; i < snib__buf_size(&text); i++) {
        uint8_t c = snib__buf_bytes(&text)[i];
        assert_true(c > 0x20 && c < 0x7f);
    }
    snib__buf_free(&text);
}

static void the_longest_stays_within_512_bytes_and_keeps_its_numbers(void **st)
{
    (void)st;
    struct snib__about b, a = {.pid = INT64_MAX,
                               .start = INT64_MAX,
                               .since_ms = INT64_MAX,
                               .leashed = true};
    memset(a.host, '%', sizeof a.host); /* not even NUL-terminated           */
    memset(a.user, '%', sizeof a.user);
    memset(a.program, '%', sizeof a.program);
    memset(a.reason, '%', sizeof a.reason);
    write_and_read(&a, &b);
    assert_true(b.pid == a.pid && b.start == a.start);
    assert_true(b.since_ms == a.since_ms && b.leashed);
    assert_int_equal(strlen(b.host), 64);
    assert_int_equal(b.reason[0], 0); /* the words that fit, in order        */
}

static void a_cut_leaves_no_half_character(void **state)
{
    (void)state;
    struct snib__about b, a = {0};
    memset(a.host, ' ', sizeof a.host - 1);
    memset(a.user, ' ', sizeof a.user - 1);
    for (size_t i = 0; i + 3 < sizeof a.reason; i += 3) {
        memcpy(a.reason + i, "\xe2\x82\xac", 3); /* euro sign               */
    }
    write_and_read(&a, &b);
    size_t n = strlen(b.reason);
    assert_true(n > 0 && n < strlen(a.reason));
    assert_int_equal(n % 3, 0);
    assert_memory_equal(b.reason, a.reason, n);
}

static void values_longer_than_the_field_are_cut_at_a_character(void **state)
{
    (void)state;
    struct snib__about a;
    char text[200] = "user=";
    for (int i = 0; i < 20; i++) {
        memcpy(text + 5 + 6 * i, "%C3%A4", 7);
    }
    read_text(text, &a);
    assert_int_equal(strlen(a.user), 32); /* sixteen times two bytes        */
    memmove(text + 6, text + 5, 121);
    text[5] = 'x';
    read_text(text, &a);
    assert_int_equal(strlen(a.user), 31);
}

static void unknown_keys_are_skipped(void **state)
{
    (void)state;
    struct snib__about a;
    read_text("color=red&pid=7&&x&=y&hostess=z&host=h&later=%zz", &a);
    assert_true(a.pid == 7);
    assert_string_equal(a.host, "h");
}

static void bad_words_are_left_empty(void **state)
{
    (void)state;
    static const char *const bad[] = {"host=%",    "host=a%4",  "host=%zz",
                                      "host=a%00", "host=%0",   "host=% 1",
                                      "host",      "host=a%00b"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct snib__about a;
        read_text(bad[i], &a);
        assert_string_equal(a.host, "");
    }
    struct snib__about a;
    snib__about_read("host=a\0b", 8, &a);
    assert_string_equal(a.host, "");
}

static void bad_numbers_are_zero(void **state)
{
    (void)state;
    static const char *const bad[] = {"pid=",
                                      "pid=-1",
                                      "pid=+1",
                                      "pid=1x",
                                      "pid= 1",
                                      "pid=0x1",
                                      "pid=1e3",
                                      "pid=9223372036854775808",
                                      "pid=99999999999999999999999999"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct snib__about a;
        read_text(bad[i], &a);
        assert_true(a.pid == 0);
    }
    struct snib__about a;
    read_text("leashed=2", &a);
    assert_false(a.leashed);
}

static void nothing_to_read_is_an_empty_answer(void **state)
{
    (void)state;
    struct snib__about a;
    memset(&a, 1, sizeof a);
    snib__about_read(NULL, 0, &a);
    assert_true(a.pid == 0 && !a.host[0] && !a.reason[0]);
    memset(&a, 1, sizeof a);
    snib__about_read(NULL, 5, &a);
    assert_true(a.pid == 0 && !a.host[0]);
}

static void random_bytes_never_leave_an_unterminated_field(void **state)
{
    (void)state;
    static const char *const words[] = {
        "host=", "user=", "reason=", "pid=", "&", "%", "%e2", "since="};
    uint64_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        char text[600];
        size_t n = 0, size = dice(&seed) % 500;
        while (n < size) {
            const char *w = words[dice(&seed) % COUNT_OF(words)];
            size_t k = dice(&seed) % 3 ? strlen(w) : 0;
            memcpy(text + n, w, k);
            n += k;
            text[n++] = (char)dice(&seed);
        }
        struct snib__about a;
        memset(&a, 1, sizeof a);
        snib__about_read(text, n, &a);
        assert_non_null(memchr(a.host, 0, sizeof a.host));
        assert_non_null(memchr(a.user, 0, sizeof a.user));
        assert_non_null(memchr(a.program, 0, sizeof a.program));
        assert_non_null(memchr(a.reason, 0, sizeof a.reason));
        assert_true(a.pid >= 0 && a.start >= 0 && a.since_ms >= 0);
    }
}

int main(void)
{
    const struct CMUnitTest about[] = {
        cmocka_unit_test(it_reads_like_the_example),
        cmocka_unit_test(everything_comes_back),
        cmocka_unit_test(what_the_owner_holds_comes_back_beside_long_words),
        cmocka_unit_test(what_is_held_above_comes_back_apart),
        cmocka_unit_test(a_line_on_its_head_has_the_same_bytes),
        cmocka_unit_test(nothing_known_is_nothing_written),
        cmocka_unit_test(the_written_text_is_plain_ascii),
        cmocka_unit_test(
            the_longest_stays_within_512_bytes_and_keeps_its_numbers),
        cmocka_unit_test(a_cut_leaves_no_half_character),
        cmocka_unit_test(values_longer_than_the_field_are_cut_at_a_character),
        cmocka_unit_test(unknown_keys_are_skipped),
        cmocka_unit_test(bad_words_are_left_empty),
        cmocka_unit_test(bad_numbers_are_zero),
        cmocka_unit_test(nothing_to_read_is_an_empty_answer),
        cmocka_unit_test(random_bytes_never_leave_an_unterminated_field),
    };
    return RUN(about);
}
