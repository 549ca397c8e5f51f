/* snib.h — distributed locks that hold: the public interface of libsnib.
 *
 * A *lock* is a name in a *store* (a Redis server, an SQLite file, …). An
 * *owner* acquires it and gets a *grant*: the right to the name until a
 * *deadline*, renewed in the background, with a fencing *token* that is
 * higher than that of every earlier grant, as given by the store (once the
 * store has lost its data, a client that it has forgotten may still enter
 * late, or for up to 5 ms pass tokens reserved for it from thread to thread:
 * they are below the next owner's, and the fence refuses them). When the
 * grant can no longer be kept it is *lost*, and the owner is told by its
 * local deadline.
 *
 * Threads. Every function may be called from any thread. snib_acquire may
 * block up to wait_ms (connecting and retrying are inside the limit; a try,
 * wait_ms 0, is bounded by request_ms), and then until the store has confirmed
 * that nothing of it is left there: as a rule one round trip, at most a
 * twentieth of request_ms (100 ms by default), or a fifth (400 ms) where the
 * outcome would be unknown otherwise. snib_release,
 * snib_renew, snib_inspect, snib_list and snib_force_release block up to
 * request_ms. Callbacks run on the client's background thread thread (in a pull client
 * inside snib_process) with no lock of ours held; renewals wait while they
 * run, so keep them short.
 *
 * Processes. After fork() every call in the child answers SNIB_ERR_FORKED
 * before it touches a mutex; snib_client_free in the child gives back memory
 * and file descriptors and says nothing to the store. The child may open a
 * client of its own, whatever the parent's threads were doing: for a lock file
 * fork() waits, by pthread_atfork and at most two seconds, until none of them is
 * inside SQLite (a child of which that cannot be said is refused, FORKED, until
 * it has called exec); of memory: it has spaces of its own, with none of the
 * parent's locks. The library installs no
 * signal handler, raises no SIGPIPE, prints nothing and never exits. (A broken
 * invariant inside calls abort() after the log callback: a lock that goes on
 * with a wrong idea of who holds is worse than none.)
 *
 * Several locks as one: snib/multi.h. Leader election: snib/elect.h.
 *
 * Ownership. What an open/new function returns is freed with its _free
 * function. Strings passed in are copied. Error texts live in the caller's
 * struct snib_error, which may be NULL everywhere; it needs no initialiser:
 * a function that takes one writes it in any case, on success code OK and "".
 *
 * Results. What a call answers with through a pointer (ret, ret_…) is written
 * when it returns OK. After an error a pointer to what would have to be freed is
 * NULL and its count 0, a grant is all zero, a ticket 0 and a text ""; anything
 * else is as it was before the call. Where a function does otherwise it says so
 * (snib_policy_run, and those of snib/value.h).
 *
 * Time. All public times are integers with their unit in the name. Deadlines
 * are kept on CLOCK_BOOTTIME, which runs through suspend.
 */
#ifndef SNIB_H
#define SNIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SNIB_VERSION_MAJOR 0
#define SNIB_VERSION_MINOR 1
#define SNIB_VERSION_PATCH 0
#define SNIB_VERSION       "0.1.0"

#define SNIB_API   __attribute__((visibility("default")))
#define SNIB_CHECK __attribute__((warn_unused_result))

/* For wait_ms only: wait without a limit. */
#define SNIB_FOREVER INT64_C(-1)

/* Longest lock name in bytes; any byte values, NUL included (name_size). */
#define SNIB_NAME_MAX 512

/* Bounds of a lease. Below 50 ms the allowance for clock rates (1 % + 5 ms)
 * and one round trip leave nothing; above a day a dead holder would block for
 * longer than anybody wants to wait. */
#define SNIB_LEASE_MIN_MS INT64_C(50)
#define SNIB_LEASE_MAX_MS INT64_C(86400000)

/* -- errors ------------------------------------------------------------- */

/* X(name, class, exit status of the command line tool, text)
 * One table makes the enum, the texts and the manual page. Classes:
 *   REFUSED  definitely not acquired, nothing of ours is left
 *   LOST     it was ours and is no longer
 *   UNKNOWN  sent, no answer; being cancelled in the background. Only of what
 *            changes something: a question without an answer is UNREACHABLE
 *   RETRY    definitely not applied; may work later
 *   USAGE    the call or the set-up is wrong
 *   STORE    the server said no
 *   LIMIT    a bound was reached
 *   INTERNAL a bug of ours: any function may say so, none is known to
 *
 * "Errors:" at a function lists what it may answer besides OK; "never" takes
 * out of a list that is referred to what cannot be, with its reason.
 * docs/PROOF.md names the test of each.                                     */
