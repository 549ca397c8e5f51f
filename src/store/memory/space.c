/* store/memory/space.c — the registry of spaces, and a book in plain memory.
 *
 * Locking: the registry's mutex guards the list of spaces and their reference
 * counts; a space's mutex guards its content. No thread holds both. A space is
 * freed under the registry's mutex alone, when no client can reach it.
 *
 * Fork: a thread that the child does not have may have held any of these
 * mutexes, and what it guards may be half changed. So a child begins with an
 * empty registry and never touches the parent's spaces. */
#include "store/memory/space.h"

#include <string.h>
#include <sys/eventfd.h>
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

static void space_free_space(struct snib__space *s)
{
    for (size_t i = 0; i < SNIB__SPACE_BUCKETS; i++) {
        struct snib__link *l;
        while ((l = snib__list_pop(&s->bucket[i]))) {
            struct snib__mem_lock *lock =
                SNIB__CONTAINER(l, struct snib__mem_lock, bucket);
            struct snib__link *k;
            while ((k = snib__list_pop(&lock->claims))) {
                snib__free(SNIB__CONTAINER(k, struct snib__memory_claim, link));
            }
            if (lock->token > registry_floor) {
                registry_floor = lock->token;
            }
            snib__free(lock);
        }
    }
    if (s->floor > registry_floor) {
        registry_floor = s->floor;
    }
    snib__mem_values_free(s->values);
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

/* -- the book -------------------------------------------------------------- */

static struct snib__mem_book *space_mem_of(struct snib__book *b)
{
    return (struct snib__mem_book *)(void *)b;
}

static struct snib__memory_claim *space_claim_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__memory_claim, link);
}

static struct snib__memory_claim *space_by_id(struct snib__mem_book *m,
                                              int64_t id)
{
    SNIB__LIST_EACH (l, &m->lock->claims) {
        if (space_claim_of(l)->c.id == id) {
            return space_claim_of(l);
        }
    }
    return NULL;
}

static bool space_is_mark(int state)
{
    return state == SNIB__TOMBSTONE || state == SNIB__UNRESPONSIVE ||
           state == SNIB__REVOKED;
}

static void space_drop_claim(struct snib__memory_claim *k)
{
    snib__unlink(&k->link);
    snib__unlink(&k->told);
    snib__unlink(&k->mark);
    snib__free(k);
}

/* If nothing needs this name now, put it in the queue of names to be forgotten.
 * Beyond SNIB__IDLE_MAX the oldest is forgotten and its token goes into the
 * floor. */
static void space_note_idle(struct snib__space *s, struct snib__mem_lock *lock)
{
    if (!snib__list_empty(&lock->claims) || lock->params.size >= 0 ||
        lock->params.latch > 0) {
        return;
    }
    if (!snib__linked(&lock->idle)) {
        snib__list_push(&s->idle, &lock->idle);
        s->idle_count++;
    }
    while (s->idle_count > SNIB__IDLE_MAX) {
        struct snib__link *l = snib__list_pop(&s->idle);
        struct snib__mem_lock *old =
            SNIB__CONTAINER(l, struct snib__mem_lock, idle);
        s->idle_count--;
        if (old->token > s->floor) {
            s->floor = old->token;
        }
        snib__unlink(&old->bucket);
        snib__free(old);
    }
}

static bool space_find(struct snib__book *b, const struct snib__name *name,
                       const uint64_t request[2],
                       struct snib__stored_claim *ret)
{
    struct snib__mem_book *m = space_mem_of(b);
    (void)name;
    SNIB__LIST_EACH (l, &m->lock->claims) {
        const struct snib__stored_claim *c = &space_claim_of(l)->c;
        if (c->request[0] == request[0] && c->request[1] == request[1]) {
            *ret = *c;
            return true;
        }
    }
    return false;
}

/* Waiters are in order of rank, then arrival; all others in order of
 * arrival. */
static bool space_is_before(int state, const struct snib__stored_claim *a,
                            const struct snib__stored_claim *b)
{
    if (state == SNIB__WAITS && a->rank != b->rank) {
        return a->rank < b->rank;
    }
    return a->id < b->id;
}

