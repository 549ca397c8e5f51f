/* api/elect_watch.c — who leads, and waiting for the next term: by inspecting
 * the lock, so that anybody may watch.
 *
 * A watch that was started is a sequence (sequence.c) of such inspections with
 * pauses. It is on its candidate's list, which it needs only to know its term:
 * when the candidate is freed first the watch is cancelled. */
#include <string.h>

#include "api/elect_i.h"
#include "api/inspect_i.h"
#include "api/sequence.h"
#include "base/error.h"
#include "base/mem.h"
#include "snib/event.h"
#include "snib/inspect.h"

enum { LOOK_MS = 200 }; /* between two requests of a watcher */

struct box {
    struct snib_leader leader;
    struct snib_view *view; /* owns the strings */
};

void snib_leader_free(struct snib_leader *leader)
{
    if (leader) {
        struct box *b = SNIB__CONTAINER(leader, struct box, leader);
        snib_view_free(b->view);
        snib__free(b);
    }
}

static void elect_watch_describe(struct box *b, int64_t own_term)
{
    const struct snib_view *v = b->view;
    struct snib_leader *l = &b->leader;
    *l = (struct snib_leader){.id = "",
                              .client_id = "",
                              .host = "",
                              .user = "",
                              .program = "",
                              .candidates = v->waiter_count};
    if (v->holder_count) {
        const struct snib_party *p = v->holders[0];
        l->term = p->token ? p->token : SNIB_TERM_NOT_KNOWN;
        l->id = p->reason;
        l->client_id = p->client_id;
        l->host = p->host;
        l->user = p->user;
        l->program = p->program;
        l->pid = p->pid;
        l->since_ms = p->since_ms;
        l->left_ms = p->left_ms;
        l->self = p->self && p->token == own_term;
    }
}

struct leader_op {
    struct snib__direct_op d;
    int64_t own_term; /* of this candidate; 0: it does not lead              */
    struct snib_leader **ret;
};

static snib_err elect_watch_decode(struct snib__direct_op *d, snib_err err,
                                   struct snib_error *ret)
{
    const struct leader_op *o = SNIB__CONTAINER(d, struct leader_op, d);
    if (err) {
        return err;
    }
    struct box *b = snib__alloc(sizeof *b);
    if (!b) {
        return snib__fail_plain(ret, SNIB_ERR_NOMEM);
    }
    err = snib__inspect_view(d, &b->view, ret);
    if (err) {
        snib__free(b);
        return err;
    }
    elect_watch_describe(b, o->own_term);
    *o->ret = &b->leader;
    return SNIB_ERR_OK;
}

static const struct snib__direct_rules elect_watch_rules = {
    .decode = elect_watch_decode};

static snib_err elect_watch_prepare(struct leader_op *o, struct snib_elect *e,
                                    struct snib_leader **ret,
                                    struct snib_error *reterr)
{
    *ret = NULL;
    snib_err err = snib__client_check(e->client, reterr);
    if (err) {
        return err;
    }
    const struct snib__name *name = snib__local_lock_name(e->lock->local);
    o->own_term = snib__elect_grant(e).token;
    o->ret = ret;
    return snib__inspect_prepare(&o->d, e->client, name->raw, name->raw_size,
                                 &elect_watch_rules, reterr);
}

snib_err snib_elect_leader(struct snib_elect *e, struct snib_leader **ret,
                           struct snib_error *reterr)
{
    struct leader_op o;
    snib_err err = elect_watch_prepare(&o, e, ret, reterr);
    return err ? err : snib__run_direct(&o.d, reterr);
}

snib_err snib_elect_leader_start(struct snib_elect *e, struct snib_leader **ret,
                                 void *user, uint64_t *ret_ticket,
                                 struct snib_error *reterr)
{
    struct leader_op o;
    snib__no_ticket(ret_ticket);
    snib_err err = elect_watch_prepare(&o, e, ret, reterr);
    return err ? err
               : snib__start_direct(&o.d, sizeof o, user, ret_ticket, reterr);
}

/* -- waiting for another term -------------------------------------------------- */

static snib_err elect_watch_late(int64_t known_term, struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_TIMEOUT,
                      "no other term than %lld began in time",
                      (long long)known_term);
}

