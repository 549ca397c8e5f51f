/* api/multi.c — several locks as one: the handle, its order, release.
 *
 * The locks stand in one order that all callers share: identity of the store,
 * then name. How they are acquired: attempt.c. Starts: multi_start.c. */
#include "api/multi_i.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

enum { SHOWN_MAX = 64 };

/* -- order ---------------------------------------------------------------- */

static int multi_by_order(const void *left, const void *right)
{
    const struct snib__part *a = left, *b = right;
    const struct snib__name *x = snib__multi_name_of(a),
                            *y = snib__multi_name_of(b);
    size_t both = x->raw_size < y->raw_size ? x->raw_size : y->raw_size;
    int c = strcmp(snib__multi_client_of(a)->store_identity,
                   snib__multi_client_of(b)->store_identity);
    if (!c) {
        c = memcmp(x->raw, y->raw, both);
    }
    return c ? c : (x->raw_size > y->raw_size) - (x->raw_size < y->raw_size);
}

/* For "%.*s": how much of a long name is shown. */
int snib__multi_shown_size(const struct snib__part *p)
{
    return snib__multi_name_of(p)->safe_size < SHOWN_MAX
               ? (int)snib__multi_name_of(p)->safe_size
               : SHOWN_MAX;
}

snib_err snib__multi_fail_at(const struct snib__part *p,
                             const struct snib_error *why,
                             struct snib_error *reterr)
{
    return snib__fail(reterr, why->code, "'%.*s': %s",
                      snib__multi_shown_size(p), snib__multi_name_of(p)->safe,
                      why->text[0] ? why->text : snib_err_text(why->code));
}

