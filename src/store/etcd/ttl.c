/* store/etcd/ttl.c — how long the lease lasts under which a key is put.
 *
 *     key        its lease: how long it is left when nobody puts it anew
 *     lock row   a day from the later of now and the token's own time; with the
 *                size of a semaphore or a closed latch thirty days; and an hour,
 *                since the lease is used for an hour
 *     arrivals   the same
 *     holder     its own lease and lock-delay; of one who was granted the lock
 *                by others, a push lease, until it asks
 *     waiter     ALIVE, put anew by each of its polls
 *     tombstone  longer than any lease under which a late copy of the request
 *                could put a claim: a put under a lease that is over fails, and
 *                the whole transaction with it
 *     notifier   some seconds
 *
 * A row of a standing holder that is not one of the step's own requests keeps the
 * lease that it has: whoever holds it has been promised that. A holder's row is
 * put under no lease that could end before the one it hangs on. */
#include <string.h>

#include "store/etcd/plan_i.h"

enum {
    TTL_DAY = 25 * 3600 + 3600,
    TTL_PARAMS = 30 * 86400 + 3600,
    TTL_ALIVE = 3,
    TTL_TOMBSTONE = 20,
    TTL_TOMBSTONE_AGE_MS = 5000,
    TTL_LATER = 10 /* than a late copy's: its age, and clocks */
};

/* What a name remembers. token: in 1/1024 ms of Unix time, if it came from a
 * clock. */
static struct etcd_ttl ttl_memory(const struct etcd_ttl_of *p, int64_t token,
                                  bool params)
{
    int64_t ahead =
        snib__is_token(token)
            ? token / 1024000 - snib__etcd_wall(p->e, p->now).ns / 1000000000
            : 0;
    int64_t days = ahead > 0 ? ahead / 86400 + 1 : 0;
    int64_t ttl = TTL_DAY + days * 86400;
    ttl = params && ttl < TTL_PARAMS ? TTL_PARAMS : ttl;
    return snib__etcd_ttl_seconds(ttl, ETCD_MEMORY_AGE_MS, p->k->begun);
}

struct etcd_ttl snib__etcd_ttl_memory(const struct etcd_ttl_of *p,
                                      uint32_t lock)
{
    const struct snib__lock_row *row = &p->k->s.lock[lock].row;
    return ttl_memory(p, row->token,
                      row->params.size >= 0 || row->params.latch > 0);
}

static int64_t ttl_seconds(snib_duration d)
{
    return d.ns / 1000000000 + 1;
}

/* Which of the step's requests has made this claim? count: none. */
static uint32_t ttl_own(const struct etcd_step *k,
                        const struct snib__stored_claim *c)
{
    uint32_t i = 0;
    while (i < k->count &&
           memcmp(k->r[i]->id, c->request, sizeof c->request) != 0) {
        i++;
    }
    return i;
}

/* Until when its owner may believe in a grant that hangs on a lease which we do
 * not know. Who adopts it does not know that either: the row does, by the clock
 * of who wrote it. */
static snib_instant ttl_believed(const struct etcd_ttl_of *p,
                                 const struct snib__request *r,
                                 const struct snib__stored_claim *c)
{
    snib_duration left = snib__between(snib__etcd_wall(p->e, p->now), c->until);
    snib_duration most = snib__ms(SNIB_LEASE_MAX_MS);
    if (r->verb != SNIB__RENEW || r->renew.held_until.ns) {
        return r->renew.held_until; /* of an ACQUIRE it is 0 */
    }
    return snib__after(p->now, left.ns < most.ns ? left : most);
}

/* Of a claim of one of our requests that holds. */
static struct etcd_ttl ttl_hold(const struct etcd_ttl_of *p,
                                const struct snib__request *r,
                                const struct snib__stored_claim *c,
                                const struct etcd_fetched *old)
{
    snib_duration lease = r->lease;
    const struct etcd_lease *before =
        old && old->held ? snib__etcd_lease_of(p->e, old->lease) : NULL;
    if (old && old->held && !before && old->length.ns > lease.ns) {
        lease = old->length; /* it hangs on another's, of that length */
    }
    struct etcd_ttl t = snib__etcd_ttl_hold(
        (snib_duration){lease.ns + c->delay.ns}, p->k->begun);
    if (before) {
        t.ending = snib__etcd_lease_sure(before);
    } else if (old && old->held) {
        t.ending = snib__after(ttl_believed(p, r, c), c->delay);
    }
    return t;
}

/* old: what it replaces. Where nobody has noted how long a copy of the request can
 * do something, its lease says it. */
static struct etcd_ttl ttl_tombstone(const struct etcd_ttl_of *p,
                                     const struct snib__request *r,
                                     const struct etcd_fetched *old)
{
    int64_t ttl = TTL_TOMBSTONE - TTL_LATER;
    struct snib__request copy = {.late = r ? r->late : 0};
    copy.lease = old && old->held ? old->length : (snib_duration){0};
    if (r && !r->late && r->lease.ns > copy.lease.ns) {
        copy.lease = r->lease;
    }
    snib__etcd_lease_note(p->e, &copy);
    ttl = copy.late > ttl ? copy.late : ttl;
    return snib__etcd_ttl_seconds(ttl + TTL_LATER, TTL_TOMBSTONE_AGE_MS,
                                  p->k->begun);
}

bool snib__etcd_ttl_claim(const struct etcd_ttl_of *p, uint32_t claim,
                          struct etcd_ttl *ret, uint32_t *ret_own)
{
    const struct etcd_step *k = p->k;
    const struct snib__snapshot_claim *row = &k->s.claim[claim];
    const struct snib__stored_claim *c = &row->c;
    const struct etcd_fetched *old =
        row->stamp && claim < k->fetched_count ? &k->fetched[claim] : NULL;
    snib_duration push = snib__ms(SNIB__PUSH_LEASE_MS);
    *ret_own = ttl_own(k, c);
    const struct snib__request *r = *ret_own < k->count ? k->r[*ret_own] : NULL;
    switch ((enum snib__stored_state)c->state) {
    case SNIB__WAITS:
    case SNIB__UNRESPONSIVE:
        *ret = snib__etcd_ttl_seconds(TTL_ALIVE, ETCD_ALIVE_AGE_MS, k->begun);
        return !r && old;
    case SNIB__HOLDS:
    case SNIB__SHARES:
        if (r) {
            *ret = ttl_hold(p, r, c, old);
            return r->verb == SNIB__RENEW && r->renew.only_asks;
        }
        push = c->lease.ns < push.ns ? c->lease : push;
        *ret = snib__etcd_ttl_seconds(
            ttl_seconds((snib_duration){push.ns + c->delay.ns - 1}),
            ETCD_ALIVE_AGE_MS, k->begun);
        return old && old->held;
    case SNIB__TOMBSTONE:
        *ret = ttl_tombstone(p, r, old);
        return false;
    case SNIB__REVOKED:
        *ret = snib__etcd_ttl_seconds(ttl_seconds(c->lease) + TTL_TOMBSTONE,
                                      TTL_TOMBSTONE_AGE_MS, k->begun);
        return false;
    }
    return true;
}
