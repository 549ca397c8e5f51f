/* net/connect.c — see connect.h.
 *
 * A half-open connection must not cost more than one request's patience, so TCP
 * sockets get TCP_USER_TIMEOUT (for unacknowledged bytes) and keepalive (for
 * idle connections). A TCP connect to a free port in the ephemeral range of the
 * own host can meet itself. Such a connection would answer with our own
 * commands, so it is refused. */
#include "net/connect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool snib__net_split(const char *text, char *host, size_t host_size, char *port,
                     size_t port_size)
{
    const char *begin = text, *end, *colon;
    if (*text == '[') {
        begin = text + 1;
        end = strchr(begin, ']');
        colon = end ? end + 1 : NULL;
    } else {
        end = colon = strrchr(text, ':');
    }
    if (!end || end == begin || *colon != ':' || !colon[1]) {
        return false;
    }
    size_t n = (size_t)(end - begin), m = strlen(colon + 1);
    if (n >= host_size || m >= port_size) {
        return false;
    }
    memcpy(host, begin, n);
    host[n] = 0;
    memcpy(port, colon + 1, m + 1);
    return true;
}

static snib__address_form connect_local_address(const char *path,
                                                struct snib__address *ret)
{
    size_t n = strlen(path);
    if (n >= sizeof ret->u.local.sun_path) {
        return SNIB__ADDRESS_BAD;
    }
    ret->u.local.sun_family = AF_UNIX;
    memcpy(ret->u.local.sun_path, path, n + 1);
    ret->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    return SNIB__ADDRESS_READY;
}

snib__address_form snib__net_address(const char *text,
                                     struct snib__address *ret)
{
    char host[256], port[8], *end;
    memset(ret, 0, sizeof *ret);
    if (*text == '/') {
        return connect_local_address(text, ret);
    }
    if (!snib__net_split(text, host, sizeof host, port, sizeof port)) {
        return SNIB__ADDRESS_BAD;
    }
    long number = strtol(port, &end, 10);
    if (*end || number < 1 || number > 65535) {
        return SNIB__ADDRESS_BAD;
    }
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&ret->u.inet;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&ret->u.inet;
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)number);
        ret->size = sizeof *v4;
        return SNIB__ADDRESS_READY;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)number);
        ret->size = sizeof *v6;
        return SNIB__ADDRESS_READY;
    }
    memset(ret, 0, sizeof *ret);
    return SNIB__ADDRESS_NAME; /* "fe80::1%eth0" too: getaddrinfo knows it   */
}

static void connect_set(int fd, int level, int option, int value)
{
    /* A failure is ignored: no option is needed for correctness. */
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

static void connect_tune(int fd, snib_duration patience)
{
    int64_t ms = snib__to_ms(patience);
    int s = ms < 1000 ? 1 : ms > 60000 ? 60 : (int)(ms / 1000);
    connect_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    connect_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
                ms > 600000 ? 600000 : (int)ms);
    connect_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    connect_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, s);
    connect_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, s);
    connect_set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

static bool connect_meets_itself(int fd)
{
    struct sockaddr_storage a, b;
    socklen_t n = sizeof a, m = sizeof b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    return !getsockname(fd, (struct sockaddr *)&a, &n) &&
           !getpeername(fd, (struct sockaddr *)&b, &m) &&
           a.ss_family != AF_UNIX && n == m && !memcmp(&a, &b, n);
}

int snib__net_connect(const struct snib__address *to, snib_duration patience,
                      int *ret_fd)
{
    int family = to->u.any.sa_family;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *ret_fd = -1;
    if (fd < 0) {
        return errno;
    }
    if (family != AF_UNIX) {
        connect_tune(fd, patience);
    }
    int err = 0;
    if (connect(fd, &to->u.any, to->size)) {
        /* A connect that a signal interrupts goes on by itself. */
        err = errno == EINTR ? EINPROGRESS : errno;
    } else if (connect_meets_itself(fd)) {
        err = ECONNREFUSED;
    }
    if (err && err != EINPROGRESS) {
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return err;
}

int snib__net_connected(int fd)
{
    int err = 0;
    socklen_t n = sizeof err;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n)) {
        return errno;
    }
    if (err) {
        return err;
    }
    struct sockaddr_storage peer;
    n = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &n)) {
        return errno == ENOTCONN ? EINPROGRESS : errno;
    }
    return connect_meets_itself(fd) ? ECONNREFUSED : 0;
}

long snib__net_send(int fd, const void *bytes, size_t size)
{
    ssize_t n;
    do {
        n = send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : (long)n;
}

long snib__net_recv(int fd, void *bytes, size_t size)
{
    ssize_t n;
    do {
        n = recv(fd, bytes, size, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : (long)n;
}
