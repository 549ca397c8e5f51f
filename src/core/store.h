/* core/store.h — what a store does for the core.
 *
 * A store is sans-I/O. The driver tells it what happened and when, and the
 * store leaves what it wants in struct snib__out. It never blocks, reads no
 * clock, starts no thread and calls nobody back, so the driver (threads) and
 * sim (seeds) use it alike. Every call is made with the client's mutex held and
 * is not re-entrant.
 *
 * A store whose calls block (a vendor's library, a file of this host) implements
 * the smaller table snib__blocking_ops; core/blocking.c makes a store of it.
 *
 * Memory: after open() a store allocates only inside buffers with a limit. A
 * step that finds no memory answers the request NOT_APPLIED with NOMEM if
 * nothing was sent; else it closes the connection, and the request ends as
 * UNKNOWN. */
#ifndef SNIB__STORE_H
#define SNIB__STORE_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/random.h"
#include "base/record.h"
#include "base/time.h"
#include "core/conn.h"
#include "core/request.h"
#include "core/url.h"
#include "snib.h"

#define SNIB__STORE_ABI 1
#define SNIB__HINTS     8

typedef enum snib__input_kind {
    SNIB__IN_OPENED, /* it is connected, and the TLS handshake is over */
    SNIB__IN_BYTES,
    /* By the peer, by an error, or after its `shut`. bytes: the cause (text), if
     * more is known than that. */
    SNIB__IN_CLOSED,
    SNIB__IN_REFUSED,  /* it could not be connected; bytes: the cause (text) */
    SNIB__IN_NOTIFIED, /* the notifier's descriptor is readable */
    SNIB__IN_TICK,     /* the instant of due() has come */
    SNIB__IN_LOGIN     /* what conn.login asked for: login, err */
} snib__input_kind;

struct snib__input {
    snib__input_kind kind;
    uint32_t conn;     /* index of a connection */
    bool hopeless;     /* REFUSED: there is no such host */
    const void *bytes; /* borrowed for the call */
    size_t size;
    /* LOGIN: what the program answered; borrowed for the call, and wiped after
     * it. err not OK: it has none; login->text says why. */
    const struct snib_login *login;
    /* REFUSED, CLOSED: CONFIG or DENIED: it cannot be better before somebody
     * changes something. OK: it may. */
    snib_err err;
};

/* Everything a step may want, as data. The engine owns it, the driver drains
 * it. */
struct snib__out {
    struct snib__list answered; /* requests with their answers set */
    struct snib__list exec;     /* requests for a blocking store */
    /* Ids of grants that somebody is said to have ended (revoke). That is a
     * hint: the engine asks by a renewal. When more come than fit, it asks for
     * all it holds. */
    uint64_t ended[SNIB__HINTS][2];
    uint32_t ended_count;
    /* Ids of grants behind which somebody waits: what is kept is given back.
     * More came than fit: all that is kept is, and nothing of what is held now
     * will be kept. */
    uint64_t wanted[SNIB__HINTS][2];
    uint32_t wanted_count;
    bool wanted_all;
    /* Grants may have been ended while nobody listened: ask for all that is
     * held. Also set when the store has begun to listen while something is
     * held. */
    bool missed;
    /* A RENEW that is not sent yet has err and reterr set: why it could not
     * be. */
    bool stuck;
    /* Another server answers than the last one, or that one has lived anew. Set
     * only if struct snib__store_config has `watch`. */
    bool changed;
    /* Another server is to be asked than the one that has granted what is held,
     * or that one may have forgotten it: all of it is at risk, and the store is
     * asked about it. */
    bool moved;
    /* The way by which `wanted` comes is open (a store that pushes and has
     * connections). */
    bool hears;
    bool holds; /* set by the engine: something is held */
    /* Set by the driver: as in struct snib__store_config, but as it is now; the
     * wall clock may have been set since. */
    int64_t wall_offset_ns;
    /* Set by the engine: something has been held for a second, at least once, or
     * a lock was asked for that may be kept. From then on a store that pushes opens the way by which it is told of
     * forced releases, and names that way with the next RENEW of each grant
     * where it is not named yet. */
    bool listens;
    /* The latest instant of the server's clock, in ms, until when a request that
     * was sent may be executed; 0: the store does not say. */
    int64_t late;
    /* An ACQUIRE has another request.asked, and is not sent yet. */
    bool renamed;
    /* Set by the store when it is opened: no lease, with its lock-delay, may be
     * longer; 0: it may. */
    snib_duration lease_most;
    /* Set by the store, too, and again when it knows better: it gives no longer
     * lease, and whoever insists on a longer one is refused. 0: each gets what he
     * asks for. */
    snib_duration lease_given;
    /* What it can (enum snib__caps): set by the engine to what its table says;
     * a store that its URL makes another one changes it as it is opened. */
    uint32_t caps;
    /* Set by a blocking store when it is opened: who waits there is told by
     * nobody, and asks again after a time by chance up to this; 0: as in
     * core/blocking.h. */
    snib_duration poll;
    /* Its connections (core/conn.h). The list grows; they stay where they
     * are. */
    struct snib__conn **conn;
    uint32_t conns, capacity;
    size_t limit;              /* of the bytes unsent on each */
    struct snib__out *outer;   /* of the store that this is a part of */
    struct snib__list touched; /* connections that this step has changed */
    void (*log)(void *data, int level, const char *line); /* may be NULL */
    void *log_data;
};

