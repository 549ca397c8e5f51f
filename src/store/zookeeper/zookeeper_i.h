/* store/zookeeper/zookeeper_i.h — what the store is made of; for the files of
 * this folder only. store.c says how it works, and why two cannot hold one
 * lock. */
#ifndef SNIB__ZOOKEEPER_I_H
#define SNIB__ZOOKEEPER_I_H

#include "core/about.h"
#include "core/nonblocking.h"
#include "proto/zk/zk.h"
#include "store/zookeeper/nodes.h"

enum {
    ZOO_PORT = 2181,
    ZOO_SESSION_MS = 10000,
    ZOO_CURATOR_MS = 30000, /* the same, of ?dialect= */
    ZOO_STEPS = 128,        /* under way at once, */
    ZOO_STEPS_KEPT = 32,    /* so many of them only of the background */
    ZOO_BUCKETS = 1024,     /* of claims */
    ZOO_DEAD = 64,          /* locks are remembered (look.c) */
    ZOO_ALONE = 256,        /* names are remembered (alone.c) */
    ZOO_ADDRESS = 100,      /* so much of a server's is shown */
    ZOO_DATA = 640,         /* of a node: who is behind it */
    ZOO_TEXT = 252,
    ZOO_AT_ONCE = 8 /* nodes are removed in one step; a server takes 1 MB */
};

struct snib__zoo;
struct zoo_step;

/* -- errors.c --------------------------------------------------------------- */

typedef enum zoo_end {
    ZOO_OK,
    ZOO_SAYS,  /* an error of ZooKeeper's: zk; nothing was done */
    ZOO_AGAIN, /* nothing was done, and later, or elsewhere, it may be */
    ZOO_LOST   /* nobody knows whether it was done */
} zoo_end;

struct zoo_reply {
    zoo_end end;
    int32_t zk;
    struct snib__jute body;
    snib_instant sent;
    bool over;           /* AGAIN: the session is over, a new one is made */
    char text[ZOO_TEXT]; /* AGAIN, LOST: why */
    snib_err err;
};

/* An error of ZooKeeper's about this path, in words. */
snib_err snib__zoo_words(const struct snib__zoo *, int32_t zk, const char *path,
                         char *ret, size_t size);

/* -- call.c ----------------------------------------------------------------- */

struct zoo_call;
typedef void zoo_done(struct snib__zoo *, snib_instant now, struct zoo_call *,
                      struct zoo_reply *);

struct zoo_call {
    struct snib__link link; /* on calls, in the order in which they were sent */
    int32_t xid;
    snib_instant sent;
    bool changes, multi;
    bool fenced; /* a multi that began with a check of the fence (fence.c) */
    size_t begun;
    zoo_done *done; /* NULL: its answer is not wanted any more */
};

/* Where the next bytes of a request go. */
struct snib__buf *snib__zoo_out(struct snib__zoo *);
/* A request begins, and ends: between the two its body is appended. done() is
 * called once, from a later input or tick. The connection is READY (or FENCES). */
void snib__zoo_call_begin(struct snib__zoo *, struct zoo_call *, int32_t op,
                          zoo_done *);
void snib__zoo_call_end(struct snib__zoo *, snib_instant now,
                        struct zoo_call *);
/* Why a connection is not to be used any more. barred: it will not get better by
 * itself; the text is whole then, else the server's address is put before it. */
struct zoo_leave {
    const char *text;
    bool over, barred;
    snib_err err; /* OK: UNREACHABLE */
};
void snib__zoo_leave(struct snib__zoo *, const struct zoo_leave *);
/* One frame has come. False: it is not ZooKeeper's. */
bool snib__zoo_call_heard(struct snib__zoo *, snib_instant now,
                          struct snib__zk_reply *);
/* The connection is no more (over: nor the session): all calls on it end. */
void snib__zoo_calls_lost(struct snib__zoo *, snib_instant now, snib_err,
                          const char *text, bool over);
/* The error of a multi's answer; 0: all was done. */
int32_t snib__zoo_multi_error(const struct zoo_reply *, uint32_t *ret_index);

/* -- session.c -------------------------------------------------------------- */

