/* sim/many.c — the names of an owner that wants several as one: asking for them,
 * and giving them back (work_many.c says when). */
#include "sim/many.h"

#include "core/engine_i.h"

int sim_part(const struct sim_world *w, int owner, int k)
{
    return w->callers + owner * SIM_NAMES + k;
}

struct sim_owner *sim_many_owner(struct sim_world *w, int client, int owner,
                                 int k)
{
    return &w->client[client].owner[sim_part(w, owner, k)];
}

void sim_many_wake(struct sim_world *w, int client, int owner, int64_t at)
{
    sim_push(w, (struct sim_event){.at = at > w->t ? at : w->t,
                                   .kind = SIM_EV_MANY,
                                   .client = client,
                                   .a = owner,
                                   .life = w->client[client].life});
}

/* -- asking ---------------------------------------------------------------- */

snib_err sim_many_ask(struct sim_world *w, int client, int owner, int k,
                      bool is_try, int64_t limit_at)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = sim_many_owner(w, client, owner, k);
    struct snib__acquire_spec ask = {.owner = l->owner,
                                     .limit = SNIB__NEVER,
                                     .lease = snib__ms(w->opt.lease_ms),
                                     .try_only = is_try,
                                     .timed = !is_try,
                                     .reterr = &l->error};
    if (limit_at) {
        ask.limit = (snib_instant){sim_local(c, limit_at)};
    }
    l->is_try = is_try;
    l->limit_at = limit_at;
    l->asked_at = w->t;
    l->waits_by[0] = l->waits_by[1] = 0;
    l->acq = NULL;
    ask.fixed = sim_chance(w, w->opt.fixed_pct);
    ask.confirm = sim_chance(w, w->opt.confirm_pct);
    ask.no_hand_over = sim_chance(w, w->opt.nopass_pct);
    ask.keep_ms = sim_keep_ask(w);
    sim_kinds_ask(w, l, &ask);
    snib_err err =
        snib__engine_acquire(c->engine, sim_now(w, client), c->local[l->name],
                             &ask, &l->acq, &l->error);
    if (!err) {
        l->acq->user = l;
        l->state = SIM_OWNER_WAITING;
    }
    return err;
}

void sim_many_refused(struct sim_world *w, int client, int owner, int k,
                      snib_err err)
{
    int at = sim_part(w, owner, k);
    struct sim_owner *l = &w->client[client].owner[at];
    struct sim_many *m = &w->client[client].many[owner];
    sim_note(w, "client %d owner %d of several: name %d refused: %s", client,
             owner, l->name, snib_err_name(err));
    m->part[k].err = err;
    l->state = SIM_OWNER_DONE;
    l->acq = NULL;
    w->refusals++;
    w->unknowns += err == SNIB_ERR_UNKNOWN;
    if (err != SNIB_ERR_CANCELLED) { /* those are judged together */
        theorem_refusal_is_true(w, client, at, err);
    }
    theorem_refused_is_gone(w, client, at, err);
}

void sim_many_granted(struct sim_world *w, int client, int owner, int k)
{
    struct sim_owner *l = sim_many_owner(w, client, owner, k);
    struct sim_resource *r = &w->resource[l->name];
    w->client[client].many[owner].part[k].err = SNIB_ERR_OK;
    r->free_since = r->ghost_since = -1;
    l->state = SIM_OWNER_HOLDING;
    l->token = l->acq->token;
    l->ticket = l->acq->ticket;
    l->entered_at = w->t;
    w->grants++;
    sim_note(w, "client %d owner %d of several: holds name %d token %lld",
             client, owner, l->name, (long long)l->token);
    theorem_token_entered(w, l->name, l->kind, l->token);
}

/* The outcome of one try of a batch, as in the library's batch. */
enum start { JOINED, APART, HAD, REFUSED };

