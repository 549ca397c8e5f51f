/* bench/rows_foreign.c — the rows of servers for which locks have clients in
 * other languages: etcd against Go's concurrency.Mutex, ZooKeeper against
 * Curator's InterProcessMutex. The programs are those of the tests,
 * tests/harness/foreign. */
#include <stdio.h>

#include "bench.h"

/* Curator's clients are at most in so many processes, evenly, each with a
 * session, a connection and a thread of its own: 64 JVMs on two cores would
 * measure the JVMs, which cannot compile what each of them does once a second. */
enum { JVMS_MAX = 4 };

/* How long a first turn is, which does not count. Java's compilers need it. */
static const double GO_WARM_UP_S = 1, JVM_WARM_UP_S = 10;

static struct span foreign_turn(void *data, int processes)
{
    (void)processes;
    return foreign_span(data, settings.seconds);
}

static void against(struct contest *c, int processes, double goal,
                    struct foreign *foreign, double warm_up_s)
{
    c->others = foreign_turn;
    c->data = foreign;
    foreign_span(foreign, warm_up_s);
    contest_measure(c, processes, goal);
    foreign_stop(foreign);
}

void row_etcd(void)
{
    static const struct {
        int processes;
        double goal;
    } sizes[] = {{1, 1}, {2, 5}, {16, 1.5}, {64, 1}};
    struct service s;
    struct contest c = {.row = "etcd", .against = "Go's Mutex", .service = &s};
    char endpoint[120];
    if (!service_start(&s, "etcd")) {
        return;
    }
    snprintf(endpoint, sizeof endpoint, "http://%s", service_address(&s));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int n = sizes[i].processes;
        struct foreign *go =
            foreign_start(n, s.client, endpoint, "bench-go", NULL);
        against(&c, n, sizes[i].goal, go, GO_WARM_UP_S);
    }
    service_stop(&s);
}

void row_zookeeper(void)
{
    static const int sizes[] = {1, 2, 16, 64};
    struct service s;
    struct contest c = {
        .row = "zookeeper", .against = "Curator", .service = &s};
    if (!service_start(&s, "zookeeper")) {
        return;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int n = sizes[i], jvms = n < JVMS_MAX ? n : JVMS_MAX;
        char clients[16]; /* of each JVM */
        snprintf(clients, sizeof clients, "%d", n / jvms);
        struct foreign *curator = foreign_start(
            jvms, s.client, service_address(&s), "/bench-curator", clients);
        against(&c, n, 1.5, curator, JVM_WARM_UP_S);
    }
    service_stop(&s);
}
