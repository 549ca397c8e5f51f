/* sched.c — who runs next; threads, and runs. What a thread waits for:
 * sched_wait.c. */
#include "sched_i.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../unit/mix.h"
#include "real.h"
#include "unseen.h"

struct sched sched;

struct sched_all sched_all;

_Thread_local int sched_me = -1;

int sched_self(void)
{
    return sched.child ? -1 : sched_me;
}

int64_t sched_now(void)
{
    return sched_all.now;
}

/* -- telling ------------------------------------------------------------------ */

static void stir(uint64_t v)
{
    struct run *r = sched.run;
    r->same = (r->same ^ v) * 0x100000001b3;
    r->same ^= r->same >> 29;
}

static void stir_text(int thread, const char *text)
{
    stir((uint64_t)sched_all.now);
    for (stir((uint64_t)thread); *text; text++) {
        stir((uint8_t)*text);
    }
}

static struct note *op_new(int thread)
{
    UNSEEN;
    struct note *n = &sched_all.note[sched_all.notes++ % NOTES];
    *n = (struct note){.thread = (uint8_t)thread};
    return n;
}

void sched_say(const char *format, ...)
{
    va_list args;
    char text[400];
    UNSEEN;
    if (!sched.run) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    stir_text(sched_all.running, text);
    snprintf(op_new(sched_all.running)->text, sizeof sched_all.note->text,
             "%.40s", text);
}

static void print_trace(void)
{
    uint32_t first = sched_all.notes > NOTES ? sched_all.notes - NOTES : 0;
    for (uint32_t i = first; i < sched_all.notes; i++) {
        const struct note *n = &sched_all.note[i % NOTES];
        if (n->thread == SCHED_WARP) {
            printf("        -- %s\n", n->text);
        } else if (n->text[0]) {
            printf("    %*s%d: %s\n", 2 * n->thread, "", n->thread, n->text);
        } else if (n->object) {
            printf("    %*s%d  %s %p\n", 2 * n->thread, "", n->thread, n->what,
                   n->object);
        } else {
            printf("    %*s%d  %s\n", 2 * n->thread, "", n->thread, n->what);
        }
    }
}

static const char *const waits_for[] = {"runs",
                                        "waits for a mutex",
                                        "waits for a condition",
                                        "sleeps on a word",
                                        "polls",
                                        "sleeps",
                                        "joins",
                                        "is over"};

void sched_fail(const char *format, ...)
{
    va_list args;
    if (sched.child) {
        _exit(99);
    }
    va_start(args, format);
    vsnprintf(sched.run->why, sizeof sched.run->why, format, args);
    va_end(args);
    sched.run->failed = true;
    if (sched.run->verbose) {
        print_trace();
        for (int i = 0; i < sched_all.threads; i++) {
            const struct thread *t = &sched_all.thread[i];
            printf("    thread %d %s%s", i, waits_for[t->waits],
                   i == sched_all.running ? " (now)\n" : "\n");
        }
        fflush(stdout);
    }
    _exit(1);
}

/* -- decisions ------------------------------------------------------------------ */

static uint64_t rnd(void)
{
    return mix(sched_all.random += 0x9e3779b97f4a7c15);
}

int sched_owner_of(const void *mutex)
{
    for (int i = 0; i < sched_all.mutexes; i++) {
        if (sched_all.mutex[i].mutex == mutex) {
            return sched_all.mutex[i].actor_of;
        }
    }
    return -1;
}

void sched_set_owner(const void *mutex, int actor_of)
{
    int i = 0;
    while (i < sched_all.mutexes && sched_all.mutex[i].mutex != mutex) {
        i++;
    }
    if (i == sched_all.mutexes && sched_all.mutexes++ == MUTEXES) {
        sched_fail("the scheduler knows %d mutexes at most", MUTEXES);
    }
    sched_all.mutex[i].mutex = mutex;
    sched_all.mutex[i].actor_of = actor_of;
    if (actor_of >= 0) {
        sched_all.thread[actor_of].holds++;
    }
}

