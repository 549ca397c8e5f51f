/* tests/unit/test_blocking.c — core/blocking.c over a library that answers
 * what the test says. */
#include "core/blocking.h"

#include "base/error.h"
#include "unit.h"

static struct fake {
    int opened, freed, executed;
    uint64_t ids[64][2];
    uint32_t id_count;
    snib_err open_err;
} fake;

static struct snib__out out;
static struct snib__store *store;
static struct snib__name name = {.raw = "n", .safe = "n", .raw_size = 1};
static uint64_t next_id;

static snib_err fake_open(const struct snib__store_config *c, void **ret,
                          struct snib_error *e)
{
    (void)c;
    if (fake.open_err) {
        return snib__fail_plain(e, fake.open_err);
    }
    fake.opened++;
    *ret = &fake;
    return SNIB_ERR_OK;
}

static void fake_exec(void *inst, snib_instant now, struct snib__list *chain)
{
    (void)inst;
    (void)now;
    (void)chain;
}

static void fake_exec_in(void *inst, snib__session session, snib_instant now,
                         struct snib__list *chain)
{
    (void)session;
    fake_exec(inst, now, chain);
}

static int fake_bell(void *inst)
{
    (void)inst;
    return -1;
}

static uint32_t fake_notified(void *inst, uint64_t (*ids)[2], uint32_t max)
{
    uint32_t n = fake.id_count < max ? fake.id_count : max;
    (void)inst;
    if (fake.id_count == SNIB__NOTIFIED_ALL) {
        fake.id_count = 0;
        return SNIB__NOTIFIED_ALL;
    }
    memcpy(ids, fake.ids, n * sizeof ids[0]);
    memmove(fake.ids, fake.ids + n, (fake.id_count - n) * sizeof ids[0]);
    fake.id_count -= n;
    return n;
}

static void fake_free(void *inst)
{
    (void)inst;
    fake.freed++;
}

static const struct snib__blocking_ops ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof ops,
    .scheme = "fake",
    .open = fake_open,
    .exec = fake_exec,
    .notifier_fd = fake_bell,
    .notified = fake_notified,
    .free = fake_free,
};

static const struct snib__store_ops *const st = &snib__blocking_store_ops;

static snib_instant at(int64_t ms)
{
    return (snib_instant){ms * 1000000};
}

static int setup(void **state)
{
    struct snib__store_config config = {.out = &out, .seed = {{1, 2, 3, 4}}};
    (void)state;
    memset(&fake, 0, sizeof fake);
    memset(&out, 0, sizeof out);
    snib__list_init(&out.answered);
    snib__list_init(&out.exec);
    next_id = 100;
    return snib__blocking_open(&ops, &config, &store, NULL);
}

static int teardown(void **state)
{
    (void)state;
    st->free(store);
    return fake.freed == 1 ? 0 : -1;
}

static struct snib__request spec(snib__verb verb)
{
    return (struct snib__request){.verb = verb,
                                  .name = &name,
                                  .id = {next_id++, 5},
                                  .limit = SNIB__NEVER,
                                  .store.timer = {.index = 99}};
}

static void start(struct snib__request *r)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__list_push(&chain, &r->link);
    st->start(store, at(0), &chain);
    assert_true(snib__list_empty(&chain));
}

static struct snib__request *front(const struct snib__list *l)
{
    struct snib__link *f = snib__list_first(l);
    return f ? SNIB__CONTAINER(f, struct snib__request, link) : NULL;
}

/* Execute the first request alone and let it be answered so. */
static void finish(struct snib__request *r, snib__answer a, int64_t now_ms)
{
    struct snib__list one;
    assert_ptr_equal(front(&out.exec), r);
    snib__list_init(&one);
    snib__unlink(&r->link);
    snib__list_push(&one, &r->link);
    r->said.answer = a;
    snib__blocking_done(store, at(now_ms), &one);
}

static void expect_answer(struct snib__request *r, snib__answer a)
{
    assert_ptr_equal(front(&out.answered), r);
    assert_int_equal(r->said.answer, a);
    snib__list_pop(&out.answered);
}

static void tick(int64_t ms)
{
    struct snib__input in = {.kind = SNIB__IN_TICK};
    st->input(store, at(ms), &in);
}

