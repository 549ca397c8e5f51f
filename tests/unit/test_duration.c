/* cli/words/duration.h: durations as people type them, and back. */
#include "unit.h"

#include "cli/words/duration.h"

static void takes(const char *text, unsigned allowed, int64_t ms)
{
    const char *why = NULL;
    int64_t got = -7;
    if (!duration_parse(text, allowed, &got, &why)) {
        fail_msg("%s: %s", text, why);
    }
    assert_int_equal(got, ms);
}

static void refuses(const char *text, unsigned allowed, const char *because)
{
    const char *why = NULL;
    int64_t got;
    if (duration_parse(text, allowed, &got, &why)) {
        fail_msg("accepted: %s", text);
    }
    if (strstr(why, because) == NULL) {
        fail_msg("%s: \"%s\" does not speak of \"%s\"", text, why, because);
    }
}

static void a_number_and_a_unit_make_a_duration(void **state)
{
    (void)state;
    takes("250ms", 0, 250);
    takes("30s", 0, 30000);
    takes("5m", 0, 300000);
    takes("2h", 0, 7200000);
    takes("007s", 0, 7000);
    takes("3155760000000ms", 0, DURATION_MAX_MS);
    takes("876600h", 0, DURATION_MAX_MS);
}

static void
the_words_0_and_forever_are_taken_where_they_are_allowed(void **state)
{
    (void)state;
    takes("0", DURATION_ZERO_OK, 0);
    takes("0s", DURATION_ZERO_OK, 0);
    takes("forever", DURATION_FOREVER_OK, DURATION_FOREVER);
    refuses("0", DURATION_FOREVER_OK, "0 is not");
    refuses("0ms", 0, "0 is not");
    refuses("forever", DURATION_ZERO_OK, "forever is not");
}

static void a_bare_number_is_an_error_that_says_so(void **state)
{
    (void)state;
    refuses("30", 0, "without a unit");
    refuses("00", DURATION_ZERO_OK, "without a unit");
}

static void what_is_no_duration_is_refused(void **state)
{
    static const char *const none[] = {"",        " 1s",     "+1s",  "-1s",
                                       "s",       "inf",     "\xff", "٣s",
                                       "Forever", "forever "};
    static const char *const no_unit[] = {"1 s", "1S",   "1d",  "1s1ms",
                                          "1ss", "0x1s", "1e3s"};
    unsigned all = DURATION_ZERO_OK | DURATION_FOREVER_OK;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        refuses(none[i], all, "not a duration");
    }
    for (size_t i = 0; i < COUNT_OF(no_unit); i++) {
        refuses(no_unit[i], all, "unknown unit");
    }
    refuses("1.5s", all, "whole numbers");
    refuses("1,5s", all, "whole numbers");
}

static void nothing_overflows(void **state)
{
    (void)state;
    refuses("3155760000001ms", 0, "hundred years");
    refuses("876601h", 0, "hundred years");
    refuses("9223372036854775807ms", 0, "hundred years");
    refuses("9223372036854775808s", 0, "hundred years");
    refuses("18446744073709551617ms", 0, "hundred years");
    refuses("99999999999999999999999999999999999999999s", 0, "hundred years");
}

static void shows(int64_t ms, const char *text)
{
    char got[DURATION_TEXT_MAX];
    duration_text(ms, got);
    assert_string_equal(got, text);
}

static void a_duration_is_shown_in_two_units_at_most(void **state)
{
    (void)state;
    shows(INT64_MIN, "0ms");
    shows(-86400000, "0ms");
    shows(-1, "0ms");
    shows(0, "0ms");
    shows(1, "1ms");
    shows(999, "999ms");
    shows(1000, "1s");
    shows(1999, "1s");
    shows(24999, "24s");
    shows(59999, "59s");
    shows(60000, "1m00s");
    shows(192000, "3m12s");
    shows(3599999, "59m59s");
    shows(3600000, "1h00m");
    shows(7500000, "2h05m");
    shows(86399999, "23h59m");
    shows(86400000, "1d00h");
    shows(INT64_C(273600000), "3d04h");
    shows(INT64_MAX, "106751991167d07h");
}

static void what_was_typed_is_shown_unrounded(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } t[] = {{1, "1ms"},     {5001, "5001ms"}, {16000, "16s"},
             {90000, "90s"}, {120000, "2m"},   {3600000 * 25, "25h"}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char got[DURATION_TEXT_MAX];
        assert_string_equal(duration_exact(t[i].ms, got), t[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest duration[] = {
        cmocka_unit_test(a_number_and_a_unit_make_a_duration),
        cmocka_unit_test(
            the_words_0_and_forever_are_taken_where_they_are_allowed),
        cmocka_unit_test(a_bare_number_is_an_error_that_says_so),
        cmocka_unit_test(what_is_no_duration_is_refused),
        cmocka_unit_test(nothing_overflows),
        cmocka_unit_test(a_duration_is_shown_in_two_units_at_most),
        cmocka_unit_test(what_was_typed_is_shown_unrounded),
    };
    return RUN(duration);
}
