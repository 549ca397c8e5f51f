/* tests/unit/test_stop_sockets.c — stop ends connections, free closes their
 * descriptors: another thread's call may be about to ring a bell. labels: thread
 */
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/api.h"
#include "snib/event.h"

static void descriptors_stay_until_free(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof at;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_lock *lock;
    struct snib_error e;
    int socks[SNIB__SOCKETS_MAX], wakers[SNIB__SOCKETS_MAX], count = 0;
    char url[64], byte;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server, (struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(server, 8), 0);
    assert_int_equal(getsockname(server, (struct sockaddr *)&at, &n), 0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", ntohs(at.sin_port));
    o.url = url;
    assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_OK);
    assert_int_equal(snib_lock_new(c, "a", NULL, &lock, &e), SNIB_ERR_OK);
    assert_int_equal(snib_acquire_start(lock, NULL, NULL, NULL, &e),
                     SNIB_ERR_OK);
    pthread_mutex_lock(&c->mu);
    for (uint32_t i = 0; i < c->sock.count; i++) {
        if (c->sock.v[i]->fd >= 0 && c->sock.v[i]->waker >= 0) {
            socks[count] = c->sock.v[i]->fd;
            wakers[count++] = c->sock.v[i]->waker;
        }
    }
    pthread_mutex_unlock(&c->mu);
    assert_true(count > 0);
    int peer = accept(server, NULL, NULL);
    assert_true(peer >= 0);
    snib_client_stop(c);
    for (int i = 0; i < count; i++) {
        assert_true(fcntl(wakers[i], F_GETFD) >= 0);
    }
    while (recv(peer, &byte, 1, 0) > 0) { /* the server is told all the same */
    }
    snib_client_free(c);
    for (int i = 0; i < count; i++) {
        assert_int_equal(fcntl(wakers[i], F_GETFD), -1);
        assert_int_equal(fcntl(socks[i], F_GETFD), -1);
    }
    close(peer);
    close(server);
}

/* -- a client without a thread of ours, and a server of this thread ---------- */

#define HELLO                                                                  \
    "*6\r\n$6\r\nserver\r\n$5\r\nredis\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n" \
    "$4\r\nrole\r\n$6\r\nmaster\r\n"
/* The layout is written, and read; the time. */
#define TIME  "+OK\r\n$1\r\n2\r\n*2\r\n$10\r\n1790000000\r\n$6\r\n250000\r\n"
#define GRANT "*5\r\n:1\r\n:1790000000300\r\n:7\r\n:31\r\n:30000\r\n"

static int listening(char *ret_url, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof at;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server, (struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(server, 8), 0);
    assert_int_equal(getsockname(server, (struct sockaddr *)&at, &n), 0);
    snprintf(ret_url, size, "redis://127.0.0.1:%d", ntohs(at.sin_port));
    return server;
}

/* The client acts until the peer has heard that word, of all that it heard. */
static char heard[65536];
static size_t heard_size;

static void hears(struct snib_client *c, int peer, const char *word)
{
    while (!strstr(heard, word)) {
        struct pollfd fd[] = {{.fd = peer, .events = POLLIN},
                              {.fd = snib_client_fd(c), .events = POLLIN}};
        assert_true(poll(fd, 2, 5000) > 0);
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
        ssize_t got = recv(peer, heard + heard_size,
                           sizeof heard - 1 - heard_size, MSG_DONTWAIT);
        heard_size += got > 0 ? (size_t)got : 0;
        heard[heard_size] = 0;
    }
}

static void says(int peer, const char *text)
{
    ssize_t n = (ssize_t)strlen(text);
    assert_int_equal(send(peer, text, (size_t)n, MSG_NOSIGNAL), n);
}

static struct snib_event fetches(struct snib_client *c)
{
    struct snib_event event;
    while (!snib_client_next(c, &event, sizeof event)) {
        struct pollfd fd = {.fd = snib_client_fd(c), .events = POLLIN};
        assert_int_equal(poll(&fd, 1, 5000), 1);
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    }
    return event;
}

static struct snib_client *pulling(const char *url, struct snib_lock **ret)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_error e;
    o.url = url;
    o.pull = true;
    assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_OK);
    assert_int_equal(snib_lock_new(c, "a", NULL, ret, &e), SNIB_ERR_OK);
    assert_int_equal(snib_acquire_start(*ret, NULL, NULL, NULL, &e),
                     SNIB_ERR_OK);
    assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    return c;
}

static void greets(struct snib_client *c, int peer)
{
    heard[heard_size = 0] = 0;
    hears(c, peer, "HELLO");
    says(peer, HELLO);
    hears(c, peer, "TIME");
    says(peer, TIME);
    hears(c, peer, "EVAL");
}

static bool speaks(struct snib_client *c)
{
    struct pollfd fd = {.fd = snib_client_fd(c), .events = POLLIN};
    return poll(&fd, 1, 0) != 0;
}

static void a_release_without_an_answer_is_unknown_at_the_stop(void **state)
{
    (void)state;
    char url[64];
    int server = listening(url, sizeof url);
    struct snib_lock *lock;
    struct snib_client *c = pulling(url, &lock);
    struct snib_event event;
    int peer = accept(server, NULL, NULL);
    greets(c, peer);
    says(peer, GRANT);
    event = fetches(c);
    assert_int_equal(event.kind, SNIB_EVENT_GRANTED);
    assert_int_equal(snib_release_start(lock, event.grant, NULL, NULL),
                     SNIB_ERR_OK);
    assert_false(snib_client_next(c, &event, sizeof event));
    snib_client_stop(c);
    assert_true(snib_client_next(c, &event, sizeof event));
    assert_int_equal(event.kind, SNIB_EVENT_RELEASED);
    assert_int_equal(event.error.code, SNIB_ERR_UNKNOWN);
    assert_false(snib_client_next(c, &event, sizeof event));
    assert_false(speaks(c));
    snib_lock_free(lock);
    snib_client_free(c);
    close(peer);
    close(server);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(descriptors_stay_until_free),
        cmocka_unit_test(a_release_without_an_answer_is_unknown_at_the_stop),
    };
    return RUN(cases);
}
