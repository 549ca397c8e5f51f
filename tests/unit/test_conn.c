/* tests/unit/test_conn.c — core/conn.h: a store's connections are objects that
 * stay where they are, up to a limit, and are the same ones in a part of a store
 * and in the whole. */
#include "unit.h"

#include "base/mem.h"
#include "core/store.h"
#include "driver/socks.h"

static struct snib__out whole, part;

static int set_up(void **state)
{
    (void)state;
    snib__conns_init(&whole, 100);
    snib__conns_init(&part, 0);
    part.outer = &whole;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    snib__conns_free(&part);
    snib__conns_free(&whole);
    assert_int_equal(snib__mem_alive(), 0);
    return 0;
}

static void there_are_as_many_as_a_cluster_needs_and_then_no_more(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SNIB__CONNS_MAX; i++) {
        assert_int_equal(snib__conn_add(&whole, SNIB__PLAIN, "h:1"),
                         SNIB_ERR_OK);
        assert_int_equal(whole.conns, i + 1);
        assert_int_equal(whole.conn[i]->index, i);
    }
    assert_true(SNIB__CONNS_MAX >= 3 * 64);
    assert_int_equal(snib__conn_add(&whole, SNIB__PLAIN, "h:1"),
                     SNIB_ERR_LIMIT);
    assert_int_equal(snib__conn_add(&part, SNIB__PLAIN, "h:1"), SNIB_ERR_LIMIT);
    assert_int_equal(whole.conns, SNIB__CONNS_MAX);
    assert_int_equal(part.conns, 0);
}

static void one_stays_where_it_is_when_others_come(void **state)
{
    (void)state;
    assert_int_equal(snib__conn_add(&whole, SNIB__PLAIN, "h:1"), SNIB_ERR_OK);
    struct snib__conn *first = whole.conn[0];
    assert_string_equal(first->address, "h:1");
    assert_int_equal(first->transport, SNIB__PLAIN);
    assert_false(first->open || first->shut || first->login || first->pushes);
    assert_int_equal(first->out.limit, 100);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(snib__conn_add(&whole, SNIB__PLAIN, "i:2"),
                         SNIB_ERR_OK);
    }
    assert_ptr_equal(whole.conn[0], first);
}

static void a_part_shares_its_own_with_the_whole(void **state)
{
    (void)state;
    assert_int_equal(snib__conn_add(&whole, SNIB__PLAIN, "h:1"), SNIB_ERR_OK);
    assert_int_equal(snib__conn_add(&part, SNIB__PLAIN, "i:2"), SNIB_ERR_OK);
    assert_int_equal(whole.conns, 2);
    assert_int_equal(part.conns, 1);
    assert_ptr_equal(whole.conn[1], part.conn[0]);
    assert_int_equal(part.conn[0]->index, 1); /* in the whole */
    assert_int_equal(part.conn[0]->out.limit, 100);
    snib__conn_touch(&part, part.conn[0]);
    assert_true(snib__list_empty(&part.touched));
    assert_ptr_equal(snib__list_first(&whole.touched), &part.conn[0]->touched);
    snib__conn_touch(&whole, whole.conn[0]);
    snib__conn_touch(&part, part.conn[0]); /* once */
    snib__unlink(&part.conn[0]->touched);
    assert_ptr_equal(snib__list_pop(&whole.touched), &whole.conn[0]->touched);
    assert_true(snib__list_empty(&whole.touched));
}

static void without_memory_there_is_none_more(void **state)
{
    (void)state;
    for (int at = 1; at <= 3; at++) { /* two lists, one connection */
        snib__mem_fail_at(at, false);
        assert_int_equal(snib__conn_add(&part, SNIB__PLAIN, "h:1"),
                         SNIB_ERR_NOMEM);
        snib__mem_fail_at(0, false);
        assert_int_equal(part.conns, 0);
        assert_int_equal(whole.conns, 0);
        tear_down(state);
        set_up(state);
    }
    assert_int_equal(snib__conn_add(&part, SNIB__PLAIN, "h:1"), SNIB_ERR_OK);
}

/* -- sets of sockets --------------------------------------------------------- */

static void a_set_has_what_was_put_in_and_in_order(void **state)
{
    (void)state;
    static const uint32_t in[] = {0, 1, 63, 64, 127, 200, 255};
    struct snib__socks s = {{0}}, t = {{0}};
    assert_true(snib__socks_empty(&s));
    for (size_t k = COUNT_OF(in); k-- > 0;) {
        snib__socks_put(&s, in[k], true);
    }
    size_t met = 0;
    SNIB__SOCKS_EACH(i, &s)
    {
        assert_true(met < COUNT_OF(in));
        assert_int_equal(i, in[met++]);
        assert_true(snib__socks_has(&s, i));
    }
    assert_int_equal(met, COUNT_OF(in));
    snib__socks_put(&s, 64, false);
    assert_false(snib__socks_has(&s, 64));
    assert_int_equal(snib__socks_next(&s, 64), 127);
    assert_int_equal(snib__socks_next(&s, 201), 255);
    snib__socks_put(&t, 130, true);
    t = snib__socks_or(&s, &t);
    assert_int_equal(snib__socks_next(&t, 128), 130);
    assert_int_equal(snib__socks_next(&t, 131), 200);
    snib__socks_clear(&t);
    assert_true(snib__socks_empty(&t));
    assert_int_equal(snib__socks_next(&t, 0), SNIB__SOCKETS_MAX);
}

/* A step that takes members out, or adds some, goes on right. */
static void a_set_may_change_under_a_walk(void **state)
{
    (void)state;
    struct snib__socks s = {{0}};
    uint32_t met = 0;
    for (uint32_t i = 0; i < SNIB__SOCKETS_MAX; i += 5) {
        snib__socks_put(&s, i, true);
    }
    SNIB__SOCKS_EACH(i, &s)
    {
        met += i == 255 ? 1000 : 1;
        snib__socks_put(&s, i, false);
        snib__socks_put(&s, i > 4 ? i - 4 : i, i > 4); /* behind: not met */
    }
    assert_int_equal(met, 51 + 1000);
}

int main(void)
{
    const struct CMUnitTest conn[] = {
        cmocka_unit_test_setup_teardown(
            there_are_as_many_as_a_cluster_needs_and_then_no_more, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(one_stays_where_it_is_when_others_come,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_shares_its_own_with_the_whole,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_memory_there_is_none_more,
                                        set_up, tear_down),
        cmocka_unit_test(a_set_has_what_was_put_in_and_in_order),
        cmocka_unit_test(a_set_may_change_under_a_walk),
    };
    return RUN(conn);
}
