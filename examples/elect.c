/* examples/elect.c — three candidates, one leader at a time.
 *
 * Each thread stands for election twice, leads for a moment, and resigns; an
 * observer prints who leads. In a real program each candidate is on a host of
 * its own and leads for days. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <snib.h>
#include <snib/elect.h>
#include <snib/sys.h>

enum { CANDIDATES = 3, TERMS = 2 };

static struct snib_client *client;
static atomic_int leaders;          /* at this instant: 0 or 1              */
static int64_t last_term;           /* the resource's mark, the leader's    */
static atomic_int served, mistakes; /* terms led; rules broken              */

static void told(void *id, snib_elect_state state, int64_t term)
{
    /* On our thread for LEADER and FOLLOWER, on the library's for the rest. */
    if (state == SNIB_ELECT_LEADER_LOST) {
        fprintf(stderr, "%s lost term %lld\n", (const char *)id,
                (long long)term);
    }
}

static void lead(struct snib_elect *me, int64_t term)
{
    if (atomic_fetch_add(&leaders, 1) != 0 || term <= last_term) {
        atomic_fetch_add(&mistakes, 1);
    }
    last_term = term; /* what is written to would refuse a lower one */
    for (int step = 0; step < 3 && snib_elect_leading(me); step++) {
        ; /* a step of the leader's work, each after asking */
    }
    atomic_fetch_add(&served, 1);
    atomic_fetch_sub(&leaders, 1);
}

static void *candidate(void *id)
{
    struct snib_elect_options o = SNIB_INIT(snib_elect_options);
    struct snib_elect *me;
    struct snib_error e = {0};
    int64_t term;
    o.id = id;
    o.on_change = told;
    o.data = id;
    if (snib_elect_new(client, "example-leader", &o, &me, &e)) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
        return NULL;
    }
    for (int i = 0; i < TERMS && !e.code; i++) {
        if (snib_elect_try_for(me, 20000, &term, &e) == SNIB_ERR_OK) {
            lead(me, term);
            snib_elect_resign(me, &e); /* the next one leads at once */
        }
    }
    if (e.code) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
    }
    snib_elect_free(me);
    return NULL;
}

/* Who leads, until nobody does any more. */
static int observe(void)
{
    struct snib_elect *eyes; /* it never campaigns */
    struct snib_leader *now;
    struct snib_error e;
    int64_t term = 0;
    snib_err err = snib_elect_new(client, "example-leader", NULL, &eyes, &e);
    while (!err && atomic_load(&served) < CANDIDATES * TERMS) {
        err = snib_elect_watch_for(eyes, term, 100, &now, &e);
        if (err == SNIB_ERR_TIMEOUT) {
            err = SNIB_ERR_OK;
        } else if (!err) {
            term = now->term;
            fprintf(stderr, "led by %s\n", term ? now->id : "nobody");
            snib_leader_free(now);
        }
    }
    if (err) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
    } else {
        snib_elect_free(eyes);
    }
    return err != SNIB_ERR_OK;
}

int main(void)
{
    static char ids[CANDIDATES][8] = {"anna", "ben", "cleo"};
    pthread_t thread[CANDIDATES];
    struct snib_error e;
    if (snib_client_open(NULL, &client, &e)) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
        return snib_err_exit(e.code);
    }
    for (int i = 0; i < CANDIDATES; i++) {
        pthread_create(&thread[i], NULL, candidate, ids[i]);
    }
    int failed = observe();
    for (int i = 0; i < CANDIDATES; i++) {
        pthread_join(thread[i], NULL);
    }
    snib_client_free(client);
    printf("%d terms, %d mistakes\n", atomic_load(&served),
           atomic_load(&mistakes));
    return failed || atomic_load(&mistakes) != 0;
}
