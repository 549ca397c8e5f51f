/* store/zookeeper/call.c — calls on the one connection, and their ends.
 *
 * A call is under way from snib__zoo_call_begin until its done() is called, once:
 * with the answer, or because the connection is no more. A server answers in the
 * order in which it was asked; what comes in between has numbers of its own. */
#include <stdio.h>
#include <string.h>

#include "store/zookeeper/zookeeper_i.h"

enum { CALL_SYSTEM = -100 }; /* errors above it are the server's own trouble */

static struct snib__conn *call_conn(struct snib__zoo *z)
{
    return z->out->conn[z->session.at];
}

struct snib__buf *snib__zoo_out(struct snib__zoo *z)
{
    return &call_conn(z)->out;
}

void snib__zoo_call_begin(struct snib__zoo *z, struct zoo_call *c, int32_t op,
                          zoo_done *done)
{
    struct zoo_session *s = &z->session;
    s->xid = s->xid == INT32_MAX ? 1 : s->xid + 1;
    c->xid = s->xid;
    c->done = done;
    c->changes = c->fenced = false;
    c->multi = op == SNIB__ZK_MULTI;
    c->begun = snib__zk_begin(snib__zoo_out(z));
    snib__zk_put_head(snib__zoo_out(z), c->xid, op);
}

void snib__zoo_call_end(struct snib__zoo *z, snib_instant now,
                        struct zoo_call *c)
{
    struct snib__conn *conn = call_conn(z);
    snib__zk_end(&conn->out, c->begun);
    c->sent = z->session.sent = now;
    snib__list_push(&z->session.calls, &c->link);
    conn->awaited++;
    snib__conn_touch(z->out, conn);
    if (conn->out.failed) {
        const struct zoo_leave why = {.text = "more is to be sent than fits"};
        snib__zoo_leave(z, &why);
    }
}

/* The connection is not to be used any more: it is cut when the step is over. */
void snib__zoo_leave(struct snib__zoo *z, const struct zoo_leave *why)
{
    struct zoo_session *s = &z->session;
    s->leave = true;
    s->over = s->over || why->over;
    s->leave_err = why->err ? why->err : SNIB_ERR_UNREACHABLE;
    s->leave_barred = why->barred;
    if (why->barred) { /* the words of an error, which name the server */
        snprintf(s->leave_text, sizeof s->leave_text, "%s", why->text);
    } else {
        snprintf(s->leave_text, sizeof s->leave_text, "%.*s: %.120s",
                 ZOO_ADDRESS, call_conn(z)->address, why->text);
    }
}

/* -- answers ----------------------------------------------------------------- */

/* The first error among the results; the others of a multi that failed only say
 * that it did. */
int32_t snib__zoo_multi_error(const struct zoo_reply *reply,
                              uint32_t *ret_index)
{
    struct snib__jute j = reply->body;
    struct snib__zk_result one;
    *ret_index = 0;
    for (uint32_t i = 0; snib__zk_next_result(&j, &one); i++) {
        if (one.err && one.err != SNIB__ZK_NOT_REACHED) {
            *ret_index = i;
            return one.err;
        }
    }
    return 0;
}

/* Is the answer to a multi whole? One that has failed says by what. */
static bool call_multi_is_whole(const struct snib__jute *body)
{
    struct snib__jute j = *body;
    struct snib__zk_result one;
    bool done = false, failed = false, said = false;
    while (snib__zk_next_result(&j, &one)) {
        done = done || one.op != SNIB__ZK_ERROR;
        failed = failed || one.op == SNIB__ZK_ERROR;
        said = said || (one.err && one.err != SNIB__ZK_NOT_REACHED);
    }
    return !j.bad && done != failed && failed == said;
}

static void call_judge(struct snib__zoo *z, const struct zoo_call *c,
                       struct zoo_reply *ret)
{
    static const struct zoo_leave over = {.text = "the session is over",
                                          .over = true},
                                  moved = {.text = "the session is at another "
                                                   "server"};
    uint32_t index;
    if (!ret->zk && c->multi) {
        ret->zk = snib__zoo_multi_error(ret, &index);
    }
    switch (ret->zk) {
    case SNIB__ZK_OK:
        ret->end = ZOO_OK;
        return;
    case SNIB__ZK_EXPIRED:
        snib__zoo_leave(z, &over);
        ret->end = ZOO_AGAIN;
        ret->over = true;
        break;
    case SNIB__ZK_MOVED:
        snib__zoo_leave(z, &moved);
        ret->end = ZOO_AGAIN;
        break;
    case SNIB__ZK_THROTTLED:
        ret->end = ZOO_AGAIN;
        break;
    default:
        ret->end = c->changes && ret->zk > CALL_SYSTEM &&
                           ret->zk != SNIB__ZK_UNIMPLEMENTED
                       ? ZOO_LOST
                       : ZOO_SAYS;
    }
    ret->err = SNIB_ERR_UNREACHABLE;
    snprintf(ret->text, sizeof ret->text, "%.100s: ZooKeeper's error %d",
             call_conn(z)->address, ret->zk);
}

static void call_done(struct snib__zoo *z, snib_instant now, struct zoo_call *c,
                      struct zoo_reply *reply)
{
    zoo_done *done = c->done;
    reply->sent = c->sent;
    snib__unlink(&c->link);
    call_conn(z)->awaited--;
    snib__conn_touch(z->out, call_conn(z));
    c->done = NULL;
    if (done) {
        done(z, now, c, reply);
    }
}

static void call_event(struct snib__zoo *z, struct snib__jute *body)
{
    int32_t type;
    struct snib__jute_bytes path = snib__zk_read_event(body, &type);
    if (!body->bad && path.bytes) {
        snib__zoo_claims_heard(z, path.bytes, path.size);
    }
}

bool snib__zoo_call_heard(struct snib__zoo *z, snib_instant now,
                          struct snib__zk_reply *head)
{
    struct zoo_session *s = &z->session;
    struct snib__link *l = snib__list_first(&s->calls);
    struct zoo_reply reply = {.zk = head->err, .body = head->body};
    s->zxid = head->zxid > s->zxid ? head->zxid : s->zxid;
    if (head->xid == SNIB__ZK_XID_EVENT) {
        call_event(z, &head->body);
        return !head->body.bad;
    }
    if (head->xid == SNIB__ZK_XID_PING) {
        s->pinged.ns = 0;
        return true;
    }
    struct zoo_call *c = l ? SNIB__CONTAINER(l, struct zoo_call, link) : NULL;
    if (!c || c->xid != head->xid ||
        (c->multi && !head->err && !call_multi_is_whole(&head->body)) ||
        (c->changes && head->err == SNIB__ZK_TOO_LONG)) {
        return false;
    }
    call_judge(z, c, &reply);
    call_done(z, now, c, &reply);
    return true;
}

void snib__zoo_calls_lost(struct snib__zoo *z, snib_instant now, snib_err err,
                          const char *text, bool over)
{
    struct snib__link *l;
    while ((l = snib__list_first(&z->session.calls))) {
        struct zoo_call *c = SNIB__CONTAINER(l, struct zoo_call, link);
        struct zoo_reply reply = {
            .end = c->changes ? ZOO_LOST : ZOO_AGAIN, .err = err, .over = over};
        snprintf(reply.text, sizeof reply.text, "%s", text);
        call_done(z, now, c, &reply);
    }
}
