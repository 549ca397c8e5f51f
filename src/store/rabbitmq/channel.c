/* store/rabbitmq/channel.c — channels on the one connection.
 *
 * Each claim, and each request that looks or leaves a note, has a channel of its
 * own: an error closes a channel with all that is on it, and so does its end,
 * which gives back in one step what it was delivered. A number is free again when
 * its end was confirmed. Some are kept for who comes next (pool.c). */
#include <stdio.h>
#include <string.h>

#include "store/rabbitmq/rabbitmq_i.h"

enum { CHANNEL_BODY_MAX = 65536 };

_Static_assert((int)MQ_MESSAGE_MAX <=
                   (int)SNIB__AMQP_FRAME_LEAST - SNIB__AMQP_HEAD - 1,
               "a message fits into one frame of any server");

static struct snib__conn *channel_conn(const struct snib__mq *z)
{
    return z->out->conn[z->session.at];
}

struct snib__buf *snib__mq_out(struct snib__mq *z)
{
    return &channel_conn(z)->out;
}

/* It is to be cut at the end of the step: the first reason counts. */
void snib__mq_leave(struct snib__mq *z, snib_err err, const char *text,
                    bool barred)
{
    struct mq_session *s = &z->session;
    if (!s->leave) {
        s->leave = true;
        s->leave_err = err;
        s->leave_barred = barred;
        snprintf(s->leave_text, sizeof s->leave_text, "%s", text);
    }
}

/* -- opened and closed --------------------------------------------------------- */

static bool channel_is_free(const struct snib__mq *z, uint16_t n)
{
    return !z->channel[n] && !z->closing[n];
}

bool snib__mq_channel_open(struct snib__mq *z, snib_instant now,
                           struct mq_channel *channel, mq_heard_fn *heard)
{
    for (uint16_t i = 0; i < z->channel_max; i++) {
        z->channel_at = (uint16_t)(z->channel_at % z->channel_max + 1);
        if (channel_is_free(z, z->channel_at)) {
            *channel = (struct mq_channel){
                .number = z->channel_at, .opened = now, .heard = heard};
            z->channel[channel->number] = channel;
            snib__amqp_put_plain(snib__mq_out(z), channel->number,
                                 SNIB__AMQP_CHANNEL_OPEN);
            snib__mq_channel_asks(z, now, channel, 1);
            return true;
        }
    }
    if (!snib__mq_pool_take(z, channel, heard)) {
        return false;
    }
    snib__amqp_put_qos(snib__mq_out(z), channel->number, 0);
    snib__mq_channel_asks(z, now, channel, 1);
    return true;
}

void snib__mq_channel_consume(struct snib__mq *z, snib_instant now,
                              struct mq_channel *channel, const char *queue)
{
    snib__amqp_put_consume(snib__mq_out(z), channel->number, queue,
                           ++channel->consumer);
    snib__mq_channel_asks(z, now, channel, 1);
}

void snib__mq_channel_hear(struct snib__mq *z, snib_instant now,
                           struct mq_channel *channel, const char *queue)
{
    snib__amqp_put_consume(snib__mq_out(z), channel->number, queue, 0);
    snib__mq_channel_asks(z, now, channel, 1);
}

void snib__mq_channel_confirms(struct snib__mq *z, snib_instant now,
                               struct mq_channel *channel)
{
    snib__amqp_put_plain(snib__mq_out(z), channel->number, SNIB__AMQP_CONFIRM);
    snib__mq_channel_asks(z, now, channel, 1);
    channel->confirms = true;
}

bool snib__mq_channel_is_confirmed(const struct mq_channel *channel)
{
    return channel->confirms && channel->confirmed == channel->published;
}

void snib__mq_channel_asks(struct snib__mq *z, snib_instant now,
                           struct mq_channel *channel, uint32_t answers)
{
    struct snib__conn *conn = channel_conn(z);
    z->session.asked = conn->awaited ? z->session.asked : now;
    z->session.sent = now;
    channel->due += answers;
    conn->awaited += answers;
    snib__conn_touch(z->out, conn);
    if (conn->out.failed) {
        snib__mq_leave(z, SNIB_ERR_UNREACHABLE, "more is to be sent than fits",
                       false);
    }
}

static void channel_answered(struct snib__mq *z, struct mq_channel *channel,
                             uint32_t answers)
{
    struct snib__conn *conn = channel_conn(z);
    answers = answers < channel->due ? answers : channel->due;
    channel->due -= answers;
    conn->awaited -= answers < conn->awaited ? answers : conn->awaited;
    snib__conn_touch(z->out, conn);
}

