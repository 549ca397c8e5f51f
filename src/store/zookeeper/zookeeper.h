/* store/zookeeper/zookeeper.h — locks in a ZooKeeper ensemble:
 * zookeeper://[user:password@]host[:port],…[/path][?session_ms=N]. Nodes,
 * promises and set-up: docs/ZOOKEEPER.md. */
#ifndef SNIB__ZOOKEEPER_H
#define SNIB__ZOOKEEPER_H

#include "core/store.h"

extern const struct snib__store_ops snib__zookeeper_store_ops;

#endif
