/* tests/unit/rabbitmq_model.h — as much of RabbitMQ as the store uses: quorum queues
 * with a single active consumer, what is delivered and comes back in order, confirms,
 * refusals. One connection is the store's; what others do there the tests do by
 * hand. */
#ifndef RABBITMQ_MODEL_H
#define RABBITMQ_MODEL_H

#include "unit.h"

#include <stdlib.h>

#include "proto/amqp/wire.h"
#include "store/rabbitmq/rabbitmq_i.h"

enum { MODEL_MESSAGES = 64, MODEL_CHANNELS = 64, MODEL_OTHER = 1000 };

struct model_message {
    bool there;
    char queue[MQ_QUEUE_MAX], text[MQ_MESSAGE_MAX + 1];
    uint32_t order;
    int chan; /* it is delivered there; 0: it is ready */
    uint64_t tag;
    int64_t expires_ms;
};

static struct {
    struct model_message message[MODEL_MESSAGES];
    uint32_t orders;
    uint64_t tags[MODEL_CHANNELS];
    bool open[MODEL_CHANNELS], confirms[MODEL_CHANNELS];
    unsigned consumed[MODEL_CHANNELS]; /* the number of its last consumer */
    uint64_t published[MODEL_CHANNELS];
    /* Of the lock's queue: those that consume, in their order. */
    int consumer[8];
    int consumers;
    int credit
        [MODEL_CHANNELS];     /* messages without an end; 0: all (basic.qos) */
    int first_to_consume;     /* before the next one; 0: nobody */
    char queue[MQ_QUEUE_MAX]; /* "": there is none */
    int declared, opened, asked_who, refuse_login, refuse_vhost, close_declare;
    bool greeted, deaf; /* deaf: what is published is lost */
    bool unconfirmed;   /* what is published is confirmed later */
    bool drops
        [MODEL_CHANNELS]; /* … is lost, and so is all that comes behind it */
    /* What it says of itself; what it wishes, and what the client has said to
     * that; is the client in? */
    const char *product, *version, *mechanisms;
    struct model_tune {
        uint64_t channels, frame, heartbeat_s;
    } wishes, agreed;
    bool entered;
    bool slow;                  /* nothing is delivered */
    bool late_cancels;          /* the ends of consumers are not confirmed */
    int left_ready;             /* so much lay there when the last one went */
    bool late_ends;             /* the ends of channels are not confirmed */
    bool returns;               /* no queue takes what is published */
    const char *late_answer;    /* to a try, when it has begun to consume */
    int own;                    /* the channel on which the client is asked */
    int asks;                   /* the one that has asked last */
    bool hears[MODEL_CHANNELS]; /* answers */
    /* A message that is being published. */
    int to_chan;
    bool to_all;
    char to[MQ_QUEUE_MAX];
    int64_t to_expires;
} model;

static struct snib__buf model_out;

static void model_begin(void)
{
    memset(&model, 0, sizeof model);
    model.product = "RabbitMQ";
    model.version = "3.10.8";
    model.mechanisms = "AMQPLAIN PLAIN";
    model.wishes =
        (struct model_tune){MODEL_CHANNELS - 1, SNIB__AMQP_FRAME_MAX, 60};
    snib__buf_init(&model_out, 1 << 20);
}

/* -- frames ------------------------------------------------------------------- */

static size_t model_frame(int type, int channel)
{
    snib__amqp_put(&model_out, (uint64_t)type, 1);
    snib__amqp_put(&model_out, (uint64_t)channel, 2);
    return snib__amqp_begin(&model_out);
}

static void model_end(size_t begun)
{
    snib__amqp_end(&model_out, begun);
    snib__amqp_put(&model_out, 0xCE, 1);
}

static size_t model_method(int channel, uint32_t id)
{
    size_t begun = model_frame(SNIB__AMQP_METHOD, channel);
    snib__amqp_put(&model_out, id, 4);
    return begun;
}

static void model_say(int channel, uint32_t id)
{
    model_end(model_method(channel, id));
}

static void model_close(int channel, uint32_t id, int code, const char *text)
{
    size_t begun = model_method(channel, id);
    snib__amqp_put(&model_out, (uint64_t)code, 2);
    snib__amqp_put_short(&model_out, text);
    snib__amqp_put(&model_out, 0, 4);
    model_end(begun);
}

/* The content of a method: so many bytes are said to follow. */
static void model_content(int chan, const char *reply_to, const char *text,
                          size_t announced)
{
    size_t begun = model_frame(SNIB__AMQP_HEADER, chan);
    snib__amqp_put(&model_out, 60 << 16, 4);
    snib__amqp_put(&model_out, announced, 8);
    snib__amqp_put(&model_out, reply_to ? 1 << 9 : 0, 2);
    if (reply_to) {
        snib__amqp_put_short(&model_out, reply_to);
    }
    model_end(begun);
    begun = model_frame(SNIB__AMQP_BODY, chan);
    snib__buf_puts(&model_out, text);
    model_end(begun);
}

