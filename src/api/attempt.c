/* api/attempt.c — acquiring a multi: all locks or none. This file says what is
 * to be asked next; who asks is a call (multi_acquire.c) or the thread that
 * takes events (multi_start.c).
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
 *   TAKES --tries--> TRIED --some ahead--> AHEAD --+
 *     ^                |                           |
 *     +---all granted--+--------------<------------+
 *     |                +--not worth waiting--> UNDOES --> OVER, or TAKES again
 *     +----granted--- WAITED --refused----------^
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
#include "api/multi_i.h"
#include "base/error.h"

enum { TAKES, TRIED, AHEAD, WAITED, UNDOES };

enum { BOTH_SHOWN_MAX = 48 };

static bool attempt_once_only(const struct snib__attempt *a)
{
    return a->how.wait_ms == 0;
}

/* Part i has failed with *why. */
static void attempt_failed(struct snib__attempt *a, size_t i,
                           const struct snib_error *why)
{
    a->why = *why;
    a->at = i;
    if (why->code == SNIB_ERR_UNKNOWN && a->unknown < i + 1) {
        a->unknown = i + 1;
    }
}

/* -- under the multi's mutex -------------------------------------------------- */

void snib__attempt_enter(struct snib__attempt *a)
{
    pthread_mutex_lock(&a->m->mu);
    snib__list_push(&a->m->attempts, &a->link);
    pthread_mutex_unlock(&a->m->mu);
}

void snib__attempt_leave(struct snib__attempt *a, snib_err err)
{
    struct snib_multi *m = a->m;
    if (m) {
        pthread_mutex_lock(&m->mu);
        snib__unlink(&a->link);
        m->missing = err ? m->missing : m->count;
        pthread_mutex_unlock(&m->mu);
    }
}

static void attempt_is_missing(const struct snib__attempt *a, size_t index)
{
    if (a->m) {
        pthread_mutex_lock(&a->m->mu);
        a->m->missing = index;
        pthread_mutex_unlock(&a->m->mu);
    }
}

/* Part i is missing, and will be waited for. False: the multi was cancelled. */
static bool attempt_begin_wait(struct snib__attempt *a, size_t i)
{
    struct snib_multi *m = a->m;
    if (!m) {
        return true;
    }
    pthread_mutex_lock(&m->mu);
    bool go = !m->cancelled || attempt_once_only(a);
    m->missing = a->part[i].index;
    a->waits_at =
        go && !attempt_once_only(a) ? snib__multi_client_of(&a->part[i]) : NULL;
    a->canceller = (struct snib__canceller){0};
    pthread_mutex_unlock(&m->mu);
    return go;
}

static void attempt_end_wait(struct snib__attempt *a, bool acquired)
{
    struct snib_multi *m = a->m;
    if (m) {
        pthread_mutex_lock(&m->mu);
        a->waits_at = NULL;
        if (acquired) {
            m->missing = m->count;
        }
        pthread_mutex_unlock(&m->mu);
    }
}

/* -- giving back --------------------------------------------------------------- */

static enum snib__attempt_ask attempt_take(struct snib__attempt *a);

/* Give back the next ones, of those that are left to be. When none is, it is
 * over, or begins again. */
static enum snib__attempt_ask attempt_undo_more(struct snib__attempt *a)
{
    if (a->back > 0) {
        a->members =
            snib__multi_last_of(a->part, a->back, a->grants, a->member);
        a->patience = snib__multi_shorter(
            snib__multi_client_of(&a->part[a->back - 1])->request,
            snib__multi_left_until(a->back_limit));
        a->state = UNDOES;
        return SNIB__ATTEMPT_BACK;
    }
    if (a->again) {
        a->again = false;
        return attempt_take(a);
    }
    return SNIB__ATTEMPT_OVER;
}

/* Give back the first `to` parts. */
static enum snib__attempt_ask attempt_undo(struct snib__attempt *a, size_t to)
{
    a->back = a->undone = to;
    a->held = 0;
    a->back_limit =
        snib__after(snib__boottime(), snib__multi_patience(a->part, a->count));
    return attempt_undo_more(a);
}

/* Record which parts are unknown then. */
static enum snib__attempt_ask attempt_undone(struct snib__attempt *a)
{
    for (size_t j = 0; j < a->members; j++) {
        snib_err err = a->member[j].error.code;
        if (err && err != SNIB_ERR_LOST && a->unknown < a->undone) {
            a->unknown = a->undone;
        }
        a->grants[a->part[--a->back].index] = (struct snib_grant){0};
    }
    return attempt_undo_more(a);
}

static enum snib__attempt_ask attempt_give_up(struct snib__attempt *a)
{
    if (a->unknown && a->unknown <= a->held) {
        a->unknown = 0; /* acquired since, and so known */
    }
    return attempt_undo(a, a->held);
}

/* -- waiting for one ------------------------------------------------------------ */

