/* tests/unit/test_sqlite_files.c — the lock file, its -wal and its -shm: taken
 * away or replaced while processes use them. There are never two owners, and
 * both sides are told. */
#include "removed.h"

#include <sys/file.h>

static void the_wal_is_removed(void **state)
{
    (void)state;
    after("rm locks.db-wal", "wal");
}

static void the_shm_is_removed(void **state)
{
    (void)state;
    after("rm locks.db-shm", "shm");
}

static void both_are_removed(void **state)
{
    (void)state;
    after("rm locks.db-wal locks.db-shm", "wal");
}

static void the_file_is_removed(void **state)
{
    (void)state;
    after("rm locks.db", "lock file");
}

static void all_three_are_removed(void **state)
{
    (void)state;
    after("rm locks.db locks.db-wal locks.db-shm", "lock file");
}

static void the_wal_goes_with_the_note(void **state)
{
    (void)state;
    after("rm locks.db-wal locks.db-shm locks.db-bells/files", "wal");
}

static void all_go_with_the_note(void **state)
{
    (void)state;
    after("rm locks.db locks.db-wal locks.db-shm locks.db-bells/files",
          "lock file");
}

/* What lies there is a file each, and nobody works in it. */
static void others_are_put_in_their_place_without_the_note(void **state)
{
    (void)state;
    after("rm locks.db-wal locks.db-shm locks.db-bells/files && "
          ": >locks.db-wal && : >locks.db-shm && "
          "chmod 600 locks.db-wal locks.db-shm",
          "replaced");
}

static void copies_are_put_in_their_place_without_the_note(void **state)
{
    (void)state;
    after("mkdir c && cp -p locks.db-wal locks.db-shm c && "
          "mv c/locks.db-wal c/locks.db-shm . && rm locks.db-bells/files",
          "replaced");
}

/* The note alone says less than those who have the files open. */
static void the_note_alone_is_written_anew(void **state)
{
    (void)state;
    struct process holder = begin(hold_and_renew);
    hear_that(&holder, "ok");
    shell("rm locks.db-bells/files");
    newcomer_is_told(try_once, "BUSY");
    shell("test -L locks.db-bells/files");
    tell(&holder);
    hear_that(&holder, "ok");
    end_by(&holder, SIGKILL);
}

/* Who lives was kept from the processor between his lock of the directory and
 * his first one of the file. */
