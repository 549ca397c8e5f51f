/* tests/unit/test_logins.c — the program's function that gives logins: when it
 * is called, on which thread, and what is left of its answer. labels: thread oom
 * wraps: pthread_create */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/api.h"
#include "snib/event.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#define HELLO                                                                  \
    "*6\r\n$6\r\nserver\r\n$5\r\nredis\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n" \
    "$4\r\nrole\r\n$6\r\nmaster\r\n"
#define PROBE  "*2\r\n*0\r\n:0\r\n"
#define LAYOUT "+OK\r\n$1\r\n2\r\n"
#define TIME   "*2\r\n$10\r\n1790000000\r\n$6\r\n250000\r\n"
#define GRANT  "*5\r\n:1\r\n:1790000000300\r\n:7\r\n:31\r\n:30000\r\n"

static struct snib_error e;

/* -- threads -------------------------------------------------------------------- */

static bool no_threads;

int __real_pthread_create(pthread_t *, const pthread_attr_t *,
                          void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *how,
                          void *(*body)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *how,
                          void *(*body)(void *), void *arg)
{
    return no_threads && body == snib__login_body
               ? EAGAIN
               : __real_pthread_create(id, how, body, arg);
}

/* -- the program ---------------------------------------------------------------- */

/* It waits for `go` when it is to be slow, having said that it was called. */
static struct {
    bool slow, stops;
    sem_t called, go;
    _Atomic int calls;
    pthread_t thread;
    char address[80], host[80];
    int port;
    bool refused;
    _Atomic bool ever_refused;
    snib_err says; /* OK: it gives one */
    struct snib_client *client;
} program;

static snib_err give(void *data, struct snib_login *login)
{
    assert_ptr_equal(data, &program);
    program.thread = pthread_self();
    program.refused = login->refused;
    if (login->refused) {
        atomic_store(&program.ever_refused, true);
    }
    program.port = login->port;
    snprintf(program.address, sizeof program.address, "%s", login->address);
    snprintf(program.host, sizeof program.host, "%s", login->host);
    assert_string_equal(login->user, "");
    assert_string_equal(login->password, "");
    assert_string_equal(login->text, "");
    assert_int_equal(login->valid_ms, 0);
    if (program.stops) {
        snib_client_stop(program.client);
    }
    atomic_fetch_add(&program.calls, 1);
    sem_post(&program.called);
    if (program.slow) {
        sem_wait(&program.go);
    }
    if (program.says) {
        return program.says;
    }
    memset(login->user, 'u', sizeof login->user); /* without a NUL */
    snprintf(login->user, sizeof login->user, "anna");
    snprintf(login->password, sizeof login->password, "s3cret");
    login->valid_ms = 60000;
    return SNIB_ERR_OK;
}

static int begin(void **state)
{
    (void)state;
    memset(&program, 0, sizeof program);
    sem_init(&program.called, 0, 0);
    sem_init(&program.go, 0, 0);
    no_threads = false;
    return 0;
}

static struct snib_client *client_at(const char *url, bool pull)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    o.url = url;
    o.pull = pull;
    o.request_ms = 500;
    o.login = give;
    o.login_data = &program;
    if (snib_client_open(&o, &c, &e)) {
        fail_msg("%s", e.text);
    }
    return c;
}

/* -- the server: this thread ----------------------------------------------------- */

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

static char heard[65536];
static size_t heard_size;

