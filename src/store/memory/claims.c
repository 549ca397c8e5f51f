/* store/memory/claims.c — the verbs: acquire, renew, release, cancel, force,
 * params.
 *
 * The states of a claim, and what moves it from one to another:
 *
 *   (none)       --acquire, fits---------------------> HOLDS
 *   (none)       --acquire, does not, may queue------> WAITS
 *   WAITS        --settle, alive and fits------------> HOLDS (claim lease C)
 *   WAITS        --settle comes to it, not alive-----> unresponsive
 *   unresponsive --its own poll----------------------> WAITS, same rank
 *   WAITS        --polls for what can never fit, or
 *                  may not queue any more------------> (none), refused
 *   WAITS        --force, its floor is no token------> (none)
 *   HOLDS        --acquire again, renew--------------> HOLDS, lease from now
 *   HOLDS        --lease and lock-delay over, process
 *                  ended, release, cancel------------> (none)
 *   HOLDS        --force-----------------------------> REVOKED
 *   WAITS, unresponsive, REVOKED --cancel------------> (none)
 *   (none)       --cancel, params--------------------> tombstone
 *   (none), HOLDS --release, re-sent-----------------> tombstone
 *   any          --cancel, re-sent-------------------> tombstone
 *   SHARES       --cancel, of a BARRIER--------------> tombstone with its token
 *   tombstone, unresponsive, REVOKED --until passed--> (none)
 *
 * HOLDS also stands for SHARES where a reader, permits or a barrier are asked
 * for.
 *
 * claims_fit.c says what fits and to whom a name is granted.
 *
 * Forbidden: a renewal or a release that touches a claim whose id *and* token
 * are not the caller's. */
#include "store/memory/claims.h"

#include <string.h>

#include "base/error.h"
#include "core/refuse.h"
#include "store/memory/claims_i.h"

/* Is the floor that the caller gave plausible? A senseless floor must not carry
 * the tokens off to the end of their range. So it may be at most a day ahead of
 * the clock, or of the highest token that this store has given out itself: if
 * the store's clock was set back, that is not the caller's fault. */
static bool claims_floor_is_sane(struct snib__book *b,
                                 const struct snib__request *r)
{
    int64_t day = INT64_C(86400000) * 1024;
    if (r->floor <= b->wall_ms * 1024 + day) {
        return true;
    }
    return r->floor <= b->ops->highest(b) + day;
}

/* Leave a tombstone for the request. done: the answer to a repeat of a PARAMS.
 * granted: the token that a repeat of a CANCEL is told, or 0. */
static void claims_tombstone(struct snib__book *b,
                             const struct snib__request *r, bool done,
                             int64_t granted)
{
    struct snib__stored_claim c = {
        .request = {r->id[0], r->id[1]},
        .client = {b->client[0], b->client[1]},
        .state = SNIB__TOMBSTONE,
        .kind = r->kind,
        .permits = done,
        .token = granted,
        .until = snib__after(b->now, snib__ms(SNIB__TOMBSTONE_MS)),
    };
    b->ops->sweep(b);
    b->ops->add(b, r->name, &c, NULL, 0);
}

/* End `prior`, the client's own earlier grant on this name, in the same
 * step. */
static void claims_end_prior(struct snib__book *b,
                             const struct snib__request *r)
{
    struct snib__stored_claim c;
    if (r->token && b->ops->next(b, r->name, SNIB__HOLDS, NULL, &c) &&
        snib__same_id(c.client, b->client) && c.token == r->token &&
        !snib__same_id(c.request, r->id)) {
        b->ops->remove(b, r->name, &c);
    }
}

/* -- answers --------------------------------------------------------------- */

static void claims_answer(struct snib__request *r, snib__answer a, snib_err err)
{
    r->answer = a;
    r->err = err;
    if (err) {
        snib__fail_plain(r->reterr, err);
    } else {
        snib__ok(r->reterr);
    }
}

