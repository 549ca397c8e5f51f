/* store/zookeeper/step.c — requests on their way: each is a step, which makes one
 * call after the other until it has its answer.
 *
 * A step that has changed nothing begins anew when a connection is lost. One that
 * may have is UNKNOWN: the core repeats it, and the repeat looks first. */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/zookeeper/zookeeper_i.h"

enum { STEP_TRIES = 32, STEP_PAUSE_MS = 20, STEP_NAMES = 4 << 20 };

static struct zoo_step *step_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct zoo_step, link);
}

/* -- made and freed -------------------------------------------------------- */

static struct zoo_step *step_new(void)
{
    struct zoo_step *k = snib__alloc(sizeof *k);
    if (k) {
        snib__link_init(&k->call.link);
        snib__link_init(&k->look.link);
        snib__link_init(&k->link);
        snib__buf_init(&k->names, STEP_NAMES);
    }
    return k;
}

static void step_free(struct snib__zoo *z, struct zoo_step *k)
{
    snib__unlink(&k->link);
    snib__unlink(&k->call.link);
    snib__unlink(&k->look.link);
    snib__heap_remove(&z->timers, &k->timer);
    snib__zoo_view_free(&k->view);
    snib__buf_free(&k->names);
    snib__free(k);
    z->made--;
}

void snib__zoo_steps_free(struct snib__zoo *z)
{
    struct snib__list *lists[] = {&z->steps, &z->behind[0], &z->behind[1]};
    for (int i = 0; i < 1 + SNIB__SESSIONS; i++) {
        while (!snib__list_empty(lists[i])) {
            step_free(z, step_of(snib__list_first(lists[i])));
        }
    }
}

static bool step_ends(const struct snib__request *r)
{
    return r->verb == SNIB__RELEASE || r->verb == SNIB__CANCEL;
}

static void step_phase(struct snib__zoo *z, struct zoo_step *k, zoo_phase phase)
{
    snib_instant limit = step_ends(k->r)
                             ? k->until
                             : snib__sooner(k->until, k->r->exec.patience);
    k->phase = phase;
    snib__heap_set(&z->timers, &k->timer,
                   phase == ZOO_ASKS ? SNIB__NEVER : limit);
}

/* -- over ------------------------------------------------------------------ */

/* No call of it is under way. */
void snib__zoo_step_over(struct snib__zoo *z, struct zoo_step *k)
{
    if (k->phase != ZOO_BEHIND) {
        z->under_way--;
    }
    snib__list_push(&z->requests.executed, &k->r->link);
    step_free(z, k);
}

void snib__zoo_step_answer(struct snib__zoo *z, struct zoo_step *k,
                           snib__answer answer, snib_err err, const char *text)
{
    struct snib__request *r = k->r;
    r->said.answer = answer;
    r->said.err = !err   ? snib__ok(r->said.reterr)
                  : text ? snib__fail(r->said.reterr, err, "%s", text)
                         : snib__fail_plain(r->said.reterr, err);
    snib__zoo_step_over(z, k);
}

static bool step_may_be_there(const struct snib__zoo *z,
                              const struct zoo_claim *c)
{
    return c && (c->unproved || c->number == z->session.number);
}

/* Has it made anything that may be there still? */
static bool step_is_there(struct snib__zoo *z, const struct snib__request *r)
{
    const struct zoo_claim *c =
        r->verb == SNIB__ACQUIRE ? snib__zoo_claim_find(z, r->id) : NULL;
    return step_may_be_there(z, c);
}

/* A release or a cancel that has something to end is done however late, as nobody
 * asks for it any more by then: what stands would stand for as long as this client
 * keeps its session. */
static bool step_must_end(struct snib__zoo *z, snib_instant now,
                          const struct snib__request *r)
{
    const struct zoo_claim *c =
        step_ends(r) ? snib__zoo_claim_find(z, r->id) : NULL;
    return step_may_be_there(z, c) && snib__reached(now, r->exec.patience);
}

/* A caller who tries once, and a renewal, hear of the first failure. What may be
 * there is never given back as if nothing had come of it (PENDING): the core would
 * take it for unsent at its limit, and cancel it without asking. */
