/* store/etcd/claims.c — requests that change claims, decided on a snapshot
 * (core/snapshot).
 *
 *   (guess: the rows as they were left, if they are known) --> decide
 *   fetch --> decide --ANSWERED--> over
 *     ^         |`-----APART-----> each alone
 *     +--FETCH--+ WRITE
 *     |         v
 *     |       plan --leases are missing--> LEASES --they have come--> plan
 *     |         v
 *     |       the transaction --succeeded--> over
 *     |         |`------------- no answer--> UNKNOWN
 *     +---------+ another was faster: its answer has the rows as they are now
 *
 * The store has no clock, and needs none: a claim is there as long as the lease
 * that it hangs on, so what is fetched is alive. Its `until` is for people. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/etcd/plan_i.h"

enum {
    CLAIMS_AT_ONCE = 2,     /* conflicts, before there is a pause */
    CLAIMS_ALIVE_MS = 1000, /* what is there counts as alive for so long */
    CLAIMS_COMPARED =
        ETCD_OPS - 8 /* holders, of a transaction without a fetch */
};

static struct etcd_step *claims_of(struct etcd_call *c)
{
    return (struct etcd_step *)(void *)c;
}

static void claims_undo(struct etcd_step *k)
{
    if (k->decides) {
        snib__snapshot_again(&k->s);
    }
}

static void claims_fetch(struct snib__etcd *e, snib_instant now,
                         struct etcd_step *k)
{
    struct snib__buf message;
    snib__buf_init(&message, SNIB__H2_IN);
    snib__etcd_plan_fetch(e, k, SNIB__ETCD_SUCCESS, &message);
    snib__etcd_step_call(e, now, k, STEP_ASKS, SNIB__ETCD_TXN, &message);
    snib__buf_free(&message);
}

/* -- rows ------------------------------------------------------------------ */

static bool claims_note(struct etcd_step *k, uint32_t claim,
                        const struct etcd_place *place,
                        const struct snib__etcd_pair *pair)
{
    const struct snib__stored_claim *c = &k->s.claim[claim].c;
    if (claim >= k->fetched_capacity) {
        uint32_t capacity = k->fetched_capacity ? 2 * k->fetched_capacity : 16;
        struct etcd_fetched *v =
            snib__realloc(k->fetched, capacity * sizeof *v);
        if (!v) {
            return false;
        }
        k->fetched = v;
        k->fetched_capacity = capacity;
    }
    k->fetched[claim] =
        (struct etcd_fetched){.place = *place,
                              .lease = pair->lease,
                              .held = snib__rules_claim_holds(c),
                              .length = c->lease};
    k->fetched_count = claim + 1;
    return true;
}

/* Is it of one of the step's requests? */
static bool claims_own(const struct etcd_step *k, const uint64_t request[2])
{
    bool is = false;
    for (uint32_t i = 0; i < k->count; i++) {
        is = is || !memcmp(k->r[i]->id, request, sizeof k->r[i]->id);
    }
    return is;
}

/* What is there is alive, whatever its `until` says: that is by the clock of
 * another host. It ends no later than if it is renewed just now, which is told to
 * those that wait. Only that a lock-delay runs is read from it, which nobody is let
 * in by: the claim still counts as not over. Of our own claims our own clock says
 * so, unless others have pushed the grant. */
static void claims_alive(const struct snib__etcd *e, const struct etcd_step *k,
                         struct snib__stored_claim *c, int64_t lease)
{
    snib_instant now = k->s.book.now;
    bool holds = snib__rules_claim_holds(c);
    bool mine = !memcmp(c->client, e->client, sizeof c->client);
    bool pushed = mine && !snib__etcd_lease_of(e, lease);
    snib_duration alive = snib__ms(CLAIMS_ALIVE_MS);
    if (holds && !pushed) {
        alive.ns -= c->delay.ns;
    }
    if (holds && !mine && !claims_own(k, c->request)) {
        c->until = snib__sooner(c->until, snib__after(now, c->lease));
    }
    c->until = snib__later(c->until, snib__after(now, alive));
}

