/* core/turn.c — this client's stake at the store for one name.
 *
 * state    asked      DONE         QUEUED   NO          UNKNOWN   nobody waits
 * -------  ---------  -----------  -------  ----------  --------  ------------
 * ASKING   waits      HELD, serve  QUEUED   ask again   repeat    LEAVING
 *                     or CONFIRM            or refuse   same id
 * QUEUED   waits      same         place    ask again   repeat    LEAVING
 * CONFIRM  waits      HELD, serve    -      ask again   repeat    LEAVING
 *  adopts  waits      HELD, serve    -      lost        repeat    (forgotten)
 * HELD     waits or   new deadline   -      lost        RISK      (release)
 * RISK     re-enters  HELD           -      lost        repeat    (release)
 * LEAVING  waits      over           -      over        repeat       -
 *
 * "over": the turn ends; when seats wait by then a new one begins. A turn is
 * LEAVING until the store has answered or our lease and the last instant at
 * which a late copy of our request may still be executed have passed, so that
 * the next acquire cannot meet its own ghost.
 *
 * A grant that was left behind (snib_grant_abandon) is taken up in CONFIRM by
 * its `adopter`: it is not of our asking, so a "no" is its loss and nothing is
 * asked for in its place, and one that gives up leaves it as it was found: it
 * may be somebody else's who does better.
 *
 * The deadline counts from valid_from, which only the store knows (P1), less
 * an allowance of 1 % of the lease + 5 ms for clock rates. A grant that
 * arrives when its deadline has passed is not served before a renewal has
 * confirmed it.
 *
 * Local hand-over: a grant reserves `room` tokens. A pass to the next local
 * lane costs no request; it hands on the remaining deadline, at most 31
 * times and for 5 ms, then the client queues again behind the others in one
 * step at the store (an ACQUIRE that ends our prior grant first). */
#include <assert.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/engine_i.h"

/* Sizes are part of the budget: 512 bytes for a held lock with its name. */
_Static_assert(sizeof(struct snib__site) + sizeof(struct snib__turn) +
                       sizeof(struct snib__seat) <=
                   640,
               "a held lock has grown");

static snib_duration allowance(snib_duration lease)
{
    return (snib_duration){lease.ns / 100 + 5000000};
}

static struct snib__seat *first_waiting(const struct snib__site *site)
{
    struct snib__link *l = snib__list_first(&site->waiting);
    return l ? SNIB__CONTAINER(l, struct snib__seat, link) : NULL;
}

/* -- timers ----------------------------------------------------------------- */

static void arm(struct snib__engine *e, struct snib__turn *t)
{
    snib_instant at = SNIB__NEVER;
    switch ((snib__turn_state)t->state) {
    case SNIB__TURN_ASKING:
        at = t->renew_at;
        break;
    case SNIB__TURN_QUEUED:
        break;
    case SNIB__TURN_CONFIRM:
        at = snib__sooner(t->deadline, t->renew_at);
        break;
    case SNIB__TURN_HELD:
    case SNIB__TURN_RISK:
        at = snib__sooner(t->hold_end, t->renew_at);
        if (!t->aggressive) {
            at = snib__sooner(at, t->deadline);
        }
        break;
    case SNIB__TURN_LEAVING:
        at = snib__sooner(t->gone_by, t->renew_at);
        break;
    }
    snib__heap_set(&e->turns, &t->timer, at);
}

/* Renewals are rounded down to a 64th of the lease, so that those of many
 * locks fall due together and travel in one batch. */
static snib_instant renewal_of(snib_instant from, snib_duration lease)
{
    int64_t grain = lease.ns / 64 > 0 ? lease.ns / 64 : 1;
    snib_instant at = snib__after(from, (snib_duration){lease.ns / 3});
    at.ns -= at.ns % grain;
    return at;
}

static void retry_at(struct snib__engine *e, snib_instant now,
                     struct snib__turn *t)
{
    int64_t ns = SNIB__RETRY_MS * INT64_C(1000000);
    if (t->lease.ns / 32 < ns) {
        ns = t->lease.ns / 32;
    }
    t->renew_at = snib__after(now, (snib_duration){ns});
    arm(e, t);
}

