/* tests/unit/test_multi_cancel.c — a cancel of a multi takes its mutex before
 * it says so. labels: thread
 *
 * Whoever looks at `cancelled` under the mutex (an acquire that is about to
 * wait) must not see it change there; so this program looks inside the handle. */
#include "api/multi_i.h"

#include "unit.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct snib_error e;
static _Atomic pid_t canceller;

static void *cancels(void *arg)
{
    atomic_store(&canceller, (pid_t)syscall(SYS_gettid));
    snib_multi_cancel(arg);
    return NULL;
}

/* State letter of a thread of this process; 0: not there (yet). */
static char state_of(pid_t tid)
{
    char path[64], text[512] = "", *p;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    FILE *f = tid ? fopen(path, "re") : NULL;
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) {
        fclose(f);
    }
    p = n ? strrchr(text, ')') : NULL;
    return p ? p[2] : 0;
}

static void a_cancel_waits_for_who_looks_at_it(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_lock *lock[2];
    struct snib_multi *m;
    struct timespec nap = {.tv_nsec = 1000000};
    pthread_t thread;
    o.url = "memory:multi-cancel";
    assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(snib_lock_new(c, i ? "a" : "b", NULL, &lock[i], &e),
                         SNIB_ERR_OK);
    }
    assert_int_equal(snib_multi_new(lock, 2, NULL, &m, &e), SNIB_ERR_OK);
    pthread_mutex_lock(&m->mu);
    pthread_create(&thread, NULL, cancels, m);
    for (int i = 0; i < 20000 && state_of(atomic_load(&canceller)) != 'S';
         i++) {
        nanosleep(&nap, NULL);
    }
    assert_int_equal(state_of(atomic_load(&canceller)), 'S');
    bool seen = m->cancelled;
    pthread_mutex_unlock(&m->mu);
    pthread_join(thread, NULL);
    assert_false(seen);
    assert_true(m->cancelled);
    /* From here on nobody waits for it: one attempt, or CANCELLED at once. */
    struct snib_grant g[2], mine;
    assert_int_equal(snib_multi_try(m, NULL, g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_multi_release(m, g, &e), SNIB_ERR_OK);
    struct snib_acquire_options other = SNIB_INIT(snib_acquire_options);
    other.owner = snib_owner_new();
    assert_int_equal(snib_try(lock[0], &other, &mine, &e), SNIB_ERR_OK);
    assert_int_equal(snib_multi_try(m, NULL, g, &e), SNIB_ERR_BUSY);
    assert_int_equal(snib_multi_acquire(m, NULL, g, &e), SNIB_ERR_CANCELLED);
    assert_non_null(strstr(e.text, "'b': "));
    assert_true(!g[0].ticket && !g[1].ticket);
    assert_int_equal(snib_release(lock[0], mine, &e), SNIB_ERR_OK);
    snib_multi_free(m);
    snib_lock_free(lock[0]);
    snib_lock_free(lock[1]);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_cancel_waits_for_who_looks_at_it),
    };
    return RUN(cases);
}
