/* examples/rw.c — many readers, one writer; upgrade and downgrade.
 *
 * Threads read a price, which has two halves that belong together. Now and
 * then one finds it old and becomes the writer without letting go of what it
 * read (upgrade), then goes on reading what it wrote (downgrade): nobody can
 * write in between, either time. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <snib.h>
#include <snib/sys.h>

enum { THREADS = 4, ROUNDS = 20, OLD_EVERY = 5 };

static struct snib_lock *reading, *writing;
static long net = 100, gross = 200; /* under the lock                       */
static atomic_int torn, written, failed;

static void check(void)
{
    if (gross != 2 * net) {
        torn++;
    }
}

static int fail(const struct snib_error *e)
{
    fprintf(stderr, "%s: %s\n", snib_err_name(e->code), e->text);
    failed++;
    return 1;
}

/* From reader to writer and back. *r is the read lock, before and after. */
static int refresh(struct snib_grant *r)
{
    struct snib_grant w;
    struct snib_error e;
    snib_err err = snib_acquire(writing, NULL, &w, &e);
    if (err == SNIB_ERR_DEADLOCK) {
        /* Another reader is becoming the writer and waits for us to go. What
         * we read may be different afterwards. */
        snib_release(reading, *r, NULL);
        if (snib_acquire(writing, NULL, &w, &e) ||
            snib_acquire(reading, NULL, r, &e)) { /* at once, beside it    */
            return fail(&e);
        }
    } else if (err) {
        return fail(&e);
    }
    check();
    net++; /* a real store would check w.token, the fencing token           */
    gross = 2 * net;
    written++;
    return snib_release(writing, w, &e) ? fail(&e) : 0; /* still reading    */
}

static void *work(void *number)
{
    for (int i = 1; i <= ROUNDS && !failed; i++) {
        struct snib_grant r;
        struct snib_error e;
        if (snib_acquire(reading, NULL, &r, &e)) {
            fail(&e);
            break;
        }
        check();
        if ((i + *(int *)number) % OLD_EVERY == 0 && refresh(&r)) {
            break;
        }
        check();
        if (snib_release(reading, r, &e)) {
            fail(&e);
        }
    }
    return NULL;
}

int main(void)
{
    struct snib_lock_options read = SNIB_INIT(snib_lock_options);
    struct snib_lock_options write = SNIB_INIT(snib_lock_options);
    struct snib_client *client;
    struct snib_error e;
    pthread_t thread[THREADS];
    int number[THREADS];
    read.kind = SNIB_KIND_READ;
    write.kind = SNIB_KIND_WRITE;
    if (snib_client_open(NULL, &client, &e) ||
        snib_lock_new(client, "price", &read, &reading, &e) ||
        snib_lock_new(client, "price", &write, &writing, &e)) {
        fail(&e);
        return snib_err_exit(e.code);
    }
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        pthread_create(&thread[i], NULL, work, &number[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    snib_lock_free(reading);
    snib_lock_free(writing);
    snib_client_free(client);
    printf("written %d times, read torn %d times\n", written, torn);
    return torn || failed;
}
