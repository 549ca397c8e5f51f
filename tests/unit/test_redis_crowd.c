/* tests/unit/test_redis_crowd.c — what many tasks ask for meanwhile travels in one packet. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_packet.h"
#include "redis_session.h"

/* -- a crowd ----------------------------------------------------------------- */

enum { MANY = 12 };
static struct snib__request many[MANY];

/* As many as a crowd are under way, each in a packet of its own; the others have
 * come since. */
static void crowd(void)
{
    known();
    for (int i = 0; i < MANY; i++) {
        many[i] = asked();
        many[i].said.reterr = NULL;
        start(&many[i]);
        if (i < CROWD) {
            hears_packet(&many[i], "1790000010200");
        }
    }
    assert_false(heard(CALLERS));
}

static void hears_together(int from, int to)
{
    hears("MULTI");
    for (int i = from; i < to; i++) {
        hears("SET");
        assert_memory_equal(word[2], hex_of(&many[i]), 32);
    }
    hears("XADD");
    hears("EXEC");
    assert_false(heard(CALLERS));
}

static void what_a_crowd_asks_for_meanwhile_travels_together(void **state)
{
    (void)state;
    crowd();
    say(CALLERS, QUEUED SET_OK);
    answered(&many[0], SNIB__DONE);
    hears_together(CROWD, MANY);
    assert_int_equal(ops->due(store).ns, /* nothing is collected any more */
                     snib__after(now, snib__ms(PATIENCE / 4)).ns);
}

static void what_is_collected_waits_for_some_milliseconds(void **state)
{
    (void)state;
    crowd();
    assert_int_equal(ops->due(store).ns,
                     snib__after(now, snib__ms(COLLECT_MS)).ns);
    pass(COLLECT_MS);
    hears_together(CROWD, MANY);
}

static void what_fills_a_packet_goes_at_once(void **state)
{
    (void)state;
    static struct snib__request more[PACKET_MAX];
    known();
    for (int i = 0; i < CROWD; i++) {
        many[i] = asked();
        many[i].said.reterr = NULL;
        start(&many[i]);
        hears_packet(&many[i], "1790000010200");
    }
    for (int i = 0; i < PACKET_MAX; i++) {
        assert_false(heard(CALLERS));
        more[i] = asked();
        more[i].said.reterr = NULL;
        start(&more[i]);
    }
    hears("MULTI");
    for (int i = 0; i < PACKET_MAX; i++) {
        hears("SET");
        assert_memory_equal(word[2], hex_of(&more[i]), 32);
    }
    hears("XADD");
    hears("EXEC");
    assert_false(heard(CALLERS));
}

/* One whose limit comes sooner takes the others along. */
static void who_has_no_time_is_not_kept_back(void **state)
{
    (void)state;
    crowd();
    struct snib__request rq = asked();
    rq.limit = snib__after(now, snib__ms(COLLECT_MS));
    start(&rq);
    hears("MULTI");
    for (int i = CROWD; i < MANY; i++) {
        hears("SET");
        assert_memory_equal(word[2], hex_of(&many[i]), 32);
    }
    hears("SET");
    assert_memory_equal(word[2], hex_of(&rq), 32);
    hears("XADD");
    hears("EXEC");
    assert_false(heard(CALLERS));
}

/* The process stood still meanwhile. It is not the connection that lacks; by that
 * mark the core knows what it is told of. */
static void who_was_kept_back_too_long_is_told_so(void **state)
{
    (void)state;
    crowd();
    struct snib__request rq = asked();
    rq.limit = snib__after(now, snib__ms(COLLECT_MS + 1));
    start(&rq);
    assert_false(heard(CALLERS));
    now = snib__after(now, snib__ms(COLLECT_MS + 7));
    input(0, SNIB__IN_TICK, NULL, 0);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_true(rq.exec.blocked);
    assert_int_equal(rq.exec.blocked_since.ns,
                     snib__before(now, snib__ms(COLLECT_MS + 7)).ns);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(rq.said.reterr->text,
                        "not sent for 12 ms, as other requests of this client "
                        "are not answered");
    hears_together(CROWD, MANY);
}

static void releases(struct snib__request r[], int count)
{
    for (int i = 0; i < count; i++) {
        r[i] = request(SNIB__RELEASE);
        r[i].id[1] = many[i].id[1];
        r[i].token = many[i].token;
        r[i].thin = true;
        r[i].said.reterr = NULL;
    }
}

