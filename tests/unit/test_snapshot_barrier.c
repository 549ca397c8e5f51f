/* core/snapshot: the parties of a barrier, of which there may be more than are
 * fetched at first. */
#include "snapshot_step.h"

/* More than are fetched at first, and as many. */
enum { PARTIES = 2 * SNIB__SNAPSHOT_WAITERS, SOME = SNIB__SNAPSHOT_WAITERS };

static struct snib__request party(uint64_t id, uint32_t parties)
{
    struct snib__request r = acquire(id);
    r.acquire.kind = SNIB_KIND_BARRIER;
    r.acquire.permits = parties;
    return r;
}

/* It comes, or comes again, and waits, by one fetch and one write. */
static void come(uint64_t id, uint32_t parties)
{
    struct snib__request r = party(id, parties);
    half(0, &r);
    assert_true(write_it(0));
    snib__snapshot_written(&w.s[0]);
    assert_int_equal(r.said.answer, SNIB__QUEUED);
}

static void all_wait_but(uint64_t last)
{
    for (uint64_t i = 1; i <= PARTIES - last; i++) {
        come(i, PARTIES);
    }
}

/* A step that began before, and needs the whole queue. */
static void finish_all(int i)
{
    snib__snapshot_again(&w.s[i]);
    assert_int_equal(decide(i), SNIB__SNAPSHOT_FETCH);
    assert_int_equal(decide(i), SNIB__SNAPSHOT_WRITE);
    assert_true(write_it(i));
    snib__snapshot_written(&w.s[i]);
}

/* The length of the queue is known with its first waiters. */
static void a_party_that_waits_does_not_fetch_the_others(void **state)
{
    struct snib__request last = party(PARTIES, PARTIES);
    (void)state;
    all_wait_but(1);
    come(1, PARTIES);
    come(PARTIES - 1, PARTIES);
    start(1, &last);
    finish_all(1);
    assert_int_equal(last.said.answer, SNIB__DONE);
    assert_int_equal(w.s[1].tolds, PARTIES - 1);
}

/* Each of them sees one party too few. */
static void the_last_two_that_come_at_once_conflict(void **state)
{
    struct snib__request last[2] = {party(PARTIES - 1, PARTIES),
                                    party(PARTIES, PARTIES)};
    (void)state;
    all_wait_but(2);
    half(0, &last[0]);
    half(1, &last[1]);
    assert_int_equal(last[1].said.answer, SNIB__QUEUED);
    assert_true(write_it(0));
    assert_false(write_it(1));
    finish_all(1);
    assert_int_equal(last[1].said.answer, SNIB__DONE);
    assert_int_equal(w.s[1].tolds, PARTIES - 1);
}

/* One that waits was silent, as the last one sees it, and polls meanwhile. */
static void the_last_one_conflicts_with_one_that_comes_back(void **state)
{
    struct snib__request r = party(7, SOME), last = party(SOME, SOME);
    (void)state;
    for (uint64_t i = 1; i < SOME; i++) {
        come(i, SOME);
    }
    w.now += 4 * SECOND;
    for (uint64_t i = 1; i < SOME; i++) {
        if (i != 7) {
            come(i, SOME);
        }
    }
    half(1, &last);
    assert_int_equal(last.said.answer, SNIB__QUEUED);
    do_all(0, &r);
    assert_int_equal(r.said.answer, SNIB__QUEUED);
    assert_false(write_it(1));
    finish_again(1);
    assert_int_equal(last.said.answer, SNIB__DONE);
}

/* A release finds one party too few, and the last one finds the lock held. */
static void a_release_conflicts_with_the_last_that_comes(void **state)
{
    struct snib__request r = acquire(99);
    (void)state;
    do_all(0, &r);
    for (uint64_t i = 1; i < SOME; i++) {
        come(i, SOME);
    }
    struct snib__request release = of(SNIB__RELEASE, &r);
    half(1, &release);
    come(SOME, SOME);
    assert_false(write_it(1));
    finish_again(1);
    assert_int_equal(release.said.answer, SNIB__DONE);
    assert_int_equal(w.s[1].tolds, SOME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STEP(a_party_that_waits_does_not_fetch_the_others),
        STEP(the_last_two_that_come_at_once_conflict),
        STEP(a_release_conflicts_with_the_last_that_comes),
        STEP(the_last_one_conflicts_with_one_that_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
