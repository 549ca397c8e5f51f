/* store/cluster: what nodes refuse because another one serves its slot is sent on
 * under its id; and what travels together. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "cluster_world.h"

/* -- redirections ------------------------------------------------------------------ */

static void moved_is_followed_under_the_same_id(void **state)
{
    (void)state;
    char id[33];
    settled();
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    asked_of(ONE_AT, &rq, SNIB__SCRIPT_ACQUIRE);
    snprintf(id, sizeof id, "%s", word[11]);
    low_is_moved();
    silence();
    hears_script(conn(TWO_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    assert_string_equal(word[11], id);
    grants(conn(TWO_AT, CALLS), 3000);
    answered(&rq, SNIB__DONE);
    silence();
    /* and the next one goes there by itself */
    struct snib__request next = request(SNIB__RELEASE, low);
    next.token = 3000;
    asked_of(TWO_AT, &next, SNIB__SCRIPT_RELEASE);
}

static void asking_comes_before_what_was_sent_by_ask(void **state)
{
    (void)state;
    settled();
    struct snib__request rq = request(SNIB__RENEW, low);
    rq.token = 1000;
    asked_of(ONE_AT, &rq, SNIB__SCRIPT_RENEW);
    sayf(conn(ONE_AT, CALLS), "-ASK %u 2.2.2.2:2\r\n", snib__slot_of(low));
    hears(conn(TWO_AT, CALLS), "ASKING");
    hears_script(conn(TWO_AT, CALLS), SNIB__SCRIPT_RENEW);
    say(conn(TWO_AT, CALLS), "+OK\r\n*2\r\n:1790000000300\r\n:1\r\n");
    answered(&rq, SNIB__DONE);
    struct snib__request next = request(SNIB__RENEW, low);
    next.token = 1000;
    asked_of(ONE_AT, &next, SNIB__SCRIPT_RENEW); /* it has not moved yet */
}

/* The usual target of a slot is new, and serves nothing yet. */
static void ask_goes_to_a_node_without_slots(void **state)
{
    (void)state;
    settled();
    struct snib__request rq = request(SNIB__RENEW, low);
    rq.token = 1000;
    asked_of(ONE_AT, &rq, SNIB__SCRIPT_RENEW);
    sayf(conn(ONE_AT, CALLS), "-ASK %u 4.4.4.4:4\r\n", snib__slot_of(low));
    uint32_t new = conn("4.4.4.4:4", CALLS);
    tells(new, NODE_HELLO,
          TWO LINE("4") "4.4.4.4:4@9 myself,master - 0 0 0 connected\n");
    assert_false(out.conn[new]->shut);
    while (heard(new) && strcmp(word[0], "TIME") != 0) {
        say(new, !strcmp(word[0], "INFO") ? "-NOPERM x\r\n" : "$1\r\n2\r\n");
    }
    say(new, "*2\r\n$10\r\n1790000000\r\n$1\r\n0\r\n");
    hears(new, "ASKING");
    hears_script(new, SNIB__SCRIPT_RENEW);
    say(new, "+OK\r\n*2\r\n:1790000000300\r\n:1\r\n");
    answered(&rq, SNIB__DONE);
    silence();
}

static void an_inspection_stays_where_its_slot_is_left(void **state)
{
    (void)state;
    settled();
    struct snib__request rq = request(SNIB__INSPECT, low);
    start(&rq);
    assert_true(heard(conn(ONE_AT, CALLS)));
    sayf(conn(ONE_AT, CALLS), "-ASK %u 2.2.2.2:2\r\n", snib__slot_of(low));
    silence();
    assert_false(heard(conn(TWO_AT, CALLS)));
    pass(160);
    assert_false(heard(conn(TWO_AT, CALLS)));
    assert_true(heard(conn(ONE_AT, CALLS)));
}

static void tryagain_is_asked_again_after_a_pause(void **state)
{
    (void)state;
    settled();
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    asked_of(ONE_AT, &rq, SNIB__SCRIPT_ACQUIRE);
    say(conn(ONE_AT, CALLS), "-TRYAGAIN Multiple keys request during "
                             "rehashing of slot\r\n");
    silence();
    assert_false(heard(conn(ONE_AT, CALLS)));
    pass(160);
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    grants(conn(ONE_AT, CALLS), 3000);
    answered(&rq, SNIB__DONE);
}

static void clusterdown_is_told_in_words_at_the_limit(void **state)
{
    (void)state;
    settled();
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    rq.limit = snib__after(now, snib__ms(2000));
    start(&rq);
    for (int i = 0; i < 100 && snib__list_empty(&out.answered); i++) {
        for (int k = 0; k < 2; k++) {
            uint32_t at = conn(k ? TWO_AT : ONE_AT, CALLS);
            while (heard(at)) {
                if (!strcmp(word[0], "CLUSTER")) {
                    says_map(at, TWO);
                } else {
                    say(at, "-CLUSTERDOWN The cluster is down\r\n");
                }
            }
        }
        pass(50);
    }
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(error.text, "the cluster is down (CLUSTERDOWN)"));
}

/* The server takes 30 ms for each refusal: no copy is out when the limit comes,
 * of which nobody could say whether it was applied. */
static void
what_was_refused_is_not_sent_again_right_before_its_limit(void **state)
{
    (void)state;
    settled();
    for (int n = 0; n < 40; n++) {
        struct snib__request rq = request(SNIB__ACQUIRE, low);
        rq.limit = snib__after(now, snib__ms(300));
        rq.store.looked = true;
        start(&rq);
        for (int i = 0; i < 40 && snib__list_empty(&out.answered); i++) {
            bool asked = heard(conn(ONE_AT, CALLS));
            bool map = asked && !strcmp(word[0], "CLUSTER");
            pass(asked && !map ? 30 : 1);
            if (map) {
                says_map(conn(ONE_AT, CALLS), TWO);
            } else if (asked && snib__list_empty(&out.answered)) {
                say(conn(ONE_AT, CALLS),
                    "-CLUSTERDOWN The cluster is down\r\n");
            } else if (!asked) {
                pass(9);
            }
        }
        answered(&rq, SNIB__NOT_APPLIED);
        assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    }
}

/* SCAN has no key, so a node of a cluster that is down answers it; each look at a
 * lock it refuses. */
static void a_list_of_a_cluster_that_is_down_ends(void **state)
{
    (void)state;
    settled();
    struct snib__request rq = request(SNIB__LIST, NULL);
    snib_instant began = now;
    rq.limit = snib__after(now, snib__ms(PATIENCE));
    rq.list.limit_moves = true;
    start(&rq);
    for (int i = 0; i < 1000 && snib__list_empty(&out.answered); i++) {
        for (int k = 0; k < 2; k++) {
            uint32_t at = conn(k ? TWO_AT : ONE_AT, CALLS);
            while (heard(at)) {
                if (!strcmp(word[0], "SCAN")) {
                    say(at, "*2\r\n$1\r\n0\r\n*1\r\n$8\r\nsnib:{n}\r\n");
                } else if (!strcmp(word[0], "CLUSTER")) {
                    says_map(at, TWO);
                } else {
                    say(at, "-CLUSTERDOWN The cluster is down\r\n");
                }
            }
        }
        pass(50);
    }
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(error.text, "the cluster is down (CLUSTERDOWN)"));
    assert_true(snib__between(began, now).ns <= 2 * PATIENCE * 1000000LL);
}

