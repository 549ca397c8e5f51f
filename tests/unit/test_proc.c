/* cli/supervisor/proc.h: what /proc says, as far as no process is needed to see it.
 * wraps: open opendir readdir closedir realloc */
#include "unit.h"

#include "cli/supervisor/proc.h"
#include "cli/supervisor/proc_i.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A /proc of so many processes, from 5001 on; 0: the kernel's. */
static struct {
    int processes, at;
    bool without_memory;
    size_t room; /* what was allocated last */
    struct dirent entry;
} many;

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    many.at = 0;
    return many.processes ? (DIR *)&many.entry : __real_opendir(path);
}

struct dirent *__real_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir)
{
    if (!many.processes) {
        return __real_readdir(dir);
    }
    if (many.at == many.processes) {
        return NULL;
    }
    snprintf(many.entry.d_name, sizeof many.entry.d_name, "%d",
             5001 + many.at++);
    return &many.entry;
}

int __real_closedir(DIR *dir);
int __wrap_closedir(DIR *dir);
int __wrap_closedir(DIR *dir)
{
    return many.processes ? 0 : __real_closedir(dir);
}

void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size)
{
    if (many.processes) {
        assert_true(size > many.room);
        if (many.without_memory) {
            errno = ENOMEM;
            return NULL;
        }
        many.room = size;
    }
    return __real_realloc(block, size);
}

/* Of processes above each other in a circle: how often one was looked at. */
static struct {
    bool on;
    int looks;
} circle;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    int pid;
    if (!circle.on || sscanf(path, "/proc/%d/stat", &pid) != 1) {
        return __real_open(path, flags);
    }
    int fd = memfd_create("stat", MFD_CLOEXEC);
    assert_return_code(fd, 0);
    assert_true(dprintf(fd,
                        "%d (x) S %d 1 6 7 8 9 10 11 12 13 14 15 16 17 18 19 1 "
                        "21 22",
                        pid, pid == 4711 ? 4712 : 4711) > 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    circle.looks++;
    return fd;
}

/* All of a list, joined by commas. */
static const char *pids_of(const char *list)
{
    static char got[256];
    size_t used = 0;
    pid_t pid;
    got[0] = '\0';
    while (proc_next_pid(&list, &pid)) {
        used += (size_t)snprintf(got + used, sizeof got - used, "%d,", pid);
    }
    return got;
}

static void a_list_of_children_comes_apart(void **state)
{
    (void)state;
    assert_string_equal(pids_of("12 345 6 "), "12,345,6,");
    assert_string_equal(pids_of("2147483647 "), "2147483647,");
    assert_string_equal(pids_of(""), "");
}

/* It would be another process, which has nothing to do with us. */
static void a_number_that_was_cut_off_is_no_pid(void **state)
{
    static const char all[] = "12345 23456 34567 ";
    (void)state;
    for (size_t size = 0; size < sizeof all; size++) {
        char part[sizeof all];
        snprintf(part, size + 1, "%s", all);
        assert_string_equal(pids_of(part), size >= 18   ? "12345,23456,34567,"
                                           : size >= 12 ? "12345,23456,"
                                           : size >= 6  ? "12345,"
                                                        : "");
    }
}

static void what_is_no_list_of_children_is_nobody(void **state)
{
    (void)state;
    assert_string_equal(pids_of("0 "), "");
    assert_string_equal(pids_of("-1 "), ""); /* all processes, to kill(2) */
    assert_string_equal(pids_of("2147483648 "), "");
    assert_string_equal(pids_of("4294967297 "), "");
    assert_string_equal(pids_of("x 1 "), "");
    assert_string_equal(pids_of("7 \n"), "7,");
}

/* All have pid 1 above them; as a place up the tree it says nothing. */
static void neither_pid_1_nor_what_is_no_pid_is_up_the_tree(void **state)
{
    (void)state;
    assert_false(proc_is_ancestor(1, getpid()));
    assert_false(proc_is_ancestor(0, getpid()));
    assert_false(proc_is_ancestor(-1, getpid()));
    assert_false(proc_is_ancestor(1, 1));
    assert_true(proc_is_ancestor(2, 2));
}

/* Of one whose parents are hidden (here: who has ended) nobody knows. */
static void who_is_surely_not_up_the_tree(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    assert_true(proc_is_no_ancestor(child, getpid()));
    assert_false(proc_is_no_ancestor(getppid(), getpid()));
    assert_false(proc_is_no_ancestor(getpid(), getpid()));
    assert_false(proc_is_no_ancestor(1, getpid()));
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_false(proc_is_no_ancestor(getpid(), child));
    assert_false(proc_is_ancestor(getpid(), child));
}

