/* tests/unit/test_sql_steps.c — store/sql: the ways of a request, over a table in
 * memory whose answers come, fail and get lost as the test says. */
#include "snapshot_table.h"

#include "base/error.h"
#include "store/sql/sql.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)
#define START  (INT64_C(1700000000) * SECOND)

static const struct snib__name name = {1, 1, 5, "a", "a"};
static const struct snib__name name_b = {1, 1, 6, "b", "b"};

static struct {
    struct table table;
    struct snib__sql q;
    int64_t now;
    /* What the next calls come to; then OK. */
    snib__sql_end fetches[20], writes[20], quicks[20], reaches[20];
    int fetch, write, quick, reach;
    int64_t reach_ns;             /* how long that takes */
    bool locked[20], durable[20]; /* of the fetches, of the writes */
    bool takes;                   /* the short way is open */
    bool listens;                 /* a notifier can be made */
    int left, paused, cleaned;
    int64_t paused_ns;
    struct snib__sql_value value;
    snib__version_todo written;
    struct snib_error error;
    struct snib__buf result;
} w;

/* -- the driver ------------------------------------------------------------ */

static snib_instant fake_now(void)
{
    return (snib_instant){w.now};
}

static void fake_pause(struct snib__sql *q, snib_duration d)
{
    (void)q;
    w.paused++;
    w.paused_ns += d.ns;
    w.now += d.ns;
}

static void fake_listen(struct snib__sql *q)
{
    q->listens = w.listens;
    snprintf(q->s.notifier, sizeof q->s.notifier, w.listens ? "7.a" : "");
}

static snib__sql_end fake_end(snib__sql_end end, const char *words)
{
    if (end) {
        snib__fail(&w.q.fault,
                   end == SNIB__SQL_REFUSED ? SNIB_ERR_STORE
                                            : SNIB_ERR_UNREACHABLE,
                   "%s", words);
    }
    return end;
}

static snib__sql_end fake_reach(struct snib__sql *q)
{
    (void)q;
    w.now += w.reach_ns;
    w.reach_ns = 0;
    return w.reach < 20 ? fake_end(w.reaches[w.reach++], "reach")
                        : SNIB__SQL_OK;
}

static snib__sql_end fake_fetch(struct snib__sql *q, bool lock)
{
    snib__sql_end end = fake_end(w.fetches[w.fetch], "fetch");
    w.locked[w.fetch++] = lock;
    if (!end) {
        fetch(&w.table, &q->s, fake_now(), fake_now());
    }
    return end;
}

static snib__sql_end fake_write(struct snib__sql *q, bool lock, bool durable)
{
    static struct message m;
    snib__sql_end end = fake_end(w.writes[w.write], "write");
    (void)lock;
    w.durable[w.write++] = durable;
    if (!end || end == SNIB__SQL_LOST) {
        pack(&q->s, &m);
        assert_true(apply(&w.table, &m, fake_now()));
    }
    return end;
}

static void fake_leave(struct snib__sql *q)
{
    (void)q;
    w.left++;
}

static snib__sql_end fake_quick(struct snib__sql *q, struct snib__sql_try *t,
                                uint32_t count)
{
    snib__sql_end end = fake_end(w.quicks[w.quick++], "quick");
    (void)q;
    for (uint32_t i = 0; !end && w.takes && i < count; i++) {
        t[i].r->said.answer = SNIB__DONE;
        t[i].r->token = 42;
        t[i].done = true;
    }
    return end;
}

static snib__sql_end fake_value_read(struct snib__sql *q,
                                     const struct snib__name *n, bool lock,
                                     struct snib__sql_value *ret,
                                     struct snib__buf *bytes)
{
    snib__sql_end end = fake_end(w.fetches[w.fetch], "fetch");
    (void)q;
    (void)n;
    w.locked[w.fetch++] = lock;
    *ret = w.value;
    ret->now_ms = w.now / MS;
    if (bytes) {
        snib__buf_add(bytes, "old", 3);
    }
    return end;
}

