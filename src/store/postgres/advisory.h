/* store/postgres/advisory.h — the server's advisory locks, for ?dialect=advisory:
 * pg_advisory_lock(), as programs take them that have nothing but SQL
 * (store/sql/native.h; docs/ADVISORY.md). A session that says nothing is ended
 * after its idle_session_timeout. */
#ifndef SNIB__POSTGRES_ADVISORY_H
#define SNIB__POSTGRES_ADVISORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a name is for pg_advisory_lock: one number of 64 bits, or two of 32. */
struct snib__pg_key {
    bool pair;
    int64_t one;
    int32_t high, low;
};

/* Medallion.Threading's formula (advisory_key.c). */
struct snib__pg_key snib__pg_key_of(const char *name, size_t size);

struct snib__sql_native_ops;
extern const struct snib__sql_native_ops snib__pg_advisory;

#endif
