/* api/batch.c — several requests in one visit, and one wait for all answers.
 * (A multi that was started does not wait: multi_start.c.)
 *
 * The problem: three locks acquired one after the other are three round trips,
 * although none needs the other's answer. Here all requests are started under
 * one lock of the mutex. So they reach the store as one step of it (one script,
 * one transaction; core/request.h), and the call waits once.
 *
 *   start n ---> batch: n open --answer--> n - 1 ... --last answer--> answered
 *                  |
 *                  +--patience over--> each unanswered one is given up
 *
 * A started request answers by an operation, as for an event loop. An operation
 * of a batch goes to no queue of events: it counts down its batch, and the last
 * one answers the call. Operations, batch and call are on the caller's stack.
 * After the last answer, and after giving up, nobody has a pointer to them.
 *
 * Forbidden: waiting at the store. These are tries: an owner that holds a lock
 * of the batch while it waits for another of it could close a circle. */
#include "api/api.h"
#include "base/error.h"
#include "snib/event.h"

void snib__batch_fail_all(struct snib__batch_item m[], size_t n,
                          const struct snib_error *why)
{
    for (size_t i = 0; i < n; i++) {
        m[i].error = *why;
        m[i].asked = false;
    }
}

static void batch_prepare(struct snib__batch_item *m, struct snib__batch *g)
{
    m->op = (struct snib__op){.batch = g};
    m->asked = true;
    m->error.code = SNIB_ERR_OK;
    m->error.text[0] = 0;
    snib__link_init(&m->op.link);
    g->open++;
}

/* No answer will come to this item; its error says why. */
static void batch_not_asked(struct snib__batch_item *m, struct snib__batch *g)
{
    if (m->op.batch) {
        m->op.batch = NULL;
        g->open--;
        m->asked = false;
    }
}

void snib__batch_harvest(struct snib__batch_item m[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct snib_event *ev = &m[i].op.ev;
        if (!m[i].asked) {
            continue;
        }
        if (ev->kind == SNIB_EVENT_GRANTED) {
            m[i].grant = ev->grant;
        }
        m[i].error = ev->error;
    }
}

/* -- acquire -------------------------------------------------------------- */

/* What became of a try when it was started. */
enum start { JOINED, APART, HAD, REFUSED };

static enum start batch_start_try(struct snib__step *s,
                                  struct snib__batch_item *m,
                                  struct snib__batch *g,
                                  const struct snib__how *how,
                                  snib_instant limit, uint64_t owner)
{
    bool awaited;
    uint64_t ticket;
    uint32_t joined = snib__engine_batch(s->c->engine);
    batch_prepare(m, g);
    m->grant = (struct snib_grant){0};
    snib__list_push(&s->c->ops.pending, &m->op.link);
    snib_err err =
        snib__hold_acquire(s, m->lock, how, limit, owner, NULL, &m->op, NULL,
                           &awaited, &ticket, &m->error);
    if (err) {
        snib__unlink(&m->op.link);
        m->error.code = err;
        batch_not_asked(m, g);
        return REFUSED;
    }
    if (awaited) {
        return snib__engine_batch(s->c->engine) > joined ? JOINED : APART;
    }
    return m->op.ev.kind == SNIB_EVENT_GRANTED ? HAD : REFUSED;
}

/* From here on nothing may point to this operation. If the try still waits for
 * the store to confirm its end (the client was closed), it is ended without
 * that. */
static void batch_end_try(struct snib__step *s, struct snib__batch_item *m,
                          struct snib__batch *g, snib_err why)
{
    struct snib__engine *e = s->c->engine;
    struct snib__hold *h = m->op.hold;
    struct snib__acquisition *acq = snib__engine_acquisition(e, h->ticket);
    snib_err err = SNIB_ERR_INTERNAL;
    snib__unlink(&m->op.link);
    batch_not_asked(m, g);
    if (acq &&
        (acq->state == SNIB__ACQ_WAITING || acq->state == SNIB__ACQ_LEAVING)) {
        err = snib__engine_give_up_now(e, s->now, acq, why);
        snib__holds_free(s, h);
    }
    snib__fail_plain(&m->error, err);
}

/* A try that would be asked for later, alone, is not asked for at all. */
static void batch_take_back(struct snib__step *s, struct snib__batch_item *m,
                            struct snib__batch *g)
{
    const struct snib__acquisition *acq =
        snib__engine_acquisition(s->c->engine, m->op.hold->ticket);
    if (snib__engine_asks_later(acq)) {
        batch_end_try(s, m, g, SNIB_ERR_CANCELLED);
    }
}

/* A try that is refused here already ends the visit: those behind it are not
 * asked for. With `all` those before it are not asked for either. A try that
 * cannot join the step, and must be asked for alone, ends the visit too: those
 * behind it come in the caller's next visit, and it too, unless it is the first;
 * else it could be granted though one before it is refused. With `all` there is
 * no next visit, so then each try is sent by itself. */
