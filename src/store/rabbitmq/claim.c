/* store/rabbitmq/claim.c — what this client has at the broker for a request: a
 * channel, on which it consumes from the lock's queue. Its stages are in
 * rabbitmq_i.h; what follows from what it has seen is decided in decide.c, its end
 * in end.c. One of a lock that this client had lately begins at CONSUMES, and ends
 * at LEAVES (lean.c).
 *
 *   JOINS -> TRIES? -> CONSUMES -> WAITS -> LEARNS -> HOLDS -> FREES -> CLOSES
 *                                            ^  v         `-> LEAVES
 *                                          OUTWAITS */
#include <string.h>

#include "base/mem.h"
#include "store/rabbitmq/rabbitmq_i.h"

enum { CLAIM_GRACE_MS = 200 };

/* -- made ------------------------------------------------------------------------- */

static struct mq_claim *claim_new(struct snib__mq *z,
                                  const struct snib__request *r)
{
    struct mq_claim *c = snib__heap_reserve(&z->alarms, z->claims + 1)
                             ? snib__alloc(sizeof *c)
                             : NULL;
    if (c && r->text_size && !(c->about = snib__alloc(r->text_size))) {
        snib__free(c);
        return NULL;
    }
    if (c) {
        memcpy(c->id, r->id, sizeof c->id);
        c->may_queue = r->acquire.may_queue;
        c->floor = r->floor;
        c->wish_ms = snib__to_ms(r->lease);
        c->about_size = r->text_size;
        if (r->text_size) {
            memcpy(c->about, r->text, r->text_size);
        }
        if (r->token) {
            memcpy(c->prior, r->prior_id, sizeof c->prior);
            c->prior_token = r->token;
        }
        c->hash = r->name->hash;
        snib__mq_queue(r->name, c->queue);
    }
    return c;
}

struct mq_claim *snib__mq_claim_make(struct snib__mq *z, snib_instant now,
                                     const struct snib__request *r,
                                     snib_err *ret_err)
{
    struct mq_claim *c = claim_new(z, r);
    *ret_err = c ? SNIB_ERR_LIMIT : SNIB_ERR_NOMEM;
    if (!c ||
        !(snib__mq_lean_open(z, now, c) ||
          snib__mq_channel_open(z, now, &c->channel, snib__mq_claim_heard))) {
        if (c) {
            snib__mq_claim_free(c);
        }
        return NULL;
    }
    c->since = now;
    snib__mq_claim_add(z, c);
    if (c->lean) {
        snib__mq_claim_consume(z, now, c);
    } else {
        snib__mq_claim_join(z, now, c);
    }
    return c;
}

/* -- messages ------------------------------------------------------------------------- */

/* The message says the longest lease that was promised: a shorter renewal does not
 * take back what the owner may believe. */
void snib__mq_claim_renew(struct snib__mq *z, snib_instant now,
                          struct mq_claim *c, int64_t lease_ms)
{
    c->lease_ms = lease_ms > c->lease_ms ? lease_ms : c->lease_ms;
    c->wish_ms = c->lease_ms;
    (void)snib__mq_claim_send(z, now, c, MQ_HELD); /* by its own token */
    if (c->older_tag) { /* else it cannot come back: lean.c */
        snib__mq_claim_ack(z, now, c, c->older_tag);
        c->older_tag = 0;
    }
}

/* Its lease is over, and nobody has renewed it. */
static void claim_expired(struct snib__mq *z, snib_instant now,
                          struct mq_claim *c)
{
    static const struct mq_heard over = {
        .lost = true, .err = SNIB_ERR_LOST, .text = "its lease is over"};
    struct mq_step *k = c->step;
    c->step = NULL;
    snib__out_ended(z->out, c->id);
    snib__mq_claim_end(z, now, c);
    if (k) {
        k->told->lost(z, now, k, &over);
    }
}

