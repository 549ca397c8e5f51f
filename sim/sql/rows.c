/* sim/sql/rows.c — the rows and values that statements read and write. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sql/statements_i.h"

/* -- parameters and values ---------------------------------------------------- */

int sim_sql_name_of(const struct sim_sql_param *p)
{
    for (int n = 0; n < SIM_NAMES; n++) {
        if (p->size == strlen(sim_names[n]) &&
            !memcmp(p->p, sim_names[n], p->size)) {
            return n;
        }
    }
    abort(); /* nobody locks another one */
}

void sim_sql_id_of(const struct sim_sql_param *p, uint64_t ret[2])
{
    ret[0] = ret[1] = 0;
    if (p->size == 16) {
        memcpy(ret, p->p, 16);
        ret[0] = be64toh(ret[0]);
        ret[1] = be64toh(ret[1]);
    }
}

void sim_sql_put_int(struct sim_sql_st *t, int64_t n)
{
    sim_put(t->out, SNIB__SQL_PARAM_INT);
    sim_put(t->out, n);
}

void sim_sql_answer(struct sim_sql_st *t, const int64_t v[], int columns)
{
    sim_put(t->out, 1);
    sim_put(t->out, columns);
    for (int i = 0; i < columns; i++) {
        sim_sql_put_int(t, v[i]);
    }
}

/* -- rows --------------------------------------------------------------------- */

struct sim_key sim_sql_key_of(snib__key_kind kind, int name)
{
    return (struct sim_key){.kind = (int)kind, .name = name};
}

struct sim_key sim_sql_claim_key(const struct sim_sql_st *t, int name,
                                 int request)
{
    struct sim_key key = sim_sql_key_of(SNIB__KEY_CLAIM, name);
    sim_sql_id_of(&t->p[request], key.request);
    return key;
}

const struct sim_row *sim_sql_lock_row(const struct sim_sql_st *t, int name)
{
    struct sim_key key = sim_sql_key_of(SNIB__KEY_LOCK, name);
    return sim_sql_row(t->s, &key);
}

const struct sim_row *sim_sql_holder_row(const struct sim_sql_st *t, int name)
{
    const struct sim_row *row = NULL;
    while ((row = sim_sql_next_row(t->s, row))) {
        if (row->key.kind == SNIB__KEY_CLAIM && row->key.name == name &&
            row->c.state == SNIB__HOLDS) {
            return row;
        }
    }
    return NULL;
}

bool sim_sql_is_in_claim(const struct sim_row *row, int name)
{
    return row->key.kind == SNIB__KEY_CLAIM && row->key.name == name &&
           row->c.state != SNIB__HOLDS;
}

int sim_sql_claims_of(const struct sim_sql_st *t, int name)
{
    const struct sim_row *row = NULL;
    int n = 0;
    while ((row = sim_sql_next_row(t->s, row))) {
        n += sim_sql_is_in_claim(row, name);
    }
    return n;
}

int64_t sim_sql_arrivals_of(const struct sim_row *row)
{
    int64_t last = 0;
    if (row) {
        (void)snib__layout_arrivals(row->bytes, row->size, &last, NULL);
    }
    return last;
}

void sim_sql_put_claim(struct sim_sql_st *t, const struct snib__stored_claim *c,
                       const void *about, size_t size, uint64_t stamp, int name)
{
    struct sim_key key = sim_sql_key_of(SNIB__KEY_CLAIM, name);
    struct snib__buf b;
    memcpy(key.request, c->request, sizeof key.request);
    snib__buf_init(&b, SIM_ROW_BYTES);
    snib__layout_put_claim(&b, c, about, size);
    sim_sql_put(t->s, &key, snib__buf_bytes(&b), snib__buf_size(&b), stamp);
    snib__buf_free(&b);
}

void sim_sql_put_lock(struct sim_sql_st *t, const struct snib__lock_row *l,
                      uint64_t stamp, int name)
{
    struct sim_key key = sim_sql_key_of(SNIB__KEY_LOCK, name);
    struct snib__buf b;
    snib__buf_init(&b, SIM_ROW_BYTES);
    snib__layout_put_lock(&b, l);
    sim_sql_put(t->s, &key, snib__buf_bytes(&b), snib__buf_size(&b), stamp);
    snib__buf_free(&b);
}

bool sim_sql_lock_name(struct sim_sql_st *t, int name)
{
    struct sim_key key = sim_sql_key_of(SNIB__KEY_LOCK, name);
    return sim_sql_lock(t->s, &key);
}
