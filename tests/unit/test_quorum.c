/* The quorum: opening, acquiring, tokens. */
#include "quorum_world.h"

/* -- acquiring --------------------------------------------------------------------- */

static void all_are_asked_in_one_step_and_agree(void **state)
{
    (void)state;
    open_clients(5, 1, 0);
    struct snib__request g = acquired(0);
    assert_int_equal(held_at(5), 5);
    for (int k = 0; k < 5; k++) {
        assert_int_equal(server[k].acquires, 1);
        assert_int_equal(server[k].keeps, 0); /* one round trip in all */
        assert_true(server[k].token == g.token);
        assert_true(server[k].memory == g.token + 31);
    }
    assert_int_equal(g.said.left.ns, (int64_t)LEASE * MS);
    assert_int_equal(end(0, &g), SNIB__DONE);
    run(100);
    assert_int_equal(held_at(5), 0);
    for (int k = 0; k < 5; k++) {
        assert_int_equal(server[k].stones, 0); /* nothing is left behind */
    }
}

static void the_lease_counts_from_the_sending(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    snib_instant sent = now;
    client[0].there_ms[0] = client[0].there_ms[1] = client[0].there_ms[2] = 300;
    struct snib__request g = acquired(0);
    assert_int_equal(snib__between(sent, now).ns, 300 * MS);
    assert_int_equal(g.said.valid_from.ns, sent.ns);
}

/* Of the two that make the majority, the one that says less counts. */
static void the_lease_is_the_shortest_that_was_given(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    server[1].least_ms = 700;
    client[0].way[2] = WAY_SHUT;
    struct snib__request g = acquired(0);
    assert_int_equal(snib__to_ms(g.said.left), 700);
    assert_int_equal(end(0, &g), SNIB__DONE);
}

static void a_minority_that_is_down_is_waited_for_once(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    client[0].way[2] = WAY_SHUT;
    struct snib__request g = request(SNIB__ACQUIRE);
    start(0, &g);
    assert_int_equal(finish(0, &g), 0);
    assert_int_equal(g.said.answer, SNIB__DONE);
    assert_int_equal(end(0, &g), SNIB__DONE);
}

static void without_a_majority_it_is_refused_and_says_why(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib_error e = {0};
    struct snib__request g = acquired(0);
    end(0, &g);
    all_ways(0, WAY_SHUT, 1, 3);
    g = request(SNIB__ACQUIRE);
    g.said.reterr = &e;
    start(0, &g);
    assert_in_range(finish(0, &g), 1, 600); /* lease / 20 */
    assert_int_equal(g.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(g.said.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "1 of 3 servers answered, 2 must agree"));
    run(10);
    assert_int_equal(held_at(3), 0); /* the one vote is given back */
}

