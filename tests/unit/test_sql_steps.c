/* store/sql: the ways of a request, what is waited for on the disk, and what
 * travels together. */
#include "sql_world.h"

/* -- the ways -------------------------------------------------------------- */

static void what_the_short_way_does_is_not_decided_again(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.takes = true;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(r.token, 42);
    assert_int_equal(w.fetch + w.write, 0);
}

static void what_the_short_way_leaves_is_decided(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(w.quick, 1);
    assert_int_equal(w.fetch, 1);
    assert_false(w.locked[0]);
    assert_true(w.durable[0]);
}

/* Each of these has something that one UPDATE cannot judge. */
static void what_needs_a_decision_is_not_tried_shortly(void **state)
{
    struct snib__request r[8];
    (void)state;
    for (int i = 0; i < 8; i++) {
        r[i] = acquire((uint64_t)i + 1);
    }
    r[0].acquire.kind = SNIB_KIND_READ;
    r[1].resent = true;
    r[2].token = 5;
    r[3].batch.number = 1;
    r[4].acquire.upgrade_of[1] = 3;
    r[5].acquire.placed = true;
    r[6] = verb(SNIB__CANCEL, 7);
    r[7] = verb(SNIB__RELEASE, 8);
    r[7].resent = true;
    for (int i = 0; i < 8; i++) {
        run(&r[i], NULL);
    }
    assert_int_equal(w.quick, 0);
    assert_true(w.fetch >= 8);
}

static void a_waiter_that_polls_is_confirmed_shortly(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    r.said.answer = SNIB__QUEUED;
    r.acquire.placed = true;
    w.takes = true;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(w.fetch, 0);
}

static void after_a_conflict_the_rows_are_locked(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.writes[0] = SNIB__SQL_CONFLICT;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_false(w.locked[0]);
    assert_true(w.locked[1]);
    assert_int_equal(w.paused, 1);
}

static void where_somebody_waits_the_rows_are_locked_at_once(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2), three = acquire(3);
    (void)state;
    run(&one, NULL);
    run(&two, NULL);
    assert_int_equal(two.said.answer, SNIB__QUEUED);
    run(&three, NULL); /* this one sees the second */
    int before = w.fetch;
    struct snib__request release = of(SNIB__RELEASE, &one);
    run(&release, NULL);
    assert_int_equal(release.said.answer, SNIB__DONE);
    assert_true(w.locked[before]);
}

static void a_locked_step_that_writes_nothing_lets_go(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    run(&one, NULL);
    w.fetches[w.fetch] = SNIB__SQL_CONFLICT;
    two.acquire.may_queue = false;
    run(&two, NULL);
    assert_int_equal(two.said.answer, SNIB__NO);
    assert_int_equal(w.left, 1);
}

static void conflicts_without_end_are_told_at_the_limit(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    for (int i = 0; i < 20; i++) {
        w.writes[i] = SNIB__SQL_CONFLICT;
    }
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__PENDING); /* it comes again */
    assert_true(r.exec.blocked);
    w.now = START + 2 * SECOND;
    w.write = 0;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(w.error.text, "again and again"));
}

static void conflicts_wait_longer_each_time(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    for (int i = 0; i < 6; i++) {
        w.writes[i] = SNIB__SQL_CONFLICT;
    }
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    /* Between half of 0.2 + … + 6.4 ms and one and a half times that. */
    assert_in_range(w.paused_ns, 6300000, 19000000);
}

/* -- what is durable, who is notified -------------------------------------- */

static void only_grants_are_waited_for_on_the_disk(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    run(&one, NULL);
    run(&two, NULL);
    assert_true(w.durable[0]);
    assert_false(w.durable[1]); /* a position in the queue */
    struct snib__request release = of(SNIB__RELEASE, &one);
    run(&release, NULL);
    assert_true(w.durable[2]); /* it grants the lock to the next one */
    run(&two, NULL);
    struct snib__request last = of(SNIB__RELEASE, &two);
    run(&last, NULL);
    assert_int_equal(last.said.answer, SNIB__DONE);
    assert_false(w.durable[w.write - 1]);
}

static void who_queues_has_said_before_how_it_is_notified(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    const void *about;
    size_t size;
    (void)state;
    run(&one, NULL);
    run(&two, NULL);
    struct snib__key key = {SNIB__KEY_CLAIM, &name, {2, 9}};
    assert_string_equal(
        claim_in(row_of(&w.table, &key), &about, &size).notifier, "7.a");
}

static void without_a_notifier_it_queues_all_the_same(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    w.listens = false;
    run(&one, NULL);
    run(&two, NULL);
    assert_int_equal(two.said.answer, SNIB__QUEUED);
}

static void who_renews_by_the_short_way_listens_again(void **state)
{
    struct snib__request one = acquire(1);
    (void)state;
    run(&one, NULL);
    struct snib__request renew = of(SNIB__RENEW, &one);
    renew.renew.listen = true;
    w.takes = true;
    assert_false(w.q.listens);
    run(&renew, NULL);
    assert_int_equal(renew.said.answer, SNIB__DONE);
    assert_true(w.q.listens);
    assert_string_equal(w.named, "7.a"); /* in the row, for who ends it */
}

