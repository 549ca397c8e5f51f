/* store/sql/tables.h — what the stores in SQL databases share below the steps of
 * sql.h: four tables of the same columns, and the driver's functions over them.
 *
 *   meta   numbers of the whole store: layout, floors, where the cleaner is
 *   lock   a row a name, with its exclusive holder (columns h_…)
 *   claim  a row for each other request: waiting, sharing, ended
 *   value  versioned values
 *
 * A store has the text of each statement in the language of its database, and a
 * *link*: how a script of statements gets there and its results come back. The
 * functions here compose scripts and understand results; they know no SQL. */
#ifndef SNIB__SQL_TABLES_H
#define SNIB__SQL_TABLES_H

#include "store/sql/sql.h"

/* -- statements ------------------------------------------------------------ */

/* Parameters are numbered as the functions here give them. A store without a
 * text for one of them sends nothing in its place. */
enum snib__sql_statement {
    SNIB__SQL_DO_OPEN,  /* what follows is done as one; where a script is not */
    SNIB__SQL_DO_CLOSE, /* the end of that */
    SNIB__SQL_DO_BEGIN,
    SNIB__SQL_DO_BEGIN_READ, /* what is read is as of one moment */
    SNIB__SQL_DO_COMMIT,
    SNIB__SQL_DO_ROLLBACK,
    SNIB__SQL_DO_NOT_DURABLE,
    SNIB__SQL_DO_MAKE_ROW_FIRST, /* before it is locked */
    SNIB__SQL_DO_MAKE_ROW,       /* a row for the name, if there is none */
    SNIB__SQL_DO_LOCK,
    SNIB__SQL_DO_FETCH,
    SNIB__SQL_DO_GUARD,
    SNIB__SQL_DO_GUARD_CLAIM,
    SNIB__SQL_DO_GUARD_NO_CLAIM,
    SNIB__SQL_DO_GUARD_FLOOR,
    SNIB__SQL_DO_PUT_LOCK,
    SNIB__SQL_DO_PUT_FLOOR,
    SNIB__SQL_DO_ADD_CLAIM,
    SNIB__SQL_DO_PUT_CLAIM,
    SNIB__SQL_DO_DELETE_CLAIM,
    SNIB__SQL_DO_SWEEP,
    SNIB__SQL_DO_ACQUIRE,
    SNIB__SQL_DO_RENEW,
    SNIB__SQL_DO_RENEW_SHARE,
    SNIB__SQL_DO_RELEASE,
    SNIB__SQL_DO_NAMES,
    SNIB__SQL_DO_VALUE,
    SNIB__SQL_DO_VALUE_LOCKED,
    SNIB__SQL_DO_VALUE_FLOOR,
    SNIB__SQL_DO_VALUE_IN_TIME,
    SNIB__SQL_DO_VALUE_ADD,
    SNIB__SQL_DO_VALUE_PUT,
    SNIB__SQL_DO_VALUE_NOTE,
    SNIB__SQL_DO_VALUE_FORGET,
    SNIB__SQL_DO_CLEAN,
    SNIB__SQL_DO_RECIPE_SETTINGS, /* those of store/sql/recipe.h */
    SNIB__SQL_DO_RECIPE_TABLE,
    SNIB__SQL_DO_RECIPE_LOOK,
    SNIB__SQL_DO_RECIPE_MAKE,
    SNIB__SQL_DO_RECIPE_TAKE,
    SNIB__SQL_DO_RECIPE_TOUCH,
    SNIB__SQL_DO_RECIPE_RENEW,
    SNIB__SQL_DO_RECIPE_END,
    SNIB__SQL_DO_RECIPE_NAMES,
    SNIB__SQL_DO_RECIPE_DOCTOR,
    SNIB__SQL_STATEMENTS /* a store's own ones begin here */
};

/* -- results --------------------------------------------------------------- */

struct snib__sql_rows;

struct snib__sql_rows_ops {
    /* NULL is 0. */
    int64_t (*number)(struct snib__sql_rows *, int row, int col);
    /* NULL: it is NULL. */
    const void *(*bytes)(struct snib__sql_rows *, int row, int col,
                         size_t *ret_size);
};

