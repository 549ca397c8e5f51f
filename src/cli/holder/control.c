/* control.c — see control.h. */
#define _GNU_SOURCE
#include "cli/holder/control.h"
#include "cli/supervisor/proc.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define PREFIX "snib."

static socklen_t control_set_address(struct sockaddr_un *to,
                                     const char *address)
{
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       (size_t)snprintf(to->sun_path + 1,
                                        sizeof to->sun_path - 1, PREFIX "%s",
                                        address));
}

bool control_address_valid(const char *address)
{
    size_t digits = strspn(address, "0123456789");

    return digits > 0 && digits < 11 && address[digits] == '.' &&
           strspn(address + digits + 1, "0123456789abcdef") == 16 &&
           address[digits + 17] == '\0';
}

/* FNV-1a, begun with `hash`. */
static uint64_t control_hash(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

void control_set_store(char to[CONTROL_STORE_MAX], const char *url)
{
    enum { HASH = 33 };
    size_t size = strlen(url);

    if (size < CONTROL_STORE_MAX) {
        memcpy(to, url, size + 1);
        return;
    }
    size = CONTROL_STORE_MAX - 1 - HASH;
    memcpy(to, url, size);
    snprintf(to + size, HASH + 1, "#%016" PRIx64 "%016" PRIx64,
             control_hash(UINT64_C(0xcbf29ce484222325), url),
             control_hash(UINT64_C(0x84222325cbf29ce4), url));
}

int control_listen(char ret_address[CONTROL_ADDRESS_MAX])
{
    struct sockaddr_un address;
    socklen_t size;
    uint64_t random;
    ssize_t got;
    int fd;

    got = TEMP_FAILURE_RETRY(getrandom(&random, sizeof random, 0));
    if (got != (ssize_t)sizeof random) {
        return -1;
    }
    snprintf(ret_address, CONTROL_ADDRESS_MAX, "%u.%016" PRIx64,
             (unsigned)geteuid(), random);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    size = control_set_address(&address, ret_address);
    if (bind(fd, (struct sockaddr *)&address, size) != 0 ||
        listen(fd, 16) != 0) {
        int error = errno;

        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static bool control_peer_of(int fd, struct ucred *ret)
{
    socklen_t size = sizeof *ret;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &size) == 0;
}

pid_t control_peer(int fd)
{
    struct ucred peer;

    return control_peer_of(fd, &peer) ? peer.pid : 0;
}

/* Is the asker the same user, or root, who may inspect any process anyway? */
static bool control_asker_is_ours(int fd)
{
    struct ucred peer;

    return control_peer_of(fd, &peer) &&
           (peer.uid == geteuid() || peer.uid == 0);
}

uid_t control_owner(const char *address)
{
    return (uid_t)strtoul(address, NULL, 10);
}

/* Is the process that answers the same user's, or, for root, the user's that
 * the address begins with? A holder of any other user, root or not, would not
 * answer this process (control_asker_is_ours). The check is needed because
 * /proc/net/unix shows the names to everybody: when a holder is dead anybody
 * can bind its name. (The first rule is for a user namespace, where the same
 * user has another number inside than outside.) */
static bool control_holder_is_meant(const struct ucred *holder,
                                    const char *address)
{
    return holder->uid == geteuid() ||
           (holder->uid == control_owner(address) && geteuid() == 0);
}

/* Would the holder of that address answer this process? Then who has the
 * address, and is not meant, is not the holder. */
static bool control_holder_would_answer(const char *address)
{
    return geteuid() == 0 || geteuid() == control_owner(address);
}

int control_accept(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0 && !control_asker_is_ours(fd)) {
        close(fd);
        return -1;
    }
    return fd;
}

bool control_receive(int fd, struct control_request *ret)
{
    ssize_t size = TEMP_FAILURE_RETRY(
        recv(fd, ret, sizeof *ret, MSG_DONTWAIT | MSG_TRUNC));

    return size == (ssize_t)sizeof *ret && ret->magic == CONTROL_MAGIC &&
           ret->name_size <= SNIB_NAME_MAX;
}

void control_send(int fd, const struct control_reply *reply)
{
    TEMP_FAILURE_RETRY(
        send(fd, reply, sizeof *reply, MSG_DONTWAIT | MSG_NOSIGNAL));
}

void control_send_above(int fd, const struct control_above *reply)
{
    TEMP_FAILURE_RETRY(
        send(fd, reply, sizeof *reply, MSG_DONTWAIT | MSG_NOSIGNAL));
}

/* A buffer for the answer: bytes begins with the magic. */
struct answer {
    void *bytes;
    size_t size;
    pid_t holder; /* 0: not seen in this pid namespace */
};

static bool control_talk(int fd, const char *address,
                         const struct control_request *request, int timeout_ms,
                         struct answer *ret)
{
    const uint32_t *magic = ret->bytes;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct ucred peer;
    ssize_t size;

    if (!control_peer_of(fd, &peer) ||
        !control_holder_is_meant(&peer, address)) {
        errno = control_holder_would_answer(address) ? EADDRINUSE : EPERM;
        return false;
    }
    ret->holder = peer.pid;
    if (TEMP_FAILURE_RETRY(send(fd, request, sizeof *request, MSG_NOSIGNAL)) <
        0) {
        return false;
    }
    if (TEMP_FAILURE_RETRY(poll(&p, 1, timeout_ms)) <= 0) {
        errno = ETIMEDOUT;
        return false;
    }
    size = TEMP_FAILURE_RETRY(
        recv(fd, ret->bytes, ret->size, MSG_DONTWAIT | MSG_TRUNC));
    if (size <= 0) {
        errno = size < 0 ? errno : ECONNRESET;
        return false;
    }
    if (size != (ssize_t)ret->size || *magic != CONTROL_MAGIC) {
        errno = EPROTO;
        return false;
    }
    return true;
}

static bool control_ask_once(const char *address,
                             const struct control_request *request,
                             int timeout_ms, struct answer *ret)
{
    struct sockaddr_un to;
    socklen_t size = control_set_address(&to, address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct timeval patience = {.tv_sec = timeout_ms / 1000,
                               .tv_usec = timeout_ms % 1000 * 1000};
    bool ok;
    int error;

    if (fd < 0) {
        return false;
    }
    /* connect waits when a stopped holder's backlog is full. */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    ok = TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&to, size)) == 0 &&
         control_talk(fd, address, request, timeout_ms, ret);
    error = errno;
    close(fd);
    errno = error;
    return ok;
}

