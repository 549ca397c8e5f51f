/* cmd_elect.c — snib elect: run a command while this host leads.
 *
 * The election is a mutex, the leader its holder, the term's number the token.
 * A term is what `snib run` does once, by the same supervisor and holder: the
 * command is dead before anybody else can lead. Then snib campaigns again.
 *
 * What ends the program and what does not. The command's end is the end of the
 * term, not of the program: a leader whose work is done, or crashed, lets the
 * next candidate lead. (consul lock ends with its command, whatever its status,
 * and leaves the loop to a supervisor; here the loop is the purpose.) The
 * program rests before it campaigns again, longer with each failure in a row,
 * so that a command that cannot work does not win every second term.
 *
 * An error that no further try can mend ends the program: a command that is not
 * there, a wrong set-up, a refused login. An unreachable store is waited for as
 * a lock is. Only before the first term, when the set-up may be wrong, a limit
 * that it outlasts ends the program, as a host name that does not exist does. A
 * signal that asks to end is forwarded, and ends the program with the command,
 * even if that exits 0.
 *
 * --observe only watches (snib/elect.h) and prints a line a change.
 */
#define _GNU_SOURCE
#include "cli/supervisor/supervisor.h"
#include "cli/words/duration.h"
#include "cli/words/show.h"
#include "cli/words/text.h"
#include "cli/words/waitline.h"
#include "snib/elect.h"
#include "snib/sys.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PAUSE_MS     INT64_C(1000)
#define PAUSE_MOST   INT64_C(60000)
#define LOOK_AGAIN_S 1

/* -- terms ---------------------------------------------------------------- */

struct campaign {
    const struct cli_args *args;
    const char *name;
    bool led;     /* it led once, so the set-up is right */
    int failures; /* of the command, in a row */
};

static int64_t cmd_elect_pause_after(const struct campaign *c)
{
    int64_t ms = c->args->pause_ms == CLI_UNSET ? PAUSE_MS : c->args->pause_ms;
    int64_t most = ms > PAUSE_MOST ? ms : PAUSE_MOST;

    for (int i = 1; i < c->failures && ms < most; i++) {
        ms *= 2;
    }
    return ms < most ? ms : most;
}

/* No command ran: may it be different the next time? */
static bool cmd_elect_worth_again(const struct campaign *c,
                                  const struct supervisor_term *t)
{
    switch (t->why) {
    case SUPERVISOR_CAUSE_UNREACHABLE:
    case SUPERVISOR_CAUSE_STORE:
        return c->led;
    case SUPERVISOR_CAUSE_HOLDER: /* killed while it waited in the queue */
        return true;
    default:
        return false;
    }
}

/* Ctrl-C goes only to the command when it has the terminal, and so does the end
 * of the session: a signal of these kinds that ended it was meant for snib,
 * too. */
static bool cmd_elect_ended_by_user(const struct supervisor_term *t)
{
    return t->why == SUPERVISOR_CAUSE_SIGNALLED &&
           (t->code == CLI_SIGNAL + SIGINT || t->code == CLI_SIGNAL + SIGQUIT ||
            t->code == CLI_SIGNAL + SIGHUP);
}

static int64_t cmd_elect_next_term(void *data, const struct supervisor_term *t)
{
    struct campaign *c = data;
    char pause[DURATION_TEXT_MAX];
    int64_t ms;

    if (!t->ran && !cmd_elect_worth_again(c, t)) {
        return SUPERVISOR_ENOUGH;
    }
    c->led = c->led || t->ran;
    if (c->args->once && t->ran) {
        return SUPERVISOR_ENOUGH;
    }
    if (cmd_elect_ended_by_user(t)) {
        return SUPERVISOR_ENOUGH;
    }
    if (t->why == SUPERVISOR_CAUSE_HOLDER || (t->by_command && t->code != 0)) {
        c->failures++;
    } else if (t->ran) {
        c->failures = 0;
    }
    ms = cmd_elect_pause_after(c);
    if (!c->args->quiet) {
        duration_text(ms, pause);
        say("%s: the term is over, the command has ended (%s, exit %d); next "
            "campaign in %s",
            shown(c->name), supervisor_why_text(t->why), t->code, pause);
    }
    return ms;
}

/* -- observing ------------------------------------------------------------ */

