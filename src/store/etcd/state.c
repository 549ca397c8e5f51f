/* store/etcd/state.c — how the store is, as far as that is known without asking
 * it. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/etcd/etcd_i.h"

static const struct snib__etcd *state_of(const struct snib__store *store)
{
    return (const struct snib__etcd *)(const void *)store;
}

void snib__etcd_state(const struct snib__store *store, snib_instant now,
                      struct snib__store_state *ret)
{
    const struct snib__etcd *e = state_of(store);
    const struct etcd_session *s = &e->session;
    (void)now;
    ret->reachable = snib__etcd_serves(s);
    ret->nodes_reachable = ret->reachable;
    ret->since = s->turned;
    if (!ret->reachable) {
        ret->err = s->err;
        memcpy(ret->text, s->text, sizeof ret->text);
    }
}

bool snib__etcd_server(const struct snib__store *store, snib_instant now,
                       uint32_t node, struct snib__server *ret)
{
    const struct snib__etcd *e = state_of(store);
    const struct etcd_session *s = &e->session;
    ret->state.nodes = 1;
    snib__etcd_state(store, now, &ret->state);
    memcpy(ret->address, e->out->conn[s->at]->address, sizeof ret->address);
    snprintf(ret->product, sizeof ret->product, "etcd");
    memcpy(ret->version, s->version, sizeof ret->version);
    if (s->cluster) {
        snprintf(ret->run_id, sizeof ret->run_id, "%016llx",
                 (unsigned long long)s->cluster);
    }
    if (s->state == ETCD_READY) {
        ret->connected = s->turned;
    }
    return node == 0;
}
