/* tests/unit/test_run_handles.c — several handles of one name, in one owner: they
 * share the grant, and each gives back its own hold. labels: thread */
#include "base/mem.h"
#include "run_memory.h"

#include "api/api.h"
#include "snib/event.h"

enum { HANDLES = 3 };

struct shared {
    struct snib_client *c, *other;
    struct snib_lock *lock[HANDLES], *others;
    struct snib_grant grant[HANDLES];
    int64_t alive;
};

static struct shared begin(void)
{
    struct shared s = {.alive = snib__mem_alive()};
    s.c = open_client("", false);
    s.other = open_client("", false);
    s.others = lock_of(s.other, "x");
    for (int i = 0; i < HANDLES; i++) {
        s.lock[i] = lock_of(s.c, "x");
        assert_int_equal(acquire(s.lock[i], 0, &s.grant[i]), SNIB_ERR_OK);
        assert_int_equal(s.grant[i].token, s.grant[0].token);
    }
    return s;
}

static uint32_t holds(const struct shared *s, int i)
{
    struct snib_status status;
    snib_grant_status(s->lock[i], s->grant[i], &status, sizeof status);
    return status.state == SNIB_STATE_HELD ? status.holds : 0;
}

/* The handles that are not freed yet, and all else. */
static void end(struct shared *s)
{
    struct snib_grant g;
    assert_int_equal(acquire(s->others, 5000, &g), SNIB_ERR_OK);
    assert_int_equal(snib_release(s->others, g, &e), SNIB_ERR_OK);
    for (int i = 0; i < HANDLES; i++) {
        snib_lock_free(s->lock[i]);
    }
    snib_lock_free(s->others);
    snib_client_free(s->c);
    snib_client_free(s->other);
    assert_int_equal(snib__mem_alive(), s->alive);
}

/* In each order. */
static const int orders[][HANDLES] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                      {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
enum { ORDERS = sizeof orders / sizeof orders[0] };

/* By one handle after the other: until the last one nobody else gets it. */
static void one_after_the_other(void **state,
                                void (*give_back)(struct shared *, int))
{
    for (int k = 0; k < ORDERS; k++) {
        struct snib_grant g;
        new_space(state);
        struct shared s = begin();
        for (int i = 0; i < HANDLES; i++) {
            assert_int_equal(holds(&s, orders[k][i]), HANDLES - i);
            assert_int_equal(acquire(s.others, 0, &g), SNIB_ERR_BUSY);
            give_back(&s, orders[k][i]);
        }
        end(&s);
    }
}

static void release_it(struct shared *s, int i)
{
    assert_int_equal(snib_release(s->lock[i], s->grant[i], &e), SNIB_ERR_OK);
}

static void free_it(struct shared *s, int i)
{
    snib_lock_free(s->lock[i]);
    s->lock[i] = NULL;
}

static void each_gives_back_its_own(void **state)
{
    one_after_the_other(state, release_it);
}

static void a_handle_that_is_freed_gives_back_its_own(void **state)
{
    one_after_the_other(state, free_it);
}

/* The loss is told by the same descriptor, whoever of them went first. */
static void the_loss_is_told_though_the_first_one_has_gone(void **state)
{
    for (int k = 0; k < ORDERS; k++) {
        const int *order = orders[k];
        new_space(state);
        struct shared s = begin();
        int last = order[HANDLES - 1];
        int fd = snib_grant_fd(s.lock[last], s.grant[last]);
        assert_true(fd >= 0);
        for (int i = 0; i < HANDLES - 1; i++) {
            release_it(&s, order[i]);
        }
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 0), 0);
        assert_int_equal(snib_test_steal(s.other, "x", 1), SNIB_ERR_OK);
        assert_int_equal(snib_renew(s.lock[last], s.grant[last], 0, &e),
                         SNIB_ERR_LOST);
        assert_int_equal(poll(&p, 1, 5000), 1);
        assert_int_equal(snib_release(s.lock[last], s.grant[last], &e),
                         SNIB_ERR_LOST);
        end(&s);
    }
}

