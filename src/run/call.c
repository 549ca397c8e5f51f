/* run/call.c — the blocking calls.
 *
 *     WAIT --reply fed by a reader----> answered
 *     WAIT --former reader leaves-----> reads (until its own reply)
 *     WAIT or reads --own limit-------> waits a little for the answer to its
 *                                       cancel; then leaves: the request
 *                                       goes on in the engine without a call
 *
 * All calls have the same shape: check the process, lock, start something at
 * the engine, let the pump wait, and take the outcome. At the limit a call
 * first does what is due (the answer may come from a timer of this client),
 * then leaves. A request that it leaves behind ends by itself (rule 5 in
 * pump.c). */
#include "base/error.h"
#include "run/inside.h"
#include "run/testing.h"

/* -- the shape ------------------------------------------------------------- */

void snib__call_begin(struct snib__step *s, struct snib__call *call,
                      snib__call_kind kind, snib_instant limit)
{
    snib__roles_enter(&s->c->roles, &call->w, 0);
    atomic_init(&call->word, SNIB__AWAKE);
    call->kind = (uint8_t)kind;
    call->brief = kind != SNIB__CALL_ROOM && kind != SNIB__CALL_IDLE &&
                  kind != SNIB__CALL_TOLD;
    call->err = SNIB_ERR_OK;
    s->c->odd_calls += !call->brief;
    call->limit = limit;
    call->ticket = call->among = 0;
    call->grant = (struct snib_grant){0};
    call->hold = NULL;
    call->direct = NULL;
    call->next = NULL;
    call->error.code = SNIB_ERR_OK;
    call->error.text[0] = 0;
    s->me = call;
}

/* Wait. True: the call is answered, and err is set. False: the limit is over,
 * and doing what was due then did not answer it either. */
bool snib__call_wait(struct snib__step *s, struct snib__call *call,
                     uint32_t before[SNIB__CONNS])
{
    snib__step_act(s);
    if (snib__pump(s, call, before)) {
        return true;
    }
    snib__engine_tick(s->c->engine, s->now);
    snib__step_act(s);
    snib_instant until = snib__after(call->limit, snib__ms(SNIB__RUN_MS));
    while (!call->w.done && !snib__reached(s->now, until) &&
           snib__engine_is_run(s->c->engine,
                               call->ticket ? call->ticket : call->among)) {
        call->limit = snib__after(s->now, snib__ms(2));
        if (snib__pump(s, call, before)) {
            return true;
        }
    }
    return call->w.done;
}

static snib_err call_outcome(const struct snib__call *call,
                             struct snib_error *reterr)
{
    if (!call->err) {
        return snib__ok(reterr);
    }
    if (call->error.code == call->err && call->error.text[0]) {
        return snib__fail(reterr, call->err, "%s", call->error.text);
    }
    return snib__fail_plain(reterr, call->err);
}

static uint32_t call_in_flight(const struct snib_client *c)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < c->out->conns; i++) {
        most = c->out->conn[i].awaited > most ? c->out->conn[i].awaited : most;
    }
    return most;
}

/* Rule 6: while too many requests are in flight, help to read the replies
 * before more is sent. */
static bool call_wait_for_room(struct snib__step *s, snib_instant limit)
{
    if (__builtin_expect(call_in_flight(s->c) < SNIB__FLIGHT_MAX, 1)) {
        return true;
    }
    struct snib__call call;
    snib__call_begin(s, &call, SNIB__CALL_ROOM, limit);
    bool room = snib__call_wait(s, &call, NULL);
    snib__pump_leave(s, &call);
    return room;
}

/* -- acquire --------------------------------------------------------------- */

snib_err snib__how_read(const struct snib_acquire_options *given,
                        int64_t wait_ms, struct snib__how *ret,
                        struct snib_error *reterr)
{
    *ret = (struct snib__how){.wait_ms = wait_ms > 0 ? wait_ms : 0};
    if (!given) {
        return SNIB_ERR_OK;
    }
    if (given->size != sizeof *given) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "acquire options of size %zu, expected %zu: start "
                          "from SNIB_INIT(snib_acquire_options)",
                          given->size, sizeof *given);
    }
    if (given->owner && !(given->owner & SNIB__OWNER_FREE)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "owner %llu is not one of snib_owner_new()",
                          (unsigned long long)given->owner);
    }
    ret->o = *given;
    return SNIB_ERR_OK;
}