static void a_waiter_without_a_majority_hears_it_before_its_limit(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    all_ways(0, WAY_SHUT, 1, 3);
    struct snib__request g = request(SNIB__ACQUIRE);
    g.acquire.may_queue = true;
    start(0, &g);
    struct snib_error e = {0};
    g.said.reterr = &e;
    assert_in_range(finish(0, &g), 4900, 4999);
    assert_non_null(strstr(e.text, "no majority"));
    assert_int_equal(g.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(g.said.err, SNIB_ERR_UNREACHABLE);
}

static void a_waiter_wins_when_the_majority_is_back(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    all_ways(0, WAY_SHUT, 1, 3);
    struct snib__request g = request(SNIB__ACQUIRE);
    g.acquire.may_queue = true;
    start(0, &g);
    run(2500);
    assert_int_equal(g.said.answer, SNIB__PENDING);
    all_ways(0, WAY_OPEN, 1, 3);
    finish(0, &g);
    assert_int_equal(g.said.answer, SNIB__DONE);
}

static void refuse(uint8_t node, bool hopeless)
{
    struct snib__input in = {
        .kind = SNIB__IN_REFUSED, .conn = node * 3u, .hopeless = hopeless};
    tasks->input(client[0].store, now, &in);
}

/* Who refuses may let in later; a name that is no host's does not. */
static void
a_waiter_waits_for_who_refuses_and_not_for_who_is_nowhere(void **state)
{
    for (int hopeless = 0; hopeless < 2; hopeless++) {
        open_clients(3, 1, 0);
        all_ways(0, WAY_SHUT, 1, 3);
        struct snib__request g = request(SNIB__ACQUIRE);
        g.acquire.may_queue = true;
        start(0, &g);
        refuse(1, hopeless);
        refuse(2, hopeless);
        run(4000);
        assert_int_equal(g.said.answer,
                         hopeless ? SNIB__NOT_APPLIED : SNIB__PENDING);
        tear_down(state);
    }
}

static void even_numbers_need_more_than_half(void **state)
{
    (void)state;
    open_clients(4, 1, 0);
    struct snib__request g = acquired(0);
    end(0, &g);
    all_ways(0, WAY_SHUT, 2, 4);
    g = request(SNIB__ACQUIRE);
    assert_int_equal(ask(0, &g), SNIB__NOT_APPLIED);
    run(10);
    assert_int_equal(held_at(4), 0);
}

static void held_by_another_is_no_and_told_how_long(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    acquired(0);
    run(1000);
    struct snib__request g = request(SNIB__ACQUIRE);
    assert_int_equal(ask(1, &g), SNIB__NO);
    assert_int_equal(g.said.err, SNIB_ERR_BUSY);
    assert_int_equal(snib__to_ms(g.said.left), LEASE - 1000);
    run(100);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(server[k].stones, 0);
    }
}

static void
a_waiter_is_told_queued_once_and_wins_soon_after_the_end(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request g = acquired(0), w = request(SNIB__ACQUIRE);
    w.acquire.may_queue = true;
    start(1, &w);
    tick(due());
    run(1);
    assert_true(is_answered(1, &w));
    assert_int_equal(w.said.answer, SNIB__QUEUED);
    run(2000);
    assert_false(is_answered(1, &w));
    assert_int_equal(end(0, &g), SNIB__DONE);
    assert_in_range(finish(1, &w), 0, 310);
    assert_int_equal(w.said.answer, SNIB__DONE);
    assert_true(w.token > g.token + 31);
}

static void a_waiter_wins_when_the_lease_of_a_dead_holder_ends(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request w = request(SNIB__ACQUIRE);
    acquired(0);
    w.acquire.may_queue = true;
    w.limit = SNIB__NEVER;
    start(1, &w);
    assert_in_range(finish(1, &w), LEASE, LEASE + 20);
}

static void at_its_limit_a_waiter_has_surely_nothing(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request w = request(SNIB__ACQUIRE);
    acquired(0);
    w.acquire.may_queue = true;
    w.limit = snib__after(now, snib__ms(1000));
    start(1, &w);
    assert_in_range(finish(1, &w), 999, 1001);
    assert_int_equal(w.said.answer, SNIB__NO);
}

/* More than are kept for the next requests: what is over is gone. */
static void a_crowd_that_reaches_its_limits_together_is_told(void **state)
{
    (void)state;
    enum { N = SPARE_MAX + 20 };
    static struct snib__request w[N];
    static struct snib_error e[N];
    for (int round = 0; round < 2; round++) {
        /* longer than a quarter of the patience after they have gone silent */
        int64_t most = round ? 1700 : 1000;
        open_clients(3, 2, 0);
        acquired(0);
        for (int i = 0; i < N; i++) {
            w[i] = request(SNIB__ACQUIRE);
            w[i].acquire.may_queue = true;
            w[i].limit = snib__after(now, snib__ms(most));
            w[i].said.reterr = &e[i];
            start(1, &w[i]);
        }
        run(500);
        if (round) { /* nobody answers any more when the limits come */
            all_ways(1, WAY_SHUT, 0, 3);
        }
        for (int i = 0; i < N; i++) {
            finish(1, &w[i]);
            assert_int_equal(w[i].said.answer,
                             round ? SNIB__NOT_APPLIED : SNIB__NO);
            assert_int_equal(w[i].said.err,
                             round ? SNIB_ERR_UNREACHABLE : SNIB_ERR_BUSY);
            assert_int_equal(e[i].code, w[i].said.err);
        }
        assert_in_range(now.ns / MS, 5000000 + most - 61, 5000000 + most + 2);
        run(LEASE);
        tear_down(NULL);
    }
}

