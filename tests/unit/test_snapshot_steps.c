/* core/snapshot: single steps, cut where it matters. */
#include "snapshot_step.h"

/* -- what a step guards and writes ----------------------------------------- */

static void a_free_lock_is_acquired_by_one_fetch_and_one_write(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    half(0, &r);
    assert_int_equal(w.s[0].guards, 4);
    assert_int_equal(guards(0, SNIB__KEY_LOCK, SNIB__GUARD_PUT), 1);
    assert_int_equal(guards(0, SNIB__KEY_CLAIM, SNIB__GUARD_PUT), 1);
    assert_int_equal(guards(0, SNIB__KEY_ARRIVALS, SNIB__GUARD_KEEP), 1);
    assert_int_equal(guards(0, SNIB__KEY_FLOOR, SNIB__GUARD_KEEP), 1);
    assert_true(write_it(0));
    snib__snapshot_written(&w.s[0]);
    assert_int_equal(r.said.answer, SNIB__DONE);
}

static void the_lease_counts_from_before_the_fetch(void **state)
{
    struct snib__request r = acquire(1);
    snib_instant sent = client_clock();
    (void)state;
    do_all(0, &r);
    assert_int_equal(r.said.valid_from.ns, sent.ns);
    assert_int_equal(r.said.left.ns, 10 * SECOND);
    struct snib__request renew = of(SNIB__RENEW, &r);
    w.now += 5 * SECOND;
    sent = client_clock();
    do_all(0, &renew);
    assert_int_equal(renew.said.valid_from.ns, sent.ns);
}

static void a_token_has_the_fraction_of_the_millisecond(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.now += 999 * MS / 1000;
    do_all(0, &r);
    assert_int_equal(r.token, (w.now / MS) * 1024 + 1022);
}

static void a_renewal_guards_its_own_row_alone(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    do_all(0, &r);
    struct snib__request renew = of(SNIB__RENEW, &r);
    half(0, &renew);
    assert_int_equal(w.s[0].guards, 1);
    assert_int_equal(guards(0, SNIB__KEY_CLAIM, SNIB__GUARD_PUT), 1);
    assert_true(write_it(0));
}

static void who_asks_says_how_it_is_notified_by_now(void **state)
{
    struct snib__request r = acquire(1);
    const void *about;
    size_t size;
    (void)state;
    do_all(0, &r);
    struct snib__request renew = of(SNIB__RENEW, &r);
    renew.renew.only_asks = true;
    start(0, &renew);
    assert_int_equal(decide(0), SNIB__SNAPSHOT_ANSWERED);
    renew.renew.listen = true;
    snprintf(w.s[0].notifier, sizeof w.s[0].notifier, "another");
    do_all(0, &renew);
    assert_int_equal(renew.said.answer, SNIB__DONE);
    const struct row *row =
        row_of(&w.table, &(struct snib__key){SNIB__KEY_CLAIM, &name, {1, 8}});
    assert_string_equal(claim_in(row, &about, &size).notifier, "another");
}

static void
a_look_at_a_claim_of_others_counts_as_a_look_at_the_lock(void **state)
{
    struct snib__request r = acquire(1);
    struct snib__book *book = &w.s[0].book;
    struct snib__stored_claim c;
    (void)state;
    start(0, &r);
    book->asker = &r;
    assert_false(book->ops->find(book, &name, r.id, &c));
    assert_false(w.s[0].lock[0].read);
    assert_false(book->ops->find(book, &name, (uint64_t[2]){1, 2}, &c));
    assert_true(w.s[0].lock[0].read);
}

static void a_try_that_is_refused_writes_nothing(void **state)
{
    struct snib__request r = acquire(1), try = acquire(2);
    (void)state;
    do_all(0, &r);
    try.acquire.may_queue = false;
    start(1, &try);
    assert_int_equal(decide(1), SNIB__SNAPSHOT_ANSWERED);
    assert_int_equal(try.said.answer, SNIB__NO);
    assert_int_equal(try.said.err, SNIB_ERR_BUSY);
    assert_int_equal(w.s[1].guards, 0);
}

/* -- conflicts ------------------------------------------------------------- */

