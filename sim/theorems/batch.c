/* Several locks as one batch: the promises of snib__engine_gather and
 * several.lua.
 *
 * At the store, after every such step. All or none: a batch that must get all
 * has all when its step is over, or nothing that it did not have before: no
 * grant and no position in a queue (token numbers may be used up). Any other
 * batch has the names before the first that was refused; the names behind it
 * are left as they were. The answer for each name is what stands then, and it
 * says "held" only where somebody stands or waits. Being one step, nobody sees
 * it half done. So it must be one step: while nothing is broken,
 * requests that were gathered travel together, requests that were parted do
 * not, and requests that were dropped do not travel at all.
 *
 * At the clients, when all of a batch are answered. While nothing is broken
 * they are told what the server did: all or none, or the first ones. CANCELLED
 * is said only because another request of the batch was refused. (gone.c checks
 * that nothing stays there of what was refused.) */
#include <string.h>

#include "sim/world.h"

/* -- at the server --------------------------------------------------------- */

/* Is anything there besides this request itself? */
static bool in_the_way(const struct sim_book *b, const char *id)
{
    bool found = b->gate > 0 || b->size == 0;
    for (int i = 0; i < b->holders; i++) {
        found |=
            sim_live(&b->holder[i], b->now) && !sim_same(b->holder[i].id, id);
    }
    for (int i = 0; i < b->waiters; i++) {
        found |= b->waiter[i].queued && b->waiter[i].alive > b->now;
    }
    return found;
}

/* Check one name of a batch of which some were not granted. */
static void one_of_some(struct sim_world *w, const struct sim_act *c, int k,
                        bool is_new)
{
    const struct sim_seen *p = &c->part[k];
    if (c->all && is_new) {
        sim_fail(w, "all or none",
                 "name %d: a grant stays of a batch "
                 "of which name %d was not granted",
                 p->name, c->part[c->missed].name);
    } else if (!c->all && k < c->missed && p->said != SIM_SAID_GRANTED) {
        sim_fail(w, "as far as it goes",
                 "name %d: %d before the first that was refused", p->name,
                 (int)p->said);
    } else if (k > c->missed && p->said != SIM_SAID_OVER) {
        sim_fail(w, "as far as it goes",
                 "name %d: %d behind the first that was refused", p->name,
                 (int)p->said);
    }
}

static void look_at(struct sim_world *w, const struct sim_act *c, int k)
{
    static _Thread_local struct sim_book is;
    const struct sim_seen *p = &c->part[k];
    const struct sim_book *was = &w->shelf[p->name].book;
    const char *id = p->request;
    sim_book_read(w, p->name, &is);
    is.now = p->now_ms ? p->now_ms : is.now;
    const struct sim_holder *h = sim_holder_of(&is, id);
    const struct sim_holder *had = sim_holder_of(was, id);
    bool stands = h && sim_live(h, is.now);
    bool is_new = stands && !(had && sim_live(had, is.now));
    bool granted = p->said == SIM_SAID_GRANTED;
    if (granted ? !stands || h->token != p->given : is_new) {
        sim_fail(w, "the answer is what stands",
                 "name %d: answer %d, token %lld; there is %lld", p->name,
                 (int)p->said, (long long)p->given,
                 (long long)(stands ? h->token : 0));
    }
    if (sim_waiter_of(&is, id) && !sim_waiter_of(was, id)) {
        sim_fail(w, "all or none", "name %d: a batch stands in its queue",
                 p->name);
    }
    if (p->said == SIM_SAID_HELD && !in_the_way(&is, id) &&
        !sim_recovery_runs(w)) {
        sim_fail(w, "a refusal says what is true",
                 "name %d: refused to a batch, and nobody is there", p->name);
    }
    if (c->missed >= 0) {
        one_of_some(w, c, k, is_new);
    } else if (!granted) {
        sim_fail(w, "all or none", "name %d: %d, and none was refused", p->name,
                 (int)p->said);
    }
}

/* The batch that asks for this request just now; NULL: none. */
static struct sim_many *whose(struct sim_world *w, const char *id)
{
    for (int i = 0; i < w->opt.clients * w->callers; i++) {
        int client = i / w->callers, owner = i % w->callers;
        struct sim_many *m = &w->client[client].many[owner];
        if (w->client[client].owner[owner].state != SIM_OWNER_MANY ||
            m->phase != SIM_MANY_TRY) {
            continue;
        }
        for (int k = m->from; k < m->count; k++) {
            if (m->part[k].joined && sim_same(m->part[k].id, id)) {
                return m;
            }
        }
    }
    return NULL;
}

