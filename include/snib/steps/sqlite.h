/* snib/steps/sqlite.h — a step of snib_version_update for SQLite.
 *
 * Your program compiles this header with SQLite's and links both libraries:
 * cc … $(pkg-config --cflags --libs snib sqlite3). libsnib needs no SQLite for
 * it. C99, C++.
 *
 *   struct snib_sqlite_update item = {0};
 *   item.connection = connection;
 *   item.read = read_stock;          // SELECT version, stock …
 *   item.write = write_stock;        // UPDATE … WHERE id = ? AND version = ?
 *   item.data = &stock;
 *   err = snib_version_update(&options, snib_sqlite_step, &item, NULL, NULL,
 *                             &e);
 *
 * examples/version_sqlite.c is complete. The connection is yours. It must not be
 * in a transaction, for the step begins and ends its own. Let its busy timeout be
 * 0 or short (sqlite3_busy_timeout): the pauses are the library's, and a wait
 * inside SQLite knows nothing of the update's limit. */
#ifndef SNIB_STEPS_SQLITE_H
#define SNIB_STEPS_SQLITE_H

#include <sqlite3.h>

#include "step.h"

/* What to do with the row, in SQL of your own. Each function answers as a step
 * does (snib_version_update); snib_sqlite_row and snib_sqlite_changed make that
 * of what sqlite3_step returned. They get `data`, and may be called once for each
 * attempt. Each resets its statements, so that no read goes on. */
struct snib_sqlite_update {
    sqlite3 *connection;
    /* Read the row with its version, and compute. Outside of a transaction, so
     * others may write meanwhile. 1: go on, write. NULL: there is nothing to
     * read. */
    int (*read)(void *data, sqlite3 *, struct snib_version_attempt *);
    /* The UPDATE, and what else belongs to the change. In a transaction (BEGIN
     * IMMEDIATE), which is committed after 1, else rolled back. */
    int (*write)(void *data, sqlite3 *, struct snib_version_attempt *);
    /* The disk failed in the commit: read the row, and answer snib_step_stands.
     * In a transaction (BEGIN IMMEDIATE); write nothing. NULL: the update ends
     * with UNKNOWN in that case. Leave it NULL if the row is in an attached
     * database: what is found is made sure of in the main one only. */
    int (*stands)(void *data, sqlite3 *, struct snib_version_attempt *);
    void *data;
};

static inline snib_err snib__sqlite_means(int code)
{
    switch (code & 0xff) {
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return SNIB_ERR_DENIED;
    case SQLITE_NOMEM:
        return SNIB_ERR_NOMEM;
    case SQLITE_INTERRUPT:
        return SNIB_ERR_CANCELLED;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return SNIB_ERR_CORRUPT;
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
        return SNIB_ERR_USAGE;
    default:
        return SNIB_ERR_STORE;
    }
}

/* What an error means. code is what SQLite returned; its text is that of the
 * connection. Returns what the step answers. */
static inline int snib_sqlite_error(struct snib_version_attempt *attempt,
                                    sqlite3 *connection, int code)
{
    int kind = code & 0xff;
    if (kind == SQLITE_BUSY || kind == SQLITE_LOCKED ||
        kind == SQLITE_PROTOCOL) {
        return snib_step_again(attempt, SNIB_ERR_OK, sqlite3_errstr(code),
                               sqlite3_errmsg(connection));
    }
    return snib_step_fails(attempt, snib__sqlite_means(code),
                           sqlite3_errstr(code), sqlite3_errmsg(connection));
}

/* A SELECT of one row, of which sqlite3_step returned code: 1, it is there. Else
 * an answer of the step: there is no such row, or what the error means. */
static inline int snib_sqlite_row(struct snib_version_attempt *attempt,
                                  sqlite3 *connection, int code)
{
    if (code == SQLITE_ROW) {
        return 1;
    }
    return code == SQLITE_DONE ? snib_step_missing(attempt)
                               : snib_sqlite_error(attempt, connection, code);
}

/* An UPDATE, of which sqlite3_step (or sqlite3_exec) returned code: 1 or 0, so
 * many rows were changed; or what the error means. */
