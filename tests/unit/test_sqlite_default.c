/* tests/unit/test_sqlite_default.c — the embedded store: which file is the
 * default, and that it changes only when nobody uses the one before. */
#include "sqlite_store.h"

#include <grp.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define OWN    SNIB__SQLITE_OF_ROOT "/locks.db"
#define OF_ALL SNIB__SQLITE_OF_GROUP "/locks.db"
enum { GROUP = 54321, MEMBER = 1, CANNOT = 99 };

/* -- one's own ---------------------------------------------------------------------- */

static void default_path_does_not_ask_the_environment(void **state)
{
    char a[4096], b[4096];
    (void)state;
    assert_int_equal(snib__sqlite_default_path(a, sizeof a, NULL), 0);
    setenv("HOME", "/nowhere", 1);
    setenv("XDG_STATE_HOME", "/nowhere", 1);
    setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
    assert_int_equal(snib__sqlite_default_path(b, sizeof b, NULL), 0);
    assert_string_equal(a, b);
    if (geteuid() == 0) {
        assert_string_equal(a, "/var/lib/snib/locks.db");
    } else {
        assert_non_null(strstr(a, "/.local/state/snib/locks.db"));
    }
    assert_int_equal(snib__sqlite_default_path(a, 4, NULL), SNIB_ERR_CONFIG);
}

/* The user's home is what the password database says, whoever started it. */
static void default_path_is_that_of_the_effective_user(void **state)
{
    struct passwd *nobody = getpwnam("nobody");
    char a[4096], expected[4096];
    struct snib_error e;
    (void)state;
    if (geteuid() != 0 || !nobody) {
        return; /* whose own path it is, says the case before */
    }
    snprintf(expected, sizeof expected, "%s/.local/state/snib/locks.db",
             nobody->pw_dir);
    assert_int_equal(seteuid(nobody->pw_uid), 0);
    snib_err err = snib__sqlite_default_path(a, sizeof a, &e);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(err, SNIB_ERR_OK);
    assert_string_equal(a, expected);
    assert_null(getpwuid(3999999));
    assert_int_equal(seteuid(3999999), 0);
    err = snib__sqlite_default_path(a, sizeof a, &e);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(err, SNIB_ERR_CONFIG);
    assert_non_null(strstr(e.text, "no home directory for uid 3999999"));
}

/* -- a group's, after one's own ----------------------------------------------------- */

static bool forks_under_lock; /* another thread does, just then */
static pid_t copy;

/* In the place of libc's, for the whole program. */
int flock(int fd, int operation)
{
    int rc = (int)syscall(SYS_flock, fd, operation);
    if (rc == 0 && forks_under_lock && (operation & LOCK_EX)) {
        forks_under_lock = false;
        copy = fork();
        while (copy == 0) { /* it has the descriptor as long as it lives */
            pause();
        }
    }
    return rc;
}

/* A child on a host of its own, on which root has just made the directory for
 * GROUP; it has used the own file before. What the body returns. */
static int on_a_host(int (*body)(void))
{
    int status;
    if (geteuid() != 0) {
        print_message("skipped: needs root to make a host's directories\n");
        skip();
    }
    pid_t pid = fork();
    if (pid == 0) {
        bool made = unshare(CLONE_NEWNS) == 0 &&
                    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                    mount("none", "/var/lib", "tmpfs", 0, "mode=755") == 0;
        if (!made) {
            _exit(CANNOT);
        }
        umask(0);
        if (mkdir(SNIB__SQLITE_OF_ROOT, 0755) ||
            mkdir(SNIB__SQLITE_OF_GROUP, 0700) ||
            chown(SNIB__SQLITE_OF_GROUP, 0, GROUP) ||
            chmod(SNIB__SQLITE_OF_GROUP, 02770) || mkdir(OWN "-bells", 0700)) {
            _exit(1);
        }
        _exit(body());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CANNOT) {
        print_message("skipped: needs root to make a host's directories\n");
        skip();
    }
    return WEXITSTATUS(status);
}

static bool says(snib_err err, const struct snib_error *e, snib_err expected,
                 const char *text)
{
    bool ok = err == expected && e->code == expected && strstr(e->text, text);
    if (!ok) {
        print_error("%d, %s\n", (int)err, e->text);
    }
    return ok;
}

