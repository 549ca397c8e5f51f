/* api/latch.c — latches: their count; and the waits that pass a latch or
 * barrier. */
#include "snib/latch.h"

#include "api/api.h"
#include "api/params.h"
#include "base/error.h"
#include "base/mem.h"

/* A waiter of a latch or barrier holds only until it releases at once. */
enum { PASSING_LEASE_MS = 10000 };

/* -- the count ------------------------------------------------------------------ */

static void latch_put(const struct snib__params *t, void *ret, size_t ret_size)
{
    (void)ret_size;
    *(uint32_t *)ret = (uint32_t)t->latch;
}

static snib_err latch_set(const char *name, size_t name_size, uint32_t count,
                          bool *ret_set, struct snib__params_ask *ask,
                          struct snib_error *reterr)
{
    *ask = (struct snib__params_ask){.name = name,
                                     .size = name_size,
                                     .op = SNIB__PARAMS_CLOSE,
                                     .amount = count,
                                     .put = snib__params_put_done,
                                     .ret = ret_set};
    return snib__params_check("the latch's count", count, 1, reterr);
}

snib_err snib_latch_set(struct snib_client *c, const char *name,
                        size_t name_size, uint32_t count, bool *ret_set,
                        struct snib_error *reterr)
{
    struct snib__params_ask ask;
    snib_err err = latch_set(name, name_size, count, ret_set, &ask, reterr);
    return err ? err : snib__params_run(c, &ask, reterr);
}

snib_err snib_latch_set_start(struct snib_client *c, const char *name,
                              size_t name_size, uint32_t count, bool *ret_set,
                              void *user, uint64_t *ret_ticket,
                              struct snib_error *reterr)
{
    struct snib__params_ask ask;
    snib__no_ticket(ret_ticket);
    snib_err err = latch_set(name, name_size, count, ret_set, &ask, reterr);
    return err ? err : snib__params_start(c, &ask, user, ret_ticket, reterr);
}

static snib_err latch_count_down(const char *name, size_t name_size,
                                 uint32_t by, uint32_t *ret_left,
                                 struct snib__params_ask *ask,
                                 struct snib_error *reterr)
{
    *ask = (struct snib__params_ask){.name = name,
                                     .size = name_size,
                                     .op = SNIB__PARAMS_DOWN,
                                     .amount = by,
                                     .put = latch_put,
                                     .ret = ret_left};
    return snib__params_check("the number of steps", by, 1, reterr);
}

snib_err snib_latch_count_down(struct snib_client *c, const char *name,
                               size_t name_size, uint32_t by,
                               uint32_t *ret_left, struct snib_error *reterr)
{
    struct snib__params_ask ask;
    snib_err err =
        latch_count_down(name, name_size, by, ret_left, &ask, reterr);
    return err ? err : snib__params_run(c, &ask, reterr);
}

snib_err snib_latch_count_down_start(struct snib_client *c, const char *name,
                                     size_t name_size, uint32_t by,
                                     uint32_t *ret_left, void *user,
                                     uint64_t *ret_ticket,
                                     struct snib_error *reterr)
{
    struct snib__params_ask ask;
    snib__no_ticket(ret_ticket);
    snib_err err =
        latch_count_down(name, name_size, by, ret_left, &ask, reterr);
    return err ? err : snib__params_start(c, &ask, user, ret_ticket, reterr);
}

static snib_err latch_left(const char *name, size_t name_size,
                           uint32_t *ret_left, struct snib__params_ask *ask,
                           struct snib_error *reterr)
{
    *ask = (struct snib__params_ask){.name = name,
                                     .size = name_size,
                                     .op = SNIB__PARAMS_GET,
                                     .amount = 0,
                                     .put = latch_put,
                                     .ret = ret_left};
    return ret_left ? SNIB_ERR_OK
                    : snib__fail(reterr, SNIB_ERR_USAGE,
                                 "ret_left must not be NULL");
}

