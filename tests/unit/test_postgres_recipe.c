/* tests/unit/test_postgres_recipe.c — store/postgres with ?dialect=: URLs, what it
 * is looked at for, its table. */
#include "postgres_client.h"

/* Columns of RECIPE_TABLE: there, named, times, letters, unique, engine. */
static void table_is(int64_t there, int64_t named, int64_t times,
                     int64_t letters, int64_t unique, int64_t engine)
{
    lib.answer[SNIB__SQL_DO_RECIPE_TABLE] = (struct answer){
        1, {there, named, times, letters, unique, engine}, 0, 0, 0};
}

static int begin_recipe(void **state)
{
    (void)begin_world(state);
    snib__postgres_ops.free(w.p);
    table_is(1, 4, 2, 255, 1, 1);
    return open_at("postgres://u@localhost/d?dialect=shedlock");
}

static void it_can_less_and_polls(void **state)
{
    (void)state;
    assert_int_equal(w.out.caps, SNIB__TIED | SNIB__NO_LATCH);
    assert_int_equal(w.out.poll.ns, snib__ms(100).ns);
    assert_string_equal(w.p->schema, "public.shedlock");
    assert_true(w.p->recipe.host[0] != 0);
}

static void without_a_dialect_nothing_changes(void **state)
{
    (void)state;
    snib__postgres_ops.free(w.p);
    assert_int_equal(open_at("postgres://u@localhost/d"), SNIB_ERR_OK);
    assert_int_equal(w.out.caps, 0);
    assert_int_equal(w.out.poll.ns, 0);
    assert_string_equal(w.p->schema, "snib");
}

static void the_url_names_schema_and_table(void **state)
{
    static const char *const bad[] = {
        "postgres://h/d?dialect=other",
        "postgres://h/d?dialect=", "postgres://h/d?table=x",
        "postgres://h/d?dialect=shedlock&table=Upper",
        "postgres://h/d?dialect=shedlock&schema=a.b"};
    (void)state;
    snib__postgres_ops.free(w.p);
    assert_int_equal(
        open_at("postgres://h/d?dialect=shedlock&schema=s&table=t"),
        SNIB_ERR_OK);
    assert_string_equal(w.p->schema, "s.t");
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        snib__postgres_ops.free(w.p);
        w.p = NULL;
        assert_int_equal(open_at(bad[i]), SNIB_ERR_USAGE);
        assert_null(w.p);
        assert_int_equal(open_at("postgres://h/d"), SNIB_ERR_OK);
    }
}

static void a_table_that_will_do_is_taken_and_none_is_made(void **state)
{
    (void)state;
    assert_int_equal(reach(), SNIB__SQL_OK);
    assert_int_equal(lib.sent[SNIB__PG_LAYOUT], 0);
    assert_int_equal(lib.sent[SNIB__PG_HAS_SCHEMA], 0);
    assert_int_equal(lib.sent[SNIB__SQL_DO_RECIPE_TABLE], 1);
}

static void refused(const char *words)
{
    assert_int_equal(reach(), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_CONFIG);
    assert_non_null(strstr(w.error.text, "public.shedlock"));
    assert_non_null(strstr(w.error.text, words));
    assert_null(w.k->c);
}

static void a_table_that_cannot_do_is_refused_in_words(void **state)
{
    (void)state;
    table_is(0, 0, 0, 0, 0, 1);
    refused("doctor --schema");
    table_is(1, 3, 2, 255, 1, 1);
    refused("is not ShedLock's");
    table_is(1, 4, 1, 255, 1, 1);
    refused("to the millisecond");
    table_is(1, 4, 2, SNIB__RECIPE_BY - 1, 1, 1);
    refused("too short a locked_by");
    table_is(1, 4, 2, 255, 0, 1);
    refused("takes a name twice");
    table_is(1, 4, 2, 255, 1, 0);
    refused("make it InnoDB (MySQL), or LOGGED");
    lib.answer[SNIB__SQL_DO_RECIPE_TABLE].rows = 0;
    refused("is not there");
    table_is(1, 4, 2, SNIB__RECIPE_BY, 1, 1);
    assert_int_equal(reach(), SNIB__SQL_OK);
}

static void requests_go_to_the_table(void **state)
{
    struct snib__request r = {.verb = SNIB__ACQUIRE};
    (void)state;
    lib.answer[SNIB__SQL_DO_RECIPE_LOOK] =
        (struct answer){1, {1000, 2000, 500, 0}, 0, 0, 0};
    execute(&r, 1);
    assert_int_equal(r.said.answer, SNIB__NO);
    assert_int_equal(r.said.left.ns, 1000000);
    assert_int_equal(lib.sent[SNIB__SQL_DO_RECIPE_LOOK], 1);
    assert_int_equal(lib.sent[SNIB__SQL_DO_ACQUIRE], 0);
}

