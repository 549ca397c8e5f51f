/* store/redis: waiters: polls, pushed grants, cancels. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_session.h"

/* -- waiting ------------------------------------------------------------------------ */

static void a_try_never_subscribes(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    connected(CALLERS);
    say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
    answered(&rq, SNIB__NO);
    assert_int_equal(rq.said.err, SNIB_ERR_BUSY);
    assert_int_equal(snib__to_ms(rq.said.left), 20000);
    assert_int_equal(opens(&out), 0);
}

static void
the_subscription_is_acknowledged_before_a_request_queues(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    assert_true(out.conn[SUBS]->pushes);
    assert_int_equal(out.conn[SUBS]->awaited, 0);
    assert_int_equal(out.conn[CALLERS]->awaited, 0);
}

/* It was told once that the lock is held, and could not queue: since then the
 * server takes no locks any more, so nobody knows how that lock is. */
static void a_limit_tells_why_a_request_could_not_queue(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.limit = snib__after(now, snib__ms(1500));
    rq.acquire.may_queue = true;
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
    connected(SUBS);
    hears_acquire(CALLERS, "1");
    say(CALLERS, "-READONLY x\r\n");
    closed(CALLERS);
    pass(1499);
    silence();
    pass(1);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(error.text, "the server became a read-only replica");
}

static void a_waiter_polls_within_a_second_and_a_half(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    for (int i = 0; i < 5; i++) {
        snib_instant before = now;
        while (!heard(CALLERS)) {
            pass(10);
            if (heard(SUBS)) {
                say(SUBS, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
            }
        }
        int64_t ms = snib__to_ms(snib__between(before, now));
        assert_in_range(ms, 990, 1510);
        say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:3\r\n:100\r\n");
        answered(&rq, SNIB__QUEUED);
    }
    /* place 2 times its poll to the holder's end */
    pass(1600);
    while (heard(CALLERS)) {
    }
    say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:2\r\n:100\r\n");
    answered(&rq, SNIB__QUEUED);
    pass(99);
    assert_false(heard(CALLERS));
    pass(40);
    assert_true(heard(CALLERS));
}

static void a_push_may_overtake_the_queued_reply(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), b = request(SNIB__ACQUIRE),
                         r;
    let_wait(&a);
    b.acquire.may_queue = true;
    start(&b);
    hears_acquire(CALLERS, "1");
    snib_instant sent = now;
    uint32_t poll = (uint32_t)strtoul(word[15], NULL, 10);
    now.ns += 1000000;
    push(&b, 5000, 3000, poll);
    answered(&b, SNIB__DONE);
    assert_int_equal(b.token, 5000);
    assert_int_equal(b.said.valid_from.ns, sent.ns);
    assert_int_equal(snib__to_ms(b.said.left), 3000);
    /* released while the answer is still due: a late copy is possible */
    r = request(SNIB__RELEASE);
    r.id[1] = b.id[1];
    r.token = 5000;
    start(&r);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    assert_string_equal(word[15], "1");
    say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:1\r\n:100\r\n");
    silence();
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&r, SNIB__DONE);
}

static void a_push_counts_from_the_poll_that_it_names(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    uint32_t first = rq.store.sends[0].number;
    snib_instant sent = rq.store.sends[0].sent;
    pass(1600);
    assert_true(rq.store.sends[0].number > first);
    push(&rq, 5000, 3000, first); /* the newer one was not seen yet */
    answered(&rq, SNIB__DONE);
    assert_int_equal(rq.said.valid_from.ns, sent.ns);
}

static void a_push_that_names_no_poll_of_ours_is_asked_for(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    push(&rq, 5000, 3000, rq.store.sends[0].number + 1);
    silence();
    hears_acquire(CALLERS, "1");
    snib_instant sent = now;
    now.ns += 1000;
    push(&rq, 5000, 3000, 77); /* its answer is on its way already */
    assert_false(heard(CALLERS));
    grant_reply(CALLERS, 5000);
    answered(&rq, SNIB__DONE);
    assert_int_equal(rq.said.valid_from.ns, sent.ns);
}

static void a_push_whose_claim_is_over_is_asked_for(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    now.ns += INT64_C(3000000000); /* this process stood still */
    push(&rq, 5000, 3000, rq.store.sends[0].number);
    silence();
    hears_acquire(CALLERS, "1");
    grant_reply(CALLERS, 6000);
    answered(&rq, SNIB__DONE);
    assert_int_equal(rq.token, 6000);
}

