/* store/rabbitmq/login.c — from a connection to a virtual host.
 *
 *   GREETS --START--> TUNES --TUNE--> ENTERS --OPEN_OK--> READY
 *
 * A server that refuses a login says so (403), since we say that we know that
 * answer; one that knows no such virtual host, or lets this user not in there, says
 * 530. Without a login it is guest's, whom a server takes from its own host only. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/rabbitmq/rabbitmq_i.h"

static struct snib__conn *login_conn(const struct snib__mq *z)
{
    return z->out->conn[z->session.at];
}

void snib__mq_login_wipe(char **secret)
{
    if (*secret) {
        explicit_bzero(*secret, strlen(*secret));
        snib__free(*secret);
        *secret = NULL;
    }
}

static void login_wrote(struct snib__mq *z, snib_instant now, mq_state next)
{
    z->session.state = next;
    z->session.since = z->session.sent = now;
    snib__conn_touch(z->out, login_conn(z));
}

static void login_greet(struct snib__mq *z, snib_instant now)
{
    snib__amqp_put_protocol(&login_conn(z)->out);
    login_conn(z)->awaited++;
    login_wrote(z, now, MQ_GREETS);
}

void snib__mq_login_begin(struct snib__mq *z, snib_instant now)
{
    struct mq_session *s = &z->session;
    struct snib__conn *conn = login_conn(z);
    if (!z->asks) {
        login_greet(z, now);
        return;
    }
    s->state = MQ_LOGIN;
    s->asks_login = true;
    conn->login = true;
    conn->refused = s->refused;
    snib__conn_touch(z->out, conn);
}

void snib__mq_login_came(struct snib__mq *z, snib_instant now,
                         const struct snib__input *in)
{
    struct mq_session *s = &z->session;
    char text[MQ_TEXT];
    if (!s->asks_login || s->state != MQ_LOGIN) {
        return; /* the connection that it was for is no more */
    }
    s->asks_login = false;
    if (in->err) {
        bool barred = in->err == SNIB_ERR_DENIED || in->err == SNIB_ERR_CONFIG;
        snprintf(text, sizeof text, "no login for %.100s: %.100s",
                 login_conn(z)->address,
                 in->login && in->login->text[0] ? in->login->text
                                                 : snib_err_text(in->err));
        snib__mq_session_cut(z, now, true,
                             barred ? in->err : SNIB_ERR_UNREACHABLE, text,
                             barred);
        return;
    }
    snib__mq_login_wipe(&s->user);
    snib__mq_login_wipe(&s->password);
    if (in->login->user[0]) {
        s->user = snib__strdup(in->login->user);
        s->password = snib__strdup(in->login->password);
        if (!s->user || !s->password) {
            snib__mq_session_cut(z, now, true, SNIB_ERR_NOMEM, "out of memory",
                                 false);
            return;
        }
    }
    login_greet(z, now);
}

/* -- the server's side ------------------------------------------------------------ */

static void login_unfit(struct snib__mq *z, snib_err err, const char *words)
{
    char text[MQ_TEXT];
    snprintf(text, sizeof text, "%.*s: %s", MQ_ADDRESS, login_conn(z)->address,
             words);
    snib__mq_leave(z, err, text, true);
}

static void login_send(struct snib__mq *z, snib_instant now)
{
    struct mq_session *s = &z->session;
    struct snib__buf *out = &login_conn(z)->out;
    const char *user = z->asks ? s->user : z->user;
    const char *password = z->asks ? s->password : z->password;
    snib__buf_hide(out);
    snib__amqp_put_start_ok(out, user ? user : "guest",
                            user ? password : "guest");
    snib__mq_login_wipe(&s->user);
    snib__mq_login_wipe(&s->password);
    login_wrote(z, now, MQ_TUNES);
}

/* Words with blanks between them; one of them may end as another one is called
 * (AMQPLAIN). */
static bool login_has(struct snib__amqp_bytes words, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= words.size; i++) {
        bool begins = !i || words.bytes[i - 1] == ' ';
        bool ends = i + n == words.size || words.bytes[i + n] == ' ';
        if (begins && ends && !memcmp(words.bytes + i, word, n)) {
            return true;
        }
    }
    return false;
}

