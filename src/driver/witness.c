/* driver/witness.c — the client's side of its witness (core/witness.h): the
 * registry's memory, starting the program, learning that it has ended.
 *
 *   NONE    no witness was asked for, or the store needs none
 *   WATCHES it is there
 *   BROKEN  it has ended, and not because of us: what is held goes on, by leases
 *
 * The registry is a memfd that neither process can shrink, mapped so that a forked
 * child has none of it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "driver/driver.h"
#include "driver/witness.h"

/* Where the build installs it, and where that is seen from the library's folder. */
#ifndef SNIB_WITNESS_PROGRAM
#define SNIB_WITNESS_PROGRAM "/usr/libexec/snib/snib-witness"
#endif
#ifndef SNIB_WITNESS_FROM_LIBRARY
#define SNIB_WITNESS_FROM_LIBRARY "../libexec/snib/snib-witness"
#endif

/* Far longer than a program takes to start on a machine that is busy. */
enum { WITNESS_READY_MS = 10000 };

static int witness_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void witness_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static snib_err witness_fail_errno(struct snib_error *reterr, const char *what)
{
    return snib__fail(reterr, SNIB_ERR_LIMIT, "%s for the witness: %s", what,
                      strerror(errno));
}

/* A file beyond the limit costs a program that does not expect it its life
 * (SIGXFSZ). */
static snib_err witness_may_have(size_t bytes, struct snib_error *reterr)
{
    struct rlimit may;
    if (getrlimit(RLIMIT_FSIZE, &may) || may.rlim_cur == RLIM_INFINITY ||
        bytes <= may.rlim_cur) {
        return SNIB_ERR_OK;
    }
    return snib__fail(reterr, SNIB_ERR_LIMIT,
                      "what is shared with the witness has %zu bytes, and a "
                      "file of this process may have %llu (ulimit -f); raise "
                      "that limit",
                      bytes, (unsigned long long)may.rlim_cur);
}

/* Where a process begins that this thread makes. After unshare(CLONE_NEWPID) the
 * first one there is the one whose end ends all others, and the numbers that they
 * know of each other are not ours. */
static bool witness_has_our_numbers(void)
{
    struct stat ours, theirs;
    if (stat("/proc/thread-self/ns/pid", &ours)) {
        return true; /* without /proc nobody can tell */
    }
    return !stat("/proc/thread-self/ns/pid_for_children", &theirs) &&
           ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

snib_err snib__witness_room(struct snib_client *c, struct snib_error *reterr)
{
    struct snib__witnessed *w = &c->witness;
    size_t bytes = snib__registry_bytes(SNIB__REGISTRY_ENTRIES);
    snib_err err = witness_may_have(bytes, reterr);
    if (err) {
        return err;
    }
    if (!witness_has_our_numbers()) {
        return snib__fail(reterr, SNIB_ERR_UNSUPPORTED,
                          "no witness: what this process starts gets into "
                          "another PID namespace than its own; open the client "
                          "before unshare() or setns(), or in a child");
    }
    w->memory = memfd_create("snib-registry", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (w->memory < 0 || ftruncate(w->memory, (off_t)bytes) ||
        fcntl(w->memory, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        return witness_fail_errno(reterr, "no memory");
    }
    void *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->memory, 0);
    if (at == MAP_FAILED) {
        return witness_fail_errno(reterr, "no address space");
    }
    w->registry = at;
    if (madvise(at, bytes, MADV_DONTFORK)) {
        return witness_fail_errno(reterr, "no memory of its own");
    }
    snib__registry_init(w->registry, SNIB__REGISTRY_ENTRIES);
    return SNIB_ERR_OK;
}

static snib_err witness_ended_early(const char *path, struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_CONFIG,
                      "the witness %.120s ended before it was ready", path);
}

/* Whatever signals this thread has to handle meanwhile. */
static int witness_await(int link)
{
    struct pollfd p = {.fd = link, .events = POLLIN};
    snib_instant until =
        snib__after(snib__boottime(), snib__ms(WITNESS_READY_MS));
    int n;
    do {
        int64_t ms = snib__to_ms(snib__between(snib__boottime(), until));
        n = poll(&p, 1, ms > 0 ? (int)ms : 0);
    } while (n < 0 && errno == EINTR);
    return n;
}

static snib_err witness_says(struct snib__witnessed *w, const char *path,
                             struct snib_error *reterr)
{
    struct snib__witness_answer said;
    int n = witness_await(w->link);
    ssize_t size = n > 0 ? recv(w->link, &said, sizeof said, 0) : 0;
    if (n == 0) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "the witness %.120s was not ready within 10 s", path);
    }
    if (size <= 0) {
        return witness_ended_early(path, reterr);
    }
    if (size != sizeof said || said.layout != SNIB__REGISTRY_LAYOUT) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "the program %.120s is no witness of this release",
                          path);
    }
    if (said.error.code) {
        return snib__fail(reterr, said.error.code, "the witness: %.200s",
                          said.error.text);
    }
    return SNIB_ERR_OK;
}