static void step_in_vain(struct snib__zoo *z, snib_instant now,
                         struct zoo_step *k, bool refused, bool blocked,
                         snib_err err, const char *text)
{
    struct snib__request *r = k->r;
    bool late = snib__reached(now, r->limit); /* others may have joined it */
    bool hears = !blocked && (r->exec.impatient || r->verb == SNIB__RENEW);
    snib__answer answer = step_is_there(z, r)        ? SNIB__UNKNOWN
                          : late || hears || refused ? SNIB__NOT_APPLIED
                                                     : SNIB__PENDING;
    if (!refused && step_must_end(z, now, r)) {
        k->until = snib__after(now, z->request);
        step_phase(z, k, k->phase == ZOO_BEHIND ? ZOO_BEHIND : ZOO_WAITS);
        return;
    }
    r->exec.blocked = blocked;
    snib__zoo_step_answer(z, k, answer, err, text);
}

static void step_lost(struct snib__zoo *z, snib_instant now, struct zoo_step *k)
{
    if (step_must_end(z, now, k->r)) {
        k->r->resent = true; /* it looks */
        snib__zoo_step_again(z, now, k);
    } else {
        snib__zoo_step_answer(z, k, SNIB__UNKNOWN, SNIB_ERR_UNKNOWN, NULL);
    }
}

void snib__zoo_step_failed(struct snib__zoo *z, snib_instant now,
                           struct zoo_step *k, const struct zoo_reply *reply,
                           const char *path)
{
    char text[ZOO_TEXT];
    switch (reply->end) {
    case ZOO_OK: /* it is no answer to what was asked */
        snib__zoo_leave(
            z, &(struct zoo_leave){.text = "the answer is not ZooKeeper's"});
        step_lost(z, now, k);
        return;
    case ZOO_LOST:
        step_lost(z, now, k);
        return;
    case ZOO_AGAIN:
        if (snib__zoo_is_ready(&z->session)) { /* the server is busy */
            step_in_vain(z, now, k, false, true, reply->err, reply->text);
        } else if (!reply->over &&
                   (k->r->verb == SNIB__RENEW || k->r->exec.impatient)) {
            step_in_vain(z, now, k, false, false, reply->err, reply->text);
        } else {
            snib__zoo_step_again(z, now, k);
        }
        return;
    case ZOO_SAYS:
        break;
    }
    snib_err err = snib__zoo_words(z, reply->zk, path, text, sizeof text);
    if (k->work->give_up && !k->why && step_is_there(z, k->r) &&
        snib__zoo_is_ready(&z->session)) {
        k->work->give_up(z, now, k, err, text);
    } else {
        step_in_vain(z, now, k, true, false, err, text);
    }
}

/* -- running --------------------------------------------------------------- */

void snib__zoo_step_again(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k)
{
    if (++k->tries > STEP_TRIES) {
        step_in_vain(z, now, k, false, true, SNIB_ERR_UNREACHABLE,
                     "others have changed this lock again and again meanwhile");
        return;
    }
    step_phase(z, k, ZOO_WAITS);
    if (snib__zoo_is_ready(&z->session)) {
        k->work->begin(z, now, k);
    }
}

void snib__zoo_step_pause(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k)
{
    k->phase = ZOO_PAUSES;
    snib__heap_set(&z->timers, &k->timer,
                   snib__after(now, snib__ms(STEP_PAUSE_MS)));
}

void snib__zoo_step_ask(struct snib__zoo *z, struct zoo_step *k, int32_t op,
                        zoo_done *done)
{
    snib__zoo_call_begin(z, &k->call, op, done);
}

void snib__zoo_step_send(struct snib__zoo *z, snib_instant now,
                         struct zoo_step *k, bool changes)
{
    k->call.changes = changes;
    step_phase(z, k, ZOO_ASKS);
    snib__zoo_call_end(z, now, &k->call);
}

void snib__zoo_step_fence(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k)
{
    step_phase(z, k, ZOO_FENCED);
    snib__zoo_fence_begin(z, now);
}

