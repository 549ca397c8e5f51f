/* store/zookeeper/dead.c — a try, or a wait that begins, and a record whose node is
 * gone.
 *
 * Who waits goes by its own clock (acquire.c). A try does not wait, and a wait may
 * be shorter than the lease; jobs that know only such would find the record for
 * ever. So the first one that sees it writes that on it, and later ones go by the
 * times that the ensemble puts on that and on their own nodes: by the clocks of its
 * leaders, of which there may have been two. Therefore the record has to be older
 * than two leases, and 10 s besides.
 *
 *   read the own node's time
 *   read each record -> nothing is written: write it
 *                    -> written: old enough? -> remove it
 *   all of them were? -> begin anew; else: no
 *
 * One is removed only while the own node stands: behind that nobody is granted
 * anything, so a removal that comes late meets no other record of this name. */
#include <string.h>

#include "base/error.h"
#include "store/zookeeper/zookeeper_i.h"

enum { DEAD_BESIDES_MS = 10000 };
static const char dead_gone[] = "gone";

static void dead_next(struct snib__zoo *z, snib_instant now,
                      struct zoo_step *k);

static void dead_failed(struct snib__zoo *z, snib_instant now,
                        struct zoo_step *k, const struct zoo_reply *reply)
{
    struct zoo_path path;
    bool gone = reply->end == ZOO_SAYS && reply->zk == SNIB__ZK_NO_NODE;
    if (gone) {
        snib__zoo_step_again(z, now, k);
        return;
    }
    snib__zoo_path_lock(z, k->r->name, &path);
    snib__zoo_step_failed(z, now, k, reply, path.text);
}

/* This one is not old enough. */
static void dead_passed_by(struct snib__zoo *z, snib_instant now,
                           struct zoo_step *k)
{
    k->young = true;
    k->at++;
    dead_next(z, now, k);
}

/* Another one may have written it at the same time. */
static void dead_written(struct snib__zoo *z, snib_instant now,
                         struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    if (reply->end == ZOO_OK ||
        (reply->end == ZOO_SAYS && reply->zk == SNIB__ZK_BAD_VERSION)) {
        dead_passed_by(z, now, k);
    } else {
        dead_failed(z, now, k, reply);
    }
}

static void dead_write(struct snib__zoo *z, snib_instant now,
                       struct zoo_step *k, int32_t version)
{
    struct zoo_path path;
    snib__zoo_path_child(z, k->r->name, k->view.child[k->at].name, &path);
    snib__zoo_step_ask(z, k, SNIB__ZK_SET_DATA, dead_written);
    snib__zk_put_data(snib__zoo_out(z), path.text, dead_gone,
                      sizeof dead_gone - 1, version);
    snib__zoo_step_send(z, now, k, true);
}

static void dead_removed(struct snib__zoo *z, snib_instant now,
                         struct zoo_step *k)
{
    k->at++;
    dead_next(z, now, k);
}

static void dead_read(struct snib__zoo *z, snib_instant now, struct zoo_call *c,
                      struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    const struct zoo_child *record = &k->view.child[k->at];
    const struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    struct snib__zk_stat stat;
    if (reply->end) {
        dead_failed(z, now, k, reply);
        return;
    }
    struct snib__jute_bytes data = snib__jute_bytes(&reply->body);
    snib__zk_read_stat(&reply->body, &stat);
    if (reply->body.bad) {
        snib__zoo_step_failed(z, now, k, reply, "");
        return;
    }
    bool written = data.size == sizeof dead_gone - 1 &&
                   !memcmp(data.bytes, dead_gone, data.size);
    if (!written) {
        dead_write(z, now, k, stat.version);
    } else if (claim && k->since_ms - stat.mtime >
                            2 * record->lease_ms + DEAD_BESIDES_MS) {
        const struct zoo_removal one = {
            .child = {record->name}, .count = 1, .if_there = claim->node};
        snib__zoo_remove(z, now, k, &one, dead_removed);
    } else {
        dead_passed_by(z, now, k);
    }
}

/* From k->at on. */
static void dead_next(struct snib__zoo *z, snib_instant now, struct zoo_step *k)
{
    struct zoo_request request;
    struct zoo_path path;
    snib__zoo_request_of(k->r, &request);
    while (k->at < k->view.count &&
           !snib__zoo_view_is_dead(&k->view.child[k->at], &request)) {
        k->at++;
    }
    if (k->at < k->view.count) {
        snib__zoo_path_child(z, k->r->name, k->view.child[k->at].name, &path);
        snib__zoo_step_ask(z, k, SNIB__ZK_GET_DATA, dead_read);
        snib__zk_put_read(snib__zoo_out(z), path.text, false);
        snib__zoo_step_send(z, now, k, false);
    } else if (k->young) {
        k->no(z, now, k);
    } else {
        snib__zoo_step_again(z, now, k);
    }
}

static void dead_own_read(struct snib__zoo *z, snib_instant now,
                          struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct snib__zk_stat stat;
    if (reply->end) {
        dead_failed(z, now, k, reply);
        return;
    }
    snib__zk_read_stat(&reply->body, &stat);
    k->since_ms = reply->body.bad ? 0 : stat.ctime;
    dead_next(z, now, k);
}

void snib__zoo_dead(struct snib__zoo *z, snib_instant now, struct zoo_step *k,
                    void (*no)(struct snib__zoo *, snib_instant now,
                               struct zoo_step *))
{
    const struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    struct zoo_path path;
    k->no = no;
    k->young = false;
    k->at = k->view.standing;
    snib__zoo_path_child(z, k->r->name, claim->node, &path);
    snib__zoo_step_ask(z, k, SNIB__ZK_EXISTS, dead_own_read);
    snib__zk_put_read(snib__zoo_out(z), path.text, false);
    snib__zoo_step_send(z, now, k, false);
}
