/* api/semaphore.c — semaphores: their size, and permits in ways of their
 * own. */
#include "snib/semaphore.h"

#include "api/api.h"
#include "api/params.h"
#include "base/error.h"
#include "base/mem.h"
#include "snib/event.h"

/* -- the size ----------------------------------------------------------------- */

static void semaphore_put(const struct snib__params *t, void *ret,
                          size_t ret_size)
{
    struct snib_semaphore is = {.size = t->size,
                                .used = t->permits,
                                .available =
                                    t->size < 0 ? 0 : t->size - t->permits,
                                .waiting = t->waiting};
    snib__result_write(&is, sizeof is, ret, ret_size);
}

static snib_err semaphore_get(const char *name, size_t name_size,
                              struct snib_semaphore *ret, size_t ret_size,
                              struct snib__params_ask *ask,
                              struct snib_error *reterr)
{
    *ask = (struct snib__params_ask){.name = name,
                                     .size = name_size,
                                     .op = SNIB__PARAMS_GET,
                                     .put = semaphore_put,
                                     .ret = ret,
                                     .ret_size = ret_size};
    return ret ? SNIB_ERR_OK
               : snib__fail(reterr, SNIB_ERR_USAGE, "ret must not be NULL");
}

snib_err snib_semaphore_get(struct snib_client *c, const char *name,
                            size_t name_size, struct snib_semaphore *ret,
                            size_t ret_size, struct snib_error *reterr)
{
    struct snib__params_ask ask;
    snib_err err = semaphore_get(name, name_size, ret, ret_size, &ask, reterr);
    return err ? err : snib__params_run(c, &ask, reterr);
}

snib_err snib_semaphore_get_start(struct snib_client *c, const char *name,
                                  size_t name_size, struct snib_semaphore *ret,
                                  size_t ret_size, void *user,
                                  uint64_t *ret_ticket,
                                  struct snib_error *reterr)
{
    struct snib__params_ask ask;
    snib__no_ticket(ret_ticket);
    snib_err err = semaphore_get(name, name_size, ret, ret_size, &ask, reterr);
    return err ? err : snib__params_start(c, &ask, user, ret_ticket, reterr);
}

static snib_err semaphore_set(const char *name, size_t name_size, uint32_t size,
                              bool only_new, bool *ret_set,
                              struct snib__params_ask *ask,
                              struct snib_error *reterr)
{
    *ask = (struct snib__params_ask){.name = name,
                                     .size = name_size,
                                     .op = only_new ? SNIB__PARAMS_INIT
                                                    : SNIB__PARAMS_SIZE,
                                     .amount = size,
                                     .put = snib__params_put_done,
                                     .ret = ret_set};
    return snib__params_check("the semaphore's size", size, 0, reterr);
}

snib_err snib_semaphore_set(struct snib_client *c, const char *name,
                            size_t name_size, uint32_t size, bool only_new,
                            bool *ret_set, struct snib_error *reterr)
{
    struct snib__params_ask ask;
    snib_err err =
        semaphore_set(name, name_size, size, only_new, ret_set, &ask, reterr);
    return err ? err : snib__params_run(c, &ask, reterr);
}

snib_err snib_semaphore_set_start(struct snib_client *c, const char *name,
                                  size_t name_size, uint32_t size,
                                  bool only_new, bool *ret_set, void *user,
                                  uint64_t *ret_ticket,
                                  struct snib_error *reterr)
{
    struct snib__params_ask ask;
    snib__no_ticket(ret_ticket);
    snib_err err =
        semaphore_set(name, name_size, size, only_new, ret_set, &ask, reterr);
    return err ? err : snib__params_start(c, &ask, user, ret_ticket, reterr);
}

static snib_err semaphore_add(const char *name, size_t name_size, int64_t by,
                              struct snib__params_ask *ask,
                              struct snib_error *reterr)
{
    int64_t n = by < 0 && by > INT64_MIN ? -by : by;
    *ask = (struct snib__params_ask){
        .name = name, .size = name_size, .op = SNIB__PARAMS_ADD, .amount = by};
    return snib__params_check("the number of permits", n, 0, reterr);
}

snib_err snib_semaphore_add(struct snib_client *c, const char *name,
                            size_t name_size, int64_t by,
                            struct snib_error *reterr)
{
    struct snib__params_ask ask;
    snib_err err = semaphore_add(name, name_size, by, &ask, reterr);
    return err ? err : snib__params_run(c, &ask, reterr);
}

snib_err snib_semaphore_add_start(struct snib_client *c, const char *name,
                                  size_t name_size, int64_t by, void *user,
                                  uint64_t *ret_ticket,
                                  struct snib_error *reterr)
{
    struct snib__params_ask ask;
    snib__no_ticket(ret_ticket);
    snib_err err = semaphore_add(name, name_size, by, &ask, reterr);
    return err ? err : snib__params_start(c, &ask, user, ret_ticket, reterr);
}

/* -- drain ---------------------------------------------------------------------- */

/* Check the arguments, and make the acquire that they ask for. */
static snib_err semaphore_drain(const struct snib_lock *lock,
                                const struct snib_acquire_options *given,
                                struct snib_grant *ret,
                                struct snib_acquire_options *o,
                                struct snib_error *reterr)
{
    struct snib__how checked = {0};
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
    *o = (struct snib_acquire_options)SNIB_INIT(snib_acquire_options);
    snib_err err = snib__how_read(given, 0, &checked, reterr);
    o->owner = checked.o.owner;
    o->reason = checked.o.reason;
    o->all_permits = true;
    return err;
}

snib_err snib_semaphore_drain(struct snib_lock *lock,
                              const struct snib_acquire_options *given,
                              struct snib_grant *ret, uint32_t *ret_permits,
                              struct snib_error *reterr)
{
    struct snib_acquire_options o;
    struct snib_status st;
    snib_err err = semaphore_drain(lock, given, ret, &o, reterr);
    if (!err) {
        err = snib_try(lock, &o, ret, reterr);
    }
    if (!err && ret_permits) {
        snib_grant_status(lock, *ret, &st, sizeof st);
        *ret_permits = st.permits;
    }
    return err;
}

struct drain {
    struct snib__op op;
    struct snib_grant *ret;
    uint32_t *ret_permits;
};

static void semaphore_take(struct snib__op *op, struct snib_event *ret)
{
    const struct drain *d = SNIB__CONTAINER(op, struct drain, op);
    if (ret->error.code) {
        return;
    }
    *d->ret = ret->grant;
    if (d->ret_permits) {
        *d->ret_permits = op->permits;
    }
}

static const struct snib__op_kind semaphore_drain_kind = {.take =
                                                              semaphore_take};

snib_err snib_semaphore_drain_start(struct snib_lock *lock,
                                    const struct snib_acquire_options *given,
                                    struct snib_grant *ret,
                                    uint32_t *ret_permits, void *user,
                                    uint64_t *ret_ticket,
                                    struct snib_error *reterr)
{
    struct snib__how how = {0};
    snib__no_ticket(ret_ticket);
    snib_err err = semaphore_drain(lock, given, ret, &how.o, reterr);
    if (!err) {
        err = snib__client_check(lock->client, reterr);
    }
    if (err) {
        return err;
    }
    struct drain *d = snib__op_new(sizeof *d, &semaphore_drain_kind, user);
    if (d) {
        d->ret = ret;
        d->ret_permits = ret_permits;
    }
    err =
        snib__acquire_start(lock, &how, d ? &d->op : NULL, ret_ticket, reterr);
    if (err) {
        snib__free(d);
    }
    return err;
}

/* -- slots ------------------------------------------------------------------------ */

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
