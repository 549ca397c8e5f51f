/* proto/amqp/amqp.c — frames and methods. Why by hand: docs/DECISIONS.md. */
#include <stdio.h>
#include <string.h>

#include "proto/amqp/wire.h"

/* The tags of consumers of answers, and of messages. */
#define AMQP_ANSWERS  "answers"
#define AMQP_CONSUMER "messages-"

enum { AMQP_END = 0xCE, AMQP_PERSISTENT = 2 };

/* -- frames -------------------------------------------------------------------- */

int snib__amqp_frame(const uint8_t *bytes, size_t size,
                     struct snib__amqp_frame *ret)
{
    struct snib__amqp_in in = {.at = bytes, .left = size};
    ret->type = (uint8_t)snib__amqp_get(&in, 1);
    ret->channel = (uint16_t)snib__amqp_get(&in, 2);
    ret->size = snib__amqp_get(&in, 4);
    bool known =
        ret->type == SNIB__AMQP_METHOD || ret->type == SNIB__AMQP_HEADER ||
        ret->type == SNIB__AMQP_BODY || ret->type == SNIB__AMQP_HEARTBEAT;
    if (size && !known) {
        return -1;
    }
    if (in.bad) {
        return 0;
    }
    ret->whole = ret->size + SNIB__AMQP_HEAD + 1;
    if (ret->size > SNIB__AMQP_FRAME_MAX - SNIB__AMQP_HEAD - 1) {
        return -1;
    }
    if (size < ret->whole) {
        return 0;
    }
    ret->bytes = in.at;
    return ret->bytes[ret->size] == AMQP_END ? 1 : -1;
}

static size_t amqp_begin_frame(struct snib__buf *b, uint8_t type,
                               uint16_t channel)
{
    snib__amqp_put(b, type, 1);
    snib__amqp_put(b, channel, 2);
    return snib__amqp_begin(b);
}

static void amqp_end_frame(struct snib__buf *b, size_t begun)
{
    snib__amqp_end(b, begun);
    snib__amqp_put(b, AMQP_END, 1);
}

static size_t amqp_begin_method(struct snib__buf *b, uint16_t channel,
                                uint32_t id)
{
    size_t begun = amqp_begin_frame(b, SNIB__AMQP_METHOD, channel);
    snib__amqp_put(b, id, 4);
    return begun;
}

/* -- reading ------------------------------------------------------------------- */

/* Which consumer of messages; 0: none that this client could have begun. */
static uint32_t amqp_consumer_of(const struct snib__amqp_bytes *tag)
{
    const size_t head = sizeof AMQP_CONSUMER - 1;
    uint32_t n = 0;
    if (tag->size <= head || memcmp(tag->bytes, AMQP_CONSUMER, head) != 0) {
        return 0;
    }
    for (size_t i = head; i < tag->size; i++) {
        unsigned digit = (unsigned)(uint8_t)tag->bytes[i] - '0';
        if (digit > 9 || n > (UINT32_MAX - digit) / 10) {
            return 0;
        }
        n = n * 10 + digit;
    }
    return n;
}

static void amqp_put_consumer(struct snib__buf *b, uint32_t consumer)
{
    char tag[sizeof AMQP_CONSUMER + 10];
    snprintf(tag, sizeof tag, AMQP_CONSUMER "%u", (unsigned)consumer);
    snib__amqp_put_short(b, consumer ? tag : AMQP_ANSWERS);
}

static void amqp_read_start(struct snib__amqp_in *in,
                            struct snib__amqp_method *ret)
{
    snib__amqp_get(in, 2); /* the protocol's version, 0-9 */
    struct snib__amqp_bytes server = snib__amqp_get_long(in);
    ret->text = snib__amqp_get_long(in);
    ret->product = snib__amqp_find(server, "product");
    ret->version = snib__amqp_find(server, "version");
}

