/* tests/unit/test_file_stage.c — a file that a group shares is made while another
 * of the group replaces by a link what he can reach.
 * wraps: mknodat mkdirat renameat2 */
#include <dirent.h>
#include <string.h>

#include "file_store.h"
#include "store/file/shared.h"

static char folder[160], victim[160];
static int at = -1; /* the folder                                            */
static mode_t mask;
static const char *replaced_by; /* of which call what it made is replaced     */
static int renames_with; /* this error                                       */
static bool by_folder;   /* one that he may write to, not a link       */

/* -- another of the group ------------------------------------------------------------ */

int __real_mkdirat(int where, const char *name, mode_t mode);

static void replace(const char *call, int where, const char *name)
{
    struct stat st;
    if (strcmp(call, replaced_by) != 0 || fstat(where, &st) ||
        !(st.st_mode & S_IWGRP)) {
        return;
    }
    bool is_folder = unlinkat(where, name, 0) != 0;
    if (is_folder) {
        assert_int_equal(unlinkat(where, name, AT_REMOVEDIR), 0);
    }
    if (by_folder) {
        assert_int_equal(__real_mkdirat(where, name, 0770), 0);
        assert_int_equal(fchmodat(where, name, 0770, 0), 0);
    } else {
        assert_int_equal(symlinkat(is_folder ? dir : victim, where, name), 0);
    }
}

int __real_mknodat(int where, const char *name, mode_t mode, dev_t device);
int __wrap_mknodat(int where, const char *name, mode_t mode, dev_t device);
int __wrap_mknodat(int where, const char *name, mode_t mode, dev_t device)
{
    int rc = __real_mknodat(where, name, mode, device);
    if (rc == 0) {
        replace("mknodat", where, name);
    }
    return rc;
}

int __wrap_mkdirat(int where, const char *name, mode_t mode);
int __wrap_mkdirat(int where, const char *name, mode_t mode)
{
    int rc = __real_mkdirat(where, name, mode);
    if (rc == 0) {
        replace("mkdirat", where, name);
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
    if (fresh_dir(state)) {
        return -1;
    }
    snprintf(victim, sizeof victim, "%s/precious", dir);
    snprintf(folder, sizeof folder, "%s/shared", dir);
    mask = umask(0);
    replaced_by = "";
    by_folder = false;
    renames_with = 0;
    if (mknod(victim, S_IFREG | 0600, 0) || mkdir(folder, 0770) ||
        chmod(folder, 02770)) {
        return -1;
    }
    umask(077);
    at = open(folder, O_RDONLY | O_DIRECTORY);
    return at < 0;
}

static int end_of_it(void **state)
{
    close(at);
    umask(mask);
    return remove_dir(state);
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) ? 0 : st.st_mode;
}

static int count_entries(void)
{
    int n = 0, fd = openat(at, ".", O_RDONLY | O_DIRECTORY);
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

static void it_is_the_groups_whatever_the_umask(void **state)
{
    (void)state;
    assert_true(snib__stage_make(at, "file", 0660));
    assert_int_equal(mode_of("file"), S_IFREG | 0660);
    assert_int_equal(count_entries(), 1);
}

static void what_is_there_already_stays(void **state)
{
    (void)state;
    assert_int_equal(symlinkat(victim, at, "file"), 0);
    assert_false(snib__stage_make(at, "file", 0660));
    assert_int_equal(errno, EEXIST);
    assert_true(S_ISLNK(mode_of("file")));
    assert_int_equal(count_entries(), 1);
    assert_unchanged();
}

static void what_cannot_be_moved_is_told_and_leaves_nothing(void **state)
{
    char file[200];
    (void)state;
    snprintf(file, sizeof file, "%s/file", folder);
    for (int i = 0; i < 2; i++) {
        renames_with = i == 0 ? EIO : EINVAL; /* no RENAME_NOREPLACE here    */
        assert_false(snib__stage_make(at, "file", 0660));
        assert_int_equal(errno, i == 0 ? EIO : EOPNOTSUPP);
        if (geteuid() ==
            0) { /* only root's directories are shared            */
            refused(file, i == 0 ? SNIB_ERR_STORE : SNIB_ERR_CONFIG,
                    i == 0 ? strerror(EIO) : "ZFS from 2.2 on");
        }
        assert_int_equal(count_entries(), 0);
    }
}

static void a_file_replaced_by_a_link_opens_no_other(void **state)
{
    (void)state;
    replaced_by = "mknodat";
    assert_true(snib__stage_make(at, "file", 0660));
    assert_unchanged();
    assert_int_equal(mode_of("file"), S_IFREG | 0660);
}

static void where_it_is_made_is_nobody_elses(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        by_folder = i == 1;
        replaced_by = "mkdirat";
        assert_false(snib__stage_make(at, "file", 0660));
        assert_unchanged();
        assert_int_equal(mode_of("file"), 0);
    }
}

#undef CASE
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end_of_it)

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(it_is_the_groups_whatever_the_umask),
        CASE(what_is_there_already_stays),
        CASE(what_cannot_be_moved_is_told_and_leaves_nothing),
        CASE(a_file_replaced_by_a_link_opens_no_other),
        CASE(where_it_is_made_is_nobody_elses),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
