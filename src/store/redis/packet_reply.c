/* store/redis/packet_reply.c — what comes of a packet that grants nothing.
 *
 *   SET, XADD                        the request
 *   OK, an id; e is ahead of it      is granted (packet.c)
 *   nil, …                           was not applied, somebody is there: it goes
 *                                    on as a script
 *   OK, anything else                may have taken the lock, or came too late,
 *                                    or there is no mark: UNKNOWN, so that it is
 *                                    repeated by a script under the same id
 *   EXECABORT                        was not applied: as for nil; but where the
 *                                    server is the wrong one, or busy, as for
 *                                    that answer to a script
 *   another error                    UNKNOWN, and the connection is closed: the
 *                                    transaction may still be open there
 *   anything else                    UNKNOWN */
#include <string.h>

#include "store/redis/redis_i.h"

/* It goes on as a script, at once: it was sent before, so no packet is made of
 * it any more. */
static void packet_reply_by_script(struct snib__redis *s, snib_instant now,
                                   struct snib__request *rq)
{
    snib__send_again(s, now, rq);
}

static void packet_reply_unknown(struct snib__redis *s,
                                 struct snib__request *rq)
{
    snib__request_fail(s, rq, SNIB__UNKNOWN, SNIB_ERR_UNKNOWN,
                       "it is not known whether the lock was taken");
}

/* EXEC says that nothing was applied. Either it says why, or another command of
 * the packet was told. */
static void packet_reply_aborted(struct snib__redis *s, snib_instant now, int i,
                                 const struct flight *f,
                                 const struct snib__resp_cell *c)
{
    static const char because[] = "because of: ";
    struct session *l = &s->session[i];
    const char *why = memmem(c->text, c->size, because, sizeof because - 1);
    uint32_t size = (uint32_t)strlen(l->untaken);
    if (why) {
        why += sizeof because - 1;
        size = c->size - (uint32_t)(why - c->text);
    } else {
        why = l->untaken;
    }
    error_kind kind = snib__redis_error_kind(why, size);
    l->no_packets = l->no_packets || kind == E_DENIED;
    if (size && (kind == E_RETRY || kind == E_DROP)) {
        snib__reply_error(s, now, i, f, why, size);
    } else {
        packet_reply_by_script(s, now, f->rq);
    }
}

/* EXEC itself was refused. If MULTI was not, whatever is sent now might only be
 * added to the transaction. */
static void packet_reply_stuck(struct snib__redis *s, int i,
                               const struct flight *f)
{
    struct session *l = &s->session[i];
    if (!l->no_packets) {
        l->stuck = l->doomed = true;
        s->packet_cuts += f->last;
    }
}

void snib__packet_reply(struct snib__redis *s, snib_instant now, int i,
                        const struct flight *f, const struct snib__resp_cell *c,
                        uint32_t k)
{
    static const char abort[] = "EXECABORT";
    const struct snib__resp_cell *set = snib__resp_at(c, k);
    struct snib__request *rq = f->rq;
    bool error = c->type == SNIB__RESP_ERROR;
    bool aborted = error && c->size >= sizeof abort - 1 &&
                   !memcmp(c->text, abort, sizeof abort - 1);
    if (error && !aborted) {
        packet_reply_stuck(s, i, f);
    }
    if (!rq) {
        return; /* it has ended; a cancel is on its way where one is needed */
    }
    snib__request_set_where(rq, 0, M_FLIGHT);
    if (aborted) {
        packet_reply_aborted(s, now, i, f, c);
    } else if (!set || k + 1 >= c->size) {
        packet_reply_unknown(s, rq);
    } else if (set->type == SNIB__RESP_NIL) {
        s->packets_work = true;
        snib__packet_met(s, now, rq->name);
        packet_reply_by_script(s, now, rq);
    } else {
        if (!snib__resp_is(set, "OK")) {
            /* An error of SET itself: this server has none with PXAT. */
            s->session[i].no_packets = true;
        }
        packet_reply_unknown(s, rq);
    }
}
