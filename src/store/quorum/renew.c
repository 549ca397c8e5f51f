/* store/quorum/renew.c — keeping a majority.
 *
 *   RENEW  Every node is asked to extend the grant (compare, never create).
 *            a majority did                                -> told DONE, AFTER
 *   SET    Else nodes that do not know the grant (restarted empty) are told of
 *          it, unless they gave a later grant meanwhile or another holds the
 *          lock there                                      -> DONE, NO, or
 *                                                             NOT_APPLIED
 *   AFTER  The answer is out. Nodes that are known to miss the grant are told
 *          of it, if the lock is free there.
 *
 * A renewal that sets a grant is dangerous: between its loss and its return
 * somebody else may have held the lock. If a majority extended the grant, that
 * cannot have been, whatever the other nodes say. Without such a majority only
 * nodes are set whose token memory has not gone past our grant
 * (src/store/redis/scripts/keep.lua), and only after every node has answered or
 * failed. A node that was told of the grant's end has a tombstone and is not
 * set: a late renewal must not bring back a grant that was released.
 *
 * NO is said only when a majority says that the grant is not ours. Anything
 * between is NOT_APPLIED: the core shows the lock at risk and asks again until
 * its deadline. */
#include "store/quorum/quorum_i.h"

/* The acquire of this grant may still have a task, which knows of some nodes
 * that they have nothing. The renewal may now set the grant there, so that
 * knowledge is dropped. */
