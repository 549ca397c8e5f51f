/* api/value_i.h — what value.c, value_update.c and value_update_start.c share. */
#ifndef SNIB__VALUE_I_H
#define SNIB__VALUE_I_H

#include "api/api.h"
#include "base/random.h"
#include "snib/value.h"

/* -- value.c ----------------------------------------------------------------- */

/* The value's name, and its client. what: the function, for the text. *size 0:
 * name is a C string. Errors: USAGE, FORKED. */
snib_err snib__value_check_target(const char *what, struct snib_client *,
                                  const char *name, size_t *size,
                                  struct snib_error *reterr);
/* Errors: USAGE. */
snib_err snib__value_check_ttl(const char *what, int64_t ttl_ms,
                               struct snib_error *reterr);

struct snib__value_get {
    struct snib__direct_op d;
    struct snib_value **ret;
};

struct snib__value_write {
    struct snib__direct_op d;
    int64_t *ret_version;
};

/* What a put writes. */
struct snib__value_put {
    const void *bytes;
    size_t size;
    int64_t ttl_ms;
};

/* Check the arguments, and make the request, which borrows them. Errors: USAGE,
 * LIMIT, FORKED. */
snib_err snib__value_prepare_get(struct snib__value_get *, struct snib_client *,
                                 const char *name, size_t name_size,
                                 struct snib_value **ret,
                                 struct snib_error *reterr);
snib_err snib__value_prepare_put(struct snib__value_write *,
                                 struct snib_client *, const char *name,
                                 size_t name_size, int64_t expected,
                                 struct snib__value_put, int64_t *ret_version,
                                 struct snib_error *reterr);
snib_err snib__value_prepare_delete(struct snib__value_write *,
                                    struct snib_client *, const char *name,
                                    size_t name_size, int64_t expected,
                                    int64_t *ret_version,
                                    struct snib_error *reterr);

/* -- value_update.c ------------------------------------------------------------ */

typedef int snib__compute(void *data, const struct snib_value *now,
                          struct snib_value_next *next);

/* An update under way. */
struct snib__update {
    struct snib_client *c;
    const char *name;
    size_t name_size;
    struct snib_value_options o;
    snib__compute *compute;
    void *data;
    int64_t wait_ms; /* 0: one round                                         */
    snib_instant limit;
    struct snib__rng rng;
    bool seeded;
    uint32_t rounds; /* so often somebody else was faster                    */
    int64_t version; /* as last seen or written                             */
};

/* Check the arguments, which are in *u but for these two. Errors: USAGE,
 * FORKED. */
snib_err snib__update_check(struct snib__update *u, int64_t wait_ms,
                            const struct snib_value_options *,
                            struct snib_error *reterr);
/* Somebody else was faster. How long to pause now? False: it is too late for
 * another round. */
bool snib__update_pause(struct snib__update *, snib_instant now,
                        snib_duration *ret);
/* TIMEOUT, in words. */
snib_err snib__update_late(const struct snib__update *,
                           struct snib_error *reterr);

#endif
