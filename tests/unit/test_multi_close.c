/* tests/unit/test_multi_close.c — a client is closed, or freed by a child, while
 * a multi of it waits for a store that does not answer. labels: thread */
#include "forks.h"
#include "unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/testing.h"
#include "snib.h"
#include "snib/event.h"
#include "snib/multi.h"

/* A server that takes connections and bytes, and says nothing. */
static int mute_server(char *url, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    snprintf(url, size, "redis://127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

static void two_wait(struct snib_client *c)
{
    struct timespec nap = {.tv_nsec = 1000000};
    struct snib__counts counts;
    int naps = 0;
    do {
        nanosleep(&nap, NULL);
        snib__client_counts(c, &counts, NULL, NULL);
    } while (counts.waiting < 2 && ++naps < 10000);
}

static void *closes_when_two_wait(void *arg)
{
    two_wait(arg);
    snib_client_close(arg);
    return NULL;
}

/* The store's word on the end of both is waited for past the multi's limit: the
 * notes of both, on its stack, are nobody's by then. */
static void a_multi_ends_at_its_limit_with_all_it_asked_for(void **state)
{
    (void)state;
    char url[64];
    int server = mute_server(url, sizeof url);
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_lock *lock[2];
    struct snib_multi *m;
    struct snib_grant g[2];
    struct snib_error e;
    struct snib__counts counts;
    struct snib_event ev;
    pthread_t closer;
    o.url = url;
    o.request_ms = 10000; /* a twentieth of it for that word */
    assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_OK);
    assert_int_equal(snib_lock_new(c, "a", NULL, &lock[0], &e), SNIB_ERR_OK);
    assert_int_equal(snib_lock_new(c, "b", NULL, &lock[1], &e), SNIB_ERR_OK);
    assert_int_equal(snib_multi_new(lock, 2, NULL, &m, &e), SNIB_ERR_OK);
    pthread_create(&closer, NULL, closes_when_two_wait, c);
    snib_err err = snib_multi_try_for(m, 400, NULL, g, &e);
    pthread_join(closer, NULL);
    if (err != SNIB_ERR_CLOSED && err != SNIB_ERR_UNKNOWN) {
        fail_msg("%s: %s", snib_err_name(err), e.text);
    }
    assert_int_equal(e.code, err);
    assert_true(!g[0].ticket && !g[1].ticket);
    snib__client_counts(c, &counts, NULL, NULL);
    assert_int_equal(counts.acquisitions, 0);
    assert_false(snib_client_next(c, &ev, sizeof ev));
    snib_multi_free(m);
    snib_lock_free(lock[0]);
    snib_lock_free(lock[1]);
    close(server); /* refused from here on: nothing more to wait for */
    snib_client_free(c);
}

static void *writes_over_its_stack(void *arg)
{
    volatile char stack[200000];
    memset((void *)stack, 0x41, sizeof stack);
    return arg;
}

static int frees_in_a_child(struct snib_client *c)
{
    int status = -1;
    pid_t child = fork();
    if (!child) {
        pthread_t own[4];
        for (int i = 0; i < 4; i++) {
            pthread_create(&own[i], NULL, writes_over_its_stack, NULL);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(own[i], NULL);
        }
        snib_client_free(c);
        _exit(0);
    }
    (void)waitpid(child, &status, 0);
    return status;
}

static void *is_refused(void *arg)
{
    struct snib_grant g[2];
    return snib_multi_try_for(arg, 1000, NULL, g, NULL) ? arg : NULL;
}

/* The child has the client, and not the thread that is inside the multi, whose
 * stack is given to one of the child's own. */
static void a_child_frees_a_client_whose_parent_is_inside_a_multi(void **state)
{
    (void)state;
    needs_an_allocator_that_forks();
    char url[64];
    int server = mute_server(url, sizeof url);
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_lock *lock[2];
    struct snib_multi *m;
    pthread_t inside;
    void *refused;
    o.url = url;
    o.request_ms = 1000;
    assert_int_equal(snib_client_open(&o, &c, NULL), SNIB_ERR_OK);
    assert_int_equal(snib_lock_new(c, "a", NULL, &lock[0], NULL), SNIB_ERR_OK);
    assert_int_equal(snib_lock_new(c, "b", NULL, &lock[1], NULL), SNIB_ERR_OK);
    assert_int_equal(snib_multi_new(lock, 2, NULL, &m, NULL), SNIB_ERR_OK);
    pthread_create(&inside, NULL, is_refused, m);
    two_wait(c);
    assert_int_equal(frees_in_a_child(c), 0);
    pthread_join(inside, &refused);
    assert_non_null(refused);
    snib_multi_free(m);
    snib_lock_free(lock[0]);
    snib_lock_free(lock[1]);
    close(server);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_multi_ends_at_its_limit_with_all_it_asked_for),
        cmocka_unit_test(a_child_frees_a_client_whose_parent_is_inside_a_multi),
    };
    return RUN(cases);
}