static void renew_acquire_knows_no_more(struct snib__quorum *q,
                                        const struct task *task)
{
    SNIB__LIST_EACH (l, &q->bucket[task->id[0] % BUCKETS]) {
        struct task *other = SNIB__CONTAINER(l, struct task, link);
        if (other == task || other->stage != ST_AFTER || !other->round ||
            other->id[0] != task->id[0] || other->id[1] != task->id[1]) {
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

void snib__renew_start(struct snib__quorum *q, snib_instant now,
                       struct task *task)
{
    task->stage = ST_RENEW;
    renew_acquire_knows_no_more(q, task);
    for (uint32_t k = 0; k < q->count; k++) {
        task->part[k].has = HAS_FAILED;
        if (!snib__node_behind(q, k)) {
            snib__part_renew(q, now, task, k);
        }
    }
}

static void renew_renewed(struct snib__quorum *q, snib_instant now,
                          struct task *task)
{
    snib_instant from = SNIB__NEVER;
    for (uint32_t k = 0; k < q->count; k++) {
        if (task->part[k].has == HAS_GOOD) {
            snib_duration left = task->part[k].left;
            from = snib__sooner(from, task->part[k].from);
            task->lease = left.ns < task->lease.ns ? left : task->lease;
        }
    }
    task->parent->said.valid_from = from;
    task->parent->said.left = task->lease;
    snib__task_tell(q, task, SNIB__DONE, SNIB_ERR_OK, NULL);
    snib__after_begin(q, now, task, from);
}

/* A majority does not have the grant any more: end it at the other nodes, too,
 * where it is nobody's. */
static void renew_end_rest(struct snib__quorum *q, snib_instant now,
                           const struct task *task)
{
    uint32_t rest = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        rest |= (uint32_t)(task->part[k].has != HAS_OTHER) << k;
    }
    if (rest) {
        snib__sweep_behind(q, now, task, task->id, rest, task->token);
    }
}

static void renew_failed(struct snib__quorum *q, snib_instant now,
                         struct task *task)
{
    char why[252];
    bool revoked = false, forgotten = true;
    for (uint32_t k = 0; k < q->count; k++) {
        const struct part *p = &task->part[k];
        revoked = revoked || p->revoked;
        forgotten = forgotten && (p->has != HAS_OTHER || p->forgotten);
    }
    if (snib__parts_with(q, task, HAS_OTHER) >= q->majority) {
        task->parent->said.revoked = revoked;
        task->parent->said.forgotten = forgotten && !revoked;
        snib__task_lost(q, task, revoked);
        renew_end_rest(q, now, task);
    } else {
        snib_err err = snib__nodes_why(q, task, why, sizeof why);
        snib__task_tell(q, task, SNIB__NOT_APPLIED, err, why);
    }
    snib__task_end(q, task);
}

void snib__renew_check(struct snib__quorum *q, snib_instant now,
                       struct task *task)
{
    if (!task->parent) {
        snib__task_end(q, task);
        return;
    }
    if (snib__parts_with(q, task, HAS_GOOD) >= q->majority) {
        renew_renewed(q, now, task);
        return;
    }
    if (task->busy) {
        return;
    }
    if (task->stage == ST_RENEW) {
        task->stage = ST_SET;
        for (uint32_t k = 0; k < q->count; k++) {
            if (task->part[k].missed) {
                snib__part_keep(q, now, task, k, task->lease, false);
            }
        }
    }
    if (!task->busy) {
        renew_failed(q, now, task);
    }
}

/* -- bringing nodes in line ------------------------------------------------ */

/* Has the node told us that it lacks the grant, or has it under another token?
 * For an acquire: or did it fail? */
static bool renew_lacks(const struct task *task, const struct part *p)
{
    if (p->doing != DO_NOTHING || p->revoked) {
        return false;
    }
    /* After a renewal nodes that failed are left to the next renewal. */
    return p->has == HAS_OURS || p->missed ||
           (task->round && p->has != HAS_GOOD);
}

static void renew_keep(struct snib__quorum *q, snib_instant now,
                       struct task *task, uint32_t k)
{
    snib_duration left = snib__between(now, task->until);
    if (left.ns > 1000000) {
        task->part[k].missed = false;
        snib__part_keep(q, now, task, k, left, true);
    }
}

/* All is done. Where a copy may still be executed, the task stays as long as
 * that: the request that ends the grant must name the task's id. */
static void renew_after_over(struct snib__quorum *q, snib_instant now,
                             struct task *task)
{
    snib_instant sent = task->round ? task->round_began : task->began;
    snib_instant late = snib__after(sent, snib__ms(LATE_COPY_MS));
    task->tries = REPAIRS;
    if (snib__parts_with(q, task, HAS_MAYBE) && !snib__reached(now, late)) {
        snib__task_timer(q, task, late);
    } else {
        snib__task_end(q, task);
    }
}

/* Nothing more can be done for the grant now. Try again later, or give up. */
static void renew_after_wait(struct snib__quorum *q, snib_instant now,
                             struct task *task)
{
    bool all = true;
    for (uint32_t k = 0; k < q->count; k++) {
        all = all && !renew_lacks(task, &task->part[k]);
    }
    if (task->busy) {
        return;
    }
    if (all || task->tries >= REPAIRS) {
        renew_after_over(q, now, task);
        return;
    }
    snib__task_timer(q, task,
                     snib__after(now, snib__ms(snib__quorum_between(
                                          q, REPAIR_MS, 2 * REPAIR_MS))));
}

void snib__after_begin(struct snib__quorum *q, snib_instant now,
                       struct task *task, snib_instant from)
{
    task->stage = ST_AFTER;
    task->until = snib__after(from, task->lease);
    task->tries = task->round ? 0 : REPAIRS;
    snib__heap_remove(&q->timers, &task->timer);
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &task->part[k];
        if (renew_lacks(task, p) && (p->has == HAS_OURS || !task->round)) {
            renew_keep(q, now, task, k);
        }
    }
    renew_after_wait(q, now, task);
}

void snib__after_check(struct snib__quorum *q, snib_instant now,
                       struct task *task, struct part *p)
{
    if (p->has == HAS_OURS && p->token == task->token) {
        p->has = HAS_GOOD; /* a late answer, with the same token */
    } else if ((p->has == HAS_OURS && !p->missed) ||
               (!task->round && p->missed)) {
        renew_keep(q, now, task, p->node);
        p->missed = p->doing == DO_KEEP && task->round;
    }
    renew_after_wait(q, now, task);
}

void snib__after_due(struct snib__quorum *q, snib_instant now,
                     struct task *task)
{
    if (task->tries >= REPAIRS) {
        snib__task_end(q, task);
        return;
    }
    task->tries++;
    for (uint32_t k = 0; k < q->count; k++) {
        if (renew_lacks(task, &task->part[k]) && !snib__node_rests(q, now, k)) {
            renew_keep(q, now, task, k);
        }
    }
    renew_after_wait(q, now, task);
}