snib_err snib_latch_left(struct snib_client *c, const char *name,
                         size_t name_size, uint32_t *ret_left,
                         struct snib_error *reterr)
{
    struct snib__params_ask ask;
    snib_err err = latch_left(name, name_size, ret_left, &ask, reterr);
    return err ? err : snib__params_run(c, &ask, reterr);
}

snib_err snib_latch_left_start(struct snib_client *c, const char *name,
                               size_t name_size, uint32_t *ret_left, void *user,
                               uint64_t *ret_ticket, struct snib_error *reterr)
{
    struct snib__params_ask ask;
    snib__no_ticket(ret_ticket);
    snib_err err = latch_left(name, name_size, ret_left, &ask, reterr);
    return err ? err : snib__params_start(c, &ask, user, ret_ticket, reterr);
}

snib_err snib_latch_open(struct snib_client *c, const char *name,
                         size_t name_size, struct snib_error *reterr)
{
    const struct snib__params_ask ask = {
        .name = name, .size = name_size, .op = SNIB__PARAMS_OPEN};
    return snib__params_run(c, &ask, reterr);
}

snib_err snib_latch_open_start(struct snib_client *c, const char *name,
                               size_t name_size, void *user,
                               uint64_t *ret_ticket, struct snib_error *reterr)
{
    const struct snib__params_ask ask = {
        .name = name, .size = name_size, .op = SNIB__PARAMS_OPEN};
    snib__no_ticket(ret_ticket);
    return snib__params_start(c, &ask, user, ret_ticket, reterr);
}

/* -- passing: stand in the queue, be granted, let go in the background ----- */

/* What is passed: a latch by a read, a barrier by one of its parties. */
struct passage {
    snib_kind kind;
    uint32_t parties;
    int64_t wait_ms;
};

static snib_err latch_lock_new(struct snib_client *c, const char *name,
                               size_t name_size, const struct passage *p,
                               struct snib_lock **ret,
                               struct snib_error *reterr)
{
    struct snib_lock_options with = SNIB_INIT(snib_lock_options);
    if (!c) {
        return snib__fail(reterr, SNIB_ERR_USAGE, "client must not be NULL");
    }
    with.kind = p->kind;
    with.permits = p->parties;
    with.name_size = name_size;
    with.lease_ms = PASSING_LEASE_MS;
    snib_err err = snib_lock_new(c, name, &with, ret, reterr);
    if (!err) {
        (*ret)->passes = true;
    }
    return err;
}

static snib_err latch_pass(struct snib_client *c, const char *name,
                           size_t name_size, struct passage p,
                           struct snib_grant *ret, struct snib_error *reterr)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_lock *lock;
    o.owner = snib_owner_new();
    snib_err err = latch_lock_new(c, name, name_size, &p, &lock, reterr);
    if (!err) {
        err = snib_try_for(lock, p.wait_ms, &o, ret, reterr);
        snib_lock_free(lock);
    }
    return err;
}

static snib_err latch_pass_start(struct snib_client *c, const char *name,
                                 size_t name_size, struct passage p, void *user,
                                 uint64_t *ret_ticket,
                                 struct snib_error *reterr)
{
    struct snib__how how = {.wait_ms = p.wait_ms > 0 ? p.wait_ms : 0};
    struct snib_lock *lock;
    snib__no_ticket(ret_ticket);
    how.o.owner = snib_owner_new();
    snib_err err = latch_lock_new(c, name, name_size, &p, &lock, reterr);
    if (err) {
        return err;
    }
    struct snib__op *op = snib__op_new(sizeof *op, NULL, user);
    if (op) {
        op->passes = lock; /* belongs to the event from now on */
    }
    err = snib__acquire_start(lock, &how, op, ret_ticket, reterr);
    if (err) {
        snib__free(op);
        snib_lock_free(lock);
    }
    return err;
}

