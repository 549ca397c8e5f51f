/* pass.c — see pass.h.
 *
 * A wait that can be interrupted: it is started (snib/latch.h), and its event
 * and signals are waited for side by side. A signal cancels, so that a party that
 * gives up is not counted any more and nobody waits behind a dead waiter; the
 * second one ends us as usual. Whoever was let through before the signal was
 * seen has passed. */
#define _GNU_SOURCE
#include "pass.h"
#include "duration.h"
#include "kinds.h"
#include "proc.h"
#include "snib/latch.h"
#include "waitline.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct passing {
    const struct cli_args *args;
    struct snib_client *client;
    const char *name;
    uint64_t ticket;
    int signals; /* signalfd                                               */
    int caught;
    struct waitline line;
};

static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

static sigset_t ending_set(void)
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

static void show_waiting(struct passing *p)
{
    struct snib_view *view;
    struct kind_terms terms;
    int64_t now;

    if (snib_inspect(p->client, p->name, strlen(p->name), &view, NULL) !=
        SNIB_ERR_OK) {
        waitline_skip(&p->line, proc_now());
        return;
    }
    kind_terms_for(p->client, view, &terms);
    now = proc_now();
    waitline_show(&p->line, view, &terms, now);
    snib_view_free(view);
}

static void hear_signal(struct passing *p)
{
    struct signalfd_siginfo info;
    sigset_t set = ending_set();

    if (read(p->signals, &info, sizeof info) != (ssize_t)sizeof info) {
        return;
    }
    p->caught = (int)info.ssi_signo;
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    snib_cancel(p->client, p->ticket);
}

static int timeout_of(const struct passing *p)
{
    int64_t left;

    if (p->line.due_ns == INT64_MAX || p->caught != 0) {
        return -1;
    }
    left = (p->line.due_ns - proc_now()) / 1000000 + 1;
    return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

/* The one event that answers. */
static void await_answer(struct passing *p, struct snib_event *ret)
{
    struct pollfd fds[2] = {{.fd = snib_fd(p->client), .events = POLLIN},
                            {.fd = p->signals, .events = POLLIN}};

    for (;;) {
        while (snib_next(p->client, ret)) {
            if (ret->kind == SNIB_EV_PASSED || ret->kind == SNIB_EV_REFUSED) {
                return;
            }
        }
        fds[1].fd = p->caught != 0 ? -1 : p->signals;
        fds[0].revents = fds[1].revents = 0;
        poll(fds, 2, timeout_of(p));
        if (fds[1].revents != 0) {
            hear_signal(p);
        }
        if (p->caught == 0 && proc_now() >= p->line.due_ns) {
            show_waiting(p);
        }
    }
}

static int refused(const struct passing *p, uint32_t parties,
                   const struct snib_error *error)
{
    char words[512] = "";
    struct text t = TEXT_IN(words);
    struct snib_view *view;
    struct kind_terms terms;

    if (p->caught != 0) {
        return CLI_SIGNAL + p->caught;
    }
    if (snib_err_exit(error->code) != CLI_NOT_ACQUIRED) {
        return cli_fail(error);
    }
    if (!p->args->quiet && snib_inspect(p->client, p->name, strlen(p->name),
                                        &view, NULL) == SNIB_ERR_OK) {
        kind_terms_get(p->client, p->name, strlen(p->name), &terms);
        if (parties > 0 && view->holder_count == 0 && terms.gate == 0) {
            text_addf(&t, "fewer than %" PRIu32 " parties came", parties);
        } else {
            kind_holders(&t, view, &terms);
        }
        snib_view_free(view);
    }
    if (!p->args->quiet) {
        say("%s: not passed in time: %s", shown(p->name),
            words[0] != '\0' ? words : snib_err_text(error->code));
    }
    return cli_busy_status(p->args);
}

static snib_err start(struct passing *p, uint32_t parties,
                      struct snib_error *error)
{
    int64_t wait_ms =
        p->args->wait_ms == CLI_UNSET || p->args->wait_ms == DURATION_FOREVER
            ? SNIB_FOREVER
            : p->args->wait_ms;

    return parties > 0
               ? snib_barrier_wait_start(p->client, p->name, 0, parties,
                                         wait_ms, NULL, &p->ticket, error)
               : snib_latch_await_start(p->client, p->name, 0, wait_ms, NULL,
                                        &p->ticket, error);
}

void pass_block_signals(void)
{
    sigset_t set = ending_set();

    sigprocmask(SIG_BLOCK, &set, NULL);
}

int pass_through(const struct cli_args *args, struct snib_client *client,
                 const char *name, uint32_t parties, int64_t *ret_generation)
{
    struct passing p = {.args = args, .client = client, .name = name};
    struct snib_error error = {0};
    struct snib_event ev;
    sigset_t set = ending_set();
    int code = CLI_OK;

    p.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (p.signals < 0) { /* we would wait, and nobody could end it */
        say("cannot start: %s", strerror(errno));
        return CLI_INTERNAL;
    }
    waitline_init(&p.line, args->quiet || args->no_progress, proc_now());
    error.code = start(&p, parties, &error);
    if (error.code != SNIB_ERR_OK) {
        code = cli_fail(&error);
    } else {
        await_answer(&p, &ev);
        waitline_wipe(&p.line);
        if (ev.kind == SNIB_EV_PASSED) {
            *ret_generation = ev.grant.token;
        } else {
            code = refused(&p, parties, &ev.error);
        }
    }
    if (p.signals >= 0) {
        close(p.signals);
    }
    return code;
}
