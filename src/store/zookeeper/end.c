/* store/zookeeper/end.c — a RELEASE or a CANCEL: what the request has made is
 * removed, node and record in one step.
 *
 * A release of what this client knows goes without a look. All else looks first;
 * since each connection begins with the fence (fence.c), nothing of the request
 * can come up behind that look. */
#include <string.h>

#include "base/error.h"
#include "store/zookeeper/zookeeper_i.h"

static void end_over(struct snib__zoo *z, snib_instant now, struct zoo_step *k)
{
    struct snib__request *r = k->r;
    (void)now;
    snib__zoo_claim_forget(z, r->id);
    if (r->verb == SNIB__CANCEL && r->token) {
        snib__zoo_claim_forget(z, r->prior_id);
    }
    snib__zoo_step_answer(z, k, k->answer,
                          k->answer == SNIB__DONE ? SNIB_ERR_OK : SNIB_ERR_LOST,
                          NULL);
}

/* All of this id: its record, and its nodes. */
static void end_add(const struct zoo_view *v, const uint64_t id[2],
                    struct zoo_removal *ret)
{
    const struct zoo_child *record = snib__zoo_view_record(v, id);
    int at = -1;
    if (record) {
        ret->child[ret->count++] = record->name;
    }
    for (int i = 0; i < 3 && (at = snib__zoo_view_find(v, id, at)) >= 0; i++) {
        ret->child[ret->count++] = v->child[at].name;
    }
}

static void end_looked(struct snib__zoo *z, snib_instant now,
                       struct zoo_step *k)
{
    struct snib__request *r = k->r;
    struct zoo_claim *claim = snib__zoo_claim_find(z, r->id);
    struct zoo_removal what = {.count = 0};
    bool stands = snib__zoo_view_find(&k->view, r->id, -1) >= 0;
    bool record = snib__zoo_view_record(&k->view, r->id) != NULL;
    bool anothers = r->verb == SNIB__RELEASE && claim && claim->token &&
                    claim->token != r->token;
    r->said.revoked = false;
    if (anothers) {
        snib__zoo_step_answer(z, k, SNIB__NO, SNIB_ERR_LOST, NULL);
        return;
    }
    end_add(&k->view, r->id, &what);
    if (r->verb == SNIB__CANCEL) {
        k->answer = SNIB__DONE;
        r->said.granted = record && stands && claim ? claim->token : 0;
        if (r->token) {
            end_add(&k->view, r->prior_id, &what);
        }
    } else {
        k->answer = stands && record ? SNIB__DONE : SNIB__NO;
    }
    if (what.count) {
        snib__zoo_remove(z, now, k, &what, end_over);
    } else {
        end_over(z, now, k);
    }
}

static void end_released(struct snib__zoo *z, snib_instant now,
                         struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct zoo_path path;
    const struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    if (reply->end == ZOO_OK) {
        if (claim) {
            snib__zoo_alone_was(z, now, k->r->name, claim);
        }
        end_over(z, now, k);
    } else if (reply->end == ZOO_SAYS && reply->zk == SNIB__ZK_NO_NODE) {
        snib__zoo_children(z, now, k, end_looked);
    } else {
        snib__zoo_path_lock(z, k->r->name, &path);
        snib__zoo_step_failed(z, now, k, reply, path.text);
    }
}

static void end_begin(struct snib__zoo *z, snib_instant now, struct zoo_step *k)
{
    struct snib__request *r = k->r;
    struct zoo_claim *claim = snib__zoo_claim_find(z, r->id);
    if (r->verb == SNIB__CANCEL || r->resent || !claim || !claim->granted ||
        claim->number != z->session.number || claim->token != r->token) {
        snib__zoo_children(z, now, k, end_looked);
        return;
    }
    k->answer = SNIB__DONE;
    snib__zoo_step_ask(z, k, SNIB__ZK_MULTI, end_released);
    snib__zoo_put_version(z, k, SNIB__ZK_DELETE, claim->record);
    snib__zoo_put_version(z, k, SNIB__ZK_DELETE, claim->node);
    snib__zk_put_multi_end(snib__zoo_out(z));
    snib__zoo_step_send(z, now, k, true);
}

const struct zoo_work snib__zoo_end_work = {.begin = end_begin};
