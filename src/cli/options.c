/* options.c — one parser and one --help for all sub-commands, from tables.
 *
 * Not getopt_long: it permutes operands (the command's options would become
 * snib's), accepts abbreviations (a script breaks when an option is added), and
 * its tables cannot carry types and help.
 *
 * The rules here:
 * - What begins with a dash is an option, up to the `--` where there is one,
 *   else up to the operand with which the command begins. So an option behind
 *   the name is not taken for another name.
 * - `--name value`, `--name=value`, `-n value` and `-nvalue` are the same, and
 *   flags may share a dash (-qv).
 * - An option with a value that is given twice is an error, because one of the
 *   two was not meant.
 * - Without the `--` there is one name: a second --name would be taken for the
 *   command.
 * - Operands are moved to the front of argv, in their order.
 */
#include "cli/cli.h"
#include "cli/supervisor/signame.h"
#include "cli/supervisor/supervisor_step.h"
#include "cli/words/duration.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MOST = 64 };

struct parse {
    const struct option_row *rows;
    struct cli_args *args;
    int argc;
    char **argv;
    int at;
    int operands;      /* so far, at the front of argv */
    int names_most;    /* by --name; more need the `--` */
    const char *label; /* for errors: "--wait", "SNIB_WAIT" */
    char dashed[40];   /* the bytes of such a label */
    bool seen[OPTIONS_MOST];
};

void options_defaults(struct cli_args *args)
{
    *args = (struct cli_args){
        .wait_ms = CLI_UNSET,
        .ttl_ms = CLI_UNSET,
        .ttl_label = "--ttl",
        .grace_ms = CLI_UNSET,
        .max_run_ms = 0,
        .permits = -1,
        .capacity = -1,
        .priority = -1,
        .lock_delay_ms = -1,
        .set_to = -1,
        .init_to = -1,
        .down_by = -1,
        .parties = -1,
        .add_by = CLI_NO_NUMBER,
        .busy_exit = -1,
        .status_fd = -1,
        .on_lost = SUPERVISOR_LOST_KILL,
        .holder_pid = -1,
        .margin_ms = CLI_UNSET,
        .pause_ms = CLI_UNSET,
    };
}

static void *options_field(const struct parse *p, const struct option_row *row)
{
    return (char *)p->args + row->offset;
}

static bool options_parse_number(const char *text, int64_t most, int64_t *ret)
{
    int64_t number = 0;

    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        number = number * 10 + (*text - '0');
        if (number > most) {
            return false;
        }
    }
    *ret = number;
    return true;
}

static bool options_parse_signed(const char *text, int64_t most, int64_t *ret)
{
    bool minus = *text == '-';
    int64_t number;

    if (!options_parse_number(text + (minus || *text == '+'), most, &number)) {
        return false;
    }
    *ret = minus ? -number : number;
    return true;
}

static bool options_parse_on_lost(struct cli_args *args, const char *text)
{
    if (strcmp(text, "kill") == 0) {
        args->on_lost = SUPERVISOR_LOST_KILL;
        return true;
    }
    if (strcmp(text, "ignore") == 0) {
        args->on_lost = SUPERVISOR_LOST_IGNORE;
        return true;
    }
    if (strncmp(text, "signal:", 7) == 0) {
        int sig = signame_parse(text + 7);

        args->on_lost = SUPERVISOR_LOST_SIGNAL;
        args->lost_signal = sig;
        return sig > 0;
    }
    return false;
}

static bool options_takes_value(const struct option_row *row)
{
    return row->type != OPTION_FLAG;
}

static bool options_set_on_lost(struct parse *p, const char *value)
{
    static const char by_signal[] = "signal:";

    if (options_parse_on_lost(p->args, value)) {
        return true;
    }
    if (strncmp(value, by_signal, strlen(by_signal)) == 0) {
        usage_error(p->args,
                    "%s: '%s' is no signal; expected a name such as TERM, or "
                    "a number",
                    p->label, shown_short(value + strlen(by_signal)));
    } else {
        usage_error(p->args, "%s: '%s' is not kill, ignore or signal:NAME",
                    p->label, shown_short(value));
    }
    return false;
}