/* -- life -------------------------------------------------------------------- */

snib_err snib__turn_new(struct snib__engine *e, struct snib__site *site)
{
    struct snib__turn *t = snib__alloc(sizeof *t);
    if (t) {
        t->asking = snib__inquiry_get(e, site);
    }
    if (!t || !t->asking) {
        snib__free(t);
        return SNIB_ERR_NOMEM;
    }
    t->asking->turn = t;
    snib__link_init(&t->held);
    t->site = site;
    t->renew_at = t->deadline = t->hold_end = t->gone_by = SNIB__NEVER;
    site->refs++;
    site->turn = t;
    e->counts.turns++;
    return SNIB_ERR_OK;
}

/* Let an answer that is still due come back to nobody. */
static void orphan(struct snib__inquiry **q)
{
    if (*q) {
        (*q)->turn = NULL;
        *q = NULL;
    }
}

void snib__turn_free(struct snib__engine *e, struct snib__turn *t)
{
    assert(!t->holder && !t->ender && !t->adopter);
    orphan(&t->asking);
    orphan(&t->renewing);
    orphan(&t->ending);
    snib__unlink(&t->held);
    snib__heap_remove(&e->turns, &t->timer);
    t->site->turn = NULL;
    e->counts.turns--;
    snib__site_drop(e, t->site);
    snib__free(t);
}

/* The turn is over. Whoever waits gets a new one in its place. */
static void over(struct snib__engine *e, snib_instant now, struct snib__turn *t)
{
    orphan(&t->asking);
    orphan(&t->renewing);
    orphan(&t->ending);
    snib__unlink(&t->held);
    if (t->state == SNIB__TURN_LEAVING) {
        e->leaving--;
    }
    if (first_waiting(t->site)) {
        snib__turn_ask(e, now, t, 0);
    } else {
        snib__turn_free(e, t);
    }
}

/* -- asking -------------------------------------------------------------------- */

void snib__turn_limits(struct snib__turn *t)
{
    if (!t->asking) {
        return;
    }
    const struct snib__list *waiting = &t->site->waiting;
    const struct snib__seat *last =
        SNIB__CONTAINER(waiting->head.prev, struct snib__seat, link);
    t->asking->rq.limit = snib__later(t->asking->rq.limit, last->limit);
}

static void write_about(struct snib__engine *e, snib_instant now,
                        const struct snib__seat *s, struct snib__buf *out)
{
    struct snib__about about = e->self;
    about.since_ms = (now.ns + e->cfg.wall_offset_ns) / 1000000;
    if (s->reason) {
        size_t i = 0;
        for (; s->reason[i] && i + 1 < sizeof about.reason; i++) {
            about.reason[i] = s->reason[i];
        }
        about.reason[i] = 0;
    }
    snib__buf_clear(out);
    snib__about_write(&about, out);
}

/* Fill and start an ACQUIRE for the head of the queue. prior: our own grant
 * to be ended in the same step (a yield), or 0. */
void snib__turn_ask(struct snib__engine *e, snib_instant now,
                    struct snib__turn *t, int64_t prior)
{
    struct snib__seat *head = first_waiting(t->site);
    assert(head && !t->holder && !t->adopter);
    t->state = SNIB__TURN_ASKING;
    t->why = SNIB_WHY_NONE;
    t->prior = prior;
    t->lease = head->terms.lease;
    t->renew_at = t->deadline = t->hold_end = SNIB__NEVER;
    t->doubt = false;
    if (!t->asking && !(t->asking = snib__inquiry_get(e, t->site))) {
        retry_at(e, now, t); /* no memory now: later */
        return;
    }
    arm(e, t);
    t->asking->turn = t;
    struct snib__request *rq = &t->asking->rq;
    rq->id[0] = snib__rng_next(&e->rng);
    rq->id[1] = snib__rng_next(&e->rng);
    t->id[0] = rq->id[0];
    t->id[1] = rq->id[1];
    rq->verb = SNIB__ACQUIRE;
    rq->kind = SNIB_MUTEX;
    rq->permits = 1;
    rq->resent = false;
    rq->may_queue = false;
    rq->token = prior;
    rq->floor = e->floor;
    rq->room = head->terms.fixed || head->terms.no_pass ? 0 : SNIB__ROOM;
    rq->lease = t->lease;
    rq->limit = now;
    SNIB__LIST_EACH (l, &t->site->waiting) {
        struct snib__seat *s = SNIB__CONTAINER(l, struct snib__seat, link);
        rq->may_queue = rq->may_queue || !s->terms.try_only;
        rq->limit = snib__later(rq->limit, s->limit);
    }
    write_about(e, now, head, &t->asking->text);
    rq->text = snib__buf_text(&t->asking->text);
    rq->text_size = t->asking->text.failed /* no memory: nobody's name */
                        ? 0
                        : (uint32_t)snib__buf_size(&t->asking->text);
    e->counts.asks++;
    e->counts.yields += prior != 0;
    snib__inquiry_start(e, t->asking);
}

