/* store/etcd/message.h — what is asked of etcd and what it answers, as the
 * messages of its gRPC interface (etcd's rpc.proto, kv.proto). */
#ifndef SNIB__ETCD_MESSAGE_H
#define SNIB__ETCD_MESSAGE_H

#include "base/buf.h"
#include "proto/grpc/pb.h"

#define SNIB__ETCD_RANGE        "/etcdserverpb.KV/Range"
#define SNIB__ETCD_TXN          "/etcdserverpb.KV/Txn"
#define SNIB__ETCD_LEASE_GRANT  "/etcdserverpb.Lease/LeaseGrant"
#define SNIB__ETCD_LEASE_TTL    "/etcdserverpb.Lease/LeaseTimeToLive"
#define SNIB__ETCD_WATCH        "/etcdserverpb.Watch/Watch"
#define SNIB__ETCD_AUTHENTICATE "/etcdserverpb.Auth/Authenticate"
#define SNIB__ETCD_STATUS       "/etcdserverpb.Maintenance/Status"
#define SNIB__ETCD_ALARM        "/etcdserverpb.Maintenance/Alarm"
#define SNIB__ETCD_MEMBERS      "/etcdserverpb.Cluster/MemberList"

/* -- out ------------------------------------------------------------------- */

struct snib__etcd_text {
    const void *bytes;
    size_t size;
};

/* All keys from `from` on, before `to`. */
struct snib__etcd_range {
    struct snib__etcd_text from, to;
    int64_t limit;    /* 0: all of them */
    int64_t revision; /* as of then; 0: as of now */
    bool keys_only;   /* without their values */
};

struct snib__etcd_put {
    struct snib__etcd_text key, value;
    int64_t lease;   /* 0: it stays for ever */
    bool same_lease; /* the key keeps the lease that it has */
    bool same_value; /* … the value, of a key that is there */
};

/* The branch of a transaction in which an operation stands. */
enum { SNIB__ETCD_COMPARE = 1, SNIB__ETCD_SUCCESS = 2, SNIB__ETCD_FAILURE = 3 };

void snib__etcd_put_range(struct snib__buf *, const struct snib__etcd_range *);
/* The parts of a transaction, in any order. */
void snib__etcd_compare(struct snib__buf *, struct snib__etcd_text key,
                        uint64_t mod_revision);
void snib__etcd_txn_range(struct snib__buf *, uint32_t branch,
                          const struct snib__etcd_range *);
void snib__etcd_txn_put(struct snib__buf *, const struct snib__etcd_put *);
void snib__etcd_txn_delete(struct snib__buf *, struct snib__etcd_text key);
/* The same, in this branch. */
void snib__etcd_txn_put_in(struct snib__buf *, uint32_t branch,
                           const struct snib__etcd_put *);
void snib__etcd_txn_delete_in(struct snib__buf *, uint32_t branch,
                              struct snib__etcd_text key);
/* When a key was made: a revision that it keeps until it goes, whatever is put;
 * of a key that is absent 0. It is this one; and of all keys from `from` on,
 * before `to`: each is later than this one. */
void snib__etcd_compare_made(struct snib__buf *, struct snib__etcd_text key,
                             int64_t revision);
void snib__etcd_compare_none(struct snib__buf *, struct snib__etcd_text from,
                             struct snib__etcd_text to);
void snib__etcd_compare_later(struct snib__buf *, struct snib__etcd_text from,
                              struct snib__etcd_text to, int64_t revision);

void snib__etcd_put_grant(struct snib__buf *, int64_t ttl);
void snib__etcd_put_login(struct snib__buf *, const char *user,
                          const char *password);
void snib__etcd_put_watch(struct snib__buf *, struct snib__etcd_text key);
/* … of which only the end of the key is told. */
void snib__etcd_put_watch_end(struct snib__buf *, struct snib__etcd_text key);
/* How long a lease has left. */
void snib__etcd_put_lease(struct snib__buf *, int64_t id);

/* -- in -------------------------------------------------------------------- */

/* One key as it was found. */
struct snib__etcd_pair {
    struct snib__etcd_text key, value;
    uint64_t mod_revision;
    int64_t made; /* the revision that it was made with */
    int64_t lease;
};

struct snib__etcd_header {
    uint64_t cluster, member;
    int64_t revision;
    uint64_t term;
};

void snib__etcd_read_header(const struct snib__pb *at,
                            struct snib__etcd_header *ret);

/* The answer to a transaction. */
struct snib__etcd_txn {
    struct snib__etcd_header header;
    bool succeeded;
    bool bad;           /* that is none */
    struct snib__pb at; /* inside */
};

void snib__etcd_read_txn(const void *bytes, size_t size,
                         struct snib__etcd_txn *ret);

/* The answer to a range. A row that is missing would be taken for a lock that is
 * free, so it counts only if it is whole. */
struct snib__etcd_rows {
    struct snib__pb at; /* inside */
    int64_t count;      /* so many keys there are */
    int64_t seen;
    bool more; /* not all of them stand in it */
    bool bad;
};

void snib__etcd_read_range(const void *bytes, size_t size,
                           struct snib__etcd_rows *ret);
/* The answer to the next range of the transaction. False: there is none. */
bool snib__etcd_next_range(struct snib__etcd_txn *,
                           struct snib__etcd_rows *ret);
/* The next pair. False: there is none, or it is bad. */
bool snib__etcd_next_pair(struct snib__etcd_rows *,
                          struct snib__etcd_pair *ret);
/* Afterwards: were these all of them? */
bool snib__etcd_whole(const struct snib__etcd_rows *);

struct snib__etcd_grant {
    int64_t id, ttl;
};

/* False: that is no answer to a grant. */
bool snib__etcd_read_grant(const void *bytes, size_t size,
                           struct snib__etcd_grant *ret);

struct snib__etcd_status {
    struct snib__etcd_header header;
    char version[48];
    uint64_t leader;
    int64_t bytes;
    bool learner;
};

bool snib__etcd_read_status(const void *bytes, size_t size,
                            struct snib__etcd_status *ret);

struct snib__etcd_watched {
    bool created, canceled;
    char reason[200];
    struct snib__pb at; /* inside */
};

void snib__etcd_read_watch(const void *bytes, size_t size,
                           struct snib__etcd_watched *ret);
/* The next pair that was put. */
bool snib__etcd_next_event(struct snib__etcd_watched *,
                           struct snib__etcd_pair *ret);
/* Has anything been told? */
bool snib__etcd_any_event(const struct snib__etcd_watched *);
/* s that a lease has left; -1: it is over. False: that is no such answer. */
bool snib__etcd_read_left(const void *bytes, size_t size, int64_t *ret);

#endif
