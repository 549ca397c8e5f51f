/* store/postgres/advisory_key: the numbers of names, as Medallion.Threading has
 * them. Those of ASCII names are a pair; the vector of "nightly" was made by its
 * own code, the others by its formula in Python (hashlib). */
#include "unit.h"

#include "store/postgres/advisory.h"

static void a_short_name_is_a_pair(void **state)
{
    (void)state;
    struct snib__pg_key k = snib__pg_key_of("nightly", 7);
    assert_true(k.pair);
    assert_int_equal(k.high, -576242034);
    assert_int_equal(k.low, -1690517505);
    k = snib__pg_key_of("", 0);
    assert_true(k.pair);
    assert_int_equal(k.high, INT32_MAX);
    assert_int_equal(k.low, -1);
    k = snib__pg_key_of("a\0", 2);
    assert_true(k.pair);
    assert_int_not_equal(k.one, snib__pg_key_of("a", 1).one);
}

static void sixteen_digits_are_a_number(void **state)
{
    (void)state;
    struct snib__pg_key k = snib__pg_key_of("000000000000002a", 16);
    assert_false(k.pair);
    assert_int_equal(k.one, 42);
    k = snib__pg_key_of("FFFFFFFFffffffff", 16);
    assert_false(k.pair);
    assert_int_equal(k.one, -1);
}

static void two_times_eight_digits_are_a_pair(void **state)
{
    (void)state;
    struct snib__pg_key k = snib__pg_key_of("00000001,ffffffff", 17);
    assert_true(k.pair);
    assert_int_equal(k.high, 1);
    assert_int_equal(k.low, -1);
    assert_false(snib__pg_key_of("00000001;ffffffff", 17).pair);
    assert_false(snib__pg_key_of("0000000g,ffffffff", 17).pair);
}

static void other_names_are_hashed(void **state)
{
    static const struct {
        const char *name;
        int64_t key;
    } row[] = {
        {"ten letters", INT64_C(6320636741425242585)},
        {"000000000000002g", INT64_C(-111657392102744599)},
        {"\xc3\xa9", INT64_C(-9173619709315246657)},
        {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
         INT64_C(5126398754889725902)},
        {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
         INT64_C(5951829597959295888)},
        {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
         INT64_C(2927860703170583565)},
        {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
         INT64_C(6097868925891194811)},
        {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
         INT64_C(-3610617219207018632)},
        {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
         INT64_C(2589279050865442883)},
        {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
         INT64_C(-2542629190134222130)},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        struct snib__pg_key k =
            snib__pg_key_of(row[i].name, strlen(row[i].name));
        assert_false(k.pair);
        assert_int_equal(k.one, row[i].key);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_name_is_a_pair),
        cmocka_unit_test(sixteen_digits_are_a_number),
        cmocka_unit_test(two_times_eight_digits_are_a_pair),
        cmocka_unit_test(other_names_are_hashed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
