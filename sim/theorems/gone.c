/* Nothing stays of a refusal (snib_acquire). A caller that is told "no" has
 * nothing at the store: neither a grant nor a live position in its queue.
 *
 * Checked at the instant of the refusal, for the errors that say so. For
 * TIMEOUT this holds also while things break, unless the store had not answered
 * the cancel within a twentieth of the patience for an answer, or is known to
 * be gone. For BUSY, and for CANCELLED of a batch, it holds where nothing was
 * broken.
 *
 * Checked now and then, for every refusal, UNKNOWN too: it ends in time. Once
 * healed, that is 7.5 s; before that, while nothing is wrong with the client's
 * connections and nothing else breaks, two patiences and a pause between
 * attempts.
 *
 * A request may be shared by owners of a client: if another owner waits by it,
 * or got it, it is that owner's. Excused: requests of a client that has died;
 * requests that began before the store lost data or its clock was set back,
 * since a late copy may have been let in then; and, for the length of a lease,
 * those that began before etcd had this leader, who gives all leases their time
 * anew, and executes what waited for one. A grant that was lost and has a
 * lock-delay is left to end by itself. */
#include <string.h>

#include "core/engine_i.h"
#include "sim/etcd/model.h"
#include "sim/world.h"

enum { STAY_MAX_MS = 7500, PAUSES_MS = 1500 };

/* -- by which request ------------------------------------------------------ */

/* The acquisition by which an owner waits; NULL: it does not wait. */
static const struct snib__acquisition *waits(const struct sim_owner *l)
{
    return l->state == SIM_OWNER_WAITING   ? l->acq
           : l->state != SIM_OWNER_NESTING ? NULL
           : l->nest.asks                  ? l->nest.wait
                                           : l->more;
}

/* What was refused to owners of this client was granted to another one. */
static void note_grant(struct sim_world *w, int client, const uint64_t id[2])
{
    char its[33];
    sim_id_text(id, its);
    for (int i = 0; i < SIM_REFUSED; i++) {
        struct sim_refused *r = &w->told.refused[i];
        if (r->asked && r->client == client && sim_same(its, r->id)) {
            r->asked = 0;
        }
    }
}

/* Note the request by which the owner waits. While it waits behind another
 * owner, or for the end of an earlier grant of its client, what stands there is
 * not its own. */
static void note_wait(struct sim_world *w, int client, struct sim_owner *l)
{
    const struct snib__acquisition *s = waits(l);
    const struct snib__claim *t = s ? s->local->claim : NULL;
    if (!t) {
        return;
    }
    switch ((snib__claim_state)t->state) {
    case SNIB__CLAIM_ACQUIRING:
    case SNIB__CLAIM_QUEUED:
    case SNIB__CLAIM_CONFIRM:
        l->waits_by[0] = t->id[0];
        l->waits_by[1] = t->id[1];
        break;
    case SNIB__CLAIM_HELD:
    case SNIB__CLAIM_RISK:
    case SNIB__CLAIM_KEPT:
        note_grant(w, client, t->id);
        l->waits_by[0] = l->waits_by[1] = 0;
        break;
    case SNIB__CLAIM_LEAVING:
        break;
    }
}

void theorem_notes_waits(struct sim_world *w)
{
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        int client = i / w->opt.owners;
        note_wait(w, client, &w->client[client].owner[i % w->opt.owners]);
    }
}

static bool is_by(const struct sim_owner *l, const char *id)
{
    char its[33];
    sim_id_text(l->waits_by, its);
    return sim_same(its, id);
}

/* -- whose is it ----------------------------------------------------------- */

/* Does this owner have that request's grant at this name? An owner that has
 * lost its grant does not know its id any more, so it counts as well. */
static bool has(const struct sim_owner *l, int name, const char *id)
{
    struct sim_grant g[SIM_GRANTS];
    char its[33];
    int n = sim_grants(l, g);
    if (l->state == SIM_OWNER_ENDING && l->acq) {
        g[0] = (struct sim_grant){l->acq, l->name};
        n = 1;
    }
    for (int k = 0; k < n; k++) {
        sim_acquisition_id(g[k].acq, its);
        if (g[k].name == name &&
            (g[k].acq->state == SNIB__ACQ_DEAD || sim_same(its, id))) {
            return true;
        }
    }
    return false;
}

/* Does another owner of the client wait by this request, or have its grant? */
static bool is_somebodys(const struct sim_world *w, int client, int except,
                         int name, const char *id)
{
    for (int i = 0; i < w->opt.owners; i++) {
        const struct sim_owner *l = &w->client[client].owner[i];
        if (i != except && sim_wants(l) == name && waits(l) && is_by(l, id)) {
            return true;
        }
        if (i != except && has(l, name, id)) {
            return true;
        }
    }
    return false;
}

static bool is_held(const struct sim_world *w, int name, const char *id)
{
    const struct sim_holder *h = sim_holder_of(&w->shelf[name].book, id);
    return h && h->end > sim_wall_us(w, 0) / 1000;
}

static bool is_there(const struct sim_world *w, int name, const char *id)
{
    const struct sim_waiter *x = sim_waiter_of(&w->shelf[name].book, id);
    return is_held(w, name, id) || (x && x->alive > sim_wall_us(w, 0) / 1000);
}

