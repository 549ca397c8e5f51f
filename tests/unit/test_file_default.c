/* tests/unit/test_file_default.c — the embedded store: which file is the
 * default, and that it changes only when nobody uses the one before.
 *
 * wraps: getgrgid_r getgrouplist getgroups __getgroups_chk getpwuid_r */
#include "file_store.h"

#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "snib.h"
#include "store/file/shared.h"

#define OWN    SNIB__FILE_OF_ROOT "/locks.db"
#define OF_ALL SNIB__FILE_OF_GROUP "/locks.db"
enum { GROUP = 54321, MEMBER = 1, CANNOT = 99 };

/* -- one's own ---------------------------------------------------------------------- */

static void default_path_does_not_ask_the_environment(void **state)
{
    char a[4096], b[4096];
    (void)state;
    assert_int_equal(snib__file_default_path(a, sizeof a, NULL), 0);
    setenv("HOME", "/nowhere", 1);
    setenv("XDG_STATE_HOME", "/nowhere", 1);
    setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
    assert_int_equal(snib__file_default_path(b, sizeof b, NULL), 0);
    assert_string_equal(a, b);
    if (geteuid() == 0) {
        assert_string_equal(a, "/var/lib/snib/locks.db");
    } else {
        assert_non_null(strstr(a, "/.local/state/snib/locks.db"));
    }
    assert_int_equal(snib__file_default_path(a, 4, NULL), SNIB_ERR_CONFIG);
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
    snib_err err = snib__file_default_path(a, sizeof a, &e);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(err, SNIB_ERR_OK);
    assert_string_equal(a, expected);
    assert_null(getpwuid(3999999));
    assert_int_equal(seteuid(3999999), 0);
    err = snib__file_default_path(a, sizeof a, &e);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(err, SNIB_ERR_CONFIG);
    assert_non_null(strstr(e.text, "no home directory for uid 3999999"));
}

/* -- a group's, after one's own ----------------------------------------------------- */

static bool make_shared(void)
{
    return mkdir(SNIB__FILE_OF_GROUP, 0700) == 0 &&
           chown(SNIB__FILE_OF_GROUP, 0, GROUP) == 0 &&
           chmod(SNIB__FILE_OF_GROUP, 02770) == 0;
}

static bool makes_under_lock; /* root makes the directory, just before */
static int makes_at_look; /* … at this look whether it is there, counted down */
static bool forks_under_lock; /* another thread does, just then */
static pid_t copy;

/* Like the next one. */
int lstat(const char *what, struct stat *st)
{
    if (makes_at_look && strcmp(what, SNIB__FILE_OF_GROUP) == 0 &&
        --makes_at_look == 0 && !make_shared()) {
        _exit(8);
    }
    return fstatat(AT_FDCWD, what, st, AT_SYMLINK_NOFOLLOW);
}

static int looks; /* at the own file */