/* -- states of a grant ------------------------------------------------------------ */

static void show(struct snib__engine *e, struct snib__turn *t, snib_state state,
                 snib_reason why)
{
    t->why = (uint8_t)why;
    if (t->holder && t->holder->shown != state) {
        t->holder->shown = (uint8_t)state;
        t->holder->why = (uint8_t)why;
        snib__seat_tell(e, t->holder, SNIB__NEWS_STATE);
    }
}

static void serve(struct snib__engine *e, snib_instant now,
                  struct snib__turn *t, struct snib__seat *s)
{
    snib__unlink(&s->link);
    snib__heap_remove(&e->seats, &s->timer);
    s->state = SNIB__SEAT_SERVED;
    s->holds = 1;
    s->token = t->token;
    s->since = now;
    s->shown = t->state == SNIB__TURN_RISK ? SNIB_AT_RISK : SNIB_HELD;
    t->holder = s;
    t->aggressive = s->terms.aggressive;
    t->hold_end = s->terms.hold_max.ns > 0 ? snib__after(now, s->terms.hold_max)
                                           : SNIB__NEVER;
    if (s->terms.fixed) {
        t->renew_at = SNIB__NEVER;
    }
    arm(e, t);
    snib__seat_tell(e, s, SNIB__NEWS_SETTLED);
}

static void start_end(struct snib__engine *e, snib_instant now,
                      struct snib__turn *t);

/* Give up what we have or asked for, and wait until it is surely gone. */
static void leave(struct snib__engine *e, snib_instant now,
                  struct snib__turn *t)
{
    bool cancel = t->asking != NULL || t->doubt;
    snib_duration most = t->lease;
    if (cancel && most.ns < SNIB__NOT_AFTER_MS * INT64_C(1000000)) {
        most = snib__ms(SNIB__NOT_AFTER_MS);
    }
    if (t->state != SNIB__TURN_LEAVING) {
        e->leaving++;
    }
    t->state = SNIB__TURN_LEAVING;
    t->gone_by = snib__after(now, most);
    t->renew_at = SNIB__NEVER;
    orphan(&t->renewing);
    snib__unlink(&t->held);
    start_end(e, now, t);
}

static void start_end(struct snib__engine *e, snib_instant now,
                      struct snib__turn *t)
{
    struct snib__inquiry *q = snib__inquiry_get(e, t->site);
    if (!q) {
        retry_at(e, now, t);
        return;
    }
    t->renew_at = SNIB__NEVER;
    t->ending = q;
    q->turn = t;
    q->rq.id[0] = t->id[0];
    q->rq.id[1] = t->id[1];
    q->rq.verb = t->asking || t->doubt ? SNIB__CANCEL : SNIB__RELEASE;
    q->rq.token = q->rq.verb == SNIB__CANCEL ? t->prior : t->token0;
    q->rq.lease = t->lease;
    q->rq.limit = t->gone_by;
    q->rq.resent = t->doubt;
    q->rq.keepers = t->ender == NULL;
    arm(e, t);
    snib__inquiry_start(e, q);
}

