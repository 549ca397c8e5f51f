/* Exclusion at the server (P1), after every step. While an exclusive grant
 * stands, lock-delay included, no other grant does, except the one of the same
 * owner that it is an upgrade of or that is inside it (the writer that reads,
 * the reader that has become the writer).
 *
 * A lock has one future writer among its readers. A second reader that wants to
 * write is refused, since each would wait for the other. (A reader whose own
 * lease is over does not count: its upgrade waits for nothing, lock-delay or
 * not. Of snapshots one that comes back after others took it for dead may find a
 * second one, which its next poll refuses; so only while nothing is broken.) */
#include "sim/world.h"

static bool upgrade_of(const struct sim_holder *a, const struct sim_holder *b)
{
    return sim_same(a->client, b->client) &&
           (sim_same(a->upgrade_of, b->id) || sim_same(b->upgrade_of, a->id));
}

void theorem_readers_and_writers(struct sim_world *w, const struct sim_step *s)
{
    const struct sim_book *b = s->is;
    for (int i = 0; i < b->holders; i++) {
        const struct sim_holder *one = &b->holder[i];
        for (int k = 0; sim_alone(one->mode) && k < b->holders; k++) {
            const struct sim_holder *other = &b->holder[k];
            if (k != i && sim_live(one, b->now) && sim_live(other, b->now) &&
                !upgrade_of(one, other)) {
                sim_fail(w, "readers and writers",
                         "name %d: %.8s (mode %d) beside %.8s (mode %d)",
                         s->name, one->id, one->mode, other->id, other->mode);
            }
        }
    }
}

void theorem_one_upgrade(struct sim_world *w, const struct sim_step *s)
{
    int upgrades = 0;
    for (int i = 0; i < s->is->waiters; i++) {
        const struct sim_waiter *x = &s->is->waiter[i];
        const struct sim_holder *reads =
            x->upgrade_of[0] ? sim_holder_of(s->is, x->upgrade_of) : NULL;
        /* The reader's lock-delay does not count. */
        upgrades += x->queued && x->alive > s->is->now && sim_alone(x->mode) &&
                    reads && reads->end > s->is->now;
    }
    if (upgrades > 1 && !(sim_table(w) && w->faults)) {
        sim_fail(w, "one upgrade at a time",
                 "name %d: %d readers wait to become the writer", s->name,
                 upgrades);
    }
}
