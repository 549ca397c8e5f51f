/* walk.c — acquires a free lock once and prints each function that its thread
 * enters: "depth address", behind the address of main. For walk.py, which
 * compiles the library with -finstrument-functions around it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "snib.h"

enum { MOST = 4096 };

#define UNSEEN __attribute__((no_instrument_function))

void __cyg_profile_func_enter(void *function, void *site) UNSEEN;
void __cyg_profile_func_exit(void *function, void *site) UNSEEN;

static _Thread_local int on, depth, count;
static _Thread_local struct {
    void *function;
    int depth;
} step[MOST];

void __cyg_profile_func_enter(void *function, void *site)
{
    (void)site;
    if (on && count < MOST) {
        step[count].function = function;
        step[count++].depth = depth;
    }
    depth++;
}

void __cyg_profile_func_exit(void *function, void *site)
{
    (void)function;
    (void)site;
    depth--;
}

UNSEEN static void must(snib_err err, const struct snib_error *e)
{
    if (err) {
        fprintf(stderr, "walk: %s\n", e->text);
        exit(1);
    }
}

UNSEEN static long long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* Only the first token of a millisecond tells the server's time, and a way
 * through the files goes with that. */
UNSEEN static void until_another_millisecond(void)
{
    for (long long t = now_ms(); now_ms() <= t + 1;) {
    }
}

UNSEEN int main(int argc, char **argv)
{
    struct snib_client *client;
    struct snib_lock *lock;
    struct snib_grant grant;
    struct snib_error e;

    (void)argc;
    struct snib_client_options options = SNIB_INIT(snib_client_options);
    options.url = argv[1];
    must(snib_client_open(&options, &client, &e), &e);
    must(snib_lock_new(client, "walk", NULL, &lock, &e), &e);
    /* What only the first one does is not shown: connecting, threads. */
    must(snib_acquire(lock, NULL, &grant, &e), &e);
    must(snib_release(lock, grant, &e), &e);
    until_another_millisecond();
    depth = 0;
    on = 1;
    must(snib_acquire(lock, NULL, &grant, &e), &e);
    on = 0;
    printf("main %p\n", (void *)main);
    for (int i = 0; i < count; i++) {
        printf("%d %p\n", step[i].depth, step[i].function);
    }
    return 0;
}
