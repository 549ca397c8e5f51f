/* core/rules/rules_batch.c — see rules_batch.h. */
#include "core/rules/rules_batch.h"

#include "base/error.h"

static void rules_batch_not_alone(struct snib__request *r)
{
    r->said.answer = SNIB__NO;
    r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_CANCELLED);
}

static void rules_batch_give_back(struct snib__rules_batch *c)
{
    while (c->count) {
        struct snib__request *r = c->done[--c->count];
        struct snib__request end = {.verb = SNIB__RELEASE,
                                    .name = r->name,
                                    .id = {r->id[0], r->id[1]},
                                    .acquire.kind = r->acquire.kind,
                                    /* nobody would give it back later */
                                    .limit = SNIB__NEVER,
                                    .exec.patience = SNIB__NEVER,
                                    .token = r->token};
        c->run(c->data, &end);
        rules_batch_not_alone(r);
    }
}

void snib__rules_batch_run(struct snib__rules_batch *c, struct snib__request *r)
{
    if (!r->batch.number || r->resent || r->verb != SNIB__ACQUIRE) {
        c->run(c->data, r);
        return;
    }
    if (r->batch.number != c->number) {
        c->number = r->batch.number;
        c->count = 0;
        c->refused = false;
    }
    if (c->refused || c->count == SNIB__BATCH_MAX) {
        rules_batch_not_alone(r);
        return;
    }
    c->run(c->data, r);
    if (r->said.answer == SNIB__DONE) {
        c->done[c->count++] = r;
        return;
    }
    c->refused = true;
    if (r->batch.all) {
        rules_batch_give_back(c);
    }
}