/* The key does not say it. What cannot be read is nobody's; the decision says
 * why. */
static void claims_whose(const struct snib__etcd_pair *pair, uint64_t ret[2])
{
    struct snib__stored_claim c = {0};
    const void *about;
    size_t size;
    (void)snib__layout_claim(pair->value.bytes, pair->value.size, &c, &about,
                             &size, NULL);
    memcpy(ret, c.request, sizeof c.request);
}

/* A row. False: no memory. (What cannot be read is answered by the
 * decision.) */
static bool claims_row(const struct snib__etcd *e, struct etcd_step *k,
                       uint32_t lock, const struct etcd_parts *parts,
                       const struct snib__etcd_pair *pair)
{
    struct snib__snapshot *s = &k->s;
    struct snib__key key = {.kind = parts->kind, .name = s->lock[lock].name};
    uint32_t before = s->claims;
    if (key.kind == SNIB__KEY_CLAIM) {
        claims_whose(pair, key.request);
    }
    snib__snapshot_row(s, &key, pair->mod_revision, pair->value.bytes,
                       pair->value.size);
    if (parts->kind != SNIB__KEY_CLAIM) {
        struct etcd_memory *m =
            parts->kind == SNIB__KEY_LOCK ? &k->row[lock] : &k->arrivals[lock];
        *m = (struct etcd_memory){.lease = pair->lease, .bytes = pair->value};
    }
    if (s->claims == before) {
        return true;
    }
    claims_alive(e, k, &s->claim[before].c, pair->lease);
    return claims_note(k, before, &parts->place, pair);
}

/* It may be a claim that holds, so nobody is let in. Who holds keeps what he has: a
 * renewal lets nobody in. */
static void claims_strange(struct etcd_step *k,
                           const struct snib__etcd_pair *pair)
{
    if (!k->s.book.err && k->r[0]->verb != SNIB__RENEW) {
        k->s.book.err = snib__etcd_key_strange(pair->key, &k->s.error);
    }
}

static bool claims_rows(struct snib__etcd *e, struct etcd_step *k,
                        uint32_t lock, struct snib__etcd_rows *rows)
{
    struct snib__etcd_pair pair;
    struct etcd_parts parts;
    while (snib__etcd_next_pair(rows, &pair)) {
        if (!snib__etcd_key_read(e, pair.key, &parts)) {
            claims_strange(k, &pair);
        } else if (!claims_row(e, k, lock, &parts, &pair)) {
            return false;
        }
    }
    return snib__etcd_whole(rows);
}

/* The highest token of all locks, if it was asked for. */
static bool claims_highest(struct snib__etcd *e, struct snib__etcd_txn *t,
                           int64_t *ret)
{
    struct snib__etcd_rows rows;
    struct snib__etcd_pair pair;
    struct etcd_parts parts;
    if (!snib__etcd_next_range(t, &rows)) {
        return false;
    }
    while (snib__etcd_next_pair(&rows, &pair)) {
        struct snib__lock_row row;
        if (snib__etcd_key_read(e, pair.key, &parts) &&
            parts.kind == SNIB__KEY_LOCK &&
            !snib__layout_lock(pair.value.bytes, pair.value.size, &row, NULL) &&
            snib__is_token(row.token) && row.token > *ret) {
            *ret = row.token;
        }
    }
    return snib__etcd_whole(&rows);
}

/* The clock of this host is one of many; the last tokens count for more. */
static void claims_clock(struct etcd_step *k)
{
    int64_t last = 0;
    for (uint32_t i = 0; i < k->s.locks; i++) {
        int64_t t = k->s.lock[i].row.token;
        last = snib__is_token(t) && t > last ? t : last;
    }
    for (uint32_t i = 0; i < k->count; i++) {
        last = k->r[i]->floor > last ? k->r[i]->floor : last;
    }
    k->s.book.token_clock = snib__etcd_token_clock(k->s.book.token_clock, last);
}

