/* store/zookeeper/session.c — the one connection: to which server, and in what
 * state.
 *
 *   DOWN --wanted--> OPENING --opened--> LOGIN? -> HELLO -> AUTHS? -> FENCES?
 *    RESTING <--------- any failure -------------------------+         v
 *      `--the pause is over, or another server is there--> OPENING   READY
 *
 * Any server of the ensemble serves. The session outlives the connection: the
 * next one, to whichever server, resumes it, with all that was made in it, unless
 * the ensemble says that it is over. Then all that was made in it is gone, and a
 * new one begins (over, number).
 *
 * What we ping keeps the session at the ensemble, and says nothing of what a
 * client holds (store.c). */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/zookeeper/zookeeper_i.h"

enum {
    SESSION_REST_MS = 50,
    SESSION_PINGS = 3, /* in the time that a session lasts */
    SESSION_PING_LEAST_MS = 10
};

static struct snib__conn *session_conn(const struct snib__zoo *z)
{
    return z->out->conn[z->session.at];
}

/* -- life ------------------------------------------------------------------ */

void snib__zoo_session_init(struct snib__zoo *z, int32_t session_ms)
{
    struct zoo_session *s = &z->session;
    s->rest = snib__ms(SESSION_REST_MS);
    s->session_ms = session_ms;
    s->number = 1;
    snib__list_init(&s->calls);
    snib__buf_init(&s->in, SNIB__ZK_FRAME_MAX + 65536);
    snib__link_init(&z->fence.call.link);
    snib__link_init(&z->sweep.call.link);
}

void snib__zoo_session_free(struct snib__zoo *z)
{
    snib__buf_free(&z->session.in);
    snib__wipe(&z->session.user);
    snib__wipe(&z->session.password);
}

/* Is there anything for which it has to be there? Who waits is to be told. */
static bool session_is_needed(const struct snib__zoo *z)
{
    return z->made || z->out->holds || z->claims;
}

static void session_open(struct snib__zoo *z, snib_instant now)
{
    struct zoo_session *s = &z->session;
    struct snib__conn *conn = session_conn(z);
    s->state = ZOO_OPENING;
    s->since = now;
    if (!s->turned.ns || s->idle) {
        s->turned = now;
        s->idle = false;
    }
    s->leave = s->over = s->asked = s->hopeless = false;
    s->conn++;
    conn->open = true;
    snib__conn_touch(z->out, conn);
}

static void session_log(const struct snib__zoo *z, int level, const char *text)
{
    char words[ZOO_TEXT + ZOO_ADDRESS + 40];
    if (z->out->log) {
        snprintf(words, sizeof words, "zookeeper: %s", text);
        z->out->log(z->out->log_data, level, words);
    }
}

void snib__zoo_session_over(struct snib__zoo *z)
{
    struct zoo_session *s = &z->session;
    session_log(z, z->claims ? SNIB_LOG_ERROR : SNIB_LOG_INFO,
                z->claims ? "the session is over, and with it all that this "
                            "client has at the ensemble"
                          : "the session is over; this client had nothing in "
                            "it");
    s->number++;
    snib__zoo_claims_over(z);
    memset(&s->zk, 0, sizeof s->zk);
    z->fence.made = z->fence.ready = false;
    z->out->moved = true; /* all that is held is asked for, in vain */
    snib__nonblocking_notify(&z->requests, NULL);
}

/* -- the end of a connection ------------------------------------------------ */

static void session_forget(struct snib__zoo *z)
{
    struct zoo_session *s = &z->session;
    s->leave = s->over = s->asked = s->logged_in = false;
    s->pinged.ns = 0;
    s->skip = 0;
    z->fence.ready = z->fence.asked = false;
    snib__wipe(&s->user);
    snib__wipe(&s->password);
    snib__buf_wipe(&s->in);
}

