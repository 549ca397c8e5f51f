/* cmd_release.c — snib release TOKENFILE|GRANT.
 *
 * 0: released; 69: the store has not answered, the holder repeats it; 76: the
 * grant had ended before.
 */
#define _GNU_SOURCE
#include "cli/holder/detached.h"
#include "cli/holder/grantfile.h"

#include <time.h>

static void cmd_release_say_later(const struct cli_args *args,
                                  const struct grantfile *g)
{
    if (!args->quiet) {
        say("%s: is released when the commands of snib run --reentrant that "
            "run "
            "under it have ended",
            shown(g->name));
    }
}

/* Commands that run under the lock have to end first. Then the holder has told
 * it as the result, or has ended, if this process was too slow to ask again. A
 * holder answers and never speaks first, and its end would come after the
 * answer that is wanted: there is nothing to wait on but an answer. So it is
 * asked again and again, while such a command ends. */
static int cmd_release_ask(const struct cli_args *args,
                           const struct grantfile *g,
                           const struct control_request *request,
                           struct control_reply *reply,
                           enum grantfile_answer *ret_by)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    bool later = false;

    for (;;) {
        int code = grantfile_ask(g, request, reply, ret_by);

        if (later && code == CLI_LOST && *ret_by == GRANTFILE_GONE) {
            return CLI_OK;
        }
        if (code != CLI_OK || reply->deadline_ns == 0) {
            return code;
        }
        if (!later) {
            cmd_release_say_later(args, g);
        }
        later = true;
        nanosleep(&pause, NULL);
    }
}

int cmd_release(struct cli_args *args, int count, char **operands)
{
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_RELEASE};
    struct control_reply reply = {0};
    struct grantfile grant;
    enum grantfile_answer by;
    int code;

    (void)count;
    if (!grantfile_read(args, operands[0], &grant)) {
        return CLI_USAGE;
    }
    if (grant.no_holder) {
        return detached_release(args, &grant);
    }
    request.token = grant.token;
    code = cmd_release_ask(args, &grant, &request, &reply, &by);
    if (code == CLI_LOST) {
        grantfile_say_lost(args, &grant, by, reply.text);
    }
    return code;
}
