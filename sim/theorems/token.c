/* P2: every exclusive grant's token is above every earlier one's on that
 * lock, local passes included, through loss of data too; unless the server's
 * clock went back *and* data was lost.
 *
 * Once the store has forgotten the holder, a client that does not know it yet
 * may go on passing its reserved tokens between its own threads for the rest
 * of its local turn (5 ms): those are below the next owner's, and the fence
 * refuses them. So after a loss of data only what the store gave must rise. */
#include "sim/world.h"

void theorem_token_rises(struct sim_world *w, int name, int64_t token,
                         bool passed)
{
    struct sim_resource *r = &w->resource[name];
    if (token <= 0 || token >= INT64_C(1) << 53) {
        sim_fail(w, "token range", "token %lld", (long long)token);
    } else if (token <= r->last_token && !(w->p1_off && w->p2_off) &&
               !(w->p1_off && passed)) {
        sim_fail(w, "token rises", "name %d: %lld after %lld", name,
                 (long long)token, (long long)r->last_token);
    }
    r->last_token = token > r->last_token ? token : r->last_token;
}
