/* sim/witness.c — worlds in which each client has a witness (core/witness.h): the
 * kernel, as far as a witness asks it, and what it does.
 *
 * A process is a client in one of its lives; its number is the client's, so the
 * next life has the same one. A process may crash; its main thread may end; it may
 * call exec: then its connections are closed and its engine is never called again,
 * but what its owners had begun goes on, until the process ends, under the
 * deadlines that they know.
 *
 * A witness belongs to one life. It looks whenever something has happened to the
 * process, and late, when the process is over: by then the next life may hold
 * locks. It works in a slot of the world's clients behind the real ones: an engine
 * with the dead client's id, connections of its own, the clock of its host. */
#include <stdlib.h>

#include "core/engine_i.h"
#include "sim/world.h"

enum { ROOM = 64, AT_ONCE = 0, LATE = 1, DONE = 2 };

static int slot_of(int client)
{
    return client + SIM_WITNESSES;
}

bool sim_is_witness(int client)
{
    return client >= SIM_WITNESSES;
}

/* NULL: it is a witness itself, or the world has none. */
static struct sim_witness *witness_of(struct sim_world *w, int client)
{
    return w->opt.witness && !sim_is_witness(client) ? &w->witness[client]
                                                     : NULL;
}

/* -- the kernel ------------------------------------------------------------ */

/* The pidfd that the process has opened of itself: is it readable? */
static bool is_over(const struct sim_world *w, int client,
                    const struct sim_witness *x)
{
    return w->client[client].life != x->life;
}

static bool has_hung_up(const struct sim_world *w, int client,
                        const struct sim_witness *x)
{
    return is_over(w, client, x) || w->client[client].execed;
}

/* -- a life begins --------------------------------------------------------- */

static void forget(struct sim_witness *x)
{
    free(x->registry);
    x->registry = NULL;
}

void sim_witness_start(struct sim_world *w, int client)
{
    struct sim_client *c = &w->client[client];
    struct sim_witness *x = witness_of(w, client);
    c->execed = c->main_ended = false;
    if (!x) {
        return;
    }
    forget(x);
    x->registry = calloc(1, snib__registry_bytes(ROOM));
    if (!x->registry) {
        abort();
    }
    snib__registry_init(x->registry, ROOM);
    snib__witness_begin(&x->is, x->registry);
    x->life = c->life;
    c->registry = x->registry;
}

void sim_witness_knows(struct sim_world *w, int client)
{
    struct sim_witness *x = witness_of(w, client);
    if (x && x->registry) {
        snib__engine_client_id(w->client[client].engine, x->registry->client);
        sim_id_text(x->registry->client, x->hex);
    }
}

/* -- a witness at work ----------------------------------------------------- */

static void end_left(struct sim_world *w, int client, struct sim_witness *x)
{
    struct sim_client *c = &w->client[slot_of(client)];
    const struct snib__registry *left = x->registry;
    c->offset = w->client[client].offset;
    c->ppm = w->client[client].ppm;
    c->life++;
    c->timer_at = INT64_MAX;
    c->identity = left->client;
    x->since = w->t;
    sim_note(w, "  the witness of client %d ends what life %u has left", client,
             x->life);
    if (sim_client_open(w, slot_of(client))) {
        snib__engine_end_left(c->engine, sim_now(w, slot_of(client)), left);
        sim_client_after(w, slot_of(client));
    }
}

static void again(struct sim_world *w, int client, int how, int64_t at,
                  uint32_t life)
{
    sim_push(w, (struct sim_event){.at = at,
                                   .kind = SIM_EV_WITNESS,
                                   .client = client,
                                   .a = how,
                                   .life = life});
}

static void look(struct sim_world *w, int client, struct sim_witness *x,
                 int how)
{
    struct snib__witness_sight sees = {.over = is_over(w, client, x),
                                       .hung_up = has_hung_up(w, client, x)};
    if (!x->registry || w->client[slot_of(client)].engine) {
        return;
    }
    switch (snib__witness_step(&x->is, sim_now(w, client), sees)) {
    case SNIB__WITNESS_ENDS:
        end_left(w, client, x);
        break;
    case SNIB__WITNESS_LEAVES:
        if (how == LATE) {
            forget(x);
        }
        break;
    case SNIB__WITNESS_WAITS:
        break;
    }
}

void sim_witness_looks(struct sim_world *w, int client)
{
    struct sim_witness *x = witness_of(w, client);
    if (x) {
        look(w, client, x, AT_ONCE);
    }
}

