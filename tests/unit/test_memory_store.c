/* tests/unit/test_memory_store.c — the memory: store and its switches. */
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "kind_cases.h"
#include "store/memory/memory.h"
#include "store/memory/space.h"

static char space[32] = "t0";

static snib_err open_as(struct peer *p, const char *path, const char *key,
                        const char *value, struct snib_error *e)
{
    struct snib__url url = {.path = (char *)path};
    struct snib__store_config config = {
        .url = &url,
        .out = &p->out,
        .request = snib__ms(2000),
        .client = {p->client[0], p->client[1]},
    };
    if (key) {
        url.query[0].key = (char *)key;
        url.query[0].value = (char *)value;
        url.queries = 1;
    }
    return snib__memory_ops.open(&config, &p->inst, e);
}

static void *open_virtual(struct peer *p)
{
    struct snib_error e;
    assert_int_equal(open_as(p, space, "clock", "virtual", &e), SNIB_ERR_OK);
    return p->inst;
}

static void advance(int64_t ms)
{
    for (int i = 0; i < PEERS; i++) {
        if (kit.peer[i].inst) {
            assert_int_equal(snib__memory_advance(kit.peer[i].inst, ms, NULL),
                             SNIB_ERR_OK);
            return;
        }
    }
}

static snib_instant virtual_now(int peer)
{
    snib_instant now;
    assert_true(snib__memory_clock(kit.peer[peer].inst, &now));
    return now;
}

/* A thread of the parent was in the middle of something, and is not there. */
static void a_child_has_spaces_of_its_own(void **state)
{
    (void)state;
    struct peer p = {.client = {1, 2}}, q = {.client = {3, 4}};
    struct snib_error e;
    int status;
    assert_int_equal(open_as(&p, "fork", NULL, NULL, &e), SNIB_ERR_OK);
    struct snib__space *space_of_p = ((struct snib__mem_client *)p.inst)->space;
    pthread_mutex_lock(&space_of_p->mutex);
    pid_t child = fork();
    if (child == 0) {
        alarm(10); /* it hung */
        snib_err err = open_as(&q, "fork", NULL, NULL, &e);
        bool own =
            !err && ((struct snib__mem_client *)q.inst)->space != space_of_p;
        snib__memory_ops.free(p.inst);
        if (!err) {
            snib__memory_ops.free(q.inst);
        }
        _exit(err ? 1 : own ? 0 : 2);
    }
    pthread_mutex_unlock(&space_of_p->mutex);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(open_as(&q, "fork", NULL, NULL, &e), SNIB_ERR_OK);
    assert_ptr_equal(((struct snib__mem_client *)q.inst)->space, space_of_p);
    snib__memory_ops.free(q.inst);
    snib__memory_ops.free(p.inst);
}

static void switches_need_the_right_url(void **state)
{
    (void)state;
    struct peer p = {.client = {1, 2}}, q = {.client = {3, 4}};
    struct snib_error e;
    snib_instant now;
    assert_int_equal(open_as(&p, "x", "clok", "virtual", &e), SNIB_ERR_USAGE);
    assert_int_equal(open_as(&p, "x", "clock", "fast", &e), SNIB_ERR_USAGE);
    assert_int_equal(open_as(&p, "x", "clock", "real", &e), SNIB_ERR_OK);
    assert_false(snib__memory_clock(p.inst, &now));
    assert_int_equal(snib__memory_advance(p.inst, 1, &e), SNIB_ERR_USAGE);
    assert_int_equal(open_as(&q, "x", "clock", "virtual", &e), SNIB_ERR_CONFIG);
    assert_null(q.inst);
    snib__memory_ops.free(p.inst);
    snib__memory_ops.free(NULL);
}

static void a_url_with_a_host_is_refused(void **state)
{
    (void)state;
    struct peer p = {.client = {1, 2}};
    struct snib__url url = {.path = (char[]){"/x"}, .host = (char[]){"h"}};
    struct snib__store_config config = {.url = &url, .out = &p.out};
    struct snib_error e;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(snib__memory_ops.open(&config, &p.inst, &e),
                         SNIB_ERR_USAGE);
        assert_string_equal(e.text, "memory: has no host; write memory:NAME");
        url.host = NULL;
        url.user = i == 0 ? (char[]){"u"} : NULL;
        url.nodes = i == 1 ? 2 : 0;
    }
}

