/* api/value_update_start.c — an update that is started: a sequence
 * (sequence.c). The program's function computes on the thread that takes
 * events, in snib_client_next: an event loop has its state there, and needs no
 * lock for it.
 *
 *   READS --read--> computes --> WRITES --done, stopped--> over
 *     ^                            |
 *     +---timer--- PAUSES <--BUSY--+ */
#include <string.h>

#include "api/sequence.h"
#include "api/value_i.h"
#include "base/error.h"
#include "base/mem.h"

struct update_op {
    struct snib__sequence q;
    struct snib__update u;
    enum { PAUSES, READS, WRITES } at;
    struct snib__value_get get;
    struct snib__value_write write;
    struct snib_value *v; /* what was read last                             */
    int stopped;
    int *ret_stopped;
    int64_t *ret_version;
    char name[];
};

static struct update_op *value_update_start_of(struct snib__op *op)
{
    return SNIB__CONTAINER(snib__sequence_of(op), struct update_op, q);
}

static void value_update_start_forget(struct update_op *o)
{
    struct snib_value *v = o->v;
    o->v = NULL;
    snib_value_free(v);
}

static bool value_update_start_read(struct update_op *o, struct snib_error *ret)
{
    const struct snib__update *u = &o->u;
    struct snib__step s;
    snib_err err = snib__sequence_begin(&s, &o->q);
    if (err) {
        return snib__sequence_ends(&s, &o->q, err, ret);
    }
    (void)snib__value_prepare_get(&o->get, u->c, u->name, u->name_size, &o->v,
                                  NULL); /* it was checked by the start */
    o->at = READS;
    snib__sequence_ask(&s, &o->q, &o->get.d);
    snib__sequence_asked(&s, &o->q);
    return false;
}

/* Make the request that writes what was computed. */
static snib_err value_update_start_prepare(struct update_op *o,
                                           const struct snib_value_next *next,
                                           struct snib_error *ret)
{
    struct snib__update *u = &o->u;
    int64_t was = o->v->version;
    return next->remove
               ? snib__value_prepare_delete(&o->write, u->c, u->name,
                                            u->name_size, was, &u->version, ret)
               : snib__value_prepare_put(
                     &o->write, u->c, u->name, u->name_size, was,
                     (struct snib__value_put){next->bytes, next->size,
                                              u->o.ttl_ms},
                     &u->version, ret);
}

static bool value_update_start_write(struct update_op *o,
                                     const struct snib_value_next *next,
                                     struct snib_error *ret)
{
    struct snib__step s;
    struct snib__value_write none = {.ret_version = NULL};
    if (next->remove && !o->v->version) {
        return true; /* nothing to remove */
    }
    snib_err err = value_update_start_prepare(o, next, ret);
    if (err) {
        o->write = none;
        return true;
    }
    err = snib__sequence_begin(&s, &o->q);
    if (err) {
        o->write = none;
        return snib__sequence_ends(&s, &o->q, err, ret);
    }
    o->at = WRITES;
    snib__sequence_ask(&s, &o->q, &o->write.d);
    snib__sequence_asked(&s, &o->q);
    return false;
}

/* The value was read. */
static bool value_update_start_compute(struct update_op *o,
                                       struct snib_error *ret)
{
    struct snib_value_next next = {0};
    if (snib__sequence_answer(&o->get.d, ret)) {
        return true;
    }
    o->u.version = o->v->version;
    o->stopped = o->u.compute(o->u.data, o->v, &next);
    return o->stopped ? true : value_update_start_write(o, &next, ret);
}

/* The write is answered. */
static bool value_update_start_wrote(struct update_op *o,
                                     struct snib_error *ret)
{
    struct snib__step s;
    snib_duration pause;
    snib_err err = snib__sequence_answer(&o->write.d, ret);
    value_update_start_forget(o);
    o->u.rounds++;
    if (err != SNIB_ERR_BUSY || o->u.wait_ms == 0) {
        return true;
    }
    err = snib__sequence_begin(&s, &o->q);
    if (err) {
        return snib__sequence_ends(&s, &o->q, err, ret);
    }
    if (!snib__update_pause(&o->u, s.now, &pause)) {
        (void)snib__sequence_ends(&s, &o->q, SNIB_ERR_TIMEOUT, ret);
        snib__update_late(&o->u, ret);
        return true;
    }
    o->at = PAUSES;
    if (!snib__sequence_pause(&s, &o->q, pause)) {
        return snib__sequence_ends(&s, &o->q, SNIB_ERR_NOMEM, ret);
    }
    snib__sequence_asked(&s, &o->q);
    return false;
}

