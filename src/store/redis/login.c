/* store/redis/login.c — logins that the program gives, each time anew.
 *
 * Nothing of a login is kept: it is asked for when a connection is there
 * (session.c), and again when four fifths of its time are over:
 *
 *     READY --login_at--> asked --the login came--> AUTH sent --OK--> READY
 *                           |                          | refused, once: asked
 *                           +-- none came, refused --> later, again
 *
 * The connection goes on meanwhile: the server takes a new login in between two
 * requests, and if it refuses it the old one stands. A login that it refuses is
 * asked for once more at once, since the program's may have changed in between.
 * After that the client tries again from time to time, and nobody is told: what
 * is held stays held as long as the server lets this connection work.
 *
 * A connection that is subscribed takes no AUTH. So it unsubscribes, logs in
 * and subscribes again, all in one write: a server that reads it in one piece
 * runs it without a gap. For a server that does not, all that waits polls when
 * the subscription is back, and all that is held is asked for. */
#include <stdio.h>
#include <string.h>

#include "store/redis/redis_i.h"

static void login_fly(struct snib__redis *s, snib_instant now, int i, job j)
{
    snib__session_push(
        s, i, &(struct flight){.job = (uint8_t)j, .sent = now, .last = true});
}

static void login_channel(struct snib__redis *s, snib_instant now,
                          const char *verb, const char *channel, job j)
{
    struct snib__buf *out = &s->out->conn[SUBS]->out;
    snib__resp_begin(out, 2);
    snib__resp_text(out, verb);
    snib__resp_text(out, channel);
    login_fly(s, now, SUBS, j);
}

static void login_channels(struct snib__redis *s, snib_instant now,
                           const char *verb, job j)
{
    login_channel(s, now, verb, s->channel, j);
    if (s->generation) {
        char notices[CHANNEL_NOTICE_MAX];
        snib__queue_notice_channel(s, notices);
        login_channel(s, now, verb, notices, j);
    }
}

void snib__login_subscribe(struct snib__redis *s, snib_instant now)
{
    login_channels(s, now, "SUBSCRIBE", JOB_SUBSCRIBE);
}

void snib__login_ask(struct snib__redis *s, int i)
{
    struct session *l = &s->session[i];
    l->asked = true;
    s->out->conn[i]->login = true;
    s->out->conn[i]->refused = l->refused;
}

void snib__login_came(struct session *l, snib_instant now,
                      const struct snib__input *in)
{
    const int64_t most = SNIB_LEASE_MAX_MS * 365;
    int64_t ms = in->login->valid_ms, pause;
    l->valid = (snib_duration){0};
    l->login_at = (snib_instant){0};
    if (ms > 0) {
        ms = ms < most ? ms : most;
        pause = ms / 5 * 4;
        pause = pause > LOGIN_REST_MS ? pause : LOGIN_REST_MS;
        l->valid = snib__ms(ms);
        l->login_at = snib__after(now, snib__ms(pause));
    }
}

void snib__login_why(const struct snib__redis *s, int i,
                     const struct snib__input *in, char *ret, size_t size)
{
    char said[sizeof in->login->text];
    const char *text = in->login && in->login->text[0] ? in->login->text
                                                       : snib_err_text(in->err);
    snib__redis_error_text(said, sizeof said, text, (uint32_t)strlen(text));
    snprintf(ret, size, "no login for %.*s: %s", ADDRESS_SHOWN,
             s->out->conn[i]->address, said);
}

/* No login came, or the server refuses it: the old one stands for now. */
static void login_in_vain(struct snib__redis *s, snib_instant now, int i,
                          const char *text)
{
    struct session *l = &s->session[i];
    char words[sizeof l->text + 48];
    int64_t ms = snib__to_ms(l->valid) / LOGIN_PART;
    ms = ms > REST_BARRED_MS ? REST_BARRED_MS : ms;
    ms = ms < LOGIN_REST_MS ? LOGIN_REST_MS : ms;
    l->login_at = snib__after(now, snib__ms(ms));
    if (s->out->log) {
        snprintf(words, sizeof words, "redis: not logged in anew: %s", text);
        s->out->log(s->out->log_data, SNIB_LOG_WARN, words);
    }
}

void snib__login_renew(struct snib__redis *s, snib_instant now, int i,
                       const struct snib__input *in)
{
    struct session *l = &s->session[i];
    struct snib__buf *out = &s->out->conn[i]->out;
    if (in->err) {
        char why[sizeof l->text];
        snib__login_why(s, i, in, why, sizeof why);
        login_in_vain(s, now, i, why);
        return;
    }
    snib__login_came(l, now, in);
    if (!in->login->user[0] && !in->login->password[0]) {
        return;
    }
    if (!snib__session_fits(s, i, 5)) { /* behind a WAIT, too               */
        login_in_vain(s, now, i, "too much is being sent");
        return;
    }
    snib__buf_hide(out);
    if (i == SUBS) {
        login_channels(s, now, "UNSUBSCRIBE", JOB_UNSUBSCRIBE);
    }
    snib__resp_begin(out, 3);
    snib__resp_text(out, "AUTH");
    snib__resp_text(out, in->login->user[0] ? in->login->user : "default");
    snib__resp_text(out, in->login->password);
    login_fly(s, now, i, JOB_AUTH);
    if (i == SUBS) {
        snib__login_subscribe(s, now);
    }
}

static void login_answered(struct snib__redis *s, snib_instant now, int i,
                           const struct snib__resp_cell *c)
{
    struct session *l = &s->session[i];
    char text[200] = "the answer to AUTH is not one";
    bool again = l->refused;
    l->refused = !snib__resp_is(c, "OK");
    if (!l->refused) {
        return;
    }
    if (c->type == SNIB__RESP_ERROR) {
        snib__redis_error_words(text, sizeof text, c->text, c->size);
    }
    if (again) {
        login_in_vain(s, now, i, text);
    } else {
        snib__login_ask(s, i);
    }
}

void snib__login_reply(struct snib__redis *s, snib_instant now, int i, job j,
                       const struct snib__resp_cell *c)
{
    struct session *l = &s->session[i];
    if (j == JOB_AUTH) {
        login_answered(s, now, i, c);
    } else if (j == JOB_SUBSCRIBE) {
        if (!snib__resp_is(snib__resp_at(c, 0), "subscribe")) {
            snib__session_cut(s, now, i, true, SNIB_ERR_UNREACHABLE,
                              "the subscription was not made again", false);
        } else if (!l->count) {
            s->out->missed = s->out->missed || s->out->holds;
            snib__queue_poll_all(s, now);
        }
    }
}
