/* quiet.c — nobody can run: has everybody who waits a reason? */
#include "api/api.h"
#include "judge.h"
#include "kinds.h"
#include "unseen.h"

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
                       (other->drop.open && w->pull) || multis_has(w, b, other);
            bool asks = has || b->waits_for == other;
            holder |= has;
            writer |= asks && !other->reads;
        }
    }
    return holder && (writer || !h->reads);
}

/* Not connected, or not any more: the next attempt is due later. Time that is
 * pushed on may be over a connect's limit. */
static bool is_away(const struct snib_client *c)
{
    UNSEEN;
    for (uint32_t i = 0; i < c->sock.count; i++) {
        const struct snib__socket *l = c->sock.v[i];
        if (l->conn && l->state != SNIB__SOCKET_UP) {
            return true;
        }
    }
    return false;
}

/* One whose answer was lost may have left something at the server, and takes it
 * back when it is connected again. */
static bool somebody_is_away(const struct world *w)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (w->client[i] && is_away(w->client[i])) {
            return true;
        }
    }
    return false;
}

static void check_wait(const struct world *w, const struct actor *a,
                       const struct handle *h)
{
    const char *why = NULL;
    bool both = h == &a->handle[BOTH_A];
    if (w->shut[a->client].closed) {
        why = "its client is closed";
    } else if (a->now == VERB_TAKE && h->start.cancelled) {
        why = "it was cancelled";
    } else if (both && a->both_cancelled) {
        why = "it was cancelled";
    } else if (!has_reason(w, a, h) &&
               !(both && has_reason(w, a, &a->handle[BOTH_B])) &&
               !(w->redis && sched.run->warps && somebody_is_away(w))) {
        why = "nobody else has the lock";
    }
    if (why) {
        books_say_lines(w);
        sched_fail("thread %d waits for %s in %s, nobody runs, and %s",
                   judge_index(w, a), judge_name(h), verb_text[a->now], why);
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

/* A call that was told to queue may believe for that long that an answer is
 * still to come, and leaves what is pushed to nobody. */
#define HOPE_NS (SNIB__HOPE_MS * INT64_C(1000000))

void judge_quiet(struct world *w)
{
    if (w->redis && sched_next() <= sched_now() + HOPE_NS) {
        return;
    }
    for (int i = 0; i < w->actors; i++) {
        const struct actor *a = &w->actor[i];
        if (callback_runs(w)) {
            return;
        }
        if (a->now == VERB_COUNT || a->now == VERB_SLEEP5 || !a->live ||
            (w->redis && sched.run->warps && is_away(w->client[a->client]))) {
            continue;
        }
        const char *why = kinds_idle(w, a);
        if (why == kinds_not) {
            why = a->waits_for ? NULL : "that waits for nobody";
        } else if (!why) {
            continue;
        }
        if (why) {
            books_say_lines(w);
            sched_fail("thread %d is in %s, nobody runs, and %s", i + 1,
                       verb_text[a->now], why);
        }
        check_wait(w, a, a->waits_for);
    }
}
