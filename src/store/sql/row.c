/* store/sql/row.c — a claim as columns, and back. Whoever may write to the
 * tables may write anything there; core/snapshot/layout.c keeps it within
 * bounds. */
#include "store/sql/tables.h"

void snib__sql_read_claim(struct snib__sql_rows *rows, int row, int from,
                          struct snib__stored_claim *c, uint64_t *ret_stamp,
                          const void **ret_about, size_t *ret_size)
{
    int64_t v[SNIB__SQL_COLUMNS];
    size_t size;
    for (int i = 0; i < SNIB__SQL_COLUMNS; i++) {
        v[i] = i == SNIB__SQL_C_REQUEST || i == SNIB__SQL_C_CLIENT ||
                       i == SNIB__SQL_C_UPGRADE_OF || i >= SNIB__SQL_C_NOTIFIER
                   ? 0
                   : snib__sql_get_int(rows, row, from + i);
    }
    *c =
        (struct snib__stored_claim){.id = v[SNIB__SQL_C_ID],
                                    .state = (int)v[SNIB__SQL_C_STATE],
                                    .kind = (snib_kind)v[SNIB__SQL_C_KIND],
                                    .permits = (uint32_t)v[SNIB__SQL_C_PERMITS],
                                    .reserve = (uint32_t)v[SNIB__SQL_C_RESERVE],
                                    .slot = (uint32_t)v[SNIB__SQL_C_SLOT],
                                    .token = v[SNIB__SQL_C_TOKEN],
                                    .floor = v[SNIB__SQL_C_FLOOR],
                                    .rank = (int)v[SNIB__SQL_C_RANK],
                                    .lease = {v[SNIB__SQL_C_LEASE]},
                                    .delay = {v[SNIB__SQL_C_DELAY]},
                                    .since = {v[SNIB__SQL_C_SINCE]},
                                    .until = {v[SNIB__SQL_C_UNTIL]}};
    snib__sql_get_id(rows, row, from + SNIB__SQL_C_REQUEST, c->request);
    snib__sql_get_id(rows, row, from + SNIB__SQL_C_CLIENT, c->client);
    snib__sql_get_id(rows, row, from + SNIB__SQL_C_UPGRADE_OF, c->upgrade_of);
    snib__sql_get_text(rows, row, from + SNIB__SQL_C_NOTIFIER, c->notifier,
                       sizeof c->notifier);
    const void *note =
        snib__sql_get_bytes(rows, row, from + SNIB__SQL_C_NOTE, &size);
    size = size < sizeof c->note ? size : sizeof c->note - 1;
    memcpy(c->note, note, size);
    *ret_stamp = (uint64_t)v[SNIB__SQL_C_STAMP];
    *ret_about =
        snib__sql_get_bytes(rows, row, from + SNIB__SQL_C_ABOUT, ret_size);
}

void snib__sql_write_claim(struct snib__sql_script *t,
                           const struct snib__stored_claim *c, uint64_t stamp,
                           const void *about, size_t size, bool holder)
{
    snib__sql_id(t, c->request);
    snib__sql_int(t, (int64_t)stamp);
    snib__sql_int(t, c->id);
    snib__sql_id(t, c->client);
    if (!holder) {
        snib__sql_int(t, c->state);
    }
    snib__sql_int(t, c->kind);
    snib__sql_int(t, c->permits);
    snib__sql_int(t, c->reserve);
    if (!holder) {
        snib__sql_int(t, c->slot);
    }
    snib__sql_int(t, c->token);
    snib__sql_int(t, c->floor);
    snib__sql_int(t, c->rank);
    snib__sql_id_or_null(t, c->upgrade_of);
    snib__sql_int(t, c->lease.ns);
    snib__sql_int(t, c->delay.ns);
    snib__sql_int(t, c->since.ns);
    snib__sql_int(t, c->until.ns);
    snib__sql_string(t, c->notifier);
    if (!holder) {
        snib__sql_bytes(t, c->note, strlen(c->note));
    }
    snib__sql_bytes(t, about, size);
}