/* Renewals are never behind callers: some room is kept for the background. */
static void step_let_in(struct snib__zoo *z, snib_instant now,
                        snib__session session)
{
    uint32_t kept = session == SNIB__SESSION_CALLERS ? ZOO_STEPS_KEPT : 0;
    SNIB__LIST_EACH_SAFE (l, next, &z->behind[session]) {
        struct zoo_step *k = step_of(l);
        if (z->under_way + kept >= ZOO_STEPS) {
            break;
        }
        snib__unlink(&k->link);
        snib__list_push(&z->steps, &k->link);
        z->under_way++;
        k->until = snib__after(now, z->request);
        step_phase(z, k, ZOO_WAITS);
    }
}

void snib__zoo_steps_begin(struct snib__zoo *z, snib_instant now)
{
    step_let_in(z, now, SNIB__SESSION_BACKGROUND);
    step_let_in(z, now, SNIB__SESSION_CALLERS);
    SNIB__LIST_EACH_SAFE (l, next, &z->steps) {
        struct zoo_step *k = step_of(l);
        if (k->phase == ZOO_FENCED && !z->fence.asked) {
            step_phase(z, k,
                       ZOO_WAITS); /* the fence is there, or was in vain */
        }
        if (k->phase == ZOO_WAITS && snib__zoo_is_ready(&z->session)) {
            k->work->begin(z, now, k);
        }
    }
}

void snib__zoo_steps_in_vain(struct snib__zoo *z, snib_instant now)
{
    struct snib__list *lists[] = {&z->steps, &z->behind[0], &z->behind[1]};
    struct zoo_session *s = &z->session;
    bool refused = s->refuses;
    s->in_vain = false;
    for (int i = 0; i < 1 + SNIB__SESSIONS; i++) {
        SNIB__LIST_EACH_SAFE (l, next, lists[i]) {
            if (step_of(l)->phase != ZOO_ASKS) {
                bool ends = step_must_end(z, now, step_of(l)->r);
                step_in_vain(z, now, step_of(l), refused && !ends, false,
                             s->err, s->text);
            }
        }
    }
}

/* Its limit has come while it was on its way to the queue of a server that
 * answers. */
static bool step_is_late(struct snib__zoo *z, snib_instant now,
                         const struct snib__request *r)
{
    return r->verb == SNIB__ACQUIRE && r->acquire.may_queue &&
           snib__zoo_is_ready(&z->session) &&
           snib__reached(now, r->exec.patience) && !step_is_there(z, r);
}

/* Its time is over, and nobody has said why. */
static void step_silence(struct snib__zoo *z, snib_instant now,
                         struct zoo_step *k)
{
    char text[ZOO_TEXT];
    if (step_is_late(z, now, k->r)) {
        snib__zoo_step_answer(z, k, SNIB__NO, SNIB_ERR_BUSY, NULL);
        return;
    }
    snprintf(text, sizeof text, "no %s %.*s within the time allowed",
             z->session.state == ZOO_LOGIN ? "login of the program's for"
                                           : "answer from",
             ZOO_ADDRESS, z->out->conn[z->session.at]->address);
    step_in_vain(z, now, k, false, snib__zoo_is_ready(&z->session),
                 SNIB_ERR_UNREACHABLE,
                 z->session.text[0] ? z->session.text : text);
}

void snib__zoo_steps_tick(struct snib__zoo *z, snib_instant now)
{
    struct snib__timer *t;
    while ((t = snib__heap_min(&z->timers)) && snib__reached(now, t->at)) {
        struct zoo_step *k = SNIB__CONTAINER(t, struct zoo_step, timer);
        if (k->phase == ZOO_PAUSES) {
            snib__zoo_step_again(z, now, k);
            continue;
        }
        if (k->phase == ZOO_BEHIND && snib__zoo_is_ready(&z->session)) {
            k->until = snib__after(now, z->request); /* others get on */
            step_phase(z, k, ZOO_BEHIND);
            if (snib__reached(now, k->timer.at)) {
                step_in_vain(z, now, k, false, false, SNIB_ERR_UNREACHABLE,
                             "too much else is under way");
            }
            continue;
        }
        step_silence(z, now, k);
    }
}

/* -- taken ----------------------------------------------------------------- */

