/* run/inside.h — what a client is made of; src/run only.
 *
 * One mutex, `mu`, guards all of it but the system calls in which threads
 * sleep and the bytes of line[].in, which are the reader's while it reads.
 * No lock is held in poll, recv, futex, callbacks, name resolution and the
 * exec() of a blocking store. send is non-blocking and is done under mu.
 *
 *   struct snib__step   one visit: lock, steps of the engine, what they want
 *                       done; unlock; then the wakes and log lines it caused
 *   struct snib__call   a blocking call, on the caller's stack
 *   struct snib__hold   what run knows about an acquisition of the engine
 *   struct snib__op   an event that will be delivered, allocated up front
 *   struct snib__socket   run's end of a channel                              */
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
    SNIB__NOTIFIER_SOCKET =
        SNIB__CONNS, /* bell of a blocking store, as a line  */
    SNIB__SOCKETS = SNIB__CONNS + 1,
    SNIB__SOCKET_IN = 16 << 10, /* bytes read at once                   */
    SNIB__FLIGHT_MAX = 1024,    /* rule 6                               */
    SNIB__SLICE_MS = 1000,      /* rule 7                               */
    SNIB__LAZY_MS = 50,         /* see background.c, lazy watching          */
    SNIB__HOPE_MS = 2           /* after that a call expects no reply   */
};

typedef enum snib__socket_state {
    SNIB__SOCKET_DOWN,
    SNIB__SOCKET_RESOLVING,
    SNIB__SOCKET_CONNECTING,
    SNIB__SOCKET_UP
} snib__socket_state;

struct snib__socket {
    int fd;         /* -1: none                                         */
    int waker;      /* eventfd: wakes the call that polls here          */
    uint8_t state;  /* snib__socket_state                                 */
    bool asleep;    /* its reader is a call that sleeps in ppoll        */
    bool closing;   /* shut while asleep: the reader closes it          */
    bool blocked;   /* the last send would have blocked                 */
    bool watched;   /* fd is in the epoll set                           */
    uint32_t armed; /* epoll events asked for; 0: (no longer) none      */
    snib_instant
        lazy; /* the background thread begins to watch then                  */
    uint8_t *in; /* the reader's                                     */
    struct snib__addresses *addresses;
};

struct snib_lock {
    struct snib__link link; /* client's locks                            */
    struct snib_client *client;
    struct snib__local_lock *local;
    struct snib__list holds;
    struct snib_lock_options o; /* lease_ms filled in                       */
    bool passes; /* a latch's, a barrier's: snib__acquire_spec         */
};

struct snib__call;
struct snib__extra;

/* What run knows about an acquisition; acquisition->user points to the first of a chain, one
 * for each handle through which the owner holds it. The first one has what is the
 * grant's: who renews, and the descriptor. */
struct snib__hold {
    struct snib__link link; /* lock's holds; off once given back        */
    struct snib_lock *lock;
    struct snib__hold
        *next; /* same acquisition, another handle                */
    uint64_t ticket;
    uint32_t count;          /* holds taken through this handle          */
    int fd;                  /* readable at the end of the grant; -1     */
    struct snib__call *call; /* whose acquire or release is under way    */
    struct snib__call *renewers;
    struct snib__op *op;       /* the event that answers a start           */
    struct snib__extra *extra; /* mostly NULL                              */
};

/* What names a grant at its store. */
struct snib__detached {
    uint64_t client[2];
    uint64_t request[2];
    int64_t token;
};

/* An event to come (on pending or releasing), then one to be fetched. One of
 * a group is never fetched: it is a call's own, which its last answer settles
 * (batch.c). */
struct snib__op {
    struct snib__link link;
    struct snib__hold *hold;   /* while it is to come                    */
    struct snib__batch *batch; /* NULL: an event; or answered            */
    snib_instant limit;        /* of a release                             */
    struct snib_lock *passes;  /* let go when granted: its own handle, freed
                                  with the note; NULL: an ordinary acquire */
    bool keep;                 /* embedded in an extra: not freed by next  */
    struct snib_event ev;
};

/* Several requests that one call waits for. */
struct snib__batch {
    struct snib__call *call;
    uint32_t open; /* not answered yet                                     */
};