static void virtual_clock_stands_still_until_advanced(void **state)
{
    (void)state;
    snib_instant a, b;
    open_peers(2);
    assert_true(snib__memory_clock(kit.peer[0].inst, &a));
    assert_int_equal(snib__memory_advance(kit.peer[1].inst, 250, NULL),
                     SNIB_ERR_OK);
    assert_true(snib__memory_clock(kit.peer[0].inst, &b));
    assert_int_equal(b.ns - a.ns, 250000000);
    assert_int_equal(snib__memory_advance(kit.peer[1].inst, -1, NULL),
                     SNIB_ERR_USAGE);
}

static void advance_rings_every_client_of_the_space(void **state)
{
    (void)state;
    open_peers(3);
    advance(1);
    for (int i = 0; i < 3; i++) {
        eventfd_t v = 0;
        uint64_t ids[4][2];
        assert_int_equal(
            eventfd_read(kit.ops->notifier_fd(kit.peer[i].inst), &v), 0);
        assert_int_equal(kit.ops->notified(kit.peer[i].inst, ids, 4), 0);
    }
}

static void dropped_reply_is_unknown_but_done(void **state)
{
    (void)state;
    struct snib__name n = name_of("drop");
    open_peers(1);
    snib__memory_drop_replies(kit.peer[0].inst, 1);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(a.said.answer, SNIB__UNKNOWN);
    assert_int_equal(look(0, &n, SNIB__ROW_HOLDER, NULL), 1);
    a.resent = true;
    a.token = 0;
    assert_int_equal(run(0, &a), SNIB__DONE);
}

static void expire_and_steal_take_the_lock_away(void **state)
{
    (void)state;
    struct snib__name n = name_of("take");
    open_peers(2);
    struct snib__request a = acquire(0, &n), b = acquire(1, &n);
    assert_int_equal(snib__memory_expire(kit.peer[0].inst, &n, NULL), 0);
    assert_true(is_notified(1, &b));
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
    assert_int_equal(end(0, &a), SNIB__NO);
    assert_int_equal(snib__memory_steal(kit.peer[0].inst, &n, 500, NULL), 0);
    struct snib__request v = turn_into(&b, SNIB__RENEW);
    assert_int_equal(run(1, &v), SNIB__NO);
    assert_false(v.said.revoked);
    struct snib__request c = acquire(0, &n);
    assert_int_equal(c.said.answer, SNIB__QUEUED);
    assert_int_equal(snib__to_ms(c.said.left), 500);
    advance(501);
    assert_int_equal(poll_again(0, &c), SNIB__DONE);
}

static void notified_hands_out_ids_in_portions(void **state)
{
    (void)state;
    struct snib__name n[5];
    struct snib__request held[5], waits[5];
    const char *text[] = {"p0", "p1", "p2", "p3", "p4"};
    uint64_t ids[2][2];
    uint32_t sum = 0, got;
    open_peers(2);
    for (int i = 0; i < 5; i++) {
        n[i] = name_of(text[i]);
        held[i] = acquire(0, &n[i]);
        waits[i] = acquire(1, &n[i]);
        assert_int_equal(waits[i].said.answer, SNIB__QUEUED);
    }
    for (int i = 0; i < 5; i++) {
        end(0, &held[i]);
    }
    while ((got = kit.ops->notified(kit.peer[1].inst, ids, 2))) {
        sum += got;
    }
    assert_int_equal(sum, 5);
}

static void tokens_rise_over_the_end_of_a_space(void **state)
{
    (void)state;
    struct snib__name n = name_of("again");
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    close_peer(0);
    open_peers(1);
    struct snib__request b = acquire(0, &n);
    assert_true(b.token > a.token);
}

