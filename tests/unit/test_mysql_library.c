/* tests/unit/test_mysql_library.c — store/mysql over a libmariadb that fails: who is
 * refused when connecting, and how a URL is opened.
 * wraps: snib__sql_no_such_host */
#include "mysql_client.h"

#include <fcntl.h>

static bool nobody_knows_the_name;

bool __wrap_snib__sql_no_such_host(const char *host);
bool __wrap_snib__sql_no_such_host(const char *host)
{
    assert_string_equal(host, "localhost");
    return nobody_knows_the_name;
}

/* -- who answers ----------------------------------------------------------- */

static void a_sound_server_is_taken(void **state)
{
    (void)state;
    assert_int_equal(reach(), SNIB__SQL_OK);
    assert_true(w.k->is.ready && w.k->ends_idle);
    assert_non_null(strstr(lib.asked, "idle_transaction_timeout=1"));
}

static void a_server_that_ends_no_idle_transaction_gets_none(void **state)
{
    (void)state;
    lib.info = "8.0.36";
    lib.version = 80036;
    assert_int_equal(reach(), SNIB__SQL_OK);
    assert_false(w.k->ends_idle);
    assert_null(strstr(lib.asked, "idle_transaction_timeout"));
}

static void an_old_server_is_refused(void **state)
{
    static const struct {
        const char *info;
        unsigned long version;
    } row[] = {{"10.2.44-MariaDB", 100244}, {"5.6.51", 50651}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        lib.info = row[i].info;
        lib.version = row[i].version;
        assert_int_equal(reach(), SNIB__SQL_REFUSED);
        assert_int_equal(w.error.code, SNIB_ERR_CONFIG);
        assert_non_null(strstr(w.error.text, "older than MariaDB 10.3"));
    }
    assert_int_equal(lib.closed, 2);
}

static void a_proxy_is_refused(void **state)
{
    (void)state;
    lib.answer[WHO].number[0] = 78;
    assert_int_equal(reach(), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_CONFIG);
    assert_non_null(strstr(w.error.text, "ProxySQL"));
}

static void a_read_only_server_is_refused_for_now(void **state)
{
    (void)state;
    lib.answer[WHO].number[1] = 1;
    assert_int_equal(reach(), SNIB__SQL_DOWN);
    assert_int_equal(w.error.code, SNIB_ERR_STORE);
    lib.answer[WHO].number[1] = 0;
    assert_int_equal(reach(), SNIB__SQL_OK);
}

static void tables_of_a_later_layout_are_refused(void **state)
{
    (void)state;
    lib.answer[LAYOUT].number[0] = 2;
    assert_int_equal(reach(), SNIB__SQL_REFUSED);
    assert_non_null(strstr(w.error.text, "layout 2, this snib knows 1"));
}

static void who_may_not_make_tables_is_told_what_to_do(void **state)
{
    (void)state;
    lib.answer[LAYOUT] = (struct answer){"`key`='schema'", 0, {0}, 1146};
    lib.answer[MORE] = (struct answer){"CREATE TABLE", 0, {0}, 1142};
    assert_int_equal(reach(), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_CONFIG);
    assert_non_null(strstr(w.error.text, "snib doctor --schema"));
}