/* In the place of libc's, for the whole program. */
int flock(int fd, int operation)
{
    struct stat own, st;
    if (makes_under_lock) {
        makes_under_lock = false;
        if (!make_shared()) {
            _exit(8);
        }
    }
    looks += stat(OWN, &own) == 0 && fstat(fd, &st) == 0 &&
             st.st_ino == own.st_ino && st.st_dev == own.st_dev;
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
        if (mkdir(SNIB__FILE_OF_ROOT, 0755) || !make_shared() ||
            mknod(OWN, S_IFREG | 0600, 0)) {
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

/* A process that uses the own file; or its child does, and it has ended. *ret:
 * the one that uses it. */
static pid_t begin_user(bool is_child, pid_t *ret)
{
    int ready[2];
    pid_t user = pipe(ready) ? -1 : fork();
    if (user == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = open(OWN, O_RDWR);
        pid_t child = flock(fd, LOCK_SH) ? -1 : is_child ? fork() : getpid();
        if (child > 0 && write(ready[1], &child, sizeof child) < 0) {
            _exit(1);
        }
        if (child <= 0 || !is_child) {
            pause();
        }
        _exit(0);
    }
    close(ready[1]);
    if (read(ready[0], ret, sizeof *ret) != sizeof *ret) {
        _exit(3);
    }
    close(ready[0]);
    siginfo_t info;
    if (is_child && waitid(P_PID, (id_t)user, &info, WEXITED | WNOWAIT)) {
        _exit(4);
    }
    return user;
}

static int use_and_ask(void)
{
    char a[4096], who[40];
    struct snib_error e = {0};
    pid_t user;
    if (snib__file_default_path(a, sizeof a, &e) || strcmp(a, OF_ALL) != 0) {
        return 2;
    }
    begin_user(false, &user);
    snprintf(who, sizeof who, "process %d still uses", (int)user);
    snib_err err = snib__file_default_path(a, sizeof a, &e);
    bool ok = says(err, &e, SNIB_ERR_CONFIG, who) &&
              strstr(e.text, "the lock file " OWN ",");
    kill(user, SIGKILL);
    waitpid(user, NULL, 0);
    e = (struct snib_error){0};
    err = snib__file_default_path(a, sizeof a, &e);
    return !ok ? 4 : err ? 5 : 0;
}

static void who_uses_the_own_file_is_named_and_waited_for(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(use_and_ask), 0);
}

/* What /proc/locks says is who took the lock, and that may be over. */
static int leave_to_child_and_ask(void)
{
    char a[4096], who[80];
    struct snib_error e = {0};
    pid_t child, parent = begin_user(true, &child);
    snprintf(who, sizeof who, "a child of the ended process %d still uses",
             (int)parent);
    snib_err err = snib__file_default_path(a, sizeof a, &e);
    kill(child, SIGKILL);
    return says(err, &e, SNIB_ERR_CONFIG, who) ? 0 : 2;
}

static void who_has_ended_is_not_named_as_the_user(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(leave_to_child_and_ask), 0);
}

/* Whoever names a file does not wait for those who use the default one. */
static int use_and_open_another(void)
{
    static const char *const paths[] = {"/var/lib/other.db", OWN, OF_ALL};
    char a[4096];
    pid_t user;
    snib__host_read(&host);
    begin_user(false, &user);
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct snib__place p;
        struct snib_error e = {0};
        looks = 0;
        snib_err err = snib__place_open(&p, paths[i], &host, &e);
        bool sole = !err && p.is_default && !p.shared;
        if (err || looks || sole) {
            print_error("%d, %d looks, %d: %s\n", (int)err, looks, sole,
                        e.text);
            return 2;
        }
        snib__place_close(&p, false);
    }
    bool told = snib__file_default_path(a, sizeof a, NULL) && looks > 1;
    kill(user, SIGKILL);
    return told ? 0 : 3;
}

static void who_names_another_file_does_not_wait_for_the_own_one(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(use_and_open_another), 0);
}

/* A look at the own file must not seem to be a use of it for as long as a child
 * lives that was forked meanwhile: all others would be refused. */
static int fork_and_look(void)
{
    char a[4096];
    struct snib_error e = {0};
    forks_under_lock = true;
    snib_err err = snib__file_default_path(a, sizeof a, &e);
    int fd = open(OWN, O_RDWR);
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

/* He had chosen his own file, and whoever comes now sees it in use by nobody:
 * before he has it in use, or even before he begins to open it. */
static int make_while_it_is_opened(void)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c = NULL;
    struct snib_error e = {0};
    unsetenv("SNIB_URL");
    for (int early = 0; early < 2; early++) {
        if (rmdir(SNIB__FILE_OF_GROUP)) {
            return 2;
        }
        makes_under_lock = !early;
        makes_at_look = early ? 2 : 0;
        snib_err err = snib_client_open(&o, &c, &e);
        if (makes_under_lock || makes_at_look ||
            !says(err, &e, SNIB_ERR_STORE,
                  "made while it was being opened; try")) {
            return 3;
        }
    }
    if (snib_client_open(&o, &c, &e) ||
        strcmp(snib_client_url(c), "file:" OF_ALL) != 0) {
        return 4;
    }
    snib_client_free(c);
    if (system("rm -rf " SNIB__FILE_OF_GROUP) || snib_client_open(&o, &c, &e) ||
        strcmp(snib_client_url(c), "file:" OWN) != 0) {
        return 5;
    }
    snib_client_free(c);
    return 0;
}