/* Only for holds whose handle has a callback, or that were started. */
struct snib__extra {
    struct snib__link notice; /* client's notices                         */
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
    SNIB__CALL_ROOM, /* for fewer requests in flight (rule 6)               */
    SNIB__CALL_IDLE, /* for nothing being in flight: stop                   */
    SNIB__CALL_TOLD  /* … nor behind what was answered                      */
} snib__call_kind;

struct snib__call {
    struct snib__waiter w;
    snib__word word;
    uint8_t kind;
    uint8_t waker; /* while it polls: the line at whose bell it listens      */
    bool brief;    /* nothing to do under the mutex once settled  */
    snib_err err;
    snib_instant limit;
    uint64_t ticket;
    uint64_t among; /* of several tries: one of them                        */
    struct snib_grant grant;
    struct snib__hold *hold;
    struct snib__direct *direct;
    struct snib__call *next; /* renewers of one hold                        */
    struct snib_error error;
};

struct snib__log_line {
    struct snib__link link;
    int level;
    char text[];
};

struct snib_client {
    pthread_mutex_t mu;
    pid_t pid;                /* who opened it; constant                  */
    bool pull, virtual_clock; /* constant                                 */
    bool quick;               /* exec() never blocks; constant            */
    bool closed, stopped;
    bool stopping, ended; /* a thread is in stop, is through it       */
    snib_duration request;
    char *url;      /* safe to show                             */
    char *identity; /* of the store: identity.c                 */
    uint64_t id[2];
    char id_text[33]; /* the same, hexadecimal                    */
    void (*log)(void *, int, const char *);
    void *log_data;

    struct snib__engine *engine;
    struct snib__out *out;
    const struct snib__blocking_ops *blocking; /* NULL: a store of channels */
    void *instance;
    bool executing;
    bool in_child; /* being freed in one: what rings is the parent's   */
    _Atomic uint32_t batches; /* calls inside batch.c: one that was woken
                                 leaves without the mutex                   */
    snib_instant clock;       /* the last `now`                           */

    struct snib__roles roles;
    uint32_t odd_calls; /* those of kind ROOM and IDLE             */
    struct snib__socket sock[SNIB__SOCKETS];
    struct snib__list locks;
    struct snib__list pending;   /* notes of acquires                       */
    struct snib__list releasing; /* notes of releases, by limit             */
    struct snib__list events;    /* notes to be fetched                     */
    struct snib__list notices;   /* extras with news for a callback         */
    struct snib__list logs;
    struct snib_lock *telling; /* whose callback runs now                 */
    pthread_t teller;
    pthread_cond_t told; /* a callback has run, or stop          */

    int epoll, timer, steps; /* epoll set, BOOTTIME timer, clock steps  */
    int event_fd;
    bool event_set;
    bool background_on, background_stop;
    pthread_t background;
    snib_instant armed;  /* the timer; NEVER: not armed             */
    int64_t wall_offset; /* REALTIME − BOOTTIME as last seen, ns    */

    bool worker_on, worker_stop;
    pthread_t worker;
    pthread_cond_t work;
    struct snib__list jobs;     /* look-ups of host names                  */
    struct snib__list executed; /* pull: chains that came back             */

    int retired[16]; /* loss descriptors of ended grants        */
    uint32_t retired_next;
};

/* -- pump.c --------------------------------------------------------------- */

struct snib__step {
    struct snib_client *c;
    snib_instant now;
    struct snib__call *me; /* the acting call, if it is one               */
    bool
        background; /* the acting thread is the background thread             */
    bool event;     /* event_fd must be set                        */
    bool kick;      /* the background thread must look                        */
    bool away;      /* me is settled, the mutex is not held        */
    uint32_t wakers; /* lines whose bell must be rung               */
    uint32_t words;
    snib__word *word[32];
    int cancel_state;
};

/* Lock, read the clock. */
void snib__step_begin(struct snib__step *, struct snib_client *);
/* Unlock; then wake and log. */
void snib__step_end(struct snib__step *);
/* Unlock for a sleep or a callback: wakes and log lines go out. */
void snib__step_pause(struct snib__step *);
/* Lock again afterwards. */
void snib__step_again(struct snib__step *);
/* Read the clock again, mutex held. */
void snib__step_refresh(struct snib__step *);
/* Do what the engine wants until it wants nothing: news, connections, bytes,
 * timer. After every call into the engine. */
