/* bench/rows_witness.c — a holder's process is killed: how long until the next one
 * holds, by a witness and by the lease; and what a witness costs who is not
 * killed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { LEASE_MS = 1000 };

static char program[4096];

/* Beside the command. */
static bool find_program(void)
{
    const char *slash = settings.snib ? strrchr(settings.snib, '/') : NULL;
    snprintf(program, sizeof program, "%.*ssnib-witness",
             slash ? (int)(slash - settings.snib) + 1 : 0,
             settings.snib ? settings.snib : "");
    return access(program, X_OK) == 0;
}

static struct snib_client *open_watched(void)
{
    struct snib_client_options o = {.size = sizeof o,
                                    .url = settings.redis_url,
                                    .witness = true,
                                    .witness_program = program};
    struct snib_client *c;
    struct snib_error e;
    if (snib_client_open(&o, &c, &e)) {
        die("%s", e.text);
    }
    return c;
}

static struct snib_lock *open_short(struct snib_client *c)
{
    struct snib_lock_options o = {.size = sizeof o, .lease_ms = LEASE_MS};
    struct snib_lock *l;
    struct snib_error e;
    if (snib_lock_new(c, "bench:witness", &o, &l, &e)) {
        die("%s", e.text);
    }
    return l;
}

/* A process that holds the lock until it is killed. */
static pid_t start_holder(bool watched)
{
    int ready[2];
    char c;
    if (pipe(ready)) {
        die("pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        struct snib_grant g;
        struct snib_error e;
        struct snib_lock *l = open_short(
            watched ? open_watched() : open_client(settings.redis_url));
        if (snib_acquire(l, NULL, &g, &e) || write(ready[1], "", 1) != 1) {
            _exit(1);
        }
        pause();
        _exit(0);
    }
    close(ready[1]);
    if (read(ready[0], &c, 1) != 1) {
        die("the holder has not begun");
    }
    close(ready[0]);
    return pid;
}

/* ms from the kill of the holder until this process holds. Its killer waits
 * until it stands in the queue, and renewals have given the holder a new
 * lease. */
static double killed_ms(struct snib_lock *next, bool watched)
{
    struct snib_grant g;
    struct snib_error e;
    pid_t holder = start_holder(watched);
    int told[2];
    if (pipe(told)) {
        die("pipe");
    }
    pid_t killer = fork();
    if (killer == 0) {
        pause_s(0.15);
        int64_t now = now_ns();
        kill(holder, SIGKILL);
        _exit(write(told[1], &now, sizeof now) != sizeof now);
    }
    if (snib_acquire(next, NULL, &g, &e)) {
        die("%s", e.text);
    }
    int64_t end = now_ns(), begin = 0;
    if (read(told[0], &begin, sizeof begin) != sizeof begin ||
        snib_release(next, g, &e)) {
        die("the lock was not held");
    }
    close(told[0]);
    close(told[1]);
    waitpid(killer, NULL, 0);
    waitpid(holder, NULL, 0);
    return (double)(end - begin) / 1e6;
}

void row_witness(void)
{
    struct finding killed = {.row = "witness",
                             .what = "kill -9 of a holder until the next one "
                                     "holds; by its lease of 1 s",
                             .unit = "ms",
                             .kind = GOAL_AT_MOST,
                             .goal = 50};
    struct finding alone = {.row = "witness",
                            .what = "acquire+release; without a witness",
                            .unit = "us",
                            .per_ratio = true};
    if (!find_program()) {
        report_skip("witness", "the program snib-witness is not built");
        return;
    }
    struct snib_client *plain = open_client(settings.redis_url);
    struct snib_client *watched = open_watched();
    struct snib_lock *next = open_short(plain);
    for (int i = 0; i < settings.rounds; i++) {
        double ours = killed_ms(next, true);
        finding_pair(&killed, ours, killed_ms(next, false));
    }
    report(&killed);
    struct snib_lock *a = open_lock(watched, "bench:watched");
    struct snib_lock *b = open_lock(plain, "bench:plain");
    measure_alone(&alone, work_of_lock(a), work_of_lock(b));
    snib_lock_free(a);
    snib_lock_free(b);
    snib_lock_free(next);
    snib_client_free(watched);
    snib_client_free(plain);
}
