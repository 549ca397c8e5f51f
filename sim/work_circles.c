/* sim/work_circles.c — what owners do with locks inside locks. An owner that
 * holds a name takes another one inside, in an order of its own, so that
 * circles of waits arise: of owners of one client, of clients, of three,
 * through readers, through semaphores. An owner that is refused with DEADLOCK
 * gives everything back, innermost first, and begins again; others go on.
 *
 * An owner's first lock is its `acq` as in other worlds; what it has besides,
 * in the order in which it came, is in its `nest`. Now and then the outermost
 * is given back first, or while the owner waits, as another thread of the same
 * owner may do. Then what it waits for becomes its first lock. */
#include <string.h>

#include "sim/world.h"

enum { WISHES = 4 }; /* of one section */

bool sim_circles_plain(const struct sim_world *w, int name)
{
    return sim_circles(w) && w->opt.flavour == SIM_PERMITS && name % 2;
}

/* -- drawing --------------------------------------------------------------- */

void sim_circles_draw(struct sim_options *o)
{
    static const int flavours[] = {SIM_MUTEX, SIM_MUTEX, SIM_RW, SIM_RW,
                                   SIM_PERMITS};
    static const int pcts[] = {50, 80, 100}, sizes[] = {1, 2, 3};
    static const int skews[] = {0, 0, 30, 5000}, timed[] = {0, 0, 30, 100};
    static const int64_t leases[] = {1000, 3000, 10000, 30000};
    static const int64_t holds[] = {2000, 20000, 200000};
    static const int64_t limits[] = {300, 3000, 10000};
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 16, 0, 0}});
    if (sim_upto(&r, 24) || sim_quorum_drawn(o->seed)) {
        return;
    }
    o->flavour = flavours[sim_upto(&r, 5)];
    o->circle_pct = pcts[sim_upto(&r, 3)];
    o->skew_ms = skews[sim_upto(&r, 4)];
    o->clients = 2 + sim_upto(&r, 3);
    o->owners = 1 + sim_upto(&r, 3);
    if (sim_upto(&r, 8) == 0) {
        o->clients = 1;
        o->owners = 2 + sim_upto(&r, 2);
    }
    o->names = 2 + sim_upto(&r, 3);
    o->ops = 1 + sim_upto(&r, 3);
    o->lease_ms = leases[sim_upto(&r, 4)];
    o->hold_us = holds[sim_upto(&r, 3)];
    o->think_us = holds[sim_upto(&r, 3)];
    o->limit_ms = limits[sim_upto(&r, o->flavour == SIM_PERMITS ? 2 : 3)];
    o->timed_pct = timed[sim_upto(&r, 4)];
    o->try_pct = sim_upto(&r, 3) ? 0 : 20;
    o->fixed_pct = sim_upto(&r, 4) ? 0 : 30;
    o->read_pct = 30 + sim_upto(&r, 50);
    o->size = sizes[sim_upto(&r, 3)];
    o->prio_pct = sim_upto(&r, 4) ? 0 : 30;
    o->nest_pct = o->params_pct = 0;
}

/* -- giving back ----------------------------------------------------------- */

static void give_back(struct sim_world *w, int client, int owner,
                      const struct sim_inner *in)
{
    struct sim_client *c = &w->client[client];
    struct snib_status st;
    snib__engine_status(c->engine, sim_now(w, client), in->acq, &st);
    if (!in->again && (st.state != SNIB_STATE_LOST || sim_chance(w, 50))) {
        sim_owner_write(w, in->name, in->token, in->read_value);
    }
    sim_note(w, "client %d owner %d gives back name %d", client, owner,
             in->name);
    sim_owner_give_back(w, client, owner, in->ticket);
}

/* The first lock has gone: the next one inside becomes the first. */
static void move_up(struct sim_owner *l)
{
    struct sim_nest *n = &l->nest;
    struct sim_inner *in = &n->in[0];
    l->acq = in->acq;
    l->ticket = in->ticket;
    l->token = in->token;
    l->read_value = in->read_value;
    l->name = in->name;
    l->kind = in->kind;
    l->reentries = 0;
    n->depth--;
    memmove(in, in + 1, (size_t)n->depth * sizeof *in);
}

