/* store/memory/space.c — the registry of spaces.
 *
 * Locking: the registry's mutex guards the list of spaces and their reference
 * counts; a space's mutex guards its content. No thread holds both. A space is
 * freed under the registry's mutex alone, when no client can reach it.
 *
 * Fork: a thread that the child does not have may have held any of these
 * mutexes, and what it guards may be half changed. So a child begins with an
 * empty registry and never touches the parent's spaces. */
#include "store/memory/space.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/memory/values.h"

/* A virtual clock does not begin at zero, where bugs hide. */
#define VIRTUAL_START_MS INT64_C(1000000)
#define VIRTUAL_EPOCH_MS INT64_C(1700000000000)

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct snib__list registry = {{&registry.head, &registry.head}};
static int64_t registry_floor; /* highest token of the spaces that ended */

static void space_forget_in_child(void)
{
    registry_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    snib__list_init(&registry);
}

static pthread_once_t watched = PTHREAD_ONCE_INIT;
static int not_watched;

static void space_watch_forks(void)
{
    not_watched = pthread_atfork(NULL, NULL, space_forget_in_child);
}

/* -- spaces ---------------------------------------------------------------- */

static int64_t space_ms_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

snib_instant snib__space_now(const struct snib__space *s)
{
    struct timespec t;
    if (s->is_virtual) {
        return s->now;
    }
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (snib_instant){(int64_t)t.tv_sec * 1000000000 + t.tv_nsec};
}

int64_t snib__space_wall_ms(const struct snib__space *s)
{
    if (s->is_virtual) {
        return VIRTUAL_EPOCH_MS + s->now.ns / 1000000;
    }
    return space_ms_of(CLOCK_REALTIME);
}

static void space_forget_lock(struct snib__space *s,
                              struct snib__mem_lock *lock)
{
    struct snib__link *k;
    while ((k = snib__list_pop(&lock->claims))) {
        struct snib__memory_claim *claim =
            SNIB__CONTAINER(k, struct snib__memory_claim, link);
        snib__unlink(&claim->told);
        snib__unlink(&claim->mark);
        snib__free(claim);
    }
    if (lock->token > s->floor) {
        s->floor = lock->token;
    }
    snib__unlink(&lock->idle);
    snib__free(lock);
}

void snib__space_forget(struct snib__space *s)
{
    static _Atomic int64_t lives;
    for (size_t i = 0; i < SNIB__SPACE_BUCKETS; i++) {
        struct snib__link *l;
        while ((l = snib__list_pop(&s->bucket[i]))) {
            space_forget_lock(
                s, SNIB__CONTAINER(l, struct snib__mem_lock, bucket));
        }
    }
    s->idle_count = 0;
    snib__mem_values_free(s->values);
    s->values = NULL;
    s->life = atomic_fetch_add(&lives, 1) + 1;
}

static void space_free_space(struct snib__space *s)
{
    snib__space_forget(s);
    if (s->floor > registry_floor) {
        registry_floor = s->floor;
    }
    pthread_mutex_destroy(&s->mutex);
    snib__free(s->name);
    snib__free(s);
}

static struct snib__space *space_new_space(const char *name, bool is_virtual)
{
    struct snib__space *s = snib__alloc(sizeof *s);
    if (!s) {
        return NULL;
    }
    s->name = snib__strdup(name);
    if (!s->name || pthread_mutex_init(&s->mutex, NULL)) {
        snib__free(s->name);
        snib__free(s);
        return NULL;
    }
    s->is_virtual = is_virtual;
    s->now = (snib_instant){VIRTUAL_START_MS * 1000000};
    s->floor = registry_floor;
    snib__list_init(&s->clients);
    snib__list_init(&s->idle);
    snib__list_init(&s->marks);
    for (size_t i = 0; i < SNIB__SPACE_BUCKETS; i++) {
        snib__list_init(&s->bucket[i]);
    }
    snib__space_forget(s); /* for its first life */
    snib__list_push(&registry, &s->link);
    return s;
}

static struct snib__space *space_find_space(const char *name)
{
    SNIB__LIST_EACH (l, &registry) {
        struct snib__space *s = SNIB__CONTAINER(l, struct snib__space, link);
        if (strcmp(s->name, name) == 0) {
            return s;
        }
    }
    return NULL;
}

snib_err snib__space_open(const char *name, bool is_virtual,
                          struct snib__space **ret, struct snib_error *reterr)
{
    snib_err err = SNIB_ERR_OK;
    *ret = NULL;
    if (pthread_once(&watched, space_watch_forks) || not_watched) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    pthread_mutex_lock(&registry_mutex);
    struct snib__space *s = space_find_space(name);
    if (!s) {
        s = space_new_space(name, is_virtual);
        if (!s) {
            err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
        }
    } else if (s->is_virtual != is_virtual) {
        err = snib__fail(reterr, SNIB_ERR_CONFIG,
                         "memory:%s is in use with a %s clock; open it with "
                         "the same ?clock=",
                         name, s->is_virtual ? "virtual" : "real");
        s = NULL;
    }
    if (s) {
        s->refs++;
    }
    pthread_mutex_unlock(&registry_mutex);
    *ret = s;
    return err;
}

void snib__space_close(struct snib__space *s)
{
    pthread_mutex_lock(&registry_mutex);
    if (--s->refs == 0) {
        snib__unlink(&s->link);
        space_free_space(s);
    }
    pthread_mutex_unlock(&registry_mutex);
}
