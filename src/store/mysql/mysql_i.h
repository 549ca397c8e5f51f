/* store/mysql/mysql_i.h — what the files of this folder share: an instance, its
 * sessions, the statements. */
#ifndef SNIB__MYSQL_I_H
#define SNIB__MYSQL_I_H

#include <mysql.h>
#include <pthread.h>

#include "store/mysql/getlock.h"
#include "store/mysql/mysql.h"
#include "store/sql/address.h"
#include "store/sql/host.h"
#include "store/sql/native.h"
#include "store/sql/recipe.h"

/* The number of the tables' layout, in meta. */
#define SNIB__MY_SCHEMA 1
/* The oldest servers that are taken; mysql_get_server_version's way to count. */
#define SNIB__MY_OLDEST_MARIADB 100300
#define SNIB__MY_OLDEST_MYSQL   50700

/* -- the library (libmariadb.c) -------------------------------------------- */

#define SNIB__MARIADB_FUNCTIONS(X)                                             \
    X(mysql_affected_rows)                                                     \
    X(mysql_close)                                                             \
    X(mysql_data_seek)                                                         \
    X(mysql_errno)                                                             \
    X(mysql_error)                                                             \
    X(mysql_fetch_lengths)                                                     \
    X(mysql_fetch_row)                                                         \
    X(mysql_field_count)                                                       \
    X(mysql_free_result)                                                       \
    X(mysql_get_client_version)                                                \
    X(mysql_get_server_info)                                                   \
    X(mysql_get_server_version)                                                \
    X(mysql_get_socket)                                                        \
    X(mysql_init)                                                              \
    X(mysql_insert_id)                                                         \
    X(mysql_next_result_cont)                                                  \
    X(mysql_next_result_start)                                                 \
    X(mysql_num_fields)                                                        \
    X(mysql_num_rows)                                                          \
    X(mysql_options)                                                           \
    X(mysql_read_query_result_cont)                                            \
    X(mysql_read_query_result_start)                                           \
    X(mysql_real_connect_cont)                                                 \
    X(mysql_real_connect_start)                                                \
    X(mysql_real_query_cont)                                                   \
    X(mysql_real_query_start)                                                  \
    X(mysql_send_query_cont)                                                   \
    X(mysql_send_query_start)                                                  \
    X(mysql_server_init)                                                       \
    X(mysql_sqlstate)                                                          \
    X(mysql_store_result_cont)                                                 \
    X(mysql_store_result_start)                                                \
    X(mysql_thread_id)

/* libmariadb, loaded when a store is opened: who has no such store needs none of
 * it. A test puts its own here. */
struct snib__mariadb {
#define SNIB__MARIADB_MEMBER(f) __typeof__(f) *f;
    SNIB__MARIADB_FUNCTIONS(SNIB__MARIADB_MEMBER)
#undef SNIB__MARIADB_MEMBER
};

/* Errors: UNSUPPORTED: it is not on this machine, or too old. */
snib_err snib__mariadb_load(struct snib__mariadb *ret, struct snib_error *);

/* -- statements (text.c) --------------------------------------------------- */

enum snib__my_statement { /* besides those of store/sql/tables.h */
                          SNIB__MY_SETTINGS = SNIB__SQL_STATEMENTS,
                          SNIB__MY_SETTINGS_MARIADB,
                          SNIB__MY_WHO, /* answers */
                          SNIB__MY_LAYOUT,
                          SNIB__MY_NOTIFY,
                          SNIB__MY_LISTEN,
                          SNIB__MY_NAME,
                          SNIB__MY_DOCTOR_SERVER,
                          SNIB__MY_DOCTOR_DURABLE,
                          SNIB__MY_DOCTOR_ISOLATION,
                          SNIB__MY_DOCTOR_PACKETS,
                          SNIB__MY_DOCTOR_REPLICAS,
                          SNIB__MY_DOCTOR_TABLES,
                          SNIB__MY_DOCTOR_SIZE,
                          SNIB__MY_DOCTOR_LISTENERS,
                          SNIB__MY_GETLOCK_SETTINGS,
                          SNIB__MY_GETLOCK_SETTINGS_MARIADB,
                          SNIB__MY_GETLOCK_STAY,
                          SNIB__MY_GETLOCK_CLOCK,
                          SNIB__MY_GETLOCK_TRY,
                          SNIB__MY_GETLOCK_WAIT,
                          SNIB__MY_GETLOCK_UNLOCK,
                          SNIB__MY_GETLOCK_CANCEL,
                          SNIB__MY_GETLOCK_LOOK,
                          SNIB__MY_GETLOCK_DOCTOR,
                          SNIB__MY_STATEMENTS
};

