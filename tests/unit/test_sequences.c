/* tests/unit/test_sequences.c — operations of several requests, on memory:, in
 * threaded and in pull clients: updates of values, watches, rings, policies;
 * and grants that are adopted. labels: thread
 *
 * What the starts say, and what the store makes of their events:
 * unit.told_started, unit.told_done. */
#include "started.h"

#include "snib/elect.h"
#include "snib/policy.h"
#include "snib/sys.h"

/* -- updates of values ---------------------------------------------------------------- */

struct counting {
    pthread_t by;
    int calls, stop;
    struct snib_client *rival; /* who is faster each time                    */
    char text[24];
};

static int count_up(void *data, const struct snib_value *now,
                    struct snib_value_next *next)
{
    struct counting *n = data;
    n->by = pthread_self();
    n->calls++;
    if (n->rival) {
        must(snib_value_put(n->rival, "n", 0, now->version, "7", 1, 0, NULL,
                            &e));
    }
    snprintf(n->text, sizeof n->text, "%d",
             now->size ? atoi(now->bytes) + 1 : 1);
    *next = (struct snib_value_next){.bytes = n->text, .size = strlen(n->text)};
    return n->stop;
}

static int number_in(struct snib_client *c)
{
    struct snib_value *v;
    must(snib_value_get(c, "n", 0, &v, &e));
    int n = v->size ? atoi(v->bytes) : 0;
    snib_value_free(v);
    return n;
}

static void updates_of_two_clients_lose_nothing(void **state)
{
    (void)state;
    enum { EACH = 20 };
    struct snib_client *c[2] = {open_client("", false), open_client("", true)};
    struct counting n[2][EACH];
    int64_t version[2][EACH];
    memset(n, 0, sizeof n);
    for (int i = 0; i < EACH; i++) {
        for (int k = 0; k < 2; k++) {
            must(snib_value_update_start(c[k], "n", 0, NULL, count_up, &n[k][i],
                                         NULL, &version[k][i], &n[k][i], NULL,
                                         &e));
        }
    }
    for (int left = 2 * EACH; left;) {
        for (int k = 0; k < 2; k++) {
            struct snib_event ev;
            drive(c[k]);
            while (snib_client_next(c[k], &ev, sizeof ev)) {
                struct counting *mine = ev.user;
                must(ev.error.code);
                assert_true(version[k][mine - n[k]] > 0);
                assert_true(pthread_equal(mine->by, pthread_self()));
                left--;
            }
        }
    }
    assert_int_equal(number_in(c[0]), 2 * EACH);
    snib_client_free(c[0]);
    snib_client_free(c[1]);
}

static void a_computation_may_end_its_update(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        struct counting n = {.stop = 42};
        int stopped = 7;
        int64_t version = 7;
        uint64_t ticket;
        must(snib_value_update_start(c, "n", 0, NULL, count_up, &n, &stopped,
                                     &version, NULL, &ticket, &e));
        assert_int_equal(stopped, 0);
        must(done_of(c, ticket).error.code);
        assert_int_equal(stopped, 42);
        assert_int_equal(version, 0);
        assert_int_equal(n.calls, 1);
        snib_client_free(c);
    }
}

static void who_is_overtaken_computes_again_or_ends(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        struct counting n = {.rival = open_client("", false)};
        int64_t version = 0;
        uint64_t ticket;
        must(snib_value_try_start(c, "n", 0, NULL, count_up, &n, NULL, &version,
                                  NULL, &ticket, &e));
        assert_int_equal(done_of(c, ticket).error.code, SNIB_ERR_BUSY);
        assert_int_equal(n.calls, 1);
        assert_true(version > 0);
        must(snib_value_try_for_start(c, "n", 0, 40, NULL, count_up, &n, NULL,
                                      &version, NULL, &ticket, &e));
        struct snib_event ev = done_of(c, ticket);
        assert_int_equal(ev.error.code, SNIB_ERR_TIMEOUT);
        assert_non_null(strstr(ev.error.text, "others changed the value"));
        assert_true(n.calls > 2);
        assert_int_equal(number_in(n.rival), 7);
        snib_client_free(c);
        snib_client_free(n.rival);
    }
}

