/* store/etcd/recipe_wait.c — who stands in a queue, and being told that its turn
 * may have come.
 *
 * Each watches the key right before its own, and hears of its end alone: not of
 * renewals, which put it anew. The watch begins with "now". One from a revision
 * that is past is served up to 100 ms late; and whatever ended before the watch was
 * there is found out, since the request is asked once more as soon as the server
 * says that it watches. That it says so, and each end, counts as being told. A
 * poll stands behind it (core/blocking.h): where a watch has ended, where there
 * are too many, where the key is too long.
 *
 * A watch goes with its connection. On the next one all polls come at once
 * (session.c), and make them anew. */
#include <string.h>

#include "base/mem.h"
#include "store/etcd/recipe_i.h"

enum { RECIPE_WAIT_ANSWER = 64 << 10 /* bytes; more are none */ };

static struct etcd_wait *recipe_wait_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct etcd_wait, link);
}

struct etcd_wait *snib__etcd_wait_find(struct snib__etcd *e,
                                       const uint64_t id[2])
{
    SNIB__LIST_EACH (l, &e->waits.list) {
        struct etcd_wait *w = recipe_wait_of(l);
        if (w->id[0] == id[0] && w->id[1] == id[1]) {
            return w;
        }
    }
    return NULL;
}

static void recipe_wait_stop(struct snib__etcd *e, struct etcd_wait *w)
{
    e->waits.watches -= w->ahead != 0;
    w->ahead = 0;
    w->ended = false;
    snib__etcd_call_drop(e, &w->call);
}

/* The stream has ended; the next poll makes another one. */
static void recipe_wait_done(struct snib__etcd *e, snib_instant now,
                             struct etcd_call *c,
                             const struct etcd_reply *reply)
{
    struct etcd_wait *w = SNIB__CONTAINER(c, struct etcd_wait, call);
    (void)e;
    (void)now;
    (void)reply;
    w->ended = true;
}

static void recipe_wait_tell(struct snib__etcd *e, const struct etcd_wait *w)
{
    if (e->tolds < ETCD_TOLD) {
        memcpy(e->told[e->tolds++], w->id, sizeof w->id);
    } else {
        e->told_all = true;
    }
}

static void recipe_wait_heard(struct snib__etcd *e, struct etcd_call *c,
                              const uint8_t *bytes, size_t size)
{
    struct etcd_wait *w = SNIB__CONTAINER(c, struct etcd_wait, call);
    struct snib__etcd_watched said;
    snib__etcd_read_watch(bytes, size, &said);
    if (said.canceled) {
        w->ended = true;
    } else if (said.created || snib__etcd_any_event(&said)) {
        recipe_wait_tell(e, w);
    }
}

struct etcd_wait *snib__etcd_wait_make(struct snib__etcd *e,
                                       const uint64_t id[2])
{
    struct etcd_wait *w = snib__etcd_wait_find(e, id);
    if (!w && (w = snib__alloc(sizeof *w))) {
        snib__link_init(&w->link);
        snib__list_push(&e->waits.list, &w->link);
        snib__etcd_call_init(&w->call, recipe_wait_done);
        w->call.heard = recipe_wait_heard;
        w->call.stream.in.limit = RECIPE_WAIT_ANSWER;
        memcpy(w->id, id, sizeof w->id);
    }
    return w;
}

static void recipe_wait_free(struct snib__etcd *e, struct etcd_wait *w)
{
    recipe_wait_stop(e, w);
    snib__etcd_call_free(e, &w->call);
    snib__unlink(&w->link);
    snib__free(w);
}

void snib__etcd_wait_settle(struct snib__etcd *e, const struct snib__request *r)
{
    bool again = r->said.answer == SNIB__QUEUED ||
                 r->said.answer == SNIB__PENDING ||
                 r->said.answer == SNIB__UNKNOWN;
    struct etcd_wait *w = again ? NULL : snib__etcd_wait_find(e, r->id);
    if (w) {
        recipe_wait_free(e, w);
    }
}

void snib__etcd_wait_watch(struct snib__etcd *e, snib_instant now,
                           struct etcd_wait *w, const struct etcd_found *f)
{
    if (w->ahead == f->ahead && !w->ended) {
        return;
    }
    recipe_wait_stop(e, w);
    if (!f->key_size || e->waits.watches >= ETCD_WATCHES ||
        !snib__etcd_may_call(e)) {
        return;
    }
    w->ahead = f->ahead;
    e->waits.watches++;
    snib__buf_clear(&e->message);
    snib__etcd_put_watch_end(&e->message,
                             (struct snib__etcd_text){f->key, f->key_size});
    snib__etcd_call(e, now, &w->call, SNIB__ETCD_WATCH, &e->message);
}

void snib__etcd_waits_free(struct snib__etcd *e)
{
    while (!snib__list_empty(&e->waits.list)) {
        recipe_wait_free(e, recipe_wait_of(snib__list_first(&e->waits.list)));
    }
}