/* The result of a statement: rows, of which the columns are counted from 0. */
struct snib__sql_rows {
    const struct snib__sql_rows_ops *ops;
    int count;
    const void *library; /* the rest is the link's */
    void *result, *row;
    int at;
};

typedef void snib__sql_row(void *data, struct snib__sql_rows *);

bool snib__sql_is_null(struct snib__sql_rows *, int row, int col);
/* A NULL is 0, or empty. */
int64_t snib__sql_get_int(struct snib__sql_rows *, int row, int col);
void snib__sql_get_id(struct snib__sql_rows *, int row, int col,
                      uint64_t ret[2]);
const void *snib__sql_get_bytes(struct snib__sql_rows *, int row, int col,
                                size_t *ret_size);
void snib__sql_get_text(struct snib__sql_rows *, int row, int col, char *ret,
                        size_t size);

/* -- scripts (script.c) ---------------------------------------------------- */

/* Statements that are sent at once, and their results. A SYNC ends a part: what
 * stands before it is done as one (in a database without that: between OPEN and
 * CLOSE), and if it fails, none of it. */
enum { SNIB__SQL_PARAMS = 30 };

enum snib__sql_item_kind {
    SNIB__SQL_ITEM_STATEMENT,
    SNIB__SQL_ITEM_TEXT,
    SNIB__SQL_ITEM_SYNC
};

struct snib__sql_item {
    enum snib__sql_item_kind kind;
    int statement;    /* of the store's list */
    const char *text; /* TEXT; outlives the script */
    uint32_t param;   /* index of its first */
    uint32_t params;
    snib__sql_row *row; /* NULL: the result is not looked at */
    void *data;
};

enum snib__sql_param_kind {
    SNIB__SQL_PARAM_NULL,
    SNIB__SQL_PARAM_INT, /* eight bytes, the first one the highest */
    SNIB__SQL_PARAM_BYTES
};

struct snib__sql_param {
    enum snib__sql_param_kind kind;
    size_t at, size; /* in script.bytes */
};

struct snib__sql_script {
    struct snib__sql_item *item;
    struct snib__sql_param *param;
    uint32_t items, item_capacity, params, param_capacity;
    struct snib__buf bytes; /* of the parameters */
    bool failed;            /* no memory */
    /* What came of it, by the link. */
    uint32_t synced;   /* so many SYNCs were reached */
    char state[6];     /* the first error's SQLSTATE; "": there was none */
    int code;          /* its number, in a database that has numbers */
    bool fatal;        /* it has ended the connection */
    uint32_t error_at; /* so many SYNCs before it */
    char error[200];   /* its text */
};

void snib__sql_script_init(struct snib__sql_script *);
void snib__sql_script_clear(struct snib__sql_script *);
void snib__sql_script_free(struct snib__sql_script *);
/* A statement of the store's list; its result goes to row, if there is one. */
void snib__sql_add(struct snib__sql_script *, int statement, snib__sql_row *,
                   void *data);
/* A statement that is not in the list. */
void snib__sql_add_text(struct snib__sql_script *, const char *text);
/* Parameters of the statement that was added last, in order. */
void snib__sql_int(struct snib__sql_script *, int64_t);
void snib__sql_null(struct snib__sql_script *);
void snib__sql_bytes(struct snib__sql_script *, const void *, size_t);
void snib__sql_string(struct snib__sql_script *, const char *);
void snib__sql_id(struct snib__sql_script *, const uint64_t id[2]);
/* 0: NULL. */
void snib__sql_id_or_null(struct snib__sql_script *, const uint64_t id[2]);
void snib__sql_name(struct snib__sql_script *, const struct snib__name *);
void snib__sql_sync(struct snib__sql_script *);
/* The value of a parameter of kind INT. */
int64_t snib__sql_param_int(const struct snib__sql_script *,
                            const struct snib__sql_param *);

/* -- connections (session.c) ----------------------------------------------- */

