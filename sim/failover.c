/* sim/failover.c — worlds of a primary and a replica that is promoted.
 *
 * Redis replicates without waiting: what the primary has acknowledged may not
 * have reached the replica. When that is promoted, the last of what was written
 * (the fault's ms) is lost. And nobody stops the old primary. It may be dead, or
 * go on for a while, granting and renewing to the clients whose connections it
 * has; or it stood still and wakes, and does what lies in its sockets, until it
 * hears that another was promoted. Then it closes its connections and becomes
 * the replica of the new one.
 *
 * The clients know one name (as of an address that moves): a connection that is
 * made leads to the primary of then, and stays at that server.
 *
 * Or the primary was a replica for a moment and is the primary again, with what
 * another had then: connections on which nothing was sent meanwhile go on.
 *
 * Node 0 is always the primary, and node 1 the other one: at a promotion they
 * change places, with all that is under way to them. So what is told of servers
 * and books is told of the server that clients should ask.
 *
 * Exclusion is checked, and breaks: that is what these worlds are to show.
 *
 * With replicas= a third server is the replica that acknowledges what is written
 * (the one that is promoted lacks it all the same). At the promotion it goes over
 * to the new primary; or stays with the old one until that is none any more.
 *
 * The drawing comes from a stream of its own, and takes the place of what was
 * drawn for other worlds. */
#include <string.h>

#include "sim/world.h"

void sim_failover_start(struct sim_world *w, struct sim_lua *lua)
{
    struct sim_server *s = &w->node[1];
    s->world = w;
    s->redis = sim_redis_new(lua, w->opt.seed + 1);
    sim_redis_set_hook(s->redis, sim_redis_watch, s);
    sim_redis_follow(s->redis, w->node[0].redis);
    if (w->opt.replicas) {
        sim_redis_followed(w->node[0].redis, true, false);
    }
    if (w->opt.apart_ms) {
        s->step_us = 1000 * (int64_t)snib__rng_below(
                                &w->misc, 2 * (uint64_t)w->opt.apart_ms + 1) -
                     1000 * w->opt.apart_ms;
    }
}

/* -- the promotion --------------------------------------------------------- */

static void trade(struct sim_world *w)
{
    struct sim_server was = w->node[0];
    w->node[0] = w->node[1];
    w->node[1] = was;
    for (int k = 0; k < 2; k++) {
        sim_redis_set_hook(w->node[k].redis, sim_redis_watch, &w->node[k]);
    }
    for (size_t i = 1; i <= w->heap_size; i++) {
        w->heap[i].node ^= 1; /* of the others nobody reads it */
    }
    for (int c = 0; c < w->opt.clients; c++) {
        struct sim_client *l = &w->client[c];
        int64_t isolated = l->isolated_until[0];
        l->isolated_until[0] = l->isolated_until[1];
        l->isolated_until[1] = isolated;
        for (int i = 0; i < w->wires; i++) {
            l->wire[i].node ^= l->wire[i].state != SIM_WIRE_NONE;
        }
    }
}

/* What the primary is now, and what it has, is not what it was. */
static void forgets(struct sim_world *w)
{
    if (w->opt.apart_ms) { /* by this clock leases may be over sooner */
        w->p2_off = true;
        sim_book_lapse(w);
    }
    w->p1_off = w->died = true;
    w->told.lost_at = w->forgot_at = w->t;
    w->faults++;
    sim_book_again(w);
}

/* With replicas= there is a third server, which acknowledges. Does it follow this
 * one; or is it thought to, while it gets nothing any more? */
static void follows(struct sim_world *w, struct sim_server *s, bool is,
                    bool cut_off)
{
    if (w->opt.replicas) {
        sim_redis_followed(s->redis, is, cut_off);
    }
}

void sim_failover_cut_off(struct sim_world *w)
{
    if (w->opt.replicas == SIM_THIRD_LAGS && !w->node[1].is_old) {
        follows(w, &w->node[0], true, true);
    }
}

/* `old` becomes the primary in the place of s. */
static void third_server(struct sim_world *w, struct sim_server *s,
                         struct sim_server *old)
{
    bool stays = w->opt.replicas == SIM_THIRD_STAYS;
    follows(w, s, true, !stays);
    follows(w, old, !stays, false);
}

static void take_backup(struct sim_server *from, struct sim_server *to)
{
    sim_redis_restore(to->redis, from->replica);
    sim_redis_snapshot_free(from->replica);
    from->replica = NULL;
    sim_redis_promote(to->redis);
}

void sim_failover_promote(struct sim_world *w, const struct sim_fault *f)
{
    struct sim_server *s = &w->node[0], *old = &w->node[1];
    if (!sim_serve_has_backup(s) || old->is_old) {
        return; /* another was promoted meanwhile */
    }
    if (f->b == 2) {
        sim_note(w, "  the primary is the primary again");
        take_backup(s, s);
        follows(w, s, true, false);
        forgets(w);
        return;
    }
    sim_note(w, "  the replica is promoted, %lld ms behind; the old primary %s",
             (long long)f->ms,
             f->b   ? "wakes"
             : f->a ? "goes on"
                    : "is dead");
    sim_redis_restart(old->redis, false);
    take_backup(s, old);
    third_server(w, s, old);
    trade(w);
    old->is_old = true;
    forgets(w);
    if (!f->a) {
        sim_failover_demote(w);
        return;
    }
    int64_t until = w->t + f->a * SIM_MS;
    w->two_primaries = true;
    w->trouble_until = until > w->trouble_until ? until : w->trouble_until;
    sim_push(w, (struct sim_event){.at = w->t + f->a * SIM_MS,
                                   .kind = SIM_EV_DEMOTE});
}

void sim_failover_demote(struct sim_world *w)
{
    struct sim_server *s = &w->node[1];
    if (!sim_failover(w) || !s->is_old) {
        return;
    }
    sim_note(w, "  the old primary is none any more");
    s->is_old = false;
    w->demoted_at = w->t;
    s->paused_until = 0;
    sim_net_break_all(w, 1);
    sim_redis_restart(s->redis, false);
    sim_redis_follow(s->redis, w->node[0].redis);
    follows(w, s, false, false);
    follows(w, &w->node[0], true, false);
}

/* -- the plan -------------------------------------------------------------- */

void sim_failover_draw(struct sim_options *o)
{
    struct snib__rng r;
    int64_t at = 0;
    snib__rng_init(&r, &(struct snib__seed){{o->seed, 51, 0, 0}});
    sim_sections_draw(o, &r, 5, 500);
    o->rate_ppm = 2000 * sim_upto(&r, 2);
    for (int n = 1 + sim_upto(&r, 3); n > 0; n--) {
        struct sim_fault f = {.kind = SIM_PROMOTE};
        at += 200 + sim_upto(&r, 3 * (int)o->lease_ms);
        f.at_ms = at;
        f.ms = 1 + sim_upto(&r, sim_upto(&r, 2) ? 30 : (int)o->lease_ms);
        if (sim_upto(&r, 2)) {
            f.a = 1 + sim_upto(&r, 2 * (int)o->lease_ms);
            f.b = sim_upto(&r, 2);
        }
        o->fault[o->fault_count++] = f;
        at += f.ms + f.a;
    }
    if (sim_upto(&r, 2)) { /* who reconnects finds the new one */
        o->fault[o->fault_count++] =
            (struct sim_fault){.at_ms = o->fault[0].at_ms + o->fault[0].ms + 1,
                               .kind = SIM_CUT,
                               .a = sim_upto(&r, o->clients)};
    }
}
