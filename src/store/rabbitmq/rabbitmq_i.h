/* store/rabbitmq/rabbitmq_i.h — what the store is made of; for the files of this
 * folder only. store.c says how it works, and why two cannot hold one lock. */
#ifndef SNIB__RABBITMQ_I_H
#define SNIB__RABBITMQ_I_H

#include "core/about.h"
#include "core/store.h"
#include "proto/amqp/amqp.h"
#include "store/rabbitmq/message.h"

/* What is known of a holder whose message lies in the queue, and who is not there. */
#define MQ_GONE                                                                \
    "program=a%20holder%20that%20went%20without%20giving%20it%20back"

enum {
    MQ_PORT = 5672,
    MQ_TLS_PORT = 5671,
    MQ_HEARTBEAT_S = 10,
    MQ_CHANNELS = 2047,
    MQ_JOINING = 64, /* so many claims ask for their queues at once */
    MQ_MESSAGE_MAX = SNIB__ABOUT_MAX + 600,
    MQ_BUCKETS = 1024, /* of claims */
    MQ_FIRSTS = 64,    /* grants of others that are remembered */
    MQ_KNOWN = 256,    /* queues that are remembered */
    MQ_POOL = 8,       /* channels that are kept */
    MQ_TOLD = 64,      /* requests to be looked at, not yet asked for */
    MQ_ADDRESS = 100,  /* so much of a server's is shown */
    MQ_TEXT = 252,
    /* A queue without consumers goes after a day; no lease comes near that, nor
     * to the half hour in which a broker wants a message acknowledged. */
    MQ_EXPIRES_MS = 86400000,
    MQ_LEASE_MOST_MS = 600000
};

/* How long somebody may hold still, where nobody has said it. */
#define MQ_NOT_KNOWN ((snib_duration){-1})

struct snib__mq;
struct mq_channel;
struct mq_claim;
struct mq_step;

/* -- channel.c -------------------------------------------------------------- */

/* What a channel is told. */
struct mq_heard {
    /* NULL: a message has come, or (lost) the channel is no more. */
    const struct snib__amqp_method *method;
    bool lost;
    snib_err err; /* lost: why */
    const char *text;
    bool answers; /* a message: it answers to a WHO of this channel's */
    uint64_t tag;
    const char *bytes;
    size_t size;
    const char *reply_to; /* "": nowhere */
};

typedef void mq_heard_fn(struct snib__mq *, snib_instant now,
                         struct mq_channel *, const struct mq_heard *);

struct mq_channel {
    uint16_t number;   /* 0: it is not open */
    bool closing;      /* we have closed it: what comes is not told */
    uint32_t due;      /* answers */
    uint32_t consumer; /* the last one that began here; 0: none has */
    snib_instant opened;
    bool confirms;                 /* what is published is confirmed: */
    uint64_t published, confirmed; /* so much was, and up to here */
    mq_heard_fn *heard;
};

struct snib__buf *snib__mq_out(struct snib__mq *);
/* The connection is to be cut at the end of the step. */
void snib__mq_leave(struct snib__mq *, snib_err, const char *text, bool barred);
/* Consume from a queue. Each consumer of messages has a number of its own, since what
 * a broker keeps for one may come again: an acknowledgement of a former one's first
 * message would be one of this one's. */
void snib__mq_channel_consume(struct snib__mq *, snib_instant now,
                              struct mq_channel *, const char *queue);
void snib__mq_channel_hear(struct snib__mq *, snib_instant now,
                           struct mq_channel *, const char *queue);
/* From now on what is published here is confirmed. Is the last message? */
void snib__mq_channel_confirms(struct snib__mq *, snib_instant now,
                               struct mq_channel *);
bool snib__mq_channel_is_confirmed(const struct mq_channel *);
/* False: there is no number free. */
bool snib__mq_channel_open(struct snib__mq *, snib_instant now,
                           struct mq_channel *, mq_heard_fn *);
/* So many more answers are due on it; something was written. */
void snib__mq_channel_asks(struct snib__mq *, snib_instant now,
                           struct mq_channel *, uint32_t answers);
