/* tests/unit/same_apart.h — a run of same_list.h in a process of its own: what
 * the product keeps as long as its process lives is fresh. For programs whose
 * calls of libc go there (others have same.h). */
#ifndef SNIB_TESTS_SAME_APART_H
#define SNIB_TESTS_SAME_APART_H

#include "same_list.h"

#include <sys/wait.h>
#include <unistd.h>

static int first_unused_fd(void)
{
    int fd = dup(STDOUT_FILENO);
    assert_return_code(fd, 0);
    close(fd);
    return fd;
}

/* It ends with the memory and descriptors that it began with. */
static void same_apart(void (*run)(uint64_t run, char *ret, size_t size),
                       uint64_t which, char *ret, size_t size)
{
    int ends[2], status;
    assert_return_code(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = first_unused_fd();
        run(which, ret, size);
        assert_int_equal(first_unused_fd(), fd);
        assert_int_equal(snib__mem_alive(), 0);
        fflush(stdout);
        _exit(write(ends[1], ret, size) != (ssize_t)size);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], ret, size);
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status || n != (ssize_t)size) {
        snprintf(ret, size, "no number: status %d", status);
    }
}

#endif
