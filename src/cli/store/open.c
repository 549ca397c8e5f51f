/* open.c — for sub-commands that only inspect: check a name, open the store. */
#include "cli/cli.h"
#include "cli/store/look.h"
#include "cli/store/storeurl.h"

#include <signal.h>
#include <string.h>

int cli_check_name(const struct cli_args *args, const char *name)
{
    size_t size = strlen(name);

    if (size == 0) {
        return usage_error(args, "the lock name is empty");
    }
    if (size > SNIB_NAME_MAX) {
        return usage_error(args, "the lock name has %zu bytes; %d are possible",
                           size, SNIB_NAME_MAX);
    }
    return CLI_OK;
}

static void open_log_line(void *data, int level, const char *line)
{
    (void)data;
    if (level <= SNIB_LOG_INFO) {
        say("%s", shown(line));
    }
}

/* A lock file may need to grow beyond the limit for files (ulimit -f). The
 * signal would end snib without a word; the error of the write is told. Nothing
 * that opens a store here runs a command, which would inherit this. */
static void open_hear_of_limit(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    if (sigaction(SIGXFSZ, &ignore, NULL) != 0) {
        return; /* the signal exists */
    }
}

int cli_open_as(const struct cli_args *args, const char *identity,
                struct snib_client **ret)
{
    struct snib_client_options options = SNIB_INIT(snib_client_options);
    struct snib_error error = {0};
    int code = storeurl_choose(args, &options.url);

    open_hear_of_limit();
    *ret = NULL;
    if (code != CLI_OK) {
        return code;
    }
    options.program = "snib";
    options.identity = identity;
    options.reason = args->reason;
    if (args->verbose) {
        options.log = open_log_line;
    }
    error.code = snib_client_open(&options, ret, &error);
    if (error.code != SNIB_ERR_OK) {
        return strcmp(args->subcommand, "doctor") == 0
                   ? cli_fail_doctor(storeurl_blame(&error), false)
                   : cli_fail(storeurl_blame(&error));
    }
    if (args->verbose) {
        say("store %s", snib_client_url(*ret));
    } else if (!args->quiet) {
        storeurl_tell_unverified(snib_client_url(*ret));
    }
    return CLI_OK;
}

int cli_open(const struct cli_args *args, struct snib_client **ret)
{
    return cli_open_as(args, NULL, ret);
}

static bool left_alone;

void cli_client_leave(void)
{
    left_alone = true;
}

void cli_client_free(struct snib_client **client)
{
    if (!left_alone && !look_pending()) {
        snib_client_free(*client);
    }
}
