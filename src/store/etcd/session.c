/* store/etcd/session.c — the one connection: to which member, and in what state.
 *
 *   DOWN --wanted--> OPENING --opened--> LOGIN? -> AUTH? -> GREETS --+
 *    RESTING <--------- any failure ----------------------------+    v
 *      `--the pause is over, or another member is there--> OPENING  READY
 *
 * Calls, the watch and logins are streams on it. Any member serves: it asks the
 * leader itself. So when one fails the next of the list is tried at once, and
 * only after a round of failures there is a pause. A member that is there but
 * finds no leader is left as one that is silent is; and while each member says so,
 * as soon as it is asked something, that is a round of failures. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/etcd/etcd_i.h"

enum {
    SESSION_SILENT_MS =
        10000, /* servers take pings no more often than each 5 s */
    SESSION_LASTED_MS = 1000, /* so long at least one has to last to count as
                                 more than an attempt */
    SESSION_SMALL = 64 << 10, /* more are no answers about a session */
    SESSION_WATCHED = 1 << 20,
    SESSION_ADDRESS = 120 /* so much of it is shown */
};

static struct snib__conn *session_conn(const struct snib__etcd *e)
{
    return e->out->conn[e->session.at];
}

/* -- life ------------------------------------------------------------------ */

static void session_status_done(struct snib__etcd *e, snib_instant now,
                                struct etcd_call *c,
                                const struct etcd_reply *reply);

void snib__etcd_session_init(struct snib__etcd *e)
{
    struct etcd_session *s = &e->session;
    s->rest = snib__ms(ETCD_REST_MS);
    snib__list_init(&s->calls);
    snib__list_init(&s->h2.changed);
    snib__etcd_call_init(&s->auth, snib__etcd_login_done);
    snib__etcd_call_init(&s->status, session_status_done);
    snib__etcd_call_init(&s->watch, snib__etcd_watch_done);
    s->watch.heard = snib__etcd_watch_heard;
    s->auth.stream.secret = true;
    s->auth.stream.in.limit = s->status.stream.in.limit = SESSION_SMALL;
    s->watch.stream.in.limit = SESSION_WATCHED;
}

void snib__etcd_session_free(struct snib__etcd *e)
{
    struct etcd_session *s = &e->session;
    snib__etcd_call_free(e, &s->auth);
    snib__etcd_call_free(e, &s->status);
    snib__etcd_call_free(e, &s->watch);
    snib__h2_close(&s->h2);
    snib__wipe(&s->token);
    snib__wipe(&s->user);
    snib__wipe(&s->password);
}

/* Is there anything for which it has to be there? */
static bool session_is_needed(const struct snib__etcd *e)
{
    return !snib__list_empty(&e->steps) || e->out->holds ||
           snib__blocking_waits(e->requests.table, SNIB__SESSION_CALLERS) ||
           snib__blocking_waits(e->requests.table, SNIB__SESSION_BACKGROUND);
}

static void session_open(struct snib__etcd *e, snib_instant now)
{
    struct etcd_session *s = &e->session;
    struct snib__conn *conn = session_conn(e);
    s->state = ETCD_OPENING;
    s->since = now;
    if (!s->turned.ns || s->idle) {
        s->turned = now;
        s->idle = false;
    }
    s->leave = s->anew = s->renews = s->asked = s->watch_came = s->hopeless =
        false;
    conn->open = true;
    snib__conn_touch(e->out, conn);
}

/* -- the end of a connection ------------------------------------------------ */

static void session_log(const struct snib__etcd *e)
{
    char words[sizeof e->session.text + SESSION_ADDRESS + 32];
    if (e->out->log) {
        snprintf(words, sizeof words, "etcd: connection to %.*s lost: %s",
                 SESSION_ADDRESS, session_conn(e)->address, e->session.text);
        e->out->log(e->out->log_data,
                    e->session.barred ? SNIB_LOG_ERROR : SNIB_LOG_WARN, words);
    }
}

