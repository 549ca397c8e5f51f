/*
 * gate.c — who may run what, and when
 *
 * The order of these checks is Redis' processCommand and matters: a client
 * that speaks to a loading replica without a password is told NOAUTH, not
 * LOADING. Inside scripts other, fewer checks hold (call.c). OOM is looked
 * at once, when the outer command starts.
 */
#include "internal.h"

#include <stdio.h>
#include <string.h>

/* ---- refusing ---------------------------------------------------------- */

static void reject(struct sr_client *c, const char *text)
{
    c->multi_dirty = c->multi;
    if (strcmp(c->cmd->name, "exec") == 0) {
        sr_multi_abort(c, text);
        return;
    }
    sr_err(c, "%s", text);
}

/* "unknown command 'x', with args beginning with: 'a' 'b' " and its like. */
static void reject_unknown(struct sim_redis *s, struct sr_client *c)
{
    char text[512];
    if (sr_cmd_is_container(&s->lua->commands, &c->argv[0])) {
        char upper[32];
        size_t n = 0;
        for (const char *p = c->argv[0].ptr; *p != '\0' && n < 31; p++) {
            upper[n++] = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
        }
        upper[n] = '\0';
        snprintf(text, sizeof text, "unknown subcommand '%.128s'. Try %s HELP.",
                 c->argv[1].ptr, upper);
    } else {
        size_t n = (size_t)snprintf(
            text, sizeof text,
            "unknown command '%.128s', with args beginning with: ",
            c->argv[0].ptr);
        size_t args = 0;
        for (int i = 1; i < c->argc && args < 128; i++) {
            int w = snprintf(text + n, sizeof text - n, "'%.*s' ",
                             (int)(128 - args), c->argv[i].ptr);
            n += (size_t)w;
            args += (size_t)w;
        }
    }
    /* Redis maps every line break to a blank here, the last ones too. */
    for (char *p = text; *p != '\0'; p++) {
        if (*p == '\r' || *p == '\n') {
            *p = ' ';
        }
    }
    if (c->multi) {
        c->multi_dirty = true;
    }
    sr_err_bytes(c, text, strlen(text));
}

static bool refused_by_acl(struct sim_redis *s, struct sr_client *c)
{
    char text[160];
    switch (sr_acl_check(s, c)) {
    case SR_ACL_OK:
        return false;
    case SR_ACL_CMD:
        snprintf(text, sizeof text,
                 "-NOPERM this user has no permissions to run the '%s' "
                 "command",
                 c->cmd->name);
        reject(c, text);
        break;
    case SR_ACL_KEY:
        reject(c, "-NOPERM this user has no permissions to access one of the "
                  "keys used as arguments");
        break;
    case SR_ACL_CHANNEL:
        reject(c, "-NOPERM this user has no permissions to access one of the "
                  "channels used as arguments");
        break;
    }
    return true;
}

/* ---- state of the server ----------------------------------------------- */

static bool refused_by_state(struct sim_redis *s, struct sr_client *c)
{
    /* EXEC answers for all that is queued. */
    bool exec = c->multi && strcmp(c->cmd->name, "exec") == 0;
    unsigned own = c->cmd->flags;
    unsigned flags = own | (exec ? c->queue_flags : 0);
    unsigned missing = ~own | (exec ? c->queue_inv : 0);
    unsigned f = s->faults;
    bool write = (flags & SR_WRITE) != 0;
    bool masterdown = (f & SIM_REDIS_MASTERDOWN) != 0;
    bool replica = masterdown || (f & SIM_REDIS_READONLY) != 0;
    char text[160];

    bool busy = (f & SIM_REDIS_BUSY) != 0;
    if (!busy) {
        /* replica-ignore-maxmemory is on by default. */
        bool oom = (f & SIM_REDIS_OOM) != 0 && !replica;
        bool queueing = c->multi && ((c->cmd->flags & SR_NOQUEUE) == 0 ||
                                     strcmp(c->cmd->name, "multi") == 0);
        if (oom && (queueing || (flags & SR_DENYOOM) != 0)) {
            reject(c, SR_TXT_OOM);
            return true;
        }
        s->oom_now = oom;
    }
    if ((f & SIM_REDIS_MISCONF) != 0 &&
        (write || (c->cmd->flags & SR_PING) != 0)) {
        reject(c, SR_TXT_MISCONF);
        return true;
    }
    if ((f & SIM_REDIS_NOREPLICAS) != 0 && write && !replica) {
        reject(c, SR_TXT_NOREPLICAS);
        return true;
    }
    if (replica && write) {
        reject(c, SR_TXT_READONLY);
        return true;
    }
    if (c->channels.live > 0 && (c->cmd->flags & SR_SUBCTX) == 0) {
        snprintf(text, sizeof text,
                 "Can't execute '%s': only (P|S)SUBSCRIBE / "
                 "(P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
                 "context",
                 c->cmd->name);
        reject(c, text);
        return true;
    }
    if (masterdown && (missing & SR_STALE_OK) != 0) {
        reject(c, SR_TXT_MASTERDOWN);
        return true;
    }
    if ((f & SIM_REDIS_LOADING) != 0 && (missing & SR_LOADING_OK) != 0) {
        reject(c, SR_TXT_LOADING);
        return true;
    }
    if (busy && (c->cmd->flags & SR_ALLOW_BUSY) == 0) {
        reject(c, SR_TXT_BUSY);
        return true;
    }
    return false;
}

void sr_process(struct sim_redis *s, struct sr_client *c)
{
    c->cmd = sr_cmd_lookup(&s->lua->commands, c->argv, c->argc);
    if (c->cmd == NULL || strcmp(c->cmd->name, s->renamed) == 0) {
        reject_unknown(s, c);
        return;
    }
    if (!sr_cmd_arity_ok(c->cmd, c->argc)) {
        char text[128];
        snprintf(text, sizeof text,
                 "wrong number of arguments for '%s' command", c->cmd->name);
        reject(c, text);
        return;
    }
    if (!c->authed && (c->cmd->flags & SR_NO_AUTH) == 0 &&
        sr_auth_required(s)) {
        reject(c, SR_TXT_NOAUTH);
        return;
    }
    if (refused_by_acl(s, c)) {
        return;
    }
    s->oom_now = false;
    if ((s->faults != 0 || c->channels.live > 0) && refused_by_state(s, c)) {
        return;
    }
    if (c->multi && (c->cmd->flags & SR_NOQUEUE) == 0) {
        sr_multi_queue(c);
        sr_raw(c, "+QUEUED\r\n");
        return;
    }
    sr_call(s, c, false, c->id);
}
