/* tests/unit/test_mysql_library.c — store/mysql over a libmariadb that fails: who is
 * refused when connecting, what is known when answers stop, and how statements
 * are spelled. */
#include "mysql_library.h"

#include "core/url.h"

static struct {
    struct snib__mysql *p;
    struct snib__my_conn *k;
    struct snib_error error;
    struct snib__out out;
    char said[500];
} w;

static void hear(void *data, int level, const char *line)
{
    (void)data;
    (void)level;
    snprintf(w.said, sizeof w.said, "%s", line);
}

static snib_err open_at(const char *text)
{
    struct snib__url *url = NULL;
    void *instance = NULL;
    assert_int_equal(snib__url_parse(text, &url, &w.error), SNIB_ERR_OK);
    w.out = (struct snib__out){.log = hear};
    struct snib__store_config config = {
        .url = url, .out = &w.out, .client = {1, 2}, .request = snib__ms(300)};
    snib_err err =
        snib__mysql_open_on(&config, &fake_mariadb, &instance, &w.error);
    snib__url_free(url);
    w.p = instance;
    w.k = w.p ? &w.p->session[0].conn : NULL;
    return err;
}

enum { WHO, LAYOUT, MORE };

static int begin_world(void **state)
{
    (void)state;
    memset(&lib, 0, sizeof lib);
    memset(&w, 0, sizeof w);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, lib.fd), 0);
    lib.info = "10.11.1-MariaDB";
    lib.version = 101101;
    lib.id = 77;
    lib.answer[WHO] = (struct answer){"CONNECTION_ID()", 3, {77, 0, 1000}, 0};
    lib.answer[LAYOUT] = (struct answer){"`key`='schema'", 1, {1}, 0};
    assert_int_equal(open_at("mysql://u:pw-secret@localhost/d"), SNIB_ERR_OK);
    return 0;
}

static int end_world(void **state)
{
    (void)state;
    if (w.p) {
        snib__mysql_ops.free(w.p);
    }
    close(lib.fd[0]);
    close(lib.fd[1]);
    return 0;
}

