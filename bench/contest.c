/* bench/contest.c — processes at one lock of a server: ours, and the others'.
 *
 * Ours are started for each turn, and have done a section before it begins: so
 * they are connected then, as the others are. */
#include <stdio.h>
#include <string.h>

#include "bench.h"

static void member_connected(struct crowd *c, int me)
{
    struct snib_client *client = open_client(c->url);
    struct snib_lock *lock = open_lock(client, c->name);
    (void)me;
    section(lock);
    crowd_repeat(c, work_of_lock(lock));
    snib_lock_free(lock);
    snib_client_free(client);
}

static struct span contest_ours(const struct contest *contest, int processes)
{
    struct crowd *c = crowd_new();
    c->url = contest->service->url;
    c->name = "bench";
    struct span span =
        crowd_processes(c, processes, member_connected, settings.seconds);
    crowd_free(c);
    return span;
}

/* "3 processes, one lock; AGAINST" */
static const char *contest_title(const struct contest *c, int processes)
{
    char title[64];
    snprintf(title, sizeof title, "%d process%s, one lock; %s", processes,
             processes == 1 ? "" : "es", c->against);
    return strdup(title);
}

static void contest_alive(const struct contest *c, const struct span *ours,
                          const struct span *others)
{
    if (!ours->sections || !others->sections) {
        die("%s: %llu sections of ours and %llu of %s in %g s", c->row,
            ours->sections, others->sections, c->against, settings.seconds);
    }
}

void contest_measure(const struct contest *c, int processes, double goal)
{
    struct finding f = {.row = c->row,
                        .what = contest_title(c, processes),
                        .unit = "sections/s",
                        .per_ratio = true,
                        .kind = goal > 0 ? GOAL_AT_LEAST : GOAL_NONE,
                        .goal = goal};
    struct finding g = {.row = c->row,
                        .what = "  the server's CPU a section",
                        .unit = "us",
                        .kind = GOAL_NONE};
    for (int i = 0; i < settings.rounds; i++) {
        struct span ours = contest_ours(c, processes);
        struct span others = c->others(c->data, processes);
        contest_alive(c, &ours, &others);
        finding_pair(&f, span_rate(&ours), span_rate(&others));
        finding_pair(&g, span_cpu_us(&ours), span_cpu_us(&others));
    }
    report(&f);
    report(&g);
}
