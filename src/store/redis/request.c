/* store/redis/request.c — requests while the store owns them, and the
 * connections that they fly on.
 *
 * A reply belongs to the oldest flight of its connection; no reply is ever
 * skipped. A request is unsent, in flight, waiting (queue.c), or due for a
 * retry; whatever it is, it ends here, by its one final answer. The functions
 * of this file send nothing, and call none of the files that do. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/redis/inspect_i.h"

#define CLOCK_TOP (INT64_C(1) << 53)

/* -- flights --------------------------------------------------------------- */

static struct flight *request_flight(struct session *l, uint32_t i)
{
    return &l->ring[(l->head + i) & (l->cap - 1)];
}

static bool request_grow(struct session *l)
{
    uint32_t cap = l->cap ? 2 * l->cap : 16;
    struct flight *ring = snib__alloc(cap * sizeof *ring);
    if (!ring) {
        return false;
    }
    for (uint32_t i = 0; i < l->count; i++) {
        ring[i] = *request_flight(l, i);
    }
    snib__free(l->ring);
    l->ring = ring;
    l->cap = cap;
    l->head = 0;
    return true;
}

bool snib__session_fits(struct snib__redis *s, int i, uint32_t flights)
{
    struct session *l = &s->session[i];
    const struct snib__buf *out = &s->out->conn[i]->out;
    flights += s->replicas ? 3 : 0; /* confirm.c */
    if (l->count + flights > FLIGHTS_MAX || out->failed ||
        snib__buf_size(out) + OUT_SPARE > out->limit) {
        return false;
    }
    while (l->count + flights > l->cap) {
        if (!request_grow(l)) {
            return false;
        }
    }
    return true;
}

/* While replicas are waited for, what is sent would wait there, too, and
 * without others. */
bool snib__session_has_room(struct snib__redis *s, int i, uint32_t flights)
{
    return !s->session[i].confirm.left && snib__session_fits(s, i, flights);
}

/* May others wait for its answer (packet.c)? */
static bool request_is_bundled(const struct flight *f)
{
    return f->job == JOB_REQUEST &&
           (f->till || f->script == SNIB__SCRIPT_DROP + 1);
}

/* Allowed only after snib__session_has_room was true. */
void snib__session_push(struct snib__redis *s, int i, const struct flight *f)
{
    struct session *l = &s->session[i];
    struct flight *new = request_flight(l, l->count++);
    *new = *f;
    new->number = ++l->number;
    if (f->last) {
        s->out->conn[i]->awaited++;
    }
    if (request_is_bundled(f)) {
        l->bundled++;
        l->bundle_sent = f->sent;
        l->bundles += f->last;
    }
}

void snib__inspect_flight(struct snib__redis *s, snib_instant now, int i,
                          struct inspection *k, int script)
{
    bool marked =
        script == SNIB__SCRIPT_INSPECT && snib__inspect_shows(s, k->rq);
    k->awaited++;
    snib__session_push(s, i,
                       &(struct flight){.rq = k->rq,
                                        .sent = now,
                                        .job = JOB_REQUEST,
                                        .script = (uint8_t)(script + 1),
                                        .verb = (uint8_t)k->rq->verb,
                                        .marked = marked,
                                        .last = true});
}

bool snib__session_pop(struct session *l, struct flight *ret)
{
    if (!l->count) {
        return false;
    }
    *ret = *request_flight(l, 0);
    l->head = (l->head + 1) & (l->cap - 1);
    l->overdue = (snib_instant){0};
    l->count--;
    if (request_is_bundled(ret)) {
        l->bundled--;
        l->bundles -= ret->last;
    }
    return true;
}

/* -- going out ------------------------------------------------------------- */

void snib__fly_limit(struct snib__redis *s, struct snib__request *rq)
{
    snib__heap_set(&s->timers, &rq->store.timer, rq->limit);
}

