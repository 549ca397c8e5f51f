/* Readers, permits and barriers in the engine: each has an own claim of its own, a
 * owner's second grant stands beside its first. The store is of wax. */
#include "engine_desk.h"

static struct snib__acquire_spec ask_for(snib_kind kind, uint64_t owner)
{
    struct snib__acquire_spec spec = ask_of(owner);
    spec.kind = kind;
    spec.permits = kind == SNIB_KIND_PERMITS ? 2 : 0;
    return spec;
}

static struct snib__acquisition *want(struct desk *d, snib_kind kind,
                                      uint64_t owner)
{
    return acquire(d, ask_for(kind, owner));
}

static snib_err refused(struct desk *d, struct snib__acquire_spec spec)
{
    struct snib__acquisition *none;
    snib_err err =
        snib__engine_acquire(d->e, d->now, d->local, &spec, &none, &d->err);
    assert_null(none);
    return err;
}

static int count_at(snib__verb verb)
{
    int n = 0;
    SNIB__LIST_EACH (l, &at_store) {
        n += SNIB__CONTAINER(l, struct snib__request, link)->verb == verb;
    }
    return n;
}

/* The latest request of this verb that the store has not answered. */
static struct snib__request *last_at(snib__verb verb)
{
    struct snib__request *found = NULL;
    SNIB__LIST_EACH (l, &at_store) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (rq->verb == verb) {
            found = rq;
        }
    }
    assert_non_null(found);
    return found;
}

static void grant_last(struct desk *d, int64_t token)
{
    struct snib__request *rq = last_at(SNIB__ACQUIRE);
    rq->token = token;
    rq->said.left = rq->lease;
    rq->said.valid_from = d->now;
    say(d, rq, SNIB__DONE);
}

static struct snib__acquisition *granted(struct desk *d, snib_kind kind,
                                         uint64_t owner, int64_t token)
{
    struct snib__acquisition *s = want(d, kind, owner);
    grant_last(d, token);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    assert_int_equal(s->token, token);
    return s;
}

static void give_back(struct desk *d, struct snib__acquisition *s,
                      uint64_t owner)
{
    struct snib__acquisition *ending;
    assert_int_equal(release(d, s->ticket, owner, &ending), SNIB_ERR_OK);
    assert_ptr_equal(ending, s);
    say(d, last_at(SNIB__RELEASE), SNIB__DONE);
    assert_int_equal(s->err, SNIB_ERR_OK);
    snib__acquisition_done(d->e, s);
}

/* -- own claims ------------------------------------------------------------------- */

static void each_reader_and_each_lot_asks_for_itself(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = want(d, SNIB_KIND_READ, 1),
                             *b = want(d, SNIB_KIND_READ, 2),
                             *p = want(d, SNIB_KIND_PERMITS, 1),
                             *q = want(d, SNIB_KIND_PERMITS, 1);
    assert_int_equal(count_at(SNIB__ACQUIRE), 4);
    assert_int_equal(counts(d).own_claims, 4);
    assert_ptr_not_equal(p, q); /* no re-entry of permits */
    struct snib__request *rq = last_at(SNIB__ACQUIRE);
    assert_int_equal(rq->acquire.kind, SNIB_KIND_PERMITS);
    assert_int_equal(rq->acquire.permits, 2);
    assert_int_equal(rq->acquire.reserve, 0);
    assert_int_equal(rq->token, 0);
    rq->acquire.permits = 2;
    grant_last(d, 14);
    grant_last(d, 13);
    grant_last(d, 10);
    grant_last(d, 10);
    assert_int_equal(a->token, 10);
    assert_int_equal(b->token, 10);
    assert_int_equal(p->token, 13);
    assert_int_equal(q->token, 14);
    assert_int_equal(counts(d).held, 4);
    give_back(d, b, 2);
    give_back(d, q, 1);
    give_back(d, p, 99); /* permits belong to no owner */
    struct snib__acquisition *none;
    assert_int_equal(release(d, a->ticket, 2, &none), SNIB_ERR_WRONG_OWNER);
    give_back(d, a, 1);
    nothing_is_left(d);
}