/* The poll was executed after the claim had ended: it was granted anew. */
static void what_an_overtaken_poll_was_given_is_ended(void **state)
{
    static const struct {
        const char *reply;
        bool ends;
    } cases[] = {
        {"*5\r\n:1\r\n:1790000000300\r\n:6000\r\n:31\r\n:30000\r\n", true},
        {"*5\r\n:1\r\n:1790000000300\r\n:5000\r\n:31\r\n:30000\r\n", false},
        {"*5\r\n:1\r\n:1790000000300\r\n:4000\r\n:31\r\n:30000\r\n", false},
        {"*4\r\n:2\r\n:1790000000300\r\n:1\r\n:100\r\n", false},
        {"*4\r\n:2\r\n:1790000003401\r\n:1\r\n:100\r\n", true},
        /* it stands all the same, though nobody is let in just now */
        {"*5\r\n:2\r\n:1790000003401\r\n:1\r\n:100\r\n:1\r\n", false},
        {"*2\r\n:5\r\n:1790000000300\r\n", false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        tear_down(state);
        open_store("redis://h");
        struct snib__request rq = request(SNIB__ACQUIRE);
        let_wait(&rq);
        pass(1600);
        while (heard(CALLERS)) {
        }
        push(&rq, 5000, 3000, rq.store.sends[0].number);
        answered(&rq, SNIB__DONE);
        say(CALLERS, cases[i].reply);
        silence();
        assert_int_equal(heard(CALLERS), cases[i].ends);
        if (cases[i].ends) {
            assert_memory_equal(
                word[1], snib__redis_scripts[SNIB__SCRIPT_CANCEL].text, 300);
            assert_string_equal(word[3], "snib:{n}");
            assert_string_equal(word[12], hex_of(&rq));
            assert_string_equal(word[13], "0"); /* no grant before it */
        }
    }
}

static void a_duplicate_push_is_ignored(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    push(&rq, 5000, 3000, rq.store.sends[0].number);
    answered(&rq, SNIB__DONE);
    push(&rq, 5000, 3000, rq.store.sends[0].number);
    silence();
    assert_false(heard(CALLERS));
    assert_int_equal(opens(&out), 0);
}

static void a_grant_for_a_cancelled_request_is_given_back(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), c;
    let_wait(&rq);
    c = request(SNIB__CANCEL);
    c.id[1] = rq.id[1];
    c.background = true;
    start(&c);
    answered(&rq, SNIB__UNKNOWN);
    connected(BACKGROUND);
    while (heard(CALLERS)) {
        assert_string_equal(word[1],
                            snib__redis_scripts[SNIB__SCRIPT_CANCEL].sha1);
    }
    push(&rq, 5000, 3000, rq.store.sends[0].number);
    silence();
    assert_int_equal(script_heard(BACKGROUND), SNIB__SCRIPT_RELEASE);
    assert_string_equal(word[3], "snib:{n}");
    assert_string_equal(word[13], hex_of(&rq));
    assert_string_equal(word[14], "5000");
    assert_string_equal(word[15], "1");
    assert_int_equal(out.conn[BACKGROUND]->awaited, 1);
    say(BACKGROUND, "*1\r\n:0\r\n");
    silence();
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&c, SNIB__DONE);
}

static void
a_grant_for_a_request_that_is_being_released_is_given_back(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), r;
    let_wait(&rq);
    push(&rq, 5000, 3000, rq.store.sends[0].number);
    answered(&rq, SNIB__DONE);
    r = request(SNIB__RELEASE);
    r.id[1] = rq.id[1];
    r.resent = true; /* a late copy of the acquire may be about */
    start(&r);
    while (heard(CALLERS)) {
    }
    push(&rq, 6000, 3000, rq.store.sends[0].number);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    assert_string_equal(word[13], hex_of(&rq));
    assert_string_equal(word[14], "6000");
    say(CALLERS, "*1\r\n:0\r\n");
    answered(&r, SNIB__NO);
    say(CALLERS, "*1\r\n:1\r\n");
}

static void cancel_ends_an_acquire_that_was_never_sent(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), c;
    start(&rq);
    c = request(SNIB__CANCEL);
    c.id[1] = rq.id[1];
    start(&c);
    answered(&rq, SNIB__NOT_APPLIED);
    silence();
    connected(CALLERS);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_CANCEL);
    say(CALLERS, "*1\r\n:3\r\n");
    answered(&c, SNIB__DONE);
}