void snib__mq_channel_close(struct snib__mq *, snib_instant now,
                            struct mq_channel *);
/* Nobody listens to it any more; it is closed if it is open. */
void snib__mq_channel_drop(struct snib__mq *, snib_instant now,
                           struct mq_channel *);
/* A frame of a channel. False: it is not AMQP. */
bool snib__mq_channel_frame(struct snib__mq *, snib_instant now,
                            const struct snib__amqp_frame *);
/* The connection is no more. */
void snib__mq_channels_lost(struct snib__mq *, snib_instant now, snib_err,
                            const char *text);

/* -- pool.c ----------------------------------------------------------------- */

/* False: none is kept. One that is taken has the bound of put_qos still. */
bool snib__mq_pool_take(struct snib__mq *, struct mq_channel *ret,
                        mq_heard_fn *heard);
/* Nothing is on it any more. It is kept if there is room, and it was not for long yet:
 * then its number is 0. */
void snib__mq_pool_put(struct snib__mq *, snib_instant now,
                       struct mq_channel *);
/* Those that were there for long are closed. */
snib_instant snib__mq_pool_due(const struct snib__mq *);
void snib__mq_pool_tick(struct snib__mq *, snib_instant now);

/* -- session.c -------------------------------------------------------------- */

typedef enum mq_state {
    MQ_DOWN,    /* nobody needs it */
    MQ_OPENING, /* the driver connects */
    MQ_LOGIN,   /* the program is asked for a login */
    MQ_GREETS,  /* the protocol is sent: START is due */
    MQ_TUNES,   /* the login is sent: TUNE is due */
    MQ_ENTERS,  /* into the virtual host: OPEN_OK is due */
    MQ_READY,
    MQ_CLOSING, /* shut, until the driver says so */
    MQ_RESTING  /* until the next attempt */
} mq_state;

struct mq_session {
    mq_state state;
    struct snib__buf in;
    uint32_t at;   /* the server: index of its connection */
    uint32_t vain; /* servers that were tried in vain since one was READY */
    /* Of these: where it cannot get better by itself. mild: what another one said
     * last. */
    uint32_t vain_barred, vain_hopeless;
    struct {
        snib_err err;
        char text[MQ_TEXT];
    } mild;
    uint32_t conn; /* which connection it is */
    snib_instant since, rest_until;
    /* When it began to serve, or ceased to, or was first to: attempts in between
     * change nothing. idle: it went while nobody needed it, which says nothing. */
    snib_instant turned;
    bool idle;
    snib_duration rest;
    snib_instant sent, heard; /* when anything was, the last time */
    snib_instant asked;       /* since when answers have been due */
    uint16_t heartbeat_s, wish_s;
    bool ever, asks_login, refused, hopeless, barred;
    bool leave; /* cut it when this step is over, for this reason */
    bool leave_barred;
    snib_err leave_err;
    char leave_text[MQ_TEXT];
    /* All servers were tried in vain: who waits for one hears of it; is refused,
     * since it will not get better with any of them. */
    bool in_vain, refuses;
    snib_err err; /* why it is not READY */
    char text[MQ_TEXT];
    char version[48], product[32];
    char blocked[100];     /* why the broker takes no messages; "": it does */
    char *user, *password; /* of the program's login, while it is sent */
    /* A message that is coming. */
    struct mq_coming {
        uint16_t channel; /* 0: none */
        bool headed, answers;
        uint32_t consumer;
        uint64_t tag, size;
        char reply_to[SNIB__AMQP_SHORT + 1];
        struct snib__buf body;
    } coming;
};

void snib__mq_session_init(struct snib__mq *, uint16_t heartbeat_s);
void snib__mq_session_free(struct snib__mq *);
void snib__mq_session_input(struct snib__mq *, snib_instant now,
                            const struct snib__input *);
void snib__mq_session_tick(struct snib__mq *, snib_instant now);
snib_instant snib__mq_session_due(const struct snib__mq *);
/* At the end of each step: connect, leave. */
void snib__mq_session_settle(struct snib__mq *, snib_instant now);
void snib__mq_session_cut(struct snib__mq *, snib_instant now, bool shut,
                          snib_err, const char *text, bool barred);
