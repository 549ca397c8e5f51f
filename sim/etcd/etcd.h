/* sim/etcd/etcd.h — a cluster of etcd, of one member or three, as the rest of the
 * simulator knows it.
 *
 * The production store (src/store/etcd) runs unchanged: what it writes on its
 * connections are frames of HTTP/2, which nghttp2 reads here at the server's end
 * (h2.c), and what comes back are frames. Modelled is what stands behind them:
 * keys with revisions (keys.c), transactions and other calls (calls.c), leases
 * (leases.c), and members, of which one leads (members.c).
 *
 * store.c stands between the engine and the store, at the seam of core/store.h:
 * it hands every call on, and notes which requests a call of gRPC is for. So what
 * a transaction has done can be said in the words of sim/seen.h when the cluster
 * applies it, be it that its client has given up long before. state.c reads the
 * keys into the books. Without libnghttp2 there is absent.c in the place of all
 * this, and no such world. */
#ifndef SIM_ETCD_ETCD_H
#define SIM_ETCD_ETCD_H

#include "core/snapshot/layout.h"
#include "core/snapshot/snapshot.h"
#include "sim/world.h"

enum { SIM_MEMBERS = 3, SIM_ETCD_KEY = 200, SIM_ETCD_VALUE = 4096 };

struct sim_etcd_key {
    char text[SIM_ETCD_KEY];
    size_t size, value_size;
    uint8_t value[SIM_ETCD_VALUE];
    int64_t mod, lease; /* lease 0: it stays for ever */
    /* A row of a lock of this world: which, and what its bytes say. */
    int name; /* -1: it is none */
    snib__key_kind kind;
    struct snib__stored_claim c; /* CLAIM */
    struct snib__lock_row l;     /* LOCK */
};

/* In the order of their texts. */
struct sim_etcd_keys {
    struct sim_etcd_key *key;
    int count, room;
    int64_t revision;
};

struct sim_etcd_lease {
    int64_t id, ttl; /* s */
    int64_t sure;    /* true time: it ends no sooner, whoever leads, … */
    int64_t over;    /* … and then, if somebody does */
};

/* What the rest asks of the cluster of a world. */
const struct sim_etcd_keys *sim_etcd_keys(const struct sim_world *);
/* The lease under which a key hangs; NULL: none. */
const struct sim_etcd_lease *sim_etcd_lease_of(const struct sim_world *,
                                               int64_t id);

#endif