static void cmd_elect_since_text(int64_t ms, char *to, size_t size)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    strftime(to, size, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static json_t *cmd_elect_text(const char *s)
{
    return show_json_text(s, strlen(s));
}

static void cmd_elect_print_json(const char *name, const struct snib_leader *l)
{
    json_t *o = show_json_answer(), *who = l->term != 0 ? json_object() : NULL;

    json_object_set_new(o, "name", cmd_elect_text(name));
    json_object_set_new(o, "term",
                        l->term == SNIB_TERM_NOT_KNOWN ? json_null()
                                                       : json_integer(l->term));
    if (who != NULL) {
        json_object_set_new(who, "id", cmd_elect_text(l->id));
        json_object_set_new(who, "client", cmd_elect_text(l->client_id));
        json_object_set_new(who, "host", cmd_elect_text(l->host));
        json_object_set_new(who, "pid", json_integer(l->pid));
        json_object_set_new(who, "user", cmd_elect_text(l->user));
        json_object_set_new(who, "program", cmd_elect_text(l->program));
        json_object_set_new(who, "since_ms", json_integer(l->since_ms));
        json_object_set_new(who, "left_ms", json_integer(l->left_ms));
    }
    json_object_set_new(o, "leader", who != NULL ? who : json_null());
    json_object_set_new(o, "candidates",
                        json_integer((json_int_t)l->candidates));
    show_json_print(o);
}

static void cmd_elect_print_text(const char *name, const struct snib_leader *l)
{
    char line[1024] = "", since[32];
    struct text t = TEXT_IN(line);

    text_add_shown(&t, name, strlen(name));
    if (l->term == 0) {
        text_add(&t, ": no leader");
    } else {
        text_add(&t, ": led by ");
        waitline_party(&t, &(struct snib_party){.host = l->host,
                                                .pid = l->pid,
                                                .user = l->user,
                                                .reason = l->id,
                                                .program = l->program});
        if (l->since_ms != 0) { /* else the store does not know */
            cmd_elect_since_text(l->since_ms, since, sizeof since);
            text_addf(&t, " since %s", since);
        }
        if (l->term != SNIB_TERM_NOT_KNOWN) {
            text_addf(&t, ", term %" PRId64, l->term);
        }
    }
    printf("%s\n", line);
}

/* The store is unreachable: say so once, try again. True: go on. Nothing tells
 * when it is back, so it is asked, once a second. */
static bool cmd_elect_look_again(const struct snib_error *error, bool seen,
                                 bool *said)
{
    struct timespec pause = {.tv_sec = LOOK_AGAIN_S};

    if (!seen || snib_err_exit(error->code) != CLI_UNREACHABLE) {
        return false;
    }
    if (!*said) {
        say("%s; trying again every second", error->text);
    }
    *said = true;
    nanosleep(&pause, NULL);
    return true;
}

static int cmd_elect_observe(const struct cli_args *args, const char *name)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    struct snib_elect *elect;
    struct snib_error error = {0};
    bool seen = false, said = false;
    int64_t known = 0;
    int code = cli_open(args, &client);

    if (code != CLI_OK) {
        return code;
    }
    error.code = snib_elect_new(client, name, NULL, &elect, &error);
    if (error.code != SNIB_ERR_OK) {
        return cli_fail(&error);
    }
    do {
        struct snib_leader *leader;

        error.code = seen ? snib_elect_watch(elect, known, &leader, &error)
                          : snib_elect_leader(elect, &leader, &error);
        if (error.code != SNIB_ERR_OK) {
            code = cmd_elect_look_again(&error, seen, &said) ? CLI_OK
                                                             : cli_fail(&error);
            continue;
        }
        seen = true;
        said = false;
        known = leader->term;
        if (args->json) {
            cmd_elect_print_json(name, leader);
        } else {
            cmd_elect_print_text(name, leader);
        }
        snib_leader_free(leader);
        code = show_end();
    } while (code == CLI_OK && !args->once);
    snib_elect_free(elect);
    return code;
}

/* -- the sub-command ------------------------------------------------------ */

static int cmd_elect_check(const struct cli_args *args, size_t names,
                           char **operands, char **command)
{
    if (names != 1) {
        return usage_error(args, "%zu names; an election has one", names);
    }
    if (args->observe && command != NULL) {
        return usage_error(args, "--observe only watches: it takes no command");
    }
    if (args->observe && args->wait_ms != CLI_UNSET) {
        return usage_error(args, "--wait is for a campaign; --observe goes on "
                                 "until it is ended, or tells once (--once)");
    }
    if (!args->observe && args->json) {
        return usage_error(args, "--json is for --observe; see --status-fd");
    }
    if (!args->observe && command == NULL) {
        return usage_error(args, "the command is missing; expected NAME -- "
                                 "COMMAND…, or --observe NAME");
    }
    return cli_check_name(args, operands[0]);
}

int cmd_elect(struct cli_args *args, int count, char **operands)
{
    static struct plan plan;
    struct campaign campaign = {.args = args, .name = operands[0]};
    size_t names;
    char **command;
    int code;

    plan_split(args, count, operands, &names, &command);
    code = cmd_elect_check(args, names, operands, command);
    if (code != CLI_OK) {
        return code;
    }
    if (args->observe) {
        return cmd_elect_observe(args, operands[0]);
    }
    code = plan_make(&plan, args, (const char **)operands, names, command);
    if (code != CLI_OK) {
        return code;
    }
    plan.program = command[0];
    plan.elect = true;
    return supervisor_repeat(&plan, cmd_elect_next_term, &campaign);
}
