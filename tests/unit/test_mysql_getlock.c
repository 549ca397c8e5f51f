/* store/mysql with ?dialect=getlock, over a libmariadb that answers what the test
 * says: what is told when a lock is had, held by another, lost with its session. */
#include "mysql_client.h"

enum { TRY = MORE, WAIT, UNLOCK, CLOCK, NODES };

static int begin_getlock(void **state)
{
    (void)begin_world(state);
    snib__mysql_ops.free(w.p);
    lib.answer[TRY] = (struct answer){"GET_LOCK(x'6e',0)", 1, {1}, 0};
    lib.answer[WAIT] = (struct answer){"GET_LOCK(x'6e',31536000)", 1, {1}, 0};
    lib.answer[UNLOCK] = (struct answer){"RELEASE_LOCK(x'6e')", 1, {1}, 0};
    lib.answer[CLOCK] =
        (struct answer){"SELECT IF(CAST(@@", 1, {1700000000000000}, 0};
    lib.stalls = "31536000";
    return open_at("mysql://u@localhost/d?dialect=getlock");
}

static snib__answer run(struct snib__request *r)
{
    static const struct snib__name name = {1, 1, 5, "n", "n"};
    struct snib__list chain;
    snib__list_init(&chain);
    snib__link_init(&r->link);
    r->name = &name;
    r->said.reterr = &w.error;
    r->id[0] = 3;
    r->lease = snib__ms(2500);
    r->exec.patience = SNIB__NEVER;
    w.k->is.not_before = (snib_instant){0};
    snib__list_push(&chain, &r->link);
    snib__mysql_ops.exec_in(w.p, 0, snib__sql_now(), &chain);
    snib__unlink(&r->link);
    return r->said.answer;
}

static struct snib__request verb(snib__verb v, int64_t token)
{
    return (struct snib__request){.verb = v, .token = token};
}

static struct snib__request granted(void)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    assert_int_equal(run(&r), SNIB__DONE);
    return r;
}

static int asked(const char *words)
{
    int n = 0;
    for (const char *at = lib.asked; (at = strstr(at, words)); at++) {
        n++;
    }
    return n;
}

static void it_can_less_and_tells_of_ends(void **state)
{
    (void)state;
    assert_int_equal(w.out.caps, SNIB__TIED | SNIB__NO_LATCH | SNIB__CAN_PUSH);
    assert_int_equal(w.out.poll.ns, 0);
    assert_int_equal(snib__mysql_ops.notifier_fd(w.p), w.p->getlock.epoll);
}

static void what_is_of_a_table_means_nothing(void **state)
{
    static const char *const bad[] = {"table=x", "prefix=x", "ttl=3s",
                                      "region=r"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char url[100];
        snprintf(url, sizeof url, "mysql://h/d?dialect=getlock&%s", bad[i]);
        snib__mysql_ops.free(w.p);
        w.p = NULL;
        assert_int_equal(open_at(url), SNIB_ERR_USAGE);
        assert_int_equal(open_at("mysql://h/d"), SNIB_ERR_OK);
    }
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
    /* In whole seconds, never fewer. */
    assert_int_equal(asked("wait_timeout=IF(3=0"), 1);
    assert_int_equal(asked("max_statement_time=0"), 1);
    assert_int_equal(asked("`key`='schema'"), 0);
}

static void what_another_holds_is_not_had(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    (void)state;
    lib.answer[TRY].number[0] = 0;
    assert_int_equal(run(&r), SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_BUSY);
    assert_true(snib__list_empty(&w.p->getlock.holds));
    assert_non_null(w.p->getlock.spare); /* its connection is as good as new */
}

/* NULL: an error of the server's, a KILL QUERY. */
static void what_the_server_cannot_say_is_not_held_by_another(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    (void)state;
    lib.nulls = lib.answer[TRY].has;
    for (int impatient = 0; impatient < 2; impatient++) {
        r.exec.impatient = impatient;
        assert_int_equal(run(&r),
                         impatient ? SNIB__NOT_APPLIED : SNIB__PENDING);
        assert_int_equal(r.said.err, SNIB_ERR_STORE);
        assert_true(snib__list_empty(&w.p->getlock.holds));
        assert_null(w.p->getlock.spare);
    }
    lib.nulls = NULL;
    r = granted();
    lib.nulls = lib.answer[UNLOCK].has; /* there is no such lock */
    struct snib__request release = verb(SNIB__RELEASE, r.token);
    assert_int_equal(run(&release), SNIB__NO);
    assert_int_equal(release.said.err, SNIB_ERR_LOST);
    assert_null(w.p->getlock.spare);
}

