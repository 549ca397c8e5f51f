/* store/file/book.c — the book of claims (core/rules/rules.h) over the copy of
 * a bucket.
 *
 * What an operation changes is changed in the copy alone, so a step that fails
 * has nothing to undo. Claims of a name lie in order of arrival; a walk through
 * those of one state remembers where it was. */
#include "store/file/internal.h"

#include "core/about.h"

/* In all comparisons as it is read: else a claim whose rank a stranger wrote
 * would stand behind itself, and a walk would have no end. */
static int book_rank(const struct snib__file_claim *k)
{
    return (int)snib__file_bounded(k->rank, INT8_MIN, INT8_MAX);
}

void snib__file_read_claim(const struct snib__file_claim *k,
                           struct snib__stored_claim *c)
{
    /* One by one: most of it is the note, which is mostly empty. */
    c->id = k->id;
    c->request[0] = k->request[0];
    c->request[1] = k->request[1];
    c->client[0] = k->client[0];
    c->client[1] = k->client[1];
    c->state = k->state;
    c->kind = (snib_kind)k->kind;
    c->permits = k->permits;
    c->reserve =
        k->reserve > SNIB__RESERVE_MAX ? SNIB__RESERVE_MAX : k->reserve;
    c->slot = k->slot;
    c->token = snib__file_bounded(k->token, 0, SNIB__TOKEN_END);
    c->floor = snib__file_sane_token(k->floor);
    c->rank = book_rank(k);
    c->upgrade_of[0] = k->upgrade_of[0];
    c->upgrade_of[1] = k->upgrade_of[1];
    c->lease.ns = snib__file_bounded(k->lease, 0, SNIB__FILE_NS_MOST);
    c->delay.ns = snib__file_bounded(k->delay, 0, SNIB__FILE_NS_MOST);
    c->keep_ms = 0; /* nothing in a file is kept */
    c->since.ns = snib__file_bounded(k->since, 0, SNIB__FILE_NS_MOST);
    c->until.ns = snib__file_bounded(k->until, 0, SNIB__FILE_NS_MOST);
    c->pid = k->pid;
    c->start = k->start;
    c->pidns = k->pidns;
    memset(c->notifier, 0, sizeof c->notifier);
    memcpy(c->notifier, &k->owner, sizeof k->owner);
    memcpy(c->notifier + sizeof k->owner, &k->index, sizeof k->index);
    c->note[0] = 0;
    if (k->state == SNIB__REVOKED) {
        size_t n =
            k->text_size < sizeof c->note ? k->text_size : sizeof c->note - 1;
        memset(c->note, 0, sizeof c->note);
        memcpy(c->note, snib__bucket_text(k), n);
    }
}

/* -- finding --------------------------------------------------------------- */

