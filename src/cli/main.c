/* main.c — the table of sub-commands, and the way to them.
 *
 *   snib [GLOBAL OPTIONS] SUBCOMMAND [OPTIONS] NAME [-- COMMAND…]
 *
 * With a `--`, all operands before it are lock names, all after it are the
 * command, and options may stand anywhere before it. Without one the first
 * operand is the name, options may still follow it, and the command begins with
 * the second operand.
 */
#include "cli/cli.h"
#include "cli/rows.h"
#include "cli/supervisor/statusline.h"
#include "cli/words/duration.h"
#include "cli/words/show.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct option_row cli_global_options[] = {
    ROW_STORE, ROW_STORE_FILE, ROW_QUIET, ROW_VERBOSE, ROW_VERSION, ROW_END};

static const struct option_row run_options[] = {
    ROW_NAME,      ROW_READ,       ROW_SCRIPT,      ROW_DRY_RUN,
    ROW_STORE,     ROW_STORE_FILE, ROW_WAIT,        ROW_TTL,
    ROW_GRACE,     ROW_KIND,       ROW_PERMITS,     ROW_CAPACITY,
    ROW_PRIORITY,  ROW_LOCK_DELAY, ROW_BUSY_EXIT,   ROW_BUSY_OK,
    ROW_ON_LOST,   ROW_HOLD_MIN,   ROW_MAX_RUN,     ROW_REASON,
    ROW_REENTRANT, ROW_STATUS_FD,  ROW_NO_PROGRESS, ROW_QUIET,
    ROW_VERBOSE,   ROW_END};

static const struct option_row try_options[] = {
    ROW_NAME,       ROW_READ,       ROW_SCRIPT,    ROW_DRY_RUN,   ROW_STORE,
    ROW_STORE_FILE, ROW_TTL,        ROW_GRACE,     ROW_KIND,      ROW_PERMITS,
    ROW_CAPACITY,   ROW_LOCK_DELAY, ROW_BUSY_EXIT, ROW_BUSY_OK,   ROW_ON_LOST,
    ROW_HOLD_MIN,   ROW_MAX_RUN,    ROW_REASON,    ROW_REENTRANT, ROW_STATUS_FD,
    ROW_QUIET,      ROW_VERBOSE,    ROW_END};

static const struct option_row elect_options[] = {
    ROW_NAME,   ROW_STORE,   ROW_STORE_FILE, ROW_CAMPAIGN,  ROW_TTL,
    ROW_GRACE,  ROW_PAUSE,   ROW_ONCE,       ROW_ON_LOST,   ROW_MAX_TERM,
    ROW_REASON, ROW_OBSERVE, ROW_JSON,       ROW_STATUS_FD, ROW_NO_PROGRESS,
    ROW_QUIET,  ROW_VERBOSE, ROW_END};

static const struct option_row acquire_options[] = {
    ROW_NAME,       ROW_READ,      ROW_STORE,   ROW_STORE_FILE,  ROW_WAIT,
    ROW_TTL,        ROW_KIND,      ROW_PERMITS, ROW_CAPACITY,    ROW_PRIORITY,
    ROW_LOCK_DELAY, ROW_BUSY_EXIT, ROW_BUSY_OK, ROW_HOLDER_PID,  ROW_NO_HOLDER,
    ROW_TOKEN_FILE, ROW_REASON,    ROW_JSON,    ROW_NO_PROGRESS, ROW_QUIET,
    ROW_VERBOSE,    ROW_SH,        ROW_END};

static const struct option_row semaphore_options[] = {
    ROW_NAME,     ROW_STORE, ROW_STORE_FILE, ROW_SIZE_SET, ROW_SIZE_INIT,
    ROW_SIZE_ADD, ROW_JSON,  ROW_QUIET,      ROW_VERBOSE,  ROW_END};
static const struct option_row latch_options[] = {
    ROW_NAME,       ROW_STORE,      ROW_STORE_FILE,  ROW_LATCH_SET,
    ROW_LATCH_DOWN, ROW_LATCH_OPEN, ROW_LATCH_AWAIT, ROW_AWAIT_LIMIT,
    ROW_LATE_EXIT,  ROW_LATE_OK,    ROW_JSON,        ROW_NO_PROGRESS,
    ROW_QUIET,      ROW_VERBOSE,    ROW_END};
static const struct option_row barrier_options[] = {
    ROW_NAME,        ROW_STORE,     ROW_STORE_FILE, ROW_PARTIES,
    ROW_MEET_LIMIT,  ROW_LATE_EXIT, ROW_LATE_OK,    ROW_JSON,
    ROW_NO_PROGRESS, ROW_QUIET,     ROW_VERBOSE,    ROW_END};