void snib__zoo_session_cut(struct snib__zoo *z, snib_instant now, bool shut,
                           snib_err err, const char *text, bool barred)
{
    struct zoo_session *s = &z->session;
    struct snib__conn *conn = session_conn(z);
    bool was_ready = s->state == ZOO_READY, over = s->over;
    s->state = shut ? ZOO_CLOSING : ZOO_RESTING;
    s->err = err;
    s->barred = barred;
    snprintf(s->text, sizeof s->text, "%s", text);
    session_log(z, barred ? SNIB_LOG_ERROR : SNIB_LOG_WARN, s->text);
    conn->shut = conn->shut || shut;
    conn->open = conn->login = conn->pushes = false;
    snib__buf_wipe(&conn->out);
    snib__conn_touch(z->out, conn);
    s->since = now;
    if (was_ready) {
        s->turned = now;
        s->idle = !session_is_needed(z);
    }
    session_forget(z);
    if (over) {
        snib__zoo_session_over(z);
    }
    snib__zoo_calls_lost(z, now, err, s->text, over);
    z->fence.asked = false;
    conn->awaited = 0;
    s->rest = was_ready ? snib__ms(SESSION_REST_MS) : s->rest;
    s->vain = was_ready ? 0 : s->vain;
    if (over) { /* nobody is to blame: the same server will do */
        s->rest_until = was_ready ? snib__after(now, s->rest) : now;
    } else {
        snib__zoo_servers_next(z, now);
    }
}

/* -- greeting --------------------------------------------------------------- */

void snib__zoo_session_is(struct snib__zoo *z, int32_t timeout_ms)
{
    if (z->curator) {
        z->out->lease_given = snib__ms(timeout_ms / 3);
    }
}

void snib__zoo_session_hello(struct snib__zoo *z, snib_instant now)
{
    struct zoo_session *s = &z->session;
    struct snib__conn *conn = session_conn(z);
    s->state = ZOO_HELLO;
    s->since = s->sent = now;
    s->zk.timeout_ms = s->session_ms;
    snib__zk_put_connect(&conn->out, &s->zk, s->zxid);
    conn->awaited++;
    snib__conn_touch(z->out, conn);
}

void snib__zoo_session_ready(struct snib__zoo *z, snib_instant now)
{
    struct zoo_session *s = &z->session;
    s->state = ZOO_READY;
    s->since = s->turned = now;
    snib__zoo_session_is(z, s->zk.timeout_ms);
    s->rest = snib__ms(SESSION_REST_MS);
    s->vain = 0;
    s->err = SNIB_ERR_OK;
    s->text[0] = 0;
    s->refused = s->hopeless = s->barred = false;
    s->ever = true;
    session_conn(z)->pushes = true;
    /* The watches were the old connection's. */
    snib__nonblocking_notify(&z->requests, NULL);
}

/* -- bytes ------------------------------------------------------------------ */

static void session_broken(struct snib__zoo *z, snib_instant now)
{
    char text[ZOO_TEXT];
    bool met = z->session.state > ZOO_HELLO;
    snprintf(text, sizeof text,
             met ? "%.*s: what it says is not ZooKeeper's"
                 : "%.*s: this does not answer like ZooKeeper; is it the port "
                   "for its clients (2181), without TLS?",
             ZOO_ADDRESS, session_conn(z)->address);
    snib__zoo_session_cut(
        z, now, true, met ? SNIB_ERR_UNREACHABLE : SNIB_ERR_STORE, text, !met);
}

static bool session_frame(struct snib__zoo *z, snib_instant now,
                          const uint8_t *frame, size_t size)
{
    struct zoo_session *s = &z->session;
    struct snib__zk_reply reply;
    if (s->state == ZOO_HELLO) {
        snib__zoo_hello_came(z, now, frame, size);
        return true;
    }
    if (!snib__zk_read_head(frame, size, &reply)) {
        return false;
    }
    if (s->state == ZOO_AUTHS) {
        if (reply.xid != SNIB__ZK_XID_AUTH) {
            return false;
        }
        snib__zoo_login_done(z, now, &reply);
        return true;
    }
    return snib__zoo_call_heard(z, now, &reply);
}

/* All that is known of it is its head: the request is told so, and the rest is
 * passed over as it comes. */
static bool session_too_long(struct snib__zoo *z, snib_instant now,
                             const uint8_t *frame, size_t size)
{
    struct zoo_session *s = &z->session;
    struct snib__zk_reply reply;
    if (s->state != ZOO_READY ||
        !snib__zk_read_head(frame, SNIB__ZK_HEAD, &reply) || reply.xid <= 0) {
        return false;
    }
    s->skip = size + 4;
    reply.err = SNIB__ZK_TOO_LONG;
    return snib__zoo_call_heard(z, now, &reply);
}

