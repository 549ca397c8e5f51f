/* store/zookeeper/state.c — how the store is, as far as that is known without
 * asking it. */
#include <stdio.h>
#include <string.h>

#include "store/zookeeper/zookeeper_i.h"

static const struct snib__zoo *state_of(const struct snib__store *store)
{
    return (const struct snib__zoo *)(const void *)store;
}

void snib__zoo_state(const struct snib__store *store, snib_instant now,
                     struct snib__store_state *ret)
{
    const struct zoo_session *s = &state_of(store)->session;
    (void)now;
    ret->reachable = s->state == ZOO_READY;
    ret->nodes_reachable = ret->reachable;
    ret->since = s->turned;
    if (!ret->reachable) {
        ret->err = s->err;
        memcpy(ret->text, s->text, sizeof ret->text);
    }
}

bool snib__zoo_server(const struct snib__store *store, snib_instant now,
                      uint32_t node, struct snib__server *ret)
{
    const struct snib__zoo *z = state_of(store);
    const struct zoo_session *s = &z->session;
    ret->state.nodes = 1;
    snib__zoo_state(store, now, &ret->state);
    memcpy(ret->address, z->out->conn[s->at]->address, sizeof ret->address);
    snprintf(ret->product, sizeof ret->product, "ZooKeeper");
    if (s->state == ZOO_READY) {
        ret->connected = s->turned;
    }
    return node == 0;
}
