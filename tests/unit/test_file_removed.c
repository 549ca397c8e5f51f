/* tests/unit/test_file_removed.c — a mapped lock file is taken away, replaced or
 * cut off while processes use it; processes that do not see each other's pids
 * use one file. */
#include "removed.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>

#include "store/file/internal.h"

/* -- removed and replaced ---------------------------------------------------------- */

static void the_file_is_removed(void **state)
{
    (void)state;
    after("rm locks.db", "lock file");
}

static void the_file_is_moved_away(void **state)
{
    (void)state;
    after("mv locks.db elsewhere", "lock file");
}

static void the_file_is_replaced_by_a_copy(void **state)
{
    (void)state;
    after("cp -p locks.db c && mv c locks.db", "lock file");
}

static void the_file_is_replaced_by_an_empty_one(void **state)
{
    (void)state;
    after("rm locks.db && : >locks.db && chmod 600 locks.db", "lock file");
}

/* A file of another name has a byte of its own. */
static void another_file_in_the_directory_is_nobodys_business(void **state)
{
    (void)state;
    struct process holder = begin(hold_and_renew);
    hear_that(&holder, "ok");
    snprintf(url, sizeof url, "file:%s2", path);
    newcomer_is_told(try_once, "ok");
    end_by(&holder, SIGKILL);
}

/* Others may read the directory: the list of locks shows who is in the way. */
static void the_file_is_removed_where_others_may_read(void **state)
{
    (void)state;
    assert_int_equal(chmod(dir, 0755), 0);
    after("rm locks.db", "lock file");
}

static void nobody_lives(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct process holder = begin(hold_and_renew);
        hear_that(&holder, "ok");
        end_by(&holder, SIGKILL);
        shell("rm locks.db");
        newcomer_is_told(try_once, "ok");
    }
}

static void newcomers_race_with_the_removal(void **state)
{
    (void)state;
    race_with("rm -f locks.db");
}

static void hold_twice(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_grant g;
    struct snib_error e = {0};
    say_error(acquire(lock_of(c, false, 60000), 0, &g, &e), &e);
    await();
    try_once();
    await();
    snib_client_free(c);
    try_once();
}

static void a_second_client_of_the_process_comes_after_the_removal(void **state)
{
    (void)state;
    struct process p = begin(hold_twice);
    hear_that(&p, "ok");
    shell("rm locks.db");
    tell(&p);
    hear_that(&p, "CONFIG: lock file");
    tell(&p);
    hear_that(&p, "ok");
    assert_int_equal(over(&p), 0);
}

/* The child has a copy of the descriptor, but not the client. */
static void hold_fork_and_close(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_grant g;
    struct snib_error e = {0};
    say_error(acquire(lock_of(c, false, 60000), 0, &g, &e), &e);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            pause();
        }
    }
    await();
    snib_client_free(c);
    say("closed");
    await();
    kill(pid, SIGKILL);
}

static void who_has_closed_is_in_nobodys_way_whatever_its_children(void **state)
{
    (void)state;
    struct process p = begin(hold_fork_and_close);
    hear_that(&p, "ok");
    shell("rm locks.db");
    newcomer_is_told(try_once, "CONFIG");
    tell(&p);
    hear_that(&p, "closed");
    newcomer_is_told(try_once, "ok");
    tell(&p);
    assert_int_equal(over(&p), 0);
}

/* -- locks of the directory that others set ------------------------------------------- */

/* As a client would whose file is another one of this name. */
static void lock_directory(void)
{
    uint64_t name = snib__map_hash(0, "locks.db", 8) >> 34;
    struct flock l = {.l_type = F_RDLCK,
                      .l_whence = SEEK_SET,
                      .l_start = (int64_t)(name << 32 | 1),
                      .l_len = 1};
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    say(fd >= 0 && !fcntl(fd, F_OFD_SETLK, &l) ? "locked" : "cannot");
    await();
}

static void lock_as_a_stranger(void)
{
    if (setresuid(65534, 65534, 65534)) {
        _exit(6);
    }
    lock_directory();
}

/* A process of another pid namespace is not in the list of locks: where only
 * this user comes in, its lock is enough. */
static void
who_is_in_no_list_is_believed_where_no_stranger_comes_in(void **state)
{
    (void)state;
    struct process p = begin(lock_directory);
    hear_that(&p, "locked");
    newcomer_is_told(try_once, "CONFIG");
    end_by(&p, SIGKILL);
    newcomer_is_told(try_once, "ok");
}

static void a_stranger_keeps_nobody_out(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: needs root to be a stranger\n");
        skip();
    }
    assert_int_equal(chmod(dir, 0755), 0);
    struct process p = begin(lock_as_a_stranger);
    hear_that(&p, "locked");
    newcomer_is_told(try_once, "ok");
    end_by(&p, SIGKILL);
}

