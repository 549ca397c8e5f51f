/* tests/unit/test_file_waking.c — a client of a mapped file is woken: by the
 * word on which a caller's thread sleeps, or by the descriptor that others
 * poll. labels: thread */
#include "file_store.h"

#include <poll.h>

#include "tasks.h"

static _Atomic uint32_t *word_of(int peer, uint32_t *ret_value)
{
    return kit.ops->notifier_word(kit.peer[peer].inst, ret_value);
}

static bool is_readable(int peer, int ms)
{
    struct pollfd p = {.fd = kit.ops->notifier_fd(kit.peer[peer].inst),
                       .events = POLLIN};
    assert_true(p.fd >= 0);
    return poll(&p, 1, ms) == 1;
}

/* Peer 0 holds, peer 1 waits. */
static struct snib__request wait_behind(struct snib__name *n,
                                        struct snib__request *ret_holder)
{
    *n = name_of("waking");
    open_peers(2);
    *ret_holder = acquire(0, n);
    assert_int_equal(ret_holder->said.answer, SNIB__DONE);
    struct snib__request b = acquire(1, n);
    assert_int_equal(b.said.answer, SNIB__QUEUED);
    return b;
}

/* -- a caller's thread ------------------------------------------------------------ */

static void who_does_not_wait_has_no_word(void **state)
{
    uint32_t value;
    (void)state;
    open_peers(1);
    assert_null(word_of(0, &value));
    assert_int_equal(kit.ops->notifier_fd(kit.peer[0].inst), -1);
}

static void a_sleeping_call_is_woken_and_nothing_stands_between(void **state)
{
    struct snib__name n;
    struct snib__request a;
    uint32_t value;
    (void)state;
    int threads = threads_now();
    struct snib__request b = wait_behind(&n, &a);
    _Atomic uint32_t *word = word_of(1, &value);
    assert_non_null(word);
    assert_int_equal(*word, value);
    end(0, &a);
    assert_int_not_equal(*word, value);
    assert_true(is_notified(1, &b));
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
    assert_int_equal(threads_of(getpid()), threads);
}

static void who_was_told_just_before_does_not_sleep(void **state)
{
    struct snib__name n;
    struct snib__request a;
    uint32_t value;
    (void)state;
    struct snib__request b = wait_behind(&n, &a);
    end(0, &a);
    _Atomic uint32_t *word = word_of(1, &value);
    assert_int_not_equal(*word, value);
    assert_true(is_notified(1, &b));
    word = word_of(1, &value); /* it was taken: the next sleep is one */
    assert_int_equal(*word, value);
}

/* It woke up by its limit, and goes to sleep again. */
static void who_slept_before_sleeps_again(void **state)
{
    struct snib__name n;
    struct snib__request a;
    uint32_t first, value;
    (void)state;
    struct snib__request b = wait_behind(&n, &a);
    _Atomic uint32_t *word = word_of(1, &first);
    assert_ptr_equal(word_of(1, &value), word);
    assert_int_equal(value, first);
    assert_int_equal(*word, value);
    end(0, &a);
    assert_int_not_equal(*word, value);
    assert_true(is_notified(1, &b));
}

/* -- others poll ------------------------------------------------------------------- */

static void a_polled_descriptor_becomes_readable(void **state)
{
    struct snib__name n;
    struct snib__request a;
    (void)state;
    int threads = threads_now();
    struct snib__request b = wait_behind(&n, &a);
    kit.ops->notifier_polled(kit.peer[1].inst);
    kit.ops->notifier_polled(kit.peer[1].inst);
    assert_int_equal(threads_of(getpid()), threads + 1);
    end(0, &a);
    assert_true(is_readable(1, 10000));
    assert_true(is_notified(1, &b));
}

static void what_was_told_before_it_is_polled_is_readable(void **state)
{
    struct snib__name n;
    struct snib__request a;
    (void)state;
    struct snib__request b = wait_behind(&n, &a);
    end(0, &a);
    kit.ops->notifier_polled(kit.peer[1].inst);
    assert_true(is_readable(1, 10000));
    assert_true(is_notified(1, &b));
}

static void while_a_call_sleeps_it_alone_is_woken(void **state)
{
    struct snib__name n;
    struct snib__request a;
    uint32_t value;
    (void)state;
    struct snib__request b = wait_behind(&n, &a);
    kit.ops->notifier_polled(kit.peer[1].inst);
    assert_true(is_readable(1, 10000)); /* it says so when it begins */
    assert_false(is_notified(1, &b));
    _Atomic uint32_t *word = word_of(1, &value);
    uint32_t heard = self_of(1)->ear.slot->word;
    end(0, &a);
    assert_int_not_equal(*word, value);
    assert_int_equal(self_of(1)->ear.slot->word, heard);
    assert_true(is_notified(1, &b));
}

