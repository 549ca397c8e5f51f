/* cmd_status.c — snib status NAME. */
#include "cli/cli.h"
#include "cli/store/storeurl.h"
#include "cli/words/show.h"
#include "snib/inspect.h"

#include <stdio.h>
#include <string.h>

int cmd_status(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    struct snib_error error = {0};
    struct snib_view *view;
    struct kind_params params;
    int code = cli_check_name(args, operands[0]);

    (void)count;
    if (code != CLI_OK || (code = cli_open(args, &client)) != CLI_OK) {
        return code;
    }
    error.code = snib_client_inspect(client, operands[0], strlen(operands[0]),
                                     &view, &error);
    if (error.code != SNIB_ERR_OK) {
        return cli_fail(&error);
    }
    kind_params_get(client, operands[0], strlen(operands[0]), &params);
    if (args->json) {
        json_t *object = show_json_answer();

        show_json_view(object, view, &params);
        show_json_print(object);
    } else {
        const char *store = storeurl_without_waiters(snib_client_url(client));

        show_view(view, &params);
        if (view->holder_count > 0 && view->waiter_count == 0 &&
            store != NULL) {
            printf("  %-8s cannot be seen on %s\n", "waiting", store);
        }
    }
    snib_view_free(view);
    return show_end();
}
