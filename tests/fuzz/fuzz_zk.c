/* ZooKeeper's answers: whatever the bytes, reading stays inside them, ends, and
 * what is taken for a node of ours has names that are written the same. */
#include "fuzz.h"

#include "base/mem.h"
#include "store/zookeeper/zookeeper_i.h"

static void results(const struct snib__jute *body)
{
    struct snib__jute j = *body;
    struct snib__zk_result one;
    while (snib__zk_next_result(&j, &one)) {
        MUST(!one.path.bytes ||
             ((const uint8_t *)one.path.bytes >= body->at &&
              (const uint8_t *)one.path.bytes + one.path.size <= body->end));
    }
}

static void child(const struct zoo_child *c)
{
    char name[ZOO_CHILD_MAX];
    MUST(memchr(c->name, 0, sizeof c->name));
    if (c->what == ZOO_STANDS) {
        if (c->mutex) {
            snib__zoo_child_mutex(c->id, name);
        } else {
            snib__zoo_child_stands(c->id, c->reads, name);
        }
        MUST(!strncmp(name, c->name, strlen(name)));
    } else if (c->what == ZOO_MARK) {
        struct zoo_child again;
        snib__zoo_child_mark(c->id, c->reads, c->lease_ms, name);
        snib__zoo_child_read(name, strlen(name), &again);
        MUST(again.what == ZOO_MARK && again.lease_ms == c->lease_ms);
        MUST(c->lease_ms >= 0 && snib__ms(c->lease_ms).ns >= 0);
    }
}

/* A node and a mark of one id know of each other. */
static void paired(const struct zoo_view *v, const struct zoo_child *c)
{
    bool stands = snib__zoo_view_find(v, c->id, -1) >= 0;
    const struct zoo_child *mark = snib__zoo_view_mark(v, c->id);
    MUST(!mark || (mark->what == ZOO_MARK && mark->id[0] == c->id[0] &&
                   mark->id[1] == c->id[1]));
    MUST(c->what != ZOO_STANDS || c->paired == (mark != NULL));
    MUST(c->what != ZOO_MARK || (mark && c->paired == stands));
}

static void children(const struct snib__jute *body)
{
    static struct zoo_view view;
    struct snib__jute j = *body;
    bool bad = false;
    if (!snib__zoo_view_read(&view, &j, &bad)) {
        MUST(bad && !view.count);
        return;
    }
    for (uint32_t i = 0; i < view.count && i < 64; i++) {
        const struct zoo_wish wish = {.id = {1, 1}};
        MUST((view.child[i].what == ZOO_STANDS) == (i < view.standing));
        child(&view.child[i]);
        paired(&view, &view.child[i]);
        int ahead = snib__zoo_view_ahead(&view, &wish, (int)view.standing);
        MUST(ahead < (int)view.standing);
        MUST(ahead >= 0 || !view.standing);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *frame;
    size_t length;
    struct snib__zk_session session;
    struct snib__zk_reply reply;
    struct snib__zk_stat stat;
    if (snib__zk_frame(data, size, &frame, &length) == 1) {
        MUST(frame == data + 4 && length <= size - 4);
        (void)snib__zk_read_connect(frame, length, &session);
        if (snib__zk_read_head(frame, length, &reply)) {
            int32_t type;
            struct snib__jute event = reply.body, one = reply.body;
            results(&reply.body);
            children(&reply.body);
            (void)snib__zk_read_event(&event, &type);
            snib__zk_read_stat(&one, &stat);
        }
    }
    return 0;
}
