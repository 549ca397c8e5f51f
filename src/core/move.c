/* core/move.c — a nested wait that lasts leaves the local queue.
 *
 * An owner that waits in the local queue behind others is seen by nobody else,
 * nor is what it holds (core/nested.c), so no deadlock through it would be
 * found. Most such waits are over in a moment, by a local hand-over. One that
 * lasts for half a second gets an own claim, whose request says what the owner
 * holds. Nobody scans for a wait before it is a second old, so its deadlock is
 * found as soon as if the wait had been seen from the beginning.
 *
 * The price is its position: the new request stands at the end of the store's
 * queue, and no local hand-over reaches it any more. That happens at most once
 * to a wait, and only behind other owners of its process. The claim that it
 * leaves goes on for those that still wait there; a request for which nobody
 * waits any more is cancelled.
 *
 * It stays for now while its claim is confirmed (it may have the grant in a
 * moment) or ended (whoever is first will ask, and say what it holds), while
 * its owner has to keep silent, since it waits for two things, and when there
 * is no memory. A wait that spins is in no queue, so it never moves. */
#include "core/engine_i.h"

enum { AGAIN_MS = 200 }; /* it could not move: when to try again */

static bool move_would_say(const struct snib__engine *e,
                           const struct snib__acquisition *s)
{
    struct snib__about about = {0};
    snib__nested_about(e, s, &about);
    return about.held_count > 0;
}

static bool move_may(const struct snib__engine *e, snib_instant now,
                     const struct snib__acquisition *s)
{
    const struct snib__claim *t = s->local->claim;
    switch ((snib__claim_state)t->state) {
    case SNIB__CLAIM_ACQUIRING:
    case SNIB__CLAIM_QUEUED:
    case SNIB__CLAIM_HELD:
    case SNIB__CLAIM_RISK:
        return !snib__reached(now, s->limit) && move_would_say(e, s);
    case SNIB__CLAIM_CONFIRM:
    case SNIB__CLAIM_KEPT: /* nobody waits there */
    case SNIB__CLAIM_LEAVING:
        return false;
    }
    return false;
}

static void move_out(struct snib__engine *e, snib_instant now,
                     struct snib__acquisition *s)
{
    struct snib__local_lock *from = s->local;
    s->scan_at = snib__after(now, snib__ms(AGAIN_MS));
    if (!move_may(e, now, s) || !snib__claim_move(e, now, s)) {
        return;
    }
    if (from->claim && snib__list_empty(&from->waiting)) {
        snib__claim_give_up(e, now, from->claim); /* not if it is held */
    }
}

/* Does it wait unseen, in the queue of its process? */
static bool move_is_unseen(const struct snib__acquisition *s)
{
    return !s->local->parent && !s->options.spin && !snib__nested_says(s);
}

snib_instant snib__moves_due(const struct snib__engine *e)
{
    snib_instant due = SNIB__NEVER;
    SNIB__LIST_EACH (l, &e->cycles.nested) {
        const struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, nested);
        if (move_is_unseen(s) && !e->closed) {
            due = snib__sooner(due, s->scan_at);
        }
    }
    return due;
}

void snib__moves_tick(struct snib__engine *e, snib_instant now)
{
    SNIB__LIST_EACH_SAFE (l, next, &e->cycles.nested) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, nested);
        if (!e->closed && move_is_unseen(s) && snib__reached(now, s->scan_at)) {
            move_out(e, now, s);
        }
    }
}