static snib__sql_end fake_value_write(struct snib__sql *q,
                                      const struct snib__request *r,
                                      const struct snib__sql_value *v,
                                      snib__version_todo todo)
{
    snib__sql_end end = fake_end(w.writes[w.write++], "write");
    (void)q;
    (void)r;
    if (!end || end == SNIB__SQL_LOST) {
        w.value = *v;
        w.value.there = true;
        w.written = todo;
    }
    return end;
}

static snib__sql_end fake_look(struct snib__sql *q,
                               struct snib__request *const r[], uint32_t count)
{
    (void)q;
    for (uint32_t i = 0; i < count; i++) {
        snib__buf_puts(r[i]->said.result, "row");
        r[i]->said.answer = SNIB__DONE;
    }
    return fake_end(w.fetches[w.fetch++], "look");
}

static snib__sql_end fake_doctor(struct snib__sql *q, struct snib__request *r)
{
    (void)q;
    snib__buf_puts(r->said.result, "finding");
    return fake_end(w.fetches[w.fetch++], "doctor");
}

static void fake_clean(struct snib__sql *q)
{
    (void)q;
    w.cleaned++;
}

static const struct snib__sql_driver driver = {
    .now = fake_now,
    .pause = fake_pause,
    .reach = fake_reach,
    .listen = fake_listen,
    .fetch = fake_fetch,
    .write = fake_write,
    .leave = fake_leave,
    .quick = fake_quick,
    .value_read = fake_value_read,
    .value_write = fake_value_write,
    .look = fake_look,
    .doctor = fake_doctor,
    .clean = fake_clean,
};

static int begin_world(void **state)
{
    struct snib__store_config config = {.client = {1, 9},
                                        .request = {2 * SECOND}};
    (void)state;
    memset(&w, 0, sizeof w);
    w.now = START;
    w.listens = true;
    snib__sql_init(&w.q, &driver, "fake", &config, 0);
    snib__buf_init(&w.result, 1000);
    return 0;
}

static int end_world(void **state)
{
    (void)state;
    snib__sql_free(&w.q);
    snib__buf_free(&w.result);
    return 0;
}

/* -- requests -------------------------------------------------------------- */

static struct snib__request verb(snib__verb v, uint64_t id)
{
    return (struct snib__request){
        .verb = v,
        .name = &name,
        .id = {id, id + 7},
        .lease = {10 * SECOND},
        .acquire = {.permits = 1, .may_queue = true},
        .exec = {.patience = {START + SECOND}},
        .said = {.reterr = &w.error, .result = &w.result}};
}

static struct snib__request acquire(uint64_t id)
{
    return verb(SNIB__ACQUIRE, id);
}

static struct snib__request of(snib__verb v, const struct snib__request *r)
{
    struct snib__request of = verb(v, r->id[0]);
    of.token = r->token;
    return of;
}

/* Execute these, in one chain. */
static void run(struct snib__request *a, struct snib__request *b)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__list_push(&chain, &a->link);
    if (b) {
        snib__list_push(&chain, &b->link);
    }
    snib__sql_execute(&w.q, &chain);
    while (snib__list_pop(&chain)) {
    }
}

/* -- the ways -------------------------------------------------------------- */

static void what_the_short_way_does_is_not_decided_again(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.takes = true;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(r.token, 42);
    assert_int_equal(w.fetch + w.write, 0);
}

static void what_the_short_way_leaves_is_decided(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(w.quick, 1);
    assert_int_equal(w.fetch, 1);
    assert_false(w.locked[0]);
    assert_true(w.durable[0]);
}

/* Each of these has something that one UPDATE cannot judge. */
static void what_needs_a_decision_is_not_tried_shortly(void **state)
{
    struct snib__request r[8];
    (void)state;
    for (int i = 0; i < 8; i++) {
        r[i] = acquire((uint64_t)i + 1);
    }
    r[0].acquire.kind = SNIB_KIND_READ;
    r[1].resent = true;
    r[2].token = 5;
    r[3].batch.number = 1;
    r[4].acquire.upgrade_of[1] = 3;
    r[5].acquire.placed = true;
    r[6] = verb(SNIB__CANCEL, 7);
    r[7] = verb(SNIB__RELEASE, 8);
    r[7].resent = true;
    for (int i = 0; i < 8; i++) {
        run(&r[i], NULL);
    }
    assert_int_equal(w.quick, 0);
    assert_true(w.fetch >= 8);
}