bool sched_is_taken(const void *mutex)
{
    return sched_owner_of(mutex) >= 0;
}

/* Straight to the kernel: a sanitizer would take it for something that the
 * thread whose descriptors these are has done, or that it hears of. */
int sched_poll_now(struct pollfd *fds, nfds_t count)
{
    struct timespec none = {0};
    return (int)REAL(syscall)(SYS_ppoll, fds, count, &none, NULL, 0);
}

static bool can_run(const struct thread *t)
{
    switch (t->waits) {
    case RUNS:
        return true;
    case MUTEX:
        return sched_owner_of(t->object) < 0;
    case CONDITION:
    case WORD:
        return t->woken || t->until <= sched_all.now;
    case DESCRIPTORS:
        return t->until <= sched_all.now || (t->flag && *t->flag) ||
               sched_poll_now(t->fds, t->count) != 0;
    case SLEEP:
        return t->until <= sched_all.now;
    case JOIN:
        return sched_all.thread[t->joins].waits == OVER;
    case OVER:
        return false;
    }
    return false;
}

static int64_t next_limit(void)
{
    int64_t at = INT64_MAX;
    for (int i = 0; i < sched_all.threads; i++) {
        const struct thread *t = &sched_all.thread[i];
        bool limited = t->waits == CONDITION || t->waits == WORD ||
                       t->waits == DESCRIPTORS || t->waits == SLEEP;
        if (limited && t->until > sched_all.now && t->until < at) {
            at = t->until;
        }
    }
    for (int i = 0; i < TIMERS; i++) {
        if (sched_all.timer[i].runs && sched_all.timer[i].at < at) {
            at = sched_all.timer[i].at;
        }
    }
    return at;
}

int64_t sched_next(void)
{
    return next_limit();
}

void sched_fire_timers(void)
{
    for (int i = 0; i < TIMERS; i++) {
        if (sched_all.timer[i].runs && sched_all.timer[i].at <= sched_all.now) {
            uint64_t one = 1;
            sched_all.timer[i].at = INT64_MAX;
            (void)REAL(syscall)(SYS_write, sched_all.timer[i].fd, &one,
                                sizeof one);
        }
    }
}

static void move_time(int64_t to, bool decided)
{
    UNSEEN;
    snprintf(op_new(SCHED_WARP)->text, sizeof sched_all.note->text,
             "%s: %.3f ms pass", decided ? "decided" : "all wait",
             (double)(to - sched_all.now) / 1e6);
    if (decided) {
        sched.run->warps++;
    } else if (++sched.run->quiets > 5000) {
        sched_fail("no end: time has moved %u times", sched.run->quiets);
    }
    sched_all.now = to > sched_all.now ? to : sched_all.now;
    sched_fire_timers();
}

static uint32_t by_chance(const int who[], uint32_t n, bool forced)
{
    bool time_too = who[n - 1] < 0;
    if (time_too && rnd() % 128 == 0) {
        return n - 1;
    }
    n -= time_too;
    if (sched.run->how == SCHED_UNIFORM) {
        uint32_t often = 2 + (uint32_t)(sched.run->seed % 3) * 6;
        return n && (forced || rnd() % often == 0) ? (uint32_t)(rnd() % n) : 0;
    }
    for (int i = 0; i < 4; i++) {
        if (sched_all.change[i] == sched.run->points) {
            sched_all.thread[sched_all.running].priority = --sched_all.lowest;
        }
    }
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (sched_all.thread[who[i]].priority >
            sched_all.thread[who[best]].priority) {
            best = i;
        }
    }
    return best;
}

/* Which of n options; forced: 0 is not "go on". */
static uint32_t decide(const int who[], uint32_t n, bool forced)
{
    struct run *r = sched.run;
    if (n < 2 || !sched.choosing) {
        return 0;
    }
    uint32_t at = r->choices++, option = 0;
    r->options[at] = (uint8_t)n;
    r->forced[at] = forced;
    if (r->how == SCHED_LIST) {
        if (sched_all.next < r->listed && r->list[sched_all.next].at == at) {
            option = r->list[sched_all.next++].option;
        }
    } else {
        option = by_chance(who, n, forced);
        if (option && r->listed < SCHED_DEVIATIONS) {
            r->list[r->listed++] = (struct deviation){at, option};
        }
    }
    if (option >= n) {
        sched_fail("this list is not one of this program: at %u there are %u "
                   "options, not %u",
                   at, n, option + 1);
    }
    return option;
}

