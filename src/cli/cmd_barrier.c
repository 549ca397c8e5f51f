/* cmd_barrier.c — snib barrier -n N NAME: wait until N are here, pass together.
 *
 * A party that waits in the queue counts as long as it lives, so nothing has to
 * be set up before or cleaned up after, and the next N meet at the same name.
 */
#include "cli/cli.h"
#include "cli/holder/selfwait.h"
#include "cli/store/pass.h"
#include "cli/words/show.h"

#include <string.h>

static int cmd_barrier_check(const struct cli_args *args)
{
    if (args->parties < 1) {
        return usage_error(args, args->parties < 0
                                     ? "--parties N is missing: how many pass "
                                       "together?"
                                     : "--parties: expected 1 or more, not 0");
    }
    if (args->busy_ok && args->busy_exit >= 0) {
        return usage_error(args,
                           "--busy-ok and --busy-exit exclude each other");
    }
    return CLI_OK;
}

int cmd_barrier(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    const char *name = operands[0];
    int64_t generation = 0;
    json_t *object;
    int code = cli_check_name(args, name);

    (void)count;
    if (code != CLI_OK || (code = cmd_barrier_check(args)) != CLI_OK) {
        return code;
    }
    pass_block_signals();
    if ((code = cli_open(args, &client)) != CLI_OK ||
        (code = selfwait_check(args, client, name, SNIB_KIND_BARRIER)) !=
            CLI_OK) {
        return code;
    }
    code =
        pass_through(args, client, name, (uint32_t)args->parties, &generation);
    if (code != CLI_OK || generation == 0 || !args->json) {
        return code;
    }
    object = show_json_answer();
    show_json_name(object, name, strlen(name));
    json_object_set_new(object, "parties", json_integer(args->parties));
    json_object_set_new(object, "generation", json_integer(generation));
    show_json_print(object);
    return show_end();
}
