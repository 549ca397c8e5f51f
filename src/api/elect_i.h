/* api/elect_i.h — the inside of a candidate, for elect.c, elect_start.c and
 * elect_watch.c. */
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

/* A campaign, or a resignation, that was started. */
struct snib__elect_op {
    struct snib__op op;
    struct snib_elect *elect; /* NULL: it was freed                         */
    struct snib__elect_op *next;
    int64_t *ret_term;
    bool campaign;
    bool quit; /* resigned: what the campaign got is given back              */
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
    struct snib__elect_op *started; /* their events were not taken yet       */
    struct snib__elect_watch *watches; /* the same                           */
};

/* All of these with mu held. */

/* A change of the candidate's state is to be told. */
void snib__elect_note(struct snib_elect *, snib_elect_state, int64_t term);
/* Tell, with mu released meanwhile. Not while a call campaigns. */
void snib__elect_tell(struct snib_elect *);
/* A grant is heard of, perhaps for the first time: its term begins. */
void snib__elect_begin_term(struct snib_elect *, struct snib_grant);
void snib__elect_end_term(struct snib_elect *);
/* True: it leads, and *ret_term is set. A term that is over is cleared away.
 * Releases mu meanwhile. */
bool snib__elect_leads(struct snib_elect *, int64_t *ret_term);
/* It campaigns from now on. Errors: USAGE (it does so already). */
snib_err snib__elect_stands(struct snib_elect *, struct snib_error *reterr);
/* The campaign that was started, or NULL. */
struct snib__elect_op *snib__elect_started(const struct snib_elect *);
/* End it. Releases mu meanwhile. */
void snib__elect_quit(struct snib_elect *, struct snib__elect_op *campaign);

/* These without. */

/* The candidate is being freed: cancel the watches that were started. */
void snib__elect_unwatch(struct snib_elect *);
/* Give a grant of the candidate back in the background. */
void snib__elect_give_back(struct snib_elect *, struct snib_grant);
/* NOT_HELD: there is nothing to resign. */
snib_err snib__elect_nothing(struct snib_error *reterr);

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
