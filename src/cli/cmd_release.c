/* cmd_release.c — snib release TOKENFILE|GRANT.
 *
 * 0: released; 69: the store has not answered, the holder repeats it; 76: the
 * lease had ended before.
 */
#include "cli/holder/detached.h"
#include "cli/holder/grantfile.h"

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
    code = grantfile_ask(&grant, &request, &reply, &by);
    if (code == CLI_LOST) {
        grantfile_say_lost(args, &grant, by, reply.text);
    }
    return code;
}
