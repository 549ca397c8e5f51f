/* sim/table.h — a store across a network that is no Redis: a table of keys with
 * bytes and stamps, worked on by snapshots (core/snapshot).
 *
 * table.c is its server. A fetch shows all rows as of one moment. A write is
 * applied as one, or not at all when a row has another stamp than it names,
 * when it comes from another epoch, or after its time. Who listens is told of
 * what the write granted. table_state.c reads the rows into the books.
 *
 * driver.c is what the store of a client would be in the library: it answers the
 * engine's requests for a blocking store, by messages. Its calls would block a
 * thread there; here the thread's next step is an event of the world.
 *
 * A client has three connections, as to a Redis: of the callers' worker, of the
 * background's, and of the notifier. They are byte streams of sim/net.c, with
 * all their faults. */
#ifndef SIM_TABLE_H
#define SIM_TABLE_H

#include "core/snapshot/snapshot.h"
#include "sim/world.h"

/* -- messages -------------------------------------------------------------- */

/* A message is its size (these 8 bytes included), what it is, the number of the
 * call, and then numbers of 8 bytes each, or bytes with their size in front. */
enum sim_message {
    SIM_MSG_FETCH = 1, /* waiters, highest wanted, names, requests */
    SIM_MSG_ROWS,      /* moment, true time, rows, queues that were cut */
    SIM_MSG_WRITE,     /* epoch, not_after, guards, told, what it does */
    SIM_MSG_APPLIED,   /* 1: it was */
    SIM_MSG_LISTEN,    /* notifier */
    SIM_MSG_LISTENS,
    SIM_MSG_NOTICE, /* request */
    SIM_MSG_UNFIT,  /* error, for a reason of the server: nothing was done */
    /* To a database (sim/sql), beside LISTEN. */
    SIM_MSG_SCRIPT, /* what it will have done; items */
    SIM_MSG_PART    /* error, true time, results */
};

struct sim_reader {
    const uint8_t *at, *end;
};

static inline void sim_put(struct snib__buf *b, int64_t n)
{
    snib__buf_add(b, &n, sizeof n);
}
static inline void sim_put_bytes(struct snib__buf *b, const void *p, size_t n)
{
    sim_put(b, (int64_t)n);
    snib__buf_add(b, p, n);
}
int64_t sim_get(struct sim_reader *);
const void *sim_get_bytes(struct sim_reader *, size_t *ret_size);
/* Append a whole message. */
void sim_send(struct snib__buf *to, enum sim_message, int64_t call,
              const struct snib__buf *payload);
/* The first whole message of a stream; false: it is not there yet. It is
 * consumed by ret_size bytes. */
bool sim_receive(const struct snib__buf *from, enum sim_message *ret,
                 int64_t *ret_call, struct sim_reader *ret_payload,
                 size_t *ret_size);

/* -- the server ------------------------------------------------------------ */

enum { SIM_ROW_BYTES = 1600 };

struct sim_key {
    int kind; /* snib__key_kind */
    int name;
    uint64_t request[2];
};

struct sim_row {
    struct sim_key key;
    uint64_t stamp;
    size_t size;
    struct snib__stored_claim c; /* CLAIM: what the bytes say */
    struct snib__lock_row l;     /* LOCK */
    uint8_t bytes[SIM_ROW_BYTES];
};

struct sim_rows {
    struct sim_row *row;
    int count, room;
    uint64_t revision;
};

/* A connection, by its number from 1 on. */
struct sim_table_conn {
    int id; /* 0: none */
    struct snib__buf in, out;
    char notifier[40]; /* it listens for that; "": it does not */
    bool closing;      /* the server says nothing more */
};

struct sim_table {
    struct sim_server *server;
    struct sim_rows rows, replica; /* for the fault promote */
    uint64_t epoch;
    unsigned faults; /* enum sim_redis_fault */
    bool has_replica;
    struct sim_sql *sql; /* it speaks another language; NULL: it does not */
    struct sim_table_conn *conn;
    int conns, conn_room, last_conn;
};

struct sim_table *sim_table_new(struct sim_server *);
void sim_table_free(struct sim_table *);
int sim_table_connect(struct sim_table *);
void sim_table_disconnect(struct sim_table *, int conn);
struct sim_table_conn *sim_table_conn(struct sim_table *, int conn);
void sim_table_input(struct sim_table *, int conn, const void *, size_t);
/* It restarts, with its data or without: another epoch. */
void sim_table_restart(struct sim_table *, bool keep);
void sim_table_flush(struct sim_table *);
void sim_table_evict(struct sim_table *, int name);
void sim_table_backup(struct sim_table *);
/* All since the backup is lost: another epoch. */
void sim_table_restore(struct sim_table *);

/* table_rows.c: the rows, and the moment of a write */
const struct sim_row *sim_row_of(const struct sim_rows *,
                                 const struct sim_key *);
struct sim_row *sim_row_put(struct sim_rows *, const struct sim_key *,
                            const void *bytes, size_t size);
void sim_row_delete(struct sim_rows *, const struct sim_key *);
void sim_rows_copy(struct sim_rows *to, const struct sim_rows *from);
void sim_rows_free(struct sim_rows *);
/* What its bytes say, for whoever looks at it here. */
void sim_row_read(struct sim_row *);
/* Does row a stand before row b in a queue? Both are waiters. */
bool sim_row_is_before(const struct sim_row *a, const struct sim_row *b);

/* sql/: the table of a database. */
struct sim_sql *sim_sql_new(struct sim_table *);
void sim_sql_free(struct sim_table *);
void sim_sql_handle(struct sim_table *, int conn, enum sim_message,
                    int64_t call, struct sim_reader *);
void sim_sql_gone(struct sim_table *, int conn);
void sim_sql_restart(struct sim_table *, bool keep);
/* What is there now outlives a crash. */
void sim_sql_firm(struct sim_table *);

/* A client's end of a connection. */
enum sim_conn { SIM_DOWN, SIM_OPENING, SIM_UP, SIM_CLOSING };

/* -- the clients: driver.c -------------------------------------------------- */

/* The store of the client that is opened next. */
const struct snib__blocking_ops *sim_driver_opens(struct sim_world *,
                                                  int client);
/* A connection was made, is gone, or brings something. */
void sim_driver_input(struct sim_world *, int client,
                      const struct snib__input *);
/* Executes what the engine wants, as far as that is possible now. True: the
 * engine got something back, and may want more. */
bool sim_driver_turn(struct sim_world *, int client);
/* When it has something to do by itself. */
snib_instant sim_driver_due(const struct sim_world *, int client);

#endif
