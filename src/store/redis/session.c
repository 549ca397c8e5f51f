/* store/redis/session.c — a connection's greeting, in one switch.
 *
 *   DOWN -> OPENING -> LOGIN? -> HELLO -> SLOTS? -> SELECT? -> PROBE?
 *             ^                    |     -> LAYOUT_SET -> LAYOUT_GET -> RECOVERY?
 *             |                    |     -> INFO? -> TIME -> READY
 *             |                    |       (SUBS: SELECT? -> SUBSCRIBE -> READY)
 *             |                    +-> REPLICA: the wrong server; ROLE names its
 *          RESTING <- CLOSING          primary
 *     any failure: RESTING (back-off), or CLOSING first when it is still open;
 *     RESTING ends when the back-off is over and the connection is wanted
 *
 * HELLO logs in, and its answer says what the server is, whatever the user's
 * rights are. A replica is never asked for a lock: a writable one would grant
 * what its primary grants to another client. Waiting requests make the client
 * connect again and again, since a replica may be promoted. A node of a cluster
 * and a Sentinel are refused for good.
 *
 * A node of a cluster, asked as one, is asked first which node serves which slot
 * (CLUSTER NODES), also if it is a replica. The rest follows behind the answer:
 * the keys that are no lock's must be of a slot that this node serves.
 *
 * The greeting is sent in one piece, and nothing else is sent before it is
 * answered: a request must never follow a login or a database that is refused.
 * TIME gives the first estimate of the server's clock, which an acquire needs
 * (not_after). With a login the probe asks whether the user's rights let our
 * scripts run to their end. Redis does not roll scripts back, so a right that
 * is missing in the middle would leave half of the writes. After a greeting
 * that was refused for good (password, rights, database, layout) the connection
 * rests for seconds, so that the client does not hammer the server.
 *
 * WATCH is greeted by HELLO alone; what follows is watch.c's.
 *
 * Where the program gives the logins, LOGIN waits for one. A login that the
 * server refuses may have been changed there meanwhile, so the program is asked
 * once more, for a new connection, before anybody hears of it. */
#include <stdio.h>
#include <string.h>

#include "store/redis/inspect_i.h"

static void session_greet(struct snib__redis *s, snib_instant now, int i, job j)
{
    snib__session_push(
        s, i, &(struct flight){.job = (uint8_t)j, .sent = now, .last = true});
}

/* password NULL: without a login. */
static void session_hello(struct snib__redis *s, snib_instant now, int i,
                          const char *user, const char *password)
{
    struct snib__buf *out = &s->out->conn[i]->out;
    if (password) {
        snib__buf_hide(out);
        (void)snib__buf_grow(out, strlen(password) + LOGIN_ROOM);
    }
    snib__resp_begin(out, password ? 5 : 2);
    snib__resp_text(out, "HELLO");
    snib__resp_text(out, "2");
    if (password) {
        snib__resp_text(out, "AUTH");
        snib__resp_text(out, user ? user : "default");
        snib__resp_text(out, password);
    }
    session_greet(s, now, i, JOB_HELLO);
}

static void session_ask_layout(struct snib__redis *s, snib_instant now, int i)
{
    struct snib__buf *out = &s->out->conn[i]->out;
    char key[LAYOUT_KEY_MAX];
    snib__layout_key(s, i, key);
    snib__layout_encode_set(out, key);
    session_greet(s, now, i, JOB_LAYOUT_SET);
    snib__layout_encode_get(out, key);
    session_greet(s, now, i, JOB_LAYOUT_GET);
}

/* What follows HELLO, and the map of a cluster, on the connections to the
 * primary. */
static void session_ask(struct snib__redis *s, snib_instant now, int i)
{
    const struct session *l = &s->session[i];
    struct snib__buf *out = &s->out->conn[i]->out;
    if (s->db) {
        snib__resp_begin(out, 2);
        snib__resp_text(out, "SELECT");
        snib__resp_i64(out, s->db);
        session_greet(s, now, i, JOB_SELECT);
    }
    if (l->probes) {
        snib__encode_probe(s, i, out);
        session_greet(s, now, i, JOB_PROBE);
    }
    if (i == SUBS) {
        snib__login_subscribe(s, now);
    } else {
        session_ask_layout(s, now, i);
        if (s->recovery_ms) {
            snib__recovery_encode(s, out);
            session_greet(s, now, i, JOB_RECOVERY);
        }
        if (snib__session_asks_info(s)) {
            snib__resp_begin(out, 2);
            snib__resp_text(out, "INFO");
            snib__resp_text(out, "server");
            session_greet(s, now, i, JOB_INFO);
        }
        snib__resp_begin(out, 1);
        snib__resp_text(out, "TIME");
        session_greet(s, now, i, JOB_TIME);
    }
}

