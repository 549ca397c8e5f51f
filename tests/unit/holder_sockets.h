/* tests/unit/holder_sockets.h — the rest of holder_host.h: the supervisor's
 * socket, the holder's private one and who asks there, and those of holders up
 * the tree. */
#ifndef SNIB_TESTS_HOLDER_SOCKETS_H
#define SNIB_TESTS_HOLDER_SOCKETS_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

/* What is told of a supervisor, or answered to who asks. */
static void tell_sent(const void *bytes, size_t size)
{
    const struct plan_message *m = bytes;
    const struct control_reply *r = bytes;
    const struct control_above *a = bytes;
    const struct control_request *q = bytes;
    if (size == sizeof *m) {
        tell("says %d %d %d %d %d %s", m->kind, m->code, m->why, m->grant,
             m->lingers, m->text);
    } else if (size == sizeof *r) {
        tell("answers %d, until %lld of %lld, %d %d, kind %d, %d permits, slot "
             "%d, %d",
             r->code, (long long)r->deadline_ns, (long long)r->ttl_ns,
             (int)r->token, r->magic == CONTROL_MAGIC, r->kind, (int)r->permits,
             (int)r->slot, r->cause);
        tell("%s %s", r->store, r->text);
    } else if (size == sizeof *a) {
        tell("answers %d %d, %d %d %d, %s %s", a->code,
             a->magic == CONTROL_MAGIC, a->pid, a->supervisor, a->group,
             a->request, a->store);
    } else if (size == sizeof *q) {
        tell("asks %d %d %d %d %d %.*s", q->magic == CONTROL_MAGIC,
             (int)q->verb, (int)q->lease_ms, (int)q->token, (int)q->holder_pid,
             (int)q->name_size, q->name);
    } else {
        tell("sends %zu bytes", size);
    }
}

ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags)
{
    tell("to %s, %#x:", fd_kind(fd), (unsigned)flags);
    tell_sent(bytes, size);
    if (fails("send")) {
        return -1;
    }
    if (fd_is(fd, "leash") && w.supervisor_dead) {
        errno = EPIPE;
        return -1;
    }
    return (ssize_t)size;
}

/* -- those that answer and ask ------------------------------------------------------- */

static ssize_t outer_replies(void *to, size_t size)
{
    static const int64_t left[] = {60 * S, 60 * S,   60 * S,  60 * S, 60 * S,
                                   5 * S,  300 * MS, 21 * MS, S};
    struct control_reply r = {
        .magic = chance("not ours", 12) ? 1 : CONTROL_MAGIC,
        .code = chance("lost above", 6) ? CLI_LOST : 0,
        .deadline_ns = chance("older", 30)
                           ? 0
                           : w.now + left[pick("outer left", COUNT_OF(left))],
        .token = 321,
        .ttl_ns = (chance("short lease", 3) ? 6 : 30) * S,
        .kind =
            (int32_t)(chance("another kind", 4) ? SNIB_KIND_READ : w.plan.kind),
        .permits = 1 + (uint32_t)pick("outer permits", 2),
        .slot = 6,
        .cause = (int32_t)pick("outer reason", SNIB_CAUSE_HOLD_MAX + 1)};
    snprintf(r.store, sizeof r.store, "%s",
             chance("another store", 10) ? "redis://other:1" : w.page.store);
    snprintf(r.text, sizeof r.text, "%s",
             r.code ? "revoked by anna" : "abcdef:5");
    memcpy(to, &r, size < sizeof r ? size : sizeof r);
    return chance("cut", 12) ? 10 : (ssize_t)sizeof r;
}

static ssize_t outer_replies_above(void *to, size_t size, bool second)
{
    struct control_above r = {.magic = CONTROL_MAGIC,
                              .code = chance("lost above", 10) ? CLI_LOST : 0,
                              .supervisor =
                                  second ? SECOND_SUPERVISOR : OUTER_SUPERVISOR,
                              .group = second ? SECOND_COMMAND : OUTER_COMMAND};
    snprintf(r.request, sizeof r.request, "%s%s",
             second ? "fedcba9876543210" : "0123456789abcdef",
             chance("no request", 10) ? "" : "0000000000000000");
    snprintf(r.store, sizeof r.store, "%s",
             chance("another store", 10) ? "redis://other:1" : w.page.store);
    r.group = chance("no group", 12) ? 0 : r.group;
    r.supervisor = chance("another leash", 12) ? 1 : r.supervisor;
    memcpy(to, &r, size < sizeof r ? size : sizeof r);
    return (ssize_t)sizeof r;
}

static ssize_t somebody_asks(void *to, size_t size)
{
    static const uint32_t verbs[] = {CONTROL_STATUS,
                                     CONTROL_STATUS,
                                     CONTROL_RENEW,
                                     CONTROL_RENEW,
                                     CONTROL_ABOVE,
                                     CONTROL_TIE,
                                     CONTROL_TIE,
                                     CONTROL_RELEASE,
                                     CONTROL_FORGET,
                                     CONTROL_UNDER,
                                     CONTROL_UNDER,
                                     CONTROL_LEAVE,
                                     9};
    struct control_request q = {
        .magic = chance("not ours", 12) ? 1 : CONTROL_MAGIC,
        .verb = verbs[pick("verb", COUNT_OF(verbs))],
        .lease_ms = (int64_t)pick("lease", same.run % 4 == 2 ? 40 : 3) * 5000,
        .holder_pid = chance("no such process", 3) ? 77 : HOLDER};
    q.verb = w.moves > MOVES || (!w.plan.command && chance("release", 5))
                 ? CONTROL_RELEASE
                 : q.verb;
    if (chance("named", 2)) {
        const char *name = chance("not held", 6)
                               ? "q"
                               : w.plan.names[pick("of", w.plan.name_count)];
        q.name_size = (uint32_t)strlen(name);
        memcpy(q.name, name, q.name_size);
    }
    if (chance("token", 3)) {
        q.token = chance("old token", 3) ? 7 : w.page.tokens[0];
    }
    q.name_size = chance("too long", 30) ? SNIB_NAME_MAX + 1 : q.name_size;
    memcpy(to, &q, size < sizeof q ? size : sizeof q);
    return chance("cut", 20) ? 10 : (ssize_t)sizeof q;
}

