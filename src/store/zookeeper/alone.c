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
 * and the look is sent right behind that, which grants or does not (guess.c).
 *
 * *The version only makes a wrong guess cheap.* Each client changes the lock's node in
 * the step in which it makes its own there. So the version is the same as when this
 * client was alone, or saw nobody, only if nobody has come since. Then it is nearly
 * always right; wrong it is with a node that was removed and has come to that version
 * again, with nodes that were made by others (Curator's clients, people), and where a
 * client may not change the lock's node.
 *
 * *Nothing is fetched before* where the last section of this client was taken alone, and
 * given back lately. A refusal goes through the log as well; so who was refused looks
 * before for some sections. As a read goes to no disk, so does everybody else.
 *
 * *Which locks?* Those whose data say that whoever comes changes them: ours, not those
 * that Curator's clients have made; and never with ?dialect=. */
#include <string.h>

#include "store/zookeeper/zookeeper_i.h"

enum {
    ALONE_AGE_MS = 5000,
    ALONE_VAIN = 8,
    ALONE_REFUSALS = 2,
    ALONE_CHANGE = 1 /* where in the multi the lock's node is changed or made */
};

/* One that was another name's is as new. */
static struct zoo_alone *alone_of(struct snib__zoo *z,
                                  const struct snib__name *name)
{
    struct zoo_alone *a = &z->alone[name->hash % ZOO_ALONE];
    if (a->hash != name->hash) {
        *a = (struct zoo_alone){.hash = name->hash};
    }
    return a;
}

bool snib__zoo_alone_changes(struct snib__zoo *z, const struct zoo_step *k)
{
    const struct zoo_alone *a = alone_of(z, k->r->name);
    return k->ours && !a->closed;
}

void snib__zoo_alone_may_not(struct snib__zoo *z, const struct zoo_step *k)
{
    *alone_of(z, k->r->name) =
        (struct zoo_alone){.hash = k->r->name->hash, .closed = true};
}

bool snib__zoo_alone_may(struct snib__zoo *z, const struct zoo_step *k)
{
    const struct snib__request *r = k->r;
    bool another =
        r->token || r->acquire.upgrade_of[0] || r->acquire.upgrade_of[1];
    return !z->curator && z->fence.ready && k->refusals < ALONE_REFUSALS &&
           !another;
}

bool snib__zoo_alone_guess(struct snib__zoo *z, snib_instant now,
                           const struct zoo_step *k, int32_t *ret_version)
{
    const struct snib__request *r = k->r;
    struct zoo_alone *a = alone_of(z, r->name);
    *ret_version = a->version;
    return snib__zoo_alone_may(z, k) && !k->tries && !r->resent && a->at.ns &&
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
    if (a->vain) {
        a->vain--;
        return;
    }
    *a = (struct zoo_alone){
        .hash = name->hash, .at = now, .version = claim->version};
}

void snib__zoo_alone_is_not(struct snib__zoo *z, const struct zoo_step *k,
                            struct zoo_claim *claim)
{
    alone_of(z, k->r->name)->at.ns = 0;
    claim->version = -1;
}

/* It is not as it was thought to be. */
void snib__zoo_alone_in_vain(struct snib__zoo *z, struct zoo_step *k)
{
    struct zoo_alone *a = alone_of(z, k->r->name);
    int32_t why = k->guess.reply.zk;
    if (why == SNIB__ZK_NO_AUTH && k->guess.index == ALONE_CHANGE) {
        snib__zoo_alone_may_not(z, k);
    }
    a->at.ns = 0;
    a->vain = why == SNIB__ZK_BAD_VERSION ? ALONE_VAIN : a->vain;
    k->refusals++;
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
    snib__zoo_path_lock(z, k->r->name, &path);
    snib__zoo_guess_begin(z, k, claim, false);
    alone_put_lock(z, path.text, version);
    snib__zoo_put_node(z, k);
    snib__zoo_guess_end(z, now, k, claim);
}
