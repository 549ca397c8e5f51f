/* sim/direct.c — which worlds have direct requests and of what kind, when they
 * begin and end, and what faults cost the values in them.
 *
 * The drawing is from a stream of its own. Some of the worlds look for one kind
 * of trouble, as in plan.c. These change what was drawn before; no other world
 * does. */
#include <stdlib.h>
#include <string.h>

#include "sim/direct.h"

enum { REPEAT_MS = 30000 }; /* as in src/api/value.c */

/* -- drawing --------------------------------------------------------------- */

static int one_of(struct snib__rng *r, const int *v, int n)
{
    return v[sim_upto(r, n)];
}

static void one_fault(struct sim_options *o, struct sim_fault f)
{
    if (o->fault_count < SIM_FAULTS) {
        o->fault[o->fault_count++] = f;
    }
}

/* Callers give up or ask again while earlier copies are still on their way, and
 * the value comes and goes: "must be absent" becomes true again. */
static void come_and_go(struct sim_options *o, struct snib__rng *r)
{
    static const int kinds[] = {SIM_LATE, SIM_LATE, SIM_LOSE_REPLY, SIM_CUT},
                     thinks[] = {1000, 30000, 200000};
    o->clients = 3 + sim_upto(r, 3);
    o->owners = 1 + sim_upto(r, 3);
    o->names = 1;
    o->ops = 30;
    o->value_pct = 100;
    o->churn_pct = 60 + sim_upto(r, 41);
    o->again_ms = sim_upto(r, 2) ? 100 : 3000;
    o->request_ms = sim_upto(r, 2) ? 100 : 500;
    o->latency_us = sim_upto(r, 2) ? 100 : 1000;
    o->think_us = one_of(r, thinks, 3);
    o->fault_count = 0;
    int within = 200 + (int)o->think_us * o->ops / 1500;
    for (int n = 2 + sim_upto(r, 8); n > 0; n--) {
        one_fault(o, (struct sim_fault){.at_ms = 1 + sim_upto(r, within),
                                        .kind = kinds[sim_upto(r, 4)],
                                        .a = sim_upto(r, o->clients),
                                        .ms = 100 << sim_upto(r, 7)});
    }
}

/* A copy is under way for so long that the outcome of its repeat may have been
 * forgotten meanwhile. */
static void late_copies(struct sim_options *o, struct snib__rng *r)
{
    come_and_go(o, r);
    o->clients = 3 + sim_upto(r, 2);
    o->owners = 1;
    o->ops = 4 + sim_upto(r, 12); /* about as many changes as are remembered */
    o->churn_pct = 100;
    o->think_us = sim_upto(r, 2) ? 50000 : 150000;
    o->request_ms = sim_upto(r, 2) ? 50 : 100;
    o->again_ms = 50;
    o->fault_count = 0;
    for (int n = 8 + sim_upto(r, 17); n > 0; n--) {
        one_fault(
            o, (struct sim_fault){
                   .at_ms = 1 + sim_upto(r, (int)o->think_us * o->ops / 1000),
                   .kind = SIM_LATE,
                   .a = sim_upto(r, o->clients),
                   .ms = 1000 + sim_upto(r, 9500)});
    }
}

/* A caller with much patience loses a reply, and cannot connect for longer than
 * the store needs to remember. */
static void patience(struct sim_options *o, struct snib__rng *r)
{
    come_and_go(o, r);
    o->request_ms = 20000;
    o->again_ms = 0;
    o->keep_ms = 2000;
    o->think_us = 1000;
    o->fault_count = 0;
    int64_t at = 1 + sim_upto(r, 50);
    for (int i = 0; i < 3; i++) {
        one_fault(o, (struct sim_fault){.at_ms = at + sim_upto(r, 20),
                                        .kind = SIM_LOSE_REPLY,
                                        .a = i});
    }
    one_fault(o, (struct sim_fault){.at_ms = at,
                                    .kind = SIM_REFUSE,
                                    .ms = 11000 + sim_upto(r, 6000)});
}

/* The clock is set back, then data is lost: from then on versions rise only by
 * what clients have been told. */
static void set_back(struct sim_options *o, struct snib__rng *r)
{
    static const int losses[] = {SIM_WIPE, SIM_FLUSHALL, SIM_EVICT,
                                 SIM_PROMOTE};
    o->think_us = 5000;
    o->ops = 12;
    o->value_pct = 100;
    o->fault_count = 0;
    one_fault(o, (struct sim_fault){.at_ms = 1 + sim_upto(r, 30),
                                    .kind = SIM_STEP_BACK,
                                    .ms = 1000 << sim_upto(r, 4)});
    one_fault(o, (struct sim_fault){.at_ms = 10 + sim_upto(r, 50),
                                    .kind = losses[sim_upto(r, 4)],
                                    .a = sim_upto(r, o->names),
                                    .b = sim_upto(r, 3),
                                    .ms = 5 + sim_upto(r, 20)});
}

static void draw_values(struct sim_options *o, struct snib__rng *r)
{
    static const int pcts[] = {30, 70, 100}, keeps[] = {0, 0, 20, 200, 2000},
                     churns[] = {0, 20, 60}, agains[] = {0, 1000, 20000};
    o->value_pct = one_of(r, pcts, 3);
    o->keep_ms = one_of(r, keeps, 5);
    o->churn_pct = one_of(r, churns, 3);
    o->again_ms = one_of(r, agains, 3);
    int which = sim_upto(r, 8);
    if (which < 2) {
        come_and_go(o, r);
    } else if (which < 4) {
        late_copies(o, r);
    } else if (which < 5) {
        patience(o, r);
    } else if (which < 6) {
        set_back(o, r);
    } else if (which < 7) { /* all want the same one */
        o->names = 1;
        o->ops = 12;
        o->think_us = 500;
        o->value_pct = 100;
    }
    o->leave_pct = sim_upto(r, 4) ? 0 : 5;
}

