/* store/sql/native.h — locks that a database's server has of its own, as programs
 * take them that have nothing but SQL: PostgreSQL's advisory locks, MySQL's named
 * ones. Mutexes only.
 *
 * Such a lock belongs to a session of the server's and ends with it, so each
 * request that holds or waits has a connection of its own. There is no lease; but
 * the server ends a session that says nothing for as long as it was told to. That
 * is set to the lease, and each renewal is a statement.
 *
 * WHY TWO NEVER HOLD, of whom one is ours. The server gives the lock to one session
 * at a time. It ends ours (a) when nothing came for a lease, counted from behind
 * our last statement; our deadline counts from before we sent that; (b) when it is
 * told to, restarts, or finds the connection broken. Then it lets the next one in
 * at once: our connection shows that, and the holder is told; until that has come,
 * two believe. That is less than the other stores promise. */
#ifndef SNIB__SQL_NATIVE_H
#define SNIB__SQL_NATIVE_H

#include <pthread.h>

#include "store/sql/tables.h"

/* -- connections (native_hold.c) ------------------------------------------- */

/* A worker uses one for the requests of its id, which are executed one after the
 * other (core/sharing.c). Another worker may want its end meanwhile: that of a
 * request which is to end this grant first. What is told of the list, and `busy`,
 * `doomed`, `watched`, is guarded. A store's own begins with it. */
struct snib__sql_hold {
    struct snib__link link;
    uint64_t id[2];                 /* the request's */
    struct snib__sql_script script; /* what it waits with, or renews */
    int64_t us;                     /* the server's clock, as read last */
    bool waits;
    bool owes;     /* the answer to a renewal is to come */
    bool busy;     /* a worker uses it */
    bool doomed;   /* and is to end it then */
    bool watched;  /* in the epoll set, while nobody uses it */
    int64_t token; /* 0: it does not hold */
};

struct snib__sql_native_ops;

struct snib__sql_natives {
    bool on;
    const struct snib__sql_native_ops *ops;
    const char *where;   /* the server, for texts; the store's */
    pthread_mutex_t *mu; /* the store's: what is guarded is guarded by it */
    int epoll;           /* where connections are watched */
    struct snib__list holds;
    struct snib__sql_hold *spare; /* that nobody uses, and that is sound */
};

/* -- what a store says of its locks ---------------------------------------- */

struct snib__sql_native_ops {
    /* Add to a script: take the lock (1; 0: another session has it; NULL: the server
     * has failed), give it back (1; 0 or NULL: this session had it not), who holds
     * it (columns: native_look.c); the server's clock in µs, 0: it is no primary. */
    void (*add_try)(struct snib__sql_script *, const struct snib__name *,
                    snib__sql_row *, void *data);
    void (*add_unlock)(struct snib__sql_script *, const struct snib__name *,
                       snib__sql_row *, void *data);
    void (*add_look)(struct snib__sql_script *, const struct snib__name *,
                     snib__sql_row *, void *data);
    void (*add_clock)(struct snib__sql_script *, snib__sql_row *, void *data);
    /* For how long the session may say nothing; 0: for as long as it likes. */
    void (*add_stay)(struct snib__sql_script *, int64_t ms);
    /* Have the server stop waiting for it, and nobody else. */
    void (*add_cancel)(struct snib__sql_script *,
                       const struct snib__sql_hold *);
    /* Make a connection, to a primary. */
    snib__sql_end (*connect)(struct snib__sql_session *, snib_instant until,
                             struct snib__sql_hold **ret,
                             struct snib_error *fault);
    /* Also of what is made by half. */
    void (*free)(struct snib__sql_hold *);
    int (*fd)(const struct snib__sql_hold *); /* -1: it has ended */
    snib__sql_end (*run)(struct snib__sql_hold *, struct snib__sql_script *,
                         snib_instant until, struct snib_error *fault);
    /* Wait for the lock from now on; the answer comes when it comes. False: the
     * connection is gone. */
    bool (*wait)(struct snib__sql_hold *, const struct snib__name *);
    /* Send what stands in its script, which has been sent before in a script;
     * the answer is owed. False: as above. */
    bool (*ask)(struct snib__sql_hold *);
    /* Has what it waits for or is owed, or the end of the connection, come? */
    bool (*heard)(struct snib__sql_hold *);
    /* Until then? */
    bool (*await)(struct snib__sql_hold *, snib_instant until);
    /* Take that answer. OK: it holds, or its script was executed. */
    snib__sql_end (*take)(struct snib__sql_hold *, snib_instant until,
                          struct snib_error *fault);
    /* What there is not, as words; they begin or end a sentence. */
    const char *kinds, *delay, *priority, *list, *force, *rest;
};

void snib__sql_natives_init(struct snib__sql_natives *,
                            const struct snib__sql_native_ops *,
                            const char *where, pthread_mutex_t *, int epoll);
/* Nobody is inside. */
void snib__sql_natives_free(struct snib__sql_natives *);
/* Use that of a request. NULL: there is none. */
struct snib__sql_hold *snib__sql_hold_use(struct snib__sql_natives *,
                                          const uint64_t id[2]);
/* It is not used any more, and stays. */
void snib__sql_hold_leave(struct snib__sql_natives *, struct snib__sql_hold *);
/* End that of another request, with this token, now or when it is not used any
 * more. */
void snib__sql_hold_end_other(struct snib__sql_natives *, const uint64_t id[2],
                              int64_t token);
/* Make one for a request, with a connection, and use it. */
snib__sql_end snib__sql_hold_new(struct snib__sql_natives *,
                                 struct snib__sql_session *,
                                 const uint64_t id[2], snib_instant until,
                                 struct snib__sql_hold **ret,
                                 struct snib_error *fault);
/* Of one that is used. sound: its connection may serve another request. Else what
 * it has at the server ends with that. */
void snib__sql_hold_end(struct snib__sql_natives *, struct snib__sql_hold *,
                        bool sound);
/* Of snib__blocking_ops. */
uint32_t snib__sql_native_notified(struct snib__sql_natives *,
                                   uint64_t (*ids)[2], uint32_t max);

/* -- requests (native.c) --------------------------------------------------- */

/* What exec_in() does, in place of snib__sql_execute. */
void snib__sql_native_execute(struct snib__sql_session *,
                              struct snib__sql_natives *, struct snib__list *);
/* An INSPECT (native_look.c). OK: it has its answer. */
snib__sql_end snib__sql_native_look(struct snib__sql_session *,
                                    const struct snib__sql_natives *,
                                    struct snib__request *);

#endif
