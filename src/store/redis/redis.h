/* store/redis/redis.h — locks on one Redis server (or a primary with
 * replicas): redis://[user:password@]host[:port][/db] and
 * redis+unix:///path?db=N. Protocol, keys and promises: docs/REDIS.md. */
#ifndef SNIB__REDIS_H
#define SNIB__REDIS_H

#include "core/store.h"

extern const struct snib__store_ops snib__redis_store_ops;

#endif
