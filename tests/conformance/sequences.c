/* Operations of several requests, and the end of a client (snib/event.h): on each
 * store, in threaded and in pull clients. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "snib/elect.h"
#include "snib/multi.h"
#include "snib/policy.h"
#include "snib/ring.h"
#include "snib/value.h"

enum { MANY = 12 };

/* No event comes before somebody waits for the lock. */
static void wait_until_it_waits(struct snib_client *c, bool pull,
                                struct snib_client *other, const char *name)
{
    struct snib_event ev;
    int64_t deadline = now_ms() + 10000;
    do {
        if (pull) {
            must(snib_client_process(c));
        }
        assert_false(snib_client_next(c, &ev, sizeof ev));
        assert_true(now_ms() < deadline);
        look_again_after_ms(1);
    } while (!waiters_of(other, name));
}

static void several_locks_are_waited_for_and_given_back(void **state)
{
    (void)state;
    if (has_a_majority()) {
        return; /* which has no queue */
    }
    for (int pull = 0; pull < 2; pull++) {
        struct snib_client *c = open_for(pull), *other = open_client();
        struct snib_lock *l[MANY], *theirs;
        struct snib_multi *m;
        struct snib_grant g[MANY], held;
        const char *name[MANY];
        uint64_t ticket;
        for (int i = 0; i < MANY; i++) {
            name[i] = fresh_name();
            l[i] = lock_with(c, name[i], NULL);
        }
        must(snib_multi_new(l, MANY, NULL, &m, NULL));
        theirs = lock_with(other, name[5], NULL);
        must(snib_try(theirs, NULL, &held, NULL));
        must_be(ANSWER(snib_multi_try, m, NULL, g), SNIB_ERR_BUSY);
        must_be(ANSWER(snib_multi_try_for, m, 1000, NULL, g), SNIB_ERR_TIMEOUT);
        must(snib_multi_acquire_start(m, NULL, g, NULL, &ticket, NULL));
        wait_until_it_waits(c, pull, other, name[5]);
        must(snib_release(theirs, held, NULL));
        must(answer(c, pull, SNIB_ERR_OK, &ticket));
        assert_true(snib_multi_held(m, g));
        assert_int_equal(holders_of(other, name[0]), 1);
        must(ANSWER(snib_multi_release, m, g));
        for (int i = 0; i < MANY; i++) {
            assert_int_equal(holders_of(other, name[i]), 0);
        }
        snib_multi_free(m);
        snib_client_free(c);
        snib_client_free(other);
    }
}

/* A quorum has no queue, and tries one by one. */
static void several_locks_are_tried(void **state)
{
    (void)state;
    for (int pull = 0; pull < 2; pull++) {
        struct snib_client *c = open_for(pull);
        struct snib_lock *l[3];
        struct snib_multi *m;
        struct snib_grant g[3];
        uint64_t ticket;
        for (int i = 0; i < 3; i++) {
            l[i] = lock_with(c, fresh_name(), NULL);
        }
        must(snib_multi_new(l, 3, NULL, &m, NULL));
        must(ANSWER(snib_multi_try, m, NULL, g));
        assert_true(snib_multi_held(m, g));
        must(ANSWER(snib_multi_release, m, g));
        must(ANSWER(snib_multi_acquire, m, NULL, g));
        must(ANSWER(snib_multi_release, m, g));
        snib_multi_free(m);
        snib_client_free(c);
    }
}

static int add_one(void *data, const struct snib_value *now,
                   struct snib_value_next *next)
{
    char *text = data;
    snprintf(text, 16, "%d", now->size ? atoi(now->bytes) + 1 : 1);
    *next = (struct snib_value_next){.bytes = text, .size = strlen(text)};
    return 0;
}

static void updates_at_once_lose_nothing(void **state)
{
    (void)state;
    if (has_a_majority()) {
        return; /* which keeps no values */
    }
    for (int pull = 0; pull < 2; pull++) {
        const char *name = fresh_name();
        struct snib_client *c = open_for(pull), *other = open_client();
        struct snib_value *v;
        char text[MANY][16];
        int64_t version[MANY];
        for (int i = 0; i < MANY; i++) {
            must(snib_value_update_start(c, name, 0, NULL, add_one, text[i],
                                         NULL, &version[i], NULL, NULL, NULL));
        }
        for (int i = 0; i < MANY; i++) {
            must(event_of(c, pull).error.code);
        }
        must(snib_value_get(other, name, 0, &v, NULL));
        assert_int_equal(atoi(v->bytes), MANY);
        snib_value_free(v);
        snib_client_free(c);
        snib_client_free(other);
    }
}

