/* store/mysql/waits.c — the requests of this client that wait, as its listener's
 * thread looks for them. A name is a copy: the thread reads it while the request
 * itself may end. */
#include "base/error.h"
#include "base/mem.h"
#include "store/mysql/mysql_i.h"

enum { WAITS_FORGET_S = 10 }; /* waiters poll each second */

struct snib__my_wait *snib__my_find_wait(struct snib__my_listener *l,
                                         const uint64_t id[2])
{
    for (uint32_t i = 0; i < l->waits; i++) {
        if (l->wait[i].id[0] == id[0] && l->wait[i].id[1] == id[1]) {
            return &l->wait[i];
        }
    }
    return NULL;
}

static void waits_note(struct snib__my_listener *l,
                       const struct snib__request *r, snib_instant now)
{
    struct snib__my_wait *w = snib__my_find_wait(l, r->id);
    if (w) {
        w->seen = now;
        return;
    }
    if (l->waits == l->wait_room) {
        uint32_t more = l->wait_room ? 2 * l->wait_room : 8;
        void *p = snib__realloc(l->wait, more * sizeof *l->wait);
        if (!p) {
            l->lacks = true;
            return;
        }
        l->wait = p;
        l->wait_room = more;
    }
    w = &l->wait[l->waits++];
    w->id[0] = r->id[0];
    w->id[1] = r->id[1];
    w->seen = now;
    w->size = r->name->raw_size;
    memcpy(w->name, r->name->raw, w->size);
}

static void waits_forget(struct snib__my_listener *l, const uint64_t id[2])
{
    struct snib__my_wait *w = snib__my_find_wait(l, id);
    if (w) {
        *w = l->wait[--l->waits];
    }
}

/* Some are never executed again: their client has ended them otherwise. */
static void waits_forget_old(struct snib__my_listener *l, snib_instant now)
{
    for (uint32_t i = l->waits; i > 0; i--) {
        if (snib__between(l->wait[i - 1].seen, now).ns >
            WAITS_FORGET_S * INT64_C(1000000000)) {
            l->wait[i - 1] = l->wait[--l->waits];
        }
    }
    l->lacks = l->lacks && l->waits;
}

static struct snib__request *waits_request(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__request, link);
}

void snib__my_note_waits(struct snib__mysql *p, struct snib__list *chain)
{
    snib_instant now = snib__sql_now();
    pthread_mutex_lock(&p->listener.mu);
    waits_forget_old(&p->listener, now);
    SNIB__LIST_EACH (l, chain) {
        if (waits_request(l)->verb == SNIB__ACQUIRE) {
            waits_note(&p->listener, waits_request(l), now);
        }
    }
    pthread_mutex_unlock(&p->listener.mu);
}

void snib__my_drop_waits(struct snib__mysql *p, struct snib__list *chain)
{
    pthread_mutex_lock(&p->listener.mu);
    SNIB__LIST_EACH (l, chain) {
        const struct snib__request *r = waits_request(l);
        if (r->verb == SNIB__CANCEL ||
            (r->verb == SNIB__ACQUIRE && r->said.answer != SNIB__QUEUED)) {
            waits_forget(&p->listener, r->id);
        }
    }
    pthread_mutex_unlock(&p->listener.mu);
}