void snib__fly_number(struct snib__redis *s, snib_instant now,
                      struct snib__request *rq)
{
    uint32_t *sends = s->slots ? &s->slots->sends : &s->sends;
    if (++*sends == 0) {
        *sends = 1;
    }
    rq->store.sends[1] = rq->store.sends[0];
    rq->store.sends[0].number = *sends;
    rq->store.sends[0].sent = now;
    int64_t late = snib__encode_not_after(s, now, SEND_LIVES_MS);
    rq->late = late > rq->late ? late : rq->late;
}

bool snib__fly_must_load(const struct snib__redis *s, int i,
                         enum snib__script script)
{
    return s->session[i].loaded[script] == MUST_LOAD;
}

static void request_fly(struct snib__redis *s, snib_instant now, int i,
                        struct snib__request *rq, struct flight f)
{
    f.rq = rq;
    f.id[0] = rq->id[0];
    f.id[1] = rq->id[1];
    f.sent = now;
    f.job = JOB_REQUEST;
    f.verb = (uint8_t)rq->verb;
    f.marked = snib__redis_marks(s, rq);
    if (s->replicas && snib__confirm_wanted(rq)) {
        s->session[i].confirm.due = true;
    }
    if (rq->store.where & M_UNSENT) {
        snib__unlink(&rq->link);
    }
    snib__request_set_where(rq, M_FLIGHT | i, M_UNSENT | M_RETRY | M_CONN);
    snib__fly_limit(s, rq);
    snib__session_push(s, i, &f);
}

void snib__fly_packet(struct snib__redis *s, snib_instant now, int i,
                      struct snib__request *rq, int64_t till, bool last)
{
    request_fly(s, now, i, rq, (struct flight){.till = till, .last = last});
}

void snib__fly(struct snib__redis *s, snib_instant now, int i,
               struct snib__request *rq, enum snib__script script, bool last)
{
    struct session *l = &s->session[i];
    request_fly(s, now, i, rq,
                (struct flight){.script = (uint8_t)(script + 1), .last = last});
    if (l->loaded[script] == MUST_LOAD && last) {
        struct session *other =
            &s->session[i == CALLERS ? BACKGROUND : CALLERS];
        l->loaded[script] = l->number;
        if (other->loaded[script] == MUST_LOAD) {
            other->loaded[script] = 0; /* sending the text once is enough */
        }
    }
}

/* -- what is under way ----------------------------------------------------- */

/* The request has ended; nobody takes its replies any more. */
void snib__session_forget(struct snib__redis *s, const struct snib__request *rq)
{
    for (int i = 0; i < SESSIONS; i++) {
        for (uint32_t k = 0; k < s->session[i].count; k++) {
            struct flight *f = request_flight(&s->session[i], k);
            if (f->rq == rq) {
                f->rq = NULL;
            }
        }
    }
}

void snib__session_overtaken(struct snib__redis *s,
                             const struct snib__request *rq,
                             int64_t push_end_ms)
{
    for (int i = 0; i < SUBS; i++) {
        for (uint32_t k = 0; k < s->session[i].count; k++) {
            struct flight *f = request_flight(&s->session[i], k);
            if (f->job == JOB_REQUEST && f->verb == SNIB__ACQUIRE &&
                f->id[0] == rq->id[0] && f->id[1] == rq->id[1] && !f->safe) {
                f->delivered = rq->token;
                f->push_end_ms = push_end_ms;
                f->safe = snib__memdup(rq->name->safe, rq->name->safe_size);
            }
        }
    }
}

/* Is an ACQUIRE of this id, or a KEEP, still on its way? Then the server may
 * execute it after a release that goes out on the other connection. */
bool snib__session_copy_due(struct snib__redis *s, const uint64_t id[2])
{
    for (int i = 0; i < SUBS; i++) {
        for (uint32_t k = 0; k < s->session[i].count; k++) {
            const struct flight *f = request_flight(&s->session[i], k);
            if (f->job == JOB_REQUEST &&
                (f->verb == SNIB__ACQUIRE ||
                 f->script == SNIB__SCRIPT_KEEP + 1) &&
                f->id[0] == id[0] && f->id[1] == id[1]) {
                return true;
            }
        }
    }
    return false;
}

