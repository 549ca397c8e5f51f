/* store/etcd/recipe_look.c — an INSPECT of a lock of etcd's own clients: who holds,
 * who waits. Of a key of theirs nothing is known but that it is none of ours. How
 * long the holder's lease has left the server says, of whichever side it is. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/record.h"
#include "core/about.h"
#include "core/rules/rules.h"
#include "store/etcd/recipe_i.h"

enum { RECIPE_LOOK_KEYS = 4096 /* more are not shown */ };

static void recipe_look_answer(struct snib__etcd *e, struct etcd_step *k,
                               snib__answer answer, snib_err err)
{
    struct snib__request *r = k->r[0];
    r->said.answer = answer;
    r->said.err =
        err ? snib__fail_plain(r->said.reterr, err) : snib__ok(r->said.reterr);
    snib__etcd_step_over(e, k);
}

/* What recipe_txn.c has put; of others only that they are strangers. */
static const char *recipe_look_about(const struct snib__etcd_pair *pair,
                                     struct snib__stored_claim *ret,
                                     size_t *ret_size)
{
    static const char stranger[] = "program=not%20snib";
    const char *text = pair->value.bytes;
    size_t size = pair->value.size;
    if (size >= ETCD_RECIPE_HEAD && !memcmp(text, "client=", 7) &&
        snib__etcd_id_read(text + 7, ETCD_ID, ret->client) &&
        text[ETCD_RECIPE_HEAD - 1] == '&') {
        *ret_size = size - ETCD_RECIPE_HEAD;
        *ret_size = *ret_size < SNIB__ABOUT_MAX ? *ret_size : SNIB__ABOUT_MAX;
        return text + ETCD_RECIPE_HEAD;
    }
    *ret_size = sizeof stranger - 1;
    return stranger;
}

/* The last 32 bytes of our keys are the request's id. */
static void recipe_look_id(const struct snib__etcd_pair *pair,
                           struct snib__stored_claim *ret)
{
    const char *text = pair->key.bytes;
    uint64_t id[2];
    if (pair->key.size > ETCD_ID &&
        snib__etcd_id_read(text + pair->key.size - ETCD_ID, ETCD_ID, id)) {
        memcpy(ret->request, id, sizeof id);
    }
}

static int recipe_look_order(const void *left, const void *right)
{
    const struct snib__etcd_pair *a = left, *b = right;
    return (a->made > b->made) - (a->made < b->made);
}

static void recipe_look_row(const struct etcd_step *k, snib_instant now,
                            const struct snib__etcd_pair *pair, bool holds,
                            int64_t left_s)
{
    struct snib__stored_claim c = {.state = holds ? SNIB__HOLDS : SNIB__WAITS,
                                   .kind = SNIB_KIND_MUTEX,
                                   .permits = 1,
                                   .token = holds ? pair->made : 0};
    size_t size;
    const char *about = recipe_look_about(pair, &c, &size);
    recipe_look_id(pair, &c);
    c.until = snib__after(now, left_s > 0 ? snib__ms(left_s * 1000)
                                          : (snib_duration){1});
    snib__rules_row(k->r[0]->said.result, now, &c, about, size);
}

/* The keys are kept in k->from until it is known how long the first one stays. */
static bool recipe_look_pairs(struct etcd_step *k, struct snib__etcd_pair **ret,
                              uint32_t *ret_count)
{
    struct snib__etcd_rows rows;
    snib__etcd_read_range(snib__buf_bytes(&k->from), snib__buf_size(&k->from),
                          &rows);
    *ret_count = 0;
    *ret = snib__alloc(RECIPE_LOOK_KEYS * sizeof **ret);
    while (*ret && *ret_count < RECIPE_LOOK_KEYS &&
           snib__etcd_next_pair(&rows, &(*ret)[*ret_count])) {
        ++*ret_count;
    }
    if (*ret && *ret_count) {
        qsort(*ret, *ret_count, sizeof **ret, recipe_look_order);
    }
    return *ret != NULL;
}

