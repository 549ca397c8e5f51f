/* tests/live/sqlite_stress.c — many processes on one lock file.
 *
 *   sqlite_stress cycles   [-d DIR] [-t SECONDS]
 *   sqlite_stress handover [-d DIR] [-t SECONDS] [-p PROCESSES]
 *   sqlite_stress kill     [-d DIR] [-t SECONDS] [-p PROCESSES] [-l LOCKS]
 *
 * cycles: acquire+release by one process. handover: all on one lock; time
 * from the start of a release until the next holder runs. kill: the same on a
 * few locks, while a parent kills processes with -9 at random instants and
 * starts new ones.
 *
 * Judged in every mode: a witness in shared memory sees no two live processes
 * inside one lock, and tokens only rise; afterwards integrity_check says ok
 * and the -wal has stayed below 64 MiB.
 * No flock anywhere. Exit 0: all held; 1: a promise broken. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store/sqlite/sqlite.h"

enum { LOCKS_MAX = 16, PROCS_MAX = 64, SAMPLES = 400000, LEASE_MS = 2000 };

struct witness {
    struct {
        _Atomic int64_t inside; /* pid, 0: nobody */
        _Atomic int64_t token;
        _Atomic int64_t released_at; /* ns; start of the last release */
        _Atomic uint64_t sections;
    } lock[LOCKS_MAX];
    _Atomic int stop;
    _Atomic uint64_t overlaps, falls, errors, kills, taken_over, timeouts;
    _Atomic uint32_t samples;
    int32_t us10[SAMPLES]; /* hand-over in 0.1 us */
};

static struct witness *w;
static char dir[200] = "/tmp", path[300];
static int seconds = 5, procs = 16, locks = 1;
static bool slow; /* sections last: somebody is killed inside */

static int64_t ns_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t dice(uint64_t *s)
{
    *s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *s >> 33;
}

/* -- a client without an engine ------------------------------------------------- */

struct client {
    void *store;
    struct snib__out out;
    uint64_t seed, id[2];
};

static bool open_client(struct client *c)
{
    struct snib_error e = {0};
    struct snib__url url = {.path = path, .scheme = (char[]){"sqlite"}};
    c->seed = (uint64_t)ns_now() ^ ((uint64_t)getpid() << 40);
    c->id[0] = dice(&c->seed) << 32 | dice(&c->seed);
    c->id[1] = (uint64_t)getpid();
    struct snib__store_config config = {
        .url = &url,
        .out = &c->out,
        .request = snib__ms(2000),
        .client = {c->id[0], c->id[1]},
    };
    if (snib__sqlite_ops.open(&config, &c->store, &e)) {
        fprintf(stderr, "open: %s\n", e.text);
        return false;
    }
    return true;
}

static void exec(struct client *c, struct snib__request *r)
{
    struct snib__list chain;
    do {
        snib__list_init(&chain);
        snib__link_init(&r->link);
        snib__list_push(&chain, &r->link);
        snib__sqlite_ops.exec(c->store, (snib_instant){ns_now()}, &chain);
        snib__unlink(&r->link);
    } while (r->said.answer == SNIB__PENDING && ns_now() < r->limit.ns);
}

static void wait_bell(struct client *c, int64_t ms)
{
    struct pollfd p = {.fd = snib__sqlite_ops.notifier_fd(c->store),
                       .events = POLLIN};
    uint64_t ids[32][2];
    if (poll(&p, p.fd >= 0, ms < 10 ? 10 : ms > 1000 ? 1000 : (int)ms) > 0) {
        (void)snib__sqlite_ops.notified(c->store, ids, 32);
    }
}

/* Returns whether it had to wait; the request holds id and token. */
static bool acquire(struct client *c, const struct snib__name *name,
                    struct snib__request *r)
{
    bool waited = false;
    *r = (struct snib__request){
        .verb = SNIB__ACQUIRE,
        .name = name,
        .id = {c->id[0] ^ (dice(&c->seed) << 31),
               dice(&c->seed) << 31 ^ dice(&c->seed)},
        .acquire.may_queue = true,
        .lease = snib__ms(LEASE_MS),
        .limit = snib__after((snib_instant){ns_now()}, snib__ms(60000)),
        .exec.patience = SNIB__NEVER,
        .text = "host=here&pid=1&program=stress",
        .text_size = 30,
    };
    for (;;) {
        exec(c, r);
        if (r->said.answer != SNIB__QUEUED) {
            return waited;
        }
        waited = true;
        wait_bell(c, r->said.left.ns / 1000000 + 1);
    }
}

static void release(struct client *c, struct snib__request *r)
{
    r->verb = SNIB__RELEASE;
    r->said.answer = SNIB__PENDING;
    r->exec.patience = r->limit =
        snib__after((snib_instant){ns_now()}, snib__ms(60000));
    exec(c, r);
}

