/* bench/rows_replicas.c — a grant that a replica has acknowledged, beside one that
 * none has. Two primaries of this row's own, each with a replica, since all
 * clients of a server give the same number. Both have recovery=, and so take
 * free mutexes by script. */
#include <stdio.h>

#include "bench.h"

enum { THREADS = 64, SERVERS = 4 };

/* primary, replica; primary, replica */
static pid_t servers[SERVERS];

static bool start_pair(int at, int *port)
{
    char primary[16];
    *port = port_free();
    snprintf(primary, sizeof primary, "%d", *port);
    servers[at] = server_redis(
        *port, (const char *[]){"--repl-diskless-sync-delay", "0", NULL});
    servers[at + 1] =
        server_redis(port_free(), (const char *[]){"--replicaof", "127.0.0.1",
                                                   primary, NULL});
    return servers[at] > 0 && servers[at + 1] > 0;
}

/* Nobody is let in before the recovery of a new server is over: both at once. */
static void let_in(struct snib_lock *a, struct snib_lock *b)
{
    struct snib_grant g;
    if (!snib_try(a, NULL, &g, NULL)) {
        die("a new server has let somebody in before its recovery");
    }
    section(b);
    section(a);
}

static void measure(const char *ours, const char *base)
{
    struct finding one = {.row = "replicas",
                          .what = "acquire+release; recovery= alone",
                          .unit = "us",
                          .per_ratio = true};
    struct finding many = {.row = "replicas",
                           .what = "64 threads, a lock each; the same",
                           .unit = "1/s",
                           .per_ratio = true,
                           .kind = GOAL_AT_LEAST,
                           .goal = 0.8};
    struct snib_client *with = open_client(ours), *without = open_client(base);
    struct snib_lock *a = open_lock(with, "bench:with");
    struct snib_lock *b = open_lock(without, "bench:without");
    let_in(a, b);
    measure_alone(&one, work_of_lock(a), work_of_lock(b));
    measure_own_locks(&many, THREADS, with, without);
    snib_lock_free(a);
    snib_lock_free(b);
    snib_client_free(with);
    snib_client_free(without);
}

void row_replicas(void)
{
    char ours[80], base[80];
    int with, without;
    if (start_pair(0, &with) && start_pair(2, &without)) {
        snprintf(ours, sizeof ours,
                 "redis://127.0.0.1:%d?recovery=30s&replicas=1", with);
        snprintf(base, sizeof base, "redis://127.0.0.1:%d?recovery=30s",
                 without);
        progress("replicas: waits for two recoveries of 30 s\n");
        measure(ours, base);
    } else {
        report_skip("replicas", "redis-server does not start");
    }
    for (int i = 0; i < SERVERS; i++) {
        server_stop(servers[i]);
    }
}
