/* sim/etcd/known.c — what of a cluster, and of its clients, can be seen without
 * changing anything: for the model, and for the theorems. */
#include "core/engine_i.h"
#include "sim/etcd/model.h"
#include "store/etcd/etcd_i.h"

/* -- who takes part ---------------------------------------------------------- */

bool sim_etcd_takes_part(const struct sim_world *w, int k)
{
    const struct sim_server *s = &w->node[k];
    return s->paused_until <= w->t && s->down_until <= w->t &&
           w->etcd->member[k].apart_until <= w->t;
}

bool sim_etcd_has_majority(const struct sim_world *w)
{
    int n = 0;
    for (int k = 0; k < w->etcd->members; k++) {
        n += sim_etcd_takes_part(w, k);
    }
    return n > w->etcd->members / 2;
}

bool sim_etcd_is_led(const struct sim_world *w)
{
    const struct sim_etcd *e = w->etcd;
    return e->leader >= 0 && sim_etcd_takes_part(w, e->leader) &&
           sim_etcd_has_majority(w);
}

bool sim_etcd_serves_at(const struct sim_world *w, int node)
{
    return !w->etcd->lost_at && sim_etcd_takes_part(w, node) &&
           sim_etcd_is_led(w);
}

int sim_etcd_leader_at(const struct sim_world *w, int node)
{
    const struct sim_etcd *e = w->etcd;
    bool long_ago = e->lost_at && w->t >= e->elect_at;
    return e->member[node].alone && long_ago ? -1 : e->leader;
}

/* -- what is there ----------------------------------------------------------- */

struct sim_etcd_conn *sim_etcd_conn(const struct sim_etcd_member *m, int id)
{
    struct sim_etcd_conn *c = m->conns;
    while (c && c->id != id) {
        c = c->next;
    }
    return id ? c : NULL;
}

struct sim_etcd_lease *sim_etcd_lease_find(struct sim_etcd *e, int64_t id)
{
    for (int i = e->leases.count; i-- > 0;) {
        if (e->leases.lease[i].id == id) {
            return &e->leases.lease[i];
        }
    }
    return NULL;
}

const struct sim_etcd_lease *sim_etcd_lease_of(const struct sim_world *w,
                                               int64_t id)
{
    return sim_etcd_lease_find(w->etcd, id);
}

int64_t sim_etcd_left_at(const struct sim_world *w, int name)
{
    return w->etcd->left_at[name];
}

/* -- clients ----------------------------------------------------------------- */

const struct snib__etcd *sim_etcd_store(const struct sim_world *w, int client)
{
    return (const struct snib__etcd *)(const void *)w->client[client]
        .engine->store;
}

int sim_etcd_at(const struct sim_world *w, int client)
{
    return (int)sim_etcd_store(w, client)->session.at;
}

bool sim_etcd_is_ready(const struct sim_world *w, int client)
{
    return snib__etcd_is_ready(&sim_etcd_store(w, client)->session);
}

bool sim_etcd_serves(const struct sim_world *w, int client)
{
    return sim_etcd_is_ready(w, client) &&
           sim_etcd_serves_at(w, sim_etcd_at(w, client));
}
