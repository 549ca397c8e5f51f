/* wide_sequences.c — what is started and acquires something, or is made of
 * several requests: several locks as one, updates, elections, places in a ring,
 * declared locks, grants that are adopted or drained; and the end of a client. */
#include <inttypes.h>
#include <stdio.h>

#include "snib/policy.h"
#include "snib/semaphore.h"
#include "wide.h"

enum {
    SEQUENCES = 18,
    OWN = SEQUENCES / WIDE_ACTORS,
    USERS = -2000 /* a user of one: USERS - its number                     */
};

typedef enum sort {
    SEVERAL,
    UPDATES,
    CAMPAIGNS,
    LEADER,
    JOINS,
    POLICY,
    GRANT,
    ENDS /* gives back, resigns: it has no result                           */
} sort;

/* Where the results of one go: each actor starts its own. A thread that takes
 * its event reads them. */
struct sequence {
    sort sort;
    bool under_way;
    uint64_t ticket;
    int client;
    struct wide_actor *of;
    struct snib_multi *multi; /* with what it holds, or under way           */
    struct snib_grant grants[WIDE_SHARED];
    size_t count;
    struct snib_ring_membership *place;
    struct snib_leader *leader;
    struct snib_lock *lock;
    struct snib_grant grant;
    uint32_t permits;
    int64_t term, version;
    int stopped, result;
    char text[24]; /* what an update writes                                 */
};

static struct sequence sequences[SEQUENCES];
static int64_t seen; /* the latest term that a watch told                   */

/* -- several locks as one ------------------------------------------------------ */

/* Of locks that are shared, which nobody frees; mostly of one client. */
static bool make(struct sequence *q)
{
    struct snib_lock *locks[WIDE_SHARED];
    q->count = 0;
    for (int i = 0; i < WIDE_SHARED; i++) {
        bool takes = wide.shared_client[i] == q->client
                         ? !chance("leaves out", 3)
                         : chance("of another client", 12);
        if (wide.shared[i] && takes) {
            locks[q->count++] = wide.shared[i];
            q->client = q->count == 1 ? wide.shared_client[i] : q->client;
        }
    }
    return !snib_multi_new(locks, q->count, NULL, &q->multi, NULL);
}

static snib_err several(struct sequence *q, void *user, struct snib_error *to)
{
    struct snib_acquire_options o;
    int64_t wait_ms;
    bool given = wide_options(&o, &wait_ms);
    const struct snib_acquire_options *of = given ? &o : NULL;
    return wide_is_short(wait_ms, INT64_MAX)
               ? snib_multi_acquire_start(q->multi, of, q->grants, user,
                                          &q->ticket, to)
           : wide_is_short(wait_ms, 0)
               ? snib_multi_try_start(q->multi, of, q->grants, user, &q->ticket,
                                      to)
               : snib_multi_try_for_start(q->multi, wait_ms, of, q->grants,
                                          user, &q->ticket, to);
}

static void several_done(struct sequence *q, snib_err err)
{
    for (size_t i = 0; i < q->count; i++) {
        tell_grant("member", err, q->grants[i]);
    }
    if (err) {
        snib_multi_free(q->multi);
        q->multi = NULL;
    }
}

/* -- an update ------------------------------------------------------------------- */

static int computes(void *data, const struct snib_value *now,
                    struct snib_value_next *next)
{
    struct sequence *q = data;
    int n = snprintf(q->text, sizeof q->text, "%" PRId64 "+1", now->version);
    tell("computes from %" PRId64 ", %zu bytes", now->version, now->size);
    next->bytes = q->text;
    next->size = (size_t)n;
    next->remove = chance("remove", 6);
    return chance("stops", 8) ? 1 + (int)pick("why", 3) : 0;
}

