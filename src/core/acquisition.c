/* core/acquisition.c — one owner waiting for, then holding, a lock.
 *
 * state     event                                      next state
 * --------  -----------------------------------------  ------------------------
 * WAITING   grant, or local hand-over                  SERVED
 *           a no, a limit, a deadlock, close           REFUSED
 *           limit or cancel of the last one of its     LEAVING
 *           claim: the store has to confirm its end
 *           `passes`: was granted, and that is over    DEAD
 *           gives up and need not wait                 freed
 * LEAVING   end confirmed, or nothing heard for long   REFUSED
 *           `passes`: was granted before its end       DEAD
 *           its caller waits no longer                 freed
 * SERVED    last release, the store has to answer      ENDING
 *           last release, handed over or yielded       freed
 *           grant detached                             freed
 *           grant lost                                 DEAD
 * ENDING    answer, or nothing of ours can be left     GONE; freed if abandoned
 * DEAD      last release                               freed
 * REFUSED,  snib__acquisition_done                     freed
 *   GONE
 *
 * Flags beside the state:
 *
 * options.passes  to have been granted is all that the owner wants
 * ended           WAITING, and the request that its claim gives up was made for
 *                 it too: its own end can be confirmed with that one's
 * unsure          LEAVING: UNKNOWN if nothing more is heard, else err
 * abandoned       ENDING: no caller waits, so it is freed when answered
 *
 * Limits belong to acquisitions, never to claims. An owner that gives up leaves
 * the queue of its own process and nothing else; only when the last one has
 * left is the request at the store cancelled.
 *
 * An owner whose grant was lost stays lost for that lock until it has given
 * back every hold: an inner section must not get a fresh grant inside an outer
 * one that is gone. Other owners are free to acquire meanwhile.
 *
 * A ticket is a slot number and a generation, so a stale one is recognised. Each
 * client counts generations from a number of its own, so that another client's
 * ticket is not taken for one of its own. */
#include <assert.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/acquisition_i.h"

/* -- tickets -------------------------------------------------------------- */

static bool acquisition_slot_take(struct snib__engine *e,
                                  struct snib__acquisition *s)
{
    if (!e->slot_free) {
        uint32_t cap = e->slot_cap ? 2 * e->slot_cap : 16;
        struct snib__slot *v = snib__realloc(e->slots, cap * sizeof *v);
        if (!v) {
            return false;
        }
        e->slots = v;
        for (uint32_t i = cap; i-- > e->slot_cap;) {
            v[i] = (struct snib__slot){.generation = e->first_generation,
                                       .next_free = e->slot_free};
            e->slot_free = i + 1;
        }
        e->slot_cap = cap;
    }
    uint32_t i = e->slot_free - 1;
    e->slot_free = e->slots[i].next_free;
    e->slots[i].acq = s;
    s->ticket = ((uint64_t)e->slots[i].generation << 32) | (i + 1);
    return true;
}

void snib__engine_first_ticket(struct snib__engine *e, uint32_t generation)
{
    assert(!e->slot_cap);
    e->first_generation = generation ? generation : 1;
}

static void acquisition_slot_give(struct snib__engine *e, uint64_t ticket)
{
    uint32_t i = (uint32_t)ticket - 1;
    e->slots[i].acq = NULL;
    if (++e->slots[i].generation == 0) {
        e->slots[i].generation = 1;
    }
    e->slots[i].next_free = e->slot_free;
    e->slot_free = i + 1;
}

struct snib__acquisition *snib__engine_acquisition(struct snib__engine *e,
                                                   uint64_t ticket)
{
    uint32_t i = (uint32_t)ticket - 1;
    struct snib__acquisition *s = i < e->slot_cap ? e->slots[i].acq : NULL;
    return s && s->ticket == ticket ? s : NULL;
}

const struct snib__local_lock *
snib__acquisition_home(const struct snib__acquisition *s)
{
    return snib__local_lock_home(s->local);
}

/* -- news ----------------------------------------------------------------- */

void snib__acquisition_tell(struct snib__engine *e, struct snib__acquisition *s,
                            uint8_t news)
{
    s->news |= news;
    if (!snib__linked(&s->told)) {
        snib__list_push(&e->told, &s->told);
    }
}

void snib__acquisition_hush(struct snib__acquisition *s)
{
    s->news = 0;
    snib__unlink(&s->told);
}

