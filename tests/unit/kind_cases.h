/* tests/unit/kind_cases.h — readers, writers, permits, barriers, lock-delay
 * and ranks: cases that every blocking store must pass (store_cases.h). */
#ifndef SNIB_TESTS_KIND_CASES_H
#define SNIB_TESTS_KIND_CASES_H

#include "store_cases.h"

static struct snib__request of_kind(const struct snib__name *n, snib_kind kind)
{
    struct snib__request r = request(SNIB__ACQUIRE, n);
    r.acquire.kind = kind;
    return r;
}

static struct snib__request ask(int peer, const struct snib__name *n,
                                snib_kind kind)
{
    struct snib__request r = of_kind(n, kind);
    run(peer, &r);
    return r;
}

static struct snib__request attempt(int peer, const struct snib__name *n,
                                    snib_kind kind)
{
    struct snib__request r = of_kind(n, kind);
    r.acquire.may_queue = false;
    run(peer, &r);
    return r;
}

static struct snib__request lot(int peer, const struct snib__name *n,
                                uint32_t permits, uint32_t capacity)
{
    struct snib__request r = of_kind(n, SNIB_KIND_PERMITS);
    r.acquire.permits = permits;
    r.acquire.capacity = capacity;
    run(peer, &r);
    return r;
}

static struct snib__request party_of(int peer, const struct snib__name *n,
                                     uint32_t parties)
{
    struct snib__request r = of_kind(n, SNIB_KIND_BARRIER);
    r.acquire.permits = parties;
    run(peer, &r);
    return r;
}

/* A request beside a grant of the same owner. */
static struct snib__request besides(int peer, const struct snib__name *n,
                                    snib_kind kind,
                                    const struct snib__request *grant)
{
    struct snib__request r = of_kind(n, kind);
    r.acquire.upgrade_of[0] = grant->id[0];
    r.acquire.upgrade_of[1] = grant->id[1];
    run(peer, &r);
    return r;
}

static snib__answer withdraw(int peer, const struct snib__request *r)
{
    struct snib__request v = turn_into(r, SNIB__CANCEL);
    v.token = 0;
    return run(peer, &v);
}

static int holders_at(int peer, const struct snib__name *n)
{
    return look(peer, n, SNIB__ROW_HOLDER, NULL);
}

/* -- readers and writers ------------------------------------------------------ */

static void readers_share_and_wait_behind_a_writer(void **state)
{
    (void)state;
    struct snib__name n = name_of("share");
    open_peers(4);
    struct snib__request a = ask(0, &n, SNIB_KIND_READ),
                         b = ask(0, &n, SNIB_KIND_READ);
    struct snib__request c = ask(1, &n, SNIB_KIND_READ);
    assert_int_equal(a.said.answer, SNIB__DONE);
    assert_int_equal(b.said.answer, SNIB__DONE);
    assert_int_equal(c.said.answer, SNIB__DONE);
    assert_int_equal(attempt(2, &n, SNIB_KIND_MUTEX).said.err, SNIB_ERR_BUSY);
    struct snib__request w = ask(2, &n, SNIB_KIND_WRITE);
    assert_int_equal(w.said.answer, SNIB__QUEUED);
    struct snib__request late = ask(3, &n, SNIB_KIND_READ);
    assert_int_equal(late.said.answer, SNIB__QUEUED);
    assert_int_equal(late.said.position, 2);
    assert_int_equal(attempt(3, &n, SNIB_KIND_READ).said.answer, SNIB__NO);
    assert_int_equal(end(0, &a), SNIB__DONE);
    assert_int_equal(end(0, &b), SNIB__DONE);
    assert_false(is_notified(2, &w));
    assert_int_equal(end(1, &c), SNIB__DONE);
    assert_true(is_notified(2, &w));
    assert_int_equal(poll_again(2, &w), SNIB__DONE);
    assert_true(w.token > a.token);
    assert_int_equal(poll_again(3, &late), SNIB__QUEUED);
    assert_int_equal(end(2, &w), SNIB__DONE);
    assert_int_equal(poll_again(3, &late), SNIB__DONE);
    assert_int_equal(late.token, w.token);
}

