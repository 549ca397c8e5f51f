/* tests/unit/test_sqlite_enter.c — the lock file, its -wal and its -shm are
 * taken away while somebody opens them: at each point of it that counts.
 *
 * A child says at which call it is stopped, and what is done there; the call
 * itself comes after that.
 * wraps: flock sqlite3_open_v2 sqlite3_close symlinkat snib__host_locked */
#include "processes.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include "store/sqlite/internal.h"

/* -- where it is stopped ---------------------------------------------------------- */

enum call { NONE, EXCLUSIVE, SHARED, UNLOCK, OPEN, CLOSE, SYMLINK };

static struct {
    enum call at;
    int count; /* of such calls, with the one that is meant                  */
    void (*deed)(void);
    bool twice; /* others are alone each second time                         */
    bool none;  /* the kernel has no room for a shared lock                  */
    int misses; /* so many reads of its list of locks in a row, of twenty    */
} stop;

static void comes_to(enum call call)
{
    if (stop.at == call && --stop.count == 0) {
        stop.at = NONE;
        stop.deed();
    }
}

int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how);
int __wrap_flock(int fd, int how)
{
    static int claim;
    if (how & LOCK_EX) {
        comes_to(EXCLUSIVE);
        claim++;
    }
    if (how == LOCK_UN) {
        comes_to(UNLOCK);
    } else if (stop.twice && claim % 2) {
        errno = EWOULDBLOCK;
        return -1;
    }
    if (stop.none && (how & LOCK_SH)) {
        errno = ENOLCK;
        return -1;
    }
    int rc = __real_flock(fd, how);
    if (rc == 0 && (how & LOCK_SH)) {
        comes_to(SHARED);
    }
    return rc;
}

int __real_sqlite3_open_v2(const char *name, sqlite3 **ret, int flags,
                           const char *vfs);
int __wrap_sqlite3_open_v2(const char *name, sqlite3 **ret, int flags,
                           const char *vfs);
int __wrap_sqlite3_open_v2(const char *name, sqlite3 **ret, int flags,
                           const char *vfs)
{
    comes_to(OPEN);
    return __real_sqlite3_open_v2(name, ret, flags, vfs);
}

int __real_sqlite3_close(sqlite3 *db);
int __wrap_sqlite3_close(sqlite3 *db);
int __wrap_sqlite3_close(sqlite3 *db)
{
    comes_to(CLOSE);
    return __real_sqlite3_close(db);
}

int __real_symlinkat(const char *text, int dir_fd, const char *name);
int __wrap_symlinkat(const char *text, int dir_fd, const char *name);
int __wrap_symlinkat(const char *text, int dir_fd, const char *name)
{
    if (stop.at == SYMLINK && __real_symlinkat(text, dir_fd, name)) {
        _exit(7);
    }
    comes_to(SYMLINK);
    return __real_symlinkat(text, dir_fd, name);
}

snib_err __real_snib__host_locked(const char *file, int64_t *ret_pid,
                                  struct snib_error *reterr);
snib_err __wrap_snib__host_locked(const char *file, int64_t *ret_pid,
                                  struct snib_error *reterr);
snib_err __wrap_snib__host_locked(const char *file, int64_t *ret_pid,
                                  struct snib_error *reterr)
{
    static int reads;
    snib_err err = __real_snib__host_locked(file, ret_pid, reterr);
    if (reads++ % 20 < stop.misses) {
        *ret_pid = 0;
    }
    return err;
}

/* -- what is done ------------------------------------------------------------------ */

static void shell(const char *command)
{
    char text[400];
    snprintf(text, sizeof text, "cd '%s' && %s", dir, command);
    assert_int_equal(system(text), 0);
}

static void remove_at(const char *suffix)
{
    char name[160];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    if (unlink(name)) {
        _exit(8);
    }
}

static void remove_both(void)
{
    remove_at("-wal");
    remove_at("-shm");
}

static void remove_both_and_note(void)
{
    remove_both();
    remove_at("-bells/files");
}

/* They are still there, so that no new one is given their inodes. */
static void move_both(void)
{
    shell("mv locks.db-wal wal && mv locks.db-shm shm");
}

