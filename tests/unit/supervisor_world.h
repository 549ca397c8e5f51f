/* tests/unit/supervisor_world.h — what is around the supervisor of `snib run`: the
 * other process, the command and who it leaves behind, signals, the terminal,
 * the page, the clock. See same.h. */
#ifndef SNIB_TESTS_SUPERVISOR_WORLD_H
#define SNIB_TESTS_SUPERVISOR_WORLD_H

#include "same.h"
#include "same_limits.h"

#include <poll.h>
#include <signal.h>

#include "cli/supervisor/supervisor.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

enum {
    SELF = 1000,
    HOLDER = 2000, /* and one more each term                               */
    COMMAND = 3000,
    ADOPTED = 4000,
    QUEUE = 16,
    MOVES = 60, /* after that all comes to its end                          */
    ADOPTED_MAX = 3
};

/* Of a child: what waitpid will say of it. */
enum life { NOBODY, RUNS, HALTED, ENDED, REAPED };

static struct {
    int64_t now, armed;
    struct plan plan;
    struct plan_page page;
    struct plan_message said[QUEUE]; /* by the holder, not heard yet         */
    int said_count, cut;             /* cut: the next is a piece of one      */
    bool socket_ended;
    int signals[QUEUE], signal_count;
    int answer; /* what the holder will say to what it was told, and when    */
    int64_t answer_at;
    int terms, moves, last_pair;
    enum life holder, command, adopted[ADOPTED_MAX];
    int command_status, group_others, exec_error, foreground;
    bool halt_told, adopted_halt_told[ADOPTED_MAX];
    int read_at; /* of the list of children                                  */
    char children[100];
} w;

static void signal_comes(int sig)
{
    for (int i = 0; i < w.signal_count; i++) {
        if (w.signals[i] == sig) {
            return; /* as pending ones do */
        }
    }
    if (w.signal_count < QUEUE) {
        w.signals[w.signal_count++] = sig;
    }
}

/* -- the holder ------------------------------------------------------------------ */

static void holder_says(int kind, int code, int why, const char *text)
{
    struct plan_message m = {.kind = kind, .code = code, .why = why};
    m.grant = w.page.grants - (chance("old grant", 6) ? 1 : 0);
    m.lingers = chance("lingers", 4);
    snprintf(m.text, sizeof m.text, "%s", text);
    if (w.said_count < QUEUE && !w.socket_ended) {
        w.said[w.said_count++] = m;
    }
}

static int some_why(void)
{
    return (int)pick("why", SUPERVISOR_CAUSE_INTERNAL + 1);
}

static const char *some_text(void)
{
    static const char *const texts[] = {"", "no connection to db: refused",
                                        "revoked by anna on ci-7: \x1b[1m"};
    return texts[pick("text", COUNT_OF(texts))];
}

static void holder_offers(void)
{
    static const int64_t lengths[] = {30 * S, 30 * S, 30 * S, 4 * S, 0};
    w.page.grants++;
    w.page.outer_ttl_ns = chance("outer", 5) ? 3 * S : 0;
    w.page.tokens[0] = 100 + w.page.grants;
    w.page.tokens[1] = 7;
    w.page.permit_slots[0] = chance("slot", 2) ? 3 : -1;
    w.page.permit_slots[1] = 0;
    snprintf(w.page.client_id, sizeof w.page.client_id, "c0ffee:4");
    snprintf(w.page.address, sizeof w.page.address, "7.0123456789abcdef");
    snprintf(w.page.store, sizeof w.page.store, "%s",
             chance("store", 2) ? "file:/x" : "memory:");
    atomic_store(&w.page.deadline_ns, w.now + lengths[pick("lease", 5)]);
    atomic_store(&w.page.offer,
                 chance("withdrawn", 8) ? PLAN_WITHDRAWN : PLAN_OFFERED);
    if (chance("too late", 12)) {
        atomic_store(&w.page.group, PLAN_TOO_LATE);
    }
    holder_says(PLAN_GRANT, 0, 0, "");
}

static void holder_ends(void)
{
    if (w.holder == RUNS) {
        w.holder = ENDED;
        w.socket_ended = true;
        signal_comes(SIGCHLD);
    }
}

static void holder_released(void)
{
    int lost = chance("lost", 4);
    holder_says(PLAN_RELEASED, lost, lost ? some_why() : 0, some_text());
    if (!chance("stays", 3)) {
        holder_ends();
    }
}

