/* bench/rows_semaphore.c — permits.
 *
 * Alone against a bare hiredis client that sends the library's own commands;
 * then 16 processes on 4 permits, where each release hands on to the first
 * waiter, against the herd (publish to all and retry). */
#include <stdio.h>

#include "bench.h"

enum { PROCESSES = 16 };

static void alone(void)
{
    struct finding f = {.row = "semaphore",
                        .what = "one permit of 4, one thread; bare",
                        .unit = "us",
                        .per_ratio = true,
                        .kind = GOAL_AT_MOST,
                        .goal = 1.10};
    struct snib_client *client = open_client(settings.redis_url);
    struct snib_lock *lock =
        open_kind(client, "bench:sem", SNIB_KIND_PERMITS, HERD_PERMITS);
    struct bare *b = bare_open_as(BARE_PERMIT, "bench:sem:bare");
    measure_alone(&f, work_of_lock(lock), work_of_bare(b));
    bare_close(b);
    snib_lock_free(lock);
    snib_client_free(client);
}

static void member_permits(struct crowd *c, int me)
{
    struct snib_client *client = open_client(c->url);
    struct snib_lock *lock =
        open_kind(client, c->name, SNIB_KIND_PERMITS, HERD_PERMITS);
    struct snib_grant g;
    struct snib_error e;
    (void)me;
    crowd_wait(c);
    while (!atomic_load(&c->stop)) {
        if (snib_acquire(lock, NULL, &g, &e)) {
            die("%s: %s", snib_err_name(e.code), e.text);
        }
        if (c->inside_s > 0) {
            pause_s(c->inside_s);
        }
        atomic_fetch_add(&c->sections, 1);
        if (snib_release(lock, g, &e)) {
            die("%s: %s", snib_err_name(e.code), e.text);
        }
    }
    snib_lock_free(lock);
    snib_client_free(client);
}

static struct span permits(member *run, const char *name, double inside_s)
{
    struct crowd *c = crowd_new();
    c->url = settings.redis_url;
    c->name = name;
    c->inside_s = inside_s;
    struct span s = crowd_processes(c, PROCESSES, run, settings.seconds);
    crowd_free(c);
    return s;
}

static void hand_over(double inside_s, const char *what)
{
    struct finding f = {.row = "semaphore",
                        .what = what,
                        .unit = "sections/s",
                        .per_ratio = true};
    struct finding g = {.row = "semaphore",
                        .what = "  script calls a section",
                        .unit = "calls",
                        .kind = GOAL_AT_MOST,
                        .goal = 2.05};
    struct finding h = {.row = "semaphore",
                        .what = "  the server's CPU a section",
                        .unit = "us"};
    for (int i = 0; i < settings.rounds; i++) {
        struct span ours = permits(member_permits, "bench:sem:crowd", inside_s);
        struct span base =
            permits(member_herd_permits, "bench:sem:herd", inside_s);
        finding_pair(&f, span_rate(&ours), span_rate(&base));
        finding_pair(&g, span_calls(&ours), span_calls(&base));
        finding_pair(&h, span_cpu_us(&ours), span_cpu_us(&base));
    }
    report(&f);
    report(&g);
    report(&h);
}

void row_semaphore(void)
{
    alone();
    hand_over(0.001, "16 processes, 4 permits, 1 ms; herd");
    /* Nobody is ever handed on to in the herd then: who gives back takes
     * again before anybody else has woken. */
    hand_over(0, "16 processes, 4 permits, empty; herd");
}
