/* store/postgres/postgres_i.h — what the files of this folder share: an
 * instance, its sessions, scripts of statements. */
#ifndef SNIB__POSTGRES_I_H
#define SNIB__POSTGRES_I_H

#include <libpq-fe.h>
#include <pthread.h>

#include "store/postgres/postgres.h"
#include "store/sql/sql.h"

/* The number of the tables' layout, in meta. */
#define SNIB__PG_SCHEMA 1
/* The oldest server that is taken; PQserverVersion's way to count. */
#define SNIB__PG_OLDEST 120000

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

/* -- statements (text.c) --------------------------------------------------- */

enum snib__pg_statement {
    SNIB__PG_BEGIN,
    SNIB__PG_BEGIN_READ, /* what is read is as of one moment */
    SNIB__PG_COMMIT,
    SNIB__PG_ROLLBACK,
    SNIB__PG_SETTINGS,
    SNIB__PG_LAYOUT,
    SNIB__PG_HAS_SCHEMA,
    SNIB__PG_NOT_DURABLE,
    SNIB__PG_PLACE, /* a row for the name, if there is none */
    SNIB__PG_LOCK,
    SNIB__PG_FETCH,
    SNIB__PG_GUARD,
    SNIB__PG_GUARD_CLAIM,
    SNIB__PG_GUARD_NO_CLAIM,
    SNIB__PG_GUARD_FLOOR,
    SNIB__PG_PUT_LOCK,
    SNIB__PG_PUT_FLOOR,
    SNIB__PG_ADD_CLAIM,
    SNIB__PG_PUT_CLAIM,
    SNIB__PG_DELETE_CLAIM,
    SNIB__PG_SWEEP,
    SNIB__PG_NOTIFY,
    SNIB__PG_ACQUIRE,
    SNIB__PG_RENEW,
    SNIB__PG_RENEW_SHARE,
    SNIB__PG_RELEASE,
    SNIB__PG_NAMES,
    SNIB__PG_VALUE,
    SNIB__PG_VALUE_LOCKED,
    SNIB__PG_VALUE_FLOOR,
    SNIB__PG_VALUE_IN_TIME,
    SNIB__PG_VALUE_ADD,
    SNIB__PG_VALUE_PUT,
    SNIB__PG_VALUE_NOTE,
    SNIB__PG_VALUE_FORGET,
    SNIB__PG_CLEAN,
    SNIB__PG_DOCTOR_SERVER,
    SNIB__PG_DOCTOR_SETTINGS,
    SNIB__PG_DOCTOR_REPLICAS,
    SNIB__PG_DOCTOR_RIGHTS,
    SNIB__PG_DOCTOR_TABLES,
    SNIB__PG_DOCTOR_LISTENERS,
    SNIB__PG_STATEMENTS
};

/* The text of a statement, with the schema put in. */
void snib__pg_text(enum snib__pg_statement, const char *schema,
                   struct snib__buf *ret);
/* The same for any text. */
void snib__pg_schema_text(const char *text, const char *schema,
                          struct snib__buf *ret);
/* One of the statements that make the tables; NULL: there are no more. */
const char *snib__pg_table(int index);

/* -- a connection (conn.c, connect.c) -------------------------------------- */

struct snib__postgres;

struct snib__pg_conn {
    struct snib__postgres *store;
    PGconn *c; /* NULL: down */
    bool prepared[SNIB__PG_STATEMENTS];
    bool counted; /* in server.sessions */
    bool ready;   /* logged in, looked at, its settings made */
    bool inside;  /* a transaction was left open on purpose */
    /* The server's clock minus the client's is at least this, as of the last
     * answer. */
    int64_t ahead_us;
    uint32_t failures;       /* in a row */
    snib_instant not_before; /* do not connect earlier */
    snib__sql_end end;       /* of the last attempt to connect */
    struct snib_error why;
};

snib_instant snib__pg_now(void);
/* Wait for the connection's socket. False: `until` has come, or the client
 * stops. */
bool snib__pg_wait(struct snib__pg_conn *, bool to_read, bool to_write,
                   snib_instant until);
/* It is no good any more: cut it, and keep why. text NULL: what libpq says. */
void snib__pg_drop(struct snib__pg_conn *, snib_err, const char *text);
/* Connect and log in, without looking at anything. */
snib__sql_end snib__pg_connect(struct snib__pg_conn *, const char *application,
                               snib_instant until, struct snib_error *fault);
/* Unless it is up: connect, look at the server, and make the tables where that
 * is allowed. A connection that was cut since its last use is made anew. */
snib__sql_end snib__pg_reach(struct snib__pg_conn *, snib_instant until,
                             struct snib_error *fault);
void snib__pg_quit(struct snib__pg_conn *);

