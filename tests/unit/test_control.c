/* cli/control.c: asking a keeper that drops askers. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
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

/* Binds a dead keeper's name and says that all is well, as the user nobody. */
static pid_t squat(const char *address)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        struct control_request request;
        struct control_reply reply = {.magic = CONTROL_MAGIC, .token = 7};
        int size = snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "snib.%s",
                            address);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (setgid(65534) != 0 || setuid(65534) != 0 ||
            bind(fd, (struct sockaddr *)&to,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                             (size_t)size)) != 0 ||
            listen(fd, 1) != 0 || write(ready[1], "r", 1) != 1) {
            _exit(1);
        }
        fd = accept(fd, NULL, NULL);
        if (recv(fd, &request, sizeof request, 0) > 0) {
            control_send(fd, &reply);
        }
        _exit(0);
    }
    char r;
    assert_int_equal(read(ready[0], &r, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

/* Only root could be taken in: an ordinary user's keeper is of that user. */
static void a_squatter_at_a_dead_keepers_address_is_not_believed(void **state)
{
    (void)state;
    char address[CONTROL_ADDRESS_MAX];
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    struct control_reply reply;
    int status;
    close(control_listen(address));
    if (geteuid() != 0) {
        assert_false(control_ask(address, &request, 20000, &reply));
        return;
    }
    pid_t pid = squat(address);
    assert_false(control_ask(address, &request, 20000, &reply));
    assert_int_equal(errno, EPERM);
    waitpid(pid, &status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_keeper_answers),
        cmocka_unit_test(one_that_was_dropped_asks_again),
        cmocka_unit_test(a_keeper_that_is_gone_is_not_waited_for),
        cmocka_unit_test(a_squatter_at_a_dead_keepers_address_is_not_believed),
    };
    return RUN(tests);
}
