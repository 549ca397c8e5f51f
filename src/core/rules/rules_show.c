/* core/rules/rules_show.c — claims as rows of inspect and list, and the rows
 * that answer FORCE and PARAMS. */
#include <stdio.h>

#include "core/rules/rules.h"

void snib__rules_row(struct snib__buf *out, snib_instant now,
                     const struct snib__stored_claim *c, const void *about,
                     size_t size)
{
    char client_id[33], request[33];
    snprintf(client_id, sizeof client_id, "%016llx%016llx",
             (unsigned long long)c->client[0],
             (unsigned long long)c->client[1]);
    snprintf(request, sizeof request, "%016llx%016llx",
             (unsigned long long)c->request[0],
             (unsigned long long)c->request[1]);
    bool holds = snib__rules_claim_holds(c),
         over = snib__reached(now, c->until);
    snib_duration left = snib__between(now, snib__rules_claim_till(c));
    /* rounded up: 0 only when over */
    int64_t ms = snib__to_ms(left) + (left.ns % 1000000 > 0);
    if (!over) {
        ms = snib__to_ms(snib__between(now, c->until));
    }
    snib__rec_row(out, !holds ? SNIB__ROW_WAITER
                       : over ? SNIB__ROW_CLOSED
                              : SNIB__ROW_HOLDER);
    snib__rec_text(out, SNIB__F_CLIENT, client_id);
    snib__rec_i64(out, SNIB__F_LEFT, ms);
    snib__rec_i64(out, SNIB__F_TOKEN, c->token);
    snib__rec_i64(out, SNIB__F_KIND, (int64_t)c->kind);
    snib__rec_i64(out, SNIB__F_PERMITS, c->permits);
    snib__rec_i64(out, SNIB__F_HOLDS, snib__rules_claim_holds(c));
    snib__rec_i64(out, SNIB__F_SLOT,
                  holds && c->kind == SNIB_KIND_PERMITS ? (int64_t)c->slot
                                                        : -1);
    if (holds && c->keep_ms) {
        snib__rec_i64(out, SNIB__F_KEEP, c->keep_ms);
    }
    snib__rec_text(out, SNIB__F_REQUEST, request);
    snib__rec_i64(out, SNIB__F_RANK, c->rank);
    if (c->since.ns > 1) { /* 1: from a release that did not know it */
        snib__rec_i64(out, SNIB__F_AGE,
                      snib__to_ms(snib__between(c->since, now)));
    }
    snib__rec_bytes(out, SNIB__F_ABOUT, about, size);
}

void snib__rules_count(struct snib__request *r)
{
    const struct snib__request_row *row = &r->said.row;
    if (r->said.answer != SNIB__DONE || !r->said.result) {
        return;
    }
    if (r->verb == SNIB__PARAMS) {
        snib__rec_params(r->said.result, row->applied, row->size, row->permits,
                         row->latch, row->waiting);
    } else if (r->verb == SNIB__FORCE) {
        snib__rec_row(r->said.result, SNIB__ROW_COUNT);
        snib__rec_i64(r->said.result, SNIB__F_COUNT, row->ended);
    }
}
