/* tests/unit/removed.h — cases in which a lock file is taken away, replaced, or
 * stands behind a link that is switched, while processes use it. There are never
 * two owners, and both sides are told. */
#ifndef SNIB_TESTS_REMOVED_H
#define SNIB_TESTS_REMOVED_H

#include "processes.h"

/* A client that works may not have looked at its path for so long. */
static void until_it_looks(void)
{
    poll(NULL, 0, 20);
}

static void hold_and_renew(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_lock *l = lock_of(c, false, 60000);
    struct snib_grant g;
    struct snib_error e = {0};
    say_error(acquire(l, 0, &g, &e), &e);
    for (;;) {
        await();
        snib_err err = snib_renew(l, g, 0, &e);
        struct snib_view *v = NULL;
        if (err && !snib_client_inspect(c, "n", 1, &v, &e)) { /* says why */
            snib_view_free(v);
            say("it can be looked at, but not be renewed");
        } else {
            say_error(err, &e);
        }
    }
}

/* Opened before, tries after. */
static void come_early_try_late(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_lock *l = lock_of(c, false, 60000);
    struct snib_grant g;
    struct snib_error e = {0};
    say("open");
    for (;;) {
        await();
        say_error(acquire(l, 0, &g, &e), &e);
    }
}

static void look(void)
{
    struct snib_error e = {0};
    struct snib_view *v = NULL;
    struct snib_client *c = open_as(NULL, &e);
    say_error(c ? snib_client_inspect(c, "n", 1, &v, &e) : e.code, &e);
    snib_view_free(v);
    snib_client_free(c);
}

static void shell(const char *command)
{
    char text[400];
    snprintf(text, sizeof text, "cd '%s' && %s", dir, command);
    assert_int_equal(system(text), 0);
}

static void newcomer_is_told(void (*body)(void), const char *word)
{
    struct process p = begin(body);
    hear_that(&p, word);
    assert_int_equal(over(&p), 0);
}

/* Whatever is done to the files: the holder is told, nobody else gets the
 * lock, newcomers are told, and when all have ended it works again. */
static void after(const char *command, const char *which)
{
    struct process early = begin(come_early_try_late);
    hear_that(&early, "open");
    struct process holder = begin(hold_and_renew);
    hear_that(&holder, "ok");
    tell(&holder);
    hear_that(&holder, "ok");
    shell(command);
    for (int i = 0; i < 2; i++) { /* what the first one makes stays refused */
        newcomer_is_told(try_once, "CONFIG");
        newcomer_is_told(try_once, which);
        newcomer_is_told(look, "removed or replaced while");
    }
    tell(&holder);
    const char *told = hear(&holder);
    assert_non_null(strstr(told, "STORE"));
    assert_non_null(strstr(told, which));
    tell(&early);
    hear_that(&early, "removed or replaced");
    /* Those who live on in the old files keep others out, whoever they are. */
    end_by(&holder, SIGKILL);
    newcomer_is_told(try_once, "CONFIG");
    end_by(&early, SIGKILL);
    newcomer_is_told(try_once, "ok");
    newcomer_is_told(try_once, "ok");
}

/* The path leads elsewhere: nothing there tells a newcomer of those who work
 * in the old place; they are told at their next step. */
static void the_directory_is_moved(void **state)
{
    char command[200];
    (void)state;
    struct process holder = begin(hold_and_renew);
    hear_that(&holder, "ok");
    snprintf(command, sizeof command, "mv '%s' '%s.away' && mkdir '%s'", dir,
             dir, dir);
    shell(command);
    until_it_looks();
    tell(&holder);
    const char *told = hear(&holder);
    assert_non_null(strstr(told, "STORE"));
    assert_non_null(strstr(told, "removed or replaced"));
    end_by(&holder, SIGKILL);
}

static void name_it_through_a_link(const char *where)
{
    snprintf(path, sizeof path, "%s/cur/locks.db", dir);
    snprintf(url, sizeof url, "file:%s", where);
    shell("mkdir -p r1 r2 && ln -sfn r1 cur");
    assert_int_equal(chdir(dir), 0);
}

/* A link in the path is switched: nothing tells the newcomer, but whoever works
 * in the old directory is told by the next change, until it is switched back. */
static void is_told_of_the_switch(const char *command, const char *where)
{
    name_it_through_a_link(where[0] ? where : path);
    struct process holder = begin(hold_and_renew);
    hear_that(&holder, "ok");
    shell("ln -sfn ./r1/../r1 cur"); /* another text, the same directory */
    tell(&holder);
    hear_that(&holder, "ok");
    shell(command);
    newcomer_is_told(try_once, "ok");
    until_it_looks();
    tell(&holder);
    const char *told = hear(&holder);
    assert_non_null(strstr(told, "STORE"));
    assert_non_null(strstr(told, "a link in it was switched"));
    assert_non_null(strstr(told, "/cur"));
    shell("rm -rf cur && ln -sfn r1 cur");
    until_it_looks();
    tell(&holder);
    hear_that(&holder, "ok");
    end_by(&holder, SIGKILL);
    assert_int_equal(chdir("/"), 0);
}

static void a_link_to_the_directory_is_switched(void **state)
{
    (void)state;
    is_told_of_the_switch("ln -sfn r2 cur", "");
}

static void a_link_in_a_relative_path_is_switched(void **state)
{
    (void)state;
    is_told_of_the_switch("ln -sfn r2 cur", "cur/locks.db");
}

static void a_directory_takes_the_place_of_the_link(void **state)
{
    (void)state;
    is_told_of_the_switch("rm cur && mkdir cur", "");
}

/* Removed again and again while newcomers come by the dozen. */
static void race_with(const char *removal)
{
    enum { CROWD = 12 };
    struct process p[CROWD];
    struct process holder = begin(hold_and_renew);
    hear_that(&holder, "ok");
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < CROWD; i++) {
            p[i] = begin(try_once);
            if (i == CROWD / 2) {
                shell(removal);
            }
        }
        for (int i = 0; i < CROWD; i++) {
            const char *told = hear(&p[i]);
            if (strcmp(told, "ok") == 0) {
                print_error("round %d: a second owner\n", round);
                fail();
            }
            over(&p[i]);
        }
    }
    end_by(&holder, SIGKILL);
    newcomer_is_told(try_once, "ok");
}

static void many_open_a_new_file_at_once(void **state)
{
    enum { CROWD = 16 };
    struct process p[CROWD];
    (void)state;
    for (int round = 0; round < 5; round++) {
        int got = 0;
        shell("rm -rf locks.db*");
        for (int i = 0; i < CROWD; i++) {
            p[i] = begin(hold_and_renew);
        }
        for (int i = 0; i < CROWD; i++) {
            const char *told = hear(&p[i]);
            got += strcmp(told, "ok") == 0;
            if (strcmp(told, "ok") != 0 && !strstr(told, "BUSY")) {
                print_error("%s\n", told);
                fail();
            }
        }
        assert_int_equal(got, 1);
        for (int i = 0; i < CROWD; i++) {
            end_by(&p[i], SIGKILL);
        }
    }
}

#endif