static void an_arrival_behind_a_waiter_disturbs_no_release(void **state)
{
    struct snib__request r = acquire(1), second = acquire(2),
                         third = acquire(3);
    (void)state;
    r.acquire.priority =
        -1; /* a holder has left the queue, whatever its rank */
    do_all(0, &r);
    do_all(1, &second);
    struct snib__request release = of(SNIB__RELEASE, &r);
    half(0, &release);
    do_all(1, &third);
    assert_true(write_it(0));
    snib__snapshot_written(&w.s[0]);
    assert_int_equal(release.said.answer, SNIB__DONE);
    assert_int_equal(w.s[0].tolds, 1);
    assert_int_equal(w.s[0].told[0].request[0], 2);
    assert_string_equal(w.s[0].told[0].notifier, "notifier 1");
    assert_memory_equal(w.s[0].told[0].client, w.s[1].book.client, 16);
}

static void an_arrival_meets_the_release_of_a_lock_without_waiters(void **state)
{
    struct snib__request r = acquire(1), second = acquire(2);
    (void)state;
    do_all(0, &r);
    struct snib__request release = of(SNIB__RELEASE, &r);
    half(0, &release);
    do_all(1, &second);
    assert_int_equal(second.said.answer, SNIB__QUEUED);
    assert_false(write_it(0));
    finish_again(0);
    assert_int_equal(release.said.answer, SNIB__DONE);
    assert_int_equal(w.s[0].tolds, 1);
    assert_int_equal(w.s[0].told[0].request[0], 2);
}

static void a_release_meets_the_arrival_that_saw_its_grant(void **state)
{
    struct snib__request r = acquire(1), second = acquire(2);
    (void)state;
    do_all(0, &r);
    half(1, &second);
    struct snib__request release = of(SNIB__RELEASE, &r);
    do_all(0, &release);
    assert_false(write_it(1));
    finish_again(1);
    assert_int_equal(second.said.answer, SNIB__DONE);
}

static void one_of_higher_rank_conflicts_with_all_that_look(void **state)
{
    struct snib__request r = acquire(1), second = acquire(2),
                         first = acquire(3);
    (void)state;
    do_all(0, &r);
    do_all(1, &second);
    struct snib__request release = of(SNIB__RELEASE, &r);
    half(0, &release);
    first.acquire.priority = 1;
    do_all(1, &first);
    assert_false(write_it(0));
    finish_again(0);
    assert_int_equal(w.s[0].told[0].request[0], 3);
}

static void a_holder_that_renews_is_not_dropped(void **state)
{
    struct snib__request r = acquire(1), second = acquire(2);
    (void)state;
    do_all(0, &r);
    w.now += 5 * SECOND;
    struct snib__request renew = of(SNIB__RENEW, &r);
    half(0, &renew); /* in time */
    w.now += 6 * SECOND;
    half(1, &second); /* the lease is over, as it sees it */
    assert_true(write_it(0));
    assert_false(write_it(1));
    finish_again(1);
    assert_int_equal(second.said.answer, SNIB__QUEUED);
}

/* It keeps its rank while it is silent. One that queues ahead of it meanwhile
 * is not overlooked when it comes back and finds the lock free. */
static void an_unresponsive_waiter_comes_back_behind_who_is_ahead(void **state)
{
    struct snib__request reader = acquire(1), writer = acquire(2);
    struct snib__request passing = acquire(3), ahead = acquire(4);
    (void)state;
    reader.acquire.kind = passing.acquire.kind = SNIB_KIND_READ;
    writer.acquire.priority = -1;
    do_all(0, &reader);
    do_all(1, &writer);
    w.now += 4 * SECOND;
    do_all(0, &passing);
    struct snib__request release = of(SNIB__RELEASE, &passing);
    do_all(0, &release);
    w.now += 5 * SECOND;
    half(0, &ahead); /* the reader still holds */
    w.now += 2 * SECOND;
    half(1, &writer); /* it does not */
    assert_int_equal(writer.said.answer, SNIB__DONE);
    assert_true(write_it(0));
    assert_false(write_it(1));
    finish_again(1);
    assert_int_equal(writer.said.answer, SNIB__QUEUED);
    assert_int_equal(w.s[1].told[0].request[0], 4);
}