static void notify(const struct snib__request *r)
{
    struct snib__input in = {.kind = SNIB__IN_NOTIFIED};
    fake.ids[0][0] = r->id[0];
    fake.ids[0][1] = r->id[1];
    fake.id_count = 1;
    st->input(store, at(1), &in);
}

static void request_goes_to_exec_and_its_answer_out(void **state)
{
    (void)state;
    struct snib__request r = spec(SNIB__RELEASE);
    start(&r);
    assert_int_equal(r.said.answer, SNIB__PENDING);
    finish(&r, SNIB__DONE, 1);
    expect_answer(&r, SNIB__DONE);
    assert_int_equal(st->due(store).ns, INT64_MAX);
}

static void waiter_is_polled_at_the_holders_end_within_the_cap(void **state)
{
    (void)state;
    static const struct {
        int64_t left_ms;
        uint32_t position;
        int64_t from, to, lease_ms;
    } t[] = {
        {200, 1, 200, 203, 30000},  {5000, 1, 995, 1000, 30000},
        {0, 1, 10, 12, 30000},      {200, 2, 200, 203, 30000},
        {200, 3, 995, 1000, 30000}, {-50, 1, 995, 1000, 30000},
        {5000, 1, 300, 300, 900}, /* a third of a short claim (H05) */
        {5000, 2, 50, 50, 60},      {5000, 3, 995, 1000, 900},
        {300, 1, 300, 300, 900}, /* of both at once: without jitter */
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib__request r = spec(SNIB__ACQUIRE);
        start(&r);
        r.lease.ns = t[i].lease_ms * 1000000;
        r.said.left.ns = t[i].left_ms * 1000000;
        r.said.position = t[i].position;
        finish(&r, SNIB__QUEUED, 0);
        expect_answer(&r, SNIB__QUEUED);
        int64_t due = st->due(store).ns / 1000000;
        assert_in_range(due, t[i].from, t[i].to);
        assert_true(t[i].from < t[i].to ||
                    st->due(store).ns == t[i].from * 1000000);
        tick(due);
        assert_true(snib__list_empty(&out.exec) || due == t[i].from);
        tick(due + 1);
        assert_int_equal(r.said.answer,
                         SNIB__QUEUED); /* ops sees that it waits */
        finish(&r, SNIB__DONE, due + 2);
        expect_answer(&r, SNIB__DONE);
    }
}

static void who_is_told_by_nobody_asks_again_by_chance(void **state)
{
    int64_t least = INT64_MAX, most = 0;
    (void)state;
    out.poll.ns = 100 * 1000000;
    for (int i = 0; i < 200; i++) {
        struct snib__request r = spec(SNIB__ACQUIRE);
        start(&r);
        r.lease.ns = 30000 * INT64_C(1000000);
        r.said.left.ns = i % 2 ? 20000 * INT64_C(1000000) : 1;
        finish(&r, SNIB__QUEUED, 0);
        expect_answer(&r, SNIB__QUEUED);
        int64_t due = st->due(store).ns / 1000000;
        assert_in_range(due, 10, 100);
        least = due < least ? due : least;
        most = due > most ? due : most;
        tick(due + 1);
        finish(&r, SNIB__DONE, due + 2);
        expect_answer(&r, SNIB__DONE);
    }
    assert_true(least < 20 && most > 90);
}

static void a_notified_waiter_is_executed_at_once(void **state)
{
    (void)state;
    static struct snib__request a, b; /* still owned when this returns */
    a = spec(SNIB__ACQUIRE);
    b = spec(SNIB__ACQUIRE);
    start(&a);
    finish(&a, SNIB__QUEUED, 0);
    start(&b);
    finish(&b, SNIB__QUEUED, 0);
    expect_answer(&a, SNIB__QUEUED);
    expect_answer(&b, SNIB__QUEUED);
    notify(&b);
    finish(&b, SNIB__DONE, 2);
    expect_answer(&b, SNIB__DONE);
    assert_true(snib__list_empty(&out.exec));
    notify(&b); /* over: a message that comes late does nothing */
    assert_true(snib__list_empty(&out.exec));
}