#define SNIB_ERRORS(X)                                                         \
    X(OK, NONE, 0, "done")                                                     \
    X(BUSY, REFUSED, 75, "held by another owner")                              \
    X(TIMEOUT, REFUSED, 75, "not acquired within the wait limit")              \
    X(CANCELLED, REFUSED, 75, "the wait was cancelled")                        \
    X(DEADLOCK, REFUSED, 75, "waiting would close a cycle")                    \
    X(LOST, LOST, 76, "the lease ended before the release")                    \
    X(NOT_HELD, USAGE, 70, "this grant was released before")                   \
    X(WRONG_OWNER, USAGE, 70, "another owner holds this grant")                \
    X(USAGE, USAGE, 64, "argument or order of calls is wrong")                 \
    X(FORKED, USAGE, 70, "the handle belongs to the parent process")           \
    X(UNKNOWN, UNKNOWN, 69, "sent, and no answer came")                        \
    X(UNREACHABLE, RETRY, 69, "nothing was applied; store unreachable")        \
    X(DENIED, STORE, 77, "login or permission refused by the store")           \
    X(STORE, STORE, 69, "the store refuses to work")                           \
    X(CORRUPT, STORE, 69, "the store holds something that is not ours")        \
    X(UNSUPPORTED, USAGE, 78, "this store cannot do that")                     \
    X(CONFIG, USAGE, 78, "the set-up is wrong")                                \
    X(LIMIT, LIMIT, 70, "a bound of this client is reached")                   \
    X(CLOSED, USAGE, 70, "the client was closed")                              \
    X(NOMEM, LIMIT, 70, "out of memory")                                       \
    X(INTERNAL, INTERNAL, 70, "a bug in snib")                                 \
    X(TOO_MANY, REFUSED, 75, "more permits than the semaphore has")

typedef enum snib_err {
#define SNIB_ERR_ENUM_(name, class_, exit_, text) SNIB_ERR_##name,
    SNIB_ERRORS(SNIB_ERR_ENUM_)
#undef SNIB_ERR_ENUM_
} snib_err;

typedef enum snib_class {
    SNIB_CLASS_NONE,
    SNIB_CLASS_REFUSED,
    SNIB_CLASS_LOST,
    SNIB_CLASS_UNKNOWN,
    SNIB_CLASS_RETRY,
    SNIB_CLASS_USAGE,
    SNIB_CLASS_STORE,
    SNIB_CLASS_LIMIT,
    SNIB_CLASS_INTERNAL
} snib_class;

/* Details of a failure; the caller's memory. text is NUL-terminated, one
 * line, says what was wrong, what was expected and what to do, and never
 * contains a password. */
struct snib_error {
    snib_err code;
    char text[252];
};

/* "BUSY", "held by another owner", class, exit status. Static strings; a
 * value outside the enum gives "?" and INTERNAL. */
SNIB_API const char *snib_err_name(snib_err);
SNIB_API const char *snib_err_text(snib_err);
SNIB_API snib_class snib_err_class(snib_err);
SNIB_API int snib_err_exit(snib_err);

/* Version of the library that runs, e.g. "0.1.0". */
SNIB_API const char *snib_version(void);

/* -- words --------------------------------------------------------------- */

/* What a grant shares its lock with. A lock is a name with one queue, first
 * come first served; a request that does not fit makes those behind it wait,
 * so neither readers nor writers, nor large lots of permits, starve. (For a
 * mutex the threads of one client share the client's place: who waits behind a
 * thread of its own may come before others, for at most 5 ms, or wait behind
 * them until the client's next turn; docs/KINDS.md.)
 *
 *   MUTEX, WRITE  nobody. They are the same; WRITE says that others read.
 *   READ          other readers (and permits). Each reader has a lease of its
 *                 own: a dead one keeps writers out until its own lease ends.
 *   PERMITS       as many permits as the semaphore has (snib/semaphore.h),
 *                 and readers. Permits belong to no owner: any thread of the
 *                 client may release them, and an acquire is never a re-entry
 *                 (one that wants the name exclusively waits for its own, too).
 *   BARRIER       see snib_barrier_wait (snib/latch.h).
 *
 * Re-entry, by owner: a reader may read again and a writer write again, at no
 * cost. The writer may read (granted at once); when it has released the write
 * lock and still reads, the readers that wait come in: a downgrade without a
 * gap. The reader may write: it waits for the other readers to go, ahead of
 * everybody who waits; a second reader that wants the same is refused with
 * DEADLOCK, since each would wait for the other.
 *
 * Tokens: exclusive grants and permits have one of their own, higher than any
 * before. A reader's is that of the last exclusive grant before it, so that a
 * resource can tell a reader that outstayed its lease from one that did not. */
typedef enum snib_kind {
    SNIB_MUTEX,
    SNIB_READ,
    SNIB_WRITE,
    SNIB_PERMITS,
    SNIB_BARRIER
} snib_kind;

/* Most permits of a semaphore, parties of a barrier, count of a latch. */
#define SNIB_PERMITS_MAX 1000000000

/* Bounds of a request's priority in the queue. */
#define SNIB_PRIORITY_MAX 100

/* What a grant is now. AT_RISK: a renewal failed, could not be sent or was not
 * answered for a sixth of the lease (at most request_ms), or the machine slept;
 * the lease still runs. LOST: stop; the reason says why, snib_grant_explain in
 * words. */
typedef enum snib_state {
    SNIB_HELD,
    SNIB_AT_RISK,
    SNIB_LOST,
    SNIB_RELEASED
} snib_state;

typedef enum snib_cause {
    SNIB_CAUSE_NONE,
    SNIB_CAUSE_EXPIRED,     /* a fixed lease ran out                          */
    SNIB_CAUSE_STOLEN,      /* the store says that it is not ours any more    */
    SNIB_CAUSE_UNREACHABLE, /* renewals failed until the deadline: the server
                             was dead, silent, read-only, or refused them   */
    SNIB_CAUSE_PAUSED,      /* this process or machine stood still            */
    SNIB_CAUSE_REVOKED,     /* force-released by somebody                     */
    SNIB_CAUSE_HOLD_MAX     /* hold_max_ms is over                            */
} snib_cause;

/* "held", "at risk", …; "expired", …, "" for NONE. Static strings. */
SNIB_API const char *snib_state_text(snib_state);
SNIB_API const char *snib_cause_text(snib_cause);

