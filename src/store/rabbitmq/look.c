/* store/rabbitmq/look.c — inspect and list, by what those say who are there (presence.c).
 * Where nobody consumes, what lies in the queue is read: a holder may have gone
 * without giving back. It goes back with the channel. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "base/mem.h"
#include "core/rules/rules.h"
#include "store/rabbitmq/rabbitmq_i.h"

enum {
    LOOK_MOST_MS = 500,          /* for who does not answer */
    LOOK_QUIET_MS = 50,          /* behind an answer, for the next one */
    LOOK_LIST_MS = LOOK_MOST_MS, /* a list waits so long at least */
    LOOK_PATTERN_MAX = 900
};
enum { LOOK_ASKS, LOOK_HEARS, LOOK_READS }; /* mq_step.at */

/* A holder of whom nothing else is known. */
#define LOOK_SILENT                                                            \
    "host=a%20silent%20client&program=a%20holder%20that%20does%20not%20answer"

static bool look_lists(const struct mq_step *k)
{
    return k->r->verb == SNIB__LIST;
}

static void look_over(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    bool full = k->r->said.result->failed || k->answers.failed;
    snib__mq_step_answer(z, now, k, full ? SNIB__NOT_APPLIED : SNIB__DONE,
                         full ? SNIB_ERR_NOMEM : SNIB_ERR_OK, NULL);
}

static void look_lock_row(struct mq_step *k, const char *name, size_t size,
                          int64_t token)
{
    struct snib__buf *out = k->r->said.result;
    snib__rec_row(out, SNIB__ROW_LOCK);
    snib__rec_bytes(out, SNIB__F_NAME, name, size);
    snib__rec_i64(out, SNIB__F_TOKEN, token);
}

/* -- those who are there ------------------------------------------------------------ */

/* All answers, taken apart; NULL: there are none, or there is no memory. */
static struct mq_presence *look_read_all(struct mq_step *k, uint32_t *ret_count)
{
    const char *at = (const char *)snib__buf_bytes(&k->answers);
    const char *end = at + snib__buf_size(&k->answers);
    struct mq_presence *all = snib__alloc((k->answered + 1) * sizeof *all);
    uint32_t n = 0, size;
    for (; all && at < end && n < k->answered; at += size) {
        memcpy(&size, at, sizeof size);
        at += sizeof size;
        n += snib__mq_presence_read(at, size, &all[n]);
    }
    *ret_count = n;
    k->answers.failed = k->answers.failed || !all;
    return all;
}

static int look_compare_queues(const struct mq_presence *a,
                               const struct mq_presence *b)
{
    size_t n = a->queue_size < b->queue_size ? a->queue_size : b->queue_size;
    int order = memcmp(a->queue, b->queue, n);
    return order ? order
                 : (a->queue_size > b->queue_size) -
                       (a->queue_size < b->queue_size);
}

/* By queue; who holds first, then those that wait, the oldest first. */
static int look_compare(const void *x, const void *y)
{
    const struct mq_presence *a = x, *b = y;
    int order = look_compare_queues(a, b);
    bool holds = a->says.kind == MQ_HELD, other = b->says.kind == MQ_HELD;
    return order            ? order
           : holds != other ? other - holds
                            : (a->age_ms < b->age_ms) - (a->age_ms > b->age_ms);
}

static void look_row(struct mq_step *k, snib_instant now,
                     const struct mq_presence *p)
{
    bool holds = p->says.kind == MQ_HELD;
    bool gone = holds && !(p->client[0] | p->client[1]);
    const struct snib__stored_claim row = {
        .request = {p->says.id[0], p->says.id[1]},
        .client = {p->client[0], p->client[1]},
        .state = holds ? SNIB__HOLDS : SNIB__WAITS,
        .kind = SNIB_KIND_MUTEX,
        .permits = 1,
        .token = p->says.token,
        .since = snib__before(now, snib__ms(p->age_ms)),
        .delay = snib__ms(gone ? p->says.lease_ms : 0),
        .until = gone ? now
                      : snib__after(now, snib__ms(holds ? p->says.lease_ms
                                                        : LOOK_MOST_MS))};
    snib__rules_row(k->r->said.result, now, &row, p->about, p->about_size);
}

