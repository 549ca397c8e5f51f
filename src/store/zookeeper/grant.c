/* store/zookeeper/grant.c — what is made for a request, its node and its record, and
 * the grant.
 *
 * The grant: the record is made, by a multi that touches the node, so that there is
 * none for a node that is gone (or was made before, by a guess that a look has proved:
 * guess.c). The lease counts from before that was sent. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/rules/rules.h"
#include "store/zookeeper/zookeeper_i.h"

bool snib__zoo_reads(const struct snib__request *r)
{
    return r->acquire.kind == SNIB_KIND_READ;
}

void snib__zoo_request_of(const struct snib__request *r,
                          struct zoo_request *ret)
{
    *ret = (struct zoo_request){
        .id = {r->id[0], r->id[1]},
        .reads = snib__zoo_reads(r),
        .upgrade_of = {r->acquire.upgrade_of[0], r->acquire.upgrade_of[1]},
        .prior = {r->token ? r->prior_id[0] : 0,
                  r->token ? r->prior_id[1] : 0}};
}

void snib__zoo_data_of(const struct snib__zoo *z, const struct snib__request *r,
                       int64_t token, char *ret, size_t size)
{
    char words[40] = "";
    if (token) {
        snprintf(words, sizeof words, "token=%lld&", (long long)token);
    }
    snprintf(ret, size, "client=%016llx%016llx&kind=%d&%s%.*s",
             (unsigned long long)z->client[0], (unsigned long long)z->client[1],
             (int)r->acquire.kind, words, (int)r->text_size,
             r->text ? r->text : "");
}

int snib__zoo_writer_of(const struct snib__zoo *z, const struct zoo_step *k)
{
    return z->curator && snib__zoo_reads(k->r)
               ? snib__zoo_view_granted(&k->view, k->r->acquire.upgrade_of)
               : -1;
}

int32_t snib__zoo_node_of(const struct snib__zoo *z, const struct zoo_step *k,
                          char ret[ZOO_CHILD_MAX])
{
    const struct snib__request *r = k->r;
    int writer = snib__zoo_writer_of(z, k);
    if (writer >= 0) {
        snib__zoo_child_of_writer(r->id, &k->view.child[writer], ret);
        return SNIB__ZK_EPHEMERAL;
    }
    if (z->mutexes) {
        snib__zoo_child_mutex(r->id, ret);
    } else {
        snib__zoo_child_stands(r->id, snib__zoo_reads(r), ret);
    }
    return SNIB__ZK_EPHEMERAL | SNIB__ZK_SEQUENTIAL;
}

struct zoo_claim *snib__zoo_stands(struct snib__zoo *z, struct zoo_step *k)
{
    struct snib__request *r = k->r;
    struct zoo_claim *claim = snib__zoo_claim_make(z, r->id);
    struct zoo_path path;
    snib__zoo_path_lock(z, r->name, &path);
    if (claim && !claim->dir) {
        claim->dir = snib__strdup(path.text);
    }
    if (!claim || !claim->dir) {
        snib__zoo_claim_forget(z, r->id);
        snib__zoo_step_answer(z, k, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM, NULL);
        return NULL;
    }
    claim->number = z->session.number;
    claim->floor = r->floor;
    claim->reads = snib__zoo_reads(r);
    claim->dead_since.ns = 0; /* while it did not stand, others were let in */
    claim->unproved = claim->gone = false;
    claim->node[0] = 0;
    claim->version = -1;
    return claim;
}

void snib__zoo_put_node(struct snib__zoo *z, const struct zoo_step *k)
{
    struct zoo_path path;
    char data[ZOO_DATA], child[ZOO_CHILD_MAX];
    int32_t flags = snib__zoo_node_of(z, k, child);
    snib__zoo_path_child(z, k->r->name, child, &path);
    snib__zoo_data_of(z, k->r, 0, data, sizeof data);
    const struct snib__zk_create create = {.path = path.text,
                                           .data = data,
                                           .size = strlen(data),
                                           .flags = flags,
                                           .creators_own =
                                               z->session.logged_in};
    snib__zk_put_multi(snib__zoo_out(z), SNIB__ZK_CREATE2);
    snib__zk_put_create(snib__zoo_out(z), &create);
}

