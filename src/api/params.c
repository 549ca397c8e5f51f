/* api/params.c — the params of a lock: a semaphore's size, a latch's count. */
#include "api/params.h"

#include <string.h>

#include "api/client.h"
#include "base/error.h"
#include "base/record.h"
#include "driver/client.h"

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

struct params_op {
    struct snib__direct_op d;
    void (*put)(const struct snib__params *, void *, size_t);
    void *ret;
    size_t ret_size;
};

static snib_err params_decode(struct snib__direct_op *d, snib_err err,
                              struct snib_error *ret)
{
    struct params_op *o = SNIB__CONTAINER(d, struct params_op, d);
    struct snib__params now;
    if (!err && !params_read_row(&d->q.result, &now)) {
        err =
            snib__fail(ret, SNIB_ERR_INTERNAL,
                       "the store did not say what the lock's parameters are");
    }
    if (!err && o->put && o->ret) {
        o->put(&now, o->ret, o->ret_size);
    }
    return err;
}

static const struct snib__direct_rules params_rules = {.decode = params_decode};

static snib_err params_prepare(struct params_op *o, struct snib_client *c,
                               const struct snib__params_ask *ask,
                               struct snib_error *reterr)
{
    if (!c || !ask->name) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "client and name must not be NULL");
    }
    o->d = (struct snib__direct_op){
        .client = c,
        .rules = &params_rules,
        .q = {.verb = SNIB__PARAMS,
              .op = ask->op,
              .amount = ask->amount,
              .limit = SNIB__NEVER,
              .name = ask->name,
              .name_size = ask->size ? ask->size : strlen(ask->name)}};
    o->put = ask->put;
    o->ret = ask->ret;
    o->ret_size = ask->ret_size;
    return SNIB_ERR_OK;
}

snib_err snib__params_run(struct snib_client *c,
                          const struct snib__params_ask *ask,
                          struct snib_error *reterr)
{
    struct params_op o;
    snib_err err = params_prepare(&o, c, ask, reterr);
    return err ? err : snib__run_direct(&o.d, reterr);
}

snib_err snib__params_start(struct snib_client *c,
                            const struct snib__params_ask *ask, void *user,
                            uint64_t *ret_ticket, struct snib_error *reterr)
{
    struct params_op o;
    snib_err err = params_prepare(&o, c, ask, reterr);
    return err ? err
               : snib__start_direct(&o.d, sizeof o, user, ret_ticket, reterr);
}

void snib__params_put_done(const struct snib__params *t, void *ret,
                           size_t ret_size)
{
    (void)ret_size;
    *(bool *)ret = t->done != 0;
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