static void has(struct desk *d, struct snib__acquisition *s, snib_state state,
                uint32_t permits, int64_t slot)
{
    struct snib_status st;
    snib__engine_status(d->e, d->now, s, &st);
    assert_int_equal(st.state, state);
    assert_int_equal(st.token, s->token);
    assert_int_equal(st.kind, permits ? SNIB_KIND_PERMITS : SNIB_KIND_MUTEX);
    assert_int_equal(st.permits, permits);
    assert_int_equal(st.slot, slot);
}

/* Neither who waits nor who has released holds anything: no kind, no permits, no
 * slot, though the store has not said a word yet. */
static void only_a_lot_that_is_held_or_lost_has_a_slot(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = want(d, SNIB_KIND_PERMITS, 1), *ending;
    has(d, s, SNIB_STATE_RELEASED, 0, -1);
    struct snib__request *rq = last_at(SNIB__ACQUIRE);
    rq->said.slot = 3;
    rq->acquire.permits = 2;
    grant_last(d, 13);
    has(d, s, SNIB_STATE_HELD, 2, 3);
    assert_int_equal(release(d, s->ticket, 1, &ending), SNIB_ERR_OK);
    assert_int_equal(s->state, SNIB__ACQ_ENDING);
    has(d, s, SNIB_STATE_RELEASED, 0, -1);
    say(d, last_at(SNIB__RELEASE), SNIB__DONE);
    assert_int_equal(s->state, SNIB__ACQ_GONE);
    has(d, s, SNIB_STATE_RELEASED, 0, -1);
    snib__acquisition_done(d->e, s);
    nothing_is_left(d);
}

static void a_reader_reads_again_at_no_cost(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = granted(d, SNIB_KIND_READ, 1, 10);
    assert_ptr_equal(want(d, SNIB_KIND_READ, 1), a);
    assert_int_equal(a->holds, 2);
    assert_int_equal(count_at(SNIB__ACQUIRE), 0);
    struct snib__acquire_spec spec = ask_for(SNIB_KIND_READ, 1);
    spec.no_reentry = true;
    assert_int_equal(refused(d, spec), SNIB_ERR_DEADLOCK);
    assert_int_equal(a->holds, 2);
    assert_int_equal(release(d, a->ticket, 1, NULL), SNIB_ERR_OK);
    assert_int_equal(count_at(SNIB__RELEASE), 0);
    give_back(d, a, 1);
    nothing_is_left(d);
}

static void a_reader_is_renewed_like_any_other(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = granted(d, SNIB_KIND_READ, 1, 10);
    assert_int_equal(news_of(d, s), SNIB__NEWS_SETTLED);
    for (int i = 0; i < 5; i++) {
        pass_ms(d, 10000);
        confirm(d, d->now);
        assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    }
    pass_ms(d, 10000);
    say(d, at(SNIB__RENEW), SNIB__UNKNOWN);
    assert_int_equal(news_of(d, s), SNIB__NEWS_STATE);
    assert_int_equal(state_of(d, s), SNIB_STATE_AT_RISK);
    confirm(d, d->now);
    give_back(d, s, 1);
    nothing_is_left(d);
}

static void terms_travel_with_the_request(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_for(SNIB_KIND_PERMITS, 1);
    spec.permits = 3;
    spec.capacity = 7;
    spec.priority = -100;
    spec.delay = snib__ms(1500);
    struct snib__acquisition *s = acquire(d, spec);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    assert_int_equal(rq->acquire.permits, 3);
    assert_int_equal(rq->acquire.capacity, 7);
    assert_int_equal(rq->acquire.priority, -100);
    assert_int_equal(snib__to_ms(rq->acquire.delay), 1500);
    assert_int_equal(rq->acquire.upgrade_of[0] | rq->acquire.upgrade_of[1], 0);
    grant(d, 5);
    struct snib_status st;
    snib__engine_status(d->e, d->now, s, &st);
    assert_int_equal(st.kind, SNIB_KIND_PERMITS);
    assert_int_equal(st.permits, 3);
    give_back(d, s, 1);
    nothing_is_left(d);
}

