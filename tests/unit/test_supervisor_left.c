/* cli/supervisor/supervisor_left.c: is what the command left behind only snib's own, and
 * about to end? With a /proc of the test's.
 * wraps: open read __read_chk close */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cli/supervisor/supervisor_i.h"

enum { HOLDER = 100, LEFT = 200, OTHER = 201, FIRST_FD = 1000, FILES = 16 };

/* -- /proc ----------------------------------------------------------------------- */

static struct file {
    char path[64];
    char text[6000];
    int error; /* of a read; 0: none                                         */
    bool interrupted;
} files[FILES];
static int file_count, opens, is_open;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    if (strncmp(path, "/proc/", 6) != 0) {
        return __real_open(path, flags);
    }
    assert_int_equal(flags, O_RDONLY | O_CLOEXEC);
    opens++;
    for (int i = 0; i < file_count; i++) {
        if (strcmp(files[i].path, path) == 0) {
            is_open++;
            return FIRST_FD + i;
        }
    }
    errno = ENOENT;
    return -1;
}

ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size)
{
    if (fd < FIRST_FD) {
        return __real_read(fd, to, size);
    }
    struct file *f = &files[fd - FIRST_FD];
    if (f->error || f->interrupted) {
        errno = f->interrupted ? EINTR : f->error;
        f->interrupted = false;
        return -1;
    }
    size_t all = strlen(f->text);
    size = size < all ? size : all;
    memcpy(to, f->text, size);
    return (ssize_t)size;
}

ssize_t __wrap___read_chk(int fd, void *to, size_t size, size_t room);
ssize_t __wrap___read_chk(int fd, void *to, size_t size, size_t room)
{
    assert_true(size <= room);
    return __wrap_read(fd, to, size);
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    if (fd < FIRST_FD) {
        return __real_close(fd);
    }
    is_open--;
    return 0;
}

__attribute__((format(printf, 2, 3))) static struct file *
put(const char *text, const char *path, ...)
{
    assert_true(file_count < FILES);
    struct file *f = &files[file_count++];
    va_list args;
    va_start(args, path);
    vsnprintf(f->path, sizeof f->path, path, args);
    va_end(args);
    f->error = 0;
    f->interrupted = false;
    snprintf(f->text, sizeof f->text, "%s", text);
    return f;
}

static void put_stat(int pid, const char *name, char state, unsigned flags,
                     int threads)
{
    char line[200];
    snprintf(line, sizeof line,
             "%d (%s) %c 1 20 6 7 8 %u 10 11 12 13 14 15 16 17 18 19 %d 21 22",
             pid, name, state, flags, threads);
    put(line, "/proc/%d/stat", pid);
}

static void put_keeper(int pid, unsigned flags)
{
    put_stat(pid, "snib-keeper", 'S', flags, 1);
    put("snib-keeper\n", "/proc/%d/comm", pid);
}

#define CHILDREN "/proc/thread-self/children"
#define TIED     "pos:\t0\nflags:\t02\nPid:\t-1\nNSpid:\t-1\n"

static void nobody(void)
{
    file_count = 0;
}

static bool ends_itself(void)
{
    struct body b = {.group_gone = true, .holder = HOLDER};
    bool yes = supervisor_left_ends_itself(&b);
    assert_int_equal(is_open, 0);
    return yes;
}

/* -- cases ----------------------------------------------------------------------- */

static void as_long_as_the_group_is_there_nobody_looks(void **state)
{
    struct body b = {.group_gone = false, .holder = HOLDER};
    (void)state;
    nobody();
    put("100 ", CHILDREN);
    opens = 0;
    assert_false(supervisor_left_ends_itself(&b));
    assert_int_equal(opens, 0);
    assert_true(ends_itself());
    assert_int_equal(opens, 1);
}

static void what_cannot_be_seen_does_not_end_itself(void **state)
{
    (void)state;
    nobody();
    assert_false(ends_itself());
    put("100 ", CHILDREN)->error = EIO;
    assert_false(ends_itself());
    nobody();
    put("100 ", CHILDREN)->interrupted = true;
    assert_true(ends_itself());
}

static void where_nobody_is_left_nobody_is_waited_for(void **state)
{
    (void)state;
    nobody();
    put("", CHILDREN);
    assert_true(ends_itself());
}

static void who_has_ended_is_nobody(void **state)
{
    static const struct {
        char state;
        int threads;
        bool ended;
    } t[] = {{'Z', 1, true}, {'X', 1, true}, {'Z', 2, false}, {'S', 1, false}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        nobody();
        put("100 200 ", CHILDREN);
        put_stat(LEFT, "sh", t[i].state, 0, t[i].threads);
        assert_int_equal(ends_itself(), t[i].ended);
    }
}

/* The pidfd of the script by which a holder of snib acquire is tied: any that
 * is looked at. */
