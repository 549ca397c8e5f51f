/* tests/unit/rabbitmq_broker.h — how the model of RabbitMQ (rabbitmq_model.h) takes what
 * the store sends: logins, queues and how they are declared, consumers, messages and
 * where they go. */
#ifndef RABBITMQ_BROKER_H
#define RABBITMQ_BROKER_H

#include "rabbitmq_model.h"

/* -- what the store sends --------------------------------------------------------- */

static void model_text(struct snib__amqp_bytes from, char ret[MQ_QUEUE_MAX])
{
    snprintf(ret, MQ_QUEUE_MAX, "%.*s", (int)from.size, from.bytes);
}

static bool model_is(const char *name, const char *kinds)
{
    return !strncmp(name, "snib.", 5) && strchr(kinds, name[5]) &&
           name[6] == '.';
}

/* How a queue of this name is to be declared: else a broker refuses it where it is
 * there already, and keeps less than it must where it is not. */
static void model_check_queue(const char *name, uint64_t flags,
                              struct snib__amqp_bytes table)
{
    enum { DURABLE = 2, OUR_OWN = 4 | 8 }; /* exclusive, auto-delete */
    char lock[MQ_QUEUE_MAX];
    struct snib__buf row;
    snib__buf_init(&row, 4096);
    if (model_is(name, "wv")) {
        snprintf(lock, sizeof lock, "%s", name);
        lock[5] = name[5] == 'w' ? 'l' : 'h';
        snib__amqp_put_number(&row, "x-expires", 660000);
        snib__amqp_put_number(&row, "x-max-length", 8);
        snib__amqp_put_text(&row, "x-overflow", "reject-publish");
        snib__amqp_put_text(&row, "x-dead-letter-exchange", "");
        snib__amqp_put_text(&row, "x-dead-letter-routing-key", lock);
    } else if (!model_is(name, "c")) {
        snib__amqp_put_text(&row, "x-queue-type", "quorum");
        snib__amqp_put_flag(&row, "x-single-active-consumer");
        snib__amqp_put_number(&row, "x-expires",
                              model_is(name, "lh") ? 86400000 : 60000);
        snib__amqp_put_number(&row, "x-delivery-limit", 1000000);
    }
    assert_int_equal(flags, model_is(name, "c") ? OUR_OWN : DURABLE);
    assert_int_equal(table.size, snib__buf_size(&row));
    assert_int_equal(memcmp(table.bytes, snib__buf_bytes(&row), table.size), 0);
    snib__buf_free(&row);
}

static void model_declare(int chan, struct snib__amqp_in *in)
{
    char queue[MQ_QUEUE_MAX];
    snib__amqp_get(in, 2);
    model_text(snib__amqp_get_short(in), queue);
    uint64_t flags = snib__amqp_get(in, 1);
    bool lock = model_is(queue, "lh"), doctor = !strncmp(queue, "snib.d", 6);
    if (model.close_declare) {
        model_close(chan, SNIB__AMQP_CHANNEL_CLOSE, model.close_declare,
                    "as the test says");
        model.open[chan] = false;
        return;
    }
    if ((flags & 1) && strcmp(queue, model.queue) != 0) { /* passive */
        model_close(chan, SNIB__AMQP_CHANNEL_CLOSE, 404, "no queue");
        model.open[chan] = false;
        return;
    }
    if (!(flags & 1)) {
        model_check_queue(queue, flags, snib__amqp_get_long(in));
    }
    if (lock || doctor) {
        model.declared++;
        memcpy(model.queue, queue, sizeof queue);
    }
    size_t begun = model_method(chan, SNIB__AMQP_DECLARE_OK);
    snib__amqp_put_short(&model_out, queue);
    snib__amqp_put(&model_out, lock ? (uint64_t)model_ready() : 0, 4);
    snib__amqp_put(&model_out, lock && model.consumers, 4);
    model_end(begun);
}

static void model_tunes(void)
{
    if (model.refuse_login) {
        model_close(0, SNIB__AMQP_CLOSE, 403, "ACCESS_REFUSED");
        return;
    }
    size_t begun = model_method(0, SNIB__AMQP_TUNE);
    snib__amqp_put(&model_out, model.wishes.channels, 2);
    snib__amqp_put(&model_out, model.wishes.frame, 4);
    snib__amqp_put(&model_out, model.wishes.heartbeat_s, 2);
    model_end(begun);
}

static bool model_has_consumer(int chan)
{
    for (int i = 0; i < model.consumers; i++) {
        if (model.consumer[i] == chan) {
            return true;
        }
    }
    return false;
}

/* A broker may do once more what it was told of a consumer before: so no two on a
 * channel have one tag. */
