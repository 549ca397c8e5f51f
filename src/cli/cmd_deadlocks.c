/* cmd_deadlocks.c — snib deadlocks: who waits in a circle. Exit 1 means that
 * there are some, as for grep and diff, whose status says what they found. */
#include "cli/cli.h"
#include "cli/store/storeurl.h"
#include "cli/words/show.h"
#include "cli/words/why.h"
#include "snib/inspect.h"

#include <stdio.h>

enum { FOUND = 1 };

static void cmd_deadlocks_print_json(struct snib_cycle **cycles, size_t count)
{
    json_t *object = show_json_answer(), *array = json_array();

    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array, why_json_cycle(cycles[i]));
    }
    json_object_set_new(object, "deadlocks", array);
    show_json_print(object);
}

/* The locks tell who holds above a waiter. Without them (the store is away by
 * now) the waiters are shown alone. */
static void cmd_deadlocks_print_words(struct snib_client *client,
                                      struct snib_cycle **cycles, size_t count)
{
    struct why_locks all = {0};

    if (count == 0) {
        printf("no deadlock\n");
        return;
    }
    if (snib_client_list(client, NULL, &all.views, &all.count, NULL) !=
        SNIB_ERR_OK) {
        all = (struct why_locks){0};
    }
    for (size_t i = 0; i < count; i++) {
        why_print_cycle(&all, cycles[i]);
    }
    snib_views_free(all.views, all.count);
}

int cmd_deadlocks(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    struct snib_error error = {0};
    struct snib_cycle **cycles;
    size_t cycle_count;
    const char *store;
    int code = cli_open(args, &client);

    (void)count;
    (void)operands;
    if (code != CLI_OK) {
        return code;
    }
    store = storeurl_without_search(snib_client_url(client));
    if (store != NULL) {
        say("deadlocks cannot be seen on %s, where nobody can see who waits "
            "for what; --wait ends such a wait",
            store);
        return CLI_CONFIG;
    }
    error.code = snib_client_deadlocks(client, &cycles, &cycle_count, &error);
    if (error.code != SNIB_ERR_OK) {
        return cli_fail(&error);
    }
    if (args->json) {
        cmd_deadlocks_print_json(cycles, cycle_count);
    } else {
        cmd_deadlocks_print_words(client, cycles, cycle_count);
    }
    snib_deadlocks_free(cycles, cycle_count);
    code = show_end();
    return code != CLI_OK ? code : cycle_count > 0 ? FOUND : CLI_OK;
}
