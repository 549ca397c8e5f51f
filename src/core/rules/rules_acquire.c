/* core/rules/rules_acquire.c — ACQUIRE: a first try, a repeat, a poll. */
#include "base/error.h"
#include "core/refusals.h"
#include "core/rules/rules_i.h"

/* Is the floor that the caller gave plausible? A senseless floor must not carry
 * the tokens off to the end of their range. So it may be at most a day ahead of
 * the clock, or of the highest token that this store has given out itself: if
 * the store's clock was set back, that is not the caller's fault. */
static bool rules_acquire_floor_is_sane(struct snib__book *b,
                                        const struct snib__request *r)
{
    int64_t day = INT64_C(86400000) * 1024;
    if (r->floor <= b->token_clock + day) {
        return true;
    }
    return r->floor <= b->ops->highest(b) + day;
}

/* The holder's client may merely keep the name: it is told that somebody
 * waits. */
static void rules_acquire_ask_back(struct snib__book *b,
                                   const struct snib__name *name)
{
    SNIB__UNSET struct snib__stored_claim c;
    if (b->ops->next(b, name, SNIB__HOLDS, NULL, &c)) {
        b->ops->granted(b, name, &c);
    }
}

/* Is it the first of the queue that is alive? Those behind it wait for the same
 * message to the holder. */
static bool rules_acquire_is_first(struct snib__book *b,
                                   const struct snib__name *name,
                                   const struct snib__stored_claim *me)
{
    SNIB__UNSET struct snib__stored_claim c, after;
    const struct snib__stored_claim *from = NULL;
    while (b->ops->next(b, name, SNIB__WAITS, from, &c) && c.id != me->id) {
        if (!snib__reached(b->now, c.until)) {
            return false;
        }
        after = c;
        from = &after;
    }
    return true;
}

static void rules_acquire_wait(struct snib__book *b, struct snib__request *r,
                               struct snib__stored_claim *c,
                               const struct snib__standing *st)
{
    snib_duration left = {-1}; /* not known: nobody holds it */
    if (st->till.ns != SNIB__NEVER.ns) {
        left = snib__between(b->now, st->till);
    }
    if (!r->acquire.may_queue || c->permits == 0) {
        if (c->id) {
            b->ops->remove(b, r->name, c);
        }
        snib__rules_answer(r, SNIB__NO, SNIB_ERR_BUSY);
        r->said.left = left;
        r->said.kept = st->keeps;
        if (st->keeps) {
            rules_acquire_ask_back(b, r->name);
        }
        return;
    }
    c->state = SNIB__WAITS;
    c->until = snib__after(b->now, snib__ms(SNIB__ALIVE_MS));
    if (!c->id) {
        b->ops->add(b, r->name, c, r->text, r->text_size);
    }
    snib__rules_answer(r, SNIB__QUEUED, SNIB_ERR_OK);
    r->said.position = b->ops->before(b, r->name, c) + 1;
    r->said.left = left;
    if (st->keeps && rules_acquire_is_first(b, r->name, c)) {
        rules_acquire_ask_back(b, r->name);
    }
}

/* Does another live reader wait ahead of `me` to become the writer? This can be
 * so even for a waiter: while it was unresponsive, another may have taken its
 * position at the head of the queue. */
