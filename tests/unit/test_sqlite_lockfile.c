/* tests/unit/test_sqlite_lockfile.c — the embedded store: which files it takes, and
 * what becomes of them.
 *
 * wraps: statx */
#include <grp.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "fds.h"
#include "sqlite_store.h"

/* -- the place ------------------------------------------------------------------ */

static void file_is_made_private_with_its_bells(void **state)
{
    struct stat st;
    char notifiers[160];
    (void)state;
    open_peers(1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    snprintf(notifiers, sizeof notifiers, "%s-bells", path);
    assert_int_equal(stat(notifiers, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void symbolic_link_is_refused(void **state)
{
    char target[160];
    (void)state;
    snprintf(target, sizeof target, "%s/real.db", dir);
    assert_int_equal(symlink(target, path), 0);
    refused(path, SNIB_ERR_CONFIG, "symbolic link");
    assert_int_equal(access(target, F_OK), -1);
}

static void second_hard_link_is_refused(void **state)
{
    char other[160];
    (void)state;
    open_peers(1);
    close_peer(0);
    snprintf(other, sizeof other, "%s/other.db", dir);
    assert_int_equal(link(path, other), 0);
    refused(other, SNIB_ERR_CONFIG, "hard link");
}

/* As a container is given a file: it has another -wal there. */
static void a_file_that_is_mounted_by_itself_is_refused(void **state)
{
    char other[160], notifiers[170];
    (void)state;
    open_peers(1);
    close_peer(0);
    snprintf(other, sizeof other, "%s/other.db", dir);
    int fd = open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    close(fd);
    if (geteuid() != 0 || mount(path, other, NULL, MS_BIND, NULL) != 0) {
        print_message("skipped: needs root to mount a file\n");
        skip();
    }
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    snib_err err = open_at(&p, other, &e);
    umount2(other, MNT_DETACH);
    assert_int_equal(err, SNIB_ERR_CONFIG);
    assert_non_null(strstr(e.text, "other.db is mounted by itself"));
    assert_non_null(
        strstr(e.text, "mount its directory instead, or name another"));
    snprintf(notifiers, sizeof notifiers, "%s-bells", other);
    assert_int_equal(access(notifiers, F_OK), -1);
    assert_int_equal(mount(dir, dir, NULL, MS_BIND, NULL), 0);
    err = open_at(&p, path, &e); /* the directory may be */
    umount2(dir, MNT_DETACH);
    assert_int_equal(err, SNIB_ERR_OK);
    kit.ops->free(p.inst);
}

static int
    statx_fails; /* errno                                               */
static uint64_t statx_knows = ~UINT64_C(0);

int __real_statx(int at, const char *name, int flags, unsigned mask,
                 struct statx *ret);
int __wrap_statx(int at, const char *name, int flags, unsigned mask,
                 struct statx *ret);
int __wrap_statx(int at, const char *name, int flags, unsigned mask,
                 struct statx *ret)
{
    if (statx_fails) {
        errno = statx_fails;
        return -1;
    }
    int rc = __real_statx(at, name, flags, mask, ret);
    if (!statx_knows) { /* a kernel before 5.8, and its bits are no answer */
        ret->stx_attributes = ~UINT64_C(0);
        ret->stx_attributes_mask = 0;
    }
    return rc;
}

static void who_cannot_ask_for_mounts_goes_on(void **state)
{
    static const int errors[] = {0, EPERM, ENOSYS};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        struct peer p = {.client = {1, 2}};
        statx_fails = errors[i];
        statx_knows = 0;
        snib_err err = open_at(&p, path, NULL);
        statx_fails = 0;
        statx_knows = ~UINT64_C(0);
        assert_int_equal(err, SNIB_ERR_OK);
        kit.ops->free(p.inst);
    }
    statx_fails = ENOMEM;
    refused(path, SNIB_ERR_NOMEM, "");
    statx_fails = EACCES;
    refused(path, SNIB_ERR_CONFIG, "name another: sqlite:PATH");
    statx_fails = 0;
}

static void directory_may_be_reached_by_a_link(void **state)
{
    char link[80], where[120];
    (void)state;
    snprintf(link, sizeof link, "%s-link", dir);
    assert_int_equal(symlink(dir, link), 0);
    snprintf(where, sizeof where, "%s/locks.db", link);
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    assert_int_equal(open_at(&p, where, &e), SNIB_ERR_OK);
    assert_string_equal(((struct snib__sqlite *)p.inst)->lockfile.path, path);
    kit.ops->free(p.inst);
    unlink(link);
}

static void odd_paths_are_refused_with_a_remedy(void **state)
{
    char where[160];
    (void)state;
    snprintf(where, sizeof where, "%s/", dir);
    refused(where, SNIB_ERR_CONFIG, "does not name a file");
    snprintf(where, sizeof where, "%s/no/locks.db", dir);
    refused(where, SNIB_ERR_CONFIG, "name another: sqlite:PATH");
    assert_int_equal(mkdir(path, 0700), 0);
    refused(path, SNIB_ERR_CONFIG, "not a regular file");
}

/* "Not in the group" would be another file, or one that shuts the others out. */
static int open_without_memory(gid_t group)
{
    enum { MEMBER_OF = 65 };
    gid_t groups[MEMBER_OF];
    for (int i = 0; i < MEMBER_OF; i++) {
        groups[i] = group - (gid_t)i;
    }
    if (setgroups(MEMBER_OF, groups) || setegid(65534) || seteuid(65534)) {
        return 2;
    }
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
    if (geteuid() != 0) {
        print_message("skipped: needs root to make another's file\n");
        skip();
    }
    assert_int_equal(chown(dir, 0, 4242), 0);
    assert_int_equal(chmod(dir, 02770), 0);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(open_without_memory(4242));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void a_files_name_has_at_most_200_bytes(void **state)
{
    char where[300];
    (void)state;
    int n = snprintf(where, sizeof where, "%s/%0200d", dir, 7);
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    assert_int_equal(open_at(&p, where, &e), SNIB_ERR_OK);
    kit.ops->free(p.inst);
    memcpy(where + n, "x", 2);
    refused(where, SNIB_ERR_CONFIG, "name has 201 bytes; at most 200");
    snprintf(where, sizeof where, "%s/.", dir);
    refused(where, SNIB_ERR_CONFIG, "does not name a file");
    snprintf(where, sizeof where, "%s/..", dir);
    refused(where, SNIB_ERR_CONFIG, "does not name a file");
}

/* Not that it is not there: nothing is known of it then. */
static void a_file_that_cannot_be_looked_at_is_told(void **state)
{
    struct snib_error e = {0};
    (void)state;
    struct snib__lockfile p = {.dir = -1,
                               .notifiers = -1,
                               .path = (char *)"/gone/locks.db",
                               .base = "locks.db",
                               .notifiers_path =
                                   (char *)"/gone/locks.db-bells"};
    assert_int_equal(snib__files_join(&p, SNIB__NEVER, &e), SNIB_ERR_CONFIG);
    assert_string_equal(e.text,
                        "lock file /gone/locks.db: Bad file descriptor");
}

static void anothers_file_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: needs root to make another's file\n");
        skip();
    }
    open_peers(1);
    close_peer(0);
    assert_int_equal(chown(path, 65534, 65534), 0);
    refused(path, SNIB_ERR_CONFIG, "another user");
    refused(path, SNIB_ERR_CONFIG, "each user has a file of his own");
}

static void open_bells_directory_is_refused(void **state)
{
    char notifiers[160];
    (void)state;
    snprintf(notifiers, sizeof notifiers, "%s-bells", path);
    assert_int_equal(mkdir(notifiers, 0777), 0);
    assert_int_equal(chmod(notifiers, 0777), 0);
    refused(path, SNIB_ERR_CONFIG, "0700");
}

static int as_nobody(void (*body)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (setgid(65534) || setuid(65534)) {
            _exit(9);
        }
        body();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static void try_read_only(void)
{
    struct peer p = {.client = {1, 2}};
    struct snib_error e = {0};
    snib_err err = open_at(&p, path, &e);
    if (err != SNIB_ERR_CONFIG ||
        !strstr(e.text, "name another: sqlite:PATH")) {
        dprintf(2, "%d %s\n", (int)err, e.text);
        _exit(1);
    }
}

static void read_only_directory_is_refused(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        assert_int_equal(chmod(dir, 0555), 0);
        assert_int_equal(as_nobody(try_read_only), 0);
    } else {
        assert_int_equal(chmod(dir, 0555), 0);
        refused(path, SNIB_ERR_CONFIG, "name another: sqlite:PATH");
    }
    chmod(dir, 0700);
}

static void network_file_systems_are_refused_by_name(void **state)
{
    static const struct {
        uint32_t magic;
        const char *name;
    } bad[] = {{0x6969, "NFS"},
               {0xff534d42, "CIFS"},
               {0x65735546, "FUSE"},
               {0x01021997, "9p"},
               {0x12345678, "type 0x12345678"}};
    static const uint32_t good[] = {0xef53,     0x58465342, 0x9123683e,
                                    0xf2f52010, 0x2fc12fc1, 0x01021994,
                                    0x794c7630};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        host.fs_magic = bad[i].magic;
        refused(path, SNIB_ERR_CONFIG, bad[i].name);
        refused(path, SNIB_ERR_CONFIG, "name another: sqlite:PATH");
    }
    assert_int_equal(access(path, F_OK), -1); /* nothing was made there */
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct peer p = {.client = {1, 2}};
        host.fs_magic = good[i];
        assert_int_equal(open_at(&p, path, NULL), SNIB_ERR_OK);
        kit.ops->free(p.inst);
    }
}

