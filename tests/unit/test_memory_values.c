/* store/memory/values.c: what is kept of values that are gone, and for how
 * long. Its own file is part of this program: that memory is given back is seen
 * nowhere else. */
#include "store/memory/values.c"

#include "unit.h"

#define MINUTE_NS (SNIB__VALUE_MEMORY_MS * INT64_C(1000000))

static struct snib__name *name_of(const char *text)
{
    struct snib__name *name;
    assert_int_equal(snib__name_new(text, 0, &name, NULL), SNIB_ERR_OK);
    return name;
}

/* A value that ended at `until`, whose last number was `last`. */
static struct entry *ended(struct snib__mem_values *t, const char *text,
                           snib_instant until, int64_t last)
{
    struct snib__name *name = name_of(text);
    struct entry *e = values_make(t, name);
    assert_non_null(e);
    assert_ptr_equal(values_find(t, name), e);
    e->until = until;
    e->v.last = last;
    snib__free(name);
    return e;
}

/* As often as it takes to visit each bucket once. */
static void sweep_all(struct snib__mem_values *t, int64_t ns)
{
    for (uint32_t i = 0; i < t->buckets; i++) {
        values_sweep(t, (snib_instant){ns});
    }
}

static void what_has_ended_is_remembered_for_a_minute(void **state)
{
    (void)state;
    const snib_instant first = {INT64_C(5000000000)}, second = {first.ns + 1};
    struct snib__mem_values *t = values_new_values();
    struct snib__name *a = name_of("a"), *b = name_of("b"), *c = name_of("c");
    assert_non_null(t);
    int64_t floor = t->floor;
    (void)ended(t, "a", first, floor + 7);
    (void)ended(t, "b", second, floor + 9);
    sweep_all(t, first.ns + MINUTE_NS - 1);
    assert_int_equal(t->count, 2);
    sweep_all(t, first.ns + MINUTE_NS);
    assert_int_equal(t->count, 1);
    assert_null(values_find(t, a));
    assert_non_null(values_find(t, b));
    /* A repeat cannot be told any more, and numbers go on above it. */
    assert_int_equal(t->floor, floor + 7);
    assert_int_equal(t->swept, floor + 7);
    assert_int_equal(ended(t, "c", second, 0)->v.forgotten, floor + 7);
    sweep_all(t, second.ns + MINUTE_NS);
    assert_int_equal(t->count, 0);
    assert_int_equal(t->floor, floor + 9);
    snib__free(a);
    snib__free(b);
    snib__free(c);
    snib__mem_values_free(t);
}

/* A request of a space whose clock the test moves. */
static struct snib__request asked(struct snib__space *s, snib__verb verb,
                                  const struct snib__name *name,
                                  int64_t version, snib_duration lease)
{
    static struct snib_error e;
    static uint64_t next = 1;
    struct snib__request r = {.verb = verb,
                              .name = name,
                              .id = {next++, 1},
                              .token = version,
                              .lease = lease,
                              .text = "text",
                              .text_size = 4,
                              .said.reterr = &e};
    snib__mem_values_run(s, &r);
    assert_int_equal(r.said.answer, SNIB__DONE);
    return r;
}

/* Not its lease, but when it went, says how long it is remembered. */
static void what_was_deleted_is_remembered_from_then_on(void **state)
{
    struct snib__space *s;
    struct snib__name *a = name_of("a");
    (void)state;
    assert_int_equal(snib__space_open("deleted", true, &s, NULL), SNIB_ERR_OK);
    for (int longer = 0; longer < 2; longer++) {
        struct snib__request r =
            asked(s, SNIB__VALUE_PUT, a, 0, snib__ms(longer ? 3600000 : 5000));
        s->now = snib__after(s->now, snib__ms(2000));
        asked(s, SNIB__VALUE_DELETE, a, r.token, snib__ms(0));
        int64_t gone = s->now.ns;
        sweep_all(s->values, gone + MINUTE_NS - 1);
        assert_non_null(values_find(s->values, a));
        sweep_all(s->values, gone + MINUTE_NS);
        assert_null(values_find(s->values, a));
    }
    snib__space_close(s);
    snib__free(a);
}

/* However many names there were, and though the table has grown. */
static void names_that_come_and_go_leave_nothing(void **state)
{
    (void)state;
    struct snib__mem_values *t = values_new_values();
    assert_non_null(t);
    for (int i = 0; i < 1000; i++) {
        char text[16];
        snprintf(text, sizeof text, "name-%d", i);
        (void)ended(t, text, (snib_instant){i}, i);
        values_sweep(t, (snib_instant){i});
    }
    assert_int_equal(t->count, 1000);
    sweep_all(t, 999 + MINUTE_NS);
    assert_int_equal(t->count, 0);
    snib__mem_values_free(t);
}

int main(void)
{
    const struct CMUnitTest memory_values[] = {
        cmocka_unit_test(what_was_deleted_is_remembered_from_then_on),
        cmocka_unit_test(what_has_ended_is_remembered_for_a_minute),
        cmocka_unit_test(names_that_come_and_go_leave_nothing),
    };
    return RUN(memory_values);
}
