/* store/redis/session_end.c — a connection is no more: what becomes of the
 * requests, and when the next one is tried.
 *
 * A connection may be cut at any time: every request awaited on it is then
 * answered UNKNOWN at once, and the core repeats or cancels it by id. A slow
 * server is cut off only for silence, that is, when the oldest awaited reply is
 * older than the client's patience (store.c). The limit of a caller who does not
 * want to wait so long never closes a connection.
 *
 * Where there is a topology, a connection to the primary that was lost or
 * refused puts in doubt that it is still the primary; so do too few replicas
 * that acknowledge (confirm.c), but that closes nothing. WATCH that fails goes
 * on to the next node, and nobody is told before all have been asked. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/redis/inspect_i.h"

static snib_duration session_end_jitter(struct snib__redis *s, snib_duration d)
{
    uint64_t half = (uint64_t)d.ns / 2;
    return (snib_duration){
        (int64_t)(half + snib__rng_below(&s->rng, half + 1))};
}

static void session_end_lost(struct snib__redis *s, snib_instant now,
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
static void session_end_stuck(struct snib__redis *s, snib_err err,
                              const char *text)
{
    if (s->session[BACKGROUND].state == SESSION_READY ||
        s->session[CALLERS].state == SESSION_READY) {
        return;
    }
    SNIB__LIST_EACH (l, &s->unsent[1]) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (rq->verb == SNIB__RENEW) {
            rq->said.err = snib__fail(rq->said.reterr, err, "%s", text);
            s->out->stuck = true;
        }
    }
}

/* The next attempt: after a pause that doubles, with jitter. WATCH goes from
 * node to node without one. */
static void session_end_rest(struct snib__redis *s, snib_instant now,
                             struct session *l)
{
    l->rest_until =
        snib__after(now, l->barred ? snib__ms(REST_BARRED_MS)
                                   : session_end_jitter(s, l->rest));
    l->rest.ns = l->rest.ns * 2 < REST_MAX_MS * INT64_C(1000000)
                     ? l->rest.ns * 2
                     : REST_MAX_MS * INT64_C(1000000);
}

/* Nothing of the old connection may be taken for the new one's. */
static void session_end_clear(struct snib__redis *s, int i)
{
    struct session *l = &s->session[i];
    struct snib__conn *conn = s->out->conn[i];
    conn->awaited = 0;
    conn->pushes = false;
    snib__buf_clear(&conn->out);
    snib__resp_reset(l->resp);
    snib__confirm_reset(l);
    memset(l->loaded, 0, sizeof l->loaded);
    l->doomed = l->ended = l->stuck = l->asked = l->proven = l->no_packets =
        l->maps = false;
    l->login_at = (snib_instant){0};
    conn->login = false;
    if (i == SUBS) {
        /* The server may go on counting the broken connection as a listener.
         * It must not take that for us, so the next connection listens to
         * another channel. */
        snib__queue_channel_anew(s);
    }
}

/* Has that been one attempt to connect? Who named the address may be behind, so
 * with a topology as many make one as there are nodes that may name it. To a
 * server that is not the primary any more it was none. */
static bool session_end_once(struct snib__redis *s, int i)
{
    struct topology *t = s->topology;
    return !t || (!strcmp(s->out->conn[i]->address, t->primary) &&
                  ++t->vain >= t->nodes);
}

/* What becomes of the requests that are not awaited on it. one: it was the only
 * attempt to connect. */
static void session_end_tell(struct snib__redis *s, int i, snib_err err,
                             bool one)
{
    const struct session *l = &s->session[i];
    if (l->barred && i == SUBS) {
        snib__request_fail_to_queue(s, err, l->text);
    } else if (l->barred && (i == CALLERS || s->session[CALLERS].barred)) {
        snib__request_fail_unsent(s, err, l->text);
        snib__request_fail_callers(s, err, l->text);
    } else {
        session_end_stuck(s, err, l->text);
        if (one && session_end_once(s, i)) {
            snib__request_fail_once(s, err, l->text);
        }
    }
}

/* The primary may be another server by now. While all that are asked go on to
 * name one that cannot be reached, or whose replicas do not answer, they are
 * asked after a pause. */
static void session_end_ask(struct snib__redis *s, snib_instant now)
{
    struct topology *t = s->topology;
    if (!t || !snib__topology_doubt(t)) {
        return;
    }
    if (t->doubts > t->nodes) {
        session_end_rest(s, now, &s->session[WATCH]);
    } else { /* not after the pause of one that could not be listened to    */
        s->session[WATCH].rest_until = now;
    }
}

