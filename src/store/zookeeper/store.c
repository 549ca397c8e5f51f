/* store/zookeeper/store.c — the store table. How it works, and why two cannot hold
 * one lock.
 *
 * Requests are kept by id in the table of core/blocking.h, until they are
 * answered: it polls who waits, holds back what is about an id that is under way,
 * and ends what is cancelled. What it lists is taken by step.c at once, and becomes
 * calls on one connection (session.c, call.c); nothing blocks.
 *
 * A lock is the recipe that Curator's InterProcessReadWriteLock follows, with its
 * names (path.c): who wants it makes an ephemeral sequential node, and has it when
 * nobody stands before it whom it excludes (order.c); each one that waits watches
 * the one before it.
 *
 * WHAT THE RECIPE LACKS. An ephemeral node goes when the ensemble ends its session,
 * and the client cannot know when that is. Not from the answers to its pings: a
 * follower answers them from its own memory, for as long as it takes to find out
 * that it has lost its leader (syncLimit), while the leader, which hears nothing
 * of that client, ends the session. Nor from the answers to what it writes: the
 * leader checks that the session is alive, and does not prolong it; only what a
 * follower reports does, some time later, and a leader that was frozen may end the
 * session right after the write.
 *
 * WHY EXCLUSION HOLDS. So the end of a node gives nobody the lock by itself.
 *
 *  1. A grant makes a record, a node that stays: its name has the request's id
 *     and the lease. It is made by a multi that also changes the own node, when a
 *     look at all nodes had shown that this one is next. Whoever made a node
 *     that is in the way did so before this one was made (the numbers are in the
 *     order of the log), so the look, by the connection that made this one,
 *     showed it. A writer who reads as well is let in before writers that wait;
 *     then the multi also checks that its node as the writer stands. Who expects
 *     that it is next makes its record before the look, and has no grant until
 *     that, by the same connection, has shown it: else the record goes (guess.c).
 *  2. Nobody is granted the lock while there is a record that excludes it. A
 *     release removes node and record, in one step.
 *  3. Where a record is and its node is not, the session has ended, or somebody
 *     has removed the node. Who sees that waits for the whole lease of the record
 *     from then on, and removes the record with its own grant (acquire_outlived).
 *  4. A holder's lease counts from before it sent a change of its record that
 *     checks its node, and that was answered: the grant, or a renewal. Those are
 *     in the log before the node's end. So its deadline is earlier than one lease
 *     behind the node's end, by the allowance of the core besides, and earlier
 *     than what others wait for.
 *  5. A call whose answer was lost is UNKNOWN. The core repeats it under the same
 *     id, or cancels it. The repeat looks first, and finds node and record by the
 *     id; a copy that comes late makes nothing, and removes nothing that was made
 *     since: it checks the fence (fence.c), or a node with a number of its own.
 *  6. What a session has made is nobody's when it is over: a claim has the number
 *     of its session, and is not renewed in another (CURATOR-604).
 *
 * WITH CURATOR (?dialect=). Its own clients make no records and wait for none:
 * they are let in as soon as the ensemble has ended our session. So there no lease
 * is longer than a third of the session, counted as in 4. The leader ends a session
 * when it has not heard of it for its whole length. It had checked that the session
 * was not over when it took the holder's last change; so two owners need a leader
 * that then had not heard of the session for the other two thirds, and still led.
 * Followers report to it each half tick, and leave one that is silent for
 * syncLimit. Whoever makes two thirds of the session longer than that, and a tick
 * more, has what there is to be had (docs/ZOOKEEPER.md). A writer who reads as well
 * stands where it stands as the writer (snib__zoo_node_of), since Curator's writers
 * look at nodes only. What theirs believe is their affair.
 *
 * And of the fence (P2): a token is the zxid that made the node. Grants that exclude
 * each other are given in the order in which their nodes were made, so it rises. */
#include "store/zookeeper/zookeeper.h"
#include "store/zookeeper/zookeeper_i.h"

static struct snib__zoo *store_of(const struct snib__store *store)
{
    return (struct snib__zoo *)(uintptr_t)store;
}

/* Ids that the table does not know were answered meanwhile. */
static void store_pass_on(struct snib__zoo *z)
{
    z->requests.out.ended_count = 0;
    z->requests.out.missed = false;
    snib__list_append(&z->out->answered, &z->requests.out.answered);
}

/* Until nothing moves: steps begin and end. */
static void store_settle(struct snib__zoo *z, snib_instant now)
{
    bool more = true;
    while (more) {
        zoo_state before = z->session.state;
        if (z->session.in_vain) {
            snib__zoo_steps_in_vain(z, now);
        }
        snib__nonblocking_hear(&z->requests, now);
        snib__zoo_steps_take(z, now);
        snib__zoo_steps_begin(z, now);
        snib__zoo_session_settle(z, now);
        more = !snib__list_empty(&z->requests.executed) ||
               z->session.state != before ||
               snib__nonblocking_is_notified(&z->requests) ||
               z->session.in_vain;
        snib__blocking_done(z->requests.table, now, &z->requests.executed);
    }
    store_pass_on(z);
}

static void store_zookeeper_start(struct snib__store *store, snib_instant now,
                                  struct snib__list *chain)
{
    struct snib__zoo *z = store_of(store);
    snib__blocking_store_ops.start(z->requests.table, now, chain);
    store_settle(z, now);
}

static void store_zookeeper_input(struct snib__store *store, snib_instant now,
                                  const struct snib__input *in)
{
    struct snib__zoo *z = store_of(store);
    if (in->kind == SNIB__IN_TICK) {
        snib__blocking_store_ops.input(z->requests.table, now, in);
        snib__zoo_session_tick(z, now);
        snib__zoo_steps_tick(z, now);
        snib__zoo_sweep(z, now);
    } else if (in->kind != SNIB__IN_NOTIFIED) {
        snib__zoo_session_input(z, now, in);
    }
    store_settle(z, now);
}

static snib_instant store_zookeeper_due(const struct snib__store *store)
{
    const struct snib__zoo *z = store_of(store);
    snib_instant due = snib__blocking_store_ops.due(z->requests.table);
    due = snib__sooner(due, snib__heap_due(&z->timers));
    if (!z->sweep.busy && snib__zoo_is_ready(&z->session)) {
        due = snib__sooner(due, snib__heap_due(&z->leases));
    }
    return snib__sooner(due, snib__zoo_session_due(z));
}

const struct snib__store_ops snib__zookeeper_store_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__store_ops),
    .scheme = "zookeeper",
    .caps = SNIB__CAN_QUEUE | SNIB__TIED | SNIB__NO_LATCH,
    .open = snib__zoo_open,
    .start = store_zookeeper_start,
    .input = store_zookeeper_input,
    .due = store_zookeeper_due,
    .state = snib__zoo_state,
    .server = snib__zoo_server,
    .free = snib__zoo_free,
};
