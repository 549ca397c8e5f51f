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
    uint64_t published[MODEL_CHANNELS];
    /* Of the lock's queue: those that consume, in their order. */
    int consumer[8];
    int consumers;
    int first_to_consume;     /* before the next one; 0: nobody */
    char queue[MQ_QUEUE_MAX]; /* "": there is none */
    int declared, asked_who, refuse_login, refuse_vhost, close_declare;
    bool greeted, deaf; /* deaf: what is published is lost */
    /* A message that is being published. */
    int to_chan;
    char to[MQ_QUEUE_MAX];
    int64_t to_expires;
} model;

static struct snib__buf model_out;

static void model_begin(void)
{
    memset(&model, 0, sizeof model);
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

/* -- the queue ------------------------------------------------------------------ */

static void model_send(struct model_message *m, int chan)
{
    size_t n = strlen(m->text), begun;
    m->tag = ++model.tags[chan];
    begun = model_method(chan, SNIB__AMQP_DELIVER);
    snib__amqp_put_short(&model_out, "messages");
    snib__amqp_put(&model_out, m->tag, 8);
    snib__amqp_put(&model_out, 0, 1);
    snib__amqp_put_short(&model_out, "");
    snib__amqp_put_short(&model_out, m->queue);
    model_end(begun);
    begun = model_frame(SNIB__AMQP_HEADER, chan);
    snib__amqp_put(&model_out, 60 << 16, 4);
    snib__amqp_put(&model_out, n, 8);
    snib__amqp_put(&model_out, 0, 2);
    model_end(begun);
    begun = model_frame(SNIB__AMQP_BODY, chan);
    snib__buf_add(&model_out, m->text, n);
    model_end(begun);
}

/* All that is ready goes to the first consumer, the oldest first. */
static void model_deliver(void)
{
    while (model.consumers) {
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

/* The end of a channel: one step. */
static void model_leave(int chan)
{
    int kept = 0;
    for (int i = 0; i < model.consumers; i++) {
        if (model.consumer[i] != chan) {
            model.consumer[kept++] = model.consumer[i];
        }
    }
    model.consumers = kept;
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
        model.published[i] = model.tags[i] = 0;
        model_leave(i);
    }
    model.greeted = false;
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

/* -- what the store sends --------------------------------------------------------- */

static void model_text(struct snib__amqp_bytes from, char ret[MQ_QUEUE_MAX])
{
    snprintf(ret, MQ_QUEUE_MAX, "%.*s", (int)from.size, from.bytes);
}

static void model_declare(int chan, struct snib__amqp_in *in)
{
    char queue[MQ_QUEUE_MAX];
    snib__amqp_get(in, 2);
    model_text(snib__amqp_get_short(in), queue);
    bool passive = snib__amqp_get(in, 1) & 1;
    bool lock = !strncmp(queue, "snib.l.", 7);
    if (model.close_declare) {
        model_close(chan, SNIB__AMQP_CHANNEL_CLOSE, model.close_declare,
                    "as the test says");
        model.open[chan] = false;
        return;
    }
    if (passive && strcmp(queue, model.queue) != 0) {
        model_close(chan, SNIB__AMQP_CHANNEL_CLOSE, 404, "no queue");
        model.open[chan] = false;
        return;
    }
    if (lock) {
        model.declared++;
        memcpy(model.queue, queue, sizeof queue);
    }
    size_t begun = model_method(chan, SNIB__AMQP_DECLARE_OK);
    snib__amqp_put_short(&model_out, queue);
    snib__amqp_put(&model_out, lock ? (uint64_t)model_ready() : 0, 4);
    snib__amqp_put(&model_out, lock && model.consumers, 4);
    model_end(begun);
}

static void model_asks(int chan, uint32_t id, struct snib__amqp_in *in)
{
    char name[MQ_QUEUE_MAX];
    switch (id) {
    case SNIB__AMQP_START_OK:
        if (model.refuse_login) {
            model_close(0, SNIB__AMQP_CLOSE, 403, "ACCESS_REFUSED");
            return;
        }
        size_t begun = model_method(0, SNIB__AMQP_TUNE);
        snib__amqp_put(&model_out, MODEL_CHANNELS - 1, 2);
        snib__amqp_put(&model_out, SNIB__AMQP_FRAME_MAX, 4);
        snib__amqp_put(&model_out, 60, 2);
        model_end(begun);
        break;
    case SNIB__AMQP_OPEN:
        if (model.refuse_vhost) {
            model_close(0, SNIB__AMQP_CLOSE, 530, "NOT_ALLOWED");
            return;
        }
        model_say(0, SNIB__AMQP_OPEN_OK);
        break;
    case SNIB__AMQP_CHANNEL_OPEN:
        assert_false(model.open[chan]);
        model.open[chan] = true;
        model.confirms[chan] = false;
        model.tags[chan] = model.published[chan] = 0;
        model_say(chan, SNIB__AMQP_CHANNEL_OPEN_OK);
        break;
    case SNIB__AMQP_CHANNEL_CLOSE:
        model.open[chan] = false;
        model_say(chan, SNIB__AMQP_CHANNEL_CLOSE_OK);
        model_leave(chan);
        break;
    case SNIB__AMQP_CONFIRM:
        model.confirms[chan] = true;
        model_say(chan, SNIB__AMQP_CONFIRM_OK);
        break;
    case SNIB__AMQP_DECLARE:
        model_declare(chan, in);
        break;
    case SNIB__AMQP_BIND:
        model_say(chan, SNIB__AMQP_BIND_OK);
        break;
    case SNIB__AMQP_CONSUME:
        snib__amqp_get(in, 2);
        model_text(snib__amqp_get_short(in), name);
        model_say(chan, SNIB__AMQP_CONSUME_OK);
        if (*name && !strcmp(name, model.queue)) {
            model_consume(chan);
        }
        break;
    case SNIB__AMQP_ACK: {
        uint64_t tag = snib__amqp_get(in, 8);
        bool known = false;
        for (int i = 0; i < MODEL_MESSAGES; i++) {
            struct model_message *m = &model.message[i];
            if (m->there && m->chan == chan && m->tag == tag) {
                m->there = false;
                m->chan = 0;
                known = true;
            }
        }
        assert_true(known); /* RabbitMQ closes the channel */
        break;
    }
    case SNIB__AMQP_PUBLISH:
        snib__amqp_get(in, 2);
        model_text(snib__amqp_get_short(in), name);
        model_text(snib__amqp_get_short(in), model.to);
        model.to_chan = chan;
        model.asked_who += !strcmp(name, SNIB__AMQP_ALL);
        break;
    default:
        break; /* TUNE_OK, the OK of a close */
    }
}

static void model_published(const struct snib__amqp_frame *frame)
{
    char text[MQ_MESSAGE_MAX + 1];
    int chan = model.to_chan;
    snprintf(text, sizeof text, "%.*s", (int)frame->size,
             (const char *)frame->bytes);
    if (!strncmp(model.to, "snib.", 5) && !model.deaf) {
        model_put(model.to, text, model.to_expires);
    }
    if (model.confirms[chan] && !model.deaf) {
        size_t begun = model_method(chan, SNIB__AMQP_ACK);
        snib__amqp_put(&model_out, ++model.published[chan], 8);
        snib__amqp_put(&model_out, 0, 1);
        model_end(begun);
    }
}

/* Takes one frame; returns its size, 0: there is none. */
static size_t model_hears(const uint8_t *bytes, size_t size)
{
    struct snib__amqp_frame frame;
    if (!model.greeted && size >= 8) {
        model.greeted = true;
        assert_memory_equal(bytes, "AMQP\0\0\x09\x01", 8);
        size_t begun = model_method(0, SNIB__AMQP_START);
        snib__amqp_put(&model_out, 9, 2);
        size_t table = snib__amqp_begin(&model_out);
        snib__amqp_put_flag(&model_out, "odd");
        snib__amqp_put_text(&model_out, "product", "RabbitMQ");
        snib__amqp_put_text(&model_out, "version", "3.10.8");
        snib__amqp_end(&model_out, table);
        size_t words = snib__amqp_begin(&model_out);
        snib__buf_puts(&model_out, "AMQPLAIN PLAIN");
        snib__amqp_end(&model_out, words);
        snib__amqp_end(&model_out, snib__amqp_begin(&model_out));
        model_end(begun);
        return 8;
    }
    if (snib__amqp_frame(bytes, size, &frame) != 1) {
        return 0;
    }
    struct snib__amqp_in in = {.at = frame.bytes, .left = frame.size};
    if (frame.type == SNIB__AMQP_METHOD) {
        uint32_t id = (uint32_t)snib__amqp_get(&in, 4);
        model_asks(frame.channel, id, &in);
    } else if (frame.type == SNIB__AMQP_HEADER) {
        snib__amqp_get(&in, 12);
        uint64_t flags = snib__amqp_get(&in, 2);
        snib__amqp_get(&in, 1);
        if (flags & (1 << 9)) {
            snib__amqp_get_short(&in);
        }
        struct snib__amqp_bytes expires = {"0", 1};
        if (flags & (1 << 8)) {
            expires = snib__amqp_get_short(&in);
        }
        model.to_expires = strtoll(expires.bytes, NULL, 10);
    } else if (frame.type == SNIB__AMQP_BODY) {
        model_published(&frame);
    }
    return frame.whole;
}

#endif