static void forgotten_names_leave_their_token(void **state)
{
    (void)state;
    int64_t first = 0, last = 0;
    open_peers(1);
    for (int i = 0; i < 3000; i++) {
        char text[16];
        snprintf(text, sizeof text, "idle-%d", i);
        struct snib__name n = name_of(text);
        struct snib__request r = acquire(0, &n);
        assert_int_equal(r.said.answer, SNIB__DONE);
        first = i ? first : r.token;
        last = r.token;
        end(0, &r);
    }
    assert_true(last >= first);
    struct snib__name n = name_of("idle-0");
    struct snib__request r = acquire(0, &n);
    assert_true(r.token > first);
}

static void no_memory_is_not_applied_and_changes_nothing(void **state)
{
    (void)state;
    struct snib__name n = name_of("oom");
    open_peers(2);
    struct snib__request a = acquire(0, &n);
    for (int64_t nth = 1; nth <= 3; nth++) {
        struct snib__request b = request(SNIB__ACQUIRE, &n);
        snib__mem_fail_at(nth, true);
        snib__answer got = run(1, &b);
        snib__mem_fail_at(0, false);
        if (got == SNIB__QUEUED) {
            struct snib__request x = turn_into(&b, SNIB__CANCEL);
            x.token = 0;
            run(1, &x);
            continue;
        }
        assert_int_equal(got, SNIB__NOT_APPLIED);
        assert_int_equal(b.said.err, SNIB_ERR_NOMEM);
        assert_int_equal(look(0, &n, SNIB__ROW_WAITER, NULL), 0);
    }
    assert_int_equal(end(0, &a), SNIB__DONE);
}

/* Threads with a client each on one real-clock space. */
static int inside;

static void *hammer(void *arg)
{
    struct peer *p = arg;
    struct snib__name n = name_of("threads");
    for (int i = 0; i < 2000; i++) {
        struct snib__request r = {.verb = SNIB__ACQUIRE,
                                  .name = &n,
                                  .id = {(uint64_t)i + 1, p->client[1]},
                                  .lease = snib__ms(10000),
                                  .limit = SNIB__NEVER,
                                  .exec.patience = SNIB__NEVER};
        struct snib__list chain;
        do {
            snib__list_init(&chain);
            snib__link_init(&r.link);
            snib__list_push(&chain, &r.link);
            snib__memory_ops.exec(p->inst, (snib_instant){0}, &chain);
        } while (r.said.answer != SNIB__DONE);
        if (__atomic_fetch_add(&inside, 1, __ATOMIC_SEQ_CST)) {
            return p;
        }
        __atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
        r.verb = SNIB__RELEASE;
        snib__list_init(&chain);
        snib__link_init(&r.link);
        snib__list_push(&chain, &r.link);
        snib__memory_ops.exec(p->inst, (snib_instant){0}, &chain);
    }
    return NULL;
}

static void threads_exclude_each_other(void **state)
{
    (void)state;
    struct peer p[4] = {0};
    pthread_t t[4];
    for (int i = 0; i < 4; i++) {
        p[i].client[0] = 9;
        p[i].client[1] = (uint64_t)i + 1;
        assert_int_equal(open_as(&p[i], "threads", NULL, NULL, NULL), 0);
        assert_int_equal(pthread_create(&t[i], NULL, hammer, &p[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        assert_null(bad);
        snib__memory_ops.free(p[i].inst);
    }
}

int main(void)
{
    kit.ops = &snib__memory_ops;
    kit.open = open_virtual;
    kit.advance = advance;
    kit.now = virtual_now;
    const struct CMUnitTest cases[] = {
        STORE_CASES,
        KIND_CASES,
        CASE(a_child_has_spaces_of_its_own),
        CASE(a_url_with_a_host_is_refused),
        CASE(switches_need_the_right_url),
        CASE(virtual_clock_stands_still_until_advanced),
        CASE(advance_rings_every_client_of_the_space),
        CASE(dropped_reply_is_unknown_but_done),
        CASE(expire_and_steal_take_the_lock_away),
        CASE(notified_hands_out_ids_in_portions),
        CASE(tokens_rise_over_the_end_of_a_space),
        CASE(forgotten_names_leave_their_token),
        CASE(no_memory_is_not_applied_and_changes_nothing),
        CASE(threads_exclude_each_other),
    };
    return RUN(cases);
}
