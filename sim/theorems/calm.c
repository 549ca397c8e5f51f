/* Is nothing wrong any more? What callers are told of trouble ("unknown",
 * "unreachable") is excused by a fault for as long as that lasts, and for a while
 * after it, not for the rest of the world.
 *
 * The while: silence is noticed after request_ms from the next use on, and asked
 * about once more; to connect anew backs off up to a second; a cluster elects for
 * two; a database ends a session that is silent inside its transaction after one,
 * and who waits for it waits another. A server that refuses for reasons of its own,
 * or denies, does so until all is healed, and is asked again five seconds later.
 * Connections that nobody has used since they went dead break when they are. */
#include "sim/world.h"

enum { NOTICE_MS = 3000, REFUSED_MS = 6000 };

bool sim_unnoticed(const struct sim_world *w)
{
    for (int i = 0; i < w->opt.clients * w->wires; i++) {
        const struct sim_wire *l = &w->client[i / w->wires].wire[i % w->wires];
        if (l->half_open || l->late) {
            return true;
        }
    }
    return false;
}

/* Was any server told to refuse? */
static bool refuses(const struct sim_world *w)
{
    return sim_planned(w, SIM_ERROR) || sim_planned(w, SIM_DENY) ||
           sim_planned(w, SIM_FOREIGN);
}

bool sim_was_calm(const struct sim_world *w, int64_t since)
{
    int64_t notice = 2 * w->opt.request_ms + NOTICE_MS;
    int64_t over = w->trouble_until;
    notice += refuses(w) ? REFUSED_MS : 0;
    if (w->healed && (refuses(w) || over > w->healed_at)) {
        over = w->healed_at;
    }
    return !w->faults || (since > over + notice * SIM_MS &&
                          (w->healed || !refuses(w)) && !sim_unnoticed(w));
}