static void move_both_and_note(void)
{
    move_both();
    remove_at("-bells/files");
}

static void replace_shm(void)
{
    remove_at("-shm");
    char name[160];
    snprintf(name, sizeof name, "%s-shm", path);
    close(open(name, O_CREAT | O_WRONLY, 0600));
}

static void nothing(void)
{
}

static void wait_there(void)
{
    say("stopped");
    await();
}

static void remove_and_stop_at_close(void)
{
    remove_both_and_note();
    stop.at = CLOSE;
    stop.count = 1;
    stop.deed = wait_there;
}

/* -- who comes ---------------------------------------------------------------------- */

static void hold(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_grant g;
    struct snib_error e = {0};
    say_error(acquire(lock_of(c, false, 60000), 0, &g, &e), &e);
    await();
}

static void newcomer_is_told(const char *word)
{
    struct process p = begin(try_once);
    hear_that(&p, word);
    assert_int_equal(over(&p), 0);
}

static void stopped_one_is_told(enum call at, int count, void (*deed)(void),
                                const char *word)
{
    stop.at = at;
    stop.count = count;
    stop.deed = deed;
    struct process p = begin(try_once);
    stop.at = NONE;
    hear_that(&p, word);
    assert_int_equal(over(&p), 0);
}

static struct process holder_without_note(void)
{
    struct process holder = begin(hold);
    hear_that(&holder, "ok");
    shell("rm locks.db-bells/files");
    return holder;
}

/* -- entering ------------------------------------------------------------------------- */

/* 20 looks saw that these are the files in use; then they go. */
static void files_go_at_a_look_without_the_note(void **state)
{
    static const int looks[] = {1, 2, 20, 21};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(looks); i++) {
        struct process holder = holder_without_note();
        stopped_one_is_told(SHARED, looks[i], remove_both, "CONFIG");
        newcomer_is_told("CONFIG");
        end_by(&holder, SIGKILL);
        newcomer_is_told("ok");
    }
}

static void another_shm_comes_at_the_last_look(void **state)
{
    (void)state;
    struct process holder = holder_without_note();
    stopped_one_is_told(SHARED, 21, replace_shm, "CONFIG");
    newcomer_is_told("CONFIG");
    end_by(&holder, SIGKILL);
    newcomer_is_told("ok");
}

/* SQLite makes new ones, which are those of nobody. */
static void files_go_before_sqlite_opens_them(void **state)
{
    static void (*const deeds[])(void) = {remove_both, remove_both_and_note};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(deeds); i++) {
        struct process holder = begin(hold);
        hear_that(&holder, "ok");
        stopped_one_is_told(OPEN, 1, deeds[i], "CONFIG");
        newcomer_is_told("CONFIG");
        newcomer_is_told("removed or replaced while");
        end_by(&holder, SIGKILL);
        newcomer_is_told("ok");
    }
}

/* Who is refused still has them open. */
static void files_of_one_who_is_refused_are_not_those_in_use(void **state)
{
    (void)state;
    struct process holder = begin(hold);
    hear_that(&holder, "ok");
    stop.at = OPEN;
    stop.count = 1;
    stop.deed = remove_and_stop_at_close;
    struct process p = begin(try_once);
    stop.at = NONE;
    hear_that(&p, "stopped");
    newcomer_is_told("CONFIG");
    tell(&p);
    hear_that(&p, "CONFIG");
    assert_int_equal(over(&p), 0);
    end_by(&holder, SIGKILL);
    newcomer_is_told("ok");
}

static void the_same_without_others_is_tried_again(void **state)
{
    (void)state;
    newcomer_is_told("ok");
    stopped_one_is_told(OPEN, 1, move_both, "STORE: shm of lock file");
    newcomer_is_told("ok");
    stopped_one_is_told(OPEN, 1, move_both_and_note, "try again");
    newcomer_is_told("ok");
}

