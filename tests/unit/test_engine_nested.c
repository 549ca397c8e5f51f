/* core/nested.c and core/move.c at a store of wax: which request says what the
 * owner of a nested wait holds, and from when on. */
#include "core/engine_i.h"
#include "engine_desk.h"

/* Beside the desk's door there is a gate. */
static struct snib__local_lock *gate;

static int open_with(void **state, bool deadlocks)
{
    static struct snib__store_ops ops;
    struct snib__engine_config cfg = {.ops = &ops,
                                      .seed = {{1, 2, 3, 4}},
                                      .request = snib__ms(2000),
                                      .deadlocks = deadlocks};
    ops = wax;
    ops.caps = SNIB__CAN_QUEUE;
    set_up(state);
    struct desk *d = *state;
    snib__engine_free(d->e);
    assert_int_equal(snib__engine_open(&cfg, &d->e, &d->err), SNIB_ERR_OK);
    assert_int_equal(snib__engine_local_lock(d->e, "gate", 0, &gate, &d->err),
                     SNIB_ERR_OK);
    return snib__engine_local_lock(d->e, "door", 0, &d->local, &d->err);
}

static int set_up_two(void **state)
{
    return open_with(state, true);
}

static int set_up_off(void **state)
{
    return open_with(state, false);
}

static struct snib__acquisition *ask_at(struct desk *d,
                                        struct snib__local_lock *local,
                                        struct snib__acquire_spec spec)
{
    struct snib__local_lock *door = d->local;
    d->local = local;
    struct snib__acquisition *s = acquire(d, spec);
    d->local = door;
    return s;
}

/* Requests of this verb at the store. */
static int count_at(snib__verb verb)
{
    int n = 0;
    SNIB__LIST_EACH (l, &at_store) {
        n += SNIB__CONTAINER(l, struct snib__request, link)->verb == verb;
    }
    return n;
}

/* The latest of them. */
static struct snib__request *last_at(snib__verb verb)
{
    struct snib__request *found = NULL;
    SNIB__LIST_EACH (l, &at_store) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        found = rq->verb == verb ? rq : found;
    }
    assert_non_null(found);
    return found;
}

static void grant_it(struct desk *d, struct snib__request *rq, int64_t token)
{
    rq->token = token;
    rq->said.left = rq->lease;
    rq->said.valid_from = d->now;
    say(d, rq, SNIB__DONE);
}

/* The owner holds the door; its request's id. */
static uint64_t door_of(struct desk *d, uint64_t owner)
{
    (void)ask_at(d, d->local, ask_of(owner));
    uint64_t id = last_at(SNIB__ACQUIRE)->id[0];
    grant_it(d, last_at(SNIB__ACQUIRE), 9);
    return id;
}

/* Does this request say that its owner holds that grant, and nothing else? */
static void says(const struct snib__request *rq, uint64_t grant)
{
    struct snib__about about;
    snib__about_read(rq->text, rq->text_size, &about);
    assert_int_equal(about.held_count, 1);
    assert_true(about.held[0] == grant);
}

static int64_t since_of(const struct snib__request *rq)
{
    struct snib__about about;
    snib__about_read(rq->text, rq->text_size, &about);
    return about.since_ms;
}

static void says_nothing(const struct snib__request *rq)
{
    struct snib__about about;
    assert_true(rq->text_size > 0);
    snib__about_read(rq->text, rq->text_size, &about);
    assert_int_equal(about.held_count, 0);
}

/* -- the first in the local queue ----------------------------------------- */

static void a_nested_wait_alone_says_at_once_what_its_owner_holds(void **state)
{
    struct desk *d = *state;
    uint64_t door = door_of(d, 1);
    struct snib__acquisition *s = ask_at(d, gate, ask_of(1));
    says(at(SNIB__ACQUIRE), door);
    assert_int_equal(at(SNIB__ACQUIRE)->acquire.reserve, 31);
    assert_int_equal(counts(d).own_claims, 0);
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    pass_ms(d, 999);
    assert_int_equal(count_at(SNIB__ACQUIRE), 1); /* it keeps its position */
    assert_null(at(SNIB__LIST));
    pass_ms(d, 1);
    assert_non_null(at(SNIB__LIST));
    grant(d, 12);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
}

