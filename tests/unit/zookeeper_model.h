/* tests/unit/zookeeper_model.h — a ZooKeeper server in a few lines, for the store
 * that talks to it: one connection at a time, a tree of nodes, sessions. */
#ifndef ZOOKEEPER_MODEL_H
#define ZOOKEEPER_MODEL_H

#include <stdio.h>
#include <string.h>

#include "store/zookeeper/zookeeper_i.h"

enum { MODEL_NODES = 320 };

struct model_node {
    bool there;
    char path[200], data[700];
    size_t size;
    int64_t czxid, mzxid, owner, ctime, mtime;
    int32_t version, acl_version, made;
};

static struct {
    struct model_node node[MODEL_NODES];
    int64_t zxid, session; /* 0: there is none */
    uint32_t frames;       /* so many were served */
    /* Frames from this one on (from 1) are done, and not answered; 0: none. */
    uint32_t silent_from;
    /* The next frame with the one text and without the other is kept back, and
     * its connection ends; NULL: none is. */
    const char *keep, *keep_without;
    int32_t keep_op; /* … and of this operation; 0: of any */
    int64_t wall_ms; /* the ensemble's clock */
    bool mute;       /* its answers do not come, and the connection stays */
    uint8_t kept[2000];
    size_t kept_size;
    char watch[200]; /* the last one that was set, by a request like this */
    int32_t watch_op;
    uint32_t writes, reads;
    bool expires;     /* … and the session ends with that connection */
    const char *goes; /* behind the next look all of this path's does */
    bool hasty; /* behind each look at the children somebody comes, and goes */
    bool terse; /* a multi says only the path of what it has made */
    /* What it shows are these, until it is asked to change or to catch up. */
    struct model_node old[MODEL_NODES];
    bool behind;
    int64_t seen; /* what the client said last that it has seen of the log */
    /* A frame of this operation with this text is refused with this error; NULL:
     * none is. */
    const char *refuse;
    int32_t refuse_op, refuse_err;
    bool
        errs; /* … what is refused is said in its results, by errors of number 0 */
    const char *still;  /* nobody may change this one */
    const char *closed; /* nobody may make a node in this one */
} model;

static struct snib__buf model_out;

static struct model_node *model_find(const char *path)
{
    for (int i = 0; i < MODEL_NODES; i++) {
        if (model.node[i].there && !strcmp(model.node[i].path, path)) {
            return &model.node[i];
        }
    }
    return NULL;
}

static struct model_node *model_parent(const char *path)
{
    char text[200];
    snprintf(text, sizeof text, "%s", path);
    *strrchr(text, '/') = 0;
    return model_find(text[0] ? text : "/");
}

static void model_text(struct snib__jute *j, char *ret, size_t size)
{
    struct snib__jute_bytes b = snib__jute_bytes(j);
    assert_true(b.size < size);
    memcpy(ret, b.bytes ? b.bytes : "", b.size);
    ret[b.size] = 0;
}

static void model_put_stat(struct snib__buf *b, const struct model_node *n)
{
    snib__jute_put_i64(b, n->czxid);
    snib__jute_put_i64(b, n->mzxid);
    snib__jute_put_i64(b, n->ctime);
    snib__jute_put_i64(b, n->mtime);
    snib__jute_put_i32(b, n->version);
    snib__jute_put_i32(b, n->made);
    snib__jute_put_i32(b, n->acl_version);
    snib__jute_put_i64(b, n->owner);
    snib__jute_put_i32(b, (int32_t)n->size);
    snib__jute_put_i32(b, 0);
    snib__jute_put_i64(b, 0);
}

