/* store/zookeeper/children.c — what several works do with the nodes of a lock:
 * read them, make the one they are in, remove some. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/zookeeper/zookeeper_i.h"

/* -- read -------------------------------------------------------------------- */

void snib__zoo_children_read(struct snib__zoo *z, snib_instant now,
                             struct zoo_step *k, struct zoo_reply *reply)
{
    struct zoo_path path;
    bool bad;
    k->missing = reply->end == ZOO_SAYS && reply->zk == SNIB__ZK_NO_NODE;
    if (k->missing) {
        snib__zoo_view_clear(&k->view);
        k->then(z, now, k);
    } else if (reply->end) {
        snib__zoo_path_lock(z, k->r->name, &path);
        snib__zoo_step_failed(z, now, k, reply, path.text);
    } else if (snib__zoo_view_read(&k->view, &reply->body, &bad)) {
        struct snib__zk_stat stat;
        snib__zk_read_stat(&reply->body, &stat);
        k->ours =
            !reply->body.bad && stat.size == (int32_t)strlen(ZOO_LOCK_DATA);
        k->version = stat.version;
        k->then(z, now, k);
    } else if (bad) {
        snib__zoo_step_failed(z, now, k, reply, "");
    } else {
        snib__zoo_step_answer(z, k, SNIB__UNKNOWN, SNIB_ERR_NOMEM, NULL);
    }
}

static void children_came(struct snib__zoo *z, snib_instant now,
                          struct zoo_call *c, struct zoo_reply *reply)
{
    snib__zoo_children_read(z, now, snib__zoo_step_of(c), reply);
}

void snib__zoo_children(struct snib__zoo *z, snib_instant now,
                        struct zoo_step *k,
                        void (*then)(struct snib__zoo *, snib_instant now,
                                     struct zoo_step *))
{
    struct zoo_path path;
    snib__zoo_path_lock(z, k->r->name, &path);
    k->then = then;
    snib__zoo_step_ask(z, k, SNIB__ZK_CHILDREN, children_came);
    snib__zk_put_read(snib__zoo_out(z), path.text, false);
    snib__zoo_step_send(z, now, k, false);
}

static void children_synced(struct snib__zoo *z, snib_instant now,
                            struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    if (reply->end) {
        snib__zoo_step_failed(z, now, k, reply, z->base);
    } else {
        k->then(z, now, k);
    }
}

void snib__zoo_sync(struct snib__zoo *z, snib_instant now, struct zoo_step *k,
                    void (*then)(struct snib__zoo *, snib_instant now,
                                 struct zoo_step *))
{
    k->then = then;
    k->synced = true;
    snib__zoo_step_ask(z, k, SNIB__ZK_SYNC, children_synced);
    snib__zk_put_path(snib__zoo_out(z), z->base[0] ? z->base : "/");
    snib__zoo_step_send(z, now, k, false);
}

/* -- make -------------------------------------------------------------------- */

static void children_make(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k);

/* How long the next part of the base is, behind that. */
static uint32_t children_part(const struct snib__zoo *z, uint32_t at)
{
    return (uint32_t)strcspn(z->base + at + 1, "/") + 1;
}

/* What is above this: so many bytes of the base; 0: the root. */
static uint32_t children_above(const struct snib__zoo *z, uint32_t at)
{
    return at ? snib__zoo_base_above(z, at) : (uint32_t)strlen(z->base);
}

/* The node of the lock is tried first, then what is above it, from below: the
 * server looks for the right to make a node before it says that there is one, and
 * who may use a part of the tree need not have any in the root. k->at: so many
 * bytes of the base are being made; 0: the lock. */
static void children_made(struct snib__zoo *z, snib_instant now,
                          struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct zoo_path path;
    bool there = reply->end == ZOO_OK || (reply->end == ZOO_SAYS &&
                                          reply->zk == SNIB__ZK_EXISTS_ALREADY);
    bool missing = reply->end == ZOO_SAYS && reply->zk == SNIB__ZK_NO_NODE;
    uint32_t size = (uint32_t)strlen(z->base);
    if (there && !k->at) {
        snib__zoo_step_again(z, now, k);
    } else if (there) {
        k->at = k->at < size ? k->at + children_part(z, k->at) : 0;
        children_make(z, now, k);
    } else if (missing && children_above(z, k->at) && ++k->tries < 100) {
        k->at = children_above(z, k->at);
        children_make(z, now, k);
    } else {
        snib__zoo_path_lock(z, k->r->name, &path);
        if (reply->end == ZOO_LOST) {
            reply->end = ZOO_AGAIN; /* it is made anew, if need be */
        }
        snib__zoo_step_failed(z, now, k, reply, path.text);
    }
}

static void children_make(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k)
{
    struct zoo_path path;
    if (k->at) {
        snprintf(path.text, sizeof path.text, "%.*s", (int)k->at, z->base);
    } else {
        snib__zoo_path_lock(z, k->r->name, &path);
    }
    const char *data = k->at || z->curator ? "" : ZOO_LOCK_DATA;
    const struct snib__zk_create create = {
        .path = path.text,
        .data = data,
        .size = strlen(data),
        .flags = k->at ? SNIB__ZK_PERSISTENT : SNIB__ZK_IS_CONTAINER,
        .creators_own = z->session.logged_in};
    snib__zoo_step_ask(z, k, k->at ? SNIB__ZK_CREATE2 : SNIB__ZK_CONTAINER,
                       children_made);
    snib__zk_put_create(snib__zoo_out(z), &create);
    snib__zoo_step_send(z, now, k, true);
}

void snib__zoo_mkdir(struct snib__zoo *z, snib_instant now, struct zoo_step *k)
{
    k->at = 0;
    children_make(z, now, k);
}

/* -- remove ------------------------------------------------------------------ */

void snib__zoo_put_version(struct snib__zoo *z, const struct zoo_step *k,
                           int32_t op, const char *child)
{
    struct zoo_path path;
    snib__zoo_path_child(z, k->r->name, child, &path);
    snib__zk_put_multi(snib__zoo_out(z), op);
    snib__zk_put_version(snib__zoo_out(z), path.text, -1);
}

static void children_removed(struct snib__zoo *z, snib_instant now,
                             struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct zoo_path path;
    if (reply->end == ZOO_OK) {
        k->then(z, now, k);
    } else if (snib__zoo_fence_has_failed(z, c, reply) ||
               (reply->end == ZOO_SAYS && reply->zk == SNIB__ZK_NO_NODE)) {
        snib__zoo_step_again(z, now, k);
    } else {
        snib__zoo_path_lock(z, k->r->name, &path);
        snib__zoo_step_failed(z, now, k, reply, path.text);
    }
}

void snib__zoo_remove(struct snib__zoo *z, snib_instant now, struct zoo_step *k,
                      const struct zoo_removal *what,
                      void (*then)(struct snib__zoo *, snib_instant now,
                                   struct zoo_step *))
{
    k->then = then;
    snib__zoo_step_ask(z, k, SNIB__ZK_MULTI, children_removed);
    if (z->fence.ready) {
        snib__zoo_fence_check(z, &k->call);
    }
    if (what->if_there) {
        snib__zoo_put_version(z, k, SNIB__ZK_CHECK, what->if_there);
    }
    for (uint32_t i = 0; i < what->count; i++) {
        snib__zoo_put_version(z, k, SNIB__ZK_DELETE, what->child[i]);
    }
    snib__zk_put_multi_end(snib__zoo_out(z));
    snib__zoo_step_send(z, now, k, true);
}