/* A holder who has not answered himself: he holds for so long still; or he did, and
 * whoever comes now waits for `delay`. */
static void look_nobody(struct mq_step *k, snib_instant now, const char *about,
                        snib_duration holds, snib_duration delay)
{
    const struct snib__stored_claim row = {.state = SNIB__HOLDS,
                                           .kind = SNIB_KIND_MUTEX,
                                           .permits = 1,
                                           .since = now,
                                           .delay = delay,
                                           .until = snib__after(now, holds)};
    snib__rules_row(k->r->said.result, now, &row, about, strlen(about));
}

/* The answers of one queue, in their order: the lock's row, and theirs. */
static void look_rows(struct mq_step *k, snib_instant now, const char *name,
                      size_t size, const struct mq_presence *all, uint32_t n)
{
    int64_t token = 0;
    for (uint32_t i = 0; i < n; i++) {
        token = all[i].says.token > token ? all[i].says.token : token;
    }
    look_lock_row(k, name, size, token);
    if (!look_lists(k) && !k->held) {
        look_nobody(k, now, LOOK_SILENT, snib__ms(1), (snib_duration){0});
    }
    for (uint32_t i = 0; i < n; i++) {
        look_row(k, now, &all[i]);
    }
}

/* -- one lock ------------------------------------------------------------------------- */

static void look_declare(struct snib__mq *z, snib_instant now,
                         struct mq_step *k)
{
    char queue[MQ_QUEUE_MAX];
    const struct snib__amqp_queue ask = {.name = queue, .passive = true};
    snib__mq_queue(k->r->name, queue);
    snib__amqp_put_declare(snib__mq_out(z), k->channel.number, &ask);
    snib__mq_channel_asks(z, now, &k->channel, 1);
}

/* Nobody has answered any more for a while. Where no holder has, somebody may only
 * have looked, too, or was about to go or to be granted it: once more. */
static void look_one(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    uint32_t n;
    if (!k->held && !k->again && !snib__reached(now, k->r->exec.patience)) {
        k->again = true;
        k->at = LOOK_ASKS;
        snib__mq_step_asks(z, k, snib__after(now, z->request));
        look_declare(z, now, k);
        return;
    }
    struct mq_presence *all = look_read_all(k, &n);
    if (all) {
        qsort(all, n, sizeof *all, look_compare);
        look_rows(k, now, k->r->name->raw, k->r->name->raw_size, all, n);
    }
    snib__free(all);
    look_over(z, now, k);
}

/* Until when somebody who went may still believe. The lease counts from when this
 * client saw that grant without its holder first, as for one that waits: else
 * whoever looks again and again would see no end of it. */
static snib_instant look_until(struct snib__mq *z, snib_instant now,
                               struct mq_step *k)
{
    const uint64_t nobody[2] = {0, 0};
    uint64_t print = 0;
    for (uint32_t i = 0; i < k->view.count; i++) {
        const struct mq_message *m = &k->view.seen[i].says;
        print ^= m->kind == MQ_HELD ? m->id[0] + m->serial : 0;
    }
    if (print != z->dead_print) {
        z->dead_print = print;
        z->dead_since = now;
    }
    for (uint32_t i = 0; i < k->view.count; i++) {
        k->view.seen[i].came = z->dead_since;
    }
    return snib__mq_view_until(&k->view, nobody);
}

