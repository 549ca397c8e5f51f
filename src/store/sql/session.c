/* store/sql/session.c — a session of a store in a database: what its connection
 * is known to be, and scripts on it. */
#include "base/error.h"
#include "base/mem.h"
#include "store/sql/tables.h"

enum {
    SESSION_PAUSE_MS = 20,
    SESSION_PAUSE_MAX_MS = 1000,
    /* A statement is executed at most so long after its sending. With the time
     * that it may wait for a lock this is less than a tombstone lasts. */
    SESSION_LATE_US = 5000000,
    SESSION_ROWS_MAX = 64 << 20
};

void snib__sql_session_init(struct snib__sql_session *s,
                            const struct snib__sql_driver *driver,
                            const char *what, const struct snib__sql_link *link,
                            struct snib__sql_conn *conn,
                            const uint64_t client[2],
                            const struct snib__store_config *config,
                            uint64_t number)
{
    s->link = link;
    s->conn = conn;
    s->client = client;
    snib__sql_init(&s->sql, driver, what, config, number);
    snib__sql_script_init(&s->script);
    snib__buf_init(&s->rows, SESSION_ROWS_MAX);
}

void snib__sql_session_free(struct snib__sql_session *s)
{
    snib__sql_script_free(&s->script);
    snib__buf_free(&s->rows);
    snib__free(s->fetched);
    snib__sql_free(&s->sql);
}

bool snib__sql_may_connect(const struct snib__sql_conn *k, snib_instant now,
                           struct snib_error *ret)
{
    if (snib__reached(now, k->not_before)) {
        return true;
    }
    *ret = k->why;
    return false;
}

void snib__sql_connected(struct snib__sql_conn *k, snib_instant now,
                         snib__sql_end end, const struct snib_error *fault)
{
    int64_t ms = SESSION_PAUSE_MS;
    k->end = end;
    k->ready = end == SNIB__SQL_OK;
    k->failures = k->ready ? 0 : k->failures + 1;
    if (k->ready) {
        return;
    }
    for (uint32_t i = 1; i < k->failures && ms < SESSION_PAUSE_MAX_MS; i++) {
        ms *= 2;
    }
    ms = ms < SESSION_PAUSE_MAX_MS ? ms : SESSION_PAUSE_MAX_MS;
    k->not_before = snib__after(now, snib__ms(ms));
    k->why = *fault;
}

snib__sql_end snib__sql_connect(struct snib__sql_session *s)
{
    struct snib__sql_conn *k = s->conn;
    if (k->ready) {
        return SNIB__SQL_OK;
    }
    if (snib__sql_may_connect(k, s->sql.driver->now(), &s->sql.fault)) {
        snib__sql_end end = s->link->connect(s);
        if (end == SNIB__SQL_LOST || end == SNIB__SQL_CONFLICT) {
            end = SNIB__SQL_DOWN; /* nobody's request was in it */
        }
        snib__sql_connected(k, s->sql.driver->now(), end, &s->sql.fault);
    }
    return k->end;
}

void snib__sql_heard_clock(struct snib__sql_conn *k, snib_instant now,
                           int64_t now_us)
{
    k->ahead_us = now_us - now.ns / 1000;
}

int64_t snib__sql_not_after(const struct snib__sql_conn *k, snib_instant now)
{
    return now.ns / 1000 + k->ahead_us + SESSION_LATE_US;
}

snib__sql_end snib__sql_reach(struct snib__sql *q)
{
    struct snib__sql_session *s = snib__sql_session_of(q);
    struct snib__sql_conn *k = s->conn;
    if (k->ready && !k->inside && s->link->is_cut(s)) {
        s->link->quit(s);
    }
    return snib__sql_connect(s);
}

snib__sql_end snib__sql_script_run(struct snib__sql_session *s,
                                   uint32_t certain)
{
    snib__sql_end end = snib__sql_reach(&s->sql);
    return end ? end : s->link->run(s, certain);
}

/* The order in which everybody locks names. */
int snib__sql_compare(const struct snib__name *a, const struct snib__name *b)
{
    uint32_t n = a->raw_size < b->raw_size ? a->raw_size : b->raw_size;
    int c = memcmp(a->raw, b->raw, n);
    return c ? c : (a->raw_size > b->raw_size) - (a->raw_size < b->raw_size);
}
