/* The fence protects a resource from end to end: a value that is read after
 * raising the mark, and written by compare with the mark, loses no accepted
 * update, whatever happened to the lock. Checked after every event. Excused:
 * the server's clock went back *and* data was lost. */
#include "sim/world.h"

void theorem_fence_loses_nothing(struct sim_world *w)
{
    for (int n = 0; n < w->opt.names; n++) {
        const struct sim_resource *r = &w->resource[n];
        if (r->value != r->accepted && !(w->p1_off && w->p2_off)) {
            sim_fail(w, "fence loses nothing",
                     "name %d: value %lld after %lld accepted writes", n,
                     (long long)r->value, (long long)r->accepted);
        }
    }
}
