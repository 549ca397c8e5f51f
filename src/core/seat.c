/* core/seat.c — one lane's place at a lock.
 *
 *   WAITING --grant, pass--> SERVED --last release--> ENDING --answer--> GONE
 *    |   |                      |                        (or freed at once,
 *    |   +--no--> REFUSED       +--loss--> DEAD           when passed on)
 *    |              ^
 *    +--limit,      |answer to its cancel, or too long without
 *       cancel--> LEAVING
 *
 * Who gives up is told so when the store has confirmed that nothing of it is
 * left there: then TIMEOUT and CANCELLED are the whole truth, and nobody who
 * looks finds it in the queue. A store that is far or silent gets a twentieth
 * of the patience for an answer, a fifth where nothing is known without it;
 * then what is known has to do, and the rest goes on in the background. Only
 * the last one of a turn has anything to be confirmed: the place at the store
 * is the client's.
 *
 * Limits belong to seats, never to turns: a lane that gives up leaves the
 * queue of its own process and nothing else; only when the last one has left
 * is the place at the store cancelled (H25).
 *
 * A lane whose grant was lost stays lost for that lock until it has given
 * back every hold (H28): an inner section must not get a fresh grant inside
 * an outer one that is gone. Other lanes are free to acquire meanwhile.
 *
 * Tickets are slot number and generation: a stale one is recognised. */
#include <assert.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/blocking.h"
#include "core/engine_i.h"

enum { HOLDS_MAX = 1 << 30 };

/* -- tickets ----------------------------------------------------------------- */

static bool slot_take(struct snib__engine *e, struct snib__seat *s)
{
    if (!e->slot_free) {
        uint32_t cap = e->slot_cap ? 2 * e->slot_cap : 16;
        struct snib__slot *v = snib__realloc(e->slots, cap * sizeof *v);
        if (!v) {
            return false;
        }
        e->slots = v;
        for (uint32_t i = cap; i-- > e->slot_cap;) {
            v[i] =
                (struct snib__slot){.generation = 1, .next_free = e->slot_free};
            e->slot_free = i + 1;
        }
        e->slot_cap = cap;
    }
    uint32_t i = e->slot_free - 1;
    e->slot_free = e->slots[i].next_free;
    e->slots[i].seat = s;
    s->ticket = ((uint64_t)e->slots[i].generation << 32) | (i + 1);
    return true;
}

static void slot_give(struct snib__engine *e, uint64_t ticket)
{
    uint32_t i = (uint32_t)ticket - 1;
    e->slots[i].seat = NULL;
    if (++e->slots[i].generation == 0) {
        e->slots[i].generation = 1;
    }
    e->slots[i].next_free = e->slot_free;
    e->slot_free = i + 1;
}

struct snib__seat *snib__engine_seat(struct snib__engine *e, uint64_t ticket)
{
    uint32_t i = (uint32_t)ticket - 1;
    struct snib__seat *s = i < e->slot_cap ? e->slots[i].seat : NULL;
    return s && s->ticket == ticket ? s : NULL;
}

/* -- news ---------------------------------------------------------------------- */

void snib__seat_tell(struct snib__engine *e, struct snib__seat *s, uint8_t news)
{
    s->news |= news;
    if (!snib__linked(&s->told)) {
        snib__list_push(&e->told, &s->told);
    }
}

static void hush(struct snib__seat *s)
{
    s->news = 0;
    snib__unlink(&s->told);
}

struct snib__seat *snib__engine_told(struct snib__engine *e, uint8_t *ret_news)
{
    struct snib__link *l = snib__list_pop(&e->told);
    if (!l) {
        return NULL;
    }
    struct snib__seat *s = SNIB__CONTAINER(l, struct snib__seat, told);
    *ret_news = s->news;
    s->news = 0;
    return s;
}

static void explain(struct snib__seat *s, snib_err err,
                    const struct snib_error *detail)
{
    s->err = err;
    if (detail && detail->text[0] && detail->code == err) {
        snib__fail(s->reterr, err, "%s", detail->text);
    } else {
        snib__fail_plain(s->reterr, err);
    }
}

