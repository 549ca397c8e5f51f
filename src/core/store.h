/* core/store.h — what a store does for the core.
 *
 * A store is sans-I/O. The driver tells it what happened and when, and the
 * store leaves what it wants in struct snib__out. It never blocks, reads no
 * clock, starts no thread and calls nobody back, so the driver (threads) and
 * sim (seeds) use it alike. Every call is made with the client's mutex held and
 * is not re-entrant.
 *
 * A vendor library that blocks (SQLite) implements the smaller table
 * snib__blocking_ops; core/blocking.c makes a store of it.
 *
 * Memory: after open() a store allocates only inside buffers with a limit. A
 * step that finds no memory answers the request NOT_APPLIED with NOMEM if
 * nothing was sent; else it closes the connection, and the request ends as
 * UNKNOWN. */
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
    SNIB__FORCE, /* force-release */
    SNIB__DOCTOR,
    SNIB__PARAMS, /* size of a semaphore, count of a latch */
    SNIB__VALUE_GET,
    SNIB__VALUE_PUT,
    SNIB__VALUE_DELETE
} snib__verb;

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

/* The answers to a request; with them every request is safe to repeat (P4).
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

/* When other processes have blocked a library for less than this, the core
 * takes it for a write of theirs that passes, not for a broken store. */
#define SNIB__BLOCKED_NS INT64_C(100000000)

