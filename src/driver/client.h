/* driver/client.h — what a client is made of; for src/driver and src/api only.
 *
 * One mutex, `mu`, guards all of a client, with two exceptions: the system
 * calls in which threads sleep, and the bytes of a socket's `in`, which belong to
 * its reader while it reads. The mutex is not held in poll, futex,
 * callbacks, name resolution, the exec() of a blocking store, and a caller's
 * recv. send, and the background thread's recv, do not block and are done under
 * mu.
 *
 *   struct snib__step    one visit to the client: lock; steps of the engine and
 *                        what they want done; unlock; then the wake-ups and log
 *                        lines that these caused
 *   struct snib__call    a blocking call, on the caller's stack
 *   struct snib__hold    what the driver knows about an acquisition
 *   struct snib__op      an event that will be delivered, allocated up front
 *   struct snib__direct_op  what a call asks the store past claims
 *   struct snib__socket  the driver's end of a connection
 *
 * In this folder and in api/ `s` is a step, `c` the client, `h` a hold, `d` a
 * direct request, `l` a socket or a link of a list, `w` who waits, or a
 * worker. */
#ifndef SNIB__DRIVER_CLIENT_H
#define SNIB__DRIVER_CLIENT_H

#include <pthread.h>
#include <sys/types.h>

#include "core/blocking.h"
#include "core/engine.h"
#include "driver/park.h"
#include "driver/roles.h"
#include "net/resolve.h"
#include "net/tls.h"
#include "snib.h"
#include "snib/event.h"

enum {
    /* The notifier of a blocking store, which has no connections, is treated as
     * a socket. */
    SNIB__NOTIFIER_SOCKET = 0,
    /* What an event of the epoll set is about, if not the socket of that
     * number. */
    SNIB__TAG_TIMER = SNIB__SOCKETS_MAX,
    SNIB__TAG_STEPS,
    SNIB__TAG_WITNESS,
    SNIB__TAG_EVENTS,
    SNIB__SOCKET_IN = 16 << 10, /* bytes read at once                   */
    SNIB__FLIGHT_MAX = 1024,    /* rule 6 in driver.h */
    SNIB__SLICE_MS = 1000,      /* rule 7 in driver.h */
    SNIB__LAZY_MS = 50,         /* background_socks.c */
    SNIB__HOPE_MS = 2,          /* then a call stops expecting a reply */
    SNIB__COME_BACK_MS = 250,   /* sessions.c: how long stop waits for that */
    SNIB__RETIRED = 16          /* watch.c */
};

typedef enum snib__socket_state {
    SNIB__SOCKET_DOWN,
    SNIB__SOCKET_RESOLVING,
    SNIB__SOCKET_CONNECTING,
    SNIB__SOCKET_SHAKING, /* connected; the TLS handshake is under way */
    SNIB__SOCKET_UP
} snib__socket_state;

struct snib__socket {
    struct snib__conn *conn; /* NULL: the notifier */
    int fd;        /* -1: none                                         */
    int waker;     /* eventfd that wakes the call that polls here */
    uint8_t state; /* snib__socket_state                                 */
    bool asleep;   /* its reader is a call that sleeps in ppoll        */
    /* Of the notifier: its reader is a call that sleeps on this word, as long
     * as it has this value; NULL: it does not. */
    snib__word *word;
    uint32_t value;
    bool closing;      /* shut while asleep: the reader closes it          */
    bool blocked;      /* the last send would have blocked                 */
    bool watched;      /* fd is in the epoll set                           */
    uint32_t armed;    /* epoll events asked for; 0: (no longer) none      */
    snib_instant lazy; /* the background thread watches it from then on */
    uint8_t *in;       /* buffer; belongs to the reader */
    struct snib__tls *tls; /* the filter; NULL: none, or not connected */
    /* conn->awaited as last seen, and before it first changed since the latest
     * call began. */
    uint32_t awaited, before;
    struct snib__addresses *addresses;
};

/* All of them: sockets.c. Socket i is the end of connection i. */
struct snib__sockets {
    struct snib__socket **v; /* the list grows; they stay where they are */
    uint32_t count, capacity;
    struct snib__need need;    /* which of them need a reader, and why */
    struct snib__socks wish;   /* something is to be done with the connection */
    struct snib__socks unsent; /* perhaps bytes are unsent */
    struct snib__socks awaited; /* on its connection answers are due */
    struct snib__socks asked;   /* changed since the latest call began */
    /* The background thread looks at them before it sleeps. */
    struct snib__socks look;
};

