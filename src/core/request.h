/* core/request.h — a request: what the core asks a store, and what the store
 * says.
 *
 * A request is one attempt by this client for one lock (or a list, a value, a
 * store's set-up). The owners behind it are the core's business. From start()
 * until its final answer it belongs to the store; afterwards the core may
 * start() it again (a repeat: the same id).
 *
 * struct snib__request has what all verbs share; then a record for each verb
 * that reads more (acquire, batch, renew, params, value, list); then those of
 * the store (exec, store); then the answer (said). What a verb does and what
 * its answers mean stands at the verb; what a field means, at the field. */
#ifndef SNIB__REQUEST_H
#define SNIB__REQUEST_H

#include "base/buf.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/time.h"
#include "core/name.h"
#include "snib.h"

/* What is asked for. Besides what is named here every verb reads id, limit, once
 * and resent. */
typedef enum snib__verb {
    /* Reads lease, floor, text (about), token, `acquire` and `batch`.
     * A lock is one resource with one queue. MUTEX and WRITE need that nobody
     * else holds it; READ, that nobody holds it exclusively; PERMITS, that
     * nobody holds it exclusively and that so many permits of the size are
     * free; BARRIER, that so many of its kind stand at the head of the queue. A
     * request that does not fit makes everybody behind it wait.
     * token: 0, or our own earlier exclusive grant on this name, which the
     * store ends first in the same atomic step (the core's `prior`: a yield,
     * after the last local hand-over); prior_id: its id.
     * A repeat with the id of a grant that still stands re-arms the lease and
     * returns the same token.
     * DONE sets token, acquire.reserve and acquire.permits, and said.slot,
     * valid_from and left: the length of the lease given, counted from
     * valid_from. left < lease means that it is to be renewed in that time. A
     * pushed grant, given to a waiter in a step of somebody else's, stands for
     * min(lease, 3 s), the push lease; a thin one for 10 s at most. DONE may
     * set id: a store that asks under ids of its own (a quorum) tells under
     * which of them the grant stands.
     * QUEUED sets position and left (of the holder).
     * NO: another holds it (may_queue false); left is set. err DEADLOCK:
     * another reader is waiting to become the writer. err LOST: the grant of
     * upgrade_of is over. err TOO_MANY: more permits than there are. err
     * CONFIG: the semaphore has no size. err CANCELLED: see `batch`. */
    SNIB__ACQUIRE,
    /* Reads token, lease and `renew`. The store compares id and token and never
     * creates a grant. DONE sets valid_from, left and, of permits, slot. NO:
     * not ours any more; err LOST, or revoked when it was force-released: then
     * reterr has the text of that FORCE. forgotten: nobody else holds it
     * either. A RENEW that cannot be sent for a while stays with the store,
     * which writes the cause to err and reterr and sets out->stuck.
     * floor > 0 (a quorum asks a node so; and the core after a NO with
     * said.reclaim): compare the id only, give the grant this token, and remember
     * floor as given. If the store does not know the grant it sets it again: of a
     * quorum when the lock is free (acquire.may_queue: even if others were
     * granted it since), of the core as long as nobody new is let in there. Then
     * acquire.kind, delay, upgrade_of and reserve, and text are as for ACQUIRE. */
    SNIB__RENEW,
    /* Reads token. DONE: ended by this or an earlier copy. NO: another token or
     * nobody is there; the core decides whether that is "done" or "ended
     * before". revoked: it was force-released, which is no release of ours.
     * forgotten: the store may have lost it (one that can tell).
     * resent: the store leaves a tombstone, so that no late copy of the acquire
     * is let in. */
    SNIB__RELEASE,
    /* Reads token: 0 or a prior grant to end too; prior_id: its id. A waiting
     * request is removed, a granted one is released, and for neither the store
     * leaves a tombstone.
     * The answer is always DONE, and sets `granted`.
     * An ACQUIRE of that id which the store still owns is answered too (err
     * CANCELLED; what it had been told counts no more): in the step that
     * answers the CANCEL at the latest, or, if a reply to it is still due on a
     * connection, when that comes. The store does not poll it any more from the
     * start of the CANCEL. */
    SNIB__CANCEL,
    /* The rows of the name go to result. */
    SNIB__INSPECT,
    /* Reads the glob in text and `list`; the rows go to result. background: no
     * caller waits for it, so it may take its time, and it takes no more than a
     * fiftieth of a server's; each of its pauses moves its limit on. It sets
     * left: the time it took without its pauses; 0: all the time until the
     * answer. */
    SNIB__LIST,
    /* A forced release. Reads in text who forces it and why, below 1 KB; result
     * gets one ROW_COUNT. The store keeps its memory of tokens, so the next
     * token is higher. The next RENEW or RELEASE of each ended holder is
     * answered NO with revoked and that text, and each client that listens is
     * told to ask. */
    SNIB__FORCE,
    /* The ROW_FINDINGs go to result. */
    SNIB__DOCTOR,
    /* The size of a semaphore, the count of a latch. Reads `params`; result
     * gets one ROW_PARAMS. It is safe to repeat with the same id. NO: err
     * CONFIG (ADD without a size) or USAGE (the size would leave its bounds). A
     * closed latch keeps everybody out. */
    SNIB__PARAMS,
    /* The versioned value of a name (snib/value.h), which has nothing to do
     * with its lock. token is a version: in, the one expected (0: the value
     * must be absent); out, the new one or, with NO and err BUSY, the one that
     * is there (0: absent). The rules are in core/version.h.
     * NO with err UNKNOWN: repeated too late, the store cannot tell any more
     * whether an earlier copy was applied. Repeating it changes nothing.
     * GET: result gets the bytes; token: 0 when absent. */
    SNIB__VALUE_GET,
    /* Reads floor, lease (how long the value is kept), text (the bytes) and
     * `value`. */
    SNIB__VALUE_PUT,
    /* Reads floor and `value`; DONE sets token 0. */
    SNIB__VALUE_DELETE,
    /* For how long nobody is let in anew, of a store that sets out->lease_most;
     * others are never asked. Reads `params`: with op OPEN the recovery that is
     * over at `amount` (server ms) is ended, with GET none. result gets one
     * ROW_RECOVERY. */
    SNIB__RECOVERY
} snib__verb;

