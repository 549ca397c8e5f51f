/* tests/unit/test_run_told.c — what a caller is told, on memory:. labels: thread
 *
 * All of an event, of an error, of a status; limits to the millisecond (in
 * virtual time); what is told when descriptors or memory end; that who watches
 * sleeps meanwhile. */
#include "run_memory.h"

#include "api/api.h"
#include "snib/elect.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/ring.h"
#include "snib/semaphore.h"
#include "snib/value.h"

/* The row that a case is at: told behind its failure. */
static char row[128];

static int tell_row(void **state)
{
    (void)state;
    if (*row) {
        print_error("in the row %s\n", row);
    }
    *row = '\0';
    return 0;
}

/* -- a client in virtual time ------------------------------------------------------ */

static struct snib_client *pull(void)
{
    return open_client("?clock=virtual", true);
}

static void do_all(struct snib_client *c)
{
    for (int i = 0; i < 20; i++) {
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    }
}

static void advance(struct snib_client *c, int64_t ms)
{
    assert_int_equal(snib_test_advance(c, ms), SNIB_ERR_OK);
    do_all(c);
}

static struct snib_event event_of(struct snib_client *c)
{
    struct snib_event ev;
    memset(&ev, 0xa5, sizeof ev);
    do_all(c);
    if (!snib_client_next(c, &ev, sizeof ev)) {
        fail_msg("no event");
    }
    return ev;
}

static void no_event(struct snib_client *c)
{
    struct snib_event ev;
    do_all(c);
    assert_false(snib_client_next(c, &ev, sizeof ev));
}

static uint64_t begin(struct snib_lock *l, int64_t wait_ms, void *user)
{
    uint64_t ticket = 0;
    memset(&e, 0xa5, sizeof e);
    assert_int_equal(snib_try_for_start(l, wait_ms, NULL, user, &ticket, &e),
                     SNIB_ERR_OK);
    assert_int_equal(e.code, SNIB_ERR_OK);
    assert_string_equal(e.text, "");
    assert_true(ticket);
    return ticket;
}

static struct snib_lock *lock_with(struct snib_client *c, int64_t lease_ms,
                                   bool fixed, int64_t hold_max_ms)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    o.lease_ms = lease_ms;
    o.fixed_lease = fixed;
    o.hold_max_ms = hold_max_ms;
    assert_int_equal(snib_lock_new(c, "x", &o, &l, &e), SNIB_ERR_OK);
    return l;
}

/* Everything in an event, by the table in snib.h. */
static void is_event(const struct snib_event *ev, snib_event_kind kind,
                     uint64_t ticket, int64_t token, const void *user,
                     snib_state state, snib_cause reason, snib_err err)
{
    assert_int_equal(ev->kind, kind);
    assert_int_equal(ev->grant.ticket, ticket);
    assert_int_equal(ev->grant.token, token);
    assert_ptr_equal(ev->user, user);
    assert_int_equal(ev->state, state);
    assert_int_equal(ev->cause, reason);
    assert_int_equal(ev->error.code, err);
    assert_true(!err == !*ev->error.text);
    assert_true(strlen(ev->error.text) < sizeof ev->error.text);
}

/* The next event: an acquire, a release that ended so, a loss. */
static void is_refused(struct snib_client *c, uint64_t ticket, const void *user,
                       snib_err err)
{
    struct snib_event ev = event_of(c);
    is_event(&ev, SNIB_EVENT_REFUSED, ticket, 0, user, SNIB_STATE_RELEASED,
             SNIB_CAUSE_NONE, err);
}

static void is_released(struct snib_client *c, struct snib_grant g,
                        const void *user, snib_err err, const char *says)
{
    struct snib_event ev = event_of(c);
    is_event(&ev, SNIB_EVENT_RELEASED, g.ticket, g.token, user,
             SNIB_STATE_RELEASED, SNIB_CAUSE_NONE, err);
    assert_non_null(strstr(ev.error.text, says));
}

static void is_lost(struct snib_client *c, struct snib_grant g,
                    const void *user, snib_cause reason)
{
    struct snib_event ev = event_of(c);
    is_event(&ev, SNIB_EVENT_STATE, g.ticket, g.token, user, SNIB_STATE_LOST,
             reason, SNIB_ERR_OK);
    no_event(c); /* told once */
}

