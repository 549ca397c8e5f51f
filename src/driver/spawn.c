/* driver/spawn.c — starting the program of a witness, without the program of the
 * library's user noticing.
 *
 * A library must not have a child that its program would find in wait(), nor send
 * it a SIGCHLD. So the new process is a grandchild: its parent, which ends at
 * once, is a child without a signal, of which only this file knows (__WCLONE). Both
 * share our memory until the program runs (as vfork does), so starting it costs
 * the same in a large process. Until then they call nothing but the kernel.
 *
 * The new process has a session of its own: no terminal's signal reaches it. Of
 * our descriptors it gets those that it needs (before Linux 5.9 it closes the others
 * itself), and it puts its signals in order (witness/main.c): all of them are
 * blocked until then. Its pidfd is opened by its parent, while that has not waited
 * for it, so the number is no other process's. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "driver/driver.h"
#include "driver/witness.h"

enum { SPAWN_STACK = 64 << 10, SPAWN_FROM = 10 };

struct spawn {
    const char *path;
    char *const *argv;
    const int *fds; /* which become SNIB__WITNESS_LINK and those after it */
    char *stack;    /* of two functions */
    int over;       /* its pidfd; the one between shares our descriptors */
    int err;
    bool full; /* no descriptor was left */
};

/* What shares our memory with us is not seen by a sanitizer as what it is. */
#define SPAWN_PLAIN __attribute__((no_sanitize_address, no_sanitize_thread))

/* First out of the way of each other. */
SPAWN_PLAIN static bool spawn_descriptors(const int *fds)
{
    int away[SNIB__WITNESS_FDS];
    for (int i = 0; i < SNIB__WITNESS_FDS; i++) {
        away[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, SPAWN_FROM);
    }
    for (int i = 0; i < SNIB__WITNESS_FDS; i++) {
        if (away[i] < 0 || dup2(away[i], SNIB__WITNESS_LINK + i) < 0) {
            return false;
        }
    }
    return true;
}

SPAWN_PLAIN static int spawn_program(void *arg)
{
    struct spawn *s = arg;
    (void)setsid();
    s->full = !spawn_descriptors(s->fds);
    if (!s->full) {
        (void)syscall(SYS_close_range,
                      (unsigned)(SNIB__WITNESS_LINK + SNIB__WITNESS_FDS), ~0U,
                      0U);
        execve(s->path, s->argv, environ);
    }
    s->err = errno;
    _exit(127);
}

SPAWN_PLAIN static int spawn_between(void *arg)
{
    struct spawn *s = arg;
    pid_t pid = clone(spawn_program, s->stack + SPAWN_STACK,
                      CLONE_VM | CLONE_VFORK | SIGCHLD, s);
    s->over = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    if (s->over < 0 && !s->err) {
        s->full = pid > 0 && errno == EMFILE;
        s->err = errno;
    }
    _exit(0);
}

static snib_err spawn_failed(const char *path, int err,
                             struct snib_error *reterr)
{
    bool limit =
        err == EAGAIN || err == ENOMEM || err == EMFILE || err == ENFILE;
    return snib__fail(reterr, limit ? SNIB_ERR_LIMIT : SNIB_ERR_CONFIG,
                      "the witness %.120s cannot be started: %s%s", path,
                      strerror(err),
                      err == ENOENT || err == EACCES
                          ? "; witness_program names it where it is elsewhere"
                          : "");
}

snib_err snib__spawn(const char *path, char *const argv[], const int fds[],
                     int *ret_over, struct snib_error *reterr)
{
    struct spawn s = {.path = path, .argv = argv, .fds = fds, .over = -1};
    sigset_t all, before;
    *ret_over = -1;
    char *stack = mmap(NULL, 2 * (size_t)SPAWN_STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    s.stack = stack;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = clone(spawn_between, stack + 2 * (size_t)SPAWN_STACK,
                      CLONE_VM | CLONE_VFORK | CLONE_FILES, &s);
    int err = pid < 0 ? errno : 0;
    while (pid > 0 && waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    munmap(stack, 2 * (size_t)SPAWN_STACK);
    err = err ? err : s.err;
    if (err && s.over >= 0) {
        close(s.over);
        s.over = -1;
    }
    *ret_over = s.over;
    return s.full
               ? snib__fail(reterr, SNIB_ERR_LIMIT,
                            "no file descriptor is left to start the witness "
                            "with (ulimit -n, %d at least)",
                            SPAWN_FROM + SNIB__WITNESS_FDS)
           : err ? spawn_failed(path, err, reterr)
                 : SNIB_ERR_OK;
}
