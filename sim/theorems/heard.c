/* Who is granted hears of it (P6). A waiter that was granted the lock at the
 * store enters as soon as messages can travel: it does not find out by its next
 * poll.
 *
 * Checked now and then, in worlds without faults, for the request by which an
 * owner waits. The bound is that of prompt.c, and the time between two such
 * looks. A lease that is hardly longer than a round trip proves nothing. (In a
 * quorum nobody is told: clients ask.) */
#include "sim/world.h"

enum { LOOKS_MS = 200 };

static bool stands(struct sim_world *w, const struct sim_owner *l)
{
    char id[33];
    sim_id_text(l->waits_by, id);
    const struct sim_book *b = &w->shelf[sim_wants(l)].book;
    const struct sim_holder *h = sim_holder_of(b, id);
    return h && h->end > sim_wall_us(w, 0) / 1000;
}

static void look_at(struct sim_world *w, int client, int owner)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    bool waits = sim_still_waits(l) && (l->waits_by[0] | l->waits_by[1]);
    if (!waits || !stands(w, l)) {
        l->granted_since = 0;
    } else if (!l->granted_since) {
        l->granted_since = w->t;
    } else if (w->t - l->granted_since >
               250 * w->opt.latency_us * 1000 + LOOKS_MS * SIM_MS) {
        sim_fail(w, "who is granted hears of it",
                 "client %d owner %d: name %d is its own for %lld ms", client,
                 owner, sim_wants(l),
                 (long long)((w->t - l->granted_since) / SIM_MS));
    }
}

void theorem_granted_hear_of_it(struct sim_world *w)
{
    if (w->opt.fault_count || sim_quorum(w) ||
        sim_lease_least(&w->opt) * 1000 <= 100 * w->opt.latency_us) {
        return;
    }
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        look_at(w, i / w->opt.owners, i % w->opt.owners);
    }
}