static snib_err call_check_lease(int64_t ms, struct snib_error *reterr)
{
    if (ms < SNIB_LEASE_MIN_MS || ms > SNIB_LEASE_MAX_MS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "lease of %lld ms; expected %lld to %lld",
                          (long long)ms, (long long)SNIB_LEASE_MIN_MS,
                          (long long)SNIB_LEASE_MAX_MS);
    }
    return SNIB_ERR_OK;
}

snib_err snib__may_block(const struct snib_client *c, struct snib_error *reterr)
{
    if (c->pull) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "this call blocks, which a client that "
                          "snib_process drives must not: start it "
                          "(snib_acquire_start, snib_release_start), or open "
                          "a second client without .pull for it");
    }
    return SNIB_ERR_OK;
}

/* The error of a call without an answer at its limit: UNKNOWN. The text says
 * why, if the store is known to be out of reach. */
static snib_err call_unanswered(const struct snib__step *s,
                                struct snib__call *call)
{
    struct snib__store_state is;
    snib__engine_store_state(s->c->engine, s->now, &is);
    if (is.reachable || !is.err) {
        return SNIB_ERR_UNKNOWN;
    }
    return snib__fail(&call->error, SNIB_ERR_UNKNOWN, "%s: %s",
                      snib_err_text(SNIB_ERR_UNKNOWN), is.text);
}

static void call_end_call(struct snib__step *s, struct snib__hold *h,
                          snib_err err)
{
    struct snib__call *call = h->call;
    snib__holds_free(s, h);
    snib__call_settle(s, call, err);
}

void snib__call_quit(struct snib__step *s, struct snib__acquisition *acq,
                     snib_err why)
{
    struct snib__hold *h = acq->user;
    snib_err err =
        snib__engine_give_up(s->c->engine, s->now, acq, why, &h->call->error);
    if (err) {
        call_end_call(s, h, err);
    }
}

void snib__call_cut(struct snib__step *s, struct snib__acquisition *acq)
{
    struct snib__hold *h = acq->user;
    h->call->error.code = SNIB_ERR_OK; /* the general text of the error */
    call_end_call(
        s, h, snib__engine_leave(s->c->engine, s->now, acq, SNIB_ERR_CLOSED));
}

/* A call still waits at its limit. Cancel its request at the store. If the
 * store answers soon enough the call gets that answer; else the request goes on
 * without it (rule 5). */
static void call_give_up(struct snib__step *s, struct snib__call *call,
                         snib_err why, uint32_t before[SNIB__CONNS])
{
    struct snib__acquisition *acq =
        snib__engine_acquisition(s->c->engine, call->ticket);
    if (acq && acq->state == SNIB__ACQ_WAITING) {
        snib__call_quit(s, acq, why);
    }
    if (call->w.done) {
        return;
    }
    acq = snib__engine_acquisition(s->c->engine, call->ticket);
    call->limit = acq ? acq->timer.at : s->now;
    if (!snib__call_wait(s, call, before)) {
        call->err = SNIB_ERR_INTERNAL; /* the engine keeps the limit */
    }
}

snib_duration snib__patience(const struct snib_client *c, int64_t wait_ms)
{
    return wait_ms ? snib__ms(wait_ms) : c->request;
}

