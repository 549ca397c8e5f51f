/* store/etcd/step.c — steps: requests that are answered together, from when they
 * are taken until they are given back.
 *
 *   taken --name under way, or too many--> BEHIND --they are over--+
 *     |                                                            |
 *     +------------------------------------------------------------+
 *     v
 *   WAITS --the connection is READY--> (begin) ASKS ... LEASES ... WRITES
 *     ^                                           |
 *     +--------- PAUSES <-- somebody was faster --+
 *
 * One client's steps about one name come one after the other: side by side they
 * would only conflict with each other. Those about different names do not wait
 * for each other, so a server that keeps one answer delays no other one.
 *
 * A step that is not over by `until` ends there: UNKNOWN if what was sent may
 * have changed something, else nothing was done. A caller's limit ends none that
 * is under way: he leaves, and what he asked for is cancelled behind it
 * (core/sharing.c). One that waits for a connection ends at the limits of its
 * requests. */
#include <assert.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/blocking.h"
#include "store/etcd/etcd_i.h"

enum {
    STEP_PAUSE_US = 500,
    STEP_PAUSE_MAX_US = 16000,
    STEP_CONFLICTS = 40,
    STEP_SPARES = 4
};

static struct etcd_step *step_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct etcd_step, link);
}

static struct snib__request *step_request(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__request, link);
}

/* -- made and freed -------------------------------------------------------- */

static void step_called(struct snib__etcd *e, snib_instant now,
                        struct etcd_call *c, const struct etcd_reply *reply)
{
    struct etcd_step *k = (struct etcd_step *)(void *)c;
    k->work->done(e, now, c, reply);
}

static struct etcd_step *step_new(struct snib__etcd *e)
{
    struct snib__link *l = snib__list_pop(&e->spare);
    if (l) {
        return step_of(l);
    }
    struct etcd_step *k = snib__alloc(sizeof *k);
    if (k) {
        snib__etcd_call_init(&k->call, step_called);
        snib__link_init(&k->link);
        snib__snapshot_init(&k->s, e->client);
        snib__buf_init(&k->from, ETCD_KEY_MAX);
    }
    return k;
}

static void step_free(struct snib__etcd *e, struct etcd_step *k)
{
    snib__unlink(&k->link);
    snib__heap_remove(&e->timers, &k->timer);
    snib__etcd_call_free(e, &k->call);
    snib__snapshot_free(&k->s);
    snib__buf_free(&k->from);
    snib__free(k->was);
    snib__free(k);
}

void snib__etcd_steps_free(struct snib__etcd *e)
{
    struct snib__list *lists[] = {&e->steps, &e->behind, &e->spare};
    for (int i = 0; i < 3; i++) {
        while (!snib__list_empty(lists[i])) {
            step_free(e, step_of(snib__list_first(lists[i])));
        }
    }
}

/* -- who may run ----------------------------------------------------------- */

static uint8_t *step_slot(struct snib__etcd *e, const struct snib__request *r)
{
    return &e->busy[r->name->hash % ETCD_SLOTS];
}

/* Renewals guard nothing but their own claims, and looks nothing: they are in
 * nobody's way. */
static bool step_names(const struct etcd_step *k)
{
    return k->r[0]->name && k->r[0]->verb != SNIB__INSPECT &&
           k->r[0]->verb != SNIB__RENEW;
}

static void step_mark(struct snib__etcd *e, const struct etcd_step *k,
                      uint8_t by)
{
    for (uint32_t i = 0; step_names(k) && i < k->count; i++) {
        *step_slot(e, k->r[i]) = by;
    }
}

static bool step_is_free(struct snib__etcd *e, const struct etcd_step *k)
{
    bool is = e->under_way < ETCD_STEPS;
    for (uint32_t i = 0; step_names(k) && i < k->count; i++) {
        is = is && !*step_slot(e, k->r[i]);
    }
    return is;
}

/* -- timers ---------------------------------------------------------------- */

static snib_instant step_limit(const struct etcd_step *k)
{
    snib_instant limit = k->until;
    for (uint32_t i = 0; k->phase == STEP_WAITS && i < k->count; i++) {
        limit = snib__sooner(limit, k->r[i]->exec.patience);
    }
    return limit;
}