static void note_loss(void *data, struct snib_grant grant, snib_state state,
                      snib_cause reason)
{
    (void)grant, (void)reason;
    if (state == SNIB_STATE_LOST) {
        __atomic_fetch_add((int *)data, 1, __ATOMIC_SEQ_CST);
    }
}

static int told(int losses[2])
{
    return __atomic_load_n(&losses[0], __ATOMIC_SEQ_CST) +
           __atomic_load_n(&losses[1], __ATOMIC_SEQ_CST);
}

static struct snib_lock *telling(struct snib_client *c, int *losses)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    o.on_change = losses ? note_loss : NULL;
    o.data = losses;
    assert_int_equal(snib_lock_new(c, "x", &o, &l, &e), SNIB_ERR_OK);
    return l;
}

/* By the callback of a handle that is still there: the data of one that has been
 * freed is its owner's again. */
static void who_is_left_is_told_of_the_loss_and_nobody_else(void **state)
{
    for (int wants = 0; wants < 2; wants++) {
        new_space(state);
        int64_t alive = snib__mem_alive();
        int losses[2] = {0};
        struct snib_client *c = open_client("", false);
        struct snib_client *other = open_client("", false);
        struct snib_lock *first = telling(c, &losses[0]);
        struct snib_lock *then = telling(c, wants ? &losses[1] : NULL);
        struct snib_grant g, same;
        assert_int_equal(acquire(first, 0, &g), SNIB_ERR_OK);
        assert_int_equal(acquire(then, 0, &same), SNIB_ERR_OK);
        assert_int_equal(snib_release(first, g, &e), SNIB_ERR_OK);
        snib_lock_free(first);
        assert_int_equal(snib_test_steal(other, "x", 1), SNIB_ERR_OK);
        assert_int_equal(snib_renew(then, same, 0, &e), SNIB_ERR_LOST);
        for (int i = 0; i < 5000 && wants && !told(losses); i++) {
            poll(NULL, 0, 1);
        }
        assert_int_equal(snib_release(then, same, &e), SNIB_ERR_LOST);
        snib_lock_free(then);
        snib_client_free(c);
        snib_client_free(other);
        assert_int_equal(losses[0], 0);
        assert_int_equal(losses[1], wants);
        assert_int_equal(snib__mem_alive(), alive);
    }
}

/* -- each that holds is told ----------------------------------------------------- */

enum { TWO = 2, NOBODY = -1 };

/* What one handle's callback was told, and whom it frees then. */
struct ear {
    int told;
    snib_state state[8];
    struct snib_grant grant;
    struct snib_lock **frees;
};

static void hear(void *data, struct snib_grant grant, snib_state state,
                 snib_cause reason)
{
    struct ear *ear = data;
    (void)reason;
    ear->grant = grant;
    ear->state[ear->told % 8] = state;
    __atomic_fetch_add(&ear->told, 1, __ATOMIC_SEQ_CST);
    if (ear->frees) {
        snib_lock_free(*ear->frees);
        *ear->frees = NULL;
    }
}

struct pair {
    struct snib_client *c, *other;
    struct snib_lock *lock[TWO];
    struct ear ear[TWO];
    struct snib_grant grant;
    uint64_t owner;
    int64_t alive;
};

/* wants: bit i, the handle i has a callback. */
static void open_pair(void **state, struct pair *p, bool pull, int wants)
{
    const char *query = pull ? "?clock=virtual" : "";
    new_space(state);
    *p = (struct pair){.alive = snib__mem_alive(), .owner = snib_owner_new()};
    p->c = open_client(query, pull);
    p->other = open_client(query, pull);
    for (int i = 0; i < TWO; i++) {
        struct snib_lock_options o = SNIB_INIT(snib_lock_options);
        o.lease_ms = 6000;
        o.on_change = wants & 1 << i ? hear : NULL;
        o.data = &p->ear[i];
        assert_int_equal(snib_lock_new(p->c, "x", &o, &p->lock[i], &e),
                         SNIB_ERR_OK);
    }
}