static void claims_done_grant(struct snib__request *r,
                              const struct snib__stored_claim *c,
                              snib_instant from, snib_duration left)
{
    claims_answer(r, SNIB__DONE, SNIB_ERR_OK);
    r->token = c->token;
    r->reserve = c->reserve;
    r->permits = c->permits;
    r->slot = c->slot;
    r->valid_from = from;
    r->left = left;
}

static void claims_no_revoked(struct snib__request *r,
                              const struct snib__stored_claim *c)
{
    r->answer = SNIB__NO;
    r->revoked = true;
    r->err = snib__fail(r->reterr, SNIB_ERR_LOST, "%s", c->note);
}

/* -- verbs ----------------------------------------------------------------- */

static void claims_rearm(struct snib__book *b, struct snib__request *r,
                         struct snib__stored_claim *c)
{
    /* The repeat of a grant that still stands starts the lease anew, so that
     * the client may count its deadline from the sending of this very copy. The
     * client moves its deadline forwards only. So the lease never ends earlier
     * than it did, however short the one is that is asked for now. */
    c->lease = r->lease;
    c->until = snib__later(c->until, snib__after(b->now, r->lease));
    b->ops->change(b, r->name, c);
    claims_done_grant(r, c, b->now, r->lease);
}

static void claims_wait_turn(struct snib__book *b, struct snib__request *r,
                             struct snib__stored_claim *c,
                             const struct snib__standing *st)
{
    snib_duration left = {-1}; /* not known: nobody holds it */
    if (st->till.ns != SNIB__NEVER.ns) {
        left = snib__between(b->now, st->till);
    }
    if (!r->may_queue || c->permits == 0) {
        if (c->id) {
            b->ops->remove(b, r->name, c);
        }
        claims_answer(r, SNIB__NO, SNIB_ERR_BUSY);
        r->left = left;
        return;
    }
    c->state = SNIB__WAITS;
    c->until = snib__after(b->now, snib__ms(SNIB__ALIVE_MS));
    if (!c->id) {
        b->ops->add(b, r->name, c, r->text, r->text_size);
    }
    claims_answer(r, SNIB__QUEUED, SNIB_ERR_OK);
    r->position = b->ops->before(b, r->name, c) + 1;
    r->left = left;
}

/* Does another live reader wait ahead of `me` to become the writer? This can be
 * so even for a waiter: while it was unresponsive, another may have taken its
 * position at the head of the queue. */
static bool claims_upgrade_ahead(struct snib__book *b,
                                 const struct snib__name *name,
                                 const struct snib__stored_claim *me)
{
    struct snib__stored_claim c, after;
    const struct snib__stored_claim *from = NULL;
    while (b->ops->next(b, name, SNIB__WAITS, from, &c) &&
           snib__is_id(c.upgrade_of) && !(me->id && c.id == me->id)) {
        if (!snib__reached(b->now, c.until) &&
            snib__rules_stands(b, name, c.upgrade_of)) {
            return true;
        }
        after = c;
        from = &after;
    }
    return false;
}

/* Refuse at once, before it waits, a request that can never be granted. */
static bool claims_refuse(struct snib__book *b, struct snib__request *r,
                          struct snib__stored_claim *me,
                          struct snib__standing *st)
{
    if (me->kind == SNIB_PERMITS && st->params.size < 0 && r->capacity) {
        st->params.size = r->capacity;
        b->ops->set_params(b, r->name, &st->params);
    }
    if (me->kind == SNIB_PERMITS && st->params.size < 0) {
        snib__refuse_no_size(r);
    } else if (me->kind == SNIB_PERMITS &&
               (int64_t)me->permits > st->params.size) {
        snib__refuse_too_many(r, st->params.size);
    } else if (snib__is_id(me->upgrade_of) &&
               !snib__rules_stands(b, r->name, me->upgrade_of)) {
        snib__refuse_upgrade_over(r);
    } else if (snib__is_id(me->upgrade_of) && snib__rules_excludes(me) &&
               claims_upgrade_ahead(b, r->name, me)) {
        snib__refuse_second_upgrade(r);
    } else {
        return false;
    }
    if (me->id) {
        b->ops->remove(b, r->name, me);
    }
    return true;
}

