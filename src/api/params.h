/* api/params.h — the params of a lock, for semaphore.c and latch.c. */
#ifndef SNIB__PARAMS_H
#define SNIB__PARAMS_H

#include "core/engine.h"
#include "snib.h"

struct snib__params {
    int64_t done, size, permits, latch, waiting;
};

/* To change or read the params of a name, and where the result goes. */
struct snib__params_ask {
    const char *name;
    size_t size; /* 0: name is a C string */
    snib__params_op op;
    int64_t amount;
    /* Write the result to ret, from the params as they are then. Either may be
     * NULL: there is no result. */
    void (*put)(const struct snib__params *, void *ret, size_t ret_size);
    void *ret;
    size_t ret_size; /* where a result is a struct that may grow */
};
/* As snib__run_direct and snib__start_direct. */
snib_err snib__params_run(struct snib_client *, const struct snib__params_ask *,
                          struct snib_error *reterr);
snib_err snib__params_start(struct snib_client *,
                            const struct snib__params_ask *, void *user,
                            uint64_t *ret_ticket, struct snib_error *reterr);
/* The result of a change that is made only under a condition: a bool. */
void snib__params_put_done(const struct snib__params *, void *ret,
                           size_t ret_size);
/* USAGE when n is not between least and SNIB_PERMITS_MAX. what names it. */
snib_err snib__params_check(const char *what, int64_t n, int64_t least,
                            struct snib_error *reterr);

#endif
