/* store/memory/claims.c — settle, acquire, renew, release, cancel, force.
 *
 * States of a claim, and what moves it:
 *
 *   (none) --acquire, fits----------------------> HOLDS
 *   (none) --acquire, does not, may queue-------> WAITS
 *   WAITS  --settle, alive, fits in its turn----> HOLDS (claim lease C)
 *   WAITS  --settle, first and silent-----------> DEAF
 *   WAITS, DEAF --its own poll------------------> WAITS, same rank
 *   HOLDS  --acquire again, renew---------------> HOLDS, lease from now
 *   HOLDS  --until passed, release, cancel------> (none)
 *   HOLDS  --force------------------------------> REVOKED
 *   WAITS, DEAF --cancel------------------------> (none)
 *   (none) --cancel; release or cancel, re-sent-> TOMB
 *   TOMB, DEAF, REVOKED --until passed----------> (none)
 *
 * HOLDS stands for SHARES, too, where a reader or permits are asked for.
 *
 * Forbidden: an exclusive grant beside any other, or any beside an exclusive
 * one, of another owner; more permits than the size; an exclusive token that
 * does not rise; a grant to a newcomer while a live waiter exists that does
 * not fit; renew or release touching a claim whose id *and* token are not the
 * caller's. */
#include "store/memory/claims.h"

#include <string.h>

#include "base/error.h"
#include "core/refuse.h"