static void errors_of_the_table_are_told_as_such(void **state)
{
    static const struct {
        const char *state;
        snib_err err;
        const char *words;
    } row[] = {{"22001", SNIB_ERR_USAGE, "longer than the column"},
               {"22021", SNIB_ERR_USAGE, "no text in the encoding"},
               {"42P01", SNIB_ERR_CONFIG, "public.shedlock is not there any"},
               {"42703", SNIB_ERR_CONFIG, "has lost a column"},
               {"42501", SNIB_ERR_DENIED, "lacks a right"}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        struct snib__request r = {.verb = SNIB__ACQUIRE};
        lib.answer[SNIB__SQL_DO_RECIPE_LOOK] =
            (struct answer){0, {0}, row[i].state, "ERROR", 0};
        execute(&r, 1);
        assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
        assert_int_equal(r.said.err, row[i].err);
        assert_non_null(strstr(w.error.text, row[i].words));
    }
}

/* -- Spring Integration's -------------------------------------------------- */

static int begin_int_lock(void **state)
{
    (void)begin_world(state);
    snib__postgres_ops.free(w.p);
    table_is(1, 4, 1, 36, 1, 1);
    return open_at("postgres://u@localhost/d?dialect=int_lock");
}

static void int_lock_has_a_table_a_region_and_a_time(void **state)
{
    (void)state;
    assert_int_equal(w.out.caps, SNIB__TIED | SNIB__NO_LATCH);
    assert_true(w.p->recipe.int_lock);
    assert_string_equal(w.p->schema, "public.INT_LOCK");
    assert_string_equal(w.p->recipe.region, "DEFAULT");
    assert_int_equal(w.p->recipe.ttl_us, 10000000);
    assert_int_equal(snib__to_ms(w.out.lease_given), 7500);
    snib__postgres_ops.free(w.p);
    assert_int_equal(open_at("postgres://h/d?dialect=int_lock&table=My_Lock&"
                             "schema=s&region=a%20b&ttl=1500ms"),
                     SNIB_ERR_OK);
    assert_string_equal(w.p->schema, "s.My_Lock");
    assert_string_equal(w.p->recipe.region, "a b");
    assert_int_equal(w.p->recipe.ttl_us, 1500000);
    assert_int_equal(snib__to_ms(w.out.lease_given), 1125);
}

static void what_its_url_cannot_mean_is_refused(void **state)
{
    static const char *const bad[] = {
        "postgres://h/d?ttl=10s",
        "postgres://h/d?region=x",
        "postgres://h/d?dialect=shedlock&ttl=10s",
        "postgres://h/d?dialect=int_lock&ttl=10",
        "postgres://h/d?dialect=int_lock&ttl=999ms",
        "postgres://h/d?dialect=int_lock&ttl=-3s",
        "postgres://h/d?dialect=int_lock&ttl=86401s",
        "postgres://h/d?dialect=int_lock&ttl=99999999999s",
        "postgres://h/d?dialect=int_lock&ttl=2h",
        "postgres://h/d?dialect=int_lock&region=",
        "postgres://h/d?dialect=int_lock&table=a.b",
        "postgres://h/d?dialect=int_lock&table="
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        snib__postgres_ops.free(w.p);
        w.p = NULL;
        assert_int_equal(open_at(bad[i]), SNIB_ERR_USAGE);
        assert_null(w.p);
        assert_int_equal(open_at("postgres://h/d"), SNIB_ERR_OK);
    }
}

static void refused_of_spring(const char *words)
{
    assert_int_equal(reach(), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_CONFIG);
    assert_non_null(strstr(w.error.text, "public.INT_LOCK"));
    assert_non_null(strstr(w.error.text, words));
}

static void a_table_that_is_not_springs_is_refused_in_words(void **state)
{
    (void)state;
    table_is(0, 0, 0, 0, 0, 1);
    refused_of_spring("doctor --schema");
    table_is(1, 3, 1, 36, 1, 1); /* or one that has EXPIRED_AFTER */
    refused_of_spring("EXPIRED_AFTER");
    table_is(1, 4, 0, 36, 1, 1);
    refused_of_spring("to the millisecond");
    table_is(1, 4, 1, 35, 1, 1);
    refused_of_spring("too short a CLIENT_ID");
    table_is(1, 4, 1, 36, 0, 1);
    refused_of_spring("takes a key twice");
    table_is(1, 4, 1, 36, 1, 1);
    assert_int_equal(reach(), SNIB__SQL_OK);
}

int main(void)
{
#define SPRING(f) cmocka_unit_test_setup_teardown(f, begin_int_lock, end_world)
#define RECIPE(f) cmocka_unit_test_setup_teardown(f, begin_recipe, end_world)
    static const struct CMUnitTest cases[] = {
        RECIPE(it_can_less_and_polls),
        RECIPE(without_a_dialect_nothing_changes),
        RECIPE(the_url_names_schema_and_table),
        RECIPE(a_table_that_will_do_is_taken_and_none_is_made),
        RECIPE(a_table_that_cannot_do_is_refused_in_words),
        RECIPE(requests_go_to_the_table),
        RECIPE(errors_of_the_table_are_told_as_such),
        SPRING(int_lock_has_a_table_a_region_and_a_time),
        SPRING(what_its_url_cannot_mean_is_refused),
        SPRING(a_table_that_is_not_springs_is_refused_in_words),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
