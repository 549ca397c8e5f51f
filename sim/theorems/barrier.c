/* The parties of a barrier go together or not at all: a script that lets one
 * in lets in as many as the barrier has, each of which was waiting at that
 * moment (or asks in this script), and they share one token, the number of
 * their generation. */
#include "sim/world.h"

void theorem_parties_meet(struct sim_world *w, const struct sim_step *s)
{
    int64_t parties = 0, token = 0;
    int given = 0;
    for (int i = 0; i < s->is->holders; i++) {
        const struct sim_holder *h = &s->is->holder[i];
        if (h->mode != 4 || !sim_is_new(s, h)) {
            continue;
        }
        if (given++ && h->token != token) {
            sim_fail(w, "parties meet", "name %d: tokens %lld and %lld",
                     s->name, (long long)token, (long long)h->token);
        }
        if (!sim_waiter_of(s->was, h->id) &&
            !sim_same(h->id, sim_request_of(s->ev))) {
            sim_fail(w, "parties meet", "name %d: %.8s was not waiting",
                     s->name, h->id);
        }
        token = h->token;
        parties = h->permits;
    }
    if (given != parties) {
        sim_fail(w, "parties meet", "name %d: %d of %lld parties let in",
                 s->name, given, (long long)parties);
    }
}
