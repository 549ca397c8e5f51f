/* Fencing tokens of mutexes (P2): the token of every exclusive grant is above
 * every earlier one's on that lock, also after a loss of data. Excused: the
 * server's clock went back *and* data was lost; a step that a table's client had
 * decided on before data was lost.
 *
 * As given, checked at the server at each new grant, always. As entered,
 * checked at the clients, local hand-overs included, while the store keeps what
 * it acknowledged. Once the store has forgotten a holder, that holder may enter
 * late (its message was on the way), or its client may go on handing over
 * reserved tokens between its threads for the rest of its time. Such tokens are
 * below the next owner's, and the fence refuses them. */
#include <string.h>

#include "sim/world.h"

void theorem_token_rises(struct sim_world *w, int name, int64_t token)
{
    struct sim_resource *r = &w->resource[name];
    if (token <= 0 || token >= INT64_C(1) << 53) {
        sim_fail(w, "token range", "token %lld", (long long)token);
    } else if (token <= r->last_token && !w->p1_off) {
        sim_fail(w, "token rises", "name %d: %lld after %lld", name,
                 (long long)token, (long long)r->last_token);
    }
    r->last_token = token > r->last_token ? token : r->last_token;
}

void theorem_token_given(struct sim_world *w, const struct sim_seen *s)
{
    if (sim_kinds(w) || s->name < 0 || s->said != SIM_SAID_GRANTED) {
        return; /* era.c checks other kinds */
    }
    struct sim_queue *q = &w->queue_at[s->name];
    if (memcmp(q->given_id, s->request, sizeof q->given_id) == 0) {
        return; /* told again */
    }
    if (s->given <= q->given && !(w->p1_off && w->p2_off) &&
        !sim_decided_before_loss(w, s)) {
        sim_fail(w, "token rises", "name %d: %lld given after %lld", s->name,
                 (long long)s->given, (long long)q->given);
    }
    memcpy(q->given_id, s->request, sizeof q->given_id);
    q->given = s->given;
}
