/* sched.c — who runs next, and what each thread waits for. */
#include "sched.h"

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

enum { MUTEXES = 128, TIMERS = 16, NOTES = 4000 };

typedef enum wait_kind {
    RUNS,
    MUTEX,
    CONDITION,
    WORD,
    DESCRIPTORS,
    SLEEP,
    JOIN,
    OVER
} wait_kind;

struct thread {
    wait_kind waits;
    const void *object; /* mutex, condition, word                          */
    const bool *flag;   /* DESCRIPTORS: ends it, too                       */
    struct pollfd *fds;
    nfds_t count;
    int64_t until;
    int joins;
    bool woken;  /* CONDITION, WORD                                        */
    bool fresh;  /* nothing visible was done since the last point          */
    bool joined; /* over, and somebody knows                               */
    int holds;   /* mutexes                                                */
    uint32_t priority;
    _Atomic uint32_t baton;
    pthread_t id;
    void *(*body)(void *);
    void *arg;
};

struct sched sched;

static struct {
    struct thread thread[SCHED_THREADS];
    int threads, running;
    int64_t now;
    struct {
        const void *mutex;
        int actor_of; /* -1: free                                             */
    } mutex[MUTEXES];
    int mutexes;
    struct {
        int fd;
        int64_t at; /* INT64_MAX: not armed                                */
        bool runs;
    } timer[TIMERS];
    uint32_t next; /* in run->list                                         */
    uint64_t random;
    uint32_t change[8]; /* SCHED_PRIORITIES: points of change              */
    uint32_t lowest;
    struct note {
        uint8_t thread;
        const char *what;
        const void *object;
        char text[48];
    } note[NOTES];
    uint32_t notes;
} all;

static _Thread_local int self = -1;

int sched_self(void)
{
    return sched.child ? -1 : self;
}

int64_t sched_now(void)
{
    return all.now;
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
    stir((uint64_t)all.now);
    for (stir((uint64_t)thread); *text; text++) {
        stir((uint8_t)*text);
    }
}

static struct note *op_new(int thread)
{
    UNSEEN;
    struct note *n = &all.note[all.notes++ % NOTES];
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
    stir_text(all.running, text);
    snprintf(op_new(all.running)->text, sizeof all.note->text, "%.40s", text);
}

static void print_trace(void)
{
    uint32_t first = all.notes > NOTES ? all.notes - NOTES : 0;
    for (uint32_t i = first; i < all.notes; i++) {
        const struct note *n = &all.note[i % NOTES];
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
        for (int i = 0; i < all.threads; i++) {
            const struct thread *t = &all.thread[i];
            printf("    thread %d %s%s", i, waits_for[t->waits],
                   i == all.running ? " (now)\n" : "\n");
        }
        fflush(stdout);
    }
    _exit(1);
}

/* -- decisions ------------------------------------------------------------------ */

static uint64_t rnd(void)
{
    return mix(all.random += 0x9e3779b97f4a7c15);
}

static int owner_of(const void *mutex)
{
    for (int i = 0; i < all.mutexes; i++) {
        if (all.mutex[i].mutex == mutex) {
            return all.mutex[i].actor_of;
        }
    }
    return -1;
}

static void set_owner(const void *mutex, int actor_of)
{
    int i = 0;
    while (i < all.mutexes && all.mutex[i].mutex != mutex) {
        i++;
    }
    if (i == all.mutexes && all.mutexes++ == MUTEXES) {
        sched_fail("the scheduler knows %d mutexes at most", MUTEXES);
    }
    all.mutex[i].mutex = mutex;
    all.mutex[i].actor_of = actor_of;
    if (actor_of >= 0) {
        all.thread[actor_of].holds++;
    }
}

bool sched_is_taken(const void *mutex)
{
    return owner_of(mutex) >= 0;
}

/* Straight to the kernel: a sanitizer would take it for something that the
 * thread whose descriptors these are has done, or that it hears of. */