/* -- scripts (script.c) ---------------------------------------------------- */

/* Statements that are sent at once, and their results. A SYNC ends a
 * transaction (unless BEGIN has opened one). */
struct snib__pg_script;
typedef void snib__pg_row(void *data, const struct snib__pq *, PGresult *);

enum { SNIB__PG_PARAMS = 30, SNIB__PG_ITEMS = 400 };

struct snib__pg_item {
    int statement;    /* snib__pg_statement; -1: a SYNC, -2: `text` */
    const char *text; /* outlives the script */
    uint32_t param;   /* index of its first */
    uint32_t params;
    snib__pg_row *row; /* NULL: the result is not looked at */
    void *data;
};

struct snib__pg_param {
    size_t at;
    int size; /* -1: NULL */
};

struct snib__pg_script {
    struct snib__pg_item *item;
    struct snib__pg_param *param;
    uint32_t items, item_room, params, param_room;
    struct snib__buf bytes; /* of the parameters */
    bool failed;            /* no memory */
    /* What came of it. */
    uint32_t synced;   /* so many SYNCs were answered */
    char state[6];     /* the first error's SQLSTATE; "": there was none */
    bool fatal;        /* it has ended the connection */
    uint32_t error_at; /* so many SYNCs before it */
    char error[200];   /* its text */
};

void snib__pg_script_init(struct snib__pg_script *);
void snib__pg_script_clear(struct snib__pg_script *);
void snib__pg_script_free(struct snib__pg_script *);
void snib__pg_add(struct snib__pg_script *, enum snib__pg_statement,
                  snib__pg_row *, void *data);
/* A statement that is not in the list. */
void snib__pg_add_text(struct snib__pg_script *, const char *text);
/* Parameters of the statement that was added last, in order. */
void snib__pg_int(struct snib__pg_script *, int64_t);
void snib__pg_null(struct snib__pg_script *);
void snib__pg_bytes(struct snib__pg_script *, const void *, size_t);
void snib__pg_string(struct snib__pg_script *, const char *);
void snib__pg_id(struct snib__pg_script *, const uint64_t id[2]);
/* 0: NULL. */
void snib__pg_id_or_null(struct snib__pg_script *, const uint64_t id[2]);
void snib__pg_name(struct snib__pg_script *, const struct snib__name *);
void snib__pg_sync(struct snib__pg_script *);

/* Send it all and take the results. Of interest is what stands before the first
 * `certain` SYNCs. OK: each statement of it was executed. LOST: not all answers
 * to it came, and it may have been executed; the connection is down. */
snib__sql_end snib__pg_run(struct snib__pg_conn *, struct snib__pg_script *,
                           uint32_t certain, snib_instant until,
                           struct snib_error *fault);
/* Values of a result; a NULL is 0, or empty. */
int64_t snib__pg_get_int(const struct snib__pq *, PGresult *, int row, int col);
void snib__pg_get_id(const struct snib__pq *, PGresult *, int row, int col,
                     uint64_t ret[2]);
const void *snib__pg_get_bytes(const struct snib__pq *, PGresult *, int row,
                               int col, size_t *ret_size);
void snib__pg_get_text(const struct snib__pq *, PGresult *, int row, int col,
                       char *ret, size_t size);

/* -- errors (errors.c) ----------------------------------------------------- */

/* What an SQLSTATE means for a transaction that it has ended. */
snib__sql_end snib__pg_judge(const char state[6]);
/* The error and words for those who asked. */
snib_err snib__pg_fail(const struct snib__postgres *, const char state[6],
                       const char *text, struct snib_error *);
/* The same for a connection that could not be made; text: what libpq says. */
snib_err snib__pg_fail_connect(const struct snib__postgres *, const char *text,
                               struct snib_error *);
/* The first line of a text, without controls, and without the password. */
void snib__pg_clean(const struct snib__postgres *, const char *text, char *ret,
                    size_t size);

/* -- rows (row.c) ---------------------------------------------------------- */

/* The columns of a claim, in the order of the statements. */
enum snib__pg_column {
    SNIB__PG_C_REQUEST,
    SNIB__PG_C_STAMP,
    SNIB__PG_C_ID,
    SNIB__PG_C_CLIENT,
    SNIB__PG_C_STATE,
    SNIB__PG_C_KIND,
    SNIB__PG_C_PERMITS,
    SNIB__PG_C_RESERVE,
    SNIB__PG_C_SLOT,
    SNIB__PG_C_TOKEN,
    SNIB__PG_C_FLOOR,
    SNIB__PG_C_RANK,
    SNIB__PG_C_UPGRADE_OF,
    SNIB__PG_C_LEASE,
    SNIB__PG_C_DELAY,
    SNIB__PG_C_SINCE,
    SNIB__PG_C_UNTIL,
    SNIB__PG_C_NOTIFIER,
    SNIB__PG_C_NOTE,
    SNIB__PG_C_ABOUT,
    SNIB__PG_C_ALIVE, /* only where it is read */
    SNIB__PG_COLUMNS
};

