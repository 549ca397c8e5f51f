/*
 * difftest.c — the model against a real redis-server, reply by reply
 *
 * Starts a redis-server of its own on a unix socket in a scratch directory,
 * sends the same random requests to it and to the model, in groups, over three
 * connections, and compares every answer byte for byte:
 *
 *   0  all commands
 *   1  also runs MULTI ... EXEC
 *   2  subscribes and tries what a subscriber may not do
 *
 * After every eighty groups both are brought into another state (out of
 * memory, replica, stale replica, no replicas, cannot persist, ACL without
 * channels, keys or commands, password, busy script), or into two or none.
 *
 * Compared in another way, because they cannot be equal:
 *
 *   PTTL  within 10 s: the model's clock is read when a group is sent, the
 *       server's when it is executed;
 *   SCAN, PUBSUB CHANNELS  as multisets: Redis' order is that of a randomly
 *       seeded hash table;
 *   CLIENT ID, HELLO, ROLE  all but the numbers;
 *   INFO  the names of the fields that the model has.
 *
 * Not asked for at all: TIME, UNSUBSCRIBE of several channels at once, ROLE of
 * a replica (it tells how far its link is).
 *
 * Usage: difftest [--seed N] [--count N] [--paranoid 1]; the last compares
 * all keys after every group. Exit 0 equal, 1 a
 * difference (the seed, the group and the two answers are printed), 77 no
 * redis-server.
 */
#include "gen.h"
#include "real.h"
#include "redis_model.h"
#include "resp_compare.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CONNS 3
#define GROUP 24

struct stream {
    char *p;
    size_t n;
    size_t cap;
};

struct world {
    struct sim_redis *srv;
    struct real server;
    int fd[CONNS];
    int id[CONNS];
    bool multi; /* connection 1 is, or was, in MULTI */
    struct stream real[CONNS];
    const char *why; /* no more came from the server */
    int state[2];    /* states that are on, -1 none */
    struct request group[GROUP];
    int group_n;
    int group_conn;
    uint64_t seed;
    uint64_t compared;
    bool paranoid;
};