static void all_that_are_left_are_told_by_the_store(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_for(SNIB_KIND_PERMITS, 1);
    spec.permits = 0;
    spec.try_only = true;
    struct snib__acquisition *s = acquire(d, spec);
    assert_int_equal(at(SNIB__ACQUIRE)->acquire.permits, 0);
    at(SNIB__ACQUIRE)->acquire.permits = 6;
    grant(d, 5);
    struct snib_status st;
    snib__engine_status(d->e, d->now, s, &st);
    assert_int_equal(st.permits, 6);
    give_back(d, s, 1);
    nothing_is_left(d);
}

static void refusals_of_the_store_reach_the_one_who_asked(void **state)
{
    struct desk *d = *state;
    static const snib_err errs[] = {SNIB_ERR_TOO_MANY, SNIB_ERR_CONFIG,
                                    SNIB_ERR_DEADLOCK, SNIB_ERR_LOST};
    struct snib__acquisition *other = want(d, SNIB_KIND_PERMITS, 2);
    for (int i = 0; i < 4; i++) {
        struct snib__acquisition *s = want(d, SNIB_KIND_PERMITS, 1);
        last_at(SNIB__ACQUIRE)->said.err = errs[i];
        say(d, last_at(SNIB__ACQUIRE), SNIB__NO);
        assert_int_equal(s->state, SNIB__ACQ_REFUSED);
        assert_int_equal(s->err, errs[i]);
        snib__acquisition_done(d->e, s);
    }
    assert_int_equal(other->state, SNIB__ACQ_WAITING);
    grant(d, 5);
    give_back(d, other, 2);
    nothing_is_left(d);
}

/* -- losing ----------------------------------------------------------------------- */

static void a_owner_that_lost_its_read_lock_unwinds_first(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = granted(d, SNIB_KIND_READ, 1, 10),
                             *b = granted(d, SNIB_KIND_READ, 2, 10);
    pass_ms(d, 10000);
    assert_int_equal(count_at(SNIB__RENEW), 2);
    struct snib__request *rq = last_at(SNIB__RENEW);
    rq->said.left = rq->lease;
    rq->said.valid_from = d->now;
    say(d, rq, SNIB__DONE);
    say(d, at(SNIB__RENEW), SNIB__NO); /* one of the two is over */
    struct snib__acquisition *lost = a->state == SNIB__ACQ_DEAD ? a : b,
                             *kept = lost == a ? b : a;
    uint64_t owner = lost == a ? 1 : 2;
    assert_int_equal(lost->state, SNIB__ACQ_DEAD);
    assert_int_equal(lost->cause, SNIB_CAUSE_STOLEN);
    assert_int_equal(kept->state, SNIB__ACQ_SERVED);
    assert_int_equal(refused(d, ask_for(SNIB_KIND_READ, owner)), SNIB_ERR_LOST);
    assert_int_equal(refused(d, ask_for(SNIB_KIND_WRITE, owner)),
                     SNIB_ERR_LOST);
    struct snib__acquisition *other = granted(d, SNIB_KIND_READ, 3, 10);
    assert_int_equal(release(d, lost->ticket, owner, NULL), SNIB_ERR_LOST);
    struct snib__acquisition *fresh =
        granted(d, SNIB_KIND_READ, owner, 10); /* unwound */
    give_back(d, fresh, owner);
    give_back(d, kept, 3 - owner);
    give_back(d, other, 3);
    nothing_is_left(d);
}

static void a_reader_with_a_fixed_lease_loses_it_by_itself(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_for(SNIB_KIND_READ, 1);
    spec.fixed = true;
    struct snib__acquisition *s = acquire(d, spec);
    grant(d, 10);
    pass_ms(d, 15000);
    assert_int_equal(count_at(SNIB__RENEW), 0);
    d->now = snib__after(d->now, snib__ms(15000)); /* no timer has run */
    assert_int_equal(state_of(d, s), SNIB_STATE_LOST);
    assert_int_equal(refused(d, ask_for(SNIB_KIND_WRITE, 1)), SNIB_ERR_LOST);
    assert_int_equal(s->cause, SNIB_CAUSE_EXPIRED);
    assert_int_equal(release(d, s->ticket, 1, NULL), SNIB_ERR_LOST);
    say(d, at(SNIB__RELEASE), SNIB__NO);
    nothing_is_left(d);
}

