/* store/zookeeper/fence.c — a copy that comes late makes no node, and removes none.
 *
 * A request to make a node whose answer was lost may still be on its way when the
 * client, by another connection, has looked and found nothing: the server that
 * was left may be slow to hand it on, and a session that goes back to the same
 * server is not told apart by ZooKeeper. So each client has a node of its own,
 * the fence, which goes with its session. Each such request is a multi that also
 * checks the fence's version, and on each new connection of the session the fence
 * is changed before anything else. A copy that comes later than that fails, as
 * does one that comes when the session is over. The same holds of what removes: a
 * record of the same name may have been made since, by the same request.
 *
 * What changes only nodes whose names have numbers of their own, or that checks
 * one, needs no fence: a release that is known (end.c), a renewal, a sweep.
 *
 * A client that takes no lock makes none. */
#include <stdio.h>

#include "store/zookeeper/zookeeper_i.h"

void snib__zoo_fence_path(const struct snib__zoo *z, struct zoo_path *ret)
{
    snprintf(ret->text, sizeof ret->text, "%s/=fence-%016llx%016llx", z->base,
             (unsigned long long)z->client[0],
             (unsigned long long)z->client[1]);
}

void snib__zoo_fence_check(struct snib__zoo *z, struct zoo_call *c)
{
    struct zoo_path path;
    snib__zoo_fence_path(z, &path);
    snib__zk_put_multi(snib__zoo_out(z), SNIB__ZK_CHECK);
    snib__zk_put_version(snib__zoo_out(z), path.text, z->fence.version);
    c->fenced = true;
}

bool snib__zoo_fence_has_failed(struct snib__zoo *z, const struct zoo_call *c,
                                const struct zoo_reply *reply)
{
    uint32_t index;
    if (!c->fenced || reply->end != ZOO_SAYS ||
        (reply->zk != SNIB__ZK_NO_NODE && reply->zk != SNIB__ZK_BAD_VERSION)) {
        return false;
    }
    (void)snib__zoo_multi_error(reply, &index);
    z->fence.ready = z->fence.ready && index > 0;
    return index == 0;
}

static void fence_refused(struct snib__zoo *z, const struct zoo_reply *reply)
{
    struct zoo_path path;
    char text[ZOO_TEXT];
    snib__zoo_fence_path(z, &path);
    snib_err err = snib__zoo_words(z, reply->zk, path.text, text, sizeof text);
    const struct zoo_leave why = {.text = text, .err = err, .barred = true};
    snib__zoo_leave(z, &why);
}

/* It is over, and the steps that waited for it go on (step.c); without a fence,
 * where there is nothing yet that it could be in, they make that. */
static void fence_done(struct snib__zoo *z, snib_instant now,
                       struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_fence *f = &z->fence;
    struct snib__zk_stat stat;
    bool made = f->made; /* else it was to be made */
    (void)c;
    f->asked = false;
    if (reply->end == ZOO_AGAIN || reply->end == ZOO_LOST) {
        f->made = f->made || reply->end == ZOO_LOST;
        return; /* the connection is no more, or is to be left */
    }
    if (reply->end == ZOO_OK) {
        if (!made) {
            (void)snib__jute_bytes(&reply->body);
        }
        snib__zk_read_stat(&reply->body, &stat);
        f->made = true;
        f->ready = f->over = !reply->body.bad;
        f->version = stat.version;
        if (!f->ready) {
            const struct zoo_leave why = {.text = "the answer is not "
                                                  "ZooKeeper's"};
            snib__zoo_leave(z, &why);
        }
    } else if (made && reply->zk == SNIB__ZK_NO_NODE) {
        f->made = false; /* a copy that comes now does not find it either */
        f->over = true;
    } else if (!made && reply->zk == SNIB__ZK_EXISTS_ALREADY) {
        f->made = true;
        snib__zoo_fence_begin(z, now);
    } else if (!made && reply->zk == SNIB__ZK_NO_NODE) {
        f->over = true;
    } else {
        fence_refused(z, reply);
    }
}

void snib__zoo_fence_begin(struct snib__zoo *z, snib_instant now)
{
    struct zoo_fence *f = &z->fence;
    struct zoo_path path;
    if (f->asked) {
        return;
    }
    f->asked = true;
    f->over = false;
    snib__zoo_fence_path(z, &path);
    snib__zoo_call_begin(z, &f->call,
                         f->made ? SNIB__ZK_SET_DATA : SNIB__ZK_CREATE2,
                         fence_done);
    if (f->made) {
        snib__zk_put_data(snib__zoo_out(z), path.text, "", 0, -1);
    } else {
        const struct snib__zk_create create = {.path = path.text,
                                               .data = "",
                                               .flags = SNIB__ZK_EPHEMERAL,
                                               .creators_own =
                                                   z->session.logged_in};
        snib__zk_put_create(snib__zoo_out(z), &create);
    }
    f->call.changes = true;
    snib__zoo_call_end(z, now, &f->call);
}
