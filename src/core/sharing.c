/* core/sharing.c — requests for a library across a network, shared out to its
 * two sessions.
 *
 * What a caller waits for is executed in one session, what the background asks
 * for in the other, each by a worker of its own (driver/sessions.c). Nothing is
 * shared between the two, so a call that a stalled peer keeps delays nothing in
 * the other session.
 *
 * The order. Requests of one id (an ACQUIRE, and the RENEW, RELEASE and CANCEL
 * of what it was granted) are executed in the order of their starts, one after
 * the other, in whichever session. Requests of different ids may overtake each
 * other: the store compares ids, so none of them can end or extend what another
 * one made. Tries of one batch have new ids, and stay together.
 *
 *   listed ------> BEHIND, on no list
 *   BEHIND ------> on its session's list, when no other request of its id is
 *                  on a list or TAKEN, and it is the first of those BEHIND
 *   on a list --taken--> TAKEN, until it is given back by snib__blocking_done
 *
 * So at most one request of an id is on its way, by construction. The table has
 * them in the order of their starts. (One that came back PENDING was not
 * executed; it is listed anew in its time, and waits like any other.) A worker
 * that has all of out->exec needs no such rule, and the other stores have none.
 *
 * What was not taken yet need not be executed when nobody wants it any more:
 *
 *   an ACQUIRE whose CANCEL starts   is taken off the list. If the library
 *                                    never got to it, there is nothing to
 *                                    cancel: both are answered now
 *   a RENEW whose RELEASE or CANCEL  NOT_APPLIED: its claim has forgotten it.
 *     starts                         So a release waits for a session that
 *                                    stalls only if that has this renewal
 *   an ACQUIRE of which surely       NOT_APPLIED at its limit, so a caller is
 *     nothing is there, a direct     told something definite although no
 *     request                        worker was free; the timer is at the limit
 *
 * A release, a cancel and a renewal are executed however late; so is an ACQUIRE
 * that ends a grant of ours first, or its CANCEL in its place. */
#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/error.h"
#include "core/blocking_i.h"

/* A worker takes so many at once. They come back together, so with one that
 * stalls the answers of no more than these are late. */
enum { SHARING_TAKE = 128 };

void snib__sharing_init(struct snib__store *s, snib_duration request)
{
    s->request = request;
    for (int k = 0; k < SNIB__SESSIONS; k++) {
        snib__list_init(&s->session[k].listed);
    }
}

static const struct snib__sharing *sharing_of(const struct snib__store *s,
                                              const struct snib__request *r)
{
    return &s->session[r->background ? SNIB__SESSION_BACKGROUND
                                     : SNIB__SESSION_CALLERS];
}

static struct snib__list *sharing_list_of(struct snib__store *s,
                                          const struct snib__request *r)
{
    return &s->session[sharing_of(s, r) - s->session].listed;
}

/* -- listed --------------------------------------------------------------- */

/* Is it answered at its limit when no worker has taken it by then? */
static bool sharing_has_limit(const struct snib__request *r)
{
    if (r->verb >= SNIB__INSPECT) {
        return true;
    }
    return r->verb == SNIB__ACQUIRE && r->said.answer == SNIB__PENDING &&
           !r->token && !r->resent &&
           !(r->store.where & (SNIB__RQ_STANDS | SNIB__RQ_ENDING));
}

/* The request of this id that may be executed next: the first one that is
 * BEHIND, unless another one is on a list or with a worker. */
static struct snib__request *sharing_whose_turn(struct snib__store *s,
                                                const uint64_t id[2])
{
    struct snib__request *first = NULL;
    SNIB__LIST_EACH (l, snib__blocking_bucket(s, id)) {
        struct snib__request *r = snib__rq_of_own(l);
        if (!snib__rq_same_id(r, id) || !(r->store.where & SNIB__RQ_LISTED)) {
            continue;
        }
        if (!(r->store.where & SNIB__RQ_BEHIND)) {
            return NULL;
        }
        first = first ? first : r;
    }
    return first;
}

/* One that is answered instead of listed makes way for the next. */
static void sharing_next(struct snib__store *s, const uint64_t id[2])
{
    struct snib__request *r;
    while ((r = sharing_whose_turn(s, id))) {
        r->store.where &= (uint8_t)~SNIB__RQ_BEHIND;
        if (!snib__blocking_cancelled(s, r)) {
            snib__list_push(sharing_list_of(s, r), &r->link);
        }
    }
}

void snib__sharing_list(struct snib__store *s, struct snib__request *r)
{
    r->store.where |= SNIB__RQ_BEHIND;
    if (sharing_has_limit(r)) {
        snib__heap_set(&s->heap, &r->store.timer, r->limit);
    }
    sharing_next(s, r->id);
}

/* -- not executed any more ------------------------------------------------ */

/* No worker has it: it is not LISTED any more. */
static void sharing_unlist(struct snib__store *s, struct snib__request *r)
{
    assert(!(r->store.where & SNIB__RQ_TAKEN));
    snib__unlink(&r->link);
    snib__heap_remove(&s->heap, &r->store.timer);
    r->store.where &= SNIB__RQ_ENDING | SNIB__RQ_STANDS;
}

