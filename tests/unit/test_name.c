/* core/name.h: S-10, S-11, S-12 of the threat list, as properties. */
#include "unit.h"

#include <stdlib.h>

#include "base/mem.h"
#include "core/name.h"

struct nasty {
    const char *bytes;
    size_t size;
};
#define N(text)                                                                \
    {                                                                          \
        text, sizeof text - 1                                                  \
    }

/* Pairs that one or another lock service has mixed up: prefixes, case,
 * normal forms, encodings of each other, braces, separators, controls. */
static const struct nasty nasty[] = {
    N("a"),
    N("A"),
    N("ab"),
    N("a "),
    N(" a"),
    N(" "),
    N("a\0"),
    N("a\0b"),
    N("\0"),
    N("\0\0"),
    N("a\n"),
    N("a\r\n"),
    N("\r\n"),
    N("{"),
    N("}"),
    N("{}"),
    N("}{"),
    N("{a}"),
    N("}a"),
    N("a}b"),
    N("{a}b"),
    N("%"),
    N("%%"),
    N("%25"),
    N("%7B"),
    N("%7b"),
    N("%7D"),
    N("%00"),
    N("%257B"),
    N("a%"),
    N("a%2"),
    N("a%20"),
    N("a:q"),
    N("a:t"),
    N("snib:{a}"),
    N("snib:{a}:t"),
    N("'); DROP TABLE snib--"),
    N("%s%n"),
    N("../../etc/passwd"),
    N("."),
    N(".."),
    N("/"),
    N("a/b"),
    N("*"),
    N("?"),
    N("[a-z]"),
    N("\\"),
    N("\x1b[31m"),
    N("\x7f"),
    N("\x80"),
    N("\xff"),
    N("\xff\xff"),
    N("\xc3\xa9"),     /* e acute, composed                                 */
    N("e\xcc\x81"),    /* e acute, decomposed                               */
    N("\xe2\x80\xae"), /* right-to-left override                            */
    N("\xef\xbb\xbf"
      "a"), /* byte order mark                                              */
    N("\xc0\x80"), /* overlong NUL                                          */
    N("~"),
    N("0"),
    N("-1"),
};

static struct snib__name *name_of(const char *raw, size_t size)
{
    struct snib__name *n;
    assert_int_equal(snib__name_new(raw, size, &n, NULL), SNIB_ERR_OK);
    return n;
}

static void all_pairs_of_nasty_names_stay_distinct(void **state)
{
    (void)state;
    struct snib__name *n[COUNT_OF(nasty)];
    for (size_t i = 0; i < COUNT_OF(nasty); i++) {
        n[i] = name_of(nasty[i].bytes, nasty[i].size);
    }
    for (size_t i = 0; i < COUNT_OF(nasty); i++) {
        for (size_t k = 0; k < COUNT_OF(nasty); k++) {
            bool same_safe = strcmp(n[i]->safe, n[k]->safe) == 0;
            assert_int_equal(same_safe, i == k);
            assert_int_equal(snib__name_same(n[i], n[k]), i == k);
        }
    }
    for (size_t i = 0; i < COUNT_OF(nasty); i++) {
        snib__free(n[i]);
    }
}

static void assert_safe(const struct snib__name *n)
{
    assert_int_equal(strlen(n->safe), n->safe_size);
    for (uint32_t i = 0; i < n->safe_size; i++) {
        char c = n->safe[i];
        assert_true(c >= 0x20 && c < 0x7f && c != '{' && c != '}');
    }
}

static void assert_round_trip(const void *raw, size_t size)
{
    struct snib__name *n = name_of(raw, size);
    char back[SNIB_NAME_MAX];
    assert_int_equal(n->raw_size, size);
    assert_memory_equal(n->raw, raw, size);
    assert_int_equal(n->raw[size], 0);
    assert_safe(n);
    assert_int_equal(snib__name_decode(n->safe, n->safe_size, back), size);
    assert_memory_equal(back, raw, size);
    snib__free(n);
}

static void nasty_names_survive_the_round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(nasty); i++) {
        assert_round_trip(nasty[i].bytes, nasty[i].size);
    }
}

static void every_byte_alone_survives_the_round_trip(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        uint8_t byte = (uint8_t)c;
        assert_round_trip(&byte, 1);
    }
}

