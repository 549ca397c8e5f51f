/* sim/table_state.c — what a table of this world has, read from its rows into
 * the books. What is over, and what only remembers, is read as the rules leave
 * it: holders until somebody drops them, no tombstones. */
#include <string.h>

#include "sim/table.h"

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

void sim_table_book(const struct sim_world *w, int name, struct sim_book *b)
{
    const struct sim_rows *t = &w->node[0].table->rows;
    b->size = -1;
    b->gate = 0;
    for (int i = 0; i < t->count; i++) {
        const struct sim_row *row = &t->row[i];
        if (row->key.name != name) {
            continue;
        }
        if (row->key.kind == SNIB__KEY_LOCK) {
            b->size = row->l.params.size;
            b->gate = row->l.params.latch;
        } else if (row->key.kind == SNIB__KEY_CLAIM &&
                   snib__rules_claim_holds(&row->c)) {
            add_holder(b, &row->c);
        } else if (row->key.kind == SNIB__KEY_CLAIM &&
                   (row->c.state == SNIB__WAITS ||
                    row->c.state == SNIB__UNRESPONSIVE)) {
            add_waiter(b, &row->c);
        }
    }
}

bool sim_table_held(const struct sim_world *w, int name)
{
    const struct sim_rows *t = &w->node[0].table->rows;
    int64_t now = sim_wall_us(w, 0) / 1000;
    for (int i = 0; i < t->count; i++) {
        const struct sim_row *row = &t->row[i];
        if (row->key.name == name && row->key.kind == SNIB__KEY_CLAIM &&
            snib__rules_claim_holds(&row->c) &&
            ms(snib__rules_claim_till(&row->c).ns) > now) {
            return true;
        }
    }
    return false;
}

bool sim_table_reaches(const struct sim_world *w, int client)
{
    enum { NOTIFIER = 2 };
    const struct sim_table *t = w->node[0].table;
    const struct sim_client *c = &w->client[client];
    for (int i = 0; i < t->conns; i++) {
        if (t->conn[i].id && t->conn[i].id == c->wire[NOTIFIER].server_conn) {
            return !strncmp(t->conn[i].notifier, c->hex, SIM_ID);
        }
    }
    return false;
}
