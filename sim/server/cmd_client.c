/*
 * cmd_client.c — a connection and who is behind it
 */
#include "commands.h"

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
        } else {
            sr_err(c, "Syntax error in HELLO option '%s'", c->argv[j].ptr);
            return false;
        }
    }
    return true;
}

void sr_cmd_hello(struct sim_redis *s, struct sr_client *c)
{
    long long version;
    if (c->argc >= 2) {
        if (!sr_parse_ll(c->argv[1].ptr, c->argv[1].len, &version)) {
            sr_err(c, "Protocol version is not an integer or out of range");
            return;
        }
        if (version != 2) {
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
    bool replica =
        (s->faults & (SIM_REDIS_READONLY | SIM_REDIS_MASTERDOWN)) != 0;
    sr_array(c, 14);
    sr_bulk_cstr(c, "server");
    sr_bulk_cstr(c, "redis");
    sr_bulk_cstr(c, "version");
    sr_bulk_cstr(c, "7.0.15");
    sr_bulk_cstr(c, "proto");
    sr_int(c, 2);
    sr_bulk_cstr(c, "id");
    sr_int(c, c->id);
    sr_bulk_cstr(c, "mode");
    sr_bulk_cstr(c, "standalone");
    sr_bulk_cstr(c, "role");
    sr_bulk_cstr(c, replica ? "replica" : "master");
    sr_bulk_cstr(c, "modules");
    sr_array(c, 0);
}

void sr_cmd_client_id(struct sim_redis *s, struct sr_client *c)
{
    (void)s;
    sr_int(c, c->id);
}

/* Redis kills at once; the peer still reads what it had been sent. */
static void kill(struct sim_redis *s, struct sr_client *c)
{
    sr_pubsub_leave_all(s, c);
    c->closing = true;
}

/* The options of CLIENT KILL, of which there are ID and SKIPME here. */
static bool kill_options(struct sr_client *c, long long *id, bool *skipme)
{
    for (int j = 2; j < c->argc; j += 2) {
        const struct sim_redis_arg *v = &c->argv[j + 1];
        bool more = j + 1 < c->argc;
        if (sr_is(&c->argv[j], "id") && more) {
            if (!sr_parse_ll(v->ptr, v->len, id) || *id < 1) {
                sr_err(c, "client-id should be greater than 0");
                return false;
            }
            continue;
        }
        *skipme = more && sr_is(v, "yes");
        if (!sr_is(&c->argv[j], "skipme") || !more ||
            (!*skipme && !sr_is(v, "no"))) {
            sr_err_syntax(c);
            return false;
        }
    }
    return true;
}

void sr_cmd_client_kill(struct sim_redis *s, struct sr_client *c)
{
    long long id = 0;
    bool skipme = true;
    if (c->argc == 3) {
        sr_err(c, "No such client");
        return;
    }
    if (!kill_options(c, &id, &skipme)) {
        return;
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