static inline bool snib__mq_is_ready(const struct mq_session *s)
{
    return s->state == MQ_READY && !s->leave;
}

/* -- servers.c -------------------------------------------------------------- */

void snib__mq_servers_next(struct snib__mq *, snib_instant now);

/* -- login.c ---------------------------------------------------------------- */

/* The connection is there. */
void snib__mq_login_begin(struct snib__mq *, snib_instant now);
void snib__mq_login_came(struct snib__mq *, snib_instant now,
                         const struct snib__input *);
/* A frame before it is READY. False: it is not AMQP. */
bool snib__mq_login_frame(struct snib__mq *, snib_instant now,
                          const struct snib__amqp_frame *);
void snib__mq_login_wipe(char **secret);
/* The server has closed the connection: why, in words. */
void snib__mq_closed(struct snib__mq *, snib_instant now,
                     const struct snib__amqp_method *);

/* -- claims.c, claim.c ------------------------------------------------------------ */

typedef enum mq_stage {
    MQ_JOINS,    /* its channel and its queue are asked for */
    MQ_TRIES,    /* it may not wait, and somebody consumes: who? (try.c) */
    MQ_CONSUMES, /* its position among the consumers is asked for */
    MQ_WAITS,    /* it consumes, and nothing has come */
    MQ_LEARNS,   /* it is the active one; its own message is on its way back */
    MQ_OUTWAITS, /* … and a grant without its holder is not over yet */
    MQ_HOLDS,
    MQ_FREES,  /* given back: that message is on its way back */
    MQ_LEAVES, /* given back, and its consumer is on its way out (lean.c) */
    MQ_CLOSES  /* its channel is being closed */
} mq_stage;

/* What this client has at the broker for a request. */
struct mq_claim {
    struct mq_channel channel; /* first member */
    struct snib__link link;    /* in its bucket */
    struct snib__timer timer;
    uint64_t id[2];
    mq_stage stage;
    bool may_queue;
    bool joining; /* counted in snib__mq.joining */
    bool learned; /* a message of its own came back: it has seen all */
    bool wrote;   /* a message HELD of it may be in the queue */
    bool due;     /* its last message has not come back yet */
    bool alone;   /* nobody consumed when it came */
    bool asked;   /* … but it was given nothing: who was first? (try.c) */
    bool hears;   /* answers */
    bool lean;    /* its queue was known (lean.c) */
    bool stray;   /* LEAVES: something was delivered all the same */
    bool gone;    /* … its consumer is */
    bool quiet;   /* WAITS: nothing has come, and nobody was there to be told */
    struct mq_message last; /* that message */
    snib_instant sent;      /* … was sent then */
    snib_instant seeded;    /* its last SEED was */
    uint64_t woken; /* JOINS: the number of its first one, if it is confirmed */
    int64_t token, floor;
    int64_t lease_ms, wish_ms; /* the longest one promised; the one asked for */
    uint64_t own_tag, own_serial;   /* HOLDS: of the message that says so */
    uint64_t older_tag;             /* … and one that was kept; 0: none */
    snib_instant since, valid_from; /* HOLDS: of the grant; of its lease */
    struct mq_view view;
    struct mq_step *step; /* waits for it; NULL: none does */
    uint64_t prior[2];    /* the own grant that it ends when it consumes */
    int64_t prior_token;  /* 0: there is none */
    snib_instant tried;   /* TRIES: since then */
    uint64_t hash;        /* of its name */
    char queue[MQ_QUEUE_MAX];
    char *about;
    size_t about_size;
};

struct mq_claim *snib__mq_claim_find(struct snib__mq *, const uint64_t id[2]);
void snib__mq_claim_add(struct snib__mq *, struct mq_claim *);
void snib__mq_claim_free(struct mq_claim *);
/* It asks for its queue and its position no more. */
void snib__mq_claim_joined(struct snib__mq *, struct mq_claim *);
/* From the beginning: it asks for its queue; it consumes from it. */
void snib__mq_claim_join(struct snib__mq *, snib_instant now,
                         struct mq_claim *);
