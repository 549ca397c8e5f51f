/* tests/unit/test_etcd_steps.c — what the store etcd: does with requests, at a
 * server in memory: how long its keys stay, how much it writes at once, when
 * waiters are told what, and what becomes of late copies. */
#include "etcd_world.h"

enum { DAY_S = 86400 };

/* -- what a name remembers --------------------------------------------------------- */

static struct snib__request sets(snib__params_op op, int64_t amount)
{
    struct snib__request r = asks(SNIB__PARAMS, 500);
    r.said.result = &w.rows;
    r.params.op = (uint8_t)op;
    r.params.amount = amount;
    return r;
}

static void a_latch_and_a_size_are_remembered_for_a_month(void **state)
{
    (void)state;
    struct snib__request close = sets(SNIB__PARAMS_CLOSE, 1);
    struct snib__request size = sets(SNIB__PARAMS_SIZE, 3);
    size.id[0]++;
    size.name = &name_m;
    assert_int_equal(ask(&close), SNIB__DONE);
    assert_int_equal(ask(&size), SNIB__DONE);
    assert_true(left_of(key_of("snib/l/n/!")) >= 30 * DAY_S);
    assert_true(left_of(key_of("snib/l/m/!")) >= 30 * DAY_S);
}

/* It polls for hours; nobody else does anything. */
static void poll_for(int64_t s)
{
    for (int64_t i = 0; i < s; i += 2) {
        pass(2000);
    }
}

static void who_waits_keeps_the_latch_closed_and_the_order(void **state)
{
    (void)state;
    struct snib__request close = sets(SNIB__PARAMS_CLOSE, 1);
    assert_int_equal(ask(&close), SNIB__DONE);
    pass(5 * DAY_S * INT64_C(1000));
    static struct snib__request waits;
    waits = asks(SNIB__ACQUIRE, 1);
    waits.limit = SNIB__NEVER;
    assert_int_equal(ask(&waits), SNIB__QUEUED);
    assert_true(left_of(key_of("snib/l/n/!")) >= 30 * DAY_S);
    poll_for(3 * 3600);
    assert_int_equal(waits.said.answer, SNIB__QUEUED);
    assert_true(left_of(key_of("snib/l/n/!")) > 30 * DAY_S - 2 * 3600);
    assert_true(left_of(key_of("snib/l/n/a")) > DAY_S);
    answered(&waits);
}

/* The token of a lock that is held for days, the numbers of who waits for it. */
static void who_holds_and_who_waits_keep_what_is_remembered(void **state)
{
    (void)state;
    struct snib__request holds = asks(SNIB__ACQUIRE, 1);
    static struct snib__request waits;
    waits = asks(SNIB__ACQUIRE, 2);
    waits.limit = SNIB__NEVER;
    assert_int_equal(ask(&holds), SNIB__DONE);
    assert_int_equal(ask(&waits), SNIB__QUEUED);
    for (int i = 0; i < 3 * 360; i++) {
        poll_for(10);
        struct snib__request renew = ends(SNIB__RENEW, &holds);
        assert_int_equal(ask(&renew), SNIB__DONE);
    }
    assert_true(left_of(key_of("snib/l/n/!")) > DAY_S);
    assert_true(left_of(key_of("snib/l/n/a")) > DAY_S);
    answered(&waits);
}

/* Two clients that read together do not put it by turns. */
static void what_others_have_put_is_not_put_at_each_renewal(void **state)
{
    (void)state;
    struct snib__request reads = asks(SNIB__ACQUIRE, 1);
    reads.acquire.kind = SNIB_KIND_READ;
    assert_int_equal(ask(&reads), SNIB__DONE);
    struct model_key *row =
        find_key((struct snib__etcd_text){"snib/l/n/!", strlen("snib/l/n/!")});
    row->lease = ++w.leases; /* another's */
    w.lease[w.leases].ttl = DAY_S;
    w.lease[w.leases].granted = w.now;
    row->mod = ++w.revision;
    int64_t before = row->mod;
    for (int i = 0; i < 5; i++) {
        pass(2000);
        struct snib__request renew = ends(SNIB__RENEW, &reads);
        assert_int_equal(ask(&renew), SNIB__DONE);
    }
    row = find_key((struct snib__etcd_text){"snib/l/n/!", 10});
    assert_int_equal(row->mod, before);
}

