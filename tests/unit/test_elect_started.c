/* tests/unit/test_elect_started.c — campaigns and resignations that are
 * started, in threaded and in pull clients. labels: thread
 * wraps: snib_grant_held pthread_setcancelstate */
#include "run_memory.h"

#include "api/api.h"
#include "snib/elect.h"
#include "snib/event.h"
#include "snib/inspect.h"

static void must(snib_err err)
{
    if (err) {
        fail_msg("%s: %s", snib_err_name(err), e.text);
    }
}

/* -- candidates ---------------------------------------------------------------- */

struct candidate {
    struct snib_client *c;
    struct snib_elect *e;
    int64_t term;
    pthread_t teller;
    snib_elect_state told[8];
    int changes;
    bool resigns; /* when it is told LEADER */
};

static void note(void *data, snib_elect_state state, int64_t term)
{
    struct candidate *k = data;
    assert_true(term > 0);
    assert_true(k->changes < 8);
    k->teller = pthread_self();
    k->told[k->changes++] = state;
    if (k->resigns && state == SNIB_ELECT_LEADER) {
        must(snib_elect_resign_start(k->e, k, NULL, &e));
    }
}

static void stand_up(struct candidate *k, const char *query, bool pull)
{
    struct snib_elect_options o = SNIB_INIT(snib_elect_options);
    memset(k, 0, sizeof *k);
    k->c = open_client(query, pull);
    o.on_change = note;
    o.data = k;
    o.lease_ms = 2000;
    o.id = "somebody";
    must(snib_elect_new(k->c, "x", &o, &k->e, &e));
}

static void sit_down(struct candidate *k)
{
    snib_elect_free(k->e);
    snib_client_free(k->c);
}

static void drive(struct snib_client *c)
{
    for (int i = 0; c->pull && i < 20; i++) {
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    }
}

/* The next event, STATE apart. */
static struct snib_event done_of(struct candidate *k)
{
    struct snib_event ev;
    for (int64_t end = now_ms() + 20000;; nap(1)) {
        drive(k->c);
        while (snib_client_next(k->c, &ev, sizeof ev)) {
            if (ev.kind != SNIB_EVENT_STATE) {
                assert_int_equal(ev.kind, SNIB_EVENT_DONE);
                assert_ptr_equal(ev.user, k);
                return ev;
            }
        }
        assert_true(now_ms() < end);
    }
}

static uint64_t campaign(struct candidate *k)
{
    uint64_t ticket = 0;
    k->term = -1;
    must(snib_elect_campaign_start(k->e, &k->term, k, &ticket, &e));
    assert_true(ticket);
    return ticket;
}

static void leads(struct candidate *k, uint64_t ticket)
{
    struct snib_event ev = done_of(k);
    must(ev.error.code);
    assert_int_equal(ev.state, SNIB_STATE_HELD);
    assert_int_equal(ev.grant.ticket, ticket);
    assert_int_equal(ev.grant.token, k->term);
    assert_true(k->term > 0);
    assert_true(snib_elect_leading(k->e));
}

static void is_cancelled(struct candidate *k, uint64_t ticket)
{
    struct snib_event ev = done_of(k);
    assert_int_equal(ev.error.code, SNIB_ERR_CANCELLED);
    assert_int_equal(ev.state, SNIB_STATE_RELEASED);
    assert_int_equal(ev.grant.ticket, ticket);
    assert_int_equal(ev.grant.token, 0);
    assert_int_equal(k->term, -1);
}

static void are_at(struct snib_client *c, size_t holders, size_t waiters)
{
    struct snib_view *v;
    for (int64_t end = now_ms() + 20000;; nap(1)) {
        must(snib_client_inspect(c, "x", 0, &v, &e));
        bool so = v->holder_count == holders && v->waiter_count == waiters;
        snib_view_free(v);
        if (so) {
            return;
        }
        assert_true(now_ms() < end);
    }
}

/* Each case in a threaded and in a pull client, beside a leader who can be
 * asked what is so. */
static void in_both(void (*body)(struct candidate *k, struct candidate *other))
{
    for (int pull = 0; pull < 2; pull++) {
        struct candidate k, other;
        new_space(NULL);
        stand_up(&k, "", pull);
        stand_up(&other, "", false);
        body(&k, &other);
        sit_down(&k);
        sit_down(&other);
    }
}

/* -- leading --------------------------------------------------------------------- */

