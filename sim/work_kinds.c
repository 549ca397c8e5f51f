/* sim/work_kinds.c — what owners do with locks that are not plain mutexes: read
 * and write, one inside the other (nested read, upgrade, downgrade), take
 * permits of a semaphore whose size changes, meet at a barrier, wait at a latch
 * that is closed, counted down and opened.
 *
 * An owner has up to two grants of one name: `acq`, and `more` of the other
 * kind. The drawing of all this comes from a stream of its own, so that the
 * worlds of mutexes stay what they were. */
#include <string.h>

#include "sim/world.h"

/* -- drawing --------------------------------------------------------------- */

void sim_kinds_draw(struct sim_options *o)
{
    static const enum sim_flavour some[] = {
        SIM_RW,      SIM_RW,      SIM_RW,   SIM_PERMITS,
        SIM_PERMITS, SIM_BARRIER, SIM_LATCH};
    static const int nests[] = {0, 20, 60}, sizes[] = {1, 2, 3, 5};
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 10, 0, 0}});
    int kind = sim_upto(&r, 20);
    o->flavour = kind < 7 ? (int)some[kind] : SIM_MUTEX;
    if (o->flavour != SIM_BARRIER && sim_upto(&r, 10) == 0) {
        o->delay_ms = 20 << sim_upto(&r, 6);
    }
    o->prio_pct = sim_upto(&r, 10) ? 0 : 30;
    if (o->flavour == SIM_RW) {
        o->read_pct = 30 + sim_upto(&r, 65);
        o->nest_pct = nests[sim_upto(&r, 3)];
        o->mixed = o->seed % 4 == 3 && !o->nest_pct;
    } else if (o->flavour == SIM_PERMITS) {
        o->size = sizes[sim_upto(&r, 4)];
        o->params_pct = sim_upto(&r, 2) ? 0 : 20;
    } else if (o->flavour == SIM_BARRIER) {
        o->size = 2 + sim_upto(&r, 2);
        o->names = 1;
        o->timed_pct = 100; /* the last ones would wait for ever */
        o->owners = o->clients == 1 ? 3 : o->owners;
        o->think_us = o->think_us > 5000 ? 5000 : o->think_us;
    } else if (o->flavour == SIM_LATCH) {
        o->params_pct = 60;
        o->size = 1 + sim_upto(&r, 3);
    }
}

/* -- asking ---------------------------------------------------------------- */

void sim_kinds_ask(struct sim_world *w, struct sim_owner *l,
                   struct snib__acquire_spec *ask)
{
    const struct sim_options *o = &w->opt;
    l->kind = SNIB_KIND_MUTEX;
    l->nested = false;
    if (o->flavour == SIM_RW || (o->mixed && l->name % 2)) {
        l->kind = sim_chance(w, o->read_pct)         ? SNIB_KIND_READ
                  : o->flavour == SIM_RW && o->mixed ? SNIB_KIND_MUTEX
                                                     : SNIB_KIND_WRITE;
    } else if (o->flavour == SIM_PERMITS && !sim_circles_plain(w, l->name)) {
        l->kind = SNIB_KIND_PERMITS;
        ask->capacity = (uint32_t)o->size;
        ask->permits = 1 + (uint32_t)snib__rng_below(
                               &w->work, (uint64_t)(o->size + 1) / 2);
        if (sim_chance(w, 5)) { /* more than there are, or all that are left */
            ask->permits = l->is_try ? 0 : (uint32_t)o->size + 1;
        }
        l->size_seen = w->shelf[l->name].book.size;
        l->size_seen = l->size_seen > o->size ? l->size_seen : o->size;
    } else if (o->flavour == SIM_BARRIER) {
        l->kind = SNIB_KIND_BARRIER;
        ask->permits = (uint32_t)o->size;
    }
    ask->kind = (snib_kind)l->kind;
    ask->delay = snib__ms(o->delay_ms);
    if (o->prio_pct && sim_chance(w, o->prio_pct)) {
        ask->priority = (int8_t)(sim_chance(w, 50) ? 7 : -7);
    }
}