static void one_release_lets_all_readers_in(void **state)
{
    (void)state;
    enum { N = 40 };
    struct snib__name n = name_of("flood");
    open_peers(3);
    struct snib__request w = ask(0, &n, SNIB_KIND_WRITE), r[N];
    for (int i = 0; i < N; i++) {
        r[i] = ask(1 + i % 2, &n, SNIB_KIND_READ);
        assert_int_equal(r[i].said.answer, SNIB__QUEUED);
    }
    assert_int_equal(end(0, &w), SNIB__DONE);
    assert_int_equal(holders_at(0, &n), N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(poll_again(1 + i % 2, &r[i]), SNIB__DONE);
    }
}

static void an_expired_reader_gives_way_and_the_others_stay(void **state)
{
    (void)state;
    struct snib__name n = name_of("expired-reader");
    open_peers(3);
    struct snib__request a = ask(0, &n, SNIB_KIND_READ);
    struct snib__request b = of_kind(&n, SNIB_KIND_READ);
    b.lease = snib__ms(2000);
    assert_int_equal(run(1, &b), SNIB__DONE);
    struct snib__request w = ask(2, &n, SNIB_KIND_WRITE);
    kit.advance(1001);
    assert_int_equal(poll_again(2, &w), SNIB__QUEUED);
    assert_int_equal(holders_at(0, &n), 1);
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__NO);
    v = turn_into(&b, SNIB__RENEW);
    v.lease = snib__ms(1500);
    assert_int_equal(run(1, &v), SNIB__DONE);
    kit.advance(1200);
    assert_int_equal(poll_again(2, &w), SNIB__QUEUED);
    kit.advance(301);
    assert_int_equal(poll_again(2, &w), SNIB__DONE);
}

static void one_of_a_client_ends_without_the_others(void **state)
{
    (void)state;
    struct snib__name n = name_of("one-of");
    open_peers(2);
    struct snib__request a = ask(0, &n, SNIB_KIND_READ),
                         b = ask(0, &n, SNIB_KIND_READ);
    struct snib__request c = a;
    c.said.answer = SNIB__PENDING; /* the repeat after a lost reply */
    assert_int_equal(run(0, &c), SNIB__DONE);
    assert_int_equal(c.token, a.token);
    assert_int_equal(holders_at(0, &n), 2);
    assert_int_equal(withdraw(0, &a), SNIB__DONE);
    assert_int_equal(end(0, &a), SNIB__NO);
    assert_int_equal(holders_at(0, &n), 1);
    assert_int_equal(attempt(1, &n, SNIB_KIND_WRITE).said.answer, SNIB__NO);
    assert_int_equal(end(0, &b), SNIB__DONE);
    assert_int_equal(attempt(1, &n, SNIB_KIND_WRITE).said.answer, SNIB__DONE);
}

static void the_writer_reads_at_once_and_then_lets_readers_in(void **state)
{
    (void)state;
    struct snib__name n = name_of("downgrade");
    open_peers(3);
    struct snib__request w = ask(0, &n, SNIB_KIND_WRITE);
    struct snib__request b = ask(1, &n, SNIB_KIND_READ);
    struct snib__request x = ask(2, &n, SNIB_KIND_WRITE);
    struct snib__request r = besides(0, &n, SNIB_KIND_READ, &w);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(r.token, w.token);
    assert_int_equal(poll_again(1, &b), SNIB__QUEUED);
    assert_int_equal(end(0, &w), SNIB__DONE);
    assert_true(is_notified(1, &b));
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
    assert_int_equal(poll_again(2, &x), SNIB__QUEUED);
    assert_int_equal(end(1, &b), SNIB__DONE);
    assert_int_equal(poll_again(2, &x), SNIB__QUEUED);
    assert_int_equal(end(0, &r), SNIB__DONE);
    assert_int_equal(poll_again(2, &x), SNIB__DONE);
}

