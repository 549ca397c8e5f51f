/* run/multi.c — several locks as one: all or nothing.
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
 * Cost: no memory but the handle. At most CHUNK requests a visit, so that the
 * call's frame stays small for the stacks of coroutines. */
#include "snib/multi.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "run/inside.h"

enum { CHUNK = 8, SHOWN_MAX = 64 };

struct part {
    struct snib_lock *lock;
    size_t index; /* its index among the locks as given */
};

struct snib_multi {
    size_t count;
    pthread_mutex_t mu;         /* guards what follows                     */
    struct snib__list attempts; /* acquires under way                      */
    size_t missing;             /* latest; its index among the locks as given */
    bool cancelled;
    struct part part[]; /* in the common order */
};

static struct snib_client *multi_client_of(const struct part *p)
{
    return p->lock->client;
}

static const struct snib__name *multi_name_of(const struct part *p)
{
    return snib__local_lock_name(p->lock->local);
}

/* -- order ---------------------------------------------------------------- */

static int multi_by_order(const void *left, const void *right)
{
    const struct part *a = left, *b = right;
    const struct snib__name *x = multi_name_of(a), *y = multi_name_of(b);
    size_t both = x->raw_size < y->raw_size ? x->raw_size : y->raw_size;
    int c = strcmp(multi_client_of(a)->identity, multi_client_of(b)->identity);
    if (!c) {
        c = memcmp(x->raw, y->raw, both);
    }
    return c ? c : (x->raw_size > y->raw_size) - (x->raw_size < y->raw_size);
}

/* For "%.*s": how much of a long name is shown. */
static int multi_shown_size(const struct part *p)
{
    return multi_name_of(p)->safe_size < SHOWN_MAX
               ? (int)multi_name_of(p)->safe_size
               : SHOWN_MAX;
}

static snib_err multi_fail_at(const struct part *p,
                              const struct snib_error *why,
                              struct snib_error *reterr)
{
    return snib__fail(reterr, why->code, "'%.*s': %s", multi_shown_size(p),
                      multi_name_of(p)->safe,
                      why->text[0] ? why->text : snib_err_text(why->code));
}

static snib_err multi_check_twice(const struct snib_multi *m,
                                  struct snib_error *reterr)
{
    for (size_t i = 1; i < m->count; i++) {
        const struct part *a = &m->part[i - 1], *b = &m->part[i];
        if (multi_by_order(a, b) == 0) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "'%.*s' is named twice (locks %zu and %zu): "
                              "name each lock once, whatever its kind; a "
                              "read and a write of it exclude each other",
                              multi_shown_size(a), multi_name_of(a)->safe,
                              a->index < b->index ? a->index : b->index,
                              a->index < b->index ? b->index : a->index);
        }
    }
    return SNIB_ERR_OK;
}

/* -- new and free --------------------------------------------------------- */

static snib_err multi_check_locks(struct snib_lock *const locks[], size_t count,
                                  const struct snib_multi_options *o,
                                  struct snib_error *reterr)
{
    snib_err err = SNIB_ERR_OK;
    if (o && o->size != sizeof *o) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "multi options of size %zu, expected %zu: start "
                          "from SNIB_INIT(snib_multi_options)",
                          o->size, sizeof *o);
    }
    if (!locks || !count || count > SNIB_MULTI_MAX) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "a multi of %zu locks; expected 1 to %d",
                          locks ? count : 0, SNIB_MULTI_MAX);
    }
    for (size_t i = 0; i < count && !err; i++) {
        if (!locks[i]) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "lock %zu of the multi is NULL", i);
        }
        err = snib__client_check(locks[i]->client, reterr);
        if (!err && locks[i]->client->pull) {
            err = snib__fail(reterr, SNIB_ERR_USAGE,
                             "lock %zu of the multi is of a pull client, "
                             "which cannot block",
                             i);
        }
    }
    return err;
}