/* A party of a barrier that is silent is counted out; a release that saw that
 * must not leave the others waiting when it has come back. */
static void a_party_that_comes_back_is_not_overlooked(void **state)
{
    struct snib__request r = acquire(1), one = acquire(2), two = acquire(3);
    (void)state;
    do_all(0, &r);
    one.acquire.kind = two.acquire.kind = SNIB_KIND_BARRIER;
    one.acquire.permits = two.acquire.permits = 2;
    do_all(1, &one);
    do_all(1, &two);
    w.now += 4 * SECOND;
    do_all(1, &one); /* it polls; the other one is silent */
    struct snib__request release = of(SNIB__RELEASE, &r);
    half(0, &release);
    do_all(1, &two);
    assert_int_equal(two.said.answer, SNIB__QUEUED);
    assert_false(write_it(0));
    finish_again(0);
    assert_int_equal(w.s[0].tolds, 2);
}

/* The store sees that the first party is not connected any more. */
static void a_party_that_has_left_is_not_counted(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    struct snib__key key = {SNIB__KEY_CLAIM, &name, {1, 8}};
    (void)state;
    one.acquire.kind = two.acquire.kind = SNIB_KIND_BARRIER;
    one.acquire.permits = two.acquire.permits = 2;
    do_all(0, &one);
    assert_int_equal(one.said.answer, SNIB__QUEUED);
    for (int left = 1; left >= 0; left--) {
        start(1, &two);
        fetch(&w.table, &w.s[1], client_clock(), (snib_instant){w.now});
        if (left) {
            snib__snapshot_left(&w.s[1], &key);
        }
        assert_int_equal(snib__snapshot_decide(&w.s[1]), SNIB__SNAPSHOT_WRITE);
        assert_int_equal(two.said.answer, left ? SNIB__QUEUED : SNIB__DONE);
        snib__snapshot_again(&w.s[1]);
    }
}

/* That is known of waiters alone. */
static void a_holder_is_not_taken_for_gone(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    struct snib__key key = {SNIB__KEY_CLAIM, &name, {1, 8}};
    (void)state;
    do_all(0, &one);
    start(1, &two);
    fetch(&w.table, &w.s[1], client_clock(), (snib_instant){w.now});
    snib__snapshot_left(&w.s[1], &key);
    assert_int_equal(snib__snapshot_decide(&w.s[1]), SNIB__SNAPSHOT_WRITE);
    assert_int_equal(two.said.answer, SNIB__QUEUED);
}

static void a_conflict_gives_back_what_was_asked(void **state)
{
    struct snib__request r = acquire(1), other = acquire(2), yield = acquire(3);
    (void)state;
    do_all(0, &r);
    yield.token = r.token;
    yield.floor = 5;
    half(0, &yield);
    assert_true(yield.token != r.token);
    do_all(1, &other);
    assert_false(write_it(0));
    snib__snapshot_again(&w.s[0]);
    assert_int_equal(yield.token, r.token);
    assert_int_equal(yield.floor, 5);
    assert_int_equal(yield.said.answer, SNIB__PENDING);
    assert_int_equal(decide(0), SNIB__SNAPSHOT_WRITE);
    assert_int_equal(yield.said.answer, SNIB__QUEUED); /* the other was first */
    start(0, &yield);
    snib__snapshot_again(&w.s[0]);
    assert_int_equal(yield.said.answer, SNIB__QUEUED); /* it was a poll */
}

/* -- what gets lost -------------------------------------------------------- */

static void after_a_lost_reply_a_claim_is_found_by_its_id(void **state)
{
    struct snib__request r = acquire(1), again = acquire(1);
    int64_t token;
    (void)state;
    half(0, &r);
    token = r.token;
    assert_true(write_it(0));
    snib__snapshot_lost(&w.s[0]);
    assert_int_equal(r.said.answer, SNIB__UNKNOWN);
    assert_int_equal(r.said.err, SNIB_ERR_UNKNOWN);
    assert_int_equal(r.token, 0);
    again.resent = true;
    do_all(0, &again);
    assert_int_equal(again.said.answer, SNIB__DONE);
    assert_int_equal(again.token, token);
}

