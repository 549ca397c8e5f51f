/* store/postgres with ?dialect=advisory, over a libpq that answers what the test
 * says: what is told when a lock is had, held by another, lost with its session. */
#include "postgres_client.h"

#include "store/sql/native.h"

static int begin_advisory(void **state)
{
    (void)begin_world(state);
    snib__postgres_ops.free(w.p);
    lib.answer[SNIB__PG_ADVISORY_CLOCK] =
        (struct answer){1, {1700000000000000}, 0, 0, 0};
    lib.answer[SNIB__PG_ADVISORY_TRY] = (struct answer){1, {1}, 0, 0, 0};
    lib.answer[SNIB__PG_ADVISORY_UNLOCK] = (struct answer){1, {1}, 0, 0, 0};
    return open_at("postgres://u@localhost/d?dialect=advisory");
}

static struct snib__request verb(snib__verb v, int64_t token)
{
    return (struct snib__request){.verb = v, .token = token};
}

static snib__answer run(struct snib__request *r)
{
    execute(r, 1);
    return r->said.answer;
}

static struct snib__request granted(void)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    assert_int_equal(run(&r), SNIB__DONE);
    return r;
}

static void it_can_less_and_tells_of_ends(void **state)
{
    (void)state;
    assert_int_equal(w.out.caps, SNIB__TIED | SNIB__NO_LATCH | SNIB__CAN_PUSH);
    assert_int_equal(w.out.poll.ns, 0);
}

static void a_lock_that_is_had_is_a_grant_from_before_it_was_asked(void **state)
{
    (void)state;
    snib_instant before = snib__sql_now();
    struct snib__request r = granted();
    assert_true(r.said.valid_from.ns >= before.ns);
    assert_true(r.said.valid_from.ns <= snib__sql_now().ns);
    assert_int_equal(r.said.left.ns, r.lease.ns);
    assert_int_equal(r.token, INT64_C(1700000000000) * 1024);
    assert_int_equal(r.acquire.reserve, 0);
    assert_int_equal(lib.sent[SNIB__PG_ADVISORY_STAY], 1);
    assert_int_equal(lib.sent[SNIB__PG_LAYOUT], 0);
}

static void a_token_is_above_what_the_client_has_seen(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    (void)state;
    r.floor = INT64_C(1700000000000) * 1024 + 5;
    assert_int_equal(run(&r), SNIB__DONE);
    assert_int_equal(r.token, r.floor + 1);
}

static void what_another_holds_is_not_had(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    (void)state;
    lib.answer[SNIB__PG_ADVISORY_TRY].value[0] = 0;
    assert_int_equal(run(&r), SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_BUSY);
    assert_true(snib__list_empty(&w.p->advisory.holds));
    assert_non_null(w.p->advisory.spare); /* its connection is as good as new */
}

static void who_may_wait_leaves_a_statement_there(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    (void)state;
    lib.answer[SNIB__PG_ADVISORY_TRY].value[0] = 0;
    r.acquire.may_queue = true;
    assert_int_equal(run(&r), SNIB__QUEUED);
    assert_false(snib__list_empty(&w.p->advisory.holds));
    /* Here its answer has come by the next poll. */
    assert_int_equal(run(&r), SNIB__DONE);
    assert_true(r.token > 0);
}

static void a_renewal_counts_from_before_it_was_sent(void **state)
{
    (void)state;
    struct snib__request r = granted(), renew = verb(SNIB__RENEW, r.token);
    snib_instant before = snib__sql_now();
    assert_int_equal(run(&renew), SNIB__DONE);
    assert_true(renew.said.valid_from.ns >= before.ns);
    assert_int_equal(lib.sent[SNIB__PG_ADVISORY_STAY], 2);
    renew.renew.only_asks = true;
    assert_int_equal(run(&renew), SNIB__DONE);
    assert_int_equal(lib.sent[SNIB__PG_ADVISORY_STAY], 2);
}

static void a_grant_ends_with_its_connection(void **state)
{
    (void)state;
    struct snib__request r = granted(), renew = verb(SNIB__RENEW, r.token);
    lib.cut_at = lib.taken + 1;
    assert_int_equal(run(&renew), SNIB__NO);
    assert_int_equal(renew.said.err, SNIB_ERR_LOST);
    assert_true(renew.said.forgotten);
    assert_true(snib__list_empty(&w.p->advisory.holds));
    lib.cut_at = 0;
    assert_int_equal(run(&renew), SNIB__NO); /* nothing of it comes back */
}

