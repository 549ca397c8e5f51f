/* sim/work.c — what the callers do: acquire, work on the fenced resource,
 * release; try, wait with limits, re-enter, outstay their lease, give up.
 *
 * The work of a section is an increment of `value`: read at the start, after
 * raising the mark, and written at the end if the owner still believes that it
 * holds. An owner that has lost the lock writes all the same now and then, as a
 * delayed write would; the fence must refuse it. */
#include "sim/world.h"

static void entered(struct sim_world *w, int client, int owner)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    struct sim_resource *r = &w->resource[l->name];
    r->free_since = r->ghost_since = -1;
    l->state = SIM_OWNER_HOLDING;
    l->asked_at = 0;
    l->entered_at = w->t;
    l->token = l->acq->token;
    l->ticket = l->acq->ticket;
    w->grants++;
    sim_note(w, "client %d owner %d holds name %d token %lld", client, owner,
             l->name, (long long)l->token);
    sim_force_entered(w, client, owner, false);
    if (sim_quorum(w)) {
        theorem_quorum_token(w, client, owner);
    } else if (l->forced) {
        ; /* only the fence protects, until it is told */
    } else if (sim_kinds(w)) {
        theorem_token_entered(w, l->name, l->kind, l->token);
    } else {
        theorem_token_rises(w, l->name, l->token);
    }
    /* The owner raises the mark before its first read. */
    if (l->token > r->mark && sim_alone(l->kind)) {
        r->mark = l->token;
        l->read_value = r->value;
    } else {
        l->read_value = -1;
    }
    int64_t us = sim_about(w, w->opt.hold_us);
    if (w->opt.lease_ms <= 3000 && !l->overran &&
        sim_chance(w, w->opt.overrun_pct)) {
        l->overran = true;
        us += w->opt.lease_ms * (w->opt.lease_ms > 200 ? 1200 : 1400);
    }
    sim_owner_wake_at(w, client, owner, w->t + us * 1000);
}

/* The owner got the lock, and it is over already: that is all it is told. */
static void passed(struct sim_world *w, int client, int owner)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    sim_note(w, "client %d owner %d has passed name %d, token %lld", client,
             owner, l->name, (long long)l->acq->token);
    sim_owner_give_back(w, client, owner, l->acq->ticket);
    sim_owner_done(w, client, owner);
}

/* Draws what the owner asks for: name, kind, limit, lease. */
static void draw_ask(struct sim_world *w, int client, struct sim_owner *l,
                     struct snib__acquire_spec *ask)
{
    const struct sim_options *o = &w->opt;
    int64_t limit_ms = 0;
    l->name = (int)snib__rng_below(&w->work, (uint64_t)o->names);
    l->is_try = sim_chance(w, o->try_pct);
    if (l->is_try) {
        limit_ms = o->request_ms;
    } else if (sim_chance(w, o->timed_pct)) {
        limit_ms =
            1 + (int64_t)snib__rng_below(&w->work, (uint64_t)o->limit_ms);
    }
    l->limit_at = limit_ms ? w->t + limit_ms * SIM_MS : 0;
    *ask = (struct snib__acquire_spec){
        .owner = l->owner,
        .limit = limit_ms ? snib__after(sim_now(w, client), snib__ms(limit_ms))
                          : SNIB__NEVER,
        .timed = true,
        .try_only = l->is_try,
        .reterr = &l->error};
    ask->fixed = sim_chance(w, o->fixed_pct);
    ask->confirm = sim_chance(w, o->confirm_pct);
    ask->no_hand_over = sim_chance(w, o->nopass_pct);
    ask->keep_ms = sim_keep_ask(w);
    if (sim_kinds(w)) {
        sim_kinds_ask(w, l, ask);
        ask->spin = sim_spin_ask(w, client, l);
    }
    l->lease_ms = l->longest_ms = sim_lease_ask(w);
    ask->lease = snib__ms(l->lease_ms);
}

