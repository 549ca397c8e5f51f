/* store/zookeeper/sweep.c — what is left of a grant whose lease is over, while its
 * session lives.
 *
 * A grant that nobody renews (a fixed lease, an owner that was given up) has to end
 * with its lease; its node would stay as long as this client. So the client itself
 * removes it, record first: when the lease is over by its own clock, nobody in
 * this process believes in the grant. A renewal that is under way is waited for;
 * later ones are refused. Of a session that is over only the record is left, and
 * others need not wait for it. */
#include <stdio.h>
#include <string.h>

#include "store/zookeeper/zookeeper_i.h"

enum { SWEEP_REST_MS = 50, SWEEP_AGAIN_MS = 1000 };

static void sweep_node(struct snib__zoo *z, snib_instant now,
                       const struct zoo_claim *claim);

static void sweep_done(struct snib__zoo *z, snib_instant now,
                       struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_sweep *s = &z->sweep;
    struct zoo_claim *claim = snib__zoo_claim_find(z, s->id);
    bool gone = reply->end == ZOO_OK ||
                (reply->end == ZOO_SAYS && reply->zk == SNIB__ZK_NO_NODE);
    (void)c;
    s->busy = false;
    if (!claim) {
        return;
    }
    if (!gone) {
        snib__zoo_claim_lasts(z, claim,
                              snib__after(now, snib__ms(SWEEP_AGAIN_MS)));
    } else if (!s->record_gone && claim->number == z->session.number &&
               snib__zoo_is_ready(&z->session)) {
        s->record_gone = true;
        sweep_node(z, now, claim);
    } else if (s->record_gone || claim->number != z->session.number) {
        snib__zoo_claim_forget(z, s->id);
    } else {
        snib__zoo_claim_lasts(z, claim,
                              snib__after(now, snib__ms(SWEEP_AGAIN_MS)));
    }
}

static void sweep_node(struct snib__zoo *z, snib_instant now,
                       const struct zoo_claim *claim)
{
    struct zoo_sweep *s = &z->sweep;
    const char *child = s->record_gone ? claim->node : claim->record;
    struct zoo_path path;
    snprintf(path.text, sizeof path.text, "%s/%s", claim->dir, child);
    s->busy = true;
    snib__zoo_call_begin(z, &s->call, SNIB__ZK_DELETE, sweep_done);
    snib__zk_put_version(snib__zoo_out(z), path.text, -1);
    s->call.changes = true;
    snib__zoo_call_end(z, now, &s->call);
}

void snib__zoo_sweep(struct snib__zoo *z, snib_instant now)
{
    struct zoo_sweep *s = &z->sweep;
    struct snib__timer *t = snib__heap_min(&z->leases);
    if (!t || !snib__reached(now, t->at) || s->busy ||
        !snib__zoo_is_ready(&z->session)) {
        return;
    }
    struct zoo_claim *claim = SNIB__CONTAINER(t, struct zoo_claim, timer);
    if (claim->renewing) {
        snib__zoo_claim_lasts(z, claim,
                              snib__after(now, snib__ms(SWEEP_REST_MS)));
        return;
    }
    claim->granted = false;
    snib__heap_remove(&z->leases, t);
    s->record_gone = false;
    memcpy(s->id, claim->id, sizeof s->id);
    sweep_node(z, now, claim);
}