/* Its claim has forgotten this renewal. */
static void sharing_drop(struct snib__store *s, struct snib__request *r)
{
    sharing_unlist(s, r);
    r->said.answer = SNIB__NOT_APPLIED;
    r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_CANCELLED);
    snib__blocking_answer(s, r);
}

void snib__sharing_end(struct snib__store *s, const uint64_t id[2])
{
    SNIB__LIST_EACH_SAFE (l, next, snib__blocking_bucket(s, id)) {
        struct snib__request *r = snib__rq_of_own(l);
        bool renews = r->verb == SNIB__RENEW;
        if (!snib__rq_same_id(r, id)) {
            continue;
        }
        if (r->store.where & SNIB__RQ_TAKEN) {
            r->store.where |= renews ? SNIB__RQ_ENDING : 0;
        } else if (renews) {
            sharing_drop(s, r);
        } else if (r->verb == SNIB__ACQUIRE &&
                   (r->store.where & SNIB__RQ_ENDING)) {
            sharing_unlist(s, r);
        }
    }
}

void snib__sharing_back(struct snib__store *s, struct snib__request *r)
{
    if (r->verb == SNIB__RENEW && (r->store.where & SNIB__RQ_ENDING)) {
        sharing_drop(s, r); /* it was to come again */
    }
    sharing_next(s, r->id);
}

/* Since when the call that is in this one's way is inside. */
static snib_instant sharing_in_the_way(const struct snib__store *s,
                                       const struct snib__request *r)
{
    const struct snib__sharing *k = sharing_of(s, r);
    return k->inside && k->since.ns < r->exec.blocked_since.ns
               ? k->since
               : r->exec.blocked_since;
}

/* When the server was last heard in the call that is inside; or since when that
 * is. */
static snib_instant sharing_silent_since(const struct snib__store *s,
                                         const struct snib__sharing *k)
{
    snib_instant since = k->since;
    for (uint32_t i = 0; i < s->buckets; i++) {
        SNIB__LIST_EACH (l, &s->bucket[i]) {
            const struct snib__request *r = snib__rq_of_own(l);
            if ((r->store.where & SNIB__RQ_TAKEN) && sharing_of(s, r) == k) {
                since = snib__later(
                    since, (snib_instant){atomic_load(&r->exec.heard)});
            }
        }
    }
    return since;
}

/* Why nothing of it was sent by its limit. The server is silent if its session
 * asks it, and nothing was heard since the call went in, in no session. (A
 * library that never blocks has no call.) */
static void sharing_why_unsent(const struct snib__store *s, snib_instant now,
                               const struct snib__request *r,
                               struct snib__unsent *ret)
{
    const struct snib__sharing *k = sharing_of(s, r);
    bool taken = r->store.where & SNIB__RQ_TAKEN;
    snib_instant since = k->inside ? k->since : r->exec.blocked_since;
    bool heard = k->inside && sharing_silent_since(s, k).ns > since.ns;
    bool elsewhere = !s->last.err && s->last.heard.ns > since.ns;
    bool asks = k->inside || !(s->ops->caps & SNIB__SAYS_SENT);
    bool behind =
        heard || (k->inside && !taken) || (r->store.where & SNIB__RQ_BEHIND);
    ret->waited = snib__between(sharing_in_the_way(s, r), now);
    if (asks && !heard && !elsewhere) {
        snprintf(ret->text, sizeof ret->text,
                 "no answer from the server for %lld ms",
                 (long long)snib__to_ms(snib__between(since, now)));
        return;
    }
    since = taken ? k->since : r->exec.blocked_since;
    snprintf(ret->text, sizeof ret->text,
             "not sent to the server for %lld ms%s",
             (long long)snib__to_ms(snib__between(since, now)),
             behind ? ", behind other requests of this client" : "");
}

/* Why it was not taken by its limit. */
static snib_err sharing_why_late(const struct snib__store *s, snib_instant now,
                                 const struct snib__request *r)
{
    struct snib__unsent why;
    sharing_why_unsent(s, now, r, &why);
    if (s->crowd.under_way && s->crowd.heard.ns > r->exec.blocked_since.ns) {
        return snib__fail(r->said.reterr, SNIB_ERR_UNREACHABLE,
                          "not sent for %lld ms, as %u other requests of this "
                          "client are under way",
                          (long long)snib__to_ms(why.waited),
                          s->crowd.under_way);
    }
    return snib__fail(r->said.reterr, SNIB_ERR_UNREACHABLE, "%s", why.text);
}

void snib__sharing_late(struct snib__store *s, snib_instant now,
                        struct snib__request *r)
{
    uint64_t id[2] = {r->id[0], r->id[1]};
    r->exec.patience = r->limit;
    if (!snib__reached(now, r->limit)) { /* it was moved */
        snib__heap_set(&s->heap, &r->store.timer, r->limit);
        return;
    }
    /* If it was executed before, it was not busy workers that it failed by. */
    r->exec.blocked = !r->said.err || s->last.blocked;
    if (!r->said.err) {
        r->said.err = sharing_why_late(s, now, r);
    }
    r->said.answer = SNIB__NOT_APPLIED;
    sharing_unlist(s, r);
    snib__blocking_remember(s, now, r);
    snib__blocking_answer(s, r);
    sharing_next(s, id);
}

