/* cmd_acquire.c — snib acquire NAME, for scripts and unit files.
 *
 * It uses the same code as run, without a command. When the grant arrives, it
 * is printed, and the holder goes on alone (in a session of its own, with none
 * of the caller's descriptors: `X=$(snib acquire n)` returns). The holder holds
 * the lock until snib release, until --holder-pid ends, or until the lease is
 * lost. If this process dies before the grant is printed, or cannot print it,
 * the holder releases: nobody holds a lock that nobody knows of. "Released
 * again" is said only after the holder has done so.
 *
 * With --detached the holder does not go on: once the grant is printed it
 * leaves the (fixed) lease in the store and ends. The grant then names the
 * owner, the request and the token, and release, renew and check ask the store
 * (detached.c).
 */
#define _GNU_SOURCE
#include "cli/acquire_sh.h"
#include "cli/holder/grantfile.h"
#include "cli/holder/selfwait.h"
#include "cli/supervisor/proc.h"
#include "cli/supervisor/supervisor.h"
#include "cli/words/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int cmd_acquire_open_holder(struct plan *plan)
{
    const struct cli_args *args = plan->args;

    if (args->holder_pid < 0) {
        return CLI_OK;
    }
    if (args->holder_pid == 0) {
        return usage_error(args, "--holder-pid: 0 is no process");
    }
    plan->holder_pidfd =
        (int)syscall(SYS_pidfd_open, (pid_t)args->holder_pid, 0);
    if (plan->holder_pidfd < 0) {
        return usage_error(args, "--holder-pid %" PRId64 ": %s",
                           args->holder_pid, strerror(errno));
    }
    return CLI_OK;
}

/* Wait for the holder's message that all is given back; false: it did not come
 * in time. The holder goes on trying when this process is gone. */
static bool cmd_acquire_given_back(const struct plan *plan, int socket)
{
    struct plan_message m = {.kind = PLAN_RELEASE};
    int64_t until = proc_now() + plan->rules.request, left;
    struct pollfd p = {.fd = socket, .events = POLLIN};

    if (TEMP_FAILURE_RETRY(send(socket, &m, sizeof m, MSG_NOSIGNAL)) < 0) {
        return false;
    }
    while ((left = until - proc_now()) > 0) {
        enum plan_heard heard;

        if (poll(&p, 1, (int)(left / SUPERVISOR_MS) + 1) <= 0) {
            continue;
        }
        heard = plan_hear(socket, &m);
        if (heard == PLAN_HEARD && m.kind == PLAN_RELEASED) {
            return true;
        }
        if (heard == PLAN_ENDED) {
            return false;
        }
    }
    return false;
}

/* The grant could not be handed out: say what becomes of the lock, once that is
 * known. */
static const char *cmd_acquire_outcome(const struct plan *plan, int socket)
{
    return cmd_acquire_given_back(plan, socket)
               ? "released again"
               : "not released yet: the store has not confirmed it; the lock "
                 "is free when its lease ends, at the latest";
}

static int cmd_acquire_print_grant(const struct plan *plan,
                                   const struct plan_page *page,
                                   const struct grantfile *g)
{
    char grant[GRANT_TEXT_MAX], line[GRANT_TEXT_MAX * 2] = "";
    struct text t = TEXT_IN(line);

    grantfile_text(g, grant);
    if (plan->args->json) {
        /* Every value is plain ASCII: nothing to escape. */
        text_add(&t, "{\"schema\":1,\"grant\":\"");
        text_add(&t, grant);
        text_add(&t, "\",");
        text_addf(&t, "\"token\":%" PRId64 ",\"owner\":\"%s\",", g->token,
                  page->client_id);
        if (page->permit_slots[0] >= 0) {
            text_addf(&t, "\"slot\":%" PRId64 ",", page->permit_slots[0]);
        }
        text_addf(&t, "\"keeper\":%s}\n", g->no_holder ? "false" : "true");
    } else {
        text_add(&t, grant);
        text_add(&t, "\n");
    }
    return text_write(1, line, t.used);
}

static int cmd_acquire_print_sh(const struct plan *plan,
                                const struct plan_page *page,
                                const struct grantfile *g)
{
    struct text t = {.size = acquire_sh_size()};
    int error = ENOMEM;

    t.bytes = calloc(1, t.size);
    if (t.bytes != NULL && acquire_sh_text(&t, plan, page, g)) {
        error = text_write(1, t.bytes, t.used);
    }
    free(t.bytes);
    return error;
}

/* False: it said why. */
static bool cmd_acquire_let_go(int socket)
{
    struct plan_message detach = {.kind = PLAN_DETACH};

    if (TEMP_FAILURE_RETRY(send(socket, &detach, sizeof detach, MSG_NOSIGNAL)) <
        0) {
        say("the holder process, which talks to the store, died; the lock is "
            "free when its lease ends");
        return false;
    }
    return true;
}