/* value is never NULL; for a flag it is ignored. */
static bool options_set_value(struct parse *p, const struct option_row *row,
                              const char *value)
{
    const char *why = NULL;

    switch (row->type) {
    case OPTION_FLAG:
        *(bool *)options_field(p, row) = true;
        return true;
    case OPTION_TEXT:
        *(const char **)options_field(p, row) = value;
        return true;
    case OPTION_OPERAND:
        if (p->operands >= p->names_most) {
            usage_error(p->args, "several names need a -- before the command");
            return false;
        }
        p->argv[p->operands++] = (char *)value;
        return true;
    case OPTION_DURATION:
        if (!duration_parse(value, row->extra, options_field(p, row), &why)) {
            usage_error(p->args, "%s: '%s': %s", p->label, shown_short(value),
                        why);
            return false;
        }
        return true;
    case OPTION_NUMBER:
    case OPTION_STEPS:
        if (!options_parse_number(value, row->most, options_field(p, row))) {
            usage_error(p->args,
                        "%s: '%s' is not a whole number from %u to %" PRId64,
                        p->label, shown_short(value), row->extra, row->most);
            return false;
        }
        return true;
    case OPTION_SIGNED:
        if (!options_parse_signed(value, row->most, options_field(p, row))) {
            usage_error(p->args,
                        "%s: '%s' is not a whole number from -%" PRId64
                        " to %" PRId64,
                        p->label, shown_short(value), row->most, row->most);
            return false;
        }
        return true;
    case OPTION_ON_LOST:
        return options_set_on_lost(p, value);
    }
    return false;
}

static bool options_apply(struct parse *p, const struct option_row *row,
                          const char *value)
{
    size_t index = (size_t)(row - p->rows);

    if (options_takes_value(row) && row->type != OPTION_OPERAND &&
        p->seen[index]) {
        usage_error(p->args, "--%s is given twice", row->name);
        return false;
    }
    p->seen[index] = true;
    snprintf(p->dashed, sizeof p->dashed, "--%s", row->name);
    p->label = p->dashed;
    return options_set_value(p, row, value);
}

/* Take the value from the next argument. */
static const char *options_next_value(struct parse *p,
                                      const struct option_row *row)
{
    if (p->at + 1 >= p->argc) {
        usage_error(p->args, "--%s needs %s", row->name, row->arg);
        return NULL;
    }
    if (strcmp(p->argv[p->at + 1], "--") == 0) {
        usage_error(p->args, "--%s needs %s before the --", row->name,
                    row->arg);
        return NULL;
    }
    return p->argv[++p->at];
}

/* The value for --name without `=value`. NULL: an error was said. */
static const char *options_value_left_out(struct parse *p,
                                          const struct option_row *row)
{
    if (!options_takes_value(row)) {
        return "";
    }
    return row->type == OPTION_STEPS ? "1" : options_next_value(p, row);
}

static bool options_parse_long(struct parse *p, const char *text)
{
    size_t length = strcspn(text, "=");
    const char *value = text[length] == '=' ? text + length + 1 : NULL;

    for (const struct option_row *row = p->rows; row->name != NULL; row++) {
        if (strlen(row->name) != length ||
            strncmp(row->name, text, length) != 0) {
            continue;
        }
        if (!options_takes_value(row) && value != NULL) {
            usage_error(p->args, "--%s takes no value", row->name);
            return false;
        }
        if (value == NULL) {
            value = options_value_left_out(p, row);
        }
        return value != NULL && options_apply(p, row, value);
    }
    if (strcmp(text, "no-keeper") == 0) {
        usage_error(p->args, "--no-keeper is called --detached now");
        return false;
    }
    usage_error(p->args, "unknown option --%s%s", shown_short(text),
                p->operands == 0
                    ? ""
                    : "; a command's own options stand behind it, a name that "
                      "begins with - is written --name=-x");
    return false;
}

static const struct option_row *options_find_letter(const struct parse *p,
                                                    char letter)
{
    for (const struct option_row *row = p->rows; row->name != NULL; row++) {
        if (row->letter == letter && letter != '\0') {
            return row;
        }
    }
    return NULL;
}

static bool options_parse_letters(struct parse *p, const char *text)
{
    for (; *text != '\0'; text++) {
        const struct option_row *row = options_find_letter(p, *text);

        if (row == NULL) {
            char letter[2] = {*text, '\0'};

            usage_error(p->args, "unknown option -%s", shown_short(letter));
            return false;
        }
        if (options_takes_value(row)) {
            const char *value =
                text[1] != '\0' ? text + 1 : options_next_value(p, row);

            return value != NULL && options_apply(p, row, value);
        }
        if (!options_apply(p, row, "")) {
            return false;
        }
    }
    return true;
}

