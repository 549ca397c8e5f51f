/* store/etcd/recipe_txn.c — what recipe.c asks of the server, as transactions,
 * and what it is told of a lock's keys.
 *
 * Whatever puts or removes a key that is there compares the revision that it was
 * last changed with. So of the copies of a request that is sent again one is
 * executed: a late one neither moves a holder's key to the older lease that it
 * names, nor removes it. What makes a key compares that there is none, and no
 * tombstone. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/etcd/recipe_i.h"

enum {
    TXN_TOMBSTONE = 10, /* s: at least, */
    TXN_LATER = 10,     /* and so much longer than a late copy's leases */
    TXN_TOMBSTONE_AGE_MS = 5000
};

/* A transaction in the making. */
struct recipe_txn {
    struct snib__etcd *e;
    struct etcd_step *k;
    struct snib__buf *out;
    const struct etcd_lease *lease; /* NULL: none is needed */
    struct etcd_key from, to, own, tombstone;
};

/* -- leases ------------------------------------------------------------------ */

/* False: it needs none. */
static bool recipe_txn_ttl(const struct etcd_step *k, struct etcd_ttl *ret)
{
    const struct snib__request *r = k->r[0];
    int64_t late = r->late > TXN_TOMBSTONE ? r->late : TXN_TOMBSTONE;
    switch (k->recipe.ask) {
    case RECIPE_ENTERS:
    case RECIPE_TAKES:
        *ret = snib__etcd_ttl_hold(r->lease, k->begun);
        return true;
    case RECIPE_RENEWS: /* its holder relies on that until it is answered */
        *ret = snib__etcd_ttl_hold(r->lease, k->begun);
        ret->ending = r->renew.held_until;
        return true;
    case RECIPE_STANDS:
    case RECIPE_STAYS:
        *ret = snib__etcd_ttl_seconds(ETCD_RECIPE_LEASE, ETCD_RECIPE_AGE_MS,
                                      k->begun);
        return true;
    case RECIPE_CANCELS:
        break;
    case RECIPE_ENDS:
        if (r->resent) {
            break;
        }
        return false;
    case RECIPE_LOOKS:
    case RECIPE_LEAVES:
    case RECIPE_SHOWS:
    case RECIPE_LASTS:
        return false;
    }
    *ret = snib__etcd_ttl_seconds(late + TXN_LATER, TXN_TOMBSTONE_AGE_MS,
                                  k->begun);
    return true;
}

/* -- operations -------------------------------------------------------------- */

static void recipe_txn_range(const struct recipe_txn *w, uint32_t branch)
{
    snib__etcd_txn_range(
        w->out, branch,
        &(struct snib__etcd_range){.from = snib__etcd_text_of(&w->from),
                                   .to = snib__etcd_text_of(&w->to),
                                   .keys_only = true});
}

/* All keys of the lock, and whether the request has a tombstone. */
static void recipe_txn_look(const struct recipe_txn *w, uint32_t branch)
{
    struct etcd_key end = w->tombstone;
    end.text[end.size++] = 0; /* the next key there could be */
    recipe_txn_range(w, branch);
    snib__etcd_txn_range(
        w->out, branch,
        &(struct snib__etcd_range){.from = snib__etcd_text_of(&w->tombstone),
                                   .to = snib__etcd_text_of(&end),
                                   .keys_only = true});
}

/* A key that is new says who stands there. */
static void recipe_txn_make(const struct recipe_txn *w)
{
    const struct snib__request *r = w->k->r[0];
    char client[ETCD_ID + 1];
    struct snib__buf value;
    snib__buf_init(&value, 4096);
    snib__etcd_id_text(w->e->client, client);
    snib__buf_printf(&value, "client=%s&", client);
    snib__buf_add(&value, r->text ? r->text : "", r->text ? r->text_size : 0);
    snib__etcd_txn_put(
        w->out, &(struct snib__etcd_put){
                    .key = snib__etcd_text_of(&w->own),
                    .value = {snib__buf_bytes(&value), snib__buf_size(&value)},
                    .lease = w->lease->id});
    w->out->failed = w->out->failed || value.failed;
    snib__buf_free(&value);
}

/* A key that is there hangs on another lease from now on. */
static void recipe_txn_move(const struct recipe_txn *w)
{
    snib__etcd_compare(w->out, snib__etcd_text_of(&w->own),
                       w->k->recipe.found.changed);
    snib__etcd_txn_put(
        w->out, &(struct snib__etcd_put){.key = snib__etcd_text_of(&w->own),
                                         .lease = w->lease->id,
                                         .same_value = true});
}

