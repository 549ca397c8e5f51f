/* tests/unit/test_sqlite_open.c — each call with which a lock file is opened
 * fails once: that is told, no descriptor, memory or lock stays, what the file
 * has is as it was, and the next one opens it.
 * wraps: openat fstatat flock symlinkat renameat sqlite3_exec sqlite3_step */
#include "fds.h"
#include "sqlite_store.h"

#include <dirent.h>
#include <sys/file.h>

static int taken, fails_at, fails_with;
static int failed_at; /* to be told                                          */
static int inside;    /* SQLite, which may call itself                       */

/* This call is the one that fails. */
static bool fails(void)
{
    if (++taken != fails_at) {
        return false;
    }
    errno = fails_with;
    return true;
}

int __real_openat(int dir_fd, const char *name, int flags, ...);
int __wrap_openat(int dir_fd, const char *name, int flags, ...);
int __real_fstatat(int dir_fd, const char *name, struct stat *st, int flags);
int __wrap_fstatat(int dir_fd, const char *name, struct stat *st, int flags);
int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how);
int __real_symlinkat(const char *text, int dir_fd, const char *name);
int __wrap_symlinkat(const char *text, int dir_fd, const char *name);
int __real_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __real_sqlite3_exec(sqlite3 *db, const char *text,
                        int (*row)(void *, int, char **, char **), void *data,
                        char **why);
int __wrap_sqlite3_exec(sqlite3 *db, const char *text,
                        int (*row)(void *, int, char **, char **), void *data,
                        char **why);
int __real_sqlite3_step(sqlite3_stmt *st);
int __wrap_sqlite3_step(sqlite3_stmt *st);

int __wrap_openat(int dir_fd, const char *name, int flags, ...)
{
    return fails() ? -1 : __real_openat(dir_fd, name, flags, 0);
}

int __wrap_fstatat(int dir_fd, const char *name, struct stat *st, int flags)
{
    return fails() ? -1 : __real_fstatat(dir_fd, name, st, flags);
}

int __wrap_flock(int fd, int how)
{
    return how != LOCK_UN && fails() ? -1 : __real_flock(fd, how);
}

int __wrap_symlinkat(const char *text, int dir_fd, const char *name)
{
    return fails() ? -1 : __real_symlinkat(text, dir_fd, name);
}

int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return fails() ? -1 : __real_renameat(from_fd, from, to_fd, to);
}

int __wrap_sqlite3_exec(sqlite3 *db, const char *text,
                        int (*row)(void *, int, char **, char **), void *data,
                        char **why)
{
    if (strncmp(text, "SELECT", 6) != 0 && fails()) { /* not SQLite's own */
        return SQLITE_IOERR;
    }
    inside++;
    int rc = __real_sqlite3_exec(db, text, row, data, why);
    inside--;
    return rc;
}

int __wrap_sqlite3_step(sqlite3_stmt *st)
{
    const char *text = sqlite3_sql(st) ? sqlite3_sql(st) : "";
    bool ends = strcmp(text, "ROLLBACK") == 0; /* whatever it says */
    return !inside && !ends && fails() ? SQLITE_IOERR : __real_sqlite3_step(st);
}

/* In the place of libc's, for the whole program: nobody pulls the plug here,
 * and hundreds of new files would wait for the disk. */
int fsync(int fd)
{
    (void)fd;
    return 0;
}

int fdatasync(int fd)
{
    (void)fd;
    return 0;
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
    left();
    sql("UPDATE meta SET value = 'another' WHERE key = 'boot'");
}

static void without_a_note(void)
{
    char note[160];
    left();
    snprintf(note, sizeof note, "%s-bells/files", path);
    assert_int_equal(unlink(note), 0);
}

/* SQLite keeps the descriptor of one that was closed beside it, for the next. */
static void in_use(void)
{
    struct peer p = {.client = {1, 1}};
    hold();
    assert_int_equal(open_at(&p, path, NULL), SNIB_ERR_OK);
    kit.ops->free(p.inst);
}

static const struct found {
    const char *name;
    void (*set)(void);
    bool is_held, is_used;
} found[] = {
    {"a new one", not_there, false, false},
    {"one that nobody uses", left, true, false},
    {"one of an earlier boot", of_an_earlier_boot, false, false},
    {"one without its note", without_a_note, true, false},
    {"one in use", in_use, true, true},
};

static void must(bool holds, const struct found *f, const char *what)
{
    if (!holds) {
        fail_msg("%s, call %d fails with %d: %s", f->name, failed_at,
                 fails_with, what);
    }
}