static void a_waiter_that_polls_is_confirmed_shortly(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    r.said.answer = SNIB__QUEUED;
    r.acquire.placed = true;
    w.takes = true;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(w.fetch, 0);
}

static void after_a_conflict_the_rows_are_locked(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.writes[0] = SNIB__SQL_CONFLICT;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_false(w.locked[0]);
    assert_true(w.locked[1]);
    assert_int_equal(w.paused, 1);
}

static void where_somebody_waits_the_rows_are_locked_at_once(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2), three = acquire(3);
    (void)state;
    run(&one, NULL);
    run(&two, NULL);
    assert_int_equal(two.said.answer, SNIB__QUEUED);
    run(&three, NULL); /* this one sees the second */
    int before = w.fetch;
    struct snib__request release = of(SNIB__RELEASE, &one);
    run(&release, NULL);
    assert_int_equal(release.said.answer, SNIB__DONE);
    assert_true(w.locked[before]);
}

static void a_locked_step_that_writes_nothing_lets_go(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    run(&one, NULL);
    w.fetches[w.fetch] = SNIB__SQL_CONFLICT;
    two.acquire.may_queue = false;
    run(&two, NULL);
    assert_int_equal(two.said.answer, SNIB__NO);
    assert_int_equal(w.left, 1);
}

static void conflicts_without_end_are_told_at_the_limit(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    for (int i = 0; i < 20; i++) {
        w.writes[i] = SNIB__SQL_CONFLICT;
    }
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__PENDING); /* it comes again */
    assert_true(r.exec.blocked);
    w.now = START + 2 * SECOND;
    w.write = 0;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(w.error.text, "again and again"));
}

static void conflicts_wait_longer_each_time(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    for (int i = 0; i < 6; i++) {
        w.writes[i] = SNIB__SQL_CONFLICT;
    }
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    /* Between half of 0.2 + … + 6.4 ms and one and a half times that. */
    assert_in_range(w.paused_ns, 6300000, 19000000);
}

/* -- answers that do not come ---------------------------------------------- */

static void a_server_that_is_down_leaves_what_has_time(void **state)
{
    struct snib__request r = acquire(1), renew = verb(SNIB__RENEW, 2);
    (void)state;
    w.quicks[0] = w.quicks[1] = w.quicks[2] = w.quicks[3] = SNIB__SQL_DOWN;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__PENDING);
    assert_int_equal(r.said.err, SNIB_ERR_UNREACHABLE);
    run(&renew, NULL); /* its holder wants to hear of it */
    assert_int_equal(renew.said.answer, SNIB__NOT_APPLIED);
    r.exec.impatient = true;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    r.exec.impatient = false;
    w.now = START + SECOND;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_string_equal(w.error.text, "quick");
}

static void a_server_that_is_not_reached_leaves_what_has_time(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.reaches[0] = w.reaches[1] = SNIB__SQL_DOWN;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__PENDING);
    assert_int_equal(r.said.err, SNIB_ERR_UNREACHABLE);
    r.exec.impatient = true;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(w.quick + w.fetch, 0);
}

/* Their callers have left, and were told that nothing was sent. */
static void what_comes_to_its_limit_before_is_not_sent(void **state)
{
    struct snib__request r[5];
    static const snib__verb verbs[5] = {SNIB__ACQUIRE, SNIB__INSPECT,
                                        SNIB__VALUE_PUT, SNIB__PARAMS,
                                        SNIB__FORCE};
    (void)state;
    for (int i = 0; i < 5; i++) {
        r[i] = verb(verbs[i], (uint64_t)i + 1);
        r[i].exec.expires = true;
        r[i].exec.patience.ns = w.now + SECOND;
        w.reach_ns = SECOND;
        run(&r[i], NULL);
        assert_true(r[i].exec.sent); /* so that the core asks no more */
        assert_int_equal(r[i].said.answer, SNIB__NOT_APPLIED);
        assert_int_equal(r[i].said.err, SNIB_ERR_UNREACHABLE);
        assert_true(r[i].exec.blocked);
        assert_string_equal(w.error.text, "the server was reached too late");
    }
    assert_int_equal(w.quick + w.fetch + w.write, 0);
}