static void an_upgrade_goes_first_and_a_second_is_refused(void **state)
{
    (void)state;
    struct snib__name n = name_of("upgrade");
    open_peers(3);
    struct snib__request a = ask(0, &n, SNIB_KIND_READ),
                         b = ask(1, &n, SNIB_KIND_READ);
    struct snib__request w = of_kind(&n, SNIB_KIND_WRITE);
    w.acquire.priority = 100;
    assert_int_equal(run(2, &w), SNIB__QUEUED);
    struct snib__request up = besides(0, &n, SNIB_KIND_WRITE, &a);
    assert_int_equal(up.said.answer, SNIB__QUEUED);
    assert_int_equal(up.said.position, 1);
    struct snib__request second = besides(1, &n, SNIB_KIND_WRITE, &b);
    assert_int_equal(second.said.answer, SNIB__NO);
    assert_int_equal(second.said.err, SNIB_ERR_DEADLOCK);
    assert_int_equal(look(0, &n, SNIB__ROW_WAITER, NULL), 2);
    assert_int_equal(poll_again(0, &up), SNIB__QUEUED); /* not refused itself */
    assert_int_equal(end(1, &b), SNIB__DONE);
    assert_true(is_notified(0, &up));
    assert_int_equal(poll_again(0, &up), SNIB__DONE);
    assert_true(up.token > a.token);
    assert_int_equal(holders_at(0, &n), 2);
    assert_int_equal(end(0, &up), SNIB__DONE);
    assert_int_equal(poll_again(2, &w), SNIB__QUEUED);
    assert_int_equal(end(0, &a), SNIB__DONE);
    assert_int_equal(poll_again(2, &w), SNIB__DONE);
}

static void an_upgrade_beside_what_has_ended_is_lost(void **state)
{
    (void)state;
    struct snib__name n = name_of("beside-over");
    open_peers(3);
    struct snib__request a = ask(0, &n, SNIB_KIND_READ);
    struct snib__request b = of_kind(&n, SNIB_KIND_READ);
    b.lease = snib__ms(60000);
    run(1, &b);
    struct snib__request up = besides(0, &n, SNIB_KIND_WRITE, &a);
    assert_int_equal(up.said.answer, SNIB__QUEUED);
    kit.advance(1001); /* a is over */
    assert_int_equal(attempt(2, &n, SNIB_KIND_READ).said.answer, SNIB__DONE);
    assert_int_equal(poll_again(0, &up), SNIB__NO);
    assert_int_equal(up.said.err, SNIB_ERR_LOST);
    assert_int_equal(besides(0, &n, SNIB_KIND_READ, &a).said.err,
                     SNIB_ERR_LOST);
    assert_int_equal(look(0, &n, SNIB__ROW_WAITER, NULL), 0);
}

/* The first was silent and stepped aside; a reader that came in meanwhile
 * wants to write, too: one of the two must hear of it. */
static void two_upgrades_never_wait_for_each_other(void **state)
{
    (void)state;
    struct snib__name n = name_of("two-upgrades");
    open_peers(2);
    struct snib__request a = of_kind(&n, SNIB_KIND_READ);
    struct snib__request b = of_kind(&n, SNIB_KIND_READ);
    a.lease = b.lease = snib__ms(60000);
    run(0, &a);
    run(1, &b);
    struct snib__request one = besides(0, &n, SNIB_KIND_WRITE, &a);
    kit.advance(SNIB__ALIVE_MS + 1);
    assert_int_equal(attempt(1, &n, SNIB_KIND_READ).said.answer, SNIB__DONE);
    struct snib__request two = besides(1, &n, SNIB_KIND_WRITE, &b);
    assert_int_equal(two.said.answer, SNIB__QUEUED);
    poll_again(0, &one);
    poll_again(1, &two);
    assert_int_equal((one.said.err == SNIB_ERR_DEADLOCK) +
                         (two.said.err == SNIB_ERR_DEADLOCK),
                     1);
}

/* -- permits ------------------------------------------------------------------- */