void snib__mq_claim_consume(struct snib__mq *, snib_instant now,
                            struct mq_claim *);
/* It is no more, and its step goes on. lost: nobody has confirmed that. */
void snib__mq_claim_over(struct snib__mq *, snib_instant now, struct mq_claim *,
                         bool lost);
/* It asks for its position. NULL: no memory, or no channel (*ret_err). */
struct mq_claim *snib__mq_claim_make(struct snib__mq *, snib_instant now,
                                     const struct snib__request *,
                                     snib_err *ret_err);
void snib__mq_claim_forget(struct snib__mq *, snib_instant now,
                           struct mq_claim *);
void snib__mq_claims_free(struct snib__mq *);
void snib__mq_claims_tick(struct snib__mq *, snib_instant now);
/* Who waits is to look. */
void snib__mq_claim_tell(struct snib__mq *, const struct mq_claim *);
/* It is no more; its step is told why, or the core is. */
void snib__mq_claim_lost(struct snib__mq *, snib_instant now, struct mq_claim *,
                         const struct mq_heard *);
/* This message is done with. */
void snib__mq_claim_ack(struct snib__mq *, snib_instant now, struct mq_claim *,
                        uint64_t tag);
/* A message of this claim: HELD, PROBE or FREE, which is to come back. False: its
 * token would be none (2^53), so nothing was sent. */
bool snib__mq_claim_send(struct snib__mq *, snib_instant now, struct mq_claim *,
                         mq_kind);
/* It holds: make the lease so long again. */
void snib__mq_claim_renew(struct snib__mq *, snib_instant now,
                          struct mq_claim *, int64_t lease_ms);
/* A waiter polls: see that somebody hears. */
void snib__mq_claim_seed(struct snib__mq *, snib_instant now,
                         struct mq_claim *);
mq_heard_fn snib__mq_claim_heard;
/* decide.c: what comes next, after a message; after time has passed. */
void snib__mq_claim_decide(struct snib__mq *, snib_instant now,
                           struct mq_claim *);
void snib__mq_claim_probe(struct snib__mq *, snib_instant now,
                          struct mq_claim *);

/* -- end.c ------------------------------------------------------------------ */

/* Give it back, or give up: at the end of that its step goes on, and the claim is
 * no more. */
void snib__mq_claim_end(struct snib__mq *, snib_instant now, struct mq_claim *);
void snib__mq_claim_refuse(struct snib__mq *, snib_instant now,
                           struct mq_claim *, snib_duration left);
/* Its message FREE has come back; its channel is closed. */
void snib__mq_end_freed(struct snib__mq *, snib_instant now, struct mq_claim *,
                        uint64_t tag);
void snib__mq_end_heard(struct snib__mq *, snib_instant now, struct mq_claim *,
                        const struct mq_heard *);

/* -- lean.c ----------------------------------------------------------------- */

/* The claim of a lock that this client had lately, and that may wait: is made
 * lean, and has a channel. False: it is to be made as others are. */
bool snib__mq_lean_open(struct snib__mq *, snib_instant now, struct mq_claim *);
/* It was granted. */
void snib__mq_lean_remember(struct snib__mq *, snib_instant now,
                            const struct mq_claim *);
/* Its own messages that others came behind, and nobody holds by, are done with.
 * False: it cannot get back what it sends, and was begun anew. */
bool snib__mq_lean_clear(struct snib__mq *, snib_instant now,
                         struct mq_claim *);
/* No answer has come: it is begun anew, on a channel without a bound. False: it is on
 * such a one, or its own takes messages still. */
bool snib__mq_lean_again(struct snib__mq *, snib_instant now,
                         struct mq_claim *);
/* Its queue is not known any more. */
void snib__mq_lean_forget(struct snib__mq *, const struct mq_claim *);
/* Its channel is no more. False: for another reason than that its queue is not
 * there, after which it is begun anew. */
bool snib__mq_lean_missed(struct snib__mq *, snib_instant now,
                          struct mq_claim *, const struct mq_heard *);