/* -- the dead ---------------------------------------------------------------------- */

/* A process that waits, as a caller's thread, and says so. */
static pid_t sleeper_process(struct snib__name *n)
{
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        uint32_t value;
        snib__host_read(&host);
        struct peer p = {.client = {8, (uint64_t)getpid()}};
        kit.peer[5].inst = open_file(&p);
        struct snib__request r = request(SNIB__ACQUIRE, n);
        r.id[1] = 78;
        bool waits = run(5, &r) == SNIB__QUEUED && word_of(5, &value);
        if (!waits || write(ready[1], "w", 1) != 1) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    return pid;
}

static void a_killed_sleeper_is_passed_over_at_once(void **state)
{
    struct snib__name n = name_of("waking");
    uint32_t value;
    (void)state;
    open_peers(2);
    struct snib__request a = acquire(0, &n);
    pid_t pid = sleeper_process(&n);
    struct snib__request b = acquire(1, &n);
    assert_int_equal(b.said.position, 2);
    _Atomic uint32_t *word = word_of(1, &value);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    end(0, &a);
    assert_int_not_equal(*word, value);
    assert_true(is_notified(1, &b));
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
}

/* Its word is odd for ever; who takes the slot next is not asleep. */
static void the_slot_of_a_killed_sleeper_begins_awake(void **state)
{
    struct snib__name n = name_of("waking");
    (void)state;
    shape.slots = 1;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    pid_t pid = sleeper_process(&n);
    struct snib__file_slot *s = self_of(0)->map.slots;
    assert_int_equal(s->call % 2, 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    struct peer p = {.client = {9, 9}};
    kit.peer[1].inst = open_file(&p);
    struct snib__request b = acquire(1, &n);
    shape.slots = 16;
    assert_int_equal(b.said.answer, SNIB__QUEUED);
    assert_non_null(self_of(1)->ear.slot);
    assert_int_equal(s->call % 2, 0);
    kit.ops->notifier_polled(kit.peer[1].inst);
    end(0, &a);
    assert_true(is_readable(1, 10000));
}

/* What happens once before an access of that kind. */
static struct {
    const char *what;
    void (*act)(void);
} between;

static void come_between(void *data, const char *what)
{
    void (*act)(void) = between.act;
    (void)data;
    if (act && strcmp(what, between.what) == 0) {
        between.act = NULL;
        act();
    }
}

static void come_before(const char *what, void (*act)(void))
{
    between.what = what;
    between.act = act;
    snib__file_hook.before = come_between;
}

/* Peer 0 holds; who waited in the only slot was killed. */
static struct snib__request leave_a_dead_sleeper(struct snib__name *n)
{
    *n = name_of("waking");
    shape.slots = 1;
    open_peers(3);
    shape.slots = 16;
    struct snib__request a = acquire(0, n);
    pid_t pid = sleeper_process(n);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return a;
}

static struct snib__name name;
static struct snib__request third;

static void one_more_waits(void)
{
    third = acquire(2, &name);
}

/* Its process is not known for an instant: the dead one's still stands there. */
static void the_slot_of_who_has_just_come_is_not_that_of_the_dead(void **state)
{
    (void)state;
    struct snib__request a = leave_a_dead_sleeper(&name);
    come_before("own", one_more_waits);
    struct snib__request b = acquire(1, &name);
    snib__file_hook.before = NULL;
    assert_null(between.act);
    assert_int_equal(third.said.answer, SNIB__QUEUED);
    assert_int_equal(self_of(2)->ear.owner, 0); /* it polls */
    assert_int_equal(self_of(1)->ear.owner, self_of(1)->map.slots->owner);
    end(0, &a);
    assert_int_equal(look(0, &name, SNIB__ROW_HOLDER, NULL), 1);
    assert_int_equal(poll_again(2, &third), SNIB__DONE); /* it came first */
    end(2, &third);
    assert_true(is_notified(1, &b));
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
}

static void somebody_wakes_the_dead(void)
{
    struct snib__file_slot *s = self_of(0)->map.slots;
    assert_int_equal(s->call % 2, 1);
    s->call++;
}

static void who_wakes_the_dead_puts_nobody_to_sleep(void **state)
{
    (void)state;
    struct snib__request a = leave_a_dead_sleeper(&name);
    come_before("awake", somebody_wakes_the_dead);
    struct snib__request b = acquire(1, &name);
    snib__file_hook.before = NULL;
    assert_null(between.act);
    assert_int_equal(b.said.answer, SNIB__QUEUED);
    assert_int_equal(self_of(1)->map.slots->call % 2, 0);
    kit.ops->notifier_polled(kit.peer[1].inst);
    end(0, &a);
    assert_true(is_readable(1, 10000));
}

/* A process that waits, polls when it is told to, and is killed when it was
 * granted the lock. */
static struct {
    pid_t pid;
    int go, did;
} poller;

static void poller_process(struct snib__name *n, const char *about,
                           snib_duration delay)
{
    int go[2], did[2];
    char c;
    assert_int_equal(pipe(go) | pipe(did), 0);
    poller.go = go[1];
    poller.did = did[0];
    poller.pid = fork();
    if (poller.pid == 0) {
        snib__host_read(&host);
        struct peer p = {.client = {8, (uint64_t)getpid()}};
        kit.peer[5].inst = open_file(&p);
        struct snib__request r = request(SNIB__ACQUIRE, n);
        r.id[1] = 79;
        r.lease = snib__ms(60000);
        r.text = about;
        r.text_size = (uint32_t)strlen(about);
        r.acquire.delay = delay;
        for (c = (char)run(5, &r); write(did[1], &c, 1) == 1;
             c = (char)poll_again(5, &r)) {
            if (read(go[0], &c, 1) != 1) {
                break;
            }
        }
        _exit(1);
    }
    close(go[0]);
    close(did[1]);
    assert_int_equal(read(poller.did, &c, 1), 1);
    assert_int_equal(c, SNIB__QUEUED);
}

static void the_poller_works_and_is_killed(void)
{
    char c = 0;
    assert_int_equal(write(poller.go, "", 1), 1);
    assert_int_equal(read(poller.did, &c, 1), 1);
    assert_int_equal(c, SNIB__DONE);
    kill(poller.pid, SIGKILL);
    waitpid(poller.pid, NULL, 0);
    close(poller.go);
    close(poller.did);
}

/* Who grants it to the poller is stopped before it tells so. */
static void grant_late(struct snib__name *n, const char *about,
                       snib_duration delay)
{
    *n = name_of("waking");
    open_peers(2);
    struct snib__request a = acquire(0, n);
    poller_process(n, about, delay);
    struct snib__request b = acquire(1, n);
    assert_int_equal(b.said.position, 2);
    come_before("tell", the_poller_works_and_is_killed);
    end(0, &a);
    snib__file_hook.before = NULL;
    assert_null(between.act);
    third = b;
}

static void a_grant_that_was_taken_and_outlives_its_process_stays(void **state)
{
    (void)state;
    grant_late(&name, "host=h&leashed=1", (snib_duration){0});
    assert_int_equal(poll_again(1, &third), SNIB__QUEUED);
    assert_int_equal(look(0, &name, SNIB__ROW_HOLDER, NULL), 1);
}

static void a_grant_that_was_taken_leaves_its_lock_delay(void **state)
{
    (void)state;
    grant_late(&name, "host=h&pid=1", snib__ms(30000));
    assert_int_equal(poll_again(1, &third), SNIB__QUEUED);
}

static void another_grant_that_was_taken_ends_with_its_process(void **state)
{
    (void)state;
    grant_late(&name, "host=h&pid=1", (snib_duration){0});
    assert_int_equal(poll_again(1, &third), SNIB__DONE);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(who_does_not_wait_has_no_word),
        CASE(a_sleeping_call_is_woken_and_nothing_stands_between),
        CASE(who_was_told_just_before_does_not_sleep),
        CASE(who_slept_before_sleeps_again),
        CASE(a_polled_descriptor_becomes_readable),
        CASE(what_was_told_before_it_is_polled_is_readable),
        CASE(while_a_call_sleeps_it_alone_is_woken),
        CASE(a_killed_sleeper_is_passed_over_at_once),
        CASE(the_slot_of_a_killed_sleeper_begins_awake),
        CASE(the_slot_of_who_has_just_come_is_not_that_of_the_dead),
        CASE(who_wakes_the_dead_puts_nobody_to_sleep),
        CASE(a_grant_that_was_taken_and_outlives_its_process_stays),
        CASE(a_grant_that_was_taken_leaves_its_lock_delay),
        CASE(another_grant_that_was_taken_ends_with_its_process),
    };
    return RUN(cases);
}
