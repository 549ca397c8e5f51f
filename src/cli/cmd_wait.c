/* cmd_wait.c — snib wait NAME: block until nobody holds it, take nothing.
 *
 * It looks again and again, at first often, then twice a second: queueing up
 * would delay those who want the lock, and a waiter that lets go at once still
 * costs them a turn. So "free" is a fact of a moment ago: who needs the lock
 * uses run. */
#define _GNU_SOURCE
#include "cli.h"
#include "duration.h"
#include "proc.h"
#include "waitline.h"

#include <string.h>
#include <time.h>

#define MS          INT64_C(1000000)
#define PAUSE_LEAST (20 * MS)
#define PAUSE_MOST  (500 * MS)

static void sleep_ns(int64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / (1000 * MS)),
                          .tv_nsec = (long)(ns % (1000 * MS))};

    nanosleep(&ts, NULL);
}

/* OK: free. BUSY: not yet. */
static snib_err look(struct snib_client *client, const char *name,
                     struct waitline *line, struct snib_error *error)
{
    struct snib_view *view;
    snib_err code = snib_inspect(client, name, strlen(name), &view, error);
    int64_t now = proc_now();

    if (code != SNIB_ERR_OK) {
        return code;
    }
    code = view->holder_count == 0 ? SNIB_ERR_OK : SNIB_ERR_BUSY;
    if (code == SNIB_ERR_BUSY && now >= line->due_ns) {
        waitline_show(line, view, now);
    }
    snib_view_free(view);
    return code;
}

int cmd_wait(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    const char *name = operands[0];
    struct snib_error error = {0};
    struct waitline line;
    int64_t start = proc_now(), until = INT64_MAX, pause = PAUSE_LEAST;
    int code = cli_check_name(args, name);

    (void)count;
    if (code != CLI_OK || (code = cli_open(args, &client)) != CLI_OK) {
        return code;
    }
    if (args->wait_ms >= 0) {
        until = start + args->wait_ms * MS;
    }
    waitline_init(&line, args->quiet || args->no_progress, start);
    for (;;) {
        int64_t now;

        error.code = look(client, name, &line, &error);
        now = proc_now();
        if (error.code != SNIB_ERR_BUSY || now >= until) {
            break;
        }
        sleep_ns(until - now < pause ? until - now : pause);
        pause = pause * 2 < PAUSE_MOST ? pause * 2 : PAUSE_MOST;
    }
    waitline_wipe(&line);
    if (error.code == SNIB_ERR_OK) {
        return CLI_OK;
    }
    if (error.code != SNIB_ERR_BUSY) {
        return cli_fail(&error);
    }
    return args->busy_ok          ? CLI_OK
           : args->busy_exit >= 0 ? (int)args->busy_exit
                                  : CLI_NOT_ACQUIRED;
}
