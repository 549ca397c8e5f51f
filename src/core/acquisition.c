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
 * ENDING    answer, or nothing of ours can be left     GONE; freed if unawaited
 * DEAD      last release                               freed
 * REFUSED,  snib__acquisition_done                     freed
 *   GONE
 *
 * Flags besides the state (core/check.c ties them to it):
 *
 * options.passes  to have been granted is all that the owner wants
 * ended           WAITING, and the request that its claim gives up was made for
 *                 it too: its own end can be confirmed with that one's
 * unsure          LEAVING: UNKNOWN if nothing more is heard, else err
 * unawaited       ENDING: no caller waits, so it is freed when answered
 *
 * Limits belong to acquisitions, never to claims. An owner that gives up leaves
 * the queue of its own process and nothing else; only when the last one has
 * left is the request at the store cancelled.
 *
 * An owner whose grant was lost stays lost for that lock until it has given
 * back every hold: an inner section must not get a fresh grant inside an outer
 * one that is gone. Other owners are free to acquire meanwhile.
 *
 * A ticket is an index and a generation, so a stale one is recognised.
 * Each client counts generations from a number of its own, so that another
 * client's ticket is not taken for one of its own. */
#include <assert.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/engine_i.h"

/* -- tickets -------------------------------------------------------------- */

static bool acquisition_ticket_take(struct snib__engine *e,
                                    struct snib__acquisition *s)
{
    if (!e->ticket_free) {
        uint32_t cap = e->ticket_cap ? 2 * e->ticket_cap : 16;
        struct snib__ticket *v = snib__realloc(e->tickets, cap * sizeof *v);
        if (!v) {
            return false;
        }
        e->tickets = v;
        for (uint32_t i = cap; i-- > e->ticket_cap;) {
            v[i] = (struct snib__ticket){.generation = e->first_generation,
                                         .next_free = e->ticket_free};
            e->ticket_free = i + 1;
        }
        e->ticket_cap = cap;
    }
    uint32_t i = e->ticket_free - 1;
    e->ticket_free = e->tickets[i].next_free;
    e->tickets[i].acq = s;
    s->ticket = ((uint64_t)e->tickets[i].generation << 32) | (i + 1);
    return true;
}

void snib__engine_first_ticket(struct snib__engine *e, uint32_t generation)
{
    assert(!e->ticket_cap);
    e->first_generation = generation ? generation : 1;
}

static void acquisition_ticket_give(struct snib__engine *e, uint64_t ticket)
{
    uint32_t i = (uint32_t)ticket - 1;
    e->tickets[i].acq = NULL;
    if (++e->tickets[i].generation == 0) {
        e->tickets[i].generation = 1;
    }
    e->tickets[i].next_free = e->ticket_free;
    e->ticket_free = i + 1;
}

struct snib__acquisition *snib__engine_acquisition(struct snib__engine *e,
                                                   uint64_t ticket)
{
    uint32_t i = (uint32_t)ticket - 1;
    struct snib__acquisition *s = i < e->ticket_cap ? e->tickets[i].acq : NULL;
    return s && s->ticket == ticket ? s : NULL;
}