static void lead_and_resign(struct candidate *k, struct candidate *other)
{
    uint64_t ticket = campaign(k);
    are_at(other->c, 1, 0); /* the lock is held: nobody has taken the event */
    assert_false(snib_elect_leading(k->e));
    assert_int_equal(k->changes, 0);
    leads(k, ticket);
    assert_int_equal(k->changes, 1);
    assert_int_equal(k->told[0], SNIB_ELECT_LEADER);
    assert_true(pthread_equal(k->teller, pthread_self()));
    int64_t term = k->term;
    k->term = -1;
    must(snib_elect_try_start(k->e, &k->term, k, &ticket, &e));
    leads(k, ticket); /* it leads already */
    assert_int_equal(k->term, term);
    must(snib_elect_resign_start(k->e, k, &ticket, &e));
    assert_false(snib_elect_leading(k->e));
    assert_int_equal(k->changes, 2);
    assert_int_equal(k->told[1], SNIB_ELECT_FOLLOWER);
    struct snib_event ev = done_of(k);
    must(ev.error.code);
    assert_int_equal(ev.state, SNIB_STATE_RELEASED);
    assert_int_equal(ev.grant.ticket, ticket);
    are_at(other->c, 0, 0);
    leads(k, campaign(k));
    assert_true(k->term > term);
}

static void who_campaigns_leads_until_it_resigns(void **state)
{
    (void)state;
    in_both(lead_and_resign);
}

static void wait_for_other(struct candidate *k, struct candidate *other)
{
    must(snib_elect_try(other->e, &other->term, &e));
    uint64_t ticket = campaign(k);
    drive(k->c);
    are_at(other->c, 1, 1);
    int64_t term = 77;
    assert_int_equal(snib_elect_try_start(k->e, &term, k, NULL, &e),
                     SNIB_ERR_USAGE); /* one at a time */
    must(snib_elect_resign(other->e, &e));
    leads(k, ticket);
    assert_true(k->term > other->term);
    assert_int_equal(
        snib_elect_try_for_start(other->e, 20, &term, other, NULL, &e),
        SNIB_ERR_OK);
    assert_int_equal(done_of(other).error.code, SNIB_ERR_TIMEOUT);
    assert_int_equal(term, 77);
    assert_int_equal(snib_elect_try_start(other->e, &term, other, NULL, &e),
                     SNIB_ERR_OK);
    assert_int_equal(done_of(other).error.code, SNIB_ERR_BUSY);
}

static void who_waits_is_next(void **state)
{
    (void)state;
    in_both(wait_for_other);
}

static void a_lost_term_is_told_and_a_new_one_begins(void **state)
{
    (void)state;
    for (int pull = 0; pull < 2; pull++) {
        struct candidate k;
        struct snib_event ev;
        new_space(NULL);
        stand_up(&k, "", pull);
        leads(&k, campaign(&k));
        int64_t term = k.term;
        must(snib_test_expire(k.c, "x"));
        for (int64_t end = now_ms() + 20000;; nap(1)) { /* its next renewal */
            drive(k.c);
            if (snib_client_next(k.c, &ev, sizeof ev) &&
                ev.state == SNIB_STATE_LOST) {
                break;
            }
            assert_true(now_ms() < end);
        }
        assert_int_equal(ev.kind, SNIB_EVENT_STATE);
        assert_ptr_equal(ev.user, &k);
        assert_false(snib_elect_leading(k.e));
        leads(&k, campaign(&k));
        assert_true(k.term > term);
        assert_int_equal(k.told[k.changes - 1], SNIB_ELECT_LEADER);
        sit_down(&k);
    }
}

static void who_resigns_when_told_is_a_follower(void **state)
{
    (void)state;
    struct candidate k;
    new_space(NULL);
    stand_up(&k, "", true);
    k.resigns = true;
    uint64_t ticket = campaign(&k);
    struct snib_event ev = done_of(&k);
    assert_int_equal(ev.grant.ticket, ticket);
    must(ev.error.code);
    assert_false(snib_elect_leading(k.e));
    must(done_of(&k).error.code);
    assert_int_equal(k.changes, 2);
    assert_int_equal(k.told[1], SNIB_ELECT_FOLLOWER);
    sit_down(&k);
}

/* -- ending a campaign -------------------------------------------------------------- */

