/* sim/owner.c — what an owner has and wants, whatever it works on, and how it
 * goes on to its next step. */
#include "core/engine_i.h"
#include "sim/world.h"

void sim_owner_wake_at(struct sim_world *w, int client, int owner, int64_t at)
{
    sim_push(w, (struct sim_event){.at = at,
                                   .kind = SIM_EV_OWNER,
                                   .client = client,
                                   .a = owner,
                                   .life = w->client[client].life});
}

int64_t sim_about(struct sim_world *w, int64_t us)
{
    return us > 0 ? (int64_t)snib__rng_below(&w->work, 2 * (uint64_t)us) : 0;
}

void sim_owner_wake(struct sim_world *w, int client, int owner, int64_t us)
{
    sim_owner_wake_at(w, client, owner, w->t + sim_about(w, us) * 1000);
}

void sim_owner_done(struct sim_world *w, int client, int owner)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    l->nest = (struct sim_nest){0};
    l->acq = NULL;
    l->ticket = 0;
    l->asked_at = 0;
    l->forced = NULL;
    l->state = --l->ops_left > 0 ? SIM_OWNER_IDLE : SIM_OWNER_DONE;
    if (l->state == SIM_OWNER_IDLE) {
        sim_owner_wake(w, client, owner, w->opt.think_us);
    }
}

/* The write at the end of a section, compared with the mark. */
void sim_owner_write(struct sim_world *w, int name, int64_t token,
                     int64_t read_value)
{
    struct sim_resource *r = &w->resource[name];
    if (read_value < 0 || token < r->mark) {
        r->refused++;
        return;
    }
    r->value = read_value + 1;
    r->accepted++;
}

/* Gives back one of several grants; its answer is not waited for. */
void sim_owner_give_back(struct sim_world *w, int client, int owner,
                         uint64_t ticket)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    struct snib__acquisition *ending = NULL;
    snib_err err =
        snib__engine_release(c->engine, sim_now(w, client), ticket, l->owner,
                             NULL, NULL, &ending, &l->error);
    if (err && err != SNIB_ERR_LOST) {
        sim_fail(w, "release", "%s: %s", snib_err_name(err), l->error.text);
    }
    w->losses += err == SNIB_ERR_LOST;
    if (ending) {
        snib__engine_stop_awaiting(c->engine, ending);
    }
}

/* -- what it has and wants ------------------------------------------------- */

int sim_wants(const struct sim_owner *l)
{
    return l->nest.asks ? l->nest.name : l->name;
}

bool sim_still_waits(const struct sim_owner *l)
{
    return l->state == SIM_OWNER_WAITING &&
           !(l->acq && l->acq->state == SNIB__ACQ_LEAVING);
}

int sim_grants(const struct sim_owner *l, struct sim_grant ret[SIM_GRANTS])
{
    int n = 0;
    if (l->state != SIM_OWNER_HOLDING && l->state != SIM_OWNER_NESTING) {
        return 0;
    }
    if (l->acq) {
        ret[n++] = (struct sim_grant){l->acq, l->name};
    }
    if (l->more && l->state == SIM_OWNER_HOLDING) {
        ret[n++] = (struct sim_grant){l->more, l->name};
    }
    for (int i = 0; i < l->nest.depth; i++) {
        const struct sim_inner *in = &l->nest.in[i];
        if (!in->again) {
            ret[n++] = (struct sim_grant){in->acq, in->name};
        }
    }
    return n;
}

static void hex(char *to, uint64_t n)
{
    for (int i = 0; i < 16; i++) {
        to[i] = "0123456789abcdef"[n >> (60 - 4 * i) & 15];
    }
}

void sim_id_text(const uint64_t id[2], char ret[33])
{
    hex(ret, id[0]);
    hex(ret + 16, id[1]);
    ret[32] = 0;
}

void sim_acquisition_id(const struct snib__acquisition *s, char ret[33])
{
    const struct snib__claim *t = s->local->claim;
    sim_id_text(t ? t->id : (const uint64_t[2]){0}, ret);
}
