/* The quorum: how the store is, without asking; what is told behind what was
 * answered, and on whose line. */
#include "quorum_world.h"

static struct snib__store_state state_of(int i)
{
    struct snib__store_state s = {0};
    tasks->state(client[i].store, now, &s);
    return s;
}

static void node_is(int k, bool reachable, snib_err err, int64_t since_s,
                    const char *text)
{
    struct snib__store_state *s = &client[0].state[k];
    *s = (struct snib__store_state){
        .reachable = reachable, .err = err, .since = {since_s}};
    snprintf(s->text, sizeof s->text, "%s", text);
}

/* With three of five a majority has been there since the third came. */
static void it_is_reachable_since_a_majority_was(void **state)
{
    (void)state;
    open_clients(5, 1, 0);
    static const int64_t since[] = {50, 10, 40, 20, 30};
    for (int k = 0; k < 5; k++) {
        node_is(k, true, SNIB_ERR_OK, since[k], "");
    }
    struct snib__store_state s = state_of(0);
    assert_true(s.reachable);
    assert_int_equal(s.err, SNIB_ERR_OK);
    assert_int_equal(s.since.ns, 30);
    assert_int_equal(s.nodes, 5);
    assert_int_equal(s.nodes_reachable, 5);
    assert_string_equal(s.text, "");
    assert_false(s.behind);
    node_is(1, false, SNIB_ERR_UNREACHABLE, 60, "refused");
    s = state_of(0);
    assert_true(s.reachable);
    assert_int_equal(s.err, SNIB_ERR_OK);
    assert_int_equal(s.since.ns, 40);
    assert_int_equal(s.nodes_reachable, 4);
    assert_string_equal(s.text,
                        "4 of 5 servers reachable, 3 needed; b: refused");
}

/* It is away since so many were that the rest is no majority. */
static void it_is_away_since_too_many_are(void **state)
{
    (void)state;
    open_clients(5, 1, 0);
    node_is(0, true, SNIB_ERR_OK, 5, "");
    node_is(1, false, SNIB_ERR_DENIED, 40, "no password");
    node_is(2, false, SNIB_ERR_UNREACHABLE, 20, "refused");
    node_is(3, true, SNIB_ERR_OK, 5, "");
    node_is(4, false, SNIB_ERR_UNREACHABLE, 30, "timed out");
    struct snib__store_state s = state_of(0);
    assert_false(s.reachable);
    assert_int_equal(s.err, SNIB_ERR_DENIED); /* the first one's */
    assert_int_equal(s.since.ns, 40);         /* three had to go  */
    assert_int_equal(s.nodes_reachable, 2);
    assert_string_equal(s.text,
                        "2 of 5 servers reachable, 3 needed; e: timed out");
    assert_false(s.behind);
}

/* What does not fit is the advice at the end, or else the last words. */
static void a_long_reason_loses_its_end(void **state)
{
    static const char head[] = "0 of 3 servers reachable, 2 needed; c: ";
    char why[252];
    (void)state;
    open_clients(3, 1, 0);
    node_is(0, false, SNIB_ERR_UNREACHABLE, 1, "x");
    node_is(1, false, SNIB_ERR_UNREACHABLE, 1, "x");
    snprintf(why, sizeof why, "%s; %0200d", "no such name", 1);
    node_is(2, false, SNIB_ERR_UNREACHABLE, 1, why);
    snprintf(why, sizeof why, "%sno such name", head);
    assert_string_equal(state_of(0).text, why);
    memset(why, 'x', sizeof why);
    memcpy(why + 150, " word ", 6);
    why[sizeof why - 1] = 0;
    node_is(2, false, SNIB_ERR_UNREACHABLE, 1, why);
    struct snib__store_state s = state_of(0);
    assert_int_equal(strlen(s.text), strlen(head) + 155 + 3);
    assert_memory_equal(s.text, head, strlen(head));
    assert_string_equal(s.text + strlen(head) + 150, " word...");
    memset(why, 'x', sizeof why - 1);
    node_is(2, false, SNIB_ERR_UNREACHABLE, 1, why);
    assert_string_equal(state_of(0).text + strlen(head), "...");
}