static void who_is_first_after_a_yield_says_it(void **state)
{
    struct desk *d = *state;
    uint64_t door = door_of(d, 1);
    struct snib__acquisition *a = ask_at(d, gate, ask_of(2));
    grant(d, 12);
    struct snib__acquisition *b = ask_at(d, gate, ask_of(1));
    pass_ms(d, 6); /* too late for a local hand-over */
    assert_int_equal(release(d, a->ticket, 2, NULL), SNIB_ERR_OK);
    assert_int_equal(at(SNIB__ACQUIRE)->token, 12);
    says(at(SNIB__ACQUIRE), door);
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    pass_ms(d, 993);
    assert_int_equal(count_at(SNIB__ACQUIRE), 1);
    assert_null(at(SNIB__LIST));
    pass_ms(d, 1); /* a second after it began to wait */
    assert_non_null(at(SNIB__LIST));
    grant(d, 13);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
}

static void an_owner_that_held_nothing_when_it_began_says_nothing(void **state)
{
    struct desk *d = *state;
    uint64_t two = 2 | SNIB__OWNER_FREE;
    struct snib__acquisition *a = ask_at(d, gate, ask_of(1));
    grant(d, 12);
    (void)ask_at(d, gate, ask_of(two));
    (void)door_of(d, two);
    pass_ms(d, 6);
    assert_int_equal(release(d, a->ticket, 1, NULL), SNIB_ERR_OK);
    says_nothing(at(SNIB__ACQUIRE));
}

/* -- behind others -------------------------------------------------------- */

static void behind_others_it_is_handed_the_grant_without_a_request(void **state)
{
    struct desk *d = *state;
    (void)door_of(d, 1);
    struct snib__acquisition *a = ask_at(d, gate, ask_of(2));
    grant(d, 12);
    struct snib__acquisition *b = ask_at(d, gate, ask_of(1));
    assert_null(at(SNIB__ACQUIRE));
    assert_int_equal(release(d, a->ticket, 2, NULL), SNIB_ERR_OK);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
    assert_int_equal(b->token, 13);
    assert_int_equal(counts(d).passes, 1);
    assert_int_equal(counts(d).own_claims, 0);
    assert_true(snib__list_empty(&at_store));
    /* and what it was given inside another lock it hands over itself */
    struct snib__acquisition *c = ask_at(d, gate, ask_of(3));
    assert_int_equal(release(d, b->ticket, 1, NULL), SNIB_ERR_OK);
    assert_int_equal(c->token, 14);
}

static void after_half_a_second_it_asks_by_itself(void **state)
{
    struct desk *d = *state;
    uint64_t door = door_of(d, 1);
    struct snib__acquisition *a = ask_at(d, gate, ask_of(2)), *none;
    grant(d, 12);
    struct snib__acquisition *b = ask_at(d, gate, ask_of(1));
    pass_ms(d, 499);
    assert_null(at(SNIB__ACQUIRE));
    pass_ms(d, 1);
    says(at(SNIB__ACQUIRE), door);
    assert_int_equal(since_of(at(SNIB__ACQUIRE)), d->now.ns / MS - 500);
    assert_int_equal(at(SNIB__ACQUIRE)->token, 0);
    assert_int_equal(at(SNIB__ACQUIRE)->acquire.reserve, 0);
    assert_int_equal(counts(d).own_claims, 1);
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    pass_ms(d, 500); /* a second after it began to wait */
    assert_non_null(at(SNIB__LIST));
    assert_int_equal(count_at(SNIB__ACQUIRE), 1); /* it moves once */
    assert_int_equal(release(d, a->ticket, 2, &none), SNIB_ERR_OK);
    assert_ptr_equal(none, a); /* nobody is left to hand over to */
    grant(d, 14);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
    assert_int_equal(b->token, 14);
}

static void who_stays_behind_keeps_the_shared_request(void **state)
{
    struct desk *d = *state;
    (void)door_of(d, 1);
    struct snib__acquisition *a = ask_at(d, gate, ask_of(2));
    struct snib__request *shared = at(SNIB__ACQUIRE);
    says_nothing(shared);
    say(d, shared, SNIB__QUEUED);
    struct snib__acquisition *b = ask_at(d, gate, ask_of(1));
    struct snib__acquisition *c = ask_at(d, gate, ask_of(3));
    pass_ms(d, 500);
    assert_int_equal(count_at(SNIB__ACQUIRE), 2);
    assert_null(at(SNIB__CANCEL));
    grant_it(d, shared, 12);
    assert_int_equal(a->state, SNIB__ACQ_SERVED);
    assert_int_equal(release(d, a->ticket, 2, NULL), SNIB_ERR_OK);
    assert_int_equal(c->state, SNIB__ACQ_SERVED);
    assert_int_equal(b->state, SNIB__ACQ_WAITING);
}