static bool space_next(struct snib__book *b, const struct snib__name *name,
                       int state, const struct snib__stored_claim *after,
                       struct snib__stored_claim *ret)
{
    struct snib__mem_book *m = space_mem_of(b);
    const struct snib__stored_claim *best = NULL;
    (void)name;
    SNIB__LIST_EACH (l, &m->lock->claims) {
        const struct snib__stored_claim *c = &space_claim_of(l)->c;
        if (c->state == state && (!after || space_is_before(state, after, c)) &&
            (!best || space_is_before(state, c, best))) {
            best = c;
        }
    }
    if (best) {
        *ret = *best;
    }
    return best != NULL;
}

static void space_share(struct snib__book *b, const struct snib__name *name,
                        int by)
{
    (void)b;
    (void)name;
    (void)by;
}

static void space_params(struct snib__book *b, const struct snib__name *name,
                         struct snib__params *ret)
{
    (void)name;
    *ret = space_mem_of(b)->lock->params;
}

static void space_set_params(struct snib__book *b,
                             const struct snib__name *name,
                             const struct snib__params *t)
{
    (void)name;
    space_mem_of(b)->lock->params = *t;
}

static uint32_t space_before(struct snib__book *b,
                             const struct snib__name *name,
                             const struct snib__stored_claim *c)
{
    struct snib__mem_book *m = space_mem_of(b);
    uint32_t n = 0;
    (void)name;
    SNIB__LIST_EACH (l, &m->lock->claims) {
        const struct snib__stored_claim *k = &space_claim_of(l)->c;
        n += k->state == SNIB__WAITS && space_is_before(SNIB__WAITS, k, c) &&
             n < SNIB__POSITION_MAX;
    }
    return n;
}

static int64_t space_token(struct snib__book *b, const struct snib__name *name)
{
    struct snib__mem_book *m = space_mem_of(b);
    (void)name;
    return m->lock->token > m->space->floor ? m->lock->token : m->space->floor;
}

static void space_set_token(struct snib__book *b, const struct snib__name *name,
                            int64_t t)
{
    (void)name;
    space_mem_of(b)->lock->token = t;
}

/* Only this process writes to this memory, so there is no other place to
 * mend. */
static void space_mend_token(struct snib__book *b,
                             const struct snib__name *name, int64_t t)
{
    space_set_token(b, name, t);
}

static int64_t space_highest(struct snib__book *b)
{
    struct snib__space *s = space_mem_of(b)->space;
    int64_t high = s->floor;
    for (size_t i = 0; i < SNIB__SPACE_BUCKETS; i++) {
        SNIB__LIST_EACH (l, &s->bucket[i]) {
            int64_t t =
                SNIB__CONTAINER(l, struct snib__mem_lock, bucket)->token;
            high = t > high ? t : high;
        }
    }
    return high;
}

static void space_add(struct snib__book *b, const struct snib__name *name,
                      struct snib__stored_claim *c, const void *about,
                      size_t size)
{
    struct snib__mem_book *m = space_mem_of(b);
    struct snib__memory_claim *k = m->spare;
    (void)name;
    if (!k || size > k->about_size) {
        b->err = SNIB_ERR_INTERNAL;
        return;
    }
    m->spare = NULL;
    k->lock = m->lock;
    k->c = *c;
    k->c.id = c->id = ++m->space->last_id;
    k->about_size = (uint32_t)size;
    if (size) {
        memcpy(k->about, about, size);
    }
    snib__list_push(&m->lock->claims, &k->link);
    if (space_is_mark(c->state)) {
        snib__list_push(&m->space->marks, &k->mark);
    }
}

static void space_change(struct snib__book *b, const struct snib__name *name,
                         const struct snib__stored_claim *c)
{
    struct snib__mem_book *m = space_mem_of(b);
    struct snib__memory_claim *k = space_by_id(m, c->id);
    (void)name;
    if (!k) {
        b->err = SNIB_ERR_INTERNAL;
        return;
    }
    k->c = *c;
    snib__unlink(&k->mark);
    if (space_is_mark(c->state)) {
        snib__list_push(&m->space->marks, &k->mark);
    }
}