/* May a call ask for a grant? On OK the background thread runs. */
snib_err snib__may_acquire(struct snib__step *s, snib_instant limit,
                           struct snib_error *reterr)
{
    struct snib_client *c = s->c;
    if (c->closed) {
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    snib_err err = snib__background_need(c, reterr);
    if (!err && !call_wait_for_room(s, limit)) {
        err = snib__fail(reterr, SNIB_ERR_TIMEOUT,
                         "not asked: %d requests are unanswered",
                         SNIB__FLIGHT_MAX);
    }
    if (!err && c->closed) { /* while it waited for the others */
        err = snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    return err;
}

static snib_err call_acquire(struct snib_lock *lock,
                             const struct snib__how *how,
                             snib_duration patience, struct snib__stop *stop,
                             struct snib_grant *ret, struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    struct snib__call call;
    uint32_t before[SNIB__CONNS];
    bool open;
    uint64_t owner = how->o.owner ? how->o.owner : snib__owner_of_thread();
    snib__step_begin(&s, c);
    snib_instant limit = snib__after(s.now, patience);
    snib_err err = snib__may_acquire(&s, limit, reterr);
    if (!err && stop && stop->asked) {
        err = snib__fail_plain(reterr, SNIB_ERR_CANCELLED);
    }
    if (err) {
        snib__step_end(&s);
        return err;
    }
    snib__pump_mark(c, before);
    snib__call_begin(&s, &call, SNIB__CALL_ACQUIRE, limit);
    err = snib__hold_acquire(&s, lock, how, limit, owner, &call, NULL, NULL,
                             &open, &call.ticket, reterr);
    if (stop) {
        stop->ticket = call.ticket;
    }
    if (!err && open && !snib__call_wait(&s, &call, before)) {
        call_give_up(&s, &call,
                     how->wait_ms ? SNIB_ERR_TIMEOUT : SNIB_ERR_UNREACHABLE,
                     before);
    }
    snib__pump_leave(&s, &call);
    snib__step_end(&s);
    if (err) {
        return err;
    }
    if (!call.err) {
        *ret = call.grant;
    }
    return call_outcome(&call, reterr);
}

snib_err snib_try_for(struct snib_lock *lock, int64_t wait_ms,
                      const struct snib_acquire_options *options,
                      struct snib_grant *ret, struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__how how;
    *ret = (struct snib_grant){0};
    snib_err err = snib__client_check(c, reterr);
    if (!err) {
        err = snib__may_block(c, reterr);
    }
    if (!err) {
        err = snib__how_read(options, wait_ms, &how, reterr);
    }
    return err ? err
               : call_acquire(lock, &how, snib__patience(c, how.wait_ms), NULL,
                              ret, reterr);
}

snib_err snib_acquire(struct snib_lock *lock,
                      const struct snib_acquire_options *options,
                      struct snib_grant *ret, struct snib_error *reterr)
{
    return snib_try_for(lock, SNIB__NO_LIMIT, options, ret, reterr);
}

snib_err snib_try(struct snib_lock *lock,
                  const struct snib_acquire_options *options,
                  struct snib_grant *ret, struct snib_error *reterr)
{
    return snib_try_for(lock, 0, options, ret, reterr);
}

snib_err snib__acquire_until(struct snib_lock *lock,
                             const struct snib__how *how,
                             struct snib__stop *stop, struct snib_grant *ret,
                             struct snib_error *reterr)
{
    *ret = (struct snib_grant){0};
    return call_acquire(lock, how, snib__patience(lock->client, how->wait_ms),
                        stop, ret, reterr);
}

void snib__stop_ask(struct snib_client *c, struct snib__stop *stop)
{
    struct snib__step s;
    snib__step_begin(&s, c);
    stop->asked = true;
    struct snib__acquisition *acq =
        snib__engine_acquisition(c->engine, stop->ticket);
    struct snib__hold *h = acq ? acq->user : NULL;
    if (h && h->call && acq->state == SNIB__ACQ_WAITING) {
        snib__call_quit(&s, acq, SNIB_ERR_CANCELLED);
    }
    snib__step_act(&s);
    snib__step_end(&s);
}

snib_err snib__acquire_within(struct snib_lock *lock, int64_t ns,
                              struct snib_grant *ret, struct snib_error *reterr)
{
    static const struct snib__how how = {.wait_ms = 1};
    *ret = (struct snib_grant){0};
    return call_acquire(lock, &how, (snib_duration){ns}, NULL, ret, reterr);
}

/* -- adopt ----------------------------------------------------------------- */

static snib_err call_adopt(struct snib_lock *lock,
                           const struct snib__detached *detached,
                           int64_t lease_ms, struct snib_grant *ret,
                           struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    struct snib__call call;
    uint32_t before[SNIB__CONNS];
    bool open;
    snib__step_begin(&s, c);
    snib_instant limit = snib__after(s.now, c->request);
    snib_err err = snib__may_acquire(&s, limit, reterr);
    if (err) {
        snib__step_end(&s);
        return err;
    }
    snib__pump_mark(c, before);
    snib__call_begin(&s, &call, SNIB__CALL_ACQUIRE, limit);
    err = snib__hold_adopt(&s, lock, detached, lease_ms, limit, &call, &open,
                           reterr);
    if (!err && open && !snib__call_wait(&s, &call, before)) {
        call_give_up(&s, &call, SNIB_ERR_UNKNOWN, before);
    }
    if (call.err == SNIB_ERR_UNKNOWN) {
        call.err = call_unanswered(&s, &call);
    }
    snib__pump_leave(&s, &call);
    snib__step_end(&s);
    if (err) {
        return err;
    }
    if (!call.err) {
        *ret = call.grant;
    }
    return call_outcome(&call, reterr);
}

snib_err snib_grant_adopt(struct snib_lock *lock, const char *text,
                          int64_t lease_ms, struct snib_grant *ret,
                          struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__detached detached;
    int64_t ms = lease_ms ? lease_ms : lock->o.lease_ms;
    *ret = (struct snib_grant){0};
    snib_err err = snib__client_check(c, reterr);
    if (!err) {
        err = snib__may_block(c, reterr);
    }
    if (!err) {
        err = call_check_lease(ms, reterr);
    }
    if (!err && !snib__detached_read(text, &detached)) {
        err = snib__fail(reterr, SNIB_ERR_USAGE,
                         "that is not a text of snib_grant_export");
    }
    if (!err &&
        (detached.client[0] != c->id[0] || detached.client[1] != c->id[1])) {
        err = snib__fail(reterr, SNIB_ERR_USAGE,
                         "the grant is of another client: open one with its "
                         "identity (snib_grant_identity)");
    }
    return err ? err : call_adopt(lock, &detached, ms, ret, reterr);
}

/* -- release --------------------------------------------------------------- */

static snib_err call_release(struct snib_lock *lock, struct snib_grant grant,
                             snib_duration patience, struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    struct snib__call call;
    uint32_t before[SNIB__CONNS];
    bool open;
    snib_err err;
    uint64_t owner = snib__owner_of_thread();
    snib__step_begin(&s, c);
    if (c->stopped) {
        snib__step_end(&s);
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    err = snib__grant_check(lock, grant, reterr);
    if (err) {
        snib__step_end(&s);
        return err;
    }
    snib__pump_mark(c, before);
    snib__call_begin(&s, &call, SNIB__CALL_RELEASE,
                     snib__after(s.now, patience));
    err = snib__hold_release(&s, lock, grant.ticket, owner, &call, NULL, &open,
                             reterr);
    if (open && !snib__call_wait(&s, &call, before)) {
        struct snib__acquisition *acq =
            snib__engine_acquisition(c->engine, grant.ticket);
        if (acq) {
            struct snib__hold *h = acq->user;
            snib__engine_abandon(c->engine, acq);
            snib__holds_free(&s, h);
        }
        call.err = call_unanswered(&s, &call);
    }
    snib__pump_leave(&s, &call);
    snib__step_end(&s);
    return err ? err : call_outcome(&call, reterr);
}

snib_err snib_release(struct snib_lock *lock, struct snib_grant grant,
                      struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    snib_err err = snib__client_check(c, reterr);
    if (!err) {
        err = snib__may_block(c, reterr);
    }
    return err ? err : call_release(lock, grant, c->request, reterr);
}

snib_err snib__release_within(struct snib_lock *lock, struct snib_grant grant,
                              int64_t ns, struct snib_error *reterr)
{
    return call_release(lock, grant, (snib_duration){ns}, reterr);
}

/* -- renew ----------------------------------------------------------------- */

static void call_forget_renewer(struct snib_client *c, struct snib__call *call)
{
    struct snib__acquisition *acq =
        snib__engine_acquisition(c->engine, call->ticket);
    struct snib__hold *h = acq ? acq->user : NULL;
    struct snib__call **p = h ? &h->renewers : NULL;
    while (p && *p && *p != call) {
        p = &(*p)->next;
    }
    if (p && *p) {
        *p = call->next;
    }
}

snib_err snib_renew(struct snib_lock *lock, struct snib_grant grant,
                    int64_t lease_ms, struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    struct snib__call call;
    struct snib__acquisition *acq;
    uint32_t before[SNIB__CONNS];
    int64_t ms = lease_ms ? lease_ms : lock->o.lease_ms;
    snib_err err = snib__client_check(c, reterr);
    if (!err) {
        err = snib__may_block(c, reterr);
    }
    if (!err) {
        err = call_check_lease(ms, reterr);
    }
    if (err) {
        return err;
    }
    snib__step_begin(&s, c);
    err = c->stopped ? snib__fail_plain(reterr, SNIB_ERR_CLOSED)
                     : snib__grant_check(lock, grant, reterr);
    if (err) {
        snib__step_end(&s);
        return err;
    }
    snib__pump_mark(c, before);
    snib__call_begin(&s, &call, SNIB__CALL_RENEW,
                     snib__after(s.now, c->request));
    err = snib__engine_renew(c->engine, s.now, grant.ticket, snib__ms(ms), &acq,
                             reterr);
    if (!err && acq->user) {
        struct snib__hold *h = acq->user;
        call.ticket = grant.ticket;
        call.next = h->renewers;
        h->renewers = &call;
        if (!snib__call_wait(&s, &call, before)) {
            call_forget_renewer(c, &call);
            call.err = call_unanswered(&s, &call);
        }
    }
    snib__pump_leave(&s, &call);
    snib__step_end(&s);
    return err ? err : call_outcome(&call, reterr);
}

/* -- queries --------------------------------------------------------------- */

/* The answer to the direct request answers this call. The engine forgets it
 * before the call returns. */
static void call_tie(struct snib__direct *q, struct snib__call *call)
{
    q->user = call;
    call->direct = q;
}

/* The error of a direct request without an answer at its limit. A request that
 * only asks was surely not applied, so it is UNREACHABLE and never UNKNOWN. */
static snib_err call_unanswered_direct(const struct snib__step *s,
                                       const struct snib__direct *q,
                                       struct snib__call *call)
{
    struct snib__store_state is;
    if (snib__verb_changes(q->verb, q->op)) {
        return call_unanswered(s, call);
    }
    snib__engine_store_state(s->c->engine, s->now, &is);
    bool away = !is.reachable && is.err;
    return snib__fail(&call->error, SNIB_ERR_UNREACHABLE,
                      "the store did not answer in time%s%s", away ? ": " : "",
                      away ? is.text : "");
}

snib_err snib__run_direct(struct snib_client *c, struct snib__direct *q,
                          struct snib_error *reterr)
{
    struct snib__step s;
    struct snib__call call;
    uint32_t before[SNIB__CONNS];
    snib_err err = snib__client_check(c, reterr);
    if (!err) {
        err = snib__may_block(c, reterr);
    }
    if (err) {
        return err;
    }
    snib__step_begin(&s, c);
    if (c->closed) {
        snib__step_end(&s);
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    snib__pump_mark(c, before);
    snib__call_begin(&s, &call, SNIB__CALL_DIRECT,
                     snib__sooner(q->limit, snib__after(s.now, c->request)));
    q->limit = call.limit;
    call_tie(q, &call);
    err = snib__engine_direct(c->engine, s.now, q);
    if (err) {
        call.err = err;
        call.error = q->error;
    } else {
        if (!snib__call_wait(&s, &call, before)) {
            snib__engine_direct_leave(c->engine, q);
            call.err = call_unanswered_direct(&s, q, &call);
        } else if (q->done) {
            call.error = q->error;
        }
    }
    snib__pump_leave(&s, &call);
    snib__step_end(&s);
    return call_outcome(&call, reterr);
}

/* A quorum answers when a majority has confirmed an end. The other servers have
 * been asked, too. But if a server has no connection yet, nobody would carry
 * the request to it any more, and the grant would stay there until its lease is
 * over. So stop waits that long for them. */
enum { TOLD_MS = 250 };

void snib__wait_told(struct snib__step *s)
{
    struct snib__call call;
    struct snib__store_state store;
    snib__engine_store_state(s->c->engine, s->now, &store);
    if (store.behind) {
        snib__call_begin(s, &call, SNIB__CALL_TOLD,
                         snib__after(s->now, snib__ms(TOLD_MS)));
        snib__call_wait(s, &call, NULL);
        snib__pump_leave(s, &call);
    }
}

/* -- for stop: wait until nothing is under way ----------------------------- */

void snib__wait_idle(struct snib__step *s)
{
    struct snib_client *c = s->c;
    struct snib__counts was, is;
    struct snib__store_state store;
    struct snib__call call;
    snib__engine_counts(c->engine, &was);
    while (!snib__engine_idle(c->engine)) {
        snib__call_begin(s, &call, SNIB__CALL_IDLE,
                         snib__after(s->now, c->request));
        bool idle = snib__call_wait(s, &call, NULL);
        snib__pump_leave(s, &call);
        snib__engine_counts(c->engine, &is);
        snib__engine_store_state(c->engine, s->now, &store);
        if (idle || is.requests >= was.requests || !store.reachable) {
            return; /* all done, or nothing answered in request_ms */
        }
        was = is;
    }
}
