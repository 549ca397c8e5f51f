/* store/rabbitmq/doctor.c — is this broker set up so that our promises hold? A queue
 * like a lock's is made, written to, read from; then it goes by itself, in a
 * minute. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snib/inspect.h"
#include "store/rabbitmq/rabbitmq_i.h"

enum { DOCTOR_SLOW_MS = 50, DOCTOR_QUEUE_MS = 60000, DOCTOR_SERVERS = 3 };

static void doctor_tell(struct mq_step *k, bool good, snib_level bad,
                        const char *check, const char *text, const char *remedy)
{
    snib__rec_finding(k->r->said.result, good ? SNIB_LEVEL_OK : bad, check,
                      text, good ? "" : remedy);
}

static void doctor_server(struct snib__mq *z, struct mq_step *k)
{
    const struct mq_session *s = &z->session;
    char text[MQ_TEXT];
    bool old = atoi(s->version) < 3 ||
               (atoi(s->version) == 3 && s->version[0] == '3' &&
                atoi(s->version + 2) < 10);
    snprintf(text, sizeof text, "RabbitMQ %.40s at %.100s", s->version,
             z->out->conn[s->at]->address);
    doctor_tell(k, !old, SNIB_LEVEL_WARN, "server", text,
                "use RabbitMQ 3.10 or later, where messages of quorum queues "
                "can have a time");
    snprintf(text, sizeof text,
             "a silent client's locks go on after %u to %u s, and a lease more",
             s->heartbeat_s * 2U, s->heartbeat_s * 3U);
    doctor_tell(k, s->heartbeat_s != 0, SNIB_LEVEL_WARN, "heartbeat",
                s->heartbeat_s ? text
                               : "no heartbeats: a silent client is never "
                                 "missed",
                "set heartbeat_s= in the URL");
    snprintf(text, sizeof text, "%u server%s in the URL", z->out->conns,
             z->out->conns == 1 ? "" : "s");
    doctor_tell(k, z->out->conns >= DOCTOR_SERVERS, SNIB_LEVEL_WARN, "servers",
                text,
                "run three nodes, and name them all "
                "(amqp://HOST,HOST,HOST), so that the end of one is not the "
                "end of your locks");
    doctor_tell(k, !s->blocked[0], SNIB_LEVEL_FAIL, "alarm",
                s->blocked[0] ? s->blocked : "the broker takes messages",
                "the broker is short of memory or disk, and takes no "
                "messages; nothing can be acquired or renewed");
}

static void doctor_way(struct snib__mq *z, struct mq_step *k)
{
    doctor_tell(k, z->user || z->asks, SNIB_LEVEL_WARN, "login",
                z->user || z->asks ? "a login of our own"
                                   : "the login of guest",
                "make a user for it; docs/RABBITMQ.md says with which rights");
    doctor_tell(k, z->secure, SNIB_LEVEL_WARN, "tls",
                z->secure ? "the way is encrypted, the server verified"
                          : "the way is not encrypted",
                "use amqps://, or keep it inside a network that you trust");
    doctor_tell(k, false, SNIB_LEVEL_WARN, "force-release",
                "no forced release, no place in the queue, mutexes only",
                "docs/RABBITMQ.md says what there is and what is not");
}

static void doctor_done(struct snib__mq *z, snib_instant now, struct mq_step *k,
                        const struct mq_heard *failed)
{
    char text[MQ_TEXT];
    double ms = (double)snib__between(k->sent, now).ns / 1e6;
    doctor_server(z, k);
    if (failed) {
        doctor_tell(k, false, SNIB_LEVEL_FAIL, "permissions", failed->text,
                    "give the rights that docs/RABBITMQ.md names");
    } else {
        doctor_tell(k, true, SNIB_LEVEL_OK, "permissions",
                    "queues can be made, written to and read", "");
        snprintf(text, sizeof text, "a message comes back in %.2f ms", ms);
        doctor_tell(k, ms < DOCTOR_SLOW_MS, SNIB_LEVEL_WARN, "latency", text,
                    "leases must be many times longer; use a nearer server");
    }
    doctor_way(z, k);
    bool full = k->r->said.result->failed;
    snib__mq_step_answer(z, now, k, full ? SNIB__NOT_APPLIED : SNIB__DONE,
                         full ? SNIB_ERR_NOMEM : SNIB_ERR_OK, NULL);
}

static void doctor_queue(const struct snib__mq *z, char ret[MQ_QUEUE_MAX])
{
    snprintf(ret, MQ_QUEUE_MAX, "snib.doctor.%016llx%016llx",
             (unsigned long long)z->client[0],
             (unsigned long long)z->client[1]);
}

static void doctor_heard(struct snib__mq *z, snib_instant now,
                         struct mq_channel *channel,
                         const struct mq_heard *heard)
{
    struct mq_step *k = snib__mq_step_of(channel);
    const struct mq_message probe = {.kind = MQ_PROBE,
                                     .id = {k->r->id[0], k->r->id[1]}};
    char queue[MQ_QUEUE_MAX];
    const struct snib__amqp_message to = {.queue = queue};
    doctor_queue(z, queue);
    if (heard->lost && !snib__mq_is_ready(&z->session)) {
        snib__mq_step_again(z, k);
    } else if (heard->lost) {
        doctor_done(z, now, k, heard);
    } else if (!heard->method) {
        snib__amqp_put_ack(snib__mq_out(z), channel->number, heard->tag, false);
        doctor_done(z, now, k, NULL);
    } else if (heard->method->id == SNIB__AMQP_CONSUME_OK) {
        k->sent = now;
        snib__mq_publish(z, &k->channel, &probe, NULL, 0, &to);
        snib__mq_channel_asks(z, now, &k->channel, 0);
    }
}

static void doctor_begin(struct snib__mq *z, snib_instant now,
                         struct mq_step *k)
{
    char queue[MQ_QUEUE_MAX];
    const struct snib__amqp_queue make = {.name = queue,
                                          .quorum = true,
                                          .single_consumer = true,
                                          .expires_ms = DOCTOR_QUEUE_MS,
                                          .delivery_limit = 1000000};
    snib__buf_clear(k->r->said.result);
    doctor_queue(z, queue);
    if (!snib__mq_channel_open(z, now, &k->channel, doctor_heard)) {
        snib__mq_step_answer(z, now, k, SNIB__NOT_APPLIED, SNIB_ERR_LIMIT,
                             "this connection has no channel left");
        return;
    }
    snib__mq_step_asks(z, k, snib__after(now, z->request));
    snib__amqp_put_declare(snib__mq_out(z), k->channel.number, &make);
    snib__mq_channel_asks(z, now, &k->channel, 1);
    snib__mq_channel_consume(z, now, &k->channel, queue);
}

const struct mq_work snib__mq_doctor_work = {.begin = doctor_begin};
