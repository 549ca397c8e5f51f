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
enum { LOOK_ASKS, LOOK_HEARS, LOOK_READS }; /* mq_step.at */

#define LOOK_GONE                                                              \
    "program=a%20holder%20that%20went%20without%20giving%20it%20back"
#define LOOK_SILENT "program=a%20holder%20that%20does%20not%20answer"

/* -- the holder ------------------------------------------------------------------ */

static void look_reply(struct snib__mq *z, snib_instant now, struct mq_claim *c,
                       const char *reply_to, const struct mq_mark *mark,
                       struct snib__buf *about)
{
    const struct snib__amqp_message to = {.queue = reply_to,
                                          .may_vanish = true};
    if (!about->failed) {
        snib__mq_publish(z, &c->chan, mark,
                         (const char *)snib__buf_bytes(about),
                         snib__buf_size(about), &to);
        snib__mq_chan_asks(z, now, &c->chan, 0);
    }
}

/* For who went without giving back, the one who waits for its lease answers. */
void snib__mq_look_answer(struct snib__mq *z, snib_instant now,
                          struct mq_claim *c, const char *reply_to)
{
    bool holds = c->stage == MQ_HOLDS;
    snib_instant until = holds
                             ? snib__after(c->valid_from, snib__ms(c->lease_ms))
                             : snib__mq_view_until(&c->view, c->id);
    struct mq_mark mark = {.kind = MQ_HELD,
                           .id = {c->id[0], c->id[1]},
                           .token = holds ? c->token
                                          : snib__mq_view_token(&c->view, 0),
                           .lease_ms = snib__to_ms(snib__between(now, until))};
    struct snib__buf about;
    if ((!holds && c->stage != MQ_OUTWAITS) || !*reply_to ||
        mark.lease_ms <= 0) {
        return;
    }
    snib__buf_init(&about, MQ_MARK_MAX);
    snib__buf_printf(
        &about, "client=%016llx%016llx&age=%018lld\n",
        (unsigned long long)(holds ? z->client[0] : 0),
        (unsigned long long)(holds ? z->client[1] : 0),
        (long long)(holds ? snib__to_ms(snib__between(c->since, now)) : 0));
    if (holds) {
        snib__buf_add(&about, c->about, c->about_size);
    } else {
        snib__buf_puts(&about, LOOK_GONE);
    }
    look_reply(z, now, c, reply_to, &mark, &about);
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
    look_over(z, now, k);
}

static void look_nobody(struct snib__mq *z, snib_instant now, struct mq_step *k,
                        const char *about, snib_instant until, int64_t token)
{
    const struct snib__stored_claim row = {.state = SNIB__HOLDS,
                                           .kind = SNIB_KIND_MUTEX,
                                           .permits = 1,
                                           .token = token,
                                           .since = now,
                                           .until = until};
    look_lock_row(k, token);
    snib__rules_row(k->r->said.result, now, &row, about, strlen(about));
    look_over(z, now, k);
}

void snib__mq_look_tick(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    if (k->at == LOOK_HEARS) {
        look_nobody(z, now, k, LOOK_SILENT, snib__after(now, snib__ms(1)), 0);
    } else {
        snib__mq_step_answer(z, now, k, SNIB__NOT_APPLIED, SNIB_ERR_UNREACHABLE,
                             "no answer within the time allowed");
    }
}

/* Nobody consumes: what lies in the queue is read, and goes back with the
 * channel. */
static void look_read(struct snib__mq *z, snib_instant now, struct mq_step *k,
                      const struct mq_heard *heard)
{
    const uint64_t nobody[2] = {0, 0};
    struct mq_seen seen = {.tag = heard->tag, .came = now};
    snib__mq_mark_read(heard->bytes, heard->size, &seen.mark);
    if (!snib__mq_view_add(&k->view, &seen)) {
        snib__mq_step_answer(z, now, k, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM,
                             NULL);
        return;
    }
    if (--k->due) {
        return;
    }
    snib_instant until = snib__mq_view_until(&k->view, nobody);
    int64_t token = snib__mq_view_token(&k->view, 0);
    if (until.ns) {
        look_nobody(z, now, k, LOOK_GONE, until, token);
    } else {
        look_lock_row(k, token);
        look_over(z, now, k);
    }
}

static void look_declared(struct snib__mq *z, snib_instant now,
                          struct mq_step *k, const struct snib__amqp_method *m)
{
    const struct mq_mark who = {.kind = MQ_WHO,
                                .id = {k->r->id[0], k->r->id[1]}};
    char queue[MQ_QUEUE_MAX];
    const struct snib__amqp_message to = {
        .queue = queue, .expires_ms = 5000, .reply_to = SNIB__AMQP_REPLIES};
    snib__mq_queue(k->r->name, queue);
    if (!m->consumers && m->messages) {
        k->at = LOOK_READS;
        k->due = m->messages;
        snib__amqp_put_consume(snib__mq_out(z), k->chan.number, queue, false);
        snib__mq_chan_asks(z, now, &k->chan, 1);
        return;
    }
    if (!m->consumers) {
        look_lock_row(k, 0);
        look_over(z, now, k);
        return;
    }
    k->at = LOOK_HEARS;
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
    } else if (!heard->method && k->at == LOOK_READS) {
        look_read(z, now, k, heard);
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
    k->at = LOOK_ASKS;
    snib__mq_view_free(&k->view);
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