static int64_t clock_us(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void append(struct stream *s, const void *p, size_t n)
{
    if (s->n + n > s->cap) {
        s->cap = (s->n + n) * 2;
        s->p = realloc(s->p, s->cap);
        if (s->p == NULL) {
            abort();
        }
    }
    if (n > 0) {
        memcpy(s->p + s->n, p, n);
        s->n += n;
    }
}

/* ---- telling ----------------------------------------------------------- */

static void show_group(const struct world *w)
{
    for (int i = 0; i < w->group_n; i++) {
        const struct request *q = &w->group[i];
        fprintf(stderr, "  %2d:", i);
        for (int j = 0; j < q->argc; j++) {
            show(" '", q->bytes + q->off[j], q->len[j]);
            fputc('\'', stderr);
        }
        fputc('\n', stderr);
    }
}

static void difference(const struct world *w, int conn, size_t index,
                       const char *model, size_t mn, const char *real,
                       size_t rn)
{
    fprintf(stderr,
            "DIFFERENCE seed %llu after %llu comparisons: connection %d, "
            "reply %zu of the group sent on %d\n",
            (unsigned long long)w->seed, (unsigned long long)w->compared, conn,
            index, w->group_conn);
    for (int i = 0; i < 2; i++) {
        if (w->state[i] >= 0) {
            fprintf(stderr, "state: %s\n", real_states[w->state[i]].name);
        }
    }
    show_group(w);
    show("model: ", model, mn);
    show("\nreal:  ", real, rn);
    fputc('\n', stderr);
}

/* ---- exchange ---------------------------------------------------------- */

static bool read_more(struct world *w, int conn)
{
    char buf[65536];
    struct pollfd pfd = {.fd = w->fd[conn], .events = POLLIN};
    if (poll(&pfd, 1, 30000) <= 0) {
        w->why = "no more within 30 s";
        return false;
    }
    ssize_t n = read(w->fd[conn], buf, sizeof buf);
    if (n <= 0) {
        w->why = n < 0 ? strerror(errno) : "closed";
        return false;
    }
    append(&w->real[conn], buf, (size_t)n);
    return true;
}

/* Compares all that the model has for `conn` with as many real replies. */
static bool compare_conn(struct world *w, int conn)
{
    const void *out;
    size_t n;
    size_t used;
    sim_redis_output(w->srv, w->id[conn], &out, &n);
    const char *model = out;
    size_t want = count_replies(model, n, &used);
    struct stream *real = &w->real[conn];
    size_t have;
    while ((have = count_replies(real->p, real->n, &used)) < want) {
        if (!read_more(w, conn)) {
            difference(w, conn, have, model, n, real->p, real->n);
            fprintf(stderr, "(the server sent %zu of %zu replies: %s; it %s)\n",
                    have, want, w->why,
                    real_runs(&w->server) ? "runs" : "ended");
            return false;
        }
    }
    size_t a = 0;
    size_t b = 0;
    for (size_t i = 0; i < want; i++) {
        size_t an = reply_len(model + a, n - a);
        size_t bn = reply_len(real->p + b, real->n - b);
        enum compare how = w->group_n == 1 ? w->group[0].compare : EXACT;
        if (!replies_equal(how, model + a, an, real->p + b, bn)) {
            difference(w, conn, i, model + a, an, real->p + b, bn);
            return false;
        }
        a += an;
        b += bn;
        w->compared++;
    }
    if (a != n || b != real->n) {
        difference(w, conn, want, model + a, n - a, real->p + b, real->n - b);
        fprintf(stderr, "(bytes left over)\n");
        return false;
    }
    real->n = 0;
    sim_redis_consume(w->srv, w->id[conn], n);
    return true;
}

static bool write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t m = write(fd, p, n);
        if (m <= 0) {
            return false;
        }
        p += m;
        n -= (size_t)m;
    }
    return true;
}

static void encode(struct stream *s, const struct request *q)
{
    char head[48];
    int n = snprintf(head, sizeof head, "*%d\r\n", q->argc);
    append(s, head, (size_t)n);
    for (int i = 0; i < q->argc; i++) {
        n = snprintf(head, sizeof head, "$%zu\r\n", q->len[i]);
        append(s, head, (size_t)n);
        append(s, q->bytes + q->off[i], q->len[i]);
        append(s, "\r\n", 2);
    }
}

static bool exchange(struct world *w, struct rng *r)
{
    static struct stream s;
    s.n = 0;
    for (int i = 0; i < w->group_n; i++) {
        encode(&s, &w->group[i]);
    }
    int conn = w->group_conn;
    if (!write_all(w->fd[conn], s.p, s.n)) {
        fprintf(stderr, "the server closed connection %d\n", conn);
        return false;
    }
    int64_t now = clock_us(CLOCK_REALTIME);
    for (size_t at = 0; at < s.n;) {
        size_t n = rng_chance(r, 90) ? s.n - at : 1 + rng_below(r, 20);
        if (n > s.n - at) {
            n = s.n - at;
        }
        sim_redis_input(w->srv, w->id[conn], s.p + at, n, now);
        at += n;
    }
    if (!compare_conn(w, conn)) {
        return false;
    }
    for (int i = 0; i < CONNS; i++) {
        if (i != conn && !compare_conn(w, i)) {
            return false;
        }
    }
    return true;
}

/* ---- making groups ----------------------------------------------------- */

static void one_word(struct request *q, const char *word)
{
    req_reset(q);
    req_word(q, word);
}

static bool is_busy(const struct world *w)
{
    return (sim_redis_faults(w->srv) & SIM_REDIS_BUSY) != 0;
}

static bool is_replica(const struct world *w)
{
    const unsigned f = SIM_REDIS_READONLY | SIM_REDIS_MASTERDOWN;
    return (sim_redis_faults(w->srv) & f) != 0;
}

