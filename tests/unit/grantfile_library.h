/* tests/unit/grantfile_library.h — the rest of the host of unit.grantfile_same:
 * the holder's socket and the library, both by dice. See grantfile_world.h. */
#ifndef SNIB_TESTS_GRANTFILE_LIBRARY_H
#define SNIB_TESTS_GRANTFILE_LIBRARY_H

#include "grantfile_world.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "cli/store/storeurl.h"
#include "snib/inspect.h"

static snib_err gives(snib_err err, struct snib_error *reterr)
{
    if (reterr) {
        reterr->code = err;
        snprintf(reterr->text, sizeof reterr->text, "%s",
                 err ? "dice say no" : "");
    }
    tell("= %d", (int)err);
    return err;
}

static snib_err answer(const char *what, struct snib_error *reterr)
{
    static const snib_err errors[] = {SNIB_ERR_LOST,        SNIB_ERR_LOST,
                                      SNIB_ERR_UNREACHABLE, SNIB_ERR_DENIED,
                                      SNIB_ERR_UNKNOWN,     SNIB_ERR_USAGE};
    return gives(chance(what, 2) ? SNIB_ERR_OK
                                 : errors[pick("error", COUNT_OF(errors))],
                 reterr);
}

/* -- a client ------------------------------------------------------------------------ */

int __wrap_cli_open_as(const struct cli_args *args, const char *identity,
                       struct snib_client **ret)
{
    tell("opens %s %s as %s", args->store ? args->store : "-",
         args->store_file ? args->store_file : "-", identity ? identity : "-");
    *ret = NULL;
    if (chance("does not open", 6)) {
        return CLI_UNREACHABLE;
    }
    *ret = (struct snib_client *)&w.args; /* nobody looks inside            */
    return CLI_OK;
}

int __wrap_cli_open(const struct cli_args *args, struct snib_client **ret)
{
    return __wrap_cli_open_as(args, NULL, ret);
}

void __wrap_snib_client_free(struct snib_client *c)
{
    tell("client goes, %d", c != NULL);
}

const char *__wrap_snib_client_url(const struct snib_client *c)
{
    assert_non_null(c);
    return w.url;
}

void __wrap_snib_client_store_status(struct snib_client *c,
                                     struct snib_store_status *ret)
{
    assert_non_null(c);
    tell("asks how the store is");
    *ret = (struct snib_store_status){.reachable = chance("reachable", 2)};
    if (!ret->reachable) {
        ret->error = chance("why", 2) ? SNIB_ERR_UNREACHABLE : SNIB_ERR_STORE;
        ret->for_ms = (int64_t)pick("how long", 5000);
        snprintf(ret->text, sizeof ret->text, "%s",
                 chance("no text", 3) ? "" : "refused\x1b");
    }
}

/* -- a lock ---------------------------------------------------------------------------- */

snib_err __wrap_snib_lock_new(struct snib_client *c, const char *name,
                              const struct snib_lock_options *o,
                              struct snib_lock **ret, struct snib_error *reterr)
{
    assert_non_null(c);
    tell("lock %.*s of %zu, kind %d, %u permits, %u, lease %lld, fixed %d %d",
         (int)o->name_size, name, o->name_size, (int)o->kind, o->permits,
         o->capacity, (long long)o->lease_ms, o->fixed_lease,
         o->size == sizeof *o);
    *ret = chance("no lock", 12) ? NULL : (struct snib_lock *)&w.plan;
    return gives(*ret ? SNIB_ERR_OK : SNIB_ERR_USAGE, reterr);
}

void __wrap_snib_lock_free(struct snib_lock *lock)
{
    tell("lock goes, %d", lock != NULL);
}

snib_err __wrap_snib_grant_adopt(struct snib_lock *lock, const char *text,
                                 int64_t lease_ms, struct snib_grant *ret,
                                 struct snib_error *reterr)
{
    assert_non_null(lock);
    tell("adopts %s for %lld", text, (long long)lease_ms);
    *ret = (struct snib_grant){11, 22};
    return answer("is adopted", reterr);
}

