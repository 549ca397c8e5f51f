/* core/direct.c — direct requests, which belong to no claim.
 *
 * A direct request is a caller's: INSPECT, LIST, a forced release, a size, a
 * value. Its answer is told as it is, with two exceptions. A change of which an
 * earlier copy was sent and not answered stays unknown, whatever becomes of the
 * later copy. A request that changes nothing is never unknown. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/blocking.h"
#include "core/engine_i.h"
#include "core/version.h"

enum { VALUE_LIMIT = SNIB_VALUE_MAX + 1 };

static bool direct_of_value(snib__verb verb)
{
    return verb == SNIB__VALUE_GET || verb == SNIB__VALUE_PUT ||
           verb == SNIB__VALUE_DELETE;
}

/* The bytes of a put are copied: the caller may leave while they wait. */
static void direct_add_value(struct snib__engine *e, snib_instant now,
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
    q->rq.value.born = direct->born;
    q->rq.value.age = snib__between(direct->born, now);
    q->text.limit = VALUE_LIMIT;
    snib__buf_add(&q->text, direct->bytes, direct->bytes_size);
}

bool snib__verb_changes(snib__verb verb, int op)
{
    return verb == SNIB__FORCE || verb == SNIB__VALUE_PUT ||
           verb == SNIB__VALUE_DELETE ||
           ((verb == SNIB__PARAMS || verb == SNIB__RECOVERY) &&
            op != SNIB__PARAMS_GET);
}

/* Is this a later copy of a change that was sent before and not answered? That
 * this copy was not applied (no connection, no memory, a replica) says nothing
 * of the other. */
static bool direct_earlier_copy(const struct snib__pending *q)
{
    const struct snib__request *rq = &q->rq;
    return rq->resent && rq->said.answer == SNIB__NOT_APPLIED &&
           snib__verb_changes(rq->verb, rq->params.op);
}

/* It was sent and not answered. A request that changes nothing cannot have been
 * applied. */
static snib_err direct_unanswered(struct snib__direct *direct)
{
    char why[sizeof direct->error.text];
    if (snib__verb_changes(direct->verb, direct->op)) {
        return SNIB_ERR_UNKNOWN;
    }
    memcpy(why, direct->error.text, sizeof why);
    return snib__fail(&direct->error, SNIB_ERR_UNREACHABLE, "%s",
                      why[0] ? why : snib_err_text(SNIB_ERR_UNKNOWN));
}

static snib_err direct_may_be_applied(struct snib__direct *direct)
{
    char why[sizeof direct->error.text];
    memcpy(why, direct->error.text, sizeof why);
    return snib__fail(&direct->error, SNIB_ERR_UNKNOWN,
                      "the reply was lost, and asking again failed: %.200s",
                      why);
}

/* This client has force-released the name, and may have held it itself: it asks
 * at once, without waiting for the store to tell it. */
static void direct_ask_own(struct snib__engine *e, snib_instant now,
                           const struct snib__name *name)
{
    struct snib__local_lock *local = snib__local_lock_find(e, name);
    if (!local) {
        return;
    }
    if (local->claim && snib__linked(&local->claim->held)) {
        snib__claim_hint(e, now, local->claim);
    }
    SNIB__LIST_EACH (l, &local->own_locks) {
        struct snib__claim *t =
            SNIB__CONTAINER(l, struct snib__local_lock, bucket)->claim;
        if (t && snib__linked(&t->held)) {
            snib__claim_hint(e, now, t);
        }
    }
}