/* One attempt by this client for one lock. The owners behind it are the core's
 * business. From start() until its final answer the request belongs to the
 * store; afterwards the core may start() it again (a repeat: the same id).
 *
 * What each verb reads, and what its answers mean:
 *
 *  ACQUIRE  Reads id, kind, permits, capacity, may_queue, spin, lease, delay,
 *           reserve, floor, rank, upgrade_of, batch, index, all, text (about)
 *           and token.
 *           A lock is one resource with one queue. MUTEX and WRITE need that
 *           nobody else holds it; READ, that nobody holds it exclusively;
 *           PERMITS, that nobody holds it exclusively and that so many permits
 *           of the size are free (permits 0: all that are left, at least one;
 *           such a request never queues); BARRIER, that so many of its kind
 *           stand at the head of the queue. A request that does not fit makes
 *           everybody behind it wait.
 *           token: 0, or our own earlier exclusive grant on this name, which
 *           the store ends first in the same atomic step (the core's `prior`: a
 *           yield, after the last local hand-over).
 *           spin: a store that needs a subscription to queue asks again and
 *           again instead; it still answers QUEUED in between, with position 0.
 *           capacity: the size to give a semaphore that has none yet; 0: it
 *           must have one already.
 *           upgrade_of: the id of a standing grant of the same owner at this
 *           name that is not in the way; 0: none. A writer that wants to read
 *           is granted at once. A reader that wants to write goes to the head
 *           of the queue; only one at a time may.
 *           delay: how long the lock stays closed after this grant has ended
 *           without a release.
 *           A repeat with the id of a grant that still stands re-arms the lease
 *           and returns the same token.
 *           DONE sets token, reserve (as given), valid_from, and left: the
 *           length of the lease given, counted from valid_from. left < lease
 *           means a pushed grant, which stands for a claim lease only. PERMITS:
 *           DONE also sets permits, and slot: the lowest number that no
 *           standing grant of permits has at this name; the grant keeps it,
 *           however often it is asked for. DONE may set id: a store that asks
 *           under ids of its own (a quorum) tells under which of them the grant
 *           stands.
 *           QUEUED sets position (1-based) and left (of the holder).
 *           NO: another holds it (may_queue false); left is set. err DEADLOCK:
 *           another reader is waiting to become the writer. err LOST: the grant
 *           of upgrade_of is over. err TOO_MANY: more permits than there are.
 *           err CONFIG: the semaphore has no size.
 *           batch: tries of one chain with the same number. A store that can do
 *           so runs them as one step, of which nobody sees a half: in the order
 *           of `index`, until one is not DONE. It does not try the ones behind
 *           that: they are NO with err CANCELLED. With `all` it also ends the
 *           ones before it again, in the same step and with that answer. A
 *           request that fails on the way, or is resent, is tried alone.
 *  RENEW    Reads id, token, lease. The store compares id and token and never
 *           creates a grant. DONE sets valid_from, left and, of permits, slot.
 *           NO: not ours any more; err LOST, or revoked = true when it was
 *           force-released: then reterr has the text of that FORCE.
 *           forgotten = true: nobody else holds it either. A RENEW that cannot be sent for a while stays with the store, which writes
 *           the cause to err and reterr and sets out->stuck.
 *           only_asks: does the grant stand? The store extends nothing, and
 *           valid_from and left mean nothing (stores that push).
 *           listen: see out->listens.
 *           floor > 0 (only a quorum asks a node so): compare the id only, give
 *           the grant this token, and remember floor as given. If the node does
 *           not know the grant it sets it again when the lock is free
 *           (may_queue: even if others were granted it since); then reserve and
 *           text are as for ACQUIRE.
 *  RELEASE  Reads id, token. DONE: ended by this or an earlier copy. NO:
 *           another token or nobody is there; the core decides whether that is
 *           "done" or "ended before". revoked = true: it was force-released,
 *           which is no release of ours. resent: the store leaves a tombstone,
 *           so that no late copy of the acquire is let in.
 *  CANCEL   Reads id, and token: 0 or a prior grant to end too. A waiting
 *           request is removed, a granted one is released, and for neither the
 *           store leaves a tombstone. The answer is always DONE. It sets
 *           `granted` to the token of the grant that this CANCEL ended (of a
 *           BARRIER also one that an earlier copy ended: the barrier has
 *           opened, whether or not anybody heard of it); 0: there was none, or
 *           the store has mutexes only.
 *           An ACQUIRE of that id which the store still owns is answered too
 *           (err CANCELLED; what it had been told counts no more): in the step
 *           that answers the CANCEL at the latest, or, if a reply to it is
 *           still due on a connection, when that comes. The store does not poll
 *           it any more from the start of the CANCEL.
 *  INSPECT  Reads name; the rows go to result.
 *  LIST     Reads the glob in text; the rows go to result. background: no
 *           caller waits for it, so it may take its time, and it takes no more
 *           than a fiftieth of a server's; each of its pauses moves its limit
 *           on. It sets left: the time it took without its pauses; 0: all the
 *           time until the answer.
 *  FORCE    Reads name, and in text who forces the release and why, below 1 KB;
 *           result gets one ROW_COUNT. The store keeps its memory of tokens, so
 *           the next token is higher. The next RENEW or RELEASE of each ended
 *           holder is answered NO with revoked and that text, and each client
 *           that listens is told to ask.
 *  DOCTOR   The ROW_FINDINGs go to result.
 *  PARAMS   Reads id, name, op, amount; result gets one ROW_PARAMS. It is safe
 *           to repeat with the same id. NO: err CONFIG (ADD without a size) or
 *           USAGE (the size would leave its bounds). A closed latch keeps
 *           everybody out.
 *  VALUE_…  The versioned value of a name (snib/value.h), which has nothing to
 *           do with its lock. token is a version: in, the one expected (0: the
 *           value must be absent); out, the new one or, with NO and err BUSY,
 *           the one that is there (0: absent). The rules are in core/version.h.
 *           GET: result gets the bytes; token: 0 when absent.
 *           PUT: reads id, resent, born, age, floor, lease (how long the value
 *           is kept), text (the bytes).
 *           DELETE: reads id, resent, born, age, floor; DONE sets token 0.
 *           NO with err UNKNOWN: repeated too late, the store cannot tell any
 *           more whether an earlier copy was applied. Repeating it changes
 *           nothing. */