void snib__etcd_session_cut(struct snib__etcd *e, snib_instant now, bool shut,
                            snib_err err, const char *text, bool barred)
{
    struct etcd_session *s = &e->session;
    struct snib__conn *conn = session_conn(e);
    bool served = snib__etcd_serves(s);
    bool was_ready = s->state == ETCD_READY;
    bool lasted =
        was_ready &&
        snib__reached(now, snib__after(s->since, snib__ms(SESSION_LASTED_MS)));
    bool ordered = was_ready && s->h2.away; /* it has only asked us to go */
    s->state = shut ? ETCD_CLOSING : ETCD_RESTING;
    s->err = err;
    s->barred = barred;
    snib__etcd_clean(e->password, text, s->text, sizeof s->text);
    session_log(e);
    conn->shut = conn->shut || shut;
    conn->open = conn->login = conn->pushes = false;
    snib__buf_wipe(&conn->out);
    snib__conn_touch(e->out, conn);
    s->since = now;
    if (served) {
        s->turned = now;
        s->idle = !session_is_needed(e);
    }
    s->leave = s->anew = s->renews = s->asked = s->watching = s->seen_status =
        false;
    s->leave_barred = s->watch_came = false;
    snib__wipe(&s->token);
    snib__wipe(&s->user);
    snib__wipe(&s->password);
    snib__etcd_calls_lost(e, now, err, s->text);
    snib__etcd_guesses_forget(e);
    snib__h2_close(&s->h2);
    conn->awaited = 0;
    s->rest = lasted ? snib__ms(ETCD_REST_MS) : s->rest;
    s->vain = lasted ? 0 : s->vain;
    snib__etcd_members_next(e, now, ordered);
}

/* -- greeting --------------------------------------------------------------- */

static void session_ready(struct snib__etcd *e, snib_instant now)
{
    struct etcd_session *s = &e->session;
    if (!s->seen_status || !s->watching || s->state != ETCD_GREETS) {
        return;
    }
    s->state = ETCD_READY;
    s->since = s->turned = now;
    s->err = SNIB_ERR_OK;
    s->text[0] = 0;
    s->refused = s->hopeless = s->barred = false;
    session_conn(e)->pushes = true;
    /* Nobody has listened since the last connection. */
    e->out->missed = e->out->missed || (s->ever && e->out->holds);
    snib__nonblocking_notify(&e->requests, NULL);
    s->ever = true;
}

static void session_greeting_failed(struct snib__etcd *e, snib_instant now,
                                    const struct etcd_reply *reply)
{
    bool barred = reply->end == ETCD_REFUSED || reply->err == SNIB_ERR_STORE;
    char text[sizeof reply->text + SESSION_ADDRESS + 8];
    snprintf(text, sizeof text, "%.*s: %s", SESSION_ADDRESS,
             session_conn(e)->address, reply->text);
    snib__etcd_session_cut(
        e, now, true, reply->err ? reply->err : SNIB_ERR_STORE, text, barred);
}

static void session_status_done(struct snib__etcd *e, snib_instant now,
                                struct etcd_call *c,
                                const struct etcd_reply *reply)
{
    struct etcd_session *s = &e->session;
    struct snib__etcd_status status;
    (void)c;
    if (s->state != ETCD_GREETS) {
        return; /* the connection has ended */
    }
    if (reply->end) {
        session_greeting_failed(e, now, reply);
    } else if (!snib__etcd_read_status(reply->bytes, reply->size, &status)) {
        snib__etcd_session_cut(e, now, true, SNIB_ERR_STORE,
                               "this does not answer like etcd", true);
    } else if (status.learner || !status.leader) {
        snib__etcd_session_cut(e, now, true, SNIB_ERR_UNREACHABLE,
                               status.learner
                                   ? "this member is a learner"
                                   : "this member knows of no leader",
                               false);
    } else if (!snib__etcd_cluster_is(e, status.header.cluster)) {
        snib__etcd_session_cut(
            e, now, true, SNIB_ERR_CONFIG,
            "the hosts of this list are of different clusters", true);
    } else {
        memcpy(s->version, status.version, sizeof s->version);
        s->member = status.header.member;
        s->seen_status = true;
        session_ready(e, now);
    }
}

void snib__etcd_session_greet(struct snib__etcd *e, snib_instant now)
{
    struct etcd_session *s = &e->session;
    s->state = ETCD_GREETS;
    s->since = now;
    snib__buf_clear(&e->message);
    snib__etcd_call(e, now, &s->status, SNIB__ETCD_STATUS, &e->message);
    if (e->recipe) { /* nobody notifies: keys are watched (recipe_wait.c) */
        s->watching = true;
        return;
    }
    session_conn(e)->awaited++; /* the watch, until it is there */
    snib__etcd_watch_begin(e, now);
}

/* -- inputs ----------------------------------------------------------------- */

