/* snib.h — distributed locks that hold: the public interface of libsnib.
 *
 * A *lock* is a name in a *store*: a Redis server (redis:), a Redis Cluster
 * (redis+cluster:), a majority of Redis servers (redlock:), a PostgreSQL or
 * MariaDB database (postgres:, mysql:), an etcd cluster (etcd:), a ZooKeeper
 * ensemble (zookeeper:), a RabbitMQ broker (amqp:), a file of this host (file:),
 * or this process alone (memory:). An *owner* acquires the lock and gets a
 * *grant*: the right to the name until a *deadline*. The library
 * renews the grant in the background. Each grant has a fencing *token*: that of
 * an exclusive grant is higher than every earlier one, a reader's or a permit's
 * at least that of the last exclusive grant. When the grant can no longer be
 * kept it is *lost*, and the owner is told by its local deadline.
 *
 *   struct snib_error err;
 *   struct snib_client *client;
 *   struct snib_lock *lock;
 *   struct snib_grant grant;
 *   if (snib_client_open(NULL, &client, &err) ||
 *       snib_lock_new(client, "stock:4711", NULL, &lock, &err) ||
 *       snib_try_for(lock, 500, NULL, &grant, &err)) {
 *       fprintf(stderr, "%s\n", err.text);
 *   } else {
 *       pay(grant.token);
 *       if (snib_release(lock, grant, &err))
 *           undo();
 *   }
 *
 * The rest, by subject: snib/event.h (event loops), snib/inspect.h (who holds
 * and who waits, doctor), snib/policy.h (a lock declared around a function),
 * snib/semaphore.h, snib/latch.h (and barriers), snib/multi.h (several locks as
 * one), snib/elect.h (leaders), snib/value.h (versioned values),
 * snib/optimistic.h (a version column of your own), snib/ring.h (who is
 * responsible for what), snib/deadlock.h, snib/sys.h (for tools), snib/test.h
 * (for your own tests), snib.hpp (C++17).
 *
 * One case is left to the fence. Once the store has lost its data, a client
 * that it has forgotten may still enter late. For up to 5 ms it may also hand
 * tokens that were reserved for it from thread to thread, and for up to a second
 * enter what it kept (snib_lock_options.keep_ms). Those tokens are below the next
 * owner's, so the fence refuses them.
 *
 * Waiting. What may wait is there in three forms. The verb alone waits without
 * a limit (snib_acquire). `try` does not wait (snib_try). `try_for` waits for
 * at most wait_ms (snib_try_for); with wait_ms <= 0 it is a try, so a remainder
 * that was computed never waits for ever. INT64_MAX is no limit.
 *
 * Options. A field that is zero has its default: a struct that is zero but for
 * its size does what NULL does.
 *
 * Growth. Option structs grow from release to release. A library that is newer
 * than the program takes the shorter struct. One that is older takes the longer
 * struct as long as what it does not know is zero, else the call is refused
 * with USAGE. Results that the caller has room for grow, too: their size is an
 * argument (ret_size: give sizeof). A newer library leaves out what does not
 * fit, an older one sets to zero what it does not know. Structs that the
 * library allocates grow at their ends. struct snib_error, snib_grant,
 * snib_scope, snib_store_status, snib_ring_member and snib_value_next never
 * grow. A program that was linked with libsnib.so.N runs with every later
 * library of that N, which has nothing to do with the version. Enumerations
 * grow: treat an error that you do not know by its class, and any other value
 * that you do not know as the worst of its kind.
 *
 * Threads. Every function may be called from any thread. snib_try_for blocks up
 * to wait_ms, connecting and retrying included; a try blocks up to request_ms.
 * At its limit snib_try_for waits until the store has confirmed that nothing of
 * the request is left there. As a rule this is one round trip. It is at most a
 * twentieth of request_ms (100 ms by default), or a fifth (400 ms) where the
 * outcome would be unknown otherwise. snib_release, snib_renew,
 * snib_client_inspect and snib_client_force_release block up to request_ms,
 * snib_client_list longer (snib/inspect.h). A function that blocks is refused (USAGE) in a pull client,
 * whose event loop uses the started forms (snib/event.h). Only snib_client_stop
 * and snib_client_free may block there, unless snib_client_stop_start has had
 * its event.
 *
 * Callbacks run on the client's background thread (in a pull client inside
 * snib_client_process), and no lock of the library is held then. Renewals wait
 * while a callback runs, so keep it short.
 *
 * Processes. After fork() every call in the child answers SNIB_ERR_FORKED
 * before it touches a mutex. snib_client_free in the child gives back memory
 * and file descriptors and says nothing to the store. The child may open a
 * client of its own, whatever the parent's threads were doing:
 *   - file: the child keeps the file in use until it has ended, called exec, or
 *     freed its parent's clients.
 *   - memory: the child has spaces of its own, with none of the parent's locks.
 *
 * The library installs no signal handler, raises no SIGPIPE, prints nothing and
 * never exits. The one exception is a bug: a broken invariant inside fails an
 * assert(), which prints a line on standard error and calls abort(). A lock
 * that goes on with a wrong idea of its holder is worse than none.
 *
 * Ownership. Free what an open or new function returns with its _free function.
 * Strings passed in are copied. The text of an error is in the caller's struct
 * snib_error. That pointer may be NULL everywhere, and the struct needs no
 * initialiser: a function that takes one always writes it, on success with code
 * OK and text "".
 *
 * NULL. Options may be NULL: their defaults. Any other pointer must not be, but
 * where a function's comment allows it.
 *
 * Results. A call writes its result (ret, ret_…) when it returns OK. After an
 * error a pointer to something that would have to be freed is NULL and its
 * count 0, a grant is all zero, a ticket 0 and a text "". Anything else is as
 * it was before the call. A function that does otherwise says so
 * (snib_policy_run, and those of snib/value.h).
 *
 * Time. All public times are integers with their unit in the name. Deadlines
 * are kept on CLOCK_BOOTTIME, which also runs while the machine is
 * suspended. */
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