/* Returns whether all of it is passed over. */
static bool session_skip(struct zoo_session *s)
{
    size_t there = snib__buf_size(&s->in),
           n = s->skip < there ? s->skip : there;
    snib__buf_consume(&s->in, n);
    s->skip -= n;
    return s->skip == 0;
}

static bool session_is_open(const struct zoo_session *s)
{
    return s->state == ZOO_HELLO || s->state == ZOO_AUTHS ||
           s->state == ZOO_FENCES || s->state == ZOO_READY;
}

static void session_bytes(struct snib__zoo *z, snib_instant now,
                          const struct snib__input *in)
{
    struct zoo_session *s = &z->session;
    const uint8_t *frame;
    size_t size;
    uint32_t conn = s->conn;
    if (!session_is_open(s)) {
        return;
    }
    snib__buf_add(&s->in, in->bytes, in->size);
    if (s->in.failed) {
        snib__zoo_session_cut(z, now, true, SNIB_ERR_NOMEM, "out of memory",
                              false);
        return;
    }
    while (session_is_open(s) && s->conn == conn) {
        int got = session_skip(s)
                      ? snib__zk_frame(snib__buf_bytes(&s->in),
                                       snib__buf_size(&s->in), &frame, &size)
                      : 0;
        if (got == 0 || (got == 2 && s->state == ZOO_READY &&
                         snib__buf_size(&s->in) < 4 + SNIB__ZK_HEAD)) {
            return;
        }
        if (got < 0 || (got == 2 ? !session_too_long(z, now, frame, size)
                                 : !session_frame(z, now, frame, size))) {
            session_broken(z, now);
            return;
        }
        if (session_is_open(s) && got == 1) {
            snib__buf_consume(&s->in, size + 4);
        }
    }
}

/* Why the connection is down, for people. A server closes the connection of a
 * client that has seen more than it has itself. */
static void session_why(const struct snib__zoo *z, const struct snib__input *in,
                        char *ret, size_t size)
{
    const struct zoo_session *s = &z->session;
    const char *why = in->bytes ? in->bytes : "";
    int n = (int)(in->bytes ? in->size : 0);
    if (in->kind == SNIB__IN_REFUSED && !in->err) {
        snprintf(ret, size, "no connection to %.*s: %.*s", ZOO_ADDRESS,
                 session_conn(z)->address, n < 100 ? n : 100, why);
    } else if (n) {
        snprintf(ret, size, "%.*s: %.*s", ZOO_ADDRESS, session_conn(z)->address,
                 n < 120 ? n : 120, why);
    } else {
        snprintf(ret, size, "%.*s has closed the connection%s", ZOO_ADDRESS,
                 session_conn(z)->address,
                 s->state != ZOO_HELLO ? ""
                 : s->ever ? " (it may be behind what this client has seen)"
                           : " (does it serve? has this host too many "
                             "connections there: maxClientCnxns? is it its "
                             "port for clients, without TLS?)");
    }
}

void snib__zoo_session_input(struct snib__zoo *z, snib_instant now,
                             const struct snib__input *in)
{
    struct zoo_session *s = &z->session;
    char text[ZOO_TEXT];
    if (in->conn != s->at && s->state != ZOO_CLOSING) {
        return; /* a server that was left before */
    }
    switch (in->kind) {
    case SNIB__IN_OPENED:
        if (s->state == ZOO_OPENING) {
            s->since = now;
            snib__buf_clear(&session_conn(z)->out);
            snib__buf_clear(&s->in);
            snib__zoo_login_begin(z, now);
        }
        break;
    case SNIB__IN_BYTES:
        session_bytes(z, now, in);
        break;
    case SNIB__IN_CLOSED:
    case SNIB__IN_REFUSED:
        if (s->state == ZOO_CLOSING) {
            s->state = ZOO_RESTING;
        } else if (s->state != ZOO_DOWN && s->state != ZOO_RESTING) {
            session_why(z, in, text, sizeof text);
            s->hopeless = in->hopeless;
            snib__zoo_session_cut(
                z, now, false, in->err ? in->err : SNIB_ERR_UNREACHABLE, text,
                in->err == SNIB_ERR_CONFIG || in->err == SNIB_ERR_DENIED);
        }
        break;
    case SNIB__IN_LOGIN:
        snib__zoo_login_came(z, now, in);
        break;
    case SNIB__IN_NOTIFIED:
    case SNIB__IN_TICK:
        break;
    }
}

