/* store/etcd/guess.c — the rows of a name as this client has left them.
 *
 * Who has just written all rows of a name knows them without a fetch: its next step
 * there is one call, not two. Others may have changed them since, but that harms
 * nothing: a write compares the revisions of all rows that were relied upon
 * (core/snapshot/snapshot.h), so it is applied only if they are as they were known.
 * If not, its answer has them, and the step goes on from there. Nothing is ever
 * answered without such a write (claims_guess).
 *
 * A revision says which bytes a row has, in one life of a cluster. One that is
 * restored from a backup may come to the same revision with other bytes. So what is
 * known counts on the connection on which it was seen, and for some seconds: a
 * cluster is not restored without its members ending.
 *
 * Where others wait or hold, only a release goes by it, and only soon after who
 * releases was let in: he knows what he wrote then, and of the others what he fetched
 * for that. Who arrives meanwhile changes nothing that a release compares, but each
 * who waits puts his row anew once a second, and in any other step a write would mostly
 * conflict. A conflict goes through the cluster's log, which a fetch does not. */
#include <string.h>

#include "store/etcd/etcd_i.h"

enum { GUESS_AGE_MS = 5000, GUESS_CROWD_AGE_MS = 250, GUESS_VAIN = 8 };

static struct etcd_guess *guess_slot(struct snib__etcd *e,
                                     const struct snib__name *name)
{
    return &e->guess[name->hash % ETCD_GUESSES];
}

static bool guess_is_of(const struct etcd_guess *g,
                        const struct snib__name *name)
{
    return g->at.ns && g->hash == name->hash &&
           g->name_size == name->raw_size &&
           !memcmp(snib__buf_bytes(&g->bytes), name->raw, name->raw_size);
}

const struct etcd_guess *snib__etcd_guess_take(struct snib__etcd *e,
                                               snib_instant now,
                                               const struct etcd_step *k)
{
    const struct snib__request *r = k->r[0];
    struct etcd_guess *g = guess_slot(e, r->name);
    bool crowd = snib__buf_size(&g->others) > 0;
    int64_t age = crowd ? GUESS_CROWD_AGE_MS : GUESS_AGE_MS;
    bool is = k->count == 1 && !r->resent && guess_is_of(g, r->name) &&
              snib__between(g->at, now).ns <= snib__ms(age).ns;
    if (!is ||
        (r->verb != SNIB__RELEASE && (r->verb != SNIB__ACQUIRE || crowd))) {
        return NULL;
    }
    g->at.ns = 0;
    return g;
}

/* -- noted ----------------------------------------------------------------- */

static const struct snib__guard *guess_put(const struct snib__snapshot *s,
                                           snib__key_kind kind,
                                           const struct snib__name *name)
{
    for (uint32_t i = 0; i < s->guards; i++) {
        const struct snib__guard *g = &s->guard[i];
        if (g->key.kind == kind && g->key.name == name &&
            g->todo == SNIB__GUARD_PUT) {
            return g;
        }
    }
    return NULL;
}

/* Is there no claim but this request's? */
static bool guess_is_alone(const struct snib__snapshot *s, uint32_t lock,
                           const struct snib__request *r, bool *ret_own)
{
    bool alone = true;
    *ret_own = false;
    for (uint32_t i = 0; i < s->claims; i++) {
        const struct snib__snapshot_claim *c = &s->claim[i];
        if (c->lock == lock && !c->gone) {
            bool own =
                c->c.request[0] == r->id[0] && c->c.request[1] == r->id[1];
            *ret_own = *ret_own || own;
            alone = alone && own;
        }
    }
    return alone;
}

static size_t guess_keep(struct etcd_guess *g, const struct snib__snapshot *s,
                         const struct snib__guard *from)
{
    snib__buf_add(&g->bytes, snib__buf_bytes(&s->bytes) + from->at, from->size);
    return from->size;
}