static void a_directory_that_is_made_during_the_opening_is_seen(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(make_while_it_is_opened), 0);
}

/* A client of another process, which says so by a byte. */
static pid_t begin_client(const char *url)
{
    int ready[2];
    char c;
    pid_t user = pipe(ready) ? -1 : fork();
    if (user == 0) {
        struct snib_client_options o = SNIB_INIT(snib_client_options);
        struct snib_client *client = NULL;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        o.url = url;
        if (snib_client_open(&o, &client, NULL) ||
            write(ready[1], "x", 1) != 1) {
            _exit(1);
        }
        pause();
    }
    close(ready[1]);
    if (user < 0 || read(ready[0], &c, 1) != 1) {
        _exit(3);
    }
    close(ready[0]);
    return user;
}

static int remove_and_ask(void)
{
    char a[4096], who[40];
    struct snib_error e = {0};
    pid_t user = begin_client("file:" OWN);
    snprintf(who, sizeof who, "process %d still uses", (int)user);
    if (unlink(OWN)) {
        return 2;
    }
    snib_err err = snib__file_default_path(a, sizeof a, &e);
    bool ok = says(err, &e, SNIB_ERR_CONFIG, who);
    if (mknod(OWN, S_IFREG | 0600, 0)) { /* another one at its path         */
        return 4;
    }
    err = snib__file_default_path(a, sizeof a, &e);
    ok = says(err, &e, SNIB_ERR_CONFIG, who) && ok;
    kill(user, SIGKILL);
    waitpid(user, NULL, 0);
    err = snib__file_default_path(a, sizeof a, &e);
    return !ok ? 5 : err || strcmp(a, OF_ALL) != 0 ? 6 : 0;
}

static void the_own_file_is_used_though_it_was_removed(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(remove_and_ask), 0);
}

/* Members would not come to it, and have files of their own without a word. */
static int close_the_top_and_ask(void)
{
    static const struct {
        mode_t mode;
        gid_t group;
        bool ok;
    } t[] = {{0700, 0, false},    {0750, 0, false},     {0751, 0, true},
             {0711, GROUP, true}, {0710, GROUP, true},  {0701, GROUP, false},
             {0750, GROUP, true}, {0700, GROUP, false}, {0755, 0, true}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char a[4096];
        struct snib_error e = {0};
        if (chown(SNIB__FILE_OF_ROOT, 0, t[i].group) ||
            chmod(SNIB__FILE_OF_ROOT, t[i].mode)) {
            return 2;
        }
        snib_err err = snib__file_default_path(a, sizeof a, &e);
        if (t[i].ok ? err : !says(err, &e, SNIB_ERR_CONFIG, "keeps members")) {
            print_error("%o of %d: %s\n", (unsigned)t[i].mode, (int)t[i].group,
                        e.text);
            return 3;
        }
    }
    return 0;
}

static void a_directory_that_members_do_not_reach_is_refused(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(close_the_top_and_ask), 0);
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
    snib_err err = snib__file_default_path(a, sizeof a, &e);
    return says(err, &e, SNIB_ERR_LIMIT, OWN " cannot be opened") &&
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
        snib__file_default_path(a, sizeof a, &e) || strcmp(a, OF_ALL) != 0 ||
        !leave_no_descriptor()) {
        return 2;
    }
    snib_err err = snib__file_default_path(a, sizeof a, &e);
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

