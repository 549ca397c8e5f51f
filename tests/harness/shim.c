/* shim.c — other clocks and failing system calls for one process (LD_PRELOAD).
 *
 * SNIB_SHIM names a file of int64 words, mapped here and written by the test
 * while the process runs:
 *
 *   0  ns added to CLOCK_REALTIME (gettimeofday and time, too)
 *   1  ns added to CLOCK_BOOTTIME
 *   2  the n-th call (1 is the next) of those below fails; 0: none
 *   3  counts them
 *   4  how the n-th call failed: its number in `names`, 0: not yet
 *   5  count only calls of that number; 0: all
 *
 * SNIB_SHIM_NO_NULL=1: /dev/null cannot be opened.
 *
 * SNIB_SHIM_YIELD_MS=N: whoever yields gets the processor back after N ms, as
 * on a crowded machine.
 *
 * SNIB_SHIM_STORM=1: a SIGALRM each millisecond to all threads but the first,
 * whose handler is installed without SA_RESTART, so that whatever can end with
 * EINTR does. (The driver's first thread only reads its commands.) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { REAL, BOOT, FAIL_AT, COUNT, FAILED, ONLY, WORDS };

static _Atomic int64_t *words;

static int storm;

static void mask(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(how, &set, NULL);
}

static void on_alarm(int sig)
{
    (void)sig;
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("SNIB_SHIM");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *p = mmap(NULL, WORDS * sizeof *words, PROT_READ | PROT_WRITE,
                       MAP_SHARED, fd, 0);
        words = p == MAP_FAILED ? NULL : p;
        close(fd);
    }
    if (getenv("SNIB_SHIM_STORM")) {
        struct sigaction act = {.sa_handler = on_alarm};
        struct itimerval each = {{0, 1000}, {0, 1000}};
        storm = 1;
        mask(SIG_BLOCK);
        sigaction(SIGALRM, &act, NULL);
        setitimer(ITIMER_REAL, &each, NULL);
    }
}

static int64_t added(clockid_t clock)
{
    if (!words) {
        return 0;
    }
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE
               ? words[REAL]
           : clock == CLOCK_BOOTTIME ? words[BOOT]
                                     : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    int r = (int)syscall(SYS_clock_gettime, clock, t);
    int64_t add = r ? 0 : added(clock);
    if (add) {
        int64_t ns = t->tv_sec * INT64_C(1000000000) + t->tv_nsec + add;
        t->tv_sec = ns / 1000000000;
        t->tv_nsec = ns % 1000000000;
    }
    return r;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (ret) {
        *ret = t.tv_sec;
    }
    return t.tv_sec;
}

/* Is this the call that fails? */
static int fails(int number)
{
    if (!words || !words[FAIL_AT] || (words[ONLY] && words[ONLY] != number)) {
        return 0;
    }
    if (atomic_fetch_add(&words[COUNT], 1) + 1 != words[FAIL_AT]) {
        return 0;
    }
    words[FAILED] = number;
    return 1;
}

#define HOOK(number, ret, name, params, args, error)                           \
    ret name params                                                            \
    {                                                                          \
        static ret(*real) params;                                              \
        if (!real) {                                                           \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                         \
        }                                                                      \
        if (fails(number)) {                                                   \
            errno = error;                                                     \
            return -1;                                                         \
        }                                                                      \
        return real args;                                                      \
    }

HOOK(1, int, socket, (int d, int t, int p), (d, t, p), EMFILE)
HOOK(2, int, connect, (int f, const struct sockaddr *a, socklen_t n), (f, a, n),
     ENETUNREACH)
HOOK(3, ssize_t, send, (int f, const void *p, size_t n, int g), (f, p, n, g),
     ENOBUFS)
HOOK(4, ssize_t, recv, (int f, void *p, size_t n, int g), (f, p, n, g), ENOMEM)
HOOK(5, int, poll, (struct pollfd * p, nfds_t n, int t), (p, n, t), ENOMEM)
HOOK(6, int, epoll_create1, (int g), (g), EMFILE)
HOOK(7, int, epoll_ctl, (int f, int o, int d, struct epoll_event *e),
     (f, o, d, e), ENOMEM)
HOOK(8, int, epoll_wait, (int f, struct epoll_event *e, int n, int t),
     (f, e, n, t), EINTR)
HOOK(9, int, timerfd_create, (int c, int g), (c, g), EMFILE)
HOOK(10, int, eventfd, (unsigned v, int g), (v, g), EMFILE)
HOOK(11, int, setsockopt, (int f, int l, int o, const void *v, socklen_t n),
     (f, l, o, v, n), EINVAL)

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = va_arg(args, mode_t); /* looked at only when there is one */
    va_end(args);
    if (getenv("SNIB_SHIM_NO_NULL") && strcmp(path, "/dev/null") == 0) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int sched_yield(void)
{
    const char *ms = getenv("SNIB_SHIM_YIELD_MS");
    struct timespec t = {.tv_nsec = ms ? atol(ms) * 1000000 : 0};
    if (ms) {
        nanosleep(&t, NULL);
        return 0;
    }
    return (int)syscall(SYS_sched_yield);
}

int getaddrinfo(const char *restrict host, const char *restrict service,
                const struct addrinfo *restrict hints,
                struct addrinfo **restrict res)
{
    static int (*real)(const char *, const char *, const struct addrinfo *,
                       struct addrinfo **);
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    }
    return fails(12) ? EAI_AGAIN : real(host, service, hints, res);
}

int pthread_create(pthread_t *restrict t, const pthread_attr_t *restrict a,
                   void *(*f)(void *), void *restrict arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                       void *);
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    }
    if (fails(13)) {
        return EAGAIN;
    }
    int first = storm && getpid() == (pid_t)syscall(SYS_gettid);
    if (first) {
        mask(SIG_UNBLOCK); /* what is made inherits it */
    }
    int r = real(t, a, f, arg);
    if (first) {
        mask(SIG_BLOCK);
    }
    return r;
}
