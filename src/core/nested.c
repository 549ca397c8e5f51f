/* core/nested.c — what an owner holds while it waits for something else.
 *
 * Only an owner that holds something and waits can be part of a deadlock: its
 * wait is *nested*. It asks the store by a request of its own (an own claim,
 * not this client's shared one), whose text names the grants that the owner
 * holds. So everybody sees it, and core/cycles.c finds the deadlock from what
 * all clients say. Local hand-overs do no harm here: nobody asks which owner a
 * holder's record names, only which grants a waiting owner says it holds; and
 * a grant so named is not handed over meanwhile. */
#include "core/engine_i.h"

enum { NESTED_MS = 1000 }; /* no scan for a wait that is younger */

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
    SNIB__LIST_EACH (l, &e->cycles.nested) {
        if (SNIB__CONTAINER(l, struct snib__acquisition, nested)->owner ==
            owner) {
            return true;
        }
    }
    return false;
}

/* Does the owner of s also wait for something else, by a request that does not
 * say what the owner holds? It began that wait when it held nothing. */
static bool nested_waits_besides(const struct snib__engine *e,
                                 const struct snib__acquisition *s)
{
    SNIB__LIST_EACH (l, &e->owners[s->owner % SNIB__OWNERS]) {
        const struct snib__acquisition *other =
            SNIB__CONTAINER(l, struct snib__acquisition, by_owner);
        if (other != s && other->owner == s->owner &&
            other->state == SNIB__ACQ_WAITING && !other->options.try_only &&
            !snib__linked(&other->nested)) {
            return true;
        }
    }
    return false;
}

/* Only an own claim says what its owner holds, since its request ends with its
 * acquisition. The request of a shared claim goes on for the next owner, which
 * holds something else. An owner that waits for two things says nothing either,
 * if the first wait does not say what it holds: it can go on as soon as that
 * one is served. (If both waits say it, others see both: core/waits.c.) */
void snib__nested_about(const struct snib__engine *e,
                        const struct snib__acquisition *s,
                        struct snib__about *about)
{
    if (!e->cfg.deadlocks || s->options.try_only ||
        nested_waits_besides(e, s)) {
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
    s->scan_at = snib__after(now, snib__ms(NESTED_MS));
    s->mark = 0;
    snib__list_push(&e->cycles.nested, &s->nested);
}