struct
    snib_client; /* one store: connections, one background thread thread            */
struct snib_lock; /* one name in it; usable by all threads                */

/* A grant is a value: copy it, print it, pass it through any language. There
 * is nothing to free, and a stale one is recognised: a second release is an
 * error, not a crash. token is the fencing token: pass it to the resource
 * that the lock protects (docs/FENCING.md). ticket 0 is no grant. */
struct snib_grant {
    uint64_t ticket;
    int64_t token;
};

/* Filled by snib_grant_status. left_ms: until the local deadline, 0 when it
 * has passed. held_ms: since the grant. holds: re-entry count. */
struct snib_status {
    snib_state state;
    snib_cause cause;
    int64_t token;
    int64_t left_ms;
    int64_t held_ms;
    uint32_t holds;
    snib_kind kind;
    uint32_t permits; /* of PERMITS: how many were given, else 0            */
    int64_t slot;     /* of PERMITS: snib_semaphore_slot, else -1           */
};

/* -- client --------------------------------------------------------------- */

#define SNIB_LOG_ERROR 0
#define SNIB_LOG_WARN  1
#define SNIB_LOG_INFO  2
#define SNIB_LOG_DEBUG 3

struct snib_client_options {
    size_t size;         /* sizeof this struct; see SNIB_INIT               */
    const char *url;     /* NULL: $SNIB_URL; without one the default file,
                            which is one user's, or a group's
                            (docs/SQLITE.md)                                */
    const char *program; /* shown to others; NULL: the process' name        */
    const char *reason;  /* shown to others; may be NULL                    */
    /* NULL: a fresh random client id; else 32 hexadecimal digits (of
     * snib_grant_identity): this client *is* that owner, to take up what it
     * left behind. Two live clients of one identity are one to the store: only
     * for grants that were abandoned. */
    const char *identity;
    bool pull;          /* no thread of ours: see snib_process             */
    bool leashed;       /* what holds may outlive this process (snib run's
                            command): nobody may take its locks over merely
                            because this process is gone                    */
    int64_t request_ms; /* patience for one answer; 0: 2 000               */
    /* Called with no lock held, from any thread, lines without newline; out of
     * a stop or a free, too: it must not call these. */
    void (*log)(void *data, int level, const char *line);
    void *data; /* passed to log                                   */
    /* Do not look for deadlocks (snib/deadlock.h), and do not show others what
     * the owners that wait here hold: cycles through this client are found by
     * nobody then. */
    bool no_deadlock_check;
};

/* Designated initialiser for option structs: C only; in C++ value-initialise
 * and set .size. */
#define SNIB_INIT(type)                                                        \
    {                                                                          \
        .size = sizeof(struct type)                                            \
    }

/* Open a client. Parses the URL and allocates; connects on first use (SQLite
 * files are opened here). Errors: USAGE (URL, options), CONFIG (file not
 * usable, network file system), STORE (a lock file that may be usable later:
 * another process writes and does not end, the disk is full or fails),
 * UNSUPPORTED (scheme not built in), LIMIT (no file descriptor is left; the
 * text says which limit), FORKED (a lock file, in a child that was forked while
 * a thread of its parent was inside one), NOMEM. options may be NULL. *ret is
 * NULL after an error. */
SNIB_API SNIB_CHECK snib_err
snib_client_open(const struct snib_client_options *options,
                 struct snib_client **ret, struct snib_error *reterr);

/* Shut-down in three steps: close refuses new calls, ends waiting ones and
 * started acquires with CLOSED, each as soon as the store has confirmed that
 * nothing of it is left, as snib_cancel does (UNKNOWN as there; a change that
 * waits for its answer, a put or a forced release, is UNKNOWN at once), and does
 * not block; stop releases what is held (each up to
 * request_ms; all of them together, when the store does not answer; of a quorum
 * up to 250 ms more until each server that is well has been told), joins the
 * threads, and in a second thread returns when the first is through; free gives
 * everything back and implies the first two. NULL is allowed. No other thread
 * may use the client during free. */
SNIB_API void snib_client_close(struct snib_client *);
SNIB_API void snib_client_stop(struct snib_client *);
SNIB_API void snib_client_free(struct snib_client *);

/* The URL in use, without its password. Valid as long as the client. */
SNIB_API const char *snib_client_url(const struct snib_client *);

/* How the store is, as far as this client knows from what it asked last: it
 * asks nothing for it. reachable: it answers and works, or (SQLite, memory)
 * did so last. Not reachable with error OK: nothing is known yet, the first
 * answer is awaited or nothing was ever asked. Else error says why, and text
 * the same in a line without the store's address ("connection refused"):
 *   UNREACHABLE  no connection, or no answer within request_ms
 *   DENIED       the login is refused
 *   STORE        it is there and does not work now: loading, busy, read-only,
 *                out of memory
 *   CONFIG       it is not what the URL says
 * A client that holds or wants nothing does not notice what becomes of the
 * store. Of a quorum, reachable means a majority; the text may name a server
 * that is missing while the majority stands. */
struct snib_store_status {
    bool reachable;
    snib_err error;
    int64_t for_ms;                  /* since when that is so               */
    uint32_t nodes, nodes_reachable; /* servers of a quorum; else 1         */
    char text[252]; /* one line, never a password; "": nothing to say      */
};

/* Any thread, any time before snib_client_free; does no I/O and does not
 * wait for any. In a forked child: not reachable, FORKED. */
SNIB_API void snib_client_store_status(struct snib_client *,
                                       struct snib_store_status *ret);

