/* api/multi_i.h — the inside of a multi, for multi.c, attempt.c and those that
 * carry an attempt out: multi_acquire.c (calls), multi_start.c (starts). */
#ifndef SNIB__MULTI_I_H
#define SNIB__MULTI_I_H

#include "api/api.h"
#include "driver/clock.h"
#include "snib/multi.h"

enum { SNIB__MULTI_CHUNK = 8 };

struct snib__part {
    struct snib_lock *lock;
    size_t index; /* its index among the locks as given */
};

struct snib_multi {
    size_t count;
    pthread_mutex_t mu;         /* guards what follows                     */
    struct snib__list attempts; /* acquires under way                      */
    size_t missing;             /* latest; its index among the locks as given */
    bool cancelled;
    struct snib__part part[]; /* in the common order */
};

static inline struct snib_client *
snib__multi_client_of(const struct snib__part *p)
{
    return p->lock->client;
}

static inline const struct snib__name *
snib__multi_name_of(const struct snib__part *p)
{
    return snib__local_lock_name(p->lock->local);
}

static inline snib_duration snib__multi_left_until(snib_instant limit)
{
    if (limit.ns == INT64_MAX) {
        return SNIB__ENDLESS;
    }
    int64_t ns = limit.ns - snib__boottime().ns;
    return (snib_duration){ns > 0 ? ns : 0};
}

static inline snib_duration snib__multi_shorter(snib_duration a,
                                                snib_duration b)
{
    return a.ns < b.ns ? a : b;
}

/* -- multi.c ---------------------------------------------------------------- */

/* For "%.*s": how much of a long name is shown. */
int snib__multi_shown_size(const struct snib__part *);
/* *why, and which lock it is about. */
snib_err snib__multi_fail_at(const struct snib__part *,
                             const struct snib_error *why,
                             struct snib_error *reterr);
/* May a call be made? blocks: it is one that blocks. Errors: FORKED, USAGE (a
 * pull client). */
snib_err snib__multi_check_clients(const struct snib_multi *, bool blocks,
                                   struct snib_error *reterr);
/* The longest request_ms of the clients of these parts. */
snib_duration snib__multi_patience(const struct snib__part[], size_t count);
/* As snib_multi_status. */
void snib__multi_status_of(const struct snib__part[], size_t count,
                           const struct snib_grant grants[],
                           struct snib_multi_status *ret);
/* The next parts to give back, the last first, of one client: as many as fit
 * into one visit, of the first `to` parts. Returns how many. */
size_t snib__multi_last_of(const struct snib__part[], size_t to,
                           const struct snib_grant grants[],
                           struct snib__batch_item ret[SNIB__MULTI_CHUNK]);
/* They were given back. Keep the worst outcome so far, and its part. */
void snib__multi_keep_worst(const struct snib__batch_item[], size_t n,
                            size_t to, struct snib_error *worst,
                            size_t *ret_at);

/* -- attempt.c ---------------------------------------------------------------- */

/* What an attempt asks for. */
enum snib__attempt_ask {
    SNIB__ATTEMPT_TRIES, /* try member[0, members) in one visit; tried_for */
    SNIB__ATTEMPT_BACK,  /* give member[0, members) back in one visit      */
    SNIB__ATTEMPT_WAIT,  /* wait for part[held] as wait says, into
                            grants and error `said`                         */
    SNIB__ATTEMPT_OVER   /* all are held, or none                          */
};

/* An acquire of all, or none. */
struct snib__attempt {
    struct snib__link link; /* in the multi's attempts */
    struct snib_multi *m;   /* NULL: it was freed (a started one's)          */
    const struct snib__part *part;
    size_t count;
    struct snib__how how;
    struct snib_grant *grants; /* by index as given */
    snib_instant limit;
    /* One more than the last part of which it is not known whether the store
     * holds it for this attempt; 0: all are known. */
    size_t unknown;
    size_t held; /* the first so many parts are held */
    struct snib_error why;
    size_t at; /* the part whose error why is */

    /* Where it stands: see attempt.c. */
    uint8_t state;
    bool all, again;
    size_t run, got;     /* so many were tried; of them are held             */
    size_t undone, back; /* of so many so many are still to be given back    */
    snib_instant back_limit;
    size_t members;
    struct snib__batch_item member[SNIB__MULTI_CHUNK];
    snib_duration patience; /* of what it asks for now                       */
    struct snib__how wait;
    struct snib_error said;

    /* Under the multi's mutex. Of a call that waits: */
    struct snib_client *waits_at; /* NULL: it does not wait                */
    struct snib__canceller canceller; /* of that wait */
    /* Of a start: */
    struct snib_client *client;
    uint64_t ticket; /* 0: it is a call                                      */
};

/* Begin one for all parts. how is set; limit as for snib_multi_try_for. */
void snib__attempt_init(struct snib__attempt *, struct snib_multi *,
                        const struct snib__part[], size_t count,
                        struct snib_grant grants[], int64_t wait_ms);
/* What it asked for is done; what comes next? */
enum snib__attempt_ask snib__attempt_next(struct snib__attempt *);
/* It is over: OK, or why nothing is held. */
snib_err snib__attempt_outcome(const struct snib__attempt *,
                               struct snib_error *reterr);
/* Put it on the multi's list, or take it off. */
void snib__attempt_enter(struct snib__attempt *);
void snib__attempt_leave(struct snib__attempt *, snib_err err);

#endif
