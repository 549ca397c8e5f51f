/* store/zookeeper/login.c — user and password: ZooKeeper's scheme "digest".
 *
 * The server takes any user with any password; it only compares them with what
 * nodes allow. So a wrong password is met as a lack of rights. What a client with
 * a login makes only that login may use. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/zookeeper/zookeeper_i.h"

static struct snib__conn *login_conn(const struct snib__zoo *z)
{
    return z->out->conn[z->session.at];
}

void snib__zoo_login_begin(struct snib__zoo *z, snib_instant now)
{
    struct zoo_session *s = &z->session;
    struct snib__conn *conn = z->out->conn[s->at];
    if (!z->asks) {
        snib__zoo_session_hello(z, now);
        return;
    }
    s->state = ZOO_LOGIN;
    s->asked = true;
    conn->login = true;
    conn->refused = s->refused;
    snib__conn_touch(z->out, conn);
}

void snib__zoo_login_came(struct snib__zoo *z, snib_instant now,
                          const struct snib__input *in)
{
    struct zoo_session *s = &z->session;
    char text[ZOO_TEXT];
    if (!s->asked || s->state != ZOO_LOGIN) {
        return; /* the connection that it was for is no more */
    }
    s->asked = false;
    if (in->err) {
        bool barred = in->err == SNIB_ERR_DENIED || in->err == SNIB_ERR_CONFIG;
        snprintf(text, sizeof text, "no login for %.100s: %.100s",
                 z->out->conn[s->at]->address,
                 in->login && in->login->text[0] ? in->login->text
                                                 : snib_err_text(in->err));
        snib__zoo_session_cut(z, now, true,
                              barred ? in->err : SNIB_ERR_UNREACHABLE, text,
                              barred);
        return;
    }
    snib__wipe(&s->user);
    snib__wipe(&s->password);
    if (in->login->user[0]) {
        s->user = snib__strdup(in->login->user);
        s->password = snib__strdup(in->login->password);
        if (!s->user || !s->password) {
            snib__zoo_session_cut(z, now, true, SNIB_ERR_NOMEM, "out of memory",
                                  false);
            return;
        }
    }
    snib__zoo_session_hello(z, now);
}

bool snib__zoo_login_send(struct snib__zoo *z, snib_instant now)
{
    struct zoo_session *s = &z->session;
    struct snib__conn *conn = z->out->conn[s->at];
    const char *user = z->asks ? s->user : z->user;
    const char *password = z->asks ? s->password : z->password;
    s->logged_in = user != NULL;
    if (!user) {
        return false;
    }
    snib__zk_put_digest(&conn->out, user, password ? password : "");
    snib__wipe(&s->user);
    snib__wipe(&s->password);
    s->sent = now;
    conn->awaited++;
    snib__conn_touch(z->out, conn);
    return true;
}

/* -- greeting --------------------------------------------------------------- */

static void login_greeted(struct snib__zoo *z, snib_instant now)
{
    struct zoo_session *s = &z->session;
    s->since = now;
    if (z->fence.made) {
        s->state = ZOO_FENCES;
        snib__zoo_fence_begin(z, now);
    } else {
        snib__zoo_session_ready(z, now);
    }
}

/* The session is there, or the one we had is over. */
void snib__zoo_hello_came(struct snib__zoo *z, snib_instant now,
                          const uint8_t *bytes, size_t size)
{
    struct zoo_session *s = &z->session;
    struct snib__zk_session got;
    char text[ZOO_TEXT];
    login_conn(z)->awaited--;
    if (!snib__zk_read_connect(bytes, size, &got) ||
        (s->zk.id && got.id && got.id != s->zk.id)) {
        snprintf(text, sizeof text,
                 "%.*s: this does not answer like ZooKeeper; is it the port "
                 "for its clients?",
                 ZOO_ADDRESS, login_conn(z)->address);
        snib__zoo_session_cut(z, now, true, SNIB_ERR_STORE, text, true);
        return;
    }
    if (!got.id) {
        snprintf(text, sizeof text, "%.*s: the session is over", ZOO_ADDRESS,
                 login_conn(z)->address);
        s->over = s->zk.id != 0;
        snib__zoo_session_cut(z, now, true, SNIB_ERR_UNREACHABLE, text, false);
        return;
    }
    s->zk = got;
    if (snib__zoo_login_send(z, now)) {
        s->state = ZOO_AUTHS;
    } else {
        login_greeted(z, now);
    }
}

void snib__zoo_login_done(struct snib__zoo *z, snib_instant now,
                          const struct snib__zk_reply *reply)
{
    char text[ZOO_TEXT];
    login_conn(z)->awaited--;
    if (reply->err) {
        snprintf(text, sizeof text,
                 "%.*s: the server does not take logins of the scheme digest "
                 "(error %d)",
                 ZOO_ADDRESS, login_conn(z)->address, reply->err);
        z->session.refused = true;
        snib__zoo_session_cut(z, now, true, SNIB_ERR_DENIED, text, true);
        return;
    }
    login_greeted(z, now);
}
