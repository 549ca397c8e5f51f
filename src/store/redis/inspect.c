/* store/redis/inspect.c — INSPECT and LIST: several commands, one request.
 *
 * INSPECT asks page by page (100 waiters and 200 holders each). LIST scans with
 * a cursor, which never blocks the server, keeps each name that it found once,
 * and inspects the names, up to AHEAD at a time. Locks that ended meanwhile are
 * left out. Of one whose records are damaged, or not ours, there is a row that
 * says why it cannot be shown.
 *
 * A scan walks all keys of the database, other programs' too. So a LIST that no
 * caller waits for (the search for deadlocks) is *paced*: once its pages have
 * taken FREE_MS in all, each is followed by a pause CALM (50) times as long as
 * that page took, which leaves the server 98 % of its time. In a database of
 * some ten thousand keys nothing is paced yet. A page's time is counted from
 * sending to reading, which is too much where the network is slow. So a page
 * counts as 2 ms at most, which no server needs for it: no pause is longer than
 * PAUSE_MOST_MS.
 *
 * A LIST that a caller waits for has the time of a request for each page, so a
 * server that answers is not taken for a silent one because it has many keys.
 * All pages together have WALK_PART times that. */
#include <stdio.h>
#include <string.h>

#include "base/glob.h"
#include "store/redis/inspect_i.h"

enum { SCAN_COUNT = 200, AHEAD = 32 };

enum { FREE_MS = 100, CALM = 50, PAUSE_MOST_MS = 100 };

enum { WALK_PART = 10 };

static void inspect_send_page(struct snib__redis *s, snib_instant now, int i,
                              struct inspection *k, const char *safe,
                              size_t size, bool full)
{
    snib__encode_inspect(s, &s->out->conn[i]->out, safe, size, k->step,
                         snib__inspect_shows(s, k->rq), full);
    snib__inspect_flight(s, now, i, k, SNIB__SCRIPT_INSPECT);
}

static void inspect_scan(struct snib__redis *s, snib_instant now, int i,
                         struct inspection *k)
{
    struct snib__buf *out = &s->out->conn[i]->out;
    snib__resp_begin(out, 6);
    snib__resp_text(out, "SCAN");
    snib__resp_i64(out, k->cursor);
    snib__resp_text(out, "MATCH");
    snib__resp_text(out, k->rq->list.awaited_only ? "snib:{*}:a" : "snib:{*");
    snib__resp_text(out, "COUNT");
    snib__resp_i64(out, SCAN_COUNT);
    k->sent = now;
    snib__inspect_flight(s, now, i, k, -1);
}

/* -- the pace of a scan ---------------------------------------------------- */

static void inspect_rest_until(struct snib__redis *s, struct inspection *k,
                               snib_instant then)
{
    k->resume = then;
    snib__heap_set(&s->timers, &k->rq->store.timer,
                   snib__sooner(k->rq->limit, then));
}

/* Called after a page. True: the scan pauses. False: it goes on at once. */
static bool inspect_rests(struct snib__redis *s, snib_instant now, int i,
                          struct inspection *k)
{
    int64_t pause = snib__between(k->sent, now).ns * CALM;
    int64_t most = PAUSE_MOST_MS * INT64_C(1000000);
    if (!k->rq->background || snib__to_ms(k->busy) < FREE_MS) {
        return false;
    }
    k->session = i;
    k->opened = s->session[i].since;
    k->rq->said.left = k->busy;
    k->rq->limit = snib__later(k->rq->limit, snib__after(now, s->patience));
    inspect_rest_until(
        s, k, snib__after(now, (snib_duration){pause < most ? pause : most}));
    return true;
}

/* The cursor of a scan is of no use on another connection, which may lead to
 * another server. */
