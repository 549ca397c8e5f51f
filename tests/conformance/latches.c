/* Latches and barriers: one set of cases for every store, through the public
 * interface only (snib/latch.h). Barriers as a kind of lock are in kinds.c. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/test.h"

static uint32_t left_of(struct snib_client *c, const char *name)
{
    uint32_t left = 0;
    must(snib_latch_left(c, name, 0, &left, NULL));
    return left;
}

/* -- something in a thread of its own -------------------------------------- */

enum what { AWAIT, MEET, COUNT_DOWN };

struct deed {
    pthread_t thread;
    enum what what;
    struct snib_client *client;
    const char *name;
    uint32_t parties;
    int after_ms;
    int64_t wait_ms, ended_ms, generation;
    snib_err err;
    atomic_int done;
};

static void *do_deed(void *arg)
{
    struct deed *d = arg;
    switch (d->what) {
    case AWAIT:
        d->err = snib_latch_try_for(d->client, d->name, 0, d->wait_ms, NULL);
        break;
    case MEET:
        d->err = snib_barrier_try_for(d->client, d->name, 0, d->parties,
                                      d->wait_ms, &d->generation, NULL);
        break;
    case COUNT_DOWN: /* timed, to measure how soon it is noticed */
        poll(NULL, 0, d->after_ms);
        d->err = snib_latch_count_down(d->client, d->name, 0, 1, NULL, NULL);
        break;
    }
    d->ended_ms = now_ms();
    atomic_store(&d->done, 1);
    return NULL;
}

static void begin(struct deed *d)
{
    atomic_init(&d->done, 0);
    assert_int_equal(pthread_create(&d->thread, NULL, do_deed, d), 0);
}

static snib_err end_of(struct deed *d)
{
    assert_int_equal(pthread_join(d->thread, NULL), 0);
    return d->err;
}

/* -- latches --------------------------------------------------------------- */

static void an_absent_latch_is_open(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    const char *name = fresh_name();
    uint32_t left = 9;
    int64_t began = now_ms();
    assert_int_equal(left_of(c, name), 0);
    must(snib_latch_await(c, name, 0, NULL));
    must(snib_latch_try(c, name, 0, NULL));
    must(snib_latch_count_down(c, name, 0, 1, &left, NULL));
    assert_int_equal(left, 0);
    must(snib_latch_open(c, name, 0, NULL));
    must(snib_latch_await(c, name, 0, NULL));
    assert_true(now_ms() - began < slack_ms());
    snib_client_free(c);
}

static void a_latch_is_set_once_and_again_when_it_was_open(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    bool set = false;
    uint32_t left;
    must(snib_latch_set(c, name, 0, 2, &set, NULL));
    assert_true(set);
    must(snib_latch_set(d, name, 0, 10, &set, NULL));
    assert_false(set);
    assert_int_equal(left_of(d, name), 2);
    must(snib_latch_count_down(d, name, 0, 1, &left, NULL));
    assert_int_equal(left, 1);
    must(snib_latch_count_down(c, name, 0, 5, &left, NULL));
    assert_int_equal(left, 0);
    must(snib_latch_set(d, name, 0, 3, &set, NULL));
    assert_true(set);
    assert_int_equal(left_of(c, name), 3);
    must(snib_latch_open(c, name, 0, NULL));
    assert_int_equal(left_of(d, name), 0);
    must_be(snib_latch_set(c, name, 0, 0, NULL, NULL), SNIB_ERR_USAGE);
    must_be(snib_latch_set(c, name, 0, SNIB_PERMITS_MAX + 1u, NULL, NULL),
            SNIB_ERR_USAGE);
    must_be(snib_latch_count_down(c, name, 0, 0, NULL, NULL), SNIB_ERR_USAGE);
    snib_client_free(c);
    snib_client_free(d);
}

static void await_returns_when_the_last_step_is_counted(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    must(snib_latch_set(c, name, 0, 1, NULL, NULL));
    must_be(snib_latch_try(c, name, 0, NULL), SNIB_ERR_BUSY);
    struct deed down = {
        .what = COUNT_DOWN, .client = d, .name = name, .after_ms = 500};
    begin(&down);
    int64_t began = now_ms();
    must(snib_latch_try_for(c, name, 0, 550 + slack_ms(), NULL));
    int64_t took = now_ms() - began;
    must(end_of(&down));
    assert_true(took >= 480 && now_ms() - down.ended_ms < slack_ms());
    snib_client_free(c);
    snib_client_free(d);
}

