/* cli/words/text.h, cli/store/storeurl.h, cli/holder/held.h: foreign bytes made fit to show,
 * secrets blanked, SNIB_HELD taken apart. */
#include "unit.h"

#include "cli/cli.h"
#include "cli/holder/held.h"
#include "cli/store/storeurl.h"
#include "cli/words/text.h"

static void shows(const char *bytes, size_t size, const char *expected)
{
    char got[256] = "";
    struct text t = TEXT_IN(got);
    text_add_shown(&t, bytes, size);
    assert_string_equal(got, expected);
}

#define SHOWS(literal, expected) shows(literal, sizeof literal - 1, expected)

static void controls_and_broken_utf_8_are_shown_as_hex(void **state)
{
    (void)state;
    SHOWS("plain é € 𐀀", "plain é € 𐀀");
    SHOWS("\x1b[2J\n\t\x7f", "\\x1B[2J\\x0A\\x09\\x7F");
    SHOWS("a\0b", "a\\x00b");
    SHOWS("\xc2\x9b", "\\xC2\\x9B");          /* C1: CSI */
    SHOWS("\xe2\x80\xae", "\\xE2\\x80\\xAE"); /* right-to-left override */
    SHOWS("\xff\xc0\x80", "\\xFF\\xC0\\x80"); /* invalid, overlong */
    SHOWS("\xed\xa0\x80", "\\xED\\xA0\\x80"); /* surrogate */
    SHOWS("\xe2\x82", "\\xE2\\x82");          /* cut */
    SHOWS("\xf4\x90\x80\x80", "\\xF4\\x90\\x80\\x80");
}

static void a_server_that_is_full_is_not_said_to_be_away(void **state)
{
    struct snib_error e = {.code = SNIB_ERR_UNREACHABLE,
                           .text = "h:1: the server has no connection left; "
                                   "end some clients"};
    (void)state;
    assert_string_equal(cli_words(&e), e.text);
    snprintf(e.text, sizeof e.text, "h:1: Connection refused");
    assert_non_null(strstr(cli_words(&e), "does the server run"));
}

static void what_does_not_fit_is_cut_between_pieces(void **state)
{
    char small[8] = "";
    struct text t = TEXT_IN(small);
    (void)state;
    text_add_shown(&t, "abc\x01\x02", 5);
    assert_string_equal(small, "abc\\x01");
    assert_true(t.cut);
    text_add(&t, "x");
    assert_string_equal(small, "abc\\x01");
}

static void percent_encoding_comes_back(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        char byte = (char)c, coded[8] = "", back[8];
        struct text t = TEXT_IN(coded);
        size_t size;
        text_add_percent(&t, &byte, 1);
        assert_null(strpbrk(coded, ":= \n"));
        assert_true(
            text_unpercent(coded, strlen(coded), back, sizeof back, &size));
        assert_int_equal(size, 1);
        assert_int_equal((unsigned char)back[0], c);
    }
}

static void malformed_percent_is_refused(void **state)
{
    static const char *const bad[] = {"%", "%4", "%zz", "a%", "%%41"};
    char back[8];
    size_t size;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(
            text_unpercent(bad[i], strlen(bad[i]), back, sizeof back, &size));
    }
    assert_false(text_unpercent("12345678", 8, back, sizeof back, &size));
}

static void redacts(const char *url, const char *expected)
{
    char got[256];
    storeurl_redact(url, got, sizeof got);
    assert_string_equal(got, expected);
    assert_true(storeurl_has_secret(url) == (strcmp(url, expected) != 0));
}

