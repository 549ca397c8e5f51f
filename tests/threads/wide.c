/* wide.c — the runs of wide.h and the list of their numbers.
 *
 *   threads_wide LIST            compare; what ctest runs (SNIB_SHARE=N: one
 *                                run in N, ../unit/share.h)
 *   threads_wide --record LIST   write it
 *   threads_wide --tell N        what happens in run N
 *
 * Each run is a process, so a crash, a failed assertion and what a sanitizer
 * reports are found as well, and what is static in the product is fresh. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/share.h"
#include "one_core.h"
#include "redis.h"
#include "unseen.h"
#include "wide.h"

enum { RUNS = 1600, PATIENCE_S = 60, STREAMS = 8192 };

struct wide wide;
static struct run *shared;

/* -- dice ------------------------------------------------------------------------ */

static struct {
    uint64_t name, count;
} streams[STREAMS];

uint64_t pick(const char *what, uint64_t n)
{
    uint64_t name = 14695981039346656037u + (uint64_t)(sched_self() + 2);
    for (const char *c = what; *c; c++) {
        name = (name ^ (uint8_t)*c) * 1099511628211u;
    }
    size_t i = mix(name) % STREAMS;
    while (streams[i].name && streams[i].name != name) {
        i = (i + 1) % STREAMS;
    }
    streams[i].name = name;
    name += wide.run * 0x9e3779b97f4a7c15;
    return mix(name + ++streams[i].count * 0xd1342543de82ef95) % n;
}

bool chance(const char *what, uint64_t n)
{
    return pick(what, n) == 0;
}

/* -- a run -------------------------------------------------------------------------- */

static void in_child(uint64_t run)
{
    alarm(PATIENCE_S); /* a wait that the scheduler does not know */
    wide.run = run;
    wide_run(run, shared);
    fflush(stdout);
    _exit(0);
}

/* 0: it failed, shared->why says how. */
static uint64_t number_of(uint64_t run)
{
    int status = 0;
    fflush(NULL);
    shared->failed = false;
    shared->why[0] = 0;
    pid_t pid = fork();
    if (pid == 0) {
        in_child(run);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        perror("threads_wide: no process");
        exit(2);
    }
    if (status && !shared->failed) {
        snprintf(shared->why, sizeof shared->why,
                 "a crash, a failed assertion, a report of a sanitizer, or a "
                 "wait that nobody sees (status %d)",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    return status ? 0 : shared->same;
}

/* -- the list --------------------------------------------------------------------------- */

static FILE *open_list(const char *path, const char *mode)
{
    FILE *f = fopen(path, mode);
    if (!f) {
        perror(path);
        exit(2);
    }
    return f;
}

static int compare(const char *path)
{
    char line[100], is[100];
    uint64_t n = share();
    FILE *f = open_list(path, "r");
    int failed = 0;
    for (uint64_t run = 1; run <= RUNS && failed < 3; run++) {
        if (!fgets(line, sizeof line, f)) {
            line[0] = 0;
        }
        if (is_left_out(run - 1, n) ||
            (wide_is_redis(run) && !redis_is_there())) {
            continue;
        }
        uint64_t number = number_of(run);
        snprintf(is, sizeof is, "%d %016" PRIx64 "\n", (int)run, number);
        if (!number || strcmp(line, is) != 0) {
            printf("run %d is not as it is written down: %s\n", (int)run,
                   number ? "what a caller is told, or where it can be "
                            "interrupted, has changed"
                          : shared->why);
            failed++;
        }
    }
    fclose(f);
    if (failed) {
        printf("threads_wide --tell N shows a run. Meant? Then threads_wide "
               "--record tests/threads/wide.txt,\nwith the change.\n");
    }
    return failed != 0;
}

static int record(const char *path)
{
    FILE *f = open_list(path, "w");
    int failed = 0;
    for (uint64_t run = 1; run <= RUNS; run++) {
        uint64_t number = number_of(run);
        if (!number) {
            printf("run %d: %s\n", (int)run, shared->why);
            failed = 1;
        }
        fprintf(f, "%d %016" PRIx64 "\n", (int)run, number);
    }
    return fclose(f) || failed;
}

static int tell_one(uint64_t run)
{
    shared->verbose = true;
    uint64_t number = number_of(run);
    printf("%d %016" PRIx64 " %s\n", (int)run, number, shared->why);
    return !number;
}

int main(int argc, char **argv)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("threads_wide");
        return 2;
    }
    stay_on_one_core();
    if (argc == 3 && !strcmp(argv[1], "--record")) {
        return record(argv[2]);
    }
    if (argc == 3 && !strcmp(argv[1], "--tell")) {
        return tell_one(strtoull(argv[2], NULL, 10));
    }
    return argc == 2 ? compare(argv[1]) : 64;
}
