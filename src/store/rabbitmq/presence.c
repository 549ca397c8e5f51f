/* store/rabbitmq/presence.c — who is there? The broker shows neither messages that were
 * delivered nor who waits. So each client has a queue of its own, which goes with its
 * connection and gets what is sent to amq.fanout; who looks sends WHO there, with the
 * name or the pattern that it looks for, and each client answers for its claims. A
 * client that is frozen does not answer. One that may not bind to amq.fanout is not
 * seen; nothing else depends on that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "store/rabbitmq/rabbitmq_i.h"

/* -- asked -------------------------------------------------------------------------- */

static struct mq_message presence_says(snib_instant now,
                                       const struct mq_claim *c)
{
    struct mq_message says = {.kind = MQ_WAITING, .id = {c->id[0], c->id[1]}};
    if (c->stage == MQ_HOLDS) {
        snib_instant until = snib__after(c->valid_from, snib__ms(c->lease_ms));
        int64_t left = snib__to_ms(snib__between(now, until));
        says.kind = MQ_HELD;
        says.token = c->token;
        says.lease_ms = left > 1 ? left : 1;
    }
    return says;
}

static void presence_send(struct snib__mq *z, snib_instant now, const char *to,
                          const struct mq_message *says,
                          const struct mq_claim *c, bool gone)
{
    const struct snib__amqp_message message = {.queue = to, .may_vanish = true};
    const char *about = gone ? MQ_GONE : c->about;
    struct snib__buf text;
    snib__buf_init(&text, MQ_MESSAGE_MAX);
    snib__buf_printf(&text, "client=%016llx%016llx&age=%018lld&queue=%s\n",
                     (unsigned long long)(gone ? 0 : z->client[0]),
                     (unsigned long long)(gone ? 0 : z->client[1]),
                     (long long)snib__to_ms(snib__between(c->since, now)),
                     c->queue);
    snib__buf_add(&text, about, gone ? strlen(about) : c->about_size);
    if (!text.failed) {
        snib__mq_publish(z, &z->presence, says,
                         (const char *)snib__buf_bytes(&text),
                         snib__buf_size(&text), &message);
        snib__mq_channel_asks(z, now, &z->presence, 0);
    }
    snib__buf_free(&text);
}

/* For who went without giving it back answers the one who waits for its lease. */
static void presence_answer(struct snib__mq *z, snib_instant now,
                            const struct mq_claim *c, const char *to)
{
    struct mq_message says = presence_says(now, c);
    if (c->stage > MQ_HOLDS || c->stage < MQ_CONSUMES) {
        return;
    }
    presence_send(z, now, to, &says, c, false);
    if (c->stage == MQ_OUTWAITS) {
        snib_instant until = snib__mq_view_until(&c->view, c->id);
        int64_t left = snib__to_ms(snib__between(now, until));
        says = (struct mq_message){.kind = MQ_HELD,
                                   .token = snib__mq_view_token(&c->view, 0),
                                   .lease_ms = left > 1 ? left : 1};
        presence_send(z, now, to, &says, c, true);
    }
}

static bool presence_is_meant(const struct mq_claim *c, const char *which,
                              size_t size, bool glob)
{
    char name[SNIB_NAME_MAX];
    if (!glob) {
        return strlen(c->queue) == size && !memcmp(c->queue, which, size);
    }
    size_t n = strncmp(c->queue, "snib.l.", 7) == 0
                   ? snib__name_decode(c->queue + 7, strlen(c->queue + 7), name)
                   : 0;
    return n && snib__glob(which, size, name, n);
}

static void presence_asked(struct snib__mq *z, snib_instant now,
                           const struct mq_heard *heard)
{
    struct mq_message who;
    const char *line = memchr(heard->bytes, '\n', heard->size);
    snib__mq_message_read(heard->bytes, heard->size, &who);
    if (who.kind != MQ_WHO || !line ||
        strncmp(heard->reply_to, SNIB__AMQP_REPLIES ".",
                sizeof SNIB__AMQP_REPLIES) != 0) {
        return; /* an answer in a lock's queue would be taken for a grant */
    }
    size_t size = (size_t)(heard->bytes + heard->size - line - 1);
    for (int i = 0; i < MQ_BUCKETS; i++) {
        SNIB__LIST_EACH (l, &z->claim[i]) {
            const struct mq_claim *c =
                SNIB__CONTAINER(l, struct mq_claim, link);
            if (presence_is_meant(c, line + 1, size, who.serial != 0)) {
                presence_answer(z, now, c, heard->reply_to);
            }
        }
    }
}

static void presence_heard(struct snib__mq *z, snib_instant now,
                           struct mq_channel *channel,
                           const struct mq_heard *heard)
{
    char text[MQ_TEXT];
    (void)channel;
    if (heard->lost && snib__mq_is_ready(&z->session) && z->out->log) {
        snprintf(text, sizeof text,
                 "rabbitmq: others will not see what this client holds and "
                 "waits for: %.150s",
                 heard->text);
        z->out->log(z->out->log_data, SNIB_LOG_WARN, text);
    } else if (!heard->lost && !heard->method) {
        presence_asked(z, now, heard);
    }
}

void snib__mq_presence_begin(struct snib__mq *z, snib_instant now)
{
    char queue[MQ_QUEUE_MAX];
    const struct snib__amqp_queue own = {.name = queue, .our_own = true};
    struct snib__buf *out = snib__mq_out(z);
    snprintf(queue, sizeof queue, "snib.c.%016llx%016llx.%u",
             (unsigned long long)z->client[0], (unsigned long long)z->client[1],
             z->session.conn);
    if (snib__mq_channel_open(z, now, &z->presence, presence_heard)) {
        snib__amqp_put_declare(out, z->presence.number, &own);
        snib__amqp_put_bind(out, z->presence.number, queue);
        snib__mq_channel_asks(z, now, &z->presence, 2);
        snib__mq_channel_hear(z, now, &z->presence, queue);
    }
}

/* -- answered ------------------------------------------------------------------------ */

static uint64_t presence_hex(const char *text)
{
    char digits[17] = {0};
    memcpy(digits, text, 16);
    return strtoull(digits, NULL, 16);
}

bool snib__mq_presence_read(const char *text, size_t size,
                            struct mq_presence *ret)
{
    enum { CLIENT = 7, ID = 32, AGE = 5, MS = 18, QUEUE = 7 };
    const char *line = memchr(text, '\n', size), *end = text + size;
    char age[MS + 1] = {0};
    snib__mq_message_read(text, size, &ret->says);
    if ((ret->says.kind != MQ_HELD && ret->says.kind != MQ_WAITING) || !line ||
        end - line < 1 + CLIENT + ID + AGE + MS + QUEUE) {
        return false;
    }
    line += 1 + CLIENT;
    ret->client[0] = presence_hex(line);
    ret->client[1] = presence_hex(line + ID / 2);
    memcpy(age, line + ID + AGE, MS);
    ret->age_ms = strtoll(age, NULL, 10);
    ret->queue = line + ID + AGE + MS + QUEUE;
    const char *stop = memchr(ret->queue, '\n', (size_t)(end - ret->queue));
    if (!stop || ret->age_ms < 0) {
        return false;
    }
    ret->queue_size = (size_t)(stop - ret->queue);
    ret->about = stop + 1;
    ret->about_size = (size_t)(end - stop - 1);
    return true;
}
