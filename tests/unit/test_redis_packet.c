/* tests/unit/test_redis_packet.c — a free mutex is taken without a script, and what comes of it. */
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

static void
a_free_mutex_is_taken_and_given_back_without_their_scripts(void **state)
{
    (void)state;
    struct snib__request rq, r;
    known();
    rq = asked();
    snib_instant sent = now;
    start(&rq);
    hears_packet(&rq, "1790000010200"); /* the clock's 300 ms and 9.9 s */
    assert_int_equal(out.conn[CALLERS]->awaited, 4);
    pass(20);
    say(CALLERS, QUEUED);
    silence();
    say(CALLERS, SET_OK);
    answered(&rq, SNIB__DONE);
    assert_int_equal(out.conn[CALLERS]->awaited, 0);
    assert_true(rq.token == TOKEN(7));
    assert_int_equal(rq.acquire.reserve, 0);
    assert_true(rq.thin);
    assert_int_equal(rq.said.valid_from.ns, sent.ns);
    assert_int_equal(snib__to_ms(rq.said.left), 9900);
    r = request(SNIB__RELEASE);
    r.id[1] = rq.id[1];
    r.token = rq.token;
    r.thin = true;
    start(&r);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_DROP);
    assert_string_equal(word[3], "snib:{n}");
    assert_string_equal(word[4], hex_of(&r));
    say(CALLERS, ":1\r\n");
    answered(&r, SNIB__DONE);
}

static void a_short_lease_ends_when_its_packet_does(void **state)
{
    (void)state;
    known();
    struct snib__request rq = asked();
    rq.lease = snib__ms(500);
    start(&rq);
    hears_packet(&rq, "1790000000800");
    say(CALLERS, QUEUED "*2\r\n+OK\r\n$15\r\n1790000000350-0\r\n");
    answered(&rq, SNIB__DONE);
    assert_int_equal(snib__to_ms(rq.said.left), 450);
}

/* It goes on as a script, and so does what comes within a second. */
static void who_is_met_is_left_to_the_scripts(void **state)
{
    (void)state;
    known();
    struct snib__request rq = asked(), r;
    start(&rq);
    hears_packet(&rq, "1790000010200");
    say(CALLERS, QUEUED SET_TAKEN);
    silence();
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[12], hex_of(&rq));
    say(CALLERS, "*3\r\n:3\r\n:" MARK_AT "\r\n:20000\r\n");
    answered(&rq, SNIB__NO);
    assert_int_equal(rq.said.err, SNIB_ERR_BUSY);
    rq = asked();
    start(&rq);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 2000);
    answered(&rq, SNIB__DONE);
    pass(1001);
    rq = asked();
    start(&rq);
    hears("MULTI");
    hears("SET");
    hears("XADD");
    hears("EXEC");
    say(CALLERS, QUEUED SET_OK);
    answered(&rq, SNIB__DONE);
    /* Somebody has come since: the release finds a hash. */
    r = request(SNIB__RELEASE);
    r.id[1] = rq.id[1];
    r.token = rq.token;
    r.thin = true;
    start(&r);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_DROP);
    say(CALLERS, ":0\r\n");
    silence();
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&r, SNIB__DONE);
}