static void session_begin(struct snib__redis *s, snib_instant now, int i,
                          const char *user, const char *password)
{
    struct session *l = &s->session[i];
    l->since = now;
    l->unread = l->mark_denied = false;
    l->state = SESSION_HELLO;
    l->probes = password && i < SUBS;
    session_hello(s, now, i, user, password);
    l->tag = -1;
    if (i == WATCH) {
        snib__watch_ask(s, now);
    } else if (s->slots && i != SUBS) {
        snib__node_ask(s, now, i);
    } else {
        session_ask(s, now, i);
    }
    if (s->out->conn[i]->out.failed) {
        snib__session_cut(s, now, i, true, SNIB_ERR_NOMEM, "out of memory",
                          false);
    }
}

void snib__session_opened(struct snib__redis *s, snib_instant now, int i)
{
    struct session *l = &s->session[i];
    snib__buf_clear(&s->out->conn[i]->out);
    l->opened = now;
    if (!snib__resp_reset(l->resp) || !snib__session_has_room(s, i, 8)) {
        l->state = SESSION_HELLO;
        snib__session_cut(s, now, i, true, SNIB_ERR_NOMEM, "out of memory",
                          false);
    } else if (i == WATCH && s->topology->service) {
        session_begin(s, now, i, s->topology->user, s->topology->password);
    } else if (s->asks) {
        l->state = SESSION_LOGIN;
        snib__login_ask(s, i);
    } else {
        session_begin(s, now, i, s->user, s->password);
    }
}

void snib__session_login(struct snib__redis *s, snib_instant now, int i,
                         const struct snib__input *in)
{
    struct session *l = &s->session[i];
    char text[sizeof l->text];
    if (!l->asked) {
        return; /* the connection that it was for is no more */
    }
    l->asked = false;
    if (l->state == SESSION_READY) {
        snib__login_renew(s, now, i, in);
    } else if (in->err) {
        snib__login_why(s, i, in, text, sizeof text);
        bool barred = in->err == SNIB_ERR_DENIED || in->err == SNIB_ERR_CONFIG;
        bool own = barred || in->err == SNIB_ERR_LIMIT;
        snib__session_cut(s, now, i, true, own ? in->err : SNIB_ERR_UNREACHABLE,
                          text, barred);
    } else {
        const struct snib_login *login = in->login;
        bool none = !login->user[0] && !login->password[0];
        snib__login_came(l, now, in);
        session_begin(s, now, i, login->user[0] ? login->user : NULL,
                      none ? NULL : login->password);
    }
}

static void session_ready(struct snib__redis *s, snib_instant now, int i)
{
    struct session *l = &s->session[i];
    bool again = s->ever;
    l->state = SESSION_READY;
    l->rest = snib__ms(REST_FIRST_MS);
    l->err = SNIB_ERR_OK;
    l->text[0] = 0;
    l->refused = false;
    s->ever = true;
    if (s->topology) {
        s->topology->vain = s->topology->doubts = 0;
        s->session[WATCH].rest = snib__ms(REST_FIRST_MS);
    }
    snib__state_met(s, now, i);
    if (i != SUBS) {
        snib__state_good(s, now);
        s->packets_until = now;
        s->no_mark = l->mark_denied || s->slots;
        if (s->ended_unsure) {
            snib__ended_ask(s, now, i);
        }
    }
    if (i == SUBS) {
        l->ping_at = snib__after(now, snib__ms(POLL_MS));
        s->out->conn[SUBS]->pushes = true;
        s->out->missed = s->out->missed || s->heard || s->out->holds;
        s->heard = true;
        snib__queue_poll_all(s, now);
        snib__inspect_subs(s, now);
    } else if (i == CALLERS && again) {
        snib__queue_poll_all(s, now);
    }
}

