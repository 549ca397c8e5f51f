/* store/zookeeper/nodes.h — the nodes of a lock: what they are called (path.c), and
 * who is next by them (order.c). For the files of this folder only. */
#ifndef SNIB__ZOOKEEPER_NODES_H
#define SNIB__ZOOKEEPER_NODES_H

#include "core/name.h"
#include "proto/zk/zk.h"

enum {
    ZOO_BASE_MAX = 200,
    ZOO_CHILD_MAX = 96, /* of what we call a node below a lock's */
    /* BASE / NAME / CHILD; a name's bytes may be three each. */
    ZOO_PATH_MAX = ZOO_BASE_MAX + 3 * SNIB_NAME_MAX + ZOO_CHILD_MAX + 8
};

struct snib__zoo;

/* -- path.c ----------------------------------------------------------------- */

struct zoo_path {
    char text[ZOO_PATH_MAX];
};

/* The node of this lock; a node below it. */
void snib__zoo_path_lock(const struct snib__zoo *, const struct snib__name *,
                         struct zoo_path *ret);
void snib__zoo_path_child(const struct snib__zoo *, const struct snib__name *,
                          const char *child, struct zoo_path *ret);
/* What is above so many (> 0) bytes of the base: so many; 0: the root. */
uint32_t snib__zoo_base_above(const struct snib__zoo *, uint32_t at);
/* The name of a lock as it stands in the tree, taken apart: how many bytes; 0:
 * it is none of ours. */
size_t snib__zoo_path_name(const struct snib__zoo *, const char *node,
                           size_t size, char ret[SNIB_NAME_MAX]);

enum zoo_what {
    ZOO_STANDS, /* _c_UUID-__WRIT__SEQ: somebody stands here, in this order;
                   with Curator's InterProcessMutex _c_UUID-lock-SEQ */
    ZOO_RECORD, /* =held-ID-W-MS: its request was granted (store.c) */
    ZOO_FOREIGN /* neither */
};

/* Servers from 3.6 on give this number to all that come after 2^31. */
#define ZOO_SEQ_LAST INT32_MAX

/* A node below a lock's. */
struct zoo_child {
    enum zoo_what what;
    bool reads, mutex; /* mutex: Curator's, no reader or writer */
    uint64_t id[2];    /* of the request; of one not ours: its UUID */
    int32_t seq;       /* STANDS; ZOO_SEQ_LAST: the order is lost */
    int64_t lease_ms;  /* RECORD */
    bool paired;       /* STANDS: its record is there; RECORD: its node is */
    char name[ZOO_CHILD_MAX];
};

void snib__zoo_child_read(const char *name, size_t size, struct zoo_child *ret);
/* What a node is called: without its number, which the server appends; a
 * record. */
void snib__zoo_child_stands(const uint64_t id[2], bool reads,
                            char ret[ZOO_CHILD_MAX]);
void snib__zoo_child_mutex(const uint64_t id[2], char ret[ZOO_CHILD_MAX]);
/* One that reads and is the writer as well, as Curator's clients call it: with
 * the number of that node, so that it stands where the writer does. */
void snib__zoo_child_of_writer(const uint64_t id[2],
                               const struct zoo_child *writer,
                               char ret[ZOO_CHILD_MAX]);
void snib__zoo_child_record(const uint64_t id[2], bool reads, int64_t lease_ms,
                            char ret[ZOO_CHILD_MAX]);

/* -- order.c ---------------------------------------------------------------- */

/* All nodes below a lock's: those that stand in their order, then records by
 * id. */
struct zoo_view {
    struct zoo_child *child;
    uint32_t count, room, standing, records; /* so many stand, are records */
    bool mutexes; /* those that stand are Curator's InterProcessMutex */
    char foreign[ZOO_CHILD_MAX]; /* one that is none of ours; "": none */
};

/* A request as the order sees it. upgrade_of, prior: its own other grants, which
 * are not in its way; 0: it has none. */
struct zoo_request {
    uint64_t id[2];
    bool reads;
    uint64_t upgrade_of[2], prior[2];
};

/* The answer to CHILDREN. False: it is bad, or there is no memory (*ret_bad
 * tells). */
bool snib__zoo_view_read(struct zoo_view *, struct snib__jute *, bool *ret_bad);
void snib__zoo_view_clear(struct zoo_view *);
void snib__zoo_view_free(struct zoo_view *);
/* The node of this request; after >= 0: the first one behind that. -1: none. */
int snib__zoo_view_find(const struct zoo_view *, const uint64_t id[2],
                        int after);
/* The one of this name, if it is there: one of an older session may be, too. */
int snib__zoo_view_own(const struct zoo_view *, const uint64_t id[2],
                       const char *node);
const struct zoo_child *snib__zoo_view_record(const struct zoo_view *,
                                              const uint64_t id[2]);
/* The node of this request, if it was granted the lock: its record is there, too.
 * -1: not. */
int snib__zoo_view_granted(const struct zoo_view *, const uint64_t id[2]);
/* Which node is to be waited for by the one at `at` (standing: by one that comes
 * now). -1: for none, it is next. */
int snib__zoo_view_ahead(const struct zoo_view *, const struct zoo_request *,
                         int at);
/* Of the grants that are in the way and whose nodes are gone without having been
 * given back: the longest lease, ms; 0: there is none. *ret_hash changes when
 * it is not the same ones. */
int64_t snib__zoo_view_dead(const struct zoo_view *, const struct zoo_request *,
                            uint64_t *ret_hash);
bool snib__zoo_view_is_dead(const struct zoo_child *,
                            const struct zoo_request *);
/* 1-based, among those that wait. */
uint32_t snib__zoo_view_position(const struct zoo_view *, int at);
/* The longest lease of a grant in the way, ms; 0: not known. */
int64_t snib__zoo_view_lease(const struct zoo_view *,
                             const struct zoo_request *);

#endif
