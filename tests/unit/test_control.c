/* cli/control.c: asking a keeper that drops askers. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "cli/control.h"

struct keeper {
    int listener;
    int drops; /* so many askers are dropped, unread, before one is answered */
    int seen;
};

static void *keep(void *arg)
{
    struct keeper *k = arg;
    for (bool over = false; !over; k->seen++) {
        struct pollfd p = {.fd = k->listener, .events = POLLIN};
        struct control_request request;
        struct control_reply reply = {
            .magic = CONTROL_MAGIC, .token = 7, .slot = -1};
        assert_int_equal(poll(&p, 1, 20000), 1);
        int fd = control_accept(k->listener);
        assert_true(fd >= 0);
        p.fd = fd;
        over = k->seen >= k->drops;
        if (over) {
            assert_int_equal(poll(&p, 1, 20000), 1);
            assert_true(control_receive(fd, &request));
            control_send(fd, &reply);
        }
        close(fd);
    }
    return NULL;
}

static bool ask(struct keeper *k, int timeout_ms, struct control_reply *ret)
{
    char address[CONTROL_ADDRESS_MAX];
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    pthread_t thread;
    k->listener = control_listen(address);
    assert_true(k->listener >= 0);
    assert_true(control_address_valid(address));
    assert_int_equal(pthread_create(&thread, NULL, keep, k), 0);
    bool ok = control_ask(address, &request, timeout_ms, ret);
    pthread_join(thread, NULL);
    close(k->listener);
    return ok;
}

static void a_keeper_answers(void **state)
{
    (void)state;
    struct keeper k = {0};
    struct control_reply reply = {0};
    assert_true(ask(&k, 20000, &reply));
    assert_int_equal(reply.token, 7);
    assert_int_equal(k.seen, 1);
}

static void one_that_was_dropped_asks_again(void **state)
{
    (void)state;
    struct keeper k = {.drops = 3};
    struct control_reply reply = {0};
    assert_true(ask(&k, 20000, &reply));
    assert_int_equal(reply.token, 7);
    assert_int_equal(k.seen, 4);
}

static void a_keeper_that_is_gone_is_not_waited_for(void **state)
{
    (void)state;
    char address[CONTROL_ADDRESS_MAX];
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    struct control_reply reply;
    close(control_listen(address));
    assert_false(control_ask(address, &request, 20000, &reply));
    assert_int_equal(errno, ECONNREFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_keeper_answers),
        cmocka_unit_test(one_that_was_dropped_asks_again),
        cmocka_unit_test(a_keeper_that_is_gone_is_not_waited_for),
    };
    return RUN(tests);
}