static void step_phase(struct snib__etcd *e, struct etcd_step *k,
                       etcd_phase phase)
{
    k->phase = phase;
    snib__heap_set(&e->timers, &k->timer, step_limit(k));
}

/* -- over ------------------------------------------------------------------ */

void snib__etcd_step_over(struct snib__etcd *e, struct etcd_step *k)
{
    uint32_t spares = 0;
    snib__etcd_call_drop(e, &k->call);
    snib__heap_remove(&e->timers, &k->timer);
    if (k->phase != STEP_BEHIND) {
        step_mark(e, k, 0);
        e->under_way--;
    }
    for (uint32_t i = 0; i < k->count; i++) {
        snib__list_push(&e->executed, &k->r[i]->link);
    }
    k->count = 0;
    snib__unlink(&k->link);
    SNIB__LIST_EACH (l, &e->spare) {
        spares++;
    }
    if (spares < STEP_SPARES) {
        snib__list_push(&e->spare, &k->link);
    } else {
        step_free(e, k);
    }
}

static void step_undo(struct etcd_step *k)
{
    if (k->work->undo) {
        k->work->undo(k);
    }
}

/* A caller who tries once, and a renewal, hear of the first failure. */
static void step_request_in_vain(snib_instant now, struct snib__request *r,
                                 bool refused, bool blocked, snib_err err,
                                 const char *text)
{
    bool late = snib__reached(now, r->exec.patience);
    bool hears = !blocked && (r->exec.impatient || r->verb == SNIB__RENEW);
    r->said.answer =
        late || hears || refused ? SNIB__NOT_APPLIED : SNIB__PENDING;
    r->exec.blocked = blocked;
    r->said.err = snib__fail(r->said.reterr, err, "%s", text);
}

void snib__etcd_step_in_vain(struct snib__etcd *e, snib_instant now,
                             struct etcd_step *k, bool refused, snib_err err,
                             const char *text)
{
    step_undo(k);
    for (uint32_t i = 0; i < k->count; i++) {
        step_request_in_vain(now, k->r[i], refused, false, err, text);
    }
    snib__etcd_step_over(e, k);
}

void snib__etcd_step_by_reply(struct snib__etcd *e, snib_instant now,
                              struct etcd_step *k,
                              const struct etcd_reply *reply)
{
    bool waits = reply->login || !snib__etcd_is_ready(&e->session);
    if (reply->end == ETCD_AGAIN && waits && !reply->leave) {
        snib__etcd_step_again(e, now, k);
        return;
    }
    snib__etcd_step_in_vain(e, now, k, reply->end == ETCD_REFUSED,
                            reply->err ? reply->err : SNIB_ERR_STORE,
                            reply->text[0] ? reply->text
                                           : "the answer is not etcd's");
}

void snib__etcd_step_lost(struct snib__etcd *e, struct etcd_step *k)
{
    for (uint32_t i = 0; i < k->count; i++) {
        struct snib__request *r = k->r[i];
        r->said.answer = SNIB__UNKNOWN;
        r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_UNKNOWN);
    }
    snib__etcd_step_over(e, k);
}

bool snib__etcd_step_pause(struct snib__etcd *e, snib_instant now,
                           struct etcd_step *k)
{
    int64_t us = STEP_PAUSE_US;
    step_undo(k);
    if (++k->conflicts > STEP_CONFLICTS) {
        for (uint32_t i = 0; i < k->count; i++) {
            step_request_in_vain(now, k->r[i], false, true,
                                 SNIB_ERR_UNREACHABLE,
                                 "others have changed this lock again and "
                                 "again meanwhile");
        }
        snib__etcd_step_over(e, k);
        return false;
    }
    for (uint32_t i = 1; i < k->conflicts && us < STEP_PAUSE_MAX_US; i++) {
        us *= 2;
    }
    us = us / 2 + (int64_t)snib__rng_below(&e->rng, (uint64_t)us);
    k->phase = STEP_PAUSES;
    snib__heap_set(&e->timers, &k->timer,
                   snib__after(now, (snib_duration){us * 1000}));
    return true;
}

/* -- running --------------------------------------------------------------- */

static bool step_may_call(const struct snib__etcd *e)
{
    const struct etcd_session *s = &e->session;
    return s->state == ETCD_READY && !s->leave && !s->anew && !s->h2.away;
}