/* What is known of a session's connection, whatever the library. */
struct snib__sql_conn {
    bool up;     /* there is one */
    bool ready;  /* logged in, looked at, its settings made */
    bool inside; /* a transaction was left open on purpose */
    /* The server's clock minus the client's is at least this, as of the last
     * answer. */
    int64_t ahead_us;
    uint32_t failures;       /* in a row */
    snib_instant not_before; /* do not connect earlier */
    snib__sql_end end;       /* of the last attempt to connect */
    struct snib_error why;
};

struct snib__sql_session;

struct snib__sql_link {
    /* Connect, look at the server, and make the tables where that is allowed. The
     * session's script is left as it is. Not OK: the connection is down. */
    snib__sql_end (*connect)(struct snib__sql_session *);
    /* Has it been cut while nobody used it? Nothing was sent then, so a request
     * need not end as unknown for it. */
    bool (*is_cut)(struct snib__sql_session *);
    void (*quit)(struct snib__sql_session *);
    /* Send the session's script and take the results. Of interest is what stands
     * before the first `certain` SYNCs. OK: each statement of it was executed.
     * LOST: not all answers to it came, and it may have been executed; the
     * connection is down. */
    snib__sql_end (*run)(struct snib__sql_session *, uint32_t certain);
    /* Add to the script what notifies. NULL: none can be. */
    void (*notify)(struct snib__sql_session *, const struct snib__told *);
    /* A number of the notifier that a claim keeps next to its name. */
    int64_t (*listener_of)(const char *notifier);
};

/* May a connection of this kind be made now? No: why the last one failed, a moment
 * ago. And how this one has ended. */
bool snib__sql_may_connect(const struct snib__sql_conn *, snib_instant now,
                           struct snib_error *ret);
void snib__sql_connected(struct snib__sql_conn *, snib_instant now,
                         snib__sql_end, const struct snib_error *fault);
/* Connect, unless it is ready. After a failure the next attempt waits, longer each
 * time; until then the answer is why the last one failed. */
snib__sql_end snib__sql_connect(struct snib__sql_session *);
/* The server told its clock in an answer that has just come. */
void snib__sql_heard_clock(struct snib__sql_conn *, snib_instant now,
                           int64_t now_us);
/* Until when a statement that is sent now may be executed, by the server's
 * clock. */
int64_t snib__sql_not_after(const struct snib__sql_conn *, snib_instant now);

/* -- rows (row.c) ---------------------------------------------------------- */

/* The columns of a claim, in the order of the statements. */
enum snib__sql_column {
    SNIB__SQL_C_REQUEST,
    SNIB__SQL_C_STAMP,
    SNIB__SQL_C_ID,
    SNIB__SQL_C_CLIENT,
    SNIB__SQL_C_STATE,
    SNIB__SQL_C_KIND,
    SNIB__SQL_C_PERMITS,
    SNIB__SQL_C_RESERVE,
    SNIB__SQL_C_SLOT,
    SNIB__SQL_C_TOKEN,
    SNIB__SQL_C_FLOOR,
    SNIB__SQL_C_RANK,
    SNIB__SQL_C_UPGRADE_OF,
    SNIB__SQL_C_LEASE,
    SNIB__SQL_C_DELAY,
    SNIB__SQL_C_SINCE,
    SNIB__SQL_C_UNTIL,
    SNIB__SQL_C_NOTIFIER,
    SNIB__SQL_C_NOTE,
    SNIB__SQL_C_ABOUT,
    SNIB__SQL_C_ALIVE, /* only where it is read */
    SNIB__SQL_COLUMNS
};

/* The columns of FETCH: in front of the holder's, the holder's, a claim's. */
enum snib__sql_fetch_column {
    SNIB__SQL_F_US,
    SNIB__SQL_F_LIFE,
    SNIB__SQL_F_FLOOR,
    SNIB__SQL_F_FLOOR_STAMP,
    SNIB__SQL_F_HIGHEST,
    SNIB__SQL_F_STAMP,
    SNIB__SQL_F_TOKEN,
    SNIB__SQL_F_SIZE,
    SNIB__SQL_F_LATCH,
    SNIB__SQL_F_ARRIVALS,
    SNIB__SQL_F_ARRIVED,
    SNIB__SQL_F_CLAIMS,
    SNIB__SQL_F_WAITING,
    SNIB__SQL_F_LAST_RANK,
    SNIB__SQL_F_HOLDER,
    SNIB__SQL_F_CLAIM = SNIB__SQL_F_HOLDER + SNIB__SQL_C_ALIVE
};

