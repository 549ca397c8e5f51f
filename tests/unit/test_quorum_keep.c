/* The quorum: renewing, ending, looking. */
#include "quorum_world.h"
#include "snib/inspect.h"

/* -- renewing ------------------------------------------------------------------------------ */

static void renewal_needs_a_majority(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    run(1000);
    client[0].way[0] = WAY_SHUT;
    snib_instant sent = now;
    struct snib__request r = of_grant(SNIB__RENEW, &g);
    assert_int_equal(ask(0, &r), SNIB__DONE);
    assert_int_equal(r.said.valid_from.ns, sent.ns);
    client[0].way[1] = WAY_SHUT;
    r = of_grant(SNIB__RENEW, &g);
    assert_int_equal(ask(0, &r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_UNREACHABLE);
}

static void renewal_sets_the_grant_where_a_node_was_emptied(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    run(10);
    server[2] = (struct server){0};
    struct snib__request r = of_grant(SNIB__RENEW, &g);
    assert_int_equal(ask(0, &r), SNIB__DONE);
    run(10);
    assert_true(server[2].token == g.token && server[2].client == 1);
    assert_true(server[2].memory >= g.token + 31);
    server[0] = server[1] = (struct server){0}; /* now a majority at once */
    r = of_grant(SNIB__RENEW, &g);
    assert_int_equal(ask(0, &r), SNIB__DONE);
    run(10);
    assert_int_equal(held_at(3), 3);
}

static void renewal_does_not_set_where_another_was_granted_since(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request g = acquired(0);
    run(10);
    server[0] = server[1] = (struct server){0};
    struct snib__request o = acquired(1);
    struct snib__request r = of_grant(SNIB__RENEW, &g);
    assert_int_equal(ask(0, &r), SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_LOST);
    r = of_grant(SNIB__RENEW, &o);
    assert_int_equal(ask(1, &r), SNIB__DONE);
    /* Granted and ended since: the lock is free, and yet not ours. */
    assert_int_equal(end(1, &o), SNIB__DONE);
    run(10);
    r = of_grant(SNIB__RENEW, &g);
    assert_int_not_equal(ask(0, &r), SNIB__DONE);
}

static void a_force_release_is_told_as_revoked(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request g = acquired(0);
    struct snib__buf rows;
    snib__buf_init(&rows, 1 << 16);
    run(10);
    struct snib__request f = request(SNIB__FORCE);
    f.said.result = &rows;
    assert_int_equal(ask(1, &f), SNIB__DONE);
    snib__buf_free(&rows);
    struct snib__request r = of_grant(SNIB__RENEW, &g);
    assert_int_equal(ask(0, &r), SNIB__NO);
    assert_true(r.said.revoked);
    assert_int_equal(held_at(3), 0); /* and is not set again */
}

static void each_of_two_that_were_forced_is_told_its_own_words(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    struct snib_error said[2] = {{0}};
    struct snib__request r[2];
    run(10);
    for (int k = 0; k < 3; k++) {
        server[k].all_marked = true;
    }
    for (int i = 0; i < 2; i++) { /* answered in one step of each node */
        r[i] = of_grant(SNIB__RENEW, &g);
        r[i].id[0] += (uint64_t)i;
        r[i].said.reterr = &said[i];
        start(0, &r[i]);
    }
    for (int i = 0; i < 2; i++) {
        char want[40];
        finish(0, &r[i]);
        assert_int_equal(r[i].said.answer, SNIB__NO);
        assert_true(r[i].said.revoked);
        snprintf(want, sizeof want, "revoked: %llu",
                 (unsigned long long)r[i].id[0]);
        assert_string_equal(said[i].text, want);
    }
}

/* A node that owes hundreds of answers is not asked, and has not answered. */
static void a_node_that_was_not_asked_is_not_counted_as_heard(void **state)
{
    (void)state;
    enum { OWED = BEHIND_MAX + 1 };
    static struct snib__request many[OWED];
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    run(10);
    client[0].way[2] = WAY_MUTE;
    for (int i = 0; i < OWED; i++) {
        many[i] = of_grant(SNIB__RENEW, &g);
        start(0, &many[i]);
    }
    for (int i = 0; i < OWED; i++) {
        finish(0, &many[i]);
        assert_int_equal(many[i].said.answer, SNIB__DONE);
    }
    run(1);
    uint32_t renews = server[2].renews;
    client[0].way[1] = WAY_SHUT;
    struct snib_error e = {0};
    struct snib__request r = of_grant(SNIB__RENEW, &g);
    r.said.reterr = &e;
    assert_int_equal(ask(0, &r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_UNREACHABLE);
    assert_int_equal(server[2].renews, renews); /* and was not asked */
    assert_non_null(strstr(e.text, "1 of 3 servers answered, 2 must agree"));
    client[0].way[1] = client[0].way[2] = WAY_OPEN;
    run(2 * LEASE);
}

/* What a node was found to have before says nothing of this renewal. */
static void each_renewal_counts_its_own_answers(void **state)
{
    (void)state;
    static const struct {
        way way[5];
        snib__answer answer;
        const char *says;
    } t[] = {
        {{WAY_OPEN, WAY_OPEN, WAY_OPEN, WAY_SHUT, WAY_SHUT}, SNIB__DONE, NULL},
        {{WAY_OPEN, WAY_OPEN, WAY_SHUT, WAY_SHUT, WAY_SHUT},
         SNIB__NOT_APPLIED,
         "2 of 5 servers answered, 3 must agree"},
        {{WAY_OPEN, WAY_OPEN, WAY_MUTE, WAY_MUTE, WAY_SHUT},
         SNIB__NOT_APPLIED,
         "2 of 5 servers answered, 3 must agree"},
        {{WAY_SHUT, WAY_SHUT, WAY_SHUT, WAY_SHUT, WAY_SHUT},
         SNIB__NOT_APPLIED,
         "0 of 5 servers answered, 3 must agree"},
        {{WAY_OPEN, WAY_OPEN, WAY_OPEN, WAY_OPEN, WAY_OPEN}, SNIB__DONE, NULL},
    };
    open_clients(5, 1, 0);
    struct snib__request g = acquired(0);
    run(10);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_error e = {0};
        for (int k = 0; k < 5; k++) {
            client[0].way[k] = t[i].way[k];
        }
        struct snib__request r = of_grant(SNIB__RENEW, &g);
        r.said.reterr = &e;
        assert_int_equal(ask(0, &r), t[i].answer);
        assert_true(!t[i].says || strstr(e.text, t[i].says));
        run(100);
    }
}

/* -- ending ----------------------------------------------------------------------------------- */

static void release_ends_at_a_majority_and_then_everywhere(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    run(200);
    client[0].way[2] = WAY_SHUT;
    assert_int_equal(end(0, &g), SNIB__DONE);
    assert_int_equal(held_at(3), 1);
    client[0].way[2] = WAY_OPEN;
    run(3000);
    assert_int_equal(held_at(3), 0);
}

static void release_without_a_majority_is_unknown_at_its_limit(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    run(200);
    all_ways(0, WAY_SHUT, 1, 3);
    struct snib__request r = of_grant(SNIB__RELEASE, &g);
    start(0, &r);
    assert_in_range(finish(0, &r), 4999, 5001);
    assert_int_equal(r.said.answer, SNIB__UNKNOWN);
}

/* A force is done at a majority and so is a release: they share one server,
 * and its word is enough, whichever is slow. */
static void release_of_what_one_server_knows_was_forced_is_lost(void **state)
{
    (void)state;
    for (uint32_t slow = 0; slow < 2; slow++) {
        open_clients(3, 2, 0);
        struct snib__request g = acquired(0), f = request(SNIB__FORCE);
        struct snib__buf rows;
        snib__buf_init(&rows, 1 << 12);
        f.said.result = &rows;
        client[1].way[2] = WAY_SHUT; /* it has our grant yet */
        start(1, &f);
        finish(1, &f);
        assert_int_equal(server[0].client | server[1].client, 0);
        client[0].there_ms[slow] = 400;
        struct snib__request r = of_grant(SNIB__RELEASE, &g);
        start(0, &r);
        assert_in_range(finish(0, &r), 0, 100);
        assert_int_equal(r.said.answer, SNIB__NO);
        assert_true(r.said.revoked);
        snib__buf_free(&rows);
        run(LEASE);
        tear_down(NULL);
    }
}

static void release_of_what_is_not_ours_is_no(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    assert_int_equal(end(0, &g), SNIB__DONE);
    run(100);
    assert_int_equal(end(0, &g), SNIB__NO);
}

static void release_overtakes_a_set_that_is_under_way(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    run(200);
    server[2] = (struct server){0};
    client[0].there_ms[2] = 100;
    struct snib__request r = of_grant(SNIB__RENEW, &g);
    start(0, &r);
    run(150); /* node 2 has said no; the set is on its way */
    assert_true(is_answered(0, &r));
    assert_int_equal(r.said.answer, SNIB__DONE);
    client[0].there_ms[2] = 0; /* overtakes */
    assert_int_equal(end(0, &g), SNIB__DONE);
    run(1000);
    assert_true(server[2].keeps > 0);
    assert_int_equal(held_at(3), 0); /* H15 */
}

static void cancel_answers_the_acquire_and_leaves_nothing(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    for (int k = 0; k < 3; k++) {
        client[0].there_ms[k] = 50 + 100 * k;
    }
    struct snib__request g = request(SNIB__ACQUIRE), c;
    g.acquire.may_queue = true;
    start(0, &g);
    run(60); /* one has granted, two are under way */
    c = of_grant(SNIB__CANCEL, &g);
    c.token = 0;
    start(0, &c);
    assert_true(is_answered(0, &g));
    assert_int_equal(g.said.answer, SNIB__NO);
    assert_int_equal(g.said.err, SNIB_ERR_CANCELLED);
    finish(0, &c);
    assert_int_equal(c.said.answer, SNIB__DONE);
    run(5000);
    assert_int_equal(held_at(3), 0);
}

/* Whoever still waits for a renewal of it hears that nobody can know. */
static void cancel_answers_the_renewal_that_is_under_way(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0), r, c;
    for (int k = 0; k < 3; k++) {
        client[0].there_ms[k] = 50;
    }
    r = of_grant(SNIB__RENEW, &g);
    c = of_grant(SNIB__CANCEL, &g);
    start(0, &r);
    run(10);
    start(0, &c);
    assert_true(is_answered(0, &r));
    assert_int_equal(r.said.answer, SNIB__UNKNOWN);
    assert_int_equal(r.said.err, SNIB_ERR_CANCELLED);
    finish(0, &c);
    assert_int_equal(c.said.answer, SNIB__DONE);
    run(5000);
    assert_int_equal(held_at(3), 0);
}

