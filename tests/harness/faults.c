/* faults.c — the n-th call of one function fails, once or from then on, in each
 * process of snib's (and in no other program that inherits the preload).
 *
 * SNIB_FAULT is one of
 *
 *   KIND:N, KIND:N+    of a whole kind: fd (what makes a descriptor: EMFILE),
 *                      fork (processes and threads: EAGAIN), memory (malloc and
 *                      its family: ENOMEM; libc's own calls and those of linked
 *                      libraries, too). A forked child goes on counting where
 *                      its parent was; N+ is the n-th and all later ones.
 *   CALL@ROLE:N:HOW    one call of one function in one process, counted there.
 *                      HOW is a number of errno (of getaddrinfo: its result),
 *                      or 0: less is read or written than was asked for.
 *
 * Calls are named after the function; where the same function means several
 * things, what it is about follows a dot: read.file, fcntl.lock. Role 0 is what
 * was started, its k-th fork 4 * role + k, and so on.
 *
 * SNIB_FAULT_TABLE names a file of struct table (zeros at first), mapped by all
 * of them: how often each role has made each call, and whether the failure has
 * come. Only failures that a kernel can give: EAGAIN where the descriptor does
 * not block, ... (`possible`); another is not made, and the table says so. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { NONE, FD, FORK, MEMORY, ONE };
enum { ROLES = 32, CALLS = 160, NAME = 24 };

struct table {
    _Atomic int64_t fired; /* 1: failed; 2: could not be, and was not made */
    int64_t role, address; /* who called, from where in the program        */
    struct {
        char name[NAME];
        _Atomic int64_t count[ROLES];
    } calls[CALLS];
};

static int kind;
static long at;
static int for_ever, how, of_role;
static int only = -1; /* index in table->calls */
static char only_name[NAME];
static atomic_long count;
static struct table *table;
static int role, forks, active;

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

static void in_child(void)
{
    role = role * 4 + forks;
    if (role >= ROLES) {
        role = ROLES - 1;
    }
    forks = 0;
}

static void map_table(const char *path)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    void *p = fd < 0
                  ? MAP_FAILED
                  : (void *)syscall(SYS_mmap, NULL, sizeof *table,
                                    PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
    table = p == MAP_FAILED ? NULL : p;
    syscall(SYS_close, fd);
}

static void read_one(const char *text)
{
    const char *role_of = strchr(text, '@');
    if (!role_of || role_of - text >= NAME ||
        sscanf(role_of, "@%d:%ld:%d", &of_role, &at, &how) != 3) {
        abort();
    }
    kind = ONE;
    memcpy(only_name, text, (size_t)(role_of - text));
}

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("SNIB_FAULT");
    const char *path = getenv("SNIB_FAULT_TABLE");
    const char *number = text ? strchr(text, ':') : NULL;
    if (strncmp(program_invocation_short_name, "snib", 4) != 0) {
        return;
    }
    if (path) {
        map_table(path);
        pthread_atfork(NULL, NULL, in_child);
    }
    if (number && strchr(text, '@')) {
        read_one(text);
    } else if (number) {
        at = atol(number + 1);
        for_ever = strchr(number, '+') != NULL;
        kind = !strncmp(text, "fd", 2)       ? FD
               : !strncmp(text, "fork", 4)   ? FORK
               : !strncmp(text, "memory", 6) ? MEMORY
                                             : NONE;
    }
    active = kind != NONE || table;
}

/* For a program that this file is linked to. */
void snib_faults_stop(void);
void snib_faults_stop(void)
{
    active = 0;
    kind = NONE;
}

static _Thread_local int pardoned;

/* Which row of the table is this name's? The first to need it makes it. */
static int row_of(const char *name)
{
    for (int i = 0; i < CALLS; i++) {
        char *there = table->calls[i].name;
        if (there[0] == 0) {
            static atomic_flag busy = ATOMIC_FLAG_INIT;
            while (atomic_flag_test_and_set(&busy)) {
            }
            if (there[0] == 0) {
                strncpy(there, name, NAME - 1);
            }
            atomic_flag_clear(&busy);
        }
        if (strcmp(there, name) == 0) {
            return i;
        }
    }
    abort();
}