void snib__seat_refuse(struct snib__engine *e, struct snib__seat *s,
                       snib_err err, const struct snib_error *detail)
{
    assert(s->state == SNIB__SEAT_WAITING);
    snib__unlink(&s->link);
    snib__unlink(&s->nested);
    snib__heap_remove(&e->seats, &s->timer);
    s->state = SNIB__SEAT_REFUSED;
    explain(s, err, detail);
    snib__seat_tell(e, s, SNIB__NEWS_SETTLED);
}

bool snib__seat_stay(struct snib__engine *e, snib_instant now,
                     struct snib__seat *s, snib_err err, bool unsure)
{
    struct snib__turn *t = s->site->turn;
    struct snib__store_state is;
    snib_instant from = err == SNIB_ERR_TIMEOUT ? s->limit : now;
    snib_instant until = snib__after(
        from,
        (snib_duration){e->cfg.request.ns /
                        (unsure ? SNIB__UNSURE_PART : SNIB__CONFIRM_PART)});
    snib__engine_store_state(e, now, &is);
    assert(s->state == SNIB__SEAT_WAITING && !t->ender && !t->holder);
    if (snib__reached(now, until) || is.err) {
        return false;
    }
    snib__unlink(&s->link);
    snib__unlink(&s->nested);
    s->state = SNIB__SEAT_LEAVING;
    s->err = err;
    s->unsure = unsure;
    t->ender = s;
    snib__heap_set(&e->seats, &s->timer, until);
    return true;
}

static snib_err outcome_of_left(const struct snib__seat *s, bool confirmed)
{
    return s->unsure && !confirmed ? SNIB_ERR_UNKNOWN : s->err;
}

/* It waits for its turn's end no more. */
static void stays_no_longer(struct snib__seat *s)
{
    struct snib__turn *t = s->site->turn;
    if (t && t->ender == s) {
        t->ender = NULL;
    }
}

void snib__seat_left(struct snib__engine *e, struct snib__seat *s,
                     bool confirmed)
{
    assert(s->state == SNIB__SEAT_LEAVING);
    stays_no_longer(s);
    snib__heap_remove(&e->seats, &s->timer);
    s->state = SNIB__SEAT_REFUSED;
    explain(s, outcome_of_left(s, confirmed), NULL);
    snib__seat_tell(e, s, SNIB__NEWS_SETTLED);
}

void snib__seat_gone(struct snib__engine *e, struct snib__seat *s, snib_err err,
                     const struct snib_error *detail)
{
    assert(s->state == SNIB__SEAT_ENDING);
    if (s->abandoned) {
        snib__seat_free(e, s);
        return;
    }
    s->state = SNIB__SEAT_GONE;
    explain(s, err, detail);
    snib__seat_tell(e, s, SNIB__NEWS_RELEASED);
}

/* -- life ------------------------------------------------------------------------ */

static bool copy_words(struct snib__seat *s, const struct snib__ask *ask)
{
    if (ask->reason && !(s->reason = snib__strdup(ask->reason))) {
        return false;
    }
    if (!ask->above) {
        return true;
    }
    s->above = snib__alloc(sizeof *s->above);
    if (s->above) {
        *s->above = *ask->above;
    }
    return s->above != NULL;
}

static struct snib__seat *seat_new(struct snib__engine *e,
                                   struct snib__site *site,
                                   const struct snib__ask *ask)
{
    struct snib__seat *s = snib__alloc(sizeof *s);
    if (!s) {
        return NULL;
    }
    if (!copy_words(s, ask) ||
        !snib__heap_reserve(&e->seats, e->counts.seats + 1) ||
        !slot_take(e, s)) {
        snib__free(s->above);
        snib__free(s->reason);
        snib__free(s);
        return NULL;
    }
    snib__link_init(&s->link);
    snib__link_init(&s->told);
    snib__link_init(&s->by_lane);
    snib__link_init(&s->nested);
    s->site = site;
    s->lane = ask->lane;
    s->terms = (struct snib__seat_terms){.lease = ask->lease,
                                         .hold_max = ask->hold_max,
                                         .fixed = ask->fixed,
                                         .aggressive = ask->aggressive,
                                         .confirm = ask->confirm,
                                         .no_reentry = ask->no_reentry,
                                         .no_pass = ask->no_pass,
                                         .try_only = ask->try_only,
                                         .spin = ask->spin,
                                         .kind = (uint8_t)ask->kind,
                                         .rank = ask->rank,
                                         .permits = ask->permits,
                                         .capacity = ask->capacity,
                                         .delay = ask->delay};
    s->limit = ask->limit;
    s->reterr = ask->reterr;
    s->user = ask->user;
    s->state = SNIB__SEAT_WAITING;
    site->refs++;
    e->counts.seats++;
    return s;
}

