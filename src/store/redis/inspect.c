/* store/redis/inspect.c — INSPECT and LIST: several commands, one request.
 *
 * INSPECT asks page by page (100 waiters and 200 holders each). LIST scans with
 * a cursor, which never blocks the server, keeps each name that it found once,
 * and inspects the names, up to AHEAD at a time. Locks that ended meanwhile are
 * left out. The memory of an inspection is freed with the request's answer.
 *
 * A scan walks all keys of the database, other programs' too. So a LIST that no
 * caller waits for (the search for deadlocks) is *paced*: once its pages have
 * taken FREE_MS in all, each is followed by a pause CALM (50) times as long as
 * that page took, which leaves the server 98 % of its time. In a database of
 * some ten thousand keys nothing is paced yet. A page's time is counted from
 * sending to reading, which is too much where the network is slow. So a page
 * counts as 2 ms at most, which no server needs for it: no pause is longer than
 * PAUSE_MOST_MS. */
#include <stdio.h>
#include <string.h>

#include "base/glob.h"
#include "base/mem.h"
#include "core/about.h"
#include "store/redis/redis_i.h"

enum { SCAN_COUNT = 200, AHEAD = 32, NAMES_LIMIT = 64 * 1024 * 1024 };

enum { FREE_MS = 100, CALM = 50, PAUSE_MOST_MS = 100 };

static struct inspection *inspect_find(struct snib__redis *s,
                                       const struct snib__request *rq)
{
    SNIB__LIST_EACH (l, &s->inspections) {
        struct inspection *k = SNIB__CONTAINER(l, struct inspection, link);
        if (k->rq == rq) {
            return k;
        }
    }
    return NULL;
}

void snib__inspect_end(struct snib__redis *s, struct snib__request *rq)
{
    struct inspection *k = inspect_find(s, rq);
    if (k) {
        snib__unlink(&k->link);
        snib__buf_free(&k->names);
        snib__free(k->table);
        snib__free(k);
        s->inspection_count--;
    }
}

static void inspect_ask(struct snib__redis *s, snib_instant now, int i,
                        struct inspection *k, const char *safe, size_t size,
                        bool full)
{
    snib__encode_inspect(s, &s->out->conn[i].out, safe, size, k->step, full);
    snib__inspect_flight(s, now, i, k, SNIB__SCRIPT_INSPECT);
}

static void inspect_scan(struct snib__redis *s, snib_instant now, int i,
                         struct inspection *k)
{
    struct snib__buf *out = &s->out->conn[i].out;
    snib__resp_begin(out, 6);
    snib__resp_text(out, "SCAN");
    snib__resp_i64(out, k->cursor);
    snib__resp_text(out, "MATCH");
    snib__resp_text(out, k->rq->awaited_only ? "snib:{*}:a" : "snib:{*");
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
    snib__heap_set(&s->timers, &k->rq->timer, snib__sooner(k->rq->limit, then));
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
    k->rq->left = k->busy;
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
        snib__redis_inspects(rq) ? inspect_find(s, rq) : NULL;
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
        snib__heap_set(&s->timers, &rq->timer, rq->limit);
    }
    return true;
}

bool snib__inspect_send(struct snib__redis *s, snib_instant now, int i,
                        struct snib__request *rq)
{
    if (s->inspection_count >= INSPECTS_MAX ||
        !snib__session_has_room(s, i, AHEAD)) {
        return false;
    }
    struct inspection *k = snib__alloc(sizeof *k);
    if (!k) {
        return false;
    }
    k->rq = rq;
    snib__buf_init(&k->names, NAMES_LIMIT);
    snib__link_init(&k->link);
    snib__list_push(&s->inspections, &k->link);
    s->inspection_count++;
    snib__buf_clear(rq->result);
    if (rq->verb == SNIB__INSPECT) {
        inspect_ask(s, now, i, k, rq->name->safe, rq->name->safe_size, true);
    } else if (rq->verb == SNIB__LIST) {
        rq->valid_from = now;
        inspect_scan(s, now, i, k);
    } else {
        return snib__doctor_send(s, now, i, k);
    }
    return true;
}

