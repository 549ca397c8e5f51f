/* sim/work_many.c — owners that want several names as one, among others that
 * want one of them.
 *
 * They drive the engine as the library's multi and batch do, without threads:
 *
 *     TRY the rest as a batch --all--> HOLD --> BACK --> done
 *      |    one is missed
 *      +--> BACK what is too far ahead --> WAIT for one, in its queue --> TRY
 *
 * An `ordered` owner takes the names in the order that all others use, and
 * keeps what stands before the one that it waits for. Any other waits with
 * nothing in its hands, for the one that it missed, from which it begins the
 * next time. With `all` it is one batch, all or none, in any order.
 *
 * Each name has an acquisition, and each acquisition a struct sim_owner after
 * those of the callers (sim_part()), so that every theorem sees it as if an
 * owner had that lock alone. The engine knows all of them as one owner. */
#include <string.h>

#include "sim/many.h"

enum { ONE_IN = 16, ROUNDS_MAX = 6, WAY_PCT = 3 };

/* -- drawing --------------------------------------------------------------- */

/* Answers to batches are lost, and copies of them come late. Best seen when the
 * connection breaks at once, so that each name is asked for alone before its
 * copy in the batch arrives. */
static void lost_answers(struct sim_options *o, struct snib__rng *r)
{
    static const int kinds[] = {SIM_LOSE_REPLY, SIM_LATE,  SIM_LATE,
                                SIM_LATE,       SIM_ERROR, SIM_SCRIPT_FLUSH};
    static const int errors[] = {SIM_REDIS_LOADING, SIM_REDIS_BUSY,
                                 SIM_REDIS_READONLY, SIM_REDIS_OOM};
    o->fault_count = 0;
    for (int n = 1 + sim_upto(r, 8); n > 0; n--) {
        struct sim_fault *f = &o->fault[o->fault_count++];
        *f = (struct sim_fault){.at_ms = 1 + sim_upto(r, 1 << sim_upto(r, 12)),
                                .kind = kinds[sim_upto(r, 6)],
                                .a = sim_upto(r, o->clients),
                                .ms = 1 << sim_upto(r, 11)};
        if (f->kind == SIM_ERROR) {
            f->a = errors[sim_upto(r, 4)];
        } else if (f->kind == SIM_LATE && sim_upto(r, 2)) {
            o->fault[o->fault_count] = *f;
            o->fault[o->fault_count].kind = SIM_CUT;
            o->fault[o->fault_count++].at_ms += 1 + sim_upto(r, 4);
        }
    }
}

/* Leases that end while others wait, and callers of higher rank than those. */
static void of_rank(struct sim_options *o)
{
    o->prio_pct = 60;
    o->fixed_pct = o->overrun_pct = 50;
    o->lease_ms = 200;
    o->all_pct = 60;
}

void sim_many_draw(struct sim_options *o, bool always)
{
    static const int many[] = {30, 60, 100}, alls[] = {0, 30, 100};
    struct snib__rng r;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 13, 0, 0}});
    if ((sim_upto(&r, ONE_IN) && !always) || o->flavour == SIM_BARRIER ||
        o->circle_pct || o->force_pct || o->spin || o->spin_pct) {
        return;
    }
    o->many_pct = many[sim_upto(&r, 3)];
    o->all_pct = alls[sim_upto(&r, 3)];
    o->names = 2 + sim_upto(&r, SIM_NAMES - 1);
    o->clients = o->clients < 2 ? 2 : o->clients;
    o->owners = 1 + sim_upto(&r, 3);
    o->mixed = o->flavour == SIM_PERMITS && sim_upto(&r, 2);
    o->read_pct = o->mixed ? 50 : o->read_pct;
    o->searched = sim_upto(&r, 2);
    int64_t most = 20000000 / (o->clients * o->owners * o->ops);
    o->hold_us = o->hold_us < most ? o->hold_us : most;
    int which = sim_upto(&r, 12);
    if (which < 4) {
        lost_answers(o, &r);
    } else if (which < 5) {
        of_rank(o);
    }
}

