/* sim/sql/absent.c — without a store in a database there is no world of one. */
#include <stdio.h>
#include <stdlib.h>

#include "sim/table.h"

bool sim_sql_is_built(void)
{
    return false;
}

void sim_sql_draw(struct sim_options *o)
{
    (void)o;
    fprintf(stderr, "snib-sim: it was built without a store in databases\n");
    exit(64);
}

void sim_sql_free(struct sim_table *t)
{
    (void)t;
}

void sim_sql_firm(struct sim_table *t)
{
    (void)t;
}

/* None of the rest is called in another world. */

const struct snib__blocking_ops *sim_sql_opens(struct sim_world *a, int client)
{
    (void)a;
    (void)client;
    abort();
}

void sim_sql_input(struct sim_world *a, int client, const struct snib__input *c)
{
    (void)a;
    (void)client;
    (void)c;
    abort();
}

bool sim_sql_turn(struct sim_world *a, int client)
{
    (void)a;
    (void)client;
    abort();
}

snib_instant sim_sql_due(const struct sim_world *a, int client)
{
    (void)a;
    (void)client;
    abort();
}

void sim_sql_event(struct sim_world *a, const struct sim_event *b)
{
    (void)a;
    (void)b;
    abort();
}

struct sim_sql *sim_sql_new(struct sim_table *a)
{
    (void)a;
    abort();
}

void sim_sql_handle(struct sim_table *a, int conn, enum sim_message c,
                    int64_t call, struct sim_reader *e)
{
    (void)a;
    (void)conn;
    (void)c;
    (void)call;
    (void)e;
    abort();
}

void sim_sql_gone(struct sim_table *a, int conn)
{
    (void)a;
    (void)conn;
    abort();
}

void sim_sql_restart(struct sim_table *a, bool keep)
{
    (void)a;
    (void)keep;
    abort();
}
