/* net/connect.h — sockets to servers: non-blocking, close-on-exec, quiet.
 *
 * An address is the text in struct snib__conn: "host:port", "[v6]:port", or a
 * path that starts with '/' (unix). Errors are errno values. No function here
 * blocks. */
#ifndef SNIB__CONNECT_H
#define SNIB__CONNECT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/time.h"

struct snib__address {
    socklen_t size;
    union {
        struct sockaddr any;
        struct sockaddr_storage inet;
        struct sockaddr_un local;
    } u;
};

typedef enum snib__address_form {
    SNIB__ADDRESS_BAD,  /* not an address at all                          */
    SNIB__ADDRESS_NAME, /* a host name, for snib__net_resolve             */
    SNIB__ADDRESS_READY /* numeric or unix: *ret is filled                */
} snib__address_form;

/* Read an address; asks no name server. */
snib__address_form snib__net_address(const char *text,
                                     struct snib__address *ret);
/* "[::1]:6379" into "::1" and "6379". False: no port, or too long. */
bool snib__net_split(const char *text, char *host, size_t host_size, char *port,
                     size_t port_size);
/* Begin to connect. The result is 0 (connected), EINPROGRESS (when *ret_fd is
 * writable, ask snib__net_connected), or an error. The caller owns *ret_fd in
 * the first two cases. patience: how long the kernel may leave sent bytes
 * unacknowledged (TCP_USER_TIMEOUT). */
int snib__net_connect(const struct snib__address *, snib_duration patience,
                      int *ret_fd);
/* The outcome of a connect under way: 0, EINPROGRESS or the error. */
int snib__net_connected(int fd);
/* send (with MSG_NOSIGNAL) and recv, both with MSG_DONTWAIT and repeated on
 * EINTR. The result is a number of bytes, or -errno (EAGAIN included). */
long snib__net_send(int fd, const void *bytes, size_t size);
long snib__net_recv(int fd, void *bytes, size_t size);

#endif
