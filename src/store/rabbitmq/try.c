/* store/rabbitmq/try.c — a try that finds that somebody consumes from the lock's
 * queue. That one holds, or waits, or is about to go: a broker answers the end of a
 * channel a moment before it has happened. So it is asked who is there (presence.c). An
 * answer refuses the try; when nobody consumes any more it goes on; and without
 * either it is refused after a while: a holder that is frozen says nothing.
 *
 * A try that found nobody consumes itself. Where it is given nothing then, somebody was
 * first all the same, or the broker is slow. Only a holder that answers refuses it; it
 * says UNREACHABLE where nobody does, since nobody knows. */
#include "store/rabbitmq/rabbitmq_i.h"

#include <string.h>

enum { TRY_PATIENCE_MS = 200, TRY_LOOK_MS = 2 };

static void try_look(struct snib__mq *z, snib_instant now, struct mq_claim *c)
{
    const struct snib__amqp_queue queue = {.name = c->queue, .passive = true};
    snib__amqp_put_declare(snib__mq_out(z), c->channel.number, &queue);
    snib__mq_channel_asks(z, now, &c->channel, 1);
}

static void try_ask(struct snib__mq *z, snib_instant now, struct mq_claim *c)
{
    const struct mq_message who = {.kind = MQ_WHO, .id = {c->id[0], c->id[1]}};
    const struct snib__amqp_message to = {
        .queue = "", .may_vanish = true, .reply_to = SNIB__AMQP_REPLIES};
    if (!c->hears) { /* once: a second time is an error of the channel */
        c->hears = true;
        snib__mq_channel_hear(z, now, &c->channel, SNIB__AMQP_REPLIES);
    }
    snib__mq_publish(z, &c->channel, &who, c->queue, strlen(c->queue), &to);
    snib__mq_channel_asks(z, now, &c->channel, 0);
}

void snib__mq_try_begin(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c)
{
    c->stage = MQ_TRIES;
    c->tried = now;
    try_ask(z, now, c);
    try_look(z, now, c);
}

static bool try_is_answer(const struct mq_claim *c,
                          const struct mq_heard *heard, struct mq_presence *ret)
{
    return heard && !heard->method && heard->answers &&
           snib__mq_presence_read(heard->bytes, heard->size, ret) &&
           ret->queue_size == strlen(c->queue) &&
           !memcmp(ret->queue, c->queue, ret->queue_size);
}

/* NULL: a moment has passed. */
void snib__mq_try_heard(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c, const struct mq_heard *heard)
{
    struct mq_presence p;
    const struct snib__amqp_method *m = heard ? heard->method : NULL;
    if (!heard) {
        try_look(z, now, c);
    } else if (try_is_answer(c, heard, &p)) {
        snib__mq_claim_refuse(z, now, c,
                              p.says.lease_ms ? snib__ms(p.says.lease_ms)
                                              : MQ_NOT_KNOWN);
    } else if (m && m->id == SNIB__AMQP_DECLARE_OK && !m->consumers) {
        snib__heap_remove(&z->alarms, &c->timer);
        c->stage = MQ_JOINS;
        snib__mq_claim_declared(z, now, c, m);
    } else if (m && m->id == SNIB__AMQP_DECLARE_OK) {
        if (snib__reached(now,
                          snib__after(c->tried, snib__ms(TRY_PATIENCE_MS)))) {
            snib__mq_claim_refuse(z, now, c, MQ_NOT_KNOWN);
        } else {
            snib__heap_set(&z->alarms, &c->timer,
                           snib__after(now, snib__ms(TRY_LOOK_MS)));
        }
    }
}

void snib__mq_try_waits(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c)
{
    static const struct mq_heard silent = {
        .lost = true,
        .err = SNIB_ERR_UNREACHABLE,
        .text = "the broker has passed nothing on within the time allowed; it "
                "is slow, or somebody who was first does not answer"};
    if (!c->alone) { /* behind a grant of its own, and others */
        snib__mq_claim_refuse(z, now, c, MQ_NOT_KNOWN);
    } else if (c->asked) {
        snib__mq_claim_lost(z, now, c, &silent);
    } else {
        c->asked = true;
        try_ask(z, now, c);
        snib__heap_set(&z->alarms, &c->timer,
                       snib__after(now, snib__ms(snib__to_ms(z->request) / 2)));
    }
}

/* Its own client answers, too; and so do others that were given nothing either. */
void snib__mq_try_answered(struct snib__mq *z, snib_instant now,
                           struct mq_claim *c, const struct mq_heard *heard)
{
    struct mq_presence p;
    if (c->stage == MQ_WAITS && c->asked && try_is_answer(c, heard, &p) &&
        p.says.kind == MQ_HELD) {
        snib__mq_claim_refuse(z, now, c, snib__ms(p.says.lease_ms));
    }
}