static void bell_during_execution_is_not_lost(void **state)
{
    (void)state;
    struct snib__request r = spec(SNIB__ACQUIRE);
    struct snib__list taken;
    start(&r);
    snib__list_init(&taken);
    snib__list_append(&taken, &out.exec);
    assert_true(snib__list_empty(&out.exec));
    notify(&r);
    r.said.answer = SNIB__QUEUED;
    snib__blocking_done(store, at(1), &taken);
    assert_true(snib__list_empty(&out.answered));
    finish(&r, SNIB__DONE, 1);
    expect_answer(&r, SNIB__DONE);
}

static void ring_for_all_executes_every_waiter(void **state)
{
    (void)state;
    enum { N = 100 };
    static struct snib__request r[N];
    struct snib__input in = {.kind = SNIB__IN_NOTIFIED};
    for (int i = 0; i < N; i++) { /* the table grows on the way */
        r[i] = spec(SNIB__ACQUIRE);
        start(&r[i]);
        finish(&r[i], SNIB__QUEUED, 0);
        expect_answer(&r[i], SNIB__QUEUED);
    }
    fake.id_count = SNIB__NOTIFIED_ALL;
    st->input(store, at(1), &in);
    int n = 0;
    while (snib__list_pop(&out.exec)) {
        n++;
    }
    assert_int_equal(n, N);
}

/* What was not told may have been that a grant was ended by force. */
static void ring_for_all_asks_for_what_is_held(void **state)
{
    (void)state;
    struct snib__input in = {.kind = SNIB__IN_NOTIFIED};
    st->input(store, at(1), &in);
    assert_false(out.missed);
    fake.id_count = SNIB__NOTIFIED_ALL;
    st->input(store, at(2), &in);
    assert_true(out.missed);
}

static void blocked_request_comes_again_unannounced(void **state)
{
    (void)state;
    struct snib__request r = spec(SNIB__RENEW);
    start(&r);
    finish(&r, SNIB__PENDING, 10);
    assert_true(snib__list_empty(&out.answered));
    int64_t due = st->due(store).ns / 1000000;
    assert_in_range(due, 11, 60);
    tick(due);
    finish(&r, SNIB__DONE, due);
    expect_answer(&r, SNIB__DONE);
}

static void cancelled_waiter_is_not_polled_and_ends_first(void **state)
{
    (void)state;
    struct snib__request r = spec(SNIB__ACQUIRE);
    struct snib_error error;
    r.said.reterr = &error;
    start(&r);
    finish(&r, SNIB__QUEUED, 0);
    expect_answer(&r, SNIB__QUEUED);
    struct snib__request x = spec(SNIB__CANCEL);
    x.id[0] = r.id[0];
    x.id[1] = r.id[1];
    start(&x);
    tick(100000);
    notify(&r);
    finish(&x, SNIB__DONE, 5);
    expect_answer(&r, SNIB__NO);
    assert_int_equal(error.code, SNIB_ERR_CANCELLED);
    expect_answer(&x, SNIB__DONE);
    assert_int_equal(st->due(store).ns, INT64_MAX);
}

static void cancel_is_executed_after_what_is_being_executed(void **state)
{
    (void)state;
    static const snib__answer first[] = {SNIB__DONE, SNIB__QUEUED,
                                         SNIB__PENDING};
    for (size_t i = 0; i < COUNT_OF(first); i++) {
        struct snib__request r = spec(SNIB__ACQUIRE), x = spec(SNIB__CANCEL);
        struct snib__list taken;
        start(&r);
        snib__list_init(&taken);
        snib__list_append(&taken, &out.exec);
        x.id[0] = r.id[0];
        x.id[1] = r.id[1];
        start(&x);
        assert_ptr_equal(front(&out.exec), &x);
        r.said.answer = first[i];
        r.said.position = 1;
        snib__blocking_done(store, at(1), &taken);
        if (first[i] != SNIB__PENDING) {
            expect_answer(&r, first[i]);
        }
        assert_int_equal(st->due(store).ns, INT64_MAX);
        finish(&x, SNIB__DONE, 2);
        if (first[i] != SNIB__DONE) {
            expect_answer(&r, SNIB__NO);
        }
        expect_answer(&x, SNIB__DONE);
    }
}

