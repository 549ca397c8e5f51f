/* bench/rows_rabbitmq.c — a lock in RabbitMQ against the least that a section
 * costs there, by librabbitmq.
 *
 * One message in a quorum queue is the lock. Who is given it has it, until he
 * has published the next one (the broker has confirmed it) and acknowledged his.
 * That is no lock to use: it has no lease, no token, and who was cut off may
 * still believe in it. The consumer comes and goes with each section, as it must
 * where a lock is not always wanted. In a second baseline, which has no goal,
 * consumers stay where they are, so that a process may be given it again without
 * having asked. */
#include <stdio.h>
#include <string.h>

#include <amqp.h>
#include <amqp_tcp_socket.h>

#include "bench.h"

enum { CHANNEL = 1 };

struct broker {
    amqp_connection_state_t c;
    amqp_bytes_t queue;
    uint64_t delivered; /* the number of what was delivered; 0: nothing */
    uint64_t published, confirmed;
    bool visits; /* it consumes during its sections only                 */
};

/* -- the connection --------------------------------------------------------------- */

static void must_reply(amqp_rpc_reply_t r)
{
    if (r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) {
        die("librabbitmq: %s", amqp_error_string2(r.library_error));
    }
    if (r.reply_type != AMQP_RESPONSE_NORMAL) {
        die("RabbitMQ: no reply but the method %#x", (unsigned)r.reply.id);
    }
}

static void must_send(int status)
{
    if (status != AMQP_STATUS_OK) {
        die("librabbitmq: %s", amqp_error_string2(status));
    }
}

static struct broker broker_open(const char *url, const char *queue)
{
    struct broker b = {.c = amqp_new_connection(),
                       .queue = amqp_cstring_bytes(queue)};
    amqp_socket_t *tcp = b.c ? amqp_tcp_socket_new(b.c) : NULL;
    int port;
    if (!tcp || sscanf(url, "amqp://127.0.0.1:%d", &port) != 1) {
        die("no connection to %s", url);
    }
    must_send(amqp_socket_open(tcp, "127.0.0.1", port));
    must_reply(amqp_login(b.c, "/", 0, AMQP_DEFAULT_FRAME_SIZE, 0,
                          AMQP_SASL_METHOD_PLAIN, "guest", "guest"));
    amqp_channel_open(b.c, CHANNEL);
    must_reply(amqp_get_rpc_reply(b.c));
    amqp_confirm_select(b.c, CHANNEL);
    must_reply(amqp_get_rpc_reply(b.c));
    amqp_basic_qos(b.c, CHANNEL, 0, 1, 0);
    must_reply(amqp_get_rpc_reply(b.c));
    return b;
}

static void broker_close(struct broker *b)
{
    must_reply(amqp_connection_close(b->c, AMQP_REPLY_SUCCESS));
    amqp_destroy_connection(b->c);
}

/* The next frame: a delivery, a confirmation, or what a delivery brings behind
 * it, which nobody reads. */
static void broker_hear(struct broker *b)
{
    amqp_frame_t frame;
    must_send(amqp_simple_wait_frame(b->c, &frame));
    if (frame.frame_type != AMQP_FRAME_METHOD) {
        return;
    }
    amqp_method_t said = frame.payload.method;
    if (said.id == AMQP_BASIC_DELIVER_METHOD) {
        const amqp_basic_deliver_t *delivery = said.decoded;
        b->delivered = delivery->delivery_tag;
    } else if (said.id == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *ack = said.decoded;
        b->confirmed = ack->delivery_tag;
    } else {
        die("RabbitMQ: unexpected method %#x", (unsigned)said.id);
    }
}

/* -- a section ---------------------------------------------------------------------- */

static const char consumer[] = "bench";

static void broker_consume(struct broker *b)
{
    amqp_basic_consume(b->c, CHANNEL, b->queue, amqp_cstring_bytes(consumer), 0,
                       0, 0, amqp_empty_table);
    must_reply(amqp_get_rpc_reply(b->c));
}