struct snib__request {
    struct snib__link link;        /* travels: start's chain, out->exec,
                                      out->answered */
    struct snib__link own;         /* the store's, while it owns it */
    struct snib__timer timer;      /* the store's, while it owns it */
    const struct snib__name *name; /* outlives the request; NULL for LIST */
    uint64_t id[2];                /* random; never used again */
    snib__verb verb;
    snib_kind kind;
    uint32_t permits, capacity;
    uint32_t batch; /* tried in one step with others; 0: alone */
    int8_t rank;    /* higher ones first; 0: ordinary */
    /* The store's. Redis: the connection it went out on, and marks. Blocking
     * stores: its state (core/blocking.c). */
    uint8_t conn;
    uint8_t spins; /* the store's: tries that were in vain */
    /* The store's: answers in a row that it did not understand. It lets repeats
     * wait, and reterr has the text of the last one until the next answer. */
    uint8_t misread;
    uint8_t op;    /* snib__params_op */
    uint8_t index; /* in its batch */
    bool all;      /* the batch: all or none */
    bool spin;     /* do not stand in a queue: ask again */
    /* DONE: the token is more than a day ahead of the store's clock, so the
     * core does not make it the floor for other names. */
    bool far;
    /* ACQUIRE: the store had it in its queue before, so something of it may be
     * there. Set by the core when it starts it again, and by the store. */
    bool placed;
    /* It was never sent: one failed attempt to connect ends it (NOT_APPLIED);
     * it does not wait for its limit. */
    bool once;
    bool impatient; /* blocking stores: once as of when it was listed */
    /* NOT_APPLIED, PENDING: others were inside the library all the time, as
     * they are when they write. */
    bool blocked;
    /* blocked: since when, however often the request was executed. */
    snib_instant blocked_since;
    /* background: no caller waits for it (a renewal, a clean-up). resent: an
     * earlier send may be executed later. The core sets it when it re-sends;
     * the store sets it with DONE when a copy is still on its way. */
    bool may_queue, resent, revoked, forgotten, background;
    bool awaited_only;      /* LIST: locks without waiters may be left out */
    bool only_asks, listen; /* RENEW */
    int64_t token, floor;   /* floor: highest token seen on this store */
    int64_t amount;         /* of a PARAMS */
    int64_t granted;        /* CANCEL's answer: a token or 0 */
    uint32_t reserve, position, slot;
    uint64_t upgrade_of[2];
    snib_duration lease, delay;
    /* VALUE_…: when the id was first used. A store that sends later than
     * start() counts the age from here. */
    snib_instant born;
    snib_duration age; /* VALUE_…: between born and start() */
    /* The store gives up at this instant (unsent: NOT_APPLIED); due() covers
     * it. The core may move it later while the request waits. */
    snib_instant limit;
    /* Blocking stores: the limit as of when it was listed. exec() reads this
     * one and `impatient`, since the core may change limit, once and spin while
     * it runs. */
    snib_instant patience;
    const char *text; /* about / glob / reason / value; outlives it */
    uint32_t text_size;
    struct {
        uint32_t number;
        snib_instant sent;
    } poll[2];                /* the store's: its last two polls, by which it
                                 dates a pushed grant */
    struct snib__buf *result; /* the core's; INSPECT, LIST, FORCE, DOCTOR,
                                 PARAMS, VALUE_GET */
    void *user;               /* the core's */
    /* the answer */
    snib__answer answer;
    snib_err err;
    struct snib_error *reterr; /* where details go; NULL: nowhere */
    /* The lease counts from here (P1). LIST: when it was sent; 0: not known. */
    snib_instant valid_from;
    snib_duration left; /* DONE: lease given; QUEUED, NO: holder's */
};

/* A byte stream to one server. The engine owns the buffers, the driver or
 * the simulator the ends. TLS sits between: bytes in, bytes out, under the same
 * mutex. */
struct snib__conn {
    struct snib__buf out; /* the store appends, the driver takes */
    uint32_t awaited;     /* answers due; 0: nobody need read */
    bool pushes;          /* may speak unasked (subscription) */
    bool used;            /* the store has this connection */
    /* "host:port", "[v6]:port", or a path that starts with '/' (unix
     * socket). */
    char address[264];
};