/* The answers to a request; with them every request is safe to repeat.
 * QUEUED is not final: the same ACQUIRE is answered again. */
typedef enum snib__answer {
    SNIB__PENDING,     /* no answer yet */
    SNIB__DONE,        /* applied, by this send or an earlier one */
    SNIB__QUEUED,      /* in the store's queue; position and left are set */
    SNIB__NO,          /* definitely not: another holds it, or it is not ours */
    SNIB__NOT_APPLIED, /* this send definitely not: the store is unfit (err
                          and the error text say why); repeating it changes
                          nothing now */
    SNIB__UNKNOWN      /* sent, no answer: the core re-sends or cancels */
} snib__answer;

/* Of an ACQUIRE. */
struct snib__request_acquire {
    snib_kind kind;
    /* PERMITS: how many; 0: all that are left, at least one (such a request
     * never queues). BARRIER: how many have to come. DONE sets how many were
     * given. */
    uint32_t permits;
    /* The size to give a semaphore that has none yet; 0: it must have one
     * already. */
    uint32_t capacity;
    /* So many tokens behind its own shall be the grant's, for local hand-overs.
     * DONE sets how many are. */
    uint32_t reserve;
    int8_t priority; /* higher ones first; 0: ordinary */
    bool may_queue;
    /* The client keeps the grant for so long after a release, for its own next
     * owner; 0: not at all. Only of a MUTEX without a delay; only where the store
     * has SNIB__CAN_KEEP. The store tells a client that keeps, by out->wanted or
     * out->ended, of each request that comes to stand first behind such a grant
     * (at each of its polls), and of each that is answered NO because of it. */
    uint16_t keep_ms;
    /* Do not stand in a queue: a store that needs a subscription to queue asks
     * again and again instead; it still answers QUEUED in between, with
     * position 0. */
    bool spin;
    /* The store had it in its queue before, so something of it may be there.
     * Set by the core when it starts it again, and by the store. */
    bool placed;
    /* The lock stays closed for so long after this grant has ended without a
     * release. */
    snib_duration delay;
    /* The id of a standing grant of the same owner at this name that is not in
     * the way; 0: none. A writer that wants to read is granted at once. A
     * reader that wants to write goes to the head of the queue; only one at a
     * time may. */
    uint64_t upgrade_of[2];
};

/* Of an ACQUIRE: tries of one chain with the same number. A store that can do
 * so runs them as one step, of which nobody sees a half: in the order of their
 * indices, until one is not DONE. It does not try the ones behind that: they
 * are NO with err CANCELLED. A request that fails on the way, or is resent, is
 * tried alone. */
