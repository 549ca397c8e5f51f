/* core/version: the rules of versioned values. */
#include "unit.h"

#include "core/version.h"

#define NOW INT64_C(1700000000000)

static struct snib_error error;

static struct snib__request ask(snib__verb verb, uint64_t id, int64_t expected)
{
    return (struct snib__request){.verb = verb,
                                  .id = {id, ~id},
                                  .token = expected,
                                  .said.reterr = &error};
}

static int64_t put(struct snib__version *v, uint64_t id, int64_t now)
{
    struct snib__request r = ask(SNIB__VALUE_PUT, id, v->version);
    assert_int_equal(snib__version_step(v, &r, now), SNIB__VERSION_PUT);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(r.token, v->version);
    return r.token;
}

static int64_t take(struct snib__version *v, uint64_t id, int64_t now)
{
    struct snib__request r = ask(SNIB__VALUE_DELETE, id, v->version);
    assert_int_equal(snib__version_step(v, &r, now), SNIB__VERSION_DELETE);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(r.token, 0);
    return v->last;
}

static void numbers_follow_the_clock_the_last_one_and_the_floor(void **state)
{
    (void)state;
    struct snib__version v = {0};
    assert_int_equal(put(&v, 1, NOW), NOW * 1024);
    assert_int_equal(put(&v, 2, NOW), NOW * 1024 + 1);
    assert_int_equal(put(&v, 3, NOW - 5000), NOW * 1024 + 2);
    assert_int_equal(take(&v, 4, NOW - 5000), NOW * 1024 + 3);
    struct snib__request r = ask(SNIB__VALUE_PUT, 5, 0);
    r.floor = NOW * 1024 + 99;
    assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_PUT);
    assert_int_equal(r.token, NOW * 1024 + 100);
}

/* A server whose clock was never set: the first number that there is. */
static void at_the_beginning_of_time_the_first_number_is_one(void **state)
{
    (void)state;
    struct snib__version v = {0};
    assert_int_equal(put(&v, 1, 0), 1);
    assert_int_equal(put(&v, 2, 0), 2);
    struct snib__version last = {.last = SNIB__VERSION_END - 2};
    assert_int_equal(put(&last, 1, NOW), SNIB__VERSION_END - 1);
}

static void a_number_beyond_the_range_is_refused(void **state)
{
    (void)state;
    struct snib__version v = {.last = SNIB__VERSION_END - 1};
    struct snib__request r = ask(SNIB__VALUE_PUT, 1, 0);
    assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_KEEP);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_STORE);
    assert_int_equal(v.version, 0);
}

static void a_repeat_of_what_was_applied_is_told_the_same(void **state)
{
    (void)state;
    struct snib__version v = {0};
    int64_t first = put(&v, 1, NOW);
    put(&v, 2, NOW);
    int64_t top = v.version;
    /* Overwritten meanwhile: done all the same, and nothing is written. */
    struct snib__request r = ask(SNIB__VALUE_PUT, 1, 0);
    r.resent = true;
    assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_KEEP);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(r.token, first);
    assert_int_equal(v.version, top);
}

static void
a_repeat_of_what_was_not_applied_is_refused_for_certain(void **state)
{
    (void)state;
    struct snib__version v = {0};
    int64_t first = put(&v, 1, NOW);
    for (uint64_t i = 2; i <= SNIB__CHANGES + 1; i++) {
        put(&v, i, NOW);
    }
    /* The change that replaced `first` is the oldest one remembered. */
    struct snib__request r = ask(SNIB__VALUE_PUT, 99, first);
    r.resent = true;
    assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_KEEP);
    assert_int_equal(r.said.answer, SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_BUSY);
    assert_int_equal(r.token, v.version);
}

static void a_repeat_beyond_the_memory_cannot_be_told(void **state)
{
    (void)state;
    struct snib__version v = {0};
    int64_t first = put(&v, 1, NOW);
    for (uint64_t i = 2; i <= SNIB__CHANGES + 2; i++) {
        put(&v, i, NOW);
    }
    /* Was it number 2, which has been forgotten? */
    struct snib__request r = ask(SNIB__VALUE_PUT, 2, first);
    r.resent = true;
    assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_KEEP);
    assert_int_equal(r.said.answer, SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_UNKNOWN);
    /* The first copy of another is simply refused. */
    r = ask(SNIB__VALUE_PUT, 77, first);
    assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_KEEP);
    assert_int_equal(r.said.err, SNIB_ERR_BUSY);
}

static void a_repeat_on_a_store_that_lost_its_data_cannot_be_told(void **state)
{
    (void)state;
    struct snib__version v = {0};
    struct snib__request r = ask(SNIB__VALUE_PUT, 1, NOW * 1024);
    r.resent = true;
    assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_KEEP);
    assert_int_equal(r.said.err, SNIB_ERR_UNKNOWN);
}

static void
a_repeat_that_must_be_absent_asks_how_far_memory_reaches(void **state)
{
    (void)state;
    struct snib__version v = {.last = NOW * 1024, .forgotten = NOW * 1024};
    struct snib__request r = ask(SNIB__VALUE_PUT, 1, 0);
    r.resent = true;
    r.value.age = snib__ms(2000);
    /* Something was forgotten 11.999 s ago; the copy may be 12 s old. */
    assert_int_equal(snib__version_step(&v, &r, NOW + 11999),
                     SNIB__VERSION_KEEP);
    assert_int_equal(r.said.err, SNIB_ERR_UNKNOWN);
    r = ask(SNIB__VALUE_PUT, 1, 0);
    r.resent = true;
    r.value.age = snib__ms(2000);
    assert_int_equal(snib__version_step(&v, &r, NOW + 12001),
                     SNIB__VERSION_PUT);
}