/* Too late it is none: others may have been the active ones meanwhile, and held. */
static void claim_renewed(struct snib__mq *z, snib_instant now,
                          struct mq_claim *c, uint64_t tag)
{
    struct mq_step *k = c->step;
    if (snib__reached(now, c->timer.at)) {
        claim_expired(z, now, c);
        return;
    }
    if (c->lean) {
        c->older_tag = c->own_tag;
    } else {
        snib__mq_claim_ack(z, now, c, c->own_tag);
    }
    c->own_tag = tag;
    c->own_serial = c->last.serial;
    c->valid_from = c->sent;
    snib__heap_set(&z->alarms, &c->timer,
                   snib__after(c->valid_from, snib__ms(c->lease_ms)));
    if (k) {
        k->told->renewed(z, now, k, c);
    }
}

/* To who holds, others' messages say nothing; but one with a higher token says that
 * somebody else was granted the lock since. Its own HELD comes again if the broker
 * had taken it for gone, and has thought better of it: then that is the one that
 * lies in the queue. Who only goes leaves what others have said to the next one. */
static void claim_stray(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c, const struct mq_seen *seen)
{
    static const struct mq_heard over = {
        .lost = true,
        .err = SNIB_ERR_LOST,
        .text = "the queue has the grant of somebody else, who came later"};
    const struct mq_message *m = &seen->says;
    bool other = m->id[0] != c->id[0] || m->id[1] != c->id[1];
    bool grants = m->kind == MQ_HELD || m->kind == MQ_FREE;
    if (c->stage == MQ_HOLDS && other && grants && m->token > c->token) {
        snib__mq_claim_lost(z, now, c, &over);
    } else if (c->stage == MQ_HOLDS && !other && m->kind == MQ_HELD &&
               m->serial == c->own_serial) {
        c->own_tag = seen->tag;
        c->older_tag = 0; /* it came again, too, and was acknowledged */
    } else if (c->stage == MQ_HOLDS || !other || !grants) {
        snib__mq_claim_ack(z, now, c, seen->tag);
    }
}

/* What is kept until the grant is what may say who holds, and with which token. A
 * lean one keeps by its own HELD what that outdoes (lean.c). */
static void claim_keep(struct snib__mq *z, snib_instant now, struct mq_claim *c,
                       const struct mq_seen *seen)
{
    static const struct mq_heard full = {
        .lost = true,
        .err = SNIB_ERR_STORE,
        .text = "too many messages lie in the lock's queue, or there is no "
                "memory for them; rabbitmqctl purge_queue empties it when "
                "nobody holds"};
    if (seen->says.kind != MQ_HELD && seen->says.kind != MQ_FREE) {
        snib__mq_claim_ack(z, now, c, seen->tag);
    } else if (!snib__mq_view_add(&c->view, seen)) {
        snib__mq_claim_lost(z, now, c, &full);
        return;
    }
    bool keeps = c->lean && seen->says.kind == MQ_HELD &&
                 seen->says.id[0] == c->id[0] && seen->says.id[1] == c->id[1];
    for (uint64_t tag; !keeps && (tag = snib__mq_view_prune(&c->view));) {
        snib__mq_claim_ack(z, now, c, tag);
    }
    snib__mq_claim_decide(z, now, c);
}

/* The message was sent before it was seen at first, so that is when the lease is
 * counted from. A renewal has another serial. */
static snib_instant claim_first_seen(struct snib__mq *z, snib_instant now,
                                     const struct mq_message *m)
{
    struct mq_seen *f = &z->first[(m->id[0] ^ m->serial) % MQ_FIRSTS];
    bool same = f->came.ns && f->says.serial == m->serial &&
                f->says.id[0] == m->id[0] && f->says.id[1] == m->id[1];
    if (!same) {
        *f = (struct mq_seen){.says = *m, .came = now};
    }
    return f->came;
}