static void a_request_that_it_leaves_to_nobody_is_cancelled(void **state)
{
    struct desk *d = *state;
    uint64_t door = door_of(d, 1);
    struct snib__acquisition *a = ask_at(d, gate, ask_of(2));
    struct snib__request *shared = at(SNIB__ACQUIRE);
    uint64_t id = shared->id[0];
    say(d, shared, SNIB__QUEUED);
    struct snib__acquisition *b = ask_at(d, gate, ask_of(1));
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, a, SNIB_ERR_CANCELLED),
        SNIB_ERR_CANCELLED);
    assert_null(at(SNIB__CANCEL)); /* it goes on for b */
    pass_ms(d, 500);
    says(last_at(SNIB__ACQUIRE), door);
    assert_true(at(SNIB__CANCEL)->id[0] == id);
    grant_it(d, last_at(SNIB__ACQUIRE), 12);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
}

/* The grant of the request that is being cancelled was on its way. */
static void a_grant_that_comes_while_it_moves_is_given_back(void **state)
{
    struct desk *d = *state;
    (void)door_of(d, 1);
    struct snib__acquisition *a = ask_at(d, gate, ask_of(2));
    struct snib__request *shared = at(SNIB__ACQUIRE);
    say(d, shared, SNIB__QUEUED);
    struct snib__acquisition *b = ask_at(d, gate, ask_of(1));
    (void)snib__engine_give_up_now(d->e, d->now, a, SNIB_ERR_CANCELLED);
    pass_ms(d, 500);
    grant_it(d, shared, 12);
    assert_int_equal(b->state, SNIB__ACQ_WAITING);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    assert_int_equal(count_at(SNIB__ACQUIRE), 1);
    assert_int_equal(counts(d).claims, 2);
    grant(d, 14);
    assert_int_equal(b->token, 14);
}

static void after_it_has_moved_it_gives_up_like_any_other(void **state)
{
    struct desk *d = *state;
    (void)door_of(d, 1);
    (void)ask_at(d, gate, ask_of(2));
    grant(d, 12);
    struct snib__acquire_spec timed = ask_of(1);
    timed.limit = snib__after(d->now, snib__ms(700));
    timed.timed = true;
    struct snib__acquisition *b = ask_at(d, gate, timed);
    pass_ms(d, 500);
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    pass_ms(d, 200);
    assert_int_equal(b->state, SNIB__ACQ_LEAVING);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    is_refused(d, b, SNIB_ERR_TIMEOUT);
    say(d, at(SNIB__ACQUIRE), SNIB__NO); /* the store forgets it */
    assert_int_equal(counts(d).own_claims, 0);
}

static void what_its_owner_holds_is_not_handed_over_meanwhile(void **state)
{
    struct desk *d = *state;
    uint64_t one = 1 | SNIB__OWNER_FREE;
    struct snib__acquisition *door = ask_at(d, d->local, ask_of(one));
    grant(d, 9);
    (void)ask_at(d, gate, ask_of(2));
    grant(d, 12);
    (void)ask_at(d, gate, ask_of(one)); /* behind 2: says nothing yet */
    struct snib__acquisition *next = ask_at(d, d->local, ask_of(3));
    assert_int_equal(release(d, door->ticket, one, NULL), SNIB_ERR_OK);
    assert_int_equal(next->state, SNIB__ACQ_WAITING);
    assert_int_equal(at(SNIB__ACQUIRE)->token, 9); /* by the store */
}

/* -- when it does not move ------------------------------------------------ */

static void it_does_not_move_past_its_limit(void **state)
{
    struct desk *d = *state;
    (void)door_of(d, 1);
    (void)ask_at(d, gate, ask_of(2));
    grant(d, 12);
    struct snib__acquire_spec brief = ask_of(1);
    brief.limit = snib__after(d->now, snib__ms(500));
    struct snib__acquisition *b = ask_at(d, gate, brief);
    pass_ms(d, 500); /* its caller will end it */
    assert_null(at(SNIB__ACQUIRE));
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, b, SNIB_ERR_TIMEOUT),
        SNIB_ERR_TIMEOUT);
    pass_ms(d, 1000);
    assert_null(at(SNIB__ACQUIRE));
}

