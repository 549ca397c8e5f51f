/* core/engine: changes of a value, and what becomes of them when their reply
 * was lost. */
#include "engine_desk.h"

static struct snib__direct change(snib__verb verb)
{
    return (struct snib__direct){.verb = verb,
                                 .name = "door",
                                 .name_size = 4,
                                 .expected = 7,
                                 .bytes = "x",
                                 .bytes_size = verb == SNIB__VALUE_PUT,
                                 .limit = SNIB__NEVER};
}

static void begin(struct desk *d, struct snib__direct *q)
{
    assert_int_equal(snib__engine_direct(d->e, d->now, q), SNIB_ERR_OK);
}

static void end(struct desk *d, struct snib__direct *q)
{
    assert_ptr_equal(snib__engine_told_direct(d->e), q);
    snib__buf_free(&q->result);
}

static void a_repeat_has_the_id_and_says_so(void **state)
{
    struct desk *d = *state;
    struct snib__direct q = change(SNIB__VALUE_PUT);
    begin(d, &q);
    struct snib__request *rq = at(SNIB__VALUE_PUT);
    uint64_t id[2] = {rq->id[0], rq->id[1]};
    snib_instant born = rq->value.born;
    assert_false(rq->resent);
    say(d, rq, SNIB__UNKNOWN);
    end(d, &q);
    assert_int_equal(q.err, SNIB_ERR_UNKNOWN);
    d->now.ns += 300 * MS;
    q.resent = true;
    begin(d, &q);
    rq = at(SNIB__VALUE_PUT);
    assert_memory_equal(rq->id, id, sizeof id);
    assert_true(rq->resent);
    assert_int_equal(rq->value.born.ns, born.ns);
    assert_int_equal(rq->value.age.ns, 300 * MS);
    say(d, rq, SNIB__DONE);
    end(d, &q);
    assert_int_equal(q.err, SNIB_ERR_OK);
}

/* The first copy may be applied, whatever became of the second. */
static void a_repeat_that_fails_leaves_the_change_unknown(void **state)
{
    static const snib__verb verbs[] = {SNIB__VALUE_PUT, SNIB__VALUE_DELETE};
    struct desk *d = *state;
    for (int i = 0; i < 2; i++) {
        struct snib__direct q = change(verbs[i]);
        begin(d, &q);
        say(d, at(verbs[i]), SNIB__UNKNOWN);
        end(d, &q);
        q.resent = true;
        begin(d, &q);
        struct snib__request *rq = at(verbs[i]);
        rq->said.err = SNIB_ERR_UNREACHABLE;
        say(d, rq, SNIB__NOT_APPLIED);
        end(d, &q);
        assert_int_equal(q.err, SNIB_ERR_UNKNOWN);
        assert_int_equal(q.answer, SNIB__NOT_APPLIED); /* not asked again */
    }
}

static void a_first_copy_that_fails_is_not_applied(void **state)
{
    struct desk *d = *state;
    struct snib__direct q = change(SNIB__VALUE_PUT);
    begin(d, &q);
    struct snib__request *rq = at(SNIB__VALUE_PUT);
    rq->said.err = SNIB_ERR_STORE;
    say(d, rq, SNIB__NOT_APPLIED);
    end(d, &q);
    assert_int_equal(q.err, SNIB_ERR_STORE);
}

static void a_change_of_terms_that_fails_after_a_doubt_is_unknown(void **state)
{
    struct desk *d = *state;
    struct snib__direct q = change(SNIB__PARAMS);
    q.op = SNIB__PARAMS_ADD;
    q.amount = 1;
    begin(d, &q);
    say(d, at(SNIB__PARAMS), SNIB__UNKNOWN); /* the engine asks again itself */
    struct snib__request *rq = at(SNIB__PARAMS);
    assert_true(rq->resent);
    rq->said.err = SNIB_ERR_UNREACHABLE;
    say(d, rq, SNIB__NOT_APPLIED);
    end(d, &q);
    assert_int_equal(q.err, SNIB_ERR_UNKNOWN);
}

static void a_no_without_a_reason_is_an_error_of_the_store(void **state)
{
    static const snib__answer answers[] = {SNIB__NO, SNIB__NOT_APPLIED};
    struct desk *d = *state;
    for (int i = 0; i < 2; i++) {
        struct snib__direct q = change(SNIB__VALUE_GET);
        begin(d, &q);
        say(d, at(SNIB__VALUE_GET), answers[i]);
        end(d, &q);
        assert_int_equal(q.err, SNIB_ERR_STORE);
    }
}

int main(void)
{
    const struct CMUnitTest of_values[] = {
        T(a_repeat_has_the_id_and_says_so),
        T(a_repeat_that_fails_leaves_the_change_unknown),
        T(a_first_copy_that_fails_is_not_applied),
        T(a_change_of_terms_that_fails_after_a_doubt_is_unknown),
        T(a_no_without_a_reason_is_an_error_of_the_store),
    };
    return RUN(of_values);
}
