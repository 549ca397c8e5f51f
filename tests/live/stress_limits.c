/* tests/live/stress_limits.c — the storm of impatient callers.
 *
 *   stress_limits [-c CALLS] [-n THREADS] [-l LOCKS] [-u URL]
 *
 * Required by the driver's rules: 32 threads, wait limits of 20–140 µs,
 * 400 000 calls in all on one client and a real server (started here unless
 * -u is given). It found the bug of the first prototype in one run: a call
 * whose limit passes hands the reader's role to its own dying request, and
 * from then on nobody reads.
 *
 * Judged at the end, when the engine has cleaned up: nothing awaited, nobody
 * reads, nothing under way, no holder or queue key is left on the server, and
 * a patient call still goes through at once. Judged on the way: never two
 * threads inside one lock, tokens rise. Exit 0, 1, or 77 (no redis-server). */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/testing.h"
#include "snib.h"

enum { LOCKS_MAX = 64, THREADS_MAX = 256 };

static int calls = 400000, threads = 32, locks = 8;
static const char *url;
static char own_url[300], dir[64] = "/tmp/snib-stress-XXXXXX", sock[128];
static pid_t server;

static struct snib_client *client;
static struct {
    struct snib_lock *lock;
    _Atomic int inside;
    _Atomic int64_t token;
} spot[LOCKS_MAX];
static _Atomic int left, broken;
static _Atomic int outcome[64];

static void say_broken(const char *what, long long a, long long b)
{
    atomic_store(&broken, 1);
    fprintf(stderr, "BROKEN: %s (%lld, %lld)\n", what, a, b);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t dice(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *seed >> 33;
}

static void section(int at, struct snib_grant grant)
{
    if (atomic_exchange(&spot[at].inside, 1)) {
        say_broken("two inside one lock", at, grant.token);
    }
    int64_t last = atomic_exchange(&spot[at].token, grant.token);
    if (grant.token <= last) {
        say_broken("token did not rise", last, grant.token);
    }
    atomic_store(&spot[at].inside, 0);
}

/* 20–140 µs; for one call in 64 up to 20 ms, so that on a loaded machine
 * some are granted and followers outlive leaders. */
static int64_t patience(uint64_t *seed)
{
    if (dice(seed) % 64 == 0) {
        return 1000000 + (int64_t)(dice(seed) % 19000000);
    }
    return 20000 + (int64_t)(dice(seed) % 120000);
}

static void *impatient(void *arg)
{
    uint64_t seed = (uint64_t)(intptr_t)arg;
    while (atomic_fetch_sub(&left, 1) > 0) {
        struct snib_grant grant;
        struct snib_error e;
        int at = (int)(dice(&seed) % (uint64_t)locks);
        int64_t ns = patience(&seed);
        snib_err err = snib__acquire_within(spot[at].lock, ns, &grant, &e);
        atomic_fetch_add(&outcome[err], 1);
        if (err == SNIB_ERR_INTERNAL) {
            say_broken(e.text, err, 0);
        }
        if (!err) {
            section(at, grant);
            ns = patience(&seed);
            err = snib__release_within(spot[at].lock, grant, ns, &e);
            if (err && err != SNIB_ERR_UNKNOWN) {
                say_broken(e.text, err, grant.token);
            }
        }
    }
    return NULL;
}

/* -- a server of our own ------------------------------------------------------ */

static void start_server(void)
{
    if (!mkdtemp(dir)) {
        perror(dir);
        exit(1);
    }
    snprintf(sock, sizeof sock, "%s/redis.sock", dir);
    snprintf(own_url, sizeof own_url, "redis+unix://%s", sock);
    url = own_url;
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* however this test ends */
        if (!freopen("/dev/null", "w", stdout)) {
            _exit(126);
        }
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket",
               sock, "--save", "", "--dir", dir, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 500; i++) {
        int status;
        if (waitpid(server, &status, WNOHANG) == server) {
            fprintf(stderr, "redis-server cannot be started: skipped\n");
            server = 0;
            rmdir(dir);
            exit(77);
        }
        redisContext *ctx = redisConnectUnix(sock);
        bool up = ctx && !ctx->err;
        redisFree(ctx);
        if (up) {
            return;
        }
        usleep(10000);
    }
    fprintf(stderr, "redis-server does not answer\n");
    exit(1);
}

static void stop_server(void)
{
    if (server > 0) {
        kill(server, SIGTERM);
        waitpid(server, NULL, 0);
        unlink(sock);
        rmdir(dir);
    }
}

/* Everything but the token memory (":t") and tombstones has to be gone. */
/* Is it more than the hash that stands as long as a tombstone does? */
static bool holds(redisContext *ctx, const char *key)
{
    redisReply *r = redisCommand(ctx, "HKEYS %s", key);
    bool any = !r || r->type != REDIS_REPLY_ARRAY; /* a string: a thin grant */
    for (size_t i = 0; !any && i < r->elements; i++) {
        any = strcmp(r->element[i]->str, "~") != 0;
    }
    freeReplyObject(r);
    return any;
}

