/* bench/peers/turns.c — one client that takes a lock again and again, and says when
 * it had it: a line a grant, CLOCK_MONOTONIC in nanoseconds (failover.py).
 *
 * usage: snib-turns URL NAME */
#include <stdio.h>
#include <time.h>

#include <snib.h>

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int count, char **args)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *client;
    struct snib_lock *lock;
    struct snib_grant g;
    struct snib_error e;
    if (count != 3) {
        fprintf(stderr, "usage: snib-turns URL NAME\n");
        return 64;
    }
    o.url = args[1];
    if (snib_client_open(&o, &client, &e) ||
        snib_lock_new(client, args[2], NULL, &lock, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    for (;;) {
        if (snib_acquire(lock, NULL, &g, &e)) {
            fprintf(stderr, "%s\n", e.text);
            pause_ms(50);
            continue;
        }
        printf("%lld\n", now());
        fflush(stdout);
        (void)snib_release(lock, g, NULL);
        pause_ms(2);
    }
}
