/* store/zookeeper/alone.c — a lock that nobody has or wants is taken in one step.
 *
 * Who stands has to look whether it is next, and then to make its record: two
 * changes, each of which the ensemble syncs to its disks. Where nobody else is
 * there, one does both:
 *
 *   check the fence (fence.c)
 *   change the lock's node, if its data have the version of when nobody was there
 *   make the own node, and the record of its grant
 *
 * and, sent right behind it, the look. *The look is what grants*, as it is for others
 * (acquire.c): it is by the connection that made the node, so it shows whoever made
 * one before. Where it shows somebody who is in the way, node and record are removed,
 * and the request comes as others do. Until then the record keeps out others, which
 * harms nobody; and a record whose look was lost is not taken for a grant
 * (zoo_claim.unproved).
 *
 * *The version only makes a wrong guess cheap.* Each client changes the lock's node in
 * the step in which it makes its own there. So the version is the same as when this
 * client was alone, or saw nobody, only if nobody has come since. Then it is nearly
 * always right; wrong it is with a node that was removed and has come to that version
 * again, with nodes that were made by others (Curator's clients, people), and where a
 * client may not change the lock's node.
 *
 * *Nothing is fetched before* where the last section of this client was alone,
 * lately. A refusal goes through the log as well; so who was refused looks before for
 * some sections. As a read goes to no disk, so does everybody else.
 *
 * *Which locks?* Those whose data say that whoever comes changes them: ours, not those
 * that Curator's clients have made. With them (?dialect=) nothing is guessed. */
#include <string.h>

#include "store/zookeeper/zookeeper_i.h"

enum { ALONE_AGE_MS = 5000, ALONE_VAIN = 8, ALONE_REFUSALS = 2 };

static struct zoo_alone *alone_of(struct snib__zoo *z,
                                  const struct snib__name *name)
{
    return &z->alone[name->hash % ZOO_ALONE];
}

bool snib__zoo_alone_may(const struct snib__zoo *z, const struct zoo_step *k)
{
    const struct snib__request *r = k->r;
    bool another =
        r->token || r->acquire.upgrade_of[0] || r->acquire.upgrade_of[1];
    return !z->curator && !z->lock_closed && z->fence.ready &&
           k->refusals < ALONE_REFUSALS && !another;
}

bool snib__zoo_alone_guess(struct snib__zoo *z, snib_instant now,
                           const struct zoo_step *k, int32_t *ret_version)
{
    const struct snib__request *r = k->r;
    struct zoo_alone *a = alone_of(z, r->name);
    *ret_version = a->version;
    return snib__zoo_alone_may(z, k) && !k->tries && a->at.ns &&
           a->hash == r->name->hash &&
           snib__between(a->at, now).ns <= snib__ms(ALONE_AGE_MS).ns &&
           !snib__zoo_claim_find(z, r->id);
}

void snib__zoo_alone_was(struct snib__zoo *z, snib_instant now,
                         const struct snib__name *name,
                         const struct zoo_claim *claim)
{
    struct zoo_alone *a = alone_of(z, name);
    if (claim->version < 0) {
        return;
    }
    if (a->vain && a->hash == name->hash) {
        a->vain--;
        return;
    }
    *a = (struct zoo_alone){
        .hash = name->hash, .at = now, .version = claim->version};
}

/* The lock's node comes first: it was changed or made by this multi, whose number in
 * the log is that of the own node, too. False: the answer does not say it. */
static bool alone_read(struct zoo_step *k, struct zoo_claim *claim,
                       const struct zoo_reply *reply)
{
    struct snib__jute j = reply->body;
    struct snib__zk_result one = {.op = SNIB__ZK_ERROR};
    while (snib__zk_next_result(&j, &one) && !one.stat.mzxid &&
           !one.path.bytes) {
    }
    k->alone.zxid = one.stat.mzxid;
    if (!one.stat.mzxid || !snib__zoo_take_node(claim, j)) {
        return false;
    }
    claim->version = one.stat.version;
    return true;
}

/* Behind its answer comes that of the look, whatever this one is. */
static void alone_answered(struct snib__zoo *z, snib_instant now,
                           struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    (void)now;
    k->alone.reply = *reply;
    k->alone.unfenced = snib__zoo_fence_has_failed(z, c, reply);
    k->alone.told =
        reply->end == ZOO_OK && claim && alone_read(k, claim, reply);
    if (reply->end == ZOO_SAYS || reply->end == ZOO_AGAIN) {
        snib__zoo_claim_forget(z, k->r->id); /* nothing was made */
    }
}

