/* tests/unit/test_file_detached.c — the mapped file: a grant of a fixed lease
 * belongs to whoever has its text, not to the process that took it. */
#include "processes.h"
#include "snib/event.h"
#include "snib/sys.h"

static char text[SNIB_GRANT_TEXT];

static void hold_and_export(struct snib_lock *l, struct snib_grant *ret)
{
    struct snib_error e = {0};
    char exported[SNIB_GRANT_TEXT];
    snib_err err = acquire(l, 10000, ret, &e);
    if (!err) {
        err = snib_grant_export(l, *ret, exported, sizeof exported, &e);
    }
    if (err) {
        say_error(err, &e);
        _exit(4);
    }
    say(exported);
}

static void leave_it_behind(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_lock *l = lock_of(c, true, 60000);
    struct snib_grant g;
    struct snib_error e = {0};
    hold_and_export(l, &g);
    say_error(snib_grant_abandon(l, g, &e), &e);
    snib_lock_free(l);
    snib_client_free(c);
}

static void export_and_stand(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_grant g;
    hold_and_export(lock_of(c, true, 60000), &g);
    await(); /* for the kill */
}

static void adopt_and_release(void)
{
    char identity[SNIB_IDENTITY_TEXT];
    struct snib_error e = {0};
    struct snib_grant g;
    snib_err err = snib_grant_identity(text, identity, sizeof identity, &e);
    struct snib_client *c = err ? NULL : must_open(identity);
    struct snib_lock *l = c ? lock_of(c, true, 60000) : NULL;
    err = err ? err : snib_grant_adopt(l, text, 0, &g, &e);
    say_error(err, &e);
    if (!err) {
        say_error(snib_release(l, g, &e), &e);
    }
    snib_lock_free(l);
    snib_client_free(c);
}

static void is_kept_until_it_is_adopted(void)
{
    for (int i = 0; i < 3; i++) { /* the first who tries drops the dead */
        struct process other = begin(try_once);
        hear_that(&other, "BUSY");
        assert_int_equal(over(&other), 0);
    }
    struct process next_one = begin(adopt_and_release);
    hear_that(&next_one, "ok");
    hear_that(&next_one, "ok");
    assert_int_equal(over(&next_one), 0);
    struct process other = begin(try_once);
    hear_that(&other, "ok");
    assert_int_equal(over(&other), 0);
}

static void an_abandoned_grant_outlives_its_process(void **state)
{
    (void)state;
    struct process first = begin(leave_it_behind);
    snprintf(text, sizeof text, "%s", hear(&first));
    hear_that(&first, "ok");
    assert_int_equal(over(&first), 0);
    is_kept_until_it_is_adopted();
}

static void an_exported_grant_outlives_the_kill_of_its_process(void **state)
{
    (void)state;
    struct process first = begin(export_and_stand);
    snprintf(text, sizeof text, "%s", hear(&first));
    assert_int_equal(end_by(&first, SIGKILL), 128 + SIGKILL);
    is_kept_until_it_is_adopted();
}

/* -- one that waited behind a renewed one of its own client ------------------------- */

static void wait_behind_one_that_gives_up(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_lock *renewed = lock_of(c, false, 60000);
    struct snib_lock *fixed = lock_of(c, true, 60000);
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    uint64_t first, second;
    struct snib_event ev;
    struct snib_error e = {0};
    snib_err err;
    o.owner = snib_owner_new();
    err = snib_acquire_start(renewed, &o, NULL, &first, &e);
    o.owner = snib_owner_new();
    err = err ? err : snib_acquire_start(fixed, &o, NULL, &second, &e);
    say_error(err, &e);
    await(); /* the first one stands in the store's queue by now */
    snib_client_cancel(c, first);
    say("cancelled");
    do {
        while (!snib_client_next(c, &ev, sizeof ev)) {
            struct pollfd f = {.fd = snib_client_fd(c), .events = POLLIN};
            poll(&f, 1, 1000);
        }
    } while (ev.kind != SNIB_EVENT_GRANTED);
    char exported[SNIB_GRANT_TEXT];
    err = snib_grant_export(fixed, ev.grant, exported, sizeof exported, &e);
    if (err) {
        say_error(err, &e);
    }
    say(exported);
    await();
}

static void a_fixed_lease_that_waited_behind_a_renewed_one(void **state)
{
    (void)state;
    struct process holder = begin(hold_until_told);
    hear_that(&holder, "ok");
    struct process two = begin(wait_behind_one_that_gives_up);
    hear_that(&two, "ok");
    until_wait(1);
    tell(&two);
    hear_that(&two, "cancelled");
    tell(&holder);
    hear_that(&holder, "ok");
    snprintf(text, sizeof text, "%s", hear(&two));
    assert_int_equal(end_by(&two, SIGKILL), 128 + SIGKILL);
    is_kept_until_it_is_adopted();
    end_by(&holder, SIGKILL);
}

/* A renewed one still ends with its process, at once. */
static void hold_and_stand(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_grant g;
    struct snib_error e = {0};
    say_error(acquire(lock_of(c, false, 60000), 0, &g, &e), &e);
    await();
}

static void a_renewed_grant_ends_with_its_process(void **state)
{
    (void)state;
    struct process first = begin(hold_and_stand);
    hear_that(&first, "ok");
    assert_int_equal(end_by(&first, SIGKILL), 128 + SIGKILL);
    struct process other = begin(try_once);
    hear_that(&other, "ok");
    assert_int_equal(over(&other), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_dir)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest cases[] = {
        CASE(an_abandoned_grant_outlives_its_process),
        CASE(an_exported_grant_outlives_the_kill_of_its_process),
        CASE(a_fixed_lease_that_waited_behind_a_renewed_one),
        CASE(a_renewed_grant_ends_with_its_process),
    };
    return RUN(cases);
}