static void cancel_of_a_waiter_at_rest_is_done_at_once(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    acquired(0);
    struct snib__request w = request(SNIB__ACQUIRE);
    w.acquire.may_queue = true;
    start(1, &w);
    run(3);
    is_answered(1, &w);
    struct snib__request c = of_grant(SNIB__CANCEL, &w);
    c.token = 0;
    start(1, &c);
    assert_true(is_answered(1, &c) && is_answered(1, &w));
    assert_int_equal(w.said.answer, SNIB__NO);
    run(1000);
    assert_int_equal(held_at(3), 3);
}

static void a_yield_ends_the_prior_grant_and_lets_others_in(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request g = acquired(0), y, w = request(SNIB__ACQUIRE);
    run(200);
    w.acquire.may_queue = true;
    start(1, &w);
    run(5);
    y = request(SNIB__ACQUIRE);
    y.token = g.token;
    y.acquire.may_queue = true;
    start(0, &y);
    tick(now);
    run(0);
    assert_int_equal(held_at(3), 0);
    bool first = false, second = false;
    for (int n = 0; !first && !second; n++) {
        assert_true(n < 1000);
        tick(due());
        first = is_answered(0, &y) && y.said.answer == SNIB__DONE;
        second = is_answered(1, &w) && w.said.answer == SNIB__DONE;
    }
    assert_true(first != second);
    assert_true((first ? y : w).token > g.token + 31);
}

