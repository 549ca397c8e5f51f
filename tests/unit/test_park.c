/* tests/unit/test_park.c — the word on which a call sleeps.
 * labels: thread */
#include "unit.h"

#include <pthread.h>
#include <time.h>

#include "driver/park.h"

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void an_awake_word_is_not_marked(void **state)
{
    (void)state;
    snib__word w;
    atomic_init(&w, SNIB__AWAKE);
    assert_false(snib__park_mark(&w));
}

static void a_word_is_marked_once(void **state)
{
    (void)state;
    snib__word w;
    atomic_init(&w, SNIB__AWAKE);
    snib__park_prepare(&w);
    assert_true(snib__park_mark(&w));
    assert_false(snib__park_mark(&w));
    snib__park_finish(&w);
    assert_false(snib__park_mark(&w));
}

static void a_marked_word_does_not_sleep(void **state)
{
    (void)state;
    snib__word w;
    atomic_init(&w, SNIB__AWAKE);
    snib__park_prepare(&w);
    assert_true(snib__park_mark(&w));
    int64_t t = now_ns();
    snib__park_wait(&w, INT64_C(60000000000));
    assert_true(now_ns() - t < INT64_C(30000000000));
}

static void patience_ends_the_sleep(void **state)
{
    (void)state;
    snib__word w;
    atomic_init(&w, SNIB__AWAKE);
    snib__park_prepare(&w);
    int64_t t = now_ns();
    while (now_ns() - t < 2000000) { /* it may wake for no reason */
        snib__park_wait(&w, 2000000);
    }
    assert_int_equal(atomic_load(&w), SNIB__ASLEEP);
}

static void no_patience_is_no_sleep(void **state)
{
    (void)state;
    snib__word w;
    atomic_init(&w, SNIB__AWAKE);
    snib__park_prepare(&w);
    snib__park_wait(&w, 0);
    snib__park_wait(&w, -1);
}

/* Two threads hand one token to and fro, as calls do: mark under the mutex,
 * wake after it. A lost wake-up would take the whole patience. */
struct table {
    pthread_mutex_t mu;
    snib__word word[2];
    int claim, rounds;
};

static void play(struct table *t, int me)
{
    pthread_mutex_lock(&t->mu);
    while (t->rounds > 0) {
        if (t->claim != me) {
            snib__park_prepare(&t->word[me]);
            pthread_mutex_unlock(&t->mu);
            snib__park_wait(&t->word[me], INT64_C(60000000000));
            pthread_mutex_lock(&t->mu);
            snib__park_finish(&t->word[me]);
            continue;
        }
        t->claim = !me;
        t->rounds--;
        bool wake = snib__park_mark(&t->word[!me]);
        pthread_mutex_unlock(&t->mu);
        if (wake) {
            snib__park_wake(&t->word[!me]);
        }
        pthread_mutex_lock(&t->mu);
    }
    bool wake = snib__park_mark(&t->word[!me]);
    pthread_mutex_unlock(&t->mu);
    if (wake) {
        snib__park_wake(&t->word[!me]);
    }
}

static void *other(void *arg)
{
    play(arg, 1);
    return NULL;
}

static void no_wake_is_lost_between_two_threads(void **state)
{
    (void)state;
    struct table t = {.mu = PTHREAD_MUTEX_INITIALIZER, .rounds = 20000};
    pthread_t thread;
    int64_t start = now_ns();
    assert_int_equal(pthread_create(&thread, NULL, other, &t), 0);
    play(&t, 0);
    pthread_join(thread, NULL);
    assert_true(now_ns() - start < INT64_C(50000000000));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(an_awake_word_is_not_marked),
        cmocka_unit_test(a_word_is_marked_once),
        cmocka_unit_test(a_marked_word_does_not_sleep),
        cmocka_unit_test(patience_ends_the_sleep),
        cmocka_unit_test(no_patience_is_no_sleep),
        cmocka_unit_test(no_wake_is_lost_between_two_threads),
    };
    return RUN(cases);
}