snib_err __wrap_snib_grant_abandon(struct snib_lock *lock, struct snib_grant g,
                                   struct snib_error *reterr)
{
    assert_non_null(lock);
    tell("abandons %d %d", (int)g.ticket, (int)g.token);
    return answer("is abandoned", reterr);
}

snib_err __wrap_snib_release(struct snib_lock *lock, struct snib_grant g,
                             struct snib_error *reterr)
{
    assert_non_null(lock);
    tell("releases %d %d", (int)g.ticket, (int)g.token);
    return answer("is released", reterr);
}

void __wrap_snib_grant_status(struct snib_lock *lock, struct snib_grant g,
                              struct snib_status *ret, size_t ret_size)
{
    assert_int_equal(ret_size, sizeof *ret);
    static const int64_t left[] = {0, 1, 4999, 86400000};
    assert_non_null(lock);
    tell("status of %d", (int)g.ticket);
    *ret = (struct snib_status){.state = SNIB_STATE_HELD,
                                .left_ms = left[pick("left", 4)]};
    w.now += 7 * MS;
}

/* -- who holds ------------------------------------------------------------------------------ */

static int views; /* not freed                                              */

snib_err __wrap_snib_client_inspect(struct snib_client *c, const char *name,
                                    size_t size, struct snib_view **ret,
                                    struct snib_error *reterr)
{
    static const int64_t left[] = {0, 1, 5, 6, 100, 4999, 30000};
    static struct snib_party holders[3];
    static const struct snib_party *const at[3] = {&holders[0], &holders[1],
                                                   &holders[2]};
    static struct snib_view view;
    assert_non_null(c);
    tell("inspects %.*s of %zu", (int)size, name, size);
    if (chance("cannot inspect", 6)) {
        return gives(SNIB_ERR_UNREACHABLE, reterr);
    }
    view =
        (struct snib_view){.holders = at, .holder_count = pick("holders", 4)};
    view.holders_more = chance("more", 4) ? 1 + (uint32_t)pick("how", 2) : 0;
    for (size_t i = 0; i < view.holder_count; i++) {
        holders[i] = (struct snib_party){
            .token = w.g.token ^ (chance("another token", 3) ? 1 : 0),
            .left_ms = left[pick("rest", COUNT_OF(left))],
            .host = chance("another host", 4) ? "ci-8" : "ci-7",
            .pid = chance("another pid", 4) ? 4711 : w.g.holder_process_pid,
            .start = chance("another start", 4) ? 4711 : w.g.holder_start,
            .client_id = chance("another client", 3) ? "0a" : w.g.identity};
    }
    w.now += 3 * MS;
    *ret = &view;
    views++;
    return gives(SNIB_ERR_OK, reterr);
}

void __wrap_snib_view_free(struct snib_view *v)
{
    assert_non_null(v);
    views--;
}

int __real_gethostname(char *to, size_t size);
int __wrap_gethostname(char *to, size_t size)
{
    if (!same.on) {
        return __real_gethostname(to, size);
    }
    snprintf(to, size, "ci-7");
    return 0;
}

/* -- the holder's socket ------------------------------------------------------------------ */