/* Not so if it refuses us as it would refuse us at any time, or if memory or a
 * descriptor was short here. */
static void session_end_doubt(struct snib__redis *s, snib_instant now,
                              const struct session *l)
{
    if (!l->barred && l->err != SNIB_ERR_NOMEM && l->err != SNIB_ERR_LIMIT) {
        session_end_ask(s, now);
    }
}

static void session_end_log(const struct snib__redis *s, int i)
{
    static const char *const uses[SESSIONS] = {
        [CALLERS] = "calls", [BACKGROUND] = "renewals", [SUBS] = "wake-ups"};
    const struct session *l = &s->session[i];
    char words[sizeof l->text + 48];
    if (s->out->log) {
        snprintf(words, sizeof words, "redis: connection for %s lost: %s",
                 i == WATCH ? "the primary's address" : uses[i], l->text);
        s->out->log(s->out->log_data,
                    l->barred ? SNIB_LOG_ERROR : SNIB_LOG_WARN, words);
    }
}

void snib__session_cut(struct snib__redis *s, snib_instant now, int i,
                       bool shut, snib_err err, const char *text, bool barred)
{
    struct session *l = &s->session[i];
    bool was_ready = l->state == SESSION_READY;
    const struct session *other =
        &s->session[i == BACKGROUND ? CALLERS : BACKGROUND];
    struct flight f;
    if (i < SUBS && (s->owned || s->out->holds) &&
        (was_ready || other->state != SESSION_READY)) {
        snib__state_bad(s, l->count ? l->ring[l->head].sent : now, err, text);
    }
    s->failures += i == CALLERS && !was_ready;
    s->ended_unsure = s->ended_unsure || (was_ready && i < SUBS);
    l->state = shut ? SESSION_CLOSING : SESSION_RESTING;
    s->out->conn[i]->shut = s->out->conn[i]->shut || shut;
    s->out->conn[i]->open = false;
    l->since = now;
    l->err = err;
    l->barred = barred;
    snprintf(l->text, sizeof l->text, "%s", text);
    l->rest = was_ready ? snib__ms(REST_FIRST_MS) : l->rest;
    l->rest_until = now;
    if (i != WATCH || s->topology->known) { /* else the next node, at once  */
        session_end_rest(s, now, l);
    }
    session_end_clear(s, i);
    bool packets = false; /* however many: it is one cut */
    for (uint32_t n = l->count; n && snib__session_pop(l, &f); n--) {
        packets = packets || f.job == JOB_MULTI;
        session_end_lost(s, now, &f, l->text);
        snib__free(f.safe);
    }
    if (packets && !s->packets_work) {
        s->packet_cuts++;
    }
    if (i == WATCH) {
        snib__topology_failed(s->topology, err, l->text, barred);
        l->barred = false; /* only that node did so */
    } else {
        session_end_doubt(s, now, l);
        session_end_tell(s, i, err,
                         i != SUBS && !was_ready &&
                             (other->state < SESSION_OPENING ||
                              other->state > SESSION_READY));
    }
    if (i == SUBS) {
        snib__inspect_subs(s, now);
    }
    session_end_log(s, i);
}

void snib__session_leave(struct snib__redis *s, snib_instant now, int i)
{
    struct session *l = &s->session[i];
    struct flight f;
    l->state = SESSION_CLOSING;
    s->out->conn[i]->shut = true;
    l->since = now;
    l->rest_until = snib__later(l->rest_until, now);
    l->barred = false;
    session_end_clear(s, i);
    while (snib__session_pop(l, &f)) { /* of the greeting: nobody's request */
    }
}

void snib__session_anew(struct snib__redis *s, snib_instant now, int i,
                        const char *text)
{
    struct session *l = &s->session[i];
    snib__session_leave(s, now, i);
    l->err = SNIB_ERR_DENIED;
    snprintf(l->text, sizeof l->text, "%s", text);
    session_end_log(s, i);
}

void snib__session_in_vain(struct snib__redis *s, snib_instant now)
{
    struct topology *t = s->topology;
    struct session *l = &s->session[WATCH];
    l->err = t->err ? t->err : SNIB_ERR_UNREACHABLE;
    /* Where locks were served before, those that do not answer may know more:
     * one that was set up anew may not know the service yet. */
    l->barred = t->barred && !(s->ever && t->silent);
    snprintf(l->text, sizeof l->text, "%s", t->text);
    session_end_rest(s, now, l);
    if (snib__session_up(s, CALLERS) || snib__session_up(s, BACKGROUND)) {
        return;
    }
    if (s->owned || s->out->holds) {
        snib__state_bad(s, now, l->err, l->text);
    }
    if (l->barred || (snib__topology_hopeless(t) && !s->ever)) {
        snib__request_fail_unsent(s, l->err, l->text);
        snib__request_fail_callers(s, l->err, l->text);
    } else {
        session_end_stuck(s, l->err, l->text);
        snib__request_fail_once(s, l->err, l->text);
    }
}

