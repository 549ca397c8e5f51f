/* store/postgres/advisory_i.h — what the files of the dialect share: a connection
 * that holds a lock, or waits for it. */
#ifndef SNIB__POSTGRES_ADVISORY_I_H
#define SNIB__POSTGRES_ADVISORY_I_H

#include "store/postgres/postgres_i.h"

/* A worker uses one for the requests of its id, which are executed one after the
 * other (core/sharing.c). Another worker may want its end meanwhile: that of a
 * request which is to end this grant first. What is told of the list, and `busy`,
 * `doomed`, `watched`, is guarded. */
struct pg_hold {
    struct snib__link link;
    uint64_t id[2]; /* the request's */
    struct snib__pg_conn conn;
    struct snib__sql_script wait; /* what it waits with, or renews */
    char text[96];
    bool waits;
    bool owes;     /* the answer to a renewal is to come */
    bool busy;     /* a worker uses it */
    bool doomed;   /* and is to end it then */
    bool watched;  /* in the epoll set, while nobody uses it */
    int64_t token; /* 0: it does not hold */
};

/* A request that is executed. */
struct advisory_step {
    struct snib__pg_session *s;
    struct snib__request *r;
    struct pg_hold *hold;
    struct snib__pg_key key;
    int64_t got, us;
    snib_instant sent;
};

/* advisory_look.c */
snib__sql_end snib__pg_advisory_inspect(struct advisory_step *);

/* -- advisory_hold.c -------------------------------------------------------- */

/* Use that of a request. NULL: there is none. */
struct pg_hold *snib__pg_hold_use(struct snib__postgres *,
                                  const uint64_t id[2]);
/* It is not used any more, and stays. */
void snib__pg_hold_leave(struct snib__postgres *, struct pg_hold *);
/* End that of another request, with this token, now or when it is not used any
 * more. */
void snib__pg_hold_end_other(struct snib__postgres *, const uint64_t id[2],
                             int64_t token);
/* Make one for a request, with a connection, and use it. */
snib__sql_end snib__pg_hold_new(struct snib__pg_session *, const uint64_t id[2],
                                snib_instant until, struct pg_hold **ret,
                                struct snib_error *fault);
/* Of one that is used. sound: its connection may serve another request. Else what it has at the server
 * ends with that. */
void snib__pg_hold_end(struct snib__postgres *, struct pg_hold *, bool sound);
/* Wait for the lock from now on; the answer comes when it comes. */
bool snib__pg_hold_wait(struct pg_hold *, const struct snib__pg_key *);
/* Send a renewal, which stands in `wait`; false: the connection is gone. */
bool snib__pg_hold_ask(struct pg_hold *);
/* Has what it waits for or is owed, or the end of the connection, come? */
bool snib__pg_hold_heard(struct pg_hold *);
/* Until then? */
bool snib__pg_hold_await(struct pg_hold *, snib_instant until);
/* Take it. */
snib__sql_end snib__pg_hold_take(struct pg_hold *, snib_instant until,
                                 struct snib_error *fault);
int64_t snib__pg_hold_pid(const struct pg_hold *);

#endif
