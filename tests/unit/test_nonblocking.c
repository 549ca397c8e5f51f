/* tests/unit/test_nonblocking.c — core/nonblocking.c, and what core/url_open.c takes
 * from a URL. */
#include "core/nonblocking.h"

#include "base/error.h"
#include "core/url_open.h"
#include "unit.h"

static struct snib__out out;
static struct snib__nonblocking n;
static struct snib__name name = {.raw = "n", .safe = "n", .raw_size = 1};

static int setup(void **state)
{
    const struct snib__store_config config = {.out = &out,
                                              .seed = {{1, 2, 3, 4}}};
    (void)state;
    memset(&out, 0, sizeof out);
    snib__list_init(&out.answered);
    snib__list_init(&out.exec);
    snib__conns_init(&out, 0);
    snib__nonblocking_init(&n, &out);
    return snib__nonblocking_open(&n, &config, NULL);
}

static int teardown(void **state)
{
    (void)state;
    snib__nonblocking_free(&n);
    snib__conns_free(&out);
    return 0;
}

static snib_instant at(int64_t ms)
{
    return (snib_instant){ms * 1000000};
}

static struct snib__request *listed(void)
{
    return snib__blocking_peek(n.table, SNIB__SESSION_CALLERS, NULL);
}

/* An acquire of this id is started, taken, and answered that it waits. */
static void queue(struct snib__request *r, uint64_t id)
{
    struct snib__list chain;
    *r = (struct snib__request){.verb = SNIB__ACQUIRE,
                                .name = &name,
                                .id = {id, 5},
                                .limit = SNIB__NEVER,
                                .store.timer = {.index = 99}};
    snib__list_init(&chain);
    snib__list_push(&chain, &r->link);
    snib__blocking_store_ops.start(n.table, at(1), &chain);
    assert_ptr_equal(listed(), r);
    snib__blocking_take_one(n.table, r);
    r->said.answer = SNIB__QUEUED;
    snib__list_push(&n.executed, &r->link);
    snib__blocking_done(n.table, at(1), &n.executed);
    assert_null(listed());
    assert_ptr_equal(snib__list_pop(&n.out.answered), &r->link);
}

static uint32_t take_all(void)
{
    struct snib__request *r;
    uint32_t count = 0;
    while ((r = listed())) {
        snib__blocking_take_one(n.table, r);
        count++;
    }
    return count;
}

static void who_is_told_is_listed_and_nobody_else(void **state)
{
    struct snib__request a, b;
    (void)state;
    queue(&a, 100);
    queue(&b, 101);
    snib__nonblocking_settle(&n, at(2));
    assert_null(listed());
    snib__nonblocking_tell(&n, b.id);
    assert_true(snib__nonblocking_has_told(&n));
    snib__nonblocking_settle(&n, at(2));
    assert_false(snib__nonblocking_has_told(&n));
    assert_ptr_equal(listed(), &b);
    assert_int_equal(take_all(), 1);
}

static void all_that_are_told_are_listed(void **state)
{
    struct snib__request r[SNIB__TOLD_MAX];
    (void)state;
    for (uint64_t i = 0; i < SNIB__TOLD_MAX; i++) {
        queue(&r[i], 100 + i);
    }
    for (uint64_t i = 0; i < SNIB__TOLD_MAX; i++) {
        snib__nonblocking_tell(&n, r[i].id);
    }
    assert_false(n.told_all);
    snib__nonblocking_settle(&n, at(2));
    assert_int_equal(take_all(), SNIB__TOLD_MAX);
}

static void with_more_than_it_keeps_any_may_be_meant(void **state)
{
    const uint64_t strange[2] = {7, 7};
    struct snib__request r[SNIB__TOLD_MAX + 1];
    (void)state;
    for (uint64_t i = 0; i < SNIB__TOLD_MAX + 1; i++) {
        queue(&r[i], 100 + i);
    }
    for (int i = 0; i < SNIB__TOLD_MAX + 1; i++) {
        snib__nonblocking_tell(&n, strange);
    }
    assert_true(n.told_all);
    snib__nonblocking_settle(&n, at(2));
    assert_false(snib__nonblocking_has_told(&n));
    assert_int_equal(take_all(), SNIB__TOLD_MAX + 1);
}

/* -- the URL ------------------------------------------------------------------ */

static snib_err servers(const char *text, struct snib_error *e)
{
    struct snib__url *url;
    assert_int_equal(snib__url_parse(text, &url, NULL), SNIB_ERR_OK);
    snib_err err = snib__url_servers(url, 2181, &out, e);
    snib__url_free(url);
    return err;
}

static void each_host_is_a_connection(void **state)
{
    (void)state;
    assert_int_equal(servers("zookeeper://a,b:5,[::1]", NULL), SNIB_ERR_OK);
    assert_int_equal(out.conns, 3);
    assert_string_equal(out.conn[0]->address, "a:2181");
    assert_string_equal(out.conn[1]->address, "b:5");
    assert_string_equal(out.conn[2]->address, "[::1]:2181");
    assert_int_equal(out.conn[0]->transport, SNIB__PLAIN);
    assert_int_equal(servers("etcds://c", NULL), SNIB_ERR_OK);
    assert_int_equal(out.conn[3]->transport, SNIB__TLS);
}

static void a_host_that_stands_twice_is_refused(void **state)
{
    struct snib_error e;
    (void)state;
    assert_int_equal(servers("zookeeper://u:secret@a,A:2181", &e),
                     SNIB_ERR_USAGE);
    assert_string_equal(e.text, "zookeeper://u:***@a,A:2181: A:2181 stands "
                                "twice");
}

static snib_err login(const char *text, bool asks, char **user, char **password,
                      struct snib_error *e)
{
    struct snib__url *url;
    assert_int_equal(snib__url_parse(text, &url, NULL), SNIB_ERR_OK);
    snib_err err =
        snib__url_login(url, asks, "expected both", user, password, e);
    snib__url_free(url);
    return err;
}

static void a_login_is_both_or_none(void **state)
{
    struct snib_error e;
    char *user, *password;
    (void)state;
    assert_int_equal(login("etcd://u:p@a", false, &user, &password, &e),
                     SNIB_ERR_OK);
    assert_string_equal(user, "u");
    assert_string_equal(password, "p");
    snib__login_wipe(&user);
    snib__login_wipe(&password);
    assert_true(!user && !password);
    assert_int_equal(login("etcd://a", false, &user, &password, &e),
                     SNIB_ERR_OK);
    assert_true(!user && !password);
    assert_int_equal(login("etcd://u@a", false, &user, &password, &e),
                     SNIB_ERR_USAGE);
    assert_string_equal(e.text, "etcd://u@a: expected both");
    assert_int_equal(login("etcd://u@a", true, &user, &password, &e),
                     SNIB_ERR_OK);
    assert_true(!user && !password);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(who_is_told_is_listed_and_nobody_else),
        CASE(all_that_are_told_are_listed),
        CASE(with_more_than_it_keeps_any_may_be_meant),
        CASE(each_host_is_a_connection),
        CASE(a_host_that_stands_twice_is_refused),
        CASE(a_login_is_both_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
