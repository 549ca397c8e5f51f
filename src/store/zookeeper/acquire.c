/* store/zookeeper/acquire.c — an ACQUIRE, from the first look to the grant.
 *
 *   look -> make the lock's node? -> fence? -> stand -> look -> watch: QUEUED
 *             ^                                           `--> grant: DONE
 *             `------- begins anew after each surprise
 *
 * Who seems to be alone, and who waited for one node that has gone, makes its record
 * first, and looks behind that (guess.c).
 *
 * *Stand* makes the node that has this request's position in the order; *grant*
 * (grant.c) makes its record. Both go through the ensemble's log.
 *
 * Each other execution, and each that comes after a lost answer, begins with a look, and
 * finds by the request's id what an earlier one has made: there are never two nodes of
 * one request. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "snib/inspect.h"
#include "store/zookeeper/zookeeper_i.h"

enum {
    ACQUIRE_LOOK_MS = 3000, /* who watches looks so often besides */
    ACQUIRE_LEFT_MS = 1000, /* what is shown as left where nobody knows */
    ACQUIRE_LOOKS = 4
};

/* -- answers ----------------------------------------------------------------- */

static void acquire_left(struct zoo_step *k, int64_t ms)
{
    k->r->said.left = snib__ms(ms > 0 ? ms : ACQUIRE_LEFT_MS);
}

static void acquire_no(struct snib__zoo *z, snib_instant now,
                       struct zoo_step *k)
{
    (void)now;
    snib__zoo_claim_forget(z, k->r->id);
    snib__zoo_step_answer(z, k, SNIB__NO, SNIB_ERR_BUSY, NULL);
}

static void acquire_queued(struct snib__zoo *z, struct zoo_step *k,
                           uint32_t position)
{
    k->r->said.position = position;
    snib__zoo_step_answer(z, k, SNIB__QUEUED, SNIB_ERR_OK, NULL);
}

/* -- what is there and must not be ------------------------------------------- */

/* Behind the fence: a copy that comes late may meet a record of the same name. */
static void acquire_remove(struct snib__zoo *z, snib_instant now,
                           struct zoo_step *k, const struct zoo_removal *what,
                           void (*then)(struct snib__zoo *, snib_instant now,
                                        struct zoo_step *))
{
    if (z->fence.ready) {
        snib__zoo_remove(z, now, k, what, then);
    } else {
        snib__zoo_step_fence(z, now, k);
    }
}

static void acquire_clean(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k)
{
    snib__zoo_step_again(z, now, k);
}

/* Add the nodes and the record of this id, from its node number `after` on. */
static void acquire_add(const struct zoo_view *v, const uint64_t id[2],
                        int after, bool record, struct zoo_removal *ret)
{
    const struct zoo_child *m = record ? snib__zoo_view_record(v, id) : NULL;
    if (m) {
        ret->child[ret->count++] = m->name;
    }
    while (ret->count < 6 && (after = snib__zoo_view_find(v, id, after)) >= 0) {
        ret->child[ret->count++] = v->child[after].name;
    }
}

/* -- watching ---------------------------------------------------------------- */

static void acquire_watched(struct snib__zoo *z, snib_instant now,
                            struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    struct zoo_path path;
    if (reply->end == ZOO_OK && claim) {
        claim->look = snib__after(now, snib__ms(ACQUIRE_LOOK_MS));
        acquire_queued(z, k, k->at);
        return;
    }
    if (claim) {
        claim->watch = 0;
    }
    if (reply->end == ZOO_SAYS && reply->zk == SNIB__ZK_NO_NODE) {
        snib__zoo_step_again(z, now, k); /* it ended meanwhile */
        return;
    }
    snib__zoo_path_lock(z, k->r->name, &path);
    snib__zoo_step_failed(z, now, k, reply, path.text);
}

/* It asks for what is below that node, where nothing ever is: such a watch tells of
 * the node's end alone. One on its data would tell of its grant as well, which
 * changes them.
 *
 * An event may come right behind the answer, so what is waited for is written
 * down before. */