/* Returns the error; *ret the node. flags: enum snib__zk_flags. */
static int32_t model_create(const char *path, const char *data, size_t size,
                            int32_t flags, struct model_node **ret)
{
    struct model_node *parent = model_parent(path);
    char full[200];
    if (!parent) {
        return SNIB__ZK_NO_NODE;
    }
    if (model.closed && !strcmp(model.closed, parent->path)) {
        return SNIB__ZK_NO_AUTH; /* before it says that the node is there */
    }
    bool sequential = flags == 3 || flags == 2;
    snprintf(full, sizeof full, sequential ? "%.180s%010d" : "%.180s", path,
             parent->made);
    if (model_find(full)) {
        return SNIB__ZK_EXISTS_ALREADY;
    }
    for (int i = 0; i < MODEL_NODES; i++) {
        struct model_node *n = &model.node[i];
        if (!n->there) {
            *n = (struct model_node){.there = true,
                                     .size = size,
                                     .czxid = model.zxid,
                                     .mzxid = model.zxid,
                                     .ctime = model.wall_ms,
                                     .mtime = model.wall_ms,
                                     .owner = flags & 1 ? model.session : 0};
            memcpy(n->path, full, sizeof full);
            memcpy(n->data, data, size);
            parent->made += parent->made < INT32_MAX; /* from 3.6 on */
            *ret = n;
            return 0;
        }
    }
    fail();
    return 0;
}

static bool model_is_empty(const struct model_node *parent)
{
    size_t size = strlen(parent->path);
    for (int i = 0; i < MODEL_NODES; i++) {
        const struct model_node *n = &model.node[i];
        if (n->there && !strncmp(n->path, parent->path, size) &&
            n->path[size] == '/') {
            return false;
        }
    }
    return true;
}

static void model_remove(const char *path)
{
    struct model_node *n = model_find(path);
    assert_non_null(n);
    n->there = false;
}

/* The session ends, as the server sees it. */
static void model_expire(void)
{
    for (int i = 0; i < MODEL_NODES; i++) {
        struct model_node *n = &model.node[i];
        n->there = n->there && n->owner != model.session;
    }
    model.session = 0;
}

struct model_done {
    int32_t op, err;
    struct model_node *node;
};

static void model_change(struct snib__jute *j, int32_t op,
                         struct model_done *ret)
{
    struct snib__jute_bytes bytes = {.size = 0};
    char path[200], text[64];
    model_text(j, path, sizeof path);
    ret->op = op;
    ret->node = model_find(path);
    if (op == SNIB__ZK_CREATE2 || op == SNIB__ZK_CONTAINER) {
        bytes = snib__jute_bytes(j);
        (void)snib__jute_i32(j);
        (void)snib__jute_i32(j);
        model_text(j, text, sizeof text);
        model_text(j, text, sizeof text);
        ret->err = model_create(path, bytes.size ? bytes.bytes : "", bytes.size,
                                snib__jute_i32(j), &ret->node);
        return;
    }
    if (op == SNIB__ZK_SET_DATA) {
        bytes = snib__jute_bytes(j);
    }
    bool still =
        op == SNIB__ZK_SET_DATA && model.still && !strcmp(model.still, path);
    int32_t version = snib__jute_i32(j);
    ret->err = !ret->node ? SNIB__ZK_NO_NODE
               : still    ? SNIB__ZK_NO_AUTH
               : version >= 0 && version != ret->node->version
                   ? SNIB__ZK_BAD_VERSION
               : op == SNIB__ZK_DELETE && !model_is_empty(ret->node)
                   ? SNIB__ZK_NOT_EMPTY
                   : 0;
    if (!ret->err && op == SNIB__ZK_SET_DATA) {
        ret->node->version++;
        ret->node->mzxid = model.zxid;
        ret->node->mtime = model.wall_ms;
        ret->node->size = bytes.size;
        memcpy(ret->node->data, bytes.size ? bytes.bytes : "", bytes.size);
    } else if (!ret->err && op == SNIB__ZK_DELETE) {
        ret->node->there = false;
    }
}

