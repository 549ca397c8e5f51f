/* run/params.c — semaphores and latches: their params (size, count), and the
 * waits that pass a latch or barrier. */
#include <string.h>

#include "base/error.h"
#include "run/inside.h"
#include "snib/latch.h"
#include "snib/semaphore.h"

/* A waiter of a latch or barrier holds only until it releases at once. */
enum { PASSING_LEASE_MS = 10000 };

struct params {
    int64_t done, size, permits, latch, waiting;
};

static bool params_read_row(const struct snib__buf *rows, struct params *ret)
{
    struct snib__rec at;
    bool found = false;
    *ret = (struct params){0};
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

static snib_err params_spec(struct snib_client *c, const char *name,
                            size_t size, snib__params_op op, int64_t amount,
                            struct params *ret, struct snib_error *reterr)
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

static snib_err params_check_count(const char *what, int64_t n, int64_t least,
                                   struct snib_error *reterr)
{
    if (n < least || n > SNIB_PERMITS_MAX) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s is %lld; expected %lld to %d", what, (long long)n,
                          (long long)least, SNIB_PERMITS_MAX);
    }
    return SNIB_ERR_OK;
}

/* -- semaphores ------------------------------------------------------------ */

snib_err snib_semaphore_get(struct snib_client *c, const char *name,
                            size_t name_size, struct snib_semaphore *ret,
                            struct snib_error *reterr)
{
    struct params t = {0};
    if (!ret) {
        return snib__fail(reterr, SNIB_ERR_USAGE, "ret must not be NULL");
    }
    snib_err err =
        params_spec(c, name, name_size, SNIB__PARAMS_GET, 0, &t, reterr);
    if (!err) {
        *ret = (struct snib_semaphore){.size = t.size,
                                       .used = t.permits,
                                       .available =
                                           t.size < 0 ? 0 : t.size - t.permits,
                                       .waiting = t.waiting};
    }
    return err;
}

snib_err snib_semaphore_set(struct snib_client *c, const char *name,
                            size_t name_size, uint32_t size, bool only_new,
                            bool *ret_set, struct snib_error *reterr)
{
    struct params t = {0};
    snib_err err = params_check_count("the semaphore's size", size, 0, reterr);
    if (!err) {
        err = params_spec(c, name, name_size,
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
    struct params t = {0};
    int64_t n = by < 0 && by > INT64_MIN ? -by : by;
    snib_err err = params_check_count("the number of permits", n, 0, reterr);
    return err ? err
               : params_spec(c, name, name_size, SNIB__PARAMS_ADD, by, &t,
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
    if (lock->o.kind != SNIB_PERMITS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "only a lock of kind SNIB_PERMITS has permits");
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
        snib_grant_status(lock, *ret, &st);
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
    if (lock->o.kind != SNIB_PERMITS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "only a lock of kind SNIB_PERMITS has slots");
    }
    snib_err err = snib__client_check(lock->client, reterr);
    if (err) {
        return err;
    }
    struct snib__step s;
    struct snib_client *c = lock->client;
    snib_grant_status(lock, grant, &st);
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

/* -- latches --------------------------------------------------------------- */

snib_err snib_latch_set(struct snib_client *c, const char *name,
                        size_t name_size, uint32_t count, bool *ret_set,
                        struct snib_error *reterr)
{
    struct params t = {0};
    snib_err err = params_check_count("the latch's count", count, 1, reterr);
    if (!err) {
        err = params_spec(c, name, name_size, SNIB__PARAMS_CLOSE, count, &t,
                          reterr);
    }
    if (!err && ret_set) {
        *ret_set = t.done != 0;
    }
    return err;
}

snib_err snib_latch_count_down(struct snib_client *c, const char *name,
                               size_t name_size, uint32_t by,
                               uint32_t *ret_left, struct snib_error *reterr)
{
    struct params t = {0};
    snib_err err = params_check_count("the number of steps", by, 1, reterr);
    if (!err) {
        err =
            params_spec(c, name, name_size, SNIB__PARAMS_DOWN, by, &t, reterr);
    }
    if (!err && ret_left) {
        *ret_left = (uint32_t)t.latch;
    }
    return err;
}

snib_err snib_latch_left(struct snib_client *c, const char *name,
                         size_t name_size, uint32_t *ret_left,
                         struct snib_error *reterr)
{
    struct params t = {0};
    if (!ret_left) {
        return snib__fail(reterr, SNIB_ERR_USAGE, "ret_left must not be NULL");
    }
    snib_err err =
        params_spec(c, name, name_size, SNIB__PARAMS_GET, 0, &t, reterr);
    if (!err) {
        *ret_left = (uint32_t)t.latch;
    }
    return err;
}

snib_err snib_latch_open(struct snib_client *c, const char *name,
                         size_t name_size, struct snib_error *reterr)
{
    struct params t = {0};
    return params_spec(c, name, name_size, SNIB__PARAMS_OPEN, 0, &t, reterr);
}

/* -- passing: stand in the queue, be granted, let go in the background ----- */

/* What is passed: a latch by a read, a barrier by one of its parties. */
struct passage {
    snib_kind kind;
    uint32_t parties;
    int64_t wait_ms;
};

static snib_err params_lock_new(struct snib_client *c, const char *name,
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

static snib_err params_pass(struct snib_client *c, const char *name,
                            size_t name_size, struct passage p,
                            struct snib_grant *ret, struct snib_error *reterr)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_lock *lock;
    o.owner = snib_owner_new();
    snib_err err = params_lock_new(c, name, name_size, &p, &lock, reterr);
    if (!err) {
        err = snib_try_for(lock, p.wait_ms, &o, ret, reterr);
        snib_lock_free(lock);
    }
    return err;
}

static snib_err params_pass_start(struct snib_client *c, const char *name,
                                  size_t name_size, struct passage p,
                                  void *user, uint64_t *ret_ticket,
                                  struct snib_error *reterr)
{
    struct snib__how how = {.wait_ms = p.wait_ms > 0 ? p.wait_ms : 0};
    struct snib_lock *lock;
    if (ret_ticket) {
        *ret_ticket = 0;
    }
    how.o.owner = snib_owner_new();
    snib_err err = params_lock_new(c, name, name_size, &p, &lock, reterr);
    if (!err) {
        err = snib__acquire_start(lock, &how, true, user, ret_ticket, reterr);
        if (err) {
            snib_lock_free(lock);
        }
    }
    return err;
}

snib_err snib_latch_try_for(struct snib_client *c, const char *name,
                            size_t name_size, int64_t wait_ms,
                            struct snib_error *reterr)
{
    struct snib_grant g;
    return params_pass(c, name, name_size,
                       (struct passage){SNIB_READ, 0, wait_ms}, &g, reterr);
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
    return params_pass_start(c, name, name_size,
                             (struct passage){SNIB_READ, 0, wait_ms}, user,
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
    snib_err err = params_pass(c, name, name_size,
                               (struct passage){SNIB_BARRIER, parties, wait_ms},
                               &g, reterr);
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
    return params_pass_start(c, name, name_size,
                             (struct passage){SNIB_BARRIER, parties, wait_ms},
                             user, ret_ticket, reterr);
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
