/* store/rabbitmq/session.c — the one connection, and in what state it is.
 *
 *   DOWN --wanted--> OPENING --opened--> LOGIN? -> GREETS -> TUNES -> ENTERS
 *    RESTING <--------- any failure -------------------------+          v
 *      `--the pause is over, or another server is there--> OPENING    READY
 *
 * Any node of a cluster serves. What a client has at the broker goes with its
 * connection, so when that is cut all is lost that it held.
 *
 * Heartbeats: we send something twice in the time agreed upon, and give a server up
 * that was silent for two of them, as it does with us. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/rabbitmq/rabbitmq_i.h"

enum { SESSION_REST_MS = 50, SESSION_BODY_MAX = 1 << 17 };

static struct snib__conn *session_conn(const struct snib__mq *z)
{
    return z->out->conn[z->session.at];
}

/* -- life ------------------------------------------------------------------ */

void snib__mq_session_init(struct snib__mq *z, uint16_t heartbeat_s)
{
    struct mq_session *s = &z->session;
    s->rest = snib__ms(SESSION_REST_MS);
    s->wish_s = s->heartbeat_s = heartbeat_s;
    snib__buf_init(&s->in, 2 * SNIB__AMQP_FRAME_MAX);
    snib__buf_init(&s->coming.body, SESSION_BODY_MAX);
}

void snib__mq_session_free(struct snib__mq *z)
{
    snib__buf_free(&z->session.in);
    snib__buf_free(&z->session.coming.body);
    snib__mq_login_wipe(&z->session.user);
    snib__mq_login_wipe(&z->session.password);
}

static bool session_is_needed(const struct snib__mq *z)
{
    return !snib__list_empty(&z->steps) || z->out->holds || z->claims;
}

static void session_open(struct snib__mq *z, snib_instant now)
{
    struct mq_session *s = &z->session;
    s->state = MQ_OPENING;
    s->since = now;
    if (!s->turned.ns || s->idle) {
        s->turned = now;
        s->idle = false;
    }
    s->leave = s->asks_login = s->hopeless = false;
    s->conn++;
    session_conn(z)->open = true;
    snib__conn_touch(z->out, session_conn(z));
}

/* -- the end of a connection ------------------------------------------------ */

static void session_log(const struct snib__mq *z, int level, const char *text)
{
    char words[MQ_TEXT + 16];
    if (z->out->log) {
        snprintf(words, sizeof words, "rabbitmq: %s", text);
        z->out->log(z->out->log_data, level, words);
    }
}

static void session_forget(struct mq_session *s)
{
    s->leave = s->asks_login = false;
    s->coming.channel = 0;
    s->asked.ns = 0;
    s->blocked[0] = 0;
    snib__mq_login_wipe(&s->user);
    snib__mq_login_wipe(&s->password);
    snib__buf_wipe(&s->in);
}

/* shut: the driver is still to close it; what was written is sent before. */
void snib__mq_session_cut(struct snib__mq *z, snib_instant now, bool shut,
                          snib_err err, const char *text, bool barred)
{
    struct mq_session *s = &z->session;
    struct snib__conn *conn = session_conn(z);
    bool was_ready = s->state == MQ_READY;
    char words[MQ_TEXT];
    snprintf(words, sizeof words, "%s", text);
    s->state = shut ? MQ_CLOSING : MQ_RESTING;
    s->since = now;
    if (was_ready) {
        s->turned = now;
        s->idle = !session_is_needed(z);
    }
    s->err = err;
    s->barred = barred;
    memcpy(s->text, words, sizeof s->text);
    session_log(z, barred ? SNIB_LOG_ERROR : SNIB_LOG_WARN, s->text);
    conn->shut = conn->shut || shut;
    conn->open = conn->login = conn->pushes = false;
    snib__conn_touch(z->out, conn);
    session_forget(s);
    snib__mq_channels_lost(z, now, err, s->text);
    snib__buf_wipe(&conn->out);
    conn->awaited = 0;
    s->rest = was_ready ? snib__ms(SESSION_REST_MS) : s->rest;
    s->vain = was_ready ? 0 : s->vain;
    snib__mq_servers_next(z, now);
}

/* -- bytes ------------------------------------------------------------------ */

