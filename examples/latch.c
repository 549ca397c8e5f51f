/* examples/latch.c — wait for others: a latch, then a barrier.
 *
 * Three workers load something; the main thread awaits the latch that they
 * count down. Then the workers compute in rounds: none begins the next before
 * all have ended this one. They might as well be processes on three hosts. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <snib.h>
#include <snib/latch.h>
#include <snib/sys.h>

enum { WORKERS = 3, ROUNDS = 2, LIMIT_MS = 20000 };

static struct snib_client *client;
static atomic_int loaded, ended[ROUNDS], mistakes;

static int fail(const struct snib_error *e)
{
    fprintf(stderr, "%s: %s\n", snib_err_name(e->code), e->text);
    mistakes++;
    return 1;
}

static void *work(void *unused)
{
    int64_t generation, last = 0;
    struct snib_error e;
    (void)unused;
    loaded++;
    if (snib_latch_count_down(client, "loaded", 0, 1, NULL, &e)) {
        fail(&e);
    }
    for (int i = 0; i < ROUNDS; i++) {
        ended[i]++;
        if (snib_barrier_try_for(client, "round", 0, WORKERS, LIMIT_MS,
                                 &generation, &e)) {
            fail(&e);
            break;
        }
        if (ended[i] != WORKERS || generation <= last) {
            mistakes++;
        }
        last = generation;
    }
    return NULL;
}

int main(void)
{
    struct snib_error e;
    pthread_t thread[WORKERS];
    bool fresh;
    /* What an earlier run that was killed has left: begin anew. */
    if (snib_client_open(NULL, &client, &e) ||
        snib_latch_open(client, "loaded", 0, &e) ||
        snib_latch_set(client, "loaded", 0, WORKERS, &fresh, &e)) {
        fail(&e);
        return snib_err_exit(e.code);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_create(&thread[i], NULL, work, NULL);
    }
    if (snib_latch_try_for(client, "loaded", 0, LIMIT_MS, &e)) {
        fail(&e);
    } else {
        printf("loaded by %d of %d\n", loaded, WORKERS);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(thread[i], NULL);
    }
    snib_client_free(client);
    printf("%d rounds, %d mistakes\n", ROUNDS, mistakes);
    return mistakes != 0;
}