/* -- who is listed, but not in ------------------------------------------------------ */

static int groups_fail,
    group_fails;       /* errno                                  */
static bool none_left; /* no descriptor, from there on           */

static int user_fails;       /* errno; EINTR: once                          */
static const char *home;     /* NULL: as it is in the database              */
static bool others_list_him; /* a source that /etc/group is not             */

int __real_getpwuid_r(uid_t, struct passwd *, char *, size_t, struct passwd **);
int __wrap_getpwuid_r(uid_t id, struct passwd *pw, char *reserve, size_t size,
                      struct passwd **ret);
int __wrap_getpwuid_r(uid_t id, struct passwd *pw, char *reserve, size_t size,
                      struct passwd **ret)
{
    *ret = NULL;
    int e = user_fails;
    if (e == EINTR) {
        user_fails = 0;
    }
    int rc = e ? e : __real_getpwuid_r(id, pw, reserve, size, ret);
    if (*ret && home) {
        pw->pw_dir = (char *)(uintptr_t)home;
    }
    return rc;
}

int __real_getgrouplist(const char *user, gid_t first, gid_t *ret, int *count);
int __wrap_getgrouplist(const char *user, gid_t first, gid_t *ret, int *count);
int __wrap_getgrouplist(const char *user, gid_t first, gid_t *ret, int *count)
{
    enum { ALL = 1000 };
    if (!others_list_him) {
        return __real_getgrouplist(user, first, ret, count);
    }
    int room = *count;
    *count = ALL;
    for (int i = 0; i < ALL && room >= ALL; i++) {
        ret[i] = i + 1 < ALL ? 100000u + (gid_t)i : GROUP;
    }
    return room < ALL ? -1 : ALL;
}

int __real_getgrgid_r(gid_t, struct group *, char *, size_t, struct group **);
int __wrap_getgrgid_r(gid_t id, struct group *gr, char *reserve, size_t size,
                      struct group **ret);
int __wrap_getgrgid_r(gid_t id, struct group *gr, char *reserve, size_t size,
                      struct group **ret)
{
    *ret = NULL;
    if (none_left && !leave_no_descriptor()) {
        _exit(9);
    }
    int e = group_fails;
    if (e == EINTR) { /* once */
        group_fails = 0;
    }
    return e ? e : __real_getgrgid_r(id, gr, reserve, size, ret);
}

int __real_getgroups(int size, gid_t *ret);
int __wrap_getgroups(int size, gid_t *ret);
int __wrap_getgroups(int size, gid_t *ret)
{
    if (groups_fail && size) {
        errno = groups_fail;
        return -1;
    }
    return __real_getgroups(size, ret);
}

int __wrap___getgroups_chk(int size, gid_t *ret, size_t reserve);
int __wrap___getgroups_chk(int size, gid_t *ret, size_t reserve)
{
    assert_true((size_t)size * sizeof *ret <= reserve);
    return __wrap_getgroups(size, ret);
}

/* The group database of this host: GROUP has this many members before ours. */
static bool list_member(int before)
{
    struct passwd *member = getpwuid(MEMBER);
    FILE *f = fopen("/var/lib/group", "w");
    if (!member || !f) {
        return false;
    }
    fprintf(f, "snibs:x:%d:", GROUP);
    for (int i = 0; i < before; i++) {
        fprintf(f, "member%05d,", i);
    }
    fprintf(f, "%s\n", member->pw_name);
    return fclose(f) == 0 && chmod("/var/lib/group", 0644) == 0 &&
           mount("/var/lib/group", "/etc/group", NULL, MS_BIND, NULL) == 0;
}

/* This process is in no group but his, or in another one besides. */
static bool be_member(gid_t besides)
{
    getgrgid(
        3999999); /* all sources are loaded                               */
    getpwuid(3999999);
    return setgroups(besides != 0, &besides) == 0 && setegid(MEMBER) == 0 &&
           seteuid(MEMBER) == 0;
}

