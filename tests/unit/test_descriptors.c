/* What every test program is watched for (tests/harness/descriptors.c): it
 * ends with the descriptors that it began with. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "unit.h"

/* main() of this program with a word, as a program of its own. */
static int status_of(const char *word, char *said, size_t reserve)
{
    size_t size = 0;
    ssize_t n;
    int status, ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        dup2(ends[1], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "descriptors", word, (char *)NULL);
        _exit(70);
    }
    close(ends[1]);
    while ((n = read(ends[0], said + size, reserve - 1 - size)) > 0) {
        size += (size_t)n;
    }
    said[size] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int close_it_late(void *fd)
{
    thrd_sleep(&(struct timespec){.tv_nsec = 50 * 1000000}, NULL);
    close(*(int *)fd);
    return 0;
}

static int act(const char *word)
{
    static int fd;
    thrd_t thread;
    if (strcmp(word, "leave") == 0) {
        open("/dev/null", O_RDONLY);
    } else if (strcmp(word, "lose") == 0) {
        close(STDIN_FILENO);
    } else if (strcmp(word, "late") == 0) {
        fd = open("/dev/null", O_RDONLY);
        thrd_create(&thread, close_it_late, &fd);
        thrd_detach(thread);
    }
    return 0;
}

static void what_is_left_open_ends_the_program(void **state)
{
    char said[1000];
    (void)state;
    int status = status_of("leave", said, sizeof said);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, "is left open: /dev/null\n"));
}

static void what_is_closed_of_anothers_ends_the_program(void **state)
{
    char said[1000];
    (void)state;
    int status = status_of("lose", said, sizeof said);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_string_equal(said,
                        "descriptors: 0 was open when the program began\n");
}

static void what_is_closed_is_nothing_to_tell(void **state)
{
    char said[1000];
    (void)state;
    assert_int_equal(status_of("nothing", said, sizeof said), 0);
    assert_int_equal(status_of("late", said, sizeof said), 0);
    assert_string_equal(said, "");
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest cases[] = {
        cmocka_unit_test(what_is_left_open_ends_the_program),
        cmocka_unit_test(what_is_closed_of_anothers_ends_the_program),
        cmocka_unit_test(what_is_closed_is_nothing_to_tell),
    };
    return argc > 1 ? act(argv[1]) : RUN(cases);
}