static int poll_now(struct pollfd *fds, nfds_t count)
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
        return owner_of(t->object) < 0;
    case CONDITION:
    case WORD:
        return t->woken || t->until <= all.now;
    case DESCRIPTORS:
        return t->until <= all.now || (t->flag && *t->flag) ||
               poll_now(t->fds, t->count) != 0;
    case SLEEP:
        return t->until <= all.now;
    case JOIN:
        return all.thread[t->joins].waits == OVER;
    case OVER:
        return false;
    }
    return false;
}

static int64_t next_limit(void)
{
    int64_t at = INT64_MAX;
    for (int i = 0; i < all.threads; i++) {
        const struct thread *t = &all.thread[i];
        bool limited = t->waits == CONDITION || t->waits == WORD ||
                       t->waits == DESCRIPTORS || t->waits == SLEEP;
        if (limited && t->until > all.now && t->until < at) {
            at = t->until;
        }
    }
    for (int i = 0; i < TIMERS; i++) {
        if (all.timer[i].runs && all.timer[i].at < at) {
            at = all.timer[i].at;
        }
    }
    return at;
}

int64_t sched_next(void)
{
    return next_limit();
}

static void fire_timers(void)
{
    for (int i = 0; i < TIMERS; i++) {
        if (all.timer[i].runs && all.timer[i].at <= all.now) {
            uint64_t one = 1;
            all.timer[i].at = INT64_MAX;
            (void)REAL(syscall)(SYS_write, all.timer[i].fd, &one, sizeof one);
        }
    }
}

