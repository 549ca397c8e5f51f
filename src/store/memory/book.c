/* store/memory/book.c — a book (core/rules/rules.h) of one name in plain memory.
 * The space's mutex is held. */
#include <string.h>
#include <sys/eventfd.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/memory/space.h"

static struct snib__mem_book *book_mem_of(struct snib__book *b)
{
    return (struct snib__mem_book *)(void *)b;
}

static struct snib__memory_claim *book_claim_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__memory_claim, link);
}

static struct snib__memory_claim *book_by_id(struct snib__mem_book *m,
                                             int64_t id)
{
    if (m->at && m->at->c.id == id) {
        return m->at;
    }
    SNIB__LIST_EACH (l, &m->lock->claims) {
        if (book_claim_of(l)->c.id == id) {
            return book_claim_of(l);
        }
    }
    return NULL;
}

static bool book_is_mark(int state)
{
    return state == SNIB__TOMBSTONE || state == SNIB__UNRESPONSIVE ||
           state == SNIB__REVOKED;
}

static void book_drop_claim(struct snib__memory_claim *k)
{
    snib__unlink(&k->link);
    snib__unlink(&k->told);
    snib__unlink(&k->mark);
    snib__free(k);
}

/* If nothing needs this name now, put it in the queue of names to be forgotten.
 * Beyond SNIB__IDLE_MAX the oldest is forgotten and its token goes into the
 * floor. */
static void book_note_idle(struct snib__space *s, struct snib__mem_lock *lock)
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

static bool book_find(struct snib__book *b, const struct snib__name *name,
                      const uint64_t request[2], struct snib__stored_claim *ret)
{
    struct snib__mem_book *m = book_mem_of(b);
    (void)name;
    SNIB__LIST_EACH (l, &m->lock->claims) {
        const struct snib__stored_claim *c = &book_claim_of(l)->c;
        if (c->request[0] == request[0] && c->request[1] == request[1]) {
            *ret = *c;
            return true;
        }
    }
    return false;
}

/* -- the order of the queue ------------------------------------------------- */

/* Waiters are in order of rank, then arrival; all others in order of arrival,
 * in which they lie in the list. A walk through those of one state remembers
 * where it was (`at`). */
static bool book_is_before(const struct snib__stored_claim *a,
                           const struct snib__stored_claim *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->id < b->id;
}

/* The first claim in this state, and of this rank if ranked, from l on. */
static bool book_from(struct snib__mem_book *m, struct snib__link *l, int state,
                      const int *rank, struct snib__stored_claim *ret)
{
    for (; l != &m->lock->claims.head; l = l->next) {
        struct snib__memory_claim *k = book_claim_of(l);
        if (k->c.state == state && (!rank || k->c.rank == *rank)) {
            m->at = k;
            *ret = k->c;
            return true;
        }
    }
    return false;
}

/* The lowest rank of those that wait, above `above`. */
static bool book_next_rank(struct snib__mem_book *m, int above, int *ret)
{
    bool found = false;
    SNIB__LIST_EACH (l, &m->lock->claims) {
        const struct snib__stored_claim *c = &book_claim_of(l)->c;
        if (c->state == SNIB__WAITS && c->rank > above &&
            (!found || c->rank < *ret)) {
            *ret = c->rank;
            found = true;
        }
    }
    return found;
}

/* Where to go on behind this claim, which may have been removed. */
static struct snib__link *book_behind(struct snib__mem_book *m,
                                      const struct snib__stored_claim *after)
{
    struct snib__link *head = &m->lock->claims.head, *l = head->next;
    if (m->at && m->at->c.id == after->id) {
        return m->at->link.next;
    }
    while (l != head && book_claim_of(l)->c.id <= after->id) {
        l = l->next;
    }
    return l;
}

static bool book_next(struct snib__book *b, const struct snib__name *name,
                      int state, const struct snib__stored_claim *after,
                      struct snib__stored_claim *ret)
{
    struct snib__mem_book *m = book_mem_of(b);
    struct snib__link *first = m->lock->claims.head.next;
    bool waits = state == SNIB__WAITS;
    int rank = after ? after->rank : INT32_MIN;
    (void)name;
    if ((!waits || after) && book_from(m, after ? book_behind(m, after) : first,
                                       state, waits ? &rank : NULL, ret)) {
        return true;
    }
    return waits && book_next_rank(m, rank, &rank) &&
           book_from(m, first, state, &rank, ret);
}

static void book_share(struct snib__book *b, const struct snib__name *name,
                       int by)
{
    (void)b;
    (void)name;
    (void)by;
}

static void book_params(struct snib__book *b, const struct snib__name *name,
                        struct snib__params *ret)
{
    (void)name;
    *ret = book_mem_of(b)->lock->params;
}

