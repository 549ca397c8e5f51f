/* tests/unit/test_sqlite_locks.c — the embedded store: who locks a file, as the
 * kernel's list says, and what is done when it says nothing.
 *
 * wraps: fopen statfs fstatfs */
#include "sqlite_store.h"

#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

/* -- who locks a file --------------------------------------------------------------- */

struct locker {
    pid_t pid;
    int end; /* of a pipe: closed, it ends                                 */
};

/* A process that has locked these bytes of `path`, or the file by flock. */
static struct locker locker(int type, int64_t from, int64_t size, bool by_flock)
{
    int ready[2], end[2];
    char c;
    assert_int_equal(pipe(ready) | pipe(end), 0);
    struct locker l = {.pid = fork(), .end = end[1]};
    if (l.pid == 0) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        struct flock k = {.l_type = (short)type,
                          .l_whence = SEEK_SET,
                          .l_start = from,
                          .l_len = size};
        close(end[1]);
        if (fd < 0 ||
            (by_flock ? flock(fd, LOCK_SH) : fcntl(fd, F_SETLK, &k)) ||
            write(ready[1], "x", 1) != 1 || read(end[0], &c, 1) != 0) {
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

static int64_t locked(const char *what)
{
    struct snib_error e = {0};
    int64_t pid = -1;
    if (snib__host_locked(what, &pid, &e)) {
        fail_msg("%s", e.text);
    }
    return pid;
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

static void who_writes_a_byte_is_named(void **state)
{
    (void)state;
    static const struct {
        int type;
        int64_t from, size; /* size 0: to the end of all files              */
        int64_t asked;
        bool found;
    } t[] = {
        {F_WRLCK, 120, 1, 120, true},   {F_WRLCK, 120, 1, 119, false},
        {F_WRLCK, 120, 1, 121, false},  {F_WRLCK, 120, 10, 129, true},
        {F_WRLCK, 120, 10, 130, false}, {F_WRLCK, 120, 0, 500000, true},
        {F_WRLCK, 120, 0, 119, false},  {F_RDLCK, 120, 1, 120, false},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char how = 0;
        struct locker l = locker(t[i].type, t[i].from, t[i].size, false);
        int64_t pid = snib__host_locker(path, t[i].asked, &how);
        if (pid != (t[i].found ? l.pid : 0)) {
            fail_msg("%zu: %lld", i, (long long)pid);
        }
        assert_true(t[i].found ? how == 'S' || how == 'R' || how == 'D'
                               : how == '?');
        let_go(l);
    }
    char how = 0;
    assert_int_equal(snib__host_locker(path, 120, &how), 0);
    assert_int_equal(how, '?');
    assert_int_equal(snib__host_locker("/no/such/file", 120, &how), 0);
}

static void who_stands_still_is_told_as_stopped(void **state)
{
    (void)state;
    struct locker l = locker(F_WRLCK, 120, 1, false);
    char how = 0;
    int status;
    kill(l.pid, SIGSTOP);
    assert_int_equal(waitpid(l.pid, &status, WUNTRACED), l.pid);
    assert_int_equal(snib__host_locker(path, 120, &how), l.pid);
    assert_int_equal(how, 'T');
    kill(l.pid, SIGCONT);
    let_go(l);
}

static void any_lock_counts_our_own_too(void **state)
{
    (void)state;
    struct locker l = locker(F_RDLCK, 7, 1, false);
    assert_int_equal(locked(path), l.pid);
    let_go(l);
    assert_int_equal(locked(path), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct flock k = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    assert_int_equal(fcntl(fd, F_SETLK, &k), 0);
    assert_int_equal(locked(path), getpid());
    close(fd);
    assert_int_equal(locked("/no/such/file"), 0);
}

static void who_uses_a_file_by_flock_is_named(void **state)
{
    (void)state;
    struct locker l = locker(0, 0, 0, true);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(is_used_by(fd, l.pid));
    assert_int_equal(locked(path), 0); /* that is another kind */
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
    struct locker l = locker(0, 0, 0, true);
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
static bool
    list_breaks;       /* nor read to its end                                */
static uint32_t magic; /* of each file system                                */

static ssize_t read_list(void *unused, char *to, size_t size)
{
    (void)unused;
    size_t n = strlen(list + list_at);
    n = n < size ? n : size;
    if (n == 0 && list_breaks) {
        errno = EIO;
        return -1;
    }
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

int __real_statfs(const char *name, struct statfs *ret);
int __wrap_statfs(const char *name, struct statfs *ret);
int __wrap_statfs(const char *name, struct statfs *ret)
{
    int rc = __real_statfs(name, ret);
    ret->f_type = magic ? magic : ret->f_type;
    return rc;
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
    list_breaks = false;
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

static int64_t writer(void)
{
    char how;
    return snib__host_locker(path, 120, &how);
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
    add_line(text, sizeof text, "POSIX", parent, true);
    add_line(text, sizeof text, "FLOCK", parent, true);
    list = text;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        magic = same[i];
        assert_int_equal(locked(path), 0);
        assert_int_equal(writer(), 0);
        assert_true(is_used_by(fd, 0));
    }
    for (size_t i = 0; i < COUNT_OF(odd); i++) { /* stat shows another one */
        magic = odd[i];
        assert_int_equal(locked(path), parent);
        assert_int_equal(writer(), parent);
        assert_true(is_used_by(fd, parent));
    }
    add_line(text, sizeof text, "POSIX", 1, false);
    assert_int_equal(locked(path), 1);
    magic = same[0];
    assert_int_equal(locked(path), 1);
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

static void not_told(snib_err err, const char *word)
{
    struct snib_error e = {0};
    int64_t pid = -1;
    snib_err got = snib__host_locked(path, &pid, &e);
    if (got != err || pid != 0 || !strstr(e.text, word)) {
        fail_msg("%d %lld \"%s\"", (int)got, (long long)pid, e.text);
    }
}

static void a_list_that_cannot_be_read_does_not_say_nobody(void **state)
{
    char text[400] = "";
    (void)state;
    add_line(text, sizeof text, "OFDLCK", getpid(), false);
    list_fails = ENFILE;
    not_told(SNIB_ERR_LIMIT, "/proc/locks cannot be opened");
    list_fails = ENOENT;
    not_told(SNIB_ERR_CONFIG, "cannot be told: /proc/locks: No such file");
    list_fails = 0;
    list = text;
    list_breaks = true;
    not_told(SNIB_ERR_STORE, "cannot be told: /proc/locks: Input/output");
    add_line(text, sizeof text, "POSIX", getppid(), false);
    assert_int_equal(locked(path), getppid()); /* he has it for all that */
    list = NULL;
    assert_int_equal(unlink(path) | symlink("locks.db", path), 0);
    not_told(SNIB_ERR_CONFIG, "Too many levels");
    list_fails = ENFILE;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(is_used_by(fd, 0)); /* only a name: for want of it, none */
    assert_int_equal(writer(), 0);
    close(fd);
}

/* Another process has the lock file open, and works in it. */
static pid_t begin_holder(void)
{
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct peer p = {.client = {5, 6}};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (open_at(&p, path, NULL) || write(ready[1], "x", 1) != 1) {
            _exit(1);
        }
        pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    return pid;
}

static void clean_up(const char *what)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'/%s", dir, what);
    assert_int_equal(system(command), 0);
}

/* It would work in new files, beside those of who holds. */
static void nobody_comes_in_who_cannot_see_the_others(void **state)
{
    static const char *const gone[] = {"locks.db-*", "locks.db-bells/files"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(gone); i++) {
        pid_t holder = begin_holder();
        clean_up(gone[i]);
        list_fails = ENFILE;
        refused(path, SNIB_ERR_LIMIT, "/proc/locks cannot be opened");
        list_fails = EACCES;
        refused(path, SNIB_ERR_CONFIG, "/proc/locks: Permission denied");
        list_fails = 0;
        list = "";
        list_breaks = true;
        refused(path, SNIB_ERR_STORE, "/proc/locks: Input/output");
        list = NULL;
        list_breaks = false;
        kill(holder, SIGKILL);
        waitpid(holder, NULL, 0);
        clean_up("locks.db*");
    }
}

/* With a note, or in a file that is new, the list is not needed. */
static void the_list_is_not_needed_where_nothing_is_missing(void **state)
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
        CASE(who_writes_a_byte_is_named),
        CASE(who_stands_still_is_told_as_stopped),
        CASE(any_lock_counts_our_own_too),
        CASE(who_uses_a_file_by_flock_is_named),
        CASE(no_lock_is_missed_while_others_come_and_go),
        CASE(a_lock_on_another_device_is_one_of_another_file),
        CASE(who_has_ended_is_named_only_for_want_of_another),
        CASE(an_inode_of_more_than_32_bits_is_found),
        CASE(a_list_that_cannot_be_read_does_not_say_nobody),
        CASE(nobody_comes_in_who_cannot_see_the_others),
        CASE(the_list_is_not_needed_where_nothing_is_missing),
    };
    set_kit();
    return RUN(cases);
}
