/* store/etcd/place.c — under which keys this store's claims stand.
 *
 * etcd keeps each key that there ever was, until its history is compacted, and a
 * range walks over all of them: keys that are gone cost a fetch as much as those
 * that are there. So a claim has no key of its own. Each client has places, which are
 * numbers, and a claim stands at one of them; when it is gone the next one stands
 * there. A name has seen as many keys then as its clients had requests under way at
 * once, up to a thousand each.
 *
 *   free --take--> taken --applied, and a row was put--> (in use) --deleted--> free
 *     ^             |`--lost--> lost, for good
 *     `--nothing was done, or no row was put
 *
 * Whose claim it is says the row. A request that is asked again is found by its row;
 * where there is none, it may be given another place, unless one of its writes was
 * lost: it has that place then, until it has ended. So what the repeat or the cancel
 * writes is compared with the place where a late copy would write. Nobody else ever
 * stands at a place where something was lost. (But for what a restored cluster has
 * kept. While that stands there no copy is let in, nor behind it, since what it compares
 * of the lock is another by then. So the request gets another place.)
 *
 * A place is free again when this client has deleted its row, and knows that it has.
 * A claim that others end, or its lease, keeps its number to itself. */
#include <string.h>

#include "base/mem.h"
#include "store/etcd/etcd_i.h"

/* More requests than can be under way. */
enum { PLACE_LOST_MAX = 2 * ETCD_STEPS * SNIB__SNAPSHOT_MAX };

