/* store/redis/inspect_rows.c — a reply of inspect.lua, as rows. */
#include <string.h>

#include "core/about.h"
#include "store/redis/inspect_i.h"

/* Skip n words, each with the space behind it; NULL: there are fewer. */
static const char *inspect_rows_words(const char *p, const char *end, int n)
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

static int64_t inspect_rows_word_i64(const char *p, const char *end, int n)
{
    int64_t v = 0;
    p = inspect_rows_words(p, end, n);
    for (int i = 0; p && p < end && i < 18 && *p >= '0' && *p <= '9'; i++) {
        v = v * 10 + (*p++ - '0');
    }
    return v;
}

static void inspect_rows_about(struct snib__buf *out, const char *p,
                               const char *end, int n)
{
    p = inspect_rows_words(p, end, n);
    if (p) {
        snib__rec_bytes(out, SNIB__F_ABOUT, p, (size_t)(end - p));
    }
}

/* Of a word like "1,d5000,b…,s3" the lock-delay (which: d), the slot (s), or how
 * long it may be kept (k). */
static int64_t inspect_rows_term_of(const char *p, const char *end, char which,
                                    int64_t none)
{
    int64_t v = 0;
    p = inspect_rows_words(p, end, 4);
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
static void inspect_rows_holder_row(struct snib__buf *out, int64_t now_ms,
                                    const struct snib__resp_cell *client_id,
                                    const struct snib__resp_cell *record)
{
    const char *p = record->text, *end = p + record->size;
    int64_t left = inspect_rows_word_i64(p, end, 2) - now_ms;
    int64_t delay = left <= 0 ? inspect_rows_term_of(p, end, 'd', 0) : 0;
    bool over = delay > 0; /* the lease is over, and its lock-delay runs */
    left += delay;
    snib__rec_row(out, over ? SNIB__ROW_CLOSED : SNIB__ROW_HOLDER);
    /* "<client>" or "<client>:<request>" */
    snib__rec_bytes(out, SNIB__F_CLIENT, client_id->text,
                    client_id->size > 32 ? 32 : client_id->size);
    snib__rec_bytes(out, SNIB__F_REQUEST, p, record->size < 32 ? 0 : 32);
    snib__rec_i64(out, SNIB__F_TOKEN, inspect_rows_word_i64(p, end, 1));
    snib__rec_i64(out, SNIB__F_LEFT, left);
    snib__rec_i64(out, SNIB__F_KIND, inspect_rows_word_i64(p, end, 3));
    snib__rec_i64(out, SNIB__F_PERMITS, inspect_rows_word_i64(p, end, 4));
    snib__rec_i64(out, SNIB__F_SLOT, inspect_rows_term_of(p, end, 's', -1));
    int64_t keep_ms = inspect_rows_term_of(p, end, 'k', 0);
    if (keep_ms) {
        snib__rec_i64(out, SNIB__F_KEEP, keep_ms);
    }
    snib__rec_i64(out, SNIB__F_HOLDS, 1);
    int64_t since = inspect_rows_word_i64(p, end, 5);
    if (since > 1 && since <= now_ms) { /* 1: an earlier version wrote it */
        snib__rec_i64(out, SNIB__F_AGE, now_ms - since);
        snib__rec_i64(out, SNIB__F_SINCE, since);
    }
    inspect_rows_about(out, p, end, 7);
}

/* How long a waiter has been waiting. Both instants are the server's. */
static bool inspect_rows_since_of(const char *p, const char *end,
                                  int64_t now_ms, int64_t *ret)
{
    struct snib__about about;
    p = inspect_rows_words(p, end, 9);
    if (!p) {
        return false;
    }
    snib__about_read(p, (size_t)(end - p), &about);
    *ret = now_ms - about.since_ms;
    return about.since_ms > 0 && about.since_ms <= now_ms;
}

/* A waiter's record: "client channel poll rank lease reserve floor mode permits
 * about". */
static void inspect_rows_waiter_row(struct snib__buf *out, int64_t now_ms,
                                    int64_t alive,
                                    const struct snib__resp_cell *request,
                                    const struct snib__resp_cell *record)
{
    const char *p = record->text, *end = p + record->size;
    int64_t age;
    const char *blank = memchr(p, ' ', record->size);
    snib__rec_row(out, SNIB__ROW_WAITER);
    snib__rec_bytes(out, SNIB__F_CLIENT, p, blank ? (size_t)(blank - p) : 0);
    snib__rec_bytes(out, SNIB__F_REQUEST, request->text, request->size);
    snib__rec_i64(out, SNIB__F_RANK, inspect_rows_word_i64(p, end, 3));
    snib__rec_i64(out, SNIB__F_LEFT, alive - now_ms);
    snib__rec_i64(out, SNIB__F_KIND, inspect_rows_word_i64(p, end, 7));
    snib__rec_i64(out, SNIB__F_PERMITS, inspect_rows_word_i64(p, end, 8));
    if (inspect_rows_since_of(p, end, now_ms, &age)) {
        snib__rec_i64(out, SNIB__F_AGE, age);
        snib__rec_i64(out, SNIB__F_SINCE, now_ms - age);
    }
    inspect_rows_about(out, p, end, 9);
}

/* True: an array of texts only. The rows are read as texts, whose `size` counts
 * bytes, so nothing else may pass. */
static bool inspect_rows_is_texts(const struct snib__resp_cell *array)
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
    struct snib__buf *out = rq->said.result;
    int64_t now_ms, token, alive, closed, ahead, missing;
    (void)s;
    if (!snib__resp_number(snib__resp_at(c, 0), &now_ms) ||
        !snib__resp_number(snib__resp_at(c, 1), &token) || now_ms < 0 ||
        token < 0 || !inspect_rows_is_texts(holders) ||
        !inspect_rows_is_texts(waiters)) {
        return false;
    }
    if (first) {
        char raw[SNIB_NAME_MAX];
        size_t raw_size = snib__name_decode(safe, size, raw);
        snib__rec_row(out, SNIB__ROW_LOCK);
        snib__rec_bytes(out, SNIB__F_NAME, raw_size ? raw : safe,
                        raw_size ? raw_size : size);
        snib__rec_i64(out, SNIB__F_TOKEN, token);
        if (snib__resp_number(snib__resp_at(c, 7), &closed)) {
            snib__rec_i64(out, SNIB__F_LEFT, closed);
        }
        if (snib__resp_number(snib__resp_at(c, 8), &ahead)) {
            snib__rec_i64(out, SNIB__F_COUNT, ahead);
        }
        if (snib__resp_number(snib__resp_at(c, 9), &missing)) {
            snib__rec_i64(out, SNIB__F_MISSING, missing);
        }
    }
    const struct snib__resp_cell *e = holders + 1;
    for (uint32_t i = 0; i + 1 < holders->size; i += 2, e += 2) {
        inspect_rows_holder_row(out, now_ms, e, e + 1);
    }
    e = waiters + 1;
    for (uint32_t i = 0; i + 2 < waiters->size; i += 3, e += 3) {
        if (snib__resp_number(e + 1, &alive) && alive >= 0) {
            inspect_rows_waiter_row(out, now_ms, alive, e, e + 2);
        }
    }
    return true;
}
