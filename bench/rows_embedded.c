/* bench/rows_embedded.c — the rows of the embedded store, and snib run. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

extern char **environ;

static const char *embedded_url(void)
{
    static char url[4200];
    snprintf(url, sizeof url, "file:%s/locks.db", settings.dir);
    return url;
}

/* -- uncontended ------------------------------------------------------------- */

static double snib_rate(double seconds)
{
    struct snib_client *client = open_client(embedded_url());
    struct snib_lock *lock = open_lock(client, "bench:embedded");
    double from, end;
    long n = 0;
    section(lock);
    from = now_s();
    for (end = from + seconds; now_s() < end;) {
        for (int i = 0; i < 100; i++, n++) {
            section(lock);
        }
    }
    double rate = (double)n / (now_s() - from);
    snib_lock_free(lock);
    snib_client_free(client);
    return rate;
}

static void run_sql(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        die("sqlite: %s", sqlite3_errmsg(db));
    }
}

static void step(sqlite3 *db, sqlite3_stmt *st)
{
    if (sqlite3_step(st) != SQLITE_DONE) {
        die("sqlite: %s", sqlite3_errmsg(db));
    }
    sqlite3_reset(st);
}

/* What SQLite itself costs: two transactions of one row each, same settings.
 * No reads, no token, no queue. */
static double bare_rate(double seconds)
{
    static const char *const sql[] = {
        "BEGIN IMMEDIATE", "INSERT INTO held VALUES ('bench', 1)",  "COMMIT",
        "BEGIN IMMEDIATE", "DELETE FROM held WHERE name = 'bench'", "COMMIT"};
    sqlite3_stmt *st[6];
    char path[4200];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/bare.db", settings.dir);
    if (sqlite3_open(path, &db) != SQLITE_OK) {
        die("sqlite: %s", path);
    }
    run_sql(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                "CREATE TABLE IF NOT EXISTS held (name PRIMARY KEY, token)"
                " WITHOUT ROWID");
    for (int i = 0; i < 6; i++) {
        if (sqlite3_prepare_v2(db, sql[i], -1, &st[i], NULL) != SQLITE_OK) {
            die("sqlite: %s", sqlite3_errmsg(db));
        }
    }
    double from = now_s(), end = from + seconds;
    long n = 0;
    while (now_s() < end) {
        for (int k = 0; k < 100; k++, n++) {
            for (int i = 0; i < 6; i++) {
                step(db, st[i]);
            }
        }
    }
    double rate = (double)n / (now_s() - from);
    for (int i = 0; i < 6; i++) {
        sqlite3_finalize(st[i]);
    }
    sqlite3_close(db);
    return rate;
}

void row_embedded(void)
{
    struct finding f = {.row = "embedded",
                        .what = "acquire+release; bare SQLite",
                        .unit = "sections/s",
                        .kind = GOAL_AT_LEAST,
                        .goal = 30000};
    for (int i = 0; i < settings.rounds; i++) {
        double ours = snib_rate(settings.seconds);
        finding_pair(&f, ours, bare_rate(settings.seconds));
    }
    report(&f);
}

/* -- hand-over ---------------------------------------------------------------- */

void row_handover(void)
{
    struct finding f = {.row = "handover-16",
                        .what = "16 processes, one lock",
                        .unit = "sections/s"};
    struct finding g = {
        .row = "handover-16", .what = "  hand-over, p50", .unit = "ms"};
    struct finding h = {.row = "handover-16",
                        .what = "  hand-over, p99",
                        .unit = "ms",
                        .kind = GOAL_AT_MOST,
                        .goal = 0.5};
    for (int i = 0; i < settings.rounds; i++) {
        struct crowd *c = crowd_new();
        c->url = embedded_url();
        c->name = "bench:handover";
        struct span s = crowd_processes(c, 16, member_snib, settings.seconds);
        sample_add(&f.ours, (double)s.sections / s.seconds);
        sample_add(&g.ours, crowd_wait_part(c, 0.5) / 1e3);
        sample_add(&h.ours, crowd_wait_part(c, 0.99) / 1e3);
        crowd_free(c);
    }
    report(&f);
    report(&g);
    report(&h);
}

