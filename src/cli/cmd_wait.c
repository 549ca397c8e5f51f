/* cmd_wait.c — snib wait NAME: block until nobody holds it and no lock-delay
 * keeps it closed (with --kind: until that kind could be had), acquire nothing.
 *
 * It inspects the lock again and again, at first often, then twice a second. To
 * queue would delay those who want the lock, and a waiter that releases at once
 * still costs them time. So "free" was true a moment ago; a script that needs
 * the lock must use run.
 */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "cli/holder/selfwait.h"
#include "cli/store/look.h"
#include "cli/supervisor/plan.h"
#include "cli/supervisor/proc.h"
#include "cli/words/duration.h"
#include "cli/words/kinds.h"
#include "cli/words/text.h"
#include "cli/words/waitline.h"
#include "snib/inspect.h"
#include "snib/sys.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define MS          INT64_C(1000000)
#define PAUSE_LEAST (20 * MS)
#define PAUSE_MOST  (500 * MS)
#define LOOK_MOST   (250 * MS)
/* --wait 0: the time of one attempt, its own two seconds and the answer. */
#define ATTEMPT (2600 * MS)

/* Who takes no position in the queue is notified of nothing: so it looks, sleeps,
 * and looks again, and there is no descriptor to wait on. */
static void cmd_wait_sleep_ns(int64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / (1000 * MS)),
                          .tv_nsec = (long)(ns % (1000 * MS))};

    nanosleep(&ts, NULL);
}

/* Does none of these exclude the asker? Adds up the permits in use. */
static bool cmd_wait_lets_in(const struct snib_party *const *p, size_t count,
                             int64_t *used)
{
    for (size_t i = 0; i < count; i++) {
        if (kind_excludes(p[i]->kind)) {
            return false;
        }
        *used += p[i]->kind == SNIB_KIND_PERMITS ? (int64_t)p[i]->permits : 0;
    }
    return true;
}

/* Could a lock of that kind be had at this moment? Waiters are ahead of those
 * who come now. But between a release and the next grant the queue of a lock
 * that nobody holds is not empty either, so such a queue does not count. */
static bool cmd_wait_fits(const struct snib_view *view,
                          const struct kind_params *params, snib_kind kind,
                          uint32_t permits)
{
    int64_t used = 0;

    if (view->holder_count + view->closed_count == 0) {
        return params->latch == 0 &&
               (params->size < 0 || (int64_t)permits <= params->size);
    }
    if (kind_excludes(kind) || view->waiter_count > 0) {
        return false;
    }
    if (!cmd_wait_lets_in(view->holders, view->holder_count, &used) ||
        !cmd_wait_lets_in(view->closed_by, view->closed_count, &used)) {
        return false;
    }
    /* Permits of holders that are not shown cannot be counted. */
    return kind != SNIB_KIND_PERMITS || params->size < 0 ||
           (view->holders_more == 0 && (int64_t)permits <= params->size - used);
}

struct wish {
    const char *name;
    snib_kind kind;
    uint32_t permits;
    int64_t ahead_ns; /* since when a recovery could have begun and has not; 0:
                         that is not so                                      */
};

/* Somebody may hold it whom the server has forgotten. A recovery begins when
 * somebody wants a lock, and to look is not to want one. But as long as none has
 * begun nobody was let in; so who was forgotten has ended once it might have
 * been over, counted from the first look. But where replicas are missing an older
 * primary may go on with them: so from the first look by which they were there. */
static bool cmd_wait_recovers(const struct snib_view *view, struct wish *wish,
                              int64_t now)
{
    if (!view->recovery_ahead) {
        wish->ahead_ns = 0;
    } else if (wish->ahead_ns == 0 && view->replicas_missing == 0) {
        wish->ahead_ns = now;
    }
    return wish->ahead_ns != 0 ? (now - wish->ahead_ns) / MS < view->recovery_ms
                               : view->recovery_ms > 0;
}

/* More permits than the semaphore has are never free. But its size is in the
 * store and may be raised: so the result is "not acquired", not a usage
 * error. */
static bool cmd_wait_asks_too_much(const struct kind_params *params,
                                   const struct wish *wish,
                                   struct snib_error *error)
{
    struct text t = TEXT_IN(error->text);

    if (wish->kind != SNIB_KIND_PERMITS || params->size < 0 ||
        (int64_t)wish->permits <= params->size) {
        return false;
    }
    error->text[0] = '\0';
    text_add_shown(&t, wish->name, strlen(wish->name));
    text_addf(&t,
              ": %" PRIu32 " permit%s asked for and the semaphore has "
              "%" PRId64 " in all; %s it larger",
              wish->permits, wish->permits == 1 ? " was" : "s were",
              params->size, params->size ? "ask for fewer or make" : "make");
    return true;
}

/* OK: it could be had. BUSY: not yet; with *ret_never no wait would help. */
static snib_err cmd_wait_judge(struct wish *wish, struct waitline *line,
                               struct look_answer *a, bool *ret_never)
{
    struct snib_error *error = &a->error;
    int64_t now = proc_now();
    snib_err code;

    if (error->code != SNIB_ERR_OK) {
        return error->code;
    }
    code = !cmd_wait_recovers(a->view, wish, now) &&
                   cmd_wait_fits(a->view, &a->params, wish->kind, wish->permits)
               ? SNIB_ERR_OK
               : SNIB_ERR_BUSY;
    *ret_never = code == SNIB_ERR_BUSY &&
                 cmd_wait_asks_too_much(&a->params, wish, error);
    if (code == SNIB_ERR_BUSY && !*ret_never && now >= line->due_ns) {
        waitline_show(line, a->view, &a->params, now);
    }
    snib_view_free(a->view);
    return code;
}