struct snib__request_batch {
    uint32_t number; /* 0: it is tried alone */
    uint8_t index;
    /* All or none: the ones before the one that is not DONE are ended again, in
     * the same step and with that answer. */
    bool all;
};

/* Of a RENEW. */
struct snib__request_renew {
    /* Does the grant stand? The store extends nothing, and valid_from and left
     * mean nothing (stores that push). */
    bool only_asks;
    bool listen; /* see out->listens */
    /* The deadline in which the owner believes, which a shorter renewal leaves as
     * it is; 0: there is none (who adopts a grant does not know). */
    snib_instant held_until;
};

/* What PARAMS does with its amount. */
typedef enum snib__params_op {
    SNIB__PARAMS_GET,
    SNIB__PARAMS_SIZE,  /* set the size */
    SNIB__PARAMS_INIT,  /* set it if there is none */
    SNIB__PARAMS_ADD,   /* more permits, or fewer */
    SNIB__PARAMS_CLOSE, /* close an open latch; amount: its count */
    SNIB__PARAMS_DOWN,  /* count a closed latch down by amount */
    SNIB__PARAMS_OPEN   /* open the latch */
} snib__params_op;

/* Of a PARAMS. */
struct snib__request_params {
    uint8_t op; /* snib__params_op */
    int64_t amount;
};

/* Of a VALUE_PUT or VALUE_DELETE. */
struct snib__request_value {
    /* When the id was first used. A store that sends later than start() counts
     * the age from here. */
    snib_instant born;
    snib_duration age; /* between born and start() */
};

/* Of a LIST. */
struct snib__request_list {
    bool awaited_only; /* locks without waiters may be left out */
    /* The store may move the limit as long as it finds more: somebody waits. */
    bool limit_moves;
};

/* When other processes have blocked a library for less than this, the core
 * takes it for a write of theirs that passes, not for a broken store. */
#define SNIB__BLOCKED_NS INT64_C(100000000)

/* Of any request to a blocking store: how long exec() may take, and whether
 * others kept it from working. */
struct snib__request_exec {
    /* limit and once as of when it was listed. exec() reads these two, since
     * the core may change limit and once, and acquire.spin, while it runs. */
    snib_instant patience;
    bool impatient;
    /* Across a network, while a worker has it (core/blocking.h). expires:
     * nothing of it is sent any more when its patience is over. sent: something
     * of it may have been sent. heard: when the server last answered to it, as an
     * instant's ns; 0: not yet. */
    bool expires;
    _Atomic bool sent;
    _Atomic int64_t heard;
    /* NOT_APPLIED, PENDING: others were inside the library all the time, as
     * they are when they write; or, of a store with connections, ahead on the
     * connection. */
    bool blocked;
    /* blocked: since when, however often the request was executed. */
    snib_instant blocked_since;
};

/* Of a request that was not sent by its limit. waited: for how long the store was
 * in its way. text: what kept it, the server's silence or what is before it. */
struct snib__unsent {
    snib_duration waited;
    char text[96];
};

/* The store's, while it owns the request. */
struct snib__request_store {
    struct snib__link link;
    struct snib__timer timer;
    /* Where it is. Redis: in flight, queued, …, and on which connection
     * (store/redis/redis_i.h). Blocking stores: its state (core/blocking.c). */
    uint8_t where;
    uint8_t spins; /* tries that were in vain */
    /* Redis: it was refused for a right, and is asked without the mark of the
     * server, which may have been what was refused. */
    bool unmarked;
    /* A cluster: asked of a node that is about to get the lock's slot (ASKING);
     * the map was read anew for it; how often it was sent elsewhere. */
    bool asking, looked;
    uint8_t redirects;
    /* … and where it is to be asked instead: a home's number + 1 (store/redis/
     * slots.h); 0: nowhere, it is answered. */
    uint8_t moved;
    /* Answers in a row that the store did not understand. It lets repeats wait,
     * and said.reterr has the text of the last one until the next answer. The
     * core reads it. */
    uint8_t misread;
    /* Redis: so it is of an answer that too few replicas have acknowledged. */
    bool unconfirmed;
    bool hinted; /* … a message named a grant of it while it was asked for   */
    struct {
        uint32_t number;
        snib_instant sent;
    } sends[2]; /* its last two, by which it dates a pushed grant */
};

