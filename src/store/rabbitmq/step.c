/* store/rabbitmq/step.c — requests on their way. What an ACQUIRE has at the broker
 * is its claim (claim.c), which outlives it: it waits, holds, and is renewed and
 * ended by requests that come later. */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/blocking.h"
#include "store/rabbitmq/rabbitmq_i.h"

enum { STEP_ANSWERS_MAX = 4 << 20 };

static struct mq_step *step_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct mq_step, link);
}

/* -- over ------------------------------------------------------------------ */

static void step_free(struct snib__mq *z, struct mq_step *k)
{
    snib__unlink(&k->link);
    snib__heap_remove(&z->timers, &k->timer);
    snib__mq_view_free(&k->view);
    snib__buf_free(&k->answers);
    snib__free(k);
    z->made--;
}

void snib__mq_steps_free(struct snib__mq *z)
{
    while (!snib__list_empty(&z->steps)) {
        step_free(z, step_of(snib__list_first(&z->steps)));
    }
}

/* Its claim goes on without it. */
static void step_detach(struct snib__mq *z, struct mq_step *k)
{
    const uint64_t *ids[] = {k->r->id, k->r->prior_id};
    for (int i = 0; i < 2; i++) {
        struct mq_claim *c = snib__mq_claim_find(z, ids[i]);
        if (c && c->step == k) {
            c->step = NULL;
        }
    }
}

void snib__mq_step_answer(struct snib__mq *z, snib_instant now,
                          struct mq_step *k, snib__answer answer, snib_err err,
                          const char *text)
{
    struct snib__request *r = k->r;
    r->said.answer = answer;
    r->said.err = !err   ? snib__ok(r->said.reterr)
                  : text ? snib__fail(r->said.reterr, err, "%s", text)
                         : snib__fail_plain(r->said.reterr, err);
    step_detach(z, k);
    snib__mq_channel_drop(z, now, &k->channel);
    snib__list_push(&z->executed, &r->link);
    step_free(z, k);
}

static void step_limit(struct snib__mq *z, struct mq_step *k,
                       snib_instant until)
{
    k->until = until;
    snib__heap_set(&z->timers, &k->timer,
                   snib__sooner(until, k->r->exec.patience));
}

void snib__mq_step_asks(struct snib__mq *z, struct mq_step *k,
                        snib_instant until)
{
    k->phase = MQ_ASKS;
    step_limit(z, k, until);
}

void snib__mq_step_again(struct snib__mq *z, struct mq_step *k)
{
    step_detach(z, k);
    k->phase = MQ_IDLE;
}

/* -- what a claim says -------------------------------------------------------- */

static void step_queued(struct snib__mq *z, snib_instant now, struct mq_step *k,
                        snib_duration left)
{
    if (k->r->verb == SNIB__ACQUIRE) {
        k->r->said.position = 0; /* the broker does not tell */
        k->r->said.left = left;
        snib__mq_step_answer(z, now, k, SNIB__QUEUED, SNIB_ERR_OK, NULL);
    }
}

static void step_lease(struct snib__request *r, const struct mq_claim *c)
{
    int64_t ms = snib__to_ms(r->lease);
    r->said.valid_from = c->valid_from;
    r->said.left = ms < c->lease_ms ? r->lease : snib__ms(c->lease_ms);
}

static void step_granted(struct snib__mq *z, snib_instant now,
                         struct mq_step *k, const struct mq_claim *c)
{
    struct snib__request *r = k->r;
    int64_t day_ms = 86400000, wall_ms = snib__mq_wall_ms(z, now);
    if (r->verb != SNIB__ACQUIRE) {
        return;
    }
    r->token = c->token;
    r->acquire.reserve = 0;
    r->acquire.permits = 1;
    r->said.far = wall_ms && c->token > (wall_ms + day_ms) * 1024;
    step_lease(r, c);
    snib__mq_step_answer(z, now, k, SNIB__DONE, SNIB_ERR_OK, NULL);
}

static void step_renewed(struct snib__mq *z, snib_instant now,
                         struct mq_step *k, const struct mq_claim *c)
{
    if (k->r->verb == SNIB__RENEW) {
        step_lease(k->r, c);
        snib__mq_step_answer(z, now, k, SNIB__DONE, SNIB_ERR_OK, NULL);
    }
}

/* Its claim is no more. With a cut connection all begins anew; an error of the
 * broker's is told. A HELD that lies there is ended when the core gives the request
 * up (orphan.c), so it must not hear that nothing was done. */