bool snib__inspect_due(struct snib__redis *s, snib_instant now,
                       struct snib__request *rq)
{
    struct inspection *k =
        snib__redis_inspects(rq) ? snib__inspection_find(s, rq) : NULL;
    if (!k || !k->resume.ns) {
        return false;
    }
    const struct session *l = &s->session[k->session];
    if (l->state != SESSION_READY || l->since.ns != k->opened.ns) {
        snib__request_fail(s, rq, SNIB__NOT_APPLIED, SNIB_ERR_UNREACHABLE,
                           "the connection was lost in the middle of a scan");
    } else if (!snib__reached(now, k->resume)) {
        inspect_rest_until(s, k, k->resume);
    } else if (!snib__session_has_room(s, k->session, 1)) {
        inspect_rest_until(s, k, snib__after(now, snib__ms(PAUSE_MOST_MS)));
    } else {
        k->resume = (snib_instant){0};
        inspect_scan(s, now, k->session, k);
        snib__heap_set(&s->timers, &rq->store.timer, rq->limit);
    }
    return true;
}

/* -- how long a LIST may take ---------------------------------------------- */

static snib_instant inspect_walk_until(const struct snib__redis *s,
                                       const struct snib__request *rq)
{
    return snib__after(rq->said.valid_from,
                       (snib_duration){s->patience.ns * WALK_PART});
}

/* A page has come: the next one has as much time. */
static void inspect_goes_on(const struct snib__redis *s, snib_instant now,
                            struct snib__request *rq)
{
    snib_instant next = snib__after(now, s->patience);
    if (rq->list.limit_moves) {
        rq->limit = snib__later(rq->limit,
                                snib__sooner(next, inspect_walk_until(s, rq)));
    }
}

bool snib__inspect_too_long(struct snib__redis *s, snib_instant now,
                            const struct snib__request *rq, char *text,
                            size_t size)
{
    const struct inspection *k =
        rq->verb == SNIB__LIST ? snib__inspection_find(s, rq) : NULL;
    snib_duration took;
    if (!k || !rq->list.limit_moves ||
        !snib__reached(now, inspect_walk_until(s, rq))) {
        return false;
    }
    took = snib__between(rq->said.valid_from, now);
    snprintf(text, size,
             "the server answers, but has so many keys that a list of the "
             "locks was not complete after %lld ms; %u were found by then",
             (long long)snib__to_ms(took), k->name_count);
    return true;
}

bool snib__inspect_has_room(struct snib__redis *s, int i)
{
    return s->inspection_count < INSPECTS_MAX &&
           snib__session_has_room(s, i, AHEAD);
}

bool snib__inspect_send(struct snib__redis *s, snib_instant now, int i,
                        struct snib__request *rq)
{
    struct inspection *k = snib__inspection_new(s, rq);
    if (!k) {
        return false;
    }
    snib__buf_clear(rq->said.result);
    if (rq->verb == SNIB__INSPECT) {
        inspect_send_page(s, now, i, k, rq->name->safe, rq->name->safe_size,
                          true);
    } else if (rq->verb == SNIB__LIST) {
        if (!rq->said.valid_from.ns) { /* else it is begun anew */
            rq->said.valid_from = now;
        }
        inspect_scan(s, now, i, k);
    } else {
        return snib__doctor_send(s, now, i, k);
    }
    return true;
}

/* -- INSPECT --------------------------------------------------------------- */

static void inspect_finish(struct snib__redis *s, struct inspection *k)
{
    struct snib__request *rq = k->rq;
    if (rq->said.result->failed) {
        snib__request_fail(s, rq, SNIB__NOT_APPLIED, SNIB_ERR_LIMIT,
                           "the answer is too long");
    } else {
        snib__request_finish(s, rq, SNIB__DONE);
    }
}

static void inspect_strange(struct snib__redis *s, struct inspection *k)
{
    snib__request_fail(s, k->rq, SNIB__NOT_APPLIED, SNIB_ERR_STORE,
                       "the server's answer is not one of our scripts'");
}

static void inspect_say(struct snib__redis *s, const char *name, uint32_t size,
                        const char *what)
{
    char text[300];
    if (s->out->log) {
        snprintf(text, sizeof text, "redis: inspect %.*s: %s",
                 (int)(size < 80 ? size : 80), name, what);
        s->out->log(s->out->log_data, SNIB_LOG_WARN, text);
    }
}