/* The client's id as others see it (snib_party.owner). Valid as long as the
 * client. */
SNIB_API const char *snib_client_id(const struct snib_client *);

/* -- locks ---------------------------------------------------------------- */

struct snib_lock_options {
    size_t size;
    size_t name_size; /* bytes in name; 0: strlen                        */
    snib_kind kind;
    uint32_t permits;    /* PERMITS: how many an acquire takes, 0: 1; BARRIER:
                          parties; other kinds: 0                           */
    uint32_t capacity;   /* PERMITS: the semaphore's size if the store knows
                          none yet, 0: it must know one. One that is known
                          counts, whatever stands here                      */
    int64_t lease_ms;    /* 0: 30 000                                       */
    int64_t hold_max_ms; /* told lost (HOLD_MAX) after that; 0: no limit    */
    bool fixed_lease;    /* not renewed by itself; snib_renew may. It ends by
                            its time or a release, not with its process, on
                            any store: see "grants left behind"             */
    bool aggressive;     /* after the deadline go on until the store says
                            no; switches promise P1 (exclusion) off         */
    bool confirm;        /* a grant pushed by another's release is confirmed
                            by a round trip before it is given out          */
    bool no_reentry;     /* a second acquire by the same owner is refused
                            (DEADLOCK) instead of counted                   */
    bool spin;           /* Redis: ask again and again (10 ms, doubling to
                            500 ms, with jitter) instead of standing in the
                            queue: for servers without publish/subscribe.
                            Served when nobody stands in the queue, in no
                            order; the URL's ?wait=spin says so for all     */
    bool
        no_local_hand_over; /* do not hand over between this process' threads  */
    int64_t lock_delay_ms;  /* when a grant ends without a release (its owner
                              died, or lost it), the lock stays closed for
                              that long: time for what the owner sent to
                              arrive. 0: none; at most a day                */
    int priority;           /* in the queue: -100 … 100, higher ones first,
                              0: ordinary. The head is never overtaken by its
                              equals; with high ones arriving for ever, low
                              ones wait for ever. Owners of one client go by
                              it, too; the place of their client among others
                              is that of the owner that asked first          */
    /* Told once for each change of a grant's state (at risk, held again,
     * lost). Each handle through which the grant is held (re-entry) is told of
     * the changes since it has held it, one after another, in no order.
     * Once a handle's last hold was given back it is told nothing more: whoever
     * releases has heard of the loss by SNIB_ERR_LOST. But a call that was on
     * its way by then may still run when snib_release has returned; it is
     * snib_lock_free that waits for it (unless called from it), so data may be
     * freed after snib_lock_free, not after snib_release. Background thread thread or
     * snib_process; no lock held; may call anything but
     * snib_client_stop/free: the background thread, which a stop waits for, would wait
     * for itself (stop is but a close there). */
    void (*on_change)(void *data, struct snib_grant, snib_state, snib_cause);
    void *data;
};

/* A handle for one name; cheap, shared by threads, no I/O. Several handles
 * for one name in one client share the grant and the queue, each with its
 * own options. What the store cannot do is told by the acquire. Errors: USAGE
 * (empty or too long name, lease out of bounds), NOMEM, CLOSED, FORKED. */
SNIB_API SNIB_CHECK snib_err snib_lock_new(struct snib_client *,
                                           const char *name,
                                           const struct snib_lock_options *,
                                           struct snib_lock **ret,
                                           struct snib_error *reterr);

/* Free the handle; what is still held through it is released in the
 * background. NULL is allowed. Waits for an on_change of the handle that runs;
 * when it has returned none runs nor will, and data may be freed (called from
 * on_change itself: when that has returned). */
SNIB_API void snib_lock_free(struct snib_lock *);

struct snib_acquire_options {
    size_t size;
    int64_t wait_ms;    /* 0: try once, and make one attempt to connect ·
                           SNIB_FOREVER · else the limit: for the store as for
                           the lock. A store that is not there is waited for
                           until then; what waiting cannot mend (a host name
                           that does not exist, of a store that was not
                           reached yet; a refused login; a store of another
                           kind) ends at once                              */
    uint64_t owner;     /* 0: the calling thread; else snib_owner_new()     */
    const char *reason; /* shown to others; NULL: the client's             */
    uint32_t permits;   /* PERMITS: 0: as many as the lock's options say   */
    bool all_permits;   /* PERMITS: all that are available, at least one;
                           with wait_ms 0 only                             */
    /* For the search of deadlocks (snib/deadlock.h): grants of other clients,
     * in processes above this one, that cannot end before this acquire has
     * ended. Ids as of snib_grant_request, the first 16 digits or all 32,
     * joined by ','; at most 8, NULL: none. Only what is surely so: else
     * somebody is refused who need not be. Not looked at by a try. */
    const char *above;
};