typedef enum zoo_state {
    ZOO_DOWN,    /* nobody needs it */
    ZOO_OPENING, /* the driver connects */
    ZOO_LOGIN,   /* the program is asked for a login */
    ZOO_HELLO,   /* the session is to be made or resumed */
    ZOO_AUTHS,   /* the login is sent */
    ZOO_FENCES,  /* copies that may be on their way are made void (fence.c) */
    ZOO_READY,
    ZOO_CLOSING, /* shut, until the driver says so */
    ZOO_RESTING  /* until the next attempt */
} zoo_state;

struct zoo_session {
    zoo_state state;
    struct snib__buf in;
    size_t
        skip; /* bytes of an answer that is too long, yet to be passed over */
    struct snib__list calls;
    uint32_t at;   /* the server: index of its connection */
    uint32_t vain; /* servers that were tried in vain since one was READY */
    /* Of these: where it cannot get better by itself. mild: what another one said
     * last. */
    uint32_t vain_barred, vain_hopeless;
    struct {
        snib_err err;
        char text[ZOO_TEXT];
    } mild;
    snib_instant since, rest_until;
    /* When it began to serve, or ceased to, or was first to: attempts in between
     * change nothing. idle: it went while nobody needed it, which says nothing. */
    snib_instant turned;
    bool idle;
    snib_duration rest;
    struct snib__zk_session zk; /* id 0: there is none */
    /* What was made in another session than this is gone, or goes. */
    uint32_t number;
    uint32_t conn; /* which connection it is: watches are of one */
    int32_t session_ms;
    int64_t zxid; /* the last one seen */
    int32_t xid;
    snib_instant sent, pinged; /* pinged 0: no ping is unanswered */
    bool ever, asked, refused, hopeless, barred;
    bool leave; /* cut it when this step is over, for this reason */
    bool over;  /* … and the session is over */
    bool leave_barred;
    snib_err leave_err;
    char leave_text[ZOO_TEXT];
    /* All servers were tried in vain: who waits for one hears of it (store.c); is
     * refused, since it will not get better with any of them. */
    bool in_vain, refuses;
    snib_err err; /* why it is not READY */
    char text[ZOO_TEXT];
    char *user, *password; /* of the program's login, while it is sent */
    bool logged_in;
};

/* It is, or will be, so long: next to Curator a lease is a third of that at most. */
void snib__zoo_session_is(struct snib__zoo *, int32_t timeout_ms);
void snib__zoo_session_init(struct snib__zoo *, int32_t session_ms);
void snib__zoo_session_free(struct snib__zoo *);
void snib__zoo_session_input(struct snib__zoo *, snib_instant now,
                             const struct snib__input *);
void snib__zoo_session_tick(struct snib__zoo *, snib_instant now);
snib_instant snib__zoo_session_due(const struct snib__zoo *);
/* At the end of each step: connect, leave. */
void snib__zoo_session_settle(struct snib__zoo *, snib_instant now);
void snib__zoo_session_cut(struct snib__zoo *, snib_instant now, bool shut,
                           snib_err, const char *text, bool barred);
/* It serves: the fence is there, or none is needed. */
void snib__zoo_session_ready(struct snib__zoo *, snib_instant now);
/* There is no session any more. */
void snib__zoo_session_over(struct snib__zoo *);
static inline bool snib__zoo_is_ready(const struct zoo_session *s)
{
    return s->state == ZOO_READY && !s->leave;
}

/* -- servers.c -------------------------------------------------------------- */

void snib__zoo_servers_next(struct snib__zoo *, snib_instant now);

/* -- login.c ---------------------------------------------------------------- */

/* The connection is there: ask the program for its login, if it gives them. */
void snib__zoo_login_begin(struct snib__zoo *, snib_instant now);
void snib__zoo_login_came(struct snib__zoo *, snib_instant now,
                          const struct snib__input *);
/* The session is there: log in. False: there is no login. */
bool snib__zoo_login_send(struct snib__zoo *, snib_instant now);
/* The session is there, or the one we had is over; the login is taken, or not. */
void snib__zoo_hello_came(struct snib__zoo *, snib_instant now,
                          const uint8_t *bytes, size_t size);
void snib__zoo_login_done(struct snib__zoo *, snib_instant now,
                          const struct snib__zk_reply *);
/* Make the session, or resume it. */
void snib__zoo_session_hello(struct snib__zoo *, snib_instant now);

/* -- fence.c ---------------------------------------------------------------- */