/* -- waiting costs nothing ------------------------------------------------------ */

enum { WAITERS = 15 };

static pid_t start_waiter(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        struct snib_client *client = open_client(embedded_url());
        struct snib_lock *lock = open_lock(client, "bench:idle");
        section(lock);
        snib_lock_free(lock);
        snib_client_free(client);
        _exit(0);
    }
    return pid;
}

void row_idle(void)
{
    struct finding f = {.row = "idle",
                        .what = "15 waiters' CPU together",
                        .unit = "% of a core",
                        .kind = GOAL_AT_MOST,
                        .goal = 1};
    pid_t pid[WAITERS];
    double cpu = 0;
    for (int i = 0; i < WAITERS; i++) {
        pid[i] = 0;
    }
    /* The holder is this process; its waiters are forked before it opens. */
    struct crowd *c = crowd_new();
    pid_t holder = fork();
    if (holder == 0) {
        struct snib_client *client = open_client(embedded_url());
        struct snib_lock *lock = open_lock(client, "bench:idle");
        struct snib_grant g;
        if (snib_acquire(lock, NULL, &g, NULL)) {
            die("idle: the holder could not acquire");
        }
        atomic_store(&c->go, true);
        while (!atomic_load(&c->stop)) {
            pause_s(0.01);
        }
        snib_release(lock, g, NULL);
        snib_lock_free(lock);
        snib_client_free(client);
        _exit(0);
    }
    while (!atomic_load(&c->go)) {
        pause_s(0.001);
    }
    for (int i = 0; i < WAITERS; i++) {
        pid[i] = start_waiter();
    }
    pause_s(1);
    for (int i = 0; i < WAITERS; i++) {
        cpu -= cpu_of(pid[i]);
    }
    double from = now_s();
    pause_s(10);
    for (int i = 0; i < WAITERS; i++) {
        cpu += cpu_of(pid[i]);
    }
    sample_add(&f.ours, cpu / (now_s() - from) * 100);
    atomic_store(&c->stop, true);
    waitpid(holder, NULL, 0);
    for (int i = 0; i < WAITERS; i++) {
        waitpid(pid[i], NULL, 0);
    }
    crowd_free(c);
    report(&f);
}

/* -- snib run -------------------------------------------------------------------- */

static double run_ms(const char *const argv[])
{
    pid_t pid;
    int status;
    double from = now_s();
    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ) !=
        0) {
        die("%s: %s", argv[0], strerror(errno));
    }
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        die("%s ended with status %d", argv[0], status);
    }
    return (now_s() - from) * 1e3;
}

void row_run(void)
{
    enum { TIMES = 60 };
    static char file[4200];
    snprintf(file, sizeof file, "%s/flock", settings.dir);
    const char *ours[] = {settings.snib, "run",  "bench:run",
                          "--",          "true", NULL};
    const char *base[] = {"flock", file, "true", NULL};
    struct finding f = {.row = "run",
                        .what = "snib run N -- true; flock F true",
                        .unit = "ms",
                        .per_ratio = true,
                        .kind = GOAL_AT_MOST,
                        .goal = 2};
    setenv("SNIB_URL", embedded_url(), 1);
    run_ms(ours);
    run_ms(base);
    for (int i = 0; i < settings.rounds; i++) {
        double a[TIMES], b[TIMES];
        for (int k = 0; k < TIMES; k++) {
            a[k] = run_ms(ours);
            b[k] = run_ms(base);
        }
        qsort(a, TIMES, sizeof *a, by_double);
        qsort(b, TIMES, sizeof *b, by_double);
        finding_pair(&f, at_part(a, TIMES, 0.5), at_part(b, TIMES, 0.5));
    }
    report(&f);
}
