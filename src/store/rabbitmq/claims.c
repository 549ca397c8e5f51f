/* store/rabbitmq/claims.c — claims by id, and what is done with one whatever it is
 * about: its beginning and its end, its messages. */
#include <string.h>

#include "base/mem.h"
#include "core/rules/rules.h"
#include "store/rabbitmq/rabbitmq_i.h"

enum { CLAIMS_SEED_MS = 10000, CLAIMS_SEED_LIVES_MS = 5000 };

/* -- found, forgotten ------------------------------------------------------ */

static struct snib__list *claims_bucket(struct snib__mq *z,
                                        const uint64_t id[2])
{
    return &z->claim[id[0] % MQ_BUCKETS];
}

static struct mq_claim *claims_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct mq_claim, link);
}

struct mq_claim *snib__mq_claim_find(struct snib__mq *z, const uint64_t id[2])
{
    SNIB__LIST_EACH (l, claims_bucket(z, id)) {
        struct mq_claim *c = claims_of(l);
        if (c->id[0] == id[0] && c->id[1] == id[1]) {
            return c;
        }
    }
    return NULL;
}

void snib__mq_claim_free(struct mq_claim *c)
{
    snib__mq_view_free(&c->view);
    snib__free(c->about);
    snib__free(c);
}

void snib__mq_claim_joined(struct snib__mq *z, struct mq_claim *c)
{
    z->joining -= c->joining;
    c->joining = false;
}

void snib__mq_claim_forget(struct snib__mq *z, snib_instant now,
                           struct mq_claim *c)
{
    z->orphans = z->orphans || c->wrote;
    snib__mq_claim_joined(z, c);
    snib__mq_channel_drop(z, now, &c->channel);
    snib__heap_remove(&z->alarms, &c->timer);
    snib__unlink(&c->link);
    snib__mq_claim_free(c);
    z->claims--;
}

void snib__mq_claims_free(struct snib__mq *z)
{
    for (int i = 0; i < MQ_BUCKETS; i++) {
        struct snib__link *l;
        while ((l = snib__list_pop(&z->claim[i]))) {
            snib__mq_claim_free(claims_of(l));
        }
    }
}

void snib__mq_claim_add(struct snib__mq *z, struct mq_claim *c)
{
    z->claims++;
    z->joining++;
    c->joining = true;
    snib__link_init(&c->link);
    snib__list_push(claims_bucket(z, c->id), &c->link);
}

/* -- told ---------------------------------------------------------------------------- */

void snib__mq_claim_tell(struct snib__mq *z, const struct mq_claim *c)
{
    if (z->tolds < MQ_TOLD) {
        z->told[z->tolds][0] = c->id[0];
        z->told[z->tolds++][1] = c->id[1];
    } else {
        z->told_all = true;
    }
}

/* Who holds is asked for by the core, and hears that it does not any more. */
void snib__mq_claim_lost(struct snib__mq *z, snib_instant now,
                         struct mq_claim *c, const struct mq_heard *why)
{
    struct mq_step *k = c->step;
    if (c->stage == MQ_HOLDS) {
        snib__out_ended(z->out, c->id);
    }
    if (k) {
        k->wrote = c->wrote;
    }
    snib__mq_claim_tell(z, c);
    snib__mq_claim_forget(z, now, c);
    if (k) {
        k->told->lost(z, now, k, why);
    }
}

/* -- begun, over ------------------------------------------------------------------ */

void snib__mq_claim_consume(struct snib__mq *z, snib_instant now,
                            struct mq_claim *c)
{
    c->stage = MQ_CONSUMES;
    snib__mq_channel_consume(z, now, &c->channel, c->queue);
}

void snib__mq_claim_join(struct snib__mq *z, snib_instant now,
                         struct mq_claim *c)
{
    const struct snib__amqp_queue queue = {.name = c->queue,
                                           .quorum = true,
                                           .single_consumer = true,
                                           .expires_ms = MQ_EXPIRES_MS,
                                           .delivery_limit = 1000000};
    snib__amqp_put_declare(snib__mq_out(z), c->channel.number, &queue);
    snib__mq_channel_asks(z, now, &c->channel, 1);
}

/* Where a HELD may lie there still, a FREE is sent once more (orphan.c). */
void snib__mq_claim_over(struct snib__mq *z, snib_instant now,
                         struct mq_claim *c, bool lost)
{
    struct mq_step *k = c->step;
    c->wrote = c->wrote && lost;
    bool ended = !c->wrote;
    snib__mq_claim_forget(z, now, c);
    if (k) {
        k->ended = ended;
        k->phase = MQ_IDLE;
    }
}

/* -- messages ------------------------------------------------------------------------- */

void snib__mq_claim_ack(struct snib__mq *z, snib_instant now,
                        struct mq_claim *c, uint64_t tag)
{
    snib__amqp_put_ack(snib__mq_out(z), c->channel.number, tag, false);
    snib__mq_channel_asks(z, now, &c->channel, 0);
}

/* Above all that was seen, here and by this client; and above what the queue had
 * before it was removed, by the clocks of clients. */
static int64_t claims_next_token(const struct snib__mq *z, snib_instant now,
                                 const struct mq_claim *c)
{
    int64_t seen = snib__mq_view_token(&c->view, 0) + 1;
    int64_t wall = snib__mq_wall_ms(z, now) * 1024;
    int64_t floor = c->floor + 1;
    int64_t most = seen > wall ? seen : wall;
    return most > floor ? most : floor;
}

bool snib__mq_claim_send(struct snib__mq *z, snib_instant now,
                         struct mq_claim *c, mq_kind kind)
{
    const struct snib__amqp_message to = {.queue = c->queue};
    int64_t token = kind == MQ_PROBE ? 0 : c->token;
    if (kind == MQ_HELD && !token) {
        token = claims_next_token(z, now, c);
    }
    if (kind == MQ_FREE && !token) { /* in place of what it has outdone */
        token = snib__mq_view_token(&c->view, 0);
    }
    if (kind == MQ_HELD && !snib__is_token(token)) {
        return false;
    }
    c->last = (struct mq_message){.kind = kind,
                                  .id = {c->id[0], c->id[1]},
                                  .token = token,
                                  .lease_ms = kind == MQ_HELD ? c->wish_ms : 0,
                                  .serial = ++z->serial};
    c->wrote = c->wrote || kind == MQ_HELD;
    c->due = true;
    c->sent = now;
    snib__mq_publish(z, &c->channel, &c->last, c->about, c->about_size, &to);
    snib__mq_channel_asks(z, now, &c->channel, 0);
    return true;
}

/* It goes to who is the active one already, so it need not stay: those of many who
 * wait would all lie before the renewal of a holder whose channel is bound (lean.c). */
void snib__mq_claim_seed(struct snib__mq *z, snib_instant now,
                         struct mq_claim *c)
{
    const struct mq_message seed = {.kind = MQ_SEED,
                                    .id = {c->id[0], c->id[1]}};
    const struct snib__amqp_message to = {.queue = c->queue,
                                          .expires_ms = CLAIMS_SEED_LIVES_MS};
    if (c->stage <= MQ_WAITS &&
        (!c->seeded.ns ||
         snib__reached(now,
                       snib__after(c->seeded, snib__ms(CLAIMS_SEED_MS))))) {
        c->seeded = now;
        snib__mq_publish(z, &c->channel, &seed, NULL, 0, &to);
        snib__mq_channel_asks(z, now, &c->channel, 0);
    }
}