/* Nor does it blame servers for answers that were on their way. */
static void a_limit_in_the_middle_of_a_round_is_a_time_out(void **state)
{
    (void)state;
    uint32_t asked = 0;
    for (int ms = 600; ms < 1000; ms += 7) {
        open_clients(3, 2, 0);
        acquired(0);
        for (int k = 0; k < 3; k++) {
            client[1].there_ms[k] = client[1].back_ms[k] = 30;
        }
        struct snib__request w = request(SNIB__ACQUIRE);
        struct snib_error e = {0};
        w.acquire.may_queue = true;
        w.limit = snib__after(now, snib__ms(ms));
        w.said.reterr = &e;
        start(1, &w);
        assert_in_range(finish(1, &w), ms - 1, ms + 1);
        if (w.said.answer != SNIB__NO) {
            fail_msg("a limit of %d ms: %s", ms, e.text);
        }
        asked += server[0].acquires;
        tear_down(state);
    }
    assert_true(asked > 3 * 60);
}

static void servers_that_are_silent_at_the_limit_are_the_cause(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    acquired(0);
    struct snib__request w = request(SNIB__ACQUIRE);
    w.acquire.may_queue = true;
    w.limit = snib__after(now, snib__ms(2000));
    start(1, &w);
    run(300);
    all_ways(1, WAY_MUTE, 0, 3);
    is_answered(1, &w); /* queued, before */
    assert_in_range(finish(1, &w), 1640, 1700);
    assert_int_equal(w.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(w.said.err, SNIB_ERR_UNREACHABLE);
}

/* One "no" is no majority's, however short the limit is. */
static void servers_never_reached_at_the_limit_are_the_cause(void **state)
{
    for (int ms = 100; ms <= 1000; ms += 60) {
        for (int queue = 0; queue < 2; queue++) {
            open_clients(3, 2, 0);
            acquired(0);
            all_ways(1, WAY_MUTE, 1, 3);
            struct snib__request w = request(SNIB__ACQUIRE);
            struct snib_error e = {0};
            w.acquire.may_queue = queue;
            w.limit = snib__after(now, snib__ms(ms));
            w.said.reterr = &e;
            start(1, &w);
            assert_in_range(finish(1, &w), ms - 51, ms);
            assert_int_equal(w.said.answer, SNIB__NOT_APPLIED);
            assert_int_equal(w.said.err, SNIB_ERR_UNREACHABLE);
            assert_non_null(strstr(e.text, "1 of 3 servers answered"));
            tear_down(state);
        }
    }
}

static void a_lost_round_is_given_back_everywhere(void **state)
{
    (void)state;
    open_clients(5, 2, 0);
    /* The other holds three of five; two are free, one of them mute. */
    all_ways(0, WAY_SHUT, 3, 5);
    acquired(0);
    client[1].way[4] = WAY_MUTE;
    struct snib__request g = request(SNIB__ACQUIRE);
    start(1, &g);
    finish(1, &g);
    assert_int_equal(g.said.answer, SNIB__NO);
    run(PATIENCE + 500); /* it has never answered: the longest limit */
    assert_int_equal(held_at(5), 3);
    assert_true(server[4].cancels > 0); /* with a tombstone: it may be late */
}

static void a_late_acquire_meets_its_tombstone(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request warm = acquired(0);
    end(0, &warm);
    run(10);
    client[0].there_ms[0] = client[0].there_ms[1] = 3000; /* past any limit */
    struct snib__request g = request(SNIB__ACQUIRE);
    assert_int_equal(ask(0, &g), SNIB__NOT_APPLIED);
    run(20000);
    assert_int_equal(held_at(3), 0);
}

/* Slow nodes that still owe the answer of the last round are no hope of this
 * one. */
static void what_a_round_before_waits_for_is_not_waited_for(void **state)
{
    (void)state;
    open_clients(5, 2, 0);
    struct snib__request warm = acquired(1);
    end(1, &warm);
    run(100);
    all_ways(0, WAY_SHUT, 3, 5);
    acquired(0);
    client[1].there_ms[3] = client[1].there_ms[4] = 3000; /* they rest */
    struct snib__request w = request(SNIB__ACQUIRE);
    w.acquire.may_queue = true;
    w.limit = SNIB__NEVER;
    start(1, &w);
    run(1500);
    server[0].client = server[1].client = 0; /* two votes, and no third */
    run(4000);
    server[2].client = 0;
    client[1].there_ms[3] = client[1].there_ms[4] = 0;
    is_answered(1, &w); /* queued */
    assert_in_range(finish(1, &w), 0, 1000);
    assert_int_equal(w.said.answer, SNIB__DONE);
}

static void split_votes_end_with_one_winner(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        open_clients(4, 2, seed);
        /* Each is first at two of four. */
        for (int k = 0; k < 4; k++) {
            client[k < 2 ? 0 : 1].there_ms[k] = 1;
            client[k < 2 ? 1 : 0].there_ms[k] = 5;
        }
        struct snib__request a = request(SNIB__ACQUIRE), b = a;
        b.id[0] = ++ids * 1000;
        a.acquire.may_queue = b.acquire.may_queue = true;
        start(0, &a);
        start(1, &b);
        bool first = false, second = false;
        for (int n = 0; !first && !second; n++) {
            assert_true(n < 10000);
            tick(due());
            first = is_answered(0, &a) && a.said.answer == SNIB__DONE;
            second = is_answered(1, &b) && b.said.answer == SNIB__DONE;
        }
        assert_false(first && second);
        assert_in_range(now.ns / MS, 5000000, 5000000 + 1000);
        tear_down(NULL);
    }
}

