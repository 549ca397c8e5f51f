/* api/multi_i.h — the inside of a multi, for multi.c and attempt.c. */
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

/* For "%.*s": how much of a long name is shown. */
int snib__multi_shown_size(const struct snib__part *);
/* *why, and which lock it is about. */
snib_err snib__multi_fail_at(const struct snib__part *,
                             const struct snib_error *why,
                             struct snib_error *reterr);
snib_err snib__multi_check_clients(const struct snib_multi *,
                                   struct snib_error *reterr);
/* The longest request_ms of its clients. */
snib_duration snib__multi_patience(const struct snib_multi *);
/* 0: none; the worst outcome of a release has the highest. */
int snib__multi_badness(snib_err);
/* Give back parts [from, to), the last first. The worst outcome goes to *worst,
 * and its part to *ret_at. */
void snib__multi_give_back(const struct snib_multi *, size_t from, size_t to,
                           const struct snib_grant grants[], snib_instant limit,
                           struct snib_error *worst, size_t *ret_at);

#endif
