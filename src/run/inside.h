/* run/inside.h — what a client is made of; for src/run only.
 *
 * One mutex, `mu`, guards all of a client, with two exceptions: the system
 * calls in which threads sleep, and the bytes of sock[].in, which belong to the
 * socket's reader while it reads. The mutex is not held in poll, recv, futex,
 * callbacks, name resolution, and the exec() of a blocking store. send does not
 * block and is done under mu.
 *
 *   struct snib__step    one visit to the client: lock; steps of the engine and
 *                        what they want done; unlock; then the wake-ups and log
 *                        lines that these caused
 *   struct snib__call    a blocking call, on the caller's stack
 *   struct snib__hold    what run knows about an acquisition of the engine
 *   struct snib__op      an event that will be delivered, allocated up front
 *   struct snib__socket  run's end of a connection */
#ifndef SNIB__INSIDE_H
#define SNIB__INSIDE_H

#include <pthread.h>
#include <sys/types.h>

#include "core/blocking.h"
#include "core/engine.h"
#include "net/resolve.h"
#include "run/client.h"
#include "run/park.h"
#include "run/roles.h"

enum {
    /* The notifier of a blocking store, treated as a socket. */
    SNIB__NOTIFIER_SOCKET = SNIB__CONNS,
    SNIB__SOCKETS = SNIB__CONNS + 1,
    SNIB__SOCKET_IN = 16 << 10, /* bytes read at once                   */
    SNIB__FLIGHT_MAX = 1024,    /* rule 6 in pump.c */
    SNIB__SLICE_MS = 1000,      /* rule 7 in pump.c */
    SNIB__LAZY_MS = 50,         /* background.c: lazy watching */
    SNIB__HOPE_MS = 2           /* then a call stops expecting a reply */
};

typedef enum snib__socket_state {
    SNIB__SOCKET_DOWN,
    SNIB__SOCKET_RESOLVING,
    SNIB__SOCKET_CONNECTING,
    SNIB__SOCKET_UP
} snib__socket_state;

struct snib__socket {
    int fd;            /* -1: none                                         */
    int waker;         /* eventfd that wakes the call that polls here */
    uint8_t state;     /* snib__socket_state                                 */
    bool asleep;       /* its reader is a call that sleeps in ppoll        */
    bool closing;      /* shut while asleep: the reader closes it          */
    bool blocked;      /* the last send would have blocked                 */
    bool watched;      /* fd is in the epoll set                           */
    uint32_t armed;    /* epoll events asked for; 0: (no longer) none      */
    snib_instant lazy; /* the background thread watches it from then on */
    uint8_t *in;       /* buffer; belongs to the reader */
    struct snib__addresses *addresses;
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

/* What run knows about an acquisition. acquisition->user points to the first
 * hold of a chain, which has one for each handle through which the owner holds
 * the grant. The first one keeps what belongs to the grant: the calls that
 * renew it, and the descriptor. */
struct snib__hold {
    struct snib__link link; /* in the lock's holds until given back */
    struct snib_lock *lock;
    struct snib__hold *next; /* same acquisition, another handle */
    uint64_t ticket;
    uint32_t count;          /* holds taken through this handle          */
    int fd;                  /* readable at the end of the grant; -1: none */
    struct snib__call *call; /* the acquire or release that waits */
    struct snib__call *renewers;
    struct snib__op *op;       /* the event that answers a start           */
    struct snib__extra *extra; /* NULL for most holds */
};

/* What names a grant at its store. */
struct snib__detached {
    uint64_t client[2];
    uint64_t request[2];
    int64_t token;
};

/* An operation: first an event to come (on pending or releasing), then one to
 * be fetched. An operation of a batch is never fetched: it belongs to a call,
 * which is answered with the last answer of the batch (batch.c). */
struct snib__op {
    struct snib__link link;
    struct snib__hold *hold;   /* while the event is to come */
    struct snib__batch *batch; /* of a batch; NULL: an event, or answered */
    snib_instant limit;        /* of a release                             */
    /* The operation's own handle, whose grant is released as soon as it is
     * there (latch, barrier). Freed with the operation. NULL: an ordinary
     * acquire. */
    struct snib_lock *passes;
    bool keep; /* part of an extra: not freed by snib_next */
    struct snib_event ev;
};

/* Several requests that one call waits for. */
struct snib__batch {
    struct snib__call *call;
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
    SNIB__CALL_ROOM, /* waits for fewer requests in flight (rule 6) */
    SNIB__CALL_IDLE, /* waits until nothing is in flight (stop) */
    SNIB__CALL_TOLD  /* waits until all servers have answered */
} snib__call_kind;

struct snib__call {
    struct snib__waiter w;
    snib__word word;
    uint8_t kind;
    uint8_t waker; /* while it polls: the socket whose waker wakes it */
    bool brief;    /* needs no mutex once it is answered */
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

struct snib_client {
    pthread_mutex_t mu;
    pid_t pid;                /* of the process that opened it; constant */
    bool pull, virtual_clock; /* constant                                 */
    bool quick;               /* exec() never blocks; constant            */
    bool closed, stopped;
    bool stopping, ended; /* a thread is in stop; stop is done */
    snib_duration request;
    char *url;      /* without the password */
    char *identity; /* of the store: identity.c                 */
    uint64_t id[2];
    char id_text[33]; /* the same, hexadecimal                    */
    void (*log)(void *, int, const char *);
    void *log_data;