static void inspect_say_more(struct snib__redis *s, const struct inspection *k,
                             const char *name, uint32_t size, int64_t more)
{
    char text[80];
    snib__rec_row(k->rq->said.result, SNIB__ROW_MORE);
    snib__rec_i64(k->rq->said.result, SNIB__F_COUNT, more);
    snprintf(text, sizeof text, "%lld holders more than are shown",
             (long long)more);
    inspect_say(s, name, size, text);
}

/* True: *ret holders stand behind those that this reply shows. */
static bool inspect_more_holders(const struct snib__resp_cell *c, int64_t *ret)
{
    return snib__resp_number(snib__resp_at(c, 6), ret) && *ret > 0;
}

static void inspect_inspected(struct snib__redis *s, snib_instant now, int i,
                              struct inspection *k,
                              const struct snib__resp_cell *c)
{
    const struct snib__name *n = k->rq->name;
    int64_t all, more = 0;
    if (!snib__inspect_rows(s, k->rq, n->safe, n->safe_size, c, k->step == 0) ||
        !snib__resp_number(snib__resp_at(c, 2), &all)) {
        inspect_strange(s, k);
        return;
    }
    k->step += 100;
    bool crowd = inspect_more_holders(c, &more);
    bool enough = 2 * k->step >= SHOWN_MAX;
    if (crowd && 2 * k->step == SHOWN_MAX) {
        inspect_say_more(s, k, n->safe, (uint32_t)n->safe_size, more);
    }
    if ((k->step < all || (crowd && !enough)) && !k->rq->said.result->failed &&
        snib__session_has_room(s, i, 1)) {
        inspect_send_page(s, now, i, k, n->safe, n->safe_size, false);
    } else {
        inspect_finish(s, k);
    }
}

/* -- LIST ------------------------------------------------------------------ */

/* Keep the name of a key that shows a lock: "snib:{n}" (held) or "snib:{n}:a"
 * (waited for). False: there is no memory for it. */
static bool inspect_found(struct inspection *k,
                          const struct snib__resp_cell *key)
{
    const struct snib__request *rq = k->rq;
    const char *p = key->text, *end = p + key->size;
    if (key->type != SNIB__RESP_STRING || key->size < 8 ||
        memcmp(p, "snib:{", 6)) {
        return true;
    }
    if (end[-1] == 'a' && end[-2] == ':') {
        end -= 2;
    }
    p += 6;
    if (end <= p + 1 || end[-1] != '}' ||
        memchr(p, '}', (size_t)(end - p - 1))) {
        return true;
    }
    end--;
    char raw[SNIB_NAME_MAX];
    size_t size = snib__name_decode(p, (size_t)(end - p), raw);
    bool take = size && (!rq->text || !rq->text_size ||
                         snib__glob(rq->text, rq->text_size, raw, size));
    return !take || snib__inspection_add(k, p, (uint32_t)(end - p));
}

static void inspect_more(struct snib__redis *s, snib_instant now, int i,
                         struct inspection *k)
{
    while (k->awaited < AHEAD && k->shown < snib__buf_size(&k->names) &&
           snib__session_has_room(s, i, 1)) {
        uint32_t n;
        const char *name = snib__inspection_name(k, k->shown, &n);
        bool first = k->shown == 0;
        k->shown += n + (uint32_t)sizeof n;
        inspect_send_page(s, now, i, k, name, n, first);
    }
    if (!k->awaited) {
        k->busy.ns += snib__between(k->sent, now).ns;
        k->rq->said.left = k->busy;
        inspect_finish(s, k);
    }
}