static void start_acquire(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    struct snib__acquire_spec ask;
    draw_ask(w, client, l, &ask);
    l->by_hand = (struct sim_by_hand){0};
    l->asked_at = w->t;
    l->waits_by[0] = l->waits_by[1] = 0;
    snib_err err =
        snib__engine_acquire(c->engine, sim_now(w, client), c->local[l->name],
                             &ask, &l->acq, &l->error);
    if (err) {
        theorem_refusal_is_true(w, client, owner, err);
        w->refusals++;
        sim_owner_done(w, client, owner);
        return;
    }
    l->acq->user = l;
    l->state = SIM_OWNER_WAITING;
    theorem_party_sits_down(w, client, owner);
    if (l->acq->state == SNIB__ACQ_SERVED) {
        entered(w, client, owner);
        theorem_keeper_enters(w, client, owner);
    } else if (l->acq->state == SNIB__ACQ_REFUSED) {
        theorem_refusal_is_true(w, client, owner, l->acq->err);
        snib__acquisition_done(c->engine, l->acq);
        w->refusals++;
        sim_owner_done(w, client, owner);
    }
}

/* True: the owner has entered once more. */
static bool reenters(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    struct snib__acquire_spec ask = {.owner = l->owner,
                                     .kind = (snib_kind)l->kind,
                                     .limit = SNIB__NEVER,
                                     .lease = snib__ms(w->opt.lease_ms)};
    struct snib__acquisition *again = NULL;
    struct snib_status st;
    snib_err err =
        snib__engine_acquire(c->engine, sim_now(w, client), c->local[l->name],
                             &ask, &again, &l->error);
    snib__engine_status(c->engine, sim_now(w, client), l->acq, &st);
    if (!err && (again != l->acq || again->token != l->token)) {
        sim_fail(w, "re-entry", "another acquisition or token on re-entry");
    }
    if (err && st.state != SNIB_STATE_LOST) {
        sim_fail(w, "re-entry", "refused (%s) although it holds",
                 snib_err_name(err));
    }
    l->reentries = !err;
    return !err;
}

static void release_inner(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    struct snib__acquisition *none;
    snib_err inner =
        snib__engine_release(c->engine, sim_now(w, client), l->ticket, l->owner,
                             NULL, NULL, &none, &l->error);
    if (none || (inner && inner != SNIB_ERR_LOST)) {
        sim_fail(w, "re-entry", "inner release: %s", snib_err_name(inner));
    }
    l->reentries = 0;
}

static void release(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    struct snib__acquisition *ending = NULL;
    theorem_releases(w, client, owner);
    snib_err err =
        snib__engine_release(c->engine, sim_now(w, client), l->ticket, l->owner,
                             &l->error, l, &ending, &l->error);
    w->losses += err == SNIB_ERR_LOST;
    if (!ending) {
        theorem_release_is_true(w, client, owner, err, false);
    } else if (ending->state == SNIB__ACQ_GONE) {
        theorem_release_is_true(w, client, owner, ending->err, true);
        snib__acquisition_done(c->engine, ending);
    } else {
        l->acq = ending;
        l->state = SIM_OWNER_ENDING;
        return;
    }
    sim_owner_done(w, client, owner);
}

static void end_section(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    struct snib_status st;
    if (l->reentries == 0 && sim_chance(w, w->opt.reenter_pct) &&
        sim_kinds_reenters(l) && reenters(w, client, owner)) {
        sim_owner_wake(w, client, owner, w->opt.hold_us);
        return;
    }
    snib__engine_status(c->engine, sim_now(w, client), l->acq, &st);
    if (st.state != SNIB_STATE_LOST || sim_chance(w, 50)) {
        sim_owner_write(w, l->name, l->token, l->read_value);
    }
    if (l->reentries) {
        release_inner(w, client, owner);
    }
    release(w, client, owner);
}

