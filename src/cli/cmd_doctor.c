/* cmd_doctor.c — snib doctor: one line a finding, each with its remedy. Exit 0
 * when nothing failed, 78 when something did. */
#include "cli/cli.h"
#include "cli/store/storeurl.h"
#include "cli/words/show.h"
#include "snib/inspect.h"
#include "snib/sys.h"

#include <stdio.h>
#include <string.h>

struct findings {
    bool json, quiet; /* quiet: findings without a fault are left out */
    json_t *array;    /* of --json; NULL also without memory */
    bool failed;
};

static const char *cmd_doctor_level_text(snib_level level)
{
    switch (level) {
    case SNIB_LEVEL_OK:
        return "ok";
    case SNIB_LEVEL_WARN:
        return "warn";
    case SNIB_LEVEL_FAIL:
        return "fail";
    }
    return "?";
}

static json_t *cmd_doctor_text(const char *s)
{
    return show_json_text(s, strlen(s));
}

static void cmd_doctor_tell(void *data, const struct snib_finding *f)
{
    struct findings *all = data;

    all->failed = all->failed || f->level == SNIB_LEVEL_FAIL;
    if (all->json) {
        json_t *o = json_object();

        json_object_set_new(o, "level",
                            json_string(cmd_doctor_level_text(f->level)));
        json_object_set_new(o, "check", cmd_doctor_text(f->check));
        json_object_set_new(o, "text", cmd_doctor_text(f->text));
        json_object_set_new(o, "remedy", cmd_doctor_text(f->remedy));
        json_array_append_new(all->array, o);
        return;
    }
    if (all->quiet && f->level == SNIB_LEVEL_OK) {
        return;
    }
    printf("%-4s  %-12s %s\n", cmd_doctor_level_text(f->level), shown(f->check),
           shown(f->text));
    if (f->remedy[0] != '\0') {
        printf("                    -> %s\n", shown(f->remedy));
    }
}

/* The one finding about a path that only the command line can make. */
static void cmd_doctor_tell_relative(struct findings *all, const char *url)
{
    char text[700], remedy[700];

    if (storeurl_relative() == NULL) {
        return;
    }
    snprintf(text, sizeof text,
             "%s depends on the current directory: from another one it is "
             "another store, with locks of its own",
             shown_short(storeurl_relative()));
    snprintf(remedy, sizeof remedy, "write the whole path: %.600s", url);
    cmd_doctor_tell(all, &(struct snib_finding){.level = SNIB_LEVEL_WARN,
                                                .check = "path",
                                                .text = text,
                                                .remedy = remedy});
}

/* What makes the tables, for psql; nothing is asked of the store. */
static int cmd_doctor_schema(const struct cli_args *args)
{
    char text[SNIB_SCHEMA_TEXT];
    struct snib_error error = {0};
    const char *url = NULL;
    int code = storeurl_choose(args, &url);

    if (code != CLI_OK) {
        return code;
    }
    error.code = snib_store_schema(url != NULL ? url : "file:", text,
                                   sizeof text, &error);
    if (error.code != SNIB_ERR_OK) {
        return cli_fail_doctor(storeurl_blame(&error), false);
    }
    printf("%s", text);
    return show_end();
}

int cmd_doctor(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    struct findings all = {0};
    struct snib_error error = {0};
    int code;

    (void)count;
    (void)operands;
    if (args->schema) {
        return cmd_doctor_schema(args);
    }
    code = cli_open(args, &client);
    if (code != CLI_OK) {
        return code;
    }
    all.quiet = args->quiet;
    if (args->json) {
        all.json = true;
        all.array = json_array();
    } else if (!all.quiet) {
        printf("store %s\n", shown(snib_client_url(client)));
    }
    cmd_doctor_tell_relative(&all, snib_client_url(client));
    error.code = snib_client_doctor(client, cmd_doctor_tell, &all, &error);
    if (args->json) {
        json_t *object = show_json_answer();
        json_object_set_new(object, "store",
                            cmd_doctor_text(snib_client_url(client)));
        json_object_set_new(
            object, "ok",
            json_boolean(!all.failed && error.code == SNIB_ERR_OK));
        json_object_set_new(object, "findings", all.array);
        show_json_print(object);
    }
    code = show_end();
    if (error.code != SNIB_ERR_OK) {
        return cli_fail_doctor(&error, all.failed && !all.json);
    }
    return code != CLI_OK ? code : all.failed ? CLI_CONFIG : CLI_OK;
}
