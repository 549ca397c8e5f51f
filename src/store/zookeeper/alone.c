/* store/zookeeper/alone.c — a lock that nobody has or wants is taken in one step,
 * where the URL says so (?one_step=yes).
 *
 * Who stands has to look whether it is next, and then to make its record: two
 * changes, each of which the ensemble syncs to its disks. Where nobody else is
 * there, one does both:
 *
 *   check the fence (fence.c)
 *   remove the lock's node     it fails where anything is below: a node that stands,
 *                              a record, whoever made it
 *   make the lock's node anew, the own node in it, and the record of its grant
 *
 * All of it is done, or nothing. So the removal is the look, which all servers
 * agree on and which cannot be behind: nobody stood there, and whoever comes finds
 * the record, and waits.
 *
 * *Not with servers from 3.8.5 or 3.9.4 on.* A server writes a snapshot while it
 * goes on, and what was done meanwhile is done to it once more when it is read. The
 * lock's node may be in it as this step has left it. Then the removal leaves its
 * children behind, and since ZOOKEEPER-4846 the step's own creations find those, and
 * do not enter them below the new node: that server, started again or brought up to
 * date by another one's snapshot, shows a lock that is held as free, and lets somebody
 * in. Servers before that enter them.
 *
 * The numbers below the lock begin anew with it, and order only who stands at the
 * same time. What is removed by a name with its number is of one request, and no
 * request is granted anew when it was released.
 *
 * *Nothing is fetched before* where the last section of this client was alone,
 * lately. If that was wrong nothing is done, but a refusal goes through the log as
 * well; so it is not tried again for some sections then. Others look first, as a
 * read goes to no disk.
 *
 * *Whose node is it that is removed?* A lock's node is ours if its data say so, it
 * was never changed, and its rights are those with which it would be made anew:
 * with a login and without one the data differ in length, which a look tells. (Who
 * guesses does not look: the multi compares the data's version, and rights that were
 * changed by hand since are lost.)
 * Besides Curator's clients (?dialect=) it is never made anew: they have made it
 * as well, with rights of their own. */
#include <string.h>

#include "store/zookeeper/zookeeper_i.h"

enum { ALONE_AGE_MS = 5000, ALONE_VAIN = 8 };

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
    return z->one_step && !z->curator && z->fence.ready && !k->crowded &&
           !another;
}

bool snib__zoo_alone_guess(struct snib__zoo *z, snib_instant now,
                           const struct zoo_step *k)
{
    const struct snib__request *r = k->r;
    struct zoo_alone *a = alone_of(z, r->name);
    return snib__zoo_alone_may(z, k) && !k->tries && a->at.ns &&
           a->hash == r->name->hash &&
           snib__between(a->at, now).ns <= snib__ms(ALONE_AGE_MS).ns &&
           !snib__zoo_claim_find(z, r->id);
}

static void alone_note(struct snib__zoo *z, const struct zoo_step *k,
                       snib_instant at)
{
    struct zoo_alone *a = alone_of(z, k->r->name);
    if (a->vain && a->hash == k->r->name->hash) {
        a->vain--;
        return;
    }
    *a = (struct zoo_alone){.hash = k->r->name->hash, .at = at};
}

/* The container is the first thing that was made: its czxid is that of the node. */
static int64_t alone_czxid(struct snib__jute *j)
{
    struct snib__zk_result one = {.op = SNIB__ZK_ERROR};
    while (snib__zk_next_result(j, &one) && !one.path.bytes) {
    }
    return one.path.bytes ? one.stat.czxid : 0;
}

/* It is not as it was thought to be. */
static void alone_in_vain(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k, const struct zoo_reply *reply)
{
    struct zoo_alone *a = alone_of(z, k->r->name);
    a->at.ns = 0;
    a->hash = k->r->name->hash;
    a->vain = reply->zk == SNIB__ZK_NOT_EMPTY ? ALONE_VAIN : a->vain;
    k->crowded = reply->zk != SNIB__ZK_NO_NODE; /* the server has removed it */
    snib__zoo_step_again(z, now, k);
}

static void alone_answered(struct snib__zoo *z, snib_instant now,
                           struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    struct zoo_path path;
    if (reply->end == ZOO_OK && claim) {
        struct snib__jute j = reply->body;
        int64_t czxid = alone_czxid(&j);
        if (czxid && snib__zoo_take_node(claim, j)) {
            alone_note(z, k, now);
            snib__zoo_granted(z, now, k, claim, czxid, reply->sent);
        } else {
            snib__zoo_step_again(z, now, k); /* the look shows it */
        }
        return;
    }
    if (reply->end == ZOO_SAYS || reply->end == ZOO_AGAIN) {
        snib__zoo_claim_forget(z, k->r->id); /* nothing was made */
    }
    if (snib__zoo_fence_has_failed(z, c, reply)) {
        snib__zoo_step_again(z, now, k);
    } else if (reply->end == ZOO_SAYS) {
        alone_in_vain(z, now, k, reply);
    } else {
        snib__zoo_path_lock(z, k->r->name, &path);
        snib__zoo_step_failed(z, now, k, reply, path.text);
    }
}

void snib__zoo_alone(struct snib__zoo *z, snib_instant now, struct zoo_step *k,
                     bool there)
{
    struct zoo_claim *claim = snib__zoo_stands(z, k);
    struct zoo_path path;
    if (!claim) {
        return;
    }
    snib__zoo_view_clear(&k->view);
    snib__zoo_path_lock(z, k->r->name, &path);
    const struct snib__zk_create lock = {.path = path.text,
                                         .data = snib__zoo_lock_data(z),
                                         .size = strlen(snib__zoo_lock_data(z)),
                                         .flags = SNIB__ZK_IS_CONTAINER,
                                         .creators_own = z->session.logged_in};
    snib__zoo_step_ask(z, k, SNIB__ZK_MULTI, alone_answered);
    snib__zoo_fence_check(z, &k->call);
    if (there) { /* and nobody has changed it */
        snib__zk_put_multi(snib__zoo_out(z), SNIB__ZK_DELETE);
        snib__zk_put_version(snib__zoo_out(z), path.text, 0);
    }
    snib__zk_put_multi(snib__zoo_out(z), SNIB__ZK_CONTAINER);
    snib__zk_put_create(snib__zoo_out(z), &lock);
    snib__zoo_put_node(z, k);
    snib__zoo_put_record(z, k, claim);
    snib__zk_put_multi_end(snib__zoo_out(z));
    snib__zoo_step_send(z, now, k, true);
}