void snib__seat_free(struct snib__engine *e, struct snib__seat *s)
{
    snib__unlink(&s->link);
    snib__unlink(&s->told);
    snib__unlink(&s->by_lane);
    snib__unlink(&s->nested);
    snib__heap_remove(&e->seats, &s->timer);
    slot_give(e, s->ticket);
    snib__site_drop(e, s->site);
    e->counts.seats--;
    snib__free(s->above);
    snib__free(s->reason);
    snib__free(s->trouble);
    snib__free(s);
}

void snib__seat_done(struct snib__engine *e, struct snib__seat *s)
{
    assert(s->state == SNIB__SEAT_REFUSED || s->state == SNIB__SEAT_GONE);
    snib__seat_free(e, s);
}

void snib__engine_abandon(struct snib__engine *e, struct snib__seat *s)
{
    if (s->state == SNIB__SEAT_GONE) {
        snib__seat_free(e, s);
    } else {
        s->abandoned = true;
        s->reterr = NULL;
        s->user = NULL;
    }
}

/* -- acquire ----------------------------------------------------------------------- */

static snib_err fail_lost(struct snib_error *reterr, uint8_t why)
{
    return snib__fail(reterr, SNIB_ERR_LOST,
                      "the lock was lost (%s); release every hold of this "
                      "lane before acquiring it again",
                      snib_reason_text((snib_reason)why));
}

static struct snib__seat *dead_seat(struct snib__site *site, uint64_t lane)
{
    SNIB__LIST_EACH (l, &snib__site_home(site)->dead) {
        struct snib__seat *s = SNIB__CONTAINER(l, struct snib__seat, link);
        if (s->lane == lane && s->terms.kind != SNIB_PERMITS) {
            return s;
        }
    }
    return NULL;
}

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

/* Behind those of its rank and of higher ones; one that adopts stays first. */
static void queue_up(struct snib__site *site, struct snib__seat *s)
{
    struct snib__link *at = site->waiting.head.prev;
    while (at != &site->waiting.head) {
        const struct snib__seat *before =
            SNIB__CONTAINER(at, struct snib__seat, link);
        if (before->terms.rank >= s->terms.rank ||
            before == site->turn->adopter) {
            break;
        }
        at = at->prev;
    }
    snib__list_insert(at, &s->link);
}

/* A seat that waits at its site, with a turn to ask for it. */
static struct snib__seat *sit_down(struct snib__engine *e,
                                   struct snib__site *site,
                                   const struct snib__ask *ask)
{
    struct snib__seat *s = seat_new(e, site, ask);
    if (s && !site->turn && snib__turn_new(e, site)) {
        snib__seat_free(e, s);
        return NULL;
    }
    if (s) {
        queue_up(site, s);
        snib__list_push(&e->lanes[s->lane % SNIB__LANES], &s->by_lane);
        if (ask->timed) {
            snib__heap_set(&e->seats, &s->timer, s->limit);
        }
    }
    return s;
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
    struct snib__seat *dead = dead_seat(site, ask->lane);
    if (dead) {
        return fail_lost(reterr, dead->why);
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
    struct snib__seat *s = sit_down(e, site, ask);
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
        hush(s);
    } else if (nested) {
        snib__cycles_enter(e, now, s);
    }
    *ret = s;
    return SNIB_ERR_OK;
}

/* -- giving up ---------------------------------------------------------------------- */

/* What a seat that leaves may say: as long as others of this client stay, or
 * the store has said "queued", it surely has nothing. One that adopts has a
 * renewal under way, which may yet extend the grant. */
static snib_err outcome_of_leaving(const struct snib__site *site,
                                   const struct snib__seat *s, snib_err why)
{
    const struct snib__turn *t = site->turn;
    if (t && t->adopter == s) {
        return SNIB_ERR_UNKNOWN;
    }
    if (snib__list_empty(&site->waiting) && t &&
        t->state == SNIB__TURN_ASKING) {
        return SNIB_ERR_UNKNOWN;
    }
    return why;
}

