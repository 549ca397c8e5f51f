/* core/snapshot: what cannot be read, granted or kept, and in which words. */
#include "snapshot_step.h"

static void a_row_of_another_layout_is_refused_in_words(void **state)
{
    static const uint8_t row[] = {2, 'l', 0};
    struct snib__request r = acquire(1);
    (void)state;
    w.table.revision++;
    put_row(&w.table, &(struct snib__key){SNIB__KEY_LOCK, &name, {0}}, row,
            sizeof row);
    start(0, &r);
    assert_int_equal(decide(0), SNIB__SNAPSHOT_ANSWERED);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CONFIG);
    assert_non_null(strstr(w.error.text, "has layout 2, this snib knows 1"));
}

static void what_is_no_token_is_refused_until_force_mends_it(void **state)
{
    struct snib__request r = acquire(1), force = verb(SNIB__FORCE, 2);
    (void)state;
    spoil(NULL, SNIB__KEY_FLOOR);
    start(0, &r);
    assert_int_equal(decide(0), SNIB__SNAPSHOT_ANSWERED);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CORRUPT);
    assert_non_null(strstr(w.error.text, "force-release"));
    start(0, &force);
    assert_int_equal(decide(0), SNIB__SNAPSHOT_FETCH); /* the highest token */
    assert_int_equal(decide(0), SNIB__SNAPSHOT_WRITE);
    assert_true(write_it(0));
    assert_int_equal(floor_in(&w.table), 0);
    do_all(0, &r);
    assert_int_equal(r.said.answer, SNIB__DONE);
}

static void a_clock_beyond_the_range_of_tokens_is_refused(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.now = INT64_C(8900000000000000000); /* the year 2252 */
    start(0, &r);
    assert_int_equal(decide(0), SNIB__SNAPSHOT_ANSWERED);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CONFIG);
    assert_string_equal(w.error.text,
                        "the store's clock is beyond the range of tokens");
}

static void one_that_cannot_be_sends_each_by_itself(void **state)
{
    struct snib__request good = acquire(1), bad = acquire(2);
    struct snib__request force = verb(SNIB__FORCE, 3);
    struct snib__request *both[] = {&good, &bad};
    (void)state;
    bad.name = &name_b;
    spoil(&name_b, SNIB__KEY_LOCK);
    snib__snapshot_begin(&w.s[0], both, 2);
    assert_int_equal(decide(0), SNIB__SNAPSHOT_APART);
    assert_int_equal(good.said.answer, SNIB__PENDING);
    assert_int_equal(good.token, 0);
    do_all(0, &good);
    do_all(0, &bad);
    assert_int_equal(good.said.answer, SNIB__DONE);
    assert_int_equal(bad.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(bad.said.err, SNIB_ERR_CORRUPT);
    force.name = &name_b;
    do_all(0, &force); /* the floor is a token: only the lock row is mended */
    do_all(0, &bad);
    assert_int_equal(bad.said.answer, SNIB__DONE);
}

static void without_memory_nothing_is_applied(void **state)
{
    struct snib__request r = acquire(1);
    int failed = 0;
    (void)state;
    for (int nth = 1; nth < 20 && r.said.answer != SNIB__DONE; nth++) {
        end_world(NULL);
        begin_world(NULL);
        r = acquire(1);
        snib__mem_fail_at(nth, false);
        start(0, &r);
        snib__snapshot_todo todo = decide(0);
        snib__mem_fail_at(0, false);
        if (todo == SNIB__SNAPSHOT_ANSWERED) {
            failed++;
            assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
            assert_int_equal(r.said.err, SNIB_ERR_NOMEM);
            assert_int_equal(r.token, 0); /* as it was asked */
            assert_string_equal(w.error.text, snib_err_text(SNIB_ERR_NOMEM));
            assert_int_equal(w.s[0].guards, 0);
        } else {
            assert_int_equal(todo, SNIB__SNAPSHOT_WRITE);
        }
    }
    assert_true(failed >= 3); /* the claim, the guards, their bytes */
    assert_int_equal(r.said.answer, SNIB__DONE);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        STEP(a_row_of_another_layout_is_refused_in_words),
        STEP(what_is_no_token_is_refused_until_force_mends_it),
        STEP(a_clock_beyond_the_range_of_tokens_is_refused),
        STEP(one_that_cannot_be_sends_each_by_itself),
        STEP(without_memory_nothing_is_applied),
    };
    return RUN(cases);
}