static void recipe_txn_tombstone(const struct recipe_txn *w, uint32_t branch)
{
    snib__etcd_txn_put_in(
        w->out, branch,
        &(struct snib__etcd_put){.key = snib__etcd_text_of(&w->tombstone),
                                 .lease = w->lease->id});
}

/* The grant from before, of the same client. */
static void recipe_txn_end_prior(const struct recipe_txn *w)
{
    const struct snib__request *r = w->k->r[0];
    struct etcd_key prior;
    if (r->token) {
        snib__etcd_key_recipe_own(w->e, r->name, r->prior_id, &prior);
        snib__etcd_txn_delete(w->out, snib__etcd_text_of(&prior));
    }
}

/* -- transactions ------------------------------------------------------------ */

static void recipe_txn_acquire(const struct recipe_txn *w)
{
    const struct etcd_found *f = &w->k->recipe.found;
    if (w->k->recipe.ask == RECIPE_LOOKS) {
        recipe_txn_look(w, SNIB__ETCD_SUCCESS);
        return;
    }
    if (w->k->recipe.ask == RECIPE_ENTERS ||
        w->k->recipe.ask == RECIPE_STANDS) {
        snib__etcd_compare_made(w->out, snib__etcd_text_of(&w->tombstone), 0);
    }
    if (w->k->recipe.ask == RECIPE_ENTERS) {
        snib__etcd_compare_none(w->out, snib__etcd_text_of(&w->from),
                                snib__etcd_text_of(&w->to));
        recipe_txn_make(w);
    } else if (w->k->recipe.ask == RECIPE_STANDS) {
        snib__etcd_compare_made(w->out, snib__etcd_text_of(&w->own), 0);
        recipe_txn_end_prior(w);
        recipe_txn_make(w);
        recipe_txn_look(w, SNIB__ETCD_SUCCESS);
    } else {
        if (w->k->recipe.ask == RECIPE_TAKES) {
            snib__etcd_compare_later(w->out, snib__etcd_text_of(&w->from),
                                     snib__etcd_text_of(&w->to), f->own - 1);
        }
        recipe_txn_move(w);
    }
    recipe_txn_look(w, SNIB__ETCD_FAILURE);
}

static void recipe_txn_leave(const struct recipe_txn *w)
{
    snib__etcd_compare(w->out, snib__etcd_text_of(&w->own),
                       w->k->recipe.found.changed);
    snib__etcd_txn_delete(w->out, snib__etcd_text_of(&w->own));
    recipe_txn_look(w, SNIB__ETCD_FAILURE);
}

/* A key that is ours, but of another grant than this one, goes as well if copies
 * of the acquire may still be on their way: one of them has made it. */
static void recipe_txn_end(const struct recipe_txn *w)
{
    const struct snib__request *r = w->k->r[0];
    snib__etcd_compare_made(w->out, snib__etcd_text_of(&w->own), r->token);
    snib__etcd_txn_delete(w->out, snib__etcd_text_of(&w->own));
    if (r->resent) {
        recipe_txn_tombstone(w, SNIB__ETCD_SUCCESS);
        snib__etcd_txn_delete_in(w->out, SNIB__ETCD_FAILURE,
                                 snib__etcd_text_of(&w->own));
        recipe_txn_tombstone(w, SNIB__ETCD_FAILURE);
    }
}

static void recipe_txn_cancel(const struct recipe_txn *w)
{
    snib__etcd_txn_delete(w->out, snib__etcd_text_of(&w->own));
    recipe_txn_end_prior(w);
    recipe_txn_tombstone(w, SNIB__ETCD_SUCCESS);
}

static void recipe_txn_txn(const struct recipe_txn *w)
{
    switch (w->k->recipe.ask) {
    case RECIPE_LOOKS:
    case RECIPE_ENTERS:
    case RECIPE_STANDS:
    case RECIPE_TAKES:
    case RECIPE_STAYS:
    case RECIPE_RENEWS:
        recipe_txn_acquire(w);
        break;
    case RECIPE_LEAVES:
        recipe_txn_leave(w);
        break;
    case RECIPE_ENDS:
        recipe_txn_end(w);
        break;
    case RECIPE_CANCELS:
        recipe_txn_cancel(w);
        break;
    case RECIPE_SHOWS:
    case RECIPE_LASTS:
        break;
    }
}