static void random_names_survive_the_round_trip(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        uint8_t raw[SNIB_NAME_MAX];
        size_t size = 1 + dice(&seed) % (i % 100 ? 8 : SNIB_NAME_MAX);
        for (size_t k = 0; k < size; k++) {
            raw[k] = (uint8_t)(dice(&seed) % 4 ? "{}%27BD"[dice(&seed) % 7]
                                               : (int)dice(&seed));
        }
        assert_round_trip(raw, size);
    }
}

static void only_the_canonical_spelling_is_decoded(void **state)
{
    (void)state;
    static const struct nasty bad[] = {
        N(""),          N("%"),     N("%7"),  N("a%"),   N("a%7"),  N("%7b"),
        N("%7d"),       N("%ff"),   N("%fF"), N("%41"),  N("%20"),  N("%7E"),
        N("%GG"),       N("% 7B"),  N("%+7"), N("{"),    N("}"),    N("a{b}"),
        N("\n"),        N("\0"),    N("a\0"), N("\x7f"), N("\x80"), N("\xff"),
        N("\xc3\xa9"),  N("%25%2"), N("%%"),  N("%2%5"), N("%0"),   N("%-1"),
        N("%7B%7b%7B"),
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char to[SNIB_NAME_MAX];
        assert_int_equal(snib__name_decode(bad[i].bytes, bad[i].size, to), 0);
    }
}

/* Whatever decodes must encode to the very same bytes: exhaustively for all
 * texts of up to four characters from an alphabet that matters. */
static void decoding_and_encoding_again_gives_the_same_text(void **state)
{
    (void)state;
    static const char alphabet[] = "%07BbDd{}a";
    size_t letters = sizeof alphabet - 1, accepted = 0;
    for (size_t code = 0; code < letters * letters * letters * letters;
         code++) {
        char text[5];
        size_t rest = code;
        for (int i = 0; i < 4; i++, rest /= letters) {
            text[i] = alphabet[rest % letters];
        }
        text[4] = 0;
        char raw[SNIB_NAME_MAX];
        size_t size = snib__name_decode(text, 4, raw);
        if (size) {
            struct snib__name *n = name_of(raw, size);
            assert_string_equal(n->safe, text);
            snib__free(n);
            accepted++;
        }
    }
    assert_true(accepted > 0);
}

static void a_plain_name_is_its_own_spelling(void **state)
{
    (void)state;
    struct snib__name *n = name_of("order:4711/pay ~x", 0);
    assert_string_equal(n->safe, "order:4711/pay ~x");
    assert_ptr_equal(n->safe, n->raw);
    snib__free(n);
}

static void braces_percent_and_controls_are_spelled_upper_case(void **state)
{
    (void)state;
    struct snib__name *n = name_of("}a%\x1f\xff", 0);
    assert_string_equal(n->safe, "%7Da%25%1F%FF");
    snib__free(n);
}

static void size_zero_means_up_to_the_nul(void **state)
{
    (void)state;
    struct snib__name *a = name_of("abc", 0), *b = name_of("abc", 3),
                      *c = name_of("abc", 4);
    assert_true(snib__name_same(a, b));
    assert_false(snib__name_same(a, c));
    assert_string_equal(c->safe, "abc%00");
    snib__free(a);
    snib__free(b);
    snib__free(c);
}

static void a_name_of_512_bytes_is_taken_and_513_refused(void **state)
{
    (void)state;
    char text[SNIB_NAME_MAX + 2];
    struct snib__name *n;
    struct snib_error e;
    memset(text, 0xff, sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_int_equal(snib__name_new(text, SNIB_NAME_MAX, &n, &e), SNIB_ERR_OK);
    assert_int_equal(n->safe_size, 3 * SNIB_NAME_MAX);
    char back[SNIB_NAME_MAX];
    assert_int_equal(snib__name_decode(n->safe, n->safe_size, back),
                     SNIB_NAME_MAX);
    assert_memory_equal(back, text, SNIB_NAME_MAX);
    snib__free(n);
    assert_int_equal(snib__name_new(text, 0, &n, &e), SNIB_ERR_USAGE);
    assert_null(n);
    assert_int_equal(snib__name_new(text, sizeof text - 1, &n, &e),
                     SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, "512"));
}

