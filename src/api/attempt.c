/* api/attempt.c — acquiring a multi: all locks or none.
 *
 * The locks are taken in one order that all callers share: identity of the
 * store, then name. Let i be the first lock that this attempt does not hold:
 *
 *     +--> try i, i+1, … of one client in one visit, one step of the store
 *     |       all granted ------------------------> next client, or done
 *     |       j is not: give back those behind j, if there are
 *     |    wait for j alone, in its queue
 *     +------ granted: i = j + 1
 *             not: give all back, say why
 *
 * The rule that keeps circles from closing: while a caller waits, it holds only
 * locks that stand before the one it waits for. Tries may run ahead of that,
 * because a try waits for nobody. What they got behind j is given back before
 * the waiting begins. The locks before j are kept, and that ensures progress:
 * two callers cannot throw each other out by turns.
 *
 * Waiting for a lock can take so long that the lease of one before it ends. So
 * at the end all are checked. If one is lost, all are given back and the
 * attempt begins again. It must never hold some and say "all".
 *
 * Outcomes. What is given back on the way to a failure may itself stay
 * unanswered. "Not acquired" would then claim that nothing is left at the
 * store, and that is not known: the outcome is UNKNOWN.
 *
 * Stopping. An attempt that another thread may ask about (which lock is
 * missing) or end is on the multi's list for as long as it runs. The multi's
 * mutex `mu` is taken before a client's, and never held in a wait.
 *
 * Cost: no memory but the handle. At most SNIB__MULTI_CHUNK requests a visit,
 * so that the call's frame stays small for the stacks of coroutines. */
#include <string.h>

#include "api/multi_i.h"
#include "base/error.h"

struct attempt {
    struct snib__link link; /* in the multi's attempts */
    struct snib_multi *m;
    struct snib__how how;
    struct snib_grant *grants; /* by index as given */
    snib_instant limit;
    /* One more than the last part of which it is not known whether the store
     * holds it for this attempt; 0: all are known. */
    size_t unknown;
    size_t held; /* the first so many parts are held */
    struct snib_error why;
    size_t at;                    /* the part whose error why is */
    struct snib_client *waits_at; /* NULL: it does not wait                */
    struct snib__canceller
        canceller; /* of that wait                          */
};

static bool attempt_once_only(const struct attempt *a)
{
    return a->how.wait_ms == 0;
}

/* Part i has failed with *why. */
static bool attempt_failed(struct attempt *a, size_t i,
                           const struct snib_error *why)
{
    a->why = *why;
    a->at = i;
    if (why->code == SNIB_ERR_UNKNOWN && a->unknown < i + 1) {
        a->unknown = i + 1;
    }
    return false;
}

/* Give back [from, to), and record which parts are unknown then. */
static void attempt_undo(struct attempt *a, size_t from, size_t to,
                         snib_instant limit)
{
    struct snib_error worst = {0};
    size_t at = 0;
    snib__multi_give_back(a->m, from, to, a->grants, limit, &worst, &at);
    if (worst.code && worst.code != SNIB_ERR_LOST && a->unknown < to) {
        a->unknown = to;
    }
    for (size_t i = from; i < to; i++) {
        a->grants[a->m->part[i].index] = (struct snib_grant){0};
    }
}

/* Part i is missing, and will be waited for. False: the multi was cancelled. */
static bool attempt_begin_wait(struct attempt *a, size_t i)
{
    struct snib_multi *m = a->m;
    pthread_mutex_lock(&m->mu);
    bool go = !m->cancelled || attempt_once_only(a);
    m->missing = m->part[i].index;
    a->waits_at =
        go && !attempt_once_only(a) ? snib__multi_client_of(&m->part[i]) : NULL;
    a->canceller = (struct snib__canceller){0};
    pthread_mutex_unlock(&m->mu);
    return go;
}

static void attempt_end_wait(struct attempt *a, bool acquired)
{
    pthread_mutex_lock(&a->m->mu);
    a->waits_at = NULL;
    if (acquired) {
        a->m->missing = a->m->count;
    }
    pthread_mutex_unlock(&a->m->mu);
}

/* Wait for part i alone; all before it are held. */
static bool attempt_wait_for(struct attempt *a, size_t i)
{
    struct snib__how how = a->how;
    const struct snib__part *p = &a->m->part[i];
    struct snib_error why = {0};
    if (a->limit.ns != INT64_MAX && !attempt_once_only(a)) {
        how.wait_ms = (snib__multi_left_until(a->limit).ns + 999999) / 1000000;
        if (!how.wait_ms) {
            snib__fail_plain(&why, SNIB_ERR_TIMEOUT);
            return attempt_failed(a, i, &why);
        }
    }
    if (!attempt_begin_wait(a, i)) {
        snib__fail_plain(&why, SNIB_ERR_CANCELLED);
        return attempt_failed(a, i, &why);
    }
    why.code = snib__acquire_until(p->lock, &how, &a->canceller,
                                   &a->grants[p->index], &why);
    attempt_end_wait(a, !why.code);
    return why.code ? attempt_failed(a, i, &why) : true;
}