static void permits_are_summed_and_given_in_order(void **state)
{
    (void)state;
    struct snib__name n = name_of("sum");
    open_peers(3);
    struct snib__request a = lot(0, &n, 2, 4), b = lot(0, &n, 2, 0);
    assert_int_equal(a.said.answer, SNIB__DONE);
    assert_int_equal(a.acquire.permits, 2);
    assert_int_equal(b.said.answer, SNIB__DONE);
    assert_true(b.token > a.token);
    struct snib__request big = lot(1, &n, 3, 0), small = lot(2, &n, 1, 0);
    assert_int_equal(big.said.answer, SNIB__QUEUED);
    assert_int_equal(small.said.answer, SNIB__QUEUED);
    assert_int_equal(end(0, &a), SNIB__DONE);
    assert_int_equal(poll_again(2, &small), SNIB__QUEUED); /* no overtaking */
    assert_int_equal(end(0, &b), SNIB__DONE);
    assert_int_equal(poll_again(1, &big), SNIB__DONE);
    assert_int_equal(poll_again(2, &small), SNIB__DONE);
    assert_int_equal(lot(0, &n, 1, 0).said.answer, SNIB__QUEUED);
}

static void the_size_is_set_by_the_first(void **state)
{
    (void)state;
    struct snib__name n = name_of("first-size");
    open_peers(2);
    assert_int_equal(lot(0, &n, 1, 0).said.err, SNIB_ERR_CONFIG);
    assert_int_equal(lot(0, &n, 2, 3).said.answer, SNIB__DONE);
    struct snib__request r = lot(1, &n, 4, 9);
    assert_int_equal(r.said.answer, SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_TOO_MANY);
    assert_non_null(strstr(r.said.reterr->text, "3 in all"));
    assert_int_equal(lot(1, &n, 2, 9).said.answer, SNIB__QUEUED);
    kit.advance(60000); /* nobody is left; the size is */
    assert_int_equal(lot(1, &n, 3, 0).said.answer, SNIB__DONE);
}

static void who_is_refused_sets_no_size(void **state)
{
    (void)state;
    struct snib__name n = name_of("refused-size");
    open_peers(1);
    assert_int_equal(lot(0, &n, 5, 3).said.err, SNIB_ERR_TOO_MANY);
    assert_int_equal(lot(0, &n, 1, 0).said.err, SNIB_ERR_CONFIG);
}

static void zero_permits_are_all_that_are_left(void **state)
{
    (void)state;
    struct snib__name n = name_of("drain");
    open_peers(2);
    struct snib__request a = lot(0, &n, 3, 10);
    struct snib__request r = of_kind(&n, SNIB_KIND_PERMITS);
    r.acquire.permits = 0;
    r.acquire.may_queue = false;
    assert_int_equal(run(1, &r), SNIB__DONE);
    assert_int_equal(r.acquire.permits, 7);
    struct snib__request none = of_kind(&n, SNIB_KIND_PERMITS);
    none.acquire.permits = 0;
    none.acquire.may_queue = false;
    assert_int_equal(run(0, &none), SNIB__NO);
    assert_int_equal(none.said.err, SNIB_ERR_BUSY);
    assert_int_equal(end(1, &r), SNIB__DONE);
    assert_int_equal(end(0, &a), SNIB__DONE);
    assert_int_equal(lot(0, &n, 10, 0).said.answer, SNIB__DONE);
}

/* The step that finds a lease over serves the queue, whatever it was asked. */
static void a_drain_of_nothing_serves_who_waits(void **state)
{
    (void)state;
    struct snib__name n = name_of("drain-none");
    open_peers(3);
    struct snib__request size = request(SNIB__PARAMS, &n);
    size.params.op = SNIB__PARAMS_SIZE;
    assert_int_equal(run(0, &size), SNIB__DONE); /* to 0 */
    ask(0, &n, SNIB_KIND_MUTEX);
    struct snib__request b = ask(1, &n, SNIB_KIND_MUTEX);
    assert_int_equal(b.said.answer, SNIB__QUEUED);
    kit.advance(1001);
    struct snib__request none = of_kind(&n, SNIB_KIND_PERMITS);
    none.acquire.permits = 0;
    none.acquire.may_queue = false;
    assert_int_equal(run(2, &none), SNIB__NO);
    assert_true(is_notified(1, &b));
    assert_int_equal(holders_at(2, &n), 1);
}

