/* tests/unit/test_multi.c — several locks as one: which stores are the same,
 * and what is said when the store's answers do not come.
 * labels: thread
 *
 * What it does on every store is in tests/conformance/multi.c. */
#include "unit.h"

#include "api/api.h"
#include "base/mem.h"
#include "snib.h"
#include "snib/multi.h"
#include "snib/test.h"

/* As many replies as are asked for, one right after the other, in several times
 * request_ms; until all of them are lost the client's thread is busy. */
enum { REQUEST_MS = 50, LOST = 600000 };

static struct snib_error e;

/* -- identity ---------------------------------------------------------------- */

static void one_store_has_one_identity(void **state)
{
    (void)state;
    static const struct {
        const char *url, *identity;
    } v[] = {
        {"redis://h", "redis://h:6379/0"},
        {"redis://Host.Example/", "redis://host.example:6379/0"},
        {"redis://me:secret@h:6379/0", "redis://h:6379/0"},
        {"redis://h:7000/12", "redis://h:7000/12"},
        {"redis://h/?db=3", "redis://h:6379/3"},
        {"redis://h?db=00", "redis://h:6379/0"},
        {"redis://[::1]:7000", "redis://[::1]:7000/0"},
        {"redis+unix:///run/r.sock?db=2", "redis+unix:/run/r.sock?db=2"},
        {"redis+unix:///run/r.sock", "redis+unix:/run/r.sock?db=0"},
        {"redis://h?socket=/run/r.sock", "redis+unix:/run/r.sock?db=0"},
        {"file:/no/such/dir/x.db", "file:/no/such/dir/x.db"},
        {"file:/usr/../usr/./bin", "file:/usr/bin"},
        {"redis://h2,H1:7/3", "redis://h1:7,h2:6379/3"},
        {"rediss://h2,h1?db=4", "rediss://h1:6379,h2:6379/4"},
        {"redis+sentinel://u:p@s2,S1/svc",
         "redis+sentinel://s1:26379,s2:26379/svc/0"},
        {"redis+sentinel://s/svc/07?sentinel_password=x",
         "redis+sentinel://s:26379/svc/7"},
        {"redlock://h2,H1", "redlock://h1:6379,h2:6379/0"},
        {"redlock://h1:6379,h2/0?node_ms=9", "redlock://h1:6379,h2:6379/0"},
        {"redlock://me:secret@h1:7001,h1:7000,[::1]/03",
         "redlock://[::1]:6379,h1:7000,h1:7001/3"},
        {"etcd://h2,H1?prefix=a/", "etcd://h1:2379,h2:2379?prefix=a"},
        {"etcd://h?dialect=concurrency", "etcd://h:2379?dialect=concurrency"},
        {"etcds://h?dialect=concurrency&prefix=/a/",
         "etcds://h:2379?prefix=/a&dialect=concurrency"},
        {"zookeeper://h/l/?session_ms=4000", "zookeeper://h:2181/l"},
        {"zookeeper://h/l?dialect=curator-rw", "zookeeper://h:2181/l"},
        {"zookeeper://h/l?dialect=curator-mutex",
         "zookeeper://h:2181/l?dialect=curator-mutex"},
        {"postgres://u:p@H/d", "postgres://h:5432/d?schema=snib"},
        {"postgres://u@h:6/d?dialect=shedlock",
         "postgres://h:6/d?dialect=shedlock&table=shedlock&schema=public"},
        {"postgres://h/d?dialect=shedlock&schema=s&table=t",
         "postgres://h:5432/d?dialect=shedlock&table=t&schema=s"},
        {"postgres://u@h/d?dialect=int_lock&ttl=9s",
         "postgres://h:5432/d?dialect=int_lock&table=INT_LOCK&schema=public&"
         "region=DEFAULT"},
        {"postgres://u@h/d?dialect=advisory",
         "postgres://h:5432/d?dialect=advisory"},
        {"mysql://u@h/d", "mysql://h:3306/d?prefix=snib"},
        {"mysql://u@h/d?dialect=getlock", "mysql://h:3306/?dialect=getlock"},
        {"mysql://u@h/d?dialect=int_lock&region=r&table=T",
         "mysql://h:3306/d?dialect=int_lock&table=T&region=r"},
        {"mysql://u@h/d?dialect=shedlock&tls=no",
         "mysql://h:3306/d?dialect=shedlock&table=shedlock"},
        {"memory:a", "memory:a"},
        {"memory:a?clock=virtual", "memory:a"},
    };
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) {
        struct snib__url *url;
        assert_int_equal(snib__url_parse(v[i].url, &url, &e), SNIB_ERR_OK);
        const struct snib__registered *store = snib__store_find(url->scheme);
        if (!store) { /* it is not in this build */
            snib__url_free(url);
            continue;
        }
        char *identity = snib__store_identity(store, url);
        assert_non_null(identity);
        assert_string_equal(identity, v[i].identity);
        snib__free(identity);
        snib__url_free(url);
    }
}

