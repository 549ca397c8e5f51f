/* sim/draw.h — which kind of world a seed is, of the kinds that can be asked
 * for. */
#ifndef SNIB_SIM_DRAW_H
#define SNIB_SIM_DRAW_H

#include "sim/world.h"

enum sim_worlds {
    SIM_ALL, /* every seed, as it comes */
    SIM_OF_MUTEXES,
    SIM_OF_A_QUORUM,
    SIM_OF_MANY,
    SIM_OF_CIRCLES,
    SIM_OF_FORCE,
    SIM_OF_VALUES,
    SIM_OF_LEASES,
    SIM_OF_THIN,
    SIM_OF_SNAPSHOTS,
    SIM_OF_LISTS,
    SIM_OF_RARE,
    SIM_OF_WITNESSES,
    SIM_OF_FAILOVERS,
    SIM_OF_RECOVERY,
    SIM_OF_REPLICAS,
    SIM_OF_KEEPERS,
    SIM_OF_ETCD,
    SIM_OF_SQL,
    SIM_WORLDS
};

/* "--quorum", …; ALL has none. */
extern const char *const sim_worlds_names[SIM_WORLDS];

void sim_worlds_draw(enum sim_worlds, struct sim_options *, uint64_t seed);
/* Do these drawn options make a world of this kind? */
bool sim_worlds_wanted(enum sim_worlds, const struct sim_options *);

#endif
