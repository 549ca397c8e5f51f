/* tests/unit/test_etcd_guess.c — what the store etcd: knows of a name without a
 * fetch (guess.c), and what it does when others were there unseen. */
#include "etcd_world.h"

enum { VAIN = 8 };

/* How many calls this takes. */
static int calls_of(struct snib__request *r, snib__answer expected)
{
    w.calls = 0;
    assert_int_equal(ask(r), expected);
    return w.calls;
}

static struct etcd_guess *slot(void)
{
    return &w.e->guess[name_n.hash % ETCD_GUESSES];
}

/* What is known now, to be put back behind what others did unseen. */
static struct etcd_guess known(void)
{
    struct etcd_guess g = *slot();
    assert_true(g.at.ns > 0);
    snib__buf_init(&g.bytes, SNIB__H2_IN);
    snib__buf_add(&g.bytes, snib__buf_bytes(&slot()->bytes),
                  snib__buf_size(&slot()->bytes));
    snib__buf_init(&g.others, ETCD_SEEN_MAX);
    snib__buf_add(&g.others, snib__buf_bytes(&slot()->others),
                  snib__buf_size(&slot()->others));
    return g;
}

static void put_back(struct etcd_guess g)
{
    snib__buf_free(&slot()->bytes);
    snib__buf_free(&slot()->others);
    *slot() = g;
}

/* It has been held once, and nobody else is there. */
static struct snib__request left_by(uint64_t id)
{
    struct snib__request r = asks(SNIB__ACQUIRE, id);
    assert_int_equal(ask(&r), SNIB__DONE);
    struct snib__request end = ends(SNIB__RELEASE, &r);
    assert_int_equal(ask(&end), SNIB__DONE);
    return r;
}

static void a_section_alone_is_two_calls(void **state)
{
    int64_t last = 0;
    (void)state;
    for (uint64_t i = 1; i < 6; i++) {
        struct snib__request r = asks(SNIB__ACQUIRE, i);
        assert_int_equal(calls_of(&r, SNIB__DONE), i == 1 ? 2 : 1);
        assert_true(r.token > last);
        assert_non_null(claim_of(&r));
        assert_true(left_of(claim_of(&r)) >= 30);
        last = r.token;
        pass(10);
        struct snib__request end = ends(SNIB__RELEASE, &r);
        assert_int_equal(calls_of(&end, SNIB__DONE), 1);
        assert_null(claim_of(&r));
    }
}

static void a_lease_counts_from_before_its_only_call(void **state)
{
    (void)state;
    (void)left_by(1);
    struct snib__request r = asks(SNIB__ACQUIRE, 2);
    snib_instant sent = w.now;
    start(&r);
    w.now = snib__after(w.now, snib__ms(300));
    w.calls = 0;
    serve();
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(w.calls, 1);
    assert_true(r.said.valid_from.ns <= sent.ns);
}

static void who_came_unseen_is_let_in_by_the_release(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    assert_int_equal(ask(&r), SNIB__DONE);
    struct etcd_guess g = known();
    struct snib__request waits = asks(SNIB__ACQUIRE, 2);
    assert_int_equal(ask(&waits), SNIB__QUEUED);
    put_back(g);
    struct snib__request end = ends(SNIB__RELEASE, &r);
    assert_int_equal(calls_of(&end, SNIB__DONE), 2); /* a conflict, a write */
    pass(2000);
    assert_true(answered(&waits));
    assert_int_equal(waits.said.answer, SNIB__DONE);
    assert_true(waits.token > r.token);
}

static void who_holds_unseen_is_not_overlooked(void **state)
{
    (void)state;
    (void)left_by(1);
    struct etcd_guess g = known();
    struct snib__request holds = asks(SNIB__ACQUIRE, 2);
    assert_int_equal(ask(&holds), SNIB__DONE);
    put_back(g);
    struct snib__request tries = asks(SNIB__ACQUIRE, 3);
    tries.acquire.may_queue = false;
    assert_int_equal(calls_of(&tries, SNIB__NO), 1); /* it had the rows */
    assert_null(claim_of(&tries));
    assert_int_equal(slot()->at.ns, 0);
    struct snib__request renew = ends(SNIB__RENEW, &holds);
    assert_int_equal(ask(&renew), SNIB__DONE);
}

