/* tests/unit/test_postgres_library.c — store/postgres over a libpq that fails:
 * who is refused when connecting, and what is known when answers stop.
 * wraps: snib__sql_no_such_host */
#include "postgres_library.h"

#include "core/url.h"

static struct {
    struct snib__postgres *p;
    struct snib__pg_conn *k;
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
        snib__postgres_open_on(&config, &fake_pq, &instance, &w.error);
    snib__url_free(url);
    w.p = instance;
    w.k = w.p ? &w.p->session[0].conn : NULL;
    return err;
}

static int begin_world(void **state)
{
    (void)state;
    memset(&lib, 0, sizeof lib);
    memset(&w, 0, sizeof w);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, lib.fd), 0);
    lib.version = 150000;
    lib.pid = 77;
    lib.polls = PGRES_POLLING_OK;
    lib.answer[SNIB__PG_SETTINGS] =
        (struct answer){1, {77, 0, 1000, 5}, 0, 0, 0};
    lib.answer[SNIB__PG_LAYOUT] = (struct answer){1, {1}, 0, 0, 0};
    assert_int_equal(open_at("postgres://u:pw-secret@localhost/d"),
                     SNIB_ERR_OK);
    return 0;
}

static int end_world(void **state)
{
    (void)state;
    if (w.p) {
        snib__postgres_ops.free(w.p);
    }
    close(lib.fd[0]);
    close(lib.fd[1]);
    return 0;
}

static bool nobody_knows_the_name;

bool __wrap_snib__sql_no_such_host(const char *host);
bool __wrap_snib__sql_no_such_host(const char *host)
{
    assert_true(!strcmp(host, "localhost") || !strcmp(host, "db.example"));
    return nobody_knows_the_name;
}

