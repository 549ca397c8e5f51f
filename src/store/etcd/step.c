/* store/etcd/step.c — steps: requests that are answered together, from when they
 * are taken until they are given back.
 *
 *   listed --its names are free, and there is room--> taken
 *     v
 *   (begin) ASKS ... LEASES ... WRITES --> over
 *     ^                           |
 *     +---- PAUSES <--- somebody was faster
 *     +---- WAITS <---- the connection was lost; what is taken apart
 *
 * One client's steps about one name come one after the other: side by side they
 * would only conflict with each other. Those about different names do not wait
 * for each other, so a server that keeps one answer delays no other one. What
 * cannot be begun stays listed (core/blocking.h): it costs no memory, is
 * answered at its limit, and ended by a cancel, as long as nothing of it was
 * sent.
 *
 * A step that is not over by `until` ends there: UNKNOWN if what was sent may
 * have changed something, else nothing was done. A caller's limit ends none that
 * is under way. When he cancels, one that has changed nothing yet is withdrawn;
 * behind one that writes the cancel waits. One that waits for a connection ends
 * at the limits of its requests, as they are by then. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/etcd/etcd_i.h"

enum {
    STEP_PAUSE_US = 500,
    STEP_PAUSE_MAX_US = 16000,
    STEP_CONFLICTS = 40,
    STEP_SPARES = 4,
    STEP_SPARE_BYTES = 64 << 10,
    STEP_SPARE_CLAIMS = 256
};

static struct etcd_step *step_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct etcd_step, link);
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
        snib__buf_init(&k->from, SNIB__H2_IN);
        snib__buf_init(&k->seen, ETCD_SEEN_MAX);
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
    snib__buf_free(&k->seen);
    snib__free(k->fetched);
    snib__free(k);
}

void snib__etcd_steps_free(struct snib__etcd *e)
{
    struct snib__list *lists[] = {&e->steps, &e->spare};
    for (int i = 0; i < 2; i++) {
        while (!snib__list_empty(lists[i])) {
            step_free(e, step_of(snib__list_first(lists[i])));
        }
    }
}

/* -- whose names are taken --------------------------------------------------- */

uint16_t *snib__etcd_slot(struct snib__etcd *e, const struct snib__request *r)
{
    return &e->busy[r->name->hash % ETCD_SLOTS];
}

static void step_count(struct snib__etcd *e, const struct snib__request *r,
                       int by)
{
    if (snib__etcd_names(r)) {
        uint16_t *slot = snib__etcd_slot(e, r);
        *slot = (uint16_t)(*slot + by);
    }
}

/* -- timers ---------------------------------------------------------------- */

