/* driver/login.c: what a program that is asked for a login is told of the server's
 * address. Its own file is part of this program: a host has no server on each kind
 * of address. */
#include "driver/login.c"

#include "unit.h"

static void is_told(const char *address, const char *host, int port)
{
    char got[HOST_MAX];
    uint16_t number = 4711;
    memset(got, 'x', sizeof got);
    login_split(address, got, &number);
    assert_non_null(memchr(got, 0, sizeof got));
    assert_string_equal(got, host);
    assert_int_equal(number, port);
}

static void an_address_is_a_host_and_a_port(void **state)
{
    (void)state;
    is_told("h:1", "h", 1);
    is_told("redis.example:6379", "redis.example", 6379);
    is_told("127.0.0.1:65535", "127.0.0.1", 65535);
}

static void brackets_are_none_of_the_host(void **state)
{
    (void)state;
    is_told("[::1]:7", "::1", 7);
    is_told("[::]:6379", "::", 6379);
    is_told("[fe80::1%eth0]:6379", "fe80::1%eth0", 6379);
}

/* Whatever stands in its path. */
static void a_socket_has_neither(void **state)
{
    (void)state;
    is_told("/run/redis.sock", "", 0);
    is_told("/run/a:1", "", 0);
    is_told("h", "", 0);
    is_told("", "", 0);
}

static void a_host_that_is_too_long_is_none(void **state)
{
    char host[HOST_MAX + 1], address[HOST_MAX + 8];
    (void)state;
    memset(host, 'h', sizeof host);
    host[HOST_MAX - 1] = 0;
    snprintf(address, sizeof address, "%s:7", host);
    is_told(address, host, 7);
    snprintf(address, sizeof address, "%sh:7", host);
    is_told(address, "", 7);
}

int main(void)
{
    const struct CMUnitTest addresses[] = {
        cmocka_unit_test(an_address_is_a_host_and_a_port),
        cmocka_unit_test(brackets_are_none_of_the_host),
        cmocka_unit_test(a_socket_has_neither),
        cmocka_unit_test(a_host_that_is_too_long_is_none),
    };
    return RUN(addresses);
}
