/* store/postgres/postgres_i.h — what the files of this folder share: an
 * instance, its sessions, scripts of statements. */
#ifndef SNIB__POSTGRES_I_H
#define SNIB__POSTGRES_I_H

#include <libpq-fe.h>
#include <pthread.h>

#include "store/postgres/advisory.h"
#include "store/postgres/postgres.h"
#include "store/sql/address.h"
#include "store/sql/host.h"
#include "store/sql/native.h"
#include "store/sql/recipe.h"

/* The number of the tables' layout, in meta. */
#define SNIB__PG_SCHEMA 1
/* The oldest server that is taken; PQserverVersion's way to count. */
#define SNIB__PG_OLDEST 120000
/* … and with advisory locks: the first with idle_session_timeout. */
#define SNIB__PG_OLDEST_ADVISORY 140000

/* -- the library (libpq.c) ------------------------------------------------- */

#define SNIB__PQ_FUNCTIONS(X)                                                  \
    X(PQclear)                                                                 \
    X(PQconnectPoll)                                                           \
    X(PQconnectStartParams)                                                    \
    X(PQconsumeInput)                                                          \
    X(PQbackendPID)                                                            \
    X(PQenterPipelineMode)                                                     \
    X(PQerrorMessage)                                                          \
    X(PQfinish)                                                                \
    X(PQflush)                                                                 \
    X(PQfreemem)                                                               \
    X(PQgetisnull)                                                             \
    X(PQgetlength)                                                             \
    X(PQgetResult)                                                             \
    X(PQgetvalue)                                                              \
    X(PQisBusy)                                                                \
    X(PQlibVersion)                                                            \
    X(PQnotifies)                                                              \
    X(PQntuples)                                                               \
    X(PQpipelineSync)                                                          \
    X(PQresultErrorField)                                                      \
    X(PQresultStatus)                                                          \
    X(PQsendPrepare)                                                           \
    X(PQsendQueryParams)                                                       \
    X(PQsendQueryPrepared)                                                     \
    X(PQserverVersion)                                                         \
    X(PQsetnonblocking)                                                        \
    X(PQsetErrorVerbosity)                                                     \
    X(PQsetNoticeReceiver)                                                     \
    X(PQsocket)                                                                \
    X(PQstatus)

/* libpq, loaded when a store is opened: who has no such store needs none of it,
 * nor of the dozen libraries that it brings. A test puts its own here. */
struct snib__pq {
#define SNIB__PQ_MEMBER(f) __typeof__(f) *f;
    SNIB__PQ_FUNCTIONS(SNIB__PQ_MEMBER)
#undef SNIB__PQ_MEMBER
};

/* Errors: UNSUPPORTED: it is not on this machine, or too old. */
snib_err snib__pq_load(struct snib__pq *ret, struct snib_error *);

/* -- statements (text.c, text_dialect.c) ----------------------------------- */

enum snib__pg_statement { /* besides those of store/sql/tables.h */
                          SNIB__PG_SETTINGS = SNIB__SQL_STATEMENTS,
                          SNIB__PG_LAYOUT,
                          SNIB__PG_HAS_SCHEMA,
                          SNIB__PG_NOTIFY,
                          SNIB__PG_DOCTOR_SERVER,
                          SNIB__PG_DOCTOR_SETTINGS,
                          SNIB__PG_DOCTOR_REPLICAS,
                          SNIB__PG_DOCTOR_MISSING,
                          SNIB__PG_DOCTOR_RIGHTS,
                          SNIB__PG_DOCTOR_TABLES,
                          SNIB__PG_DOCTOR_LISTENERS,
                          SNIB__PG_RECIPE_RIGHTS,
                          SNIB__PG_ADVISORY_SETTINGS,
                          SNIB__PG_ADVISORY_STAY,
                          SNIB__PG_ADVISORY_CLOCK,
                          SNIB__PG_ADVISORY_TRY,
                          SNIB__PG_ADVISORY_UNLOCK,
                          SNIB__PG_ADVISORY_CANCEL,
                          SNIB__PG_ADVISORY_LOOK,
                          SNIB__PG_ADVISORY_DOCTOR,
                          SNIB__PG_STATEMENTS
};

struct snib__postgres;

/* The text of a statement, with the schema put in. */
void snib__pg_text(const struct snib__postgres *, int statement,
                   struct snib__buf *ret);
/* Is there one? What has none is not sent. */
bool snib__pg_has_text(const struct snib__postgres *, int statement);
/* The same for any text. */
void snib__pg_schema_text(const char *text, const char *schema,
                          struct snib__buf *ret);
/* One of the statements that make the tables; NULL: there are no more. */
const char *snib__pg_table(int index);
/* Of a dialect: the text of a statement; NULL: it is none of the dialect's.
 * (text_recipe.c) */
const char *snib__pg_recipe_text(const struct snib__sql_recipe *,
                                 int statement);
/* What makes its table. */
const char *snib__pg_recipe_table(bool int_lock);

/* -- a connection (conn.c, connect.c) -------------------------------------- */

