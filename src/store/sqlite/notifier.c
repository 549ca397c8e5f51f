/* store/sqlite/notifier.c — notifies a waiter; notices that a process ended.
 *
 * Each client that waits has a unix datagram socket in the -bells directory. A
 * process that grants it a lock sends 64 bytes there after the commit. The
 * kernel's answer is as good as Redis' count of subscribers: ECONNREFUSED or
 * ENOENT says that nobody listens any more, EAGAIN that notifications lie there
 * unread.
 *
 * Addresses go through /proc/self/fd/<-bells directory>/<name>, because
 * sun_path holds 107 bytes and paths may be longer.
 *
 * The client polls an epoll descriptor of the socket and a few pidfds: the
 * first in a queue is told at once when the holder's process ends. A watch
 * names the waiting request; it fires once and is dropped. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "store/sqlite/internal.h"

#define SOCKET_EVENT SNIB__WATCHES

static void notifier_close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

bool snib__notifier_init(struct snib__notifier *b)
{
    *b = (struct snib__notifier){.sock = -1, .epoll = -1, .sender = -1};
    for (int i = 0; i < SNIB__WATCHES; i++) {
        b->watch[i].fd = -1;
    }
    return pthread_mutex_init(&b->mutex, NULL) == 0;
}

void snib__notifier_free(struct snib__notifier *b,
                         const struct snib__lockfile *lockfile, bool forked)
{
    for (int i = 0; i < SNIB__WATCHES; i++) {
        notifier_close_fd(&b->watch[i].fd);
    }
    if (b->sock >= 0 && !forked) {
        unlinkat(lockfile->notifiers, b->name, 0);
    }
    notifier_close_fd(&b->epoll);
    notifier_close_fd(&b->sock);
    notifier_close_fd(&b->sender);
    if (!forked) {
        pthread_mutex_destroy(&b->mutex);
    }
}

static bool notifier_address_of(int dir, const char *name,
                                struct sockaddr_un *ret)
{
    size_t size = sizeof ret->sun_path;
    int n;
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strchr(name, '/')) {
        return false;
    }
    n = snprintf(ret->sun_path, size, "/proc/self/fd/%d/%s", dir, name);
    return n > 0 && (size_t)n < size;
}

/* net.unix.max_dgram_qlen: how many notifications may lie unread. */
static uint32_t notifier_read_queue_max(void)
{
    char text[16] = "";
    int fd = open("/proc/sys/net/unix/max_dgram_qlen", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = TEMP_FAILURE_RETRY(read(fd, text, sizeof text - 1));
        close(fd);
        text[n > 0 ? n : 0] = 0;
    }
    long v = strtol(text, NULL, 10);
    return v > 0 && v < 1000000 ? (uint32_t)v : 10;
}

static bool notifier_bind_at(const struct snib__notifier *b, int dir,
                             const char *name)
{
    struct sockaddr_un a;
    return notifier_address_of(dir, name, &a) &&
           bind(b->sock, (struct sockaddr *)&a, sizeof a) == 0;
}

/* Sending to a socket needs write permission, so a socket in a shared directory
 * gets a mode of its own; not by a chmod of its name in the -bells directory,
 * see stage.c. */
static bool notifier_put_socket(const struct snib__notifier *b,
                                const struct snib__lockfile *lockfile)
{
    struct snib__stage s;
    if (!lockfile->shared) {
        return notifier_bind_at(b, lockfile->notifiers, b->name);
    }
    return snib__stage_open(&s, lockfile->notifiers, S_IFSOCK | 0660) &&
           snib__stage_close(&s, notifier_bind_at(b, s.fd, SNIB__STAGED),
                             b->name);
}

static bool notifier_make(struct snib__notifier *b,
                          const struct snib__lockfile *lockfile)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = SOCKET_EVENT};
    b->sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    b->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (b->sock < 0 || b->epoll < 0 || !notifier_put_socket(b, lockfile)) {
        return false;
    }
    if (epoll_ctl(b->epoll, EPOLL_CTL_ADD, b->sock, &e)) {
        unlinkat(lockfile->notifiers, b->name, 0);
        return false;
    }
    b->queue_max = notifier_read_queue_max();
    return true;
}

void snib__notifier_make(struct snib__notifier *b,
                         const struct snib__lockfile *lockfile,
                         const uint64_t client[2])
{
    pthread_mutex_lock(&b->mutex);
    snprintf(b->name, sizeof b->name, "%016llx%016llx",
             (unsigned long long)client[0], (unsigned long long)client[1]);
    if (!notifier_make(b, lockfile)) {
        notifier_close_fd(&b->sock);
        notifier_close_fd(&b->epoll);
        b->name[0] = 0;
    }
    pthread_mutex_unlock(&b->mutex);
}

int snib__notifier_fd(struct snib__notifier *b)
{
    pthread_mutex_lock(&b->mutex);
    int fd = b->epoll;
    pthread_mutex_unlock(&b->mutex);
    return fd;
}