static void two_nodes_that_do_not_agree_are_not_asked_without_end(void **state)
{
    (void)state;
    int asked = 0;
    settled();
    struct snib__request rq = request(SNIB__RENEW, low);
    rq.token = 1000;
    rq.limit = snib__after(now, snib__ms(1000));
    start(&rq);
    for (int i = 0; i < 1000 && snib__list_empty(&out.answered); i++) {
        uint32_t at[] = {conn(ONE_AT, CALLS), conn(TWO_AT, CALLS)};
        bool any = false;
        for (int k = 0; k < 2; k++) {
            while (heard(at[k])) {
                any = true;
                if (!strcmp(word[0], "CLUSTER")) {
                    says_map(at[k], TWO);
                } else {
                    asked++;
                    sayf(at[k], "-MOVED %u %s\r\n", snib__slot_of(low),
                         k ? ONE_AT : TWO_AT);
                }
            }
        }
        if (!any) {
            pass(10);
        }
    }
    answered(&rq, SNIB__NOT_APPLIED);
    assert_true(asked >= 10 && asked <= 60);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(error.text, "do not agree"));
}

static void who_waits_is_sent_on_and_told_nothing_false(void **state)
{
    (void)state;
    settled();
    struct snib__request rq = request(SNIB__ACQUIRE, low);
    rq.acquire.may_queue = true;
    asked_of(ONE_AT, &rq, SNIB__SCRIPT_ACQUIRE);
    is_held(ONE_AT);
    subscribed(conn(ONE_AT, EARS));
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    assert_string_equal(word[13], "1"); /* it may queue */
    is_queued(ONE_AT, 3);
    answered(&rq, SNIB__QUEUED);
    char channel[100];
    snprintf(channel, sizeof channel, "%s", word[19]);
    pass(1600); /* a poll */
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    low_is_moved();
    silence();
    assert_true(rq.acquire.placed);
    hears_script(conn(TWO_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    is_held(TWO_AT);
    subscribed(conn(TWO_AT, EARS));
    hears_script(conn(TWO_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    assert_string_not_equal(word[19], channel); /* of that subscription alone */
    is_queued(TWO_AT, 1);
    answered(&rq, SNIB__QUEUED);
    assert_int_equal(rq.said.position, 1);
}

static void polls_are_numbered_over_all_nodes(void **state)
{
    (void)state;
    settled();
    struct snib__request a = request(SNIB__ACQUIRE, low),
                         b = request(SNIB__ACQUIRE, high);
    start(&a);
    start(&b);
    assert_int_not_equal(a.store.sends[0].number, b.store.sends[0].number);
}

static void a_cancel_goes_where_the_acquire_is(void **state)
{
    (void)state;
    settled();
    struct snib__request rq = request(SNIB__ACQUIRE, low),
                         end = request(SNIB__CANCEL, low),
                         other = request(SNIB__ACQUIRE, low);
    asked_of(ONE_AT, &rq, SNIB__SCRIPT_ACQUIRE);
    /* meanwhile the slot is known to be elsewhere */
    asked_of(ONE_AT, &other, SNIB__SCRIPT_ACQUIRE);
    cluster()->slots->home_of[snib__slot_of(low)] =
        cluster()->slots->home_of[16383];
    end.id[0] = rq.id[0];
    end.id[1] = rq.id[1];
    start(&end);
    answered(&rq, SNIB__UNKNOWN);
    assert_int_equal(rq.said.err, SNIB_ERR_CANCELLED);
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_CANCEL);
    grants(conn(ONE_AT, CALLS), 5); /* nobody waits for it */
    grants(conn(ONE_AT, CALLS), 6);
    answered(&other, SNIB__DONE);
    low_is_moved();
    silence();
    hears_script(conn(TWO_AT, CALLS), SNIB__SCRIPT_CANCEL);
    say(conn(TWO_AT, CALLS), "*2\r\n:3\r\n:0\r\n");
    answered(&end, SNIB__DONE);
}

static void a_cancel_ends_what_waits_for_the_map(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE, low),
                         end = request(SNIB__CANCEL, low);
    start(&rq);
    end.id[0] = rq.id[0];
    end.id[1] = rq.id[1];
    start(&end);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_CANCELLED);
    silence();
}

/* -- several in one step ------------------------------------------------------------ */

static void a_batch_of_one_slot_is_one_step(void **state)
{
    (void)state;
    settled();
    struct snib__request a = request(SNIB__ACQUIRE, low),
                         b = request(SNIB__ACQUIRE, low_too);
    a.batch.number = b.batch.number = 9;
    b.batch.index = 1;
    start_all((struct snib__request *[]){&a, &b}, 2);
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_SEVERAL);
    assert_false(heard(conn(ONE_AT, CALLS)));
}

