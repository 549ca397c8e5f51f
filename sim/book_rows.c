/* sim/book_rows.c — the claims of stores that work on snapshots, as entries of a
 * book. What only remembers, as a tombstone does, is none. */
#include "sim/see.h"

#include <stdlib.h>
#include <string.h>

/* A rank is the class and the arrival, as on Redis. */
static const double RANKS = 1099511627776.0;

static int64_t ms(int64_t ns)
{
    return ns / 1000000;
}

static void text_of(const uint64_t id[2], char ret[SIM_ID])
{
    char text[SIM_ID + 1];
    if (id[0] || id[1]) {
        sim_id_text(id, text);
        memcpy(ret, text, SIM_ID);
    }
}

static void add_holder(struct sim_book *b, const struct snib__stored_claim *c)
{
    if (b->holders == SIM_BOOK) {
        return;
    }
    struct sim_holder *h = &b->holder[b->holders++];
    *h = (struct sim_holder){
        .mode = (int)c->kind,
        .permits = c->permits,
        .token = c->token,
        .end = ms(c->until.ns),
        .delay = ms(c->delay.ns),
        .reserve = c->reserve,
        .slot = c->kind == SNIB_KIND_PERMITS ? (int64_t)c->slot : -1};
    h->listener = (int)strtol(c->notifier, NULL, 10);
    text_of(c->request, h->id);
    text_of(c->client, h->client);
    text_of(c->upgrade_of, h->upgrade_of);
}

/* The time of one that was put aside as unresponsive says for how long its rank
 * is kept, not that it is alive. */
static void add_waiter(struct sim_book *b, const struct snib__stored_claim *c)
{
    if (b->waiters == SIM_BOOK) {
        return;
    }
    bool queued = c->state == SNIB__WAITS;
    struct sim_waiter *x = &b->waiter[b->waiters++];
    *x = (struct sim_waiter){.mode = (int)c->kind,
                             .rank = (c->rank + 128) * RANKS + (double)c->id,
                             .queued = queued,
                             .permits = c->permits,
                             .alive = queued ? ms(c->until.ns) : 0,
                             .since = ms(c->since.ns)};
    text_of(c->request, x->id);
    text_of(c->client, x->client);
    text_of(c->upgrade_of, x->upgrade_of);
}

void sim_book_add(struct sim_book *b, const struct snib__stored_claim *c)
{
    if (snib__rules_claim_holds(c)) {
        add_holder(b, c);
    } else if (c->state == SNIB__WAITS || c->state == SNIB__UNRESPONSIVE) {
        add_waiter(b, c);
    }
}
