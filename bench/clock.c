/* bench/clock.c — clocks, CPU time, the end of a hopeless run. */
#include <dirent.h>
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

/* Nanoseconds on a CPU, of one thread; finer than the ticks in stat. */
static double thread_cpu(pid_t pid, const char *thread)
{
    char path[320];
    unsigned long long ns = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", (int)pid, thread);
    FILE *f = fopen(path, "re");
    if (f) {
        if (fscanf(f, "%llu", &ns) != 1) {
            ns = 0;
        }
        fclose(f);
    }
    return (double)ns / 1e9;
}

double cpu_of(pid_t pid)
{
    char path[64];
    double sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] != '.') {
            sum += thread_cpu(pid, entry->d_name);
        }
    }
    if (dir) {
        closedir(dir);
    }
    return sum;
}

double cpu_ever_of(pid_t pid)
{
    clockid_t its;
    struct timespec t;
    if (clock_getcpuclockid(pid, &its) || clock_gettime(its, &t)) {
        die("process %d is not there", (int)pid);
    }
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
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