static void close_pair(struct pair *p)
{
    for (int i = 0; i < TWO; i++) {
        snib_lock_free(p->lock[i]);
    }
    snib_client_free(p->c);
    snib_client_free(p->other);
    assert_int_equal(snib__mem_alive(), p->alive);
}

static void enter(struct pair *p, int i)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.owner = p->owner;
    assert_int_equal(snib_try_for(p->lock[i], 1000, &o, &p->grant, &e),
                     SNIB_ERR_OK);
}

/* The next event; of a client without a thread only what is due now. */
static bool fetch(struct snib_client *c, bool pull, struct snib_event *ev)
{
    for (int i = 0; pull && i < 20; i++) {
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    }
    struct pollfd p = {.fd = snib_client_fd(c), .events = POLLIN};
    return (pull || poll(&p, 1, 5000) == 1) &&
           snib_client_next(c, ev, sizeof *ev);
}

static void start(struct pair *p, int i, bool pull)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_event ev;
    uint64_t ticket;
    o.owner = p->owner;
    assert_int_equal(
        snib_try_for_start(p->lock[i], 1000, &o, &p->ear[i], &ticket, &e),
        SNIB_ERR_OK);
    assert_true(fetch(p->c, pull, &ev));
    assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
    assert_ptr_equal(ev.user, &p->ear[i]);
    p->grant = ev.grant;
}

/* Its release, before or after the loss; the handle goes, too. */
static void leave(struct pair *p, int i, snib_err answer)
{
    assert_int_equal(snib_release(p->lock[i], p->grant, &e), answer);
    snib_lock_free(p->lock[i]);
    p->lock[i] = NULL;
}

/* Told at the latest when the call has returned; callbacks a little later. */
static void lose(struct pair *p)
{
    struct snib_lock *holds = p->lock[0] ? p->lock[0] : p->lock[1];
    assert_int_equal(snib_test_steal(p->other, "x", 1), SNIB_ERR_OK);
    assert_int_equal(snib_renew(holds, p->grant, 0, &e), SNIB_ERR_LOST);
}

/* Whoever has a callback, whoever has gone before. */
static void of_two_each_that_holds_hears_of_the_loss(void **state)
{
    for (int wants = 0; wants < 4; wants++) {
        for (int gone = NOBODY; gone < TWO; gone++) {
            struct pair p;
            open_pair(state, &p, false, wants);
            enter(&p, 0);
            enter(&p, 1);
            struct pollfd fd = {.fd = snib_grant_fd(p.lock[0], p.grant),
                                .events = POLLIN};
            if (gone != NOBODY) {
                leave(&p, gone, SNIB_ERR_OK);
            }
            assert_int_equal(poll(&fd, 1, 0), 0);
            lose(&p);
            assert_int_equal(poll(&fd, 1, 5000), 1);
            for (int i = 0; i < TWO; i++) {
                int due = gone != i && wants & 1 << i ? 1 : 0;
                for (int ms = 0;
                     ms < 5000 &&
                     __atomic_load_n(&p.ear[i].told, __ATOMIC_SEQ_CST) < due;
                     ms++) {
                    poll(NULL, 0, 1);
                }
            }
            for (int i = 0; i < TWO; i++) {
                if (gone != i) {
                    leave(&p, i, SNIB_ERR_LOST);
                }
                bool due = gone != i && wants & 1 << i;
                assert_int_equal(p.ear[i].told, due);
                if (due) {
                    assert_int_equal(p.ear[i].state[0], SNIB_STATE_LOST);
                    assert_int_equal(p.ear[i].grant.ticket, p.grant.ticket);
                }
            }
            close_pair(&p);
        }
    }
}