static struct snib__stored_claim claims_newcomer(const struct snib__book *b,
                                                 const struct snib__request *r)
{
    struct snib__stored_claim c = {
        .request = {r->id[0], r->id[1]},
        .client = {b->client[0], b->client[1]},
        .kind = r->kind,
        .permits = r->permits || r->kind == SNIB_PERMITS ? r->permits : 1,
        .reserve =
            r->reserve > SNIB__RESERVE_MAX ? SNIB__RESERVE_MAX : r->reserve,
        .floor = r->floor,
        .rank = -r->rank,
        .upgrade_of = {r->upgrade_of[0], r->upgrade_of[1]},
        .lease = r->lease,
        .delay = r->delay,
        .since = b->now,
    };
    if (snib__is_id(c.upgrade_of)) {
        c.rank = INT8_MIN;
    }
    return c;
}

static void claims_acquire(struct snib__book *b, struct snib__request *r)
{
    struct snib__stored_claim me;
    struct snib__standing st;
    int64_t shared = 0;
    if (!claims_floor_is_sane(b, r)) {
        r->answer = SNIB__NOT_APPLIED;
        r->err = snib__fail(r->reterr, SNIB_ERR_USAGE,
                            "token floor %lld is more than a day ahead",
                            (long long)r->floor);
        return;
    }
    claims_end_prior(b, r);
    if (b->ops->find(b, r->name, r->id, &me)) {
        switch ((enum snib__stored_state)me.state) {
        case SNIB__TOMBSTONE: /* a late copy of a cancelled request */
            claims_answer(r, SNIB__NO, SNIB_ERR_CANCELLED);
            return;
        case SNIB__REVOKED:
            claims_no_revoked(r, &me);
            return;
        case SNIB__WAITS:
        /* the poll is a sign of life: it counts before anybody is judged */
        case SNIB__UNRESPONSIVE:
            me.state = SNIB__WAITS;
            me.until = snib__after(b->now, snib__ms(SNIB__ALIVE_MS));
            b->ops->change(b, r->name, &me);
            break;
        case SNIB__HOLDS:
        case SNIB__SHARES:
            if (!snib__reached(b->now, me.until)) {
                claims_rearm(b, r, &me);
                snib__rules_settle(b, r->name);
                return;
            }
            if (!snib__rules_is_over(b,
                                     /* The lease is over but the lock-delay
                                      * runs: the client must ask with a new
                                      * id. */
                                     &me)) {
                claims_answer(r, SNIB__NO, SNIB_ERR_CANCELLED);
                return;
            }
            snib__rules_drop(b, r->name, &me);
            me = claims_newcomer(b, r);
            break;
        }
    } else {
        me = claims_newcomer(b, r);
    }
    snib__rules_survey(b, r->name, r, &st);
    if (claims_refuse(b, r, &me, &st)) {
        snib__rules_walk(b, r->name, &st, NULL, false, &shared);
        return;
    }
    if (me.permits == 0 &&
        st.params.size > st.permits) { /* 0 permits means all that are left */
        me.permits = (uint32_t)(st.params.size - st.permits);
    }
    bool mine = me.permits > 0 &&
                snib__rules_walk(b, r->name, &st, &me, r->may_queue, &shared);
    if (b->err) {
        return;
    }
    if (!mine) {
        claims_wait_turn(b, r, &me, &st);
        return;
    }
    me.slot = st.slot;
    snib__rules_hold(b, r->name, &me, r->lease, &shared);
    if (b->err) {
        return;
    }
    if (me.id) {
        b->ops->change(b, r->name, &me);
    } else {
        b->ops->add(b, r->name, &me, r->text, r->text_size);
    }
    claims_done_grant(r, &me, b->now, r->lease);
}