/* Its answer comes; *w.p tells of it. */
static void the_answer_comes(void)
{
    uint64_t ids[4][2];
    lib_answers();
    assert_int_equal(snib__mysql_ops.notified(w.p, ids, 4), 1);
    assert_int_equal(ids[0][0], 3);
}

static void who_may_wait_leaves_a_statement_there(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    (void)state;
    lib.answer[TRY].number[0] = 0;
    r.acquire.may_queue = true;
    assert_int_equal(run(&r), SNIB__QUEUED);
    assert_int_equal(asked("31536000"), 1);
    assert_int_equal(run(&r), SNIB__QUEUED);
    assert_int_equal(asked("31536000"), 1);
    the_answer_comes();
    assert_int_equal(run(&r), SNIB__DONE);
    assert_true(r.token > 0);
    assert_int_equal(asked("wait_timeout=IF(3=0"), 2); /* the lease begins */
}

static void a_wait_that_ends_without_the_lock_begins_anew(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    (void)state;
    lib.answer[TRY].number[0] = 0;
    lib.answer[WAIT].number[0] = 0;
    r.acquire.may_queue = true;
    assert_int_equal(run(&r), SNIB__QUEUED);
    the_answer_comes();
    assert_int_equal(run(&r), SNIB__QUEUED);
    assert_int_equal(asked("31536000"), 2);
}

static void a_renewal_counts_from_before_it_was_sent(void **state)
{
    (void)state;
    struct snib__request r = granted(), renew = verb(SNIB__RENEW, r.token);
    snib_instant before = snib__sql_now();
    assert_int_equal(run(&renew), SNIB__DONE);
    assert_true(renew.said.valid_from.ns >= before.ns);
    assert_int_equal(asked("wait_timeout=IF(3=0"), 2);
}

static void a_question_makes_no_lease_longer(void **state)
{
    (void)state;
    struct snib__request r = granted(), ask = verb(SNIB__RENEW, r.token);
    ask.renew.only_asks = true;
    ask.renew.held_until = snib__after(snib__sql_now(), snib__ms(1500));
    assert_int_equal(run(&ask), SNIB__DONE);
    assert_int_equal(asked("wait_timeout=IF(2=0"), 1); /* of 3 */
    ask.renew.only_asks = false;
    assert_int_equal(run(&ask), SNIB__DONE);
    assert_int_equal(asked("wait_timeout=IF(3=0"), 2);
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
    assert_int_equal(asked("wait_timeout=IF(3=0"), 2);
    assert_int_equal(lib.closed, 0);
    lib.silent = false;
    lib_answers();
    snib_instant before = snib__sql_now();
    assert_int_equal(run(&renew), SNIB__DONE);
    assert_true(renew.said.valid_from.ns >= before.ns);
    assert_int_equal(asked("wait_timeout=IF(3=0"), 3);
}

static void a_release_behind_an_answer_that_is_owed_is_unknown(void **state)
{
    (void)state;
    struct snib__request r = granted(), renew = verb(SNIB__RENEW, r.token),
                         release = verb(SNIB__RELEASE, r.token);
    lib.silent = true;
    assert_int_equal(run(&renew), SNIB__UNKNOWN);
    assert_int_equal(run(&release), SNIB__UNKNOWN);
    assert_int_equal(asked("RELEASE_LOCK"), 0);
    assert_true(snib__list_empty(&w.p->getlock.holds));
    assert_int_equal(run(&release), SNIB__NO);
}

/* Who stands behind it in the same call is not told that the server is silent. */
static void a_server_that_answers_is_heard(void **state)
{
    (void)state;
    snib_instant before = snib__sql_now();
    struct snib__request r = granted(), renew = verb(SNIB__RENEW, r.token);
    assert_true(r.exec.heard >= before.ns);
    lib.cut_at = lib.taken;
    assert_int_equal(run(&renew), SNIB__NO);
    assert_int_equal(renew.exec.heard, 0);
}

