/* api/params.c — the params of a lock: a semaphore's size, a latch's count. */
#include "api/params.h"

#include <string.h>

#include "api/client.h"
#include "base/error.h"
#include "base/record.h"

static bool params_read_row(const struct snib__buf *rows,
                            struct snib__params *ret)
{
    struct snib__rec at;
    bool found = false;
    *ret = (struct snib__params){0};
    snib__rec_begin(&at, snib__buf_bytes(rows), snib__buf_size(rows));
    while (!found && snib__rec_next_row(&at)) {
        found = at.row == SNIB__ROW_PARAMS;
        while (found && snib__rec_next_field(&at)) {
            int64_t v = snib__rec_value_i64(&at);
            switch (at.field) {
            case SNIB__F_COUNT:
                ret->done = v;
                break;
            case SNIB__F_SIZE:
                ret->size = v;
                break;
            case SNIB__F_PERMITS:
                ret->permits = v;
                break;
            case SNIB__F_LATCH:
                ret->latch = v;
                break;
            case SNIB__F_WAITING:
                ret->waiting = v;
                break;
            default:
                break;
            }
        }
    }
    return found;
}

snib_err snib__params_ask(struct snib_client *c, const char *name, size_t size,
                          snib__params_op op, int64_t amount,
                          struct snib__params *ret, struct snib_error *reterr)
{
    struct snib__direct q = {
        .verb = SNIB__PARAMS, .op = op, .amount = amount, .limit = SNIB__NEVER};
    if (!c || !name) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "client and name must not be NULL");
    }
    q.name = name;
    q.name_size = size ? size : strlen(name);
    snib_err err = snib__run_direct(c, &q, reterr);
    if (!err && !params_read_row(&q.result, ret)) {
        err =
            snib__fail(reterr, SNIB_ERR_INTERNAL,
                       "the store did not say what the lock's parameters are");
    }
    snib__buf_free(&q.result);
    return err;
}

snib_err snib__params_check(const char *what, int64_t n, int64_t least,
                            struct snib_error *reterr)
{
    if (n < least || n > SNIB_PERMITS_MAX) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s is %lld; expected %lld to %d", what, (long long)n,
                          (long long)least, SNIB_PERMITS_MAX);
    }
    return SNIB_ERR_OK;
}
