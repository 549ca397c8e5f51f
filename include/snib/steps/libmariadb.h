/* snib/steps/libmariadb.h — a step of snib_version_update for MariaDB and MySQL,
 * by libmariadb or MySQL's own client library.
 *
 * Your program compiles this header with that library's and links both: cc …
 * $(pkg-config --cflags --libs snib libmariadb). libsnib needs none for it. C99,
 * C++.
 *
 *   struct snib_mariadb_update item = {0};
 *   item.connection = connection;
 *   item.read = read_stock;          // SELECT version, stock …
 *   item.write = write_stock;        // UPDATE … WHERE id = … AND version = …
 *   item.stands = stock_stands;      // SELECT version, attempt … FOR UPDATE
 *   item.data = &stock;
 *   err = snib_version_update(&options, snib_mariadb_step, &item, NULL, NULL,
 *                             &e);
 *
 * examples/version_mysql.c is complete. The connection is yours: its limits
 * count. Set them, for the server's are long: innodb_lock_wait_timeout (50 s; in
 * whole seconds) is how long a statement waits for a row's lock, and
 * MYSQL_OPT_READ_TIMEOUT how long a server that is silent keeps a call. The
 * connection must not be in a transaction, for the step begins and ends its own.
 * The table must be InnoDB's: others have no transactions. */
#ifndef SNIB_STEPS_LIBMARIADB_H
#define SNIB_STEPS_LIBMARIADB_H

#include <string.h>

#include <mysql.h>

#include "step.h"

/* What to do with the row, in SQL of your own. Each function answers as a step
 * does (snib_version_update); snib_mariadb_row and snib_mariadb_changed make
 * that of what the library says. They get `data`, and may be called once for
 * each attempt. */
struct snib_mariadb_update {
    MYSQL *connection;
    /* Read the row with its version, and compute. Outside of a transaction, so
     * nothing is locked meanwhile. 1: go on, write. NULL: there is nothing to
     * read. */
    int (*read)(void *data, MYSQL *, struct snib_version_attempt *);
    /* The UPDATE, and what else belongs to the change. In a transaction, which
     * is committed after 1, else rolled back. */
    int (*write)(void *data, MYSQL *, struct snib_version_attempt *);
    /* The commit was not answered: read the row with its lock (FOR UPDATE), and
     * answer snib_step_stands. In a transaction, which is rolled back. NULL: the
     * update ends with UNKNOWN in that case. So it does, without a call, on a
     * server of Galera or group replication. Leave it NULL where a replica may be
     * made the primary before it has applied all that it has got. */
    int (*stands)(void *data, MYSQL *, struct snib_version_attempt *);
    /* The connection is broken. Make it anew, and return it or another one
     * (NULL: there is none now; it is tried again, until the limit). What was
     * set in the session is gone: set it again. NULL: a broken connection ends
     * the update. */
    MYSQL *(*reconnect)(void *data, MYSQL *);
    void *data;
    bool broken; /* the step's own; false at first                          */
};

/* Is the connection gone, after this number of an error? */
static inline bool snib__mariadb_is_gone(unsigned number)
{
    switch (number) {
    case 1053: /* ER_SERVER_SHUTDOWN                                        */
    case 1077: /* ER_NORMAL_SHUTDOWN                                        */
    case 1152: /* ER_ABORTING_CONNECTION                                    */
    case 1184: /* ER_NEW_ABORTING_CONNECTION                                */
    case 1927: /* ER_CONNECTION_KILLED                                      */
    case 2002: /* CR_CONNECTION_ERROR                                       */
    case 2003: /* CR_CONN_HOST_ERROR                                        */
    case 2006: /* CR_SERVER_GONE_ERROR                                      */
    case 2012: /* CR_SERVER_HANDSHAKE_ERR                                   */
    case 2013: /* CR_SERVER_LOST                                            */
    case 2026: /* CR_SSL_CONNECTION_ERROR                                   */
    case 2027: /* CR_MALFORMED_PACKET                                       */
    case 2055: /* CR_SERVER_LOST_EXTENDED                                   */
    case 4031: /* ER_CLIENT_INTERACTION_TIMEOUT, of MySQL                   */
        return true;
    default:
        return false;
    }
}

/* Does the server ask for another attempt? Nothing is committed by what failed
 * so. */