/* Of all that the peer heard. A pull client is driven meanwhile. */
static void hears(struct snib_client *c, int peer, const char *word)
{
    while (!strstr(heard, word)) {
        struct pollfd fd[] = {
            {.fd = peer, .events = POLLIN},
            {.fd = c->pull ? snib_client_fd(c) : -1, .events = POLLIN}};
        assert_true(poll(fd, 2, 5000) > 0);
        if (c->pull) {
            assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
        }
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

static bool is_zero(const void *p, size_t n)
{
    const char *bytes = p;
    while (n && !bytes[n - 1]) {
        n--;
    }
    return n == 0;
}

static void is_called(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    assert_int_equal(sem_timedwait(&program.called, &until), 0);
}

/* -- cases ------------------------------------------------------------------------- */

static void two_logins_are_refused(void **state)
{
    static const char *const urls[] = {"redis://anna:s3cret@h",
                                       "redis://:s3cret@h",
                                       "redlock://:s3cret@h,i,j"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        struct snib_client_options o = SNIB_INIT(snib_client_options);
        struct snib_client *c;
        o.url = urls[i];
        o.login = give;
        assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_USAGE);
        assert_null(c);
        assert_non_null(strstr(e.text, "option login"));
        assert_null(strstr(e.text, "s3cret"));
    }
    assert_int_equal(program.calls, 0);
}

static void a_store_without_logins_never_asks(void **state)
{
    (void)state;
    struct snib_client *c = client_at("memory:logins", false);
    struct snib_lock *lock;
    struct snib_grant grant;
    assert_int_equal(snib_lock_new(c, "a", NULL, &lock, &e), SNIB_ERR_OK);
    assert_int_equal(snib_try(lock, NULL, &grant, &e), SNIB_ERR_OK);
    assert_int_equal(snib_release(lock, grant, &e), SNIB_ERR_OK);
    snib_lock_free(lock);
    snib_client_free(c);
    assert_int_equal(program.calls, 0);
}

/* An event loop's client goes on while the program takes its time. */
static void an_event_loop_waits_for_no_login(void **state)
{
    (void)state;
    char url[64];
    int server = listening(url, sizeof url);
    struct snib_client *c = client_at(url, true);
    struct snib_lock *lock;
    struct snib_event event;
    program.slow = true;
    heard[heard_size = 0] = 0;
    assert_int_equal(snib_lock_new(c, "a", NULL, &lock, &e), SNIB_ERR_OK);
    assert_int_equal(snib_acquire_start(lock, NULL, NULL, NULL, &e),
                     SNIB_ERR_OK);
    int peer = accept(server, NULL, NULL);
    while (sem_trywait(&program.called)) {
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    }
    for (int i = 0; i < 100; i++) { /* it blocks, and we do not */
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
        assert_false(snib_client_next(c, &event, sizeof event));
    }
    assert_false(pthread_equal(program.thread, pthread_self()));
    assert_string_equal(program.address, url + strlen("redis://"));
    assert_string_equal(program.host, "127.0.0.1");
    assert_int_equal(program.port, atoi(strrchr(url, ':') + 1));
    sem_post(&program.go);
    hears(c, peer, "AUTH\r\n$4\r\nanna\r\n$6\r\ns3cret\r\n");
    says(peer, HELLO PROBE LAYOUT TIME);
    hears(c, peer, "snib:{a}");
    says(peer, GRANT);
    while (!snib_client_next(c, &event, sizeof event)) {
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    }
    assert_int_equal(event.kind, SNIB_EVENT_GRANTED);
    pthread_mutex_lock(&c->mu);
    assert_true(is_zero(c->logins.answer, sizeof *c->logins.answer));
    pthread_mutex_unlock(&c->mu);
    close(peer);
    close(server);
    snib_lock_free(lock);
    program.slow = false;
    snib_client_free(c);
}

/* A path, whose server has no name and no port. */
static void a_socket_is_told_by_its_path(void **state)
{
    (void)state;
    char folder[] = "/tmp/snib-logins-XXXXXX", url[130];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    assert_non_null(mkdtemp(folder));
    snprintf(at.sun_path, sizeof at.sun_path, "%s/a:1", folder);
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(server, 8), 0);
    snprintf(url, sizeof url, "redis+unix://%s", at.sun_path);
    struct snib_client *c = client_at(url, true);
    struct snib_lock *lock;
    assert_int_equal(snib_lock_new(c, "a", NULL, &lock, &e), SNIB_ERR_OK);
    assert_int_equal(snib_acquire_start(lock, NULL, NULL, NULL, &e),
                     SNIB_ERR_OK);
    while (sem_trywait(&program.called)) {
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    }
    assert_string_equal(program.address, at.sun_path);
    assert_string_equal(program.host, "");
    assert_int_equal(program.port, 0);
    assert_false(program.refused);
    snib_lock_free(lock);
    snib_client_free(c);
    close(server);
    assert_int_equal(unlink(at.sun_path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* It fetches another one than it has kept. */
static void a_login_that_was_refused_is_asked_for_once_more(void **state)
{
    (void)state;
    char url[64];
    int server = listening(url, sizeof url);
    struct snib_client *c = client_at(url, true);
    struct snib_lock *lock;
    heard[heard_size = 0] = 0;
    assert_int_equal(snib_lock_new(c, "a", NULL, &lock, &e), SNIB_ERR_OK);
    assert_int_equal(snib_acquire_start(lock, NULL, NULL, NULL, &e),
                     SNIB_ERR_OK);
    int peer = accept(server, NULL, NULL);
    hears(c, peer, "AUTH\r\n$4\r\nanna\r\n$6\r\ns3cret\r\n");
    assert_false(atomic_load(&program.ever_refused));
    says(peer, "-WRONGPASS invalid username-password pair\r\n");
    for (int i = 0; i < 2000 && !atomic_load(&program.ever_refused); i++) {
        struct pollfd fd = {.fd = snib_client_fd(c), .events = POLLIN};
        assert_true(poll(&fd, 1, 10) >= 0);
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    }
    assert_true(atomic_load(&program.ever_refused));
    snib_lock_free(lock);
    snib_client_free(c);
    close(peer);
    close(server);
}

static void *free_client(void *c)
{
    snib_client_free(c);
    sem_post(&program.called);
    return NULL;
}

/* What the function uses may be freed after the client. */
static void the_end_waits_for_the_program(void **state)
{
    (void)state;
    char url[64];
    int server = listening(url, sizeof url);
    struct snib_client *c = client_at(url, true);
    struct snib_lock *lock;
    pthread_t thread;
    program.slow = true;
    assert_int_equal(snib_lock_new(c, "a", NULL, &lock, &e), SNIB_ERR_OK);
    assert_int_equal(snib_acquire_start(lock, NULL, NULL, NULL, &e),
                     SNIB_ERR_OK);
    while (sem_trywait(&program.called)) {
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    }
    snib_lock_free(lock);
    assert_int_equal(pthread_create(&thread, NULL, free_client, c), 0);
    usleep(900 * 1000); /* beyond request_ms, for which a stop waits at most */
    assert_int_equal(sem_trywait(&program.called), -1);
    sem_post(&program.go);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(program.calls, 1); /* and never again */
    close(server);
}

/* It closes the client, and the stop that is a stop still waits. */
static void a_stop_from_the_function_does_not_wait_for_it(void **state)
{
    (void)state;
    char url[64];
    int server = listening(url, sizeof url);
    struct snib_client *c = client_at(url, false);
    struct snib_lock *lock;
    struct snib_grant grant;
    pthread_t thread;
    program.client = c;
    program.stops = program.slow = true;
    assert_int_equal(snib_lock_new(c, "a", NULL, &lock, &e), SNIB_ERR_OK);
    snib_err err = snib_acquire(lock, NULL, &grant, &e);
    assert_true(err == SNIB_ERR_CLOSED || err == SNIB_ERR_UNKNOWN);
    is_called();
    snib_lock_free(lock);
    assert_int_equal(pthread_create(&thread, NULL, free_client, c), 0);
    usleep(900 * 1000);
    assert_int_equal(sem_trywait(&program.called), -1);
    sem_post(&program.go);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(server);
}

/* A wrong set-up is one of ours, a password_file= that is not there. */
static void what_the_program_says_but_denied_is_unreachable(void **state)
{
    (void)state;
    char url[64];
    int server = listening(url, sizeof url);
    struct snib_client *c = client_at(url, false);
    struct snib_lock *lock;
    struct snib_grant grant;
    program.says = SNIB_ERR_CONFIG;
    assert_int_equal(snib_lock_new(c, "a", NULL, &lock, &e), SNIB_ERR_OK);
    assert_int_equal(snib_try(lock, NULL, &grant, &e), SNIB_ERR_UNREACHABLE);
    assert_int_equal(program.calls, 1);
    snib_lock_free(lock);
    snib_client_free(c);
    close(server);
}

static void without_a_thread_it_is_as_if_it_had_none(void **state)
{
    (void)state;
    char url[64];
    int server = listening(url, sizeof url);
    struct snib_client *c = client_at(url, false);
    struct snib_lock *lock;
    struct snib_grant grant;
    no_threads = true;
    assert_int_equal(snib_lock_new(c, "a", NULL, &lock, &e), SNIB_ERR_OK);
    assert_int_equal(snib_try(lock, NULL, &grant, &e), SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "there is no thread to ask for one"));
    assert_int_equal(program.calls, 0);
    no_threads = false; /* the next attempt finds one */
    assert_int_equal(snib_try_for(lock, 200, NULL, &grant, &e),
                     SNIB_ERR_UNREACHABLE);
    assert_true(program.calls > 0);
    snib_lock_free(lock);
    snib_client_free(c);
    close(server);
}

static void open_without_memory_leaves_nothing(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    snib_err err;
    int nth = 0;
    o.url = "redis://h";
    o.login = give;
    do {
        snib__mem_fail_at(++nth, false);
        err = snib_client_open(&o, &c, &e);
        snib__mem_fail_at(0, false);
        assert_true(err == SNIB_ERR_NOMEM || err == SNIB_ERR_OK);
    } while (err);
    assert_true(nth > 3);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(two_logins_are_refused, begin),
        cmocka_unit_test_setup(a_store_without_logins_never_asks, begin),
        cmocka_unit_test_setup(an_event_loop_waits_for_no_login, begin),
        cmocka_unit_test_setup(a_socket_is_told_by_its_path, begin),
        cmocka_unit_test_setup(a_login_that_was_refused_is_asked_for_once_more,
                               begin),
        cmocka_unit_test_setup(the_end_waits_for_the_program, begin),
        cmocka_unit_test_setup(a_stop_from_the_function_does_not_wait_for_it,
                               begin),
        cmocka_unit_test_setup(what_the_program_says_but_denied_is_unreachable,
                               begin),
        cmocka_unit_test_setup(without_a_thread_it_is_as_if_it_had_none, begin),
        cmocka_unit_test_setup(open_without_memory_leaves_nothing, begin),
    };
    return RUN(cases);
}

#endif