/* Options that were not given take the value of their variable (SNIB_WAIT). */
static bool options_take_environment(struct parse *p)
{
    for (const struct option_row *row = p->rows; row->name != NULL; row++) {
        const char *value = row->env != NULL ? getenv(row->env) : NULL;

        if (value == NULL || value[0] == '\0' || p->seen[row - p->rows]) {
            continue;
        }
        p->label = row->env;
        if (!options_set_value(p, row, value)) {
            return false;
        }
        if (row->offset == offsetof(struct cli_args, ttl_ms)) {
            p->args->ttl_label = row->env; /* its bounds are looked at later */
        }
    }
    return true;
}

/* The remaining arguments are operands. */
static void options_keep_rest(struct parse *p)
{
    while (p->at < p->argc) {
        p->argv[p->operands++] = p->argv[p->at++];
    }
    p->argv[p->operands] = NULL;
}

static bool options_has_dashes(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            return true;
        }
    }
    return false;
}

static bool options_is_operand(const char *text)
{
    return text[0] != '-' || text[1] == '\0';
}

static bool options_parse_one(struct parse *p, const char *text)
{
    if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
        p->args->help = true;
        return true;
    }
    if (strcmp(text, "--version") == 0) {
        p->args->version = true;
        return true;
    }
    return text[1] == '-' ? options_parse_long(p, text + 2)
                          : options_parse_letters(p, text + 1);
}

bool options_parse(const struct option_row *rows, struct cli_args *args,
                   int most, int argc, char **argv, int *ret_operands)
{
    struct parse p = {.rows = rows, .args = args, .argc = argc, .argv = argv};
    bool dashes = most > 0 && options_has_dashes(argc, argv);

    p.names_most = dashes ? argc : most;
    for (; p.at < argc && !args->help && !args->version; p.at++) {
        char *text = argv[p.at];

        if (strcmp(text, "--") == 0 && most > 0) {
            args->has_dashes = true;
            args->before_dashes = p.operands;
            p.at++;
            break;
        }
        if (options_is_operand(text)) {
            if (!dashes && p.operands >= most) {
                break;
            }
            argv[p.operands++] = text;
        } else if (!options_parse_one(&p, text)) {
            return false;
        }
    }
    *ret_operands = p.operands + (argc - p.at);
    options_keep_rest(&p);
    return args->help || args->version || options_take_environment(&p);
}

/* -- help ----------------------------------------------------------------- */

enum { HELP_COLUMN = 26, HELP_WIDTH = 79 };

static void options_print_wrapped(FILE *to, const char *text)
{
    int column = HELP_COLUMN;

    while (*text != '\0') {
        int length = (int)strcspn(text, " ");

        if (column + length >= HELP_WIDTH && column > HELP_COLUMN) {
            fprintf(to, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        }
        fprintf(to, "%s%.*s", column > HELP_COLUMN ? " " : "", length, text);
        column += length + (column > HELP_COLUMN);
        text += length + (text[length] == ' ');
    }
    putc('\n', to);
}

static void options_print_option(FILE *to, const struct option_row *row)
{
    char left[64];
    int used;

    used = snprintf(left, sizeof left, "  %c%c%s --%s%s%s",
                    row->letter != '\0' ? '-' : ' ',
                    row->letter != '\0' ? row->letter : ' ',
                    row->letter != '\0' ? "," : " ", row->name,
                    row->arg != NULL && row->type != OPTION_STEPS ? " " : "",
                    row->arg != NULL ? row->arg : "");
    fprintf(to, "%s", left);
    if (used >= HELP_COLUMN) {
        fprintf(to, "\n%*s", HELP_COLUMN, "");
    } else {
        fprintf(to, "%*s", HELP_COLUMN - used, "");
    }
    options_print_wrapped(to, row->help);
}

static bool options_has_durations(const struct subcommand *sub)
{
    for (const struct option_row *row = sub->options; row->name != NULL;
         row++) {
        if (row->type == OPTION_DURATION) {
            return true;
        }
    }
    return false;
}

void options_print(FILE *to, const struct option_row *rows)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        options_print_option(to, row);
    }
}

void options_help(const struct subcommand *sub)
{
    bool any = sub->options->name != NULL;

    printf("Usage: snib %s%s%s%s\n\n%s\n%s", sub->name, any ? " [OPTIONS]" : "",
           sub->operands[0] != '\0' ? " " : "", sub->operands, sub->summary,
           any ? "\nOptions:\n" : "");
    options_print(stdout, sub->options);
    printf("\n%sManual: snib-%s(1).\n",
           options_has_durations(sub)
               ? "Durations carry a unit: 250ms, 30s, 5m, 2h. "
               : "",
           sub->name);
}
