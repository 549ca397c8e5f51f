/* api/elect_i.h — the inside of a candidate, for elect.c and elect_watch.c. */
#ifndef SNIB__ELECT_I_H
#define SNIB__ELECT_I_H

#include "api/api.h"
#include "driver/clock.h"
#include "snib/elect.h"

enum {
    SNIB__ELECT_STORY_MAX = 8,
    SNIB__NS_OF_MS = 1000000,
    SNIB__NS_OF_S = 1000000000
};

struct snib__chapter {
    snib_elect_state state;
    int64_t term;
};

struct snib_elect {
    struct snib_client *client;
    struct snib_lock *lock;
    char *id;
    void (*on_change)(void *, snib_elect_state, int64_t);
    void *data;

    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool campaigning, telling;
    struct snib_grant grant; /* ticket 0: none                             */
    uint64_t gone;           /* ticket of the last one given back          */
    struct snib__chapter story[SNIB__ELECT_STORY_MAX];
    size_t chapters;
    uint64_t changes; /* how often a term began or ended here              */
};

/* What the candidate holds, or ticket 0. */
struct snib_grant snib__elect_grant(struct snib_elect *);
/* With mu held: wait until something changes here, or until ns of
 * snib__elect_now. */
void snib__elect_wait_until(struct snib_elect *, int64_t ns);

static inline int64_t snib__elect_now(void)
{
    return snib__clock_ns(CLOCK_MONOTONIC);
}

#endif
