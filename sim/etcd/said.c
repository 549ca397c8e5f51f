/* sim/etcd/said.c — what calls are for, and what they have done, in the words of
 * sim/seen.h.
 *
 * A transaction says which keys it changes, not why. So what a client's store has
 * sent is noted when it has sent it: the call's number on its connection, and the
 * requests of its step with the answers that they get if it is applied. The
 * cluster says that when it applies it. An answer for which nothing was changed is
 * told when the client has it: it was true when the cluster was looked at. */
#include <stdlib.h>
#include <string.h>

#include "sim/etcd/model.h"
#include "store/etcd/etcd_i.h"

enum { NOTES = 8192 };

/* -- notes ------------------------------------------------------------------- */

static struct sim_etcd_note *note_at(const struct sim_etcd *e, uint64_t ago)
{
    return ago < e->notes && ago < NOTES ? e->note[(e->notes - 1 - ago) % NOTES]
                                         : NULL;
}

struct sim_etcd_note *sim_etcd_note_of(struct sim_etcd *e, int node, int conn,
                                       int32_t stream)
{
    struct sim_etcd_note *n;
    for (uint64_t ago = 0; (n = note_at(e, ago)); ago++) {
        if (n->stream == stream && n->conn == conn && n->node == node) {
            return n;
        }
    }
    return NULL;
}

void sim_etcd_notes_free(struct sim_etcd *e)
{
    struct sim_etcd_note *n;
    for (uint64_t ago = 0; (n = note_at(e, ago)); ago++) {
        free(n);
    }
    free(e->note);
}

static struct sim_etcd_note *note_new(struct sim_etcd *e, int parts)
{
    e->note = e->note ? e->note : calloc(NOTES, sizeof *e->note);
    struct sim_etcd_note *n =
        calloc(1, sizeof *n + (size_t)parts * sizeof n->part[0]);
    if (!e->note || !n) {
        abort();
    }
    struct sim_etcd_note **slot = &e->note[e->notes++ % NOTES];
    free(*slot);
    *slot = n;
    return n;
}

/* By which clock a step has drawn its tokens: that of its last fetch, or of the
 * write that met a conflict, whose answer has rows, too. */
static int64_t decided_at(const struct sim_world *w, int client,
                          const struct etcd_step *k)
{
    const struct sim_etcd_note *n;
    for (uint64_t ago = 0;
         k->phase == STEP_WRITES && (n = note_at(w->etcd, ago)); ago++) {
        if (n->step == k && n->client == client &&
            n->life == w->client[client].life) {
            return n->sent;
        }
    }
    return w->t;
}

static void note_step(struct sim_world *w, int client,
                      const struct etcd_step *k, const struct sim_wire *wire)
{
    static _Thread_local struct sim_act act;
    bool writes = k->phase == STEP_WRITES;
    const uint64_t *id = sim_etcd_store(w, client)->client;
    int tells = writes ? (int)k->s.tolds : 0;
    int64_t decided = decided_at(w, client, k);
    struct sim_etcd_note *n = note_new(w->etcd, (int)k->count + tells);
    n->client = client;
    n->life = w->client[client].life;
    n->node = sim_etcd_at(w, client);
    n->conn = wire->server_conn;
    n->stream = k->call.stream.id;
    n->step = k;
    n->sent = w->t;
    n->decided = decided;
    n->count = (int)k->count;
    n->tells = tells;
    if (writes) {
        sim_see_step(id, k->r, &k->s, 0, &act);
    } else {
        act.count = n->count;
        for (int i = 0; i < n->count; i++) {
            sim_see(id, k->r[i], k->r[i]->token, 0, &act.part[i]);
        }
        sim_see_as_one(k->r, &act);
    }
    n->several = act.several;
    n->all = act.all;
    n->missed = act.missed;
    memcpy(n->part, act.part, (size_t)n->count * sizeof n->part[0]);
    for (int i = 0; i < tells; i++) {
        sim_see_told(&k->s, (uint32_t)i, &n->part[n->count + i]);
    }
    for (int i = 0; i < n->count + tells; i++) {
        n->part[i].conn = n->conn;
        n->part[i].decided = decided;
    }
}

void sim_etcd_sends(struct sim_world *w, int client)
{
    struct snib__etcd *e =
        (struct snib__etcd *)(uintptr_t)sim_etcd_store(w, client);
    const struct sim_wire *wire =
        &w->client[client].wire[sim_etcd_at(w, client)];
    SNIB__LIST_EACH (l, &e->steps) {
        const struct etcd_step *k = SNIB__CONTAINER(l, struct etcd_step, link);
        const struct etcd_call *c = &k->call;
        if (k->work == &snib__etcd_claims_work && c->stream.id &&
            c->stream.end == SNIB__H2_OPEN && wire->server_conn &&
            !sim_etcd_note_of(w->etcd, sim_etcd_at(w, client),
                              wire->server_conn, c->stream.id)) {
            note_step(w, client, k, wire);
        }
    }
}

