/* store/file/cleaner.c — nothing stays for ever.
 *
 * The cleaner forgets a name that nobody has used for a day, one with params
 * after 30 days. Its token goes into the floor first, under which no later
 * token of any name falls; if this client is killed between the two, the floor
 * is higher than it had to be, which harms nobody. The cleaner also removes the
 * claims that the dead have left on names that nobody asks for again. One visit
 * looks at the 256 buckets behind the last visit's. */
#include "store/file/internal.h"

#define BUCKETS_AT_ONCE 256
#define DAY             (INT64_C(86400000) * 1024)

static bool cleaner_is_dead(const struct snib__file_claim *k, snib_instant now)
{
    SNIB__UNSET struct snib__stored_claim c;
    snib__file_read_claim(k, &c);
    snib_instant end = snib__rules_claim_till(&c);
    if (snib__rules_claim_holds(&c) || c.state == SNIB__WAITS) {
        end = snib__after(end, snib__ms(SNIB__ASIDE_MS));
    }
    return snib__reached(now, end);
}

/* Remove the claims of the dead. True: some were there. */
static bool cleaner_claims(struct snib__copy *c, size_t lock, snib_instant now)
{
    bool changed = false;
    size_t at = lock + snib__bucket_claims(snib__bucket_lock(c, lock));
    while (at < lock + snib__bucket_lock(c, lock)->size) {
        const struct snib__file_claim *k = snib__bucket_claim(c, at);
        if (cleaner_is_dead(k, now)) {
            snib__bucket_remove(c, lock, at);
            changed = true;
        } else {
            at += k->size;
        }
    }
    return changed;
}

/* Is it a name that is not used any more? A damaged token stays, and is
 * reported until it is mended. */
static bool cleaner_is_old(const struct snib__file_lock *l, int64_t clock)
{
    int64_t token = snib__file_token_of(l);
    bool params = l->permits >= 0 || l->latch > 0;
    return !l->claims && snib__is_token(token) &&
           token < clock - (params ? 30 : 1) * DAY;
}

static bool cleaner_bucket(struct snib__copy *c, snib_instant now,
                           int64_t clock, int64_t *floor)
{
    bool changed = false;
    for (size_t at = 0; at < c->used;) {
        changed = cleaner_claims(c, at, now) || changed;
        const struct snib__file_lock *l = snib__bucket_lock(c, at);
        if (cleaner_is_old(l, clock)) {
            *floor = l->token > *floor ? l->token : *floor;
            snib__bucket_drop(c, at);
            changed = true;
        } else {
            at += l->size;
        }
    }
    return changed;
}

void snib__file_cleaner(struct snib__file *self)
{
    struct snib__map *m = &self->map;
    uint32_t from = (uint32_t)snib__file_add(&m->head->cursor, BUCKETS_AT_ONCE);
    snib_instant now = snib__host_lease_now(&self->host);
    int64_t clock = snib__host_wall_ms(&self->host) * 1024;
    for (uint32_t i = 0; i < BUCKETS_AT_ONCE && i < m->root_count; i++) {
        uint32_t bucket = (from + i) & (m->root_count - 1), old;
        int64_t floor = 0;
        if (!(uint32_t)snib__file_load(&m->roots[bucket]) ||
            snib__root_copy(m, &self->copy, SNIB__FILE_LOCKS, bucket) ||
            !cleaner_bucket(&self->copy, now, clock, &floor)) {
            continue;
        }
        if (floor &&
            snib__is_token((int64_t)snib__file_load(&m->head->floor))) {
            snib__file_raise(&m->head->floor, floor);
        }
        (void)snib__root_swap(m, &self->copy, true, &old); /* lost: next time */
    }
}