struct zoo_fence {
    struct zoo_call call;
    bool made;  /* there may be one of this session */
    bool ready; /* of this connection: `version` counts */
    bool asked; /* its answer is due */
    bool over;  /* … and has come */
    int32_t version;
};

/* Make it, or change it. */
void snib__zoo_fence_begin(struct snib__zoo *, snib_instant now);
void snib__zoo_fence_path(const struct snib__zoo *, struct zoo_path *ret);
/* A multi begins with this: it fails unless the fence is as it was made on this
 * connection. */
void snib__zoo_fence_check(struct snib__zoo *, struct zoo_call *);
/* Has it failed by that? The fence is not there any more, or has another version,
 * and does not count until that is known. */
bool snib__zoo_fence_has_failed(struct snib__zoo *, const struct zoo_call *,
                                const struct zoo_reply *);

/* -- claims.c --------------------------------------------------------------- */

/* What this client has at the ensemble for a request, as far as it knows. */
struct zoo_claim {
    struct snib__link link; /* in its bucket */
    uint64_t id[2];
    uint32_t number; /* of the session it was made in */
    bool reads, granted;
    bool unproved; /* a record that may be there is no grant, before a look */
    bool sole;     /* the node that it watches is all that is in the way */
    bool gone;     /* … and that node has gone */
    int32_t
        version; /* of the lock's node, which it was alone at; -1: it was not */
    int64_t czxid; /* of the node; 0: not known */
    int64_t token; /* of the grant; 0: the node's czxid */
    int64_t floor; /* the highest token that was seen when it was made */
    int64_t lease_ms;
    char node[ZOO_CHILD_MAX], record[ZOO_CHILD_MAX]; /* "": not known */
    /* Of one that waits: for the end of this node, on this connection. */
    uint64_t watch; /* a hash of its path; 0: none */
    uint32_t watch_conn;
    snib_instant look; /* it looks again then at the latest */
    /* Of a grant: swept then (sweep.c), unless it was renewed. */
    struct snib__timer timer;
    snib_instant until;
    bool renewing;
    char *dir; /* the lock's node */
    /* Since when it is next, but for grants whose nodes are gone. */
    snib_instant dead_since;
    uint64_t dead_hash; /* of these grants' records */
};

struct zoo_claim *snib__zoo_claim_find(struct snib__zoo *,
                                       const uint64_t id[2]);
/* NULL: no memory. */
struct zoo_claim *snib__zoo_claim_make(struct snib__zoo *,
                                       const uint64_t id[2]);
void snib__zoo_claim_forget(struct snib__zoo *, const uint64_t id[2]);
void snib__zoo_claims_free(struct snib__zoo *);
/* The session is over: of what was never granted nothing is left, but for the record of
 * a guess. */
void snib__zoo_claims_over(struct snib__zoo *);
/* The lease that it was given, or more of it, ends then. */
void snib__zoo_claim_lasts(struct snib__zoo *, struct zoo_claim *,
                           snib_instant until);
uint64_t snib__zoo_hash(const char *text, size_t size);
/* This node has changed: who waits for it is to look. */
void snib__zoo_claims_heard(struct snib__zoo *, const char *path, size_t size);

/* -- sweep.c ---------------------------------------------------------------- */

struct zoo_sweep {
    struct zoo_call call;
    bool busy, record_gone;
    uint64_t id[2];
};

/* Remove what is left of grants whose leases are over. */
void snib__zoo_sweep(struct snib__zoo *, snib_instant now);

/* -- step.c ----------------------------------------------------------------- */

struct zoo_work {
    /* The connection is there: go on from the beginning. */
    void (*begin)(struct snib__zoo *, snib_instant now, struct zoo_step *);
    /* What it has made is there, and the ensemble refuses what has to follow: remove
     * it, and answer. NULL: that cannot be. */
    void (*give_up)(struct snib__zoo *, snib_instant now, struct zoo_step *,
                    snib_err, const char *text);
    /* A guess was wrong: go on from the look that is there (guess.c). */
    void (*looked)(struct snib__zoo *, snib_instant now, struct zoo_step *);
};

typedef enum zoo_phase {
    ZOO_BEHIND, /* too many are before it */
    ZOO_WAITS,  /* for the connection */
    ZOO_ASKS,   /* a call is under way */
    ZOO_FENCED, /* it waits for the fence */
    ZOO_PAUSES
} zoo_phase;