static void a_batch_of_two_slots_is_tried_one_by_one(void **state)
{
    (void)state;
    settled();
    struct snib__request a = request(SNIB__ACQUIRE, low),
                         b = request(SNIB__ACQUIRE, high),
                         c = request(SNIB__ACQUIRE, low_too);
    a.batch.number = b.batch.number = c.batch.number = 9;
    start_all((struct snib__request *[]){&a, &b, &c}, 3);
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    hears_script(conn(TWO_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
}

static void a_batch_that_is_sent_on_is_tried_alone(void **state)
{
    (void)state;
    settled();
    struct snib__request a = request(SNIB__ACQUIRE, low),
                         b = request(SNIB__ACQUIRE, low_too);
    a.batch.number = b.batch.number = 9;
    b.batch.index = 1;
    start_all((struct snib__request *[]){&a, &b}, 2);
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_SEVERAL);
    low_is_moved();
    hears_script(conn(TWO_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    hears_script(conn(TWO_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    grants(conn(TWO_AT, CALLS), 5000);
    answered(&a, SNIB__DONE);
    silence();
}

static void renewals_of_two_slots_are_two_scripts(void **state)
{
    (void)state;
    settled();
    struct snib__name *near = name_in(0, snib__slot_of(low) - 1, 0);
    struct snib__request a = request(SNIB__RENEW, low),
                         b = request(SNIB__RENEW, low_too),
                         c = request(SNIB__RENEW, near);
    start_all((struct snib__request *[]){&a, &b, &c}, 3);
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_RENEW);
    assert_string_equal(word[2], "4"); /* keys: two locks of one slot */
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_RENEW);
    assert_string_equal(word[2], "2");
    say(conn(ONE_AT, CALLS), "*3\r\n:1790000000300\r\n:1\r\n:0\r\n"
                             "*2\r\n:1790000000300\r\n:2\r\n");
    answered(&a, SNIB__DONE);
    answered(&b, SNIB__NO);
    answered(&c, SNIB__NO);
    assert_true(c.said.forgotten);
    snib__free(near);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(moved_is_followed_under_the_same_id),
        CASE(asking_comes_before_what_was_sent_by_ask),
        CASE(ask_goes_to_a_node_without_slots),
        CASE(an_inspection_stays_where_its_slot_is_left),
        CASE(tryagain_is_asked_again_after_a_pause),
        CASE(clusterdown_is_told_in_words_at_the_limit),
        CASE(what_was_refused_is_not_sent_again_right_before_its_limit),
        CASE(a_list_of_a_cluster_that_is_down_ends),
        CASE(two_nodes_that_do_not_agree_are_not_asked_without_end),
        CASE(who_waits_is_sent_on_and_told_nothing_false),
        CASE(polls_are_numbered_over_all_nodes),
        CASE(a_cancel_goes_where_the_acquire_is),
        CASE(a_cancel_ends_what_waits_for_the_map),
        CASE(a_batch_of_one_slot_is_one_step),
        CASE(a_batch_of_two_slots_is_tried_one_by_one),
        CASE(a_batch_that_is_sent_on_is_tried_alone),
        CASE(renewals_of_two_slots_are_two_scripts),
    };
    return RUN(cases);
}
#endif