static void failed_cancel_leaves_its_acquire_unknown(void **state)
{
    (void)state;
    struct snib__request r = spec(SNIB__ACQUIRE), x = spec(SNIB__CANCEL);
    start(&r);
    finish(&r, SNIB__QUEUED, 0);
    expect_answer(&r, SNIB__QUEUED);
    x.id[0] = r.id[0];
    x.id[1] = r.id[1];
    start(&x);
    finish(&x, SNIB__NOT_APPLIED, 5);
    expect_answer(&r, SNIB__UNKNOWN);
    expect_answer(&x, SNIB__NOT_APPLIED);
}

static void waiter_may_be_turned_into_its_own_cancel(void **state)
{
    (void)state;
    struct snib__request r = spec(SNIB__ACQUIRE);
    start(&r);
    finish(&r, SNIB__QUEUED, 0);
    expect_answer(&r, SNIB__QUEUED);
    r.verb = SNIB__CANCEL;
    start(&r);
    finish(&r, SNIB__DONE, 1);
    expect_answer(&r, SNIB__DONE);
    assert_true(snib__list_empty(&out.exec));
}

/* -- what the library never got to --------------------------------------------- */

/* Executed and blocked by others, until its limit of 100 ms is over. */
static void blocked_to_the_limit(struct snib__request *r, snib_err err)
{
    int64_t due = 0;
    r->limit = at(100);
    if (front(&out.exec) != r) {
        start(r);
    }
    for (int rounds = 0; front(&out.exec) == r && due < 100; rounds++) {
        assert_true(rounds < 20);
        r->said.err = err;
        finish(r, SNIB__PENDING, due);
        int64_t next = st->due(store).ns / 1000000;
        assert_in_range(next, due + 1, due + 20); /* the limit is not slept */
        assert_true(next <= 100);
        tick(next - 1);
        assert_true(snib__list_empty(&out.exec));
        due = next;
        tick(due);
    }
    assert_int_equal(due, 100);
}

static void an_acquire_that_was_in_vain_is_told_so_at_its_limit(void **state)
{
    (void)state;
    struct snib__request r = spec(SNIB__ACQUIRE);
    blocked_to_the_limit(&r, SNIB_ERR_STORE);
    expect_answer(&r, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_STORE); /* who was in the way */
    assert_true(snib__list_empty(&out.exec));
    assert_int_equal(st->due(store).ns, INT64_MAX);
}

/* They may have been applied, or must be: no limit ends them here. */
static void what_is_no_acquire_is_executed_past_its_limit(void **state)
{
    (void)state;
    static const snib__verb verbs[] = {SNIB__RENEW, SNIB__RELEASE, SNIB__CANCEL,
                                       SNIB__INSPECT};
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        struct snib__request r = spec(verbs[i]);
        blocked_to_the_limit(&r, SNIB_ERR_STORE);
        assert_true(snib__list_empty(&out.answered));
        finish(&r, SNIB__DONE, 101);
        expect_answer(&r, SNIB__DONE);
    }
}

static void an_acquire_that_may_be_there_is_asked_about(void **state)
{
    (void)state;
    struct snib__request r = spec(SNIB__ACQUIRE);
    r.resent = true;
    blocked_to_the_limit(&r, SNIB_ERR_STORE);
    finish(&r, SNIB__DONE, 101);
    expect_answer(&r, SNIB__DONE);

    r = spec(SNIB__ACQUIRE); /* blocked by nobody in particular */
    blocked_to_the_limit(&r, SNIB_ERR_OK);
    finish(&r, SNIB__DONE, 101);
    expect_answer(&r, SNIB__DONE);

    r = spec(SNIB__ACQUIRE);
    start(&r);
    finish(&r, SNIB__QUEUED, 0);
    expect_answer(&r, SNIB__QUEUED);
    notify(&r);
    blocked_to_the_limit(&r, SNIB_ERR_STORE);
    finish(&r, SNIB__DONE, 101);
    expect_answer(&r, SNIB__DONE);
}

