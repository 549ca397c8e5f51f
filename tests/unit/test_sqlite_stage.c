/* tests/unit/test_sqlite_stage.c — what a group shares is made while another of
 * the group replaces by a link what he can reach.
 * wraps: bind mknodat mkdirat renameat2 */
#include <dirent.h>
#include <string.h>

#include "sqlite_store.h"

static struct snib__lockfile lockfile;
static struct snib__notifier notifier;
static char victim[160];
static mode_t mask;
static const char *replaced_by; /* of which call what it made is replaced     */
static int renames_with; /* this error                                       */
static bool by_folder;   /* one that he may write to, not a link       */

/* -- another of the group ------------------------------------------------------------ */

int __real_mkdirat(int at, const char *name, mode_t mode);

static void replace(const char *call, int at, const char *name)
{
    struct stat st;
    if (strcmp(call, replaced_by) != 0 || fstat(at, &st) ||
        !(st.st_mode & S_IWGRP)) {
        return;
    }
    bool folder = unlinkat(at, name, 0) != 0;
    if (folder) {
        assert_int_equal(unlinkat(at, name, AT_REMOVEDIR), 0);
    }
    if (by_folder) {
        assert_int_equal(__real_mkdirat(at, name, 0770), 0);
        assert_int_equal(fchmodat(at, name, 0770, 0), 0);
    } else {
        assert_int_equal(symlinkat(folder ? dir : victim, at, name), 0);
    }
}

int __real_bind(int fd, const struct sockaddr *a, socklen_t size);
int __wrap_bind(int fd, const struct sockaddr *a, socklen_t size);
int __wrap_bind(int fd, const struct sockaddr *a, socklen_t size)
{
    const struct sockaddr_un *u = (const struct sockaddr_un *)a;
    char name[100];
    int at, rc = __real_bind(fd, a, size);
    assert_int_equal(sscanf(u->sun_path, "/proc/self/fd/%d/%99s", &at, name),
                     2);
    if (rc == 0) {
        replace("bind", at, name);
    }
    return rc;
}

int __real_mknodat(int at, const char *name, mode_t mode, dev_t device);
int __wrap_mknodat(int at, const char *name, mode_t mode, dev_t device);
int __wrap_mknodat(int at, const char *name, mode_t mode, dev_t device)
{
    int rc = __real_mknodat(at, name, mode, device);
    if (rc == 0) {
        replace("mknodat", at, name);
    }
    return rc;
}

int __wrap_mkdirat(int at, const char *name, mode_t mode);
int __wrap_mkdirat(int at, const char *name, mode_t mode)
{
    int rc = __real_mkdirat(at, name, mode);
    if (rc == 0) {
        replace("mkdirat", at, name);
    }
    return rc;
}

int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to,
                     unsigned how);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to,
                     unsigned how);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to,
                     unsigned how)
{
    if (renames_with) {
        errno = renames_with;
        return -1;
    }
    return __real_renameat2(from_fd, from, to_fd, to, how);
}

/* -- the directory ------------------------------------------------------------------- */

static int begin(void **state)
{
    char notifiers[160];
    if (fresh_dir(state)) {
        return -1;
    }
    snprintf(victim, sizeof victim, "%s/precious", dir);
    snprintf(notifiers, sizeof notifiers, "%s/bells", dir);
    mask = umask(0);
    replaced_by = "";
    by_folder = false;
    renames_with = 0;
    lockfile = (struct snib__lockfile){.shared = true};
    if (mknod(victim, S_IFREG | 0600, 0) || mkdir(notifiers, 02770) ||
        chmod(notifiers, 02770)) {
        return -1;
    }
    umask(077);
    lockfile.dir = lockfile.notifiers = open(notifiers, O_RDONLY | O_DIRECTORY);
    return lockfile.notifiers < 0 || !snib__notifier_init(&notifier);
}

static int end_of_it(void **state)
{
    snib__notifier_free(&notifier, &lockfile, false);
    close(lockfile.notifiers);
    umask(mask);
    return remove_dir(state);
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    return fstatat(lockfile.notifiers, name, &st, AT_SYMLINK_NOFOLLOW)
               ? 0
               : st.st_mode;
}