bool snib__zoo_take_node(struct zoo_claim *claim, struct snib__jute j)
{
    struct snib__zk_result one;
    while (snib__zk_next_result(&j, &one)) {
        if (one.path.bytes) {
            const char *slash = memrchr(one.path.bytes, '/', one.path.size);
            size_t size =
                slash ? (size_t)(one.path.bytes + one.path.size - slash - 1)
                      : sizeof claim->node;
            if (size >= sizeof claim->node) {
                return false;
            }
            memcpy(claim->node, slash + 1, size);
            claim->node[size] = 0;
            return true;
        }
    }
    return false;
}

/* Curator's clients wait for no record: they are let in when the session has ended.
 * So a holder has to be done before. It is, with a third of the session's length
 * from before a change that was answered, unless the leader had not heard for the
 * other two thirds that the session lives (store.c). */
int64_t snib__zoo_lease_ms(const struct snib__zoo *z,
                           const struct snib__request *r)
{
    int64_t ms = snib__to_ms(r->lease), most = z->session.zk.timeout_ms / 3;
    return z->curator && ms > most ? most : ms;
}

snib_duration snib__zoo_given(const struct snib__zoo *z,
                              const struct snib__request *r,
                              const struct zoo_claim *claim)
{
    int64_t ms = snib__zoo_lease_ms(z, r);
    if (ms >= claim->lease_ms) {
        return snib__ms(claim->lease_ms);
    }
    return ms < snib__to_ms(r->lease) ? snib__ms(ms) : r->lease;
}

/* Tokens rise with the ensemble's history. If that went back, what this client
 * had seen when it stood is above its node's. */
static bool grant_is_token(const struct zoo_claim *claim)
{
    return claim->czxid > claim->floor && snib__is_token(claim->czxid);
}

static void grant_no_token(struct snib__zoo *z, snib_instant now,
                           struct zoo_step *k)
{
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    bool most = claim && !snib__is_token(claim->czxid);
    (void)now;
    snib__zoo_claim_forget(z, k->r->id);
    snib__zoo_step_answer(
        z, k, SNIB__NOT_APPLIED, SNIB_ERR_STORE,
        most
            ? "the ensemble's numbers are too high for tokens (2^53 and more); "
              "set up a new one"
            : "the ensemble's history has gone back behind what this client "
              "has seen "
              "of it (an old snapshot, or another ensemble), so its tokens "
              "would not "
              "rise; start this program anew when that is meant");
}

static void grant_done(struct snib__zoo *z, struct zoo_step *k,
                       struct zoo_claim *claim, snib_instant sent)
{
    struct snib__request *r = k->r;
    claim->granted = true;
    claim->unproved = false;
    claim->watch = 0;
    claim->token = claim->token ? claim->token : claim->czxid;
    r->token = claim->token;
    r->acquire.reserve = 0;
    r->acquire.permits = 1;
    r->said.valid_from = sent;
    r->said.left = snib__zoo_given(z, r, claim);
    snib__zoo_claim_lasts(z, claim, snib__after(sent, r->said.left));
    snib__zoo_step_answer(z, k, SNIB__DONE, SNIB_ERR_OK, NULL);
}

void snib__zoo_granted(struct snib__zoo *z, snib_instant now,
                       struct zoo_step *k, struct zoo_claim *claim,
                       int64_t czxid, snib_instant sent)
{
    struct zoo_removal undo = {.child = {claim->record, claim->node},
                               .count = 2};
    claim->czxid = czxid;
    if (grant_is_token(claim)) {
        grant_done(z, k, claim, sent);
    } else {
        snib__zoo_remove(z, now, k, &undo, grant_no_token);
    }
}

