/*
 * multi.c — MULTI, EXEC, DISCARD (no WATCH)
 *
 * Commands are checked when queued (a refusal poisons the transaction) and
 * executed by EXEC without the checks that depend on the server's state,
 * except ACL; EXEC itself is judged by the sum of the queued flags.
 */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

void sr_multi_discard(struct sr_client *c)
{
    for (int i = 0; i < c->queued; i++) {
        free(c->queue[i].argv);
    }
    c->queued = 0;
    c->queue_flags = 0;
    c->queue_inv = 0;
    c->multi = false;
    c->multi_dirty = false;
}

void sr_multi_queue(struct sr_client *c)
{
    if (c->multi_dirty) {
        return;
    }
    if (c->queued == c->queue_cap) {
        c->queue_cap = c->queue_cap == 0 ? 4 : c->queue_cap * 2;
        c->queue =
            sr_realloc(c->queue, (size_t)c->queue_cap * sizeof *c->queue);
    }
    size_t bytes = 0;
    for (int i = 0; i < c->argc; i++) {
        bytes += c->argv[i].len + 1;
    }
    size_t head = (size_t)c->argc * sizeof *c->argv;
    struct sr_queued *q = &c->queue[c->queued++];
    q->cmd = c->cmd;
    q->argc = c->argc;
    q->argv = sr_alloc(head + bytes);
    char *p = (char *)q->argv + head;
    for (int i = 0; i < c->argc; i++) {
        memcpy(p, c->argv[i].ptr, c->argv[i].len);
        p[c->argv[i].len] = '\0';
        q->argv[i].ptr = p;
        q->argv[i].len = c->argv[i].len;
        p += c->argv[i].len + 1;
    }
    c->queue_flags |= c->cmd->flags;
    c->queue_inv |= ~c->cmd->flags;
}

void sr_multi_abort(struct sr_client *c, const char *why)
{
    sr_multi_discard(c);
    sr_err(c, "-EXECABORT Transaction discarded because of: %s",
           why[0] == '-' ? why + 1 : why);
}

void sr_cmd_multi(struct sim_redis *s, struct sr_client *c)
{
    (void)s;
    if (c->multi) {
        sr_err(c, "MULTI calls can not be nested");
        return;
    }
    c->multi = true;
    sr_ok(c);
}

void sr_cmd_discard(struct sim_redis *s, struct sr_client *c)
{
    (void)s;
    if (!c->multi) {
        sr_err(c, "DISCARD without MULTI");
        return;
    }
    sr_multi_discard(c);
    sr_ok(c);
}

static const char *acl_reason(enum sr_acl acl)
{
    switch (acl) {
    case SR_ACL_CMD:
        return "no permission to execute the command or subcommand";
    case SR_ACL_KEY:
        return "no permission to touch the specified keys";
    case SR_ACL_CHANNEL:
        return "no permission to access one of the channels used as "
               "arguments";
    case SR_ACL_OK:
        break;
    }
    return "no permission";
}

static void exec_one(struct sim_redis *s, struct sr_client *c)
{
    enum sr_acl acl = sr_acl_check(s, c);
    if (acl != SR_ACL_OK) {
        sr_err(c,
               "-NOPERM ACLs rules changed between the moment the "
               "transaction was accumulated and the EXEC call. This command "
               "is no longer allowed for the following reason: %s",
               acl_reason(acl));
        return;
    }
    sr_call(s, c, false, c->id);
}

void sr_cmd_exec(struct sim_redis *s, struct sr_client *c)
{
    if (!c->multi) {
        sr_err(c, "EXEC without MULTI");
        return;
    }
    if (c->multi_dirty) {
        sr_raw(c, "-EXECABORT Transaction discarded because of previous "
                  "errors.\r\n");
        sr_multi_discard(c);
        return;
    }
    struct sim_redis_arg *argv = c->argv;
    int argc = c->argc;
    const struct sr_cmd *cmd = c->cmd;
    s->in_exec = true;
    sr_array(c, (size_t)c->queued);
    for (int i = 0; i < c->queued; i++) {
        c->argv = c->queue[i].argv;
        c->argc = c->queue[i].argc;
        c->cmd = c->queue[i].cmd;
        exec_one(s, c);
    }
    s->in_exec = false;
    c->argv = argv;
    c->argc = argc;
    c->cmd = cmd;
    sr_multi_discard(c);
}