/* -- many at once ------------------------------------------------------------------ */

enum { CROWD = 150 };

/* As if each had been asked by a client of its own. */
static void part_clients(void)
{
    for (uint32_t i = 0; i < w.keys; i++) {
        struct model_key *k = &w.key[i];
        struct snib__stored_claim c;
        const void *about;
        size_t size;
        struct snib__buf b;
        k->key[k->size] = 0;
        if (!strstr(k->key, "/c/") ||
            snib__layout_claim(k->value, k->value_size, &c, &about, &size,
                               NULL)) {
            continue;
        }
        snib__buf_init(&b, VALUE_MAX);
        c.client[0] = 1000 + i;
        snib__layout_put_claim(&b, &c, about, size);
        k->value_size = snib__buf_size(&b);
        memcpy(k->value, snib__buf_bytes(&b), k->value_size);
        snib__buf_free(&b);
    }
}

static void a_latch_opens_for_more_than_fit_into_a_transaction(void **state)
{
    (void)state;
    static struct snib__request crowd[CROWD];
    struct snib__request close = sets(SNIB__PARAMS_CLOSE, 1);
    assert_int_equal(ask(&close), SNIB__DONE);
    for (uint64_t i = 0; i < CROWD; i++) {
        crowd[i] = asks(SNIB__ACQUIRE, 1000 + i);
        crowd[i].acquire.kind = SNIB_KIND_READ;
        assert_int_equal(ask(&crowd[i]), SNIB__QUEUED);
    }
    part_clients();
    pass(1);
    struct snib__request open = sets(SNIB__PARAMS_OPEN, 0);
    open.id[0] += 7;
    assert_int_equal(ask(&open), SNIB__DONE);
    for (int i = 0; i < 30; i++) {
        pass(100);
    }
    for (int i = 0; i < CROWD; i++) {
        answered(&crowd[i]);
        assert_int_equal(crowd[i].said.answer, SNIB__DONE);
    }
}

/* All hold, all others wait: together more than fits. */
static void a_crowd_is_ended_by_force_and_another_let_in(void **state)
{
    (void)state;
    static struct snib__request crowd[CROWD];
    for (uint64_t i = 0; i < CROWD; i++) {
        crowd[i] = asks(SNIB__ACQUIRE, 1000 + i);
        crowd[i].acquire.kind = SNIB_KIND_PERMITS;
        crowd[i].acquire.capacity = 90;
        assert_int_equal(ask(&crowd[i]), i < 90 ? SNIB__DONE : SNIB__QUEUED);
    }
    struct snib__request force = asks(SNIB__FORCE, 500);
    force.said.result = &w.rows;
    force.text = "why";
    force.text_size = 3;
    assert_int_equal(ask(&force), SNIB__DONE);
    for (int i = 0; i < 30; i++) {
        pass(100);
    }
    for (int i = 90; i < CROWD; i++) {
        assert_true(answered(&crowd[i]));
        assert_int_equal(crowd[i].said.answer, SNIB__DONE);
    }
}

/* A holder whose host's clock is ahead ends no later for that. */
static void what_is_told_of_an_end_is_no_later_than_the_lease(void **state)
{
    (void)state;
    struct snib__request holds = asks(SNIB__ACQUIRE, 1);
    w.out.wall_offset_ns += 3600 * INT64_C(1000000000);
    assert_int_equal(ask(&holds), SNIB__DONE);
    w.out.wall_offset_ns -= 3600 * INT64_C(1000000000);
    w.e->client[0]++;
    struct snib__request asks_too = asks(SNIB__ACQUIRE, 2);
    assert_int_equal(ask(&asks_too), SNIB__QUEUED);
    assert_true(asks_too.said.left.ns <= holds.lease.ns);
    assert_false(answered(&asks_too));
    struct snib__request cancel = ends(SNIB__CANCEL, &asks_too);
    assert_int_equal(ask(&cancel), SNIB__DONE);
}

