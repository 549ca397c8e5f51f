/* tests/unit/test_rules_steps.c — how many claims a step of the rules looks at,
 * counted at a book in memory; and that it comes to an end whatever the book
 * says. */
#include "unit.h"

#include "store/memory/space.h"

/* So many parties has the barrier. What a step may ask for: the first of each
 * kind of holder, and the head of the queue. */
enum { PARTIES = 40, FEW = 3 };

static const struct snib__name name = {4, 4, 5, "meet", "meet"};

static struct {
    struct snib__space *space;
    struct snib__book_ops ops;
    bool (*next)(struct snib__book *, const struct snib__name *, int,
                 const struct snib__stored_claim *,
                 struct snib__stored_claim *);
    struct snib__request party[PARTIES];
    int looks; /* of the last step */
    bool misread;
    uint32_t most; /* grants of a step */
} w;

static int begin_world(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    assert_int_equal(snib__space_open("rules", true, &w.space, NULL),
                     SNIB_ERR_OK);
    return 0;
}

static int end_world(void **state)
{
    (void)state;
    snib__space_close(w.space);
    return 0;
}

static bool count_next(struct snib__book *b, const struct snib__name *n,
                       int state, const struct snib__stored_claim *after,
                       struct snib__stored_claim *ret)
{
    w.looks++;
    return w.next(b, n, state, after, ret);
}

static bool misread_rank(struct snib__book *, const struct snib__name *, int,
                         const struct snib__stored_claim *,
                         struct snib__stored_claim *);

static snib__answer run(struct snib__request *r)
{
    struct snib__mem_book m;
    snib_err err = snib__mem_book_begin(&m, w.space, &name, r->id, 0);
    assert_int_equal(err, SNIB_ERR_OK);
    w.ops = *m.book.ops;
    w.next = w.ops.next;
    w.ops.next = w.misread ? misread_rank : count_next;
    m.book.ops = &w.ops;
    m.book.most = w.most;
    w.looks = 0;
    snib__rules_run(&m.book, r);
    assert_int_equal(m.book.err, SNIB_ERR_OK);
    snib__mem_book_end(&m);
    return r->said.answer;
}

static snib__answer come(int i, bool may_queue)
{
    w.party[i] = (struct snib__request){
        .verb = SNIB__ACQUIRE,
        .name = &name,
        .id = {(uint64_t)i + 1, 9},
        .acquire.kind = SNIB_KIND_BARRIER,
        .acquire.permits = PARTIES,
        .acquire.may_queue = may_queue,
        .lease = snib__ms(10000),
    };
    return run(&w.party[i]);
}

static void wait_all_but(int absent)
{
    for (int i = 0; i < PARTIES; i++) {
        if (i != absent) {
            assert_int_equal(come(i, true), SNIB__QUEUED);
            assert_true(w.looks <= FEW);
        }
    }
}

static void all_have_met(void)
{
    for (int i = 0; i < PARTIES; i++) {
        assert_int_equal(run(&w.party[i]), SNIB__DONE);
        assert_int_equal(w.party[i].token, w.party[0].token);
    }
}

static void a_party_that_waits_looks_at_no_other(void **state)
{
    (void)state;
    wait_all_but(PARTIES - 1);
    for (int i = 0; i < PARTIES - 1; i++) {
        assert_int_equal(run(&w.party[i]), SNIB__QUEUED);
        assert_true(w.looks <= FEW);
    }
    assert_int_equal(come(PARTIES - 1, true), SNIB__DONE);
    assert_true(w.looks >= PARTIES - 1);
    all_have_met();
}

