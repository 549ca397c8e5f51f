/* store/memory/claims.c — settle, acquire, renew, release, cancel, force.
 *
 * States of a claim, and what moves it:
 *
 *   (none) --acquire, free----------------------> HOLDS
 *   (none) --acquire, taken, may queue----------> WAITS
 *   WAITS  --settle, first and alive------------> HOLDS (claim lease C)
 *   WAITS  --settle, first and silent-----------> DEAF
 *   WAITS, DEAF --its own poll------------------> WAITS, same rank
 *   HOLDS  --acquire again, renew---------------> HOLDS, lease from now
 *   HOLDS  --until passed, release, cancel------> (none)
 *   HOLDS  --force------------------------------> REVOKED
 *   WAITS, DEAF --cancel------------------------> (none)
 *   (none) --cancel; release or cancel, re-sent-> TOMB
 *   TOMB, DEAF, REVOKED --until passed----------> (none)
 *
 * Forbidden: granting while a HOLDS claim's until is ahead; a token that does
 * not rise; a grant to a newcomer while a live waiter exists; renew or
 * release touching a claim whose id *and* token are not the caller's. */
#include "store/memory/claims.h"

#include <string.h>

#include "base/error.h"

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

static void hold(struct snib__book *b, const struct snib__name *name,
                 struct snib__claim *c, snib_duration lease)
{
    c->state = SNIB__HOLDS;
    c->token = next_token(b, name, c->floor, c->room);
    c->until = snib__after(b->now, lease);
}

/* The name is free: the first live waiter gets it. Waiters that have not
 * polled step aside on the way, each once (H07). */
static bool grant_head(struct snib__book *b, const struct snib__name *name,
                       struct snib__claim *ret)
{
    bool aside = false, found = false;
    while (!b->err && b->ops->first(b, name, SNIB__WAITS, ret)) {
        if (!snib__reached(b->now, ret->until)) {
            found = true;
            break;
        }
        ret->state = SNIB__DEAF;
        ret->until = snib__after(b->now, snib__ms(SNIB__ASIDE_MS));
        b->ops->change(b, name, ret);
        aside = true;
    }
    if (aside) {
        b->ops->sweep(b);
    }
    if (!found) {
        return false;
    }
    hold(b, name, ret, claim_lease(ret->lease));
    if (b->err) {
        return false;
    }
    b->ops->change(b, name, ret);
    if (!b->asker || !same_id(b->asker->id, ret->request)) {
        b->ops->granted(b, name, ret);
    }
    return true;
}

/* After this the name has a live holder (true, ret), or is free and nobody
 * alive waits. */
static bool settle(struct snib__book *b, const struct snib__name *name,
                   struct snib__claim *ret)
{
    while (!b->err && b->ops->first(b, name, SNIB__HOLDS, ret)) {
        if (!snib__reached(b->now, ret->until)) {
            return true;
        }
        b->ops->remove(b, name, ret);
    }
    return grant_head(b, name, ret);
}

static void tomb(struct snib__book *b, const struct snib__request *r)
{
    struct snib__claim c = {
        .request = {r->id[0], r->id[1]},
        .client = {b->client[0], b->client[1]},
        .state = SNIB__TOMB,
        .kind = r->kind,
        .until = snib__after(b->now, snib__ms(SNIB__TOMB_MS)),
    };
    b->ops->sweep(b);
    b->ops->add(b, r->name, &c, NULL, 0);
}

/* `prior`: our own earlier grant on this name, ended in the same step. */
static void end_prior(struct snib__book *b, const struct snib__request *r)
{
    struct snib__claim c;
    if (r->token && b->ops->first(b, r->name, SNIB__HOLDS, &c) &&
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

static void grant_new(struct snib__book *b, struct snib__request *r,
                      struct snib__claim *c)
{
    hold(b, r->name, c, r->lease);
    if (b->err) {
        return;
    }
    b->ops->add(b, r->name, c, r->text, r->text_size);
    done_grant(r, c, b->now, r->lease);
}

static void wait_turn(struct snib__book *b, struct snib__request *r,
                      struct snib__claim *c, const struct snib__claim *holder)
{
    if (!r->may_queue) {
        if (c->id) {
            b->ops->remove(b, r->name, c);
        }
        answer(r, SNIB__NO, SNIB_ERR_BUSY);
        r->left = snib__between(b->now, holder->until);
        return;
    }
    c->state = SNIB__WAITS;
    c->until = snib__after(b->now, snib__ms(SNIB__ALIVE_MS));
    if (!c->id) {
        b->ops->add(b, r->name, c, r->text, r->text_size);
    }
    answer(r, SNIB__QUEUED, SNIB_ERR_OK);
    r->position = b->ops->before(b, r->name, c) + 1;
    r->left = snib__between(b->now, holder->until);
}

static void acquire(struct snib__book *b, struct snib__request *r)
{
    struct snib__claim me, holder;
    bool taken;
    if (r->kind != SNIB_MUTEX) {
        answer(r, SNIB__NOT_APPLIED, SNIB_ERR_UNSUPPORTED);
        return;
    }
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
            break;
        }
    } else {
        me = (struct snib__claim){
            .request = {r->id[0], r->id[1]},
            .client = {b->client[0], b->client[1]},
            .kind = r->kind,
            .permits = r->permits,
            .room = r->room > SNIB__ROOM_MAX ? SNIB__ROOM_MAX : r->room,
            .floor = r->floor,
            .lease = r->lease,
        };
    }
    for (;;) {
        taken = settle(b, r->name, &holder);
        if (!taken || same_id(holder.request, r->id) ||
            !b->ops->gone(b, &holder)) {
            break;
        }
        b->ops->remove(b, r->name, &holder);
    }
    if (b->err) {
        return;
    }
    if (taken && same_id(holder.request, r->id)) {
        rearm(b, r, &holder);
    } else if (taken) {
        if (me.state == SNIB__HOLDS) {
            me.id = 0; /* ours had ended; settle has removed it */
            me.token = 0;
        }
        wait_turn(b, r, &me, &holder);
    } else {
        grant_new(b, r, &me);
    }
}

