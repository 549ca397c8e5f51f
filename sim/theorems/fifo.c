/* First come, first served among live clients, in order of arrival at the store
 * (P7).
 *
 * Checked at the store, in worlds without faults, where everybody who waits is
 * alive and heard of: the order in which requests were told "queued" is
 * compared with the order in which they are granted, by whatever step. A
 * request that is granted must be the first of those waiting. A request that
 * was never queued may be granted only when nobody waits (no barging). */
#include <string.h>

#include "sim/world.h"

enum { ID = 32 };

static int place_of(const struct sim_queue *q, const char *id)
{
    for (int i = 0; i < q->n; i++) {
        if (memcmp(q->id[i], id, ID) == 0) {
            return i;
        }
    }
    return -1;
}

static void leave(struct sim_queue *q, int at)
{
    q->n--;
    memmove(q->id[at], q->id[at + 1], (size_t)(q->n - at) * sizeof q->id[0]);
}

static void granted(struct sim_world *w, int name, const char *id)
{
    struct sim_queue *q = &w->queue_at[name];
    int at = place_of(q, id);
    if (memcmp(q->holder, id, ID) == 0) {
        return; /* told again */
    }
    memcpy(q->holder, id, ID);
    if (at > 0 || (at < 0 && q->n > 0)) {
        sim_fail(w, "first come, first served",
                 "name %d: %.8s (%s) before %.8s, the first of %d", name, id,
                 at > 0 ? "queued" : "not queued", q->id[0], q->n);
    } else if (at == 0) {
        leave(q, 0);
    }
}

/* Called for every request, and for every waiter that is told of its grant. */
void theorem_first_come_first_served(struct sim_world *w,
                                     const struct sim_seen *s)
{
    if (w->opt.fault_count || sim_kinds(w) || s->name < 0) {
        return; /* order.c checks those kinds */
    }
    struct sim_queue *q = &w->queue_at[s->name];
    int at = place_of(q, s->request);
    if (s->said == SIM_SAID_GRANTED) {
        granted(w, s->name, s->request);
    } else if (s->deed == SIM_DID_CANCEL && at >= 0) {
        leave(q, at);
    } else if (s->said == SIM_SAID_QUEUED && at < 0 && q->n < SIM_WIRE_UP) {
        memcpy(q->id[q->n++], s->request, ID);
    }
}

static bool has_lost_keys(const struct sim_world *w)
{
    return sim_planned(w, SIM_EVICT) || sim_planned(w, SIM_FLUSHALL) ||
           sim_planned(w, SIM_WIPE);
}

void theorem_nobody_is_passed(struct sim_world *w, int name,
                              const struct sim_book *was,
                              const struct sim_book *is)
{
    for (int i = 0; i < is->holders; i++) {
        const struct sim_holder *h = &is->holder[i];
        if (!h->thin || sim_holder_of(was, h->id)) {
            continue;
        }
        for (int k = 0; k < was->waiters; k++) {
            const struct sim_waiter *x = &was->waiter[k];
            if (x->queued && x->alive > is->now && !has_lost_keys(w)) {
                sim_fail(w, "first come, first served",
                         "name %d: %.8s took it without a script, while %.8s "
                         "waits",
                         name, h->id, x->id);
            }
        }
    }
}