/* The text of a statement, with marks that snib__my_expand knows (text.c); it may
 * be several statements, with ";" between. NULL: none is sent. */
const char *snib__my_text(const struct snib__sql_recipe *, int statement);
/* One of the statements that make the tables; NULL: there are no more. */
const char *snib__my_table(int index);
/* A right, and a statement that needs it and does nothing. */
struct snib__my_right {
    const char *right, *text;
};

/* One of the rights that are needed: such a statement. *ret_right: its name. NULL:
 * there are no more. */
const char *snib__my_right(const struct snib__sql_recipe *, int index,
                           const char **ret_right);
/* Of a dialect: the same, and the text of a statement, NULL: it is none of the
 * dialect's; what makes its table. (text_recipe.c) */
const char *snib__my_recipe_right(bool int_lock, int index,
                                  const char **ret_right);
const char *snib__my_recipe_text(const struct snib__sql_recipe *,
                                 int statement);
const char *snib__my_recipe_table(bool int_lock);

/* -- a connection (conn.c, connect.c) -------------------------------------- */

struct snib__mysql;

struct snib__my_conn {
    struct snib__sql_conn is; /* `up`: c is not NULL */
    struct snib__mysql *store;
    MYSQL *c;
    bool counted;   /* in server.sessions */
    char named[40]; /* the notifier whose named lock it holds; "": none */
    bool late;      /* an answer did not come in time */
    bool ends_idle; /* the server ends a transaction that stands idle */
};

/* Make it, and set what holds before a login. False: no memory, and there is no
 * connection. */
bool snib__my_begin(struct snib__my_conn *);
/* These wait for the server, until then at the latest; afterwards the
 * connection's errno tells. */
bool snib__my_login(struct snib__my_conn *, const char *password,
                    snib_instant until);
bool snib__my_query(struct snib__my_conn *, const char *text, size_t size,
                    snib_instant until);
MYSQL_RES *snib__my_store(struct snib__my_conn *, snib_instant until);
/* The two halves of a query: send it, and read what came of it. */
bool snib__my_send(struct snib__my_conn *, const char *text, size_t size,
                   snib_instant until);
bool snib__my_answered(struct snib__my_conn *, snib_instant until);
/* 0: there is one more; -1: there is none; else an error. */
int snib__my_next(struct snib__my_conn *, snib_instant until);
/* Has the connection ended, by what errno says? An error of the library's own
 * is its end; so is a failure without an error: what should have come has not. */
bool snib__my_is_down(const struct snib__my_conn *);
/* It is no good any more: cut it, and keep why. text NULL: what the library
 * says. */
void snib__my_drop(struct snib__my_conn *, const char *text);
void snib__my_quit(struct snib__my_conn *);
/* Was it ended by the server while nobody used it? */
bool snib__my_is_cut(struct snib__my_conn *);
/* By what the server says of itself. */
bool snib__my_is_mariadb(const struct snib__my_conn *);
/* Add to a script what makes a session ours, whatever the server's defaults. */
void snib__my_add_settings(const struct snib__my_conn *,
                           struct snib__sql_script *);
/* Connect and log in, without looking at anything. */
snib__sql_end snib__my_connect(struct snib__my_conn *, snib_instant until,
                               struct snib_error *fault);
/* The same for a named lock, with its settings and a look at who answers: a name
 * may stand for several servers, and a replica has locks of its own. */
snib__sql_end snib__my_connect_lock(struct snib__my_conn *,
                                    struct snib__sql_script *,
                                    snib_instant until,
                                    struct snib_error *fault);

/* -- scripts (script.c) ---------------------------------------------------- */

/* A statement's text with the prefix and the parameters in it; item NULL: it has
 * none. */
void snib__my_expand(const char *prefix, const char *text,
                     const struct snib__sql_script *,
                     const struct snib__sql_item *, struct snib__buf *ret);
/* A result of rows, seen as one. */
void snib__my_rows(const struct snib__mariadb *, MYSQL_RES *,
                   struct snib__sql_rows *ret);
/* As snib__sql_link's run, on any connection. */
snib__sql_end snib__my_run(struct snib__my_conn *, struct snib__sql_script *,
                           uint32_t certain, snib_instant until,
                           struct snib_error *fault);
/* Send a script of one part, and read nothing. False: the connection is gone. Then
 * take what came of it, as run does. */