/* -- what was done ------------------------------------------------------------ */

void sim_etcd_say(struct sim_world *w, struct sim_etcd_note *n, bool changed)
{
    static _Thread_local struct sim_act act;
    n->done_at = w->t;
    n->applied = changed;
    sim_note(w, "    etcd: %s of client %d (deed %d, said %d, %.8s), %d in all",
             changed ? "a change" : "a look", n->client, (int)n->part[0].deed,
             (int)n->part[0].said, n->part[0].request, n->count);
    if (!changed) {
        return;
    }
    act.node = 0;
    act.everywhere = act.several = false;
    act.count = 1;
    for (int i = n->count; i < n->count + n->tells; i++) {
        act.part[0] = n->part[i];
        act.part[0].at = w->t;
        if (act.part[0].said == SIM_SAID_GRANTED) { /* else it was forced */
            sim_watch(w, &act);
        }
    }
    act.several = n->several;
    act.all = n->all;
    act.missed = n->missed;
    act.count = n->count;
    memcpy(act.part, n->part, (size_t)n->count * sizeof n->part[0]);
    for (int i = 0; i < n->count; i++) {
        act.part[i].at = w->t;
    }
    sim_watch(w, &act);
}

void sim_etcd_say_other(struct sim_world *w)
{
    static _Thread_local struct sim_act act;
    act.everywhere = true;
    act.several = false;
    act.count = 1;
    act.part[0] = (struct sim_seen){.deed = SIM_DID_OTHER, .name = -1};
    sim_watch(w, &act);
}

/* -- answers for which nothing was changed ------------------------------------- */

static bool is_of(const struct sim_seen *s, const struct snib__request *r)
{
    char id[SIM_ID + 1];
    sim_id_text(r->id, id);
    return s->deed == sim_deed_of(r) && sim_same(s->request, id);
}

/* The last call for this request that was executed. */
static struct sim_etcd_note *note_for(const struct sim_world *w, int client,
                                      const struct snib__request *r)
{
    struct sim_etcd_note *n;
    for (uint64_t ago = 0; (n = note_at(w->etcd, ago)); ago++) {
        for (int i = 0; n->done_at && n->client == client &&
                        n->life == w->client[client].life && i < n->count;
             i++) {
            if (is_of(&n->part[i], r)) {
                return n;
            }
        }
    }
    return NULL;
}

/* The requests of that call, with the answers that they have got just now. */
static void say_looked(struct sim_world *w, int client, struct sim_etcd_note *n)
{
    static _Thread_local struct sim_act act;
    const struct snib__etcd *e = sim_etcd_store(w, client);
    act.node = 0;
    act.everywhere = false;
    act.several = n->several;
    act.all = n->all;
    act.missed = -1;
    act.count = n->count;
    for (int i = 0; i < n->count; i++) {
        struct sim_seen *s = &act.part[i];
        *s = n->part[i];
        s->said = SIM_SAID_ERROR;
        SNIB__LIST_EACH (l, (struct snib__list *)&e->out->answered) {
            const struct snib__request *r =
                SNIB__CONTAINER(l, struct snib__request, link);
            if (is_of(&n->part[i], r)) {
                int64_t asked = s->prior ? s->prior : s->token;
                sim_see(e->client, r, asked, 0, s);
            }
        }
        s->conn = n->conn;
        s->looked = true;
        s->at = n->done_at;
        if (act.missed < 0 && s->said != SIM_SAID_GRANTED &&
            s->said != SIM_SAID_OVER) {
            act.missed = i;
        }
    }
    n->said = true;
    sim_watch(w, &act);
}

static bool is_final(const struct snib__request *r)
{
    return r->said.answer == SNIB__DONE || r->said.answer == SNIB__NO ||
           r->said.answer == SNIB__QUEUED;
}

void sim_etcd_answers(struct sim_world *w, int client)
{
    const struct snib__etcd *e = sim_etcd_store(w, client);
    SNIB__LIST_EACH (l, (struct snib__list *)&e->out->answered) {
        const struct snib__request *r =
            SNIB__CONTAINER(l, struct snib__request, link);
        struct sim_etcd_note *n = sim_deed_of(r) != SIM_DID_OTHER && is_final(r)
                                      ? note_for(w, client, r)
                                      : NULL;
        if (n && !n->applied && !n->said) {
            say_looked(w, client, n);
        }
    }
}