/* Acquire. NULL options wait for ever. *ret is all zero, no grant, after an
 * error. The owner that holds the lock gets it again at once (re-entry, same
 * token); each acquire wants its own release.
 * Errors: BUSY (wait_ms 0), TIMEOUT, CANCELLED (the handle was freed during the
 * wait), LOST (this owner lost the lock and has not unwound yet), DEADLOCK (a
 * second reader that wants to write; a second acquire of a no_reentry lock; a
 * cycle, snib/deadlock.h), TOO_MANY (more permits than the semaphore has in the
 * store: at once, whatever wait_ms, since no wait would end it; also when it
 * was made smaller during the wait), USAGE (options; a pull client), CONFIG (a
 * semaphore without a size; the server is none that keeps locks), UNSUPPORTED
 * (a quorum has plain mutexes only), LIMIT (no thread or file descriptor is
 * left; too many holds of one grant), UNKNOWN (limit passed while unanswered,
 * and its cancel was not answered within a fifth of request_ms either; it goes
 * on in the background), UNREACHABLE (until the
 * limit, with the cause in the text: no connection, no answer, a replica. One
 * that had a place in the queue may still have it: it is being given up in the
 * background), DENIED, STORE, CORRUPT, CLOSED, FORKED, NOMEM. TIMEOUT is said
 * of a lock, never of a store that is gone.
 * TIMEOUT, CANCELLED, CLOSED: nothing of this acquire is left at the store, and
 * nobody who looks finds it in the queue; unless the store had said that it
 * stands there and then did not answer its cancel within a twentieth. Then
 * the place goes in the background (a grant that comes all the same is given
 * back), on a store that is gone with the alive window, 3 s. */
SNIB_API SNIB_CHECK snib_err snib_acquire(struct snib_lock *,
                                          const struct snib_acquire_options *,
                                          struct snib_grant *ret,
                                          struct snib_error *reterr);

/* Give back one hold. Errors: LOST (it had ended before, by its lease or by
 * force, whether this client had heard of that or not: somebody else may have
 * worked meanwhile; a force of which it had not heard is told in the text,
 * "revoked by anna on ci-7: bad release"; the owner is free again once all its holds are given back;
 * after a forced release one that hands the lock to another thread of this
 * client asks nobody, and says so only if the client has heard by then),
 * NOT_HELD (released before), WRONG_OWNER (the grant belongs to another thread;
 * release with that thread or acquire with an explicit owner), UNKNOWN (no
 * answer within request_ms, or the store refused to work; repeated in the
 * background until the lease's end), USAGE (a pull client), CLOSED (after
 * or during snib_client_stop, which has released it), FORKED. */
SNIB_API snib_err snib_release(struct snib_lock *, struct snib_grant,
                               struct snib_error *reterr);

/* Extend now, to lease_ms from now (0: the lock's lease). Errors: LOST,
 * NOT_HELD, UNKNOWN, UNREACHABLE, DENIED, STORE, CORRUPT, CONFIG, USAGE (lease
 * out of bounds), CLOSED (as snib_release), FORKED, NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_renew(struct snib_lock *, struct snib_grant,
                                        int64_t lease_ms,
                                        struct snib_error *reterr);

/* What the grant is at this instant; compares the clock, no I/O. A stale
 * grant, and any in a forked child, is RELEASED: with its own token, slot -1,
 * and 0 in all else. */
SNIB_API void snib_grant_status(struct snib_lock *, struct snib_grant,
                                struct snib_status *ret);

/* Room for what snib_grant_explain has to say, NUL included. */
#define SNIB_EXPLAIN_TEXT 512

/* Why the grant is at risk or lost, in one line for a log or a person, without
 * a full stop:
 *
 *   at risk  what the last renewal failed with:
 *            "no connection to db:6379: Connection refused"
 *   lost     the reason's word and what is known of it:
 *            "unreachable: no connection to db:6379: Connection refused"
 *            "revoked by anna on ci-7: release 4.2 is bad"
 *            "expired: the lease was fixed, and is over"
 *
 * "" while it is held, and when the grant is stale (a lost one is so once its
 * last hold is given back: ask before the release). Programs should compare
 * snib_status.reason; these words may change. They contain what other people
 * wrote (a reason, a server's error) in which only controls below 0x20 and DEL
 * are replaced by '?'. Cut to size; never without its NUL if size is not 0.
 * SNIB_EXPLAIN_TEXT is enough for all but long reasons. Any thread; no I/O; may
 * be called from on_change. */
SNIB_API void snib_grant_explain(struct snib_lock *, struct snib_grant,
                                 char *ret_text, size_t size);

/* True while the grant is held or at risk with its deadline ahead. */
SNIB_API bool snib_grant_held(struct snib_lock *, struct snib_grant);

/* A file descriptor (eventfd) that becomes readable when the grant is lost
 * or released. The library's; do not close or read it. -1 with errno ENOENT for
 * a stale grant, EMFILE/ENOMEM when none can be made. */
SNIB_API int snib_grant_fd(struct snib_lock *, struct snib_grant);

/* Room for the id of a request, NUL included. */
#define SNIB_REQUEST_TEXT 33

/* The id of the grant's request, as others see it (snib_party.request). Any
 * thread; no I/O. size: of ret_text, SNIB_REQUEST_TEXT is enough. Errors: USAGE
 * (size), NOT_HELD, LOST, CLOSED, FORKED; ret_text is "" then. */
SNIB_API SNIB_CHECK snib_err snib_grant_request(struct snib_lock *,
                                                struct snib_grant,
                                                char *ret_text, size_t size,
                                                struct snib_error *reterr);

/* An owner of one's own, for coroutines and for grants that move between
 * threads. Never 0, never reused. */
SNIB_API uint64_t snib_owner_new(void);

/* -- grants left behind -------------------------------------------------------
 *
 * A grant of a fixed lease may outlive its process: export it, abandon it, and
 * keep the text; whoever has the text (a later process, another host) adopts
 * the grant and renews or releases it. Until then nobody watches it: it ends
 * with its lease. A text is as good as the grant; keep it as private. */

/* Room for the text of a grant and for an identity, NUL included. */
#define SNIB_GRANT_TEXT    96
#define SNIB_IDENTITY_TEXT 33