/* The greeting was refused, or the first bytes were an error (too many
 * clients, protected mode). */
static void session_refused(struct snib__redis *s, snib_instant now, int i,
                            const struct snib__resp_cell *c)
{
    struct session *l = &s->session[i];
    char text[sizeof l->text];
    if (c->type != SNIB__RESP_ERROR) {
        snib__session_cut(s, now, i, true, SNIB_ERR_STORE,
                          "this does not answer like a Redis server", true);
        return;
    }
    error_kind kind = snib__redis_error_kind(c->text, c->size);
    bool select = l->state == SESSION_SELECT && kind == E_STORE;
    bool epoch = l->state == SESSION_RECOVERY;
    snib__redis_error_words(text, sizeof text, c->text, c->size);
    if (epoch && kind == E_DENIED && strstr(text, "key")) {
        snprintf(
            text, sizeof text,
            "NOPERM: recovery= needs the keys snib:epoch and snib:m, which "
            "this user may not use (~snib:epoch ~snib:m)");
    }
    if (s->asks && l->state == SESSION_HELLO && kind == E_DENIED &&
        !l->refused) {
        l->refused = true;
        snib__session_anew(s, now, i, text);
        return;
    }
    snib__session_cut(s, now, i, true,
                      select ? SNIB_ERR_CONFIG : snib__redis_error_code(kind),
                      text,
                      select || kind == E_DENIED || kind == E_CONFIG ||
                          (epoch && kind == E_CORRUPT));
}

bool snib__session_no_hello(struct snib__redis *s, snib_instant now, int i,
                            const struct snib__resp_cell *c)
{
    bool unknown = c->type == SNIB__RESP_ERROR && c->size > 19 &&
                   !memcmp(c->text, "ERR unknown command", 19);
    if (unknown) {
        snib__session_cut(s, now, i, true, SNIB_ERR_CONFIG,
                          "this server does not know HELLO: it is older than "
                          "Redis 6.2, or a proxy; give the URL of Redis 6.2 or "
                          "later",
                          true);
    }
    return unknown;
}

/* The answer to CLUSTER NODES. False: the node is not to be asked for locks, and
 * the connection was cut. */
static bool session_is_home(struct snib__redis *s, snib_instant now, int i,
                            const struct snib__resp_cell *c)
{
    struct session *l = &s->session[i];
    char text[sizeof l->text];
    if (!snib__node_told(s, now, i, c)) {
        if (l->state == SESSION_SLOTS) { /* it was not cut */
            session_refused(s, now, i, c);
        }
        return false;
    }
    if (!strcmp(l->greeting.role, "replica")) {
        snprintf(text, sizeof text,
                 "%.*s is a replica of the cluster, which takes no locks",
                 ADDRESS_SHOWN, s->out->conn[i]->address);
        snib__session_cut(s, now, i, true, SNIB_ERR_UNREACHABLE, text, false);
        return false;
    }
    session_ask(s, now, i);
    return true;
}

static bool session_server_time(struct snib__redis *s, snib_instant now,
                                const struct snib__resp_cell *c)
{
    int64_t ms;
    if (!snib__state_clock(c, &ms)) {
        return false;
    }
    snib__server_time(s, now, ms);
    return true;
}

/* False: this server must not be asked for locks, and the connection was
 * cut. */
static bool session_knows_layout(struct snib__redis *s, snib_instant now, int i,
                                 const struct snib__resp_cell *c)
{
    char text[250];
    layout_verdict verdict = snib__layout_read(c, text, sizeof text);
    if (verdict == LAYOUT_UNREAD && s->slots && c->size >= 11 &&
        !memcmp(c->text, "CLUSTERDOWN", 11)) {
        verdict = LAYOUT_OURS; /* it tells nothing, and that may last       */
    }
    s->session[i].unread = verdict == LAYOUT_UNREAD;
    if (verdict == LAYOUT_OTHER) {
        snib__session_cut(s, now, i, true, SNIB_ERR_CONFIG, text, true);
    } else if (verdict == LAYOUT_STRANGE) {
        session_refused(s, now, i, c);
    }
    return verdict == LAYOUT_OURS || verdict == LAYOUT_UNREAD;
}