static void a_spinning_one_never_moves(void **state)
{
    struct desk *d = *state;
    (void)door_of(d, 1);
    (void)ask_at(d, gate, ask_of(2));
    grant(d, 12);
    struct snib__acquire_spec spins = ask_of(1);
    spins.spin = true;
    (void)ask_at(d, gate, spins);
    pass_ms(d, 3000);
    assert_null(at(SNIB__ACQUIRE));
    assert_null(at(SNIB__LIST));
}

static void nor_does_any_once_the_client_is_closed(void **state)
{
    struct desk *d = *state;
    (void)door_of(d, 1);
    (void)ask_at(d, gate, ask_of(2));
    grant(d, 12);
    struct snib__acquisition *b = ask_at(d, gate, ask_of(1));
    snib__engine_close(d->e, d->now);
    is_refused(d, b, SNIB_ERR_CLOSED);
    pass_ms(d, 1000);
    assert_null(at(SNIB__ACQUIRE));
}

/* What it waits behind is being ended: whoever is first then asks anew, and
 * says what it holds. */
static void it_does_not_move_while_its_claim_is_ended(void **state)
{
    struct desk *d = *state;
    uint64_t door = door_of(d, 1);
    struct snib__acquisition *a = ask_at(d, gate, ask_of(2)), *ending;
    grant(d, 12);
    assert_int_equal(release(d, a->ticket, 2, &ending), SNIB_ERR_OK);
    (void)ask_at(d, gate, ask_of(1));
    pass_ms(d, 500);
    assert_null(at(SNIB__ACQUIRE));
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    snib__acquisition_done(d->e, ending);
    says(at(SNIB__ACQUIRE), door);
    assert_int_equal(counts(d).own_claims, 0);
}

static void it_does_not_move_while_its_grant_is_confirmed(void **state)
{
    struct desk *d = *state;
    (void)door_of(d, 1);
    struct snib__acquire_spec sure = ask_of(2);
    sure.confirm = true;
    struct snib__acquisition *a = ask_at(d, gate, sure);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->token = 12;
    rq->said.left = snib__ms(3000);
    rq->said.valid_from = d->now;
    say(d, rq, SNIB__DONE);
    (void)ask_at(d, gate, ask_of(1));
    pass_ms(d, 500);
    assert_null(at(SNIB__ACQUIRE));
    confirm(d, d->now);
    assert_int_equal(a->state, SNIB__ACQ_SERVED);
    pass_ms(d, 200); /* then it does */
    assert_non_null(at(SNIB__ACQUIRE));
}

static void without_memory_it_stays_and_tries_again(void **state)
{
    struct desk *d = *state;
    uint64_t door = door_of(d, 1);
    struct snib__acquisition *a = ask_at(d, gate, ask_of(2));
    grant(d, 12);
    struct snib__acquisition *b = ask_at(d, gate, ask_of(1));
    for (int nth = 1; nth <= 2; nth++) { /* the local lock; the claim */
        snib__mem_fail_at(nth, true);
        pass_ms(d, nth == 1 ? 500 : 200);
        snib__mem_fail_at(0, false);
        assert_null(at(SNIB__ACQUIRE));
        assert_int_equal(counts(d).own_claims, 0);
    }
    pass_ms(d, 199);
    assert_null(at(SNIB__ACQUIRE));
    pass_ms(d, 1);
    says(at(SNIB__ACQUIRE), door);
    /* and what stood in the local queue meanwhile was a wait like any other */
    assert_int_equal(release(d, a->ticket, 2, NULL), SNIB_ERR_OK);
    grant(d, 13);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
}

static void with_the_search_off_it_joins_and_never_moves(void **state)
{
    struct desk *d = *state;
    (void)door_of(d, 1);
    struct snib__acquisition *a = ask_at(d, gate, ask_of(2));
    says_nothing(at(SNIB__ACQUIRE));
    grant(d, 12);
    struct snib__acquisition *b = ask_at(d, gate, ask_of(1));
    pass_ms(d, 3000);
    assert_null(at(SNIB__ACQUIRE));
    assert_int_equal(release(d, a->ticket, 2, NULL), SNIB_ERR_OK);
    says_nothing(at(SNIB__ACQUIRE));
    grant(d, 13);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
}

/* -- who gives up does not leave behind what it said ---------------------- */

