/* sim/etcd/leases.c — leases: granted through the log, ended through it by
 * whoever leads.
 *
 * The time to live counts by the leader's clock, from when the grant was applied,
 * or from when this one became the leader. When it is over the leader ends the
 * lease soon, within half a second, and its keys are gone with one revision. A
 * lease that nobody can end meanwhile still stands, and so do its keys.
 *
 * Servers of before the end of 2023 that have led before may end a lease by what
 * they knew then: from its grant on. That is never before its time, since no
 * lease here is ever kept alive.
 *
 * Each end is at a whole millisecond of the wall clock: the books count in those. */
#include <stdlib.h>
#include <string.h>

#include "sim/etcd/model.h"

enum { LEAST_S = 2, SOON_MS = 500, MINUTE = 60 };
#define SECOND INT64_C(1000000000)

/* The next whole millisecond of the servers' wall clock. */
static int64_t whole_ms(const struct sim_world *w, int64_t t)
{
    int64_t us = w->wall_base_us + (t + 999) / 1000;
    us = (us + 999) / 1000 * 1000;
    return (us - w->wall_base_us) * 1000;
}

static void ends_at(struct sim_world *w, struct sim_etcd_lease *l, int64_t at)
{
    l->over = whole_ms(w, at);
    if (l->ttl < 60 * MINUTE) { /* no world lasts as long as others */
        sim_push(w, (struct sim_event){
                        .at = l->over, .kind = SIM_EV_LEASE, .a = (int)l->id});
    }
}

/* Its time begins now, by the clock of who leads. */
static void begins(struct sim_world *w, struct sim_etcd_lease *l)
{
    struct sim_etcd *e = w->etcd;
    int ppm = e->leader >= 0 ? e->member[e->leader].ppm : 0;
    int64_t soon = sim_etcd_dice(e, 50) ? sim_etcd_upto(e, SOON_MS) : 0;
    int64_t end = w->t + l->ttl * (SECOND - (int64_t)ppm * 1000);
    l->sure = l->sure ? l->sure : end;
    ends_at(w, l, end + soon * SIM_MS);
}

int64_t sim_etcd_lease_grant(struct sim_world *w, int64_t ttl)
{
    struct sim_etcd_leases *all = &w->etcd->leases;
    if (all->count == all->room) {
        all->room = all->room ? 2 * all->room : 64;
        all->lease =
            realloc(all->lease, (size_t)all->room * sizeof *all->lease);
        if (!all->lease) {
            abort();
        }
    }
    struct sim_etcd_lease *l = &all->lease[all->count++];
    *l = (struct sim_etcd_lease){.id = ++w->etcd->lease_id,
                                 .ttl = ttl < LEAST_S ? LEAST_S : ttl};
    begins(w, l);
    return l->id;
}

void sim_etcd_leases_anew(struct sim_world *w)
{
    for (int i = 0; i < w->etcd->leases.count; i++) {
        begins(w, &w->etcd->leases.lease[i]);
    }
}

void sim_etcd_leases_old(struct sim_world *w)
{
    struct sim_etcd *e = w->etcd;
    for (int i = 0; i < e->leases.count; i++) {
        struct sim_etcd_lease *l = &e->leases.lease[i];
        if (l->sure <= w->t && l->over > w->t && sim_etcd_dice(e, 50)) {
            ends_at(w, l, w->t + 1);
        }
    }
}

void sim_etcd_leases_due(struct sim_world *w)
{
    for (int i = 0; i < w->etcd->leases.count; i++) {
        struct sim_etcd_lease *l = &w->etcd->leases.lease[i];
        if (l->over <= w->t) {
            ends_at(w, l, w->t + SIM_MS);
        }
    }
}

/* Does somebody hold by it, or wait? Nothing else is in anybody's way. */
static bool stands(const struct sim_etcd_key *k)
{
    return k->name >= 0 && k->kind == SNIB__KEY_CLAIM &&
           (snib__rules_claim_holds(&k->c) || k->c.state == SNIB__WAITS ||
            k->c.state == SNIB__UNRESPONSIVE);
}

/* One revision for all of its keys. */
static void drop_keys(struct sim_world *w, int64_t id)
{
    struct sim_etcd_keys *keys = &w->etcd->keys;
    bool any = false;
    for (int i = keys->count; i-- > 0;) {
        if (keys->key[i].lease != id) {
            continue;
        }
        keys->revision += !any;
        any = true;
        if (stands(&keys->key[i])) {
            w->etcd->left_at[keys->key[i].name] = w->t;
        }
        sim_etcd_tell_watches(w, &keys->key[i], true);
        sim_etcd_delete(keys, &keys->key[i]);
    }
}

void sim_etcd_lease_ends(struct sim_world *w, int64_t id)
{
    static _Thread_local struct sim_book is;
    struct sim_etcd *e = w->etcd;
    struct sim_etcd_lease *l = sim_etcd_lease_find(e, id);
    if (!l || l->over > w->t || e->leader < 0 || e->lost_at) {
        return; /* it was given its time anew, or nobody can end it */
    }
    drop_keys(w, id);
    for (int n = 0; n < w->opt.names; n++) {
        if (w->etcd->left_at[n] == w->t) { /* who was there may come anew */
            sim_book_read(w, n, &is);
            sim_book_keep(w, n, &is);
        }
    }
    *l = e->leases.lease[--e->leases.count];
}
