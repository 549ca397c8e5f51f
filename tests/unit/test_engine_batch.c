/* The engine and acquires that go to the store as one step. */
#include "engine_desk.h"

struct three {
    struct snib__local_lock *local[3];
    struct snib__acquisition *acq[3];
};

static const char *const doors[3] = {"a", "b", "c"};

static struct three three_local_locks(struct desk *d)
{
    struct three t = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            snib__engine_local_lock(d->e, doors[i], 0, &t.local[i], &d->err),
            SNIB_ERR_OK);
    }
    return t;
}

static struct snib__acquisition *
sit(struct desk *d, struct snib__local_lock *local, bool try_only)
{
    struct snib__acquisition *s = NULL;
    struct snib__acquire_spec spec = ask_of(7);
    spec.try_only = try_only;
    spec.limit = snib__after(d->now, snib__ms(2000));
    assert_int_equal(
        snib__engine_acquire(d->e, d->now, local, &spec, &s, &d->err),
        SNIB_ERR_OK);
    return s;
}

static struct snib__request *asked_for(const char *name)
{
    SNIB__LIST_EACH (l, &at_store) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (strcmp(rq->name->safe, name) == 0) {
            return rq;
        }
    }
    return NULL;
}

static void done_with(struct desk *d, struct three *t)
{
    for (int i = 0; i < 3; i++) {
        if (t->acq[i]) {
            assert_int_equal(t->acq[i]->state, SNIB__ACQ_REFUSED);
            snib__acquisition_done(d->e, t->acq[i]);
        }
        snib__engine_local_lock_unref(d->e, t->local[i]);
    }
}

static void gathered_tries_leave_together_in_their_order(void **state)
{
    struct desk *d = *state;
    struct three t = three_local_locks(d);
    snib__engine_gather(d->e, true);
    for (int i = 0; i < 3; i++) {
        t.acq[i] = sit(d, t.local[i], true);
        assert_int_equal(snib__engine_batch(d->e), i + 1);
        assert_null(asked_for(doors[i])); /* not before all are there */
    }
    snib__engine_gathered(d->e, d->now, SNIB__BATCH_GO);
    uint32_t number = asked_for("a")->batch.number;
    assert_int_not_equal(number, 0);
    for (int i = 0; i < 3; i++) {
        const struct snib__request *rq = asked_for(doors[i]);
        assert_int_equal(rq->batch.number, number);
        assert_int_equal(rq->batch.index, i);
        assert_true(rq->batch.all);
    }
    for (int i = 0; i < 3; i++) {
        struct snib__request *rq = asked_for(doors[i]);
        rq->said.err = i == 1 ? SNIB_ERR_BUSY : SNIB_ERR_CANCELLED;
        say(d, rq, SNIB__NO);
        assert_int_equal(t.acq[i]->err,
                         i == 1 ? SNIB_ERR_BUSY : SNIB_ERR_CANCELLED);
    }
    done_with(d, &t);
}

static void the_next_batch_has_another_number(void **state)
{
    struct desk *d = *state;
    struct three t = three_local_locks(d);
    uint32_t number[2];
    for (int i = 0; i < 2; i++) {
        snib__engine_gather(d->e, false);
        t.acq[i] = sit(d, t.local[i], true);
        snib__engine_gathered(d->e, d->now, SNIB__BATCH_GO);
        number[i] = asked_for(doors[i])->batch.number;
        assert_false(asked_for(doors[i])->batch.all);
    }
    assert_int_not_equal(number[0], number[1]);
    for (int i = 0; i < 2; i++) {
        say(d, asked_for(doors[i]), SNIB__NO);
    }
    done_with(d, &t);
}

static void one_that_may_queue_goes_alone(void **state)
{
    struct desk *d = *state;
    struct three t = three_local_locks(d);
    snib__engine_gather(d->e, false);
    struct snib__acquisition *s = sit(d, t.local[0], false);
    assert_int_equal(snib__engine_batch(d->e), 0);
    snib__engine_gathered(d->e, d->now, SNIB__BATCH_GO);
    assert_int_equal(asked_for("a")->batch.number, 0);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, s, SNIB_ERR_TIMEOUT),
        SNIB_ERR_UNKNOWN);
    done_with(d, &t);
}