/* What look.c has seen of one that stands. */
struct zoo_seen {
    bool stranger; /* no snib has made it */
    uint64_t client[2];
    snib_kind kind;
    int64_t czxid, token, since_ms, renewed_ms; /* token: 0: czxid */
    char about[SNIB__ABOUT_MAX];
    size_t about_size;
};

struct zoo_step {
    struct zoo_call call;   /* first member */
    struct snib__link link; /* on steps or behind */
    struct snib__timer timer;
    const struct zoo_work *work;
    zoo_phase phase;
    struct snib__request *r;
    struct zoo_view view;
    uint32_t tries;
    snib_instant until;
    void (*then)(struct snib__zoo *, snib_instant now, struct zoo_step *);
    bool missing;   /* the lock has no node */
    bool ours;      /* it has one that who comes changes (alone.c) */
    uint32_t looks; /* acquire.c: so often a record behind it was in the way */
    uint32_t refusals;    /* alone.c: so often it was not alone */
    int32_t version;      /* of the data of the lock's node, where it is ours */
    struct zoo_call look; /* guess.c: it is sent behind what makes the record */
    struct {              /* … whose answer was */
        struct zoo_reply reply; /* but for its body, which was read: */
        int64_t czxid;
        bool unfenced, told, stands, unproved; /* … before that */
        uint32_t index; /* of the operation that failed */
    } guess;
    bool synced;      /* what it sees is not older than its first call */
    uint32_t at;      /* how far its work is */
    uint32_t part;    /* doctor.c: so many bytes of the base are looked at */
    int64_t since_ms; /* dead.c: when the own node was made, by the ensemble */
    bool begins;      /* acquire.c: to wait for the end of such a lease */
    bool young;       /* dead.c: a record is not old enough, so: */
    void (*no)(struct snib__zoo *, snib_instant now, struct zoo_step *);
    uint64_t removed_hash; /* acquire.c: of the records that are removed */
    /* acquire.c: why it is refused, once what it has made is removed; OK: it is
     * not. */
    snib_err why;
    char words[ZOO_TEXT];
    snib__answer answer;  /* end.c, acquire.c: what comes when all is removed */
    struct zoo_seen seen; /* look.c */
    struct snib__buf names; /* look.c: NUL-terminated, yet to be looked at */
};

static inline struct zoo_step *snib__zoo_step_of(struct zoo_call *c)
{
    return (struct zoo_step *)(void *)c;
}

void snib__zoo_steps_take(struct snib__zoo *, snib_instant now);
void snib__zoo_steps_begin(struct snib__zoo *, snib_instant now);
void snib__zoo_steps_tick(struct snib__zoo *, snib_instant now);
void snib__zoo_steps_free(struct snib__zoo *);
void snib__zoo_steps_in_vain(struct snib__zoo *, snib_instant now);
/* It is answered, or to come again (PENDING). */
void snib__zoo_step_over(struct snib__zoo *, struct zoo_step *);
void snib__zoo_step_answer(struct snib__zoo *, struct zoo_step *, snib__answer,
                           snib_err, const char *text);
/* From the beginning, when the connection is there; too often: it is in vain. */
void snib__zoo_step_again(struct snib__zoo *, snib_instant now,
                          struct zoo_step *);
/* A call of the step's begins and ends. */
void snib__zoo_step_ask(struct snib__zoo *, struct zoo_step *, int32_t op,
                        zoo_done *);
void snib__zoo_step_send(struct snib__zoo *, snib_instant now,
                         struct zoo_step *, bool changes);
/* A reply that is not the one hoped for ends the step. */
void snib__zoo_step_failed(struct snib__zoo *, snib_instant now,
                           struct zoo_step *, const struct zoo_reply *,
                           const char *path);
void snib__zoo_step_fence(struct snib__zoo *, snib_instant now,
                          struct zoo_step *);
/* From the beginning, a moment later. */
void snib__zoo_step_pause(struct snib__zoo *, snib_instant now,
                          struct zoo_step *);

extern const struct zoo_work snib__zoo_acquire_work; /* acquire.c */
extern const struct zoo_work snib__zoo_renew_work;   /* renew.c */
extern const struct zoo_work snib__zoo_end_work;     /* end.c */
extern const struct zoo_work snib__zoo_look_work;    /* look.c */
extern const struct zoo_work snib__zoo_doctor_work;  /* doctor.c */