static inline int snib_sqlite_changed(struct snib_version_attempt *attempt,
                                      sqlite3 *connection, int code)
{
    return code == SQLITE_DONE || code == SQLITE_OK
               ? snib_step_changed(attempt, sqlite3_changes(connection))
               : snib_sqlite_error(attempt, connection, code);
}

/* May a COMMIT that failed so have written all of it? What is full or fails then
 * has perhaps failed behind the last write: only the file knows. */
static inline bool snib__sqlite_is_in_doubt(int code)
{
    switch (code & 0xff) {
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_CANTOPEN:
    case SQLITE_CORRUPT:
        return true;
    default:
        return false;
    }
}

/* A busy file leaves the transaction open, and it is rolled back. */
static inline int snib__sqlite_commit(struct snib_sqlite_update *u,
                                      struct snib_version_attempt *attempt)
{
    int code = sqlite3_exec(u->connection, "COMMIT", NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        return 1;
    }
    return snib__sqlite_is_in_doubt(code)
               ? snib_step_fails(attempt, SNIB_ERR_UNKNOWN,
                                 sqlite3_errstr(code),
                                 sqlite3_errmsg(u->connection))
               : snib_sqlite_error(attempt, u->connection, code);
}

/* What the question has found must not change any more. But what is in the file
 * and what the connection reads may differ: of a log (WAL) whose sync failed in
 * the commit nothing is seen, and who opens the file after a crash takes it for
 * committed; a journal that was deleted may come back. A commit after it ends
 * both. It is one of a change that is none. */
static inline int snib__sqlite_confirm(struct snib_sqlite_update *u,
                                       struct snib_version_attempt *attempt)
{
    sqlite3_stmt *s = NULL;
    char text[48];
    int code =
        sqlite3_prepare_v2(u->connection, "PRAGMA user_version", -1, &s, NULL);
    if (code == SQLITE_OK && (code = sqlite3_step(s)) == SQLITE_ROW) {
        snprintf(text, sizeof text, "PRAGMA user_version = %d; COMMIT",
                 sqlite3_column_int(s, 0));
        sqlite3_finalize(s);
        code = sqlite3_exec(u->connection, text, NULL, NULL, NULL);
    } else {
        sqlite3_finalize(s);
    }
    return code == SQLITE_OK
               ? 1
               : snib_step_again(attempt, SNIB_ERR_OK, sqlite3_errstr(code),
                                 sqlite3_errmsg(u->connection));
}

/* In a transaction: the write, or the question. */
static inline int snib__sqlite_transact(struct snib_sqlite_update *u,
                                        struct snib_version_attempt *attempt)
{
    int code = sqlite3_exec(u->connection, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (code != SQLITE_OK) {
        return snib_sqlite_error(attempt, u->connection, code);
    }
    int answer = attempt->ask ? u->stands(u->data, u->connection, attempt)
                              : u->write(u->data, u->connection, attempt);
    if (answer == 1 && !attempt->ask) {
        answer = snib__sqlite_commit(u, attempt);
    } else if (answer >= 0 && attempt->ask) {
        int sure = snib__sqlite_confirm(u, attempt);
        answer = sure == 1 ? answer : sure;
    }
    if (!sqlite3_get_autocommit(u->connection)) {
        (void)sqlite3_exec(u->connection, "ROLLBACK", NULL, NULL, NULL);
    }
    return answer;
}

/* The step: snib_version_update(&options, snib_sqlite_step, &update, …), data
 * being a struct snib_sqlite_update. */
static inline int snib_sqlite_step(void *data,
                                   struct snib_version_attempt *attempt)
{
    struct snib_sqlite_update *u = (struct snib_sqlite_update *)data;
    int answer = 1;
    attempt->asks = u->stands != NULL;
    if (!sqlite3_get_autocommit(u->connection)) {
        return snib_step_fails(attempt, SNIB_ERR_USAGE,
                               "the connection is in a transaction; the step "
                               "begins and ends one of its own",
                               NULL);
    }
    if (!attempt->ask && u->read) {
        answer = u->read(u->data, u->connection, attempt);
    }
    return answer == 1 ? snib__sqlite_transact(u, attempt) : answer;
}

#endif