void sim_owner_event(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    snib__engine_tick(c->engine, sim_now(w, client));
    if (l->state == SIM_OWNER_DIRECT) {
        sim_direct_event(w, client, owner);
    } else if (l->state == SIM_OWNER_IDLE) {
        if (!sim_direct_start(w, client, owner)) {
            sim_kinds_start(w, client);
            if (!sim_many_start(w, client, owner)) {
                start_acquire(w, client, owner);
            }
        }
    } else if (l->state == SIM_OWNER_NESTING) {
        sim_circles_meanwhile(w, client, owner);
    } else if (l->state == SIM_OWNER_HOLDING &&
               !sim_lease_renew(w, client, owner) &&
               !sim_kinds_nest(w, client, owner) &&
               !sim_circles_nest(w, client, owner)) {
        end_section(w, client, owner);
    }
}

/* Its wait is over. */
static void settled(struct sim_world *w, int client, int owner,
                    struct snib__acquisition *s)
{
    struct sim_client *c = &w->client[client];
    if (s->state != SNIB__ACQ_REFUSED) {
        theorem_who_was_counted_is_told(w, client, owner, s);
        if (s->state == SNIB__ACQ_DEAD) {
            passed(w, client, owner);
        } else {
            entered(w, client, owner);
        }
        return;
    }
    sim_note(w, "client %d owner %d refused: %s", client, owner,
             snib_err_name(s->err));
    theorem_refusal_is_true(w, client, owner, s->err);
    theorem_refused_is_gone(w, client, owner, s->err);
    theorem_who_was_counted_is_told(w, client, owner, s);
    w->refusals++;
    w->unknowns += s->err == SNIB_ERR_UNKNOWN;
    snib__acquisition_done(c->engine, s);
    sim_owner_done(w, client, owner);
}

/* News of the owner's first acquisition. */
static void first_told(struct sim_world *w, int client, int owner,
                       struct snib__acquisition *s, uint8_t news)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    if (news & SNIB__NEWS_SETTLED && l->state == SIM_OWNER_WAITING) {
        bool over = s->state == SNIB__ACQ_REFUSED || s->state == SNIB__ACQ_DEAD;
        settled(w, client, owner, s);
        if (over) {
            return;
        }
    }
    bool holds = l->state == SIM_OWNER_HOLDING || l->state == SIM_OWNER_NESTING;
    if (news & SNIB__NEWS_RENEWED && holds) {
        theorem_renewed(w, client, owner, s->err);
    }
    if (news & SNIB__NEWS_RELEASED && l->state == SIM_OWNER_ENDING) {
        theorem_release_is_true(w, client, owner, s->err, true);
        snib__acquisition_done(w->client[client].engine, s);
        sim_owner_done(w, client, owner);
    }
    if (news & SNIB__NEWS_STATE && holds) {
        sim_note(w, "client %d owner %d is %s (%s)", client, owner,
                 snib_state_text((snib_state)s->shown),
                 snib_cause_text((snib_cause)s->cause));
        theorem_no_needless_loss(w, l->name, s);
        theorem_loss_by_force(w, client, owner, false);
    }
}

void sim_owner_told(struct sim_world *w, int client,
                    struct snib__acquisition *s, uint8_t news)
{
    struct sim_owner *l = s->user;
    if (!l) { /* news of a grant that was given back unawaited */
        return;
    }
    int owner = (int)(l - w->client[client].owner);
    if (owner >= w->callers) {
        sim_many_told(w, client, owner, s, news);
    } else if (s == l->more) {
        sim_kinds_told(w, client, owner, news);
    } else if (!sim_circles_told(w, client, owner, s, news)) {
        first_told(w, client, owner, s, news);
    }
}

bool sim_work_done(const struct sim_world *w)
{
    for (int c = 0; c < w->opt.clients; c++) {
        for (int i = 0; i < w->opt.owners; i++) {
            if (w->client[c].owner[i].state != SIM_OWNER_DONE) {
                return false;
            }
        }
    }
    return true;
}