void theorem_all_or_none(struct sim_world *w, const struct sim_act *c)
{
    for (int k = 0; k < c->count; k++) {
        if (c->part[k].name >= 0 && !c->part[k].looked) {
            look_at(w, c, k);
        }
    }
    if (c->missed < 0) {
        return;
    }
    enum sim_said said = c->part[c->missed].said;
    struct sim_many *m = whose(w, c->part[c->missed].request);
    if (m && (said == SIM_SAID_FAILED || said == SIM_SAID_LATE)) {
        m->apart = true; /* that request will be sent once more, alone */
    }
}

static int joined(const struct sim_many *m)
{
    int n = 0;
    for (int k = m->from; k < m->count; k++) {
        n += m->part[k].joined;
    }
    return n;
}

/* c: the batch that s is part of; NULL: s asks for one name alone. */
void theorem_travel_as_asked(struct sim_world *w, const struct sim_act *c,
                             const struct sim_seen *s)
{
    if (!w->opt.many_pct || w->opt.fault_count || s->deed != SIM_DID_ACQUIRE) {
        return;
    }
    const struct sim_many *m = whose(w, s->request);
    if (!m) {
        return;
    }
    int together = m->way == SNIB__BATCH_GO ? joined(m) : 1;
    together = together < 2 ? 0 : together;
    if (m->way == SNIB__BATCH_DROP || (c ? c->count : 0) != together) {
        sim_fail(w, "travel as asked",
                 "name %d: %d in one step, gathered were %d (way %d)", s->name,
                 c ? c->count : 1, joined(m), (int)m->way);
    }
}

/* -- at the clients -------------------------------------------------------- */

/* Was the batch asked for as a whole, with nothing that would part it on the
 * way? An owner of higher rank takes what was granted to another owner of its
 * client, and a grant whose lease is hardly longer than a round trip is asked
 * for once more; such worlds do not count. */
static bool as_one(const struct sim_world *w, const struct sim_many *m)
{
    for (int k = m->from; k < m->count; k++) {
        snib_err err = m->part[k].err;
        if (err == SNIB_ERR_UNKNOWN || err == SNIB_ERR_UNREACHABLE ||
            err == SNIB_ERR_TIMEOUT) {
            return false; /* nobody waited for the answer */
        }
    }
    return m->way == SNIB__BATCH_GO && joined(m) == m->count - m->from &&
           !m->apart && !w->opt.fault_count && !w->opt.prio_pct &&
           w->opt.lease_ms * 1000 > 100 * w->opt.latency_us;
}

static void told_as_one(struct sim_world *w, int client, int owner,
                        const struct sim_many *m, int granted, int first)
{
    int asked = m->count - m->from;
    if (m->all && granted && granted < asked) {
        sim_fail(w, "all or none",
                 "client %d owner %d is told of %d grants, of %d names", client,
                 owner, granted, asked);
    }
    for (int k = first + 1; k < m->count; k++) {
        if (m->part[k].err != SNIB_ERR_CANCELLED) {
            sim_fail(w, "as far as it goes",
                     "client %d owner %d: the %d. name (%s) behind the %d.",
                     client, owner, k, snib_err_name(m->part[k].err), first);
        }
    }
}

void theorem_batch_answered(struct sim_world *w, int client, int owner)
{
    const struct sim_many *m = &w->client[client].many[owner];
    int granted = 0, cancelled = 0, first = -1; /* first: refused */
    for (int k = m->from; k < m->count; k++) {
        const struct sim_part *p = &m->part[k];
        granted += !p->err;
        cancelled += p->err == SNIB_ERR_CANCELLED && p->joined;
        if (first < 0 && p->err && (p->err != SNIB_ERR_CANCELLED)) {
            first = k;
        }
    }
    if (m->way == SNIB__BATCH_DROP && cancelled != joined(m)) {
        sim_fail(w, "a refusal says what is true",
                 "client %d owner %d: %d of %d that were dropped are CANCELLED",
                 client, owner, cancelled, joined(m));
    }
    if (cancelled && first < 0 && !m->apart && m->way != SNIB__BATCH_DROP) {
        sim_fail(w, "a refusal says what is true",
                 "client %d owner %d: CANCELLED, and none was refused", client,
                 owner);
    }
    if (as_one(w, m)) {
        told_as_one(w, client, owner, m, granted,
                    first < 0 || m->all ? m->count : first);
    }
}
