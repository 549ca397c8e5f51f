/* tests/unit/test_zookeeper_steps.c — the store zookeeper: beside a model of its
 * server: what is granted when, from when it counts, and what becomes of answers
 * that are lost, late, or not ZooKeeper's. */
#include "unit.h"

#include "base/mem.h"
#include "store/zookeeper/zookeeper.h"
#include "zookeeper_model.h"

static const struct snib__store_ops *const ops = &snib__zookeeper_store_ops;
static struct snib__store *store;
static struct snib__out out;
static struct snib__name *name;
static struct snib_error e, said;
static snib_instant now;
static bool up; /* the connection */

/* -- the other end ------------------------------------------------------------- */

static void input(snib__input_kind kind, const void *bytes, size_t size)
{
    const struct snib__input in = {
        .kind = kind, .conn = 0, .bytes = bytes, .size = size};
    ops->input(store, now, &in);
}

static void serve_frame(const uint8_t *frame, size_t size, bool hello)
{
    size_t before = snib__buf_size(&model_out);
    if (hello) {
        model_hello(frame, size);
        return;
    }
    if (model.keep && memmem(frame, size, "__WRIT__", 8) &&
        !memmem(frame, size, "=held-", 6)) {
        memcpy(model.kept, frame, size);
        model.kept_size = size;
        model.keep = false;
        up = false;
        return;
    }
    model_frame(frame, size);
    if (model.deaf_from && ++model.frames >= model.deaf_from) {
        model_out.end -= snib__buf_size(&model_out) - before;
        up = model.mute;
        model.deaf_from = model.mute ? model.deaf_from : 0;
    }
}

/* Carry out what the store wishes, until it wishes nothing. */
static void settle(void)
{
    static bool greeted;
    struct snib__conn *conn = out.conn[0];
    for (int i = 0; i < 400; i++) {
        const uint8_t *frame;
        size_t size;
        if (conn->shut) {
            conn->shut = false;
            up = false;
            input(SNIB__IN_CLOSED, NULL, 0);
        } else if (conn->open) {
            conn->open = false;
            up = true;
            greeted = false;
            snib__buf_clear(&model_out);
            input(SNIB__IN_OPENED, NULL, 0);
        } else if (snib__zk_frame(snib__buf_bytes(&conn->out),
                                  snib__buf_size(&conn->out), &frame,
                                  &size) == 1) {
            serve_frame(frame, size, !greeted);
            greeted = true;
            snib__buf_consume(&conn->out, size + 4);
            if (!up) {
                snib__buf_clear(&conn->out);
                input(SNIB__IN_CLOSED, NULL, 0);
            }
        } else if (up && snib__buf_size(&model_out)) {
            uint8_t byte = *snib__buf_bytes(&model_out);
            snib__buf_consume(&model_out, 1); /* in the smallest pieces */
            input(SNIB__IN_BYTES, &byte, 1);
            i--;
        } else if (snib__reached(now, ops->due(store))) {
            input(SNIB__IN_TICK, NULL, 0);
        } else {
            return;
        }
    }
    fail_msg("it does not come to rest");
}

static void pass_ms(int64_t ms)
{
    for (snib_instant end = snib__after(now, snib__ms(ms)); now.ns < end.ns;) {
        now = snib__sooner(
            end, snib__later(ops->due(store), snib__after(now, snib__ms(1))));
        settle();
    }
}

/* -- the store ------------------------------------------------------------------- */

static int begin(void **state)
{
    (void)state;
    struct snib__url *url;
    model_begin();
    now = (snib_instant){INT64_C(1000000000)};
    out = (struct snib__out){.limit = 0};
    snib__list_init(&out.answered);
    snib__list_init(&out.exec);
    snib__conns_init(&out, 1 << 20);
    assert_false(snib__url_parse("zookeeper://h/l", &url, &e));
    struct snib__store_config c = {.url = url,
                                   .out = &out,
                                   .client = {1, 2},
                                   .request = snib__ms(1000),
                                   .wall_offset_ns = 1};
    c.seed.v[0] = 1;
    assert_false(ops->open(&c, &store, &e));
    snib__url_free(url);
    assert_false(snib__name_new("n", 0, &name, &e));
    return 0;
}

static int end(void **state)
{
    (void)state;
    ops->free(store);
    snib__conns_free(&out);
    snib__free(name);
    snib__buf_free(&model_out);
    return 0;
}

static struct snib__request request(snib__verb verb, uint64_t id)
{
    struct snib__request r = {.name = name,
                              .id = {id, id},
                              .verb = verb,
                              .lease = snib__ms(2000),
                              .limit = snib__after(now, snib__ms(60000))};
    r.said.reterr = &said;
    r.acquire.may_queue = verb == SNIB__ACQUIRE;
    return r;
}

static void ask(struct snib__request *r)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__link_init(&r->link);
    snib__list_push(&chain, &r->link);
    ops->start(store, now, &chain);
    settle();
}

