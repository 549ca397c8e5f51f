/* wide_fds.c — what the product asks of the kernel, told: each descriptor by
 * what it is and by its turn, since its number is another in each process. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/error.h"
#include "host.h"
#include "real.h"
#include "unseen.h"
#include "wide.h"

WRAPPED(int, eventfd, unsigned, int);
WRAPPED(int, epoll_create1, int);
WRAPPED(int, epoll_ctl, int, int, int, struct epoll_event *);
WRAPPED(int, socket, int, int, int);
WRAPPED(int, getsockopt, int, int, int, void *, socklen_t *);
WRAPPED(int, shutdown, int, int);
WRAPPED(int, pthread_condattr_setclock, pthread_condattr_t *, clockid_t);

enum { FDS = 1024 };

static struct {
    const char *kind; /* NULL: none, or not of the product                  */
    int turn;
} fds[FDS];

static int made;

void host_fd(const char *kind, int fd)
{
    UNSEEN;
    if (fd >= 0 && fd < FDS) {
        fds[fd].kind = kind;
        fds[fd].turn = ++made;
    }
}

void host_fd_goes(int fd)
{
    UNSEEN;
    if (fd >= 0 && fd < FDS) {
        fds[fd].kind = NULL;
    }
}

/* Whoever calls looks at errno afterwards. A file is no affair of ours: what is
 * in those of /proc differs. */
void host_does(const char *call, int fd, int64_t a, int64_t b)
{
    int err = errno;
    UNSEEN;
    bool known = fd >= 0 && fd < FDS && fds[fd].kind;
    if (sched_self() >= 0 && (known || fd < 0)) {
        tell("%s %s %d: %" PRId64 " %" PRId64, call, known ? fds[fd].kind : "-",
             known ? fds[fd].turn : 0, a, b);
    }
    errno = err;
}

static bool fails(const char *call)
{
    int err = host_fails(call);
    errno = err ? err : errno;
    return err != 0;
}

static int opened(const char *kind, int fd, int64_t a, int64_t b)
{
    if (sched_self() >= 0) {
        host_fd(kind, fd);
        host_does("makes", fd, a, b);
    }
    return fd;
}

int WRAP(eventfd)(unsigned value, int flags)
{
    return fails("eventfd")
               ? -1
               : opened("bell", REAL(eventfd)(value, flags), value, flags);
}

int WRAP(epoll_create1)(int flags)
{
    return fails("epoll_create1")
               ? -1
               : opened("set", REAL(epoll_create1)(flags), flags, 0);
}

int WRAP(epoll_ctl)(int set, int what, int fd, struct epoll_event *e)
{
    host_does("of the set", set, what, 0);
    host_does("watches", fd, e ? (int64_t)e->events : -1,
              e ? (int64_t)e->data.u64 : -1);
    return what == EPOLL_CTL_ADD && fails("epoll_ctl")
               ? -1
               : REAL(epoll_ctl)(set, what, fd, e);
}

int WRAP(socket)(int family, int type, int protocol)
{
    return fails("socket")
               ? -1
               : opened("socket", REAL(socket)(family, type, protocol), family,
                        type);
}

int WRAP(getsockopt)(int fd, int level, int what, void *ret, socklen_t *size)
{
    host_does("looks at", fd, level, what);
    int err =
        level == SOL_SOCKET && what == SO_ERROR ? host_fails("getsockopt") : 0;
    if (err) {
        memcpy(ret, &err, sizeof err);
        return 0;
    }
    return REAL(getsockopt)(fd, level, what, ret, size);
}

int WRAP(shutdown)(int fd, int how)
{
    host_does("shuts", fd, how, 0);
    return REAL(shutdown)(fd, how);
}

int WRAP(pthread_condattr_setclock)(pthread_condattr_t *a, clockid_t clock)
{
    host_does("a clock", -1, clock, 0);
    return REAL(pthread_condattr_setclock)(a, clock);
}