static void lose(struct snib__engine *e, snib_instant now, struct snib__turn *t,
                 snib_reason why, bool gone)
{
    struct snib__seat *s = t->holder;
    if (s) {
        show(e, t, SNIB_LOST, why);
        if (t->want_renew) {
            s->err = SNIB_ERR_LOST;
            snib__seat_tell(e, s, SNIB__NEWS_RENEWED);
        }
        s->state = SNIB__SEAT_DEAD;
        snib__list_push(&t->site->dead, &s->link);
        t->holder = NULL;
    }
    t->want_renew = false;
    if (gone) {
        over(e, now, t);
    } else {
        leave(e, now, t);
    }
}

bool snib__turn_check(struct snib__engine *e, snib_instant now,
                      struct snib__turn *t)
{
    if (t->state != SNIB__TURN_HELD && t->state != SNIB__TURN_RISK) {
        return false;
    }
    if (snib__reached(now, t->hold_end)) {
        lose(e, now, t, SNIB_WHY_HOLD_MAX, false);
        return true;
    }
    if (!snib__reached(now, t->deadline) || t->aggressive) {
        return false;
    }
    snib_reason why = SNIB_WHY_UNREACHABLE;
    if (t->holder && t->holder->terms.fixed) {
        why = SNIB_WHY_EXPIRED;
    } else if (t->why) {
        why = (snib_reason)t->why;
    } else if (!t->renewing) {
        why = SNIB_WHY_PAUSED; /* nobody ran when the renewal was due */
    }
    lose(e, now, t, why, false);
    return true;
}

void snib__turn_risk(struct snib__engine *e, snib_instant now,
                     struct snib__turn *t, snib_reason why)
{
    if (t->state == SNIB__TURN_HELD) {
        t->state = SNIB__TURN_RISK;
        show(e, t, SNIB_AT_RISK, why);
    }
    if (!t->renewing &&
        (!t->holder || !t->holder->terms.fixed || why == SNIB_WHY_PAUSED)) {
        snib__turn_renew(e, now, t);
    }
    arm(e, t);
}

/* -- granted ----------------------------------------------------------------------- */

/* A renewal must say that it is ours before anybody is served. Until then
 * deadline only says when to stop asking. */
static void confirm_first(struct snib__engine *e, snib_instant now,
                          struct snib__turn *t)
{
    t->lease = first_waiting(t->site)->terms.lease;
    t->state = SNIB__TURN_CONFIRM;
    t->renew_at = now;
    snib__turn_renew(e, now, t);
    arm(e, t);
}

/* Serve the head, unless the grant must be confirmed first: its deadline is
 * not proven, or too near, or the taker insists (DESIGN 5, direct grant). */
static void serve_or_confirm(struct snib__engine *e, snib_instant now,
                             struct snib__turn *t, snib_duration given)
{
    struct snib__seat *s = first_waiting(t->site);
    int64_t left = t->deadline.ns - now.ns;
    int64_t whole = s->terms.lease.ns - allowance(s->terms.lease).ns;
    bool strict = s->terms.fixed || s->terms.confirm;
    if (strict ? left < whole - s->terms.lease.ns / 8 : left < given.ns / 4) {
        confirm_first(e, now, t);
        return;
    }
    t->lease = s->terms.lease;
    t->state = SNIB__TURN_HELD;
    snib__list_push(&e->held, &t->held);
    serve(e, now, t, s);
}

static void granted(struct snib__engine *e, snib_instant now,
                    struct snib__turn *t, const struct snib__request *rq)
{
    snib_duration given = rq->left;
    bool pushed = given.ns < rq->lease.ns;
    bool proven = rq->valid_from.ns != 0;
    t->token0 = t->token = rq->token;
    t->room = rq->room;
    t->granted = now;
    t->refusals = 0;
    t->doubt = false;
    t->prior = 0;
    t->deadline =
        snib__before(snib__after(rq->valid_from, given), allowance(given));
    t->renew_at =
        pushed ? snib__after(rq->valid_from, (snib_duration){given.ns / 2})
               : renewal_of(rq->valid_from, given);
    if (e->floor < rq->token + rq->room) {
        e->floor = rq->token + rq->room;
    }
    snib__inquiry_put(e, t->asking);
    t->asking = NULL;
    if (!first_waiting(t->site)) {
        leave(e, now, t); /* nobody wants it any more */
    } else if (!proven || snib__reached(now, t->deadline)) {
        /* No proven start (H03), or one too long ago: ask before use. */
        t->deadline = snib__after(now, given);
        confirm_first(e, now, t);
    } else {
        serve_or_confirm(e, now, t, given);
    }
}