static void login_started(struct snib__mq *z, snib_instant now,
                          const struct snib__amqp_method *m)
{
    struct mq_session *s = &z->session;
    snib__amqp_text(m->product, s->product, sizeof s->product);
    snib__amqp_text(m->version, s->version, sizeof s->version);
    if (strcmp(s->product, "RabbitMQ") != 0) {
        login_unfit(z, SNIB_ERR_CONFIG,
                    "it speaks AMQP, but is not RabbitMQ, whose quorum queues "
                    "are needed");
    } else if (!login_has(m->text, "PLAIN")) {
        login_unfit(z, SNIB_ERR_DENIED,
                    "the server takes no logins with user and password "
                    "(PLAIN)");
    } else {
        login_send(z, now);
    }
}

/* The smaller of both, where 0 says that there is no bound. */
static uint32_t login_least(uint32_t a, uint32_t b)
{
    return !a || (b && b < a) ? b : a;
}

static void login_tuned(struct snib__mq *z, snib_instant now,
                        const struct snib__amqp_method *m)
{
    struct mq_session *s = &z->session;
    struct snib__buf *out = &login_conn(z)->out;
    s->heartbeat_s = (uint16_t)login_least(s->wish_s, m->heartbeat_s);
    z->channel_max = (uint16_t)login_least(MQ_CHANNELS, m->channel_max);
    snib__amqp_put_tune_ok(out, z->channel_max,
                           login_least(SNIB__AMQP_FRAME_MAX, m->frame_max),
                           s->heartbeat_s);
    snib__amqp_put_open(out, z->vhost);
    login_wrote(z, now, MQ_ENTERS);
}

static void login_entered(struct snib__mq *z, snib_instant now)
{
    struct mq_session *s = &z->session;
    s->state = MQ_READY;
    s->since = s->turned = s->heard = now;
    s->err = SNIB_ERR_OK;
    s->text[0] = s->blocked[0] = 0;
    s->vain = 0;
    s->refused = s->hopeless = s->barred = false;
    s->ever = true;
    login_conn(z)->awaited--;
    login_conn(z)->pushes = true;
    z->told_all = true;
    snib__mq_presence_begin(z, now);
}

/* Words for what a server says as it closes a connection. */
void snib__mq_closed(struct snib__mq *z, snib_instant now,
                     const struct snib__amqp_method *m)
{
    enum { REFUSED = 403, NOT_ALLOWED = 530 };
    bool ready = z->session.state == MQ_READY;
    bool login = m->code == REFUSED && !ready;
    bool vhost = m->code == NOT_ALLOWED && !ready;
    char text[MQ_TEXT], words[121];
    snib__amqp_text(m->text, words, sizeof words);
    snprintf(text, sizeof text, "%.60s: %s%s", login_conn(z)->address,
             login   ? "the login is refused: "
             : vhost ? "the virtual host in the URL's path: "
                     : "",
             words);
    snib__amqp_put_plain(&login_conn(z)->out, 0, SNIB__AMQP_CLOSE_OK);
    (void)now;
    z->session.refused = login;
    snib__mq_leave(z,
                   login   ? SNIB_ERR_DENIED
                   : vhost ? SNIB_ERR_CONFIG
                           : SNIB_ERR_UNREACHABLE,
                   text, login || vhost);
}

bool snib__mq_login_frame(struct snib__mq *z, snib_instant now,
                          const struct snib__amqp_frame *frame)
{
    struct mq_session *s = &z->session;
    struct snib__amqp_method m;
    if (frame->type == SNIB__AMQP_HEARTBEAT) {
        return true;
    }
    if (frame->type != SNIB__AMQP_METHOD || frame->channel ||
        !snib__amqp_read_method(frame, &m)) {
        return false;
    }
    if (m.id == SNIB__AMQP_CLOSE) {
        snib__mq_closed(z, now, &m);
    } else if (m.id == SNIB__AMQP_START && s->state == MQ_GREETS) {
        login_started(z, now, &m);
    } else if (m.id == SNIB__AMQP_TUNE && s->state == MQ_TUNES) {
        login_tuned(z, now, &m);
    } else if (m.id == SNIB__AMQP_OPEN_OK && s->state == MQ_ENTERS) {
        login_entered(z, now);
    } else {
        return false;
    }
    return true;
}
