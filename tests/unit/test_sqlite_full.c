/* tests/unit/test_sqlite_full.c — the embedded store on a disk that is full, and
 * where the kernel has no memory for a lock.
 *
 * wraps: mkdirat mknodat symlinkat flock */
#include "sqlite_store.h"

#include <sys/file.h>

/* -- while it is used ----------------------------------------------------------------- */

static void disk_full_changes_nothing_and_passes(void **state)
{
    char big[160];
    (void)state;
    if (geteuid() != 0 || mount("none", dir, "tmpfs", 0, "size=400k") != 0) {
        print_message("skipped: needs root to mount a small tmpfs\n");
        skip();
    }
    static char text[400][24];
    static struct snib__name names[400];
    static struct snib__request r[400];
    int full = -1;
    open_peers(1);
    for (int i = 0; i < 400 && full < 0; i++) {
        snprintf(text[i], sizeof text[i], "full-%d", i);
        names[i] = name_of(text[i]);
        r[i] = acquire(0, &names[i]);
        if (r[i].said.answer != SNIB__DONE) {
            full = i;
        }
        if (i == 20) { /* somebody else fills the disk */
            snprintf(big, sizeof big, "%s/big", dir);
            int fd = open(big, O_WRONLY | O_CREAT, 0600);
            while (write(fd, dir, sizeof dir) > 0) {
                continue;
            }
            close(fd);
        }
    }
    assert_true(full > 20);
    assert_int_equal(r[full].said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r[full].said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(r[full].said.reterr->text, "no space"));
    for (int i = 0; i < full; i++) { /* all are there, and readable */
        assert_int_equal(look(0, &names[i], SNIB__ROW_HOLDER, NULL), 1);
    }
    assert_int_equal(look(0, &names[full], SNIB__ROW_HOLDER, NULL), 0);
    unlink(big);
    r[full].said.answer = SNIB__PENDING;
    r[full].token = 0;
    assert_int_equal(run(0, &r[full]), SNIB__DONE);
    assert_int_equal(end(0, &r[0]), SNIB__DONE);
    close_peer(0);
    umount2(dir, MNT_DETACH);
}

static void a_full_disk_is_named_where_it_is_met(void **state)
{
    char big[160];
    (void)state;
    if (geteuid() != 0 || mount("none", dir, "tmpfs", 0, "size=64k") != 0) {
        print_message("skipped: needs root to mount a small tmpfs\n");
        skip();
    }
    snprintf(big, sizeof big, "%s/big", dir);
    int fd = open(big, O_WRONLY | O_CREAT, 0600);
    while (write(fd, dir, sizeof dir) > 0) {
        continue;
    }
    close(fd);
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    snib_err err = open_at(&p, path, &e);
    umount2(dir, MNT_DETACH);
    assert_int_not_equal(err, SNIB_ERR_OK);
    if (!strstr(e.text, "no space left")) {
        print_error("\"%s\"\n", e.text);
        fail();
    }
}

/* -- while it is opened --------------------------------------------------------------- */

/* The n-th call of one of these fails. */
enum { NOTHING, MKDIR, MKNOD, SYMLINK, EXCLUSIVE, SHARED };
static int what, left, with;

static bool
    others; /* have the bells locked with us                            */

static bool fails(int call)
{
    bool it = what == call && --left == 0;
    errno = it ? with : errno;
    return it;
}

int __real_mkdirat(int at, const char *name, mode_t mode);
int __wrap_mkdirat(int at, const char *name, mode_t mode);
int __wrap_mkdirat(int at, const char *name, mode_t mode)
{
    return fails(MKDIR) ? -1 : __real_mkdirat(at, name, mode);
}

int __real_mknodat(int at, const char *name, mode_t mode, dev_t dev);
int __wrap_mknodat(int at, const char *name, mode_t mode, dev_t dev);
int __wrap_mknodat(int at, const char *name, mode_t mode, dev_t dev)
{
    return fails(MKNOD) ? -1 : __real_mknodat(at, name, mode, dev);
}

int __real_symlinkat(const char *to, int at, const char *name);
int __wrap_symlinkat(const char *to, int at, const char *name);
int __wrap_symlinkat(const char *to, int at, const char *name)
{
    return fails(SYMLINK) ? -1 : __real_symlinkat(to, at, name);
}

int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how);
int __wrap_flock(int fd, int how)
{
    bool exclusive = how & LOCK_EX;
    if (((how & LOCK_SH) && fails(SHARED)) || (exclusive && fails(EXCLUSIVE))) {
        return -1;
    }
    if (exclusive && others) {
        errno = EWOULDBLOCK;
        return -1;
    }
    return __real_flock(fd, how);
}

static void anew(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'/locks.db*", dir);
    assert_int_equal(system(command), 0);
}

/* Of each kind of call each fails, until there are no more: how many. */
static int each_fails(int call, int e, snib_err err, const char *word)
{
    for (int n = 1;; n++) {
        struct peer p = {.client = {1, 2}};
        struct snib_error error = {0};
        anew();
        what = call;
        left = n;
        with = e;
        snib_err got = open_at(&p, path, &error);
        what = NOTHING;
        if (left > 0) {
            assert_int_equal(got, SNIB_ERR_OK);
            kit.ops->free(p.inst);
            return n - 1;
        }
        if (got != err || error.code != err || !strstr(error.text, word)) {
            fail_msg("call %d, %d: %d %s", call, n, (int)got, error.text);
        }
    }
}

/* It may work later, and another file on the same disk would not help. */
static void a_disk_without_room_is_told_as_the_stores(void **state)
{
    static const int errors[] = {ENOSPC, EDQUOT};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        int e = errors[i];
        assert_int_equal(each_fails(MKDIR, e, SNIB_ERR_STORE, "no space"), 1);
        assert_true(each_fails(MKNOD, e, SNIB_ERR_STORE, "no space") >= 2);
        assert_int_equal(each_fails(SYMLINK, e, SNIB_ERR_STORE, "no space"), 1);
    }
    assert_int_equal(each_fails(SYMLINK, EIO, SNIB_ERR_STORE, "output"), 1);
    assert_int_equal(each_fails(SYMLINK, EACCES, SNIB_ERR_CONFIG, "denied"), 1);
}

/* … and not as somebody who is opening the file and does not end. */
static void a_lock_without_memory_is_told_at_once(void **state)
{
    (void)state;
    assert_true(each_fails(EXCLUSIVE, ENOLCK, SNIB_ERR_NOMEM, "") >= 1);
    assert_true(each_fails(SHARED, ENOLCK, SNIB_ERR_NOMEM, "") >= 1);
    open_peers(1);
    others = true;
    what = SHARED;
    left = 1;
    with = ENOMEM;
    refused(path, SNIB_ERR_NOMEM, "");
    what = NOTHING;
    others = false;
}

/* An inode more each time, until they suffice. */
static void a_disk_without_inodes_is_told_as_the_stores(void **state)
{
    (void)state;
    int full = 0;
    for (int inodes = 2;; inodes++) {
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
    assert_true(full >= 3);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(disk_full_changes_nothing_and_passes),
        CASE(a_full_disk_is_named_where_it_is_met),
        CASE(a_disk_without_room_is_told_as_the_stores),
        CASE(a_lock_without_memory_is_told_at_once),
        CASE(a_disk_without_inodes_is_told_as_the_stores),
    };
    return RUN(cases);
}