void sim_directs_draw(struct sim_options *o)
{
    static const int looks[] = {20, 50};
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 14, 0, 0}});
    bool other =
        o->many_pct || o->circle_pct || o->force_pct || o->spin || o->spin_pct;
    int which = other ? -1 : sim_upto(&r, 16);
    if (which == 0) {
        draw_values(o, &r);
    } else if (which == 1) {
        o->look_pct = one_of(&r, looks, 2);
    }
}

/* -- life ------------------------------------------------------------------ */

void sim_directs_start(struct sim_world *w)
{
    if (!w->opt.value_pct && !w->opt.look_pct) {
        return;
    }
    struct sim_directs *all = calloc(1, sizeof *all);
    if (w->opt.look_pct && all) {
        all->sight = calloc(SIM_NAMES, sizeof *all->sight);
    }
    if (!all || (w->opt.look_pct && !all->sight)) {
        abort();
    }
    w->directs = all;
}

void sim_directs_stop(struct sim_world *w, int client)
{
    for (int i = 0; w->directs && i < SIM_OWNERS; i++) {
        struct sim_direct *e = &w->directs->direct[client][i];
        snib__buf_free(&e->q.result);
        *e = (struct sim_direct){0};
        w->directs->told[client] = 0;
    }
}

void sim_directs_end(struct sim_world *w)
{
    if (w->directs) {
        free(w->directs->sight);
        free(w->directs->change);
        free(w->directs);
        w->directs = NULL;
    }
}

/* -- asking ---------------------------------------------------------------- */

void sim_direct_wake(struct sim_world *w, const struct sim_direct *e,
                     int64_t ns)
{
    sim_owner_wake_at(w, e->client, e->owner, w->t + ns);
}

struct snib__direct *sim_direct_begin(struct sim_world *w, struct sim_direct *e,
                                      snib__verb verb)
{
    snib_duration most =
        snib__ms(w->opt.request_ms < REPEAT_MS ? w->opt.request_ms : REPEAT_MS);
    snib__buf_free(&e->q.result);
    e->q = (struct snib__direct){.verb = verb,
                                 .name = sim_names[e->name],
                                 .name_size = strlen(sim_names[e->name]),
                                 .user = e};
    e->change = -1;
    e->again = e->late = false;
    e->last = snib__after(sim_now(w, e->client), most);
    e->q.limit =
        snib__after(sim_now(w, e->client), snib__ms(w->opt.request_ms));
    return &e->q;
}

void sim_direct_ask(struct sim_world *w, struct sim_direct *e)
{
    snib__buf_free(&e->q.result);
    int64_t until = sim_true(&w->client[e->client], e->q.limit.ns);
    if (e->change >= 0) {
        w->directs->change[e->change].until = until;
    }
    e->asked = w->t;
    e->again = false;
    e->busy = true;
    if (snib__engine_direct(w->client[e->client].engine, sim_now(w, e->client),
                            &e->q)) {
        sim_fail(w, "harness", "query: %s", e->q.error.text);
    }
    e->leave_at = 0;
    if (w->opt.leave_pct && sim_chance(w, w->opt.leave_pct)) {
        int64_t us = sim_upto(&w->work, (int)w->opt.request_ms * 1000);
        e->leave_at = w->t + us * 1000;
        sim_direct_wake(w, e, us * 1000);
    }
}

void sim_direct_over(struct sim_world *w, struct sim_direct *e)
{
    bool look = e->plan == SIM_LOOK;
    /* an inspect is not one of the owner's operations */
    w->client[e->client].owner[e->owner].ops_left += look;
    sim_owner_done(w, e->client, e->owner);
}

/* -- what faults cost ------------------------------------------------------- */

/* Evict the keys of a name: its value, its memory, or both. */
static void evict(struct sim_world *w, const struct sim_fault *f)
{
    static const char *const tails[] = {":v", ":u"};
    int name = f->a % w->opt.names, which = f->b % 3;
    for (int i = 0; i < 2; i++) {
        char key[64];
        int n = snprintf(key, sizeof key, "%s%s", sim_keys[name], tails[i]);
        if (which == 0 || which == i + 1) {
            sim_redis_evict(w->node[0].redis, 0, key, (size_t)n);
        }
    }
    theorem_values_lost(w, name, which != 1);
}

void sim_directs_fault(struct sim_world *w, const struct sim_fault *f)
{
    if (!w->directs || !w->opt.value_pct) {
        return;
    }
    switch (f->kind) {
    case SIM_STEP_BACK:
    case SIM_STEP_FORWARD:
        w->directs->stepped = true;
        break;
    case SIM_WIPE:
    case SIM_FLUSHALL:
    case SIM_PROMOTE:
        for (int n = 0; n < w->opt.names; n++) {
            theorem_values_lost(w, n, true);
        }
        break;
    case SIM_EVICT:
        evict(w, f);
        break;
    default:
        break;
    }
}

void sim_directs_step(struct sim_world *w, const struct sim_seen *s)
{
    if (w->directs) {
        theorem_values(w, s);
        theorem_look_seen(w, s);
    }
}
