/* api/semaphore.c — semaphores: their size, and permits in ways of their
 * own. */
#include "snib/semaphore.h"

#include "api/api.h"
#include "api/params.h"
#include "base/error.h"

snib_err snib_semaphore_get(struct snib_client *c, const char *name,
                            size_t name_size, struct snib_semaphore *ret,
                            size_t ret_size, struct snib_error *reterr)
{
    struct snib__params t = {0};
    if (!ret) {
        return snib__fail(reterr, SNIB_ERR_USAGE, "ret must not be NULL");
    }
    snib_err err =
        snib__params_ask(c, name, name_size, SNIB__PARAMS_GET, 0, &t, reterr);
    if (!err) {
        struct snib_semaphore is = {.size = t.size,
                                    .used = t.permits,
                                    .available =
                                        t.size < 0 ? 0 : t.size - t.permits,
                                    .waiting = t.waiting};
        snib__result_write(&is, sizeof is, ret, ret_size);
    }
    return err;
}

snib_err snib_semaphore_set(struct snib_client *c, const char *name,
                            size_t name_size, uint32_t size, bool only_new,
                            bool *ret_set, struct snib_error *reterr)
{
    struct snib__params t = {0};
    snib_err err = snib__params_check("the semaphore's size", size, 0, reterr);
    if (!err) {
        err = snib__params_ask(c, name, name_size,
                               only_new ? SNIB__PARAMS_INIT : SNIB__PARAMS_SIZE,
                               size, &t, reterr);
    }
    if (!err && ret_set) {
        *ret_set = t.done != 0;
    }
    return err;
}

snib_err snib_semaphore_add(struct snib_client *c, const char *name,
                            size_t name_size, int64_t by,
                            struct snib_error *reterr)
{
    struct snib__params t = {0};
    int64_t n = by < 0 && by > INT64_MIN ? -by : by;
    snib_err err = snib__params_check("the number of permits", n, 0, reterr);
    return err ? err
               : snib__params_ask(c, name, name_size, SNIB__PARAMS_ADD, by, &t,
                                  reterr);
}

snib_err snib_semaphore_drain(struct snib_lock *lock,
                              const struct snib_acquire_options *given,
                              struct snib_grant *ret, uint32_t *ret_permits,
                              struct snib_error *reterr)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib__how checked;
    struct snib_status st;
    if (ret) {
        *ret = (struct snib_grant){0};
    }
    if (!lock || !ret) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "lock and ret must not be NULL");
    }
    if (lock->o.kind != SNIB_KIND_PERMITS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "only a lock of kind SNIB_KIND_PERMITS has permits");
    }
    snib_err err = snib__how_read(given, 0, &checked, reterr);
    if (err) {
        return err;
    }
    o.owner = checked.o.owner;
    o.reason = checked.o.reason;
    o.all_permits = true;
    err = snib_try(lock, &o, ret, reterr);
    if (!err && ret_permits) {
        snib_grant_status(lock, *ret, &st, sizeof st);
        *ret_permits = st.permits;
    }
    return err;
}

snib_err snib_semaphore_slot(struct snib_lock *lock, struct snib_grant grant,
                             uint32_t *ret, struct snib_error *reterr)
{
    struct snib_status st;
    if (!lock || !ret) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "lock and ret must not be NULL");
    }
    if (lock->o.kind != SNIB_KIND_PERMITS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "only a lock of kind SNIB_KIND_PERMITS has slots");
    }
    snib_err err = snib__client_check(lock->client, reterr);
    if (err) {
        return err;
    }
    struct snib__step s;
    struct snib_client *c = lock->client;
    snib_grant_status(lock, grant, &st, sizeof st);
    snib__step_begin(&s, c);
    bool ended = st.slot < 0 && grant.ticket && c->stopping; /* stop ended it */
    err = c->stopped || ended ? snib__fail_plain(reterr, SNIB_ERR_CLOSED)
                              : snib__grant_check(lock, grant, reterr);
    snib__step_end(&s);
    if (err) {
        return err;
    }
    if (st.slot < 0) {
        return snib__fail_plain(reterr, SNIB_ERR_NOT_HELD);
    }
    *ret = (uint32_t)st.slot;
    return snib__ok(reterr);
}
