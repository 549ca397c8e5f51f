/* tests/unit/test_zookeeper_alone.c — the store zookeeper, beside a model of its
 * server: a lock that nobody has or wants is taken in one step, and no lock that
 * anybody has or wants, whatever its version says. */
#include "zookeeper_world.h"

static struct snib__zoo *zoo(void)
{
    return (struct snib__zoo *)(void *)store;
}

static void begin_anew_at(const char *text)
{
    ops->free(store);
    snib__conns_free(&out);
    snib__free(name);
    begin_at(text);
}

/* So that all above is there, and the fence; and this client was alone. */
static void was_alone(void)
{
    struct snib__request r = request(SNIB__ACQUIRE, 4);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    give_back(&r);
    model.writes = model.reads = 0;
}

static const char *path_of(const char *part)
{
    for (int i = 0; i < MODEL_NODES; i++) {
        if (model.node[i].there && strstr(model.node[i].path, part)) {
            return model.node[i].path;
        }
    }
    return "";
}

/* Comes, has it after so many writes and reads, and gives it back. */
static void section(uint64_t id, uint32_t writes, uint32_t reads)
{
    struct snib__request r = request(SNIB__ACQUIRE, id);
    model.writes = model.reads = 0;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_int_equal(model.writes, writes);
    assert_int_equal(model.reads, reads);
    assert_int_equal(count("__WRIT__"), 1);
    assert_int_equal(count("=held-"), 1);
    give_back(&r);
    assert_int_equal(model.writes, writes + 1);
    assert_int_equal(count("__WRIT__") + count("=held-"), 0);
}

static void who_was_alone_writes_once_and_looks_behind_that(void **state)
{
    (void)state;
    was_alone();
    for (uint64_t id = 5; id < 8; id++) {
        section(id, 1, 1);
    }
}

static void tokens_rise_and_are_those_of_the_log(void **state)
{
    int64_t last = 0;
    (void)state;
    was_alone();
    for (uint64_t id = 5; id < 8; id++) {
        struct snib__request r = request(SNIB__ACQUIRE, id);
        ask(&r);
        assert_int_equal(answer(&r), SNIB__DONE);
        assert_true(r.token > last);
        assert_int_equal(r.token, model.zxid);
        last = r.token;
        give_back(&r);
    }
}

static void after_some_seconds_it_looks_first(void **state)
{
    (void)state;
    was_alone();
    pass_ms(6000);
    section(5, 1, 2);
    section(6, 1, 1);
}

static void where_the_node_of_the_lock_is_gone_it_is_made(void **state)
{
    (void)state;
    was_alone();
    model_remove("/l/n");
    section(5, 2, 2); /* the first one was in vain */
    section(6, 1, 1);
    model_remove("/l/n");
    pass_ms(6000);
    section(7, 1, 2);
}

static void nobody_who_stands_is_passed_by(void **state)
{
    (void)state;
    was_alone();
    another_node(98);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(count("=held-"), 0);
    assert_int_equal(count("__WRIT__"), 2);
    cancelled(&r);
}

/* The grant of that one changes its data. */
static void who_waits_is_not_told_of_a_change_of_data(void **state)
{
    (void)state;
    was_alone();
    another_node(98);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_non_null(strstr(model.watch, "/l/n/_c_"));
    assert_int_equal(model.watch_op, SNIB__ZK_CHILDREN);
    cancelled(&r);
}

static void no_record_is_passed_by(void **state)
{
    (void)state;
    was_alone();
    another_record(99, 2000); /* its holder may believe in it */
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(count("=held-"), 1);
    pass_ms(1500);
    assert_int_not_equal(answer(&r), SNIB__DONE);
    assert_int_equal(count("__WRIT__"), 1);
    comes_in(&r); /* when that one's lease is over */
    give_back(&r);
}

/* By the version nobody is there. */
static void nor_is_a_stranger(void **state)
{
    (void)state;
    was_alone();
    strange_node(98);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(count("=held-"), 0);
    assert_int_equal(count("__WRIT__"), 2);
    others_go();
    comes_in(&r);
    give_back(&r);
    section(6, 1, 2); /* it was not alone, so it looks first */
    section(7, 1, 1);
}

