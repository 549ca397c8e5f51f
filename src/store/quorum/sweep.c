/* store/quorum/sweep.c — ending a grant or a request, everywhere.
 *
 * A RELEASE, a CANCEL, and what a lost round leaves behind at nodes that have
 * not answered. Every node is told, also one that did not answer the acquire:
 * it may execute it yet. Where a late copy may come the node is sent a CANCEL,
 * which leaves a tombstone; else a RELEASE, which leaves nothing.
 *
 * The core has its answer when a majority has confirmed: from then on another
 * can win. The others are told again and again, in the background, until the
 * lease would be over by itself. That is a courtesy and not a promise, so it
 * is bounded: beyond BACKGROUND_MAX the leases end it, and a node that fails
 * is told when it answers again. */
#include "base/error.h"
#include "store/quorum/quorum_i.h"

static void send(struct snib__quorum *q, snib_instant now, struct op *op)
{
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &op->part[k];
        if (p->has == HAS_MAYBE && p->doing == DO_NOTHING &&
            !snib__node_rests(q, now, k)) {
            snib__part_end(q, now, op, k, p->plain, p->missed);
        }
    }
}

/* All that can be told now. */
static void look(struct snib__quorum *q, snib_instant now, struct op *op)
{
    uint32_t ended = snib__parts_with(q, op, HAS_NOTHING);
    if (op->parent && ended >= q->majority) {
        bool release = op->parent->verb == SNIB__RELEASE;
        /* A forced release is done when a majority has executed it: of those
         * that answered us, one at least has, though others may still have had
         * our grant. */
        bool no = release && (op->noes >= q->majority || op->revoked);
        op->parent->revoked = no && op->revoked;
        if (no) {
            snib__op_lost(q, op, op->revoked);
        } else {
            snib__op_tell(q, op, SNIB__DONE, SNIB_ERR_OK, NULL);
        }
        op->until = snib__later(snib__after(op->began, op->lease),
                                snib__after(op->began, snib__ms(LATE_COPY_MS)));
    }
    if (!op->parent && !op->detached) {
        op->detached = true;
        q->background++;
    }
    if (ended == q->count ||
        (!op->parent &&
         (snib__reached(now, op->until) || q->background > BACKGROUND_MAX))) {
        snib__op_end(q, op);
        return;
    }
    snib_instant end = op->parent ? op->parent->limit : op->until;
    if (op->next.ns == 0 && op->busy + ended < q->count) {
        int64_t ms = op->pause.ns ? snib__to_ms(op->pause) * 2 : REST_FIRST_MS;
        ms = ms < REST_MOST_MS ? ms : REST_MOST_MS;
        op->pause = snib__ms(ms);
        op->next =
            snib__after(now, snib__ms(snib__quorum_between(q, ms / 2, ms)));
    }
    snib__op_timer(q, op, op->next.ns ? snib__sooner(op->next, end) : end);
}

void snib__sweep_look(struct snib__quorum *q, snib_instant now, struct op *op,
                      struct part *p, doing was)
{
    switch (p->rq.answer) {
    case SNIB__DONE:
        break;
    case SNIB__NO:
        /* Not under this token. Under another, if it was not raised. */
        op->noes += was == DO_RELEASE;
        op->revoked = op->revoked || p->rq.revoked;
        if (p->rq.revoked && op->parent) { /* who did it, and why */
            snib__fail(op->parent->reterr, SNIB_ERR_LOST, "%s", p->error.text);
        }
        p->plain = false;
        snib__part_end(q, now, op, p->node, false, true);
        return;
    case SNIB__UNKNOWN:
        p->missed = true; /* a copy may come: with a tombstone */
        break;
    case SNIB__NOT_APPLIED:
    case SNIB__PENDING:
    case SNIB__QUEUED:
        break;
    }
    look(q, now, op);
}

