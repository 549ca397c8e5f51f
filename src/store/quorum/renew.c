/* store/quorum/renew.c — keeping a majority.
 *
 *   RENEW  every node is asked to extend the grant (compare, never create)
 *            a majority did                                  -> told DONE, AFTER
 *   SET    else nodes that do not know the grant (restarted empty) are told of
 *          it, unless they gave a later grant meanwhile, or the lock is held
 *          there by another                                  -> DONE, NO, or
 *                                                               NOT_APPLIED
 *   AFTER  the answer is out; nodes that are known to miss the grant are told
 *          of it, if the lock is free there
 *
 * A renewal that sets is no renewal: between its loss and its return somebody
 * else may have held the lock. With a majority of extensions that cannot have
 * been, whatever the others say; without one only nodes are set whose token
 * memory has not gone past our grant (scripts/keep.lua), and only after every
 * node has spoken. A node that was told of the grant's end has a tombstone and
 * is not set (H15).
 *
 * NO is said only when a majority says that the grant is not ours. Anything
 * between is NOT_APPLIED: the core shows the lock at risk and asks again until
 * its deadline. */
#include "store/quorum/quorum_i.h"

/* A renewal may tell nodes of the grant of which its acquire, if that is still
 * being dealt with, knows that they have nothing. */
static void acquire_knows_no_more(struct snib__quorum *q, const struct op *op)
{
    SNIB__LIST_EACH (l, &q->bucket[op->id[0] % BUCKETS]) {
        struct op *other = SNIB__CONTAINER(l, struct op, link);
        if (other == op || other->stage != ST_AFTER || !other->round ||
            other->id[0] != op->id[0] || other->id[1] != op->id[1]) {
            continue;
        }
        for (uint32_t k = 0; k < q->count; k++) {
            struct part *p = &other->part[k];
            if (p->has != HAS_GOOD && p->has != HAS_OURS) {
                p->has = HAS_MAYBE;
            }
        }
    }
}

void snib__renew_start(struct snib__quorum *q, snib_instant now, struct op *op)
{
    op->stage = ST_RENEW;
    acquire_knows_no_more(q, op);
    for (uint32_t k = 0; k < q->count; k++) {
        op->part[k].has = HAS_FAILED;
        if (!snib__node_behind(q, k)) {
            snib__part_renew(q, now, op, k);
        }
    }
}

static void renewed(struct snib__quorum *q, snib_instant now, struct op *op)
{
    snib_instant from = SNIB__NEVER;
    for (uint32_t k = 0; k < q->count; k++) {
        if (op->part[k].has == HAS_GOOD) {
            snib_duration left = op->part[k].left;
            from = snib__sooner(from, op->part[k].from);
            op->lease = left.ns < op->lease.ns ? left : op->lease;
        }
    }
    op->parent->valid_from = from;
    op->parent->left = op->lease;
    snib__op_tell(q, op, SNIB__DONE, SNIB_ERR_OK, NULL);
    snib__after_begin(q, now, op, from);
}

/* A majority has it no more; what stands elsewhere is nobody's. */
static void end_rest(struct snib__quorum *q, snib_instant now,
                     const struct op *op)
{
    uint32_t rest = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        rest |= (uint32_t)(op->part[k].has != HAS_OTHER) << k;
    }
    if (rest) {
        snib__sweep_behind(q, now, op, op->id, rest, op->token);
    }
}

static void failed(struct snib__quorum *q, snib_instant now, struct op *op)
{
    char why[252];
    bool revoked = false;
    for (uint32_t k = 0; k < q->count; k++) {
        revoked = revoked || op->part[k].revoked;
    }
    if (snib__parts_with(q, op, HAS_OTHER) >= q->majority) {
        op->parent->revoked = revoked;
        snib__op_lost(q, op, revoked);
        end_rest(q, now, op);
    } else {
        snib_err err = snib__nodes_why(q, op, why, sizeof why);
        snib__op_tell(q, op, SNIB__NOT_APPLIED, err, why);
    }
    snib__op_end(q, op);
}

