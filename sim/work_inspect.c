/* sim/work_inspect.c — observers: owners with nothing to do inspect who holds
 * and who waits, as followers of an election, readers of a ring and people do.
 * An inspect does not count as one of an owner's operations: there are as many
 * of those as without it. */
#include <string.h>

#include "sim/direct.h"

bool sim_look_start(struct sim_world *w, struct sim_direct *e)
{
    if (!w->opt.look_pct ||
        (int)snib__rng_below(&w->work, 100) >= w->opt.look_pct) {
        return false;
    }
    e->plan = SIM_LOOK;
    e->name = (int)snib__rng_below(&w->work, (uint64_t)w->opt.names);
    e->highest = w->directs->sight[e->name].highest;
    sim_direct_begin(w, e, SNIB__INSPECT);
    sim_note(w, "client %d owner %d looks at name %d", e->client, e->owner,
             e->name);
    sim_direct_ask(w, e);
    return true;
}

void sim_look_told(struct sim_world *w, struct sim_direct *e)
{
    if (e->q.answer == SNIB__DONE) {
        w->directs->shown++;
        theorem_look_told(w, e);
    }
    sim_direct_over(w, e);
}
