/* core/nested.c — what an owner holds while it waits for something else.
 *
 * Only an owner that holds something and waits can be part of a deadlock: its
 * wait is *nested*. The text of a request names the grants that its owner
 * holds, so that everybody sees it, and core/cycles.c finds the deadlock from
 * what all clients say. Local hand-overs do no harm here: nobody asks which
 * owner a holder's record names, only which grants a waiting owner says it
 * holds; and what an owner holds is not handed over while it waits.
 *
 * A request says what one owner holds. In the local queue that is the first
 * one, for which the shared claim asks (snib__claim.says). What was said must
 * stay true until the request ends. So nobody queues ahead of that owner
 * (core/acquire.c), and if it gives up, the request ends with it: the others
 * ask anew. A wait further behind is not seen. Most such waits are short, and
 * end by a local hand-over; one that lasts leaves the local queue for a request
 * of its own (core/move.c). */
#include "core/engine_i.h"

enum {
    NESTED_MS = 1000, /* no scan for a wait that is younger */
    SILENT_MS = 500   /* a wait in the local queue says nothing for so long */
};

static const struct snib__claim *nested_grant_of(const struct snib__link *l,
                                                 uint64_t owner)
{
    const struct snib__acquisition *s =
        SNIB__CONTAINER(l, struct snib__acquisition, by_owner);
    const struct snib__claim *t = s->local->claim;
    return s->owner == owner && s->state == SNIB__ACQ_SERVED && t &&
                   t->holder == s
               ? t
               : NULL;
}

bool snib__nested_holds(const struct snib__engine *e, uint64_t owner)
{
    SNIB__LIST_EACH (l, &e->owners[owner % SNIB__OWNERS]) {
        if (nested_grant_of(l, owner)) {
            return true;
        }
    }
    return false;
}

bool snib__nested_waits(const struct snib__engine *e, uint64_t owner)
{
    if (snib__list_empty(&e->cycles.nested)) {
        return false;
    }
    SNIB__LIST_EACH (l, &e->owners[owner % SNIB__OWNERS]) {
        const struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, by_owner);
        if (s->owner == owner && snib__linked(&s->nested)) {
            return true;
        }
    }
    return false;
}

/* Does the owner of s also wait for something else, by a request that does not
 * say what the owner holds? It began that wait when it held nothing, or stands
 * in a local queue. */
static bool nested_waits_besides(const struct snib__engine *e,
                                 const struct snib__acquisition *s)
{
    SNIB__LIST_EACH (l, &e->owners[s->owner % SNIB__OWNERS]) {
        const struct snib__acquisition *other =
            SNIB__CONTAINER(l, struct snib__acquisition, by_owner);
        if (other != s && other->owner == s->owner &&
            other->state == SNIB__ACQ_WAITING && !other->options.try_only &&
            !snib__nested_says(other)) {
            return true;
        }
    }
    return false;
}

/* An owner that waits for two things says nothing, if the first wait does not
 * say what it holds: it can go on as soon as that one is served. (If both waits
 * say it, others see both: core/waits.c.) Nor is an owner asked that held
 * nothing when it began to wait: what it got since may be handed over. */
void snib__nested_about(const struct snib__engine *e,
                        const struct snib__acquisition *s,
                        struct snib__about *about)
{
    if (nested_waits_besides(e, s)) {
        return;
    }
    SNIB__LIST_EACH (l, &e->owners[s->owner % SNIB__OWNERS]) {
        const struct snib__claim *t = nested_grant_of(l, s->owner);
        if (t && about->held_count < SNIB__ABOUT_HELD) {
            about->held[about->held_count++] = t->id[0];
        }
    }
    for (uint32_t i = 0; s->above && i < s->above->count &&
                         about->held_count < SNIB__ABOUT_HELD;
         i++) {
        about->held[about->held_count++] = s->above->id[i];
        about->above_count++;
    }
}

void snib__nested_enter(struct snib__engine *e, snib_instant now,
                        struct snib__acquisition *s)
{
    s->since = now;
    s->scan_at = snib__after(now, snib__ms(SILENT_MS));
    snib__list_push(&e->cycles.nested, &s->nested);
}

void snib__nested_said(struct snib__acquisition *s)
{
    s->local->claim->says = s;
    s->scan_at = snib__after(s->since, snib__ms(NESTED_MS));
    s->deadlock_id = 0;
}