/* Owner 1 holds the door and is the first that waits for the gate; owner 2
 * waits behind it. */
static struct snib__acquisition *named(struct desk *d,
                                       struct snib__acquire_spec spec,
                                       struct snib__acquisition **behind)
{
    uint64_t door = door_of(d, 1);
    struct snib__acquisition *s = ask_at(d, gate, spec);
    says(at(SNIB__ACQUIRE), door);
    *behind = ask_at(d, gate, ask_of(2));
    return s;
}

static void others_have_asked_anew(struct desk *d, uint64_t id,
                                   struct snib__acquisition *behind)
{
    assert_true(last_at(SNIB__ACQUIRE)->id[0] != id);
    says_nothing(last_at(SNIB__ACQUIRE));
    grant_it(d, last_at(SNIB__ACQUIRE), 20);
    assert_int_equal(behind->state, SNIB__ACQ_SERVED);
}

static void who_is_cancelled_takes_its_request_along(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *b, *s = named(d, ask_of(1), &b);
    struct snib_error why;
    uint64_t id = at(SNIB__ACQUIRE)->id[0];
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    assert_int_equal(
        snib__engine_give_up(d->e, d->now, s, SNIB_ERR_CANCELLED, &why),
        SNIB_ERR_OK);
    assert_int_equal(s->state, SNIB__ACQ_LEAVING);
    assert_true(at(SNIB__CANCEL)->id[0] == id);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    is_refused(d, s, SNIB_ERR_CANCELLED);
    others_have_asked_anew(d, id, b);
}

static void whose_limit_comes_takes_its_request_along(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec brief = ask_of(1);
    brief.limit = snib__after(d->now, snib__ms(300));
    brief.timed = true;
    struct snib__acquisition *b, *s = named(d, brief, &b);
    uint64_t id = at(SNIB__ACQUIRE)->id[0];
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    pass_ms(d, 300);
    assert_true(at(SNIB__CANCEL)->id[0] == id);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    is_refused(d, s, SNIB_ERR_TIMEOUT);
    others_have_asked_anew(d, id, b);
}

/* It leaves at once, and the store has not said anything: a grant may stand
 * there. */
static void who_leaves_before_an_answer_is_unsure(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *b, *s = named(d, ask_of(1), &b);
    uint64_t id = at(SNIB__ACQUIRE)->id[0];
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, s, SNIB_ERR_TIMEOUT),
        SNIB_ERR_UNKNOWN);
    assert_true(at(SNIB__CANCEL)->id[0] == id);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    others_have_asked_anew(d, id, b);
}

static void who_leaves_with_a_lost_answer_takes_its_request_along(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec brief = ask_of(1);
    brief.limit = snib__after(d->now, snib__ms(300));
    struct snib__acquisition *b, *s = named(d, brief, &b);
    uint64_t id = at(SNIB__ACQUIRE)->id[0];
    d->now = snib__after(d->now, snib__ms(300));
    say(d, at(SNIB__ACQUIRE), SNIB__UNKNOWN);
    assert_int_equal(s->state, SNIB__ACQ_LEAVING);
    assert_null(at(SNIB__ACQUIRE));
    assert_true(at(SNIB__CANCEL)->id[0] == id);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    is_refused(d, s, SNIB_ERR_TIMEOUT);
    others_have_asked_anew(d, id, b);
}

/* Its request is granted already, and says nothing any more. */
static void who_leaves_while_it_is_confirmed_takes_nothing_along(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec sure = ask_of(1);
    sure.confirm = true;
    struct snib__acquisition *b, *s = named(d, sure, &b);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->token = 12;
    rq->said.left = snib__ms(3000);
    rq->said.valid_from = d->now;
    say(d, rq, SNIB__DONE);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, s, SNIB_ERR_CANCELLED),
        SNIB_ERR_CANCELLED);
    assert_null(at(SNIB__CANCEL));
    assert_null(at(SNIB__RELEASE));
    confirm(d, d->now);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
    assert_int_equal(b->token, 12);
}

