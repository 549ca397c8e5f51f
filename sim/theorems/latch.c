/* A closed latch keeps everybody out: no step leaves a new grant behind while
 * there is something to count down. And a request that is repeated after a lost
 * reply counts once: one request changes the params in one step at most
 * (excused once the store has lost data). Where the key of the holders was
 * evicted a free mutex passes. Checked at the server after every step. */
#include <string.h>

#include "sim/world.h"

void theorem_gate_is_closed(struct sim_world *w, const struct sim_step *s)
{
    for (int i = 0; s->is->gate > 0 && i < s->is->holders; i++) {
        const struct sim_holder *h = &s->is->holder[i];
        if (sim_is_new(s, h) && !(h->untold && sim_planned(w, SIM_EVICT))) {
            sim_fail(w, "the gate is closed",
                     "name %d: %.8s passes with %lld to go", s->name,
                     s->is->holder[i].id, (long long)s->is->gate);
        }
    }
}

void theorem_counts_down_once(struct sim_world *w, const struct sim_step *s)
{
    struct sim_shelf *shelf = &w->shelf[s->name];
    const char *id = s->by->request;
    int kept = (int)(sizeof shelf->down / sizeof shelf->down[0]);
    if (s->by->deed != SIM_DID_PARAMS || w->p1_off ||
        (s->was->size == s->is->size && s->was->gate == s->is->gate)) {
        return;
    }
    for (int i = 0; i < kept; i++) {
        if (sim_same(shelf->down[i], id)) {
            sim_fail(w, "counts once",
                     "name %d: the same change again, size %lld, gate %lld",
                     s->name, (long long)s->is->size, (long long)s->is->gate);
        }
    }
    memcpy(shelf->down[shelf->downs++ % (uint32_t)kept], id, SIM_ID);
}