/* -- looking --------------------------------------------------------------------------------- */

static int rows_of(struct snib__buf *b, int row, int field, int64_t *ret)
{
    struct snib__rec r;
    int n = 0;
    snib__rec_begin(&r, snib__buf_bytes(b), snib__buf_size(b));
    while (snib__rec_next_row(&r)) {
        n += r.row == row;
        while (snib__rec_next_field(&r)) {
            if (r.row == row && r.field == field) {
                *ret = snib__rec_value_i64(&r);
            }
        }
    }
    return n;
}

static void holder_is_who_has_a_majority(void **state)
{
    (void)state;
    open_clients(5, 2, 0);
    struct snib__buf rows;
    int64_t token = 0, left = 0;
    snib__buf_init(&rows, 1 << 16);
    all_ways(0, WAY_SHUT, 4, 5);
    struct snib__request g = acquired(0);
    server[4].client = 2; /* a loser's vote */
    server[4].end_ms = clock_of(&server[4]) + 5000;
    struct snib__request r = request(SNIB__INSPECT);
    r.said.result = &rows;
    assert_int_equal(ask(1, &r), SNIB__DONE);
    assert_int_equal(rows_of(&rows, SNIB__ROW_LOCK, SNIB__F_TOKEN, &token), 1);
    assert_true(token == g.token + 31);
    assert_int_equal(rows_of(&rows, SNIB__ROW_HOLDER, SNIB__F_TOKEN, &token),
                     1);
    assert_true(token == g.token);
    assert_int_equal(rows_of(&rows, SNIB__ROW_WAITER, SNIB__F_LEFT, &left), 1);
    assert_int_equal(left, 5000);
    all_ways(1, WAY_SHUT, 0, 3);
    r = request(SNIB__INSPECT);
    r.said.result = &rows;
    assert_int_equal(ask(1, &r), SNIB__NOT_APPLIED);
    snib__buf_free(&rows);
}