static void permits_of_the_dead_come_back_by_their_lease(void **state)
{
    (void)state;
    struct snib__name n = name_of("dead-permits");
    open_peers(2);
    struct snib__request a = lot(0, &n, 2, 2);
    struct snib__request b = lot(1, &n, 1, 0);
    kit.advance(800);
    assert_int_equal(poll_again(1, &b), SNIB__QUEUED);
    kit.advance(201);
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
    assert_int_equal(end(0, &a), SNIB__NO);
    assert_int_equal(lot(0, &n, 1, 0).said.answer, SNIB__DONE);
}

/* -- barriers -------------------------------------------------------------------- */

static void a_barrier_opens_for_all_with_one_token(void **state)
{
    (void)state;
    struct snib__name n = name_of("barrier");
    open_peers(3);
    int64_t last = 0;
    for (int generation = 0; generation < 2; generation++) {
        struct snib__request a = party_of(0, &n, 3), b = party_of(1, &n, 3);
        assert_int_equal(a.said.answer, SNIB__QUEUED);
        assert_int_equal(b.said.answer, SNIB__QUEUED);
        assert_int_equal(holders_at(0, &n), 0);
        struct snib__request c = party_of(2, &n, 3);
        assert_int_equal(c.said.answer, SNIB__DONE);
        assert_true(is_notified(0, &a));
        assert_true(is_notified(1, &b));
        assert_int_equal(poll_again(0, &a), SNIB__DONE);
        assert_int_equal(poll_again(1, &b), SNIB__DONE);
        assert_int_equal(a.token, c.token);
        assert_int_equal(b.token, c.token);
        assert_true(c.token > last);
        last = c.token;
        assert_int_equal(end(0, &a), SNIB__DONE);
        assert_int_equal(end(1, &b), SNIB__DONE);
        assert_int_equal(end(2, &c), SNIB__DONE);
    }
}

static void silent_and_cancelled_parties_do_not_count(void **state)
{
    (void)state;
    struct snib__name n = name_of("absent");
    open_peers(4);
    struct snib__request gone = party_of(0, &n, 2);
    withdraw(0, &gone);
    struct snib__request silent = party_of(0, &n, 2);
    assert_int_equal(silent.said.answer, SNIB__QUEUED);
    kit.advance(SNIB__ALIVE_MS + 1);
    struct snib__request a = party_of(1, &n, 2);
    assert_int_equal(a.said.answer, SNIB__QUEUED);
    assert_int_equal(party_of(2, &n, 2).said.answer, SNIB__DONE);
    assert_int_equal(poll_again(1, &a), SNIB__DONE);
    assert_int_equal(poll_again(0, &silent), SNIB__QUEUED);
}

/* More than are looked at one by one, and one of them is silent. */
static void a_barrier_of_many_opens_with_the_last_that_is_alive(void **state)
{
    enum { PARTIES = 12, SILENT = 5 };
    (void)state;
    struct snib__name n = name_of("many");
    struct snib__request r[PARTIES + 1];
    open_peers(3);
    for (int i = 0; i < PARTIES - 1; i++) {
        r[i] = party_of(i % 3, &n, PARTIES);
        assert_int_equal(r[i].said.answer, SNIB__QUEUED);
    }
    kit.advance(SNIB__ALIVE_MS + 1);
    for (int i = 0; i < PARTIES - 1; i++) {
        if (i != SILENT) {
            assert_int_equal(poll_again(i % 3, &r[i]), SNIB__QUEUED);
        }
    }
    r[PARTIES - 1] = party_of(2, &n, PARTIES);
    assert_int_equal(r[PARTIES - 1].said.answer, SNIB__QUEUED);
    r[PARTIES] = party_of(0, &n, PARTIES);
    assert_int_equal(r[PARTIES].said.answer, SNIB__DONE);
    assert_int_equal(holders_at(0, &n), PARTIES);
    for (int i = 0; i < PARTIES; i++) {
        if (i != SILENT) {
            assert_int_equal(poll_again(i % 3, &r[i]), SNIB__DONE);
            assert_int_equal(r[i].token, r[PARTIES].token);
        }
    }
    assert_int_equal(poll_again(SILENT % 3, &r[SILENT]), SNIB__QUEUED);
}