snib_err snib_multi_new(struct snib_lock *const locks[], size_t count,
                        const struct snib_multi_options *options,
                        struct snib_multi **ret, struct snib_error *reterr)
{
    *ret = NULL;
    snib_err err = multi_check_locks(locks, count, options, reterr);
    if (err) {
        return err;
    }
    struct snib_multi *m = snib__alloc(sizeof *m + count * sizeof m->part[0]);
    if (!m) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    m->count = count;
    m->missing = count;
    snib__list_init(&m->attempts);
    pthread_mutex_init(&m->mu, NULL);
    for (size_t i = 0; i < count; i++) {
        m->part[i] = (struct part){locks[i], i};
    }
    qsort(m->part, count, sizeof m->part[0], multi_by_order);
    err = multi_check_twice(m, reterr);
    if (err) {
        snib_multi_free(m);
        return err;
    }
    *ret = m;
    return snib__ok(reterr);
}

void snib_multi_free(struct snib_multi *m)
{
    if (m) {
        pthread_mutex_destroy(&m->mu);
        snib__free(m);
    }
}

size_t snib_multi_count(const struct snib_multi *m)
{
    return m->count;
}

/* -- looking -------------------------------------------------------------- */

static int multi_gravity(snib_state state)
{
    switch (state) {
    case SNIB_HELD:
        return 0;
    case SNIB_AT_RISK:
        return 1;
    case SNIB_RELEASED:
        return 2;
    case SNIB_LOST:
        break;
    }
    return 3;
}

void snib_multi_status(struct snib_multi *m, const struct snib_grant grants[],
                       struct snib_multi_status *ret)
{
    *ret = (struct snib_multi_status){.state = SNIB_HELD, .left_ms = INT64_MAX};
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < m->count; i++) {
        const struct part *p = &m->part[i];
        struct snib_status status;
        snib_grant_status(p->lock, grants[p->index], &status);
        int more = multi_gravity(status.state) - multi_gravity(ret->state);
        if (more > 0 || (more == 0 && status.left_ms < ret->left_ms)) {
            ret->state = status.state;
            ret->cause = status.cause;
            ret->left_ms = status.left_ms;
            ret->member = p->index;
        }
        least = status.left_ms < least ? status.left_ms : least;
    }
    ret->left_ms = least;
}

bool snib_multi_held(struct snib_multi *m, const struct snib_grant grants[])
{
    struct snib_multi_status status;
    snib_multi_status(m, grants, &status);
    return (status.state == SNIB_HELD || status.state == SNIB_AT_RISK) &&
           status.left_ms > 0;
}

/* -- release -------------------------------------------------------------- */

/* The longest request_ms of its clients. */
static snib_duration multi_patience_of(const struct snib_multi *m)
{
    snib_duration most = {0};
    for (size_t i = 0; i < m->count; i++) {
        snib_duration d = multi_client_of(&m->part[i])->request;
        most = d.ns > most.ns ? d : most;
    }
    return most;
}

static snib_duration multi_left_until(snib_instant limit)
{
    if (limit.ns == INT64_MAX) {
        return SNIB__ENDLESS;
    }
    int64_t ns = limit.ns - snib__boottime().ns;
    return (snib_duration){ns > 0 ? ns : 0};
}

static snib_duration multi_shorter(snib_duration a, snib_duration b)
{
    return a.ns < b.ns ? a : b;
}

static int multi_badness(snib_err err)
{
    return err == SNIB_ERR_OK        ? 0
           : err == SNIB_ERR_LOST    ? 3
           : err == SNIB_ERR_UNKNOWN ? 2
                                     : 1;
}

/* Give back parts [from, to), the last first. The worst outcome goes to *worst,
 * and its part to *ret_at. */