static void renew(struct snib__book *b, struct snib__request *r)
{
    struct snib__claim c;
    /* Compare id and token, never create (H15). */
    if (settle(b, r->name, &c) && same_id(c.request, r->id) &&
        c.token == r->token) {
        rearm(b, r, &c);
        return;
    }
    if (b->ops->find(b, r->name, r->id, &c) && c.state == SNIB__REVOKED) {
        no_revoked(r, &c);
        return;
    }
    answer(r, SNIB__NO, SNIB_ERR_LOST);
}

static void release(struct snib__book *b, struct snib__request *r)
{
    struct snib__claim c, next;
    if (settle(b, r->name, &c) && same_id(c.request, r->id) &&
        c.token == r->token) {
        b->ops->remove(b, r->name, &c);
        if (r->resent) {
            tomb(b, r);
        }
        grant_head(b, r->name, &next);
        answer(r, SNIB__DONE, SNIB_ERR_OK);
        return;
    }
    if (!b->ops->find(b, r->name, r->id, &c)) {
        if (r->resent) {
            tomb(b, r);
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
        if (c.state != SNIB__TOMB) {
            b->ops->remove(b, r->name, &c);
        }
    }
    if (leave_tomb) {
        tomb(b, r);
    }
    settle(b, r->name, &c);
    answer(r, SNIB__DONE, SNIB_ERR_OK);
}

static void force(struct snib__book *b, struct snib__request *r)
{
    struct snib__claim c;
    uint32_t count = 0;
    /* Only who holds now: a waiter that settle would let in first is not whom
     * the operator saw. */
    while (!b->err && b->ops->first(b, r->name, SNIB__HOLDS, &c)) {
        if (snib__reached(b->now, c.until)) {
            b->ops->remove(b, r->name, &c);
            continue;
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
        count++;
    }
    b->ops->sweep(b);
    grant_head(b, r->name, &c);
    answer(r, SNIB__DONE, SNIB_ERR_OK);
    r->position = count; /* the caller writes the row once it is durable */
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
    case SNIB__INSPECT:
    case SNIB__LIST:
    case SNIB__DOCTOR:
        answer(r, SNIB__NOT_APPLIED, SNIB_ERR_INTERNAL);
        break;
    }
    b->asker = NULL;
}

bool snib__claims_end(struct snib__book *b, const struct snib__name *name,
                      const uint64_t request[2], int state, int64_t token)
{
    struct snib__claim c;
    bool there = b->ops->find(b, name, request, &c) && c.state == state &&
                 c.token == token;
    if (there) {
        b->ops->remove(b, name, &c);
    }
    settle(b, name, &c);
    return there;
}

snib_err snib__claims_put(struct snib__book *b, const struct snib__name *name,
                          struct snib__claim *c)
{
    hold(b, name, c, c->lease);
    if (!b->err) {
        b->ops->add(b, name, c, NULL, 0);
    }
    return b->err;
}

bool snib__claims_look(snib_instant now, const struct snib__claim *c,
                       struct snib__request *r)
{
    snib_duration given = claim_lease(c->lease);
    if (c->state != SNIB__HOLDS ||
        snib__between(now, c->until).ns < given.ns / 2) {
        return false;
    }
    /* The grant was at until - C; a row that was re-armed since ends later,
     * and then its lease is counted from now. */
    snib_instant from = snib__sooner(snib__before(c->until, given), now);
    done_grant(r, c, from, snib__between(from, c->until));
    return true;
}
