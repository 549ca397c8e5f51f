/* proto/amqp/amqp.h — AMQP 0-9-1 as bytes: frames, and the methods that a store
 * needs. No I/O; what is read points into the bytes that were given.
 *
 * The numbers and layouts are those of the specification's section 4.2 and its
 * amqp0-9-1.xml, with RabbitMQ's additions (confirm, basic.nack,
 * connection.blocked). */
#ifndef SNIB__AMQP_H
#define SNIB__AMQP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    SNIB__AMQP_FRAME_MAX = 131072, /* we take no longer one */
    SNIB__AMQP_FRAME_LEAST = 4096, /* what each peer must take */
    SNIB__AMQP_SHORT = 255,
    SNIB__AMQP_HEAD = 7 /* of a frame; behind its payload stands one byte */
};

typedef enum snib__amqp_type {
    SNIB__AMQP_METHOD = 1,
    SNIB__AMQP_HEADER = 2,
    SNIB__AMQP_BODY = 3,
    SNIB__AMQP_HEARTBEAT = 8
} snib__amqp_type;

/* Class in the upper half, method in the lower one. */
typedef enum snib__amqp_id {
    SNIB__AMQP_START = 0x000A000A,
    SNIB__AMQP_START_OK = 0x000A000B,
    SNIB__AMQP_TUNE = 0x000A001E,
    SNIB__AMQP_TUNE_OK = 0x000A001F,
    SNIB__AMQP_OPEN = 0x000A0028,
    SNIB__AMQP_OPEN_OK = 0x000A0029,
    SNIB__AMQP_CLOSE = 0x000A0032,
    SNIB__AMQP_CLOSE_OK = 0x000A0033,
    SNIB__AMQP_BLOCKED = 0x000A003C,
    SNIB__AMQP_UNBLOCKED = 0x000A003D,
    SNIB__AMQP_CHANNEL_OPEN = 0x0014000A,
    SNIB__AMQP_CHANNEL_OPEN_OK = 0x0014000B,
    SNIB__AMQP_CHANNEL_CLOSE = 0x00140028,
    SNIB__AMQP_CHANNEL_CLOSE_OK = 0x00140029,
    SNIB__AMQP_DECLARE = 0x0032000A,
    SNIB__AMQP_DECLARE_OK = 0x0032000B,
    SNIB__AMQP_BIND = 0x00320014,
    SNIB__AMQP_BIND_OK = 0x00320015,
    SNIB__AMQP_QOS = 0x003C000A,
    SNIB__AMQP_QOS_OK = 0x003C000B,
    SNIB__AMQP_CONSUME = 0x003C0014,
    SNIB__AMQP_CONSUME_OK = 0x003C0015,
    SNIB__AMQP_CANCEL = 0x003C001E, /* from the server: the queue is gone */
    SNIB__AMQP_CANCEL_OK = 0x003C001F,
    SNIB__AMQP_PUBLISH = 0x003C0028,
    SNIB__AMQP_RETURN = 0x003C0032, /* it could not be put into a queue */
    SNIB__AMQP_DELIVER = 0x003C003C,
    SNIB__AMQP_ACK = 0x003C0050, /* from the server: a confirm */
    SNIB__AMQP_NACK = 0x003C0078,
    SNIB__AMQP_CONFIRM = 0x0055000A,
    SNIB__AMQP_CONFIRM_OK = 0x0055000B
} snib__amqp_id;

/* -- reading ----------------------------------------------------------------- */

struct snib__amqp_bytes {
    const char *bytes;
    size_t size;
};

struct snib__amqp_frame {
    uint8_t type;
    uint16_t channel;
    const uint8_t *bytes;
    size_t size;
    size_t whole; /* with its head and its end */
};

/* 1: there is a whole frame; 0: not yet; -1: it is none. */
int snib__amqp_frame(const uint8_t *bytes, size_t size,
                     struct snib__amqp_frame *ret);

