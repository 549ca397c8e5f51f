/* api/recovery.c — the time in which a server lets nobody in anew: how long it
 * still is, and its end by hand. */
#include "api/api.h"
#include "api/client.h"
#include "api/views.h"
#include "base/error.h"
#include "base/record.h"
#include "driver/client.h"
#include "snib/event.h"
#include "snib/inspect.h"

#define RECOVERY_END_MAX ((INT64_C(1) << 53) - 1) /* what a server can say */

struct recovery_op {
    struct snib__direct_op d;
    struct snib_recovery *ret;
    size_t ret_size;
};

static bool recovery_read(const struct snib__buf *rows,
                          struct snib_recovery *ret)
{
    struct snib__rec at;
    bool found = false;
    snib__rec_begin(&at, snib__buf_bytes(rows), snib__buf_size(rows));
    while (!found && snib__rec_next_row(&at)) {
        found = at.row == SNIB__ROW_RECOVERY;
        while (found && snib__rec_next_field(&at)) {
            int64_t v = snib__rec_value_i64(&at);
            if (at.field == SNIB__F_LEFT) {
                ret->left_ms = v;
            } else if (at.field == SNIB__F_END) {
                ret->end = v;
            } else if (at.field == SNIB__F_COUNT) {
                ret->ended = v != 0;
            } else if (at.field == SNIB__F_MISSING) {
                ret->replicas_missing = snib__field_count(v);
            }
        }
    }
    return found;
}

static snib_err recovery_decode(struct snib__direct_op *d, snib_err err,
                                struct snib_error *ret)
{
    struct recovery_op *o = SNIB__CONTAINER(d, struct recovery_op, d);
    struct snib_recovery is = {0};
    if (!err && !recovery_read(&d->q.result, &is)) {
        err = snib__fail(ret, SNIB_ERR_INTERNAL,
                         "the store did not say how long its recovery lasts");
    }
    if (!err) {
        snib__result_write(&is, sizeof is, o->ret, o->ret_size);
    }
    return err;
}

static const struct snib__direct_rules recovery_rules = {.decode =
                                                             recovery_decode};

static snib_err recovery_prepare(struct recovery_op *o,
                                 struct snib_client *client, int64_t end,
                                 struct snib_recovery *ret, size_t ret_size,
                                 struct snib_error *reterr)
{
    if (!client || !ret || end < -RECOVERY_END_MAX || end > RECOVERY_END_MAX) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_client_recovery: client and ret must not be "
                          "NULL, and end is 0 or that of an earlier answer");
    }
    o->d = (struct snib__direct_op){
        .client = client,
        .rules = &recovery_rules,
        .q = {.verb = SNIB__RECOVERY,
              .op = end ? SNIB__PARAMS_OPEN : SNIB__PARAMS_GET,
              .amount = end,
              .limit = SNIB__NEVER}};
    o->ret = ret;
    o->ret_size = ret_size;
    return SNIB_ERR_OK;
}

snib_err snib_client_recovery(struct snib_client *client, int64_t end,
                              struct snib_recovery *ret, size_t ret_size,
                              struct snib_error *reterr)
{
    struct recovery_op o;
    snib_err err = recovery_prepare(&o, client, end, ret, ret_size, reterr);
    return err ? err : snib__run_direct(&o.d, reterr);
}

snib_err snib_client_recovery_start(struct snib_client *client, int64_t end,
                                    struct snib_recovery *ret, size_t ret_size,
                                    void *user, uint64_t *ret_ticket,
                                    struct snib_error *reterr)
{
    struct recovery_op o;
    snib__no_ticket(ret_ticket);
    snib_err err = recovery_prepare(&o, client, end, ret, ret_size, reterr);
    return err ? err
               : snib__start_direct(&o.d, sizeof o, user, ret_ticket, reterr);
}