static inline bool snib__mariadb_asks_again(unsigned number)
{
    switch (number) {
    case 1020: /* ER_CHECKREAD: changed since it was read                   */
    case 1205: /* ER_LOCK_WAIT_TIMEOUT                                      */
    case 1213: /* ER_LOCK_DEADLOCK; of Galera, too                          */
    case 1317: /* ER_QUERY_INTERRUPTED                                      */
    case 1969: /* ER_STATEMENT_TIMEOUT, of MariaDB                          */
    case 3024: /* ER_QUERY_TIMEOUT, of MySQL                                */
    case 3572: /* ER_LOCK_NOWAIT, of MySQL                                  */
        return true;
    default:
        return false;
    }
}

static inline snib_err snib__mariadb_means(unsigned number)
{
    switch (number) {
    case 1044: /* ER_DBACCESS_DENIED_ERROR                                  */
    case 1045: /* ER_ACCESS_DENIED_ERROR                                    */
    case 1142: /* ER_TABLEACCESS_DENIED_ERROR                               */
    case 1143: /* ER_COLUMNACCESS_DENIED_ERROR                              */
    case 1227: /* ER_SPECIFIC_ACCESS_DENIED_ERROR                           */
    case 1698: /* ER_ACCESS_DENIED_NO_PASSWORD_ERROR                        */
        return SNIB_ERR_DENIED;
    case 1037: /* ER_OUTOFMEMORY                                            */
    case 2008: /* CR_OUT_OF_MEMORY                                          */
        return SNIB_ERR_NOMEM;
    default:
        return SNIB_ERR_STORE;
    }
}

/* What an error means: number and text are mysql_errno and mysql_error, or those
 * of a prepared statement. Returns what the step answers; UNREACHABLE: the
 * connection is broken. */
static inline int snib_mariadb_error(struct snib_version_attempt *attempt,
                                     unsigned number, const char *text)
{
    char what[24];
    snprintf(what, sizeof what, "%u", number);
    if (snib__mariadb_is_gone(number)) {
        return snib_step_fails(attempt, SNIB_ERR_UNREACHABLE, what, text);
    }
    if (snib__mariadb_asks_again(number)) {
        return snib_step_again(attempt, SNIB_ERR_OK, what, text);
    }
    return snib_step_fails(attempt, snib__mariadb_means(number), what, text);
}

/* A SELECT of one row, fetched by mysql_store_result: 1, it is there. The result
 * stays yours. Else an answer of the step: there is no such row, or what the
 * connection's error means. */
static inline int snib_mariadb_row(struct snib_version_attempt *attempt,
                                   MYSQL *connection, MYSQL_RES *result)
{
    if (!result) {
        return snib_mariadb_error(attempt, mysql_errno(connection),
                                  mysql_error(connection));
    }
    return mysql_num_rows(result) == 0
               ? snib_step_missing(attempt)
               : snib_step_changed(attempt, (long long)mysql_num_rows(result));
}

/* An UPDATE by mysql_query, which returned `failed`: 1 or 0, so many rows were
 * changed; or what the connection's error means. */
static inline int snib_mariadb_changed(struct snib_version_attempt *attempt,
                                       MYSQL *connection, int failed)
{
    return failed ? snib_mariadb_error(attempt, mysql_errno(connection),
                                       mysql_error(connection))
                  : snib_step_changed(
                        attempt, (long long)mysql_affected_rows(connection));
}

/* The same by mysql_stmt_execute. */
static inline int
snib_mariadb_stmt_changed(struct snib_version_attempt *attempt,
                          MYSQL_STMT *statement, int failed)
{
    return failed
               ? snib_mariadb_error(attempt, mysql_stmt_errno(statement),
                                    mysql_stmt_error(statement))
               : snib_step_changed(
                     attempt, (long long)mysql_stmt_affected_rows(statement));
}

/* A broken connection is made anew, if that was said how. */
static inline int snib__mariadb_connect(struct snib_mariadb_update *u,
                                        struct snib_version_attempt *attempt)
{
    if (u->broken && u->reconnect) {
        MYSQL *made = u->reconnect(u->data, u->connection);
        u->connection = made ? made : u->connection;
        u->broken = !made;
    }
    if (u->broken) {
        return snib_step_fails(
            attempt, SNIB_ERR_UNREACHABLE, "the connection is broken",
            mysql_errno(u->connection) ? mysql_error(u->connection) : NULL);
    }
    if (u->connection->server_status & SERVER_STATUS_IN_TRANS) {
        return snib_step_fails(attempt, SNIB_ERR_USAGE,
                               "the connection is in a transaction; the step "
                               "begins and ends one of its own",
                               NULL);
    }
    return 1;
}