static enum start start_try(struct sim_world *w, int client, int owner, int k)
{
    struct sim_many *m = &w->client[client].many[owner];
    struct sim_part *p = &m->part[k];
    struct snib__engine *e = w->client[client].engine;
    uint32_t before = snib__engine_batch(e);
    snib_err err = sim_many_ask(w, client, owner, k, true, m->due);
    if (err) {
        sim_many_refused(w, client, owner, k, err);
        return REFUSED;
    }
    if (sim_many_owner(w, client, owner, k)->acq->state == SNIB__ACQ_SERVED) {
        sim_many_granted(w, client, owner, k); /* its client had kept it */
        theorem_keeper_enters(w, client, sim_part(w, owner, k));
        return HAD;
    }
    m->open++;
    p->asked = true;
    if (snib__engine_batch(e) == before) {
        return APART;
    }
    struct sim_owner *l = sim_many_owner(w, client, owner, k);
    const struct snib__claim *t = l->acq->local->claim;
    p->joined = true;
    sim_acquisition_id(l->acq, p->id);
    l->waits_by[0] = t->id[0];
    l->waits_by[1] = t->id[1];
    return JOINED;
}

void sim_many_tries(struct sim_world *w, int client, int owner)
{
    struct sim_many *m = &w->client[client].many[owner];
    bool over = false;
    for (int k = m->from; k < m->count; k++) {
        m->part[k] = (struct sim_part){.err = SNIB_ERR_CANCELLED};
        if (over) {
            continue;
        }
        switch (start_try(w, client, owner, k)) {
        case JOINED:
        case HAD:
            break;
        case APART:
            over = !m->all;
            m->way =
                m->all && m->way == SNIB__BATCH_GO ? SNIB__BATCH_PART : m->way;
            break;
        case REFUSED:
            over = true;
            m->way = m->all ? SNIB__BATCH_DROP : m->way;
            break;
        }
    }
}

/* -- giving back ----------------------------------------------------------- */

void sim_many_give_back(struct sim_world *w, int client, int owner, int from,
                        int next)
{
    struct sim_client *c = &w->client[client];
    struct sim_many *m = &c->many[owner];
    m->phase = SIM_MANY_BACK;
    m->next = next;
    m->open = 0;
    m->due = w->t + w->opt.request_ms * SIM_MS;
    m->held = m->held < from ? m->held : from;
    for (int k = m->count - 1; k >= from; k--) {
        struct sim_owner *l = sim_many_owner(w, client, owner, k);
        struct snib__acquisition *ending = NULL;
        if (l->state != SIM_OWNER_HOLDING) {
            continue;
        }
        int at = sim_part(w, owner, k);
        theorem_releases(w, client, at);
        snib_err err =
            snib__engine_release(c->engine, sim_now(w, client), l->ticket,
                                 l->owner, &l->error, l, &ending, &l->error);
        if (!ending) {
            theorem_release_is_true(w, client, at, err, false);
        }
        w->losses += err == SNIB_ERR_LOST;
        if (ending && ending->state == SNIB__ACQ_GONE) {
            theorem_release_is_true(w, client, at, ending->err, true);
            snib__acquisition_done(c->engine, ending);
            ending = NULL;
        }
        l->acq = ending;
        l->state = ending ? SIM_OWNER_ENDING : SIM_OWNER_DONE;
        m->open += ending != NULL;
    }
    sim_many_wake(w, client, owner, m->open ? m->due : w->t);
}

void sim_many_abandon(struct sim_world *w, int client, int owner)
{
    struct sim_many *m = &w->client[client].many[owner];
    for (int k = 0; k < m->count; k++) {
        struct sim_owner *l = sim_many_owner(w, client, owner, k);
        if (l->state == SIM_OWNER_ENDING) {
            snib__engine_stop_awaiting(w->client[client].engine, l->acq);
            l->acq = NULL;
            l->state = SIM_OWNER_DONE;
        }
    }
    m->open = 0;
}