static void a_cancel_of_what_was_never_got_to_is_done(void **state)
{
    (void)state;
    struct snib_error error = {0};
    struct snib__request r = spec(SNIB__ACQUIRE), x = spec(SNIB__CANCEL);
    r.said.reterr = &error;
    start(&r);
    finish(&r, SNIB__PENDING, 0);
    x.id[0] = r.id[0];
    x.id[1] = r.id[1];
    start(&x);
    finish(&x, SNIB__PENDING, 1);
    expect_answer(&r, SNIB__NO);
    assert_int_equal(error.code, SNIB_ERR_CANCELLED);
    expect_answer(&x, SNIB__DONE);
    assert_int_equal(x.said.err, SNIB_ERR_OK);

    r = spec(SNIB__ACQUIRE); /* of one that may be there, it is not */
    r.resent = true;
    x = spec(SNIB__CANCEL);
    start(&r);
    finish(&r, SNIB__PENDING, 2);
    x.id[0] = r.id[0];
    x.id[1] = r.id[1];
    start(&x);
    finish(&x, SNIB__PENDING, 3);
    assert_true(snib__list_empty(&out.answered));
    tick(100);
    finish(&x, SNIB__DONE, 100);
    expect_answer(&r, SNIB__NO);
    expect_answer(&x, SNIB__DONE);
}

/* -- how the store is --------------------------------------------------------- */

static struct snib__store_state state_at(int64_t ms)
{
    struct snib__store_state s = {0};
    st->state(store, at(ms), &s);
    return s;
}

static void trouble_that_lasts_is_told_with_its_words(void **state)
{
    (void)state;
    struct snib_error error = {0};
    struct snib__request r = spec(SNIB__RENEW);
    assert_int_equal(state_at(1).since.ns, 0); /* not asked yet */
    r.said.reterr = &error;
    start(&r);
    r.said.err = snib__fail(&error, SNIB_ERR_STORE, "process 12 writes");
    finish(&r, SNIB__PENDING, 10);
    assert_true(state_at(109).reachable); /* it passes, most likely */
    assert_int_equal(state_at(109).err, SNIB_ERR_OK);
    assert_false(state_at(110).reachable);
    assert_int_equal(state_at(110).err, SNIB_ERR_STORE);
    assert_int_equal(state_at(110).nodes_reachable, 0);
    assert_int_equal(state_at(110).since.ns, at(10).ns);
    assert_string_equal(state_at(110).text, "process 12 writes");
    tick(200);
    r.said.err = snib__fail(&error, SNIB_ERR_DENIED, "read-only");
    finish(&r, SNIB__PENDING, 200); /* still the same time without it */
    assert_int_equal(state_at(400).since.ns, at(10).ns);
    assert_string_equal(state_at(400).text, "read-only");
    tick(500);
    r.said.err = SNIB_ERR_OK;
    finish(&r, SNIB__DONE, 500);
    expect_answer(&r, SNIB__DONE);
    assert_true(state_at(700).reachable);
    assert_int_equal(state_at(700).nodes_reachable, 1);
    assert_int_equal(state_at(700).since.ns, at(500).ns);
    assert_string_equal(state_at(700).text, "");
}

static void a_request_refused_for_its_own_sake_is_no_trouble(void **state)
{
    (void)state;
    static const snib_err own[] = {SNIB_ERR_USAGE, SNIB_ERR_NOMEM,
                                   SNIB_ERR_LIMIT, SNIB_ERR_UNSUPPORTED};
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        struct snib__request r = spec(SNIB__ACQUIRE);
        start(&r);
        r.said.err = own[i];
        finish(&r, SNIB__NOT_APPLIED, 1);
        expect_answer(&r, SNIB__NOT_APPLIED);
        assert_int_equal(state_at(5000).err, SNIB_ERR_OK);
    }
}

static void free_forgets_waiting_and_listed_requests(void **state)
{
    (void)state;
    struct snib__request a = spec(SNIB__ACQUIRE), b = spec(SNIB__ACQUIRE);
    start(&a);
    finish(&a, SNIB__QUEUED, 0);
    start(&b); /* still on out->exec */
    struct snib__store *old = store;
    setup(NULL); /* for teardown; out is new */
    fake.freed = 0;
    st->free(old);
    assert_int_equal(fake.freed, 1);
    fake.freed = 0;
    assert_int_equal(a.store.timer.index, 0);
}

static void without_memory_a_request_is_not_applied(void **state)
{
    (void)state;
    enum { N = 40 };
    static struct snib__request r[N];
    int refused = 0;
    for (int i = 0; i < N; i++) {
        r[i] = spec(SNIB__ACQUIRE);
        snib__mem_fail_at(1, true);
        start(&r[i]);
        snib__mem_fail_at(0, false);
        if (r[i].said.answer == SNIB__NOT_APPLIED) {
            assert_int_equal(r[i].said.err, SNIB_ERR_NOMEM);
            expect_answer(&r[i], SNIB__NOT_APPLIED);
            refused++;
        }
    }
    assert_true(refused > 0);
}

