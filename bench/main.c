/* bench/main.c — which rows, how long, where to.
 *
 *   snib-bench --dir DIR [--redis-port PORT] [--postgres URL] [--mysql URL]
 *              [--servers PROGRAM] [--snib PATH] [--rounds N] [--seconds S]
 *              [--json FILE|-] [ROW…]
 *
 * bench/run calls it. Exit status 0: all goals met, 1: one was missed,
 * 64 usage, 70 something did not work. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

struct settings settings = {
    .redis_host = "127.0.0.1", .seconds = 1.0, .rounds = 5};

static const struct row {
    const char *name, *what;
    void (*run)(void);
    enum {
        NEEDS_NOTHING,
        NEEDS_REDIS,
        NEEDS_POSTGRES,
        NEEDS_MYSQL,
        NEEDS_COMMAND
    } needs;
} rows[] = {
    {"one-thread", "acquire+release against a bare hiredis client",
     row_one_thread, NEEDS_REDIS},
    {"setnx", "acquire+release against SET NX and a script; executing time",
     row_setnx, NEEDS_REDIS},
    {"setnx-64", "64 threads, a lock each, against the same", row_setnx64,
     NEEDS_REDIS},
    {"threads", "2, 4, 8 threads with a lock each against a connection each",
     row_threads, NEEDS_REDIS},
    {"threads-64", "the same with 64, and the server's CPU a section",
     row_threads64, NEEDS_REDIS},
    {"processes-64", "64 processes on one lock against publish-and-retry",
     row_processes64, NEEDS_REDIS},
    {"waiters-1000", "1000 processes on one lock against 64", row_waiters1000,
     NEEDS_REDIS},
    {"local-64", "64 threads of one process on one lock; a stranger's turn",
     row_local64, NEEDS_REDIS},
    {"held-100000", "what renewing 100 000 locks costs", row_held, NEEDS_REDIS},
    {"quorum", "acquire+release on 3 and 5 servers against bare hiredis",
     row_quorum, NEEDS_REDIS},
    {"embedded", "acquire+release on the embedded store", row_embedded,
     NEEDS_NOTHING},
    {"handover-16", "16 processes on one embedded lock", row_handover,
     NEEDS_NOTHING},
    {"file", "acquire+release on a mapped file against flock(2)", row_file,
     NEEDS_NOTHING},
    {"file-16", "16 processes on one lock of a mapped file; flock(2)",
     row_file_handover, NEEDS_NOTHING},
    {"file-waited", "hand-over to who has waited, mapped file; flock(2)",
     row_file_waited, NEEDS_NOTHING},
    {"idle", "CPU of those who wait (embedded)", row_idle, NEEDS_NOTHING},
    {"multi", "3 locks as one against bare hiredis, and one after the other",
     row_multi, NEEDS_REDIS},
    {"nested", "a lock inside another one: the search for deadlocks on, off",
     row_nested, NEEDS_REDIS},
    {"rw", "nine readers to one writer: bare hiredis; mutexes only", row_rw,
     NEEDS_REDIS},
    {"keep", "a released lock is kept: one thread; 16 processes", row_keep,
     NEEDS_REDIS},
    {"semaphore", "a permit: bare hiredis; 16 processes: publish-and-retry",
     row_semaphore, NEEDS_REDIS},
    {"tls", "through TLS against without", row_tls, NEEDS_REDIS},
    {"replicas", "replicas=1 against the same recovery without it",
     row_replicas, NEEDS_REDIS},
    {"cluster", "a cluster of three nodes against one server", row_cluster,
     NEEDS_REDIS},
    {"witness", "a holder is killed: until the next one holds", row_witness,
     NEEDS_REDIS},
    {"run", "snib run against flock(1)", row_run, NEEDS_COMMAND},
#if SNIB_WITH_POSTGRES
    {"postgres", "a lock in PostgreSQL against what is written by hand",
     row_postgres, NEEDS_POSTGRES},
    {"version", "a row of one's own: version column, a lock; FOR UPDATE",
     row_version, NEEDS_POSTGRES},
#endif
#if SNIB_WITH_MYSQL
    {"mysql", "a lock in MariaDB against what is written by hand", row_mysql,
     NEEDS_MYSQL},
#endif
/* These start their servers, and skip themselves. */
#if SNIB_WITH_ETCD
    {"etcd", "1, 2, 16, 64 processes, one lock: Go's concurrency.Mutex",
     row_etcd, NEEDS_NOTHING},
#endif
#if SNIB_WITH_ZOOKEEPER
    {"zookeeper", "the same in ZooKeeper: Curator's InterProcessMutex",
     row_zookeeper, NEEDS_NOTHING},