/* How many parts from i on fit into one visit. */
static size_t attempt_run_from(const struct snib_multi *m, size_t i)
{
    size_t n = 1;
    while (n < SNIB__MULTI_CHUNK && i + n < m->count &&
           snib__multi_client_of(&m->part[i + n]) ==
               snib__multi_client_of(&m->part[i])) {
        n++;
    }
    return n;
}

/* Give back the grants behind the first refused part of a visit. */
static void attempt_give_back_ahead(struct attempt *a, size_t i,
                                    struct snib__batch_item member[],
                                    size_t got, size_t n)
{
    struct snib__batch_item ahead[SNIB__MULTI_CHUNK];
    size_t count = 0;
    struct snib_client *c = snib__multi_client_of(&a->m->part[i]);
    for (size_t j = n; j-- > got + 1;) {
        if (!member[j].error.code) {
            ahead[count].lock = member[j].lock;
            ahead[count++].grant = member[j].grant;
        } else if (member[j].error.code == SNIB_ERR_UNKNOWN &&
                   a->unknown < i + j + 1) {
            a->unknown = i + j + 1;
        }
    }
    if (!count) {
        return;
    }
    /* Nobody waits longer than for one answer. */
    snib__batch_release(c, ahead, count, c->request);
    for (size_t j = 0; j < count; j++) {
        if (snib__multi_badness(ahead[j].error.code) > 0 &&
            ahead[j].error.code != SNIB_ERR_LOST && a->unknown < i + n) {
            a->unknown = i + n;
        }
    }
}

/* The first of the members [got, n) is not acquired. Find the one on account of
 * which the others were not; got (CANCELLED) if there is none. */
static size_t attempt_culprit_of(struct snib__batch_item member[], size_t got,
                                 size_t n)
{
    for (size_t j = got; j < n; j++) {
        snib_err err = member[j].error.code;
        if (err && err != SNIB_ERR_CANCELLED) {
            return j;
        }
    }
    return got;
}

/* Try parts [i, i + n) in one visit. Returns how many of them, from the first
 * on, are held now. Fewer than n: a->why says why. */
static size_t attempt_try_run(struct attempt *a, size_t i, size_t n)
{
    struct snib__batch_item member[SNIB__MULTI_CHUNK];
    const struct snib__part *part = &a->m->part[i];
    struct snib_client *c = snib__multi_client_of(part);
    size_t got = 0;
    snib_duration left = snib__multi_left_until(a->limit);
    if (left.ns == 0) { /* a request sent now could not be answered */
        struct snib_error late;
        snib__fail_plain(&late, attempt_once_only(a) ? SNIB_ERR_UNREACHABLE
                                                     : SNIB_ERR_TIMEOUT);
        attempt_failed(a, i, &late);
        return 0;
    }
    for (size_t j = 0; j < n; j++) {
        member[j].lock = part[j].lock;
    }
    snib__batch_try(c, member, n, &a->how.o, attempt_once_only(a),
                    snib__multi_shorter(c->request, left));
    while (got < n && !member[got].error.code) {
        a->grants[part[got].index] = member[got].grant;
        got++;
    }
    if (got < n) {
        size_t culprit = attempt_culprit_of(member, got, n);
        if (!got && member[culprit].error.code == SNIB_ERR_CANCELLED) {
            snib__fail_plain(&member[culprit].error, SNIB_ERR_BUSY);
        }
        attempt_failed(a, i + culprit, &member[culprit].error);
        attempt_give_back_ahead(a, i, member, got, n);
    }
    return got;
}

/* Is it worth waiting after this refusal of a try? (STORE is: another process
 * may be inside a lock file. If waiting does not help, the wait ends at once
 * with the same error.) */
static bool attempt_worth_waiting(const struct attempt *a)
{
    return !attempt_once_only(a) &&
           (a->why.code == SNIB_ERR_BUSY || a->why.code == SNIB_ERR_STORE ||
            a->why.code == SNIB_ERR_UNREACHABLE ||
            a->why.code == SNIB_ERR_UNKNOWN);
}