static void a_spelling_of_513_bytes_is_not_decoded(void **state)
{
    (void)state;
    char text[SNIB_NAME_MAX + 1];
    char to[SNIB_NAME_MAX];
    memset(text, 'a', sizeof text);
    assert_int_equal(snib__name_decode(text, sizeof text, to), 0);
    assert_int_equal(snib__name_decode(text, sizeof text - 1, to),
                     SNIB_NAME_MAX);
}

static void an_empty_or_missing_name_is_refused(void **state)
{
    (void)state;
    struct snib__name *n;
    struct snib_error e;
    assert_int_equal(snib__name_new("", 0, &n, &e), SNIB_ERR_USAGE);
    assert_int_equal(e.code, SNIB_ERR_USAGE);
    assert_null(n);
    assert_int_equal(snib__name_new(NULL, 0, &n, NULL), SNIB_ERR_USAGE);
    assert_int_equal(snib__name_new(NULL, 5, &n, NULL), SNIB_ERR_USAGE);
    assert_null(n);
}

/* One of our names that is taken for a foreign one for lack of memory would be
 * missing in a list that is told as whole. */
static void decoding_needs_no_memory(void **state)
{
    (void)state;
    char to[SNIB_NAME_MAX];
    snib__mem_fail_at(1, true);
    assert_int_equal(snib__name_decode("a%7B", 4, to), 2);
    snib__mem_fail_at(0, false);
    assert_memory_equal(to, "a{", 2);
}

static void no_memory_is_told(void **state)
{
    (void)state;
    struct snib__name *n;
    struct snib_error e;
    snib__mem_fail_at(1, false);
    assert_int_equal(snib__name_new("a", 0, &n, &e), SNIB_ERR_NOMEM);
    assert_null(n);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void hashes_of_counted_names_differ_and_fill_low_bits(void **state)
{
    (void)state;
    enum { NAMES = 20000, BUCKETS = 1024 };
    static uint64_t hash[NAMES];
    static int bucket[BUCKETS];
    for (int i = 0; i < NAMES; i++) {
        char text[32];
        snprintf(text, sizeof text, "order:%d", i);
        struct snib__name *n = name_of(text, 0);
        hash[i] = n->hash;
        bucket[n->hash % BUCKETS]++;
        snib__free(n);
    }
    for (int i = 0; i < BUCKETS; i++) {
        assert_in_range(bucket[i], 1, 60); /* 19.5 on average               */
    }
    qsort(hash, NAMES, sizeof hash[0], by_value);
    for (int i = 1; i < NAMES; i++) {
        assert_true(hash[i - 1] != hash[i]);
    }
}

/* Of equal hashes, as two names in 2^64 have them: the bytes decide. */
static void names_of_one_hash_are_told_apart_by_their_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } t[] = {{"ab", "ab", true},
             {"ab", "ac", false},
             {"ab", "cb", false},
             {"ab", "abc", false},
             {"abc", "ab", false}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib__name *a = name_of(t[i].a, 0), *b = name_of(t[i].b, 0);
        a->hash = b->hash = 7;
        assert_int_equal(snib__name_same(a, b), t[i].same);
        b->hash = 8;
        assert_false(snib__name_same(a, b));
        snib__free(a);
        snib__free(b);
    }
}

int main(void)
{
    const struct CMUnitTest name[] = {
        cmocka_unit_test(all_pairs_of_nasty_names_stay_distinct),
        cmocka_unit_test(nasty_names_survive_the_round_trip),
        cmocka_unit_test(every_byte_alone_survives_the_round_trip),
        cmocka_unit_test(random_names_survive_the_round_trip),
        cmocka_unit_test(only_the_canonical_spelling_is_decoded),
        cmocka_unit_test(decoding_and_encoding_again_gives_the_same_text),
        cmocka_unit_test(a_plain_name_is_its_own_spelling),
        cmocka_unit_test(braces_percent_and_controls_are_spelled_upper_case),
        cmocka_unit_test(size_zero_means_up_to_the_nul),
        cmocka_unit_test(a_name_of_512_bytes_is_taken_and_513_refused),
        cmocka_unit_test(a_spelling_of_513_bytes_is_not_decoded),
        cmocka_unit_test(an_empty_or_missing_name_is_refused),
        cmocka_unit_test(decoding_needs_no_memory),
        cmocka_unit_test(no_memory_is_told),
        cmocka_unit_test(names_of_one_hash_are_told_apart_by_their_bytes),
        cmocka_unit_test(hashes_of_counted_names_differ_and_fill_low_bits),
    };
    return RUN(name);
}
