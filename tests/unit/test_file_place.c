/* tests/unit/test_file_place.c — the embedded store: where its file may be, and
 * whose it is. */
#include <grp.h>

#include "base/mem.h"
#include "fds.h"
#include "file_store.h"

enum { GROUP = 4242, NOBODY = 65534 };

static void needs_root(void)
{
    if (geteuid() != 0) {
        print_message("skipped: needs root to be several users\n");
        skip();
    }
}

/* -- one user's ----------------------------------------------------------------- */

static void it_is_made_for_one_user(void **state)
{
    struct stat st;
    (void)state;
    mode_t mask = umask(0);
    open_peers(1);
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void directory_may_be_reached_by_a_link(void **state)
{
    char link[80], where[120];
    (void)state;
    snprintf(link, sizeof link, "%s-link", dir);
    assert_int_equal(symlink(dir, link), 0);
    snprintf(where, sizeof where, "%s/locks", link);
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    assert_int_equal(open_at(&p, where, &e), SNIB_ERR_OK);
    assert_string_equal(((struct snib__file *)p.inst)->place.path, path);
    kit.ops->free(p.inst);
    unlink(link);
}

static void odd_paths_are_refused_with_a_remedy(void **state)
{
    char where[400];
    (void)state;
    snprintf(where, sizeof where, "%s/", dir);
    refused(where, SNIB_ERR_CONFIG, "does not name a file");
    snprintf(where, sizeof where, "%s/.", dir);
    refused(where, SNIB_ERR_CONFIG, "does not name a file");
    snprintf(where, sizeof where, "%s/..", dir);
    refused(where, SNIB_ERR_CONFIG, "does not name a file");
    snprintf(where, sizeof where, "%s/no/locks", dir);
    refused(where, SNIB_ERR_CONFIG, "name another: file:PATH");
    snprintf(where, sizeof where, "%s/%0256d", dir, 7);
    refused(where, SNIB_ERR_CONFIG, "path of the lock file is too long");
    int n = snprintf(where, sizeof where, "%s/%0255d", dir, 7);
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    assert_true(n > 0);
    assert_int_equal(open_at(&p, where, &e), SNIB_ERR_OK);
    kit.ops->free(p.inst);
}

static void anothers_file_is_refused(void **state)
{
    (void)state;
    needs_root();
    open_peers(1);
    close_peer(0);
    assert_int_equal(chown(path, NOBODY, NOBODY), 0);
    refused(path, SNIB_ERR_CONFIG, "another user");
    refused(path, SNIB_ERR_CONFIG, "each user has a file of his own");
    refused(path, SNIB_ERR_CONFIG, "install -d -m 2770 -g GROUP");
}

static void try_read_only(void)
{
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    snib_err err = open_at(&p, path, &e);
    if (err != SNIB_ERR_CONFIG || !strstr(e.text, "name another: file:PATH")) {
        dprintf(2, "%d %s\n", (int)err, e.text);
        _exit(1);
    }
}

static void read_only_directory_is_refused(void **state)
{
    int status;
    (void)state;
    assert_int_equal(chmod(dir, 0555), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && (setgid(NOBODY) || setuid(NOBODY))) {
            _exit(9);
        }
        try_read_only();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    chmod(dir, 0700);
}

/* -- file systems ------------------------------------------------------------------ */

static void network_file_systems_are_refused_by_name(void **state)
{
    static const struct {
        uint32_t magic;
        const char *says;
    } bad[] = {{0x6969, "lies on NFS"},
               {0xff534d42, "lies on CIFS"},
               {0x65735546, "lies on FUSE"},
               {0x01021997, "lies on 9p"},
               {0x12345678, "lies on type 0x12345678"},
               {0x9fa0, "lies on proc, where no file can be made; put"},
               {0x62656572, "lies on sysfs, where no file can be made; put"}};
    static const uint32_t good[] = {0xef53,     0x58465342, 0x9123683e,
                                    0xf2f52010, 0x2fc12fc1, 0x01021994,
                                    0x794c7630};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        host.fs_magic = bad[i].magic;
        refused(path, SNIB_ERR_CONFIG, bad[i].says);
        refused(path, SNIB_ERR_CONFIG, "name another: file:PATH");
    }
    assert_int_equal(access(path, F_OK), -1); /* nothing was made there */
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct peer p = {.client = {1, 2}};
        host.fs_magic = good[i];
        assert_int_equal(open_at(&p, path, NULL), SNIB_ERR_OK);
        kit.ops->free(p.inst);
    }
}

static void what_is_refused_is_closed(void **state)
{
    (void)state;
    open_peers(1);
    self_of(0)->map.head->layout = 99;
    int before = open_now();
    for (int i = 0; i < 3; i++) {
        refused(path, SNIB_ERR_CONFIG, "layout 99");
    }
    assert_int_equal(open_now(), before);
}

/* -- a group's ----------------------------------------------------------------------- */

static void share(mode_t mode)
{
    needs_root();
    assert_int_equal(chown(dir, 0, GROUP), 0);
    assert_int_equal(chmod(dir, mode), 0);
}

static void it_is_made_for_the_group_whatever_the_umask(void **state)
{
    struct stat st;
    (void)state;
    share(02770);
    mode_t mask = umask(077);
    open_peers(1);
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    assert_int_equal(st.st_gid, GROUP);
    assert_true(self_of(0)->place.shared);
    close_peer(0);
    open_peers(1); /* and opened, where it is there */
    assert_true(self_of(0)->place.shared);
}

