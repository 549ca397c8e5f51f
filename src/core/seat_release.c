/* core/seat_release.c — what the holder of a ticket asks for: release, renew;
 * export, abandon, adopt.
 *
 * A seat is looked at by the clock first: one past its deadline is lost now,
 * whether a timer has run or not. Who asks with a ticket that is not held is
 * told why not: it was released before, or our close has released it.
 *
 * A grant left behind has no seat any more. The lane that adopts it sits down
 * with a turn in CONFIRM (core/turn.c), and has it once a renewal has shown
 * that it stands. */
#include "base/error.h"
#include "core/seat_i.h"

/* -- release and renew ----------------------------------------------------------------- */

/* There is no grant of this ticket: its owner has released it, or our close
 * has. */
static snib_err fail_not_held(const struct snib__engine *e, uint64_t ticket,
                              struct snib_error *reterr)
{
    if (ticket && e->closed) {
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    return snib__fail(reterr, SNIB_ERR_NOT_HELD, "%s",
                      ticket ? "this grant was released before"
                             : "no grant (ticket 0)");
}

static snib_err live_seat(struct snib__engine *e, snib_instant now,
                          uint64_t ticket, struct snib__seat **ret,
                          struct snib_error *reterr)
{
    struct snib__seat *s = snib__engine_seat(e, ticket);
    *ret = NULL;
    if (!s || (s->state != SNIB__SEAT_SERVED && s->state != SNIB__SEAT_DEAD)) {
        return fail_not_held(e, ticket, reterr);
    }
    if (s->state == SNIB__SEAT_SERVED) {
        snib__turn_check(e, now, s->site->turn);
    }
    *ret = s;
    return SNIB_ERR_OK;
}

static snib_err fail_over(struct snib__engine *e, snib_instant now,
                          const struct snib__seat *s, struct snib_error *reterr)
{
    char why[sizeof reterr->text];
    snib__engine_explain(e, now, s, why, sizeof why);
    return snib__fail(reterr, SNIB_ERR_LOST, "%s", why);
}

static snib_err check_lane(const struct snib__seat *s, uint64_t lane,
                           struct snib_error *reterr)
{
    if (!(s->lane & SNIB__LANE_FREE) && s->lane != lane &&
        s->terms.kind != SNIB_PERMITS) {
        return snib__fail(reterr, SNIB_ERR_WRONG_LANE,
                          "another thread acquired this grant: release it "
                          "there, or acquire with a lane of snib_lane_new()");
    }
    return SNIB_ERR_OK;
}

snib_err snib__engine_release(struct snib__engine *e, snib_instant now,
                              uint64_t ticket, uint64_t lane,
                              struct snib_error *later, void *user,
                              struct snib__seat **ret,
                              struct snib_error *reterr)
{
    struct snib__seat *s;
    *ret = NULL;
    snib_err err = live_seat(e, now, ticket, &s, reterr);
    if (!err) {
        err = check_lane(s, lane, reterr);
    }
    if (err) {
        snib__engine_settle(e, now); /* it may be lost by now */
        return err;
    }
    if (s->state == SNIB__SEAT_DEAD) {
        err = fail_over(e, now, s, reterr);
        if (--s->holds == 0) {
            snib__seat_free(e, s);
        }
        snib__engine_settle(e, now);
        return err;
    }
    if (--s->holds > 0) {
        return snib__ok(reterr);
    }
    s->reterr = later;
    s->user = user;
    if (!snib__turn_release(e, now, s->site->turn)) {
        *ret = s;
    }
    snib__engine_settle(e, now);
    if (*ret && s->state == SNIB__SEAT_GONE) {
        snib__seat_hush(s);
    }
    return snib__ok(reterr);
}

snib_err snib__engine_renew(struct snib__engine *e, snib_instant now,
                            uint64_t ticket, snib_duration lease,
                            struct snib__seat **ret, struct snib_error *reterr)
{
    struct snib__seat *s;
    *ret = NULL;
    snib_err err = live_seat(e, now, ticket, &s, reterr);
    if (err) {
        return err;
    }
    if (s->state == SNIB__SEAT_DEAD) {
        snib__engine_settle(e, now);
        return fail_over(e, now, s, reterr);
    }
    struct snib__turn *t = s->site->turn;
    if (lease.ns > 0) {
        t->lease = s->terms.lease = lease;
    }
    t->want_renew = true;
    if (!t->renewing) {
        snib__turn_renew(e, now, t);
    }
    snib__engine_settle(e, now);
    *ret = s;
    return snib__ok(reterr);
}

/* -- grants left behind ----------------------------------------------------- */

static snib_err check_fixed(const struct snib__seat *s,
                            struct snib_error *reterr)
{
    if (s->state == SNIB__SEAT_SERVED && !s->terms.fixed) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "only a grant of a fixed lease can be left behind");
    }
    return SNIB_ERR_OK;
}