/* The two questions of recipe_look.c. */
static void recipe_txn_question(struct snib__etcd *e, snib_instant now,
                                struct etcd_step *k)
{
    struct etcd_key from, to;
    snib__buf_clear(&e->message);
    if (k->recipe.ask == RECIPE_LASTS) {
        snib__etcd_put_lease(&e->message, k->revision);
        snib__etcd_step_call(e, now, k, STEP_ASKS, SNIB__ETCD_LEASE_TTL,
                             &e->message);
        return;
    }
    snib__etcd_key_recipe(e, k->r[0]->name, &from, &to);
    snib__etcd_put_range(&e->message, &(struct snib__etcd_range){
                                          .from = snib__etcd_text_of(&from),
                                          .to = snib__etcd_text_of(&to)});
    snib__etcd_step_call(e, now, k, STEP_ASKS, SNIB__ETCD_RANGE, &e->message);
}

void snib__etcd_recipe_send(struct snib__etcd *e, snib_instant now,
                            struct etcd_step *k)
{
    const struct snib__request *r = k->r[0];
    struct snib__buf message;
    struct etcd_ttl ttl;
    struct recipe_txn w = {.e = e, .k = k, .out = &message};
    if (k->recipe.ask == RECIPE_SHOWS || k->recipe.ask == RECIPE_LASTS) {
        recipe_txn_question(e, now, k);
        return;
    }
    if (recipe_txn_ttl(k, &ttl)) {
        w.lease = snib__etcd_lease_for(e, now, &ttl);
        if (!w.lease) {
            snib__etcd_step_wait(e, k);
            return;
        }
        k->ends[0] =
            snib__before(snib__etcd_lease_end(w.lease),
                         snib__etcd_lease_drift(w.lease->ttl, r->lease));
    }
    snib__etcd_key_recipe(e, r->name, &w.from, &w.to);
    snib__etcd_key_recipe_own(e, r->name, r->id, &w.own);
    snib__etcd_key_tombstone(r->id, &w.tombstone);
    snib__buf_init(&message, SNIB__H2_IN);
    recipe_txn_txn(&w);
    snib__etcd_step_call(
        e, now, k, k->recipe.ask == RECIPE_LOOKS ? STEP_ASKS : STEP_WRITES,
        SNIB__ETCD_TXN, &message);
    snib__buf_free(&message);
}

/* -- answers ----------------------------------------------------------------- */

static void recipe_txn_note(const struct etcd_key *own,
                            const struct snib__etcd_pair *pair,
                            struct etcd_found *ret)
{
    if (pair->key.size == own->size &&
        !memcmp(pair->key.bytes, own->text, own->size)) {
        ret->own = pair->made;
        ret->changed = pair->mod_revision;
    }
}

/* Of one that is before ours. */
static void recipe_txn_note_ahead(const struct snib__etcd_pair *pair,
                                  struct etcd_found *ret)
{
    if (ret->own && pair->made >= ret->own) {
        return;
    }
    ret->before++;
    if (pair->made > ret->ahead) {
        ret->ahead = pair->made;
        ret->key_size = pair->key.size <= sizeof ret->key ? pair->key.size : 0;
        memcpy(ret->key, pair->key.bytes, ret->key_size);
    }
}

bool snib__etcd_recipe_read(const struct snib__etcd *e, struct etcd_step *k,
                            struct snib__etcd_txn *t)
{
    struct etcd_found found = {.own = 0};
    struct snib__etcd_rows rows, again;
    struct snib__etcd_pair pair;
    struct etcd_key own;
    snib__etcd_key_recipe_own(e, k->r[0]->name, k->r[0]->id, &own);
    if (!snib__etcd_next_range(t, &rows)) {
        return false;
    }
    again = rows;
    while (snib__etcd_next_pair(&rows, &pair)) {
        if (!pair.made) {
            return false;
        }
        recipe_txn_note(&own, &pair, &found);
    }
    while (snib__etcd_next_pair(&again, &pair)) {
        recipe_txn_note_ahead(&pair, &found);
    }
    if (!snib__etcd_whole(&rows) || !snib__etcd_next_range(t, &rows)) {
        return false;
    }
    found.ended = rows.count > 0;
    while (snib__etcd_next_pair(&rows, &pair)) {
    }
    k->recipe.found = found;
    return snib__etcd_whole(&rows);
}
