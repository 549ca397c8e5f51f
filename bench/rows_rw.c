/* bench/rows_rw.c — nine readers to one writer.
 *
 * Alone against a bare hiredis client that sends the library's own commands in
 * the same order; then eight processes on one name against the same processes
 * with mutexes only, which is what sharing is there for. */
#include <stdio.h>

#include "bench.h"

enum { MIX = 10, PROCESSES = 8 };
static const double INSIDE_S = 0.001;

static struct {
    struct snib_lock *read, *write;
    struct bare *bare_read, *bare_write;
} one;

static void mix_snib(void *data)
{
    (void)data;
    for (int i = 0; i < MIX; i++) {
        section(i ? one.read : one.write);
    }
}

static void mix_bare(void *data)
{
    (void)data;
    for (int i = 0; i < MIX; i++) {
        bare_cycle(i ? one.bare_read : one.bare_write);
    }
}

static void alone(void)
{
    struct finding f = {.row = "rw",
                        .what = "9 reads, 1 write, one thread; bare",
                        .unit = "us",
                        .per_ratio = true,
                        .kind = GOAL_AT_MOST,
                        .goal = 1.10};
    struct snib_client *client = open_client(settings.redis_url);
    one.read = open_kind(client, "bench:rw", SNIB_KIND_READ, 0);
    one.write = open_kind(client, "bench:rw", SNIB_KIND_WRITE, 0);
    one.bare_read = bare_open_as(BARE_READ, "bench:rw:bare");
    one.bare_write = bare_open_as(BARE_WRITE, "bench:rw:bare");
    measure_alone(&f, (struct work){mix_snib, NULL, MIX},
                  (struct work){mix_bare, NULL, MIX});
    bare_close(one.bare_read);
    bare_close(one.bare_write);
    snib_lock_free(one.read);
    snib_lock_free(one.write);
    snib_client_free(client);
}

/* -- a crowd ----------------------------------------------------------------- */

static void stay_inside(struct snib_lock *lock)
{
    struct snib_grant g;
    struct snib_error e;
    if (snib_acquire(lock, NULL, &g, &e)) {
        die("%s: %s", snib_err_name(e.code), e.text);
    }
    pause_s(INSIDE_S);
    if (snib_release(lock, g, &e)) {
        die("%s: %s", snib_err_name(e.code), e.text);
    }
}

static void sections(struct crowd *c, int me, snib_kind often)
{
    struct snib_client *client = open_client(c->url);
    struct snib_lock *shared = open_kind(client, c->name, often, 0);
    struct snib_lock *write = open_kind(client, c->name, SNIB_KIND_WRITE, 0);
    crowd_wait(c);
    for (int i = me; !atomic_load(&c->stop); i++) {
        stay_inside(i % MIX ? shared : write);
        atomic_fetch_add(&c->sections, 1);
    }
    snib_lock_free(shared);
    snib_lock_free(write);
    snib_client_free(client);
}

static void member_mix(struct crowd *c, int me)
{
    sections(c, me, SNIB_KIND_READ);
}

static void member_mutex(struct crowd *c, int me)
{
    sections(c, me, SNIB_KIND_MUTEX);
}

static struct span shared(member *run, const char *name)
{
    struct crowd *c = crowd_new();
    c->url = settings.redis_url;
    c->name = name;
    struct span s = crowd_processes(c, PROCESSES, run, settings.seconds);
    crowd_free(c);
    return s;
}

static void crowd(void)
{
    struct finding f = {.row = "rw",
                        .what = "8 processes, 1 ms inside; mutexes only",
                        .unit = "sections/s",
                        .per_ratio = true,
                        .kind = GOAL_AT_LEAST,
                        .goal = 1.5};
    struct finding g = {
        .row = "rw", .what = "  script calls a section", .unit = "calls"};
    for (int i = 0; i < settings.rounds; i++) {
        struct span ours = shared(member_mix, "bench:rw:crowd");
        struct span base = shared(member_mutex, "bench:rw:mutex");
        finding_pair(&f, span_rate(&ours), span_rate(&base));
        finding_pair(&g, span_calls(&ours), span_calls(&base));
    }
    report(&f);
    report(&g);
}

void row_rw(void)
{
    alone();
    crowd();
}