static void message(const char *channel, const char *text)
{
    sayf(SUBS, "*3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
         strlen(channel), channel, strlen(text), text);
}

static void junk_on_the_subscription_is_ignored(void **state)
{
    (void)state;
    static const char *const junk[] = {
        "",
        "g",
        "hello world",
        "g 0 1 2 3 4 5 6",
        "g 00000000000000070000000000000001 5 31 3000 1 2 other",
        "g 0000000000000007000000000000000X 5 31 3000 1 2 snib:{n}",
        "g 00000000000000070000000000000001 99999999999999999 31 3 1 2 "
        "snib:{n}"};
    /* As the one that is waited for, but for a digit that is none; the first of
     * them stands so far before 'a' as the right one would behind it. */
    char no_digits[] = "?/:@`gG ";
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    const char *channel = ((struct snib__redis *)(void *)store)->channel;
    const char *id = hex_of(&rq);
    assert_true(id[31] >= '0' && id[31] <= '9');
    no_digits[0] = (char)(id[31] - '0' + 'a' - 10);
    for (const char *c = no_digits; *c; c++) {
        char text[200];
        snprintf(text, sizeof text, "g %s 5 31 3000 %u 2 snib:{n}", hex_of(&rq),
                 rq.store.sends[0].number);
        text[2 + 31] = *c;
        message(channel, text);
        silence();
    }
    char whole[200];
    int n = snprintf(whole, sizeof whole, "g %s 5 31 3000 %u 2 snib:{n}",
                     hex_of(&rq), rq.store.sends[0].number);
    for (int cut = 1; cut <= n; cut++) { /* … and all that is not whole */
        whole[n - cut] = 0;
        message(channel, whole);
        silence();
    }
    for (size_t i = 0; i < COUNT_OF(junk); i++) {
        message(channel, junk[i]);
    }
    silence();
    assert_int_equal(shuts(&out), 0);
}

static void a_silent_subscription_is_rebuilt_and_everybody_polls(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), b = request(SNIB__ACQUIRE);
    char channel[64];
    let_wait(&a);
    let_wait(&b);
    snprintf(channel, sizeof channel, "%s",
             ((struct snib__redis *)(void *)store)->channel);
    snib_instant began = now;
    int pings = 0;
    while (!shuts(&out)) {
        pass(10);
        if (heard(SUBS)) {
            assert_string_equal(word[0], "PING");
            pings++;
        }
        while (heard(CALLERS)) {
            say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:3\r\n:20000\r\n");
            struct snib__link *l = snib__list_pop(&out.answered);
            assert_non_null(l);
        }
    }
    assert_int_equal(shuts(&out), 1u << SUBS);
    assert_in_range(snib__to_ms(snib__between(began, now)), 2900, 3100);
    assert_int_equal(pings, 1);
    closed(SUBS);
    silence();
    pass(30);
    connected(SUBS);
    assert_string_not_equal(word[1], channel);
    hears_acquire(CALLERS, "1");
    hears_acquire(CALLERS, "1");
    assert_string_equal(word[20],
                        ((struct snib__redis *)(void *)store)->channel);
}

static void a_revoke_is_heard_on_the_channel_of_the_client(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    char channel[64], text[40];
    let_wait(&rq);
    memcpy(channel, ((struct snib__redis *)(void *)store)->channel, 64);
    snprintf(text, sizeof text, "r %s", hex_of(&rq));
    message(channel, text);
    assert_int_equal(out.ended_count, 1);
    assert_memory_equal(out.ended[0], rq.id, sizeof rq.id);
    assert_false(out.missed);
    closed(SUBS);
    pass(30);
    connected(SUBS);
    message(channel, text); /* grants of before came there: not believed */
    assert_int_equal(out.ended_count, 1);
    char told[CHANNEL_NOTICE_MAX]; /* where force.lua says it, too */
    snib__queue_notice_channel((struct snib__redis *)(void *)store, told);
    message(told, text);
    assert_int_equal(out.ended_count, 2);
    message("snib:somebody", text);
    assert_int_equal(out.ended_count, 2);
}