static bool same_id(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

static snib_duration claim_lease(snib_duration lease)
{
    snib_duration c = snib__ms(SNIB__CLAIM_LEASE_MS);
    return lease.ns < c.ns ? lease : c;
}

/* token = max(last + 1, unix ms * 1024, floor + 1), H19 to H22. `last`
 * includes the room of the grant before. */
static int64_t next_token(struct snib__book *b, const struct snib__name *name,
                          int64_t floor, uint32_t room)
{
    int64_t t = b->ops->token(b, name) + 1;
    if (t < b->wall_ms * 1024) {
        t = b->wall_ms * 1024;
    }
    if (t < floor + 1) {
        t = floor + 1;
    }
    if (t >= SNIB__TOKEN_END - SNIB__ROOM_MAX) {
        b->err = SNIB_ERR_CONFIG;
    } else {
        b->ops->set_token(b, name, t + room);
    }
    return t;
}

/* A floor from nowhere must not carry the tokens off to the end of their
 * range (H20): at most a day ahead of the clock or of what this store has
 * given out itself (a clock that was set back is not the caller's fault). */
static bool floor_is_sane(struct snib__book *b, const struct snib__request *r)
{
    int64_t day = INT64_C(86400000) * 1024;
    if (r->floor <= b->wall_ms * 1024 + day) {
        return true;
    }
    return r->floor <= b->ops->highest(b) + day;
}

/* -- who may hold --------------------------------------------------------- */

static bool is_exclusive(const struct snib__claim *c)
{
    return c->kind == SNIB_MUTEX || c->kind == SNIB_WRITE;
}

static bool is_id(const uint64_t id[2])
{
    return id[0] || id[1];
}

/* Who holds a name, as far as it matters to others. */
struct standing {
    struct snib__terms terms;
    uint32_t count;     /* of holders                                        */
    int64_t permits;    /* in use                                            */
    bool sole;          /* an exclusive one is among them:                   */
    uint64_t holder[2]; /* this request                                      */
    bool blocked;       /* a live waiter did not fit                         */
    snib_instant till;  /* the earliest end; NEVER: nobody holds             */
};

static void occupy(struct standing *st, const struct snib__claim *c)
{
    st->count++;
    st->till = snib__sooner(st->till, snib__after(c->until, c->delay));
    if (is_exclusive(c)) {
        st->sole = true;
        st->holder[0] = c->request[0];
        st->holder[1] = c->request[1];
    } else if (c->kind == SNIB_PERMITS) {
        st->permits += c->permits;
    }
}

static void drop_holder(struct snib__book *b, const struct snib__name *name,
                        const struct snib__claim *c)
{
    b->ops->remove(b, name, c);
    if (c->state == SNIB__SHARES) {
        b->ops->share(b, name, -1);
    }
}

/* The lock-delay keeps others out after the end of a lease; the owner has
 * lost it all the same. */
static bool is_over(const struct snib__book *b, const struct snib__claim *c)
{
    return snib__reached(b->now, snib__after(c->until, c->delay));
}

/* Drop dead holders, count the others. `look`: also those whose process has
 * ended. */
static void survey(struct snib__book *b, const struct snib__name *name,
                   const struct snib__request *look, struct standing *ret)
{
    static const int states[] = {SNIB__HOLDS, SNIB__SHARES};
    *ret = (struct standing){.till = SNIB__NEVER};
    b->ops->terms(b, name, &ret->terms);
    for (int i = 0; i < 2; i++) {
        struct snib__claim c, after;
        const struct snib__claim *from = NULL;
        while (!b->err && b->ops->next(b, name, states[i], from, &c)) {
            bool over = is_over(b, &c);
            if (!over && look && c.delay.ns == 0 &&
                !same_id(c.request, look->id)) {
                over = b->ops->gone(b, &c);
            }
            if (over) {
                drop_holder(b, name, &c);
            } else {
                occupy(ret, &c);
            }
            if (i == 0 && !over) {
                break; /* there is but one */
            }
            after = c;
            from = i == 0 ? NULL : &after;
        }
    }
}

/* Does this grant stand? */
static bool stands(struct snib__book *b, const struct snib__name *name,
                   const uint64_t request[2])
{
    struct snib__claim c;
    return b->ops->find(b, name, request, &c) && snib__claim_holds(&c) &&
           !snib__reached(b->now, c.until);
}

/* An exclusive request wants nobody else; a reader wants nobody exclusive;
 * permits want nobody exclusive and enough of the size to be free. A grant of
 * the same owner, named by `beside`, does not count. */
static bool fits(struct snib__book *b, const struct snib__name *name,
                 const struct standing *st, const struct snib__claim *c)
{
    if (st->terms.gate > 0) {
        return false;
    }
    if (c->kind == SNIB_PERMITS &&
        st->permits + (int64_t)c->permits > st->terms.size) {
        return false;
    }
    if (st->count == 0) {
        return true;
    }
    if (is_exclusive(c)) {
        return st->count == 1 && is_id(c->beside) && stands(b, name, c->beside);
    }
    return !st->sole || same_id(st->holder, c->beside);
}

/* -- granting ---------------------------------------------------------------- */

/* shared: the token of those who are granted together; 0: none yet. */
static void hold(struct snib__book *b, const struct snib__name *name,
                 struct snib__claim *c, snib_duration lease, int64_t *shared)
{
    int64_t last = b->ops->token(b, name);
    c->state = is_exclusive(c) ? SNIB__HOLDS : SNIB__SHARES;
    if (shared && *shared) {
        c->token = *shared;
    } else if (c->kind == SNIB_READ && last > 0) {
        c->token = last; /* the era of the last exclusive grant */
        b->ops->set_token(b, name, last);
    } else {
        c->token = next_token(b, name, c->floor, c->room);
    }
    if (shared) {
        *shared = c->token;
    }
    c->until = snib__after(b->now, lease);
    if (c->state == SNIB__SHARES && !b->err) {
        b->ops->share(b, name, 1);
    }
}

static void push(struct snib__book *b, const struct snib__name *name,
                 struct standing *st, struct snib__claim *c, int64_t *shared)
{
    hold(b, name, c, claim_lease(c->lease), shared);
    if (b->err) {
        return;
    }
    b->ops->change(b, name, c);
    occupy(st, c);
    if (!b->asker || !same_id(b->asker->id, c->request)) {
        b->ops->granted(b, name, c);
    }
}

/* Not seen lately. A party of a barrier must be alive now: the others pass on
 * the strength of it, and no later grant makes up for one that was dead. */
static bool is_missing(struct snib__book *b, const struct snib__claim *c)
{
    return snib__reached(b->now, c->until) ||
           (c->kind == SNIB_BARRIER && b->ops->gone(b, c));
}

/* A waiter that is missing steps aside and keeps its rank (H07). */
static bool is_deaf(struct snib__book *b, const struct snib__name *name,
                    struct snib__claim *c)
{
    if (!is_missing(b, c)) {
        return false;
    }
    c->state = SNIB__DEAF;
    c->until = snib__after(b->now, snib__ms(SNIB__ASIDE_MS));
    b->ops->change(b, name, c);
    return true;
}

/* It can never be served: it hears of that when it asks again. */
static bool is_lost(struct snib__book *b, const struct snib__name *name,
                    const struct standing *st, const struct snib__claim *c)
{
    return (c->kind == SNIB_PERMITS && (int64_t)c->permits > st->terms.size) ||
           (is_id(c->beside) && !stands(b, name, c->beside));
}

/* The parties of a barrier that stand one after the other from `c` on, up to
 * as many as it wants; me: a newcomer that would stand behind them, or NULL. */
static bool is_complete(struct snib__book *b, const struct snib__name *name,
                        const struct snib__claim *c,
                        const struct snib__claim *me)
{
    struct snib__claim at = *c, next;
    uint32_t n = 1;
    while (n < c->permits && b->ops->next(b, name, SNIB__WAITS, &at, &next)) {
        if (is_missing(b, &next)) {
            at = next;
            continue;
        }
        if (next.kind != SNIB_BARRIER || next.permits != c->permits) {
            return false;
        }
        n++;
        at = next;
    }
    return n + (me != NULL) >= c->permits;
}

/* Grant the name to whom it fits, in order. me: the claim of the asker, which
 * is not granted here but told by true (NULL: none); one that has no place in
 * the queue (id 0) stands behind those of its class (a barrier's party behind
 * all), or before them when it has a grant beside. stays: it will wait; one
 * that will not keeps nobody else waiting. */
static bool walk(struct snib__book *b, const struct snib__name *name,
                 struct standing *st, const struct snib__claim *me, bool stays,
                 int64_t *ret_shared)
{
    struct snib__claim c, after;
    const struct snib__claim *from = NULL;
    const struct snib__claim *tail = me && !me->id ? me : NULL;
    bool aside = false, mine = false;
    uint32_t group = 0; /* of a complete barrier, still to be granted */
    int64_t shared = 0;
    if (me && is_id(me->beside) && fits(b, name, st, me)) {
        occupy(st, me);
        return true;
    }
    while (!b->err && !st->sole && st->terms.gate == 0 &&
           b->ops->next(b, name, SNIB__WAITS, from, &c)) {
        after = c;
        from = &after;
        bool is_me = me && me->id == c.id;
        if (tail && tail->kind != SNIB_BARRIER && tail->rank < c.rank) {
            mine = fits(b, name, st, tail);
            if (mine) {
                occupy(st, tail);
            } else if (stays) {
                st->blocked = true;
                break;
            }
            tail = NULL;
        }
        if (!is_me && (is_deaf(b, name, &c) || is_lost(b, name, st, &c))) {
            aside = true;
            continue;
        }
        bool ok = fits(b, name, st, &c);
        if (ok && c.kind == SNIB_BARRIER && group == 0) {
            ok = is_complete(b, name, &c,
                             tail && tail->kind == c.kind &&
                                     tail->permits == c.permits
                                 ? tail
                                 : NULL);
            group = ok ? c.permits : 0;
            shared = 0;
        } else if (c.kind != SNIB_BARRIER) {
            shared = 0;
        }
        if (!ok) {
            st->blocked = true;
            break;
        }
        int64_t *together = c.kind == SNIB_BARRIER ? &shared : NULL;
        if (is_me) {
            mine = true;
            occupy(st, &c);
            if (together && !*together) {
                *together = next_token(b, name, c.floor, 0);
            }
            *ret_shared = together ? *together : 0;
        } else {
            push(b, name, st, &c, together);
        }
        group -= group > 0;
    }
    if (tail && !st->blocked && !is_id(tail->beside) &&
        fits(b, name, st, tail) &&
        (tail->kind != SNIB_BARRIER || group == 1 || tail->permits == 1)) {
        mine = true;
        occupy(st, tail);
        *ret_shared = group == 1 ? shared : 0;
    }
    if (aside) {
        b->ops->sweep(b);
    }
    return mine;
}

/* After this nobody waits whom the name fits. */
static void settle(struct snib__book *b, const struct snib__name *name)
{
    struct standing st;
    int64_t none;
    survey(b, name, NULL, &st);
    walk(b, name, &st, NULL, false, &none);
}

/* done: what a repeat of a TERMS is to be told. */
static void tomb(struct snib__book *b, const struct snib__request *r, bool done)
{
    struct snib__claim c = {
        .request = {r->id[0], r->id[1]},
        .client = {b->client[0], b->client[1]},
        .state = SNIB__TOMB,
        .kind = r->kind,
        .permits = done,
        .until = snib__after(b->now, snib__ms(SNIB__TOMB_MS)),
    };
    b->ops->sweep(b);
    b->ops->add(b, r->name, &c, NULL, 0);
}

/* `prior`: our own earlier grant on this name, ended in the same step. */
static void end_prior(struct snib__book *b, const struct snib__request *r)
{
    struct snib__claim c;
    if (r->token && b->ops->next(b, r->name, SNIB__HOLDS, NULL, &c) &&
        same_id(c.client, b->client) && c.token == r->token &&
        !same_id(c.request, r->id)) {
        b->ops->remove(b, r->name, &c);
    }
}

/* -- answers ---------------------------------------------------------------- */

static void answer(struct snib__request *r, snib__answer a, snib_err err)
{
    r->answer = a;
    r->err = err;
    if (err) {
        snib__fail_plain(r->reterr, err);
    } else {
        snib__ok(r->reterr);
    }
}

static void done_grant(struct snib__request *r, const struct snib__claim *c,
                       snib_instant from, snib_duration left)
{
    answer(r, SNIB__DONE, SNIB_ERR_OK);
    r->token = c->token;
    r->room = c->room;
    r->permits = c->permits;
    r->valid_from = from;
    r->left = left;
}

static void no_revoked(struct snib__request *r, const struct snib__claim *c)
{
    r->answer = SNIB__NO;
    r->revoked = true;
    r->err =
        snib__fail(r->reterr, SNIB_ERR_LOST, "force-released: %s", c->note);
}

/* -- verbs ------------------------------------------------------------------- */

static void rearm(struct snib__book *b, struct snib__request *r,
                  struct snib__claim *c)
{
    /* The repeat of a grant that still stands re-arms the lease, so that the
     * deadline may count from this very execution (H13). */
    c->lease = r->lease;
    c->until = snib__after(b->now, r->lease);
    b->ops->change(b, r->name, c);
    done_grant(r, c, b->now, r->lease);
}

static void wait_turn(struct snib__book *b, struct snib__request *r,
                      struct snib__claim *c, const struct standing *st)
{
    snib_duration left = {-1}; /* not known: nobody holds it */
    if (st->till.ns != SNIB__NEVER.ns) {
        left = snib__between(b->now, st->till);
    }
    if (!r->may_queue || c->permits == 0) {
        if (c->id) {
            b->ops->remove(b, r->name, c);
        }
        answer(r, SNIB__NO, SNIB_ERR_BUSY);
        r->left = left;
        return;
    }
    c->state = SNIB__WAITS;
    c->until = snib__after(b->now, snib__ms(SNIB__ALIVE_MS));
    if (!c->id) {
        b->ops->add(b, r->name, c, r->text, r->text_size);
    }
    answer(r, SNIB__QUEUED, SNIB_ERR_OK);
    r->position = b->ops->before(b, r->name, c) + 1;
    r->left = left;
}

/* Does another reader, who lives, wait before this one to become the writer?
 * One that was deaf and comes back may meet another in its place. */
static bool upgrade_ahead(struct snib__book *b, const struct snib__name *name,
                          const struct snib__claim *me)
{
    struct snib__claim c, after;
    const struct snib__claim *from = NULL;
    while (b->ops->next(b, name, SNIB__WAITS, from, &c) && is_id(c.beside) &&
           !(me->id && c.id == me->id)) {
        if (!snib__reached(b->now, c.until) && stands(b, name, c.beside)) {
            return true;
        }
        after = c;
        from = &after;
    }
    return false;
}

/* What can never be granted is refused at once, before it waits. */
static bool refuse(struct snib__book *b, struct snib__request *r,
                   struct snib__claim *me, struct standing *st)
{
    if (me->kind == SNIB_PERMITS && st->terms.size < 0 && r->capacity) {
        st->terms.size = r->capacity;
        b->ops->set_terms(b, r->name, &st->terms);
    }
    if (me->kind == SNIB_PERMITS && st->terms.size < 0) {
        snib__refuse_no_size(r);
    } else if (me->kind == SNIB_PERMITS &&
               (int64_t)me->permits > st->terms.size) {
        snib__refuse_too_many(r, st->terms.size);
    } else if (is_id(me->beside) && !stands(b, r->name, me->beside)) {
        snib__refuse_beside_over(r);
    } else if (is_id(me->beside) && is_exclusive(me) &&
               upgrade_ahead(b, r->name, me)) {
        snib__refuse_second_upgrade(r);
    } else {
        return false;
    }
    if (me->id) {
        b->ops->remove(b, r->name, me);
    }
    return true;
}

static struct snib__claim newcomer(const struct snib__book *b,
                                   const struct snib__request *r)
{
    struct snib__claim c = {
        .request = {r->id[0], r->id[1]},
        .client = {b->client[0], b->client[1]},
        .kind = r->kind,
        .permits = r->permits || r->kind == SNIB_PERMITS ? r->permits : 1,
        .room = r->room > SNIB__ROOM_MAX ? SNIB__ROOM_MAX : r->room,
        .floor = r->floor,
        .rank = -r->rank,
        .beside = {r->beside[0], r->beside[1]},
        .lease = r->lease,
        .delay = r->delay,
    };
    if (is_id(c.beside)) {
        c.rank = INT8_MIN;
    }
    return c;
}

static void acquire(struct snib__book *b, struct snib__request *r)
{
    struct snib__claim me;
    struct standing st;
    int64_t shared = 0;
    if (!floor_is_sane(b, r)) {
        r->answer = SNIB__NOT_APPLIED;
        r->err = snib__fail(r->reterr, SNIB_ERR_USAGE,
                            "token floor %lld is more than a day ahead",
                            (long long)r->floor);
        return;
    }
    end_prior(b, r);
    if (b->ops->find(b, r->name, r->id, &me)) {
        switch ((enum snib__claim_state)me.state) {
        case SNIB__TOMB: /* a late copy of what was cancelled, H12 */
            answer(r, SNIB__NO, SNIB_ERR_CANCELLED);
            return;
        case SNIB__REVOKED:
            no_revoked(r, &me);
            return;
        case SNIB__WAITS:
        case SNIB__DEAF: /* a sign of life, before anybody is judged */
            me.state = SNIB__WAITS;
            me.until = snib__after(b->now, snib__ms(SNIB__ALIVE_MS));
            b->ops->change(b, r->name, &me);
            break;
        case SNIB__HOLDS:
        case SNIB__SHARES:
            if (!snib__reached(b->now, me.until)) {
                rearm(b, r, &me);
                settle(b, r->name);
                return;
            }
            if (!is_over(b, &me)) { /* its lock-delay runs: ask anew */
                answer(r, SNIB__NO, SNIB_ERR_CANCELLED);
                return;
            }
            drop_holder(b, r->name, &me);
            me = newcomer(b, r);
            break;
        }
    } else {
        me = newcomer(b, r);
    }
    survey(b, r->name, r, &st);
    if (refuse(b, r, &me, &st)) {
        walk(b, r->name, &st, NULL, false, &shared);
        return;
    }
    if (me.permits == 0 && st.terms.size > st.permits) { /* all that are left */
        me.permits = (uint32_t)(st.terms.size - st.permits);
    }
    bool mine =
        me.permits > 0 && walk(b, r->name, &st, &me, r->may_queue, &shared);
    if (b->err) {
        return;
    }
    if (!mine) {
        wait_turn(b, r, &me, &st);
        return;
    }
    hold(b, r->name, &me, r->lease, &shared);
    if (b->err) {
        return;
    }
    if (me.id) {
        b->ops->change(b, r->name, &me);
    } else {
        b->ops->add(b, r->name, &me, r->text, r->text_size);
    }
    done_grant(r, &me, b->now, r->lease);
}

/* This request's grant with this token, if it stands. */
static bool own(struct snib__book *b, const struct snib__request *r,
                struct snib__claim *ret)
{
    return b->ops->find(b, r->name, r->id, ret) && snib__claim_holds(ret) &&
           ret->token == r->token && !snib__reached(b->now, ret->until);
}

static void renew(struct snib__book *b, struct snib__request *r)
{
    struct snib__claim c;
    /* Compare id and token, never create (H15). */
    if (own(b, r, &c)) {
        rearm(b, r, &c);
        return;
    }
    settle(b, r->name);
    if (b->ops->find(b, r->name, r->id, &c) && c.state == SNIB__REVOKED) {
        no_revoked(r, &c);
        return;
    }
    answer(r, SNIB__NO, SNIB_ERR_LOST);
}

static void release(struct snib__book *b, struct snib__request *r)
{
    struct snib__claim c;
    if (own(b, r, &c)) {
        drop_holder(b, r->name, &c);
        if (r->resent) {
            tomb(b, r, true);
        }
        settle(b, r->name);
        answer(r, SNIB__DONE, SNIB_ERR_OK);
        return;
    }
    settle(b, r->name);
    if (!b->ops->find(b, r->name, r->id, &c)) {
        if (r->resent) {
            tomb(b, r, true);
        }
    } else if (c.state == SNIB__TOMB) { /* an earlier copy did it */
        answer(r, SNIB__DONE, SNIB_ERR_OK);
        return;
    } else if (c.state == SNIB__REVOKED) {
        no_revoked(r, &c);
        return;
    }
    answer(r, SNIB__NO, SNIB_ERR_LOST);
}

static void cancel(struct snib__book *b, struct snib__request *r)
{
    struct snib__claim c;
    bool leave_tomb = true;
    end_prior(b, r);
    if (b->ops->find(b, r->name, r->id, &c)) {
        leave_tomb = r->resent && c.state != SNIB__TOMB;
        if (snib__claim_holds(&c)) {
            drop_holder(b, r->name, &c);
        } else if (c.state != SNIB__TOMB) {
            b->ops->remove(b, r->name, &c);
        }
    }
    if (leave_tomb) {
        tomb(b, r, true);
    }
    settle(b, r->name);
    answer(r, SNIB__DONE, SNIB_ERR_OK);
}

static void force(struct snib__book *b, struct snib__request *r)
{
    struct snib__claim c;
    uint32_t count = 0;
    /* Only who holds now: a waiter that settle would let in first is not whom
     * the operator saw. */
    while (!b->err && (b->ops->next(b, r->name, SNIB__HOLDS, NULL, &c) ||
                       b->ops->next(b, r->name, SNIB__SHARES, NULL, &c))) {
        if (is_over(b, &c)) {
            drop_holder(b, r->name, &c);
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
        c.state = SNIB__REVOKED;
        c.until = snib__after(c.until, snib__ms(SNIB__TOMB_MS));
        b->ops->change(b, r->name, &c);
        b->ops->granted(b, r->name, &c); /* no longer: it asks, and hears */
        count++;
    }
    b->ops->sweep(b);
    settle(b, r->name);
    answer(r, SNIB__DONE, SNIB_ERR_OK);
    r->position = count; /* the caller writes the row once it is durable */
}

/* True when the terms are others now. */
static bool apply(struct snib__request *r, struct snib__terms *t, bool *ret_no)
{
    const struct snib__terms old = *t;
    *ret_no = false;
    switch ((snib__terms_op)r->op) {
    case SNIB__TERMS_GET:
        break;
    case SNIB__TERMS_SIZE:
        t->size = r->amount;
        break;
    case SNIB__TERMS_INIT:
        *ret_no = t->size >= 0;
        t->size = *ret_no ? t->size : r->amount;
        break;
    case SNIB__TERMS_ADD:
        t->size += r->amount;
        break;
    case SNIB__TERMS_GATE:
        *ret_no = t->gate > 0;
        t->gate = *ret_no ? t->gate : r->amount;
        break;
    case SNIB__TERMS_DOWN:
        *ret_no = t->gate == 0;
        t->gate = t->gate > r->amount ? t->gate - r->amount : 0;
        break;
    case SNIB__TERMS_OPEN:
        t->gate = 0;
        break;
    }
    return t->size != old.size || t->gate != old.gate;
}

/* The answer's row is written once the step is durable: what goes into it is
 * kept in fields that this verb has no other use for. */
static void terms(struct snib__book *b, struct snib__request *r)
{
    struct snib__claim c;
    struct standing st;
    int64_t none;
    bool no = false;
    bool repeat = b->ops->find(b, r->name, r->id, &c) && c.state == SNIB__TOMB;
    survey(b, r->name, NULL, &st);
    if (r->op == SNIB__TERMS_ADD && !repeat) {
        int64_t size = st.terms.size + r->amount;
        if (st.terms.size < 0) {
            snib__refuse_no_size(r);
            return;
        }
        if (size < 0 || size > SNIB_PERMITS_MAX) {
            snib__refuse_size(r, st.terms.size);
            return;
        }
    }
    if (repeat) {
        no = c.permits == 0;
    } else if (apply(r, &st.terms, &no)) {
        b->ops->set_terms(b, r->name, &st.terms);
        walk(b, r->name, &st, NULL, false, &none);
    }
    if (!repeat && r->op != SNIB__TERMS_GET) {
        tomb(b, r, !no);
    }
    const struct snib__claim end = {.rank = INT8_MAX, .id = INT64_MAX};
    r->token = st.terms.size;
    r->floor = st.terms.gate;
    r->permits = (uint32_t)st.permits;
    r->room = b->ops->before(b, r->name, &end);
    r->position = !no;
    answer(r, SNIB__DONE, SNIB_ERR_OK);
}

void snib__claims_run(struct snib__book *b, struct snib__request *r)
{
    b->asker = r;
    r->revoked = false;
    switch (r->verb) {
    case SNIB__ACQUIRE:
        acquire(b, r);
        break;
    case SNIB__RENEW:
        renew(b, r);
        break;
    case SNIB__RELEASE:
        release(b, r);
        break;
    case SNIB__CANCEL:
        cancel(b, r);
        break;
    case SNIB__FORCE:
        force(b, r);
        break;
    case SNIB__TERMS:
        terms(b, r);
        break;
    case SNIB__INSPECT:
    case SNIB__LIST:
    case SNIB__DOCTOR:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
        answer(r, SNIB__NOT_APPLIED, SNIB_ERR_INTERNAL);
        break;
    }
    b->asker = NULL;
}

bool snib__claims_end(struct snib__book *b, const struct snib__name *name,
                      const uint64_t request[2], int64_t token)
{
    struct snib__claim c;
    bool there = b->ops->find(b, name, request, &c) && snib__claim_holds(&c) &&
                 c.token == token;
    if (there) {
        drop_holder(b, name, &c);
    }
    settle(b, name);
    return there;
}

void snib__claims_clear(struct snib__book *b, const struct snib__name *name)
{
    struct snib__claim c;
    while (!b->err && (b->ops->next(b, name, SNIB__HOLDS, NULL, &c) ||
                       b->ops->next(b, name, SNIB__SHARES, NULL, &c))) {
        drop_holder(b, name, &c);
    }
}

snib_err snib__claims_put(struct snib__book *b, const struct snib__name *name,
                          struct snib__claim *c)
{
    hold(b, name, c, c->lease, NULL);
    if (!b->err) {
        b->ops->add(b, name, c, NULL, 0);
    }
    return b->err;
}

bool snib__claims_look(snib_instant now, const struct snib__claim *c,
                       struct snib__request *r)
{
    snib_duration given = claim_lease(c->lease);
    if (!snib__claim_holds(c) ||
        snib__between(now, c->until).ns < given.ns / 2) {
        return false;
    }
    /* The grant was at until - C; a row that was re-armed since ends later,
     * and then its lease is counted from now. */
    snib_instant from = snib__sooner(snib__before(c->until, given), now);
    done_grant(r, c, from, snib__between(from, c->until));
    return true;
}