static int64_t results(int i, struct snib__buf *rows)
{
    struct snib__request r = request(SNIB__INSPECT);
    snib__buf_clear(rows);
    r.said.result = rows;
    start(i, &r);
    int64_t took = finish(i, &r);
    assert_int_equal(r.said.answer, SNIB__DONE);
    return took;
}

/* It takes what is asked, and says nothing. The others are a majority. */
static void a_look_does_not_wait_for_a_silent_server(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__buf rows;
    int64_t none;
    snib__buf_init(&rows, 1 << 16);
    client[1].way[2] = WAY_MUTE;
    for (int i = 0; i < 3; i++) { /* nobody holds */
        assert_in_range(results(1, &rows), 1, PATIENCE / 8);
        assert_int_equal(rows_of(&rows, SNIB__ROW_HOLDER, 0, &none), 0);
    }
    acquired(0);
    for (int i = 0; i < 3; i++) {
        assert_in_range(results(1, &rows), 1, PATIENCE / 8);
        assert_int_equal(rows_of(&rows, SNIB__ROW_HOLDER, 0, &none), 1);
    }
    run(5000); /* its answers are over, too */
    snib__buf_free(&rows);
}

/* Held on servers 0 and 2: nobody can say so before the slow one has. */
static void a_look_waits_for_the_answer_that_decides(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__buf rows;
    int64_t none;
    snib__buf_init(&rows, 1 << 16);
    acquired(0);
    server[1].client = 0;
    client[1].there_ms[2] = client[1].back_ms[2] = 400;
    assert_int_equal(results(1, &rows), 800);
    assert_int_equal(rows_of(&rows, SNIB__ROW_HOLDER, 0, &none), 1);
    server[1].client = server[0].client; /* as it was given */
    server[1].end_ms = server[0].end_ms;
    assert_in_range(results(1, &rows), 1, PATIENCE / 8);
    assert_int_equal(rows_of(&rows, SNIB__ROW_HOLDER, 0, &none), 1);
    client[1].there_ms[2] = client[1].back_ms[2] = 20; /* in the grace */
    server[1].client = 0;
    assert_int_equal(results(1, &rows), 40);
    assert_int_equal(rows_of(&rows, SNIB__ROW_HOLDER, 0, &none), 1);
    snib__buf_free(&rows);
}

/* Each finding says once how bad it is. */
static void levels_are(const struct snib__buf *rows, const int64_t *expected)
{
    struct snib__rec r;
    snib__rec_begin(&r, snib__buf_bytes(rows), snib__buf_size(rows));
    for (int i = 0; snib__rec_next_row(&r); i++) {
        int n = 0;
        while (snib__rec_next_field(&r)) {
            if (r.field == SNIB__F_LEVEL) {
                assert_int_equal(snib__rec_value_i64(&r), expected[i]);
                n++;
            }
        }
        assert_int_equal(n, 1);
    }
}

