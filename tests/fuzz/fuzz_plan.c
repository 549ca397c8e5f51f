/* The socket between the two processes of `snib run`. The supervisor is the one
 * as shipped (its loop, cli/supervisor/supervisor.c, is part of this file),
 * with a clock, a page and hands of ours;
 * wraps: fork kill waitpid setpgid proc_now
 * At the other end of its socket is whoever writes what he likes: messages,
 * messages with something odd in them, any bytes. The other process reads by
 * the same function and looks at nothing but the kind, so of its end what
 * comes out of that function is looked at.
 *
 * What must hold: each step ends; the command starts once at most, and not
 * before a grant was offered and taken; texts end; the status is one of a
 * process; who writes what none of ours writes is not heard. */
#define _GNU_SOURCE
#include "dice.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/holder/holder.h"
#include "cli/supervisor/proc.h"
#include "cli/supervisor/supervisor_i.h"

#include "cli/supervisor/supervisor.c"

int64_t __wrap_proc_now(void);
pid_t __wrap_fork(void);
int __wrap_kill(pid_t, int);
pid_t __wrap_waitpid(pid_t, int *, int);
int __wrap_setpgid(pid_t, pid_t);

enum { STEPS_MAX = 60, COMMAND = 4000 };

static struct {
    struct dice dice;
    struct body body;
    struct plan_page page;
    int64_t now;
    int writer, command, started;
    bool ended;
} w;

/* -- hands and clock ------------------------------------------------------------ */

int64_t __wrap_proc_now(void)
{
    return w.now;
}

pid_t __wrap_fork(void)
{
    MUST(atomic_load(&w.page.offer) == PLAN_TAKEN);
    MUST(!w.started++);
    return COMMAND;
}

int __wrap_kill(pid_t pid, int sig)
{
    MUST(pid == COMMAND && sig >= 0);
    w.ended = w.ended || sig == SIGKILL;
    return 0;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    (void)options;
    if (!w.ended || pid != -1 || w.body.command_ended) {
        return 0;
    }
    *status = SIGKILL;
    return COMMAND;
}

int __wrap_setpgid(pid_t pid, pid_t group)
{
    (void)group;
    MUST(pid == COMMAND);
    return 0;
}

int supervisor_signal_adopted(const struct body *b, int sig)
{
    (void)b, (void)sig;
    return 0;
}

void supervisor_signal_group(struct body *b, int sig)
{
    MUST(sig >= 0); /* the kernel refuses what is none */
    w.ended = w.ended || (b->command > 0 && sig == SIGKILL);
}

int supervisor_others_left(struct body *b)
{
    b->group_gone = true;
    return 0;
}

void supervisor_find_terminal(struct body *b)
{
    (void)b;
}

void supervisor_hand_over(struct body *b)
{
    (void)b;
}

void supervisor_take_back(struct body *b)
{
    (void)b;
}

void supervisor_stop_self(struct body *b)
{
    b->stopped_self = true;
}

void supervisor_command_stopped(struct body *b, int sig)
{
    (void)b, (void)sig;
}

void supervisor_continued(struct body *b)
{
    b->stopped_self = false;
}

void supervisor_become_command(struct body *b, pid_t supervisor, int gate,
                               int lease)
{
    (void)b, (void)supervisor, (void)gate, (void)lease;
    abort();
}

/* -- the writer ------------------------------------------------------------------ */

static struct plan_message some_message(void)
{
    struct plan_message m = {
        .kind = (int32_t)(roll(&w.dice) % 11),
        .code = (int32_t)(roll(&w.dice) % 130),
        .why = (int32_t)(roll(&w.dice) % (SUPERVISOR_CAUSE_INTERNAL + 1)),
        .grant = w.page.grants,
        .lingers = roll(&w.dice) & 1};
    uint32_t size = roll(&w.dice);
    for (uint32_t i = 0; i < size && i + 1 < sizeof m.text; i++) {
        m.text[i] = (char)roll(&w.dice);
    }
    return m;
}