static void step_lost(struct snib__mq *z, snib_instant now, struct mq_step *k,
                      const struct mq_heard *why)
{
    struct snib__request *r = k->r;
    bool told = snib__mq_is_ready(&z->session) && why->err != SNIB_ERR_LOST;
    if (r->verb == SNIB__RENEW) {
        snib__mq_step_answer(z, now, k, SNIB__NO, SNIB_ERR_LOST, why->text);
    } else if (r->verb == SNIB__ACQUIRE && told) {
        snib__mq_step_answer(z, now, k, SNIB__NOT_APPLIED, why->err, why->text);
    } else if (r->verb == SNIB__ACQUIRE && r->exec.impatient) {
        snib__mq_step_answer(z, now, k,
                             k->wrote ? SNIB__UNKNOWN : SNIB__NOT_APPLIED,
                             SNIB_ERR_UNREACHABLE, why->text);
    } else {
        snib__mq_step_again(z, k);
    }
}

static void step_refused(struct snib__mq *z, snib_instant now,
                         struct mq_step *k, snib_duration left)
{
    k->r->said.left = left;
    snib__mq_step_answer(z, now, k, SNIB__NO, SNIB_ERR_BUSY, NULL);
}

static const struct mq_told step_told = {.queued = step_queued,
                                         .granted = step_granted,
                                         .renewed = step_renewed,
                                         .refused = step_refused,
                                         .lost = step_lost};

/* For how long it has to wait, of one that the broker has no news for. */
static snib_duration step_left(snib_instant now, const struct mq_step *k,
                               const struct mq_claim *c)
{
    return c->stage == MQ_OUTWAITS             ? snib__between(now, c->timer.at)
           : k->r->said.answer == SNIB__QUEUED ? k->r->said.left
                                               : MQ_NOT_KNOWN;
}

/* -- begun --------------------------------------------------------------------- */

static void step_attach(struct snib__mq *z, snib_instant now, struct mq_step *k,
                        struct mq_claim *c)
{
    c->step = k;
    snib__mq_step_asks(z, k, snib__after(now, z->request));
}

static void step_make_claim(struct snib__mq *z, snib_instant now,
                            struct mq_step *k)
{
    snib_err err;
    struct mq_claim *c = snib__mq_claim_make(z, now, k->r, &err);
    if (c) {
        step_attach(z, now, k, c);
    } else {
        snib__mq_step_answer(z, now, k, SNIB__NOT_APPLIED, err,
                             err == SNIB_ERR_NOMEM
                                 ? NULL
                                 : "this connection has no channel left: too "
                                   "many locks are held or waited for");
    }
}

static void step_acquire(struct snib__mq *z, snib_instant now,
                         struct mq_step *k)
{
    struct mq_claim *c = snib__mq_claim_find(z, k->r->id);
    bool waits = c && (c->stage == MQ_WAITS || c->stage == MQ_OUTWAITS);
    if (!c && z->joining >= MQ_JOINING) {
        return; /* a broker makes queues one by one */
    }
    if (!c) {
        step_make_claim(z, now, k);
    } else if (c->stage == MQ_HOLDS) {
        step_granted(z, now, k, c);
    } else if (waits && (c->quiet || c->stage == MQ_OUTWAITS ||
                         k->r->said.answer == SNIB__QUEUED)) {
        snib__mq_claim_seed(z, now, c);
        step_queued(z, now, k, step_left(now, k, c));
    } else {
        step_attach(z, now, k, c);
    }
}

static void step_renew(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    struct mq_claim *c = snib__mq_claim_find(z, k->r->id);
    if (!c || c->stage != MQ_HOLDS || c->token != k->r->token) {
        snib__mq_step_answer(z, now, k, SNIB__NO, SNIB_ERR_LOST,
                             c ? "its lease is over"
                               : "what this client had at the broker is gone: "
                                 "its connection was cut (others wait for the "
                                 "rest of the lease), or the queue was "
                                 "removed");
        return;
    }
    step_attach(z, now, k, c);
    snib__mq_claim_renew(z, now, c, snib__to_ms(k->r->lease));
}

static void step_end_claim(struct snib__mq *z, snib_instant now,
                           struct mq_step *k, struct mq_claim *c)
{
    step_attach(z, now, k, c);
    snib__mq_claim_end(z, now, c);
}

