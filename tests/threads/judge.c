/* judge.c — the rules of answers. Only one thread runs at a time, so nothing
 * here needs a lock; between a call's last point and its judgement no other
 * thread has run. */
#include "judge.h"

#include <string.h>

#include "unseen.h"

/* Of a lease, so much before its end a deadline may lie (1 % + 5 ms). */
#define SURE_NS ((LEASE_MS - LEASE_MS / 100 - 5) * INT64_C(1000000))
/* A call that gives up waits so long for the answer to its cancel. */
#define CANCEL_NS INT64_C(400000000)

static const char *const verbs[] = {
#define VERB(name, text) text,
    VERBS(VERB)
#undef VERB
};

const char *judge_name(const struct handle *h)
{
    static const char *const names[] = {"a", "b", "s"};
    return names[h->name];
}

static int index_of(const struct world *w, const struct actor *a)
{
    return (int)(a - w->actor) + 1;
}

_Noreturn static void wrong(const struct world *w, const struct actor *a,
                            const char *call, snib_err err, const char *why)
{
    sched_fail("thread %d: %s answered %s: %s", index_of(w, a), call,
               snib_err_name(err), why);
}

static void wants(struct world *w, struct handle *h, bool yes)
{
    if (h->wants != yes) {
        h->wants = yes;
        w->name[h->name].wanted += yes ? 1 : UINT32_MAX;
        w->name[h->name].came += yes;
    }
}

/* Is what was granted through it beyond doubt still its own? */
static bool surely_holds(const struct world *w, const struct actor *a,
                         const struct handle *h)
{
    return h->count && h->forces == w->name[h->name].forces &&
           !w->shut[a->client].stopping && sched_now() < h->since + SURE_NS;
}

static bool same_owner(const struct actor *a, const struct handle *h, bool lane,
                       const struct actor *b, const struct handle *k)
{
    return a == b && (h == k || (!lane && !k->lane && !h->permits));
}

static bool holds_anything(const struct actor *a)
{
    for (int i = 0; i < LETTERS; i++) {
        if (a->handle[i].count) {
            return true;
        }
    }
    return false;
}

/* -- granted ---------------------------------------------------------------------- */

/* UNKNOWN and UNREACHABLE are for answers that took long, which needs a push
 * of time. */
static bool was_late(snib_err err, uint32_t warps)
{
    return (err == SNIB_ERR_UNKNOWN || err == SNIB_ERR_UNREACHABLE) &&
           warps != sched.run->warps;
}

static void check_alone(const struct world *w, const struct actor *a,
                        const struct handle *h, bool lane)
{
    for (int i = 0; i < w->actors; i++) {
        const struct actor *b = &w->actor[i];
        for (int k = 0; k < LETTERS; k++) {
            const struct handle *other = &b->handle[k];
            /* What another client holds it may not know to be forced. */
            bool sure = a->client == b->client || !w->name[h->name].forces;
            if (other->name == h->name && sure && surely_holds(w, b, other) &&
                !same_owner(a, h, lane, b, other) &&
                !(h->reads && other->reads)) {
                sched_fail("two owners of %s: thread %d has it, and thread %d "
                           "was granted it",
                           judge_name(h), index_of(w, b), index_of(w, a));
            }
        }
    }
}

static bool holds_name(const struct actor *a, int name)
{
    for (int i = 0; i < LETTERS; i++) {
        if (a->handle[i].name == name && a->handle[i].count) {
            return true;
        }
    }
    return false;
}

static void granted(struct world *w, struct actor *a, struct handle *h,
                    struct snib_grant grant, bool lane, uint32_t forces)
{
    bool again = holds_name(a, h->name);
    if (forces == w->name[h->name].forces) {
        check_alone(w, a, h, lane);
    }
    if (!grant.ticket || grant.token <= 0) {
        sched_fail("thread %d: a grant without ticket or token",
                   index_of(w, a));
    }
    if (h->count && grant.ticket != h->grant.ticket) {
        sched_fail("thread %d: a re-entry with another ticket", index_of(w, a));
    }
    if (!h->reads && !again && !w->name[h->name].blurred &&
        !w->name[h->name].forces) {
        if (grant.token <= w->name[h->name].token) {
            sched_fail("thread %d: its token does not rise", index_of(w, a));
        }
        w->name[h->name].token = grant.token;
    }
    if (!h->count++) {
        h->grant = grant;
        h->lane = lane;
        h->since = sched_now();
        h->forces = forces;
    }
}

/* -- calls that wait ----------------------------------------------------------------- */