static uint64_t model_delivers(int chan, const char *consumer, const char *key)
{
    size_t begun = model_method(chan, SNIB__AMQP_DELIVER);
    snib__amqp_put_short(&model_out, consumer);
    snib__amqp_put(&model_out, ++model.tags[chan], 8);
    snib__amqp_put(&model_out, 0, 1);
    snib__amqp_put_short(&model_out, "");
    snib__amqp_put_short(&model_out, key);
    model_end(begun);
    return model.tags[chan];
}

/* A question to this client, or an answer to one of its own. */
static void model_passes(int chan, const char *reply_to, const char *text)
{
    (void)model_delivers(chan, "answers", "");
    model_content(chan, reply_to, text, strlen(text));
}

/* -- the queue ------------------------------------------------------------------ */

/* Is there room for one more? A consumer that was cancelled leaves none of its own. */
static bool model_takes(int chan)
{
    int n = 0;
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        n += model.message[i].there && model.message[i].chan == chan;
    }
    return chan >= MODEL_CHANNELS || !model.credit[chan] ||
           n < model.credit[chan];
}

static void model_send(struct model_message *m, int chan)
{
    char consumer[32];
    snprintf(consumer, sizeof consumer, "messages-%u", model.consumed[chan]);
    m->tag = model_delivers(chan, consumer, m->queue);
    model_content(chan, NULL, m->text, strlen(m->text));
}

/* All that is ready goes to the first consumer, the oldest first. */
static void model_deliver(void)
{
    while (model.consumers && !model.slow && model_takes(model.consumer[0])) {
        struct model_message *next = NULL;
        for (int i = 0; i < MODEL_MESSAGES; i++) {
            struct model_message *m = &model.message[i];
            if (m->there && !m->chan && !strcmp(m->queue, model.queue) &&
                (!next || m->order < next->order)) {
                next = m;
            }
        }
        if (!next) {
            return;
        }
        next->chan = model.consumer[0];
        if (next->chan < MODEL_OTHER) {
            model_send(next, next->chan);
        }
    }
}

static void model_put(const char *queue, const char *text, int64_t expires_ms)
{
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        struct model_message *m = &model.message[i];
        if (!m->there) {
            *m = (struct model_message){.there = true,
                                        .order = ++model.orders,
                                        .expires_ms = expires_ms};
            snprintf(m->queue, sizeof m->queue, "%s", queue);
            snprintf(m->text, sizeof m->text, "%s", text);
            model_deliver();
            return;
        }
    }
    fail_msg("the model is full");
}

static void model_consume(int chan)
{
    if (model.first_to_consume) {
        model.consumer[model.consumers++] = model.first_to_consume;
        model.first_to_consume = 0;
    }
    model.consumer[model.consumers++] = chan;
    model_deliver();
}

static void model_uncount(int chan)
{
    int kept = 0;
    for (int i = 0; i < model.consumers; i++) {
        if (model.consumer[i] != chan) {
            model.consumer[kept++] = model.consumer[i];
        }
    }
    model.consumers = kept;
}

/* The end of a consumer: what it was delivered stays with its channel. */
static void model_cancel(int chan)
{
    model_uncount(chan);
    model_deliver();
}

/* The end of a channel: one step. */
static void model_leave(int chan)
{
    model_uncount(chan);
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        if (model.message[i].chan == chan) {
            model.message[i].chan = 0;
        }
    }
    model_deliver();
}

/* The connection of the store is gone. */
static void model_cut(void)
{
    for (int i = 1; i < MODEL_CHANNELS; i++) {
        model.open[i] = false;
        model.confirms[i] = false;
        model.hears[i] = false;
        model.published[i] = model.tags[i] = 0;
        model_leave(i);
    }
    model.greeted = model.entered = false;
    model.own = 0;
    snib__buf_clear(&model_out);
}

/* How many messages of this kind lie there, delivered or not. */
static int model_count(const char *word)
{
    char head[32];
    int n = 0;
    snprintf(head, sizeof head, "snib1 %s ", word);
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        n += model.message[i].there &&
             !strncmp(model.message[i].text, head, strlen(head));
    }
    return n;
}

static int model_ready(void)
{
    int n = 0;
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        n += model.message[i].there && !model.message[i].chan &&
             !strcmp(model.message[i].queue, model.queue);
    }
    return n;
}

#endif
