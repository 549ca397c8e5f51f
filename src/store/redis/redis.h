/* store/redis/redis.h — locks on one Redis server (or a primary with
 * replicas): redis://[user:password@]host[:port][/db] and
 * redis+unix:///path?db=N. Protocol, keys and promises: docs/REDIS.md. */
#ifndef SNIB__REDIS_H
#define SNIB__REDIS_H

#include "core/store.h"

extern const struct snib__store_ops snib__redis_store_ops;

/* The store's estimate of the server's clock in ms. It is never ahead of that
 * clock. 0: not known. */
int64_t snib__redis_clock(const struct snib__store *, snib_instant now);

#endif