/* He locks what is no longer at its path: nobody else would. */
static void the_bells_go_before_they_are_locked(void **state)
{
    static const char *const commands[] = {"rm -rf locks.db-bells",
                                           "mv locks.db-bells aside",
                                           "rm -rf locks.db-*"};
    (void)state;
    newcomer_is_told("ok");
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        stop.at = EXCLUSIVE;
        stop.count = 1;
        stop.deed = wait_there;
        struct process p = begin(hold);
        stop.at = NONE;
        hear_that(&p, "stopped");
        shell(commands[i]);
        tell(&p);
        hear_that(&p, "ok");
        shell("test -L locks.db-bells/files");
        newcomer_is_told("BUSY");
        end_by(&p, SIGKILL);
    }
}

/* … so that two would be alone, each in a directory of his. */
static void two_come_around_a_removal(void **state)
{
    (void)state;
    newcomer_is_told("ok");
    stop.at = OPEN;
    stop.count = 1;
    stop.deed = wait_there;
    struct process first = begin(hold);
    hear_that(&first, "stopped");
    shell("rm -rf locks.db-*");
    struct process second = begin(hold);
    hear_that(&second, "stopped");
    stop.at = NONE;
    tell(&second);
    hear_that(&second, "ok");
    tell(&first);
    hear_that(&first, "removed or replaced while");
    newcomer_is_told("BUSY");
    end_by(&first, SIGKILL);
    end_by(&second, SIGKILL);
}

/* Other newcomers, who are alone for an instant, are none that open it. */
static void an_instants_lock_is_nobodys_opening(void **state)
{
    (void)state;
    struct process holder = begin(hold);
    hear_that(&holder, "ok");
    shell("rm -rf locks.db-bells");
    stop.twice = true;
    struct process p = begin(try_once);
    stop.twice = false;
    hear_that(&p, "CONFIG");
    assert_int_equal(over(&p), 0);
    end_by(&holder, SIGKILL);
}

/* The list of locks is read in pieces, so a look may miss who has the file. */
static void a_lock_that_is_missed_now_and_then_is_there(void **state)
{
    (void)state;
    struct process holder = begin(hold);
    hear_that(&holder, "ok");
    shell("rm -rf locks.db-bells");
    stop.misses = 19;
    newcomer_is_told("CONFIG");
    stop.misses = 0;
    end_by(&holder, SIGKILL);
}

static void who_gets_no_lock_is_told_why(void **state)
{
    (void)state;
    for (int alone = 1; alone >= 0; alone--) {
        struct process holder;
        if (!alone) {
            holder = begin(hold);
            hear_that(&holder, "ok");
        }
        stop.none = true;
        newcomer_is_told("NOMEM");
        stop.none = false;
        if (!alone) {
            end_by(&holder, SIGKILL);
        }
    }
}

/* -- joining ----------------------------------------------------------------------------- */

/* Another thread or process did, at the same instant. */
static void the_note_is_written_by_two_at_once(void **state)
{
    (void)state;
    struct process holder = holder_without_note();
    stopped_one_is_told(SYMLINK, 1, nothing, "BUSY");
    shell(
        "test -L locks.db-bells/files && "
        "test -z \"$(ls locks.db-bells | grep -vx files | tee /dev/stderr)\"");
    end_by(&holder, SIGKILL);
}

/* -- a second client of one process -------------------------------------------------------- */

static void hold_twice(void)
{
    hold();
    try_once();
    await();
}

static void a_second_client_of_the_process_finds_no_note(void **state)
{
    (void)state;
    struct process p = begin(hold_twice);
    hear_that(&p, "ok");
    shell("rm locks.db-bells/files");
    tell(&p);
    hear_that(&p, "BUSY");
    shell("test -L locks.db-bells/files");
    end_by(&p, SIGKILL);
}

static void a_second_client_of_the_process_finds_nothing(void **state)
{
    (void)state;
    struct process p = begin(hold_twice);
    hear_that(&p, "ok");
    shell("rm -rf locks.db-*");
    tell(&p);
    hear_that(&p, "CONFIG: lock file");
    shell("test ! -e locks.db-wal && test ! -e locks.db-shm");
    end_by(&p, SIGKILL);
    newcomer_is_told("ok");
}

/* -- behind those of another boot ------------------------------------------------------------- */

static struct snib__host host;
static pid_t holder_pid;