/* Find this request's grant with this token. False: it does not stand. */
static bool claims_own(struct snib__book *b, const struct snib__request *r,
                       struct snib__stored_claim *ret)
{
    return b->ops->find(b, r->name, r->id, ret) &&
           snib__rules_claim_holds(ret) && ret->token == r->token &&
           !snib__reached(b->now, ret->until);
}

static void claims_renew(struct snib__book *b, struct snib__request *r)
{
    struct snib__stored_claim c;
    /* Compare the id and the token, never create a grant. */
    if (claims_own(b, r, &c) && r->only_asks) {
        if (r->listen) { /* a change also stores whom to notify */
            b->ops->change(b, r->name, &c);
        }
        claims_done_grant(r, &c, b->now, (snib_duration){0});
        return;
    }
    if (claims_own(b, r, &c)) {
        claims_rearm(b, r, &c);
        return;
    }
    snib__rules_settle(b, r->name);
    if (b->ops->find(b, r->name, r->id, &c) && c.state == SNIB__REVOKED) {
        claims_no_revoked(r, &c);
        return;
    }
    claims_answer(r, SNIB__NO, SNIB_ERR_LOST);
}

static void claims_release(struct snib__book *b, struct snib__request *r)
{
    struct snib__stored_claim c;
    if (claims_own(b, r, &c)) {
        snib__rules_drop(b, r->name, &c);
        if (r->resent) {
            claims_tombstone(b, r, true, 0);
        }
        snib__rules_settle(b, r->name);
        claims_answer(r, SNIB__DONE, SNIB_ERR_OK);
        return;
    }
    snib__rules_settle(b, r->name);
    if (!b->ops->find(b, r->name, r->id, &c)) {
        if (r->resent) {
            claims_tombstone(b, r, true, 0);
        }
    } else if (c.state == SNIB__TOMBSTONE) { /* an earlier copy did it */
        claims_answer(r, SNIB__DONE, SNIB_ERR_OK);
        return;
    } else if (c.state == SNIB__REVOKED) {
        claims_no_revoked(r, &c);
        return;
    }
    claims_answer(r, SNIB__NO, SNIB_ERR_LOST);
}

static void claims_cancel(struct snib__book *b, struct snib__request *r)
{
    struct snib__stored_claim c;
    bool leave_tombstone = true;
    int64_t granted = 0;
    claims_end_prior(b, r);
    if (b->ops->find(b, r->name, r->id, &c)) {
        bool waited = c.state == SNIB__WAITS || c.state == SNIB__UNRESPONSIVE;
        granted = waited ? 0 : c.token;
        leave_tombstone = c.state != SNIB__TOMBSTONE &&
                          (r->resent || (granted && c.kind == SNIB_BARRIER));
        if (snib__rules_claim_holds(&c)) {
            snib__rules_drop(b, r->name, &c);
        } else if (c.state != SNIB__TOMBSTONE) {
            b->ops->remove(b, r->name, &c);
        }
    }
    if (leave_tombstone) {
        claims_tombstone(b, r, true, granted);
    }
    snib__rules_settle(b, r->name);
    claims_answer(r, SNIB__DONE, SNIB_ERR_OK);
    r->granted = granted;
}

/* Replace a last token that is not a token by the highest of the grants just
 * ended, so that tokens rise again from there. A waiter whose floor is not a
 * token is removed; it queues anew when it polls. */
static void claims_mend(struct snib__book *b, const struct snib__name *name,
                        int64_t highest)
{
    struct snib__stored_claim c, after;
    const struct snib__stored_claim *from = NULL;
    if (!snib__is_token(b->ops->token(b, name))) {
        b->ops->mend_token(b, name, highest);
    }
    while (!b->err && b->ops->next(b, name, SNIB__WAITS, from, &c)) {
        if (!snib__is_token(c.floor)) {
            b->ops->remove(b, name, &c);
        }
        after = c;
        from = &after;
    }
}

