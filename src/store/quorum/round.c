/* store/quorum/round.c — acquiring on a majority.
 *
 *   PRIOR  a yield: our earlier grant is ended first        -> REST (short)
 *   ROUND  one ACQUIRE to every node, all in one step
 *            a majority granted, same token                 -> told DONE, AFTER
 *            … under different tokens                       -> RAISE
 *            a majority cannot be had any more              -> lost
 *   RAISE  nodes below the highest token are told it        -> DONE, or lost
 *   lost   what was got is given back everywhere; nodes that have yet to
 *          answer, when they do or the next round begins    -> REST, or end
 *   REST   a pause                                          -> ROUND
 *
 * The outcome of a round is decided here and nowhere else: an id is good for
 * one round, and one that did not win is never used again. So an acquire is
 * never *unknown*: what may be left of it at a node blocks others until it is
 * cancelled or its lease ends, but is nobody's.
 *
 * Token. Votes of a majority can carry different tokens, and the highest of
 * them says nothing about what the next majority will give: with clocks apart
 * it may be lower (five nodes at 0, -1, -6, -6, -6 s: A wins on 1–3, B later
 * on 3–5). So a grant is told only when a majority remembers its very token:
 * every later majority contains one of these nodes. As a rule that costs
 * nothing: each round asks for tokens just ahead of every node's clock, and
 * nodes that remember the same give the same. When they differ, those below
 * are raised first (one more round trip). A node whose token is more than a
 * day ahead of the others' is not counted: one broken clock would drag all
 * tokens along.
 *
 * Nobody queues at the nodes (first come, first served is not kept in a
 * quorum): who waits asks again, with growing, random pauses. */
#include <string.h>

#include "store/quorum/quorum_i.h"

static bool holds(const struct part *p)
{
    return p->has == HAS_OURS || p->has == HAS_GOOD;
}

/* Asked in this round, and not one that a round before still waits for. */
static bool is_pending(const struct op *op, const struct part *p)
{
    return p->doing == DO_ACQUIRE && p->rq.id[1] == op->id[1];
}

/* The round is on its way, and no longer than answers may take: it will do with
 * the nodes that answer as a rule. When the limit cuts it off, that says nothing
 * against them; what the caller waits for is the lock. */
static bool in_good_time(const struct snib__quorum *q, snib_instant now,
                         const struct op *op)
{
    uint32_t n = 0;
    if (!op->may_queue ||
        snib__between(op->round_began, now).ns >= q->patience.ns / 4) {
        return false;
    }
    for (uint32_t k = 0; k < q->count; k++) {
        const struct part *p = &op->part[k];
        const struct node *node = &q->node[k];
        n += holds(p) || p->has == HAS_OTHER ||
             (is_pending(op, p) && node->ever && !node->failing);
    }
    return n >= q->majority;
}

static snib_instant give_up_at(const struct op *op)
{
    int64_t spare = snib__between(op->began, op->parent->limit).ns / 8;
    if (op->held || op->parent->limit.ns == INT64_MAX) {
        return op->parent->limit;
    }
    /* A little earlier, so that the caller hears why. */
    spare = spare < 50 * 1000000 ? spare : 50 * 1000000;
    return snib__before(op->parent->limit, (snib_duration){spare});
}

/* -- asking -------------------------------------------------------------------- */

/* Just ahead of the nodes' clocks, one that is far off left out. */
static int64_t first_token(const struct snib__quorum *q, snib_instant now)
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

static void look(struct snib__quorum *q, snib_instant now, struct op *op);

static void rest(struct snib__quorum *q, snib_instant now, struct op *op,
                 snib_duration d)
{
    op->stage = ST_REST;
    snib__op_timer(q, op, snib__sooner(snib__after(now, d), give_up_at(op)));
}

/* Too few can be asked now, but for those that have yet to answer the round
 * before: a round now would be lost, and say nothing of the lock. */
static bool too_early(const struct snib__quorum *q, snib_instant now,
                      const struct op *op)
{
    uint32_t idle = 0, due = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        bool rests = snib__node_rests(q, now, k);
        idle += op->part[k].doing == DO_NOTHING && !rests;
        due += op->part[k].doing != DO_NOTHING;
    }
    return idle < q->majority && idle + due >= q->majority;
}

