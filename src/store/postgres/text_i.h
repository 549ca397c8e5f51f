/* store/postgres/text_i.h — what text.c and text_dialect.c share; no other file
 * includes this. */
#ifndef SNIB__PG_TEXT_I_H
#define SNIB__PG_TEXT_I_H

#include "store/postgres/postgres_i.h"

/* The server's clock, and when it was started; in microseconds. */
#define US   "(extract(epoch FROM clock_timestamp())*1000000)::bigint"
#define LIFE "(extract(epoch FROM pg_postmaster_start_time())*1000000)::bigint"

/* NULL: it is no statement of a dialect. */
const char *snib__pg_dialect_text(int statement);

#endif
