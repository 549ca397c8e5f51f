/*
 * access.c — who has to authenticate, and what the ACL forbids
 */
#include "internal.h"

#include <string.h>

bool sr_auth_required(const struct sim_redis *s)
{
    return s->password != NULL || (s->faults & SIM_REDIS_NOAUTH) != 0;
}

static bool denied_by_name(const struct sim_redis *s, const struct sr_cmd *cmd)
{
    for (int i = 0; i < s->n_deny; i++) {
        size_t n = strlen(s->deny[i]);
        if (strncmp(cmd->name, s->deny[i], n) == 0 &&
            (cmd->name[n] == '\0' || cmd->name[n] == '|')) {
            return true;
        }
    }
    return false;
}

enum sr_acl sr_acl_check(const struct sim_redis *s, const struct sr_client *c)
{
    if (s->faults == 0 && s->n_deny == 0) {
        return SR_ACL_OK;
    }
    /* Commands flagged NO_AUTH pass every ACL. */
    if ((c->cmd->flags & SR_NO_AUTH) != 0) {
        return SR_ACL_OK;
    }
    if ((s->faults & SIM_REDIS_NOPERM) != 0 || denied_by_name(s, c->cmd)) {
        return SR_ACL_CMD;
    }
    if ((s->faults & SIM_REDIS_NOPERM_KEY) != 0 &&
        sr_has_keys(c->cmd, c->argv, c->argc)) {
        return SR_ACL_KEY;
    }
    if ((s->faults & SIM_REDIS_NOPERM_CHANNEL) != 0 &&
        (c->cmd->flags & SR_CHANNELS) != 0) {
        return SR_ACL_CHANNEL;
    }
    return SR_ACL_OK;
}