static void look_for_keys(void)
{
    redisContext *ctx = redisConnectUnix(sock);
    redisReply *r = ctx && !ctx->err ? redisCommand(ctx, "KEYS *") : NULL;
    if (!r || r->type != REDIS_REPLY_ARRAY) {
        say_broken("keys cannot be listed", 0, 0);
    }
    for (size_t i = 0; r && i < r->elements; i++) {
        const char *key = r->element[i]->str;
        const char *end = strrchr(key, '}');
        redisReply *ttl = redisCommand(ctx, "PTTL %s", key);
        if (ttl && ttl->integer == -1) {
            say_broken("key without a TTL", (long long)i, 0);
            fprintf(stderr, "  %s\n", key);
        }
        if (!strcmp(key, "snib:layout") || !strcmp(key, "snib:m")) {
            freeReplyObject(ttl); /* one a server, for all locks */
            continue;
        }
        if (!end ||
            (end[1] ? end[2] == 'q' || end[2] == 'a' : holds(ctx, key))) {
            say_broken("holder or queue left behind", (long long)i,
                       ttl ? ttl->integer : 0);
            fprintf(stderr, "  %s\n", key);
        }
        freeReplyObject(ttl);
    }
    freeReplyObject(r);
    redisFree(ctx);
}

/* -- judging ---------------------------------------------------------------------- */

static bool quiet(bool tell)
{
    struct snib__counts n;
    uint32_t awaited[SNIB__CONNS_MAX];
    int reader[SNIB__CONNS_MAX];
    bool good = true;
    snib__client_counts(client, &n, awaited, reader);
    for (int i = 0; i < SNIB__CONNS_MAX; i++) {
        /* Line 2 is the subscription: the keeper watches it. */
        bool idle =
            !awaited[i] && (reader[i] == 0 || (i == 2 && reader[i] == 1));
        if (!idle && tell) {
            fprintf(stderr, "line %d: awaited %u, reader %d\n", i, awaited[i],
                    reader[i]);
        }
        good = good && idle;
    }
    if (tell) {
        fprintf(stderr, "requests %u, waiting %u, held %u, leaving %u\n",
                n.requests, n.waiting, n.held, n.leaving);
    }
    return good && !n.requests && !n.waiting && !n.held && !n.leaving;
}

static void judge(void)
{
    int64_t end = now_ns() + INT64_C(20000000000);
    while (!quiet(false) && now_ns() < end) {
        usleep(2000);
    }
    if (!quiet(false)) {
        quiet(true);
        say_broken("not quiet 20 s after the storm", 0, 0);
    }
    if (server > 0) {
        look_for_keys();
    }
    for (int i = 0; i < locks; i++) {
        struct snib_grant grant;
        struct snib_error e;
        int64_t t = now_ns();
        if (snib_try_for(spot[i].lock, 10000, NULL, &grant, &e) ||
            snib_release(spot[i].lock, grant, &e)) {
            say_broken(e.text, i, 0);
        } else if (now_ns() - t > INT64_C(1000000000)) {
            say_broken("a patient call took over a second", i, now_ns() - t);
        }
    }
}

static void show(double seconds)
{
    printf("%d threads, %d locks, %d calls in %.1f s (%.0f/s):", threads, locks,
           calls, seconds, calls / seconds);
    for (int i = 0; i < 64; i++) {
        if (outcome[i]) {
            printf(" %s %d", snib_err_name((snib_err)i), outcome[i]);
        }
    }
    printf("\n");
}

static void log_line(void *data, int level, const char *line)
{
    (void)data;
    fprintf(stderr, "log %d: %s\n", level, line);
}

int main(int argc, char **argv)
{
    static pthread_t thread[THREADS_MAX];
    int c;
    while ((c = getopt(argc, argv, "c:n:l:u:")) != -1) {
        switch (c) {
        case 'c':
            calls = atoi(optarg);
            break;
        case 'n':
            threads = atoi(optarg);
            break;
        case 'l':
            locks = atoi(optarg);
            break;
        case 'u':
            url = optarg;
            break;
        default:
            return 64;
        }
    }
    if (locks < 1 || locks > LOCKS_MAX || threads < 1 ||
        threads > THREADS_MAX) {
        return 64;
    }
    if (!url) {
        start_server();
        atexit(stop_server);
    }
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_error e;
    o.url = url;
    o.log = log_line;
    if (snib_client_open(&o, &client, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    for (int i = 0; i < locks; i++) {
        char name[32];
        snprintf(name, sizeof name, "stress-%d", i);
        if (snib_lock_new(client, name, NULL, &spot[i].lock, &e)) {
            fprintf(stderr, "%s\n", e.text);
            return 1;
        }
    }
    atomic_store(&left, calls);
    int64_t t = now_ns();
    for (int i = 0; i < threads; i++) {
        pthread_create(&thread[i], NULL, impatient, (void *)(intptr_t)(i + 1));
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
    }
    show((double)(now_ns() - t) / 1e9);
    judge();
    for (int i = 0; i < locks; i++) {
        snib_lock_free(spot[i].lock);
    }
    snib_client_free(client);
    printf("%s\n", broken ? "BROKEN" : "all held");
    return broken ? 1 : 0;
}