/* False: that is not the answer that was asked for. */
static bool claims_read(struct snib__etcd *e, struct etcd_step *k,
                        struct snib__etcd_txn *t, snib_instant sent)
{
    struct snib__etcd_rows rows;
    struct snib__moment moment = {.sent = sent,
                                  .now = snib__etcd_wall(e, sent)};
    k->fetched_count = 0;
    if (k->s.want_highest && !claims_highest(e, t, &moment.highest)) {
        return false;
    }
    snib__snapshot_moment(&k->s, &moment);
    for (uint32_t i = 0; i < k->s.locks; i++) {
        k->row[i] = k->arrivals[i] = (struct etcd_memory){.lease = 0};
        if (!snib__etcd_next_range(t, &rows) || !claims_rows(e, k, i, &rows)) {
            return false;
        }
    }
    claims_clock(k);
    return !snib__etcd_next_range(t, &rows) && !t->at.bad;
}

/* -- deciding and writing -------------------------------------------------- */

static void claims_no_memory(struct snib__etcd *e, struct etcd_step *k)
{
    claims_undo(k);
    for (uint32_t i = 0; i < k->count; i++) {
        k->r[i]->said.answer = SNIB__NOT_APPLIED;
        k->r[i]->said.err =
            snib__fail_plain(k->r[i]->said.reterr, SNIB_ERR_NOMEM);
    }
    snib__etcd_step_over(e, k);
}

static void claims_write(struct snib__etcd *e, snib_instant now,
                         struct etcd_step *k)
{
    struct snib__buf message;
    snib__buf_init(&message, SNIB__H2_IN);
    switch (snib__etcd_plan(e, now, k, &message)) {
    case PLANNED:
        snib__etcd_step_call(e, now, k, STEP_WRITES, SNIB__ETCD_TXN, &message);
        break;
    case PLAN_WAITS:
        snib__etcd_step_wait(e, k);
        break;
    case PLAN_LARGE:
        if (k->count > 1) {
            snib__etcd_step_apart(e, now, k);
        } else { /* it grants to fewer */
            k->s.book.most /= 2;
            claims_undo(k);
            snib__etcd_step_again(e, now, k);
        }
        break;
    case PLAN_NOMEM:
        claims_no_memory(e, k);
        break;
    }
    snib__buf_free(&message);
}

/* -- begun ----------------------------------------------------------------- */

static bool claims_guessed_row(const struct snib__etcd *e, struct etcd_step *k,
                               snib__key_kind kind, const struct etcd_guess *g,
                               const struct snib__etcd_pair *pair)
{
    const struct etcd_parts parts = {.kind = kind, .place = g->place};
    return !pair->mod_revision || claims_row(e, k, 0, &parts, pair);
}

/* All claims of that answer but its own, which has been written since. */
static bool claims_guessed_others(struct snib__etcd *e, struct etcd_step *k,
                                  const struct etcd_guess *g)
{
    struct snib__etcd_txn t;
    struct snib__etcd_rows rows;
    struct snib__etcd_pair pair;
    struct etcd_parts parts;
    if (!snib__buf_size(&g->others)) {
        return true;
    }
    snib__etcd_read_txn(snib__buf_bytes(&g->others), snib__buf_size(&g->others),
                        &t);
    if (!snib__etcd_next_range(&t, &rows)) {
        return false;
    }
    while (snib__etcd_next_pair(&rows, &pair)) {
        if (snib__etcd_key_read(e, pair.key, &parts) &&
            parts.kind == SNIB__KEY_CLAIM &&
            !snib__etcd_place_same(&parts.place, &g->place) &&
            !claims_row(e, k, 0, &parts, &pair)) {
            return false;
        }
    }
    return true;
}

/* The rows as this client has left them, if it knows them (guess.c), in place of a
 * fetch. They may be others by now, so nothing is answered by them: what is
 * decided is a write that compares all that it relies on, as behind a fetch, and
 * if it conflicts its answer has the rows. */