bool snib__amqp_read_method(const struct snib__amqp_frame *frame,
                            struct snib__amqp_method *ret)
{
    struct snib__amqp_in in = {.at = frame->bytes, .left = frame->size};
    *ret = (struct snib__amqp_method){
        .text = {"", 0}, .product = {"", 0}, .version = {"", 0}};
    ret->id = (uint32_t)snib__amqp_get(&in, 4);
    switch (ret->id) {
    case SNIB__AMQP_START:
        amqp_read_start(&in, ret);
        break;
    case SNIB__AMQP_TUNE:
        ret->channel_max = (uint16_t)snib__amqp_get(&in, 2);
        ret->frame_max = (uint32_t)snib__amqp_get(&in, 4);
        ret->heartbeat_s = (uint16_t)snib__amqp_get(&in, 2);
        break;
    case SNIB__AMQP_CLOSE:
    case SNIB__AMQP_CHANNEL_CLOSE:
    case SNIB__AMQP_RETURN:
        ret->code = (uint16_t)snib__amqp_get(&in, 2);
        ret->text = snib__amqp_get_short(&in);
        break;
    case SNIB__AMQP_BLOCKED:
        ret->text = snib__amqp_get_short(&in);
        break;
    case SNIB__AMQP_DECLARE_OK:
        snib__amqp_get_short(&in);
        ret->messages = (uint32_t)snib__amqp_get(&in, 4);
        ret->consumers = (uint32_t)snib__amqp_get(&in, 4);
        break;
    case SNIB__AMQP_DELIVER: {
        struct snib__amqp_bytes to = snib__amqp_get_short(&in);
        ret->answers = to.size == sizeof AMQP_ANSWERS - 1 &&
                       !memcmp(to.bytes, AMQP_ANSWERS, to.size);
        ret->consumer = amqp_consumer_of(&to);
        ret->tag = snib__amqp_get(&in, 8);
        break;
    }
    case SNIB__AMQP_ACK:
    case SNIB__AMQP_NACK:
        ret->tag = snib__amqp_get(&in, 8);
        break;
    default:
        break; /* nothing of it matters */
    }
    return !in.bad;
}

void snib__amqp_text(struct snib__amqp_bytes from, char *ret, size_t size)
{
    size_t n = from.size < size ? from.size : size - 1;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)from.bytes[i];
        ret[i] = (char)(c < 0x20 ? ' ' : c < 0x7f ? c : '?');
    }
    ret[n] = 0;
}

/* The properties stand in the order of their bits, the highest first. */
static void amqp_read_properties(struct snib__amqp_in *in,
                                 struct snib__amqp_content *ret)
{
    enum { TYPE, ENCODING, HEADERS, MODE, PRIORITY, CORRELATION, REPLY, KNOWN };
    uint64_t flags = snib__amqp_get(in, 2);
    for (int i = 0; i < KNOWN; i++) {
        if (!(flags & (UINT64_C(1) << (15 - i)))) {
            continue;
        }
        if (i == HEADERS) {
            snib__amqp_get_long(in);
        } else if (i == MODE || i == PRIORITY) {
            snib__amqp_get(in, 1);
        } else if (i == REPLY) {
            ret->reply_to = snib__amqp_get_short(in);
        } else {
            snib__amqp_get_short(in);
        }
    }
}

bool snib__amqp_read_header(const struct snib__amqp_frame *frame,
                            struct snib__amqp_content *ret)
{
    struct snib__amqp_in in = {.at = frame->bytes, .left = frame->size};
    *ret = (struct snib__amqp_content){.reply_to = {"", 0}};
    snib__amqp_get(&in, 4); /* the class, and a weight that is not used */
    ret->size = snib__amqp_get(&in, 8);
    amqp_read_properties(&in, ret);
    return !in.bad;
}

/* -- writing ------------------------------------------------------------------- */

void snib__amqp_put_protocol(struct snib__buf *b)
{
    snib__buf_add(b, "AMQP\0\0\x09\x01", 8);
}

void snib__amqp_put_heartbeat(struct snib__buf *b)
{
    amqp_end_frame(b, amqp_begin_frame(b, SNIB__AMQP_HEARTBEAT, 0));
}

