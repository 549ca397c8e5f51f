/* sim/keen.c — how the clients of a world use what they may ask for without a
 * script (store/redis/packet.c).
 *
 * In every other world a client forgets at once whom it has met at a name. So it
 * asks without a script also where others hold or wait, which a client that
 * remembers seldom does: what happens then is what the theorems are about. And
 * two of its owners are a crowd: what they ask for while one call is under way
 * travels together. In a world of `whole` each lock is taken by a script. */
#include <string.h>

#include "core/engine_i.h"
#include "sim/world.h"
#include "store/redis/redis_i.h"

void sim_keen(const struct sim_world *w, int client)
{
    if (w->nodes == 1 && !sim_snapshots(w)) {
        struct snib__engine *e = w->client[client].engine;
        struct snib__redis *s = (struct snib__redis *)(void *)e->store;
        s->scripts_only = w->opt.whole;
        if (w->opt.seed % 2) {
            memset(s->met_at_name, 0, sizeof s->met_at_name);
            s->bundles_most = s->crowd = 1;
        }
    }
}
