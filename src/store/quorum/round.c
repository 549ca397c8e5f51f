/* store/quorum/round.c — acquiring on a majority.
 *
 *   PRIOR  a yield: our earlier grant is ended first        -> REST (short)
 *   ROUND  one ACQUIRE to every node, all in one step
 *            a majority granted, same token                 -> told DONE, AFTER
 *            … under different tokens                       -> RAISE
 *            a majority cannot be had any more              -> lost
 *   RAISE  nodes below the highest token are told of it     -> DONE, or lost
 *   lost   What was granted is given back everywhere. Nodes that have yet to
 *          answer are told when they do, or when the next round begins.
 *                                                           -> REST, or end
 *   REST   a pause                                          -> ROUND
 *
 * The outcome of a round is decided here and nowhere else: an id is good for
 * one round, and an id that did not win is never used again. So an acquire is
 * never *unknown*: what may be left of it at a node blocks others until it is
 * cancelled or its lease ends, but it is nobody's grant.
 *
 * Token. The votes of a majority can carry different tokens, and the highest of
 * them says nothing about what the next majority will give: with clocks apart
 * it may give a lower one (five nodes at 0, -1, -6, -6, -6 s: A wins on 1–3, B
 * later on 3–5). So a grant is told only when a majority remembers its very
 * token: every later majority contains one of these nodes. As a rule that costs
 * nothing: each round asks for tokens just ahead of every node's clock, and
 * nodes that remember the same give the same. When they differ, the nodes below
 * are raised first (one more round trip). A node whose token is more than a day
 * ahead of the others' is not counted: one broken clock would drag all tokens
 * along.
 *
 * Nobody queues at the nodes, so a quorum does not serve in order of arrival: a
 * waiting client asks again, with growing, random pauses. */
#include "store/quorum/quorum_i.h"

static snib_instant round_give_up_at(const struct task *task)
{
    int64_t spare = snib__between(task->began, task->parent->limit).ns / 8;
    if (task->held || task->parent->limit.ns == INT64_MAX) {
        return task->parent->limit;
    }
    /* A little before the limit, so that the caller hears why. */
    spare = spare < 50 * 1000000 ? spare : 50 * 1000000;
    return snib__before(task->parent->limit, (snib_duration){spare});
}

/* -- asking ---------------------------------------------------------------- */

static void round_results(struct snib__quorum *q, snib_instant now,
                          struct task *task);

static void round_rest(struct snib__quorum *q, snib_instant now,
                       struct task *task, snib_duration d)
{
    task->stage = ST_REST;
    snib__task_timer(q, task,
                     snib__sooner(snib__after(now, d), round_give_up_at(task)));
}

/* Are too few nodes free to be asked now, while others have yet to answer the
 * round before? A round now would be lost and say nothing of the lock. */
static bool round_too_early(const struct snib__quorum *q, snib_instant now,
                            const struct task *task)
{
    uint32_t idle = 0, due = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        bool rests = snib__node_rests(q, now, k);
        idle += task->part[k].doing == DO_NOTHING && !rests;
        due += task->part[k].doing != DO_NOTHING;
    }
    return idle < q->majority && idle + due >= q->majority;
}

static void round_send_all(struct snib__quorum *q, snib_instant now,
                           struct task *task)
{
    if (round_too_early(q, now, task)) {
        round_rest(q, now, task, snib__ms(SPLIT_LEAST_MS));
        return;
    }
    int64_t floor = snib__vote_first_token(q, now);
    floor = floor > task->floor ? floor : task->floor;
    uint32_t behind = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        behind |= (uint32_t)(task->part[k].doing == DO_ACQUIRE ||
                             task->part[k].doing == DO_KEEP)
                  << k;
    }
    if (behind) { /* slow ones, of the round before */
        snib__sweep_behind(q, now, task, task->id, behind, 0);
    }
    task->stage = ST_ROUND;
    if (task->round++) {
        task->id[1] = snib__rng_next(&q->rng);
    }
    task->parent->asked[0] = task->id[0];
    task->parent->asked[1] = task->id[1];
    q->out->renamed = true;
    task->round_began = now;
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &task->part[k];
        p->token = 0;
        p->from = (snib_instant){0};
        p->has = HAS_FAILED;
        p->missed = false;
        if (p->doing == DO_NOTHING && !snib__node_rests(q, now, k)) {
            p->has = HAS_NOTHING;
            snib__part_acquire(q, now, task, k, floor);
        }
    }
    snib__task_timer(q, task, round_give_up_at(task));
    round_results(q, now, task); /* perhaps too few could be asked at all */
}

