/* multis.c — x: a and b as one, each thread's own.
 *
 * What was granted stands in the handles BOTH_A and BOTH_B, so that the rules
 * of a and b hold for it. A cancel ends the acquires of x of all threads of the
 * client. An acquire that failed has left nothing (books.c). */
#include "snib/multi.h"

#include <string.h>

#include "calls.h"
#include "kinds.h"
#include "snib/event.h"

/* -- acquire ----------------------------------------------------------------------- */

struct before {
    uint32_t others, came_a, came_b, forces_a, forces_b;
};

static struct before begin(struct world *w, struct actor *a, int64_t wait_ms)
{
    struct handle *x = &a->handle[BOTH_A], *y = &a->handle[BOTH_B];
    struct before b;
    judge_asks(w, a, y, wait_ms);
    b.others = a->others;
    b.came_b = a->came;
    b.forces_b = a->forces;
    judge_asks(w, a, x, wait_ms); /* it waits for this one, so to speak */
    b.others += a->others;
    b.came_a = a->came;
    b.forces_a = a->forces;
    return b;
}

static const char *bad_refusal(const struct world *w, const struct actor *a,
                               snib_err err, const struct before *b)
{
    bool meanwhile = b->came_a != w->name[0].came ||
                     b->came_b != w->name[1].came || w->name[0].blurred ||
                     w->name[1].blurred;
    bool forced = w->name[0].forces || w->name[1].forces;
    bool closing = w->shut[a->client].closing;
    switch (err) {
    case SNIB_ERR_BUSY:
        return a->now != VERB_TRY       ? "it is no try"
               : b->others || meanwhile ? NULL
                                        : "nobody else had or wanted them";
    case SNIB_ERR_TIMEOUT:
        judge_timeout(w, a, verb_text[a->now], a->limit, a->warps);
        return a->now == VERB_WAIT5 ? NULL : "it has no limit";
    case SNIB_ERR_CANCELLED:
        return a->both_cancelled ? NULL : "nobody has cancelled it";
    case SNIB_ERR_CLOSED:
        return closing ? NULL : "nobody has closed it";
    case SNIB_ERR_UNKNOWN:
        return closing || judge_was_late(err, a->warps) ? NULL
                                                        : "all was answered";
    case SNIB_ERR_LOST:
        return forced ? NULL : "nothing was lost";
    case SNIB_ERR_DEADLOCK: /* others may take b before a */
        return strstr(w->text, ".b") ? NULL : "all take a before b";
    default:
        return judge_was_late(err, a->warps) ? NULL : "that may not be";
    }
}

static void acquire(struct world *w, struct actor *a, int64_t wait_ms)
{
    struct handle *x = &a->handle[BOTH_A], *y = &a->handle[BOTH_B];
    struct snib_grant grants[2];
    struct snib_error error;
    struct before was = begin(w, a, wait_ms);
    snib_err err = snib_multi_try_for(a->both, wait_ms, NULL, grants, &error);
    a->waits_for = NULL;
    sched_say("= %s %s %d %d", snib_err_name(err), err ? error.text : "",
              (int)(grants[0].token % 1000000),
              (int)(grants[1].token % 1000000));
    bool late = err == SNIB_ERR_TIMEOUT && a->warps != sched.run->warps;
    if (a->shut && err != SNIB_ERR_CLOSED && !late) {
        judge_wrong(w, a, verb_text[a->now], err,
                    "its client was closed before");
    }
    if (!err) {
        judge_granted(w, a, x, grants[1], false, was.forces_a);
        judge_granted(w, a, y, grants[0], false, was.forces_b);
        return;
    }
    if (grants[0].ticket || grants[1].ticket) {
        judge_wrong(w, a, verb_text[a->now], err, "and a grant");
    }
    const char *why = bad_refusal(w, a, err, &was);
    if (why) {
        judge_wrong(w, a, verb_text[a->now], err, why);
    }
    judge_wants(w, x, false);
    judge_wants(w, y, false);
}

/* -- started --------------------------------------------------------------------------- */

bool multis_started(const struct actor *a, const struct handle *h)
{
    return (h == &a->handle[BOTH_A] || h == &a->handle[BOTH_B]) &&
           (a->both_start.open || a->both_drop.open);
}

static void open_start(struct actor *a, struct start *s)
{
    *s = (struct start){.of = &a->handle[BOTH_A],
                        .actor_of = a,
                        .done = true,
                        .open = true,
                        .since = a->began,
                        .limit = a->limit,
                        .warps = a->warps};
}