/* A few bytes of it are others. */
static void write_odd(void)
{
    struct plan_message m = some_message();
    unsigned char bytes[sizeof m + 8] = {0};
    uint32_t how = roll(&w.dice);
    size_t size = how & 1 ? roll(&w.dice) * sizeof bytes / 256 : sizeof m;
    memcpy(bytes, &m, sizeof m);
    if (how & 2) { /* a text that does not end */
        memset(bytes + offsetof(struct plan_message, text), 'x', sizeof m.text);
    }
    for (uint32_t i = how >> 2 & 7; i; i--) {
        bytes[(roll(&w.dice) << 8 | roll(&w.dice)) % sizeof bytes] =
            (unsigned char)roll(&w.dice);
    }
    send(w.writer, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void offer(void)
{
    static const int64_t lengths[] = {
        30 * SUPERVISOR_S, SUPERVISOR_S,  0,
        -SUPERVISOR_S,     INT64_MAX / 2, INT64_MIN / 2};
    uint32_t how = roll(&w.dice);
    w.page.grants++;
    w.page.outer_ttl_ns = how & 64 ? 2 * SUPERVISOR_S : 0;
    atomic_store(&w.page.deadline_ns, w.now + lengths[how % 6]);
    atomic_store(&w.page.offer, how & 128 ? PLAN_WITHDRAWN : PLAN_OFFERED);
    if (how & 32) {
        struct plan_message m = {.kind = PLAN_GRANT, .grant = w.page.grants};
        send(w.writer, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* What the other process would hear. */
static void hear_there(void)
{
    struct plan_message m;
    for (int n = 0; n < STEPS_MAX; n++) {
        if (plan_hear(w.writer, &m) != PLAN_HEARD) {
            return;
        }
        MUST(m.kind >= PLAN_LEAVE && m.kind <= PLAN_DETACH);
    }
}

static void write_there(void)
{
    struct plan_message m;
    int pair[2];
    int writer = w.writer;
    MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
    w.writer = pair[0];
    write_odd();
    if (plan_hear(pair[1], &m) == PLAN_HEARD) {
        MUST(m.kind >= 0 && m.kind <= PLAN_DETACH);
        MUST(m.why >= 0 && supervisor_why_text((enum supervisor_why)m.why));
        MUST(m.code >= 0 && m.code <= 255);
        MUST(memchr(m.text, 0, sizeof m.text));
    }
    w.writer = writer;
    close(pair[0]);
    close(pair[1]);
}

/* -- the whole ------------------------------------------------------------------- */

static void move(struct body *b, uint32_t what)
{
    static const int signals[] = {SIGHUP,  SIGINT,   SIGQUIT, SIGTERM, SIGUSR1,
                                  SIGUSR2, SIGWINCH, SIGCONT, SIGCHLD, SIGTSTP};
    struct plan_message m;
    switch (what % 8) {
    case 0:
    case 1:
        m = some_message();
        send(w.writer, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
        break;
    case 2:
        write_odd();
        break;
    case 3:
        offer();
        break;
    case 4:
        w.now +=
            (int64_t)roll(&w.dice) * (what & 8 ? SUPERVISOR_S : SUPERVISOR_MS);
        break;
    case 5:
        supervisor_hear_signal(b, signals[(what >> 3) % 10]);
        break;
    case 6:
        write_there();
        break;
    default:
        if (what >> 3 == 31) {
            shutdown(w.writer, SHUT_RDWR);
        }
        w.ended = w.ended || (b->command > 0 && what >> 3 == 1);
    }
}

/* What the loop does when something is there. */
static void claim(struct body *b)
{
    supervisor_look_at_page(b, w.now);
    supervisor_look_at_clock(b);
    supervisor_hear_holder(b);
    if (w.ended && !b->command_ended) {
        supervisor_hear_signal(b, SIGCHLD);
    }
    hear_there();
    MUST(memchr(b->risk_text, 0, sizeof b->risk_text));
    MUST(memchr(b->lost_text, 0, sizeof b->lost_text));
    MUST(b->supervisor.why >= 0 && supervisor_why_text(b->supervisor.why));
    MUST(supervisor_exit_status(b) >= 0 && supervisor_exit_status(b) <= 255);
}

static void close_all(struct body *b)
{
    const int fds[] = {b->socket, b->gate, b->lease, w.writer};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

/* What it says goes to stderr, for each input: not here. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char quiet[] = "-close_fd_mask=2";
    want_option(argc, argv, quiet);
    return 0;
}

static void begin(uint32_t how)
{
    static const char *names[] = {"name"};
    static char word[] = "true";
    static char *command[] = {word, NULL};
    static struct cli_args args = {
        .subcommand = "run", .status_fd = -1, .busy_exit = -1};
    static struct plan plan;
    int pair[2];
    plan = (struct plan){
        .args = &args,
        .names = names,
        .name_count = 1,
        .command = how & 1 ? NULL : command,
        .rules = {.ttl = 30 * SUPERVISOR_S,
                  .grace = 5 * SUPERVISOR_S,
                  .margin = SUPERVISOR_S / 3,
                  .wait = how & 2 ? SUPERVISOR_S : SUPERVISOR_NEVER,
                  .slack = SUPERVISOR_SLACK,
                  .request = 3 * SUPERVISOR_S,
                  .hold_min = how & 4 ? SUPERVISOR_S : 0,
                  .max_run = how & 8 ? 9 * SUPERVISOR_S : 0,
                  .on_lost = (how >> 4) % 3,
                  .lost_signal = SIGUSR1}};
    w.now = 1000 * SUPERVISOR_S;
    w.started = 0;
    w.ended = false;
    memset(&w.page, 0, sizeof w.page);
    MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
    w.writer = pair[0];
    w.body = (struct body){.plan = &plan,
                           .page = &w.page,
                           .signals = -1,
                           .timer = -1,
                           .socket = pair[1],
                           .gate = -1,
                           .lease = -1,
                           .terminal = -1,
                           .status = -1,
                           .holder = 1,
                           .armed = SUPERVISOR_NEVER};
    supervisor_init(&w.body.supervisor, &plan.rules, w.now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    w.dice = (struct dice){data, data + size};
    begin(roll(&w.dice));
    for (int n = 0; n < STEPS_MAX && w.dice.p < w.dice.end; n++) {
        if (supervisor_loop_over(&w.body)) {
            break;
        }
        move(&w.body, roll(&w.dice));
        claim(&w.body);
    }
    supervisor_report(&w.body, supervisor_exit_status(&w.body));
    close_all(&w.body);
    return 0;
}