static const struct option_row release_options[] = {
    ROW_LEFT_STORE, ROW_STORE_FILE, ROW_QUIET, ROW_VERBOSE, ROW_END};
static const struct option_row renew_options[] = {
    ROW_LEFT_STORE, ROW_STORE_FILE, ROW_RENEW_TTL, ROW_JSON,
    ROW_QUIET,      ROW_VERBOSE,    ROW_TIE_PID,   ROW_END};
static const struct option_row check_options[] = {
    ROW_LEFT_STORE, ROW_STORE_FILE, ROW_MARGIN, ROW_JSON,
    ROW_QUIET,      ROW_VERBOSE,    ROW_END};
static const struct option_row wait_options[] = {
    ROW_NAME,  ROW_READ,    ROW_STORE,     ROW_STORE_FILE, ROW_WAIT,
    ROW_KIND,  ROW_PERMITS, ROW_BUSY_EXIT, ROW_BUSY_OK,    ROW_NO_PROGRESS,
    ROW_QUIET, ROW_VERBOSE, ROW_END};
static const struct option_row look_options[] = {
    ROW_STORE, ROW_STORE_FILE, ROW_JSON, ROW_QUIET, ROW_VERBOSE, ROW_END};
static const struct option_row doctor_options[] = {
    ROW_STORE, ROW_STORE_FILE, ROW_JSON, ROW_SCHEMA,
    ROW_QUIET, ROW_VERBOSE,    ROW_END};
static const struct option_row look_at_options[] = {
    ROW_NAME,  ROW_STORE,   ROW_STORE_FILE, ROW_JSON,
    ROW_QUIET, ROW_VERBOSE, ROW_END};
static const struct option_row force_options[] = {
    ROW_NAME, ROW_STORE, ROW_STORE_FILE, ROW_YES, ROW_REASON,
    ROW_JSON, ROW_QUIET, ROW_VERBOSE,    ROW_END};
static const struct option_row store_options[] = {
    ROW_STORE, ROW_STORE_FILE, ROW_READY_YES, ROW_JSON,
    ROW_QUIET, ROW_VERBOSE,    ROW_END};
static const struct option_row version_options[] = {ROW_JSON, ROW_QUIET,
                                                    ROW_VERBOSE, ROW_END};
static const struct option_row help_options[] = {ROW_END};

#define NAME_COMMAND "NAME… -- COMMAND… | NAME COMMAND… | -c SCRIPT NAME…"
#define NO_MOST      SIZE_MAX
#define NAME_COMMAND_OR_OBSERVE                                                \
    "NAME -- COMMAND… | NAME COMMAND… | --observe NAME"

static const struct subcommand subcommands[] = {
    {"run", NAME_COMMAND, "Run a command while holding a lock.", run_options, 1,
     NO_MOST, true, cmd_run},
    {"try", "NAME… -- COMMAND… | NAME [COMMAND…] | -c SCRIPT NAME…",
     "Like run, without waiting; without COMMAND, only test the lock.",
     try_options, 1, NO_MOST, true, cmd_try},
    {"elect", NAME_COMMAND_OR_OBSERVE,
     "Run a command while this host is the leader, again in each term.",
     elect_options, 1, NO_MOST, true, cmd_elect},
    {"acquire", "NAME",
     "Acquire a lock for a script; a holder process keeps it.", acquire_options,
     1, 1, false, cmd_acquire},
    {"release", "TOKENFILE|GRANT", "Release what acquire acquired.",
     release_options, 1, 1, false, cmd_release},
    {"renew", "TOKENFILE|GRANT", "Renew now what acquire acquired.",
     renew_options, 1, 1, false, cmd_renew},
    {"check", "[TOKENFILE|GRANT]",
     "Exit 0 while the lease has the margin left, else 76.", check_options, 0,
     1, false, cmd_check},
    {"semaphore", "NAME", "Show or change how many permits a semaphore has.",
     semaphore_options, 1, 1, false, cmd_semaphore},
    {"latch", "NAME", "Close, count down, open or await a latch; or show it.",
     latch_options, 1, 1, false, cmd_latch},
    {"barrier", "NAME", "Wait until N parties are here; pass together.",
     barrier_options, 1, 1, false, cmd_barrier},
    {"wait", "NAME", "Wait until a lock is free; take nothing.", wait_options,
     1, 1, false, cmd_wait},
    {"status", "NAME", "Show holder, lease and queue of a lock.",
     look_at_options, 1, 1, false, cmd_status},
    {"list", "[GLOB]", "List locks that are held, waited for or kept closed.",
     look_options, 0, 1, false, cmd_list},
    {"why", "NAME", "Tell who has a lock, who waits, and what comes next.",
     look_at_options, 1, 1, false, cmd_why},
    {"deadlocks", "", "Show deadlocks: who waits for whom in a circle.",
     look_options, 0, 0, false, cmd_deadlocks},
    {"force-release", "NAME", "Take a lock away from its holder.",
     force_options, 1, 1, false, cmd_force_release},
    {"doctor", "", "Check the store's set-up.", doctor_options, 0, 0, false,
     cmd_doctor},
    {"store", "ready [URL]",
     "End a recovery by hand: let others in although a server may have "
     "forgotten.",
     store_options, 1, 2, false, cmd_store},
    {"version", "", "Print the version.", version_options, 0, 0, false,
     cmd_version},
    {"help", "[SUBCOMMAND]", "Explain a sub-command.", help_options, 0, 1,
     false, cmd_help},
};

