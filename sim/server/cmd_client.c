/*
 * cmd_client.c — a connection and who is behind it
 */
#include "commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool password_ok(const struct sim_redis *s,
                        const struct sim_redis_arg *user,
                        const struct sim_redis_arg *pass)
{
    if (user != NULL && (user->len != 7 || memcmp(user->ptr, "default", 7))) {
        return false;
    }
    if (s->password == NULL) {
        return (s->faults & SIM_REDIS_NOAUTH) == 0;
    }
    return pass->len == strlen(s->password) &&
           memcmp(pass->ptr, s->password, pass->len) == 0;
}

void sr_cmd_auth(struct sim_redis *s, struct sr_client *c)
{
    if (c->argc > 3) {
        sr_err_syntax(c);
        return;
    }
    if (c->argc == 2 && s->password == NULL &&
        (s->faults & SIM_REDIS_NOAUTH) == 0) {
        sr_err(c, "AUTH <password> called without any password configured "
                  "for the default user. Are you sure your configuration is "
                  "correct?");
        return;
    }
    const struct sim_redis_arg *user = c->argc == 3 ? &c->argv[1] : NULL;
    if (password_ok(s, user, &c->argv[c->argc - 1])) {
        c->authed = true;
        sr_ok(c);
    } else {
        sr_err(c, "-WRONGPASS invalid username-password pair or user is "
                  "disabled.");
    }
}

static bool set_name(struct sr_client *c, const struct sim_redis_arg *name)
{
    for (size_t i = 0; i < name->len; i++) {
        if (name->ptr[i] < '!' || name->ptr[i] > '~') {
            sr_err(c, "Client names cannot contain spaces, newlines or "
                      "special characters.");
            return false;
        }
    }
    free(c->name);
    c->name = name->len == 0 ? NULL : sr_str_new(name->ptr, name->len);
    return true;
}

static bool hello_options(struct sim_redis *s, struct sr_client *c)
{
    for (int j = 2; j < c->argc; j++) {
        int more = c->argc - 1 - j;
        if (sr_is(&c->argv[j], "auth") && more >= 2) {
            if (!password_ok(s, &c->argv[j + 1], &c->argv[j + 2])) {
                sr_err(c, "-WRONGPASS invalid username-password pair or user "
                          "is disabled.");
                return false;
            }
            c->authed = true;
            j += 2;
        } else if (sr_is(&c->argv[j], "setname") && more >= 1) {
            if (!set_name(c, &c->argv[j + 1])) {
                return false;
            }
            j++;
        } else {
            sr_err(c, "Syntax error in HELLO option '%s'", c->argv[j].ptr);
            return false;
        }
    }
    return true;
}

void sr_cmd_hello(struct sim_redis *s, struct sr_client *c)
{
    long long version = 0;
    if (c->argc >= 2) {
        if (!sr_parse_ll(c->argv[1].ptr, c->argv[1].len, &version)) {
            sr_err(c, "Protocol version is not an integer or out of range");
            return;
        }
        if (version < 2 || version > 3) {
            sr_err(c, "-NOPROTO unsupported protocol version");
            return;
        }
    }
    if (!hello_options(s, c)) {
        return;
    }
    if (!c->authed) {
        sr_err(c, "-NOAUTH HELLO must be called with the client already "
                  "authenticated, otherwise the HELLO AUTH <user> <pass> "
                  "option can be used to authenticate the client and select "
                  "the RESP protocol version at the same time");
        return;
    }
    if (version != 0) {
        c->resp = (int)version;
    }
    bool replica =
        (s->faults & (SIM_REDIS_READONLY | SIM_REDIS_MASTERDOWN)) != 0;
    sr_map(c, 7);
    sr_bulk_cstr(c, "server");
    sr_bulk_cstr(c, "redis");
    sr_bulk_cstr(c, "version");
    sr_bulk_cstr(c, "7.0.15");
    sr_bulk_cstr(c, "proto");
    sr_int(c, c->resp);
    sr_bulk_cstr(c, "id");
    sr_int(c, c->id);
    sr_bulk_cstr(c, "mode");
    sr_bulk_cstr(c, "standalone");
    sr_bulk_cstr(c, "role");
    sr_bulk_cstr(c, replica ? "replica" : "master");
    sr_bulk_cstr(c, "modules");
    sr_array(c, 0);
}