/* By an event with the `user` of its own start. */
static void of_two_each_that_was_started_has_its_event(void **state)
{
    for (int started = 1; started < 4; started++) {
        for (int gone = NOBODY; gone < TWO; gone++) {
            struct pair p;
            struct snib_event ev;
            open_pair(state, &p, false, 0);
            for (int i = 0; i < TWO; i++) {
                if (started & 1 << i) {
                    start(&p, i, false);
                } else {
                    enter(&p, i);
                }
            }
            if (gone != NOBODY) {
                leave(&p, gone, SNIB_ERR_OK);
            }
            lose(&p);
            for (int n = 0; n < TWO; n++) {
                if (gone != n && started & 1 << n) {
                    assert_true(fetch(p.c, false, &ev));
                    assert_int_equal(ev.kind, SNIB_EVENT_STATE);
                    assert_int_equal(ev.state, SNIB_STATE_LOST);
                    assert_int_equal(ev.grant.ticket, p.grant.ticket);
                    struct ear *ear = ev.user;
                    assert_true(ear == &p.ear[0] || ear == &p.ear[1]);
                    ear->told++;
                }
            }
            for (int i = 0; i < TWO; i++) {
                assert_int_equal(p.ear[i].told,
                                 gone != i && started & 1 << i ? 1 : 0);
            }
            assert_false(snib_client_next(p.c, &ev, sizeof ev));
            close_pair(&p);
        }
    }
}

/* The grant is at risk, and that is told, until the store has confirmed it. */
static void stand_still(struct snib_client *c)
{
    struct snib__step s;
    snib__step_begin(&s, c);
    snib__engine_jumped(c->engine, s.now);
    snib__step_act(&s);
    snib__notices_tell(&s);
    snib__step_end(&s);
}

/* Who re-enters a grant at risk has not been told so, but of what comes. */
static void who_enters_at_risk_is_told_of_what_comes_then(void **state)
{
    struct pair p;
    open_pair(state, &p, true, 3);
    start(&p, 0, true);
    stand_still(p.c);
    assert_int_equal(p.ear[0].told, 1);
    assert_int_equal(p.ear[0].state[0], SNIB_STATE_AT_RISK);
    start(&p, 1, true);
    assert_true(snib_grant_held(p.lock[1], p.grant));
    assert_int_equal(p.ear[0].told, 2);
    assert_int_equal(p.ear[0].state[1], SNIB_STATE_HELD);
    assert_int_equal(p.ear[1].told, 1);
    assert_int_equal(p.ear[1].state[0], SNIB_STATE_HELD);
    close_pair(&p);
}

/* In a callback: none runs of a handle that has been freed, and the other one's
 * is not forgotten. */
static void a_callback_may_free_either_handle(void **state)
{
    for (int other = 0; other < 2; other++) {
        struct pair p;
        open_pair(state, &p, true, 3);
        for (int i = 0; i < TWO; i++) {
            start(&p, i, true);
            p.ear[i].frees = &p.lock[other ? 1 - i : i];
        }
        assert_int_equal(snib_test_steal(p.other, "x", 1), SNIB_ERR_OK);
        struct snib_event ev;
        assert_int_equal(snib_test_advance(p.c, 2000), SNIB_ERR_OK);
        while (fetch(p.c, true, &ev)) {
        }
        assert_int_equal(p.ear[0].told + p.ear[1].told, other ? 1 : TWO);
        close_pair(&p);
    }
}

int main(void)
{
    const struct CMUnitTest handles[] = {
        cmocka_unit_test(each_gives_back_its_own),
        cmocka_unit_test(a_handle_that_is_freed_gives_back_its_own),
        cmocka_unit_test(the_loss_is_told_though_the_first_one_has_gone),
        cmocka_unit_test(who_is_left_is_told_of_the_loss_and_nobody_else),
        cmocka_unit_test(of_two_each_that_holds_hears_of_the_loss),
        cmocka_unit_test(of_two_each_that_was_started_has_its_event),
        cmocka_unit_test(who_enters_at_risk_is_told_of_what_comes_then),
        cmocka_unit_test(a_callback_may_free_either_handle),
    };
    return RUN(handles);
}