static void cancel_it(struct candidate *k, struct candidate *other)
{
    must(snib_elect_try(other->e, &other->term, &e));
    uint64_t ticket = campaign(k);
    drive(k->c);
    are_at(other->c, 1, 1);
    snib_client_cancel(k->c, ticket);
    is_cancelled(k, ticket);
    are_at(other->c, 1, 0);
    ticket = campaign(k); /* it may stand again */
    must(snib_elect_resign(other->e, &e));
    leads(k, ticket);
}

static void a_campaign_is_cancelled_by_its_ticket(void **state)
{
    (void)state;
    in_both(cancel_it);
}

static void resign_it(struct candidate *k, struct candidate *other)
{
    must(snib_elect_try(other->e, &other->term, &e));
    uint64_t ticket = campaign(k), resigned = 0;
    drive(k->c);
    are_at(other->c, 1, 1);
    if (k->c->pull) {
        must(snib_elect_resign_start(k->e, k, &resigned, &e));
        struct snib_event ev = done_of(k);
        must(ev.error.code); /* known at once, so it is first */
        assert_int_equal(ev.grant.ticket, resigned);
        assert_true(resigned != ticket);
    } else {
        must(snib_elect_resign(k->e, &e));
    }
    is_cancelled(k, ticket);
    are_at(other->c, 1, 0);
    assert_int_equal(k->changes, 0);
}

static void a_campaign_is_resigned(void **state)
{
    (void)state;
    in_both(resign_it);
}

static void resign_too_late(struct candidate *k, struct candidate *other)
{
    uint64_t ticket = campaign(k);
    drive(k->c);
    are_at(other->c, 1, 0); /* granted, and not taken */
    if (k->c->pull) {
        must(snib_elect_resign_start(k->e, k, NULL, &e));
    } else {
        must(snib_elect_resign(k->e, &e));
    }
    is_cancelled(k, ticket);
    are_at(other->c, 0, 0);
    assert_int_equal(k->changes, 0);
    if (k->c->pull) {
        must(done_of(k).error.code);
    }
    leads(k, campaign(k));
}

static void what_a_resigned_campaign_got_is_given_back(void **state)
{
    (void)state;
    in_both(resign_too_late);
}

/* -- freeing ---------------------------------------------------------------------------- */

static void free_waiting(struct candidate *k, struct candidate *other)
{
    must(snib_elect_try(other->e, &other->term, &e));
    uint64_t ticket = campaign(k);
    drive(k->c);
    are_at(other->c, 1, 1);
    snib_elect_free(k->e);
    k->e = NULL;
    is_cancelled(k, ticket);
    are_at(other->c, 1, 0);
}

static void free_granted(struct candidate *k, struct candidate *other)
{
    uint64_t ticket = campaign(k);
    drive(k->c);
    are_at(other->c, 1, 0);
    snib_elect_free(k->e);
    k->e = NULL;
    is_cancelled(k, ticket);
    are_at(other->c, 0, 0);
}

static void free_resigned(struct candidate *k, struct candidate *other)
{
    leads(k, campaign(k));
    must(snib_elect_resign_start(k->e, k, NULL, &e));
    snib_elect_free(k->e);
    k->e = NULL;
    must(done_of(k).error.code);
    are_at(other->c, 0, 0);
}

static void a_candidate_may_be_freed_before_its_events(void **state)
{
    (void)state;
    in_both(free_waiting);
    in_both(free_granted);
    in_both(free_resigned);
}

static void end_all(struct candidate *k, struct candidate *other)
{
    must(snib_elect_try(other->e, &other->term, &e));
    uint64_t ticket = campaign(k);
    drive(k->c);
    are_at(other->c, 1, 1);
    snib_client_stop(k->c);
    struct snib_event ev;
    assert_true(snib_client_next(k->c, &ev, sizeof ev));
    assert_int_equal(ev.grant.ticket, ticket);
    assert_true(ev.error.code == SNIB_ERR_CLOSED ||
                ev.error.code == SNIB_ERR_UNKNOWN);
    assert_int_equal(k->term, -1);
    assert_int_equal(snib_elect_try_start(k->e, &k->term, k, NULL, &e),
                     SNIB_ERR_CLOSED);
    assert_int_equal(snib_elect_try_start(k->e, &k->term, k, NULL, &e),
                     SNIB_ERR_CLOSED); /* it is not under way */
}

static void a_campaign_ends_with_its_client(void **state)
{
    (void)state;
    in_both(end_all);
}

/* -- threads -------------------------------------------------------------------------------- */

static void *resigns(void *arg)
{
    struct candidate *k = arg;
    struct snib_error mine;
    for (int i = 0; i < 200; i++) {
        (void)snib_elect_resign(k->e, &mine);
    }
    return NULL;
}

