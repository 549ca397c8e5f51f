/* store/zookeeper/renew.c — a RENEW: a change of the grant's record that also
 * checks its node, so it goes through the ensemble's log (store.c says why a ping
 * would not do). For a longer lease than the record has, another one is made
 * instead. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/zookeeper/zookeeper_i.h"

/* Its node stands, and its record was made anew by a renewal whose answer was
 * lost. */
static bool renew_is_there(const struct zoo_step *k, struct zoo_claim *claim)
{
    const struct zoo_child *record = snib__zoo_view_record(&k->view, k->r->id);
    int at = snib__zoo_view_own(&k->view, k->r->id, claim->node);
    if (!record || at < 0 || strcmp(k->view.child[at].name, claim->node) != 0 ||
        !strcmp(record->name, claim->record)) {
        return false;
    }
    memcpy(claim->record, record->name, sizeof claim->record);
    claim->lease_ms = record->lease_ms;
    return true;
}

/* It is not ours any more. Was anybody else granted it? (Of Curator's clients that
 * is not seen.) */
static void renew_looked(struct snib__zoo *z, snib_instant now,
                         struct zoo_step *k)
{
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    bool over = !claim || claim->number != z->session.number;
    uint32_t others = 0;
    if (!over && claim->granted && renew_is_there(k, claim)) {
        snib__zoo_step_again(z, now, k);
        return;
    }
    for (uint32_t i = 0; i < k->view.count; i++) {
        const struct zoo_child *c = &k->view.child[i];
        others += c->what == ZOO_RECORD &&
                  (c->id[0] != k->r->id[0] || c->id[1] != k->r->id[1]);
    }
    k->r->said.revoked = false;
    k->r->said.forgotten = !others;
    snib__zoo_step_answer(z, k, SNIB__NO, SNIB_ERR_LOST,
                          over ? "the session with the ensemble is over, and "
                                 "with it the grant"
                          : claim->granted
                              ? "somebody has removed the grant's node"
                              : "the lease is over");
}

static void renew_done(struct snib__zoo *z, snib_instant now,
                       struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    int64_t ms = snib__zoo_lease_ms(z, k->r);
    struct zoo_path path;
    if (claim) {
        claim->renewing = false;
    }
    if (reply->end == ZOO_OK && claim) {
        if (ms > claim->lease_ms) {
            claim->lease_ms = ms;
            snib__zoo_child_record(claim->id, claim->reads, ms, claim->record);
        }
        k->r->said.valid_from = reply->sent;
        k->r->said.left = snib__zoo_given(z, k->r, claim);
        snib__zoo_claim_lasts(z, claim,
                              snib__after(reply->sent, k->r->said.left));
        snib__zoo_step_answer(z, k, SNIB__DONE, SNIB_ERR_OK, NULL);
    } else if (reply->end == ZOO_SAYS &&
               (reply->zk == SNIB__ZK_NO_NODE ||
                reply->zk == SNIB__ZK_EXISTS_ALREADY)) {
        snib__zoo_children(z, now, k, renew_looked);
    } else {
        snib__zoo_path_lock(z, k->r->name, &path);
        snib__zoo_step_failed(z, now, k, reply, path.text);
    }
}

static void renew_record(struct snib__zoo *z, const struct zoo_step *k,
                         const struct zoo_claim *claim)
{
    int64_t ms = snib__zoo_lease_ms(z, k->r);
    char record[ZOO_CHILD_MAX];
    struct zoo_path path;
    if (ms <= claim->lease_ms) {
        snib__zoo_path_child(z, k->r->name, claim->record, &path);
        snib__zk_put_multi(snib__zoo_out(z), SNIB__ZK_SET_DATA);
        snib__zk_put_data(snib__zoo_out(z), path.text, "", 0, -1);
        return;
    }
    snib__zoo_child_record(claim->id, claim->reads, ms, record);
    snib__zoo_path_child(z, k->r->name, record, &path);
    const struct snib__zk_create create = {
        .path = path.text, .data = "", .creators_own = z->session.logged_in};
    snib__zk_put_multi(snib__zoo_out(z), SNIB__ZK_CREATE2);
    snib__zk_put_create(snib__zoo_out(z), &create);
    snib__zoo_put_version(z, k, SNIB__ZK_DELETE, claim->record);
}

static void renew_begin(struct snib__zoo *z, snib_instant now,
                        struct zoo_step *k)
{
    struct zoo_claim *claim = snib__zoo_claim_find(z, k->r->id);
    if (!claim || claim->number != z->session.number || !claim->granted ||
        claim->token != k->r->token) {
        snib__zoo_children(z, now, k, renew_looked);
        return;
    }
    claim->renewing = true;
    snib__zoo_step_ask(z, k, SNIB__ZK_MULTI, renew_done);
    snib__zoo_put_version(z, k, SNIB__ZK_CHECK, claim->node);
    renew_record(z, k, claim);
    snib__zk_put_multi_end(snib__zoo_out(z));
    snib__zoo_step_send(z, now, k, true);
}

const struct zoo_work snib__zoo_renew_work = {.begin = renew_begin};
