/* tests/unit/test_run_handles.c — several handles of one name, in one lane: they
 * share the grant, and each gives back its own hold. labels: thread */
#include "base/mem.h"
#include "run_memory.h"

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
    snib_grant_status(s->lock[i], s->grant[i], &status);
    return status.state == SNIB_HELD ? status.holds : 0;
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
                      snib_reason reason)
{
    (void)grant, (void)reason;
    if (state == SNIB_LOST) {
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

int main(void)
{
    const struct CMUnitTest handles[] = {
        cmocka_unit_test(each_gives_back_its_own),
        cmocka_unit_test(a_handle_that_is_freed_gives_back_its_own),
        cmocka_unit_test(the_loss_is_told_though_the_first_one_has_gone),
        cmocka_unit_test(who_is_left_is_told_of_the_loss_and_nobody_else),
    };
    return RUN(handles);
}