    struct snib__engine *engine;
    struct snib__out *out;
    const struct snib__blocking_ops
        *blocking; /* NULL: a store of connections */
    void *instance;
    bool executing;
    /* It is being freed in a forked child: its notifiers belong to the
     * parent. */
    bool in_child;
    /* Calls inside batch.c. A call that was woken leaves it without the
     * mutex. */
    _Atomic uint32_t batches;
    snib_instant clock; /* the latest `now` */

    struct snib__roles roles;
    uint32_t odd_calls; /* calls of kind ROOM, IDLE and TOLD */
    struct snib__socket sock[SNIB__SOCKETS];
    struct snib__list locks;
    struct snib__list pending;   /* operations: acquires */
    struct snib__list releasing; /* operations: releases, by limit */
    struct snib__list events;    /* operations to be fetched */
    struct snib__list notices;   /* extras with news for a callback         */
    struct snib__list logs;
    struct snib_lock *telling; /* whose callback runs now                 */
    pthread_t teller;
    pthread_cond_t told; /* a callback has run; or stop is done */

    int epoll, timer, steps; /* epoll set, BOOTTIME timer, clock steps  */
    int event_fd;
    bool event_set;
    bool background_on, background_stop;
    pthread_t background;
    snib_instant armed;  /* for what the timer is set; NEVER: not set */
    int64_t wall_offset; /* REALTIME − BOOTTIME as last seen, ns    */

    bool worker_on, worker_stop;
    pthread_t worker;
    pthread_cond_t work;
    struct snib__list jobs;     /* look-ups of host names                  */
    struct snib__list executed; /* pull: executed chains of requests */

