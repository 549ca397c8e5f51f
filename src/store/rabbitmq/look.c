/* store/rabbitmq/look.c — inspect: who holds? The broker shows no message that was
 * delivered. So who looks asks: a message WHO goes to the lock's queue, the active
 * consumer gets it, and if it holds it answers to the asker alone. A holder that is
 * frozen does not answer; that much is shown then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rules/rules.h"
#include "store/rabbitmq/rabbitmq_i.h"

enum { LOOK_PATIENCE_MS = 500 };

/* -- the holder ------------------------------------------------------------------ */

void snib__mq_look_answer(struct snib__mq *z, snib_instant now,
                          struct mq_claim *c, const char *reply_to)
{
    struct snib__buf about;
    snib_duration left = snib__between(
        now, snib__after(c->valid_from, snib__ms(c->lease_ms)));
    if (c->stage != MQ_HOLDS || !*reply_to || left.ns <= 0) {
        return;
    }
    const struct mq_mark mark = {.kind = MQ_HELD,
                                 .id = {c->id[0], c->id[1]},
                                 .token = c->token,
                                 .lease_ms = snib__to_ms(left)};
    const struct snib__amqp_message to = {.queue = reply_to};
    snib__buf_init(&about, MQ_MARK_MAX);
    snib__buf_printf(&about, "client=%016llx%016llx&age=%018lld\n",
                     (unsigned long long)z->client[0],
                     (unsigned long long)z->client[1],
                     (long long)snib__to_ms(snib__between(c->since, now)));
    snib__buf_add(&about, c->about, c->about_size);
    if (!about.failed) {
        snib__mq_publish(z, &c->chan, &mark,
                         (const char *)snib__buf_bytes(&about),
                         snib__buf_size(&about), &to);
        snib__mq_chan_asks(z, now, &c->chan, 0);
    }
    snib__buf_free(&about);
}

/* -- who looks -------------------------------------------------------------------- */

static void look_lock_row(struct mq_step *k, int64_t token)
{
    struct snib__buf *out = k->r->said.result;
    snib__rec_row(out, SNIB__ROW_LOCK);
    snib__rec_bytes(out, SNIB__F_NAME, k->r->name->raw, k->r->name->raw_size);
    snib__rec_i64(out, SNIB__F_TOKEN, token);
}

static void look_over(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    bool full = k->r->said.result->failed;
    snib__mq_step_answer(z, now, k, full ? SNIB__NOT_APPLIED : SNIB__DONE,
                         full ? SNIB_ERR_NOMEM : SNIB_ERR_OK, NULL);
}

static uint64_t look_hex(const char *text)
{
    char digits[17] = {0};
    memcpy(digits, text, 16);
    return strtoull(digits, NULL, 16);
}

/* The text behind the first line is "client=ID&age=MS", a line, and who it is. */
static void look_show(struct snib__mq *z, snib_instant now, struct mq_step *k,
                      const struct mq_heard *heard, const struct mq_mark *m)
{
    enum { CLIENT = 7, ID = 32, AGE = 5, MS = 18 };
    const char *line = memchr(heard->bytes, '\n', heard->size);
    const char *end = heard->bytes + heard->size;
    char age[MS + 1] = {0};
    struct snib__stored_claim row = {.request = {m->id[0], m->id[1]},
                                     .state = SNIB__HOLDS,
                                     .kind = SNIB_KIND_MUTEX,
                                     .permits = 1,
                                     .token = m->token};
    if (!line || end - line < 1 + CLIENT + ID + AGE + MS + 1) {
        return;
    }
    line += 1 + CLIENT;
    row.client[0] = look_hex(line);
    row.client[1] = look_hex(line + ID / 2);
    memcpy(age, line + ID + AGE, MS);
    row.since = snib__before(now, snib__ms(strtoll(age, NULL, 10)));
    row.until = snib__after(now, snib__ms(m->lease_ms > 0 ? m->lease_ms : 1));
    line += ID + AGE + MS + 1;
    look_lock_row(k, m->token);
    snib__rules_row(k->r->said.result, now, &row, line, (size_t)(end - line));
    k->answered = true;
    look_over(z, now, k);
}