static void what_is_lost_with_a_lock_delay_is_not_released(void **state)
{
    struct desk *d = *state;
    static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_READ,
                                      SNIB_KIND_PERMITS};
    for (int i = 0; i < 3; i++) {
        struct snib__acquire_spec spec = ask_for(kinds[i], 1);
        spec.fixed = true;
        spec.delay = snib__ms(5000);
        struct snib__acquisition *s = acquire(d, spec);
        grant(d, 10 + i);
        pass_ms(d, 30000);
        assert_int_equal(s->state, SNIB__ACQ_DEAD);
        assert_int_equal(count_at(SNIB__RELEASE), 0); /* it would open it */
        assert_int_equal(release(d, s->ticket, 1, NULL), SNIB_ERR_LOST);
        assert_int_equal(count_at(SNIB__RELEASE), 0);
        nothing_is_left(d);
        s = acquire(d, spec);
        grant(d, 20 + i);
        give_back(d, s, 1); /* and in time it is */
    }
    nothing_is_left(d);
}

/* -- beside ------------------------------------------------------------------------ */

static void a_writer_that_reads_names_its_write(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *w = want(d, SNIB_KIND_WRITE, 1);
    uint64_t id[2] = {at(SNIB__ACQUIRE)->id[0], at(SNIB__ACQUIRE)->id[1]};
    grant(d, 10);
    struct snib__acquire_spec spec = ask_for(SNIB_KIND_READ, 2);
    spec.try_only = true;
    assert_int_equal(refused(d, spec), SNIB_ERR_BUSY); /* no I/O */
    assert_int_equal(count_at(SNIB__ACQUIRE), 0);
    spec.owner = 1;
    struct snib__acquisition *r = acquire(d, spec);
    assert_memory_equal(at(SNIB__ACQUIRE)->acquire.upgrade_of, id, sizeof id);
    grant(d, 10);
    assert_ptr_equal(want(d, SNIB_KIND_READ, 1), r); /* both are re-entered */
    assert_ptr_equal(want(d, SNIB_KIND_WRITE, 1), w);
    release(d, r->ticket, 1, NULL);
    release(d, w->ticket, 1, NULL);
    give_back(d, w, 1); /* the downgrade */
    assert_int_equal(state_of(d, r), SNIB_STATE_HELD);
    give_back(d, r, 1);
    nothing_is_left(d);
}

static void no_pass_within_the_process_while_the_owner_still_reads(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *w = granted(d, SNIB_KIND_WRITE, 1, 10);
    struct snib__acquisition *r = granted(d, SNIB_KIND_READ, 1, 10);
    struct snib__acquisition *b =
        want(d, SNIB_KIND_WRITE, 2); /* behind w, locally */
    assert_int_equal(count_at(SNIB__ACQUIRE), 0);
    assert_int_equal(release(d, w->ticket, 1, NULL), SNIB_ERR_OK);
    assert_int_equal(b->state, SNIB__ACQ_WAITING);
    assert_int_equal(counts(d).passes, 0);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    assert_int_equal(rq->token, 10); /* a yield */
    assert_int_equal(rq->acquire.upgrade_of[0] | rq->acquire.upgrade_of[1], 0);
    say(d, rq, SNIB__QUEUED);
    give_back(d, r, 1);
    grant(d, 20);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
    give_back(d, b, 2);
    nothing_is_left(d);
}