#if !defined(SNIB_WITH_REDIS) || SNIB_WITH_REDIS

/* Nobody connects: the handle is made without asking any server. */
static void open_lock(const char *url, struct snib_client **ret_client,
                      struct snib_lock **ret)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    o.url = url;
    assert_int_equal(snib_client_open(&o, ret_client, &e), SNIB_ERR_OK);
    assert_int_equal(snib_lock_new(*ret_client, "n", NULL, ret, &e),
                     SNIB_ERR_OK);
}

static void two_quorums_are_two_stores(void **state)
{
    (void)state;
    static const char *const url[] = {
        "redlock://127.0.0.1:1,127.0.0.2:1",
        "redlock://127.0.0.1:1,127.0.0.3:1",
        "redlock://127.0.0.2:1,127.0.0.1:1/0", /* the first one again */
    };
    struct snib_client *client[3];
    struct snib_lock *lock[3];
    struct snib_multi *multi;
    for (int i = 0; i < 3; i++) {
        open_lock(url[i], &client[i], &lock[i]);
    }
    assert_int_equal(snib_multi_new(lock, 2, NULL, &multi, &e), SNIB_ERR_OK);
    snib_multi_free(multi);
    struct snib_lock *same[] = {lock[0], lock[2]};
    assert_int_equal(snib_multi_new(same, 2, NULL, &multi, &e), SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, "named twice"));
    for (int i = 0; i < 3; i++) {
        snib_lock_free(lock[i]);
        snib_client_free(client[i]);
    }
}

#endif

/* -- answers that do not come ------------------------------------------------- */

struct pair {
    struct snib_client *client;
    struct snib_lock *lock[2];
    struct snib_multi *multi;
};

static struct pair pair_new(const char *url)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct pair p;
    o.url = url;
    o.request_ms = REQUEST_MS;
    assert_int_equal(snib_client_open(&o, &p.client, &e), SNIB_ERR_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            snib_lock_new(p.client, i ? "a" : "b", NULL, &p.lock[i], &e),
            SNIB_ERR_OK);
    }
    assert_int_equal(snib_multi_new(p.lock, 2, NULL, &p.multi, &e),
                     SNIB_ERR_OK);
    return p;
}

static void pair_free(struct pair *p)
{
    snib_multi_free(p->multi);
    snib_lock_free(p->lock[0]);
    snib_lock_free(p->lock[1]);
    snib_client_free(p->client);
}

static snib_err try_all(struct pair *p, struct snib_grant g[2])
{
    return snib_multi_try(p->multi, NULL, g, &e);
}

static void a_lost_answer_is_asked_for_again(void **state)
{
    (void)state;
    struct pair p = pair_new("memory:multi-again");
    struct snib_grant g[2];
    assert_int_equal(snib_test_drop_replies(p.client, 2), SNIB_ERR_OK);
    assert_int_equal(try_all(&p, g), SNIB_ERR_OK);
    assert_int_equal(snib_test_drop_replies(p.client, 2), SNIB_ERR_OK);
    assert_int_equal(snib_multi_release(p.multi, g, &e), SNIB_ERR_OK);
    pair_free(&p);
}

