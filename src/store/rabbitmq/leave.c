/* store/rabbitmq/leave.c — a message FREE for a request whose claim is no more: its
 * connection was cut, so what it held may lie in the queue as held by nobody, and who
 * comes next would wait for its lease. It says no more than the request's own end,
 * so it is true whenever it comes. */
#include "store/rabbitmq/rabbitmq_i.h"

static void leave_over(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    (void)now;
    snib__mq_chan_drop(z, now, &k->chan);
    k->ended = true;
    snib__mq_step_again(z, k);
}

static void leave_heard(struct snib__mq *z, snib_instant now,
                        struct mq_chan *chan, const struct mq_heard *heard)
{
    struct mq_step *k = snib__mq_step_of(chan);
    uint32_t id = heard->method ? heard->method->id : 0;
    if (heard->lost && !snib__mq_is_ready(&z->session)) {
        snib__mq_step_again(z, k); /* once more, on the next connection */
    } else if (heard->lost || id == SNIB__AMQP_ACK || id == SNIB__AMQP_NACK) {
        leave_over(z, now, k);
    }
}

static void leave_begin(struct snib__mq *z, snib_instant now,
                          struct mq_step *k)
{
    const struct snib__request *r = k->r;
    const struct mq_mark mark = {.kind = MQ_FREE,
                                 .id = {r->id[0], r->id[1]},
                                 .token = r->token > 0 ? r->token : 0};
    char queue[MQ_QUEUE_MAX];
    const struct snib__amqp_message to = {.queue = queue};
    snib__mq_queue(r->name, queue);
    if (!snib__mq_chan_open(z, now, &k->chan, leave_heard)) {
        k->ended = true; /* a courtesy to others, no more */
        return;
    }
    snib__mq_step_asks(z, k, snib__after(now, z->request));
    snib__amqp_put_plain(snib__mq_out(z), k->chan.number, SNIB__AMQP_CONFIRM);
    snib__mq_publish(z, &k->chan, &mark, NULL, 0, &to);
    snib__mq_chan_asks(z, now, &k->chan, 2);
}

const struct mq_work snib__mq_leave_work = {.begin = leave_begin};
