/* kinds.c — see kinds.h. */
#include "cli/words/kinds.h"
#include "cli/words/duration.h"
#include "cli/words/waitline.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/semaphore.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

const char *kind_text(snib_kind kind)
{
    switch (kind) {
    case SNIB_KIND_MUTEX:
        return "mutex";
    case SNIB_KIND_READ:
        return "read";
    case SNIB_KIND_WRITE:
        return "write";
    case SNIB_KIND_PERMITS:
        return "semaphore";
    case SNIB_KIND_BARRIER:
        return "barrier";
    }
    return "?";
}

bool kind_parse(const char *name, snib_kind *ret)
{
    static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_READ,
                                      SNIB_KIND_WRITE, SNIB_KIND_PERMITS};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(name, kind_text(kinds[i])) == 0) {
            *ret = kinds[i];
            return true;
        }
    }
    return false;
}

bool kind_covers(snib_kind held, uint32_t held_permits, snib_kind asked,
                 uint32_t asked_permits)
{
    if (kind_excludes(held)) {
        return true;
    }
    return held == asked &&
           (held != SNIB_KIND_PERMITS || asked_permits <= held_permits);
}

/* -- params --------------------------------------------------------------- */

static bool kinds_any_permits(const struct snib_party *const *parties,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (parties[i]->kind == SNIB_KIND_PERMITS) {
            return true;
        }
    }
    return false;
}

static void kinds_ask_size(struct snib_client *client, const char *name,
                           size_t size, struct kind_params *ret)
{
    struct snib_semaphore s;

    if (snib_semaphore_get(client, name, size, &s, sizeof s, NULL) ==
        SNIB_ERR_OK) {
        ret->size = s.size;
    }
}

static void kinds_ask_gate(struct snib_client *client, const char *name,
                           size_t size, struct kind_params *ret)
{
    uint32_t left;

    if (snib_latch_left(client, name, size, &left, NULL) == SNIB_ERR_OK) {
        ret->latch = left;
    }
}

void kind_params_for(struct snib_client *client, const struct snib_view *view,
                     struct kind_params *ret)
{
    *ret = (struct kind_params)KIND_PARAMS_NONE;
    if (kinds_any_permits(view->holders, view->holder_count) ||
        kinds_any_permits(view->waiters, view->waiter_count)) {
        kinds_ask_size(client, view->name, view->name_size, ret);
    }
    if (view->holder_count == 0 && view->waiter_count > 0) {
        kinds_ask_gate(client, view->name, view->name_size, ret);
    }
}

void kind_params_get(struct snib_client *client, const char *name,
                     size_t name_size, struct kind_params *ret)
{
    *ret = (struct kind_params)KIND_PARAMS_NONE;
    kinds_ask_size(client, name, name_size, ret);
    kinds_ask_gate(client, name, name_size, ret);
}

/* -- words ---------------------------------------------------------------- */

static int64_t kinds_wall_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void kinds_add_one(struct text *t, const struct snib_party *p)
{
    char held[DURATION_TEXT_MAX], left[DURATION_TEXT_MAX];

    duration_text(p->left_ms, left);
    waitline_party(t, p);
    if (p->since_ms != 0) { /* else the store does not know */
        duration_text(kinds_wall_ms() - p->since_ms, held);
        text_addf(t, " for %s", held);
    }
    text_addf(t, ", lease %s", left);
}

/* The holder that has been in the way longest. */
static const struct snib_party *kinds_longest(const struct snib_view *view)
{
    const struct snib_party *ret = view->holders[0];

    for (size_t i = 1; i < view->holder_count; i++) {
        if (view->holders[i]->since_ms < ret->since_ms) {
            ret = view->holders[i];
        }
    }
    return ret;
}

struct tally {
    size_t readers, lots, passing;
    int64_t permits;
    const struct snib_party *exclusive;
};

static struct tally kinds_count(const struct snib_view *view)
{
    struct tally t = {0};