static void file_systems_of_the_kernel_are_refused_by_name(void **state)
{
    static const struct {
        uint32_t magic;
        const char *says;
    } bad[] = {{0x9fa0, "lies on proc, where no file can be made; put"},
               {0x62656572, "lies on sysfs, where no file can be made; put"}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        host.fs_magic = bad[i].magic;
        refused(path, SNIB_ERR_CONFIG, bad[i].says);
        refused(path, SNIB_ERR_CONFIG, "name another: sqlite:PATH");
    }
    assert_int_equal(access(path, F_OK), -1);
}

static void time_namespace_and_missing_boot_id_are_refused(void **state)
{
    (void)state;
    host.timens = true;
    refused(path, SNIB_ERR_CONFIG, "time namespace");
    host.timens = false;
    host.boot[0] = 0;
    refused(path, SNIB_ERR_CONFIG, "boot_id");
}

/* -- the file ---------------------------------------------------------------------- */

static void foreign_database_is_left_as_it_is(void **state)
{
    struct stat before, after;
    (void)state;
    sql("CREATE TABLE meta(a, b); INSERT INTO meta VALUES(1, 2)");
    assert_int_equal(stat(path, &before), 0);
    refused(path, SNIB_ERR_CONFIG, "another program");
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(before.st_mtime, after.st_mtime);
}

