/* store/rabbitmq/message.h — the messages in a lock's queue, and what follows from
 * those that a consumer has seen; for this folder only. */
#ifndef SNIB__RABBITMQ_MESSAGE_H
#define SNIB__RABBITMQ_MESSAGE_H

#include "core/store.h"

enum { MQ_QUEUE_MAX = 256 /* of a queue's name, with its NUL */ };

/* What a message in a lock's queue says. */
typedef enum mq_kind {
    MQ_FOREIGN, /* it is none of ours */
    MQ_SEED,    /* nothing: so that somebody hears */
    MQ_PROBE,   /* nothing: who sent it is to get it back */
    MQ_WHO,     /* somebody asks who holds and who waits (presence.c) */
    MQ_HELD,    /* this request holds, or is about to, for a lease */
    MQ_FREE,    /* what this request has said before is over */
    MQ_WAITING  /* an answer to WHO: this request waits */
} mq_kind;

struct mq_message {
    mq_kind kind;
    uint64_t id[2];   /* of the request */
    int64_t token;    /* no grant before this message had a higher one */
    int64_t lease_ms; /* HELD */
    uint64_t serial;  /* its client's messages have rising ones */
};

void snib__mq_message_read(const char *text, size_t size,
                           struct mq_message *ret);
void snib__mq_message_write(const struct mq_message *, const char *about,
                            size_t about_size, struct snib__buf *ret);
/* The queue of this lock; the one in which a note waits for a lease. */
void snib__mq_queue(const struct snib__name *, char ret[MQ_QUEUE_MAX]);
void snib__mq_queue_later(const char *queue, char ret[MQ_QUEUE_MAX]);

/* One that was delivered, and is not acknowledged. */
struct mq_seen {
    struct mq_message says;
    uint64_t tag;
    snib_instant came;
};

/* What an active consumer has seen, in its order. */
struct mq_view {
    struct mq_seen *seen;
    uint32_t count, capacity;
};

/* False: no memory, or it is too much. */
bool snib__mq_view_add(struct mq_view *, const struct mq_seen *);
void snib__mq_view_free(struct mq_view *);
/* Is there a message FREE of this grant that was sent behind this HELD? */
bool snib__mq_view_is_over(const struct mq_view *,
                           const struct mq_message *held);
/* The tag of a message that said nothing any more, and was taken out; 0: none. */
uint64_t snib__mq_view_prune(struct mq_view *);
/* The same of a HELD of this request that was sent before the one with this serial. */
uint64_t snib__mq_view_outdone(struct mq_view *, const uint64_t id[2],
                               uint64_t serial);
/* Until when somebody other than this request may hold; 0: nobody does. */
snib_instant snib__mq_view_until(const struct mq_view *, const uint64_t id[2]);
/* The highest token of all; of all but the message with this tag. */
int64_t snib__mq_view_token(const struct mq_view *, uint64_t but_tag);

#endif