static struct snib_status is_now(struct snib_lock *l, struct snib_grant g,
                                 snib_state state, snib_cause reason,
                                 int64_t left_ms)
{
    struct snib_status s;
    snib_grant_status(l, g, &s, sizeof s);
    assert_int_equal(s.state, state);
    assert_int_equal(s.cause, reason);
    assert_int_equal(s.left_ms, left_ms);
    return s;
}

static struct snib_grant granted(struct snib_client *c, struct snib_lock *l,
                                 void *user)
{
    uint64_t t = begin(l, 0, user);
    struct snib_event ev = event_of(c);
    assert_true(ev.grant.token > 0);
    is_event(&ev, SNIB_EVENT_GRANTED, t, ev.grant.token, user, SNIB_STATE_HELD,
             SNIB_CAUSE_NONE, SNIB_ERR_OK);
    return ev.grant;
}

/* -- events ------------------------------------------------------------------------- */

static void each_event_has_what_its_kind_says(void **state)
{
    (void)state;
    struct snib_client *c = pull();
    struct snib_lock *l = lock_with(c, 1000, true, 0);
    int one, two, three;
    struct snib_grant g = granted(c, l, &one);
    uint64_t t = begin(l, 500, &two);
    advance(c, 500);
    is_refused(c, t, &two, SNIB_ERR_TIMEOUT);
    t = begin(l, INT64_MAX, &two);
    snib_client_cancel(c, t);
    is_refused(c, t, &two, SNIB_ERR_CANCELLED);
    advance(c, 500); /* its fixed lease ends */
    is_lost(c, g, &one, SNIB_CAUSE_EXPIRED);
    assert_int_equal(snib_release_start(l, g, &three, &e), SNIB_ERR_OK);
    is_released(c, g, &three, SNIB_ERR_LOST, "expired");
    g = granted(c, l, &one);
    assert_int_equal(snib_release_start(l, g, &three, &e), SNIB_ERR_OK);
    is_released(c, g, &three, SNIB_ERR_OK, "");
    no_event(c);
    snib_lock_free(l);
    snib_client_free(c);
}

static void each_cause_of_a_loss_is_told_by_event_status_and_words(void **state)
{
    (void)state;
    enum how { EXPIRED, HOLD_MAX, STOLEN, REVOKED, FORGOTTEN };
    static const struct {
        enum how how;
        snib_cause reason;
        const char *says;
    } t[] = {
        {EXPIRED, SNIB_CAUSE_EXPIRED, "expired: the lease was fixed"},
        {HOLD_MAX, SNIB_CAUSE_HOLD_MAX, "hold-max: held for as long as"},
        {STOLEN, SNIB_CAUSE_STOLEN, "stolen: the store does not know"},
        {REVOKED, SNIB_CAUSE_REVOKED, "revoked by "},
        {FORGOTTEN, SNIB_CAUSE_FORGOTTEN,
         "forgotten: the store knows neither this grant nor another one: it "
         "lost its data, or somebody removed the grant there by hand"},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_client *c = pull();
        struct snib_client *other = open_client("?clock=virtual", false);
        struct snib_lock *l = lock_with(c, 3000, t[i].how == EXPIRED,
                                        t[i].how == HOLD_MAX ? 500 : 0);
        snprintf(row, sizeof row, "%s", t[i].says);
        struct snib_grant g = granted(c, l, &c);
        char words[SNIB_EXPLAIN_TEXT];
        uint32_t ended;
        snib_grant_explain(l, g, words, sizeof words);
        assert_string_equal(words, ""); /* nothing to explain yet */
        if (t[i].how == STOLEN) {
            assert_int_equal(snib_test_steal(c, "x", 60000), SNIB_ERR_OK);
        } else if (t[i].how == FORGOTTEN) {
            assert_int_equal(snib_test_expire(c, "x"), SNIB_ERR_OK);
        } else if (t[i].how == REVOKED) {
            assert_int_equal(snib_client_force_release(other, "x", 0,
                                                       "too long", &ended, &e),
                             SNIB_ERR_OK);
            assert_int_equal(ended, 1);
        }
        advance(c, t[i].how == EXPIRED ? 3000 : 1000);
        is_lost(c, g, &c, t[i].reason);
        struct snib_status s = is_now(l, g, SNIB_STATE_LOST, t[i].reason, 0);
        assert_int_equal(s.holds, 1);
        assert_int_equal(s.token, g.token);
        assert_false(snib_grant_held(l, g));
        snib_grant_explain(l, g, words, sizeof words);
        if (strncmp(words, t[i].says, strlen(t[i].says)) != 0) {
            fail_msg("\"%s\" does not begin with \"%s\"", words, t[i].says);
        }
        assert_true(t[i].how != REVOKED || strstr(words, ": too long"));
        assert_int_equal(snib_release_start(l, g, &l, &e), SNIB_ERR_OK);
        is_released(c, g, &l, SNIB_ERR_LOST, snib_cause_text(t[i].reason));
        /* given back: nothing more to say */
        (void)is_now(l, g, SNIB_STATE_RELEASED, SNIB_CAUSE_NONE, 0);
        snib_grant_explain(l, g, words, sizeof words);
        assert_string_equal(words, "");
        snib_lock_free(l);
        snib_client_free(other);
        snib_client_free(c);
        space++;
    }
    *row = '\0';
}