static int ask_as_listed(void)
{
    static const int before[] = {0, 1500, 20000};
    for (size_t i = 0; i < COUNT_OF(before); i++) {
        char a[4096];
        struct snib_error e = {0};
        if (!list_member(before[i]) || !be_member(0)) {
            return 2;
        }
        group_fails = EINTR;
        snib_err err = snib__file_default_path(a, sizeof a, &e);
        if (!says(err, &e, SNIB_ERR_CONFIG, "log in anew")) {
            return 3;
        }
        if (seteuid(0) || umount("/etc/group")) {
            return 4;
        }
    }
    return 0;
}

static void a_group_of_many_members_is_read_to_its_end(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(ask_as_listed), 0);
}

static int ask_what_fails(void)
{
    char a[4096];
    struct snib_error e = {0};
    if (!list_member(0) || !be_member(77)) {
        return 2;
    }
    group_fails = EIO;
    snib_err err = snib__file_default_path(a, sizeof a, &e);
    if (!says(err, &e, SNIB_ERR_STORE, "group 54321, which shares")) {
        return 3;
    }
    group_fails = ERANGE; /* however much room there is */
    err = snib__file_default_path(a, sizeof a, &e);
    if (!says(err, &e, SNIB_ERR_CONFIG, "cannot be told")) {
        return 4;
    }
    group_fails = ENOENT; /* which means that there is no such group */
    err = snib__file_default_path(a, sizeof a, &e);
    if ((err && strstr(e.text, "cannot be told")) || groups_fail) {
        return 5;
    }
    groups_fail = EINVAL;
    err = snib__file_default_path(a, sizeof a, &e);
    if (!says(err, &e, SNIB_ERR_CONFIG, "the groups of this process")) {
        return 6;
    }
    groups_fail = 0;
    group_fails = 0;
    none_left = true;
    err = snib__file_default_path(a, sizeof a, &e);
    return says(err, &e, SNIB_ERR_LIMIT, "the group database cannot be opened")
               ? 0
               : 7;
}

static void who_cannot_be_looked_up_is_not_taken_for_a_stranger(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(ask_what_fails), 0);
}

/* The database lists nobody in the group that he has from the start. */
static int ask_without_the_own_group(void)
{
    struct passwd *pw = getpwuid(MEMBER);
    char a[4096];
    struct snib_error e = {0};
    if (!pw || chown(SNIB__FILE_OF_GROUP, 0, pw->pw_gid) ||
        chmod(SNIB__FILE_OF_GROUP, 02770) || setgroups(0, NULL) ||
        setegid(GROUP) || seteuid(MEMBER)) {
        return 2;
    }
    snib_err err = snib__file_default_path(a, sizeof a, &e);
    return says(err, &e, SNIB_ERR_CONFIG, "but this process is not") ? 0 : 3;
}

static void a_users_own_group_is_one_that_he_is_in(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(ask_without_the_own_group), 0);
}

/* A directory service may leave out of a group's entry who is in it. */
static int ask_as_listed_elsewhere(void)
{
    char a[4096];
    struct snib_error e = {0};
    if (!be_member(0)) {
        return 2;
    }
    others_list_him = true;
    snib_err err = snib__file_default_path(a, sizeof a, &e);
    if (!says(err, &e, SNIB_ERR_CONFIG, "log in anew")) {
        return 3;
    }
    others_list_him = false;
    err = snib__file_default_path(a, sizeof a, &e);
    return err || strstr(a, "/shared/") ? 4 : 0;
}

static void who_is_listed_by_his_own_entry_alone_is_a_member(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(ask_as_listed_elsewhere), 0);
}

/* -- the own file of a member -------------------------------------------------------- */

