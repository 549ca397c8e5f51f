/* store/postgres/advisory.h — the server's advisory locks, for ?dialect=advisory:
 * pg_advisory_lock(), as programs take them that have nothing but SQL. Mutexes
 * only; docs/ADVISORY.md.
 *
 * Such a lock belongs to a session of the server's and ends with it, so each
 * request that holds or waits has a connection of its own. There is no lease; but
 * the server ends a session that says nothing for as long as its
 * idle_session_timeout. That is set to the lease, and each renewal is a statement.
 *
 * WHY TWO NEVER HOLD, of whom one is ours. The server gives the lock to one session
 * at a time. It ends ours (a) when nothing came for a lease, counted from behind
 * our last statement; our deadline counts from before we sent that; (b) when it is
 * told to, restarts, or finds the connection broken. Then it lets the next one in
 * at once: our connection shows that, and the holder is told; until that has come,
 * two believe. That is less than the other stores promise. */
#ifndef SNIB__POSTGRES_ADVISORY_H
#define SNIB__POSTGRES_ADVISORY_H

#include "core/name.h"
#include "store/sql/sql.h"

struct snib__postgres;
struct snib__pg_session;

/* What a name is for pg_advisory_lock: one number of 64 bits, or two of 32. */
struct snib__pg_key {
    bool pair;
    int64_t one;
    int32_t high, low;
};

/* Medallion.Threading's formula (advisory_key.c). */
struct snib__pg_key snib__pg_key_of(const char *name, size_t size);

/* What exec_in() does, in place of snib__sql_execute. */
void snib__pg_advisory_execute(struct snib__pg_session *, struct snib__list *);
/* Of snib__blocking_ops. */
uint32_t snib__pg_advisory_notified(struct snib__postgres *, uint64_t (*ids)[2],
                                    uint32_t max);
/* Nobody is inside. */
void snib__pg_advisory_free(struct snib__postgres *);

#endif