/* An earlier answer was lost, which is not why the grant is. */
static void a_renewal_under_way_is_told_why_the_grant_was_lost(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    char again[sizeof e.text];
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_test_steal(c, "x", 60000), SNIB_ERR_OK);
    assert_int_equal(snib_test_drop_replies(c, 1), SNIB_ERR_OK);
    assert_int_equal(snib_renew(l, g, 0, &e), SNIB_ERR_LOST);
    assert_string_equal(e.text,
                        "stolen: the store does not know the grant any more");
    memcpy(again, e.text, sizeof again);
    assert_int_equal(snib_renew(l, g, 0, &e), SNIB_ERR_LOST);
    assert_string_equal(e.text, again);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_LOST);
    assert_string_equal(e.text, again);
    snib_lock_free(l);
    snib_client_free(c);
}

/* -- limits ------------------------------------------------------------------------- */

static void a_limit_is_kept_to_the_millisecond(void **state)
{
    (void)state;
    static const int64_t limits[] = {1, 2, 999, 1000, 1001, 60000};
    struct snib_client *c = pull();
    struct snib_lock *l = lock_with(c, 86400000, false, 0);
    struct snib_grant g = granted(c, l, NULL);
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        snprintf(row, sizeof row, "of %lld ms", (long long)limits[i]);
        uint64_t t = begin(l, limits[i], &i);
        do_all(c);
        assert_in_range(snib_client_timeout_ms(c), 0, limits[i]);
        advance(c, limits[i] - 1);
        no_event(c);
        advance(c, 1);
        is_refused(c, t, &i, SNIB_ERR_TIMEOUT);
    }
    *row = '\0';
    assert_true(snib_grant_held(l, g));
    snib_lock_free(l);
    snib_client_free(c);
}

static void each_of_many_waits_has_its_own_limit(void **state)
{
    (void)state;
    enum { N = 40 };
    struct snib_client *c = pull();
    struct snib_lock *l = lock_with(c, 86400000, false, 0);
    uint64_t ticket[N];
    bool told[N] = {false};
    (void)granted(c, l, NULL);
    for (int i = 0; i < N; i++) { /* 7 and 40 have no factor in common */
        ticket[i] = begin(l, 10 * (1 + 7 * i % N), &ticket[i]);
    }
    for (int ms = 10; ms <= 10 * N; ms += 10) {
        struct snib_event ev;
        advance(c, 9);
        no_event(c);
        advance(c, 1);
        ev = event_of(c);
        int i = (int)((uint64_t *)ev.user - ticket);
        assert_in_range(i, 0, N - 1);
        is_event(&ev, SNIB_EVENT_REFUSED, ticket[i], 0, &ticket[i],
                 SNIB_STATE_RELEASED, SNIB_CAUSE_NONE, SNIB_ERR_TIMEOUT);
        assert_int_equal(10 * (1 + 7 * i % N), ms);
        assert_false(told[i]);
        told[i] = true;
        no_event(c);
    }
    snib_lock_free(l);
    snib_client_free(c);
}