static void text_file_is_refused(void **state)
{
    char text[4096];
    (void)state;
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    memset(text, 'x', sizeof text);
    assert_int_equal(write(fd, text, sizeof text), sizeof text);
    close(fd);
    refused(path, SNIB_ERR_CONFIG, "not a lock file");
}

static void newer_schema_is_refused(void **state)
{
    (void)state;
    open_peers(1);
    close_peer(0);
    sql("UPDATE meta SET value = 99 WHERE key = 'snib'");
    refused(path, SNIB_ERR_CONFIG, "schema 99");
}

static void what_is_refused_is_closed(void **state)
{
    (void)state;
    open_peers(1);
    close_peer(0);
    sql("UPDATE meta SET value = 99 WHERE key = 'snib'");
    int before = open_now();
    for (int i = 0; i < 3; i++) {
        refused(path, SNIB_ERR_CONFIG, "schema 99");
    }
    assert_int_equal(open_now(), before);
}

static void damage_is_reported_as_corrupt(void **state)
{
    struct snib__name n = name_of("damage");
    (void)state;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(a.said.answer, SNIB__DONE);
    sql("DROP TABLE lock");
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__NOT_APPLIED);
    assert_int_equal(v.said.err, SNIB_ERR_CORRUPT);
}

static void removed_file_is_noticed(void **state)
{
    struct snib__name n = name_of("moved");
    (void)state;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(unlink(path), 0);
    struct snib__request v = turn_into(&a, SNIB__RENEW);
    assert_int_equal(run(0, &v), SNIB__NOT_APPLIED);
    assert_int_equal(v.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(v.said.reterr->text, "removed or replaced"));
}