static void await_ends_at_its_limit_when_that_comes_first(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    must(snib_latch_set(c, name, 0, 1, NULL, NULL));
    struct deed down = {
        .what = COUNT_DOWN, .client = d, .name = name, .after_ms = 1000};
    begin(&down);
    int64_t began = now_ms();
    snib_err err = snib_latch_try_for(c, name, 0, 500, NULL);
    int64_t ended = now_ms();
    must(end_of(&down));
    if (ended < down.ended_ms) { /* else the machine was too slow */
        must_be(err, SNIB_ERR_TIMEOUT);
        assert_true(ended - began >= 495);
    }
    wait_for_fewer_waiters(c, name, 0);
    assert_int_equal(left_of(c, name), 0);
    snib_client_free(c);
    snib_client_free(d);
}

static void all_who_wait_pass(void **state)
{
    (void)state;
    enum { N = 5 };
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d[N];
    struct deed t[N];
    must(snib_latch_set(c, name, 0, 2, NULL, NULL));
    for (int i = 0; i < N; i++) {
        d[i] = open_client();
        t[i] = (struct deed){
            .what = AWAIT, .client = d[i], .name = name, .wait_ms = 20000};
        begin(&t[i]);
    }
    wait_for_waiters(c, name, N);
    must(snib_latch_count_down(c, name, 0, 1, NULL, NULL));
    assert_int_equal(waiters_of(c, name), N);
    int64_t opened = now_ms();
    must(snib_latch_count_down(c, name, 0, 1, NULL, NULL));
    for (int i = 0; i < N; i++) {
        must(end_of(&t[i]));
        assert_true(t[i].ended_ms - opened < slack_ms());
        snib_client_free(d[i]);
    }
    snib_client_free(c);
}

static void threads_of_one_client_pass_together(void **state)
{
    (void)state;
    enum { N = 5 };
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct deed t[N];
    must(snib_latch_set(c, name, 0, 1, NULL, NULL));
    for (int i = 0; i < N; i++) {
        t[i] = (struct deed){
            .what = AWAIT, .client = c, .name = name, .wait_ms = 20000};
        begin(&t[i]);
    }
    wait_for_waiters(c, name, N);
    must(snib_latch_open(c, name, 0, NULL));
    for (int i = 0; i < N; i++) {
        must(end_of(&t[i]));
    }
    snib_client_free(c);
}

static void steps_counted_side_by_side_are_all_counted(void **state)
{
    (void)state;
    enum { N = 8 };
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d[N];
    struct deed t[N];
    must(snib_latch_set(c, name, 0, N + 1, NULL, NULL));
    for (int i = 0; i < N; i++) {
        d[i] = open_client();
        t[i] = (struct deed){.what = COUNT_DOWN, .client = d[i], .name = name};
        begin(&t[i]);
    }
    for (int i = 0; i < N; i++) {
        must(end_of(&t[i]));
        snib_client_free(d[i]);
    }
    assert_int_equal(left_of(c, name), 1);
    must_be(snib_latch_try(c, name, 0, NULL), SNIB_ERR_BUSY);
    must(snib_latch_count_down(c, name, 0, 1, NULL, NULL));
    must(snib_latch_try(c, name, 0, NULL));
    snib_client_free(c);
}

static void a_step_whose_reply_is_lost_counts_once(void **state)
{
    (void)state;
    skip_where_no_reply_is_lost();
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_error e;
    must(snib_latch_set(c, name, 0, 10, NULL, NULL));
    must(snib_test_drop_replies(c, 1));
    snib_err err = snib_latch_count_down(c, name, 0, 1, NULL, &e);
    assert_true(err == SNIB_ERR_OK || err == SNIB_ERR_UNKNOWN);
    assert_int_equal(left_of(d, name), 9);
    snib_client_free(c);
    snib_client_free(d);
}

