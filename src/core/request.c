/* core/request.c — requests under way, and direct requests, which belong to no
 * claim.
 *
 * Pending requests come from a spare list. When that is empty and there is no
 * memory, a claim simply tries again at its next timer: a step that cannot go
 * on now is late, never wrong.
 *
 * A direct request is a caller's: INSPECT, LIST, a forced release, a size, a
 * value. Its answer is told as it is, with two exceptions. A change of which an
 * earlier copy was sent and not answered stays unknown, whatever becomes of the
 * later copy. A request that changes nothing is never unknown. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/engine_i.h"
#include "core/version.h"

enum {
    TEXT_LIMIT = 4096,
    VALUE_LIMIT = SNIB_VALUE_MAX + 1,
    RESULT_LIMIT = 256 << 20
};

/* -- pending requests ----------------------------------------------------- */

static struct snib__pending *request_pending_new(void)
{
    struct snib__pending *q = snib__alloc(sizeof *q);
    if (q) {
        snib__link_init(&q->idle);
        snib__buf_init(&q->text, TEXT_LIMIT);
        snib__buf_init(&q->result, RESULT_LIMIT);
    }
    return q;
}

static void request_pending_free(struct snib__pending *q)
{
    snib__buf_free(&q->text);
    snib__buf_free(&q->result);
    snib__free(q->name);
    snib__free(q);
}

struct snib__pending *snib__pending_get(struct snib__engine *e,
                                        struct snib__local_lock *local)
{
    struct snib__link *l = snib__list_pop(&e->spare);
    struct snib__pending *q;
    if (l) {
        q = SNIB__CONTAINER(l, struct snib__pending, idle);
        e->spares--;
    } else {
        q = request_pending_new();
    }
    if (!q) {
        return NULL;
    }
    snib__list_push(&e->busy, &q->idle);
    q->rq = (struct snib__request){0};
    snib__link_init(&q->rq.link);
    snib__link_init(&q->rq.own);
    q->rq.user = q;
    q->rq.reterr = &q->error;
    q->rq.id[0] = snib__rng_next(&e->rng);
    q->rq.id[1] = snib__rng_next(&e->rng);
    q->error.code = SNIB_ERR_OK;
    q->error.text[0] = 0;
    q->claim = NULL;
    q->direct = NULL;
    q->local = local;
    snib__buf_clear(&q->text);
    snib__buf_clear(&q->result);
    if (local) {
        local->refs++;
        q->rq.name = local->name;
    }
    return q;
}

void snib__pending_put(struct snib__engine *e, struct snib__pending *q)
{
    if (q->local) {
        snib__local_lock_drop(e, q->local);
        q->local = NULL;
    }
    snib__free(q->name);
    q->name = NULL;
    snib__unlink(&q->idle);
    if (q->text.limit > TEXT_LIMIT) { /* a value's bytes are not kept */
        snib__buf_free(&q->text);
        q->text.limit = TEXT_LIMIT;
    }
    if (e->spares >= SNIB__SPARE_MAX) {
        request_pending_free(q);
        return;
    }
    e->spares++;
    snib__list_push(&e->spare, &q->idle);
}

void snib__pending_start(struct snib__engine *e, struct snib__pending *q)
{
    q->rq.answer = SNIB__PENDING;
    q->rq.patience = q->rq.limit;
    q->rq.err = SNIB_ERR_OK;
    q->rq.revoked = false;
    assert(!snib__linked(&q->rq.link));
    snib__list_push(&e->chain, &q->rq.link);
    e->out_requests++;
}

snib_err snib__pending_init(struct snib__engine *e)
{
    for (int i = 0; i < SNIB__SPARE; i++) {
        struct snib__pending *q = request_pending_new();
        if (!q) {
            return SNIB_ERR_NOMEM;
        }
        snib__list_push(&e->spare, &q->idle);
        e->spares++;
    }
    return SNIB_ERR_OK;
}

void snib__pending_free(struct snib__engine *e)
{
    struct snib__link *l;
    while ((l = snib__list_pop(&e->spare))) {
        request_pending_free(SNIB__CONTAINER(l, struct snib__pending, idle));
    }
    while ((l = snib__list_pop(&e->busy))) {
        request_pending_free(SNIB__CONTAINER(l, struct snib__pending, idle));
    }
}

