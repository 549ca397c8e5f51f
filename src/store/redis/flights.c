/* store/redis/flights.c — connections: what is awaited on them, and their end.
 *
 * A reply belongs to the oldest flight of its connection; no reply is ever
 * skipped. So a connection may be cut at any time: every request awaited on it
 * is then answered UNKNOWN at once, and the core repeats or cancels it by id.
 * A slow server is cut off only for silence, that is, when the oldest awaited
 * reply is older than the client's patience. The limit of a caller who does
 * not want to wait so long never closes a connection. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/redis/redis_i.h"

static struct flight *flights_at(struct session *l, uint32_t i)
{
    return &l->ring[(l->head + i) & (l->cap - 1)];
}

static bool flights_grow(struct session *l)
{
    uint32_t cap = l->cap ? 2 * l->cap : 16;
    struct flight *ring = snib__alloc(cap * sizeof *ring);
    if (!ring) {
        return false;
    }
    for (uint32_t i = 0; i < l->count; i++) {
        ring[i] = *flights_at(l, i);
    }
    snib__free(l->ring);
    l->ring = ring;
    l->cap = cap;
    l->head = 0;
    return true;
}

bool snib__session_has_room(struct snib__redis *s, int i, uint32_t flights)
{
    struct session *l = &s->session[i];
    const struct snib__buf *out = &s->out->conn[i].out;
    if (l->count + flights > FLIGHTS_MAX || out->failed ||
        snib__buf_size(out) + OUT_SPARE > out->limit) {
        return false;
    }
    while (l->count + flights > l->cap) {
        if (!flights_grow(l)) {
            return false;
        }
    }
    return true;
}

/* Allowed only after snib__session_has_room was true. */
void snib__session_push(struct snib__redis *s, int i, const struct flight *f)
{
    struct session *l = &s->session[i];
    struct flight *new = flights_at(l, l->count++);
    *new = *f;
    new->number = ++l->number;
    if (f->last) {
        s->out->conn[i].awaited++;
    }
}

bool snib__session_pop(struct session *l, struct flight *ret)
{
    if (!l->count) {
        return false;
    }
    *ret = *flights_at(l, 0);
    l->head = (l->head + 1) & (l->cap - 1);
    l->overdue = (snib_instant){0};
    l->count--;
    return true;
}

static struct flight *flights_oldest(struct session *l)
{
    return l->count ? flights_at(l, 0) : NULL;
}

/* The request has ended; nobody takes its replies any more. */
void snib__session_forget(struct snib__redis *s, const struct snib__request *rq)
{
    for (int i = 0; i < SESSIONS; i++) {
        for (uint32_t k = 0; k < s->session[i].count; k++) {
            struct flight *f = flights_at(&s->session[i], k);
            if (f->rq == rq) {
                f->rq = NULL;
            }
        }
    }
}