/* It is not as it was thought to be. */
static void alone_in_vain(struct snib__zoo *z, struct zoo_step *k)
{
    struct zoo_alone *a = alone_of(z, k->r->name);
    int32_t why = k->alone.reply.zk;
    a->at.ns = 0;
    a->hash = k->r->name->hash;
    a->vain = why == SNIB__ZK_BAD_VERSION ? ALONE_VAIN : a->vain;
    z->lock_closed = z->lock_closed || why == SNIB__ZK_NO_AUTH;
    k->refusals++;
}

/* It has its node and its record. */
static void alone_decide(struct snib__zoo *z, snib_instant now,
                         struct zoo_step *k)
{
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    int at = snib__zoo_view_find(&k->view, k->r->id, -1);
    struct zoo_request request;
    uint64_t hash;
    snib__zoo_request_of(k->r, &request);
    if (claim && k->alone.told && at >= 0 && !k->view.foreign[0] &&
        snib__zoo_view_record(&k->view, k->r->id) &&
        snib__zoo_view_ahead(&k->view, &request, at) < 0 &&
        !snib__zoo_view_dead(&k->view, &request, &hash)) {
        snib__zoo_granted(z, now, k, claim, k->alone.zxid, k->alone.reply.sent);
    } else {
        snib__zoo_acquire_decide(z, now, k);
    }
}

static void alone_looked(struct snib__zoo *z, snib_instant now,
                         struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = SNIB__CONTAINER(c, struct zoo_step, look);
    struct zoo_path path;
    if (k->alone.unfenced) {
        snib__zoo_step_again(z, now, k);
    } else if (k->alone.reply.end == ZOO_OK) {
        k->then = alone_decide;
        snib__zoo_children_read(z, now, k, reply);
    } else if (k->alone.reply.end == ZOO_SAYS) {
        alone_in_vain(z, k);
        k->then = snib__zoo_acquire_decide;
        k->synced = true; /* the refusal was the leader's */
        snib__zoo_children_read(z, now, k, reply);
    } else {
        snib__zoo_path_lock(z, k->r->name, &path);
        snib__zoo_step_failed(z, now, k, &k->alone.reply, path.text);
    }
}

static void alone_put_lock(struct snib__zoo *z, const char *path,
                           int32_t version)
{
    const struct snib__zk_create lock = {.path = path,
                                         .data = ZOO_LOCK_DATA,
                                         .size = strlen(ZOO_LOCK_DATA),
                                         .flags = SNIB__ZK_IS_CONTAINER,
                                         .creators_own = z->session.logged_in};
    if (version < 0) {
        snib__zk_put_multi(snib__zoo_out(z), SNIB__ZK_CONTAINER);
        snib__zk_put_create(snib__zoo_out(z), &lock);
    } else {
        snib__zk_put_multi(snib__zoo_out(z), SNIB__ZK_SET_DATA);
        snib__zk_put_data(snib__zoo_out(z), path, ZOO_LOCK_DATA,
                          strlen(ZOO_LOCK_DATA), version);
    }
}

void snib__zoo_alone(struct snib__zoo *z, snib_instant now, struct zoo_step *k,
                     int32_t version)
{
    struct zoo_claim *claim = snib__zoo_stands(z, k);
    struct zoo_path path;
    if (!claim) {
        return;
    }
    claim->unproved = true;
    snib__zoo_view_clear(&k->view);
    snib__zoo_path_lock(z, k->r->name, &path);
    snib__zoo_step_ask(z, k, SNIB__ZK_MULTI, alone_answered);
    snib__zoo_fence_check(z, &k->call);
    alone_put_lock(z, path.text, version);
    snib__zoo_put_node(z, k);
    snib__zoo_put_record(z, k, claim);
    snib__zk_put_multi_end(snib__zoo_out(z));
    snib__zoo_step_send(z, now, k, true);
    snib__zoo_call_begin(z, &k->look, SNIB__ZK_CHILDREN, alone_looked);
    snib__zk_put_read(snib__zoo_out(z), path.text, false);
    k->look.changes = false;
    snib__zoo_call_end(z, now, &k->look);
}