static void a_refusal_is_understood_by_its_number(void **state)
{
    static const struct {
        int code;
        snib_err err;
        const char *text, *words;
    } row[] = {
        {1045, SNIB_ERR_DENIED, "Zugriff verweigert", "this password"},
        {1698, SNIB_ERR_DENIED, "", "this password"},
        {1044, SNIB_ERR_DENIED, "", "this database"},
        {1049, SNIB_ERR_CONFIG, "", "CREATE DATABASE"},
        {1040, SNIB_ERR_UNREACHABLE, "", "no connection left; end some"},
        {1203, SNIB_ERR_UNREACHABLE, "", "max_user_connections"},
        {1226, SNIB_ERR_UNREACHABLE, "", "left for this user; end some"},
        {1053, SNIB_ERR_UNREACHABLE, "", "stopping"},
        {CR_SSL_CONNECTION_ERROR, SNIB_ERR_CONFIG,
         "SSL is required, but the server does not support it", "?tls=no"},
        {CR_SSL_CONNECTION_ERROR, SNIB_ERR_CONFIG, "certificate verify failed",
         "?ca=FILE"},
        {CR_SSL_CONNECTION_ERROR, SNIB_ERR_CONFIG, "whatever", "TLS with"},
        {CR_PLUGIN_NOT_ALLOWED, SNIB_ERR_DENIED, "", "through TLS only"},
        {CR_VERSION_ERROR, SNIB_ERR_CONFIG, "", "look at the port"},
        {CR_UNKNOWN_HOST, SNIB_ERR_UNREACHABLE, "unknown (-3)", "(-3)"},
        {CR_SERVER_LOST, SNIB_ERR_UNREACHABLE,
         "at 'reading initial communication packet'", "its port"},
        {CR_CONN_HOST_ERROR, SNIB_ERR_UNREACHABLE, "refused (111)",
         "refused (111)"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        lib.refusal = row[i].text;
        lib.code = row[i].code;
        assert_int_equal(reach(), row[i].err == SNIB_ERR_UNREACHABLE
                                      ? SNIB__SQL_DOWN
                                      : SNIB__SQL_REFUSED);
        assert_int_equal(w.error.code, row[i].err);
        assert_non_null(strstr(w.error.text, row[i].words));
    }
}

/* Rights at tables cannot be given before these are there. */
static void who_may_not_see_the_tables_is_told_what_makes_them(void **state)
{
    static const int codes[] = {1044, 1142};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        lib.answer[LAYOUT] =
            (struct answer){"`key`='schema'", 0, {0}, codes[i]};
        assert_int_equal(reach(), SNIB__SQL_REFUSED);
        assert_int_equal(w.error.code, SNIB_ERR_DENIED);
        assert_non_null(strstr(w.error.text, "\"snib doctor --schema\""));
        assert_non_null(strstr(w.error.text, "docs/MYSQL.md lists"));
    }
    struct snib_error e;
    client_ops.free(w.p);
    assert_int_equal(open_at("mysql://u@localhost/d?dialect=getlock"),
                     SNIB_ERR_OK);
    assert_int_equal(snib__my_fail(w.p, 1044, "", &e), SNIB_ERR_DENIED);
    assert_null(strstr(e.text, "--schema")); /* it has none */
}