static void holder_failed(void)
{
    static const int codes[] = {75, 69, 78, 70, 64};
    holder_says(PLAN_FAILED, codes[pick("code", 5)], some_why(), "");
    if (!chance("stays", 3)) {
        holder_ends();
    }
}

static void holder_hears(int kind)
{
    static const int64_t delays[] = {0, 20 * MS, S, 5 * S, 60 * S};
    w.answer = kind;
    w.answer_at = w.now + delays[pick("delay", 5)];
}

static void holder_answers(void)
{
    int kind = w.answer;
    w.answer = -1;
    w.answer_at = INT64_MAX;
    if (kind == PLAN_RELEASE) {
        holder_released();
    } else if (kind == PLAN_LEAVE && chance("leave", 2)) {
        holder_released();
    } else if (kind == PLAN_LEAVE) {
        holder_failed();
    } else if (kind == PLAN_HERE) {
        holder_offers();
    }
}

/* -- the command ------------------------------------------------------------------- */

static void command_ends(int status)
{
    if (w.command == RUNS || w.command == HALTED) {
        w.command = ENDED;
        w.command_status = status;
        if (status == 127 << 8 || status == 126 << 8 || status == 70 << 8) {
            w.exec_error = (int)pick("exec", 3) * 2;
        }
        for (int i = 0; i < ADOPTED_MAX; i++) {
            if (w.adopted[i] == NOBODY && chance("adopted", 6)) {
                w.adopted[i] = RUNS;
            }
        }
        w.group_others = chance("others", 5) ? 2 : 0;
        signal_comes(SIGCHLD);
    }
}

static void command_gets(int sig)
{
    if (sig == SIGKILL) {
        w.group_others = chance("withstands", 6) ? w.group_others : 0;
    } else if (sig == SIGTERM) {
        w.group_others -= w.group_others > 0 && chance("heeds", 2);
    }
    if (sig == SIGKILL && !chance("uninterruptible", 6)) {
        command_ends(SIGKILL);
    } else if ((sig == SIGTERM || sig == SIGINT || sig == SIGUSR1) &&
               chance("heeds", 2)) {
        command_ends(chance("status", 2) ? sig : 0);
    } else if (sig == SIGTSTP && w.command == RUNS) {
        w.command = HALTED;
        w.halt_told = false;
        w.command_status = SIGTSTP << 8 | 0x7f;
        signal_comes(SIGCHLD);
    } else if (sig == SIGCONT && w.command == HALTED) {
        w.command = RUNS;
    }
}

static void command_halts(void)
{
    static const int stops[] = {SIGTTIN, SIGTTOU, SIGTSTP, SIGSTOP};
    if (w.command == RUNS) {
        w.command = HALTED;
        w.halt_told = false;
        w.command_status = stops[pick("stop", 4)] << 8 | 0x7f;
        signal_comes(SIGCHLD);
    }
}

static void adopted_gets(int i, int sig)
{
    if ((w.adopted[i] == RUNS || w.adopted[i] == HALTED) &&
        (sig == SIGKILL || (sig == SIGTERM && chance("heeds", 2)))) {
        w.adopted[i] = ENDED;
        signal_comes(SIGCHLD);
    } else if (w.adopted[i] == HALTED && sig == SIGCONT) {
        w.adopted[i] = RUNS;
    }
}

/* While the command runs, too: somebody whom it started and lost. */
static void adopted_halts(int i)
{
    if (w.adopted[i] == NOBODY && w.command == RUNS) {
        w.adopted[i] = RUNS;
    }
    if (w.adopted[i] == RUNS) {
        w.adopted[i] = HALTED;
        w.adopted_halt_told[i] = false;
        signal_comes(SIGCHLD);
    }
}

/* -- what happens ---------------------------------------------------------------------- */

static bool holds(void)
{
    return atomic_load(&w.page.offer) == PLAN_TAKEN;
}

static void signals_come(void)
{
    static const int signals[] = {SIGHUP,  SIGINT,   SIGQUIT, SIGTERM,
                                  SIGUSR1, SIGUSR2,  SIGCONT, SIGCHLD,
                                  SIGTSTP, SIGWINCH, SIGTSTP, SIGCONT};
    signal_comes(signals[pick("signal", COUNT_OF(signals))]);
}

static void holder_goes_on(void)
{
    if (!holds() && w.answer < 0) {
        holder_offers();
    } else if (holds()) {
        atomic_store(&w.page.deadline_ns,
                     w.now + (chance("short", 6) ? S : 30 * S));
    }
}

