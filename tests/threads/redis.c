/* redis.c — the simulator's model of a server, as one more thread of a run.
 *
 * It reads and answers when the scheduler lets it, so all that can happen while
 * bytes are under way is tried. At each of its turns it reads from one
 * connection, the next in turn of those that have sent something, executes what
 * is whole, and writes all replies and messages. What it does with descriptors
 * goes straight to the kernel: a server elsewhere orders nothing between the
 * threads of its clients. */
#include "redis.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"
#include "redis_model.h"
#include "sched.h"
#include "unseen.h"

enum { CONNECTIONS = 64 };

static struct {
    struct sim_redis *model;
    pthread_t thread;
    struct pollfd peer[CONNECTIONS];
    int id[CONNECTIONS]; /* in the model; 0: not greeted yet                */
    nfds_t peers;
    nfds_t claim;
    bool stirs; /* somebody has connected, or the run ends                 */
    bool cuts;
    bool ends;
    int64_t hangs;
    bool narrow;
} server;

static void drop(nfds_t k)
{
    (void)REAL(syscall)(SYS_close, server.peer[k].fd);
    server.peers--;
    memmove(&server.peer[k], &server.peer[k + 1],
            (server.peers - k) * sizeof server.peer[0]);
    memmove(&server.id[k], &server.id[k + 1],
            (server.peers - k) * sizeof server.id[0]);
}

static void answer(void)
{
    for (nfds_t k = 0; k < server.peers; k++) {
        const void *bytes;
        size_t size;
        sim_redis_output(server.model, server.id[k], &bytes, &size);
        long n = size ? REAL(syscall)(SYS_sendto, server.peer[k].fd, bytes,
                                      size, MSG_NOSIGNAL, NULL, 0)
                      : 0;
        if (n != (long)size && errno != EPIPE && errno != ECONNRESET) {
            sched_fail("the server wrote %ld of %zu bytes", n, size);
        }
        sim_redis_consume(server.model, server.id[k], size);
        if (size) {
            sched_say("answers %d with %zu bytes", server.id[k], size);
        }
    }
}

/* What the k-th connection has sent. */
static void hear(nfds_t k)
{
    char bytes[16384];
    long n = REAL(syscall)(SYS_read, server.peer[k].fd, bytes, sizeof bytes);
    sched_say("hears %ld bytes of %d", n, server.id[k]);
    if (n <= 0) {
        sim_redis_disconnect(server.model, server.id[k]);
        drop(k);
        return;
    }
    int64_t wall_us = INT64_C(1700000000) * 1000000 + sched_now() / 1000;
    sim_redis_input(server.model, server.id[k], bytes, (size_t)n, wall_us);
    answer();
}

static void cut(void)
{
    sched_say("cuts %d connections", (int)server.peers);
    server.cuts = false;
    while (server.peers) {
        sim_redis_disconnect(server.model, server.id[0]);
        drop(0);
    }
}

static void *serve(void *unused)
{
    (void)unused;
    for (;;) {
        (void)sched_poll(server.peer, server.peers, INT64_MAX, &server.stirs);
        UNSEEN;
        server.stirs = false;
        if (server.ends) {
            return NULL;
        }
        if (server.cuts) {
            cut();
        }
        if (server.hangs) {
            int64_t until = sched_now() + server.hangs;
            server.hangs = 0;
            sched_sleep(until);
            continue;
        }
        for (nfds_t i = 0; i < server.peers; i++) {
            nfds_t k = (server.claim + i) % server.peers;
            if (server.peer[k].revents) {
                server.claim = k + 1;
                hear(k);
                break;
            }
        }
    }
}

bool redis_is_there(void)
{
    return true;
}

void redis_begin(bool narrow)
{
    static struct sim_lua *lua;
    UNSEEN;
    lua = lua ? lua : sim_lua_new();
    memset(&server, 0, sizeof server);
    server.model = sim_redis_new(lua, 1);
    server.narrow = narrow;
    if (sched_create(&server.thread, serve, NULL)) {
        sched_fail("no thread for the server");
    }
}

void redis_end(void)
{
    server.ends = server.stirs = true;
    (void)sched_join(server.thread);
    UNSEEN;
    while (server.peers) {
        drop(0);
    }
    sim_redis_free(server.model);
    server.model = NULL;
}

void redis_cut(void)
{
    server.cuts = server.stirs = true;
}

void redis_hang(int64_t ns)
{
    server.hangs = ns;
    server.stirs = true;
}

int redis_connect(int fd)
{
    int pair[2], few = 1; /* bytes: the kernel takes the least that it knows */
    if (server.peers == CONNECTIONS) {
        sched_fail("the server takes %d connections", CONNECTIONS);
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   pair) ||
        dup3(pair[0], fd, O_CLOEXEC) < 0) {
        sched_fail("no connection: %s", strerror(errno));
    }
    (void)REAL(syscall)(SYS_close, pair[0]);
    if (server.narrow &&
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &few, sizeof few)) {
        sched_fail("the connection cannot be made narrow");
    }
    server.peer[server.peers] =
        (struct pollfd){.fd = pair[1], .events = POLLIN};
    server.id[server.peers++] = sim_redis_connect(server.model);
    server.stirs = true;
    errno = EINPROGRESS;
    return -1;
}