struct snib__acquisition *snib__engine_told(struct snib__engine *e,
                                            uint8_t *ret_news)
{
    struct snib__link *l = snib__list_pop(&e->told);
    if (!l) {
        return NULL;
    }
    struct snib__acquisition *s =
        SNIB__CONTAINER(l, struct snib__acquisition, told);
    *ret_news = s->news;
    s->news = 0;
    return s;
}

void snib__acquisition_explain(struct snib__acquisition *s, snib_err err,
                               const struct snib_error *detail)
{
    s->err = err;
    if (detail && detail->text[0] && detail->code == err) {
        snib__fail(s->reterr, err, "%s", detail->text);
    } else {
        snib__fail_plain(s->reterr, err);
    }
}

void snib__acquisition_refuse(struct snib__engine *e,
                              struct snib__acquisition *s, snib_err err,
                              const struct snib_error *detail)
{
    assert(s->state == SNIB__ACQ_WAITING);
    snib__unlink(&s->link);
    snib__unlink(&s->nested);
    snib__heap_remove(&e->acquisitions, &s->timer);
    s->state = SNIB__ACQ_REFUSED;
    snib__acquisition_explain(s, err, detail);
    snib__acquisition_tell(e, s, SNIB__NEWS_SETTLED);
}

void snib__acquisition_gone(struct snib__engine *e, struct snib__acquisition *s,
                            snib_err err, const struct snib_error *detail)
{
    assert(s->state == SNIB__ACQ_ENDING);
    if (s->abandoned) {
        snib__acquisition_free(e, s);
        return;
    }
    s->state = SNIB__ACQ_GONE;
    snib__acquisition_explain(s, err, detail);
    snib__acquisition_tell(e, s, SNIB__NEWS_RELEASED);
}

/* -- life ----------------------------------------------------------------- */

static bool acquisition_copy_words(struct snib__acquisition *s,
                                   const struct snib__acquire_spec *spec)
{
    if (spec->reason && !(s->reason = snib__strdup(spec->reason))) {
        return false;
    }
    if (!spec->above) {
        return true;
    }
    s->above = snib__alloc(sizeof *s->above);
    if (s->above) {
        *s->above = *spec->above;
    }
    return s->above != NULL;
}

static struct snib__acquisition *
acquisition_blank(struct snib__engine *e, struct snib__local_lock *local,
                  const struct snib__acquire_spec *spec)
{
    struct snib__acquisition *s = snib__alloc(sizeof *s);
    if (!s) {
        return NULL;
    }
    if (!acquisition_copy_words(s, spec) ||
        !snib__heap_reserve(&e->acquisitions, e->counts.acquisitions + 1) ||
        !acquisition_slot_take(e, s)) {
        snib__free(s->above);
        snib__free(s->reason);
        snib__free(s);
        return NULL;
    }
    snib__link_init(&s->link);
    snib__link_init(&s->told);
    snib__link_init(&s->by_owner);
    snib__link_init(&s->nested);
    s->local = local;
    s->owner = spec->owner;
    s->options = (struct snib__acquisition_options){
        .lease = spec->lease,
        .hold_max = spec->hold_max,
        .fixed = spec->fixed,
        .aggressive = spec->aggressive,
        .confirm = spec->confirm,
        .no_reentry = spec->no_reentry,
        .no_hand_over = spec->no_hand_over,
        .try_only = spec->try_only,
        .spin = spec->spin,
        .passes = spec->passes || spec->kind == SNIB_BARRIER,
        .kind = (uint8_t)spec->kind,
        .rank = spec->rank,
        .permits = spec->permits,
        .capacity = spec->capacity,
        .delay = spec->delay};
    s->limit = spec->limit;
    s->reterr = spec->reterr;
    s->user = spec->user;
    s->state = SNIB__ACQ_WAITING;
    local->refs++;
    e->counts.acquisitions++;
    return s;
}

void snib__acquisition_free(struct snib__engine *e, struct snib__acquisition *s)
{
    snib__unlink(&s->link);
    snib__unlink(&s->told);
    snib__unlink(&s->by_owner);
    snib__unlink(&s->nested);
    snib__heap_remove(&e->acquisitions, &s->timer);
    acquisition_slot_give(e, s->ticket);
    snib__local_lock_drop(e, s->local);
    e->counts.acquisitions--;
    snib__free(s->above);
    snib__free(s->reason);
    snib__free(s->trouble);
    snib__free(s);
}