/* The release lets him in, so the row is as this client has left it. */
static void who_is_let_in_by_the_release_is_not_overlooked(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    assert_int_equal(ask(&r), SNIB__DONE);
    static struct snib__request waits;
    waits = asks(SNIB__ACQUIRE, 2);
    assert_int_equal(ask(&waits), SNIB__QUEUED);
    struct snib__request end = ends(SNIB__RELEASE, &r);
    assert_int_equal(ask(&end), SNIB__DONE);
    struct snib__request tries = asks(SNIB__ACQUIRE, 3);
    tries.acquire.may_queue = false;
    assert_int_equal(ask(&tries), SNIB__NO);
    answered(&waits);
}

/* One reader goes: nothing is known, since another one is there. */
static void a_reader_that_stays_is_not_overlooked(void **state)
{
    struct snib__request r[2];
    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        r[i] = asks(SNIB__ACQUIRE, 1 + i);
        r[i].acquire.kind = SNIB_KIND_READ;
        assert_int_equal(ask(&r[i]), SNIB__DONE);
    }
    struct snib__request end = ends(SNIB__RELEASE, &r[1]);
    assert_int_equal(ask(&end), SNIB__DONE);
    struct snib__request writes = asks(SNIB__ACQUIRE, 3);
    writes.acquire.kind = SNIB_KIND_WRITE;
    writes.acquire.may_queue = false;
    assert_int_equal(ask(&writes), SNIB__NO);
}

/* While its lock-delay runs its claim is still there. */
static void a_release_behind_the_lease_is_told_that(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    r.lease = snib__ms(1000);
    r.acquire.delay = snib__ms(20000);
    assert_int_equal(ask(&r), SNIB__DONE);
    pass(2000);
    assert_non_null(claim_of(&r));
    struct snib__request end = ends(SNIB__RELEASE, &r);
    assert_int_equal(ask(&end), SNIB__NO);
}

/* What is put into the queue is what was fetched. */
static void who_queues_has_fetched(void **state)
{
    (void)state;
    struct snib__request holds = asks(SNIB__ACQUIRE, 1);
    static struct snib__request waits;
    assert_int_equal(ask(&holds), SNIB__DONE);
    waits = asks(SNIB__ACQUIRE, 2);
    assert_int_equal(calls_of(&waits, SNIB__QUEUED), 2);
    answered(&waits);
}

/* What is known says that it holds, but somebody has ended it by force. */
static void a_grant_is_not_told_by_what_is_known(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    assert_int_equal(ask(&r), SNIB__DONE);
    int64_t token = r.token;
    struct etcd_guess g = known();
    struct snib__request end = ends(SNIB__RELEASE, &r);
    assert_int_equal(ask(&end), SNIB__DONE);
    put_back(g);
    r = asks(SNIB__ACQUIRE, 1);
    assert_int_equal(ask(&r), SNIB__DONE);
    assert_true(r.token > token);
    assert_non_null(claim_of(&r));
}

/* -- in a crowd -------------------------------------------------------------------- */

static struct snib__etcd_text text_of(const struct model_key *k)
{
    assert_non_null(k);
    return (struct snib__etcd_text){k->key, k->size};
}

/* The second of them has been let in by the first one's release. */
static void let_in(struct snib__request crowd[], int count)
{
    for (int i = 0; i < count; i++) {
        crowd[i] = asks(SNIB__ACQUIRE, (uint64_t)i + 1);
        assert_int_equal(ask(&crowd[i]), i ? SNIB__QUEUED : SNIB__DONE);
        pass(i == 1 ? 500 : 0); /* the others ask later than the second */
    }
    struct snib__request end = ends(SNIB__RELEASE, &crowd[0]);
    assert_int_equal(ask(&end), SNIB__DONE);
    for (int i = 0; i < 20 && !answered(&crowd[1]); i++) {
        pass(100);
    }
    assert_int_equal(crowd[1].said.answer, SNIB__DONE);
}