int __wrap_socket(int domain, int type, int protocol)
{
    tell("socket %d %d %d", domain, type, protocol);
    return fails("socket") ? -1 : fd_new("socket");
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size)
{
    static const int errors[] = {ECONNREFUSED, EAGAIN, EINTR, ECONNRESET};
    const struct sockaddr_un *at = (const void *)to;
    tell("%s connects to %.*s", fd_kind(fd),
         (int)(size - offsetof(struct sockaddr_un, sun_path) - 1),
         at->sun_path + 1);
    return chance("does not connect", 5) ? fault(errors[pick("refusal", 4)])
                                         : 0;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
    struct ucred *peer = value;
    tell("whose is %s %d %d, %d", fd_kind(fd), level, name,
         *size == sizeof *peer);
    if (fails("getsockopt") || *size != sizeof *peer) {
        return -1;
    }
    *peer = (struct ucred){.pid = HOLDER, .uid = w.uid};
    if (chance("another user", 6)) {
        peer->uid = chance("of the address", 2) ? 7 : 1007;
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

ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags)
{
    static const int errors[] = {EPIPE, ECONNRESET, EINTR, EACCES};
    const struct control_request *q = bytes;
    assert_int_equal(size, sizeof *q);
    tell("%s sends %#x: %d %d %lld %lld %lld %.*s", fd_kind(fd),
         (unsigned)flags, q->magic == CONTROL_MAGIC, (int)q->verb,
         (long long)q->lease_ms, (long long)q->token, (long long)q->holder_pid,
         (int)q->name_size, q->name);
    w.now += MS;
    return chance("does not send", 8) ? fault(errors[pick("loss", 4)])
                                      : (ssize_t)size;
}

int __wrap_poll(struct pollfd *p, nfds_t n, int ms)
{
    if (!same.on || n != 1) {
        return 0;
    }
    if (p->fd == 2) {
        p->revents = POLLOUT;
        return 1;
    }
    tell("polls %s %d for %d", fd_kind(p->fd), p->events, ms);
    if (chance("interrupted", 12)) {
        return fault(EINTR);
    }
    if (chance("is silent", 6)) {
        w.now += ms * MS;
        return 0;
    }
    w.now += 20 * MS;
    p->revents = POLLIN;
    return 1;
}

int __wrap___poll_chk(struct pollfd *p, nfds_t n, int ms, size_t room)
{
    assert_true(n * sizeof *p <= room);
    return __wrap_poll(p, n, ms);
}

/* An older release may write to the end of its longer text. */
static void fill(char *text, size_t size)
{
    static const char *const ends[] = {"", "\xc3", "\xc3\xa9", "\x80", "xx"};
    const char *end = ends[pick("end", COUNT_OF(ends))];
    memset(text, chance("all of it", 8) ? 0x80 : 'w', size);
    memcpy(text + size - strlen(end), end, strlen(end));
}

ssize_t __wrap_recv(int fd, void *to, size_t size, int flags)
{
    static const int errors[] = {ECONNRESET, EINTR, EAGAIN};
    struct control_reply r = {.magic =
                                  chance("not ours", 12) ? 1 : CONTROL_MAGIC,
                              .code = chance("well", 2)      ? 0
                                      : chance("is lost", 2) ? CLI_LOST
                                                             : CLI_NOT_ACQUIRED,
                              .deadline_ns = w.now + 5 * S,
                              .token = 321,
                              .cause = (int32_t)pick("cause", 9),
                              .ttl_ns = 30 * S,
                              .kind = SNIB_KIND_READ,
                              .permits = 2,
                              .slot = 6};
    tell("%s hears %zu %#x", fd_kind(fd), size, (unsigned)flags);
    if (chance("does not hear", 10)) {
        return fault(errors[pick("loss", 3)]);
    }
    snprintf(r.text, sizeof r.text, "%s",
             chance("no words", 3) ? "" : "revoked by \x1b[1manna");
    snprintf(r.store, sizeof r.store, "redis://h");
    if (chance("long words", 4)) {
        fill(r.text, sizeof r.text);
    }
    if (chance("long store", 8)) {
        memset(r.store, 's', sizeof r.store);
    }
    memcpy(to, &r, size < sizeof r ? size : sizeof r);
    return chance("closes", 16) ? 0
           : chance("cut", 16)  ? 10
                                : (ssize_t)sizeof r;
}

ssize_t __wrap___recv_chk(int fd, void *to, size_t size, size_t room, int flags)
{
    assert_true(size <= room);
    return __wrap_recv(fd, to, size, flags);
}

#endif