bool snib__engine_gave_ticket(const struct snib__engine *e, uint64_t ticket)
{
    uint32_t i = (uint32_t)ticket - 1, first = e->first_generation;
    return i < e->ticket_cap &&
           (uint32_t)(ticket >> 32) - first < e->tickets[i].generation - first;
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

void snib__acquisition_untell(struct snib__acquisition *s)
{
    s->news = 0;
    snib__unlink(&s->told);
}

/* Sets its outcome to err, in the store's words if detail has that code. */
static void acquisition_explain(struct snib__acquisition *s, snib_err err,
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
    snib__nested_leave(s);
    snib__heap_remove(&e->acquisitions, &s->timer);
    s->state = SNIB__ACQ_REFUSED;
    acquisition_explain(s, err, detail);
    snib__acquisition_tell(e, s, SNIB__NEWS_SETTLED);
}

void snib__acquisition_gone(struct snib__engine *e, struct snib__acquisition *s,
                            snib_err err, const struct snib_error *detail)
{
    assert(s->state == SNIB__ACQ_ENDING);
    if (s->unawaited) {
        snib__acquisition_free(e, s);
        return;
    }
    s->state = SNIB__ACQ_GONE;
    acquisition_explain(s, err, detail);
    snib__acquisition_tell(e, s, SNIB__NEWS_RELEASED);
}

/* -- giving up, and the store's answer to it ------------------------------ */

bool snib__acquisition_start_leaving(struct snib__engine *e, snib_instant now,
                                     struct snib__acquisition *s, snib_err err,
                                     bool unsure)
{
    struct snib__claim *t = s->local->claim;
    struct snib__store_state is;
    snib_instant from = err == SNIB_ERR_TIMEOUT ? s->limit : now;
    snib_instant until = snib__after(
        from,
        (snib_duration){e->cfg.request.ns /
                        (unsure ? SNIB__UNSURE_PART : SNIB__CONFIRM_PART)});
    snib__engine_store_state(e, now, &is);
    assert(s->state == SNIB__ACQ_WAITING && !t->holder &&
           (!t->ender || t->ender->state == SNIB__ACQ_LEAVING));
    if (snib__reached(now, until) || is.err) {
        return false;
    }
    snib__unlink(&s->link);
    snib__nested_leave(s);
    s->state = SNIB__ACQ_LEAVING;
    s->err = err;
    s->unsure = unsure;
    if (t->ender) {
        snib__list_insert(&t->ender->link, &s->link);
    } else {
        t->ender = s;
    }
    snib__heap_set(&e->acquisitions, &s->timer, until);
    return true;
}

snib_err snib__acquisition_outcome(const struct snib__acquisition *s,
                                   bool confirmed)
{
    return s->unsure && !confirmed ? SNIB_ERR_UNKNOWN : s->err;
}

void snib__acquisition_awaits_no_end(struct snib__acquisition *s)
{
    struct snib__claim *t = s->local->claim;
    if (t && t->ender == s) {
        t->ender =
            snib__linked(&s->link)
                ? SNIB__CONTAINER(s->link.next, struct snib__acquisition, link)
                : NULL;
    }
    snib__unlink(&s->link);
}

void snib__acquisition_left(struct snib__engine *e, struct snib__acquisition *s,
                            bool confirmed)
{
    assert(s->state == SNIB__ACQ_LEAVING);
    snib__acquisition_awaits_no_end(s);
    snib__heap_remove(&e->acquisitions, &s->timer);
    s->state = SNIB__ACQ_REFUSED;
    acquisition_explain(s, snib__acquisition_outcome(s, confirmed), NULL);
    snib__acquisition_tell(e, s, SNIB__NEWS_SETTLED);
}

bool snib__acquisition_had(struct snib__engine *e, snib_instant now,
                           struct snib__acquisition *s, int64_t token)
{
    if (!s || !s->options.passes || token <= 0 ||
        (s->state != SNIB__ACQ_LEAVING && s->state != SNIB__ACQ_WAITING)) {
        return false;
    }
    snib__acquisition_awaits_no_end(s);
    snib__unlink(&s->link);
    snib__nested_leave(s);
    snib__heap_remove(&e->acquisitions, &s->timer);
    s->state = SNIB__ACQ_DEAD;
    s->holds = 1;
    s->token = token;
    s->since = now;
    s->err = SNIB_ERR_OK;
    s->shown = SNIB_STATE_LOST;
    s->cause = SNIB_CAUSE_EXPIRED;
    snib__list_push(&snib__local_lock_home(s->local)->dead, &s->link);
    snib__acquisition_tell(e, s, SNIB__NEWS_SETTLED);
    return true;
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

struct snib__acquisition *
snib__acquisition_new(struct snib__engine *e, struct snib__local_lock *local,
                      const struct snib__acquire_spec *spec)
{
    struct snib__acquisition *s = snib__alloc(sizeof *s);
    if (!s) {
        return NULL;
    }
    if (!acquisition_copy_words(s, spec) ||
        !snib__heap_reserve(&e->acquisitions, e->counts.acquisitions + 1) ||
        !acquisition_ticket_take(e, s)) {
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
        .keep_ms = spec->keep_ms,
        .no_hand_over = spec->no_hand_over,
        .try_only = spec->try_only,
        .spin = spec->spin,
        .passes = spec->passes || spec->kind == SNIB_KIND_BARRIER,
        .kind = (uint8_t)spec->kind,
        .priority = spec->priority,
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
    snib__nested_leave(s);
    snib__heap_remove(&e->acquisitions, &s->timer);
    acquisition_ticket_give(e, s->ticket);
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

void snib__engine_stop_awaiting(struct snib__engine *e,
                                struct snib__acquisition *s)
{
    if (s->state == SNIB__ACQ_GONE) {
        snib__acquisition_free(e, s);
    } else {
        s->unawaited = true;
        s->reterr = NULL;
        s->user = NULL;
    }
}

/* -- joining the queue ---------------------------------------------------- */

void snib__acquisition_queue_up(struct snib__engine *e,
                                struct snib__acquisition *s, bool timed)
{
    const struct snib__local_lock *local = s->local;
    struct snib__link *at = local->waiting.head.prev;
    while (at != &local->waiting.head) {
        const struct snib__acquisition *before =
            SNIB__CONTAINER(at, struct snib__acquisition, link);
        if (before->options.priority >= s->options.priority ||
            before == local->claim->adopter) {
            break;
        }
        at = at->prev;
    }
    snib__list_insert(at, &s->link);
    snib__list_push(&e->owners[s->owner % SNIB__OWNERS], &s->by_owner);
    if (timed) {
        snib__heap_set(&e->acquisitions, &s->timer, s->limit);
    }
}

/* -- what its request says ------------------------------------------------ */

bool snib__acquisition_about(const struct snib__engine *e, snib_instant now,
                             const struct snib__acquisition *s,
                             struct snib__buf *out)
{
    struct snib__about about = e->self;
    /* A fixed lease may be exported at any moment, even by a process that is
     * killed right after it. So it never ends with our process, and the store
     * is told so from the beginning. */
    about.leashed = about.leashed || s->options.fixed;
    /* A nested wait may have stood in the local queue before. */
    bool nested = snib__linked(&s->nested);
    snib_instant since = nested ? s->since : now;
    about.since_ms = (since.ns + e->cfg.wall_offset_ns) / 1000000;
    if (s->reason) {
        size_t i = 0;
        for (; s->reason[i] && i + 1 < sizeof about.reason; i++) {
            about.reason[i] = s->reason[i];
        }
        about.reason[i] = 0;
    }
    about.owner = (int64_t)(s->owner & ~SNIB__OWNER_FREE);
    if (nested) {
        snib__nested_about(e, s, &about);
    }
    snib__buf_clear(out);
    snib__about_write_on(&e->self_head, &about, out);
    return about.held_count && !out->failed;
}

bool snib__acquisition_upgrade_of(struct snib__engine *e,
                                  const struct snib__acquisition *s,
                                  uint64_t ret[2])
{
    const struct snib__acquisition *other =
        snib__engine_acquisition(e, s->options.upgrade_of);
    if (!other || other->state != SNIB__ACQ_SERVED) {
        return false;
    }
    ret[0] = other->local->claim->id[0];
    ret[1] = other->local->claim->id[1];
    return true;
}