snib_err snib_elect_watch(struct snib_elect *e, int64_t known_term,
                          struct snib_leader **ret, struct snib_error *reterr)
{
    return snib_elect_watch_for(e, known_term, SNIB__NO_LIMIT, ret, reterr);
}

snib_err snib_elect_watch_for(struct snib_elect *e, int64_t known_term,
                              int64_t wait_ms, struct snib_leader **ret,
                              struct snib_error *reterr)
{
    *ret = NULL;
    snib_err err = snib__client_check(e->client, reterr);
    int64_t until =
        wait_ms > INT64_MAX / SNIB__NS_OF_S
            ? INT64_MAX
            : snib__elect_now() + (wait_ms > 0 ? wait_ms * SNIB__NS_OF_MS : 0);
    while (!err) {
        pthread_mutex_lock(&e->mu);
        uint64_t changes = e->changes;
        pthread_mutex_unlock(&e->mu);
        err = snib_elect_leader(e, ret, reterr);
        if (err || (*ret)->term != known_term) {
            break;
        }
        snib_leader_free(*ret);
        *ret = NULL;
        int64_t now = snib__elect_now(),
                next = now + LOOK_MS * (int64_t)SNIB__NS_OF_MS;
        if (now >= until) {
            return elect_watch_late(known_term, reterr);
        }
        pthread_mutex_lock(&e->mu);
        if (changes == e->changes) {
            snib__elect_wait_until(e, next < until ? next : until);
        }
        pthread_mutex_unlock(&e->mu);
    }
    return err;
}

/* -- started -------------------------------------------------------------------- */

struct snib__elect_watch {
    struct snib__sequence q;
    struct leader_op look;
    bool looks;
    int64_t known_term;
    snib_instant until;
    struct snib_leader *leader; /* that was found                             */
    struct snib_leader **ret;
    struct snib_elect *elect; /* NULL: it was freed                         */
    struct snib__elect_watch *next;
    size_t name_size;
    char name[];
};

static struct snib__elect_watch *elect_watch_of(struct snib__op *op)
{
    return SNIB__CONTAINER(snib__sequence_of(op), struct snib__elect_watch, q);
}

static void elect_watch_enter(struct snib__elect_watch *w, struct snib_elect *e)
{
    pthread_mutex_lock(&e->mu);
    w->elect = e;
    w->next = e->watches;
    e->watches = w;
    pthread_mutex_unlock(&e->mu);
}

/* In a forked child the candidate's mutex may be the parent's. */
static void elect_watch_leave(struct snib__elect_watch *w, bool locks)
{
    struct snib_elect *e = w->elect;
    if (!e) {
        return;
    }
    if (locks) {
        pthread_mutex_lock(&e->mu);
    }
    struct snib__elect_watch **p = &e->watches;
    while (*p && *p != w) {
        p = &(*p)->next;
    }
    if (*p) {
        *p = w->next;
    }
    if (locks) {
        pthread_mutex_unlock(&e->mu);
    }
    w->elect = NULL;
}

void snib__elect_unwatch(struct snib_elect *e)
{
    while (e->watches) { /* nobody else uses the candidate now */
        struct snib__elect_watch *w = e->watches;
        e->watches = w->next;
        w->elect = NULL;
        snib_client_cancel(e->client, w->q.op.ev.grant.ticket);
    }
}

static bool elect_watch_ask(struct snib__elect_watch *w, struct snib_error *ret)
{
    struct snib__step s;
    int64_t own = w->elect ? snib__elect_grant(w->elect).token : 0;
    snib_err err = snib__sequence_begin(&s, &w->q);
    if (err) {
        return snib__sequence_ends(&s, &w->q, err, ret);
    }
    w->look.own_term = own;
    w->look.ret = &w->leader;
    (void)snib__inspect_prepare(&w->look.d, w->q.client, w->name, w->name_size,
                                &elect_watch_rules, NULL);
    w->looks = true;
    snib__sequence_ask(&s, &w->q, &w->look.d);
    snib__sequence_asked(&s, &w->q);
    return false;
}

static void elect_watch_forget(struct snib__elect_watch *w)
{
    struct snib_leader *was = w->leader;
    w->leader = NULL;
    snib_leader_free(was);
}

