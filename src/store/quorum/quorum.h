/* store/quorum/quorum.h — one lock on a majority of independent servers:
 * redlock://[user:password@]host[:port],host[:port],…[/db][?node_ms=N].
 * docs/QUORUM.md says what that promises and what it does not. */
#ifndef SNIB__QUORUM_H
#define SNIB__QUORUM_H

#include "core/store.h"

extern const struct snib__store_ops snib__quorum_store_ops;

/* The kind of store that the nodes are. The store table's open() takes Redis;
 * tests take a scripted store. */
struct snib__node_kind {
    const struct snib__store_ops *ops;
    /* The node's clock in ms as far as it is known, never ahead of it; 0:
     * unknown. */
    int64_t (*clock)(const struct snib__store *, snib_instant now);
};

snib_err snib__quorum_open(const struct snib__store_config *,
                           const struct snib__node_kind *,
                           struct snib__store **ret, struct snib_error *reterr);

#endif