/* A kernel without /proc/PID/task/TID/children. */
static void children_are_found_without_the_kernels_list(void **state)
{
    char list[64], want[64], cut[8];
    pid_t one, two;
    (void)state;
    assert_true(proc_read_children(getpid(), list, sizeof list));
    assert_string_equal(list, "");
    if ((one = fork()) == 0 || (two = fork()) == 0) {
        pause();
        _exit(0);
    }
    snprintf(want, sizeof want, "%d %d ", one < two ? one : two,
             one < two ? two : one);
    assert_true(proc_read_children(getpid(), list, sizeof list));
    assert_string_equal(list, want);
    /* What does not fit is left out, and no number is cut. */
    assert_true(proc_read_children(getpid(), cut, sizeof cut));
    assert_int_equal(strncmp(want, cut, strlen(cut)), 0);
    assert_int_equal(cut[strlen(cut) - 1], ' ');
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kill(i ? two : one, SIGKILL), 0);
        assert_int_equal(waitpid(i ? two : one, NULL, 0), i ? two : one);
    }
}

static void *sleep_on(void *none)
{
    (void)none;
    pause();
    return NULL;
}

/* /proc shows it as a zombie. */
static void whose_first_thread_has_ended_has_not_ended(void **state)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    char path[64], line[512] = "";
    pid_t pid = fork();
    pthread_t thread;
    (void)state;
    if (pid == 0) {
        setpgid(0, 0);
        pthread_create(&thread, NULL, sleep_on, NULL);
        syscall(SYS_exit, 0);
    }
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    for (int i = 0; i < 10000 && !strstr(line, ") Z "); i++) {
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        assert_non_null(fgets(line, sizeof line, f));
        fclose(f);
        nanosleep(&moment, NULL);
    }
    assert_non_null(strstr(line, ") Z "));
    assert_false(proc_ended(pid));
    assert_false(proc_is_gone(pid, proc_start(pid)));
    assert_true(proc_group_alive(pid));
    assert_int_equal(kill(pid, SIGKILL), 0);
    for (int i = 0; i < 10000 && !proc_ended(pid); i++) {
        nanosleep(&moment, NULL);
    }
    assert_true(proc_ended(pid));
    assert_true(proc_is_gone(pid, proc_start(pid)));
    assert_false(proc_group_alive(pid));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(proc_is_gone(pid, 1));
}

static void who_is_gone_by_number_and_start(void **state)
{
    (void)state;
    assert_false(proc_is_gone(getpid(), proc_start(getpid())));
    assert_true(proc_is_gone(getpid(), proc_start(getpid()) + 1));
}

static void of_thousands_of_processes_none_is_left_out(void **state)
{
    (void)state;
    many.processes = 9000;
    many.without_memory = true;
    assert_false(proc_list()); /* it is not known who the others are */
    many.without_memory = false;
    assert_true(proc_list());
    assert_int_equal(proc_list_count, 9000);
    for (int i = 0; i < 9000; i++) {
        assert_int_equal(proc_list_pids[i], 5001 + i);
    }
    assert_true(many.room >= 9000 * sizeof *proc_list_pids);
    many.processes = 1;
    assert_true(proc_list());
    assert_int_equal(proc_list_count, 1);
    assert_int_equal(proc_list_pids[0], 5001);
    many.processes = 0;
}

/* Numbers are used again while it is looked up the tree: it is not known then. */
static void a_circle_of_parents_has_an_end(void **state)
{
    (void)state;
    circle.on = true;
    assert_true(proc_is_ancestor(4712, 4711));
    assert_int_equal(circle.looks, 1);
    assert_false(proc_is_no_ancestor(4712, 4711));
    circle.looks = 0;
    assert_false(proc_is_ancestor(99, 4711));
    assert_in_range(circle.looks, 1, 5000);
    assert_false(proc_is_no_ancestor(99, 4711));
    circle.on = false;
}

int main(void)
{
    const struct CMUnitTest proc[] = {
        cmocka_unit_test(a_list_of_children_comes_apart),
        cmocka_unit_test(a_number_that_was_cut_off_is_no_pid),
        cmocka_unit_test(what_is_no_list_of_children_is_nobody),
        cmocka_unit_test(neither_pid_1_nor_what_is_no_pid_is_up_the_tree),
        cmocka_unit_test(who_is_surely_not_up_the_tree),
        cmocka_unit_test(children_are_found_without_the_kernels_list),
        cmocka_unit_test(whose_first_thread_has_ended_has_not_ended),
        cmocka_unit_test(who_is_gone_by_number_and_start),
        cmocka_unit_test(of_thousands_of_processes_none_is_left_out),
        cmocka_unit_test(a_circle_of_parents_has_an_end),
    };
    return RUN(proc);
}