/* Give back the outermost first, if it was not entered again. */
static bool give_back_first(struct sim_world *w, int client, int owner)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    for (int i = 0; i < l->nest.depth; i++) {
        if (l->nest.in[i].again) {
            return false;
        }
    }
    if (!l->acq || l->reentries) {
        return false;
    }
    give_back(w, client, owner,
              &(struct sim_inner){.acq = l->acq,
                                  .ticket = l->ticket,
                                  .token = l->token,
                                  .read_value = l->read_value,
                                  .name = l->name});
    l->acq = NULL;
    l->ticket = 0;
    if (l->nest.depth) {
        move_up(l);
    }
    return true;
}

void sim_circles_meanwhile(struct sim_world *w, int client, int owner)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    if (l->nest.asks) {
        sim_note(w, "  while it waits:");
        (void)give_back_first(w, client, owner);
    }
}

/* -- asking ---------------------------------------------------------------- */

static int pick_name(struct sim_world *w, const struct sim_owner *l)
{
    int name = sim_upto(&w->work, w->opt.names);
    struct sim_grant have[SIM_GRANTS];
    int n = sim_grants(l, have);
    bool any = sim_chance(w, 10); /* a name that it has already, too */
    for (int tries = 0; !any && tries < w->opt.names; tries++) {
        bool has = false;
        for (int i = 0; i < n; i++) {
            has |= have[i].name == name;
        }
        if (!has) {
            break;
        }
        name = (name + 1) % w->opt.names;
    }
    return name;
}

/* Waits for permits have a limit, since circles through them are not refused:
 * any thread might give those back. */
static void ask_for(struct sim_world *w, int client, int owner,
                    struct snib__acquire_spec *ask)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    const struct sim_options *o = &w->opt;
    int64_t ms = 1 + (int64_t)snib__rng_below(&w->work, (uint64_t)o->limit_ms);
    bool permits =
        o->flavour == SIM_PERMITS && !sim_circles_plain(w, l->nest.name);
    *ask = (struct snib__acquire_spec){.owner = l->owner,
                                       .limit = SNIB__NEVER,
                                       .lease = snib__ms(o->lease_ms),
                                       .delay = snib__ms(o->delay_ms),
                                       .timed = true,
                                       .reterr = &l->error};
    l->is_try = sim_chance(w, o->try_pct);
    ms = l->is_try ? o->request_ms : ms;
    l->limit_at = 0;
    if (l->is_try || permits || sim_chance(w, o->timed_pct)) {
        ask->limit = snib__after(sim_now(w, client), snib__ms(ms));
        l->limit_at = w->t + ms * SIM_MS;
    }
    ask->try_only = l->is_try;
    ask->fixed = sim_chance(w, o->fixed_pct);
    ask->confirm = sim_chance(w, o->confirm_pct);
    ask->no_hand_over = sim_chance(w, o->nopass_pct);
    if (o->flavour == SIM_RW) {
        ask->kind =
            sim_chance(w, o->read_pct) ? SNIB_KIND_READ : SNIB_KIND_WRITE;
    } else if (permits) {
        ask->kind = SNIB_KIND_PERMITS;
        ask->capacity = (uint32_t)o->size;
        ask->permits = 1 + (uint32_t)sim_upto(&w->work, o->size);
    }
    if (o->prio_pct && sim_chance(w, o->prio_pct)) {
        ask->priority = (int8_t)(sim_chance(w, 50) ? 7 : -7);
    }
}

static bool reads(const struct sim_owner *l, int name)
{
    struct sim_grant g[SIM_GRANTS];
    for (int i = sim_grants(l, g); i-- > 0;) {
        if (g[i].name == name && g[i].acq->options.kind == SNIB_KIND_READ) {
            return true;
        }
    }
    return false;
}

static void entered(struct sim_world *w, int client, int owner)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    struct sim_nest *n = &l->nest;
    struct sim_resource *r = &w->resource[n->name];
    struct sim_grant have[SIM_GRANTS];
    struct sim_inner in = {.acq = n->wait,
                           .ticket = n->wait->ticket,
                           .token = n->wait->token,
                           .read_value = -1,
                           .name = n->name,
                           .kind = n->kind};
    for (int i = sim_grants(l, have); i-- > 0;) {
        in.again |= have[i].acq == n->wait;
    }
    sim_note(w, "client %d owner %d holds name %d inside%s, token %lld", client,
             owner, n->name, in.again ? " again" : "", (long long)in.token);
    if (!in.again) {
        w->grants++;
        theorem_token_entered(w, n->name, n->kind, in.token);
    }
    if (!in.again && sim_alone(n->kind) && in.token > r->mark) {
        r->mark = in.token;
        in.read_value = r->value;
    }
    n->in[n->depth++] = in;
    if (!l->acq) { /* what it had was given back meanwhile */
        move_up(l);
    }
}

