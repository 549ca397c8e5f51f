/* tests/unit/test_file_opening.c — each call with which a lock file is opened
 * fails once: that is told, no descriptor, memory or lock stays, what the file
 * has is as it was, and the next one opens it.
 * wraps: openat fstat fstatfs flock fallocate mmap realpath */
#include "fds.h"
#include "file_store.h"

#include <sys/file.h>
#include <sys/mount.h>
#include <sys/statfs.h>

static int taken, fails_at, fails_with;
static int failed_at; /* to be told                                    */
static bool only_exclusive, only_shared; /* of flocks, and no other call     */
static bool others; /* have the file locked with us                  */

/* This call is the one that fails. */
static bool fails(bool is_flock)
{
    if ((!is_flock && (only_exclusive || only_shared)) || ++taken != fails_at) {
        return false;
    }
    errno = fails_with;
    return true;
}

int __real_openat(int dir_fd, const char *name, int flags, ...);
int __wrap_openat(int dir_fd, const char *name, int flags, ...);
int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);
int __real_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs);
int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how);
int __real_fallocate(int fd, int mode, off_t from, off_t size);
int __wrap_fallocate(int fd, int mode, off_t from, off_t size);
void *__real_mmap(void *at, size_t size, int may, int how, int fd, off_t from);
void *__wrap_mmap(void *at, size_t size, int may, int how, int fd, off_t from);
char *__real_realpath(const char *path_of, char *ret);
char *__wrap_realpath(const char *path_of, char *ret);

int __wrap_openat(int dir_fd, const char *name, int flags, ...)
{
    return fails(false) ? -1 : __real_openat(dir_fd, name, flags, 0600);
}

int __wrap_fstat(int fd, struct stat *st)
{
    return fails(false) ? -1 : __real_fstat(fd, st);
}

int __wrap_fstatfs(int fd, struct statfs *fs)
{
    return fails(false) ? -1 : __real_fstatfs(fd, fs);
}

int __wrap_flock(int fd, int how)
{
    bool exclusive = how & LOCK_EX, counts = how != LOCK_UN;
    if (only_exclusive || only_shared) {
        counts = exclusive ? only_exclusive : (how & LOCK_SH) && only_shared;
    }
    if (counts && fails(true)) {
        return -1;
    }
    if (exclusive && others) {
        errno = EWOULDBLOCK;
        return -1;
    }
    return __real_flock(fd, how);
}

int __wrap_fallocate(int fd, int mode, off_t from, off_t size)
{
    return fails(false) ? -1 : __real_fallocate(fd, mode, from, size);
}

void *__wrap_mmap(void *at, size_t size, int may, int how, int fd, off_t from)
{
    return fails(false) ? MAP_FAILED
                        : __real_mmap(at, size, may, how, fd, from);
}

char *__wrap_realpath(const char *path_of, char *ret)
{
    return fails(false) ? NULL : __real_realpath(path_of, ret);
}

/* -- how the file is found --------------------------------------------------------- */

static struct snib__name lock;
static struct snib__request held;

static void not_there(void)
{
}

static void hold(void)
{
    open_peers(1);
    held = request(SNIB__ACQUIRE, &lock);
    held.lease = snib__ms(3600000);
    assert_int_equal(run(0, &held), SNIB__DONE);
}

static void left(void)
{
    hold();
    close_peer(0);
}

static void of_an_earlier_boot(void)
{
    hold();
    self_of(0)->map.head->boot[0] ^= 1;
    close_peer(0);
}

static const struct found {
    const char *name;
    void (*set)(void);
    bool is_held, is_used;
    int calls; /* at least                                                   */
} found[] = {
    {"a new one", not_there, false, false, 8},
    {"one that nobody uses", left, true, false, 8},
    {"one of an earlier boot", of_an_earlier_boot, false, false, 8},
    {"one in use", hold, true, true, 8},
};

static void must(bool holds, const struct found *f, const char *what)
{
    if (!holds) {
        fail_msg("%s, call %d fails with %d: %s", f->name, failed_at,
                 fails_with, what);
    }
}

static int entries(void)
{
    int n = -2; /* . and .. */
    DIR *d = opendir(dir);
    while (d && readdir(d)) {
        n++;
    }
    if (d) {
        closedir(d);
    }
    return n;
}

/* Nobody's flock is on the file. */
static bool is_let_go(void)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    bool ok = fd < 0 || __real_flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

static void use_and_close(struct peer *p, const struct found *f)
{
    struct snib__request r = request(SNIB__ACQUIRE, &lock);
    kit.peer[1] = *p;
    r.acquire.may_queue = false;
    run(1, &r);
    must(r.said.answer == (f->is_held ? SNIB__NO : SNIB__DONE), f,
         "what was held is not");
    if (r.said.answer == SNIB__DONE) {
        must(end(1, &r) == SNIB__DONE, f, "cannot be released");
    }
    close_peer(1);
}

static void check_error(const struct found *f, snib_err err,
                        const struct snib_error *e)
{
    must(err == e->code, f, "another error is returned than told");
    must(err == SNIB_ERR_CONFIG || err == SNIB_ERR_STORE ||
             err == SNIB_ERR_LIMIT,
         f, "is told as something else");
    must(strstr(e->text, dir) != NULL, f, "is not told with the path");
}