/* A claim from the columns that begin at `from`. *ret_about points into the
 * result. */
void snib__pg_read_claim(const struct snib__pq *, PGresult *, int row, int from,
                         struct snib__stored_claim *ret, uint64_t *ret_stamp,
                         const void **ret_about, size_t *ret_size);
/* Its columns as parameters, REQUEST to ABOUT; holder: but for STATE, SLOT and
 * NOTE, which the lock's row does not have. */
void snib__pg_write_claim(struct snib__pg_script *,
                          const struct snib__stored_claim *, uint64_t stamp,
                          const void *about, size_t size, bool holder);

/* -- a session ------------------------------------------------------------- */

/* What the last fetch has found of a name, beside what the snapshot keeps. */
struct snib__pg_seen {
    const struct snib__name *name;
    bool there;         /* there is a row of the name */
    bool marks;         /* some of its claims can be forgotten */
    uint64_t holder[2]; /* the request of the holder in that row; 0: none */
    uint64_t asked[2];  /* the request that asks */
};

/* A row for the snapshot; its bytes end where those of the next one begin. */
struct snib__pg_fetched {
    snib__key_kind kind;
    uint32_t lock;
    uint64_t request[2], stamp;
    size_t at; /* in session.rows */
    bool left; /* a waiter that has certainly left */
};

struct snib__pg_session {
    struct snib__sql sql; /* first member */
    struct snib__postgres *store;
    struct snib__pg_conn conn;
    struct snib__pg_script script;
    struct snib__pg_seen seen[SNIB__SNAPSHOT_MAX];
    uint32_t order[SNIB__SNAPSHOT_MAX]; /* the names by their bytes */
    struct snib__buf rows;              /* what the snapshot borrows */
    struct snib__pg_fetched *fetched;
    uint32_t fetched_count, fetched_room;
};

static inline struct snib__pg_session *snib__pg_of(struct snib__sql *q)
{
    return (struct snib__pg_session *)(void *)q;
}

/* Run the session's script; connect first if need be. */
snib__sql_end snib__pg_script_run(struct snib__pg_session *, uint32_t certain);
/* Names by their bytes: the order in which everybody locks them. */
int snib__pg_compare(const struct snib__name *, const struct snib__name *);
/* The server told its clock in an answer that has just come. */
void snib__pg_heard_clock(struct snib__pg_conn *, int64_t now_us);
/* Until when a statement that is sent now may be executed, by the server's
 * clock. */
int64_t snib__pg_not_after(const struct snib__pg_conn *);

/* fetch.c, write.c, quick.c, value.c, look.c, doctor.c: the driver's functions
 * (store/sql/sql.h). */
snib__sql_end snib__pg_fetch(struct snib__sql *, bool lock);
void snib__pg_leave(struct snib__sql *);
snib__sql_end snib__pg_write(struct snib__sql *, bool lock, bool durable);
snib__sql_end snib__pg_quick(struct snib__sql *, struct snib__sql_try *,
                             uint32_t count);
snib__sql_end snib__pg_value_read(struct snib__sql *, const struct snib__name *,
                                  bool lock, struct snib__sql_value *ret,
                                  struct snib__buf *bytes);
snib__sql_end snib__pg_value_write(struct snib__sql *,
                                   const struct snib__request *,
                                   const struct snib__sql_value *,
                                   snib__version_todo todo);
snib__sql_end snib__pg_look(struct snib__sql *, struct snib__request *const r[],
                            uint32_t count);
snib__sql_end snib__pg_doctor(struct snib__sql *, struct snib__request *);
void snib__pg_clean_up(struct snib__sql *);

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
    /* From the URL; NULL: not said. */
    char *host, *port, *database, *user, *password, *ca;
    char schema[64];
    bool here;              /* the server is this host */
    bool verify;            /* TLS, and whose it is */
    bool durable;           /* grants outlive a crash of the server */
    int64_t wall_offset_ns; /* of this host; 0: not known */
    char where[264];        /* for texts */
    struct {                /* of the server; guarded by listener.mu */
        int version;
        char life[48];
        snib_instant connected; /* 0: no session is */
        int sessions;
    } server;
};

/* Is it a name that needs no quotes, whoever writes it? */
bool snib__pg_is_schema(const char *);
/* Open with this library in place of the machine's. */
snib_err snib__postgres_open_on(const struct snib__store_config *,
                                const struct snib__pq *, void **ret,
                                struct snib_error *);

#endif