static void who_was_let_in_releases_by_what_it_saw(void **state)
{
    static struct snib__request crowd[4];
    (void)state;
    let_in(crowd, 4);
    struct snib__request end = ends(SNIB__RELEASE, &crowd[1]);
    assert_int_equal(calls_of(&end, SNIB__DONE), 1);
    assert_null(claim_of(&crowd[1]));
    pass(1500);
    assert_true(answered(&crowd[2]));
    assert_int_equal(crowd[2].said.answer, SNIB__DONE);
    assert_true(crowd[2].token > crowd[1].token);
    assert_int_not_equal(crowd[3].said.answer, SNIB__DONE);
}

/* A server takes 128 operations. */
static void a_release_among_too_many_holders_fetches(void **state)
{
    enum { MANY = 114 };
    (void)state;
    struct snib__request reader;
    for (uint64_t i = 0; i < MANY; i++) {
        reader = asks(SNIB__ACQUIRE, i + 1);
        reader.acquire.kind = SNIB_KIND_READ;
        assert_int_equal(ask(&reader), SNIB__DONE);
    }
    assert_non_null(claim_of(&reader));
    struct snib__request end = ends(SNIB__RELEASE, &reader);
    assert_int_equal(calls_of(&end, SNIB__DONE), 2);
}

/* Who waits asks each second, so what was seen is soon others'. */
static void what_was_seen_of_others_is_soon_fetched(void **state)
{
    static struct snib__request crowd[3];
    (void)state;
    let_in(crowd, 3);
    pass(260);
    struct snib__request end = ends(SNIB__RELEASE, &crowd[1]);
    assert_true(calls_of(&end, SNIB__DONE) > 1);
}

/* Who is not let in is not compared: he puts his row anew each second. */
static void who_waits_behind_the_next_one_may_ask_meanwhile(void **state)
{
    static struct snib__request crowd[4];
    (void)state;
    let_in(crowd, 4);
    find_key(text_of(claim_of(&crowd[3])))->mod = ++w.revision;
    struct snib__request end = ends(SNIB__RELEASE, &crowd[1]);
    assert_int_equal(calls_of(&end, SNIB__DONE), 1);
}

static void nobody_is_let_in_who_has_left_unseen(void **state)
{
    static struct snib__request crowd[4];
    (void)state;
    let_in(crowd, 4);
    struct etcd_guess g = known();
    struct snib__request cancel = ends(SNIB__CANCEL, &crowd[2]);
    assert_int_equal(ask(&cancel), SNIB__DONE);
    assert_true(answered(&crowd[2]));
    put_back(g);
    struct snib__request end = ends(SNIB__RELEASE, &crowd[1]);
    assert_int_equal(calls_of(&end, SNIB__DONE), 2);
    assert_null(claim_of(&crowd[2]));
    pass(1500);
    assert_true(answered(&crowd[3]));
    assert_int_equal(crowd[3].said.answer, SNIB__DONE);
}

/* Somebody has waited there once, so there is a number of the last arrival. */
static void the_number_of_arrivals_is_known(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    static struct snib__request waits;
    assert_int_equal(ask(&r), SNIB__DONE);
    waits = asks(SNIB__ACQUIRE, 2);
    assert_int_equal(ask(&waits), SNIB__QUEUED);
    struct snib__request end = ends(SNIB__RELEASE, &r);
    assert_int_equal(ask(&end), SNIB__DONE);
    pass(2000);
    assert_true(answered(&waits));
    end = ends(SNIB__RELEASE, &waits);
    assert_int_equal(ask(&end), SNIB__DONE);
    assert_non_null(key_of("snib/l/n/a"));
    for (uint64_t i = 3; i < 6; i++) {
        r = asks(SNIB__ACQUIRE, i);
        assert_int_equal(calls_of(&r, SNIB__DONE), 1);
        end = ends(SNIB__RELEASE, &r);
        assert_int_equal(calls_of(&end, SNIB__DONE), 1);
    }
}

/* Held, given back: the row is as free as before, with another token. */
static void a_token_given_unseen_is_not_given_again(void **state)
{
    (void)state;
    (void)left_by(1);
    struct etcd_guess g = known();
    struct snib__request other = left_by(2);
    put_back(g);
    struct snib__request r = asks(SNIB__ACQUIRE, 3);
    assert_int_equal(ask(&r), SNIB__DONE);
    assert_true(r.token > other.token);
}

