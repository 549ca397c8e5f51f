/* store/rabbitmq/store.c — the store table. How it works, and why two cannot hold one
 * lock.
 *
 * Requests are kept by id in the table of core/blocking.h, until they are answered:
 * it polls who waits, holds back what is about an id that is under way, and ends
 * what is cancelled. What it lists is taken by step.c at once, and becomes methods
 * on one connection (session.c, channel.c); nothing blocks.
 *
 * A lock is a quorum queue whose *single active consumer* gets all messages. Who
 * wants the lock consumes from it; the broker keeps the consumers in their order,
 * and makes the next one active when the active one goes, with all that was
 * delivered to that one and not acknowledged.
 *
 * WHAT THAT LACKS. The broker makes the next one active as soon as it misses a
 * connection: cut by the network, closed by an operator, on a node that is gone.
 * The holder may not know that yet, so being the active consumer is no lock.
 *
 * WHY EXCLUSION HOLDS. So messages say who holds, for how long (message.c), and the
 * active consumer reads them before it believes anything.
 *
 *  1. A message that a consumer has sent to the queue and got back shows that it is
 *     the active one, or was when it was delivered, and has been given all that lay
 *     before it: what was not acknowledged comes first, the rest in order.
 *  2. Who holds has sent a HELD with its lease and got it back. A renewal does the
 *     same again, and then acknowledges the HELD before, or (lean.c) the one before
 *     that. So as long as it may believe to hold, a HELD of that lease or a longer
 *     one lies in the queue.
 *  3. Its lease counts from before it sent that message. Who is made active instead
 *     is so later than that, gets that HELD, and waits for the whole lease from when
 *     its client was given that message at first, unless a FREE of the same request
 *     lies there, too. Only then it sends its own HELD. So its lease begins when the other's is over. (The driver dates what
 *     came after it was received, never before: driver/sockets.c.)
 *  4. A FREE is sent by the request's own client alone, when it does not hold any
 *     more or never did, and names that request. It ends the HELDs of it that were
 *     sent before, by their serials: so it is true whenever it comes, and however
 *     often, even if the request is granted the lock again under its id. (A try, and
 *     who gives up waiting for the end of a lease, has the broker send one when the
 *     lease of a HELD that it was given is over, with that one's serial: end.c.)
 *  5. What is acknowledged is gone, so a holder acknowledges what others have left
 *     when its own HELD came back, not before; and never the HELD that it holds by,
 *     also if that is delivered again, since a broker may take a client for gone and
 *     think better of it.
 *  6. A renewal that comes back after the lease before is none: meanwhile others may
 *     have been the active ones.
 *  7. What a connection has at the broker goes with it, so all that was held is lost at
 *     once, and told. A broker that stood still may read later what was sent on it: a
 *     HELD of then is nobody's, and costs who comes next its lease at most.
 *
 * A message without a meaning (SEED) makes the active consumer hear something where
 * nothing lies in the queue: a new one, or one that an operator has emptied. Seeds
 * are acknowledged by whomever they come to, and gone after some seconds.
 *
 * And of the fence (P2): each HELD and FREE has a token, and a grant's is above those
 * of all messages that its holder has been delivered. The last grant's message is one
 * of them, so tokens rise as long as the queue is there; above a new queue's first
 * one by the clocks of clients, and above one whose message was lost with a broker
 * that was killed (lean.c). */
#include "core/blocking.h"
#include "store/rabbitmq/rabbitmq.h"
#include "store/rabbitmq/rabbitmq_i.h"

static struct snib__mq *store_of(const struct snib__store *store)
{
    return (struct snib__mq *)(uintptr_t)store;
}

/* Ids that the table does not know were answered meanwhile. */
static void store_pass_on(struct snib__mq *z)
{
    z->inner.ended_count = 0;
    z->inner.missed = false;
    snib__list_append(&z->out->answered, &z->inner.answered);
}

/* Until nothing moves: steps begin and end. */
static void store_settle(struct snib__mq *z, snib_instant now)
{
    bool more = true;
    while (more) {
        mq_state before = z->session.state;
        if (z->session.in_vain) {
            snib__mq_steps_in_vain(z, now);
        }
        if (z->tolds || z->told_all) {
            const struct snib__input in = {.kind = SNIB__IN_NOTIFIED};
            snib__blocking_store_ops.input(z->requests, now, &in);
        }
        snib__mq_steps_take(z, now);
        snib__mq_steps_begin(z, now);
        snib__mq_session_settle(z, now);
        more = !snib__list_empty(&z->executed) || z->session.state != before ||
               z->tolds || z->told_all || z->session.in_vain;
        snib__blocking_done(z->requests, now, &z->executed);
    }
    store_pass_on(z);
}

static void store_rabbitmq_start(struct snib__store *store, snib_instant now,
                                 struct snib__list *chain)
{
    struct snib__mq *z = store_of(store);
    snib__blocking_store_ops.start(z->requests, now, chain);
    store_settle(z, now);
}

static void store_rabbitmq_input(struct snib__store *store, snib_instant now,
                                 const struct snib__input *in)
{
    struct snib__mq *z = store_of(store);
    if (in->kind == SNIB__IN_TICK) {
        snib__blocking_store_ops.input(z->requests, now, in);
        snib__mq_session_tick(z, now);
        snib__mq_claims_tick(z, now);
        snib__mq_pool_tick(z, now);
        snib__mq_steps_tick(z, now);
    } else if (in->kind != SNIB__IN_NOTIFIED) {
        snib__mq_session_input(z, now, in);
    }
    store_settle(z, now);
}

static snib_instant store_rabbitmq_due(const struct snib__store *store)
{
    const struct snib__mq *z = store_of(store);
    snib_instant due = snib__blocking_store_ops.due(z->requests);
    due = snib__sooner(due, snib__heap_due(&z->timers));
    due = snib__sooner(due, snib__heap_due(&z->alarms));
    due = snib__sooner(due, snib__mq_pool_due(z));
    return snib__sooner(due, snib__mq_session_due(z));
}

const struct snib__store_ops snib__rabbitmq_store_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__store_ops),
    .scheme = "amqp",
    .caps = SNIB__TIED,
    .open = snib__mq_open,
    .start = store_rabbitmq_start,
    .input = store_rabbitmq_input,
    .due = store_rabbitmq_due,
    .state = snib__mq_state,
    .server = snib__mq_server,
    .free = snib__mq_free,
};