/* A method, with the fields that it has. */
struct snib__amqp_method {
    uint32_t id;
    uint16_t code; /* CLOSE, CHANNEL_CLOSE, RETURN */
    /* CLOSE, CHANNEL_CLOSE, RETURN: why; BLOCKED: why; START: the mechanisms. */
    struct snib__amqp_bytes text;
    struct snib__amqp_bytes product, version; /* START */
    uint16_t channel_max, heartbeat_s;        /* TUNE */
    uint32_t frame_max;
    uint32_t messages, consumers; /* DECLARE_OK */
    /* DELIVER: to a consumer of answers; else to which one (put_consume). */
    bool answers;
    uint32_t consumer;
    uint64_t tag; /* DELIVER, ACK, NACK */
};

/* False: its bytes are bad. A method that we do not know has an id only. */
bool snib__amqp_read_method(const struct snib__amqp_frame *,
                            struct snib__amqp_method *ret);
/* A text of the server's in plain ASCII, cut where it does not fit. */
void snib__amqp_text(struct snib__amqp_bytes, char *ret, size_t size);
/* A HEADER: how many bytes of content follow, and where an answer is to go (""). */
struct snib__amqp_content {
    uint64_t size;
    struct snib__amqp_bytes reply_to;
};
/* False: it is bad. */
bool snib__amqp_read_header(const struct snib__amqp_frame *,
                            struct snib__amqp_content *ret);

/* -- writing ------------------------------------------------------------------ */

void snib__amqp_put_protocol(struct snib__buf *);
void snib__amqp_put_heartbeat(struct snib__buf *);
/* By the mechanism PLAIN. The properties say that we know of closed channels,
 * cancelled consumers and refused logins. */
void snib__amqp_put_start_ok(struct snib__buf *, const char *user,
                             const char *password);
void snib__amqp_put_tune_ok(struct snib__buf *, uint16_t channel_max,
                            uint32_t frame_max, uint16_t heartbeat_s);
void snib__amqp_put_open(struct snib__buf *, const char *vhost);
/* A method of a channel without arguments that matter: CHANNEL_OPEN,
 * CHANNEL_CLOSE and its OK, CONFIRM, CLOSE (channel 0) and its OK. */
void snib__amqp_put_plain(struct snib__buf *, uint16_t channel, uint32_t id);

/* What a queue is made with; 0 and NULL: not. */
struct snib__amqp_queue {
    const char *name;
    bool passive; /* it only asks about one that is there */
    bool our_own; /* it goes with the connection; else it is kept on disk */
    bool quorum, single_consumer;
    int64_t expires_ms, delivery_limit;
    int64_t length_max;         /* more messages than that are refused */
    const char *dead_letter_to; /* a queue */
};
void snib__amqp_put_declare(struct snib__buf *, uint16_t channel,
                            const struct snib__amqp_queue *);
/* It gets all that is sent to the exchange SNIB__AMQP_ALL. */
#define SNIB__AMQP_ALL "amq.fanout"
void snib__amqp_put_bind(struct snib__buf *, uint16_t channel,
                         const char *queue);
/* consumer: its number on this channel, under which its messages are told (DELIVER).
 * 0: one of answers, which are not to be acknowledged: what others send to this
 * channel's own SNIB__AMQP_REPLIES, or to a queue. */
#define SNIB__AMQP_REPLIES "amq.rabbitmq.reply-to"
void snib__amqp_put_consume(struct snib__buf *, uint16_t channel,
                            const char *queue, uint32_t consumer);
/* A consumer goes; what it was delivered stays with the channel. */
void snib__amqp_put_cancel(struct snib__buf *, uint16_t channel,
                           uint32_t consumer);
/* Each consumer that comes on this channel is delivered so many messages that are
 * not acknowledged; 0: there is no bound. */
void snib__amqp_put_qos(struct snib__buf *, uint16_t channel, uint16_t count);
void snib__amqp_put_ack(struct snib__buf *, uint16_t channel, uint64_t tag,
                        bool and_all_before);
/* To the queue of this name, to be kept on disk; a queue that is not there is
 * told by RETURN, unless the message may vanish. */
struct snib__amqp_message {
    const char *queue; /* "": to SNIB__AMQP_ALL */
    bool may_vanish;
    int64_t expires_ms;   /* 0: never */
    const char *reply_to; /* NULL: no answer is wanted */
    const void *bytes;    /* at most what a frame has room for */
    size_t size;
};
void snib__amqp_put_publish(struct snib__buf *, uint16_t channel,
                            const struct snib__amqp_message *);

#endif