static snib__sql_end reach(void)
{
    w.k->is.not_before = (snib_instant){0};
    return snib__my_reach(w.k, snib__after(snib__sql_now(), snib__ms(300)),
                          &w.error);
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
        {1040, SNIB_ERR_UNREACHABLE, "", "max_connections"},
        {1053, SNIB_ERR_UNREACHABLE, "", "stopping"},
        {CR_SSL_CONNECTION_ERROR, SNIB_ERR_CONFIG,
         "SSL is required, but the server does not support it", "?tls=no"},
        {CR_SSL_CONNECTION_ERROR, SNIB_ERR_CONFIG, "certificate verify failed",
         "?ca=FILE"},
        {CR_SSL_CONNECTION_ERROR, SNIB_ERR_CONFIG, "whatever", "TLS with"},
        {CR_PLUGIN_NOT_ALLOWED, SNIB_ERR_DENIED, "", "in the clear"},
        {CR_VERSION_ERROR, SNIB_ERR_CONFIG, "", "look at the port"},
        {CR_UNKNOWN_HOST, SNIB_ERR_UNREACHABLE, "", "no such host"},
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

/* -- answers that stop ----------------------------------------------------- */

/* A transaction of four statements, which matters, and two that do not. */
static snib__sql_end run_cut(int results)
{
    struct snib__sql_script t;
    assert_int_equal(reach(), SNIB__SQL_OK);
    snib__sql_script_init(&t);
    snib__sql_add(&t, SNIB__SQL_DO_OPEN, NULL, NULL);
    snib__sql_add(&t, SNIB__SQL_DO_NOT_DURABLE, NULL, NULL); /* has no text */
    snib__sql_add(&t, SNIB__SQL_DO_DELETE_CLAIM, NULL, NULL);
    snib__sql_bytes(&t, "n", 1);
    snib__sql_bytes(&t, "r", 1);
    snib__sql_int(&t, 5);
    snib__sql_add(&t, SNIB__SQL_DO_CLOSE, NULL, NULL);
    snib__sql_sync(&t);
    for (int i = 0; i < 2; i++) {
        snib__sql_add(&t, SNIB__MY_NOTIFY, NULL, NULL);
        snib__sql_string(&t, i ? "snib.2" : "snib.1");
        snib__sql_sync(&t);
    }
    lib.taken = 0;
    lib.asked[0] = 0;
    lib.cut_at = results;
    snib__sql_end end = snib__my_run(
        w.k, &t, 1, snib__after(snib__sql_now(), snib__ms(300)), &w.error);
    snib__sql_script_free(&t);
    lib.cut_at = 0;
    return end;
}

static void what_is_known_depends_on_the_last_answer(void **state)
{
    (void)state;
    for (int i = 1; i < 6; i++) {
        assert_int_equal(run_cut(i), i < 4 ? SNIB__SQL_LOST : SNIB__SQL_OK);
        assert_null(w.k->c);
    }
    assert_int_equal(run_cut(0), SNIB__SQL_OK);
    assert_string_equal(
        lib.asked,
        "START TRANSACTION;DELETE FROM snib_claim WHERE name=x'6e' AND "
        "request=x'72' AND stamp=5;SELECT 18446744073709551615+(ROW_COUNT()<>1)"
        ";COMMIT;KILL QUERY IS_USED_LOCK(x'736e69622e31');"
        "KILL QUERY IS_USED_LOCK(x'736e69622e32')\n");
}

static void an_error_that_came_is_rolled_back_at_once(void **state)
{
    (void)state;
    lib.answer[MORE] = (struct answer){"DELETE", 0, {0}, 1114};
    assert_int_equal(run_cut(0), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_STORE);
    const char *last = strstr(lib.asked, "\n");
    assert_string_equal(last, "\nROLLBACK\n");
    lib.answer[MORE].code = 1690;
    assert_int_equal(run_cut(0), SNIB__SQL_CONFLICT);
    assert_non_null(w.k->c);
}

static void who_cannot_be_notified_keeps_nobody_from_it(void **state)
{
    (void)state;
    lib.answer[MORE] = (struct answer){"x'736e69622e31'", 0, {0}, 1094};
    assert_int_equal(run_cut(0), SNIB__SQL_OK);
    const char *again = strstr(lib.asked, "\n");
    assert_string_equal(again, "\nKILL QUERY IS_USED_LOCK(x'736e69622e32')\n");
}

static void an_end_of_the_session_says_nothing_of_the_commit(void **state)
{
    /* Stopped, killed, failed while it committed. */
    static const int codes[] = {1053, 1927, 1180};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        assert_int_equal(reach(), SNIB__SQL_OK);
        lib.answer[MORE] = (struct answer){"COMMIT", 0, {0}, codes[i]};
        assert_int_equal(run_cut(0), SNIB__SQL_LOST);
        assert_null(w.k->c);
        lib.answer[MORE] = (struct answer){0};
    }
}

/* What the server says without being asked is a farewell. */
static void a_transaction_that_the_server_has_ended_is_a_conflict(void **state)
{
    (void)state;
    assert_int_equal(reach(), SNIB__SQL_OK);
    w.k->is.inside = true;
    assert_int_equal(write(lib.fd[1], "x", 1), 1);
    assert_int_equal(run_cut(0), SNIB__SQL_CONFLICT);
    assert_string_equal(lib.asked, "");
    assert_null(w.k->c);
}

static void what_the_database_wants_repeated_is_a_conflict(void **state)
{
    static const int codes[] = {1690, 1062, 1213, 1205, 1020, 1317, 1969, 3024};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        assert_int_equal(snib__my_judge(codes[i]), SNIB__SQL_CONFLICT);
    }
    assert_int_equal(snib__my_judge(1054), SNIB__SQL_REFUSED);
    assert_int_equal(snib__my_judge(9999), SNIB__SQL_REFUSED);
    assert_int_equal(snib__my_judge(1053), SNIB__SQL_DOWN);
}

static void see_token(void *data, struct snib__sql_rows *rows)
{
    int64_t *seen = data;
    seen[0] = rows->count;
    seen[1] = snib__sql_get_int(rows, 0, 0);
    seen[2] = snib__sql_get_int(rows, 0, 1);
    seen[3] = snib__sql_is_null(rows, 0, 0);
}

