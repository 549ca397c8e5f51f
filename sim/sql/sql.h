/* sim/sql/sql.h — a database, as the stores in databases know one (src/store/sql);
 * no file outside this folder includes this.
 *
 * The production code of the steps (steps.c, fetch.c, write.c, quick.c, …) runs
 * unchanged down to its seam, struct snib__sql_link: how a script of statements
 * gets to the server and its results come back. link.c is a link whose scripts are
 * messages on the connections of the world. That code blocks: a worker is a thread
 * in the library. Here it is a stack of its own, which is left when it would wait,
 * and entered again when what it waits for has come (client.c).
 *
 * The server is that of a table (sim/table.c: connections, rows, restart, backup)
 * with another language: statements.c, with quick.c for the short way, does what
 * each statement of store/sql/tables.h does in PostgreSQL, in transactions with
 * locks of rows (transactions.c, scripts.c). Its rows are those of a snapshot: the
 * lock row, the arrivals, and a claim each; a name's columns h_… are its claim in
 * the state HOLDS. */
#ifndef SIM_SQL_SQL_H
#define SIM_SQL_SQL_H

#include "sim/see.h"
#include "sim/table.h"
#include "store/sql/tables.h"

enum {
    SIM_SQL_SETTINGS = SNIB__SQL_STATEMENTS, /* of who has just connected */
    SIM_SQL_NOTIFY,
    SIM_SQL_BUF = 4 << 20,
    SIM_SQL_SAID = 512,
    SIM_SQL_WAIT_MS = 1000 /* for a lock; and a client inside a transaction */
};

/* -- values ------------------------------------------------------------------ */

struct sim_sql_param {
    int kind; /* enum snib__sql_param_kind */
    int64_t n;
    const uint8_t *p;
    size_t size;
};

/* -- transactions (transactions.c) -------------------------------------------- */

struct sim_sql_change {
    struct sim_row row;
    bool gone;
};

struct sim_sql_hold { /* a row is locked */
    int session;      /* by the session of this connection */
    struct sim_key key;
};

struct sim_sql_session {
    struct sim_sql_session *next;
    struct sim_table *table;
    int conn;
    /* The transaction. */
    bool explicitly, aborted, durable;
    struct sim_sql_change *change;
    int changes, change_room;
    /* The script: what is left of it, and what it answers so far. */
    struct snib__buf script, reply;
    struct sim_reader at;
    int64_t call;
    int items;   /* left */
    bool orphan; /* its client has gone: it goes on to the end of the script */
    bool failed;
    int64_t us; /* the clock as the statement read it first; 0: not yet */
    /* What the transaction will have done, for the theorems. */
    struct sim_act act;
    bool has_act;
    int tells;
    struct sim_seen tell[SIM_BOOK];
    /* It waits for a row of that session; 0: it does not. */
    int waits_for;
    uint32_t waits, idles; /* so many so far: timers go by them */
    uint64_t since;        /* order of those that wait */
};

struct sim_sql {
    struct sim_sql_session *sessions;
    struct sim_sql_hold *hold;
    int holds, hold_room;
    uint64_t waits;
    struct sim_rows firm; /* what a crash leaves for sure */
    struct snib__rng rng;
    struct { /* requests of which a commit was told */
        enum sim_deed deed;
        char id[SIM_ID];
        int64_t at; /* true time */
    } said[SIM_SQL_SAID];
    uint32_t saids;
};

/* The row as this session sees it; NULL: there is none. */
const struct sim_row *sim_sql_row(const struct sim_sql_session *,
                                  const struct sim_key *);
/* The rows that it sees, one after the other, from NULL on. */
const struct sim_row *sim_sql_next_row(const struct sim_sql_session *,
                                       const struct sim_row *last);
void sim_sql_put(struct sim_sql_session *, const struct sim_key *,
                 const void *bytes, size_t size, uint64_t stamp);
void sim_sql_delete(struct sim_sql_session *, const struct sim_key *);
/* Lock a row until the end of the transaction. False: another one has it, and this
 * session waits. */
bool sim_sql_lock(struct sim_sql_session *, const struct sim_key *);
/* Would it wait for itself? */
bool sim_sql_is_deadlock(const struct sim_sql_session *);
void sim_sql_commit(struct sim_sql_session *);
void sim_sql_roll_back(struct sim_sql_session *);

/* -- statements (statements.c, quick.c, rows.c) --------------------------------- */

/* NULL: done. "": it waits for a row. Else the SQLSTATE of its error. */
const char *sim_sql_statement(struct sim_sql_session *, int statement,
                              const struct sim_sql_param p[], int params);
bool sim_sql_writes(int statement);

/* -- scripts (scripts.c) ------------------------------------------------------- */

int64_t sim_sql_clock_us(const struct sim_table *);
/* Those that waited go on, if they can. */
void sim_sql_go_on(struct sim_table *);

/* -- a client (client.c, link.c) ----------------------------------------------- */

struct sim_sql_client;

enum sim_sql_wait {
    SIM_SQL_FOR_CONN, /* it is being made */
    SIM_SQL_FOR_PART, /* of the answer to its script */
    SIM_SQL_FOR_EARS, /* the listener is being made */
    SIM_SQL_FOR_TIME
};

struct sim_sql_worker {
    struct snib__sql_session tables; /* first member */
    struct snib__sql_conn is;
    struct sim_sql_client *client;
    int at; /* its session, and the index of its connection */
    struct snib__list list;
    bool inside, over; /* it is in the library; it has come back */
    enum sim_sql_wait wait;
    snib_instant due;
    struct snib__buf parts;           /* that have come, each with its size */
    struct snib__sql_script greeting; /* beside the session's own */
    int64_t call;
    bool cut;         /* its connection broke, and it has not noticed */
    char farewell[6]; /* what the server said when it ended the session */
    struct {          /* when rows were read for these requests, true time */
        uint64_t id[2];
        int64_t at;
    } fetched[256];
    int fetches;
    void *stack, *context;
};

struct sim_sql_client {
    struct sim_world *w;
    int client;
    uint64_t id[2];
    struct snib__out *out;
    int64_t calls;
    struct sim_sql_worker worker[SNIB__SESSIONS];
    int conn[SIM_CONNS]; /* enum sim_conn */
    struct snib__buf in[SIM_CONNS];
    char notifier[40]; /* "": nobody listens */
    uint64_t notice[64][2];
    uint32_t notices;
    bool missed;
};

/* The worker that runs just now is left, until it is woken, or until then. */
void sim_sql_sleep(struct sim_sql_worker *, enum sim_sql_wait,
                   snib_instant due);
snib_instant sim_sql_now(void);
/* True: it is up. Else it is asked for. */
bool sim_sql_conn_up(struct sim_sql_client *, int conn);
void sim_sql_conn_shut(struct sim_sql_client *, int conn);
extern const struct snib__sql_link sim_sql_link;
void sim_sql_listen(struct snib__sql *);
void sim_sql_know_notifier(struct sim_sql_worker *);
/* The requests of a chain that has come back, of which no write was said. */
void sim_sql_say_looked(struct sim_sql_worker *);
/* When rows were read for this request last, true time; 0: never. */
int64_t sim_sql_fetched_at(const struct sim_sql_worker *,
                           const struct snib__request *);
/* That was said just now: so nobody says it again. */
void sim_sql_note_said(struct sim_sql *, const struct sim_seen *, int64_t at);

#endif
