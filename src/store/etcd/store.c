/* store/etcd/store.c — the store table. How it works, and why two cannot hold one
 * lock.
 *
 * Requests are kept by id in the table of core/blocking.h, until they are
 * answered: it polls who waits, holds back what is about an id that is under
 * way, and ends what is cancelled. What it lists is taken by step.c at once, and
 * becomes calls on one connection (session.c, call.c); nothing blocks. The rules
 * decide on a snapshot (claims.c), and what they decide is one transaction
 * (plan.c).
 *
 * WHY EXCLUSION HOLDS. A lock is held by whoever's claim is under a key of that
 * name, in a state that holds.
 *
 *  1. A grant is a transaction that goes through the log. It compares the
 *     revision of the lock row with that of the fetch, and writes that row. Every
 *     other grant of the name does so, too. So between fetch and write nobody
 *     was granted the name, and who held it then is who holds it now, but for
 *     those that have ended since. What was fetched is never a member's memory:
 *     ranges are linearizable, and an answer that is not whole is none. A client
 *     that has written the rows itself, or fetched them just before, need not
 *     fetch them (guess.c): the same comparison says whether they are still so.
 *  2. Until its holder ends it, or somebody by force, a claim goes only with its
 *     lease. That is granted through the log and never kept alive, so no member,
 *     and no leader that is one no more, ends it before its time to live has
 *     passed since the grant was applied (lease.c has the reasons). We count from
 *     before the grant was sent: the holder's deadline is earlier than the end of
 *     its key, by the allowance of the core besides.
 *  3. A renewal compares the claim's own revision and puts it under a younger
 *     lease; it never makes a claim. If it does not find the claim, the answer is
 *     no. It puts it under no lease that may end before the one that the claim
 *     hangs on (plan_hold), since the holder relies on that while no answer has
 *     come. No other client's step moves a holder's claim to another lease
 *     (plan_claim: it keeps the one it has).
 *  4. A grant that others push hangs on their lease, and its waiter is not told
 *     DONE by it: it asks, which puts the claim under its own lease, and the
 *     answer to that is the grant.
 *  5. A transaction whose answer is lost is UNKNOWN. The core repeats it under
 *     the same id, or cancels it. The repeat finds its claim; the cancel removes
 *     it, or leaves a tombstone in its place, which lasts longer than each lease
 *     that the lost transaction could have put a claim under. Later than that it
 *     fails, since one of its leases is over. Claim and tombstone have one key
 *     (place.c), and after a loss no other request ever has that one. So the
 *     store needs no clock for a not_after. Nobody believes in what a late copy
 *     makes: DONE is only said with an answer.
 *  6. Only what etcd itself refuses in its own words counts as not done
 *     (errors.c). All else that is no answer is LOST.
 *
 * And of the fence (P2): a token is above the last one of the lock row, which
 * stays a day after its time, and not below the client's clock. */
#include "store/etcd/etcd.h"
#include "store/etcd/etcd_i.h"

static struct snib__etcd *store_of(const struct snib__store *store)
{
    return (struct snib__etcd *)(uintptr_t)store;
}

/* Ids that the table does not know may be of grants that were ended by force. */
static void store_pass_on(struct snib__etcd *e)
{
    struct snib__out *inner = &e->requests.out;
    for (uint32_t i = 0; i < inner->ended_count; i++) {
        snib__out_ended(e->out, inner->ended[i]);
    }
    e->out->missed = e->out->missed || inner->missed;
    inner->ended_count = 0;
    inner->missed = false;
    snib__list_append(&e->out->answered, &inner->answered);
}

static void store_send(struct snib__etcd *e, snib_instant now)
{
    struct etcd_session *s = &e->session;
    if (!s->h2.session) {
        return;
    }
    struct snib__conn *conn = e->out->conn[s->at];
    snib__conn_touch(e->out, conn); /* also where only fewer are awaited */
    if (!snib__h2_output(&s->h2, &conn->out)) {
        snib__etcd_session_broken(e, now);
    }
}

/* Until nothing moves: steps begin and end, calls that could not be sent too. */
static void store_settle(struct snib__etcd *e, snib_instant now)
{
    bool more = true;
    while (more) {
        etcd_state before = e->session.state;
        snib__nonblocking_hear(&e->requests, now);
        snib__etcd_steps_take(e, now);
        snib__etcd_steps_begin(e, now);
        snib__etcd_calls_heard(e, now);
        snib__etcd_session_settle(e, now);
        store_send(e, now);
        more = !snib__list_empty(&e->requests.executed) ||
               e->session.state != before ||
               snib__nonblocking_is_notified(&e->requests);
        snib__blocking_done(e->requests.table, now, &e->requests.executed);
    }
    store_pass_on(e);
}

/* A request that is about to be started. */
static void store_look_at(struct snib__etcd *e, struct snib__request *r)
{
    if (r->verb == SNIB__CANCEL) {
        snib__etcd_steps_cancel(e, r);
    } else if (r->verb == SNIB__ACQUIRE) {
        snib__etcd_lease_note(e, r);
    }
}

static void store_etcd_start(struct snib__store *store, snib_instant now,
                             struct snib__list *chain)
{
    struct snib__etcd *e = store_of(store);
    e->now = now;
    SNIB__LIST_EACH (l, chain) {
        store_look_at(e, SNIB__CONTAINER(l, struct snib__request, link));
    }
    snib__blocking_store_ops.start(e->requests.table, now, chain);
    store_settle(e, now);
}

static void store_etcd_input(struct snib__store *store, snib_instant now,
                             const struct snib__input *in)
{
    struct snib__etcd *e = store_of(store);
    e->now = now;
    if (in->kind == SNIB__IN_TICK) {
        snib__blocking_store_ops.input(e->requests.table, now, in);
        snib__etcd_session_tick(e, now);
        snib__etcd_steps_tick(e, now);
    } else if (in->kind != SNIB__IN_NOTIFIED) {
        snib__etcd_session_input(e, now, in);
    }
    store_settle(e, now);
}

static snib_instant store_etcd_due(const struct snib__store *store)
{
    const struct snib__etcd *e = store_of(store);
    snib_instant due = snib__blocking_store_ops.due(e->requests.table);
    due = snib__sooner(due, snib__heap_due(&e->timers));
    return snib__sooner(due, snib__etcd_session_due(e));
}

const struct snib__store_ops snib__etcd_store_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__store_ops),
    .scheme = "etcd",
    .caps = SNIB__CAN_QUEUE | SNIB__CAN_PUSH,
    .open = snib__etcd_open,
    .start = store_etcd_start,
    .input = store_etcd_input,
    .due = store_etcd_due,
    .state = snib__etcd_state,
    .server = snib__etcd_server,
    .free = snib__etcd_free,
};