struct snib__pg_conn {
    struct snib__sql_conn is; /* `up`: c is not NULL */
    struct snib__postgres *store;
    PGconn *c;
    bool prepared[SNIB__PG_STATEMENTS];
    bool counted; /* in server.sessions */
};

/* Wait for the connection's socket. False: `until` has come, or the client
 * stops. */
bool snib__pg_wait(struct snib__pg_conn *, bool to_read, bool to_write,
                   snib_instant until);
/* Has the server ended it, while nobody used it? */
bool snib__pg_is_cut(struct snib__pg_conn *);
/* It is no good any more: cut it, and keep why. text NULL: what libpq says. */
void snib__pg_drop(struct snib__pg_conn *, snib_err, const char *text);
/* Connect and log in, without looking at anything. */
snib__sql_end snib__pg_connect(struct snib__pg_conn *, const char *application,
                               snib_instant until, struct snib_error *fault);
/* The same for an advisory lock, with its settings and a look at who answers: a
 * name may stand for several servers, and a standby has locks of its own. */
snib__sql_end snib__pg_connect_lock(struct snib__pg_conn *,
                                    struct snib__sql_script *,
                                    snib_instant until,
                                    struct snib_error *fault);
void snib__pg_quit(struct snib__pg_conn *);

/* -- scripts (script.c) ---------------------------------------------------- */

/* As snib__sql_link's run, on any connection. */
snib__sql_end snib__pg_run(struct snib__pg_conn *, struct snib__sql_script *,
                           uint32_t certain, snib_instant until,
                           struct snib_error *fault);

/* Send a script and wait for nothing; false: the connection is gone. What it has of
 * the list must be prepared. Then take what came of it, as run does. */
bool snib__pg_send(struct snib__pg_conn *, const struct snib__sql_script *);
snib__sql_end snib__pg_take(struct snib__pg_conn *, struct snib__sql_script *,
                            snib_instant until, struct snib_error *fault);

/* -- errors (errors.c) ----------------------------------------------------- */

/* What an SQLSTATE means for a transaction that it has ended. */
snib__sql_end snib__pg_judge(const char state[6]);
/* The page of the documentation that lists the rights. */
const char *snib__pg_page(const struct snib__postgres *);
/* The error and words for those who asked. */
snib_err snib__pg_fail(const struct snib__postgres *, const char state[6],
                       const char *text, struct snib_error *);
/* The same for a connection that could not be made; text: what libpq says. */
snib_err snib__pg_fail_connect(const struct snib__postgres *, const char *text,
                               struct snib_error *);
/* One clean line of a text of libpq's. */
void snib__pg_clean(const struct snib__postgres *, const char *text, char *ret,
                    size_t size);

/* -- a session ------------------------------------------------------------- */

struct snib__pg_session {
    struct snib__sql_session tables; /* first member */
    struct snib__postgres *store;
    struct snib__pg_conn conn;
};

static inline struct snib__pg_session *snib__pg_of(struct snib__sql *q)
{
    return (struct snib__pg_session *)(void *)q;
}

extern const struct snib__sql_link snib__pg_link;
snib__sql_end snib__pg_doctor(struct snib__sql *, struct snib__request *);

/* -- being notified (listen.c) --------------------------------------------- */

/* The connection on which this client hears of its grants. Any session makes
 * it; the client's own threads read it. `mu` is never held while somebody waits
 * for the server. */
struct snib__pg_listener {
    pthread_mutex_t mu;
    int epoll;         /* readable: something was notified; -1: not open */
    PGconn *c;         /* NULL: there is none */
    char notifier[40]; /* "": nobody listens */
};

bool snib__pg_listener_init(struct snib__pg_listener *);
void snib__pg_listener_free(struct snib__postgres *);
void snib__pg_listen(struct snib__sql *);
/* From now on the session's claims say how this client is notified. */
void snib__pg_know_notifier(struct snib__pg_session *);
/* Of snib__sql_link. */
void snib__pg_notify(struct snib__sql_session *, const struct snib__told *);
uint32_t snib__pg_notified(void *, uint64_t (*ids)[2], uint32_t max);
/* The channel of a notifier, and the process at the server that listens. */
void snib__pg_channel(const char *notifier, char *ret, size_t size);
int64_t snib__pg_listener_of(const char *notifier);

/* -- an instance ----------------------------------------------------------- */

struct snib__postgres {
    struct snib__pq pq;
    struct snib__pg_session session[SNIB__SESSIONS];
    struct snib__pg_listener listener;
    int stop; /* an eventfd; readable: the client stops */
    uint64_t client[2];
    struct snib__sql_address address;
    char schema[104]; /* of a dialect: SCHEMA.TABLE */
    struct snib__sql_recipe recipe;
    struct snib__sql_natives advisory;
    bool durable;           /* grants outlive a crash of the server */
    int64_t wall_offset_ns; /* of this host; 0: not known */
    struct {                /* of the server; guarded by listener.mu */
        int version;
        char life[48];
        snib_instant connected; /* 0: no session is */
        int sessions;
    } server;
};

/* Open with this library in place of the machine's. */
snib_err snib__postgres_open_on(const struct snib__store_config *,
                                const struct snib__pq *, void **ret,
                                struct snib_error *);

#endif
