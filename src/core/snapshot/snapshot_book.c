/* core/snapshot/snapshot_book.c — the book of the rules over fetched rows.
 *
 * Each operation notes what it relied on and what it changed; snapshot_write.c
 * makes guards and rows of that. A claim stays in the array when it is gone:
 * its row is deleted, or replaced when the same request makes a new one. */
#include "core/snapshot/snapshot_i.h"

static struct snib__snapshot *snapshot_book_self(struct snib__book *b)
{
    return (struct snib__snapshot *)(void *)b;
}

static struct snib__snapshot_lock *
snapshot_book_lock(struct snib__book *b, const struct snib__name *name)
{
    struct snib__snapshot *s = snapshot_book_self(b);
    return &s->lock[snib__snapshot_lock_of(s, name)];
}

/* The step needs what was not fetched: it ends here, and begins anew. */
static void snapshot_book_want(struct snib__book *b)
{
    snapshot_book_self(b)->more = true;
    b->err = SNIB_ERR_INTERNAL;
}

/* May waiters that were not fetched stand before this one? */
static bool snapshot_book_is_beyond(const struct snib__snapshot_lock *l,
                                    const struct snib__stored_claim *c)
{
    return l->cut && snib__snapshot_is_before(&l->last, c);
}

static bool snapshot_book_same(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

/* -- looking --------------------------------------------------------------- */

/* What the rules see. They judge a claim by its end; whether one that is still
 * to come is put off meanwhile makes no difference to them. */
static void snapshot_book_show(struct snib__book *b,
                               struct snib__snapshot_claim *k,
                               struct snib__stored_claim *ret)
{
    k->seen_over = k->seen_over || snib__reached(b->now, k->c.until);
    *ret = k->c;
}

/* The row of this request; NULL: there is none, or this step removes it. */
static struct snib__snapshot_claim *snapshot_book_row(struct snib__snapshot *s,
                                                      uint32_t lock,
                                                      const uint64_t request[2])
{
    struct snib__snapshot_claim *k = snib__snapshot_claim_of(s, lock, request);
    return k && !k->gone ? k : NULL;
}

static bool snapshot_book_find(struct snib__book *b,
                               const struct snib__name *name,
                               const uint64_t request[2],
                               struct snib__stored_claim *ret)
{
    struct snib__snapshot *s = snapshot_book_self(b);
    uint32_t lock = snib__snapshot_lock_of(s, name);
    struct snib__snapshot_claim *k = snapshot_book_row(s, lock, request);
    if (!b->asker || !snapshot_book_same(b->asker->id, request)) {
        s->lock[lock].read = true; /* its own row is guarded anyway */
    }
    if (!k) {
        return false;
    }
    snapshot_book_show(b, k, ret);
    return true;
}

static bool snapshot_book_next(struct snib__book *b,
                               const struct snib__name *name, int state,
                               const struct snib__stored_claim *after,
                               struct snib__stored_claim *ret)
{
    struct snib__snapshot *s = snapshot_book_self(b);
    uint32_t lock = snib__snapshot_lock_of(s, name);
    struct snib__snapshot_lock *l = &s->lock[lock];
    struct snib__snapshot_claim *best = NULL;
    l->read = true;
    for (uint32_t i = 0; i < s->claims; i++) {
        struct snib__snapshot_claim *k = &s->claim[i];
        if (k->lock == lock && !k->gone && k->c.state == state &&
            (!after || snib__snapshot_is_before(after, &k->c)) &&
            (!best || snib__snapshot_is_before(&k->c, &best->c))) {
            best = k;
        }
    }
    if (state == SNIB__WAITS && l->cut &&
        (!best || snapshot_book_is_beyond(l, &best->c))) {
        snapshot_book_want(b);
        return false;
    }
    if (!best) {
        l->read_end = l->read_end || state == SNIB__WAITS;
        return false;
    }
    snapshot_book_show(b, best, ret);
    return true;
}

/* Only to be shown: nothing is guarded for its sake. Waiters that were not
 * fetched count as ahead of whoever stands behind the fetched ones. */
static uint32_t snapshot_book_before(struct snib__book *b,
                                     const struct snib__name *name,
                                     const struct snib__stored_claim *c)
{
    struct snib__snapshot *s = snapshot_book_self(b);
    uint32_t lock = snib__snapshot_lock_of(s, name), n = 0;
    const struct snib__snapshot_lock *l = &s->lock[lock];
    for (uint32_t i = 0; i < s->claims; i++) {
        const struct snib__snapshot_claim *k = &s->claim[i];
        n += k->lock == lock && !k->gone && k->c.state == SNIB__WAITS &&
             snib__snapshot_is_before(&k->c, c);
    }
    n += snapshot_book_is_beyond(l, c) ? l->waiting - l->fetched : 0;
    return n < SNIB__POSITION_MAX ? n : SNIB__POSITION_MAX;
}

/* Those that were not fetched may all be alive. An answer of no relies on nobody
 * having arrived, and on those that are over having stayed so. */
static bool snapshot_book_may_wait(struct snib__book *b,
                                   const struct snib__name *name,
                                   uint32_t count)
{
    struct snib__snapshot *s = snapshot_book_self(b);
    uint32_t lock = snib__snapshot_lock_of(s, name);
    struct snib__snapshot_lock *l = &s->lock[lock];
    uint32_t n = l->cut ? l->waiting - l->fetched : 0;
    struct snib__stored_claim c;
    for (uint32_t i = 0; i < s->claims && n < count; i++) {
        struct snib__snapshot_claim *k = &s->claim[i];
        if (k->lock == lock && !k->gone && k->c.state == SNIB__WAITS) {
            snapshot_book_show(b, k, &c);
            n += !snib__reached(b->now, c.until);
        }
    }
    l->read = true;
    l->counted = l->counted || n < count;
    return n >= count;
}

/* Of a process on another host nobody can be certain, but the store may see
 * that a waiter is not connected any more. */
static bool snapshot_book_gone(struct snib__book *b,
                               const struct snib__stored_claim *c)
{
    const struct snib__snapshot *s = snapshot_book_self(b);
    for (uint32_t i = 0; i < s->claims; i++) {
        const struct snib__snapshot_claim *k = &s->claim[i];
        if (snapshot_book_same(k->c.request, c->request) && !k->gone) {
            return k->left && k->c.state == SNIB__WAITS;
        }
    }
    return false;
}

/* -- the lock row ---------------------------------------------------------- */

static int64_t snapshot_book_token(struct snib__book *b,
                                   const struct snib__name *name)
{
    struct snib__snapshot_lock *l = snapshot_book_lock(b, name);
    l->read = true;
    return l->row.token;
}

static void snapshot_book_set_token(struct snib__book *b,
                                    const struct snib__name *name, int64_t t)
{
    struct snib__snapshot_lock *l = snapshot_book_lock(b, name);
    l->row.token = t;
    l->changed = true;
}

static int64_t snapshot_book_highest(struct snib__book *b)
{
    struct snib__snapshot *s = snapshot_book_self(b);
    if (!s->want_highest) {
        s->want_highest = true;
        snapshot_book_want(b);
        return 0;
    }
    bool is = snib__is_token(s->floor);
    return is && s->floor > s->highest ? s->floor : s->highest;
}

static void snapshot_book_mend_token(struct snib__book *b,
                                     const struct snib__name *name, int64_t t)
{
    struct snib__snapshot *s = snapshot_book_self(b);
    snapshot_book_set_token(b, name, t);
    if (!snib__is_token(s->floor)) {
        s->floor = snapshot_book_highest(b);
        s->floor_changed = true;
    }
}

/* Who shares a name is seen by the claims; adding and removing them writes the
 * lock row. */
static void snapshot_book_share(struct snib__book *b,
                                const struct snib__name *name, int by)
{
    (void)b;
    (void)name;
    (void)by;
}

static void snapshot_book_params(struct snib__book *b,
                                 const struct snib__name *name,
                                 struct snib__params *ret)
{
    struct snib__snapshot_lock *l = snapshot_book_lock(b, name);
    l->read = true;
    *ret = l->row.params;
}

static void snapshot_book_set_params(struct snib__book *b,
                                     const struct snib__name *name,
                                     const struct snib__params *t)
{
    struct snib__snapshot_lock *l = snapshot_book_lock(b, name);
    l->row.params = *t;
    l->changed = true;
}

/* -- claims ---------------------------------------------------------------- */

/* Does it stand behind all other waiters of its name, be it that they are
 * unresponsive and may come back? */
static bool snapshot_book_is_last(const struct snib__snapshot *s, uint32_t lock,
                                  const struct snib__stored_claim *c)
{
    for (uint32_t i = 0; i < s->claims; i++) {
        const struct snib__snapshot_claim *k = &s->claim[i];
        bool waits =
            k->c.state == SNIB__WAITS || k->c.state == SNIB__UNRESPONSIVE;
        if (k->lock == lock && !k->gone && waits &&
            snib__snapshot_is_before(c, &k->c)) {
            return false;
        }
    }
    return !s->lock[lock].cut || c->rank >= s->lock[lock].last_rank;
}

/* Only waiters are told apart by number, and only they get one. */
static void snapshot_book_arrive(const struct snib__snapshot *s, uint32_t lock,
                                 struct snib__snapshot_lock *l,
                                 struct snib__stored_claim *c)
{
    if (c->state == SNIB__WAITS) {
        c->id = ++l->arrivals;
        l->arrived = true;
        l->changed = l->changed || !snapshot_book_is_last(s, lock, c);
    } else {
        c->id = l->arrivals + 1;
        l->changed = l->changed || snib__rules_claim_holds(c);
    }
}

static void snapshot_book_add(struct snib__book *b,
                              const struct snib__name *name,
                              struct snib__stored_claim *c, const void *about,
                              size_t size)
{
    struct snib__snapshot *s = snapshot_book_self(b);
    uint32_t lock = snib__snapshot_lock_of(s, name);
    struct snib__snapshot_claim *k =
        snib__snapshot_claim_of(s, lock, c->request);
    k = k ? k : snib__snapshot_new_claim(s);
    if (!k) {
        b->err = SNIB_ERR_NOMEM;
        return;
    }
    snapshot_book_arrive(s, lock, &s->lock[lock], c);
    memcpy(c->notifier, s->notifier, sizeof c->notifier);
    *k = (struct snib__snapshot_claim){.c = *c,
                                       .lock = lock,
                                       .stamp = k->stamp,
                                       .changed = true,
                                       .about = about,
                                       .about_size = size};
}

static void snapshot_book_change(struct snib__book *b,
                                 const struct snib__name *name,
                                 const struct snib__stored_claim *c)
{
    struct snib__snapshot *s = snapshot_book_self(b);
    uint32_t lock = snib__snapshot_lock_of(s, name);
    struct snib__snapshot_claim *k = snapshot_book_row(s, lock, c->request);
    if (!k) {
        b->err = SNIB_ERR_INTERNAL;
        return;
    }
    if (k->c.state != c->state || c->until.ns < k->c.until.ns) {
        s->lock[lock].changed = true;
    }
    k->c = *c;
    k->changed = true;
    if (snapshot_book_same(c->client, b->client)) {
        memcpy(k->c.notifier, s->notifier, sizeof k->c.notifier);
    }
}

static void snapshot_book_remove(struct snib__book *b,
                                 const struct snib__name *name,
                                 const struct snib__stored_claim *c)
{
    struct snib__snapshot *s = snapshot_book_self(b);
    uint32_t lock = snib__snapshot_lock_of(s, name);
    struct snib__snapshot_claim *k = snapshot_book_row(s, lock, c->request);
    if (!k) {
        return;
    }
    if (!snib__snapshot_is_mark(&k->c)) {
        s->lock[lock].changed = true;
    }
    k->gone = true;
}

/* Of the step's names; those of others go with a step on theirs. */
static void snapshot_book_sweep(struct snib__book *b)
{
    struct snib__snapshot *s = snapshot_book_self(b);
    for (uint32_t i = 0; i < s->claims; i++) {
        struct snib__snapshot_claim *k = &s->claim[i];
        if (snib__snapshot_is_mark(&k->c) &&
            snib__reached(b->now, k->c.until)) {
            k->gone = true;
        }
    }
}

static void snapshot_book_granted(struct snib__book *b,
                                  const struct snib__name *name,
                                  const struct snib__stored_claim *c)
{
    struct snib__snapshot *s = snapshot_book_self(b);
    if (!snib__snapshot_grow((void **)&s->told, s->tolds, &s->told_capacity,
                             sizeof *s->told)) {
        return; /* its poll finds out */
    }
    struct snib__told *t = &s->told[s->tolds++];
    *t = (struct snib__told){.name = name,
                             .client = {c->client[0], c->client[1]},
                             .request = {c->request[0], c->request[1]}};
    memcpy(t->notifier, c->notifier, sizeof t->notifier);
}

const struct snib__book_ops snib__snapshot_ops = {
    .find = snapshot_book_find,
    .next = snapshot_book_next,
    .before = snapshot_book_before,
    .may_wait = snapshot_book_may_wait,
    .token = snapshot_book_token,
    .set_token = snapshot_book_set_token,
    .mend_token = snapshot_book_mend_token,
    .share = snapshot_book_share,
    .params = snapshot_book_params,
    .set_params = snapshot_book_set_params,
    .highest = snapshot_book_highest,
    .add = snapshot_book_add,
    .change = snapshot_book_change,
    .remove = snapshot_book_remove,
    .sweep = snapshot_book_sweep,
    .gone = snapshot_book_gone,
    .granted = snapshot_book_granted,
};
