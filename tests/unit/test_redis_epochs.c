/* tests/unit/test_redis_epochs.c — store/redis and Sentinels that know of more
 * failovers or of fewer: which of them is believed. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_topology.h"

#define BEHIND                                                                 \
    "this Sentinel has not heard of the latest failover: it is not believed "  \
    "before it has"

/* This Sentinel, who knows of so many failovers, names the server of that
 * host. */
static void says(const char *sentinel, int epoch, const char *host)
{
    asked_for_epoch(sentinel, epoch);
    names(host, 6379);
}

/* … and others are asked, too. */
static void says_in_vain(const char *sentinel, int epoch, const char *host)
{
    says(sentinel, epoch, host);
    assert_false(out.conn[CALLERS]->open);
    left();
}

/* A grant at `a`, which failover 5 has made the primary; s2 is listened to. */
static void granted_after_five(void)
{
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    says_in_vain("s1:26379", 5, "a");
    says("s2:5", 5, "a");
    opens_to(CALLERS, "a:6379");
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    out.holds = true;
    out.moved = false;
}

/* The connection to the primary is lost, and somebody wants one. */
static struct snib__request doubted;

static void doubt(void)
{
    closed(CALLERS);
    doubted = request(SNIB__ACQUIRE);
    start(&doubted);
    left(); /* the Sentinel that was listened to */
}

static void more_than_half_are_asked(void **state)
{
    (void)state;
    granted_after_five();
    assert_true(out.conn[WATCH]->pushes);
    assert_false(out.conn[WATCH]->shut);
}

static void one_is_enough_of_one(void **state)
{
    tear_down(state);
    open_store("redis+sentinel://s1/svc");
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    says("s1:26379", 5, "a");
    opens_to(CALLERS, "a:6379");
}

/* Its host was away during the failover, and so was the old primary, which takes
 * itself for the primary. */
static void one_that_is_behind_is_asked_first(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    says_in_vain("s1:26379", 4, "old");
    says("s2:5", 5, "new");
    opens_to(CALLERS, "new:6379");
    silence();
}

static void one_that_is_behind_is_asked_last(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    says_in_vain("s1:26379", 5, "new");
    says_in_vain("s2:5", 4, "old");
    says("s3:26379", 10, "newer"); /* a number, not a text                  */
    opens_to(CALLERS, "newer:6379");
    silence();
}

static void the_best_of_those_that_answer_is_taken(void **state)
{
    (void)state;
    struct snib__request rq = once();
    start(&rq);
    says_in_vain("s1:26379", 5, "new");
    says_in_vain("s2:5", 4, "old");
    refused(WATCH); /* s3 */
    says("s1:26379", 5, "new");
    opens_to(CALLERS, "new:6379");
    silence();
}

static void fewer_than_half_are_enough_where_no_more_answer(void **state)
{
    (void)state;
    struct snib__request rq = once();
    start(&rq);
    refused(WATCH); /* s1 */
    says_in_vain("s2:5", 5, "a");
    refused(WATCH); /* s3 */
    refused(WATCH); /* s1 */
    says("s2:5", 5, "a");
    opens_to(CALLERS, "a:6379");
    silence();
}

/* And a primary that it names is not asked for locks. */
static void one_alone_that_is_behind_is_not_believed(void **state)
{
    (void)state;
    granted_after_five();
    doubt();
    doubted.limit = snib__after(now, snib__ms(500));
    refused(WATCH); /* s3 */
    for (int k = 0; k < 2; k++) {
        says_in_vain("s1:26379", 4, "old");
        refused(WATCH); /* s2 */
        if (k == 0) {
            refused(WATCH); /* s3 */
        }
    }
    struct snib__store_state is = {.nodes = 1};
    ops->state(store, now, &is);
    assert_int_equal(is.err, SNIB_ERR_STORE);
    assert_string_equal(is.text, "s1:26379: " BEHIND);
    assert_false(out.conn[CALLERS]->open);
    silence();
    assert_false(out.moved);
}

static void after_a_switch_the_others_are_behind(void **state)
{
    (void)state;
    granted_after_five();
    publishes("svc a 6379 b 6379");
    assert_true(out.moved);
    out.moved = false;
    closed(CALLERS);
    doubted = request(SNIB__ACQUIRE);
    start(&doubted);
    opens_to(CALLERS, "b:6379");
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    out.moved = false;
    closed(CALLERS);
    answered(&doubted, SNIB__UNKNOWN);
    start(&doubted);
    left();
    for (int k = 0; k < 2; k++) {
        says_in_vain("s3:26379", 5, "a");
        refused(WATCH); /* s1 */
        refused(WATCH); /* s2 */
    }
    pass(20);
    says_in_vain("s3:26379", 5, "a");
    says("s1:26379", 6, "b");
    pass(20);
    opens_to(CALLERS, "b:6379");
    assert_false(out.moved);
}

/* Only somebody to listen to is looked for, and one that is behind is not
 * followed. */