/* -- the end of a round ---------------------------------------------------- */

static void round_tell_lost(struct snib__quorum *q, struct task *task)
{
    char why[252];
    if (task->held) {
        task->parent->said.left = task->left;
        snib__task_tell(q, task, SNIB__NO, SNIB_ERR_BUSY, NULL);
    } else {
        snib_err err = snib__nodes_why(q, task, why, sizeof why);
        snib__task_tell(q, task, SNIB__NOT_APPLIED, err, why);
    }
}

/* May it be tried again? A trouble that only a person can repair ends it at
 * once. */
static bool round_goes_on(struct snib__quorum *q, snib_instant now,
                          struct task *task, bool split)
{
    char why[252];
    if (snib__reached(now, round_give_up_at(task))) {
        return false;
    }
    if (!task->held) {
        snib_err err = snib__nodes_why(q, task, why, sizeof why);
        return task->may_queue && err == SNIB_ERR_UNREACHABLE &&
               !snib__vote_hopeless(q);
    }
    return task->may_queue || (split && task->round < TRY_ROUNDS);
}

static void round_tell_queued(struct snib__quorum *q, struct task *task)
{
    struct snib__request *rq = task->parent;
    rq->said.left = task->left;
    if (!task->queued && task->may_queue && task->held) {
        task->queued = true;
        rq->said.position = 1; /* there is no order to tell */
        rq->said.answer = SNIB__QUEUED;
        if (!snib__linked(&rq->link)) {
            snib__list_push(&q->out->answered, &rq->link);
        }
    }
}

/* How long nothing is asked after a lost round. split: several clients asked at
 * once and shared the votes, so that none won. After SPLIT_ROUNDS such rounds
 * somebody is taken to hold the lock on a majority that we do not see whole,
 * and the pause is that of a wait. */
static snib_duration round_pause(struct snib__quorum *q, struct task *task,
                                 bool split)
{
    int64_t ms, most;
    if (split && task->tries < SPLIT_ROUNDS) {
        most = snib__to_ms(q->rtt) * 4;
        most = most < SPLIT_LEAST_MS ? SPLIT_LEAST_MS : most;
        most *= ++task->tries;
        most = most < SPLIT_MOST_MS ? most : SPLIT_MOST_MS;
        return (snib_duration){snib__quorum_between(q, 0, most * 1000000)};
    }
    ms = task->pause.ns ? snib__to_ms(task->pause) * 3 / 2 : POLL_FIRST_MS;
    ms = ms < POLL_MOST_MS ? ms : POLL_MOST_MS;
    task->pause = snib__ms(ms);
    ms = snib__quorum_between(q, ms / 2, ms + ms / 2);
    if (task->held && task->left.ns > 0 && snib__to_ms(task->left) < ms) {
        ms =
            snib__to_ms(task->left) + snib__quorum_between(q, 1, POLL_FIRST_MS);
    }
    return snib__ms(ms);
}

static void round_lost(struct snib__quorum *q, snib_instant now,
                       struct task *task, const char *why)
{
    uint32_t behind = 0, ours = 0, others = 0, pending = 0;
    task->left = (snib_duration){0};
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &task->part[k];
        if (p->doing == DO_NOTHING && p->has == HAS_MAYBE) {
            behind |= 1u << k;
        } else if (p->has == HAS_OTHER) {
            others++;
            task->left.ns = p->rq.said.left.ns > task->left.ns
                                ? p->rq.said.left.ns
                                : task->left.ns;
        }
        ours += snib__vote_holds(p);
        pending += snib__vote_is_pending(task, p);
    }
    /* Nodes that have yet to answer cannot win the round any more, but they
     * count as answering: what stands in the way is a holder or a split vote.
     * At the limit they have not answered; then only nodes count that answer as
     * a rule. */
    bool over = snib__reached(now, round_give_up_at(task));
    uint32_t heard = others + ours + (over ? 0 : pending);
    task->held = (others > 0 && heard >= q->majority) ||
                 (over && snib__vote_in_good_time(q, now, task));
    bool shared = ours > 0 || (pending > 0 && others < q->majority);
    bool split = task->held && shared && others < q->majority;
    bool again = !why && round_goes_on(q, now, task, shared);
    if (why) {
        snib__task_tell(q, task, SNIB__NOT_APPLIED, SNIB_ERR_STORE, why);
    } else if (again) {
        round_tell_queued(q, task);
    } else {
        round_tell_lost(q, task);
    }
    for (uint32_t k = 0; k < q->count; k++) {
        if (task->part[k].doing == DO_NOTHING &&
            snib__vote_holds(&task->part[k])) {
            snib__part_end(q, now, task, k, true, false);
        }
    }
    if (behind) {
        snib__sweep_behind(q, now, task, task->id, behind, 0);
    }
    if (task->parent) {
        round_rest(q, now, task, round_pause(q, task, split));
    } else {
        snib__task_end(q, task);
    }
}

