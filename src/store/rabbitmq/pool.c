/* store/rabbitmq/pool.c — channels that are open and nobody's, for the next lean
 * claim (lean.c): to open and close one costs a broker more than all else in a
 * section.
 *
 * They are in the table of channels under their numbers, so that they hear their own
 * end, and are left then. Nothing consumes on them, and no answer is due. */
#include "store/rabbitmq/rabbitmq_i.h"

/* Nothing is to come. What does is closed with its channel, and goes on so. */
static void pool_heard(struct snib__mq *z, snib_instant now,
                       struct mq_channel *channel, const struct mq_heard *heard)
{
    if (!heard->lost) {
        snib__mq_channel_drop(z, now, channel);
    }
}

static void pool_move(struct snib__mq *z, struct mq_channel *from,
                      struct mq_channel *to, mq_heard_fn *heard)
{
    *to = *from;
    to->heard = heard;
    z->channel[to->number] = to;
    from->number = 0;
}

bool snib__mq_pool_take(struct snib__mq *z, struct mq_channel *ret,
                        mq_heard_fn *heard)
{
    for (int i = 0; i < MQ_POOL; i++) {
        if (z->pool[i].number) {
            pool_move(z, &z->pool[i], ret, heard);
            return true;
        }
    }
    return false;
}

void snib__mq_pool_put(struct snib__mq *z, struct mq_channel *channel)
{
    for (int i = 0; i < MQ_POOL && !channel->due && !channel->closing; i++) {
        if (!z->pool[i].number) {
            pool_move(z, channel, &z->pool[i], pool_heard);
            return;
        }
    }
}
