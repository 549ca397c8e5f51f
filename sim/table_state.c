/* sim/table_state.c — what a table of this world has, read from its rows into
 * the books (book_rows.c). What is over is read as the rules leave it: holders
 * until somebody drops them. */
#include <stdlib.h>
#include <string.h>

#include "sim/see.h"
#include "sim/table.h"

static int64_t ms(int64_t ns)
{
    return ns / 1000000;
}

/* A party of a barrier whose connection has ended, as a database knows it. */
static bool is_left(const struct sim_table *t,
                    const struct snib__stored_claim *c)
{
    int pid = (int)strtoll(c->notifier, NULL, 10);
    bool is = t->sql && c->state == SNIB__WAITS &&
              c->kind == SNIB_KIND_BARRIER && pid > 0;
    for (int i = 0; is && i < t->conns; i++) {
        is = t->conn[i].id != pid;
    }
    return is;
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
        } else if (row->key.kind == SNIB__KEY_CLAIM) {
            sim_book_add(b, &row->c);
            if (is_left(w->node[0].table, &row->c)) {
                b->waiter[b->waiters - 1].alive = 0;
            }
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
            return t->sql ? t->conn[i].notifier[0]
                          : !strncmp(t->conn[i].notifier, c->hex, SIM_ID);
        }
    }
    return false;
}
