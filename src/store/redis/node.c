/* store/redis/node.c — one node of a cluster: what it says of the others, and
 * what the store asks of it that is made of the nodes (store/cluster/).
 *
 * Each node is a Redis store of its own. It knows no request of another node's;
 * one whose slot is elsewhere is refused by the server before anything was done,
 * and answered here as NOT_APPLIED with the home that it is to be started at. */
#include "store/redis/node.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/redis/inspect_i.h"

static struct snib__redis *node_of(const struct snib__store *store)
{
    return (struct snib__redis *)(uintptr_t)store;
}

static const char *node_address(const struct snib__redis *s)
{
    return s->out->conn[CALLERS]->address;
}

/* -- the map ----------------------------------------------------------------- */

void snib__node_ask(struct snib__redis *s, snib_instant now, int i)
{
    struct snib__buf *out = &s->out->conn[i]->out;
    snib__resp_begin(out, 2);
    snib__resp_text(out, "CLUSTER");
    snib__resp_text(out, "NODES");
    snib__session_push(
        s, i, &(struct flight){.job = JOB_SLOTS, .sent = now, .last = true});
    s->session[i].maps = true;
}

bool snib__node_told(struct snib__redis *s, snib_instant now, int i,
                     const struct snib__resp_cell *c)
{
    struct session *l = &s->session[i];
    char text[sizeof l->text];
    int tag;
    l->maps = false;
    snib__slots_said said = c->type == SNIB__RESP_STRING
                                ? snib__slots_read(s->slots, node_address(s),
                                                   c->text, c->size, &tag)
                                : SNIB__SLOTS_STRANGE;
    if (said == SNIB__SLOTS_FOREIGN) {
        snprintf(text, sizeof text,
                 "%.*s knows none of the nodes of this cluster: it is a node "
                 "of another one, or was set up anew",
                 ADDRESS_SHOWN, node_address(s));
        snib__session_cut(s, now, i, true, SNIB_ERR_UNREACHABLE, text, false);
    } else if (said != SNIB__SLOTS_STRANGE) {
        l->tag = tag;
    }
    return said == SNIB__SLOTS_TAKEN || said == SNIB__SLOTS_BEHIND;
}

void snib__node_look(struct snib__store *store, snib_instant now)
{
    struct snib__redis *s = node_of(store);
    for (int i = 0; i < SUBS; i++) {
        if (snib__session_up(s, i) && snib__session_has_room(s, i, 1)) {
            if (!s->session[i].maps) {
                snib__node_ask(s, now, i);
                snib__conn_touch(s->out, s->out->conn[i]);
            }
            return;
        }
    }
    snib__session_want(s, now, CALLERS); /* its greeting asks */
    snib__conn_touch(s->out, s->out->conn[CALLERS]);
}

bool snib__node_answers(const struct snib__store *store)
{
    const struct snib__redis *s = node_of(store);
    return snib__session_up(s, CALLERS) || snib__session_up(s, BACKGROUND);
}

/* An answer is overdue. */
static bool node_is_silent(const struct snib__redis *s)
{
    return s->session[CALLERS].overdue.ns || s->session[BACKGROUND].overdue.ns;
}

snib_err snib__node_trouble(const struct snib__store *store, bool *ret_barred,
                            const char **ret_text)
{
    const struct snib__redis *s = node_of(store);
    const struct session *l = &s->session[CALLERS];
    *ret_barred = l->barred;
    *ret_text = l->text;
    if (!snib__node_answers(store)) {
        return l->err;
    }
    *ret_barred = false;
    *ret_text = "no answer";
    return node_is_silent(s) ? SNIB_ERR_UNREACHABLE : SNIB_ERR_OK;
}

uint32_t snib__node_failures(const struct snib__store *store)
{
    return node_of(store)->failures;
}

/* -- a request of another node's --------------------------------------------- */

bool snib__node_asks(const struct snib__redis *s,
                     const struct snib__request *rq, const char *text,
                     uint32_t size)
{
    return s->slots && snib__redis_inspects(rq) && size > 4 &&
           !memcmp(text, "ASK ", 4);
}

