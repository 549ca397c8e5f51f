/* examples/multi.c — two accounts, both locks or none.
 *
 * Four threads move money between two accounts in both directions. Each names
 * its locks in the order of its own transfer; no order deadlocks. */
#include <pthread.h>
#include <stdio.h>

#include <snib.h>
#include <snib/multi.h>
#include <snib/sys.h>

enum { THREADS = 4, TRANSFERS = 50 };

static struct snib_client *client;
static long balance[2] = {1000, 1000}; /* each under its lock               */

/* Move 1 from account `from` to the other; 0: done. */
static int transfer(int from)
{
    static const char *const names[] = {"account:1", "account:2"};
    struct snib_lock *locks[2] = {NULL, NULL}; /* source, target            */
    struct snib_multi *both = NULL;
    struct snib_grant g[2];
    struct snib_error e;
    int failed = 1;
    if (snib_lock_new(client, names[from], NULL, &locks[0], &e) == 0 &&
        snib_lock_new(client, names[!from], NULL, &locks[1], &e) == 0 &&
        snib_multi_new(locks, 2, NULL, &both, &e) == 0 &&
        snib_multi_try_for(both, 10000, NULL, g, &e) == 0) {
        balance[from]--; /* a real store would check g[0].token … */
        balance[!from]++;
        failed = snib_multi_release(both, g, &e) != 0;
    }
    if (failed) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
    }
    snib_multi_free(both);
    snib_lock_free(locks[0]);
    snib_lock_free(locks[1]);
    return failed;
}

static void *teller(void *which)
{
    for (int i = 0; i < TRANSFERS; i++) {
        if (transfer(*(int *)which % 2)) {
            break;
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t thread[THREADS];
    int number[THREADS];
    struct snib_error e;
    if (snib_client_open(NULL, &client, &e)) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
        return snib_err_exit(e.code);
    }
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        pthread_create(&thread[i], NULL, teller, &number[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    snib_client_free(client);
    printf("%ld and %ld\n", balance[0], balance[1]);
    return balance[0] + balance[1] != 2000;
}
