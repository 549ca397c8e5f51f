/* core/query.c — requests under way, and questions that concern no turn.
 *
 * Inquiries (requests under way) come from a spare list. When even that is
 * empty and there is no memory, a turn simply tries again at its next timer:
 * a step that cannot go on now is late, never wrong.
 *
 * A query is a question of a caller's: a look, a list, a forced release, a
 * size, a value. Its answer is told as it is; only a change that was sent
 * before and not answered (an earlier copy) stays unknown whatever befalls the
 * later one, and what changes nothing is never unknown. */
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

/* -- inquiries ------------------------------------------------------------- */

static struct snib__inquiry *inquiry_new(void)
{
    struct snib__inquiry *q = snib__alloc(sizeof *q);
    if (q) {
        snib__link_init(&q->idle);
        snib__buf_init(&q->text, TEXT_LIMIT);
        snib__buf_init(&q->result, RESULT_LIMIT);
    }
    return q;
}

static void inquiry_free(struct snib__inquiry *q)
{
    snib__buf_free(&q->text);
    snib__buf_free(&q->result);
    snib__free(q->name);
    snib__free(q);
}

struct snib__inquiry *snib__inquiry_get(struct snib__engine *e,
                                        struct snib__site *site)
{
    struct snib__link *l = snib__list_pop(&e->spare);
    struct snib__inquiry *q;
    if (l) {
        q = SNIB__CONTAINER(l, struct snib__inquiry, idle);
        e->spares--;
    } else {
        q = inquiry_new();
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
    q->turn = NULL;
    q->query = NULL;
    q->site = site;
    snib__buf_clear(&q->text);
    snib__buf_clear(&q->result);
    if (site) {
        site->refs++;
        q->rq.name = site->name;
    }
    return q;
}

void snib__inquiry_put(struct snib__engine *e, struct snib__inquiry *q)
{
    if (q->site) {
        snib__site_drop(e, q->site);
        q->site = NULL;
    }
    snib__free(q->name);
    q->name = NULL;
    snib__unlink(&q->idle);
    if (q->text.limit > TEXT_LIMIT) { /* a value's bytes: not kept */
        snib__buf_free(&q->text);
        q->text.limit = TEXT_LIMIT;
    }
    if (e->spares >= SNIB__SPARE_MAX) {
        inquiry_free(q);
        return;
    }
    e->spares++;
    snib__list_push(&e->spare, &q->idle);
}

void snib__inquiry_start(struct snib__engine *e, struct snib__inquiry *q)
{
    q->rq.answer = SNIB__PENDING;
    q->rq.patience = q->rq.limit;
    q->rq.err = SNIB_ERR_OK;
    q->rq.revoked = false;
    assert(!snib__linked(&q->rq.link));
    snib__list_push(&e->chain, &q->rq.link);
    e->out_requests++;
}

snib_err snib__inquiries_init(struct snib__engine *e)
{
    for (int i = 0; i < SNIB__SPARE; i++) {
        struct snib__inquiry *q = inquiry_new();
        if (!q) {
            return SNIB_ERR_NOMEM;
        }
        snib__list_push(&e->spare, &q->idle);
        e->spares++;
    }
    return SNIB_ERR_OK;
}

void snib__inquiries_free(struct snib__engine *e)
{
    struct snib__link *l;
    while ((l = snib__list_pop(&e->spare))) {
        inquiry_free(SNIB__CONTAINER(l, struct snib__inquiry, idle));
    }
    while ((l = snib__list_pop(&e->busy))) {
        inquiry_free(SNIB__CONTAINER(l, struct snib__inquiry, idle));
    }
}

/* -- queries ----------------------------------------------------------------- */

static bool of_value(snib__verb verb)
{
    return verb >= SNIB__VALUE_GET;
}

/* The bytes of a put are copied: the caller may leave while they wait. */
static void value_query(struct snib__engine *e, snib_instant now,
                        struct snib__query *query, struct snib__inquiry *q)
{
    if (!query->id[0] && !query->id[1]) {
        query->id[0] = q->rq.id[0];
        query->id[1] = q->rq.id[1];
        query->born = now;
    }
    q->rq.id[0] = query->id[0];
    q->rq.id[1] = query->id[1];
    q->rq.resent = query->resent;
    q->rq.token = query->expected;
    q->rq.floor = e->version_floor;
    q->rq.lease = query->keep;
    q->rq.born = query->born;
    q->rq.age = snib__between(query->born, now);
    q->text.limit = VALUE_LIMIT;
    snib__buf_add(&q->text, query->bytes, query->bytes_size);
}

bool snib__verb_changes(snib__verb verb, int op)
{
    return verb == SNIB__FORCE || verb == SNIB__VALUE_PUT ||
           verb == SNIB__VALUE_DELETE ||
           (verb == SNIB__TERMS && op != SNIB__TERMS_GET);
}

/* A change that was sent before and not answered: that this copy of it was not
 * applied (no connection, no memory, a replica) says nothing of the other. */
static bool earlier_copy(const struct snib__inquiry *q)
{
    const struct snib__request *rq = &q->rq;
    return rq->resent && rq->answer == SNIB__NOT_APPLIED &&
           snib__verb_changes(rq->verb, rq->op);
}

/* No answer to what was sent. What only asks cannot have been applied. */
static snib_err unanswered(struct snib__query *query)
{
    char why[sizeof query->error.text];
    if (snib__verb_changes(query->verb, query->op)) {
        return SNIB_ERR_UNKNOWN;
    }
    memcpy(why, query->error.text, sizeof why);
    return snib__fail(&query->error, SNIB_ERR_UNREACHABLE, "%s",
                      why[0] ? why : snib_err_text(SNIB_ERR_UNKNOWN));
}

static snib_err may_be_applied(struct snib__query *query)
{
    char why[sizeof query->error.text];
    memcpy(why, query->error.text, sizeof why);
    return snib__fail(&query->error, SNIB_ERR_UNKNOWN,
                      "the reply was lost, and asking again failed: %.200s",
                      why);
}

/* This client has ended whoever holds the name, itself perhaps: it need not
 * wait for the store to tell it. */
static void ask_own(struct snib__engine *e, snib_instant now,
                    const struct snib__name *name)
{
    struct snib__site *site = snib__site_find(e, name);
    if (!site) {
        return;
    }
    if (site->turn && snib__linked(&site->turn->held)) {
        snib__turn_hint(e, now, site->turn);
    }
    SNIB__LIST_EACH (l, &site->stakes) {
        struct snib__turn *t =
            SNIB__CONTAINER(l, struct snib__site, bucket)->turn;
        if (t && snib__linked(&t->held)) {
            snib__turn_hint(e, now, t);
        }
    }
}

void snib__query_answer(struct snib__engine *e, snib_instant now,
                        struct snib__inquiry *q)
{
    struct snib__query *query = q->query;
    snib_instant sent = q->rq.valid_from;
    if (q->rq.verb == SNIB__FORCE) { /* unknown: it may be done */
        ask_own(e, now, q->rq.name);
    }
    if (of_value(q->rq.verb) && q->rq.token > e->version_floor &&
        (q->rq.answer == SNIB__DONE || q->rq.err == SNIB_ERR_BUSY)) {
        e->version_floor = q->rq.token;
    }
    if (query) {
        query->version = q->rq.token;
        query->took = q->rq.left;
        query->answer = q->rq.answer;
        query->inner = NULL;
        query->done = true;
        query->error = q->error;
        switch (q->rq.answer) {
        case SNIB__DONE:
            query->err = SNIB_ERR_OK;
            break;
        case SNIB__NO:
        case SNIB__NOT_APPLIED:
            query->err = earlier_copy(q) ? may_be_applied(query)
                         : q->rq.err     ? q->rq.err
                                         : SNIB_ERR_STORE;
            break;
        case SNIB__UNKNOWN:
            query->err = unanswered(query);
            break;
        case SNIB__PENDING:
        case SNIB__QUEUED:
            query->err = SNIB_ERR_INTERNAL;
            break;
        }
        if (q->result.failed) {
            query->err = SNIB_ERR_NOMEM;
            snib__fail_plain(&query->error, SNIB_ERR_NOMEM);
        }
        struct snib__buf mine = query->result;
        query->result = q->result;
        q->result = mine;
        if (!snib__cycles_is_mine(e, query)) {
            snib__list_push(&e->told_queries, &query->told);
        }
    }
    snib__inquiry_put(e, q);
    if (query && snib__cycles_is_mine(e, query)) {
        snib__cycles_answer(e, now, sent);
    }
}

snib_err snib__engine_query(struct snib__engine *e, snib_instant now,
                            struct snib__query *query)
{
    struct snib__name *name = NULL;
    snib__link_init(&query->told);
    snib__buf_init(&query->result, RESULT_LIMIT);
    query->done = false;
    query->err = SNIB_ERR_OK;
    query->inner = NULL;
    snib__ok(&query->error);
    if (e->closed) {
        return snib__fail_plain(&query->error, SNIB_ERR_CLOSED);
    }
    if (query->name) {
        snib_err err =
            snib__name_new(query->name, query->name_size, &name, &query->error);
        if (err) {
            return err;
        }
    }
    struct snib__inquiry *q = snib__inquiry_get(e, NULL);
    if (q && query->verb == SNIB__FORCE) {
        snib__explain_force(&e->self, query->text, &q->text);
    } else if (q && query->text) {
        snib__buf_puts(&q->text, query->text);
    } else if (q && of_value(query->verb)) {
        value_query(e, now, query, q);
    }
    const char *text = q ? snib__buf_text(&q->text) : "";
    if (!q || q->text.failed) {
        bool long_text = query->text && strlen(query->text) >= TEXT_LIMIT;
        snib__free(name);
        if (q) {
            snib__inquiry_put(e, q);
        }
        if (long_text) {
            return snib__fail(&query->error, SNIB_ERR_USAGE,
                              "the pattern or reason is longer than %d bytes",
                              TEXT_LIMIT - 1);
        }
        return snib__fail_plain(&query->error, SNIB_ERR_NOMEM);
    }
    q->name = name;
    q->query = query;
    query->inner = q;
    q->rq.verb = query->verb;
    q->rq.awaited_only = query->awaited_only;
    q->rq.keepers = snib__cycles_is_mine(e, query);
    q->rq.once = !of_value(query->verb);
    q->rq.name = name;
    q->rq.limit = query->limit;
    q->rq.text = text;
    q->rq.text_size = (uint32_t)snib__buf_size(&q->text);
    q->rq.result = &q->result;
    q->rq.op = (uint8_t)query->op;
    q->rq.amount = query->amount;
    snib__inquiry_start(e, q);
    snib__engine_settle(e, now);
    return SNIB_ERR_OK;
}

void snib__engine_query_leave(struct snib__engine *e, struct snib__query *query)
{
    (void)e;
    snib__unlink(&query->told);
    if (query->inner) {
        query->inner->query = NULL;
        query->inner = NULL;
    }
}

struct snib__query *snib__engine_told_query(struct snib__engine *e)
{
    struct snib__link *l = snib__list_pop(&e->told_queries);
    return l ? SNIB__CONTAINER(l, struct snib__query, told) : NULL;
}
