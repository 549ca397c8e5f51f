/* tests/unit/test_run_room.c — more requests are unanswered than a client
 * keeps in flight: who would send one more waits for room, up to its limit.
 * labels: thread
 *
 * memory: answers at once; so the test says how many are unanswered. */
#include "run_memory.h"

#include "api/api.h"

static void unanswered(struct snib_client *c, uint32_t count)
{
    pthread_mutex_lock(&c->mu);
    c->sock.v[0]->awaited = count;
    snib__socks_put(&c->sock.awaited, 0, count);
    pthread_mutex_unlock(&c->mu);
}

static void
who_finds_no_room_by_its_limit_is_told_that_it_was_not_asked(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    unanswered(c, SNIB__FLIGHT_MAX - 1); /* for one there is room */
    assert_int_equal(acquire(l, 1000, &g), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    for (uint32_t more = 0; more < 2; more++) {
        unanswered(c, SNIB__FLIGHT_MAX + more);
        int64_t began = now_ms();
        assert_int_equal(acquire(l, 30, &g), SNIB_ERR_UNREACHABLE);
        assert_true(now_ms() - began >= 30);
        assert_string_equal(e.text, "not asked: 1024 requests are unanswered");
        assert_true(!g.ticket);
    }
    unanswered(c, 0); /* and nothing was: it is free */
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest run_room[] = {
        cmocka_unit_test_setup(
            who_finds_no_room_by_its_limit_is_told_that_it_was_not_asked,
            new_space),
    };
    return RUN(run_room);
}