/* The next one to run; time moves as far as it has to. */
static int pick(void)
{
    struct run *r = sched.run;
    if (++r->points >= SCHED_POINTS) {
        sched_fail("no end: %u points", r->points);
    }
    for (;;) {
        int who[SCHED_THREADS + 1];
        uint32_t n = 0;
        bool forced = !can_run(&sched_all.thread[sched_all.running]);
        for (int i = 0; i < sched_all.threads; i++) {
            int k = (sched_all.running + i) % sched_all.threads;
            if (can_run(&sched_all.thread[k])) {
                who[n++] = k;
            }
        }
        int64_t limit = next_limit();
        if (!n && limit == INT64_MAX) {
            sched_fail("deadlock: nobody can run, and no limit is ahead");
        }
        if (!n) {
            if (sched.quiet) {
                sched.quiet();
            }
            move_time(limit, false);
            continue;
        }
        if (limit != INT64_MAX) {
            who[n++] = -1;
        }
        int next = who[decide(who, n, forced)];
        if (next >= 0) {
            r->trace = (r->trace ^ (uint64_t)next) * 0x100000001b3;
            return next;
        }
        move_time(limit, true);
    }
}

static void sleep_on(_Atomic uint32_t *word)
{
    while (!atomic_load_explicit(word, memory_order_acquire)) {
        REAL(syscall)(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    }
    atomic_store_explicit(word, 0, memory_order_relaxed);
}

static void wake_thread(int next)
{
    struct thread *t = &sched_all.thread[next];
    sched_all.running = next;
    atomic_store_explicit(&t->baton, 1, memory_order_release);
    REAL(syscall)(SYS_futex, &t->baton, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Whoever comes back may run: what it waited for is there. */
static void reschedule(void)
{
    int next = pick();
    if (next != sched_me) {
        wake_thread(next);
        sleep_on(&sched_all.thread[sched_me].baton);
    }
}

void sched_note(const char *what, const void *object)
{
    struct note *n = op_new(sched_me);
    n->what = what;
    n->object = object;
    stir_text(sched_me, what);
}

void sched_point(const char *what, const void *object)
{
    struct thread *t = &sched_all.thread[sched_me];
    sched_note(what, object);
    if (!t->fresh) {
        t->fresh = true;
        reschedule();
    }
}

/* A descriptor is used. Under a mutex it is as if it came with the unlock:
 * whoever hears of it has to take that mutex. */
void sched_touch(const char *what)
{
    if (sched_all.thread[sched_me].holds) {
        sched_note(what, NULL);
    } else {
        sched_point(what, NULL);
    }
    sched_all.thread[sched_me].fresh = false;
}

void sched_did(void)
{
    sched_all.thread[sched_me].fresh = false;
}

void sched_wait_here(wait_kind kind, const void *object, int64_t until)
{
    struct thread *t = &sched_all.thread[sched_me];
    t->waits = kind;
    t->object = object;
    t->until = until;
    t->woken = false;
    if (sched.child) {
        _exit(98); /* nobody will wake it */
    }
    reschedule();
    t->waits = RUNS;
    t->fresh = false;
}

bool sched_others_run(void)
{
    for (int i = 0; i < sched_all.threads; i++) {
        if (i != sched_me && can_run(&sched_all.thread[i])) {
            return true;
        }
    }
    return false;
}

bool sched_sleeps(int thread)
{
    return sched_all.thread[thread].waits == SLEEP;
}

/* -- threads ------------------------------------------------------------------------- */

static void *thread_body(void *arg)
{
    struct thread *t = arg;
    sched_me = (int)(t - sched_all.thread);
    sleep_on(&t->baton);
    void *ret = t->body(t->arg);
    t->waits = OVER;
    sched_note("is over", NULL);
    wake_thread(pick());
    return ret;
}

static struct thread *thread_new(void *(*body)(void *), void *arg)
{
    UNSEEN;
    if (sched_all.threads == SCHED_THREADS) {
        sched_fail("more than %d threads", SCHED_THREADS);
    }
    struct thread *t = &sched_all.thread[sched_all.threads];
    *t = (struct thread){.waits = RUNS,
                         .body = body,
                         .arg = arg,
                         .priority = 1000000 + (uint32_t)(rnd() % 1000000)};
    return t;
}

int sched_create(pthread_t *ret, void *(*body)(void *), void *arg)
{
    struct thread *t = thread_new(body, arg);
    int err = REAL(pthread_create)(&t->id, NULL, thread_body, t);
    if (!err) {
        *ret = t->id;
        sched_all.threads++;
        sched_say("starts thread %d", sched_all.threads - 1);
        sched_did();
        sched_point("create", NULL);
    }
    return err;
}

int sched_join(pthread_t id)
{
    int k = 0;
    while (k < sched_all.threads &&
           (sched_all.thread[k].joined ||
            !pthread_equal(sched_all.thread[k].id, id))) {
        k++;
    }
    if (k == sched_all.threads) {
        sched_fail("a thread is joined twice, or never was");
    }
    sched_point("join", NULL);
    if (sched_all.thread[k].joined) {
        sched_fail("thread %d is joined by two threads", k);
    }
    sched_all.thread[k].joined = true;
    while (sched_all.thread[k].waits != OVER) {
        sched_all.thread[sched_me].joins = k;
        sched_wait_here(JOIN, NULL, INT64_MAX);
    }
    return REAL(pthread_join)(id, NULL);
}

int sched_detach(pthread_t id)
{
    int k = 0;
    while (k < sched_all.threads &&
           (sched_all.thread[k].joined ||
            !pthread_equal(sched_all.thread[k].id, id))) {
        k++;
    }
    if (k == sched_all.threads) {
        sched_fail("a thread is detached twice, or never was");
    }
    sched_all.thread[k].joined = true;
    return REAL(pthread_detach)(id);
}

/* -- runs ------------------------------------------------------------------------------ */

void sched_begin(struct run *r)
{
    memset(sched_all.thread, 0, sizeof sched_all.thread);
    sched_all.threads = 1;
    sched_all.running = sched_me = 0;
    sched_all.thread[0].id = pthread_self();
    sched_all.now = INT64_C(1000000) * 1000000;
    sched_all.mutexes = 0;
    for (int i = 0; i < TIMERS; i++) {
        sched_all.timer[i].fd = -1;
        sched_all.timer[i].at = INT64_MAX;
        sched_all.timer[i].runs = false;
    }
    sched_all.next = sched_all.notes = 0;
    sched_all.random = r->seed * 0x9e3779b97f4a7c15 + 1;
    sched_all.lowest = 900000;
    for (int i = 0; i < 4; i++) {
        sched_all.change[i] = (uint32_t)(rnd() % 400);
    }
    r->choices = r->points = r->warps = r->quiets = 0;
    r->listed = r->how == SCHED_LIST ? r->listed : 0;
    r->trace = r->same = 0xcbf29ce484222325;
    r->failed = false;
    r->why[0] = 0;
    sched.run = r;
    sched.choosing = false;
}

void sched_end(void)
{
    for (int i = 1; i < sched_all.threads; i++) {
        if (sched_all.thread[i].waits != OVER || !sched_all.thread[i].joined) {
            sched_fail("thread %d was left behind", i);
        }
    }
    if (sched.run->how == SCHED_LIST && sched_all.next < sched.run->listed) {
        sched_fail("this list is not one of this program: it ended after %u "
                   "choices",
                   sched.run->choices);
    }
    if (sched.run->verbose) {
        print_trace();
    }
    sched_me = -1;
    sched.quiet = NULL;
}

void sched_in_child(void)
{
    sched.child = true;
}
