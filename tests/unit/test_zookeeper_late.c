/* tests/unit/test_zookeeper_late.c — the store zookeeper, beside a model of its
 * server: records whose nodes are gone, answers that are lost, copies that come
 * late, and what is not ZooKeeper's. */
#include "zookeeper_world.h"

static void a_node_that_went_lets_nobody_in_for_a_lease(void **state)
{
    (void)state;
    another(false, 5000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    pass_ms(4990);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(count("=held-"), 1);
    pass_ms(1100);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_int_equal(count("=held-"), 1); /* its own */
}

static void a_second_record_is_waited_for_from_when_it_is_seen(void **state)
{
    (void)state;
    another(false, 5000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    pass_ms(4000);
    another_record(98, 5000);
    pass_ms(4500);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(count("=held-"), 2);
    pass_ms(2500);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_int_equal(count("=held-"), 1);
}

/* While its own session was over, the other one may have been granted the lock
 * anew, and have lost it anew. */
static void who_comes_back_waits_for_a_whole_lease_anew(void **state)
{
    (void)state;
    another(false, 5000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    pass_ms(4000);
    model_expire();
    up = false;
    input(SNIB__IN_CLOSED, NULL, 0);
    pass_ms(4500);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(count("__WRIT__"), 1);
    assert_int_equal(count("=held-"), 1);
    pass_ms(2500);
    assert_int_equal(answer(&r), SNIB__DONE);
}

static void a_try_is_not_let_in_beside_such_a_record(void **state)
{
    (void)state;
    another(false, 5000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.acquire.may_queue = false;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NO);
    assert_int_equal(count("__WRIT__"), 0);
}

static void a_try_gets_in_when_such_a_record_is_old(void **state)
{
    (void)state;
    another(false, 2000);
    snib__answer got = SNIB__NO;
    int64_t first = now.ns;
    for (uint64_t id = 5; id < 40 && got == SNIB__NO; id++) {
        struct snib__request r = request(SNIB__ACQUIRE, id);
        r.acquire.may_queue = false;
        ask(&r);
        got = answer(&r);
        assert_int_equal(count("=held-"), 1);
        pass_ms(got == SNIB__NO ? 1000 : 0);
    }
    assert_int_equal(got, SNIB__DONE);
    assert_true(now.ns - first > INT64_C(14000000000));
}

/* What a look shows: so many rows of each kind. */
static bool all; /* a list shows locks for which nobody waits, too */

static void assert_shown(snib__verb verb, uint32_t holders, uint32_t waiters,
                         uint32_t closed)
{
    struct snib__buf rows;
    struct snib__rec rec;
    uint32_t got[3] = {0};
    struct snib__request look = request(verb, 99);
    snib__buf_init(&rows, 1 << 16);
    if (verb == SNIB__LIST) {
        look.name = NULL;
        look.text = "*";
        look.text_size = 1;
        look.list.awaited_only = !all;
    }
    look.said.result = &rows;
    ask(&look);
    assert_int_equal(answer(&look), SNIB__DONE);
    snib__rec_begin(&rec, snib__buf_bytes(&rows), snib__buf_size(&rows));
    while (snib__rec_next_row(&rec)) {
        got[0] += rec.row == SNIB__ROW_HOLDER;
        got[1] += rec.row == SNIB__ROW_WAITER;
        got[2] += rec.row == SNIB__ROW_CLOSED;
    }
    assert_int_equal(got[0], holders);
    assert_int_equal(got[1], waiters);
    assert_int_equal(got[2], closed);
    snib__buf_free(&rows);
}

static void who_waits_for_such_a_record_is_not_shown_as_its_holder(void **state)
{
    (void)state;
    another(false, 5000);
    struct snib__request r = request(SNIB__ACQUIRE, 5),
                         b = request(SNIB__ACQUIRE, 6);
    ask(&r);
    ask(&b);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    pass_ms(1000);
    assert_shown(SNIB__INSPECT, 0, 2, 1);
    assert_shown(SNIB__LIST, 0, 2, 1);
    cancelled(&b);
    assert_shown(SNIB__LIST, 0, 1, 1);
    pass_ms(5100);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_shown(SNIB__INSPECT, 1, 0, 0);
    give_back(&r);
}

/* Also where the same look sees those of other locks. */
static void what_is_closed_in_several_locks_is_over_in_each(void **state)
{
    struct model_node *made;
    char child[ZOO_CHILD_MAX], path[200];
    const uint64_t id[2] = {98, 98};
    (void)state;
    another(false, 2000);
    (void)model_create("/l/m", "", 0, 0, &made);
    snib__zoo_child_record(id, false, 4000, child);
    snprintf(path, sizeof path, "/l/m/%s", child);
    assert_false(model_create(path, "", 0, 0, &made));
    all = true;
    for (int i = 0; i < 9; i++) {
        assert_shown(SNIB__LIST, 0, 0, i < 4 ? 2 : i < 8 ? 1 : 0);
        pass_ms(501);
    }
    all = false;
}

/* Curator's clients do not wait for it. */
static void who_looks_at_no_record_is_shown_as_the_holder(void **state)
{
    (void)state;
    another(false, 5000);
    another_node(97);
    assert_shown(SNIB__INSPECT, 1, 0, 1);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_shown(SNIB__INSPECT, 1, 1, 1);
    assert_shown(SNIB__LIST, 1, 1, 1);
    cancelled(&r);
}

/* Each of them begins with its wait, and gives up before the lease is over. */
static void
waits_that_are_too_short_get_in_when_such_a_record_is_old(void **state)
{
    (void)state;
    another(false, 2000);
    snib__answer got = SNIB__QUEUED;
    int64_t first = now.ns;
    for (uint64_t id = 5; id < 40 && got != SNIB__DONE; id++) {
        struct snib__request r = request(SNIB__ACQUIRE, id);
        ask(&r);
        got = answer(&r);
        assert_int_equal(count("=held-"), 1);
        if (got != SNIB__DONE) {
            assert_int_equal(got, SNIB__QUEUED);
            pass_ms(1000);
            struct snib__request cancel = request(SNIB__CANCEL, id);
            ask(&cancel);
            pass_ms(50);
            assert_int_equal(answer(&cancel), SNIB__DONE);
            (void)answer(&r);
        }
    }
    assert_int_equal(got, SNIB__DONE);
    assert_true(now.ns - first > INT64_C(14000000000));
}

/* Whichever answer is lost: the request ends as DONE with one node and one
 * record, by its repeats. */
static void an_answer_that_is_lost_makes_no_second_node(void **state)
{
    (void)state;
    for (uint32_t silent_from = 1; silent_from < 9; silent_from++) {
        model.frames = 0;
        model.silent_from = silent_from;
        struct snib__request r = request(SNIB__ACQUIRE, 100 + silent_from);
        ask(&r);
        snib__answer got = answer(&r);
        for (int i = 0; i < 20 && got != SNIB__DONE; i++) {
            pass_ms(200);
            if (got == SNIB__UNKNOWN) {
                r.resent = true;
                ask(&r);
            }
            got = answer(&r);
        }
        assert_int_equal(got, SNIB__DONE);
        assert_int_equal(count("__WRIT__"), 1);
        assert_int_equal(count("=held-"), 1);
        model.silent_from = 0;
        struct snib__request release =
            request(SNIB__RELEASE, 100 + silent_from);
        release.token = r.token;
        ask(&release);
        assert_int_equal(answer(&release), SNIB__DONE);
        assert_int_equal(count("__WRIT__") + count("=held-"), 0);
    }
}

static void a_copy_that_comes_late_makes_nothing(void **state)
{
    (void)state;
    struct snib__request first = request(SNIB__ACQUIRE, 4);
    ask(&first);
    assert_int_equal(answer(&first), SNIB__DONE);
    give_back(&first);
    keep("__WRIT__", "never");
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__UNKNOWN);
    struct snib__request cancel = request(SNIB__CANCEL, 5);
    ask(&cancel);
    pass_ms(500);
    assert_int_equal(answer(&cancel), SNIB__DONE);
    late();
    assert_int_equal(count("__WRIT__"), 0);
    assert_int_equal(count("=held-"), 0);
}

/* It stands behind another one, which has gone when it comes. */
static void a_node_that_comes_late_is_not_made(void **state)
{
    (void)state;
    another(true, 30000);
    keep("__WRIT__", "=held-");
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__UNKNOWN);
    struct snib__request cancel = request(SNIB__CANCEL, 5);
    ask(&cancel);
    others_go();
    pass_ms(500);
    assert_int_equal(answer(&cancel), SNIB__DONE);
    late();
    assert_int_equal(count("__WRIT__"), 0);
}

/* Its record is of a session that is over. */
static void
a_removal_of_its_own_record_that_comes_late_ends_nothing(void **state)
{
    (void)state;
    another(false, 2000);
    keep("=held-", "never");
    struct snib__request r = request(SNIB__ACQUIRE, 99);
    ask(&r);
    comes_in(&r);
    assert_int_equal(count("=held-"), 1);
    late();
    assert_int_equal(count("=held-"), 1);
    assert_int_equal(count("__WRIT__"), 1);
}

/* A try has found a record old enough; until its removal comes, that request was
 * granted the lock anew. */
static void
a_removal_of_anothers_record_that_comes_late_ends_nothing(void **state)
{
    (void)state;
    another(false, 2000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.acquire.may_queue = false;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NO);
    pass_ms(15000);
    keep("=held-0000000000000063", "=held-0000000000000006");
    model.keep_op = SNIB__ZK_MULTI;
    struct snib__request again = request(SNIB__ACQUIRE, 6);
    again.acquire.may_queue = false;
    ask(&again);
    comes_in(&again);
    give_back(&again);
    another(true, 2000);
    late();
    assert_int_equal(count("=held-"), 1);
}

/* A node of this request that an earlier session made, and a second one. */
static void nodes_that_are_not_to_be_there_are_removed(void **state)
{
    (void)state;
    struct model_node *made;
    char child[ZOO_CHILD_MAX], path[200];
    const uint64_t id[2] = {5, 5};
    another(true, 30000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    snib__zoo_child_stands(id, false, child);
    snprintf(path, sizeof path, "/l/n/%s", child);
    assert_false(model_create(path, "", 0, 3, &made));
    int64_t czxid = made->czxid;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(count("__WRIT__"), 2); /* the other one's, and one */
    assert_false(made->there && made->czxid == czxid);
    assert_false(model_create(path, "", 0, 3, &made));
    pass_ms(3500);
    assert_int_equal(count("__WRIT__"), 2);
    cancelled(&r);
    assert_int_equal(count("__WRIT__"), 1);
}

/* A writer who reads as well. It is found granted, though a writer stands before
 * it by then. */
static void a_writers_read_whose_answer_was_lost_is_found(void **state)
{
    (void)state;
    struct snib__request w = request(SNIB__ACQUIRE, 5),
                         b = request(SNIB__ACQUIRE, 6), r = reader(7, 5);
    w.lease = r.lease = snib__ms(60000);
    ask(&w);
    assert_int_equal(answer(&w), SNIB__DONE);
    ask(&b);
    assert_int_equal(answer(&b), SNIB__QUEUED);
    model.frames = 0;
    model.silent_from = 4; /* look, stand, look, grant */
    ask(&r);
    model.silent_from = 0;
    assert_int_equal(answer(&r), SNIB__UNKNOWN);
    assert_int_equal(count("-R-"), 1);
    pass_ms(200);
    give_back(&w);
    r.resent = true;
    ask(&r);
    comes_in(&r);
    assert_true(r.token == w.token);
    assert_int_not_equal(answer(&b), SNIB__DONE);
    cancelled(&b);
}

/* It was the writer no more when its grant as a reader came to the server. */
static void a_writers_read_that_comes_late_is_none(void **state)
{
    (void)state;
    struct snib__request w = request(SNIB__ACQUIRE, 5),
                         b = request(SNIB__ACQUIRE, 6), r = reader(7, 5);
    ask(&w);
    assert_int_equal(answer(&w), SNIB__DONE);
    ask(&b);
    assert_int_equal(answer(&b), SNIB__QUEUED);
    keep("-R-2000", "never");
    ask(&r);
    pass_ms(200);
    give_back(&w);
    late();
    assert_int_equal(count("-R-"), 0);
    (void)answer(&r);
    cancelled(&b);
}

/* Bytes at random, and answers cut and turned: nothing is granted by them. */
static void hostile_bytes_grant_nothing(void **state)
{
    (void)state;
    uint32_t dice = 12345;
    for (int round = 0; round < 300; round++) {
        uint8_t bytes[128];
        struct snib__request r = request(SNIB__ACQUIRE, 1000 + (uint64_t)round);
        model.silent_from = 1 + (uint32_t)round % 5;
        model.frames = 0;
        model.mute = true;
        ask(&r);
        for (size_t i = 0; i < sizeof bytes; i++) {
            dice = dice * 1103515245 + 12345;
            bytes[i] = (uint8_t)(dice >> 16);
        }
        bytes[0] = bytes[1] = 0;
        bytes[2] = 0;
        bytes[3] &= 0x3f;
        if (round % 2) {
            bytes[4] = bytes[5] = bytes[6] = 0; /* a number that may be due */
        }
        model.mute = false;
        model.silent_from = 0;
        input(SNIB__IN_BYTES, bytes, sizeof bytes);
        settle();
        (void)answer(&r);
        struct snib__request cancel = request(SNIB__CANCEL, r.id[0]);
        ask(&cancel);
        pass_ms(6000);
        assert_int_equal(answer(&cancel), SNIB__DONE);
        (void)answer(&r);
        assert_int_equal(count("__WRIT__"), 0);
    }
}

/* Its node is another session's by now, as far as the server says. */
static void a_grant_on_a_node_of_another_session_is_none(void **state)
{
    (void)state;
    another(true, 30000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    others_go();
    for (int i = 0; i < MODEL_NODES; i++) {
        struct model_node *n = &model.node[i];
        n->owner = n->there && strstr(n->path, "__WRIT__") ? 78 : n->owner;
    }
    event(model.watch);
    assert_int_equal(answer(&r), SNIB__UNKNOWN);
}

/* A multi whose results are none of what was asked. */
static void a_renewal_counts_only_if_it_was_done(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5),
                         renew = request(SNIB__RENEW, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    renew.token = r.token;
    model.refuse = "=held-";
    model.refuse_op = SNIB__ZK_MULTI;
    model.errs = true;
    ask(&renew);
    assert_int_not_equal(answer(&renew), SNIB__DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_node_that_went_lets_nobody_in_for_a_lease),
        CASE(a_second_record_is_waited_for_from_when_it_is_seen),
        CASE(who_comes_back_waits_for_a_whole_lease_anew),
        CASE(a_try_is_not_let_in_beside_such_a_record),
        CASE(a_try_gets_in_when_such_a_record_is_old),
        CASE(who_waits_for_such_a_record_is_not_shown_as_its_holder),
        CASE(what_is_closed_in_several_locks_is_over_in_each),
        CASE(who_looks_at_no_record_is_shown_as_the_holder),
        CASE(waits_that_are_too_short_get_in_when_such_a_record_is_old),
        CASE(an_answer_that_is_lost_makes_no_second_node),
        CASE(a_copy_that_comes_late_makes_nothing),
        CASE(a_node_that_comes_late_is_not_made),
        CASE(a_removal_of_its_own_record_that_comes_late_ends_nothing),
        CASE(a_removal_of_anothers_record_that_comes_late_ends_nothing),
        CASE(nodes_that_are_not_to_be_there_are_removed),
        CASE(a_writers_read_whose_answer_was_lost_is_found),
        CASE(a_writers_read_that_comes_late_is_none),
        CASE(a_grant_on_a_node_of_another_session_is_none),
        CASE(a_renewal_counts_only_if_it_was_done),
        CASE(hostile_bytes_grant_nothing),
    };
    return RUN(tests);
}