/* It is made one while our sessions last, and another one grants from then on. */
static void a_grant_of_who_is_no_primary_any_more_is_lost(void **state)
{
    (void)state;
    struct snib__request r = granted(), renew = verb(SNIB__RENEW, r.token);
    lib.answer[CLOCK].number[0] = 0;
    assert_int_equal(run(&renew), SNIB__NO);
    assert_int_equal(renew.said.err, SNIB_ERR_LOST);
    assert_true(snib__list_empty(&w.p->getlock.holds));
    struct snib__request next = verb(SNIB__ACQUIRE, 0);
    assert_int_equal(run(&next), SNIB__PENDING);
    assert_int_equal(next.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(w.error.text, "no primary any more"));
    assert_true(snib__list_empty(&w.p->getlock.holds));
}

static void a_grant_ends_with_its_connection(void **state)
{
    (void)state;
    struct snib__request r = granted(), renew = verb(SNIB__RENEW, r.token);
    lib.cut_at = lib.taken;
    assert_int_equal(run(&renew), SNIB__NO);
    assert_int_equal(renew.said.err, SNIB_ERR_LOST);
    assert_true(renew.said.forgotten);
    assert_true(snib__list_empty(&w.p->getlock.holds));
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
    release.token = r.token;
    assert_int_equal(run(&release), SNIB__DONE);
    assert_int_equal(asked("RELEASE_LOCK"), 1);
    assert_int_equal(asked("wait_timeout=IF(0=0"), 1);
    assert_int_equal(run(&release), SNIB__NO);
}

static void
a_release_whose_answer_is_lost_ends_with_the_connection(void **state)
{
    (void)state;
    struct snib__request r = granted(), release = verb(SNIB__RELEASE, r.token);
    lib.cut_at = lib.taken;
    assert_int_equal(run(&release), SNIB__UNKNOWN);
    assert_true(snib__list_empty(&w.p->getlock.holds));
    lib.cut_at = 0;
    assert_int_equal(run(&release), SNIB__NO);
}

static void a_release_of_what_had_ended_before_says_so(void **state)
{
    (void)state;
    struct snib__request r = granted(), release = verb(SNIB__RELEASE, r.token);
    lib_answers(); /* nobody has asked: a farewell */
    assert_int_equal(run(&release), SNIB__NO);
    assert_int_equal(release.said.err, SNIB_ERR_LOST);
    assert_true(release.said.forgotten);
    assert_int_equal(asked("RELEASE_LOCK"), 0);
    assert_true(snib__list_empty(&w.p->getlock.holds));
}

static void a_cancel_ends_the_wait(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0),
                         cancel = verb(SNIB__CANCEL, 0);
    (void)state;
    lib.answer[TRY].number[0] = 0;
    r.acquire.may_queue = true;
    assert_int_equal(run(&r), SNIB__QUEUED);
    assert_int_equal(run(&cancel), SNIB__DONE);
    assert_int_equal(asked("'KILL QUERY 77'"), 1);
    assert_int_equal(asked("WHERE ID=77 AND STATE='User lock'"), 1);
    assert_true(snib__list_empty(&w.p->getlock.holds));
    assert_null(w.p->getlock.spare);
}

/* What has been answered needs no end, and its number may be another's. */
static void a_cancel_ends_no_wait_that_is_over(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0),
                         cancel = verb(SNIB__CANCEL, 0);
    (void)state;
    lib.answer[TRY].number[0] = 0;
    r.acquire.may_queue = true;
    assert_int_equal(run(&r), SNIB__QUEUED);
    the_answer_comes();
    assert_int_equal(run(&cancel), SNIB__DONE);
    assert_int_equal(asked("KILL QUERY"), 0);
    assert_true(snib__list_empty(&w.p->getlock.holds));
}

/* A name may stand for several servers: the session reached the primary. */
static void a_lock_of_a_replica_is_none(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    (void)state;
    assert_int_equal(reach(), SNIB__SQL_OK);
    w.p->session[0].tables.locks.failures = 6; /* the next pause is a second */
    lib.answer[WHO].number[1] = 1;
    assert_int_equal(run(&r), SNIB__PENDING);
    assert_int_equal(r.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(w.error.text, "a replica"));
    assert_int_equal(asked("GET_LOCK"), 0);
    lib.answer[WHO].number[1] = 0;
    assert_int_equal(run(&r), SNIB__PENDING); /* behind a failure is a pause */
    w.p->session[0].tables.locks.not_before = (snib_instant){0};
    assert_int_equal(run(&r), SNIB__DONE);
}