/* -- time ------------------------------------------------------------------- */

static snib_duration session_ping_after(const struct zoo_session *s)
{
    int32_t ms = s->zk.timeout_ms / SESSION_PINGS;
    return snib__ms(ms > SESSION_PING_LEAST_MS ? ms : SESSION_PING_LEAST_MS);
}

/* When the oldest request, or the ping, has waited too long. */
static snib_instant session_patience(const struct snib__zoo *z)
{
    const struct zoo_session *s = &z->session;
    struct snib__link *l = snib__list_first(&s->calls);
    snib_instant sent =
        l ? SNIB__CONTAINER(l, struct zoo_call, link)->sent : SNIB__NEVER;
    snib_duration ping = session_ping_after(s);
    snib_instant pinged =
        s->pinged.ns ? snib__after(s->pinged,
                                   ping.ns < z->request.ns ? ping : z->request)
                     : SNIB__NEVER;
    return snib__sooner(snib__after(sent, z->request), pinged);
}

snib_instant snib__zoo_session_due(const struct snib__zoo *z)
{
    const struct zoo_session *s = &z->session;
    switch (s->state) {
    case ZOO_DOWN:
        return SNIB__NEVER;
    case ZOO_RESTING:
        return session_is_needed(z) ? s->rest_until : SNIB__NEVER;
    case ZOO_READY:
        return snib__sooner(session_patience(z),
                            s->pinged.ns
                                ? SNIB__NEVER
                                : snib__after(s->sent, session_ping_after(s)));
    case ZOO_LOGIN: /* the program takes as long as it wants */
        return SNIB__NEVER;
    case ZOO_OPENING:
    case ZOO_HELLO:
    case ZOO_AUTHS:
    case ZOO_FENCES:
    case ZOO_CLOSING:
        break;
    }
    return snib__after(s->since, z->request);
}

static void session_ping(struct snib__zoo *z, snib_instant now)
{
    struct snib__conn *conn = session_conn(z);
    snib__zk_put_ping(&conn->out);
    z->session.sent = z->session.pinged = now;
    snib__conn_touch(z->out, conn);
}

static void session_late(struct snib__zoo *z, snib_instant now)
{
    char text[ZOO_TEXT];
    snprintf(text, sizeof text, "no %s %.*s within the time allowed",
             z->session.state == ZOO_OPENING ? "connection to" : "answer from",
             ZOO_ADDRESS, session_conn(z)->address);
    snib__zoo_session_cut(z, now, true, SNIB_ERR_UNREACHABLE, text, false);
}

void snib__zoo_session_tick(struct snib__zoo *z, snib_instant now)
{
    struct zoo_session *s = &z->session;
    if (!snib__reached(now, snib__zoo_session_due(z))) {
        return;
    }
    switch (s->state) {
    case ZOO_DOWN:
    case ZOO_LOGIN:
        break;
    case ZOO_RESTING:
        session_open(z, now);
        break;
    case ZOO_CLOSING:
        s->state = ZOO_RESTING; /* nobody has said that it is closed */
        break;
    case ZOO_READY:
        if (snib__reached(now, session_patience(z))) {
            session_late(z, now);
        } else {
            session_ping(z, now);
        }
        break;
    case ZOO_OPENING:
    case ZOO_HELLO:
    case ZOO_AUTHS:
    case ZOO_FENCES:
        session_late(z, now);
        break;
    }
}

void snib__zoo_session_settle(struct snib__zoo *z, snib_instant now)
{
    struct zoo_session *s = &z->session;
    char text[ZOO_TEXT];
    if (s->state == ZOO_DOWN && session_is_needed(z)) {
        session_open(z, now);
    } else if (s->leave) {
        memcpy(text, s->leave_text, sizeof text);
        snib__zoo_session_cut(z, now, true, s->leave_err, text,
                              s->leave_barred);
    } else if (s->state == ZOO_FENCES && z->fence.over) {
        snib__zoo_session_ready(z, now);
    }
}