static void a_note_that_comes_late_is_waited_for(void **state)
{
    const struct timespec late = {.tv_nsec = 100000000}; /* the fault itself */
    char notifiers[sizeof path + 8];
    (void)state;
    newcomer_is_told(try_once, "ok");
    snprintf(notifiers, sizeof notifiers, "%s-bells", path);
    int fd = open(notifiers, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_return_code(flock(fd, LOCK_SH), 0);
    shell("mv -T locks.db-bells/files aside");
    struct process p = begin(try_once);
    nanosleep(&late, NULL);
    shell("mv -T aside locks.db-bells/files");
    hear_that(&p, "ok");
    assert_int_equal(over(&p), 0);
    close(fd);
}

static void the_wal_is_moved_away(void **state)
{
    (void)state;
    after("mv locks.db-wal elsewhere", "wal");
}

static void all_three_are_replaced_by_copies(void **state)
{
    (void)state;
    after("mkdir c && cp -p locks.db locks.db-wal locks.db-shm c && "
          "mv c/locks.db-wal c/locks.db-shm c/locks.db .",
          "lock file");
}

static void the_shm_is_replaced_by_a_copy(void **state)
{
    (void)state;
    after("cp -p locks.db-shm c && mv c locks.db-shm", "shm");
}

static void the_wal_is_replaced_by_an_empty_one(void **state)
{
    (void)state;
    after("rm locks.db-wal && : >locks.db-wal && chmod 600 locks.db-wal",
          "wal");
}

/* rm -rf locks.db-*: the note and the flock's directory are gone, too. */
static void all_but_the_file_itself_is_removed(void **state)
{
    (void)state;
    struct process holder = begin(hold_and_renew);
    hear_that(&holder, "ok");
    shell("rm -rf locks.db-*");
    newcomer_is_told(try_once, "CONFIG");
    newcomer_is_told(try_once, "removed or replaced while");
    tell(&holder);
    hear_that(&holder, "removed or replaced");
    end_by(&holder, SIGKILL);
    newcomer_is_told(try_once, "ok");
}

/* A copy of the note is not that of its directory. */
static void the_bells_are_replaced_by_a_copy(void **state)
{
    (void)state;
    struct process holder = begin(hold_and_renew);
    hear_that(&holder, "ok");
    shell("cp -a locks.db-bells c && rm -rf locks.db-* && mv c locks.db-bells");
    newcomer_is_told(try_once, "CONFIG");
    newcomer_is_told(try_once, "bells was removed or replaced while");
    tell(&holder);
    hear_that(&holder, "removed or replaced");
    end_by(&holder, SIGKILL);
    newcomer_is_told(try_once, "ok");
}

/* Each newcomer has the directory alone for an instant. */
static void a_crowd_comes_after_the_bells_were_removed(void **state)
{
    enum { CROWD = 8 };
    struct process p[CROWD];
    (void)state;
    struct process holder = begin(hold_and_renew);
    hear_that(&holder, "ok");
    shell("rm -rf locks.db-bells");
    for (int i = 0; i < CROWD; i++) {
        p[i] = begin(try_once);
    }
    for (int i = 0; i < CROWD; i++) {
        hear_that(&p[i], "CONFIG: lock file");
        over(&p[i]);
    }
    tell(&holder);
    hear_that(&holder, "ok");
    end_by(&holder, SIGKILL);
    newcomer_is_told(try_once, "ok");
}

/* A note of before it said of which directory it is. */
static void an_older_note_is_believed_and_made_anew(void **state)
{
    (void)state;
    struct process holder = begin(hold_and_renew);
    hear_that(&holder, "ok");
    shell("n=$(readlink locks.db-bells/files) && "
          "ln -sfT \"$(echo $n | cut -d: -f1-4)\" locks.db-bells/files");
    newcomer_is_told(try_once, "BUSY");
    end_by(&holder, SIGKILL);
    newcomer_is_told(try_once, "ok");
    shell("test $(readlink locks.db-bells/files | tr -cd : | wc -c) = 4");
}

static void nobody_lives(void **state)
{
    static const char *const commands[] = {
        "rm locks.db-wal", "rm locks.db-shm",   "rm locks.db-wal locks.db-shm",
        "rm locks.db",     "rm -rf locks.db-*", "rm -rf locks.db*",
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        struct process holder = begin(hold_and_renew);
        hear_that(&holder, "ok");
        end_by(&holder, SIGKILL);
        shell(commands[i]);
        newcomer_is_told(try_once, "ok");
    }
}

static void newcomers_race_with_the_removal(void **state)
{
    (void)state;
    race_with("rm -f locks.db-wal locks.db-shm");
}

/* -- files of somebody else ---------------------------------------------------------- */

static void side_files_of_another_user_are_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: needs root to make another's file\n");
        skip();
    }
    assert_int_equal(chmod(dir, 01777), 0);
    static const char *const suffix[] = {"-shm", "-wal"};
    for (size_t i = 0; i < COUNT_OF(suffix); i++) {
        char command[200];
        shell("rm -rf locks.db*");
        snprintf(command, sizeof command,
                 ": >locks.db%s && chown 65534:65534 locks.db%s && "
                 "chmod 666 locks.db%s",
                 suffix[i], suffix[i], suffix[i]);
        shell(command);
        newcomer_is_told(try_once, "another user");
        newcomer_is_told(try_once, suffix[i]);
        shell("test ! -s locks.db"); /* nothing was written */
    }
    shell("rm -rf locks.db* && ln -s elsewhere locks.db-wal");
    newcomer_is_told(try_once, "symbolic link");
    shell("test ! -e elsewhere");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_dir)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest cases[] = {
        CASE(the_wal_is_removed),
        CASE(the_shm_is_removed),
        CASE(both_are_removed),
        CASE(the_file_is_removed),
        CASE(all_three_are_removed),
        CASE(the_wal_goes_with_the_note),
        CASE(all_go_with_the_note),
        CASE(others_are_put_in_their_place_without_the_note),
        CASE(copies_are_put_in_their_place_without_the_note),
        CASE(the_note_alone_is_written_anew),
        CASE(a_note_that_comes_late_is_waited_for),
        CASE(the_wal_is_moved_away),
        CASE(all_three_are_replaced_by_copies),
        CASE(the_shm_is_replaced_by_a_copy),
        CASE(the_wal_is_replaced_by_an_empty_one),
        CASE(all_but_the_file_itself_is_removed),
        CASE(the_bells_are_replaced_by_a_copy),
        CASE(a_crowd_comes_after_the_bells_were_removed),
        CASE(an_older_note_is_believed_and_made_anew),
        CASE(the_directory_is_moved),
        CASE(a_link_to_the_directory_is_switched),
        CASE(a_link_in_a_relative_path_is_switched),
        CASE(a_directory_takes_the_place_of_the_link),
        CASE(nobody_lives),
        CASE(newcomers_race_with_the_removal),
        CASE(many_open_a_new_file_at_once),
        CASE(side_files_of_another_user_are_refused),
    };
    return RUN(cases);
}