static void a_ring_is_joined_and_left(void **state)
{
    (void)state;
    if (has_a_majority()) {
        return; /* which has no readers */
    }
    for (int pull = 0; pull < 2; pull++) {
        const char *name = fresh_name();
        struct snib_client *c = open_for(pull), *other = open_client();
        struct snib_ring_membership *p, *twin;
        struct snib_ring *r;
        uint64_t ticket;
        must(ANSWER(snib_ring_join, c, name, 0, "a", NULL, &p));
        must_be(ANSWER(snib_ring_try, c, name, 0, "a", NULL, &twin),
                SNIB_ERR_BUSY);
        assert_null(twin);
        must(snib_ring_read(other, name, 0, &r, NULL));
        assert_int_equal(snib_ring_count(r), 1);
        assert_true(snib_ring_mine(p, r, "key", 3));
        snib_ring_free(r);
        must(ANSWER(snib_ring_leave, p));
        must(snib_ring_read(other, name, 0, &r, NULL));
        assert_int_equal(snib_ring_count(r), 0);
        snib_ring_free(r);
        snib_client_free(c);
        snib_client_free(other);
    }
}

static int body(void *data, struct snib_grant g)
{
    *(bool *)data = g.ticket != 0;
    return 3;
}

static void a_policy_and_a_watch_are_started(void **state)
{
    (void)state;
    for (int pull = 0; pull < 2; pull++) {
        struct snib_client *c = open_for(pull), *other = open_client();
        struct snib_policy policy = SNIB_INIT(snib_policy);
        const char *name = fresh_name();
        struct snib_elect *mine, *theirs;
        struct snib_leader *leader;
        bool held = false;
        int result = 0;
        int64_t term;
        uint64_t ticket;
        policy.key = fresh_name();
        must(ANSWER(snib_policy_run, c, &policy, NULL, body, &held, &result));
        assert_true(held);
        assert_int_equal(result, 3);
        assert_int_equal(holders_of(other, policy.key), 0);
        must(snib_elect_new(c, name, NULL, &mine, NULL));
        must(snib_elect_new(other, name, NULL, &theirs, NULL));
        must_be(ANSWER(snib_elect_watch_for, mine, 0, 50, &leader),
                SNIB_ERR_TIMEOUT);
        must(snib_elect_watch_start(mine, 0, &leader, NULL, &ticket, NULL));
        must(snib_elect_try(theirs, &term, NULL));
        must(answer(c, pull, SNIB_ERR_OK, &ticket));
        assert_int_equal(leader->term, term);
        snib_leader_free(leader);
        snib_elect_free(mine);
        snib_elect_free(theirs);
        snib_client_free(c);
        snib_client_free(other);
    }
}

/* What was held is free when the event comes, and free waits for nothing. */
static void a_client_is_stopped_by_a_start(void **state)
{
    (void)state;
    for (int pull = 0; pull < 2; pull++) {
        const char *name = fresh_name();
        struct snib_client *c = open_for(pull), *other = open_client();
        struct snib_lock *l = lock_with(c, name, NULL);
        struct snib_event ev;
        uint64_t ticket;
        must(snib_try_start(l, NULL, NULL, NULL, NULL));
        assert_int_equal(event_of(c, pull).kind, SNIB_EVENT_GRANTED);
        must(snib_client_stop_start(c, NULL, &ticket, NULL));
        do {
            ev = event_of(c, pull);
        } while (ev.kind != SNIB_EVENT_DONE);
        assert_int_equal(ev.grant.ticket, ticket);
        must(ev.error.code);
        assert_int_equal(holders_of(other, name), 0);
        int64_t began = now_ms();
        snib_client_free(c);
        assert_true(now_ms() - began < slack_ms());
        snib_client_free(other);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest sequences[] = {
        cmocka_unit_test(several_locks_are_waited_for_and_given_back),
        cmocka_unit_test(several_locks_are_tried),
        cmocka_unit_test(updates_at_once_lose_nothing),
        cmocka_unit_test(a_ring_is_joined_and_left),
        cmocka_unit_test(a_policy_and_a_watch_are_started),
        cmocka_unit_test(a_client_is_stopped_by_a_start),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(sequences, NULL, NULL);
}
