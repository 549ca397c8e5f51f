/* store/sql/sql.h — what the stores in SQL databases share: steps on snapshots
 * (core/snapshot), and shorter ways for what needs no decision.
 *
 * A store has a *driver*, the functions that know its database. The steps here
 * know no SQL. One struct snib__sql belongs to one session, and one thread at a
 * time uses it.
 *
 * The ways of a request:
 *
 *   short    one guarded UPDATE of the lock's row: an exclusive lock that is
 *            free and that nobody waits for is acquired; its holder renews,
 *            confirms, releases. If the row is not as it must be, nothing is
 *            changed, and the request takes the next way.
 *   guarded  the rows are fetched, the rules decide, and the write names what
 *            they relied on. No lock of the database is held meanwhile. A
 *            conflict takes the next way.
 *   locked   the rows are locked first. Others wait for as long as a round trip
 *            takes, and the write cannot conflict. It is the first way where
 *            somebody waited before: there conflicts are likely, and the
 *            database writes each of them into its log.
 *
 * Each conversation ends in one of snib__sql_end, and by `until` at the
 * latest. */
#ifndef SNIB__SQL_H
#define SNIB__SQL_H

#include "core/snapshot/snapshot.h"
#include "core/version.h"

enum { SNIB__SQL_CROWDED = 64 };

typedef enum snib__sql_end {
    SNIB__SQL_OK,
    SNIB__SQL_CONFLICT, /* nothing was done: others were faster */
    SNIB__SQL_DOWN,     /* nothing was done: the server was not reached */
    SNIB__SQL_REFUSED,  /* nothing was done: the server does not want to */
    SNIB__SQL_LOST      /* no answer: nobody knows what was done */
} snib__sql_end;

/* What the short way is to do. */
typedef enum snib__sql_short {
    SNIB__SQL_NONE,
    SNIB__SQL_ACQUIRE,
    SNIB__SQL_CONFIRM, /* a waiter that may hold by now */
    SNIB__SQL_RENEW,
    SNIB__SQL_RELEASE
} snib__sql_short;

struct snib__sql_try {
    struct snib__request *r;
    snib__sql_short what;
    bool done; /* by the driver: the answer is set */
};

/* A versioned value as it stands in its row. */
struct snib__sql_value {
    bool there;
    uint64_t stamp; /* of the row */
    int64_t until, now_ms;
    uint8_t record[SNIB__VERSION_BYTES];
    bool damaged;  /* that is no record */
    int64_t floor; /* of values that were forgotten */
};

struct snib__sql;

/* Every function but now, pause and free may take until `until`; those that
 * return an end leave in `fault` what was wrong. */
struct snib__sql_driver {
    /* The client's clock: CLOCK_BOOTTIME. */
    snib_instant (*now)(void);
    /* Not longer than that, and not when the client stops. */
    void (*pause)(struct snib__sql *, snib_duration);
    /* Have a connection: make it, unless it is there. */
    snib__sql_end (*reach)(struct snib__sql *);
    /* Make the way by which this client is notified, unless there is one, and
     * name it in s.notifier. Without it waiters poll. */
    void (*listen)(struct snib__sql *);
    /* Fetch for the snapshot. lock: nobody else may change these names until
     * write or leave. */
    snib__sql_end (*fetch)(struct snib__sql *, bool lock);
    /* Write what the snapshot says; durable: it outlives a crash of the server.
     * Then notify whom it tells. Not OK: nothing is locked any more. */
    snib__sql_end (*write)(struct snib__sql *, bool lock, bool durable);
    /* A fetch with lock is not followed by a write. */
    void (*leave)(struct snib__sql *);
    /* As one transaction. Conflicts and refusals mean: take the other way. */
    snib__sql_end (*quick)(struct snib__sql *, struct snib__sql_try *,
                           uint32_t count);
    /* bytes: NULL, or the value goes there. lock as for fetch. */
    snib__sql_end (*value_read)(struct snib__sql *, const struct snib__name *,
                                bool lock, struct snib__sql_value *ret,
                                struct snib__buf *bytes);
    /* After value_read with lock. todo: NOTE, PUT or DELETE. */
    snib__sql_end (*value_write)(struct snib__sql *,
                                 const struct snib__request *,
                                 const struct snib__sql_value *,
                                 snib__version_todo todo);
    /* One LIST, or up to SNIB__SNAPSHOT_MAX times INSPECT: rows go to the
     * results. OK: each has its answer. */
    snib__sql_end (*look)(struct snib__sql *, struct snib__request *const r[],
                          uint32_t count);
    /* Findings go to the result. */
    snib__sql_end (*doctor)(struct snib__sql *, struct snib__request *);
    /* A visit of the cleaner, if nobody is in its way. */
    void (*clean)(struct snib__sql *);
};

struct snib__sql {
    const struct snib__sql_driver *driver;
    const char *what; /* the store, in texts: "postgres" */
    struct snib__snapshot s;
    struct snib__rng rng;
    snib_duration request; /* how long to wait for one answer */
    snib_instant until;
    struct snib_error fault;
    uint32_t writes;
    /* Names, by their hashes, at which somebody waited when they were last
     * seen. */
    uint64_t crowded[SNIB__SQL_CROWDED];
    bool listens; /* `listen` has been called with success */
};

void snib__sql_init(struct snib__sql *, const struct snib__sql_driver *,
                    const char *what, const struct snib__store_config *,
                    uint64_t session);
void snib__sql_free(struct snib__sql *);

/* What exec_in() does: every request of the chain gets its answer, or stays
 * PENDING to come again. */
void snib__sql_execute(struct snib__sql *, struct snib__list *chain);

/* A stamp that no row has had: drawn by lot from 2^63. */
uint64_t snib__sql_stamp(struct snib__sql *);

/* -- for steps.c only ------------------------------------------------------ */

/* Nothing was done. A request whose limit is still to come is executed again a
 * little later, unless somebody wants to hear of the failure. */
void snib__sql_in_vain(struct snib__sql *, struct snib__request *,
                       snib__sql_end);
snib__sql_end snib__sql_value(struct snib__sql *, struct snib__request *);

/* -- for steps.c, recipe.c and advisory locks -------------------------------- */

/* Have a connection, and leave out what has come to its limit until then: that
 * has its answer. False: nothing is left. */
bool snib__sql_set_out(struct snib__sql *, struct snib__request *r[],
                       uint32_t *count);
/* A step with this request has come to this end. Who stands behind it in the same
 * call shall not be told that the server is silent. */
void snib__sql_heard(struct snib__sql *, struct snib__request *, snib__sql_end);

/* way.c */
/* Is it a verb that changes claims? Then it may be in one step with others such. */
bool snib__sql_changes_claims(const struct snib__request *);
/* The short way that it may take. */
snib__sql_short snib__sql_way_short(const struct snib__request *);
/* Are two of them for one lock? */
bool snib__sql_way_twins(struct snib__request *const r[], uint32_t count);
/* May this one be in one step with those? Requests for one lock are decided on
 * one after the other, but who shares it is renewed together. */
bool snib__sql_way_joins(struct snib__request *const r[], uint32_t count,
                         const struct snib__request *one);

#endif
