/* store/rabbitmq/orphan.c — a message FREE for a request whose claim is no more: its
 * connection was cut, so its HELD may lie in the queue without a holder, and who
 * comes next would wait for its lease. It is sent for a request that is given back or
 * given up and will not be asked for again, so it is true whenever it comes. A CANCEL
 * may give up the grant before, too. */
#include "store/rabbitmq/rabbitmq_i.h"

static void orphan_over(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    snib__mq_channel_drop(z, now, &k->channel);
    k->noted = true;
    snib__mq_step_again(z, k);
}

static void orphan_heard(struct snib__mq *z, snib_instant now,
                         struct mq_channel *channel,
                         const struct mq_heard *heard)
{
    struct mq_step *k = snib__mq_step_of(channel);
    uint32_t id = heard->method ? heard->method->id : 0;
    if (heard->lost && !snib__mq_is_ready(&z->session)) {
        snib__mq_step_again(z, k); /* once more, on the next connection */
    } else if (heard->lost || id == SNIB__AMQP_ACK || id == SNIB__AMQP_NACK) {
        orphan_over(z, now, k);
    }
}

/* When one is confirmed the next one is on its way: the channel is closed behind it. */
static void orphan_free(struct snib__mq *z, struct mq_step *k,
                        const uint64_t id[2])
{
    const struct mq_message says = {.kind = MQ_FREE,
                                    .id = {id[0], id[1]},
                                    .token = k->r->token > 0 ? k->r->token : 0,
                                    .serial = ++z->serial};
    char queue[MQ_QUEUE_MAX];
    const struct snib__amqp_message to = {.queue = queue};
    snib__mq_queue(k->r->name, queue);
    snib__mq_publish(z, &k->channel, &says, NULL, 0, &to);
}

static void orphan_begin(struct snib__mq *z, snib_instant now,
                         struct mq_step *k)
{
    const struct snib__request *r = k->r;
    if (!snib__mq_channel_open(z, now, &k->channel, orphan_heard)) {
        k->noted = true; /* a courtesy to others, no more */
        return;
    }
    snib__mq_step_asks(z, k, snib__after(now, z->request));
    snib__amqp_put_plain(snib__mq_out(z), k->channel.number,
                         SNIB__AMQP_CONFIRM);
    orphan_free(z, k, r->id);
    if (r->verb == SNIB__CANCEL && r->token) {
        orphan_free(z, k, r->prior_id);
    }
    snib__mq_channel_asks(z, now, &k->channel, 2);
}

const struct mq_work snib__mq_orphan_work = {.begin = orphan_begin};