static void an_update_is_cancelled_wherever_it_is(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", true);
    struct counting n = {0};
    struct snib_event ev;
    uint64_t ticket;
    slow_down(c);
    stand_still(true);
    must(snib_value_update_start(c, "n", 0, NULL, count_up, &n, NULL, NULL,
                                 NULL, &ticket, &e));
    snib_client_cancel(c, 0); /* the ticket of nothing */
    assert_false(snib_client_next(c, &ev, sizeof ev));
    snib_client_cancel(c, ticket); /* it reads */
    assert_true(snib_client_next(c, &ev, sizeof ev));
    assert_int_equal(ev.error.code, SNIB_ERR_CANCELLED);
    assert_int_equal(n.calls, 0);
    stand_still(false);
    must(snib_value_update_start(c, "n", 0, NULL, count_up, &n, NULL, NULL,
                                 NULL, &ticket, &e));
    for (int64_t end = now_ms() + 20000; !n.calls; nap(1)) {
        drive(c);
        assert_false(snib_client_next(c, &ev, sizeof ev));
        stand_still(n.calls > 0);
        assert_true(now_ms() < end);
    }
    snib_client_cancel(c, ticket); /* it writes */
    assert_true(snib_client_next(c, &ev, sizeof ev));
    assert_int_equal(ev.error.code, SNIB_ERR_UNKNOWN);
    stand_still(false);
    speed_up(c);
    struct counting slow = {.rival = open_client("", false)};
    struct snib_value_options o = SNIB_INIT(snib_value_options);
    o.backoff_ms = o.backoff_max_ms = 60000;
    must(snib_value_update_start(c, "n", 0, &o, count_up, &slow, NULL, NULL,
                                 NULL, &ticket, &e));
    for (int i = 0; i < 20; i++) {
        drive(c);
        assert_false(snib_client_next(c, &ev, sizeof ev));
    }
    assert_int_equal(slow.calls, 1); /* it pauses */
    snib_client_cancel(c, ticket);
    assert_true(snib_client_next(c, &ev, sizeof ev));
    assert_int_equal(ev.error.code, SNIB_ERR_CANCELLED);
    snib_client_free(c);
    snib_client_free(slow.rival);
}

/* -- watching an election ------------------------------------------------------------ */

static void a_watch_sees_the_next_term(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        struct snib_client *other = open_client("", false);
        struct snib_elect *mine, *theirs;
        struct snib_leader *l;
        uint64_t ticket;
        int64_t term;
        must(snib_elect_new(c, "boss", NULL, &mine, &e));
        must(snib_elect_new(other, "boss", NULL, &theirs, &e));
        must(snib_elect_watch_for_start(mine, 0, 20, &l, NULL, &ticket, &e));
        struct snib_event ev = done_of(c, ticket);
        assert_int_equal(ev.error.code, SNIB_ERR_TIMEOUT);
        assert_null(l);
        must(snib_elect_watch_start(mine, 0, &l, NULL, &ticket, &e));
        no_event(c);
        must(snib_elect_try(theirs, &term, &e));
        must(done_of(c, ticket).error.code);
        assert_int_equal(l->term, term);
        assert_false(l->self);
        snib_leader_free(l);
        must(snib_elect_resign(theirs, &e));
        must(snib_elect_try_start(mine, &term, NULL, NULL, &e));
        must(next_of(c).error.code);
        must(snib_elect_watch_start(mine, 1, &l, NULL, &ticket, &e));
        must(done_of(c, ticket).error.code);
        assert_true(l->self);
        assert_int_equal(l->term, term);
        snib_leader_free(l);
        snib_elect_free(mine);
        snib_elect_free(theirs);
        snib_client_free(c);
        snib_client_free(other);
    }
}

static void a_watch_ends_with_its_candidate(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        struct snib_elect *el;
        struct snib_leader *l[2];
        uint64_t ticket[2];
        must(snib_elect_new(c, "boss", NULL, &el, &e));
        for (int i = 0; i < 2; i++) {
            must(snib_elect_watch_start(el, 0, &l[i], NULL, &ticket[i], &e));
        }
        no_event(c); /* both pause, or look */
        snib_client_cancel(c, ticket[0]);
        assert_int_equal(done_of(c, ticket[0]).error.code, SNIB_ERR_CANCELLED);
        snib_elect_free(el);
        assert_int_equal(done_of(c, ticket[1]).error.code, SNIB_ERR_CANCELLED);
        assert_true(!l[0] && !l[1]);
        snib_client_free(c);
    }
}

/* -- rings ------------------------------------------------------------------------------- */