static void start(struct world *w, struct actor *a, int64_t wait_ms)
{
    struct handle *x = &a->handle[BOTH_A], *y = &a->handle[BOTH_B];
    struct snib_error error;
    judge_begin(w, a, y, wait_ms);
    a->both_forces[0] = a->forces;
    judge_begin(w, a, x, wait_ms);
    a->both_forces[1] = a->forces;
    open_start(a, &a->both_start);
    snib_err err =
        snib_multi_try_for_start(a->both, wait_ms, NULL, a->both_grants,
                                 &a->both_start, &a->both_start.ticket, &error);
    sched_say("= %s %s", snib_err_name(err), err ? error.text : "");
    if (a->shut && err != SNIB_ERR_CLOSED) {
        judge_wrong(w, a, "start of both", err, "its client was closed before");
    }
    if (err) {
        a->both_start.open = false;
        judge_wants(w, x, false);
        judge_wants(w, y, false);
        if (err != SNIB_ERR_CLOSED || !w->shut[a->client].closing ||
            a->both_start.events) {
            judge_wrong(w, a, "start of both", err, "that may not be");
        }
    }
}

static const char *bad_start(const struct world *w, const struct actor *a,
                             const struct start *s, snib_err err)
{
    bool closing = w->shut[a->client].closing;
    switch (err) {
    case SNIB_ERR_TIMEOUT: /* it goes on when events are taken */
        return sched_now() < s->limit ? "its limit is still ahead" : NULL;
    case SNIB_ERR_CANCELLED:
        return a->both_cancelled || s->cancelled ? NULL
                                                 : "nobody has cancelled it";
    case SNIB_ERR_CLOSED:
        return closing ? NULL : "nobody has closed it";
    case SNIB_ERR_UNKNOWN:
        return closing || s->cancelled || a->both_cancelled ||
                       judge_was_late(err, s->warps)
                   ? NULL
                   : "all was answered";
    case SNIB_ERR_LOST:
        return w->name[0].forces || w->name[1].forces ? NULL
                                                      : "nothing was lost";
    case SNIB_ERR_DEADLOCK:
        return strstr(w->text, ".b") ? NULL : "all take a before b";
    default:
        return judge_was_late(err, s->warps) ? NULL : "that may not be";
    }
}

static void took(struct world *w, struct actor *a)
{
    struct handle *x = &a->handle[BOTH_A], *y = &a->handle[BOTH_B];
    struct start *s = &a->both_start;
    snib_err err = s->ev.error.code;
    s->open = false;
    if (!err && !w->shut[a->client].stopping) {
        judge_granted(w, a, x, a->both_grants[1], true, a->both_forces[1]);
        judge_granted(w, a, y, a->both_grants[0], true, a->both_forces[0]);
        x->since = y->since = s->since; /* at the earliest */
        return;
    }
    if (err && (a->both_grants[0].ticket || a->both_grants[1].ticket)) {
        judge_wrong(w, a, "start of both", err, "and a grant");
    }
    const char *why = err ? bad_start(w, a, s, err) : NULL;
    if (why) {
        judge_wrong(w, a, "start of both", err, why);
    }
    judge_wants(w, x, false);
    judge_wants(w, y, false);
}

static void dropped(struct world *w, struct actor *a, snib_err err)
{
    struct handle *x = &a->handle[BOTH_A], *y = &a->handle[BOTH_B];
    const char *why = judge_bad_end(w, a, x, err);
    a->both_drop.open = false;
    if (why && judge_bad_end(w, a, y, err) &&
        !(err == SNIB_ERR_UNKNOWN && w->shut[a->client].stopping)) {
        judge_wrong(w, a, "drop of both", err, why);
    }
    x->owner = y->owner = false;
    judge_wants(w, x, false);
    judge_wants(w, y, false);
}

static void drop(struct world *w, struct actor *a)
{
    struct handle *x = &a->handle[BOTH_A], *y = &a->handle[BOTH_B];
    struct snib_grant grants[2] = {y->grant, x->grant};
    struct snib_error error;
    if (!x->count || a->both_drop.open) {
        return;
    }
    judge_gives_back(w, a, x);
    bool lost_ok = a->lost_ok;
    judge_gives_back(w, a, y);
    a->lost_ok |= lost_ok;
    open_start(a, &a->both_drop);
    snib_err err =
        snib_multi_release_start(a->both, grants, &a->both_drop, NULL, &error);
    sched_say("= %s %s", snib_err_name(err), err ? error.text : "");
    if (err) {
        dropped(w, a, err);
    }
}

