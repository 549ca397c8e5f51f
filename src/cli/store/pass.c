/* pass.c — see pass.h.
 *
 * A wait that can be interrupted: it is started (snib/latch.h), and one poll
 * waits for its event and for signals. The first signal cancels the wait, so
 * that a party that gives up is not counted any more and nobody waits behind a
 * dead waiter. The second one ends the process as usual. A party that was let
 * through before the signal was seen has passed.
 */
#define _GNU_SOURCE
#include "cli/store/pass.h"
#include "cli/store/look.h"
#include "cli/supervisor/proc.h"
#include "cli/words/duration.h"
#include "cli/words/kinds.h"
#include "cli/words/waitline.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define MS INT64_C(1000000)
/* How late an answer may come and still count as within the limit. */
#define LATE (100 * MS)
/* The patience for the answer to a cancel. The cancel itself is sent at
 * once. */
#define LEAVING (300 * MS)
/* A store that does not answer within that time is silent. */
#define LAST_WORD (100 * MS)

struct passing {
    const struct cli_args *args;
    struct snib_client *client;
    const char *name;
    uint64_t ticket;
    int signals; /* signalfd */
    int caught;
    /* The limit and how late an answer may be; INT64_MAX: no limit. */
    int64_t until;
    int wake; /* eventfd: an inspection was answered */
    struct look *look;
    struct waitline line;
};

static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

static sigset_t pass_ending_set(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        struct sigaction was;

        if (sigaction(ending[i], NULL, &was) == 0 &&
            was.sa_handler != SIG_IGN) {
            sigaddset(&set, ending[i]); /* nohup stays nohup */
        }
    }
    return set;
}

/* A thread asks the store: it may not answer, and neither a signal nor the
 * event may have to wait for that. */
static void pass_show_waiting(struct passing *p)
{
    int64_t now = proc_now();

    waitline_skip(&p->line, now);
    if (!waitline_away(&p->line, p->client, p->name, now) && p->look == NULL) {
        p->look = look_start(p->client, p->name, false, p->wake);
    }
}

static void pass_take_look(struct passing *p)
{
    struct look_answer a;

    if (p->look == NULL || !look_take(p->look, 0, &a)) {
        return;
    }
    p->look = NULL;
    if (a.error.code == SNIB_ERR_OK) {
        waitline_show(&p->line, a.view, &a.params, proc_now());
    }
    snib_view_free(a.view);
}

static void pass_hear_signal(struct passing *p)
{
    struct signalfd_siginfo info;
    sigset_t set = pass_ending_set();

    if (read(p->signals, &info, sizeof info) != (ssize_t)sizeof info) {
        return;
    }
    p->caught = (int)info.ssi_signo;
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    snib_client_cancel(p->client, p->ticket);
    if (proc_now() + LEAVING < p->until) {
        p->until = proc_now() + LEAVING;
    }
}

