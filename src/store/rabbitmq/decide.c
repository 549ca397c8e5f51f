/* store/rabbitmq/decide.c — a claim that messages have come to: is the lock its
 * own? store.c says why this is so.
 *
 * It sends a message of its own, and once that came back it has seen all that lay
 * before it. Then, unless some other grant may last still, its own HELD makes it the
 * holder; what lay there before is done with. */
#include "store/rabbitmq/rabbitmq_i.h"

static void decide_send(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c, mq_kind kind)
{
    static const struct mq_heard most = {
        .lost = true,
        .err = SNIB_ERR_STORE,
        .text = "the tokens of this lock have come to their end (2^53); remove "
                "its queue when nobody holds it"};
    if (!snib__mq_lean_clear(z, now, c)) {
        return;
    }
    c->stage = MQ_LEARNS;
    snib__heap_set(&z->alarms, &c->timer, snib__mq_claim_patience(z, now));
    if (!snib__mq_claim_send(z, now, c, kind)) {
        snib__mq_claim_lost(z, now, c, &most);
    }
}

static void decide_grant(struct snib__mq *z, snib_instant now,
                         struct mq_claim *c)
{
    struct mq_step *k = c->step;
    for (uint32_t i = 0; i < c->view.count; i++) {
        const struct mq_seen *s = &c->view.seen[i];
        if (s->says.serial == c->last.serial && s->says.id[0] == c->id[0] &&
            s->says.id[1] == c->id[1]) {
            c->own_tag = s->tag;
            c->own_serial = s->says.serial;
        } else if (c->lean && s->says.kind == MQ_FREE) {
            c->older_tag = s->tag; /* there is no second one: lean.c */
        } else {
            snib__mq_claim_ack(z, now, c, s->tag);
        }
    }
    snib__mq_view_free(&c->view);
    snib__mq_lean_remember(z, now, c);
    c->stage = MQ_HOLDS;
    c->token = c->last.token;
    c->lease_ms = c->wish_ms;
    c->since = now;
    c->valid_from = c->sent;
    snib__heap_set(&z->alarms, &c->timer,
                   snib__after(c->valid_from, snib__ms(c->lease_ms)));
    if (k) {
        k->told->granted(z, now, k, c);
    } else {
        snib__mq_claim_tell(z, c);
    }
}

static uint64_t decide_own_tag(const struct mq_claim *c)
{
    for (uint32_t i = c->view.count; i-- > 0;) {
        const struct mq_message *m = &c->view.seen[i].says;
        if (m->serial == c->last.serial && m->id[0] == c->id[0] &&
            m->id[1] == c->id[1]) {
            return c->view.seen[i].tag;
        }
    }
    return 0;
}

/* Somebody held, and went without giving it back. */
static void decide_wait(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c, snib_instant until)
{
    struct mq_step *k = c->step;
    snib_duration left = snib__between(now, until);
    if (!snib__mq_lean_clear(z, now, c)) {
        return;
    }
    if (c->may_queue) {
        c->stage = MQ_OUTWAITS;
        snib__heap_set(&z->alarms, &c->timer, until);
        if (k) {
            k->told->queued(z, now, k, left);
        }
        return;
    }
    snib__mq_note_later(z, now, c);
    snib__mq_claim_refuse(z, now, c, left);
}

/* A HELD is sent right behind a delivery alone: a client that is the active one no
 * more, and has not heard so, must not tell the holder that somebody came later. And
 * what it sends may never come back, if the holder of then has acknowledged it. */
void snib__mq_claim_probe(struct snib__mq *z, snib_instant now,
                          struct mq_claim *c)
{
    decide_send(z, now, c, MQ_PROBE);
}

void snib__mq_claim_decide(struct snib__mq *z, snib_instant now,
                           struct mq_claim *c)
{
    snib_instant until = snib__mq_view_until(&c->view, c->id);
    bool blocked = until.ns && !snib__reached(now, until);
    if (c->due) { /* it will know more when that came back */
        (void)snib__mq_lean_clear(z, now, c);
        return;
    }
    if (!c->learned) {
        decide_send(z, now, c, blocked ? MQ_PROBE : MQ_HELD);
    } else if (blocked) {
        decide_wait(z, now, c, until);
    } else if (c->stage == MQ_LEARNS && c->last.kind == MQ_HELD &&
               c->last.token >
                   snib__mq_view_token(&c->view, decide_own_tag(c))) {
        decide_grant(z, now, c);
    } else {
        decide_send(z, now, c, MQ_HELD);
    }
}