static enum snib__attempt_ask attempt_not_waited(struct snib__attempt *a,
                                                 snib_err err)
{
    struct snib_error why;
    snib__fail_plain(&why, err);
    attempt_failed(a, a->held, &why);
    return attempt_give_up(a);
}

/* Wait for the first part that is not held; all before it are. */
static enum snib__attempt_ask attempt_wait(struct snib__attempt *a)
{
    a->wait = a->how;
    if (a->limit.ns != INT64_MAX && !attempt_once_only(a)) {
        a->wait.wait_ms =
            (snib__multi_left_until(a->limit).ns + 999999) / 1000000;
        if (!a->wait.wait_ms) {
            return attempt_not_waited(a, SNIB_ERR_TIMEOUT);
        }
    }
    if (!attempt_begin_wait(a, a->held)) {
        return attempt_not_waited(a, SNIB_ERR_CANCELLED);
    }
    a->said = (struct snib_error){0};
    a->state = WAITED;
    return SNIB__ATTEMPT_WAIT;
}

static enum snib__attempt_ask attempt_waited(struct snib__attempt *a)
{
    attempt_end_wait(a, !a->said.code);
    if (a->said.code) {
        attempt_failed(a, a->held, &a->said);
        return attempt_give_up(a);
    }
    a->held++;
    return attempt_take(a);
}

/* -- trying several --------------------------------------------------------------- */

/* How many parts from i on fit into one visit. */
static size_t attempt_run_from(const struct snib__attempt *a, size_t i)
{
    size_t n = 1;
    while (n < SNIB__MULTI_CHUNK && i + n < a->count &&
           snib__multi_client_of(&a->part[i + n]) ==
               snib__multi_client_of(&a->part[i])) {
        n++;
    }
    return n;
}

/* Is it worth waiting after this refusal of a try? (STORE is: another process
 * may be inside a lock file. If waiting does not help, the wait ends at once
 * with the same error.) */
static bool attempt_worth_waiting(const struct snib__attempt *a)
{
    return !attempt_once_only(a) &&
           (a->why.code == SNIB_ERR_BUSY || a->why.code == SNIB_ERR_STORE ||
            a->why.code == SNIB_ERR_UNREACHABLE ||
            a->why.code == SNIB_ERR_UNKNOWN);
}

/* Only the first so many of those that were tried are held now. */
static enum snib__attempt_ask attempt_after_tries(struct snib__attempt *a)
{
    a->held += a->got;
    if (a->got == a->run || (a->got && a->why.code == SNIB_ERR_CANCELLED)) {
        return attempt_take(a); /* the next ones were not asked for yet */
    }
    return attempt_worth_waiting(a) ? attempt_wait(a) : attempt_give_up(a);
}

static enum snib__attempt_ask attempt_tries(struct snib__attempt *a)
{
    const struct snib__part *part = &a->part[a->held];
    snib_duration left = snib__multi_left_until(a->limit);
    a->got = 0;
    if (left.ns == 0) { /* a request sent now could not be answered */
        struct snib_error late;
        snib__fail_plain(&late, attempt_once_only(a) ? SNIB_ERR_UNREACHABLE
                                                     : SNIB_ERR_TIMEOUT);
        attempt_failed(a, a->held, &late);
        return attempt_after_tries(a);
    }
    for (size_t j = 0; j < a->run; j++) {
        a->member[j].lock = part[j].lock;
    }
    a->members = a->run;
    a->patience =
        snib__multi_shorter(snib__multi_client_of(part)->request, left);
    a->state = TRIED;
    return SNIB__ATTEMPT_TRIES;
}

/* The grants behind the first refused part of a visit are to be given back.
 * Returns how many there are; they are the members now. */
static size_t attempt_ahead(struct snib__attempt *a)
{
    struct ahead {
        struct snib_lock *lock;
        struct snib_grant grant;
    } ahead[SNIB__MULTI_CHUNK];
    size_t count = 0;
    for (size_t j = a->run; j-- > a->got + 1;) {
        const struct snib__batch_item *m = &a->member[j];
        if (!m->error.code) {
            ahead[count++] = (struct ahead){m->lock, m->grant};
        } else if (m->error.code == SNIB_ERR_UNKNOWN &&
                   a->unknown < a->held + j + 1) {
            a->unknown = a->held + j + 1;
        }
    }
    for (size_t j = 0; j < count; j++) {
        a->member[j].lock = ahead[j].lock;
        a->member[j].grant = ahead[j].grant;
    }
    a->members = count;
    return count;
}

static enum snib__attempt_ask attempt_gave_back_ahead(struct snib__attempt *a)
{
    for (size_t j = 0; j < a->members; j++) {
        snib_err err = a->member[j].error.code;
        if (err && err != SNIB_ERR_LOST && a->unknown < a->held + a->run) {
            a->unknown = a->held + a->run;
        }
    }
    return attempt_after_tries(a);
}

