/* bench/rows_multi.c — three locks as one (snib/multi.h).
 *
 * Against a bare hiredis client that pipelines the same six script calls (two
 * round trips, which is the least there is), against the same client one lock
 * after the other, and against the library's own three acquires. */
#include <snib/multi.h>
#include <stdio.h>

#include "bench.h"

enum { LOCKS = 3 };

struct three {
    struct snib_lock *lock[LOCKS];
    struct snib_multi *multi;
    struct bare *bare[LOCKS];
};

static void as_one(void *data)
{
    struct three *t = data;
    struct snib_grant g[LOCKS];
    struct snib_error err;
    if (snib_multi_acquire(t->multi, NULL, g, &err) ||
        snib_multi_release(t->multi, g, &err)) {
        die("multi: %s", err.text);
    }
}

static void one_by_one(void *data)
{
    struct three *t = data;
    struct snib_grant g[LOCKS];
    struct snib_error err;
    for (int i = 0; i < LOCKS; i++) {
        if (snib_acquire(t->lock[i], NULL, &g[i], &err)) {
            die("acquire: %s", err.text);
        }
    }
    for (int i = LOCKS; i-- > 0;) {
        if (snib_release(t->lock[i], g[i], &err)) {
            die("release: %s", err.text);
        }
    }
}

static void bare_at_once(void *data)
{
    struct three *t = data;
    bare_cycle_all(t->bare, LOCKS);
}

static void bare_in_turn(void *data)
{
    struct three *t = data;
    for (int i = 0; i < LOCKS; i++) {
        bare_cycle(t->bare[i]);
    }
}

static void against(const char *what, void (*base)(void *), struct three *t)
{
    struct finding f = {
        .row = "multi", .what = what, .unit = "us", .per_ratio = true};
    measure_alone(&f, (struct work){as_one, t, 1}, (struct work){base, t, 1});
}

/* The same on a file of this host. */
static void embedded(void)
{
    char url[512];
    struct three t;
    snprintf(url, sizeof url, "file:%s/multi.db", settings.dir);
    struct snib_client *client = open_client(url);
    struct snib_error err;
    for (int i = 0; i < LOCKS; i++) {
        t.lock[i] = open_lock(client, (const char *[]){"a", "b", "c"}[i]);
    }
    if (snib_multi_new(t.lock, LOCKS, NULL, &t.multi, &err)) {
        die("multi: %s", err.text);
    }
    against("3 locks as one, embedded; one by one", one_by_one, &t);
    snib_multi_free(t.multi);
    for (int i = 0; i < LOCKS; i++) {
        snib_lock_free(t.lock[i]);
    }
    snib_client_free(client);
}

void row_multi(void)
{
    struct three t;
    struct snib_client *client = open_client(settings.redis_url);
    struct snib_error err;
    for (int i = 0; i < LOCKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "bench:m:%d", i);
        t.lock[i] = open_lock(client, name);
        snprintf(name, sizeof name, "bench:mb:%d", i);
        t.bare[i] = bare_open(name);
    }
    if (snib_multi_new(t.lock, LOCKS, NULL, &t.multi, &err)) {
        die("multi: %s", err.text);
    }
    against("3 locks as one; bare, pipelined", bare_at_once, &t);
    against("  bare, one lock after the other", bare_in_turn, &t);
    against("  snib, one lock after the other", one_by_one, &t);
    snib_multi_free(t.multi);
    for (int i = 0; i < LOCKS; i++) {
        snib_lock_free(t.lock[i]);
        bare_close(t.bare[i]);
    }
    snib_client_free(client);
    embedded();
}