static void begin(struct world *w, struct actor *a, struct handle *h,
                  int64_t wait_ms)
{
    uint32_t mine = 0;
    for (int i = 0; i < LETTERS; i++) {
        const struct handle *k = &a->handle[i];
        mine += k->wants && k->name == h->name && !k->lane && !k->start.open;
    }
    a->others = w->name[h->name].wanted - mine;
    wants(w, h, true);
    a->came = w->name[h->name].came;
    a->began = sched_now();
    a->limit = wait_ms < 0 ? INT64_MAX : a->began + wait_ms * INT64_C(1000000);
    a->warps = sched.run->warps;
    a->forces = w->name[h->name].forces;
    a->shut = w->shut[a->client].closed;
}

void judge_asks(struct world *w, struct actor *a, struct handle *h,
                int64_t wait_ms)
{
    begin(w, a, h, wait_ms);
    a->waits_for = h;
}

static void check_timeout(const struct world *w, const struct actor *a,
                          const char *call, int64_t limit, uint32_t warps)
{
    if (sched_now() < limit) {
        wrong(w, a, call, SNIB_ERR_TIMEOUT, "its limit is still ahead");
    }
    if (warps == sched.run->warps && sched_now() > limit + CANCEL_NS) {
        wrong(w, a, call, SNIB_ERR_TIMEOUT, "its limit is long over");
    }
}

static void check_refusal(const struct world *w, const struct actor *a,
                          const struct handle *h, snib_err err)
{
    const char *call = verbs[a->now];
    const char *why = NULL;
    if (err == SNIB_ERR_BUSY) {
        why = a->now != VERB_TRY ? "it is no try"
              : !a->others && a->came == w->name[h->name].came &&
                      !w->name[h->name].blurred
                  ? "nobody else had or wanted it"
                  : NULL;
    } else if (err == SNIB_ERR_TIMEOUT && a->now == VERB_WAIT5) {
        check_timeout(w, a, call, a->limit, a->warps);
    } else if (err == SNIB_ERR_CLOSED) {
        why = w->shut[a->client].closing ? NULL : "nobody has closed it";
    } else if (err == SNIB_ERR_LOST) {
        why = w->name[h->name].forces || a->warps || sched.run->warps
                  ? NULL
                  : "nothing was lost";
    } else if (err == SNIB_ERR_DEADLOCK) {
        why = holds_anything(a) ? NULL : "it holds nothing";
    } else if (!was_late(err, a->warps)) {
        why = "that may not be";
    }
    if (why) {
        wrong(w, a, call, err, why);
    }
}

void judge_acquired(struct world *w, struct actor *a, struct handle *h,
                    snib_err err, struct snib_grant grant, const char *text)
{
    a->waits_for = NULL;
    sched_say("= %s %s %d", snib_err_name(err), err ? text : "",
              (int)(grant.token % 1000000));
    if (a->shut && err != SNIB_ERR_CLOSED) {
        wrong(w, a, verbs[a->now], err, "its client was closed before");
    }
    if (!err) {
        granted(w, a, h, grant, false, a->forces);
        return;
    }
    if (grant.ticket) {
        wrong(w, a, verbs[a->now], err, "and a grant");
    }
    check_refusal(w, a, h, err);
    if (!h->count) {
        wants(w, h, false);
    }
}

/* -- giving back --------------------------------------------------------------------- */

void judge_gives_back(struct world *w, struct actor *a, struct handle *h)
{
    (void)w;
    a->lost_ok = !surely_holds(w, a, h);
    h->count--;
}

static const char *bad_end(const struct world *w, const struct actor *a,
                           const struct handle *h, snib_err err)
{
    bool forced = w->name[h->name].forces > 0; /* heard of it late or not */
    bool stopping = w->shut[a->client].stopping;
    bool late = a->lost_ok || sched_now() >= h->since + SURE_NS;
    switch (err) {
    case SNIB_ERR_OK:
        return NULL;
    case SNIB_ERR_LOST:
        return forced || stopping || late ? NULL : "nothing was lost";
    case SNIB_ERR_CLOSED:
        return stopping ? NULL : "its client was not stopped";
    default:
        return was_late(err, 0) ? NULL : "that may not be";
    }
}

void judge_released(struct world *w, struct actor *a, struct handle *h,
                    snib_err err, const char *text)
{
    sched_say("= %s %s", snib_err_name(err), err ? text : "");
    const char *why = bad_end(w, a, h, err);
    if (why) {
        wrong(w, a, "release", err, why);
    }
    if (!h->count) {
        h->lane = false;
        wants(w, h, false);
    }
}

void judge_renewed(struct world *w, struct actor *a, struct handle *h,
                   snib_err err)
{
    a->lost_ok = !surely_holds(w, a, h);
    const char *why = bad_end(w, a, h, err);
    sched_say("= %s", snib_err_name(err));
    if (why) {
        wrong(w, a, "renew", err, why);
    }
}