/* -- rows ------------------------------------------------------------------ */

/* Skip n words, each with the space behind it; NULL: there are fewer. */
static const char *inspect_words(const char *p, const char *end, int n)
{
    while (n--) {
        p = memchr(p, ' ', (size_t)(end - p));
        if (!p) {
            return NULL;
        }
        p++;
    }
    return p;
}

static int64_t inspect_word_i64(const char *p, const char *end, int n)
{
    int64_t v = 0;
    p = inspect_words(p, end, n);
    for (int i = 0; p && p < end && i < 18 && *p >= '0' && *p <= '9'; i++) {
        v = v * 10 + (*p++ - '0');
    }
    return v;
}

static void inspect_about(struct snib__buf *out, const char *p, const char *end,
                          int n)
{
    p = inspect_words(p, end, n);
    if (p) {
        snib__rec_bytes(out, SNIB__F_ABOUT, p, (size_t)(end - p));
    }
}

/* Of a word like "1,d5000,b…,s3" the lock-delay (which: d) or the slot (s). */
static int64_t inspect_term_of(const char *p, const char *end, char which,
                               int64_t none)
{
    int64_t v = 0;
    p = inspect_words(p, end, 4);
    while (p && p < end && *p != ' ' &&
           !(*p == ',' && end - p > 2 && p[1] == which)) {
        p++;
    }
    if (!p || p >= end || *p == ' ') {
        return none;
    }
    for (p += 2; p < end && *p >= '0' && *p <= '9' && v < UINT32_MAX; p++) {
        v = v * 10 + (*p - '0');
    }
    return v;
}

/* A holder's record: "request token end mode permits since reserve about". */
static void inspect_holder_row(struct snib__buf *out, int64_t now_ms,
                               const struct snib__resp_cell *client_id,
                               const struct snib__resp_cell *record)
{
    const char *p = record->text, *end = p + record->size;
    int64_t left = inspect_word_i64(p, end, 2) - now_ms;
    int64_t delay = left <= 0 ? inspect_term_of(p, end, 'd', 0) : 0;
    bool over = delay > 0; /* the lease is over, and its lock-delay runs */
    left += delay;
    snib__rec_row(out, over ? SNIB__ROW_CLOSED : SNIB__ROW_HOLDER);
    /* "<client>" or "<client>:<request>" */
    snib__rec_bytes(out, SNIB__F_OWNER, client_id->text,
                    client_id->size > 32 ? 32 : client_id->size);
    snib__rec_bytes(out, SNIB__F_REQUEST, p, record->size < 32 ? 0 : 32);
    snib__rec_i64(out, SNIB__F_TOKEN, inspect_word_i64(p, end, 1));
    snib__rec_i64(out, SNIB__F_LEFT, left);
    snib__rec_i64(out, SNIB__F_KIND, inspect_word_i64(p, end, 3));
    snib__rec_i64(out, SNIB__F_PERMITS, inspect_word_i64(p, end, 4));
    snib__rec_i64(out, SNIB__F_SLOT, inspect_term_of(p, end, 's', -1));
    snib__rec_i64(out, SNIB__F_HOLDS, 1);
    int64_t since = inspect_word_i64(p, end, 5);
    if (since > 1 && since <= now_ms) { /* 1: an earlier version wrote it */
        snib__rec_i64(out, SNIB__F_AGE, now_ms - since);
    }
    inspect_about(out, p, end, 7);
}

/* How long a waiter has been waiting. Both instants are the server's. */
static bool inspect_since_of(const char *p, const char *end, int64_t now_ms,
                             int64_t *ret)
{
    struct snib__about about;
    p = inspect_words(p, end, 9);
    if (!p) {
        return false;
    }
    snib__about_read(p, (size_t)(end - p), &about);
    *ret = now_ms - about.since_ms;
    return about.since_ms > 0 && about.since_ms <= now_ms;
}

/* A waiter's record: "client channel poll rank lease reserve floor mode permits
 * about". */