/* A try is refused after the third vote in which nobody won. */
static void a_try_repeats_a_split_vote_three_times(void **state)
{
    (void)state;
    open_clients(4, 3, 0);
    for (int k = 0; k < 4; k++) { /* two others are first at one each */
        client[1].way[k] = k == 0 ? WAY_OPEN : WAY_SHUT;
        client[2].way[k] = k == 1 ? WAY_OPEN : WAY_SHUT;
    }
    server[0].client = 2;
    server[1].client = 3;
    server[0].end_ms = server[1].end_ms = clock_of(&server[0]) + LEASE;
    struct snib__request g = request(SNIB__ACQUIRE);
    assert_int_equal(ask(0, &g), SNIB__NO);
    assert_int_equal(g.said.err, SNIB_ERR_BUSY);
    assert_int_equal(server[0].acquires, 3);
    run(1000);
    assert_int_equal(server[0].acquires, 3);
    assert_int_equal(held_at(4), 2); /* of the two others */
}

static void answers_slower_than_the_lease_are_no_grant(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    for (int k = 0; k < 3; k++) {
        client[0].back_ms[k] = 1500;
    }
    struct snib__request g = request(SNIB__ACQUIRE);
    g.lease = snib__ms(1000);
    assert_int_equal(ask(0, &g), SNIB__NOT_APPLIED);
    assert_int_equal(g.said.err, SNIB_ERR_STORE);
    run(3000);
    assert_int_equal(held_at(3), 0);
}