static void step_begin(struct snib__etcd *e, snib_instant now,
                       struct etcd_step *k)
{
    k->begun = now;
    k->work->begin(e, now, k);
}

void snib__etcd_step_again(struct snib__etcd *e, snib_instant now,
                           struct etcd_step *k)
{
    step_phase(e, k, STEP_WAITS);
    if (step_may_call(e)) {
        step_begin(e, now, k);
    }
}

void snib__etcd_step_wait(struct snib__etcd *e, struct etcd_step *k)
{
    step_phase(e, k, STEP_LEASES);
}

void snib__etcd_step_call(struct snib__etcd *e, snib_instant now,
                          struct etcd_step *k, etcd_phase phase,
                          const char *path, struct snib__buf *message)
{
    k->call.changes = phase == STEP_WRITES;
    k->sent = now;
    step_phase(e, k, phase);
    snib__etcd_call(e, now, &k->call, path, message);
}

void snib__etcd_steps_begin(struct snib__etcd *e, snib_instant now)
{
    uint8_t waiting[ETCD_SLOTS] = {0};
    SNIB__LIST_EACH_SAFE (l, next, &e->behind) {
        struct etcd_step *k = step_of(l);
        bool may = step_is_free(e, k);
        for (uint32_t i = 0; step_names(k) && i < k->count; i++) {
            uint8_t *w = &waiting[k->r[i]->name->hash % ETCD_SLOTS];
            may = may && !*w;
            *w = 1;
        }
        if (may) {
            snib__unlink(&k->link);
            snib__list_push(&e->steps, &k->link);
            step_mark(e, k, 1);
            e->under_way++;
            k->until = snib__after(now, e->request);
            snib__etcd_step_again(e, now, k);
        }
    }
    SNIB__LIST_EACH_SAFE (l, next, &e->steps) {
        if (step_of(l)->phase == STEP_WAITS && step_may_call(e)) {
            step_begin(e, now, step_of(l));
        }
    }
}

void snib__etcd_steps_go_on(struct snib__etcd *e, snib_instant now)
{
    SNIB__LIST_EACH_SAFE (l, next, &e->steps) {
        if (step_of(l)->phase == STEP_LEASES) {
            step_of(l)->work->go_on(e, now, step_of(l));
        }
    }
}

void snib__etcd_steps_no_lease(struct snib__etcd *e, snib_instant now,
                               const struct etcd_reply *reply)
{
    struct etcd_reply nothing = *reply; /* was done for the steps */
    nothing.end = reply->end == ETCD_REFUSED ? ETCD_REFUSED : ETCD_AGAIN;
    SNIB__LIST_EACH_SAFE (l, next, &e->steps) {
        if (step_of(l)->phase == STEP_LEASES) {
            snib__etcd_step_by_reply(e, now, step_of(l), &nothing);
        }
    }
}

void snib__etcd_steps_in_vain(struct snib__etcd *e, snib_instant now,
                              bool refused, snib_err err, const char *text)
{
    struct snib__list *lists[] = {&e->steps, &e->behind};
    for (int i = 0; i < 2; i++) {
        SNIB__LIST_EACH_SAFE (l, next, lists[i]) {
            etcd_phase phase = step_of(l)->phase;
            if (phase == STEP_WAITS || phase == STEP_BEHIND) {
                snib__etcd_step_in_vain(e, now, step_of(l), refused, err, text);
            }
        }
    }
}

static void step_late(struct snib__etcd *e, snib_instant now,
                      struct etcd_step *k)
{
    const char *text = e->session.text[0] ? e->session.text
                                          : "no answer from the server in time";
    if (k->phase == STEP_BEHIND && snib__etcd_is_ready(&e->session)) {
        k->until = snib__after(now, e->request); /* others get on */
        step_phase(e, k, STEP_BEHIND);
    } else if (k->phase == STEP_WRITES) {
        snib__etcd_call_drop(e, &k->call);
        k->work->late(e, now, k);
    } else {
        snib__etcd_step_in_vain(e, now, k, false, SNIB_ERR_UNREACHABLE, text);
    }
}

void snib__etcd_steps_tick(struct snib__etcd *e, snib_instant now)
{
    struct snib__timer *t;
    while ((t = snib__heap_min(&e->timers)) && snib__reached(now, t->at)) {
        struct etcd_step *k = SNIB__CONTAINER(t, struct etcd_step, timer);
        snib__heap_remove(&e->timers, t);
        if (k->phase == STEP_PAUSES && !snib__reached(now, step_limit(k))) {
            snib__etcd_step_again(e, now, k);
        } else {
            step_late(e, now, k);
        }
    }
}

