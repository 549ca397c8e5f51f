/* sim/list.c — worlds whose URL is a list of two servers, one of which is the
 * primary.
 *
 * What the primary keeps is that of node 0, whoever it is: at a failover (the
 * fault promote: a replica that is behind takes over) the two names change
 * places, and all connections break. The other name leads to node 1, a replica
 * that has nothing and takes no writes. So a client that goes on under the old
 * name finds the wrong server there.
 *
 * The drawing comes from a stream of its own and changes what was drawn for one
 * server. */
#include <string.h>

#include "sim/world.h"

void sim_list_start(struct sim_world *w, struct sim_lua *lua)
{
    struct sim_server *s = &w->node[1];
    s->world = w;
    s->redis = sim_redis_new(lua, w->opt.seed + 1);
    sim_redis_set_fault(s->redis, SIM_REDIS_READONLY, true);
    w->named = (int)(w->opt.seed & 1);
}

int sim_list_node(const struct sim_world *w, const char *address)
{
    int at = address[strlen("sim")] == '1'; /* sim0 or sim1 */
    return sim_list(w) ? at != w->named : 0;
}

void sim_list_draw(struct sim_options *o)
{
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 31, 0, 0}});
    o->list = 1;
    for (int n = 1 + sim_upto(&r, 3); n > 0 && o->fault_count < SIM_FAULTS;
         n--) {
        o->fault[o->fault_count++] =
            (struct sim_fault){.at_ms = 1 + sim_upto(&r, 3000),
                               .kind = SIM_PROMOTE,
                               .ms = 1 + sim_upto(&r, 200)};
    }
}