typedef enum snib__input_kind {
    SNIB__IN_OPENED, /* it is connected */
    SNIB__IN_BYTES,
    SNIB__IN_CLOSED,   /* by the peer, by an error, or after out->shut */
    SNIB__IN_REFUSED,  /* it could not be connected; bytes: the cause (text) */
    SNIB__IN_NOTIFIED, /* the notifier's descriptor is readable */
    SNIB__IN_TICK,     /* the instant of due() has come */
    SNIB__IN_LOGIN     /* what out->login asked for: login, err */
} snib__input_kind;

struct snib__input {
    snib__input_kind kind;
    uint8_t conn;
    bool hopeless;     /* REFUSED: there is no such host */
    const void *bytes; /* borrowed for the call */
    size_t size;
    /* LOGIN: what the program answered; borrowed for the call, and wiped after
     * it. err not OK: it has none; login->text says why. */
    const struct snib_login *login;
    snib_err err;
};

/* Everything a step may want, as data. The engine owns it, the driver drains
 * it. */
struct snib__out {
    struct snib__list answered; /* requests with their answers set */
    struct snib__list exec;     /* requests for a blocking store */
    uint32_t open, shut;        /* a bit per connection: connect / close it */
    /* A bit per connection: ask the program for a login (the input is LOGIN);
     * of these, where the server has refused the login before. */
    uint32_t login, refused;
    /* Ids of grants that somebody is said to have ended (revoke). That is a
     * hint: the engine asks by a renewal. When more come than fit, it asks for
     * all it holds. */
    uint64_t ended[SNIB__HINTS][2];
    uint32_t ended_count;
    /* Grants may have been ended while nobody listened: ask for all that is
     * held. */
    bool missed;
    /* A RENEW that is not sent yet has err and reterr set: why it could not
     * be. */
    bool stuck;
    /* Another server answers than the last one, or that one has lived anew. */
    bool changed;
    bool holds; /* set by the engine: something is held */
    /* Set by the engine: something has been held for a second, at least once.
     * From then on a store that pushes opens the way by which it is told of
     * forced releases, and names that way with the next RENEW of each grant
     * where it is not named yet. */
    bool listens;
    uint32_t conns; /* connections in use: 0 .. conns - 1 */
    struct snib__conn conn[SNIB__CONNS];
    void (*log)(void *data, int level, const char *line); /* may be NULL */
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
    SNIB__CAN_QUEUE = 1, /* shows its waiters, so deadlocks can be seen */
    SNIB__CAN_PUSH = 2,  /* tells of forced releases; knows RENEW's only_asks
                            and listen */
    SNIB__IN_PROCESS = 4 /* exec() never blocks */
};

struct snib__store; /* each store has its own */

struct snib__store_config {
    const struct snib__url *url; /* borrowed during open */
    struct snib__seed seed;
    struct snib__out *out; /* outlives the store */
    snib_duration request; /* how long to wait for one answer */
    uint64_t client[2];    /* the client's id */
    /* REALTIME − BOOTTIME; 0: not known. Only to show, never for a lease. */
    int64_t wall_offset_ns;
    /* The program gives the logins: a store that logs in asks by out->login. */
    bool login;
    /* Find out whether it is another server that answers: out->changed. */
    bool watch;
};

/* How the store is, as far as the client knows without asking it. */
struct snib__store_state {
    bool reachable;
    snib_err err;       /* why it is not; OK and not reachable: not known yet */
    snib_instant since; /* since when; 0: not known */
    uint32_t nodes, nodes_reachable;
    bool behind;    /* a node is still being told what was answered already */
    char text[252]; /* one clean line, never a password; "": all is well */
};

/* What the client knows of a server without asking it. Clean text; "": not
 * known. */
struct snib__server {
    struct snib__store_state state;
    char address[264];
    char product[32], version[48], role[16], run_id[48];
    snib_instant connected; /* 0: there is no connection */
};

