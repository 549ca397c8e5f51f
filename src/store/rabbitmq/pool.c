/* store/rabbitmq/pool.c — channels that are open and nobody's, for the next lean
 * claim (lean.c): to open and close one costs a broker more than all else in a
 * section.
 *
 * They are in the table of channels under their numbers, so that they hear their own
 * end, and are left then. Nothing consumes on them, and no answer is due.
 *
 * None lives for long: the end of a consumer that was lost on its way to a queue's new
 * leader is made good by the end of its channel. Until then the queue has a consumer
 * that is not there. */
#include "store/rabbitmq/rabbitmq_i.h"

enum { POOL_LIVES_MS = 60000, POOL_SECTIONS_MOST = 1000 };

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

static snib_instant pool_until(const struct mq_channel *channel)
{
    return snib__after(channel->opened, snib__ms(POOL_LIVES_MS));
}

static bool pool_keeps(snib_instant now, const struct mq_channel *channel)
{
    return !channel->due && !channel->closing &&
           channel->consumer < POOL_SECTIONS_MOST &&
           !snib__reached(now, pool_until(channel));
}

void snib__mq_pool_put(struct snib__mq *z, snib_instant now,
                       struct mq_channel *channel)
{
    for (int i = 0; i < MQ_POOL && pool_keeps(now, channel); i++) {
        if (!z->pool[i].number) {
            pool_move(z, channel, &z->pool[i], pool_heard);
            return;
        }
    }
}

snib_instant snib__mq_pool_due(const struct snib__mq *z)
{
    snib_instant due = SNIB__NEVER;
    for (int i = 0; i < MQ_POOL; i++) {
        if (z->pool[i].number) {
            due = snib__sooner(due, pool_until(&z->pool[i]));
        }
    }
    return due;
}

void snib__mq_pool_tick(struct snib__mq *z, snib_instant now)
{
    for (int i = 0; i < MQ_POOL; i++) {
        if (z->pool[i].number && snib__reached(now, pool_until(&z->pool[i]))) {
            snib__mq_channel_drop(z, now, &z->pool[i]);
        }
    }
}