static void a_library_that_lacks_a_method_is_not_opened(void **state)
{
    static const char *const text =
        "store fake lacks what every store has, or has both exec and exec_in";
    struct snib__store_config config = {.out = &out};
    (void)state;
    memset(&fake, 0, sizeof fake);
    for (int i = 0; i < 9; i++) {
        struct snib__store *s = (void *)1;
        struct snib_error e;
        struct snib__blocking_ops these = ops;
        these.open = i == 0 ? NULL : ops.open;
        these.exec = i == 1 || i == 6 ? NULL : ops.exec;
        these.exec_in = i == 2 || i == 6 ? fake_exec_in : NULL;
        these.notifier_fd = i == 3 ? NULL : ops.notifier_fd;
        these.notified = i == 4 ? NULL : ops.notified;
        these.free = i == 5 ? NULL : ops.free;
        snib_err err = snib__blocking_open(&these, &config, &s, &e);
        if (i >= 6) { /* exec_in in place of exec; server, interrupt: NULL */
            assert_int_equal(err, SNIB_ERR_OK);
            st->free(s);
            continue;
        }
        assert_int_equal(err, SNIB_ERR_INTERNAL);
        assert_null(s);
        assert_string_equal(e.text, text);
    }
    assert_int_equal(fake.opened, 3);
    assert_int_equal(fake.freed, 3);
}

static void open_passes_errors_on(void **state)
{
    struct snib__store_config config = {.out = &out};
    struct snib__store *s = (void *)1;
    struct snib_error e;
    struct snib__blocking_ops old = ops;
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.open_err = SNIB_ERR_CONFIG;
    assert_int_equal(snib__blocking_open(&ops, &config, &s, &e),
                     SNIB_ERR_CONFIG);
    assert_null(s);
    assert_int_equal(fake.freed, 0);
    old.abi++;
    assert_int_equal(snib__blocking_open(&old, &config, &s, &e),
                     SNIB_ERR_INTERNAL);
    fake.open_err = SNIB_ERR_OK;
    for (int n = 1; n < 4; n++) {
        snib__mem_fail_at(n, false);
        if (snib__blocking_open(&ops, &config, &s, &e) == SNIB_ERR_OK) {
            void *inst;
            assert_ptr_equal(snib__blocking_ops_of(s, &inst), &ops);
            assert_ptr_equal(inst, &fake);
            st->free(s);
        }
        snib__mem_fail_at(0, false);
    }
    assert_int_equal(st->open(&config, &s, &e), SNIB_ERR_INTERNAL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(request_goes_to_exec_and_its_answer_out),
        CASE(waiter_is_polled_at_the_holders_end_within_the_cap),
        CASE(who_is_told_by_nobody_asks_again_by_chance),
        CASE(a_notified_waiter_is_executed_at_once),
        CASE(bell_during_execution_is_not_lost),
        CASE(ring_for_all_executes_every_waiter),
        CASE(ring_for_all_asks_for_what_is_held),
        CASE(blocked_request_comes_again_unannounced),
        CASE(cancelled_waiter_is_not_polled_and_ends_first),
        CASE(cancel_is_executed_after_what_is_being_executed),
        CASE(failed_cancel_leaves_its_acquire_unknown),
        CASE(waiter_may_be_turned_into_its_own_cancel),
        CASE(an_acquire_that_was_in_vain_is_told_so_at_its_limit),
        CASE(what_is_no_acquire_is_executed_past_its_limit),
        CASE(an_acquire_that_may_be_there_is_asked_about),
        CASE(a_cancel_of_what_was_never_got_to_is_done),
        CASE(trouble_that_lasts_is_told_with_its_words),
        CASE(a_request_refused_for_its_own_sake_is_no_trouble),
        CASE(free_forgets_waiting_and_listed_requests),
        CASE(without_memory_a_request_is_not_applied),
        cmocka_unit_test(open_passes_errors_on),
        cmocka_unit_test(a_library_that_lacks_a_method_is_not_opened),
    };
    return RUN(cases);
}