/* The wait is over, one way or the other. */
static void settled(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    struct sim_nest *n = &l->nest;
    snib_err err = n->wait->err;
    bool refused = n->wait->state == SNIB__ACQ_REFUSED;
    if (refused) {
        sim_note(w, "client %d owner %d refused inside: %s", client, owner,
                 snib_err_name(err));
        theorem_refusal_is_true(w, client, owner, err);
        theorem_refused_is_gone(w, client, owner, err);
        n->unwinding = err == SNIB_ERR_DEADLOCK;
        snib__acquisition_done(c->engine, n->wait);
        w->refusals++;
    } else {
        entered(w, client, owner);
    }
    n->wait = NULL;
    n->asks = false;
    l->asked_at = l->limit_at = 0;
    l->state = SIM_OWNER_HOLDING;
    if (!l->acq) {
        sim_owner_done(w, client, owner);
    } else {
        sim_owner_wake(w, client, owner, w->opt.hold_us);
    }
}

static void ask_inside(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    struct sim_nest *n = &l->nest;
    struct snib__acquire_spec ask;
    n->wishes++;
    n->name = pick_name(w, l);
    ask_for(w, client, owner, &ask);
    n->kind = ask.kind;
    n->asks = true;
    n->upgrade = sim_alone(n->kind) && reads(l, n->name);
    n->since = l->asked_at = w->t;
    l->waits_by[0] = l->waits_by[1] = 0;
    n->circle_at = n->youngest_at = 0;
    l->size_seen = l->size_seen > w->opt.size ? l->size_seen : w->opt.size;
    l->state = SIM_OWNER_NESTING;
    sim_note(w, "client %d owner %d wants name %d inside, kind %d", client,
             owner, n->name, n->kind);
    snib_err err =
        snib__engine_acquire(c->engine, sim_now(w, client), c->local[n->name],
                             &ask, &n->wait, &l->error);
    if (err) {
        theorem_refusal_is_true(w, client, owner, err);
        w->refusals++;
        n->asks = false;
        l->asked_at = l->limit_at = 0;
        l->state = SIM_OWNER_HOLDING;
        sim_owner_wake(w, client, owner, w->opt.hold_us);
        return;
    }
    n->wait->user = l;
    if (n->wait->state != SNIB__ACQ_WAITING) {
        settled(w, client, owner);
    } else if (sim_chance(w, 15)) { /* see sim_circles_meanwhile */
        sim_owner_wake(w, client, owner, sim_chance(w, 50) ? 1000 : 1000000);
    }
}

bool sim_circles_nest(struct sim_world *w, int client, int owner)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    struct sim_nest *n = &l->nest;
    if (!sim_circles(w) || l->reentries) {
        return false;
    }
    if (!n->unwinding && n->depth < SIM_INSIDE && n->wishes < WISHES &&
        sim_chance(w, w->opt.circle_pct)) {
        ask_inside(w, client, owner);
        return true;
    }
    if (!n->depth) {
        return false;
    }
    if (n->unwinding || !sim_chance(w, 20) ||
        !give_back_first(w, client, owner)) {
        n->depth--;
        give_back(w, client, owner, &n->in[n->depth]);
    }
    sim_owner_wake(w, client, owner, n->unwinding ? 0 : w->opt.hold_us);
    return true;
}

bool sim_circles_told(struct sim_world *w, int client, int owner,
                      struct snib__acquisition *s, uint8_t news)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    if (l->nest.asks && s == l->nest.wait) {
        if (news & SNIB__NEWS_SETTLED && s->state != SNIB__ACQ_WAITING) {
            settled(w, client, owner);
        }
        return true;
    }
    for (int i = 0; i < l->nest.depth; i++) {
        const struct sim_inner *in = &l->nest.in[i];
        if (in->acq == s && !in->again) {
            if (news & SNIB__NEWS_STATE) {
                theorem_no_needless_loss(w, in->name, s);
            }
            return true;
        }
    }
    return false;
}
