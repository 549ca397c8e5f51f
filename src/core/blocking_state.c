/* core/blocking_state.c — how a blocking store is, by what its library has said.
 *
 * A library that others keep from working for a moment is well: only when that
 * has lasted for SNIB__BLOCKED_NS the store counts as not reachable, since the
 * first request that met it. */
#include "core/blocking_i.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

void snib__blocking_remember(struct snib__store *s, snib_instant now,
                             const struct snib__request *r)
{
    bool tells = r->said.answer == SNIB__PENDING ||
                 r->said.answer == SNIB__NOT_APPLIED ||
                 r->said.answer == SNIB__UNKNOWN;
    snib_err err = tells ? r->said.err : SNIB_ERR_OK;
    bool of_store = err == SNIB_ERR_STORE || err == SNIB_ERR_DENIED ||
                    err == SNIB_ERR_UNREACHABLE || err == SNIB_ERR_CONFIG;
    if (!of_store) {
        s->last.asked.ns = 0;
    }
    if (tells && !of_store) {
        return;
    }
    bool anew = s->last.asked.ns > s->last.since.ns &&
                (r->exec.blocked || s->last.blocked);
    if (!s->last.since.ns || !s->last.err != !err || (err && anew)) {
        s->last.since = of_store && s->last.asked.ns ? s->last.asked : now;
    }
    s->last.err = err;
    s->last.heard = now;
    s->last.blocked = r->exec.blocked;
    snprintf(s->last.text, sizeof s->last.text, "%s",
             !err ? ""
             : r->said.reterr && r->said.reterr->code == err
                 ? r->said.reterr->text
                 : snib_err_text(err));
}

void snib__blocking_state(const struct snib__store *s, snib_instant now,
                          struct snib__store_state *ret)
{
    if (snib__blocking_shares(s) && snib__sharing_stalls(s, now, ret)) {
        return;
    }
    snib_instant until = s->last.blocked && !s->owned ? s->last.heard : now;
    if (s->last.err &&
        snib__between(s->last.since, until).ns < SNIB__BLOCKED_NS) {
        ret->reachable = true; /* most likely another's write: it passes */
        ret->nodes_reachable = 1;
        return;
    }
    ret->err = s->last.err;
    ret->reachable = !s->last.err;
    ret->since = s->last.since;
    ret->nodes_reachable = ret->reachable;
    memcpy(ret->text, s->last.text, sizeof ret->text);
}

bool snib__blocking_server(const struct snib__store *s, snib_instant now,
                           uint32_t node, struct snib__server *ret)
{
    ret->state.nodes = 1;
    snib__blocking_state(s, now, &ret->state);
    snprintf(ret->product, sizeof ret->product, "%s", s->ops->scheme);
    if (s->ops->server) {
        s->ops->server(s->instance, ret);
    }
    return node == 0;
}