static void
an_upgrade_names_the_read_and_leaves_it_when_it_gives_up(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *r = want(d, SNIB_KIND_READ, 1);
    uint64_t id[2] = {at(SNIB__ACQUIRE)->id[0], at(SNIB__ACQUIRE)->id[1]};
    grant(d, 10);
    struct snib__acquire_spec spec = ask_for(SNIB_KIND_WRITE, 1);
    spec.limit = snib__after(d->now, snib__ms(300));
    spec.timed = true;
    struct snib__acquisition *w = acquire(d, spec);
    assert_memory_equal(at(SNIB__ACQUIRE)->acquire.upgrade_of, id, sizeof id);
    assert_int_equal(counts(d).own_claims, 2);
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    pass_ms(d, 300);
    assert_int_equal(w->state, SNIB__ACQ_LEAVING);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    assert_int_equal(w->state, SNIB__ACQ_REFUSED);
    assert_int_equal(w->err, SNIB_ERR_TIMEOUT);
    snib__acquisition_done(d->e, w);
    assert_int_equal(state_of(d, r), SNIB_STATE_HELD);
    give_back(d, r, 1);
    say(d, at(SNIB__ACQUIRE), SNIB__NO); /* an answer to nobody */
    nothing_is_left(d);
}

static void
an_upgrade_whose_read_lock_was_lost_is_not_asked_for_again(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *r = granted(d, SNIB_KIND_READ, 1, 10);
    struct snib__acquisition *w = want(d, SNIB_KIND_WRITE, 1);
    pass_ms(d, 10000);
    say(d, at(SNIB__RENEW), SNIB__NO);
    assert_int_equal(r->state, SNIB__ACQ_DEAD);
    last_at(SNIB__ACQUIRE)->said.err = SNIB_ERR_CANCELLED; /* ask anew */
    say(d, last_at(SNIB__ACQUIRE), SNIB__NO);
    assert_int_equal(w->state, SNIB__ACQ_REFUSED);
    assert_int_equal(w->err, SNIB_ERR_LOST);
    snib__acquisition_done(d->e, w);
    assert_int_equal(release(d, r->ticket, 1, NULL), SNIB_ERR_LOST);
    nothing_is_left(d);
}

static void an_upgrade_outlives_the_release_of_its_read(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *r = granted(d, SNIB_KIND_READ, 1, 10);
    struct snib__acquisition *w = granted(d, SNIB_KIND_WRITE, 1, 11);
    give_back(d, r, 1);
    assert_int_equal(state_of(d, w), SNIB_STATE_HELD);
    assert_ptr_equal(want(d, SNIB_KIND_WRITE, 1), w);
    release(d, w->ticket, 1, NULL);
    give_back(d, w, 1);
    nothing_is_left(d);
}

/* -- owners of one client that want different things --------------------------- */

static void owners_of_one_client_wait_by_rank(void **state)
{
    struct desk *d = *state;
    static const int8_t rank[] = {0, 100, 100, -1, 0};
    static const int order[] = {1, 2, 0, 4, 3};
    struct snib__acquisition *held = granted(d, SNIB_KIND_MUTEX, 99, 1000),
                             *s[5];
    uint64_t owner = 99;
    for (int i = 0; i < 5; i++) {
        struct snib__acquire_spec spec =
            ask_for(SNIB_KIND_MUTEX, (uint64_t)i + 1);
        spec.priority = rank[i];
        s[i] = acquire(d, spec);
    }
    for (int i = 0; i < 5; i++) {
        assert_int_equal(release(d, held->ticket, owner, NULL), SNIB_ERR_OK);
        held = s[order[i]];
        owner = (uint64_t)order[i] + 1;
        assert_int_equal(held->state, SNIB__ACQ_SERVED);
    }
    give_back(d, held, owner);
    nothing_is_left(d);
}

/* Asked for by an owner that gave up, without a lock-delay: no grant for one
 * that wants it. */
static void
a_grant_on_anothers_terms_is_given_back_and_asked_for_anew(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = want(d, SNIB_KIND_MUTEX, 1);
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    struct snib__acquire_spec spec = ask_for(SNIB_KIND_MUTEX, 2);
    spec.delay = snib__ms(5000);
    struct snib__acquisition *b = acquire(d, spec);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, a, SNIB_ERR_TIMEOUT),
        SNIB_ERR_TIMEOUT);
    grant(d, 10);
    assert_int_equal(b->state, SNIB__ACQ_WAITING);
    assert_int_equal(at(SNIB__RELEASE)->token, 10);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    assert_int_equal(snib__to_ms(at(SNIB__ACQUIRE)->acquire.delay), 5000);
    grant(d, 11);
    assert_int_equal(b->token, 11);
    give_back(d, b, 2);
    nothing_is_left(d);
}