static bool value_update_start_next(struct snib__sequence *q,
                                    struct snib_error *ret)
{
    struct update_op *o = SNIB__CONTAINER(q, struct update_op, q);
    switch (o->at) {
    case READS:
        return value_update_start_compute(o, ret);
    case WRITES:
        return value_update_start_wrote(o, ret);
    case PAUSES:
        break;
    }
    return value_update_start_read(o, ret);
}

static void value_update_start_cancel(struct snib__step *s,
                                      struct snib__sequence *q)
{
    struct update_op *o = SNIB__CONTAINER(q, struct update_op, q);
    snib__sequence_quit_direct(s, &o->get.d, SNIB_ERR_CANCELLED);
    snib__sequence_quit_direct(s, &o->write.d, SNIB_ERR_CANCELLED);
}

static void value_update_start_take(struct snib__op *op, struct snib_event *ret)
{
    struct update_op *o = value_update_start_of(op);
    (void)ret;
    if (o->ret_stopped) {
        *o->ret_stopped = o->stopped;
    }
    if (o->ret_version) {
        *o->ret_version = o->u.version;
    }
    value_update_start_forget(o);
}

static void value_update_start_drop(struct snib__op *op)
{
    struct update_op *o = value_update_start_of(op);
    snib__sequence_drop(&o->q);
    snib__sequence_drop_direct(&o->get.d);
    snib__sequence_drop_direct(&o->write.d);
    value_update_start_forget(o);
}

static const struct snib__sequence_rules value_update_start_rules = {
    .kind = {.due = snib__sequence_due,
             .give_up = snib__sequence_give_up,
             .take = value_update_start_take,
             .drop = value_update_start_drop},
    .next = value_update_start_next,
    .cancel = value_update_start_cancel};

snib_err snib_value_try_for_start(
    struct snib_client *c, const char *name, size_t name_size, int64_t wait_ms,
    const struct snib_value_options *options,
    int (*compute)(void *data, const struct snib_value *now,
                   struct snib_value_next *next),
    void *data, int *ret_stopped, int64_t *ret_version, void *user,
    uint64_t *ret_ticket, struct snib_error *reterr)
{
    struct snib__update u = {.c = c,
                             .name = name,
                             .name_size = name_size,
                             .compute = compute,
                             .data = data};
    snib__no_ticket(ret_ticket);
    if (ret_version) {
        *ret_version = 0;
    }
    if (ret_stopped) {
        *ret_stopped = 0;
    }
    snib_err err = snib__update_check(&u, wait_ms, options, reterr);
    if (err) {
        return err;
    }
    struct update_op *o = snib__sequence_new(sizeof *o + u.name_size + 1, c,
                                             &value_update_start_rules, user);
    if (o) {
        o->u = u;
        o->u.name = memcpy(o->name, name, u.name_size);
        o->at = PAUSES;
        o->ret_stopped = ret_stopped;
        o->ret_version = ret_version;
    }
    return snib__sequence_start(o ? &o->q : NULL, false, ret_ticket, reterr);
}

snib_err snib_value_update_start(
    struct snib_client *c, const char *name, size_t name_size,
    const struct snib_value_options *options,
    int (*compute)(void *data, const struct snib_value *now,
                   struct snib_value_next *next),
    void *data, int *ret_stopped, int64_t *ret_version, void *user,
    uint64_t *ret_ticket, struct snib_error *reterr)
{
    return snib_value_try_for_start(c, name, name_size, SNIB__NO_LIMIT, options,
                                    compute, data, ret_stopped, ret_version,
                                    user, ret_ticket, reterr);
}

snib_err
snib_value_try_start(struct snib_client *c, const char *name, size_t name_size,
                     const struct snib_value_options *options,
                     int (*compute)(void *data, const struct snib_value *now,
                                    struct snib_value_next *next),
                     void *data, int *ret_stopped, int64_t *ret_version,
                     void *user, uint64_t *ret_ticket,
                     struct snib_error *reterr)
{
    return snib_value_try_for_start(c, name, name_size, 0, options, compute,
                                    data, ret_stopped, ret_version, user,
                                    ret_ticket, reterr);
}
