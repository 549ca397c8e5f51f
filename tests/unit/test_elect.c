/* tests/unit/test_elect.c — leader election, on memory:.
 * labels: thread
 *
 * What a mutex does is tested elsewhere; here: who leads, in which order that
 * is told, and how a campaign ends. */
#include "run_memory.h"

#include "snib/elect.h"

/* What was told, in order. */
struct story {
    pthread_mutex_t mu;
    int count;
    snib_elect_state state[16];
    int64_t term[16];
    struct snib_elect *resigns; /* when told at risk or lost                */
};

static void remember(void *data, snib_elect_state state, int64_t term)
{
    struct story *s = data;
    pthread_mutex_lock(&s->mu);
    if (s->count < 16) {
        s->state[s->count] = state;
        s->term[s->count++] = term;
    }
    pthread_mutex_unlock(&s->mu);
    if (s->resigns && state == SNIB_ELECT_LEADER_LOST) {
        snib_elect_resign(s->resigns, NULL);
    }
}

static int told(struct story *s)
{
    pthread_mutex_lock(&s->mu);
    int n = s->count;
    pthread_mutex_unlock(&s->mu);
    return n;
}

static void wait_told(struct story *s, int n)
{
    int64_t until = now_ms() + 10000;
    while (told(s) < n) {
        assert_true(now_ms() < until);
        poll(NULL, 0, 2);
    }
}

static struct snib_elect *candidate(struct snib_client *c, const char *id,
                                    struct story *s)
{
    struct snib_elect_options o = SNIB_INIT(snib_elect_options);
    struct snib_elect *el;
    o.id = id;
    o.lease_ms = 10000;
    if (s) {
        o.on_change = remember;
        o.data = s;
        pthread_mutex_init(&s->mu, NULL);
    }
    assert_int_equal(snib_elect_new(c, "e", &o, &el, &e), SNIB_ERR_OK);
    return el;
}

/* -- one candidate ---------------------------------------------------------- */

