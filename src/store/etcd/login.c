/* store/etcd/login.c — user and password become a token, which goes along with
 * each call.
 *
 * A login that was due by time (session.renews) is made while calls go on with the
 * old token, which is good for a while yet; what goes wrong with it is tried
 * again. Else all waits for it: the program may take as long as it wants, callers
 * keep their limits.
 *
 * etcd's simple tokens end when they were not used for five minutes, and when
 * the member ends that has given them. A call that is refused for that
 * (Unauthenticated) has changed nothing: the login is made anew on the same
 * connection, and the steps wait for it. Until the new token is there the old one
 * goes along with what cannot wait: without any, a server says that it wants a
 * login. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/etcd/etcd_i.h"

#define LOGIN_MOST_MS (SNIB_LEASE_MAX_MS * 365)

enum { LOGIN_TOKEN_MAX = 8192, LOGIN_REST_MS = 1000 };

static void login_send(struct snib__etcd *e, snib_instant now, const char *user,
                       const char *password)
{
    struct etcd_session *s = &e->session;
    struct snib__buf message;
    snib__buf_init(&message, LOGIN_TOKEN_MAX * 2);
    snib__buf_hide(&message);
    snib__buf_hide(&e->out->conn[s->at]->out);
    snib__etcd_put_login(&message, user, password);
    s->state = ETCD_AUTH;
    s->since = now;
    s->anew = false;
    snib__etcd_call(e, now, &s->auth, SNIB__ETCD_AUTHENTICATE, &message);
    snib__buf_wipe(&message);
    snib__buf_free(&message);
}

void snib__etcd_login_begin(struct snib__etcd *e, snib_instant now)
{
    struct etcd_session *s = &e->session;
    struct snib__conn *conn = e->out->conn[s->at];
    s->login_at = SNIB__NEVER;
    if (e->asks && s->asked) { /* what is asked for comes */
        s->state = ETCD_LOGIN;
        s->renews = false;
    } else if (e->asks) {
        s->state = s->renews ? ETCD_READY : ETCD_LOGIN;
        s->asked = true;
        conn->login = true;
        conn->refused = s->refused;
        snib__conn_touch(e->out, conn);
    } else if (e->user) {
        login_send(e, now, e->user, e->password);
    } else {
        snib__etcd_session_greet(e, now);
    }
}

/* At four fifths of its time. */
static void login_again_at(struct etcd_session *s, snib_instant now)
{
    int64_t ms = snib__to_ms(s->valid) / 5 * 4;
    if (s->valid.ns > 0) {
        s->login_at =
            snib__after(now, snib__ms(ms < LOGIN_REST_MS ? LOGIN_REST_MS : ms));
    }
}

/* The old login stands for now. */
static void login_in_vain(struct snib__etcd *e, snib_instant now,
                          const char *text)
{
    struct etcd_session *s = &e->session;
    char words[sizeof s->text + 48];
    s->state = ETCD_READY;
    s->renews = false;
    s->login_at = snib__after(now, snib__ms(LOGIN_REST_MS));
    if (e->out->log) {
        snprintf(words, sizeof words, "etcd: not logged in anew: %s", text);
        e->out->log(e->out->log_data, SNIB_LOG_WARN, words);
    }
}

/* It is connected, and has the login that it is to have. */
static void login_made(struct snib__etcd *e, snib_instant now)
{
    struct etcd_session *s = &e->session;
    bool waited = s->state != ETCD_READY;
    if (!s->watching) {
        snib__etcd_session_greet(e, now);
        return;
    }
    s->state = ETCD_READY;
    s->since = waited ? now : s->since;
    s->anew = s->renews = s->refused = false;
}