static int count_entries(void)
{
    int n = 0, fd = openat(lockfile.notifiers, ".", O_RDONLY | O_DIRECTORY);
    DIR *d = fdopendir(fd);
    struct dirent *e;
    while ((e = readdir(d))) {
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    closedir(d);
    return n;
}

static void assert_unchanged(void)
{
    struct stat st;
    assert_int_equal(stat(victim, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
}

/* -- what is made ----------------------------------------------------------------------- */

static void all_is_the_groups_whatever_the_umask(void **state)
{
    (void)state;
    snib__notifier_make(&notifier, &lockfile, (uint64_t[]){1, 2});
    assert_int_equal(mode_of(notifier.name), S_IFSOCK | 0660);
    assert_true(snib__lockfile_make(&lockfile, lockfile.dir, "file", S_IFREG));
    assert_int_equal(mode_of("file"), S_IFREG | 0660);
    assert_true(
        snib__lockfile_make(&lockfile, lockfile.dir, "folder", S_IFDIR));
    assert_int_equal(mode_of("folder"), S_IFDIR | 02770);
    assert_int_equal(count_entries(), 3);
    struct snib__notifier other;
    struct snib__notification r = {.message = SNIB__NOTIFIER_MAGIC, .size = 64};
    uint64_t ids[4][2];
    snprintf(r.address, sizeof r.address, "%s", notifier.name);
    assert_true(snib__notifier_init(&other));
    assert_int_equal(snib__notifier_notify(&other, &lockfile, &r),
                     SNIB__NOTIFY_TOLD);
    assert_int_equal(snib__notifier_take(&notifier, ids, 4), 1);
    snib__notifier_free(&other, &lockfile, false);
}

static void what_is_there_already_stays(void **state)
{
    char name[40];
    (void)state;
    snprintf(name, sizeof name, "%016x%016x", 1, 2);
    assert_int_equal(symlinkat(victim, lockfile.notifiers, name), 0);
    snib__notifier_make(&notifier, &lockfile, (uint64_t[]){1, 2});
    assert_string_equal(notifier.name, "");
    assert_true(S_ISLNK(mode_of(name)));
    assert_int_equal(count_entries(), 1);
    assert_unchanged();
}

static void what_cannot_be_moved_is_told_and_leaves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        renames_with = i == 0 ? EIO : EINVAL; /* no RENAME_NOREPLACE here    */
        int told = i == 0 ? EIO : EOPNOTSUPP;
        assert_false(
            snib__lockfile_make(&lockfile, lockfile.dir, "file", S_IFREG));
        assert_int_equal(errno, told);
        assert_true((i == 1) == (strstr(snib__lockfile_why(&lockfile, errno),
                                        "ZFS from 2.2 on") != NULL));
        assert_false(
            snib__lockfile_make(&lockfile, lockfile.dir, "folder", S_IFDIR));
        assert_int_equal(errno, told);
        snib__notifier_make(&notifier, &lockfile, (uint64_t[]){1, 2});
        assert_string_equal(notifier.name, "");
        assert_int_equal(count_entries(), 0);
    }
}

static void a_bell_replaced_by_a_link_opens_no_file(void **state)
{
    (void)state;
    replaced_by = "bind";
    snib__notifier_make(&notifier, &lockfile, (uint64_t[]){1, 2});
    assert_unchanged();
    assert_int_equal(mode_of(notifier.name), S_IFSOCK | 0660);
}

static void a_file_replaced_by_a_link_opens_no_other(void **state)
{
    (void)state;
    replaced_by = "mknodat";
    assert_true(snib__lockfile_make(&lockfile, lockfile.dir, "file", S_IFREG));
    assert_unchanged();
    assert_int_equal(mode_of("file"), S_IFREG | 0660);
}

static void where_it_is_made_is_nobody_elses(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        by_folder = i == 1;
        replaced_by = "mkdirat";
        assert_false(
            snib__lockfile_make(&lockfile, lockfile.dir, "file", S_IFREG));
        assert_false(
            snib__lockfile_make(&lockfile, lockfile.dir, "folder", S_IFDIR));
        snib__notifier_make(&notifier, &lockfile, (uint64_t[]){1, 2});
        assert_string_equal(notifier.name, "");
        assert_unchanged();
        assert_int_equal(mode_of("file"), 0);
        assert_int_equal(mode_of("folder"), 0);
    }
}

#undef CASE
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end_of_it)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(all_is_the_groups_whatever_the_umask),
        CASE(what_is_there_already_stays),
        CASE(what_cannot_be_moved_is_told_and_leaves_nothing),
        CASE(a_bell_replaced_by_a_link_opens_no_file),
        CASE(a_file_replaced_by_a_link_opens_no_other),
        CASE(where_it_is_made_is_nobody_elses),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