static void step_release(struct snib__mq *z, snib_instant now,
                         struct mq_step *k)
{
    struct mq_claim *c = snib__mq_claim_find(z, k->r->id);
    if (c && (c->stage != MQ_HOLDS || c->token == k->r->token)) {
        k->done = c->token == k->r->token;
        step_end_claim(z, now, k, c);
    } else if (!c && !k->ended && !k->noted && z->orphans) {
        snib__mq_orphan_work.begin(z, now, k);
    } else {
        snib__mq_step_answer(z, now, k, k->done ? SNIB__DONE : SNIB__NO,
                             k->done ? SNIB_ERR_OK : SNIB_ERR_LOST, NULL);
    }
}

static void step_cancel(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    struct snib__request *r = k->r;
    struct mq_claim *c = snib__mq_claim_find(z, r->id);
    struct mq_claim *prior =
        r->token ? snib__mq_claim_find(z, r->prior_id) : NULL;
    if (c) {
        r->said.granted = c->stage == MQ_HOLDS ? c->token : r->said.granted;
        step_end_claim(z, now, k, c);
    } else if (prior) {
        step_end_claim(z, now, k, prior);
    } else if ((!k->ended || r->token) && !k->noted && z->orphans) {
        snib__mq_orphan_work.begin(z, now, k);
    } else {
        snib__mq_step_answer(z, now, k, SNIB__DONE, SNIB_ERR_OK, NULL);
    }
}

static void step_begin(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    switch (k->r->verb) {
    case SNIB__ACQUIRE:
        step_acquire(z, now, k);
        break;
    case SNIB__RENEW:
        step_renew(z, now, k);
        break;
    case SNIB__RELEASE:
        step_release(z, now, k);
        break;
    case SNIB__CANCEL:
        step_cancel(z, now, k);
        break;
    case SNIB__INSPECT:
    case SNIB__LIST:
        snib__mq_look_work.begin(z, now, k);
        break;
    case SNIB__DOCTOR:
        snib__mq_doctor_work.begin(z, now, k);
        break;
    case SNIB__FORCE:
    case SNIB__PARAMS:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY:
        break; /* step_lacks */
    }
}

void snib__mq_steps_begin(struct snib__mq *z, snib_instant now)
{
    SNIB__LIST_EACH_SAFE (l, next, &z->steps) {
        if (step_of(l)->phase == MQ_IDLE && snib__mq_is_ready(&z->session)) {
            step_begin(z, now, step_of(l));
        }
    }
}

/* -- in vain --------------------------------------------------------------------- */

/* A caller who tries once, and a renewal, hear of the first failure. */
static void step_in_vain(struct snib__mq *z, snib_instant now,
                         struct mq_step *k, bool refused, snib_err err,
                         const char *text)
{
    struct snib__request *r = k->r;
    bool late = snib__reached(now, r->exec.patience);
    bool hears = r->exec.impatient || r->verb == SNIB__RENEW;
    bool there = snib__mq_claim_find(z, r->id) != NULL;
    snib__mq_step_answer(z, now, k,
                         !(late || hears || refused) ? SNIB__PENDING
                         : there                     ? SNIB__UNKNOWN
                                                     : SNIB__NOT_APPLIED,
                         err, text);
}

void snib__mq_steps_in_vain(struct snib__mq *z, snib_instant now)
{
    struct mq_session *s = &z->session;
    s->in_vain = false;
    SNIB__LIST_EACH_SAFE (l, next, &z->steps) {
        if (step_of(l)->phase == MQ_IDLE) {
            step_in_vain(z, now, step_of(l), s->refuses, s->err, s->text);
        }
    }
}

/* What was to be ended is left to the end of its channel; a repeat leaves a message
 * (orphan.c). */
static void step_unknown(struct snib__mq *z, snib_instant now,
                         struct mq_step *k)
{
    struct mq_claim *c = snib__mq_claim_find(z, k->r->id);
    bool ends = k->r->verb == SNIB__RELEASE || k->r->verb == SNIB__CANCEL;
    snib__mq_step_answer(z, now, k, SNIB__UNKNOWN, SNIB_ERR_UNKNOWN, NULL);
    if (c && ends) {
        snib__mq_claim_forget(z, now, c);
    }
}