/* The row keeps what stood there; the renewal was done all the same. */
static void
a_renewal_stays_done_when_the_row_cannot_name_the_channel(void **state)
{
    static const snib__sql_end ends[] = {SNIB__SQL_DOWN, SNIB__SQL_LOST,
                                         SNIB__SQL_CONFLICT};
    struct snib__request one = acquire(1);
    (void)state;
    run(&one, NULL);
    w.takes = true;
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        struct snib__request renew = of(SNIB__RENEW, &one);
        renew.renew.listen = true;
        w.q.listens = false;
        w.quicks[w.quick + 1] = ends[i];
        int before = w.quick;
        run(&renew, NULL);
        assert_int_equal(renew.said.answer, SNIB__DONE);
        assert_int_equal(w.quick, before + 2);
    }
    w.listens = w.q.listens = false;
    struct snib__request renew = of(SNIB__RENEW, &one);
    renew.renew.listen = true;
    int before = w.quick;
    run(&renew, NULL);
    assert_int_equal(w.quick, before + 1);
}

/* -- several at once ------------------------------------------------------- */

static void requests_for_different_locks_share_a_step(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    two.name = &name_b;
    run(&one, &two);
    assert_int_equal(one.said.answer, SNIB__DONE);
    assert_int_equal(two.said.answer, SNIB__DONE);
    assert_int_equal(w.write, 1);
}

static void requests_for_one_lock_go_one_after_the_other(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    run(&one, &two);
    assert_int_equal(one.said.answer, SNIB__DONE);
    assert_int_equal(two.said.answer, SNIB__QUEUED);
}

/* What is not done shortly is decided on one after the other. */
static void those_who_share_a_lock_are_renewed_together(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    one.acquire.kind = two.acquire.kind = SNIB_KIND_READ;
    run(&one, &two);
    struct snib__request a = of(SNIB__RENEW, &one), b = of(SNIB__RENEW, &two);
    w.takes = true;
    int quicks = w.quick, fetches = w.fetch;
    run(&a, &b);
    assert_int_equal(w.quick, quicks + 1);
    assert_int_equal(w.fetch, fetches);
    w.takes = false;
    a = of(SNIB__RENEW, &one);
    b = of(SNIB__RENEW, &two);
    run(&a, &b);
    assert_int_equal(a.said.answer, SNIB__DONE);
    assert_int_equal(b.said.answer, SNIB__DONE);
    assert_int_equal(w.fetch, fetches + 2);
}

static void one_that_spoils_a_step_is_tried_apart(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    struct snib__buf b;
    (void)state;
    snib__buf_init(&b, 100);
    snib__layout_put_lock(&b,
                          &(struct snib__lock_row){INT64_MAX, {.size = -1}});
    w.table.revision++;
    put_row(&w.table, &(struct snib__key){SNIB__KEY_LOCK, &name_b, {0}},
            snib__buf_bytes(&b), snib__buf_size(&b));
    snib__buf_free(&b);
    two.name = &name_b;
    run(&one, &two);
    assert_int_equal(one.said.answer, SNIB__DONE);
    assert_int_equal(two.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(two.said.err, SNIB_ERR_CORRUPT);
}

static void after_many_writes_the_cleaner_comes(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.q.writes = 4095;
    run(&r, NULL);
    assert_int_equal(w.cleaned, 1);
    assert_int_equal(w.q.writes, 0);
}

/* What stands behind a step is told of the queue only if the server answered. */
static void an_answer_of_the_server_is_told_when_it_comes(void **state)
{
    static const snib__verb verbs[] = {SNIB__ACQUIRE, SNIB__INSPECT,
                                       SNIB__VALUE_GET, SNIB__VALUE_PUT};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        struct snib__request r = verb(verbs[i], 1);
        r.resent = true; /* no short way */
        w.fetches[w.fetch] = SNIB__SQL_DOWN;
        run(&r, NULL);
        assert_int_equal(atomic_load(&r.exec.heard), 0);
        run(&r, NULL);
        assert_int_equal(atomic_load(&r.exec.heard), w.now);
    }
    struct snib__request r = acquire(2);
    w.quicks[w.quick] = SNIB__SQL_DOWN;
    run(&r, NULL);
    assert_int_equal(atomic_load(&r.exec.heard), 0);
    w.takes = true;
    run(&r, NULL);
    assert_int_equal(atomic_load(&r.exec.heard), w.now);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        STEP(what_the_short_way_does_is_not_decided_again),
        STEP(what_the_short_way_leaves_is_decided),
        STEP(what_needs_a_decision_is_not_tried_shortly),
        STEP(a_waiter_that_polls_is_confirmed_shortly),
        STEP(after_a_conflict_the_rows_are_locked),
        STEP(where_somebody_waits_the_rows_are_locked_at_once),
        STEP(a_locked_step_that_writes_nothing_lets_go),
        STEP(conflicts_without_end_are_told_at_the_limit),
        STEP(conflicts_wait_longer_each_time),
        STEP(only_grants_are_waited_for_on_the_disk),
        STEP(who_queues_has_said_before_how_it_is_notified),
        STEP(without_a_notifier_it_queues_all_the_same),
        STEP(who_renews_by_the_short_way_listens_again),
        STEP(a_renewal_stays_done_when_the_row_cannot_name_the_channel),
        STEP(requests_for_different_locks_share_a_step),
        STEP(requests_for_one_lock_go_one_after_the_other),
        STEP(those_who_share_a_lock_are_renewed_together),
        STEP(one_that_spoils_a_step_is_tried_apart),
        STEP(after_many_writes_the_cleaner_comes),
        STEP(an_answer_of_the_server_is_told_when_it_comes),
    };
    return RUN(cases);
}
