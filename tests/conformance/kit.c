/* tests/conformance/kit.c — see kit.h. */
#include "kit.h"
#include "snib/event.h"
#include "snib/inspect.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *url, *second_url;
static bool faults;

bool take_arguments(int argc, char **argv)
{
    const char *program = *argv++;
    faults = argc > 1 && strcmp(*argv, "-f") == 0;
    argv += faults;
    if (!*argv) {
        fprintf(stderr, "usage: %s [-f] URL [OTHER_URL] [CASE]\n", program);
        return false;
    }
    url = second_url = *argv++;
    if (*argv && strchr(*argv, ':')) {
        second_url = *argv++;
    }
    if (*argv) {
        cmocka_set_test_filter(*argv);
    }
    return true;
}

const char *store_url(void)
{
    return url;
}

const char *other_url(void)
{
    return second_url;
}

bool has_faults(void)
{
    return faults;
}

bool is_memory(void)
{
    return strncmp(url, "memory:", 7) == 0 ||
           strncmp(second_url, "memory:", 7) == 0;
}

void skip_where_no_reply_is_lost(void)
{
    if (!is_memory()) {
        print_message("skipped: replies are lost by memory:'s switch; for "
                      "Redis see tests/live\n");
        skip();
    }
}

void skip_in_one_process(void)
{
    if (is_memory()) {
        print_message("skipped: memory: lives in one process\n");
        skip();
    }
}

bool has_a_majority(void)
{
    return strncmp(url, "redlock:", 8) == 0;
}

void skip_without_a_queue(void)
{
    if (has_a_majority()) {
        print_message(
            "skipped: redlock: nobody queues at the nodes of a quorum\n");
        skip();
    }
}

static bool is_etcd(void)
{
    return strncmp(url, "etcd", 4) == 0;
}

void skip_where_the_dead_count(void)
{
    if (is_etcd()) {
        print_message(
            "skipped: etcd: tells nobody of a connection that ended\n");
        skip();
    }
}

bool is_zookeeper(void)
{
    return strncmp(url, "zookeeper:", 10) == 0;
}

bool is_rabbitmq(void)
{
    return strncmp(url, "amqp", 4) == 0;
}

double crowding(void)
{
    double load = 0;
    double each = (double)sysconf(_SC_NPROCESSORS_ONLN);
    load = getloadavg(&load, 1) == 1 ? load / each : 1;
    return load < 1 ? 1 : load > 8 ? 8 : load;
}

int64_t slack_ms(void)
{
    return (int64_t)(SLACK_MS * crowding());
}

int64_t lease_slack_ms(void)
{
    return slack_ms() + (is_etcd()        ? 2500
                         : is_zookeeper() ? 5500
                         : is_rabbitmq()  ? 6500
                                          : 0);
}

int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void look_again_after_ms(int ms)
{
    poll(NULL, 0, ms);
}

const char *fresh_name(void)
{
    static char names[64][48];
    static int n;
    char *name = names[n++ % 64];
    /* pids are used again, and a lock-delay outlives its case */
    snprintf(name, sizeof names[0], "case-%d-%d-%llx", (int)getpid(), n,
             (unsigned long long)now_ms());
    return name;
}

/* -- clients and locks ----------------------------------------------------- */

struct snib_client *open_client(void)
{
    return open_at(url);
}

/* Ten cases at once, and crowds beside them, have kept a server from running for
 * the two seconds that are the default (a JVM on two cores, a node of a cluster).
 * That is told as UNREACHABLE, rightly, and is not what a case is about. */
enum { REQUEST_MS = 10000 };

struct snib_client *open_at(const char *at)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_error err;
    o.url = at;
    o.program = "conformance";
    o.request_ms = REQUEST_MS;
    if (snib_client_open(&o, &c, &err)) {
        fail_msg("open %s: %s", at, err.text);
    }
    return c;
}

struct snib_lock *lock_with(struct snib_client *c, const char *name,
                            const struct snib_lock_options *o)
{
    struct snib_lock *lock;
    struct snib_error err;
    if (snib_lock_new(c, name, o, &lock, &err)) {
        fail_msg("lock %s: %s", name, err.text);
    }
    return lock;
}

struct snib_lock_options terms(snib_kind kind, uint32_t permits,
                               uint32_t capacity)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.kind = kind;
    o.permits = permits;
    o.capacity = capacity;
    return o;
}

struct snib_lock *of_kind(struct snib_client *c, const char *name,
                          snib_kind kind)
{
    struct snib_lock_options o = terms(kind, 0, 0);
    return lock_with(c, name, &o);
}

struct snib_lock *fixed(struct snib_client *c, const char *name, snib_kind kind,
                        int64_t lease_ms)
{
    struct snib_lock_options o = terms(kind, 0, 0);
    o.fixed_lease = true;
    o.lease_ms = lease_ms;
    return lock_with(c, name, &o);
}

struct snib_lock *permits_of(struct snib_client *c, const char *name,
                             uint32_t permits, uint32_t capacity)
{
    struct snib_lock_options o = terms(SNIB_KIND_PERMITS, permits, capacity);
    return lock_with(c, name, &o);
}

struct snib_lock *leased(struct snib_client *c, const char *name,
                         uint32_t permits, int64_t lease_ms, bool fix)
{
    struct snib_lock_options o = terms(SNIB_KIND_PERMITS, permits, permits);
    o.fixed_lease = fix;
    o.lease_ms = lease_ms;
    return lock_with(c, name, &o);
}