bool snib__request_leaves_tombstone(struct snib__redis *s, snib_instant now,
                                    const struct snib__request *rq)
{
    return rq->resent || now.ns < s->copies_until.ns ||
           snib__session_copy_due(s, rq->id);
}

const struct session *snib__session_first(const struct snib__redis *s)
{
    const struct session *watch = &s->session[WATCH];
    bool asks =
        s->topology && !s->topology->known && !snib__session_up(s, CALLERS);
    return asks && (watch->err || !s->session[CALLERS].err)
               ? watch
               : &s->session[CALLERS];
}

/* Where it leads: the address of a connection never changes while it is open. */
static void request_lead(struct snib__redis *s, int i)
{
    const struct topology *t = s->topology;
    if (t) {
        snprintf(s->out->conn[i]->address, sizeof s->out->conn[i]->address,
                 "%s", i == WATCH ? t->node[t->at].address : t->primary);
    }
}

void snib__session_want(struct snib__redis *s, snib_instant now, int i)
{
    i = s->topology && !s->topology->known ? WATCH : i;
    struct session *l = &s->session[i];
    if (l->state != SESSION_DOWN &&
        (l->state != SESSION_RESTING || !snib__reached(now, l->rest_until))) {
        return;
    }
    request_lead(s, i);
    l->state = SESSION_OPENING;
    l->since = now;
    if (!s->state.wanted.ns) {
        s->state.wanted = now;
    }
    s->out->conn[i]->open = true;
}

/* The reply was made before it was read, so the estimate server_ms + (now -
 * server_at) is never ahead of the server's clock, and not_after = estimate +
 * 9.9 s is never more than 10 s ahead of it. A clock that no server can show is
 * not believed. */
void snib__server_time(struct snib__redis *s, snib_instant now, int64_t ms)
{
    if (ms > 0 && ms < CLOCK_TOP) {
        s->server_ms = ms;
        s->server_at = now;
    }
}

/* -- acquires, found by their id ------------------------------------------- */

static struct snib__list *request_bucket(struct snib__redis *s,
                                         const uint64_t id[2])
{
    return &s->acquires[id[0] % BUCKETS];
}

static struct snib__request *request_of_own(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__request, store.link);
}

struct snib__request *snib__request_find(struct snib__redis *s,
                                         const uint64_t id[2])
{
    SNIB__LIST_EACH (l, request_bucket(s, id)) {
        struct snib__request *rq = request_of_own(l);
        if (rq->id[0] == id[0] && rq->id[1] == id[1]) {
            return rq;
        }
    }
    return NULL;
}

void snib__request_put(struct snib__redis *s, struct snib__request *rq)
{
    snib__list_push(request_bucket(s, rq->id), &rq->store.link);
}

void snib__request_waits_no_more(struct snib__redis *s,
                                 struct snib__request *rq)
{
    s->queued -= (rq->store.where & M_QUEUED) != 0;
    s->to_queue -= (rq->store.where & M_TO_QUEUE) != 0;
    snib__request_set_where(rq, 0, M_QUEUED | M_TO_QUEUE);
}

void snib__request_remember_end(struct snib__redis *s, const uint64_t id[2])
{
    uint64_t *slot = s->ended_ids[s->ended_ids_at++ % ENDED_IDS];
    slot[0] = id[0];
    slot[1] = id[1];
}

/* -- ends ------------------------------------------------------------------ */