    for (size_t i = 0; i < view->holder_count; i++) {
        const struct snib_party *p = view->holders[i];

        switch (p->kind) {
        case SNIB_KIND_MUTEX:
        case SNIB_KIND_WRITE:
            t.exclusive = p;
            break;
        case SNIB_KIND_READ:
            t.readers++;
            break;
        case SNIB_KIND_PERMITS:
            t.lots++;
            t.permits += p->permits;
            break;
        case SNIB_KIND_BARRIER:
            t.passing++;
            break;
        }
    }
    return t;
}

static void kinds_add_permits(struct text *t, const struct tally *n,
                              const struct kind_params *params)
{
    text_addf(t, "%" PRId64, n->permits);
    if (params->size >= 0) {
        text_addf(t, " of %" PRId64, params->size);
    }
    text_addf(t, " permit%s in use",
              params->size < 0 && n->permits == 1 ? "" : "s");
}

/* A lock-delay of holders that ended keeps the lock closed: say who was the
 * last, and for how long. Where the store no longer knows who that was, it is no
 * lock-delay but the lease that the holder may still believe in (ZooKeeper,
 * RabbitMQ). */
static void kinds_add_closed(struct text *t, const struct snib_view *view)
{
    const struct snib_party *last = view->closed_by[0];
    char left[DURATION_TEXT_MAX];

    for (size_t i = 1; i < view->closed_count; i++) {
        last = view->closed_by[i]->left_ms > last->left_ms ? view->closed_by[i]
                                                           : last;
    }
    duration_text(view->closed_ms, left);
    text_addf(t, "closed for %s more, ", left);
    if (last->host[0] == '\0') {
        text_add(t, "after a holder that ended without a release");
        return;
    }
    text_add(t, "the lock-delay of ");
    waitline_party(t, last);
    text_add(t, ", which ended without a release");
}

/* Nobody holds it: a latch may be closed, a barrier's parties may gather. */
static void kinds_add_nobody(struct text *t, const struct snib_view *view,
                             const struct kind_params *params)
{
    const struct snib_party *const *at = view->waiters;
    size_t here = 0;

    if (params->latch > 0) {
        text_addf(t, "a closed latch, %" PRId64 " step%s to go", params->latch,
                  params->latch == 1 ? "" : "s");
        return;
    }
    if (view->closed_count > 0) {
        kinds_add_closed(t, view);
        return;
    }
    if (view->waiter_count == 0) {
        text_add(t, "free");
        return;
    }
    if (at[0]->kind != SNIB_KIND_BARRIER) {
        text_add(t, "held by nobody (just being granted)");
        return;
    }
    while (here < view->waiter_count && at[here]->kind == SNIB_KIND_BARRIER &&
           at[here]->permits == at[0]->permits) {
        here++;
    }
    text_addf(t, "a barrier, %zu of %" PRIu32 " parties are here", here,
              at[0]->permits);
}

static void kinds_add_holders(struct text *t, const struct snib_view *view,
                              const struct kind_params *params)
{
    struct tally n = kinds_count(view);

    if (n.exclusive != NULL) { /* any reader is the same owner */
        text_add(t, n.exclusive->kind == SNIB_KIND_WRITE ? "held by the writer "
                                                         : "held by ");
        kinds_add_one(t, n.exclusive);
        return;
    }
    if (n.readers > 0 || n.passing > 0) {
        text_addf(t, "held by %zu %s%s", n.readers > 0 ? n.readers : n.passing,
                  n.readers > 0 ? "reader" : "passing part",
                  n.readers > 0    ? n.readers == 1 ? "" : "s"
                  : n.passing == 1 ? "y"
                                   : "ies");
    }
    if (n.lots > 0) {
        text_add(t, n.readers > 0 || n.passing > 0 ? ", and " : "");
        kinds_add_permits(t, &n, params);
    }
    text_add(t, view->holder_count > 1 ? ", longest by "
                : n.lots > 0           ? " by "
                                       : ": ");
    kinds_add_one(t, kinds_longest(view));
}

