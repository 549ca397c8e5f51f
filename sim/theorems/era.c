/* Fencing tokens of all kinds of locks (P2).
 *
 * At the server, after every step: the token of a mutex, a writer, a grant of
 * permits or a barrier's generation is above every token before. A reader's
 * token is that of the last exclusive grant, and never below one, as far as the
 * store remembers. Excused: the server's clock went back *and* data was lost; a
 * step that a table's client had decided on before data was lost.
 *
 * At the clients, when they enter, while the store keeps what it acknowledged:
 * an owner that enters exclusively has a token above all that did so before, a
 * reader's is not below. (Permits are given in order and may arrive in another
 * order, so they are not compared.) */
#include "sim/world.h"

void theorem_tokens_of_kinds(struct sim_world *w, const struct sim_step *s)
{
    struct sim_shelf *shelf = &w->shelf[s->name];
    int64_t given = shelf->given, alone = shelf->given_exclusive;
    for (int i = 0; i < s->is->holders; i++) {
        const struct sim_holder *h = &s->is->holder[i];
        const struct sim_holder *was = sim_holder_of(s->was, h->id);
        bool told_now = was && !was->token;
        if ((!sim_is_new(s, h) && !told_now) || (h->untold && !h->token)) {
            continue; /* nobody knows of a token so far */
        }
        bool ok = h->mode == 1 ? h->token >= shelf->given_exclusive || w->p1_off
                               : h->token > shelf->given;
        if (h->token <= 0 || h->token >= INT64_C(1) << 53) {
            sim_fail(w, "token range", "token %lld", (long long)h->token);
        } else if (!ok && !(w->p1_off && w->p2_off) &&
                   !sim_decided_before_loss(w, s->by)) {
            sim_fail(w, "tokens of kinds",
                     "name %d: mode %d given %lld after %lld, exclusive %lld",
                     s->name, h->mode, (long long)h->token,
                     (long long)shelf->given,
                     (long long)shelf->given_exclusive);
        }
        given = h->token > given ? h->token : given;
        alone = sim_alone(h->mode) && h->token > alone ? h->token : alone;
    }
    shelf->given = given;
    shelf->given_exclusive = alone;
}

void theorem_token_entered(struct sim_world *w, int name, int kind,
                           int64_t token)
{
    if (sim_alone(kind)) {
        theorem_token_rises(w, name, token);
    } else if (kind == SNIB_KIND_READ && token < w->resource[name].last_token &&
               !w->p1_off) {
        sim_fail(w, "tokens of kinds", "name %d: a reader's %lld after %lld",
                 name, (long long)token,
                 (long long)w->resource[name].last_token);
    }
}
