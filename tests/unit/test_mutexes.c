/* What every test program is watched for (tests/harness/mutexes.c): each
 * misuse of a mutex ends it, and says which it was. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "unit.h"

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* In a program of its own, as far as the watch can tell: what it said before
 * it was ended; "" if it came to its end. */
static const char *said_by(void (*act)(void))
{
    static char said[1000];
    size_t size = 0;
    ssize_t n;
    int status, ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        act();
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

static void unlock_what_is_free(void)
{
    pthread_mutex_unlock(&plain);
}

static void lock_twice(void)
{
    pthread_mutex_lock(&plain);
    pthread_mutex_lock(&plain);
}

static void wait_without_it(void)
{
    pthread_cond_wait(&changed, &plain);
}

static void wait_a_time_without_it(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    pthread_cond_timedwait(&changed, &plain, &now);
}

static void destroy_what_is_locked(void)
{
    pthread_mutex_lock(&plain);
    pthread_mutex_destroy(&plain);
}

static int lock_and_end(void *unused)
{
    (void)unused;
    return pthread_mutex_lock(&plain);
}

static void end_a_thread_that_has_it(void)
{
    thrd_t thread;
    thrd_create(&thread, lock_and_end, NULL);
    thrd_join(thread, NULL);
}

static int unlock(void *unused)
{
    (void)unused;
    return pthread_mutex_unlock(&plain);
}

static void unlock_another_threads(void)
{
    thrd_t thread;
    pthread_mutex_lock(&plain);
    thrd_create(&thread, unlock, NULL);
    thrd_join(thread, NULL);
}

/* main() of the same program, with a word. */
static void end_the_program_with_it(void)
{
    execl("/proc/self/exe", "mutexes", "end", (char *)NULL);
}

static void each_misuse_ends_the_program(void **state)
{
    static const struct {
        void (*act)(void);
        const char *said;
    } rows[] = {
        {unlock_what_is_free, "unlocked that this thread has not"},
        {unlock_another_threads, "unlocked that this thread has not"},
        {lock_twice, "locked that this thread has"},
        {wait_without_it, "a wait without the mutex"},
        {wait_a_time_without_it, "a wait without the mutex"},
        {destroy_what_is_locked, "destroyed that somebody has"},
        {end_a_thread_that_has_it, "a thread ends that has a mutex"},
        {end_the_program_with_it, "the program ends with a mutex locked"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_non_null(strstr(said_by(rows[i].act), rows[i].said));
    }
}

static void use_them_well(void)
{
    struct timespec now;
    pthread_mutexattr_t twice;
    pthread_mutex_t recursive;
    pthread_mutexattr_init(&twice);
    pthread_mutexattr_settype(&twice, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &twice);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    pthread_mutex_unlock(&recursive);
    clock_gettime(CLOCK_REALTIME, &now);
    pthread_mutex_timedlock(&plain, &now);
    pthread_cond_timedwait(&changed, &plain, &now);
    pthread_mutex_trylock(&plain); /* refused: nothing is had by that */
    pthread_mutex_unlock(&recursive);
    pthread_mutex_unlock(&plain);
    pthread_mutex_destroy(&recursive);
}

static void what_is_allowed_is_let_through(void **state)
{
    (void)state;
    assert_string_equal(said_by(use_them_well), "");
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest cases[] = {
        cmocka_unit_test(each_misuse_ends_the_program),
        cmocka_unit_test(what_is_allowed_is_let_through),
    };
    if (argc > 1 && strcmp(argv[1], "end") == 0) {
        return pthread_mutex_lock(&plain);
    }
    return RUN(cases);
}
