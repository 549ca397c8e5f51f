/* bench/rows_file.c — the rows of the embedded store beside flock(2). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static const char *file_url(void)
{
    static char url[4200];
    snprintf(url, sizeof url, "file:%s/locks.file", settings.dir);
    return url;
}

/* -- flock(2) ------------------------------------------------------------------- */

static int flock_open(void)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/flock", settings.dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        die("%s: %s", path, strerror(errno));
    }
    return fd;
}

static void flock_section(void *data)
{
    int fd = *(int *)data;
    if (flock(fd, LOCK_EX) || flock(fd, LOCK_UN)) {
        die("flock: %s", strerror(errno));
    }
}

/* Changes of owner are counted: flock gives the lock back to who released it. */
static atomic_int *last_owner;
static atomic_ullong *changes;

static void note_owner(struct crowd *c, int me)
{
    int64_t now = now_ns(), released = atomic_load(&c->released_ns);
    if (released) {
        crowd_note_wait(c, (double)(now - released) / 1e3);
    }
    if (atomic_exchange(last_owner, me) != me &&
        atomic_load_explicit(&c->keep, memory_order_relaxed)) {
        atomic_fetch_add(changes, 1);
    }
    atomic_fetch_add(&c->sections, 1);
    atomic_store(&c->released_ns, now_ns());
}

static void member_flock(struct crowd *c, int me)
{
    int fd = flock_open();
    crowd_wait(c);
    while (!atomic_load(&c->stop)) {
        if (flock(fd, LOCK_EX)) {
            die("flock: %s", strerror(errno));
        }
        note_owner(c, me);
        flock(fd, LOCK_UN);
    }
    close(fd);
}

static void member_file(struct crowd *c, int me)
{
    struct snib_client *client = open_client(c->url);
    struct snib_lock *lock = open_lock(client, c->name);
    struct snib_grant g;
    struct snib_error e;
    crowd_wait(c);
    while (!atomic_load(&c->stop)) {
        if (snib_acquire(lock, NULL, &g, &e)) {
            die("%s: %s", snib_err_name(e.code), e.text);
        }
        note_owner(c, me);
        if (snib_release(lock, g, &e)) {
            die("%s: %s", snib_err_name(e.code), e.text);
        }
    }
    snib_lock_free(lock);
    snib_client_free(client);
}

/* -- uncontended ------------------------------------------------------------------ */

static double rate_of(struct work w, double seconds)
{
    return 1e6 / work_us(w, seconds);
}

void row_file(void)
{
    struct finding f = {.row = "file",
                        .what = "acquire+release; flock(2)",
                        .unit = "sections/s",
                        .per_ratio = true,
                        .kind = GOAL_AT_LEAST,
                        .goal = 0.5};
    struct finding h = {
        .row = "file", .what = "  the same; memory:", .unit = "sections/s"};
    struct snib_client *client[2] = {open_client(file_url()),
                                     open_client("memory:bench")};
    struct work w[2];
    int fd = flock_open();
    for (int i = 0; i < 2; i++) {
        w[i] = work_of_lock(open_lock(client[i], "bench:file"));
        work_us(w[i], 0.1);
    }
    for (int i = 0; i < settings.rounds; i++) {
        double ours = rate_of(w[0], settings.seconds);
        struct work base = {flock_section, &fd, 1};
        finding_pair(&f, ours, rate_of(base, settings.seconds));
        finding_pair(&h, ours, rate_of(w[1], settings.seconds));
    }
    report(&f);
    report(&h);
    for (int i = 0; i < 2; i++) {
        snib_client_free(client[i]);
    }
    close(fd);
}

/* -- 16 processes ------------------------------------------------------------------- */

static double changes_of(member *run, const char *url, double *ret_p50,
                         double *ret_p99)
{
    struct crowd *c = crowd_new();
    c->url = url;
    c->name = "bench:file-handover";
    atomic_store(last_owner, -1);
    atomic_store(changes, 0);
    struct span s = crowd_processes(c, 16, run, settings.seconds);
    *ret_p50 = crowd_wait_part(c, 0.5) / 1e3;
    *ret_p99 = crowd_wait_part(c, 0.99) / 1e3;
    crowd_free(c);
    return (double)atomic_load(changes) / s.seconds;
}