/* -- alone.c ----------------------------------------------------------------- */

/* Of a name: this client was alone there. */
struct zoo_alone {
    uint64_t hash;
    snib_instant at; /* 0: it was not */
    int32_t version; /* … with the lock's node like this */
    bool closed;     /* it may not change that */
    uint32_t vain;   /* for so many sections it is not noted */
};

/* May it be taken in one step, if nobody else is there? Is it worth trying
 * without a look, and with which version of the lock's node? */
bool snib__zoo_alone_may(struct snib__zoo *, const struct zoo_step *);
bool snib__zoo_alone_guess(struct snib__zoo *, snib_instant now,
                           const struct zoo_step *, int32_t *ret_version);
/* Take it, if nobody is there, and the lock's node is as it was; -1: it has none. */
void snib__zoo_alone(struct snib__zoo *, snib_instant now, struct zoo_step *,
                     int32_t version);
/* May it change the lock's node? It may not. */
bool snib__zoo_alone_changes(struct snib__zoo *, const struct zoo_step *);
void snib__zoo_alone_may_not(struct snib__zoo *, const struct zoo_step *);
/* The look has shown somebody else. */
void snib__zoo_alone_is_not(struct snib__zoo *, const struct zoo_step *,
                            struct zoo_claim *);
/* The guess was refused. */
void snib__zoo_alone_in_vain(struct snib__zoo *, struct zoo_step *);
/* This one has given it back. */
void snib__zoo_alone_was(struct snib__zoo *, snib_instant now,
                         const struct snib__name *, const struct zoo_claim *);

/* -- guess.c ----------------------------------------------------------------- */

/* A multi begins that ends with the record, and behind which the look is sent: it
 * grants. stands: the own node is there already. Between the two what makes the node
 * is appended, or changes it. */
void snib__zoo_guess_begin(struct snib__zoo *, struct zoo_step *,
                           struct zoo_claim *, bool stands);
void snib__zoo_guess_end(struct snib__zoo *, snib_instant now,
                         struct zoo_step *, struct zoo_claim *);
/* Has what it waited for gone, and was that all? It is asked once. Then it may be
 * granted so. */
bool snib__zoo_guess_turn(struct snib__zoo *, const struct zoo_step *);
void snib__zoo_guess_next(struct snib__zoo *, snib_instant now,
                          struct zoo_step *);

/* -- grant.c ---------------------------------------------------------------- */

bool snib__zoo_reads(const struct snib__request *);
void snib__zoo_request_of(const struct snib__request *,
                          struct zoo_request *ret);
/* A writer who reads as well keeps Curator's writers out where it stands as the
 * writer: they look at no record. Which node is that? -1: it stands for itself. */
int snib__zoo_writer_of(const struct snib__zoo *, const struct zoo_step *);
/* What the request's node is called; returns the flags with which it is made. */
int32_t snib__zoo_node_of(const struct snib__zoo *, const struct zoo_step *,
                          char ret[ZOO_CHILD_MAX]);
/* What stands in the request's node. token: 0: the node's czxid. */
void snib__zoo_data_of(const struct snib__zoo *, const struct snib__request *,
                       int64_t token, char *ret, size_t size);
/* The claim of a request whose node is to be made. NULL: no memory; the step is
 * answered. */
struct zoo_claim *snib__zoo_stands(struct snib__zoo *, struct zoo_step *);
/* Append: its node is made. */
void snib__zoo_put_node(struct snib__zoo *, const struct zoo_step *);
/* What the node is called that is made first by these results. False: none is. */
bool snib__zoo_take_node(struct zoo_claim *, struct snib__jute);
/* The lease that is given to it, in ms; for how long a grant is that has this
 * claim. */
int64_t snib__zoo_lease_ms(const struct snib__zoo *,
                           const struct snib__request *);
snib_duration snib__zoo_given(const struct snib__zoo *,
                              const struct snib__request *,
                              const struct zoo_claim *);
/* It is next: make its record, and answer. The records of grants that nobody
 * can believe in any more go with it. */
void snib__zoo_grant(struct snib__zoo *, snib_instant now, struct zoo_step *,
                     struct zoo_claim *);

/* It was, by a call sent then: answer, if czxid will do as its token. */
void snib__zoo_granted(struct snib__zoo *, snib_instant now, struct zoo_step *,
                       struct zoo_claim *, int64_t czxid, snib_instant sent);