/* Before the pause after a failure is over, too. */
static snib__sql_end reach(void)
{
    struct snib__sql_session *s = &w.p->session[0].tables;
    w.k->is.not_before = (snib_instant){0};
    s->sql.until = snib__after(snib__sql_now(), snib__ms(300));
    snib__sql_end end = snib__sql_connect(s);
    w.error = s->sql.fault;
    return end;
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

/* -- answers that stop ----------------------------------------------------- */

/* Two transactions, of which the first matters; the connection is cut after
 * `results` of them. */
static snib__sql_end run_cut(int results, const char **ret_error)
{
    struct snib__sql_script t;
    assert_int_equal(reach(), SNIB__SQL_OK);
    snib__sql_script_init(&t);
    snib__sql_add(&t, SNIB__SQL_DO_PUT_LOCK, NULL, NULL);
    snib__sql_add(&t, SNIB__SQL_DO_PUT_FLOOR, NULL, NULL);
    snib__sql_sync(&t);
    snib__sql_add(&t, SNIB__PG_NOTIFY, NULL, NULL);
    snib__sql_sync(&t);
    lib.cut_at = results ? lib.taken + results : 0;
    snib__sql_end end = snib__pg_run(
        w.k, &t, 1, snib__after(snib__sql_now(), snib__ms(300)), &w.error);
    snib__sql_script_free(&t);
    lib.cut_at = 0;
    if (ret_error) {
        *ret_error = w.error.text;
    }
    if (results) {
        assert_null(w.k->c);
    }
    return end;
}

/* Three statements are prepared (two results each, and a SYNC), then executed:
 * the SYNC that matters is the twelfth result. */
static void what_is_known_depends_on_the_last_answer(void **state)
{
    (void)state;
    for (int i = 1; i < 15; i++) {
        assert_int_equal(run_cut(i, NULL),
                         i < 12 ? SNIB__SQL_LOST : SNIB__SQL_OK);
    }
    assert_int_equal(run_cut(0, NULL), SNIB__SQL_OK);
}

static void an_error_that_came_has_undone_it(void **state)
{
    (void)state;
    lib.answer[SNIB__SQL_DO_PUT_LOCK] =
        (struct answer){.state = "53100", .severity = "ERROR"};
    assert_int_equal(run_cut(0, NULL), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_STORE);
    snib__pg_quit(w.k);
    assert_int_equal(run_cut(10, NULL), SNIB__SQL_REFUSED);
}

static void an_error_of_what_does_not_matter_is_none(void **state)
{
    (void)state;
    lib.answer[SNIB__PG_NOTIFY] =
        (struct answer){.state = "53100", .severity = "ERROR"};
    assert_int_equal(run_cut(0, NULL), SNIB__SQL_OK);
}

static void an_end_of_the_session_says_nothing_of_the_commit(void **state)
{
    (void)state;
    lib.answer[SNIB__SQL_DO_PUT_FLOOR] =
        (struct answer){.state = "57P01", .severity = "FATAL"};
    assert_int_equal(run_cut(11, NULL), SNIB__SQL_LOST);
    lib.answer[SNIB__SQL_DO_PUT_FLOOR].state = "25P03"; /* it was too slow */
    assert_int_equal(run_cut(11, NULL), SNIB__SQL_CONFLICT);
}

static void what_the_database_wants_repeated_is_a_conflict(void **state)
{
    static const char *const states[] = {"22012", "23505", "40001",
                                         "40P01", "55P03", "57014"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        assert_int_equal(snib__pg_judge(states[i]), SNIB__SQL_CONFLICT);
    }
    assert_int_equal(snib__pg_judge("42703"), SNIB__SQL_REFUSED);
    assert_int_equal(snib__pg_judge("58030"), SNIB__SQL_REFUSED);
    assert_int_equal(snib__pg_judge("08006"), SNIB__SQL_DOWN);
}

/* -- requests -------------------------------------------------------------- */

static struct snib__name names[] = {{1, 1, 5, "a", "a"}, {1, 1, 6, "b", "b"}};

/* Both are executed in one step. */
static void execute(struct snib__request *r, size_t count)
{
    struct snib__list chain;
    snib__list_init(&chain);
    for (size_t i = 0; i < count; i++) {
        r[i].name = &names[i];
        r[i].id[0] = 7 + i;
        r[i].lease = snib__ms(1000);
        r[i].exec.patience = SNIB__NEVER;
        r[i].said.reterr = &w.error;
        snib__link_init(&r[i].link);
        snib__list_push(&chain, &r[i].link);
    }
    snib__postgres_ops.exec_in(w.p, SNIB__SESSION_CALLERS, (snib_instant){0},
                               &chain);
    for (size_t i = 0; i < count; i++) {
        snib__unlink(&r[i].link);
    }
}

/* What reads several names as of one moment is a transaction, too: it was left
 * open, and everything after it was refused. */
static void a_failed_fetch_of_two_leaves_no_transaction_open(void **state)
{
    struct snib__request r[2] = {{.verb = SNIB__CANCEL},
                                 {.verb = SNIB__CANCEL}};
    (void)state;
    lib.answer[SNIB__SQL_DO_FETCH] =
        (struct answer){.state = "53200", .severity = "ERROR"};
    execute(r, 2);
    assert_int_equal(r[0].said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(lib.sent[SNIB__SQL_DO_BEGIN_READ], 1);
    assert_int_equal(lib.sent[SNIB__SQL_DO_ROLLBACK], 1);
    execute(r, 1); /* of one no transaction was begun */
    assert_int_equal(lib.sent[SNIB__SQL_DO_ROLLBACK], 1);
}

/* Whoever may write to the table may write anything there. */
static void a_claim_that_none_of_ours_has_written_is_refused(void **state)
{
    struct snib__request r = {.verb = SNIB__CANCEL};
    (void)state;
    struct answer *a = &lib.answer[SNIB__SQL_DO_FETCH];
    *a = (struct answer){.rows = 1, .columns = COLUMNS};
    execute(&r, 1); /* its stamp is 0 */
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CORRUPT);
}

/* The short way answers with what stands in the row. */
static void what_is_no_token_is_not_given_as_one(void **state)
{
    static const int64_t tokens[] = {0, -1, SNIB__TOKEN_END};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(tokens); i++) {
        struct snib__request r = {.verb = SNIB__ACQUIRE,
                                  .said.answer = SNIB__QUEUED};
        lib.answer[SNIB__SQL_DO_RENEW] =
            (struct answer){1, {tokens[i], 1000, 0, 1}, 0, 0, 0};
        execute(&r, 1);
        assert_int_equal(lib.sent[SNIB__SQL_DO_RENEW], i + 1);
        assert_true(r.said.answer != SNIB__DONE || r.token > 0);
        assert_int_not_equal(r.token, tokens[i]);
    }
}

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

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_sound_server_is_taken),
        CASE(an_old_server_is_refused),
        CASE(a_pooler_is_refused),
        CASE(a_standby_is_refused_for_now),
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
        CASE(what_is_known_depends_on_the_last_answer),
        CASE(an_error_that_came_has_undone_it),
        CASE(an_error_of_what_does_not_matter_is_none),
        CASE(an_end_of_the_session_says_nothing_of_the_commit),
        CASE(what_the_database_wants_repeated_is_a_conflict),
        CASE(a_failed_fetch_of_two_leaves_no_transaction_open),
        CASE(a_claim_that_none_of_ours_has_written_is_refused),
        CASE(what_is_no_token_is_not_given_as_one),
        CASE(a_far_server_without_tls_warns_at_each_opening),
        CASE(the_check_up_of_a_server_that_is_away_says_only_that),
        CASE(a_password_file_is_named_as_what_is_not_known),
        CASE(a_login_by_a_function_is_refused),
        CASE(opening_bears_each_failed_allocation),
    };
    return RUN(cases);
}