static bool elect_watch_next(struct snib__sequence *q, struct snib_error *ret)
{
    struct snib__elect_watch *w =
        SNIB__CONTAINER(q, struct snib__elect_watch, q);
    struct snib__step s;
    if (!w->looks) {
        return elect_watch_ask(w, ret);
    }
    w->looks = false;
    if (snib__sequence_answer(&w->look.d, ret) ||
        w->leader->term != w->known_term) {
        return true;
    }
    elect_watch_forget(w);
    snib_err err = snib__sequence_begin(&s, q);
    if (!err && snib__reached(s.now, w->until)) {
        (void)snib__sequence_ends(&s, q, SNIB_ERR_TIMEOUT, ret);
        elect_watch_late(w->known_term, ret);
        return true;
    }
    if (err) {
        return snib__sequence_ends(&s, q, err, ret);
    }
    snib_instant next = snib__after(s.now, snib__ms(LOOK_MS));
    if (!snib__sequence_pause(
            &s, q, snib__between(s.now, snib__sooner(next, w->until)))) {
        return snib__sequence_ends(&s, q, SNIB_ERR_NOMEM, ret);
    }
    snib__sequence_asked(&s, q);
    return false;
}

static void elect_watch_cancel(struct snib__step *s, struct snib__sequence *q)
{
    struct snib__elect_watch *w =
        SNIB__CONTAINER(q, struct snib__elect_watch, q);
    snib__sequence_quit_direct(s, &w->look.d, SNIB_ERR_CANCELLED);
}

static void elect_watch_take(struct snib__op *op, struct snib_event *ret)
{
    struct snib__elect_watch *w = elect_watch_of(op);
    elect_watch_leave(w, true);
    if (!ret->error.code) {
        *w->ret = w->leader;
    } else {
        elect_watch_forget(w);
    }
}

static void elect_watch_drop(struct snib__op *op)
{
    struct snib__elect_watch *w = elect_watch_of(op);
    elect_watch_leave(w, !w->q.client->in_child);
    snib__sequence_drop(&w->q);
    snib__sequence_drop_direct(&w->look.d);
    elect_watch_forget(w);
}

static const struct snib__sequence_rules elect_watch_start_rules = {
    .kind = {.due = snib__sequence_due,
             .give_up = snib__sequence_give_up,
             .take = elect_watch_take,
             .drop = elect_watch_drop},
    .next = elect_watch_next,
    .cancel = elect_watch_cancel};

static struct snib__elect_watch *
elect_watch_new(struct snib_elect *e, int64_t known_term, int64_t wait_ms,
                struct snib_leader **ret, void *user)
{
    const struct snib__name *name = snib__local_lock_name(e->lock->local);
    struct snib__elect_watch *w = snib__sequence_new(
        sizeof *w + name->raw_size, e->client, &elect_watch_start_rules, user);
    struct snib__step s;
    if (w) {
        w->known_term = known_term;
        w->ret = ret;
        w->name_size = name->raw_size;
        memcpy(w->name, name->raw, name->raw_size);
        snib__step_begin(&s, e->client);
        w->until =
            wait_ms == SNIB__NO_LIMIT
                ? SNIB__NEVER
                : snib__after(s.now, snib__ms(wait_ms > 0 ? wait_ms : 0));
        snib__step_end(&s);
    }
    return w;
}

snib_err snib_elect_watch_for_start(struct snib_elect *e, int64_t known_term,
                                    int64_t wait_ms, struct snib_leader **ret,
                                    void *user, uint64_t *ret_ticket,
                                    struct snib_error *reterr)
{
    *ret = NULL;
    snib__no_ticket(ret_ticket);
    snib_err err = snib__client_check(e->client, reterr);
    if (err) {
        return err;
    }
    struct snib__elect_watch *w =
        elect_watch_new(e, known_term, wait_ms, ret, user);
    err = snib__sequence_open(w ? &w->q : NULL, false, ret_ticket, reterr);
    if (err && w) {
        snib__op_free(&w->q.op);
    }
    if (!err) {
        elect_watch_enter(w, e);
        snib__sequence_go(&w->q);
    }
    return err;
}

snib_err snib_elect_watch_start(struct snib_elect *e, int64_t known_term,
                                struct snib_leader **ret, void *user,
                                uint64_t *ret_ticket, struct snib_error *reterr)
{
    return snib_elect_watch_for_start(e, known_term, SNIB__NO_LIMIT, ret, user,
                                      ret_ticket, reterr);
}