static bool book_same(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

static size_t book_first(struct snib__file *self)
{
    return self->lock +
           snib__bucket_claims(snib__bucket_lock(&self->copy, self->lock));
}

static size_t book_end(struct snib__file *self)
{
    return self->lock + snib__bucket_lock(&self->copy, self->lock)->size;
}

/* Where the claim with this id is; NONE: it is not there. */
static size_t book_at(struct snib__file *self, int64_t id)
{
    if (self->lock == SNIB__FILE_NONE) {
        return SNIB__FILE_NONE;
    }
    if (self->cursor != SNIB__FILE_NONE && self->cursor_id == id) {
        return self->cursor;
    }
    for (size_t at = book_first(self); at < book_end(self);) {
        const struct snib__file_claim *k = snib__bucket_claim(&self->copy, at);
        if (k->id == id) {
            return at;
        }
        at += k->size;
    }
    return SNIB__FILE_NONE;
}

static bool book_found(struct snib__file *self, size_t at,
                       struct snib__stored_claim *ret)
{
    const struct snib__file_claim *k = snib__bucket_claim(&self->copy, at);
    self->cursor = at;
    self->cursor_id = k->id;
    snib__file_read_claim(k, ret);
    return true;
}

static bool book_find(struct snib__book *b, const struct snib__name *name,
                      const uint64_t request[2], struct snib__stored_claim *ret)
{
    struct snib__file *self = snib__book_file(b);
    (void)name;
    if (self->lock == SNIB__FILE_NONE) {
        return false;
    }
    for (size_t at = book_first(self); at < book_end(self);) {
        const struct snib__file_claim *k = snib__bucket_claim(&self->copy, at);
        if (book_same(k->request, request)) {
            return book_found(self, at, ret);
        }
        at += k->size;
    }
    return false;
}

/* The first claim in this state, and of this rank if ranked, from `at` on. */
static bool book_from(struct snib__file *self, size_t at, int state,
                      const int *rank, struct snib__stored_claim *ret)
{
    while (at < book_end(self)) {
        const struct snib__file_claim *k = snib__bucket_claim(&self->copy, at);
        if (k->state == state && (!rank || book_rank(k) == *rank)) {
            return book_found(self, at, ret);
        }
        at += k->size;
    }
    return false;
}

/* The lowest rank of those that wait, above `above`. */
static bool book_next_rank(struct snib__file *self, int above, int *ret)
{
    bool found = false;
    for (size_t at = book_first(self); at < book_end(self);) {
        const struct snib__file_claim *k = snib__bucket_claim(&self->copy, at);
        int rank = book_rank(k);
        if (k->state == SNIB__WAITS && rank > above &&
            (!found || rank < *ret)) {
            *ret = rank;
            found = true;
        }
        at += k->size;
    }
    return found;
}

/* Where to go on behind this claim, which may have been removed. */
static size_t book_behind(struct snib__file *self,
                          const struct snib__stored_claim *after)
{
    size_t at = book_at(self, after->id);
    if (at != SNIB__FILE_NONE) {
        return at + snib__bucket_claim(&self->copy, at)->size;
    }
    at = book_first(self);
    while (at < book_end(self) &&
           snib__bucket_claim(&self->copy, at)->id <= after->id) {
        at += snib__bucket_claim(&self->copy, at)->size;
    }
    return at;
}

static bool book_next(struct snib__book *b, const struct snib__name *name,
                      int state, const struct snib__stored_claim *after,
                      struct snib__stored_claim *ret)
{
    struct snib__file *self = snib__book_file(b);
    bool waits = state == SNIB__WAITS;
    int rank = after ? after->rank : INT32_MIN;
    (void)name;
    if (self->lock == SNIB__FILE_NONE) {
        return false;
    }
    if (!waits || after) {
        size_t at = after ? book_behind(self, after) : book_first(self);
        if (book_from(self, at, state, waits ? &rank : NULL, ret)) {
            return true;
        }
    }
    return waits && book_next_rank(self, rank, &rank) &&
           book_from(self, book_first(self), state, &rank, ret);
}

static uint32_t book_before(struct snib__book *b, const struct snib__name *name,
                            const struct snib__stored_claim *c)
{
    struct snib__file *self = snib__book_file(b);
    uint32_t n = 0;
    (void)name;
    if (self->lock == SNIB__FILE_NONE) {
        return 0;
    }
    for (size_t at = book_first(self);
         at < book_end(self) && n < SNIB__POSITION_MAX;) {
        const struct snib__file_claim *k = snib__bucket_claim(&self->copy, at);
        n += k->state == SNIB__WAITS &&
             (book_rank(k) < c->rank ||
              (book_rank(k) == c->rank && k->id < c->id));
        at += k->size;
    }
    return n;
}

static bool book_may_wait(struct snib__book *b, const struct snib__name *name,
                          uint32_t count)
{
    struct snib__file *self = snib__book_file(b);
    uint32_t n = 0;
    (void)name;
    if (self->lock == SNIB__FILE_NONE) {
        return false;
    }
    for (size_t at = book_first(self); at < book_end(self) && n < count;) {
        const struct snib__file_claim *k = snib__bucket_claim(&self->copy, at);
        n += k->state == SNIB__WAITS && k->until > b->now.ns;
        at += k->size;
    }
    return n >= count;
}

static void book_share(struct snib__book *b, const struct snib__name *name,
                       int by)
{
    (void)b; /* who shares is seen by the claims */
    (void)name;
    (void)by;
}

/* -- changing --------------------------------------------------------------- */

static bool book_is_leashed(const void *about, size_t size)
{
    struct snib__about a;
    if (!size || !memmem(about, size, "leashed", 7)) {
        return false;
    }
    snib__about_read(about, size, &a);
    return a.leashed;
}

/* What may change of a claim after it was added. */
static void book_put(struct snib__file *self, struct snib__file_claim *k,
                     const struct snib__stored_claim *c)
{
    k->state = (uint8_t)c->state;
    k->token = c->token;
    k->slot = c->slot;
    k->reserve = c->reserve;
    k->since = c->since.ns;
    k->until = c->until.ns;
    k->lease = c->lease.ns;
    if (book_same(c->client, self->client)) {
        /* the client may have had no slot when the claim was added */
        k->owner = self->ear.owner;
        k->index = self->ear.index;
    }
}

static void book_add(struct snib__book *b, const struct snib__name *name,
                     struct snib__stored_claim *c, const void *about,
                     size_t size)
{
    struct snib__file *self = snib__book_file(b);
    const struct snib__host *h = &self->host;
    (void)name;
    if (c->state == SNIB__WAITS && !self->ear.owner && !self->no_ear) {
        self->want_ear = true; /* the step begins anew with one */
        b->err = SNIB_ERR_STORE;
        return;
    }
    struct snib__file_lock *l = snib__lock_make(self);
    if (!l) {
        return;
    }
    /* Without its text it may be one that outlives its process. */
    bool known =
        size && h->start > 0 && h->pidns && !book_is_leashed(about, size);
    size = size < UINT16_MAX ? size : UINT16_MAX;
    struct snib__file_claim k = {
        .text_size = (uint16_t)size,
        .kind = (uint8_t)c->kind,
        .request = {c->request[0], c->request[1]},
        .client = {c->client[0], c->client[1]},
        .upgrade_of = {c->upgrade_of[0], c->upgrade_of[1]},
        .id = c->id = ++l->arrivals,
        .floor = c->floor,
        .delay = c->delay.ns,
        .pid = known ? h->pid : 0,
        .start = known ? h->start : 0,
        .pidns = known ? h->pidns : 0,
        .permits = c->permits,
        .rank = c->rank,
    };
    book_put(self, &k, c);
    self->cursor = SNIB__FILE_NONE;
    if (snib__bucket_add(&self->copy, self->lock, &k, about) ==
        SNIB__FILE_NONE) {
        b->err = SNIB_ERR_NOMEM;
    }
}

static void book_change(struct snib__book *b, const struct snib__name *name,
                        const struct snib__stored_claim *c)
{
    struct snib__file *self = snib__book_file(b);
    size_t at = book_at(self, c->id);
    (void)name;
    if (at == SNIB__FILE_NONE) {
        b->err = SNIB_ERR_INTERNAL;
        return;
    }
    self->changed = true;
    struct snib__file_claim *k = snib__bucket_claim(&self->copy, at);
    bool revoked = c->state == SNIB__REVOKED && k->state != SNIB__REVOKED;
    book_put(self, k, c);
    if (revoked) {
        self->cursor = SNIB__FILE_NONE;
        if (!snib__bucket_retext(&self->copy, self->lock, at, c->note,
                                 strlen(c->note))) {
            b->err = SNIB_ERR_NOMEM;
        }
    }
}

static void book_remove(struct snib__book *b, const struct snib__name *name,
                        const struct snib__stored_claim *c)
{
    struct snib__file *self = snib__book_file(b);
    size_t at = book_at(self, c->id);
    (void)name;
    self->cursor = SNIB__FILE_NONE;
    if (at != SNIB__FILE_NONE) {
        self->changed = true;
        snib__bucket_remove(&self->copy, self->lock, at);
    }
}

/* Of this name; those of others go with a step on theirs, or the cleaner. */
static void book_sweep(struct snib__book *b)
{
    struct snib__file *self = snib__book_file(b);
    if (self->lock == SNIB__FILE_NONE) {
        return;
    }
    self->cursor = SNIB__FILE_NONE;
    for (size_t at = book_first(self); at < book_end(self);) {
        const struct snib__file_claim *k = snib__bucket_claim(&self->copy, at);
        if ((k->state == SNIB__TOMBSTONE || k->state == SNIB__UNRESPONSIVE ||
             k->state == SNIB__REVOKED) &&
            k->until <= b->now.ns) {
            self->changed = true;
            snib__bucket_remove(&self->copy, self->lock, at);
        } else {
            at += k->size;
        }
    }
}

/* Whoever asks about the parties of a barrier asks about the same process again
 * and again. */
static bool book_gone(struct snib__book *b, const struct snib__stored_claim *c)
{
    struct snib__file *self = snib__book_file(b);
    const struct snib__stored_claim *last = &self->blocker;
    bool same = c->pid == last->pid && c->start == last->start &&
                c->pidns == last->pidns;
    if (!same) {
        self->blocker_gone =
            c->pid && snib__host_gone(&self->host, c->pid, c->start, c->pidns,
                                      self->thorough);
    }
    self->blocker = *c;
    return c->pid && self->blocker_gone;
}

static void book_granted(struct snib__book *b, const struct snib__name *name,
                         const struct snib__stored_claim *c)
{
    struct snib__file *self = snib__book_file(b);
    struct snib__file_told t = {.request = {c->request[0], c->request[1]},
                                .token = c->token};
    (void)name;
    memcpy(&t.owner, c->notifier, sizeof t.owner);
    memcpy(&t.index, c->notifier + sizeof t.owner, sizeof t.index);
    if (t.owner && self->tolds < SNIB__FILE_TELLS) {
        self->told[self->tolds++] = t; /* else its poll finds out */
    }
}

static const struct snib__book_ops book_ops = {
    .find = book_find,
    .next = book_next,
    .before = book_before,
    .may_wait = book_may_wait,
    .token = snib__lock_token,
    .set_token = snib__lock_set_token,
    .mend_token = snib__lock_mend_token,
    .share = book_share,
    .params = snib__lock_params,
    .set_params = snib__lock_set_params,
    .highest = snib__lock_highest,
    .add = book_add,
    .change = book_change,
    .remove = book_remove,
    .sweep = book_sweep,
    .gone = book_gone,
    .granted = book_granted,
};

void snib__file_book(struct snib__file *self, const struct snib__name *name)
{
    snib_instant now = snib__host_lease_now(&self->host);
    self->name = name;
    self->lock = snib__bucket_find(&self->copy, name);
    self->floor = (int64_t)snib__file_load(&self->map.head->floor);
    self->changed = self->want_ear = false;
    self->cursor = SNIB__FILE_NONE;
    self->tolds = 0;
    self->blocker.pid = 0;
    self->book = (struct snib__book){
        .ops = &book_ops,
        .now = now,
        .sent = now,
        .token_clock = snib__host_wall_coarse_ms(&self->host) * 1024,
        .client = {self->client[0], self->client[1]},
    };
}
