/* store/etcd/recipe.c — the locks of etcd's own clients, ?dialect=concurrency: the
 * same lock at the same moment as `etcdctl lock`, Go's concurrency.Mutex and the
 * service v3lock.
 *
 * Their recipe: whoever wants the lock NAME makes a key below NAME/, under a lease.
 * The key that was made first, by its create revision, has the lock; each of the
 * others waits for the end of the one right before its own. To release is to
 * delete the key. Nothing else is agreed upon: neither what a key is called nor
 * its value.
 *
 *   try, acquire:  ENTERS --others are there--> NO
 *                    v                      `--> STANDS --> TAKES --> it holds
 *                  it holds                        v  ^
 *                                   (STAYS) --> QUEUED, polled, told by a watch
 *   again:         LOOKS --> any of these
 *
 * WHY TWO NEVER HOLD, of whom one is ours.
 *
 *  1. The others let themselves in when no key is left that was made before
 *     theirs. Ours goes with its lease at the earliest, and that is granted
 *     through etcd's log and never kept alive (lease.c): so not before its time
 *     to live has passed since we sent that grant. Our deadline is earlier.
 *  2. ENTERS makes our key in a transaction that finds no other one; TAKES puts it
 *     under the holder's lease in one that finds none that was made before. Both
 *     go through the log. Later keys are behind it, and a key never gets an
 *     earlier create revision.
 *  3. A renewal puts the key under a younger lease. It stays the same key, made
 *     when it was made: who waits for its end hears nothing of that.
 *  4. No copy of ours that comes late makes our key end sooner (recipe_txn.c).
 *     What it may make is a key of its own, in which nobody believes and which
 *     goes with its lease; where the request is over, its tombstone keeps even
 *     that out. The tombstone lies apart, as below NAME/ it would be one who
 *     waits.
 *
 * When *theirs* ends is their affair: their session is kept alive, and their
 * programs go on after it is over unless they look. The fence is what is left
 * then: the token is the create revision, which both sides know (it is
 * ETCD_LOCK_REV, and Go's Header().Revision when nobody was before), and rises over
 * all grants of both, as long as the cluster keeps its history.
 *
 * Our keys are called by the request's id, where theirs have the lease's. One
 * lease serves many keys here, a key changes its lease, and a request that is sent
 * again has to find its own. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/etcd/recipe_i.h"

enum { RECIPE_ASKS = 12 /* in a row, before there is a pause */ };

static struct etcd_step *recipe_of(struct etcd_call *c)
{
    return (struct etcd_step *)(void *)c;
}

static void recipe_answer(struct snib__etcd *e, struct etcd_step *k,
                          snib__answer answer, snib_err err, const char *text)
{
    struct snib__request *r = k->r[0];
    r->said.answer = answer;
    r->said.err = !err   ? snib__ok(r->said.reterr)
                  : text ? snib__fail(r->said.reterr, err, "%s", text)
                         : snib__fail_plain(r->said.reterr, err);
    snib__etcd_step_over(e, k);
}

static void recipe_ask(struct snib__etcd *e, snib_instant now,
                       struct etcd_step *k, etcd_ask ask)
{
    k->recipe.ask = ask;
    if (++k->asked > RECIPE_ASKS) {
        (void)snib__etcd_step_pause(e, now, k);
    } else {
        snib__etcd_recipe_send(e, now, k);
    }
}

/* -- an acquire --------------------------------------------------------------- */

/* It waits. What comes before its key is watched from now on. */
static void recipe_queued(struct snib__etcd *e, snib_instant now,
                          struct etcd_step *k)
{
    struct etcd_wait *w = snib__etcd_wait_make(e, k->r[0]->id);
    if (w) {
        snib__etcd_wait_watch(e, now, w, &k->recipe.found);
    }
    k->r[0]->said.position = k->recipe.found.before;
    recipe_answer(e, k, SNIB__QUEUED, SNIB_ERR_OK, NULL);
}

/* Its key is there, and others are before it. The key goes in three seconds
 * unless it is put anew. */
static void recipe_wait(struct snib__etcd *e, snib_instant now,
                        struct etcd_step *k)
{
    const struct etcd_wait *w = snib__etcd_wait_find(e, k->r[0]->id);
    bool young =
        w && w->kept.ns &&
        snib__between(w->kept, now).ns < snib__ms(ETCD_RECIPE_AGE_MS).ns;
    if (young) {
        recipe_queued(e, now, k);
    } else {
        recipe_ask(e, now, k, RECIPE_STAYS);
    }
}

