/* tests/unit/test_stop_lines.c — stop ends connections, free closes their
 * descriptors: another thread's call may be about to ring a bell. labels: thread
 */
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run/inside.h"

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
    int lines[SNIB__LINES], bells[SNIB__LINES], count = 0;
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
    for (uint32_t i = 0; i < SNIB__LINES; i++) {
        if (c->line[i].fd >= 0 && c->line[i].bell >= 0) {
            lines[count] = c->line[i].fd;
            bells[count++] = c->line[i].bell;
        }
    }
    pthread_mutex_unlock(&c->mu);
    assert_true(count > 0);
    int peer = accept(server, NULL, NULL);
    assert_true(peer >= 0);
    snib_client_stop(c);
    for (int i = 0; i < count; i++) {
        assert_true(fcntl(bells[i], F_GETFD) >= 0);
    }
    while (recv(peer, &byte, 1, 0) > 0) { /* the server is told all the same */
    }
    snib_client_free(c);
    for (int i = 0; i < count; i++) {
        assert_int_equal(fcntl(bells[i], F_GETFD), -1);
        assert_int_equal(fcntl(lines[i], F_GETFD), -1);
    }
    close(peer);
    close(server);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(descriptors_stay_until_free),
    };
    return RUN(cases);
}