static void session_opened(struct snib__etcd *e, snib_instant now)
{
    struct etcd_session *s = &e->session;
    if (s->state != ETCD_OPENING) {
        return;
    }
    s->since = s->heard = now;
    s->pinged = s->logged_in = (snib_instant){0};
    s->logins = 0;
    snib__buf_clear(&session_conn(e)->out);
    if (!snib__h2_open(&s->h2)) {
        snib__etcd_session_cut(e, now, true, SNIB_ERR_NOMEM, "out of memory",
                               false);
        return;
    }
    snib__etcd_login_begin(e, now);
}

void snib__etcd_session_broken(struct snib__etcd *e, snib_instant now)
{
    char text[300];
    bool met = e->session.h2.met;
    snprintf(text, sizeof text, "%.*s: %s%s", SESSION_ADDRESS,
             session_conn(e)->address, e->session.h2.why,
             met ? "" : "; is it the port for clients of etcd 3?");
    snib__etcd_session_cut(
        e, now, true, met ? SNIB_ERR_UNREACHABLE : SNIB_ERR_STORE, text, !met);
}

static void session_bytes(struct snib__etcd *e, snib_instant now,
                          const struct snib__input *in)
{
    struct etcd_session *s = &e->session;
    if (!s->h2.session) {
        return;
    }
    s->heard = now;
    s->pinged = (snib_instant){0};
    bool good = snib__h2_input(&s->h2, in->bytes, in->size);
    snib__etcd_calls_heard(e, now);
    if (!good && s->h2.session) {
        snib__etcd_session_broken(e, now);
    }
}

/* Why the connection is down, for people. */
static void session_why(const struct snib__etcd *e,
                        const struct snib__input *in, char *ret, size_t size)
{
    const char *why = in->bytes ? in->bytes : "";
    int n = (int)(in->bytes ? in->size : 0);
    bool greets =
        e->session.state == ETCD_AUTH || e->session.state == ETCD_GREETS;
    if (in->kind == SNIB__IN_REFUSED && !in->err) {
        snprintf(ret, size, "no connection to %.*s: %.*s", SESSION_ADDRESS,
                 session_conn(e)->address, n, why);
    } else if (n) {
        snprintf(ret, size, "%.*s: %.*s", SESSION_ADDRESS,
                 session_conn(e)->address, n, why);
    } else {
        snprintf(ret, size, "%.*s has closed the connection%s", SESSION_ADDRESS,
                 session_conn(e)->address,
                 greets && !e->secure && !e->session.h2.met
                     ? " (if it is a port for TLS, write etcds:)"
                     : "");
    }
}

void snib__etcd_session_input(struct snib__etcd *e, snib_instant now,
                              const struct snib__input *in)
{
    struct etcd_session *s = &e->session;
    char text[sizeof s->text];
    if (in->conn != s->at && s->state != ETCD_CLOSING) {
        return; /* a member that was left before */
    }
    switch (in->kind) {
    case SNIB__IN_OPENED:
        session_opened(e, now);
        break;
    case SNIB__IN_BYTES:
        session_bytes(e, now, in);
        break;
    case SNIB__IN_CLOSED:
    case SNIB__IN_REFUSED:
        if (s->state == ETCD_CLOSING) {
            s->state = ETCD_RESTING;
        } else if (s->state != ETCD_DOWN && s->state != ETCD_RESTING) {
            session_why(e, in, text, sizeof text);
            s->hopeless = in->hopeless;
            snib__etcd_session_cut(
                e, now, false, in->err ? in->err : SNIB_ERR_UNREACHABLE, text,
                in->err == SNIB_ERR_CONFIG || in->err == SNIB_ERR_DENIED);
        }
        break;
    case SNIB__IN_LOGIN:
        snib__etcd_login_came(e, now, in);
        break;
    case SNIB__IN_NOTIFIED:
    case SNIB__IN_TICK:
        break;
    }
}

/* -- time ------------------------------------------------------------------- */

/* The oldest call that is not answered. */
static snib_instant session_oldest(const struct etcd_session *s)
{
    SNIB__LIST_EACH (l, &s->calls) {
        const struct etcd_call *c = SNIB__CONTAINER(l, struct etcd_call, link);
        if (!c->heard) {
            return c->sent;
        }
    }
    return SNIB__NEVER;
}

/* When one that is silent is asked whether it is there; when it has not
 * answered. Who waits for nothing, and holds nothing, need not know. */
