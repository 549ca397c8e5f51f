/* examples/semaphore.c — three licences, eight jobs.
 *
 * Each job takes one permit while it runs; permits of a job that dies come
 * back when its lease ends. Then all of them are drained, to close for
 * maintenance, and the semaphore is made larger. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <snib.h>
#include <snib/semaphore.h>
#include <snib/sys.h>

enum { LICENCES = 3, JOBS = 8 };

static struct snib_client *client;
static struct snib_lock *licence;
static atomic_int running, most, finished, failed;

static int fail(const struct snib_error *e)
{
    fprintf(stderr, "%s: %s\n", snib_err_name(e->code), e->text);
    failed++;
    return 1;
}

static void *job(void *unused)
{
    struct snib_grant g;
    struct snib_error e;
    (void)unused;
    if (snib_acquire(licence, NULL, &g, &e)) {
        fail(&e);
        return NULL;
    }
    int now = atomic_fetch_add(&running, 1) + 1, seen = most;
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now)) {
    }
    finished++; /* the work */
    atomic_fetch_sub(&running, 1);
    if (snib_release(licence, g, &e)) {
        fail(&e);
    }
    return NULL;
}

static int maintenance(void)
{
    struct snib_semaphore s;
    struct snib_grant all;
    struct snib_error e;
    uint32_t taken;
    if (snib_semaphore_drain(licence, NULL, &all, &taken, &e) ||
        snib_semaphore_add(client, "licences", 0, 2, &e) ||
        snib_semaphore_get(client, "licences", 0, &s, sizeof s, &e)) {
        return fail(&e);
    }
    printf("drained %u; now %lld of %lld in use\n", taken, (long long)s.used,
           (long long)s.size);
    return snib_release(licence, all, &e) ? fail(&e) : 0;
}

int main(void)
{
    struct snib_lock_options options = SNIB_INIT(snib_lock_options);
    struct snib_error e;
    pthread_t thread[JOBS];
    options.kind = SNIB_KIND_PERMITS;
    options.capacity = LICENCES; /* the size, if it has none yet            */
    if (snib_client_open(NULL, &client, &e) ||
        snib_semaphore_set(client, "licences", 0, LICENCES, false, NULL, &e) ||
        snib_lock_new(client, "licences", &options, &licence, &e)) {
        fail(&e);
        return snib_err_exit(e.code);
    }
    for (int i = 0; i < JOBS; i++) {
        pthread_create(&thread[i], NULL, job, NULL);
    }
    for (int i = 0; i < JOBS; i++) {
        pthread_join(thread[i], NULL);
    }
    printf("%d jobs, never more than %d at once: %s\n", finished, LICENCES,
           most <= LICENCES ? "yes" : "no");
    int status = maintenance() || failed || most > LICENCES;
    snib_lock_free(licence);
    snib_client_free(client);
    return status;
}