static void open_on_host(const char *boot, void **ret)
{
    struct snib__url of = {.path = path};
    struct snib__store_config config = {
        .url = &of, .request = snib__ms(300), .client = {7, 7}};
    struct snib_error e = {0};
    snib__host_read(&host);
    snprintf(host.boot, sizeof host.boot, "%s", boot);
    snib_err err = snib__sqlite_open_on(&config, &host, ret, &e);
    if (err) {
        say_error(err, &e);
        _exit(4);
    }
}

static void use_as_another_boot(void)
{
    void *inst;
    open_on_host("another", &inst);
    say("ok");
    await();
}

static void end_holder_and_remove_both(void)
{
    remove_both();
    kill(holder_pid, SIGKILL);
    waitpid(holder_pid, NULL, 0);
}

/* Is what SQLite has open what the paths lead to? */
static void wait_for_another_boot(void)
{
    static const char *const suffix[] = {"", "-wal", "-shm"};
    void *inst;
    int open_ones = 0;
    struct process other = begin(use_as_another_boot);
    hear_that(&other, "ok");
    holder_pid = other.pid;
    stop.at = UNLOCK; /* the first: he waits outside                          */
    stop.count = 1;
    stop.deed = end_holder_and_remove_both;
    open_on_host("this", &inst);
    for (int fd = 0; fd < 100; fd++) {
        struct stat a, b;
        for (int i = 0; i < 3 && fstat(fd, &a) == 0; i++) {
            char name[160];
            snprintf(name, sizeof name, "%s%s", path, suffix[i]);
            open_ones += stat(name, &b) == 0 && a.st_ino == b.st_ino &&
                         a.st_dev == b.st_dev;
        }
    }
    dprintf(child_out, "%d of them\n", open_ones);
    await();
}

static void files_go_while_another_boot_is_waited_for(void **state)
{
    (void)state;
    newcomer_is_told("ok");
    struct process p = begin(wait_for_another_boot);
    hear_that(&p, "3 of them");
    end_by(&p, SIGKILL);
}

static void open_as_another_boot(void)
{
    void *inst;
    open_on_host("another", &inst);
    say("opened");
}

static void hold_and_renew(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_lock *l = lock_of(c, false, 60000);
    struct snib_grant g;
    struct snib_error e = {0};
    say_error(acquire(l, 0, &g, &e), &e);
    await();
    say_error(snib_renew(l, g, 0, &e), &e);
    await();
}

/* He was alone in a directory that was removed; by the time he reads the file,
 * somebody holds who has another one. */
static void who_was_alone_before_the_bells_went_clears_nothing(void **state)
{
    (void)state;
    newcomer_is_told("ok");
    stop.at = OPEN;
    stop.count = 1;
    stop.deed = wait_there;
    struct process p = begin(open_as_another_boot);
    stop.at = NONE;
    hear_that(&p, "stopped");
    shell("rm -rf locks.db-bells");
    struct process holder = begin(hold_and_renew);
    hear_that(&holder, "ok");
    tell(&p);
    hear_that(&p, "STORE: bells of lock file");
    assert_int_equal(over(&p), 4);
    tell(&holder);
    hear_that(&holder, "ok");
    newcomer_is_told("BUSY");
    end_by(&holder, SIGKILL);
    p = begin(open_as_another_boot);
    hear_that(&p, "opened");
    assert_int_equal(over(&p), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_dir)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest cases[] = {
        CASE(files_go_at_a_look_without_the_note),
        CASE(another_shm_comes_at_the_last_look),
        CASE(files_go_before_sqlite_opens_them),
        CASE(files_of_one_who_is_refused_are_not_those_in_use),
        CASE(the_same_without_others_is_tried_again),
        CASE(the_bells_go_before_they_are_locked),
        CASE(two_come_around_a_removal),
        CASE(an_instants_lock_is_nobodys_opening),
        CASE(a_lock_that_is_missed_now_and_then_is_there),
        CASE(who_gets_no_lock_is_told_why),
        CASE(the_note_is_written_by_two_at_once),
        CASE(a_second_client_of_the_process_finds_no_note),
        CASE(a_second_client_of_the_process_finds_nothing),
        CASE(files_go_while_another_boot_is_waited_for),
        CASE(who_was_alone_before_the_bells_went_clears_nothing),
    };
    return RUN(cases);
}