static void what_was_not_reached_yet_is_not_known(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    node_is(0, true, SNIB_ERR_OK, 5, "");
    node_is(1, false, SNIB_ERR_OK, 0, "");
    node_is(2, false, SNIB_ERR_UNREACHABLE, 20, "refused");
    struct snib__store_state s = state_of(0);
    assert_false(s.reachable);
    assert_int_equal(s.err, SNIB_ERR_OK);
    assert_int_equal(s.since.ns, 0);
    assert_string_equal(s.text, "no answer yet");
    node_is(1, true, SNIB_ERR_OK, 7, ""); /* two of three are enough */
    s = state_of(0);
    assert_true(s.reachable);
    assert_int_equal(s.since.ns, 7);
}

/* Who ends then should wait, as long as the node that is told is well. */
static void a_node_is_behind_while_it_is_being_told(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    for (int k = 0; k < 3; k++) {
        node_is(k, true, SNIB_ERR_OK, 5, "");
    }
    struct snib__request g = acquired(0);
    assert_false(state_of(0).behind); /* all three have granted it */
    client[0].there_ms[2] = 50;
    assert_int_equal(end(0, &g), SNIB__DONE);
    assert_true(state_of(0).behind);
    node_is(2, false, SNIB_ERR_UNREACHABLE, 6, "refused");
    assert_false(state_of(0).behind);
    node_is(2, true, SNIB_ERR_OK, 5, "");
    assert_true(state_of(0).behind);
    run(60);
    assert_false(state_of(0).behind);
    assert_int_equal(held_at(3), 0);
}

/* Its vote is not needed for the grant, but nobody would ask for it later. */
static void a_node_is_behind_while_it_has_yet_to_grant(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    for (int k = 0; k < 3; k++) {
        node_is(k, true, SNIB_ERR_OK, 5, "");
    }
    client[0].there_ms[2] = 50;
    acquired(0);
    assert_int_equal(held_at(3), 2);
    assert_true(state_of(0).behind);
    node_is(2, false, SNIB_ERR_UNREACHABLE, 6, "refused");
    assert_false(state_of(0).behind);
    node_is(2, true, SNIB_ERR_OK, 5, "");
    run(120); /* to it, and once more with the token of the others */
    assert_int_equal(held_at(3), 3);
    assert_false(state_of(0).behind);
}

/* What is told behind a renewal goes by the line of renewals: a caller's is
 * not kept busy by it, nor opened for it. */
static void
what_ends_the_rest_of_a_lost_grant_is_on_its_renewals_line(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request g = acquired(0);
    run(10);
    server[0] = server[1] = (struct server){0};
    (void)acquired(1);
    client[0].background = client[0].callers = 0;
    struct snib__request r = of_grant(SNIB__RENEW, &g);
    r.background = true;
    assert_int_equal(ask(0, &r), SNIB__NO);
    run(100);
    assert_int_equal(server[2].client == 1, false); /* the rest was ended */
    assert_true(client[0].background > 3);
    assert_int_equal(client[0].callers, 0);
    r = of_grant(SNIB__RELEASE, &g);
    (void)ask(0, &r);
    assert_true(client[0].callers > 0);
}

int main(void)
{
    const struct CMUnitTest quorum_state[] = {
        CASE(it_is_reachable_since_a_majority_was),
        CASE(it_is_away_since_too_many_are),
        CASE(a_long_reason_loses_its_end),
        CASE(what_was_not_reached_yet_is_not_known),
        CASE(a_node_is_behind_while_it_is_being_told),
        CASE(a_node_is_behind_while_it_has_yet_to_grant),
        CASE(what_ends_the_rest_of_a_lost_grant_is_on_its_renewals_line),
    };
    return RUN(quorum_state);
}