void snib__request_finish(struct snib__redis *s, struct snib__request *rq,
                          snib__answer answer)
{
    if (rq->store.where & M_UNSENT) {
        snib__unlink(&rq->link);
    }
    if (rq->store.where & M_FLIGHT) {
        snib__session_forget(s, rq);
    }
    snib__request_waits_no_more(s, rq);
    if (snib__redis_inspects(rq)) {
        snib__inspection_end(s, rq);
    }
    snib__unlink(&rq->store.link);
    snib__heap_remove(&s->timers, &rq->store.timer);
    rq->store.where &= M_CONN;
    rq->said.answer = answer;
    if (answer == SNIB__DONE || answer == SNIB__NO) {
        rq->store.misread = 0;
        rq->store.unconfirmed = false;
    }
    s->owned--;
    if (!snib__linked(&rq->link)) { /* else: answered QUEUED in this step   */
        snib__list_push(&s->out->answered, &rq->link);
    }
}

void snib__request_fail(struct snib__redis *s, struct snib__request *rq,
                        snib__answer answer, snib_err err, const char *text)
{
    rq->said.err = err;
    if (text && *text) {
        snib__fail(rq->said.reterr, err, "%s", text);
    } else {
        snib__fail_plain(rq->said.reterr, err);
    }
    if (rq->verb == SNIB__DOCTOR && rq->said.result) {
        snib__doctor_failed(rq, err, text);
    }
    snib__request_finish(s, rq, answer);
}

void snib__request_misread(struct snib__redis *s, struct snib__request *rq)
{
    snib__request_fail(s, rq, SNIB__UNKNOWN, SNIB_ERR_STORE, SNIB__MISREAD);
}

static void request_fail_list(struct snib__redis *s, struct snib__list *unsent,
                              snib_err err, const char *text)
{
    SNIB__LIST_EACH_SAFE (l, next, unsent) {
        snib__request_fail(s, SNIB__CONTAINER(l, struct snib__request, link),
                           SNIB__NOT_APPLIED, err, text);
    }
}

/* Those that wait in one of these ways. Where a reply is due, it decides. */
static void request_fail_where(struct snib__redis *s, int ways, snib_err err,
                               const char *text)
{
    for (int k = 0; k < BUCKETS && s->queued + s->to_queue > 0; k++) {
        SNIB__LIST_EACH_SAFE (l, next, &s->acquires[k]) {
            struct snib__request *rq = request_of_own(l);
            if ((rq->store.where & ways) && !(rq->store.where & M_FLIGHT)) {
                snib__request_fail(s, rq, SNIB__NOT_APPLIED, err, text);
            }
        }
    }
}

void snib__request_fail_unsent(struct snib__redis *s, snib_err err,
                               const char *text)
{
    request_fail_list(s, &s->unsent[0], err, text);
    request_fail_list(s, &s->unsent[1], err, text);
}

void snib__request_fail_to_queue(struct snib__redis *s, snib_err err,
                                 const char *text)
{
    request_fail_where(s, M_TO_QUEUE, err, text);
}

void snib__request_fail_callers(struct snib__redis *s, snib_err err,
                                const char *text)
{
    if (!snib__session_up(s, CALLERS) && !snib__session_up(s, BACKGROUND)) {
        request_fail_list(s, &s->unsent[0], err, text);
        request_fail_where(s, M_QUEUED | M_TO_QUEUE, err, text);
    }
}

void snib__request_fail_once(struct snib__redis *s, snib_err err,
                             const char *text)
{
    SNIB__LIST_EACH_SAFE (l, next, &s->unsent[0]) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (rq->once && !rq->resent) {
            snib__request_fail(s, rq, SNIB__NOT_APPLIED, err, text);
        }
    }
}

/* -- repeats --------------------------------------------------------------- */

/* After that time a waiting request polls; any other becomes unsent again. */
void snib__request_later(struct snib__redis *s, snib_instant now,
                         struct snib__request *rq, int64_t ms)
{
    snib__request_set_where(
        rq, rq->store.where & (M_QUEUED | M_TO_QUEUE) ? 0 : M_RETRY, M_FLIGHT);
    snib__heap_set(&s->timers, &rq->store.timer,
                   snib__sooner(rq->limit, snib__after(now, snib__ms(ms))));
}
