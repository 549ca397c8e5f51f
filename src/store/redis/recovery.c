/* store/redis/recovery.c — ?recovery=: exclusion although the server forgets.
 *
 * A server that was restarted, promoted or emptied may have forgotten grants
 * whose holders go on. So it lets nobody in anew until the longest lease is over
 * that it may have forgotten, and holders reclaim theirs meanwhile
 * (scripts/epoch.lua, scripts/keep.lua). Each connection begins with the epoch
 * of its server; a script that finds another one in force has done nothing, and
 * the connection is made anew. No lease may be longer than the recovery
 * (out->lease_most). */
#include <stdio.h>

#include "base/error.h"
#include "store/redis/redis_i.h"

void snib__recovery_encode(const struct snib__redis *s, struct snib__buf *b)
{
    /* By EVAL: a greeting is not repeated. */
    snib__encode_script(b, SNIB__SCRIPT_EPOCH, true, 2, 1);
    snib__resp_text(b, SNIB__REDIS_EPOCH_KEY);
    snib__resp_text(b, SNIB__REDIS_MARK_KEY);
    snib__resp_i64(b, s->recovery_ms);
}

bool snib__recovery_read(const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *left = snib__resp_at(c, 1);
    return c->type == SNIB__RESP_ARRAY && left &&
           left->type == SNIB__RESP_INTEGER;
}

void snib__recovery_closed(struct snib__request *rq, int64_t ms)
{
    snib__fail(rq->said.reterr, SNIB_ERR_BUSY,
               "the server was restarted, replaced or emptied: it lets nobody "
               "in anew for %lld.%lld s more, since leases may be running that "
               "it has forgotten",
               (long long)ms / 1000, (long long)ms / 100 % 10);
}
