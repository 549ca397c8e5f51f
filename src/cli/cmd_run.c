/* cmd_run.c — snib run: acquire, run, renew, release. */
#include "cli/supervisor/supervisor.h"

int cmd_run(struct cli_args *args, int count, char **operands)
{
    static struct plan plan;
    size_t names;
    char **command;
    int code;

    plan_split(args, count, operands, &names, &command);
    if ((code = plan_script(args, &command)) != CLI_OK) {
        return code;
    }
    code = plan_make(&plan, args, (const char **)operands, names, command);
    if (code != CLI_OK) {
        return code;
    }
    if (command == NULL) {
        return usage_error(args, "the command is missing; expected NAME… -- "
                                 "COMMAND…, or -c SCRIPT NAME…");
    }
    if (args->dry_run) {
        return plan_tell(&plan);
    }
    plan.program = command[0];
    return supervisor_run(&plan, NULL, NULL);
}