void snib__sweep_due(struct snib__quorum *q, snib_instant now, struct op *op)
{
    if (op->parent && snib__reached(now, op->parent->limit)) {
        char why[252];
        snib__nodes_why(q, op, why, sizeof why);
        snib__op_tell(q, op, SNIB__UNKNOWN, SNIB_ERR_UNKNOWN, why);
        snib__op_end(q, op);
        return;
    }
    if (!op->parent && snib__reached(now, op->until)) {
        snib__op_end(q, op);
        return;
    }
    op->next = (snib_instant){0};
    send(q, now, op);
    look(q, now, op);
}

/* -- beginning ------------------------------------------------------------------ */

/* The op that deals with this id: an ACQUIRE under way, or what follows a
 * grant or a renewal. */
static struct op *next_of(struct snib__quorum *q, const uint64_t id[2],
                          struct op * not )
{
    SNIB__LIST_EACH (l, &q->bucket[id[0] % BUCKETS]) {
        struct op *op = SNIB__CONTAINER(l, struct op, link);
        if (op != not &&op->id[0] == id[0] &&
            (op->id[1] == id[1] || op->asked == id[1]) &&
            op->stage != ST_SWEEP && op->stage != ST_DRAIN) {
            return op;
        }
    }
    return NULL;
}

/* Whatever it was about ends now; what it may have left at a node is noted in
 * the parts of `by`. */
static void take_over(struct snib__quorum *q, struct op *by, struct op *op)
{
    bool acquire = op->round != 0 || op->stage == ST_PRIOR;
    for (uint32_t k = 0; k < q->count; k++) {
        const struct part *p = &op->part[k];
        struct part *mine = &by->part[k];
        bool asked = p->doing == DO_ACQUIRE || p->doing == DO_KEEP;
        if (op->stage == ST_PRIOR || op->stage == ST_REST) {
            mine->has = op->prior ? HAS_MAYBE : HAS_NOTHING;
        } else if (acquire && !asked &&
                   (p->has == HAS_NOTHING || p->has == HAS_OTHER ||
                    p->has == HAS_FAILED)) {
            mine->has = HAS_NOTHING;
        }
        if (asked || p->has == HAS_OURS || p->has == HAS_MAYBE) {
            mine->plain = false;
        }
    }
    if (acquire) {
        by->id[1] = op->id[1];
        by->prior = by->prior ? by->prior : op->prior;
    }
    if (op->parent && op->parent->verb == SNIB__ACQUIRE) {
        snib__op_tell(q, op, SNIB__NO, SNIB_ERR_CANCELLED, NULL);
    } else if (op->parent) {
        snib__op_tell(q, op, SNIB__UNKNOWN, SNIB_ERR_CANCELLED, NULL);
    }
    snib__op_end(q, op);
}

void snib__sweep_start(struct snib__quorum *q, snib_instant now, struct op *op,
                       struct snib__request *rq)
{
    struct op *other;
    op->stage = ST_SWEEP;
    op->prior = rq->verb == SNIB__CANCEL ? rq->token : 0;
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &op->part[k];
        p->has = HAS_MAYBE;
        p->token = op->token;
        p->plain = rq->verb == SNIB__RELEASE;
        p->missed = rq->resent;
    }
    while ((other = next_of(q, rq->id, op))) {
        take_over(q, op, other);
    }
    send(q, now, op);
    look(q, now, op);
}

void snib__sweep_behind(struct snib__quorum *q, snib_instant now,
                        const struct op *from, const uint64_t id[2],
                        uint32_t mask, int64_t token)
{
    if (q->background >= BACKGROUND_MAX) {
        return;
    }
    struct op *op = snib__op_new(q, from->name, id);
    if (!op) {
        return; /* its lease ends it */
    }
    op->stage = ST_SWEEP;
    op->keepers = from->keepers;
    op->lease = from->lease;
    op->prior = from->prior;
    op->began = now;
    op->until =
        snib__after(snib__after(now, op->lease), snib__ms(LATE_COPY_MS));
    for (uint32_t k = 0; k < q->count; k++) {
        op->part[k].has = mask >> k & 1 ? HAS_MAYBE : HAS_NOTHING;
        op->part[k].plain = token != 0;
        op->part[k].token = token;
    }
    send(q, now, op);
    look(q, now, op);
}
