/* core/store.h — what a store does for the core.
 *
 * A store is sans-I/O: it is told what happened and when, and leaves what it
 * wants in struct snib__out. It never blocks, reads no clock, starts no
 * thread, calls nobody back. run (threads) and sim (seeds) drive it alike.
 * Called with the client's mutex held; not re-entrant.
 *
 * A vendor library that blocks (SQLite) implements the smaller
 * snib__blocking_ops; core/blocking.c turns that into the first.
 *
 * Memory: after open() a store allocates only inside buffers with a limit; a
 * step that finds no memory answers the request NOT_APPLIED with NOMEM (if
 * nothing was sent) or closes the channel (then UNKNOWN). */
#ifndef SNIB__STORE_H
#define SNIB__STORE_H

#include "base/buf.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/random.h"
#include "base/record.h"
#include "base/time.h"
#include "core/name.h"
#include "core/url.h"
#include "snib.h"

#define SNIB__STORE_ABI 1
#define SNIB__CONNS     21 /* a quorum: three for each of seven nodes */
#define SNIB__HINTS     8

typedef enum snib__verb {
    SNIB__ACQUIRE,
    SNIB__RENEW,
    SNIB__RELEASE,
    SNIB__CANCEL,
    SNIB__INSPECT,
    SNIB__LIST,
    SNIB__FORCE, /* force-release                                         */
    SNIB__DOCTOR,
    SNIB__PARAMS, /* size of a semaphore, count of a latch                  */
    SNIB__VALUE_GET,
    SNIB__VALUE_PUT,
    SNIB__VALUE_DELETE
} snib__verb;

/* What TERMS does with its amount. */
typedef enum snib__params_op {
    SNIB__PARAMS_GET,
    SNIB__PARAMS_SIZE,  /* set the size                                       */
    SNIB__PARAMS_INIT,  /* set it if there is none                            */
    SNIB__PARAMS_ADD,   /* more permits, or fewer                             */
    SNIB__PARAMS_CLOSE, /* close an open latch with so far to go              */
    SNIB__PARAMS_DOWN,  /* count a closed one down                            */
    SNIB__PARAMS_OPEN   /* open it                                            */
} snib__params_op;

/* P4 in one type. QUEUED is not final: the same ACQUIRE is answered again. */
typedef enum snib__answer {
    SNIB__PENDING,     /* no answer yet                                     */
    SNIB__DONE,        /* applied, now or by an earlier send                */
    SNIB__QUEUED,      /* in the store's queue; position, left are set      */
    SNIB__NO,          /* definitely not: held by another, not ours         */
    SNIB__NOT_APPLIED, /* this send definitely not: store unfit (err, error
                          text); repeating it changes nothing now           */
    SNIB__UNKNOWN      /* sent, no answer: core re-sends or cancels         */
} snib__answer;

/* A library that others have blocked for less than this: it passes. */
#define SNIB__BLOCKED_NS INT64_C(100000000)

