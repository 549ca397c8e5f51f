/* tests/unit/same.h — a process of the product against a world of the test's.
 *
 * All that the process asks of its host is answered by dice, in a time of the
 * world's own, and all that it does there is a line. The lines of a run make a
 * number, which stands in a list: same_list.h. Each run is a process, as statics
 * are to be fresh; what it calls there are functions of the test (link --wrap),
 * so none of it is real.
 *
 * What is drawn depends on what it is for and how often that was asked: a look at
 * the clock more changes no other draw. */
#ifndef SNIB_TESTS_SAME_H
#define SNIB_TESTS_SAME_H

#include "same_list.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What stands in for a function has no header to declare it. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

pid_t __real_fork(void);
int __real_close(int fd);
ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __real_write(int fd, const void *bytes, size_t size);
pid_t __real_waitpid(pid_t pid, int *status, int options);
_Noreturn void __real__exit(int code);

enum { SAME_CALLS_MAX = 4000, SAME_STREAMS = 256 };

static struct {
    uint64_t run, number;
    bool on; /* in a run: the world answers                                 */
    bool shows;
    int result; /* pipe                                                     */
    int calls;
    struct {
        uint64_t name;
        uint64_t count;
    } streams[SAME_STREAMS];
} same;

static void same_stir(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        same.number = (same.number ^ (uint8_t)bytes[i]) * 1099511628211u;
    }
    same.number ^= same.number >> 29;
}

/* The process has come to its end, whatever that is. */
static _Noreturn void same_end(void)
{
    ssize_t n = __real_write(same.result, &same.number, sizeof same.number);
    __real__exit(n == (ssize_t)sizeof same.number ? 0 : 1);
}

/* One line of what it did. */
__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    char line[2000];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    n = n < (int)sizeof line - 1 ? n : (int)sizeof line - 2;
    line[n++] = '\n';
    same_stir(line, (size_t)n);
    if (same.shows) {
        (void)!__real_write(1, line, (size_t)n);
    }
    if (++same.calls > SAME_CALLS_MAX) {
        same_end();
    }
}

/* The next of that stream: 0 … n - 1. */
static uint64_t pick(const char *what, uint64_t n)
{
    uint64_t name = 14695981039346656037u;
    size_t i = 0;
    for (const char *c = what; *c; c++) {
        name = (name ^ (uint8_t)*c) * 1099511628211u;
    }
    while (same.streams[i].name && same.streams[i].name != name) {
        i++;
    }
    assert_true(i + 1 < SAME_STREAMS);
    same.streams[i].name = name;
    name += same.run * 0x9e3779b97f4a7c15;
    return mix(name + ++same.streams[i].count * 0xd1342543de82ef95) % n;
}

static bool chance(const char *what, uint64_t n)
{
    return pick(what, n) == 0;
}

/* -- descriptors ---------------------------------------------------------------- */

enum { FD_FIRST = 20, FD_MAX = 64 };

static struct {
    const char *kind; /* NULL: closed                                       */
} fds_open[FD_MAX];

static int fd_new(const char *kind)
{
    int fd = FD_FIRST;
    while (fd < FD_MAX && fds_open[fd].kind) {
        fd++;
    }
    assert_true(fd < FD_MAX);
    fds_open[fd].kind = kind;
    return fd;
}

static const char *fd_kind(int fd)
{
    return fd < 0                             ? "-"
           : fd == 2                          ? "stderr"
           : fd < FD_MAX && fds_open[fd].kind ? fds_open[fd].kind
                                              : "closed";
}

static bool fd_is(int fd, const char *kind)
{
    return strcmp(fd_kind(fd), kind) == 0;
}

/* -- calls that fail --------------------------------------------------------------- */

/* One call of a run in three, so that each is met. */
static bool fails(const char *call)
{
    static const int errors[] = {EMFILE, ENOMEM, EINTR, EPIPE,
                                 EAGAIN, ESRCH,  EBUSY, EINVAL};
    static char which[40];
    if (same.run % 3 != 0) {
        return false;
    }
    snprintf(which, sizeof which, "fails %s", call);
    if (!chance(which, 12)) {
        return false;
    }
    errno = errors[pick("errno", COUNT_OF(errors))];
    tell("%s fails: %d", call, errno);
    return true;
}

/* -- runs ---------------------------------------------------------------------------- */

/* The program's: all that happens in one. */
static void live(void);

static void same_run(uint64_t run, char *ret, size_t size)
{
    const struct rlimit second = {20, 20};
    uint64_t number = 0;
    int ends[2], status;
    assert_return_code(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = __real_fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CPU, &second);
        same.shows = same_is_shown(run);
        same.run = run;
        same.number = 14695981039346656037u;
        same.result = ends[1];
        same.on = true;
        live();
        same_end();
    }
    __real_close(ends[1]);
    if (__real_read(ends[0], &number, sizeof number) != sizeof number) {
        number = 0;
    }
    __real_close(ends[0]);
    assert_int_equal(__real_waitpid(pid, &status, 0), pid);
    snprintf(ret, size, SAME_NUMBER, status == 0 ? number : 0);
}

#endif