static void look_read(struct snib__mq *z, snib_instant now, struct mq_step *k,
                      const struct mq_heard *heard)
{
    struct mq_seen seen = {.tag = heard->tag, .came = now};
    snib__mq_message_read(heard->bytes, heard->size, &seen.says);
    bool kept = snib__mq_view_add(&k->view, &seen);
    while (kept && snib__mq_view_prune(&k->view)) {
        /* it goes back with the others */
    }
    if (!kept) {
        snib__mq_step_answer(z, now, k, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM,
                             NULL);
        return;
    }
    if (--k->due) {
        return;
    }
    snib_instant until = look_until(z, now, k);
    look_lock_row(k, k->r->name->raw, k->r->name->raw_size,
                  snib__mq_view_token(&k->view, 0));
    if (!snib__reached(now, until)) {
        look_nobody(k, now, MQ_GONE, (snib_duration){0},
                    snib__between(now, until));
    }
    look_over(z, now, k);
}

/* -- all of them ------------------------------------------------------------------------ */

static void look_shown(struct mq_step *k, snib_instant now,
                       const struct mq_presence *all, uint32_t n)
{
    char name[SNIB_NAME_MAX];
    size_t size =
        all->queue_size > 7 && !memcmp(all->queue, "snib.l.", 7)
            ? snib__name_decode(all->queue + 7, all->queue_size - 7, name)
            : 0;
    if (size && snib__glob(k->r->text, k->r->text_size, name, size)) {
        look_rows(k, now, name, size, all, n);
    }
}

static void look_all(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    uint32_t n, end;
    struct mq_presence *all = look_read_all(k, &n);
    if (all) {
        qsort(all, n, sizeof *all, look_compare);
    }
    for (uint32_t i = 0; all && i < n; i = end) {
        for (end = i + 1;
             end < n && !look_compare_queues(&all[i], &all[end]);) {
            end++;
        }
        look_shown(k, now, &all[i], end - i);
    }
    snib__free(all);
    look_over(z, now, k);
}

/* -- on its way -------------------------------------------------------------------------- */

/* Where messages were to be read somebody has come meanwhile, and has them. */
static void look_late(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    if (k->at == LOOK_HEARS && look_lists(k)) {
        look_all(z, now, k);
    } else if (k->at == LOOK_HEARS) {
        look_one(z, now, k);
    } else if (k->at == LOOK_READS &&
               !snib__reached(now, k->r->exec.patience)) {
        snib__mq_channel_drop(z, now, &k->channel);
        snib__mq_step_asks(z, k, snib__after(now, z->request));
        snib__mq_step_again(z, k);
    } else {
        snib__mq_step_answer(z, now, k, SNIB__NOT_APPLIED, SNIB_ERR_UNREACHABLE,
                             "no answer within the time allowed");
    }
}

/* Until who is there has answered: a holder, and nobody more for a while. */
static void look_patience(struct snib__mq *z, snib_instant now,
                          struct mq_step *k)
{
    bool held = k->held || look_lists(k);
    snib_instant least =
        snib__after(k->begun, snib__ms(look_lists(k) ? LOOK_LIST_MS : 0));
    snib_instant until =
        held ? snib__later(least, snib__after(now, snib__ms(LOOK_QUIET_MS)))
             : snib__after(k->begun, snib__ms(LOOK_MOST_MS));
    snib__mq_step_asks(z, k, until);
}

static void look_ask(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    struct mq_message who = {.kind = MQ_WHO,
                             .id = {k->r->id[0], k->r->id[1]},
                             .serial = look_lists(k)};
    char queue[MQ_QUEUE_MAX] = "";
    const struct snib__amqp_message to = {
        .queue = "", .may_vanish = true, .reply_to = SNIB__AMQP_REPLIES};
    if (!look_lists(k)) {
        snib__mq_queue(k->r->name, queue);
    }
    k->at = LOOK_HEARS;
    k->begun = now;
    k->answered = 0;
    snib__buf_clear(&k->answers);
    snib__mq_publish(z, &k->channel, &who, look_lists(k) ? k->r->text : queue,
                     look_lists(k) ? k->r->text_size : strlen(queue), &to);
    snib__mq_channel_asks(z, now, &k->channel, 0);
    look_patience(z, now, k);
}