/* The lock's node was removed since, and has come to the same version. */
static void nor_who_has_it_below_another_node(void **state)
{
    struct model_node *made;
    (void)state;
    was_alone();
    section(5, 1, 1);
    int32_t version = model_find("/l/n")->version;
    model_remove("/l/n");
    assert_false(
        model_create("/l/n", ZOO_LOCK_DATA, strlen(ZOO_LOCK_DATA), 4, &made));
    another_record(99, 30000);
    another_node(99);
    made->version = version;
    struct snib__request r = request(SNIB__ACQUIRE, 6);
    r.acquire.may_queue = false;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NO);
    assert_int_equal(count("=held-"), 1);
    assert_int_equal(count("__WRIT__"), 1);
}

/* Other recipes' nodes are below it since. */
static void nor_what_is_of_another_recipe(void **state)
{
    struct model_node *made;
    (void)state;
    was_alone();
    assert_false(model_create("/l/n/lock-1", "", 0, 0, &made));
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CONFIG);
    assert_non_null(strstr(said.text, "lock-1"));
    assert_int_equal(count("=held-"), 0);
    assert_int_equal(count("__WRIT__"), 0);
}

/* It comes behind this one, and goes again: that one was next all the time. */
static void a_wrong_guess_behind_it_is_waited_for(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        was_alone();
        pass_ms(6000);
        another_node(98);
        struct snib__request r = request(SNIB__ACQUIRE, 5);
        ask(&r);
        assert_int_equal(answer(&r), SNIB__QUEUED);
        others_go(); /* it is next, and is not told; but for: */
        another_record(97, 30000);
        strange_node(97);
        event(model.watch);
        assert_int_not_equal(answer(&r), SNIB__DONE);
        pass_ms(i ? 30 : 1);
        others_go();
        pass_ms(100);
        assert_int_equal(answer(&r), SNIB__DONE);
        give_back(&r);
    }
}

/* Its session ends before it has looked: the record stays there. */
static void a_record_that_was_not_looked_at_is_not_forgotten(void **state)
{
    (void)state;
    was_alone();
    model.frames = 0;
    model.silent_from = 2;
    model.expires = true;
    model.refuse = "/l/n"; /* no later look is answered in time */
    model.refuse_op = SNIB__ZK_CHILDREN;
    model.refuse_err = SNIB__ZK_THROTTLED;
    struct snib__request r = request(SNIB__ACQUIRE, 5),
                         cancel = request(SNIB__CANCEL, 5);
    r.limit = snib__after(now, snib__ms(100));
    ask(&r);
    assert_int_equal(count("=held-"), 1);
    pass_ms(300);
    assert_int_equal(answer(&r), SNIB__UNKNOWN);
    assert_int_equal(zoo()->claims, 1); /* though that session is over */
    model.refuse = NULL;
    ask(&cancel);
    pass_ms(3000);
    assert_int_equal(answer(&cancel), SNIB__DONE);
    assert_int_equal(count("=held-") + count("__WRIT__"), 0);
}

/* By a slow client's: when that is taken back it is told. */
static void nor_is_it_slept_behind(void **state)
{
    (void)state;
    was_alone();
    pass_ms(6000);
    another_node(98);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    others_go();
    another_record(97, 30000);
    strange_node(97);
    event(model.watch);
    pass_ms(200);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_non_null(strstr(model.watch, "=held-"));
    model_remove(model.watch);
    event(model.watch);
    assert_int_equal(answer(&r), SNIB__DONE);
    give_back(&r);
    others_go();
}

/* A node of its own stands there, of a session that is about to end: somebody may
 * have come behind that one, and before its new one. */
static void nor_by_a_node_of_an_older_session(void **state)
{
    (void)state;
    was_alone();
    strange_node(6);
    strange_node(98);
    struct snib__request r = request(SNIB__ACQUIRE, 6);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(count("=held-"), 0);
    others_go();
    comes_in(&r);
    assert_int_equal(count("__WRIT__"), 1);
    assert_int_equal(r.token, model_find(path_of("__WRIT__"))->czxid);
    give_back(&r);
}

/* A repeat looks first: something of it may be there. */
static void who_comes_again_looks_first(void **state)
{
    (void)state;
    was_alone();
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.resent = true;
    model.writes = model.reads = 0;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_int_equal(model.writes, 1);
    assert_int_equal(model.reads, 2);
    give_back(&r);
}

