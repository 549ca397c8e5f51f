/* cmd_store.c — snib store ready [URL]: a recovery that runs is ended by hand.
 *
 * It breaks exclusion as force-release does, but for whoever held a lock when
 * the server forgot, and nobody can name them. So without --yes it only says
 * what is so and what is risked. What is ended is the recovery that was looked
 * at: one that begins in between goes on, and is told. */
#include "cli/cli.h"
#include "cli/words/duration.h"
#include "cli/words/show.h"
#include "cli/words/text.h"
#include "snib/inspect.h"
#include "snib/sys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool cmd_store_begun(const struct snib_recovery *is)
{
    return is->end >= 0;
}

static int cmd_store_choose(struct cli_args *args, int count, char **operands)
{
    if (strcmp(operands[0], "ready") != 0) {
        return usage_error(args, "unknown word '%s'; expected ready [URL]",
                           shown_short(operands[0]));
    }
    if (count == 2 && (args->store != NULL || args->store_file != NULL)) {
        return usage_error(args, "the store is given twice");
    }
    args->store = count == 2 ? operands[1] : args->store;
    return CLI_OK;
}

static void cmd_store_print(const char *url, const struct snib_recovery *is)
{
    json_t *object = show_json_answer();

    json_object_set_new(object, "store", show_json_text(url, strlen(url)));
    json_object_set_new(object, "left_ms", json_integer(is->left_ms));
    json_object_set_new(object, "begun", json_boolean(cmd_store_begun(is)));
    json_object_set_new(object, "ended", json_boolean(is->ended));
    if (is->replicas_missing > 0) {
        json_object_set_new(object, "replicas_missing",
                            json_integer(is->replicas_missing));
    }
    show_json_print(object);
}

/* One that has not begun. */
static void cmd_store_say_ahead(struct text *t, const struct snib_recovery *is,
                                const char *left)
{
    text_addf(t, "a recovery of %s begins with the first who asks for a lock",
              left);
    if (is->replicas_missing > 0) {
        text_addf(t,
                  ", not before %" PRIu32 " more replica%s connected, and "
                  "cannot be ended before",
                  is->replicas_missing,
                  is->replicas_missing == 1 ? " is" : "s are");
    }
}

/* What is so, and what would be risked: for who did not say --yes. */
static int cmd_store_say_risk(const char *url, const struct snib_recovery *is,
                              const char *left)
{
    char what[200] = "";
    struct text t = TEXT_IN(what);

    if (cmd_store_begun(is)) {
        text_addf(&t, "a recovery runs for %s more", left);
    } else {
        cmd_store_say_ahead(&t, is, left);
    }
    say("%s: %s: the server was restarted, replaced or emptied, or is used "
        "with recovery= for the first time, and may have forgotten who holds "
        "what",
        shown(url), what);
    say("ended now, what was held before and is not reclaimed yet is free for "
        "others at once, while its holder may work on until it is told, by "
        "its next renewal, or until its lease ends, %s from now at the latest",
        left);
    say("so end it only where nothing was forgotten (a planned failover, a "
        "server that was never used), or where nobody works on who held "
        "before; it was not ended: --yes does it");
    return CLI_USAGE;
}

static int cmd_store_say(const struct cli_args *args, const char *url,
                         const struct snib_recovery *is)
{
    char left[DURATION_TEXT_MAX];

    duration_text(is->left_ms + 999, left); /* never too short */
    if (is->left_ms > 0 && !args->yes) {
        return cmd_store_say_risk(url, is, left);
    }
    if (is->left_ms > 0 && !is->ended) {
        say("%s: another recovery than the one that was looked at %s %s; it "
            "was not ended: look again",
            shown(url),
            cmd_store_begun(is) ? "has begun, and runs for" : "is to begin, of",
            left);
        return CLI_UNREACHABLE;
    }
    if (!args->quiet && is->ended) {
        say("%s: the recovery is ended, %s before its time", shown(url), left);
    } else if (!args->quiet) {
        say("%s: no recovery runs; nothing to end", shown(url));
    }
    return CLI_OK;
}

int cmd_store(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    struct snib_error error = {0};
    struct snib_recovery is;
    const char *url;
    int code = cmd_store_choose(args, count, operands), printed;

    if (code != CLI_OK || (code = cli_open(args, &client)) != CLI_OK) {
        return code;
    }
    url = snib_client_url(client);
    error.code = snib_client_recovery(client, 0, &is, sizeof is, &error);
    if (error.code == SNIB_ERR_OK && is.left_ms > 0 && args->yes) {
        error.code =
            snib_client_recovery(client, is.end, &is, sizeof is, &error);
    }
    if (error.code == SNIB_ERR_UNSUPPORTED) {
        say("%s: %s", shown(url), error.text);
        return snib_err_exit(error.code);
    }
    if (error.code != SNIB_ERR_OK) {
        return cli_fail(&error);
    }
    if (args->json) {
        cmd_store_print(url, &is);
    }
    code = cmd_store_say(args, url, &is);
    printed = show_end();
    return code != CLI_OK ? code : printed;
}