static void a_right_that_lacks_is_on_the_page_of_its_dialect(void **state)
{
    static const char *const row[][2] = {
        {"mysql://u@localhost/d", "docs/MYSQL.md lists"},
        {"mysql://u@localhost/d?dialect=shedlock", "docs/SHEDLOCK.md lists"},
        {"mysql://u@localhost/d?dialect=int_lock", "docs/INT_LOCK.md lists"},
        {"mysql://u@localhost/d?dialect=getlock", "docs/GET_LOCK.md lists"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        struct snib_error e;
        client_ops.free(w.p);
        assert_int_equal(open_at(row[i][0]), SNIB_ERR_OK);
        assert_int_equal(snib__my_fail(w.p, 1142, "", &e), SNIB_ERR_DENIED);
        assert_non_null(strstr(e.text, row[i][1]));
    }
}

/* At once, unless the server was there before. */
static void a_host_that_does_not_exist_is_not_waited_for(void **state)
{
    (void)state;
    nobody_knows_the_name = true;
    lib.refusal = "refused";
    lib.code = CR_CONN_HOST_ERROR;
    assert_int_equal(reach(), SNIB__SQL_DOWN);
    lib.code = CR_UNKNOWN_HOST;
    assert_int_equal(reach(), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(w.error.text, "there is no such host"));
    lib.refusal = NULL;
    lib.code = 0;
    assert_int_equal(reach(), SNIB__SQL_OK);
    snib__my_quit(w.k);
    lib.refusal = "unknown";
    lib.code = CR_UNKNOWN_HOST;
    assert_int_equal(reach(), SNIB__SQL_DOWN);
    nobody_knows_the_name = false;
}

static void a_text_that_repeats_the_password_does_not_get_out(void **state)
{
    (void)state;
    lib.refusal = "cannot parse pw-secret in \x1b[1m\"pw-secret\"\nmore";
    lib.code = CR_CONN_HOST_ERROR;
    assert_int_equal(reach(), SNIB__SQL_DOWN);
    assert_null(strstr(w.error.text, "pw-secret"));
    assert_non_null(strstr(w.error.text, "********* in"));
    assert_null(strstr(w.error.text, "more"));
    assert_null(strchr(w.error.text, '\x1b'));
}

static void a_server_that_says_nothing_is_left_in_time(void **state)
{
    (void)state;
    lib.silent = true;
    snib_instant from = snib__sql_now();
    assert_int_equal(reach(), SNIB__SQL_DOWN);
    assert_non_null(strstr(w.error.text, "no answer"));
    assert_in_range(snib__between(from, snib__sql_now()).ns, 290000000,
                    5000000000);
}

static void a_stop_ends_the_waiting(void **state)
{
    (void)state;
    lib.silent = true;
    snib__mysql_ops.interrupt(w.p);
    snib_instant from = snib__sql_now();
    assert_int_equal(reach(), SNIB__SQL_DOWN);
    assert_true(snib__between(from, snib__sql_now()).ns < 250000000);
}

static void without_memory_in_the_library_it_says_so(void **state)
{
    (void)state;
    lib.no_memory = true;
    assert_int_equal(reach(), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_NOMEM);
}

static void without_all_its_options_it_does_not_connect(void **state)
{
    (void)state;
    snib__mysql_ops.free(w.p);
    assert_int_equal(open_at("mysql://u@db.example/d"), SNIB_ERR_OK);
    int fails = 0;
    do {
        lib.options = 0;
        lib.option_fails = ++fails;
        lib.asked[0] = 0;
        lib.closed = 0;
        snib__sql_end end = reach();
        assert_int_equal(end, fails <= lib.options ? SNIB__SQL_REFUSED
                                                   : SNIB__SQL_OK);
        assert_true(!end || (w.error.code == SNIB_ERR_NOMEM &&
                             lib.closed == 1 && !w.k->c && !lib.asked[0]));
    } while (fails <= lib.options);
    assert_int_equal(fails, 9); /* three of them are TLS's */
}

static void a_connection_is_not_for_programs_that_are_started(void **state)
{
    (void)state;
    assert_int_equal(fcntl(lib.fd[0], F_GETFD) & FD_CLOEXEC, 0);
    assert_int_equal(reach(), SNIB__SQL_OK);
    assert_int_equal(fcntl(lib.fd[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

/* It looks up host names on it. */
static void the_library_has_a_stack_of_some_size(void **state)
{
    (void)state;
    assert_int_equal(reach(), SNIB__SQL_OK);
    assert_in_range(lib.stack, 128 << 10, 8 << 20);
}

static void settings_do_not_hang_on_what_the_server_has_by_default(void **state)
{
    static const char *const settings[] = {"autocommit=1",
                                           "completion_type=0",
                                           "sql_select_limit=1844674407",
                                           "sql_big_selects=1",
                                           "sql_safe_updates=0",
                                           "time_zone='+00:00'",
                                           "READ COMMITTED",
                                           "sql_mode='STRICT"};
    (void)state;
    assert_int_equal(reach(), SNIB__SQL_OK);
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        assert_non_null(strstr(lib.asked, settings[i]));
    }
}

/* -- opening --------------------------------------------------------------- */

/* A file that nobody looks into would be taken for a proof. */
static void authorities_without_tls_are_refused(void **state)
{
    static const struct {
        const char *url;
        snib_err err;
    } row[] = {
        {"mysql://u@localhost/d?ca=/none", SNIB_ERR_USAGE},
        {"mysql://u@db.example/d?tls=no&ca=/none", SNIB_ERR_USAGE},
        {"mysql://u@/d?socket=/run&ca=/none", SNIB_ERR_USAGE},
        {"mysql://u@localhost/d?tls=verify&ca=/none", SNIB_ERR_OK},
        {"mysql://u@db.example/d?ca=/none", SNIB_ERR_OK},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        if (w.p) {
            snib__mysql_ops.free(w.p);
        }
        assert_int_equal(open_at(row[i].url), row[i].err);
        assert_true(!row[i].err || strstr(w.error.text, "?tls=verify"));
    }
}

static void a_far_server_without_tls_warns_at_each_opening(void **state)
{
    static const struct {
        const char *url;
        bool verifies, warns;
    } row[] = {
        {"mysql://u@db.example/d", true, false},
        {"mysql://u@db.example/d?tls=no", false, true},
        {"mysql://u@localhost/d", false, false},
        {"mysql://u@127.1.2.3/d", false, false},
        {"mysql://u@127.db.example/d", true, false},
        {"mysql://u@[::1]/d", false, false},
        {"mysql://u@localhost/d?tls=verify", true, false},
        {"mysql://u@/d?socket=/run/s", false, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        snib__mysql_ops.free(w.p);
        w.said[0] = 0;
        assert_int_equal(open_at(row[i].url), SNIB_ERR_OK);
        assert_int_equal(w.p->address.verify, row[i].verifies);
        assert_int_equal(w.said[0] != 0, row[i].warns);
    }
}

/* Without TLS a server, or who is in between, could ask for the password. */
static void a_password_is_sent_to_nobody_who_is_not_known(void **state)
{
    static const struct {
        const char *url;
        bool restricted, sends;
    } row[] = {
        {"mysql://u@db.example/d", false, false},
        {"mysql://u@db.example/d?tls=no", true, false},
        {"mysql://u@localhost/d", true, true},
        {"mysql://u@/d?socket=/run/s", true, true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        snib__mysql_ops.free(w.p);
        lib.methods = NULL;
        assert_int_equal(open_at(row[i].url), SNIB_ERR_OK);
        assert_int_equal(reach(), SNIB__SQL_OK);
        assert_int_equal(lib.methods != NULL, row[i].restricted);
        if (lib.methods) {
            assert_non_null(strstr(lib.methods, "mysql_native_password"));
            assert_null(strstr(lib.methods, "clear"));
            assert_int_equal(strstr(lib.methods, "sha2") != NULL, row[i].sends);
            assert_int_equal(strstr(lib.methods, "sha256") != NULL,
                             row[i].sends);
        }
    }
}

static void a_login_by_a_function_is_refused(void **state)
{
    struct snib__url *url = NULL;
    void *instance;
    (void)state;
    assert_int_equal(snib__url_parse("mysql://h/d", &url, &w.error),
                     SNIB_ERR_OK);
    struct snib__store_config config = {.login = true, .url = url};
    assert_int_equal(
        snib__mysql_open_on(&config, &fake_mariadb, &instance, &w.error),
        SNIB_ERR_UNSUPPORTED);
    assert_null(instance);
    snib__url_free(url);
}

static void opening_bears_each_failed_allocation(void **state)
{
    (void)state;
    snib__mysql_ops.free(w.p);
    w.p = NULL;
    int64_t nth = 0, alive = snib__mem_alive();
    snib_err err;
    do {
        struct snib__url *url = NULL;
        void *instance = NULL;
        assert_int_equal(
            snib__url_parse("mysql://u@h:1/d?ca=/x&password_file=/y", &url,
                            &w.error),
            SNIB_ERR_OK);
        struct snib__store_config config = {.url = url, .out = &w.out};
        snib__mem_fail_at(++nth, false);
        err = snib__mysql_open_on(&config, &fake_mariadb, &instance, &w.error);
        snib__mem_fail_at(0, false);
        assert_true(err == SNIB_ERR_OK || err == SNIB_ERR_NOMEM);
        if (!err) {
            snib__mysql_ops.free(instance);
        }
        snib__url_free(url);
        assert_int_equal(snib__mem_alive(), alive);
    } while (err);
    assert_true(nth > 5);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(who_may_not_see_the_tables_is_told_what_makes_them),
        CASE(a_right_that_lacks_is_on_the_page_of_its_dialect),
        CASE(a_sound_server_is_taken),
        CASE(a_server_that_ends_no_idle_transaction_gets_none),
        CASE(an_old_server_is_refused),
        CASE(a_proxy_is_refused),
        CASE(a_read_only_server_is_refused_for_now),
        CASE(tables_of_a_later_layout_are_refused),
        CASE(who_may_not_make_tables_is_told_what_to_do),
        CASE(a_refusal_is_understood_by_its_number),
        CASE(a_host_that_does_not_exist_is_not_waited_for),
        CASE(a_text_that_repeats_the_password_does_not_get_out),
        CASE(a_server_that_says_nothing_is_left_in_time),
        CASE(a_stop_ends_the_waiting),
        CASE(without_memory_in_the_library_it_says_so),
        CASE(without_all_its_options_it_does_not_connect),
        CASE(a_connection_is_not_for_programs_that_are_started),
        CASE(the_library_has_a_stack_of_some_size),
        CASE(settings_do_not_hang_on_what_the_server_has_by_default),
        CASE(authorities_without_tls_are_refused),
        CASE(a_far_server_without_tls_warns_at_each_opening),
        CASE(a_password_is_sent_to_nobody_who_is_not_known),
        CASE(a_login_by_a_function_is_refused),
        CASE(opening_bears_each_failed_allocation),
    };
    return RUN(cases);
}
