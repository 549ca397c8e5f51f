/* sched_wait.c — what a thread waits for: mutexes, conditions, words,
 * descriptors, time. */
#include "sched_i.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

/* -- mutexes, conditions, words -------------------------------------------- */

void sched_lock(const void *mutex)
{
    if (sched_owner_of(mutex) == sched_me) {
        sched_fail("a mutex is taken twice by thread %d", sched_me);
    }
    sched_point("lock", mutex);
    while (sched_owner_of(mutex) >= 0) {
        sched_wait_here(MUTEX, mutex, INT64_MAX);
    }
    sched_set_owner(mutex, sched_me);
    sched_did();
}

bool sched_trylock(const void *mutex)
{
    if (sched_owner_of(mutex) >= 0) {
        return false;
    }
    sched_set_owner(mutex, sched_me);
    sched_did();
    return true;
}

void sched_unlock(const void *mutex)
{
    if (sched_owner_of(mutex) != sched_me) {
        sched_fail("thread %d gives back a mutex of thread %d", sched_me,
                   sched_owner_of(mutex));
    }
    sched_set_owner(mutex, -1);
    sched_all.thread[sched_me].holds--;
    sched_did();
    sched_point("unlock", mutex);
}

void sched_destroy(const void *mutex)
{
    for (int i = 0; i < sched_all.threads; i++) {
        const struct thread *t = &sched_all.thread[i];
        if (t->waits == MUTEX && t->object == mutex) {
            sched_fail("a mutex is destroyed for which thread %d waits", i);
        }
    }
    if (sched_owner_of(mutex) >= 0) {
        sched_fail("a mutex is destroyed that thread %d has",
                   sched_owner_of(mutex));
    }
    for (int i = 0; i < sched_all.mutexes; i++) { /* its memory may be reused */
        if (sched_all.mutex[i].mutex == mutex) {
            sched_all.mutex[i] = sched_all.mutex[--sched_all.mutexes];
        }
    }
}

/* False: the limit. */
bool sched_cond_wait(const void *cond, const void *mutex, int64_t until)
{
    sched_point("wait for condition", cond);
    if (sched_owner_of(mutex) != sched_me) {
        sched_fail("a condition is waited for without its mutex");
    }
    sched_set_owner(mutex, -1);
    sched_all.thread[sched_me].holds--;
    sched_wait_here(CONDITION, cond, until);
    bool woken = sched_all.thread[sched_me].woken;
    while (sched_owner_of(mutex) >= 0) {
        sched_wait_here(MUTEX, mutex, INT64_MAX);
    }
    sched_set_owner(mutex, sched_me);
    return woken;
}

static void wake(wait_kind kind, const void *object, bool every)
{
    for (int i = 0; i < sched_all.threads; i++) {
        struct thread *t = &sched_all.thread[i];
        if (t->waits == kind && t->object == object && !t->woken) {
            t->woken = true;
            if (!every) {
                return;
            }
        }
    }
}

void sched_cond_wake(const void *cond, bool every)
{
    sched_note("signal", cond);
    wake(CONDITION, cond, every);
    sched_did();
}

bool sched_word_wait(const void *word, int64_t until)
{
    sched_wait_here(WORD, word, until);
    return sched_all.thread[sched_me].woken;
}

void sched_word_wake(const void *word)
{
    wake(WORD, word, false);
    sched_did();
}

/* -- descriptors, time ----------------------------------------------------- */

int sched_poll(struct pollfd *fds, nfds_t count, int64_t until,
               const bool *flag)
{
    struct thread *t = &sched_all.thread[sched_me];
    sched_point("poll", NULL);
    int ready = sched_poll_now(fds, count);
    while (!ready && until > sched_all.now && !(flag && *flag)) {
        t->fds = fds;
        t->count = count;
        t->flag = flag;
        sched_wait_here(DESCRIPTORS, NULL, until);
        ready = sched_poll_now(fds, count);
    }
    sched_did();
    return ready;
}

void sched_sleep(int64_t until)
{
    sched_point("sleep", NULL);
    if (until > sched_all.now) {
        sched_wait_here(SLEEP, NULL, until);
    }
}

static int slot_of(int fd)
{
    for (int i = 0; i < TIMERS; i++) {
        if (sched_all.timer[i].fd == fd) {
            return i;
        }
    }
    return -1;
}

int sched_timer_new(bool runs)
{
    int i = slot_of(-1),
        fd = (int)REAL(syscall)(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0 || i < 0) {
        sched_fail("no room for a timer");
    }
    sched_all.timer[i].fd = fd;
    sched_all.timer[i].at = INT64_MAX;
    sched_all.timer[i].runs = runs;
    return fd;
}

void sched_timer_set(int fd, int64_t at)
{
    int i = slot_of(fd);
    uint64_t ignored;
    if (i < 0) {
        sched_fail("a timer is set that there is not");
    }
    (void)REAL(syscall)(SYS_read, fd, &ignored, sizeof ignored);
    sched_all.timer[i].at = at;
    sched_fire_timers();
    sched_did();
}

bool sched_timer_steps(int fd)
{
    int i = slot_of(fd);
    return i >= 0 && !sched_all.timer[i].runs;
}

void sched_step(void)
{
    for (int i = 0; i < TIMERS; i++) {
        if (sched_all.timer[i].fd >= 0 && !sched_all.timer[i].runs &&
            sched_all.timer[i].at != INT64_MAX) {
            uint64_t one = 1;
            (void)REAL(syscall)(SYS_write, sched_all.timer[i].fd, &one,
                                sizeof one);
        }
    }
    sched_did();
}

void sched_jump(int64_t ns)
{
    sched_all.now += ns;
    sched_fire_timers();
    sched_did();
}

void sched_closed(int fd)
{
    int i = slot_of(fd);
    if (i >= 0) {
        sched_all.timer[i].fd = -1;
        sched_all.timer[i].runs = false;
        sched_all.timer[i].at = INT64_MAX;
    }
    for (int k = 0; k < sched_all.threads && !sched.child; k++) {
        const struct thread *t = &sched_all.thread[k];
        for (nfds_t n = 0; t->waits == DESCRIPTORS && n < t->count; n++) {
            if (t->fds[n].fd == fd) {
                sched_fail("descriptor %d is closed while thread %d polls it",
                           fd, k);
            }
        }
    }
}
