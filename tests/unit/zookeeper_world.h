/* tests/unit/zookeeper_world.h — the store zookeeper beside a model of its server:
 * the connection between the two, requests and their answers, what others do
 * there, and frames that come late. */
#ifndef ZOOKEEPER_WORLD_H
#define ZOOKEEPER_WORLD_H

#include "unit.h"

#include "base/mem.h"
#include "store/zookeeper/zookeeper.h"
#include "zookeeper_model.h"

static const struct snib__store_ops *const ops = &snib__zookeeper_store_ops;
#include "model_world.h"

static bool down; /* the server takes no connection */

/* -- the other end ------------------------------------------------------------- */

static void serve_frame(const uint8_t *frame, size_t size, bool hello)
{
    size_t before = snib__buf_size(&model_out);
    if (hello) {
        model_hello(frame, size);
        return;
    }
    if (model.keep && (!model.keep_op || frame[7] == model.keep_op) &&
        memmem(frame, size, model.keep, strlen(model.keep)) &&
        !memmem(frame, size, model.keep_without, strlen(model.keep_without))) {
        memcpy(model.kept, frame, size);
        model.kept_size = size;
        model.keep = NULL;
        up = false;
        return;
    }
    model_frame(frame, size);
    if (model.silent_from && ++model.frames >= model.silent_from) {
        model_out.end -= snib__buf_size(&model_out) - before;
        up = model.mute;
        model.silent_from = model.mute ? model.silent_from : 0;
        if (model.expires) {
            model_expire();
        }
    }
}

static void settle(void)
{
    static bool greeted;
    struct snib__conn *conn = out.conn[0];
    for (int i = 0; i < 1200; i++) {
        const uint8_t *frame;
        size_t size;
        if (conn->shut) {
            conn->shut = false;
            up = false;
            input(SNIB__IN_CLOSED, NULL, 0);
        } else if (conn->open && down) {
            conn->open = false;
            input(SNIB__IN_REFUSED, "refused", 7);
        } else if (conn->open) {
            conn->open = false;
            up = true;
            greeted = false;
            snib__buf_clear(&model_out);
            input(SNIB__IN_OPENED, NULL, 0);
        } else if (snib__zk_frame(snib__buf_bytes(&conn->out),
                                  snib__buf_size(&conn->out), &frame,
                                  &size) == 1) {
            serve_frame(frame, size, !greeted);
            greeted = true;
            snib__buf_consume(&conn->out, size + 4);
            if (!up) {
                snib__buf_clear(&conn->out);
                input(SNIB__IN_CLOSED, NULL, 0);
            }
        } else if (up && snib__buf_size(&model_out)) {
            uint8_t byte = *snib__buf_bytes(&model_out);
            snib__buf_consume(&model_out, 1); /* in the smallest pieces */
            input(SNIB__IN_BYTES, &byte, 1);
            i--;
        } else if (snib__reached(now, ops->due(store))) {
            input(SNIB__IN_TICK, NULL, 0);
        } else {
            return;
        }
    }
    fail_msg("it does not come to rest");
}

static void pass_ms(int64_t ms)
{
    for (snib_instant end = snib__after(now, snib__ms(ms)); now.ns < end.ns;) {
        snib_instant then = snib__sooner(
            end, snib__later(ops->due(store), snib__after(now, snib__ms(1))));
        model.wall_ms += snib__to_ms(snib__between(now, then));
        now = then;
        settle();
    }
}

/* -- the store ------------------------------------------------------------------- */

static int begin_at(const char *text)
{
    model_begin();
    down = false;
    open_at(text, 1);
    return 0;
}

static void servers_away(bool away)
{
    down = away;
    if (away && up) {
        up = false;
        input(SNIB__IN_CLOSED, NULL, 0);
        settle();
    }
}

static int begin(void **state)
{
    (void)state;
    return begin_at("zookeeper://h/l");
}