static void inspect_waiter_row(struct snib__buf *out, int64_t now_ms,
                               int64_t alive,
                               const struct snib__resp_cell *request,
                               const struct snib__resp_cell *record)
{
    const char *p = record->text, *end = p + record->size;
    int64_t age;
    const char *blank = memchr(p, ' ', record->size);
    snib__rec_row(out, SNIB__ROW_WAITER);
    snib__rec_bytes(out, SNIB__F_OWNER, p, blank ? (size_t)(blank - p) : 0);
    snib__rec_bytes(out, SNIB__F_REQUEST, request->text, request->size);
    snib__rec_i64(out, SNIB__F_RANK, inspect_word_i64(p, end, 3));
    snib__rec_i64(out, SNIB__F_LEFT, alive - now_ms);
    snib__rec_i64(out, SNIB__F_KIND, inspect_word_i64(p, end, 7));
    snib__rec_i64(out, SNIB__F_PERMITS, inspect_word_i64(p, end, 8));
    if (inspect_since_of(p, end, now_ms, &age)) {
        snib__rec_i64(out, SNIB__F_AGE, age);
    }
    inspect_about(out, p, end, 9);
}

/* True: an array of texts only. The rows are read as texts, whose `size` counts
 * bytes, so nothing else may pass. */
static bool inspect_is_texts(const struct snib__resp_cell *array)
{
    if (!array || array->type != SNIB__RESP_ARRAY) {
        return false;
    }
    for (uint32_t i = 1; i <= array->size; i++) {
        if (array[i].type != SNIB__RESP_STRING) {
            return false;
        }
    }
    return true;
}

/* Write one reply of inspect.lua as rows. first: begin with the row of the lock
 * itself. False: this is no reply of our script. */
bool snib__inspect_rows(struct snib__redis *s, struct snib__request *rq,
                        const char *safe, size_t size,
                        const struct snib__resp_cell *c, bool first)
{
    const struct snib__resp_cell *holders = snib__resp_at(c, 3);
    const struct snib__resp_cell *waiters = snib__resp_at(c, 4);
    struct snib__buf *out = rq->result;
    int64_t now_ms, token, alive;
    (void)s;
    if (!snib__resp_number(snib__resp_at(c, 0), &now_ms) ||
        !snib__resp_number(snib__resp_at(c, 1), &token) || now_ms < 0 ||
        token < 0 || !inspect_is_texts(holders) || !inspect_is_texts(waiters)) {
        return false;
    }
    if (first) {
        char raw[SNIB_NAME_MAX];
        size_t raw_size = snib__name_decode(safe, size, raw);
        snib__rec_row(out, SNIB__ROW_LOCK);
        snib__rec_bytes(out, SNIB__F_NAME, raw_size ? raw : safe,
                        raw_size ? raw_size : size);
        snib__rec_i64(out, SNIB__F_TOKEN, token);
    }
    const struct snib__resp_cell *e = holders + 1;
    for (uint32_t i = 0; i + 1 < holders->size; i += 2, e += 2) {
        inspect_holder_row(out, now_ms, e, e + 1);
    }
    e = waiters + 1;
    for (uint32_t i = 0; i + 2 < waiters->size; i += 3, e += 3) {
        if (snib__resp_number(e + 1, &alive) && alive >= 0) {
            inspect_waiter_row(out, now_ms, alive, e, e + 2);
        }
    }
    return true;
}

/* -- INSPECT --------------------------------------------------------------- */

static void inspect_finish(struct snib__redis *s, struct inspection *k)
{
    struct snib__request *rq = k->rq;
    if (rq->result->failed) {
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
        snprintf(text, sizeof text, "redis: look at %.*s: %s",
                 (int)(size < 80 ? size : 80), name, what);
        s->out->log(s->out->log_data, SNIB_LOG_WARN, text);
    }
}

static void inspect_say_more(struct snib__redis *s, const struct inspection *k,
                             const char *name, uint32_t size, int64_t more)
{
    char text[80];
    snib__rec_row(k->rq->result, SNIB__ROW_MORE);
    snib__rec_i64(k->rq->result, SNIB__F_COUNT, more);
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
    if ((k->step < all || (crowd && !enough)) && !k->rq->result->failed &&
        snib__session_has_room(s, i, 1)) {
        inspect_ask(s, now, i, k, n->safe, n->safe_size, false);
    } else {
        inspect_finish(s, k);
    }
}

