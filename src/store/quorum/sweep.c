/* store/quorum/sweep.c — ending a grant or a request, everywhere.
 *
 * This does a RELEASE, a CANCEL, and clears what a lost round leaves behind at
 * nodes that have not answered. Every node is told, also one that did not
 * answer the acquire: it may still execute it. Where a late copy may come, the
 * node is sent a CANCEL, which leaves a tombstone; else a RELEASE, which leaves
 * nothing.
 *
 * The core has its answer when a majority has confirmed: from then on another
 * client can win. The other nodes are told again and again, in the background,
 * until the lease would be over by itself. That is a courtesy and not a
 * promise, so it is bounded: beyond SWEEPS_MAX tasks the leases end it, and a
 * node that fails is told when it answers again. */
#include "base/error.h"
#include "store/quorum/quorum_i.h"

static void sweep_send(struct snib__quorum *q, snib_instant now,
                       struct task *task)
{
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &task->part[k];
        if (p->has == HAS_MAYBE && p->doing == DO_NOTHING &&
            !snib__node_rests(q, now, k)) {
            snib__part_end(q, now, task, k, p->plain, p->missed);
        }
    }
}

/* Tell all that can be told now. */
static void sweep_results(struct snib__quorum *q, snib_instant now,
                          struct task *task)
{
    uint32_t ended = snib__parts_with(q, task, HAS_NOTHING);
    if (task->parent && ended >= q->majority) {
        bool release = task->parent->verb == SNIB__RELEASE;
        /* A forced release is done when a majority of the nodes has executed
         * it. So at least one of the nodes that answered us has, although
         * others may still have had our grant. */
        bool no = release && (task->noes >= q->majority || task->revoked);
        task->parent->said.revoked = no && task->revoked;
        if (no) { /* a node may have had it under another token */
            task->parent->resent = true;
            snib__task_lost(q, task, task->revoked);
        } else {
            snib__task_tell(q, task, SNIB__DONE, SNIB_ERR_OK, NULL);
        }
        task->until =
            snib__later(snib__after(task->began, task->lease),
                        snib__after(task->began, snib__ms(LATE_COPY_MS)));
    }
    if (!task->parent && !task->is_sweep) {
        task->is_sweep = true;
        q->sweeps++;
    }
    if (ended == q->count ||
        (!task->parent &&
         (snib__reached(now, task->until) || q->sweeps > SWEEPS_MAX))) {
        snib__task_end(q, task);
        return;
    }
    snib_instant end = task->parent ? task->parent->limit : task->until;
    if (task->next.ns == 0 && task->busy + ended < q->count) {
        int64_t ms =
            task->pause.ns ? snib__to_ms(task->pause) * 2 : REST_FIRST_MS;
        ms = ms < REST_MOST_MS ? ms : REST_MOST_MS;
        task->pause = snib__ms(ms);
        task->next =
            snib__after(now, snib__ms(snib__quorum_between(q, ms / 2, ms)));
    }
    snib__task_timer(q, task,
                     task->next.ns ? snib__sooner(task->next, end) : end);
}

void snib__sweep_check(struct snib__quorum *q, snib_instant now,
                       struct task *task, struct part *p, doing was)
{
    switch (p->rq.said.answer) {
    case SNIB__DONE:
        break;
    case SNIB__NO:
        /* The node has no grant under this token. It may have one under another
         * token, if that was not raised. */
        task->noes += was == DO_RELEASE;
        task->revoked = task->revoked || p->rq.said.revoked;
        if (p->rq.said.revoked &&
            task->parent) { /* who forced it, and the reason */
            snib__fail(task->parent->said.reterr, SNIB_ERR_LOST, "%s",
                       p->error.text);
        }
        p->plain = false;
        snib__part_end(q, now, task, p->node, false, true);
        return;
    case SNIB__UNKNOWN:
        p->missed = true; /* a copy may come: leave a tombstone */
        break;
    case SNIB__NOT_APPLIED:
    case SNIB__PENDING:
    case SNIB__QUEUED:
        break;
    }
    sweep_results(q, now, task);
}