static bool claims_guess(struct snib__etcd *e, snib_instant now,
                         struct etcd_step *k)
{
    const struct etcd_guess *g = snib__etcd_guess_take(e, now, k);
    const struct snib__moment moment = {.sent = now,
                                        .now = snib__etcd_wall(e, now)};
    if (!g) {
        return false;
    }
    const uint8_t *row =
        (const uint8_t *)snib__buf_bytes(&g->bytes) + g->name_size;
    const uint8_t *arrivals = row + g->row_size;
    const struct snib__etcd_pair pairs[] = {
        {.mod_revision = g->row_stamp, .value = {row, g->row_size}},
        {.mod_revision = g->arrivals_stamp,
         .value = {arrivals, g->arrivals_size}},
        {.mod_revision = g->claim_stamp,
         .value = {arrivals + g->arrivals_size, g->claim_size},
         .lease = g->lease}};
    k->fetched_count = 0;
    k->row[0] = k->arrivals[0] = (struct etcd_memory){.lease = 0};
    snib__snapshot_moment(&k->s, &moment);
    k->guessed = claims_guessed_row(e, k, SNIB__KEY_LOCK, g, &pairs[0]) &&
                 claims_guessed_row(e, k, SNIB__KEY_ARRIVALS, g, &pairs[1]) &&
                 claims_guessed_row(e, k, SNIB__KEY_CLAIM, g, &pairs[2]) &&
                 claims_guessed_others(e, k, g);
    claims_clock(k);
    uint32_t holders = 0;
    for (uint32_t i = 0; i < k->s.claims; i++) {
        /* Its lease may be over: so it is compared. A waiter is when he is let in. */
        k->s.claim[i].seen_over = snib__rules_claim_holds(&k->s.claim[i].c);
        holders += k->s.claim[i].seen_over;
    }
    k->guessed = k->guessed && holders <= CLAIMS_COMPARED &&
                 snib__snapshot_decide(&k->s) == SNIB__SNAPSHOT_WRITE &&
                 k->r[0]->said.answer == SNIB__DONE;
    if (!k->guessed) {
        snib__snapshot_again(&k->s);
        return false;
    }
    claims_write(e, now, k);
    return true;
}

static void claims_begin(struct snib__etcd *e, snib_instant now,
                         struct etcd_step *k)
{
    if (k->decides) {
        snib__snapshot_again(&k->s);
    } else {
        snib__snapshot_begin(&k->s, k->r, k->count);
        k->decides = true;
    }
    k->guessed = false;
    snib__buf_clear(&k->seen); /* of the step that was here before */
    snib__etcd_plan_ahead(e, now, k);
    if (!claims_guess(e, now, k)) {
        claims_fetch(e, now, k);
    }
}

/* -- what came ------------------------------------------------------------ */

static void claims_decide(struct snib__etcd *e, snib_instant now,
                          struct etcd_step *k)
{
    switch (snib__snapshot_decide(&k->s)) {
    case SNIB__SNAPSHOT_ANSWERED:
        snib__etcd_step_over(e, k);
        break;
    case SNIB__SNAPSHOT_WRITE:
        claims_write(e, now, k);
        break;
    case SNIB__SNAPSHOT_FETCH:
        claims_fetch(e, now, k);
        break;
    case SNIB__SNAPSHOT_APART:
        snib__etcd_step_apart(e, now, k);
        break;
    }
}

/* For guess.c: who is let in will release. (Not if the answer begins with the rows
 * of all names.) */
static void claims_seen(struct etcd_step *k, const struct etcd_reply *reply)
{
    snib__buf_clear(&k->seen);
    if (k->count == 1 && k->r[0]->verb == SNIB__ACQUIRE && k->s.claims &&
        !k->s.want_highest) {
        snib__buf_add(&k->seen, reply->bytes, reply->size);
    }
}

static void claims_lost(struct snib__etcd *e, struct etcd_step *k)
{
    snib__snapshot_lost(&k->s);
    snib__etcd_places_lost(e, k);
    snib__etcd_step_over(e, k);
}

/* A server may take less at once than others do. */
static bool claims_is_too_large(const struct etcd_step *k,
                                const struct etcd_reply *reply)
{
    return k->count > 1 && reply->end == ETCD_REFUSED &&
           reply->err == SNIB_ERR_CONFIG;
}