/* Give it back, and keep the channel. False: it has to be closed. */
bool snib__mq_lean_leave(struct snib__mq *, snib_instant now,
                         struct mq_claim *);
void snib__mq_lean_heard(struct snib__mq *, snib_instant now, struct mq_claim *,
                         const struct mq_heard *);

/* try.c: somebody consumes, and this one may not wait: it is refused, or goes on
 * when the other one was only about to go. */
void snib__mq_try_begin(struct snib__mq *, snib_instant now, struct mq_claim *);
void snib__mq_try_heard(struct snib__mq *, snib_instant now, struct mq_claim *,
                        const struct mq_heard *);
/* It consumes, and was given nothing for a while; somebody has answered. */
void snib__mq_try_waits(struct snib__mq *, snib_instant now, struct mq_claim *);
void snib__mq_try_answered(struct snib__mq *, snib_instant now,
                           struct mq_claim *, const struct mq_heard *);
/* Its queue is there: consume, or find out whether it may (a try). */
void snib__mq_claim_declared(struct snib__mq *, snib_instant now,
                             struct mq_claim *,
                             const struct snib__amqp_method *);
/* A try has met grants without their holders: the broker is to say in the queue
 * that they are over, after their leases. */
void snib__mq_note_later(struct snib__mq *, snib_instant now,
                         struct mq_claim *);

/* -- step.c ----------------------------------------------------------------- */

typedef enum mq_phase {
    MQ_IDLE, /* it waits for the connection */
    MQ_ASKS  /* its claim or its channel is to answer */
} mq_phase;

/* What a claim says to the step that waits for it. */
struct mq_told {
    void (*queued)(struct snib__mq *, snib_instant now, struct mq_step *,
                   snib_duration left);
    void (*granted)(struct snib__mq *, snib_instant now, struct mq_step *,
                    const struct mq_claim *);
    void (*renewed)(struct snib__mq *, snib_instant now, struct mq_step *,
                    const struct mq_claim *);
    void (*refused)(struct snib__mq *, snib_instant now, struct mq_step *,
                    snib_duration left);
    void (*lost)(struct snib__mq *, snib_instant now, struct mq_step *,
                 const struct mq_heard *);
};

struct mq_step {
    struct mq_channel channel; /* first member; orphan.c, look.c, doctor.c */
    struct snib__link link;
    struct snib__timer timer;
    const struct mq_told *told;
    mq_phase phase;
    struct snib__request *r;
    snib_instant until, sent;
    bool ended; /* what it was to end is over */
    bool noted; /* orphan.c: others were told so */
    bool done;  /* … which was there */
    bool wrote; /* its claim went, and had sent a HELD */
    /* look.c: how far it is; so many messages are to be read; they; so many
     * answers, each behind its size; one of them holds; none did, so it asks once
     * more; when it began */
    int at;
    uint32_t due;
    struct mq_view view;
    uint32_t answered;
    struct snib__buf answers;
    bool held, again;
    snib_instant begun;
};

static inline struct mq_step *snib__mq_step_of(struct mq_channel *channel)
{
    return (struct mq_step *)(void *)channel;
}

void snib__mq_steps_take(struct snib__mq *, snib_instant now);
void snib__mq_steps_begin(struct snib__mq *, snib_instant now);
void snib__mq_steps_tick(struct snib__mq *, snib_instant now);
void snib__mq_steps_free(struct snib__mq *);
void snib__mq_steps_in_vain(struct snib__mq *, snib_instant now);
/* It is answered. It belongs to no claim, and its channel is dropped. */
void snib__mq_step_answer(struct snib__mq *, snib_instant now, struct mq_step *,
                          snib__answer, snib_err, const char *text);
/* From the beginning, when the connection is there. */
void snib__mq_step_again(struct snib__mq *, struct mq_step *);
void snib__mq_step_asks(struct snib__mq *, struct mq_step *,
                        snib_instant until);