static void model_tagged(int chan, struct snib__amqp_bytes tag)
{
    char text[MQ_QUEUE_MAX];
    unsigned n;
    model_text(tag, text);
    if (strcmp(text, "answers") != 0) {
        assert_int_equal(sscanf(text, "messages-%u", &n), 1);
        assert_true(n > model.consumed[chan]);
        model.consumed[chan] = n;
    }
}

static void model_consumes(int chan, struct snib__amqp_in *in)
{
    char of[MQ_QUEUE_MAX];
    snib__amqp_get(in, 2);
    model_text(snib__amqp_get_short(in), of);
    model_tagged(chan, snib__amqp_get_short(in));
    if (model_is(of, "lh") && strcmp(of, model.queue) != 0) {
        model_close(chan, SNIB__AMQP_CHANNEL_CLOSE, 404, "no queue");
        model.open[chan] = false;
        return;
    }
    assert_false(model_is(of, "lh") && model_has_consumer(chan));
    model_say(chan, SNIB__AMQP_CONSUME_OK);
    if (!strcmp(of, SNIB__AMQP_REPLIES)) {
        assert_false(model.hears[chan]); /* RabbitMQ closes the connection */
        model.hears[chan] = true;
    } else if (model_is(of, "c")) {
        model.own = chan;
    } else if (*of && !strcmp(of, model.queue)) {
        if (model.late_answer) {
            model_passes(chan, NULL, model.late_answer);
        }
        model_consume(chan);
    }
}

static void model_acked(int chan, uint64_t tag, bool and_all_before)
{
    bool known = false;
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        struct model_message *m = &model.message[i];
        if (m->there && m->chan == chan &&
            (m->tag == tag || (and_all_before && m->tag < tag))) {
            m->there = false;
            m->chan = 0;
            known = true;
        }
    }
    assert_true(known); /* RabbitMQ closes the channel */
    model_deliver();
}

static void model_acks(int chan, struct snib__amqp_in *in)
{
    uint64_t tag = snib__amqp_get(in, 8);
    model_acked(chan, tag, snib__amqp_get(in, 1));
}

static void model_bounds(int chan, struct snib__amqp_in *in)
{
    assert_int_equal(snib__amqp_get(in, 4), 0);
    model.credit[chan] = (int)snib__amqp_get(in, 2);
    assert_int_equal(snib__amqp_get(in, 1), 0);
    model_say(chan, SNIB__AMQP_QOS_OK);
}

static void model_cancels(int chan, struct snib__amqp_in *in)
{
    char tag[MQ_QUEUE_MAX], its[32];
    model_text(snib__amqp_get_short(in), tag);
    snprintf(its, sizeof its, "messages-%u", model.consumed[chan]);
    assert_string_equal(tag, its);
    assert_true(model_has_consumer(chan));
    model.left_ready = model_ready();
    model_cancel(chan);
    if (!model.late_cancels) {
        model_say(chan, SNIB__AMQP_CANCEL_OK);
    }
}

static void model_asks(int chan, uint32_t id, struct snib__amqp_in *in)
{
    char exchange[MQ_QUEUE_MAX];
    model.to_chan = 0;
    if (chan && !model.open[chan] && id != SNIB__AMQP_CHANNEL_OPEN) {
        return; /* the broker has closed it */
    }
    switch (id) {
    case SNIB__AMQP_START_OK:
        model_tunes();
        break;
    case SNIB__AMQP_TUNE_OK:
        model.agreed.channels = snib__amqp_get(in, 2);
        model.agreed.frame = snib__amqp_get(in, 4);
        model.agreed.heartbeat_s = snib__amqp_get(in, 2);
        break;
    case SNIB__AMQP_OPEN:
        if (model.refuse_vhost) {
            model_close(0, SNIB__AMQP_CLOSE, 530, "NOT_ALLOWED");
            return;
        }
        model.entered = true;
        model_say(0, SNIB__AMQP_OPEN_OK);
        break;
    case SNIB__AMQP_CHANNEL_OPEN:
        assert_false(model.open[chan]);
        model.open[chan] = true;
        model.opened++;
        model.credit[chan] = 0;
        model.consumed[chan] = 0;
        model.drops[chan] = false;
        model.confirms[chan] = model.hears[chan] = false;
        model.tags[chan] = model.published[chan] = 0;
        model_say(chan, SNIB__AMQP_CHANNEL_OPEN_OK);
        break;
    case SNIB__AMQP_CHANNEL_CLOSE:
        if (!model.late_ends) {
            model.open[chan] = false;
            model_say(chan, SNIB__AMQP_CHANNEL_CLOSE_OK);
        }
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
        model_consumes(chan, in);
        break;
    case SNIB__AMQP_ACK:
        model_acks(chan, in);
        break;
    case SNIB__AMQP_QOS:
        model_bounds(chan, in);
        break;
    case SNIB__AMQP_CANCEL:
        model_cancels(chan, in);
        break;
    case SNIB__AMQP_PUBLISH:
        snib__amqp_get(in, 2);
        model_text(snib__amqp_get_short(in), exchange);
        model_text(snib__amqp_get_short(in), model.to);
        model.to_chan = chan;
        model.to_all = !strcmp(exchange, SNIB__AMQP_ALL);
        model.asked_who += model.to_all;
        break;
    default:
        break; /* the OK of a close */
    }
}

