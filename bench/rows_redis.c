/* bench/rows_redis.c — the rows that need a Redis server. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/* -- one thread --------------------------------------------------------------- */

void row_one_thread(void)
{
    struct finding f = {.row = "one-thread",
                        .what = "acquire+release, Redis on loopback",
                        .unit = "us",
                        .per_ratio = true,
                        .kind = GOAL_AT_MOST,
                        .goal = 1.10};
    struct snib_client *client = open_client(settings.redis_url);
    struct snib_lock *lock = open_lock(client, "bench:one");
    struct bare *b = bare_open("bench:one:bare");
    measure_alone(&f, work_of_lock(lock), work_of_bare(b));
    bare_close(b);
    snib_lock_free(lock);
    snib_client_free(client);
}

/* -- threads with a lock each ---------------------------------------------------- */

static void thread_bare(struct crowd *c, int me)
{
    char name[32];
    snprintf(name, sizeof name, "bench:b:%d", me);
    struct bare *b = bare_open(name);
    crowd_repeat(c, work_of_bare(b));
    bare_close(b);
}

static struct span threads(int n, bool bare)
{
    struct crowd *c = crowd_new();
    if (!bare) {
        c->data = open_client(settings.redis_url);
    }
    struct span s = crowd_threads(c, n, bare ? thread_bare : member_own_lock,
                                  settings.seconds);
    snib_client_free(c->data);
    crowd_free(c);
    return s;
}

static void many_threads(int n, double goal, bool cpu, const char *row)
{
    char what[64];
    snprintf(what, sizeof what, "%d threads, different locks", n);
    struct finding f = {.row = row,
                        .what = strdup(what),
                        .unit = "sections/s",
                        .per_ratio = true,
                        .kind = GOAL_AT_LEAST,
                        .goal = goal};
    struct finding g = {.row = row,
                        .what = "  the server's CPU a section",
                        .unit = "us",
                        .per_ratio = true,
                        .kind = GOAL_AT_MOST,
                        .goal = 0.5};
    for (int i = 0; i < settings.rounds; i++) {
        struct span ours = threads(n, false), base = threads(n, true);
        finding_pair(&f, span_rate(&ours), span_rate(&base));
        finding_pair(&g, span_cpu_us(&ours), span_cpu_us(&base));
    }
    report(&f);
    if (cpu) {
        report(&g);
    }
}

void row_threads(void)
{
    many_threads(2, 0.8, false, "threads");
    many_threads(4, 0.8, false, "threads");
    many_threads(8, 0.8, false, "threads");
}

void row_threads64(void)
{
    many_threads(64, 1.5, true, "threads-64");
}

/* -- processes on one lock --------------------------------------------------------- */

static struct span one_lock(int n, member *run, double seconds)
{
    struct crowd *c = crowd_new();
    c->url = settings.redis_url;
    c->name = "bench:hot";
    struct span s = crowd_processes(c, n, run, seconds);
    crowd_free(c);
    return s;
}

void row_processes64(void)
{
    struct finding f = {.row = "processes-64",
                        .what = "64 processes, one lock; publish+retry",
                        .unit = "sections/s",
                        .per_ratio = true,
                        .kind = GOAL_AT_LEAST,
                        .goal = 8};
    struct finding g = {.row = "processes-64",
                        .what = "  script calls a section",
                        .unit = "calls",
                        .kind = GOAL_AT_MOST,
                        .goal = 2.05};
    struct finding h = {.row = "processes-64",
                        .what = "  the server's CPU a section",
                        .unit = "us"};
    for (int i = 0; i < settings.rounds; i++) {
        struct span ours = one_lock(64, member_snib, settings.seconds);
        struct span base = one_lock(64, member_herd, settings.seconds);
        finding_pair(&f, span_rate(&ours), span_rate(&base));
        finding_pair(&g, span_calls(&ours), span_calls(&base));
        finding_pair(&h, span_cpu_us(&ours), span_cpu_us(&base));
    }
    report(&f);
    report(&g);
    report(&h);
}

/* With a thousand the signs of life (a poll a second each) are part of the
 * price; so the span is longer. */
void row_waiters1000(void)
{
    struct finding f = {.row = "waiters-1000",
                        .what = "1000 processes, one lock; 64 of them",
                        .unit = "sections/s",
                        .per_ratio = true,
                        .kind = GOAL_AT_LEAST,
                        .goal = 0.8};
    int rounds = settings.rounds < 3 ? settings.rounds : 3;
    for (int i = 0; i < rounds; i++) {
        struct span many = one_lock(1000, member_snib, 2 * settings.seconds);
        struct span few = one_lock(64, member_snib, 2 * settings.seconds);
        finding_pair(&f, span_rate(&many), span_rate(&few));
        report_note("waiters-1000: %.2f script calls a section with 1000, "
                    "%.2f with 64",
                    span_calls(&many), span_calls(&few));
    }
    report(&f);
}

/* -- threads of one process on one lock ----------------------------------------------- */

static void thread_hot(struct crowd *c, int me)
{
    struct snib_lock *lock = open_lock(c->data, c->name);
    (void)me;
    crowd_repeat(c, work_of_lock(lock));
    snib_lock_free(lock);
}