/* All that come have the last number, so nobody is before anybody. */
static void nor_is_anybody_when_the_numbers_are_used_up(void **state)
{
    (void)state;
    for (uint32_t others = 0; others < 2; others++) {
        begin_anew_at("zookeeper://h/l");
        was_alone();
        if (others) {
            another_node(98);
        }
        model_find("/l/n")->made = INT32_MAX;
        struct snib__request r = request(SNIB__ACQUIRE, 5);
        ask(&r);
        assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
        assert_int_equal(r.said.err, SNIB_ERR_STORE);
        assert_non_null(strstr(said.text, "remove the node"));
        assert_int_equal(count("=held-"), 0);
        assert_int_equal(count("__WRIT__"), others);
    }
}

/* Nobody else has come, but it has it itself. */
static void nor_is_the_own_other_request(void **state)
{
    (void)state;
    was_alone();
    struct snib__request first = request(SNIB__ACQUIRE, 5),
                         r = request(SNIB__ACQUIRE, 6);
    ask(&first);
    assert_int_equal(answer(&first), SNIB__DONE);
    model.writes = 0;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(model.writes, 2); /* one was in vain */
    assert_int_equal(count("=held-"), 1);
    give_back(&first);
    comes_in(&r);
    assert_true(r.token > first.token);
    give_back(&r);
}

/* A refusal goes through the log. */
static void who_was_not_alone_looks_for_some_sections(void **state)
{
    (void)state;
    was_alone();
    another_node(98);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.acquire.may_queue = false;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NO);
    others_go();
    for (uint64_t id = 10; id < 19; id++) {
        section(id, 1, 2);
    }
    section(20, 1, 1);
}

/* Somebody else has made it: others may come there, and leave it as it is. */
static void what_is_not_ours_is_not_changed(void **state)
{
    (void)state;
    for (int what = 0; what < 2; what++) {
        was_alone();
        pass_ms(6000);
        struct model_node *n = model_find("/l/n");
        n->size = what ? 0 : n->size - 1;
        struct model_node before = *n;
        section(5, 2, 2);
        assert_memory_equal(model_find("/l/n")->data, before.data, before.size);
        assert_int_equal(model_find("/l/n")->version, before.version);
        model_remove("/l/n");
    }
}

/* Others have come and gone since. */
static void what_was_changed_since_is_looked_at(void **state)
{
    (void)state;
    was_alone();
    model_find("/l/n")->version++;
    section(5, 2, 2);
}

/* Each look is overtaken: it does not guess for ever. */
static void who_is_refused_again_stands_as_others_do(void **state)
{
    (void)state;
    was_alone();
    model_find("/l/n")->version++;
    model.hasty = true;
    section(5, 4, 3);
}

static void besides_curators_clients_nobody_guesses(void **state)
{
    (void)state;
    begin_anew_at("zookeeper://h/l?dialect=curator-rw");
    was_alone();
    section(5, 2, 2);
    assert_int_equal(model_find("/l/n")->size, 0);
    assert_int_equal(model_find("/l/n")->version, 0);
    model_remove("/l/n");
    section(6, 3, 3);
    assert_int_equal(model_find("/l/n")->size, 0);
}

/* Others who guess are told that somebody has come. */
static void who_stands_changes_the_locks_node(void **state)
{
    static const char *const urls[] = {"zookeeper://h/l",
                                       "zookeeper://h/l?dialect=curator-rw"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        begin_anew_at(urls[i]);
        was_alone();
        struct model_node *n = model_find("/l/n");
        n->size =
            strlen(ZOO_LOCK_DATA); /* one of those who guess has made it */
        memcpy(n->data, ZOO_LOCK_DATA, n->size);
        another_node(98);
        pass_ms(6000);
        int32_t version = n->version;
        struct snib__request r = request(SNIB__ACQUIRE, 5);
        ask(&r);
        assert_int_equal(answer(&r), SNIB__QUEUED);
        assert_int_equal(n->version, version + 1);
        assert_int_equal(n->size, strlen(ZOO_LOCK_DATA));
        cancelled(&r);
    }
}

/* What an answer that is lost has made is found, and nobody else is let in. */
static void a_lost_answer_is_looked_for(void **state)
{
    (void)state;
    for (uint32_t frame = 1; frame < 3; frame++) { /* the look's, too */
        was_alone();
        model.frames = 0;
        model.silent_from = frame;
        struct snib__request r = request(SNIB__ACQUIRE, 5);
        ask(&r);
        model.silent_from = 0;
        comes_in(&r);
        assert_int_equal(count("__WRIT__"), 1);
        assert_int_equal(count("=held-"), 1);
        assert_int_equal(r.token, model_find(path_of("__WRIT__"))->czxid);
        give_back(&r);
        assert_int_equal(count("__WRIT__") + count("=held-"), 0);
    }
}