static const struct zoo_work *step_work(const struct snib__request *r)
{
    switch (r->verb) {
    case SNIB__ACQUIRE:
        return &snib__zoo_acquire_work;
    case SNIB__RENEW:
        return &snib__zoo_renew_work;
    case SNIB__RELEASE:
    case SNIB__CANCEL:
        return &snib__zoo_end_work;
    case SNIB__INSPECT:
    case SNIB__LIST:
        return &snib__zoo_look_work;
    case SNIB__DOCTOR:
        return &snib__zoo_doctor_work;
    case SNIB__FORCE:
    case SNIB__PARAMS:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY: /* never asked */
        break;
    }
    return NULL;
}

/* What ZooKeeper does not have here, as a text; NULL: it has that. */
static const char *step_lacks(const struct snib__zoo *z,
                              const struct snib__request *r)
{
    const struct snib__request_acquire *a = &r->acquire;
    bool acquires = r->verb == SNIB__ACQUIRE;
    bool reads = acquires && a->kind == SNIB_KIND_READ;
    if (acquires && z->mutexes && a->kind != SNIB_KIND_MUTEX) {
        return "zookeeper: dialect=curator-mutex has mutexes only; leave it "
               "out, or write dialect=curator-rw, for readers and writers";
    }
    if (acquires && !reads && a->kind != SNIB_KIND_MUTEX &&
        a->kind != SNIB_KIND_WRITE) {
        return "zookeeper: has mutexes and read/write locks only";
    }
    if (acquires && a->delay.ns > 0) {
        return "zookeeper: keeps no lock-delay; leave it out";
    }
    if (acquires && a->priority) {
        return "zookeeper: serves in the order of arrival; it has no "
               "priorities";
    }
    if (acquires && !reads && (a->upgrade_of[0] || a->upgrade_of[1])) {
        return "zookeeper: a reader cannot become the writer; release the "
               "read lock first";
    }
    if (r->verb == SNIB__FORCE) {
        return "zookeeper: no forced release; by hand, zkCli.sh delete on the "
               "holder's record (=held-…) and then on its node "
               "(docs/ZOOKEEPER.md, \"By hand\")";
    }
    return step_work(r) ? NULL
                        : "zookeeper: has mutexes and read/write locks only, "
                          "no semaphores, latches or values";
}

static void step_refuse(struct snib__zoo *z, struct snib__request *r,
                        snib_err err, const char *text)
{
    r->said.answer = SNIB__NOT_APPLIED;
    r->said.err = text ? snib__fail(r->said.reterr, err, "%s", text)
                       : snib__fail_plain(r->said.reterr, err);
    snib__list_push(&z->requests.executed, &r->link);
}

static void step_make(struct snib__zoo *z, snib_instant now,
                      struct snib__request *r)
{
    const char *lacks = step_lacks(z, r);
    struct zoo_step *k = NULL;
    if (lacks) {
        step_refuse(z, r, SNIB_ERR_UNSUPPORTED, lacks);
        return;
    }
    if (!snib__heap_reserve(&z->timers, z->made + 1) || !(k = step_new())) {
        step_refuse(z, r, SNIB_ERR_NOMEM, NULL);
        return;
    }
    z->made++;
    k->work = step_work(r);
    k->r = r;
    k->view.mutexes = z->mutexes;
    k->until = snib__after(now, z->request);
    snib__list_push(&z->behind[r->background ? SNIB__SESSION_BACKGROUND
                                             : SNIB__SESSION_CALLERS],
                    &k->link);
    step_phase(z, k, ZOO_BEHIND);
}

void snib__zoo_steps_take(struct snib__zoo *z, snib_instant now)
{
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        struct snib__list chain;
        struct snib__link *l;
        snib__list_init(&chain);
        while (snib__blocking_waits(z->requests.table, (snib__session)i)) {
            snib__blocking_take(z->requests.table, now, (snib__session)i,
                                &chain);
            snib__blocking_returned(z->requests.table, (snib__session)i);
            while ((l = snib__list_pop(&chain))) {
                step_make(z, now,
                          SNIB__CONTAINER(l, struct snib__request, link));
            }
        }
    }
}