/* The other process: how long it waits for its turn. */
static void other_process(struct crowd *c)
{
    struct snib_client *client = open_client(c->url);
    struct snib_lock *lock = open_lock(client, c->name);
    while (!atomic_load(&c->go)) {
        pause_s(0.001);
    }
    while (!atomic_load(&c->stop)) {
        int64_t from = now_ns();
        section(lock);
        crowd_note_wait(c, (double)(now_ns() - from) / 1e3);
        pause_s(0.02);
    }
    snib_lock_free(lock);
    snib_client_free(client);
}

/* With another process beside, or alone (then *wait_ms stays). */
static double local_rate(bool upgrade_of, double *p99_ms, double *max_ms)
{
    struct crowd *c = crowd_new();
    c->url = settings.redis_url;
    c->name = "bench:local";
    pid_t pid = 0;
    if (upgrade_of &&
        (pid = fork()) == 0) { /* before there are threads        */
        other_process(c);
        _exit(0);
    }
    c->data = open_client(settings.redis_url);
    /* The other process takes its turn 50 times a second: give it time. */
    struct span s = crowd_threads(c, 64, thread_hot,
                                  settings.seconds * (upgrade_of ? 3 : 1));
    snib_client_free(c->data);
    if (upgrade_of) {
        waitpid(pid, NULL, 0);
        *p99_ms = crowd_wait_part(c, 0.99) / 1e3;
        *max_ms = crowd_wait_part(c, 1) / 1e3;
    }
    crowd_free(c);
    return span_rate(&s);
}

void row_local64(void)
{
    struct finding f = {.row = "local-64",
                        .what = "64 threads, one lock; bare round trips",
                        .unit = "sections/s",
                        .per_ratio = true,
                        .kind = GOAL_AT_LEAST,
                        .goal = 20};
    struct finding g = {.row = "local-64",
                        .what = "  same, another process beside",
                        .unit = "sections/s"};
    struct finding w = {.row = "local-64",
                        .what = "  that process' wait, p99",
                        .unit = "ms",
                        .kind = GOAL_AT_MOST,
                        .goal = 20};
    struct finding x = {.row = "local-64",
                        .what = "  that process' wait, longest",
                        .unit = "ms"};
    for (int i = 0; i < settings.rounds; i++) {
        double p99 = 0, max = 0;
        double ours = local_rate(false, NULL, NULL);
        struct bare *b = bare_open("bench:local:bare");
        double base = 1e6 / work_us(work_of_bare(b), settings.seconds);
        bare_close(b);
        finding_pair(&f, ours, base);
        finding_pair(&g, local_rate(true, &p99, &max), base);
        sample_add(&w.ours, p99);
        sample_add(&x.ours, max);
    }
    report(&f);
    report(&g);
    report(&w);
    report(&x);
}

/* -- a hundred thousand held locks ------------------------------------------------------- */

enum { HELD = 100000 };

/* Bytes in use by the main thread's heap and what it mapped. */
static double heap_bytes(void)
{
    struct mallinfo2 m = mallinfo2();
    return (double)m.uordblks + (double)m.hblkhd;
}

static double resident_bytes(void)
{
    long pages = 0, ignored;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f) {
        if (fscanf(f, "%ld %ld", &ignored, &pages) != 2) {
            pages = 0;
        }
        fclose(f);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static int count_held(struct snib_lock *const *lock,
                      const struct snib_grant *grant)
{
    int held = 0;
    for (int i = 0; i < HELD; i++) {
        held += snib_grant_held(lock[i], grant[i]);
    }
    return held;
}

void row_held(void)
{
    struct finding f = {.row = "held-100000",
                        .what = "renewals' share of one server core",
                        .unit = "%",
                        .kind = GOAL_AT_MOST,
                        .goal = 5};
    struct finding g = {.row = "held-100000",
                        .what = "client memory each (heap)",
                        .unit = "bytes",
                        .kind = GOAL_AT_MOST,
                        .goal = 512};
    struct snib_lock **lock = calloc(HELD, sizeof *lock);
    struct snib_grant *grant = calloc(HELD, sizeof *grant);
    struct snib_client *client = open_client(settings.redis_url);
    struct snib_error e;
    char name[40];
    if (!lock || !grant) {
        die("no memory");
    }
    double heap = heap_bytes(), resident = resident_bytes();
    for (int i = 0; i < HELD; i++) {
        snprintf(name, sizeof name, "bench:held:%06d:padded-to-32-b", i);
        lock[i] = open_lock(client, name);
        if (snib_acquire(lock[i], NULL, &grant[i], &e)) {
            die("%s: %s", snib_err_name(e.code), e.text);
        }
    }
    sample_add(&g.ours, (heap_bytes() - heap) / HELD);
    report_note("held-100000: %.0f resident bytes each",
                (resident_bytes() - resident) / HELD);
    pause_s(10); /* the first renewals are over                             */
    double client_cpu = cpu_of(getpid());
    struct server before = server_now();
    double from = now_s();
    pause_s(20); /* two renewals of each                                    */
    struct server after = server_now();
    double span = now_s() - from;
    sample_add(&f.ours, (after.cpu - before.cpu) / span * 100);
    report_note("held-100000: %d still held; %.1f script calls/s; the client "
                "used %.1f %% of a core",
                count_held(lock, grant),
                (double)(after.calls - before.calls) / span,
                (cpu_of(getpid()) - client_cpu) / span * 100);
    for (int i = 0; i < HELD; i++) {
        snib_lock_free(lock[i]); /* releases behind our back                */
    }
    snib_client_free(client);
    free(lock);
    free(grant);
    server_flush();
    report(&f);
    report(&g);
}