/* The record that it has made is no grant: somebody was there. */
static void a_lost_answer_is_not_believed(void **state)
{
    (void)state;
    for (uint32_t frame = 1; frame < 3; frame++) {
        was_alone();
        strange_node(98);
        model.frames = 0;
        model.silent_from = frame;
        struct snib__request r = request(SNIB__ACQUIRE, 5);
        ask(&r);
        model.silent_from = 0;
        for (int i = 0; i < 20; i++) {
            if (answer(&r) == SNIB__UNKNOWN) {
                r.resent = true;
                ask(&r);
            }
            pass_ms(100);
            assert_int_not_equal(r.said.answer, SNIB__DONE);
        }
        assert_int_equal(count("=held-"), 0);
        assert_int_equal(count("__WRIT__"), 2);
        cancelled(&r);
        others_go();
    }
}

/* It says nothing of what a multi has made but its path. */
static void a_server_that_does_not_say_the_token_is_asked(void **state)
{
    (void)state;
    was_alone();
    model.terse = true;
    model_remove("/l/n");
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_int_equal(r.token, model_find(path_of("__WRIT__"))->czxid);
    assert_int_equal(count("__WRIT__"), 1);
    assert_int_equal(count("=held-"), 1);
    give_back(&r);
}

static void who_may_not_change_the_locks_node_stands_as_others_do(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        begin_anew_at("zookeeper://h/l");
        was_alone();
        pass_ms(i ? 6000 : 0);
        model.still = "/l/n";
        section(5, 3, 2 + (uint32_t)i);
        section(6, 2, 2); /* it is known by now */
    }
}

/* What it may not make says nothing of the lock's node. */
static void what_is_refused_besides_changes_nothing(void **state)
{
    (void)state;
    was_alone();
    model.closed = "/l/n"; /* nobody makes anything below it */
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_DENIED);
    model.closed = NULL;
    section(6, 1, 2);
    section(7, 1, 1);
}

/* That is noted of the lock, and of no other one that comes to its place. */
static void what_is_noted_of_one_lock_says_nothing_of_others(void **state)
{
    (void)state;
    was_alone();
    model.still = "/l/n";
    section(5, 3, 2);
    model.still = NULL;
    struct zoo_alone *a = &zoo()->alone[name->hash % ZOO_ALONE];
    assert_true(a->closed);
    a->hash++;
    section(6, 1, 2);
    section(7, 1, 1);
}

/* It has found others before it found that out. */
static void nor_does_who_comes_behind_others(void **state)
{
    (void)state;
    was_alone();
    pass_ms(6000);
    another_node(98);
    model.still = "/l/n";
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(count("__WRIT__"), 2);
    cancelled(&r);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(who_was_alone_writes_once_and_looks_behind_that),
        CASE(tokens_rise_and_are_those_of_the_log),
        CASE(after_some_seconds_it_looks_first),
        CASE(where_the_node_of_the_lock_is_gone_it_is_made),
        CASE(nobody_who_stands_is_passed_by),
        CASE(who_waits_is_not_told_of_a_change_of_data),
        CASE(no_record_is_passed_by),
        CASE(nor_is_a_stranger),
        CASE(nor_who_has_it_below_another_node),
        CASE(nor_what_is_of_another_recipe),
        CASE(a_wrong_guess_behind_it_is_waited_for),
        CASE(a_record_that_was_not_looked_at_is_not_forgotten),
        CASE(nor_is_it_slept_behind),
        CASE(nor_by_a_node_of_an_older_session),
        CASE(who_comes_again_looks_first),
        CASE(nor_is_anybody_when_the_numbers_are_used_up),
        CASE(nor_is_the_own_other_request),
        CASE(who_was_not_alone_looks_for_some_sections),
        CASE(what_is_not_ours_is_not_changed),
        CASE(what_was_changed_since_is_looked_at),
        CASE(who_is_refused_again_stands_as_others_do),
        CASE(besides_curators_clients_nobody_guesses),
        CASE(who_stands_changes_the_locks_node),
        CASE(a_lost_answer_is_looked_for),
        CASE(a_lost_answer_is_not_believed),
        CASE(a_server_that_does_not_say_the_token_is_asked),
        CASE(who_may_not_change_the_locks_node_stands_as_others_do),
        CASE(what_is_refused_besides_changes_nothing),
        CASE(what_is_noted_of_one_lock_says_nothing_of_others),
        CASE(nor_does_who_comes_behind_others),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