struct snib__store_ops {
    uint32_t abi;       /* SNIB__STORE_ABI */
    size_t size;        /* sizeof this struct */
    const char *scheme; /* "redis" */
    uint32_t caps;
    /* Parses and allocates only; may set conn[].used, conn[].address and
     * out->open. Errors: USAGE, CONFIG, NOMEM. */
    snib_err (*open)(const struct snib__store_config *,
                     struct snib__store **ret, struct snib_error *reterr);
    /* Takes a chain of requests (a list of `link`) over, all of them; equal
     * verbs in a row may travel as one. */
    void (*start)(struct snib__store *, snib_instant now,
                  struct snib__list *chain);
    void (*input)(struct snib__store *, snib_instant now,
                  const struct snib__input *);
    snib_instant (*due)(const struct snib__store *);
    /* How the store is; does no I/O. NULL: always reachable. The caller has
     * zeroed *ret. */
    void (*state)(const struct snib__store *, snib_instant now,
                  struct snib__store_state *ret);
    /* What is known of a server; does no I/O. node 0: of the only one, or of
     * the quorum as one; 1 and up: of each server of a quorum. False: there is
     * none of that number. The caller has zeroed *ret. NULL: nothing is. */
    bool (*server)(const struct snib__store *, snib_instant now, uint32_t node,
                   struct snib__server *ret);
    /* Called in any state; answers nothing, forgets all requests. */
    void (*free)(struct snib__store *);
};

/* The sessions that a library across a network has with its server. Each has a
 * worker of its own, so what stalls in one delays nothing in the other. */
typedef enum snib__session {
    SNIB__SESSION_CALLERS, /* what a caller waits for */
    /* Requests with `background`: renewals, clean-up, the deadlock search. */
    SNIB__SESSION_BACKGROUND,
    SNIB__SESSIONS
} snib__session;

/* A library that blocks. It fills each request's answer and must return by the
 * requests' limit. A QUEUED request is executed again at min(left, poll cap),
 * and when notified() names it. The adapter is core/blocking.c.
 *
 * A library is one of three. With exec() and SNIB__IN_PROCESS it never blocks:
 * any thread of the client executes, also that of an event loop. With exec()
 * alone it waits for this host only: the threads of callers execute, or else
 * one worker. With exec_in() it is across a network, and its peer may stall:
 * two workers execute, and never a caller's thread. */
struct snib__blocking_ops {
    uint32_t abi;
    size_t size;
    const char *scheme;
    uint32_t caps;
    /* It does not connect; a library across a network makes its sessions in
     * exec_in(). */
    snib_err (*open)(const struct snib__store_config *, void **ret,
                     struct snib_error *reterr);
    /* One thread at a time calls exec(), with no client mutex held. NULL: the
     * library is across a network. */
    void (*exec)(void *, snib_instant now, struct snib__list *chain);
    /* Across a network, in place of exec(); else NULL. The same, in this
     * session: at most one thread at a time is in each, always the same one,
     * and both may be inside at once. A call that a stalled peer keeps past the
     * limits of its requests breaks no promise but its own: the callers of
     * these are told UNKNOWN at their limits, and what waits behind it in this
     * session UNREACHABLE. */
    void (*exec_in)(void *, snib__session, snib_instant now,
                    struct snib__list *chain);
    /* Across a network: the calls of exec_in() that are inside shall return
     * soon, whatever they wait for (by shutdown(2) of their sockets, for
     * instance), since the client stops; nothing will be executed any more. Any
     * thread, with the client's mutex held: it must not block. NULL: it cannot.
     * Then, or if it does not help, the client is stopped and freed without the
     * call, and its thread calls free() when it comes back. */
    void (*interrupt)(void *);
    /* -1: none. Readable: there are messages for notified(). Across a network:
     * made by open(), and the same until free(). */
    int (*notifier_fd)(void *);
    /* Takes all messages; writes the ids of requests that may have been granted
     * to ids (at most max) and returns how many. Called with the client's mutex
     * held, also while the library executes: it must not block. */
    uint32_t (*notified)(void *, uint64_t (*ids)[2], uint32_t max);
    /* Fills in version and run_id. Called with the client's mutex held, also
     * while exec() runs: it must not block. NULL: nothing is known. */
    void (*server)(void *, struct snib__server *ret);
    /* Nobody is inside. Any thread. */
    void (*free)(void *);
};

#endif
