/* sim/work_look.c — observers: lanes with nothing to do look who holds and who
 * waits, as followers of an election, readers of a ring and people do. A look
 * is none of a lane's operations: there are as many of those as without it. */
#include <string.h>

#include "sim/errand.h"

bool sim_look_start(struct sim_world *w, struct sim_errand *e)
{
    if (!w->opt.look_pct ||
        (int)snib__rng_below(&w->work, 100) >= w->opt.look_pct) {
        return false;
    }
    e->plan = SIM_LOOK;
    e->name = (int)snib__rng_below(&w->work, (uint64_t)w->opt.names);
    e->highest = w->errands->sight[e->name].highest;
    sim_errand_begin(w, e, SNIB__INSPECT);
    sim_note(w, "client %d lane %d looks at name %d", e->client, e->lane,
             e->name);
    sim_errand_ask(w, e);
    return true;
}

void sim_look_told(struct sim_world *w, struct sim_errand *e)
{
    if (e->q.answer == SNIB__DONE) {
        w->errands->shown++;
        theorem_look_told(w, e);
    }
    sim_errand_over(w, e);
}