static void a_change_tells_how_many_rows_and_the_insert_id(void **state)
{
    (void)state;
    struct snib__sql_script t;
    int64_t seen[4] = {0};
    assert_int_equal(reach(), SNIB__SQL_OK);
    snib__sql_script_init(&t);
    snib__sql_add(&t, SNIB__SQL_DO_RELEASE, see_token, seen);
    for (int i = 0; i < 4; i++) {
        snib__sql_int(&t, -i);
    }
    snib__sql_sync(&t);
    assert_int_equal(snib__my_run(w.k, &t, 1, SNIB__NEVER, &w.error),
                     SNIB__SQL_OK);
    snib__sql_script_free(&t);
    assert_int_equal(seen[0], 1);
    assert_int_equal(seen[1], 4242);
    assert_int_equal(seen[2], 0);
    assert_true(seen[3]);
}

/* -- spelling -------------------------------------------------------------- */

static void parameters_are_numbers_hex_or_null(void **state)
{
    (void)state;
    struct snib__sql_script t;
    struct snib__buf b;
    static const uint64_t id[2] = {1, UINT64_C(0xfedcba9876543210)};
    snib__buf_init(&b, 1000);
    snib__sql_script_init(&t);
    snib__sql_add_text(&t, "");
    snib__sql_int(&t, -7);
    snib__sql_int(&t, 0);
    snib__sql_null(&t);
    snib__sql_bytes(&t, "a'\\\0", 4);
    snib__sql_id(&t, id);
    snib__sql_bytes(&t, "", 0);
    snib__my_expand("p", "#lock $1 $2 $3 $4 $5 $6 [1x$2] [2(y)]", &t,
                    &t.item[0], &b);
    assert_string_equal(snib__buf_text(&b),
                        "p_lock (-7) 0 NULL x'61275c00' "
                        "x'0000000000000001fedcba9876543210' x'' x0 NULL");
    assert_false(b.failed);
    snib__my_expand("p", "$7", &t, &t.item[0], &b);
    assert_true(b.failed); /* it was not given */
    snib__sql_script_free(&t);
    snib__buf_free(&b);
}

/* -- opening --------------------------------------------------------------- */

static void a_far_server_without_tls_warns_at_each_opening(void **state)
{
    static const struct {
        const char *url;
        bool verifies, warns;
    } row[] = {
        {"mysql://u@db.example/d", true, false},
        {"mysql://u@db.example/d?tls=no", false, true},
        {"mysql://u@localhost/d", false, false},
        {"mysql://u@[::1]/d", false, false},
        {"mysql://u@localhost/d?tls=verify", true, false},
        {"mysql://u@/d?socket=/run/s", false, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        snib__mysql_ops.free(w.p);
        w.said[0] = 0;
        assert_int_equal(open_at(row[i].url), SNIB_ERR_OK);
        assert_int_equal(w.p->place.verify, row[i].verifies);
        assert_int_equal(w.said[0] != 0, row[i].warns);
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

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_sound_server_is_taken),
        CASE(a_server_that_ends_no_idle_transaction_gets_none),
        CASE(an_old_server_is_refused),
        CASE(a_proxy_is_refused),
        CASE(a_read_only_server_is_refused_for_now),
        CASE(tables_of_a_later_layout_are_refused),
        CASE(who_may_not_make_tables_is_told_what_to_do),
        CASE(a_refusal_is_understood_by_its_number),
        CASE(a_text_that_repeats_the_password_does_not_get_out),
        CASE(a_server_that_says_nothing_is_left_in_time),
        CASE(a_stop_ends_the_waiting),
        CASE(without_memory_in_the_library_it_says_so),
        CASE(what_is_known_depends_on_the_last_answer),
        CASE(an_error_that_came_is_rolled_back_at_once),
        CASE(who_cannot_be_notified_keeps_nobody_from_it),
        CASE(an_end_of_the_session_says_nothing_of_the_commit),
        CASE(a_transaction_that_the_server_has_ended_is_a_conflict),
        CASE(what_the_database_wants_repeated_is_a_conflict),
        CASE(a_change_tells_how_many_rows_and_the_insert_id),
        CASE(parameters_are_numbers_hex_or_null),
        CASE(a_far_server_without_tls_warns_at_each_opening),
        CASE(a_login_by_a_function_is_refused),
        CASE(opening_bears_each_failed_allocation),
    };
    return RUN(cases);
}