struct snib_lock {
    struct snib__link link; /* in the client's locks */
    struct snib_client *client;
    struct snib__local_lock *local;
    struct snib__list holds;
    struct snib_lock_options o; /* lease_ms filled in                       */
    bool passes;                /* of a latch or barrier: snib__acquire_spec */
};

/* How an owner acquires: its options, checked, and how long it waits. 0: it
 * tries; SNIB__NO_LIMIT: until it is answered. */
struct snib__how {
    struct snib_acquire_options o;
    int64_t wait_ms;
};
#define SNIB__NO_LIMIT INT64_MAX

struct snib__call;
struct snib__extra;

/* What the driver knows about an acquisition. acquisition->user points to the
 * first hold of a chain, which has one for each handle through which the owner
 * holds the grant. The first one keeps what belongs to the grant: the calls
 * that renew it, and the descriptor. */
struct snib__hold {
    struct snib__link link; /* in the lock's holds until given back */
    struct snib_lock *lock;
    struct snib__hold *next; /* same acquisition, another handle */
    uint64_t ticket;
    uint32_t count;          /* holds taken through this handle          */
    int fd;                  /* readable at the end of the grant; -1: none */
    struct snib__call *call; /* the acquire or release that waits */
    struct snib__call *renewers;
    struct snib__renewal *renewals; /* renewers that were started        */
    struct snib__op *op;       /* the event that answers a start           */
    struct snib__extra *extra; /* NULL for most holds */
};

/* What names a grant at its store. */
struct snib__detached {
    uint64_t client[2];
    uint64_t request[2];
    int64_t token;
};

struct snib__op;
struct snib__step;

/* What an operation does whose event is DONE. */
struct snib__op_kind {
    /* Its timer has come: it asks again, or this was its limit. */
    void (*due)(struct snib__step *, struct snib__op *);
    /* Answer it, because of a cancel (CANCELLED) or the client's end
     * (CLOSED). */
    void (*give_up)(struct snib__step *, struct snib__op *, snib_err why);
    /* Its event is taken: write the results where the caller wants them, and
     * bring the event up to that. On the thread of snib_client_next, without
     * the mutex. */
    void (*take)(struct snib__op *, struct snib_event *);
    /* Free what it owns besides its own block. NULL: nothing. */
    void (*drop)(struct snib__op *);
    /* Its event is not the program's: what it stands for goes on. On the thread
     * of snib_client_next, without the mutex. Returns the operation that has
     * ended by that, whose event is the program's; NULL: none has. NULL: an
     * event of the program's. */
    struct snib__op *(*go_on)(struct snib__op *);
};

/* An operation: first an event to come (on pending, releasing or asking), then
 * one to be fetched. An operation of a batch is never fetched: it belongs to a
 * call or a sequence, which goes on with the last answer of the batch (op.c). */
struct snib__op {
    struct snib__link link;
    struct snib__hold *hold;   /* while the event is to come */
    struct snib__batch *batch; /* of a batch; NULL: an event, or answered */
    snib_instant limit;        /* of a release                             */
    /* The operation's own handle, whose grant is released as soon as it is
     * there (latch, barrier). Freed with the operation. NULL: an ordinary
     * acquire. */
    struct snib_lock *passes;
    bool keep; /* part of an extra: not freed by snib_client_next */
    const struct snib__op_kind *kind; /* NULL: its event is not DONE        */
    struct snib__timer timer;         /* while it is on asking              */
    uint32_t permits;                 /* of an acquire: how many were given */
    struct snib_event ev;
};

/* What a call asks the store past claims: a direct request, and after its
 * answer perhaps more of them. A blocking call has it on its stack, a started
 * one in its operation. The results belong to a larger struct, which begins
 * with this one. */
struct snib__direct_op {
    struct snib__op op; /* used only when it was started */
    struct snib_client *client;
    struct snib__direct q;
    const struct snib__direct_rules *rules;
    uint32_t asked; /* so many requests were made                          */
    bool pauses;    /* started: it asks again when its timer comes */
};

struct snib__direct_rules {
    /* q has failed, or got no answer (err); with after_ok also: it was answered
     * well. When is the next request to be made, which this prepares? NEVER:
     * that was all. When it was started the mutex is held. NULL: never. */
    snib_instant (*again)(struct snib__direct_op *, snib_instant now,
                          snib_err err);
    bool after_ok;
    /* Write the results. err, in words in *ret, is how the last request ended;
     * returns how the call ends. No mutex is held. */
    snib_err (*decode)(struct snib__direct_op *, snib_err err,
                       struct snib_error *ret);
    /* Free what it has besides q's result. NULL: nothing. */
    void (*drop)(struct snib__direct_op *);
};

