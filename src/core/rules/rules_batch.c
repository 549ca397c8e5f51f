/* core/rules/rules_batch.c — see rules_batch.h. */
#include "core/rules/rules_batch.h"

#include "base/error.h"

static void rules_batch_not_alone(struct snib__request *r)
{
    r->answer = SNIB__NO;
    r->err = snib__fail_plain(r->reterr, SNIB_ERR_CANCELLED);
}

static void rules_batch_give_back(struct snib__rules_batch *c)
{
    while (c->count) {
        struct snib__request *r = c->done[--c->count];
        struct snib__request end = {.verb = SNIB__RELEASE,
                                    .name = r->name,
                                    .id = {r->id[0], r->id[1]},
                                    .kind = r->kind,
                                    .token = r->token};
        c->run(c->data, &end);
        rules_batch_not_alone(r);
    }
}

void snib__rules_batch_run(struct snib__rules_batch *c, struct snib__request *r)
{
    if (!r->batch || r->resent || r->verb != SNIB__ACQUIRE) {
        c->run(c->data, r);
        return;
    }
    if (r->batch != c->number) {
        c->number = r->batch;
        c->count = 0;
        c->refused = false;
    }
    if (c->refused || c->count == SNIB__BATCH_MAX) {
        rules_batch_not_alone(r);
        return;
    }
    c->run(c->data, r);
    if (r->answer == SNIB__DONE) {
        c->done[c->count++] = r;
        return;
    }
    c->refused = true;
    if (r->all) {
        rules_batch_give_back(c);
    }
}