static snib_err multi_check_twice(const struct snib_multi *m,
                                  struct snib_error *reterr)
{
    for (size_t i = 1; i < m->count; i++) {
        const struct snib__part *a = &m->part[i - 1], *b = &m->part[i];
        if (multi_by_order(a, b) == 0) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "'%.*s' is named twice (locks %zu and %zu): "
                              "name each lock once, whatever its kind; a "
                              "read and a write of it exclude each other",
                              snib__multi_shown_size(a),
                              snib__multi_name_of(a)->safe,
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
    struct snib_multi_options options; /* there is none yet */
    snib_err err = snib__options_read(o, sizeof options, "multi options",
                                      &options, reterr);
    if (err) {
        return err;
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
        m->part[i] = (struct snib__part){locks[i], i};
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

/* What was started goes on without it. */
void snib_multi_free(struct snib_multi *m)
{
    struct snib__link *l;
    if (!m) {
        return;
    }
    while ((l = snib__list_pop(&m->attempts))) {
        SNIB__CONTAINER(l, struct snib__attempt, link)->m = NULL;
    }
    pthread_mutex_destroy(&m->mu);
    snib__free(m);
}

size_t snib_multi_count(const struct snib_multi *m)
{
    return m->count;
}

/* -- looking -------------------------------------------------------------- */

static int multi_gravity(snib_state state)
{
    switch (state) {
    case SNIB_STATE_HELD:
        return 0;
    case SNIB_STATE_AT_RISK:
        return 1;
    case SNIB_STATE_RELEASED:
        return 2;
    case SNIB_STATE_LOST:
        break;
    }
    return 3;
}

void snib__multi_status_of(const struct snib__part part[], size_t count,
                           const struct snib_grant grants[],
                           struct snib_multi_status *ret)
{
    struct snib_multi_status all = {.state = SNIB_STATE_HELD,
                                    .left_ms = INT64_MAX};
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct snib__part *p = &part[i];
        struct snib_status status;
        snib_grant_status(p->lock, grants[p->index], &status, sizeof status);
        int more = multi_gravity(status.state) - multi_gravity(all.state);
        if (more > 0 || (more == 0 && status.left_ms < all.left_ms)) {
            all.state = status.state;
            all.cause = status.cause;
            all.left_ms = status.left_ms;
            all.member = p->index;
        }
        least = status.left_ms < least ? status.left_ms : least;
    }
    all.left_ms = least;
    *ret = all;
}

void snib_multi_status(struct snib_multi *m, const struct snib_grant grants[],
                       struct snib_multi_status *ret, size_t ret_size)
{
    struct snib_multi_status all;
    snib__multi_status_of(m->part, m->count, grants, &all);
    snib__result_write(&all, sizeof all, ret, ret_size);
}

bool snib_multi_held(struct snib_multi *m, const struct snib_grant grants[])
{
    struct snib_multi_status status;
    snib_multi_status(m, grants, &status, sizeof status);
    return (status.state == SNIB_STATE_HELD ||
            status.state == SNIB_STATE_AT_RISK) &&
           status.left_ms > 0;
}

/* -- release -------------------------------------------------------------- */

snib_duration snib__multi_patience(const struct snib__part part[], size_t count)
{
    snib_duration most = {0};
    for (size_t i = 0; i < count; i++) {
        snib_duration d = snib__multi_client_of(&part[i])->request;
        most = d.ns > most.ns ? d : most;
    }
    return most;
}

static int multi_badness(snib_err err)
{
    return err == SNIB_ERR_OK        ? 0
           : err == SNIB_ERR_LOST    ? 3
           : err == SNIB_ERR_UNKNOWN ? 2
                                     : 1;
}

size_t snib__multi_last_of(const struct snib__part part[], size_t to,
                           const struct snib_grant grants[],
                           struct snib__batch_item ret[SNIB__MULTI_CHUNK])
{
    const struct snib_client *c = snib__multi_client_of(&part[to - 1]);
    size_t n = 0;
    for (; to > 0 && n < SNIB__MULTI_CHUNK &&
           snib__multi_client_of(&part[to - 1]) == c;
         n++) {
        const struct snib__part *p = &part[--to];
        ret[n].lock = p->lock;
        ret[n].grant = grants[p->index];
    }
    return n;
}

void snib__multi_keep_worst(const struct snib__batch_item member[], size_t n,
                            size_t to, struct snib_error *worst, size_t *ret_at)
{
    for (size_t i = 0; i < n; i++) {
        if (multi_badness(member[i].error.code) > multi_badness(worst->code)) {
            *worst = member[i].error;
            *ret_at = to - 1 - i;
        }
    }
}

snib_err snib__multi_check_clients(const struct snib_multi *m, bool blocks,
                                   struct snib_error *reterr)
{
    snib_err err = SNIB_ERR_OK;
    for (size_t i = 0; i < m->count && !err; i++) {
        const struct snib_client *c = snib__multi_client_of(&m->part[i]);
        err = snib__client_check(c, reterr);
        if (!err && blocks) {
            err = snib__may_block(c, reterr);
        }
    }
    return err;
}

snib_err snib_multi_release(struct snib_multi *m,
                            const struct snib_grant grants[],
                            struct snib_error *reterr)
{
    struct snib__batch_item member[SNIB__MULTI_CHUNK];
    struct snib_error worst = {0};
    size_t at = 0;
    snib_err err = snib__multi_check_clients(m, true, reterr);
    if (err) {
        return err;
    }
    snib_instant limit =
        snib__after(snib__boottime(), snib__multi_patience(m->part, m->count));
    for (size_t to = m->count, n; to > 0; to -= n) {
        struct snib_client *c = snib__multi_client_of(&m->part[to - 1]);
        n = snib__multi_last_of(m->part, to, grants, member);
        snib__batch_release(
            c, member, n,
            snib__multi_shorter(c->request, snib__multi_left_until(limit)));
        snib__multi_keep_worst(member, n, to, &worst, &at);
    }
    return worst.code ? snib__multi_fail_at(&m->part[at], &worst, reterr)
                      : snib__ok(reterr);
}