/* A thread that resigns is kept from the processor where it has ended a campaign
 * and is about to look for a term. It goes on while another campaign is finding
 * that its candidate leads already. */
static struct {
    struct candidate *k;
    pthread_t resigning;
    _Atomic bool begun, stopped, wanted, go;
} late;

int __real_pthread_setcancelstate(int state, int *ret);
int __wrap_pthread_setcancelstate(int state, int *ret);
int __wrap_pthread_setcancelstate(int state, int *ret)
{
    if (!ret && late.begun && !late.stopped && /* a step's end */
        pthread_equal(pthread_self(), late.resigning)) {
        late.stopped = true;
        while (!late.go) {
            nap(1);
        }
    }
    return __real_pthread_setcancelstate(state, ret);
}

bool __real_snib_grant_held(struct snib_lock *, struct snib_grant);
bool __wrap_snib_grant_held(struct snib_lock *, struct snib_grant);
bool __wrap_snib_grant_held(struct snib_lock *lock, struct snib_grant grant)
{
    bool held = __real_snib_grant_held(lock, grant);
    if (late.wanted && !late.go && held) {
        late.go = true;
        assert_int_equal(pthread_join(late.resigning, NULL), 0);
        assert_false(__real_snib_grant_held(lock, grant));
    }
    return held;
}

static void *resigns_late(void *arg)
{
    struct snib_error mine;
    late.resigning = pthread_self();
    late.begun = true;
    assert_int_equal(snib_elect_resign(late.k->e, &mine), SNIB_ERR_OK);
    return arg;
}

static void who_is_resigned_while_it_campaigns_begins_a_new_term(void **state)
{
    (void)state;
    struct candidate k;
    pthread_t t;
    new_space(NULL);
    stand_up(&k, "", false);
    leads(&k, campaign(&k));
    (void)campaign(&k); /* it leads already */
    late.k = &k;
    assert_int_equal(pthread_create(&t, NULL, resigns_late, &k), 0);
    while (!late.stopped) {
        nap(1);
    }
    assert_int_equal(done_of(&k).error.code, SNIB_ERR_CANCELLED);
    leads(&k, campaign(&k));
    int64_t first = k.term;
    late.wanted = true;
    leads(&k, campaign(&k));
    assert_true(late.go);
    assert_true(k.term > first);
    sit_down(&k);
}

/* One thread campaigns and takes; another resigns whenever it can. */
static void a_campaign_may_be_resigned_at_any_moment(void **state)
{
    (void)state;
    struct candidate k;
    pthread_t t;
    new_space(NULL);
    stand_up(&k, "", false);
    struct snib_elect_options o = SNIB_INIT(snib_elect_options);
    snib_elect_free(k.e);
    must(snib_elect_new(k.c, "x", &o, &k.e, &e)); /* counts no changes */
    assert_int_equal(pthread_create(&t, NULL, resigns, &k), 0);
    for (int i = 0; i < 200; i++) {
        struct snib_error mine;
        k.term = -1;
        if (snib_elect_campaign_start(k.e, &k.term, &k, NULL, &mine)) {
            fail_msg("%s", mine.text);
        }
        struct snib_event ev = done_of(&k);
        assert_true(!ev.error.code || ev.error.code == SNIB_ERR_CANCELLED);
        assert_int_equal(!ev.error.code, k.term > 0);
    }
    assert_int_equal(pthread_join(t, NULL), 0);
    sit_down(&k);
}

int main(void)
{
    const struct CMUnitTest elect_started[] = {
        cmocka_unit_test(who_campaigns_leads_until_it_resigns),
        cmocka_unit_test(who_waits_is_next),
        cmocka_unit_test(a_lost_term_is_told_and_a_new_one_begins),
        cmocka_unit_test(who_resigns_when_told_is_a_follower),
        cmocka_unit_test(a_campaign_is_cancelled_by_its_ticket),
        cmocka_unit_test(a_campaign_is_resigned),
        cmocka_unit_test(what_a_resigned_campaign_got_is_given_back),
        cmocka_unit_test(a_candidate_may_be_freed_before_its_events),
        cmocka_unit_test(a_campaign_ends_with_its_client),
        cmocka_unit_test(who_is_resigned_while_it_campaigns_begins_a_new_term),
        cmocka_unit_test(a_campaign_may_be_resigned_at_any_moment),
    };
    return RUN(elect_started);
}
