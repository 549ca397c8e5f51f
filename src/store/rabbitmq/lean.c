/* store/rabbitmq/lean.c — the claim of a lock that this client has had lately. Its
 * queue is there, so it is not asked for; and its channel is kept (pool.c), so a
 * section is
 *
 *     consume, [FREE comes], HELD, [it comes back] … FREE + cancel + acknowledge all
 *
 * THE RELEASE. The channel is not closed, so what was delivered on it would be given
 * to nobody: it is acknowledged. What comes next must all the same find the last
 * token. So the FREE must not come back here, but stay in the queue: the channel is
 * bound to two messages that are not acknowledged (put_qos), and who holds keeps two
 * all the time, the HELD that it holds by and the one before it, at first the FREE
 * that it found.
 *
 * Each consumer has a tag of its own: the broker's leader may change before it has said
 * that an acknowledgement was applied, and then hears it once more. And the channel is
 * kept only when FREE was confirmed: a broker keeps the order of what is published on a
 * channel, and takes nothing behind a message that it has lost.
 *
 * All three go in one write. The broker may make the next consumer active before it
 * has put the FREE into the queue: it puts messages there after what consumers say
 * (rabbit_fifo_client.erl: enqueue has the priority `low`). But FREE has come to the
 * queue's leader before that, and messages are put into the queue in the order in
 * which they came there. So whatever the next one sends lies behind it, and it is not
 * granted the lock before it was given FREE. (What a broker that is killed in that
 * moment has on its disk may be the acknowledgement without the FREE, and so may what
 * the queue's next leader has. Nobody holds then, and the next token is above by the
 * clock.)
 *
 * Who is not that far, or has no second message, is closed as others are (end.c), when
 * its FREE is confirmed: the end of a channel may overtake what was published on it.
 *
 * THE BOUND. A renewal acknowledges the older message behind its own, so that this
 * can come back. Before the grant messages are acknowledged that say nothing any more.
 * Where two of others stay, a message of its own could not come back: two holders in
 * a row have died. Then it is begun anew, as a claim without a bound; its position
 * among those who wait is lost. So it is where the broker takes nothing any more that
 * is published on its channel, or gives it nothing back. */
#include "store/rabbitmq/rabbitmq_i.h"

enum { LEAN_CREDIT = 2, LEAN_KNOWN_MS = 3600000 };

/* -- begun --------------------------------------------------------------------- */

void snib__mq_lean_remember(struct snib__mq *z, snib_instant now,
                            const struct mq_claim *c)
{
    z->known[c->hash % MQ_KNOWN].hash = c->hash;
    z->known[c->hash % MQ_KNOWN].at = now;
}

/* A queue without consumers is there for a day (MQ_EXPIRES_MS). */
static bool lean_is_known(const struct snib__mq *z, snib_instant now,
                          const struct mq_claim *c)
{
    uint32_t i = c->hash % MQ_KNOWN;
    return z->known[i].at.ns && z->known[i].hash == c->hash &&
           !snib__reached(now,
                          snib__after(z->known[i].at, snib__ms(LEAN_KNOWN_MS)));
}

/* Whether others consume is not known: who is given nothing for a while waits. */
bool snib__mq_lean_open(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c)
{
    bool follows = c->prior[0] | c->prior[1];
    if (!c->may_queue || follows || !lean_is_known(z, now, c)) {
        return false;
    }
    if (!snib__mq_pool_take(z, &c->channel, snib__mq_claim_heard)) {
        if (!snib__mq_channel_open(z, now, &c->channel, snib__mq_claim_heard)) {
            return false;
        }
        snib__amqp_put_qos(snib__mq_out(z), c->channel.number, LEAN_CREDIT);
        snib__mq_channel_asks(z, now, &c->channel, 1);
        snib__mq_channel_confirms(z, now, &c->channel);
    }
    c->lean = c->alone = true;
    return true;
}

/* -- begun anew ------------------------------------------------------------------- */

/* A HELD that it has sent may come to lie there, and whoever comes before it would
 * wait for that lease. What it says later has a higher number. */
static void lean_free_own(struct snib__mq *z, snib_instant now,
                          struct mq_claim *c, int64_t token)
{
    const struct mq_message says = {.kind = MQ_FREE,
                                    .id = {c->id[0], c->id[1]},
                                    .token = token,
                                    .serial = ++z->serial};
    const struct snib__amqp_message to = {.queue = c->queue,
                                          .may_vanish = true};
    snib__mq_publish(z, &c->channel, &says, NULL, 0, &to);
    snib__mq_channel_asks(z, now, &c->channel, 0);
}

/* It asks for its queue on a channel without a bound. What it has sent may lie there:
 * `wrote` stays; and where it is not its turn when it gives up, its FREE does not come
 * back, but is confirmed. */