void sim_witness_after(struct sim_world *w, int slot)
{
    struct sim_client *c = &w->client[slot];
    if (snib__engine_idle(c->engine) && !c->execed) {
        c->execed = true; /* it is through: once */
        again(w, slot - SIM_WITNESSES, DONE, w->t, c->life);
    }
}

static void stop(struct sim_world *w, int client)
{
    struct sim_client *c = &w->client[slot_of(client)];
    if (c->engine) {
        sim_client_stop(w, slot_of(client));
        sim_net_drop_client(w, slot_of(client));
        c->life++;
    }
    c->execed = false;
}

static void is_through(struct sim_world *w, int client)
{
    struct sim_witness *x = &w->late[client];
    stop(w, client);
    if (x->registry) {
        struct sim_gone *g = &w->gone[w->gones++ % SIM_GONES];
        memcpy(g->hex, x->hex, sizeof g->hex);
        g->since = x->since;
        forget(x);
        theorem_witness_leaves_nothing(w);
    }
}

void sim_witness_event(struct sim_world *w, const struct sim_event *ev)
{
    struct sim_witness *x = &w->late[ev->client];
    if (ev->a == LATE && x->life == ev->life) {
        look(w, ev->client, x, LATE);
    } else if (ev->a == DONE &&
               w->client[slot_of(ev->client)].life == ev->life) {
        is_through(w, ev->client);
    }
}

/* -- a life ends ----------------------------------------------------------- */

/* A witness that has not finished with the life before is not waited for: the
 * leases will. */
void sim_witness_crashed(struct sim_world *w, int client)
{
    struct sim_witness *now = witness_of(w, client);
    if (!now) {
        return;
    }
    struct sim_witness *x = &w->late[client];
    stop(w, client);
    forget(x);
    *x = *now;
    now->registry = NULL;
    int64_t us = sim_upto(&w->misc, 4) ? sim_upto(&w->misc, 3000)
                                       : sim_upto(&w->misc, 2000000);
    again(w, client, LATE, w->t + us * 1000, x->life);
}

bool sim_witnesses_idle(const struct sim_world *w)
{
    for (int c = 0; c < SIM_WITNESSES; c++) {
        if (w->late[c].registry) {
            return false;
        }
    }
    return true;
}

void sim_witnesses_free(struct sim_world *w)
{
    for (int c = 0; w->opt.witness && c < SIM_WITNESSES; c++) {
        stop(w, c);
        forget(&w->witness[c]);
        forget(&w->late[c]);
    }
}

/* -- which worlds ---------------------------------------------------------- */

void sim_witness_draw(struct sim_options *o)
{
    static const int faults[] = {
        SIM_CRASH,     SIM_CRASH, SIM_CRASH,  SIM_EXEC,       SIM_EXEC,
        SIM_MAIN_ENDS, SIM_PAUSE, SIM_CUT,    SIM_LOSE_REPLY, SIM_LATE,
        SIM_ISOLATE,   SIM_SLOW,  SIM_FREEZE, SIM_RESTART,    SIM_SCRIPT_FLUSH};
    static const int64_t leases[] = {1000, 3000, 10000, 30000};
    static const int64_t holds[] = {500, 5000, 50000, 300000};
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 21, 0, 0}});
    o->witness = 1;
    o->delay_ms = o->fixed_pct = 0;
    o->clients = 2 + sim_upto(&r, SIM_WITNESSES - 1);
    o->names = 1 + sim_upto(&r, 2);
    o->ops = 6 + sim_upto(&r, 10);
    o->lease_ms = leases[sim_upto(&r, 4)];
    o->hold_us = holds[sim_upto(&r, 4)];
    o->think_us = holds[sim_upto(&r, 3)];
    o->fault_count = 1 + sim_upto(&r, 8);
    int64_t work = o->ops * (o->hold_us * o->clients + o->think_us) / 1000;
    for (int i = 0; i < o->fault_count; i++) {
        o->fault[i] = (struct sim_fault){
            .at_ms = 1 + sim_upto(&r, work < 8000 ? (int)work + 10 : 8000),
            .kind = faults[sim_upto(&r, sizeof faults / sizeof *faults)],
            .a = sim_upto(&r, 2) ? SIM_HOLDER : sim_upto(&r, o->clients),
            .b = sim_upto(&r, 2) +
                 SIM_CONNS * sim_upto(&r, o->nodes ? o->nodes : 1),
            .ms = 5 + sim_upto(&r, sim_upto(&r, 2) ? 200 : 3000)};
    }
}