/* -- left behind, taken up --------------------------------------------------------- */

/* The adoption has failed. Others who wait by now ask for a grant of their
 * own; nothing is said about the one that was not ours to end. */
static void adopt_failed(struct snib__engine *e, snib_instant now,
                         struct snib__turn *t, snib_err err,
                         const struct snib_error *detail)
{
    struct snib__seat *s = t->adopter;
    t->adopter = NULL;
    snib__seat_refuse(e, s, err, detail);
    over(e, now, t);
}

void snib__turn_adopt(struct snib__engine *e, snib_instant now,
                      struct snib__turn *t, struct snib__seat *s,
                      const uint64_t id[2], int64_t token)
{
    snib__inquiry_put(e, t->asking);
    t->asking = NULL;
    t->state = SNIB__TURN_CONFIRM;
    t->adopter = s;
    t->id[0] = id[0];
    t->id[1] = id[1];
    t->token0 = t->token = token;
    t->lease = s->terms.lease;
    t->deadline = s->limit; /* when to stop asking */
    snib__turn_renew(e, now, t);
    arm(e, t);
}

void snib__turn_abandon(struct snib__engine *e, snib_instant now,
                        struct snib__turn *t)
{
    struct snib__seat *s = t->holder;
    assert(s && s->terms.fixed);
    t->holder = NULL;
    t->want_renew = t->aggressive = false;
    snib__seat_free(e, s);
    over(e, now, t);
}

static void refuse_all(struct snib__engine *e, struct snib__turn *t,
                       snib_err err, const struct snib_error *detail,
                       bool tries_only)
{
    SNIB__LIST_EACH_SAFE (l, next, &t->site->waiting) {
        struct snib__seat *s = SNIB__CONTAINER(l, struct snib__seat, link);
        if (!tries_only || s->terms.try_only) {
            snib__seat_refuse(e, s, err, detail);
        }
    }
}

/* The store kept the request until its limit: seats whose own limit has come
 * with it end here. One that the store had in its queue, or said no to, surely
 * has nothing; one that was never answered does not know. */
static void refuse_late(struct snib__engine *e, snib_instant now,
                        struct snib__turn *t, snib_err why)
{
    SNIB__LIST_EACH_SAFE (l, next, &t->site->waiting) {
        struct snib__seat *s = SNIB__CONTAINER(l, struct snib__seat, link);
        if (snib__reached(now, s->limit)) {
            snib__seat_refuse(e, s, why, NULL);
        }
    }
}

/* How often the store may refuse a request that was ready to queue before we
 * stop asking: a late one (not_after) is normal, a row of them is not. */
enum { REFUSALS_MAX = 8 };

/* The acquire has had its last answer. */
static void answered(struct snib__engine *e, struct snib__turn *t)
{
    snib__inquiry_put(e, t->asking);
    t->asking = NULL;
}

