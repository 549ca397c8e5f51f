/* store/cluster: a request goes to the node that serves its slot, wherever that
 * is by now, and is answered once. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "cluster_world.h"

/* -- the map ---------------------------------------------------------------------- */

static void nothing_is_asked_before_the_map_is_known(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    start(&rq);
    assert_int_equal(opens(&out), 1u << conn(A, CALLS)); /* one host at first */
    tells(conn(A, CALLS), NODE_HELLO, TWO);
    assert_true(out.conn[conn(ONE_AT, CALLS)]->open);
    silence();
    connected(conn(ONE_AT, CALLS), TWO);
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    assert_string_equal(word[2], "7"); /* no mark: it has another slot */
    grants(conn(ONE_AT, CALLS), 1000);
    answered(&rq, SNIB__DONE);
    assert_int_equal(rq.token, 1000);
}

static void a_replica_tells_the_map_and_is_asked_for_nothing_else(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    start(&rq);
    uint32_t a = conn(A, CALLS);
    tells(a, REPLICA_HELLO, TWO);
    assert_false(heard(a));
    assert_true(out.conn[a]->shut);
    assert_true(out.conn[conn(ONE_AT, CALLS)]->open);
    silence();
}

static void the_next_host_is_asked_where_one_is_not_there(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    rq.once = true;
    start(&rq);
    refused(conn(A, CALLS));
    silence();
    refused(conn(B, CALLS));
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(error.text, "no node of the cluster answers"));
    assert_non_null(strstr(error.text, "Connection refused"));
}

static void who_waits_is_told_at_its_limit(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    rq.limit = snib__after(now, snib__ms(5000));
    start(&rq);
    pass(4999);
    silence();
    pass(2);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
}

static void a_silent_host_is_passed_over(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    start(&rq);
    assert_false(out.conn[conn(B, CALLS)]->open);
    pass(PATIENCE / 4);
    assert_true(out.conn[conn(B, CALLS)]->open);
    tells(conn(B, CALLS), NODE_HELLO, TWO);
    assert_true(out.conn[conn(ONE_AT, CALLS)]->open);
}

static void a_single_server_is_no_cluster(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    start(&rq);
    for (int i = 0; i < 2; i++) {
        uint32_t k = conn(i ? B : A, CALLS);
        opened(k);
        say(k, ALONE_HELLO);
    }
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_CONFIG);
    assert_non_null(strstr(error.text, "redis://HOST"));
}

static void a_strange_map_is_refused(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    rq.once = true;
    start(&rq);
    tells(conn(A, CALLS), NODE_HELLO, "hello");
    tells(conn(B, CALLS), NODE_HELLO, LINE("1") "x y z\n");
    answered(&rq, SNIB__NOT_APPLIED);
}

static void a_host_of_the_url_that_serves_nothing_is_left(void **state)
{
    (void)state;
    uint32_t a;
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    start(&rq);
    a = conn(A, CALLS);
    tells(a, NODE_HELLO, TWO);
    assert_true(out.conn[a]->shut);
    closed(a);
    assert_null(cluster()->node[0].store);
}

/* -- holes ------------------------------------------------------------------------ */

static void a_slot_without_a_node_is_told(void **state)
{
    (void)state;
    struct snib__request try = request(SNIB__ACQUIRE, low),
                         wait = request(SNIB__ACQUIRE, low);
    try.once = true;
    wait.limit = snib__after(now, snib__ms(3000));
    start(&try);
    start(&wait);
    tells(conn(A, CALLS), NODE_HELLO, HIGH);
    answered(&try, SNIB__NOT_APPLIED);
    assert_int_equal(try.said.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(error.text, "no node of the cluster serves slot"));
    assert_non_null(strstr(error.text, "--cluster check"));
    silence();
    pass(3001);
    answered(&wait, SNIB__NOT_APPLIED);
    assert_int_equal(wait.said.err, SNIB_ERR_UNREACHABLE);
}

static void a_slot_that_gets_a_node_is_used_at_once(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    start(&rq);
    tells(conn(A, CALLS), NODE_HELLO, HIGH);
    silence();
    pass(600); /* the next one is asked */
    tells(conn(B, CALLS), NODE_HELLO, TWO);
    assert_true(out.conn[conn(ONE_AT, CALLS)]->open);
}

/* -- nodes that fail ------------------------------------------------------------------ */

#define PROMOTED                                                               \
    LINE("1")                                                                  \
    "1.1.1.1:1@9 master,fail - 0 0 1 connected\n" HIGH LINE(                   \
        "3") "3.3.3.3:3@9 master - 0 0 3 connected 0-8191\n"

