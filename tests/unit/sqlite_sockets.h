/* tests/unit/sqlite_sockets.h — the bells of unit.sqlite_same: datagram
 * sockets that are files of its tree, sets of what to wait for, the reading of
 * a directory. See sqlite_world.h. */
#ifndef SNIB_TESTS_SQLITE_SOCKETS_H
#define SNIB_TESTS_SQLITE_SOCKETS_H

#include "sqlite_host.h"

/* -- sockets ---------------------------------------------------------------------- */

int __wrap_socket(int domain, int type, int protocol)
{
    tell("socket %d %d %d", domain, type, protocol);
    return goes_wrong("socket") ? -1 : open_fd(FD_SOCKET, NULL);
}

/* "/proc/self/fd/N/name": where that is. */
static const char *address(const struct sockaddr *a, socklen_t size)
{
    const struct sockaddr_un *u = (const struct sockaddr_un *)a;
    int fd = 0;
    char name[120] = "";
    assert_int_equal(size, sizeof *u);
    assert_int_equal(u->sun_family, AF_UNIX);
    tell("address %s", u->sun_path);
    sscanf(u->sun_path, "/proc/self/fd/%d/%119s", &fd, name);
    return full(fd, name);
}

int __wrap_bind(int fd, const struct sockaddr *a, socklen_t size)
{
    const char *path = address(a, size);
    tell("bind %s", fd_text(fd));
    if (goes_wrong("bind")) {
        return -1;
    }
    if (!path[0] || node_at(path)) {
        return fault(path[0] ? EADDRINUSE : ENOENT);
    }
    FD(fd).node = make_file(path, S_IFSOCK | 0777);
    FD(fd).node->heard = true;
    return 0;
}

int __wrap_connect(int fd, const struct sockaddr *a, socklen_t size)
{
    const struct node *n = node_at(address(a, size));
    tell("connect %s", fd_text(fd));
    if (goes_wrong("connect")) {
        return -1;
    }
    return !n ? fault(ENOENT) : n->heard ? 0 : fault(ECONNREFUSED);
}

static void while_ringing(void); /* sqlite_strangers.h                      */

ssize_t __wrap_sendto(int fd, const void *bytes, size_t size, int flags,
                      const struct sockaddr *a, socklen_t room)
{
    struct node *n = node_at(address(a, room));
    tell("sendto %s %d, %zu bytes", fd_text(fd), flags, size);
    same_stir(bytes, size);
    if (goes_wrong("sendto")) {
        return -1;
    }
    if (!n || !n->heard) {
        while_ringing();
        return fault(n ? ECONNREFUSED : ENOENT);
    }
    if (n->unread == QUEUE) {
        return fault(EAGAIN);
    }
    n->queue[n->unread].size = size;
    memcpy(n->queue[n->unread++].bytes, bytes, size < 64 ? size : 64);
    return (ssize_t)size;
}

ssize_t __wrap_recv(int fd, void *to, size_t size, int flags)
{
    struct node *n = is_open(fd, FD_SOCKET) ? FD(fd).node : NULL;
    tell("recv %s %zu %d", fd_text(fd), size, flags);
    if (goes_wrong("recv")) {
        return -1;
    }
    if (!n || n->unread == 0) {
        return fault(EAGAIN);
    }
    size = size < n->queue[0].size ? size : n->queue[0].size;
    memcpy(to, n->queue[0].bytes, size);
    memmove(n->queue, n->queue + 1, sizeof n->queue[0] * (size_t)--n->unread);
    return (ssize_t)size;
}

ssize_t __wrap___recv_chk(int fd, void *to, size_t size, size_t room,
                          int flags);
ssize_t __wrap___recv_chk(int fd, void *to, size_t size, size_t room, int flags)
{
    assert_true(size <= room);
    return __wrap_recv(fd, to, size, flags);
}

/* What somebody sends who is no client: other sizes, other words. */
static void strange_message(struct node *n)
{
    size_t size = (size_t[]){64, 63, 8, 0, 64, 64}[pick("strange", 6)];
    if (n->unread < QUEUE) {
        uint8_t *to = n->queue[n->unread].bytes;
        memcpy(to, SNIB__NOTIFIER_MAGIC, 8);
        for (int i = 8; i < 64; i++) {
            to[i] = (uint8_t)pick("byte", 3);
        }
        to[pick("at", 12)] ^= chance("bent", 2);
        n->queue[n->unread++].size = size;
        tell("strange message of %zu to %s", size, path_of(n));
    }
}