bool snib__node_moved(struct snib__redis *s, struct snib__request *rq,
                      const char *text, uint32_t size)
{
    bool ask;
    int home =
        s->slots && !snib__node_asks(s, rq, text, size)
            ? snib__slots_redirect(s->slots, node_address(s), text, size, &ask)
            : -1;
    if (home < 0) {
        return false;
    }
    rq->acquire.placed =
        rq->acquire.placed || (rq->store.where & M_QUEUED) != 0;
    rq->store.moved = (uint8_t)(home + 1);
    rq->store.asking = ask;
    char words[sizeof s->state.text];
    snib__redis_error_text(words, sizeof words, text, size);
    snib__request_fail(s, rq, SNIB__NOT_APPLIED, SNIB_ERR_STORE, words);
    return true;
}

bool snib__node_owns(struct snib__store *store, const uint64_t id[2])
{
    return snib__request_find(node_of(store), id) != NULL;
}

/* It ends here without an answer. */
static void node_let_go(struct snib__redis *s, struct snib__request *rq)
{
    rq->acquire.placed =
        rq->acquire.placed || (rq->store.where & M_QUEUED) != 0;
    snib__request_waits_no_more(s, rq);
    snib__unlink(&rq->store.link);
    snib__heap_remove(&s->timers, &rq->store.timer);
    rq->store.where = 0;
    s->owned--;
}

static void node_take(struct snib__request *rq, struct snib__list *to)
{
    snib__unlink(&rq->link);
    snib__list_push(to, &rq->link);
}

void snib__node_take_back(struct snib__store *store, struct snib__list *to)
{
    struct snib__redis *s = node_of(store);
    struct snib__list taken;
    struct snib__link *l;
    snib__list_init(&taken);
    for (int k = 1; k >= 0; k--) {
        while ((l = snib__list_first(&s->unsent[k]))) {
            node_take(SNIB__CONTAINER(l, struct snib__request, link), &taken);
        }
    }
    for (uint32_t i = 1; i <= s->timers.size; i++) {
        struct snib__request *rq =
            SNIB__CONTAINER(s->timers.v[i], struct snib__request, store.timer);
        if (!(rq->store.where & (M_UNSENT | M_FLIGHT))) {
            node_take(rq, &taken);
        }
    }
    while ((l = snib__list_pop(&taken))) {
        node_let_go(s, SNIB__CONTAINER(l, struct snib__request, link));
        snib__list_push(to, l);
    }
}

void snib__node_cut(struct snib__store *store, snib_instant now)
{
    struct snib__redis *s = node_of(store);
    for (int i = 0; i < s->sessions; i++) {
        if (s->session[i].count && snib__session_up(s, i)) {
            snib__session_cut(s, now, i, true, SNIB_ERR_UNREACHABLE,
                              "other nodes serve its slots by now", false);
            snib__conn_touch(s->out, s->out->conn[i]);
        }
    }
}

/* -- its end ----------------------------------------------------------------- */

void snib__node_leave(struct snib__store *store, snib_instant now)
{
    struct snib__redis *s = node_of(store);
    struct flight f;
    for (int i = 0; i < s->sessions; i++) {
        struct session *l = &s->session[i];
        if (l->state != SESSION_DOWN && l->state != SESSION_RESTING &&
            l->state != SESSION_CLOSING) {
            while (snib__session_pop(l, &f)) {
                snib__free(f.safe);
            }
            s->out->conn[i]->open = false;
            snib__session_leave(s, now, i);
            snib__conn_touch(s->out, s->out->conn[i]);
        }
    }
}

bool snib__node_has_left(const struct snib__store *store)
{
    const struct snib__redis *s = node_of(store);
    bool left = true;
    for (int i = 0; i < s->sessions; i++) {
        left = left && (s->session[i].state == SESSION_DOWN ||
                        s->session[i].state == SESSION_RESTING);
    }
    return left;
}