static void login_refused(struct snib__etcd *e, snib_instant now,
                          const struct snib__input *in)
{
    struct etcd_session *s = &e->session;
    char text[sizeof s->text];
    snprintf(text, sizeof text, "no login for %.100s: %.100s",
             e->out->conn[s->at]->address,
             in->login && in->login->text[0] ? in->login->text
                                             : snib_err_text(in->err));
    if (s->renews) {
        login_in_vain(e, now, text);
        return;
    }
    bool barred = in->err == SNIB_ERR_DENIED || in->err == SNIB_ERR_CONFIG;
    snib__etcd_session_cut(
        e, now, true, barred ? in->err : SNIB_ERR_UNREACHABLE, text, barred);
}

void snib__etcd_login_came(struct snib__etcd *e, snib_instant now,
                           const struct snib__input *in)
{
    struct etcd_session *s = &e->session;
    if (!s->asked || (s->state != ETCD_LOGIN && s->state != ETCD_READY)) {
        return; /* the connection that it was for is no more */
    }
    s->asked = false;
    if (in->err) {
        login_refused(e, now, in);
        return;
    }
    int64_t ms = in->login->valid_ms;
    ms = ms < LOGIN_MOST_MS ? ms : LOGIN_MOST_MS;
    s->valid = snib__ms(ms > 0 ? ms : 0);
    if (in->login->user[0] || in->login->password[0]) {
        login_send(e, now, in->login->user, in->login->password);
    } else {
        snib__wipe(&s->token);
        s->login++;
        login_again_at(s, now);
        login_made(e, now);
    }
}

/* AuthenticateResponse: token 2. */
static bool login_take_token(struct snib__etcd *e,
                             const struct etcd_reply *reply)
{
    struct snib__pb p;
    bool came = false;
    snib__pb_open(&p, reply->bytes, reply->size);
    while (snib__pb_next(&p)) {
        if (p.field == 2 && p.is_bytes && p.size && p.size < LOGIN_TOKEN_MAX) {
            snib__wipe(&e->session.token);
            e->session.token = snib__memdup(p.bytes, p.size);
            came = true;
        }
    }
    return came && e->session.token;
}

static void login_count(struct etcd_session *s, snib_instant now)
{
    s->login++; /* what is said of an earlier one counts no more */
    s->logins = snib__etcd_login_is_fresh(s, now) ? s->logins + 1 : 1;
    s->logged_in = now;
}

/* The program may have a newer one by now: it is asked once more. */
static bool login_asks_again(struct snib__etcd *e, snib_instant now,
                             const struct etcd_reply *reply)
{
    struct etcd_session *s = &e->session;
    if (!e->asks || s->refused || reply->err != SNIB_ERR_DENIED) {
        return false;
    }
    s->refused = true;
    snib__etcd_login_begin(e, now);
    return true;
}

static void login_end(struct snib__etcd *e, snib_instant now,
                      const struct etcd_reply *reply)
{
    struct etcd_session *s = &e->session;
    char text[sizeof s->text];
    if (s->state != ETCD_AUTH) {
        return; /* the connection has ended */
    }
    if (reply->end && login_asks_again(e, now, reply)) {
        return;
    }
    if (reply->end || !login_take_token(e, reply)) {
        snprintf(text, sizeof text, "%.100s: %.140s",
                 e->out->conn[s->at]->address,
                 reply->end ? reply->text : "no token came for the login");
        if (s->renews) {
            login_in_vain(e, now, text);
            return;
        }
        snib__etcd_session_cut(e, now, true,
                               reply->err ? reply->err : SNIB_ERR_STORE, text,
                               reply->end == ETCD_REFUSED);
        return;
    }
    login_count(s, now);
    login_again_at(s, now);
    login_made(e, now);
}

void snib__etcd_login_done(struct snib__etcd *e, snib_instant now,
                           struct etcd_call *c, const struct etcd_reply *reply)
{
    login_end(e, now, reply);
    if (!snib__linked(&c->link)) { /* no other login is on its way by now */
        snib__buf_wipe(&c->stream.in);
        snib__buf_wipe(&c->stream.out);
    }
}