static ssize_t supervisor_is_heard(void *to, size_t size)
{
    if (w.reset && w.supervisor_dead) {
        w.reset = false;
        errno = ECONNRESET;
        return -1;
    }
    if (w.said_count == 0) {
        errno = EAGAIN;
        return w.supervisor_dead ? 0 : -1;
    }
    memcpy(to, w.said, size < sizeof *w.said ? size : sizeof *w.said);
    memmove(w.said, w.said + 1, sizeof *w.said * (size_t)--w.said_count);
    return w.cut ? (ssize_t)size / 2 : (ssize_t)size;
}

ssize_t __wrap_recv(int fd, void *to, size_t size, int flags)
{
    tell("hears %s %#x", fd_kind(fd), (unsigned)flags);
    if (fails("recv")) {
        return -1;
    }
    if (fd_is(fd, "leash")) {
        return supervisor_is_heard(to, size);
    }
    if (fd_is(fd, "asker")) {
        return chance("says nothing", 20) ? 0 : somebody_asks(to, size);
    }
    if (chance("closed on us", 16)) {
        return 0;
    }
    return size == sizeof(struct control_reply)
               ? outer_replies(to, size)
               : outer_replies_above(to, size, fd_is(fd, "second"));
}

ssize_t __wrap___recv_chk(int fd, void *to, size_t size, size_t room,
                          int flags);
ssize_t __wrap___recv_chk(int fd, void *to, size_t size, size_t room, int flags)
{
    assert_true(size <= room);
    return __wrap_recv(fd, to, size, flags);
}

/* -- sockets ------------------------------------------------------------------------ */

int __wrap_socket(int domain, int type, int protocol)
{
    tell("socket %d %d %d", domain, type, protocol);
    return fails("socket") ? -1 : fd_new("socket");
}

static void tell_address(const char *what, const struct sockaddr *to,
                         socklen_t size)
{
    const struct sockaddr_un *at = (const void *)to;
    tell("%s %.*s", what,
         (int)(size - offsetof(struct sockaddr_un, sun_path) - 1),
         at->sun_path + 1);
}

int __wrap_bind(int fd, const struct sockaddr *to, socklen_t size)
{
    (void)fd;
    tell_address("binds", to, size);
    return fails("bind") ? -1 : 0;
}

int __wrap_listen(int fd, int most)
{
    tell("listens %d", most);
    if (fails("listen")) {
        return -1;
    }
    fds_open[fd].kind = "listener";
    w.listens = true;
    return 0;
}

/* Who was not let in for want of a descriptor still stands there. */
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
    tell("accepts at %s %d, %d", fd_kind(fd), flags, from || size);
    if (fails("accept4")) {
        return -1;
    }
    if (same.run % 3 == 0 && chance("too many open", 3)) {
        errno = chance("in the system", 2) ? ENFILE : EMFILE;
        return -1;
    }
    errno = EAGAIN;
    if (!w.asker) {
        return -1;
    }
    w.asker = false;
    errno = chance("an old error", 4) ? EMFILE : errno;
    return fd_new("asker");
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size)
{
    const struct sockaddr_un *at = (const void *)to;
    tell_address("connects to", to, size);
    if (fails("connect")) {
        return -1;
    }
    if (chance("no holder", 12)) {
        errno = ECONNREFUSED;
        return -1;
    }
    fds_open[fd].kind = strstr(at->sun_path + 1, "aa") ? "second" : "outer";
    return 0;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
    static const int pids[] = {1, 1, 0, SHELL, OUTER_HOLDER, 12345};
    struct ucred *peer = value;
    tell("whose is %s %d %d", fd_kind(fd), level, name);
    if (fails("getsockopt") || *size != sizeof *peer) {
        return -1;
    }
    *peer = (struct ucred){.pid = pids[pick("peer", COUNT_OF(pids))],
                           .uid = (uid_t)w.uid,
                           .gid = 0};
    if (chance("another user", 8)) {
        peer->uid = chance("root", 2) ? 0 : 1007;
    }
    return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value,
                      socklen_t size)
{
    const struct timeval *t = value;
    tell("patience at %s %d %d %d: %d %d", fd_kind(fd), level, name,
         size == sizeof *t, (int)t->tv_sec, (int)t->tv_usec);
    return 0;
}

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void)
{
    return same.on ? (uid_t)w.uid : __real_geteuid();
}

ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags)
{
    (void)flags;
    if (fails("getrandom")) {
        return -1;
    }
    memset(to, 0x5a, size);
    return (ssize_t)size;
}

int __real_gethostname(char *to, size_t size);
int __wrap_gethostname(char *to, size_t size)
{
    if (!same.on) {
        return __real_gethostname(to, size);
    }
    snprintf(to, size, "here");
    return 0;
}

#endif