static void multi_give_back(const struct snib_multi *m, size_t from, size_t to,
                            const struct snib_grant grants[],
                            snib_instant limit, struct snib_error *worst,
                            size_t *ret_at)
{
    struct snib__batch_item member[CHUNK];
    while (to > from) {
        struct snib_client *c = multi_client_of(&m->part[to - 1]);
        size_t n = 0;
        for (; to > from && n < CHUNK && multi_client_of(&m->part[to - 1]) == c;
             n++) {
            const struct part *p = &m->part[--to];
            member[n].lock = p->lock;
            member[n].grant = grants[p->index];
        }
        snib__batch_release(c, member, n,
                            multi_shorter(c->request, multi_left_until(limit)));
        for (size_t i = 0; i < n; i++) {
            if (multi_badness(member[i].error.code) >
                multi_badness(worst->code)) {
                *worst = member[i].error;
                *ret_at = to + n - 1 - i;
            }
        }
    }
}

static snib_err multi_check_clients(const struct snib_multi *m,
                                    struct snib_error *reterr)
{
    snib_err err = SNIB_ERR_OK;
    for (size_t i = 0; i < m->count && !err; i++) {
        err = snib__client_check(multi_client_of(&m->part[i]), reterr);
    }
    return err;
}

snib_err snib_multi_release(struct snib_multi *m,
                            const struct snib_grant grants[],
                            struct snib_error *reterr)
{
    struct snib_error worst = {0};
    size_t at = 0;
    snib_err err = multi_check_clients(m, reterr);
    if (err) {
        return err;
    }
    multi_give_back(m, 0, m->count, grants,
                    snib__after(snib__boottime(), multi_patience_of(m)), &worst,
                    &at);
    return worst.code ? multi_fail_at(&m->part[at], &worst, reterr)
                      : snib__ok(reterr);
}

/* -- acquire -------------------------------------------------------------- */

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
    struct snib__stop stop;       /* of that wait                          */
};

static bool multi_once_only(const struct attempt *a)
{
    return a->how.wait_ms == 0;
}

/* Part i has failed with *why. */
static bool multi_failed(struct attempt *a, size_t i,
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
static void multi_undo(struct attempt *a, size_t from, size_t to,
                       snib_instant limit)
{
    struct snib_error worst = {0};
    size_t at = 0;
    multi_give_back(a->m, from, to, a->grants, limit, &worst, &at);
    if (worst.code && worst.code != SNIB_ERR_LOST && a->unknown < to) {
        a->unknown = to;
    }
    for (size_t i = from; i < to; i++) {
        a->grants[a->m->part[i].index] = (struct snib_grant){0};
    }
}

/* Part i is missing, and will be waited for. False: the multi was cancelled. */
static bool multi_begin_wait(struct attempt *a, size_t i)
{
    struct snib_multi *m = a->m;
    pthread_mutex_lock(&m->mu);
    bool go = !m->cancelled || multi_once_only(a);
    m->missing = m->part[i].index;
    a->waits_at =
        go && !multi_once_only(a) ? multi_client_of(&m->part[i]) : NULL;
    a->stop = (struct snib__stop){0};
    pthread_mutex_unlock(&m->mu);
    return go;
}

static void multi_end_wait(struct attempt *a, bool acquired)
{
    pthread_mutex_lock(&a->m->mu);
    a->waits_at = NULL;
    if (acquired) {
        a->m->missing = a->m->count;
    }
    pthread_mutex_unlock(&a->m->mu);
}

/* Wait for part i alone; all before it are held. */
static bool multi_wait_for(struct attempt *a, size_t i)
{
    struct snib__how how = a->how;
    const struct part *p = &a->m->part[i];
    struct snib_error why = {0};
    if (a->limit.ns != INT64_MAX && !multi_once_only(a)) {
        how.wait_ms = (multi_left_until(a->limit).ns + 999999) / 1000000;
        if (!how.wait_ms) {
            snib__fail_plain(&why, SNIB_ERR_TIMEOUT);
            return multi_failed(a, i, &why);
        }
    }
    if (!multi_begin_wait(a, i)) {
        snib__fail_plain(&why, SNIB_ERR_CANCELLED);
        return multi_failed(a, i, &why);
    }
    why.code = snib__acquire_until(p->lock, &how, &a->stop,
                                   &a->grants[p->index], &why);
    multi_end_wait(a, !why.code);
    return why.code ? multi_failed(a, i, &why) : true;
}

/* How many parts from i on fit into one visit. */
static size_t multi_run_from(const struct snib_multi *m, size_t i)
{
    size_t n = 1;
    while (n < CHUNK && i + n < m->count &&
           multi_client_of(&m->part[i + n]) == multi_client_of(&m->part[i])) {
        n++;
    }
    return n;
}

/* Give back the grants behind the first refused part of a visit. */
static void multi_give_back_ahead(struct attempt *a, size_t i,
                                  struct snib__batch_item member[], size_t got,
                                  size_t n)
{
    struct snib__batch_item ahead[CHUNK];
    size_t count = 0;
    struct snib_client *c = multi_client_of(&a->m->part[i]);
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
        if (multi_badness(ahead[j].error.code) > 0 &&
            ahead[j].error.code != SNIB_ERR_LOST && a->unknown < i + n) {
            a->unknown = i + n;
        }
    }
}