/* A renewal that was started. */
struct snib__renewal {
    struct snib__op op;
    uint64_t ticket;            /* of the grant */
    struct snib__renewal *next; /* next one that renews this hold */
};

/* Several requests that one call waits for, or one sequence. */
struct snib__batch {
    struct snib__call *call; /* NULL: `op` becomes an event              */
    struct snib__op *op;
    uint32_t open; /* not answered yet                                     */
};

/* Only for holds whose handle has a callback, and for holds that were
 * started. */
struct snib__extra {
    struct snib__link notice; /* in the client's notices */
    struct snib__op state;
    void (*on_change)(void *, struct snib_grant, snib_state, snib_cause);
    void *data;
    struct snib_lock *lock;
    struct snib_grant grant;
    bool events;
    uint8_t now_state, now_cause; /* latest                                */
    uint8_t told_state;           /* as told to the callback               */
    uint8_t seen_state;           /* as put into the last STATE event      */
};

typedef enum snib__call_kind {
    SNIB__CALL_ACQUIRE,
    SNIB__CALL_RELEASE,
    SNIB__CALL_RENEW,
    SNIB__CALL_DIRECT,
    SNIB__CALL_FEWER,     /* waits for fewer requests in flight (rule 6) */
    SNIB__CALL_IDLE,      /* waits until nothing is in flight (stop) */
    SNIB__CALL_CAUGHT_UP, /* waits until all servers have answered */
    SNIB__CALL_OUT /* (no call:) until no thread has left for elsewhere */
} snib__call_kind;

struct snib__call {
    struct snib__waiter w;
    snib__word word;
    uint8_t kind;
    uint8_t waker;         /* while it polls: the socket whose waker wakes it */
    bool returns_unlocked; /* needs no mutex once it is answered */
    snib_err err;
    snib_instant limit;
    uint64_t ticket;
    uint64_t among; /* with several tries: the ticket of one */
    struct snib_grant grant;
    struct snib__hold *hold;
    struct snib__direct *direct;
    struct snib__call *next; /* next call that renews this hold */
    struct snib_error error;
};

struct snib__log_line {
    struct snib__link link;
    int level;
    char text[];
};

/* The calls that wait: which thread reads which socket. */
struct snib__calls {
    struct snib__roles roles;
    uint32_t condition_waits; /* calls of kind FEWER, IDLE and CAUGHT_UP */
    /* Calls inside api/batch.c. A call that was woken leaves it without the
     * mutex. */
    _Atomic uint32_t batches;
};

/* What a blocking store has executed, and who executes. */
struct snib__exec {
    const struct snib__blocking_ops *ops; /* NULL: a store of connections */
    void *instance;
    bool quick;  /* exec() never blocks; constant */
    bool brief;  /* exec() waits for nobody; constant */
    bool shares; /* the workers of `sessions` execute; constant after open */
    bool running;
    struct snib__list done; /* pull: executed chains of requests */
};

/* The kernel's objects: loop.c. */
struct snib__loop {
    int epoll, timer, steps; /* epoll set, BOOTTIME timer, clock steps */
    snib_instant armed;      /* for what the timer is set; NEVER: not set */
    int64_t wall_offset;     /* REALTIME − BOOTTIME as last seen, ns */
};

struct snib__thread {
    bool on, stop;
    pthread_t id;
};

/* Logins that the program gives: login.c. */
struct snib__logins {
    snib_err (*ask)(void *, struct snib_login *); /* NULL: it gives none */
    void *data;
    bool asks;                   /* the function runs */
    struct snib__passfile *file; /* ask is passfile.c's; NULL: it is not */
    /* Connections for which one is wanted; of these, where the server has
     * refused the one before. */
    struct snib__socks wanted, refused;
    struct snib__thread thread;
    pthread_cond_t more;
    struct snib_login *answer; /* the thread's, while it runs */
};

/* The workers of a store across a network, one a session: sessions.c. */
struct snib__sessions {
    struct snib__worker {
        struct snib_client *client;
        snib__session session;
        bool on, over; /* was started; does not touch the client any more */
        bool inside;   /* the library's exec_in() runs */
        pthread_t id;
        pthread_cond_t work;
    } worker[SNIB__SESSIONS];
    bool stop;
    bool freed;          /* the last worker to come back frees the client */
    pthread_cond_t over; /* a worker is over */
};

