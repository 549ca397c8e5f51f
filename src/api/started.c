/* api/started.c — what all starts have in common; and the start of calls that
 * are made of direct requests.
 *
 * A blocking call of direct requests has a struct snib__direct_op on its stack,
 * whose rules say when it asks again and how its results are written (direct.c
 * runs it). Started, the same struct is copied into an operation, with all that
 * its requests point to. So there is one text of each rule. The operation asks,
 * is answered and asks again by the client's steps (driver/op.c); the thread
 * that takes its event writes the results. */
#include <string.h>

#include "api/api.h"
#include "api/client.h"
#include "base/error.h"
#include "base/mem.h"
#include "snib/event.h"

/* -- all starts -------------------------------------------------------------- */

void *snib__op_new(size_t size, const struct snib__op_kind *kind, void *user)
{
    struct snib__op *op = snib__alloc(size);
    if (op) {
        snib__link_init(&op->link);
        op->kind = kind;
        op->ev.user = user;
    }
    return op;
}

snib_err snib__op_may_start(struct snib__step *s, const struct snib__op *op,
                            struct snib_error *reterr)
{
    struct snib_client *c = s->c;
    if (c->closed) {
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    if (!op) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snib_err err = snib__loop_event_fd(c, reterr);
    return err ? err : snib__background_need(c, reterr);
}

snib_err snib__op_may_end(struct snib__step *s, const struct snib__op *op,
                          struct snib_error *reterr)
{
    if (s->c->stopped) {
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    return op ? snib__loop_event_fd(s->c, reterr)
              : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
}

void snib__op_started(struct snib__step *s)
{
    snib__step_act(s);
    while (s->c->exec.quick && snib__step_exec(s)) {
    }
    snib__step_end(s);
}

/* -- direct requests ---------------------------------------------------------- */

snib_err snib__direct_op_end(struct snib__direct_op *d, snib_err err,
                             struct snib_error *ret)
{
    err = d->rules->decode(d, err, ret);
    snib__direct_op_drop(d);
    return err ? err : snib__ok(ret);
}

void snib__direct_op_drop(struct snib__direct_op *d)
{
    if (d->rules->drop) {
        d->rules->drop(d);
    }
    snib__buf_free(&d->q.result);
}

static void started_take(struct snib__op *op, struct snib_event *ret)
{
    ret->error.code = snib__direct_op_end(snib__direct_op_of(op),
                                          ret->error.code, &ret->error);
}

static void started_drop(struct snib__op *op)
{
    snib__direct_op_drop(snib__direct_op_of(op));
}

const struct snib__op_kind snib__started_kind = {.due = snib__direct_op_due,
                                                 .give_up =
                                                     snib__direct_op_give_up,
                                                 .take = started_take,
                                                 .drop = started_drop};

/* Copy n bytes to *end, and move *end behind them and a NUL. */
static const void *started_keep(char **end, const void *p, size_t n)
{
    if (!p) {
        return NULL;
    }
    char *kept = n ? memcpy(*end, p, n) : *end;
    *end += n + 1;
    return kept;
}

/* An operation that needs nothing of its caller any more, but where its results
 * go. */
static struct snib__direct_op *started_copy(const struct snib__direct_op *given,
                                            size_t size, void *user)
{
    const struct snib__direct *q = &given->q;
    size_t text = q->text ? strlen(q->text) : 0;
    size_t more = q->name_size + 1 + text + 1 + q->bytes_size + 1;
    struct snib__op *op = snib__op_new(size + more, &snib__started_kind, user);
    if (!op) {
        return NULL;
    }
    struct snib__direct_op *d = snib__direct_op_of(op);
    size_t own = offsetof(struct snib__direct_op, client);
    memcpy((char *)d + own, (const char *)given + own, size - own);
    char *end = (char *)d + size;
    d->q.name = started_keep(&end, q->name, q->name_size);
    d->q.text = started_keep(&end, q->text, text);
    d->q.bytes = started_keep(&end, q->bytes, q->bytes_size);
    return d;
}

snib_err snib__start_direct(struct snib__direct_op *given, size_t size,
                            void *user, uint64_t *ret_ticket,
                            struct snib_error *reterr)
{
    struct snib_client *c = given->client;
    struct snib__step s;
    snib_err err = snib__client_check(c, reterr);
    if (err) {
        return err;
    }
    struct snib__direct_op *d = started_copy(given, size, user);
    snib__step_begin(&s, c);
    err = snib__op_may_start(&s, d ? &d->op : NULL, reterr);
    if (!err && !snib__op_reserve(&s)) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    if (!err) {
        err = snib__direct_op_ask(&s, d, NULL);
        if (err) {
            snib__fail(reterr, err, "%s", d->q.error.text);
        }
    }
    if (err) {
        snib__free(d);
    } else {
        snib__op_open(&s, &d->op, d->q.limit);
        snib__op_tell_ticket(&d->op, ret_ticket);
        snib__background_hurry(&s);
    }
    snib__op_started(&s);
    return err ? err : snib__ok(reterr);
}
