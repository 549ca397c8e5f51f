/* store/postgres/postgres.h — locks in a PostgreSQL database.
 *
 * "postgres://[user[:password]@]host[:port]/database[?schema=…]"; a socket's
 * folder by ?socket=. docs/POSTGRES.md describes the tables, the clock and what
 * is promised. */
#ifndef SNIB__POSTGRES_H
#define SNIB__POSTGRES_H

#include "core/store.h"

extern const struct snib__blocking_ops snib__postgres_ops;

/* The statements that make the tables of this URL (its schema counts), as text
 * for psql; for whoever owns the database. Errors: USAGE (no such schema is
 * taken), NOMEM. */
snib_err snib__postgres_schema(const struct snib__url *, struct snib__buf *ret,
                               struct snib_error *);

#endif