/* The promoted node is connected, and grants what is asked of it. */
static void successor_grants(struct snib__request *rq)
{
    uint32_t i = conn("3.3.3.3:3", CALLS);
    connected(i, PROMOTED);
    hears_script(i, SNIB__SCRIPT_ACQUIRE);
    grants(i, 9000);
    answered(rq, SNIB__DONE);
}

static void a_try_at_a_dead_node_asks_for_a_newer_map_first(void **state)
{
    (void)state;
    settled();
    closed(conn(ONE_AT, CALLS));
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    rq.once = true;
    start(&rq);
    pass(50);
    refused(conn(ONE_AT, CALLS));
    silence();
    hears(conn(TWO_AT, CALLS), "CLUSTER");
    says_map(conn(TWO_AT, CALLS), PROMOTED);
    silence();
    successor_grants(&rq);
}

static void a_try_at_a_dead_node_without_a_successor_is_told(void **state)
{
    (void)state;
    settled();
    closed(conn(ONE_AT, CALLS));
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    rq.once = true;
    start(&rq);
    pass(50);
    refused(conn(ONE_AT, CALLS));
    hears(conn(TWO_AT, CALLS), "CLUSTER");
    says_map(conn(TWO_AT, CALLS), TWO);
    silence();
    pass(100);
    refused(conn(ONE_AT, CALLS));
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
}

#define ANOTHERS                                                               \
    LINE("8") "1.1.1.1:1@9 myself,master - 0 0 9 connected 0-16383\n"

/* It would grant what somebody holds at the right node. */
static void
an_address_that_went_to_another_cluster_is_asked_nothing(void **state)
{
    (void)state;
    settled();
    closed(conn(ONE_AT, CALLS));
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    start(&rq);
    pass(50);
    tells(conn(ONE_AT, CALLS), NODE_HELLO, ANOTHERS);
    assert_true(out.conn[conn(ONE_AT, CALLS)]->shut);
    assert_false(heard(conn(ONE_AT, CALLS)));
    hears(conn(TWO_AT, CALLS), "CLUSTER");
    says_map(conn(TWO_AT, CALLS), PROMOTED);
    silence();
    connected(conn("3.3.3.3:3", CALLS), PROMOTED);
    hears_script(conn("3.3.3.3:3", CALLS), SNIB__SCRIPT_ACQUIRE);
    grants(conn("3.3.3.3:3", CALLS), 9000);
    answered(&rq, SNIB__DONE);
}

static void a_try_at_a_node_of_another_cluster_is_told(void **state)
{
    (void)state;
    settled();
    closed(conn(ONE_AT, CALLS));
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    rq.once = true;
    start(&rq);
    pass(50);
    tells(conn(ONE_AT, CALLS), NODE_HELLO, ANOTHERS);
    closed(conn(ONE_AT, CALLS));
    hears(conn(TWO_AT, CALLS), "CLUSTER");
    says_map(conn(TWO_AT, CALLS), TWO);
    silence();
    pass(100);
    tells(conn(ONE_AT, CALLS), NODE_HELLO, ANOTHERS);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(error.text, "1.1.1.1:1 knows none of the nodes"));
}

/* By CLUSTER RESET HARD, on a connection that stays open. */
static void a_node_that_went_to_another_cluster_is_left(void **state)
{
    (void)state;
    settled();
    struct snib__request rq = request(SNIB__RENEW, low);
    rq.token = 1000;
    start(&rq);
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_RENEW);
    cluster()->slots->stale = true;
    pass(600);
    uint32_t asked = conn(ONE_AT, CALLS);
    if (!heard(asked)) {
        asked = conn(TWO_AT, CALLS);
        hears(asked, "CLUSTER");
        says_map(asked, ANOTHERS);
    } else {
        say(asked, "*2\r\n:1790000000300\r\n:1\r\n");
        says_map(asked, ANOTHERS);
    }
    assert_true(out.conn[asked]->shut);
    assert_int_equal(snib__slots_unserved(cluster()->slots), 0);
    assert_int_equal(cluster()->slots->home_of[0],
                     cluster()->slots->home_of[8191]);
    assert_int_not_equal(cluster()->slots->home_of[0],
                         cluster()->slots->home_of[8192]);
}

static void what_is_held_is_at_risk_when_a_replica_takes_over(void **state)
{
    (void)state;
    settled();
    out.holds = true;
    closed(conn(ONE_AT, CALLS));
    hears(conn(TWO_AT, CALLS), "CLUSTER"); /* the node had granted something */
    assert_false(out.moved);
    says_map(conn(TWO_AT, CALLS), PROMOTED);
    assert_true(out.moved);
    assert_false(out.changed); /* nobody has asked to be told */
}