void snib__mq_channel_close(struct snib__mq *z, snib_instant now,
                            struct mq_channel *channel)
{
    if (channel->number && !channel->closing) {
        channel_answered(z, channel, channel->due);
        channel->closing = true;
        snib__amqp_put_plain(snib__mq_out(z), channel->number,
                             SNIB__AMQP_CHANNEL_CLOSE);
        snib__mq_channel_asks(z, now, channel, 1);
    }
}

void snib__mq_channel_drop(struct snib__mq *z, snib_instant now,
                           struct mq_channel *channel)
{
    if (channel->number) {
        snib__mq_channel_close(z, now, channel);
        channel_answered(z, channel, channel->due);
        z->channel[channel->number] = NULL;
        z->closing[channel->number] = true;
        channel->number = 0;
    }
}

void snib__mq_channels_lost(struct snib__mq *z, snib_instant now, snib_err err,
                            const char *text)
{
    const struct mq_heard heard = {.lost = true, .err = err, .text = text};
    memset(z->closing, 0, sizeof z->closing);
    for (uint32_t n = 1; n <= MQ_CHANNELS; n++) {
        struct mq_channel *channel = z->channel[n];
        z->channel[n] = NULL;
        if (channel) {
            channel->number = 0;
            channel->heard(z, now, channel, &heard);
        }
    }
    channel_conn(z)->awaited = 0;
}

void snib__mq_publish(struct snib__mq *z, struct mq_channel *channel,
                      const struct mq_message *says, const char *about,
                      size_t about_size, const struct snib__amqp_message *to)
{
    struct snib__amqp_message message = *to;
    snib__buf_clear(&z->message);
    snib__mq_message_write(says, about, about_size, &z->message);
    message.bytes = snib__buf_bytes(&z->message);
    message.size = snib__buf_size(&z->message);
    if (z->message.failed) {
        snib__mq_leave(z, SNIB_ERR_NOMEM, "out of memory", false);
        return;
    }
    snib__amqp_put_publish(snib__mq_out(z), channel->number, &message);
    channel->published += channel->confirms;
}

/* -- heard ----------------------------------------------------------------------- */

static snib_err channel_error(uint16_t code)
{
    enum { REFUSED = 403, MISSING = 404, LOCKED = 405, FAILED = 406 };
    return code == REFUSED                    ? SNIB_ERR_DENIED
           : code == FAILED || code == LOCKED ? SNIB_ERR_CONFIG
           : code == MISSING                  ? SNIB_ERR_LOST
                                              : SNIB_ERR_STORE;
}

/* The server has closed it. */
static void channel_closed(struct snib__mq *z, snib_instant now, uint16_t n,
                           const struct snib__amqp_method *m)
{
    struct mq_channel *channel = z->channel[n];
    char text[MQ_TEXT], words[161];
    snib__amqp_put_plain(snib__mq_out(z), n, SNIB__AMQP_CHANNEL_CLOSE_OK);
    z->session.sent = now;
    snib__conn_touch(z->out, channel_conn(z));
    if (!channel || channel->closing) {
        return; /* its own end is still to be confirmed */
    }
    snib__amqp_text(m->text, words, sizeof words);
    snprintf(text, sizeof text, "%.60s: %u %s", channel_conn(z)->address,
             m->code, words);
    const struct mq_heard heard = {
        .lost = true, .err = channel_error(m->code), .text = text};
    channel_answered(z, channel, channel->due);
    z->channel[n] = NULL;
    channel->number = 0;
    channel->heard(z, now, channel, &heard);
}

static void channel_confirmed(struct snib__mq *z, snib_instant now, uint16_t n,
                              const struct mq_heard *heard)
{
    struct mq_channel *channel = z->channel[n];
    z->closing[n] = false;
    z->channel[n] = NULL;
    if (channel) {
        channel_answered(z, channel, channel->due);
        channel->number = 0;
        channel->heard(z, now, channel, heard);
    }
}

static bool channel_is_answer(uint32_t id)
{
    return id == SNIB__AMQP_CHANNEL_OPEN_OK || id == SNIB__AMQP_DECLARE_OK ||
           id == SNIB__AMQP_CONSUME_OK || id == SNIB__AMQP_CONFIRM_OK ||
           id == SNIB__AMQP_BIND_OK || id == SNIB__AMQP_QOS_OK ||
           id == SNIB__AMQP_CANCEL_OK;
}

