/* store/file/lock.c — the last token of a lock and its params, in the copy of
 * its bucket: that part of the book (book.c). What is stored there counts as a
 * token if it is one, and if the sum over what outlives a boot is right. */
#include "store/file/internal.h"

#include "base/mem.h"

int64_t snib__file_token_of(const struct snib__file_lock *l)
{
    return l->sum == snib__bucket_sum(l) ? snib__file_sane_token(l->token)
                                         : SNIB__TOKEN_END;
}

static struct snib__file_lock *lock_of(struct snib__file *self)
{
    return self->lock == SNIB__FILE_NONE
               ? NULL
               : snib__bucket_lock(&self->copy, self->lock);
}

int64_t snib__lock_token(struct snib__book *b, const struct snib__name *name)
{
    struct snib__file *self = snib__book_file(b);
    const struct snib__file_lock *l = lock_of(self);
    int64_t floor = snib__file_sane_token(self->floor);
    int64_t token = l ? snib__file_token_of(l) : 0;
    (void)name;
    if (l && !snib__is_token(floor)) {
        return token; /* only names that are not in the file start there */
    }
    return token > floor ? token : floor;
}

/* The lock's record, made if it is not there; NULL: no memory. */
struct snib__file_lock *snib__lock_make(struct snib__file *self)
{
    if (self->lock == SNIB__FILE_NONE) {
        int64_t token = snib__file_sane_token(self->floor);
        self->lock = snib__bucket_make(&self->copy, self->name,
                                       snib__is_token(token) ? token : 0);
        if (self->lock == SNIB__FILE_NONE) {
            self->book.err = SNIB_ERR_NOMEM;
            return NULL;
        }
    }
    self->changed = true;
    return lock_of(self);
}

void snib__lock_set_token(struct snib__book *b, const struct snib__name *name,
                          int64_t t)
{
    struct snib__file_lock *l = snib__lock_make(snib__book_file(b));
    (void)name;
    if (l) {
        l->token = t;
        l->sum = snib__bucket_sum(l);
    }
}

void snib__lock_params(struct snib__book *b, const struct snib__name *name,
                       struct snib__params *ret)
{
    const struct snib__file_lock *l = lock_of(snib__book_file(b));
    (void)name;
    *ret = (struct snib__params){.size = -1};
    if (l) {
        ret->size = snib__file_bounded(l->permits, -1, SNIB_PERMITS_MAX);
        ret->latch = snib__file_bounded(l->latch, 0, SNIB__FILE_NS_MOST);
    }
}

/* The token tells the cleaner when the name was last used. */
void snib__lock_set_params(struct snib__book *b, const struct snib__name *name,
                           const struct snib__params *t)
{
    struct snib__file *self = snib__book_file(b);
    struct snib__file_lock *l = snib__lock_make(self);
    (void)name;
    if (!l) {
        return;
    }
    int64_t token = snib__file_token_of(l);
    if (snib__is_token(token)) { /* else it stays damaged until it is mended */
        l->token = token > b->token_clock ? token : b->token_clock;
    }
    l->permits = t->size;
    l->latch = t->latch;
    if (snib__is_token(token)) {
        l->sum = snib__bucket_sum(l);
    }
}

static int64_t lock_highest_in(struct snib__copy *c)
{
    int64_t high = 0;
    for (size_t at = 0; at < c->used;) {
        const struct snib__file_lock *l = snib__bucket_lock(c, at);
        int64_t t = snib__file_token_of(l);
        high = snib__is_token(t) && t > high ? t : high;
        at += l->size;
    }
    return high;
}

int64_t snib__lock_highest(struct snib__book *b)
{
    struct snib__file *self = snib__book_file(b);
    struct snib__copy c = {0};
    int64_t high = snib__is_token(self->floor) ? self->floor : 0;
    for (uint32_t i = 0; i < self->map.root_count; i++) {
        snib_err err = snib__root_copy(&self->map, &c, SNIB__FILE_LOCKS, i);
        int64_t t = err ? 0 : lock_highest_in(&c);
        high = t > high ? t : high;
        if (err == SNIB_ERR_NOMEM) {
            b->err = err;
            break;
        }
    }
    snib__free(c.bytes);
    return high;
}

/* A name that is not in the file starts at the floor: if that is not a token,
 * it is mended, too. Nobody lowers it otherwise. */
void snib__lock_mend_token(struct snib__book *b, const struct snib__name *name,
                           int64_t t)
{
    struct snib__file *self = snib__book_file(b);
    (void)name;
    if (!snib__is_token(self->floor)) {
        uint64_t seen = (uint64_t)self->floor;
        int64_t high = snib__lock_highest(b);
        if (snib__file_cas(&self->map.head->floor, &seen, (uint64_t)high)) {
            self->floor = high;
        } else { /* another has mended it */
            self->floor = (int64_t)seen;
        }
    }
    t = t > b->token_clock ? t : b->token_clock;
    t = t > self->floor || !snib__is_token(self->floor) ? t : self->floor;
    snib__lock_set_token(b, name, t);
}
