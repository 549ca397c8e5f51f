/* tests/unit/test_postgres_library.c — store/postgres over a libpq that fails:
 * who is refused when connecting, check-ups, opening.
 * wraps: snib__sql_no_such_host */
#include "postgres_client.h"

static bool nobody_knows_the_name;

bool __wrap_snib__sql_no_such_host(const char *host);
bool __wrap_snib__sql_no_such_host(const char *host)
{
    assert_true(!strcmp(host, "localhost") || !strcmp(host, "db.example"));
    return nobody_knows_the_name;
}

/* -- who answers ----------------------------------------------------------- */

static void a_sound_server_is_taken(void **state)
{
    (void)state;
    assert_int_equal(reach(), SNIB__SQL_OK);
    assert_true(w.k->is.ready);
}

static void an_old_server_is_refused(void **state)
{
    (void)state;
    lib.version = 119999;
    assert_int_equal(reach(), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_CONFIG);
    assert_non_null(strstr(w.error.text, "older than PostgreSQL 12"));
    assert_int_equal(lib.finished, 1);
}

static void a_pooler_is_refused(void **state)
{
    (void)state;
    lib.answer[SNIB__PG_SETTINGS].value[0] = 78;
    assert_int_equal(reach(), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_CONFIG);
    assert_non_null(strstr(w.error.text, "PgBouncer"));
}

static void a_standby_is_refused_for_now(void **state)
{
    (void)state;
    lib.answer[SNIB__PG_SETTINGS].value[1] = 1;
    assert_int_equal(reach(), SNIB__SQL_DOWN);
    assert_int_equal(w.error.code, SNIB_ERR_STORE);
    lib.answer[SNIB__PG_SETTINGS].value[1] = 0;
    assert_int_equal(reach(), SNIB__SQL_OK);
}

static void tables_of_a_later_layout_are_refused(void **state)
{
    (void)state;
    lib.answer[SNIB__PG_LAYOUT].value[0] = 2;
    assert_int_equal(reach(), SNIB__SQL_REFUSED);
    assert_non_null(strstr(w.error.text, "layout 2, this snib knows 1"));
}

static void who_may_not_make_tables_is_told_what_to_do(void **state)
{
    (void)state;
    lib.answer[SNIB__PG_LAYOUT] =
        (struct answer){.state = "42P01", .severity = "ERROR"};
    lib.answer[SNIB__PG_HAS_SCHEMA] = (struct answer){1, {0}, 0, 0, 0};
    lib.texts = (struct answer){.state = "42501", .severity = "ERROR"};
    assert_int_equal(reach(), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_CONFIG);
    assert_non_null(strstr(w.error.text, "snib doctor --schema"));
}

/* What it has said is not enough to make them without it. */
static void a_cut_behind_the_question_for_tables_is_a_cut(void **state)
{
    (void)state;
    lib.answer[SNIB__PG_LAYOUT] =
        (struct answer){.state = "42P01", .severity = "ERROR"};
    lib.cut_at = 10; /* five of the settings, four of the layout, its error */
    assert_int_equal(reach(), SNIB__SQL_DOWN);
    assert_int_equal(w.error.code, SNIB_ERR_UNREACHABLE);
    assert_int_equal(lib.finished, 1);
    assert_int_equal(lib.sent[SNIB__PG_LAYOUT], 1);
    assert_int_equal(lib.sent[SNIB__PG_HAS_SCHEMA], 0);
    lib.cut_at = 0;
    lib.answer[SNIB__PG_LAYOUT] = (struct answer){1, {1}, 0, 0, 0};
    assert_int_equal(reach(), SNIB__SQL_OK);
}

