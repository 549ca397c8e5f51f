/* store/sql/int_lock.h — how Spring Integration writes a lock's name, and we a
 * request, into its table INT_LOCK (?dialect=int_lock; store/sql/recipe.h). */
#ifndef SNIB__SQL_INT_LOCK_H
#define SNIB__SQL_INT_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SNIB__INT_LOCK_UUID = 36, /* characters of LOCK_KEY, and of CLIENT_ID */
    SNIB__INT_LOCK_TTL_MS = 10000
};

/* LOCK_KEY of a name, as JdbcLockRegistry has it. */
void snib__int_lock_key(const char *name, size_t size,
                        char ret[SNIB__INT_LOCK_UUID + 1]);
/* Might Java take the name for a UUID that is written in another way, so that it
 * stands for another key? */
bool snib__int_lock_is_doubtful(const char *name, size_t size);
/* CLIENT_ID of a request with its token. */
void snib__int_lock_client(const uint64_t id[2], int64_t token,
                           char ret[SNIB__INT_LOCK_UUID + 1]);
/* False: it is none of ours. */
bool snib__int_lock_read_client(const char *text, size_t size,
                                uint64_t ret_id[2], int64_t *ret_token);

#endif
