/* examples/threads.c — SNIB_WITH: a block that cannot leak its lock.
 *
 * Eight threads count in a plain variable, nothing but the lock between them.
 * The block is left in four ways; each of them releases. */
#include <pthread.h>
#include <stdio.h>

#include <snib.h>
#include <snib/sys.h>

enum { THREADS = 8, TIMES = 100 };

static struct snib_lock *lock;
static int count;

static int add_one(int how)
{
    struct snib_error e = {0};
    SNIB_WITH (s, lock, NULL, &e) {
        count++;
        if (how == 0) {
            return 0;
        }
        if (how == 1) {
            break;
        }
        if (how == 2) {
            goto out;
        }
    }
    if (e.code) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
        return 1;
    }
out:
    return 0;
}

static void *work(void *data)
{
    int *failures = data;
    for (int i = 0; i < TIMES; i++) {
        *failures += add_one(i % 4);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread[THREADS];
    int failures[THREADS] = {0}, failed = 0;
    struct snib_client *client;
    struct snib_error e;
    snib_err err = snib_client_open(NULL, &client, &e);
    if (!err) {
        err = snib_lock_new(client, "threads", NULL, &lock, &e);
    }
    if (err) {
        fprintf(stderr, "%s: %s\n", snib_err_name(err), e.text);
        return snib_err_exit(err);
    }
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&thread[i], NULL, work, &failures[i]) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        failed += failures[i];
    }
    snib_lock_free(lock);
    snib_client_free(client);
    printf("counted to %d\n", count);
    return failed || count != THREADS * TIMES;
}
