/* tests/unit/file_threads.h — the threads of unit.file_same, on stacks of their
 * own: they run when the world lets them, until they sleep on a word of the
 * file. See file_world.h. */
#ifndef SNIB_TESTS_FILE_THREADS_H
#define SNIB_TESTS_FILE_THREADS_H

#include "driver/park.h"
#include "file_host.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { THREADS = 12, STACK = 128 * 1024 };

static struct thread {
    enum { NONE, READY, ASLEEP, OVER } state;
    int who; /* the client whose it is                                      */
    ucontext_t at;
    uint8_t *stack;
    void *(*start)(void *);
    void *arg;
    const struct node *node; /* ASLEEP: on this word of it                  */
    uint64_t offset;
} threads[THREADS];

static struct thread *running; /* NULL: none                                */
static ucontext_t world;

static void thread_body(void)
{
    (void)running->start(running->arg);
    running->state = OVER;
    swapcontext(&running->at, &world);
}

static void thread_run(struct thread *t)
{
    int who = w.who;
    assert_null(running);
    running = t;
    w.who = t->who;
    t->state = READY;
    swapcontext(&world, &t->at);
    w.who = who;
    running = NULL;
}

static void thread_forget(struct thread *t)
{
    free(t->stack);
    *t = (struct thread){.state = NONE};
}

/* Those who were woken, or think so, go on. */
static void threads_run(void)
{
    for (int i = 0; i < THREADS; i++) {
        if (threads[i].state == READY ||
            (threads[i].state == ASLEEP && chance("wakes for nothing", 9))) {
            thread_run(&threads[i]);
        }
    }
}

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attr,
                          void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr,
                          void *(*start)(void *), void *arg)
{
    size_t size = 0;
    sigset_t blocked;
    if (!same.on) {
        return __real_pthread_create(ret, attr, start, arg);
    }
    pthread_attr_getstacksize(attr, &size);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    tell("thread of %zu, TERM is blocked: %d", size,
         sigismember(&blocked, SIGTERM));
    if (falters("thread")) {
        return EAGAIN;
    }
    int i = 0;
    while (threads[i].state != NONE) {
        i++;
        assert_true(i < THREADS);
    }
    struct thread *t = &threads[i];
    *t = (struct thread){.state = READY,
                         .who = w.who,
                         .stack = malloc(STACK),
                         .start = start,
                         .arg = arg};
    assert_non_null(t->stack);
    getcontext(&t->at);
    t->at.uc_stack.ss_sp = t->stack;
    t->at.uc_stack.ss_size = STACK;
    makecontext(&t->at, thread_body, 0);
    *ret = (pthread_t)i + 1;
    return 0;
}

int __real_pthread_join(pthread_t thread, void **ret);
int __wrap_pthread_join(pthread_t thread, void **ret)
{
    if (!same.on) {
        return __real_pthread_join(thread, ret);
    }
    struct thread *t = &threads[thread - 1];
    tell("joins");
    for (int i = 0; i < 3 && t->state == READY; i++) {
        thread_run(t);
    }
    if (t->state != OVER) {
        tell("a thread does not end");
        same_end();
    }
    thread_forget(t);
    return 0;
}

int __real_pthread_attr_init(pthread_attr_t *ret);
int __wrap_pthread_attr_init(pthread_attr_t *ret)
{
    return same.on && falters("attr") ? ENOMEM : __real_pthread_attr_init(ret);
}

/* -- calls that sleep ------------------------------------------------------------------- */

/* A caller's thread of each client: what it would do is a move. */
enum { SLEEPERS = 8 };

static struct sleeper {
    _Atomic uint32_t *word; /* NULL: it is awake                            */
    uint32_t value;
    bool woken; /* or it did not fall asleep                                */
} sleepers[SLEEPERS];

static void sleeper_wakes(int client)
{
    struct sleeper *s = &sleepers[client];
    if (s->word) {
        tell("client %d has slept, %d %d", client, s->woken,
             *s->word == s->value);
        (void)snib__park_leave_shared(s->word, s->value);
        s->word = NULL;
    }
}

/* -- the words on which they sleep ------------------------------------------------------ */

static long sleep_on(const uint32_t *word, uint32_t seen,
                     const struct node *node, uint64_t offset)
{
    if (*(const volatile uint32_t *)word != seen) {
        return fault(EAGAIN);
    }
    if (!running) { /* a client itself: others go on meanwhile              */
        w.now += 300 * MS;
        meanwhile();
        return fault(ETIMEDOUT);
    }
    running->state = ASLEEP;
    running->node = node;
    running->offset = offset;
    swapcontext(&running->at, &world);
    return chance("interrupted", 9) ? fault(EINTR) : 0;
}

static long wake(const struct node *node, uint64_t offset, uint32_t most)
{
    uint32_t n = 0;
    for (int i = 0; i < THREADS; i++) {
        struct thread *t = &threads[i];
        if (n < most && t->state == ASLEEP && t->node == node &&
            t->offset == offset) {
            t->state = READY;
            n++;
        }
    }
    for (int i = 0; i < SLEEPERS; i++) {
        struct sleeper *s = &sleepers[i];
        uint64_t at;
        if (n < most && s->word && !s->woken &&
            mapped_at((void *)s->word, &at) == node && at == offset) {
            s->woken = true;
            n++;
        }
    }
    return n;
}

long __wrap_syscall(long number, ...)
{
    va_list list;
    va_start(list, number);
    uint32_t *word = va_arg(list, uint32_t *);
    int what = va_arg(list, int) & 127;
    uint32_t value = va_arg(list, uint32_t);
    va_end(list);
    uint64_t offset = 0;
    const struct node *node = mapped_at(word, &offset);
    tell("syscall %ld %d %u at %llu", number, what,
         what == FUTEX_WAIT ? 0 : value, (unsigned long long)offset);
    assert_true(number == SYS_futex && node);
    return what == FUTEX_WAIT || what == FUTEX_WAIT_BITSET
               ? sleep_on(word, value, node, offset)
               : wake(node, offset, value);
}

#endif