static void asked(struct snib__engine *e, snib_instant now,
                  struct snib__turn *t, struct snib__inquiry *q)
{
    struct snib__request *rq = &q->rq;
    switch (rq->answer) {
    case SNIB__PENDING:
        assert(!"answered without an answer");
        return;
    case SNIB__DONE:
        granted(e, now, t, rq);
        return;
    case SNIB__QUEUED:
        t->state = SNIB__TURN_QUEUED;
        t->refusals = 0;
        arm(e, t);
        refuse_all(e, t, SNIB_ERR_BUSY, NULL, true);
        if (snib__list_empty(&t->site->waiting)) {
            leave(e, now, t);
        }
        return;
    case SNIB__NO:
        if (!rq->may_queue) {
            refuse_all(e, t, rq->err ? rq->err : SNIB_ERR_BUSY, &q->error,
                       true);
        }
        refuse_late(e, now, t, SNIB_ERR_TIMEOUT);
        if (rq->may_queue && ++t->refusals > REFUSALS_MAX) {
            refuse_all(e, t, SNIB_ERR_STORE, &q->error, false);
        }
        answered(e, t);
        if (!t->prior) {
            over(e, now, t);
        } else if (first_waiting(t->site)) {
            snib__turn_ask(e, now, t, t->prior); /* not ended yet */
        } else {
            t->doubt = true;
            leave(e, now, t);
        }
        return;
    case SNIB__NOT_APPLIED:
        if (e->cfg.blocking && snib__reached(now, rq->patience)) {
            /* It was patient for those who waited when it began only. */
            refuse_late(e, now, t, rq->err ? rq->err : SNIB_ERR_STORE);
            if (first_waiting(t->site)) {
                snib__inquiry_start(e, q);
                return;
            }
        }
        refuse_all(e, t,
                   t->doubt  ? SNIB_ERR_UNKNOWN
                   : rq->err ? rq->err
                             : SNIB_ERR_STORE,
                   &q->error, false);
        answered(e, t);
        if (t->doubt || t->prior) {
            t->doubt = true;
            leave(e, now, t);
        } else {
            over(e, now, t);
        }
        return;
    case SNIB__UNKNOWN:
        refuse_late(e, now, t,
                    t->state == SNIB__TURN_QUEUED ? SNIB_ERR_TIMEOUT
                                                  : SNIB_ERR_UNKNOWN);
        t->doubt = true;
        rq->resent = true;
        if (first_waiting(t->site)) {
            t->state = SNIB__TURN_ASKING;
            snib__inquiry_start(e, q);
        } else {
            answered(e, t);
            leave(e, now, t);
        }
        return;
    }
}

/* -- renewing ------------------------------------------------------------------------ */

void snib__turn_renew(struct snib__engine *e, snib_instant now,
                      struct snib__turn *t)
{
    struct snib__inquiry *q = snib__inquiry_get(e, t->site);
    if (!q) {
        retry_at(e, now, t);
        return;
    }
    t->renewing = q;
    t->renew_at = SNIB__NEVER;
    q->turn = t;
    q->rq.id[0] = t->id[0];
    q->rq.id[1] = t->id[1];
    q->rq.verb = SNIB__RENEW;
    q->rq.token = t->token0;
    q->rq.lease = t->lease;
    q->rq.keepers = true;
    q->rq.limit = t->aggressive ? snib__after(now, e->cfg.request)
                                : snib__later(t->deadline, now);
    e->counts.renewals++;
    snib__inquiry_start(e, q);
}

static void renewed(struct snib__engine *e, snib_instant now,
                    struct snib__turn *t, const struct snib__request *rq)
{
    snib_instant deadline = snib__before(snib__after(rq->valid_from, rq->left),
                                         allowance(rq->left));
    t->deadline = t->state == SNIB__TURN_CONFIRM
                      ? deadline
                      : snib__later(t->deadline, deadline);
    t->renew_at = renewal_of(rq->valid_from, rq->left);
    if (t->adopter && snib__reached(now, t->deadline)) {
        adopt_failed(e, now, t, SNIB_ERR_LOST, NULL); /* over by now */
        return;
    }
    if (t->state == SNIB__TURN_CONFIRM) {
        struct snib__seat *s = first_waiting(t->site);
        if (t->adopter) {
            assert(s == t->adopter);
            t->adopter = NULL;
            t->doubt = false;
            if (e->floor < t->token0) {
                e->floor = t->token0;
            }
        }
        if (!s || snib__reached(now, t->deadline)) {
            leave(e, now, t);
            return;
        }
        t->state = SNIB__TURN_HELD;
        t->granted = now;
        snib__list_push(&e->held, &t->held);
        serve(e, now, t, s);
        return;
    }
    if (snib__turn_check(e, now, t)) {
        return;
    }
    t->state = SNIB__TURN_HELD;
    show(e, t, SNIB_HELD, SNIB_WHY_NONE);
    if (t->holder && t->holder->terms.fixed) {
        t->renew_at = SNIB__NEVER;
    }
    if (t->want_renew && rq->lease.ns != t->lease.ns) {
        snib__turn_renew(e, now, t); /* the caller wanted another length */
    } else if (t->want_renew) {
        t->want_renew = false;
        t->holder->err = SNIB_ERR_OK;
        snib__seat_tell(e, t->holder, SNIB__NEWS_RENEWED);
    }
    arm(e, t);
}