static void something_odd(void)
{
    static const int kinds[] = {PLAN_LEAVE,  PLAN_RELEASE,  PLAN_STOPPED,
                                PLAN_HERE,   PLAN_DETACH,   PLAN_GRANT,
                                PLAN_SIGNAL, PLAN_RELEASED, 99};
    static const int signals[] = {SIGTERM, SIGINT, SIGCHLD, SIGTSTP};
    int kind = kinds[pick("odd", COUNT_OF(kinds))];
    holder_says(kind, kind == PLAN_SIGNAL ? signals[pick("sent", 4)] : 0,
                some_why(), some_text());
    w.cut = chance("cut", 5);
}

static void group_moves(void)
{
    static const int statuses[] = {0,        3 << 8,  127 << 8,
                                   126 << 8, 70 << 8, SIGSEGV};
    if (chance("adopted halts", 6)) {
        adopted_halts((int)pick("which", ADOPTED_MAX));
    } else if (w.command == RUNS && chance("ends", 2)) {
        command_ends(statuses[pick("status", COUNT_OF(statuses))]);
    } else if (w.command == RUNS) {
        command_halts();
    } else {
        w.group_others = 0;
        adopted_gets((int)pick("which", ADOPTED_MAX), SIGKILL);
        signal_comes(SIGCHLD);
    }
}

static void all_ends(void)
{
    command_ends(0);
    w.group_others = 0;
    for (int i = 0; i < ADOPTED_MAX; i++) {
        adopted_gets(i, SIGKILL);
    }
    holder_ends();
    signal_comes(SIGCHLD);
    signal_comes(SIGTERM);
    if (w.moves > MOVES + 40) {
        tell("does not end");
        same_end();
    }
}

static void something_happens(void)
{
    if (w.moves++ > MOVES) {
        all_ends();
        return;
    }
    switch (pick("what", 20)) {
    case 0:
        holder_says(PLAN_RISK, 0, some_why(), some_text());
        break;
    case 1:
        holder_says(PLAN_LOST, 0, some_why(), some_text());
        break;
    case 2:
        if (!holds()) {
            holder_failed();
        } else if (chance("unasked", 3)) {
            holder_released();
        }
        break;
    case 3:
        if (chance("dies", 3)) {
            holder_ends();
        }
        break;
    case 4:
        something_odd();
        break;
    case 5:
    case 6:
        signals_come();
        break;
    case 7:
    case 8:
    case 9:
        group_moves();
        break;
    case 10:
        w.now += (int64_t)pick("stopped", 45) * S;
        break;
    default:
        holder_goes_on();
    }
}

/* -- waiting ------------------------------------------------------------------------------ */

static bool is_ready(int fd)
{
    if (fd_is(fd, "keeper")) {
        return w.said_count > 0 || w.socket_ended;
    }
    if (fd_is(fd, "signals")) {
        return w.signal_count > 0;
    }
    if (fd_is(fd, "timer")) {
        return w.armed <= w.now;
    }
    if (fd_is(fd, "pidfd")) {
        return w.holder == ENDED;
    }
    return fd == 2 || fd_is(fd, "status");
}

static int count_ready(struct pollfd *fds, nfds_t count)
{
    int ready = 0;
    for (nfds_t i = 0; i < count; i++) {
        fds[i].revents = is_ready(fds[i].fd) ? fds[i].events : 0;
        ready += fds[i].revents != 0;
    }
    return ready;
}

/* Until something is there: what comes next, by dice, or is due. */
static int wait_for(struct pollfd *fds, nfds_t count, int timeout)
{
    static const int64_t delays[] = {0,     1,     MS,    20 * MS, 300 * MS,
                                     2 * S, 3 * S, 7 * S, 11 * S};
    int64_t until = timeout < 0 ? INT64_MAX : w.now + timeout * MS;
    int ready;
    while ((ready = count_ready(fds, count)) == 0 && w.now < until) {
        int64_t next = w.now + delays[pick("after", COUNT_OF(delays))];
        int64_t due = w.armed < until ? w.armed : until;
        due = w.answer_at < due ? w.answer_at : due;
        if (due > w.now && due <= next) {
            w.now = due;
        } else {
            w.now = next;
            something_happens();
        }
        if (w.answer_at <= w.now) {
            holder_answers();
        }
    }
    return ready;
}

#endif
