/* proto/zk/zk.h — ZooKeeper's messages, as far as locks need them: bytes <->
 * records. No sockets, no clock. Requests are appended to a buffer as whole
 * frames; replies are read from one whole frame.
 *
 * The protocol is that of ZooKeeper 3.5 and later (create2, containers). What it
 * is comes from its zookeeper.jute and ZooDefs.java.
 *
 * A frame is a length and so many bytes. The first one each way makes or resumes
 * the session; each later request begins with its number (xid) and operation,
 * each reply with that number, the server's last zxid, and an error. Replies come
 * in the order of the requests, but for those with a number of their own below. */
#ifndef SNIB__ZK_H
#define SNIB__ZK_H

#include "proto/zk/jute.h"

enum {
    SNIB__ZK_FRAME_MAX = 4 << 20, /* longer ones are not kept in memory */
    SNIB__ZK_HEAD = 16,           /* of a reply: number, zxid, error */
    SNIB__ZK_PASSWORD = 16,
    SNIB__ZK_XID_EVENT = -1,
    SNIB__ZK_XID_PING = -2,
    SNIB__ZK_XID_AUTH = -4
};

enum snib__zk_op {
    SNIB__ZK_ERROR = -1, /* in the reply to a multi */
    SNIB__ZK_CREATE = 1,
    SNIB__ZK_DELETE = 2,
    SNIB__ZK_EXISTS = 3,
    SNIB__ZK_GET_DATA = 4,
    SNIB__ZK_SET_DATA = 5,
    SNIB__ZK_SYNC = 9, /* what the leader knows now is read behind it */
    SNIB__ZK_PING = 11,
    SNIB__ZK_CHILDREN = 12, /* getChildren2 */
    SNIB__ZK_CHECK = 13,
    SNIB__ZK_MULTI = 14,
    SNIB__ZK_CREATE2 = 15, /* its reply has the node's stat */
    SNIB__ZK_CONTAINER = 19,
    SNIB__ZK_AUTH = 100
};

/* The errors that mean something to us. */
enum snib__zk_error {
    SNIB__ZK_OK = 0,
    SNIB__ZK_NOT_REACHED = -2, /* of a multi: another operation failed */
    SNIB__ZK_UNIMPLEMENTED = -6,
    SNIB__ZK_NO_NODE = -101,
    SNIB__ZK_NO_AUTH = -102,
    SNIB__ZK_BAD_VERSION = -103,
    SNIB__ZK_NO_CHILDREN = -108, /* below a node that goes with its session */
    SNIB__ZK_EXISTS_ALREADY = -110,
    SNIB__ZK_NOT_EMPTY = -111,
    SNIB__ZK_EXPIRED = -112,
    SNIB__ZK_AUTH_FAILED = -115,
    SNIB__ZK_MOVED = -118, /* the session is at another server by now */
    SNIB__ZK_READ_ONLY = -119,
    SNIB__ZK_SASL = -124, /* the server wants a login by SASL */
    SNIB__ZK_QUOTA = -125,
    SNIB__ZK_THROTTLED = -127,
    SNIB__ZK_TOO_LONG = 1 /* ours: the answer is longer than what is kept */
};

/* How a node is made. */
enum snib__zk_flags {
    SNIB__ZK_PERSISTENT = 0,
    SNIB__ZK_EPHEMERAL = 1,
    SNIB__ZK_SEQUENTIAL = 2,
    SNIB__ZK_IS_CONTAINER = 4
};

struct snib__zk_stat {
    int64_t czxid, mzxid, ctime, mtime; /* times: Unix ms of a server's clock */
    int32_t version, cversion;
    int64_t owner;       /* of an ephemeral node: its session */
    int32_t acl_version; /* so often its rights were changed */
    int32_t size;        /* of its data */
    int32_t children;
};

/* -- frames ------------------------------------------------------------------ */

/* The first frame in these bytes. 1: *ret is its content, *ret_size how long,
 * with the 4 bytes of its length in front of it; 0: it is not whole yet; -1: this
 * is no frame of ZooKeeper's; 2: it is longer than SNIB__ZK_FRAME_MAX, and *ret is
 * where its head begins, which may not be there yet. */
int snib__zk_frame(const uint8_t *bytes, size_t size, const uint8_t **ret,
                   size_t *ret_size);
/* A frame begins at the end of the buffer: where. */
size_t snib__zk_begin(struct snib__buf *);
/* It ends there. */
void snib__zk_end(struct snib__buf *, size_t begun);

/* -- the session ------------------------------------------------------------- */

struct snib__zk_session {
    int64_t id; /* 0: a new one is wanted; in the reply: it is over */
    int32_t timeout_ms;
    uint8_t password[SNIB__ZK_PASSWORD];
};

void snib__zk_put_connect(struct snib__buf *, const struct snib__zk_session *,
                          int64_t last_zxid);
/* False: this is no reply of ZooKeeper's. */
bool snib__zk_read_connect(const uint8_t *bytes, size_t size,
                           struct snib__zk_session *ret);

/* -- requests ---------------------------------------------------------------- */

struct snib__zk_create {
    const char *path;
    const void *data;
    size_t size;
    int32_t flags;     /* enum snib__zk_flags, together */
    bool creators_own; /* only who has logged in as we did may use it */
};

/* The head of a request, in a frame that was begun. */
void snib__zk_put_head(struct snib__buf *, int32_t xid, int32_t op);
/* Whole frames. */
void snib__zk_put_ping(struct snib__buf *);
void snib__zk_put_digest(struct snib__buf *, const char *user,
                         const char *password);

/* Behind a head, or behind an operation of a multi. create: for CREATE2 and
 * CONTAINER. */
void snib__zk_put_create(struct snib__buf *, const struct snib__zk_create *);
/* For DELETE and CHECK; version -1: any. */
void snib__zk_put_version(struct snib__buf *, const char *path,
                          int32_t version);
void snib__zk_put_data(struct snib__buf *, const char *path, const void *data,
                       size_t size, int32_t version);
/* For SYNC. */
void snib__zk_put_path(struct snib__buf *, const char *path);
/* For EXISTS, GET_DATA and CHILDREN. */
void snib__zk_put_read(struct snib__buf *, const char *path, bool watch);
/* An operation of a multi comes; the multi is over. */
void snib__zk_put_multi(struct snib__buf *, int32_t op);
void snib__zk_put_multi_end(struct snib__buf *);

/* -- replies ----------------------------------------------------------------- */

struct snib__zk_reply {
    int32_t xid;
    int64_t zxid;
    int32_t err;
    struct snib__jute body; /* behind the head */
};

/* False: it is no reply. */
bool snib__zk_read_head(const uint8_t *frame, size_t size,
                        struct snib__zk_reply *ret);
void snib__zk_read_stat(struct snib__jute *, struct snib__zk_stat *ret);
/* The path of an event, which is of this type. */
struct snib__jute_bytes snib__zk_read_event(struct snib__jute *,
                                            int32_t *ret_type);

/* The next result of a multi: false at its end, or if the bytes are bad. */
struct snib__zk_result {
    int32_t op, err;
    struct snib__jute_bytes path; /* of what was made */
    struct snib__zk_stat stat;    /* of SET_DATA; of others it may be zero */
};
bool snib__zk_next_result(struct snib__jute *, struct snib__zk_result *ret);

#endif
