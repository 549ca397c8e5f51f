/* sim/driver.h — what the files of a client at a table share: driver.c, its
 * lines and its life; worker.c, the steps of its workers; worker_said.c, a step
 * as messages, and in words. No other file includes this. */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include "sim/see.h"
#include "sim/table.h"

enum {
    SIM_WORKERS = 2,
    SIM_NOTIFIER = 2,
    SIM_NOTICES = 64,
    SIM_BUF_MAX = 4 << 20
};

enum sim_phase {
    SIM_IDLE,
    SIM_CONNECT, /* no connection yet */
    SIM_FETCH,   /* the fetch is on its way, or its answer */
    SIM_WRITE,   /* the write is */
    SIM_REST     /* after a conflict, before the next fetch */
};

struct sim_worker {
    struct snib__list list;                      /* what was not executed yet */
    struct snib__list done;                      /* … was */
    struct snib__request *r[SNIB__SNAPSHOT_MAX]; /* the step's */
    uint32_t count;
    struct snib__snapshot s;
    enum sim_phase phase;
    int64_t call;
    snib_instant sent;
    snib_instant limit; /* the earliest of its requests */
    snib_instant due;   /* when the phase ends by itself */
    int64_t fetched_at; /* true time */
    int conflicts;
    bool apart;  /* each request is a step of its own */
    bool inside; /* of two workers: it has taken its session's list */
};

struct sim_driver {
    struct sim_world *w;
    int client;
    uint64_t id[2];
    struct snib__out *out;
    snib_duration request;
    struct snib__rng rng;
    int64_t calls;
    int workers;
    struct sim_worker worker[SIM_WORKERS];
    enum sim_conn conn[SIM_CONNS];
    struct snib__buf in[SIM_CONNS];
    snib_instant notifier_at; /* when to ask for the notifier again */
    uint64_t notice[SIM_NOTICES][2];
    uint32_t notices;
    bool missed; /* notices may have been lost */
};

static inline snib_instant sim_driver_now(const struct sim_driver *d)
{
    return sim_now(d->w, d->client);
}
static inline struct snib__request *sim_request(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__request, link);
}
/* The connection of a worker. */
static inline int sim_conn_of(const struct sim_driver *d,
                              const struct sim_worker *k)
{
    return (int)(k - d->worker);
}

/* Is the connection there? If not, it is asked for. */
static inline bool sim_conn_up(struct sim_driver *d, int conn)
{
    if (d->conn[conn] == SIM_DOWN) {
        d->conn[conn] = SIM_OPENING;
        d->out->conn[conn]->open = true;
        snib__conn_touch(d->out, d->out->conn[conn]);
    }
    return d->conn[conn] == SIM_UP;
}
static inline void sim_conn_shut(struct sim_driver *d, int conn)
{
    if (d->conn[conn] == SIM_UP) {
        d->conn[conn] = SIM_CLOSING;
        d->out->conn[conn]->shut = true;
        snib__conn_touch(d->out, d->out->conn[conn]);
    }
}
/* The payload is freed. */
static inline void sim_conn_speak(struct sim_driver *d, int conn,
                                  enum sim_message what, int64_t call,
                                  struct snib__buf *payload)
{
    sim_send(&d->out->conn[conn]->out, what, call, payload);
    snib__conn_touch(d->out, d->out->conn[conn]);
    snib__buf_free(payload);
}

/* worker_said.c */
bool sim_same_lock(const struct snib__request *, const struct snib__request *);
/* Is it one that changes claims? */
bool sim_changes_claims(const struct snib__request *);
void sim_fetch_message(const struct sim_worker *, struct snib__buf *);
void sim_write_message(const struct sim_driver *, const struct sim_worker *,
                       struct snib__buf *);
/* The rows of a fetch. */
void sim_rows_message(struct sim_worker *, struct sim_reader *);
/* The step changed nothing: it was done when the table was looked at. */
void sim_step_looked(const struct sim_driver *, const struct sim_worker *);

/* worker.c */
/* Nothing was done for it. blocked: the table answers, but this took too
 * long. */
void sim_request_in_vain(struct snib__request *, bool blocked);
void sim_worker_init(struct sim_driver *, struct sim_worker *);
/* It has a list: go on as far as that is possible now. */
void sim_worker_turn(struct sim_driver *, struct sim_worker *);
void sim_worker_hears(struct sim_driver *, struct sim_worker *,
                      enum sim_message, int64_t call, struct sim_reader *);
/* Its connection is there; it is gone, or was not made. */
void sim_worker_up(struct sim_driver *, struct sim_worker *);
void sim_worker_cut(struct sim_driver *, struct sim_worker *);
bool sim_worker_is_busy(const struct sim_worker *);

#endif
