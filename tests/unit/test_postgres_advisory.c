/* store/postgres with ?dialect=advisory, over a libpq that answers what the test
 * says: what is told when a lock is had, held by another, lost with its session. */
#include "postgres_client.h"

#include "store/sql/native.h"

/* Another worker, which wants that request's connection as soon as it may. */
static struct {
    const uint64_t *id; /* NULL: there is none */
    struct snib__sql_hold *found;
} other;

void mutex_unlocked(void); /* harness/mutexes.c; not with ThreadSanitizer */
void mutex_unlocked(void)
{
    const uint64_t *id = other.id;
    other.id = NULL;
    if (id) {
        other.found = snib__sql_hold_use(&w.p->advisory, id);
    }
}

static int begin_advisory(void **state)
{
    (void)begin_world(state);
    snib__postgres_ops.free(w.p);
    lib.answer[SNIB__PG_ADVISORY_SETTINGS] =
        (struct answer){1, {77, 0, 1000, 5}, 0, 0, 0};
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
}

static void a_question_makes_no_lease_longer(void **state)
{
    (void)state;
    struct snib__request r = granted(), ask = verb(SNIB__RENEW, r.token);
    ask.renew.only_asks = true;
    ask.renew.held_until = snib__after(snib__sql_now(), snib__ms(500));
    assert_int_equal(run(&ask), SNIB__DONE);
    assert_int_equal(lib.sent[SNIB__PG_ADVISORY_STAY], 2);
    assert_in_range(atoi(lib.stay), 400, 502); /* of 1000 */
    ask.renew.only_asks = false;
    assert_int_equal(run(&ask), SNIB__DONE);
    assert_int_equal(atoi(lib.stay), 1001);
}

static void a_renewal_without_an_answer_ends_nothing(void **state)
{
    (void)state;
    struct snib__request r = granted(), renew = verb(SNIB__RENEW, r.token);
    lib.silent = true;
    assert_int_equal(run(&renew), SNIB__UNKNOWN);
    assert_int_equal(run(&renew), SNIB__NOT_APPLIED);
    assert_int_equal(renew.said.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(w.error.text, "no answer from the server"));
    assert_int_equal(lib.sent[SNIB__PG_ADVISORY_STAY], 2);
    assert_int_equal(lib.finished, 0);
    lib.silent = false;
    snib_instant before = snib__sql_now();
    assert_int_equal(run(&renew), SNIB__DONE);
    assert_true(renew.said.valid_from.ns >= before.ns);
    assert_int_equal(lib.sent[SNIB__PG_ADVISORY_STAY], 3);
}

static void a_release_behind_an_answer_that_is_owed_is_unknown(void **state)
{
    (void)state;
    struct snib__request r = granted(), renew = verb(SNIB__RENEW, r.token),
                         release = verb(SNIB__RELEASE, r.token);
    lib.silent = true;
    assert_int_equal(run(&renew), SNIB__UNKNOWN);
    assert_int_equal(run(&release), SNIB__UNKNOWN);
    assert_true(snib__list_empty(&w.p->advisory.holds));
    assert_int_equal(run(&release), SNIB__NO);
}