/* Nobody knows whether it took the lock: it is repeated, by a script. */
static void an_odd_answer_is_unknown(void **state)
{
    static const char *const odd[] = {
        "*2\r\n+OK\r\n$-1\r\n",                     /* no mark */
        "*2\r\n+OK\r\n$15\r\n1790000010200-0\r\n",  /* too late */
        "*2\r\n+OK\r\n$18\r\n" MARK_AT "-1024\r\n", /* no token */
        "*2\r\n+OK\r\n$19\r\n99999999999999999-0\r\n",
        "*2\r\n+OK\r\n$5\r\n1-1-1\r\n",
        "*2\r\n+OK\r\n$3\r\n1-1\r\n", /* below the floor */
        "*2\r\n+OK\r\n-WRONGTYPE x\r\n",
        "*2\r\n-OOM x\r\n$15\r\n" MARK_AT "-7\r\n",
        "*1\r\n+OK\r\n",
        "*0\r\n",
        "$-1\r\n",
        ":1\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        known();
        struct snib__request rq = asked();
        rq.floor = 5000;
        start(&rq);
        hears_packet(&rq, "1790000010200");
        say(CALLERS, QUEUED);
        say(CALLERS, odd[i]);
        answered(&rq, SNIB__UNKNOWN);
        rq.resent = true;
        start(&rq);
        hears_acquire(CALLERS, "0");
        assert_string_equal(word[12], hex_of(&rq));
        assert_false(shuts(&out));
        tear_down(state);
        set_up(state);
    }
}

static void what_was_aborted_was_not_applied(void **state)
{
    (void)state;
    known();
    struct snib__request rq = asked();
    start(&rq);
    hears_packet(&rq, "1790000010200");
    say(CALLERS, "+OK\r\n-OOM no\r\n+QUEUED\r\n-EXECABORT x\r\n");
    silence();
    hears_acquire(CALLERS, "0");
    say(CALLERS, "-OOM no\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
}

#define ABORTED "-EXECABORT Transaction discarded because of"

/* As where a script is told so: the connection is closed, and the request goes
 * on, by script, where it leads next. */
static void what_a_replica_aborts_waits_for_the_primary(void **state)
{
    static const char *const replies[] = {
        "+OK\r\n-READONLY x\r\n-READONLY x\r\n" ABORTED " previous errors.\r\n",
        QUEUED ABORTED ": READONLY You can't write\r\n"};
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct snib__request rq;
        known();
        rq = asked();
        start(&rq);
        hears_packet(&rq, "1790000010200");
        say(CALLERS, replies[i]);
        silence();
        assert_false(heard(CALLERS));
        assert_true(out.conn[CALLERS]->shut);
        assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
        closed(CALLERS);
        pass(300);
        connected(CALLERS);
        hears_acquire(CALLERS, "0");
        assert_string_equal(word[12], hex_of(&rq));
        grant_reply(CALLERS, 2000);
        answered(&rq, SNIB__DONE);
        /* That script has seen to its mark. */
        rq = asked();
        start(&rq);
        hears("MULTI");
        tear_down(state);
        set_up(state);
    }
}

/* Not refused before, and sent again after a pause as a script. */
static void what_a_busy_server_aborts_is_asked_for_again(void **state)
{
    static const char *const replies[] = {
        "+OK\r\n-LOADING x\r\n-LOADING x\r\n" ABORTED " previous errors.\r\n",
        QUEUED ABORTED ": BUSY x\r\n"};
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct snib__request rq;
        known();
        rq = asked();
        start(&rq);
        hears_packet(&rq, "1790000010200");
        say(CALLERS, replies[i]);
        silence();
        assert_false(heard(CALLERS));
        assert_int_equal(rq.said.err, SNIB_ERR_STORE);
        pass(RETRY_MS * 3 / 2);
        hears_acquire(CALLERS, "0");
        grant_reply(CALLERS, 2000);
        answered(&rq, SNIB__DONE);
        /* An error of an earlier packet says nothing of this one. */
        rq = asked();
        start(&rq);
        hears("MULTI");
        hears("SET");
        hears("XADD");
        hears("EXEC");
        say(CALLERS, QUEUED ABORTED " previous errors.\r\n");
        hears_acquire(CALLERS, "0");
        tear_down(state);
        set_up(state);
    }
}