/* What is no claim's business: it has the step's own channel. */
struct mq_work {
    void (*begin)(struct snib__mq *, snib_instant now, struct mq_step *);
    /* Its time is over. NULL: as for any other. */
    void (*late)(struct snib__mq *, snib_instant now, struct mq_step *);
};
/* orphan.c: the message FREE of a request that has no claim any more. */
extern const struct mq_work snib__mq_orphan_work;
extern const struct mq_work snib__mq_look_work;   /* look.c */
extern const struct mq_work snib__mq_doctor_work; /* doctor.c */

/* -- presence.c ----------------------------------------------------------------- */

/* The connection is there: hear who asks. */
void snib__mq_presence_begin(struct snib__mq *, snib_instant now);
/* One who has answered, taken apart; the texts are the answer's. */
struct mq_presence {
    struct mq_message says; /* HELD: lease_ms is what is left of it */
    uint64_t client[2];     /* 0: of a holder that went */
    int64_t age_ms;
    const char *queue, *about;
    size_t queue_size, about_size;
};
bool snib__mq_presence_read(const char *text, size_t size,
                            struct mq_presence *ret);

/* -- the store --------------------------------------------------------------- */

struct snib__mq {
    struct snib__out *out;
    struct snib__store *requests; /* core/blocking.h: by id, until answered */
    struct snib__out inner;       /* its out */
    struct snib__list executed;   /* to be given back to it */
    uint64_t client[2];
    snib_duration request; /* how long to wait for one answer */
    struct snib__rng rng;
    bool asks, secure;
    char *user, *password;
    char vhost[SNIB__AMQP_SHORT + 1];
    struct mq_session session;
    struct mq_channel
        *channel[MQ_CHANNELS + 1]; /* by number; NULL: free, or … */
    bool closing[MQ_CHANNELS + 1]; /* … its end is not confirmed */
    uint16_t channel_max, channel_at;
    struct mq_channel pool[MQ_POOL]; /* open, and nobody's (pool.c) */
    struct { /* locks that this client was granted, and when (lean.c) */
        uint64_t hash;
        snib_instant at;
    } known[MQ_KNOWN];
    struct mq_channel presence; /* on which it is asked who is there */
    struct snib__list steps;
    uint32_t made; /* steps */
    struct snib__heap timers;
    struct snib__list claim[MQ_BUCKETS];
    uint32_t claims, joining;
    struct snib__heap alarms; /* of claims */
    uint64_t serial;          /* of the last message that was sent */
    struct snib__buf message; /* one that is being written */
    /* Requests that are to be looked at. */
    uint64_t told[MQ_TOLD][2];
    uint32_t tolds;
    bool told_all;
    /* A claim went without its end: its HELD may lie in a queue. */
    bool orphans;
    /* Grants of others that were seen, and when at first, by their hashes: whoever
     * is cut off while he waits for the end of one sees it again. */
    struct mq_seen first[MQ_FIRSTS];
    /* look.c: grants without their holders that were seen last, and since when. */
    uint64_t dead_print;
    snib_instant dead_since;
};

/* A message is put together, and sent as `to` says (its bytes are ours). */
void snib__mq_publish(struct snib__mq *, struct mq_channel *,
                      const struct mq_message *, const char *about,
                      size_t about_size, const struct snib__amqp_message *to);
/* Until when a message is waited for that is to come back. */
static inline snib_instant snib__mq_claim_patience(const struct snib__mq *z,
                                                   snib_instant now)
{
    return snib__after(now, snib__ms(2 * snib__to_ms(z->request)));
}
/* 0: not known. */
static inline int64_t snib__mq_wall_ms(const struct snib__mq *z,
                                       snib_instant now)
{
    int64_t offset = z->out->wall_offset_ns;
    return offset ? (now.ns + offset) / 1000000 : 0;
}

/* state.c */
void snib__mq_state(const struct snib__store *, snib_instant now,
                    struct snib__store_state *ret);
bool snib__mq_server(const struct snib__store *, snib_instant now,
                     uint32_t node, struct snib__server *ret);
/* open.c */
snib_err snib__mq_open(const struct snib__store_config *,
                       struct snib__store **ret, struct snib_error *reterr);
void snib__mq_free(struct snib__store *);
extern const struct snib__blocking_ops snib__mq_requests_ops;

#endif