/* The server speaks German; the number in its text is the same. */
static void a_refusal_in_another_language_is_understood(void **state)
{
    static const struct {
        const char *text;
        snib_err err;
    } row[] = {
        {"FATAL:  28P01: Passwort-Authentifizierung fehlgeschlagen",
         SNIB_ERR_DENIED},
        {"FATAL:  28000: Rolle existiert nicht", SNIB_ERR_DENIED},
        {"FATAL:  3D000: Datenbank existiert nicht", SNIB_ERR_CONFIG},
        {"FATAL:  53300: zu viele Verbindungen", SNIB_ERR_UNREACHABLE},
        {"FATAL:  57P03: das Datenbanksystem startet", SNIB_ERR_UNREACHABLE},
        {"Verbindungsaufbau abgelehnt", SNIB_ERR_UNREACHABLE},
    };
    (void)state;
    lib.polls = PGRES_POLLING_FAILED;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        lib.refusal = row[i].text;
        assert_int_equal(reach(), row[i].err == SNIB_ERR_UNREACHABLE
                                      ? SNIB__SQL_DOWN
                                      : SNIB__SQL_REFUSED);
        assert_int_equal(w.error.code, row[i].err);
    }
}

/* A user alone in the URL may be a password that was mistyped. */
static void a_user_who_is_not_known_is_named_where_that_is_safe(void **state)
{
    static const char *const row[][2] = {
        {"postgres://localhost/d", "this user, w0rd (the URL names none)"},
        {"postgres://w0rd:pw@localhost/d", "this user, w0rd"},
        {"postgres://w0rd@localhost/d", "this user, whom the URL names"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        struct snib_error e;
        client_ops.free(w.p);
        assert_int_equal(open_at(row[i][0]), SNIB_ERR_OK);
        assert_int_equal(
            snib__pg_fail_connect(
                w.p, "FATAL:  28000: role \"w0rd\" does not exist", &e),
            SNIB_ERR_DENIED);
        assert_non_null(strstr(e.text, row[i][1]));
        assert_true(i < 2 || !strstr(e.text, "w0rd"));
    }
}

/* In whatever language libpq says so: at once, unless the server was there
 * before. A resolver that is away is something else. */
static void a_host_that_does_not_exist_is_not_waited_for(void **state)
{
    (void)state;
    lib.polls = PGRES_POLLING_FAILED;
    lib.refusal = "konnte Hostnamen nicht in Adresse umwandeln";
    assert_int_equal(reach(), SNIB__SQL_DOWN);
    assert_non_null(strstr(w.error.text, "umwandeln"));
    nobody_knows_the_name = true;
    assert_int_equal(reach(), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(w.error.text, "there is no such host"));
    lib.polls = PGRES_POLLING_OK;
    assert_int_equal(reach(), SNIB__SQL_OK);
    snib__pg_quit(w.k);
    lib.polls = PGRES_POLLING_FAILED;
    assert_int_equal(reach(), SNIB__SQL_DOWN);
    nobody_knows_the_name = false;
}

static void a_text_that_repeats_the_password_does_not_get_out(void **state)
{
    (void)state;
    lib.polls = PGRES_POLLING_FAILED;
    lib.refusal = "cannot parse pw-secret in \x1b[1m\"pw-secret\"\nmore";
    assert_int_equal(reach(), SNIB__SQL_DOWN);
    assert_null(strstr(w.error.text, "pw-secret"));
    assert_non_null(strstr(w.error.text, "********* in"));
    assert_null(strstr(w.error.text, "more"));
    assert_null(strchr(w.error.text, '\x1b'));
}

static void after_a_failure_the_next_attempt_waits(void **state)
{
    (void)state;
    lib.polls = PGRES_POLLING_FAILED;
    lib.refusal = "Connection refused";
    for (int i = 0; i < 9; i++) {
        assert_int_equal(reach(), SNIB__SQL_DOWN);
    }
    int64_t ns = snib__between(snib__sql_now(), w.k->is.not_before).ns;
    assert_in_range(ns, 500000000, 1000000000);
    lib.polls = PGRES_POLLING_OK;
    struct snib__sql_session *s = &w.p->session[0].tables;
    s->sql.fault.text[0] = 0;
    assert_int_equal(snib__sql_connect(s), SNIB__SQL_DOWN);
    assert_non_null(strstr(s->sql.fault.text, "Connection refused"));
}

static void a_server_that_says_nothing_is_left_in_time(void **state)
{
    (void)state;
    lib.polls = PGRES_POLLING_READING;
    snib_instant from = snib__sql_now();
    assert_int_equal(reach(), SNIB__SQL_DOWN);
    assert_non_null(strstr(w.error.text, "no answer"));
    assert_in_range(snib__between(from, snib__sql_now()).ns, 290000000,
                    5000000000);
}

static void a_stop_ends_the_waiting(void **state)
{
    (void)state;
    lib.polls = PGRES_POLLING_READING;
    snib__postgres_ops.interrupt(w.p);
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

static void too_many_connections_are_told_as_that(void **state)
{
    static const char *const texts[] = {
        "FATAL:  53300: too many connections for role \"u\"",
        "FATAL:  53300: too many connections for database \"d\""};
    (void)state;
    lib.polls = PGRES_POLLING_FAILED;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        lib.refusal = texts[i];
        assert_int_equal(reach(), SNIB__SQL_DOWN);
        assert_int_equal(w.error.code, SNIB_ERR_UNREACHABLE);
        assert_non_null(strstr(w.error.text, "CONNECTION LIMIT"));
    }
}

static void a_right_that_lacks_is_on_the_page_of_its_dialect(void **state)
{
    static const char *const row[][2] = {
        {"postgres://u@localhost/d", "docs/POSTGRES.md lists"},
        {"postgres://u@localhost/d?dialect=shedlock", "docs/SHEDLOCK.md lists"},
        {"postgres://u@localhost/d?dialect=int_lock", "docs/INT_LOCK.md lists"},
        {"postgres://u@localhost/d?dialect=advisory", "docs/ADVISORY.md lists"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        struct snib_error e;
        client_ops.free(w.p);
        assert_int_equal(open_at(row[i][0]), SNIB_ERR_OK);
        assert_int_equal(snib__pg_fail(w.p, "42501", "", &e), SNIB_ERR_DENIED);
        assert_non_null(strstr(e.text, row[i][1]));
    }
}

/* -- the check-up ---------------------------------------------------------- */

/* What was not seen is not praised, and it is an error. */
static void the_check_up_of_a_server_that_is_away_says_only_that(void **state)
{
    struct snib__request r = {.verb = SNIB__DOCTOR, .once = true};
    struct snib__buf found;
    (void)state;
    snib__postgres_ops.free(w.p);
    assert_int_equal(open_at("postgres://u@db.example/d?ca=/x"), SNIB_ERR_OK);
    nobody_knows_the_name = false;
    lib.polls = PGRES_POLLING_FAILED;
    lib.refusal = "Connection refused";
    snib__buf_init(&found, 10000);
    r.said.result = &found;
    r.exec.impatient = true;
    execute(&r, 1);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_UNREACHABLE);
    struct snib__rec at;
    int rows = 0;
    snib__rec_begin(&at, snib__buf_bytes(&found), snib__buf_size(&found));
    while (snib__rec_next_row(&at)) {
        rows++;
    }
    assert_int_equal(rows, 1);
    snib__buf_free(&found);
}

/* -- opening --------------------------------------------------------------- */

/* A file that nobody looks into would be taken for a proof. */
static void authorities_without_tls_are_refused(void **state)
{
    static const struct {
        const char *url;
        snib_err err;
    } row[] = {
        {"postgres://u@localhost/d?ca=/none", SNIB_ERR_USAGE},
        {"postgres://u@db.example/d?tls=no&ca=/none", SNIB_ERR_USAGE},
        {"postgres://u@/d?socket=/run&ca=/none", SNIB_ERR_USAGE},
        {"postgres://u@localhost/d?tls=verify&ca=/none", SNIB_ERR_OK},
        {"postgres://u@db.example/d?ca=/none", SNIB_ERR_OK},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        if (w.p) {
            snib__postgres_ops.free(w.p);
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
        {"postgres://u@db.example/d", true, false},
        {"postgres://u@db.example/d?tls=no", false, true},
        {"postgres://u@localhost/d", false, false},
        {"postgres://u@127.0.0.9/d", false, false},
        {"postgres://u@[::1]/d", false, false},
        {"postgres://u@localhost/d?tls=verify", true, false},
        {"postgres://u@/d?socket=/run", false, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        snib__postgres_ops.free(w.p);
        w.said[0] = 0;
        assert_int_equal(open_at(row[i].url), SNIB_ERR_OK);
        assert_int_equal(w.p->address.verify, row[i].verifies);
        assert_int_equal(w.said[0] != 0, row[i].warns);
    }
}

static void a_password_file_is_named_as_what_is_not_known(void **state)
{
    (void)state;
    snib__postgres_ops.free(w.p);
    assert_int_equal(open_at("postgres://u@h/d?password_file=/x"),
                     SNIB_ERR_USAGE);
    assert_non_null(strstr(w.error.text, "?password_file="));
    assert_non_null(strstr(w.error.text, "~/.pgpass"));
}

static void a_login_by_a_function_is_refused(void **state)
{
    struct snib__store_config config = {.login = true};
    void *instance;
    (void)state;
    assert_int_equal(
        snib__postgres_open_on(&config, &fake_pq, &instance, &w.error),
        SNIB_ERR_UNSUPPORTED);
    assert_null(instance);
}

static void opening_bears_each_failed_allocation(void **state)
{
    (void)state;
    snib__postgres_ops.free(w.p);
    w.p = NULL;
    int64_t nth = 0, alive = snib__mem_alive();
    snib_err err;
    do {
        struct snib__url *url = NULL;
        void *instance = NULL;
        assert_int_equal(
            snib__url_parse("postgres://u:p@h:1/d?ca=/x", &url, &w.error),
            SNIB_ERR_OK);
        struct snib__store_config config = {.url = url, .out = &w.out};
        snib__mem_fail_at(++nth, false);
        err = snib__postgres_open_on(&config, &fake_pq, &instance, &w.error);
        snib__mem_fail_at(0, false);
        assert_true(err == SNIB_ERR_OK || err == SNIB_ERR_NOMEM);
        if (!err) {
            snib__postgres_ops.free(instance);
        }
        snib__url_free(url);
        assert_int_equal(snib__mem_alive(), alive);
    } while (err);
    assert_true(nth > 5);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_user_who_is_not_known_is_named_where_that_is_safe),
        CASE(a_right_that_lacks_is_on_the_page_of_its_dialect),
        CASE(a_sound_server_is_taken),
        CASE(an_old_server_is_refused),
        CASE(a_pooler_is_refused),
        CASE(a_standby_is_refused_for_now),
        CASE(too_many_connections_are_told_as_that),
        CASE(tables_of_a_later_layout_are_refused),
        CASE(who_may_not_make_tables_is_told_what_to_do),
        CASE(a_cut_behind_the_question_for_tables_is_a_cut),
        CASE(a_refusal_in_another_language_is_understood),
        CASE(a_host_that_does_not_exist_is_not_waited_for),
        CASE(a_text_that_repeats_the_password_does_not_get_out),
        CASE(after_a_failure_the_next_attempt_waits),
        CASE(a_server_that_says_nothing_is_left_in_time),
        CASE(a_stop_ends_the_waiting),
        CASE(without_memory_in_the_library_it_says_so),
        CASE(authorities_without_tls_are_refused),
        CASE(a_far_server_without_tls_warns_at_each_opening),
        CASE(the_check_up_of_a_server_that_is_away_says_only_that),
        CASE(a_password_file_is_named_as_what_is_not_known),
        CASE(a_login_by_a_function_is_refused),
        CASE(opening_bears_each_failed_allocation),
    };
    return RUN(cases);
}