static snib_err update(struct sequence *q, struct snib_client *c, void *user,
                       struct snib_error *to)
{
    static const int64_t waits[] = {0, 3, 100, 2000, INT64_MAX, -2};
    static const int64_t pauses[] = {0, 0, 1, 50, 60001};
    struct snib_value_options o = SNIB_INIT(snib_value_options);
    int64_t wait_ms = ONE_OF("update waits", waits);
    o.backoff_ms = ONE_OF("backoff", pauses);
    const struct snib_value_options *of = chance("no options", 3) ? NULL : &o;
    int64_t *version = chance("untold", 5) ? NULL : &q->version;
    int *stopped = chance("untold stop", 5) ? NULL : &q->stopped;
    return wide_is_short(wait_ms, INT64_MAX)
               ? snib_value_update_start(c, "v", 0, of, computes, q, stopped,
                                         version, user, &q->ticket, to)
           : wide_is_short(wait_ms, 0)
               ? snib_value_try_start(c, "v", 0, of, computes, q, stopped,
                                      version, user, &q->ticket, to)
               : snib_value_try_for_start(c, "v", 0, wait_ms, of, computes, q,
                                          stopped, version, user, &q->ticket,
                                          to);
}

/* -- the shared candidate, which nobody frees ------------------------------------- */

static snib_err campaign(struct sequence *q, void *user, struct snib_error *to)
{
    int64_t wait_ms = wide_wait();
    return wide_is_short(wait_ms, INT64_MAX)
               ? snib_elect_campaign_start(wide.elect, &q->term, user,
                                           &q->ticket, to)
           : wide_is_short(wait_ms, 0)
               ? snib_elect_try_start(wide.elect, &q->term, user, &q->ticket,
                                      to)
               : snib_elect_try_for_start(wide.elect, wait_ms, &q->term, user,
                                          &q->ticket, to);
}

static snib_err leader(struct sequence *q, void *user, struct snib_error *to)
{
    int64_t known = chance("knows one", 2) ? seen : 0;
    int64_t wait_ms = wide_wait();
    return chance("asks once", 3)
               ? snib_elect_leader_start(wide.elect, &q->leader, user,
                                         &q->ticket, to)
           : wide_is_short(wait_ms, INT64_MAX)
               ? snib_elect_watch_start(wide.elect, known, &q->leader, user,
                                        &q->ticket, to)
               : snib_elect_watch_for_start(wide.elect, known, wait_ms,
                                            &q->leader, user, &q->ticket, to);
}

static snib_err elect(struct sequence *q, void *user, struct snib_error *to)
{
    switch (pick("elect", 4)) {
    case 0:
        q->sort = LEADER;
        return leader(q, user, to);
    case 1:
        q->sort = ENDS;
        return snib_elect_resign_start(wide.elect, user, &q->ticket, to);
    default:
        q->sort = CAMPAIGNS;
        return campaign(q, user, to);
    }
}

/* -- a place in a ring ---------------------------------------------------------------- */

static snib_err join(struct sequence *q, struct snib_client *c, void *user,
                     struct snib_error *to)
{
    static const char *const ids[] = {"one", "two", "three", "a b"};
    struct snib_ring_options o = SNIB_INIT(snib_ring_options);
    const struct snib_ring_options *of = chance("no options", 3) ? NULL : &o;
    const char *id = ONE_OF("id", ids);
    int64_t wait_ms = wide_wait();
    o.on_change = chance("told", 3) ? wide_changed : NULL;
    return wide_is_short(wait_ms, INT64_MAX)
               ? snib_ring_join_start(c, "r", 0, id, of, &q->place, user,
                                      &q->ticket, to)
           : wide_is_short(wait_ms, 0)
               ? snib_ring_try_start(c, "r", 0, id, of, &q->place, user,
                                     &q->ticket, to)
               : snib_ring_try_for_start(c, "r", 0, id, wait_ms, of, &q->place,
                                         user, &q->ticket, to);
}

/* -- a declared lock ------------------------------------------------------------------- */

static int body(void *data, struct snib_grant g)
{
    const struct sequence *q = data;
    tell("body of %d: %" PRIu64 " %" PRId64, (int)(q - sequences), g.ticket,
         g.token);
    return (int)pick("result", 5);
}