void sr_cmd_reset(struct sim_redis *s, struct sr_client *c)
{
    sr_pubsub_leave_all(s, c);
    sr_multi_discard(c);
    c->db = 0;
    c->resp = 2;
    c->authed = s->password == NULL && (s->faults & SIM_REDIS_NOAUTH) == 0;
    free(c->name);
    c->name = NULL;
    sr_raw(c, "+RESET\r\n");
}

void sr_cmd_quit(struct sim_redis *s, struct sr_client *c)
{
    (void)s;
    sr_ok(c);
    c->closing = true;
}

void sr_cmd_client_id(struct sim_redis *s, struct sr_client *c)
{
    (void)s;
    sr_int(c, c->id);
}

void sr_cmd_client_setname(struct sim_redis *s, struct sr_client *c)
{
    (void)s;
    if (set_name(c, &c->argv[2])) {
        sr_ok(c);
    }
}

void sr_cmd_client_getname(struct sim_redis *s, struct sr_client *c)
{
    (void)s;
    if (c->name == NULL) {
        sr_null(c);
    } else {
        sr_bulk_str(c, c->name);
    }
}

/* Redis kills at once; the peer still reads what it had been sent. */
static void kill(struct sim_redis *s, struct sr_client *c)
{
    sr_pubsub_leave_all(s, c);
    c->closing = true;
}

/* Only "CLIENT KILL ID n [SKIPME yes|no]". */
void sr_cmd_client_kill(struct sim_redis *s, struct sr_client *c)
{
    long long id = 0;
    bool skipme = true;
    if (c->argc == 3) {
        sr_err(c, "No such client");
        return;
    }
    for (int j = 2; j < c->argc; j += 2) {
        bool more = j + 1 < c->argc;
        if (sr_is(&c->argv[j], "id") && more) {
            if (!sr_parse_ll(c->argv[j + 1].ptr, c->argv[j + 1].len, &id) ||
                id < 1) {
                sr_err(c, "client-id should be greater than 0");
                return;
            }
        } else if (sr_is(&c->argv[j], "skipme") && more) {
            skipme = sr_is(&c->argv[j + 1], "yes");
            if (!skipme && !sr_is(&c->argv[j + 1], "no")) {
                sr_err_syntax(c);
                return;
            }
        } else {
            sr_err_syntax(c);
            return;
        }
    }
    long long n = 0;
    for (int i = 0; i < s->n_clients; i++) {
        struct sr_client *o = s->clients[i];
        if (o == NULL || o->closing || (id != 0 && o->id != id) ||
            (skipme && o == c)) {
            continue;
        }
        kill(s, o);
        n++;
    }
    sr_int(c, n);
}

void sr_cmd_client_list(struct sim_redis *s, struct sr_client *c)
{
    struct sr_buf b = {0};
    for (int i = 0; i < s->n_clients; i++) {
        const struct sr_client *o = s->clients[i];
        if (o == NULL) {
            continue;
        }
        char text[160];
        int n =
            snprintf(text, sizeof text,
                     "id=%d addr=127.0.0.1:%d name=%.64s db=%d sub=%u "
                     "psub=%u resp=%d\n",
                     o->id, 10000 + o->id, o->name == NULL ? "" : o->name->p,
                     o->db, o->channels.live, o->patterns.live, o->resp);
        sr_buf_add(&b, text, (size_t)n);
    }
    sr_bulk(c, b.p, b.len);
    sr_buf_free(&b);
}
