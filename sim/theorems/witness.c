/* When a witness is through, nothing of the dead client that it watched holds or
 * waits at the server, and nothing comes back: late copies of what that client had
 * sent are kept out.
 *
 * Checked when it is through, and from then on now and then. Excused: after the
 * store has lost data, or its clock was set back, since then. Not at a quorum,
 * where a server that could not be asked keeps a grant until its lease is over. */
#include "sim/world.h"

static void look_at(struct sim_world *w, const struct sim_gone *g, int name)
{
    static _Thread_local struct sim_book b;
    sim_book_read(w, name, &b);
    for (int i = 0; i < b.holders; i++) {
        if (sim_same(b.holder[i].client, g->hex) &&
            sim_live(&b.holder[i], b.now)) {
            sim_fail(w, "a witness leaves nothing",
                     "name %d: held by %.8s, which is dead", name, g->hex);
        }
    }
    for (int i = 0; i < b.waiters; i++) {
        if (sim_same(b.waiter[i].client, g->hex) && b.waiter[i].alive > b.now) {
            sim_fail(w, "a witness leaves nothing",
                     "name %d: waited for by %.8s, which is dead", name,
                     g->hex);
        }
    }
}

void theorem_witness_leaves_nothing(struct sim_world *w)
{
    for (uint32_t i = 0; !sim_quorum(w) && i < SIM_GONES && i < w->gones; i++) {
        const struct sim_gone *g = &w->gone[i];
        bool excused =
            w->told.lost_at > g->since || w->told.stepped_back_at > g->since;
        for (int n = 0; n < w->opt.names && !excused; n++) {
            look_at(w, g, n);
        }
    }
}