static void releases_travel_together_ahead_of_acquires(void **state)
{
    (void)state;
    static struct snib__request r[3];
    struct snib__list chain;
    crowd();
    for (int i = 0; i < 3; i++) {
        say(CALLERS, QUEUED SET_OK);
        answered(&many[i], SNIB__DONE);
    }
    hears_together(CROWD, MANY);
    pass(COLLECT_MS);
    struct snib__request rq = asked();
    rq.said.reterr = NULL;
    releases(r, 3);
    snib__list_init(&chain);
    snib__link_init(&rq.link);
    snib__list_push(&chain, &rq.link);
    for (int i = 0; i < 3; i++) {
        snib__link_init(&r[i].link);
        snib__list_push(&chain, &r[i].link);
    }
    ops->start(store, now, &chain);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_DROP);
    assert_int_equal(words, 3 + 3 + 3);
    assert_string_equal(word[2], "3");
    for (int i = 0; i < 3; i++) {
        assert_string_equal(word[3 + i], "snib:{n}");
        assert_string_equal(word[6 + i], hex_of(&r[i]));
    }
    hears("MULTI");
    hears("SET");
    assert_memory_equal(word[2], hex_of(&rq), 32);
    hears("XADD");
    hears("EXEC");
    for (int i = 3; i < CROWD; i++) {
        say(CALLERS, QUEUED SET_OK);
        answered(&many[i], SNIB__DONE);
    }
    say(CALLERS, QUEUED "+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*5\r\n+OK\r\n+OK"
                        "\r\n+OK\r\n+OK\r\n$15\r\n" MARK_AT "-8\r\n");
    for (int i = CROWD; i < MANY; i++) {
        answered(&many[i], SNIB__DONE);
    }
    /* One is ended, one is a hash by now, of one nobody knows. */
    say(CALLERS, "*3\r\n:1\r\n:0\r\n-NOPERM x\r\n");
    answered(&r[0], SNIB__DONE);
    answered(&r[2], SNIB__NOT_APPLIED);
    assert_int_equal(r[2].said.err, SNIB_ERR_DENIED);
    silence();
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    assert_string_equal(word[12], hex_of(&r[1]));
}

/* So many names of the longest fill no buffer. */
static void releases_of_long_names_are_parted(void **state)
{
    (void)state;
    static struct snib__request r[DROPS_MAX];
    struct snib__list chain;
    struct snib__name *longest;
    char text[SNIB_NAME_MAX];
    int told = 0, calls = 0;
    known();
    memset(text, '%', sizeof text);
    assert_int_equal(snib__name_new(text, sizeof text, &longest, NULL),
                     SNIB_ERR_OK);
    snib__list_init(&chain);
    for (int i = 0; i < DROPS_MAX; i++) {
        r[i] = request(SNIB__RELEASE);
        r[i].name = longest;
        r[i].thin = true;
        snib__link_init(&r[i].link);
        snib__list_push(&chain, &r[i].link);
    }
    ops->start(store, now, &chain);
    for (; told < DROPS_MAX; calls++) {
        assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_DROP);
        told += (int)strtol(word[2], NULL, 10);
        assert_int_equal(words, 3 + 2 * strtol(word[2], NULL, 10));
        assert_in_range(strtol(word[2], NULL, 10), 1,
                        RENEWALS_BYTES / (3 * SNIB_NAME_MAX));
    }
    assert_int_equal(told, DROPS_MAX);
    assert_false(heard(CALLERS));
    tear_down(state);
    snib__free(longest);
    set_up(state);
}

/* A lost connection may leave a copy: the release is a whole one. */
static void after_a_loss_a_release_leaves_a_tombstone(void **state)
{
    (void)state;
    known();
    struct snib__request rq = asked(), r;
    start(&rq);
    hears_packet(&rq, "1790000010200");
    closed(CALLERS);
    answered(&rq, SNIB__UNKNOWN);
    pass(100);
    rq.resent = true;
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 2000);
    answered(&rq, SNIB__DONE);
    r = request(SNIB__RELEASE);
    r.id[1] = rq.id[1];
    r.token = 2000;
    r.thin = true;
    start(&r);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    assert_string_equal(word[2], "9");
    assert_string_equal(word[15], "1");
    /* Until the latest not_after that was written. */
    assert_true(strtoll(word[16], NULL, 10) >= INT64_C(1790000010200));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(what_a_crowd_asks_for_meanwhile_travels_together),
        CASE(what_is_collected_waits_for_some_milliseconds),
        CASE(what_fills_a_packet_goes_at_once),
        CASE(who_has_no_time_is_not_kept_back),
        CASE(who_was_kept_back_too_long_is_told_so),
        CASE(releases_travel_together_ahead_of_acquires),
        CASE(releases_of_long_names_are_parted),
        CASE(after_a_loss_a_release_leaves_a_tombstone),
    };
    return RUN(cases);
}

#endif