static void left(struct snib__engine *e, snib_instant now,
                 struct snib__site *site, const struct snib__seat *s)
{
    if (site->turn &&
        (snib__list_empty(&site->waiting) || site->turn->adopter == s)) {
        snib__turn_desert(e, now, site->turn);
    }
}

snib_err snib__engine_leave(struct snib__engine *e, snib_instant now,
                            struct snib__seat *s, snib_err why)
{
    snib_err outcome;
    if (s->state == SNIB__SEAT_LEAVING) {
        outcome = outcome_of_left(s, false);
        stays_no_longer(s);
        snib__seat_free(e, s);
        return outcome;
    }
    if (s->state != SNIB__SEAT_WAITING) {
        return SNIB_ERR_OK;
    }
    struct snib__site *site = s->site;
    snib__unlink(&s->link);
    outcome = outcome_of_leaving(site, s, why);
    left(e, now, site, s);
    snib__seat_free(e, s);
    snib__engine_settle(e, now);
    return outcome;
}

bool snib__engine_is_run(struct snib__engine *e, uint64_t ticket)
{
    const struct snib__seat *s = snib__engine_seat(e, ticket);
    const struct snib__turn *t = s ? s->site->turn : NULL;
    return e->cfg.blocking && t && s->state == SNIB__SEAT_WAITING &&
           t->state == SNIB__TURN_ASKING && t->asking &&
           snib__blocking_runs(&t->asking->rq);
}

/* The limit of a seat that waits. Behind another lane of this client the store
 * is not what it waits for. */
static snib_err outcome_of_limit(const struct snib__engine *e, snib_instant now,
                                 const struct snib__seat *s, snib_err why,
                                 struct snib_error *ret)
{
    const struct snib__turn *t = s->site->turn;
    snib_err outcome = outcome_of_leaving(s->site, s, why);
    if (outcome == SNIB_ERR_UNKNOWN && t && t->asking &&
        t->asking->rq.misread) {
        return snib__fail(ret, outcome, "%s", t->asking->error.text);
    }
    if (outcome != why || !t || t->holder ||
        (t->state != SNIB__TURN_QUEUED && t->state != SNIB__TURN_ASKING)) {
        return snib__fail_plain(ret, outcome);
    }
    return snib__engine_late(e, now, why, ret);
}

/* The last one that waits for a turn which is not granted yet takes what that
 * has asked for along; what is told of it can be confirmed. */
static bool takes_along(const struct snib__seat *s)
{
    const struct snib__turn *t = s->site->turn;
    return t && t->adopter != s && snib__list_empty(&s->site->waiting) &&
           (t->state == SNIB__TURN_ASKING || t->state == SNIB__TURN_QUEUED ||
            t->state == SNIB__TURN_CONFIRM);
}

/* What s, which is off its site's list, is told of its giving up; OK: it stays
 * for the store's word. */
static snib_err outcome_or_stay(struct snib__engine *e, snib_instant now,
                                struct snib__seat *s, snib_err why,
                                struct snib_error *ret)
{
    bool late = why == SNIB_ERR_TIMEOUT || why == SNIB_ERR_BUSY;
    snib_err outcome = late ? outcome_of_limit(e, now, s, why, ret)
                            : outcome_of_leaving(s->site, s, why);
    bool known = outcome == why || outcome == SNIB_ERR_UNKNOWN;
    bool stays = why == SNIB_ERR_TIMEOUT || why == SNIB_ERR_CANCELLED ||
                 why == SNIB_ERR_CLOSED;
    if (stays && known && takes_along(s) &&
        snib__seat_stay(e, now, s, why, outcome != why)) {
        return SNIB_ERR_OK;
    }
    return late ? outcome : snib__fail_plain(ret, outcome);
}

snib_err snib__engine_give_up(struct snib__engine *e, snib_instant now,
                              struct snib__seat *s, snib_err why,
                              struct snib_error *ret)
{
    if (s->state != SNIB__SEAT_WAITING) {
        return snib__ok(ret);
    }
    snib__unlink(&s->link);
    snib_err outcome = outcome_or_stay(e, now, s, why, ret);
    left(e, now, s->site, s);
    if (outcome) {
        snib__seat_free(e, s);
    }
    snib__engine_settle(e, now);
    return outcome ? outcome : snib__ok(ret);
}

/* The engine itself keeps the limit of an acquire that was started, and that
 * of who waits for the store's word. */