static int cmd_acquire_hand_out(const struct plan *plan,
                                const struct plan_page *page, int socket)
{
    const char *path = plan->args->token_file;
    struct grantfile g;
    int error = 0;

    if (plan->args->no_holder) {
        grantfile_of_detached(plan, page, &g);
    } else {
        grantfile_of(plan, page, &g);
    }
    if (page->address[0] == '\0' && !g.no_holder) {
        say("the holder process, which talks to the store, cannot listen; %s",
            cmd_acquire_outcome(plan, socket));
        return CLI_INTERNAL;
    }
    if (g.boot[0] == '\0' || (!g.no_holder && g.holder_start == 0)) {
        /* Without these no other command would accept the grant. */
        say("cannot read from /proc which boot and process this is; %s",
            cmd_acquire_outcome(plan, socket));
        return CLI_INTERNAL;
    }
    if (path != NULL && (error = grantfile_write(path, &g, plan, page)) != 0) {
        say("--token-file %s: %s; %s", shown(path), grantfile_error(error),
            cmd_acquire_outcome(plan, socket));
        return grantfile_exit(error);
    }
    if (plan->args->sh) {
        error = cmd_acquire_print_sh(plan, page, &g);
    } else if (path == NULL || plan->args->json) {
        error = cmd_acquire_print_grant(plan, page, &g);
    }
    if (error != 0) {
        say("cannot write the grant to stdout: %s; %s", strerror(error),
            cmd_acquire_outcome(plan, socket));
    }
    if (error != 0 || !cmd_acquire_let_go(socket)) {
        if (path != NULL) {
            grantfile_remove(path, &g);
        }
        return error != 0 ? CLI_INTERNAL : CLI_UNREACHABLE;
    }
    return CLI_OK;
}

/* Nothing else reminds of it: the script may end, and the lock stays. (Inside a
 * snib run its holder process is ended with all that the command leaves
 * behind.) */
static void cmd_acquire_say_until_when(const struct plan *plan)
{
    const struct cli_args *a = plan->args;

    if (!a->quiet && !a->sh && !a->no_holder && a->holder_pid < 0) {
        say("%s: held until snib release, %s; --holder-pid PID or "
            "t=$(snib acquire --sh NAME) && eval \"$t\" ties it to a process",
            shown(plan->names[0]),
            selfwait_is_inside_run()
                ? "at most until the snib run around this script ends"
                : "also after the end of this script");
    }
}

/* The text for the shell must say whether there is a lock, and tie it. */
static int cmd_acquire_check_sh(const struct cli_args *args)
{
    const char *other = args->json                 ? "--json"
                        : args->token_file != NULL ? "--token-file"
                        : args->no_holder          ? "--detached"
                        : args->holder_pid >= 0    ? "--holder-pid"
                                                   : NULL;

    if (!args->sh) {
        return CLI_OK;
    }
    if (other != NULL) {
        return usage_error(args,
                           "--sh and %s exclude each other: the text "
                           "that --sh prints ties the lock to the shell "
                           "that evaluates it",
                           other);
    }
    if (args->busy_ok || args->busy_exit == 0) {
        return usage_error(args,
                           "--sh and %s exclude each other: the script "
                           "would go on without the lock",
                           args->busy_ok ? "--busy-ok" : "--busy-exit 0");
    }
    return CLI_OK;
}

static int cmd_acquire_check_no_holder(const struct cli_args *args)
{
    if (args->no_holder && args->ttl_ms == CLI_UNSET) {
        return usage_error(args, "--detached needs --ttl: nothing renews the "
                                 "lease, it must be as long as the work");
    }
    if (args->no_holder && args->holder_pid >= 0) {
        return usage_error(
            args, "--detached and --holder-pid exclude each other: with "
                  "--detached no holder process is left to watch a pid");
    }
    return CLI_OK;
}

/* Before anything is acquired: could the grant be handed out at all? */
static int cmd_acquire_check_outlet(const struct cli_args *args)
{
    int flags = fcntl(1, F_GETFL), error;

    if (args->token_file != NULL &&
        (error = grantfile_place(args->token_file)) != 0) {
        say("--token-file %s: %s; nothing was acquired",
            shown(args->token_file), grantfile_error(error));
        return CLI_CONFIG;
    }
    if ((args->token_file == NULL || args->json) &&
        (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)) {
        say("stdout is closed, the grant could not be handed out; nothing was "
            "acquired (-o PATH writes it to a file)");
        return CLI_INTERNAL;
    }
    return CLI_OK;
}

int cmd_acquire(struct cli_args *args, int count, char **operands)
{
    static struct plan plan;
    struct plan_page *page = NULL;
    int socket = -1, code, error;

    (void)count;
    if ((code = cmd_acquire_check_no_holder(args)) != CLI_OK ||
        (code = cmd_acquire_check_sh(args)) != CLI_OK ||
        (code = cmd_acquire_check_outlet(args)) != CLI_OK) {
        return code;
    }
    args->on_lost = SUPERVISOR_LOST_IGNORE; /* there is no command to stop */
    code = plan_make(&plan, args, (const char **)operands, 1, NULL);
    if (code != CLI_OK || (code = cmd_acquire_open_holder(&plan)) != CLI_OK) {
        return code;
    }
    plan.program = args->no_holder ? "snib acquire --detached" : "snib acquire";
    /* If this process is killed while it waits, the text so far must be no
     * success. */
    if (args->sh && (error = text_write(1, "! :\n", 4)) != 0) {
        say("cannot write to stdout: %s; nothing was acquired",
            strerror(error));
        return CLI_INTERNAL;
    }
    code = supervisor_run(&plan, &page, &socket);
    if (code != CLI_OK || page == NULL) {
        return code;
    }
    if ((code = cmd_acquire_hand_out(&plan, page, socket)) != CLI_OK) {
        return code;
    }
    cmd_acquire_say_until_when(&plan);
    return CLI_OK;
}
