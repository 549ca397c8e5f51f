/* First come, first served, for all kinds of locks (P7). Nobody is granted
 * while a waiter of its class that came earlier, or one of a better class, is
 * alive and stands in the queue, whether that waiter fits or not.
 *
 * Checked at the server after every step. The order of the steps tells who
 * came when; the request tells the class. An upgrade is ahead of all, and a
 * read inside a write waits for nobody. The request that sends this very step
 * (perhaps giving back an earlier grant) comes after those in the queue,
 * whatever its class. */
#include "sim/world.h"

/* The holder as the waiter that it was before the script, or as the newcomer
 * that sent it. */
static struct sim_waiter as_waiter(const struct sim_step *s,
                                   const struct sim_holder *h)
{
    const struct sim_waiter *was = sim_waiter_of(s->was, h->id);
    struct sim_waiter w = {.arrival = UINT64_MAX};
    if (was) {
        return *was;
    }
    w.class = s->by->class;
    return w;
}

/* Who can never be served may be passed over until it polls, and is refused
 * then: more permits than there are, an upgrade of a grant that is over. */
static bool can_be_served(const struct sim_book *b, const struct sim_waiter *y)
{
    const struct sim_holder *other =
        y->upgrade_of[0] ? sim_holder_of(b, y->upgrade_of) : NULL;
    return (y->mode != 3 || y->permits <= b->size) &&
           (!y->upgrade_of[0] || (other && other->end > b->now));
}

void theorem_served_in_order(struct sim_world *w, const struct sim_step *s)
{
    const struct sim_book *b = s->is;
    for (int i = 0; i < b->holders; i++) {
        const struct sim_holder *h = &b->holder[i];
        if (!sim_is_new(s, h) || h->upgrade_of[0] ||
            (s->by->deed != SIM_DID_ACQUIRE && !sim_waiter_of(s->was, h->id))) {
            continue;
        }
        struct sim_waiter x = as_waiter(s, h);
        for (int k = 0; k < b->waiters; k++) {
            const struct sim_waiter *y = &b->waiter[k];
            bool first = y->class != x.class ? y->class < x.class
                                             : y->arrival < x.arrival;
            if (first && y->queued && y->alive > b->now &&
                can_be_served(b, y) && sim_waiter_of(s->was, y->id)) {
                sim_fail(w, "served in order",
                         "name %d: %.8s (mode %d, class %d) before %.8s (mode "
                         "%d, class %d)",
                         s->name, h->id, h->mode, x.class, y->id, y->mode,
                         y->class);
            }
        }
    }
}
