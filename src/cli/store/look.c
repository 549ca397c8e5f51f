/* look.c — see look.h. Each inspection has a thread: there is one a second at
 * most, and only while somebody waits. */
#define _GNU_SOURCE
#include "cli/store/look.h"
#include "cli/supervisor/proc.h"
#include "snib/inspect.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long a last message may take: beyond the limit; of a single attempt, which
 * has none. */
#define LAST_WORD   INT64_C(100000000)
#define SINGLE_WORD INT64_C(500000000)

struct look {
    struct snib_client *client;
    char name[SNIB_NAME_MAX + 1];
    size_t name_size;
    bool all_params;
    int wake_fd;
    pthread_mutex_t mutex; /* guards the fields below */
    pthread_cond_t done;
    bool answered, dropped;
    struct look_answer answer;
};

static atomic_int look_count;

bool look_pending(void)
{
    return atomic_load(&look_count) > 0;
}

static void look_free(struct look *l)
{
    pthread_cond_destroy(&l->done);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

static void look_ask(struct look *l)
{
    struct look_answer *a = &l->answer;

    a->error.code = snib_client_inspect(l->client, l->name, l->name_size,
                                        &a->view, &a->error);
    if (a->error.code != SNIB_ERR_OK) {
        return;
    }
    if (l->all_params || a->view->holder_count == 0) {
        kind_params_get(l->client, l->name, l->name_size, &a->params);
    } else {
        kind_params_for(l->client, a->view, &a->params);
    }
}

static void *look_main(void *data)
{
    struct look *l = data;
    uint64_t one = 1;
    bool dropped;

    look_ask(l);
    atomic_fetch_sub(&look_count, 1);
    pthread_mutex_lock(&l->mutex);
    l->answered = true;
    dropped = l->dropped;
    if (!dropped && l->wake_fd >= 0 &&
        TEMP_FAILURE_RETRY(write(l->wake_fd, &one, sizeof one)) < 0) {
        one = 0; /* full: then it is readable already */
    }
    pthread_cond_signal(&l->done);
    pthread_mutex_unlock(&l->mutex);
    if (dropped) {
        snib_view_free(l->answer.view);
        look_free(l);
    }
    return NULL;
}

static bool look_spawn(struct look *l)
{
    pthread_condattr_t attributes;
    pthread_t thread;

    pthread_mutex_init(&l->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&l->done, &attributes);
    pthread_condattr_destroy(&attributes);
    atomic_fetch_add(&look_count, 1);
    if (pthread_create(&thread, NULL, look_main, l) != 0) {
        atomic_fetch_sub(&look_count, 1);
        return false;
    }
    pthread_detach(thread);
    return true;
}

struct look *look_start(struct snib_client *client, const char *name,
                        bool all_params, int wake_fd)
{
    struct look *l = calloc(1, sizeof *l);
    size_t size = strlen(name);

    if (l == NULL) {
        return NULL;
    }
    l->client = client;
    l->name_size = size < sizeof l->name ? size : sizeof l->name - 1;
    memcpy(l->name, name, l->name_size);
    l->all_params = all_params;
    l->wake_fd = wake_fd;
    l->answer.params = (struct kind_params)KIND_PARAMS_NONE;
    if (!look_spawn(l)) {
        look_free(l);
        return NULL;
    }
    return l;
}

static struct timespec look_limit(int64_t until_ns)
{
    int64_t left = until_ns - proc_now();
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    if (left > INT64_C(1000000000) * 3600) {
        left = INT64_C(1000000000) * 3600;
    }
    if (left > 0) {
        ts.tv_sec += (time_t)(left / 1000000000);
        ts.tv_nsec += (long)(left % 1000000000);
        ts.tv_sec += ts.tv_nsec / 1000000000;
        ts.tv_nsec %= 1000000000;
    }
    return ts;
}

bool look_take(struct look *l, int64_t until_ns, struct look_answer *ret)
{
    struct timespec limit = look_limit(until_ns);
    bool answered;

    pthread_mutex_lock(&l->mutex);
    while (!l->answered && proc_now() < until_ns) {
        if (pthread_cond_timedwait(&l->done, &l->mutex, &limit) != 0) {
            break;
        }
    }
    answered = l->answered;
    if (answered) {
        *ret = l->answer;
    }
    pthread_mutex_unlock(&l->mutex);
    if (answered) {
        look_free(l);
    }
    return answered;
}

void look_drop(struct look *l)
{
    bool answered;

    if (l == NULL) {
        return;
    }
    pthread_mutex_lock(&l->mutex);
    answered = l->answered;
    l->dropped = true;
    pthread_mutex_unlock(&l->mutex);
    if (answered) {
        snib_view_free(l->answer.view);
        look_free(l);
    }
}

void look_in_the_way(struct snib_client *client, const char *name,
                     snib_kind kind, uint32_t permits, bool single,
                     struct text *t)
{
    int64_t until = proc_now() + (single ? SINGLE_WORD : LAST_WORD);
    struct look *l = look_start(client, name, false, -1);
    struct look_answer a;
    struct snib_view *v;

    if (l == NULL) {
        return;
    }
    if (!look_take(l, until, &a)) {
        look_drop(l);
        return;
    }
    v = a.view;
    if (a.error.code == SNIB_ERR_OK &&
        (v->holder_count + v->waiter_count + v->closed_count > 0 ||
         a.params.latch > 0 || v->recovery_ms > 0)) {
        kind_in_the_way(t, v, &a.params, kind, permits);
    }
    snib_view_free(v);
}
