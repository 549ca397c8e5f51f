/* judge.c — the rules of answers. Only one thread runs at a time, so nothing
 * here needs a lock; between a call's last point and its judgement no other
 * thread has run. */
#include "judge.h"

#include <string.h>

/* Of a lease, so much before its end a deadline may lie (1 % + 5 ms). */
#define SURE_NS ((LEASE_MS - LEASE_MS / 100 - 5) * INT64_C(1000000))
/* A call that gives up waits so long for the answer to its cancel. */
#define CANCEL_NS INT64_C(400000000)

const char *judge_name(const struct handle *h)
{
    static const char *const names[] = {"a", "b", "s", "t"};
    return names[h->name];
}

int judge_index(const struct world *w, const struct actor *a)
{
    return (int)(a - w->actor) + 1;
}

void judge_wrong(const struct world *w, const struct actor *a, const char *call,
                 snib_err err, const char *why)
{
    sched_fail("thread %d: %s answered %s: %s", judge_index(w, a), call,
               snib_err_name(err), why);
}

void judge_wants(struct world *w, struct handle *h, bool yes)
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
           !w->name[h->name].forcing && !w->shut[a->client].stopping &&
           sched_now() < h->since + SURE_NS;
}

static bool same_owner(const struct actor *a, const struct handle *h,
                       bool owner, const struct actor *b,
                       const struct handle *k)
{
    return a == b && (h == k || (!owner && !k->owner && !h->permits));
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
bool judge_was_late(snib_err err, uint32_t warps)
{
    return (err == SNIB_ERR_UNKNOWN || err == SNIB_ERR_UNREACHABLE) &&
           warps != sched.run->warps;
}

static void check_alone(const struct world *w, const struct actor *a,
                        const struct handle *h, bool owner)
{
    for (int i = 0; i < w->actors; i++) {
        const struct actor *b = &w->actor[i];
        for (int k = 0; k < LETTERS; k++) {
            const struct handle *other = &b->handle[k];
            /* What another client holds it may not know to be forced. */
            bool sure = a->client == b->client || !w->name[h->name].forces;
            if (other->name == h->name && sure && surely_holds(w, b, other) &&
                !same_owner(a, h, owner, b, other) &&
                !(h->reads && other->reads)) {
                sched_fail("two owners of %s: thread %d has it, and thread %d "
                           "was granted it",
                           judge_name(h), judge_index(w, b), judge_index(w, a));
            }
        }
    }
}

/* Of t, which has more than one. */
static void check_room(const struct world *w, const struct actor *a,
                       const struct handle *h)
{
    uint32_t held = h->permits_held;
    for (int i = 0; i < w->actors; i++) {
        for (int k = 0; k < LETTERS; k++) {
            const struct handle *other = &w->actor[i].handle[k];
            if (other != h && other->name == h->name &&
                surely_holds(w, &w->actor[i], other)) {
                held += other->permits_held;
            }
        }
    }
    if (held > SIZE_T) {
        sched_fail("%u permits of %s are out, the last to thread %d", held,
                   judge_name(h), judge_index(w, a));
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

void judge_granted(struct world *w, struct actor *a, struct handle *h,
                   struct snib_grant grant, bool owner, uint32_t forces)
{
    bool again = holds_name(a, h->name);
    bool many = h->permits && h->permits_held;
    bool ended = w->shut[a->client].stopping; /* others may have it already */
    bool sure = forces == w->name[h->name].forces && !ended;
    if (sure && !many) {
        check_alone(w, a, h, owner);
    } else if (sure) {
        check_room(w, a, h);
    }
    if (!grant.ticket || grant.token <= 0) {
        sched_fail("thread %d: a grant without ticket or token",
                   judge_index(w, a));
    }
    if (h->count && grant.ticket != h->grant.ticket) {
        sched_fail("thread %d: a re-entry with another ticket",
                   judge_index(w, a));
    }
    if (!h->reads && !again && !many && !ended && !w->name[h->name].blurred &&
        !w->name[h->name].forces) {
        if (grant.token <= w->name[h->name].token) {
            sched_fail("thread %d: its token does not rise", judge_index(w, a));
        }
        w->name[h->name].token = grant.token;
    }
    if (!h->count++) {
        h->grant = grant;
        h->owner = owner;
        h->since = a->began; /* at the earliest */
        h->forces = forces;
    }
}

/* -- calls that wait ----------------------------------------------------------------- */

/* Across a network a connection is given up for one request's sake, and what
 * was sent there later has no answer either: time that was pushed on before a
 * call counts, too. */
uint32_t judge_warps(const struct world *w)
{
    return w->redis || w->far ? 0 : sched.run->warps;
}

void judge_limits(struct world *w, struct actor *a, int64_t wait_ms)
{
    a->began = sched_now();
    a->limit = wait_ms == INT64_MAX ? INT64_MAX
                                    : a->began + wait_ms * INT64_C(1000000);
    a->warps = judge_warps(w);
    a->shut = w->shut[a->client].closed;
}

void judge_begin(struct world *w, struct actor *a, struct handle *h,
                 int64_t wait_ms)
{
    uint32_t mine = 0;
    for (int i = 0; i < LETTERS; i++) {
        const struct handle *k = &a->handle[i];
        mine += k->wants && k->name == h->name && !k->owner && !k->start.open;
    }
    a->others = w->name[h->name].wanted - mine;
    judge_wants(w, h, true);
    a->came = w->name[h->name].came;
    a->forces = w->name[h->name].forces;
    judge_limits(w, a, wait_ms);
}

void judge_asks(struct world *w, struct actor *a, struct handle *h,
                int64_t wait_ms)
{
    judge_begin(w, a, h, wait_ms);
    a->waits_for = h;
}

void judge_timeout(const struct world *w, const struct actor *a,
                   const char *call, int64_t limit, uint32_t warps)
{
    if (sched_now() < limit) {
        judge_wrong(w, a, call, SNIB_ERR_TIMEOUT, "its limit is still ahead");
    }
    if (warps == sched.run->warps && sched_now() > limit + CANCEL_NS) {
        judge_wrong(w, a, call, SNIB_ERR_TIMEOUT, "its limit is long over");
    }
}

static void check_refusal(const struct world *w, const struct actor *a,
                          const struct handle *h, snib_err err)
{
    const char *call = verb_text[a->now];
    const char *why = NULL;
    if (err == SNIB_ERR_BUSY) {
        why = a->now != VERB_TRY && a->now != VERB_DRAIN ? "it is no try"
              : !a->others && a->came == w->name[h->name].came &&
                      !w->name[h->name].blurred && !w->shut[a->client].stopping
                  ? "nobody else had or wanted it"
                  : NULL;
    } else if (err == SNIB_ERR_TIMEOUT && a->now == VERB_WAIT5) {
        judge_timeout(w, a, call, a->limit, a->warps);
    } else if (err == SNIB_ERR_CLOSED) {
        why = w->shut[a->client].closing ? NULL : "nobody has closed it";
    } else if (err == SNIB_ERR_LOST) {
        why = w->name[h->name].forces || a->warps || sched.run->warps
                  ? NULL
                  : "nothing was lost";
    } else if (err == SNIB_ERR_DEADLOCK) {
        why = holds_anything(a) ? NULL : "it holds nothing";
    } else if (!judge_was_late(err, a->warps)) {
        why = "that may not be";
    }
    if (why) {
        judge_wrong(w, a, call, err, why);
    }
}

void judge_acquired(struct world *w, struct actor *a, struct handle *h,
                    snib_err err, struct snib_grant grant, const char *text)
{
    a->waits_for = NULL;
    sched_say("= %s %s %d", snib_err_name(err), err ? text : "",
              (int)(grant.token % 1000000));
    if (a->shut && err != SNIB_ERR_CLOSED) {
        judge_wrong(w, a, verb_text[a->now], err,
                    "its client was closed before");
    }
    if (!err) {
        judge_granted(w, a, h, grant, false, a->forces);
        return;
    }
    if (grant.ticket) {
        judge_wrong(w, a, verb_text[a->now], err, "and a grant");
    }
    check_refusal(w, a, h, err);
    if (!h->count) {
        judge_wants(w, h, false);
    }
}

/* A drain of t, whose permits are counted. Nobody else had any: it has all. */
void judge_drained(struct world *w, struct actor *a, struct handle *h,
                   snib_err err)
{
    bool alone = !a->others && a->came == w->name[h->name].came &&
                 !w->name[h->name].blurred && !w->name[h->name].forces &&
                 !w->shut[a->client].stopping;
    if (!err && alone && h->permits_held != SIZE_T) {
        sched_fail(
            "thread %d: drain took %u permits, and nobody had the others",
            judge_index(w, a), h->permits_held);
    }
}

/* -- giving back --------------------------------------------------------------------- */

void judge_gives_back(struct world *w, struct actor *a, struct handle *h)
{
    (void)w;
    a->lost_ok = !surely_holds(w, a, h);
    h->count--;
}

const char *judge_bad_end(const struct world *w, const struct actor *a,
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
        return judge_was_late(err, 0) ? NULL : "that may not be";
    }
}

void judge_released(struct world *w, struct actor *a, struct handle *h,
                    snib_err err, const char *text)
{
    sched_say("= %s %s", snib_err_name(err), err ? text : "");
    const char *why = judge_bad_end(w, a, h, err);
    if (why) {
        judge_wrong(w, a, "release", err, why);
    }
    if (!h->count) {
        h->owner = false;
        judge_wants(w, h, false);
    }
}

void judge_renewed(struct world *w, struct actor *a, struct handle *h,
                   snib_err err)
{
    a->lost_ok = !surely_holds(w, a, h);
    const char *why = judge_bad_end(w, a, h, err);
    sched_say("= %s", snib_err_name(err));
    if (why) {
        judge_wrong(w, a, "renew", err, why);
    }
}

void judge_status(struct world *w, struct actor *a, struct handle *h,
                  const struct snib_status *is, const char *explained)
{
    sched_say("= %s %d, %lld of %lld ms, %u %s", snib_state_text(is->state),
              (int)is->cause, (long long)is->left_ms, (long long)is->held_ms,
              is->holds, explained);
    if (!surely_holds(w, a, h)) {
        return;
    }
    if (is->state != SNIB_STATE_HELD &&
        !(is->state == SNIB_STATE_AT_RISK && sched.run->warps)) {
        sched_fail("thread %d: status says %s of what it holds",
                   judge_index(w, a), snib_state_text(is->state));
    }
    if (is->token != h->grant.token ||
        (is->state == SNIB_STATE_HELD && *explained)) {
        sched_fail("thread %d: status or explain is wrong", judge_index(w, a));
    }
}

void judge_answer(struct world *w, struct actor *a, verb v, snib_err err)
{
    sched_say("= %s", snib_err_name(err));
    bool changes = v == VERB_FORCE || v == VERB_SET || v == VERB_DOWN;
    bool ended = err == SNIB_ERR_CLOSED ||
                 (changes && err == SNIB_ERR_UNKNOWN); /* once asked */
    if (err && !judge_was_late(err, 0) &&
        !(ended && w->shut[a->client].closing)) {
        judge_wrong(w, a, verb_text[v], err, "that may not be");
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
    h->owner = false;
    h->start.cancelled = h->start.freed = true;
    judge_wants(w, h, false);
}

void judge_closes(struct world *w, int client, bool stop)
{
    w->shut[client].closing = true;
    w->shut[client].stopping |= stop;
}