/* What the answer to the CANCEL says of its grant: the others go on the strength
 * of it. Once more, by a copy; and nothing of one that was not granted. */
static void a_cancelled_party_hears_whether_it_was_counted(void **state)
{
    (void)state;
    struct snib__name n = name_of("counted");
    open_peers(3);
    struct snib__request a = party_of(0, &n, 2), b = party_of(1, &n, 2);
    assert_int_equal(b.said.answer, SNIB__DONE);
    struct snib__request v = turn_into(&a, SNIB__CANCEL);
    for (int copy = 0; copy < 3; copy++) {
        v.token = 0;
        v.resent = copy > 0;
        v.said.granted = -1;
        assert_int_equal(run(0, &v), SNIB__DONE);
        assert_int_equal(v.said.granted, b.token);
    }
    assert_int_equal(holders_at(0, &n), 1);
    assert_int_equal(end(1, &b), SNIB__DONE);
    struct snib__request c = party_of(2, &n, 2);
    for (int waits = 1; waits >= 0; waits--) {
        v = turn_into(&c, SNIB__CANCEL);
        v.token = 0;
        v.said.granted = -1;
        assert_int_equal(run(2, &v), SNIB__DONE);
        assert_int_equal(v.said.granted, 0);
    }
}

static void parties_of_different_sizes_are_no_generation(void **state)
{
    (void)state;
    struct snib__name n = name_of("sizes");
    open_peers(4);
    struct snib__request a = party_of(0, &n, 2);
    assert_int_equal(party_of(1, &n, 3).said.answer, SNIB__QUEUED);
    assert_int_equal(party_of(2, &n, 3).said.answer, SNIB__QUEUED);
    assert_int_equal(party_of(3, &n, 3).said.answer, SNIB__QUEUED);
    assert_int_equal(holders_at(0, &n), 0);
    assert_int_equal(poll_again(0, &a), SNIB__QUEUED);
    withdraw(0, &a);
    assert_int_equal(holders_at(0, &n), 3);
}

static void the_last_party_stands_ahead_of_lower_ranks(void **state)
{
    (void)state;
    struct snib__name n = name_of("party-rank");
    open_peers(4);
    struct snib__request a = party_of(0, &n, 3), b = party_of(1, &n, 3);
    struct snib__request low = of_kind(&n, SNIB_KIND_MUTEX);
    low.acquire.priority = -1;
    assert_int_equal(run(2, &low), SNIB__QUEUED);
    struct snib__request last = party_of(3, &n, 3);
    assert_int_equal(last.said.answer, SNIB__DONE);
    assert_int_equal(poll_again(0, &a), SNIB__DONE);
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
    assert_int_equal(a.token, last.token);
    assert_int_equal(b.token, last.token);
    assert_int_equal(poll_again(2, &low), SNIB__QUEUED);
}

/* A newcomer to whom the same step opens a barrier of its own. */
static void each_generation_has_its_own_token(void **state)
{
    (void)state;
    struct snib__name n = name_of("generations");
    open_peers(4);
    ask(0, &n, SNIB_KIND_WRITE);
    kit.advance(500);
    struct snib__request a = party_of(1, &n, 2), b = party_of(2, &n, 2);
    kit.advance(501);
    struct snib__request alone = party_of(3, &n, 1);
    assert_int_equal(alone.said.answer, SNIB__DONE);
    assert_int_equal(poll_again(1, &a), SNIB__DONE);
    assert_int_equal(poll_again(2, &b), SNIB__DONE);
    assert_int_equal(a.token, b.token);
    assert_true(alone.token > a.token);
}

/* -- lock-delay and rank ---------------------------------------------------------- */

