/* store/zookeeper/guess.c — a record that is made before the look, which is sent right
 * behind it.
 *
 * Others look, and then make their records: two round trips; who has no node yet looks
 * before that, too, and makes it. Two may guess what the look will show:
 *
 *   who seems to be alone      node and record are made at once (alone.c)
 *   who waits for one node     which was all that was in the way, and has gone
 *
 * *The look is what grants*, as it does for others (acquire.c): it is by the connection
 * on which this one has just written, so it shows whoever made a node before, and what
 * was granted. Where it shows somebody who is in the way, the record is removed, and the
 * request waits in its place as others do. Until then the record keeps others out, also
 * who is before it: acquire.c looks again before it goes by a record behind it. One whose
 * look was lost is not taken for a grant (zoo_claim.unproved). */
#include <string.h>

#include "store/zookeeper/zookeeper_i.h"

/* Of the lock's node, which was changed or made by this multi, whose number in the log
 * is that of the own node, too; then of that. False: the answer does not say it. */
static bool guess_read_new(struct zoo_step *k, struct zoo_claim *claim,
                           const struct zoo_reply *reply)
{
    struct snib__jute j = reply->body;
    struct snib__zk_result one = {.op = SNIB__ZK_ERROR};
    while (snib__zk_next_result(&j, &one) && !one.stat.mzxid &&
           !one.path.bytes) {
    }
    k->guess.czxid = one.stat.mzxid;
    if (!one.stat.mzxid || !snib__zoo_take_node(claim, j)) {
        return false;
    }
    claim->version = one.stat.version;
    return true;
}

/* Of the own node, which stood before. */
static bool guess_read_stands(const struct snib__zoo *z, struct zoo_step *k,
                              const struct zoo_reply *reply)
{
    struct snib__jute j = reply->body;
    struct snib__zk_result one = {.op = SNIB__ZK_ERROR};
    while (snib__zk_next_result(&j, &one) && !one.stat.mzxid) {
    }
    k->guess.czxid = one.stat.czxid;
    return one.stat.mzxid && one.stat.owner == z->session.zk.id;
}

/* Behind its answer comes that of the look, whatever this one is. */
static void guess_answered(struct snib__zoo *z, snib_instant now,
                           struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    bool nothing = reply->end == ZOO_SAYS || reply->end == ZOO_AGAIN;
    (void)now;
    k->guess.reply = *reply;
    k->guess.unfenced = snib__zoo_fence_has_failed(z, c, reply);
    (void)snib__zoo_multi_error(reply, &k->guess.index);
    k->guess.told = reply->end == ZOO_OK && claim &&
                    (k->guess.stands ? guess_read_stands(z, k, reply)
                                     : guess_read_new(k, claim, reply));
    if (nothing && claim && k->guess.stands) {
        claim->unproved = k->guess.unproved;
    } else if (nothing) {
        snib__zoo_claim_forget(z, k->r->id);
    }
}

/* Node and record are there, it is next, and nobody else can believe in a grant. */
static bool guess_is_right(const struct zoo_step *k,
                           const struct zoo_claim *claim)
{
    const struct snib__request *r = k->r;
    int at = snib__zoo_view_own(&k->view, r->id, claim->node);
    struct zoo_request request;
    uint64_t hash;
    snib__zoo_request_of(r, &request);
    return k->guess.told && at >= 0 && k->view.child[at].seq != ZOO_SEQ_LAST &&
           !k->view.foreign[0] && snib__zoo_view_record(&k->view, r->id) &&
           snib__zoo_view_ahead(&k->view, &request, at) < 0 &&
           !snib__zoo_view_dead(&k->view, &request, &hash);
}

static void guess_decide(struct snib__zoo *z, snib_instant now,
                         struct zoo_step *k)
{
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    if (claim && guess_is_right(k, claim)) {
        snib__zoo_granted(z, now, k, claim, k->guess.czxid,
                          k->guess.reply.sent);
    } else {
        if (claim && !k->guess.stands) {
            snib__zoo_alone_is_not(z, k, claim);
        }
        k->work->looked(z, now, k);
    }
}

static void guess_looked(struct snib__zoo *z, snib_instant now,
                         struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = SNIB__CONTAINER(c, struct zoo_step, look);
    struct zoo_path path;
    if (k->guess.unfenced) {
        snib__zoo_step_again(z, now, k);
    } else if (k->guess.reply.end == ZOO_OK) {
        k->then = guess_decide;
        snib__zoo_children_read(z, now, k, reply);
    } else if (k->guess.reply.end == ZOO_SAYS) {
        int32_t why = k->guess.reply.zk;
        if (!k->guess.stands) {
            snib__zoo_alone_in_vain(z, k);
        }
        k->then = k->work->looked;
        /* these went through the log, and are the leader's */
        k->synced = k->synced || why == SNIB__ZK_BAD_VERSION ||
                    why == SNIB__ZK_NO_NODE || why == SNIB__ZK_EXISTS_ALREADY;
        snib__zoo_children_read(z, now, k, reply);
    } else {
        snib__zoo_path_lock(z, k->r->name, &path);
        snib__zoo_step_failed(z, now, k, &k->guess.reply, path.text);
    }
}

void snib__zoo_guess_begin(struct snib__zoo *z, struct zoo_step *k,
                           struct zoo_claim *claim, bool stands)
{
    k->guess.stands = stands;
    k->guess.unproved = claim->unproved;
    claim->unproved = true;
    snib__zoo_view_clear(&k->view);
    snib__zoo_step_ask(z, k, SNIB__ZK_MULTI, guess_answered);
    snib__zoo_fence_check(z, &k->call);
}

void snib__zoo_guess_end(struct snib__zoo *z, snib_instant now,
                         struct zoo_step *k, struct zoo_claim *claim)
{
    struct zoo_path path;
    snib__zoo_path_lock(z, k->r->name, &path);
    snib__zoo_put_record(z, k, claim);
    snib__zk_put_multi_end(snib__zoo_out(z));
    snib__zoo_step_send(z, now, k, true);
    snib__zoo_call_begin(z, &k->look, SNIB__ZK_CHILDREN, guess_looked);
    snib__zk_put_read(snib__zoo_out(z), path.text, false);
    snib__zoo_call_end(z, now, &k->look);
}

bool snib__zoo_guess_turn(struct snib__zoo *z, const struct zoo_step *k)
{
    const struct snib__request *r = k->r;
    struct zoo_claim *claim = snib__zoo_claim_find(z, r->id);
    bool gone = claim && claim->gone;
    if (gone) {
        claim->gone = false;
    }
    return gone && !r->resent && !r->token && !r->acquire.upgrade_of[0] &&
           !r->acquire.upgrade_of[1] && z->fence.ready;
}

void snib__zoo_guess_next(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k)
{
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    snib__zoo_guess_begin(z, k, claim, true);
    snib__zoo_put_change(z, k, claim);
    snib__zoo_guess_end(z, now, k, claim);
}