static void who_ranks_higher_asks_apart_from_the_one_that_is_named(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *b, *s = named(d, ask_of(1), &b);
    struct snib__request *first = at(SNIB__ACQUIRE);
    struct snib__acquire_spec urgent = ask_of(3);
    urgent.priority = 7;
    struct snib__acquisition *c = ask_at(d, gate, urgent);
    assert_int_equal(counts(d).own_claims, 1);
    assert_int_equal(last_at(SNIB__ACQUIRE)->acquire.priority, 7);
    grant_it(d, first, 12);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    assert_int_equal(c->state, SNIB__ACQ_WAITING);
    /* of those that are named by no request the higher one is first */
    urgent.owner = 4;
    struct snib__acquisition *f = ask_at(d, gate, urgent);
    assert_int_equal(counts(d).own_claims, 1);
    assert_int_equal(release(d, s->ticket, 1, NULL), SNIB_ERR_OK);
    assert_int_equal(f->state, SNIB__ACQ_SERVED);
}

/* -- an owner that waits for two things ----------------------------------- */

static void two_waits_of_one_owner_both_say_it(void **state)
{
    struct desk *d = *state;
    uint64_t one = 1 | SNIB__OWNER_FREE, door = door_of(d, one);
    struct snib__local_lock *barn;
    assert_int_equal(snib__engine_local_lock(d->e, "barn", 0, &barn, &d->err),
                     SNIB_ERR_OK);
    (void)ask_at(d, gate, ask_of(one));
    struct snib__request *first = at(SNIB__ACQUIRE);
    (void)ask_at(d, barn, ask_of(one));
    says(first, door);
    assert_ptr_not_equal(last_at(SNIB__ACQUIRE), first);
    says(last_at(SNIB__ACQUIRE), door);
    assert_int_equal(counts(d).own_claims, 1);
}

static void or_neither_does(void **state)
{
    struct desk *d = *state;
    uint64_t one = 1 | SNIB__OWNER_FREE;
    struct snib__local_lock *barn;
    (void)door_of(d, one);
    assert_int_equal(snib__engine_local_lock(d->e, "barn", 0, &barn, &d->err),
                     SNIB_ERR_OK);
    (void)ask_at(d, gate, ask_of(2));
    grant(d, 12);
    (void)ask_at(d, gate, ask_of(one)); /* behind 2, unseen */
    struct snib__acquisition *b = ask_at(d, barn, ask_of(one));
    says_nothing(at(SNIB__ACQUIRE));
    pass_ms(d, 500);
    assert_int_equal(count_at(SNIB__ACQUIRE), 1); /* the other may be served */
    grant(d, 13);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
    pass_ms(d, 200);
    assert_int_equal(count_at(SNIB__ACQUIRE), 1); /* now it waits for one */
    assert_string_equal(at(SNIB__ACQUIRE)->name->safe, "gate");
}

#define TWO(f) cmocka_unit_test_setup_teardown(f, set_up_two, tear_down)

int main(void)
{
    const struct CMUnitTest engine_nested[] = {
        TWO(a_nested_wait_alone_says_at_once_what_its_owner_holds),
        TWO(who_is_first_after_a_yield_says_it),
        TWO(an_owner_that_held_nothing_when_it_began_says_nothing),
        TWO(behind_others_it_is_handed_the_grant_without_a_request),
        TWO(after_half_a_second_it_asks_by_itself),
        TWO(who_stays_behind_keeps_the_shared_request),
        TWO(a_request_that_it_leaves_to_nobody_is_cancelled),
        TWO(a_grant_that_comes_while_it_moves_is_given_back),
        TWO(after_it_has_moved_it_gives_up_like_any_other),
        TWO(what_its_owner_holds_is_not_handed_over_meanwhile),
        TWO(it_does_not_move_past_its_limit),
        TWO(a_spinning_one_never_moves),
        TWO(nor_does_any_once_the_client_is_closed),
        TWO(it_does_not_move_while_its_claim_is_ended),
        TWO(it_does_not_move_while_its_grant_is_confirmed),
        TWO(without_memory_it_stays_and_tries_again),
        cmocka_unit_test_setup_teardown(
            with_the_search_off_it_joins_and_never_moves, set_up_off,
            tear_down),
        TWO(who_is_cancelled_takes_its_request_along),
        TWO(whose_limit_comes_takes_its_request_along),
        TWO(who_leaves_before_an_answer_is_unsure),
        TWO(who_leaves_with_a_lost_answer_takes_its_request_along),
        TWO(who_leaves_while_it_is_confirmed_takes_nothing_along),
        TWO(who_ranks_higher_asks_apart_from_the_one_that_is_named),
        TWO(two_waits_of_one_owner_both_say_it),
        TWO(or_neither_does),
    };
    return RUN(engine_nested);
}