/* -- the witness ------------------------------------------------------------------ */

static bool is_alive(int64_t pid)
{
    char file[40], text[256] = "", *p;
    snprintf(file, sizeof file, "/proc/%lld/stat", (long long)pid);
    int fd = open(file, O_RDONLY);
    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    p = n > 0 ? strrchr(text, ')') : NULL;
    return p && p[1] && p[2] != 'Z' && p[2] != 'X';
}

static void enter(int k, const struct snib__request *r)
{
    int64_t before = atomic_exchange(&w->lock[k].inside, getpid());
    if (before && before != getpid()) {
        if (is_alive(before)) {
            atomic_fetch_add(&w->overlaps, 1);
            fprintf(stderr, "OVERLAP: %lld inside, %d enters with %lld\n",
                    (long long)before, getpid(), (long long)r->token);
        } else {
            atomic_fetch_add(&w->taken_over, 1);
        }
    }
    int64_t last = atomic_exchange(&w->lock[k].token, r->token);
    if (last >= r->token) {
        atomic_fetch_add(&w->falls, 1);
        fprintf(stderr, "TOKEN: %lld after %lld\n", (long long)r->token,
                (long long)last);
    }
    atomic_fetch_add(&w->lock[k].sections, 1);
}

static void leave(int k)
{
    int64_t me = getpid();
    if (!atomic_compare_exchange_strong(&w->lock[k].inside, &me, 0)) {
        atomic_fetch_add(&w->overlaps, 1);
        fprintf(stderr, "OVERLAP: %lld came in while %d was inside\n",
                (long long)me, getpid());
    }
}

static void sample(int64_t ns)
{
    uint32_t i = atomic_fetch_add(&w->samples, 1);
    if (i < SAMPLES && ns >= 0) {
        w->us10[i] = (int32_t)(ns / 100);
    }
}

/* -- work -------------------------------------------------------------------------- */

static void work(struct snib__name *names)
{
    struct client c = {0};
    struct snib__request r;
    if (!open_client(&c)) {
        _exit(3);
    }
    while (!atomic_load(&w->stop)) {
        int k = (int)(dice(&c.seed) % (unsigned)locks);
        bool waited = acquire(&c, &names[k], &r);
        if (r.said.answer != SNIB__DONE ||
            ns_now() > snib__after(r.said.valid_from, r.said.left).ns) {
            atomic_fetch_add(&w->timeouts, 1);
            continue;
        }
        int64_t from = atomic_load(&w->lock[k].released_at);
        if (waited && from) {
            sample(ns_now() - from);
        }
        enter(k, &r);
        if (slow) {
            usleep((useconds_t)(dice(&c.seed) % 2000));
        }
        leave(k);
        atomic_store(&w->lock[k].released_at, ns_now());
        release(&c, &r);
        if (r.said.answer != SNIB__DONE) {
            atomic_fetch_add(&w->errors, 1);
            fprintf(stderr, "release: %d %s\n", (int)r.said.answer,
                    snib_err_name(r.said.err));
        }
    }
    snib__sqlite_ops.free(c.store);
    _exit(0);
}

static pid_t start(struct snib__name *names)
{
    pid_t pid = fork();
    if (pid == 0) {
        work(names);
    }
    return pid;
}

static void run_processes(struct snib__name *names, bool kills)
{
    pid_t pid[PROCS_MAX];
    int status;
    uint64_t seed = (uint64_t)ns_now();
    for (int i = 0; i < procs; i++) {
        pid[i] = start(names);
    }
    int64_t end = ns_now() + seconds * INT64_C(1000000000);
    while (ns_now() < end) {
        usleep(kills ? (useconds_t)(dice(&seed) % 8000) : 50000);
        if (kills) {
            int i = (int)(dice(&seed) % (unsigned)procs);
            kill(pid[i], SIGKILL);
            waitpid(pid[i], &status, 0);
            atomic_fetch_add(&w->kills, 1);
            pid[i] = start(names);
        }
    }
    atomic_store(&w->stop, 1);
    for (int i = 0; i < procs; i++) {
        waitpid(pid[i], &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status)) {
            atomic_fetch_add(&w->errors, 1);
        }
    }
}

