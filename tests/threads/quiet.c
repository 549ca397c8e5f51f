/* quiet.c — nobody can run: has everybody who waits a reason? */
#include "judge.h"
#include "kinds.h"

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
               !(both && has_reason(w, a, &a->handle[BOTH_B]))) {
        why = "nobody else has the lock";
    }
    if (why) {
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
        const char *why = kinds_idle(w, a);
        if (why == kinds_not) {
            why = a->waits_for ? NULL : "that waits for nobody";
        } else if (!why) {
            continue;
        }
        if (why) {
            sched_fail("thread %d is in %s, nobody runs, and %s", i + 1,
                       verb_text[a->now], why);
        }
        check_wait(w, a, a->waits_for);
    }
}