static void channel_method(struct snib__mq *z, snib_instant now, uint16_t n,
                           const struct snib__amqp_method *m)
{
    const struct mq_heard heard = {.method = m};
    struct mq_coming *coming = &z->session.coming;
    struct mq_channel *channel = z->channel[n];
    if (m->id == SNIB__AMQP_CHANNEL_CLOSE) {
        channel_closed(z, now, n, m);
        return;
    }
    if (m->id == SNIB__AMQP_CHANNEL_CLOSE_OK) {
        channel_confirmed(z, now, n, &heard);
        return;
    }
    if (m->id == SNIB__AMQP_DELIVER || m->id == SNIB__AMQP_RETURN) {
        coming->channel = n;
        coming->headed = false;
        coming->answers = m->answers;
        coming->consumer = m->consumer;
        coming->tag = m->tag;
        snib__buf_clear(&coming->body);
    }
    if (!channel || channel->closing || m->id == SNIB__AMQP_DELIVER) {
        return;
    }
    if (channel_is_answer(m->id)) {
        channel_answered(z, channel, 1);
    }
    if (m->id == SNIB__AMQP_ACK && m->tag > channel->confirmed) {
        channel->confirmed = m->tag;
    }
    channel->heard(z, now, channel, &heard);
}

/* It is of a consumer that had gone, or of none of ours: the broker gives it to the
 * next one when the channel is closed. */
static void channel_strange(struct snib__mq *z, snib_instant now,
                            struct mq_channel *channel)
{
    static const struct mq_heard strange = {
        .lost = true,
        .err = SNIB_ERR_LOST,
        .text = "the broker has sent a message to a consumer that had gone"};
    snib__mq_channel_drop(z, now, channel);
    channel->heard(z, now, channel, &strange);
}

/* The message is whole. One that was returned has no tag: that was told. */
static void channel_message(struct snib__mq *z, snib_instant now)
{
    struct mq_coming *coming = &z->session.coming;
    struct mq_channel *channel = z->channel[coming->channel];
    const struct mq_heard heard = {
        .answers = coming->answers,
        .tag = coming->tag,
        .bytes = (const char *)snib__buf_bytes(&coming->body),
        .size = snib__buf_size(&coming->body),
        .reply_to = coming->reply_to};
    coming->channel = 0;
    if (!channel || channel->closing || !coming->tag) {
        return;
    }
    if (coming->answers || coming->consumer == channel->consumer) {
        channel->heard(z, now, channel, &heard);
    } else {
        channel_strange(z, now, channel);
    }
}

static bool channel_header(struct snib__mq *z,
                           const struct snib__amqp_frame *frame)
{
    struct mq_coming *coming = &z->session.coming;
    struct snib__amqp_content content;
    if (coming->headed || !snib__amqp_read_header(frame, &content)) {
        return false;
    }
    coming->headed = true;
    coming->size = content.size;
    snprintf(coming->reply_to, sizeof coming->reply_to, "%.*s",
             (int)content.reply_to.size, content.reply_to.bytes);
    return true;
}

/* What is too long to be ours is taken without being kept. */
static bool channel_body(struct snib__mq *z,
                         const struct snib__amqp_frame *frame)
{
    struct mq_coming *coming = &z->session.coming;
    if (!coming->headed || frame->size > coming->size) {
        return false;
    }
    coming->size -= frame->size;
    if (snib__buf_size(&coming->body) + frame->size <= CHANNEL_BODY_MAX) {
        snib__buf_add(&coming->body, frame->bytes, frame->size);
    }
    return true;
}

bool snib__mq_channel_frame(struct snib__mq *z, snib_instant now,
                            const struct snib__amqp_frame *frame)
{
    struct mq_coming *coming = &z->session.coming;
    struct snib__amqp_method method;
    bool content = frame->type != SNIB__AMQP_METHOD;
    if (frame->channel > MQ_CHANNELS ||
        (content && coming->channel != frame->channel)) {
        return false;
    }
    if (!content) {
        if (!snib__amqp_read_method(frame, &method)) {
            return false;
        }
        channel_method(z, now, frame->channel, &method);
        return true;
    }
    if (frame->type == SNIB__AMQP_HEADER ? !channel_header(z, frame)
                                         : !channel_body(z, frame)) {
        return false;
    }
    if (!coming->size) {
        channel_message(z, now);
    }
    return true;
}