/* Its answer, taken; PENDING: there is none. */
static snib__answer answer(struct snib__request *r)
{
    SNIB__LIST_EACH_SAFE (l, next, &out.answered) {
        if (l == &r->link) {
            snib__unlink(l);
            return r->said.answer;
        }
    }
    return SNIB__PENDING;
}

static uint32_t count(const char *part)
{
    uint32_t n = 0;
    for (int i = 0; i < MODEL_NODES; i++) {
        n += model.node[i].there && strstr(model.node[i].path, part);
    }
    return n;
}

/* Somebody else's grant: its mark, and its node if it still stands. */
static void another(bool stands, int64_t lease_ms)
{
    struct model_node *made;
    const uint64_t id[2] = {99, 99};
    char child[ZOO_CHILD_MAX], path[200];
    int64_t ours = model.session;
    model.session = 77;
    model.zxid++;
    (void)model_create("/l", "", 0, 0, &made);
    (void)model_create("/l/n", "", 0, 0, &made);
    snib__zoo_child_mark(id, false, lease_ms, child);
    snprintf(path, sizeof path, "/l/n/%s", child);
    assert_false(model_create(path, "", 0, 0, &made));
    if (stands) {
        snib__zoo_child_stands(id, false, child);
        snprintf(path, sizeof path, "/l/n/%s", child);
        assert_false(model_create(path, "", 0, 3, &made));
    }
    model.session = ours;
}

static void event(const char *path)
{
    size_t begun = snib__zk_begin(&model_out);
    snib__jute_put_i32(&model_out, SNIB__ZK_XID_EVENT);
    snib__jute_put_i64(&model_out, -1);
    snib__jute_put_i32(&model_out, 0);
    snib__jute_put_i32(&model_out, 2);
    snib__jute_put_i32(&model_out, 3);
    snib__jute_put_text(&model_out, path);
    snib__zk_end(&model_out, begun);
    settle();
}

/* -- cases ------------------------------------------------------------------------ */

static void a_free_lock_is_granted_and_leaves_nothing(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_true(r.token > 100);
    assert_true(r.said.valid_from.ns == now.ns);
    assert_int_equal(snib__to_ms(r.said.left), 2000);
    assert_int_equal(count("__WRIT__"), 1);
    assert_int_equal(count("=held-"), 1);
    struct snib__request release = request(SNIB__RELEASE, 5);
    release.token = r.token;
    ask(&release);
    assert_int_equal(answer(&release), SNIB__DONE);
    assert_int_equal(count("__WRIT__") + count("=held-"), 0);
}

static void a_renewal_counts_and_a_ping_does_not(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    pass_ms(1500);
    uint32_t writes = model.writes;
    struct snib__request renew = request(SNIB__RENEW, 5);
    renew.token = r.token;
    ask(&renew);
    assert_int_equal(answer(&renew), SNIB__DONE);
    assert_int_equal(model.writes, writes + 1); /* through the log */
    assert_true(renew.said.valid_from.ns == now.ns);
    renew = request(SNIB__RENEW, 5);
    renew.token = r.token + 1;
    ask(&renew);
    assert_int_equal(answer(&renew), SNIB__NO);
}

static void who_does_not_renew_is_swept_when_the_lease_is_over(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    pass_ms(1990);
    assert_int_equal(count("__WRIT__"), 1);
    pass_ms(200);
    assert_int_equal(count("__WRIT__") + count("=held-"), 0);
    struct snib__request renew = request(SNIB__RENEW, 5);
    renew.token = r.token;
    ask(&renew);
    assert_int_equal(answer(&renew), SNIB__NO);
}

