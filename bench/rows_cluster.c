/* bench/rows_cluster.c — the same locks in a Redis Cluster of three nodes and on one
 * server. Free mutexes are taken by script in a cluster. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

enum { NODES = 3, THREADS = 64, SLOTS = 16384, MEET_S = 20 };

static struct node {
    pid_t pid;
    int port, bus;
} nodes[NODES];

static void start_node(struct node *n, int number)
{
    char bus[16], file[32];
    n->port = port_free();
    n->bus = port_free();
    snprintf(bus, sizeof bus, "%d", n->bus);
    snprintf(file, sizeof file, "node%d.conf", number);
    n->pid = server_redis(
        n->port, (const char *[]){"--cluster-enabled", "yes", "--cluster-port",
                                  bus, "--cluster-config-file", file, NULL});
}

/* True: the node has answered with this. */
static bool says(const struct node *n, const char *answer, const char *format,
                 int a, int b)
{
    redisContext *c = redisConnect("127.0.0.1", n->port);
    redisReply *r = c && !c->err ? redisCommand(c, format, a, b) : NULL;
    bool well = r && r->str && strstr(r->str, answer);
    if (r) {
        freeReplyObject(r);
    }
    if (c) {
        redisFree(c);
    }
    return well;
}

static bool whole(void)
{
    bool all = true;
    for (int i = 0; i < NODES; i++) {
        all = all && says(&nodes[i], "cluster_state:ok", "CLUSTER INFO", 0, 0);
    }
    return all;
}

static bool start(void)
{
    bool well = true;
    for (int i = 0; i < NODES; i++) {
        start_node(&nodes[i], i);
        well = well && nodes[i].pid > 0;
    }
    for (int i = 0; i < NODES && well; i++) {
        well = says(&nodes[i], "OK", "CLUSTER ADDSLOTSRANGE %d %d",
                    SLOTS * i / NODES, SLOTS * (i + 1) / NODES - 1) &&
               says(&nodes[i], "OK", "CLUSTER MEET 127.0.0.1 %d %d",
                    nodes[0].port, nodes[0].bus);
    }
    for (double end = now_s() + MEET_S; well && !whole(); pause_s(0.05)) {
        well = now_s() < end;
    }
    return well;
}

static void measure(const char *ours, const char *base)
{
    struct finding one = {.row = "cluster",
                          .what = "acquire+release; one server",
                          .unit = "us",
                          .per_ratio = true};
    struct finding many = {.row = "cluster",
                           .what = "64 threads, a lock each; one server",
                           .unit = "1/s",
                           .per_ratio = true};
    struct snib_client *three = open_client(ours), *single = open_client(base);
    struct snib_lock *a = open_lock(three, "bench:three");
    struct snib_lock *b = open_lock(single, "bench:one");
    measure_alone(&one, work_of_lock(a), work_of_lock(b));
    measure_own_locks(&many, THREADS, three, single);
    snib_lock_free(a);
    snib_lock_free(b);
    snib_client_free(three);
    snib_client_free(single);
}

void row_cluster(void)
{
    char ours[80];
    if (start()) {
        snprintf(ours, sizeof ours, "redis+cluster://127.0.0.1:%d",
                 nodes[0].port);
        measure(ours, settings.redis_url);
    } else {
        report_skip("cluster", "no redis-server of 7.0 or later");
    }
    for (int i = 0; i < NODES; i++) {
        server_stop(nodes[i].pid);
    }
}
