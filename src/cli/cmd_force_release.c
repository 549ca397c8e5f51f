/* cmd_force_release.c — snib force-release NAME.
 *
 * The one command that breaks exclusion. The old holder goes on until it is
 * told, mostly at once and at the latest by its next renewal, and until then
 * only the fence protects. So the command shows whom it would hit and how long
 * they have held the lock, says when that is the very user who asks, and wants
 * the name typed, or --yes with a reason that the holder will read. A state
 * that cannot be read is no obstacle, since this command is what mends it. The
 * exception is a key of Redis that has another type: it is not snib's to
 * remove.
 *
 * A store that has no forced release is asked for one all the same, and at once:
 * it ends nothing, whether somebody holds or not, and says how it is done there.
 */
#include "cli/cli.h"
#include "cli/store/storeurl.h"
#include "cli/words/show.h"
#include "cli/words/text.h"
#include "snib/inspect.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One of several holders. */
static void cmd_force_release_say_one(const struct snib_view *view, size_t i)
{
    char line[1024] = "";
    struct text t = TEXT_IN(line);

    show_party(&t, view->holders[i]);
    say("  %zu of %zu: %s%s", i + 1, view->holder_count, line,
        show_is_me(view->holders[i]) ? " (this is you)" : "");
}

/* The holders, and how many there are. */
static size_t cmd_force_release_show_holders(struct snib_client *client,
                                             const struct snib_view *view)
{
    char line[1024] = "";
    struct text t = TEXT_IN(line);
    struct kind_params params;

    kind_params_get(client, view->name, view->name_size, &params);
    kind_holders(&t, view, &params);
    if (params.latch > 0 && view->holder_count + view->closed_count == 0) {
        text_add(&t, "; snib latch --open opens it");
    }
    if (view->holder_count == 1 && show_is_me(view->holders[0])) {
        text_add(&t, " (this is you)");
    }
    say("%s: %s", shown(view->name), line);
    for (size_t i = 0; view->holder_count > 1 && i < view->holder_count; i++) {
        cmd_force_release_say_one(view, i);
    }
    return view->holder_count;
}

static int cmd_force_release_confirm(const struct cli_args *args,
                                     const char *name, size_t held,
                                     bool damaged)
{
    char typed[SNIB_NAME_MAX + 2];

    if (args->yes) {
        return CLI_OK;
    }
    if (!isatty(0)) {
        return usage_error(args, "nobody to ask: stdin is no terminal; use "
                                 "--yes --reason TEXT");
    }
    if (damaged) {
        say("its holders cannot be shown; they may work until their next "
            "renewals. Type the lock's name to end all grants of it:");
    } else if (held == 0) {
        say("type the lock's name to open it before its lock-delay is over:");
    } else if (held == 1) {
        say("its holder is told, at the latest by its next renewal, and may "
            "work until then. Type the lock's name to end its grant:");
    } else {
        say("its %zu holders are told, at the latest by their next renewals, "
            "and may work until then. Type the lock's name to end all their "
            "grants:",
            held);
    }
    if (fgets(typed, sizeof typed, stdin) == NULL) {
        typed[0] = '\0';
    }
    typed[strcspn(typed, "\n")] = '\0';
    if (strcmp(typed, name) != 0) {
        say("not the name; nothing was done");
        return CLI_USAGE;
    }
    return CLI_OK;
}

static void cmd_force_release_say_done(const char *name, uint32_t released,
                                       bool closed, bool damaged)
{
    if (released == 0 && damaged) {
        say("%s: what was damaged is cleared", shown(name));
    } else if (released == 0 && closed) {
        say("%s: open, its lock-delay is ended", shown(name));
    } else {
        say("%s: %u grant%s ended%s", shown(name), released,
            released == 1 ? "" : "s",
            damaged ? ", and what was damaged is cleared" : "");
    }
}

static int cmd_force_release_force(const struct cli_args *args,
                                   struct snib_client *client, const char *name,
                                   bool closed, bool damaged)
{
    struct snib_error error = {0};
    uint32_t released = 0;

    error.code = snib_client_force_release(client, name, strlen(name),
                                           args->reason, &released, &error);
    if (error.code != SNIB_ERR_OK) {
        return cli_fail(&error);
    }
    if (args->json) {
        json_t *object = show_json_answer();
        json_object_set_new(object, "released", json_integer(released));
        show_json_print(object);
    } else if (!args->quiet) {
        cmd_force_release_say_done(name, released, closed, damaged);
    }
    return show_end();
}

int cmd_force_release(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    const char *name = operands[0];
    struct snib_error error = {0};
    struct snib_view *view;
    size_t held = 0;
    bool damaged, closed, was_closed = false, lacks;
    int code = cli_check_name(args, name);

    (void)count;
    if (code != CLI_OK) {
        return code;
    }
    if (args->yes && (args->reason == NULL || args->reason[0] == '\0')) {
        return usage_error(args,
                           "--yes needs --reason TEXT: the holder is told "
                           "who ended its grant and why");
    }
    if ((code = cli_open(args, &client)) != CLI_OK) {
        return code;
    }
    error.code = snib_client_inspect(client, name, strlen(name), &view, &error);
    damaged = error.code == SNIB_ERR_CORRUPT;
    if (damaged) {
        say("%s: its state at the store is damaged", shown(name));
    } else if (error.code != SNIB_ERR_OK) {
        return cli_fail(&error);
    } else {
        held = cmd_force_release_show_holders(client, view);
        was_closed = view->closed_count > 0;
        snib_view_free(view);
    }
    closed = held > 0 || was_closed || damaged;
    lacks = storeurl_without_force(snib_client_url(client));
    if (closed && !lacks &&
        (code = cmd_force_release_confirm(args, name, held, damaged)) !=
            CLI_OK) {
        return code;
    }
    return closed || lacks || args->json
               ? cmd_force_release_force(args, client, name, was_closed,
                                         damaged)
               : CLI_OK;
}