static int cmd_wait_read_wish(const struct cli_args *args, struct wish *ret)
{
    struct plan plan = {.args = args};
    int code = plan_kind(&plan);

    ret->kind = plan.kind;
    ret->permits = plan.permits;
    return code;
}

/* A wait under way. */
struct vigil {
    struct snib_client *client;
    struct wish wish;
    struct waitline line;
    struct look *look; /* NULL: none is under way */
    struct look_answer last;
    int64_t until;
    bool once;  /* --wait 0: the first answer decides */
    bool never; /* more was asked for than there is */
    /* It ended before the limit: the last answer counts. */
    bool gave_up;
};

static bool cmd_wait_is_away(const struct vigil *v)
{
    struct snib_store_status status;

    snib_client_store_status(v->client, &status);
    return !status.reachable && status.error != SNIB_ERR_OK;
}

/* A store that cannot be reached, is silent, or cannot be used just now is
 * waited for like the lock. (An error about the name from a store that works is
 * final.) */
static bool cmd_wait_may_pass(const struct vigil *v, snib_err code)
{
    return (code == SNIB_ERR_BUSY && !v->never) ||
           (!v->once && (code == SNIB_ERR_UNREACHABLE ||
                         (code == SNIB_ERR_STORE && cmd_wait_is_away(v))));
}

/* Inspect for a quarter of a second at most, so that the store's state can be
 * shown in between. False: no thread could be started. */
static bool cmd_wait_look_again(struct vigil *v, bool *ret_answered)
{
    int64_t until = proc_now() + LOOK_MOST;

    if (v->look == NULL) {
        v->look = look_start(v->client, v->wish.name,
                             v->wish.kind == SNIB_KIND_PERMITS, -1);
    }
    if (v->look == NULL) {
        return false;
    }
    *ret_answered =
        look_take(v->look, until < v->until ? until : v->until, &v->last);
    if (*ret_answered) {
        v->look = NULL;
        v->last.error.code =
            cmd_wait_judge(&v->wish, &v->line, &v->last, &v->never);
    }
    return true;
}

static void cmd_wait_show_away(struct vigil *v)
{
    int64_t now = proc_now();

    if (now >= v->line.watch_ns) {
        waitline_watch(&v->line, v->client, now);
    }
    if (now >= v->line.due_ns) {
        waitline_away(&v->line, v->client, v->wish.name, now);
    }
}

static void cmd_wait_keep_vigil(struct vigil *v)
{
    int64_t pause = PAUSE_LEAST, now;
    bool answered = false;

    v->last.error = (struct snib_error){
        .code = SNIB_ERR_UNREACHABLE,
        .text = "the store did not tell within the wait limit who holds it"};
    do {
        if (!cmd_wait_look_again(v, &answered)) {
            v->last.error = (struct snib_error){.code = SNIB_ERR_LIMIT};
            v->gave_up = true;
            return;
        }
        if (answered &&
            (v->once || !cmd_wait_may_pass(v, v->last.error.code))) {
            v->gave_up = !cmd_wait_may_pass(v, v->last.error.code);
            return;
        }
        cmd_wait_show_away(v);
        now = proc_now();
        if (answered && now < v->until) {
            cmd_wait_sleep_ns(v->until - now < pause ? v->until - now : pause);
            pause = pause * 2 < PAUSE_MOST ? pause * 2 : PAUSE_MOST;
        }
    } while (now < v->until);
    look_drop(v->look);
}

/* The limit is over: was it the lock or the store that was missing? */
static int cmd_wait_say_end(const struct cli_args *args, struct vigil *v)
{
    char why[512] = "";
    struct text t = TEXT_IN(why);
    snib_err code = v->last.error.code;

    if (code == SNIB_ERR_OK) {
        return CLI_OK;
    }
    if (v->gave_up) {
        cli_fail(&v->last.error);
        return v->never ? cli_busy_status(args) : snib_err_exit(code);
    }
    if (waitline_store(&t, v->client)) {
        say("%s: %s", shown(v->wish.name), why);
        return CLI_UNREACHABLE;
    }
    if (code != SNIB_ERR_BUSY) {
        say("%s: %s", shown(v->wish.name), shown(cli_words(&v->last.error)));
        return snib_err_exit(code);
    }
    return cli_busy_status(args);
}

int cmd_wait(struct cli_args *args, int count, char **operands)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    static struct vigil v;
    int64_t start = proc_now();
    int code = cli_check_name(args, operands[0]);

    (void)count;
    v.wish.name = operands[0];
    if (code != CLI_OK ||
        (code = cmd_wait_read_wish(args, &v.wish)) != CLI_OK ||
        (code = cli_open(args, &client)) != CLI_OK) {
        return code;
    }
    v.client = client;
    v.once = args->wait_ms == 0;
    if (!v.once && (code = selfwait_check(args, client, v.wish.name,
                                          v.wish.kind)) != CLI_OK) {
        return code;
    }
    v.until = v.once               ? start + ATTEMPT
              : args->wait_ms >= 0 ? start + args->wait_ms * MS
                                   : INT64_MAX;
    waitline_init(&v.line, args->quiet || args->no_progress || v.once, start);
    cmd_wait_keep_vigil(&v);
    waitline_wipe(&v.line);
    return cmd_wait_say_end(args, &v);
}
