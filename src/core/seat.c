/* core/seat.c — one lane's place at a lock.
 *
 *   WAITING --grant, pass--> SERVED --last release--> ENDING --answer--> GONE
 *    |   |                      |                        (or freed at once,
 *    |   +--no--> REFUSED       +--loss--> DEAD           when passed on)
 *    |              ^
 *    +--limit,      |answer to its cancel, or too long without
 *       cancel--> LEAVING --granted before, and it passes--> DEAD
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
#include "core/seat_i.h"

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

void snib__seat_hush(struct snib__seat *s)
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

void snib__seat_explain(struct snib__seat *s, snib_err err,
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
    snib__seat_explain(s, err, detail);
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
    snib__seat_explain(s, err, detail);
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

static struct snib__seat *blank_seat(struct snib__engine *e,
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
                                         .passes = ask->passes ||
                                                   ask->kind == SNIB_BARRIER,
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

/* -- sitting down ----------------------------------------------------------------- */

snib_err snib__seat_unwound(struct snib__site *site, uint64_t lane,
                            struct snib_error *reterr)
{
    SNIB__LIST_EACH (l, &snib__site_home(site)->dead) {
        const struct snib__seat *s =
            SNIB__CONTAINER(l, struct snib__seat, link);
        if (s->lane == lane && s->terms.kind != SNIB_PERMITS) {
            return snib__fail(reterr, SNIB_ERR_LOST,
                              "the lock was lost (%s); release every hold of "
                              "this lane before acquiring it again",
                              snib_reason_text((snib_reason)s->why));
        }
    }
    return SNIB_ERR_OK;
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
struct snib__seat *snib__seat_new(struct snib__engine *e,
                                  struct snib__site *site,
                                  const struct snib__ask *ask)
{
    struct snib__seat *s = blank_seat(e, site, ask);
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

/* -- a look at it ------------------------------------------------------------------ */

void snib__engine_status(struct snib__engine *e, snib_instant now,
                         const struct snib__seat *s, struct snib_status *ret)
{
    (void)e;
    *ret = (struct snib_status){
        .state = SNIB_RELEASED, .token = s->token, .slot = -1};
    if (s->state != SNIB__SEAT_SERVED && s->state != SNIB__SEAT_DEAD) {
        return;
    }
    ret->kind = (snib_kind)s->terms.kind;
    if (ret->kind == SNIB_PERMITS) {
        ret->permits = s->terms.permits;
        ret->slot = s->terms.slot;
    }
    if (s->state == SNIB__SEAT_DEAD) {
        ret->state = SNIB_LOST;
        ret->reason = (snib_reason)s->why;
        ret->holds = s->holds;
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
        ret->reason = snib__turn_cause(t);
    }
}
