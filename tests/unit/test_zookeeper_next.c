/* tests/unit/test_zookeeper_next.c — the store zookeeper, beside a model of its
 * server: who waited for one node, which has gone, has the lock by one round trip, if
 * it is its turn. */
#include "zookeeper_world.h"

static struct snib__request r;

/* It stands behind somebody who holds. */
static void waits_behind_one(void)
{
    another(true, 2000);
    r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(count("__WRIT__"), 2);
    model.writes = model.reads = 0;
}

static struct model_node *own_node(void)
{
    for (int i = 0; i < MODEL_NODES; i++) {
        struct model_node *n = &model.node[i];
        if (n->there && n->owner == model.session &&
            strstr(n->path, "__WRIT__")) {
            return n;
        }
    }
    return NULL;
}

/* The node that it watches goes, and it is told. */
static void it_goes(bool record_too)
{
    char path[200];
    snprintf(path, sizeof path, "%s", model.watch);
    model_remove(path);
    if (record_too) {
        others_go();
    }
    event(path);
}

static void after_a_release_one_round_trip_is_enough(void **state)
{
    (void)state;
    waits_behind_one();
    int64_t czxid = own_node()->czxid;
    it_goes(true);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_int_equal(model.writes, 1);
    assert_int_equal(model.reads, 1);
    assert_int_equal(r.token, czxid);
    assert_int_equal(count("=held-"), 1);
    give_back(&r);
    assert_int_equal(count("=held-") + count("__WRIT__"), 0);
}

/* Its node is gone, and its record is there: somebody may believe in it. */
static void behind_who_died_it_waits_in_its_place(void **state)
{
    (void)state;
    waits_behind_one();
    char path[200];
    snprintf(path, sizeof path, "%s", own_node()->path);
    snib_instant died = now;
    it_goes(false);
    assert_int_not_equal(answer(&r), SNIB__DONE);
    assert_int_equal(count("=held-"), 1); /* that one's */
    assert_string_equal(own_node()->path, path);
    comes_in(&r);
    assert_true(snib__between(died, now).ns >= INT64_C(2000000000));
    assert_string_equal(own_node()->path, path);
    assert_int_equal(count("=held-"), 1); /* its own */
    give_back(&r);
}

/* What it was told is of before: somebody else is in the way by now. */
static void where_a_record_is_it_has_nothing(void **state)
{
    (void)state;
    waits_behind_one();
    others_go();
    another_record(97, 30000);
    event(model.watch);
    assert_int_not_equal(answer(&r), SNIB__DONE);
    assert_int_equal(count("=held-"), 1);
    assert_int_equal(count("__WRIT__"), 1);
    pass_ms(5000);
    assert_int_not_equal(answer(&r), SNIB__DONE);
    cancelled(&r);
}

static void with_two_before_it_nothing_is_guessed(void **state)
{
    (void)state;
    another(true, 30000);
    another_node(98);
    r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    model.writes = 0;
    it_goes(false);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(model.writes, 0);
    cancelled(&r);
}

static void a_lost_answer_is_looked_for(void **state)
{
    (void)state;
    for (uint32_t frame = 1; frame < 3; frame++) {
        waits_behind_one();
        int64_t czxid = own_node()->czxid;
        model.frames = 0;
        model.silent_from = frame;
        it_goes(true);
        model.silent_from = 0;
        comes_in(&r);
        assert_int_equal(r.token, czxid);
        assert_int_equal(count("=held-"), 1);
        give_back(&r);
        assert_int_equal(count("=held-") + count("__WRIT__"), 0);
    }
}

/* The record that is found is no grant. */
static void a_lost_answer_is_not_believed(void **state)
{
    (void)state;
    for (uint32_t frame = 1; frame < 3; frame++) {
        waits_behind_one();
        model.frames = 0;
        model.silent_from = frame;
        snib_instant died = now;
        it_goes(false);
        model.silent_from = 0;
        comes_in(&r);
        assert_true(snib__between(died, now).ns >= INT64_C(2000000000));
        assert_int_equal(count("=held-"), 1);
        give_back(&r);
        assert_int_equal(count("=held-") + count("__WRIT__"), 0);
    }
}

/* Its fence was changed meanwhile: nothing was done. */
static void who_is_refused_keeps_its_place(void **state)
{
    (void)state;
    waits_behind_one();
    char path[200];
    snprintf(path, sizeof path, "%s", own_node()->path);
    for (int i = 0; i < MODEL_NODES; i++) {
        struct model_node *n = &model.node[i];
        n->version += n->there && strstr(n->path, "=fence-");
    }
    it_goes(true);
    comes_in(&r);
    assert_string_equal(own_node()->path, path);
    give_back(&r);
}

/* Somebody has removed it by hand. */
static void without_its_node_it_comes_anew(void **state)
{
    (void)state;
    waits_behind_one();
    own_node()->there = false;
    it_goes(true);
    comes_in(&r);
    assert_int_equal(count("=held-"), 1);
    assert_int_equal(count("__WRIT__"), 1);
    give_back(&r);
}

/* Its session is over, and it has another one. */
static void in_another_session_nothing_is_guessed(void **state)
{
    (void)state;
    waits_behind_one();
    model_expire();
    up = false;
    input(SNIB__IN_CLOSED, NULL, 0);
    others_go();
    comes_in(&r);
    assert_int_equal(count("=held-"), 1);
    assert_int_equal(count("__WRIT__"), 1);
    give_back(&r);
}

/* It is cancelled while its guess is on the way. */
static void who_gives_up_leaves_nothing(void **state)
{
    (void)state;
    waits_behind_one();
    model.frames = 0;
    model.silent_from = 1;
    model.mute = true;
    it_goes(true);
    struct snib__request cancel = request(SNIB__CANCEL, 5);
    ask(&cancel);
    model.silent_from = 0;
    model.mute = false;
    pass_ms(6000);
    snib__answer got = answer(&cancel);
    if (got == SNIB__UNKNOWN) {
        cancel.resent = true;
        ask(&cancel);
        pass_ms(6000);
        got = answer(&cancel);
    }
    assert_int_equal(got, SNIB__DONE);
    (void)answer(&r);
    assert_int_equal(count("=held-") + count("__WRIT__"), 0);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(after_a_release_one_round_trip_is_enough),
        CASE(behind_who_died_it_waits_in_its_place),
        CASE(where_a_record_is_it_has_nothing),
        CASE(with_two_before_it_nothing_is_guessed),
        CASE(a_lost_answer_is_looked_for),
        CASE(a_lost_answer_is_not_believed),
        CASE(who_is_refused_keeps_its_place),
        CASE(without_its_node_it_comes_anew),
        CASE(in_another_session_nothing_is_guessed),
        CASE(who_gives_up_leaves_nothing),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