/* False: there were fewer calls. */
static bool fail_one(const struct found *f, int at)
{
    void *none = NULL;
    struct peer p = {.client = {1, 2}}, next = {.client = {1, 3}};
    struct snib_error e = {0};
    assert_int_equal(fresh_dir(&none), 0);
    fails_at = 0;
    f->set();
    int fds = open_now();
    int64_t alive = snib__mem_alive();
    taken = 0;
    fails_at = failed_at = at;
    snib_err err = open_at(&p, path, &e);
    bool failed = taken >= at;
    fails_at = 0;
    must((err == SNIB_ERR_OK) == (p.inst != NULL), f, "half an answer");
    if (err) {
        check_error(f, err, &e);
    } else {
        use_and_close(&p, f);
    }
    must(open_now() == fds, f, "descriptors are left");
    must(snib__mem_alive() == alive, f, "memory is left");
    must(f->is_used || is_let_go(), f, "a lock is left");
    must(!open_at(&next, path, &e), f, "cannot be opened behind it");
    use_and_close(&next, f);
    must(open_now() == fds, f, "descriptors are left behind it");
    must(entries() == 1, f, "files are left");
    if (f->is_used) {
        struct snib__request r = turn_into(&held, SNIB__RENEW);
        must(run(0, &r) == SNIB__DONE, f, "who held it does not any more");
    }
    assert_int_equal(remove_dir(&none), 0);
    return failed;
}

static void each_call_fails(int with)
{
    fails_with = with;
    lock = name_of("lock");
    for (size_t i = 0; i < COUNT_OF(found); i++) {
        int at = 1;
        while (fail_one(&found[i], at)) {
            at++;
        }
        assert_true(at > found[i].calls);
    }
}

static void a_call_that_fails_leaves_nothing(void **state)
{
    (void)state;
    each_call_fails(EIO);
}

static void without_descriptors_nothing_is_left(void **state)
{
    (void)state;
    each_call_fails(EMFILE);
}

/* -- room ----------------------------------------------------------------------------- */

/* The first flock of a kind fails, for want of memory; not as if somebody were
 * opening the file and did not end. */
static void a_lock_without_memory_is_told_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        only_exclusive = i % 2 == 0;
        only_shared = !only_exclusive;
        others = i == 3;
        if (others) {
            open_peers(1);
        }
        taken = 0;
        fails_at = 1;
        fails_with = i < 2 ? ENOLCK : ENOMEM;
        refused(path, SNIB_ERR_NOMEM, "");
        fails_at = 0;
    }
    only_exclusive = only_shared = others = false;
}

/* An inode more each time, until they suffice. */
static void a_disk_without_inodes_is_told_as_the_stores(void **state)
{
    (void)state;
    int full = 0;
    for (int inodes = 1;; inodes++) {
        struct peer p = {.client = {1, 2}};
        struct snib_error e = {0};
        char option[40];
        snprintf(option, sizeof option, "nr_inodes=%d", inodes);
        if (geteuid() != 0 || mount("none", dir, "tmpfs", 0, option) != 0) {
            print_message("skipped: needs root to mount a small tmpfs\n");
            skip();
        }
        snib_err err = open_at(&p, path, &e);
        if (!err) {
            kit.ops->free(p.inst);
        }
        umount2(dir, MNT_DETACH);
        if (!err) {
            break;
        }
        full++;
        if (err != SNIB_ERR_STORE || !strstr(e.text, "no space left")) {
            fail_msg("%d inodes: %d %s", inodes, (int)err, e.text);
        }
    }
    assert_true(full >= 1);
}

/* A program may have closed its standard input. */
static void a_descriptor_may_have_number_0(void **state)
{
    struct snib__name n = name_of("zero");
    int input = fcntl(0, F_DUPFD_CLOEXEC, 3);
    (void)state;
    close(0);
    int fds = open_now();
    for (int i = 0; i < 3; i++) {
        open_peers(1);
        struct snib__place *p = &self_of(0)->place;
        int *of[] = {&p->dir, &p->users, &p->fd};
        assert_int_equal(p->dir, 0);
        if (i > 0) { /* another one of the three */
            p->dir = fcntl(0, F_DUPFD_CLOEXEC, 3);
            assert_int_equal(dup2(*of[i], 0), 0);
            close(*of[i]);
            *of[i] = 0;
            self_of(0)->map.fd = p->fd;
        }
        struct snib__request a = acquire(0, &n);
        assert_int_equal(end(0, &a), SNIB__DONE);
        close_peer(0);
        assert_int_equal(open_now(), fds);
        assert_true(is_let_go());
    }
    dup2(input, 0);
    close(input);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_call_that_fails_leaves_nothing),
        cmocka_unit_test(without_descriptors_nothing_is_left),
        CASE(a_lock_without_memory_is_told_at_once),
        CASE(a_disk_without_inodes_is_told_as_the_stores),
        CASE(a_descriptor_may_have_number_0),
    };
    return RUN(cases);
}