/* One attempt by this client for one lock (owners are the core's business).
 * From start() until its final answer it belongs to the store; the core may
 * start() it again afterwards (a repeat: same id).
 *
 * What each verb reads and means:
 *
 *  ACQUIRE  id, kind, permits, capacity, may_queue, lease, delay, room, floor,
 *           rank, beside, about; token: 0, or our own earlier exclusive grant
 *           on this name to be ended first, in the same atomic step (`prior`;
 *           the "yield" at the end of a local turn). A lock is a resource with
 *           one queue: MUTEX and WRITE want nobody else, READ nobody exclusive,
 *           PERMITS nobody exclusive and so many of the size free (0: all that
 *           are left, at least one; never queues), BARRIER so many of its kind
 *           at the head of the queue. spin: a store that needs a subscription
 *           to queue asks again and again instead; QUEUED as an interim answer
 *           all the same (position 0). Who does not fit makes everybody behind
 *           it wait. capacity: the size of a semaphore that has none yet, 0:
 *           it must have one. beside: a standing grant of the same owner at
 *           this name that does not stand in the way, 0: none (a writer that
 *           reads: granted at once; a reader that wants to write: at the head
 *           of the queue, one at a time). delay: how long the lock stays closed
 *           after this grant has ended without a release. A repeat
 *           with the same id of a grant that still stands re-arms the lease
 *           and returns the same token (H13). DONE sets token, room (as
 *           reserved), left (length of the lease given, counted from
 *           valid_from) and valid_from. left < lease: a pushed grant under a
 *           claim lease. QUEUED sets position (1-based), left (holder's).
 *           NO: held, left set (may_queue false); err DEADLOCK: another reader
 *           is waiting to become the writer; LOST: beside is over; USAGE: more
 *           permits than there are, or no size. PERMITS: DONE sets permits,
 *           and slot: the lowest number that no standing grant of permits has
 *           at this name; it stays the grant's, however often it is asked.
 *           DONE may set id: a store that asks under ids of its own (a
 *           quorum) tells under which one the grant stands.
 *           batch: tries of one chain with the same number are one step of
 *           a store that can do so, which nobody sees half done: in the order
 *           of `place`, until one is not DONE. Those behind it are not looked
 *           at: NO, err CANCELLED. all: those before it are ended again in
 *           the same step, with that answer. What fails on the way, or is
 *           resent, is asked for alone.
 *  RENEW    id, token, lease: compare id and token, never create. DONE sets
 *           valid_from, left, of permits slot. NO: not ours any more; err
 *           LOST, or revoked = true when force-released: reterr's text is then
 *           that of the FORCE. One that cannot be sent for a while says why in
 *           err and reterr and sets out->stuck; it stays with the store.
 *           only_asks: does the grant stand? Nothing is extended, valid_from
 *           and left mean nothing (stores that push).
 *           listen: see out->listens.
 *           floor > 0 (only a quorum asks a node so): compare the id only,
 *           give the grant this token, remember floor as given, and where the
 *           grant is not known set it again if the lock is free (may_queue:
 *           even if others were granted it since). room, text as for ACQUIRE.
 *  RELEASE  id, token. DONE: ended by this or an earlier copy. NO: another
 *           token or nobody is there (the core decides: done or ended, H31);
 *           revoked = true: it was force-released, which is no release of ours.
 *           resent: leave a tombstone (H12).
 *  CANCEL   id; token: 0 or a prior grant to end too. Waiting -> removed;
 *           granted -> released; neither -> tombstone. Always DONE; granted:
 *           token of the grant that this or, of a BARRIER, an earlier copy has
 *           ended (it has opened, whoever heard of that); 0: there was none, or
 *           the store has mutexes only. An
 *           ACQUIRE of that id which the store still owns is answered too (NO,
 *           err CANCELLED): at the latest in the step that answers the CANCEL,
 *           or when its own reply comes if one is still awaited on a line. It
 *           is not polled any more from the start of the CANCEL.
 *  INSPECT  name; rows go to result.   LIST  glob in text. background: nobody
 *           waits for it, so it may take its time, and takes no more than a
 *           fiftieth of a server's: pauses move its limit on. Sets left:
 *           what it took without its pauses, 0: all until the answer.
 *  FORCE    name, in text who forces it and why, below 1 KB; result: one
 *           ROW_COUNT. The token memory is kept, so the next token is higher;
 *           the ended holders' next RENEW or RELEASE answers NO with revoked
 *           and that text, and who listens is told to ask.
 *  DOCTOR   result: ROW_FINDINGs.
 *  TERMS    id, name, op, amount; result: one ROW_TERMS. Safe to repeat with
 *           the same id. NO: err CONFIG (ADD without a size), USAGE (the size
 *           would leave its bounds). A closed latch keeps everybody out.
 *  VALUE_…  the versioned value of a name (snib/value.h), which has nothing to
 *           do with its lock. token is a version: in, the one expected (0: must
 *           be absent); out, the new one, or, with NO and err BUSY, the one
 *           that is there (0: absent). The rules: core/version.h.
 *           GET     result: the bytes; token: 0 when absent.
 *           PUT     id, resent, born, age, floor, lease (how long it is
 *                   kept), text: the bytes.
 *           DELETE  id, resent, born, age, floor; DONE sets token 0.
 *           NO with err UNKNOWN: repeated too late, the store cannot tell any
 *           more whether an earlier copy was applied. Repeating changes
 *           nothing.                                                       */
