/* cmd_help.c — snib help [SUBCOMMAND]. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const char head[] =
    "snib — locks that hold, across processes and hosts\n"
    "\n"
    "Usage: snib [GLOBAL OPTIONS] SUBCOMMAND [OPTIONS] NAME [-- COMMAND…]\n"
    "\n"
    "  snib run nightly -- ./backup.sh       one at a time, for this user\n"
    "  SNIB_URL=redis://HOST snib run …      on all hosts that use that Redis\n"
    "  snib try deploy -- ./deploy.sh        or not at all: exit 75\n"
    "  snib run --kind semaphore --capacity 3 builds -- make   at most three\n"
    "  snib status nightly                   who holds it, who waits\n"
    "\n"
    "Sub-commands:\n";

static const char tail[] =
    "\n"
    "Exit status: the command's own, 128+N when signal N killed it or came\n"
    "while waiting; else\n"
    "  64 usage                      70 internal error\n"
    "  69 store unreachable or unfit, or no answer; nothing ran\n"
    "  75 not acquired in time, or never could be; nothing ran\n"
    "  76 lock lost, command stopped 77 refused by the store's login\n"
    "  78 configuration              126/127 command not executable/found\n"
    "\n"
    "snib help SUBCOMMAND explains one. Manual: snib(1).\n";

static void cmd_help_print_all(FILE *to)
{
    size_t count;
    const struct subcommand *all = cli_all(&count);

    fputs(head, to);
    for (size_t i = 0; i < count; i++) {
        fprintf(to, "  %-14s %s\n", all[i].name, all[i].summary);
    }
    fputs("Not in this release:", to);
    for (size_t i = 0; cli_later[i] != NULL; i++) {
        fprintf(to, "%s %s", i > 0 ? "," : "", cli_later[i]);
    }
    fputs(".\n\nGlobal options:\n", to);
    options_print(to, cli_global_options);
    fputs("  -h, --help              explain the program, or the sub-command "
          "before it\n",
          to);
    fputs(tail, to);
}

int cli_show_usage(void)
{
    static char all[8192];
    FILE *to = fmemopen(all, sizeof all, "w");

    say("a sub-command is missing");
    if (to != NULL) {
        cmd_help_print_all(to);
        fclose(to);
        say_raw(all, strlen(all));
    }
    return CLI_USAGE;
}

int cmd_help(struct cli_args *args, int count, char **operands)
{
    const struct subcommand *sub;

    if (count == 0) {
        cmd_help_print_all(stdout);
        return CLI_OK;
    }
    sub = cli_find(operands[0]);
    if (sub == NULL) {
        return usage_error(args, "unknown sub-command '%s'",
                           shown_short(operands[0]));
    }
    options_help(sub);
    return CLI_OK;
}
