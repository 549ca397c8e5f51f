/* cmd_try.c — snib try: as run --wait 0. Without a command nothing need be
 * guarded: no leash, no keeper, one process that acquires and releases. */
#include "kinds.h"
#include "leash.h"
#include "text.h"

#include <string.h>

static void say_busy(const struct cli_args *args, struct snib_client *client,
                     const char *name)
{
    char holder[512] = "";
    struct text t = TEXT_IN(holder);
    struct snib_view *view;
    struct kind_terms terms;

    if (args->quiet) {
        return;
    }
    if (snib_inspect(client, name, strlen(name), &view, NULL) == SNIB_ERR_OK) {
        if (view->holder_count + view->waiter_count + view->closed_count > 0) {
            kind_terms_for(client, view, &terms);
            kind_holders(&t, view, &terms);
        }
        snib_view_free(view);
    }
    say("%s: not acquired: %s", shown(name),
        holder[0] != '\0' ? holder : "held by another owner");
}

/* Acquire the names from `at` on, then release all of them. */
static snib_err could_be_had(struct snib_client *client,
                             const struct plan *plan, size_t at,
                             struct snib_error *error)
{
    struct snib_lock_options options;
    struct snib_acquire_options once = SNIB_INIT(snib_acquire_options);
    struct snib_lock *lock;
    struct snib_grant grant;
    snib_err code;

    if (at == plan->name_count) {
        return SNIB_ERR_OK;
    }
    plan_lock_options(plan, &options);
    code = snib_lock_new(client, plan->names[at], &options, &lock, error);
    if (code != SNIB_ERR_OK) {
        return code;
    }
    code = snib_acquire(lock, &once, &grant, error);
    if (code == SNIB_ERR_OK) {
        code = could_be_had(client, plan, at + 1, error);
        snib_release(lock, grant, NULL);
    } else if (snib_err_exit(code) == CLI_NOT_ACQUIRED) {
        say_busy(plan->args, client, plan->names[at]);
    }
    snib_lock_free(lock);
    return code;
}

static int try_only(const struct plan *plan)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    struct snib_error error = {0};
    int code = cli_open(plan->args, &client);

    if (code != CLI_OK) {
        return code;
    }
    error.code = could_be_had(client, plan, 0, &error);
    if (error.code == SNIB_ERR_OK) {
        return CLI_OK;
    }
    if (snib_err_exit(error.code) != CLI_NOT_ACQUIRED) {
        plan_explain(plan, &error);
        return cli_fail(&error);
    }
    return cli_busy_status(plan->args);
}

int cmd_try(struct cli_args *args, int count, char **operands)
{
    static struct plan plan;
    size_t names;
    char **command;
    int code;

    args->wait_ms = 0;
    plan_split(args, count, operands, &names, &command);
    if (args->has_dashes && command == NULL) {
        return usage_error(args, "the command after -- is missing");
    }
    code = plan_make(&plan, args, (const char **)operands, names, command);
    if (code != CLI_OK) {
        return code;
    }
    if (command == NULL && args->status_fd >= 0) {
        return usage_error(args, "--status-fd tells how a command ended; "
                                 "there is none");
    }
    if (command == NULL) {
        return try_only(&plan);
    }
    plan.program = command[0];
    return leash_run(&plan, NULL, NULL);
}
