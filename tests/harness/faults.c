/* faults.c — the n-th call of a kind fails, once or from then on, in each
 * process of snib's (and in no other program that inherits the preload).
 *
 * SNIB_FAULT is KIND:N or KIND:N+. Kinds: fd (what makes a descriptor: EMFILE),
 * fork (processes and threads: EAGAIN), memory (malloc and its family:
 * ENOMEM; libc's own calls and those of linked libraries, too). A forked child
 * goes on counting where its parent was. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { NONE, FD, FORK, MEMORY };
static int kind;
static long at;
static int for_ever;
static atomic_long count;

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("SNIB_FAULT");
    const char *number = text ? strchr(text, ':') : NULL;
    if (!number || strncmp(program_invocation_short_name, "snib", 4) != 0) {
        return;
    }
    at = atol(number + 1);
    for_ever = strchr(number, '+') != NULL;
    kind = !strncmp(text, "fd", 2)       ? FD
           : !strncmp(text, "fork", 4)   ? FORK
           : !strncmp(text, "memory", 6) ? MEMORY
                                         : NONE;
}

static _Thread_local int pardoned;

static int fails(int which)
{
    if (kind != which || pardoned) {
        return 0;
    }
    long n = atomic_fetch_add(&count, 1) + 1;
    return n == at || (for_ever && n > at);
}

#define REAL(ret, name, params)                                                \
    static ret(*real) params;                                                  \
    if (!real) {                                                               \
        *(void **)&real = dlsym(RTLD_NEXT, #name);                             \
    }

#define HOOK(which, error, ret, name, params, args)                            \
    ret name params                                                            \
    {                                                                          \
        REAL(ret, name, params)                                                \
        if (fails(which)) {                                                    \
            errno = error;                                                     \
            return (ret)-1;                                                    \
        }                                                                      \
        return real args;                                                      \
    }

HOOK(FD, EMFILE, int, socket, (int a, int b, int c), (a, b, c))
HOOK(FD, EMFILE, int, socketpair, (int a, int b, int c, int d[2]), (a, b, c, d))
HOOK(FD, EMFILE, int, accept4, (int a, void *b, void *c, int d), (a, b, c, d))
HOOK(FD, EMFILE, int, pipe2, (int a[2], int b), (a, b))
HOOK(FD, EMFILE, int, dup, (int a), (a))
HOOK(FD, EMFILE, int, eventfd, (unsigned a, int b), (a, b))
HOOK(FD, EMFILE, int, signalfd, (int a, const void *b, int c), (a, b, c))
HOOK(FD, EMFILE, int, timerfd_create, (int a, int b), (a, b))
HOOK(FD, EMFILE, int, epoll_create1, (int a), (a))
HOOK(FD, EMFILE, int, inotify_init1, (int a), (a))
HOOK(FORK, EAGAIN, pid_t, fork, (void), ())
HOOK(FORK, EAGAIN, pid_t, vfork, (void), ())

#define OPEN(name)                                                             \
    int name(const char *path, int flags, ...)                                 \
    {                                                                          \
        va_list list;                                                          \
        va_start(list, flags);                                                 \
        mode_t mode = va_arg(list, mode_t);                                    \
        va_end(list);                                                          \
        REAL(int, name, (const char *, int, ...))                              \
        if (fails(FD)) {                                                       \
            errno = EMFILE;                                                    \
            return -1;                                                         \
        }                                                                      \
        return real(path, flags, mode);                                        \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                           \
    int name(int dir, const char *path, int flags, ...)                        \
    {                                                                          \
        va_list list;                                                          \
        va_start(list, flags);                                                 \
        mode_t mode = va_arg(list, mode_t);                                    \
        va_end(list);                                                          \
        REAL(int, name, (int, const char *, int, ...))                         \
        if (fails(FD)) {                                                       \
            errno = EMFILE;                                                    \
            return -1;                                                         \
        }                                                                      \
        return real(dir, path, flags, mode);                                   \
    }
OPENAT(openat)
OPENAT(openat64)

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *),
                   void *data)
{
    REAL(int, pthread_create,
         (pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))
    return fails(FORK) ? EAGAIN : real(t, a, f, data);
}

/* glibc's own look-up of a user follows a null pointer without memory. */
int getpwuid_r(uid_t id, struct passwd *p, char *text, size_t size,
               struct passwd **ret)
{
    REAL(int, getpwuid_r,
         (uid_t, struct passwd *, char *, size_t, struct passwd **))
    pardoned++;
    int err = real(id, p, text, size, ret);
    pardoned--;
    return err;
}

static void *none(void)
{
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t n)
{
    return fails(MEMORY) ? none() : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails(MEMORY) ? none() : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return fails(MEMORY) ? none() : __libc_realloc(p, n);
}
