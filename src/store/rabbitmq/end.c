/* store/rabbitmq/end.c — the end of a claim.
 *
 * What was held is given back by a message FREE, which is in the queue when it came
 * back. Then the channel is closed, and the broker hands what was delivered on it to
 * the next consumer, in one step. (Who had the lock lately keeps its channel: lean.c.)
 *
 * It does that a moment after it has answered. Who waits does not mind; who tries
 * then finds that somebody consumes, and asks who (try.c). */
#include "store/rabbitmq/rabbitmq_i.h"

enum { END_LATER_MS = MQ_LEASE_MOST_MS + 60000, END_LATER_MOST = 8 };

static void end_close(struct snib__mq *z, snib_instant now, struct mq_claim *c)
{
    c->stage = MQ_CLOSES;
    snib__mq_channel_close(z, now, &c->channel);
}

void snib__mq_claim_end(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c)
{
    if (c->stage >= MQ_FREES) {
        return;
    }
    snib__heap_remove(&z->alarms, &c->timer);
    if (c->stage == MQ_OUTWAITS) { /* else the next one begins with its wait */
        snib__mq_note_later(z, now, c);
    }
    if (!c->wrote) {
        end_close(z, now, c);
    } else if (!snib__mq_lean_leave(z, now, c)) {
        (void)snib__mq_claim_send(z, now, c, MQ_FREE); /* it needs no token */
        c->stage = MQ_FREES;
        snib__heap_set(&z->alarms, &c->timer, snib__mq_claim_patience(z, now));
    }
}

/* It may not wait. */
void snib__mq_claim_refuse(struct snib__mq *z, snib_instant now,
                           struct mq_claim *c, snib_duration left)
{
    struct mq_step *k = c->step;
    c->step = NULL;
    snib__mq_claim_end(z, now, c);
    if (k) {
        k->told->refused(z, now, k, left);
    }
}

/* The message FREE has come back, or was confirmed: who has no credit (lean.c), or
 * whose turn it is not, does not get it. It stays, for who comes next; those that it
 * ends go. */
void snib__mq_end_freed(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c, uint64_t tag)
{
    (void)tag;
    if (c->own_tag) {
        snib__mq_claim_ack(z, now, c, c->own_tag);
    }
    for (uint32_t i = 0; i < c->view.count; i++) {
        const struct mq_seen *s = &c->view.seen[i];
        if (s->says.kind == MQ_HELD && s->says.id[0] == c->id[0] &&
            s->says.id[1] == c->id[1]) {
            snib__mq_claim_ack(z, now, c, s->tag);
        }
    }
    c->wrote = false;
    end_close(z, now, c);
}

void snib__mq_end_heard(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c, const struct mq_heard *heard)
{
    if (heard->lost ||
        (heard->method && heard->method->id == SNIB__AMQP_CHANNEL_CLOSE_OK)) {
        snib__mq_claim_over(z, now, c, heard->lost);
    }
}

/* A queue whose messages go to the lock's when their time is over. A note that gets
 * lost is left again by the next one who cannot wait that long. */
void snib__mq_note_later(struct snib__mq *z, snib_instant now,
                         struct mq_claim *c)
{
    char later[MQ_QUEUE_MAX];
    snib__mq_queue_later(c->queue, later);
    const struct snib__amqp_queue queue = {.name = later,
                                           .expires_ms = END_LATER_MS,
                                           .length_max = END_LATER_MOST,
                                           .dead_letter_to = c->queue};
    snib__amqp_put_declare(snib__mq_out(z), c->channel.number, &queue);
    snib__mq_channel_asks(z, now, &c->channel, 1);
    for (uint32_t i = 0; i < c->view.count; i++) {
        const struct mq_seen *s = &c->view.seen[i];
        struct mq_message note = s->says;
        snib_instant until = snib__after(s->came, snib__ms(s->says.lease_ms));
        bool own = note.id[0] == c->id[0] && note.id[1] == c->id[1];
        if (own || note.kind != MQ_HELD || snib__reached(now, until) ||
            snib__mq_view_is_over(&c->view, &note)) {
            continue;
        }
        note.kind = MQ_FREE;
        note.lease_ms = 0;
        const struct snib__amqp_message to = {
            .queue = later,
            .expires_ms = snib__to_ms(snib__between(now, until)) + 1};
        snib__mq_publish(z, &c->channel, &note, NULL, 0, &to);
    }
    snib__mq_channel_asks(z, now, &c->channel, 0);
}
