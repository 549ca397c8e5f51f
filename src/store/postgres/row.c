/* store/postgres/row.c — a claim as columns, and back. Whoever may write to the
 * tables may write anything there; core/snapshot/layout.c keeps it within
 * bounds. */
#include "store/postgres/postgres_i.h"

void snib__pg_read_claim(const struct snib__pq *pq, PGresult *res, int row,
                         int from, struct snib__stored_claim *c,
                         uint64_t *ret_stamp, const void **ret_about,
                         size_t *ret_size)
{
    int64_t v[SNIB__PG_COLUMNS];
    size_t size;
    for (int i = 0; i < SNIB__PG_COLUMNS; i++) {
        v[i] = i == SNIB__PG_C_REQUEST || i == SNIB__PG_C_CLIENT ||
                       i == SNIB__PG_C_UPGRADE_OF || i >= SNIB__PG_C_NOTIFIER
                   ? 0
                   : snib__pg_get_int(pq, res, row, from + i);
    }
    *c = (struct snib__stored_claim){.id = v[SNIB__PG_C_ID],
                                     .state = (int)v[SNIB__PG_C_STATE],
                                     .kind = (snib_kind)v[SNIB__PG_C_KIND],
                                     .permits = (uint32_t)v[SNIB__PG_C_PERMITS],
                                     .reserve = (uint32_t)v[SNIB__PG_C_RESERVE],
                                     .slot = (uint32_t)v[SNIB__PG_C_SLOT],
                                     .token = v[SNIB__PG_C_TOKEN],
                                     .floor = v[SNIB__PG_C_FLOOR],
                                     .rank = (int)v[SNIB__PG_C_RANK],
                                     .lease = {v[SNIB__PG_C_LEASE]},
                                     .delay = {v[SNIB__PG_C_DELAY]},
                                     .since = {v[SNIB__PG_C_SINCE]},
                                     .until = {v[SNIB__PG_C_UNTIL]}};
    snib__pg_get_id(pq, res, row, from + SNIB__PG_C_REQUEST, c->request);
    snib__pg_get_id(pq, res, row, from + SNIB__PG_C_CLIENT, c->client);
    snib__pg_get_id(pq, res, row, from + SNIB__PG_C_UPGRADE_OF, c->upgrade_of);
    snib__pg_get_text(pq, res, row, from + SNIB__PG_C_NOTIFIER, c->notifier,
                      sizeof c->notifier);
    const void *note =
        snib__pg_get_bytes(pq, res, row, from + SNIB__PG_C_NOTE, &size);
    size = size < sizeof c->note ? size : sizeof c->note - 1;
    memcpy(c->note, note, size);
    *ret_stamp = (uint64_t)v[SNIB__PG_C_STAMP];
    *ret_about =
        snib__pg_get_bytes(pq, res, row, from + SNIB__PG_C_ABOUT, ret_size);
}

void snib__pg_write_claim(struct snib__pg_script *t,
                          const struct snib__stored_claim *c, uint64_t stamp,
                          const void *about, size_t size, bool holder)
{
    snib__pg_id(t, c->request);
    snib__pg_int(t, (int64_t)stamp);
    snib__pg_int(t, c->id);
    snib__pg_id(t, c->client);
    if (!holder) {
        snib__pg_int(t, c->state);
    }
    snib__pg_int(t, c->kind);
    snib__pg_int(t, c->permits);
    snib__pg_int(t, c->reserve);
    if (!holder) {
        snib__pg_int(t, c->slot);
    }
    snib__pg_int(t, c->token);
    snib__pg_int(t, c->floor);
    snib__pg_int(t, c->rank);
    snib__pg_id_or_null(t, c->upgrade_of);
    snib__pg_int(t, c->lease.ns);
    snib__pg_int(t, c->delay.ns);
    snib__pg_int(t, c->since.ns);
    snib__pg_int(t, c->until.ns);
    snib__pg_string(t, c->notifier);
    if (!holder) {
        snib__pg_bytes(t, c->note, strlen(c->note));
    }
    snib__pg_bytes(t, about, size);
}