snib_err snib_latch_try_for(struct snib_client *c, const char *name,
                            size_t name_size, int64_t wait_ms,
                            struct snib_error *reterr)
{
    struct snib_grant g;
    return latch_pass(c, name, name_size,
                      (struct passage){SNIB_KIND_READ, 0, wait_ms}, &g, reterr);
}

snib_err snib_latch_await(struct snib_client *c, const char *name,
                          size_t name_size, struct snib_error *reterr)
{
    return snib_latch_try_for(c, name, name_size, SNIB__NO_LIMIT, reterr);
}

snib_err snib_latch_try(struct snib_client *c, const char *name,
                        size_t name_size, struct snib_error *reterr)
{
    return snib_latch_try_for(c, name, name_size, 0, reterr);
}

snib_err snib_latch_try_for_start(struct snib_client *c, const char *name,
                                  size_t name_size, int64_t wait_ms, void *user,
                                  uint64_t *ret_ticket,
                                  struct snib_error *reterr)
{
    return latch_pass_start(c, name, name_size,
                            (struct passage){SNIB_KIND_READ, 0, wait_ms}, user,
                            ret_ticket, reterr);
}

snib_err snib_latch_await_start(struct snib_client *c, const char *name,
                                size_t name_size, void *user,
                                uint64_t *ret_ticket, struct snib_error *reterr)
{
    return snib_latch_try_for_start(c, name, name_size, SNIB__NO_LIMIT, user,
                                    ret_ticket, reterr);
}

snib_err snib_latch_try_start(struct snib_client *c, const char *name,
                              size_t name_size, void *user,
                              uint64_t *ret_ticket, struct snib_error *reterr)
{
    return snib_latch_try_for_start(c, name, name_size, 0, user, ret_ticket,
                                    reterr);
}

snib_err snib_barrier_try_for(struct snib_client *c, const char *name,
                              size_t name_size, uint32_t parties,
                              int64_t wait_ms, int64_t *ret_generation,
                              struct snib_error *reterr)
{
    struct snib_grant g;
    snib_err err = latch_pass(
        c, name, name_size,
        (struct passage){SNIB_KIND_BARRIER, parties, wait_ms}, &g, reterr);
    if (!err && ret_generation) {
        *ret_generation = g.token;
    }
    return err;
}

snib_err snib_barrier_wait(struct snib_client *c, const char *name,
                           size_t name_size, uint32_t parties,
                           int64_t *ret_generation, struct snib_error *reterr)
{
    return snib_barrier_try_for(c, name, name_size, parties, SNIB__NO_LIMIT,
                                ret_generation, reterr);
}

snib_err snib_barrier_try(struct snib_client *c, const char *name,
                          size_t name_size, uint32_t parties,
                          int64_t *ret_generation, struct snib_error *reterr)
{
    return snib_barrier_try_for(c, name, name_size, parties, 0, ret_generation,
                                reterr);
}

snib_err snib_barrier_try_for_start(struct snib_client *c, const char *name,
                                    size_t name_size, uint32_t parties,
                                    int64_t wait_ms, void *user,
                                    uint64_t *ret_ticket,
                                    struct snib_error *reterr)
{
    return latch_pass_start(
        c, name, name_size,
        (struct passage){SNIB_KIND_BARRIER, parties, wait_ms}, user, ret_ticket,
        reterr);
}

snib_err snib_barrier_wait_start(struct snib_client *c, const char *name,
                                 size_t name_size, uint32_t parties, void *user,
                                 uint64_t *ret_ticket,
                                 struct snib_error *reterr)
{
    return snib_barrier_try_for_start(c, name, name_size, parties,
                                      SNIB__NO_LIMIT, user, ret_ticket, reterr);
}

snib_err snib_barrier_try_start(struct snib_client *c, const char *name,
                                size_t name_size, uint32_t parties, void *user,
                                uint64_t *ret_ticket, struct snib_error *reterr)
{
    return snib_barrier_try_for_start(c, name, name_size, parties, 0, user,
                                      ret_ticket, reterr);
}