static void a_lock_behind_a_proxy_is_refused(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0);
    (void)state;
    assert_int_equal(reach(), SNIB__SQL_OK);
    lib.answer[WHO].number[0] = 78;
    assert_int_equal(run(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CONFIG);
    assert_int_equal(asked("GET_LOCK"), 0);
}

static void a_name_that_is_too_long_is_told(void **state)
{
    static const int codes[] = {1059, 3057};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct snib__request r = verb(SNIB__ACQUIRE, 0);
        lib.answer[TRY].code = codes[i];
        assert_int_equal(run(&r), SNIB__NOT_APPLIED);
        assert_int_equal(r.said.err, SNIB_ERR_USAGE);
        assert_non_null(strstr(w.error.text, "192 bytes"));
    }
}

/* Two nodes of a cluster give the same lock to two. */
static void a_check_up_warns_of_a_cluster(void **state)
{
    (void)state;
    for (int galera = 0; galera < 2; galera++) {
        struct snib__request r = verb(SNIB__DOCTOR, 0);
        struct snib__buf result;
        snib__buf_init(&result, 4096);
        r.said.result = &result;
        lib.answer[NODES] =
            (struct answer){"'WSREP_READY'", 3, {0, 0, galera}, 0};
        assert_int_equal(run(&r), SNIB__DONE);
        assert_int_equal(memmem(snib__buf_bytes(&result),
                                snib__buf_size(&result), "one node", 8) != NULL,
                         galera);
        snib__buf_free(&result);
    }
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
        assert_non_null(strstr(w.error.text, "named lock"));
    }
    struct snib__request kind = verb(SNIB__ACQUIRE, 0), delay = kind,
                         priority = kind;
    kind.acquire.kind = SNIB_KIND_READ;
    delay.acquire.delay.ns = 1;
    priority.acquire.priority = -1;
    assert_int_equal(run(&kind), SNIB__NOT_APPLIED);
    assert_int_equal(run(&delay), SNIB__NOT_APPLIED);
    assert_int_equal(run(&priority), SNIB__NOT_APPLIED);
    assert_int_equal(asked("GET_LOCK"), 0);
}

int main(void)
{
#define GETLOCK(f) cmocka_unit_test_setup_teardown(f, begin_getlock, end_world)
    static const struct CMUnitTest cases[] = {
        GETLOCK(it_can_less_and_tells_of_ends),
        GETLOCK(what_is_of_a_table_means_nothing),
        GETLOCK(a_lock_that_is_had_is_a_grant_from_before_it_was_asked),
        GETLOCK(what_another_holds_is_not_had),
        GETLOCK(what_the_server_cannot_say_is_not_held_by_another),
        GETLOCK(who_may_wait_leaves_a_statement_there),
        GETLOCK(a_wait_that_ends_without_the_lock_begins_anew),
        GETLOCK(a_renewal_counts_from_before_it_was_sent),
        GETLOCK(a_question_makes_no_lease_longer),
        GETLOCK(a_renewal_without_an_answer_ends_nothing),
        GETLOCK(a_release_behind_an_answer_that_is_owed_is_unknown),
        GETLOCK(a_server_that_answers_is_heard),
        GETLOCK(a_grant_of_who_is_no_primary_any_more_is_lost),
        GETLOCK(a_grant_ends_with_its_connection),
        GETLOCK(only_its_own_grant_is_renewed_or_released),
        GETLOCK(a_release_whose_answer_is_lost_ends_with_the_connection),
        GETLOCK(a_release_of_what_had_ended_before_says_so),
        GETLOCK(a_cancel_ends_the_wait),
        GETLOCK(a_cancel_ends_no_wait_that_is_over),
        GETLOCK(a_lock_of_a_replica_is_none),
        GETLOCK(a_lock_behind_a_proxy_is_refused),
        GETLOCK(a_name_that_is_too_long_is_told),
        GETLOCK(a_check_up_warns_of_a_cluster),
        GETLOCK(what_there_is_not_is_unsupported),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