static void a_candidate_leads_and_resigns(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct story story = {0};
    struct snib_elect *a = candidate(c, "anna", &story);
    struct snib_elect_status s;
    struct snib_leader *l;
    int64_t term, again;
    snib_elect_status(a, &s, sizeof s);
    assert_int_equal(s.state, SNIB_ELECT_FOLLOWER);
    assert_false(snib_elect_leading(a));
    assert_int_equal(snib_elect_fd(a), -1);
    assert_int_equal(snib_elect_resign(a, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(snib_elect_leader(a, &l, &e), SNIB_ERR_OK);
    assert_int_equal(l->term, 0);
    assert_string_equal(l->id, "");
    snib_leader_free(l);

    assert_int_equal(snib_elect_try(a, &term, &e), SNIB_ERR_OK);
    assert_true(snib_elect_leading(a) && term > 0);
    assert_int_equal(snib_elect_try(a, &again, &e), SNIB_ERR_OK);
    assert_int_equal(again, term);
    snib_elect_status(a, &s, sizeof s);
    assert_int_equal(s.state, SNIB_ELECT_LEADER);
    assert_int_equal(s.term, term);
    assert_in_range(s.left_ms, 1, 10000);
    assert_true(snib_elect_fd(a) >= 0);
    assert_int_equal(snib_elect_leader(a, &l, &e), SNIB_ERR_OK);
    assert_int_equal(l->term, term);
    assert_string_equal(l->id, "anna");
    assert_int_equal(l->pid, getpid());
    assert_true(l->self);
    snib_leader_free(l);

    assert_int_equal(snib_elect_resign(a, &e), SNIB_ERR_OK);
    assert_int_equal(snib_elect_resign(a, &e), SNIB_ERR_NOT_HELD);
    assert_false(snib_elect_leading(a));
    assert_int_equal(snib_elect_try(a, &again, &e), SNIB_ERR_OK);
    assert_true(again > term);
    assert_int_equal(told(&story), 3);
    assert_int_equal(story.state[0], SNIB_ELECT_LEADER);
    assert_int_equal(story.term[0], term);
    assert_int_equal(story.state[1], SNIB_ELECT_FOLLOWER);
    assert_int_equal(story.term[1], term);
    assert_int_equal(story.state[2], SNIB_ELECT_LEADER);
    assert_int_equal(story.term[2], again);
    snib_elect_free(a); /* gives the term up */
    struct snib_elect *b = candidate(c, "ben", NULL);
    assert_int_equal(snib_elect_try_for(b, 5000, &term, &e), SNIB_ERR_OK);
    snib_elect_free(b);
    snib_elect_free(NULL);
    snib_client_free(c);
}

static void a_mutex_of_the_name_is_the_same_election(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_elect *a = candidate(c, "anna", NULL);
    struct snib_lock *lock;
    struct snib_grant g;
    int64_t term;
    assert_int_equal(snib_lock_new(c, "e", NULL, &lock, &e), SNIB_ERR_OK);
    assert_int_equal(snib_try(lock, NULL, &g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_elect_try(a, &term, &e), SNIB_ERR_BUSY);
    assert_int_equal(snib_elect_try_for(a, 30, &term, &e), SNIB_ERR_TIMEOUT);
    struct snib_leader *l;
    assert_int_equal(snib_elect_leader(a, &l, &e), SNIB_ERR_OK);
    assert_int_equal(l->term, g.token);
    assert_false(l->self);
    snib_leader_free(l);
    assert_int_equal(snib_release(lock, g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_elect_try(a, &term, &e), SNIB_ERR_OK);
    assert_true(term > g.token);
    snib_lock_free(lock);
    snib_elect_free(a);
    snib_client_free(c);
}

/* -- loss --------------------------------------------------------------------- */

static void
a_lost_term_is_told_and_a_new_campaign_wins_a_higher_one(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct story story = {0};
    struct snib_elect *a = candidate(c, "anna", &story);
    struct snib_elect_status s;
    struct pollfd p = {.events = POLLIN};
    int64_t term, next;
    assert_int_equal(snib_elect_try(a, &term, &e), SNIB_ERR_OK);
    p.fd = snib_elect_fd(a);
    assert_int_equal(snib_test_steal(c, "e", 100), SNIB_ERR_OK);
    wait_told(&story, 2); /* at a third of the lease it asks */
    assert_int_equal(story.state[1], SNIB_ELECT_LEADER_LOST);
    assert_int_equal(story.term[1], term);
    assert_int_equal(poll(&p, 1, 0), 1);
    assert_false(snib_elect_leading(a));
    snib_elect_status(a, &s, sizeof s);
    assert_int_equal(s.state, SNIB_ELECT_LEADER_LOST);
    /* The thief's lease is over by then, so nobody has it. */
    assert_int_equal(s.cause, SNIB_CAUSE_FORGOTTEN);
    assert_int_equal(s.term, term);
    assert_int_equal(snib_elect_try_for(a, 5000, &next, &e), SNIB_ERR_OK);
    assert_true(next > term);
    wait_told(&story, 3); /* whichever thread tells */
    assert_int_equal(told(&story), 3);
    assert_int_equal(story.state[2], SNIB_ELECT_LEADER);
    assert_int_equal(story.term[2], next);
    snib_elect_free(a);
    snib_client_free(c);
}

static void whoever_is_told_of_a_loss_may_resign(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct story story = {0};
    struct snib_elect *a = candidate(c, "anna", &story);
    int64_t term;
    story.resigns = a;
    assert_int_equal(snib_elect_try(a, &term, &e), SNIB_ERR_OK);
    assert_int_equal(snib_test_steal(c, "e", 60000), SNIB_ERR_OK);
    wait_told(&story, 3);
    assert_int_equal(story.state[1], SNIB_ELECT_LEADER_LOST);
    assert_int_equal(story.state[2], SNIB_ELECT_FOLLOWER);
    assert_int_equal(snib_elect_resign(a, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(snib_elect_try(a, &term, &e), SNIB_ERR_BUSY);
    snib_elect_free(a);
    snib_client_free(c);
}

static void resigning_a_lost_term_says_so(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct story story = {0};
    struct snib_elect *a = candidate(c, "anna", &story);
    int64_t term;
    assert_int_equal(snib_elect_try(a, &term, &e), SNIB_ERR_OK);
    assert_int_equal(snib_test_steal(c, "e", 60000), SNIB_ERR_OK);
    wait_told(&story, 2);
    assert_int_equal(snib_elect_resign(a, &e), SNIB_ERR_LOST);
    snib_elect_free(a);
    snib_client_free(c);
}

/* -- several ------------------------------------------------------------------- */

struct campaigner {
    struct snib_elect *elect;
    int64_t wait_ms, known, term;
    snib_err err;
    struct snib_leader *leader;
    atomic_int done;
};

static void *campaigns(void *arg)
{
    struct campaigner *j = arg;
    struct snib_error mine;
    j->err = snib_elect_try_for(j->elect, j->wait_ms, &j->term, &mine);
    atomic_store(&j->done, 1);
    return NULL;
}

static void *watches(void *arg)
{
    struct campaigner *j = arg;
    struct snib_error mine;
    j->err =
        snib_elect_watch_for(j->elect, j->known, j->wait_ms, &j->leader, &mine);
    atomic_store(&j->done, 1);
    return NULL;
}

static void wait_candidates(struct snib_elect *el, size_t n)
{
    int64_t until = now_ms() + 10000;
    for (size_t seen = n + 1; seen != n;) {
        struct snib_leader *l;
        assert_int_equal(snib_elect_leader(el, &l, &e), SNIB_ERR_OK);
        seen = l->candidates;
        snib_leader_free(l);
        assert_true(now_ms() < until);
        poll(NULL, 0, 2);
    }
}

static void resigning_hands_over_to_the_next(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false), *d = open_client("", false);
    struct snib_elect *a = candidate(c, "anna", NULL),
                      *b = candidate(d, "ben", NULL);
    struct campaigner j = {.elect = b, .wait_ms = 20000};
    pthread_t t;
    int64_t term;
    assert_int_equal(snib_elect_try(a, &term, &e), SNIB_ERR_OK);
    assert_int_equal(pthread_create(&t, NULL, campaigns, &j), 0);
    wait_candidates(a, 1);
    assert_int_equal(snib_elect_try(b, &term, &e), SNIB_ERR_USAGE);
    int64_t from = now_ms();
    assert_int_equal(snib_elect_resign(a, &e), SNIB_ERR_OK);
    pthread_join(t, NULL);
    assert_in_range(now_ms() - from, 0, 1000); /* not the lease's 10 s     */
    assert_int_equal(j.err, SNIB_ERR_OK);
    assert_true(j.term > term);
    snib_elect_free(a);
    snib_elect_free(b);
    snib_client_free(c);
    snib_client_free(d);
}

static void two_candidates_of_one_client_lead_in_turn(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_elect *a = candidate(c, "anna", NULL),
                      *b = candidate(c, "ben", NULL);
    struct campaigner j = {.elect = b, .wait_ms = 20000};
    struct snib_leader *l;
    pthread_t t;
    int64_t term;
    assert_int_equal(snib_elect_try(a, &term, &e), SNIB_ERR_OK);
    assert_int_equal(pthread_create(&t, NULL, campaigns, &j), 0);
    assert_int_equal(snib_elect_leader(b, &l, &e), SNIB_ERR_OK);
    assert_false(l->self); /* the same client, another candidate             */
    snib_leader_free(l);
    assert_int_equal(snib_elect_resign(a, &e), SNIB_ERR_OK);
    pthread_join(t, NULL);
    assert_int_equal(j.err, SNIB_ERR_OK);
    assert_true(snib_elect_leading(b) && !snib_elect_leading(a));
    assert_int_equal(snib_elect_leader(b, &l, &e), SNIB_ERR_OK);
    assert_string_equal(l->id, "ben");
    assert_int_equal(l->term, j.term);
    assert_true(l->self);
    snib_leader_free(l);
    snib_elect_free(a);
    snib_elect_free(b);
    snib_client_free(c);
}

static void resigning_ends_a_campaign(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false), *d = open_client("", false);
    struct snib_elect *a = candidate(c, "anna", NULL),
                      *b = candidate(d, "ben", NULL);
    int64_t term;
    assert_int_equal(snib_elect_try(a, &term, &e), SNIB_ERR_OK);
    for (int i = 0; i < 20; i++) {
        struct campaigner j = {.elect = b, .wait_ms = INT64_MAX};
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, campaigns, &j), 0);
        if (i % 2) { /* else: as early as can be                           */
            wait_candidates(a, 1);
        }
        snib_err err = snib_elect_resign(b, &e);
        if (err == SNIB_ERR_NOT_HELD) { /* it had not begun                  */
            wait_candidates(a, 1);
            err = snib_elect_resign(b, &e);
        }
        assert_int_equal(err, SNIB_ERR_OK);
        pthread_join(t, NULL);
        assert_true(j.err == SNIB_ERR_CANCELLED || j.err == SNIB_ERR_UNKNOWN);
        wait_candidates(a, 0);
    }
    assert_true(snib_elect_leading(a));
    snib_elect_free(a);
    snib_elect_free(b);
    snib_client_free(c);
    snib_client_free(d);
}

/* -- watching ------------------------------------------------------------------- */

static void a_watcher_sees_each_change(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false), *d = open_client("", false);
    struct snib_elect *a = candidate(c, "anna", NULL),
                      *w = candidate(d, NULL, NULL);
    struct snib_leader *l;
    struct campaigner j = {.elect = w, .known = 0, .wait_ms = 20000};
    pthread_t t;
    int64_t term;
    assert_int_equal(snib_elect_watch_for(w, 0, 0, &l, &e), SNIB_ERR_TIMEOUT);
    assert_null(l);
    assert_int_equal(snib_elect_watch_for(w, 0, -2, &l, &e), SNIB_ERR_TIMEOUT);
    assert_int_equal(pthread_create(&t, NULL, watches, &j), 0);
    assert_int_equal(snib_elect_try(a, &term, &e), SNIB_ERR_OK);
    int64_t from = now_ms();
    pthread_join(t, NULL);
    assert_in_range(now_ms() - from, 0, 1000);
    assert_int_equal(j.err, SNIB_ERR_OK);
    assert_int_equal(j.leader->term, term);
    assert_string_equal(j.leader->id, "anna");
    snib_leader_free(j.leader);
    assert_int_equal(snib_elect_watch_for(w, term, 250, &l, &e),
                     SNIB_ERR_TIMEOUT);
    assert_int_equal(snib_elect_resign(a, &e), SNIB_ERR_OK);
    assert_int_equal(snib_elect_watch_for(w, term, 20000, &l, &e), SNIB_ERR_OK);
    assert_int_equal(l->term, 0);
    snib_leader_free(l);
    snib_leader_free(NULL);
    snib_client_close(d);
    assert_int_equal(snib_elect_watch_for(w, 0, 20000, &l, &e),
                     SNIB_ERR_CLOSED);
    snib_elect_free(a);
    snib_elect_free(w);
    snib_client_free(c);
    snib_client_free(d);
}

/* -- bad input ------------------------------------------------------------------- */

static void bad_input_is_refused(void **state)
{
    (void)state;
    struct snib_elect_options o = SNIB_INIT(snib_elect_options);
    struct snib_client *c = open_client("", false), *pull;
    struct snib_elect *el;
    int64_t term;
    assert_int_equal(snib_elect_new(c, "", NULL, &el, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_elect_new(c, NULL, NULL, &el, &e), SNIB_ERR_USAGE);
    o.lease_ms = 1;
    assert_int_equal(snib_elect_new(c, "e", &o, &el, &e), SNIB_ERR_USAGE);
    assert_null(el);
    o = (struct snib_elect_options){.size = 3};
    assert_int_equal(snib_elect_new(c, "e", &o, &el, &e), SNIB_ERR_USAGE);
    pull = client_on("memory:pull", true, 0);
    el = candidate(pull, NULL, NULL); /* its campaigns are started */
    assert_int_equal(snib_elect_campaign(el, &term, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_elect_resign(el, &e), SNIB_ERR_USAGE);
    snib_elect_free(el);
    snib_client_free(pull);
    el = candidate(c, NULL, NULL);
    assert_int_equal(snib_elect_try_for(el, -2, &term, &e), SNIB_ERR_OK);
    assert_int_equal(snib_elect_resign(el, &e), SNIB_ERR_OK);
    pid_t child = fork();
    int status;
    if (child == 0) {
        struct snib_leader *l;
        _exit(snib_elect_try(el, &term, &e) == SNIB_ERR_FORKED &&
                      snib_elect_resign(el, &e) == SNIB_ERR_FORKED &&
                      snib_elect_leader(el, &l, &e) == SNIB_ERR_FORKED &&
                      !snib_elect_leading(el) && snib_elect_fd(el) == -1
                  ? 0
                  : 1);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_string_equal(snib_elect_state_text(SNIB_ELECT_LEADER_AT_RISK),
                        "at risk");
    snib_elect_free(el);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(a_candidate_leads_and_resigns, new_space),
        cmocka_unit_test_setup(a_mutex_of_the_name_is_the_same_election,
                               new_space),
        cmocka_unit_test_setup(
            a_lost_term_is_told_and_a_new_campaign_wins_a_higher_one,
            new_space),
        cmocka_unit_test_setup(whoever_is_told_of_a_loss_may_resign, new_space),
        cmocka_unit_test_setup(resigning_a_lost_term_says_so, new_space),
        cmocka_unit_test_setup(resigning_hands_over_to_the_next, new_space),
        cmocka_unit_test_setup(two_candidates_of_one_client_lead_in_turn,
                               new_space),
        cmocka_unit_test_setup(resigning_ends_a_campaign, new_space),
        cmocka_unit_test_setup(a_watcher_sees_each_change, new_space),
        cmocka_unit_test_setup(bad_input_is_refused, new_space),
    };
    return RUN(cases);
}
