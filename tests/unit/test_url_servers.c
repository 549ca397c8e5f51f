/* tests/unit/test_url_servers.c — core/url_servers.c: the servers and the login of a
 * URL, for a store that lists them. */
#include "core/url_servers.h"

#include "unit.h"

static struct snib__out out;
static struct snib_error e;

static int set_up(void **state)
{
    (void)state;
    memset(&e, 0, sizeof e);
    memset(&out, 0, sizeof out);
    snib__conns_init(&out, 100);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    snib__conns_free(&out);
    return 0;
}

static snib_err servers(const char *text)
{
    struct snib__url *url;
    assert_int_equal(snib__url_parse(text, &url, NULL), SNIB_ERR_OK);
    snib_err err = snib__url_servers(url, 2181, &out, &e);
    snib__url_free(url);
    return err;
}

static void each_host_of_the_list_is_a_connection(void **state)
{
    (void)state;
    assert_int_equal(servers("zookeeper://a,b:5,[::1]"), SNIB_ERR_OK);
    assert_int_equal(out.conns, 3);
    assert_string_equal(out.conn[0]->address, "a:2181");
    assert_string_equal(out.conn[1]->address, "b:5");
    assert_string_equal(out.conn[2]->address, "[::1]:2181");
    assert_int_equal(out.conn[0]->transport, SNIB__PLAIN);
}

static void so_is_a_single_one_which_may_be_encrypted(void **state)
{
    (void)state;
    assert_int_equal(servers("etcds://c:7"), SNIB_ERR_OK);
    assert_int_equal(out.conns, 1);
    assert_string_equal(out.conn[0]->address, "c:7");
    assert_int_equal(out.conn[0]->transport, SNIB__TLS);
}

static void one_that_stands_twice_is_refused(void **state)
{
    (void)state;
    assert_int_equal(servers("zookeeper://u:secret@a,A:2181"), SNIB_ERR_USAGE);
    assert_string_equal(e.text,
                        "zookeeper://u:***@a,A:2181: A:2181 stands twice");
    assert_int_equal(servers("zookeeper://b,b,c"), SNIB_ERR_USAGE);
}

static void no_memory_for_a_connection_is_told(void **state)
{
    (void)state;
    for (int i = 1; i < 3; i++) {
        struct snib__url *url;
        assert_int_equal(snib__url_parse("etcd://a", &url, NULL), SNIB_ERR_OK);
        snib__mem_fail_at(i, true);
        assert_int_equal(snib__url_servers(url, 1, &out, &e), SNIB_ERR_NOMEM);
        snib__mem_fail_at(0, false);
        assert_int_equal(e.code, SNIB_ERR_NOMEM);
        snib__url_free(url);
    }
}

/* -- the login ------------------------------------------------------------- */

static char *user, *password;

static snib_err login(const char *text, int fail_at)
{
    static char other[] = "not its own";
    struct snib__url *url;
    assert_int_equal(snib__url_parse(text, &url, NULL), SNIB_ERR_OK);
    user = password = other;
    snib__mem_fail_at(fail_at, false);
    snib_err err =
        snib__url_login(url, "expected a login", &user, &password, &e);
    snib__mem_fail_at(0, false);
    snib__url_free(url);
    return err;
}

static void forget(void)
{
    snib__wipe(&user);
    snib__wipe(&password);
}

static void user_and_password_are_copied(void **state)
{
    (void)state;
    assert_int_equal(login("etcd://u:p@a", 0), SNIB_ERR_OK);
    assert_string_equal(user, "u");
    assert_string_equal(password, "p");
    forget();
    assert_int_equal(login("etcd://a", 0), SNIB_ERR_OK);
    assert_true(!user && !password);
}

static void one_without_the_other_is_refused_and_not_shown(void **state)
{
    (void)state;
    assert_int_equal(login("etcd://u@a", 0), SNIB_ERR_USAGE);
    assert_string_equal(e.text, "etcd://***@a: expected a login");
    assert_int_equal(login("etcd://:p@a", 0), SNIB_ERR_USAGE);
    assert_string_equal(e.text, "etcd://:***@a: expected a login");
    assert_true(!user && !password);
}

static void no_memory_for_a_login_is_told(void **state)
{
    (void)state;
    for (int i = 1; i < 3; i++) {
        assert_int_equal(login("etcd://u:p@a", i), SNIB_ERR_NOMEM);
        assert_true(!user || !password);
        forget();
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest url_servers[] = {
        CASE(each_host_of_the_list_is_a_connection),
        CASE(so_is_a_single_one_which_may_be_encrypted),
        CASE(one_that_stands_twice_is_refused),
        CASE(no_memory_for_a_connection_is_told),
        CASE(user_and_password_are_copied),
        CASE(one_without_the_other_is_refused_and_not_shown),
        CASE(no_memory_for_a_login_is_told),
    };
    return RUN(url_servers);
}