void snib__sweep_due(struct snib__quorum *q, snib_instant now,
                     struct task *task)
{
    if (task->parent && snib__reached(now, task->parent->limit)) {
        char why[252];
        snib__nodes_why(q, task, why, sizeof why);
        snib__task_tell(q, task, SNIB__UNKNOWN, SNIB_ERR_UNKNOWN, why);
        snib__task_end(q, task);
        return;
    }
    if (!task->parent && snib__reached(now, task->until)) {
        snib__task_end(q, task);
        return;
    }
    task->next = (snib_instant){0};
    sweep_send(q, now, task);
    sweep_results(q, now, task);
}

/* -- beginning ------------------------------------------------------------- */

/* The task that deals with this id: an ACQUIRE under way, or what follows a
 * grant or a renewal. */
static struct task *sweep_next_of(struct snib__quorum *q, const uint64_t id[2],
                                  struct task * not )
{
    SNIB__LIST_EACH (l, &q->bucket[id[0] % BUCKETS]) {
        struct task *task = SNIB__CONTAINER(l, struct task, link);
        if (task != not &&task->id[0] == id[0] &&
            (task->id[1] == id[1] || task->core_id == id[1]) &&
            task->stage != ST_SWEEP && task->stage != ST_DRAIN) {
            return task;
        }
    }
    return NULL;
}

/* End this task. A grant that it may have left at a node is noted in the parts
 * of `by`. */
static void sweep_take_over(struct snib__quorum *q, struct task *by,
                            struct task *task)
{
    bool acquire = task->round != 0 || task->stage == ST_PRIOR;
    for (uint32_t k = 0; k < q->count; k++) {
        const struct part *p = &task->part[k];
        struct part *mine = &by->part[k];
        bool asked = p->doing == DO_ACQUIRE || p->doing == DO_KEEP;
        if (task->stage == ST_PRIOR || task->stage == ST_REST) {
            mine->has = task->prior ? HAS_MAYBE : HAS_NOTHING;
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
        by->id[1] = task->id[1];
        by->prior = by->prior ? by->prior : task->prior;
    }
    if (task->parent && task->parent->verb == SNIB__ACQUIRE) {
        snib__task_tell(q, task, SNIB__NO, SNIB_ERR_CANCELLED, NULL);
    } else if (task->parent) {
        snib__task_tell(q, task, SNIB__UNKNOWN, SNIB_ERR_CANCELLED, NULL);
    }
    snib__task_end(q, task);
}

void snib__sweep_start(struct snib__quorum *q, snib_instant now,
                       struct task *task, struct snib__request *rq)
{
    struct task *other;
    task->stage = ST_SWEEP;
    task->prior = rq->verb == SNIB__CANCEL ? rq->token : 0;
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &task->part[k];
        p->has = HAS_MAYBE;
        p->token = task->token;
        p->plain = rq->verb == SNIB__RELEASE;
        p->missed = rq->resent;
    }
    while ((other = sweep_next_of(q, rq->id, task))) {
        sweep_take_over(q, task, other);
    }
    sweep_send(q, now, task);
    sweep_results(q, now, task);
}

void snib__sweep_behind(struct snib__quorum *q, snib_instant now,
                        const struct task *from, const uint64_t id[2],
                        uint32_t mask, int64_t token)
{
    if (q->sweeps >= SWEEPS_MAX) {
        return;
    }
    struct task *task = snib__task_new(q, from->name, id);
    if (!task) {
        return; /* without memory its lease ends it */
    }
    task->stage = ST_SWEEP;
    task->background = from->background;
    task->lease = from->lease;
    task->prior = from->prior;
    task->began = now;
    task->until =
        snib__after(snib__after(now, task->lease), snib__ms(LATE_COPY_MS));
    for (uint32_t k = 0; k < q->count; k++) {
        task->part[k].has = mask >> k & 1 ? HAS_MAYBE : HAS_NOTHING;
        task->part[k].plain = token != 0;
        task->part[k].token = token;
    }
    sweep_send(q, now, task);
    sweep_results(q, now, task);
}
