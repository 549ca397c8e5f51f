/* proto/zk/zk.c — see zk.h. */
#include "proto/zk/zk.h"

#include <string.h>

enum { ZK_HEAD = 4, ZK_PERMISSIONS_ALL = 31 };

/* -- frames ------------------------------------------------------------------ */

int snib__zk_frame(const uint8_t *bytes, size_t size, const uint8_t **ret,
                   size_t *ret_size)
{
    struct snib__jute j;
    snib__jute_open(&j, bytes, size);
    if (size < ZK_HEAD) {
        return 0;
    }
    int32_t length = snib__jute_i32(&j);
    if (length < ZK_HEAD) {
        return -1;
    }
    *ret = bytes + ZK_HEAD;
    *ret_size = (size_t)length;
    if (length > SNIB__ZK_FRAME_MAX) {
        return 2;
    }
    if (size - ZK_HEAD < (size_t)length) {
        return 0;
    }
    return 1;
}

size_t snib__zk_begin(struct snib__buf *b)
{
    size_t begun = snib__buf_size(b);
    snib__jute_put_i32(b, 0);
    return begun;
}

void snib__zk_end(struct snib__buf *b, size_t begun)
{
    if (b->failed) {
        return;
    }
    size_t length = snib__buf_size(b) - begun - ZK_HEAD;
    uint8_t *p = b->data + b->start + begun;
    p[0] = (uint8_t)(length >> 24);
    p[1] = (uint8_t)(length >> 16);
    p[2] = (uint8_t)(length >> 8);
    p[3] = (uint8_t)length;
}

/* -- the session ------------------------------------------------------------- */

void snib__zk_put_connect(struct snib__buf *b, const struct snib__zk_session *s,
                          int64_t last_zxid)
{
    size_t begun = snib__zk_begin(b);
    snib__jute_put_i32(b, 0); /* the version of the protocol */
    snib__jute_put_i64(b, last_zxid);
    snib__jute_put_i32(b, s->timeout_ms);
    snib__jute_put_i64(b, s->id);
    snib__jute_put_bytes(b, s->password, sizeof s->password);
    snib__jute_put_bool(b, false); /* a server that only reads will not do */
    snib__zk_end(b, begun);
}

/* Old servers leave out whether they only read. */
bool snib__zk_read_connect(const uint8_t *bytes, size_t size,
                           struct snib__zk_session *ret)
{
    struct snib__jute j;
    snib__jute_open(&j, bytes, size);
    int32_t version = snib__jute_i32(&j);
    ret->timeout_ms = snib__jute_i32(&j);
    ret->id = snib__jute_i64(&j);
    struct snib__jute_bytes password = snib__jute_bytes(&j);
    if (j.bad || version || password.size != sizeof ret->password ||
        j.end - j.at > 1) {
        return false;
    }
    memcpy(ret->password, password.bytes, sizeof ret->password);
    if (ret->timeout_ms <= 0) {
        ret->id = 0;
    }
    return true;
}

/* -- requests ---------------------------------------------------------------- */

void snib__zk_put_head(struct snib__buf *b, int32_t xid, int32_t op)
{
    snib__jute_put_i32(b, xid);
    snib__jute_put_i32(b, op);
}

void snib__zk_put_ping(struct snib__buf *b)
{
    size_t begun = snib__zk_begin(b);
    snib__zk_put_head(b, SNIB__ZK_XID_PING, SNIB__ZK_PING);
    snib__zk_end(b, begun);
}

void snib__zk_put_digest(struct snib__buf *b, const char *user,
                         const char *password)
{
    size_t begun = snib__zk_begin(b), n = strlen(user), m = strlen(password);
    snib__zk_put_head(b, SNIB__ZK_XID_AUTH, SNIB__ZK_AUTH);
    snib__jute_put_i32(b, 0);
    snib__jute_put_text(b, "digest");
    snib__buf_hide(b);
    snib__jute_put_i32(b, (int32_t)(n + 1 + m));
    snib__buf_add(b, user, n);
    snib__buf_add(b, ":", 1);
    snib__buf_add(b, password, m);
    snib__zk_end(b, begun);
}