static void who_asked_for_it_is_told_when_a_replica_takes_over(void **state)
{
    (void)state;
    settled();
    cluster()->cfg.watch = true;
    out.holds = true;
    closed(conn(ONE_AT, CALLS));
    hears(conn(TWO_AT, CALLS), "CLUSTER");
    assert_false(out.changed);
    says_map(conn(TWO_AT, CALLS), PROMOTED);
    assert_true(out.changed);
}

static void
slots_that_go_to_a_node_that_had_some_put_nothing_at_risk(void **state)
{
    (void)state;
    settled();
    out.holds = true;
    cluster()->cfg.watch = true;
    struct snib__request rq = request(SNIB__RENEW, low);
    asked_of(ONE_AT, &rq, SNIB__SCRIPT_RENEW);
    low_is_moved();
    hears_script(conn(TWO_AT, CALLS), SNIB__SCRIPT_RENEW);
    assert_false(out.moved);
    assert_false(out.changed);
}

static void who_waits_at_a_dead_node_goes_to_its_successor(void **state)
{
    (void)state;
    settled();
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    rq.acquire.may_queue = true;
    asked_of(ONE_AT, &rq, SNIB__SCRIPT_ACQUIRE);
    is_held(ONE_AT);
    subscribed(conn(ONE_AT, EARS));
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    is_queued(ONE_AT, 3);
    answered(&rq, SNIB__QUEUED);
    closed(conn(ONE_AT, CALLS));
    closed(conn(ONE_AT, EARS));
    hears(conn(TWO_AT, CALLS), "CLUSTER");
    says_map(conn(TWO_AT, CALLS), PROMOTED);
    silence();
    assert_true(rq.acquire.placed);
    successor_grants(&rq);
}

static void a_node_that_was_replaced_is_not_believed(void **state)
{
    (void)state;
    settled();
    struct snib__request rq = request(SNIB__RENEW, low);
    rq.token = 1000;
    asked_of(ONE_AT, &rq, SNIB__SCRIPT_RENEW);
    pass(550); /* it stands still */
    hears(conn(TWO_AT, CALLS), "CLUSTER");
    silence();
    says_map(conn(TWO_AT, CALLS), PROMOTED);
    answered(&rq, SNIB__UNKNOWN);
    assert_true(out.conn[conn(ONE_AT, CALLS)]->shut);
    say(conn(ONE_AT, CALLS), "*2\r\n:1790000000300\r\n:1\r\n");
    silence();
}

static void addresses_of_nodes_that_never_were_asked_are_forgotten(void **state)
{
    (void)state;
    settled();
    for (int i = 0; i < 100; i++) {
        char map[600];
        struct snib__request rq = request(SNIB__ACQUIRE, low);
        snprintf(map, sizeof map,
                 LOW LINE("2") "2.2.2.%d:2@9 master - 0 0 %d connected "
                               "8192-16383\n",
                 i + 3, i + 3);
        cluster()->slots->stale = true;
        asked_of(ONE_AT, &rq, SNIB__SCRIPT_ACQUIRE);
        pass(600);
        if (!heard(conn(ONE_AT, CALLS))) {
            fail_msg("round %d: not asked for the map", i);
        }
        grants(conn(ONE_AT, CALLS), 5000 + i);
        says_map(conn(ONE_AT, CALLS), map);
        answered(&rq, SNIB__DONE);
        assert_int_equal(snib__slots_unserved(cluster()->slots), 0);
        assert_false(cluster()->slots->crowded);
    }
    uint32_t homes = 0;
    for (int k = 0; k < NODES_MAX; k++) {
        homes += cluster()->slots->home[k].address[0] != 0;
    }
    assert_true(homes <= 5); /* the URL's, the two, one that is closing */
}