snib_err acquire_for(struct snib_lock *lock, int64_t wait_ms,
                     struct snib_grant *g)
{
    return take(lock, wait_ms, 0, g);
}

snib_err take(struct snib_lock *l, int64_t wait_ms, uint64_t owner,
              struct snib_grant *g)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.owner = owner;
    return snib_try_for(l, wait_ms, &o, g, NULL);
}

snib_err try_by_other(struct snib_lock *l, struct snib_grant *g)
{
    return take(l, 0, snib_owner_new(), g);
}

struct stranger {
    struct snib_lock *lock;
    struct snib_grant grant;
    snib_err err;
};

static void *release_elsewhere(void *arg)
{
    struct stranger *s = arg;
    s->err = snib_release(s->lock, s->grant, NULL);
    return NULL;
}

snib_err by_stranger(struct snib_lock *l, struct snib_grant g)
{
    struct stranger s = {.lock = l, .grant = g};
    pthread_t t;
    pthread_create(&t, NULL, release_elsewhere, &s);
    pthread_join(t, NULL);
    return s.err;
}

struct snib_status status_of(struct snib_lock *l, struct snib_grant g)
{
    struct snib_status st;
    snib_grant_status(l, g, &st, sizeof st);
    return st;
}

int64_t least_ms(int64_t lease_ms)
{
    return lease_ms - lease_ms / 100 - 7;
}

/* -- expectations ---------------------------------------------------------- */

void must_at(snib_err err, const char *file, int line)
{
    must_be_at(err, SNIB_ERR_OK, file, line);
}

void must_be_at(snib_err err, snib_err want, const char *file, int line)
{
    if (err != want) {
        print_error("%s (%s), expected %s\n", snib_err_name(err),
                    snib_err_text(err), snib_err_name(want));
        _fail(file, line);
    }
}

size_t waiters_of(struct snib_client *c, const char *name)
{
    struct snib_view *v;
    struct snib_error err;
    must(snib_client_inspect(c, name, 0, &v, &err));
    size_t n = v->waiter_count;
    snib_view_free(v);
    return n;
}

size_t holders_of(struct snib_client *c, const char *name)
{
    struct snib_view *v;
    must(snib_client_inspect(c, name, 0, &v, NULL));
    size_t n = v->holder_count;
    snib_view_free(v);
    return n;
}

void wait_for_waiters(struct snib_client *c, const char *name, size_t n)
{
    int64_t deadline = now_ms() + 10000;
    while (waiters_of(c, name) < n) {
        assert_true(now_ms() < deadline);
        look_again_after_ms(2);
    }
}

void wait_for_fewer_waiters(struct snib_client *c, const char *name, size_t n)
{
    int64_t deadline = now_ms() + 10000;
    while (waiters_of(c, name) > n) {
        assert_true(now_ms() < deadline);
        look_again_after_ms(5);
    }
}

void note_change(void *data, struct snib_grant g, snib_state state,
                 snib_cause reason)
{
    struct changes *c = data;
    (void)g;
    if (state == SNIB_STATE_LOST) {
        atomic_store(&c->reason, (int)reason);
        atomic_store(&c->lost, 1);
    }
}

void wait_for_loss(struct changes *c, snib_cause reason)
{
    int64_t deadline = now_ms() + 10000;
    while (!atomic_load(&c->lost)) {
        assert_true(now_ms() < deadline);
        look_again_after_ms(2);
    }
    assert_int_equal(atomic_load(&c->reason), reason);
}

struct snib_event next_event(struct snib_client *c)
{
    struct snib_event ev;
    int64_t deadline = now_ms() + 10000;
    while (!snib_client_next(c, &ev, sizeof ev)) {
        struct pollfd p = {.fd = snib_client_fd(c), .events = POLLIN};
        assert_true(now_ms() < deadline);
        poll(&p, 1, 1000);
    }
    return ev;
}

/* -- threads and processes ------------------------------------------------- */

static void *do_task(void *arg)
{
    struct task *t = arg;
    t->began_ms = now_ms();
    t->err = take(t->lock, t->wait_ms, t->owner, &t->grant);
    t->ended_ms = now_ms();
    if (!t->err && t->order) {
        t->place = atomic_fetch_add(t->order, 1);
    }
    if (!t->err && t->release) {
        t->err = snib_release(t->lock, t->grant, NULL);
    }
    return NULL;
}

void start(struct task *t, struct snib_lock *l, int64_t wait_ms)
{
    t->lock = l;
    t->wait_ms = wait_ms;
    if (t->owner == 0) {
        t->owner = snib_owner_new();
    }
    assert_int_equal(pthread_create(&t->thread, NULL, do_task, t), 0);
}

struct task *join(struct task *t)
{
    assert_int_equal(pthread_join(t->thread, NULL), 0);
    return t;
}

struct child start_child(int (*work)(const char *name), const char *name)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char ok = work(name) == 0 ? 'y' : 'n';
        ssize_t n = write(ends[1], &ok, 1);
        (void)n;
        for (;;) {
            pause();
        }
    }
    close(ends[1]);
    return (struct child){pid, ends[0]};
}

void wait_for_child(const struct child *c)
{
    struct pollfd p = {.fd = c->said, .events = POLLIN};
    char ok = 0;
    assert_int_equal(poll(&p, 1, 10000), 1);
    assert_int_equal(read(c->said, &ok, 1), 1);
    assert_int_equal(ok, 'y');
}

void kill_child(const struct child *c)
{
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    close(c->said);
}