static void ask_all(struct snib__quorum *q, snib_instant now, struct op *op)
{
    if (too_early(q, now, op)) {
        rest(q, now, op, snib__ms(SPLIT_LEAST_MS));
        return;
    }
    int64_t floor = first_token(q, now);
    floor = floor > op->floor ? floor : op->floor;
    uint32_t behind = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        behind |= (uint32_t)(op->part[k].doing == DO_ACQUIRE ||
                             op->part[k].doing == DO_KEEP)
                  << k;
    }
    if (behind) { /* slow ones, of the round before */
        snib__sweep_behind(q, now, op, op->id, behind, 0);
    }
    op->stage = ST_ROUND;
    if (op->round++) {
        op->id[1] = snib__rng_next(&q->rng);
    }
    op->round_began = now;
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &op->part[k];
        p->token = 0;
        p->from = (snib_instant){0};
        p->has = HAS_FAILED;
        p->missed = false;
        if (p->doing == DO_NOTHING && !snib__node_rests(q, now, k)) {
            p->has = HAS_NOTHING;
            snib__part_acquire(q, now, op, k, floor);
        }
    }
    snib__op_timer(q, op, give_up_at(op));
    look(q, now, op); /* perhaps too few could be asked at all */
}

/* -- the end of a round ------------------------------------------------------------ */

static void tell_lost(struct snib__quorum *q, struct op *op)
{
    char why[252];
    if (op->held) {
        op->parent->left = op->left;
        snib__op_tell(q, op, SNIB__NO, SNIB_ERR_BUSY, NULL);
    } else {
        snib_err err = snib__nodes_why(q, op, why, sizeof why);
        snib__op_tell(q, op, SNIB__NOT_APPLIED, err, why);
    }
}

/* So many names are no host's that no majority can be there. */
static bool hopeless(const struct snib__quorum *q)
{
    uint32_t no_such = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        no_such += q->node[k].no_such;
    }
    return q->count - no_such < q->majority;
}

/* May it be tried again? What only a person can repair ends it at once. */
static bool goes_on(struct snib__quorum *q, snib_instant now, struct op *op,
                    bool split)
{
    char why[252];
    if (snib__reached(now, give_up_at(op))) {
        return false;
    }
    if (!op->held) {
        snib_err err = snib__nodes_why(q, op, why, sizeof why);
        return op->may_queue && err == SNIB_ERR_UNREACHABLE && !hopeless(q);
    }
    return op->may_queue || (split && op->round < TRY_ROUNDS);
}

static void tell_queued(struct snib__quorum *q, struct op *op)
{
    struct snib__request *rq = op->parent;
    rq->left = op->left;
    if (!op->queued && op->may_queue && op->held) {
        op->queued = true;
        rq->position = 1; /* there is no order to tell */
        rq->answer = SNIB__QUEUED;
        if (!snib__linked(&rq->link)) {
            snib__list_push(&q->out->answered, &rq->link);
        }
    }
}

/* How long nothing is asked. split: several asked at once and shared the
 * votes, so that nobody won. Votes that are split again and again are not:
 * somebody holds the lock on a majority that we do not see whole. */
static snib_duration pause(struct snib__quorum *q, struct op *op, bool split)
{
    int64_t ms, most;
    if (split && op->tries < SPLIT_ROUNDS) {
        most = snib__to_ms(q->rtt) * 4;
        most = most < SPLIT_LEAST_MS ? SPLIT_LEAST_MS : most;
        most *= ++op->tries;
        most = most < SPLIT_MOST_MS ? most : SPLIT_MOST_MS;
        return (snib_duration){snib__quorum_between(q, 0, most * 1000000)};
    }
    ms = op->pause.ns ? snib__to_ms(op->pause) * 3 / 2 : POLL_FIRST_MS;
    ms = ms < POLL_MOST_MS ? ms : POLL_MOST_MS;
    op->pause = snib__ms(ms);
    ms = snib__quorum_between(q, ms / 2, ms + ms / 2);
    if (op->held && op->left.ns > 0 && snib__to_ms(op->left) < ms) {
        ms = snib__to_ms(op->left) + snib__quorum_between(q, 1, POLL_FIRST_MS);
    }
    return snib__ms(ms);
}