bool sim_kinds_reenters(const struct sim_owner *l)
{
    return l->kind != SNIB_KIND_PERMITS && l->kind != SNIB_KIND_BARRIER;
}

/* -- the other kind besides ------------------------------------------------ */

/* An owner that writes raises the fence. */
static void entered(struct sim_world *w, int client, int owner)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    struct sim_resource *r = &w->resource[l->name];
    l->more_token = l->more->token;
    l->more_value = -1;
    l->more_entered_at = w->t;
    w->grants++;
    sim_note(w, "client %d owner %d holds name %d besides, %s, token %lld",
             client, owner, l->name,
             l->kind == SNIB_KIND_READ ? "to write" : "to read",
             (long long)l->more_token);
    sim_force_entered(w, client, owner, true);
    if (!l->more_forced) {
        theorem_token_entered(w, l->name,
                              l->kind == SNIB_KIND_READ ? SNIB_KIND_WRITE
                                                        : SNIB_KIND_READ,
                              l->more_token);
    }
    if (l->kind == SNIB_KIND_READ && l->more_token > r->mark) {
        r->mark = l->more_token;
        l->more_value = r->value;
    }
}

/* Ends one of two grants: a downgrade, or the end of what was inside. */
static void end_one(struct sim_world *w, int client, int owner)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    if (sim_chance(w, 50)) {
        sim_note(w, "client %d owner %d keeps the inner grant only", client,
                 owner);
        sim_owner_write(w, l->name, l->token, l->read_value);
        sim_owner_give_back(w, client, owner, l->ticket);
        l->acq = l->more;
        l->ticket = l->acq->ticket;
        l->token = l->more_token;
        l->read_value = l->more_value;
        l->entered_at = l->more_entered_at;
        l->kind = l->kind == SNIB_KIND_READ ? SNIB_KIND_WRITE : SNIB_KIND_READ;
        l->lease_ms = l->longest_ms = w->opt.lease_ms;
        l->by_hand.asked = false;
        l->forced = l->more_forced;
        memcpy(l->id, l->more_id, sizeof l->id);
    } else {
        sim_owner_write(w, l->name, l->more_token, l->more_value);
        sim_owner_give_back(w, client, owner, l->more->ticket);
    }
    l->more = NULL;
    l->more_forced = NULL;
    sim_owner_wake(w, client, owner, w->opt.hold_us);
}

bool sim_kinds_nest(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    if (l->more) {
        end_one(w, client, owner);
        return true;
    }
    if (w->opt.flavour != SIM_RW || l->nested || l->reentries ||
        !w->opt.nest_pct || !sim_chance(w, w->opt.nest_pct)) {
        return false;
    }
    l->nested = true;
    bool timed = sim_chance(w, 50);
    int64_t limit_ms = 1 + sim_upto(&w->work, (int)w->opt.limit_ms);
    struct snib__acquire_spec ask = {
        .owner = l->owner,
        .kind = l->kind == SNIB_KIND_READ ? SNIB_KIND_WRITE : SNIB_KIND_READ,
        .limit = timed ? snib__after(sim_now(w, client), snib__ms(limit_ms))
                       : SNIB__NEVER,
        .lease = snib__ms(w->opt.lease_ms),
        .delay = snib__ms(w->opt.delay_ms),
        .timed = true,
        .spin = l->spins && w->opt.spin_pct,
        .reterr = &l->error};
    l->asked_at = w->t;
    l->waits_by[0] = l->waits_by[1] = 0;
    l->limit_at = timed ? w->t + limit_ms * SIM_MS : 0;
    snib_err err =
        snib__engine_acquire(c->engine, sim_now(w, client), c->local[l->name],
                             &ask, &l->more, &l->error);
    if (err) {
        theorem_refusal_is_true(w, client, owner, err);
        l->more = NULL;
        l->asked_at = l->limit_at = 0;
        return false;
    }
    sim_note(w, "client %d owner %d wants %s besides", client, owner,
             l->kind == SNIB_KIND_READ ? "to write" : "to read");
    l->more->user = l;
    l->state = SIM_OWNER_NESTING;
    sim_kinds_told(w, client, owner, SNIB__NEWS_SETTLED);
    return true;
}

