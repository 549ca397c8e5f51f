/* snib/steps/libpq.h — a step of snib_version_update for PostgreSQL, by libpq.
 *
 * Your program compiles this header with libpq's and links both libraries:
 * cc … $(pkg-config --cflags --libs snib libpq). libsnib needs no libpq for it.
 * C99, C++.
 *
 *   struct snib_pq_update item = {0};
 *   item.connection = connection;
 *   item.read = read_stock;          // SELECT version, stock …
 *   item.write = write_stock;        // UPDATE … WHERE id = $1 AND version = $2
 *   item.stands = stock_stands;      // SELECT version, attempt … FOR UPDATE
 *   item.data = &stock;
 *   err = snib_version_update(&options, snib_pq_step, &item, NULL, NULL, &e);
 *
 * examples/version_postgres.c is complete. The connection is yours: its limits
 * count (tcp_user_timeout, connect_timeout: a server that is silent keeps a call
 * for as long as they say), its isolation level does, and so do its settings. It
 * must not be in a transaction, for the step begins and ends its own. */
#ifndef SNIB_STEPS_LIBPQ_H
#define SNIB_STEPS_LIBPQ_H

#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "step.h"

/* What to do with the row, in SQL of your own. Each function answers as a step
 * does (snib_version_update); snib_pq_row and snib_pq_changed make that of a
 * result. They get `data`, and may be called once for each attempt. */
struct snib_pq_update {
    PGconn *connection;
    /* Read the row with its version, and compute. Outside of a transaction, so
     * nothing is locked meanwhile. 1: go on, write. NULL: there is nothing to
     * read. */
    int (*read)(void *data, PGconn *, struct snib_version_attempt *);
    /* The UPDATE, and what else belongs to the change. In a transaction, which
     * is committed after 1, else rolled back. */
    int (*write)(void *data, PGconn *, struct snib_version_attempt *);
    /* The commit was not answered: read the row with its lock (FOR UPDATE), and
     * answer snib_step_stands. In a transaction, which is rolled back. NULL: the
     * update ends with UNKNOWN in that case. Leave it NULL where several servers
     * take writes. */
    int (*stands)(void *data, PGconn *, struct snib_version_attempt *);
    /* The connection is broken. Make it anew, and return it or another one
     * (NULL: there is none now; it is tried again, until the limit). What was
     * set in the session is gone: set it again. PQreset makes it anew. NULL: a
     * broken connection ends the update. */
    PGconn *(*reconnect)(void *data, PGconn *);
    void *data;
};

/* The text of libpq, with the code of the server's error in front. */
static inline int snib__pq_says(struct snib_version_attempt *attempt,
                                snib_err err, const PGconn *connection,
                                const PGresult *result, bool again)
{
    const char *state =
        result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *text =
        result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    text = text ? text : PQerrorMessage(connection);
    return again ? snib_step_again(attempt, SNIB_ERR_OK,
                                   state ? state : "libpq", text)
                 : snib_step_fails(attempt, err, state ? state : "libpq", text);
}

/* What an error means. Asked for again: serialization_failure,
 * deadlock_detected, lock_not_available, query_canceled (by a time limit).
 * Nothing is committed by what failed so. Returns what the step answers;
 * UNREACHABLE: the connection is broken. */
static inline int snib_pq_error(struct snib_version_attempt *attempt,
                                const PGconn *connection,
                                const PGresult *result)
{
    static const char *const again[] = {"40001", "40P01", "55P03", "57014"};
    const char *state =
        result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    if (PQstatus(connection) != CONNECTION_OK) {
        return snib__pq_says(attempt, SNIB_ERR_UNREACHABLE, connection, result,
                             false);
    }
    if (!result) {
        return snib__pq_says(attempt, SNIB_ERR_NOMEM, connection, NULL, false);
    }
    for (size_t i = 0; state && i < sizeof again / sizeof *again; i++) {
        if (strcmp(state, again[i]) == 0) {
            return snib__pq_says(attempt, SNIB_ERR_BUSY, connection, result,
                                 true);
        }
    }
    if (state &&
        (strncmp(state, "28", 2) == 0 || strcmp(state, "42501") == 0)) {
        return snib__pq_says(attempt, SNIB_ERR_DENIED, connection, result,
                             false);
    }
    return snib__pq_says(attempt, SNIB_ERR_STORE, connection, result, false);
}

/* A SELECT of one row: 1, it is there. The result stays yours. Else an answer of
 * the step: there is no such row, or what the error means. */
static inline int snib_pq_row(struct snib_version_attempt *attempt,
                              const PGconn *connection, const PGresult *result)
{
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        return snib_pq_error(attempt, connection, result);
    }
    return PQntuples(result) == 0
               ? snib_step_missing(attempt)
               : snib_step_changed(attempt, PQntuples(result));
}

/* An UPDATE: 1 or 0, so many rows were changed; or what the error means. The
 * result is cleared. */