void snib__step_act(struct snib__step *);
/* Wait for me (its kind's answer, already started) until limit; true: it is
 * settled (s->away: the mutex is not held any more). False: the limit has
 * passed; it is still among the waiting. */
bool snib__pump(struct snib__step *, struct snib__call *, uint32_t before[]);
/* Detach me, pass my roles on. */
void snib__pump_leave(struct snib__step *, struct snib__call *);
/* Note what is awaited, for snib__pump. */
void snib__pump_mark(struct snib_client *, uint32_t before[SNIB__CONNS]);
/* A call has its answer. */
void snib__call_settle(struct snib__step *, struct snib__call *, snib_err);
/* Wake it to look at its limit again. */
void snib__call_wake(struct snib__step *, struct snib__call *);
/* The call that sleeps at this line. */
void snib__socket_wake(struct snib__step *, uint32_t sock);
snib_instant snib__client_due(const struct snib_client *);
/* Execute what a blocking store has to do, on this thread, no mutex held
 * meanwhile. False: nothing to do, or another thread is at it. */
bool snib__step_exec(struct snib__step *);
/* Pull clients: take back what the worker has executed. */
void snib__step_executed(struct snib__step *);

/* -- socket.c: connections -------------------------------------------------- */

void snib__sockets_init(struct snib_client *);
/* What a line needs once and keeps: bell, buffer. Errors: NOMEM, LIMIT. */
snib_err snib__socket_furnish(struct snib_client *, uint32_t i);
/* The bell of a blocking store may have come into being. Not while its exec()
 * runs. */
void snib__socket_notifier(struct snib_client *);
void snib__socket_open(struct snib__step *, uint32_t i);
void snib__socket_shut(struct snib__step *, uint32_t i);
/* Look its host name up; snib__socket_resolved will be called. False: no memory
 * or no thread. */
bool snib__resolve_start(struct snib_client *, uint32_t i);
/* Let go of all look-ups. The client's mutex is not held. */
void snib__resolve_cut(struct snib_client *);
/* Its addresses have come. */
void snib__socket_resolved(struct snib__step *, uint32_t i,
                           const struct snib__addresses *found);
/* Connecting, and something happened. */
void snib__socket_connected(struct snib__step *, uint32_t i);
/* Send what can be sent. False: it broke, and the engine was told. */
bool snib__socket_flush(struct snib__step *, uint32_t i);
/* recv gave n (bytes in line[i].in, or -errno): feed it. */
void snib__socket_received(struct snib__step *, uint32_t i, long n);
/* Close now; tells the engine unless it is being freed. */
void snib__socket_close(struct snib__step *, uint32_t i);
/* For stop: end the connections; descriptors and bells stay until free. */
void snib__sockets_end(struct snib_client *);
/* Close everything, say nothing. */
void snib__sockets_free(struct snib_client *);
/* Lines on which an answer is due, and lines that may speak unasked. */
void snib__sockets_need(const struct snib_client *, uint32_t *ret_replies,
                        uint32_t *ret_pushes);

/* -- loop.c: epoll, timer, eventfds ---------------------------------------- */

snib_err snib__loop_open(struct snib_client *, struct snib_error *reterr);
void snib__loop_close(struct snib_client *);
/* For stop: nothing of the set or the timers speaks any more. */
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

/* -- background.c, worker.c ----------------------------------------------------- */

/* Start the background thread if it does not run. Errors: LIMIT, NOMEM. */
snib_err snib__background_need(struct snib_client *, struct snib_error *reterr);
/* One round of the background thread, in its thread (-1) or in snib_process (0):
 * patience_ms as for epoll_wait. Mutex held before and after. */
void snib__background_round(struct snib__step *, int patience_ms);
/* These lines are the background thread's now. */
void snib__background_given(struct snib__step *, uint32_t socks);
/* A note is on pending: watch now what was to be watched later. */
void snib__background_hurry(struct snib__step *);
/* For stop, once: ends the thread. background_on and worker_on stay as they are; stop
 * clears both under the mutex when both threads have ended. */
void snib__background_join(struct snib_client *);
bool snib__worker_need(struct snib_client *);
void snib__worker_join(struct snib_client *);
/* A thread of ours: all signals blocked. */
int snib__thread_start(pthread_t *, void *(*body)(void *), void *);

