/* store/mysql/mysql.h — locks in a MariaDB or MySQL database.
 *
 * "mysql://[user[:password]@]host[:port]/database[?prefix=…]"; a socket by
 * ?socket=. docs/MYSQL.md describes the tables, the clock and what is
 * promised. */
#ifndef SNIB__MYSQL_H
#define SNIB__MYSQL_H

#include "core/store.h"

extern const struct snib__blocking_ops snib__mysql_ops;

/* The statements that make the tables of this URL (its prefix counts), as text
 * for the program mysql; for whoever owns the database. Errors: USAGE (no such
 * prefix is taken), NOMEM. */
snib_err snib__mysql_schema(const struct snib__url *, struct snib__buf *ret,
                            struct snib_error *);

#endif
