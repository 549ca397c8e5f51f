/* tests/unit/postgres_world.h — a libpq of dice, and the host around it: connections
 * whose calls fail, results that come late or not at all, a clock. What a
 * statement answers stands in postgres_dice.h. See same.h.
 *
 * All that is sent is told, with each parameter. */
#ifndef SNIB_TESTS_POSTGRES_WORLD_H
#define SNIB_TESTS_POSTGRES_WORLD_H

#include "same.h"
#include "same_limits.h"

#include <endian.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/error.h"
#include "store/postgres/postgres_i.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

enum {
    CONNS = 24,
    QUEUE = 900, /* statements whose results were not taken                  */
    FDS = 60,
    FIRST_FD = 10,
    WATCHED = 8,
    IDS = 8,
    NOTES = 4
};

enum fd_is { FD_CLOSED, FD_SOCKET, FD_EVENT, FD_EPOLL };

/* -- results --------------------------------------------------------------------- */

struct cell {
    int size; /* -1: NULL                                                   */
    uint8_t *bytes;
};

struct result {
    ExecStatusType status;
    int rows, cols;
    struct cell *cells;
    char state[6], severity[8], words[100]; /* "": it has none              */
};

/* What was sent, and is answered in its turn. */
struct sent {
    enum { PREPARE, QUERY, TEXT, SYNC, END } what; /* END: NULL             */
    int statement;
    int64_t ints[IDS]; /* its parameters, as far as they are numbers        */
    uint64_t ids[IDS][2]; /* and as far as they are ids                     */
    char name[SNIB_NAME_MAX]; /* the first one                              */
    int name_size;
};

struct conn {
    bool used, listens;
    int fd, pid, polls; /* polls: so many until it is connected             */
    bool refused, down, failed; /* failed: skips up to the next SYNC        */
    bool inside;                /* BEGIN, and no end of it                  */
    struct sent queue[QUEUE];
    int first, count;
    char message[200];
};

static struct {
    int64_t now, server_us; /* server_us: its clock minus ours              */
    int64_t life, token;    /* of the server; the last one that it gave     */
    struct conn conns[CONNS];
    struct {
        enum fd_is is;
        uint64_t count;
        struct conn *conn;
        int watched[WATCHED];
    } fds[FDS];
    int results_alive, notes_alive;
    const char *only; /* call that fails often; NULL: all may               */
    int rate;         /* one of so many fails; 0: none                      */
    int poor;         /* one of so many steps finds no memory; 0: none      */
    int errors;       /* one of so many statements fails; 0: none           */
    int cuts;         /* one of so many results is not there; 0: none       */
    bool odd;         /* in this result some cells are of another size      */
} w;

/* -- calls that fail ------------------------------------------------------------------ */

static const char *const calls_that_fail[] = {
    "start", "poll",      "connect", "pipeline", "nonblocking", "prepare",
    "query", "text",      "sync",    "flush",    "consume",     "event",
    "epoll", "epoll_ctl", "memory",  "memory",   "wait",        "wait"};

static bool falters(const char *call)
{
    static char which[40];
    if (!w.rate || (w.only && strcmp(w.only, call) != 0)) {
        return false;
    }
    snprintf(which, sizeof which, "fails %s", call);
    return chance(which, (uint64_t)w.rate);
}

static bool goes_wrong(const char *call)
{
    bool wrong = falters(call);
    if (wrong) {
        tell("%s fails", call);
        errno = EMFILE;
    }
    return wrong;
}

static void draw_failures(void)
{
    static const int often[] = {1, 2, 3, 6}, seldom[] = {25, 80, 250};
    static const int errors[] = {0, 0, 4, 12, 40}, cuts[] = {0, 0, 20, 60, 200};
    switch (pick("failures", 4)) {
    case 0:
        w.rate = 0;
        break;
    case 1:
        w.only = calls_that_fail[pick("only", COUNT_OF(calls_that_fail))];
        w.rate = often[pick("often", 4)];
        break;
    default:
        w.rate = seldom[pick("seldom", 3)];
    }
    w.poor = chance("is poor", 8) ? 4 : 0;
    w.errors = errors[pick("errors", COUNT_OF(errors))];
    w.cuts = cuts[pick("cuts", COUNT_OF(cuts))];
}

static bool lacks_memory(void)
{
    return falters("memory") || (w.poor && chance("poor", (uint64_t)w.poor));
}

/* -- descriptors --------------------------------------------------------------------- */

#define FD(fd) w.fds[(fd)-FIRST_FD]

static int open_fd(enum fd_is is)
{
    int fd = 0;
    while (fd < FDS && w.fds[fd].is != FD_CLOSED) {
        fd++;
    }
    assert_true(fd < FDS);
    memset(&w.fds[fd], 0, sizeof w.fds[fd]);
    w.fds[fd].is = is;
    return fd + FIRST_FD;
}