static bool rules_acquire_upgrade_ahead(struct snib__book *b,
                                        const struct snib__name *name,
                                        const struct snib__stored_claim *me)
{
    SNIB__UNSET struct snib__stored_claim c, after;
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

/* Refuse at once, before it waits, a request that can never be granted. size:
 * of the semaphore, once the request is let in; -1: it has none. */
static bool rules_acquire_refuse(struct snib__book *b, struct snib__request *r,
                                 struct snib__stored_claim *me, int64_t size)
{
    if (me->kind == SNIB_KIND_PERMITS && size < 0) {
        snib__refuse_no_size(r);
    } else if (me->kind == SNIB_KIND_PERMITS && (int64_t)me->permits > size) {
        snib__refuse_too_many(r, size);
    } else if (snib__is_id(me->upgrade_of) &&
               !snib__rules_stands(b, r->name, me->upgrade_of)) {
        snib__refuse_upgrade_over(r);
    } else if (snib__is_id(me->upgrade_of) && snib__rules_excludes(me) &&
               rules_acquire_upgrade_ahead(b, r->name, me)) {
        snib__refuse_second_upgrade(r);
    } else {
        return false;
    }
    if (me->id) {
        b->ops->remove(b, r->name, me);
    }
    return true;
}

static void rules_acquire_newcomer(const struct snib__book *b,
                                   const struct snib__request *r,
                                   struct snib__stored_claim *ret)
{
    *ret = (struct snib__stored_claim){
        .request = {r->id[0], r->id[1]},
        .client = {b->client[0], b->client[1]},
        .kind = r->acquire.kind,
        .permits = r->acquire.permits || r->acquire.kind == SNIB_KIND_PERMITS
                       ? r->acquire.permits
                       : 1,
        .reserve = r->acquire.reserve > SNIB__RESERVE_MAX ? SNIB__RESERVE_MAX
                                                          : r->acquire.reserve,
        .keep_ms = r->acquire.keep_ms,
        .floor = r->floor,
        .rank = -r->acquire.priority,
        .upgrade_of = {r->acquire.upgrade_of[0], r->acquire.upgrade_of[1]},
        .lease = r->lease,
        .delay = r->acquire.delay,
        .since = b->now,
    };
    if (snib__is_id(ret->upgrade_of)) {
        ret->rank = INT8_MIN;
    }
}

/* The request has the claim *me already. True: that is its answer. Else *me is
 * what goes on: the claim, which waits, or a new one in place of a grant that
 * is over. */
static bool rules_acquire_again(struct snib__book *b, struct snib__request *r,
                                struct snib__stored_claim *me)
{
    switch ((enum snib__stored_state)me->state) {
    case SNIB__TOMBSTONE: /* a late copy of a cancelled request */
        snib__rules_answer(r, SNIB__NO, SNIB_ERR_CANCELLED);
        return true;
    case SNIB__REVOKED:
        snib__rules_revoked(r, me);
        return true;
    case SNIB__WAITS:
    case SNIB__UNRESPONSIVE:
        /* The poll is a sign of life: it counts before anybody is judged. */
        me->state = SNIB__WAITS;
        me->until = snib__after(b->now, snib__ms(SNIB__ALIVE_MS));
        b->ops->change(b, r->name, me);
        return false;
    case SNIB__HOLDS:
    case SNIB__SHARES:
        if (!snib__reached(b->now, me->until)) {
            snib__rules_rearm(b, r, me);
            snib__rules_settle(b, r->name);
            return true;
        }
        if (!snib__rules_is_over(b, me)) {
            /* The lease is over but the lock-delay runs: the client must ask
             * with a new id. */
            snib__rules_answer(r, SNIB__NO, SNIB_ERR_CANCELLED);
            return true;
        }
        snib__rules_drop(b, r->name, me);
        rules_acquire_newcomer(b, r, me);
        return false;
    }
    return false;
}

/* Does anybody wait, be it that he does not poll just now? */
static bool rules_acquire_any_waits(struct snib__book *b,
                                    const struct snib__name *name)
{
    SNIB__UNSET struct snib__stored_claim c;
    return b->ops->next(b, name, SNIB__WAITS, NULL, &c) ||
           b->ops->next(b, name, SNIB__UNRESPONSIVE, NULL, &c);
}

static void rules_acquire_enter(struct snib__book *b, struct snib__request *r,
                                struct snib__stored_claim *me, uint32_t slot,
                                int64_t *shared)
{
    me->slot = slot;
    snib__rules_hold(b, r->name, me, r->lease, shared);
    if (b->err) {
        return;
    }
    if (me->id) {
        b->ops->change(b, r->name, me);
    } else {
        b->ops->add(b, r->name, me, r->text, r->text_size);
    }
    snib__rules_granted(r, me, b->sent, r->lease);
    r->said.alone = me->keep_ms && !rules_acquire_any_waits(b, r->name);
}

/* Grant it what it asks for, or queue it, or refuse it; and grant to others on
 * the way. */
static void rules_acquire_judge(struct snib__book *b, struct snib__request *r,
                                struct snib__stored_claim *me)
{
    struct snib__standing st;
    int64_t shared = 0;
    snib__rules_survey(b, r->name, r, &st);
    bool sets_size = me->kind == SNIB_KIND_PERMITS && st.params.size < 0 &&
                     r->acquire.capacity;
    int64_t size = sets_size ? (int64_t)r->acquire.capacity : st.params.size;
    if (rules_acquire_refuse(b, r, me, size)) {
        snib__rules_walk(b, r->name, &st, NULL, false, &shared);
        return;
    }
    if (sets_size) {
        st.params.size = size;
        b->ops->set_params(b, r->name, &st.params);
    }
    if (me->permits == 0 && st.params.size > st.permits) {
        /* 0 permits means all that are left */
        me->permits = (uint32_t)(st.params.size - st.permits);
    }
    /* Where none is left nobody is let in for this request, but the others in
     * the queue are served all the same. */
    bool mine = snib__rules_walk(b, r->name, &st, me->permits ? me : NULL,
                                 r->acquire.may_queue, &shared);
    if (b->err) {
        return;
    }
    if (mine) {
        rules_acquire_enter(b, r, me, st.slot, &shared);
    } else {
        rules_acquire_wait(b, r, me, &st);
    }
}

void snib__rules_acquire(struct snib__book *b, struct snib__request *r)
{
    SNIB__UNSET struct snib__stored_claim me;
    if (!rules_acquire_floor_is_sane(b, r)) {
        r->said.answer = SNIB__NOT_APPLIED;
        r->said.err = snib__fail(r->said.reterr, SNIB_ERR_USAGE,
                                 "token floor %lld is more than a day ahead",
                                 (long long)r->floor);
        return;
    }
    snib__rules_end_prior(b, r);
    if (!b->ops->find(b, r->name, r->id, &me)) {
        rules_acquire_newcomer(b, r, &me);
    } else if (rules_acquire_again(b, r, &me)) {
        return;
    }
    rules_acquire_judge(b, r, &me);
}

bool snib__rules_answer_if_granted(snib_instant now,
                                   const struct snib__stored_claim *c,
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
    snib__rules_granted(r, c, from, snib__between(from, c->until));
    return true;
}