/* -- batches --------------------------------------------------------------- */

static bool is_late(const struct sim_world *w, const struct sim_many *m)
{
    return m->limit_at && m->limit_at <= w->t;
}

static void wait_for(struct sim_world *w, int client, int owner, int k)
{
    struct sim_many *m = &w->client[client].many[owner];
    m->phase = SIM_MANY_WAIT;
    m->missed = k;
    m->open = 1;
    m->part[k] = (struct sim_part){.err = SNIB_ERR_OK};
    sim_note(w, "client %d owner %d of several: waits for name %d with %d held",
             client, owner, sim_many_owner(w, client, owner, k)->name, m->held);
    snib_err err = sim_many_ask(w, client, owner, k, false, m->limit_at);
    struct snib__acquisition *s = sim_many_owner(w, client, owner, k)->acq;
    if (!err && s->state == SNIB__ACQ_REFUSED) {
        err = s->err;
        snib__acquisition_done(w->client[client].engine, s);
    }
    if (err) {
        sim_many_refused(w, client, owner, k, err);
    } else if (s->state == SNIB__ACQ_SERVED) {
        sim_many_granted(w, client, owner, k);
    } else {
        return; /* news will come */
    }
    m->open = 0;
    sim_many_wake(w, client, owner, w->t);
}

static void visit(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_many *m = &c->many[owner];
    int64_t patience = w->t + w->opt.request_ms * SIM_MS;
    if (is_late(w, m)) {
        sim_many_give_back(w, client, owner, 0, SIM_MANY_END);
        return;
    }
    if (m->ordered && m->count - m->held == 1) {
        wait_for(w, client, owner, m->held);
        return;
    }
    m->phase = SIM_MANY_TRY;
    m->from = m->held;
    m->open = 0;
    m->apart = false;
    m->due = m->limit_at && m->limit_at < patience ? m->limit_at : patience;
    m->way = !sim_chance(w, WAY_PCT) ? SNIB__BATCH_GO
             : sim_chance(w, 50)     ? SNIB__BATCH_PART
                                     : SNIB__BATCH_DROP;
    sim_note(w, "client %d owner %d asks for %d names as one%s", client, owner,
             m->count - m->from, m->all ? ", all or none" : "");
    snib__engine_gather(c->engine, m->all);
    sim_many_tries(w, client, owner);
    snib__engine_gathered(c->engine, sim_now(w, client), m->way);
    sim_many_wake(w, client, owner, m->open ? m->due : w->t);
}

/* The patience is over. */
static void give_up(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_many *m = &c->many[owner];
    for (int k = m->from; k < m->count; k++) {
        struct sim_owner *l = sim_many_owner(w, client, owner, k);
        if (l->state != SIM_OWNER_WAITING ||
            l->acq->state != SNIB__ACQ_WAITING) {
            continue; /* its answer, or the news of it, is on its way */
        }
        m->open--;
        sim_many_refused(w, client, owner, k,
                         snib__engine_give_up_now(c->engine, sim_now(w, client),
                                                  l->acq,
                                                  SNIB_ERR_UNREACHABLE));
    }
}

/* All are there, or one was lost while others were waited for. */
static void enter(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_many *m = &c->many[owner];
    for (int k = 0; k < m->count; k++) {
        struct sim_owner *l = sim_many_owner(w, client, owner, k);
        struct snib_status st;
        snib__engine_status(c->engine, sim_now(w, client), l->acq, &st);
        if (st.state == SNIB_STATE_LOST) {
            sim_many_give_back(w, client, owner, 0,
                               m->all || ++m->rounds > ROUNDS_MAX
                                   ? SIM_MANY_END
                                   : SIM_MANY_AGAIN);
            return;
        }
    }
    for (int k = 0; k < m->count; k++) {
        struct sim_owner *l = sim_many_owner(w, client, owner, k);
        struct sim_resource *r = &w->resource[l->name];
        l->read_value = -1;
        if (sim_alone(l->kind) && l->token > r->mark) {
            r->mark = l->token;
            l->read_value = r->value;
        }
    }
    sim_note(w, "client %d owner %d has all of %d names", client, owner,
             m->count);
    int64_t us = sim_about(w, w->opt.hold_us);
    if (w->opt.lease_ms <= 3000 && !c->owner[owner].overran &&
        sim_chance(w, w->opt.overrun_pct)) {
        c->owner[owner].overran = true;
        us += w->opt.lease_ms * (w->opt.lease_ms > 200 ? 1200 : 1400);
    }
    m->phase = SIM_MANY_HOLD;
    m->due = w->t + us * 1000;
    sim_many_wake(w, client, owner, m->due);
}

