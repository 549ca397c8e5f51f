/* cmd_list.c — snib list [GLOB]. --json: one object with all locks. On a
 * terminal it prints columns and a header, elsewhere one line a lock. Locks that
 * cannot be shown come last, as errors: they are no data, and not free. */
#include "cli/cli.h"
#include "cli/words/duration.h"
#include "cli/words/show.h"
#include "cli/words/text.h"
#include "snib/inspect.h"
#include "snib/sys.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void cmd_list_print_json(struct snib_client *client,
                                struct snib_view **views, size_t count)
{
    json_t *object = show_json_answer();
    json_t *locks = json_array();

    for (size_t i = 0; i < count; i++) {
        struct kind_params params;
        json_t *one = json_object();

        if (views[i]->damage != NULL) {
            show_json_name(one, views[i]->name, views[i]->name_size);
            json_object_set_new(
                one, "damage",
                show_json_text(views[i]->damage, strlen(views[i]->damage)));
        } else {
            kind_params_for(client, views[i], &params);
            show_json_view(one, views[i], &params);
        }
        json_array_append_new(locks, one);
    }
    json_object_set_new(object, "locks", locks);
    show_json_print(object);
}

static void cmd_list_print_line(struct snib_client *client,
                                const struct snib_view *view)
{
    struct kind_params params;
    char line[1024] = "";
    struct text t = TEXT_IN(line);

    kind_params_for(client, view, &params);
    text_add_shown(&t, view->name, view->name_size);
    text_add(&t, ": ");
    kind_holders(&t, view, &params);
    if (view->waiter_count > 0) {
        text_addf(&t, "; %zu waiting", view->waiter_count);
    }
    printf("%s\n", line);
}

/* -- on a terminal: columns ----------------------------------------------- */

/* A cell is measured in columns, not bytes; a text that cannot be cut at a
 * column stays whole. */
static int cmd_list_columns_of(const char *s)
{
    int columns = 0;

    for (; *s != '\0'; s++) {
        columns += ((unsigned char)*s & 0xC0u) != 0x80u;
    }
    return columns;
}

static void cmd_list_print_cell(const char *s, int width)
{
    int pad = width - cmd_list_columns_of(s);

    printf("%s%*s  ", s, pad > 0 ? pad : 0, "");
}

static void cmd_list_shown_name(const struct snib_view *view, char *to,
                                size_t size)
{
    struct text t = {.bytes = to, .size = size};

    to[0] = '\0';
    text_add_shown(&t, view->name, view->name_size);
}

static int cmd_list_name_width(struct snib_view **views, size_t count)
{
    enum { LEAST = 4, MOST = 32 };
    char name[4 * SNIB_NAME_MAX + 1];
    int width = LEAST;

    for (size_t i = 0; i < count; i++) {
        int columns;

        cmd_list_shown_name(views[i], name, sizeof name);
        columns = cmd_list_columns_of(name);
        width = columns > width ? columns : width;
    }
    return width < MOST ? width : MOST;
}

static void cmd_list_print_row(struct snib_client *client,
                               const struct snib_view *view, int width)
{
    struct kind_params params;
    char name[4 * SNIB_NAME_MAX + 1], state[1024] = "";
    char lease[DURATION_TEXT_MAX] = "-", waiting[24];
    struct text t = TEXT_IN(state);
    int64_t left_ms = 0;

    kind_params_for(client, view, &params);
    cmd_list_shown_name(view, name, sizeof name);
    for (size_t i = 0; i < view->holder_count; i++) {
        left_ms = view->holders[i]->left_ms > left_ms
                      ? view->holders[i]->left_ms
                      : left_ms;
    }
    if (view->holder_count > 0) {
        kind_lease_text(left_ms, lease);
    }
    snprintf(waiting, sizeof waiting, "%zu", view->waiter_count);
    kind_holders(&t, view, &params);
    cmd_list_print_cell(name, width);
    cmd_list_print_cell(lease, 7);
    cmd_list_print_cell(waiting, 7);
    printf("%s\n", state);
}

static void cmd_list_print_table(struct snib_client *client,
                                 struct snib_view **views, size_t count)
{
    int width = cmd_list_name_width(views, count);

    cmd_list_print_cell("NAME", width);
    printf("LEASE    WAITING  STATE\n");
    for (size_t i = 0; i < count; i++) {
        cmd_list_print_row(client, views[i], width);
    }
}

/* Move those that can be shown to the front, and say what is wrong with the
 * others. How many can be. */
static size_t cmd_list_part(struct snib_view **views, size_t count)
{
    size_t whole = 0;

    for (size_t i = 0; i < count; i++) {
        struct snib_view *view = views[i];

        if (view->damage == NULL) {
            views[i] = views[whole];
            views[whole++] = view;
        }
    }
    return whole;
}

static int cmd_list_tell_damage(struct snib_view **views, size_t from,
                                size_t count)
{
    for (size_t i = from; i < count; i++) {
        char line[1024] = "";
        struct text t = TEXT_IN(line);

        text_add_shown(&t, views[i]->name, views[i]->name_size);
        say("%s%s%s", line, line[0] != '\0' ? ": " : "", views[i]->damage);
    }
    return from < count ? snib_err_exit(SNIB_ERR_CORRUPT) : CLI_OK;
}

int cmd_list(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    struct snib_error error = {0};
    struct snib_view **views;
    size_t view_count, whole;
    int code, damage;

    if (count > 0 && operands[0][0] == '\0') {
        return usage_error(args, "the glob is empty, it matches no name; "
                                 "expected for instance 'job-*', or none for "
                                 "all locks");
    }
    if ((code = cli_open(args, &client)) != CLI_OK) {
        return code;
    }
    error.code = snib_client_list(client, count > 0 ? operands[0] : NULL,
                                  &views, &view_count, &error);
    if (error.code != SNIB_ERR_OK) {
        return cli_fail(&error);
    }
    whole = cmd_list_part(views, view_count);
    if (args->json) {
        cmd_list_print_json(client, views, view_count);
    } else if (isatty(1)) {
        cmd_list_print_table(client, views, whole);
    } else {
        for (size_t i = 0; i < whole; i++) {
            cmd_list_print_line(client, views[i]);
        }
    }
    code = show_end();
    damage = cmd_list_tell_damage(views, whole, view_count);
    snib_views_free(views, view_count);
    return code != CLI_OK ? code : damage;
}
