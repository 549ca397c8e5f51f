/* core/release.c — what is asked for with a ticket: release, renew, detach.
 *
 * The acquisition is compared with the clock first: one past its deadline is
 * lost now, whether or not a timer has run. For a ticket that is not held the
 * caller is told why: it was released before, our close has released it, or it
 * is another client's. */
#include "base/error.h"
#include "core/engine_i.h"

/* -- release and renew ---------------------------------------------------- */

/* There is no grant of this ticket. */
static snib_err release_fail_not_held(const struct snib__engine *e,
                                      uint64_t ticket,
                                      struct snib_error *reterr)
{
    if (ticket && e->closed) {
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    return snib__fail(reterr, SNIB_ERR_NOT_HELD, "%s",
                      !ticket ? "no grant (ticket 0)"
                      : snib__engine_gave_ticket(e, ticket)
                          ? "this grant was released before"
                          : "this is no grant of this client");
}

static snib_err release_live_acquisition(struct snib__engine *e,
                                         snib_instant now, uint64_t ticket,
                                         struct snib__acquisition **ret,
                                         struct snib_error *reterr)
{
    struct snib__acquisition *s = snib__engine_acquisition(e, ticket);
    *ret = NULL;
    if (!s || (s->state != SNIB__ACQ_SERVED && s->state != SNIB__ACQ_DEAD)) {
        return release_fail_not_held(e, ticket, reterr);
    }
    if (s->state == SNIB__ACQ_SERVED) {
        snib__claim_check(e, now, s->local->claim);
    }
    *ret = s;
    return SNIB_ERR_OK;
}

static snib_err release_fail_over(struct snib__engine *e, snib_instant now,
                                  const struct snib__acquisition *s,
                                  struct snib_error *reterr)
{
    char why[sizeof reterr->text];
    snib__engine_explain(e, now, s, why, sizeof why);
    return snib__fail(reterr, SNIB_ERR_LOST, "%s", why);
}

static snib_err release_check_owner(const struct snib__acquisition *s,
                                    uint64_t owner, struct snib_error *reterr)
{
    if (!(s->owner & SNIB__OWNER_FREE) && s->owner != owner &&
        s->options.kind != SNIB_KIND_PERMITS) {
        return snib__fail(
            reterr, SNIB_ERR_WRONG_OWNER,
            "another thread acquired this grant: release it "
            "there, or acquire with an owner of snib_owner_new()");
    }
    return SNIB_ERR_OK;
}

snib_err snib__grant_release(struct snib__engine *e, snib_instant now,
                             uint64_t ticket, uint64_t owner,
                             struct snib_error *later, void *user,
                             struct snib__acquisition **ret,
                             struct snib_error *reterr)
{
    struct snib__acquisition *s;
    *ret = NULL;
    snib_err err = release_live_acquisition(e, now, ticket, &s, reterr);
    if (!err) {
        err = release_check_owner(s, owner, reterr);
    }
    if (err) {
        return err;
    }
    if (s->state == SNIB__ACQ_DEAD) {
        err = release_fail_over(e, now, s, reterr);
        if (--s->holds == 0) {
            snib__acquisition_free(e, s);
        }
        return err;
    }
    if (--s->holds > 0) {
        return snib__ok(reterr);
    }
    s->reterr = later;
    s->user = user;
    if (!snib__claim_release(e, now, s->local->claim)) {
        *ret = s;
    }
    return snib__ok(reterr);
}

snib_err snib__grant_renew(struct snib__engine *e, snib_instant now,
                           uint64_t ticket, snib_duration lease,
                           struct snib__acquisition **ret,
                           struct snib_error *reterr)
{
    struct snib__acquisition *s;
    *ret = NULL;
    snib_err err = release_live_acquisition(e, now, ticket, &s, reterr);
    if (err) {
        return err;
    }
    if (s->state == SNIB__ACQ_DEAD) {
        return release_fail_over(e, now, s, reterr);
    }
    struct snib__claim *t = s->local->claim;
    err = snib__lease_fits(e, lease, t->delay, reterr);
    if (err) {
        return err;
    }
    if (lease.ns > 0) {
        s->other_lease = s->other_lease || lease.ns != s->options.lease.ns;
        t->lease = s->options.lease = lease;
    }
    t->want_renew = true;
    if (!t->renewing) {
        snib__claim_send_renew(e, now, t);
    }
    *ret = s;
    return snib__ok(reterr);
}

/* -- detached grants ------------------------------------------------------ */

static snib_err release_check_fixed(const struct snib__acquisition *s,
                                    struct snib_error *reterr)
{
    if (s->state == SNIB__ACQ_SERVED && !s->options.fixed) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "only a grant of a fixed lease can be left behind");
    }
    return SNIB_ERR_OK;
}

snib_err snib__grant_id(struct snib__engine *e, snib_instant now,
                        uint64_t ticket, bool fixed, uint64_t ret_id[2],
                        int64_t *ret_token, struct snib_error *reterr)
{
    struct snib__acquisition *s;
    snib_err err = release_live_acquisition(e, now, ticket, &s, reterr);
    if (!err && fixed) {
        err = release_check_fixed(s, reterr);
    }
    if (!err && s->state == SNIB__ACQ_DEAD) {
        err = release_fail_over(e, now, s, reterr);
    }
    if (!err) {
        ret_id[0] = s->local->claim->id[0];
        ret_id[1] = s->local->claim->id[1];
        *ret_token = s->local->claim->token0;
    }
    return err ? err : snib__ok(reterr);
}

snib_err snib__grant_detach(struct snib__engine *e, snib_instant now,
                            uint64_t ticket, uint64_t owner,
                            struct snib_error *reterr)
{
    struct snib__acquisition *s;
    snib_err err = release_live_acquisition(e, now, ticket, &s, reterr);
    if (!err) {
        err = release_check_owner(s, owner, reterr);
    }
    if (!err) {
        err = release_check_fixed(s, reterr);
    }
    if (!err && s->state == SNIB__ACQ_DEAD) {
        err = release_fail_over(e, now, s, reterr);
        snib__acquisition_free(e, s);
    } else if (!err) {
        snib__claim_detach(e, now, s->local->claim);
    }
    return err ? err : snib__ok(reterr);
}
