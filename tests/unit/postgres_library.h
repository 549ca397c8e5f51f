/* tests/unit/postgres_library.h — a libpq that answers what the test says: each
 * statement has a row of numbers or an error; after so many results the
 * connection is cut. */
#ifndef SNIB_TESTS_UNIT_POSTGRES_LIBRARY_H
#define SNIB_TESTS_UNIT_POSTGRES_LIBRARY_H

#include "unit.h"

#include <endian.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "store/postgres/postgres_i.h"

enum { COLUMNS = 55, RESULTS = 400 };

/* What a statement answers. */
struct answer {
    int rows;
    int64_t value[COLUMNS];
    const char *state; /* NULL: no error */
    const char *severity;
    int columns; /* behind them all is NULL; 0: there are 8 */
};

struct result {
    ExecStatusType status;
    int statement;
    bool end; /* of a statement's results: NULL */
};

static struct {
    int fd[2];
    int version, pid;
    PostgresPollingStatusType polls;
    const char *refusal; /* what libpq says of a connection that failed */
    struct answer answer[SNIB__PG_STATEMENTS];
    struct answer texts; /* of statements that are in no list */
    struct result queue[RESULTS];
    int queued, taken, cut_at; /* 0: never */
    uint64_t number[COLUMNS];  /* of the value that was asked for last */
    bool down, no_memory, silent;
    int words; /* so many reads, of which the last one finds the end; 0: no end */
    int finished;
    char stay[24]; /* how long a session may say nothing, as was asked last */
    int sent[SNIB__PG_STATEMENTS];
} lib;

static struct result *lib_push(ExecStatusType status, int statement, bool end)
{
    struct result *r = &lib.queue[lib.queued++];
    assert_true(lib.queued < RESULTS);
    *r = (struct result){status, statement, end};
    return r;
}

static void lib_push_all(ExecStatusType status, int statement)
{
    lib_push(status, statement, false);
    lib_push(PGRES_TUPLES_OK, statement, true);
}

static struct answer *lib_answer(const PGresult *res)
{
    const struct result *r = (const struct result *)(const void *)res;
    return r->statement < 0 ? &lib.texts : &lib.answer[r->statement];
}

static PGconn *fake_start(const char *const *keys, const char *const *values,
                          int expand)
{
    (void)keys;
    (void)values;
    (void)expand;
    lib.queued = lib.taken = 0;
    lib.down = false;
    return lib.no_memory ? NULL : (PGconn *)(void *)&lib;
}

static PostgresPollingStatusType fake_poll(PGconn *c)
{
    (void)c;
    return lib.polls;
}

static int fake_one(PGconn *c)
{
    (void)c;
    return 1;
}

static int fake_zero(PGconn *c)
{
    (void)c;
    return 0;
}

static int fake_nonblocking(PGconn *c, int on)
{
    (void)c;
    (void)on;
    return 0;
}

static ConnStatusType fake_status(const PGconn *c)
{
    (void)c;
    return lib.down ? CONNECTION_BAD : CONNECTION_OK;
}

static int fake_socket(const PGconn *c)
{
    (void)c;
    return lib.fd[0];
}

static int fake_version(const PGconn *c)
{
    (void)c;
    return lib.version;
}

static int fake_pid(const PGconn *c)
{
    (void)c;
    return lib.pid;
}

static char *fake_message(const PGconn *c)
{
    (void)c;
    return (char *)(uintptr_t)(lib.refusal ? lib.refusal : "");
}

static void fake_finish(PGconn *c)
{
    (void)c;
    lib.finished++;
}

static PQnoticeReceiver fake_notice(PGconn *c, PQnoticeReceiver f, void *data)
{
    (void)c;
    (void)data;
    return f;
}

static PGVerbosity fake_verbosity(PGconn *c, PGVerbosity v)
{
    (void)c;
    return v;
}

static int fake_prepare(PGconn *c, const char *name, const char *text, int n,
                        const Oid *types)
{
    (void)c;
    (void)text;
    (void)n;
    (void)types;
    lib_push_all(PGRES_COMMAND_OK, atoi(name + 4));
    return 1;
}

static int fake_query(PGconn *c, const char *name, int n,
                      const char *const *values, const int *lengths,
                      const int *formats, int format)
{
    int s = atoi(name + 4);
    lib.sent[s]++;
    (void)c;
    (void)formats;
    (void)format;
    if (s == SNIB__PG_ADVISORY_STAY && n == 1) {
        snprintf(lib.stay, sizeof lib.stay, "%.*s", lengths[0], values[0]);
    }
    lib_push_all(lib.answer[s].state ? PGRES_FATAL_ERROR : PGRES_TUPLES_OK, s);
    return 1;
}

