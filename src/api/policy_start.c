/* api/policy_start.c — a policy that is started: a sequence (sequence.c) that
 * acquires, runs the body, and releases. The body runs on the thread that takes
 * events, in snib_client_next: an event loop has its state there. */
#include "api/policy_i.h"
#include "api/sequence.h"
#include "base/error.h"
#include "base/mem.h"

struct policy_op {
    struct snib__sequence q;
    struct snib_policy policy;
    struct snib_lock *lock;
    struct snib__how how;
    struct snib__op op; /* the acquire, or the release                      */
    enum { BEGINS, ACQUIRES, RELEASES } at; /* what is under way            */
    int (*body)(void *data, struct snib_grant);
    void *data;
    bool ran;
    int result;
    int *ret_body;
    struct snib__policy_end end;
};

static struct policy_op *policy_start_of(struct snib__op *op)
{
    return SNIB__CONTAINER(snib__sequence_of(op), struct policy_op, q);
}

static bool policy_start_acquire(struct policy_op *o, struct snib_error *ret)
{
    struct snib__step s;
    snib_err err = snib__sequence_begin(&s, &o->q);
    if (err) {
        return snib__sequence_ends(&s, &o->q, err, ret);
    }
    o->at = ACQUIRES;
    snib__sequence_acquire(&s, &o->q, o->lock, &o->how, o->how.o.owner,
                           snib__patience(s.c, o->how.wait_ms), &o->op);
    snib__sequence_asked(&s, &o->q);
    return false;
}

static void policy_start_ran(struct policy_op *o, int result)
{
    o->ran = true;
    o->result = result;
}

/* The lock is held, or not. */
static bool policy_start_run(struct policy_op *o, struct snib_error *ret)
{
    struct snib__step s;
    struct snib_grant grant = o->op.ev.grant;
    *ret = o->op.ev.error;
    if (snib__policy_runs_busy(&o->policy, ret->code)) {
        policy_start_ran(
            o, snib__policy_run_busy(&o->policy, ret, o->body, o->data));
        snib__ok(ret);
    }
    if (ret->code || o->ran) {
        return true;
    }
    policy_start_ran(o, o->body(o->data, grant));
    snib__policy_at_end(o->lock, grant, &o->end);
    (void)snib__sequence_begin(&s, &o->q);
    o->at = RELEASES;
    snib__sequence_release(&s, &o->q, o->lock, grant, snib__owner_of_thread(),
                           &o->op);
    snib__sequence_asked(&s, &o->q);
    return false;
}

static bool policy_start_next(struct snib__sequence *q, struct snib_error *ret)
{
    struct policy_op *o = SNIB__CONTAINER(q, struct policy_op, q);
    switch (o->at) {
    case BEGINS:
        return policy_start_acquire(o, ret);
    case ACQUIRES:
        return policy_start_run(o, ret);
    case RELEASES:
        break;
    }
    snib__policy_outcome(&o->end, &o->op.ev.error, ret);
    return true;
}

static void policy_start_cancel(struct snib__step *s, struct snib__sequence *q)
{
    struct policy_op *o = SNIB__CONTAINER(q, struct policy_op, q);
    snib__sequence_quit(s, &o->op, SNIB_ERR_CANCELLED);
}

static void policy_start_take(struct snib__op *op, struct snib_event *ret)
{
    const struct policy_op *o = policy_start_of(op);
    (void)ret;
    if (o->ran && o->ret_body) {
        *o->ret_body = o->result;
    }
    snib_lock_free(o->lock);
}

/* The lock is freed with the client. */
static void policy_start_drop(struct snib__op *op)
{
    snib__sequence_drop(&policy_start_of(op)->q);
}

static const struct snib__sequence_rules policy_start_rules = {
    .kind = {.due = snib__sequence_due,
             .give_up = snib__sequence_give_up,
             .take = policy_start_take,
             .drop = policy_start_drop},
    .next = policy_start_next,
    .cancel = policy_start_cancel};

snib_err snib_policy_try_for_start(struct snib_client *client, int64_t wait_ms,
                                   const struct snib_policy *given,
                                   const char *const pairs[],
                                   int (*body)(void *data, struct snib_grant),
                                   void *data, int *ret_body, void *user,
                                   uint64_t *ret_ticket,
                                   struct snib_error *reterr)
{
    struct snib_policy policy;
    struct snib_lock *lock;
    snib__no_ticket(ret_ticket);
    snib_err err = snib__policy_read(client, given, body, &policy, reterr);
    if (!err) {
        err = snib__policy_open_lock(client, &policy, pairs, &lock, reterr);
    }
    if (err) {
        return err;
    }
    struct policy_op *o =
        snib__sequence_new(sizeof *o, client, &policy_start_rules, user);
    if (o) {
        o->policy = policy;
        o->lock = lock;
        o->how.wait_ms = wait_ms > 0 ? wait_ms : 0;
        o->how.o.owner = snib_owner_new();
        o->body = body;
        o->data = data;
        o->ret_body = ret_body;
    }
    err = snib__sequence_start(o ? &o->q : NULL, false, ret_ticket, reterr);
    if (err) {
        snib_lock_free(lock);
    }
    return err;
}

snib_err snib_policy_run_start(struct snib_client *client,
                               const struct snib_policy *policy,
                               const char *const pairs[],
                               int (*body)(void *data, struct snib_grant),
                               void *data, int *ret_body, void *user,
                               uint64_t *ret_ticket, struct snib_error *reterr)
{
    return snib_policy_try_for_start(client, INT64_MAX, policy, pairs, body,
                                     data, ret_body, user, ret_ticket, reterr);
}

snib_err snib_policy_try_start(struct snib_client *client,
                               const struct snib_policy *policy,
                               const char *const pairs[],
                               int (*body)(void *data, struct snib_grant),
                               void *data, int *ret_body, void *user,
                               uint64_t *ret_ticket, struct snib_error *reterr)
{
    return snib_policy_try_for_start(client, 0, policy, pairs, body, data,
                                     ret_body, user, ret_ticket, reterr);
}