/* -- winning --------------------------------------------------------------- */

static void round_won(struct snib__quorum *q, snib_instant now,
                      struct task *task)
{
    struct snib__request *rq = task->parent;
    snib_instant from = SNIB__NEVER;
    snib_duration left = task->lease;
    for (uint32_t k = 0; k < q->count; k++) {
        const struct part *p = &task->part[k];
        if (p->has == HAS_GOOD && p->doing == DO_NOTHING) {
            from = snib__sooner(from, p->from);
            left = p->left.ns < left.ns ? p->left : left;
        }
    }
    if (snib__reached(now, snib__before(snib__after(from, left),
                                        snib__quorum_allowance(left)))) {
        round_lost(
            q, now, task,
            "the lease was over before a majority had answered: the servers "
            "are slower than the lease is long");
        return;
    }
    rq->id[0] = task->id[0];
    rq->id[1] = task->id[1];
    rq->token = task->token;
    rq->acquire.reserve = task->reserve;
    rq->said.far = task->far;
    rq->said.valid_from = from;
    rq->said.left = task->lease = left;
    snib__task_tell(q, task, SNIB__DONE, SNIB_ERR_OK, NULL);
    snib__after_begin(q, now, task, from);
}

static void round_results(struct snib__quorum *q, snib_instant now,
                          struct task *task)
{
    int64_t mid = snib__vote_middle(q, task);
    uint32_t votes = 0, good = 0, pending = 0;
    bool odd = false;
    int64_t top = task->stage == ST_RAISE ? task->token : 0;
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &task->part[k];
        bool counted =
            snib__vote_holds(p) && !snib__vote_far_ahead(p->token, mid);
        odd = odd || (snib__vote_holds(p) && !counted);
        votes += counted;
        pending += snib__vote_is_pending(task, p);
        if (task->stage == ST_ROUND && counted && p->token > top) {
            top = p->token;
            task->far = p->far;
        }
    }
    if (votes + pending < q->majority) {
        round_lost(
            q, now, task,
            odd && !snib__parts_with(q, task, HAS_OTHER)
                ? "the clocks of the servers are more than a day apart: a "
                  "majority that agrees is needed"
                : NULL);
        return;
    }
    if (votes < q->majority) {
        return;
    }
    task->token = top;
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &task->part[k];
        if (snib__vote_holds(p) && p->token == top) {
            p->has = HAS_GOOD;
            good += p->doing == DO_NOTHING;
        }
    }
    if (good >= q->majority) {
        round_won(q, now, task);
        return;
    }
    task->stage = ST_RAISE;
    uint32_t may = good + pending;
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &task->part[k];
        if (p->has != HAS_OURS || snib__vote_far_ahead(p->token, mid)) {
            continue;
        }
        if (p->doing == DO_NOTHING && !p->missed) {
            p->missed = true; /* a node is asked once */
            /* Not `anyway`: this vote may be over by now, and another grant
             * given. */
            snib__part_keep(q, now, task, k, task->lease, false);
        }
        may += p->doing == DO_KEEP;
    }
    if (may < q->majority) {
        round_lost(q, now, task, NULL);
    }
}

/* Nodes that did not confirm the end of our earlier grant are told again, in
 * the background. A node that has yet to answer is told when it does. */
static void round_end_prior_behind(struct snib__quorum *q, snib_instant now,
                                   const struct task *task)
{
    for (uint32_t k = 0; k < q->count; k++) {
        const struct part *p = &task->part[k];
        if (p->doing == DO_NOTHING && p->has != HAS_NOTHING) {
            snib__sweep_behind(q, now, task, p->rq.id, 1u << k, 0);
        }
    }
}