struct snib__request {
    struct snib__link link;        /* travels: start's chain, out->exec,
                                      out->answered                         */
    struct snib__link own;         /* the store's, while it owns it         */
    struct snib__timer timer;      /* the store's, while it owns it         */
    const struct snib__name *name; /* outlives the request; NULL for LIST   */
    uint64_t id[2];                /* random; never used again              */
    snib__verb verb;
    snib_kind kind;
    uint32_t permits, capacity;
    uint32_t batch;  /* asked for in one step with others; 0: alone    */
    int8_t rank;     /* higher ones first; 0: ordinary        */
    uint8_t conn;    /* the store's: line it went out on      */
    uint8_t spins;   /* the store's: times it asked in vain   */
    uint8_t misread; /* the store's: answers in a row that it did not
                         understand; it lets repeats wait, and the text of
                         the last is in reterr until the next answer       */
    uint8_t op;      /* snib__params_op                        */
    uint8_t index;   /* in its batch                        */
    bool all;        /* the batch: all or none              */
    bool spin;       /* do not stand in a queue: ask again      */
    bool far;        /* DONE: the token is more than a day ahead of the store's
                  clock, so it is no floor for other names                  */
    bool placed;     /* ACQUIRE, started again: the store had it in its queue
                  before, so something of it may be there                   */
    bool once;       /* not sent before: one failed attempt to connect ends it
                  (NOT_APPLIED), not its limit                              */
    bool blocked;    /* NOT_APPLIED, PENDING: others were inside the library
                  all the time, as they are when they write                 */
    snib_instant asked; /* blocked: since when it has been, however often it
                  was asked                                                 */
    bool may_queue, resent, revoked,
        background;    /* background: not a caller's own
                                      wait (renewal, clean-up); resent: a copy
                                      may be executed later. The store sets it
                                      with DONE when one is still on its way */
    bool awaited_only; /* LIST: locks that nobody waits for may be left out */
    bool only_asks, listen; /* RENEW                                        */
    int64_t token, floor;   /* floor: highest token seen here        */
    int64_t amount;         /* of a TERMS                            */
    int64_t granted;        /* CANCEL, the answer                    */
    uint32_t reserve, position, slot;
    uint64_t upgrade_of[2];
    snib_duration lease, delay;
    snib_instant born;  /* VALUE_…: when the id was first asked for; a store
                           that sends later than it is asked counts from here */
    snib_duration age;  /* … and how long that was before start()         */
    snib_instant limit; /* store gives up at this instant (unsent:
                                      NOT_APPLIED; due() covers it). The core
                                      may move it later while waiting        */
    snib_instant patience; /* blocking stores: limit as of start();
                                      exec() reads this one, since limit may
                                      move while it runs                     */
    const char *text;      /* about / glob / reason; outlives it    */
    uint32_t text_size;
    struct {
        uint32_t number;
        snib_instant sent;
    } poll[2];                /* the store's: last two polls (H03)     */
    struct snib__buf *result; /* INSPECT, LIST, FORCE, DOCTOR: core's  */
    void *user;               /* the core's                            */
    /* the answer */
    snib__answer answer;
    snib_err err;
    struct snib_error *reterr; /* may be NULL: where details go         */
    snib_instant valid_from;   /* P1: the lease counts from here. LIST: when
                                  it was sent; 0: not known              */
    snib_duration left;        /* DONE: lease set; QUEUED/NO: holder's  */
};

/* A byte stream to one server. Buffers are the engine's, the ends are run's
 * or the simulator's. TLS sits between: bytes in, bytes out, same mutex.   */
struct snib__conn {
    struct snib__buf out; /* store appends, driver takes           */
    uint32_t awaited;     /* answers due: 0 = nobody need read     */
    bool pushes;          /* may speak unasked (subscription)      */
    bool used;            /* the store has this channel            */
    char address[264];    /* "host:port", "[v6]:port" or a path
                                      that starts with '/' (unix)           */
};

typedef enum snib__input_kind {
    SNIB__IN_OPENED, /* chan is connected                                  */
    SNIB__IN_BYTES,
    SNIB__IN_CLOSED,   /* by the peer, by an error, or after out->shut       */
    SNIB__IN_REFUSED,  /* could not be connected; bytes: why (text)          */
    SNIB__IN_NOTIFIED, /* the bell's fd is readable                          */
    SNIB__IN_TICK      /* due() has come                                     */
} snib__input_kind;

struct snib__input {
    snib__input_kind kind;
    uint8_t conn;
    bool hopeless;     /* REFUSED: there is no such host        */
    const void *bytes; /* borrowed for the call                 */
    size_t size;
};