void snib__session_confirmed(struct snib__redis *s, snib_instant now, int i)
{
    struct confirm_verdict v;
    snib__confirm_over(s, i, &v);
    if (v.demoted) {
        snib__state_demoted(s, i);
    }
    if (v.err) {
        snib__session_cut(s, now, i, true, v.err, v.text, v.barred);
    } else if (v.few) { /* a primary that was replaced has no replicas */
        session_end_ask(s, now);
    }
    if (v.stands && s->topology) {
        s->topology->doubts = 0;
    }
    if (v.behind >= 0) {
        snib__session_cut(s, now, v.behind, true, SNIB_ERR_UNREACHABLE,
                          "replicas acknowledge another primary", false);
    }
}

void snib__session_end_doomed(struct snib__redis *s, snib_instant now, int i)
{
    char text[sizeof s->state.text];
    if (s->session[i].unread) {
        snprintf(text, sizeof text, "%s",
                 s->state.err ? s->state.text
                              : "the layout of its locks was not read");
        snib__session_cut(s, now, i, true, SNIB_ERR_STORE, text, false);
    } else if (s->session[i].stuck) {
        snib__session_cut(s, now, i, true, SNIB_ERR_STORE,
                          "EXEC is refused, so a transaction may be open",
                          false);
    } else {
        if (!s->session[i].ended) {
            snib__state_demoted(s, i);
        }
        snib__session_cut(s, now, i, true, SNIB_ERR_UNREACHABLE,
                          s->session[i].ended
                              ? "the server takes the login as ended"
                              : "the server became a read-only replica",
                          false);
    }
}

/* Why the connection is down, for people. A refusal names the address, because
 * the reader may have several stores. */
static void session_end_why(const struct snib__redis *s,
                            const struct snib__input *in, char *ret,
                            size_t size)
{
    char raw[sizeof s->session[0].text], note[200];
    const char *why = in->bytes ? in->bytes : "";
    int length = (int)(in->bytes ? in->size : 0);
    if (in->kind == SNIB__IN_REFUSED && !in->err) {
        bool watches = in->conn == WATCH; /* that is a Sentinel */
        snprintf(raw, sizeof raw, "no connection to %.*s: %.*s%s",
                 ADDRESS_SHOWN, s->out->conn[in->conn]->address, length, why,
                 watches ? ""
                         : snib__topology_note(s->topology, note, sizeof note));
    } else {
        snprintf(raw, sizeof raw, "%.*s", length, why);
    }
    if (!*raw) {
        bool greets = !s->ever && s->session[in->conn].state == SESSION_HELLO &&
                      s->out->conn[in->conn]->transport == SNIB__PLAIN;
        snprintf(raw, sizeof raw, "the connection was closed%s",
                 greets ? " (if it is a port for TLS, write rediss:)" : "");
    }
    snib__redis_error_text(ret, size, raw, (uint32_t)strlen(raw));
}

void snib__session_closed(struct snib__redis *s, snib_instant now,
                          const struct snib__input *in)
{
    int i = in->conn;
    struct session *l = &s->session[i];
    char text[sizeof l->text];
    if (l->state == SESSION_DOWN || l->state == SESSION_RESTING) {
        return;
    }
    if (l->state == SESSION_CLOSING) {
        l->state = SESSION_RESTING;
        return;
    }
    session_end_why(s, in, text, sizeof text);
    if (i == WATCH) { /* the topology says when all of them are */
        s->topology->node[s->topology->at].hopeless = in->hopeless;
    }
    snib__session_cut(s, now, i, false,
                      in->err ? in->err : SNIB_ERR_UNREACHABLE, text,
                      in->err == SNIB_ERR_CONFIG || in->err == SNIB_ERR_DENIED);
    /* A server that was reached before is likely to come back: its name may
     * vanish while it restarts. Who named it may be behind. */
    if (in->hopeless && i < SUBS && !s->ever &&
        (!s->topology || s->topology->vain >= s->topology->nodes)) {
        snib__request_fail_callers(s, SNIB_ERR_UNREACHABLE, text);
    }
}
