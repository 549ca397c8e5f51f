/* tests/unit/rabbitmq_world.h — the store rabbitmq beside a model of its broker: the
 * connection between the two, requests and their answers, what others do there. */
#ifndef RABBITMQ_WORLD_H
#define RABBITMQ_WORLD_H

#include "unit.h"

#include "base/mem.h"
#include "rabbitmq_broker.h"
#include "store/rabbitmq/rabbitmq.h"

static const struct snib__store_ops *const ops = &snib__rabbitmq_store_ops;
#include "model_world.h"

static bool mute;    /* the broker says nothing */
static int refusals; /* so many connections are refused before one is not */
static snib_instant spoke; /* the store has sent something */
static char queue[MQ_QUEUE_MAX];

/* -- the world ------------------------------------------------------------------ */

/* The broker takes what it is sent. What a login is in is overwritten behind it. */
static bool broker_takes(struct snib__buf *sent)
{
    size_t took = model_hears(snib__buf_bytes(sent), snib__buf_size(sent));
    assert_true(sent->secret ||
                !memmem(snib__buf_bytes(sent), took, "\0guest", 6));
    if (took) {
        snib__buf_consume(sent, took);
        spoke = now;
    }
    return took;
}

static void settle(void)
{
    struct snib__conn *conn = out.conn[0];
    for (int i = 0; i < 2000; i++) {
        if (conn->shut || (conn->open && up)) {
            conn->shut = up = false;
            model_cut();
            input(SNIB__IN_CLOSED, NULL, 0);
        } else if (conn->open && refusals) {
            conn->open = false;
            refusals--;
            input(SNIB__IN_REFUSED, NULL, 0);
        } else if (conn->open) {
            conn->open = false;
            up = true;
            input(SNIB__IN_OPENED, NULL, 0);
        } else if (up && !mute && broker_takes(&conn->out)) {
            continue;
        } else if (up && snib__buf_size(&model_out)) {
            uint8_t byte = *snib__buf_bytes(&model_out);
            snib__buf_consume(&model_out, 1); /* in the smallest pieces */
            input(SNIB__IN_BYTES, &byte, 1);
            i--;
        } else if (snib__reached(now, ops->due(store))) {
            input(SNIB__IN_TICK, NULL, 0);
        } else {
            return;
        }
    }
    fail_msg("it does not come to rest");
}

/* The broker's heartbeats come, and it wants to hear something within each. */
static void pass_ms(int64_t ms)
{
    for (snib_instant end = snib__after(now, snib__ms(ms)); now.ns < end.ns;) {
        now = snib__sooner(
            end, snib__sooner(snib__after(now, snib__ms(1000)),
                              snib__later(ops->due(store),
                                          snib__after(now, snib__ms(1)))));
        if (up && !model.deaf && !mute) {
            model_end(model_frame(SNIB__AMQP_HEARTBEAT, 0));
        }
        settle();
        assert_true(!up || mute || !model.entered ||
                    now.ns - spoke.ns <=
                        snib__ms((int64_t)model.agreed.heartbeat_s * 1000).ns);
    }
}

static void cut(void)
{
    up = false;
    model_cut();
    snib__buf_clear(&out.conn[0]->out);
    input(SNIB__IN_CLOSED, NULL, 0);
    settle();
}

static void servers_away(bool away)
{
    refusals = away ? 1 << 20 : 0;
    if (away && up) {
        cut();
    }
}

static int begin_at(const char *text)
{
    model_begin();
    up = mute = false;
    refusals = 0;
    open_at(text, 0);
    snib__mq_queue(name, queue);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    return begin_at("amqp://h");
}

static void granted(struct snib__request *r)
{
    ask(r);
    assert_int_equal(answer(r), SNIB__DONE);
}

/* It is granted in a while; asked for again where its answer was lost. */
static void comes_in(struct snib__request *r)
{
    for (int i = 0; i < 50; i++) {
        snib__answer got = answer(r);
        if (got == SNIB__DONE) {
            return;
        }
        if (got == SNIB__UNKNOWN) {
            ask(r);
        }
        pass_ms(100);
    }
    fail_msg("it is not granted");
}

static void cancelled(struct snib__request *r)
{
    struct snib__request cancel = request(SNIB__CANCEL, r->id[0]);
    ask(&cancel);
    pass_ms(500);
    assert_int_equal(answer(&cancel), SNIB__DONE);
    if (r->said.answer == SNIB__QUEUED || r->said.answer == SNIB__PENDING) {
        assert_int_equal(answer(r), SNIB__NO);
    }
}

/* A message of somebody else's. */
static void lies_there(const char *kind, uint64_t id, int64_t token,
                       int64_t lease_ms)
{
    char text[200];
    memcpy(model.queue, queue, sizeof queue);
    snprintf(text, sizeof text, "snib1 %s %016llx%016llx %lld %lld 1\n", kind,
             (unsigned long long)id, (unsigned long long)id, (long long)token,
             (long long)lease_ms);
    model_put(queue, text, 0);
}

/* What somebody answers who is asked about this queue. */
static const char *answers(const char *kind, const char *of)
{
    static char text[400];
    snprintf(text, sizeof text,
             "snib1 %s %032d 7 1000 0\nclient=%032d&age=%018d&queue=%s\nhost=x",
             kind, 9, 8, 1, of);
    return text;
}

static void another_consumes(void)
{
    memcpy(model.queue, queue, sizeof queue);
    model_consume(MODEL_OTHER);
}

#endif
