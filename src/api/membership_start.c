/* api/membership_start.c — joining and leaving a ring by starts: sequences
 * (sequence.c). What was joined is looked at once more, as by the calls. When it
 * must not stay it is given back before the event comes. */
#include "api/membership_i.h"

#include <string.h>

#include "api/inspect_i.h"
#include "api/sequence.h"
#include "base/error.h"
#include "base/mem.h"

/* A join or a leave. */
struct ring_move {
    struct snib__sequence q;
    struct snib_ring_membership *p; /* NULL: it is the caller's               */
    struct snib_ring_membership **ret; /* NULL: a leave                       */
    struct snib__op lock; /* the acquire, or the release                    */
    struct snib__direct_op look;
    struct snib__how how;
    enum { BEGINS, JOINS, LOOKS, LEAVES } at; /* what is under way          */
    struct snib_error why; /* it leaves because of that                      */
    size_t size;
    char name[];
};

static struct ring_move *membership_start_of(struct snib__op *op)
{
    return SNIB__CONTAINER(snib__sequence_of(op), struct ring_move, q);
}

static snib_err membership_start_answered(struct snib__direct_op *d,
                                          snib_err err, struct snib_error *ret)
{
    const struct ring_move *o = SNIB__CONTAINER(d, struct ring_move, look);
    struct snib_view *view;
    if (!err) {
        err = snib__inspect_view(d, &view, ret);
    }
    if (!err) {
        err = snib__membership_check(view, o->p, ret);
        snib_view_free(view);
    }
    return err;
}

static const struct snib__direct_rules membership_start_look_rules = {
    .decode = membership_start_answered};

static bool membership_start_join(struct ring_move *o, struct snib_error *ret)
{
    struct snib__step s;
    snib_err err = snib__sequence_begin(&s, &o->q);
    if (err) {
        return snib__sequence_ends(&s, &o->q, err, ret);
    }
    o->at = JOINS;
    snib__sequence_acquire(&s, &o->q, o->p->lock, &o->how, o->how.o.owner,
                           snib__patience(s.c, o->how.wait_ms), &o->lock);
    snib__sequence_asked(&s, &o->q);
    return false;
}

/* Give the grant back, whatever has ended the sequence. */
static bool membership_start_go(struct ring_move *o)
{
    struct snib__step s;
    (void)snib__sequence_begin(&s, &o->q);
    o->at = LEAVES;
    snib__sequence_release(&s, &o->q, o->p->lock, o->p->grant,
                           snib__owner_of_thread(), &o->lock);
    snib__sequence_asked(&s, &o->q);
    return false;
}

/* The lock is held, or not. */
static bool membership_start_joined(struct ring_move *o, struct snib_error *ret)
{
    struct snib__step s;
    if (o->lock.ev.error.code) {
        *ret = o->lock.ev.error;
        return true;
    }
    o->p->grant = o->lock.ev.grant;
    snib_err err = snib__sequence_begin(&s, &o->q);
    if (err) {
        (void)snib__sequence_ends(&s, &o->q, err, &o->why);
        return membership_start_go(o);
    }
    (void)snib__inspect_prepare(&o->look, o->q.client, o->name, o->size,
                                &membership_start_look_rules, NULL);
    o->at = LOOKS;
    snib__sequence_ask(&s, &o->q, &o->look);
    snib__sequence_asked(&s, &o->q);
    return false;
}

static bool membership_start_next(struct snib__sequence *q,
                                  struct snib_error *ret)
{
    struct ring_move *o = SNIB__CONTAINER(q, struct ring_move, q);
    switch (o->at) {
    case BEGINS:
        return o->ret ? membership_start_join(o, ret) : membership_start_go(o);
    case JOINS:
        return membership_start_joined(o, ret);
    case LOOKS:
        return snib__sequence_answer(&o->look, &o->why) ? membership_start_go(o)
                                                        : true;
    case LEAVES:
        break;
    }
    *ret = o->ret ? o->why : o->lock.ev.error;
    return true;
}

static void membership_start_cancel(struct snib__step *s,
                                    struct snib__sequence *q)
{
    struct ring_move *o = SNIB__CONTAINER(q, struct ring_move, q);
    snib__sequence_quit(s, &o->lock, SNIB_ERR_CANCELLED);
    snib__sequence_quit_direct(s, &o->look, SNIB_ERR_CANCELLED);
}