static inline int snib__mariadb_run(struct snib_mariadb_update *u,
                                    struct snib_version_attempt *attempt,
                                    const char *statement)
{
    return mysql_query(u->connection, statement)
               ? snib_mariadb_error(attempt, mysql_errno(u->connection),
                                    mysql_error(u->connection))
               : 1;
}

/* Of the errors that the server answers here only those that ask for another
 * attempt say that nothing was committed. */
static inline int snib__mariadb_commit(struct snib_mariadb_update *u,
                                       struct snib_version_attempt *attempt)
{
    if (mysql_query(u->connection, "COMMIT") == 0) {
        return 1;
    }
    unsigned number = mysql_errno(u->connection);
    if (number == 1213 || number == 1205 || number == 1020) {
        return snib_mariadb_error(attempt, number, mysql_error(u->connection));
    }
    (void)snib_mariadb_error(attempt, number, mysql_error(u->connection));
    attempt->why = SNIB_ERR_OK;
    u->broken = snib__mariadb_is_gone(number);
    return -(int)SNIB_ERR_UNKNOWN;
}

/* In a cluster (Galera, group replication) the question may come to another
 * server than the commit, which has not got it yet: then its row is the one
 * before, and no lock in it waits for the commit. Returns what the step answers;
 * 1: this is none. */
static inline int snib__mariadb_is_alone(struct snib_mariadb_update *u,
                                         struct snib_version_attempt *attempt)
{
    int answer =
        snib__mariadb_run(u, attempt,
                          "SHOW VARIABLES WHERE Variable_name IN "
                          "('wsrep_on', 'group_replication_group_name')");
    MYSQL_RES *result = answer == 1 ? mysql_store_result(u->connection) : NULL;
    MYSQL_ROW row;
    if (!result) {
        return answer == 1
                   ? snib_mariadb_error(attempt, mysql_errno(u->connection),
                                        mysql_error(u->connection))
                   : answer;
    }
    while ((row = mysql_fetch_row(result)) != NULL) {
        if (row[1] && row[1][0] && strcmp(row[1], "OFF") != 0) {
            answer = snib_step_fails(attempt, SNIB_ERR_UNKNOWN,
                                     "this server is of a cluster, and may not "
                                     "have got the commit yet",
                                     row[0]);
        }
    }
    mysql_free_result(result);
    return answer;
}

/* In a transaction: the write, or the question. */
static inline int snib__mariadb_transact(struct snib_mariadb_update *u,
                                         struct snib_version_attempt *attempt)
{
    int answer = attempt->ask ? snib__mariadb_is_alone(u, attempt) : 1;
    if (answer == 1) {
        answer = snib__mariadb_run(u, attempt, "START TRANSACTION");
    }
    if (answer != 1) {
        return answer;
    }
    answer = attempt->ask ? u->stands(u->data, u->connection, attempt)
                          : u->write(u->data, u->connection, attempt);
    if (answer == 1 && !attempt->ask) {
        answer = snib__mariadb_commit(u, attempt);
    }
    bool over = answer == 1 && !attempt->ask;
    if (!over && !u->broken && answer != -(int)SNIB_ERR_UNREACHABLE &&
        mysql_query(u->connection, "ROLLBACK")) {
        u->broken = true; /* the server rolls it back with the connection */
    }
    return answer;
}

/* The step: snib_version_update(&options, snib_mariadb_step, &update, …), data
 * being a struct snib_mariadb_update. */
static inline int snib_mariadb_step(void *data,
                                    struct snib_version_attempt *attempt)
{
    struct snib_mariadb_update *u = (struct snib_mariadb_update *)data;
    int answer = snib__mariadb_connect(u, attempt);
    attempt->asks = u->stands != NULL;
    if (answer == 1 && !attempt->ask && u->read) {
        answer = u->read(u->data, u->connection, attempt);
    }
    if (answer == 1) {
        answer = snib__mariadb_transact(u, attempt);
    }
    if (answer == -(int)SNIB_ERR_UNREACHABLE) {
        u->broken = true;
        if (u->reconnect) {
            attempt->why = SNIB_ERR_UNREACHABLE;
            return attempt->ask ? -(int)SNIB_ERR_BUSY : 0;
        }
    }
    return answer;
}

#endif
