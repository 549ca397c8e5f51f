/* cmd_list.c — snib list [GLOB]. --json: one object with all locks. */
#include "cli.h"
#include "duration.h"
#include "show.h"
#include "text.h"

#include <stdio.h>

static void print_json(struct snib_client *client, struct snib_view **views,
                       size_t count)
{
    json_t *object = json_object();
    json_t *locks = json_array();

    for (size_t i = 0; i < count; i++) {
        struct kind_terms terms;

        kind_terms_for(client, views[i], &terms);
        json_array_append_new(locks, show_json_view(views[i], &terms));
    }
    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "locks", locks);
    show_json_print(object);
}

static void print_line(struct snib_client *client, const struct snib_view *view)
{
    struct kind_terms terms;
    char line[1024] = "";
    struct text t = TEXT_IN(line);

    kind_terms_for(client, view, &terms);
    text_add_shown(&t, view->name, view->name_size);
    text_add(&t, ": ");
    kind_holders(&t, view, &terms);
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
    int code;

    if (count > 0 && operands[0][0] == '\0') {
        return usage_error(args, "the glob is empty, it matches no name; "
                                 "expected for instance 'job-*', or none for "
                                 "all locks");
    }
    if ((code = cli_open(args, &client)) != CLI_OK) {
        return code;
    }
    error.code = snib_list(client, count > 0 ? operands[0] : NULL, &views,
                           &view_count, &error);
    if (error.code != SNIB_ERR_OK) {
        return cli_fail(&error);
    }
    if (args->json) {
        print_json(client, views, view_count);
    } else {
        for (size_t i = 0; i < view_count; i++) {
            print_line(client, views[i]);
        }
    }
    snib_views_free(views, view_count);
    return show_end();
}