void kind_missing(struct text *t, uint32_t replicas)
{
    if (replicas > 0) {
        text_addf(t, "until %" PRIu32 " more replica%s connected, and then ",
                  replicas, replicas == 1 ? " is" : "s are");
    }
}

/* The server may have forgotten who holds: it says so, and waits. */
static void kinds_add_recovery(struct text *t, const struct snib_view *view)
{
    char left[DURATION_TEXT_MAX];

    duration_text(view->recovery_ms, left);
    text_add(t, "nothing new is granted ");
    kind_missing(t, view->replicas_missing);
    text_addf(t,
              "for %s %s: the server was restarted, "
              "replaced or emptied%s, and may have forgotten who holds",
              left, view->recovery_ahead ? "from when the first asks" : "more",
              view->recovery_ahead ? ", or is new" : "");
}

void kind_holders(struct text *t, const struct snib_view *view,
                  const struct kind_params *params)
{
    if (view->holder_count == 0 && view->recovery_ms > 0) {
        kinds_add_recovery(t, view);
        return;
    }
    if (view->holder_count == 0) {
        kinds_add_nobody(t, view, params);
        return;
    }
    kinds_add_holders(t, view, params);
    if (view->closed_count > 0) {
        text_add(t, "; to requests that do not fit with them ");
        kinds_add_closed(t, view);
    }
    if (view->recovery_ms > 0) {
        text_add(t, "; ");
        kinds_add_recovery(t, view);
    }
}

/* Would the wish fit between the holders, so that only the queue is in its
 * way? */
static bool kinds_fits_as_upgrade(const struct snib_view *view,
                                  const struct kind_params *params,
                                  snib_kind kind, uint32_t permits)
{
    struct tally n = kinds_count(view);

    if (n.exclusive != NULL || n.passing > 0) {
        return false;
    }
    return kind == SNIB_KIND_READ ||
           (kind == SNIB_KIND_PERMITS &&
            (n.lots == 0 || n.permits + permits <= params->size));
}

static void kinds_add_head(struct text *t, const struct snib_party *p)
{
    switch (p->kind) {
    case SNIB_KIND_WRITE:
        text_add(t, "a writer");
        break;
    case SNIB_KIND_READ:
        text_add(t, "a reader");
        break;
    case SNIB_KIND_PERMITS:
        text_addf(t, "a request for %" PRIu32 " permit%s", p->permits,
                  p->permits == 1 ? "" : "s");
        break;
    case SNIB_KIND_MUTEX:
    case SNIB_KIND_BARRIER:
        text_addf(t, "a request for a %s", kind_text(p->kind));
        break;
    }
    text_add(t, " waits before it: ");
    waitline_party(t, p);
    text_add(t, "; ");
}

void kind_in_the_way(struct text *t, const struct snib_view *view,
                     const struct kind_params *params, snib_kind kind,
                     uint32_t permits)
{
    size_t i = 0;

    while (i < view->waiter_count && view->waiters[i]->self) {
        i++;
    }
    if (view->holder_count > 0 && i < view->waiter_count &&
        kinds_fits_as_upgrade(view, params, kind, permits)) {
        kinds_add_head(t, view->waiters[i]);
    }
    kind_holders(t, view, params);
}

void kind_wish(struct text *t, const struct snib_party *p)
{
    switch (p->kind) {
    case SNIB_KIND_MUTEX:
        break;
    case SNIB_KIND_READ:
        text_add(t, ", to read");
        break;
    case SNIB_KIND_WRITE:
        text_add(t, ", to write");
        break;
    case SNIB_KIND_PERMITS:
        text_addf(t, ", %" PRIu32 " permit%s", p->permits,
                  p->permits == 1 ? "" : "s");
        if (p->slot >= 0) {
            text_addf(t, ", slot %" PRId64, p->slot);
        }
        break;
    case SNIB_KIND_BARRIER:
        text_addf(t, ", a barrier of %" PRIu32, p->permits);
        break;
    }
}