void snib__seat_due(struct snib__engine *e, snib_instant now,
                    struct snib__seat *s)
{
    struct snib_error late;
    if (s->state == SNIB__SEAT_LEAVING) {
        snib__seat_left(e, s, false);
        return;
    }
    if (snib__engine_is_run(e, s->ticket) &&
        !snib__reached(now, snib__after(s->limit, snib__ms(SNIB__RUN_MS)))) {
        snib__heap_set(&e->seats, &s->timer, snib__after(now, snib__ms(2)));
        return;
    }
    snib_err why = s->terms.try_only ? SNIB_ERR_BUSY : SNIB_ERR_TIMEOUT;
    snib__unlink(&s->link);
    snib_err outcome = outcome_or_stay(e, now, s, why, &late);
    if (outcome) {
        snib__seat_refuse(e, s, outcome, &late);
    }
    left(e, now, s->site, s);
}

void snib__seat_deadlock(struct snib__engine *e, snib_instant now,
                         struct snib__seat *s, const struct snib_error *detail)
{
    struct snib__site *site = s->site;
    snib__seat_refuse(e, s, SNIB_ERR_DEADLOCK, detail);
    left(e, now, site, s);
}

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
        return err;
    }
    if (s->state == SNIB__SEAT_DEAD) {
        err = snib__fail(reterr, SNIB_ERR_LOST,
                         "the lock was lost (%s) before this release",
                         snib_reason_text((snib_reason)s->why));
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
        hush(s);
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
        return snib__fail(reterr, SNIB_ERR_LOST, "the lock was lost (%s)",
                          snib_reason_text((snib_reason)s->why));
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

static snib_err fail_over(const struct snib__seat *s, struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_LOST, "the lock was lost (%s)",
                      snib_reason_text((snib_reason)s->why));
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
        err = fail_over(s, reterr);
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
        err = fail_over(s, reterr);
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
    struct snib__seat *dead = dead_seat(site, ask->lane);
    if (dead) {
        return fail_lost(reterr, dead->why);
    }
    bool stake = !snib__is_exclusive((uint8_t)ask->kind);
    if (stake && !(site = snib__stake_new(e, site))) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    struct snib__seat *s = sit_down(e, site, ask);
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
        hush(s);
    }
    *ret = s;
    return SNIB_ERR_OK;
}

void snib__engine_status(struct snib__engine *e, snib_instant now,
                         const struct snib__seat *s, struct snib_status *ret)
{
    (void)e;
    *ret = (struct snib_status){
        .state = SNIB_RELEASED,
        .token = s->token,
        .kind = (snib_kind)s->terms.kind,
        .permits = s->terms.kind == SNIB_PERMITS ? s->terms.permits : 0,
        .slot = s->terms.kind == SNIB_PERMITS ? (int64_t)s->terms.slot : -1};
    if (s->state == SNIB__SEAT_DEAD) {
        ret->state = SNIB_LOST;
        ret->reason = (snib_reason)s->why;
        ret->holds = s->holds;
        return;
    }
    if (s->state != SNIB__SEAT_SERVED) {
        return;
    }
    const struct snib__turn *t = s->site->turn;
    snib_instant end = snib__sooner(t->deadline, t->hold_end);
    int64_t left_ns = end.ns - now.ns;
    ret->holds = s->holds;
    ret->held_ms = snib__to_ms(snib__between(s->since, now));
    ret->left_ms = left_ns > 0 ? left_ns / 1000000 : 0;
    ret->state = t->state == SNIB__TURN_RISK ? SNIB_AT_RISK : SNIB_HELD;
    ret->reason = (snib_reason)t->why;
    if (left_ns <= 0 && snib__reached(now, t->hold_end)) {
        ret->state = SNIB_LOST;
        ret->reason = SNIB_WHY_HOLD_MAX;
    } else if (left_ns <= 0 && t->aggressive) {
        ret->state = SNIB_AT_RISK;
    } else if (left_ns <= 0) {
        ret->state = SNIB_LOST;
        ret->reason = s->terms.fixed ? SNIB_WHY_EXPIRED
                      : t->why       ? (snib_reason)t->why
                      : t->renewing  ? SNIB_WHY_UNREACHABLE
                                     : SNIB_WHY_PAUSED;
    }
}