static inline int snib_pq_changed(struct snib_version_attempt *attempt,
                                  const PGconn *connection, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    int answer = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK
                     ? snib_step_changed(attempt, atoll(PQcmdTuples(result)))
                     : snib_pq_error(attempt, connection, result);
    PQclear(result);
    return answer;
}

/* A broken connection is made anew, if that was said how. */
static inline int snib__pq_connect(struct snib_pq_update *u,
                                   struct snib_version_attempt *attempt)
{
    if (PQstatus(u->connection) != CONNECTION_OK && u->reconnect) {
        PGconn *made = u->reconnect(u->data, u->connection);
        u->connection = made ? made : u->connection;
    }
    if (PQstatus(u->connection) != CONNECTION_OK) {
        return snib_pq_error(attempt, u->connection, NULL);
    }
    if (PQtransactionStatus(u->connection) != PQTRANS_IDLE) {
        return snib_step_fails(attempt, SNIB_ERR_USAGE,
                               "the connection is in a transaction; the step "
                               "begins and ends one of its own",
                               NULL);
    }
    return 1;
}

/* The wait for a row's lock ends with the update's limit; without one it is the
 * session's lock_timeout that counts. (0 would be none.) */
static inline int snib__pq_begin(struct snib_pq_update *u,
                                 struct snib_version_attempt *attempt)
{
    char text[80] = "BEGIN";
    if (attempt->left_ms <= 2147483647) {
        snprintf(text, sizeof text, "BEGIN; SET LOCAL lock_timeout = %d",
                 attempt->left_ms > 0 ? (int)attempt->left_ms : 1);
    }
    PGresult *result = PQexec(u->connection, text);
    int answer = PQresultStatus(result) == PGRES_COMMAND_OK
                     ? 1
                     : snib_pq_error(attempt, u->connection, result);
    PQclear(result);
    return answer;
}

static inline void snib__pq_rollback(struct snib_pq_update *u)
{
    if (PQstatus(u->connection) == CONNECTION_OK &&
        PQtransactionStatus(u->connection) != PQTRANS_IDLE) {
        PQclear(PQexec(u->connection, "ROLLBACK"));
    }
}

/* May a COMMIT that was answered with this error stand? So say errors of the
 * connection (08…) and "statement completion unknown"; and who is between this
 * client and the database, or is no PostgreSQL, says it by those of an operator,
 * of the system and of the inside (57P…, 58…, XX…). */
static inline bool snib__pq_is_in_doubt(const char *state)
{
    static const char *const doubt[] = {"08", "40003", "57P", "58", "XX"};
    for (size_t i = 0; state && i < sizeof doubt / sizeof *doubt; i++) {
        if (strncmp(state, doubt[i], strlen(doubt[i])) == 0) {
            return true;
        }
    }
    return !state;
}

/* Any other answer of COMMIT is believed. A transaction in which a statement
 * failed is answered "ROLLBACK". */
static inline int snib__pq_commit(struct snib_pq_update *u,
                                  struct snib_version_attempt *attempt)
{
    PGresult *result = PQexec(u->connection, "COMMIT");
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    int answer;
    if (PQresultStatus(result) == PGRES_COMMAND_OK) {
        answer = strcmp(PQcmdStatus(result), "COMMIT") == 0
                     ? 1
                     : snib_step_fails(
                           attempt, SNIB_ERR_STORE,
                           "rolled back, for a statement had failed", NULL);
    } else if (PQstatus(u->connection) != CONNECTION_OK ||
               snib__pq_is_in_doubt(state)) {
        answer = snib__pq_says(attempt, SNIB_ERR_UNKNOWN, u->connection, result,
                               false);
    } else {
        answer = snib_pq_error(attempt, u->connection, result);
    }
    PQclear(result);
    return answer;
}

/* In a transaction: the write, or the question. */
static inline int snib__pq_transact(struct snib_pq_update *u,
                                    struct snib_version_attempt *attempt)
{
    int answer = snib__pq_begin(u, attempt); /* may fail behind its BEGIN */
    if (answer == 1) {
        answer = attempt->ask ? u->stands(u->data, u->connection, attempt)
                              : u->write(u->data, u->connection, attempt);
    }
    if (answer == 1 && !attempt->ask) {
        answer = snib__pq_commit(u, attempt);
    }
    snib__pq_rollback(u);
    return answer;
}

/* The step: snib_version_update(&options, snib_pq_step, &update, …), data being a
 * struct snib_pq_update. */
static inline int snib_pq_step(void *data, struct snib_version_attempt *attempt)
{
    struct snib_pq_update *u = (struct snib_pq_update *)data;
    int answer = snib__pq_connect(u, attempt);
    attempt->asks = u->stands != NULL;
    if (answer == 1 && !attempt->ask && u->read) {
        answer = u->read(u->data, u->connection, attempt);
    }
    if (answer == 1) {
        answer = snib__pq_transact(u, attempt);
    }
    if (answer == -(int)SNIB_ERR_UNREACHABLE && u->reconnect) {
        attempt->why = SNIB_ERR_UNREACHABLE;
        return attempt->ask ? -(int)SNIB_ERR_BUSY : 0;
    }
    return answer;
}

#endif