/* Everything a step may want, as data. The engine owns it, run drains it. */
struct snib__out {
    struct snib__list answered; /* requests, answer set                  */
    struct snib__list exec;     /* requests for a blocking store         */
    uint32_t open, shut;        /* bit per channel: connect / close it   */
    /* Grants that somebody is said to have ended (revoke): a hint, the
     * engine asks by a renewal. Are there more than fit, all is asked for. */
    uint64_t ended[SNIB__HINTS][2];
    uint32_t ended_count;
    bool missed;    /* … or may have been, while nobody listened:
                                      all that is held is asked for         */
    bool stuck;     /* a RENEW that was not sent yet has err
                                      and reterr set: why it could not be   */
    bool holds;     /* the engine's: something is held       */
    bool listens;   /* … and was for a second, once: a store
                                      that pushes opens the way by which it is
                                      told of forced releases, and names it
                                      with the next RENEW of each grant if it
                                      is not named there yet                */
    uint32_t conns; /* channels in use: 0 .. chans - 1       */
    struct snib__conn conn[SNIB__CONNS];
    void (*log)(void *data, int level, const char *line); /* may be NULL    */
    void *log_data;
};

static inline void snib__out_ended(struct snib__out *out, const uint64_t id[2])
{
    if (out->ended_count < SNIB__HINTS) {
        uint64_t *slot = out->ended[out->ended_count++];
        slot[0] = id[0];
        slot[1] = id[1];
    } else {
        out->missed = true;
    }
}

enum snib__caps {
    SNIB__CAN_QUEUE = 1, /* waiters stand in it, so circles can be seen  */
    SNIB__CAN_PUSH = 2,  /* says who was forced: RENEW's only_asks, listen */
    SNIB__IN_PROCESS = 4 /* exec() never blocks                            */
};

struct snib__store; /* each store has its own                */

struct snib__store_config {
    const struct snib__url *url; /* borrowed during open                  */
    struct snib__seed seed;
    struct snib__out *out;  /* outlives the store                    */
    snib_duration request;  /* patience for one answer               */
    uint64_t client[2];     /* the client's uuid                     */
    int64_t wall_offset_ns; /* REALTIME − BOOTTIME; 0: not known.
                                      Only to show, never for a lease       */
};

/* How the store is as far as is known without asking it. */
struct snib__store_state {
    bool reachable;
    snib_err err;       /* why not; OK and not reachable: not known yet    */
    snib_instant since; /* of that; 0: not known                           */
    uint32_t nodes, nodes_reachable;
    bool behind; /* a node is being told what is answered already           */
    char text[252]; /* one clean line, never a password; "": all is well   */
};

struct snib__store_ops {
    uint32_t abi;       /* SNIB__STORE_ABI                       */
    size_t size;        /* sizeof this struct                    */
    const char *scheme; /* "redis"                               */
    uint32_t caps;
    /* Parse and allocate only; may set chan[].used/address and out->open.
     * Errors: USAGE, CONFIG, NOMEM. */
    snib_err (*open)(const struct snib__store_config *,
                     struct snib__store **ret, struct snib_error *reterr);
    /* A chain of requests (list of link); equal verbs in a row may travel as
     * one. Takes all of them off the list. */
    void (*start)(struct snib__store *, snib_instant now,
                  struct snib__list *chain);
    void (*input)(struct snib__store *, snib_instant now,
                  const struct snib__input *);
    snib_instant (*due)(const struct snib__store *);
    /* No I/O. NULL: always reachable. *ret is zero before. */
    void (*state)(const struct snib__store *, snib_instant now,
                  struct snib__store_state *ret);
    /* Any state; answers nothing; forgets all requests. */
    void (*free)(struct snib__store *);
};

/* A library that blocks. exec() is called with no client mutex held, by one
 * thread at a time, and fills each request's answer; it must return by the
 * requests' limit. QUEUED requests are executed again at min(left, poll cap)
 * and when rung() names them. The adapter is core/blocking.c. */
struct snib__blocking_ops {
    uint32_t abi;
    size_t size;
    const char *scheme;
    uint32_t caps;
    snib_err (*open)(const struct snib__store_config *, void **ret,
                     struct snib_error *reterr);
    void (*exec)(void *, snib_instant now, struct snib__list *chain);
    /* -1: none. Readable: there are messages for rung(). */
    int (*notifier_fd)(void *);
    /* Take all messages; write the ids of requests that may have been
     * granted to ids (at most max), return how many. Called with the client
     * mutex held: must not block. */
    uint32_t (*notified)(void *, uint64_t (*ids)[2], uint32_t max);
    void (*free)(void *);
};

#endif