static void move_time(int64_t to, bool decided)
{
    UNSEEN;
    snprintf(op_new(SCHED_WARP)->text, sizeof all.note->text,
             "%s: %.3f ms pass", decided ? "decided" : "all wait",
             (double)(to - all.now) / 1e6);
    if (decided) {
        sched.run->warps++;
    } else if (++sched.run->quiets > 5000) {
        sched_fail("no end: time has moved %u times", sched.run->quiets);
    }
    all.now = to > all.now ? to : all.now;
    fire_timers();
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
        if (all.change[i] == sched.run->points) {
            all.thread[all.running].priority = --all.lowest;
        }
    }
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (all.thread[who[i]].priority > all.thread[who[best]].priority) {
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
        if (all.next < r->listed && r->list[all.next].at == at) {
            option = r->list[all.next++].option;
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
        bool forced = !can_run(&all.thread[all.running]);
        for (int i = 0; i < all.threads; i++) {
            int k = (all.running + i) % all.threads;
            if (can_run(&all.thread[k])) {
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
    struct thread *t = &all.thread[next];
    all.running = next;
    atomic_store_explicit(&t->baton, 1, memory_order_release);
    REAL(syscall)(SYS_futex, &t->baton, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Whoever comes back may run: what it waited for is there. */
static void reschedule(void)
{
    int next = pick();
    if (next != self) {
        wake_thread(next);
        sleep_on(&all.thread[self].baton);
    }
}

static void note(const char *what, const void *object)
{
    struct note *n = op_new(self);
    n->what = what;
    n->object = object;
    stir_text(self, what);
}

void sched_point(const char *what, const void *object)
{
    struct thread *t = &all.thread[self];
    note(what, object);
    if (!t->fresh) {
        t->fresh = true;
        reschedule();
    }
}

/* A descriptor is used. Under a mutex it is as if it came with the unlock:
 * whoever hears of it has to take that mutex. */
void sched_touch(const char *what)
{
    if (all.thread[self].holds) {
        note(what, NULL);
    } else {
        sched_point(what, NULL);
    }
    all.thread[self].fresh = false;
}

/* Something that others may see was done: the next point is one. */
static void did(void)
{
    all.thread[self].fresh = false;
}

static void wait_here(wait_kind kind, const void *object, int64_t until)
{
    struct thread *t = &all.thread[self];
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
    for (int i = 0; i < all.threads; i++) {
        if (i != self && can_run(&all.thread[i])) {
            return true;
        }
    }
    return false;
}

bool sched_sleeps(int thread)
{
    return all.thread[thread].waits == SLEEP;
}

/* -- mutexes, conditions, words ---------------------------------------------------- */

void sched_lock(const void *mutex)
{
    if (owner_of(mutex) == self) {
        sched_fail("a mutex is taken twice by thread %d", self);
    }
    sched_point("lock", mutex);
    while (owner_of(mutex) >= 0) {
        wait_here(MUTEX, mutex, INT64_MAX);
    }
    set_owner(mutex, self);
    did();
}

bool sched_trylock(const void *mutex)
{
    if (owner_of(mutex) >= 0) {
        return false;
    }
    set_owner(mutex, self);
    did();
    return true;
}

void sched_unlock(const void *mutex)
{
    if (owner_of(mutex) != self) {
        sched_fail("thread %d gives back a mutex of thread %d", self,
                   owner_of(mutex));
    }
    set_owner(mutex, -1);
    all.thread[self].holds--;
    did();
    sched_point("unlock", mutex);
}

void sched_destroy(const void *mutex)
{
    for (int i = 0; i < all.threads; i++) {
        const struct thread *t = &all.thread[i];
        if (t->waits == MUTEX && t->object == mutex) {
            sched_fail("a mutex is destroyed for which thread %d waits", i);
        }
    }
    if (owner_of(mutex) >= 0) {
        sched_fail("a mutex is destroyed that thread %d has", owner_of(mutex));
    }
    for (int i = 0; i < all.mutexes; i++) { /* its memory may be reused */
        if (all.mutex[i].mutex == mutex) {
            all.mutex[i] = all.mutex[--all.mutexes];
        }
    }
}

/* False: the limit. */
bool sched_cond_wait(const void *cond, const void *mutex, int64_t until)
{
    sched_point("wait for condition", cond);
    if (owner_of(mutex) != self) {
        sched_fail("a condition is waited for without its mutex");
    }
    set_owner(mutex, -1);
    all.thread[self].holds--;
    wait_here(CONDITION, cond, until);
    bool woken = all.thread[self].woken;
    while (owner_of(mutex) >= 0) {
        wait_here(MUTEX, mutex, INT64_MAX);
    }
    set_owner(mutex, self);
    return woken;
}

static void wake(wait_kind kind, const void *object, bool every)
{
    for (int i = 0; i < all.threads; i++) {
        struct thread *t = &all.thread[i];
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
    note("signal", cond);
    wake(CONDITION, cond, every);
    did();
}

bool sched_word_wait(const void *word, int64_t until)
{
    wait_here(WORD, word, until);
    return all.thread[self].woken;
}

void sched_word_wake(const void *word)
{
    wake(WORD, word, false);
    did();
}

/* -- descriptors, time ---------------------------------------------------------------- */

int sched_poll(struct pollfd *fds, nfds_t count, int64_t until,
               const bool *flag)
{
    struct thread *t = &all.thread[self];
    sched_point("poll", NULL);
    int ready = poll_now(fds, count);
    while (!ready && until > all.now && !(flag && *flag)) {
        t->fds = fds;
        t->count = count;
        t->flag = flag;
        wait_here(DESCRIPTORS, NULL, until);
        ready = poll_now(fds, count);
    }
    did();
    return ready;
}

void sched_sleep(int64_t until)
{
    sched_point("sleep", NULL);
    if (until > all.now) {
        wait_here(SLEEP, NULL, until);
    }
}

static int slot_of(int fd)
{
    for (int i = 0; i < TIMERS; i++) {
        if (all.timer[i].fd == fd) {
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
    all.timer[i].fd = fd;
    all.timer[i].at = INT64_MAX;
    all.timer[i].runs = runs;
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
    all.timer[i].at = at;
    fire_timers();
    did();
}

bool sched_timer_steps(int fd)
{
    int i = slot_of(fd);
    return i >= 0 && !all.timer[i].runs;
}

void sched_step(void)
{
    for (int i = 0; i < TIMERS; i++) {
        if (all.timer[i].fd >= 0 && !all.timer[i].runs &&
            all.timer[i].at != INT64_MAX) {
            uint64_t one = 1;
            (void)REAL(syscall)(SYS_write, all.timer[i].fd, &one, sizeof one);
        }
    }
    did();
}

void sched_jump(int64_t ns)
{
    all.now += ns;
    fire_timers();
    did();
}

void sched_closed(int fd)
{
    int i = slot_of(fd);
    if (i >= 0) {
        all.timer[i].fd = -1;
        all.timer[i].runs = false;
        all.timer[i].at = INT64_MAX;
    }
    for (int k = 0; k < all.threads && !sched.child; k++) {
        const struct thread *t = &all.thread[k];
        for (nfds_t n = 0; t->waits == DESCRIPTORS && n < t->count; n++) {
            if (t->fds[n].fd == fd) {
                sched_fail("descriptor %d is closed while thread %d polls it",
                           fd, k);
            }
        }
    }
}

/* -- threads ------------------------------------------------------------------------- */

static void *thread_body(void *arg)
{
    struct thread *t = arg;
    self = (int)(t - all.thread);
    sleep_on(&t->baton);
    void *ret = t->body(t->arg);
    t->waits = OVER;
    note("is over", NULL);
    wake_thread(pick());
    return ret;
}

static struct thread *thread_new(void *(*body)(void *), void *arg)
{
    UNSEEN;
    if (all.threads == SCHED_THREADS) {
        sched_fail("more than %d threads", SCHED_THREADS);
    }
    struct thread *t = &all.thread[all.threads];
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
        all.threads++;
        sched_say("starts thread %d", all.threads - 1);
        did();
        sched_point("create", NULL);
    }
    return err;
}

int sched_join(pthread_t id)
{
    int k = 0;
    while (k < all.threads &&
           (all.thread[k].joined || !pthread_equal(all.thread[k].id, id))) {
        k++;
    }
    if (k == all.threads) {
        sched_fail("a thread is joined twice, or never was");
    }
    sched_point("join", NULL);
    if (all.thread[k].joined) {
        sched_fail("thread %d is joined by two threads", k);
    }
    all.thread[k].joined = true;
    while (all.thread[k].waits != OVER) {
        all.thread[self].joins = k;
        wait_here(JOIN, NULL, INT64_MAX);
    }
    return REAL(pthread_join)(id, NULL);
}

int sched_detach(pthread_t id)
{
    int k = 0;
    while (k < all.threads &&
           (all.thread[k].joined || !pthread_equal(all.thread[k].id, id))) {
        k++;
    }
    if (k == all.threads) {
        sched_fail("a thread is detached twice, or never was");
    }
    all.thread[k].joined = true;
    return REAL(pthread_detach)(id);
}

/* -- runs ------------------------------------------------------------------------------ */

void sched_begin(struct run *r)
{
    memset(all.thread, 0, sizeof all.thread);
    all.threads = 1;
    all.running = self = 0;
    all.thread[0].id = pthread_self();
    all.now = INT64_C(1000000) * 1000000;
    all.mutexes = 0;
    for (int i = 0; i < TIMERS; i++) {
        all.timer[i].fd = -1;
        all.timer[i].at = INT64_MAX;
        all.timer[i].runs = false;
    }
    all.next = all.notes = 0;
    all.random = r->seed * 0x9e3779b97f4a7c15 + 1;
    all.lowest = 900000;
    for (int i = 0; i < 4; i++) {
        all.change[i] = (uint32_t)(rnd() % 400);
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
    for (int i = 1; i < all.threads; i++) {
        if (all.thread[i].waits != OVER || !all.thread[i].joined) {
            sched_fail("thread %d was left behind", i);
        }
    }
    if (sched.run->how == SCHED_LIST && all.next < sched.run->listed) {
        sched_fail("this list is not one of this program: it ended after %u "
                   "choices",
                   sched.run->choices);
    }
    if (sched.run->verbose) {
        print_trace();
    }
    self = -1;
    sched.quiet = NULL;
}

void sched_in_child(void)
{
    sched.child = true;
}