void snib__batch_start_tries(struct snib__step *s, struct snib__batch_item m[],
                             size_t n, struct snib__batch *g,
                             const struct snib__how *how, bool all,
                             snib_instant limit, uint64_t owner)
{
    struct snib__engine *e = s->c->engine;
    enum snib__batch_way way = SNIB__BATCH_GO;
    bool over = false;
    snib__engine_gather(e, all);
    for (size_t i = 0; i < n; i++) {
        if (over) {
            m[i].op = (struct snib__op){0}; /* no answer will come */
            m[i].asked = false;
            m[i].grant = (struct snib_grant){0};
            snib__fail_plain(&m[i].error, SNIB_ERR_CANCELLED);
            continue;
        }
        switch (batch_start_try(s, &m[i], g, how, limit, owner)) {
        case JOINED:
        case HAD:
            break;
        case APART:
            over = !all;
            way = all ? SNIB__BATCH_PART : way;
            if (i > 0 && !all) {
                batch_take_back(s, &m[i], g);
            }
            break;
        case REFUSED:
            over = true;
            way = all ? SNIB__BATCH_DROP : way;
            break;
        }
    }
    snib__engine_gathered(e, s->now, way);
}

/* The patience is over. */
static void batch_give_up_tries(struct snib__step *s,
                                struct snib__batch_item m[], size_t n,
                                struct snib__batch *g)
{
    for (size_t i = 0; i < n; i++) {
        if (m[i].op.batch) {
            batch_end_try(s, &m[i], g, SNIB_ERR_UNREACHABLE);
            snib__step_act(s); /* this may bring answers to the others */
        }
    }
}

/* The ticket of a try that is under way; 0: there is none. The tries are
 * executed together, so the state of this one is that of all. */
static uint64_t batch_first_asked(const struct snib__batch_item m[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (m[i].op.batch) {
            return m[i].op.hold->ticket;
        }
    }
    return 0;
}

void snib__batch_try(struct snib_client *c, struct snib__batch_item m[],
                     size_t n, const struct snib_acquire_options *options,
                     bool all, snib_duration patience)
{
    struct snib__how how = {.o = *options};
    struct snib__step s;
    struct snib__call call;
    struct snib__batch g = {.call = &call, .open = 1}; /* 1 until all started */
    struct snib_error why = {0};
    uint64_t owner = how.o.owner ? how.o.owner : snib__owner_of_thread();
    snib__step_begin(&s, c);
    snib_instant limit = snib__after(s.now, patience);
    why.code = snib__may_acquire(&s, limit, &why);
    if (why.code) {
        snib__step_end(&s);
        snib__batch_fail_all(m, n, &why);
        return;
    }
    c->calls.batches++;
    snib__call_begin(&s, &call, SNIB__CALL_ACQUIRE, limit);
    snib__batch_start_tries(&s, m, n, &g, &how, all, limit, owner);
    call.among = batch_first_asked(m, n);
    if (--g.open && !snib__call_wait(&s, &call)) {
        batch_give_up_tries(&s, m, n, &g);
    }
    snib__call_end(&s, &call);
    c->calls.batches--;
    snib__step_end(&s);
    snib__batch_harvest(m, n);
}

/* -- release -------------------------------------------------------------- */

static void batch_start_release(struct snib__step *s,
                                struct snib__batch_item *m,
                                struct snib__batch *g, uint64_t owner)
{
    bool awaited;
    snib_err err = snib__grant_check(m->lock, m->grant, &m->error);
    if (err) {
        m->asked = false;
        m->op = (struct snib__op){0};
        return;
    }
    batch_prepare(m, g);
    err = snib__hold_release(s, m->lock, m->grant.ticket, owner, NULL, &m->op,
                             &awaited, &m->error);
    if (!awaited) {
        m->error.code = err;
        batch_not_asked(m, g); /* unless it was answered already */
    }
}

static void batch_give_up_releases(struct snib__step *s,
                                   struct snib__batch_item m[], size_t n,
                                   struct snib__batch *g)
{
    struct snib_client *c = s->c;
    for (size_t i = 0; i < n; i++) {
        if (!m[i].op.batch) {
            continue;
        }
        struct snib__acquisition *acq =
            snib__engine_acquisition(c->engine, m[i].grant.ticket);
        batch_not_asked(&m[i], g);
        if (acq) {
            struct snib__hold *h = acq->user;
            snib__engine_stop_awaiting(c->engine, acq);
            snib__holds_free(s, h);
        }
        snib__fail_plain(&m[i].error, SNIB_ERR_UNKNOWN);
    }
}

void snib__batch_release(struct snib_client *c, struct snib__batch_item m[],
                         size_t n, snib_duration patience)
{
    struct snib__step s;
    struct snib__call call;
    struct snib__batch g = {.call = &call, .open = 1};
    struct snib_error why;
    uint64_t owner = snib__owner_of_thread();
    snib__step_begin(&s, c);
    if (c->stopped) {
        snib__step_end(&s);
        snib__fail_plain(&why, SNIB_ERR_CLOSED);
        snib__batch_fail_all(m, n, &why);
        return;
    }
    c->calls.batches++;
    snib__call_begin(&s, &call, SNIB__CALL_RELEASE,
                     snib__after(s.now, patience));
    for (size_t i = 0; i < n; i++) {
        batch_start_release(&s, &m[i], &g, owner);
    }
    if (--g.open && !snib__call_wait(&s, &call)) {
        batch_give_up_releases(&s, m, n, &g);
    }
    snib__call_end(&s, &call);
    c->calls.batches--;
    snib__step_end(&s);
    snib__batch_harvest(m, n);
}