void judge_status(struct world *w, struct actor *a, struct handle *h,
                  const struct snib_status *is, const char *explained)
{
    sched_say("= %s %d, %lld of %lld ms, %u %s", snib_state_text(is->state),
              (int)is->reason, (long long)is->left_ms, (long long)is->held_ms,
              is->holds, explained);
    if (!surely_holds(w, a, h)) {
        return;
    }
    if (is->state != SNIB_HELD &&
        !(is->state == SNIB_AT_RISK && sched.run->warps)) {
        sched_fail("thread %d: status says %s of what it holds", index_of(w, a),
                   snib_state_text(is->state));
    }
    if (is->token != h->grant.token || (is->state == SNIB_HELD && *explained)) {
        sched_fail("thread %d: status or explain is wrong", index_of(w, a));
    }
}

void judge_answer(struct world *w, struct actor *a, verb v, snib_err err)
{
    sched_say("= %s", snib_err_name(err));
    bool ended = err == SNIB_ERR_CLOSED ||
                 (v == VERB_FORCE && err == SNIB_ERR_UNKNOWN); /* once asked */
    if (err && !was_late(err, 0) && !(ended && w->shut[a->client].closing)) {
        wrong(w, a, verbs[v], err, "that may not be");
    }
}

void judge_forces(struct world *w, struct handle *h, bool silently)
{
    w->name[h->name].forces++;
    w->name[h->name].expired |= silently;
}

void judge_frees(struct world *w, struct actor *a, struct handle *h)
{
    (void)a;
    w->name[h->name].blurred = true;
    h->count = 0;
    h->lane = false;
    h->start.cancelled = h->start.freed = true;
    wants(w, h, false);
}

void judge_closes(struct world *w, int client, bool stop)
{
    w->shut[client].closing = true;
    w->shut[client].stopping |= stop;
}

/* -- started, and events ------------------------------------------------------------------ */

void judge_starts(struct world *w, struct actor *a, struct handle *h,
                  int64_t wait_ms)
{
    begin(w, a, h, wait_ms);
    h->start.open = true;
    h->start.answered = h->start.cancelled = false;
    h->start.events = 0;
    h->start.limit = a->limit;
    h->start.since = a->began;
    h->start.warps = a->warps;
    h->start.forces = a->forces;
}

void judge_started(struct world *w, struct actor *a, struct handle *h,
                   snib_err err, uint64_t ticket)
{
    sched_say("= %s", snib_err_name(err));
    h->start.ticket = ticket;
    if (a->shut && err != SNIB_ERR_CLOSED) {
        wrong(w, a, "start", err, "its client was closed before");
    }
    if (err) {
        h->start.open = false;
        wants(w, h, false);
        if (err != SNIB_ERR_CLOSED || !w->shut[a->client].closing) {
            wrong(w, a, "start", err, "that may not be");
        }
        if (h->start.events) {
            wrong(w, a, "start", err, "and an event");
        }
    }
}

void judge_drops(struct world *w, struct actor *a, struct handle *h)
{
    (void)w;
    (void)a;
    h->drop.open = true;
    h->drop.answered = false;
    h->drop.events = 0;
}

void judge_dropped(struct world *w, struct actor *a, struct handle *h,
                   snib_err err)
{
    sched_say("= %s", snib_err_name(err));
    if (err) {
        h->drop.open = false;
        const char *why = bad_end(w, a, h, err);
        if (why) {
            wrong(w, a, "drop", err, why);
        }
        wants(w, h, false);
    }
}

static void check_refused(const struct world *w, const struct start *s,
                          snib_err err)
{
    const char *why = NULL;
    if (err == SNIB_ERR_CANCELLED) {
        why = s->cancelled ? NULL : "nobody cancelled it";
    } else if (err == SNIB_ERR_TIMEOUT) {
        check_timeout(w, s->owner, "start", s->limit, s->warps);
    } else if (err == SNIB_ERR_LOST) {
        why = w->name[s->of->name].forces ? NULL : "nothing was lost";
    } else if (err == SNIB_ERR_CLOSED) {
        why = w->shut[s->owner->client].closing ? NULL : "nobody closed it";
    } else if (!was_late(err, s->warps) &&
               !(err == SNIB_ERR_UNKNOWN && s->freed)) {
        why = "that may not be";
    }
    if (why) {
        wrong(w, s->owner, "start", err, why);
    }
}