static void a_waiter_watches_and_is_let_in_by_a_release(void **state)
{
    (void)state;
    another(true, 30000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(r.said.position, 1);
    assert_non_null(strstr(model.watch, "-0063-"));
    pass_ms(10000);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    for (int i = 0; i < MODEL_NODES; i++) {
        struct model_node *n = &model.node[i];
        n->there = n->there && !(n->owner == 77 || strstr(n->path, "=held-"));
    }
    event(model.watch);
    assert_int_equal(answer(&r), SNIB__DONE);
}

static void a_node_that_went_lets_nobody_in_for_a_lease(void **state)
{
    (void)state;
    another(false, 5000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    pass_ms(4990);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(count("=held-"), 1);
    pass_ms(1100);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_int_equal(count("=held-"), 1); /* its own */
}

static void a_try_is_not_let_in_beside_such_a_mark(void **state)
{
    (void)state;
    another(false, 5000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.acquire.may_queue = false;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NO);
    assert_int_equal(count("__WRIT__"), 0);
}

static void a_session_that_is_over_is_the_loss_of_all(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    out.holds = true;
    model_expire();
    up = false;
    out.moved = false;
    input(SNIB__IN_CLOSED, NULL, 0);
    pass_ms(500);
    assert_true(out.moved);
    struct snib__request renew = request(SNIB__RENEW, 5);
    renew.token = r.token;
    ask(&renew);
    assert_int_equal(answer(&renew), SNIB__NO);
    assert_true(renew.said.forgotten);
    assert_non_null(strstr(said.text, "session"));
}

/* Whichever answer is lost: the request ends as DONE with one node and one mark,
 * by its repeats. */
static void an_answer_that_is_lost_makes_no_second_node(void **state)
{
    (void)state;
    for (uint32_t deaf = 1; deaf < 9; deaf++) {
        model.frames = 0;
        model.deaf_from = deaf;
        struct snib__request r = request(SNIB__ACQUIRE, 100 + deaf);
        ask(&r);
        snib__answer got = answer(&r);
        for (int i = 0; i < 20 && got != SNIB__DONE; i++) {
            pass_ms(200);
            if (got == SNIB__UNKNOWN) {
                r.resent = true;
                ask(&r);
            }
            got = answer(&r);
        }
        assert_int_equal(got, SNIB__DONE);
        assert_int_equal(count("__WRIT__"), 1);
        assert_int_equal(count("=held-"), 1);
        model.deaf_from = 0;
        struct snib__request release = request(SNIB__RELEASE, 100 + deaf);
        release.token = r.token;
        ask(&release);
        assert_int_equal(answer(&release), SNIB__DONE);
        assert_int_equal(count("__WRIT__") + count("=held-"), 0);
    }
}

static void a_copy_that_comes_late_makes_nothing(void **state)
{
    (void)state;
    struct snib__request first = request(SNIB__ACQUIRE, 4);
    ask(&first);
    assert_int_equal(answer(&first), SNIB__DONE);
    struct snib__request release = request(SNIB__RELEASE, 4);
    release.token = first.token;
    ask(&release);
    assert_int_equal(answer(&release), SNIB__DONE);
    model.keep = true;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__UNKNOWN);
    struct snib__request cancel = request(SNIB__CANCEL, 5);
    ask(&cancel);
    pass_ms(500);
    assert_int_equal(answer(&cancel), SNIB__DONE);
    assert_true(model.kept_size > 0);
    model_frame(model.kept, model.kept_size);
    assert_int_equal(count("__WRIT__"), 0);
}

/* Bytes at random, and answers cut and turned: nothing is granted by them. */
static void hostile_bytes_grant_nothing(void **state)
{
    (void)state;
    uint32_t dice = 12345;
    for (int round = 0; round < 300; round++) {
        uint8_t bytes[128];
        struct snib__request r = request(SNIB__ACQUIRE, 1000 + (uint64_t)round);
        model.deaf_from = 1 + (uint32_t)round % 5;
        model.frames = 0;
        model.mute = true;
        ask(&r);
        for (size_t i = 0; i < sizeof bytes; i++) {
            dice = dice * 1103515245 + 12345;
            bytes[i] = (uint8_t)(dice >> 16);
        }
        bytes[0] = bytes[1] = 0;
        bytes[2] = 0;
        bytes[3] &= 0x3f;
        if (round % 2) {
            bytes[4] = bytes[5] = bytes[6] = 0; /* a number that may be due */
        }
        model.mute = false;
        model.deaf_from = 0;
        input(SNIB__IN_BYTES, bytes, sizeof bytes);
        settle();
        (void)answer(&r);
        struct snib__request cancel = request(SNIB__CANCEL, r.id[0]);
        ask(&cancel);
        pass_ms(6000);
        assert_int_equal(answer(&cancel), SNIB__DONE);
        (void)answer(&r);
        assert_int_equal(count("__WRIT__"), 0);
    }
}

static void what_it_has_not_is_refused(void **state)
{
    (void)state;
    static const snib__verb verbs[] = {SNIB__FORCE, SNIB__PARAMS,
                                       SNIB__VALUE_GET, SNIB__VALUE_PUT,
                                       SNIB__VALUE_DELETE};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct snib__request r = request(verbs[i], 5);
        ask(&r);
        assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
        assert_int_equal(r.said.err, SNIB_ERR_UNSUPPORTED);
    }
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.acquire.kind = SNIB_KIND_PERMITS;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    r = request(SNIB__ACQUIRE, 6);
    r.acquire.delay = snib__ms(5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_UNSUPPORTED);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_free_lock_is_granted_and_leaves_nothing),
        CASE(a_renewal_counts_and_a_ping_does_not),
        CASE(who_does_not_renew_is_swept_when_the_lease_is_over),
        CASE(a_waiter_watches_and_is_let_in_by_a_release),
        CASE(a_node_that_went_lets_nobody_in_for_a_lease),
        CASE(a_try_is_not_let_in_beside_such_a_mark),
        CASE(a_session_that_is_over_is_the_loss_of_all),
        CASE(an_answer_that_is_lost_makes_no_second_node),
        CASE(a_copy_that_comes_late_makes_nothing),
        CASE(hostile_bytes_grant_nothing),
        CASE(what_it_has_not_is_refused),
    };
    return RUN(tests);
}