static void book_set_params(struct snib__book *b, const struct snib__name *name,
                            const struct snib__params *t)
{
    (void)name;
    book_mem_of(b)->lock->params = *t;
}

static uint32_t book_before(struct snib__book *b, const struct snib__name *name,
                            const struct snib__stored_claim *c)
{
    struct snib__mem_book *m = book_mem_of(b);
    uint32_t n = 0;
    (void)name;
    SNIB__LIST_EACH (l, &m->lock->claims) {
        const struct snib__stored_claim *k = &book_claim_of(l)->c;
        n += k->state == SNIB__WAITS && book_is_before(k, c) &&
             n < SNIB__POSITION_MAX;
    }
    return n;
}

static bool book_may_wait(struct snib__book *b, const struct snib__name *name,
                          uint32_t count)
{
    struct snib__mem_book *m = book_mem_of(b);
    uint32_t n = 0;
    (void)name;
    SNIB__LIST_EACH (l, &m->lock->claims) {
        const struct snib__stored_claim *c = &book_claim_of(l)->c;
        n += c->state == SNIB__WAITS && !snib__reached(b->now, c->until);
        if (n >= count) {
            return true;
        }
    }
    return false;
}

static int64_t book_token(struct snib__book *b, const struct snib__name *name)
{
    struct snib__mem_book *m = book_mem_of(b);
    (void)name;
    return m->lock->token > m->space->floor ? m->lock->token : m->space->floor;
}

static void book_set_token(struct snib__book *b, const struct snib__name *name,
                           int64_t t)
{
    (void)name;
    book_mem_of(b)->lock->token = t;
}

/* Only this process writes to this memory, so there is no other place to
 * mend. */
static void book_mend_token(struct snib__book *b, const struct snib__name *name,
                            int64_t t)
{
    book_set_token(b, name, t);
}

static int64_t book_highest(struct snib__book *b)
{
    struct snib__space *s = book_mem_of(b)->space;
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

static void book_add(struct snib__book *b, const struct snib__name *name,
                     struct snib__stored_claim *c, const void *about,
                     size_t size)
{
    struct snib__mem_book *m = book_mem_of(b);
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
    if (book_is_mark(c->state)) {
        snib__list_push(&m->space->marks, &k->mark);
    }
}

static void book_change(struct snib__book *b, const struct snib__name *name,
                        const struct snib__stored_claim *c)
{
    struct snib__mem_book *m = book_mem_of(b);
    struct snib__memory_claim *k = book_by_id(m, c->id);
    (void)name;
    if (!k) {
        b->err = SNIB_ERR_INTERNAL;
        return;
    }
    k->c = *c;
    snib__unlink(&k->mark);
    if (book_is_mark(c->state)) {
        snib__list_push(&m->space->marks, &k->mark);
    }
}

static void book_remove_claim(struct snib__book *b,
                              const struct snib__name *name,
                              const struct snib__stored_claim *c)
{
    struct snib__mem_book *m = book_mem_of(b);
    struct snib__memory_claim *k = book_by_id(m, c->id);
    (void)name;
    if (k) {
        m->at = m->at == k ? NULL : m->at;
        book_drop_claim(k);
    }
}

static void book_sweep(struct snib__book *b)
{
    struct snib__mem_book *m = book_mem_of(b);
    SNIB__LIST_EACH_SAFE (l, n, &m->space->marks) {
        struct snib__memory_claim *k =
            SNIB__CONTAINER(l, struct snib__memory_claim, mark);
        if (snib__reached(b->now, k->c.until)) {
            struct snib__mem_lock *lock = k->lock;
            m->at = m->at == k ? NULL : m->at;
            book_drop_claim(k);
            if (lock != m->lock) {
                book_note_idle(m->space, lock);
            }
        }
    }
}

static bool book_gone(struct snib__book *b, const struct snib__stored_claim *c)
{
    (void)b;
    (void)c;
    return false; /* all clients are in this process, which is alive */
}

static void book_granted(struct snib__book *b, const struct snib__name *name,
                         const struct snib__stored_claim *c)
{
    struct snib__mem_book *m = book_mem_of(b);
    struct snib__memory_claim *k = book_by_id(m, c->id);
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
    book_find,    book_next,         book_before,     book_may_wait,
    book_token,   book_set_token,    book_mend_token, book_share,
    book_params,  book_set_params,   book_highest,    book_add,
    book_change,  book_remove_claim, book_sweep,      book_gone,
    book_granted,
};

static struct snib__mem_lock *book_lock_of(struct snib__space *s,
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
    m->lock = book_lock_of(s, name);
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
    book_note_idle(m->space, m->lock);
}