/* Who only tries is the last one, or changes nothing. */
static void a_party_that_tries_looks_at_no_other_in_vain(void **state)
{
    (void)state;
    assert_int_equal(come(0, false), SNIB__NO);
    wait_all_but(0);
    struct snib__request gone = w.party[7];
    gone.verb = SNIB__CANCEL;
    assert_int_equal(run(&gone), SNIB__DONE);
    assert_true(w.looks <= FEW + 1);
    assert_int_equal(come(0, false), SNIB__NO);
    assert_true(w.looks <= FEW + 1);
    w.party[7].id[1]++;
    assert_int_equal(run(&w.party[7]), SNIB__QUEUED);
    assert_int_equal(come(0, false), SNIB__DONE);
    all_have_met();
}

/* One of them is silent: the queue is long enough, but not of those alive. */
static void a_silent_party_makes_the_others_look_at_nobody(void **state)
{
    (void)state;
    wait_all_but(PARTIES - 1);
    for (int step = 0; step < 2; step++) {
        w.space->now = snib__after(w.space->now, snib__ms(SNIB__ALIVE_MS / 2));
        for (int i = 0; i < PARTIES - 1; i++) {
            if (i != 7) {
                assert_int_equal(run(&w.party[i]), SNIB__QUEUED);
            }
        }
    }
    assert_int_equal(come(PARTIES - 1, true), SNIB__QUEUED);
    assert_true(w.looks <= FEW);
    assert_int_equal(run(&w.party[0]), SNIB__QUEUED);
    assert_true(w.looks <= FEW);
    assert_int_equal(run(&w.party[7]), SNIB__DONE);
    all_have_met();
}

/* Nor does who leaves: all that have met leave at once. */
static void a_party_that_leaves_looks_at_no_other(void **state)
{
    (void)state;
    wait_all_but(PARTIES - 1);
    assert_int_equal(come(PARTIES - 1, true), SNIB__DONE);
    all_have_met();
    for (int i = 0; i < PARTIES; i++) {
        w.party[i].verb = SNIB__RELEASE;
        assert_int_equal(run(&w.party[i]), SNIB__DONE);
        assert_true(w.looks <= FEW + 1);
    }
}

/* -- a book that others wrote in --------------------------------------------------- */

/* All waiters are read as of the lowest rank, though they have another: each is
 * found behind itself. */
static bool misread_rank(struct snib__book *b, const struct snib__name *n,
                         int state, const struct snib__stored_claim *after,
                         struct snib__stored_claim *ret)
{
    enum { ENDLESS = 1000 };
    if (w.looks > ENDLESS) {
        fail_msg("the step goes round for ever");
    }
    bool there = count_next(b, n, state, after, ret);
    if (there && state == SNIB__WAITS) {
        ret->rank = INT8_MIN;
    }
    return there;
}

/* It wants more permits than there are, so it is passed over: the walk goes on
 * behind it. */
static void a_waiter_of_a_rank_that_is_none_is_met_once(void **state)
{
    struct snib__request size = {.verb = SNIB__PARAMS,
                                 .name = &name,
                                 .id = {1, 1},
                                 .params.op = SNIB__PARAMS_SIZE,
                                 .params.amount = 2};
    (void)state;
    assert_int_equal(run(&size), SNIB__DONE);
    struct snib__request r[2];
    for (uint64_t i = 0; i < 2; i++) {
        r[i] = (struct snib__request){
            .verb = SNIB__ACQUIRE,
            .name = &name,
            .id = {i + 2, 9},
            .acquire.kind = SNIB_KIND_PERMITS,
            .acquire.permits = 2,
            .acquire.may_queue = true,
            .lease = snib__ms(10000),
        };
        assert_int_equal(run(&r[i]), i ? SNIB__QUEUED : SNIB__DONE);
    }
    size.params.amount = 1; /* who waits cannot be served any more */
    size.id[0]++;
    w.misread = true;
    assert_int_equal(run(&size), SNIB__DONE);
    r[0].verb = SNIB__RELEASE;
    assert_int_equal(run(&r[0]), SNIB__DONE);
    struct snib__request t = r[0];
    t.verb = SNIB__ACQUIRE;
    t.id[0] = 7;
    t.acquire.permits = 1;
    assert_int_equal(run(&t), SNIB__DONE);
}

