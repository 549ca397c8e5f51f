/* cmd_why.c — snib why NAME. */
#include "cli/cli.h"
#include "cli/store/storeurl.h"
#include "cli/words/show.h"
#include "cli/words/why.h"
#include "snib/inspect.h"

#include <string.h>

static json_t *cmd_why_json_holders(const struct why_locks *all,
                                    const struct snib_view *view)
{
    json_t *array = json_array();

    for (size_t i = 0; i < view->holder_count; i++) {
        json_t *holder = show_json_party(view->holders[i], true);
        json_t *waits = json_null();
        const struct snib_party *wait;
        const struct snib_view *next = why_next(all, view->holders[i], &wait);

        if (next != NULL) {
            waits = json_object();
            show_json_name(waits, next->name, next->name_size);
            json_object_set_new(waits, "since_ms",
                                json_integer(wait->since_ms));
        }
        json_object_set_new(holder, "waits_for", waits);
        json_array_append_new(array, holder);
    }
    return array;
}

static void cmd_why_tell(const struct cli_args *args,
                         const struct why_locks *all,
                         const struct snib_view *view,
                         const struct kind_params *params,
                         struct snib_cycle **cycles, size_t count)
{
    json_t *object, *array;

    if (!args->json) {
        why_print(all, view, params);
        for (size_t i = 0; i < count; i++) {
            if (why_in_cycle(cycles[i], view)) {
                why_print_cycle(all, cycles[i]);
            }
        }
        return;
    }
    object = show_json_answer();
    show_json_view(object, view, params);
    array = json_array();
    for (size_t i = 0; i < count; i++) {
        if (why_in_cycle(cycles[i], view)) {
            json_array_append_new(array, why_json_cycle(cycles[i]));
        }
    }
    json_object_set_new(object, "holders", cmd_why_json_holders(all, view));
    json_object_set_new(object, "deadlocks", array);
    show_json_print(object);
}

/* The lock of that name. One that is not in the list (a store may have none), or
 * cannot be shown there, is inspected by itself: that tells whether it is free, or
 * why nobody can tell. NULL: *ret_error says that. *ret_own: to be freed. */
static const struct snib_view *cmd_why_find(struct snib_client *client,
                                            const struct why_locks *all,
                                            const char *name,
                                            struct snib_view **ret_own,
                                            struct snib_error *ret_error)
{
    const struct snib_view *view = why_find(all, name, strlen(name));

    if (view != NULL && view->damage == NULL) {
        return view;
    }
    ret_error->code =
        snib_client_inspect(client, name, strlen(name), ret_own, ret_error);
    return *ret_own;
}

int cmd_why(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    const char *name = operands[0];
    struct snib_view *own = NULL;
    struct snib_error error = {0};
    struct why_locks all = {0};
    struct kind_params params;
    struct snib_cycle **cycles = NULL;
    size_t cycle_count = 0;
    const struct snib_view *view;
    int code = cli_check_name(args, name);

    (void)count;
    if (code != CLI_OK || (code = cli_open(args, &client)) != CLI_OK) {
        return code;
    }
    all.no_queue = storeurl_without_waiters(snib_client_url(client));
    error.code = snib_client_list(client, NULL, &all.views, &all.count, &error);
    if (error.code != SNIB_ERR_OK && error.code != SNIB_ERR_UNSUPPORTED) {
        return cli_fail(&error);
    }
    view = cmd_why_find(client, &all, name, &own, &error);
    if (view != NULL && view->waiter_count > 0) {
        error.code =
            snib_client_deadlocks(client, &cycles, &cycle_count, &error);
        if (error.code == SNIB_ERR_UNSUPPORTED) { /* nor are there any to see */
            error.code = SNIB_ERR_OK;
        }
    }
    if (error.code == SNIB_ERR_OK) {
        kind_params_get(client, name, strlen(name), &params);
        cmd_why_tell(args, &all, view, &params, cycles, cycle_count);
    }
    snib_view_free(own);
    snib_deadlocks_free(cycles, cycle_count);
    snib_views_free(all.views, all.count);
    return error.code != SNIB_ERR_OK ? cli_fail(&error) : show_end();
}