static void session_broken(struct snib__mq *z, snib_instant now)
{
    char text[MQ_TEXT];
    bool met = z->session.state > MQ_GREETS;
    snprintf(text, sizeof text,
             met ? "%.*s: what it says is not AMQP 0-9-1"
                 : "%.*s: this does not answer like RabbitMQ; is it its port "
                   "for AMQP (5672, with TLS 5671)?",
             MQ_ADDRESS, session_conn(z)->address);
    snib__mq_session_cut(
        z, now, true, met ? SNIB_ERR_UNREACHABLE : SNIB_ERR_STORE, text, !met);
}

/* What concerns the whole connection. */
static bool session_method(struct snib__mq *z, snib_instant now,
                           const struct snib__amqp_frame *frame)
{
    struct mq_session *s = &z->session;
    struct snib__amqp_method m;
    if (!snib__amqp_read_method(frame, &m)) {
        return false;
    }
    if (m.id == SNIB__AMQP_CLOSE) {
        snib__mq_closed(z, now, &m);
    } else if (m.id == SNIB__AMQP_BLOCKED) {
        snib__amqp_text(m.text, s->blocked, sizeof s->blocked);
        session_log(z, SNIB_LOG_WARN,
                    "the broker takes no messages (an alarm of its memory or "
                    "disk): nothing can be acquired or renewed");
    } else if (m.id == SNIB__AMQP_UNBLOCKED) {
        s->blocked[0] = 0;
    }
    return true;
}

static bool session_frame(struct snib__mq *z, snib_instant now,
                          const struct snib__amqp_frame *frame)
{
    if (z->session.state != MQ_READY) {
        return snib__mq_login_frame(z, now, frame);
    }
    if (frame->type == SNIB__AMQP_HEARTBEAT) {
        return true;
    }
    if (!frame->channel) {
        return frame->type == SNIB__AMQP_METHOD &&
               session_method(z, now, frame);
    }
    return snib__mq_channel_frame(z, now, frame);
}

static bool session_is_open(const struct mq_session *s)
{
    return !s->leave && (s->state == MQ_GREETS || s->state == MQ_TUNES ||
                         s->state == MQ_ENTERS || s->state == MQ_READY);
}

static void session_bytes(struct snib__mq *z, snib_instant now,
                          const struct snib__input *in)
{
    struct mq_session *s = &z->session;
    struct snib__amqp_frame frame;
    if (!session_is_open(s)) {
        return;
    }
    s->heard = now;
    snib__buf_add(&s->in, in->bytes, in->size);
    if (s->in.failed) {
        snib__mq_session_cut(z, now, true, SNIB_ERR_NOMEM, "out of memory",
                             false);
        return;
    }
    while (session_is_open(s)) {
        int got = snib__amqp_frame(snib__buf_bytes(&s->in),
                                   snib__buf_size(&s->in), &frame);
        if (got == 0) {
            return;
        }
        if (got < 0 || !session_frame(z, now, &frame)) {
            session_broken(z, now);
            return;
        }
        snib__buf_consume(&s->in, frame.whole);
    }
}

/* Why the connection is down, for people. */
static void session_why(const struct snib__mq *z, const struct snib__input *in,
                        char *ret, size_t size)
{
    const char *why = in->bytes ? in->bytes : "";
    const char *address = session_conn(z)->address;
    int n = (int)(in->bytes ? in->size : 0);
    if (in->kind == SNIB__IN_REFUSED && !in->err) {
        snprintf(ret, size, "no connection to %.*s: %.*s", MQ_ADDRESS, address,
                 n < 150 ? n : 150, why);
    } else if (n) {
        snprintf(ret, size, "%.*s: %.*s", MQ_ADDRESS, address,
                 n < 200 ? n : 200, why);
    } else {
        snprintf(ret, size, "%.*s has closed the connection%s", MQ_ADDRESS,
                 address,
                 z->session.state == MQ_GREETS
                     ? " (is it its port for AMQP, and without TLS?)"
                     : "");
    }
}

void snib__mq_session_input(struct snib__mq *z, snib_instant now,
                            const struct snib__input *in)
{
    struct mq_session *s = &z->session;
    char text[MQ_TEXT];
    if (in->conn != s->at && s->state != MQ_CLOSING) {
        return; /* a server that was left before */
    }
    switch (in->kind) {
    case SNIB__IN_OPENED:
        if (s->state == MQ_OPENING) {
            s->since = now;
            snib__buf_clear(&session_conn(z)->out);
            snib__buf_clear(&s->in);
            snib__mq_login_begin(z, now);
        }
        break;
    case SNIB__IN_BYTES:
        session_bytes(z, now, in);
        break;
    case SNIB__IN_CLOSED:
    case SNIB__IN_REFUSED:
        if (s->state == MQ_CLOSING) {
            s->state = MQ_RESTING;
        } else if (s->state != MQ_DOWN && s->state != MQ_RESTING) {
            session_why(z, in, text, sizeof text);
            s->hopeless = in->hopeless;
            snib__mq_session_cut(
                z, now, false, in->err ? in->err : SNIB_ERR_UNREACHABLE, text,
                in->err == SNIB_ERR_CONFIG || in->err == SNIB_ERR_DENIED);
        }
        break;
    case SNIB__IN_LOGIN:
        snib__mq_login_came(z, now, in);
        break;
    case SNIB__IN_NOTIFIED:
    case SNIB__IN_TICK:
        break;
    }
}