/* -- a step that may not grant to many ------------------------------------------ */

static struct snib__request asks(snib_kind kind, uint64_t id, uint32_t permits)
{
    return (struct snib__request){.verb = SNIB__ACQUIRE,
                                  .name = &name,
                                  .id = {id, 9},
                                  .acquire.kind = kind,
                                  .acquire.permits = permits,
                                  .acquire.may_queue = true,
                                  .lease = snib__ms(10000)};
}

static int holders(void)
{
    static const int states[] = {SNIB__HOLDS, SNIB__SHARES};
    struct snib__mem_book m;
    struct snib__stored_claim c, after;
    int n = 0;
    assert_int_equal(
        snib__mem_book_begin(&m, w.space, &name, (uint64_t[2]){0}, 0),
        SNIB_ERR_OK);
    for (int i = 0; i < 2; i++) {
        const struct snib__stored_claim *at = NULL;
        while (m.book.ops->next(&m.book, &name, states[i], at, &c)) {
            n++;
            after = c;
            at = &after;
        }
    }
    snib__mem_book_end(&m);
    return n;
}

/* The poll of whoever waits goes on, and nobody is let in out of turn. */
static void the_next_step_goes_on_with_granting(void **state)
{
    enum { READERS = 10 };
    (void)state;
    struct snib__request writer = asks(SNIB_KIND_WRITE, 1, 1);
    struct snib__request reader[READERS];
    assert_int_equal(run(&writer), SNIB__DONE);
    for (uint64_t i = 0; i < READERS; i++) {
        reader[i] = asks(SNIB_KIND_READ, i + 2, 1);
        assert_int_equal(run(&reader[i]), SNIB__QUEUED);
    }
    w.most = 4;
    writer.verb = SNIB__RELEASE;
    assert_int_equal(run(&writer), SNIB__DONE);
    assert_int_equal(holders(), 4);
    struct snib__request newcomer = asks(SNIB_KIND_READ, 99, 1);
    newcomer.acquire.may_queue = false;
    assert_int_equal(run(&newcomer), SNIB__NO);
    assert_int_equal(holders(), 8);
    assert_int_equal(run(&reader[9]), SNIB__DONE); /* 8, and itself */
    assert_int_equal(holders(), READERS);
    assert_int_equal(run(&reader[8]), SNIB__DONE);
}

/* Its parties pass together, or not in this step. */
static void a_barrier_is_let_through_as_a_whole(void **state)
{
    enum { BEFORE = 2, MEET = 6 };
    (void)state;
    struct snib__request writer = asks(SNIB_KIND_WRITE, 1, 1);
    struct snib__request r[BEFORE + MEET];
    assert_int_equal(run(&writer), SNIB__DONE);
    for (uint64_t i = 0; i < BEFORE + MEET; i++) {
        bool party = i >= BEFORE;
        r[i] = asks(party ? SNIB_KIND_BARRIER : SNIB_KIND_READ, i + 2,
                    party ? MEET : 1);
        assert_int_equal(run(&r[i]), SNIB__QUEUED);
    }
    w.most = 4;
    writer.verb = SNIB__RELEASE;
    assert_int_equal(run(&writer), SNIB__DONE);
    assert_int_equal(holders(), BEFORE);
    assert_int_equal(run(&r[BEFORE]), SNIB__DONE);
    assert_int_equal(holders(), BEFORE + MEET);
}

#define STEP(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STEP(a_party_that_waits_looks_at_no_other),
        STEP(a_party_that_tries_looks_at_no_other_in_vain),
        STEP(a_silent_party_makes_the_others_look_at_nobody),
        STEP(a_party_that_leaves_looks_at_no_other),
        STEP(a_waiter_of_a_rank_that_is_none_is_met_once),
        STEP(the_next_step_goes_on_with_granting),
        STEP(a_barrier_is_let_through_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