/* Take all. False: only the first a->held parts are held. */
static bool attempt_take_all(struct attempt *a)
{
    a->held = 0;
    for (size_t i = 0; i < a->m->count;) {
        size_t n = attempt_run_from(a->m, i),
               got = n > 1 ? attempt_try_run(a, i, n) : 0;
        i += got;
        a->held = i;
        if (got == n || (got && a->why.code == SNIB_ERR_CANCELLED)) {
            continue; /* the next ones were not asked for yet */
        }
        if (n > 1 && !attempt_worth_waiting(a)) {
            return false;
        }
        if (!attempt_wait_for(a, i)) {
            return false;
        }
        a->held = ++i;
    }
    return true;
}

/* True when none was lost while others were waited for. */
static bool attempt_all_held(struct attempt *a)
{
    struct snib_multi_status status;
    snib_multi_status(a->m, a->grants, &status, sizeof status);
    if (status.state != SNIB_STATE_LOST &&
        status.state != SNIB_STATE_RELEASED) {
        return true;
    }
    for (size_t i = 0; i < a->m->count; i++) {
        if (a->m->part[i].index == status.member) {
            a->at = i;
        }
    }
    snib__fail(&a->why, attempt_once_only(a) ? SNIB_ERR_BUSY : SNIB_ERR_TIMEOUT,
               "its lease ended (%s) before all were acquired",
               snib_cause_text(status.cause));
    return false;
}

static snib_err attempt_outcome(const struct attempt *a,
                                struct snib_error *reterr)
{
    const struct snib__part *p = &a->m->part[a->at];
    pthread_mutex_lock(&a->m->mu);
    a->m->missing = p->index;
    pthread_mutex_unlock(&a->m->mu);
    if (!a->unknown || a->why.code == SNIB_ERR_UNKNOWN) {
        return snib__multi_fail_at(p, &a->why, reterr);
    }
    const struct snib__part *u = &a->m->part[a->unknown - 1];
    return snib__fail(reterr, SNIB_ERR_UNKNOWN,
                      "'%.*s': %s; and giving back '%.*s', or one before it, "
                      "was not answered: repeated until its lease ends",
                      snib__multi_shown_size(p) / 2,
                      snib__multi_name_of(p)->safe, snib_err_text(a->why.code),
                      snib__multi_shown_size(u) / 2,
                      snib__multi_name_of(u)->safe);
}

static snib_err attempt_acquire(struct attempt *a, struct snib_error *reterr)
{
    for (;;) {
        if (attempt_take_all(a)) {
            if (attempt_all_held(a)) {
                return snib__ok(reterr);
            }
            a->unknown = 0;
            attempt_undo(
                a, 0, a->m->count,
                snib__after(snib__boottime(), snib__multi_patience(a->m)));
            if (!attempt_once_only(a) &&
                snib__multi_left_until(a->limit).ns > 0) {
                continue;
            }
            return attempt_outcome(a, reterr);
        }
        if (a->unknown && a->unknown <= a->held) {
            a->unknown = 0; /* acquired since, and so known */
        }
        attempt_undo(a, 0, a->held,
                     snib__after(snib__boottime(), snib__multi_patience(a->m)));
        return attempt_outcome(a, reterr);
    }
}

snib_err snib_multi_try_for(struct snib_multi *m, int64_t wait_ms,
                            const struct snib_acquire_options *options,
                            struct snib_grant ret_grants[],
                            struct snib_error *reterr)
{
    struct attempt a = {.m = m, .grants = ret_grants};
    memset(ret_grants, 0, m->count * sizeof ret_grants[0]);
    snib_err err = snib__multi_check_clients(m, reterr);
    if (!err) {
        err = snib__how_read(options, wait_ms, &a.how, reterr);
    }
    if (err) {
        return err;
    }
    a.limit = wait_ms == SNIB__NO_LIMIT ? SNIB__NEVER
              : attempt_once_only(&a)
                  ? snib__after(snib__boottime(), snib__multi_patience(m))
                  : snib__after(snib__boottime(), snib__ms(wait_ms));
    pthread_mutex_lock(&m->mu);
    snib__list_push(&m->attempts, &a.link);
    pthread_mutex_unlock(&m->mu);
    err = attempt_acquire(&a, reterr);
    pthread_mutex_lock(&m->mu);
    snib__unlink(&a.link);
    m->missing = err ? m->missing : m->count;
    pthread_mutex_unlock(&m->mu);
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
    if (snib__multi_check_clients(m, NULL)) {
        return;
    }
    pthread_mutex_lock(&m->mu);
    m->cancelled = true;
    SNIB__LIST_EACH (l, &m->attempts) {
        struct attempt *a = SNIB__CONTAINER(l, struct attempt, link);
        if (a->waits_at) {
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