static void what_is_left_counts_down_to_the_loss(void **state)
{
    (void)state;
    static const struct {
        int64_t lease, hold_max, left;
    } t[] = {
        /* less what clocks may differ by: 1 % and 5 ms */
        {1000, 0, 985},
        {10000, 0, 9895},
        {1000, 300, 300}, /* the sooner of the two */
        {1000, 5000, 985},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        snprintf(row, sizeof row, "of a lease of %lld ms, %lld at the most",
                 (long long)t[i].lease, (long long)t[i].hold_max);
        struct snib_client *c = pull();
        struct snib_lock *l = lock_with(c, t[i].lease, true, t[i].hold_max);
        struct snib_grant g = granted(c, l, NULL);
        struct snib_status s =
            is_now(l, g, SNIB_STATE_HELD, SNIB_CAUSE_NONE, t[i].left);
        assert_int_equal(s.held_ms, 0);
        advance(c, t[i].left - 1);
        s = is_now(l, g, SNIB_STATE_HELD, SNIB_CAUSE_NONE, 1);
        assert_int_equal(s.held_ms, t[i].left - 1);
        no_event(c);
        /* Nobody has to run for it to be true. */
        assert_int_equal(snib_test_advance(c, 1), SNIB_ERR_OK);
        (void)is_now(l, g, SNIB_STATE_LOST,
                     t[i].left == t[i].hold_max ? SNIB_CAUSE_HOLD_MAX
                                                : SNIB_CAUSE_EXPIRED,
                     0);
        assert_false(snib_grant_held(l, g));
        snib_lock_free(l);
        snib_client_free(c);
        space++;
    }
    *row = '\0';
}

/* In the last millisecond, too: who stops when it is not held finds it lost. */
static void what_is_not_held_is_lost(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_with(c, 100, true, 0);
    struct snib_grant g;
    struct snib_status s;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(snib_acquire(l, NULL, &g, &e), SNIB_ERR_OK);
        while (snib_grant_held(l, g)) {
        }
        snib_grant_status(l, g, &s, sizeof s);
        assert_int_equal(s.state, SNIB_STATE_LOST);
        assert_int_equal(snib_release(l, g, &e), SNIB_ERR_LOST);
    }
    snib_lock_free(l);
    snib_client_free(c);
}

/* -- errors of calls ------------------------------------------------------------------ */

static void is_told_by(const char *call, snib_err got, snib_err want,
                       const char *says)
{
    if (got != want || e.code != want || !strstr(e.text, says) ||
        !*says != !*e.text) {
        fail_msg("%s: %s (%s: \"%s\"), expected %s, \"%s\"", call,
                 snib_err_name(got), snib_err_name(e.code), e.text,
                 snib_err_name(want), says);
    }
    memset(&e, 0xa5, sizeof e);
}

#define is_told(call, want, says) is_told_by(#call, call, want, says)

static void answer_nothing(struct snib_client *c)
{
    assert_int_equal(snib_test_drop_replies(c, 1000000), SNIB_ERR_OK);
    memset(&e, 0xa5, sizeof e);
}

static void each_call_sets_the_whole_error(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_client *other = open_client("", false);
    struct snib_lock *l = lock_of(c, "x"), *m = lock_of(other, "x");
    struct snib_grant g, h, none = {0};
    struct snib_view *view;
    uint32_t ended;
    const char *closed = snib_err_text(SNIB_ERR_CLOSED);
    memset(&e, 0xa5, sizeof e);
    is_told(acquire(l, 0, &g), SNIB_ERR_OK, "");
    is_told(acquire(m, 0, &h), SNIB_ERR_BUSY, snib_err_text(SNIB_ERR_BUSY));
    assert_int_equal(h.ticket, 0);
    is_told(acquire(m, 20, &h), SNIB_ERR_TIMEOUT,
            snib_err_text(SNIB_ERR_TIMEOUT));
    assert_int_equal(h.ticket, 0);
    is_told(snib_renew(l, g, 0, &e), SNIB_ERR_OK, "");
    is_told(snib_renew(l, g, 1, &e), SNIB_ERR_USAGE, "lease");
    is_told(snib_renew(l, none, 0, &e), SNIB_ERR_NOT_HELD, "ticket 0");
    is_told(snib_release(l, none, &e), SNIB_ERR_NOT_HELD, "ticket 0");
    is_told(snib_client_inspect(c, "x", 0, &view, &e), SNIB_ERR_OK, "");
    assert_int_equal(view->holder_count, 1);
    snib_view_free(view);
    is_told(snib_client_force_release(other, "x", 0, "why not", &ended, &e),
            SNIB_ERR_OK, "");
    is_told(snib_renew(l, g, 0, &e), SNIB_ERR_LOST, "revoked by ");
    is_told(acquire(l, 0, &h), SNIB_ERR_LOST, "revoked");
    is_told(snib_release(l, g, &e), SNIB_ERR_LOST, "revoked by ");
    is_told(snib_release(l, g, &e), SNIB_ERR_NOT_HELD, "released before");
    is_told(snib_release(m, g, &e), SNIB_ERR_NOT_HELD,
            "no grant of this client");
    is_told(acquire(l, 0, &g), SNIB_ERR_OK, "");
    is_told(snib_release(l, g, &e), SNIB_ERR_OK, "");
    snib_client_stop(c);
    is_told(acquire(l, 0, &g), SNIB_ERR_CLOSED, closed);
    is_told(snib_release(l, g, &e), SNIB_ERR_CLOSED, closed);
    is_told(snib_renew(l, g, 0, &e), SNIB_ERR_CLOSED, closed);
    is_told(snib_client_inspect(c, "x", 0, &view, &e), SNIB_ERR_CLOSED, closed);
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(other);
}

