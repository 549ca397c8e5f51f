/* bench/rows_nested.c — what the search for deadlocks costs where there are
 * none: threads that take a common lock inside locks of their own, with a
 * client that searches against one that does not (no_deadlock_check). The two
 * take turns, and each turn begins with the other one of them. */
#include <stdio.h>

#include "bench.h"

static struct snib_client *open_searching(const char *url, bool search)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *client;
    struct snib_error e;
    o.url = url;
    o.program = "bench";
    o.no_deadlock_check = !search;
    if (snib_client_open(&o, &client, &e)) {
        die("%s: %s", snib_err_name(e.code), e.text);
    }
    return client;
}

static void thread_nested(struct crowd *c, int me)
{
    char name[32];
    snprintf(name, sizeof name, "bench:own:%d", me);
    struct snib_lock *own = open_lock(c->data, name);
    struct snib_lock *common = open_lock(c->data, c->name);
    struct snib_grant g;
    struct snib_error e;
    crowd_wait(c);
    while (!atomic_load(&c->stop)) {
        if (snib_acquire(own, NULL, &g, &e)) {
            die("%s: %s", snib_err_name(e.code), e.text);
        }
        section(common);
        if (snib_release(own, g, &e)) {
            die("%s: %s", snib_err_name(e.code), e.text);
        }
        atomic_fetch_add_explicit(&c->sections, 1, memory_order_relaxed);
    }
    snib_lock_free(common);
    snib_lock_free(own);
}

/* Microseconds a pair of both locks, all threads together. */
static double nested_us(const char *url, int threads, bool search)
{
    struct crowd *c = crowd_new();
    c->name = "bench:common";
    c->data = open_searching(url, search);
    struct span s = crowd_threads(c, threads, thread_nested, settings.seconds);
    snib_client_free(c->data);
    crowd_free(c);
    return 1e6 / span_rate(&s);
}

static void nested(const char *url, int threads, const char *what)
{
    struct finding f = {.row = "nested",
                        .what = what,
                        .unit = "us",
                        .per_ratio = true,
                        .kind = GOAL_AT_MOST,
                        .goal = 1.1};
    for (int i = 0; i < settings.rounds; i++) {
        double with[2];
        for (int k = 0; k < 2; k++) {
            bool search = (i + k) % 2;
            with[search] = nested_us(url, threads, search);
        }
        finding_pair(&f, with[true], with[false]);
    }
    report(&f);
}

void row_nested(void)
{
    char file[4200];
    snprintf(file, sizeof file, "file:%s/nested.db", settings.dir);
    nested(settings.redis_url, 1, "1 thread; without the search");
    nested(settings.redis_url, 8, "8 threads; without the search");
    nested(file, 1, "  embedded, 1 thread; without the search");
    nested(file, 8, "  embedded, 8 threads; without the search");
}
