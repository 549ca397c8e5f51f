/* tests/unit/test_receive_clock.c — what a socket has received is given to the store
 * with an instant behind its arrival, also when the thread stood still before it
 * received. wraps: clock_gettime snib__net_recv snib__engine_input */
#include "unit.h"

#include "driver/driver.h"

static int64_t clock_s = 1000;
static snib_instant heard;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    (void)clock;
    *ret = (struct timespec){.tv_sec = clock_s};
    return 0;
}

/* The process was frozen; then came what is received. */
long __wrap_snib__net_recv(int fd, void *bytes, size_t size);
long __wrap_snib__net_recv(int fd, void *bytes, size_t size)
{
    (void)fd;
    (void)size;
    clock_s += 60;
    *(char *)bytes = 'x';
    return 1;
}

void __wrap_snib__engine_input(struct snib__engine *engine, snib_instant now,
                               const struct snib__input *in);
void __wrap_snib__engine_input(struct snib__engine *engine, snib_instant now,
                               const struct snib__input *in)
{
    (void)engine;
    assert_int_equal(in->kind, SNIB__IN_BYTES);
    heard = now;
}

static void what_came_is_not_dated_before_its_arrival(void **state)
{
    (void)state;
    static struct snib_client c;
    static struct snib__conn conn;
    uint8_t bytes[16];
    struct snib__socket sock = {
        .conn = &conn, .state = SNIB__SOCKET_UP, .in = bytes};
    struct snib__socket *all[] = {&sock};
    struct snib__step s = {.c = &c};
    c.sock.v = all;
    c.sock.count = 1;
    snib__step_refresh(&s);
    assert_int_equal(s.now.ns, INT64_C(1000) * 1000000000);
    snib__socket_ready(&s, 0, false, true, NULL);
    assert_int_equal(heard.ns, INT64_C(1060) * 1000000000);
    assert_int_equal(s.now.ns, heard.ns);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(what_came_is_not_dated_before_its_arrival),
    };
    return RUN(cases);
}
