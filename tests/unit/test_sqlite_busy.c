/* tests/unit/test_sqlite_busy.c — who cannot write is told why: somebody stands
 * still inside a write, or many writes go on. Only of the former is it said that
 * it may be killed. */
#include "sqlite_store.h"

#include <time.h>

enum { SLICE_MS = 15, LOOKS = 60 }; /* 900 ms */

struct writer {
    pid_t pid;
    int to, from;
};

static void must(sqlite3 *db, const char *text)
{
    if (sqlite3_exec(db, text, NULL, NULL, NULL)) {
        _exit(1);
    }
}

/* Another process inside a write. With each byte it commits, and is inside the
 * next one. If it works, it uses the processor meanwhile. */
static void write_on(int to, int from, bool works)
{
    sqlite3 *db;
    char c;
    if (sqlite3_open(path, &db)) {
        _exit(1);
    }
    sqlite3_busy_timeout(db, 2000);
    for (;;) {
        must(db, "BEGIN IMMEDIATE; "
                 "INSERT INTO meta(key, value) VALUES('some', 1) "
                 "ON CONFLICT(key) DO UPDATE SET value = value + 1");
        if (write(from, "x", 1) != 1) {
            _exit(1);
        }
        ssize_t n;
        do {
            n = read(to, &c, 1);
        } while (works && n < 0 && errno == EAGAIN);
        if (n != 1) {
            _exit(0);
        }
        must(db, "COMMIT");
    }
}

static void hear(const struct writer *w)
{
    char c;
    assert_int_equal(read(w->from, &c, 1), 1);
}

static struct writer writer(bool works)
{
    int to[2], from[2];
    assert_int_equal(pipe(to) | pipe(from), 0);
    struct writer w = {.pid = fork(), .to = to[1], .from = from[0]};
    if (w.pid == 0) {
        close(to[1]);
        close(from[0]);
        fcntl(to[0], F_SETFL, works ? O_NONBLOCK : 0);
        write_on(to[0], from[1], works);
    }
    close(to[0]);
    close(from[1]);
    hear(&w);
    return w;
}

static void end_writer(struct writer *w)
{
    int status;
    close(w->to);
    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    assert_int_equal(status, 0);
    close(w->from);
}

/* One try for the write lock, and what is told then. */
static const char *try_in_vain(int peer)
{
    static struct snib_error e;
    struct snib__db *db = &self_of(peer)->db;
    snib_instant until = snib__after(snib__host_now(), snib__ms(SLICE_MS));
    int rc = snib__db_begin(db, until);
    assert_int_equal(rc, SQLITE_BUSY);
    assert_int_equal(snib__db_fail(db, rc, path, &e), SNIB_ERR_STORE);
    assert_non_null(strstr(e.text, path));
    return e.text;
}

static void says(const char *text, const char *word, bool expected)
{
    if (!strstr(text, word) == expected) {
        fail_msg("\"%s\" %s \"%s\"", text, expected ? "lacks" : "says", word);
    }
}

static void is_not_blamed(const char *text)
{
    says(text, "stands still inside", false);
    says(text, "kill", false);
}

static void who_writes_again_and_again_is_not_told_to_be_killed(void **state)
{
    (void)state;
    open_peers(1);
    struct writer w = writer(false);
    is_not_blamed(try_in_vain(0));
    for (int i = 0; i < LOOKS; i++) {
        assert_int_equal(write(w.to, "x", 1), 1);
        hear(&w);
        const char *text = try_in_vain(0);
        is_not_blamed(text);
        says(text, "many writes go on", true);
    }
    end_writer(&w);
}

static void who_works_inside_a_write_is_not_told_to_be_killed(void **state)
{
    char who[40];
    (void)state;
    open_peers(1);
    struct writer w = writer(true);
    snprintf(who, sizeof who, "process %d is inside a write", (int)w.pid);
    for (int i = 0; i < LOOKS; i++) {
        const char *text = try_in_vain(0);
        is_not_blamed(text);
        says(text, who, true);
    }
    end_writer(&w);
}

static void who_stands_still_is_named_after_a_while(void **state)
{
    char who[40];
    (void)state;
    open_peers(1);
    struct writer w = writer(false);
    snprintf(who, sizeof who, "process %d ", (int)w.pid);
    snib_instant from = snib__host_now();
    const char *text = try_in_vain(0);
    is_not_blamed(text);
    says(text, who, true);
    for (int i = 0; i < LOOKS; i++) {
        text = try_in_vain(0);
        if (snib__between(from, snib__host_now()).ns < 400000000) {
            is_not_blamed(text);
        }
    }
    says(text, "stands still inside a write", true);
    says(text, "kill", true);
    says(text, who, true);
    /* A commit, and all begins anew. */
    assert_int_equal(write(w.to, "x", 1), 1);
    hear(&w);
    is_not_blamed(try_in_vain(0));
    end_writer(&w);
    /* The lock was had: so it does. */
    assert_int_equal(snib__db_begin(&self_of(0)->db, snib__host_now()),
                     SQLITE_OK);
    snib__db_rollback(&self_of(0)->db);
}

static void who_is_stopped_is_named_at_once(void **state)
{
    char who[40];
    int status;
    (void)state;
    open_peers(1);
    struct writer w = writer(false);
    kill(w.pid, SIGSTOP);
    assert_int_equal(waitpid(w.pid, &status, WUNTRACED), w.pid);
    snprintf(who, sizeof who, "process %d (stopped)", (int)w.pid);
    const char *text = try_in_vain(0);
    says(text, who, true);
    says(text, "continue or kill it", true);
    kill(w.pid, SIGCONT);
    end_writer(&w);
}

static void the_callers_own_process_is_never_told_to_be_killed(void **state)
{
    char who[40];
    (void)state;
    open_peers(2);
    snprintf(who, sizeof who, "process %d", (int)getpid());
    assert_int_equal(snib__db_begin(&self_of(1)->db, snib__host_now()),
                     SQLITE_OK);
    for (int i = 0; i < LOOKS; i++) {
        const char *text = try_in_vain(0);
        is_not_blamed(text);
        says(text, who, false);
        says(text, "another client of this process", true);
    }
    snib__db_rollback(&self_of(1)->db);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(who_writes_again_and_again_is_not_told_to_be_killed),
        CASE(who_works_inside_a_write_is_not_told_to_be_killed),
        CASE(who_stands_still_is_named_after_a_while),
        CASE(who_is_stopped_is_named_at_once),
        CASE(the_callers_own_process_is_never_told_to_be_killed),
    };
    return RUN(cases);
}