/* A conflict goes through the log, so it is left alone for a while. */
static void what_was_known_in_vain_is_fetched_for_a_while(void **state)
{
    (void)state;
    (void)left_by(1);
    struct etcd_guess g = known();
    (void)left_by(2);
    put_back(g);
    (void)left_by(3);
    for (uint64_t i = 0; i < VAIN / 2; i++) {
        struct snib__request r = asks(SNIB__ACQUIRE, 10 + i);
        assert_int_equal(calls_of(&r, SNIB__DONE), 2);
        struct snib__request end = ends(SNIB__RELEASE, &r);
        (void)calls_of(&end, SNIB__DONE);
    }
    (void)left_by(20);
    struct snib__request r = asks(SNIB__ACQUIRE, 21);
    assert_int_equal(calls_of(&r, SNIB__DONE), 1);
}

/* A refusal is told by rows that were fetched alone. */
static void nothing_is_refused_by_what_is_known(void **state)
{
    (void)state;
    struct snib__request size = asks(SNIB__PARAMS, 500);
    size.said.result = &w.rows;
    size.params.op = SNIB__PARAMS_SIZE;
    size.params.amount = 1;
    assert_int_equal(ask(&size), SNIB__DONE);
    pass(60000); /* what remembers that request is gone */
    for (uint64_t i = 1; i < 3; i++) {
        struct snib__request r = asks(SNIB__ACQUIRE, i);
        r.acquire.kind = SNIB_KIND_PERMITS;
        assert_int_equal(calls_of(&r, SNIB__DONE), i == 1 ? 2 : 1);
        struct snib__request end = ends(SNIB__RELEASE, &r);
        assert_int_equal(ask(&end), SNIB__DONE);
    }
    struct snib__request r = asks(SNIB__ACQUIRE, 3);
    r.acquire.kind = SNIB_KIND_PERMITS;
    r.acquire.permits = 2;
    w.calls = 0;
    assert_int_not_equal(ask(&r), SNIB__DONE);
    assert_int_equal(w.calls, 1); /* a fetch */
    answered(&r);
}

/* The key of a claim goes with its lease, and changes no other row. */
static void a_claim_that_is_over_is_not_counted(void **state)
{
    (void)state;
    struct snib__request size = asks(SNIB__PARAMS, 500);
    size.said.result = &w.rows;
    size.params.op = SNIB__PARAMS_SIZE;
    size.params.amount = 5;
    assert_int_equal(ask(&size), SNIB__DONE);
    pass(60000);
    struct snib__request two = asks(SNIB__ACQUIRE, 1);
    two.acquire.kind = SNIB_KIND_PERMITS;
    two.acquire.permits = 2;
    two.lease = snib__ms(2000);
    assert_int_equal(ask(&two), SNIB__DONE);
    pass(4000);
    assert_null(claim_of(&two));
    struct snib__request all = asks(SNIB__ACQUIRE, 2);
    all.acquire.kind = SNIB_KIND_PERMITS;
    all.acquire.permits = 0; /* all that are left */
    assert_int_equal(ask(&all), SNIB__DONE);
    assert_int_equal(all.acquire.permits, 5);
    struct snib__request end = ends(SNIB__RELEASE, &all);
    assert_int_equal(ask(&end), SNIB__DONE);
}

static void it_is_known_for_five_seconds(void **state)
{
    (void)state;
    (void)left_by(1);
    pass(5000);
    struct snib__request r = asks(SNIB__ACQUIRE, 2);
    assert_int_equal(calls_of(&r, SNIB__DONE), 1);
    struct snib__request end = ends(SNIB__RELEASE, &r);
    assert_int_equal(calls_of(&end, SNIB__DONE), 1);
    pass(5001);
    r = asks(SNIB__ACQUIRE, 3);
    assert_int_equal(calls_of(&r, SNIB__DONE), 2);
    pass(5001);
    end = ends(SNIB__RELEASE, &r);
    assert_int_equal(calls_of(&end, SNIB__DONE), 2);
}

/* Members of a cluster that is restored have ended. */
static void it_is_known_on_its_connection_alone(void **state)
{
    (void)state;
    (void)left_by(1);
    snib__etcd_session_cut(w.e, w.now, false, SNIB_ERR_UNREACHABLE, "cut",
                           false);
    be_ready();
    struct snib__request r = asks(SNIB__ACQUIRE, 2);
    assert_int_equal(calls_of(&r, SNIB__DONE), 2);
}