void snib__round_check(struct snib__quorum *q, snib_instant now,
                       struct task *task)
{
    switch ((stage)task->stage) {
    case ST_PRIOR:
        if (!task->busy ||
            snib__parts_with(q, task, HAS_NOTHING) >= q->majority) {
            round_end_prior_behind(q, now, task);
            task->round = 1; /* any later answer to it is late */
            round_rest(q, now, task,
                       snib__ms(snib__quorum_between(q, YIELD_LEAST_MS,
                                                     YIELD_MOST_MS)));
        }
        break;
    case ST_ROUND:
    case ST_RAISE:
        round_results(q, now, task);
        break;
    case ST_REST:
    case ST_RENEW:
    case ST_SET:
    case ST_AFTER:
    case ST_SWEEP:
    case ST_INSPECT:
    case ST_DRAIN:
        break;
    }
}

void snib__round_due(struct snib__quorum *q, snib_instant now,
                     struct task *task)
{
    if (!task->parent) {
        return;
    }
    if (snib__reached(now, round_give_up_at(task))) {
        switch ((stage)task->stage) {
        case ST_ROUND:
        case ST_RAISE:
            if (!snib__reached(now, task->parent->limit) &&
                /* the round may still win */
                snib__vote_in_good_time(q, now, task)) {
                snib__task_timer(q, task, task->parent->limit);
                return;
            }
            /* it also tells the core, as no more rounds may start */
            round_lost(q, now, task, NULL);
            return;
        case ST_PRIOR:
            round_end_prior_behind(q, now, task);
            task->round = 1; /* any later answer to it is late */
            round_tell_lost(q, task);
            snib__task_end(q, task);
            return;
        case ST_REST:
            round_tell_lost(q, task);
            snib__task_end(q, task);
            return;
        case ST_RENEW:
        case ST_SET:
        case ST_AFTER:
        case ST_SWEEP:
        case ST_INSPECT:
        case ST_DRAIN:
            return;
        }
    }
    if (task->stage == ST_REST) {
        round_send_all(q, now, task);
    } else { /* the core has moved the limit */
        snib__task_timer(q, task, round_give_up_at(task));
    }
}

/* -- beginning ------------------------------------------------------------- */

/* End every task that still deals with the grant that this acquire is to
 * follow, lest it sets the grant again after its end. True: *ret_id is the
 * grant's id. */
static bool round_end_dealings(struct snib__quorum *q, const struct task *of,
                               uint64_t ret_id[2])
{
    bool found = false;
    for (int i = 0; i < BUCKETS; i++) {
        SNIB__LIST_EACH_SAFE (l, next, &q->bucket[i]) {
            struct task *task = SNIB__CONTAINER(l, struct task, link);
            bool deals = task->stage == ST_AFTER || task->stage == ST_RENEW ||
                         task->stage == ST_SET;
            if (task == of || !deals || !task->name ||
                task->token != of->prior ||
                !snib__name_same(task->name, of->name)) {
                continue;
            }
            found = true;
            ret_id[0] = task->id[0];
            ret_id[1] = task->id[1];
            if (task->parent) {
                snib__task_tell(q, task, SNIB__UNKNOWN, SNIB_ERR_CANCELLED,
                                NULL);
            }
            snib__task_end(q, task);
        }
    }
    return found;
}

/* A yield. There is no queue at the nodes, so our grant is ended, others get a
 * moment, and then we ask like anybody. */
static void round_end_prior(struct snib__quorum *q, snib_instant now,
                            struct task *task)
{
    uint64_t id[2] = {task->id[0], task->id[1]};
    task->stage = ST_PRIOR;
    if (!round_end_dealings(q, task, task->id)) {
        task->id[1] = snib__rng_next(&q->rng);
    }
    for (uint32_t k = 0; k < q->count; k++) {
        task->part[k].has = HAS_MAYBE;
        snib__part_end(q, now, task, k, false, true);
    }
    task->id[0] = id[0];
    task->id[1] = id[1];
    snib__task_timer(q, task, round_give_up_at(task));
}

void snib__round_start(struct snib__quorum *q, snib_instant now,
                       struct task *task)
{
    struct snib__request *rq = task->parent;
    task->may_queue = rq->acquire.may_queue;
    task->prior = rq->token;
    task->token = 0;
    snib__buf_add(&task->text, rq->text ? rq->text : "", rq->text_size);
    if (task->text.failed) {
        snib__task_tell(q, task, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM, NULL);
        snib__task_end(q, task);
    } else if (task->prior) {
        round_end_prior(q, now, task);
    } else {
        round_send_all(q, now, task);
    }
}