static void step_silence(struct snib__mq *z, snib_instant now,
                         struct mq_step *k)
{
    const struct mq_session *s = &z->session;
    bool claims = k->r->verb <= SNIB__CANCEL && k->phase == MQ_ASKS;
    bool behind = k->r->verb == SNIB__ACQUIRE && k->phase == MQ_IDLE &&
                  snib__mq_is_ready(&z->session) && z->joining &&
                  !snib__reached(now, k->r->exec.patience);
    char text[MQ_TEXT];
    bool looks = k->r->verb == SNIB__INSPECT || k->r->verb == SNIB__LIST;
    if (behind) { /* others get on */
        step_limit(z, k, snib__after(now, z->request));
    } else if (looks && k->phase == MQ_ASKS) {
        snib__mq_look_work.late(z, now, k);
    } else if (claims) {
        step_unknown(z, now, k);
    } else {
        snprintf(text, sizeof text, "no %s %.*s within the time allowed",
                 s->state == MQ_LOGIN ? "login of the program's for"
                                      : "answer from",
                 MQ_ADDRESS, z->out->conn[s->at]->address);
        step_in_vain(z, now, k, false, SNIB_ERR_UNREACHABLE,
                     s->text[0] ? s->text : text);
    }
}

void snib__mq_steps_tick(struct snib__mq *z, snib_instant now)
{
    struct snib__timer *t;
    while ((t = snib__heap_min(&z->timers)) && snib__reached(now, t->at)) {
        step_silence(z, now, SNIB__CONTAINER(t, struct mq_step, timer));
    }
}

/* -- taken ----------------------------------------------------------------- */

/* What there is not here, as a text; NULL: it is there. */
static const char *step_lacks(const struct snib__request *r)
{
    const struct snib__request_acquire *a = &r->acquire;
    bool acquires = r->verb == SNIB__ACQUIRE;
    if (acquires && a->kind != SNIB_KIND_MUTEX) {
        return "rabbitmq: has mutexes only";
    }
    if (acquires && a->delay.ns > 0) {
        return "rabbitmq: keeps no lock-delay; leave it out";
    }
    if (acquires && a->priority) {
        return "rabbitmq: serves in the order of arrival; it has no priorities";
    }
    if (acquires && (a->upgrade_of[0] || a->upgrade_of[1])) {
        return "rabbitmq: has mutexes only, nothing to upgrade";
    }
    if (r->verb == SNIB__FORCE) {
        return "rabbitmq: no forced release; rabbitmqctl delete_queue on the "
               "lock's queue does it (docs/RABBITMQ.md)";
    }
    return r->verb <= SNIB__LIST || r->verb == SNIB__DOCTOR
               ? NULL
               : "rabbitmq: has mutexes only, no semaphores, latches or values";
}

static bool step_is_too_long(const struct snib__request *r)
{
    return (r->verb == SNIB__ACQUIRE || r->verb == SNIB__RENEW) &&
           snib__to_ms(r->lease) > MQ_LEASE_MOST_MS;
}

static void step_refuse(struct snib__mq *z, struct snib__request *r,
                        snib_err err, const char *text)
{
    r->said.answer = SNIB__NOT_APPLIED;
    r->said.err = text ? snib__fail(r->said.reterr, err, "%s", text)
                       : snib__fail_plain(r->said.reterr, err);
    snib__list_push(&z->executed, &r->link);
}

static void step_make(struct snib__mq *z, snib_instant now,
                      struct snib__request *r)
{
    const char *lacks = step_lacks(r);
    struct mq_step *k;
    if (lacks) {
        step_refuse(z, r, SNIB_ERR_UNSUPPORTED, lacks);
        return;
    }
    if (step_is_too_long(r)) {
        step_refuse(z, r, SNIB_ERR_USAGE,
                    "rabbitmq: gives leases of 10 minutes at most: make it "
                    "shorter (lease_ms, --ttl); it is renewed, so a lock is "
                    "held for as long as it takes");
        return;
    }
    if (!snib__heap_reserve(&z->timers, z->made + 1) ||
        !(k = snib__alloc(sizeof *k))) {
        step_refuse(z, r, SNIB_ERR_NOMEM, NULL);
        return;
    }
    z->made++;
    k->r = r;
    k->told = &step_told;
    snib__link_init(&k->link);
    snib__buf_init(&k->answers, STEP_ANSWERS_MAX);
    snib__list_push(&z->steps, &k->link);
    step_limit(z, k, snib__after(now, z->request));
}

void snib__mq_steps_take(struct snib__mq *z, snib_instant now)
{
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        struct snib__list chain;
        struct snib__link *l;
        snib__list_init(&chain);
        while (snib__blocking_waits(z->requests, (snib__session)i)) {
            snib__blocking_take(z->requests, now, (snib__session)i, &chain);
            snib__blocking_returned(z->requests, (snib__session)i);
            while ((l = snib__list_pop(&chain))) {
                step_make(z, now,
                          SNIB__CONTAINER(l, struct snib__request, link));
            }
        }
    }
}