static void a_late_copy_of_what_was_cancelled_does_nothing(void **state)
{
    static struct message late;
    struct snib__request r = acquire(1), cancel = verb(SNIB__CANCEL, 1);
    struct snib__request count = verb(SNIB__PARAMS, 3);
    (void)state;
    half(0, &r);
    pack(&w.s[0], &late);
    snib__snapshot_lost(&w.s[0]);
    cancel.resent = true;
    do_all(0, &cancel);
    assert_int_equal(cancel.said.answer, SNIB__DONE);
    assert_false(apply(&w.table, &late, (snib_instant){w.now}));
    w.now += 11 * SECOND; /* the tombstone is gone */
    count.params.op = SNIB__PARAMS_OPEN;
    do_all(0, &count);
    assert_null(
        row_of(&w.table, &(struct snib__key){SNIB__KEY_CLAIM, &name, {1, 8}}));
    assert_false(apply(&w.table, &late, (snib_instant){w.now}));
}

/* It was allowed to queue at first, and is no more: what is told "no" must not
 * stand in the queue. */
static void a_try_meets_the_late_copy_of_itself_that_queues(void **state)
{
    struct snib__request r = acquire(1), late = acquire(2), first = acquire(3);
    struct snib__request try = acquire(2);
    (void)state;
    do_all(0, &r);
    w.now += 9 * SECOND;
    do_all(1, &first);
    half(1, &late);
    w.now += 2 * SECOND;
    try.acquire.may_queue = false;
    try.resent = true;
    half(0, &try); /* on the way the lock is granted to `first` */
    assert_int_equal(try.said.answer, SNIB__NO);
    assert_true(write_it(1));
    assert_false(write_it(0));
    finish_again(0);
    assert_int_equal(try.said.answer, SNIB__NO);
    assert_null(
        row_of(&w.table, &(struct snib__key){SNIB__KEY_CLAIM, &name, {2, 9}}));
}

static void a_client_that_was_frozen_begins_anew(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    half(0, &r);
    w.now += 11 * SECOND;
    assert_false(write_it(0));
    finish_again(0);
    assert_int_equal(r.said.answer, SNIB__DONE);
}

static void nothing_is_written_to_a_restored_backup(void **state)
{
    static struct table backup;
    struct snib__request r = acquire(1), second = acquire(2),
                         third = acquire(3);
    (void)state;
    do_all(0, &r);
    struct snib__request release = of(SNIB__RELEASE, &r);
    backup = w.table;
    do_all(0, &release);
    half(0, &third); /* the stamps that it saw are given again */
    w.table = backup;
    w.table.epoch++;
    do_all(1, &release);
    do_all(1, &second);
    assert_false(write_it(0));
    finish_again(0);
    assert_int_equal(second.said.answer, SNIB__DONE);
    assert_int_equal(third.said.answer, SNIB__QUEUED);
}

/* -- what is fetched ------------------------------------------------------- */

static void a_queue_that_was_cut_is_fetched_whole_where_it_matters(void **state)
{
    struct snib__request r = acquire(1), q[20];
    (void)state;
    do_all(0, &r);
    for (int i = 0; i < 20; i++) {
        q[i] = acquire((uint64_t)i + 10);
        do_all(1, &q[i]);
        assert_int_equal(q[i].said.position, i + 1);
    }
    struct snib__request release = of(SNIB__RELEASE, &r);
    do_all(0, &release); /* the first waiter is all that it looks at */
    assert_int_equal(w.s[0].waiters, SNIB__SNAPSHOT_WAITERS);
    w.now += 4 * SECOND; /* by now they are silent, one and all */
    struct snib__request last = acquire(99);
    start(0, &last);
    assert_int_equal(decide(0), SNIB__SNAPSHOT_FETCH);
    assert_int_equal(w.s[0].waiters, UINT32_MAX);
    assert_int_equal(decide(0), SNIB__SNAPSHOT_WRITE);
    assert_int_equal(last.said.answer, SNIB__DONE);
}

static void claims_that_do_not_wait_are_not_of_the_queue(void **state)
{
    struct snib__request gone = verb(SNIB__CANCEL, 9), r = acquire(1);
    struct snib__request first = acquire(2), second = acquire(3);
    (void)state;
    gone.resent = true;
    do_all(0, &gone); /* a tombstone, with a lower number than the waiters */
    do_all(0, &r);
    do_all(1, &first);
    do_all(1, &second);
    struct snib__request release = of(SNIB__RELEASE, &r);
    start(0, &release);
    w.s[0].waiters = 1;
    assert_int_equal(decide(0), SNIB__SNAPSHOT_WRITE);
}