static void broker_publish(struct broker *b)
{
    static const amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
        .delivery_mode = AMQP_DELIVERY_PERSISTENT};
    must_send(amqp_basic_publish(b->c, CHANNEL, amqp_empty_bytes, b->queue, 0,
                                 0, &properties, amqp_cstring_bytes("lock")));
    b->published++;
    while (b->confirmed < b->published) {
        broker_hear(b);
    }
}

/* A consumer that goes does so before it acknowledges: else it would be given
 * what it has just published. */
static void broker_section(void *data)
{
    struct broker *b = data;
    if (b->visits) {
        broker_consume(b);
    }
    while (!b->delivered) {
        broker_hear(b);
    }
    uint64_t mine = b->delivered;
    b->delivered = 0;
    broker_publish(b);
    if (b->visits) {
        amqp_basic_cancel(b->c, CHANNEL, amqp_cstring_bytes(consumer));
        must_reply(amqp_get_rpc_reply(b->c));
    }
    must_send(amqp_basic_ack(b->c, CHANNEL, mine, 0));
    amqp_maybe_release_buffers(b->c);
}

static void broker_member(struct crowd *c, bool visits)
{
    struct broker b = broker_open(c->url, c->name);
    b.visits = visits;
    if (!visits) {
        broker_consume(&b);
    }
    crowd_repeat(c, (struct work){broker_section, &b, 1});
    broker_close(&b);
}

static void member_stays(struct crowd *c, int me)
{
    (void)me;
    broker_member(c, false);
}

static void member_visits(struct crowd *c, int me)
{
    (void)me;
    broker_member(c, true);
}

/* -- a turn ---------------------------------------------------------------------------- */

/* A new queue, with the one message: what a member of an earlier turn had goes
 * back to its queue when the broker has seen the connection end. Consumers come
 * once the queue has been written to; before, it may not be there yet. */
static void queue_make(const char *url, const char *queue)
{
    amqp_table_entry_t type = {.key = amqp_cstring_bytes("x-queue-type"),
                               .value.kind = AMQP_FIELD_KIND_UTF8};
    type.value.value.bytes = amqp_cstring_bytes("quorum");
    struct broker b = broker_open(url, queue);
    amqp_queue_declare(b.c, CHANNEL, b.queue, 0, 1, 0, 0,
                       (amqp_table_t){1, &type});
    must_reply(amqp_get_rpc_reply(b.c));
    broker_publish(&b);
    broker_close(&b);
}

static void queue_remove(const char *url, const char *queue)
{
    struct broker b = broker_open(url, queue);
    amqp_queue_delete(b.c, CHANNEL, b.queue, 0, 0);
    must_reply(amqp_get_rpc_reply(b.c));
    broker_close(&b);
}

static struct span turn(const char *url, int processes, member *run)
{
    static int turns;
    char queue[32];
    struct crowd *c = crowd_new();
    snprintf(queue, sizeof queue, "bench.%d", ++turns);
    c->url = url;
    c->name = queue;
    queue_make(url, queue);
    struct span span = crowd_processes(c, processes, run, settings.seconds);
    queue_remove(url, queue);
    crowd_free(c);
    return span;
}

static struct span turn_stays(void *service, int processes)
{
    const struct service *s = service;
    return turn(s->url, processes, member_stays);
}

static struct span turn_visits(void *service, int processes)
{
    const struct service *s = service;
    return turn(s->url, processes, member_visits);
}

void row_rabbitmq(void)
{
    static const int sizes[] = {1, 2, 16, 64};
    struct service s;
    struct contest stays = {.row = "rabbitmq",
                            .against = "it stays",
                            .service = &s,
                            .others = turn_stays,
                            .data = &s};
    struct contest visits = stays;
    visits.against = "bare client";
    visits.others = turn_visits;
    if (!service_start(&s, "rabbitmq")) {
        return;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        contest_measure(&visits, sizes[i], 0.8);
        contest_measure(&stays, sizes[i], 0);
    }
    service_stop(&s);
}