/* What its caller hears of it. */
static void direct_fill(struct snib__direct *direct, struct snib__pending *q)
{
    direct->version = q->rq.token;
    direct->took = q->rq.said.left;
    direct->answer = q->rq.said.answer;
    direct->inner = NULL;
    direct->done = true;
    direct->error = q->error;
    switch (q->rq.said.answer) {
    case SNIB__DONE:
        direct->err = SNIB_ERR_OK;
        break;
    case SNIB__NO:
    case SNIB__NOT_APPLIED:
        direct->err = direct_earlier_copy(q) ? direct_may_be_applied(direct)
                      : q->rq.said.err       ? q->rq.said.err
                                             : SNIB_ERR_STORE;
        break;
    case SNIB__UNKNOWN:
        direct->err = direct_unanswered(direct);
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
}

bool snib__direct_answer(struct snib__engine *e, snib_instant now,
                         struct snib__pending *q)
{
    struct snib__direct *direct = q->direct;
    bool scan = direct && snib__cycles_is_mine(e, direct);
    if (q->rq.verb == SNIB__FORCE) { /* also when unknown: it may be done */
        direct_ask_own(e, now, q->rq.name);
    }
    if (direct_of_value(q->rq.verb) && q->rq.token > e->version_floor &&
        (q->rq.said.answer == SNIB__DONE || q->rq.said.err == SNIB_ERR_BUSY)) {
        e->version_floor = q->rq.token;
    }
    if (direct) {
        direct_fill(direct, q);
    }
    if (direct && !scan) {
        snib__list_push(&e->told_directs, &direct->told);
    }
    snib__pending_put(e, q);
    return scan;
}

/* Makes the request with its text. NULL: why is in direct->error. */
static struct snib__pending *direct_pending(struct snib__engine *e,
                                            snib_instant now,
                                            struct snib__direct *direct)
{
    struct snib__pending *q = snib__pending_get(e, NULL);
    bool too_long = direct->text && strlen(direct->text) >= SNIB__TEXT_LIMIT;
    if (q && direct->verb == SNIB__FORCE) {
        snib__explain_force(&e->self, direct->text, &q->text);
    } else if (q && direct->text) {
        snib__buf_puts(&q->text, direct->text);
    } else if (q && direct_of_value(direct->verb)) {
        direct_add_value(e, now, direct, q);
    }
    const char *text = q ? snib__buf_text(&q->text) : "";
    if (q && !q->text.failed) {
        q->rq.text = text;
        q->rq.text_size = (uint32_t)snib__buf_size(&q->text);
        return q;
    }
    if (q) {
        snib__pending_put(e, q);
    }
    if (too_long) {
        snib__fail(&direct->error, SNIB_ERR_USAGE,
                   "the pattern or reason is longer than %d bytes",
                   SNIB__TEXT_LIMIT - 1);
    } else {
        snib__fail_plain(&direct->error, SNIB_ERR_NOMEM);
    }
    return NULL;
}

snib_err snib__direct_start(struct snib__engine *e, snib_instant now,
                            struct snib__direct *direct)
{
    struct snib__name *name = NULL;
    snib__link_init(&direct->told);
    snib__buf_init(&direct->result, SNIB__RESULT_LIMIT);
    direct->done = false;
    direct->err = SNIB_ERR_OK;
    direct->inner = NULL;
    snib__ok(&direct->error);
    if (e->closed) {
        return snib__fail_plain(&direct->error, SNIB_ERR_CLOSED);
    }
    if (direct->verb == SNIB__RECOVERY && !e->out.lease_most.ns) {
        return snib__fail(
            &direct->error, SNIB_ERR_UNSUPPORTED,
            "this store has no recovery; expected the URL of a Redis server "
            "with recovery=, as its clients write it");
    }
    if (direct->name && snib__name_new(direct->name, direct->name_size, &name,
                                       &direct->error)) {
        return direct->error.code;
    }
    struct snib__pending *q = direct_pending(e, now, direct);
    if (!q) {
        snib__free(name);
        return direct->error.code;
    }
    q->name = name;
    q->direct = direct;
    direct->inner = q;
    q->rq.verb = direct->verb;
    q->rq.list.awaited_only = direct->awaited_only;
    q->rq.background = snib__cycles_is_mine(e, direct);
    q->rq.list.limit_moves = !q->rq.background;
    q->rq.once = !direct_of_value(direct->verb);
    q->rq.name = name;
    q->rq.limit = direct->limit;
    q->rq.said.result = &q->result;
    q->rq.params.op = (uint8_t)direct->op;
    q->rq.params.amount = direct->amount;
    snib__pending_start(e, q);
    return SNIB_ERR_OK;
}

void snib__engine_direct_forget(struct snib__engine *e,
                                struct snib__direct *direct)
{
    (void)e;
    snib__unlink(&direct->told);
    if (direct->inner) {
        direct->inner->rq.list.limit_moves = false;
        direct->inner->direct = NULL;
        direct->inner = NULL;
    }
}

bool snib__engine_direct_unsent(const struct snib__engine *e, snib_instant now,
                                const struct snib__direct *direct,
                                struct snib__unsent *ret)
{
    const struct snib__pending *q = direct->inner;
    return e->cfg.blocking && q && !q->rq.resent &&
           snib__reached(now, q->rq.exec.patience) &&
           snib__blocking_unsent(e->store, now, &q->rq, ret);
}

snib_instant snib__engine_direct_limit(const struct snib__direct *direct)
{
    return direct->inner ? direct->inner->rq.limit : direct->limit;
}