static void recipe_look_show(struct snib__etcd *e, snib_instant now,
                             struct etcd_step *k, int64_t left_s)
{
    struct snib__request *r = k->r[0];
    struct snib__etcd_pair *pair;
    uint32_t count;
    bool good = recipe_look_pairs(k, &pair, &count);
    snib__rec_row(r->said.result, SNIB__ROW_LOCK);
    snib__rec_bytes(r->said.result, SNIB__F_NAME, r->name->raw,
                    r->name->raw_size);
    snib__rec_i64(r->said.result, SNIB__F_TOKEN,
                  good && count ? pair[0].made : 0);
    for (uint32_t i = 0; good && i < count; i++) {
        recipe_look_row(k, now, &pair[i], i == 0,
                        i == 0 ? left_s : ETCD_RECIPE_LEASE);
    }
    snib__free(pair);
    good = good && !r->said.result->failed;
    recipe_look_answer(e, k, good ? SNIB__DONE : SNIB__NOT_APPLIED,
                       good ? SNIB_ERR_OK : SNIB_ERR_NOMEM);
}

/* The lease of who holds it; 0: nobody does, or the key stays for ever. */
static int64_t recipe_look_lease(const struct snib__etcd_rows *all)
{
    struct snib__etcd_rows rows = *all;
    struct snib__etcd_pair pair;
    int64_t lease = 0, made = INT64_MAX;
    while (snib__etcd_next_pair(&rows, &pair)) {
        lease = pair.made < made ? pair.lease : lease;
        made = pair.made < made ? pair.made : made;
    }
    return lease;
}

/* Are these all keys of the lock, as of a revision? */
static bool recipe_look_is_whole(struct snib__etcd *e,
                                 const struct etcd_step *k,
                                 const struct etcd_reply *reply,
                                 struct snib__etcd_rows *rows)
{
    struct snib__etcd_header header = {0};
    struct snib__etcd_pair pair;
    struct snib__pb p;
    snib__pb_open(&p, reply->bytes, reply->size);
    if (snib__pb_next(&p) && p.field == 1) {
        snib__etcd_read_header(&p, &header);
    }
    struct snib__etcd_rows each = *rows;
    while (snib__etcd_next_pair(&each, &pair)) {
    }
    if (!header.revision || !snib__etcd_whole(&each)) {
        return false;
    }
    snib__etcd_saw(e, &k->call, header.revision);
    return true;
}

static void recipe_look_came(struct snib__etcd *e, snib_instant now,
                             struct etcd_step *k,
                             const struct etcd_reply *reply)
{
    static const struct etcd_reply strange = {
        .end = ETCD_AGAIN,
        .err = SNIB_ERR_STORE,
        .leave = true,
        .text = "the answer is not etcd's, or not whole"};
    struct snib__etcd_rows rows;
    snib__etcd_read_range(reply->bytes, reply->size, &rows);
    if (!recipe_look_is_whole(e, k, reply, &rows)) {
        snib__etcd_step_by_reply(e, now, k, &strange);
        return;
    }
    snib__buf_clear(&k->from);
    snib__buf_add(&k->from, reply->bytes, reply->size);
    k->revision = recipe_look_lease(&rows);
    if (k->from.failed) {
        recipe_look_answer(e, k, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM);
    } else if (k->revision) {
        k->recipe.ask = RECIPE_LASTS;
        snib__etcd_recipe_send(e, now, k);
    } else {
        recipe_look_show(e, now, k, 0);
    }
}

/* When that cannot be asked, the lock is shown all the same. */
void snib__etcd_recipe_shown(struct snib__etcd *e, snib_instant now,
                             struct etcd_step *k,
                             const struct etcd_reply *reply)
{
    int64_t left = 0;
    snib__buf_clear(k->r[0]->said.result);
    if (reply->end &&
        (k->recipe.ask == RECIPE_SHOWS || reply->end == ETCD_AGAIN)) {
        snib__etcd_step_by_reply(e, now, k, reply);
    } else if (k->recipe.ask == RECIPE_SHOWS) {
        recipe_look_came(e, now, k, reply);
    } else {
        if (!reply->end) {
            (void)snib__etcd_read_left(reply->bytes, reply->size, &left);
        }
        recipe_look_show(e, now, k, left);
    }
}