/* A holder drops an asker that does not send soon after connecting, which may
 * happen on a busy machine. The holder has done nothing then, and is asked
 * again. */
static bool ask(const char *address, const struct control_request *request,
                int timeout_ms, struct answer *ret)
{
    int64_t end = proc_now() + timeout_ms * INT64_C(1000000);
    int64_t left = timeout_ms;

    while (!control_ask_once(address, request, (int)left, ret)) {
        left = (end - proc_now()) / 1000000;
        if ((errno != ECONNRESET && errno != EPIPE) || left <= 0) {
            return false;
        }
    }
    return true;
}

/* An older holder's text may be longer than `text` is now; its end then lies
 * where this release has `cause`. */
static void control_end_text(struct control_reply *reply)
{
    size_t last = sizeof reply->text - 1;

    if (memchr(reply->text, '\0', sizeof reply->text) != NULL) {
        return;
    }
    reply->cause = SNIB_CAUSE_NONE;
    while (((unsigned char)reply->text[last] & 0xC0u) == 0x80u && last > 0) {
        last--; /* no half of a character */
    }
    reply->text[last] = '\0';
}

bool control_ask_whom(const char *address,
                      const struct control_request *request, int timeout_ms,
                      struct control_reply *ret, pid_t *ret_holder)
{
    struct answer answer = {.bytes = ret, .size = sizeof *ret};

    if (!ask(address, request, timeout_ms, &answer)) {
        return false;
    }
    ret->store[sizeof ret->store - 1] = '\0';
    control_end_text(ret);
    *ret_holder = answer.holder;
    return true;
}

bool control_ask(const char *address, const struct control_request *request,
                 int timeout_ms, struct control_reply *ret)
{
    pid_t holder;

    return control_ask_whom(address, request, timeout_ms, ret, &holder);
}

bool control_ask_above(const char *address,
                       const struct control_request *request, int timeout_ms,
                       struct control_above *ret)
{
    struct answer answer = {.bytes = ret, .size = sizeof *ret};

    if (!ask(address, request, timeout_ms, &answer)) {
        return false;
    }
    ret->store[sizeof ret->store - 1] = '\0';
    ret->request[sizeof ret->request - 1] = '\0';
    return true;
}
