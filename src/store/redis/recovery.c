/* store/redis/recovery.c — ?recovery=: exclusion although the server forgets.
 *
 * A server that was restarted, promoted or emptied may have forgotten grants
 * whose holders go on. So it lets nobody in anew until the longest lease is over
 * that it may have forgotten, and holders reclaim theirs meanwhile
 * (scripts/epoch.lua, scripts/keep.lua). Each connection begins with the epoch
 * of its server; a script that finds another one in force has done nothing, and
 * the connection is made anew. No lease may be longer than the recovery
 * (out->lease_most). Somebody who knows that nothing was forgotten, or that
 * nobody goes on, ends it by hand (scripts/ready.lua). */
#include <stdio.h>

#include "base/error.h"
#include "base/record.h"
#include "store/redis/redis_i.h"

void snib__recovery_encode(const struct snib__redis *s, struct snib__buf *b)
{
    /* By EVAL: a greeting is not repeated. */
    snib__encode_script(b, SNIB__SCRIPT_EPOCH, true, 2, 1);
    snib__resp_text(b, SNIB__REDIS_EPOCH_KEY);
    snib__resp_text(b, SNIB__REDIS_MARK_KEY);
    snib__encode_recovery(s, b);
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

void snib__encode_ready(const struct snib__redis *s, struct snib__buf *b,
                        const struct snib__request *rq, bool full)
{
    bool end = rq->params.op == SNIB__PARAMS_OPEN;
    snib__encode_script(b, SNIB__SCRIPT_READY, full, 1, 2);
    snib__resp_text(b, SNIB__REDIS_EPOCH_KEY);
    snib__resp_i64(b, end ? rq->params.amount : 0);
    snib__encode_recovery(s, b);
}

bool snib__ready_read(struct snib__request *rq, const struct snib__resp_cell *c)
{
    static const enum snib__field fields[] = {SNIB__F_LEFT, SNIB__F_END,
                                              SNIB__F_COUNT};
    for (uint32_t i = 0; i < 3; i++) {
        const struct snib__resp_cell *e = snib__resp_at(c, i);
        if (!e || e->type != SNIB__RESP_INTEGER || e->integer < 0) {
            return false;
        }
    }
    snib__rec_row(rq->said.result, SNIB__ROW_RECOVERY);
    for (uint32_t i = 0; i < 3; i++) {
        snib__rec_i64(rq->said.result, fields[i], snib__resp_at(c, i)->integer);
    }
    return true;
}
