/* tests/unit/test_file_users.c — the embedded store: who uses a file, as the
 * kernel's list of locks says.
 *
 * wraps: fopen fstatfs */
#include "file_store.h"

#include <sys/file.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

/* -- who uses a file --------------------------------------------------------------- */

struct locker {
    pid_t pid;
    int end; /* of a pipe: closed, it ends                                 */
};

/* A process that has locked `path` by flock. */
static struct locker locker(void)
{
    int ready[2], end[2];
    char c;
    assert_int_equal(pipe(ready) | pipe(end), 0);
    struct locker l = {.pid = fork(), .end = end[1]};
    if (l.pid == 0) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        close(end[1]);
        if (fd < 0 || flock(fd, LOCK_SH) || write(ready[1], "x", 1) != 1 ||
            read(end[0], &c, 1) != 0) {
            _exit(1);
        }
        _exit(0);
    }
    close(end[0]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return l;
}

static void let_go(struct locker l)
{
    int status;
    close(l.end);
    assert_int_equal(waitpid(l.pid, &status, 0), l.pid);
    assert_int_equal(status, 0);
}

static bool is_used_by(int fd, int64_t pid)
{
    char who[SNIB__WHO] = "?", expected[SNIB__WHO] = "";
    bool used = snib__host_user_of(fd, who);
    if (pid) {
        snprintf(expected, sizeof expected, "process %lld", (long long)pid);
    }
    return used == (pid != 0) && strcmp(who, expected) == 0;
}

static void who_uses_a_file_by_flock_is_named(void **state)
{
    (void)state;
    struct locker l = locker();
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(is_used_by(fd, l.pid));
    let_go(l);
    assert_true(is_used_by(fd, 0));
    assert_int_equal(flock(fd, LOCK_SH), 0);
    assert_true(is_used_by(fd, 0)); /* ourselves */
    close(fd);
    assert_true(is_used_by(-1, 0));
}

/* Locks of other bytes that come and go: the kernel's list is read in several
 * pieces then, and what stands before a lock may move it from one to the next. */