/* -- tokens ------------------------------------------------------------------------ */

static int64_t token_of_clock(void)
{
    return (w.now.ns + w.out.wall_offset_ns) / 1000000 * 1024;
}

static int64_t cycle(uint64_t id)
{
    struct snib__request r = asks(SNIB__ACQUIRE, id);
    assert_int_equal(ask(&r), SNIB__DONE);
    struct snib__request release = ends(SNIB__RELEASE, &r);
    release.said.reterr = &w.error;
    assert_int_equal(ask(&release), SNIB__DONE);
    assert_false(r.said.far);
    return r.token;
}

static void a_token_has_the_time_of_the_clock_as_it_is_set_now(void **state)
{
    (void)state;
    assert_true(cycle(1) >= token_of_clock());
    w.out.wall_offset_ns += 3600 * INT64_C(1000000000);
    int64_t token = cycle(2);
    assert_true(token >= token_of_clock() && token < token_of_clock() + 2048);
}

static void a_clock_that_is_wrong_carries_a_token_a_year_at_most(void **state)
{
    const int64_t year = INT64_C(366) * DAY_S * 1000 * 1024;
    (void)state;
    int64_t before = cycle(1), right = w.out.wall_offset_ns;
    w.out.wall_offset_ns += 60 * 366 * DAY_S * INT64_C(1000000000);
    struct snib__request r = asks(SNIB__ACQUIRE, 2);
    assert_int_equal(ask(&r), SNIB__DONE);
    assert_true(r.token > before && r.token <= before + year + 64);
    struct snib__request release = ends(SNIB__RELEASE, &r);
    assert_int_equal(ask(&release), SNIB__DONE);
    /* others see that it is far, and go on from it */
    w.out.wall_offset_ns = right;
    struct snib__request other = asks(SNIB__ACQUIRE, 3);
    assert_int_equal(ask(&other), SNIB__DONE);
    assert_true(other.token > r.token && other.token < r.token + 64);
    assert_true(other.said.far);
}

static void a_clock_that_is_none_leaves_tokens_to_count(void **state)
{
    (void)state;
    w.out.wall_offset_ns = INT64_C(8000000000000000000); /* year 2223 */
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    assert_int_equal(ask(&r), SNIB__DONE);
    assert_true(r.token > 0 && r.token < SNIB__TOKEN_END / 2);
    assert_int_equal(snib__etcd_token_clock(SNIB__TOKEN_END, 5), 0);
    assert_int_equal(snib__etcd_token_clock(700, 0), 700);
}

/* -- late copies ------------------------------------------------------------------- */

/* The cancel goes out while nobody knows what became of the acquire. */
/* etcd's is of two seconds, and clocks differ all that time. */
static void a_short_grant_ends_before_its_lease_by_a_fast_clock(void **state)
{
    (void)state;
    for (uint64_t i = 1; i < 9; i++) {
        struct snib__request r = asks(SNIB__ACQUIRE, i);
        r.lease = snib__ms(200);
        assert_int_equal(ask(&r), SNIB__DONE);
        int64_t lease = claim_of(&r)->lease, ttl = w.lease[lease].ttl;
        snib_instant fast = snib__after(w.lease[lease].granted,
                                        snib__ms(ttl * 1000 - ttl * 10 + 2));
        assert_true(snib__after(r.said.valid_from, r.lease).ns <= fast.ns);
        struct snib__request release = ends(SNIB__RELEASE, &r);
        assert_int_equal(ask(&release), SNIB__DONE);
        pass(1790);
    }
}

static void a_tombstone_outlives_the_lease_of_a_late_copy(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    r.lease = snib__ms(60000);
    w.keeps = true;
    start(&r);
    struct snib__request cancel = ends(SNIB__CANCEL, &r);
    cancel.resent = true;
    assert_true(cancel.late >= 60);
    w.keeps = false;
    w.loses = true;
    serve();
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__UNKNOWN);
    w.loses = false;
    assert_int_equal(ask(&cancel), SNIB__DONE);
    assert_true(left_of(claim_of(&r)) >= 60 + 10);
}

