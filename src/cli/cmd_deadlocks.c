/* cmd_deadlocks.c — snib deadlocks: who waits in a circle. Exit 1 means that
 * there are some, as for grep and diff, whose status says what they found. */
#include "cli/cli.h"
#include "cli/words/show.h"
#include "cli/words/why.h"

#include <stdio.h>

enum { FOUND = 1 };

static void cmd_deadlocks_print_json(struct snib_cycle **cycles, size_t count)
{
    json_t *object = show_json_answer(), *array = json_array();

    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array, why_json_cycle(cycles[i]));
    }
    json_object_set_new(object, "deadlocks", array);
    show_json_print(object);
}

int cmd_deadlocks(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    struct snib_error error = {0};
    struct snib_cycle **cycles;
    size_t cycle_count;
    int code = cli_open(args, &client);

    (void)count;
    (void)operands;
    if (code != CLI_OK) {
        return code;
    }
    error.code = snib_client_deadlocks(client, &cycles, &cycle_count, &error);
    if (error.code != SNIB_ERR_OK) {
        return cli_fail(&error);
    }
    if (args->json) {
        cmd_deadlocks_print_json(cycles, cycle_count);
    } else if (cycle_count == 0) {
        printf("no deadlock\n");
    }
    for (size_t i = 0; !args->json && i < cycle_count; i++) {
        why_print_cycle(cycles[i]);
    }
    snib_deadlocks_free(cycles, cycle_count);
    code = show_end();
    return code != CLI_OK ? code : cycle_count > 0 ? FOUND : CLI_OK;
}