/* -- at that instant ------------------------------------------------------- */

/* Has the store had too little time to answer the cancel, or is it known to be
 * gone? */
static bool need_not_know(struct sim_world *w, int client, int owner)
{
    const struct sim_client *c = &w->client[client];
    const struct sim_owner *l = &c->owner[owner];
    struct snib__store_state is;
    snib__engine_store_state(c->engine, sim_now(w, client), &is);
    int64_t limit = sim_local(c, l->asked_at) + l->limit_at - l->asked_at;
    /* of a batch: its limit was given like that */
    if (sim_local(c, l->limit_at) < limit) {
        limit = sim_local(c, l->limit_at);
    }
    int64_t until = limit + w->opt.request_ms * SIM_MS / SNIB__CONFIRM_PART;
    return is.err || (l->limit_at && sim_local(c, w->t) >= until);
}

/* Does the request stand although the caller was told that nothing does? A try
 * may have shared its request with an owner that wanted to queue, and have left
 * before it. */
static bool stands(struct sim_world *w, int client, int owner, snib_err err,
                   const struct sim_refused *r)
{
    bool batch = owner >= w->callers;
    switch (err) {
    case SNIB_ERR_TIMEOUT:
        return !need_not_know(w, client, owner) && is_there(w, r->name, r->id);
    case SNIB_ERR_BUSY:
        return !w->opt.fault_count &&
               (w->opt.owners == 1 || batch ? is_there(w, r->name, r->id)
                                            : is_held(w, r->name, r->id));
    case SNIB_ERR_CANCELLED:
        return !w->opt.fault_count && is_there(w, r->name, r->id);
    default:
        return false;
    }
}

void theorem_refused_is_gone(struct sim_world *w, int client, int owner,
                             snib_err err)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    if (sim_quorum(w) || !(l->waits_by[0] | l->waits_by[1]) ||
        w->told.lost_at >= l->asked_at) {
        return;
    }
    struct sim_refused *r = &w->told.refused[w->told.refusals++ % SIM_REFUSED];
    char id[33];
    *r = (struct sim_refused){.name = sim_wants(l),
                              .client = client,
                              .owner = owner,
                              .life = w->client[client].life,
                              .asked = l->asked_at};
    sim_id_text(l->waits_by, id);
    memcpy(r->id, id, SIM_ID);
    if (stands(w, client, owner, err, r) &&
        !is_somebodys(w, client, owner, r->name, r->id)) {
        sim_fail(w, "nothing stays of a refusal",
                 "client %d owner %d: name %d was refused (%s), %.8s stands",
                 client, owner, r->name, snib_err_name(err), r->id);
    }
}

/* -- in time --------------------------------------------------------------- */

static int64_t most_ms(const struct sim_world *w)
{
    int64_t delay =
        w->opt.delay_ms ? sim_lease_most(&w->opt) + w->opt.delay_ms : 0;
    return delay + (w->healed ? STAY_MAX_MS + sim_longer_ms(w)
                              : 2 * w->opt.request_ms + PAUSES_MS);
}

/* Until when a lease of before etcd's last election may run. */
static int64_t lease_anew(const struct sim_world *w,
                          const struct sim_refused *r)
{
    enum { ROUNDED_MS = 2000 };
    bool before = sim_etcd(w) && w->etcd->led_at > r->asked;
    return before ? w->etcd->led_at +
                        (sim_lease_most(&w->opt) + ROUNDED_MS) * SIM_MS
                  : 0;
}

static bool is_calm(const struct sim_world *w, const struct sim_refused *r)
{
    return w->healed || (r->faults == w->faults && sim_is_sound(w, r->client));
}

static void look_at(struct sim_world *w, struct sim_refused *r, bool at_end)
{
    if (r->life != w->client[r->client].life || w->told.lost_at >= r->asked) {
        r->asked = 0;
        return;
    }
    if (!is_there(w, r->name, r->id) || !is_calm(w, r) ||
        is_somebodys(w, r->client, -1, r->name, r->id)) {
        r->since = 0;
        r->faults = w->faults;
        return;
    }
    r->since = r->since ? r->since : w->t;
    int64_t from =
        w->healed && w->healed_at > r->since ? w->healed_at : r->since;
    int64_t anew = lease_anew(w, r);
    from = anew > from ? anew : from;
    /* With a lock-delay a late copy of what was lost may be let in: wait for
     * its end. */
    bool over = at_end && !w->opt.delay_ms && w->t >= anew;
    if (over || w->t - from > most_ms(w) * SIM_MS) {
        sim_fail(w, "nothing stays of a refusal",
                 "name %d: %.8s of client %d owner %d stands for %lld ms, for "
                 "nobody",
                 r->name, r->id, r->client, r->owner,
                 (long long)((w->t - r->since) / SIM_MS));
    }
}

void theorem_refused_leave_nothing(struct sim_world *w, bool at_end)
{
    for (int i = 0; i < SIM_REFUSED; i++) {
        if (w->told.refused[i].asked) {
            look_at(w, &w->told.refused[i], at_end);
        }
    }
}