static void a_cluster_that_went_back_is_not_known(void **state)
{
    (void)state;
    (void)left_by(1);
    w.revision = 3;
    struct snib__request other = asks(SNIB__ACQUIRE, 2);
    other.name = &name_m;
    assert_int_equal(ask(&other), SNIB__DONE);
    struct snib__request r = asks(SNIB__ACQUIRE, 3);
    assert_int_equal(calls_of(&r, SNIB__DONE), 2);
}

/* Its first copy may have been granted the lock. */
static void what_is_sent_again_is_fetched_for(void **state)
{
    (void)state;
    (void)left_by(1);
    struct snib__request r = asks(SNIB__ACQUIRE, 2);
    r.resent = true;
    assert_int_equal(calls_of(&r, SNIB__DONE), 2);
}

static void a_renewal_changes_what_is_known(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    assert_int_equal(ask(&r), SNIB__DONE);
    struct snib__request renew = ends(SNIB__RENEW, &r);
    assert_int_equal(calls_of(&renew, SNIB__DONE), 2);
    assert_int_equal(slot()->at.ns, 0);
    struct snib__request end = ends(SNIB__RELEASE, &r);
    assert_int_equal(calls_of(&end, SNIB__DONE), 2);
    assert_null(claim_of(&r));
}

static void a_lost_answer_is_unknown_and_what_was_known_with_it(void **state)
{
    (void)state;
    (void)left_by(1);
    struct snib__request r = asks(SNIB__ACQUIRE, 2);
    w.loses = true;
    assert_int_equal(calls_of(&r, SNIB__UNKNOWN), 1);
    assert_int_equal(r.said.err, SNIB_ERR_UNKNOWN);
    w.loses = false;
    struct snib__request cancel = ends(SNIB__CANCEL, &r);
    cancel.resent = true;
    assert_int_equal(calls_of(&cancel, SNIB__DONE), 2);
    struct snib__request next = asks(SNIB__ACQUIRE, 3);
    assert_int_equal(ask(&next), SNIB__DONE);
    assert_true(next.token > 0);
}

/* Of a name with the same slot nothing is known. */
static void names_are_told_apart(void **state)
{
    struct snib__name twin = {1, 1, name_n.hash, "t", "t"};
    (void)state;
    (void)left_by(1);
    struct snib__request r = asks(SNIB__ACQUIRE, 2);
    r.name = &twin;
    assert_int_equal(calls_of(&r, SNIB__DONE), 2);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_section_alone_is_two_calls),
        CASE(a_lease_counts_from_before_its_only_call),
        CASE(who_came_unseen_is_let_in_by_the_release),
        CASE(who_holds_unseen_is_not_overlooked),
        CASE(who_is_let_in_by_the_release_is_not_overlooked),
        CASE(a_reader_that_stays_is_not_overlooked),
        CASE(a_release_behind_the_lease_is_told_that),
        CASE(who_queues_has_fetched),
        CASE(a_grant_is_not_told_by_what_is_known),
        CASE(who_was_let_in_releases_by_what_it_saw),
        CASE(a_release_among_too_many_holders_fetches),
        CASE(what_was_seen_of_others_is_soon_fetched),
        CASE(who_waits_behind_the_next_one_may_ask_meanwhile),
        CASE(nobody_is_let_in_who_has_left_unseen),
        CASE(the_number_of_arrivals_is_known),
        CASE(a_token_given_unseen_is_not_given_again),
        CASE(what_was_known_in_vain_is_fetched_for_a_while),
        CASE(nothing_is_refused_by_what_is_known),
        CASE(a_claim_that_is_over_is_not_counted),
        CASE(it_is_known_for_five_seconds),
        CASE(it_is_known_on_its_connection_alone),
        CASE(a_cluster_that_went_back_is_not_known),
        CASE(what_is_sent_again_is_fetched_for),
        CASE(a_renewal_changes_what_is_known),
        CASE(a_lost_answer_is_unknown_and_what_was_known_with_it),
        CASE(names_are_told_apart),
    };
    return RUN(cases);
}