void snib__amqp_put_start_ok(struct snib__buf *b, const char *user,
                             const char *password)
{
    size_t method = amqp_begin_method(b, 0, SNIB__AMQP_START_OK);
    size_t table = snib__amqp_begin(b);
    snib__amqp_put_text(b, "product", "snib");
    snib__amqp_put_short(b, "capabilities");
    snib__buf_add(b, "F", 1);
    size_t inner = snib__amqp_begin(b);
    snib__amqp_put_flag(b, "authentication_failure_close");
    snib__amqp_put_flag(b, "consumer_cancel_notify");
    snib__amqp_put_flag(b, "connection.blocked");
    snib__amqp_put_flag(b, "publisher_confirms");
    snib__amqp_end(b, inner);
    snib__amqp_end(b, table);
    snib__amqp_put_short(b, "PLAIN");
    size_t secret = snib__amqp_begin(b);
    snib__amqp_put(b, 0, 1);
    snib__buf_puts(b, user);
    snib__amqp_put(b, 0, 1);
    snib__buf_puts(b, password);
    snib__amqp_end(b, secret);
    snib__amqp_put_short(b, "en_US");
    amqp_end_frame(b, method);
}

void snib__amqp_put_tune_ok(struct snib__buf *b, uint16_t channel_max,
                            uint32_t frame_max, uint16_t heartbeat_s)
{
    size_t method = amqp_begin_method(b, 0, SNIB__AMQP_TUNE_OK);
    snib__amqp_put(b, channel_max, 2);
    snib__amqp_put(b, frame_max, 4);
    snib__amqp_put(b, heartbeat_s, 2);
    amqp_end_frame(b, method);
}

void snib__amqp_put_open(struct snib__buf *b, const char *vhost)
{
    size_t method = amqp_begin_method(b, 0, SNIB__AMQP_OPEN);
    snib__amqp_put_short(b, vhost);
    snib__amqp_put(b, 0, 2); /* two fields that are reserved */
    amqp_end_frame(b, method);
}

void snib__amqp_put_plain(struct snib__buf *b, uint16_t channel, uint32_t id)
{
    size_t method = amqp_begin_method(b, channel, id);
    if (id == SNIB__AMQP_CHANNEL_CLOSE || id == SNIB__AMQP_CLOSE) {
        snib__amqp_put(b, 200, 2); /* code: all is well */
        snib__amqp_put(b, 0, 5);   /* no text; no method that was at fault */
    } else if (id == SNIB__AMQP_CHANNEL_OPEN || id == SNIB__AMQP_CONFIRM) {
        snib__amqp_put(b, 0, 1);
    }
    amqp_end_frame(b, method);
}

void snib__amqp_put_declare(struct snib__buf *b, uint16_t channel,
                            const struct snib__amqp_queue *q)
{
    enum { PASSIVE = 1, DURABLE = 2, EXCLUSIVE = 4, AUTO_DELETE = 8 };
    size_t method = amqp_begin_method(b, channel, SNIB__AMQP_DECLARE);
    snib__amqp_put(b, 0, 2);
    snib__amqp_put_short(b, q->name);
    snib__amqp_put(b,
                   q->passive   ? PASSIVE
                   : q->our_own ? EXCLUSIVE | AUTO_DELETE
                                : DURABLE,
                   1);
    size_t table = snib__amqp_begin(b);
    if (q->quorum) {
        snib__amqp_put_text(b, "x-queue-type", "quorum");
    }
    if (q->single_consumer) {
        snib__amqp_put_flag(b, "x-single-active-consumer");
    }
    if (q->expires_ms) {
        snib__amqp_put_number(b, "x-expires", q->expires_ms);
    }
    if (q->delivery_limit) {
        snib__amqp_put_number(b, "x-delivery-limit", q->delivery_limit);
    }
    if (q->length_max) {
        snib__amqp_put_number(b, "x-max-length", q->length_max);
        snib__amqp_put_text(b, "x-overflow", "reject-publish");
    }
    if (q->dead_letter_to) {
        snib__amqp_put_text(b, "x-dead-letter-exchange", "");
        snib__amqp_put_text(b, "x-dead-letter-routing-key", q->dead_letter_to);
    }
    snib__amqp_end(b, table);
    amqp_end_frame(b, method);
}

