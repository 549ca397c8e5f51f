/* cmd_renew.c — snib renew TOKENFILE|GRANT: extend the lease now. The holder
 * renews by itself; this is for a longer lease, or to be sure of one. */
#include "cli/acquire_sh.h"
#include "cli/holder/detached.h"
#include "cli/holder/grantfile.h"
#include "cli/supervisor/proc.h"
#include "cli/words/duration.h"

#include <inttypes.h>
#include <stdio.h>

/* --holder-pid: from here on the grant ends with that process. */
static int cmd_renew_tie(const struct cli_args *args,
                         const struct grantfile *grant,
                         struct control_request *request)
{
    if (grant->no_holder || args->holder_pid == 0) {
        return usage_error(args, "--holder-pid: %s",
                           grant->no_holder
                               ? "a grant of --detached has no holder process "
                                 "to watch a pid"
                               : "0 is no process");
    }
    if (!grantfile_counts_pids_alike(grant)) {
        return usage_error(args,
                           "--holder-pid: the holder process is of another "
                           "container (pid namespace), where %" PRId64
                           " is another process; renew works without it",
                           args->holder_pid);
    }
    request->verb = CONTROL_TIE;
    request->holder_pid = args->holder_pid;
    return CLI_OK;
}

int cmd_renew(struct cli_args *args, int count, char **operands)
{
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_RENEW};
    struct control_reply reply = {0};
    struct grantfile grant;
    enum grantfile_answer by = GRANTFILE_ANSWERED;
    char given[DURATION_TEXT_MAX];
    int code;

    (void)count;
    if (args->ttl_ms != CLI_UNSET) {
        if (args->ttl_ms < SNIB_LEASE_MIN_MS ||
            args->ttl_ms > SNIB_LEASE_MAX_MS) {
            return usage_error(args, "--ttl must be from 50ms to 24h, not %s",
                               duration_exact(args->ttl_ms, given));
        }
        request.lease_ms = args->ttl_ms;
    }
    if (!grantfile_read(args, operands[0], &grant)) {
        return CLI_USAGE;
    }
    if (args->holder_pid >= 0) {
        code = cmd_renew_tie(args, &grant, &request);
        if (code != CLI_OK) {
            return code;
        }
    }
    request.token = grant.token;
    if (grant.no_holder) {
        reply.token = grant.token;
        code = left_renew(args, &grant, request.lease_ms, &reply.deadline_ns);
    } else {
        code = grantfile_ask(&grant, &request, &reply, &by);
    }
    if (code == CLI_LOST && !grant.no_holder) {
        grantfile_say_lost(args, &grant, by, reply.text);
        if (args->holder_pid > 0 && by == GRANTFILE_GONE) {
            say("too late? the text of snib acquire --sh is good for 10s; "
                "after that the lock is released");
        }
    }
    if (code == CLI_OK && request.verb == CONTROL_TIE) {
        acquire_sh_end_lost(&grant, reply.store, request.holder_pid);
    }
    if (code == CLI_OK && args->json) {
        printf("{\"schema\":1,\"token\":%" PRId64 ",\"left_ms\":%" PRId64 "}\n",
               reply.token, (reply.deadline_ns - proc_now()) / SUPERVISOR_MS);
    }
    return code;
}
