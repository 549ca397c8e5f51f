/* cmd_wait.c — snib wait NAME: block until nobody holds it and no lock-delay
 * keeps it closed (with --kind: until it could be had so), take nothing.
 *
 * It looks again and again, at first often, then twice a second: queueing up
 * would delay those who want the lock, and a waiter that lets go at once still
 * costs them a turn. So "free" is a fact of a moment ago: who needs the lock
 * uses run. */
#define _GNU_SOURCE
#include "cli.h"
#include "duration.h"
#include "kinds.h"
#include "plan.h"
#include "proc.h"
#include "text.h"
#include "waitline.h"

#include <inttypes.h>
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

/* Does nobody of these exclude it? Adds up the permits in use. */
static bool lets_in(const struct snib_party *p, size_t count, int64_t *used)
{
    for (size_t i = 0; i < count; i++) {
        if (kind_excludes(p[i].kind)) {
            return false;
        }
        *used += p[i].kind == SNIB_PERMITS ? (int64_t)p[i].permits : 0;
    }
    return true;
}

/* Could a lock of that kind be had at this moment? Who waits is ahead of
 * those who come now, but between a release and the next grant the queue of a
 * lock that nobody holds is not empty either. */
static bool fits(const struct snib_view *view, const struct kind_terms *terms,
                 snib_kind kind, uint32_t permits)
{
    int64_t used = 0;

    if (view->holder_count + view->closed_count == 0) {
        return terms->gate == 0 &&
               (terms->size < 0 || (int64_t)permits <= terms->size);
    }
    if (kind_excludes(kind) || view->waiter_count > 0) {
        return false;
    }
    if (!lets_in(view->holders, view->holder_count, &used) ||
        !lets_in(view->closed_by, view->closed_count, &used)) {
        return false;
    }
    return kind != SNIB_PERMITS || terms->size < 0 ||
           (int64_t)permits <= terms->size - used;
}

struct wish {
    const char *name;
    snib_kind kind;
    uint32_t permits;
};

/* More permits than the semaphore has are never free. */
static bool asks_too_much(const struct kind_terms *terms,
                          const struct wish *wish, struct snib_error *error)
{
    struct text t = TEXT_IN(error->text);

    if (wish->kind != SNIB_PERMITS || terms->size < 0 ||
        (int64_t)wish->permits <= terms->size) {
        return false;
    }
    error->text[0] = '\0';
    text_add_shown(&t, wish->name, strlen(wish->name));
    text_addf(&t,
              ": %" PRIu32 " permits were asked for and the semaphore has "
              "%" PRId64 " in all; ask for fewer or make it larger",
              wish->permits, terms->size);
    return true;
}

/* OK: it could be had. BUSY: not yet. */
static snib_err look(struct snib_client *client, const struct wish *wish,
                     struct waitline *line, struct snib_error *error)
{
    struct snib_view *view;
    struct kind_terms terms;
    snib_err code =
        snib_inspect(client, wish->name, strlen(wish->name), &view, error);
    int64_t now = proc_now();

    if (code != SNIB_ERR_OK) {
        return code;
    }
    if (view->holder_count == 0 || wish->kind == SNIB_PERMITS) {
        kind_terms_get(client, wish->name, strlen(wish->name), &terms);
    } else {
        kind_terms_for(client, view, &terms);
    }
    code = fits(view, &terms, wish->kind, wish->permits) ? SNIB_ERR_OK
           : asks_too_much(&terms, wish, error)          ? SNIB_ERR_USAGE
                                                         : SNIB_ERR_BUSY;
    if (code == SNIB_ERR_BUSY && now >= line->due_ns) {
        waitline_show(line, view, &terms, now);
    }
    snib_view_free(view);
    return code;
}

static int read_wish(const struct cli_args *args, struct wish *ret)
{
    struct plan plan = {.args = args};
    int code = plan_kind(&plan);

    ret->kind = plan.kind;
    ret->permits = plan.permits;
    return code;
}

int cmd_wait(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    struct wish wish = {.name = operands[0]};
    struct snib_error error = {0};
    struct waitline line;
    int64_t start = proc_now(), until = INT64_MAX, pause = PAUSE_LEAST;
    int code = cli_check_name(args, wish.name);

    (void)count;
    if (code != CLI_OK || (code = read_wish(args, &wish)) != CLI_OK ||
        (code = cli_open(args, &client)) != CLI_OK) {
        return code;
    }
    if (args->wait_ms >= 0) {
        until = start + args->wait_ms * MS;
    }
    waitline_init(&line, args->quiet || args->no_progress, start);
    for (;;) {
        int64_t now;

        error.code = look(client, &wish, &line, &error);
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
    return cli_busy_status(args);
}