static void a_lock_delay_counts_from_an_end_without_release(void **state)
{
    (void)state;
    static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_READ,
                                      SNIB_KIND_PERMITS};
    open_peers(2);
    for (int i = 0; i < 3; i++) {
        char text[16];
        snprintf(text, sizeof text, "delay%d", i);
        struct snib__name n = name_of(text);
        struct snib__request a = of_kind(&n, kinds[i]);
        a.acquire.delay = snib__ms(2000);
        a.acquire.capacity = 1;
        assert_int_equal(run(0, &a), SNIB__DONE);
        struct snib__request v = turn_into(&a, SNIB__RENEW);
        kit.advance(500);
        assert_int_equal(run(0, &v), SNIB__DONE);
        kit.advance(1001); /* over for its owner */
        assert_int_equal(run(0, &v), SNIB__NO);
        struct snib__request r = attempt(1, &n, SNIB_KIND_WRITE);
        assert_int_equal(r.said.answer, SNIB__NO);
        assert_true(r.said.left.ns > 0 && r.said.left.ns <= snib__ms(2000).ns);
        kit.advance(1800);
        assert_int_equal(attempt(1, &n, SNIB_KIND_WRITE).said.answer, SNIB__NO);
        kit.advance(201);
        r = attempt(1, &n, SNIB_KIND_WRITE);
        assert_int_equal(r.said.answer, SNIB__DONE);
        end(1, &r);
        assert_int_equal(run(0, &a), SNIB__DONE); /* and by a release: */
        assert_int_equal(end(0, &a), SNIB__DONE);
        assert_int_equal(attempt(1, &n, SNIB_KIND_WRITE).said.answer,
                         SNIB__DONE);
    }
}

static void higher_ranks_go_first_and_equals_in_order(void **state)
{
    (void)state;
    static const int8_t rank[] = {0, -100, 100, 0, 100};
    static const int order[] = {2, 4, 0, 3, 1};
    enum { N = 5 };
    struct snib__name n = name_of("rank");
    open_peers(N + 1);
    struct snib__request held = ask(N, &n, SNIB_KIND_MUTEX), r[N];
    int peer = N;
    for (int i = 0; i < N; i++) {
        r[i] = of_kind(&n, SNIB_KIND_MUTEX);
        r[i].acquire.priority = rank[i];
        assert_int_equal(run(i, &r[i]), SNIB__QUEUED);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(end(peer, &held), SNIB__DONE);
        peer = order[i];
        assert_int_equal(poll_again(peer, &r[peer]), SNIB__DONE);
        held = r[peer];
    }
}

/* -- force, and a walk ------------------------------------------------------------- */

static void force_ends_all_that_share_and_tells_each(void **state)
{
    (void)state;
    struct snib__name n = name_of("force-all");
    open_peers(3);
    struct snib__request a = ask(0, &n, SNIB_KIND_READ), b = lot(1, &n, 2, 2);
    struct snib__request w = ask(2, &n, SNIB_KIND_WRITE);
    struct snib__request f = request(SNIB__FORCE, &n);
    assert_int_equal(run(2, &f), SNIB__DONE);
    assert_int_equal(poll_again(2, &w), SNIB__DONE);
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__NO);
    assert_true(v.said.revoked);
    v = turn_into(&b, SNIB__RENEW);
    assert_int_equal(run(1, &v), SNIB__NO);
    assert_true(v.said.revoked);
    assert_int_equal(end(2, &w), SNIB__DONE);
    assert_int_equal(lot(1, &n, 2, 0).said.answer, SNIB__DONE);
}

struct walker {
    struct snib__request r;
    bool live, holds;
    int64_t ends; /* until then it holds by its own account */
};

/* Nobody beside an exclusive grant, and no more permits than there are, by
 * what the owners themselves believe. */
static void check_walk(const struct walker *w, int count, int64_t now)
{
    int all = 0, exclusive = 0;
    uint32_t permits = 0;
    for (int i = 0; i < count; i++) {
        if (!w[i].live || !w[i].holds || now >= w[i].ends) {
            continue;
        }
        all++;
        exclusive += w[i].r.acquire.kind == SNIB_KIND_WRITE ||
                     w[i].r.acquire.kind == SNIB_KIND_MUTEX;
        permits += w[i].r.acquire.kind == SNIB_KIND_PERMITS
                       ? w[i].r.acquire.permits
                       : 0;
    }
    assert_true(exclusive == 0 || all == 1);
    assert_true(permits <= 5);
}

