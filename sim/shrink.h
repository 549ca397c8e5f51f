/* sim/shrink.h — make a failing world small. */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "sim/world.h"

/* Change *opt into a smaller one that still breaks the same theorem. Returns
 * how many worlds were tried. */
int sim_shrink(struct sim_options *opt, const char *theorem,
               struct sim_lua *lua);

#endif