/* For the compiler: this function is exported; its answer must be looked at. A
 * compiler that does not know GNU's attributes reads the headers without. */
#if defined(__GNUC__)
#define SNIB_API   __attribute__((visibility("default")))
#define SNIB_CHECK __attribute__((warn_unused_result))
#else
#define SNIB_API
#define SNIB_CHECK
#endif

/* Longest lock name in bytes. A name may have any byte values, NUL included
 * (then give name_size). */
#define SNIB_NAME_MAX 512

/* Bounds of a lease. Below 50 ms the allowance for clock rates (1 % + 5 ms) and
 * one round trip leave nothing. Above a day a dead holder would block the lock
 * longer than anybody wants to wait. */
#define SNIB_LEASE_MIN_MS INT64_C(50)
#define SNIB_LEASE_MAX_MS INT64_C(86400000)

/* -- errors ------------------------------------------------------------- */

/* What a call answers: the code (without SNIB_ERR_), its class, the exit status
 * of the command line tool, and its text.
 *
 *   OK           NONE       0  done
 *   BUSY         REFUSED   75  held by another owner
 *   TIMEOUT      REFUSED   75  not acquired within the wait limit
 *   CANCELLED    REFUSED   75  the wait was cancelled
 *   DEADLOCK     REFUSED   75  waiting would close a cycle
 *   LOST         LOST      76  the lease ended before the release
 *   NOT_HELD     USAGE     70  this grant was released before
 *   WRONG_OWNER  USAGE     70  another owner holds this grant
 *   USAGE        USAGE     64  argument or order of calls is wrong
 *   FORKED       USAGE     70  the handle belongs to the parent process
 *   UNKNOWN      UNKNOWN   69  sent, and no answer came
 *   UNREACHABLE  RETRY     69  nothing was applied; store unreachable
 *   DENIED       STORE     77  login or permission refused by the store
 *   STORE        STORE     69  the store refuses to work
 *   CORRUPT      STORE     69  the store holds something that is not ours
 *   UNSUPPORTED  USAGE     78  this store cannot do that
 *   CONFIG       USAGE     78  the set-up is wrong
 *   LIMIT        LIMIT     70  a bound of this client is reached
 *   CLOSED       USAGE     70  the client was closed
 *   NOMEM        LIMIT     70  out of memory
 *   INTERNAL     INTERNAL  70  a bug in snib
 *   TOO_MANY     REFUSED   75  more permits than the semaphore has
 *
 * The classes:
 *
 *   REFUSED  definitely not acquired, nothing of the request is left
 *   LOST     the caller had it, and has it no longer
 *   UNKNOWN  sent, no answer; being cancelled in the background. Only for
 *            calls that change something: a question without an answer
 *            ends in UNREACHABLE
 *   RETRY    definitely not applied; may work later
 *   USAGE    the call or the set-up is wrong
 *   STORE    the server said no
 *   LIMIT    a bound was reached
 *   INTERNAL a bug of the library: any function may say so, none is known to
 *
 * "Errors:" at a function lists what it may answer besides OK. Some lists refer
 * to another function's list; "never" then takes out what cannot happen, with
 * the reason. docs/PROOF.md names the test of each. */