void snib__mq_look_tick(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    static const char silent[] = "program=a%20holder%20that%20does%20not%20"
                                 "answer";
    struct snib__stored_claim row = {.state = SNIB__HOLDS,
                                     .kind = SNIB_KIND_MUTEX,
                                     .permits = 1,
                                     .until = snib__after(now, snib__ms(1))};
    if (!k->at) { /* not even the broker has answered */
        snib__mq_step_answer(z, now, k, SNIB__NOT_APPLIED, SNIB_ERR_UNREACHABLE,
                             "no answer within the time allowed");
        return;
    }
    look_lock_row(k, 0);
    snib__rules_row(k->r->said.result, now, &row, silent, sizeof silent - 1);
    look_over(z, now, k);
}

static void look_declared(struct snib__mq *z, snib_instant now,
                          struct mq_step *k, const struct snib__amqp_method *m)
{
    const struct mq_mark who = {.kind = MQ_WHO,
                                .id = {k->r->id[0], k->r->id[1]}};
    char queue[MQ_QUEUE_MAX];
    const struct snib__amqp_message to = {
        .queue = queue, .expires_ms = 5000, .reply_to = SNIB__AMQP_REPLIES};
    if (!m->consumers) {
        look_lock_row(k, 0);
        look_over(z, now, k);
        return;
    }
    k->at = 1;
    snib__mq_queue(k->r->name, queue);
    snib__mq_publish(z, &k->chan, &who, NULL, 0, &to);
    snib__mq_chan_asks(z, now, &k->chan, 0);
    snib__mq_step_asks(z, k, snib__after(now, snib__ms(LOOK_PATIENCE_MS)));
}

static void look_heard(struct snib__mq *z, snib_instant now,
                       struct mq_chan *chan, const struct mq_heard *heard)
{
    struct mq_step *k = snib__mq_step_of(chan);
    struct mq_mark mark;
    if (heard->lost && !snib__mq_is_ready(&z->session)) {
        snib__mq_step_again(z, k);
    } else if (heard->lost && heard->err == SNIB_ERR_LOST) {
        look_lock_row(k, 0); /* nobody has asked for it yet */
        look_over(z, now, k);
    } else if (heard->lost) {
        snib__mq_step_answer(z, now, k, SNIB__NOT_APPLIED, heard->err,
                             heard->text);
    } else if (heard->method && heard->method->id == SNIB__AMQP_DECLARE_OK) {
        look_declared(z, now, k, heard->method);
    } else if (!heard->method) {
        snib__mq_mark_read(heard->bytes, heard->size, &mark);
        if (mark.kind == MQ_HELD) {
            look_show(z, now, k, heard, &mark);
        }
    }
}

void snib__mq_look_begin(struct snib__mq *z, snib_instant now,
                         struct mq_step *k)
{
    char queue[MQ_QUEUE_MAX];
    const struct snib__amqp_queue ask = {.name = queue, .passive = true};
    snib__buf_clear(k->r->said.result); /* it may be asked for again */
    k->r->said.valid_from = now;
    k->r->said.left = (snib_duration){0};
    k->at = 0;
    snib__mq_queue(k->r->name, queue);
    if (!snib__mq_chan_open(z, now, &k->chan, look_heard)) {
        snib__mq_step_answer(z, now, k, SNIB__NOT_APPLIED, SNIB_ERR_LIMIT,
                             "this connection has no channel left");
        return;
    }
    snib__mq_step_asks(z, k, snib__after(now, z->request));
    snib__amqp_put_consume(snib__mq_out(z), k->chan.number, SNIB__AMQP_REPLIES,
                           true);
    snib__amqp_put_declare(snib__mq_out(z), k->chan.number, &ask);
    snib__mq_chan_asks(z, now, &k->chan, 2);
}