static void lean_rejoin(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c)
{
    static const struct mq_heard none = {
        .lost = true,
        .err = SNIB_ERR_LOST,
        .text = "this connection has no channel left"};
    int64_t token = snib__mq_view_token(&c->view, 0);
    snib__heap_remove(&z->alarms, &c->timer);
    snib__mq_channel_drop(z, now, &c->channel);
    snib__mq_view_free(&c->view);
    c->lean = c->alone = c->due = c->learned = false;
    c->seeded.ns = 0;
    c->woken = 0;
    c->stage = MQ_JOINS;
    z->joining += !c->joining;
    c->joining = true;
    if (snib__mq_channel_open(z, now, &c->channel, snib__mq_claim_heard)) {
        snib__mq_channel_confirms(z, now, &c->channel);
        if (c->wrote) {
            lean_free_own(z, now, c, token);
        }
        snib__mq_claim_join(z, now, c);
    } else {
        snib__mq_claim_lost(z, now, c, &none);
    }
}

bool snib__mq_lean_clear(struct snib__mq *z, snib_instant now,
                         struct mq_claim *c)
{
    if (!c->lean) {
        return true;
    }
    bool again = !c->due; /* one more is about to be sent */
    for (uint64_t tag; (tag = snib__mq_view_outdone(&c->view, c->id,
                                                    c->last.serial + again));) {
        snib__mq_claim_ack(z, now, c, tag);
    }
    if (c->view.count < LEAN_CREDIT) {
        return true;
    }
    lean_rejoin(z, now, c);
    return false;
}

/* The broker has spoken for long, but does not take what is published there. One that
 * stands still takes it later; so does one with an alarm. Or it has taken a PROBE as
 * well, and gives neither: for it something is not acknowledged still that is. */
static bool lean_is_unheard(const struct snib__mq *z, const struct mq_claim *c)
{
    bool speaks = z->session.heard.ns > snib__after(c->sent, z->request).ns &&
                  !*z->session.blocked;
    return speaks && (c->last.kind == MQ_PROBE ||
                      !snib__mq_channel_is_confirmed(&c->channel));
}

bool snib__mq_lean_again(struct snib__mq *z, snib_instant now,
                         struct mq_claim *c)
{
    if (!c->lean || !lean_is_unheard(z, c)) {
        return false;
    }
    lean_rejoin(z, now, c);
    return true;
}

void snib__mq_lean_forget(struct snib__mq *z, const struct mq_claim *c)
{
    z->known[c->hash % MQ_KNOWN].at.ns = 0;
}

bool snib__mq_lean_missed(struct snib__mq *z, snib_instant now,
                          struct mq_claim *c, const struct mq_heard *heard)
{
    if (!c->lean || c->stage != MQ_CONSUMES || heard->err != SNIB_ERR_LOST ||
        !snib__mq_is_ready(&z->session)) {
        return false;
    }
    snib__mq_lean_forget(z, c);
    lean_rejoin(z, now, c);
    return true;
}

/* -- given back -------------------------------------------------------------------- */

bool snib__mq_lean_leave(struct snib__mq *z, snib_instant now,
                         struct mq_claim *c)
{
    uint64_t last = c->own_tag > c->older_tag ? c->own_tag : c->older_tag;
    if (c->stage != MQ_HOLDS || !c->older_tag || c->due) {
        return false;
    }
    c->stage = MQ_LEAVES;
    snib__heap_set(&z->alarms, &c->timer, snib__mq_claim_patience(z, now));
    (void)snib__mq_claim_send(z, now, c, MQ_FREE); /* it needs no token */
    snib__amqp_put_cancel(snib__mq_out(z), c->channel.number,
                          c->channel.consumer);
    snib__amqp_put_ack(snib__mq_out(z), c->channel.number, last, true);
    snib__mq_channel_asks(z, now, &c->channel, 1);
    return true;
}

/* Its consumer is gone, and FREE is there: else the broker would take nothing any more
 * that is published on this channel, since it keeps an order. What was delivered
 * meanwhile goes on when the channel is closed; so it is also where its queue was
 * removed. */
void snib__mq_lean_heard(struct snib__mq *z, snib_instant now,
                         struct mq_claim *c, const struct mq_heard *heard)
{
    uint32_t id = heard->method ? heard->method->id : 0;
    if (heard->lost || id == SNIB__AMQP_NACK) {
        snib__mq_claim_over(z, now, c, true);
        return;
    }
    c->gone = c->gone || id == SNIB__AMQP_CANCEL_OK;
    c->stray = c->stray || (id != SNIB__AMQP_CANCEL_OK && id != SNIB__AMQP_ACK);
    if (c->gone && snib__mq_channel_is_confirmed(&c->channel)) {
        if (!c->stray) {
            snib__mq_pool_put(z, now, &c->channel);
        }
        snib__mq_claim_over(z, now, c, false);
    }
}