/* -- taken ----------------------------------------------------------------- */

static const struct etcd_work *step_work(const struct snib__request *r)
{
    switch (r->verb) {
    case SNIB__ACQUIRE:
    case SNIB__RENEW:
    case SNIB__RELEASE:
    case SNIB__CANCEL:
    case SNIB__FORCE:
    case SNIB__PARAMS:
        return &snib__etcd_claims_work;
    case SNIB__INSPECT:
    case SNIB__LIST:
        return &snib__etcd_look_work;
    case SNIB__DOCTOR:
        return &snib__etcd_doctor_work;
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
        break;
    }
    return &snib__etcd_value_work;
}

static uint32_t step_batch(const struct snib__request *r)
{
    return r->verb == SNIB__ACQUIRE && !r->resent ? r->batch.number : 0;
}

/* May this request be in one step with those that are in it? Of renewals many
 * are; of others only the tries of one batch, which nobody may see a half of. */
static bool step_belongs(const struct etcd_step *k,
                         const struct snib__request *r)
{
    const struct snib__request *first = k->r[0];
    bool renew = first->verb == SNIB__RENEW && r->verb == SNIB__RENEW;
    bool batch = step_batch(first) && step_batch(first) == step_batch(r);
    if (k->count == SNIB__SNAPSHOT_MAX || (!renew && !batch)) {
        return false;
    }
    for (uint32_t i = 0; !renew && i < k->count; i++) {
        if (snib__name_same(k->r[i]->name, r->name)) {
            return false;
        }
    }
    return true;
}

static struct etcd_step *step_make(struct snib__etcd *e, snib_instant now,
                                   struct snib__request *r)
{
    struct etcd_step *k =
        snib__heap_reserve(&e->timers, e->timers.size + 1) ? step_new(e) : NULL;
    if (!k) {
        r->said.answer = SNIB__NOT_APPLIED;
        r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_NOMEM);
        snib__list_push(&e->executed, &r->link);
        return NULL;
    }
    k->work = step_work(r);
    k->phase = STEP_BEHIND;
    k->r[0] = r;
    k->count = 1;
    k->conflicts = k->asked = k->answered = 0;
    k->decides = false;
    k->revision = 0;
    k->until = snib__after(now, e->request);
    snib__buf_clear(&k->from);
    snib__list_push(&e->behind, &k->link);
    step_phase(e, k, STEP_BEHIND);
    return k;
}

static void step_take_all(struct snib__etcd *e, snib_instant now,
                          struct snib__list *chain)
{
    struct snib__link *l;
    struct etcd_step *k = NULL;
    while ((l = snib__list_pop(chain))) {
        struct snib__request *r = step_request(l);
        if (k && step_belongs(k, r)) {
            k->r[k->count++] = r;
            step_phase(e, k, STEP_BEHIND);
        } else {
            k = step_make(e, now, r);
        }
    }
}

void snib__etcd_steps_take(struct snib__etcd *e, snib_instant now)
{
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        struct snib__list chain;
        snib__list_init(&chain);
        while (snib__blocking_waits(e->requests, (snib__session)i)) {
            snib__blocking_take(e->requests, now, (snib__session)i, &chain);
            snib__blocking_returned(e->requests, (snib__session)i);
            step_take_all(e, now, &chain);
        }
    }
}

void snib__etcd_step_apart(struct snib__etcd *e, snib_instant now,
                           struct etcd_step *k)
{
    struct snib__request *r[SNIB__SNAPSHOT_MAX];
    uint32_t n = k->count;
    assert(n > 1);
    step_undo(k);
    k->decides = false;
    for (uint32_t i = 0; i < n; i++) {
        r[i] = k->r[i];
    }
    k->count = 1; /* the first one goes on; the others are BEHIND */
    step_mark(e, k, 0);
    for (uint32_t i = 1; i < n; i++) {
        *step_slot(e, r[i]) = 0;
        (void)step_make(e, now, r[i]);
    }
    step_mark(e, k, 1);
    snib__etcd_step_again(e, now, k);
}