static size_t members_of(struct snib_client *c)
{
    struct snib_ring *r;
    must(snib_ring_read(c, "ring", 0, &r, &e));
    size_t n = snib_ring_count(r);
    snib_ring_free(r);
    return n;
}

static void a_ring_is_joined_and_left_by_starts(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        struct snib_client *other = open_client("", false);
        struct snib_ring_membership *p, *twin;
        uint64_t ticket;
        must(snib_ring_join_start(c, "ring", 0, "a", NULL, &p, NULL, &ticket,
                                  &e));
        assert_null(p);
        must(done_of(c, ticket).error.code);
        assert_non_null(p);
        assert_int_equal(members_of(other), 1);
        must(snib_ring_join_start(c, "ring", 0, "a", NULL, &twin, NULL, &ticket,
                                  &e));
        struct snib_event ev = done_of(c, ticket);
        assert_int_equal(ev.error.code, SNIB_ERR_BUSY);
        assert_non_null(strstr(ev.error.text, "in the ring already"));
        assert_null(twin);
        assert_int_equal(members_of(other), 1); /* it was given back */
        must(snib_ring_leave_start(p, NULL, &ticket, &e));
        snib_client_cancel(c, ticket); /* a leave is not cancelled */
        must(done_of(c, ticket).error.code);
        assert_int_equal(members_of(other), 0);
        snib_client_free(c);
        snib_client_free(other);
    }
}

static void a_join_is_cancelled(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        struct snib_client *other = open_client("", false);
        struct snib_lock_options o = SNIB_INIT(snib_lock_options);
        struct snib_ring_membership *p;
        struct snib_lock *l;
        struct snib_grant g;
        uint64_t ticket;
        o.kind = SNIB_KIND_WRITE;
        must(snib_lock_new(other, "ring", &o, &l, &e));
        must(snib_try(l, NULL, &g, &e));
        must(snib_ring_join_start(c, "ring", 0, "a", NULL, &p, NULL, &ticket,
                                  &e));
        is_waited_for(c, other, "ring");
        snib_client_cancel(c, ticket);
        assert_int_equal(done_of(c, ticket).error.code, SNIB_ERR_CANCELLED);
        assert_null(p);
        must(snib_ring_try_for_start(c, "ring", 0, "a", 20, NULL, &p, NULL,
                                     &ticket, &e));
        assert_int_equal(done_of(c, ticket).error.code, SNIB_ERR_TIMEOUT);
        must(snib_release(l, g, &e));
        assert_int_equal(members_of(other), 0);
        snib_client_free(c);
        snib_client_free(other);
    }
}

/* -- policies --------------------------------------------------------------------------- */

struct work {
    struct snib_client *c, *other;
    pthread_t by;
    int runs;
    bool loses;
};

static int work(void *data, struct snib_grant g)
{
    struct work *w = data;
    w->by = pthread_self();
    w->runs += g.ticket ? 1 : 100;
    if (w->loses) {
        must(snib_test_expire(w->other, "job:7"));
        must(snib_test_steal(w->other, "job:7", 1000));
    }
    return 11;
}

static int is_busy(void *data, const struct snib_error *why)
{
    struct work *w = data;
    w->runs += why->code == SNIB_ERR_BUSY ? 1000 : 0;
    return 12;
}

static void a_body_runs_in_the_loop(void **state)
{
    const char *pairs[] = {"id", "7", NULL};
    (void)state;
    BOTH(pull)
    {
        struct work w = {.c = open_client("", pull),
                         .other = open_client("", false)};
        struct snib_policy p = SNIB_INIT(snib_policy);
        struct snib_lock *l = lock_of(w.other, "job:7");
        struct snib_grant g;
        uint64_t ticket;
        int result = 0;
        p.name = "job";
        p.key = "{id}";
        must(snib_policy_run_start(w.c, &p, pairs, work, &w, &result, NULL,
                                   &ticket, &e));
        assert_int_equal(w.runs, 0);
        must(done_of(w.c, ticket).error.code);
        assert_int_equal(w.runs, 1);
        assert_int_equal(result, 11);
        assert_true(pthread_equal(w.by, pthread_self()));
        must(snib_try(l, NULL, &g, &e)); /* it was given back */
        must(snib_policy_try_start(w.c, &p, pairs, work, &w, &result, NULL,
                                   &ticket, &e));
        assert_int_equal(done_of(w.c, ticket).error.code, SNIB_ERR_BUSY);
        p.on_busy = SNIB_ON_BUSY_RUN;
        must(snib_policy_try_start(w.c, &p, pairs, work, &w, &result, NULL,
                                   &ticket, &e));
        must(done_of(w.c, ticket).error.code);
        assert_int_equal(w.runs, 101);
        p.on_busy = SNIB_ON_BUSY_CALL;
        p.busy = is_busy;
        must(snib_policy_try_for_start(w.c, 0, &p, pairs, work, &w, &result,
                                       NULL, &ticket, &e));
        must(done_of(w.c, ticket).error.code);
        assert_int_equal(w.runs, 1101);
        assert_int_equal(result, 12);
        must(snib_policy_run_start(w.c, &p, pairs, work, &w, &result, NULL,
                                   &ticket, &e));
        is_waited_for(w.c, w.other, "job:7");
        snib_client_cancel(w.c, ticket);
        assert_int_equal(done_of(w.c, ticket).error.code, SNIB_ERR_CANCELLED);
        assert_int_equal(w.runs, 1101);
        snib_client_free(w.c);
        snib_client_free(w.other);
    }
}

