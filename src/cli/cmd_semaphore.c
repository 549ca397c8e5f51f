/* cmd_semaphore.c — snib semaphore NAME: show it, or change its size. Permits
 * are taken by snib run, try and acquire --kind semaphore. */
#include "cli/cli.h"
#include "cli/words/show.h"
#include "snib/semaphore.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int cmd_semaphore_check(const struct cli_args *args)
{
    int wishes = (args->set_to >= 0) + (args->init_to >= 0) +
                 (args->add_by != CLI_NO_NUMBER);

    if (wishes > 1) {
        return usage_error(args, "--set, --init and --add exclude each other");
    }
    if (args->add_by == 0) {
        return usage_error(args, "--add: 0 permits change nothing");
    }
    return CLI_OK;
}

static void cmd_semaphore_print_words(const char *name,
                                      const struct snib_semaphore *s)
{
    printf("%s: ", shown(name));
    if (s->size < 0) {
        printf("no size yet, %" PRId64 " permits in use", s->used);
    } else {
        printf("%" PRId64 " of %" PRId64 " permits in use, ", s->used, s->size);
    }
    if (s->size >= 0 && s->available >= 0) {
        printf("%" PRId64 " available", s->available);
    } else if (s->size >= 0) {
        printf("none available before %" PRId64 " come back", 1 - s->available);
    }
    if (s->waiting > 0) {
        printf(", %" PRId64 " waiting", s->waiting);
    }
    putchar('\n');
}

/* set: what --init did, if it was given. */
static int cmd_semaphore_show_semaphore(const struct cli_args *args,
                                        const char *name,
                                        const struct snib_semaphore *s,
                                        const bool *set)
{
    json_t *object;

    if (!args->json) {
        cmd_semaphore_print_words(name, s);
        return show_end();
    }
    object = show_json_answer();
    show_json_name(object, name, strlen(name));
    json_object_set_new(object, "size",
                        s->size < 0 ? json_null() : json_integer(s->size));
    json_object_set_new(object, "used", json_integer(s->used));
    json_object_set_new(object, "available",
                        s->size < 0 ? json_null() : json_integer(s->available));
    json_object_set_new(object, "waiting", json_integer(s->waiting));
    if (set != NULL) {
        json_object_set_new(object, "set", json_boolean(*set));
    }
    show_json_print(object);
    return show_end();
}

static snib_err cmd_semaphore_change(const struct cli_args *args,
                                     struct snib_client *client,
                                     const char *name, bool *ret_set,
                                     struct snib_error *error)
{
    bool init = args->init_to >= 0;

    if (args->add_by != CLI_NO_NUMBER) {
        return snib_semaphore_add(client, name, strlen(name), args->add_by,
                                  error);
    }
    return snib_semaphore_set(client, name, strlen(name),
                              (uint32_t)(init ? args->init_to : args->set_to),
                              init, ret_set, error);
}

int cmd_semaphore(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    const char *name = operands[0];
    struct snib_error error = {0};
    struct snib_semaphore s;
    bool set = true, changes;
    int code = cli_check_name(args, name);

    (void)count;
    if (code != CLI_OK || (code = cmd_semaphore_check(args)) != CLI_OK ||
        (code = cli_open(args, &client)) != CLI_OK) {
        return code;
    }
    changes = args->set_to >= 0 || args->init_to >= 0 ||
              args->add_by != CLI_NO_NUMBER;
    if (changes) {
        error.code = cmd_semaphore_change(args, client, name, &set, &error);
    }
    if (error.code == SNIB_ERR_CONFIG && args->add_by != CLI_NO_NUMBER) {
        say("%s: it has no size yet; use --set N or --init N", shown(name));
        return CLI_CONFIG;
    }
    if (error.code == SNIB_ERR_OK && !(changes && args->quiet)) {
        error.code = snib_semaphore_get(client, name, strlen(name), &s,
                                        sizeof s, &error);
    }
    if (error.code != SNIB_ERR_OK) {
        return cli_fail(&error);
    }
    if (!set && !args->quiet) {
        say("%s: it has a size already; nothing was changed", shown(name));
    }
    return changes && args->quiet
               ? CLI_OK
               : cmd_semaphore_show_semaphore(args, name, &s,
                                              args->init_to >= 0 ? &set : NULL);
}