#endif
#if SNIB_WITH_RABBITMQ
    {"rabbitmq", "the same in RabbitMQ: consume, confirmed publish, ack",
     row_rabbitmq, NEEDS_NOTHING},
#endif
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static int usage(void)
{
    fprintf(stderr, "usage: snib-bench --dir DIR [--redis-port PORT] "
                    "[--postgres URL] [--mysql URL]\n    [--servers PROGRAM] "
                    "[--snib PATH] [--rounds N] [--seconds S] [--json FILE|-]\n"
                    "    [ROW…]\nrows:\n");
    for (int i = 0; i < ROWS; i++) {
        fprintf(stderr, "  %-14s %s\n", rows[i].name, rows[i].what);
    }
    fprintf(stderr,
            "What is not there is skipped, with the reason. The rows of etcd, "
            "ZooKeeper and\nRabbitMQ need these packages of Debian's:\n"
            "  etcd           etcd-server etcd-client golang-go\n"
            "  zookeeper      zookeeper default-jdk-headless maven\n"
            "  rabbitmq       rabbitmq-server, and librabbitmq-dev to build\n"
            "The clients of others are fetched once, with checksums "
            "(tests/harness/foreign.py).\n");
    return 64;
}

#if SNIB_WITH_RABBITMQ && !BENCH_LIBRABBITMQ
void row_rabbitmq(void)
{
    report_skip("rabbitmq",
                "built without librabbitmq (Debian: librabbitmq-dev)");
}
#endif

static bool wanted(const struct row *row, char **names)
{
    bool any = false, this = false;
    for (; *names; names++) {
        any = true;
        this = this || strcmp(*names, row->name) == 0;
    }
    return !any || this;
}

static bool known(const char *name)
{
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void run_row(const struct row *row)
{
    if (row->needs == NEEDS_REDIS && !settings.redis_port) {
        report_skip(row->name, "no redis-server");
    } else if (row->needs == NEEDS_POSTGRES && !settings.postgres_url) {
        report_skip(row->name, "no PostgreSQL");
    } else if (row->needs == NEEDS_MYSQL && !settings.mysql_url) {
        report_skip(row->name, "no MariaDB");
    } else if (row->needs == NEEDS_COMMAND && !settings.snib) {
        report_skip(row->name, "the command snib is not built");
    } else {
        progress("%s: %s", row->name, row->what);
        server_flush();
        row->run();
    }
}

/* Figures of another build than the shipped one would be worth nothing. */
static void check_build(void)
{
    bool release = strcmp(BENCH_CONFIG, "Release") == 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    release = false;
#endif
    if (!release && !getenv("SNIB_BENCH_ANY_BUILD")) {
        die("this is a %s build; measure a release build (./dev bench)",
            BENCH_CONFIG);
    }
}

static bool read_options(int argc, char **argv, const char **json)
{
    static const struct option options[] = {
        {"dir", required_argument, NULL, 'd'},
        {"redis-port", required_argument, NULL, 'p'},
        {"postgres", required_argument, NULL, 'g'},
        {"mysql", required_argument, NULL, 'm'},
        {"servers", required_argument, NULL, 'v'},
        {"snib", required_argument, NULL, 's'},
        {"rounds", required_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 't'},
        {"json", required_argument, NULL, 'j'},
        {NULL, 0, NULL, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'd') {
            settings.dir = optarg;
        } else if (c == 'p') {
            settings.redis_port = atoi(optarg);
        } else if (c == 'g') {
            settings.postgres_url = optarg;
        } else if (c == 'm') {
            settings.mysql_url = optarg;
        } else if (c == 'v') {
            settings.servers = optarg;
        } else if (c == 's') {
            settings.snib = optarg;
        } else if (c == 'r') {
            settings.rounds = atoi(optarg);
        } else if (c == 't') {
            settings.seconds = atof(optarg);
        } else if (c == 'j') {
            *json = optarg;
        } else {
            return false;
        }
    }
    return settings.dir && settings.rounds > 0 &&
           settings.rounds <= ROUNDS_MAX && settings.seconds > 0;
}

int main(int argc, char **argv)
{
    const char *json = NULL;
    if (!read_options(argc, argv, &json)) {
        return usage();
    }
    for (char **name = argv + optind; *name; name++) {
        if (!known(*name)) {
            return usage();
        }
    }
    check_build();
    snprintf(settings.redis_url, sizeof settings.redis_url, "redis://%s:%d",
             settings.redis_host, settings.redis_port);
    bool learned = !settings.redis_port;
    for (int i = 0; i < ROWS; i++) {
        if (wanted(&rows[i], argv + optind)) {
            if (rows[i].needs == NEEDS_REDIS && !learned) {
                bare_learn();
                learned = true;
            }
            run_row(&rows[i]);
        }
    }
    return report_all(json) ? 0 : 1;
}