void snib__zk_put_create(struct snib__buf *b, const struct snib__zk_create *c)
{
    snib__jute_put_text(b, c->path);
    snib__jute_put_bytes(b, c->data, c->size);
    snib__jute_put_i32(b, 1);
    snib__jute_put_i32(b, ZK_PERMISSIONS_ALL);
    snib__jute_put_text(b, c->creators_own ? "auth" : "world");
    snib__jute_put_text(b, c->creators_own ? "" : "anyone");
    snib__jute_put_i32(b, c->flags);
}

void snib__zk_put_version(struct snib__buf *b, const char *path,
                          int32_t version)
{
    snib__jute_put_text(b, path);
    snib__jute_put_i32(b, version);
}

void snib__zk_put_data(struct snib__buf *b, const char *path, const void *data,
                       size_t size, int32_t version)
{
    snib__jute_put_text(b, path);
    snib__jute_put_bytes(b, data, size);
    snib__jute_put_i32(b, version);
}

void snib__zk_put_path(struct snib__buf *b, const char *path)
{
    snib__jute_put_text(b, path);
}

void snib__zk_put_read(struct snib__buf *b, const char *path, bool watch)
{
    snib__jute_put_text(b, path);
    snib__jute_put_bool(b, watch);
}

static void zk_put_multi_head(struct snib__buf *b, int32_t op, bool done)
{
    snib__jute_put_i32(b, op);
    snib__jute_put_bool(b, done);
    snib__jute_put_i32(b, -1);
}

void snib__zk_put_multi(struct snib__buf *b, int32_t op)
{
    zk_put_multi_head(b, op, false);
}

void snib__zk_put_multi_end(struct snib__buf *b)
{
    zk_put_multi_head(b, -1, true);
}

/* -- replies ----------------------------------------------------------------- */

bool snib__zk_read_head(const uint8_t *frame, size_t size,
                        struct snib__zk_reply *ret)
{
    snib__jute_open(&ret->body, frame, size);
    ret->xid = snib__jute_i32(&ret->body);
    ret->zxid = snib__jute_i64(&ret->body);
    ret->err = snib__jute_i32(&ret->body);
    return !ret->body.bad;
}

void snib__zk_read_stat(struct snib__jute *j, struct snib__zk_stat *ret)
{
    ret->czxid = snib__jute_i64(j);
    ret->mzxid = snib__jute_i64(j);
    ret->ctime = snib__jute_i64(j);
    ret->mtime = snib__jute_i64(j);
    ret->version = snib__jute_i32(j);
    ret->cversion = snib__jute_i32(j);
    ret->acl_version = snib__jute_i32(j);
    ret->owner = snib__jute_i64(j);
    ret->size = snib__jute_i32(j);
    ret->children = snib__jute_i32(j);
    (void)snib__jute_i64(j); /* the last change of its children */
}

struct snib__jute_bytes snib__zk_read_event(struct snib__jute *j,
                                            int32_t *ret_type)
{
    *ret_type = snib__jute_i32(j);
    (void)snib__jute_i32(j); /* the state of the connection: it is there */
    return snib__jute_bytes(j);
}

bool snib__zk_next_result(struct snib__jute *j, struct snib__zk_result *ret)
{
    *ret = (struct snib__zk_result){.op = snib__jute_i32(j)};
    bool done = snib__jute_bool(j);
    ret->err = snib__jute_i32(j);
    if (j->bad || done) {
        return false;
    }
    switch (ret->op) {
    case SNIB__ZK_ERROR:
        ret->err = snib__jute_i32(j);
        break;
    case SNIB__ZK_CREATE: /* so 3.8 answers to CREATE2 in a multi */
        ret->path = snib__jute_bytes(j);
        break;
    case SNIB__ZK_CREATE2:
    case SNIB__ZK_CONTAINER:
        ret->path = snib__jute_bytes(j);
        snib__zk_read_stat(j, &ret->stat);
        break;
    case SNIB__ZK_SET_DATA:
        snib__zk_read_stat(j, &ret->stat);
        break;
    case SNIB__ZK_DELETE:
    case SNIB__ZK_CHECK:
        break;
    default:
        j->bad = true;
    }
    return !j->bad;
}