static void grant_answered(struct snib__zoo *z, snib_instant now,
                           struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    struct snib__zk_result one = {.op = SNIB__ZK_ERROR};
    struct zoo_path path;
    if (reply->end == ZOO_OK && claim &&
        snib__zk_next_result(&reply->body, &one) && /* the fence */
        snib__zk_next_result(&reply->body, &one) &&
        one.op == SNIB__ZK_SET_DATA && one.stat.owner == z->session.zk.id) {
        snib__zoo_granted(z, now, k, claim, one.stat.czxid, reply->sent);
        return;
    }
    if (snib__zoo_fence_has_failed(z, c, reply) ||
        (reply->end == ZOO_SAYS && (reply->zk == SNIB__ZK_NO_NODE ||
                                    reply->zk == SNIB__ZK_EXISTS_ALREADY))) {
        snib__zoo_step_again(z, now, k);
        return;
    }
    snib__zoo_path_lock(z, k->r->name, &path);
    snib__zoo_step_failed(z, now, k, reply, path.text);
}

/* Where the writer stands who reads as well; -1: there is none. It has the token of
 * the writer, as its own would be above that of the writers that it passes. What was
 * sent before with that has made the record. */
static int grant_writer(struct snib__zoo *z, const struct zoo_step *k,
                        const struct zoo_request *request,
                        struct zoo_claim *claim)
{
    const struct zoo_claim *writer =
        snib__zoo_claim_find(z, request->upgrade_of);
    int at = request->reads
                 ? snib__zoo_view_granted(&k->view, request->upgrade_of)
                 : -1;
    if (!snib__zoo_view_record(&k->view, claim->id)) {
        claim->token = at >= 0 && writer ? writer->token : 0;
    }
    return at;
}

void snib__zoo_put_change(struct snib__zoo *z, const struct zoo_step *k,
                          const struct zoo_claim *claim)
{
    struct zoo_path path;
    char data[ZOO_DATA];
    snib__zoo_data_of(z, k->r, claim->token, data, sizeof data);
    snib__zoo_path_child(z, k->r->name, claim->node, &path);
    snib__zk_put_multi(snib__zoo_out(z), SNIB__ZK_SET_DATA);
    snib__zk_put_data(snib__zoo_out(z), path.text, data, strlen(data), -1);
}

void snib__zoo_put_record(struct snib__zoo *z, const struct zoo_step *k,
                          struct zoo_claim *claim)
{
    const struct snib__request *r = k->r;
    const struct zoo_child *record = snib__zoo_view_record(&k->view, r->id);
    struct zoo_path path;
    if (record) {
        memcpy(claim->record, record->name, sizeof claim->record);
        claim->lease_ms = record->lease_ms;
        snib__zoo_put_version(z, k, SNIB__ZK_CHECK, claim->record);
        return;
    }
    claim->lease_ms = snib__zoo_lease_ms(z, r);
    snib__zoo_child_record(r->id, snib__zoo_reads(r), claim->lease_ms,
                           claim->record);
    snib__zoo_path_child(z, r->name, claim->record, &path);
    const struct snib__zk_create create = {
        .path = path.text, .data = "", .creators_own = z->session.logged_in};
    snib__zk_put_multi(snib__zoo_out(z), SNIB__ZK_CREATE2);
    snib__zk_put_create(snib__zoo_out(z), &create);
}

/* The records of grants that nobody can believe in any more go with it. */
void snib__zoo_grant(struct snib__zoo *z, snib_instant now, struct zoo_step *k,
                     struct zoo_claim *claim)
{
    struct zoo_request request;
    if (!z->fence.ready) {
        snib__zoo_step_fence(z, now, k);
        return;
    }
    snib__zoo_request_of(k->r, &request);
    snib__zoo_step_ask(z, k, SNIB__ZK_MULTI, grant_answered);
    snib__zoo_fence_check(z, &k->call);
    int writer = grant_writer(z, k, &request, claim);
    snib__zoo_put_change(z, k, claim);
    if (writer >= 0) { /* it must be the writer still, as it passes others */
        snib__zoo_put_version(z, k, SNIB__ZK_CHECK, k->view.child[writer].name);
    }
    for (uint32_t i = k->view.standing; i < k->view.count; i++) {
        if (snib__zoo_view_is_dead(&k->view.child[i], &request)) {
            snib__zoo_put_version(z, k, SNIB__ZK_DELETE, k->view.child[i].name);
        }
    }
    snib__zoo_put_record(z, k, claim);
    snib__zk_put_multi_end(snib__zoo_out(z));
    snib__zoo_step_send(z, now, k, true);
}
