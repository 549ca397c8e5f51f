/* tests/unit/test_step.c — driver/driver.h: what needs a client's mutex ends the
 * process when it is called without, in a development build.
 * Each such call is made in a child. */
#include "unit.h"

#ifdef SNIB_CHECKS

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/driver.h"

static struct snib_client *c;
static struct snib_lock *lock;

static int setup(void **state)
{
    struct snib_client_options o = {.size = sizeof o, .url = "memory:step"};
    (void)state;
    return snib_client_open(&o, &c, NULL) ||
           snib_lock_new(c, "x", NULL, &lock, NULL);
}

static int teardown(void **state)
{
    (void)state;
    snib_lock_free(lock);
    snib_client_free(c);
    return 0;
}

static void act(struct snib__step *s)
{
    snib__step_act(s);
}

static void begin_a_call(struct snib__step *s)
{
    struct snib__call call;
    snib__call_begin(s, &call, SNIB__CALL_IDLE, SNIB__NEVER);
}

static void acquire(struct snib__step *s)
{
    static const struct snib__how how;
    uint64_t ticket;
    bool open;
    (void)snib__hold_acquire(s, lock, &how, SNIB__NEVER, 1, NULL, NULL, NULL,
                             &open, &ticket, NULL);
}

static void release(struct snib__step *s)
{
    bool open;
    (void)snib__hold_release(s, lock, 1, 1, NULL, NULL, &open, NULL);
}

static void detach(struct snib__step *s)
{
    (void)snib__hold_detach(s, 1, 1, NULL);
}

static void (*const needs[])(struct snib__step *) = {act, begin_a_call, acquire,
                                                     release, detach};

/* What a child says on standard error before it is ended; "" if it is not. */
static const char *said_by(void (*wrong)(void (*)(struct snib__step *)),
                           void (*need)(struct snib__step *))
{
    static char said[1000];
    size_t size = 0;
    ssize_t n;
    int status, ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        wrong(need);
        _exit(0);
    }
    close(ends[1]);
    while ((n = read(ends[0], said + size, sizeof said - 1 - size)) > 0) {
        size += (size_t)n;
    }
    said[size] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (size == 0) {
        assert_int_equal(status, 0);
    } else {
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
    return said;
}

static void after_a_pause(void (*need)(struct snib__step *))
{
    struct snib__step s;
    snib__step_begin(&s, c);
    snib__step_pause(&s);
    need(&s);
}

static struct snib__step theirs;

static void *have_it(void *ready)
{
    snib__step_begin(&theirs, c);
    sem_post(ready);
    pause(); /* until the process is ended */
    return NULL;
}

static void while_another_thread_has_it(void (*need)(struct snib__step *))
{
    pthread_t other;
    sem_t ready;
    if (sem_init(&ready, 0, 0) ||
        pthread_create(&other, NULL, have_it, &ready) || sem_wait(&ready)) {
        _exit(1);
    }
    need(&theirs);
}

static void *give_it(void *changed)
{
    struct snib__step s;
    snib__step_begin(&s, c);
    pthread_cond_signal(changed);
    snib__step_end(&s);
    return NULL;
}

/* After such a wait the mutex is this thread's again. */
static void after_a_wait(void (*need)(struct snib__step *))
{
    pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    pthread_t other;
    struct snib__step s;
    snib__step_begin(&s, c);
    if (pthread_create(&other, NULL, give_it, &changed)) {
        _exit(1);
    }
    snib__mu_wait(c, &changed);
    need(&s);
    snib__step_end(&s);
    pthread_join(other, NULL);
}

static void without_the_mutex_it_ends_the_process(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(needs); i++) {
        assert_non_null(strstr(said_by(after_a_pause, needs[i]), "is_mine"));
    }
}

static void with_the_mutex_of_another_thread_it_ends_the_process(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(needs); i++) {
        assert_non_null(
            strstr(said_by(while_another_thread_has_it, needs[i]), "is_mine"));
    }
}

static void with_the_mutex_it_goes_on(void **state)
{
    (void)state;
    assert_string_equal(said_by(after_a_wait, act), "");
}

int main(void)
{
    const struct CMUnitTest step[] = {
        cmocka_unit_test_setup_teardown(without_the_mutex_it_ends_the_process,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            with_the_mutex_of_another_thread_it_ends_the_process, setup,
            teardown),
        cmocka_unit_test_setup_teardown(with_the_mutex_it_goes_on, setup,
                                        teardown),
    };
    return RUN(step);
}

#else

int main(void)
{
    print_message("skipped: built without SNIB_CHECKS\n");
    return 77;
}

#endif