/* What was said while nobody listened is not said again: so it looks. */
static void a_subscription_that_was_lost_is_rebuilt_for_who_holds(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    push(&rq, 5000, 3000, rq.store.sends[0].number);
    answered(&rq, SNIB__DONE);
    closed(SUBS);
    pass(5000);
    assert_int_equal(opens(&out), 0); /* nobody holds, nobody waits */
    out.holds = true;
    pass(1);
    assert_int_equal(opens(&out), 1u << SUBS);
    assert_false(out.missed);
    connected(SUBS);
    assert_true(out.missed);
    out.missed = false;
    closed(SUBS);
    pass(30);
    connected(SUBS);
    assert_true(out.missed);
}

static void a_message_between_two_acknowledgements_is_a_message(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    closed(SUBS);
    pass(30);
    opened(SUBS);
    hears_hello(SUBS);
    say(SUBS, HELLO_REPLY);
    assert_true(heard(SUBS));
    sayf(SUBS, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n", strlen(word[1]),
         word[1]);
    push(&rq, 5000, 3000, rq.store.sends[0].number);
    answered(&rq, SNIB__DONE);
    assert_int_equal(rq.token, 5000);
    assert_true(heard(SUBS));
    sayf(SUBS, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:2\r\n", strlen(word[1]),
         word[1]);
    assert_int_equal(shuts(&out), 0);
    assert_true(out.conn[SUBS]->pushes);
}

/* It was told that the lock is held, and is in no queue: for all that. */
static void a_grant_for_who_is_in_no_queue_is_asked_for_at_once(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), b = request(SNIB__ACQUIRE);
    let_wait(&a);
    push(&a, 5000, 3000, a.store.sends[0].number);
    answered(&a, SNIB__DONE);
    closed(SUBS);
    b.acquire.may_queue = true;
    start(&b);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
    pass(30);
    opened(SUBS);
    hears_hello(SUBS);
    say(SUBS, HELLO_REPLY);
    assert_true(heard(SUBS));
    sayf(SUBS, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n", strlen(word[1]),
         word[1]);
    assert_false(heard(CALLERS));
    push(&b, 6000, 3000, 77);
    silence();
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 6000);
    answered(&b, SNIB__DONE);
}

static void without_the_right_to_subscribe_a_waiter_is_denied(void **state)
{
    static const uint64_t ids[] = {0, 7, BUCKETS - 1};
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        tear_down(state);
        open_store("redis://h");
        struct snib__request rq = request(SNIB__ACQUIRE);
        rq.acquire.may_queue = true;
        rq.id[0] = ids[i];
        start(&rq);
        connected(CALLERS);
        say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
        opened(SUBS);
        say(SUBS, "-NOPERM this user has no permissions to access one of the "
                  "channels used as arguments\r\n");
        answered(&rq, SNIB__NOT_APPLIED);
        assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
    }
}

static void held_off_until_the_limit_is_a_clean_no(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.acquire.may_queue = true;
    rq.limit = snib__after(now, snib__ms(500));
    start(&rq);
    connected(CALLERS);
    say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
    pass(500);
    answered(&rq, SNIB__NO);
    assert_int_equal(rq.said.err, SNIB_ERR_BUSY);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_try_never_subscribes),
        CASE(the_subscription_is_acknowledged_before_a_request_queues),
        CASE(a_limit_tells_why_a_request_could_not_queue),
        CASE(a_waiter_polls_within_a_second_and_a_half),
        CASE(a_push_may_overtake_the_queued_reply),
        CASE(a_push_counts_from_the_poll_that_it_names),
        CASE(a_push_that_names_no_poll_of_ours_is_asked_for),
        CASE(a_push_whose_claim_is_over_is_asked_for),
        CASE(what_an_overtaken_poll_was_given_is_ended),
        CASE(a_duplicate_push_is_ignored),
        CASE(a_grant_for_a_cancelled_request_is_given_back),
        CASE(a_grant_for_a_request_that_is_being_released_is_given_back),
        CASE(cancel_ends_an_acquire_that_was_never_sent),
        CASE(junk_on_the_subscription_is_ignored),
        CASE(a_silent_subscription_is_rebuilt_and_everybody_polls),
        CASE(a_revoke_is_heard_on_the_channel_of_the_client),
        CASE(a_subscription_that_was_lost_is_rebuilt_for_who_holds),
        CASE(a_message_between_two_acknowledgements_is_a_message),
        CASE(a_grant_for_who_is_in_no_queue_is_asked_for_at_once),
        CASE(without_the_right_to_subscribe_a_waiter_is_denied),
        CASE(held_off_until_the_limit_is_a_clean_no),
    };
    return RUN(cases);
}

#endif
