/* tests/unit/test_store_schema.c — snib_store_schema: the text, and each of its
 * refusals. */
#include "unit.h"

#include "snib/sys.h"

static char text[SNIB_SCHEMA_TEXT];
static struct snib_error error;

static snib_err schema_of(const char *url, size_t size)
{
    memset(text, 'x', sizeof text);
    return snib_store_schema(url, text, size, &error);
}

#if SNIB_WITH_MYSQL
static void the_text_is_for_the_prefix_of_the_url(void **state)
{
    static const char *const tables[] = {"meta", "lock", "claim", "value"};
    (void)state;
    for (int own = 0; own < 2; own++) {
        assert_int_equal(
            schema_of(own ? "mysql://h/d?prefix=my_own" : "mysql://h/d",
                      sizeof text),
            SNIB_ERR_OK);
        for (int i = 0; i < 4; i++) {
            char words[64];
            snprintf(words, sizeof words, "CREATE TABLE IF NOT EXISTS %s_%s(",
                     own ? "my_own" : "snib", tables[i]);
            assert_non_null(strstr(text, words));
        }
    }
    assert_null(strstr(text, "snib"));
    assert_int_equal(schema_of("mysql://h/d?prefix=a-b", sizeof text),
                     SNIB_ERR_USAGE);
    assert_string_equal(text, "");
}
#endif

#if SNIB_WITH_POSTGRES
static void the_text_makes_all_tables(void **state)
{
    static const char *const tables[] = {"meta", "lock", "claim", "value"};
    (void)state;
    assert_int_equal(schema_of("postgres://h/d", sizeof text), SNIB_ERR_OK);
    for (int i = 0; i < 4; i++) {
        char words[64];
        snprintf(words, sizeof words, "CREATE TABLE IF NOT EXISTS snib.%s(",
                 tables[i]);
        assert_non_null(strstr(text, words));
    }
    assert_int_equal(strncmp(text, "BEGIN;\n", 7), 0);
    assert_non_null(strstr(text, "COMMIT;\n"));
}

static void the_text_is_for_the_schema_of_the_url(void **state)
{
    (void)state;
    assert_int_equal(schema_of("postgres://h/d?schema=my_own", sizeof text),
                     SNIB_ERR_OK);
    assert_non_null(strstr(text, "CREATE SCHEMA IF NOT EXISTS my_own;"));
    assert_null(strstr(text, "snib."));
}

static void of_a_dialect_it_is_its_table(void **state)
{
    (void)state;
    assert_int_equal(schema_of("postgres://h/d?dialect=shedlock", sizeof text),
                     SNIB_ERR_OK);
    assert_int_equal(
        strncmp(text, "CREATE TABLE IF NOT EXISTS public.shedlock(", 43), 0);
    assert_int_equal(
        schema_of("postgres://h/d?dialect=shedlock&schema=s&table=t",
                  sizeof text),
        SNIB_ERR_OK);
    assert_non_null(strstr(text, "EXISTS s.t("));
    assert_int_equal(schema_of("postgres://h/d?dialect=int_lock", sizeof text),
                     SNIB_ERR_OK);
    assert_non_null(strstr(text, "EXISTS public.INT_LOCK("));
    assert_int_equal(
        schema_of("postgres://h/d?dialect=int_lock&table=Q", sizeof text),
        SNIB_ERR_OK);
    assert_non_null(strstr(text, "EXISTS public.Q(LOCK_KEY"));
    assert_int_equal(schema_of("postgres://h/d?dialect=advisory", sizeof text),
                     SNIB_ERR_UNSUPPORTED);
    assert_int_equal(schema_of("postgres://h/d?dialect=x", sizeof text),
                     SNIB_ERR_USAGE);
    assert_string_equal(text, "");
}