static void
an_arrival_ahead_of_waiters_that_were_not_fetched_says_so(void **state)
{
    struct snib__request r = acquire(1), first = acquire(2), low = acquire(3);
    struct snib__request middle = acquire(4), behind = acquire(5);
    (void)state;
    low.acquire.priority = behind.acquire.priority = -1;
    do_all(0, &r);
    do_all(0, &first);
    do_all(0, &low);
    start(1, &middle);
    w.s[1].waiters = 1;
    assert_int_equal(decide(1), SNIB__SNAPSHOT_WRITE);
    assert_int_equal(guards(1, SNIB__KEY_LOCK, SNIB__GUARD_PUT), 1);
    start(1, &behind);
    w.s[1].waiters = 1;
    assert_int_equal(decide(1), SNIB__SNAPSHOT_WRITE);
    assert_int_equal(guards(1, SNIB__KEY_LOCK, SNIB__GUARD_KEEP), 1);
}

static void a_lock_row_is_made_from_the_floor_of_that_moment(void **state)
{
    struct snib__request size = verb(SNIB__PARAMS, 1), r = acquire(2);
    (void)state;
    size.params.op = SNIB__PARAMS_SIZE;
    size.params.amount = 3;
    half(0, &size);
    do_all(1, &r);
    struct snib__request release = of(SNIB__RELEASE, &r);
    do_all(1, &release);
    clean_up(); /* there is no lock row, as before */
    assert_false(write_it(0));
    finish_again(0);
    assert_int_equal(lock_in(lock_row(&w.table, &name)).token, r.token);
}

static void the_highest_token_is_asked_for_only_when_it_matters(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    r.floor = (w.now / MS + 90000000) * 1024;
    start(0, &r);
    assert_int_equal(decide(0), SNIB__SNAPSHOT_FETCH);
    assert_true(w.s[0].want_highest);
    assert_int_equal(decide(0), SNIB__SNAPSHOT_ANSWERED);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        STEP(a_free_lock_is_acquired_by_one_fetch_and_one_write),
        STEP(the_lease_counts_from_before_the_fetch),
        STEP(a_token_has_the_fraction_of_the_millisecond),
        STEP(a_renewal_guards_its_own_row_alone),
        STEP(who_asks_says_how_it_is_notified_by_now),
        STEP(a_look_at_a_claim_of_others_counts_as_a_look_at_the_lock),
        STEP(a_try_that_is_refused_writes_nothing),
        STEP(an_arrival_behind_a_waiter_disturbs_no_release),
        STEP(an_arrival_meets_the_release_of_a_lock_without_waiters),
        STEP(a_release_meets_the_arrival_that_saw_its_grant),
        STEP(one_of_higher_rank_conflicts_with_all_that_look),
        STEP(a_holder_that_renews_is_not_dropped),
        STEP(an_unresponsive_waiter_comes_back_behind_who_is_ahead),
        STEP(a_party_that_comes_back_is_not_overlooked),
        STEP(a_party_that_has_left_is_not_counted),
        STEP(a_holder_is_not_taken_for_gone),
        STEP(a_conflict_gives_back_what_was_asked),
        STEP(after_a_lost_reply_a_claim_is_found_by_its_id),
        STEP(a_late_copy_of_what_was_cancelled_does_nothing),
        STEP(a_try_meets_the_late_copy_of_itself_that_queues),
        STEP(a_client_that_was_frozen_begins_anew),
        STEP(nothing_is_written_to_a_restored_backup),
        STEP(a_queue_that_was_cut_is_fetched_whole_where_it_matters),
        STEP(claims_that_do_not_wait_are_not_of_the_queue),
        STEP(an_arrival_ahead_of_waiters_that_were_not_fetched_says_so),
        STEP(a_lock_row_is_made_from_the_floor_of_that_moment),
        STEP(the_highest_token_is_asked_for_only_when_it_matters),
    };
    return RUN(cases);
}