static uint32_t count(const char *part)
{
    uint32_t n = 0;
    for (int i = 0; i < MODEL_NODES; i++) {
        n += model.node[i].there && strstr(model.node[i].path, part);
    }
    return n;
}

static struct snib__request reader(uint64_t id, uint64_t upgrade_of)
{
    struct snib__request r = request(SNIB__ACQUIRE, id);
    r.acquire.kind = SNIB_KIND_READ;
    r.acquire.upgrade_of[0] = r.acquire.upgrade_of[1] = upgrade_of;
    return r;
}

/* Somebody else's record. */
static void another_record(uint64_t who, int64_t lease_ms)
{
    struct model_node *made;
    char child[ZOO_CHILD_MAX], path[200];
    const uint64_t id[2] = {who, who};
    snib__zoo_child_record(id, false, lease_ms, child);
    snprintf(path, sizeof path, "/l/n/%s", child);
    assert_false(model_create(path, "", 0, 0, &made));
}

/* Somebody else's node; a stranger's, who does not change the lock's. */
static void strange_node(uint64_t who)
{
    struct model_node *made;
    char child[ZOO_CHILD_MAX], path[200];
    const uint64_t id[2] = {who, who};
    int64_t ours = model.session;
    model.session = 77;
    snib__zoo_child_stands(id, false, child);
    snprintf(path, sizeof path, "/l/n/%s", child);
    assert_false(model_create(path, "", 0, 3, &made));
    model.session = ours;
}

static void another_node(uint64_t who)
{
    strange_node(who);
    model_find("/l/n")->version++;
}

/* Somebody else's grant: its record, and its node if it still stands. */
static void another(bool stands, int64_t lease_ms)
{
    struct model_node *made;
    int64_t ours = model.session;
    model.session = 77;
    model.zxid++;
    (void)model_create("/l", "", 0, 0, &made);
    (void)model_create("/l/n", "", 0, 0, &made);
    another_record(99, lease_ms);
    if (stands) {
        another_node(99);
    }
    model.session = ours;
}

/* The end of somebody else's grants. */
static void others_go(void)
{
    for (int i = 0; i < MODEL_NODES; i++) {
        struct model_node *n = &model.node[i];
        n->there = n->there && !(n->owner == 77 || strstr(n->path, "=held-"));
    }
}

static void event(const char *path)
{
    size_t begun = snib__zk_begin(&model_out);
    snib__jute_put_i32(&model_out, SNIB__ZK_XID_EVENT);
    snib__jute_put_i64(&model_out, -1);
    snib__jute_put_i32(&model_out, 0);
    snib__jute_put_i32(&model_out, 2);
    snib__jute_put_i32(&model_out, 3);
    snib__jute_put_text(&model_out, path);
    snib__zk_end(&model_out, begun);
    settle();
}

/* The next frame with this text, and without the other, comes late: by late(). */
static void keep(const char *text, const char *without)
{
    model.keep = text;
    model.keep_without = without;
    model.kept_size = 0;
}

static void late(void)
{
    assert_true(model.kept_size > 0);
    model_frame(model.kept, model.kept_size);
    snib__buf_clear(&model_out);
}

/* It is asked for again, as the core does, until it is granted. */
static void comes_in(struct snib__request *r)
{
    for (int i = 0; i < 50; i++) {
        snib__answer got = answer(r);
        if (got == SNIB__DONE) {
            return;
        }
        if (got == SNIB__UNKNOWN) {
            r->resent = true;
            ask(r);
        }
        pass_ms(200);
    }
    fail_msg("it was not granted");
}

/* A request that waits is the store's; it is not to be there at the end. */
static void cancelled(struct snib__request *r)
{
    struct snib__request cancel = request(SNIB__CANCEL, r->id[0]);
    ask(&cancel);
    pass_ms(500);
    assert_int_equal(answer(&cancel), SNIB__DONE);
    assert_int_equal(answer(r), SNIB__NO);
}

#endif