static void a_directory_that_others_may_read_is_no_groups(void **state)
{
    static const struct {
        mode_t mode;
        bool shared;
    } t[] = {{02770, true}, {02771, true},  {02775, false}, {02772, false},
             {0770, false}, {02750, false}, {03770, true},  {02777, false}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct peer p = {.client = {1, 2}};
        struct snib_error e = {0};
        share(t[i].mode);
        assert_int_equal(open_at(&p, path, &e), SNIB_ERR_OK);
        bool shared = ((struct snib__file *)p.inst)->place.shared;
        kit.ops->free(p.inst);
        if (shared != t[i].shared) {
            fail_msg("%o: %d", (unsigned)t[i].mode, shared);
        }
        assert_int_equal(unlink(path), 0);
    }
}

/* A private file of this user stays private, also where a group has others. */
static void a_private_file_stays_private(void **state)
{
    struct stat st;
    (void)state;
    open_peers(1);
    close_peer(0);
    share(02770);
    open_peers(1);
    assert_false(self_of(0)->place.shared);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void what_a_group_does_not_share_like_this_is_refused(void **state)
{
    (void)state;
    share(02770);
    open_peers(1);
    close_peer(0);
    assert_int_equal(chmod(path, 0666), 0);
    refused(path, SNIB_ERR_CONFIG, "does not have mode 0660");
    assert_int_equal(chmod(path, 0660) | chown(path, 0, GROUP + 1), 0);
    refused(path, SNIB_ERR_CONFIG, "is not of its directory's group");
    assert_int_equal(chown(path, NOBODY, GROUP), 0);
    open_peers(1); /* another member made it */
    assert_true(self_of(0)->place.shared);
}

/* Runs as a member of GROUP who is nobody else. */
static int as_member(int (*body)(void))
{
    enum { MEMBER_OF = 65 };
    gid_t groups[MEMBER_OF];
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < MEMBER_OF; i++) {
            groups[i] = GROUP - (gid_t)i;
        }
        if (setgroups(MEMBER_OF, groups) || setegid(NOBODY) ||
            seteuid(NOBODY)) {
            _exit(2);
        }
        _exit(body());
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

/* "Not in the group" would be another file, or one that shuts the others out. */
static int open_without_memory(void)
{
    for (int n = 1; n < 1000; n++) {
        struct peer p = {.client = {1, 2}};
        struct snib_error e = {0};
        struct stat st;
        snib__mem_fail_at(n, false);
        snib_err err = open_at(&p, path, &e);
        snib__mem_fail_at(0, false);
        if (stat(path, &st) == 0 && (st.st_mode & 0777) != 0660) {
            return 3;
        }
        if (err != SNIB_ERR_NOMEM) {
            return err ? 4 : 0;
        }
    }
    return 5;
}

static void who_lacks_memory_is_no_stranger_to_his_group(void **state)
{
    (void)state;
    share(02770);
    assert_int_equal(as_member(open_without_memory), 0);
}

/* Root works in a file that a member has removed; so does the member himself,
 * who is refused the next one, as is root. */
static int remove_and_open(void)
{
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    if (unlink(path)) {
        return 3;
    }
    snib_err err = open_at(&p, path, &e);
    return err != SNIB_ERR_CONFIG ? 4 : !strstr(e.text, "removed") ? 5 : 0;
}

static void members_keep_each_other_out_of_a_new_file(void **state)
{
    (void)state;
    share(02770);
    open_peers(1);
    assert_int_equal(as_member(remove_and_open), 0);
    refused(path, SNIB_ERR_CONFIG, "removed or replaced while others");
    close_peer(0);
    open_peers(1);
    assert_true(self_of(0)->place.shared);
}

/* One who may not reach what lies in the group's directory is told why. */
static void who_is_not_in_the_group_is_told_so(void **state)
{
    int status;
    (void)state;
    share(02770);
    pid_t pid = fork();
    if (pid == 0) {
        struct peer p = {.client = {1, 2}};
        struct snib_error e = {0};
        if (setgroups(0, NULL) || setegid(NOBODY) || seteuid(NOBODY)) {
            _exit(2);
        }
        snib_err err = open_at(&p, path, &e);
        _exit(err == SNIB_ERR_CONFIG &&
                      strstr(e.text, "only members of its directory's group")
                  ? 0
                  : 3);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(it_is_made_for_one_user),
        CASE(directory_may_be_reached_by_a_link),
        CASE(odd_paths_are_refused_with_a_remedy),
        CASE(anothers_file_is_refused),
        CASE(read_only_directory_is_refused),
        CASE(network_file_systems_are_refused_by_name),
        CASE(what_is_refused_is_closed),
        CASE(it_is_made_for_the_group_whatever_the_umask),
        CASE(a_directory_that_others_may_read_is_no_groups),
        CASE(a_private_file_stays_private),
        CASE(what_a_group_does_not_share_like_this_is_refused),
        CASE(who_lacks_memory_is_no_stranger_to_his_group),
        CASE(members_keep_each_other_out_of_a_new_file),
        CASE(who_is_not_in_the_group_is_told_so),
    };
    return RUN(cases);
}
