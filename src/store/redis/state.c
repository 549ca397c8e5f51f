/* store/redis/state.c — how the server is, for callers that ask the client.
 *
 *   not asked --a connection is wanted--> asked --READY--> good
 *   asked, good --a connection is lost or refused, an error says that the
 *   server does not work now, or an answer is none of our scripts'--> bad
 *   bad --READY, an answer without error--> good
 *
 * READY means that the greeting was answered. Only the connections that
 * requests are sent on count, not the subscription. A connection that is lost
 * while the client neither waits for anything nor holds says nothing: servers
 * close idle connections. A server that is silent is told as unreachable
 * without a change of state here. */
#include <stdio.h>
#include <string.h>

#include "store/redis/redis_i.h"

bool snib__state_clock(const struct snib__resp_cell *c, int64_t *ret_ms)
{
    int64_t seconds, micros;
    if (!snib__resp_number(snib__resp_at(c, 0), &seconds) ||
        !snib__resp_number(snib__resp_at(c, 1), &micros) || seconds < 0 ||
        seconds > INT64_C(9000000000) || micros < 0 || micros > 999999) {
        return false;
    }
    *ret_ms = seconds * 1000 + micros / 1000;
    return true;
}

void snib__state_good(struct snib__redis *s, snib_instant now)
{
    if (!s->state.good.ns) {
        s->state.good = now;
    }
    s->state.bad = (snib_instant){0};
    s->state.err = SNIB_ERR_OK;
}

/* The text without its head "no connection to HOST:PORT: ": the reader knows
 * which server it is. */
static const char *state_bare(const struct snib__redis *s, const char *text)
{
    char head[ADDRESS_SHOWN + 24];
    int n =
        snprintf(head, sizeof head, "no connection to %.*s: ", ADDRESS_SHOWN,
                 s->out->conn[CALLERS].address);
    return strncmp(text, head, (size_t)n) ? text : text + n;
}

void snib__state_bad(struct snib__redis *s, snib_instant since, snib_err err,
                     const char *text)
{
    if (!s->state.bad.ns) {
        s->state.bad = since;
    }
    s->state.good = (snib_instant){0};
    s->state.err = err;
    text = state_bare(s, text);
    snprintf(s->state.text, sizeof s->state.text, "%s", text);
    char *first = s->state.text; /* the system's texts begin with a capital */
    if (first[0] >= 'A' && first[0] <= 'Z' && first[1] >= 'a' &&
        first[1] <= 'z') {
        first[0] = (char)(first[0] - 'A' + 'a');
    }
}

snib_instant snib__state_silent_at(const struct snib__redis *s,
                                   const struct session *l)
{
    return l->overdue.ns
               ? snib__after(l->overdue,
                             (snib_duration){s->patience.ns / MOMENT_PART})
               : SNIB__NEVER;
}

/* Since when an answer has been awaited that should be there by now; 0: there
 * is none. An unread answer is the server's silence only if this process was
 * awake to read it. */
static snib_instant state_silent_since(const struct snib__redis *s,
                                       snib_instant now)
{
    snib_instant since = {0};
    for (int i = 0; i < SUBS; i++) {
        const struct session *l = &s->session[i];
        if (l->count && snib__reached(now, snib__state_silent_at(s, l))) {
            since = l->ring[l->head].sent;
        }
    }
    return since;
}

void snib__state_read(const struct snib__redis *s, snib_instant now,
                      struct snib__store_state *ret)
{
    snib_instant silent = state_silent_since(s, now);
    ret->err = s->state.err;
    ret->reachable = s->state.good.ns != 0;
    ret->nodes_reachable = ret->reachable;
    if (!ret->err && silent.ns) {
        ret->err = SNIB_ERR_UNREACHABLE;
        ret->reachable = false;
        ret->nodes_reachable = 0;
        ret->since = silent;
        snprintf(ret->text, sizeof ret->text, "no answer");
    } else if (ret->err) {
        ret->since = s->state.bad;
        memcpy(ret->text, s->state.text, sizeof ret->text);
    } else if (ret->reachable) {
        ret->since = s->state.good;
    } else {
        ret->since = s->state.wanted;
        snprintf(ret->text, sizeof ret->text, "%s",
                 ret->since.ns ? "no answer yet" : "not asked yet");
    }
}
