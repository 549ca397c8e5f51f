/* AMQP's frames, and the messages in a lock's queue: whatever the bytes, reading
 * stays inside them, ends, and what is taken for a message of ours is written the
 * same. */
#include "fuzz.h"

#include "store/rabbitmq/rabbitmq_i.h"

static void inside(struct snib__amqp_bytes b, const struct snib__amqp_frame *f)
{
    const uint8_t *at = (const uint8_t *)b.bytes;
    MUST(!b.size || (at >= f->bytes && at + b.size <= f->bytes + f->size));
}

static void message(const char *text, size_t size)
{
    struct mq_message says, again;
    struct mq_presence present;
    struct snib__buf out;
    snib__mq_message_read(text, size, &says);
    if (says.kind != MQ_FOREIGN) {
        snib__buf_init(&out, 1024);
        snib__mq_message_write(&says, NULL, 0, &out);
        snib__mq_message_read((const char *)snib__buf_bytes(&out),
                              snib__buf_size(&out), &again);
        MUST(again.kind == says.kind && again.token == says.token &&
             again.lease_ms == says.lease_ms && again.id[0] == says.id[0] &&
             again.id[1] == says.id[1] && again.serial == says.serial);
        snib__buf_free(&out);
    }
    if (snib__mq_presence_read(text, size, &present)) {
        MUST(present.queue + present.queue_size <= text + size);
        MUST(present.about + present.about_size == text + size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snib__amqp_frame frame;
    struct snib__amqp_method method;
    struct snib__amqp_content content;
    if (snib__amqp_frame(data, size, &frame) == 1) {
        MUST(frame.whole <= size);
        if (snib__amqp_read_method(&frame, &method)) {
            inside(method.text, &frame);
            inside(method.product, &frame);
            inside(method.version, &frame);
        }
        if (snib__amqp_read_header(&frame, &content)) {
            inside(content.reply_to, &frame);
        }
    }
    message((const char *)data, size);
    return 0;
}