static int compare(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

static void report(double elapsed)
{
    uint64_t sections = 0;
    for (int k = 0; k < locks; k++) {
        sections += atomic_load(&w->lock[k].sections);
    }
    printf("sections %llu (%.0f/s), kills %llu, taken over from the dead %llu,"
           " not granted %llu\n",
           (unsigned long long)sections, (double)sections / elapsed,
           (unsigned long long)w->kills, (unsigned long long)w->taken_over,
           (unsigned long long)w->timeouts);
    uint32_t n = w->samples < SAMPLES ? w->samples : SAMPLES;
    if (n) {
        qsort(w->us10, n, sizeof w->us10[0], compare);
        printf("hand-over us: p50 %.1f p99 %.1f p99.9 %.1f max %.1f (%u)\n",
               w->us10[n / 2] / 10.0, w->us10[(uint64_t)n * 99 / 100] / 10.0,
               w->us10[(uint64_t)n * 999 / 1000] / 10.0, w->us10[n - 1] / 10.0,
               n);
    }
}

static bool file_is_sound(void)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    bool ok = false;
    struct stat s;
    char wal[320];
    if (sqlite3_open(path, &db) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &st, NULL) ==
            SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW) {
        ok = !strcmp((const char *)sqlite3_column_text(st, 0), "ok");
        printf("integrity_check: %s\n", sqlite3_column_text(st, 0));
        sqlite3_finalize(st);
    }
    snprintf(wal, sizeof wal, "%s-wal", path);
    long long kib = stat(wal, &s) ? -1 : (long long)s.st_size / 1024;
    printf("wal: %lld KiB\n", kib);
    sqlite3_close(db);
    return ok && kib < 65536;
}

static void cycles(struct snib__name *name)
{
    struct client c = {0};
    struct snib__request r;
    int32_t *us = w->us10;
    uint32_t n = 0;
    if (!open_client(&c)) {
        exit(3);
    }
    int64_t begin = ns_now(), end = begin + seconds * INT64_C(1000000000), t;
    int64_t before = begin;
    uint64_t count = 0;
    while ((t = ns_now()) < end) {
        acquire(&c, name, &r);
        enter(0, &r);
        leave(0);
        release(&c, &r);
        count++;
        if (n < SAMPLES) {
            us[n++] = (int32_t)((t - before) / 100);
        }
        before = t;
    }
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("CPU us a cycle: user %.1f system %.1f\n",
           ((double)u.ru_utime.tv_sec * 1e6 + (double)u.ru_utime.tv_usec) /
               (double)count,
           ((double)u.ru_stime.tv_sec * 1e6 + (double)u.ru_stime.tv_usec) /
               (double)count);
    qsort(us, n, sizeof us[0], compare);
    printf("cycles/s %.0f; us p50 %.1f p99 %.1f max %.1f\n",
           (double)count * 1e9 / (double)(t - begin), us[n / 2] / 10.0,
           us[(uint64_t)n * 99 / 100] / 10.0, us[n - 1] / 10.0);
    snib__sqlite_ops.free(c.store);
}

int main(int argc, char **argv)
{
    static struct snib__name names[LOCKS_MAX];
    static char text[LOCKS_MAX][16];
    const char *mode = argc > 1 ? argv[1] : "kill";
    int opt;
    optind = 2;
    while ((opt = getopt(argc, argv, "d:t:p:l:")) != -1) {
        switch (opt) {
        case 'd':
            snprintf(dir, sizeof dir, "%s", optarg);
            break;
        case 't':
            seconds = atoi(optarg);
            break;
        case 'p':
            procs = atoi(optarg) < PROCS_MAX ? atoi(optarg) : PROCS_MAX;
            break;
        case 'l':
            locks = atoi(optarg) < LOCKS_MAX ? atoi(optarg) : LOCKS_MAX;
            break;
        default:
            return 64;
        }
    }
    w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char made[260];
    snprintf(made, sizeof made, "%s/snib-stress-XXXXXX", dir);
    if (w == MAP_FAILED || !mkdtemp(made)) {
        perror(made);
        return 3;
    }
    snprintf(path, sizeof path, "%s/locks.db", made);
    for (int k = 0; k < LOCKS_MAX; k++) {
        int n = snprintf(text[k], sizeof text[k], "lock-%d", k);
        names[k] = (struct snib__name){.raw = text[k],
                                       .safe = text[k],
                                       .raw_size = (uint32_t)n,
                                       .safe_size = (uint32_t)n,
                                       .hash = (uint64_t)k};
    }
    slow = strcmp(mode, "kill") == 0;
    int64_t begin = ns_now();
    if (strcmp(mode, "cycles") == 0) {
        cycles(&names[0]);
    } else {
        run_processes(names, slow);
    }
    if (strcmp(mode, "cycles") != 0) {
        report((double)(ns_now() - begin) / 1e9);
    }
    bool ok = file_is_sound() && !w->overlaps && !w->falls && !w->errors;
    printf("%s: overlaps %llu, falling tokens %llu, errors %llu\n",
           ok ? "held" : "BROKEN", (unsigned long long)w->overlaps,
           (unsigned long long)w->falls, (unsigned long long)w->errors);
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", made);
    if (ok && system(command)) {
        perror("rm");
    }
    return ok ? 0 : 1;
}