static void a_closed_latch_keeps_the_lock_closed(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = lock_with(c, name, NULL);
    struct snib_grant g;
    must(snib_latch_set(d, name, 0, 1, NULL, NULL));
    must_be(acquire_for(l, 0, &g), SNIB_ERR_BUSY);
    struct task t = {0};
    start(&t, l, 20000);
    wait_for_waiters(d, name, 1);
    must(snib_latch_count_down(d, name, 0, 1, NULL, NULL));
    must(join(&t)->err);
    must(snib_release(l, t.grant, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

/* -- barriers -------------------------------------------------------------- */

static void
a_barrier_lets_each_group_pass_with_a_generation_of_its_own(void **state)
{
    (void)state;
    enum { N = 3 };
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d[N];
    int64_t last = 0;
    for (int i = 0; i < N; i++) {
        d[i] = open_client();
    }
    for (int round = 0; round < 3; round++) {
        struct deed t[N];
        for (int i = 0; i < N; i++) {
            t[i] = (struct deed){.what = MEET,
                                 .client = d[i],
                                 .name = name,
                                 .parties = N,
                                 .wait_ms = 20000};
            if (i == N - 1) {
                wait_for_waiters(c, name, N - 1);
                assert_false(atomic_load(&t[0].done));
                assert_false(atomic_load(&t[1].done));
            }
            begin(&t[i]);
        }
        for (int i = 0; i < N; i++) {
            must(end_of(&t[i]));
            assert_int_equal(t[i].generation, t[0].generation);
        }
        assert_true(t[0].generation > last);
        last = t[0].generation;
    }
    for (int i = 0; i < N; i++) {
        snib_client_free(d[i]);
    }
    snib_client_free(c);
}

/* More than are looked at one by one, of few clients: each of them has many
 * parties in one queue, and hears of all at once. */
static void a_hundred_parties_of_four_clients_meet(void **state)
{
    (void)state;
    enum { N = 100, CLIENTS = 4 };
    const char *name = fresh_name();
    struct snib_client *c[CLIENTS];
    int64_t generation;
    for (int i = 0; i < CLIENTS; i++) {
        c[i] = open_client();
    }
    for (int i = 0; i < N - 1; i++) {
        must(snib_barrier_wait_start(c[i % CLIENTS], name, 0, N, NULL, NULL,
                                     NULL));
    }
    wait_for_waiters(c[0], name, N - 1);
    must(snib_barrier_try_for(c[0], name, 0, N, 10000, &generation, NULL));
    for (int i = 0; i < N - 1; i++) {
        struct snib_event ev = next_event(c[i % CLIENTS]);
        assert_int_equal(ev.kind, SNIB_EVENT_PASSED);
        assert_int_equal(ev.grant.token, generation);
    }
    wait_for_fewer_waiters(c[0], name, 0);
    for (int i = 0; i < CLIENTS; i++) {
        snib_client_free(c[i]);
    }
}

static void a_party_that_gives_up_is_not_counted(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    must_be(snib_barrier_try_for(c, name, 0, 2, 1000, NULL, NULL),
            SNIB_ERR_TIMEOUT);
    wait_for_fewer_waiters(d, name, 0);
    must_be(snib_barrier_try_for(d, name, 0, 2, 1000, NULL, NULL),
            SNIB_ERR_TIMEOUT);
    wait_for_fewer_waiters(d, name, 0);
    struct deed t = {.what = MEET,
                     .client = c,
                     .name = name,
                     .parties = 2,
                     .wait_ms = 20000};
    begin(&t);
    must(snib_barrier_try_for(d, name, 0, 2, 20000, NULL, NULL));
    must(end_of(&t));
    snib_client_free(c);
    snib_client_free(d);
}

static void write_something(struct snib_client *c)
{
    struct snib_lock *l;
    struct snib_grant g;
    must(snib_lock_new(c, fresh_name(), NULL, &l, NULL));
    must(snib_try(l, NULL, &g, NULL));
    must(snib_release(l, g, NULL));
    snib_lock_free(l);
}

static void a_party_that_died_is_not_counted(void **state)
{
    (void)state;
    skip_in_one_process();
    skip_where_the_dead_count();
    const char *name = fresh_name();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct snib_client *mine = open_client();
        snib_err err =
            snib_barrier_try_for(mine, name, 0, 2, 20000, NULL, NULL);
        _exit(err ? 1 : 0);
    }
    struct snib_client *c = open_client(), *d = open_client();
    wait_for_waiters(c, name, 1);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    /* A server that has answered twice since has seen that the connections of
     * the dead process ended; but if it shows what is not on its disk yet, only
     * once that is there, as what is written behind it. */
    write_something(c);
    waiters_of(c, name);
    waiters_of(c, name);
    struct deed t = {.what = MEET,
                     .client = c,
                     .name = name,
                     .parties = 2,
                     .wait_ms = 20000};
    begin(&t);
    int64_t generation;
    must(snib_barrier_try_for(d, name, 0, 2, 20000, &generation, NULL));
    must(end_of(&t));
    assert_int_equal(t.generation, generation); /* these two met */
    snib_client_free(c);
    snib_client_free(d);
}

/* A party that does not wait passes when it is the last to come. */
static void a_party_that_does_not_wait_passes_last(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    int64_t theirs = 0, mine = 0;
    must_be(snib_barrier_try(d, name, 0, 2, &mine, NULL), SNIB_ERR_BUSY);
    must_be(snib_barrier_try_for(d, name, 0, 2, -1, &mine, NULL),
            SNIB_ERR_BUSY);
    wait_for_fewer_waiters(d, name, 0);
    struct deed t = {.what = MEET,
                     .client = c,
                     .name = name,
                     .parties = 2,
                     .wait_ms = 20000};
    begin(&t);
    wait_for_waiters(d, name, 1);
    must(snib_barrier_try(d, name, 0, 2, &mine, NULL));
    must(end_of(&t));
    theirs = t.generation;
    assert_int_equal(mine, theirs);
    must_be(snib_barrier_try(d, name, 0, 2, &mine, NULL), SNIB_ERR_BUSY);
    snib_client_free(c);
    snib_client_free(d);
}

/* Who waits at a lower priority is not ahead of a party. */
static void a_party_passes_ahead_of_a_lower_priority(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client(),
                       *e = open_client();
    struct snib_lock_options o = terms(SNIB_KIND_MUTEX, 0, 0);
    o.priority = -1;
    struct snib_lock *low = lock_with(e, name, &o);
    struct deed t = {.what = MEET,
                     .client = c,
                     .name = name,
                     .parties = 2,
                     .wait_ms = 20000};
    struct task behind = {0};
    int64_t mine = 0;
    begin(&t);
    wait_for_waiters(d, name, 1);
    start(&behind, low, 20000);
    wait_for_waiters(d, name, 2);
    must(snib_barrier_try(d, name, 0, 2, &mine, NULL));
    must(end_of(&t));
    assert_int_equal(mine, t.generation);
    must(join(&behind)->err);
    must(snib_release(low, behind.grant, NULL));
    snib_client_free(c);
    snib_client_free(d);
    snib_client_free(e);
}

static void what_cannot_meet_is_refused(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    int64_t one = 0, two = 0;
    must_be(snib_barrier_try_for(c, name, 0, 0, 100, NULL, NULL),
            SNIB_ERR_USAGE);
    must(snib_barrier_try_for(c, name, 0, 1, 5000, &one, NULL));
    must(snib_barrier_try_for(c, name, 0, 1, 5000, &two, NULL));
    assert_true(two > one);
    snib_client_free(c);
}

/* -- waits that were started ----------------------------------------------- */

/* Wait until nobody holds the name any more: its grant ends without a release
 * by the caller. */
static void wait_until_let_go(struct snib_client *c, const char *name)
{
    int64_t until = now_ms() + 5000;
    size_t holders = 1;
    while (holders) {
        struct snib_view *v;
        must(snib_client_inspect(c, name, 0, &v, NULL));
        holders = v->holder_count;
        snib_view_free(v);
        assert_true(now_ms() < until);
    }
}

static void a_started_await_is_answered_when_the_latch_opens(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    uint64_t ticket;
    int mark;
    must(snib_latch_set(c, name, 0, 1, NULL, NULL));
    must(snib_latch_await_start(d, name, 0, &mark, &ticket, NULL));
    wait_for_waiters(c, name, 1);
    struct snib_event ev;
    assert_false(snib_client_next(d, &ev, sizeof ev));
    must(snib_latch_count_down(c, name, 0, 1, NULL, NULL));
    ev = next_event(d);
    assert_int_equal(ev.kind, SNIB_EVENT_PASSED);
    assert_ptr_equal(ev.user, &mark);
    assert_true(ev.grant.ticket == ticket);
    wait_until_let_go(c, name);
    /* An open latch is passed at once, and no event is left over. */
    must(snib_latch_try_start(d, name, 0, NULL, NULL, NULL));
    assert_int_equal(next_event(d).kind, SNIB_EVENT_PASSED);
    wait_until_let_go(c, name);
    assert_false(snib_client_next(d, &ev, sizeof ev));
    snib_client_free(c);
    snib_client_free(d);
}

/* UNKNOWN: others see it wait before its own client has been told so. */
static void must_be_cancelled(const struct snib_event *ev)
{
    assert_int_equal(ev->kind, SNIB_EVENT_REFUSED);
    assert_true(ev->error.code == SNIB_ERR_CANCELLED ||
                ev->error.code == SNIB_ERR_UNKNOWN);
}

static void a_started_await_is_refused_in_its_event(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    uint64_t ticket = 7;
    must(snib_latch_set(c, name, 0, 1, NULL, NULL));
    must(snib_latch_try_start(c, name, 0, NULL, NULL, NULL));
    must_be(next_event(c).error.code, SNIB_ERR_BUSY);
    must(snib_latch_try_for_start(c, name, 0, 50, NULL, NULL, NULL));
    must_be(next_event(c).error.code, SNIB_ERR_TIMEOUT);
    must(snib_latch_await_start(c, name, 0, NULL, &ticket, NULL));
    wait_for_waiters(c, name, 1);
    snib_client_cancel(c, ticket);
    struct snib_event ev = next_event(c);
    must_be_cancelled(&ev);
    wait_for_fewer_waiters(c, name, 0);
    must_be(snib_latch_try_start(c, "", 0, NULL, &ticket, NULL),
            SNIB_ERR_USAGE);
    assert_true(ticket == 0);
    assert_false(snib_client_next(c, &ev, sizeof ev));
    snib_client_free(c);
}

static void
started_parties_meet_and_one_that_cancels_is_not_counted(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    uint64_t ticket;
    int64_t generation;
    must(snib_barrier_wait_start(c, name, 0, 2, NULL, &ticket, NULL));
    wait_for_waiters(d, name, 1);
    snib_client_cancel(c, ticket);
    struct snib_event ev = next_event(c);
    must_be_cancelled(&ev);
    wait_for_fewer_waiters(d, name, 0);
    must(snib_barrier_try_start(c, name, 0, 2, NULL, NULL, NULL));
    ev = next_event(c);
    must_be(ev.error.code, SNIB_ERR_BUSY);
    must(snib_barrier_wait_start(c, name, 0, 2, NULL, NULL, NULL));
    must(snib_barrier_try_for(d, name, 0, 2, 20000, &generation, NULL));
    ev = next_event(c);
    assert_int_equal(ev.kind, SNIB_EVENT_PASSED);
    assert_int_equal(ev.grant.token, generation);
    wait_until_let_go(d, name);
    snib_client_free(c);
    snib_client_free(d);
}

static void a_client_may_go_with_waits_under_way_and_events_unread(void **state)
{
    (void)state;
    const char *name = fresh_name(), *open = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    must(snib_latch_set(c, name, 0, 1, NULL, NULL));
    must(snib_latch_await_start(d, name, 0, NULL, NULL, NULL));
    must(snib_latch_await_start(d, open, 0, NULL, NULL, NULL));
    wait_for_waiters(c, name, 1);
    snib_client_free(d);
    wait_for_fewer_waiters(c, name, 0);
    wait_until_let_go(c, open);
    snib_client_free(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_absent_latch_is_open),
        cmocka_unit_test(a_latch_is_set_once_and_again_when_it_was_open),
        cmocka_unit_test(await_returns_when_the_last_step_is_counted),
        cmocka_unit_test(await_ends_at_its_limit_when_that_comes_first),
        cmocka_unit_test(all_who_wait_pass),
        cmocka_unit_test(threads_of_one_client_pass_together),
        cmocka_unit_test(steps_counted_side_by_side_are_all_counted),
        cmocka_unit_test(a_step_whose_reply_is_lost_counts_once),
        cmocka_unit_test(a_closed_latch_keeps_the_lock_closed),
        cmocka_unit_test(
            a_barrier_lets_each_group_pass_with_a_generation_of_its_own),
        cmocka_unit_test(a_hundred_parties_of_four_clients_meet),
        cmocka_unit_test(a_party_that_gives_up_is_not_counted),
        cmocka_unit_test(a_party_that_died_is_not_counted),
        cmocka_unit_test(a_party_that_does_not_wait_passes_last),
        cmocka_unit_test(a_party_passes_ahead_of_a_lower_priority),
        cmocka_unit_test(what_cannot_meet_is_refused),
        cmocka_unit_test(a_started_await_is_answered_when_the_latch_opens),
        cmocka_unit_test(a_started_await_is_refused_in_its_event),
        cmocka_unit_test(
            started_parties_meet_and_one_that_cancels_is_not_counted),
        cmocka_unit_test(
            a_client_may_go_with_waits_under_way_and_events_unread),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