/* One line that names the grant at its store: "snib1:", the client's id, the
 * request's id (32 hexadecimal digits each) and the token, joined by ':'. The
 * store's URL and the lock's name are not in it. Any thread; no I/O. size: of
 * ret_text, SNIB_GRANT_TEXT is enough. Errors: USAGE (size; not a fixed
 * lease), NOT_HELD, LOST, CLOSED, FORKED; ret_text is "" then. */
SNIB_API SNIB_CHECK snib_err snib_grant_export(struct snib_lock *,
                                               struct snib_grant,
                                               char *ret_text, size_t size,
                                               struct snib_error *reterr);

/* The client id in such a text, for snib_client_options.identity. No I/O.
 * Errors: USAGE (not such a text; size, SNIB_IDENTITY_TEXT is enough). */
SNIB_API SNIB_CHECK snib_err snib_grant_identity(const char *text,
                                                 char *ret_identity,
                                                 size_t size,
                                                 struct snib_error *reterr);

/* Forget the grant, and all holds of it, without releasing it: the store keeps
 * it until its lease ends, and this client queues behind it like everybody. The
 * thread that acquired it, as for snib_release; no I/O. A store in this
 * process' memory forgets it with its last client. Errors: USAGE (not a fixed
 * lease: it would be renewed by nobody), NOT_HELD, WRONG_OWNER, CLOSED, FORKED,
 * LOST (it was over already; the owner is free again). */
SNIB_API snib_err snib_grant_abandon(struct snib_lock *, struct snib_grant,
                                     struct snib_error *reterr);

/* Take up the grant that text names, in a client opened with its identity, by
 * a handle of the lock's name: *ret is ours once the store has confirmed it by
 * a renewal to lease_ms from now (0: the lock's lease; less than what is left
 * shortens it at best: Redis never does). Nothing is ever acquired. renew, release, status work as usual then;
 * any thread may release it. Blocks up to request_ms. Errors: LOST (the store
 * says that it is over: ended, released, forced), UNKNOWN (sent, no answer; it
 * may have been renewed), UNREACHABLE, DENIED, STORE, CORRUPT, CONFIG, BUSY
 * (this client holds or wants that lock itself), USAGE (text, another identity,
 * lease out of bounds, a pull client), CLOSED, FORKED, NOMEM. *ret is all zero
 * after an error; the grant is then what it was. */
SNIB_API SNIB_CHECK snib_err snib_grant_adopt(struct snib_lock *,
                                              const char *text,
                                              int64_t lease_ms,
                                              struct snib_grant *ret,
                                              struct snib_error *reterr);

/* -- event loops ----------------------------------------------------------- */

typedef enum snib_event_kind {
    SNIB_EV_GRANTED,  /* answer to an acquire_start                         */
    SNIB_EV_REFUSED,  /* answer to an acquire_start; see error              */
    SNIB_EV_RELEASED, /* answer to a release_start; see error               */
    SNIB_EV_STATE,    /* a grant acquired by acquire_start changed          */
    SNIB_EV_PASSED    /* answer to a latch_await_start, barrier_wait_start
                         (snib/latch.h): passed; nothing is held            */
} snib_event_kind;

/* What is set, by kind; all else is 0:
 *
 *            grant           user                   error  state, reason
 *   GRANTED  ticket, token   of acquire_start       OK     HELD, NONE
 *   REFUSED  ticket only     of acquire_start       why    RELEASED, NONE
 *   RELEASED ticket, token   of release_start       OK or  RELEASED, NONE
 *                                                   why
 *   STATE    ticket, token   of the acquire_start   OK     the new ones
 *                            that got the grant
 *                            for this handle
 *   PASSED   ticket, token   of the …_start         OK     RELEASED, NONE
 *
 * Errors of SNIB_EV_REFUSED: those of snib_acquire, CANCELLED (snib_cancel),
 * never FORKED (a child gets no events), LIMIT, USAGE (the start says so).
 * Errors of SNIB_EV_RELEASED: LOST, UNKNOWN (as for snib_release; also when
 * stop came first).
 *
 * state says whether anything is held; reason is NONE but with STATE. The ticket
 * of a REFUSED is the one that acquire_start gave, which is no grant's. There is
 * no lock in an event: let user lead to it.
 * A grant that is LOST still wants its release_start (which answers LOST), as
 * a lost one wants its snib_release: until then its owner is shut out. Of
 * several handles through which one grant is held (re-entry) each has a STATE of
 * its own, with its `user`, if its first hold was an acquire_start. After a
 * handle's last hold was given back no STATE comes of that any more. */
struct snib_event {
    snib_event_kind kind;
    struct snib_grant grant;
    void *user;
    snib_state state;
    snib_cause cause;
    struct snib_error error;
};

/* Start an acquire or release; every start that returns OK ends in exactly
 * one event from snib_next. *ret_ticket names the attempt for snib_cancel and
 * is the grant's ticket afterwards. The owner must be given (owner 0 makes a
 * new one for this grant). After an error there is no event; what the store
 * says is in the event.
 * Errors of snib_acquire_start: USAGE (options), DEADLOCK (this owner holds a
 * no_reentry lock), LOST (this owner lost the lock), LIMIT (no thread or file
 * descriptor is left), CLOSED, FORKED, NOMEM.
 * Errors of snib_release_start: NOT_HELD, WRONG_OWNER, LIMIT, CLOSED, FORKED,
 * NOMEM. */