/* -- sets -------------------------------------------------------------------------- */

int __wrap_epoll_create1(int flags)
{
    tell("epoll_create1 %d", flags);
    return goes_wrong("epoll") ? -1 : open_fd(FD_EPOLL, NULL);
}

static struct snib__notifier *
notifier_of(int set); /* sqlite_asked.h               */

/* Whoever touches a set has its bell's mutex. */
static void tell_mutex(int set)
{
    struct snib__notifier *b = notifier_of(set);
    if (b) {
        int rc = pthread_mutex_trylock(&b->mutex);
        tell("mutex: %d", rc);
        if (rc == 0) {
            pthread_mutex_unlock(&b->mutex);
        }
    }
}

int __wrap_epoll_ctl(int set, int what, int fd, struct epoll_event *e)
{
    tell("epoll_ctl %s %d %s %d %d", fd_text(set), what, fd_text(fd),
         e ? (int)e->events : -1, e ? (int)e->data.u32 : -1);
    tell_mutex(set);
    if (goes_wrong("epoll_ctl")) {
        return -1;
    }
    if (!is_open(set, FD_EPOLL)) {
        return fault(EBADF);
    }
    for (int i = 0; i < WATCHED; i++) {
        int *there = &FD(set).watched[i].fd;
        if (what == EPOLL_CTL_DEL ? *there == fd : *there == 0) {
            *there = what == EPOLL_CTL_DEL ? 0 : fd;
            FD(set).watched[i].data = e ? e->data.u32 : 0;
            return 0;
        }
    }
    return fault(ENOENT);
}

int __wrap_epoll_wait(int set, struct epoll_event *e, int max, int timeout)
{
    int n = 0;
    tell("epoll_wait %s %d %d", fd_text(set), max, timeout);
    tell_mutex(set);
    if (goes_wrong("epoll_wait")) {
        return -1;
    }
    for (int i = 0; i < WATCHED && n < max; i++) {
        if (FD(set).watched[i].fd && is_ready(FD(set).watched[i].fd)) {
            e[n].events = EPOLLIN;
            e[n++].data.u32 = FD(set).watched[i].data;
        }
    }
    return n;
}

/* -- a directory's entries ---------------------------------------------------------- */

static struct {
    int fd, at;
    struct dirent entry;
} listing;

DIR *__real_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd)
{
    if (!same.on) {
        return __real_fdopendir(fd);
    }
    tell("fdopendir %s", fd_text(fd));
    if (goes_wrong("fdopen")) {
        return NULL;
    }
    listing.fd = fd;
    listing.at = -2;
    return (DIR *)&listing;
}

struct dirent *__real_readdir(DIR *d);
struct dirent *__wrap_readdir(DIR *d)
{
    char above[300];
    if (!same.on) {
        return __real_readdir(d);
    }
    struct dirent *e = &listing.entry;
    if (listing.at < 0) {
        e->d_type = DT_DIR;
        snprintf(e->d_name, sizeof e->d_name, listing.at++ == -2 ? "." : "..");
        return e;
    }
    for (; listing.at < ENTRIES; listing.at++) {
        const char *path = w.entries[listing.at].path;
        parent_of(path, above, sizeof above);
        if (!path[0] || strcmp(above, path_of(FD(listing.fd).node)) != 0) {
            continue;
        }
        e->d_type = (unsigned char)(w.entries[listing.at].node->mode >> 12);
        e->d_type = chance("type is not told", 4) ? DT_UNKNOWN : e->d_type;
        snprintf(e->d_name, sizeof e->d_name, "%s", path + strlen(above) + 1);
        listing.at++;
        return e;
    }
    return NULL;
}

int __real_closedir(DIR *d);
int __wrap_closedir(DIR *d)
{
    if (!same.on) {
        return __real_closedir(d);
    }
    tell("closedir");
    return __wrap_close(listing.fd);
}

/* -- for same.h and the watches ------------------------------------------------------ */

pid_t __wrap_fork(void)
{
    return __real_fork();
}

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    return __real_write(fd, bytes, size);
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