static void without_answers_each_call_says_what_is_not_known(void **state)
{
    (void)state;
    struct snib_client *c = client_on("memory:mute", false, 100);
    struct snib_lock *l = lock_of(c, "x"), *m = lock_of(c, "y");
    struct snib_grant g, h;
    uint32_t ended;
    is_told(acquire(l, 0, &g), SNIB_ERR_OK, "");
    answer_nothing(c);
    is_told(acquire(m, 0, &h), SNIB_ERR_UNKNOWN, " "); /* it may be there */
    is_told(snib_renew(l, g, 0, &e), SNIB_ERR_UNKNOWN, " ");
    is_told(snib_client_force_release(c, "z", 0, "", &ended, &e),
            SNIB_ERR_UNKNOWN, " ");
    is_told(snib_release(l, g, &e), SNIB_ERR_UNKNOWN, " ");
    assert_int_equal(snib_test_drop_replies(c, 0), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
}

static void tell_nobody(void *data, const struct snib_finding *finding)
{
    (void)data;
    (void)finding;
}

/* What only asks changes nothing, so nothing of it can be applied. */
static void a_question_without_an_answer_is_never_unknown(void **state)
{
    (void)state;
    struct snib_client *c = client_on("memory:asks", false, 100);
    struct snib_view *view, **views;
    struct snib_semaphore sem;
    struct snib_value *value;
    struct snib_leader *leader;
    struct snib_elect *el;
    size_t count;
    uint32_t left;
    assert_int_equal(snib_elect_new(c, "e", NULL, &el, &e), SNIB_ERR_OK);
    answer_nothing(c);
    const snib_err away = SNIB_ERR_UNREACHABLE;
    is_told(snib_client_inspect(c, "x", 0, &view, &e), away, "reply dropped");
    is_told(snib_client_list(c, NULL, &views, &count, &e), away,
            "reply dropped");
    is_told(snib_latch_left(c, "l", 0, &left, &e), away, "reply");
    is_told(snib_semaphore_get(c, "s", 0, &sem, sizeof sem, &e), away, "reply");
    is_told(snib_value_get(c, "v", 0, &value, &e), away, " ");
    is_told(snib_elect_leader(el, &leader, &e), away, "reply dropped");
    is_told(snib_client_doctor(c, tell_nobody, NULL, &e), away,
            "reply dropped");
    is_told(snib_latch_count_down(c, "l", 0, 1, &left, &e), SNIB_ERR_UNKNOWN,
            " "); /* as before: this may be done */
    assert_int_equal(snib_test_drop_replies(c, 0), SNIB_ERR_OK);
    snib_elect_free(el);
    snib_client_free(c);
}

/* -- nothing left to work with ---------------------------------------------------------- */

static void a_line_without_descriptors_is_told(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    close(c->sock.v[0]->waker); /* as if it had never had one */
    c->sock.v[0]->waker = -1;
    struct rlimit was = take_descriptors();
    snib_err err = snib__socket_furnish(c, 0),
             again = snib__socket_furnish(c, 0);
    give_descriptors(was);
    assert_int_equal(err, SNIB_ERR_LIMIT);
    assert_int_equal(again, SNIB_ERR_LIMIT);
    assert_int_equal(snib__socket_furnish(c, 0), SNIB_ERR_OK);
    assert_true(c->sock.v[0]->waker >= 0);
    int waker = c->sock.v[0]->waker;
    assert_int_equal(snib__socket_furnish(c, 0), SNIB_ERR_OK);
    assert_int_equal(c->sock.v[0]->waker, waker); /* once */
    snib_client_free(c);
}

static void
an_acquire_without_descriptors_says_that_it_lacked_them(void **state)
{
    (void)state;
#if !defined(SNIB_WITH_REDIS) || SNIB_WITH_REDIS
    struct snib_client *c = client_on("redis://127.0.0.1:1", false, 200);
    struct snib_grant g;
    struct snib_lock *l = lock_of(c, "x");
    struct rlimit was = take_descriptors();
    snib_err err = acquire(l, 0, &g);
    give_descriptors(was);
    is_told(err, SNIB_ERR_LIMIT, "ulimit -n");
    snib_lock_free(l);
    snib_client_free(c);
#endif
}

/* -- watching ----------------------------------------------------------------------------- */

/* A look costs memory; who looks without a pause has soon used up all. */
static void who_watches_an_election_sleeps_between_looks(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_elect *el;
    struct snib_leader *l;
    int64_t before = now_ms();
    assert_int_equal(snib_elect_new(c, "e", NULL, &el, &e), SNIB_ERR_OK);
    snib__mem_fail_at(2000, true);
    snib_err err = snib_elect_watch_for(el, 0, 700, &l, &e);
    snib__mem_fail_at(0, false);
    is_told(err, SNIB_ERR_TIMEOUT, "no other term than 0");
    assert_null(l);
    assert_true(now_ms() - before >= 700);
    assert_int_equal(snib_elect_watch_for(el, 0, 0, &l, &e), SNIB_ERR_TIMEOUT);
    assert_int_equal(snib_elect_watch_for(el, 0, -2, &l, &e), SNIB_ERR_TIMEOUT);
    snib_elect_free(el);
    snib_client_free(c);
}

struct told {
    _Atomic int count, state, reason;
    _Atomic uint64_t ticket;
};

static void note(void *data, struct snib_grant g, snib_state s, snib_cause r)
{
    struct told *t = data;
    atomic_store(&t->state, (int)s);
    atomic_store(&t->reason, (int)r);
    atomic_store(&t->ticket, g.ticket);
    atomic_fetch_add(&t->count, 1);
}

static void a_lost_place_in_a_ring_is_told_to_its_owner(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_client *other = open_client("", false);
    struct snib_ring_options o = SNIB_INIT(snib_ring_options);
    struct snib_ring_membership *p, *q;
    struct told mine = {0}, others = {0};
    uint32_t ended;
    o.on_change = note;
    o.data = &mine;
    assert_int_equal(snib_ring_try(c, "r", 0, "a", &o, &p, &e), SNIB_ERR_OK);
    o.data = &others;
    assert_int_equal(snib_ring_try(other, "s", 0, "a", &o, &q, &e),
                     SNIB_ERR_OK);
    assert_int_equal(snib_client_force_release(other, "r", 0, "", &ended, &e),
                     SNIB_ERR_OK);
    int64_t end = now_ms() + 20000;
    while (!atomic_load(&mine.count)) {
        assert_true(now_ms() < end);
        nap(2);
    }
    assert_int_equal(mine.state, SNIB_STATE_LOST);
    assert_int_equal(mine.reason, SNIB_CAUSE_REVOKED);
    assert_true(mine.ticket);
    assert_int_equal(snib_ring_leave(p, &e), SNIB_ERR_LOST);
    assert_int_equal(mine.count, 1);
    assert_int_equal(snib_ring_leave(q, &e), SNIB_ERR_OK);
    assert_int_equal(others.count, 0);
    snib_client_free(other);
    snib_client_free(c);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, new_space, tell_row)
    const struct CMUnitTest run_told[] = {
        CASE(each_event_has_what_its_kind_says),
        CASE(each_cause_of_a_loss_is_told_by_event_status_and_words),
        CASE(a_renewal_under_way_is_told_why_the_grant_was_lost),
        CASE(a_limit_is_kept_to_the_millisecond),
        CASE(each_of_many_waits_has_its_own_limit),
        CASE(what_is_left_counts_down_to_the_loss),
        CASE(what_is_not_held_is_lost),
        CASE(each_call_sets_the_whole_error),
        CASE(without_answers_each_call_says_what_is_not_known),
        CASE(a_question_without_an_answer_is_never_unknown),
        CASE(a_line_without_descriptors_is_told),
        CASE(an_acquire_without_descriptors_says_that_it_lacked_them),
        CASE(who_watches_an_election_sleeps_between_looks),
        CASE(a_lost_place_in_a_ring_is_told_to_its_owner),
    };
    return RUN(run_told);
}