static int pass_timeout_of(const struct passing *p)
{
    int64_t due =
        p->line.due_ns < p->line.watch_ns ? p->line.due_ns : p->line.watch_ns;
    int64_t left;

    due = p->caught != 0 ? INT64_MAX : due;
    due = p->until < due ? p->until : due;
    if (due == INT64_MAX) {
        return -1;
    }
    left = (due - proc_now()) / 1000000 + 1;
    return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

static void pass_do_due(struct passing *p)
{
    int64_t now = proc_now();

    if (p->caught != 0) {
        return;
    }
    if (now >= p->line.watch_ns) {
        waitline_watch(&p->line, p->client, now);
    }
    if (now >= p->line.due_ns) {
        pass_show_waiting(p);
    }
}

/* Wait for the one event that answers. False: none came by the limit; the
 * library goes on asking a store that is silent. */
static bool pass_await_answer(struct passing *p, struct snib_event *ret)
{
    struct pollfd fds[3] = {{.fd = snib_client_fd(p->client), .events = POLLIN},
                            {.fd = p->signals, .events = POLLIN},
                            {.fd = p->wake, .events = POLLIN}};
    uint64_t looks;

    for (;;) {
        while (snib_client_next(p->client, ret, sizeof *ret)) {
            if (ret->kind == SNIB_EVENT_PASSED ||
                ret->kind == SNIB_EVENT_REFUSED) {
                return true;
            }
        }
        if (proc_now() >= p->until) {
            return false;
        }
        fds[1].fd = p->caught != 0 ? -1 : p->signals;
        fds[0].revents = fds[1].revents = fds[2].revents = 0;
        poll(fds, 3, pass_timeout_of(p));
        if (fds[1].revents != 0) {
            pass_hear_signal(p);
        }
        if (fds[2].revents != 0 &&
            read(p->wake, &looks, sizeof looks) == (ssize_t)sizeof looks) {
            pass_take_look(p);
        }
        pass_do_due(p);
    }
}

/* Add who is in the way, if the store tells soon. */
static void pass_add_why(const struct passing *p, uint32_t parties,
                         struct text *t)
{
    struct look *look = look_start(p->client, p->name, true, -1);
    struct look_answer a;

    if (look == NULL) {
        return;
    }
    if (!look_take(look, proc_now() + LAST_WORD, &a)) {
        look_drop(look);
        return;
    }
    if (a.error.code != SNIB_ERR_OK) {
        return;
    }
    if (parties > 0 && a.view->holder_count == 0 && a.params.latch == 0) {
        text_addf(t, "fewer than %" PRIu32 " parties came", parties);
    } else {
        kind_holders(t, a.view, &a.params);
    }
    snib_view_free(a.view);
}

/* Freeing the client takes a store that answers. A silent one would delay
 * the end, beyond the limit or the signal, by as long as a request may take.
 * The silence may be too young for the library to know, so ask the store.
 * (An inspection without an answer is dropped, and then the client is not
 * freed.) */
static void pass_leave_if_away(const struct passing *p)
{
    struct snib_store_status status;
    struct look_answer a;
    struct look *look;

    snib_client_store_status(p->client, &status);
    if (!status.reachable || look_pending()) {
        cli_client_leave();
        return;
    }
    look = look_start(p->client, p->name, false, -1);
    if (look == NULL || !look_take(look, proc_now() + LAST_WORD, &a)) {
        look_drop(look);
        cli_client_leave();
        return;
    }
    if (snib_err_exit(a.error.code) == CLI_UNREACHABLE) {
        cli_client_leave();
    }
    snib_view_free(a.view);
}

/* Is the store in the way? Then say so, in the words of the waiting line. (A
 * single attempt has words of its own.) */
static bool pass_blame_store(const struct passing *p, struct snib_error *error)
{
    struct text t = TEXT_IN(error->text);
    struct snib_store_status status;

    snib_client_store_status(p->client, &status);
    if ((error->code != SNIB_ERR_TIMEOUT && error->code != SNIB_ERR_UNKNOWN &&
         error->code != SNIB_ERR_UNREACHABLE) ||
        p->args->wait_ms == 0 || status.reachable ||
        status.error == SNIB_ERR_OK) {
        return false;
    }
    error->code = status.error;
    error->text[0] = '\0';
    waitline_store(&t, p->client);
    return true;
}

static int pass_refused(const struct passing *p, uint32_t parties,
                        struct snib_error *error)
{
    char words[512] = "";
    struct text t = TEXT_IN(words);

    if (p->caught != 0) {
        return CLI_SIGNAL + p->caught;
    }
    if (pass_blame_store(p, error) ||
        snib_err_exit(error->code) == CLI_UNREACHABLE) {
        say("%s: %s", shown(p->name), shown(cli_words(error)));
        return snib_err_exit(error->code);
    }
    if (snib_err_exit(error->code) != CLI_NOT_ACQUIRED) {
        return cli_fail(error);
    }
    if (!p->args->busy_ok) {
        pass_add_why(p, parties, &t);
        say("%s: not passed in time: %s", shown(p->name),
            words[0] != '\0' ? words : snib_err_text(error->code));
    }
    return cli_busy_status(p->args);
}

static snib_err pass_start(struct passing *p, uint32_t parties,
                           struct snib_error *error)
{
    int64_t wait_ms =
        p->args->wait_ms == CLI_UNSET || p->args->wait_ms == DURATION_FOREVER
            ? INT64_MAX
            : p->args->wait_ms;

    return parties > 0
               ? snib_barrier_try_for_start(p->client, p->name, 0, parties,
                                            wait_ms, NULL, &p->ticket, error)
               : snib_latch_try_for_start(p->client, p->name, 0, wait_ms, NULL,
                                          &p->ticket, error);
}

void pass_block_signals(void)
{
    sigset_t set = pass_ending_set();

    sigprocmask(SIG_BLOCK, &set, NULL);
}

int pass_through(const struct cli_args *args, struct snib_client *client,
                 const char *name, uint32_t parties, int64_t *ret_generation)
{
    struct passing p = {.args = args, .client = client, .name = name};
    struct snib_error error = {0};
    struct snib_event ev;
    sigset_t set = pass_ending_set();
    int code = CLI_OK;

    p.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    p.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p.signals < 0 || p.wake < 0) { /* or nobody could end the wait */
        say("cannot start: %s", say_errno(errno));
        return CLI_INTERNAL;
    }
    p.until =
        args->wait_ms > 0 ? proc_now() + args->wait_ms * MS + LATE : INT64_MAX;
    waitline_init(&p.line, args->quiet || args->no_progress, proc_now());
    error.code = pass_start(&p, parties, &error);
    if (error.code != SNIB_ERR_OK) {
        code = cli_fail(&error);
    } else {
        bool answered = pass_await_answer(&p, &ev);

        waitline_wipe(&p.line);
        if (!answered) {
            error.code = SNIB_ERR_UNKNOWN;
            code = pass_refused(&p, parties, &error);
            cli_client_leave();
        } else if (ev.kind == SNIB_EVENT_PASSED) {
            *ret_generation = ev.grant.token;
        } else {
            code = pass_refused(&p, parties, &ev.error);
            pass_leave_if_away(&p);
        }
    }
    look_drop(p.look);
    close(p.signals);
    close(p.wake);
    return code;
}