static void without_answers_it_is_unknown_and_ends_by_itself(void **state)
{
    (void)state;
    struct pair p = pair_new("memory:multi-unknown");
    struct pair other = pair_new("memory:multi-unknown");
    struct snib_grant g[2];
    assert_int_equal(snib_test_drop_replies(p.client, LOST), SNIB_ERR_OK);
    assert_int_equal(try_all(&p, g), SNIB_ERR_UNKNOWN);
    assert_true(!g[0].ticket && !g[1].ticket);
    assert_non_null(strstr(e.text, "'a'"));
    assert_int_equal(snib_test_drop_replies(p.client, 0), SNIB_ERR_OK);
    /* Cancelled in the background. */
    assert_int_equal(snib_multi_try_for(other.multi, 20000, NULL, g, &e),
                     SNIB_ERR_OK);
    assert_int_equal(snib_multi_release(other.multi, g, &e), SNIB_ERR_OK);
    pair_free(&other);
    pair_free(&p);
}

static void a_release_without_an_answer_is_unknown(void **state)
{
    (void)state;
    struct pair p = pair_new("memory:multi-release");
    struct snib_grant g[2];
    assert_int_equal(try_all(&p, g), SNIB_ERR_OK);
    assert_int_equal(snib_test_drop_replies(p.client, LOST), SNIB_ERR_OK);
    assert_int_equal(snib_multi_release(p.multi, g, &e), SNIB_ERR_UNKNOWN);
    assert_non_null(strstr(e.text, "'b'")); /* the last in order, said first */
    assert_int_equal(snib_test_drop_replies(p.client, 0), SNIB_ERR_OK);
    pair_free(&p);
}

/* The first one's local lock is busy with a release that is not answered, so the
 * second is not asked for; then the patience ends. */
static void one_that_was_not_asked_for_is_not_given_up(void **state)
{
    (void)state;
    struct pair p = pair_new("memory:multi-patience");
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib__batch_item member[2];
    struct snib_grant g;
    assert_int_equal(snib_acquire(p.lock[0], NULL, &g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_test_drop_replies(p.client, LOST), SNIB_ERR_OK);
    assert_int_equal(snib_release(p.lock[0], g, &e), SNIB_ERR_UNKNOWN);
    memset(member, 0xa5, sizeof member); /* as a stack is */
    for (int i = 0; i < 2; i++) {
        member[i].lock = p.lock[i];
    }
    snib__batch_try(p.client, member, 2, &o, false, snib__ms(20));
    assert_int_not_equal(member[0].error.code, SNIB_ERR_OK);
    assert_int_not_equal(member[0].error.code, SNIB_ERR_CANCELLED);
    assert_int_equal(member[1].error.code, SNIB_ERR_CANCELLED);
    assert_int_equal(member[1].grant.ticket, 0);
    assert_int_equal(snib_test_drop_replies(p.client, 0), SNIB_ERR_OK);
    pair_free(&p);
}

static void a_loss_outweighs_an_unknown(void **state)
{
    (void)state;
    struct pair p = pair_new("memory:multi-worst");
    struct snib_grant g[2];
    struct snib_multi_status s;
    assert_int_equal(try_all(&p, g), SNIB_ERR_OK);
    assert_int_equal(snib_test_steal(p.client, "b", 60000), SNIB_ERR_OK);
    assert_int_equal(snib_renew(p.lock[0], g[0], 0, &e), SNIB_ERR_LOST);
    snib_multi_status(p.multi, g, &s, sizeof s);
    assert_int_equal(s.state, SNIB_STATE_LOST);
    assert_int_equal(s.member, 0);
    assert_int_equal(snib_test_drop_replies(p.client, LOST), SNIB_ERR_OK);
    assert_int_equal(snib_multi_release(p.multi, g, &e), SNIB_ERR_LOST);
    assert_non_null(strstr(e.text, "'b'"));
    assert_int_equal(snib_test_drop_replies(p.client, 0), SNIB_ERR_OK);
    pair_free(&p);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(one_store_has_one_identity),
#if !defined(SNIB_WITH_REDIS) || SNIB_WITH_REDIS
        cmocka_unit_test(two_quorums_are_two_stores),
#endif
        cmocka_unit_test(a_lost_answer_is_asked_for_again),
        cmocka_unit_test(without_answers_it_is_unknown_and_ends_by_itself),
        cmocka_unit_test(a_release_without_an_answer_is_unknown),
        cmocka_unit_test(one_that_was_not_asked_for_is_not_given_up),
        cmocka_unit_test(a_loss_outweighs_an_unknown),
    };
    return RUN(cases);
}