static void claims_force(struct snib__book *b, struct snib__request *r)
{
    struct snib__stored_claim c;
    uint32_t count = 0;
    int64_t highest = 0;
    /* End those that hold now. Settle runs only afterwards: a waiter that it
     * grants the name is not the holder that the operator saw. */
    while (!b->err && (b->ops->next(b, r->name, SNIB__HOLDS, NULL, &c) ||
                       b->ops->next(b, r->name, SNIB__SHARES, NULL, &c))) {
        if (snib__rules_is_over(b, &c)) {
            snib__rules_drop(b, r->name, &c);
            continue;
        }
        if (c.state == SNIB__SHARES) {
            b->ops->share(b, r->name, -1);
        }
        size_t n = r->text ? r->text_size : 0;
        n = n < sizeof c.note ? n : sizeof c.note - 1;
        memset(c.note, 0, sizeof c.note);
        if (n) {
            memcpy(c.note, r->text, n);
        }
        if (snib__is_token(c.token + c.reserve) &&
            c.token + c.reserve > highest) {
            highest = c.token + c.reserve;
        }
        /* one whose lease is over knows */
        count += !snib__reached(b->now, c.until);
        c.state = SNIB__REVOKED;
        c.until = snib__after(c.until, snib__ms(SNIB__TOMBSTONE_MS));
        b->ops->change(b, r->name, &c);
        /* notified, it asks, and hears that it lost */
        b->ops->granted(b, r->name, &c);
    }
    claims_mend(b, r->name, highest);
    b->ops->sweep(b);
    snib__rules_settle(b, r->name);
    claims_answer(r, SNIB__DONE, SNIB_ERR_OK);
    r->position = count; /* the caller writes the row once this is durable */
}

/* Apply the request to *t. True: *t has changed. */
static bool claims_apply(struct snib__request *r, struct snib__params *t,
                         bool *ret_no)
{
    const struct snib__params old = *t;
    *ret_no = false;
    switch ((snib__params_op)r->op) {
    case SNIB__PARAMS_GET:
        break;
    case SNIB__PARAMS_SIZE:
        t->size = r->amount;
        break;
    case SNIB__PARAMS_INIT:
        *ret_no = t->size >= 0;
        t->size = *ret_no ? t->size : r->amount;
        break;
    case SNIB__PARAMS_ADD:
        t->size += r->amount;
        break;
    case SNIB__PARAMS_CLOSE:
        *ret_no = t->latch > 0;
        t->latch = *ret_no ? t->latch : r->amount;
        break;
    case SNIB__PARAMS_DOWN:
        *ret_no = t->latch == 0;
        t->latch = t->latch > r->amount ? t->latch - r->amount : 0;
        break;
    case SNIB__PARAMS_OPEN:
        t->latch = 0;
        break;
    }
    return t->size != old.size || t->latch != old.latch;
}

/* The row of the answer is written once the step is durable. Until then its
 * values are kept in fields that this verb has no other use for. */
static void claims_tell_params(struct snib__book *b, struct snib__request *r,
                               const struct snib__params *t, int64_t permits)
{
    const struct snib__stored_claim end = {.rank = INT8_MAX, .id = INT64_MAX};
    r->token = t->size;
    r->floor = t->latch;
    r->permits = (uint32_t)permits;
    r->reserve = b->ops->before(b, r->name, &end);
    claims_answer(r, SNIB__DONE, SNIB_ERR_OK);
}

/* A PARAMS_GET changes nothing, so that a store may answer it beside its
 * writers. Holders whose time is over are not counted, but they stay in the
 * book. */
static void claims_read_params(struct snib__book *b, struct snib__request *r)
{
    static const int states[] = {SNIB__HOLDS, SNIB__SHARES};
    struct snib__params t;
    int64_t permits = 0;
    b->ops->params(b, r->name, &t);
    for (int i = 0; i < 2; i++) {
        struct snib__stored_claim c, after;
        const struct snib__stored_claim *from = NULL;
        while (!b->err && b->ops->next(b, r->name, states[i], from, &c)) {
            if (c.kind == SNIB_PERMITS && !snib__rules_is_over(b, &c)) {
                permits += c.permits;
            }
            after = c;
            from = &after;
        }
    }
    r->position = 1;
    claims_tell_params(b, r, &t, permits);
}

