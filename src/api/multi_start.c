/* api/multi_start.c — a multi acquired and released by starts: a sequence
 * (sequence.c) does what the attempt asks for (attempt.c), or gives the locks
 * back a chunk at a time.
 *
 * An operation belongs to one client, whose queue has its event: so all locks
 * have to be of one client. It keeps what it needs of the multi, which may be
 * freed before the event is taken. */
#include <string.h>

#include "api/multi_i.h"
#include "api/sequence.h"
#include "base/error.h"
#include "base/mem.h"

/* May it be started? All is asked of one client. */
static snib_err multi_start_check(const struct snib_multi *m,
                                  struct snib_error *reterr)
{
    const struct snib__part *first = &m->part[0];
    snib_err err = snib__multi_check_clients(m, false, reterr);
    for (size_t i = 1; i < m->count && !err; i++) {
        const struct snib__part *p = &m->part[i];
        if (p->lock->client != first->lock->client) {
            err = snib__fail(
                reterr, SNIB_ERR_USAGE,
                "'%.*s' and '%.*s' are of two clients; what is started has its "
                "event from one: start each client's locks by themselves",
                snib__multi_shown_size(first), snib__multi_name_of(first)->safe,
                snib__multi_shown_size(p), snib__multi_name_of(p)->safe);
        }
    }
    return err;
}

/* -- acquire ---------------------------------------------------------------------- */

struct multi_acquire {
    struct snib__sequence q;
    struct snib__attempt a;
    struct snib__op wait; /* of the one that it waits for                   */
    enum snib__attempt_ask asked;
    uint64_t owner;
    char *reason, *above; /* owned; or NULL */
    struct snib_grant *ret;
    struct snib_grant *grants; /* what it has, by index as given */
    struct snib__part part[];
};

static struct multi_acquire *multi_start_of(struct snib__op *op)
{
    return SNIB__CONTAINER(snib__sequence_of(op), struct multi_acquire, q);
}

/* What was asked for is answered. */
static void multi_start_harvest(struct multi_acquire *o)
{
    struct snib__attempt *a = &o->a;
    const struct snib_event *ev = &o->wait.ev;
    switch (o->asked) {
    case SNIB__ATTEMPT_TRIES:
    case SNIB__ATTEMPT_BACK:
        snib__batch_harvest(a->member, a->members);
        break;
    case SNIB__ATTEMPT_WAIT:
        a->said = ev->error;
        if (!ev->error.code) {
            a->grants[a->part[a->held].index] = ev->grant;
        }
        break;
    case SNIB__ATTEMPT_OVER: /* nothing yet */
        break;
    }
}

/* Ask for what the attempt wants. What has ended the sequence meanwhile ends
 * each try and each wait, but nothing that is given back. */
static void multi_start_ask(struct multi_acquire *o)
{
    struct snib__attempt *a = &o->a;
    struct snib__how tries = {.o = a->how.o}; /* which wait for nothing */
    struct snib__step s;
    struct snib_error over;
    snib_err err = snib__sequence_begin(&s, &o->q);
    snib__fail_plain(&over, err);
    if (o->asked == SNIB__ATTEMPT_BACK) {
        for (size_t j = 0; j < a->members; j++) {
            a->member[j].asked = true;
            snib__sequence_release(&s, &o->q, a->member[j].lock,
                                   a->member[j].grant, o->owner,
                                   &a->member[j].op);
        }
    } else if (o->asked == SNIB__ATTEMPT_WAIT && err) {
        o->wait.ev = (struct snib_event){.error = over};
    } else if (o->asked == SNIB__ATTEMPT_WAIT) {
        snib__sequence_acquire(&s, &o->q, a->part[a->held].lock, &a->wait,
                               o->owner, snib__patience(s.c, a->wait.wait_ms),
                               &o->wait);
    } else if (err) {
        snib__batch_fail_all(a->member, a->members, &over);
    } else {
        snib__batch_start_tries(&s, a->member, a->members, &o->q.batch, &tries,
                                a->how.wait_ms == 0,
                                snib__after(s.now, a->patience), o->owner);
        snib__background_hurry(&s);
    }
    snib__sequence_asked(&s, &o->q);
}