/* By a process that does not know how long its copies may live. */
static void
a_tombstone_whose_copies_nobody_noted_goes_by_the_lease(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    r.lease = snib__ms(90000);
    assert_int_equal(ask(&r), SNIB__DONE);
    struct snib__request cancel = ends(SNIB__CANCEL, &r);
    cancel.resent = true;
    cancel.late = 0;
    cancel.lease = snib__ms(1000);
    assert_int_equal(ask(&cancel), SNIB__DONE);
    assert_true(left_of(claim_of(&r)) >= 90 + 10);
}

/* -- limits ------------------------------------------------------------------------ */

/* Others have come who wait longer than the first one. */
static void a_limit_that_was_moved_counts_as_it_is_now(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    r.limit = snib__after(w.now, snib__ms(1000));
    w.keeps = true;
    start(&r);
    r.limit = snib__after(w.now, snib__ms(60000));
    pass(2000);
    lose_connection();
    for (int i = 0; i < 40; i++) {
        pass(100);
        if (w.e->session.state == ETCD_OPENING) {
            refuse_connection(SNIB_ERR_OK);
        }
    }
    assert_false(answered(&r));
    be_ready();
    w.keeps = false;
    pass(100);
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
}

/* Another step about the name is under way, and the server silent. */
static void
of_what_was_never_sent_it_is_told_that_nothing_was_done(void **state)
{
    (void)state;
    static struct snib__request first;
    first = asks(SNIB__ACQUIRE, 1);
    struct snib__request second = asks(SNIB__ACQUIRE, 2);
    second.limit = snib__after(w.now, snib__ms(200));
    w.keeps = true;
    start(&first);
    start(&second);
    pass(200);
    assert_true(answered(&second));
    assert_int_equal(second.said.answer, SNIB__NOT_APPLIED);
    assert_false(answered(&first));
}

static void what_was_only_looked_for_is_cancelled_at_once(void **state)
{
    (void)state;
    struct snib__request r[2];
    w.keeps = true;
    for (uint64_t i = 0; i < 2; i++) { /* the second one waits for the first */
        r[i] = asks(SNIB__ACQUIRE, i + 1);
        start(&r[i]);
    }
    for (int i = 1; i >= 0; i--) {
        struct snib__request cancel = ends(SNIB__CANCEL, &r[i]);
        start(&cancel);
        assert_true(answered(&r[i]) && answered(&cancel));
        assert_int_equal(cancel.said.answer, SNIB__DONE);
        assert_int_equal(r[i].said.err, SNIB_ERR_CANCELLED);
    }
    w.keeps = false;
    pass(10);
    assert_int_equal(w.txns, 0);
}

/* What may have been done is not told as cancelled before it is known. */
static void what_is_being_written_is_cancelled_behind_it(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    w.keeps = true;
    start(&r);
    while (
        snib__list_empty(&w.e->steps) ||
        SNIB__CONTAINER(snib__list_first(&w.e->steps), struct etcd_step, link)
                ->phase != STEP_WRITES) {
        SNIB__LIST_EACH_SAFE (l, next, &w.e->session.calls) {
            answer(SNIB__CONTAINER(l, struct etcd_call, link));
        }
        tick();
    }
    struct snib__request cancel = ends(SNIB__CANCEL, &r);
    start(&cancel);
    assert_false(answered(&r) || answered(&cancel));
    w.keeps = false;
    serve();
    assert_true(answered(&r) && answered(&cancel));
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_true(cancel.said.granted != 0);
    assert_null(claim_of(&r));
}