static void a_body_that_outlives_its_lock_is_told_so(void **state)
{
    (void)state;
    struct work w = {.c = open_client("", true),
                     .other = open_client("", false),
                     .loses = true};
    struct snib_policy p = SNIB_INIT(snib_policy);
    uint64_t ticket;
    int result = 0;
    p.key = "job:7";
    must(snib_policy_run_start(w.c, &p, NULL, work, &w, &result, NULL, &ticket,
                               &e));
    struct snib_event ev = done_of(w.c, ticket);
    assert_int_equal(ev.error.code, SNIB_ERR_LOST);
    assert_int_equal(result, 11);
    snib_client_free(w.c);
    snib_client_free(w.other);
}

/* -- grants that are adopted ------------------------------------------------------------ */

static void a_grant_is_adopted_by_a_start(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *first = open_client("", false), *c;
        struct snib_client_options o = SNIB_INIT(snib_client_options);
        struct snib_lock_options fixed = SNIB_INIT(snib_lock_options);
        char text[SNIB_GRANT_TEXT], identity[SNIB_IDENTITY_TEXT], url[64];
        struct snib_grant was, g;
        struct snib_lock *l;
        uint64_t ticket;
        fixed.fixed_lease = true;
        must(snib_lock_new(first, "x", &fixed, &l, &e));
        must(snib_try(l, NULL, &was, &e));
        must(snib_grant_export(l, was, text, sizeof text, &e));
        must(snib_grant_identity(text, identity, sizeof identity, &e));
        must(snib_grant_abandon(l, was, &e));
        snprintf(url, sizeof url, "memory:case%d", space);
        o.url = url;
        o.pull = pull;
        o.identity = identity;
        must(snib_client_open(&o, &c, &e));
        must(snib_lock_new(c, "x", &fixed, &l, &e));
        must(snib_grant_adopt_start(l, text, 0, &g, &g, &ticket, &e));
        assert_int_equal(g.ticket, 0);
        struct snib_event ev = done_of(c, ticket);
        must(ev.error.code);
        assert_int_equal(ev.state, SNIB_STATE_HELD);
        assert_int_equal(ev.grant.token, was.token);
        assert_int_equal(g.ticket, ev.grant.ticket);
        assert_int_equal(g.token, was.token);
        assert_true(snib_grant_held(l, g));
        must(snib_release_start(l, g, NULL, &e));
        assert_int_equal(next_of(c).kind, SNIB_EVENT_RELEASED);
        must(snib_grant_adopt_start(l, text, 0, &g, NULL, &ticket, &e));
        assert_int_equal(done_of(c, ticket).error.code, SNIB_ERR_LOST);
        assert_int_equal(g.ticket, 0);
        snib_client_free(c);
        snib_client_free(first);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(updates_of_two_clients_lose_nothing),
        CASE(a_computation_may_end_its_update),
        CASE(who_is_overtaken_computes_again_or_ends),
        CASE(an_update_is_cancelled_wherever_it_is),
        CASE(a_watch_sees_the_next_term),
        CASE(a_watch_ends_with_its_candidate),
        CASE(a_ring_is_joined_and_left_by_starts),
        CASE(a_join_is_cancelled),
        CASE(a_body_runs_in_the_loop),
        CASE(a_body_that_outlives_its_lock_is_told_so),
        CASE(a_grant_is_adopted_by_a_start),
    };
    return RUN(cases);
}