static void recipe_kept(struct snib__etcd *e, struct etcd_step *k)
{
    struct etcd_wait *w = snib__etcd_wait_make(e, k->r[0]->id);
    if (w) {
        w->kept = k->sent;
        w->floor = k->recipe.ask == RECIPE_STANDS ? k->r[0]->floor : w->floor;
    }
}

/* A try, or one that does not stand in queues, finds others there. */
static void recipe_refuse(struct snib__etcd *e, struct etcd_step *k)
{
    struct snib__request *r = k->r[0];
    if (k->recipe.why) {
        recipe_answer(e, k, SNIB__NOT_APPLIED, k->recipe.why,
                      "etcd's revisions have gone back behind what this client "
                      "has seen of them (a backup that was restored), so its "
                      "tokens would not rise; start this program anew when "
                      "that is meant");
    } else if (r->acquire.may_queue) {
        r->said.position = 0;
        recipe_answer(e, k, SNIB__QUEUED, SNIB_ERR_OK, NULL);
    } else {
        recipe_answer(e, k, SNIB__NO, SNIB_ERR_BUSY, NULL);
    }
}

/* What is there is known: k->recipe.found. */
static void recipe_found(struct snib__etcd *e, snib_instant now,
                         struct etcd_step *k)
{
    const struct snib__request *r = k->r[0];
    const struct etcd_found *f = &k->recipe.found;
    bool stays = r->acquire.may_queue && !r->acquire.spin && !k->recipe.why;
    k->recipe.stands = f->own != 0;
    k->r[0]->said.left = snib__ms(ETCD_RECIPE_LEFT_MS);
    if (f->ended) {
        recipe_answer(e, k, SNIB__NO, SNIB_ERR_CANCELLED, NULL);
    } else if (f->own && !f->ahead && !k->recipe.why) {
        recipe_ask(e, now, k, RECIPE_TAKES);
    } else if (f->own && stays) {
        recipe_wait(e, now, k);
    } else if (f->own) {
        recipe_ask(e, now, k, RECIPE_LEAVES);
    } else if (!k->recipe.why && !r->token && !f->before) {
        recipe_ask(e, now, k, RECIPE_ENTERS);
    } else if (!k->recipe.why && (r->token || stays)) {
        recipe_ask(e, now, k, RECIPE_STANDS);
    } else {
        recipe_refuse(e, k);
    }
}

/* Tokens rise with the cluster's history. If that went back, what this client had
 * seen when it made its key is above it. (What was granted since, at other names,
 * says nothing: the key has its revision from when it was made. 0: nobody has
 * noted it.) */
static int64_t recipe_floor(struct snib__etcd *e, const struct etcd_step *k)
{
    const struct etcd_wait *w = snib__etcd_wait_find(e, k->r[0]->id);
    return k->recipe.ask == RECIPE_ENTERS ? k->r[0]->floor : w ? w->floor : 0;
}

static void recipe_granted(struct snib__etcd *e, snib_instant now,
                           struct etcd_step *k, int64_t token)
{
    struct snib__request *r = k->r[0];
    if (token <= recipe_floor(e, k) || !snib__is_token(token)) {
        k->recipe.why = SNIB_ERR_STORE;
        recipe_ask(e, now, k, RECIPE_LEAVES);
        return;
    }
    r->token = token;
    r->acquire.reserve = 0;
    r->acquire.permits = 1;
    r->said.left = r->lease;
    r->said.valid_from =
        snib__sooner(k->sent, snib__before(k->ends[0], r->lease));
    recipe_answer(e, k, SNIB__DONE, SNIB_ERR_OK, NULL);
}

/* done: the transaction did what it was for, with this revision; else the keys
 * are not as it thought, and k->recipe.found says how they are. */
static void recipe_acquire(struct snib__etcd *e, snib_instant now,
                           struct etcd_step *k, bool done, int64_t revision)
{
    struct etcd_found *f = &k->recipe.found;
    if (!done) {
        recipe_found(e, now, k);
        return;
    }
    switch (k->recipe.ask) {
    case RECIPE_ENTERS:
        f->own = revision;
        f->changed = (uint64_t)revision;
        recipe_granted(e, now, k, f->own);
        break;
    case RECIPE_TAKES:
        f->changed = (uint64_t)revision;
        recipe_granted(e, now, k, f->own);
        break;
    case RECIPE_STAYS:
        f->changed = (uint64_t)revision;
        recipe_kept(e, k);
        recipe_queued(e, now, k);
        break;
    case RECIPE_STANDS:
        recipe_kept(e, k);
        recipe_found(e, now, k);
        break;
    case RECIPE_LEAVES:
        f->own = 0;
        k->recipe.stands = false;
        recipe_refuse(e, k);
        break;
    case RECIPE_LOOKS:
    case RECIPE_RENEWS: /* and what else is none of an acquire's */
    case RECIPE_ENDS:
    case RECIPE_CANCELS:
    case RECIPE_SHOWS:
    case RECIPE_LASTS:
        recipe_found(e, now, k);
        break;
    }
}