/* Whatever was sent behind it might be a part of the transaction. */
static void an_exec_that_is_refused_closes_the_connection(void **state)
{
    (void)state;
    struct snib__request rq[2];
    for (int i = 0; i < 2; i++) {
        known();
        rq[0] = asked();
        start(&rq[0]);
        hears_packet(&rq[0], "1790000010200");
        rq[1] = request(SNIB__RELEASE);
        start(&rq[1]);
        assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
        say(CALLERS, QUEUED "-ERR unknown command 'EXEC'\r\n");
        answered(&rq[0], SNIB__UNKNOWN);
        answered(&rq[1], SNIB__UNKNOWN);
        assert_true(out.conn[CALLERS]->shut);
        closed(CALLERS);
        pass(100);
    }
    known();
    rq[0] = asked();
    start(&rq[0]);
    hears_acquire(CALLERS, "0");
}

/* No more packets on that connection. */
static void who_may_not_is_asked_no_more(void **state)
{
    static const char *const refusals[] = {
        "-NOPERM no MULTI\r\n+OK\r\n$-1\r\n-ERR EXEC without MULTI\r\n",
        "-ERR unknown command 'MULTI'\r\n+OK\r\n$-1\r\n-ERR x\r\n",
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n-ERR syntax error\r\n$3\r\n1-1\r\n",
        "+OK\r\n+QUEUED\r\n-NOPERM no XADD\r\n-EXECABORT x\r\n",
        QUEUED ABORTED ": NOPERM no EXEC\r\n"};
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        known();
        struct snib__request rq = asked();
        start(&rq);
        hears_packet(&rq, "1790000010200");
        say(CALLERS, refusals[i]);
        if (i < 3) {
            answered(&rq, SNIB__UNKNOWN);
            rq.resent = true;
            start(&rq);
        }
        hears_acquire(CALLERS, "0");
        grant_reply(CALLERS, 2000);
        answered(&rq, SNIB__DONE);
        pass(2000);
        rq = asked();
        start(&rq);
        hears_acquire(CALLERS, "0");
        tear_down(state);
        set_up(state);
    }
}

/* A proxy that ends the connection at the first packet is tried twice. */
static void a_line_that_packets_end_gets_no_more_of_them(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        known();
        struct snib__request rq = asked();
        start(&rq);
        hears("MULTI");
        closed(CALLERS);
        answered(&rq, SNIB__UNKNOWN);
        pass(100);
    }
    pass(20000);
    known();
    struct snib__request rq = asked();
    start(&rq);
    hears_acquire(CALLERS, "0");
}

/* A connection that is cut with two of them under way is one cut. */
static void a_cut_counts_once_however_many_packets_it_ends(void **state)
{
    (void)state;
    struct snib__request rq[2];
    known();
    for (int i = 0; i < 2; i++) {
        rq[i] = asked();
        start(&rq[i]);
        hears_packet(&rq[i], "1790000010200");
    }
    closed(CALLERS);
    answered(&rq[0], SNIB__UNKNOWN);
    answered(&rq[1], SNIB__UNKNOWN);
    pass(100);
    known();
    rq[0] = asked();
    start(&rq[0]);
    hears("MULTI");
}

/* A script that grants a reader keeps no mark, nor one that grants a token that
 * no clock made: when the mark has gone, its ids would begin below that. */
static void who_draws_nothing_from_the_mark_does_not_vouch_for_it(void **state)
{
    static const char *const grants[] = {
        "*6\r\n:1\r\n:1790000000300\r\n:1000\r\n:31\r\n:30000\r\n:1\r\n",
        "*6\r\n:1\r\n:1790000000300\r\n:1921000000000000\r\n:31\r\n:30000"
        "\r\n:1\r\n"};
    for (int i = 0; i < 2; i++) {
        struct snib__request rq = asked(), r;
        rq.acquire.kind = i ? SNIB_KIND_MUTEX : SNIB_KIND_READ;
        start(&rq);
        connected(CALLERS);
        hears_acquire(CALLERS, "0");
        say(CALLERS, grants[i]);
        answered(&rq, SNIB__DONE);
        r = asked();
        start(&r);
        hears_acquire(CALLERS, "0");
        grant_reply(CALLERS, 2000);
        answered(&r, SNIB__DONE);
        rq = asked();
        start(&rq);
        hears("MULTI");
        tear_down(state);
        set_up(state);
    }
}

