/* store/quorum/answer.c — what a node's answer says of the node, and of its
 * part of the task; then the task goes on. */
#include "base/error.h"
#include "store/quorum/quorum_i.h"

static void answer_of_node(struct snib__quorum *q, snib_instant now,
                           const struct part *p, doing was)
{
    struct node *n = &q->node[p->node];
    const struct snib__request *rq = &p->rq;
    n->due--;
    if (p->error.code) {
        n->error = p->error;
    }
    if (rq->said.answer == SNIB__DONE || rq->said.answer == SNIB__NO) {
        n->ever = true;
        n->failing = n->probed = false;
        n->rests_until = (snib_instant){0};
        n->rest = snib__ms(REST_FIRST_MS);
        if (was == DO_ACQUIRE) {
            q->rtt.ns +=
                (snib__between(p->task->round_began, now).ns - q->rtt.ns) / 8;
        }
    } else if (rq->said.err != SNIB_ERR_CANCELLED &&
               (n->probed || snib__reached(now, n->rests_until))) {
        int64_t half = n->rest.ns / 2;
        n->failing = true;
        n->probed = false;
        n->rests_until = snib__after(
            now, (snib_duration){snib__quorum_between(q, half, 2 * half)});
        n->rest.ns = n->rest.ns * 2 < REST_MOST_MS * INT64_C(1000000)
                         ? n->rest.ns * 2
                         : REST_MOST_MS * INT64_C(1000000);
    }
}

static void answer_granted(struct part *p)
{
    p->has = HAS_OURS;
    p->token = p->rq.token;
    p->far = p->rq.said.far;
    p->from = p->rq.said.valid_from;
    p->left = p->rq.said.left;
}

static void answer_kept(struct part *p)
{
    p->has = HAS_GOOD;
    p->token = p->rq.token;
    p->from = p->rq.said.valid_from;
    p->left = p->rq.said.left;
    p->missed = false;
}

/* An answer that belongs to a round that is over, or to the end of an earlier
 * grant. A grant that stands at the node, or may stand there, is nobody's and
 * is ended. */
static void answer_late(struct snib__quorum *q, snib_instant now,
                        struct part *p, doing was)
{
    struct task *task = p->task;
    uint64_t id[2] = {p->rq.id[0], p->rq.id[1]};
    bool ours = (was == DO_ACQUIRE || was == DO_KEEP) &&
                p->rq.said.answer == SNIB__DONE;
    bool maybe = p->rq.said.answer == SNIB__UNKNOWN ||
                 (p->rq.said.answer == SNIB__NOT_APPLIED && was != DO_ACQUIRE);
    p->has = HAS_FAILED;
    if ((ours || maybe) && p->rq.said.err != SNIB_ERR_CANCELLED) {
        snib__sweep_behind(q, now, task, id, 1u << p->node,
                           ours ? p->rq.token : 0);
    }
    if (task->stage == ST_DRAIN) {
        snib__task_end(q, task);
        /* The task waited for this answer, too. */
    } else if (task->stage == ST_AFTER) {
        snib__after_check(q, now, task, p);
    }
}

/* The node says no. */
static void answer_no(struct part *p, doing was)
{
    const struct snib__request *rq = &p->rq;
    if (was == DO_ACQUIRE) {
        p->has = rq->said.err == SNIB_ERR_CANCELLED ? HAS_FAILED : HAS_OTHER;
    } else if (was != DO_RELEASE) {
        p->has = HAS_OTHER;
        p->missed = was == DO_RENEW && !rq->said.revoked;
        p->revoked = p->revoked || rq->said.revoked;
        p->forgotten = rq->said.forgotten;
        /* who forced it, and the reason */
        if (rq->said.revoked && p->task->parent) {
            snib__fail(p->task->parent->said.reterr, SNIB_ERR_LOST, "%s",
                       p->error.text);
        }
    }
}

/* What the part's node has of the task now. */
static void answer_of_part(struct part *p, doing was)
{
    switch (p->rq.said.answer) {
    case SNIB__DONE:
        if (was == DO_ACQUIRE) {
            answer_granted(p);
        } else if (was == DO_KEEP || was == DO_RENEW) {
            answer_kept(p);
        } else {
            p->has = HAS_NOTHING;
        }
        break;
    case SNIB__NO:
        answer_no(p, was);
        break;
    case SNIB__NOT_APPLIED:
        if (was == DO_ACQUIRE || was == DO_RENEW || was == DO_INSPECT) {
            p->has = HAS_FAILED;
        }
        break;
    case SNIB__PENDING: /* not final */
    case SNIB__QUEUED:
        break;
    case SNIB__UNKNOWN:
        if (was == DO_ACQUIRE ||
            (was == DO_KEEP && p->has != HAS_OURS && p->has != HAS_GOOD)) {
            p->has = HAS_MAYBE;
        } else if (was == DO_RENEW || was == DO_INSPECT) {
            p->has = HAS_FAILED;
        }
        break;
    }
}

void snib__part_answered(struct snib__quorum *q, snib_instant now,
                         struct part *p)
{
    struct task *task = p->task;
    struct snib__request *rq = &p->rq;
    doing was = (doing)p->doing;
    if (rq->said.answer == SNIB__PENDING || rq->said.answer == SNIB__QUEUED) {
        /* An interim answer, although nobody queues at a node. The node's store
         * keeps the request, and its final answer is still to come, by its
         * limit. */
        return;
    }
    p->doing = DO_NOTHING;
    task->busy--;
    answer_of_node(q, now, p, was);
    if (task->round && task->stage != ST_PRIOR &&
        (rq->id[1] != task->id[1] || task->stage == ST_REST ||
         task->stage == ST_DRAIN)) {
        answer_late(q, now, p, was);
        return;
    }
    answer_of_part(p, was);
    switch ((stage)task->stage) {
    case ST_PRIOR:
    case ST_ROUND:
    case ST_RAISE:
    case ST_REST:
        snib__round_check(q, now, task);
        break;
    case ST_RENEW:
    case ST_SET:
        snib__renew_check(q, now, task);
        break;
    case ST_AFTER:
        snib__after_check(q, now, task, p);
        break;
    case ST_SWEEP:
        snib__sweep_check(q, now, task, p, was);
        break;
    case ST_INSPECT:
        snib__inspect_check(q, now, task);
        break;
    case ST_DRAIN:
        snib__task_end(q, task);
        break;
    }
}
