/* store/mysql with ?dialect=getlock, over a libmariadb that answers what the test
 * says: what is told when a lock is had, held by another, lost with its session. */
#include "mysql_client.h"

enum { TRY = MORE, WAIT, UNLOCK, CLOCK };

static int begin_getlock(void **state)
{
    (void)begin_world(state);
    snib__mysql_ops.free(w.p);
    lib.answer[TRY] = (struct answer){"GET_LOCK(x'6e',0)", 1, {1}, 0};
    lib.answer[WAIT] = (struct answer){"GET_LOCK(x'6e',31536000)", 1, {1}, 0};
    lib.answer[UNLOCK] = (struct answer){"RELEASE_LOCK(x'6e')", 1, {1}, 0};
    lib.answer[CLOCK] =
        (struct answer){"SELECT CAST(", 1, {1700000000000000}, 0};
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

/* Its answer comes; *w.p tells of it. */
static void the_answer_comes(void)
{
    uint64_t ids[4][2];
    assert_int_equal(write(lib.fd[1], "x", 1), 1);
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
    char one;
    (void)state;
    lib.answer[TRY].number[0] = 0;
    lib.answer[WAIT].number[0] = 0;
    r.acquire.may_queue = true;
    assert_int_equal(run(&r), SNIB__QUEUED);
    the_answer_comes();
    assert_int_equal(run(&r), SNIB__QUEUED);
    assert_int_equal(asked("31536000"), 2);
    assert_int_equal(read(lib.fd[0], &one, 1), 1);
}

static void a_renewal_counts_from_before_it_was_sent(void **state)
{
    (void)state;
    struct snib__request r = granted(), renew = verb(SNIB__RENEW, r.token);
    snib_instant before = snib__sql_now();
    assert_int_equal(run(&renew), SNIB__DONE);
    assert_true(renew.said.valid_from.ns >= before.ns);
    assert_int_equal(asked("wait_timeout=IF(3=0"), 2);
    renew.renew.only_asks = true;
    assert_int_equal(run(&renew), SNIB__DONE);
    assert_int_equal(asked("wait_timeout=IF(3=0"), 2);
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

static void a_cancel_ends_the_wait(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 0),
                         cancel = verb(SNIB__CANCEL, 0);
    (void)state;
    lib.answer[TRY].number[0] = 0;
    r.acquire.may_queue = true;
    assert_int_equal(run(&r), SNIB__QUEUED);
    assert_int_equal(run(&cancel), SNIB__DONE);
    assert_int_equal(asked("KILL QUERY 77"), 1);
    assert_true(snib__list_empty(&w.p->getlock.holds));
    assert_null(w.p->getlock.spare);
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
        GETLOCK(who_may_wait_leaves_a_statement_there),
        GETLOCK(a_wait_that_ends_without_the_lock_begins_anew),
        GETLOCK(a_renewal_counts_from_before_it_was_sent),
        GETLOCK(a_grant_ends_with_its_connection),
        GETLOCK(only_its_own_grant_is_renewed_or_released),
        GETLOCK(a_release_whose_answer_is_lost_ends_with_the_connection),
        GETLOCK(a_cancel_ends_the_wait),
        GETLOCK(a_name_that_is_too_long_is_told),
        GETLOCK(what_there_is_not_is_unsupported),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