snib_err snib__engine_grant_id(struct snib__engine *e, snib_instant now,
                               uint64_t ticket, bool fixed, uint64_t ret_id[2],
                               int64_t *ret_token, struct snib_error *reterr)
{
    struct snib__seat *s;
    snib_err err = live_seat(e, now, ticket, &s, reterr);
    if (!err && fixed) {
        err = check_fixed(s, reterr);
    }
    if (!err && s->state == SNIB__SEAT_DEAD) {
        err = fail_over(e, now, s, reterr);
    }
    if (!err) {
        ret_id[0] = s->site->turn->id[0];
        ret_id[1] = s->site->turn->id[1];
        *ret_token = s->site->turn->token0;
    }
    snib__engine_settle(e, now);
    return err ? err : snib__ok(reterr);
}

snib_err snib__engine_abandon_grant(struct snib__engine *e, snib_instant now,
                                    uint64_t ticket, uint64_t lane,
                                    struct snib_error *reterr)
{
    struct snib__seat *s;
    snib_err err = live_seat(e, now, ticket, &s, reterr);
    if (!err) {
        err = check_lane(s, lane, reterr);
    }
    if (!err) {
        err = check_fixed(s, reterr);
    }
    if (!err && s->state == SNIB__SEAT_DEAD) {
        err = fail_over(e, now, s, reterr);
        snib__seat_free(e, s);
    } else if (!err) {
        snib__turn_abandon(e, now, s->site->turn);
    }
    snib__engine_settle(e, now);
    return err ? err : snib__ok(reterr);
}

/* Is a stake of this client about that very grant? */
static bool is_ours(const struct snib__site *site, const uint64_t id[2])
{
    SNIB__LIST_EACH (l, &site->stakes) {
        const struct snib__turn *t =
            SNIB__CONTAINER(l, struct snib__site, bucket)->turn;
        if (t && t->id[0] == id[0] && t->id[1] == id[1]) {
            return true;
        }
    }
    return false;
}

snib_err snib__engine_adopt(struct snib__engine *e, snib_instant now,
                            struct snib__site *site,
                            const struct snib__ask *ask, const uint64_t id[2],
                            int64_t token, struct snib__seat **ret,
                            struct snib_error *reterr)
{
    *ret = NULL;
    if (e->closed) {
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    if ((site->turn && snib__is_exclusive((uint8_t)ask->kind)) ||
        is_ours(site, id)) {
        return snib__fail(reterr, SNIB_ERR_BUSY,
                          "this client holds that lock, waits for it or gives "
                          "it back just now");
    }
    snib_err err = snib__seat_unwound(site, ask->lane, reterr);
    if (err) {
        return err;
    }
    bool stake = !snib__is_exclusive((uint8_t)ask->kind);
    if (stake && !(site = snib__stake_new(e, site))) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    struct snib__seat *s = snib__seat_new(e, site, ask);
    if (s) {
        snib__turn_adopt(e, now, site->turn, s, id, token);
    }
    if (stake) {
        snib__site_drop(e, site);
    }
    if (!s) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snib__engine_settle(e, now);
    if (s->state != SNIB__SEAT_WAITING) {
        snib__seat_hush(s);
    }
    *ret = s;
    return SNIB_ERR_OK;
}
