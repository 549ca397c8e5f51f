/* tests/unit/quorum_rows.h — what a member shows of its locks, by dice. */
#ifndef SNIB_TESTS_UNIT_QUORUM_ROWS_H
#define SNIB_TESTS_UNIT_QUORUM_ROWS_H

#include "same_dice.h"

static void row_i64(struct snib__buf *b, enum snib__field field, int64_t value)
{
    if (!one_in(12)) {
        snib__rec_i64(b, field, value);
    }
}

static void row_text(struct snib__buf *b, enum snib__field field,
                     const char *text)
{
    if (!one_in(12)) {
        snib__rec_text(b, field, text);
    }
}

/* Some that a member may show, and that say nothing of who holds. */
static void put_others_fields(struct snib__buf *b)
{
    static const enum snib__field fields[] = {
        SNIB__F_NAME,  SNIB__F_LEVEL, SNIB__F_COUNT, SNIB__F_SIZE,
        SNIB__F_LATCH, SNIB__F_RANK,  SNIB__F_SLOT,  SNIB__F_WAITING};
    snib__rec_i64(b, fields[below(COUNT_OF(fields))], 77);
}

static void put_client(struct snib__buf *b, const char *owner)
{
    static const char *const abouts[] = {"", "a", "bb", "cc", "long one"};
    enum snib__row row = one_in(4)    ? SNIB__ROW_WAITER
                         : one_in(30) ? SNIB__ROW_CLOSED
                         : one_in(30) ? SNIB__ROW_MORE
                                      : SNIB__ROW_HOLDER;
    snib__rec_row(b, row);
    if (one_in(3)) {
        snib__rec_text(b, SNIB__F_ABOUT, abouts[below(5)]);
    }
    snib__rec_text(b, SNIB__F_CLIENT, owner);
    if (!one_in(12)) {
        snib__rec_i64(b, SNIB__F_TOKEN, ANY_OF(5, 5, 5, 6, 7, 8));
    }
    snib__rec_i64(b, SNIB__F_LEFT, ANY_OF(0, 100, 100, 200, 900, 5000, -3));
    if (one_in(6)) {
        put_others_fields(b);
    }
    row_i64(b, SNIB__F_KIND, ANY_OF(0, 0, 0, 1, 2));
    row_i64(b, SNIB__F_PERMITS, ANY_OF(1, 1, 2));
    row_i64(b, SNIB__F_HOLDS, ANY_OF(1, 1, 2, 3));
    row_text(b, SNIB__F_REQUEST, one_in(2) ? "0123456789abcdef" : "fe");
    if (!one_in(3)) {
        snib__rec_i64(b, SNIB__F_AGE, ANY_OF(0, 5, 5, 10, 4000, -1));
    }
}

static void put_lock(struct snib__buf *b, const char *name)
{
    static const char *const owners[] = {"A", "B", "C", "AB", ""};
    int clients = (int)ANY_OF(0, 1, 1, 1, 2, 2, 3, 4);
    snib__rec_row(b, SNIB__ROW_LOCK);
    if (one_in(3)) {
        row_i64(b, SNIB__F_TOKEN, ANY_OF(5, 6, 7, 8, 9));
        row_text(b, SNIB__F_NAME, name);
    } else {
        row_text(b, SNIB__F_NAME, name);
        row_i64(b, SNIB__F_TOKEN, ANY_OF(5, 6, 7, 8, 9));
    }
    for (int i = 0; i < clients; i++) {
        put_client(b, owners[one_in(2) ? 0 : below(COUNT_OF(owners))]);
    }
    if (one_in(60)) {
        int crowd = (int)ANY_OF(62, 63, 64, 65, 80);
        for (int i = 0; i < crowd; i++) {
            char owner[8];
            snprintf(owner, sizeof owner, "X%d", i);
            put_client(b, owner);
        }
    }
}

static void put_locks(struct snib__buf *b, const char *only)
{
    static const char *const names[] = {"a", "ab", "b", "a", "abc", ""};
    int locks = (int)ANY_OF(0, 1, 1, 1, 2, 3, 5);
    if (one_in(20)) { /* before the first lock: nobody's */
        put_client(b, "A");
    }
    for (int i = 0; i < locks; i++) {
        put_lock(b, only && !one_in(8) ? only : names[below(6)]);
        if (only && !one_in(6)) {
            break;
        }
    }
}

static void put_findings(struct snib__buf *b)
{
    static const size_t sizes[] = {0, 1, 20, 399, 400, 401, 600};
    static char text[601];
    int findings = (int)ANY_OF(0, 1, 1, 2, 3);
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < findings; i++) {
        snib__rec_row(b, SNIB__ROW_FINDING);
        row_i64(b, SNIB__F_LEVEL, (int64_t)below(3));
        row_text(b, SNIB__F_CHECK, "version");
        if (!one_in(8)) {
            snib__rec_bytes(b, SNIB__F_TEXT, text,
                            sizes[below(COUNT_OF(sizes))]);
        }
        row_text(b, SNIB__F_REMEDY, one_in(2) ? "" : "mend it");
    }
}

static void put_rows(const struct snib__request *rq)
{
    struct snib__buf *b = rq->said.result;
    switch (rq->verb) {
    case SNIB__INSPECT:
    case SNIB__LIST:
        put_locks(b, rq->name ? rq->name->raw : NULL);
        break;
    case SNIB__DOCTOR:
        put_findings(b);
        break;
    default: /* FORCE */
        for (int i = (int)ANY_OF(0, 1, 1, 1, 1, 2); i > 0; i--) {
            snib__rec_row(b, SNIB__ROW_COUNT);
            row_i64(b, SNIB__F_COUNT, ANY_OF(0, 1, 1, 2, 7, -1));
        }
    }
    if (one_in(15) && snib__buf_size(b) > 4) { /* damaged */
        b->end -= 1 + below(4);
    }
}

#endif
