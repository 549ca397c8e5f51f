/* bench/rows_semaphore.c — permits.
 *
 * Alone against a bare hiredis client that sends the library's own commands;
 * then 16 processes on 4 permits, where each release hands on to the first
 * waiter, against the herd (publish to all and retry). */
#include <stdio.h>

#include "bench.h"

enum { PROCESSES = 16 };

static double snib_us(struct snib_lock *lock, double seconds)
{
    double from = now_s(), end = from + seconds;
    long n = 0;
    while (now_s() < end) {
        for (int i = 0; i < 50; i++, n++) {
            section(lock);
        }
    }
    return (now_s() - from) / (double)n * 1e6;
}

static double bare_us(struct bare *b, double seconds)
{
    double from = now_s(), end = from + seconds;
    long n = 0;
    while (now_s() < end) {
        for (int i = 0; i < 50; i++, n++) {
            bare_cycle(b);
        }
    }
    return (now_s() - from) / (double)n * 1e6;
}

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
        open_kind(client, "bench:sem", SNIB_PERMITS, HERD_PERMITS);
    struct bare *b = bare_open_as(BARE_PERMIT, "bench:sem:bare");
    snib_us(lock, 0.2);
    bare_us(b, 0.2);
    for (int i = 0; i < settings.rounds; i++) {
        double ours = snib_us(lock, settings.seconds);
        finding_pair(&f, ours, bare_us(b, settings.seconds));
    }
    bare_close(b);
    snib_lock_free(lock);
    snib_client_free(client);
    report(&f);
}

static void member_permits(struct crowd *c, int me)
{
    struct snib_client *client = open_client(c->url);
    struct snib_lock *lock =
        open_kind(client, c->name, SNIB_PERMITS, HERD_PERMITS);
    struct snib_grant g;
    struct snib_error e;
    (void)me;
    atomic_fetch_add(&c->ready, 1);
    while (!atomic_load(&c->go)) {
        pause_s(0.001);
    }
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

static double rate(const struct span *s)
{
    return (double)s->sections / s->seconds;
}

static double calls(const struct span *s)
{
    return (double)(s->after.calls - s->before.calls) / (double)s->sections;
}

static double cpu_us(const struct span *s)
{
    return (s->after.cpu - s->before.cpu) / (double)s->sections * 1e6;
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
        finding_pair(&f, rate(&ours), rate(&base));
        finding_pair(&g, calls(&ours), calls(&base));
        finding_pair(&h, cpu_us(&ours), cpu_us(&base));
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