static void section_over(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_many *m = &c->many[owner];
    for (int k = 0; k < m->count; k++) {
        struct sim_owner *l = sim_many_owner(w, client, owner, k);
        struct snib_status st;
        snib__engine_status(c->engine, sim_now(w, client), l->acq, &st);
        if (st.state != SNIB_STATE_LOST || sim_chance(w, 50)) {
            sim_owner_write(w, l->name, l->token, l->read_value);
        }
    }
    sim_many_give_back(w, client, owner, 0, SIM_MANY_END);
}

static bool worth_waiting(const struct sim_many *m, snib_err err)
{
    return !m->all && (err == SNIB_ERR_BUSY || err == SNIB_ERR_UNREACHABLE ||
                       err == SNIB_ERR_UNKNOWN);
}

/* The name because of which the others were not granted; there may be none. */
static int culprit_of(const struct sim_many *m, int from)
{
    for (int k = from; k < m->count; k++) {
        snib_err err = m->part[k].err;
        if (err && err != SNIB_ERR_CANCELLED) {
            return k;
        }
    }
    return from;
}

/* A batch has its last answer. */
static void answered(struct sim_world *w, int client, int owner)
{
    struct sim_many *m = &w->client[client].many[owner];
    int k = m->from;
    theorem_batch_answered(w, client, owner);
    while (k < m->count && !m->part[k].err) {
        k++;
    }
    m->held = k;
    if (k == m->count) {
        enter(w, client, owner);
        return;
    }
    int culprit = culprit_of(m, k);
    snib_err why = m->part[culprit].err;
    bool none = why == SNIB_ERR_CANCELLED;
    if (none && k > m->from) { /* the others were not asked for yet */
        sim_many_give_back(w, client, owner, k, SIM_MANY_AGAIN);
    } else if (!worth_waiting(m, none ? SNIB_ERR_BUSY : why)) {
        sim_many_give_back(w, client, owner, 0, SIM_MANY_END);
    } else if (m->ordered) {
        m->missed = k;
        sim_many_give_back(w, client, owner, k, SIM_MANY_QUEUE);
    } else if (++m->rounds > ROUNDS_MAX) {
        sim_many_give_back(w, client, owner, 0, SIM_MANY_END);
    } else {
        sim_many_give_back(w, client, owner, 0, SIM_MANY_QUEUE);
        m->missed = culprit;
    }
}

/* -- life ------------------------------------------------------------------ */

/* All that was to be given back is given back. A name that is waited for with
 * empty hands comes first from now on. */
static void go_on(struct sim_world *w, int client, int owner)
{
    struct sim_many *m = &w->client[client].many[owner];
    switch (m->next) {
    case SIM_MANY_AGAIN:
        visit(w, client, owner);
        break;
    case SIM_MANY_QUEUE:
        if (!m->ordered) {
            struct sim_owner *a = sim_many_owner(w, client, owner, 0);
            struct sim_owner *b = sim_many_owner(w, client, owner, m->missed);
            int name = a->name;
            a->name = b->name;
            b->name = name;
            m->missed = 0;
        }
        if (is_late(w, m)) {
            sim_many_give_back(w, client, owner, 0, SIM_MANY_END);
        } else {
            wait_for(w, client, owner, m->missed);
        }
        break;
    case SIM_MANY_END:
        sim_owner_done(w, client, owner);
        break;
    }
}

