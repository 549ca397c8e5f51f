/* store/rabbitmq/state.c — how the store is, as far as that is known without asking
 * it. */
#include <stdio.h>
#include <string.h>

#include "store/rabbitmq/rabbitmq_i.h"

static const struct snib__mq *state_of(const struct snib__store *store)
{
    return (const struct snib__mq *)(const void *)store;
}

void snib__mq_state(const struct snib__store *store, snib_instant now,
                    struct snib__store_state *ret)
{
    const struct mq_session *s = &state_of(store)->session;
    (void)now;
    ret->reachable = s->state == MQ_READY;
    ret->nodes_reachable = ret->reachable;
    ret->since = s->turned;
    if (!ret->reachable) {
        ret->err = s->err;
        memcpy(ret->text, s->text, sizeof ret->text);
    } else if (s->blocked[0]) {
        snprintf(ret->text, sizeof ret->text,
                 "the broker takes no messages: %s", s->blocked);
    }
}

bool snib__mq_server(const struct snib__store *store, snib_instant now,
                     uint32_t node, struct snib__server *ret)
{
    const struct snib__mq *z = state_of(store);
    const struct mq_session *s = &z->session;
    ret->state.nodes = 1;
    snib__mq_state(store, now, &ret->state);
    memcpy(ret->address, z->out->conn[s->at]->address, sizeof ret->address);
    snprintf(ret->product, sizeof ret->product, "RabbitMQ");
    if (s->state == MQ_READY) {
        memcpy(ret->version, s->version, sizeof ret->version);
        ret->connected = s->turned;
    }
    return node == 0;
}