void snib__acquisition_done(struct snib__engine *e, struct snib__acquisition *s)
{
    assert(s->state == SNIB__ACQ_REFUSED || s->state == SNIB__ACQ_GONE);
    snib__acquisition_free(e, s);
}

void snib__engine_abandon(struct snib__engine *e, struct snib__acquisition *s)
{
    if (s->state == SNIB__ACQ_GONE) {
        snib__acquisition_free(e, s);
    } else {
        s->abandoned = true;
        s->reterr = NULL;
        s->user = NULL;
    }
}

/* -- joining the queue ---------------------------------------------------- */

snib_err snib__acquisition_unwound(struct snib__local_lock *local,
                                   uint64_t owner, struct snib_error *reterr)
{
    SNIB__LIST_EACH (l, &snib__local_lock_home(local)->dead) {
        const struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        if (s->owner == owner && s->options.kind != SNIB_PERMITS) {
            return snib__fail(reterr, SNIB_ERR_LOST,
                              "the lock was lost (%s); release every hold of "
                              "this owner before acquiring it again",
                              snib_cause_text((snib_cause)s->cause));
        }
    }
    return SNIB_ERR_OK;
}

/* Queues behind the acquisitions of its rank and of higher ones, and behind one
 * that adopts, which stays first. */
static void acquisition_queue_up(struct snib__local_lock *local,
                                 struct snib__acquisition *s)
{
    struct snib__link *at = local->waiting.head.prev;
    while (at != &local->waiting.head) {
        const struct snib__acquisition *before =
            SNIB__CONTAINER(at, struct snib__acquisition, link);
        if (before->options.rank >= s->options.rank ||
            before == local->claim->adopter) {
            break;
        }
        at = at->prev;
    }
    snib__list_insert(at, &s->link);
}

struct snib__acquisition *
snib__acquisition_new(struct snib__engine *e, struct snib__local_lock *local,
                      const struct snib__acquire_spec *spec)
{
    struct snib__acquisition *s = acquisition_blank(e, local, spec);
    if (s && !local->claim && snib__claim_new(e, local)) {
        snib__acquisition_free(e, s);
        return NULL;
    }
    if (s) {
        acquisition_queue_up(local, s);
        snib__list_push(&e->owners[s->owner % SNIB__OWNERS], &s->by_owner);
        if (spec->timed) {
            snib__heap_set(&e->acquisitions, &s->timer, s->limit);
        }
    }
    return s;
}

/* -- its status ----------------------------------------------------------- */

void snib__engine_status(struct snib__engine *e, snib_instant now,
                         const struct snib__acquisition *s,
                         struct snib_status *ret)
{
    (void)e;
    *ret = (struct snib_status){
        .state = SNIB_RELEASED, .token = s->token, .slot = -1};
    if (s->state != SNIB__ACQ_SERVED && s->state != SNIB__ACQ_DEAD) {
        return;
    }
    ret->kind = (snib_kind)s->options.kind;
    if (ret->kind == SNIB_PERMITS) {
        ret->permits = s->options.permits;
        ret->slot = s->options.slot;
    }
    if (s->state == SNIB__ACQ_DEAD) {
        ret->state = SNIB_LOST;
        ret->cause = (snib_cause)s->cause;
        ret->holds = s->holds;
        return;
    }
    const struct snib__claim *t = s->local->claim;
    snib_instant end = snib__sooner(t->deadline, t->hold_end);
    int64_t left_ns = end.ns - now.ns;
    ret->holds = s->holds;
    ret->held_ms = snib__to_ms(snib__between(s->since, now));
    ret->left_ms = left_ns > 0 ? left_ns / 1000000 : 0;
    ret->state = t->state == SNIB__CLAIM_RISK ? SNIB_AT_RISK : SNIB_HELD;
    ret->cause = (snib_cause)t->cause;
    if (left_ns <= 0 && snib__reached(now, t->hold_end)) {
        ret->state = SNIB_LOST;
        ret->cause = SNIB_CAUSE_HOLD_MAX;
    } else if (left_ns <= 0 && t->aggressive) {
        ret->state = SNIB_AT_RISK;
    } else if (left_ns <= 0) {
        ret->state = SNIB_LOST;
        ret->cause = snib__claim_cause(t);
    }
}
