/* tests/unit/test_run_fds.c — what a client has opened is closed when it is
 * freed: here, and in the child of a fork. labels: thread */
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fds.h"
#include "snib.h"
#include "snib/event.h"

/* A server that takes connections and says nothing. */
static int silent_server(char *ret_url, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    snprintf(ret_url, size, "redis://127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

static struct snib_client *used(const char *url, bool pull)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_lock *l;
    struct snib_grant g;
    struct snib_error e;
    uint64_t ticket;
    o.url = url;
    o.request_ms = 200;
    o.pull = pull;
    assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_OK);
    assert_int_equal(snib_lock_new(c, "a", NULL, &l, &e), SNIB_ERR_OK);
    if (pull) {
        assert_int_equal(snib_try_start(l, NULL, NULL, &ticket, &e),
                         SNIB_ERR_OK);
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    } else {
        snib_err err = snib_try(l, NULL, &g, &e);
        assert_true(err == SNIB_ERR_OK || err == SNIB_ERR_UNREACHABLE ||
                    err == SNIB_ERR_UNKNOWN);
    }
    snib_lock_free(l);
    return c;
}

static void leaves_nothing_open(const char *url, bool pull)
{
    int before = open_now(), status;
    struct snib_client *c = used(url, pull);
    assert_true(open_now() > before);
    pid_t pid = fork();
    if (pid == 0) {
        snib_client_free(c);
        _exit(open_now() == before ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    snib_client_free(c);
    assert_int_equal(open_now(), before);
}

static void a_client_of_a_server_leaves_no_descriptor(void **state)
{
    char url[64];
    int server = silent_server(url, sizeof url);
    (void)state;
    leaves_nothing_open(url, false);
    leaves_nothing_open(url, true);
    close(server);
}

static void start_one(struct snib_client *c, const char *name)
{
    struct snib_lock *l;
    struct snib_event event;
    struct snib_error e;
    assert_int_equal(snib_lock_new(c, name, NULL, &l, &e), SNIB_ERR_OK);
    assert_int_equal(snib_acquire_start(l, NULL, NULL, NULL, &e), SNIB_ERR_OK);
    while (!snib_client_next(
        c, &event, sizeof event)) { /* the worker may be the one to tell */
        struct pollfd fd = {.fd = snib_client_fd(c), .events = POLLIN};
        assert_int_equal(poll(&fd, 1, 10000), 1);
    }
    assert_int_equal(event.kind, SNIB_EVENT_GRANTED);
    snib_lock_free(l);
}

static void a_descriptor_of_number_nought_is_one_too(void **state)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_error e;
    int was = fcntl(0, F_DUPFD_CLOEXEC, 3); /* -1: there is no input */
    (void)state;
    o.url = "memory:nought";
    assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_OK);
    close(0);
    start_one(c, "a");
    int before = open_now();
    assert_int_equal(snib_client_fd(c), 0);
    start_one(c, "b");
    assert_int_equal(snib_client_fd(c), 0);
    assert_int_equal(open_now(), before);
    snib_client_free(c);
    assert_int_equal(fcntl(0, F_GETFD), -1);
    if (was >= 0) {
        assert_int_equal(dup2(was, 0), 0);
        close(was);
    }
}

int main(void)
{
    const struct CMUnitTest run_fds[] = {
        cmocka_unit_test(a_client_of_a_server_leaves_no_descriptor),
        cmocka_unit_test(a_descriptor_of_number_nought_is_one_too),
    };
    return RUN(run_fds);
}