static void a_dropped_batch_never_reaches_the_store(void **state)
{
    struct desk *d = *state;
    struct three t = three_local_locks(d);
    snib__engine_gather(d->e, true);
    t.acq[0] = sit(d, t.local[0], true);
    t.acq[1] = sit(d, t.local[1], true);
    snib__engine_gathered(d->e, d->now, SNIB__BATCH_DROP);
    assert_true(snib__list_empty(&at_store));
    assert_int_equal(t.acq[0]->err, SNIB_ERR_CANCELLED);
    assert_int_equal(t.acq[1]->err, SNIB_ERR_CANCELLED);
    done_with(d, &t);
}

static void a_parted_batch_asks_each_for_itself(void **state)
{
    struct desk *d = *state;
    struct three t = three_local_locks(d);
    snib__engine_gather(d->e, true);
    t.acq[0] = sit(d, t.local[0], true);
    t.acq[1] = sit(d, t.local[1], true);
    snib__engine_gathered(d->e, d->now, SNIB__BATCH_PART);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(asked_for(doors[i])->batch.number, 0);
        say(d, asked_for(doors[i]), SNIB__NO);
    }
    done_with(d, &t);
}

/* The local lock's release is not answered yet: asked for later, and alone. */
static void one_whose_local_lock_is_busy_does_not_join(void **state)
{
    struct desk *d = *state;
    struct three t = three_local_locks(d);
    struct snib__acquisition *s = sit(d, t.local[0], true), *ending;
    grant(d, 5);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    release(d, s->ticket, 7, &ending);
    snib__engine_gather(d->e, false);
    t.acq[0] = sit(d, t.local[0], true);
    assert_int_equal(snib__engine_batch(d->e), 0);
    snib__engine_gathered(d->e, d->now, SNIB__BATCH_GO);
    assert_null(at(SNIB__ACQUIRE));
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    snib__acquisition_done(d->e, ending);
    assert_int_equal(at(SNIB__ACQUIRE)->batch.number, 0);
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
    done_with(d, &t);
}

/* Another thread's try at a door of the batch asked with it; that the
 * batch failed is nothing to it. */
static void who_joined_one_of_a_batch_is_asked_for_alone(void **state)
{
    struct desk *d = *state;
    struct three t = three_local_locks(d);
    snib__engine_gather(d->e, true);
    t.acq[0] = sit(d, t.local[0], true);
    t.acq[1] = sit(d, t.local[1], true);
    snib__engine_gathered(d->e, d->now, SNIB__BATCH_GO);
    struct snib__acquire_spec spec = ask_of(8);
    struct snib__acquisition *other = NULL;
    spec.try_only = true;
    assert_int_equal(
        snib__engine_acquire(d->e, d->now, t.local[0], &spec, &other, &d->err),
        SNIB_ERR_OK);
    struct snib__request *rq = asked_for("a");
    rq->said.err = SNIB_ERR_CANCELLED;
    say(d, rq, SNIB__NO);
    assert_int_equal(t.acq[0]->err, SNIB_ERR_CANCELLED);
    assert_int_equal(other->state, SNIB__ACQ_WAITING);
    rq = asked_for("a");
    assert_non_null(rq);
    assert_int_equal(rq->batch.number, 0);
    say(d, rq, SNIB__NO);
    assert_int_equal(other->err, SNIB_ERR_BUSY);
    snib__acquisition_done(d->e, other);
    say(d, asked_for("b"), SNIB__NO);
    done_with(d, &t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(gathered_tries_leave_together_in_their_order),
        T(the_next_batch_has_another_number),
        T(one_that_may_queue_goes_alone),
        T(a_dropped_batch_never_reaches_the_store),
        T(a_parted_batch_asks_each_for_itself),
        T(one_whose_local_lock_is_busy_does_not_join),
        T(who_joined_one_of_a_batch_is_asked_for_alone),
    };
    return RUN(tests);
}