/* -- limits, lost replies, closing ---------------------------------------------------- */

static void each_has_a_limit_of_its_own(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s[3];
    for (int i = 0; i < 3; i++) {
        struct snib__acquire_spec spec =
            ask_for(SNIB_KIND_READ, (uint64_t)i + 1);
        spec.limit = snib__after(d->now, snib__ms(100 * (i + 1)));
        spec.timed = true;
        s[i] = acquire(d, spec);
        assert_int_equal(last_at(SNIB__ACQUIRE)->limit.ns, spec.limit.ns);
        say(d, last_at(SNIB__ACQUIRE), SNIB__QUEUED);
    }
    for (int i = 0; i < 3; i++) {
        pass_ms(d, 100);
        assert_int_equal(s[i]->err, SNIB_ERR_TIMEOUT);
        assert_int_equal(count_at(SNIB__CANCEL), 1);
        say(d, at(SNIB__CANCEL), SNIB__DONE);
        snib__acquisition_done(d->e, s[i]);
    }
    while (count_at(SNIB__ACQUIRE)) {
        say(d, last_at(SNIB__ACQUIRE), SNIB__NO);
    }
    nothing_is_left(d);
}

static void a_lost_reply_is_repeated_and_a_ghost_bars_nobody(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = want(d, SNIB_KIND_READ, 1);
    uint64_t id[2] = {at(SNIB__ACQUIRE)->id[0], at(SNIB__ACQUIRE)->id[1]};
    say(d, at(SNIB__ACQUIRE), SNIB__UNKNOWN);
    assert_true(at(SNIB__ACQUIRE)->resent);
    assert_memory_equal(at(SNIB__ACQUIRE)->id, id, sizeof id);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, a, SNIB_ERR_TIMEOUT),
        SNIB_ERR_UNKNOWN);
    assert_memory_equal(at(SNIB__CANCEL)->id, id, sizeof id);
    struct snib__acquisition *b =
        want(d, SNIB_KIND_READ, 1); /* an own claim of its own */
    grant_last(d, 10);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
    give_back(d, b, 1);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    assert_int_equal(counts(d).claims, 0);
}

static void closing_ends_own_claims_too(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *r = granted(d, SNIB_KIND_READ, 1, 10),
                             *p = granted(d, SNIB_KIND_PERMITS, 1, 11);
    struct snib__acquisition *up = want(d, SNIB_KIND_WRITE, 1),
                             *b = want(d, SNIB_KIND_BARRIER, 2);
    snib__engine_close(d->e, d->now);
    assert_int_equal(up->err, SNIB_ERR_CLOSED);
    assert_int_equal(b->err, SNIB_ERR_CLOSED);
    assert_int_equal(r->state, SNIB__ACQ_ENDING);
    assert_int_equal(p->state, SNIB__ACQ_ENDING);
    assert_int_equal(count_at(SNIB__RELEASE), 2);
    assert_int_equal(count_at(SNIB__CANCEL), 2);
    while (count_at(SNIB__RELEASE)) {
        say(d, last_at(SNIB__RELEASE), SNIB__DONE);
    }
    while (count_at(SNIB__CANCEL)) {
        say(d, last_at(SNIB__CANCEL), SNIB__DONE);
    }
    assert_int_equal(refused(d, ask_for(SNIB_KIND_READ, 5)), SNIB_ERR_CLOSED);
    assert_int_equal(counts(d).claims, 0);
}

/* tear_down counts the memory. */
static void an_engine_freed_in_the_middle_leaks_no_own_claim(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_for(SNIB_KIND_READ, 9);
    granted(d, SNIB_KIND_WRITE, 1, 10);
    granted(d, SNIB_KIND_READ, 1, 10);
    granted(d, SNIB_KIND_PERMITS, 3, 12);
    want(d, SNIB_KIND_READ, 2);
    want(d, SNIB_KIND_BARRIER, 4);
    spec.fixed = true;
    spec.lease = snib__ms(100);
    acquire(d, spec);
    grant_last(d, 10);
    pass_ms(d, 100); /* a dead acquisition, too */
    release(d, want(d, SNIB_KIND_READ, 1)->ticket, 1, NULL);
}