typedef enum snib_err {
    SNIB_ERR_OK,
    SNIB_ERR_BUSY,
    SNIB_ERR_TIMEOUT,
    SNIB_ERR_CANCELLED,
    SNIB_ERR_DEADLOCK,
    SNIB_ERR_LOST,
    SNIB_ERR_NOT_HELD,
    SNIB_ERR_WRONG_OWNER,
    SNIB_ERR_USAGE,
    SNIB_ERR_FORKED,
    SNIB_ERR_UNKNOWN,
    SNIB_ERR_UNREACHABLE,
    SNIB_ERR_DENIED,
    SNIB_ERR_STORE,
    SNIB_ERR_CORRUPT,
    SNIB_ERR_UNSUPPORTED,
    SNIB_ERR_CONFIG,
    SNIB_ERR_LIMIT,
    SNIB_ERR_CLOSED,
    SNIB_ERR_NOMEM,
    SNIB_ERR_INTERNAL,
    SNIB_ERR_TOO_MANY
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

/* Details of a failure, in the caller's memory. text is one NUL-terminated
 * line. It says what was wrong, what was expected and what to do, and never
 * contains a password. */
struct snib_error {
    snib_err code;
    char text[252];
};

/* The name of an error ("BUSY"), its text ("held by another owner") and class.
 * The strings are static. A value outside the enum gives "?" and INTERNAL. */
SNIB_API const char *snib_err_name(snib_err);
SNIB_API const char *snib_err_text(snib_err);
SNIB_API snib_class snib_err_class(snib_err);

/* Version of the library that runs, e.g. "0.1.0". */
SNIB_API const char *snib_version(void);

/* -- words --------------------------------------------------------------- */

/* The kind of a lock says what a grant shares the lock with.
 *
 * A lock is a name with one queue, first come first served. A request that does
 * not fit makes those behind it wait, so neither readers nor writers, nor
 * requests for many permits, starve. One exception: the threads of one client
 * share the client's position in the queue of a mutex. A thread that waits
 * behind another thread of its client may enter before other clients, for at
 * most 5 ms. It may also have to wait behind them until its client is granted
 * the lock again (docs/KINDS.md).
 *
 *   MUTEX, WRITE  with nobody. The two are the same; WRITE says that others
 *                 read.
 *   READ          with other readers (and permits). Each reader has a lease
 *                 of its own: a dead one keeps writers out until that ends.
 *   PERMITS       with readers, and as many permits as the semaphore has
 *                 (snib/semaphore.h). Permits belong to no owner: any thread
 *                 of the client may release them, and an acquire is never a
 *                 re-entry. An exclusive acquire waits even for permits of
 *                 its own owner.
 *   BARRIER       see snib_barrier_wait (snib/latch.h).
 *
 * Re-entry goes by owner. A reader may read again and a writer write again, at
 * no cost. A writer may read as well: it is granted at once. When it then
 * releases the write lock and still reads, the readers that wait come in: a
 * downgrade without a gap. A reader may write as well: it waits for the other
 * readers to go, ahead of everybody in the queue. A second reader that wants to
 * write is refused with DEADLOCK, since each would wait for the other.
 *
 * Tokens. An exclusive grant and a grant of permits have a token of their own,
 * higher than any before. A reader has the token of the last exclusive grant
 * before it. So a resource can tell a reader that outstayed its lease from one
 * that did not. */
typedef enum snib_kind {
    SNIB_KIND_MUTEX,
    SNIB_KIND_READ,
    SNIB_KIND_WRITE,
    SNIB_KIND_PERMITS,
    SNIB_KIND_BARRIER
} snib_kind;

/* Most permits of a semaphore, parties of a barrier, and steps of a latch. */
#define SNIB_PERMITS_MAX 1000000000

/* Bounds of a request's priority in the queue: -100 and 100. */
#define SNIB_PRIORITY_MAX 100

/* The longest time for which a client keeps a released mutex. */
#define SNIB_KEEP_MAX_MS 1000

/* What a grant is now.
 *
 *   HELD      yours; the deadline is ahead.
 *   AT_RISK   still yours; the lease still runs. But a renewal failed, could
 *             not be sent, or was not answered for a sixth of the lease (at
 *             most request_ms), or the machine slept.
 *   LOST      yours no longer: stop. The cause says why; snib_grant_explain
 *             says it in words.
 *   RELEASED  given back, or no grant of this client. */
typedef enum snib_state {
    SNIB_STATE_HELD,
    SNIB_STATE_AT_RISK,
    SNIB_STATE_LOST,
    SNIB_STATE_RELEASED
} snib_state;

typedef enum snib_cause {
    SNIB_CAUSE_NONE,
    SNIB_CAUSE_EXPIRED,     /* a fixed lease ran out; to snib run also: nobody
                               renewed it in time (snib-run(1))               */
    SNIB_CAUSE_STOLEN,      /* the store knows this grant no more: somebody
                             * else has it, or may have had it, or the store
                             * lost its data and nobody asked before the end
                             * (with recovery= that is FORGOTTEN)            */
    SNIB_CAUSE_UNREACHABLE, /* renewals failed until the deadline: the server
                             * was dead, silent, read-only, or refused them */
    SNIB_CAUSE_PAUSED,      /* this process or machine stood still            */
    SNIB_CAUSE_REVOKED,     /* force-released by somebody                     */
    SNIB_CAUSE_HOLD_MAX,    /* hold_max_ms is over                            */
    SNIB_CAUSE_FORGOTTEN    /* the store knows of no holder: it lost its data,
                               or somebody removed the grant there by hand   */
} snib_cause;

/* "held", "at risk", …; and of a cause "expired", …, "" for NONE. The strings
 * are static. */
SNIB_API const char *snib_state_text(snib_state);
SNIB_API const char *snib_cause_text(snib_cause);

struct snib_client; /* one store: connections, a background thread */
struct snib_lock;   /* one name in it; any thread may use it */

/* A grant is a value: copy it, print it, pass it through any language. There is
 * nothing to free. A stale grant is recognised: a second release is an error,
 * not a crash. token is the fencing token: pass it to the resource that the
 * lock protects (docs/FENCING.md). A ticket of 0 is no grant. */
struct snib_grant {
    uint64_t ticket;
    int64_t token;
};

/* What snib_grant_status fills in. left_ms is the time until the local
 * deadline, 0 when it has passed. held_ms counts since the grant. holds is the
 * re-entry count. */
struct snib_status {
    snib_state state;
    snib_cause cause;
    int64_t token;
    int64_t left_ms;
    int64_t held_ms;
    uint32_t holds;
    snib_kind kind;
    uint32_t permits; /* PERMITS: how many were given; else 0 */
    int64_t slot;     /* PERMITS: snib_semaphore_slot; else -1 */
};

/* -- client --------------------------------------------------------------- */

#define SNIB_LOG_ERROR 0
#define SNIB_LOG_WARN  1
#define SNIB_LOG_INFO  2
#define SNIB_LOG_DEBUG 3

/* A login that the program gives (snib_client_options.login): the question, and
 * room for the answer. The struct is the library's, and may grow at its end. It
 * is overwritten with zeros when the answer has been taken; what the program
 * itself keeps of a password is its own to wipe. */
struct snib_login {
    /* Whose login is wanted: "HOST:PORT", "[V6]:PORT", or the path of a Unix
     * socket; of a quorum, one of its servers. host is the same without port
     * and brackets, "" for a socket; then port is 0. */
    const char *address;
    const char *host;
    uint16_t port;
    /* The server has just refused what this function gave for it, or no longer
     * takes it as valid: give no copy that was kept, fetch another. */
    bool refused;
    /* The answer, empty at first. How long it is good, from now on, in ms; 0:
     * for ever. */
    int64_t valid_ms;
    char user[256];      /* "": the server's default user                    */
    char password[8192]; /* "" with user "": without a login                 */
    char text[200];      /* why there is none: one line, no secrets          */
};

struct snib_client_options {
    size_t size; /* sizeof this struct; see SNIB_INIT               */
    /* NULL: the environment's SNIB_URL, and without that the default file. This
     * file is one user's, or a group's (docs/FILE.md). */
    const char *url;
    const char *program; /* shown to others; NULL: the process' name        */
    const char *reason;  /* shown to others, 128 bytes at most; may be NULL */
    /* NULL: a fresh random client id. Else 32 hexadecimal digits from
     * snib_grant_identity: this client *is* that owner, and can adopt what it
     * abandoned. The store takes two live clients of one identity for one
     * client, so use this only for grants that were abandoned. */
    const char *identity;
    bool pull; /* no background thread: see snib_client_process */
    /* The holder may outlive this process (the command of `snib run` may). So
     * no other client may take its locks over merely because this process is
     * gone. */
    bool leashed;
    int64_t request_ms; /* limit for one answer; 0: 2 000 */
    /* Called with one line, without a newline: from any thread, with no lock
     * held, also during a stop or a free. It must not call stop or free. */
    void (*log)(void *data, int level, const char *line);
    void *data; /* passed to log                                   */
    /* Do not look for deadlocks (snib/deadlock.h), and do not show others what
     * the waiting owners of this client hold. Nobody finds circles through this
     * client then. */
    bool no_deadlock_check;
    /* Gives user and password, in place of those in the URL (both: USAGE); for
     * passwords that change, and tokens that are short-lived. It is called
     * whenever a connection logs in: at most three for each server and one more
     * where the URL lists several, and again when a connection is lost, or four
     * fifths of the time that it gave are over. The connection then logs in
     * anew without a break; what is held or waited for goes on. A store that
     * takes no login never calls it.
     *
     * It runs on a thread of the library's, with all signals blocked and no
     * lock held, and never twice at a time for one client. It may block for as
     * long as it takes: the calls that wait for it keep their limits. Of this
     * client it may call what does no I/O, and close; a stop does no more than
     * close there, and free must not be called. stop and free, called
     * elsewhere, wait for it: give it a limit of its own. Afterwards it is not
     * called any more.
     *
     * It answers OK; DENIED, which is told at once, like a refused login, and
     * asked again after 5 s at the earliest; or any other error, which is told
     * as UNREACHABLE, with its text: like a server that is not there it is
     * tried again after 20 ms, doubling to 1 s, until the limits of those who
     * wait. When the server refuses the login the function is asked once more,
     * with `refused` set, before anybody is told DENIED. */
    snib_err (*login)(void *data, struct snib_login *);
    void *login_data; /* passed to login */
    /* Tell by SNIB_EVENT_STORE_CHANGED (snib/event.h) when another server
     * answers than before. Redis: costs one command more (INFO) each time a
     * connection is made. */
    bool store_events;
    /* What this client holds, or waits for, is ended at once when this process
     * is killed, and not when its leases are over: a crash then costs
     * milliseconds. For that a small process is started next to this one, the
     * *witness* (snib-witness), which the kernel tells of this process's end, by
     * a pidfd; with all its threads, and not by an exec. snib_client_open waits
     * until it is there, some milliseconds, at most 10 s. It ends with the
     * client, is nobody's child, and connects to the store only then. A program
     * that ends without snib_client_free is released likewise.
     *
     * Everything else is as without it. What the witness cannot know ends by its
     * lease: that the host died, the container, or the network; so does what was
     * held when the witness itself was killed (snib_client_witness), and what was
     * held when the program called exec, unless what it became ends before. What
     * outlives this process is left alone: a grant of a fixed lease, which may be
     * one to be abandoned, and one with a lock-delay. So `leashed` together with
     * it is refused (USAGE).
     *
     * Do not set it if somebody else than this process works under its locks: a
     * child, or a server that was asked to do something. I/O of this process
     * that is under way when it dies may arrive behind the next owner's, as it
     * may when a lease is over: that is what the fencing token is for.
     *
     * For redis: and redlock:, with Sentinel, TLS and a login of the URL's.
     * file:, memory: need none: the kernel tells the next one itself. Others:
     * UNSUPPORTED; so with `login`, a function that would be gone. */
    bool witness;
    /* The witness's program. NULL: the one that was installed with libsnib.so,
     * wherever that is; where it is not there, or the library is linked into the
     * program, at the place for which the library was built. */
    const char *witness_program;
};

/* Initialiser for option structs, in C only. In C++ value-initialise the struct
 * and set .size. */
#define SNIB_INIT(type)                                                        \
    {                                                                          \
        .size = sizeof(struct type)                                            \
    }

/* Open a client. This parses the URL and allocates memory; the client connects
 * on first use (a lock file is opened here). options may be NULL. *ret is
 * NULL after an error.
 *
 * Errors: USAGE, CONFIG, STORE, UNSUPPORTED, LIMIT, NOMEM.
 *
 *   USAGE        the URL or an option is wrong, or there are two logins; or
 *                `witness` and `leashed`
 *   CONFIG       the file is not usable, or is on a network file system; or a
 *                file that the URL names for TLS is missing or unfit; or the URL
 *                names the store sqlite:, in whose place there is file:; or the
 *                witness's program is missing, or of another release
 *   STORE        a lock file that may be usable later: another process makes it
 *                and does not end, or the disk is full or fails; or the default
 *                file became another one just then
 *   UNSUPPORTED  the URL's scheme is not built in, or TLS is not; or there is no
 *                witness for this store or login, on this kernel, or where
 *                children begin in another PID namespace
 *   LIMIT        no file descriptor is left, or too little address space, or
 *                (with `witness`) files may not have 40 MB; the text says which
 *                limit */
SNIB_API SNIB_CHECK snib_err
snib_client_open(const struct snib_client_options *options,
                 struct snib_client **ret, struct snib_error *reterr);

/* Shut down, in three steps: close, stop, free.
 *
 * close refuses new calls and does not block. It ends waiting acquires, and
 * those that were started, with CLOSED. Each ends as soon as the store has
 * confirmed that nothing of it is left, as with snib_client_cancel, and UNKNOWN
 * is possible as there. Other calls and operations that wait for an answer end
 * at once: with CLOSED those that only read, with UNKNOWN a change (a put, a
 * forced release). Releases and renewals go on until stop. Events can be taken
 * until free.
 *
 * stop releases what is held and joins the threads. Each release takes up to
 * request_ms; when the store does not answer, all of them together do. With a
 * quorum stop takes up to 250 ms more, until each server that is well has been
 * told. So it does where a vendor's library talks to the server (postgres:,
 * mysql:), if a call inside it does not come back: then stop leaves the thread
 * of that call behind, with what the call uses, and the thread frees that when
 * the call returns. A second thread that calls stop returns when the first is
 * through.
 * An event loop uses snib_client_stop_start (snib/event.h).
 *
 * free gives everything back, and does the first two steps if they were not
 * done. No other thread may use the client during free. Free the handles of
 * locks first: snib_lock_free after it reads freed memory.
 *
 * NULL is allowed for all three. */
SNIB_API void snib_client_close(struct snib_client *);
SNIB_API void snib_client_stop(struct snib_client *);
SNIB_API void snib_client_free(struct snib_client *);

/* The URL in use, without its password. The string lives as long as the
 * client. */
SNIB_API const char *snib_client_url(const struct snib_client *);

/* The state of the store, as far as this client knows it from its latest
 * requests. Nothing is sent to find out.
 *
 * reachable: the store answers and works (file:, memory: it did so last). Not
 * reachable with error OK: nothing is known yet, because nothing was ever asked
 * or the first answer is awaited. Not reachable with another error: error says
 * why, and text says it in one line without the store's address ("connection
 * refused"):
 *   UNREACHABLE  no connection, or no answer within request_ms
 *   DENIED       the login is refused
 *   STORE        it is there and does not work now: loading, busy, read-only,
 *                out of memory
 *   CONFIG       it is not what the URL says
 *   LIMIT        this process has no descriptor left for a connection
 *
 * A client that holds and wants nothing does not notice what becomes of the
 * store. A quorum is reachable when a majority of its servers is, a cluster when
 * each is on which something is held or asked for; the text may then name a
 * server that is missing. */
struct snib_store_status {
    bool reachable;
    snib_err error;
    int64_t for_ms; /* how long this has been so */
    /* Servers of a quorum; of a cluster those that serve slots, and of these the
     * ones that answer (one that was not asked yet is none); else 1. */
    uint32_t nodes, nodes_reachable;
    char text[252]; /* one line, no password; "": nothing to say */
};

/* Has this client a witness (snib_client_options.witness)? When it has
 * ended before the client, one line is logged (WARN) as soon as the background
 * thread runs, and what is held goes on, by its leases. Any thread, any time
 * before snib_client_free; in a forked child NONE.
 *
 *   NONE      none was asked for
 *   NEEDLESS  the store needs none
 *   WATCHES   it is there
 *   ENDED     it was killed: a crash of this process now costs the leases */
typedef enum snib_witness {
    SNIB_WITNESS_NONE,
    SNIB_WITNESS_NEEDLESS,
    SNIB_WITNESS_WATCHES,
    SNIB_WITNESS_ENDED
} snib_witness;
SNIB_API snib_witness snib_client_witness(struct snib_client *);

/* The state of the store. Any thread, any time before snib_client_free. No I/O
 * is done or waited for. In a forked child the answer is: not reachable,
 * FORKED. */
SNIB_API void snib_client_store_status(struct snib_client *,
                                       struct snib_store_status *ret);

/* The client's id as others see it (snib_party.client_id). The string lives as
 * long as the client. */
SNIB_API const char *snib_client_id(const struct snib_client *);

/* -- locks ---------------------------------------------------------------- */

struct snib_lock_options {
    size_t size;
    size_t name_size; /* bytes in name; 0: strlen */
    snib_kind kind;
    /* PERMITS: how many an acquire takes, 0: 1. BARRIER: the number of parties.
     * Other kinds: 0. */
    uint32_t permits;
    /* PERMITS: the semaphore's size if the store knows none yet; 0: the store
     * must know one. A size that the store knows counts, whatever stands
     * here. */
    uint32_t capacity;
    /* 0: 30 000. On Redis a mutex that was free when it was asked for has 9.9 s
     * of it until its first renewal, after a second. */
    int64_t lease_ms;
    int64_t hold_max_ms; /* then lost (HOLD_MAX); 0: no limit */
    /* The library does not renew the grant; snib_renew may. It ends by its time
     * or by a release, not with its process, on any store: see "detached
     * grants". */
    bool fixed_lease;
    /* After the deadline the grant goes on until the store says no. This
     * switches exclusion (promise P1) off. */
    bool aggressive;
    /* Confirm a grant that the store pushed (after another's release) by a
     * round trip before the caller gets it. */
    bool confirm;
    /* Refuse a second acquire by the same owner (DEADLOCK) instead of counting
     * it. */
    bool no_reentry;
    /* Redis: ask again and again (after 10 ms, doubling to 500 ms, with jitter)
     * instead of standing in the queue. This is for servers without
     * publish/subscribe. Such a request is served only when nobody stands in
     * the queue, and in no order. The URL's ?wait=spin says the same for all
     * locks. */
    bool spin;
    /* Do not hand the lock over between the threads of this process. */
    bool no_local_hand_over;
    /* When a grant ends without a release (its owner died or lost it), the lock
     * stays closed for so long: time for what that owner sent to arrive. 0:
     * none. At most a day. */
    int64_t lock_delay_ms;
    /* In the queue: -100 … 100, higher ones first, 0: ordinary. The head of the
     * queue is never overtaken by one of equal priority. Low ones wait for ever
     * while high ones keep arriving. The owners of one client go by priority,
     * too. The position of their client among others is that of the owner that
     * asked first. */
    int priority;
    /* Called once for each change of a grant's state (at risk, held again,
     * lost). It runs on the background thread, or in snib_client_process, with
     * no lock held. Several handles may hold one grant (re-entry): each is told
     * of the changes since it has held the grant, one after another, in no
     * fixed order.
     *
     * It may call anything but snib_client_stop and snib_client_free: a stop
     * would wait for the thread that it runs on. (stop does no more than close
     * there.)
     *
     * After the handle's last hold is given back nothing more is told: the
     * caller of snib_release has heard of a loss by SNIB_ERR_LOST. But a
     * callback that was on its way may still run when snib_release has
     * returned. Only snib_lock_free waits for it (unless called from it). So
     * free data after snib_lock_free, not after snib_release. */
    void (*on_change)(void *data, struct snib_grant, snib_state, snib_cause);
    void *data;
    /* Keep a released mutex for up to so long, for the next owner of this
     * client: 0 (none) to SNIB_KEEP_MAX_MS. It suits a process that takes the
     * same lock again and again while hardly anybody else wants it. Then 31 of
     * 32 sections cost no round trip.
     *
     * The release returns OK at once. To this client the lock is free then. To
     * others it is free when it was given back: when somebody asks for it, of
     * which the store tells this client (one message; a lost one costs up to
     * 1.5 s), when the time is over, a second after it was granted, and when
     * this client is closed. A try of another client asks again for up to 13 ms
     * and three round trips, and is BUSY otherwise. Once told, this client
     * enters no more before the one that waits. A try does not wait: it leaves
     * no position, so a client that comes back within milliseconds has the lock
     * again before the try asks again. Most tries of such a lock are BUSY then,
     * though nobody is inside for most of the time: who needs it should wait,
     * if only for milliseconds (snib_try_for).
     *
     * What it may cost. A process that is killed, or ends without
     * snib_client_stop, while it keeps the lock, leaves it to the others when
     * its lease is over, as if it had died while it held: choose lease_ms by
     * that. (With snib_client_options.witness they have it at once.) Who asks
     * while it is kept waits for a round trip of this client. Its background
     * thread gives the lock back, so neither that nor the time is a bound while
     * a callback runs there; nor, with a pull client, while it does not call
     * snib_client_process. All clients of such a lock should be of this release
     * and may publish: the tries of others ask nobody, and may find the lock
     * busy for as long as this client comes back to it. `snib status` shows
     * that a holder may merely keep the lock; whose it is, since when and for
     * which reason is said of the owner that was granted it, not of those that
     * entered since. Each acquire has a token of its own, higher than the one
     * before, but for what is said above of a store that has lost its data: a
     * forced release that this client has not heard of yet is like that.
     *
     * Redis (one server, or several of which one is the primary) and memory:;
     * on other stores the acquire is refused (UNSUPPORTED). It is kept only
     * while the client hears of others: the first acquire of such a lock opens
     * the way, and a round trip or two later it is there. Nor is it kept after
     * it had to queue. Not with fixed_lease, aggressive, spin,
     * no_local_hand_over or lock_delay_ms (USAGE). */
    int64_t keep_ms;
};

/* Make a handle for one name. It is cheap, does no I/O, and any thread may use
 * it. Several handles for one name in one client share the grant and the
 * position in the queue; each has its own options. If the store cannot do what
 * they ask for, the acquire says so. Errors: USAGE (empty or too long name,
 * lease out of bounds), NOMEM, CLOSED, FORKED. */
SNIB_API SNIB_CHECK snib_err snib_lock_new(struct snib_client *,
                                           const char *name,
                                           const struct snib_lock_options *,
                                           struct snib_lock **ret,
                                           struct snib_error *reterr);

/* Free the handle, before its client. What is still held through it is released
 * in the background. NULL is allowed. The call waits for an on_change of the
 * handle that runs. When it has returned, none runs or will run, and data may
 * be freed (called from on_change itself: when that has returned). */
SNIB_API void snib_lock_free(struct snib_lock *);

struct snib_acquire_options {
    size_t size;
    uint64_t owner;     /* 0: the calling thread; else of snib_owner_new */
    const char *reason; /* as in the client's options; NULL: that one       */
    uint32_t permits;   /* PERMITS; 0: as the lock's options say */
    /* PERMITS: take all that are available, at least one. Only for a try. */
    bool all_permits;
    /* For the search of deadlocks (snib/deadlock.h): grants of other clients,
     * in processes above this one, that cannot end before this acquire has
     * ended. Their ids are those of snib_grant_request, the first 16 digits or
     * all 32, joined by ','. At most 8; NULL: none. Name only what is surely
     * so, else somebody is refused who need not be. A try does not use it. */
    const char *above;
};

/* Acquire the lock. snib_acquire waits without a limit. snib_try tries once,
 * with one attempt to connect. snib_try_for waits for at most wait_ms, for the
 * store as for the lock: a store that is not there is waited for until then;
 * wait_ms <= 0 is a try. What waiting cannot mend ends each of them at once: a
 * host name that does not exist (if the store was never reached), a refused
 * login, a store of another kind.
 *
 * options may be NULL. *ret is the grant, and all zero after an error. An owner
 * that holds the lock already gets it again at once, with the same token
 * (re-entry). Each acquire needs a release of its own.
 *
 * Errors of snib_acquire: CANCELLED, LOST, DEADLOCK, TOO_MANY, USAGE, CONFIG,
 * UNSUPPORTED, LIMIT, UNKNOWN, UNREACHABLE, DENIED, STORE, CORRUPT, CLOSED,
 * FORKED, NOMEM. Errors of snib_try: BUSY, and those of snib_acquire, never
 * CANCELLED (it does not wait). Errors of snib_try_for: BUSY (wait_ms <= 0),
 * TIMEOUT, and those of snib_acquire.
 *
 *   BUSY         a try, and it is not free
 *   TIMEOUT      it did not become free in time. This is said of a lock,
 *                never of a store that is gone
 *   CANCELLED    the handle was freed during the wait
 *   LOST         this owner lost the lock and has not given back all holds
 *   DEADLOCK     a second reader that wants to write; a second acquire of a
 *                no_reentry lock; a circle (snib/deadlock.h)
 *   TOO_MANY     more permits than the semaphore has in the store, also when
 *                it was made smaller during the wait: at once, whatever
 *                the limit, since no wait would end it
 *   USAGE        an option is wrong; or a pull client
 *   CONFIG       a semaphore without a size; a server that keeps no locks, or
 *                locks of another layout, from another release
 *   UNSUPPORTED  what this store does not have: a kind, a lock-delay, a
 *                priority, keep_ms, an upgrade (docs/KINDS.md has a table)
 *   LIMIT        no thread or file descriptor is left; too many holds of one
 *                grant
 *   UNKNOWN      the limit passed without an answer (or the client was
 *                closed), and the cancel was not answered within a fifth of
 *                request_ms either. The cancel goes on in the background
 *   UNREACHABLE  until the limit: no connection, no answer, or a replica; the
 *                text has the cause. A request that stood in the queue may
 *                still stand there: it is being cancelled in the background
 *
 * After TIMEOUT, CANCELLED and CLOSED nothing of this acquire is left at the
 * store, and nobody who inspects the lock finds it in the queue. One exception:
 * the store had said that the request stands in the queue, and then did not
 * answer the cancel within a twentieth of request_ms. Then the request leaves
 * the queue in the background, and a grant that comes all the same is given
 * back. On a store that is gone it ends with the alive window, 3 s. */
SNIB_API SNIB_CHECK snib_err snib_acquire(struct snib_lock *,
                                          const struct snib_acquire_options *,
                                          struct snib_grant *ret,
                                          struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_try(struct snib_lock *,
                                      const struct snib_acquire_options *,
                                      struct snib_grant *ret,
                                      struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_try_for(struct snib_lock *, int64_t wait_ms,
                                          const struct snib_acquire_options *,
                                          struct snib_grant *ret,
                                          struct snib_error *reterr);

/* Give back one hold. lock is any handle of the grant's client for the grant's
 * name; this goes for each function that takes a lock and a grant.
 *
 * Errors: LOST, NOT_HELD, WRONG_OWNER, UNKNOWN, USAGE, CLOSED, FORKED.
 *
 *   LOST         the grant had ended before, by its lease or by force, or the
 *                store had forgotten it, whether this client had heard of it or
 *                not: somebody else may have worked meanwhile. The text tells
 *                of a force that the client had not heard of ("revoked by anna
 *                on ci-7: bad release")
 *   NOT_HELD     it was released before, or is a grant of another client
 *   WRONG_OWNER  the grant belongs to another thread: release it there, or
 *                acquire with an explicit owner
 *   UNKNOWN      no answer within request_ms, or the store refused to work.
 *                The release is repeated in the background until the lease
 *                ends
 *   USAGE        a pull client; the grant is of another lock (it stays as it
 *                is)
 *   CLOSED       after or during snib_client_stop, which has released it
 *
 * After LOST the owner is free again once all its holds are given back. A
 * release behind which another owner of this client waits for the lock does not
 * wait for the store (it hands the lock on, or gives it back and queues again
 * in one step): it tells of a forced release only if the client has heard of it
 * by then. */
SNIB_API snib_err snib_release(struct snib_lock *, struct snib_grant,
                               struct snib_error *reterr);

/* Renew the grant now, to lease_ms from now (0: the lock's lease). This never
 * shortens it. Blocks up to request_ms. Errors: LOST, NOT_HELD, UNKNOWN,
 * UNREACHABLE, DENIED, STORE, CORRUPT, CONFIG, USAGE (lease out of bounds; a
 * pull client; a grant of another lock), CLOSED (as snib_release), FORKED,
 * NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_renew(struct snib_lock *, struct snib_grant,
                                        int64_t lease_ms,
                                        struct snib_error *reterr);

/* What the grant is at this instant. This compares the clock and does no I/O. A
 * stale grant, one of another lock, and any grant in a forked child, is
 * RELEASED, with its own token, slot -1, and 0 in all else. */
SNIB_API void snib_grant_status(struct snib_lock *, struct snib_grant,
                                struct snib_status *ret, size_t ret_size);

/* Size of the text of snib_grant_explain, NUL included. */
#define SNIB_EXPLAIN_TEXT 512

/* Why the grant is at risk or lost. The text is one line for a log or a person,
 * without a full stop:
 *
 *   at risk  what the last renewal failed with:
 *            "no connection to db:6379: Connection refused"
 *   lost     the cause's word and what is known of it:
 *            "unreachable: no connection to db:6379: Connection refused"
 *            "revoked by anna on ci-7: release 4.2 is bad"
 *            "expired: the lease was fixed, and is over"
 *
 * It is "" while the grant is held, and when the grant is stale or of another
 * lock. A lost grant is stale once its last hold is given back, so ask before
 * the release. Programs should compare snib_status.cause: the words may change.
 * The text contains what other people wrote (a reason, a server's error); in it
 * only controls below 0x20 and DEL are replaced by '?'. It is cut to size and
 * ends in NUL unless size is 0. SNIB_EXPLAIN_TEXT is enough for all but long
 * reasons. Any thread; no I/O; may be called from on_change. */
SNIB_API void snib_grant_explain(struct snib_lock *, struct snib_grant,
                                 char *ret_text, size_t size);

/* True while the grant is held or at risk with its deadline ahead. */
SNIB_API bool snib_grant_held(struct snib_lock *, struct snib_grant);

/* A file descriptor (eventfd) that becomes readable when the grant is lost or
 * released. It belongs to the library: do not close or read it. -1 with errno
 * ENOENT for a stale grant or one of another lock, EMFILE or ENOMEM when none
 * can be made. */
SNIB_API int snib_grant_fd(struct snib_lock *, struct snib_grant);

/* Draw an owner, for coroutines and for grants that move between threads. It is
 * never 0 and never used again. */
SNIB_API uint64_t snib_owner_new(void);

/* -- scoped use ------------------------------------------------------------ */

/* A block that cannot leak its lock: return, break and goto release it.
 *
 *   SNIB_WITH (s, lock, NULL, &err) { pay(s.grant.token); }
 *   SNIB_WITH_TRY_FOR (s, lock, 500, NULL, &err) { pay(s.grant.token); }
 *
 * SNIB_WITH waits without a limit, SNIB_WITH_TRY does not wait,
 * SNIB_WITH_TRY_FOR waits for at most wait_ms.
 *
 * The block runs once when the lock was acquired, else not at all (err says
 * why; s is out of scope then). When the lock was lost before the block ended,
 * in whatever way it ended, the release writes LOST and the cause into err,
 * unless err holds another error by then. So err.code after the block says
 * whether all of it was protected. A release that was sent and not answered is
 * no loss.
 *
 * A compiler that does not know GNU's attributes has the functions without the
 * macros.
 *
 * err may be NULL. Else it has to live until the block's end, or until
 * snib_scope_end if you call the functions yourself; scope.err is then what the
 * release answered. Do not use it with longjmp or thread cancellation. Errors
 * of snib_scope_begin: those of snib_acquire. Errors of snib_scope_try: those
 * of snib_try. Errors of snib_scope_try_for: those of snib_try_for. */
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
SNIB_API struct snib_scope snib_scope_try(struct snib_lock *,
                                          const struct snib_acquire_options *,
                                          struct snib_error *reterr);
SNIB_API struct snib_scope
snib_scope_try_for(struct snib_lock *, int64_t wait_ms,
                   const struct snib_acquire_options *,
                   struct snib_error *reterr);
SNIB_API void snib_scope_end(struct snib_scope *);
#if defined(__GNUC__)
#define SNIB_WITH_(s, begin)                                                   \
    for (struct snib_scope s __attribute__((cleanup(snib_scope_end))) = begin; \
         s.live; snib_scope_end(&s))
#define SNIB_WITH(s, lock, opts, err)                                          \
    SNIB_WITH_ (s, snib_scope_begin(lock, opts, err))
#define SNIB_WITH_TRY(s, lock, opts, err)                                      \
    SNIB_WITH_ (s, snib_scope_try(lock, opts, err))
#define SNIB_WITH_TRY_FOR(s, lock, wait_ms, opts, err)                         \
    SNIB_WITH_ (s, snib_scope_try_for(lock, wait_ms, opts, err))
#endif

#ifdef __cplusplus
}
#endif
#endif