static void lost(struct snib__quorum *q, snib_instant now, struct op *op,
                 const char *why)
{
    uint32_t behind = 0, ours = 0, others = 0, pending = 0;
    op->left = (snib_duration){0};
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &op->part[k];
        if (p->doing == DO_NOTHING && p->has == HAS_MAYBE) {
            behind |= 1u << k;
        } else if (p->has == HAS_OTHER) {
            others++;
            op->left.ns =
                p->rq.left.ns > op->left.ns ? p->rq.left.ns : op->left.ns;
        }
        ours += holds(p);
        pending += is_pending(op, p);
    }
    /* Those that have yet to answer cannot win it any more, but they answer:
     * what stands in the way is a holder, or a split vote. At the limit they
     * have not: only those count then that answer as a rule. */
    bool over = snib__reached(now, give_up_at(op));
    uint32_t heard = others + ours + (over ? 0 : pending);
    op->held = (others > 0 && heard >= q->majority) ||
               (over && in_good_time(q, now, op));
    bool shared = ours > 0 || (pending > 0 && others < q->majority);
    bool split = op->held && shared && others < q->majority;
    bool again = !why && goes_on(q, now, op, shared);
    if (why) {
        snib__op_tell(q, op, SNIB__NOT_APPLIED, SNIB_ERR_STORE, why);
    } else if (again) {
        tell_queued(q, op);
    } else {
        tell_lost(q, op);
    }
    for (uint32_t k = 0; k < q->count; k++) {
        if (op->part[k].doing == DO_NOTHING && holds(&op->part[k])) {
            snib__part_end(q, now, op, k, true, false);
        }
    }
    if (behind) {
        snib__sweep_behind(q, now, op, op->id, behind, 0);
    }
    if (op->parent) {
        rest(q, now, op, pause(q, op, split));
    } else {
        snib__op_end(q, op);
    }
}

/* -- winning ------------------------------------------------------------------------- */

static bool far_ahead(int64_t token, int64_t than)
{
    return token > than + (int64_t)TOKENS_APART_MS * 1024;
}

/* The lower median of the tokens given. */
static int64_t middle(const struct snib__quorum *q, const struct op *op)
{
    int64_t token[NODES_MAX];
    uint32_t n = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        const struct part *p = &op->part[k];
        uint32_t at = n;
        if (!holds(p)) {
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

static void won(struct snib__quorum *q, snib_instant now, struct op *op)
{
    struct snib__request *rq = op->parent;
    snib_instant from = SNIB__NEVER;
    snib_duration left = op->lease;
    for (uint32_t k = 0; k < q->count; k++) {
        const struct part *p = &op->part[k];
        if (p->has == HAS_GOOD && p->doing == DO_NOTHING) {
            from = snib__sooner(from, p->from);
            left = p->left.ns < left.ns ? p->left : left;
        }
    }
    if (snib__reached(now, snib__before(snib__after(from, left),
                                        snib__quorum_allowance(left)))) {
        lost(q, now, op,
             "the lease was over before a majority had answered: the servers "
             "are slower than the lease is long");
        return;
    }
    rq->id[0] = op->id[0];
    rq->id[1] = op->id[1];
    rq->token = op->token;
    rq->room = op->room;
    rq->far = op->far;
    rq->valid_from = from;
    rq->left = op->lease = left;
    snib__op_tell(q, op, SNIB__DONE, SNIB_ERR_OK, NULL);
    snib__after_begin(q, now, op, from);
}

static void look(struct snib__quorum *q, snib_instant now, struct op *op)
{
    int64_t mid = middle(q, op);
    uint32_t votes = 0, good = 0, pending = 0;
    bool odd = false;
    int64_t top = op->stage == ST_RAISE ? op->token : 0;
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &op->part[k];
        bool counted = holds(p) && !far_ahead(p->token, mid);
        odd = odd || (holds(p) && !counted);
        votes += counted;
        pending += is_pending(op, p);
        if (op->stage == ST_ROUND && counted && p->token > top) {
            top = p->token;
            op->far = p->far;
        }
    }
    if (votes + pending < q->majority) {
        lost(q, now, op,
             odd && !snib__parts_with(q, op, HAS_OTHER)
                 ? "the clocks of the servers are more than a day apart: a "
                   "majority that agrees is needed"
                 : NULL);
        return;
    }
    if (votes < q->majority) {
        return;
    }
    op->token = top;
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &op->part[k];
        if (holds(p) && p->token == top) {
            p->has = HAS_GOOD;
            good += p->doing == DO_NOTHING;
        }
    }
    if (good >= q->majority) {
        won(q, now, op);
        return;
    }
    op->stage = ST_RAISE;
    uint32_t may = good + pending;
    for (uint32_t k = 0; k < q->count; k++) {
        struct part *p = &op->part[k];
        if (p->has != HAS_OURS || far_ahead(p->token, mid)) {
            continue;
        }
        if (p->doing == DO_NOTHING && !p->missed) {
            p->missed = true; /* asked once */
            /* A vote may be over by now, and another have been granted. */
            snib__part_keep(q, now, op, k, op->lease, false);
        }
        may += p->doing == DO_KEEP;
    }
    if (may < q->majority) {
        lost(q, now, op, NULL);
    }
}

/* Nodes that said nothing to the end of our earlier grant are told again, in
 * the background; those that have yet to answer, when they do. */
