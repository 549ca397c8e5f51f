/* base/mem.h */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "unit.h"

static void new_memory_is_zeroed_and_counted(void **state)
{
    (void)state;
    int64_t before = snib__mem_alive();
    char *p = snib__alloc(100);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(p[i], 0);
    }
    assert_true(snib__mem_alive() == before + 1);
    p = snib__realloc(p, 1000);
    assert_true(snib__mem_alive() == before + 1);
    snib__free(p);
    assert_true(snib__mem_alive() == before);
}

static void null_is_freed_and_reallocated(void **state)
{
    (void)state;
    int64_t before = snib__mem_alive();
    snib__free(NULL);
    assert_true(snib__mem_alive() == before);
    void *p = snib__realloc(NULL, 10);
    assert_non_null(p);
    assert_true(snib__mem_alive() == before + 1);
    snib__free(p);
}

static void size_zero_is_a_block_of_its_own(void **state)
{
    (void)state;
    void *p = snib__alloc(0), *q = snib__alloc(0);
    assert_non_null(p);
    assert_non_null(q);
    assert_ptr_not_equal(p, q);
    q = snib__realloc(q, 0);
    assert_non_null(q);
    snib__free(p);
    snib__free(q);
}

static void copies_end_in_a_nul(void **state)
{
    (void)state;
    char *s = snib__strdup("abc"), *d = snib__memdup("a\0c", 3);
    char *none = snib__memdup(NULL, 0);
    assert_string_equal(s, "abc");
    assert_memory_equal(d, "a\0c", 4);
    assert_string_equal(none, "");
    assert_null(snib__strdup(NULL));
    snib__free(s);
    snib__free(d);
    snib__free(none);
}

static void the_nth_allocation_fails_once(void **state)
{
    (void)state;
    for (int nth = 1; nth < 5; nth++) {
        void *p[6];
        snib__mem_fail_at(nth, false);
        for (int i = 0; i < 6; i++) {
            p[i] = snib__alloc(1);
            assert_int_equal(p[i] == NULL, i + 1 == nth);
        }
        for (int i = 0; i < 6; i++) {
            snib__free(p[i]);
        }
    }
}

static void or_it_and_all_after_it_fail(void **state)
{
    (void)state;
    snib__mem_fail_at(2, true);
    void *p = snib__alloc(1);
    assert_non_null(p);
    assert_null(snib__alloc(1));
    assert_null(snib__realloc(p, 100)); /* p is still good                  */
    assert_null(snib__strdup("x"));
    snib__mem_fail_at(0, false);
    p = snib__realloc(p, 100);
    assert_non_null(p);
    snib__free(p);
}

static _Atomic bool over;
static _Atomic int refused;

static void *allocate(void *unused)
{
    (void)unused;
    while (!atomic_load(&over)) {
        void *p = snib__alloc(1);
        refused += p == NULL;
        snib__free(p);
    }
    return NULL;
}

static void of_several_threads_one_meets_it(void **state)
{
    enum { THREADS = 3, TIMES = 2000 };
    pthread_t thread[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, allocate, NULL), 0);
    }
    for (int n = 1; n <= TIMES; n++) {
        snib__mem_fail_at(1 + n % 3, false);
        while (atomic_load(&refused) < n) {
            sched_yield();
        }
    }
    void *p = snib__alloc(1);
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    snib__mem_fail_at(0, false);
    assert_int_equal(refused, TIMES);
    assert_non_null(p);
    snib__free(p);
}

static void a_secret_is_wiped_and_then_there_is_none(void **state)
{
    int64_t before = snib__mem_alive();
    char *secret = snib__strdup("s3cret");
    (void)state;
    snib__wipe(&secret);
    assert_null(secret);
    snib__wipe(&secret);
    assert_true(snib__mem_alive() == before);
}

static void *left;

static void it_is_left(void **state)
{
    (void)state;
    left = snib__alloc(1);
}

/* What a case leaves fails the program, although cmocka is content. */
static bool what_is_left_is_noticed(void)
{
    const struct CMUnitTest leaves[] = {cmocka_unit_test(it_is_left)};
    bool noticed = RUN(leaves) != 0;
    snib__free(left);
    return noticed;
}

int main(void)
{
    const struct CMUnitTest mem[] = {
        cmocka_unit_test(new_memory_is_zeroed_and_counted),
        cmocka_unit_test(null_is_freed_and_reallocated),
        cmocka_unit_test(size_zero_is_a_block_of_its_own),
        cmocka_unit_test(copies_end_in_a_nul),
        cmocka_unit_test(the_nth_allocation_fails_once),
        cmocka_unit_test(or_it_and_all_after_it_fail),
        cmocka_unit_test(of_several_threads_one_meets_it),
        cmocka_unit_test(a_secret_is_wiped_and_then_there_is_none),
    };
    return what_is_left_is_noticed() ? RUN(mem) : 1;
}
