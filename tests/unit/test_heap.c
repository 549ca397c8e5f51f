/* base/heap.h */
#include "unit.h"

#include "base/heap.h"

static snib_instant at(int64_t ns)
{
    return (snib_instant){ns};
}

static void an_empty_heap_is_never_due(void **state)
{
    (void)state;
    struct snib__heap h = {0};
    assert_null(snib__heap_min(&h));
    assert_true(snib__heap_due(&h).ns == INT64_MAX);
    snib__heap_free(&h);
}

static void the_earliest_comes_first(void **state)
{
    (void)state;
    struct snib__heap h = {0};
    struct snib__timer t[5] = {0};
    static const int64_t when[5] = {30, 10, 50, 20, 40};
    assert_true(snib__heap_reserve(&h, 5));
    for (int i = 0; i < 5; i++) {
        snib__heap_set(&h, &t[i], at(when[i]));
    }
    for (int64_t want = 10; want <= 50; want += 10) {
        struct snib__timer *min = snib__heap_min(&h);
        assert_true(min->at.ns == want && snib__heap_due(&h).ns == want);
        snib__heap_remove(&h, min);
        assert_int_equal(min->index, 0);
    }
    assert_null(snib__heap_min(&h));
    snib__heap_free(&h);
}

static void setting_again_moves(void **state)
{
    (void)state;
    struct snib__heap h = {0};
    struct snib__timer a = {0}, b = {0};
    assert_true(snib__heap_reserve(&h, 2));
    snib__heap_set(&h, &a, at(1));
    snib__heap_set(&h, &b, at(2));
    snib__heap_set(&h, &a, at(3));
    assert_ptr_equal(snib__heap_min(&h), &b);
    snib__heap_set(&h, &a, at(1));
    assert_ptr_equal(snib__heap_min(&h), &a);
    assert_int_equal(h.size, 2);
    snib__heap_free(&h);
}

static void never_takes_a_timer_out(void **state)
{
    (void)state;
    struct snib__heap h = {0};
    struct snib__timer a = {0};
    assert_true(snib__heap_reserve(&h, 1));
    snib__heap_set(&h, &a, SNIB__NEVER);
    assert_int_equal(a.index, 0);
    snib__heap_set(&h, &a, at(1));
    snib__heap_set(&h, &a, SNIB__NEVER);
    assert_int_equal(a.index, 0);
    assert_null(snib__heap_min(&h));
    snib__heap_remove(&h, &a); /* harmless                                   */
    snib__heap_free(&h);
}

static void reserving_may_fail_and_leaves_all_as_it_was(void **state)
{
    (void)state;
    struct snib__heap h = {0};
    struct snib__timer a = {0};
    assert_true(snib__heap_reserve(&h, 1));
    snib__heap_set(&h, &a, at(1));
    snib__mem_fail_at(1, false);
    assert_false(snib__heap_reserve(&h, 1000));
    assert_ptr_equal(snib__heap_min(&h), &a);
    snib__heap_free(&h);
}

static void each_total_that_was_reserved_fits(void **state)
{
    (void)state;
    static struct snib__timer t[200];
    for (uint32_t total = 0; total < COUNT_OF(t); total++) {
        struct snib__heap h = {0};
        memset(t, 0, sizeof t);
        assert_true(snib__heap_reserve(&h, total));
        for (uint32_t i = 0; i < total; i++) {
            snib__heap_set(&h, &t[i], at((int64_t)(total - i)));
        }
        assert_int_equal(h.size, total);
        snib__heap_free(&h);
    }
}

static void assert_sound(const struct snib__heap *h)
{
    for (uint32_t i = 1; i <= h->size; i++) {
        assert_int_equal(h->v[i]->index, i);
        assert_true(h->v[i]->at.ns >= h->v[1]->at.ns);
    }
}

/* Against a linear search, with random moves. */
static void random_moves_keep_the_earliest_on_top(void **state)
{
    (void)state;
    enum { TIMERS = 150 };
    static struct snib__timer t[TIMERS];
    struct snib__heap h = {0};
    uint64_t seed = 5;
    assert_true(snib__heap_reserve(&h, TIMERS));
    for (int i = 0; i < 50000; i++) {
        struct snib__timer *one = &t[dice(&seed) % TIMERS];
        if (dice(&seed) % 3 == 0) {
            snib__heap_remove(&h, one);
        } else {
            snib__heap_set(&h, one, at(dice(&seed) % 1000));
        }
        int64_t earliest = INT64_MAX;
        for (int k = 0; k < TIMERS; k++) {
            if (t[k].index && t[k].at.ns < earliest) {
                earliest = t[k].at.ns;
            }
        }
        assert_true(snib__heap_due(&h).ns == earliest);
        if (i % 50 == 0) {
            assert_sound(&h);
        }
    }
    snib__heap_free(&h);
}

int main(void)
{
    const struct CMUnitTest heap[] = {
        cmocka_unit_test(an_empty_heap_is_never_due),
        cmocka_unit_test(the_earliest_comes_first),
        cmocka_unit_test(setting_again_moves),
        cmocka_unit_test(never_takes_a_timer_out),
        cmocka_unit_test(reserving_may_fail_and_leaves_all_as_it_was),
        cmocka_unit_test(each_total_that_was_reserved_fits),
        cmocka_unit_test(random_moves_keep_the_earliest_on_top),
    };
    return RUN(heap);
}