/* Who stands behind it in the same call is not told that the server is silent. */
static void a_server_that_answers_is_heard(void **state)
{
    (void)state;
    snib_instant before = snib__sql_now();
    struct snib__request r = granted(), renew = verb(SNIB__RENEW, r.token);
    assert_true(r.exec.heard >= before.ns);
    lib.cut_at = lib.taken + 1;
    assert_int_equal(run(&renew), SNIB__NO);
    assert_int_equal(renew.exec.heard, 0);
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

static void a_release_of_what_had_ended_before_says_so(void **state)
{
    (void)state;
    struct snib__request r = granted(), release = verb(SNIB__RELEASE, r.token);
    assert_int_equal(write(lib.fd[1], "x", 1), 1);
    lib.words = 2;
    assert_int_equal(run(&release), SNIB__NO);
    assert_int_equal(release.said.err, SNIB_ERR_LOST);
    assert_true(release.said.forgotten);
    assert_int_equal(lib.sent[SNIB__PG_ADVISORY_UNLOCK], 0);
    assert_true(snib__list_empty(&w.p->advisory.holds));
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

/* What has been answered needs no end, and its number may be another's. */
static void a_cancel_ends_no_wait_that_is_over(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0),
                         cancel = verb(SNIB__CANCEL, 0);
    (void)state;
    lib.answer[SNIB__PG_ADVISORY_TRY].value[0] = 0;
    r.acquire.may_queue = true;
    assert_int_equal(run(&r), SNIB__QUEUED);
    assert_int_equal(run(&cancel), SNIB__DONE);
    assert_int_equal(lib.sent[SNIB__PG_ADVISORY_CANCEL], 0);
    assert_true(snib__list_empty(&w.p->advisory.holds));
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

/* A server says why it ends a session, and then ends it. */
static void a_connection_has_ended_behind_the_last_words(void **state)
{
    (void)state;
    struct snib__request r = granted();
    struct snib__sql_hold *h = snib__sql_hold_use(&w.p->advisory, r.id);
    assert_false(snib__pg_advisory.heard(h));
    assert_int_equal(write(lib.fd[1], "x", 1), 1);
    assert_false(snib__pg_advisory.heard(h)); /* it says something else */
    lib.words = 2;
    assert_true(snib__pg_advisory.heard(h));
    snib__sql_hold_leave(&w.p->advisory, h);
}

static void nobody_finds_what_is_ended_by_another(void **state)
{
    (void)state;
    struct snib__request r = granted();
    other.id = r.id;
    snib__sql_hold_end_other(&w.p->advisory, r.id, r.token);
    assert_null(other.id);
    assert_null(other.found);
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

/* A name may stand for several servers: the session reached the primary. */
static void a_lock_of_a_standby_is_none(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    (void)state;
    lib.answer[SNIB__PG_ADVISORY_SETTINGS].value[1] = 1;
    assert_int_equal(run(&r), SNIB__PENDING);
    assert_int_equal(r.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(w.error.text, "is a standby"));
    assert_int_equal(lib.sent[SNIB__PG_ADVISORY_TRY], 0);
    lib.answer[SNIB__PG_ADVISORY_SETTINGS].value[1] = 0;
    w.p->session[0].tables.locks.not_before = (snib_instant){0};
    assert_int_equal(run(&r), SNIB__DONE);
}

static void a_server_without_room_is_not_asked_again_at_once(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    (void)state;
    assert_int_equal(reach(), SNIB__SQL_OK);
    w.p->session[0].tables.locks.failures = 6; /* the next pause is a second */
    lib.polls = PGRES_POLLING_FAILED;
    lib.refusal = "FATAL:  53300: sorry, too many clients already";
    assert_int_equal(run(&r), SNIB__PENDING);
    assert_int_equal(lib.finished, 1);
    assert_int_equal(run(&r), SNIB__PENDING);
    assert_int_equal(lib.finished, 1);
    assert_int_equal(r.said.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(w.error.text, "max_connections"));
}

static void a_lock_behind_a_pooler_is_refused(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    (void)state;
    lib.answer[SNIB__PG_ADVISORY_SETTINGS].value[0] = 78;
    assert_int_equal(run(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CONFIG);
    assert_int_equal(lib.sent[SNIB__PG_ADVISORY_TRY], 0);
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
        ADVISORY(a_question_makes_no_lease_longer),
        ADVISORY(a_renewal_without_an_answer_ends_nothing),
        ADVISORY(a_release_behind_an_answer_that_is_owed_is_unknown),
        ADVISORY(a_server_that_answers_is_heard),
        ADVISORY(a_grant_ends_with_its_connection),
        ADVISORY(only_its_own_grant_is_renewed_or_released),
        ADVISORY(a_release_whose_answer_is_lost_ends_with_the_connection),
        ADVISORY(a_release_of_what_had_ended_before_says_so),
        ADVISORY(a_cancel_ends_whatever_the_request_has),
        ADVISORY(a_cancel_ends_no_wait_that_is_over),
        ADVISORY(a_prior_grant_is_ended_also_while_it_is_used),
        ADVISORY(a_connection_has_ended_behind_the_last_words),
        ADVISORY(nobody_finds_what_is_ended_by_another),
        ADVISORY(a_server_without_an_end_for_who_stands_still_is_refused),
        ADVISORY(a_lock_of_a_standby_is_none),
        ADVISORY(a_server_without_room_is_not_asked_again_at_once),
        ADVISORY(a_lock_behind_a_pooler_is_refused),
        ADVISORY(what_there_is_not_is_unsupported),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