static void one_to_listen_to_must_not_be_behind(void **state)
{
    (void)state;
    granted_after_five();
    closed(WATCH);
    pass(20);
    says("s3:26379", 4, "old");
    assert_false(out.moved);
    assert_false(out.conn[CALLERS]->shut);
    left();
    pass(40);
    says("s1:26379", 4, "a"); /* it names the same one */
    assert_false(out.conn[WATCH]->shut);
    assert_true(out.conn[WATCH]->pushes);
    closed(WATCH);
    pass(80);
    says("s2:5", 6, "b");
    assert_true(out.moved);
    assert_true(out.conn[CALLERS]->shut);
}

/* The operator has removed and named the service anew at all of them. */
static void all_that_were_set_up_anew_are_believed(void **state)
{
    (void)state;
    granted_after_five();
    doubt();
    says_in_vain("s3:26379", 0, "z");
    says_in_vain("s1:26379", 0, "z");
    says_in_vain("s2:5", 0, "z");
    says("s3:26379", 0, "z");
    opens_to(CALLERS, "z:6379");
    assert_true(out.moved);
}

static void what_is_no_epoch_is_as_none(void **state)
{
    static const char *const odd[] = {
        "*0\r\n",
        "*-1\r\n",
        ":5\r\n",
        "+OK\r\n",
        "*1\r\n$12\r\nconfig-epoch\r\n",
        "*2\r\n$12\r\nconfig-epoch\r\n$2\r\n-2\r\n",
        "*2\r\n$12\r\nconfig-epoch\r\n$1\r\nx\r\n",
        "*2\r\n$12\r\nconfig-epoch\r\n*0\r\n",
        "*2\r\n$12\r\nconfig-epoch\r\n$19\r\n9223372036854775807\r\n",
        "-ERR unknown subcommand\r\n"};
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        tear_down(state);
        with_sentinels(state);
        struct snib__request rq = request(SNIB__ACQUIRE);
        start(&rq);
        opened(WATCH);
        say(WATCH, SENTINEL_HELLO);
        say(WATCH, odd[i]);
        names("a", 6379);
        opens_to(CALLERS, "a:6379");
        assert_int_equal(((struct snib__redis *)(void *)store)->topology->told,
                         EPOCH_NONE);
    }
}

/* -- what the doctor says ----------------------------------------------------- */

static const char *remedy_of(const char *url, int epoch, const char *host)
{
    static char text[400];
    struct snib__request rq = request(SNIB__ACQUIRE);
    void *state = NULL;
    tear_down(&state);
    open_store(url);
    start(&rq);
    if (epoch >= 0 && strchr(url, ',')) {
        says_in_vain("s1:26379", epoch, host);
        says("s2:5", epoch, host);
    } else {
        says("s1:26379", epoch, host);
    }
    const struct snib__redis *s = (struct snib__redis *)(void *)store;
    const char *remedy =
        snib__topology_words(s->topology, true, text, sizeof text);
    assert_non_null(strstr(text, host));
    assert_non_null(strstr(text, "says the Sentinel"));
    return remedy;
}

static void what_is_wrong_with_sentinels_is_said(void **state)
{
    char text[400];
    (void)state;
    assert_string_equal(remedy_of(SENTINELS, 5, "10.0.0.7"), "");
    assert_non_null(
        strstr(remedy_of(SENTINELS, -1, "10.0.0.7"), "+sentinel|master"));
    assert_non_null(strstr(remedy_of("redis+sentinel://s1/svc", 5, "10.0.0.7"),
                           "name all Sentinels"));
    assert_non_null(strstr(remedy_of(SENTINELS, 5, "127.0.0.1"),
                           "another server on each host"));
    assert_non_null(
        strstr(remedy_of(SENTINELS, 5, "::1"), "another server on each host"));
    assert_non_null(strstr(remedy_of(SENTINELS, 5, "localhost"),
                           "another server on each host"));
    const struct snib__redis *s = (struct snib__redis *)(void *)store;
    assert_non_null(
        strstr(snib__topology_words(s->topology, false, text, sizeof text),
               "nobody hears of a failover"));
    assert_non_null(strstr(text, "none of the 3 Sentinels is listened to"));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        SENTINEL_CASE(more_than_half_are_asked),
        SENTINEL_CASE(one_is_enough_of_one),
        SENTINEL_CASE(one_that_is_behind_is_asked_first),
        SENTINEL_CASE(one_that_is_behind_is_asked_last),
        SENTINEL_CASE(the_best_of_those_that_answer_is_taken),
        SENTINEL_CASE(fewer_than_half_are_enough_where_no_more_answer),
        SENTINEL_CASE(one_alone_that_is_behind_is_not_believed),
        SENTINEL_CASE(after_a_switch_the_others_are_behind),
        SENTINEL_CASE(one_to_listen_to_must_not_be_behind),
        SENTINEL_CASE(all_that_were_set_up_anew_are_believed),
        SENTINEL_CASE(what_is_no_epoch_is_as_none),
        SENTINEL_CASE(what_is_wrong_with_sentinels_is_said),
    };
    return RUN(cases);
}

#endif