static void take(struct world *w, struct actor *a)
{
    if (a->both_start.open) {
        a->waits_for = &a->handle[BOTH_A];
        calls_await(w, a, &a->both_start);
        a->waits_for = NULL;
        took(w, a);
    }
    if (a->both_drop.open) {
        calls_await(w, a, &a->both_drop);
        dropped(w, a, a->both_drop.ev.error.code);
    }
}

/* -- release, cancel ------------------------------------------------------------------ */

static void release(struct world *w, struct actor *a)
{
    struct handle *x = &a->handle[BOTH_A], *y = &a->handle[BOTH_B];
    struct snib_grant grants[2] = {y->grant, x->grant};
    struct snib_error error;
    if (!x->count) {
        return;
    }
    judge_gives_back(w, a, x);
    bool lost_ok = a->lost_ok;
    judge_gives_back(w, a, y);
    a->lost_ok |= lost_ok;
    snib_err err = snib_multi_release(a->both, grants, &error);
    sched_say("= %s %s", snib_err_name(err), err ? error.text : "");
    const char *why = judge_bad_end(w, a, x, err);
    if (why && judge_bad_end(w, a, y, err)) {
        judge_wrong(w, a, "release of both", err, why);
    }
    x->owner = y->owner = false;
    judge_wants(w, x, false);
    judge_wants(w, y, false);
}

static void cancel(struct world *w, struct actor *a)
{
    for (int i = 0; i < w->actors; i++) {
        struct actor *b = &w->actor[i];
        if (b->both && b->client == a->client) {
            b->both_cancelled = true;
            snib_multi_cancel(b->both);
        }
    }
}

void multis_act(struct world *w, struct actor *a, verb v)
{
    switch (v) {
    case VERB_ACQUIRE:
        acquire(w, a, INT64_MAX);
        break;
    case VERB_WAIT5:
        acquire(w, a, 5);
        break;
    case VERB_TRY:
        acquire(w, a, 0);
        break;
    case VERB_RELEASE:
        release(w, a);
        break;
    case VERB_START:
        start(w, a, INT64_MAX);
        break;
    case VERB_START5:
        start(w, a, 5);
        break;
    case VERB_TAKE:
        take(w, a);
        break;
    case VERB_DROP:
        drop(w, a);
        break;
    default:
        cancel(w, a);
        break;
    }
}

/* Nothing else may be held. */
bool multis_out_of_place(const struct world *w, const struct actor *a, verb v)
{
    bool starts = v == VERB_START || v == VERB_START5;
    if (v == VERB_TAKE || v == VERB_DROP || v == VERB_CANCEL) {
        return false;
    }
    if (w->pull && !starts) {
        return true;
    }
    if (v == VERB_RELEASE) {
        return a->both_drop.open;
    }
    if (a->both_start.open || a->both_drop.open) {
        return true;
    }
    for (int i = 0; i < LETTERS; i++) {
        const struct handle *h = &a->handle[i];
        if (h->count || h->start.open || h->drop.open) {
            return true;
        }
    }
    return false;
}

bool multis_has(const struct world *w, const struct actor *a,
                const struct handle *h)
{
    return multis_started(a, h) ||
           (a->waits_for == &a->handle[BOTH_A] &&
            (h == &a->handle[BOTH_A] || h == &a->handle[BOTH_B]) &&
            books_holds(w, a->client, judge_name(h)));
}

/* -- from open to close ------------------------------------------------------------------ */

/* Named against their order. */
void multis_open(struct world *w, struct actor *a)
{
    struct snib_error error;
    if (a->both) {
        return;
    }
    program_handle(w, a, BOTH_A, 0);
    program_handle(w, a, BOTH_B, 1);
    struct snib_lock *locks[2] = {a->handle[BOTH_B].lock,
                                  a->handle[BOTH_A].lock};
    if (snib_multi_new(locks, 2, NULL, &a->both, &error)) {
        sched_fail("both: %s", error.text);
    }
}

void multis_clean_up(struct world *w, struct actor *a)
{
    if (!a->both) {
        return;
    }
    a->now = VERB_TAKE;
    if (a->both_start.open) {
        a->both_start.cancelled = true;
        snib_client_cancel(w->client[a->client], a->both_start.ticket);
    }
    take(w, a);
    if (w->pull) {
        drop(w, a);
        take(w, a);
    } else {
        a->now = VERB_RELEASE;
        release(w, a);
    }
    a->now = VERB_COUNT;
}

void multis_close(struct world *w)
{
    for (int i = 0; i < w->actors; i++) {
        snib_multi_free(w->actor[i].both);
    }
}