static void a_random_walk_of_all_kinds_keeps_the_rules(void **state)
{
    (void)state;
    enum { N = 10 };
    struct snib__name n = name_of("kinds-walk");
    struct walker w[N] = {0};
    uint64_t seed = 815;
    int grants = 0;
    open_peers(5);
    for (int step = 0; step < 8000; step++) {
        int i = (int)(dice(&seed) % N), peer = i % 5;
        uint32_t what = dice(&seed) % 8;
        struct snib__request *r = &w[i].r;
        if (!w[i].live) {
            static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_READ,
                                              SNIB_KIND_READ, SNIB_KIND_WRITE,
                                              SNIB_KIND_PERMITS};
            *r = of_kind(&n, kinds[dice(&seed) % 5]);
            r->acquire.permits = r->acquire.kind == SNIB_KIND_PERMITS
                                     ? 1 + dice(&seed) % 5
                                     : r->acquire.permits;
            r->acquire.capacity = 5;
            r->lease = snib__ms(100 + dice(&seed) % 400);
            r->acquire.delay = snib__ms(dice(&seed) % 8 == 0 ? 150 : 0);
            r->acquire.priority = (int8_t)(dice(&seed) % 3);
            r->acquire.may_queue = dice(&seed) % 4 != 0;
            w[i].live = true;
            w[i].holds = false;
        }
        if (what < 4 && !w[i].holds) {
            if (run(peer, r) == SNIB__DONE) {
                w[i].holds = true;
                w[i].ends = snib__after(r->said.valid_from, r->said.left).ns;
                grants++;
            } else if (r->said.answer == SNIB__NO) {
                w[i].live = false;
            }
        } else if (what == 4 && w[i].holds) {
            struct snib__request v = turn_into(r, SNIB__RENEW);
            if (run(peer, &v) == SNIB__DONE) {
                w[i].ends = snib__after(v.said.valid_from, v.said.left).ns;
            } else {
                assert_true(kit.now(peer).ns >= w[i].ends);
                w[i].live = false;
            }
        } else if (what == 5 && w[i].holds) {
            assert_true(end(peer, r) == SNIB__DONE ||
                        kit.now(peer).ns >= w[i].ends);
            w[i].live = false;
        } else if (what == 6 && dice(&seed) % 2) {
            assert_int_equal(withdraw(peer, r), SNIB__DONE);
            w[i].live = false;
        } else {
            kit.advance(dice(&seed) % 60);
        }
        check_walk(w, N, kit.now(peer).ns);
    }
    assert_true(grants > 200);
}

#define KIND_CASES                                                             \
    CASE(readers_share_and_wait_behind_a_writer),                              \
        CASE(one_release_lets_all_readers_in),                                 \
        CASE(an_expired_reader_gives_way_and_the_others_stay),                 \
        CASE(one_of_a_client_ends_without_the_others),                         \
        CASE(the_writer_reads_at_once_and_then_lets_readers_in),               \
        CASE(an_upgrade_goes_first_and_a_second_is_refused),                   \
        CASE(an_upgrade_beside_what_has_ended_is_lost),                        \
        CASE(two_upgrades_never_wait_for_each_other),                          \
        CASE(permits_are_summed_and_given_in_order),                           \
        CASE(the_size_is_set_by_the_first), CASE(who_is_refused_sets_no_size), \
        CASE(zero_permits_are_all_that_are_left),                              \
        CASE(a_drain_of_nothing_serves_who_waits),                             \
        CASE(permits_of_the_dead_come_back_by_their_lease),                    \
        CASE(a_barrier_opens_for_all_with_one_token),                          \
        CASE(a_barrier_of_many_opens_with_the_last_that_is_alive),             \
        CASE(silent_and_cancelled_parties_do_not_count),                       \
        CASE(a_cancelled_party_hears_whether_it_was_counted),                  \
        CASE(parties_of_different_sizes_are_no_generation),                    \
        CASE(the_last_party_stands_ahead_of_lower_ranks),                      \
        CASE(each_generation_has_its_own_token),                               \
        CASE(a_lock_delay_counts_from_an_end_without_release),                 \
        CASE(higher_ranks_go_first_and_equals_in_order),                       \
        CASE(force_ends_all_that_share_and_tells_each),                        \
        CASE(a_random_walk_of_all_kinds_keeps_the_rules)

#endif