static void the_others_of_its_step_are_sent(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    two.name = &name_b;
    one.exec.expires = two.exec.expires = true;
    one.exec.patience.ns = w.now + SECOND;
    two.exec.patience.ns = w.now + SECOND + 1;
    w.reach_ns = SECOND;
    run(&one, &two);
    assert_int_equal(one.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(two.said.answer, SNIB__DONE);
}

/* A release, say: it is wanted however late. */
static void what_does_not_expire_is_sent_however_late(void **state)
{
    struct snib__request one = acquire(1), release;
    (void)state;
    run(&one, NULL);
    release = of(SNIB__RELEASE, &one);
    release.exec.patience.ns = w.now + SECOND;
    w.reach_ns = 2 * SECOND;
    run(&release, NULL);
    assert_int_equal(release.said.answer, SNIB__DONE);
}

static void a_short_way_whose_answer_is_lost_is_unknown(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.quicks[0] = SNIB__SQL_LOST;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__UNKNOWN);
    assert_int_equal(w.fetch, 0);
}

static void a_short_way_that_is_refused_is_decided(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.quicks[0] = SNIB__SQL_REFUSED;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
}

static void
a_write_whose_answer_is_lost_is_unknown_and_found_again(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.writes[0] = SNIB__SQL_LOST;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__UNKNOWN);
    r.resent = true;
    r.said.answer = SNIB__PENDING;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(lock_in(lock_row(&w.table, &name)).token, r.token);
}

static void what_the_server_refuses_is_told_at_once(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.writes[0] = SNIB__SQL_REFUSED;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_STORE);
    assert_string_equal(w.error.text, "write");
    assert_null(lock_row(&w.table, &name));
}

static void a_fetch_that_fails_changes_nothing(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.fetches[0] = SNIB__SQL_DOWN;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__PENDING);
    assert_int_equal(w.write, 0);
}

/* -- what is durable, who is notified -------------------------------------- */

static void only_grants_are_waited_for_on_the_disk(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    run(&one, NULL);
    run(&two, NULL);
    assert_true(w.durable[0]);
    assert_false(w.durable[1]); /* a place in the queue */
    struct snib__request release = of(SNIB__RELEASE, &one);
    run(&release, NULL);
    assert_true(w.durable[2]); /* it grants the lock to the next one */
    run(&two, NULL);
    struct snib__request last = of(SNIB__RELEASE, &two);
    run(&last, NULL);
    assert_int_equal(last.said.answer, SNIB__DONE);
    assert_false(w.durable[w.write - 1]);
}

static void who_queues_has_said_before_how_it_is_notified(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    const void *about;
    size_t size;
    (void)state;
    run(&one, NULL);
    run(&two, NULL);
    struct snib__key key = {SNIB__KEY_CLAIM, &name, {2, 9}};
    assert_string_equal(
        claim_in(row_of(&w.table, &key), &about, &size).notifier, "7.a");
}

static void without_a_notifier_it_queues_all_the_same(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    w.listens = false;
    run(&one, NULL);
    run(&two, NULL);
    assert_int_equal(two.said.answer, SNIB__QUEUED);
}

/* -- several at once ------------------------------------------------------- */

static void requests_for_different_locks_share_a_step(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    two.name = &name_b;
    run(&one, &two);
    assert_int_equal(one.said.answer, SNIB__DONE);
    assert_int_equal(two.said.answer, SNIB__DONE);
    assert_int_equal(w.write, 1);
}

static void requests_for_one_lock_go_one_after_the_other(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    run(&one, &two);
    assert_int_equal(one.said.answer, SNIB__DONE);
    assert_int_equal(two.said.answer, SNIB__QUEUED);
}

