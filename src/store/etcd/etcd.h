/* store/etcd/etcd.h — locks in etcd: etcd[s]://[user:password@]host[:port],…
 * [?prefix=P]. Keys, promises and set-up: docs/ETCD.md. */
#ifndef SNIB__ETCD_H
#define SNIB__ETCD_H

#include "core/store.h"

extern const struct snib__store_ops snib__etcd_store_ops;

#endif