static bool multi_start_next(struct snib__sequence *q, struct snib_error *ret)
{
    struct multi_acquire *o = SNIB__CONTAINER(q, struct multi_acquire, q);
    multi_start_harvest(o);
    o->asked = snib__attempt_next(&o->a);
    if (o->asked != SNIB__ATTEMPT_OVER) {
        multi_start_ask(o);
        return false;
    }
    snib_err err = snib__attempt_outcome(&o->a, ret);
    snib_err over = snib__sequence_over(q);
    if (err && err != SNIB_ERR_UNKNOWN && over) {
        snib__fail_plain(ret, over);
    }
    return true;
}

static void multi_start_cancel(struct snib__step *s, struct snib__sequence *q)
{
    struct multi_acquire *o = SNIB__CONTAINER(q, struct multi_acquire, q);
    snib__sequence_quit(s, &o->wait, SNIB_ERR_CANCELLED);
    for (size_t j = 0; j < SNIB__MULTI_CHUNK; j++) {
        snib__sequence_quit(s, &o->a.member[j].op, SNIB_ERR_CANCELLED);
    }
}

static void multi_start_free_parts(struct multi_acquire *o)
{
    snib__free(o->grants);
    snib__free(o->reason);
    snib__free(o->above);
}

static void multi_start_take(struct snib__op *op, struct snib_event *ret)
{
    struct multi_acquire *o = multi_start_of(op);
    snib__attempt_leave(&o->a, ret->error.code);
    if (!ret->error.code) {
        memcpy(o->ret, o->grants, o->a.count * sizeof o->grants[0]);
    }
    multi_start_free_parts(o);
}

/* Its client is freed, perhaps in a child, where the multi's mutex may be the
 * parent's. */
static void multi_start_drop(struct snib__op *op)
{
    struct multi_acquire *o = multi_start_of(op);
    snib__sequence_drop(&o->q);
    if (o->a.m && o->q.client->in_child) {
        snib__unlink(&o->a.link);
    } else {
        snib__attempt_leave(&o->a, SNIB_ERR_CLOSED);
    }
    multi_start_free_parts(o);
}

static const struct snib__sequence_rules multi_start_rules = {
    .kind = {.due = snib__sequence_due,
             .give_up = snib__sequence_give_up,
             .take = multi_start_take,
             .drop = multi_start_drop},
    .next = multi_start_next,
    .cancel = multi_start_cancel};

/* Copy a text, if there is one. False: no memory. */
static bool multi_start_keep(const char *text, const char **use, char **ret)
{
    *ret = text ? snib__strdup(text) : NULL;
    *use = *ret;
    return !text || *ret;
}

static struct multi_acquire *
multi_start_new(struct snib_multi *m, const struct snib__how *how,
                int64_t wait_ms, struct snib_grant ret_grants[], void *user)
{
    struct multi_acquire *o = snib__sequence_new(
        sizeof *o + m->count * sizeof o->part[0],
        snib__multi_client_of(&m->part[0]), &multi_start_rules, user);
    if (!o) {
        return NULL;
    }
    o->a.how = *how;
    o->asked = SNIB__ATTEMPT_OVER;
    o->owner = how->o.owner ? how->o.owner : snib_owner_new();
    o->ret = ret_grants;
    memcpy(o->part, m->part, m->count * sizeof o->part[0]);
    o->grants = snib__alloc(m->count * sizeof o->grants[0]);
    snib__attempt_init(&o->a, NULL, o->part, m->count, o->grants, wait_ms);
    if (o->grants &&
        multi_start_keep(how->o.reason, &o->a.how.o.reason, &o->reason) &&
        multi_start_keep(how->o.above, &o->a.how.o.above, &o->above)) {
        return o;
    }
    snib__op_free(&o->q.op);
    return NULL;
}

snib_err snib_multi_try_for_start(struct snib_multi *m, int64_t wait_ms,
                                  const struct snib_acquire_options *options,
                                  struct snib_grant ret_grants[], void *user,
                                  uint64_t *ret_ticket,
                                  struct snib_error *reterr)
{
    struct snib__how how;
    uint64_t ticket;
    snib__no_ticket(ret_ticket);
    memset(ret_grants, 0, m->count * sizeof ret_grants[0]);
    snib_err err = multi_start_check(m, reterr);
    if (!err) {
        err = snib__how_read(options, wait_ms, &how, reterr);
    }
    if (err) {
        return err;
    }
    struct multi_acquire *o =
        multi_start_new(m, &how, wait_ms, ret_grants, user);
    err = snib__sequence_open(o ? &o->q : NULL, false, &ticket, reterr);
    if (err && o) {
        snib__op_free(&o->q.op);
    }
    if (err) {
        return err;
    }
    o->a.m = m;
    o->a.client = o->q.client;
    o->a.ticket = ticket;
    snib__attempt_enter(&o->a);
    if (ret_ticket) {
        *ret_ticket = ticket;
    }
    snib__sequence_go(&o->q);
    return snib__ok(reterr);
}