/* -- a renewal ----------------------------------------------------------------- */

static void recipe_renew(struct snib__etcd *e, snib_instant now,
                         struct etcd_step *k, bool done)
{
    struct snib__request *r = k->r[0];
    const struct etcd_found *f = &k->recipe.found;
    bool ours = f->own && f->own == r->token;
    if (k->recipe.ask == RECIPE_RENEWS && done) {
        r->said.left = r->lease;
        r->said.valid_from =
            snib__sooner(k->sent, snib__before(k->ends[0], r->lease));
        recipe_answer(e, k, SNIB__DONE, SNIB_ERR_OK, NULL);
    } else if (ours && r->renew.only_asks) {
        r->said.valid_from = k->sent;
        r->said.left = (snib_duration){0};
        recipe_answer(e, k, SNIB__DONE, SNIB_ERR_OK, NULL);
    } else if (ours) {
        recipe_ask(e, now, k, RECIPE_RENEWS);
    } else {
        r->said.revoked = false;
        r->said.forgotten = !f->own && !f->before;
        recipe_answer(e, k, SNIB__NO, SNIB_ERR_LOST, NULL);
    }
}

/* -- what it has not ------------------------------------------------------------ */

/* As a text; NULL: it has that. */
static const char *recipe_lacks(const struct snib__request *r)
{
    const struct snib__request_acquire *a = &r->acquire;
    switch (r->verb) {
    case SNIB__ACQUIRE:
        return a->kind != SNIB_KIND_MUTEX ? "etcd's own clients have mutexes "
                                            "only; leave ?dialect= out "
                                            "for other kinds"
               : a->delay.ns > 0
                   ? "etcd's own clients keep no lock-delay; leave it out"
               : a->priority
                   ? "etcd's own clients come in the order of arrival; they "
                     "have no priorities"
                   : NULL;
    case SNIB__RENEW:
    case SNIB__RELEASE:
    case SNIB__CANCEL:
    case SNIB__INSPECT:
    case SNIB__DOCTOR:
        return NULL;
    case SNIB__LIST:
        return "nothing tells the locks of etcd's own clients from other keys, "
               "so they cannot be listed; etcdctl get --prefix --keys-only "
               "NAME/ shows one";
    case SNIB__FORCE:
        return "a lock of etcd's own clients is not ended by force; by hand, "
               "etcdctl del KEY ends it, and etcdctl get --prefix --keys-only "
               "NAME/ shows the keys (docs/ETCD.md)";
    case SNIB__PARAMS:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY: /* never asked */
        break;
    }
    return "etcd's own clients have mutexes only, no semaphores, latches or "
           "values; leave ?dialect= out for these";
}

/* Is that where snib keeps its own, or above it? The tombstones of all locks would keep
 * it waiting, and what it makes would be read as a lock of snib's. (Where that is with
 * ?prefix= is not known here.) */
static bool recipe_is_among_ours(const struct snib__etcd *e,
                                 const struct snib__request *r)
{
    static const char ours[] = "snib/";
    struct etcd_key from, to;
    snib__etcd_key_recipe(e, r->name, &from, &to);
    size_t n = from.size < sizeof ours - 1 ? from.size : sizeof ours - 1;
    return !memcmp(from.text, ours, n);
}

/* -- a step -------------------------------------------------------------------- */

static etcd_ask recipe_first(const struct etcd_step *k)
{
    const struct snib__request *r = k->r[0];
    if (r->verb == SNIB__ACQUIRE && !k->recipe.stands) {
        return r->token ? RECIPE_STANDS : RECIPE_ENTERS;
    }
    return r->verb == SNIB__RELEASE   ? RECIPE_ENDS
           : r->verb == SNIB__CANCEL  ? RECIPE_CANCELS
           : r->verb == SNIB__INSPECT ? RECIPE_SHOWS
                                      : RECIPE_LOOKS;
}

