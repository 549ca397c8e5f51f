/* dryrun.c — --dry-run: the plan in words, and an inspection of each name.
 *
 * All errors that need no request have been told by then; the inspection finds
 * a store that does not answer. Nothing is acquired, nobody queues.
 */
#include "cli/supervisor/plan.h"
#include "cli/words/duration.h"
#include "cli/words/kinds.h"
#include "cli/words/text.h"
#include "snib/inspect.h"

#include <string.h>

static void dryrun_add_wait(struct text *t, const struct plan *plan)
{
    char wait[DURATION_TEXT_MAX];

    if (plan->wait_ms == 0) {
        text_add(t, "without waiting");
        return;
    }
    if (plan->wait_ms == INT64_MAX) {
        text_add(t, "waiting for as long as it takes");
        return;
    }
    duration_text(plan->wait_ms, wait);
    text_addf(t, "waiting for at most %s", wait);
}

static void dryrun_add_command(struct text *t, const struct plan *plan)
{
    if (plan->command == NULL) {
        text_add(t, "release again");
        return;
    }
    text_add(t, "run:");
    for (char **word = plan->command; *word != NULL; word++) {
        text_add(t, " ");
        text_add_shown(t, *word, strlen(*word));
    }
}

int plan_tell(const struct plan *plan)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    char line[900] = "", ttl[DURATION_TEXT_MAX];
    struct text t = TEXT_IN(line);
    int code = cli_open(plan->args, &client);

    if (code != CLI_OK) {
        return code;
    }
    for (size_t i = 0; i < plan->name_count; i++) {
        char now[600] = "";
        struct text holders = TEXT_IN(now);
        struct snib_error error = {0};
        struct snib_view *view;
        struct kind_params params;

        error.code = snib_client_inspect(client, plan->names[i],
                                         strlen(plan->names[i]), &view, &error);
        if (error.code != SNIB_ERR_OK) {
            return cli_fail(&error);
        }
        kind_params_get(client, view->name, view->name_size, &params);
        kind_holders(&holders, view, &params);
        snib_view_free(view);
        say("%s: now %s", shown(plan->names[i]), now);
    }
    duration_text(plan->ttl_ms, ttl);
    text_addf(&t, "would acquire %s as %s, ttl %s, ",
              plan->name_count == 1 ? "it" : "all of them",
              kind_text(plan->kind), ttl);
    dryrun_add_wait(&t, plan);
    text_addf(&t, ", in %s; then ", shown(snib_client_url(client)));
    dryrun_add_command(&t, plan);
    say("%s", line);
    return CLI_OK;
}
