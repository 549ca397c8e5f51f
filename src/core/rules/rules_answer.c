/* core/rules/rules_answer.c — what several verbs do: they answer, leave a
 * tombstone, start a lease anew, end the grant from before. */
#include "base/error.h"
#include "core/rules/rules_i.h"

void snib__rules_answer(struct snib__request *r, snib__answer a, snib_err err)
{
    r->said.answer = a;
    r->said.err = err;
    if (err) {
        snib__fail_plain(r->said.reterr, err);
    } else {
        snib__ok(r->said.reterr);
    }
}

void snib__rules_granted(struct snib__request *r,
                         const struct snib__stored_claim *c, snib_instant from,
                         snib_duration left)
{
    snib__rules_answer(r, SNIB__DONE, SNIB_ERR_OK);
    r->token = c->token;
    r->acquire.reserve = c->reserve;
    r->acquire.permits = c->permits;
    r->said.slot = c->slot;
    r->said.valid_from = from;
    r->said.left = left;
}

void snib__rules_revoked(struct snib__request *r,
                         const struct snib__stored_claim *c)
{
    r->said.answer = SNIB__NO;
    r->said.revoked = true;
    r->said.err = snib__fail(r->said.reterr, SNIB_ERR_LOST, "%s", c->note);
}

void snib__rules_tombstone(struct snib__book *b, const struct snib__request *r,
                           bool done, int64_t granted)
{
    struct snib__stored_claim c = {
        .request = {r->id[0], r->id[1]},
        .client = {b->client[0], b->client[1]},
        .state = SNIB__TOMBSTONE,
        .kind = r->acquire.kind,
        .permits = done,
        .token = granted,
        .until = snib__after(b->now, snib__ms(SNIB__TOMBSTONE_MS)),
    };
    b->ops->sweep(b);
    b->ops->add(b, r->name, &c, NULL, 0);
}

void snib__rules_end_prior(struct snib__book *b, const struct snib__request *r)
{
    SNIB__UNSET struct snib__stored_claim c;
    if (r->token && b->ops->next(b, r->name, SNIB__HOLDS, NULL, &c) &&
        snib__same_id(c.client, b->client) && c.token == r->token &&
        !snib__same_id(c.request, r->id)) {
        b->ops->remove(b, r->name, &c);
    }
}

void snib__rules_rearm(struct snib__book *b, struct snib__request *r,
                       struct snib__stored_claim *c)
{
    /* The client moves its deadline forwards only. So the lease never ends
     * earlier than it did, however short the one is that is asked for now. */
    c->lease = r->lease;
    c->until = snib__later(c->until, snib__after(b->now, r->lease));
    b->ops->change(b, r->name, c);
    snib__rules_granted(r, c, b->sent, r->lease);
}