    int retired[16]; /* loss descriptors of ended grants */
    uint32_t retired_next;
};

/* -- pump.c --------------------------------------------------------------- */

struct snib__step {
    struct snib_client *c;
    snib_instant now;
    struct snib__call *me; /* the call of this thread; NULL: none */
    bool background;       /* this is the background thread */
    bool event;            /* event_fd must be set                        */
    bool kick;             /* the background thread must wake up */
    bool away;             /* me is answered; the mutex is not held */
    uint32_t wakers;       /* sockets whose wakers must be notified */
    uint32_t words;
    snib__word *word[32];
    int cancel_state;
};

/* Lock, read the clock. */
void snib__step_begin(struct snib__step *, struct snib_client *);
/* Unlock; then wake and log. */
void snib__step_end(struct snib__step *);
/* Unlock for a sleep or a callback. Wake-ups and log lines go out. */
void snib__step_pause(struct snib__step *);
/* Lock again afterwards. */
void snib__step_again(struct snib__step *);
/* Read the clock again, with the mutex held. */
void snib__step_refresh(struct snib__step *);
/* Do what the engine wants until it wants nothing: deliver news, open and shut
 * connections, send bytes, set the timer. Call it after every call into the
 * engine. */
void snib__step_act(struct snib__step *);
/* Wait until the call has its answer or its limit passes. The request has been
 * started already. True: it is answered; if s->away, the mutex is not held any
 * more. False: the limit has passed, and the call is still in the list of the
 * waiting. */
bool snib__pump(struct snib__step *, struct snib__call *, uint32_t before[]);
/* Take the call off the list and pass its roles on. */
void snib__pump_leave(struct snib__step *, struct snib__call *);
/* Record how many replies are awaited, for snib__pump. */
void snib__pump_mark(struct snib_client *, uint32_t before[SNIB__CONNS]);
/* A call has its answer. */
void snib__call_settle(struct snib__step *, struct snib__call *, snib_err);
/* Wake the call, so that it compares its limit again. */
void snib__call_wake(struct snib__step *, struct snib__call *);
/* Wake the call that sleeps at this socket. */
void snib__socket_wake(struct snib__step *, uint32_t sock);
snib_instant snib__client_due(const struct snib_client *);
/* Execute what a blocking store has to do, on this thread, with the mutex
 * released meanwhile. False: nothing to do, or another thread executes. */
bool snib__step_exec(struct snib__step *);
/* Pull clients: take what the worker has executed. */
void snib__step_executed(struct snib__step *);

/* -- socket.c: connections ------------------------------------------------- */

void snib__sockets_init(struct snib_client *);
/* Make what a socket needs once and keeps: waker, buffer. Errors: NOMEM,
 * LIMIT. */
snib_err snib__socket_furnish(struct snib_client *, uint32_t i);
/* Take over the descriptor of a blocking store's notifier, which may have come
 * into being. Not while its exec() runs. */
void snib__socket_notifier(struct snib_client *);
void snib__socket_open(struct snib__step *, uint32_t i);
void snib__socket_shut(struct snib__step *, uint32_t i);
/* Resolve the socket's host name; snib__socket_resolved will be called. False:
 * no memory or no thread. */
bool snib__resolve_start(struct snib_client *, uint32_t i);
/* Let go of all jobs that resolve names. The client's mutex is not held. */
void snib__resolve_cut(struct snib_client *);
/* The addresses of its host have come. */
void snib__socket_resolved(struct snib__step *, uint32_t i,
                           const struct snib__addresses *found);
/* The socket is connecting, and something happened to it. */
void snib__socket_connected(struct snib__step *, uint32_t i);
/* Send what can be sent. False: the connection broke; the engine was told. */
bool snib__socket_flush(struct snib__step *, uint32_t i);
/* recv returned n (bytes in sock[i].in, or -errno): feed it to the engine. */
void snib__socket_received(struct snib__step *, uint32_t i, long n);
/* Close the socket now. The engine is told, unless the client is being
 * freed. */
void snib__socket_close(struct snib__step *, uint32_t i);
/* For stop: end the connections. Descriptors and wakers stay until free. */
void snib__sockets_end(struct snib_client *);
/* Close everything and tell nobody. */
void snib__sockets_free(struct snib_client *);
/* The sockets on which an answer is due, and those that may speak unasked. */
void snib__sockets_need(const struct snib_client *, uint32_t *ret_replies,
                        uint32_t *ret_pushes);

/* -- loop.c: epoll, timer, eventfds ---------------------------------------- */

snib_err snib__loop_open(struct snib_client *, struct snib_error *reterr);
void snib__loop_close(struct snib_client *);
/* For stop: from now on nothing of the set or the timers becomes ready. */
void snib__loop_end(struct snib_client *);
void snib__loop_watch(struct snib_client *, uint32_t sock);
void snib__loop_arm(struct snib_client *, uint32_t sock, bool reads);
void snib__loop_set_timer(struct snib_client *, snib_instant);
snib_err snib__loop_event_fd(struct snib_client *, struct snib_error *reterr);
void snib__eventfd_set(int fd);
void snib__eventfd_clear(int fd);
/* REALTIME − BOOTTIME in ns. */
int64_t snib__wall_offset(void);
snib_instant snib__boottime(void);

/* -- background.c, worker.c ------------------------------------------------ */

/* Start the background thread if it does not run. Errors: LIMIT, NOMEM. */
snib_err snib__background_need(struct snib_client *, struct snib_error *reterr);
/* One round of the background thread: in its thread (patience_ms -1), or in
 * snib_process (0). patience_ms is as for epoll_wait. The mutex is held before
 * and after. */
void snib__background_round(struct snib__step *, int patience_ms);
/* The background thread reads these sockets from now on. */
void snib__background_given(struct snib__step *, uint32_t socks);
/* An operation is pending: watch now what was to be watched later. */
void snib__background_hurry(struct snib__step *);
/* For stop, once: end the thread. background_on and worker_on stay as they are.
 * stop clears both under the mutex when both threads have ended. */
void snib__background_join(struct snib_client *);
bool snib__worker_need(struct snib_client *);
void snib__worker_join(struct snib_client *);
/* Start a thread with all signals blocked. */
int snib__thread_start(pthread_t *, void *(*body)(void *), void *);

/* -- watch.c, events.c ----------------------------------------------------- */

snib_err snib__extra_new(struct snib_lock *, bool events, void *user,
                         struct snib__extra **ret);
/* The hold re-enters a grant: it is told of the changes from now on. */
void snib__extra_entered(struct snib__extra *,
                         const struct snib__acquisition *);
/* Tell the whole chain the acquisition's state, as the engine says it. */
void snib__holds_changed(struct snib__step *, struct snib__hold *first,
                         const struct snib__acquisition *);
/* The hold has ended. Withdraw what was not told yet. If the hold has the
 * grant's descriptor, make it readable. */
void snib__watch_ended(struct snib__step *, struct snib__hold *);
/* Run the callbacks that are due, with the mutex released around each. */
void snib__notices_tell(struct snib__step *);
void snib__retired_close(struct snib_client *);
void snib__op_push(struct snib__step *, struct snib__op *);
/* Answer a start: the operation becomes an event. */
void snib__op_answer(struct snib__step *, struct snib__op *, snib_event_kind,
                     struct snib_grant, snib_err,
                     const struct snib_error *detail);
/* Start an acquire with checked options. passes: the grant is released in the
 * background as soon as it is there, and the event is PASSED. The handle then
 * belongs to the event, unless there is an error. */
snib_err snib__acquire_start(struct snib_lock *, const struct snib__how *,
                             bool passes, void *user, uint64_t *ret_ticket,
                             struct snib_error *reterr);
/* Answer the started releases whose limit has passed. */
void snib__ops_due(struct snib__step *);
void snib__ops_close(struct snib__step *);

/* -- hold.c ---------------------------------------------------------------- */

/* Free the chain and its extras. */
void snib__holds_free(struct snib__step *, struct snib__hold *);
/* The first hold of a chain ends: the next one gets what belongs to the
 * grant. */
void snib__hold_hand_on(struct snib__hold *from, struct snib__hold *to);
/* The grant is no longer this client's: take its holds off the locks' lists,
 * and end what watches it. */
void snib__holds_ended(struct snib__step *, struct snib__hold *);
/* Deliver the news of one acquisition. */
void snib__hold_news(struct snib__step *, struct snib__acquisition *,
                     uint8_t news);
/* Release one hold, as snib_release does. The answer goes to call or op; at
 * most one of them is given. OK with *ret_open: the answer will come. */
snib_err snib__hold_release(struct snib__step *, struct snib_lock *,
                            uint64_t ticket, uint64_t owner,
                            struct snib__call *, struct snib__op *,
                            bool *ret_open, struct snib_error *reterr);
/* Begin an acquire. *ret_open: the answer will come; else it is there already,
 * in call->err and grant, or in op. */
snib_err snib__hold_acquire(struct snib__step *, struct snib_lock *,
                            const struct snib__how *, snib_instant limit,
                            uint64_t owner, struct snib__call *,
                            struct snib__op *, void *user, bool *ret_open,
                            uint64_t *ret_ticket, struct snib_error *reterr);

/* Begin to adopt a grant. Owner, lease and limit are those of the request.
 * *ret_open is as above. */
snib_err snib__hold_adopt(struct snib__step *, struct snib_lock *,
                          const struct snib__detached *, int64_t lease_ms,
                          snib_instant limit, struct snib__call *,
                          bool *ret_open, struct snib_error *reterr);
/* Forget a grant with all its holds. */
snib_err snib__hold_abandon(struct snib__step *, uint64_t ticket,
                            uint64_t owner, struct snib_error *reterr);

/* -- grant.c --------------------------------------------------------------- */

/* The acquisition that the grant is. NULL: the grant is stale, or of another
 * lock. */
struct snib__acquisition *snib__grant_of(const struct snib_lock *,
                                         struct snib_grant);
/* USAGE for a grant of another lock; a stale one is OK here. */
snib_err snib__grant_check(const struct snib_lock *, struct snib_grant,
                           struct snib_error *reterr);

/* -- detached.c: grants as text -------------------------------------------- */

/* Read 32 hexadecimal digits; size is their number. */
bool snib__identity_read(const char *text, size_t size, uint64_t ret[2]);
bool snib__detached_read(const char *text, struct snib__detached *ret);
/* Read snib_acquire_options.above, which is not NULL. Errors: USAGE. */
snib_err snib__above_read(const char *text, struct snib__above *ret,
                          struct snib_error *reterr);

/* -- call.c ---------------------------------------------------------------- */

/* Check the caller's struct, and copy it. A size other than this release's is
 * USAGE. wait_ms below 0 is a try. */
snib_err snib__how_read(const struct snib_acquire_options *, int64_t wait_ms,
                        struct snib__how *ret, struct snib_error *reterr);
/* USAGE for a client that snib_process drives: it cannot block. */
snib_err snib__may_block(const struct snib_client *, struct snib_error *reterr);
/* May a call ask for a grant? This starts the background thread, and waits
 * until limit while too many requests are in flight. */
snib_err snib__may_acquire(struct snib__step *, snib_instant limit,
                           struct snib_error *reterr);
/* Begin a call: see the head of call.c. */
void snib__call_begin(struct snib__step *, struct snib__call *, snib__call_kind,
                      snib_instant limit);
bool snib__call_wait(struct snib__step *, struct snib__call *,
                     uint32_t before[SNIB__CONNS]);
/* Give up the acquire of a blocking call whose acquisition is WAITING. why is
 * the error of the call. The call is answered now, or when the store has
 * confirmed the cancel. */
void snib__call_quit(struct snib__step *, struct snib__acquisition *,
                     snib_err why);
/* Answer the call of an acquisition that is LEAVING, since the store will not
 * confirm anything any more. */
void snib__call_cut(struct snib__step *, struct snib__acquisition *);
/* A way to end a call from another thread. The client's mutex guards it while
 * the call runs. */
struct snib__stop {
    bool asked;
    uint64_t ticket; /* of the waiting acquisition; 0: none yet */
};
/* Acquire with checked options, for an explicit owner or the thread's. It ends
 * with CANCELLED once the stop is asked for. */
snib_err snib__acquire_until(struct snib_lock *, const struct snib__how *,
                             struct snib__stop *, struct snib_grant *ret,
                             struct snib_error *reterr);
/* End that call, if it still waits. */
void snib__stop_ask(struct snib_client *, struct snib__stop *);
/* How long a call with this wait_ms may wait. */
snib_duration snib__patience(const struct snib_client *, int64_t wait_ms);
/* Wait until nothing is under way at the store, or nothing has moved for
 * request_ms. */
void snib__wait_idle(struct snib__step *);
/* After an answer, wait a moment until the other servers have been told,
 * too. */
void snib__wait_told(struct snib__step *);

/* -- batch.c: several requests in one visit -------------------------------- */

/* One lock of a batch. */
struct snib__batch_item {
    struct snib_lock *lock;
    struct snib_grant grant;
    struct snib_error error; /* code OK: acquired; released               */
    struct snib__op op;
    bool asked; /* op has the answer */
};
/* Try n locks of one client, for one owner, in one visit: in order, until one
 * is refused; with `all`, all or none. Each item's error says what became of
 * it. It is CANCELLED when the lock is not acquired because another one is not.
 * A store that cannot do it in one step may grant locks behind a refused one.
 * Blocks up to patience, and no request outlives that: one that is unanswered
 * then is UNREACHABLE (never sent) or UNKNOWN (being cancelled). */
void snib__batch_try(struct snib_client *, struct snib__batch_item[], size_t n,
                     const struct snib_acquire_options *, bool all,
                     snib_duration patience);
/* Release n grants of one client in one visit. Blocks up to patience. A release
 * that is unanswered then is UNKNOWN, and repeated in the background. */
void snib__batch_release(struct snib_client *, struct snib__batch_item[],
                         size_t n, snib_duration patience);
/* An operation of a batch was answered; ev has the answer. */
void snib__batch_answered(struct snib__step *, struct snib__op *);

/* -- owner.c, fork.c, stores.c, self.c, identity.c ------------------------- */

uint64_t snib__owner_of_thread(void);
/* Remember this process when a client opens. snib__client_check then recognises
 * its children. */
pid_t snib__fork_here(void);

struct snib__registered {
    const char *scheme;
    const struct snib__store_ops *ops;
    const struct snib__blocking_ops *blocking;
    /* An example of its URL, for somebody who gave none; or NULL. */
    const char *offer;
};
const struct snib__registered *snib__store_find(const char *scheme);
/* "sqlite:PATH or redis://HOST": examples of the stores that are built in. A
 * store for tests within a process is left out, unless it is the only one. */
void snib__stores_offered(char *ret, size_t size);
/* The URL of the embedded file; the caller frees it. */
snib_err snib__default_url(char **ret, struct snib_error *reterr);
void snib__self_about(struct snib__about *, const char *program,
                      const char *reason);
/* The identity of a store: equal for two URLs of one store. The caller frees
 * it. NULL: no memory. */
char *snib__store_identity(const struct snib__url *);
snib_err snib__self_seed(struct snib__seed *, struct snib_error *reterr);

#endif