/* Many are asked for at once: few are under way, and each gets its turn. */
static void no_more_are_under_way_than_there_is_memory_for(void **state)
{
    enum { MANY = 200 };
    (void)state;
    static struct snib__request r[MANY], renew;
    static struct snib__name names[MANY];
    w.keeps = true;
    for (uint64_t i = 0; i < MANY; i++) {
        static char text[MANY][8];
        snprintf(text[i], sizeof text[i], "n%d", (int)i);
        names[i] = (struct snib__name){(uint32_t)strlen(text[i]),
                                       (uint32_t)strlen(text[i]), 100 + i,
                                       text[i], text[i]};
        r[i] = asks(SNIB__ACQUIRE, 1000 + i);
        r[i].name = &names[i];
        start(&r[i]);
    }
    assert_int_equal(w.e->under_way, ETCD_STEPS - ETCD_STEPS_KEPT);
    renew = asks(SNIB__RENEW, 1);
    renew.background = true;
    start(&renew);
    assert_int_equal(w.e->under_way, ETCD_STEPS - ETCD_STEPS_KEPT + 1);
    w.keeps = false;
    for (int i = 0; i < 10; i++) {
        pass(10);
    }
    for (int i = 0; i < MANY; i++) {
        assert_true(answered(&r[i]));
        assert_int_equal(r[i].said.answer, SNIB__DONE);
    }
    assert_true(answered(&renew));
}

/* The server answers all along: not its silence is told. */
static void what_found_no_room_is_told_so(void **state)
{
    enum { MANY = ETCD_STEPS - ETCD_STEPS_KEPT + 1 };
    (void)state;
    static struct snib__request r[MANY];
    static struct snib__name names[MANY];
    w.keeps = true;
    for (uint64_t i = 0; i < MANY; i++) {
        names[i] = (struct snib__name){1, 1, 100 + i, "n", "n"};
        r[i] = asks(SNIB__ACQUIRE, 1000 + i);
        r[i].name = &names[i];
        r[i].limit = snib__after(w.now, snib__ms(i + 1 < MANY ? 60000 : 50));
        start(&r[i]);
    }
    for (int i = 0; i < 2; i++) {
        w.e->session.heard = w.now = snib__after(w.now, snib__ms(25));
        tick();
    }
    assert_true(answered(&r[MANY - 1]));
    assert_int_equal(r[MANY - 1].said.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(w.error.text,
                        "not sent for 50 ms, as 48 other requests of this "
                        "client are under way");
    r[MANY - 1] = asks(SNIB__ACQUIRE, 1);
    r[MANY - 1].limit = snib__after(w.now, snib__ms(40));
    start(&r[MANY - 1]);
    pass(40); /* nothing is heard */
    assert_true(answered(&r[MANY - 1]));
    assert_string_equal(w.error.text, "no answer from the server for 40 ms");
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)
    const struct CMUnitTest cases[] = {
        CASE(a_latch_and_a_size_are_remembered_for_a_month),
        CASE(who_waits_keeps_the_latch_closed_and_the_order),
        CASE(who_holds_and_who_waits_keep_what_is_remembered),
        CASE(what_others_have_put_is_not_put_at_each_renewal),
        CASE(a_latch_opens_for_more_than_fit_into_a_transaction),
        CASE(a_crowd_is_ended_by_force_and_another_let_in),
        CASE(what_is_told_of_an_end_is_no_later_than_the_lease),
        CASE(a_token_has_the_time_of_the_clock_as_it_is_set_now),
        CASE(a_clock_that_is_wrong_carries_a_token_a_year_at_most),
        CASE(a_clock_that_is_none_leaves_tokens_to_count),
        CASE(a_short_grant_ends_before_its_lease_by_a_fast_clock),
        CASE(a_tombstone_outlives_the_lease_of_a_late_copy),
        CASE(a_tombstone_whose_copies_nobody_noted_goes_by_the_lease),
        CASE(a_limit_that_was_moved_counts_as_it_is_now),
        CASE(of_what_was_never_sent_it_is_told_that_nothing_was_done),
        CASE(what_was_only_looked_for_is_cancelled_at_once),
        CASE(what_is_being_written_is_cancelled_behind_it),
        CASE(no_more_are_under_way_than_there_is_memory_for),
        CASE(what_found_no_room_is_told_so),
    };
    return RUN(cases);
}
