/* sim/sql/said.c — answers for which nothing was written, in the words of
 * sim/seen.h: they are told when the worker comes back with them. What a
 * transaction has done was said when it was committed. */
#include <string.h>

#include "sim/sql/sql.h"

void sim_sql_note_said(struct sim_sql *q, const struct sim_seen *s, int64_t at)
{
    uint32_t i = q->saids++ % SIM_SQL_SAID;
    q->said[i].deed = s->deed;
    q->said[i].at = at;
    memcpy(q->said[i].id, s->request, SIM_ID);
}

/* Was it said since then? */
static bool was_said(const struct sim_sql *q, const struct sim_seen *s,
                     int64_t since)
{
    for (uint32_t i = 0; i < SIM_SQL_SAID && i < q->saids; i++) {
        if (q->said[i].deed == s->deed && q->said[i].at >= since &&
            sim_same(q->said[i].id, s->request)) {
            return true;
        }
    }
    return false;
}

static bool is_final(const struct snib__request *r)
{
    return r->said.answer == SNIB__DONE || r->said.answer == SNIB__NO ||
           r->said.answer == SNIB__QUEUED;
}

int64_t sim_sql_fetched_at(const struct sim_sql_worker *k,
                           const struct snib__request *r)
{
    for (int i = k->fetches; i-- > 0;) {
        if (!memcmp(k->fetched[i].id, r->id, sizeof r->id)) {
            return k->fetched[i].at;
        }
    }
    return 0;
}

/* True: it is to be told of. */
static bool see(const struct sim_sql_worker *k, const struct snib__request *r,
                struct sim_seen *s)
{
    int64_t at = sim_sql_fetched_at(k, r);
    int64_t asked =
        r->verb == SNIB__RENEW || r->verb == SNIB__RELEASE ? r->token : 0;
    if (!at || !is_final(r) || sim_deed_of(r) == SIM_DID_OTHER) {
        return false;
    }
    sim_see(k->client->id, r, asked, 0, s);
    s->looked = true;
    s->at = at;
    s->conn = k->client->w->client[k->client->client].wire[k->at].server_conn;
    return !was_said(k->client->w->node[0].table->sql, s, at);
}

void sim_sql_say_looked(struct sim_sql_worker *k)
{
    static _Thread_local struct sim_act act;
    uint32_t batch = 0;
    act.node = act.count = 0;
    act.everywhere = act.all = false;
    SNIB__LIST_EACH (l, &k->list) {
        const struct snib__request *r =
            SNIB__CONTAINER(l, struct snib__request, link);
        uint32_t its = sim_batch_of(r);
        if (act.count && (!its || its != batch)) {
            act.several = act.count > 1;
            sim_watch(k->client->w, &act);
            act.count = 0;
        }
        batch = its;
        act.all = r->batch.all;
        act.missed = act.count ? act.missed : -1;
        if (see(k, r, &act.part[act.count])) {
            bool first = act.missed < 0 &&
                         act.part[act.count].said != SIM_SAID_GRANTED &&
                         act.part[act.count].said != SIM_SAID_OVER;
            act.missed = first ? act.count : act.missed;
            act.count++;
        }
    }
    if (act.count) {
        act.several = act.count > 1;
        sim_watch(k->client->w, &act);
    }
}