static session_state session_after_select(const struct snib__redis *s, int i)
{
    return i == SUBS              ? SESSION_SUBSCRIBE
           : s->session[i].probes ? SESSION_PROBE
                                  : SESSION_LAYOUT_SET;
}

static session_state session_after_layout(const struct snib__redis *s)
{
    return snib__session_asks_info(s) ? SESSION_INFO : SESSION_TIME;
}

/* The reply to this flight has come. */
static void session_pop(struct snib__redis *s, int i, struct flight *ret)
{
    snib__session_pop(&s->session[i], ret);
    s->out->conn[i]->awaited--;
}

void snib__session_greeted(struct snib__redis *s, snib_instant now, int i,
                           const struct snib__resp_cell *c)
{
    struct session *l = &s->session[i];
    struct flight f;
    if (i == WATCH) {
        snib__watch_greeted(s, now, c);
        return;
    }
    switch (l->state) {
    case SESSION_LOGIN: /* it speaks first: too many clients, for one */
        session_refused(s, now, i, c);
        return;
    case SESSION_HELLO:
        if (c->type != SNIB__RESP_ARRAY) {
            if (!snib__session_no_hello(s, now, i, c)) {
                session_refused(s, now, i, c);
            }
            return;
        }
        session_pop(s, i, &f);
        if (snib__role_is_primary(s, now, i, c)) {
            l->state = s->slots && i != SUBS ? SESSION_SLOTS
                       : s->db               ? SESSION_SELECT
                                             : session_after_select(s, i);
        }
        break;
    case SESSION_SLOTS:
        session_pop(s, i, &f);
        if (session_is_home(s, now, i, c)) {
            l->state = session_after_select(s, i);
        }
        break;
    case SESSION_REPLICA:
        session_pop(s, i, &f);
        if (f.job == JOB_ROLE) {
            snib__role_told(s, now, i, c);
        }
        break;
    case SESSION_SELECT:
        if (!snib__resp_is(c, "OK")) {
            session_refused(s, now, i, c);
            return;
        }
        session_pop(s, i, &f);
        l->state = session_after_select(s, i);
        break;
    case SESSION_PROBE:
        if (!snib__rights_suffice(s, now, i, c)) {
            return;
        }
        session_pop(s, i, &f);
        l->state = SESSION_LAYOUT_SET;
        break;
    case SESSION_LAYOUT_SET:
        session_pop(s, i, &f);
        l->state = SESSION_LAYOUT_GET;
        break;
    case SESSION_LAYOUT_GET:
        if (!session_knows_layout(s, now, i, c)) {
            return;
        }
        session_pop(s, i, &f);
        l->state = s->recovery_ms ? SESSION_RECOVERY : session_after_layout(s);
        break;
    case SESSION_RECOVERY:
        if (!snib__recovery_read(s, c)) {
            session_refused(s, now, i, c);
            return;
        }
        session_pop(s, i, &f);
        snib__confirm_greeted(l, c);
        l->state = session_after_layout(s);
        break;
    case SESSION_INFO:
        snib__state_info(s, i, c);
        session_pop(s, i, &f);
        l->state = SESSION_TIME;
        break;
    case SESSION_TIME:
        if (!session_server_time(s, now, c)) {
            session_refused(s, now, i, c);
            return;
        }
        session_pop(s, i, &f);
        session_ready(s, now, i);
        break;
    case SESSION_SUBSCRIBE:
        if (i == SUBS && snib__queue_hears(s, now, c)) {
            break; /* on the first channel, before the second is acknowledged */
        }
        if (!snib__resp_is(snib__resp_at(c, 0), "subscribe")) {
            session_refused(s, now, i, c);
            return;
        }
        session_pop(s, i, &f);
        if (!l->count) {
            session_ready(s, now, i);
        }
        break;
    case SESSION_READY: /* it answers requests: store.c */
    case SESSION_EPOCH: /* of WATCH, as the next */
    case SESSION_ASKED:
    case SESSION_DOWN:
    case SESSION_OPENING:
    case SESSION_CLOSING:
    case SESSION_RESTING:
        break;
    }
}