static int use_and_ask(void)
{
    char a[4096], who[40];
    struct snib_error e = {0};
    int ready[2];
    char c;
    if (snib__sqlite_default_path(a, sizeof a, &e) || strcmp(a, OF_ALL) != 0) {
        return 2;
    }
    pid_t user = pipe(ready) ? -1 : fork();
    if (user == 0) {
        int fd = open(OWN "-bells", O_RDONLY | O_DIRECTORY);
        if (flock(fd, LOCK_SH) || write(ready[1], "", 1) != 1) {
            _exit(1);
        }
        pause();
    }
    close(ready[1]);
    if (read(ready[0], &c, 1) != 1) {
        return 3;
    }
    snprintf(who, sizeof who, "process %d still uses", (int)user);
    snib_err err = snib__sqlite_default_path(a, sizeof a, &e);
    bool ok = says(err, &e, SNIB_ERR_CONFIG, who) &&
              strstr(e.text, "the lock file " OWN ",");
    kill(user, SIGKILL);
    waitpid(user, NULL, 0);
    e = (struct snib_error){0};
    err = snib__sqlite_default_path(a, sizeof a, &e);
    return !ok ? 4 : err ? 5 : 0;
}

static void who_uses_the_own_file_is_named_and_waited_for(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(use_and_ask), 0);
}

/* A look at the own file must not seem to be a use of it for as long as a child
 * lives that was forked meanwhile: all others would be refused. */
static int fork_and_look(void)
{
    char a[4096];
    struct snib_error e = {0};
    forks_under_lock = true;
    snib_err err = snib__sqlite_default_path(a, sizeof a, &e);
    int fd = open(OWN "-bells", O_RDONLY | O_DIRECTORY);
    bool is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    bool forked = !forks_under_lock && copy > 0;
    if (forked) {
        kill(copy, SIGKILL);
        waitpid(copy, NULL, 0);
    }
    return err ? 2 : !forked ? 3 : !is_free ? 4 : 0;
}

static void a_childs_copy_does_not_keep_the_look_at_the_own_file(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(fork_and_look), 0);
}

static bool leave_no_descriptor(void)
{
    struct rlimit limit;
    int fd = open("/", O_PATH); /* the next one */
    if (fd < 0 || close(fd) || getrlimit(RLIMIT_NOFILE, &limit)) {
        return false;
    }
    limit.rlim_cur = (rlim_t)fd;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* Whether somebody is there cannot be seen: that is not "nobody". */
static int ask_without_descriptors(void)
{
    char a[4096];
    struct snib_error e = {0};
    if (!leave_no_descriptor()) {
        return 2;
    }
    snib_err err = snib__sqlite_default_path(a, sizeof a, &e);
    return says(err, &e, SNIB_ERR_LIMIT, OWN "-bells cannot be opened") &&
                   strstr(e.text, "ulimit -n")
               ? 0
               : 3;
}

static void
without_a_descriptor_the_own_file_is_not_taken_for_unused(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(ask_without_descriptors), 0);
}

/* Nor is one whose place is not known. An unknown user has been looked up before,
 * so that all sources of the password database are loaded. */
static int ask_as_member_without_descriptors(void)
{
    gid_t group = GROUP;
    char a[4096];
    struct snib_error e = {0};
    getpwuid(3999999);
    if (setgroups(1, &group) || setegid(MEMBER) || seteuid(MEMBER) ||
        snib__sqlite_default_path(a, sizeof a, &e) || strcmp(a, OF_ALL) != 0 ||
        !leave_no_descriptor()) {
        return 2;
    }
    snib_err err = snib__sqlite_default_path(a, sizeof a, &e);
    return says(err, &e, SNIB_ERR_LIMIT,
                "the password database cannot be opened")
               ? 0
               : 3;
}

static void
without_a_descriptor_the_own_file_is_not_taken_for_none(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(ask_as_member_without_descriptors), 0);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(default_path_does_not_ask_the_environment),
        cmocka_unit_test(default_path_is_that_of_the_effective_user),
        cmocka_unit_test(who_uses_the_own_file_is_named_and_waited_for),
        cmocka_unit_test(a_childs_copy_does_not_keep_the_look_at_the_own_file),
        cmocka_unit_test(
            without_a_descriptor_the_own_file_is_not_taken_for_unused),
        cmocka_unit_test(
            without_a_descriptor_the_own_file_is_not_taken_for_none),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