/* What the row that answers a FORCE or PARAMS will say. The rules of a lock
 * (core/rules) fill it in; the store writes the row once their step is
 * durable. */
struct snib__request_row {
    uint32_t ended; /* FORCE: holders whose lease was not over */
    /* PARAMS: was it applied, by this send or an earlier one? */
    bool applied;
    int64_t size;     /* -1: the semaphore has none */
    int64_t latch;    /* what is still to be counted down; 0: open */
    int64_t permits;  /* in use */
    uint32_t waiting; /* how many wait */
};

/* The answer. (That to `token`, `acquire.reserve` and `acquire.permits` is
 * there.) */
struct snib__request_said {
    snib__answer answer;
    snib_err err;
    struct snib_error *reterr; /* where details go; NULL: nowhere */
    struct snib__buf *result;  /* the core's; INSPECT, LIST, FORCE, DOCTOR,
                                  PARAMS, VALUE_GET */
    /* The lease counts from here. LIST: when it was sent; 0: not known. */
    snib_instant valid_from;
    snib_duration left; /* DONE: lease given; QUEUED, NO: holder's */
    uint32_t position;  /* QUEUED: 1-based; 0: not known */
    /* DONE, of permits: the lowest number that no standing grant of permits has
     * at this name; the grant keeps it, however often it is asked for. */
    uint32_t slot;
    /* CANCEL: the token of the grant that this CANCEL ended (of a BARRIER also
     * one that an earlier copy ended: the barrier has opened, whether or not
     * anybody heard of it); 0: there was none, or the store has mutexes
     * only. */
    int64_t granted;
    /* DONE of an ACQUIRE with keep_ms: nobody waited when it was granted. False
     * also where that is not known. */
    bool alone;
    /* NO: the holder's client may merely keep the grant, and was told that
     * somebody asks for it. */
    bool kept;
    bool revoked;   /* RENEW, RELEASE: it was force-released */
    bool forgotten; /* RENEW: nobody else holds it either; RELEASE: lost */
    /* RENEW, NO: the store may have forgotten grants that stood. Who believes in
     * one that is exclusive sends the RENEW with a floor. */
    bool reclaim;
    /* DONE: the token is more than a day ahead of the store's clock, so the
     * core does not make it the floor for other names. */
    bool far;
    struct snib__request_row row; /* the store's, until it has written it */
};

struct snib__request {
    struct snib__link link;        /* travels: start's chain, out->exec,
                                      out->answered */
    const struct snib__name *name; /* outlives the request; NULL for LIST */
    uint64_t id[2];                /* random; never used again */
    snib__verb verb;
    /* No caller waits for it (a renewal, a clean-up). */
    bool background;
    /* It was never sent: one failed attempt to connect ends it (NOT_APPLIED);
     * it does not wait for its limit. */
    bool once;
    /* An earlier send may be executed later. The core sets it when it re-sends;
     * the store sets it with DONE when a copy is still on its way. */
    bool resent;
    /* Set with DONE of an ACQUIRE, given back with its RELEASE: the store's
     * note of how the grant stands there. */
    bool thin;
    /* Set with each send of an ACQUIRE, given back with the RELEASE or CANCEL of
     * its id: the store's note of until when a copy of it may be executed. 0: not
     * known. */
    int64_t late;
    /* Set by a store that asks for an ACQUIRE under ids of its own: under which of
     * them it asks from now on; then out->renamed is set, too. 0: under `id`. */
    uint64_t asked[2];
    int64_t token;        /* in and out: see the verb */
    uint64_t prior_id[2]; /* ACQUIRE, CANCEL with a token: the id of that grant;
                             0: not known */
    int64_t floor;        /* highest token seen on this store */
    snib_duration lease;
    /* The store gives up at this instant (unsent: NOT_APPLIED); due() covers
     * it. The core may move it later while the request waits. */
    snib_instant limit;
    const char *text; /* about / glob / reason / value; outlives it */
    uint32_t text_size;
    void *user; /* the core's */
    struct snib__request_acquire acquire;
    struct snib__request_batch batch;
    struct snib__request_renew renew;
    struct snib__request_params params;
    struct snib__request_value value;
    struct snib__request_list list;
    struct snib__request_exec exec;
    struct snib__request_store store;
    struct snib__request_said said;
};

/* UNKNOWN: does the text in said.reterr say why? */
static inline bool snib__request_says_why(const struct snib__request *rq)
{
    return rq->store.misread || rq->store.unconfirmed;
}

#endif