static void a_holder_ends_with_who_it_is_tied_to(void **state)
{
    static const struct {
        const char *text;
        int fd;
        bool ends;
    } t[] = {
        {TIED, 0, true},
        {TIED, 7, true},
        {TIED, 63, true},
        {TIED, 64, false}, /* a holder has fewer */
        {"pos:\t0\nPid:\t-1\n", 7, true},
        {"pos:\t0\nPid:\t-12\nNSpid:\t-1\n", 7, false},
        {"pos:\t0\nPid:\t4711\nNSpid:\t4711\n", 7, false},
        {"pos:\t0\nflags:\t02\n", 7, false},
        {"", 7, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        nobody();
        put("100 200 ", CHILDREN);
        put_keeper(LEFT, 0);
        put("pos:\t0\nPid:\t4711\n", "/proc/%d/fdinfo/%d", LEFT, 3);
        put(t[i].text, "/proc/%d/fdinfo/%d", LEFT, t[i].fd);
        if (ends_itself() != t[i].ends) {
            fail_msg("row %zu", i);
        }
    }
}

static void only_a_holder_is_believed_to_be_tied(void **state)
{
    static const char *const others[] = {"sh\n", "snib-keepers\n",
                                         "snib-keeper", "snib-keeper2\n", ""};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(others) + 1; i++) {
        nobody();
        put("100 200 ", CHILDREN);
        put_stat(LEFT, "snib-keeper", 'S', 4, 1);
        put(TIED, "/proc/%d/fdinfo/7", LEFT);
        if (i < COUNT_OF(others)) { /* else there is no such file */
            put(others[i], "/proc/%d/comm", LEFT);
        }
        assert_false(ends_itself());
    }
}

/* Its descriptors are closed by then. PF_EXITING is 4. */
static void a_holder_that_is_ending_is_seen_by_its_flags(void **state)
{
    static const struct {
        unsigned flags;
        bool ends;
    } t[] = {{4, true},  {0x400004, true}, {0, false},
             {1, false}, {2, false},       {3, false},
             {8, false}, {16, false},      {0x400000, false}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        nobody();
        put("100 200 ", CHILDREN);
        put_keeper(LEFT, t[i].flags);
        if (ends_itself() != t[i].ends) {
            fail_msg("flags %#x", t[i].flags);
        }
    }
}

/* Of the last bracket on: the name in front of it may be any. */
static void flags_stand_behind_the_name(void **state)
{
    static const struct {
        const char *stat;
        bool ends;
    } t[] = {
        {"200 (a) S 1 2 3 4 5 0) S 1 20 6 7 8 4 10", true},
        {"200 (a) S 1 2 3 4 5 4) S 1 20 6 7 8 0 10", false},
        {"200 (a) S 1 20 6 7 8", false},
        {"200 (a) S 1 20 6 7 x 4", false},
        {"200 a S 1 20 6 7 8 4 10", false},
        {"", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        nobody();
        put("100 200 ", CHILDREN);
        put("snib-keeper\n", "/proc/%d/comm", LEFT);
        put(t[i].stat, "/proc/%d/stat", LEFT);
        if (ends_itself() != t[i].ends) {
            fail_msg("%s", t[i].stat);
        }
    }
}

static void one_that_stays_is_enough(void **state)
{
    static const char *const orders[] = {"100 200 201 ", "100 201 200 ",
                                         "200 201 100 ", "201 "};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(orders); i++) {
        nobody();
        put(orders[i], CHILDREN);
        put_keeper(LEFT, 4);
        put_stat(OTHER, "sleep", 'S', 0, 1);
        put("sleep\n", "/proc/%d/comm", OTHER);
        assert_false(ends_itself());
    }
    nobody();
    put("200 100 201 ", CHILDREN);
    put_keeper(LEFT, 4);
    put_keeper(OTHER, 4);
    assert_true(ends_itself());
}

/* Who stands behind the end of what was read is not known. */
static void a_list_that_was_cut_is_not_all(void **state)
{
    char list[4401] = "";
    (void)state;
    for (size_t i = 0; i + 4 < sizeof list; i += 4) {
        memcpy(list + i, "100 ", 5);
    }
    nobody();
    put(list, CHILDREN);
    assert_false(ends_itself());
    list[400] = '\0';
    nobody();
    put(list, CHILDREN);
    assert_true(ends_itself());
    nobody();
    put("100 20", CHILDREN);
    assert_false(ends_itself());
}

int main(void)
{
    const struct CMUnitTest left[] = {
        cmocka_unit_test(as_long_as_the_group_is_there_nobody_looks),
        cmocka_unit_test(what_cannot_be_seen_does_not_end_itself),
        cmocka_unit_test(where_nobody_is_left_nobody_is_waited_for),
        cmocka_unit_test(who_has_ended_is_nobody),
        cmocka_unit_test(a_holder_ends_with_who_it_is_tied_to),
        cmocka_unit_test(only_a_holder_is_believed_to_be_tied),
        cmocka_unit_test(a_holder_that_is_ending_is_seen_by_its_flags),
        cmocka_unit_test(flags_stand_behind_the_name),
        cmocka_unit_test(one_that_stays_is_enough),
        cmocka_unit_test(a_list_that_was_cut_is_not_all),
    };
    return RUN(left);
}
