/* Fencing tokens of mutexes (P2): the token of every exclusive grant is above
 * every earlier one's on that lock, also after a loss of data. Excused: the
 * server's clock went back *and* data was lost.
 *
 * As given, checked at the server at each new grant, always. As entered,
 * checked at the clients, local hand-overs included, while the store keeps what
 * it acknowledged. Once the store has forgotten a holder, that holder may enter
 * late (its message was on the way), or its client may go on handing over
 * reserved tokens between its threads for the rest of its time. Such tokens are
 * below the next owner's, and the fence refuses them. */
#include <stdlib.h>
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

static void given(struct sim_world *w, const char *key, const char *id,
                  int64_t token)
{
    struct sim_queue *q = sim_queue(w, key);
    if (!q || memcmp(q->given_id, id, sizeof q->given_id) == 0) {
        return; /* told again */
    }
    if (token <= q->given && !(w->p1_off && w->p2_off)) {
        sim_fail(w, "token rises", "%s: %lld given after %lld", key,
                 (long long)token, (long long)q->given);
    }
    memcpy(q->given_id, id, sizeof q->given_id);
    q->given = token;
}

void theorem_token_given(struct sim_world *w, const struct sim_redis_event *ev)
{
    if (sim_kinds(w)) { /* era.c checks those */
        return;
    }
    if (ev->in_script && strcmp(ev->name, "publish") == 0 && ev->argc == 3) {
        const char *text = ev->argv[2].ptr, *key = strstr(text, "snib:{");
        if (key && strncmp(text, "g ", 2) == 0 && ev->argv[2].len > 36) {
            given(w, key, text + 2, strtoll(text + 35, NULL, 10));
        }
    } else if (sim_script(ev) == SIM_SCRIPT_ACQUIRE && ev->reply_len > 12 &&
               memcmp(ev->reply, "*6\r\n:1\r\n:", 10) == 0) {
        char *end;
        strtoll((const char *)ev->reply + 10, &end, 10);
        given(w, ev->argv[3].ptr, ev->argv[SIM_ARG_REQUEST].ptr,
              strtoll(end + 3, NULL, 10));
    }
}
