/* tests/unit/test_file_deaths.c — the embedded store: the lock of a holder whose
 * process was killed is the next one's at once, if it is certain that it ended.
 * The others wait for the lease. */
#include <poll.h>

#include "core/about.h"
#include "file_store.h"

/* Holds the lock for a minute. */
static pid_t holder_process(const struct snib__name *n, const char *about)
{
    int fds[2];
    char ok = 0;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct peer p = {.client = {0xdead, (uint64_t)getpid()}};
        snib__host_read(&host);
        kit.peer[0] = p;
        kit.peer[0].inst = open_file(&kit.peer[0]);
        if (!kit.peer[0].inst) {
            _exit(1);
        }
        struct snib__request r = request(SNIB__ACQUIRE, n);
        r.lease = snib__ms(60000);
        r.text = about;
        r.text_size = (uint32_t)strlen(about);
        r.id[1] = (uint64_t)getpid();
        run(0, &r);
        ok = r.said.answer == SNIB__DONE;
        if (write(fds[1], &ok, 1) != 1) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(fds[0], &ok, 1), 1);
    assert_int_equal(ok, 1);
    close(fds[0]);
    close(fds[1]);
    return pid;
}

static void kill_and_reap(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

/* Of an event loop: its descriptor becomes readable. */
static void killed_holders_lock_is_taken_over_at_once(void **state)
{
    struct snib__name n = name_of("killed");
    (void)state;
    pid_t pid = holder_process(&n, "host=h&pid=1");
    open_peers(2);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(a.said.answer, SNIB__QUEUED);
    struct pollfd p = {.fd = kit.ops->notifier_fd(kit.peer[0].inst),
                       .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    kill_and_reap(pid);
    assert_int_equal(poll(&p, 1, 5000), 1); /* the pidfd */
    assert_true(is_notified(0, &a));
    assert_int_equal(poll(&p, 1, 0), 0); /* once */
    assert_int_equal(poll_again(0, &a), SNIB__DONE);
    struct snib__request t = request(SNIB__ACQUIRE, &n);
    t.acquire.may_queue = false;
    assert_int_equal(run(1, &t), SNIB__NO);
}

static void try_takes_over_from_the_dead_too(void **state)
{
    struct snib__name n = name_of("killed-2");
    (void)state;
    pid_t pid = holder_process(&n, "host=h&pid=1");
    open_peers(1);
    struct snib__request t = request(SNIB__ACQUIRE, &n);
    t.acquire.may_queue = false;
    assert_int_equal(run(0, &t), SNIB__NO);
    kill_and_reap(pid);
    assert_int_equal(run(0, &t), SNIB__DONE);
}

/* Its command may outlive it by milliseconds. */
static void holder_of_a_command_is_not_taken_over(void **state)
{
    struct snib__name n = name_of("leashed");
    struct snib__about about = {.pid = 1, .leashed = true};
    struct snib__buf text;
    (void)state;
    snib__buf_init(&text, 1000);
    snib__about_write(&about, &text);
    pid_t pid = holder_process(&n, snib__buf_text(&text));
    snib__buf_free(&text);
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    kill_and_reap(pid);
    assert_int_equal(poll_again(0, &a), SNIB__QUEUED);
}

static void process_of_another_pid_namespace_is_never_gone(void **state)
{
    struct snib__name n = name_of("pidns");
    (void)state;
    pid_t pid = holder_process(&n, "host=h&pid=1");
    host.pidns++;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    kill_and_reap(pid);
    assert_int_equal(poll_again(0, &a), SNIB__QUEUED);
}

/* One more than there is room for pushes none out, and is watched by its poll. */
static void as_many_are_watched_as_there_is_room_for(void **state)
{
    enum { MANY = SNIB__FILE_WATCHES + 1 };
    struct snib__name n = name_of("watches");
    (void)state;
    open_peers(2);
    struct snib__request a = acquire(0, &n), b = acquire(1, &n);
    assert_int_equal(b.said.answer, SNIB__QUEUED);
    struct snib__file_ear *ear = &self_of(1)->ear;
    (void)snib__ear_fd(ear);
    snib__ear_unwatch(ear, b.id);
    uint32_t before = ear->watching;
    pid_t pid[MANY];
    for (uint64_t i = 0; i < MANY; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            pause();
            _exit(0);
        }
        for (int twice = 0; twice < 2; twice++) {
            snib__ear_watch(ear, &host, (uint64_t[]){100 + i, 5}, pid[i], 1,
                            host.pidns);
        }
        assert_true(ear->watching <= SNIB__FILE_WATCHES);
    }
    assert_int_equal(ear->watching, SNIB__FILE_WATCHES);
    assert_true(before <= 1);
    for (uint64_t i = 0; i < MANY; i++) {
        kill_and_reap(pid[i]);
    }
    uint64_t ids[32][2];
    uint32_t heard = 0;
    for (int ms = 0; ms < 20000 && heard < SNIB__FILE_WATCHES; ms++) {
        heard += snib__ear_take(ear, ids, 32);
        poll(NULL, 0, 1);
    }
    assert_true(heard >= SNIB__FILE_WATCHES - before);
    end(0, &a);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(killed_holders_lock_is_taken_over_at_once),
        CASE(try_takes_over_from_the_dead_too),
        CASE(holder_of_a_command_is_not_taken_over),
        CASE(process_of_another_pid_namespace_is_never_gone),
        CASE(as_many_are_watched_as_there_is_room_for),
    };
    return RUN(cases);
}