static void renewal_answered(struct snib__engine *e, snib_instant now,
                             struct snib__turn *t, struct snib__inquiry *q)
{
    struct snib__request *rq = &q->rq;
    if (rq->answer == SNIB__UNKNOWN) { /* re-sent at once (DESIGN 5) */
        rq->resent = true;
        t->doubt = t->doubt || t->adopter;
        snib__inquiry_start(e, q);
        snib__turn_risk(e, now, t, SNIB_WHY_UNREACHABLE);
        return;
    }
    t->renewing = NULL;
    if (rq->answer == SNIB__DONE) {
        renewed(e, now, t, rq);
    } else if (t->adopter && rq->answer == SNIB__NO) {
        adopt_failed(e, now, t, SNIB_ERR_LOST, &q->error);
    } else if (t->adopter) { /* as any renewal that was asked for: once */
        adopt_failed(e, now, t,
                     t->doubt  ? SNIB_ERR_UNKNOWN
                     : rq->err ? rq->err
                               : SNIB_ERR_UNREACHABLE,
                     &q->error);
    } else if (rq->answer == SNIB__NO && t->state == SNIB__TURN_CONFIRM) {
        over(e, now, t);
    } else if (rq->answer == SNIB__NO) {
        lose(e, now, t, rq->revoked ? SNIB_WHY_REVOKED : SNIB_WHY_STOLEN, true);
    } else { /* not applied: the store is unfit just now */
        if (t->want_renew && t->holder) {
            t->want_renew = false;
            t->holder->err = rq->err ? rq->err : SNIB_ERR_UNREACHABLE;
            snib__seat_tell(e, t->holder, SNIB__NEWS_RENEWED);
        }
        if (!snib__turn_check(e, now, t)) {
            if (t->state == SNIB__TURN_HELD &&
                !(t->holder && t->holder->terms.fixed)) {
                t->state = SNIB__TURN_RISK;
                show(e, t, SNIB_AT_RISK, SNIB_WHY_UNREACHABLE);
            }
            retry_at(e, now, t);
        }
    }
    snib__inquiry_put(e, q);
}

/* -- ending ---------------------------------------------------------------------------- */

/* P7: what one local turn may do. */
static bool may_pass(const struct snib__turn *t, const struct snib__seat *to,
                     snib_instant now)
{
    const struct snib__seat *from = t->holder;
    snib_duration left = snib__between(now, t->deadline);
    return t->state == SNIB__TURN_HELD && t->token < t->token0 + t->room &&
           snib__between(t->granted, now).ns <
               SNIB__TURN_MS * INT64_C(1000000) &&
           left.ns > t->lease.ns / 20 && !from->terms.no_pass &&
           !from->terms.fixed && !to->terms.no_pass && !to->terms.fixed &&
           to->terms.lease.ns == t->lease.ns;
}

bool snib__turn_release(struct snib__engine *e, snib_instant now,
                        struct snib__turn *t)
{
    struct snib__seat *s = t->holder, *next = first_waiting(t->site);
    bool pass = next && may_pass(t, next, now);
    t->want_renew = false;
    if (next && pass) {
        t->holder = NULL;
        snib__seat_free(e, s);
        t->token++;
        e->counts.passes++;
        serve(e, now, t, next);
        return true;
    }
    t->holder = NULL;
    t->aggressive = false;
    if (next) { /* end ours and queue again, in one step at the store */
        orphan(&t->renewing);
        snib__unlink(&t->held);
        snib__seat_free(e, s);
        snib__turn_ask(e, now, t, t->token0);
        return true;
    }
    s->state = SNIB__SEAT_ENDING;
    t->ender = s;
    leave(e, now, t);
    return false;
}