struct local {
    const char *name; /* of the call, as above */
    int row;          /* + 1; 0: not looked for yet */
};

/* What this descriptor is: the same failure cannot come to all of them. */
enum about { FILE_, PIPE, STREAM, PACKET, EVENT };

static enum about about(int fd)
{
    struct stat st;
    int type = 0;
    socklen_t size = sizeof type;
    if (syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) != 0) {
        return EVENT;
    }
    if (S_ISSOCK(st.st_mode)) {
        syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &size);
        return type == SOCK_STREAM ? STREAM : PACKET;
    }
    return S_ISFIFO(st.st_mode) ? PIPE : (st.st_mode & S_IFMT) ? FILE_ : EVENT;
}

/* A descriptor that blocks has no EAGAIN. */
static int possible(int fd, int flags)
{
    return fd < 0 || how != EAGAIN || (flags & MSG_DONTWAIT) ||
           (syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK);
}

#define CALLER __builtin_return_address(0)

/* Does this call fail? */
static int fails(int which, struct local *s, int fd, int flags, void *caller)
{
    int err = errno, mine;
    if (!active || pardoned) {
        return 0;
    }
    if (kind != ONE && kind == which) {
        long n = atomic_fetch_add(&count, 1) + 1;
        return n == at || (for_ever && n > at);
    }
    if (!table) {
        return 0;
    }
    if (!s->row) {
        s->row = row_of(s->name) + 1;
    }
    int64_t n = atomic_fetch_add(&table->calls[s->row - 1].count[role], 1) + 1;
    if (kind == ONE && only < 0 && strcmp(s->name, only_name) == 0) {
        only = s->row;
    }
    mine = kind == ONE && only == s->row && role == of_role && n == at;
    if (mine) {
        Dl_info in;
        int64_t fired = possible(fd, flags) ? 1 : 2;
        table->role = role;
        table->address =
            dladdr(caller, &in) ? (char *)caller - (char *)in.dli_fbase : 0;
        atomic_store(&table->fired, fired);
        mine = fired == 1;
    }
    errno = err;
    return mine;
}

#define ERROR(error) (kind == ONE ? how : (error))
#define SHORT        (kind == ONE && how == 0)