static void a_late_copy_of_a_refused_repeat_does_nothing(void **state)
{
    (void)state;
    struct snib__version v = {0};
    put(&v, 1, NOW);
    struct snib__request r = ask(SNIB__VALUE_PUT, 2, 0);
    r.resent = true;
    assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_NOTE);
    assert_int_equal(r.said.err, SNIB_ERR_BUSY);
    take(&v, 3, NOW);
    /* The first copy was under way all the time; the name is absent again. */
    r = ask(SNIB__VALUE_PUT, 2, 0);
    assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_KEEP);
    assert_int_equal(r.said.err, SNIB_ERR_BUSY);
    assert_int_equal(v.version, 0);
}

/* INT64_MAX and one more would begin anew. */
static void a_floor_out_of_range_is_refused(void **state)
{
    (void)state;
    static const int64_t floors[] = {SNIB__VERSION_END - 1, SNIB__VERSION_END,
                                     INT64_MAX - 1, INT64_MAX};
    for (size_t i = 0; i < sizeof floors / sizeof *floors; i++) {
        struct snib__version v = {0};
        struct snib__request r = ask(SNIB__VALUE_PUT, 1, 0);
        r.floor = floors[i];
        assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_KEEP);
        assert_int_equal(r.said.err, SNIB_ERR_STORE);
        assert_int_equal(v.version, 0);
    }
    struct snib__version v = {0};
    struct snib__request r = ask(SNIB__VALUE_PUT, 1, 0);
    r.floor = SNIB__VERSION_END - 2;
    assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_PUT);
    assert_int_equal(v.version, SNIB__VERSION_END - 1);
}

/* It is forgotten, and with it all that was sent before the next change. */
static void a_forgotten_refusal_counts_as_a_change_of_its_time(void **state)
{
    (void)state;
    struct snib__version v = {0};
    put(&v, 1, NOW - 60000);
    struct snib__request r = ask(SNIB__VALUE_PUT, 2, 0);
    r.resent = true;
    assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_NOTE);
    int64_t next = take(&v, 3, NOW);
    for (uint64_t i = 4; i < 3 + SNIB__CHANGES; i++) {
        assert_true(v.forgotten < next);
        if (v.version) {
            take(&v, i, NOW);
        } else {
            put(&v, i, NOW);
        }
    }
    assert_int_equal(v.forgotten, next);
    r = ask(SNIB__VALUE_PUT, 2, 0);
    r.resent = true;
    assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_KEEP);
    assert_int_equal(r.said.err, SNIB_ERR_UNKNOWN);
}

/* Nothing but refusals is remembered: those forgotten were before now. */
static void refusals_push_each_other_out(void **state)
{
    (void)state;
    struct snib__version v = {0};
    put(&v, 1, NOW - 60000);
    for (uint64_t i = 2; i < 3 + SNIB__CHANGES; i++) {
        struct snib__request r = ask(SNIB__VALUE_PUT, i, 0);
        r.resent = true;
        assert_int_equal(snib__version_step(&v, &r, NOW), SNIB__VERSION_NOTE);
        assert_int_equal(r.said.err, SNIB_ERR_BUSY);
    }
    assert_int_equal(v.forgotten, NOW * 1024);
    assert_true(v.last >= v.forgotten);
}

static void a_record_survives_as_bytes(void **state)
{
    (void)state;
    struct snib__version v = {0}, w;
    uint8_t bytes[SNIB__VERSION_BYTES];
    for (uint64_t i = 1; i <= SNIB__CHANGES + 3; i++) {
        put(&v, i, NOW);
        snib__version_pack(&v, bytes);
        assert_true(snib__version_unpack(bytes, sizeof bytes, &w));
        assert_int_equal(w.version, v.version);
        assert_int_equal(w.last, v.last);
        assert_int_equal(w.forgotten, v.forgotten);
        assert_int_equal(w.count, v.count);
        assert_memory_equal(w.change, v.change, v.count * sizeof *v.change);
    }
    assert_false(snib__version_unpack(bytes, sizeof bytes - 1, &w));
    assert_false(snib__version_unpack(NULL, 0, &w));
    bytes[24] = SNIB__CHANGES + 1; /* the count */
    assert_false(snib__version_unpack(bytes, sizeof bytes, &w));
    snib__version_pack(&v, bytes);
    bytes[7] = 0x80; /* a negative version */
    assert_false(snib__version_unpack(bytes, sizeof bytes, &w));
    snib__version_pack(&v, bytes);
    bytes[13]++; /* last: fine; version: above last is not */
    assert_true(snib__version_unpack(bytes, sizeof bytes, &w));
    bytes[13]--;
    bytes[5]++;
    assert_false(snib__version_unpack(bytes, sizeof bytes, &w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_follow_the_clock_the_last_one_and_the_floor),
        cmocka_unit_test(a_floor_out_of_range_is_refused),
        cmocka_unit_test(at_the_beginning_of_time_the_first_number_is_one),
        cmocka_unit_test(a_number_beyond_the_range_is_refused),
        cmocka_unit_test(a_repeat_of_what_was_applied_is_told_the_same),
        cmocka_unit_test(
            a_repeat_of_what_was_not_applied_is_refused_for_certain),
        cmocka_unit_test(a_repeat_beyond_the_memory_cannot_be_told),
        cmocka_unit_test(a_repeat_on_a_store_that_lost_its_data_cannot_be_told),
        cmocka_unit_test(
            a_repeat_that_must_be_absent_asks_how_far_memory_reaches),
        cmocka_unit_test(a_late_copy_of_a_refused_repeat_does_nothing),
        cmocka_unit_test(a_forgotten_refusal_counts_as_a_change_of_its_time),
        cmocka_unit_test(refusals_push_each_other_out),
        cmocka_unit_test(a_record_survives_as_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
