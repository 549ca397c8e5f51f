/* store/memory/claims.c — the verbs: acquire, renew, release, cancel, force,
 * terms.
 *
 * States of a claim, and what moves it:
 *
 *   (none) --acquire, fits----------------------> HOLDS
 *   (none) --acquire, does not, may queue-------> WAITS
 *   WAITS  --settle, alive, fits in its turn----> HOLDS (claim lease C)
 *   WAITS  --settle, first and silent-----------> unresponsive
 *   WAITS, unresponsive --its own poll------------------> WAITS, same rank
 *   HOLDS  --acquire again, renew---------------> HOLDS, lease from now
 *   HOLDS  --until passed, release, cancel------> (none)
 *   HOLDS  --force------------------------------> REVOKED
 *   WAITS, unresponsive --cancel------------------------> (none)
 *   (none) --cancel; release or cancel, re-sent-> tombstone
 *   SHARES --cancel, of BARRIER-----------------> tombstone, with its token
 *   tombstone, unresponsive, REVOKED --until passed----------> (none)
 *
 * HOLDS stands for SHARES, too, where a reader or permits are asked for.
 *
 * What fits, and whom a name is given to, is in claims_fit.c.
 *
 * Forbidden: renew or release touching a claim whose id *and* token are not the
 * caller's. */
#include "store/memory/claims.h"

#include <string.h>

#include "base/error.h"
#include "core/refuse.h"
#include "store/memory/claims_i.h"

/* A floor from nowhere must not carry the tokens off to the end of their
 * range (H20): at most a day ahead of the clock or of what this store has
 * given out itself (a clock that was set back is not the caller's fault). */
static bool claims_floor_is_sane(struct snib__book *b,
                                 const struct snib__request *r)
{
    int64_t day = INT64_C(86400000) * 1024;
    if (r->floor <= b->wall_ms * 1024 + day) {
        return true;
    }
    return r->floor <= b->ops->highest(b) + day;
}

/* done: what a repeat of a TERMS is to be told. granted: what one of a CANCEL
 * is, or 0. */
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

/* `prior`: our own earlier grant on this name, ended in the same step. */
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

/* -- answers ---------------------------------------------------------------- */

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

/* -- verbs ------------------------------------------------------------------- */

static void claims_rearm(struct snib__book *b, struct snib__request *r,
                         struct snib__stored_claim *c)
{
    /* The repeat of a grant that still stands re-arms the lease, so that the
     * deadline may count from this very execution (H13). */
    c->lease = r->lease;
    c->until = snib__after(b->now, r->lease);
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

/* Does another reader, who lives, wait before this one to become the writer?
 * One that was unresponsive and comes back may meet another in its place. */
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

/* What can never be granted is refused at once, before it waits. */
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
        case SNIB__TOMBSTONE: /* a late copy of what was cancelled, H12 */
            claims_answer(r, SNIB__NO, SNIB_ERR_CANCELLED);
            return;
        case SNIB__REVOKED:
            claims_no_revoked(r, &me);
            return;
        case SNIB__WAITS:
        case SNIB__UNRESPONSIVE: /* a sign of life, before anybody is judged */
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
                                     &me)) { /* its lock-delay runs: ask anew */
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
        st.params.size > st.permits) { /* all that are left */
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

/* This request's grant with this token, if it stands. */
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
    /* Compare id and token, never create (H15). */
    if (claims_own(b, r, &c) && r->only_asks) {
        if (r->listen) { /* a change names where to ring */
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

/* Whatever is no token begins anew, above those of the grants just ended.
 * Who waits with such a floor takes another place when it asks again. */
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
    /* Only who holds now: a waiter that settle would let in first is not whom
     * the operator saw. */
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
        count += !snib__reached(b->now, c.until); /* else: it knows */
        c.state = SNIB__REVOKED;
        c.until = snib__after(c.until, snib__ms(SNIB__TOMBSTONE_MS));
        b->ops->change(b, r->name, &c);
        b->ops->granted(b, r->name, &c); /* no longer: it asks, and hears */
    }
    claims_mend(b, r->name, highest);
    b->ops->sweep(b);
    snib__rules_settle(b, r->name);
    claims_answer(r, SNIB__DONE, SNIB_ERR_OK);
    r->position = count; /* the caller writes the row once it is durable */
}

/* True when the terms are others now. */
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

/* The answer's row is written once the step is durable: what goes into it is
 * kept in fields that this verb has no other use for. */
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

/* A question changes nothing, so that a store may answer it beside its
 * writers: who is over is not counted, and stays. */
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
    /* The grant was at until - C; a row that was re-armed since ends later,
     * and then its lease is counted from now. */
    snib_instant from = snib__sooner(snib__before(c->until, given), now);
    claims_done_grant(r, c, from, snib__between(from, c->until));
    return true;
}
