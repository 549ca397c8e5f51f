/* cmd_latch.c — snib latch NAME: close with a count, count down, open, await;
 * without any of these show it. */
#include "cli/cli.h"
#include "cli/holder/selfwait.h"
#include "cli/store/pass.h"
#include "cli/words/show.h"
#include "snib/latch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int cmd_latch_check(const struct cli_args *args)
{
    int wishes = (args->set_to >= 0) + (args->down_by >= 0) +
                 (int)args->latch_open + (int)args->latch_await;

    if (wishes > 1) {
        return usage_error(args, "--set, --down, --open and --await exclude "
                                 "each other");
    }
    if (args->set_to == 0 || args->down_by == 0) {
        return usage_error(args,
                           "--%s: 0 steps change nothing; expected 1 to "
                           "%d",
                           args->set_to == 0 ? "set" : "down",
                           SNIB_PERMITS_MAX);
    }
    if (args->wait_ms != CLI_UNSET && !args->latch_await) {
        return usage_error(args, "--wait needs --await: nothing else waits");
    }
    if (args->busy_ok && args->busy_exit >= 0) {
        return usage_error(args,
                           "--busy-ok and --busy-exit exclude each other");
    }
    return CLI_OK;
}

static int cmd_latch_show_left(const struct cli_args *args, const char *name,
                               uint32_t left)
{
    json_t *object;

    if (!args->json) {
        if (left > 0) {
            printf("%s: closed, %" PRIu32 " step%s to go\n", shown(name), left,
                   left == 1 ? "" : "s");
        } else {
            printf("%s: open\n", shown(name));
        }
        return show_end();
    }
    object = show_json_answer();
    show_json_name(object, name, strlen(name));
    json_object_set_new(object, "left", json_integer(left));
    json_object_set_new(object, "open", json_boolean(left == 0));
    show_json_print(object);
    return show_end();
}

/* "Closed already" is an answer like "held": the steps of another round are
 * still to come, and a script that relies on a fresh latch must not go on. */
static int cmd_latch_set(const struct cli_args *args,
                         struct snib_client *client, const char *name)
{
    struct snib_error error = {0};
    bool done = false;

    error.code = snib_latch_set(client, name, strlen(name),
                                (uint32_t)args->set_to, &done, &error);
    if (error.code != SNIB_ERR_OK) {
        return cli_fail(&error);
    }
    if (!done) {
        if (!args->quiet) {
            say("%s: closed already; nothing was changed", shown(name));
        }
        return cli_busy_status(args);
    }
    return args->quiet
               ? CLI_OK
               : cmd_latch_show_left(args, name, (uint32_t)args->set_to);
}

static int cmd_latch_look_or_step(const struct cli_args *args,
                                  struct snib_client *client, const char *name)
{
    struct snib_error error = {0};
    bool changes = args->down_by > 0 || args->latch_open;
    uint32_t left = 0;

    if (args->latch_open) {
        error.code = snib_latch_open(client, name, strlen(name), &error);
    } else if (args->down_by > 0) {
        error.code = snib_latch_count_down(
            client, name, strlen(name), (uint32_t)args->down_by, &left, &error);
    } else {
        error.code = snib_latch_left(client, name, strlen(name), &left, &error);
    }
    if (error.code != SNIB_ERR_OK) {
        return cli_fail(&error);
    }
    return changes && args->quiet ? CLI_OK
                                  : cmd_latch_show_left(args, name, left);
}

int cmd_latch(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    const char *name = operands[0];
    int64_t token;
    int code = cli_check_name(args, name);

    (void)count;
    if (code != CLI_OK || (code = cmd_latch_check(args)) != CLI_OK) {
        return code;
    }
    if (args->latch_await) {
        pass_block_signals();
    }
    if ((code = cli_open(args, &client)) != CLI_OK) {
        return code;
    }
    if (args->set_to > 0) {
        return cmd_latch_set(args, client, name);
    }
    if (!args->latch_await) {
        return cmd_latch_look_or_step(args, client, name);
    }
    if (args->wait_ms != 0 &&
        (code = selfwait_check(args, client, name, SNIB_KIND_READ)) != CLI_OK) {
        return code;
    }
    code = pass_through(args, client, name, 0, &token);
    return code == CLI_OK && args->json ? cmd_latch_show_left(args, name, 0)
                                        : code;
}