static void counting_kinds_are_refused(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = request(SNIB__ACQUIRE);
    g.acquire.kind = (snib_kind)(SNIB_KIND_MUTEX + 1);
    start(0, &g);
    assert_true(is_answered(0, &g));
    assert_int_equal(g.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(g.said.err, SNIB_ERR_UNSUPPORTED);
}

/* -- tokens -------------------------------------------------------------------------- */

static void the_highest_token_is_written_back_before_success(void **state)
{
    (void)state;
    open_clients(5, 2, 0);
    /* H36: clocks at 0, -1, -6, -6, -6 s; A wins on 1–3, B later on 3–5. */
    static const int64_t offset[] = {0, -1000, -6000, -6000, -6000};
    for (int k = 0; k < 5; k++) {
        server[k].offset_ms = offset[k];
    }
    clocks_known = false; /* else they agree from the start */
    all_ways(0, WAY_SHUT, 3, 5);
    struct snib__request a = acquired(0);
    assert_true(server[2].memory >= a.token + 31);
    assert_true(server[2].token == a.token && server[1].token == a.token);
    assert_int_equal(end(0, &a), SNIB__DONE);
    all_ways(1, WAY_SHUT, 0, 2);
    struct snib__request b = acquired(1);
    assert_true(b.token > a.token + 31);
}

static void a_clock_days_ahead_is_not_counted(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    server[0].offset_ms = INT64_C(400) * 86400 * 1000;
    struct snib__request g = acquired(0);
    assert_true(g.token < (clock_of(&server[1]) + 60000) * 1024);
    run(1000);
    assert_int_equal(held_at(3), 3); /* it holds the vote all the same */
    assert_true(server[0].token == g.token);
    end(0, &g);
    client[0].way[1] = WAY_SHUT; /* one against one: which clock is right? */
    g = request(SNIB__ACQUIRE);
    assert_int_equal(ask(0, &g), SNIB__NOT_APPLIED);
    assert_int_equal(g.said.err, SNIB_ERR_STORE);
}

/* -- after winning ---------------------------------------------------------------------- */

static void a_node_that_missed_the_acquire_is_told_after_winning(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request other = request(SNIB__ACQUIRE);
    all_ways(1, WAY_SHUT, 1, 3); /* a loser's vote at the first node */
    server[0].client = 2;
    server[0].end_ms = clock_of(&server[0]) + 20;
    (void)other;
    struct snib__request g = acquired(0);
    assert_int_equal(held_at(3), 3);
    run(500);
    assert_int_equal(server[0].client, 1);
    assert_true(server[0].token == g.token);
    assert_true(server[0].end_ms <=
                clock_of(&server[0]) + LEASE - 500 + 1); /* no longer lease */
}

/* -- opening ------------------------------------------------------------------------------------ */

static void urls(void **state)
{
    (void)state;
    static const struct {
        const char *url, *says;
    } bad[] = {
        {"redlock://a", "one server is no quorum"},
        {"redlock://a/1", "one server is no quorum; write redis://"},
        {"redlock://a:1/1,b:1/1", "the first / ends the list"},
        {"redlock://a,a", "stands twice"},
        {"redlock://a,A", "stands twice"},
        {"redlock://a,a:6379", "stands twice"},
        {"redlock://a,b?socket=/x", "node_ms="},
        {"redlock://a,b?node_ms=0", "1 to 60000"},
        {"redlock://a,b?node_ms=1x", "1 to 60000"},
        {"redlock://a,b/x", "database is a number"},
        {"redlock:a,b", "redlock://HOST"},
        {"redlock://u@a,b", "user without a password"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct snib__out out = {0};
        struct snib__url *url;
        struct snib__store *s;
        struct snib_error e;
        snib__list_init(&out.answered);
        snib__conns_init(&out, 1 << 20);
        assert_int_equal(snib__url_parse(bad[i].url, &url, &e), SNIB_ERR_OK);
        struct snib__store_config cfg = {
            .url = url, .out = &out, .request = snib__ms(PATIENCE)};
        assert_int_equal(tasks->open(&cfg, &s, &e), SNIB_ERR_USAGE);
        if (!strstr(e.text, bad[i].says)) {
            fail_msg("%s: %s", bad[i].url, e.text);
        }
        snib__url_free(url);
        snib__conns_free(&out);
    }
}

static void nodes_have_three_channels_each(void **state)
{
    (void)state;
    struct snib__out out = {0};
    struct snib__url *url;
    struct snib__store *s;
    struct snib_error e;
    snib__list_init(&out.answered);
    snib__list_init(&out.exec);
    snib__conns_init(&out, 1 << 20);
    assert_int_equal(snib__url_parse("redlock://:pw@a,[::1]:7,c:9/2", &url, &e),
                     SNIB_ERR_OK);
    assert_string_equal(url->safe, "redlock://:***@a,[::1]:7,c:9/2");
    struct snib__store_config cfg = {
        .url = url, .out = &out, .request = snib__ms(PATIENCE)};
    assert_int_equal(tasks->open(&cfg, &s, &e), SNIB_ERR_OK);
    snib__url_free(url);
    assert_string_equal(out.conn[0]->address, "a:6379");
    assert_string_equal(out.conn[4]->address, "[::1]:7");
    assert_string_equal(out.conn[8]->address, "c:9");
    assert_int_equal(out.conns, 9);
    struct snib__request g;
    open_clients(3, 0, 0);
    g = request(SNIB__ACQUIRE);
    struct snib__list chain;
    snib__list_init(&chain);
    snib__link_init(&g.link);
    snib__list_push(&chain, &g.link);
    tasks->start(s, now, &chain);
    assert_int_equal(opens(&out), 1 | 1 << 3 | 1 << 6); /* the callers' lines */
    struct snib__input in = {.kind = SNIB__IN_OPENED, .conn = 3};
    opens_taken(&out);
    tasks->input(s, now, &in);
    assert_true(snib__buf_size(&out.conn[3]->out) > 0);
    assert_int_equal(out.conn[3]->awaited, 6);
    tasks->free(s);
    snib__conns_free(&out);
}

/* An interim answer is no end of a request: the node's store has it still. */
static void a_place_in_a_queue_is_no_vote(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    client[0].way[0] = WAY_QUEUE;
    client[0].way[1] = WAY_QUEUE;
    struct snib_error e = {0};
    struct snib__request g = request(SNIB__ACQUIRE);
    g.said.reterr = &e;
    start(0, &g);
    finish(0, &g);
    assert_int_equal(g.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(g.said.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "1 of 3 servers answered, 2 must agree"));
    client[0].way[0] = client[0].way[1] = WAY_OPEN;
    run(LEASE + 100);
    assert_int_equal(held_at(3), 0);
    g = request(SNIB__ACQUIRE);
    assert_int_equal(ask(0, &g), SNIB__DONE);
}

int main(void)
{
    const struct CMUnitTest quorum[] = {
        CASE(all_are_asked_in_one_step_and_agree),
        CASE(the_lease_counts_from_the_sending),
        CASE(the_lease_is_the_shortest_that_was_given),
        CASE(a_minority_that_is_down_is_waited_for_once),
        CASE(without_a_majority_it_is_refused_and_says_why),
        CASE(a_waiter_without_a_majority_hears_it_before_its_limit),
        CASE(a_waiter_wins_when_the_majority_is_back),
        CASE(a_waiter_waits_for_who_refuses_and_not_for_who_is_nowhere),
        CASE(even_numbers_need_more_than_half),
        CASE(held_by_another_is_no_and_told_how_long),
        CASE(a_waiter_is_told_queued_once_and_wins_soon_after_the_end),
        CASE(a_waiter_wins_when_the_lease_of_a_dead_holder_ends),
        CASE(at_its_limit_a_waiter_has_surely_nothing),
        CASE(a_crowd_that_reaches_its_limits_together_is_told),
        CASE(a_limit_in_the_middle_of_a_round_is_a_time_out),
        CASE(servers_that_are_silent_at_the_limit_are_the_cause),
        CASE(servers_never_reached_at_the_limit_are_the_cause),
        CASE(a_lost_round_is_given_back_everywhere),
        CASE(a_late_acquire_meets_its_tombstone),
        CASE(what_a_round_before_waits_for_is_not_waited_for),
        CASE(split_votes_end_with_one_winner),
        CASE(a_try_repeats_a_split_vote_three_times),
        CASE(answers_slower_than_the_lease_are_no_grant),
        CASE(counting_kinds_are_refused),
        CASE(the_highest_token_is_written_back_before_success),
        CASE(a_clock_days_ahead_is_not_counted),
        CASE(a_node_that_missed_the_acquire_is_told_after_winning),
        CASE(a_place_in_a_queue_is_no_vote),
        CASE(urls),
        CASE(nodes_have_three_channels_each),
    };
    return RUN(quorum);
}