/* Operations: op.c. */
struct snib__ops {
    struct snib__list pending;   /* acquires */
    struct snib__list releasing; /* releases, by limit */
    struct snib__list asking;    /* all of a kind that is not NULL, unless it is
                                    an acquire */
    struct snib__heap timers;    /* of those on asking */
    struct snib__list events;    /* to be fetched */
    uint64_t count;              /* tickets given: snib__op_open */
    int fd;                      /* an eventfd: set while there are events */
    bool set;
    struct snib__op *quiet; /* becomes an event when `until` is so; or NULL */
    uint8_t until; /* snib__call_kind: IDLE, CAUGHT_UP or OUT            */
    bool of_store; /* the program wants the event below */
    struct snib__op changed; /* another server answers; at most one unfetched */
};

/* What owners are told: watch.c. */
struct snib__notices {
    struct snib__list due;     /* extras with news for a callback */
    struct snib_lock *telling; /* whose callback runs now */
    pthread_t teller;
    pthread_cond_t told;        /* a callback has run; or stop is done */
    int retired[SNIB__RETIRED]; /* loss descriptors of ended grants */
    uint32_t retired_next;
};

/* Its witness, if it has one: witness.c. */
struct snib__witnessed {
    struct snib__registry *registry; /* NULL: it has none */
    int memory; /* the registry's, until the witness has it; else -1 */
    int link;   /* our end of the connection; -1: there is none           */
    int over;   /* a pidfd: readable when the witness has ended; or -1 */
    bool needless, broken; /* the store needs none; it has ended */
};

struct snib__log {
    void (*tell)(void *, int, const char *);
    void *data;
    struct snib__list lines; /* until the mutex is free */
};

struct snib_client {
    pthread_mutex_t mu;
#ifdef SNIB_CHECKS
    bool mu_taken;       /* in a step: see snib__mu_is_mine */
    pthread_t mu_thread; /* by this one */
#endif
    pid_t pid; /* of the process that opened it; constant */
    bool pull; /* constant */
    /* Reads the clock that a test moves; NULL: it is BOOTTIME. Constant. */
    bool (*virtual_clock)(void *instance, snib_instant *ret);
    bool closed, stopped;
    bool stopping;       /* what is held is being released, to stop       */
    bool joining, ended; /* a thread is in stop; stop is done */
    /* It is being freed in a forked child: its notifiers belong to the
     * parent. */
    bool in_child;
    snib_duration request;
    char *url;            /* without the password */
    char *store_identity; /* of the store: api/identity.c */
    uint64_t id[2];
    char id_text[33]; /* the same, hexadecimal */

    struct snib__engine *engine;
    struct snib__out *out;
    snib_instant clock; /* the latest `now` */
    struct snib__list locks;

    struct snib__calls calls;
    struct snib__exec exec;
    struct snib__sockets sock;
    struct snib__tls_shared *tls; /* NULL: the store is not reached by TLS */
    uint8_t *plain;               /* with it: SNIB__SOCKET_IN bytes, opened */
    struct snib__list jobs;       /* look-ups of host names: resolver.c */
    struct snib__logins logins;
    struct snib__loop loop;
    struct snib__thread background, worker;
    pthread_cond_t work;            /* for the worker */
    struct snib__sessions sessions; /* with exec.shares only */
    struct snib__ops ops;
    struct snib__notices notices;
    struct snib__witnessed witness;
    struct snib__log log;
};

struct snib__step {
    struct snib_client *c;
    snib_instant now;
    struct snib__call *me;     /* the call of this thread; NULL: none */
    bool background;           /* this is the background thread */
    bool event;                /* event_fd must be set                        */
    bool kick;                 /* the background thread must wake up */
    bool away;                 /* me is answered; the mutex is not held */
    struct snib__socks wakers; /* sockets whose wakers must be notified */
    uint32_t words;
    snib__word *word[32];
    int cancel_state;
};

static inline struct snib__call *snib__call_of(struct snib__waiter *w)
{
    return SNIB__CONTAINER(w, struct snib__call, w);
}

static inline struct snib__op *snib__op_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__op, link);
}

/* Is there a rule that may make another request? */
static inline bool snib__direct_may_go_on(const struct snib__direct_op *d,
                                          snib_err err)
{
    return d->rules->again && (err || d->rules->after_ok);
}

static inline struct snib__direct_op *snib__direct_op_of(struct snib__op *op)
{
    return SNIB__CONTAINER(op, struct snib__direct_op, op);
}

/* How many replies are awaited, on the connection with the most. */
static inline uint32_t snib__most_awaited(const struct snib_client *c)
{
    uint32_t most = 0;
    SNIB__SOCKS_EACH(i, &c->sock.awaited)
    {
        uint32_t n = c->sock.v[i]->awaited;
        most = n > most ? n : most;
    }
    return most;
}

#endif