/* What failed is named, not what the connection did well after it. */
static void a_damage_is_not_called_no_error(void **state)
{
    struct snib_error e = {0};
    (void)state;
    open_peers(1);
    assert_int_equal(snib__db_fail(&self_of(0)->db, SQLITE_CORRUPT, path, &e),
                     SNIB_ERR_CORRUPT);
    assert_null(strstr(e.text, "not an error"));
    assert_non_null(strstr(e.text, "malformed"));
}

/* Any number may stand in the file: with this one a reader was lost from the
 * count, and a writer was let in beside it. */
static void numbers_out_of_range_do_not_carry_sums_over(void **state)
{
    struct snib__name n = name_of("n");
    (void)state;
    open_peers(2);
    sql("INSERT INTO lock(name, token, shares) "
        "VALUES(CAST('n' AS BLOB), 1, 9223372036854775807)");
    struct snib__request r = ask(0, &n, SNIB_KIND_READ);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(attempt(1, &n, SNIB_KIND_WRITE).said.answer, SNIB__NO);
    assert_int_equal(end(0, &r), SNIB__DONE);
    sql("INSERT INTO claim(name, request, client, kind, permits, holds, state, "
        "lease, until, delay, rank) VALUES(CAST('n' AS BLOB), x'00', x'00', 1, "
        "1, 1, 5, -9223372036854775807, -9223372036854775807, "
        "-9223372036854775807, 0); UPDATE lock SET shares = 1");
    assert_int_equal(look(0, &n, SNIB__ROW_HOLDER, NULL), 0);
    assert_int_equal(attempt(1, &n, SNIB_KIND_WRITE).said.answer, SNIB__DONE);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(file_is_made_private_with_its_bells),
        CASE(symbolic_link_is_refused),
        CASE(second_hard_link_is_refused),
        CASE(a_file_that_is_mounted_by_itself_is_refused),
        CASE(who_cannot_ask_for_mounts_goes_on),
        CASE(directory_may_be_reached_by_a_link),
        CASE(odd_paths_are_refused_with_a_remedy),
        CASE(who_lacks_memory_is_no_stranger_to_his_group),
        CASE(a_files_name_has_at_most_200_bytes),
        CASE(a_file_that_cannot_be_looked_at_is_told),
        CASE(anothers_file_is_refused),
        CASE(open_bells_directory_is_refused),
        CASE(read_only_directory_is_refused),
        CASE(network_file_systems_are_refused_by_name),
        CASE(file_systems_of_the_kernel_are_refused_by_name),
        CASE(time_namespace_and_missing_boot_id_are_refused),
        CASE(foreign_database_is_left_as_it_is),
        CASE(text_file_is_refused),
        CASE(newer_schema_is_refused),
        CASE(what_is_refused_is_closed),
        CASE(damage_is_reported_as_corrupt),
        CASE(removed_file_is_noticed),
        CASE(a_damage_is_not_called_no_error),
        CASE(numbers_out_of_range_do_not_carry_sums_over),
    };
    return RUN(cases);
}