static void claim_message(struct snib__mq *z, snib_instant now,
                          struct mq_claim *c, const struct mq_heard *heard)
{
    struct mq_seen seen = {.tag = heard->tag, .came = now};
    snib__mq_message_read(heard->bytes, heard->size, &seen.says);
    const struct mq_message *m = &seen.says;
    bool its = m->id[0] == c->id[0] && m->id[1] == c->id[1];
    bool own =
        c->due && its && m->serial == c->last.serial && m->kind == c->last.kind;
    bool before = c->stage <= MQ_OUTWAITS;
    if (before && !its && m->kind == MQ_HELD) {
        seen.came = claim_first_seen(z, now, m);
    }
    if (own) {
        c->due = false;
        c->learned = true;
    }
    if (before) {
        claim_keep(z, now, c, &seen);
    } else if (own && c->stage == MQ_HOLDS) {
        claim_renewed(z, now, c, seen.tag);
    } else if (own && c->stage == MQ_FREES) {
        snib__mq_end_freed(z, now, c, seen.tag);
    } else {
        claim_stray(z, now, c, &seen);
    }
}

/* -- answers -------------------------------------------------------------------------- */

/* A queue that was only just made may not take consumers yet: RabbitMQ (3.10)
 * closes the whole connection then. A message is confirmed when it is there. */
static void claim_wake(struct snib__mq *z, snib_instant now, struct mq_claim *c)
{
    snib__amqp_put_plain(snib__mq_out(z), c->channel.number,
                         SNIB__AMQP_CONFIRM);
    snib__mq_channel_asks(z, now, &c->channel, 1);
    snib__mq_claim_seed(z, now, c);
    c->woken = c->woken ? c->woken : c->channel.published;
    snib__heap_set(&z->alarms, &c->timer,
                   snib__after(now, snib__ms(CLAIM_GRACE_MS)));
}

/* Is that message there, or only one that was sent before on a channel that confirms? */
static bool claim_is_woken(const struct mq_claim *c)
{
    return c->seeded.ns && c->channel.confirmed >= c->woken;
}

/* Where nothing is ready somebody holds, or nothing is there at all: a message of
 * no meaning gets whoever is first going. */
void snib__mq_claim_declared(struct snib__mq *z, snib_instant now,
                             struct mq_claim *c,
                             const struct snib__amqp_method *m)
{
    bool follows = c->prior[0] | c->prior[1];
    c->alone = !m->consumers;
    if (c->alone && !m->messages) {
        claim_wake(z, now, c);
    } else if (!c->alone && !c->may_queue && !follows) {
        snib__mq_try_begin(z, now, c);
    } else {
        snib__mq_claim_consume(z, now, c);
        if (!m->messages) {
            snib__mq_claim_seed(z, now, c);
        }
    }
}

static snib_duration claim_grace(const struct snib__mq *z)
{
    int64_t quarter_ms = snib__to_ms(z->request) / 4;
    return snib__ms(quarter_ms < CLAIM_GRACE_MS ? quarter_ms : CLAIM_GRACE_MS);
}

/* The own grant that it ends went with its connection: whoever comes first would
 * wait for the rest of its lease. */
static void claim_free_prior(struct snib__mq *z, snib_instant now,
                             struct mq_claim *c)
{
    const struct mq_message says = {.kind = MQ_FREE,
                                    .id = {c->prior[0], c->prior[1]},
                                    .token = c->prior_token,
                                    .serial = ++z->serial};
    const struct snib__amqp_message to = {.queue = c->queue};
    snib__mq_publish(z, &c->channel, &says, NULL, 0, &to);
    snib__mq_channel_asks(z, now, &c->channel, 0);
}

static void claim_consumes(struct snib__mq *z, snib_instant now,
                           struct mq_claim *c)
{
    struct mq_claim *prior = snib__mq_claim_find(z, c->prior);
    snib__mq_claim_joined(z, c);
    if (c->stage == MQ_CONSUMES) {
        c->stage = MQ_WAITS;
        if (c->step && c->may_queue && !c->alone) {
            c->step->told->queued(z, now, c->step, MQ_NOT_KNOWN);
        } else {
            snib__heap_set(&z->alarms, &c->timer,
                           snib__after(now, claim_grace(z)));
        }
    }
    if (prior && prior != c) {
        snib__mq_claim_end(z, now, prior);
    } else if (!prior && c->prior_token && z->orphans) {
        claim_free_prior(z, now, c);
    }
}

