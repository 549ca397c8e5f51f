/* store/cluster/cluster.h — locks on a Redis Cluster:
 * redis+cluster://[user:password@]host[:port],host[:port],…[?nat=FROM=TO,…].
 * docs/REDIS.md says what that promises and what it does not. */
#ifndef SNIB__CLUSTER_H
#define SNIB__CLUSTER_H

#include "core/store.h"

extern const struct snib__store_ops snib__cluster_store_ops;

#endif
