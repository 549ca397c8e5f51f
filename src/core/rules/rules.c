/* core/rules/rules.c — the verbs: renew, release and cancel are here; acquire,
 * force and params have files of their own.
 *
 * The states of a claim, and what moves it from one to another:
 *
 *   (none)       --acquire, fits---------------------> HOLDS
 *   (none)       --acquire, does not, may queue------> WAITS
 *   WAITS        --settle, alive and fits------------> HOLDS (push lease C)
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
 * rules_fit.c says what fits and to whom a name is granted.
 *
 * Forbidden: a renewal or a release that touches a claim whose id *and* token
 * are not the caller's. */
#include "core/rules/rules.h"

#include "core/rules/rules_i.h"

/* Find this request's grant with this token. False: it does not stand. */
static bool rules_own(struct snib__book *b, const struct snib__request *r,
                      struct snib__stored_claim *ret)
{
    return b->ops->find(b, r->name, r->id, ret) &&
           snib__rules_claim_holds(ret) && ret->token == r->token &&
           !snib__reached(b->now, ret->until);
}

/* Does anybody hold it now? */
static bool rules_held(struct snib__book *b, const struct snib__name *name)
{
    static const int states[] = {SNIB__HOLDS, SNIB__SHARES};
    SNIB__UNSET struct snib__stored_claim c, after;
    for (int i = 0; i < 2; i++) {
        const struct snib__stored_claim *at = NULL;
        while (!b->err && b->ops->next(b, name, states[i], at, &c)) {
            if (!snib__reached(b->now, c.until)) {
                return true;
            }
            after = c;
            at = &after;
        }
    }
    return false;
}

static void rules_renew(struct snib__book *b, struct snib__request *r)
{
    SNIB__UNSET struct snib__stored_claim c;
    /* Compare the id and the token, never create a grant. */
    if (rules_own(b, r, &c) && r->renew.only_asks) {
        if (r->renew.listen) { /* a change also stores whom to notify */
            b->ops->change(b, r->name, &c);
        }
        snib__rules_granted(r, &c, b->sent, (snib_duration){0});
        return;
    }
    if (rules_own(b, r, &c)) {
        snib__rules_rearm(b, r, &c);
        return;
    }
    bool ended =
        b->ops->find(b, r->name, r->id, &c) && snib__rules_claim_holds(&c);
    bool forgotten = !ended && !rules_held(b, r->name);
    snib__rules_settle(b, r->name);
    if (b->ops->find(b, r->name, r->id, &c) && c.state == SNIB__REVOKED) {
        snib__rules_revoked(r, &c);
        return;
    }
    r->said.forgotten = forgotten;
    snib__rules_answer(r, SNIB__NO, SNIB_ERR_LOST);
}

static void rules_release(struct snib__book *b, struct snib__request *r)
{
    SNIB__UNSET struct snib__stored_claim c;
    if (rules_own(b, r, &c)) {
        snib__rules_drop(b, r->name, &c);
        if (r->resent) {
            snib__rules_tombstone(b, r, true, 0);
        }
        snib__rules_settle(b, r->name);
        snib__rules_answer(r, SNIB__DONE, SNIB_ERR_OK);
        return;
    }
    snib__rules_settle(b, r->name);
    if (!b->ops->find(b, r->name, r->id, &c)) {
        if (r->resent) {
            snib__rules_tombstone(b, r, true, 0);
        }
    } else if (c.state == SNIB__TOMBSTONE) { /* an earlier copy did it */
        snib__rules_answer(r, SNIB__DONE, SNIB_ERR_OK);
        return;
    } else if (c.state == SNIB__REVOKED) {
        snib__rules_revoked(r, &c);
        return;
    }
    snib__rules_answer(r, SNIB__NO, SNIB_ERR_LOST);
}

static void rules_cancel(struct snib__book *b, struct snib__request *r)
{
    SNIB__UNSET struct snib__stored_claim c;
    bool leave_tombstone = true;
    int64_t granted = 0;
    snib__rules_end_prior(b, r);
    if (b->ops->find(b, r->name, r->id, &c)) {
        bool waited = c.state == SNIB__WAITS || c.state == SNIB__UNRESPONSIVE;
        granted = waited ? 0 : c.token;
        leave_tombstone =
            c.state != SNIB__TOMBSTONE &&
            (r->resent || (granted && c.kind == SNIB_KIND_BARRIER));
        if (snib__rules_claim_holds(&c)) {
            snib__rules_drop(b, r->name, &c);
        } else if (c.state != SNIB__TOMBSTONE) {
            b->ops->remove(b, r->name, &c);
        }
    }
    if (leave_tombstone) {
        snib__rules_tombstone(b, r, true, granted);
    }
    snib__rules_settle(b, r->name);
    snib__rules_answer(r, SNIB__DONE, SNIB_ERR_OK);
    r->said.granted = granted;
}

void snib__rules_run(struct snib__book *b, struct snib__request *r)
{
    b->asker = r;
    r->said.revoked = r->said.forgotten = false;
    switch (r->verb) {
    case SNIB__ACQUIRE:
        snib__rules_acquire(b, r);
        break;
    case SNIB__RENEW:
        rules_renew(b, r);
        break;
    case SNIB__RELEASE:
        rules_release(b, r);
        break;
    case SNIB__CANCEL:
        rules_cancel(b, r);
        break;
    case SNIB__FORCE:
        snib__rules_force(b, r);
        break;
    case SNIB__PARAMS:
        snib__rules_params(b, r);
        break;
    case SNIB__INSPECT:
    case SNIB__LIST:
    case SNIB__DOCTOR:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY:
        snib__rules_answer(r, SNIB__NOT_APPLIED, SNIB_ERR_INTERNAL);
        break;
    }
    b->asker = NULL;
}

bool snib__rules_end(struct snib__book *b, const struct snib__name *name,
                     const uint64_t request[2], int64_t token)
{
    SNIB__UNSET struct snib__stored_claim c;
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
    SNIB__UNSET struct snib__stored_claim c;
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