/* -- direct requests ------------------------------------------------------ */

static bool request_of_value(snib__verb verb)
{
    return verb >= SNIB__VALUE_GET;
}

/* The bytes of a put are copied: the caller may leave while they wait. */
static void request_value_direct(struct snib__engine *e, snib_instant now,
                                 struct snib__direct *direct,
                                 struct snib__pending *q)
{
    if (!direct->id[0] && !direct->id[1]) {
        direct->id[0] = q->rq.id[0];
        direct->id[1] = q->rq.id[1];
        direct->born = now;
    }
    q->rq.id[0] = direct->id[0];
    q->rq.id[1] = direct->id[1];
    q->rq.resent = direct->resent;
    q->rq.token = direct->expected;
    q->rq.floor = e->version_floor;
    q->rq.lease = direct->keep;
    q->rq.born = direct->born;
    q->rq.age = snib__between(direct->born, now);
    q->text.limit = VALUE_LIMIT;
    snib__buf_add(&q->text, direct->bytes, direct->bytes_size);
}

bool snib__verb_changes(snib__verb verb, int op)
{
    return verb == SNIB__FORCE || verb == SNIB__VALUE_PUT ||
           verb == SNIB__VALUE_DELETE ||
           (verb == SNIB__PARAMS && op != SNIB__PARAMS_GET);
}

/* Is this a later copy of a change that was sent before and not answered? That
 * this copy was not applied (no connection, no memory, a replica) says nothing
 * of the other. */
static bool request_earlier_copy(const struct snib__pending *q)
{
    const struct snib__request *rq = &q->rq;
    return rq->resent && rq->answer == SNIB__NOT_APPLIED &&
           snib__verb_changes(rq->verb, rq->op);
}

/* It was sent and not answered. A request that changes nothing cannot have been
 * applied. */
static snib_err request_unanswered(struct snib__direct *direct)
{
    char why[sizeof direct->error.text];
    if (snib__verb_changes(direct->verb, direct->op)) {
        return SNIB_ERR_UNKNOWN;
    }
    memcpy(why, direct->error.text, sizeof why);
    return snib__fail(&direct->error, SNIB_ERR_UNREACHABLE, "%s",
                      why[0] ? why : snib_err_text(SNIB_ERR_UNKNOWN));
}

static snib_err request_may_be_applied(struct snib__direct *direct)
{
    char why[sizeof direct->error.text];
    memcpy(why, direct->error.text, sizeof why);
    return snib__fail(&direct->error, SNIB_ERR_UNKNOWN,
                      "the reply was lost, and asking again failed: %.200s",
                      why);
}

/* This client has force-released the name, and may have held it itself: it asks
 * at once, without waiting for the store to tell it. */
static void request_ask_own(struct snib__engine *e, snib_instant now,
                            const struct snib__name *name)
{
    struct snib__local_lock *local = snib__local_lock_find(e, name);
    if (!local) {
        return;
    }
    if (local->claim && snib__linked(&local->claim->held)) {
        snib__claim_hint(e, now, local->claim);
    }
    SNIB__LIST_EACH (l, &local->own_claims) {
        struct snib__claim *t =
            SNIB__CONTAINER(l, struct snib__local_lock, bucket)->claim;
        if (t && snib__linked(&t->held)) {
            snib__claim_hint(e, now, t);
        }
    }
}