/* A thin record shows no token, and its client may hold thinly again by the time
 * that a late copy comes. */
static void a_prior_grant_is_named_by_token_and_id(void **state)
{
    (void)state;
    char prior[60];
    struct snib__request rq = request(SNIB__ACQUIRE), r, c;
    known();
    rq.token = 77;
    rq.prior_id[0] = 0xabc;
    rq.prior_id[1] = 0xdef;
    snprintf(prior, sizeof prior, "77,%016x%016x", 0xabc, 0xdef);
    start(&rq);
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[19], prior);
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    c = request(SNIB__CANCEL);
    c.token = 77;
    memcpy(c.prior_id, rq.prior_id, sizeof c.prior_id);
    start(&c);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_CANCEL);
    assert_string_equal(word[13], prior);
    say(CALLERS, "*1\r\n:3\r\n");
    answered(&c, SNIB__DONE);
    r = request(SNIB__ACQUIRE); /* a node of a quorum does not know the id */
    r.token = 78;
    start(&r);
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[19], "78");
    c = request(SNIB__CANCEL);
    c.prior_id[0] = 5; /* without a token there is none */
    start(&c);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_CANCEL);
    assert_string_equal(word[13], "0");
}

/* Each tombstone lasts as long as copies of its own request may be executed: that
 * the server's clock was ahead when others were sent is nothing to it. */
static void a_tombstone_is_for_copies_of_its_own_request(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), c;
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*5\r\n:1\r\n:1790003600000\r\n:1000\r\n:31\r\n:30000\r\n");
    answered(&rq, SNIB__DONE);
    rq = request(SNIB__ACQUIRE);
    start(&rq);
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[16], "1790003609900");
    grant_reply(CALLERS, 2000); /* the clock is back */
    answered(&rq, SNIB__DONE);
    c = request(SNIB__CANCEL); /* of that one */
    c.late = rq.late;
    start(&c);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_CANCEL);
    assert_string_equal(word[14], "1790003609900");
    say(CALLERS, "*1\r\n:3\r\n");
    answered(&c, SNIB__DONE);
    rq = request(SNIB__ACQUIRE);
    start(&rq);
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[16], "1790000010200");
    grant_reply(CALLERS, 3000);
    answered(&rq, SNIB__DONE);
    c = request(SNIB__CANCEL); /* of the later one */
    c.late = rq.late;
    start(&c);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_CANCEL);
    assert_string_equal(word[14], "1790000010200");
    say(CALLERS, "*1\r\n:3\r\n");
    answered(&c, SNIB__DONE);
    c = request(SNIB__CANCEL); /* of one that is not known here */
    start(&c);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_CANCEL);
    assert_string_equal(word[14], "1790003609900");
}

static void whatever_is_not_plain_goes_by_script(void **state)
{
    (void)state;
    known();
    for (int i = 0; i < 9; i++) {
        struct snib__request rq = asked();
        switch (i) {
        case 0:
            rq.acquire.kind = SNIB_KIND_READ;
            break;
        case 1:
            rq.acquire.delay = snib__ms(5);
            break;
        case 2:
            rq.token = 1000; /* a grant that it ends */
            break;
        case 3:
            rq.resent = true;
            break;
        case 4:
            rq.acquire.reserve = 0; /* a fixed lease, an election */
            break;
        case 5:
            rq.acquire.upgrade_of[1] = 1;
            break;
        case 6:
            rq.acquire.placed = true;
            break;
        case 7:
            rq.batch.number = 7;
            break;
        case 8: /* the server's clock was not heard of for too long */
            pass(5001);
            break;
        }
        start(&rq);
        hears_acquire(CALLERS, "0");
        sayf(CALLERS, "*5\r\n:1\r\n:%lld\r\n:%d\r\n:31\r\n:30000\r\n",
             INT64_C(1790000000300) + (i == 8 ? 5001 : 0), 2000 + i);
        answered(&rq, SNIB__DONE);
    }
    struct snib__request rq = asked();
    start(&rq);
    hears("MULTI");
}