static void a_schema_that_needs_quotes_is_refused(void **state)
{
    static const char *const bad[] = {"My", "1st", "a-b", "", "a%22b"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char url[80];
        snprintf(url, sizeof url, "postgres://h/d?schema=%s", bad[i]);
        assert_int_equal(schema_of(url, sizeof text), SNIB_ERR_USAGE);
        assert_string_equal(text, "");
    }
}

static void too_little_room_is_refused(void **state)
{
    (void)state;
    assert_int_equal(schema_of("postgres://h/d", 100), SNIB_ERR_USAGE);
    assert_string_equal(text, "");
    assert_int_equal(schema_of("postgres://h/d", 0), SNIB_ERR_USAGE);
    assert_int_equal(text[0], 'x'); /* it was not given */
}

/* Its NUL, too: to the byte. And whatever the error said before. */
static void room_for_all_of_it_is_enough(void **state)
{
    static char whole[SNIB_SCHEMA_TEXT];
    (void)state;
    memset(&error, 0xa5, sizeof error);
    assert_int_equal(schema_of("postgres://h/d", sizeof text), SNIB_ERR_OK);
    assert_int_equal(error.code, SNIB_ERR_OK);
    assert_string_equal(error.text, "");
    size_t n = strlen(text);
    memcpy(whole, text, n + 1);
    assert_int_equal(schema_of("postgres://h/d", n + 1), SNIB_ERR_OK);
    assert_string_equal(text, whole);
    assert_int_equal(text[n + 1], 'x');
    assert_int_equal(schema_of("postgres://h/d", n), SNIB_ERR_USAGE);
    assert_string_equal(text, "");
    assert_int_equal(error.code, SNIB_ERR_USAGE);
    assert_string_equal(error.text, "the text needs SNIB_SCHEMA_TEXT bytes");
}

static void without_memory_it_says_so(void **state)
{
    (void)state;
    int64_t nth = 0;
    snib_err err;
    do {
        snib__mem_fail_at(++nth, false);
        err = schema_of("postgres://h/d", sizeof text);
        snib__mem_fail_at(0, false);
        assert_true(err == SNIB_ERR_NOMEM || err == SNIB_ERR_OK);
        assert_int_equal(snib__mem_alive(), 0);
    } while (err == SNIB_ERR_NOMEM);
    assert_true(nth > 2);
}
#endif

static void a_url_that_is_none_is_refused(void **state)
{
    (void)state;
    assert_int_equal(schema_of("no url", sizeof text), SNIB_ERR_USAGE);
    assert_string_equal(text, "");
}

static void a_store_without_tables_says_so(void **state)
{
    (void)state;
    assert_int_equal(schema_of("memory:x", sizeof text), SNIB_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "no tables"));
    assert_int_equal(schema_of("nothing:x", sizeof text), SNIB_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "in this build"));
}

static void a_store_that_is_no_more_says_so(void **state)
{
    (void)state;
    assert_int_equal(schema_of("sqlite:x", sizeof text), SNIB_ERR_CONFIG);
    assert_non_null(strstr(error.text, "sqlite: is no store any more"));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
#if SNIB_WITH_MYSQL
        cmocka_unit_test(the_text_is_for_the_prefix_of_the_url),
#endif
#if SNIB_WITH_POSTGRES
        cmocka_unit_test(the_text_makes_all_tables),
        cmocka_unit_test(the_text_is_for_the_schema_of_the_url),
        cmocka_unit_test(of_a_dialect_it_is_its_table),
        cmocka_unit_test(a_schema_that_needs_quotes_is_refused),
        cmocka_unit_test(too_little_room_is_refused),
        cmocka_unit_test(room_for_all_of_it_is_enough),
        cmocka_unit_test(without_memory_it_says_so),
#endif
        cmocka_unit_test(a_url_that_is_none_is_refused),
        cmocka_unit_test(a_store_without_tables_says_so),
        cmocka_unit_test(a_store_that_is_no_more_says_so),
    };
    return RUN(cases);
}