static void recipe_begin(struct snib__etcd *e, snib_instant now,
                         struct etcd_step *k)
{
    const struct snib__request *r = k->r[0];
    const char *lacks = recipe_lacks(r);
    if (lacks) {
        recipe_answer(e, k, SNIB__NOT_APPLIED, SNIB_ERR_UNSUPPORTED, lacks);
        return;
    }
    if (recipe_is_among_ours(e, r)) {
        recipe_answer(e, k, SNIB__NOT_APPLIED, SNIB_ERR_USAGE,
                      "where this name is snib keeps what is its own (snib/…); "
                      "choose another one");
        return;
    }
    k->asked = 0;
    k->recipe.why = SNIB_ERR_OK;
    k->recipe.stands = r->verb == SNIB__ACQUIRE &&
                       (k->recipe.stands || r->resent || r->acquire.placed ||
                        snib__etcd_wait_find(e, r->id));
    recipe_ask(e, now, k, recipe_first(k));
}

static void recipe_heard(struct snib__etcd *e, snib_instant now,
                         struct etcd_step *k, const struct snib__etcd_txn *t)
{
    struct snib__request *r = k->r[0];
    bool done = t->succeeded || r->verb == SNIB__CANCEL;
    if (r->verb == SNIB__ACQUIRE) {
        recipe_acquire(e, now, k, done, t->header.revision);
    } else if (r->verb == SNIB__RENEW) {
        recipe_renew(e, now, k, done);
    } else {
        r->said.revoked = false;
        r->said.granted = 0; /* nobody asks where there are mutexes only */
        recipe_answer(e, k, done ? SNIB__DONE : SNIB__NO,
                      done ? SNIB_ERR_OK : SNIB_ERR_LOST, NULL);
    }
}

/* Do the keys of the lock stand in the answer? */
static bool recipe_tells(const struct etcd_step *k, bool done)
{
    return k->recipe.ask == RECIPE_LOOKS || k->recipe.ask == RECIPE_STANDS ||
           (!done && k->recipe.ask != RECIPE_ENDS &&
            k->recipe.ask != RECIPE_CANCELS);
}

static void recipe_came(struct snib__etcd *e, snib_instant now,
                        struct etcd_step *k, const struct etcd_reply *reply)
{
    static const struct etcd_reply strange = {
        .end = ETCD_AGAIN,
        .err = SNIB_ERR_STORE,
        .leave = true,
        .text = "the answer is not etcd's, or not whole"};
    struct snib__etcd_txn t;
    snib__etcd_read_txn(reply->bytes, reply->size, &t);
    bool whole = !t.bad && (!recipe_tells(k, t.succeeded) ||
                            snib__etcd_recipe_read(e, k, &t));
    if (!t.bad) {
        snib__etcd_saw(e, &k->call, t.header.revision);
    }
    if (whole) {
        recipe_heard(e, now, k, &t);
    } else if (k->phase == STEP_WRITES && (t.bad || t.succeeded)) {
        snib__etcd_step_lost(e, k);
    } else {
        snib__etcd_step_by_reply(e, now, k, &strange);
    }
}

/* etcd does not say of which keys. */
static void recipe_say_rights(const struct snib__etcd *e,
                              const struct etcd_step *k,
                              struct etcd_reply *reply)
{
    if (k->r[0]->name && reply->end == ETCD_REFUSED &&
        strstr(reply->text, "permission denied")) {
        snprintf(reply->text, sizeof reply->text,
                 "permission denied for the keys %.50s%.60s/... or snib/x/...: "
                 "give this user's role readwrite at both (docs/ETCD.md)",
                 e->prefix, k->r[0]->name->safe);
    }
}

static void recipe_done(struct snib__etcd *e, snib_instant now,
                        struct etcd_call *c, const struct etcd_reply *said)
{
    struct etcd_step *k = recipe_of(c);
    struct etcd_reply own = *said, *reply = &own;
    recipe_say_rights(e, k, reply);
    if (k->r[0]->verb == SNIB__INSPECT) {
        snib__etcd_recipe_shown(e, now, k, reply);
        return;
    }
    switch (reply->end) {
    case ETCD_OK:
        recipe_came(e, now, k, reply);
        break;
    case ETCD_NO_LEASE:
        snib__etcd_leases_doubt(e);
        (void)snib__etcd_step_pause(e, now, k);
        break;
    case ETCD_REFUSED:
    case ETCD_AGAIN:
        snib__etcd_step_by_reply(e, now, k, reply);
        break;
    case ETCD_LOST:
        snib__etcd_step_lost(e, k);
        break;
    }
}

static void recipe_late(struct snib__etcd *e, snib_instant now,
                        struct etcd_step *k)
{
    (void)now;
    snib__etcd_step_lost(e, k);
}

const struct etcd_work snib__etcd_recipe_work = {.begin = recipe_begin,
                                                 .done = recipe_done,
                                                 .go_on =
                                                     snib__etcd_recipe_send,
                                                 .late = recipe_late};
