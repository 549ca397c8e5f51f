/* api/multi_acquire.c — the calls that acquire a multi: they do on their
 * caller's stack what the attempt asks for (attempt.c). */
#include <string.h>

#include "api/multi_i.h"
#include "base/error.h"

static void multi_acquire_wait(struct snib__attempt *a)
{
    const struct snib__part *p = &a->part[a->held];
    a->said.code = snib__acquire_until(p->lock, &a->wait, &a->canceller,
                                       &a->grants[p->index], &a->said);
}

static void multi_acquire_run(struct snib__attempt *a)
{
    for (;;) {
        switch (snib__attempt_next(a)) {
        case SNIB__ATTEMPT_TRIES:
            snib__batch_try(a->member[0].lock->client, a->member, a->members,
                            &a->how.o, a->how.wait_ms == 0, a->patience);
            break;
        case SNIB__ATTEMPT_BACK:
            snib__batch_release(a->member[0].lock->client, a->member,
                                a->members, a->patience);
            break;
        case SNIB__ATTEMPT_WAIT:
            multi_acquire_wait(a);
            break;
        case SNIB__ATTEMPT_OVER:
            return;
        }
    }
}

snib_err snib_multi_try_for(struct snib_multi *m, int64_t wait_ms,
                            const struct snib_acquire_options *options,
                            struct snib_grant ret_grants[],
                            struct snib_error *reterr)
{
    struct snib__attempt a = {.ticket = 0};
    memset(ret_grants, 0, m->count * sizeof ret_grants[0]);
    snib_err err = snib__multi_check_clients(m, true, reterr);
    if (!err) {
        err = snib__how_read(options, wait_ms, &a.how, reterr);
    }
    if (err) {
        return err;
    }
    snib__attempt_init(&a, m, m->part, m->count, ret_grants, wait_ms);
    snib__attempt_enter(&a);
    multi_acquire_run(&a);
    err = snib__attempt_outcome(&a, reterr);
    snib__attempt_leave(&a, err);
    return err;
}

snib_err snib_multi_acquire(struct snib_multi *m,
                            const struct snib_acquire_options *options,
                            struct snib_grant ret_grants[],
                            struct snib_error *reterr)
{
    return snib_multi_try_for(m, SNIB__NO_LIMIT, options, ret_grants, reterr);
}

snib_err snib_multi_try(struct snib_multi *m,
                        const struct snib_acquire_options *options,
                        struct snib_grant ret_grants[],
                        struct snib_error *reterr)
{
    return snib_multi_try_for(m, 0, options, ret_grants, reterr);
}

void snib_multi_cancel(struct snib_multi *m)
{
    if (snib__multi_check_clients(m, false, NULL)) {
        return;
    }
    pthread_mutex_lock(&m->mu);
    m->cancelled = true;
    SNIB__LIST_EACH (l, &m->attempts) {
        struct snib__attempt *a =
            SNIB__CONTAINER(l, struct snib__attempt, link);
        if (a->ticket && a->how.wait_ms) {
            snib_client_cancel(a->client, a->ticket);
        } else if (a->waits_at) {
            snib__canceller_ask(a->waits_at, &a->canceller);
        }
    }
    pthread_mutex_unlock(&m->mu);
}

size_t snib_multi_missing(struct snib_multi *m)
{
    pthread_mutex_lock(&m->mu);
    size_t missing = m->missing;
    pthread_mutex_unlock(&m->mu);
    return missing;
}