static void membership_start_moved(struct snib__op *op, struct snib_event *ret)
{
    struct ring_move *o = membership_start_of(op);
    if (o->ret && !ret->error.code) {
        *o->ret = o->p;
    } else {
        snib__membership_free(o->p);
    }
}

/* The lock is freed with the client. */
static void membership_start_drop(struct snib__op *op)
{
    struct ring_move *o = membership_start_of(op);
    snib__sequence_drop(&o->q);
    snib__sequence_drop_direct(&o->look);
    snib__free(o->p);
}

static const struct snib__sequence_rules membership_start_join_rules = {
    .kind = {.due = snib__sequence_due,
             .give_up = snib__sequence_give_up,
             .take = membership_start_moved,
             .drop = membership_start_drop},
    .next = membership_start_next,
    .cancel = membership_start_cancel};

/* A leave is no more cancelled than a release. */
static const struct snib__sequence_rules membership_start_leave_rules = {
    .kind = {.due = snib__sequence_due,
             .give_up = snib__sequence_give_up,
             .take = membership_start_moved,
             .drop = membership_start_drop},
    .next = membership_start_next};

/* p: NULL after an error before. It belongs to the operation, or is freed. */
static snib_err membership_start_begin(struct ring_move *o,
                                       struct snib_ring_membership *p,
                                       uint64_t *ret_ticket,
                                       struct snib_error *reterr)
{
    snib_err err =
        snib__sequence_open(o ? &o->q : NULL, false, ret_ticket, reterr);
    if (err) {
        snib__membership_free(p);
        if (o) {
            o->p = NULL;
            snib__op_free(&o->q.op);
        }
        return err;
    }
    snib__sequence_go(&o->q);
    return snib__ok(reterr);
}

snib_err snib_ring_try_for_start(struct snib_client *c, const char *name,
                                 size_t size, const char *id, int64_t wait_ms,
                                 const struct snib_ring_options *options,
                                 struct snib_ring_membership **ret, void *user,
                                 uint64_t *ret_ticket,
                                 struct snib_error *reterr)
{
    struct snib_ring_options given;
    struct snib_ring_membership *p;
    struct snib__how how = {.wait_ms = wait_ms > 0 ? wait_ms : 0};
    snib__no_ticket(ret_ticket);
    snib_err err =
        snib__membership_new(c, name, id, options, ret, &given, &p, reterr);
    if (err) {
        return err;
    }
    err = snib__membership_open(c, name, size, &given, p, &how.o, reterr);
    if (err) {
        snib__free(p);
        return err;
    }
    size = size ? size : strlen(name);
    struct ring_move *o = snib__sequence_new(
        sizeof *o + size, c, &membership_start_join_rules, user);
    if (o) {
        o->p = p;
        o->ret = ret;
        o->how = how;
        o->size = size;
        memcpy(o->name, name, size);
    }
    return membership_start_begin(o, p, ret_ticket, reterr);
}

snib_err snib_ring_join_start(struct snib_client *c, const char *name,
                              size_t size, const char *id,
                              const struct snib_ring_options *options,
                              struct snib_ring_membership **ret, void *user,
                              uint64_t *ret_ticket, struct snib_error *reterr)
{
    return snib_ring_try_for_start(c, name, size, id, INT64_MAX, options, ret,
                                   user, ret_ticket, reterr);
}

snib_err snib_ring_try_start(struct snib_client *c, const char *name,
                             size_t size, const char *id,
                             const struct snib_ring_options *options,
                             struct snib_ring_membership **ret, void *user,
                             uint64_t *ret_ticket, struct snib_error *reterr)
{
    return snib_ring_try_for_start(c, name, size, id, 0, options, ret, user,
                                   ret_ticket, reterr);
}

snib_err snib_ring_leave_start(struct snib_ring_membership *p, void *user,
                               uint64_t *ret_ticket, struct snib_error *reterr)
{
    snib__no_ticket(ret_ticket);
    if (!p) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_ring_leave_start: there is no membership, and "
                          "so no client that would have the event");
    }
    snib_err err = snib__client_check(p->lock->client, reterr);
    if (err) {
        return err;
    }
    struct ring_move *o = snib__sequence_new(
        sizeof *o, p->lock->client, &membership_start_leave_rules, user);
    err = snib__sequence_open(o ? &o->q : NULL, true, ret_ticket, reterr);
    if (err) { /* the membership is still the caller's */
        if (o) {
            snib__op_free(&o->q.op);
        }
        return err;
    }
    o->p = p;
    snib__sequence_go(&o->q);
    return snib__ok(reterr);
}