static void only_its_own_grant_is_renewed_or_released(void **state)
{
    (void)state;
    struct snib__request r = granted(), renew = verb(SNIB__RENEW, r.token + 1),
                         release = verb(SNIB__RELEASE, r.token + 1);
    assert_int_equal(run(&renew), SNIB__NO);
    assert_int_equal(run(&release), SNIB__NO);
    assert_false(snib__list_empty(&w.p->advisory.holds));
    release.token = r.token;
    assert_int_equal(run(&release), SNIB__DONE);
    assert_int_equal(lib.sent[SNIB__PG_ADVISORY_UNLOCK], 1);
    assert_int_equal(run(&release), SNIB__NO);
}

static void
a_release_whose_answer_is_lost_ends_with_the_connection(void **state)
{
    (void)state;
    struct snib__request r = granted(), release = verb(SNIB__RELEASE, r.token);
    lib.cut_at = lib.taken + 1;
    assert_int_equal(run(&release), SNIB__UNKNOWN);
    assert_true(snib__list_empty(&w.p->advisory.holds));
    lib.cut_at = 0;
    assert_int_equal(run(&release), SNIB__NO);
}

static void a_cancel_ends_whatever_the_request_has(void **state)
{
    (void)state;
    (void)granted();
    struct snib__request cancel = verb(SNIB__CANCEL, 0);
    assert_int_equal(run(&cancel), SNIB__DONE);
    assert_true(snib__list_empty(&w.p->advisory.holds));
    assert_null(w.p->advisory.spare);
    assert_int_equal(run(&cancel), SNIB__DONE);
}

static void a_prior_grant_is_ended_also_while_it_is_used(void **state)
{
    (void)state;
    struct snib__request r = granted();
    struct snib__sql_hold *h = snib__sql_hold_use(&w.p->advisory, r.id);
    assert_non_null(h);
    snib__sql_hold_end_other(&w.p->advisory, r.id, r.token + 1);
    assert_false(h->doomed);
    snib__sql_hold_end_other(&w.p->advisory, r.id, r.token);
    assert_true(h->doomed);
    snib__sql_hold_leave(&w.p->advisory, h);
    assert_true(snib__list_empty(&w.p->advisory.holds));
    r = granted();
    snib__sql_hold_end_other(&w.p->advisory, r.id, r.token);
    assert_true(snib__list_empty(&w.p->advisory.holds));
}

static void
a_server_without_an_end_for_who_stands_still_is_refused(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    (void)state;
    lib.version = 139999;
    assert_int_equal(run(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CONFIG);
    assert_non_null(strstr(w.error.text, "needs PostgreSQL 14"));
}

static void what_there_is_not_is_unsupported(void **state)
{
    static const snib__verb verbs[] = {SNIB__LIST,      SNIB__FORCE,
                                       SNIB__PARAMS,    SNIB__VALUE_GET,
                                       SNIB__VALUE_PUT, SNIB__VALUE_DELETE};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        struct snib__request r = verb(verbs[i], 0);
        assert_int_equal(run(&r), SNIB__NOT_APPLIED);
        assert_int_equal(r.said.err, SNIB_ERR_UNSUPPORTED);
    }
    struct snib__request kind = verb(SNIB__ACQUIRE, 0), delay = kind,
                         priority = kind;
    kind.acquire.kind = SNIB_KIND_READ;
    delay.acquire.delay.ns = 1;
    priority.acquire.priority = -1;
    assert_int_equal(run(&kind), SNIB__NOT_APPLIED);
    assert_int_equal(run(&delay), SNIB__NOT_APPLIED);
    assert_int_equal(run(&priority), SNIB__NOT_APPLIED);
    assert_int_equal(lib.sent[SNIB__PG_ADVISORY_TRY], 0);
}

int main(void)
{
#define ADVISORY(f)                                                            \
    cmocka_unit_test_setup_teardown(f, begin_advisory, end_world)
    static const struct CMUnitTest cases[] = {
        ADVISORY(it_can_less_and_tells_of_ends),
        ADVISORY(a_lock_that_is_had_is_a_grant_from_before_it_was_asked),
        ADVISORY(a_token_is_above_what_the_client_has_seen),
        ADVISORY(what_another_holds_is_not_had),
        ADVISORY(who_may_wait_leaves_a_statement_there),
        ADVISORY(a_renewal_counts_from_before_it_was_sent),
        ADVISORY(a_grant_ends_with_its_connection),
        ADVISORY(only_its_own_grant_is_renewed_or_released),
        ADVISORY(a_release_whose_answer_is_lost_ends_with_the_connection),
        ADVISORY(a_cancel_ends_whatever_the_request_has),
        ADVISORY(a_prior_grant_is_ended_also_while_it_is_used),
        ADVISORY(a_server_without_an_end_for_who_stands_still_is_refused),
        ADVISORY(what_there_is_not_is_unsupported),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
