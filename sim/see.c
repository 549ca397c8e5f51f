/* sim/see.c — requests of a store that works on snapshots, and their answers, in
 * the words of sim/seen.h. Of a step that writes they are said once it has
 * decided, before it is sent: they count when the store applies it. */
#include "sim/see.h"

#include <string.h>

/* As on Redis: lower classes are served first, 0 is for upgrades. */
enum { CLASS_ORDINARY = 128 };

/* -- which lock ------------------------------------------------------------ */

int sim_name_of(const struct snib__name *name)
{
    for (int n = 0; name && n < SIM_NAMES; n++) {
        if (strcmp(name->raw, sim_names[n]) == 0) {
            return n;
        }
    }
    return -1;
}

/* -- what it does ---------------------------------------------------------- */

enum sim_deed sim_deed_of(const struct snib__request *r)
{
    switch (r->verb) {
    case SNIB__ACQUIRE:
        return SIM_DID_ACQUIRE;
    case SNIB__RENEW:
        return SIM_DID_RENEW;
    case SNIB__RELEASE:
        return SIM_DID_RELEASE;
    case SNIB__CANCEL:
        return SIM_DID_CANCEL;
    case SNIB__FORCE:
        return SIM_DID_FORCE;
    case SNIB__PARAMS:
        return SIM_DID_PARAMS;
    default:
        return SIM_DID_OTHER;
    }
}

static enum sim_said said_no(const struct snib__request *r)
{
    if (r->said.revoked) {
        return SIM_SAID_REVOKED;
    } else if (r->verb != SNIB__ACQUIRE) {
        return SIM_SAID_NO;
    } else if (r->said.err == SNIB_ERR_BUSY) {
        return SIM_SAID_HELD;
    } else if (r->said.err != SNIB_ERR_CANCELLED) {
        return SIM_SAID_NO;
    }
    return sim_batch_of(r) ? SIM_SAID_OVER : SIM_SAID_ENDED;
}

static enum sim_said said_of(const struct snib__request *r)
{
    bool ends = r->verb == SNIB__RELEASE ||
                (r->verb == SNIB__CANCEL && r->said.granted);
    switch (r->said.answer) {
    case SNIB__DONE:
        return r->verb == SNIB__ACQUIRE ? SIM_SAID_GRANTED
               : ends                   ? SIM_SAID_ENDED
                                        : SIM_SAID_DONE;
    case SNIB__QUEUED:
        return SIM_SAID_QUEUED;
    case SNIB__NO:
        return said_no(r);
    case SNIB__NOT_APPLIED:
    case SNIB__PENDING:
    case SNIB__UNKNOWN:
        break;
    }
    return SIM_SAID_ERROR;
}

void sim_see(const uint64_t client[2], const struct snib__request *r,
             int64_t asked, int64_t now_ms, struct sim_seen *s)
{
    bool ends_prior = r->verb == SNIB__ACQUIRE || r->verb == SNIB__CANCEL;
    memset(s, 0, sizeof *s); /* it travels as bytes */
    s->deed = sim_deed_of(r);
    s->said = said_of(r);
    s->name = sim_name_of(r->name);
    s->class = CLASS_ORDINARY - r->acquire.priority;
    s->resent = r->resent;
    sim_id_text(client, s->client);
    sim_id_text(r->id, s->request);
    s->prior = ends_prior ? asked : 0;
    s->token = ends_prior ? 0 : asked;
    s->lease_ms = r->renew.only_asks ? 0 : snib__to_ms(r->lease);
    s->given = r->token;
    s->count = r->said.row.ended;
    s->now_ms = now_ms;
}

/* A step of several locks as one, or of one, or of some that only travel
 * together. */
void sim_see_as_one(struct snib__request *const r[], struct sim_act *a)
{
    a->several = a->count > 1 && sim_batch_of(r[0]);
    a->all = r[0]->batch.all;
    a->missed = -1;
    for (int i = 0; i < a->count && a->missed < 0; i++) {
        if (a->part[i].said != SIM_SAID_GRANTED &&
            a->part[i].said != SIM_SAID_OVER) {
            a->missed = i;
        }
    }
}

void sim_see_step(const uint64_t client[2], struct snib__request *const r[],
                  const struct snib__snapshot *s, int64_t now_ms,
                  struct sim_act *a)
{
    a->node = 0;
    a->everywhere = false;
    a->count = (int)s->requests;
    for (uint32_t i = 0; i < s->requests; i++) {
        sim_see(client, r[i], s->asked[i].token, now_ms, &a->part[i]);
    }
    sim_see_as_one(r, a);
}

void sim_see_told(const struct snib__snapshot *s, uint32_t told,
                  struct sim_seen *seen)
{
    const struct snib__told *t = &s->told[told];
    memset(seen, 0, sizeof *seen);
    seen->deed = SIM_DID_TELL;
    seen->name = sim_name_of(t->name);
    sim_id_text(t->client, seen->client);
    sim_id_text(t->request, seen->request);
    for (uint32_t k = 0; k < s->claims; k++) {
        const struct snib__stored_claim *c = &s->claim[k].c;
        if (c->request[0] == t->request[0] && c->request[1] == t->request[1] &&
            snib__rules_claim_holds(c)) {
            seen->said = SIM_SAID_GRANTED;
            seen->given = c->token;
        }
    }
}