#define REAL(ret, name, params)                                                \
    static ret(*real) params;                                                  \
    if (!real) {                                                               \
        *(void **)&real = dlsym(RTLD_NEXT, #name);                             \
    }

#define FAILS_ON(which, text, fd, flags)                                       \
    static struct local local = {text, 0};                                     \
    int failed = fails(which, &local, fd, flags, CALLER);

#define FAILS(which, text) FAILS_ON(which, text, -1, 0)

/* The value is what the function answers when it fails. */
#define HOOK_AS(value, which, error, ret, name, params, args)                  \
    ret name params                                                            \
    {                                                                          \
        REAL(ret, name, params)                                                \
        FAILS(which, #name)                                                    \
        if (failed) {                                                          \
            errno = ERROR(error);                                              \
            return value;                                                      \
        }                                                                      \
        return real args;                                                      \
    }
#define HOOK(which, error, ret, name, params, args)                            \
    HOOK_AS((ret)-1, which, error, ret, name, params, args)
#define CALL(ret, name, params, args) HOOK(ONE, EIO, ret, name, params, args)
#define POINTER(ret, name, params, args)                                       \
    HOOK_AS(NULL, ONE, EIO, ret, name, params, args)

HOOK(FD, EMFILE, int, socket, (int a, int b, int c), (a, b, c))
HOOK(FD, EMFILE, int, socketpair, (int a, int b, int c, int d[2]), (a, b, c, d))
HOOK(FD, EMFILE, int, accept4,
     (int a, __SOCKADDR_ARG b, socklen_t *restrict c, int d), (a, b, c, d))
HOOK(FD, EMFILE, int, pipe2, (int a[2], int b), (a, b))
HOOK(FD, EMFILE, int, dup, (int a), (a))
HOOK(FD, EMFILE, int, eventfd, (unsigned a, int b), (a, b))
HOOK(FD, EMFILE, int, signalfd, (int a, const void *b, int c), (a, b, c))
HOOK(FD, EMFILE, int, timerfd_create, (int a, int b), (a, b))
HOOK(FD, EMFILE, int, epoll_create1, (int a), (a))
HOOK(FD, EMFILE, int, inotify_init1, (int a), (a))

pid_t fork(void)
{
    REAL(pid_t, fork, (void))
    FAILS(FORK, "fork")
    if (failed) {
        errno = ERROR(EAGAIN);
        return -1;
    }
    forks++;
    return real();
}

#define OPEN(name)                                                             \
    int name(const char *path, int flags, ...)                                 \
    {                                                                          \
        va_list list;                                                          \
        va_start(list, flags);                                                 \
        mode_t mode = va_arg(list, mode_t);                                    \
        va_end(list);                                                          \
        REAL(int, name, (const char *, int, ...))                              \
        FAILS(FD, "open")                                                      \
        if (failed) {                                                          \
            errno = ERROR(EMFILE);                                             \
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
        FAILS(FD, "openat")                                                    \
        if (failed) {                                                          \
            errno = ERROR(EMFILE);                                             \
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
    FAILS(FORK, "pthread_create")
    return failed ? ERROR(EAGAIN) : real(t, a, f, data);
}

/* -- what reads and writes --------------------------------------------------- */

static const char *const abouts[] = {".file", ".pipe", ".stream", ".packet",
                                     ".event"};

/* local locks: one for each of what a descriptor may be. */
static int moves(struct local *local_locks, const char *name, int fd, int flags,
                 size_t *size, void *caller)
{
    char text[NAME];
    if (!active) {
        return 0;
    }
    struct local *s = &local_locks[about(fd)];
    if (!s->row && table) {
        snprintf(text, sizeof text, "%s%s", name, abouts[about(fd)]);
        s->row = row_of(text) + 1;
        if (kind == ONE && strcmp(text, only_name) == 0) {
            only = s->row;
        }
    }
    s->name = "";
    if (!fails(ONE, s, fd, flags, caller)) {
        return 0;
    }
    if (SHORT) {
        *size = *size > 1 ? *size / 2 : *size;
        return 0;
    }
    errno = how;
    return 1;
}

#define MOVE(ret, name, text, flags, params, args)                             \
    ret name params                                                            \
    {                                                                          \
        REAL(ret, name, params)                                                \
        static struct local local_locks[5];                                    \
        return moves(local_locks, text, fd, flags, &n, CALLER) ? -1            \
                                                               : real args;    \
    }

MOVE(ssize_t, read, "read", 0, (int fd, void *p, size_t n), (fd, p, n))
MOVE(ssize_t, __read_chk, "read", 0, (int fd, void *p, size_t n, size_t b),
     (fd, p, n, b))
MOVE(ssize_t, write, "write", 0, (int fd, const void *p, size_t n), (fd, p, n))
MOVE(ssize_t, pread64, "pread", 0, (int fd, void *p, size_t n, off64_t o),
     (fd, p, n, o))
MOVE(ssize_t, pwrite64, "pwrite", 0,
     (int fd, const void *p, size_t n, off64_t o), (fd, p, n, o))
MOVE(ssize_t, send, "send", g, (int fd, const void *p, size_t n, int g),
     (fd, p, n, g))
MOVE(ssize_t, recv, "recv", g, (int fd, void *p, size_t n, int g),
     (fd, p, n, g))
MOVE(ssize_t, sendto, "send", g,
     (int fd, const void *p, size_t n, int g, const struct sockaddr *a,
      socklen_t l),
     (fd, p, n, g, a, l))

/* -- the rest, as the product calls it --------------------------------------- */

CALL(int, access, (const char *a, int b), (a, b))
CALL(int, bind, (int a, const struct sockaddr *b, socklen_t c), (a, b, c))
CALL(int, close_range, (unsigned a, unsigned b, int c), (a, b, c))
CALL(int, connect, (int a, const struct sockaddr *b, socklen_t c), (a, b, c))
CALL(int, dup2, (int a, int b), (a, b))
CALL(int, epoll_ctl, (int a, int b, int c, struct epoll_event *d), (a, b, c, d))
CALL(int, epoll_wait, (int a, struct epoll_event *b, int c, int d),
     (a, b, c, d))
CALL(int, eventfd_read, (int a, uint64_t *b), (a, b))
CALL(int, eventfd_write, (int a, uint64_t b), (a, b))
CALL(int, execvp, (const char *a, char *const b[]), (a, b))
CALL(int, faccessat, (int a, const char *b, int c, int d), (a, b, c, d))
CALL(int, fchmod, (int a, mode_t b), (a, b))
CALL(int, fchmodat, (int a, const char *b, mode_t c, int d), (a, b, c, d))
CALL(int, fchown, (int a, uid_t b, gid_t c), (a, b, c))
CALL(int, fallocate, (int a, int b, off_t c, off_t d), (a, b, c, d))
CALL(int, fdatasync, (int a), (a))
CALL(int, flock, (int a, int b), (a, b))
CALL(int, fstat, (int a, struct stat *b), (a, b))
CALL(int, fstat64, (int a, struct stat64 *b), (a, b))
CALL(int, fstatat, (int a, const char *b, struct stat *c, int d), (a, b, c, d))
CALL(int, fstatfs, (int a, struct statfs *b), (a, b))
CALL(int, fstatvfs, (int a, struct statvfs *b), (a, b))
CALL(int, fsync, (int a), (a))
CALL(int, ftruncate64, (int a, off64_t b), (a, b))
CALL(int, getpeername, (int a, struct sockaddr *b, socklen_t *c), (a, b, c))
CALL(ssize_t, getrandom, (void *a, size_t b, unsigned c), (a, b, c))
CALL(int, getsockname, (int a, struct sockaddr *b, socklen_t *c), (a, b, c))
CALL(int, getsockopt, (int a, int b, int c, void *d, socklen_t *e),
     (a, b, c, d, e))
CALL(int, listen, (int a, int b), (a, b))
CALL(int, lstat, (const char *a, struct stat *b), (a, b))
CALL(int, lstat64, (const char *a, struct stat64 *b), (a, b))
CALL(int, madvise, (void *a, size_t b, int c), (a, b, c))
CALL(int, mkdir, (const char *a, mode_t b), (a, b))
CALL(int, mkdirat, (int a, const char *b, mode_t c), (a, b, c))
CALL(int, mknodat, (int a, const char *b, mode_t c, dev_t d), (a, b, c, d))
CALL(int, nanosleep, (const struct timespec *a, struct timespec *b), (a, b))
CALL(int, poll, (struct pollfd * a, nfds_t b, int c), (a, b, c))
CALL(int, rename, (const char *a, const char *b), (a, b))
CALL(int, renameat, (int a, const char *b, int c, const char *d), (a, b, c, d))
CALL(int, renameat2, (int a, const char *b, int c, const char *d, unsigned e),
     (a, b, c, d, e))
CALL(ssize_t, readlink, (const char *a, char *b, size_t c), (a, b, c))
CALL(ssize_t, readlinkat, (int a, const char *b, char *c, size_t d),
     (a, b, c, d))
CALL(int, rmdir, (const char *a), (a))
CALL(int, setpgid, (pid_t a, pid_t b), (a, b))
CALL(int, setrlimit, (__rlimit_resource_t a, const struct rlimit *b), (a, b))
CALL(pid_t, setsid, (void), ())
CALL(int, setsockopt, (int a, int b, int c, const void *d, socklen_t e),
     (a, b, c, d, e))
CALL(int, shutdown, (int a, int b), (a, b))
CALL(int, stat, (const char *a, struct stat *b), (a, b))
CALL(int, stat64, (const char *a, struct stat64 *b), (a, b))
CALL(int, statfs, (const char *a, struct statfs *b), (a, b))
CALL(int, statx,
     (int a, const char *restrict b, int c, unsigned d,
      struct statx *restrict e),
     (a, b, c, d, e))
CALL(int, symlinkat, (const char *a, int b, const char *c), (a, b, c))
CALL(int, unlink, (const char *a), (a))
CALL(int, unlinkat, (int a, const char *b, int c), (a, b, c))
CALL(int, utime, (const char *a, const void *b), (a, b))
CALL(pid_t, waitpid, (pid_t a, int *b, int c), (a, b, c))
POINTER(DIR *, fdopendir, (int a), (a))
POINTER(FILE *, fmemopen, (void *a, size_t b, const char *c), (a, b, c))
POINTER(FILE *, fopen, (const char *a, const char *b), (a, b))
POINTER(char *, getcwd, (char *a, size_t b), (a, b))
POINTER(DIR *, opendir, (const char *a), (a))
POINTER(struct passwd *, getpwuid, (uid_t a), (a))
POINTER(struct dirent *, readdir, (DIR * a), (a))
POINTER(char *, realpath, (const char *a, char *b), (a, b))
HOOK_AS(MAP_FAILED, ONE, ENOMEM, void *, mmap,
        (void *a, size_t b, int c, int d, int e, off_t f), (a, b, c, d, e, f))
HOOK_AS(MAP_FAILED, ONE, ENOMEM, void *, mmap64,
        (void *a, size_t b, int c, int d, int e, off64_t f), (a, b, c, d, e, f))

char *__realpath_chk(const char *path, char *to, size_t size)
{
    REAL(char *, __realpath_chk, (const char *, char *, size_t))
    FAILS(ONE, "realpath")
    errno = failed ? how : errno;
    return failed ? NULL : real(path, to, size);
}

int prctl(int what, ...)
{
    va_list list;
    unsigned long a[4];
    va_start(list, what);
    for (int i = 0; i < 4; i++) {
        a[i] = va_arg(list, unsigned long);
    }
    va_end(list);
    FAILS(ONE, "prctl")
    errno = failed ? how : errno;
    return failed ? -1 : (int)syscall(SYS_prctl, what, a[0], a[1], a[2], a[3]);
}

void *mremap(void *old, size_t was, size_t is, int flags, ...)
{
    FAILS(ONE, "mremap") /* MREMAP_FIXED is nobody's here */
    errno = failed ? how : errno;
    return failed ? MAP_FAILED
                  : (void *)syscall(SYS_mremap, old, was, is, flags, NULL);
}

int __ppoll_chk(struct pollfd *p, nfds_t n, const struct timespec *t,
                const sigset_t *set, size_t size)
{
    REAL(int, __ppoll_chk,
         (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *,
          size_t))
    FAILS(ONE, "ppoll")
    errno = failed ? how : errno;
    return failed ? -1 : real(p, n, t, set, size);
}

/* Whether somebody is there (0) is answered truly. */
int kill(pid_t pid, int sig)
{
    REAL(int, kill, (pid_t, int))
    static struct local local = {"kill", 0};
    if (sig && fails(ONE, &local, -1, 0, CALLER)) {
        errno = how;
        return -1;
    }
    return real(pid, sig);
}

/* Seconds that were left. */
unsigned sleep(unsigned s)
{
    REAL(unsigned, sleep, (unsigned))
    FAILS(ONE, "sleep")
    return failed ? s : real(s);
}

int usleep(useconds_t us)
{
    REAL(int, usleep, (useconds_t))
    FAILS(ONE, "usleep")
    errno = failed ? how : errno;
    return failed ? -1 : real(us);
}

/* The descriptor is gone all the same, as in Linux. */
int close(int fd)
{
    REAL(int, close, (int))
    FAILS(ONE, "close")
    int done = real(fd);
    errno = failed ? how : errno;
    return failed ? -1 : done;
}

/* Without anything to write it cannot fail. */
int fflush(FILE *f)
{
    REAL(int, fflush, (FILE *))
    static struct local local = {"fflush", 0};
    if (f && __fpending(f) && fails(ONE, &local, -1, 0, CALLER)) {
        errno = how;
        return EOF;
    }
    return real(f);
}

static FILE *sick;

int fclose(FILE *f)
{
    REAL(int, fclose, (FILE *))
    FAILS(ONE, "fclose")
    sick = sick == f ? NULL : sick;
    int done = real(f);
    errno = failed ? how : errno;
    return failed ? EOF : done;
}

char *fgets(char *to, int size, FILE *f)
{
    REAL(char *, fgets, (char *, int, FILE *))
    FAILS(ONE, "fgets")
    if (failed) {
        sick = f;
        errno = how;
        return NULL;
    }
    return real(to, size, f);
}

int ferror(FILE *f)
{
    REAL(int, ferror, (FILE *))
    return sick == f || real(f);
}

int getaddrinfo(const char *restrict host, const char *restrict service,
                const struct addrinfo *restrict hints,
                struct addrinfo **restrict res)
{
    REAL(int, getaddrinfo,
         (const char *, const char *, const struct addrinfo *,
          struct addrinfo **))
    FAILS(ONE, "getaddrinfo")
    return failed ? how : real(host, service, hints, res);
}

int ioctl(int fd, unsigned long what, ...)
{
    va_list list;
    va_start(list, what);
    void *p = va_arg(list, void *);
    va_end(list);
    FAILS(ONE, "ioctl")
    errno = failed ? how : errno;
    return failed ? -1 : (int)syscall(SYS_ioctl, fd, what, p);
}

/* Locks of files, copies of descriptors, and flags, which do not fail; nor does
 * the end of a lock. */
#define FCNTL(name)                                                            \
    int name(int fd, int what, ...)                                            \
    {                                                                          \
        va_list list;                                                          \
        va_start(list, what);                                                  \
        void *p = va_arg(list, void *);                                        \
        va_end(list);                                                          \
        REAL(int, name, (int, int, ...))                                       \
        static struct local locks = {"fcntl.lock", 0};                         \
        static struct local dups = {"fcntl.dup", 0};                           \
        struct local *s = what == F_DUPFD || what == F_DUPFD_CLOEXEC ? &dups   \
                          : what == F_GETLK || what == F_SETLK       ? &locks  \
                                                                     : NULL;         \
        if (s == &locks && ((struct flock *)p)->l_type == F_UNLCK) {           \
            s = NULL;                                                          \
        }                                                                      \
        if (s && fails(ONE, s, -1, 0, CALLER)) {                               \
            errno = how;                                                       \
            return -1;                                                         \
        }                                                                      \
        return real(fd, what, p);                                              \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

long syscall(long number, ...)
{
    va_list list;
    long a[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    REAL(long, syscall, (long, ...))
    static struct local opens = {"pidfd_open", 0};
    static struct local sends = {"pidfd_send_signal", 0};
    static struct local futexes = {"futex", 0};
    struct local *s = number == SYS_pidfd_open          ? &opens
                      : number == SYS_pidfd_send_signal ? &sends
                      : number == SYS_futex             ? &futexes
                                                        : NULL;
    if (s && fails(ONE, s, -1, 0, CALLER)) {
        errno = how;
        return -1;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* -- memory ------------------------------------------------------------------- */

int getgrgid_r(gid_t id, struct group *g, char *text, size_t size,
               struct group **ret)
{
    REAL(int, getgrgid_r,
         (gid_t, struct group *, char *, size_t, struct group **))
    FAILS(ONE, "getgrgid_r")
    *ret = failed ? NULL : *ret;
    return failed ? how : real(id, g, text, size, ret);
}

/* glibc's own look-up of a user follows a null pointer without memory. */
int getpwuid_r(uid_t id, struct passwd *p, char *text, size_t size,
               struct passwd **ret)
{
    REAL(int, getpwuid_r,
         (uid_t, struct passwd *, char *, size_t, struct passwd **))
    FAILS(ONE, "getpwuid_r")
    if (failed) {
        *ret = NULL;
        return how;
    }
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
    FAILS(MEMORY, "malloc")
    return failed ? none() : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    FAILS(MEMORY, "calloc")
    return failed ? none() : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    FAILS(MEMORY, "realloc")
    return failed ? none() : __libc_realloc(p, n);
}