static void look_declared(struct snib__mq *z, snib_instant now,
                          struct mq_step *k, const struct snib__amqp_method *m)
{
    char queue[MQ_QUEUE_MAX];
    snib__mq_queue(k->r->name, queue);
    if (m->consumers) {
        look_ask(z, now, k);
    } else if (m->messages) {
        k->at = LOOK_READS;
        k->due = m->messages;
        snib__mq_step_asks(z, k, snib__after(now, snib__ms(LOOK_MOST_MS)));
        snib__mq_channel_consume(z, now, &k->channel, queue);
    } else {
        look_lock_row(k, k->r->name->raw, k->r->name->raw_size, 0);
        look_over(z, now, k);
    }
}

static void look_message(struct snib__mq *z, snib_instant now,
                         struct mq_step *k, const struct mq_heard *heard)
{
    struct mq_presence p;
    uint32_t size = (uint32_t)heard->size;
    if (k->at == LOOK_READS && !heard->answers) {
        look_read(z, now, k, heard);
    } else if (k->at == LOOK_HEARS && heard->answers &&
               snib__mq_presence_read(heard->bytes, heard->size, &p)) {
        k->answered++;
        k->held = k->held || p.says.kind == MQ_HELD;
        snib__buf_add(&k->answers, &size, sizeof size);
        snib__buf_add(&k->answers, heard->bytes, heard->size);
        look_patience(z, now, k);
    }
}

static void look_lost(struct snib__mq *z, snib_instant now, struct mq_step *k,
                      const struct mq_heard *heard)
{
    if (!snib__mq_is_ready(&z->session)) {
        snib__mq_step_again(z, k);
    } else if (heard->err == SNIB_ERR_LOST && !look_lists(k)) {
        look_lock_row(k, k->r->name->raw, k->r->name->raw_size, 0);
        look_over(z, now, k); /* nobody has asked for it yet */
    } else {
        snib__mq_step_answer(z, now, k, SNIB__NOT_APPLIED, heard->err,
                             heard->text);
    }
}

static void look_heard(struct snib__mq *z, snib_instant now,
                       struct mq_channel *channel, const struct mq_heard *heard)
{
    struct mq_step *k = snib__mq_step_of(channel);
    uint32_t id = heard->method ? heard->method->id : 0;
    if (heard->lost) {
        look_lost(z, now, k, heard);
    } else if (!heard->method) {
        look_message(z, now, k, heard);
    } else if (id == SNIB__AMQP_DECLARE_OK) {
        look_declared(z, now, k, heard->method);
    } else if (id == SNIB__AMQP_CONSUME_OK && look_lists(k)) {
        look_ask(z, now, k);
    }
}

static void look_begin(struct snib__mq *z, snib_instant now, struct mq_step *k)
{
    snib__buf_clear(k->r->said.result); /* it may be asked for again */
    snib__mq_view_free(&k->view);
    k->held = k->again = false;
    k->r->said.valid_from = now;
    k->r->said.left = (snib_duration){0};
    k->at = LOOK_ASKS;
    if (look_lists(k) && k->r->text_size > LOOK_PATTERN_MAX) {
        snib__mq_step_answer(z, now, k, SNIB__NOT_APPLIED, SNIB_ERR_USAGE,
                             "rabbitmq: a pattern is at most 900 bytes");
        return;
    }
    if (!snib__mq_channel_open(z, now, &k->channel, look_heard)) {
        snib__mq_step_answer(z, now, k, SNIB__NOT_APPLIED, SNIB_ERR_LIMIT,
                             "this connection has no channel left");
        return;
    }
    snib__mq_step_asks(z, k, snib__after(now, z->request));
    snib__mq_channel_hear(z, now, &k->channel, SNIB__AMQP_REPLIES);
    if (!look_lists(k)) {
        look_declare(z, now, k);
    }
}

const struct mq_work snib__mq_look_work = {.begin = look_begin,
                                           .late = look_late};