static void acquire_watch(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k, struct zoo_claim *claim, int node,
                          int at)
{
    struct zoo_path path;
    k->at = snib__zoo_view_position(&k->view, at);
    const struct zoo_child *c = &k->view.child[node];
    if (node > at) { /* its record is in the way, and may go without it */
        c = snib__zoo_view_record(&k->view, c->id);
    }
    snib__zoo_path_child(z, k->r->name, c->name, &path);
    claim->watch = snib__zoo_hash(path.text, strlen(path.text));
    claim->watch_conn = z->session.conn;
    claim->dead_since.ns = 0;
    claim->sole = node == 0 && at == 1;
    claim->gone = false;
    snib__zoo_step_ask(z, k, SNIB__ZK_CHILDREN, acquire_watched);
    snib__zk_put_read(snib__zoo_out(z), path.text, true);
    snib__zoo_step_send(z, now, k, false);
}

/* It waits, and nothing has been heard since it looked. */
static bool acquire_still_waits(struct snib__zoo *z, snib_instant now,
                                struct zoo_step *k)
{
    const struct zoo_claim *c = snib__zoo_claim_find(z, k->r->id);
    if (k->r->said.answer != SNIB__QUEUED || !c || !c->watch ||
        c->number != z->session.number || c->watch_conn != z->session.conn ||
        snib__reached(now, c->look)) {
        return false;
    }
    acquire_queued(z, k, k->r->said.position);
    return true;
}

/* -- standing ---------------------------------------------------------------- */

static void acquire_prior_over(struct snib__zoo *z,
                               const struct snib__request *r)
{
    if (r->token) {
        snib__zoo_claim_forget(z, r->prior_id);
    }
}

/* Who may not change the lock's node, which comes last, stands all the same. */
static bool acquire_is_closed(struct snib__zoo *z, const struct zoo_step *k,
                              const struct zoo_reply *reply)
{
    struct snib__jute j = reply->body;
    struct snib__zk_result last;
    uint32_t index, n = 0;
    while (snib__zk_next_result(&j, &last)) {
        n++;
    }
    (void)snib__zoo_multi_error(reply, &index);
    bool closed = reply->end == ZOO_SAYS && reply->zk == SNIB__ZK_NO_AUTH &&
                  index + 1 == n && snib__zoo_alone_changes(z, k);
    if (closed) {
        snib__zoo_alone_may_not(z, k);
    }
    return closed;
}

static void acquire_stood(struct snib__zoo *z, snib_instant now,
                          struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    struct zoo_path path;
    if (reply->end == ZOO_OK && claim &&
        snib__zoo_take_node(claim, reply->body)) {
        acquire_prior_over(z, k->r);
        snib__zoo_step_again(z, now, k);
        return;
    }
    if (reply->end == ZOO_SAYS || reply->end == ZOO_AGAIN) {
        snib__zoo_claim_forget(z, k->r->id); /* nothing was made */
    }
    if (snib__zoo_fence_has_failed(z, c, reply) ||
        acquire_is_closed(z, k, reply) ||
        (reply->end == ZOO_SAYS && (reply->zk == SNIB__ZK_NO_NODE ||
                                    reply->zk == SNIB__ZK_EXISTS_ALREADY))) {
        snib__zoo_step_again(z, now, k);
        return;
    }
    snib__zoo_path_lock(z, k->r->name, &path);
    snib__zoo_step_failed(z, now, k, reply, path.text);
}

static void acquire_put_change(struct snib__zoo *z, const struct zoo_step *k)
{
    struct zoo_path path;
    snib__zoo_path_lock(z, k->r->name, &path);
    snib__zk_put_multi(snib__zoo_out(z), SNIB__ZK_SET_DATA);
    snib__zk_put_data(snib__zoo_out(z), path.text, ZOO_LOCK_DATA,
                      strlen(ZOO_LOCK_DATA), -1);
}

/* The prior grant, if its nodes are there, ends in the same step. So does a
 * record of this id: it is of a session that is over, and nobody was told of that
 * grant. A removal of its own might come late, and find the record of the next
 * one. */