snib_err snib_multi_acquire_start(struct snib_multi *m,
                                  const struct snib_acquire_options *options,
                                  struct snib_grant ret_grants[], void *user,
                                  uint64_t *ret_ticket,
                                  struct snib_error *reterr)
{
    return snib_multi_try_for_start(m, SNIB__NO_LIMIT, options, ret_grants,
                                    user, ret_ticket, reterr);
}

snib_err snib_multi_try_start(struct snib_multi *m,
                              const struct snib_acquire_options *options,
                              struct snib_grant ret_grants[], void *user,
                              uint64_t *ret_ticket, struct snib_error *reterr)
{
    return snib_multi_try_for_start(m, 0, options, ret_grants, user, ret_ticket,
                                    reterr);
}

/* -- release ------------------------------------------------------------------------ */

struct multi_release {
    struct snib__sequence q;
    uint64_t owner;
    size_t back, members; /* the first `back` are not asked for yet */
    struct snib__batch_item member[SNIB__MULTI_CHUNK];
    struct snib_error worst;
    size_t at;
    struct snib_grant *grants; /* by index as given */
    struct snib__part part[];
};

static bool multi_start_release_next(struct snib__sequence *q,
                                     struct snib_error *ret)
{
    struct multi_release *o = SNIB__CONTAINER(q, struct multi_release, q);
    struct snib__step s;
    snib__batch_harvest(o->member, o->members);
    snib__multi_keep_worst(o->member, o->members, o->back + o->members,
                           &o->worst, &o->at);
    if (o->back == 0) {
        if (o->worst.code) {
            snib__multi_fail_at(&o->part[o->at], &o->worst, ret);
        }
        return true;
    }
    o->members = snib__multi_last_of(o->part, o->back, o->grants, o->member);
    o->back -= o->members;
    (void)snib__sequence_begin(&s, q);
    for (size_t j = 0; j < o->members; j++) {
        o->member[j].asked = true;
        snib__sequence_release(&s, q, o->member[j].lock, o->member[j].grant,
                               o->owner, &o->member[j].op);
    }
    snib__sequence_asked(&s, q);
    return false;
}

static void multi_start_release_take(struct snib__op *op,
                                     struct snib_event *ret)
{
    (void)ret;
    snib__free(SNIB__CONTAINER(op, struct multi_release, q.op)->grants);
}

static void multi_start_release_drop(struct snib__op *op)
{
    struct multi_release *o = SNIB__CONTAINER(op, struct multi_release, q.op);
    snib__sequence_drop(&o->q);
    snib__free(o->grants);
}

static const struct snib__sequence_rules multi_start_release_rules = {
    .kind = {.due = snib__sequence_due,
             .give_up = snib__sequence_give_up,
             .take = multi_start_release_take,
             .drop = multi_start_release_drop},
    .next = multi_start_release_next};

snib_err snib_multi_release_start(struct snib_multi *m,
                                  const struct snib_grant grants[], void *user,
                                  uint64_t *ret_ticket,
                                  struct snib_error *reterr)
{
    snib__no_ticket(ret_ticket);
    snib_err err = multi_start_check(m, reterr);
    if (err) {
        return err;
    }
    struct multi_release *o = snib__sequence_new(
        sizeof *o + m->count * sizeof o->part[0],
        snib__multi_client_of(&m->part[0]), &multi_start_release_rules, user);
    size_t size = m->count * sizeof grants[0];
    if (o && !(o->grants = snib__alloc(size))) {
        snib__op_free(&o->q.op);
        o = NULL;
    }
    if (o) {
        o->owner = snib__owner_of_thread();
        o->back = m->count;
        memcpy(o->grants, grants, size);
        memcpy(o->part, m->part, m->count * sizeof o->part[0]);
    }
    return snib__sequence_start(o ? &o->q : NULL, true, ret_ticket, reterr);
}
