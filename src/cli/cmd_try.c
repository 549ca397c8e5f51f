/* cmd_try.c — snib try: as run --wait 0. Without a command nothing has to be
 * guarded: no supervisor, no holder, one process that acquires and releases. */
#include "cli/store/look.h"
#include "cli/supervisor/supervisor.h"
#include "cli/words/text.h"
#include "snib/multi.h"
#include "snib/sys.h"

#include <string.h>

static void cmd_try_say_busy(const struct plan *plan,
                             struct snib_client *client, const char *name)
{
    const struct cli_args *args = plan->args;
    char holder[512] = "";
    struct text t = TEXT_IN(holder);

    if (args->quiet || args->busy_ok) {
        return;
    }
    look_in_the_way(client, name, plan->kind, plan->permits, true, &t);
    say("%s: not acquired: %s", shown(name),
        holder[0] != '\0' ? holder : "held by another owner");
}

/* What one try needs; all of it ends with the try. */
struct trial {
    struct snib_lock *locks[PLAN_NAMES_MAX];
    struct snib_grant grants[PLAN_NAMES_MAX];
    struct snib_multi *multi;
};

static snib_err cmd_try_prepare(struct trial *t, struct snib_client *client,
                                const struct plan *plan,
                                struct snib_error *error)
{
    struct snib_lock_options options;
    snib_err code = SNIB_ERR_OK;

    plan_lock_options(plan, &options);
    for (size_t i = 0; i < plan->name_count && code == SNIB_ERR_OK; i++) {
        code = snib_lock_new(client, plan->names[i], &options, &t->locks[i],
                             error);
    }
    return code == SNIB_ERR_OK ? snib_multi_new(t->locks, plan->name_count,
                                                NULL, &t->multi, error)
                               : code;
}

static void cmd_try_clean(struct trial *t)
{
    snib_multi_free(t->multi);
    for (size_t i = 0; i < PLAN_NAMES_MAX; i++) {
        snib_lock_free(t->locks[i]);
    }
}

/* at: index of the name that is missing. */
static void cmd_try_say_why(const struct plan *plan, struct snib_client *client,
                            size_t at, snib_err code, struct snib_error *error)
{
    const char *name = plan->names[at < plan->name_count ? at : 0];

    error->code = code;
    if (snib_err_exit(code) == CLI_NOT_ACQUIRED && code != SNIB_ERR_TOO_MANY) {
        cmd_try_say_busy(plan, client, name);
        return;
    }
    plan_explain(plan, name, error);
    plan_strip_name(error);
    say("%s: %s", shown(name), shown(cli_words(error)));
}

/* Acquire all names, and release them; what is in the way is said. */
static snib_err cmd_try_could_be_had(struct snib_client *client,
                                     const struct plan *plan,
                                     struct snib_error *error)
{
    static struct trial t;
    snib_err code = cmd_try_prepare(&t, client, plan, error);

    if (code != SNIB_ERR_OK) {
        error->code = code;
        cli_fail(error);
    } else {
        code = snib_multi_try(t.multi, NULL, t.grants, error);
        if (code == SNIB_ERR_OK) {
            snib_multi_release(t.multi, t.grants, NULL);
        } else {
            cmd_try_say_why(plan, client, snib_multi_missing(t.multi), code,
                            error);
            code = error->code;
        }
    }
    cmd_try_clean(&t);
    return code;
}

static int cmd_try_only(const struct plan *plan)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    struct snib_error error = {0};
    int code = cli_open(plan->args, &client);

    if (code != CLI_OK) {
        return code;
    }
    error.code = cmd_try_could_be_had(client, plan, &error);
    if (error.code == SNIB_ERR_OK) {
        return CLI_OK;
    }
    return snib_err_exit(error.code) == CLI_NOT_ACQUIRED
               ? cli_busy_status(plan->args)
               : snib_err_exit(error.code);
}

int cmd_try(struct cli_args *args, int count, char **operands)
{
    static struct plan plan;
    size_t names;
    char **command;
    int code;

    args->wait_ms = 0;
    plan_split(args, count, operands, &names, &command);
    if ((code = plan_script(args, &command)) != CLI_OK) {
        return code;
    }
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
    if (args->dry_run) {
        return plan_tell(&plan);
    }
    if (command == NULL) {
        return cmd_try_only(&plan);
    }
    plan.program = command[0];
    return supervisor_run(&plan, NULL, NULL);
}