static void acquire_stand(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k)
{
    const struct snib__request *r = k->r;
    struct zoo_removal prior = {.count = 0};
    if (!snib__zoo_stands(z, k)) {
        return;
    }
    acquire_add(&k->view, r->id, -1, true, &prior);
    if (r->token) {
        acquire_add(&k->view, r->prior_id, -1, true, &prior);
    }
    snib__zoo_step_ask(z, k, SNIB__ZK_MULTI, acquire_stood);
    snib__zoo_fence_check(z, &k->call);
    for (uint32_t i = 0; i < prior.count; i++) {
        snib__zoo_put_version(z, k, SNIB__ZK_DELETE, prior.child[i]);
    }
    int writer = snib__zoo_writer_of(z, k);
    if (writer >= 0) { /* it stands where that one does, which must be there */
        snib__zoo_put_version(z, k, SNIB__ZK_CHECK, k->view.child[writer].name);
    }
    snib__zoo_put_node(z, k);
    if (snib__zoo_alone_changes(z, k)) {
        acquire_put_change(z, k);
    }
    snib__zk_put_multi_end(snib__zoo_out(z));
    snib__zoo_step_send(z, now, k, true);
}

/* -- deciding ---------------------------------------------------------------- */

/* It is next but for grants whose nodes went without a release. Their holders
 * may believe in them for a whole lease from when the node went, which was before
 * now. Has that been so for so long? */
static bool acquire_outlived(struct snib__zoo *z, snib_instant now,
                             struct zoo_step *k, struct zoo_claim *claim)
{
    struct zoo_request request;
    uint64_t hash;
    (void)z;
    snib__zoo_request_of(k->r, &request);
    int64_t ms = snib__zoo_view_dead(&k->view, &request, &hash);
    if (!ms) {
        return true;
    }
    k->begins = !claim->dead_since.ns || claim->dead_hash != hash;
    if (k->begins) {
        claim->dead_since = now;
        claim->dead_hash = hash;
    }
    snib_instant end = snib__after(claim->dead_since, snib__ms(ms));
    acquire_left(k, snib__to_ms(snib__between(now, end)) + 1);
    return snib__reached(now, end);
}

static void acquire_outwaits(struct snib__zoo *z, snib_instant now,
                             struct zoo_step *k)
{
    (void)now;
    acquire_queued(z, k, 1);
}

/* A try, or one that does not stand in queues, has stood for nothing. */
static void acquire_undone(struct snib__zoo *z, snib_instant now,
                           struct zoo_step *k)
{
    if (k->r->acquire.may_queue) {
        snib__zoo_claim_forget(z, k->r->id);
        acquire_queued(z, k, 0);
    } else {
        acquire_no(z, now, k);
    }
}

static void acquire_undo(struct snib__zoo *z, snib_instant now,
                         struct zoo_step *k)
{
    struct zoo_removal undo = {.count = 0};
    acquire_add(&k->view, k->r->id, -1, true, &undo);
    snib__zoo_remove(z, now, k, &undo, acquire_undone);
}

/* The node that it waits for; -1: none. What was granted, by a call whose answer
 * was lost, stays so; a writer who wants to read waits for nobody. */
static int acquire_ahead(const struct zoo_step *k,
                         const struct zoo_request *request, int at,
                         bool unproved)
{
    bool granted =
        !unproved && snib__zoo_view_granted(&k->view, request->id) == at;
    bool writes = request->reads &&
                  snib__zoo_view_granted(&k->view, request->upgrade_of) >= 0;
    return granted || writes ? -1 : snib__zoo_view_ahead(&k->view, request, at);
}

static void acquire_dead_removed(struct snib__zoo *z, snib_instant now,
                                 struct zoo_step *k)
{
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    if (claim) {
        /* The others are as dead as before. */
        claim->dead_hash ^= k->removed_hash;
    }
    snib__zoo_step_again(z, now, k);
}

/* It is next. Nobody can believe any more in the grants whose nodes are gone:
 * the grant removes their records, but for those of which there are too many. */
static void acquire_enter(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k, struct zoo_claim *claim,
                          const struct zoo_request *request)
{
    struct zoo_removal dead = {.if_there = claim->node};
    k->removed_hash = 0;
    for (uint32_t i = k->view.standing; i < k->view.count; i++) {
        const struct zoo_child *c = &k->view.child[i];
        if (!snib__zoo_view_is_dead(c, request)) {
            continue;
        }
        if (dead.count == ZOO_AT_ONCE) {
            snib__zoo_remove(z, now, k, &dead, acquire_dead_removed);
            return;
        }
        dead.child[dead.count++] = c->name;
        k->removed_hash ^= snib__zoo_hash(c->name, strlen(c->name));
    }
    snib__zoo_grant(z, now, k, claim);
}