/* What is not done shortly is decided on one after the other. */
static void those_who_share_a_lock_are_renewed_together(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    one.acquire.kind = two.acquire.kind = SNIB_KIND_READ;
    run(&one, &two);
    struct snib__request a = of(SNIB__RENEW, &one), b = of(SNIB__RENEW, &two);
    w.takes = true;
    int quicks = w.quick, fetches = w.fetch;
    run(&a, &b);
    assert_int_equal(w.quick, quicks + 1);
    assert_int_equal(w.fetch, fetches);
    w.takes = false;
    a = of(SNIB__RENEW, &one);
    b = of(SNIB__RENEW, &two);
    run(&a, &b);
    assert_int_equal(a.said.answer, SNIB__DONE);
    assert_int_equal(b.said.answer, SNIB__DONE);
    assert_int_equal(w.fetch, fetches + 2);
}

static void one_that_spoils_a_step_is_tried_apart(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    struct snib__buf b;
    (void)state;
    snib__buf_init(&b, 100);
    snib__layout_put_lock(&b,
                          &(struct snib__lock_row){INT64_MAX, {.size = -1}});
    w.table.revision++;
    put_row(&w.table, &(struct snib__key){SNIB__KEY_LOCK, &name_b, {0}},
            snib__buf_bytes(&b), snib__buf_size(&b));
    snib__buf_free(&b);
    two.name = &name_b;
    run(&one, &two);
    assert_int_equal(one.said.answer, SNIB__DONE);
    assert_int_equal(two.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(two.said.err, SNIB_ERR_CORRUPT);
}

static void after_many_writes_the_cleaner_comes(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.q.writes = 4095;
    run(&r, NULL);
    assert_int_equal(w.cleaned, 1);
    assert_int_equal(w.q.writes, 0);
}

/* -- looking, values ------------------------------------------------------- */

static void a_look_is_answered_with_its_rows(void **state)
{
    struct snib__request r = verb(SNIB__INSPECT, 1);
    (void)state;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_string_equal(snib__buf_text(&w.result), "row");
    w.fetches[1] = SNIB__SQL_REFUSED;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    w.fetches[2] = SNIB__SQL_OK;
    w.result.failed = true;
    run(&r, NULL);
    assert_int_equal(r.said.err, SNIB_ERR_NOMEM);
}

static void looks_at_several_locks_share_a_round_trip(void **state)
{
    struct snib__request one = verb(SNIB__INSPECT, 1);
    struct snib__request two = verb(SNIB__INSPECT, 2);
    struct snib__request doctor = verb(SNIB__DOCTOR, 3);
    (void)state;
    run(&one, &two); /* of one name, too */
    assert_int_equal(w.fetch, 1);
    assert_int_equal(one.said.answer, SNIB__DONE);
    assert_int_equal(two.said.answer, SNIB__DONE);
    run(&one, &doctor);
    assert_int_equal(w.fetch, 3);
    assert_int_equal(doctor.said.answer, SNIB__DONE);
    w.fetches[3] = SNIB__SQL_REFUSED;
    run(&one, &two);
    assert_int_equal(one.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(two.said.answer, SNIB__NOT_APPLIED);
}

static void a_value_is_put_and_read_back(void **state)
{
    struct snib__request put = verb(SNIB__VALUE_PUT, 1);
    struct snib__request get = verb(SNIB__VALUE_GET, 2);
    (void)state;
    put.value.born = (snib_instant){w.now};
    put.text = "old";
    put.text_size = 3;
    run(&put, NULL);
    assert_int_equal(put.said.answer, SNIB__DONE);
    assert_int_equal(w.written, SNIB__VERSION_PUT);
    assert_true(w.locked[0]);
    run(&get, NULL);
    assert_int_equal(get.said.answer, SNIB__DONE);
    assert_int_equal(get.token, put.token);
    assert_string_equal(snib__buf_text(&w.result), "old");
    w.now += 11 * SECOND; /* it was kept for ten */
    snib__buf_clear(&w.result);
    run(&get, NULL);
    assert_int_equal(get.token, 0);
    assert_int_equal(snib__buf_size(&w.result), 0);
}

static void a_value_that_conflicts_is_put_again(void **state)
{
    struct snib__request put = verb(SNIB__VALUE_PUT, 1);
    (void)state;
    put.value.born = (snib_instant){w.now};
    w.writes[0] = w.fetches[1] = SNIB__SQL_CONFLICT;
    run(&put, NULL);
    assert_int_equal(put.said.answer, SNIB__DONE);
    assert_int_equal(w.fetch, 3);
}

static void a_value_whose_answer_is_lost_is_unknown(void **state)
{
    struct snib__request put = verb(SNIB__VALUE_PUT, 1);
    (void)state;
    put.value.born = (snib_instant){w.now};
    w.writes[0] = SNIB__SQL_LOST;
    run(&put, NULL);
    assert_int_equal(put.said.answer, SNIB__UNKNOWN);
    assert_int_equal(put.token, 0);
    put.resent = true;
    run(&put, NULL);
    assert_int_equal(put.said.answer, SNIB__DONE);
    assert_int_equal(w.left, 1); /* nothing was written again */
}

static void a_value_that_is_expected_otherwise_is_refused(void **state)
{
    struct snib__request put = verb(SNIB__VALUE_PUT, 1);
    (void)state;
    put.value.born = (snib_instant){w.now};
    put.token = 77;
    run(&put, NULL);
    assert_int_equal(put.said.answer, SNIB__NO);
    assert_int_equal(put.said.err, SNIB_ERR_BUSY);
}

static void a_damaged_value_is_named(void **state)
{
    struct snib__request r[2] = {verb(SNIB__VALUE_GET, 1),
                                 verb(SNIB__VALUE_PUT, 2)};
    (void)state;
    w.value = (struct snib__sql_value){.there = true, .damaged = true};
    for (int i = 0; i < 2; i++) {
        run(&r[i], NULL);
        assert_int_equal(r[i].said.answer, SNIB__NOT_APPLIED);
        assert_int_equal(r[i].said.err, SNIB_ERR_CORRUPT);
        assert_non_null(strstr(w.error.text, "the value a is damaged"));
    }
    assert_int_equal(w.left, 1);
}

static void stamps_are_never_none(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        assert_true((int64_t)snib__sql_stamp(&w.q) > 0);
    }
}

#define STEP(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)

int main(void)
{
    const struct CMUnitTest cases[] = {
        STEP(what_the_short_way_does_is_not_decided_again),
        STEP(what_the_short_way_leaves_is_decided),
        STEP(what_needs_a_decision_is_not_tried_shortly),
        STEP(a_waiter_that_polls_is_confirmed_shortly),
        STEP(after_a_conflict_the_rows_are_locked),
        STEP(where_somebody_waits_the_rows_are_locked_at_once),
        STEP(a_locked_step_that_writes_nothing_lets_go),
        STEP(conflicts_without_end_are_told_at_the_limit),
        STEP(conflicts_wait_longer_each_time),
        STEP(a_server_that_is_down_leaves_what_has_time),
        STEP(a_server_that_is_not_reached_leaves_what_has_time),
        STEP(what_comes_to_its_limit_before_is_not_sent),
        STEP(the_others_of_its_step_are_sent),
        STEP(what_does_not_expire_is_sent_however_late),
        STEP(a_short_way_whose_answer_is_lost_is_unknown),
        STEP(a_short_way_that_is_refused_is_decided),
        STEP(a_write_whose_answer_is_lost_is_unknown_and_found_again),
        STEP(what_the_server_refuses_is_told_at_once),
        STEP(a_fetch_that_fails_changes_nothing),
        STEP(only_grants_are_waited_for_on_the_disk),
        STEP(who_queues_has_said_before_how_it_is_notified),
        STEP(without_a_notifier_it_queues_all_the_same),
        STEP(requests_for_different_locks_share_a_step),
        STEP(requests_for_one_lock_go_one_after_the_other),
        STEP(those_who_share_a_lock_are_renewed_together),
        STEP(one_that_spoils_a_step_is_tried_apart),
        STEP(after_many_writes_the_cleaner_comes),
        STEP(a_look_is_answered_with_its_rows),
        STEP(looks_at_several_locks_share_a_round_trip),
        STEP(a_value_is_put_and_read_back),
        STEP(a_value_that_conflicts_is_put_again),
        STEP(a_value_whose_answer_is_lost_is_unknown),
        STEP(a_value_that_is_expected_otherwise_is_refused),
        STEP(a_damaged_value_is_named),
        STEP(stamps_are_never_none),
    };
    return RUN(cases);
}