static int busy(void *data, const struct snib_error *e)
{
    const struct sequence *q = data;
    tell("busy %d: %s %s", (int)(q - sequences), snib_err_name(e->code),
         e->text);
    return 10 + (int)pick("result", 5);
}

static snib_err policy(struct sequence *q, struct snib_client *c, void *user,
                       struct snib_error *to)
{
    static const char *const keys[] = {"a", "b", "{x}", "{none}"};
    static const char *const pairs[] = {"x", "a", NULL};
    static const int64_t leases[] = {0, 0, 200, 49};
    struct snib_policy p = SNIB_INIT(snib_policy);
    int64_t wait_ms = wide_wait();
    int *ret = chance("untold", 6) ? NULL : &q->result;
    p.key = ONE_OF("key", keys);
    p.lock.lease_ms = ONE_OF("lease", leases);
    p.on_busy = (snib_on_busy)pick("on busy", 4);
    p.busy = busy;
    return wide_is_short(wait_ms, INT64_MAX)
               ? snib_policy_run_start(c, &p, pairs, body, q, ret, user,
                                       &q->ticket, to)
           : wide_is_short(wait_ms, 0)
               ? snib_policy_try_start(c, &p, pairs, body, q, ret, user,
                                       &q->ticket, to)
               : snib_policy_try_for_start(c, wait_ms, &p, pairs, body, q, ret,
                                           user, &q->ticket, to);
}

/* -- a grant, by a shared handle --------------------------------------------------------- */

static snib_err adopt_or_drain(struct sequence *q, int shared, void *user,
                               struct snib_error *to)
{
    static const int64_t leases[] = {0, 300, 2000, 49};
    q->lock = wide.shared[shared];
    if (chance("adopts", 2)) {
        return snib_grant_adopt_start(q->lock, q->of->text,
                                      ONE_OF("adopt", leases), &q->grant, user,
                                      &q->ticket, to);
    }
    return snib_semaphore_drain_start(q->lock, NULL, &q->grant,
                                      chance("untold", 5) ? NULL : &q->permits,
                                      user, &q->ticket, to);
}

static void grant_done(struct sequence *q, const struct snib_event *e)
{
    tell_grant("started", e->error.code, q->grant);
    tell("permits %u", q->permits);
    if (!e->error.code) {
        if (e->grant.ticket != q->grant.ticket) {
            sched_fail("an event of another grant than the result");
        }
        wide_remember(q->of, q->lock, q->grant);
        tell_status(q->lock, q->grant);
    }
}

/* -- starting ------------------------------------------------------------------------------ */

static snib_err end(struct sequence *q, void *user, struct snib_error *to)
{
    q->sort = ENDS;
    return q->place ? snib_ring_leave_start(q->place, user, &q->ticket, to)
                    : snib_multi_release_start(q->multi, q->grants, user,
                                               &q->ticket, to);
}

/* What it is to be; for which client. False: that is not there. */
static bool choose(struct sequence *q, int *ret_shared)
{
    *q = (struct sequence){.of = q->of, .stopped = 7, .result = 77};
    q->client = (int)pick("client", (uint64_t)wide.clients);
    q->sort = (sort)pick("sequence", ENDS);
    *ret_shared = (int)pick("lock", WIDE_SHARED);
    switch (q->sort) {
    case SEVERAL:
        return make(q);
    case CAMPAIGNS:
    case LEADER:
        q->client = wide.elect_client;
        return wide.elect != NULL;
    case GRANT:
        q->client = wide.shared_client[*ret_shared];
        return wide.shared[*ret_shared] != NULL;
    default:
        return true;
    }
}

static snib_err start(struct sequence *q, int shared, void *user,
                      struct snib_error *to)
{
    struct snib_client *c = wide.client[q->client];
    switch (q->sort) {
    case SEVERAL:
        return several(q, user, to);
    case UPDATES:
        return update(q, c, user, to);
    case JOINS:
        return join(q, c, user, to);
    case POLICY:
        return policy(q, c, user, to);
    case GRANT:
        return adopt_or_drain(q, shared, user, to);
    default:
        return elect(q, user, to);
    }
}