static void end_prior_behind(struct snib__quorum *q, snib_instant now,
                             const struct op *op)
{
    for (uint32_t k = 0; k < q->count; k++) {
        const struct part *p = &op->part[k];
        if (p->doing == DO_NOTHING && p->has != HAS_NOTHING) {
            snib__sweep_behind(q, now, op, p->rq.id, 1u << k, 0);
        }
    }
}

void snib__round_look(struct snib__quorum *q, snib_instant now, struct op *op)
{
    switch ((stage)op->stage) {
    case ST_PRIOR:
        if (!op->busy || snib__parts_with(q, op, HAS_NOTHING) >= q->majority) {
            end_prior_behind(q, now, op);
            op->round = 1; /* what else comes of it is late */
            rest(q, now, op,
                 snib__ms(
                     snib__quorum_between(q, YIELD_LEAST_MS, YIELD_MOST_MS)));
        }
        break;
    case ST_ROUND:
    case ST_RAISE:
        look(q, now, op);
        break;
    case ST_REST:
    case ST_RENEW:
    case ST_SET:
    case ST_AFTER:
    case ST_SWEEP:
    case ST_LOOK:
    case ST_DRAIN:
        break;
    }
}

void snib__round_due(struct snib__quorum *q, snib_instant now, struct op *op)
{
    if (!op->parent) {
        return;
    }
    if (snib__reached(now, give_up_at(op))) {
        switch ((stage)op->stage) {
        case ST_ROUND:
        case ST_RAISE:
            if (!snib__reached(now, op->parent->limit) &&
                in_good_time(q, now, op)) { /* no cause to hear early */
                snib__op_timer(q, op, op->parent->limit);
                return;
            }
            lost(q, now, op, NULL); /* tells, since it may not go on */
            return;
        case ST_PRIOR:
            end_prior_behind(q, now, op);
            op->round = 1; /* as above */
            tell_lost(q, op);
            snib__op_end(q, op);
            return;
        case ST_REST:
            tell_lost(q, op);
            snib__op_end(q, op);
            return;
        case ST_RENEW:
        case ST_SET:
        case ST_AFTER:
        case ST_SWEEP:
        case ST_LOOK:
        case ST_DRAIN:
            return;
        }
    }
    if (op->stage == ST_REST) {
        ask_all(q, now, op);
    } else { /* the core has moved the limit */
        snib__op_timer(q, op, give_up_at(op));
    }
}

/* -- beginning --------------------------------------------------------------------------- */

/* Whatever still deals with the grant that this one is to follow ends now, lest
 * it sets the grant again behind its end. True: *ret_id is the grant's. */
static bool end_dealings(struct snib__quorum *q, const struct op *of,
                         uint64_t ret_id[2])
{
    bool found = false;
    for (int i = 0; i < BUCKETS; i++) {
        SNIB__LIST_EACH_SAFE (l, next, &q->bucket[i]) {
            struct op *op = SNIB__CONTAINER(l, struct op, link);
            bool deals = op->stage == ST_AFTER || op->stage == ST_RENEW ||
                         op->stage == ST_SET;
            if (op == of || !deals || !op->name || op->token != of->prior ||
                !snib__name_same(op->name, of->name)) {
                continue;
            }
            found = true;
            ret_id[0] = op->id[0];
            ret_id[1] = op->id[1];
            if (op->parent) {
                snib__op_tell(q, op, SNIB__UNKNOWN, SNIB_ERR_CANCELLED, NULL);
            }
            snib__op_end(q, op);
        }
    }
    return found;
}

/* A yield: there is no queue to stand in at the nodes, so our grant is ended,
 * others get a moment, and then we ask like anybody. */
static void end_prior(struct snib__quorum *q, snib_instant now, struct op *op)
{
    uint64_t id[2] = {op->id[0], op->id[1]};
    op->stage = ST_PRIOR;
    if (!end_dealings(q, op, op->id)) {
        op->id[1] = snib__rng_next(&q->rng);
    }
    for (uint32_t k = 0; k < q->count; k++) {
        op->part[k].has = HAS_MAYBE;
        snib__part_end(q, now, op, k, false, true);
    }
    op->id[0] = id[0];
    op->id[1] = id[1];
    snib__op_timer(q, op, give_up_at(op));
}

void snib__round_start(struct snib__quorum *q, snib_instant now, struct op *op)
{
    struct snib__request *rq = op->parent;
    op->may_queue = rq->may_queue;
    op->prior = rq->token;
    op->token = 0;
    snib__buf_add(&op->text, rq->text ? rq->text : "", rq->text_size);
    if (op->text.failed) {
        snib__op_tell(q, op, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM, NULL);
        snib__op_end(q, op);
    } else if (op->prior) {
        end_prior(q, now, op);
    } else {
        ask_all(q, now, op);
    }
}