static struct locker churn(const char *at)
{
    int end[2];
    char c;
    assert_int_equal(pipe(end), 0);
    struct locker l = {.pid = fork(), .end = end[1]};
    if (l.pid == 0) {
        int fd = open(at, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        struct flock k = {.l_whence = SEEK_SET, .l_len = 1};
        close(end[1]);
        fcntl(end[0], F_SETFL, O_NONBLOCK);
        for (int i = 0; read(end[0], &c, 1) < 0; i = (i + 1) % 400) {
            k.l_start = 2 * i;
            k.l_type = rand() % 2 ? F_WRLCK : F_UNLCK;
            if (fd < 0 || fcntl(fd, F_SETLK, &k)) {
                _exit(1);
            }
        }
        _exit(0);
    }
    close(end[0]);
    return l;
}

static void no_lock_is_missed_while_others_come_and_go(void **state)
{
    enum { TIMES = 1000 };
    (void)state;
    char a[sizeof path + 8], b[sizeof path + 8];
    snprintf(a, sizeof a, "%s-a", path);
    snprintf(b, sizeof b, "%s-b", path);
    struct locker first = churn(a), second = churn(b);
    struct locker l = locker();
    int missed = 0, fd = open(path, O_RDWR | O_CLOEXEC);
    for (int i = 0; i < TIMES; i++) {
        missed += !is_used_by(fd, l.pid);
    }
    close(fd);
    let_go(l); /* the last first: a process has the ends of those before it */
    let_go(second);
    let_go(first);
    unlink(a);
    unlink(b);
    assert_int_equal(missed, 0);
}

/* -- a list of the test's ------------------------------------------------------------ */

static const char
    *list; /* in the place of /proc/locks; NULL: that            */
static size_t list_at;
static int list_fails; /* it cannot be opened: errno                         */
static uint32_t magic; /* of each file system                                */

static ssize_t read_list(void *unused, char *to, size_t size)
{
    (void)unused;
    size_t n = strlen(list + list_at);
    n = n < size ? n : size;
    memcpy(to, list + list_at, n);
    list_at += n;
    return (ssize_t)n;
}

FILE *__real_fopen(const char *name, const char *how);
FILE *__wrap_fopen(const char *name, const char *how);
FILE *__wrap_fopen(const char *name, const char *how)
{
    static const cookie_io_functions_t calls = {.read = read_list};
    bool it = strcmp(name, "/proc/locks") == 0;
    if (it && list_fails) {
        errno = list_fails;
        return NULL;
    }
    if (it && list) {
        list_at = 0;
        return fopencookie(NULL, "r", calls);
    }
    return __real_fopen(name, how);
}

int __real_fstatfs(int fd, struct statfs *ret);
int __wrap_fstatfs(int fd, struct statfs *ret);
int __wrap_fstatfs(int fd, struct statfs *ret)
{
    int rc = __real_fstatfs(fd, ret);
    ret->f_type = magic ? magic : ret->f_type;
    return rc;
}

static int put_back(void **state)
{
    list = NULL;
    list_fails = 0;
    magic = 0;
    return remove_dir(state);
}

/* A file at `path`, and a line of the list about it. */
static void add_line(char *text, size_t size, const char *type, int64_t pid,
                     bool elsewhere)
{
    struct stat st;
    size_t used = strlen(text);
    close(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(stat(path, &st), 0);
    snprintf(text + used, size - used,
             "%d: %s  ADVISORY  WRITE %lld %02x:%02x:%llu 0 EOF\n", 7, type,
             (long long)pid, major(st.st_dev),
             minor(st.st_dev) + (elsewhere ? 1 : 0),
             (unsigned long long)st.st_ino);
}

/* The same number of an inode, on another file system. */
static void a_lock_on_another_device_is_one_of_another_file(void **state)
{
    static const uint32_t same[] = {0xef53, 0x58465342, 0xf2f52010, 0x2fc12fc1,
                                    0x01021994};
    static const uint32_t odd[] = {0x9123683e, 0x794c7630};
    char text[400] = "";
    (void)state;
    int64_t parent = getppid();
    add_line(text, sizeof text, "FLOCK", parent, true);
    list = text;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        magic = same[i];
        assert_true(is_used_by(fd, 0));
    }
    for (size_t i = 0; i < COUNT_OF(odd); i++) { /* stat shows another one */
        magic = odd[i];
        assert_true(is_used_by(fd, parent));
    }
    add_line(text, sizeof text, "FLOCK", 1, false);
    assert_true(is_used_by(fd, 1)); /* sooner than one of another device */
    magic = same[0];
    assert_true(is_used_by(fd, 1));
    list = "";
    assert_true(is_used_by(fd, 0));
    text[0] = 0; /* a lock of bytes is another kind */
    add_line(text, sizeof text, "POSIX", 1, false);
    list = text;
    assert_true(is_used_by(fd, 0));
    close(fd);
}

static void who_has_ended_is_named_only_for_want_of_another(void **state)
{
    char text[400] = "", who[SNIB__WHO], expected[SNIB__WHO];
    siginfo_t info;
    (void)state;
    pid_t ended = fork();
    if (ended == 0) {
        _exit(0);
    }
    assert_int_equal(waitid(P_PID, (id_t)ended, &info, WEXITED | WNOWAIT), 0);
    add_line(text, sizeof text, "FLOCK", ended, false);
    list = text;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(expected, sizeof expected, "a child of the ended process %d",
             (int)ended);
    for (int i = 0; i < 2; i++) { /* unreaped, reaped */
        assert_true(snib__host_user_of(fd, who));
        assert_string_equal(who, expected);
        waitpid(ended, NULL, 0);
    }
    add_line(text, sizeof text, "FLOCK", getppid(), false);
    assert_true(is_used_by(fd, getppid()));
    close(fd);
}

/* What a client says of an inode has 32 bits: a large number is the same one. */
static void an_inode_of_more_than_32_bits_is_found(void **state)
{
    char text[400], who[SNIB__WHO], expected[SNIB__WHO];
    const uint64_t ino = UINT64_C(0x123456789a);
    struct stat st;
    (void)state;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    snprintf(text, sizeof text,
             "1: FLOCK  ADVISORY  READ %d %02x:%02x:%llu 0 EOF\n", getpid(),
             major(st.st_dev), minor(st.st_dev), (unsigned long long)ino);
    list = text;
    snprintf(expected, sizeof expected, "process %d", getpid());
    assert_true(snib__host_user_at(fd, snib__host_inode(ino), true, who));
    assert_string_equal(who, expected);
    assert_false(snib__host_user_at(fd, (uint32_t)ino, true, who));
    snprintf(text, sizeof text,
             "1: FLOCK  ADVISORY  READ 1 %02x:%02x:%llu 0 EOF\n",
             major(st.st_dev), minor(st.st_dev), (unsigned long long)ino);
    assert_true(snib__host_user_at(fd, snib__host_inode(ino), false, who));
    close(fd);
}

/* -- no list ------------------------------------------------------------------------- */

/* It only gives a name; for want of one there is none. */
static void a_list_that_cannot_be_read_names_nobody(void **state)
{
    (void)state;
    struct locker l = locker();
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(is_used_by(fd, l.pid));
    list_fails = ENFILE;
    assert_true(is_used_by(fd, 0));
    list_fails = 0;
    let_go(l);
    close(fd);
}

static void the_list_is_not_needed_to_open_a_file(void **state)
{
    (void)state;
    list_fails = ENOENT;
    open_peers(2);
    close_peer(0);
    close_peer(1);
    open_peers(1);
}

#undef CASE
#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, put_back)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(who_uses_a_file_by_flock_is_named),
        CASE(no_lock_is_missed_while_others_come_and_go),
        CASE(a_lock_on_another_device_is_one_of_another_file),
        CASE(who_has_ended_is_named_only_for_want_of_another),
        CASE(an_inode_of_more_than_32_bits_is_found),
        CASE(a_list_that_cannot_be_read_names_nobody),
        CASE(the_list_is_not_needed_to_open_a_file),
    };
    set_kit();
    return RUN(cases);
}
