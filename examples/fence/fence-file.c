/* examples/fence/fence-file.c — a fence for a file, for programs and scripts.
 *
 *   fence-file enter FILE TOKEN           before the first read of FILE
 *   fence-file write FILE TOKEN <new      replaces FILE, if the mark is TOKEN
 *
 * Exit status 0: done; 75: refused, a holder with a higher token was here.
 * In a section of `snib run`, TOKEN is "$SNIB_TOKEN". docs/FENCING.md says why
 * the mark is raised before reading and not only compared when writing.
 *
 * The mark stands in FILE.mark. flock on it makes "compare, then replace" one
 * step; it is held for milliseconds, dies with the process, and so is not the
 * lock that snib is there for. FILE is replaced by rename: readers see the old
 * or the new one. All writers must see the same file system. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkostemp, also with -std=c11 */
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { REFUSED = 75, FAILED = 74, USAGE = 64 };

static int complain(const char *what)
{
    fprintf(stderr, "fence-file: %s: %s\n", what, strerror(errno));
    return FAILED;
}

/* Open FILE.mark and lock it; -1 with errno. */
static int open_mark(const char *file)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s.mark", file);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0 && flock(fd, LOCK_EX) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* 0 when there is none yet; -1 when it cannot be read or is not a number. */
static int64_t read_mark(int fd)
{
    char text[32];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0) {
        return n;
    }
    text[n] = 0;
    char *end;
    errno = 0;
    int64_t mark = strtoll(text, &end, 10);
    return errno || end == text || *end != '\n' ? -1 : mark;
}

/* One write of fixed length: a crash leaves the old mark or the new. */
static int write_mark(int fd, int64_t token)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%020" PRId64 "\n", token);
    return pwrite(fd, text, (size_t)n, 0) == n && fdatasync(fd) == 0 ? 0 : -1;
}

static int enter(const char *file, int64_t token)
{
    int fd = open_mark(file);
    int64_t mark = fd < 0 ? -1 : read_mark(fd);
    if (mark < 0) {
        return complain(file);
    }
    if (mark > token) {
        return REFUSED;
    }
    return write_mark(fd, token) == 0 ? 0 : complain(file);
}

static int copy_input(int to)
{
    char bytes[65536];
    ssize_t n;
    while ((n = read(STDIN_FILENO, bytes, sizeof bytes)) > 0) {
        for (ssize_t done = 0, w; done < n; done += w) {
            w = write(to, bytes + done, (size_t)(n - done));
            if (w < 0) {
                return -1;
            }
        }
    }
    return n == 0 && fsync(to) == 0 ? 0 : -1;
}

/* The new content first, into a file of its own: standard input may be slow,
 * and the mark is locked only for compare and rename. */
static int replace(const char *file, int64_t token)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s.XXXXXX", file);
    int to = mkostemp(path, O_CLOEXEC);
    if (to < 0 || copy_input(to) != 0) {
        return complain(path);
    }
    int fd = open_mark(file);
    int64_t mark = fd < 0 ? -1 : read_mark(fd);
    int status = 0;
    if (mark < 0) {
        status = complain(file);
    } else if (mark != token) {
        status = REFUSED;
    } else if (rename(path, file) != 0) {
        status = complain(file);
    }
    if (status) {
        unlink(path);
    }
    return status;
}

int main(int argc, char **argv)
{
    int64_t token = argc == 4 ? strtoll(argv[3], NULL, 10) : 0;
    if (token > 0 && strcmp(argv[1], "enter") == 0) {
        return enter(argv[2], token);
    }
    if (token > 0 && strcmp(argv[1], "write") == 0) {
        return replace(argv[2], token);
    }
    fprintf(stderr, "usage: fence-file enter|write FILE TOKEN\n");
    return USAGE;
}