/* The witness that was installed with this library: an installation that was moved
 * to another prefix (cmake --install --prefix, a package manager of a user's own)
 * keeps its own. Where the library is linked into the program (its name is "" then)
 * or was loaded by a path of the current directory, it is where the build said: no
 * name that a caller may choose, as argv[0] is, leads to a program. */
static const char *witness_installed(char *ret, size_t size)
{
    Dl_info is;
    struct link_map *map = NULL;
    const char *slash = NULL;
    if (dladdr1(&witness_close, &is, (void **)&map, RTLD_DL_LINKMAP) && map &&
        map->l_name && map->l_name[0] == '/') {
        slash = strrchr(map->l_name, '/');
    }
    int n = slash ? snprintf(ret, size, "%.*s/" SNIB_WITNESS_FROM_LIBRARY,
                             (int)(slash - map->l_name), map->l_name)
                  : 0;
    return n > 0 && (size_t)n < size && access(ret, X_OK) == 0
               ? ret
               : SNIB_WITNESS_PROGRAM;
}

/* Says who we are, and waits for the answer. */
static snib_err witness_meet(struct snib_client *c, const char *path,
                             const char *url, struct snib_error *reterr)
{
    struct snib__witness_ask *ask = snib__alloc(sizeof *ask);
    size_t length = strlen(url) + 1;
    if (!ask) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snib_err err = SNIB_ERR_OK;
    ask->layout = SNIB__REGISTRY_LAYOUT;
    memcpy(ask->client, c->id_text, sizeof ask->client);
    ask->request_ms = snib__to_ms(c->request);
    if (length > sizeof ask->url) {
        err = snib__fail(reterr, SNIB_ERR_USAGE,
                         "the URL is too long for a witness");
    } else {
        memcpy(ask->url, url, length);
        if (send(c->witness.link, ask,
                 offsetof(struct snib__witness_ask, url) + length,
                 MSG_NOSIGNAL) < 0) {
            err = witness_ended_early(path, reterr);
        }
    }
    explicit_bzero(ask, sizeof *ask);
    snib__free(ask);
    return err ? err : witness_says(&c->witness, path, reterr);
}

snib_err snib__witness_start(struct snib_client *c, const char *path,
                             const char *url, struct snib_error *reterr)
{
    struct snib__witnessed *w = &c->witness;
    int ends[2] = {-1, -1};
    char name[] = "snib-witness", pid[24], installed[PATH_MAX];
    char *argv[] = {name, pid, NULL};
    path = path ? path : witness_installed(installed, sizeof installed);
    w->registry->client[0] = c->id[0];
    w->registry->client[1] = c->id[1];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    int self = witness_pidfd(getpid());
    if (self < 0 && errno == EMFILE) {
        return witness_fail_errno(reterr, "no descriptor");
    }
    if (self < 0) {
        return snib__fail(reterr, SNIB_ERR_UNSUPPORTED,
                          "no witness: this kernel tells of no process's end "
                          "(pidfd_open: %s)",
                          strerror(errno));
    }
    snib_err err = SNIB_ERR_OK;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
        err = witness_fail_errno(reterr, "no connection");
    }
    w->link = ends[0];
    if (!err) {
        err = snib__spawn(path, argv, (int[]){ends[1], self, w->memory},
                          &w->over, reterr);
    }
    close(self);
    witness_close(&ends[1]);
    witness_close(&w->memory);
    err = err ? err : witness_meet(c, path, url, reterr);
    if (err && w->over >= 0) { /* another program would stay for ever */
        (void)syscall(SYS_pidfd_send_signal, w->over, SIGKILL, NULL, 0);
    }
    return err;
}

bool snib__witness_ended(struct snib_client *c)
{
    struct snib__witnessed *w = &c->witness;
    struct pollfd p = {.fd = w->over, .events = POLLIN};
    if (w->over < 0) {
        return w->broken;
    }
    if (poll(&p, 1, 0) == 1) {
        snib__loop_unwatch_witness(c);
        witness_close(&w->over);
        w->broken = true;
        if (c->log.tell) {
            snib__parts_keep_log(c, SNIB_LOG_WARN,
                                 "the witness has ended: if this process is "
                                 "killed, what it holds stays held until its "
                                 "leases end");
        }
    }
    return w->broken;
}

void snib__witness_free(struct snib_client *c)
{
    struct snib__witnessed *w = &c->witness;
    if (w->registry && !c->in_child) {
        atomic_store_explicit(&w->registry->closed, 1, memory_order_release);
        munmap(w->registry, snib__registry_bytes(SNIB__REGISTRY_ENTRIES));
    }
    w->registry = NULL;
    if (w->link >= 0 && !c->in_child) { /* a child may have a copy of it */
        (void)shutdown(w->link, SHUT_RDWR);
    }
    witness_close(&w->link);
    witness_close(&w->memory);
    witness_close(&w->over);
}