void snib__renew_look(struct snib__quorum *q, snib_instant now, struct op *op)
{
    if (!op->parent) {
        snib__op_end(q, op);
        return;
    }
    if (snib__parts_with(q, op, HAS_GOOD) >= q->majority) {
        renewed(q, now, op);
        return;
    }
    if (op->busy) {
        return;
    }
    if (op->stage == ST_RENEW) {
        op->stage = ST_SET;
        for (uint32_t k = 0; k < q->count; k++) {
            if (op->part[k].missed) {
                snib__part_keep(q, now, op, k, op->lease, false);
            }
        }
    }
    if (!op->busy) {
        failed(q, now, op);
    }
}

/* -- bringing nodes in line ------------------------------------------------------ */

/* Has it told us that it lacks the grant, or has it under another token? */
static bool lacks(const struct op *op, const struct part *p)
{
    if (p->doing != DO_NOTHING || p->revoked) {
        return false;
    }
    /* Of a renewal: the next one will find out about those that failed. */
    return p->has == HAS_OURS || p->missed || (op->round && p->has != HAS_GOOD);
}

static void keep(struct snib__quorum *q, snib_instant now, struct op *op,
                 uint32_t k)
{
    snib_duration left = snib__between(now, op->until);
    if (left.ns > 1000000) {
        op->part[k].missed = false;
        snib__part_keep(q, now, op, k, left, true);
    }
}

/* All is done. Where a copy may be executed yet, the id is remembered for as
 * long as that: whoever ends the grant must name it. */
static void after_over(struct snib__quorum *q, snib_instant now, struct op *op)
{
    snib_instant sent = op->round ? op->round_began : op->began;
    snib_instant late = snib__after(sent, snib__ms(LATE_COPY_MS));
    op->tries = REPAIRS;
    if (snib__parts_with(q, op, HAS_MAYBE) && !snib__reached(now, late)) {
        snib__op_timer(q, op, late);
    } else {
        snib__op_end(q, op);
    }
}

/* Nothing more to do for it now: later, or never. */
static void after_wait(struct snib__quorum *q, snib_instant now, struct op *op)
{
    bool all = true;
    for (uint32_t k = 0; k < q->count; k++) {
        all = all && !lacks(op, &op->part[k]);
    }
    if (op->busy) {
        return;
    }
    if (all || op->tries >= REPAIRS) {
        after_over(q, now, op);
        return;
    }
    snib__op_timer(q, op,
                   snib__after(now, snib__ms(snib__quorum_between(
                                        q, REPAIR_MS, 2 * REPAIR_MS))));
}

void snib__after_begin(struct snib__quorum *q, snib_instant now, struct op *op,
                       snib_instant from)
{
    op->stage = ST_AFTER;
    op->until = snib__after(from, op->lease);
    op->tries = op->round ? 0 : REPAIRS;
    snib__heap_remove(&q->timers, &op->timer);
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &op->part[k];
        if (lacks(op, p) && (p->has == HAS_OURS || !op->round)) {
            keep(q, now, op, k);
        }
    }
    after_wait(q, now, op);
}

void snib__after_look(struct snib__quorum *q, snib_instant now, struct op *op,
                      struct part *p)
{
    if (p->has == HAS_OURS && p->token == op->token) {
        p->has = HAS_GOOD; /* late, and the same token */
    } else if ((p->has == HAS_OURS && !p->missed) ||
               (!op->round && p->missed)) {
        keep(q, now, op, p->node);
        p->missed = p->doing == DO_KEEP && op->round;
    }
    after_wait(q, now, op);
}

void snib__after_due(struct snib__quorum *q, snib_instant now, struct op *op)
{
    if (op->tries >= REPAIRS) {
        snib__op_end(q, op);
        return;
    }
    op->tries++;
    for (uint32_t k = 0; k < q->count; k++) {
        if (lacks(op, &op->part[k]) && !snib__node_rests(q, now, k)) {
            keep(q, now, op, k);
        }
    }
    after_wait(q, now, op);
}