/* Its record was made by a wrong guess (guess.c): somebody is there, or may believe in
 * a grant. Its node stays in its place. */
static bool acquire_is_wrong(const struct zoo_step *k,
                             const struct zoo_claim *claim,
                             const struct zoo_request *request, int ahead,
                             struct zoo_removal *ret)
{
    const struct zoo_child *record = snib__zoo_view_record(&k->view, k->r->id);
    uint64_t hash;
    *ret = (struct zoo_removal){.count = 0};
    if (claim->unproved && record &&
        (ahead >= 0 || snib__zoo_view_dead(&k->view, request, &hash))) {
        ret->child[ret->count++] = record->name;
    }
    return ret->count > 0;
}

/* Its node stands. */
static void acquire_look_at(struct snib__zoo *z, snib_instant now,
                            struct zoo_step *k, struct zoo_claim *claim, int at)
{
    struct snib__request *r = k->r;
    struct zoo_request request;
    struct zoo_removal wrong;
    snib__zoo_request_of(r, &request);
    int ahead = acquire_ahead(k, &request, at, claim->unproved);
    bool stays = r->acquire.may_queue && (!r->acquire.spin || ahead < 0);
    memcpy(claim->node, k->view.child[at].name, sizeof claim->node);
    acquire_left(k, snib__zoo_view_lease(&k->view, &request));
    if (ahead > at && k->looks < ACQUIRE_LOOKS) {
        k->looks++; /* that record may be a wrong guess, and go (guess.c) */
        snib__zoo_step_pause(z, now, k);
    } else if (acquire_is_wrong(k, claim, &request, ahead, &wrong)) {
        acquire_remove(z, now, k, &wrong, acquire_clean);
    } else if (ahead < 0 && acquire_outlived(z, now, k, claim)) {
        acquire_enter(z, now, k, claim, &request);
    } else if (!stays && ahead < 0) {
        snib__zoo_dead(z, now, k, acquire_undo);
    } else if (!stays) {
        acquire_undo(z, now, k);
    } else if (ahead >= 0) {
        acquire_watch(z, now, k, claim, ahead, at);
    } else if (k->begins) { /* it may give up before the lease is over */
        snib__zoo_dead(z, now, k, acquire_outwaits);
    } else {
        acquire_queued(z, k, 1);
    }
}

/* -- refusing ----------------------------------------------------------------- */

static void acquire_given_up(struct snib__zoo *z, snib_instant now,
                             struct zoo_step *k)
{
    (void)now;
    snib__zoo_claim_forget(z, k->r->id);
    snib__zoo_step_answer(z, k, SNIB__NOT_APPLIED, k->why, k->words);
}

static void acquire_leave(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k)
{
    struct zoo_removal own = {.count = 0};
    acquire_add(&k->view, k->r->id, -1, true, &own);
    if (own.count) {
        acquire_remove(z, now, k, &own, acquire_given_up);
    } else {
        acquire_given_up(z, now, k);
    }
}

/* Its node would keep those behind it waiting for as long as this client lives. */
static void acquire_give_up(struct snib__zoo *z, snib_instant now,
                            struct zoo_step *k, snib_err why, const char *text)
{
    k->why = why;
    snprintf(k->words, sizeof k->words, "%s", text);
    snib__zoo_children(z, now, k, acquire_leave);
}

/* A try, or one that does not stand in queues, finds that others are there. */
static void acquire_refused(struct snib__zoo *z, snib_instant now,
                            struct zoo_step *k)
{
    struct zoo_removal over = {.count = 0};
    acquire_add(&k->view, k->r->id, -1, true, &over);
    if (k->r->token) {
        acquire_add(&k->view, k->r->prior_id, -1, true, &over);
    }
    if (over.count) {
        acquire_remove(z, now, k, &over, acquire_undone);
    } else {
        acquire_undone(z, now, k);
    }
}