/* -- workers -------------------------------------------------------------- */

bool snib__blocking_waits(const struct snib__store *s, snib__session session)
{
    return !snib__list_empty(&s->session[session].listed);
}

/* No other worker has a request of this id. */
static bool sharing_is_alone(struct snib__store *s,
                             const struct snib__request *r)
{
    SNIB__LIST_EACH (l, snib__blocking_bucket(s, r->id)) {
        const struct snib__request *other = snib__rq_of_own(l);
        if (other != r && snib__rq_same_id(other, r->id) &&
            (other->store.where & SNIB__RQ_TAKEN)) {
            return false;
        }
    }
    return true;
}

/* May it be in one list with those before it? Tries of one batch must. */
static bool sharing_fits(const struct snib__request *r, uint32_t count,
                         uint32_t batch)
{
    return count < SHARING_TAKE || (batch && r->batch.number == batch);
}

/* A worker has it from now on. */
static void sharing_take(struct snib__store *s, struct snib__request *r)
{
    assert((r->store.where & SNIB__RQ_LISTED) &&
           !(r->store.where & (SNIB__RQ_TAKEN | SNIB__RQ_BEHIND)));
    assert(sharing_is_alone(s, r));
    snib__heap_remove(&s->heap, &r->store.timer);
    snib__unlink(&r->link);
    r->store.where |= SNIB__RQ_TAKEN;
    r->exec.patience = r->limit;
    r->exec.impatient = r->once;
    r->exec.expires = (s->ops->caps & SNIB__SAYS_SENT) && sharing_has_limit(r);
    atomic_store(&r->exec.sent, false);
    atomic_store(&r->exec.heard, 0);
}

void snib__blocking_take(struct snib__store *s, snib_instant now,
                         snib__session session, struct snib__list *ret)
{
    struct snib__sharing *k = &s->session[session];
    struct snib__link *l;
    uint32_t count = 0, batch = 0;
    assert(!k->inside && !snib__list_empty(&k->listed));
    k->inside = true;
    k->since = now;
    k->slow = false;
    while ((l = snib__list_first(&k->listed)) &&
           sharing_fits(snib__rq_of_link(l), count, batch)) {
        struct snib__request *r = snib__rq_of_link(l);
        sharing_take(s, r);
        k->slow = k->slow || (r->verb == SNIB__LIST && r->background);
        snib__list_push(ret, l);
        batch = r->batch.number;
        count++;
    }
}

void snib__blocking_returned(struct snib__store *s, snib__session session)
{
    assert(s->session[session].inside);
    s->session[session].inside = false;
}

struct snib__request *snib__blocking_peek(const struct snib__store *s,
                                          snib__session session,
                                          const struct snib__request *after)
{
    const struct snib__list *listed = &s->session[session].listed;
    struct snib__link *l = after ? after->link.next : listed->head.next;
    return l == &listed->head ? NULL : snib__rq_of_link(l);
}

void snib__blocking_take_one(struct snib__store *s, struct snib__request *r)
{
    sharing_take(s, r);
}

void snib__blocking_crowded(struct snib__store *s, uint32_t under_way,
                            snib_instant heard)
{
    s->crowd.under_way = under_way;
    s->crowd.heard = heard;
}

/* -- what was not sent ----------------------------------------------------- */

void snib__blocking_sends(struct snib__request *r)
{
    atomic_store(&r->exec.sent, true);
}

void snib__blocking_heard(struct snib__request *r, snib_instant now)
{
    atomic_store(&r->exec.heard, now.ns);
}

bool snib__blocking_expired(const struct snib__request *r, snib_instant now)
{
    return r->exec.expires && snib__reached(now, r->exec.patience);
}

bool snib__blocking_unsent(const struct snib__store *s, snib_instant now,
                           const struct snib__request *r,
                           struct snib__unsent *ret)
{
    if (!snib__blocking_shares(s) || !(r->store.where & SNIB__RQ_TAKEN) ||
        !r->exec.expires || atomic_load(&r->exec.sent)) {
        return false;
    }
    sharing_why_unsent(s, now, r, ret);
    return true;
}

/* -- how the store is ------------------------------------------------------ */

bool snib__sharing_stalls(const struct snib__store *s, snib_instant now,
                          struct snib__store_state *ret)
{
    snib_instant since = SNIB__NEVER;
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        const struct snib__sharing *k = &s->session[i];
        if (k->inside && !k->slow &&
            snib__reached(now, snib__after(k->since, s->request))) {
            since = snib__sooner(since, sharing_silent_since(s, k));
        }
    }
    if (!snib__reached(now, snib__after(since, s->request))) {
        return false;
    }
    ret->err = SNIB_ERR_UNREACHABLE;
    ret->since = since;
    snprintf(ret->text, sizeof ret->text,
             "no answer from the server for %lld ms",
             (long long)snib__to_ms(snib__between(since, now)));
    return true;
}
