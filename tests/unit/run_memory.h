/* tests/unit/run_memory.h — clients on memory:, for tests of what src/api adds
 * to the engine, without a server. */
#ifndef SNIB_TESTS_RUN_MEMORY_H
#define SNIB_TESTS_RUN_MEMORY_H

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/client.h"
#include "api/testing.h"
#include "snib.h"
#include "snib/test.h"

static struct snib_error e;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void nap(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Each case has a space of its own. */
static int space;

static int new_space(void **state)
{
    (void)state;
    space++;
    return 0;
}

/* request_ms: 0 for what is usual. */
static struct snib_client *client_on(const char *url, bool pull,
                                     int64_t request_ms)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    o.url = url;
    o.pull = pull;
    o.request_ms = request_ms ? request_ms : o.request_ms;
    assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_OK);
    return c;
}

static struct snib_client *open_client(const char *query, bool pull)
{
    char url[64];
    snprintf(url, sizeof url, "memory:case%d%s", space, query);
    return client_on(url, pull, 0);
}

static struct snib_lock *lock_of(struct snib_client *c, const char *name)
{
    struct snib_lock *l;
    assert_int_equal(snib_lock_new(c, name, NULL, &l, &e), SNIB_ERR_OK);
    return l;
}

static snib_err acquire(struct snib_lock *l, int64_t ms, struct snib_grant *g)
{
    return snib_try_for(l, ms, NULL, g, &e);
}

/* No descriptor more than are open now, until they are given back. */
static struct rlimit take_descriptors(void)
{
    struct rlimit was, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    return was;
}

static void give_descriptors(struct rlimit was)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

/* A thread that acquires and releases. */
struct job {
    struct snib_lock *lock;
    struct snib_grant grant;
    int64_t wait_ms, took_ms;
    snib_err err;
};

static void *acquires(void *arg)
{
    struct job *j = arg;
    struct snib_error mine;
    int64_t t = now_ms();
    j->err = snib_try_for(j->lock, j->wait_ms, NULL, &j->grant, &mine);
    j->took_ms = now_ms() - t;
    if (!j->err) {
        (void)snib_release(j->lock, j->grant, &mine);
    }
    return NULL;
}

#endif
