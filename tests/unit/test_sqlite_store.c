/* tests/unit/test_sqlite_store.c — the embedded store: the cases that every
 * store passes, boots, tokens, opening.
 * wraps: snib__host_gone */
#include "sqlite_store.h"

#include "gone_cases.h"

/* -- boot ---------------------------------------------------------------------------- */

static void another_boot_ends_all_claims_and_keeps_tokens(void **state)
{
    struct snib__name n = name_of("boot");
    int64_t shown = 0;
    (void)state;
    open_peers(1);
    struct snib__request a = request(SNIB__ACQUIRE, &n);
    a.acquire.reserve = 31;
    run(0, &a);
    close_peer(0);
    snprintf(host.boot, sizeof host.boot, "11111111-another-boot");
    host.skew_ns -= snib__host_now().ns - 40000000000; /* 40 s after boot */
    open_peers(1);
    assert_int_equal(look(0, &n, SNIB__ROW_HOLDER, NULL), 0);
    look(0, &n, SNIB__ROW_LOCK, &shown);
    assert_int_equal(shown, a.token + 31);
    struct snib__request b = acquire(0, &n);
    assert_int_equal(b.said.answer, SNIB__DONE);
    assert_true(b.token > a.token + 31);
}

static void another_boot_id_while_in_use_is_refused(void **state)
{
    struct snib__name n = name_of("lxc");
    struct timespec from, to;
    (void)state;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    snprintf(host.boot, sizeof host.boot, "22222222-a-container");
    clock_gettime(CLOCK_MONOTONIC, &from);
    struct peer p = {.client = {8, 8}};
    struct snib__url url = {.path = path};
    struct snib__lockfile lockfile;
    struct snib__db db;
    struct snib_error e = {0};
    (void)url;
    assert_int_equal(snib__lockfile_open(&lockfile, path, &host, &e), 0);
    assert_int_equal(snib__db_open(&db, &lockfile, &host, snib__ms(50), &e),
                     SNIB_ERR_CONFIG);
    snib__lockfile_close(&lockfile);
    assert_non_null(strstr(e.text, "boot id"));
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_true(to.tv_sec - from.tv_sec < 3);
    assert_null(p.inst);
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__DONE);
}

/* -- tokens --------------------------------------------------------------------------- */

static void tokens_rise_though_the_clock_goes_back(void **state)
{
    struct snib__name n = name_of("clock"), m = name_of("clock-2");
    int64_t last = 0;
    (void)state;
    host.wall_skew_ms = 2 * 86400000;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    last = a.token;
    end(0, &a);
    self_of(0)->host.wall_skew_ms = -INT64_C(30) * 365 * 86400000; /* 1996 */
    for (int i = 0; i < 5; i++) {
        struct snib__request b = acquire(0, &n);
        assert_true(b.token > last);
        last = b.token;
        end(0, &b);
    }
    /* A floor from before the clock went back is honoured (H20). */
    struct snib__request c = request(SNIB__ACQUIRE, &m);
    c.floor = last;
    assert_int_equal(run(0, &c), SNIB__DONE);
    assert_int_equal(c.token, last + 1);
    self_of(0)->host.wall_skew_ms = INT64_C(400) * 365 * 86400000;
    end(0, &c);
    struct snib__request d = request(SNIB__ACQUIRE, &m);
    assert_int_equal(run(0, &d), SNIB__NOT_APPLIED); /* beyond 2^53 */
    assert_int_equal(d.said.err, SNIB_ERR_CONFIG);
}

static void cleaner_forgets_old_names_but_not_their_tokens(void **state)
{
    struct snib__name n = name_of("swept"), m = name_of("held");
    int64_t shown = -1;
    (void)state;
    host.wall_skew_ms = 0;
    open_peers(1);
    struct snib__request a = acquire(0, &n), b = acquire(0, &m);
    end(0, &a);
    snib__sqlite_cleaner(self_of(0));
    look(0, &n, SNIB__ROW_LOCK, &shown);
    assert_int_equal(shown, a.token); /* too young */
    self_of(0)->host.wall_skew_ms = 2 * 86400000;
    snib__sqlite_cleaner(self_of(0));
    look(0, &n, SNIB__ROW_LOCK, &shown);
    assert_int_equal(shown, 0);
    assert_int_equal(look(0, &m, SNIB__ROW_HOLDER, NULL), 1);
    self_of(0)->host.wall_skew_ms = -2 * 86400000;
    struct snib__request c = acquire(0, &n);
    assert_true(c.token > a.token);
    end(0, &b);
    end(0, &c);
    /* Claims of the dead on names that nobody asks for again. */
    struct snib__name dead = name_of("dead");
    struct snib__request d = acquire(0, &dead);
    assert_int_equal(d.said.answer, SNIB__DONE);
    advance(SNIB__ASIDE_MS + 2000);
    self_of(0)->host.wall_skew_ms = 2 * 86400000;
    snib__sqlite_cleaner(self_of(0));
    sqlite3_stmt *st;
    sqlite3_prepare_v2(self_of(0)->db.handle,
                       "SELECT (SELECT count(*) FROM claim) + "
                       "(SELECT count(*) FROM lock)",
                       -1, &st, NULL);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(st, 0), 0);
    sqlite3_finalize(st);
}