/* -- watch.c, events.c -------------------------------------------------------- */

snib_err snib__extra_new(struct snib_lock *, bool events, void *user,
                         struct snib__extra **ret);
/* Of a hold that re-enters: it is told of what changes from now on. */
void snib__extra_entered(struct snib__extra *,
                         const struct snib__acquisition *);
/* The acquisition's state as the engine tells it, to all of the chain. */
void snib__holds_changed(struct snib__step *, struct snib__hold *first,
                         const struct snib__acquisition *);
/* The hold has ended: withdraw what was not told, set the grant's descriptor if
 * it (still) has that. */
void snib__watch_ended(struct snib__step *, struct snib__hold *);
/* Run callbacks that are due, mutex released around each. */
void snib__notices_tell(struct snib__step *);
void snib__retired_close(struct snib_client *);
void snib__op_push(struct snib__step *, struct snib__op *);
/* Answer a start: note becomes an event. */
void snib__op_answer(struct snib__step *, struct snib__op *, snib_event_kind,
                     struct snib_grant, snib_err,
                     const struct snib_error *detail);
/* snib_acquire_start with checked options. passes: the grant is let go in the
 * background as soon as it is there, the event is PASSED; the handle is the
 * event's then, unless there is an error. */
snib_err snib__acquire_start(struct snib_lock *,
                             const struct snib_acquire_options *, bool passes,
                             void *user, uint64_t *ret_ticket,
                             struct snib_error *reterr);
/* Release starts whose patience is over. */
void snib__ops_due(struct snib__step *);
void snib__ops_close(struct snib__step *);

/* -- hold.c -------------------------------------------------------------------- */

/* Free the chain and its extras. */
void snib__holds_free(struct snib__step *, struct snib__hold *);
/* The first hold of a chain goes: what is the grant's is the next one's now. */
void snib__hold_hand_on(struct snib__hold *from, struct snib__hold *to);
/* The grant is ours no longer: detach from locks, end what watches it. */
void snib__holds_ended(struct snib__step *, struct snib__hold *);
/* News of one acquisition. */
void snib__hold_news(struct snib__step *, struct snib__acquisition *,
                     uint8_t news);
/* Release one hold; see snib_release. Exactly one of call, note, neither. OK
 * with *ret_open: its answer will come. */
snib_err snib__hold_release(struct snib__step *, struct snib_lock *,
                            uint64_t ticket, uint64_t owner,
                            struct snib__call *, struct snib__op *,
                            bool *ret_open, struct snib_error *reterr);
/* Begin an acquire. *ret_open: its answer will come; else call->err and
 * grant, or the note, have it. */
snib_err snib__hold_acquire(struct snib__step *, struct snib_lock *,
                            const struct snib_acquire_options *,
                            snib_instant limit, uint64_t owner,
                            struct snib__call *, struct snib__op *, void *user,
                            bool *ret_open, uint64_t *ret_ticket,
                            struct snib_error *reterr);

/* Begin to take up a grant that was left behind. Owner, lease and limit are the
 * ask's. *ret_open as above. */
snib_err snib__hold_adopt(struct snib__step *, struct snib_lock *,
                          const struct snib__detached *, int64_t lease_ms,
                          snib_instant limit, struct snib__call *,
                          bool *ret_open, struct snib_error *reterr);
/* Forget a grant with all its holds. */
snib_err snib__hold_abandon(struct snib__step *, uint64_t ticket,
                            uint64_t owner, struct snib_error *reterr);

/* -- detached.c: grants as text ---------------------------------------------------- */

/* 32 hexadecimal digits, `size` of them given. */
bool snib__identity_read(const char *text, size_t size, uint64_t ret[2]);
bool snib__detached_read(const char *text, struct snib__detached *ret);
/* snib_acquire_options.above; not NULL. USAGE. */
snib_err snib__above_read(const char *text, struct snib__above *ret,
                          struct snib_error *reterr);

/* -- call.c ------------------------------------------------------------------- */

/* Copy what the caller's version of the struct has, and check it. */
snib_err snib__acquire_options(const struct snib_acquire_options *,
                               struct snib_acquire_options *ret,
                               struct snib_error *reterr);
