/* sim/shrink.c — delta debugging on the plan.
 *
 * First whole faults go (halves, then single ones: ddmin), then the counts
 * (clients, owners, ops, names) shrink, then percentages become 0. Each smaller
 * world must break the *same* theorem. Since every subsystem draws from its own
 * stream, taking a fault out leaves the rest as it was until the world itself
 * goes another way. */
#include "sim/shrink.h"

#include <string.h>

struct shrinker {
    struct sim_options best;
    char theorem[48];
    struct sim_lua *lua;
    int tried;
};

static bool still_fails(struct shrinker *s, const struct sim_options *o)
{
    static struct sim_world w; /* large; the heap inside is reused */
    s->tried++;
    if (sim_run(&w, o, s->lua, NULL) || strcmp(w.theorem, s->theorem)) {
        return false;
    }
    s->best = *o;
    return true;
}

static bool without_faults(struct shrinker *s, int from, int count)
{
    struct sim_options o = s->best;
    memmove(&o.fault[from], &o.fault[from + count],
            (size_t)(o.fault_count - from - count) * sizeof o.fault[0]);
    o.fault_count -= count;
    return still_fails(s, &o);
}

static void fewer_faults(struct shrinker *s)
{
    for (int size = s->best.fault_count; size >= 1; size /= 2) {
        for (int i = 0; i + size <= s->best.fault_count;) {
            if (!without_faults(s, i, size)) {
                i += size;
            }
        }
    }
}

static void smaller(struct shrinker *s, size_t offset, int least)
{
    for (;;) {
        struct sim_options o = s->best;
        int *v = (int *)(void *)((char *)&o + offset);
        if (*v <= least) {
            return;
        }
        int was = *v;
        *v = least;
        if (still_fails(s, &o)) {
            return;
        }
        o = s->best;
        *v = was - 1;
        if (!still_fails(s, &o)) {
            return;
        }
    }
}

/* A quorum of fewer servers: down to two, since one is another store. */
static void fewer_nodes(struct shrinker *s)
{
    if (s->best.nodes > 1) {
        smaller(s, offsetof(struct sim_options, nodes), 2);
        smaller(s, offsetof(struct sim_options, node_ms), 0);
    }
}

int sim_shrink(struct sim_options *opt, const char *theorem,
               struct sim_lua *lua)
{
    struct shrinker s = {.best = *opt, .lua = lua};
    snprintf(s.theorem, sizeof s.theorem, "%s", theorem);
    for (int round = 0; round < 3; round++) {
        struct sim_options before = s.best;
        fewer_faults(&s);
        smaller(&s, offsetof(struct sim_options, clients), 1);
        smaller(&s, offsetof(struct sim_options, owners), 1);
        smaller(&s, offsetof(struct sim_options, ops), 1);
        smaller(&s, offsetof(struct sim_options, many_pct), 0);
        smaller(&s, offsetof(struct sim_options, mixed), 0);
        smaller(&s, offsetof(struct sim_options, searched), 0);
        smaller(&s, offsetof(struct sim_options, names),
                s.best.many_pct ? 2 : 1);
        smaller(&s, offsetof(struct sim_options, try_pct), 0);
        smaller(&s, offsetof(struct sim_options, timed_pct), 0);
        smaller(&s, offsetof(struct sim_options, fixed_pct), 0);
        smaller(&s, offsetof(struct sim_options, reenter_pct), 0);
        smaller(&s, offsetof(struct sim_options, confirm_pct), 0);
        smaller(&s, offsetof(struct sim_options, nopass_pct), 0);
        smaller(&s, offsetof(struct sim_options, overrun_pct), 0);
        smaller(&s, offsetof(struct sim_options, rate_ppm), 0);
        smaller(&s, offsetof(struct sim_options, split_pct), 0);
        smaller(&s, offsetof(struct sim_options, nest_pct), 0);
        smaller(&s, offsetof(struct sim_options, params_pct), 0);
        smaller(&s, offsetof(struct sim_options, prio_pct), 0);
        smaller(&s, offsetof(struct sim_options, delay_ms), 0);
        smaller(&s, offsetof(struct sim_options, skew_ms), 0);
        if (s.best.circle_pct) {
            smaller(&s, offsetof(struct sim_options, circle_pct), 1);
        }
        smaller(&s, offsetof(struct sim_options, far_node), 0);
        smaller(&s, offsetof(struct sim_options, churn_pct), 0);
        smaller(&s, offsetof(struct sim_options, keep_ms), 0);
        smaller(&s, offsetof(struct sim_options, again_ms), 0);
        smaller(&s, offsetof(struct sim_options, leave_pct), 0);
        smaller(&s, offsetof(struct sim_options, look_pct), 0);
        smaller(&s, offsetof(struct sim_options, force_pct), 0);
        smaller(&s, offsetof(struct sim_options, spin), 0);
        smaller(&s, offsetof(struct sim_options, spin_pct), 0);
        fewer_nodes(&s);
        if (memcmp(&before, &s.best, sizeof before) == 0) {
            break;
        }
    }
    *opt = s.best;
    return s.tried;
}
