/* core/seat_acquire.c — what an acquire finds out without the store.
 *
 * A lane that holds the name enters again; one that lost it must unwind first;
 * a try behind another lane of this client is refused here. All others sit
 * down: at the name, whose one turn asks for all exclusive lanes, or at a stake
 * of their own, where the grant is one of its own: readers, permits, a lane
 * that writes beside its own read grant (or reads beside its write grant), a
 * nested wait. */
#include "base/error.h"
#include "core/seat_i.h"

enum { HOLDS_MAX = 1 << 30 };

/* Held, or about to be, by another lane of this client: a try need not ask.
 * One that is said to have been ended by force is being asked about. */
static bool surely_busy(const struct snib__turn *t, bool exclusive)
{
    return t && !(t->hinted && t->renewing) &&
           ((exclusive && t->state == SNIB__TURN_QUEUED) ||
            t->state == SNIB__TURN_CONFIRM || t->state == SNIB__TURN_HELD ||
            t->state == SNIB__TURN_RISK);
}

/* What this lane holds of the name. Permits belong to no lane. */
struct lane_holds {
    struct snib__seat *exclusive, *reading;
};

static struct lane_holds lane_holds(const struct snib__site *site,
                                    uint64_t lane)
{
    struct lane_holds has = {NULL, NULL};
    struct snib__seat *s = site->turn ? site->turn->holder : NULL;
    if (s && s->lane == lane) {
        has.exclusive = s;
    }
    SNIB__LIST_EACH (l, &site->stakes) {
        const struct snib__turn *t =
            SNIB__CONTAINER(l, struct snib__site, bucket)->turn;
        s = t ? t->holder : NULL;
        if (!s || s->lane != lane) {
            continue;
        }
        if (snib__is_exclusive(s->terms.kind)) {
            has.exclusive = s;
        } else if (s->terms.kind == SNIB_READ) {
            has.reading = s;
        }
    }
    return has;
}

static void check_all(struct snib__engine *e, snib_instant now,
                      struct snib__site *site)
{
    bool lost = site->turn && snib__turn_check(e, now, site->turn);
    SNIB__LIST_EACH_SAFE (l, next, &site->stakes) {
        struct snib__turn *t =
            SNIB__CONTAINER(l, struct snib__site, bucket)->turn;
        lost = (t && snib__turn_check(e, now, t)) || lost;
    }
    if (lost) {
        snib__engine_settle(e, now);
    }
}

static snib_err enter_again(struct snib__seat *held,
                            const struct snib__ask *ask,
                            struct snib__seat **ret, struct snib_error *reterr)
{
    if (ask->no_reentry) {
        return snib__fail(reterr, SNIB_ERR_DEADLOCK,
                          "this lane holds the lock already, and it is opened "
                          "without re-entry: waiting would never end");
    }
    if (held->holds >= HOLDS_MAX) {
        return snib__fail(reterr, SNIB_ERR_LIMIT,
                          "this lane holds the lock %d times already",
                          HOLDS_MAX);
    }
    held->holds++;
    *ret = held;
    return snib__ok(reterr);
}

snib_err snib__engine_acquire(struct snib__engine *e, snib_instant now,
                              struct snib__site *site,
                              const struct snib__ask *ask,
                              struct snib__seat **ret,
                              struct snib_error *reterr)
{
    bool exclusive = snib__is_exclusive((uint8_t)ask->kind);
    *ret = NULL;
    if (e->closed) {
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    check_all(e, now, site);
    snib_err err = snib__seat_unwound(site, ask->lane, reterr);
    if (err) {
        return err;
    }
    struct lane_holds has = lane_holds(site, ask->lane);
    struct snib__seat *again = exclusive                ? has.exclusive
                               : ask->kind == SNIB_READ ? has.reading
                                                        : NULL;
    if (again) {
        return enter_again(again, ask, ret, reterr);
    }
    /* The writer that reads, the reader that writes; nobody else may hold
     * both, so this is the only grant in the way of the other. */
    const struct snib__seat *beside = exclusive                ? has.reading
                                      : ask->kind == SNIB_READ ? has.exclusive
                                                               : NULL;
    if (ask->try_only && !beside && surely_busy(site->turn, exclusive)) {
        return snib__fail_plain(reterr, SNIB_ERR_BUSY);
    }
    /* One that holds something (or above which something is held) and waits
     * may be part of a cycle: it asks for itself, so that the store shows its
     * lane and what that holds. */
    bool nested = e->cfg.deadlocks && !ask->try_only &&
                  (ask->above || snib__cycles_holds(e, ask->lane));
    bool stake = !exclusive || beside || nested;
    if (stake) {
        site = snib__stake_new(e, site);
        if (!site) {
            return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
        }
    }
    bool asks = !site->turn;
    struct snib__seat *s = snib__seat_new(e, site, ask);
    if (s) {
        s->terms.beside = beside ? beside->ticket : 0;
        if (asks) {
            snib__turn_ask(e, now, site->turn, 0);
            snib__company_join(e, s);
        } else {
            snib__turn_limits(site->turn, s);
        }
    }
    if (stake) {
        snib__site_drop(e, site); /* the seat and its turn keep it */
    }
    if (!s) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snib__engine_settle(e, now);
    if (s->state != SNIB__SEAT_WAITING) {
        snib__seat_hush(s);
    } else if (nested) {
        snib__cycles_enter(e, now, s);
    }
    *ret = s;
    return SNIB_ERR_OK;
}
