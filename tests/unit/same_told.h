/* tests/unit/same_told.h — what a store says and does, as two numbers: what
 * another store has to say, too, and all.
 *
 * All: tokens, rows, words, who was notified of what by which step, each
 * statement of SQLite and what its steps answer (what is kept in memory is not
 * asked for again), and what the file has in the end. */
#ifndef SNIB_TESTS_SAME_TOLD_H
#define SNIB_TESTS_SAME_TOLD_H

#include <time.h>

#include "same_list.h"
#include "sqlite_store.h"

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __real_sqlite3_step(sqlite3_stmt *st);
int __wrap_sqlite3_step(sqlite3_stmt *st);
int __real_sqlite3_prepare_v3(sqlite3 *db, const char *text, int size,
                              unsigned flags, sqlite3_stmt **ret,
                              const char **ret_tail);
int __wrap_sqlite3_prepare_v3(sqlite3 *db, const char *text, int size,
                              unsigned flags, sqlite3_stmt **ret,
                              const char **ret_tail);

static int64_t now_us;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    int64_t us = now_us + (clock == CLOCK_REALTIME ? 1790000000000000 : 0);
    *ret = (struct timespec){.tv_sec = us / 1000000,
                             .tv_nsec = us % 1000000 * 1000};
    return 0;
}

/* What was said so far. */
static struct told {
    uint64_t shown; /* the same on both stores                              */
    uint64_t all;
    bool shows;
    char last[300];
} told;

static void stir(uint64_t *h, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < size; i++) {
        *h = (*h ^ p[i]) * 1099511628211u;
    }
    *h = (*h ^ size) * 1099511628211u;
    *h ^= *h >> 29;
}

/* SQLite makes statements of its own. */
static bool is_of_a_peer(const sqlite3_stmt *st)
{
    for (int i = 0; i < PEERS && kit.ops == &snib__sqlite_ops; i++) {
        for (int k = 0; kit.peer[i].inst && k < SNIB__ST_COUNT; k++) {
            if (self_of(i)->db.st[k] == st) {
                return true;
            }
        }
    }
    return false;
}

int __wrap_sqlite3_step(sqlite3_stmt *st)
{
    int rc = __real_sqlite3_step(st);
    if (is_of_a_peer(st)) {
        const char *text = sqlite3_sql(st);
        stir(&told.all, text, text ? strlen(text) : 0);
        stir(&told.all, &rc, sizeof rc);
    }
    return rc;
}

int __wrap_sqlite3_prepare_v3(sqlite3 *db, const char *text, int size,
                              unsigned flags, sqlite3_stmt **ret,
                              const char **ret_tail)
{
    stir(&told.all, "prepared", 8);
    return __real_sqlite3_prepare_v3(db, text, size, flags, ret, ret_tail);
}

/* -- a request ----------------------------------------------------------------- */

struct asked {
    struct snib__request *r;
    struct snib_error error;
    struct snib__buf rows;
};

static void prepare(struct asked *a, struct snib__request *r)
{
    a->r = r;
    a->error = (struct snib_error){0};
    snib__buf_init(&a->rows, 1 << 20);
    r->said.reterr = &a->error;
    r->said.result = &a->rows;
    /* A waiter asks by what it was told last. */
    r->said.answer =
        r->said.answer == SNIB__QUEUED ? SNIB__QUEUED : SNIB__PENDING;
    r->said.err = SNIB_ERR_OK;
}

static void tell(const struct snib__request *r)
{
    const struct snib_error *e = r->said.reterr;
    bool asked = r->said.answer == SNIB__QUEUED || r->said.answer == SNIB__DONE;
    int n = snprintf(told.last, sizeof told.last,
                     "%d: %d %d, %u %u %u, %lld left, %d %d%d%d", (int)r->verb,
                     (int)r->said.answer, (int)r->said.err, r->said.position,
                     asked ? r->said.slot : 0, asked ? r->acquire.permits : 0,
                     (long long)r->said.left.ns, r->said.granted != 0,
                     r->said.revoked, r->said.far, r->resent);
    if (told.shows) {
        printf("%s kind %d name %s %s, %s\n", kit.ops->scheme,
               (int)r->acquire.kind, r->name ? r->name->raw : "", told.last,
               e->text);
        fflush(stdout);
    }
    stir(&told.shown, told.last, (size_t)n);
    stir(&told.all, told.last, (size_t)n);
    stir(&told.all, &r->token, sizeof r->token);
    stir(&told.all, &r->said.granted, sizeof r->said.granted);
    if (r->said.answer != SNIB__DONE) {
        stir(&told.all, e->text, strlen(e->text));
    }
}

static void finish(struct asked *a)
{
    tell(a->r);
    stir(&told.all, snib__buf_size(&a->rows) ? snib__buf_bytes(&a->rows) : NULL,
         snib__buf_size(&a->rows));
    snib__buf_free(&a->rows);
    a->r->said.result = NULL;
}

/* Whose bell has something to read, and on which sockets' account. */
static void tell_bells(int clients)
{
    for (int i = 0; i < clients; i++) {
        struct pollfd p = {.fd = kit.ops->notifier_fd(kit.peer[i].inst),
                           .events = POLLIN};
        int what = p.fd < 0 ? -1 : poll(&p, 1, 0) == 1 ? p.revents : 0;
        stir(&told.all, &what, sizeof what);
    }
}

/* All that the file has; of the process only whether it is this one. */
static void tell_rows(void)
{
    static const char *const queries[] = {
        "SELECT name, size, token, gate, shares FROM lock",
        "SELECT name, client, request, kind, permits, holds, state, token, "
        "room, floor, lease, until, about, rank, delay, beside, slot, "
        "bell, pid > 0, start > 0, pidns > 0 FROM claim",
        "SELECT name, until, record, bytes FROM value",
        "SELECT key, value FROM meta WHERE key <> 'boot'"};
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    for (size_t i = 0; i < COUNT_OF(queries); i++) {
        if (sqlite3_prepare_v2(db, queries[i], -1, &st, NULL)) {
            continue; /* no value was written yet */
        }
        while (sqlite3_step(st) == SQLITE_ROW) {
            for (int k = 0; k < sqlite3_column_count(st); k++) {
                const void *bytes = sqlite3_column_blob(st, k);
                stir(&told.all, bytes, (size_t)sqlite3_column_bytes(st, k));
            }
        }
        sqlite3_finalize(st);
    }
    sqlite3_close(db);
}

#endif
