/* store/redis/late.c — what a request is told whose limit has passed before its
 * answer came: what may have been applied is UNKNOWN; else what was in the way. */
#include <stdio.h>

#include "store/redis/inspect_i.h"

/* There is a connection, and others are ahead on it. */
static bool late_is_kept_back(const struct snib__redis *s,
                              const struct snib__request *rq)
{
    return (rq->store.where & M_UNSENT) &&
           (snib__session_up(s, CALLERS) || snib__session_up(s, BACKGROUND));
}

/* If that was a matter of a moment, it says nothing against the store. */
static void late_kept_back(struct snib__redis *s, snib_instant now,
                           struct snib__request *rq)
{
    char text[100];
    int64_t ms = snib__to_ms(snib__between(rq->exec.blocked_since, now));
    snprintf(text, sizeof text,
             "not sent for %lld ms, as other requests of this client are not "
             "answered",
             (long long)ms);
    rq->exec.blocked = true;
    snib__request_fail(s, rq, SNIB__NOT_APPLIED, SNIB_ERR_UNREACHABLE, text);
}

void snib__late(struct snib__redis *s, snib_instant now,
                struct snib__request *rq)
{
    const struct session *l = snib__session_first(s);
    char list[160];
    bool busy = /* was it told so, and has waited for a queue, or spun? */
        (rq->store.where & M_TO_QUEUE) || rq->said.err == SNIB_ERR_BUSY;
    if (snib__inspect_too_long(s, now, rq, list, sizeof list)) {
        snib__request_fail(s, rq, SNIB__NOT_APPLIED, SNIB_ERR_LIMIT, list);
    } else if (rq->store.misread &&
               !(rq->store.where & M_QUEUED)) { /* a repeat in flight, too */
        snib__request_misread(s, rq);
    } else if (snib__confirm_late(s, rq)) {
        return; /* it says why */
    } else if (rq->store.where & (M_FLIGHT | M_QUEUED)) {
        snib__request_fail(s, rq, SNIB__UNKNOWN, SNIB_ERR_UNKNOWN,
                           "no answer within the time allowed");
    } else if (busy && !s->state.err) { /* it is still so, as far as is known */
        snib__request_fail(s, rq, SNIB__NO, SNIB_ERR_BUSY, NULL);
    } else if (rq->said.err && !busy) { /* retried in vain; reterr says why */
        snib__request_finish(s, rq, SNIB__NOT_APPLIED);
    } else if (late_is_kept_back(s, rq)) {
        late_kept_back(s, now, rq);
    } else if (l->err) {
        snib__request_fail(s, rq, SNIB__NOT_APPLIED, l->err, l->text);
    } else {
        char text[sizeof l->text], note[200];
        snprintf(text, sizeof text, "no %s %.*s within the time allowed%s",
                 l->state == SESSION_LOGIN ? "login for" : "connection to",
                 ADDRESS_SHOWN, s->out->conn[l - s->session]->address,
                 snib__topology_note(s->topology, note, sizeof note));
        snib__request_fail(s, rq, SNIB__NOT_APPLIED, SNIB_ERR_UNREACHABLE,
                           text);
    }
}
