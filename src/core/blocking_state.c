/* core/blocking_state.c — what the answers of a blocking store's library say of
 * how it is; blocking.c tells it. */
#include "core/blocking_i.h"

#include <stdio.h>

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
    if (!err) {
        s->last.text[0] = 0;
        return;
    }
    snprintf(s->last.text, sizeof s->last.text, "%s",
             r->said.reterr && r->said.reterr->code == err
                 ? r->said.reterr->text
                 : snib_err_text(err));
}