static snib_instant step_limit(const struct etcd_step *k)
{
    snib_instant limit = k->until;
    for (uint32_t i = 0; k->phase == STEP_WAITS && i < k->count; i++) {
        limit = snib__sooner(limit, k->r[i]->limit);
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

/* Those that were taken apart from it come one after the other. */
static void step_next(struct snib__etcd *e, struct etcd_step *k)
{
    k->r[0] = k->apart[0];
    k->count = 1;
    k->aparts--;
    memmove(k->apart, k->apart + 1, k->aparts * sizeof *k->apart);
    k->decides = false;
    k->conflicts = 0;
    k->until = snib__after(e->now, e->request);
    step_phase(e, k, STEP_WAITS);
}

/* A large one gives its memory back. */
static bool step_is_small(const struct etcd_step *k)
{
    return k->call.stream.in.cap <= STEP_SPARE_BYTES &&
           k->call.stream.out.cap <= STEP_SPARE_BYTES &&
           k->from.cap <= STEP_SPARE_BYTES &&
           k->s.claim_capacity <= STEP_SPARE_CLAIMS;
}

static void step_put_by(struct snib__etcd *e, struct etcd_step *k)
{
    uint32_t spares = 0;
    snib__unlink(&k->link);
    e->under_way--;
    SNIB__LIST_EACH (l, &e->spare) {
        spares++;
    }
    if (spares < STEP_SPARES && step_is_small(k)) {
        snib__list_push(&e->spare, &k->link);
    } else {
        step_free(e, k);
    }
}

void snib__etcd_step_over(struct snib__etcd *e, struct etcd_step *k)
{
    snib__etcd_call_drop(e, &k->call);
    snib__heap_remove(&e->timers, &k->timer);
    snib__etcd_places_over(e, k);
    for (uint32_t i = 0; i < k->count; i++) {
        step_count(e, k->r[i], -1);
        snib__etcd_wait_settle(e, k->r[i]);
        snib__list_push(&e->requests.executed, &k->r[i]->link);
    }
    k->count = 0;
    if (k->aparts) {
        step_next(e, k);
    } else {
        step_put_by(e, k);
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
    bool late = snib__reached(now, r->limit);
    bool hears = !blocked && (r->once || r->verb == SNIB__RENEW);
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
    if (k->recipe.stands && !refused) {
        snib__etcd_step_lost(e, k);
        return;
    }
    for (uint32_t i = 0; i < k->count; i++) {
        step_request_in_vain(now, k->r[i], refused, false, err, text);
    }
    snib__etcd_step_over(e, k);
}

void snib__etcd_step_by_reply(struct snib__etcd *e, snib_instant now,
                              struct etcd_step *k,
                              const struct etcd_reply *reply)
{
    bool away = e->session.h2.away;
    bool waits = reply->login || !snib__etcd_is_ready(&e->session) || away;
    if (reply->end == ETCD_AGAIN && waits && (!reply->leave || away)) {
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

void snib__etcd_step_rest(struct snib__etcd *e, struct etcd_step *k,
                          snib_instant then)
{
    k->phase = STEP_PAUSES;
    snib__heap_set(&e->timers, &k->timer, then);
}

bool snib__etcd_step_pause(struct snib__etcd *e, snib_instant now,
                           struct etcd_step *k)
{
    int64_t us = STEP_PAUSE_US;
    step_undo(k);
    if (++k->conflicts > STEP_CONFLICTS && k->recipe.stands) {
        snib__etcd_step_lost(e, k);
        return false;
    }
    if (k->conflicts > STEP_CONFLICTS) {
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
    snib__etcd_step_rest(e, k, snib__after(now, (snib_duration){us * 1000}));
    return true;
}

/* -- running --------------------------------------------------------------- */

bool snib__etcd_may_call(const struct snib__etcd *e)
{
    const struct etcd_session *s = &e->session;
    return s->state == ETCD_READY && !s->leave && !s->anew && !s->h2.away;
}

static void step_run(struct snib__etcd *e, snib_instant now,
                     struct etcd_step *k)
{
    k->begun = now;
    k->work->begin(e, now, k);
}

void snib__etcd_step_again(struct snib__etcd *e, snib_instant now,
                           struct etcd_step *k)
{
    step_phase(e, k, STEP_WAITS);
    if (snib__etcd_may_call(e)) {
        step_run(e, now, k);
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
    SNIB__LIST_EACH_SAFE (l, next, &e->steps) {
        if (step_of(l)->phase == STEP_WAITS && snib__etcd_may_call(e)) {
            step_run(e, now, step_of(l));
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
    struct snib__request *r;
    SNIB__LIST_EACH_SAFE (l, next, &e->steps) {
        if (step_of(l)->phase == STEP_WAITS) {
            snib__etcd_step_in_vain(e, now, step_of(l), refused, err, text);
        }
    }
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        while ((r = snib__blocking_peek(e->requests.table, (snib__session)i,
                                        NULL))) {
            snib__blocking_take_one(e->requests.table, r);
            step_request_in_vain(now, r, refused, false, err, text);
            snib__list_push(&e->requests.executed, &r->link);
        }
    }
}

static void step_late(struct snib__etcd *e, snib_instant now,
                      struct etcd_step *k)
{
    const char *text = e->session.text[0] ? e->session.text
                                          : "no answer from the server in time";
    if (k->phase == STEP_WRITES) {
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
        if (snib__reached(now, step_limit(k))) {
            step_late(e, now, k);
        } else if (k->phase == STEP_PAUSES) {
            snib__etcd_step_again(e, now, k);
        } else { /* a limit was moved */
            step_phase(e, k, k->phase);
        }
    }
}

bool snib__etcd_step_begin(struct snib__etcd *e, snib_instant now,
                           const struct etcd_work *work,
                           struct snib__request *const r[], uint32_t count)
{
    struct etcd_step *k =
        snib__heap_reserve(&e->timers, e->timers.size + 1) ? step_new(e) : NULL;
    if (!k) {
        return false;
    }
    k->work = work;
    k->count = count;
    k->aparts = 0;
    for (uint32_t i = 0; i < count; i++) {
        k->r[i] = r[i];
        step_count(e, r[i], 1);
    }
    k->conflicts = k->asked = k->answered = 0;
    k->decides = k->rests = k->recipe.stands = false;
    k->s.book.most = ETCD_GRANTS;
    k->revision = 0;
    k->until = snib__after(now, e->request);
    snib__buf_clear(&k->from);
    snib__list_push(&e->steps, &k->link);
    e->under_way++;
    step_phase(e, k, STEP_WAITS);
    step_run(e, now, k);
    return true;
}

/* Nothing of it was sent, or nothing that changes anything; it comes back as it
 * was. */
static void step_withdraw(struct snib__etcd *e, struct etcd_step *k)
{
    step_undo(k);
    k->r[0]->said.answer = k->recipe.stands ? SNIB__QUEUED : SNIB__PENDING;
    k->r[0]->said.position = k->recipe.stands ? 0 : k->r[0]->said.position;
    snib__etcd_step_over(e, k);
}

static bool step_is_of(const struct snib__request *r,
                       const struct snib__request *cancel)
{
    return r->verb == SNIB__ACQUIRE && r->id[0] == cancel->id[0] &&
           r->id[1] == cancel->id[1];
}

void snib__etcd_steps_cancel(struct snib__etcd *e,
                             const struct snib__request *cancel)
{
    SNIB__LIST_EACH_SAFE (l, next, &e->steps) {
        struct etcd_step *k = step_of(l);
        if (k->count == 1 && step_is_of(k->r[0], cancel) &&
            k->phase != STEP_WRITES) {
            step_withdraw(e, k);
            return;
        }
    }
}

void snib__etcd_step_apart(struct snib__etcd *e, snib_instant now,
                           struct etcd_step *k)
{
    assert(k->count > 1 && !k->aparts);
    step_undo(k);
    snib__etcd_places_back(e, k);
    k->decides = false;
    k->aparts = k->count - 1;
    memcpy(k->apart, k->r + 1, k->aparts * sizeof *k->apart);
    k->count = 1;
    snib__etcd_step_again(e, now, k);
}
