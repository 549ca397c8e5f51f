/* cmd_list.c — snib list [GLOB]. --json: one object with all locks. */
#include "cli.h"
#include "duration.h"
#include "show.h"
#include "text.h"
#include "waitline.h"

#include <stdio.h>

static void print_json(struct snib_view **views, size_t count)
{
    json_t *object = json_object();
    json_t *locks = json_array();

    for (size_t i = 0; i < count; i++) {
        json_array_append_new(locks, show_json_view(views[i]));
    }
    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "locks", locks);
    show_json_print(object);
}

static void print_line(const struct snib_view *view)
{
    char line[1024] = "";
    struct text t = TEXT_IN(line);

    text_add_shown(&t, view->name, view->name_size);
    text_add(&t, ": ");
    waitline_holder(&t, view);
    if (view->waiter_count > 0) {
        text_addf(&t, "; %zu waiting", view->waiter_count);
    }
    printf("%s\n", line);
}

int cmd_list(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    struct snib_error error = {0};
    struct snib_view **views;
    size_t view_count;
    int code = cli_open(args, &client);

    if (code != CLI_OK) {
        return code;
    }
    error.code = snib_list(client, count > 0 ? operands[0] : NULL, &views,
                           &view_count, &error);
    if (error.code != SNIB_ERR_OK) {
        return cli_fail(&error);
    }
    if (args->json) {
        print_json(views, view_count);
    } else {
        for (size_t i = 0; i < view_count; i++) {
            print_line(views[i]);
        }
    }
    snib_views_free(views, view_count);
    return show_end();
}