/* The store has changed this connection: the driver has to look at it. */
static inline void snib__conn_touch(struct snib__out *out,
                                    struct snib__conn *conn)
{
    while (out->outer) {
        out = out->outer;
    }
    if (!snib__linked(&conn->touched)) {
        snib__list_push(&out->touched, &conn->touched);
    }
}

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

/* Each try that is refused sends such a message, so many may name one grant. */
static inline void snib__out_wanted(struct snib__out *out, const uint64_t id[2])
{
    for (uint32_t i = 0; i < out->wanted_count; i++) {
        if (out->wanted[i][0] == id[0] && out->wanted[i][1] == id[1]) {
            return;
        }
    }
    if (out->wanted_count < SNIB__HINTS) {
        uint64_t *slot = out->wanted[out->wanted_count++];
        slot[0] = id[0];
        slot[1] = id[1];
    } else {
        out->wanted_all = true;
    }
}

enum snib__caps {
    SNIB__CAN_QUEUE = 1,  /* shows its waiters, so deadlocks can be seen */
    SNIB__CAN_PUSH = 2,   /* tells of forced releases; knows RENEW's only_asks
                            and listen */
    SNIB__IN_PROCESS = 4, /* exec() never blocks */
    SNIB__BRIEF = 8,      /* exec() waits for no other process, nor a peer */
    SNIB__SAYS_SENT = 16, /* exec_in() sends nothing of a request before it has
                            called snib__blocking_sends() (core/blocking.h) */
    SNIB__CAN_KEEP = 32,  /* tells who keeps a grant that somebody waits */
    SNIB__TIED = 64,      /* its grants are their client's: none is detached */
    SNIB__NO_LATCH =
        128 /* readers it has, latches it has not: none is passed */
};

struct snib__store; /* each store has its own */
struct snib__slots; /* store/redis/slots.h */

struct snib__store_config {
    const struct snib__url *url; /* borrowed during open */
    struct snib__seed seed;
    struct snib__out *out; /* outlives the store */
    snib_duration request; /* how long to wait for one answer */
    uint64_t client[2];    /* the client's id */
    /* REALTIME − BOOTTIME as the store is opened; 0: not known. To show; never
     * for a lease, nor for tokens (out->wall_offset_ns). */
    int64_t wall_offset_ns;
    /* The program gives the logins: a store that logs in asks by conn.login. */
    bool login;
    /* Find out whether it is another server that answers: out->changed. */
    bool watch;
    /* One node of a quorum or of a cluster: each grant is decided by a script as
     * a whole. */
    bool scripts_only;
    /* One node of a cluster: what is known of all of them, and this one's number
     * there. It outlives the store. NULL: it is none. */
    struct snib__slots *slots;
    uint32_t home;
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

/* Each method is there (else the store is not opened: INTERNAL), but where NULL
 * is said to be something. None but open and free blocks. */
struct snib__store_ops {
    uint32_t abi;       /* SNIB__STORE_ABI */
    size_t size;        /* sizeof this struct */
    const char *scheme; /* "redis" */
    uint32_t caps;
    /* Parses and allocates only; adds the connections that it knows of. Errors:
     * USAGE, CONFIG, NOMEM, LIMIT. */
    snib_err (*open)(const struct snib__store_config *,
                     struct snib__store **ret, struct snib_error *reterr);
    /* Takes a chain of requests (a list of `link`) over, all of them; equal
     * verbs in a row may travel as one. */
    void (*start)(struct snib__store *, snib_instant now,
                  struct snib__list *chain);
    /* What happened: on a connection, or that time has passed (a tick). What
     * the input points to is the caller's again afterwards. Answers go to
     * out->answered. */
    void (*input)(struct snib__store *, snib_instant now,
                  const struct snib__input *);
    /* When it wants its next tick. NEVER: there is nothing to do. */
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
 * two workers execute, and never a caller's thread. Each method is there (else
 * the library is not opened: INTERNAL), but where NULL is said to be
 * something. */
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
     * these are told UNKNOWN at their limits (UNREACHABLE, if it says what it
     * has sent, and has not), and what waits behind it in this session
     * UNREACHABLE. */
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
    /* A caller's thread is about to sleep until there are messages. Returns a
     * word on which it may sleep, by a futex that processes share, as long as
     * the word is *ret_value; the word stays where it is until free(). Whoever
     * has a message changes it and wakes; the descriptor need not become
     * readable for that message then. At most one thread sleeps so, and
     * awake it calls notified(). NULL returned: it has to poll the descriptor;
     * so it has if there is no such function. Called with the client's mutex
     * held: it must not block. */
    _Atomic uint32_t *(*notifier_word)(void *, uint32_t *ret_value);
    /* From now on a thread polls the descriptor, which must become readable
     * for each message of which no thread is told by that word. Called as
     * notified() is. NULL: it always becomes readable. */
    void (*notifier_polled)(void *);
    /* Fills in version and run_id. Called with the client's mutex held, also
     * while exec() runs: it must not block. NULL: nothing is known. */
    void (*server)(void *, struct snib__server *ret);
    /* Nobody is inside. Any thread. */
    void (*free)(void *);
};

#endif
