/* cmd_version.c — snib version. */
#include "cli/cli.h"

#include <stdio.h>

int cmd_version(struct cli_args *args, int count, char **operands)
{
    (void)count;
    (void)operands;
    if (args->json) {
        printf("{\"schema\":1,\"program\":\"%s\",\"library\":\"%s\"}\n",
               SNIB_VERSION, snib_version());
    } else {
        printf("snib %s (libsnib %s)\n", SNIB_VERSION, snib_version());
    }
    return CLI_OK;
}