/* -- opening ------------------------------------------------------------ */

static pid_t opener_process(uint64_t i)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct peer p = {.client = {i, (uint64_t)getpid()}};
        struct snib_error e = {0};
        if (open_at(&p, path, &e)) {
            dprintf(2, "open: %s\n", e.text);
            _exit(1);
        }
        kit.ops->free(p.inst);
        _exit(0);
    }
    return pid;
}

/* Everybody makes the file at once, and some are killed at it. (SQLite says
 * "busy" at once, without waiting, where two want to make a file WAL.) */
static void first_opens_race_each_other_and_kill(void **state)
{
    enum { N = 20, KILLS = 12, ROUNDS = 12 };
    uint64_t seed = 99;
    pid_t pid[N];
    int status;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        remove_dir(NULL);
        assert_int_equal(fresh_dir(NULL), 0);
        for (int i = 0; i < N; i++) {
            pid[i] = opener_process((uint64_t)i + 1);
        }
        for (int k = 0; k < KILLS; k++) {
            int i = (int)(dice(&seed) % N);
            usleep(dice(&seed) % 1500);
            kill(pid[i], SIGKILL);
            waitpid(pid[i], &status, 0);
            pid[i] = opener_process((uint64_t)(100 + k));
        }
        for (int i = 0; i < N; i++) {
            waitpid(pid[i], &status, 0);
            assert_int_equal(status, 0);
        }
        open_peers(1);
        struct snib__name n = name_of("after");
        assert_int_equal(acquire(0, &n).said.answer, SNIB__DONE);
        close_peer(0);
    }
}

static void urls_with_more_than_a_path_are_refused(void **state)
{
    struct peer p = {.client = {1, 2}};
    struct snib__url url = {.path = path, .host = (char[]){"h"}};
    struct snib__store_config config = {.url = &url, .request = snib__ms(100)};
    (void)state;
    assert_int_equal(kit.ops->open(&config, &p.inst, NULL), SNIB_ERR_USAGE);
    url.host = NULL;
    url.queries = 1;
    url.query[0].key = (char[]){"mode"};
    assert_int_equal(kit.ops->open(&config, &p.inst, NULL), SNIB_ERR_USAGE);
}

static void no_memory_at_open_leaves_nothing(void **state)
{
    (void)state;
    for (int64_t nth = 1; nth < 8; nth++) {
        struct peer p = {.client = {1, 2}};
        snib__mem_fail_at(nth, true);
        snib_err err = open_at(&p, path, NULL);
        snib__mem_fail_at(0, false);
        assert_true(err == SNIB_ERR_OK || err == SNIB_ERR_NOMEM);
        kit.ops->free(p.inst);
    }
}

static void execute(const char *statement)
{
    assert_int_equal(
        sqlite3_exec(self_of(0)->db.handle, statement, NULL, NULL, NULL),
        SQLITE_OK);
}

static int64_t count(const char *query)
{
    sqlite3_stmt *st;
    sqlite3_prepare_v2(self_of(0)->db.handle, query, -1, &st, NULL);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

/* Swept away it would be told to nobody, and the token that it was would be
 * given a second time. */
static void cleaner_leaves_tokens_that_are_none(void **state)
{
    static const char *const none[] = {"-9223372036854775808", "-1",
                                       "9007199254740991",
                                       "9223372036854775807", "'x'"};
    struct snib__name n = name_of("damaged");
    (void)state;
    host.wall_skew_ms = 0;
    open_peers(1);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char text[200];
        execute("DELETE FROM meta WHERE key = 'floor'");
        snprintf(text, sizeof text,
                 "INSERT INTO meta(key, value) VALUES('floor', %s)", none[i]);
        execute(text);
        snib__sqlite_cleaner(self_of(0));
        snprintf(text, sizeof text,
                 "SELECT count(*) FROM meta WHERE key = 'floor' AND value = %s",
                 none[i]);
        assert_int_equal(count(text), 1);
    }
    execute("DELETE FROM meta WHERE key = 'floor'");
    struct snib__request a = acquire(0, &n);
    end(0, &a);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char text[200];
        snprintf(text, sizeof text, "UPDATE lock SET token = %s", none[i]);
        execute(text);
        self_of(0)->host.wall_skew_ms = INT64_C(99) * 86400000;
        snib__sqlite_cleaner(self_of(0));
        assert_int_equal(count("SELECT count(*) FROM lock"), 1);
        assert_int_equal(count("SELECT count(*) FROM meta WHERE key = 'floor' "
                               "AND value != 0"),
                         0);
    }
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        STORE_CASES,
        KIND_CASES,
        CASE(parties_of_one_process_are_asked_about_once),
        CASE(another_boot_ends_all_claims_and_keeps_tokens),
        CASE(another_boot_id_while_in_use_is_refused),
        CASE(tokens_rise_though_the_clock_goes_back),
        CASE(cleaner_forgets_old_names_but_not_their_tokens),
        CASE(cleaner_leaves_tokens_that_are_none),
        CASE(first_opens_race_each_other_and_kill),
        CASE(urls_with_more_than_a_path_are_refused),
        CASE(no_memory_at_open_leaves_nothing),
    };
    return RUN(cases);
}