void judge_event(struct world *w, const struct snib_event *ev)
{
    struct start *s = ev->user;
    UNSEEN;
    if (!s) {
        sched_fail("an event of nobody");
    }
    if (ev->kind == SNIB_EV_STATE) {
        return;
    }
    sched_say("event of thread %d: %d %s %s", index_of(w, s->owner),
              (int)ev->kind, snib_err_name(ev->error.code), ev->error.text);
    if (!s->open || s->events++) {
        sched_fail("thread %d: a second event of one start",
                   index_of(w, s->owner));
    }
    if (s->drops ? ev->kind != SNIB_EV_RELEASED
                 : ev->kind != SNIB_EV_GRANTED && ev->kind != SNIB_EV_REFUSED) {
        sched_fail("thread %d: an event of another kind",
                   index_of(w, s->owner));
    }
    if (ev->kind == SNIB_EV_REFUSED) {
        check_refused(w, s, ev->error.code);
    } else if (ev->kind == SNIB_EV_GRANTED && ev->error.code) {
        wrong(w, s->owner, "start", ev->error.code, "and was granted");
    } else if (ev->kind == SNIB_EV_RELEASED) {
        const char *why = bad_end(w, s->owner, s->of, ev->error.code);
        if (why && !(ev->error.code == SNIB_ERR_UNKNOWN &&
                     w->shut[s->owner->client].stopping)) {
            wrong(w, s->owner, "drop", ev->error.code, why);
        }
    }
    s->ev = *ev;
    s->answered = true;
}

void judge_took(struct world *w, struct actor *a, struct handle *h)
{
    struct start *s = &h->start;
    s->open = false;
    if (s->ev.kind == SNIB_EV_GRANTED && !w->shut[a->client].stopping) {
        granted(w, a, h, s->ev.grant, true, s->forces);
        h->since = s->since; /* at the earliest */
    } else {
        wants(w, h, false);
    }
}

void judge_took_drop(struct world *w, struct actor *a, struct handle *h)
{
    (void)a;
    h->drop.open = false;
    h->lane = false;
    wants(w, h, false);
}

void judge_all_answered(struct world *w)
{
    for (int i = 0; i < w->actors; i++) {
        for (int k = 0; k < LETTERS; k++) {
            const struct handle *h = &w->actor[i].handle[k];
            if ((h->start.open && !h->start.answered) ||
                (h->drop.open && !h->drop.answered)) {
                sched_fail("thread %d: a start has had no event", i + 1);
            }
        }
    }
}

/* -- quiet ------------------------------------------------------------------------------- */

/* Has anybody else what h waits for? What a pull client has let go stays
 * until it is driven. A grant that was made to expire before its client had
 * heard of it is asked for again by the next poll only. */
static bool has_reason(const struct world *w, const struct actor *a,
                       const struct handle *h)
{
    bool holder =
        (w->pull && w->name[h->name].blurred) || w->name[h->name].expired;
    bool writer = holder;
    for (int i = 0; i < w->actors; i++) {
        const struct actor *b = &w->actor[i];
        for (int k = 0; k < LETTERS; k++) {
            const struct handle *other = &b->handle[k];
            if (other->name != h->name || !other->lock ||
                (a == b && h == other)) {
                continue;
            }
            bool has = other->count || other->start.open ||
                       (other->drop.open && w->pull);
            bool asks = has || b->waits_for == other;
            holder |= has;
            writer |= asks && !other->reads;
        }
    }
    return holder && (writer || !h->reads);
}

static void check_wait(const struct world *w, const struct actor *a,
                       const struct handle *h)
{
    const char *why = NULL;
    if (w->shut[a->client].closed) {
        why = "its client is closed";
    } else if (a->now == VERB_TAKE && h->start.cancelled) {
        why = "it was cancelled";
    } else if (!has_reason(w, a, h)) {
        why = "nobody else has the lock";
    }
    if (why) {
        sched_fail("thread %d waits for %s in %s, nobody runs, and %s",
                   index_of(w, a), judge_name(h), verbs[a->now], why);
    }
}

/* While a callback runs the client's thread does nothing else, and whoever
 * frees its handle waits. */
static bool callback_runs(const struct world *w)
{
    for (int i = 0; i < w->actors; i++) {
        for (int k = 0; k < LETTERS; k++) {
            if (w->actor[i].handle[k].calling) {
                return true;
            }
        }
    }
    return false;
}

void judge_quiet(struct world *w)
{
    for (int i = 0; i < w->actors; i++) {
        const struct actor *a = &w->actor[i];
        if (callback_runs(w)) {
            return;
        }
        if (a->now == VERB_COUNT || a->now == VERB_SLEEP5 || !a->live) {
            continue;
        }
        if (!a->waits_for) {
            sched_fail("thread %d is in %s, nobody runs, and that waits for "
                       "nobody",
                       i + 1, verbs[a->now]);
        }
        check_wait(w, a, a->waits_for);
    }
}