static void acquire_begin(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k);

/* It has no node yet. A server that is behind might show somebody who has given
 * it back since. */
static void acquire_arrive(struct snib__zoo *z, snib_instant now,
                           struct zoo_step *k)
{
    struct snib__request *r = k->r;
    struct zoo_request request;
    snib__zoo_request_of(r, &request);
    bool stays = r->acquire.may_queue && !r->acquire.spin;
    bool taken = acquire_ahead(k, &request, (int)k->view.standing, false) >= 0;
    bool free = !k->view.count && (k->missing || snib__zoo_alone_changes(z, k));
    acquire_left(k, snib__zoo_view_lease(&k->view, &request));
    if (taken && !stays && !k->synced) {
        snib__zoo_sync(z, now, k, acquire_begin);
    } else if (taken && !stays) {
        acquire_refused(z, now, k);
    } else if (free && snib__zoo_alone_may(z, k)) {
        snib__zoo_alone(z, now, k, k->missing ? -1 : k->version);
    } else if (k->missing) {
        snib__zoo_mkdir(z, now, k);
    } else if (!z->fence.ready) {
        snib__zoo_step_fence(z, now, k);
    } else {
        acquire_stand(z, now, k);
    }
}

/* Nodes of this id that are not to be there: a second one; one of a session that
 * is over, in which nobody believes. */
static bool acquire_is_odd(struct snib__zoo *z, const struct zoo_step *k,
                           const struct zoo_claim *claim, int at,
                           struct zoo_removal *ret)
{
    bool ours = claim && claim->number == z->session.number;
    *ret = (struct zoo_removal){.count = 0};
    if (at >= 0) {
        acquire_add(&k->view, k->r->id, ours ? at : -1, !ours, ret);
    }
    return ret->count > 0;
}

/* What is below the lock's node allows nobody to be let in: why, in words. */
static bool acquire_is_barred(const struct snib__zoo *z, struct zoo_step *k,
                              int at)
{
    if (k->view.foreign[0]) {
        k->why = SNIB_ERR_CONFIG;
        snprintf(k->words, sizeof k->words,
                 "%.96s is below this lock's node and none of %s; name another "
                 "path in the URL (docs/ZOOKEEPER.md, \"With Curator\")",
                 k->view.foreign,
                 z->mutexes ? "Curator's InterProcessMutex"
                            : "snib's nor of Curator's "
                              "InterProcessReadWriteLock");
    } else if (at >= 0 && k->view.child[at].seq == ZOO_SEQ_LAST) {
        k->why = SNIB_ERR_STORE;
        snprintf(k->words, sizeof k->words,
                 "the numbers below this lock's node have come to their end "
                 "(2^31), so nobody can say who is first; remove the node when "
                 "nobody holds or wants the lock");
    }
    return k->why != SNIB_ERR_OK;
}

static void acquire_decide(struct snib__zoo *z, snib_instant now,
                           struct zoo_step *k)
{
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    struct zoo_removal odd;
    int at = snib__zoo_view_own(&k->view, k->r->id, claim ? claim->node : "");
    if (acquire_is_barred(z, k, at)) {
        acquire_leave(z, now, k);
    } else if (acquire_is_odd(z, k, claim, at, &odd)) {
        acquire_remove(z, now, k, &odd, acquire_clean);
    } else if (at >= 0) {
        acquire_look_at(z, now, k, claim, at);
    } else {
        acquire_arrive(z, now, k);
    }
}

static void acquire_begin(struct snib__zoo *z, snib_instant now,
                          struct zoo_step *k)
{
    int32_t version;
    if (acquire_still_waits(z, now, k)) {
        return;
    }
    if (snib__zoo_guess_turn(z, k)) {
        snib__zoo_guess_next(z, now, k);
    } else if (snib__zoo_alone_guess(z, now, k, &version)) {
        snib__zoo_alone(z, now, k, version);
    } else {
        snib__zoo_children(z, now, k, acquire_decide);
    }
}

const struct zoo_work snib__zoo_acquire_work = {.begin = acquire_begin,
                                                .give_up = acquire_give_up,
                                                .looked = acquire_decide};