void snib__amqp_put_bind(struct snib__buf *b, uint16_t channel,
                         const char *queue)
{
    size_t method = amqp_begin_method(b, channel, SNIB__AMQP_BIND);
    snib__amqp_put(b, 0, 2);
    snib__amqp_put_short(b, queue);
    snib__amqp_put_short(b, SNIB__AMQP_ALL);
    snib__amqp_put_short(b, "");
    snib__amqp_put(b, 0, 1);
    snib__amqp_end(b, snib__amqp_begin(b));
    amqp_end_frame(b, method);
}

void snib__amqp_put_consume(struct snib__buf *b, uint16_t channel,
                            const char *queue, uint32_t consumer)
{
    enum { NO_ACK = 2 };
    size_t method = amqp_begin_method(b, channel, SNIB__AMQP_CONSUME);
    snib__amqp_put(b, 0, 2);
    snib__amqp_put_short(b, queue);
    amqp_put_consumer(b, consumer);
    snib__amqp_put(b, consumer ? 0 : NO_ACK, 1);
    snib__amqp_end(b, snib__amqp_begin(b));
    amqp_end_frame(b, method);
}

void snib__amqp_put_cancel(struct snib__buf *b, uint16_t channel,
                           uint32_t consumer)
{
    size_t method = amqp_begin_method(b, channel, SNIB__AMQP_CANCEL);
    amqp_put_consumer(b, consumer);
    snib__amqp_put(b, 0, 1);
    amqp_end_frame(b, method);
}

void snib__amqp_put_qos(struct snib__buf *b, uint16_t channel, uint16_t count)
{
    size_t method = amqp_begin_method(b, channel, SNIB__AMQP_QOS);
    snib__amqp_put(b, 0, 4); /* their bytes are not bounded */
    snib__amqp_put(b, count, 2);
    snib__amqp_put(b, 0, 1);
    amqp_end_frame(b, method);
}

void snib__amqp_put_ack(struct snib__buf *b, uint16_t channel, uint64_t tag,
                        bool and_all_before)
{
    size_t method = amqp_begin_method(b, channel, SNIB__AMQP_ACK);
    snib__amqp_put(b, tag, 8);
    snib__amqp_put(b, and_all_before, 1);
    amqp_end_frame(b, method);
}

static void amqp_put_properties(struct snib__buf *b,
                                const struct snib__amqp_message *m)
{
    enum { MODE = 1 << 12, REPLY = 1 << 9, EXPIRATION = 1 << 8 };
    char expires[24];
    snib__amqp_put(b,
                   (uint64_t)(MODE | (m->reply_to ? REPLY : 0) |
                              (m->expires_ms ? EXPIRATION : 0)),
                   2);
    snib__amqp_put(b, AMQP_PERSISTENT, 1);
    if (m->reply_to) {
        snib__amqp_put_short(b, m->reply_to);
    }
    if (m->expires_ms) {
        snprintf(expires, sizeof expires, "%lld", (long long)m->expires_ms);
        snib__amqp_put_short(b, expires);
    }
}

void snib__amqp_put_publish(struct snib__buf *b, uint16_t channel,
                            const struct snib__amqp_message *m)
{
    enum { MANDATORY = 1 };
    size_t method = amqp_begin_method(b, channel, SNIB__AMQP_PUBLISH);
    snib__amqp_put(b, 0, 2);
    snib__amqp_put_short(b, *m->queue ? "" : SNIB__AMQP_ALL);
    snib__amqp_put_short(b, m->queue);
    snib__amqp_put(b, m->may_vanish ? 0 : MANDATORY, 1);
    amqp_end_frame(b, method);
    size_t header = amqp_begin_frame(b, SNIB__AMQP_HEADER, channel);
    snib__amqp_put(b, SNIB__AMQP_PUBLISH & 0xFFFF0000, 4);
    snib__amqp_put(b, m->size, 8);
    amqp_put_properties(b, m);
    amqp_end_frame(b, header);
    size_t body = amqp_begin_frame(b, SNIB__AMQP_BODY, channel);
    snib__buf_add(b, m->bytes, m->size);
    amqp_end_frame(b, body);
}