static void claims_params(struct snib__book *b, struct snib__request *r)
{
    struct snib__stored_claim c;
    struct snib__standing st;
    int64_t none;
    bool no = false;
    if (r->op == SNIB__PARAMS_GET) {
        claims_read_params(b, r);
        return;
    }
    bool repeat =
        b->ops->find(b, r->name, r->id, &c) && c.state == SNIB__TOMBSTONE;
    snib__rules_survey(b, r->name, NULL, &st);
    if (r->op == SNIB__PARAMS_ADD && !repeat) {
        int64_t size = st.params.size + r->amount;
        if (st.params.size < 0) {
            snib__refuse_no_size(r);
            return;
        }
        if (size < 0 || size > SNIB_PERMITS_MAX) {
            snib__refuse_size(r, st.params.size);
            return;
        }
    }
    if (repeat) {
        no = c.permits == 0;
    } else if (claims_apply(r, &st.params, &no)) {
        b->ops->set_params(b, r->name, &st.params);
        snib__rules_walk(b, r->name, &st, NULL, false, &none);
    }
    if (!repeat) {
        claims_tombstone(b, r, !no, 0);
    }
    r->position = !no;
    claims_tell_params(b, r, &st.params, st.permits);
}

void snib__rules_run(struct snib__book *b, struct snib__request *r)
{
    b->asker = r;
    r->revoked = false;
    switch (r->verb) {
    case SNIB__ACQUIRE:
        claims_acquire(b, r);
        break;
    case SNIB__RENEW:
        claims_renew(b, r);
        break;
    case SNIB__RELEASE:
        claims_release(b, r);
        break;
    case SNIB__CANCEL:
        claims_cancel(b, r);
        break;
    case SNIB__FORCE:
        claims_force(b, r);
        break;
    case SNIB__PARAMS:
        claims_params(b, r);
        break;
    case SNIB__INSPECT:
    case SNIB__LIST:
    case SNIB__DOCTOR:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
        claims_answer(r, SNIB__NOT_APPLIED, SNIB_ERR_INTERNAL);
        break;
    }
    b->asker = NULL;
}

bool snib__rules_end(struct snib__book *b, const struct snib__name *name,
                     const uint64_t request[2], int64_t token)
{
    struct snib__stored_claim c;
    bool there = b->ops->find(b, name, request, &c) &&
                 snib__rules_claim_holds(&c) && c.token == token;
    if (there) {
        snib__rules_drop(b, name, &c);
    }
    snib__rules_settle(b, name);
    return there;
}

void snib__rules_clear(struct snib__book *b, const struct snib__name *name)
{
    struct snib__stored_claim c;
    while (!b->err && (b->ops->next(b, name, SNIB__HOLDS, NULL, &c) ||
                       b->ops->next(b, name, SNIB__SHARES, NULL, &c))) {
        snib__rules_drop(b, name, &c);
    }
}

snib_err snib__rules_put(struct snib__book *b, const struct snib__name *name,
                         struct snib__stored_claim *c)
{
    snib__rules_hold(b, name, c, c->lease, NULL);
    if (!b->err) {
        b->ops->add(b, name, c, NULL, 0);
    }
    return b->err;
}

bool snib__rules_inspect(snib_instant now, const struct snib__stored_claim *c,
                         struct snib__request *r)
{
    snib_duration given = snib__push_lease(c->lease);
    if (!snib__rules_claim_holds(c) ||
        snib__between(now, c->until).ns < given.ns / 2) {
        return false;
    }
    /* The grant was made at until - C. If the claim's lease was started anew
     * since, until is later than that; then the lease counts from now. */
    snib_instant from = snib__sooner(snib__before(c->until, given), now);
    claims_done_grant(r, c, from, snib__between(from, c->until));
    return true;
}