/* All rows but the arrivals, which only who waits writes, were written just now. */
static void guess_fill(const struct snib__etcd *e, struct etcd_guess *g,
                       const struct etcd_step *k, const struct snib__guard *row,
                       const struct snib__guard *claim, bool crowd,
                       uint64_t revision)
{
    const struct snib__snapshot *s = &k->s;
    const struct snib__snapshot_lock *l = &s->lock[0];
    const struct snib__name *name = l->name;
    g->at.ns = 0;
    snib__buf_clear(&g->bytes);
    snib__buf_add(&g->bytes, name->raw, name->raw_size);
    g->hash = name->hash;
    g->name_size = name->raw_size;
    g->row_stamp = row ? revision : l->stamp;
    if (row) {
        (void)guess_keep(g, s, row);
    } else {
        snib__layout_put_lock(&g->bytes, &l->row);
    }
    g->row_size = snib__buf_size(&g->bytes) - g->name_size;
    g->arrivals_stamp = l->arrivals_stamp;
    if (g->arrivals_stamp) {
        snib__layout_put_arrivals(&g->bytes, l->arrivals);
    }
    g->arrivals_size = snib__buf_size(&g->bytes) - g->name_size - g->row_size;
    g->claim_stamp = claim ? revision : 0;
    g->claim_size = claim ? guess_keep(g, s, claim) : 0;
    if (claim) {
        (void)snib__etcd_place_find(e, k, &claim->key, &g->place);
    }
    g->lease = claim ? k->under[0] : 0;
    snib__buf_clear(&g->others);
    if (crowd) {
        snib__buf_add(&g->others, snib__buf_bytes(&k->seen),
                      snib__buf_size(&k->seen));
    }
    if (!g->bytes.failed && !g->others.failed) {
        g->at = k->sent;
    }
}

/* Was nothing written but the lock row and this claim? */
static bool guess_is_plain(const struct snib__snapshot *s,
                           const struct snib__guard *claim)
{
    bool plain = claim != NULL;
    for (uint32_t i = 0; i < s->guards; i++) {
        const struct snib__guard *g = &s->guard[i];
        plain = plain && (g->todo == SNIB__GUARD_KEEP || g == claim ||
                          g->key.kind == SNIB__KEY_LOCK);
    }
    return plain;
}

static void guess_note(struct snib__etcd *e, const struct etcd_step *k,
                       uint64_t revision)
{
    const struct snib__request *r = k->r[0];
    const struct snib__name *name = k->s.lock[0].name;
    struct etcd_guess *g = guess_slot(e, name);
    const struct snib__guard *row = guess_put(&k->s, SNIB__KEY_LOCK, name);
    const struct snib__guard *claim = guess_put(&k->s, SNIB__KEY_CLAIM, name);
    bool own, alone = guess_is_alone(&k->s, 0, r, &own);
    bool done = r->said.answer == SNIB__DONE &&
                (r->verb == SNIB__ACQUIRE || r->verb == SNIB__RELEASE);
    bool crowd = done && !alone && own && r->verb == SNIB__ACQUIRE &&
                 snib__buf_size(&k->seen) && !k->seen.failed &&
                 guess_is_plain(&k->s, claim);
    if (!crowd && (!done || !row || !alone || own != (claim != NULL))) {
        return;
    }
    if (g->vain) {
        g->vain--;
        return;
    }
    guess_fill(e, g, k, row, claim, crowd, revision);
}

void snib__etcd_guess_note(struct snib__etcd *e, const struct etcd_step *k,
                           uint64_t revision)
{
    for (uint32_t i = 0; i < k->s.locks; i++) {
        struct etcd_guess *g = guess_slot(e, k->s.lock[i].name);
        if (guess_is_of(g, k->s.lock[i].name)) {
            g->at.ns = 0;
        }
    }
    if (k->count == 1) {
        guess_note(e, k, revision);
    }
}

void snib__etcd_guess_vain(struct snib__etcd *e, const struct etcd_step *k)
{
    guess_slot(e, k->r[0]->name)->vain = GUESS_VAIN;
}

void snib__etcd_guesses_forget(struct snib__etcd *e)
{
    for (int i = 0; i < ETCD_GUESSES; i++) {
        e->guess[i].at.ns = 0;
    }
}

void snib__etcd_guesses_free(struct snib__etcd *e)
{
    for (int i = 0; i < ETCD_GUESSES; i++) {
        snib__buf_free(&e->guess[i].bytes);
        snib__buf_free(&e->guess[i].others);
    }
}