static void claim_method(struct snib__mq *z, snib_instant now,
                         struct mq_claim *c, const struct mq_heard *heard)
{
    static const struct mq_heard gone = {
        .lost = true,
        .err = SNIB_ERR_LOST,
        .text = "the lock's queue was removed at the broker"};
    switch (heard->method->id) {
    case SNIB__AMQP_DECLARE_OK:
        if (c->stage == MQ_JOINS) { /* else it is that of a note (end.c) */
            snib__mq_claim_declared(z, now, c, heard->method);
        }
        break;
    case SNIB__AMQP_ACK:
        if (c->stage == MQ_FREES &&
            snib__mq_channel_is_confirmed(&c->channel)) {
            snib__mq_end_freed(z, now, c, 0);
        } else if (c->stage == MQ_JOINS && claim_is_woken(c)) {
            snib__heap_remove(&z->alarms, &c->timer);
            snib__mq_claim_consume(z, now, c);
        }
        break;
    case SNIB__AMQP_CONSUME_OK:
        claim_consumes(z, now, c);
        break;
    case SNIB__AMQP_CANCEL:
    case SNIB__AMQP_RETURN:
        snib__mq_lean_forget(z, c);
        snib__mq_claim_lost(z, now, c, &gone);
        break;
    default:
        break;
    }
}

void snib__mq_claim_heard(struct snib__mq *z, snib_instant now,
                          struct mq_channel *channel,
                          const struct mq_heard *heard)
{
    struct mq_claim *c = (struct mq_claim *)(void *)channel;
    if (c->stage >= MQ_CLOSES) {
        snib__mq_end_heard(z, now, c, heard);
    } else if (c->stage == MQ_LEAVES) {
        snib__mq_lean_heard(z, now, c, heard);
    } else if (heard->lost) {
        if (!snib__mq_lean_missed(z, now, c, heard)) {
            snib__mq_claim_lost(z, now, c, heard);
        }
    } else if (c->stage == MQ_TRIES) {
        snib__mq_try_heard(z, now, c, heard);
    } else if (heard->method) {
        claim_method(z, now, c, heard);
    } else if (heard->answers) {
        snib__mq_try_answered(z, now, c, heard);
    } else {
        claim_message(z, now, c, heard);
    }
}

/* -- time ------------------------------------------------------------------------------ */

static void claim_alarm(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c)
{
    static const struct mq_heard away = {
        .lost = true,
        .err = SNIB_ERR_LOST,
        .text = "the message that gives it back has not come back"};
    switch (c->stage) {
    case MQ_JOINS: /* the message that wakes it was lost */
        c->seeded.ns = 0;
        claim_wake(z, now, c);
        break;
    case MQ_TRIES:
        snib__mq_try_heard(z, now, c, NULL);
        break;
    case MQ_WAITS: /* nothing has come */
        if (!c->may_queue) {
            snib__mq_try_waits(z, now, c);
        } else if (c->step) {
            c->step->told->queued(z, now, c->step, MQ_NOT_KNOWN);
        } else {
            c->quiet = true;
        }
        break;
    case MQ_LEARNS: /* on another channel, if this one takes nothing any more */
        if (!snib__mq_lean_again(z, now, c)) {
            snib__mq_claim_probe(z, now, c);
        }
        break;
    case MQ_OUTWAITS:
        snib__mq_claim_probe(z, now, c);
        break;
    case MQ_HOLDS:
        claim_expired(z, now, c);
        break;
    case MQ_FREES: /* it is the active one no more */
    case MQ_LEAVES:
        snib__mq_claim_lost(z, now, c, &away);
        break;
    case MQ_CONSUMES:
    case MQ_CLOSES:
        break;
    }
}

void snib__mq_claims_tick(struct snib__mq *z, snib_instant now)
{
    struct snib__timer *t;
    while ((t = snib__heap_min(&z->alarms)) && snib__reached(now, t->at)) {
        struct mq_claim *c = SNIB__CONTAINER(t, struct mq_claim, timer);
        snib__heap_remove(&z->alarms, t);
        claim_alarm(z, now, c);
    }
}