bool sim_many_event(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_many *m = &c->many[owner];
    bool due = w->t >= m->due;
    if (c->owner[owner].state != SIM_OWNER_MANY) {
        return false;
    }
    snib__engine_tick(c->engine, sim_now(w, client));
    if (m->phase == SIM_MANY_TRY && m->open && due) {
        give_up(w, client, owner);
    } else if (m->phase == SIM_MANY_BACK && m->open && due) {
        sim_many_abandon(w, client, owner);
    }
    if (m->phase == SIM_MANY_HOLD && due) {
        section_over(w, client, owner);
    } else if (m->phase == SIM_MANY_TRY && !m->open) {
        answered(w, client, owner);
    } else if (m->phase == SIM_MANY_BACK && !m->open) {
        go_on(w, client, owner);
    } else if (m->phase == SIM_MANY_WAIT && !m->open) {
        if (m->part[m->missed].err) {
            sim_many_give_back(w, client, owner, 0, SIM_MANY_END);
        } else if (++m->held == m->count) {
            enter(w, client, owner);
        } else {
            visit(w, client, owner);
        }
    }
    return true;
}

void sim_many_told(struct sim_world *w, int client, int owner,
                   struct snib__acquisition *s, uint8_t news)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    int caller = (owner - w->callers) / SIM_NAMES;
    int k = (owner - w->callers) % SIM_NAMES;
    struct sim_many *m = &c->many[caller];
    bool was_open = m->open > 0;
    if (news & SNIB__NEWS_SETTLED && l->state == SIM_OWNER_WAITING) {
        m->open--;
        if (s->state == SNIB__ACQ_REFUSED) {
            snib_err err = s->err;
            snib__acquisition_done(c->engine, s);
            sim_many_refused(w, client, caller, k, err);
        } else {
            sim_many_granted(w, client, caller, k);
        }
    }
    if (news & SNIB__NEWS_RELEASED && l->state == SIM_OWNER_ENDING) {
        theorem_release_is_true(w, client, owner, s->err, true);
        snib__acquisition_done(c->engine, s);
        l->acq = NULL;
        l->state = SIM_OWNER_DONE;
        m->open--;
    } else if (news & SNIB__NEWS_STATE && l->state == SIM_OWNER_HOLDING) {
        theorem_no_needless_loss(w, l->name, s);
    }
    if (was_open && !m->open) {
        sim_many_wake(w, client, caller, w->t);
    }
}

/* Choose the names and their order. */
static void choose(struct sim_world *w, int client, int owner)
{
    struct sim_many *m = &w->client[client].many[owner];
    int name[SIM_NAMES] = {0, 1, 2, 3}, left = w->opt.names;
    uint32_t chosen = 0;
    for (int k = 0; k < m->count; k++, left--) {
        int at = sim_upto(&w->work, left), one = name[at];
        name[at] = name[left - 1];
        chosen |= UINT32_C(1) << one;
        sim_many_owner(w, client, owner, k)->name = one;
    }
    for (int n = 0, k = 0; m->ordered && n < w->opt.names; n++) {
        if (chosen >> n & 1) {
            sim_many_owner(w, client, owner, k++)->name = n;
        }
    }
}

bool sim_many_start(struct sim_world *w, int client, int owner)
{
    const struct sim_options *o = &w->opt;
    struct sim_many *m = &w->client[client].many[owner];
    if (!o->many_pct || !sim_chance(w, o->many_pct)) {
        return false;
    }
    *m = (struct sim_many){.all = sim_chance(w, o->all_pct)};
    m->count = 2 + sim_upto(&w->work, o->names - 1);
    m->ordered = !m->all && sim_chance(w, 70);
    if (m->all) {
        m->limit_at = w->t + o->request_ms * SIM_MS;
    } else if (sim_chance(w, o->timed_pct)) {
        m->limit_at =
            w->t + (1 + sim_upto(&w->work, (int)o->limit_ms)) * SIM_MS;
    }
    choose(w, client, owner);
    w->client[client].owner[owner].state = SIM_OWNER_MANY;
    visit(w, client, owner);
    return true;
}