const struct subcommand *cli_all(size_t *ret_count)
{
    *ret_count = sizeof subcommands / sizeof subcommands[0];
    return subcommands;
}

const struct subcommand *cli_find(const char *name)
{
    size_t count;
    const struct subcommand *all = cli_all(&count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i].name, name) == 0) {
            return &all[i];
        }
    }
    return NULL;
}

const char *const cli_later[] = {"watch", "top",        "serve", "bench",
                                 "demo",  "completion", NULL};

static int main_unknown_subcommand(const struct cli_args *args,
                                   const char *name)
{
    for (size_t i = 0; cli_later[i] != NULL; i++) {
        if (strcmp(cli_later[i], name) == 0) {
            return usage_error(args, "%s is not in this release", name);
        }
    }
    return usage_error(args, "unknown sub-command '%s'", shown_short(name));
}

static int main_check_count(const struct subcommand *sub,
                            const struct cli_args *args, int count,
                            char **operands)
{
    if ((size_t)count < sub->operands_least) {
        return usage_error(args, "expected %s", sub->operands);
    }
    if ((size_t)count <= sub->operands_most) {
        return CLI_OK;
    }
    return usage_error(
        args, "unexpected argument '%s'; expected %s%s",
        shown_short(operands[sub->operands_most]),
        sub->operands_most == 0 ? "none" : sub->operands,
        args->down_by >= 0 ? " (a number of steps is written --down=N)" : "");
}

/* Looked for before the options are parsed: the shell must be told of an error
 * in them. */
static bool main_has_sh(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--sh") == 0) {
            return true;
        }
    }
    return false;
}

static int main_run_subcommand(const struct subcommand *sub,
                               struct cli_args *args, int argc, char **argv)
{
    bool sh = sub->main == cmd_acquire && main_has_sh(argc, argv);
    int count, code;

    args->subcommand = sub->name;
    if (!options_parse(sub->options, args, sub->command ? 1 : INT_MAX, argc,
                       argv, &count)) {
        args->sh = sh;
        return CLI_USAGE;
    }
    if (args->help) {
        options_help(sub);
        return CLI_OK;
    }
    if (args->version) {
        return cmd_version(args, 0, argv);
    }
    code = main_check_count(sub, args, count, argv);
    return code != CLI_OK ? code : sub->main(args, count, argv);
}

/* A file that snib opens must not become somebody's standard output. A closed
 * stdout is replaced by a descriptor that takes nothing: what snib or the
 * command writes there fails as it would on the closed one, and does not count
 * as delivered. */
static void main_fill_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0) { /* open takes the lowest free one: fd */
            open("/dev/null", O_RDONLY);
        }
    }
}

/* The output of the sub-command must have arrived, or the status says so. */
static int main_finish(const struct cli_args *args, int code)
{
    int printed;

    if (args->sh && code != CLI_OK) {
        /* The shell that evaluates this text would go on without a lock: the
         * status of the text tells it. */
        printf("(exit %d)\n", code);
    }
    printed = show_end();
    return code == CLI_OK ? printed : code;
}

static int main_dispatch(struct cli_args *args, int argc, char **argv)
{
    const struct subcommand *sub;
    int count;

    if (argc < 1 || !options_parse(cli_global_options, args, 0, argc - 1,
                                   argv + 1, &count)) {
        return CLI_USAGE;
    }
    argv++;
    if (args->help) {
        return cmd_help(args, 0, argv);
    }
    if (args->version) {
        return cmd_version(args, 0, argv);
    }
    if (count == 0) {
        return cli_show_usage();
    }
    sub = cli_find(argv[0]);
    if (sub == NULL) {
        return main_unknown_subcommand(args, argv[0]);
    }
    return main_run_subcommand(sub, args, count - 1, argv + 1);
}

int main(int argc, char **argv)
{
    static struct cli_args args;
    int code;

    main_fill_standard_descriptors();
    show_begin();
    options_defaults(&args);
    code = main_finish(&args, main_dispatch(&args, argc, argv));
    if (code != CLI_OK) {
        statusline_write_refused((int)args.status_fd, code);
    }
    return code;
}