void snib__session_overtaken(struct snib__redis *s,
                             const struct snib__request *rq,
                             int64_t claim_end_ms)
{
    for (int i = 0; i < SUBS; i++) {
        for (uint32_t k = 0; k < s->session[i].count; k++) {
            struct flight *f = flights_at(&s->session[i], k);
            if (f->job == JOB_REQUEST && f->verb == SNIB__ACQUIRE &&
                f->id[0] == rq->id[0] && f->id[1] == rq->id[1] && !f->safe) {
                f->delivered = rq->token;
                f->claim_end_ms = claim_end_ms;
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
            const struct flight *f = flights_at(&s->session[i], k);
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

bool snib__session_wanted(const struct snib__redis *s, int i)
{
    switch (i) {
    case CALLERS:
        return s->owned > 0;
    case BACKGROUND:
        return !snib__list_empty(&s->unsent[1]);
    default:
        break;
    }
    if (s->queued || s->held ||
        ((s->heard || s->out->listens) && s->out->holds)) {
        return true;
    }
    SNIB__LIST_EACH (l, &s->inspections) {
        if (SNIB__CONTAINER(l, struct inspection, link)->waits_subs) {
            return true;
        }
    }
    return false;
}

void snib__session_want(struct snib__redis *s, snib_instant now, int i)
{
    struct session *l = &s->session[i];
    if (l->state != SESSION_DOWN &&
        (l->state != SESSION_RESTING || !snib__reached(now, l->rest_until))) {
        return;
    }
    l->state = SESSION_OPENING;
    l->since = now;
    if (!s->state.wanted.ns) {
        s->state.wanted = now;
    }
    s->out->open |= 1u << i;
}

static snib_duration flights_jitter(struct snib__redis *s, snib_duration d)
{
    uint64_t half = (uint64_t)d.ns / 2;
    return (snib_duration){
        (int64_t)(half + snib__rng_below(&s->rng, half + 1))};
}

static void flights_lost(struct snib__redis *s, snib_instant now,
                         const struct flight *f, const char *text)
{
    if (f->job != JOB_REQUEST) {
        return;
    }
    if (f->verb == SNIB__ACQUIRE || f->script == SNIB__SCRIPT_KEEP + 1) {
        /* Its bytes may still reach the server. So a release of that id leaves
         * a tombstone until the request's not_after has passed. */
        s->copies_until = snib__later(s->copies_until,
                                      snib__after(now, snib__ms(LATE_COPY_MS)));
    }
    if (!f->rq) {
        return;
    }
    snib__request_fail(s, f->rq, SNIB__UNKNOWN, SNIB_ERR_UNKNOWN, text);
}

/* Renewals that wait for a connection get the error that keeps them waiting,
 * so that the holders can be told. */
static void flights_stuck(struct snib__redis *s, snib_err err, const char *text)
{
    if (s->session[BACKGROUND].state == SESSION_READY ||
        s->session[CALLERS].state == SESSION_READY) {
        return;
    }
    SNIB__LIST_EACH (l, &s->unsent[1]) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (rq->verb == SNIB__RENEW) {
            rq->err = snib__fail(rq->reterr, err, "%s", text);
            s->out->stuck = true;
        }
    }
}

void snib__session_cut(struct snib__redis *s, snib_instant now, int i,
                       bool shut, snib_err err, const char *text, bool barred)
{
    struct session *l = &s->session[i];
    struct snib__conn *conn = &s->out->conn[i];
    bool was_ready = l->state == SESSION_READY;
    const struct session *other =
        &s->session[i == BACKGROUND ? CALLERS : BACKGROUND];
    struct flight f;
    if (i != SUBS && (s->owned || s->out->holds) &&
        (was_ready || other->state != SESSION_READY)) {
        snib__state_bad(s, l->count ? flights_oldest(l)->sent : now, err, text);
    }
    l->state = shut ? SESSION_CLOSING : SESSION_RESTING;
    if (shut) {
        s->out->shut |= 1u << i;
    }
    s->out->open &= ~(1u << i);
    l->since = now;
    l->err = err;
    l->barred = barred;
    l->doomed = false;
    snprintf(l->text, sizeof l->text, "%s", text);
    if (was_ready) {
        l->rest = snib__ms(REST_FIRST_MS);
    }
    l->rest_until = snib__after(now, barred ? snib__ms(REST_BARRED_MS)
                                            : flights_jitter(s, l->rest));
    l->rest.ns = l->rest.ns * 2 < REST_MAX_MS * INT64_C(1000000)
                     ? l->rest.ns * 2
                     : REST_MAX_MS * INT64_C(1000000);
    conn->awaited = 0;
    conn->pushes = false;
    snib__buf_clear(&conn->out);
    snib__resp_reset(l->resp);
    memset(l->loaded, 0, sizeof l->loaded);
    if (i == SUBS) {
        /* The server may go on counting the broken connection as a listener.
         * It must not take that for us, so the next connection listens to
         * another channel. */
        s->generation++;
        snib__queue_channel(s);
    }
    for (uint32_t n = l->count; n && snib__session_pop(l, &f); n--) {
        flights_lost(s, now, &f, l->text);
        snib__free(f.safe);
    }
    if (barred && i == SUBS) {
        snib__queue_barred(s, err, l->text);
    } else if (barred && (i == CALLERS || s->session[CALLERS].barred)) {
        snib__request_fail_unsent(s, err, l->text);
        snib__request_fail_callers(s, err, l->text);
    } else {
        flights_stuck(s, err, l->text);
        if (i != SUBS && !was_ready &&
            (other->state < SESSION_OPENING || other->state > SESSION_READY)) {
            snib__request_fail_once(s, err, l->text);
        }
    }
    if (i == SUBS) {
        snib__inspect_subs(s, now);
    }
    if (s->out->log) {
        static const char *const uses[SESSIONS] = {[CALLERS] = "calls",
                                                   [BACKGROUND] = "renewals",
                                                   [SUBS] = "wake-ups"};
        char words[sizeof l->text + 48];
        snprintf(words, sizeof words, "redis: connection for %s lost: %s",
                 uses[i], l->text);
        s->out->log(s->out->log_data, barred ? SNIB_LOG_ERROR : SNIB_LOG_WARN,
                    words);
    }
}

/* These two say when an overdue answer is noticed, and when it closes the
 * connection. A process that stood still may find that both instants have
 * passed while the answer lies unread in its socket. So the server gets a
 * moment more, counted from the step in which we noticed. */
static snib_instant flights_notice_at(const struct snib__redis *s,
                                      const struct session *l)
{
    return snib__after(l->ring[l->head].sent,
                       (snib_duration){s->patience.ns / QUIET_PART});
}

static snib_instant flights_close_at(const struct snib__redis *s,
                                     const struct session *l)
{
    return snib__later(snib__after(l->ring[l->head].sent, s->patience),
                       snib__session_silent_at(s, l));
}

snib_instant snib__session_silent_at(const struct snib__redis *s,
                                     const struct session *l)
{
    return l->overdue.ns
               ? snib__after(l->overdue,
                             (snib_duration){s->patience.ns / MOMENT_PART})
               : SNIB__NEVER;
}

snib_instant snib__session_due(const struct snib__redis *s, int i)
{
    const struct session *l = &s->session[i];
    snib_instant due = SNIB__NEVER;
    switch (l->state) {
    case SESSION_OPENING:
    case SESSION_CLOSING:
        return snib__after(l->since, s->patience);
    case SESSION_RESTING:
        return snib__session_wanted(s, i) ? l->rest_until : SNIB__NEVER;
    case SESSION_READY:
        if (i == SUBS && s->queued + s->held > 0) {
            due = l->ping_at;
        }
        break;
    case SESSION_HELLO:
    case SESSION_REPLICA:
    case SESSION_SELECT:
    case SESSION_PROBE:
    case SESSION_TIME:
    case SESSION_SUBSCRIBE:
        break;
    case SESSION_DOWN:
        return SNIB__NEVER;
    }
    if (l->count) {
        due = snib__sooner(due, l->overdue.ns ? flights_close_at(s, l)
                                              : flights_notice_at(s, l));
    }
    return due;
}

static void flights_ping(struct snib__redis *s, snib_instant now)
{
    struct session *l = &s->session[SUBS];
    l->ping_at = snib__after(now, snib__ms(POLL_MS));
    if (l->count || !snib__session_has_room(s, SUBS, 1)) {
        return; /* a PING is awaited: its silence will tell */
    }
    snib__resp_begin(&s->out->conn[SUBS].out, 1);
    snib__resp_arg(&s->out->conn[SUBS].out, "PING", 4);
    snib__session_push(
        s, SUBS, &(struct flight){.job = JOB_PING, .sent = now, .last = true});
}

void snib__session_tick(struct snib__redis *s, snib_instant now, int i)
{
    struct session *l = &s->session[i];
    char text[sizeof l->text];
    if (!snib__reached(now, snib__session_due(s, i))) {
        return;
    }
    switch (l->state) {
    case SESSION_OPENING:
        snprintf(text, sizeof text,
                 "no connection to %.*s within the time allowed", ADDRESS_SHOWN,
                 s->out->conn[i].address);
        snib__session_cut(s, now, i, true, SNIB_ERR_UNREACHABLE, text, false);
        break;
    case SESSION_RESTING:
        snib__session_want(s, now, i);
        break;
    case SESSION_HELLO:
    case SESSION_REPLICA:
    case SESSION_SELECT:
    case SESSION_PROBE:
    case SESSION_TIME:
    case SESSION_SUBSCRIBE:
    case SESSION_READY:
        if (l->count && !l->overdue.ns &&
            snib__reached(now, flights_notice_at(s, l))) {
            l->overdue = now;
        }
        if (l->count && snib__reached(now, flights_close_at(s, l))) {
            snib__session_cut(s, now, i, true, SNIB_ERR_UNREACHABLE,
                              "the server does not answer", false);
        } else if (l->state == SESSION_READY && i == SUBS &&
                   snib__reached(now, l->ping_at)) {
            flights_ping(s, now);
        }
        break;
    case SESSION_CLOSING:
        l->state = SESSION_RESTING; /* run has not said that it is closed */
        break;
    case SESSION_DOWN:
        break;
    }
}
