/* bench/clock.c — clocks, CPU time, the end of a hopeless run. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double now_s(void)
{
    return (double)now_ns() / 1e9;
}

void pause_s(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    while (nanosleep(&t, &t) != 0) {
        continue;
    }
}

/* utime and stime are fields 14 and 15; the program's name, field 2, may hold
 * spaces, so counting starts behind its ')'. */
double cpu_of(pid_t pid)
{
    char path[64], text[1024];
    unsigned long user = 0, sys = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f) {
        return 0;
    }
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    char *p = text;
    for (char *q = text; *q; q++) {
        p = *q == ')' ? q : p;
    }
    sscanf(p, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
           &sys);
    return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double at_part(const double *sorted, size_t n, double part)
{
    if (!n) {
        return 0;
    }
    size_t i = (size_t)((double)n * part);
    return sorted[i < n ? i : n - 1];
}

void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("bench: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    _exit(70);
}