/* The client cannot block when it is driven by snib_process: USAGE. */
snib_err snib__may_block(const struct snib_client *, struct snib_error *reterr);
/* May a call ask for a grant? Starts the background thread; waits for room until limit. */
snib_err snib__may_acquire(struct snib__step *, snib_instant limit,
                           struct snib_error *reterr);
/* The shape of a call: see the head of call.c. */
void snib__call_begin(struct snib__step *, struct snib__call *, snib__call_kind,
                      snib_instant limit);
bool snib__call_wait(struct snib__step *, struct snib__call *,
                     uint32_t before[SNIB__CONNS]);
/* The acquire of a blocking call, whose acquisition is WAITING, gives up for that
 * reason. The call is settled, or will be when the store has confirmed it. */
void snib__call_quit(struct snib__step *, struct snib__acquisition *,
                     snib_err why);
/* … whose acquisition is LEAVING: nothing will be confirmed any more. */
void snib__call_cut(struct snib__step *, struct snib__acquisition *);
/* A way to end a call from another thread; the client's mutex guards it while
 * the call runs. */
struct snib__stop {
    bool asked;
    uint64_t
        ticket; /* of the acquisition that waits; 0: none yet               */
};
/* snib_acquire with checked options, for an explicit owner or the thread's. It
 * ends with CANCELLED once stop is asked. */
snib_err snib__acquire_until(struct snib_lock *,
                             const struct snib_acquire_options *,
                             struct snib__stop *, struct snib_grant *ret,
                             struct snib_error *reterr);
/* End that call, if it still waits. */
void snib__stop_ask(struct snib_client *, struct snib__stop *);
/* How long a call may wait that was given wait_ms. */
snib_duration snib__patience(const struct snib_client *, int64_t wait_ms);
/* Until nothing is under way at the store, or nothing moves for request_ms. */
void snib__wait_idle(struct snib__step *);
/* … and what was answered is told to the rest of the servers, for a moment. */
void snib__wait_told(struct snib__step *);

/* -- batch.c: several requests in one visit ---------------------------------------- */

/* One lock of a batch. */
struct snib__batch_item {
    struct snib_lock *lock;
    struct snib_grant grant;
    struct snib_error error; /* code OK: acquired; released               */
    struct snib__op op;
    bool asked; /* note has the answer                                    */
};
/* Try n locks of one client, for one owner, in one visit: in order, until one is
 * refused; all: all or none. Each member's error says what became of it:
 * CANCELLED when it is not acquired because another is not. On a store that
 * cannot do so in one step, those behind a refused one may be acquired. Blocks up to patience,
 * which no request outlives: unanswered then, it is UNREACHABLE (never sent)
 * or UNKNOWN (being cancelled). wait_ms of the options is not looked at. */
void snib__batch_try(struct snib_client *, struct snib__batch_item[], size_t n,
                     const struct snib_acquire_options *, bool all,
                     snib_duration patience);
/* Release all n grants of one client in one visit. Blocks up to patience:
 * unanswered then, it is UNKNOWN, and repeated in the background. */
void snib__batch_release(struct snib_client *, struct snib__batch_item[],
                         size_t n, snib_duration patience);
/* A note of a group was answered; ev has the answer. */
void snib__batch_answered(struct snib__step *, struct snib__op *);

/* -- owner.c, fork.c, stores.c, self.c, identity.c ------------------------------------------ */

uint64_t snib__owner_of_thread(void);
/* Remember this process (client open): snib__client_check knows its children. */
pid_t snib__fork_here(void);

struct snib__registered {
    const char *scheme;
    const struct snib__store_ops *ops;
    const struct snib__blocking_ops *blocking;
    const char *offer; /* how its URL looks, for who gave none; or NULL    */
};
const struct snib__registered *snib__store_find(const char *scheme);
/* "sqlite:PATH or redis://HOST": of those that are built in. One for tests
 * within a process is not offered, unless it is the only one. */
void snib__stores_offered(char *ret, size_t size);
/* The URL of the embedded file; to be freed. */
snib_err snib__default_url(char **ret, struct snib_error *reterr);
void snib__self_about(struct snib__about *, const char *program,
                      const char *reason);
/* What makes two URLs one store; to be freed. NULL: no memory. */
char *snib__store_identity(const struct snib__url *);
snib_err snib__self_seed(struct snib__seed *, struct snib_error *reterr);

#endif