static int entries(const char *suffix)
{
    char where[160];
    int n = -2; /* . and .. */
    snprintf(where, sizeof where, "%s%s", dir, suffix);
    DIR *d = opendir(where);
    while (d && readdir(d)) {
        n++;
    }
    if (d) {
        closedir(d);
    }
    return n;
}

/* Nobody's flock is on the folder of bells. */
static bool is_let_go(void)
{
    char notifiers[160];
    snprintf(notifiers, sizeof notifiers, "%s-bells", path);
    int fd = open(notifiers, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
    int64_t alive = snib__mem_alive(), of_sqlite = sqlite3_memory_used();
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
    must(sqlite3_memory_used() == of_sqlite, f, "SQLite's memory is left");
    must(f->is_used || is_let_go(), f, "a lock is left");
    must(!open_at(&next, path, &e), f, "cannot be opened behind it");
    use_and_close(&next, f);
    must(open_now() == fds, f, "descriptors are left behind it");
    must(sqlite3_memory_used() == of_sqlite, f, "SQLite's memory is left");
    must(entries("") == 4 && entries("/locks.db-bells") <= 2, f,
         "files are left");
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
        assert_true(at > 10);
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

/* -- two of the three files are gone while it is opened ----------------------------- */

static void what_is_missing_is_named(void **state)
{
    static const struct {
        bool there[SNIB__FILES];
        const char *word;
    } t[] = {
        {{false, true, true}, ": it was removed"},
        {{false, false, false}, ": it was removed"},
        {{true, false, true}, ": wal was removed"},
        {{true, false, false}, ": wal was removed"},
        {{true, true, false}, ": shm was removed"},
    };
    static const char *const suffix[] = {"", "-wal", "-shm"};
    (void)state;
    open_peers(1);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_error e = {0};
        struct snib__lockfile p = self_of(0)->lockfile;
        for (int k = 0; k < SNIB__FILES; k++) {
            char name[160];
            snprintf(name, sizeof name, "%s%s", path, suffix[k]);
            if (t[i].there[k]) {
                close(open(name, O_CREAT | O_WRONLY, 0600));
            } else {
                unlink(name);
            }
        }
        assert_int_equal(
            snib__files_join(&p, snib__after(snib__host_now(), snib__ms(50)),
                             &e),
            SNIB_ERR_CONFIG);
        if (!strstr(e.text, t[i].word)) {
            fail_msg("%zu: \"%s\" does not say \"%s\"", i, e.text, t[i].word);
        }
    }
}

/* A client that ends takes its bell away itself, whoever tidies later. */
static void who_ends_takes_his_bell_away(void **state)
{
    struct snib__name n = name_of("bells");
    (void)state;
    int fds = open_now();
    open_peers(3);
    int none = entries("/locks.db-bells");
    struct snib__request a = acquire(0, &n), b = acquire(1, &n);
    assert_int_equal(b.said.answer, SNIB__QUEUED);
    assert_int_equal(entries("/locks.db-bells"), none + 1);
    struct snib__request renew = turn_into(&a, SNIB__RENEW);
    renew.renew.listen = true;
    assert_int_equal(run(0, &renew), SNIB__DONE);
    assert_int_equal(entries("/locks.db-bells"), none + 2);
    close_peer(1);
    assert_int_equal(entries("/locks.db-bells"), none + 1);
    close_peer(0);
    assert_int_equal(entries("/locks.db-bells"), none);
    close_peer(2);
    assert_int_equal(open_now(), fds);
    assert_true(is_let_go());
}

/* A program may have closed its standard input. */
static void a_descriptor_may_have_number_0(void **state)
{
    struct snib__name n = name_of("zero");
    int input = fcntl(0, F_DUPFD_CLOEXEC, 3);
    (void)state;
    close(0);
    int fds = open_now();
    for (int notifiers = 0; notifiers < 2; notifiers++) {
        open_peers(1);
        struct snib__lockfile *p = &self_of(0)->lockfile;
        assert_int_equal(p->dir, 0);
        if (notifiers) {
            p->dir = fcntl(0, F_DUPFD_CLOEXEC, 3);
            assert_int_equal(dup2(p->notifiers, 0), 0);
            close(p->notifiers);
            p->notifiers = 0;
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
        CASE(what_is_missing_is_named),
        CASE(who_ends_takes_his_bell_away),
        CASE(a_descriptor_may_have_number_0),
    };
    return RUN(cases);
}