/* Append: its node is there, and says the token. */
void snib__zoo_put_change(struct snib__zoo *, const struct zoo_step *,
                          const struct zoo_claim *);
/* Append: its record is made, or is there, from a grant whose answer was lost. */
void snib__zoo_put_record(struct snib__zoo *, const struct zoo_step *,
                          struct zoo_claim *);

/* -- dead.c ----------------------------------------------------------------- */

/* This try is next but for records without nodes: remove those that are old
 * enough and begin anew, or say no (and remove its node) by `no`. */
void snib__zoo_dead(struct snib__zoo *, snib_instant now, struct zoo_step *,
                    void (*no)(struct snib__zoo *, snib_instant now,
                               struct zoo_step *));

/* -- children.c ---------------------------------------------------- */

/* What is in the node of a lock that who comes changes (alone.c). A look tells how
 * long it is: nobody else would write as much. */
#define ZOO_LOCK_DATA                                                          \
    "a lock of snib's: whoever makes a node here changes this one"
/* Ask for the nodes below the lock's; then `then`, with the view filled. A lock
 * that is not there (k->missing) has none. */
void snib__zoo_children(struct snib__zoo *, snib_instant now, struct zoo_step *,
                        void (*then)(struct snib__zoo *, snib_instant now,
                                     struct zoo_step *));
/* Its answer has come: k->then. */
void snib__zoo_children_read(struct snib__zoo *, snib_instant now,
                             struct zoo_step *, struct zoo_reply *);
/* The server may be behind the others: what is read after this is what the leader
 * had when it was asked. Then `then`. */
void snib__zoo_sync(struct snib__zoo *, snib_instant now, struct zoo_step *,
                    void (*then)(struct snib__zoo *, snib_instant now,
                                 struct zoo_step *));
/* Make the node of the lock, and what is above it; then the step begins anew. */
void snib__zoo_mkdir(struct snib__zoo *, snib_instant now, struct zoo_step *);
/* Remove these nodes of the lock, all in one step, if that other one is there;
 * then `then`. With one that is gone already nothing is removed, and the step
 * begins anew. Behind the fence, where there is one. */
struct zoo_removal {
    const char *child[ZOO_AT_ONCE];
    uint32_t count;
    const char *if_there; /* NULL: none need be */
};
void snib__zoo_remove(struct snib__zoo *, snib_instant now, struct zoo_step *,
                      const struct zoo_removal *,
                      void (*then)(struct snib__zoo *, snib_instant now,
                                   struct zoo_step *));
/* Append: check or remove a node of the step's lock. */
void snib__zoo_put_version(struct snib__zoo *, const struct zoo_step *,
                           int32_t op, const char *child);

/* -- the store --------------------------------------------------------------- */

struct snib__zoo {
    struct snib__out *out;
    struct snib__nonblocking requests;
    uint64_t client[2];
    snib_duration request; /* how long to wait for one answer */
    struct snib__rng rng;
    bool asks;
    /* ?dialect=: Curator's clients are there as well, to whom records say nothing:
     * with InterProcessReadWriteLock; mutexes: with InterProcessMutex. */
    bool curator, mutexes;
    char *user, *password;
    char base[ZOO_BASE_MAX]; /* "" is the root */
    struct zoo_session session;
    struct zoo_fence fence;
    struct snib__list steps, behind[SNIB__SESSIONS];
    uint32_t under_way, made; /* of steps: on `steps`; in all */
    struct snib__heap timers;
    struct snib__list claim[ZOO_BUCKETS];
    uint32_t claims;
    struct zoo_alone alone[ZOO_ALONE];
    struct snib__heap leases; /* of claims that are granted */
    struct zoo_sweep sweep;
    struct
    { /* look.c: grants whose nodes are gone, and since when they are seen */
        uint64_t hash;
        snib_instant since;
    } dead[ZOO_DEAD];
};

/* state.c */
void snib__zoo_state(const struct snib__store *, snib_instant now,
                     struct snib__store_state *ret);
bool snib__zoo_server(const struct snib__store *, snib_instant now,
                      uint32_t node, struct snib__server *ret);
/* open.c */
snib_err snib__zoo_open(const struct snib__store_config *,
                        struct snib__store **ret, struct snib_error *reterr);
void snib__zoo_free(struct snib__store *);

#endif
