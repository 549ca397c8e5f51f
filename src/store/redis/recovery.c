/* store/redis/recovery.c — ?recovery=: exclusion although the server forgets.
 *
 * A server that was restarted, promoted or emptied may have forgotten grants
 * whose holders go on. So it lets nobody in anew until the longest lease is over
 * that it may have forgotten, and holders reclaim theirs meanwhile
 * (scripts/epoch.lua, scripts/keep.lua). Each connection begins with the epoch
 * of its server; a script that finds another one in force has done nothing, and
 * the connection is made anew. A client that has only looked so far begins no
 * epoch: to look may be a mistake, of the server or of the number. No lease may
 * be longer than the recovery (out->lease_most). Somebody who knows that nothing
 * was forgotten, or that nobody goes on, ends it by hand. */
#include <stdio.h>

#include "base/error.h"
#include "base/record.h"
#include "store/redis/redis_i.h"

static void recovery_head(const struct snib__redis *s, struct snib__buf *b,
                          bool full)
{
    snib__encode_script(b, SNIB__SCRIPT_EPOCH, full, 2, 2);
    snib__resp_text(b, SNIB__REDIS_EPOCH_KEY);
    snib__resp_text(b, SNIB__REDIS_MARK_KEY);
    snib__encode_recovery(s, b);
}

/* s->wants: somebody has asked for more than looks. s->served: a server was used
 * with this number, so leases of that length may run. */
void snib__recovery_encode(const struct snib__redis *s, struct snib__buf *b)
{
    recovery_head(s, b, true); /* by EVAL: a greeting is not repeated */
    snib__resp_text(b, !s->wants                    ? "0"
                       : s->served || s->out->holds ? "known"
                                                    : "begin");
}

/* What follows `now` in an answer of epoch.lua; confirm.c reads the replication
 * id. */
enum { RECOVERY_LEFT, RECOVERY_NAME, RECOVERY_ENDED, RECOVERY_NUMBERS };

static bool recovery_numbers(const struct snib__resp_cell *c,
                             int64_t ret[RECOVERY_NUMBERS])
{
    for (uint32_t i = 0; i < RECOVERY_NUMBERS; i++) {
        const struct snib__resp_cell *e = snib__resp_at(c, 1 + i);
        if (!e || e->type != SNIB__RESP_INTEGER ||
            (e->integer < 0 && i != RECOVERY_NAME)) {
            return false;
        }
        ret[i] = e->integer;
    }
    return true;
}

/* A name below 0: none has begun, so nobody was served. */
bool snib__recovery_read(struct snib__redis *s, const struct snib__resp_cell *c)
{
    int64_t n[RECOVERY_NUMBERS];
    bool ours = recovery_numbers(c, n);
    s->served = s->served || (ours && n[RECOVERY_NAME] >= 0);
    return ours;
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
    recovery_head(s, b, full);
    snib__resp_i64(b, end ? rq->params.amount : 0);
}

bool snib__ready_read(struct snib__request *rq, const struct snib__resp_cell *c)
{
    static const enum snib__field fields[] = {[RECOVERY_LEFT] = SNIB__F_LEFT,
                                              [RECOVERY_NAME] = SNIB__F_END,
                                              [RECOVERY_ENDED] = SNIB__F_COUNT};
    int64_t n[RECOVERY_NUMBERS], missing;
    if (!recovery_numbers(c, n)) {
        return false;
    }
    snib__rec_row(rq->said.result, SNIB__ROW_RECOVERY);
    for (uint32_t i = 0; i < RECOVERY_NUMBERS; i++) {
        snib__rec_i64(rq->said.result, fields[i], n[i]);
    }
    if (snib__resp_number(snib__resp_at(c, 5), &missing)) {
        snib__rec_i64(rq->said.result, SNIB__F_MISSING, missing);
    }
    return true;
}