/* -- adoption --------------------------------------------------------------------------- */

static const uint64_t ONE[2] = {0x1111, 1}, TWO[2] = {0x2222, 2};

static snib_err take_up(struct desk *d, snib_kind kind, const uint64_t id[2],
                        uint64_t owner, struct snib__acquisition **ret)
{
    struct snib__acquire_spec spec = ask_for(kind, owner);
    spec.fixed = true;
    spec.limit = snib__after(d->now, snib__ms(2000));
    return snib__engine_adopt(d->e, d->now, d->local, &spec, id, 77, ret,
                              &d->err);
}

static void shared_grants_are_adopted_beside_each_other(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a, *b;
    assert_int_equal(take_up(d, SNIB_KIND_READ, ONE, 1, &a), SNIB_ERR_OK);
    assert_int_equal(take_up(d, SNIB_KIND_PERMITS, TWO, 2, &b), SNIB_ERR_OK);
    while (count_at(SNIB__RENEW)) {
        struct snib__request *rq = last_at(SNIB__RENEW);
        rq->said.left = rq->lease;
        rq->said.valid_from = d->now;
        say(d, rq, SNIB__DONE);
    }
    assert_int_equal(a->state, SNIB__ACQ_SERVED);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
    struct snib__acquisition *again;
    assert_int_equal(take_up(d, SNIB_KIND_READ, ONE, 3, &again), SNIB_ERR_BUSY);
    assert_int_equal(take_up(d, SNIB_KIND_PERMITS, TWO, 3, &again),
                     SNIB_ERR_BUSY);
    assert_int_equal(count_at(SNIB__RENEW), 0);
    give_back(d, a, 1);
    give_back(d, b, 9);
    nothing_is_left(d);
}

static void a_shared_grant_that_is_over_is_not_adopted(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a;
    assert_int_equal(take_up(d, SNIB_KIND_READ, ONE, 1, &a), SNIB_ERR_OK);
    at(SNIB__RENEW)->said.err = SNIB_ERR_LOST;
    say(d, at(SNIB__RENEW), SNIB__NO);
    assert_int_equal(a->state, SNIB__ACQ_REFUSED);
    assert_int_equal(a->err, SNIB_ERR_LOST);
    snib__acquisition_done(d->e, a);
    nothing_is_left(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(each_reader_and_each_lot_asks_for_itself),
        T(only_a_lot_that_is_held_or_lost_has_a_slot),
        T(a_reader_reads_again_at_no_cost),
        T(a_reader_is_renewed_like_any_other),
        T(terms_travel_with_the_request),
        T(all_that_are_left_are_told_by_the_store),
        T(refusals_of_the_store_reach_the_one_who_asked),
        T(a_owner_that_lost_its_read_lock_unwinds_first),
        T(a_reader_with_a_fixed_lease_loses_it_by_itself),
        T(what_is_lost_with_a_lock_delay_is_not_released),
        T(a_writer_that_reads_names_its_write),
        T(no_pass_within_the_process_while_the_owner_still_reads),
        T(an_upgrade_names_the_read_and_leaves_it_when_it_gives_up),
        T(an_upgrade_whose_read_lock_was_lost_is_not_asked_for_again),
        T(an_upgrade_outlives_the_release_of_its_read),
        T(owners_of_one_client_wait_by_rank),
        T(a_grant_on_anothers_terms_is_given_back_and_asked_for_anew),
        T(each_has_a_limit_of_its_own),
        T(a_lost_reply_is_repeated_and_a_ghost_bars_nobody),
        T(closing_ends_own_claims_too),
        T(an_engine_freed_in_the_middle_leaks_no_own_claim),
        T(shared_grants_are_adopted_beside_each_other),
        T(a_shared_grant_that_is_over_is_not_adopted),
    };
    return RUN(tests);
}