static void model_put_done(struct snib__buf *b, const struct model_done *d,
                           bool multi)
{
    bool made = d->op == SNIB__ZK_CREATE2 || d->op == SNIB__ZK_CONTAINER;
    if (made) {
        snib__jute_put_text(b, d->node->path);
    }
    if ((made && !multi) || d->op == SNIB__ZK_SET_DATA ||
        (d->op == SNIB__ZK_CONTAINER && !model.terse)) {
        model_put_stat(b, d->node);
    }
}

/* All or nothing: what failed is undone from a copy. */
static void model_multi(struct snib__jute *j, struct snib__buf *b)
{
    static struct model_node before[MODEL_NODES];
    struct model_done done[16];
    uint32_t n = 0;
    int32_t err = 0;
    memcpy(before, model.node, sizeof before);
    for (;; n++) {
        int32_t op = snib__jute_i32(j);
        bool last = snib__jute_bool(j);
        (void)snib__jute_i32(j);
        if (last) {
            break;
        }
        assert_true(n < 16);
        model_change(j, op, &done[n]);
        err = err ? err : done[n].err;
    }
    if (err) {
        memcpy(model.node, before, sizeof before);
    }
    for (uint32_t i = 0; i < n; i++) {
        int32_t one = !err          ? 0
                      : done[i].err ? done[i].err
                                    : SNIB__ZK_NOT_REACHED;
        /* 3.8 says CREATE for CREATE2 here, and CREATE2 for CONTAINER */
        int32_t op = err                              ? SNIB__ZK_ERROR
                     : done[i].op == SNIB__ZK_CREATE2 ? SNIB__ZK_CREATE
                     : done[i].op == SNIB__ZK_CONTAINER
                         ? (model.terse ? SNIB__ZK_CREATE : SNIB__ZK_CREATE2)
                         : done[i].op;
        snib__jute_put_i32(b, op);
        snib__jute_put_bool(b, false);
        snib__jute_put_i32(b, one);
        if (err) {
            snib__jute_put_i32(b, one);
        } else {
            model_put_done(b, &done[i], true);
        }
    }
    snib__zk_put_multi_end(b);
}

static void model_lag(void)
{
    memcpy(model.old, model.node, sizeof model.old);
    model.behind = true;
}

static int32_t model_read(struct snib__jute *j, int32_t op, struct snib__buf *b)
{
    char path[200], names[MODEL_NODES][200];
    int32_t n = 0;
    model_text(j, path, sizeof path);
    struct model_node *node = model_find(path);
    if (!node) {
        return SNIB__ZK_NO_NODE;
    }
    if (snib__jute_bool(j)) {
        memcpy(model.watch, path, sizeof path);
        model.watch_op = op;
    }
    if (op == SNIB__ZK_GET_DATA) {
        snib__jute_put_bytes(b, node->data, node->size);
    }
    if (op == SNIB__ZK_CHILDREN) {
        size_t size = strlen(path);
        for (int i = 0; i < MODEL_NODES; i++) {
            const char *p = model.node[i].path;
            if (model.node[i].there && !strncmp(p, path, size) &&
                p[size] == '/' && !strchr(p + size + 1, '/')) {
                snprintf(names[n++], 200, "%s", p + size + 1);
            }
        }
        snib__jute_put_i32(b, n);
        for (int32_t i = 0; i < n; i++) {
            snib__jute_put_text(b, names[i]);
        }
    }
    model_put_stat(b, node);
    node->version += model.hasty && op == SNIB__ZK_CHILDREN;
    return 0;
}

