/* sim/table_rows.c — the rows of a table, its messages as bytes, and which
 * connection is which. */
#include <stdlib.h>
#include <string.h>

#include "sim/table.h"

/* -- messages -------------------------------------------------------------- */

int64_t sim_get(struct sim_reader *r)
{
    int64_t n = 0;
    if (r->end - r->at < (ptrdiff_t)sizeof n) {
        abort(); /* nobody else speaks here */
    }
    memcpy(&n, r->at, sizeof n);
    r->at += sizeof n;
    return n;
}

const void *sim_get_bytes(struct sim_reader *r, size_t *ret_size)
{
    const void *p = r->at + sizeof(int64_t);
    *ret_size = (size_t)sim_get(r);
    if ((size_t)(r->end - r->at) < *ret_size) {
        abort();
    }
    r->at += *ret_size;
    return p;
}

void sim_send(struct snib__buf *to, enum sim_message what, int64_t call,
              const struct snib__buf *payload)
{
    size_t size = payload ? snib__buf_size(payload) : 0;
    sim_put(to, (int64_t)(3 * sizeof(int64_t) + size));
    sim_put(to, what);
    sim_put(to, call);
    if (size) {
        snib__buf_add(to, snib__buf_bytes(payload), size);
    }
    if (to->failed) {
        abort();
    }
}

bool sim_receive(const struct snib__buf *from, enum sim_message *ret,
                 int64_t *ret_call, struct sim_reader *ret_payload,
                 size_t *ret_size)
{
    size_t have = snib__buf_size(from);
    struct sim_reader r = {snib__buf_bytes(from), snib__buf_bytes(from) + have};
    if (have < sizeof(int64_t) || have < (*ret_size = (size_t)sim_get(&r))) {
        return false;
    }
    *ret = (enum sim_message)sim_get(&r);
    *ret_call = sim_get(&r);
    *ret_payload = (struct sim_reader){r.at, snib__buf_bytes(from) + *ret_size};
    return true;
}

/* -- rows ------------------------------------------------------------------ */

static bool same_key(const struct sim_key *a, const struct sim_key *b)
{
    return a->kind == b->kind && a->name == b->name &&
           a->request[0] == b->request[0] && a->request[1] == b->request[1];
}

static struct sim_row *row_of(const struct sim_rows *t,
                              const struct sim_key *key)
{
    for (int i = 0; i < t->count; i++) {
        if (same_key(&t->row[i].key, key)) {
            return &t->row[i];
        }
    }
    return NULL;
}

const struct sim_row *sim_row_of(const struct sim_rows *t,
                                 const struct sim_key *key)
{
    return row_of(t, key);
}

static void make_room(struct sim_rows *t, int count)
{
    if (count > t->room) {
        t->room = count < 64 ? 64 : 2 * count;
        t->row = realloc(t->row, (size_t)t->room * sizeof *t->row);
        if (!t->row) {
            abort();
        }
    }
}

void sim_row_read(struct sim_row *row)
{
    const void *about;
    size_t size;
    if (row->key.kind == SNIB__KEY_CLAIM) {
        snib__layout_claim(row->bytes, row->size, &row->c, &about, &size, NULL);
    } else if (row->key.kind == SNIB__KEY_LOCK) {
        snib__layout_lock(row->bytes, row->size, &row->l, NULL);
    }
}

struct sim_row *sim_row_put(struct sim_rows *t, const struct sim_key *key,
                            const void *bytes, size_t size)
{
    struct sim_row *row = row_of(t, key);
    if (size > SIM_ROW_BYTES) {
        abort();
    }
    if (!row) {
        make_room(t, t->count + 1);
        row = &t->row[t->count++];
        row->key = *key;
    }
    row->stamp = t->revision;
    row->size = size;
    memcpy(row->bytes, bytes, size);
    sim_row_read(row);
    return row;
}

void sim_row_delete(struct sim_rows *t, const struct sim_key *key)
{
    struct sim_row *row = row_of(t, key);
    if (row) {
        *row = t->row[--t->count];
    }
}

void sim_rows_copy(struct sim_rows *to, const struct sim_rows *from)
{
    make_room(to, from->count);
    to->count = from->count;
    to->revision = from->revision;
    if (from->count) {
        memcpy(to->row, from->row, (size_t)from->count * sizeof *from->row);
    }
}

void sim_rows_free(struct sim_rows *t)
{
    free(t->row);
    *t = (struct sim_rows){0};
}

bool sim_row_is_before(const struct sim_row *a, const struct sim_row *b)
{
    return a->c.rank != b->c.rank ? a->c.rank < b->c.rank : a->c.id < b->c.id;
}

/* -- connections ----------------------------------------------------------- */

struct sim_table_conn *sim_table_conn(struct sim_table *t, int conn)
{
    for (int i = 0; conn && i < t->conns; i++) {
        if (t->conn[i].id == conn) {
            return &t->conn[i];
        }
    }
    return NULL;
}