static int fake_text(PGconn *c, const char *text, int n, const Oid *types,
                     const char *const *values, const int *lengths,
                     const int *formats, int format)
{
    (void)c;
    (void)text;
    (void)n;
    (void)types;
    (void)values;
    (void)lengths;
    (void)formats;
    (void)format;
    lib_push_all(lib.texts.state ? PGRES_FATAL_ERROR : PGRES_COMMAND_OK, -1);
    return 1;
}

static int fake_sync(PGconn *c)
{
    (void)c;
    lib_push(PGRES_PIPELINE_SYNC, 0, false);
    return 1;
}

static bool lib_is_cut(void)
{
    lib.down = lib.down || (lib.cut_at && lib.taken >= lib.cut_at);
    return lib.down;
}

static int fake_busy(PGconn *c)
{
    (void)c;
    return lib_is_cut() || lib.silent;
}

static int fake_consume(PGconn *c)
{
    (void)c;
    lib.down = lib.down || (lib.words && --lib.words == 0);
    return !lib_is_cut();
}

static PGresult *fake_result(PGconn *c)
{
    (void)c;
    assert_true(lib.taken < lib.queued);
    struct result *r = &lib.queue[lib.taken++];
    return r->end ? NULL : (PGresult *)(void *)r;
}

static ExecStatusType fake_result_status(const PGresult *res)
{
    return ((const struct result *)(const void *)res)->status;
}

static char *fake_field(const PGresult *res, int field)
{
    const struct answer *a = lib_answer(res);
    const char *text = field == PG_DIAG_SQLSTATE          ? a->state
                       : field == PG_DIAG_MESSAGE_PRIMARY ? "words"
                                                          : a->severity;
    return (char *)(uintptr_t)text;
}

static int fake_rows(const PGresult *res)
{
    return lib_answer(res)->rows;
}

static int fake_columns(const PGresult *res)
{
    int n = lib_answer(res)->columns;
    return n ? n : 8;
}

static int fake_is_null(const PGresult *res, int row, int col)
{
    (void)row;
    return col >= fake_columns(res);
}

static int fake_length(const PGresult *res, int row, int col)
{
    (void)row;
    return col < fake_columns(res) ? 8 : 0;
}

static char *fake_value(const PGresult *res, int row, int col)
{
    int at = col < fake_columns(res) ? col : 0;
    (void)row;
    lib.number[at] = htobe64((uint64_t)lib_answer(res)->value[at]);
    return (char *)&lib.number[at];
}

static void fake_clear(PGresult *res)
{
    (void)res;
}

static void fake_freemem(void *p)
{
    (void)p;
}

static PGnotify *fake_notifies(PGconn *c)
{
    (void)c;
    return NULL;
}

static int fake_library(void)
{
    return 150000;
}

static const struct snib__pq fake_pq = {
    .PQclear = fake_clear,
    .PQconnectPoll = fake_poll,
    .PQconnectStartParams = fake_start,
    .PQconsumeInput = fake_consume,
    .PQbackendPID = fake_pid,
    .PQenterPipelineMode = fake_one,
    .PQerrorMessage = fake_message,
    .PQfinish = fake_finish,
    .PQflush = fake_zero,
    .PQfreemem = fake_freemem,
    .PQgetisnull = fake_is_null,
    .PQgetlength = fake_length,
    .PQgetResult = fake_result,
    .PQgetvalue = fake_value,
    .PQisBusy = fake_busy,
    .PQlibVersion = fake_library,
    .PQnotifies = fake_notifies,
    .PQntuples = fake_rows,
    .PQpipelineSync = fake_sync,
    .PQresultErrorField = fake_field,
    .PQresultStatus = fake_result_status,
    .PQsendPrepare = fake_prepare,
    .PQsendQueryParams = fake_text,
    .PQsendQueryPrepared = fake_query,
    .PQserverVersion = fake_version,
    .PQsetErrorVerbosity = fake_verbosity,
    .PQsetNoticeReceiver = fake_notice,
    .PQsetnonblocking = fake_nonblocking,
    .PQsocket = fake_socket,
    .PQstatus = fake_status,
};

#endif