static int ask_where_the_own_file_is(void)
{
    static const struct {
        int fails;
        snib_err err;
        const char *says;
    } t[] = {{EIO, SNIB_ERR_STORE, "still uses a lock file of its own cannot"},
             {ERANGE, SNIB_ERR_CONFIG, "cannot be told"},
             {EACCES, SNIB_ERR_CONFIG, "cannot be told"},
             {EMFILE, SNIB_ERR_LIMIT, "the password database"},
             {ENOENT, SNIB_ERR_OK, ""},
             {ESRCH, SNIB_ERR_OK, ""},
             {EINTR, SNIB_ERR_OK, ""}};
    if (!be_member(GROUP)) {
        return 2;
    }
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char a[4096] = "";
        struct snib_error e = {0};
        user_fails = t[i].fails;
        snib_err err = snib__file_default_path(a, sizeof a, &e);
        if (t[i].err ? !says(err, &e, t[i].err, t[i].says)
                     : err || strcmp(a, OF_ALL) != 0) {
            print_error("with %d: %d %s\n", t[i].fails, (int)err, a);
            return 3;
        }
    }
    return 0;
}

static void a_user_who_cannot_be_looked_up_may_have_a_file(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(ask_where_the_own_file_is), 0);
}

/* A loop of links says nothing of what is behind it; that there is nothing, or
 * that this user never comes there, does. */
static int ask_for_odd_homes(void)
{
    static const struct {
        const char *home;
        bool ok;
    } t[] = {{"/var/lib/loop", false},
             {"/var/lib/none", true},
             {"/var/lib/file", true},
             {"/var/lib/hidden", true}};
    if (symlink("loop", "/var/lib/loop") ||
        mknod("/var/lib/file", S_IFREG | 0644, 0) ||
        mkdir("/var/lib/hidden", 0) || !be_member(GROUP)) {
        return 2;
    }
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char a[4096] = "";
        struct snib_error e = {0};
        home = t[i].home;
        snib_err err = snib__file_default_path(a, sizeof a, &e);
        if (t[i].ok ? err || strcmp(a, OF_ALL) != 0
                    : !says(err, &e, SNIB_ERR_CONFIG, "cannot be told")) {
            print_error("at %s: %d %s %s\n", home, (int)err, a, e.text);
            return 3;
        }
    }
    return 0;
}

static void an_own_file_that_cannot_be_looked_at_is_not_unused(void **state)
{
    (void)state;
    assert_int_equal(on_a_host(ask_for_odd_homes), 0);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(default_path_does_not_ask_the_environment),
        cmocka_unit_test(default_path_is_that_of_the_effective_user),
        cmocka_unit_test(who_uses_the_own_file_is_named_and_waited_for),
        cmocka_unit_test(who_has_ended_is_not_named_as_the_user),
        cmocka_unit_test(who_names_another_file_does_not_wait_for_the_own_one),
        cmocka_unit_test(a_childs_copy_does_not_keep_the_look_at_the_own_file),
        cmocka_unit_test(
            without_a_descriptor_the_own_file_is_not_taken_for_unused),
        cmocka_unit_test(
            without_a_descriptor_the_own_file_is_not_taken_for_none),
        cmocka_unit_test(a_group_of_many_members_is_read_to_its_end),
        cmocka_unit_test(who_cannot_be_looked_up_is_not_taken_for_a_stranger),
        cmocka_unit_test(a_users_own_group_is_one_that_he_is_in),
        cmocka_unit_test(who_is_listed_by_his_own_entry_alone_is_a_member),
        cmocka_unit_test(a_user_who_cannot_be_looked_up_may_have_a_file),
        cmocka_unit_test(an_own_file_that_cannot_be_looked_at_is_not_unused),
        cmocka_unit_test(a_directory_that_is_made_during_the_opening_is_seen),
        cmocka_unit_test(the_own_file_is_used_though_it_was_removed),
        cmocka_unit_test(a_directory_that_members_do_not_reach_is_refused),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