static bool is_open(int fd, enum fd_is is)
{
    return fd >= FIRST_FD && fd < FIRST_FD + FDS && FD(fd).is == is;
}

static const char *fd_text(int fd)
{
    static const char *const kinds[] = {"closed", "socket", "event", "epoll"};
    static char text[4][24];
    static int turn;
    bool ours = fd >= FIRST_FD && fd < FIRST_FD + FDS;
    turn = (turn + 1) % 4;
    snprintf(text[turn], sizeof text[turn], "%s %d",
             ours ? kinds[FD(fd).is] : "none", fd);
    return text[turn];
}

static void fd_close(int fd)
{
    FD(fd).is = FD_CLOSED;
    for (int i = 0; i < FDS; i++) { /* and out of each set                 */
        for (int k = 0; k < WATCHED; k++) {
            if (w.fds[i].watched[k] == fd) {
                w.fds[i].watched[k] = 0;
            }
        }
    }
}

int __wrap_close(int fd)
{
    if (!same.on) {
        return __real_close(fd);
    }
    tell("close %s", fd_text(fd));
    assert_true(is_open(fd, FD_EVENT) || is_open(fd, FD_EPOLL));
    fd_close(fd);
    return 0;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    if (!same.on) {
        return __real_write(fd, bytes, size);
    }
    tell("write %s %zu", fd_text(fd), size);
    assert_true(is_open(fd, FD_EVENT) && size == 8);
    FD(fd).count++;
    return 8;
}

bool __wrap_snib__sql_no_such_host(const char *host);
bool __wrap_snib__sql_no_such_host(const char *host)
{
    bool nobody = chance("nobody", 3);
    tell("host %s %d", host, nobody);
    return nobody;
}

int __wrap_eventfd(unsigned count, int flags)
{
    tell("eventfd %u %d", count, flags);
    return goes_wrong("event") ? -1 : open_fd(FD_EVENT);
}

int __wrap_epoll_create1(int flags)
{
    tell("epoll_create1 %d", flags);
    return goes_wrong("epoll") ? -1 : open_fd(FD_EPOLL);
}

int __wrap_epoll_ctl(int set, int what, int fd, struct epoll_event *e)
{
    int k = 0;
    tell("epoll_ctl %s %d %s %d", fd_text(set), what, fd_text(fd),
         e ? (int)e->events : -1);
    if (goes_wrong("epoll_ctl")) {
        return -1;
    }
    assert_true(is_open(set, FD_EPOLL) && is_open(fd, FD_SOCKET));
    while (FD(set).watched[k]) {
        k++;
        assert_true(k < WATCHED);
    }
    FD(set).watched[k] = fd;
    return 0;
}

int __wrap_shutdown(int fd, int how)
{
    tell("shutdown %s %d", fd_text(fd), how);
    return 0;
}

int __wrap_access(const char *path, int how)
{
    tell("access %s %d", path, how);
    return chance("authorities", 3) ? 0 : -1;
}

/* -- time ------------------------------------------------------------------------------ */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (!same.on) {
        return __real_clock_gettime(clock, ret);
    }
    *ret = (struct timespec){.tv_sec = w.now / S, .tv_nsec = w.now % S};
    return 0;
}

/* What comes: the answer, nothing by then, a stop, a signal. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    static const int64_t us[] = {10, 200, 200, 1000, 40000};
    tell("poll %d: %s %d, %d for %d", (int)count, fd_text(fds[0].fd),
         fds[0].events, count > 1 ? fds[1].events : -1, timeout);
    for (nfds_t i = 0; i < count; i++) {
        fds[i].revents = 0;
    }
    if (timeout == 0) { /* was it cut meanwhile?                            */
        bool ready = FD(fds[0].fd).conn->down || chance("has come", 9);
        fds[0].revents = ready ? POLLIN : 0;
        return ready;
    }
    w.now += us[pick("waits", COUNT_OF(us))] * 1000;
    if (count > 1 && FD(fds[1].fd).count) {
        fds[1].revents = POLLIN;
        return 1;
    }
    if (chance("signal", 30)) {
        errno = EINTR;
        return -1;
    }
    if (goes_wrong("wait") || !fds[0].events) {
        w.now += timeout * MS;
        return 0;
    }
    fds[0].revents = fds[0].events;
    return 1;
}

/* -- for same.h ------------------------------------------------------------------------ */

pid_t __wrap_fork(void)
{
    return __real_fork();
}

ssize_t __wrap_read(int fd, void *to, size_t size)
{
    return __real_read(fd, to, size);
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    return __real_waitpid(pid, status, options);
}

_Noreturn void __wrap__exit(int code);
_Noreturn void __wrap__exit(int code)
{
    __real__exit(code);
}

#endif