bool snib__my_send_script(struct snib__my_conn *,
                          const struct snib__sql_script *, snib_instant until);
snib__sql_end snib__my_take_script(struct snib__my_conn *,
                                   struct snib__sql_script *,
                                   snib_instant until,
                                   struct snib_error *fault);

/* -- errors (errors.c) ----------------------------------------------------- */

/* What an error's number means for what it has ended. */
snib__sql_end snib__my_judge(int code);
/* Does it say that this server is no primary any more? */
bool snib__my_is_demoted(int code);
/* The page of the documentation that lists the rights. */
const char *snib__my_page(const struct snib__mysql *);
/* The error and words for those who asked; text: the server's. */
snib_err snib__my_fail(const struct snib__mysql *, int code, const char *text,
                       struct snib_error *);
/* The same for a connection that could not be made. */
snib_err snib__my_fail_connect(const struct snib__mysql *, int code,
                               const char *text, struct snib_error *);

/* -- a session ------------------------------------------------------------- */

struct snib__my_session {
    struct snib__sql_session tables; /* first member */
    struct snib__mysql *store;
    struct snib__my_conn conn;
};

static inline struct snib__my_session *snib__my_of(struct snib__sql *q)
{
    return (struct snib__my_session *)(void *)q;
}

extern const struct snib__sql_link snib__my_link;
snib__sql_end snib__my_doctor(struct snib__sql *, struct snib__request *);

/* -- being notified (listen.c, waits.c) ------------------------------------ */

enum { SNIB__MY_HEARD = 32 };

/* A request that waits, by which it is looked for when this client is
 * notified. */
struct snib__my_wait {
    uint64_t id[2];
    snib_instant seen; /* when it was executed last */
    uint32_t size;
    char name[SNIB_NAME_MAX];
};

/* The thread that hears of this client's grants, on a connection of its own.
 * `mu` is never held while somebody waits for the server. */
struct snib__my_listener {
    pthread_mutex_t mu;
    int fd; /* an eventfd: something was heard; -1: not open */
    pthread_t thread;
    bool making; /* somebody makes the connection */
    bool begun;  /* there is a thread to join */
    int pid;     /* of the process that has begun it */
    bool hears;  /* it has a connection, and `notifier` holds */
    char notifier[40];
    struct snib__my_conn conn; /* the thread's, while there is one */
    int blocks; /* by which session's lock it is kept waiting; the thread's */
    struct snib__my_wait *wait;
    uint32_t waits, wait_room;
    bool lacks; /* not all that wait are there: no memory */
    uint64_t heard[SNIB__MY_HEARD][2];
    uint32_t heards;
    bool all; /* more than that */
};

bool snib__my_listener_init(struct snib__my_listener *);
void snib__my_listener_free(struct snib__mysql *);
void snib__my_listen(struct snib__sql *);
/* From now on the session's claims say how this client is notified. */
void snib__my_know_notifier(struct snib__my_session *);
/* With the mutex held. NULL: it is not there. */
struct snib__my_wait *snib__my_find_wait(struct snib__my_listener *,
                                         const uint64_t id[2]);
/* Before these requests are executed, and after. */
void snib__my_note_waits(struct snib__mysql *, struct snib__list *chain);
void snib__my_drop_waits(struct snib__mysql *, struct snib__list *chain);
uint32_t snib__my_notified(void *, uint64_t (*ids)[2], uint32_t max);
/* Of snib__sql_link. */
void snib__my_notify(struct snib__sql_session *, const struct snib__told *);

/* -- an instance ----------------------------------------------------------- */

struct snib__mysql {
    struct snib__mariadb lib;
    struct snib__my_session session[SNIB__SESSIONS];
    struct snib__my_listener listener;
    int stop; /* an eventfd; readable: the client stops */
    uint64_t client[2];
    struct snib__sql_address address;
    char prefix[64]; /* of a dialect: the table */
    struct snib__sql_recipe recipe;
    struct snib__sql_natives getlock;
    char *password_file;    /* NULL: none */
    snib_duration request;  /* how long to wait for one answer */
    int64_t wall_offset_ns; /* of this host; 0: not known */
    struct {                /* of the server; guarded by listener.mu */
        char version[48];
        snib_instant connected; /* 0: no session is */
        int sessions;
    } server;
};

bool snib__my_is_getlock(const struct snib__url *);
/* Open with this library in place of the machine's. */
snib_err snib__mysql_open_on(const struct snib__store_config *,
                             const struct snib__mariadb *, void **ret,
                             struct snib_error *);

#endif
