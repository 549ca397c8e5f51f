/* api/caller.h — who calls, whether it may, and the structs that it gives. */
#ifndef SNIB__CALLER_H
#define SNIB__CALLER_H

#include <stddef.h>
#include <sys/types.h>

#include "snib.h"

/* FORKED in a child of the process that opened the client, else OK. */
snib_err snib__client_check(const struct snib_client *, struct snib_error *);
/* USAGE for a client that snib_client_process drives: it cannot block. */
snib_err snib__may_block(const struct snib_client *, struct snib_error *reterr);
/* Both, for a call that blocks. */
snib_err snib__may_call(const struct snib_client *, struct snib_error *reterr);
/* Remember this process when a client opens. snib__client_check then recognises
 * its children. */
pid_t snib__process_remember(void);
/* The calling thread as an owner. */
uint64_t snib__owner_of_thread(void);
/* As snib_owner_new. */
uint64_t snib__owner_new(void);

/* Copy a caller's struct, whose first member is its size, to *ret, of which
 * this library knows so many bytes; given NULL: all zero. what: "lock options",
 * for the error. USAGE: its size cannot be, or something is set that this
 * library does not know. */
snib_err snib__options_read(const void *given, size_t known, const char *what,
                            void *ret, struct snib_error *reterr);

/* The pauses of an update, first and longest: 0 becomes 1 ms, 64 ms. USAGE: one
 * is below 0, or the longest beyond a minute. */
snib_err snib__backoff_read(int64_t *backoff_ms, int64_t *backoff_max_ms,
                            struct snib_error *reterr);
/* Write a result, of which this library knows so many bytes, to the caller's
 * struct of ret_size bytes: what does not fit is left out, and what this
 * library does not know is zero. */
void snib__result_write(const void *known, size_t known_size, void *ret,
                        size_t ret_size);

#endif