/* The end of a client. */
static void stop(void)
{
    struct snib_error e, *to = reserve(&e);
    int client = (int)pick("client", (uint64_t)wide.clients);
    if (!chance("starts its stop", wide.closed[client] ? 2 : 10)) {
        return;
    }
    wide.closed[client] = true;
    wide.starts[client]++;
    snib_err err = snib_client_stop_start(wide.client[client],
                                          (void *)(intptr_t)-6, NULL, to);
    (void)told("stop_start", err, to);
    if (err) {
        wide.starts[client]--;
    }
}

void wide_sequences(struct wide_actor *a)
{
    struct snib_error e, *to = reserve(&e);
    int i = a->index * OWN + (int)pick("which sequence", OWN), shared = 0;
    struct sequence *q = &sequences[i];
    void *user = (void *)(intptr_t)(USERS - i);
    if (chance("a stop", 30)) {
        stop();
        return;
    }
    if (q->under_way) {
        if (chance("cancel", 3)) {
            tell("cancel sequence %" PRIu64, q->ticket);
            snib_client_cancel(wide.client[q->client], q->ticket);
        }
        return;
    }
    q->of = a;
    bool gives_back = q->multi || q->place;
    if (!gives_back && !choose(q, &shared)) {
        return;
    }
    q->under_way = true;
    wide.starts[q->client]++;
    sort was = q->sort;
    snib_err err = gives_back ? end(q, user, to) : start(q, shared, user, to);
    (void)told(gives_back ? "give back" : "sequence", err, to);
    if (err) {
        wide.starts[q->client]--;
        q->under_way = false;
        q->sort = was;
    }
    if (err && !q->place) { /* a place is still ours */
        snib_multi_free(q->multi);
        q->multi = NULL;
    }
}

/* -- events ------------------------------------------------------------------------------- */

/* What its rules say of an answer: a result is there, or it is not. */
static void look_at(const struct sequence *q, snib_err err)
{
    if ((q->sort == CAMPAIGNS && !err != (q->term > 0)) ||
        (q->sort == LEADER && !err != !!q->leader) ||
        (q->sort == JOINS && !err != !!q->place)) {
        sched_fail("a sequence ended %s, with a result or without",
                   snib_err_name(err));
    }
}

void wide_sequence_done(const struct snib_event *e)
{
    int i = USERS - (int)(intptr_t)e->user;
    if (e->kind != SNIB_EVENT_DONE || i < 0 || i >= SEQUENCES) {
        return;
    }
    struct sequence *q = &sequences[i];
    snib_err err = e->error.code;
    if (!q->under_way) {
        sched_fail("a sequence ended twice");
    }
    look_at(q, err);
    tell("sequence %d: term %" PRId64 " version %" PRId64 " stopped %d body %d",
         (int)q->sort, q->term, q->version, q->stopped, q->result);
    if (q->sort == SEVERAL) {
        several_done(q, err);
    } else if (q->sort == GRANT) {
        grant_done(q, e);
    } else if (q->sort == ENDS) {
        snib_multi_free(q->multi);
        q->multi = NULL;
        q->place = NULL;
    }
    if (q->leader) {
        tell("leader term %" PRId64 " '%s' left %" PRId64 " candidates %zu",
             q->leader->term, q->leader->id, q->leader->left_ms,
             q->leader->candidates);
        seen = q->leader->term;
        snib_leader_free(q->leader);
        q->leader = NULL;
    }
    q->under_way = false;
}

void wide_sequences_end(void)
{
    for (int i = 0; i < SEQUENCES; i++) {
        struct sequence *q = &sequences[i];
        if (q->place) {
            (void)snib_ring_leave(q->place, NULL);
        }
        snib_multi_free(q->multi);
    }
}
