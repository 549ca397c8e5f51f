/* base/glob: names by pattern. */
#include "unit.h"

#include "base/glob.h"

static bool fits(const char *glob, const char *name)
{
    return snib__glob(glob, strlen(glob), name, strlen(name));
}

static void stars_and_marks(void **state)
{
    (void)state;
    assert_true(snib__glob(NULL, 0, "x", 1));
    assert_true(fits("*", ""));
    assert_true(fits("a*c", "abbbc"));
    assert_true(fits("a*b*c", "a-b-b-c"));
    assert_false(fits("a*c", "abbb"));
    assert_true(fits("?", "x"));
    assert_false(fits("?", ""));
    assert_false(fits("", "x"));
}

static void sets_ranges_and_negation(void **state)
{
    (void)state;
    assert_true(fits("[a-c]x", "bx"));
    assert_false(fits("[a-c]x", "dx"));
    assert_true(fits("[!a-c]x", "dx"));
    assert_true(fits("[^a]x", "bx"));
    assert_true(fits("[]]", "]"));
    assert_true(fits("[a", "[a"));
}

static void a_backslash_makes_ordinary(void **state)
{
    (void)state;
    assert_true(fits("a\\*", "a*"));
    assert_false(fits("a\\*", "ab"));
}

static void bytes_are_bytes(void **state)
{
    (void)state;
    assert_true(snib__glob("a?c", 3, "a\0c", 3));
    assert_true(fits("\xff*", "\xff\xfe"));
}

static void many_stars_end_soon(void **state)
{
    (void)state;
    char name[513];
    memset(name, 'a', 512);
    name[512] = 0;
    assert_false(fits("*a*a*a*a*a*a*a*a*a*a*b", name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stars_and_marks),
        cmocka_unit_test(sets_ranges_and_negation),
        cmocka_unit_test(a_backslash_makes_ordinary),
        cmocka_unit_test(bytes_are_bytes),
        cmocka_unit_test(many_stars_end_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