static void share_counters(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        die("no memory");
    }
    last_owner = p;
    changes = (atomic_ullong *)p + 64;
}

void row_file_handover(void)
{
    struct finding f = {.row = "file-16",
                        .what = "16 processes, one lock; flock(2)",
                        .unit = "changes of owner/s",
                        .per_ratio = true,
                        .kind = GOAL_AT_LEAST,
                        .goal = 1};
    struct finding p50 = {
        .row = "file-16", .what = "  hand-over, p50", .unit = "ms"};
    struct finding p99 = {.row = "file-16",
                          .what = "  hand-over, p99",
                          .unit = "ms",
                          .kind = GOAL_AT_MOST,
                          .goal = 0.5};
    share_counters();
    for (int i = 0; i < settings.rounds; i++) {
        double a, b, none;
        double ours = changes_of(member_file, file_url(), &a, &b);
        sample_add(&p50.ours, a);
        sample_add(&p99.ours, b);
        finding_pair(&f, ours, changes_of(member_flock, "", &none, &none));
    }
    report(&f);
    report(&p50);
    report(&p99);
}

/* -- a waiter that has waited --------------------------------------------------------- */

/* Two take turns, each holds for 0.1 to 0.4 s: the other has waited as long. */
static void hold_a_while(struct crowd *c, int me)
{
    pause_s(0.1 +
            0.02 *
                (double)((atomic_load(&c->sections) * 7 + (unsigned)me) % 15));
}

static void note_handed(struct crowd *c)
{
    int64_t now = now_ns(), released = atomic_load(&c->released_ns);
    if (released) {
        crowd_note_wait(c, (double)(now - released) / 1e3);
    }
    atomic_fetch_add(&c->sections, 1);
}

static void member_waits_flock(struct crowd *c, int me)
{
    int fd = flock_open();
    crowd_wait(c);
    while (!atomic_load(&c->stop)) {
        flock(fd, LOCK_EX);
        note_handed(c);
        hold_a_while(c, me);
        atomic_store(&c->released_ns, now_ns());
        flock(fd, LOCK_UN);
        pause_s(0.01); /* the other one has it by then */
    }
    close(fd);
}

static void member_waits(struct crowd *c, int me)
{
    struct snib_client *client = open_client(c->url);
    struct snib_lock *lock = open_lock(client, c->name);
    struct snib_grant g;
    struct snib_error e;
    crowd_wait(c);
    while (!atomic_load(&c->stop)) {
        if (snib_acquire(lock, NULL, &g, &e)) {
            die("%s: %s", snib_err_name(e.code), e.text);
        }
        note_handed(c);
        hold_a_while(c, me);
        atomic_store(&c->released_ns, now_ns());
        snib_release(lock, g, NULL);
        pause_s(0.01);
    }
    snib_lock_free(lock);
    snib_client_free(client);
}

static double waited(member *run, const char *url, double *ret_p99)
{
    struct crowd *c = crowd_new();
    c->url = url;
    c->name = "bench:file-waited";
    /* some thirty hand-overs */
    (void)crowd_processes(c, 2, run, 8 * settings.seconds);
    double p50 = crowd_wait_part(c, 0.5) / 1e3;
    *ret_p99 = crowd_wait_part(c, 0.99) / 1e3;
    crowd_free(c);
    return p50;
}

void row_file_waited(void)
{
    struct finding f = {.row = "file-waited",
                        .what = "hand-over after a wait, p50; flock(2)",
                        .unit = "ms",
                        .per_ratio = true,
                        .kind = GOAL_AT_MOST,
                        .goal = 2};
    struct finding h = {.row = "file-waited",
                        .what = "  p99; flock(2)",
                        .unit = "ms",
                        .kind = GOAL_AT_MOST,
                        .goal = 0.5};
    for (int i = 0; i < settings.rounds; i++) {
        double ours99, base99;
        double ours = waited(member_waits, file_url(), &ours99);
        double base = waited(member_waits_flock, "", &base99);
        finding_pair(&f, ours, base);
        finding_pair(&h, ours99, base99);
    }
    report(&f);
    report(&h);
}