/* -- LIST ------------------------------------------------------------------ */

static uint64_t inspect_hash(const char *p, size_t n)
{
    uint64_t h = UINT64_C(14695981039346656037);
    while (n--) {
        h = (h ^ (uint8_t)*p++) * UINT64_C(1099511628211);
    }
    return h ^ h >> 29;
}

/* An entry of names is its length (u32) and its bytes. */
static const char *inspect_entry(const struct inspection *k, uint32_t offset,
                                 uint32_t *size)
{
    const uint8_t *p = snib__buf_bytes(&k->names) + offset;
    memcpy(size, p, sizeof *size);
    return (const char *)p + sizeof *size;
}

static bool inspect_widen(struct inspection *k)
{
    uint32_t size = k->table_size ? 2 * k->table_size : 64;
    uint32_t *table = snib__alloc(size * sizeof *table);
    if (!table) {
        return false;
    }
    for (uint32_t i = 0; i < k->table_size; i++) {
        if (k->table[i]) {
            uint32_t n;
            const char *name = inspect_entry(k, k->table[i] - 1, &n);
            uint64_t at = inspect_hash(name, n);
            while (table[at & (size - 1)]) {
                at++;
            }
            table[at & (size - 1)] = k->table[i];
        }
    }
    snib__free(k->table);
    k->table = table;
    k->table_size = size;
    return true;
}

static bool inspect_add_name(struct inspection *k, const char *safe,
                             uint32_t size)
{
    uint32_t n;
    if (2 * (k->name_count + 1) > k->table_size && !inspect_widen(k)) {
        return false;
    }
    uint64_t at = inspect_hash(safe, size);
    for (;; at++) {
        uint32_t *slot = &k->table[at & (k->table_size - 1)];
        if (!*slot) {
            *slot = (uint32_t)snib__buf_size(&k->names) + 1;
            k->name_count++;
            snib__buf_add(&k->names, &size, sizeof size);
            snib__buf_add(&k->names, safe, size);
            return !k->names.failed;
        }
        const char *name = inspect_entry(k, *slot - 1, &n);
        if (n == size && !memcmp(name, safe, size)) {
            return true;
        }
    }
}

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
    return !take || inspect_add_name(k, p, (uint32_t)(end - p));
}

static void inspect_more(struct snib__redis *s, snib_instant now, int i,
                         struct inspection *k)
{
    while (k->awaited < AHEAD && k->shown < snib__buf_size(&k->names) &&
           snib__session_has_room(s, i, 1)) {
        uint32_t n;
        const char *name = inspect_entry(k, k->shown, &n);
        bool first = k->shown == 0;
        k->shown += n + (uint32_t)sizeof n;
        inspect_ask(s, now, i, k, name, n, first);
    }
    if (!k->awaited) {
        k->busy.ns += snib__between(k->sent, now).ns;
        k->rq->left = k->busy;
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

bool snib__inspect_leaves_out(struct snib__redis *s, snib_instant now, int i,
                              struct snib__request *rq, const char *why)
{
    struct inspection *k = inspect_find(s, rq);
    uint32_t n;
    if (!k || rq->verb != SNIB__LIST || !k->scanned) {
        return false;
    }
    const char *name = inspect_entry(k, (uint32_t)k->cursor, &n);
    inspect_say(s, name, n, why);
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
    const char *name = inspect_entry(k, (uint32_t)k->cursor, &n);
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
    if (k->rq->result->failed) {
        inspect_finish(s, k);
        return;
    }
    inspect_more(s, now, i, k);
}

void snib__inspect_reply(struct snib__redis *s, snib_instant now, int i,
                         struct snib__request *rq,
                         const struct snib__resp_cell *c)
{
    struct inspection *k = inspect_find(s, rq);
    if (!k) {
        return;
    }
    k->awaited--;
    switch (rq->verb) {
    case SNIB__INSPECT:
        inspect_inspected(s, now, i, k, c);
        break;
    case SNIB__LIST:
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
        break;
    }
}