/* A claim from the columns that begin at `from`. *ret_about points into the
 * result. */
void snib__sql_read_claim(struct snib__sql_rows *, int row, int from,
                          struct snib__stored_claim *ret, uint64_t *ret_stamp,
                          const void **ret_about, size_t *ret_size);
/* Its columns as parameters, REQUEST to ABOUT; holder: but for STATE, SLOT and
 * NOTE, which the lock's row does not have. */
void snib__sql_write_claim(struct snib__sql_script *,
                           const struct snib__stored_claim *, uint64_t stamp,
                           const void *about, size_t size, bool holder);

/* -- a session ------------------------------------------------------------- */

/* What the last fetch has found of a name, besides what the snapshot keeps. */
struct snib__sql_seen {
    const struct snib__name *name;
    bool there;         /* there is a row of the name */
    bool to_sweep;      /* some of its claims can be forgotten */
    uint64_t holder[2]; /* the request of the holder in that row; 0: none */
    uint64_t asked[2];  /* the request that asks */
};

/* A row for the snapshot; its bytes end where those of the next one begin. */
struct snib__sql_fetched {
    snib__key_kind kind;
    uint32_t lock;
    uint64_t request[2], stamp;
    size_t at; /* in session.rows */
    bool gone; /* a waiter that is certainly not there any more */
};

struct snib__sql_session {
    struct snib__sql sql; /* first member */
    const struct snib__sql_link *link;
    struct snib__sql_conn *conn;
    struct snib__sql_conn locks; /* how those of native.h have ended */
    const uint64_t *client;      /* its id */
    struct snib__sql_script script;
    struct snib__sql_seen seen[SNIB__SNAPSHOT_MAX];
    uint32_t order[SNIB__SNAPSHOT_MAX]; /* the names by their bytes */
    struct snib__buf rows;              /* what the snapshot borrows */
    struct snib__sql_fetched *fetched;
    uint32_t fetched_count, fetched_capacity;
};

static inline struct snib__sql_session *
snib__sql_session_of(struct snib__sql *q)
{
    return (struct snib__sql_session *)(void *)q;
}

void snib__sql_session_init(struct snib__sql_session *,
                            const struct snib__sql_driver *, const char *what,
                            const struct snib__sql_link *,
                            struct snib__sql_conn *, const uint64_t client[2],
                            const struct snib__store_config *, uint64_t number);
void snib__sql_session_free(struct snib__sql_session *);
/* The driver's: connect, if need be, also where it was cut since its last use. */
snib__sql_end snib__sql_reach(struct snib__sql *);
/* Run the session's script; connect first if need be. */
snib__sql_end snib__sql_script_run(struct snib__sql_session *,
                                   uint32_t certain);
/* Names by their bytes: the order in which everybody locks them. */
int snib__sql_compare(const struct snib__name *, const struct snib__name *);

/* fetch.c, write.c, quick.c, value_row.c, look.c: the driver's functions
 * (sql.h). */
snib__sql_end snib__sql_fetch(struct snib__sql *, bool lock);
void snib__sql_leave(struct snib__sql *);
snib__sql_end snib__sql_write(struct snib__sql *, bool lock, bool durable);
snib__sql_end snib__sql_quick(struct snib__sql *, struct snib__sql_try *,
                              uint32_t count);
snib__sql_end snib__sql_value_read(struct snib__sql *,
                                   const struct snib__name *, bool lock,
                                   struct snib__sql_value *ret,
                                   struct snib__buf *bytes);
snib__sql_end snib__sql_value_write(struct snib__sql *,
                                    const struct snib__request *,
                                    const struct snib__sql_value *,
                                    snib__version_todo todo);
snib__sql_end snib__sql_look(struct snib__sql *,
                             struct snib__request *const r[], uint32_t count);
void snib__sql_clean_up(struct snib__sql *);

#endif
