/* store/quorum/vote.c — the votes of a round, counted: who granted, who may
 * still, under which tokens. It asks nobody and changes nothing. */
#include "store/quorum/quorum_i.h"

bool snib__vote_holds(const struct part *p)
{
    return p->has == HAS_OURS || p->has == HAS_GOOD;
}

/* Is this part's request one of this round, not of a round before? */
bool snib__vote_is_pending(const struct task *task, const struct part *p)
{
    return p->doing == DO_ACQUIRE && p->rq.id[1] == task->id[1];
}

/* Is the round on its way, no longer than answers may take, and likely to win
 * with the nodes that answer as a rule? If the limit cuts such a round off,
 * that says nothing against the nodes; the caller is told that the lock is
 * held. */
bool snib__vote_in_good_time(const struct snib__quorum *q, snib_instant now,
                             const struct task *task)
{
    uint32_t n = 0;
    if (!task->may_queue ||
        snib__between(task->round_began, now).ns >= q->patience.ns / 4) {
        return false;
    }
    for (uint32_t k = 0; k < q->count; k++) {
        const struct part *p = &task->part[k];
        const struct node *node = &q->node[k];
        n += snib__vote_holds(p) || p->has == HAS_OTHER ||
             (snib__vote_is_pending(task, p) && node->ever && !node->failing);
    }
    return n >= q->majority;
}

/* A token just ahead of the nodes' clocks, leaving out clocks that are far
 * off. */
int64_t snib__vote_first_token(const struct snib__quorum *q, snib_instant now)
{
    int64_t clock[NODES_MAX], most = 0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        int64_t ms = q->kind->clock(q->node[k].store, now);
        uint32_t at = n;
        if (ms <= 0) {
            continue;
        }
        for (; at > 0 && clock[at - 1] > ms; at--) {
            clock[at] = clock[at - 1];
        }
        clock[at] = ms;
        n++;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (clock[i] <= clock[(n - 1) / 2] + CLOCKS_APART_MS) {
            most = clock[i];
        }
    }
    return n >= q->majority ? (most + FLOOR_AHEAD_MS) * 1024 : 0;
}

/* Are so many addresses no host's that there can be no majority? */
bool snib__vote_hopeless(const struct snib__quorum *q)
{
    uint32_t no_such = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        no_such += q->node[k].no_such;
    }
    return q->count - no_such < q->majority;
}

bool snib__vote_far_ahead(int64_t token, int64_t than)
{
    return token > than + (int64_t)TOKENS_APART_MS * 1024;
}

/* The lower median of the tokens given. */
int64_t snib__vote_middle(const struct snib__quorum *q, const struct task *task)
{
    int64_t token[NODES_MAX];
    uint32_t n = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        const struct part *p = &task->part[k];
        uint32_t at = n;
        if (!snib__vote_holds(p)) {
            continue;
        }
        for (; at > 0 && token[at - 1] > p->token; at--) {
            token[at] = token[at - 1];
        }
        token[at] = p->token;
        n++;
    }
    return n ? token[(n - 1) / 2] : 0;
}