void snib__direct_answer(struct snib__engine *e, snib_instant now,
                         struct snib__pending *q)
{
    struct snib__direct *direct = q->direct;
    snib_instant sent = q->rq.valid_from;
    if (q->rq.verb == SNIB__FORCE) { /* also when unknown: it may be done */
        request_ask_own(e, now, q->rq.name);
    }
    if (request_of_value(q->rq.verb) && q->rq.token > e->version_floor &&
        (q->rq.answer == SNIB__DONE || q->rq.err == SNIB_ERR_BUSY)) {
        e->version_floor = q->rq.token;
    }
    if (direct) {
        direct->version = q->rq.token;
        direct->took = q->rq.left;
        direct->answer = q->rq.answer;
        direct->inner = NULL;
        direct->done = true;
        direct->error = q->error;
        switch (q->rq.answer) {
        case SNIB__DONE:
            direct->err = SNIB_ERR_OK;
            break;
        case SNIB__NO:
        case SNIB__NOT_APPLIED:
            direct->err = request_earlier_copy(q)
                              ? request_may_be_applied(direct)
                          : q->rq.err ? q->rq.err
                                      : SNIB_ERR_STORE;
            break;
        case SNIB__UNKNOWN:
            direct->err = request_unanswered(direct);
            break;
        case SNIB__PENDING:
        case SNIB__QUEUED:
            direct->err = SNIB_ERR_INTERNAL;
            break;
        }
        if (q->result.failed) {
            direct->err = SNIB_ERR_NOMEM;
            snib__fail_plain(&direct->error, SNIB_ERR_NOMEM);
        }
        struct snib__buf mine = direct->result;
        direct->result = q->result;
        q->result = mine;
        if (!snib__cycles_is_mine(e, direct)) {
            snib__list_push(&e->told_directs, &direct->told);
        }
    }
    snib__pending_put(e, q);
    if (direct && snib__cycles_is_mine(e, direct)) {
        snib__cycles_answer(e, now, sent);
    }
}

snib_err snib__engine_direct(struct snib__engine *e, snib_instant now,
                             struct snib__direct *direct)
{
    struct snib__name *name = NULL;
    snib__link_init(&direct->told);
    snib__buf_init(&direct->result, RESULT_LIMIT);
    direct->done = false;
    direct->err = SNIB_ERR_OK;
    direct->inner = NULL;
    snib__ok(&direct->error);
    if (e->closed) {
        return snib__fail_plain(&direct->error, SNIB_ERR_CLOSED);
    }
    if (direct->name) {
        snib_err err = snib__name_new(direct->name, direct->name_size, &name,
                                      &direct->error);
        if (err) {
            return err;
        }
    }
    struct snib__pending *q = snib__pending_get(e, NULL);
    if (q && direct->verb == SNIB__FORCE) {
        snib__explain_force(&e->self, direct->text, &q->text);
    } else if (q && direct->text) {
        snib__buf_puts(&q->text, direct->text);
    } else if (q && request_of_value(direct->verb)) {
        request_value_direct(e, now, direct, q);
    }
    const char *text = q ? snib__buf_text(&q->text) : "";
    if (!q || q->text.failed) {
        bool long_text = direct->text && strlen(direct->text) >= TEXT_LIMIT;
        snib__free(name);
        if (q) {
            snib__pending_put(e, q);
        }
        if (long_text) {
            return snib__fail(&direct->error, SNIB_ERR_USAGE,
                              "the pattern or reason is longer than %d bytes",
                              TEXT_LIMIT - 1);
        }
        return snib__fail_plain(&direct->error, SNIB_ERR_NOMEM);
    }
    q->name = name;
    q->direct = direct;
    direct->inner = q;
    q->rq.verb = direct->verb;
    q->rq.awaited_only = direct->awaited_only;
    q->rq.background = snib__cycles_is_mine(e, direct);
    q->rq.once = !request_of_value(direct->verb);
    q->rq.name = name;
    q->rq.limit = direct->limit;
    q->rq.text = text;
    q->rq.text_size = (uint32_t)snib__buf_size(&q->text);
    q->rq.result = &q->result;
    q->rq.op = (uint8_t)direct->op;
    q->rq.amount = direct->amount;
    snib__pending_start(e, q);
    snib__engine_settle(e, now);
    return SNIB_ERR_OK;
}

void snib__engine_direct_leave(struct snib__engine *e,
                               struct snib__direct *direct)
{
    (void)e;
    snib__unlink(&direct->told);
    if (direct->inner) {
        direct->inner->direct = NULL;
        direct->inner = NULL;
    }
}

struct snib__direct *snib__engine_told_direct(struct snib__engine *e)
{
    struct snib__link *l = snib__list_pop(&e->told_directs);
    return l ? SNIB__CONTAINER(l, struct snib__direct, told) : NULL;
}