/* One frame of the client's; its answer is appended to model_out. */
static void model_frame(const uint8_t *frame, size_t size)
{
    struct snib__jute j;
    struct snib__buf body;
    int32_t err = 0;
    snib__buf_init(&body, 1 << 16);
    snib__jute_open(&j, frame, size);
    int32_t xid = snib__jute_i32(&j), op = snib__jute_i32(&j);
    if (op != SNIB__ZK_SYNC && op != SNIB__ZK_CHILDREN &&
        op != SNIB__ZK_GET_DATA && op != SNIB__ZK_EXISTS &&
        op != SNIB__ZK_PING) {
        model.zxid++;
        model.writes++;
        model.behind = false;
    } else {
        model.reads += op != SNIB__ZK_PING;
    }
    if (model.refuse && op == model.refuse_op &&
        memmem(frame, size, model.refuse, strlen(model.refuse))) {
        err = model.errs ? 0 : model.refuse_err;
        for (int i = 0; i < 3 && model.errs; i++) {
            snib__jute_put_i32(&body, SNIB__ZK_ERROR);
            snib__jute_put_bool(&body, false);
            snib__jute_put_i32(&body, 0);
            snib__jute_put_i32(&body, 0);
        }
        if (model.errs) {
            snib__zk_put_multi_end(&body);
        }
    } else if (op == SNIB__ZK_SYNC) {
        struct snib__jute_bytes path = snib__jute_bytes(&j);
        snib__jute_put_bytes(&body, path.bytes, path.size);
        model.behind = false;
    } else if (op == SNIB__ZK_MULTI) {
        model_multi(&j, &body);
    } else if (op == SNIB__ZK_CHILDREN || op == SNIB__ZK_GET_DATA ||
               op == SNIB__ZK_EXISTS) {
        static struct model_node newest[MODEL_NODES];
        memcpy(newest, model.node, sizeof newest);
        memcpy(model.node, model.behind ? model.old : newest, sizeof newest);
        err = model_read(&j, op, &body);
        memcpy(model.node, model.hasty ? model.node : newest, sizeof newest);
        for (int i = 0; i < MODEL_NODES && model.goes; i++) {
            struct model_node *n = &model.node[i];
            n->there = n->there && !strstr(n->path, model.goes);
        }
        model.goes = op == SNIB__ZK_CHILDREN ? NULL : model.goes;
    } else if (op != SNIB__ZK_PING) {
        struct model_done done;
        model_change(&j, op, &done);
        err = done.err;
        if (!err) {
            model_put_done(&body, &done, false);
        }
    }
    size_t begun = snib__zk_begin(&model_out);
    snib__jute_put_i32(&model_out, xid);
    snib__jute_put_i64(&model_out, model.zxid);
    snib__jute_put_i32(&model_out, err);
    if (!err) {
        snib__buf_add(&model_out, snib__buf_bytes(&body),
                      snib__buf_size(&body));
    }
    snib__zk_end(&model_out, begun);
    snib__buf_free(&body);
}

/* The first frame of a connection. */
static void model_hello(const uint8_t *frame, size_t size)
{
    struct snib__jute j;
    struct snib__zk_session s = {.timeout_ms = 3000};
    snib__jute_open(&j, frame, size);
    (void)snib__jute_i32(&j);
    model.seen = snib__jute_i64(&j);
    (void)snib__jute_i32(&j);
    s.id = snib__jute_i64(&j);
    if (s.id && s.id != model.session) {
        s.id = 0;
        s.timeout_ms = 0;
    } else if (!s.id) {
        s.id = model.session = ++model.zxid + 5000;
    }
    size_t begun = snib__zk_begin(&model_out);
    snib__jute_put_i32(&model_out, 0);
    snib__jute_put_i32(&model_out, s.timeout_ms);
    snib__jute_put_i64(&model_out, s.id);
    snib__jute_put_bytes(&model_out, s.password, sizeof s.password);
    snib__jute_put_bool(&model_out, false);
    snib__zk_end(&model_out, begun);
}

static void model_begin(void)
{
    memset(&model, 0, sizeof model);
    model.zxid = 100;
    snib__buf_free(&model_out);
    snib__buf_init(&model_out, 1 << 20);
    model.node[0] = (struct model_node){.there = true, .path = "/"};
}

#endif