static void claims_fetched(struct snib__etcd *e, snib_instant now,
                           struct etcd_step *k, const struct etcd_reply *reply)
{
    static const struct etcd_reply strange = {
        .end = ETCD_AGAIN,
        .err = SNIB_ERR_STORE,
        .leave = true,
        .text = "the answer is not etcd's, or not whole"};
    struct snib__etcd_txn t;
    if (claims_is_too_large(k, reply)) {
        snib__etcd_step_apart(e, now, k);
        return;
    }
    if (reply->end) {
        snib__etcd_step_by_reply(e, now, k, reply);
        return;
    }
    snib__etcd_read_txn(reply->bytes, reply->size, &t);
    if (t.bad || !claims_read(e, k, &t, reply->sent)) {
        snib__etcd_step_by_reply(e, now, k, &strange);
    } else {
        snib__etcd_saw(e, &k->call, t.header.revision);
        claims_seen(k, reply);
        claims_decide(e, now, k);
    }
}

/* Others were faster: nothing of ours was done, and the answer has the rows as
 * they are now. */
static void claims_conflict(struct snib__etcd *e, snib_instant now,
                            struct etcd_step *k, struct snib__etcd_txn *t,
                            const struct etcd_reply *reply)
{
    snib__snapshot_again(&k->s);
    snib__etcd_places_back(e, k);
    if (k->guessed) {
        snib__etcd_guess_vain(e, k);
    } else if (k->conflicts >= CLAIMS_AT_ONCE) {
        (void)snib__etcd_step_pause(e, now, k);
        return;
    } else {
        k->conflicts++;
    }
    k->guessed = false;
    if (claims_read(e, k, t, reply->sent)) {
        claims_seen(k, reply);
        claims_decide(e, now, k);
    } else {
        snib__etcd_step_again(e, now, k);
    }
}

static void claims_wrote(struct snib__etcd *e, snib_instant now,
                         struct etcd_step *k, const struct etcd_reply *reply)
{
    struct snib__etcd_txn t;
    switch (reply->end) {
    case ETCD_OK:
        snib__etcd_read_txn(reply->bytes, reply->size, &t);
        if (t.bad) {
            claims_lost(e, k);
            break;
        }
        snib__etcd_saw(e, &k->call, t.header.revision);
        if (t.succeeded) {
            snib__snapshot_written(&k->s);
            snib__etcd_plan_answer(e, now, k);
            snib__etcd_guess_note(e, k, (uint64_t)t.header.revision);
            snib__etcd_places_written(e, k);
            snib__etcd_step_over(e, k);
        } else {
            claims_conflict(e, now, k, &t, reply);
        }
        break;
    case ETCD_NO_LEASE:
        snib__etcd_leases_doubt(e);
        (void)snib__etcd_step_pause(e, now, k);
        break;
    case ETCD_REFUSED:
    case ETCD_AGAIN:
        if (claims_is_too_large(k, reply)) {
            snib__etcd_step_apart(e, now, k);
            break;
        }
        claims_undo(k);
        snib__etcd_step_by_reply(e, now, k, reply);
        break;
    case ETCD_LOST:
        claims_lost(e, k);
        break;
    }
}

static void claims_done(struct snib__etcd *e, snib_instant now,
                        struct etcd_call *c, const struct etcd_reply *reply)
{
    struct etcd_step *k = claims_of(c);
    if (k->phase == STEP_WRITES) {
        claims_wrote(e, now, k, reply);
    } else {
        claims_fetched(e, now, k, reply);
    }
}

static void claims_late(struct snib__etcd *e, snib_instant now,
                        struct etcd_step *k)
{
    (void)now;
    claims_lost(e, k);
}

const struct etcd_work snib__etcd_claims_work = {.begin = claims_begin,
                                                 .done = claims_done,
                                                 .go_on = claims_write,
                                                 .late = claims_late,
                                                 .undo = claims_undo};