/* The first of the members [got, n) is not acquired. Find the one on account of
 * which the others were not; got (CANCELLED) if there is none. */
static size_t multi_culprit_of(struct snib__batch_item member[], size_t got,
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
static size_t multi_try_run(struct attempt *a, size_t i, size_t n)
{
    struct snib__batch_item member[CHUNK];
    const struct part *part = &a->m->part[i];
    struct snib_client *c = multi_client_of(part);
    size_t got = 0;
    snib_duration left = multi_left_until(a->limit);
    if (left.ns == 0) { /* a request sent now could not be answered */
        struct snib_error late;
        snib__fail_plain(&late, multi_once_only(a) ? SNIB_ERR_UNREACHABLE
                                                   : SNIB_ERR_TIMEOUT);
        multi_failed(a, i, &late);
        return 0;
    }
    for (size_t j = 0; j < n; j++) {
        member[j].lock = part[j].lock;
    }
    snib__batch_try(c, member, n, &a->how.o, multi_once_only(a),
                    multi_shorter(c->request, left));
    while (got < n && !member[got].error.code) {
        a->grants[part[got].index] = member[got].grant;
        got++;
    }
    if (got < n) {
        size_t culprit = multi_culprit_of(member, got, n);
        if (!got && member[culprit].error.code == SNIB_ERR_CANCELLED) {
            snib__fail_plain(&member[culprit].error, SNIB_ERR_BUSY);
        }
        multi_failed(a, i + culprit, &member[culprit].error);
        multi_give_back_ahead(a, i, member, got, n);
    }
    return got;
}

/* Is it worth waiting after this refusal of a try? (STORE is: another process
 * may be inside a lock file. If waiting does not help, the wait ends at once
 * with the same error.) */
static bool multi_worth_waiting(const struct attempt *a)
{
    return !multi_once_only(a) &&
           (a->why.code == SNIB_ERR_BUSY || a->why.code == SNIB_ERR_STORE ||
            a->why.code == SNIB_ERR_UNREACHABLE ||
            a->why.code == SNIB_ERR_UNKNOWN);
}

/* Take all. False: only the first a->held parts are held. */
static bool multi_take_all(struct attempt *a)
{
    a->held = 0;
    for (size_t i = 0; i < a->m->count;) {
        size_t n = multi_run_from(a->m, i),
               got = n > 1 ? multi_try_run(a, i, n) : 0;
        i += got;
        a->held = i;
        if (got == n || (got && a->why.code == SNIB_ERR_CANCELLED)) {
            continue; /* the next ones were not asked for yet */
        }
        if (n > 1 && !multi_worth_waiting(a)) {
            return false;
        }
        if (!multi_wait_for(a, i)) {
            return false;
        }
        a->held = ++i;
    }
    return true;
}

/* True when none was lost while others were waited for. */
static bool multi_all_held(struct attempt *a)
{
    struct snib_multi_status status;
    snib_multi_status(a->m, a->grants, &status);
    if (status.state != SNIB_LOST && status.state != SNIB_RELEASED) {
        return true;
    }
    for (size_t i = 0; i < a->m->count; i++) {
        if (a->m->part[i].index == status.member) {
            a->at = i;
        }
    }
    snib__fail(&a->why, multi_once_only(a) ? SNIB_ERR_BUSY : SNIB_ERR_TIMEOUT,
               "its lease ended (%s) before all were acquired",
               snib_cause_text(status.cause));
    return false;
}

static snib_err multi_outcome(const struct attempt *a,
                              struct snib_error *reterr)
{
    const struct part *p = &a->m->part[a->at];
    pthread_mutex_lock(&a->m->mu);
    a->m->missing = p->index;
    pthread_mutex_unlock(&a->m->mu);
    if (!a->unknown || a->why.code == SNIB_ERR_UNKNOWN) {
        return multi_fail_at(p, &a->why, reterr);
    }
    const struct part *u = &a->m->part[a->unknown - 1];
    return snib__fail(reterr, SNIB_ERR_UNKNOWN,
                      "'%.*s': %s; and giving back '%.*s', or one before it, "
                      "was not answered: repeated until its lease ends",
                      multi_shown_size(p) / 2, multi_name_of(p)->safe,
                      snib_err_text(a->why.code), multi_shown_size(u) / 2,
                      multi_name_of(u)->safe);
}

static snib_err multi_acquire(struct attempt *a, struct snib_error *reterr)
{
    for (;;) {
        if (multi_take_all(a)) {
            if (multi_all_held(a)) {
                return snib__ok(reterr);
            }
            a->unknown = 0;
            multi_undo(a, 0, a->m->count,
                       snib__after(snib__boottime(), multi_patience_of(a->m)));
            if (!multi_once_only(a) && multi_left_until(a->limit).ns > 0) {
                continue;
            }
            return multi_outcome(a, reterr);
        }
        if (a->unknown && a->unknown <= a->held) {
            a->unknown = 0; /* acquired since, and so known */
        }
        multi_undo(a, 0, a->held,
                   snib__after(snib__boottime(), multi_patience_of(a->m)));
        return multi_outcome(a, reterr);
    }
}

snib_err snib_multi_try_for(struct snib_multi *m, int64_t wait_ms,
                            const struct snib_acquire_options *options,
                            struct snib_grant ret_grants[],
                            struct snib_error *reterr)
{
    struct attempt a = {.m = m, .grants = ret_grants};
    memset(ret_grants, 0, m->count * sizeof ret_grants[0]);
    snib_err err = multi_check_clients(m, reterr);
    if (!err) {
        err = snib__how_read(options, wait_ms, &a.how, reterr);
    }
    if (err) {
        return err;
    }
    a.limit = wait_ms == SNIB__NO_LIMIT ? SNIB__NEVER
              : multi_once_only(&a)
                  ? snib__after(snib__boottime(), multi_patience_of(m))
                  : snib__after(snib__boottime(), snib__ms(wait_ms));
    pthread_mutex_lock(&m->mu);
    snib__list_push(&m->attempts, &a.link);
    pthread_mutex_unlock(&m->mu);
    err = multi_acquire(&a, reterr);
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
    if (multi_check_clients(m, NULL)) {
        return;
    }
    pthread_mutex_lock(&m->mu);
    m->cancelled = true;
    SNIB__LIST_EACH (l, &m->attempts) {
        struct attempt *a = SNIB__CONTAINER(l, struct attempt, link);
        if (a->waits_at) {
            snib__stop_ask(a->waits_at, &a->stop);
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
