/* store/rabbitmq/try.c — a try that finds that somebody consumes from the lock's
 * queue. That one holds, or waits, or is about to go: a broker answers the end of a
 * channel a moment before it has happened. So it is asked who is there (presence.c). An
 * answer refuses the try; when nobody consumes any more it goes on; and without
 * either it is refused after a while: a holder that is frozen says nothing. */
#include "store/rabbitmq/rabbitmq_i.h"

#include <string.h>

enum { TRY_PATIENCE_MS = 200, TRY_LOOK_MS = 2 };

static void try_look(struct snib__mq *z, snib_instant now, struct mq_claim *c)
{
    const struct snib__amqp_queue queue = {.name = c->queue, .passive = true};
    snib__amqp_put_declare(snib__mq_out(z), c->channel.number, &queue);
    snib__mq_channel_asks(z, now, &c->channel, 1);
}

void snib__mq_try_begin(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c)
{
    const struct mq_message who = {.kind = MQ_WHO, .id = {c->id[0], c->id[1]}};
    const struct snib__amqp_message to = {
        .queue = "", .may_vanish = true, .reply_to = SNIB__AMQP_REPLIES};
    c->stage = MQ_TRIES;
    c->tried = now;
    snib__amqp_put_consume(snib__mq_out(z), c->channel.number,
                           SNIB__AMQP_REPLIES, true);
    snib__mq_publish(z, &c->channel, &who, c->queue, strlen(c->queue), &to);
    snib__mq_channel_asks(z, now, &c->channel, 1);
    try_look(z, now, c);
}

/* NULL: a moment has passed. */
void snib__mq_try_heard(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c, const struct mq_heard *heard)
{
    struct mq_presence p;
    const struct snib__amqp_method *m = heard ? heard->method : NULL;
    if (!heard) {
        try_look(z, now, c);
    } else if (!m && heard->answers &&
               snib__mq_presence_read(heard->bytes, heard->size, &p)) {
        snib__mq_claim_refuse(
            z, now, c,
            snib__ms(p.says.lease_ms ? p.says.lease_ms : c->wish_ms));
    } else if (m && m->id == SNIB__AMQP_DECLARE_OK && !m->consumers) {
        snib__heap_remove(&z->alarms, &c->timer);
        c->stage = MQ_JOINS;
        snib__mq_claim_declared(z, now, c, m);
    } else if (m && m->id == SNIB__AMQP_DECLARE_OK) {
        if (snib__reached(now,
                          snib__after(c->tried, snib__ms(TRY_PATIENCE_MS)))) {
            snib__mq_claim_refuse(z, now, c, snib__ms(c->wish_ms));
        } else {
            snib__heap_set(&z->alarms, &c->timer,
                           snib__after(now, snib__ms(TRY_LOOK_MS)));
        }
    }
}