void snib__turn_desert(struct snib__engine *e, snib_instant now,
                       struct snib__turn *t)
{
    if (t->adopter) { /* the seat has left already */
        t->adopter = NULL;
        over(e, now, t);
        return;
    }
    switch ((snib__turn_state)t->state) {
    case SNIB__TURN_ASKING:
        t->doubt = true;
        leave(e, now, t);
        break;
    case SNIB__TURN_QUEUED:
    case SNIB__TURN_CONFIRM:
        leave(e, now, t);
        break;
    case SNIB__TURN_HELD:
    case SNIB__TURN_RISK:
    case SNIB__TURN_LEAVING:
        break;
    }
}

static void ended(struct snib__engine *e, snib_instant now,
                  struct snib__turn *t, snib_err err)
{
    struct snib__seat *s = t->ender;
    t->ender = NULL;
    if (s) {
        snib__seat_gone(e, s, err);
    }
    over(e, now, t);
}

static void end_answered(struct snib__engine *e, snib_instant now,
                         struct snib__turn *t, struct snib__inquiry *q)
{
    struct snib__request *rq = &q->rq;
    snib_err err = SNIB_ERR_OK;
    switch (rq->answer) {
    case SNIB__NO: /* H31: ours until now, so an earlier copy ended it */
        if (snib__reached(now, t->deadline)) {
            err = SNIB_ERR_LOST;
        }
        break;
    case SNIB__DONE:
        break;
    case SNIB__UNKNOWN:
        t->doubt = t->doubt || rq->verb == SNIB__CANCEL;
        rq->resent = true;
        if (!snib__reached(now, t->gone_by)) {
            snib__inquiry_start(e, q);
            return;
        }
        err = SNIB_ERR_UNKNOWN;
        break;
    case SNIB__NOT_APPLIED:
        t->ending = NULL;
        snib__inquiry_put(e, q);
        if (snib__reached(now, t->gone_by)) {
            ended(e, now, t, SNIB_ERR_UNKNOWN);
        } else {
            retry_at(e, now, t);
        }
        return;
    case SNIB__PENDING:
    case SNIB__QUEUED:
        assert(!"an end is answered once");
        return;
    }
    t->ending = NULL;
    t->doubt = false;
    snib__inquiry_put(e, q);
    ended(e, now, t, err);
}

/* -- inputs ------------------------------------------------------------------------------- */

void snib__turn_answer(struct snib__engine *e, snib_instant now,
                       struct snib__turn *t, struct snib__inquiry *q)
{
    if (q == t->renewing) {
        renewal_answered(e, now, t, q);
    } else if (q == t->ending) {
        end_answered(e, now, t, q);
    } else if (t->state != SNIB__TURN_LEAVING) {
        assert(q == t->asking);
        asked(e, now, t, q);
    } else if (q->rq.answer != SNIB__QUEUED) {
        /* The acquire that is being cancelled: whatever it says, the cancel
         * has the last word. */
        t->doubt = true;
        answered(e, t);
    }
}

void snib__turn_due(struct snib__engine *e, snib_instant now,
                    struct snib__turn *t)
{
    switch ((snib__turn_state)t->state) {
    case SNIB__TURN_ASKING: /* there was no memory */
        if (first_waiting(t->site)) {
            snib__turn_ask(e, now, t, t->prior);
        } else {
            leave(e, now, t);
        }
        return;
    case SNIB__TURN_QUEUED:
        break;
    case SNIB__TURN_CONFIRM:
        if (snib__reached(now, t->deadline) && t->adopter) {
            adopt_failed(e, now, t, SNIB_ERR_UNKNOWN, NULL);
            return;
        }
        if (snib__reached(now, t->deadline)) {
            leave(e, now, t);
            return;
        }
        if (!t->renewing) {
            snib__turn_renew(e, now, t);
        }
        break;
    case SNIB__TURN_HELD:
    case SNIB__TURN_RISK:
        if (snib__turn_check(e, now, t)) {
            return;
        }
        if (snib__reached(now, t->renew_at) && !t->renewing) {
            snib__turn_renew(e, now, t);
        }
        break;
    case SNIB__TURN_LEAVING:
        if (snib__reached(now, t->gone_by)) {
            ended(e, now, t, SNIB_ERR_UNKNOWN);
            return;
        }
        if (!t->ending) {
            start_end(e, now, t);
        }
        return;
    }
    arm(e, t);
}