static bool place_same(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

bool snib__etcd_place_same(const struct etcd_place *a,
                           const struct etcd_place *b)
{
    return a->number == b->number && place_same(a->opened, b->opened);
}

static struct etcd_taken *place_lost_of(const struct etcd_places *p,
                                        const uint64_t request[2])
{
    for (uint32_t i = 0; i < p->losts; i++) {
        if (place_same(p->lost[i].request, request)) {
            return &p->lost[i];
        }
    }
    return NULL;
}

static void place_free(struct etcd_places *p, uint32_t number)
{
    if (p->frees < ETCD_PLACES) {
        p->free[p->frees++] = number;
    }
}

static void place_forget(struct etcd_places *p, struct etcd_taken *t)
{
    size_t behind = (size_t)(p->lost + p->losts - (t + 1));
    memmove(t, t + 1, behind * sizeof *t);
    p->losts--;
}

/* -- taken ----------------------------------------------------------------- */

/* Does a row stand there, which this client knew nothing of? A cluster that was
 * restored from a backup may have one. */
static bool place_is_seen(const struct snib__etcd *e, const struct etcd_step *k,
                          const struct snib__name *name, uint32_t number)
{
    for (uint32_t i = 0; i < k->fetched_count; i++) {
        const struct etcd_place *at = &k->fetched[i].place;
        if (k->s.lock[k->s.claim[i].lock].name == name &&
            at->number == number && place_same(at->opened, e->places.opened)) {
            return true;
        }
    }
    return false;
}

static uint32_t place_next(struct snib__etcd *e, const struct etcd_step *k,
                           const struct snib__name *name)
{
    struct etcd_places *p = &e->places;
    uint32_t number;
    do {
        number = p->frees ? p->free[--p->frees] : p->next++;
    } while (place_is_seen(e, k, name, number));
    return number;
}

/* Room for all that are taken, if they are lost. */
static bool place_room(struct etcd_places *p)
{
    uint32_t need = p->losts + p->takens + 1;
    if (need <= p->capacity) {
        return true;
    }
    struct etcd_taken *v = snib__realloc(p->lost, 2 * need * sizeof *v);
    if (v) {
        p->lost = v;
        p->capacity = 2 * need;
    }
    return v != NULL;
}

static const struct etcd_taken *place_taken(const struct etcd_step *k,
                                            const uint64_t request[2])
{
    for (uint32_t i = 0; i < k->takens; i++) {
        if (place_same(k->taken[i].request, request)) {
            return &k->taken[i];
        }
    }
    return NULL;
}

bool snib__etcd_place_find(const struct snib__etcd *e,
                           const struct etcd_step *k,
                           const struct snib__key *key, struct etcd_place *ret)
{
    for (uint32_t i = 0; i < k->fetched_count; i++) {
        const struct snib__snapshot_claim *c = &k->s.claim[i];
        if (k->s.lock[c->lock].name == key->name &&
            place_same(c->c.request, key->request)) {
            *ret = k->fetched[i].place;
            return true;
        }
    }
    const struct etcd_taken *t = place_lost_of(&e->places, key->request);
    t = t && !place_is_seen(e, k, key->name, t->number)
            ? t
            : place_taken(k, key->request);
    memcpy(ret->opened, e->places.opened, sizeof ret->opened);
    ret->number = t ? t->number : 0;
    return t != NULL;
}

bool snib__etcd_place_take(struct snib__etcd *e, struct etcd_step *k,
                           const struct snib__key *key, struct etcd_place *ret)
{
    if (snib__etcd_place_find(e, k, key, ret)) {
        return true;
    }
    if (k->takens == SNIB__SNAPSHOT_MAX || !place_room(&e->places)) {
        return false;
    }
    struct etcd_taken *lost = place_lost_of(&e->places, key->request);
    if (lost) {
        place_forget(&e->places, lost);
    }
    ret->number = place_next(e, k, key->name);
    k->taken[k->takens++] = (struct etcd_taken){
        .request = {key->request[0], key->request[1]}, .number = ret->number};
    e->places.takens++;
    return true;
}

/* -- what became of them ----------------------------------------------------- */

void snib__etcd_places_back(struct snib__etcd *e, struct etcd_step *k)
{
    while (k->takens) {
        place_free(&e->places, k->taken[--k->takens].number);
        e->places.takens--;
    }
}

static void place_stands(struct etcd_places *p, struct etcd_step *k,
                         const uint64_t request[2])
{
    for (uint32_t i = 0; i < k->takens; i++) {
        if (place_same(k->taken[i].request, request)) {
            k->taken[i] = k->taken[--k->takens];
            p->takens--;
        }
    }
}

static void place_deleted(struct snib__etcd *e, const struct etcd_step *k,
                          const uint64_t request[2])
{
    for (uint32_t i = 0; i < k->fetched_count; i++) {
        const struct etcd_place *at = &k->fetched[i].place;
        if (place_same(k->s.claim[i].c.request, request) &&
            place_same(at->opened, e->places.opened) &&
            !place_lost_of(&e->places, request)) {
            place_free(&e->places, at->number);
        }
    }
}

void snib__etcd_places_written(struct snib__etcd *e, struct etcd_step *k)
{
    for (uint32_t i = 0; i < k->s.guards; i++) {
        const struct snib__guard *g = &k->s.guard[i];
        if (g->key.kind == SNIB__KEY_CLAIM && g->todo == SNIB__GUARD_PUT) {
            place_stands(&e->places, k, g->key.request);
        } else if (g->key.kind == SNIB__KEY_CLAIM &&
                   g->todo == SNIB__GUARD_DELETE) {
            place_deleted(e, k, g->key.request);
        }
    }
    snib__etcd_places_back(e, k);
}

void snib__etcd_places_lost(struct snib__etcd *e, struct etcd_step *k)
{
    struct etcd_places *p = &e->places;
    while (k->takens) {
        p->lost[p->losts++] = k->taken[--k->takens];
        p->takens--;
    }
    while (p->losts > PLACE_LOST_MAX) {
        place_forget(p, p->lost);
    }
}

/* Nothing is asked any more under its id, or nothing that puts a row. */
static bool place_is_ended(const struct snib__request *r)
{
    bool done = r->said.answer == SNIB__DONE, no = r->said.answer == SNIB__NO;
    bool ends = r->verb == SNIB__RELEASE || r->verb == SNIB__CANCEL;
    return (ends && (done || no)) || (r->verb == SNIB__PARAMS && done) ||
           (r->verb == SNIB__RENEW && no);
}

void snib__etcd_places_over(struct snib__etcd *e, struct etcd_step *k)
{
    struct etcd_places *p = &e->places;
    snib__etcd_places_back(e, k);
    for (uint32_t i = 0; i < k->count && p->losts; i++) {
        struct etcd_taken *t = place_lost_of(p, k->r[i]->id);
        if (t && place_is_ended(k->r[i])) {
            place_forget(p, t);
        }
    }
}
