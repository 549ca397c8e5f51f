/* bench/rows_keep.c — released locks that are kept (snib_lock_options.keep_ms).
 *
 * A loop of one thread on one lock that nobody else wants, with and without;
 * and 16 processes on one lock. There what counts is how often the lock changes
 * its owner: a keeper that went on by itself would do many sections, and the
 * others none. */
#include <stdio.h>

#include "bench.h"

enum { PROCESSES = 16, KEEP_MS = 50 };

static struct snib_lock *open_kept(struct snib_client *client, const char *name,
                                   int64_t keep_ms)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *lock;
    struct snib_error e;
    o.keep_ms = keep_ms;
    if (snib_lock_new(client, name, &o, &lock, &e)) {
        die("%s: %s", snib_err_name(e.code), e.text);
    }
    return lock;
}

static void alone(void)
{
    struct finding f = {.row = "keep",
                        .what = "one thread, one lock; not kept",
                        .unit = "us",
                        .per_ratio = true,
                        .kind = GOAL_AT_MOST,
                        .goal = 0.05};
    struct snib_client *client = open_client(settings.redis_url);
    struct snib_lock *kept = open_kept(client, "bench:kept", KEEP_MS);
    struct snib_lock *plain = open_kept(client, "bench:plain", 0);
    measure_alone(&f, work_of_lock(kept), work_of_lock(plain));
    snib_lock_free(kept);
    snib_lock_free(plain);
    snib_client_free(client);
}

/* Counts the changes of owner as sections; the last owner's number is kept in
 * released_ns, which this row does not use. */
static void changes(struct crowd *c, int me, int64_t keep_ms)
{
    struct snib_client *client = open_client(c->url);
    struct snib_lock *lock = open_kept(client, c->name, keep_ms);
    struct snib_grant g;
    struct snib_error e;
    crowd_wait(c);
    while (!atomic_load(&c->stop)) {
        if (snib_acquire(lock, NULL, &g, &e)) {
            die("%s: %s", snib_err_name(e.code), e.text);
        }
        if (atomic_exchange(&c->released_ns, me + 1) != me + 1) {
            atomic_fetch_add(&c->sections, 1);
        }
        if (snib_release(lock, g, &e)) {
            die("%s: %s", snib_err_name(e.code), e.text);
        }
    }
    snib_lock_free(lock);
    snib_client_free(client);
}

static void member_keeps(struct crowd *c, int me)
{
    changes(c, me, KEEP_MS);
}

static void member_gives_back(struct crowd *c, int me)
{
    changes(c, me, 0);
}

static struct span crowded(member *run)
{
    struct crowd *c = crowd_new();
    c->url = settings.redis_url;
    c->name = "bench:kept:crowd";
    struct span s = crowd_processes(c, PROCESSES, run, settings.seconds);
    crowd_free(c);
    return s;
}

void row_keep(void)
{
    struct finding f = {.row = "keep",
                        .what = "16 processes: changes of owner; not kept",
                        .unit = "changes/s",
                        .per_ratio = true,
                        .kind = GOAL_AT_LEAST,
                        .goal = 1};
    struct finding g = {.row = "keep",
                        .what = "  script calls a change",
                        .unit = "calls",
                        .per_ratio = true};
    struct finding h = {.row = "keep",
                        .what = "  the server's CPU a change",
                        .unit = "us",
                        .per_ratio = true};
    alone();
    for (int i = 0; i < settings.rounds; i++) {
        struct span ours = crowded(member_keeps);
        struct span base = crowded(member_gives_back);
        finding_pair(&f, span_rate(&ours), span_rate(&base));
        finding_pair(&g, span_calls(&ours), span_calls(&base));
        finding_pair(&h, span_cpu_us(&ours), span_cpu_us(&base));
    }
    report(&f);
    report(&g);
    report(&h);
}
