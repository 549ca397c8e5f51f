/* store/etcd/call.c — calls on the one connection, and their ends.
 *
 * A call is under way from snib__etcd_call until its done() is called, once: with
 * the answer, or because the connection is no more. Many are under way side by
 * side; the server answers them in any order. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "store/etcd/etcd_i.h"

enum { CALL_LOGINS = 3 }; /* each soon after the last one: they help no more */

static struct etcd_call *call_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct etcd_call, link);
}

void snib__etcd_call_init(struct etcd_call *c, etcd_done *done)
{
    *c = (struct etcd_call){.done = done};
    snib__h2_stream_init(&c->stream);
    snib__link_init(&c->link);
}

void snib__etcd_call_free(struct snib__etcd *e, struct etcd_call *c)
{
    snib__etcd_call_drop(e, c);
    snib__h2_stream_free(&c->stream);
}

void snib__etcd_call_drop(struct snib__etcd *e, struct etcd_call *c)
{
    struct etcd_session *s = &e->session;
    if (snib__linked(&c->link) && !c->heard) {
        e->out->conn[s->at]->awaited--;
    }
    snib__unlink(&c->link);
    snib__h2_drop(&s->h2, &c->stream);
}

void snib__etcd_call(struct snib__etcd *e, snib_instant now,
                     struct etcd_call *c, const char *path,
                     struct snib__buf *message)
{
    struct etcd_session *s = &e->session;
    struct snib__conn *conn = e->out->conn[s->at];
    /* Who asks for a login has none: an old one would be refused. */
    const char *token = c == &s->auth ? NULL : s->token;
    const struct snib__h2_head head = {conn->address, e->secure, token};
    assert(!snib__linked(&c->link) && !c->stream.id);
    c->sent = now;
    c->revision = e->revision;
    c->login = s->login;
    if (token) {
        snib__buf_hide(&conn->out);
    }
    if (message->failed || !snib__h2_call(&s->h2, &c->stream, &head, path,
                                          snib__buf_bytes(message),
                                          snib__buf_size(message), c->heard)) {
        /* Nothing was sent. It ends when this step has: done() is never called
         * from here. */
        c->stream.end = SNIB__H2_UNSEEN;
        if (!snib__linked(&c->stream.changed)) {
            snib__list_push(&s->h2.changed, &c->stream.changed);
        }
    }
    snib__list_push(&s->calls, &c->link);
    if (!c->heard) {
        conn->awaited++;
        snib__conn_touch(e->out, conn);
    }
}

/* What goes wrong with a call may be the session's. That a login which was
 * replaced meanwhile is not taken says nothing. */
static void call_heed(struct snib__etcd *e, snib_instant now,
                      const struct etcd_call *c, const struct etcd_reply *reply)
{
    struct etcd_session *s = &e->session;
    bool login = reply->login && c->login == s->login;
    if (login && s->logins >= CALL_LOGINS &&
        snib__etcd_login_is_fresh(s, now)) {
        s->leave = s->leave_barred = true;
        s->leave_err = SNIB_ERR_DENIED;
        snprintf(s->leave_text, sizeof s->leave_text,
                 "%.100s does not take the logins that it has just given",
                 e->out->conn[s->at]->address);
    }
    if (reply->leave && s->state == ETCD_READY && e->out->conns > 1) {
        s->leave = true;
        s->leave_err = reply->err;
        memcpy(s->leave_text, reply->text, sizeof s->leave_text);
    }
    s->anew = s->anew || (login && s->state == ETCD_READY);
}

static void call_end(struct snib__etcd *e, snib_instant now,
                     struct etcd_call *c, struct etcd_reply *reply)
{
    reply->sent = c->sent;
    if (reply->bare && e->asks && e->session.state == ETCD_READY) {
        reply->end = ETCD_AGAIN; /* the program is asked */
        reply->login = true;
    }
    snib__unlink(&c->link);
    if (!c->heard) {
        e->out->conn[e->session.at]->awaited--;
    }
    call_heed(e, now, c, reply);
    c->done(e, now, c, reply);
}

/* A watch speaks again and again. */
static void call_heard(struct snib__etcd *e, struct etcd_call *c)
{
    const uint8_t *bytes;
    size_t size;
    while (snib__linked(&c->link) &&
           snib__h2_message(&c->stream, &bytes, &size)) {
        c->heard(e, c, bytes, size);
        snib__h2_take(&e->session.h2, &c->stream);
    }
}

void snib__etcd_calls_heard(struct snib__etcd *e, snib_instant now)
{
    struct etcd_session *s = &e->session;
    struct snib__link *l;
    while (s->h2.session && (l = snib__list_pop(&s->h2.changed))) {
        struct etcd_call *c = (struct etcd_call *)(void *)SNIB__CONTAINER(
            l, struct snib__h2_stream, changed);
        struct etcd_reply reply = {.end = ETCD_LOST};
        if (!snib__linked(&c->link)) {
            continue;
        }
        if (c->heard) {
            call_heard(e, c);
        }
        if (c->stream.end != SNIB__H2_OPEN && snib__linked(&c->link)) {
            snib__etcd_judge(&c->stream, c->changes, &reply);
            call_end(e, now, c, &reply);
        }
    }
}

bool snib__etcd_calls_none(const struct snib__etcd *e)
{
    return !e->out->conn[e->session.at]->awaited;
}

void snib__etcd_calls_lost(struct snib__etcd *e, snib_instant now, snib_err err,
                           const char *text)
{
    struct snib__link *l;
    while ((l = snib__list_first(&e->session.calls))) {
        struct etcd_call *c = call_of(l);
        /* What was never written is known not to have been seen. */
        bool unseen = c->stream.end == SNIB__H2_UNSEEN;
        struct etcd_reply reply = {
            .end = c->changes && !unseen ? ETCD_LOST : ETCD_AGAIN, .err = err};
        snprintf(reply.text, sizeof reply.text, "%s", text);
        c->stream.id = 0;
        snib__h2_drop(&e->session.h2, &c->stream);
        call_end(e, now, c, &reply);
    }
}