static void every_password_of_a_url_is_blanked(void **state)
{
    (void)state;
    redacts("redis://h:1/0", "redis://h:1/0");
    redacts("redis://anna@h", "redis://anna@h");
    redacts("redis://anna:@h", "redis://anna:@h");
    redacts("redis://:s3@h/0", "redis://:***@h/0");
    redacts("redis://anna:s@3@h", "redis://anna:***@h");
    redacts("redis://a:x/y@h", "redis://a:***@h");
    redacts("redlock://a:1@h,b:2@i", "redlock://a:***@i");
    redacts("redis://h?password=x", "redis://h?password=***");
    redacts("redis://h?db=1&AUTH=x&y=2", "redis://h?db=1&AUTH=***&y=2");
    redacts("redis://a:p@h?auth_token=q&pass=r",
            "redis://a:***@h?auth_token=***&pass=***");
    redacts("file:/a:b@c", "file:/a:b@c");
    redacts("", "");
}

static void snib_held_comes_apart_and_garbage_is_skipped(void **state)
{
    const char *at = ":x:a%20b=0.0123456789abcdef::%zz=0.0123456789abcdef:"
                     "c=1000.fedcba9876543210:d=1000.fedcba987654321";
    struct held_entry e;
    (void)state;
    assert_true(held_next(&at, &e));
    assert_string_equal(e.name, "a b");
    assert_int_equal(e.name_size, 3);
    assert_string_equal(e.address, "0.0123456789abcdef");
    assert_true(held_next(&at, &e));
    assert_string_equal(e.name, "c");
    assert_string_equal(e.address, "1000.fedcba9876543210");
    assert_false(held_next(&at, &e));
    at = NULL;
    assert_false(held_next(&at, &e));
}

static void what_is_added_to_snib_held_comes_apart_again(void **state)
{
    char bytes[256] = "";
    struct text t = TEXT_IN(bytes);
    const char *at = bytes;
    struct held_entry e;
    (void)state;
    held_add(&t, "a:b=c", "0.0123456789abcdef");
    held_add(&t, "\xff", "0.0123456789abcdef");
    assert_true(held_next(&at, &e));
    assert_string_equal(e.name, "a:b=c");
    assert_true(held_next(&at, &e));
    assert_string_equal(e.name, "\xff");
    assert_false(held_next(&at, &e));
}

static void what_is_shown_short_has_60_bytes_at_most(void **state)
{
    (void)state;
    char text[200];
    memset(text, 'a', sizeof text);
    for (size_t size = 0; size < 70; size++) {
        text[size] = '\0';
        const char *s = shown_short(text);
        if (size <= 55) { /* room for "...", and the NUL */
            assert_string_equal(s, text);
        } else {
            assert_int_equal(strlen(s), 58);
            assert_memory_equal(s, text, 55);
            assert_string_equal(s + 55, "...");
        }
        text[size] = 'a';
    }
    text[199] = '\0';
    assert_string_equal(shown(text), text);
}

static void the_last_four_that_were_shown_stand_side_by_side(void **state)
{
    (void)state;
    const char *s[4];
    s[0] = shown("first");
    s[1] = shown_short("second");
    s[2] = shown("\x01");
    s[3] = shown("fourth");
    assert_string_equal(s[0], "first");
    assert_string_equal(s[1], "second");
    assert_string_equal(s[2], "\\x01");
    assert_string_equal(s[3], "fourth");
}

int main(void)
{
    const struct CMUnitTest cli_text[] = {
        cmocka_unit_test(a_server_that_is_full_is_not_said_to_be_away),
        cmocka_unit_test(controls_and_broken_utf_8_are_shown_as_hex),
        cmocka_unit_test(what_does_not_fit_is_cut_between_pieces),
        cmocka_unit_test(percent_encoding_comes_back),
        cmocka_unit_test(malformed_percent_is_refused),
        cmocka_unit_test(every_password_of_a_url_is_blanked),
        cmocka_unit_test(what_is_shown_short_has_60_bytes_at_most),
        cmocka_unit_test(the_last_four_that_were_shown_stand_side_by_side),
        cmocka_unit_test(snib_held_comes_apart_and_garbage_is_skipped),
        cmocka_unit_test(what_is_added_to_snib_held_comes_apart_again),
    };
    return RUN(cli_text);
}