/* The first of the members [got, run) is not acquired. Find the one on account
 * of which the others were not; got (CANCELLED) if there is none. */
static size_t attempt_culprit_of(const struct snib__attempt *a)
{
    for (size_t j = a->got; j < a->run; j++) {
        snib_err err = a->member[j].error.code;
        if (err && err != SNIB_ERR_CANCELLED) {
            return j;
        }
    }
    return a->got;
}

static enum snib__attempt_ask attempt_tried(struct snib__attempt *a)
{
    while (a->got < a->run && !a->member[a->got].error.code) {
        a->grants[a->part[a->held + a->got].index] = a->member[a->got].grant;
        a->got++;
    }
    if (a->got == a->run) {
        return attempt_after_tries(a);
    }
    size_t culprit = attempt_culprit_of(a);
    if (!a->got && a->member[culprit].error.code == SNIB_ERR_CANCELLED) {
        snib__fail_plain(&a->member[culprit].error, SNIB_ERR_BUSY);
    }
    attempt_failed(a, a->held + culprit, &a->member[culprit].error);
    if (!attempt_ahead(a)) {
        return attempt_after_tries(a);
    }
    /* Nobody waits longer than for one answer. */
    a->patience = snib__multi_client_of(&a->part[a->held])->request;
    a->state = AHEAD;
    return SNIB__ATTEMPT_BACK;
}

/* -- all of it ----------------------------------------------------------------------- */

/* True when none was lost while others were waited for. */
static bool attempt_all_held(struct snib__attempt *a)
{
    struct snib_multi_status status;
    snib__multi_status_of(a->part, a->count, a->grants, &status);
    if (status.state != SNIB_STATE_LOST &&
        status.state != SNIB_STATE_RELEASED) {
        return true;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (a->part[i].index == status.member) {
            a->at = i;
        }
    }
    snib__fail(&a->why, attempt_once_only(a) ? SNIB_ERR_BUSY : SNIB_ERR_TIMEOUT,
               "its lease ended (%s) before all were acquired",
               snib_cause_text(status.cause));
    return false;
}

/* Take what is not held yet. */
static enum snib__attempt_ask attempt_take(struct snib__attempt *a)
{
    if (a->held < a->count) {
        a->run = attempt_run_from(a, a->held);
        return a->run > 1 ? attempt_tries(a) : attempt_wait(a);
    }
    a->all = attempt_all_held(a);
    if (a->all) {
        return SNIB__ATTEMPT_OVER;
    }
    a->unknown = 0;
    a->again = !attempt_once_only(a) && snib__multi_left_until(a->limit).ns > 0;
    return attempt_undo(a, a->count);
}

enum snib__attempt_ask snib__attempt_next(struct snib__attempt *a)
{
    switch (a->state) {
    case TAKES:
        return attempt_take(a);
    case TRIED:
        return attempt_tried(a);
    case AHEAD:
        return attempt_gave_back_ahead(a);
    case WAITED:
        return attempt_waited(a);
    default: /* UNDOES */
        return attempt_undone(a);
    }
}

void snib__attempt_init(struct snib__attempt *a, struct snib_multi *m,
                        const struct snib__part part[], size_t count,
                        struct snib_grant grants[], int64_t wait_ms)
{
    snib__link_init(&a->link);
    a->m = m;
    a->part = part;
    a->count = count;
    a->grants = grants;
    a->limit =
        wait_ms == SNIB__NO_LIMIT ? SNIB__NEVER
        : attempt_once_only(a)
            ? snib__after(snib__boottime(), snib__multi_patience(part, count))
            : snib__after(snib__boottime(), snib__ms(wait_ms));
}

/* For "%.*s": how much of a name is shown where the text has two of them. */
static int attempt_shown_size(const struct snib__part *p)
{
    int size = snib__multi_shown_size(p);
    return size < BOTH_SHOWN_MAX ? size : BOTH_SHOWN_MAX;
}

snib_err snib__attempt_outcome(const struct snib__attempt *a,
                               struct snib_error *reterr)
{
    const struct snib__part *p = &a->part[a->at];
    if (a->all) {
        return snib__ok(reterr);
    }
    attempt_is_missing(a, p->index);
    if (!a->unknown || a->why.code == SNIB_ERR_UNKNOWN) {
        return snib__multi_fail_at(p, &a->why, reterr);
    }
    const struct snib__part *u = &a->part[a->unknown - 1];
    return snib__fail(reterr, SNIB_ERR_UNKNOWN,
                      "'%.*s': %s; and no answer came about '%.*s', or one "
                      "before it, which ends with its lease at the latest",
                      attempt_shown_size(p), snib__multi_name_of(p)->safe,
                      snib_err_text(a->why.code), attempt_shown_size(u),
                      snib__multi_name_of(u)->safe);
}