/* -- time ------------------------------------------------------------------- */

/* A server with which no heartbeat was agreed upon sends none. */
static snib_instant session_beat_at(const struct mq_session *s)
{
    return s->heartbeat_s
               ? snib__after(s->sent, snib__ms(s->heartbeat_s * INT64_C(500)))
               : SNIB__NEVER;
}

/* When it was silent for too long: though answers are due, or at all. What is held
 * is lost with the connection, so it is not cut for a late answer then. */
static snib_instant session_patience(const struct snib__mq *z)
{
    const struct mq_session *s = &z->session;
    snib_instant beat =
        s->heartbeat_s
            ? snib__after(s->heard, snib__ms(s->heartbeat_s * INT64_C(2000)))
            : SNIB__NEVER;
    snib_instant asked =
        session_conn(z)->awaited && !z->out->holds
            ? snib__after(snib__later(s->heard, s->asked), z->request)
            : SNIB__NEVER;
    return snib__sooner(beat, asked);
}

snib_instant snib__mq_session_due(const struct snib__mq *z)
{
    const struct mq_session *s = &z->session;
    switch (s->state) {
    case MQ_DOWN:
        return SNIB__NEVER;
    case MQ_RESTING:
        return session_is_needed(z) ? s->rest_until : SNIB__NEVER;
    case MQ_READY:
        return snib__sooner(session_patience(z), session_beat_at(s));
    case MQ_LOGIN: /* the program takes as long as it wants */
        return SNIB__NEVER;
    case MQ_OPENING:
    case MQ_GREETS:
    case MQ_TUNES:
    case MQ_ENTERS:
    case MQ_CLOSING:
        break;
    }
    return snib__after(s->since, z->request);
}

static void session_beat(struct snib__mq *z, snib_instant now)
{
    snib__amqp_put_heartbeat(&session_conn(z)->out);
    z->session.sent = now;
    snib__conn_touch(z->out, session_conn(z));
}

static void session_late(struct snib__mq *z, snib_instant now)
{
    char text[MQ_TEXT];
    const char *blocked = z->session.blocked;
    snprintf(text, sizeof text, "no %s %.*s within the time allowed%s%s%s",
             z->session.state == MQ_OPENING ? "connection to" : "answer from",
             MQ_ADDRESS, session_conn(z)->address,
             *blocked ? " (it takes no messages: " : "", blocked,
             *blocked ? ")" : "");
    snib__mq_session_cut(z, now, true, SNIB_ERR_UNREACHABLE, text, false);
}

void snib__mq_session_tick(struct snib__mq *z, snib_instant now)
{
    struct mq_session *s = &z->session;
    if (!snib__reached(now, snib__mq_session_due(z))) {
        return;
    }
    switch (s->state) {
    case MQ_DOWN:
    case MQ_LOGIN:
        break;
    case MQ_RESTING:
        session_open(z, now);
        break;
    case MQ_CLOSING:
        s->state = MQ_RESTING; /* nobody has said that it is closed */
        break;
    case MQ_READY:
        if (snib__reached(now, session_patience(z))) {
            session_late(z, now);
        } else {
            session_beat(z, now);
        }
        break;
    case MQ_OPENING:
    case MQ_GREETS:
    case MQ_TUNES:
    case MQ_ENTERS:
        session_late(z, now);
        break;
    }
}

void snib__mq_session_settle(struct snib__mq *z, snib_instant now)
{
    struct mq_session *s = &z->session;
    char text[MQ_TEXT];
    if (s->state == MQ_DOWN && session_is_needed(z)) {
        session_open(z, now);
    } else if (s->leave) {
        memcpy(text, s->leave_text, sizeof text);
        snib__mq_session_cut(z, now, true, s->leave_err, text, s->leave_barred);
    }
}
