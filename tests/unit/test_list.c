/* base/list.h, base/time.h */
#include "unit.h"

#include "base/list.h"
#include "base/time.h"

struct item {
    int number;
    struct snib__link link;
};

static struct item *item_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct item, link);
}

static void fill(struct snib__list *l, struct item *items, int n)
{
    snib__list_init(l);
    for (int i = 0; i < n; i++) {
        items[i].number = i;
        snib__link_init(&items[i].link);
        snib__list_push(l, &items[i].link);
    }
}

static void first_in_is_first_out(void **state)
{
    (void)state;
    struct snib__list l;
    struct item items[3];
    fill(&l, items, 3);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(snib__list_first(&l), &items[i].link);
        assert_int_equal(item_of(snib__list_pop(&l))->number, i);
        assert_false(snib__linked(&items[i].link));
    }
    assert_true(snib__list_empty(&l));
    assert_null(snib__list_first(&l));
    assert_null(snib__list_pop(&l));
}

static void pushing_in_front_comes_first(void **state)
{
    (void)state;
    struct snib__list l;
    struct item items[3];
    fill(&l, items, 2);
    snib__link_init(&items[2].link);
    snib__list_push_front(&l, &items[2].link);
    assert_ptr_equal(snib__list_pop(&l), &items[2].link);
    assert_ptr_equal(snib__list_pop(&l), &items[0].link);
}

static void unlinking_twice_is_harmless(void **state)
{
    (void)state;
    struct snib__list l;
    struct item items[3];
    fill(&l, items, 3);
    assert_true(snib__linked(&items[1].link));
    snib__unlink(&items[1].link);
    snib__unlink(&items[1].link);
    assert_false(snib__linked(&items[1].link));
    assert_ptr_equal(snib__list_pop(&l), &items[0].link);
    assert_ptr_equal(snib__list_pop(&l), &items[2].link);
    assert_true(snib__list_empty(&l));
}

static void appending_moves_all_in_order(void **state)
{
    (void)state;
    struct snib__list a, b;
    struct item x[2], y[2];
    fill(&a, x, 2);
    fill(&b, y, 2);
    snib__list_append(&a, &b);
    assert_true(snib__list_empty(&b));
    snib__list_append(&a, &b);
    struct item *want[] = {&x[0], &x[1], &y[0], &y[1]};
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(item_of(snib__list_pop(&a)), want[i]);
    }
    fill(&b, y, 2);
    snib__list_append(&a, &b);
    assert_ptr_equal(snib__list_first(&a), &y[0].link);
}

static void each_sees_all_and_safe_may_unlink(void **state)
{
    (void)state;
    struct snib__list l;
    struct item items[5];
    int sum = 0;
    fill(&l, items, 5);
    SNIB__LIST_EACH (k, &l) {
        sum += item_of(k)->number;
    }
    assert_int_equal(sum, 10);
    SNIB__LIST_EACH_SAFE (k, next, &l) {
        if (item_of(k)->number % 2) {
            snib__unlink(k);
        }
    }
    sum = 0;
    SNIB__LIST_EACH (k, &l) {
        sum += item_of(k)->number;
    }
    assert_int_equal(sum, 6);
}

static void time_saturates(void **state)
{
    (void)state;
    snib_instant t = {1000};
    assert_true(snib__after(t, SNIB__ENDLESS).ns == INT64_MAX);
    assert_true(snib__after(SNIB__NEVER, snib__ms(1)).ns == INT64_MAX);
    assert_true(snib__after((snib_instant){INT64_MAX - 1}, snib__ms(1)).ns ==
                INT64_MAX);
    assert_true(snib__before(SNIB__NEVER, snib__ms(1)).ns == INT64_MAX);
    assert_true(snib__between(t, SNIB__NEVER).ns == INT64_MAX);
    assert_true(snib__ms(-1).ns == INT64_MAX);
    assert_true(snib__ms(INT64_MAX).ns == INT64_MAX);
    assert_true(snib__to_ms(SNIB__ENDLESS) == INT64_MAX);
    assert_true(snib__to_ms((snib_duration){1999999}) == 1);
}

static void times_compare(void **state)
{
    (void)state;
    snib_instant a = {1}, b = {2};
    assert_true(snib__reached(b, a) && snib__reached(a, a));
    assert_false(snib__reached(a, b));
    assert_true(snib__sooner(a, b).ns == 1 && snib__sooner(b, a).ns == 1);
    assert_true(snib__later(a, b).ns == 2 && snib__later(b, a).ns == 2);
    assert_true(snib__between(b, a).ns == -1);
    assert_true(snib__before(b, (snib_duration){1}).ns == 1);
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test(first_in_is_first_out),
        cmocka_unit_test(pushing_in_front_comes_first),
        cmocka_unit_test(unlinking_twice_is_harmless),
        cmocka_unit_test(appending_moves_all_in_order),
        cmocka_unit_test(each_sees_all_and_safe_may_unlink),
        cmocka_unit_test(time_saturates),
        cmocka_unit_test(times_compare),
    };
    return RUN(list);
}
