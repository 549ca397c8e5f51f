/* bench/foreign.c — clients of others, in languages of others.
 *
 * They are started once for all turns of a row with so many processes. While the
 * turn is not theirs they stand still: what a start costs, and a compiler that
 * learns while the program runs, is paid before anything is counted. Each of
 * them counts in its own process, all between the same two instants of the wall
 * clock, which they share. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum { PROCESSES_MAX = 64, WARM_UP_MS = 300, READY_S = 120, ANSWER_S = 120 };

struct foreign {
    int count;
    struct child child[PROCESSES_MAX];
};

static int64_t foreign_wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void foreign_wait(int64_t until_ms)
{
    int64_t left = until_ms - foreign_wall_ms();
    if (left > 0) {
        pause_s((double)left / 1e3);
    }
}

struct foreign *foreign_start(int processes, const char *program,
                              const char *where, const char *name,
                              const char *more)
{
    struct foreign *f = calloc(1, sizeof *f);
    if (!f || processes > PROCESSES_MAX) {
        die("no room for %d processes", processes);
    }
    f->count = processes;
    for (int i = 0; i < f->count; i++) {
        f->child[i] = child_start(program, where, name, more);
    }
    for (int i = 0; i < f->count; i++) {
        char line[300];
        child_line(&f->child[i], line, sizeof line, READY_S);
        if (strcmp(line, "ready") != 0) {
            die("%s: %s", program, line);
        }
    }
    return f;
}

static unsigned long long foreign_count(struct child *child)
{
    char line[300];
    unsigned long long count;
    child_line(child, line, sizeof line, ANSWER_S);
    if (sscanf(line, "sections %llu", &count) != 1) {
        die("%s: %s", child->program, line);
    }
    return count;
}

struct span foreign_span(struct foreign *f, double seconds)
{
    struct span span = {0};
    char line[80];
    int64_t from = foreign_wall_ms() + WARM_UP_MS;
    int64_t to = from + (int64_t)(seconds * 1e3);
    snprintf(line, sizeof line, "sections %" PRId64 " %" PRId64 "\n", from, to);
    for (int i = 0; i < f->count; i++) {
        child_say(&f->child[i], line);
    }
    foreign_wait(from);
    span.before = server_now();
    foreign_wait(to);
    span.after = server_now();
    span.seconds = (double)(to - from) / 1e3;
    for (int i = 0; i < f->count; i++) {
        span.sections += foreign_count(&f->child[i]);
    }
    return span;
}

void foreign_stop(struct foreign *f)
{
    for (int i = 0; i < f->count; i++) {
        child_end(&f->child[i]);
    }
    free(f);
}