static void space_remove_claim(struct snib__book *b,
                               const struct snib__name *name,
                               const struct snib__stored_claim *c)
{
    struct snib__memory_claim *k = space_by_id(space_mem_of(b), c->id);
    (void)name;
    if (k) {
        space_drop_claim(k);
    }
}

static void space_sweep(struct snib__book *b)
{
    struct snib__mem_book *m = space_mem_of(b);
    SNIB__LIST_EACH_SAFE (l, n, &m->space->marks) {
        struct snib__memory_claim *k =
            SNIB__CONTAINER(l, struct snib__memory_claim, mark);
        if (snib__reached(b->now, k->c.until)) {
            struct snib__mem_lock *lock = k->lock;
            space_drop_claim(k);
            if (lock != m->lock) {
                space_note_idle(m->space, lock);
            }
        }
    }
}

static bool space_gone(struct snib__book *b, const struct snib__stored_claim *c)
{
    (void)b;
    (void)c;
    return false; /* all clients are in this process, which is alive */
}

static void space_granted(struct snib__book *b, const struct snib__name *name,
                          const struct snib__stored_claim *c)
{
    struct snib__mem_book *m = space_mem_of(b);
    struct snib__memory_claim *k = space_by_id(m, c->id);
    (void)name;
    SNIB__LIST_EACH (l, &m->space->clients) {
        struct snib__mem_client *client =
            SNIB__CONTAINER(l, struct snib__mem_client, link);
        if (client->id[0] == c->client[0] && client->id[1] == c->client[1]) {
            snib__unlink(&k->told);
            snib__list_push(&client->told, &k->told);
            eventfd_write(client->notifier, 1);
            return;
        }
    }
}

static const struct snib__book_ops book_ops = {
    space_find,         space_next,       space_before, space_token,
    space_set_token,    space_mend_token, space_share,  space_params,
    space_set_params,   space_highest,    space_add,    space_change,
    space_remove_claim, space_sweep,      space_gone,   space_granted,
};

static struct snib__mem_lock *space_lock_of(struct snib__space *s,
                                            const struct snib__name *name)
{
    struct snib__list *bucket = &s->bucket[name->hash % SNIB__SPACE_BUCKETS];
    struct snib__mem_lock *lock;
    SNIB__LIST_EACH (l, bucket) {
        lock = SNIB__CONTAINER(l, struct snib__mem_lock, bucket);
        if (lock->hash == name->hash && lock->name_size == name->raw_size &&
            memcmp(lock->name, name->raw, name->raw_size) == 0) {
            return lock;
        }
    }
    lock = snib__alloc(sizeof *lock + name->raw_size + 1);
    if (lock) {
        lock->hash = name->hash;
        lock->name_size = name->raw_size;
        lock->params.size = -1;
        memcpy(lock->name, name->raw, name->raw_size);
        snib__list_init(&lock->claims);
        snib__link_init(&lock->idle);
        snib__list_push(bucket, &lock->bucket);
    }
    return lock;
}

snib_err snib__mem_book_begin(struct snib__mem_book *m, struct snib__space *s,
                              const struct snib__name *name,
                              const uint64_t client[2], uint32_t about_size)
{
    snib_instant now = snib__space_now(s);
    *m = (struct snib__mem_book){
        .book = {.ops = &book_ops,
                 .now = now,
                 .sent = now,
                 .token_clock = snib__space_wall_ms(s) * 1024,
                 .client = {client[0], client[1]}},
        .space = s,
        .spare = snib__alloc(sizeof *m->spare + about_size),
    };
    if (!m->spare) {
        return SNIB_ERR_NOMEM;
    }
    m->spare->about_size = about_size;
    snib__link_init(&m->spare->link);
    snib__link_init(&m->spare->told);
    snib__link_init(&m->spare->mark);
    m->lock = space_lock_of(s, name);
    if (!m->lock) {
        snib__free(m->spare);
        return SNIB_ERR_NOMEM;
    }
    if (snib__linked(&m->lock->idle)) {
        snib__unlink(&m->lock->idle);
        s->idle_count--;
    }
    return SNIB_ERR_OK;
}

void snib__mem_book_end(struct snib__mem_book *m)
{
    snib__free(m->spare);
    space_note_idle(m->space, m->lock);
}