/* No queue takes it: it comes back, and says so. */
static void model_return(int chan, const char *text)
{
    size_t begun = model_method(chan, SNIB__AMQP_RETURN);
    snib__amqp_put(&model_out, 312, 2);
    snib__amqp_put_short(&model_out, "NO_ROUTE");
    snib__amqp_put_short(&model_out, "");
    snib__amqp_put_short(&model_out, model.to);
    model_end(begun);
    model_content(chan, NULL, text, strlen(text));
}

static void model_route(int chan, const char *text)
{
    char reply_to[64];
    int to;
    if (model.to_all) {
        model.asks = chan;
        snprintf(reply_to, sizeof reply_to, SNIB__AMQP_REPLIES ".g%d", chan);
        if (model.own) {
            model_passes(model.own, reply_to, text);
        }
    } else if (sscanf(model.to, SNIB__AMQP_REPLIES ".g%d", &to) == 1) {
        if (to > 0 && to < MODEL_CHANNELS && model.hears[to]) {
            model_passes(to, NULL, text);
        }
    } else if (model.returns) {
        model_return(chan, text);
    } else if (!strncmp(model.to, "snib.", 5)) {
        model_put(model.to, text, model.to_expires);
    }
}

static void model_confirm(int chan)
{
    size_t begun = model_method(chan, SNIB__AMQP_ACK);
    snib__amqp_put(&model_out, model.published[chan], 8);
    snib__amqp_put(&model_out, 1, 1);
    model_end(begun);
}

static void model_published(const struct snib__amqp_frame *frame)
{
    char text[MQ_MESSAGE_MAX + 1];
    int chan = model.to_chan;
    if (model.deaf || !chan || model.drops[chan]) {
        return;
    }
    snprintf(text, sizeof text, "%.*s", (int)frame->size,
             (const char *)frame->bytes);
    model_route(chan, text);
    model.published[chan] += model.confirms[chan];
    if (model.confirms[chan] && !model.unconfirmed) {
        model_confirm(chan);
    }
}

static void model_starts(void)
{
    size_t begun = model_method(0, SNIB__AMQP_START);
    snib__amqp_put(&model_out, 9, 2);
    size_t table = snib__amqp_begin(&model_out);
    snib__amqp_put_flag(&model_out, "odd");
    snib__amqp_put_text(&model_out, "product", model.product);
    snib__amqp_put_text(&model_out, "version", model.version);
    snib__amqp_end(&model_out, table);
    size_t words = snib__amqp_begin(&model_out);
    snib__buf_puts(&model_out, model.mechanisms);
    snib__amqp_end(&model_out, words);
    snib__amqp_end(&model_out, snib__amqp_begin(&model_out));
    model_end(begun);
}

/* All messages are to be kept on disk. */
static void model_header(struct snib__amqp_in *in)
{
    enum { MODE = 1 << 12, REPLY = 1 << 9, EXPIRATION = 1 << 8 };
    struct snib__amqp_bytes expires = {"0", 1};
    snib__amqp_get(in, 12);
    uint64_t flags = snib__amqp_get(in, 2);
    assert_true(flags & MODE);
    assert_int_equal(snib__amqp_get(in, 1), 2);
    if (flags & REPLY) {
        assert_true(model.hears[model.to_chan]);
        snib__amqp_get_short(in);
    }
    if (flags & EXPIRATION) {
        expires = snib__amqp_get_short(in);
    }
    model.to_expires = strtoll(expires.bytes, NULL, 10);
}

/* Takes one frame; returns its size, 0: there is none. */
static size_t model_hears(const uint8_t *bytes, size_t size)
{
    struct snib__amqp_frame frame;
    if (!model.greeted && size >= 8) {
        model.greeted = true;
        assert_memory_equal(bytes, "AMQP\0\0\x09\x01", 8);
        model_starts();
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
        model_header(&in);
    } else if (frame.type == SNIB__AMQP_BODY) {
        model_published(&frame);
    }
    return frame.whole;
}

#endif