static void inspect_scanned(struct snib__redis *s, snib_instant now, int i,
                            struct inspection *k,
                            const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *keys = snib__resp_at(c, 1);
    if (!snib__resp_number(snib__resp_at(c, 0), &k->cursor) || !keys ||
        keys->type != SNIB__RESP_ARRAY) {
        inspect_strange(s, k);
        return;
    }
    k->busy.ns += snib__between(k->sent, now).ns;
    const struct snib__resp_cell *e = keys + 1;
    for (uint32_t n = keys->size; n; n--, e = snib__resp_skip(e)) {
        if (!inspect_found(k, e)) {
            snib__request_fail(s, k->rq, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM,
                               NULL);
            return;
        }
    }
    if (k->cursor && inspect_rests(s, now, i, k)) {
        return;
    }
    if (k->cursor && snib__session_has_room(s, i, 1)) {
        inspect_scan(s, now, i, k);
    } else {
        k->scanned = true;
        k->sent = now;
        k->cursor = 0; /* from here on the offset of the name answered next */
        inspect_more(s, now, i, k);
    }
}

static void inspect_damaged(struct snib__buf *out, const char *safe,
                            uint32_t size, const char *why)
{
    char raw[SNIB_NAME_MAX];
    size_t raw_size = snib__name_decode(safe, size, raw);
    snib__rec_row(out, SNIB__ROW_LOCK);
    snib__rec_bytes(out, SNIB__F_NAME, raw_size ? raw : safe,
                    raw_size ? raw_size : size);
    snib__rec_text(out, SNIB__F_TEXT, why);
}

bool snib__inspect_leaves_out(struct snib__redis *s, snib_instant now, int i,
                              struct snib__request *rq, const char *why,
                              bool damaged)
{
    struct inspection *k = snib__inspection_find(s, rq);
    char text[248];
    uint32_t n;
    if (!k || rq->verb != SNIB__LIST || !k->scanned) {
        return false;
    }
    const char *name = snib__inspection_name(k, (uint32_t)k->cursor, &n);
    inspect_say(s, name, n, why);
    if (damaged) {
        snprintf(text, sizeof text, "%s", why);
        snib__redis_error_remedy(name, n, text, sizeof text);
        inspect_damaged(rq->said.result, name, n, text);
    }
    k->cursor += n + (int64_t)sizeof n;
    k->awaited--;
    inspect_more(s, now, i, k);
    return true;
}

static void inspect_listed(struct snib__redis *s, snib_instant now, int i,
                           struct inspection *k,
                           const struct snib__resp_cell *c)
{
    uint32_t n;
    const char *name = snib__inspection_name(k, (uint32_t)k->cursor, &n);
    const struct snib__resp_cell *holders = snib__resp_at(c, 3);
    const struct snib__resp_cell *waiters = snib__resp_at(c, 4);
    int64_t more;
    k->cursor += n + (int64_t)sizeof n;
    bool empty = holders && !holders->size && waiters && !waiters->size;
    if (!empty && !snib__inspect_rows(s, k->rq, name, n, c, true)) {
        inspect_strange(s, k);
        return;
    }
    if (!empty && inspect_more_holders(c, &more)) {
        inspect_say_more(s, k, name, n, more);
    }
    if (k->rq->said.result->failed) {
        inspect_finish(s, k);
        return;
    }
    inspect_more(s, now, i, k);
}

void snib__inspect_reply(struct snib__redis *s, snib_instant now, int i,
                         struct snib__request *rq,
                         const struct snib__resp_cell *c)
{
    struct inspection *k = snib__inspection_find(s, rq);
    if (!k) {
        return;
    }
    k->awaited--;
    switch (rq->verb) {
    case SNIB__INSPECT:
        inspect_inspected(s, now, i, k, c);
        break;
    case SNIB__LIST:
        inspect_goes_on(s, now, rq);
        if (k->scanned) {
            inspect_listed(s, now, i, k, c);
        } else {
            inspect_scanned(s, now, i, k, c);
        }
        break;
    case SNIB__DOCTOR:
        snib__doctor_reply(s, now, i, k, c);
        break;
    case SNIB__ACQUIRE:
    case SNIB__RENEW:
    case SNIB__RELEASE:
    case SNIB__CANCEL:
    case SNIB__FORCE:
    case SNIB__PARAMS:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY:
        break;
    }
}