void sim_kinds_told(struct sim_world *w, int client, int owner, uint8_t news)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    struct snib__acquisition *s = l->more;
    if (news & SNIB__NEWS_STATE) {
        theorem_no_needless_loss(w, l->name, s);
        theorem_loss_by_force(w, client, owner, true);
    }
    if (!(news & SNIB__NEWS_SETTLED) || l->state != SIM_OWNER_NESTING ||
        s->state == SNIB__ACQ_WAITING) {
        return;
    }
    if (s->state == SNIB__ACQ_REFUSED) {
        sim_note(w, "client %d owner %d refused besides: %s", client, owner,
                 snib_err_name(s->err));
        theorem_refusal_is_true(w, client, owner, s->err);
        theorem_refused_is_gone(w, client, owner, s->err);
        w->refusals++;
        l->more = NULL;
        snib__acquisition_done(c->engine, s);
    } else {
        entered(w, client, owner);
    }
    l->asked_at = l->limit_at = 0;
    l->state = SIM_OWNER_HOLDING;
    sim_owner_wake(w, client, owner, w->opt.hold_us);
}

/* -- params ---------------------------------------------------------------- */

static void change(struct sim_world *w, int client, int name,
                   snib__params_op op, int64_t amount)
{
    struct sim_client *c = &w->client[client];
    c->params = (struct snib__direct){.verb = SNIB__PARAMS,
                                      .name = sim_names[name],
                                      .name_size = strlen(sim_names[name]),
                                      .op = op,
                                      .amount = amount,
                                      .user = (void *)(intptr_t)(name + 1)};
    c->params.limit = snib__after(sim_now(w, client), snib__ms(3000));
    sim_note(w, "client %d changes the params of name %d: %d %lld", client,
             name, (int)op, (long long)amount);
    c->params_busy =
        !snib__engine_direct(c->engine, sim_now(w, client), &c->params);
}

/* Before an acquire; it does not wait for the answer. */
void sim_kinds_start(struct sim_world *w, int client)
{
    if (!w->opt.params_pct || w->client[client].params_busy ||
        !sim_chance(w, w->opt.params_pct)) {
        return;
    }
    int name = sim_upto(&w->work, w->opt.names);
    if (w->opt.flavour == SIM_PERMITS) {
        bool set = sim_chance(w, 20);
        change(w, client, name, set ? SNIB__PARAMS_SIZE : SNIB__PARAMS_ADD,
               set                 ? w->opt.size
               : sim_chance(w, 50) ? 1
                                   : -1);
    } else if (w->opt.flavour == SIM_LATCH) {
        bool close = !w->healed && sim_chance(w, 30);
        change(w, client, name, close ? SNIB__PARAMS_CLOSE : SNIB__PARAMS_DOWN,
               close ? w->opt.size : 1);
    }
}

static void open_later(struct sim_world *w, int client, int64_t ms)
{
    sim_push(w, (struct sim_event){.at = w->t + ms * SIM_MS,
                                   .kind = SIM_EV_PARAMS,
                                   .client = client,
                                   .life = w->client[client].life});
}

/* Healed: open the first latch that is not known to be open, again and
 * again. */
void sim_kinds_open(struct sim_world *w, int client)
{
    struct sim_client *c = &w->client[client];
    for (int n = 0; w->opt.flavour == SIM_LATCH && n < w->opt.names; n++) {
        if (w->shelf[n].opened) {
            continue;
        }
        if (!c->params_busy) {
            change(w, client, n, SNIB__PARAMS_OPEN, 0);
        } else {
            open_later(w, client, 100);
        }
        return;
    }
}

void sim_params_told(struct sim_world *w, int client, struct snib__direct *q)
{
    int name = (int)(intptr_t)q->user - 1;
    bool ok = q->answer == SNIB__DONE || q->answer == SNIB__NO;
    sim_note(w, "client %d params of name %d: %s", client, name,
             ok ? "done" : snib_err_name(q->err));
    snib__buf_free(&q->result);
    w->client[client].params_busy = false;
    if (q->op == SNIB__PARAMS_OPEN) {
        w->shelf[name].opened = !q->err;
        open_later(w, client, q->err ? 500 : 0);
    }
}
