/* tests/unit/test_wall_clock.c — a store that has no clock of its own is told when
 * that of this host was set. wraps: clock_gettime */
#include "unit.h"

#include "core/store.h"
#include "driver/driver.h"

static int64_t wall_s;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    *ret = (struct timespec){.tv_sec = clock == CLOCK_REALTIME ? wall_s : 1000};
    return 0;
}

static bool virtual_clock(void *instance, snib_instant *ret)
{
    (void)instance;
    *ret = (snib_instant){1};
    return true;
}

static void the_store_hears_of_a_clock_that_was_set(void **state)
{
    static struct snib__out out;
    static struct snib_client c;
    const int64_t s = 1000000000;
    (void)state;
    c.out = &out;
    wall_s = 5000;
    (void)snib__loop_wall_clock(&c);
    assert_int_equal(out.wall_offset_ns, 4000 * s);
    wall_s = 5000 + 3600;
    assert_int_equal(snib__loop_wall_clock(&c), 3600 * s);
    assert_int_equal(out.wall_offset_ns, (4000 + 3600) * s);
    assert_int_equal(snib__loop_wall_clock(&c), 0);
    c.virtual_clock = virtual_clock; /* it has one */
    wall_s = 0;
    (void)snib__loop_wall_clock(&c);
    assert_int_equal(out.wall_offset_ns, (4000 + 3600) * s);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(the_store_hears_of_a_clock_that_was_set),
    };
    return RUN(cases);
}