static snib_instant session_ping_due(const struct snib__etcd *e)
{
    const struct etcd_session *s = &e->session;
    if (s->pinged.ns) {
        return snib__after(s->pinged, e->request);
    }
    return session_is_needed(e)
               ? snib__after(s->heard, snib__ms(SESSION_SILENT_MS))
               : SNIB__NEVER;
}

static snib_instant session_ready_due(const struct snib__etcd *e)
{
    const struct etcd_session *s = &e->session;
    snib_instant login =
        s->login_at.ns && !s->asked ? s->login_at : SNIB__NEVER;
    return snib__sooner(snib__sooner(login, session_ping_due(e)),
                        snib__after(session_oldest(s), e->request));
}

snib_instant snib__etcd_session_due(const struct snib__etcd *e)
{
    const struct etcd_session *s = &e->session;
    switch (s->state) {
    case ETCD_DOWN:
        return SNIB__NEVER;
    case ETCD_RESTING:
        return session_is_needed(e) ? s->rest_until : SNIB__NEVER;
    case ETCD_READY:
        return session_ready_due(e);
    case ETCD_LOGIN: /* the program takes as long as it wants */
        return SNIB__NEVER;
    case ETCD_OPENING:
    case ETCD_AUTH:
    case ETCD_GREETS:
    case ETCD_CLOSING:
        break;
    }
    return snib__after(s->since, e->request);
}

static void session_late(struct snib__etcd *e, snib_instant now)
{
    char text[SESSION_ADDRESS + 120];
    snprintf(text, sizeof text, "no %s %.*s within the time allowed%s",
             e->session.state == ETCD_OPENING ? "connection to" : "answer from",
             SESSION_ADDRESS, session_conn(e)->address,
             e->secure && e->session.state == ETCD_OPENING
                 ? " (if it is the port without TLS, write etcd:)"
                 : "");
    snib__etcd_session_cut(e, now, true, SNIB_ERR_UNREACHABLE, text, false);
}

static void session_ready_tick(struct snib__etcd *e, snib_instant now)
{
    struct etcd_session *s = &e->session;
    bool late = snib__reached(now, snib__after(session_oldest(s), e->request));
    if (late || (s->pinged.ns && snib__reached(now, session_ping_due(e)))) {
        session_late(e, now);
        return;
    }
    if (s->login_at.ns && !s->asked && snib__reached(now, s->login_at)) {
        s->renews = true;
        snib__etcd_login_begin(e, now);
    }
    if (snib__reached(now, session_ping_due(e))) {
        s->pinged = now;
        (void)snib__h2_ping(&s->h2); /* without memory it counts as silent */
    }
}

void snib__etcd_session_tick(struct snib__etcd *e, snib_instant now)
{
    struct etcd_session *s = &e->session;
    if (!snib__reached(now, snib__etcd_session_due(e))) {
        return;
    }
    switch (s->state) {
    case ETCD_DOWN:
    case ETCD_LOGIN:
        break;
    case ETCD_RESTING:
        session_open(e, now);
        break;
    case ETCD_CLOSING:
        s->state = ETCD_RESTING; /* nobody has said that it is closed */
        break;
    case ETCD_READY:
        session_ready_tick(e, now);
        break;
    case ETCD_OPENING:
    case ETCD_AUTH:
    case ETCD_GREETS:
        session_late(e, now);
        break;
    }
}

void snib__etcd_session_settle(struct snib__etcd *e, snib_instant now)
{
    struct etcd_session *s = &e->session;
    char text[sizeof s->leave_text];
    if (s->watch_came && s->state == ETCD_GREETS) {
        s->watch_came = false;
        s->watching = true;
        session_conn(e)->awaited--;
        session_ready(e, now);
    }
    if (s->state == ETCD_DOWN && session_is_needed(e)) {
        session_open(e, now);
    } else if (s->leave) {
        memcpy(text, s->leave_text, sizeof text);
        snib__etcd_session_cut(e, now, true, s->leave_err, text,
                               s->leave_barred);
    } else if (s->state != ETCD_READY) {
        return;
    } else if (s->h2.away && snib__etcd_calls_none(e)) {
        snib__etcd_session_cut(e, now, true, SNIB_ERR_UNREACHABLE,
                               "the server ends", false);
    } else if (s->anew && !e->user && !e->asks) {
        snib__etcd_session_cut(
            e, now, true, SNIB_ERR_DENIED,
            "this server wants a login; expected etcd://USER:PASSWORD@HOST",
            true);
    } else if (s->anew) {
        snib__etcd_login_begin(e, now);
    }
}
