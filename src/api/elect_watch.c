/* api/elect_watch.c — who leads, and waiting for the next term: by inspecting
 * the lock, so that anybody may watch. */
#include "api/elect_i.h"
#include "api/inspect_i.h"
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
        l->term = p->token;
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
            return snib__fail(reterr, SNIB_ERR_TIMEOUT,
                              "no other term than %lld began in time",
                              (long long)known_term);
        }
        pthread_mutex_lock(&e->mu);
        if (changes == e->changes) {
            snib__elect_wait_until(e, next < until ? next : until);
        }
        pthread_mutex_unlock(&e->mu);
    }
    return err;
}