static void a_node_that_is_left_opens_no_subscription(void **state)
{
    (void)state;
    settled();
    out.holds = out.listens = true;
    struct snib__request rq = request(SNIB__RENEW, low);
    asked_of(ONE_AT, &rq, SNIB__SCRIPT_RENEW);
    say(conn(ONE_AT, CALLS), "*2\r\n:1790000000300\r\n:1\r\n");
    answered(&rq, SNIB__DONE);
    uint32_t one = conn(ONE_AT, CALLS), ears = conn(ONE_AT, EARS);
    cluster()->slots->stale = true;
    subscribed(ears);
    uint32_t asked = heard(one) ? one : conn(TWO_AT, CALLS);
    if (asked != one) {
        hears(asked, "CLUSTER");
    }
    says_map(asked, LINE("2") "2.2.2.2:2@9 master - 0 0 9 connected 0-16383\n");
    assert_true(out.conn[one]->shut);
    assert_true(out.conn[ears]->shut);
    closed(ears);
    assert_false(out.conn[ears]->open);
    closed(one);
    assert_false(out.conn[ears]->open);
    pass(60);
    assert_false(out.conn[ears]->open);
}

/* -- all nodes ------------------------------------------------------------------------ */

#define NO_KEYS "*2\r\n$1\r\n0\r\n*0\r\n"

static void a_list_asks_every_home_and_needs_every_answer(void **state)
{
    (void)state;
    settled();
    for (int well = 0; well < 2; well++) {
        struct snib__request rq = request(SNIB__LIST, NULL);
        start(&rq);
        hears(conn(ONE_AT, CALLS), "SCAN");
        hears(conn(TWO_AT, CALLS), "SCAN");
        say(conn(ONE_AT, CALLS), NO_KEYS);
        silence();
        say(conn(TWO_AT, CALLS), well ? NO_KEYS : "-NOPERM no scan\r\n");
        answered(&rq, well ? SNIB__DONE : SNIB__NOT_APPLIED);
        if (!well) {
            assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
            assert_non_null(strstr(error.text, TWO_AT ": "));
        }
    }
}

static void the_state_is_that_of_all_homes(void **state)
{
    (void)state;
    struct snib__store_state is = {.nodes = 1}; /* as the core asks */
    struct snib__server one = {0};
    ops->state(store, now, &is);
    assert_false(is.reachable);
    settled();
    is = (struct snib__store_state){.nodes = 1};
    ops->state(store, now, &is);
    assert_true(is.reachable);
    assert_int_equal(is.nodes, 2);
    assert_int_equal(is.nodes_reachable, 2);
    assert_true(ops->server(store, now, 1, &one));
    assert_true(ops->server(store, now, 2, &one));
    assert_false(ops->server(store, now, 3, &one));
    out.holds = true;
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    start(&rq);
    closed(conn(ONE_AT, CALLS));
    answered(&rq, SNIB__UNKNOWN);
    out.holds = false; /* a node that nobody needs keeps nobody waiting */
    is = (struct snib__store_state){0};
    ops->state(store, now, &is);
    assert_true(is.reachable);
    assert_int_equal(is.nodes_reachable, 1);
    out.holds = true;
    is = (struct snib__store_state){0};
    ops->state(store, now, &is);
    assert_false(is.reachable);
    assert_int_equal(is.nodes_reachable, 1);
    assert_int_equal(strncmp(is.text, ONE_AT ": ", sizeof ONE_AT + 1), 0);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(nothing_is_asked_before_the_map_is_known),
        CASE(a_replica_tells_the_map_and_is_asked_for_nothing_else),
        CASE(the_next_host_is_asked_where_one_is_not_there),
        CASE(who_waits_is_told_at_its_limit),
        CASE(a_silent_host_is_passed_over),
        CASE(a_single_server_is_no_cluster),
        CASE(a_strange_map_is_refused),
        CASE(a_host_of_the_url_that_serves_nothing_is_left),
        CASE(a_slot_without_a_node_is_told),
        CASE(a_slot_that_gets_a_node_is_used_at_once),
        CASE(a_try_at_a_dead_node_asks_for_a_newer_map_first),
        CASE(a_try_at_a_dead_node_without_a_successor_is_told),
        CASE(an_address_that_went_to_another_cluster_is_asked_nothing),
        CASE(a_try_at_a_node_of_another_cluster_is_told),
        CASE(a_node_that_went_to_another_cluster_is_left),
        CASE(what_is_held_is_at_risk_when_a_replica_takes_over),
        CASE(who_asked_for_it_is_told_when_a_replica_takes_over),
        CASE(slots_that_go_to_a_node_that_had_some_put_nothing_at_risk),
        CASE(who_waits_at_a_dead_node_goes_to_its_successor),
        CASE(a_node_that_was_replaced_is_not_believed),
        CASE(addresses_of_nodes_that_never_were_asked_are_forgotten),
        CASE(a_node_that_is_left_opens_no_subscription),
        CASE(a_list_asks_every_home_and_needs_every_answer),
        CASE(the_state_is_that_of_all_homes),
    };
    return RUN(cases);
}
#endif