static int notifier_open_sender(struct snib__notifier *b)
{
    if (b->sender < 0) {
        b->sender =
            socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    return b->sender;
}

void snib__notifier_tell_of(const struct snib__stored_claim *c,
                            struct snib__notification *ret)
{
    memset(ret, 0, sizeof *ret);
    memcpy(ret->address, c->notifier, sizeof c->notifier);
    memcpy(ret->message, SNIB__NOTIFIER_MAGIC, 8);
    memcpy(ret->message + 8, c->request, 16);
    memcpy(ret->message + 24, &c->token, 8);
    ret->size = sizeof ret->message;
}

snib__notify_result snib__notifier_notify(struct snib__notifier *b,
                                          const struct snib__lockfile *lockfile,
                                          const struct snib__notification *r)
{
    struct sockaddr_un a;
    if (notifier_open_sender(b) < 0 ||
        !notifier_address_of(lockfile->notifiers, r->address, &a)) {
        return SNIB__NOTIFY_TOLD;
    }
    if (sendto(b->sender, r->message, r->size, MSG_NOSIGNAL | MSG_DONTWAIT,
               (struct sockaddr *)&a, sizeof a) < 0) {
        if (errno == ECONNREFUSED) {
            unlinkat(lockfile->notifiers, r->address, 0);
            return SNIB__NOTIFY_DEAD;
        }
        if (errno == ENOENT) {
            return SNIB__NOTIFY_DEAD;
        }
    }
    return SNIB__NOTIFY_TOLD;
}

uint32_t snib__notifier_tidy(struct snib__notifier *b,
                             const struct snib__lockfile *lockfile,
                             uint32_t max)
{
    struct sockaddr_un a;
    uint32_t left = 0;
    int fd =
        openat(lockfile->notifiers, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    if (!d) {
        notifier_close_fd(&fd);
        return 0;
    }
    while (max && (e = readdir(d))) {
        if (e->d_type != DT_SOCK && e->d_type != DT_UNKNOWN) {
            continue;
        }
        max--;
        left++;
        int probe =
            socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (probe >= 0 && strcmp(e->d_name, b->name) != 0 &&
            notifier_address_of(lockfile->notifiers, e->d_name, &a) &&
            connect(probe, (struct sockaddr *)&a, sizeof a) &&
            errno == ECONNREFUSED) {
            unlinkat(lockfile->notifiers, e->d_name, 0);
            left--;
        }
        notifier_close_fd(&probe);
    }
    closedir(d);
    return left;
}

/* -- receiving ------------------------------------------------------------- */

/* close() alone would leave it in the epoll set when a forked child has a
 * copy. */
static void notifier_drop_watch(struct snib__notifier *b, struct snib__watch *w)
{
    epoll_ctl(b->epoll, EPOLL_CTL_DEL, w->fd, NULL);
    notifier_close_fd(&w->fd);
    b->watching--;
}

static uint32_t notifier_fired(struct snib__notifier *b, uint64_t (*ids)[2],
                               uint32_t max)
{
    struct epoll_event e[SNIB__WATCHES + 1];
    uint32_t n = 0;
    int count = epoll_wait(b->epoll, e, SNIB__WATCHES + 1, 0);
    for (int i = 0; i < count; i++) {
        uint32_t k = e[i].data.u32;
        if (k < SNIB__WATCHES && b->watch[k].fd >= 0 && n < max) {
            memcpy(ids[n++], b->watch[k].request, sizeof ids[0]);
            notifier_drop_watch(b, &b->watch[k]);
        }
    }
    return n;
}

uint32_t snib__notifier_take(struct snib__notifier *b, uint64_t (*ids)[2],
                             uint32_t max)
{
    uint8_t m[64];
    uint32_t n = 0;
    bool overflow = false;
    pthread_mutex_lock(&b->mutex);
    if (b->watching) {
        n = notifier_fired(b, ids, max);
    }
    while (b->sock >= 0 && n < max) {
        ssize_t got =
            TEMP_FAILURE_RETRY(recv(b->sock, m, sizeof m, MSG_DONTWAIT));
        if (got < 0) {
            /* The queue was full: another may have been turned away. */
            overflow = b->streak >= b->queue_max;
            b->streak = 0;
            break;
        }
        b->streak++;
        if (got == sizeof m && memcmp(m, SNIB__NOTIFIER_MAGIC, 8) == 0) {
            memcpy(ids[n++], m + 8, sizeof ids[0]);
        }
    }
    pthread_mutex_unlock(&b->mutex);
    return overflow ? UINT32_MAX : n;
}

void snib__notifier_unwatch(struct snib__notifier *b, const uint64_t request[2])
{
    pthread_mutex_lock(&b->mutex);
    for (int i = 0; b->watching && i < SNIB__WATCHES; i++) {
        struct snib__watch *w = &b->watch[i];
        if (w->fd >= 0 && w->request[0] == request[0] &&
            w->request[1] == request[1]) {
            notifier_drop_watch(b, w);
        }
    }
    pthread_mutex_unlock(&b->mutex);
}

static struct snib__watch *notifier_slot_for(struct snib__notifier *b,
                                             const uint64_t request[2],
                                             int64_t pid)
{
    struct snib__watch *free_slot = NULL;
    for (int i = 0; i < SNIB__WATCHES; i++) {
        struct snib__watch *w = &b->watch[i];
        if (w->fd < 0) {
            free_slot = free_slot ? free_slot : w;
        } else if (w->request[0] == request[0] && w->request[1] == request[1]) {
            if (w->pid == pid) {
                return NULL; /* that process is watched already */
            }
            notifier_drop_watch(b, w);
            return w;
        }
    }
    return free_slot;
}

void snib__notifier_watch(struct snib__notifier *b, const struct snib__host *h,
                          const uint64_t request[2], int64_t pid, int64_t pidns)
{
    struct snib__watch *w;
    if (b->epoll < 0) {
        return;
    }
    pthread_mutex_lock(&b->mutex);
    w = notifier_slot_for(b, request, pid);
    if (w && (w->fd = snib__host_pidfd(h, pid, pidns)) >= 0) {
        struct epoll_event e = {.events = EPOLLIN,
                                .data.u32 = (uint32_t)(w - b->watch)};
        memcpy(w->request, request, sizeof w->request);
        w->pid = pid;
        b->watching++;
        if (epoll_ctl(b->epoll, EPOLL_CTL_ADD, w->fd, &e)) {
            notifier_drop_watch(b, w);
        }
    }
    pthread_mutex_unlock(&b->mutex);
}