static void next_request(struct world *w, struct rng *r, struct request *q)
{
    int conn = w->group_conn;
    size_t subs = sim_redis_subscriptions(w->srv, w->id[conn]);
    if (conn == 1 && rng_chance(r, w->multi ? 20 : 5)) {
        static const char *const tx[] = {"multi", "exec", "discard", "exec"};
        const char *word = RNG_PICK(r, tx);
        w->multi = strcmp(word, "multi") == 0;
        one_word(q, word);
    } else if (conn == 2 && rng_chance(r, 60)) {
        gen_pubsub(r, q, subs <= 1 && w->group_n == 0);
    } else if (conn == 0 && w->group_n == 0 && rng_chance(r, 1) &&
               !is_replica(w)) {
        one_word(q, "role");
        q->compare = SHAPE;
    } else if (rng_chance(r, 40)) {
        gen_script(r, q);
    } else {
        gen_command(r, q, conn == 1 || w->group_n > 0);
    }
    /* It would end the state in the middle of a group. */
    if (is_busy(w) && q->argc == 2 && q->len[1] == 4 &&
        memcmp(q->bytes + q->off[1], "kill", 4) == 0) {
        one_word(q, "ping");
    }
}

static void make_group(struct world *w, struct rng *r)
{
    size_t pick = rng_below(r, 100);
    w->group_conn = pick < 60 ? 0 : pick < 88 ? 1 : 2;
    size_t want = 1 + rng_below(r, GROUP);
    w->group_n = 0;
    while ((size_t)w->group_n < want) {
        struct request *q = &w->group[w->group_n];
        next_request(w, r, q);
        if (q->compare != EXACT && w->group_n > 0) {
            break; /* such a one goes alone */
        }
        w->group_n++;
        if (q->compare != EXACT) {
            break;
        }
    }
}

/* ---- states ------------------------------------------------------------ */

/* In the order of real_states. */
enum state {
    OOM,
    NOREPLICAS,
    READONLY,
    MASTERDOWN,
    CHANNEL,
    KEY,
    DENY,
    NOPERM,
    PASSWORD,
    MISCONF,
    BUSY,
    STATES
};

static void model_switch(struct world *w, enum state state, bool on)
{
    static const enum sim_redis_fault faults[STATES] = {
        [OOM] = SIM_REDIS_OOM,
        [NOREPLICAS] = SIM_REDIS_NOREPLICAS,
        [READONLY] = SIM_REDIS_READONLY,
        [MASTERDOWN] = SIM_REDIS_MASTERDOWN,
        [CHANNEL] = SIM_REDIS_NOPERM_CHANNEL,
        [KEY] = SIM_REDIS_NOPERM_KEY,
        [NOPERM] = SIM_REDIS_NOPERM,
        [MISCONF] = SIM_REDIS_MISCONF,
        [BUSY] = SIM_REDIS_BUSY,
    };
    if (state == PASSWORD) {
        sim_redis_set_password(w->srv, on ? REAL_PASSWORD : NULL);
    } else if (state == DENY) {
        sim_redis_deny_command(w->srv, NULL);
        if (on) {
            sim_redis_deny_command(w->srv, "publish");
            sim_redis_deny_command(w->srv, "hset");
            sim_redis_deny_command(w->srv, "pubsub|numsub");
        }
    } else {
        sim_redis_set_fault(w->srv, faults[state], on);
    }
}

/* Pairs that are one state on the real server, or that lift each other; a
 * busy server takes no orders and a stale one runs no script to be busy. */
static bool exclusive(int a, int b)
{
    if (a == BUSY || b == BUSY) {
        return true;
    }
    bool replica = (a == READONLY || a == MASTERDOWN) &&
                   (b == READONLY || b == MASTERDOWN);
    bool commands = (a == DENY || a == NOPERM) && (b == DENY || b == NOPERM);
    return a == b || replica || commands;
}

static bool subscribed(const struct world *w)
{
    for (int i = 0; i < CONNS; i++) {
        if (sim_redis_subscriptions(w->srv, w->id[i]) > 0) {
            return true;
        }
    }
    return false;
}