/* The kernel says one lock at a time: his, which came first. */
static void a_stranger_hides_nobody(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: needs root to be a stranger\n");
        skip();
    }
    assert_int_equal(chmod(dir, 0755), 0);
    struct process p = begin(lock_as_a_stranger);
    hear_that(&p, "locked");
    struct process holder = begin(hold_and_renew);
    hear_that(&holder, "ok");
    shell("rm locks.db");
    newcomer_is_told(try_once, "CONFIG");
    end_by(&holder, SIGKILL);
    newcomer_is_told(try_once, "ok");
    end_by(&p, SIGKILL);
}

/* -- cut off ---------------------------------------------------------------------------- */

static void hold_renew_and_free(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_lock *l = lock_of(c, false, 60000);
    struct snib_grant g;
    struct snib_error e = {0};
    say_error(acquire(l, 0, &g, &e), &e);
    await();
    for (int i = 0; i < 2; i++) {
        say_error(snib_renew(l, g, 0, &e), &e);
    }
    snib_client_free(c);
    say("freed");
}

/* What is gone must not be touched: that would end the process (SIGBUS). */
static void is_told_of_the_cut(const char *command)
{
    struct process holder = begin(hold_renew_and_free);
    hear_that(&holder, "ok");
    shell(command);
    until_it_looks();
    tell(&holder);
    for (int i = 0; i < 2; i++) {
        const char *told = hear(&holder);
        assert_non_null(strstr(told, "STORE"));
        assert_non_null(strstr(told, "was cut off while in use"));
    }
    hear_that(&holder, "freed");
    assert_int_equal(over(&holder), 0);
}

static void a_file_that_is_cut_off_is_told(void **state)
{
    (void)state;
    is_told_of_the_cut("truncate -s 5000 locks.db");
    newcomer_is_told(try_once, "damaged (it was cut off)");
    shell("rm locks.db");
    is_told_of_the_cut("truncate -s 0 locks.db");
    newcomer_is_told(try_once, "ok");
    is_told_of_the_cut("truncate -s -4096 locks.db");
}

/* -- pid namespaces ----------------------------------------------------------------------- */

static void (*inner)(void);

/* Process 1 of a pid namespace of its own; it ends with the one that made it. */
static void be_the_first(void)
{
    int status;
    if (unshare(CLONE_NEWPID)) {
        say("cannot");
        _exit(0);
    }
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getpid() != 1) {
            _exit(6);
        }
        inner();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 7);
}

static struct process begin_as_first(void (*body)(void))
{
    inner = body;
    return begin(be_the_first);
}

static void hold_for_a_second(void)
{
    hold_for(1000);
}

static void wait_for_it(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_lock *l = lock_of(c, false, 1000);
    struct snib_grant g;
    struct snib_error e = {0};
    say_error(acquire(l, 20, &g, &e), &e);
    await();
    say_error(snib_acquire(l, NULL, &g, &e), &e);
    await();
    say_error(snib_release(l, g, &e), &e);
}

/* Each is process 1, and takes the other neither for itself nor for dead: one
 * that is killed holds until its lease is over. */
static void two_processes_with_one_pid_exclude_each_other(void **state)
{
    (void)state;
    struct process a = begin_as_first(hold_for_a_second);
    const char *told = hear(&a);
    if (strcmp(told, "cannot") == 0) {
        over(&a);
        print_message("skipped: needs root to make a pid namespace\n");
        skip();
    }
    assert_string_equal(told, "ok");
    struct process b = begin_as_first(wait_for_it);
    hear_that(&b, "TIMEOUT");
    tell(&b);
    tell(&a); /* released: the waiter is woken from the other namespace */
    hear_that(&a, "ok");
    hear_that(&b, "ok");
    tell(&b);
    hear_that(&b, "ok");
    assert_int_equal(over(&b), 0);
    end_by(&a, SIGKILL);
    a = begin_as_first(hold_for_a_second);
    hear_that(&a, "ok");
    b = begin_as_first(wait_for_it);
    hear_that(&b, "TIMEOUT");
    end_by(&a, SIGKILL);
    tell(&b);
    hear_that(&b, "ok");
    end_by(&b, SIGKILL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_dir)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest cases[] = {
        CASE(the_file_is_removed),
        CASE(the_file_is_moved_away),
        CASE(the_file_is_replaced_by_a_copy),
        CASE(the_file_is_replaced_by_an_empty_one),
        CASE(another_file_in_the_directory_is_nobodys_business),
        CASE(the_file_is_removed_where_others_may_read),
        CASE(the_directory_is_moved),
        CASE(a_link_to_the_directory_is_switched),
        CASE(a_link_in_a_relative_path_is_switched),
        CASE(a_directory_takes_the_place_of_the_link),
        CASE(nobody_lives),
        CASE(newcomers_race_with_the_removal),
        CASE(many_open_a_new_file_at_once),
        CASE(a_second_client_of_the_process_comes_after_the_removal),
        CASE(who_has_closed_is_in_nobodys_way_whatever_its_children),
        CASE(who_is_in_no_list_is_believed_where_no_stranger_comes_in),
        CASE(a_stranger_keeps_nobody_out),
        CASE(a_stranger_hides_nobody),
        CASE(a_file_that_is_cut_off_is_told),
        CASE(two_processes_with_one_pid_exclude_each_other),
    };
    return RUN(cases);
}
