/*
 * call.c — a command is run: at top level, and by redis.call in a script
 *
 * Commands in a script are judged one by one, as they are called. The rule
 * that lock scripts live by: once a first write was let through, neither
 * memory, disk, replicas nor the replica's read-only state can refuse a later
 * one, so a script that begins with a removing write (not deny-oom) finishes
 * at maxmemory.
 */
#include "internal.h"

#include <string.h>

void sr_call(struct sim_redis *s, struct sr_client *c, bool in_script, int conn)
{
    size_t before = c->out.len;
    int64_t written = s->written;
    int db = c->db;
    const struct sr_cmd *cmd = c->cmd;
    struct sim_redis_arg *argv = c->argv;
    int argc = c->argc;
    s->script_ran = false;
    cmd->proc(s, c);
    if ((cmd->flags & SR_WRITE) != 0 && c->out.len > before &&
        c->out.p[before] != '-') {
        s->written++;
    }
    if (s->written != written) {
        c->wrote = s->written;
    }
    if (s->hook == NULL) {
        return;
    }
    struct sim_redis_event ev = {
        .conn = conn,
        .db = db,
        .in_script = in_script,
        .script = s->script_ran,
        .wall_us = s->now_us,
        .name = cmd->name,
        .argc = argc,
        .argv = argv,
        .reply = c->out.p == NULL ? "" : c->out.p + before,
        .reply_len = c->out.len - before,
    };
    s->hook(s->hook_user, &ev);
}

/* ---- in a script -------------------------------------------------------- */

static const char *acl_text(enum sr_acl acl)
{
    switch (acl) {
    case SR_ACL_CMD:
        return "The user executing the script can't run this command or "
               "subcommand";
    case SR_ACL_KEY:
        return "The user executing the script can't access at least one of "
               "the keys mentioned in the command arguments";
    case SR_ACL_CHANNEL:
        return "The user executing the script can't publish to the channel "
               "mentioned in the command";
    case SR_ACL_OK:
        break;
    }
    return NULL;
}

/* The checks of Redis' scriptCall, in its order; NULL: go ahead. */
static const char *refusal(struct sr_run *run, struct sr_client *c)
{
    unsigned f = run->srv->faults;
    unsigned cf = c->cmd->flags;
    bool replica = (f & (SIM_REDIS_READONLY | SIM_REDIS_MASTERDOWN)) != 0;
    if ((cf & SR_NOSCRIPT) != 0) {
        return "This Redis command is not allowed from script";
    }
    if ((f & SIM_REDIS_MASTERDOWN) != 0 && (cf & SR_STALE_OK) == 0) {
        return "Can not execute the command on a stale replica";
    }
    const char *acl = acl_text(sr_acl_check(run->srv, c));
    if (acl != NULL) {
        return acl;
    }
    if ((cf & SR_WRITE) != 0 && !run->dirty) {
        if (replica) {
            return SR_TXT_READONLY;
        }
        if ((f & SIM_REDIS_MISCONF) != 0) {
            return SR_TXT_MISCONF;
        }
        if ((f & SIM_REDIS_NOREPLICAS) != 0) {
            return SR_TXT_NOREPLICAS;
        }
    }
    if (!run->dirty && run->srv->oom_now && (cf & SR_DENYOOM) != 0) {
        return SR_TXT_OOM;
    }
    return NULL;
}

void sr_script_call(struct sr_run *run, const char **err)
{
    struct sim_redis *s = run->srv;
    struct sr_client *c = &s->script_client;
    *err = NULL;
    c->cmd = sr_cmd_lookup(&s->lua->commands, c->argv, c->argc);
    if (c->cmd == NULL || strcmp(c->cmd->name, s->renamed) == 0) {
        *err = "Unknown Redis command called from script";
        return;
    }
    if (!sr_cmd_arity_ok(c->cmd, c->argc)) {
        *err = "Wrong number of args calling Redis command from script";
        return;
    }
    *err = refusal(run, c);
    if (*err != NULL) {
        return;
    }
    if ((c->cmd->flags & SR_WRITE) != 0) {
        run->dirty = true;
    }
    c->out.len = 0;
    sr_call(s, c, true, run->caller->id);
}