static bool switch_states(struct world *w, struct rng *r, bool none)
{
    for (int i = 1; i >= 0; i--) {
        if (w->state[i] >= 0) {
            model_switch(w, (enum state)w->state[i], false);
            if (!real_switch(&w->server, (size_t)w->state[i], false)) {
                return false;
            }
            w->state[i] = -1;
        }
    }
    size_t pick = rng_below(r, 100);
    int want = none || pick < 40 ? 0 : pick < 80 ? 1 : 2;
    for (int i = 0; i < want; i++) {
        int s = (int)rng_below(r, STATES);
        if (i == 1 && exclusive(s, w->state[0])) {
            continue;
        }
        /* Redis disconnects subscribers that lose their permission. */
        if (s == CHANNEL && subscribed(w)) {
            continue;
        }
        w->state[i] = s;
        model_switch(w, (enum state)s, true);
        if (!real_switch(&w->server, (size_t)s, true)) {
            return false;
        }
    }
    return true;
}

/* ---- the run ----------------------------------------------------------- */

static bool same_keys(struct world *w, struct rng *r)
{
    static const char script[] =
        "local r={} local k={'k1','k2','k3','k4','k5','k6','{t}a','{t}b',"
        "'k9',''} for d=0,15 do redis.call('select',d) for _,n in ipairs(k) do "
        "if redis.call('exists',n)==1 then r[#r+1]={d,n,redis.pcall('get',n),"
        "redis.pcall('hgetall',n),redis.pcall('zrange',n,0,-1,'withscores'),"
        "redis.pcall('lrange',n,0,-1)} end end end return r";
    struct request *q = &w->group[0];
    req_reset(q);
    req_word(q, "eval");
    req_word(q, script);
    req_word(q, "0");
    w->group_n = 1;
    w->group_conn = 0;
    return exchange(w, r);
}

static bool run(struct world *w, uint64_t count)
{
    struct rng r = {.s = w->seed};
    struct rng other = {.s = w->seed}; /* so that --paranoid changes nothing */
    w->srv = sim_redis_new(NULL, w->seed);
    for (int i = 0; i < CONNS; i++) {
        w->id[i] = sim_redis_connect(w->srv);
        w->fd[i] = real_connect(&w->server);
        if (w->fd[i] < 0) {
            fprintf(stderr, "cannot connect to redis-server\n");
            return false;
        }
    }
    int64_t start = clock_us(CLOCK_MONOTONIC);
    for (uint64_t g = 1; w->compared < count; g++) {
        if (g % 80 == 0 && !switch_states(w, &r, false)) {
            return false;
        }
        make_group(w, &r);
        if (!exchange(w, &r)) {
            return false;
        }
        if (w->paranoid && w->state[0] < 0 && w->state[1] < 0 &&
            !same_keys(w, &other)) {
            return false;
        }
    }
    double s = (double)(clock_us(CLOCK_MONOTONIC) - start) / 1e6;
    printf("seed %llu: %llu replies equal, %.1f s, %.0f/s\n",
           (unsigned long long)w->seed, (unsigned long long)w->compared, s,
           (double)w->compared / s);
    return true;
}

int main(int argc, char **argv)
{
    static struct world w;
    uint64_t count = 50000;
    w.seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) {
            w.seed = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--count") == 0) {
            count = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--paranoid") == 0) {
            w.paranoid = argv[i + 1][0] == '1';
        }
    }
    if (!real_present()) {
        printf("skipped: no redis-server in PATH\n");
        return 77;
    }
    signal(SIGPIPE, SIG_IGN);
    w.state[0] = -1;
    w.state[1] = -1;
    bool ok = real_start(&w.server) && run(&w, count);
    sim_redis_free(w.srv);
    for (int i = 0; i < CONNS; i++) {
        close(w.fd[i]);
        free(w.real[i].p);
    }
    real_stop(&w.server);
    return ok ? 0 : 1;
}