static void doctor_speaks_of_each_node(void **state)
{
    (void)state;
    open_clients(4, 1, 0);
    struct snib__buf rows;
    int64_t level = 0;
    snib__buf_init(&rows, 1 << 16);
    client[0].way[3] = WAY_SHUT;
    struct snib__request r = request(SNIB__DOCTOR);
    r.said.result = &rows;
    assert_int_equal(ask(0, &r), SNIB__DONE);
    /* three are fine, one is down; the majority; an even number */
    assert_int_equal(rows_of(&rows, SNIB__ROW_FINDING, SNIB__F_LEVEL, &level),
                     6);
    levels_are(&rows, (const int64_t[]){SNIB_LEVEL_OK, SNIB_LEVEL_OK,
                                        SNIB_LEVEL_OK, SNIB_LEVEL_FAIL,
                                        SNIB_LEVEL_WARN, SNIB_LEVEL_WARN});
    const char *text = (const char *)snib__buf_bytes(&rows);
    assert_non_null(memmem(text, snib__buf_size(&rows), "a: fine", 7));
    assert_non_null(memmem(text, snib__buf_size(&rows), "d: no answer", 12));
    /* Who answers, and has nothing to say, has answered. */
    server[0].mute = true;
    assert_int_equal(ask(0, &r), SNIB__DONE);
    assert_int_equal(rows_of(&rows, SNIB__ROW_FINDING, SNIB__F_LEVEL, &level),
                     5);
    text = (const char *)snib__buf_bytes(&rows);
    assert_null(memmem(text, snib__buf_size(&rows), "a: no answer", 12));
    snib__buf_free(&rows);
}

/* All that was found is told, and the end is that of any other request. */
static void doctor_without_a_majority_cannot_reach_the_store(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__buf rows;
    struct snib_error e = {0};
    int64_t level = 0;
    snib__buf_init(&rows, 1 << 16);
    client[0].way[1] = client[0].way[2] = WAY_SHUT;
    struct snib__request r = request(SNIB__DOCTOR);
    r.said.result = &rows;
    r.said.reterr = &e;
    assert_int_equal(ask(0, &r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "no majority: 1 of 3 servers answered"));
    assert_int_equal(rows_of(&rows, SNIB__ROW_FINDING, SNIB__F_LEVEL, &level),
                     4);
    levels_are(&rows, (const int64_t[]){SNIB_LEVEL_OK, SNIB_LEVEL_FAIL,
                                        SNIB_LEVEL_FAIL, SNIB_LEVEL_FAIL});
    snib__buf_free(&rows);
}

int main(void)
{
    const struct CMUnitTest keep[] = {
        CASE(renewal_needs_a_majority),
        CASE(renewal_sets_the_grant_where_a_node_was_emptied),
        CASE(renewal_does_not_set_where_another_was_granted_since),
        CASE(a_force_release_is_told_as_revoked),
        CASE(each_of_two_that_were_forced_is_told_its_own_words),
        CASE(a_node_that_was_not_asked_is_not_counted_as_heard),
        CASE(each_renewal_counts_its_own_answers),
        CASE(release_ends_at_a_majority_and_then_everywhere),
        CASE(release_without_a_majority_is_unknown_at_its_limit),
        CASE(release_of_what_one_server_knows_was_forced_is_lost),
        CASE(release_of_what_is_not_ours_is_no),
        CASE(release_overtakes_a_set_that_is_under_way),
        CASE(cancel_answers_the_acquire_and_leaves_nothing),
        CASE(cancel_answers_the_renewal_that_is_under_way),
        CASE(cancel_of_a_waiter_at_rest_is_done_at_once),
        CASE(a_yield_ends_the_prior_grant_and_lets_others_in),
        CASE(holder_is_who_has_a_majority),
        CASE(a_look_does_not_wait_for_a_silent_server),
        CASE(a_look_waits_for_the_answer_that_decides),
        CASE(doctor_speaks_of_each_node),
        CASE(doctor_without_a_majority_cannot_reach_the_store),
    };
    return RUN(keep);
}
