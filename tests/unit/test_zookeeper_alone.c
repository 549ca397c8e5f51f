/* tests/unit/test_zookeeper_alone.c — the store zookeeper, beside a model of its
 * server: a lock that nobody has or wants is taken in one step, and no lock that
 * anybody has or wants. */
#include "zookeeper_world.h"

static struct snib__zoo *zoo(void)
{
    return (struct snib__zoo *)(void *)store;
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

static void who_was_alone_writes_once_and_reads_nothing(void **state)
{
    (void)state;
    was_alone();
    for (uint64_t id = 5; id < 8; id++) {
        section(id, 1, 0);
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
    section(5, 1, 1);
    section(6, 1, 0);
}

static void where_the_node_of_the_lock_is_gone_it_is_made(void **state)
{
    (void)state;
    was_alone();
    model_remove("/l/n");
    section(5, 2, 1); /* the first one was in vain */
    section(6, 1, 0);
    model_remove("/l/n");
    pass_ms(6000);
    section(7, 1, 1);
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
    pass_ms(1500);
    assert_int_not_equal(answer(&r), SNIB__DONE);
    assert_int_equal(count("__WRIT__"), 1);
    comes_in(&r); /* when that one's lease is over */
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
        section(id, 1, 1);
    }
    section(20, 1, 0);
}

/* Somebody else has made it, or has given it rights or data of his own. */
static void what_is_not_ours_is_not_made_anew(void **state)
{
    (void)state;
    for (int what = 0; what < 4; what++) {
        was_alone();
        pass_ms(6000);
        struct model_node *n = model_find("/l/n");
        struct model_node as_it_was = *n;
        n->version += what == 0;
        n->acl_version += what == 1;
        n->size -= what == 2;
        n->size = what == 3 ? 0 : n->size;
        struct model_node before = *n;
        section(5, 2, 2);
        assert_memory_equal(model_find("/l/n")->data, before.data, before.size);
        assert_true(model_find("/l/n")->czxid == before.czxid);
        model_find("/l/n")->made = as_it_was.made;
        model_remove("/l/n");
    }
}

/* It is changed between two sections: what is known is of before. */
static void what_was_changed_since_is_not_made_anew(void **state)
{
    (void)state;
    was_alone();
    struct model_node *n = model_find("/l/n");
    n->version++;
    int64_t czxid = n->czxid;
    section(5, 3, 2);
    assert_true(model_find("/l/n")->czxid == czxid);
}

static void with_a_login_only_what_is_of_that_login_is_made_anew(void **state)
{
    struct snib__zk_stat stat = {.version = 0};
    (void)state;
    stat.size = (int32_t)strlen(snib__zoo_lock_data(zoo()));
    assert_true(snib__zoo_lock_is_ours(zoo(), &stat));
    zoo()->session.logged_in = true;
    assert_false(snib__zoo_lock_is_ours(zoo(), &stat));
    stat.size = (int32_t)strlen(snib__zoo_lock_data(zoo()));
    assert_true(snib__zoo_lock_is_ours(zoo(), &stat));
    zoo()->session.logged_in = false;
}

static void begin_anew_at(const char *text)
{
    ops->free(store);
    snib__conns_free(&out);
    snib__free(name);
    begin_at(text);
}

/* Servers from 3.8.5 or 3.9.4 on may lose sight of who holds (alone.c). */
static void without_a_word_of_the_url_nothing_is_made_anew(void **state)
{
    static const char *const urls[] = {"zookeeper://h/l",
                                       "zookeeper://h/l?one_step=no"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        begin_anew_at(urls[i]);
        was_alone();
        int64_t czxid = model_find("/l/n")->czxid;
        section(5, 2, 2);
        section(6, 2, 2);
        assert_true(model_find("/l/n")->czxid == czxid);
    }
}

static void besides_curators_clients_nothing_is_made_anew(void **state)
{
    (void)state;
    begin_anew_at("zookeeper://h/l?dialect=curator-rw&one_step=yes");
    was_alone();
    int64_t czxid = model_find("/l/n")->czxid;
    section(5, 2, 2);
    assert_true(model_find("/l/n")->czxid == czxid);
    assert_int_equal(model_find("/l/n")->size, 0);
    model_remove("/l/n");
    section(6, 3, 3);
    assert_int_equal(model_find("/l/n")->size, 0);
    section(7, 2, 2);
}

/* What an answer that is lost has made is found, and nobody else is let in. */
static void a_lost_answer_is_looked_for(void **state)
{
    (void)state;
    was_alone();
    model.frames = 0;
    model.silent_from = 1;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__UNKNOWN);
    model.silent_from = 0;
    r.resent = true;
    ask(&r);
    comes_in(&r);
    assert_int_equal(count("__WRIT__"), 1);
    assert_int_equal(count("=held-"), 1);
    give_back(&r);
    assert_int_equal(count("__WRIT__") + count("=held-"), 0);
}

/* It says nothing of what a multi has made but its path. */
static void a_server_that_does_not_say_the_token_is_asked(void **state)
{
    (void)state;
    was_alone();
    model.terse = true;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    int64_t lock = model_find("/l/n")->czxid;
    assert_int_equal(r.token, lock);
    assert_int_equal(count("__WRIT__"), 1);
    assert_int_equal(count("=held-"), 1);
    give_back(&r);
}

/* Where that cannot be done at all, it is done in two steps. */
static void who_may_remove_nothing_above_stands_as_others_do(void **state)
{
    (void)state;
    was_alone();
    model.refuse = "made anew";
    model.refuse_op = SNIB__ZK_MULTI;
    model.refuse_err = SNIB__ZK_NO_AUTH;
    section(5, 3, 2);
}

static int begin_alone(void **state)
{
    (void)state;
    return begin_at("zookeeper://h/l?one_step=yes");
}

int main(void)
{
#undef CASE
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_alone, end)
    const struct CMUnitTest cases[] = {
        CASE(without_a_word_of_the_url_nothing_is_made_anew),
        CASE(who_was_alone_writes_once_and_reads_nothing),
        CASE(tokens_rise_and_are_those_of_the_log),
        CASE(after_some_seconds_it_looks_first),
        CASE(where_the_node_of_the_lock_is_gone_it_is_made),
        CASE(nobody_who_stands_is_passed_by),
        CASE(who_waits_is_not_told_of_a_change_of_data),
        CASE(no_record_is_passed_by),
        CASE(who_was_not_alone_looks_for_some_sections),
        CASE(what_is_not_ours_is_not_made_anew),
        CASE(what_was_changed_since_is_not_made_anew),
        CASE(with_a_login_only_what_is_of_that_login_is_made_anew),
        CASE(besides_curators_clients_nothing_is_made_anew),
        CASE(a_lost_answer_is_looked_for),
        CASE(a_server_that_does_not_say_the_token_is_asked),
        CASE(who_may_remove_nothing_above_stands_as_others_do),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
