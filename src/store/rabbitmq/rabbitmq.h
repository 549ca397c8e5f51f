/* store/rabbitmq/rabbitmq.h — the store of amqp: and amqps: URLs. store.c says how
 * it works. */
#ifndef SNIB__RABBITMQ_H
#define SNIB__RABBITMQ_H

#include "core/store.h"

extern const struct snib__store_ops snib__rabbitmq_store_ops;

#endif