static void what_comes_together_travels_together(void **state)
{
    (void)state;
    static struct snib__request rq[3];
    struct snib__list chain;
    known();
    snib__list_init(&chain);
    for (int i = 0; i < 3; i++) {
        rq[i] = asked();
        rq[i].said.reterr = NULL;
        snib__link_init(&rq[i].link);
        snib__list_push(&chain, &rq[i].link);
    }
    ops->start(store, now, &chain);
    hears("MULTI");
    for (int i = 0; i < 3; i++) {
        hears("SET");
        assert_memory_equal(word[2], hex_of(&rq[i]), 32);
    }
    hears("XADD");
    hears("EXEC");
    assert_false(heard(CALLERS));
    say(CALLERS, QUEUED "+QUEUED\r\n+QUEUED\r\n");
    silence();
    say(CALLERS, "*4\r\n+OK\r\n$-1\r\n+OK\r\n$15\r\n" MARK_AT "-7\r\n");
    answered(&rq[0], SNIB__DONE);
    answered(&rq[2], SNIB__DONE);
    assert_true(rq[0].token == TOKEN(7) && rq[2].token == TOKEN(7));
    silence();
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[12], hex_of(&rq[1]));
}

static void
without_a_right_to_the_mark_scripts_are_asked_without_it(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "-NOPERM this user has no permissions to access one of the "
                 "keys used as arguments\r\n");
    silence();
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_ACQUIRE);
    assert_string_equal(word[2], "7");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    rq = asked();
    start(&rq);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_ACQUIRE);
    assert_string_equal(word[2], "7");
}

/* Only the one that was refused is asked without it, since each grant without
 * it keeps the others of its lock to scripts: what was refused was its name. */
static void a_name_without_rights_says_nothing_of_the_mark(void **state)
{
    static const char refused[] =
        "-NOPERM this user has no permissions to access one of the keys used "
        "as arguments\r\n";
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), other;
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, refused);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_ACQUIRE);
    assert_string_equal(word[2], "7");
    other = request(SNIB__ACQUIRE);
    start(&other);
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[2], "8");
    say(CALLERS, refused);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
    grant_reply(CALLERS, 1000);
    answered(&other, SNIB__DONE);
    other = asked();
    start(&other);
    hears("MULTI");
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_free_mutex_is_taken_and_given_back_without_their_scripts),
        CASE(a_short_lease_ends_when_its_packet_does),
        CASE(who_is_met_is_left_to_the_scripts),
        CASE(an_odd_answer_is_unknown),
        CASE(what_was_aborted_was_not_applied),
        CASE(what_a_replica_aborts_waits_for_the_primary),
        CASE(what_a_busy_server_aborts_is_asked_for_again),
        CASE(an_exec_that_is_refused_closes_the_connection),
        CASE(who_may_not_is_asked_no_more),
        CASE(a_line_that_packets_end_gets_no_more_of_them),
        CASE(a_cut_counts_once_however_many_packets_it_ends),
        CASE(who_draws_nothing_from_the_mark_does_not_vouch_for_it),
        CASE(a_prior_grant_is_named_by_token_and_id),
        CASE(a_tombstone_is_for_copies_of_its_own_request),
        CASE(whatever_is_not_plain_goes_by_script),
        CASE(what_comes_together_travels_together),
        CASE(without_a_right_to_the_mark_scripts_are_asked_without_it),
        CASE(a_name_without_rights_says_nothing_of_the_mark),
    };
    return RUN(cases);
}

#endif