SNIB_API SNIB_CHECK snib_err
snib_acquire_start(struct snib_lock *, const struct snib_acquire_options *,
                   void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_release_start(struct snib_lock *,
                                                struct snib_grant, void *user,
                                                struct snib_error *reterr);

/* Give up an acquire_start that has not answered: it ends REFUSED with
 * CANCELLED, when the store has confirmed that nothing of it is left (what it
 * had been granted meanwhile is given back first), or GRANTED (PASSED) when it
 * was faster. If the store does not answer the cancel, the event is CANCELLED
 * after a twentieth of request_ms when the store had said before that it stands
 * in the queue, else UNKNOWN after a fifth, and the cancel goes on in the
 * background (a grant that comes all the same is given back). Does not block;
 * a pull client goes on with snib_process. Unknown tickets do nothing. */
SNIB_API void snib_cancel(struct snib_client *, uint64_t ticket);

/* Readable when there is something for snib_process (pull client) or for
 * snib_next (threaded client). Level-triggered: readable as long as something
 * is left. So with poll, select or plain epoll one event may be taken at a
 * time; with EPOLLET take all (snib_next until it says false). In a pull client
 * call snib_process first, then snib_next until false. The library's; do not
 * read, write or close it. One descriptor, open until snib_client_free. */
SNIB_API int snib_fd(struct snib_client *);

/* Milliseconds until snib_process wants to run; -1: no timer. Pull only;
 * snib_fd covers timers, this is for loops that prefer their own. */
SNIB_API int64_t snib_timeout_ms(struct snib_client *);

/* Do what is due, never block. Errors: USAGE (not a pull client), FORKED. */
SNIB_API SNIB_CHECK snib_err snib_process(struct snib_client *);

/* Take one event; false when there is none: *ret is as it was. */
SNIB_API bool snib_next(struct snib_client *, struct snib_event *ret);

/* -- looking ---------------------------------------------------------------- */

/* Somebody at a lock: a holder or a waiter. Strings are never NULL. */
struct snib_party {
    const char *client_id; /* client id, hexadecimal                          */
    const char *host;
    const char *user;
    const char *program;
    const char *reason;
    int64_t pid; /* 0: not known                                    */
    /* Unix time by this host's clock. Of a holder: when it was granted, by the
     * store's clock: an age of now - since_ms is right though the clocks of
     * other hosts are wrong (a local hand-over is no grant of the store). Of a
     * waiter: when it came, on Redis by its own host's clock. */
    int64_t since_ms;
    int64_t left_ms; /* holder: lease left; waiter: until it counts dead */
    int64_t token;   /* holder                                          */
    snib_kind kind;
    uint32_t permits;
    uint32_t holds; /* as last shown to the store                      */
    bool self;      /* this very client                                */
    /* The owner, a number in its process, 0: not known. A mutex passed on
     * between the threads of a process shows who asked for it first; permits
     * belong to no owner, it is the one that acquired them. Without its highest
     * bit, by which an owner of snib_owner_new() is told from a thread's. */
    uint64_t owner;
    const char *request; /* id of the grant or wait: 32 hexadecimal digits */
    /* Of a waiter: what its owner held when it began to wait, and what was held
     * above it (snib_acquire_options.above): the first 16 digits of those
     * grants' requests, joined by ','; "": nothing known. */
    const char *holding;
    int64_t slot; /* holder of PERMITS: snib_semaphore_slot; else -1      */
};

/* A lock as the store saw it at one moment. */
struct snib_view {
    const char *name; /* raw bytes, NUL-terminated                       */
    size_t name_size;
    int64_t token; /* last token given out, 0: none known             */
    size_t holder_count, waiter_count;
    const struct snib_party *holders;
    const struct snib_party *waiters; /* in the order of their turn         */
    /* Who held until the lease ran out without a release, and left a lock-delay
     * that runs: the lock is closed as if they still held, to all who would not
     * fit beside them. left_ms of each: until its delay is over. closed_ms: of
     * the last; 0: nothing keeps it closed. */
    size_t closed_count;
    const struct snib_party *closed_by;
    int64_t closed_ms;
    /* So many holders more than `holders` shows: who is not found there may
     * hold nevertheless. 0: all are shown. */
    uint32_t holders_more;
};

/* Inspect one lock. A lock that nobody holds or waits for is a view with no
 * holders; it is free when nothing keeps it closed either. Free with
 * snib_view_free.
 * What is shown was so at one instant between the call and its return. On Redis
 * that is said of the first 200 holders and 100 waiters: those behind are asked
 * for by the hundred, up to 1,000 holders (holders_more says how many more
 * there are), and while the queue moves some may be missing or be there
 * twice. A quorum asks its servers one by one: there is no such instant.
 * Errors: USAGE (name, a NULL, a pull client), UNREACHABLE (no connection, or
 * no answer), DENIED, STORE, CORRUPT, CONFIG (the server is none that keeps
 * locks), LIMIT (the answer is too long), CLOSED, FORKED, NOMEM. *ret is NULL
 * on error. */
SNIB_API SNIB_CHECK snib_err snib_inspect(struct snib_client *,
                                          const char *name, size_t name_size,
                                          struct snib_view **ret,
                                          struct snib_error *reterr);
SNIB_API void snib_view_free(struct snib_view *);

/* All locks held, closed or waited for whose name matches the glob (*, ?,
 * [a-z]); NULL: all. Each as snib_inspect shows it, at an instant of its own.
 * *ret is an array of *ret_count views; free with
 * snib_views_free. On Redis this scans (SCAN), it does not block the
 * server, shows 200 holders and 100 waiters of each lock, and leaves out a lock
 * whose records are damaged, which a line of the log says. Errors: those of
 * snib_inspect. */
SNIB_API SNIB_CHECK snib_err snib_list(struct snib_client *, const char *glob,
                                       struct snib_view ***ret,
                                       size_t *ret_count,
                                       struct snib_error *reterr);
SNIB_API void snib_views_free(struct snib_view **, size_t count);

/* Revoke: end the grants of all who hold the lock, at once; who waits is served.
 * The old holder is told (REVOKED), whether its lease is renewed or fixed: at
 * once if its client listens. A client does that once it has waited for some
 * lock, or has held something for a second (on Redis by a subscription: if that
 * was cut, it is told as soon as it is there again), and the client that makes
 * this call asks for its own grants at once. Else it is told at its next
 * renewal, by a third of its lease (of a quorum always so; a fixed lease there
 * at its next call). Until then it believes that it holds: only the fence
 * protects (promise P1 is off for that grant). The next token is higher.
 * A lock that a lock-delay keeps closed is open then.
 * *ret_released (may be NULL): how many holders were ended. reason, with the user and host of
 * this process, is what snib_grant_explain tells the holder, cut to 1 000
 * bytes (Redis) or 250; NULL: "". Errors: those of snib_inspect, UNKNOWN (sent,
 * no answer: it may have been done), never LIMIT (there is no answer to speak
 * of). */
SNIB_API SNIB_CHECK snib_err snib_force_release(
    struct snib_client *, const char *name, size_t name_size,
    const char *reason, uint32_t *ret_released, struct snib_error *reterr);

/* One line of a check-up. remedy is "" when level is OK. */
typedef enum snib_level {
    SNIB_LEVEL_OK,
    SNIB_LEVEL_WARN,
    SNIB_LEVEL_FAIL
} snib_level;
struct snib_finding {
    snib_level level;
    const char *check; /* "clock", "eviction", …                           */
    const char *text;
    const char *remedy;
};

/* Check the store's set-up: reachability, login, latency, clock, eviction
 * policy, persistence, replicas, permissions. Calls tell once a finding, on
 * the calling thread, no lock held. OK even when findings FAIL; an error only
 * when the store could not be asked at all (after telling why). Errors: those
 * of snib_inspect. */
SNIB_API SNIB_CHECK snib_err snib_doctor(
    struct snib_client *, void (*tell)(void *data, const struct snib_finding *),
    void *data, struct snib_error *reterr);

/* -- scoped and declared use ------------------------------------------------ */

/* A block that cannot leak its lock: return, break and goto release it.
 *
 *   SNIB_WITH (s, lock, NULL, &err) { pay(s.grant.token); }
 *
 * The block runs once when the lock was acquired, else not at all (err says
 * why; s is out of scope then). When the lock was lost before the block ended,
 * on whatever way, the release writes LOST and why into err, unless err holds
 * another error by then: so err.code after the block says whether all of it
 * was protected. err may be NULL; else it has to live until the block's end,
 * for those who call the functions themselves until snib_scope_end (where
 * scope.err is what the release answered). A release that was sent and not
 * answered is no loss. Not with longjmp or thread cancellation.
 * Errors of snib_scope_begin: those of snib_acquire. */
struct snib_scope {
    struct snib_lock *lock;
    struct snib_grant grant;
    snib_err err;
    bool live;
    struct snib_error *reterr;
};
SNIB_API struct snib_scope snib_scope_begin(struct snib_lock *,
                                            const struct snib_acquire_options *,
                                            struct snib_error *reterr);
SNIB_API void snib_scope_end(struct snib_scope *);
#define SNIB_WITH(s, lock, opts, err)                                          \
    for (struct snib_scope s __attribute__((cleanup(snib_scope_end))) =        \
             snib_scope_begin(lock, opts, err);                                \
         s.live; snib_scope_end(&s))

/* What a policy does when the lock is not acquired in time. */
typedef enum snib_on_busy {
    SNIB_BUSY_FAIL, /* return the error                                     */
    SNIB_BUSY_RUN,  /* run the body anyway, with a grant of ticket 0        */
    SNIB_BUSY_CALL  /* call busy() in the body's place                      */
} snib_on_busy;

/* Declared once, applied around a function. The lock's name is name ":" and
 * the key with each {field} replaced by its value; "{{" is a brace. */
struct snib_policy {
    size_t size;
    const char *name; /* "pay"; may be NULL: the key alone                */
    const char *key;  /* "order:{order_no}"                               */
    struct snib_lock_options lock;
    int64_t wait_ms;
    snib_on_busy on_busy;
    int (*busy)(void *data, const struct snib_error *);
};

/* Run body under the policy's lock. pairs: field, value, …, NULL. *ret_body
 * is what body (or busy) returned, and is as it was when nothing ran. Returns OK
 * when body or busy ran and the lock was held to the end; LOST when it was lost
 * while body ran, or (as snib_acquire) before; CLOSED when the client was
 * stopped while body ran, or before; else why nothing ran. Errors of the template (a
 * field without a value, a lone brace): USAGE, before anything is sent.
 * pairs, data and policy are borrowed for the call. Errors: those of
 * snib_lock_new and snib_acquire, LOST (body has run), never CANCELLED (nobody
 * else has the handle), TOO_MANY (a policy's lock is a mutex). */
SNIB_API SNIB_CHECK snib_err snib_policy_run(
    struct snib_client *, const struct snib_policy *, const char *const pairs[],
    int (*body)(void *data, struct snib_grant), void *data, int *ret_body,
    struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
