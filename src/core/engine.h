/* core/engine.h — the lock client as a step function.
 *
 * The engine holds everything that a client knows about its locks: local locks
 * (names), claims (what the client asked for or holds at the store) and
 * acquisitions (one owner waiting for a lock, then holding it). The driver
 * tells it what happened and when. What the engine wants done comes out as
 * data: connections in out->touched, requests in out->exec, and acquisitions with
 * news on the told list. It does no I/O, reads no clock, starts no thread and
 * calls nobody back (except log). The driver holds one mutex around every call;
 * `now` never runs backwards.
 *
 * An acquire, a new local lock and a direct request allocate what they need
 * before anything is sent, and fail cleanly. A later step that finds no memory
 * (for a renewal, or for ending a grant) tries again a little later: late,
 * never wrong.
 *
 * Words for ends:
 *   give up    An owner stops waiting: its limit, a cancel, a close. If nobody
 *              else of this client waits for the lock the request is cancelled.
 *   LEAVING    Of an acquisition: it gave up, and the store has not confirmed
 *              yet that nothing of it is left. Of a claim: its RELEASE or
 *              CANCEL, `ending`, is under way; `ender` waits for the answer.
 *   ENDING     An acquisition that was released, until the store has answered.
 *   over       A claim has ended. It begins anew for those that wait, or is
 *              freed.
 *   detach     Leave a grant to the store, for whoever adopts it; public:
 *              snib_grant_abandon.
 *   forget     Nobody takes the answer to this direct request.
 *   unawaited  Nobody waits for the answer to this release.
 *
 * After every call that is given `now`, the driver (1) takes the told
 * acquisitions and direct requests, (2) opens and shuts connections and sends
 * their bytes, (3) executes out->exec if the store is a blocking one, (4) arms
 * its timer for snib__engine_due. */
#ifndef SNIB__ENGINE_H
#define SNIB__ENGINE_H

#include "core/about.h"
#include "core/registry.h"
#include "core/store.h"

struct snib__engine;
struct snib__local_lock;

struct snib__engine_config {
    const struct snib__store_ops *ops; /* this or blocking */
    const struct snib__blocking_ops *blocking;
    const struct snib__url *url; /* borrowed during open */
    struct snib__seed seed;
    /* [2]: be the client with this id; NULL: draw one. Borrowed during open. */
    const uint64_t *client;
    snib_duration request;          /* how long to wait for one answer */
    const struct snib__about *self; /* host, pid, …; copied */
    /* REALTIME − BOOTTIME; only for the "since" that others are shown. */
    int64_t wall_offset_ns;
    bool deadlocks; /* scan for them, and let others see our waits */
    bool login;     /* the program gives the logins */
    bool watch;     /* for another server: out->changed */
    /* Where it writes down, for a witness, what it has at the store; outlives the
     * engine. NULL: nowhere. */
    struct snib__registry *registry;
    void (*log)(void *data, int level, const char *line);
    void *log_data;
};

snib_err snib__engine_open(const struct snib__engine_config *,
                           struct snib__engine **ret,
                           struct snib_error *reterr);
/* Frees everything and tells nobody. NULL allowed. */
void snib__engine_free(struct snib__engine *);

struct snib__out *snib__engine_out(struct snib__engine *);
struct snib__store *snib__engine_store(struct snib__engine *);
/* How the store is, as far as the client knows; no I/O. */
void snib__engine_store_state(const struct snib__engine *, snib_instant now,
                              struct snib__store_state *ret);
/* What is known of a server, as snib__store_ops.server says it. */
bool snib__engine_server(const struct snib__engine *, snib_instant now,
                         uint32_t node, struct snib__server *ret);
/* The tickets of this engine begin with this generation. Before the first
 * acquire. */
void snib__engine_first_ticket(struct snib__engine *, uint32_t generation);
/* The client's id, as the store shows it to others (inspect). */
void snib__engine_client_id(const struct snib__engine *, uint64_t ret[2]);
void snib__engine_input(struct snib__engine *, snib_instant now,
                        const struct snib__input *);
/* Blocking stores: a chain that was executed comes back. */
void snib__engine_executed(struct snib__engine *, snib_instant now,
                           struct snib__list *chain);
/* Does what is due. */
void snib__engine_tick(struct snib__engine *, snib_instant now);
/* The earliest instant at which tick has something to do. */
snib_instant snib__engine_due(const struct snib__engine *);
/* REALTIME jumped against BOOTTIME, or the process stood still: every held
 * grant is at risk until the store confirms it. */
void snib__engine_jumped(struct snib__engine *, snib_instant now);

/* Of a witness, whose engine has the id of a client whose process is over: end
 * what that client has left at the store. Each request is asked about until the
 * store has answered, or nothing of it can be there any more; until then the
 * engine is not idle. What there is no memory for is left to its lease. Returns
 * how many there are. */
uint32_t snib__engine_end_left(struct snib__engine *, snib_instant now,
                               const struct snib__registry *);

/* -- local locks ---------------------------------------------------------- */

/* The local lock of a name, made if there is none; the caller gets one
 * reference. */
snib_err snib__engine_local_lock(struct snib__engine *, const char *name,
                                 size_t size, struct snib__local_lock **ret,
                                 struct snib_error *reterr);
void snib__engine_local_lock_unref(struct snib__engine *,
                                   struct snib__local_lock *);
const struct snib__name *snib__local_lock_name(const struct snib__local_lock *);

/* -- acquisitions --------------------------------------------------------- */

typedef enum snib__acquisition_state {
    SNIB__ACQ_WAITING, /* in the local lock's queue */
    /* Gave up; the store is being asked whether anything of it is left. */
    SNIB__ACQ_LEAVING,
    SNIB__ACQ_SERVED,  /* holds >= 1 */
    SNIB__ACQ_REFUSED, /* err, reterr say why; freed by
                          snib__acquisition_done */
    SNIB__ACQ_ENDING,  /* released; the store's answer is awaited */
    SNIB__ACQ_DEAD,    /* lost; stays until the owner has unwound */
    SNIB__ACQ_GONE     /* err: the outcome of the release; freed by _done */
} snib__acquisition_state;

/* What happened to an acquisition since it was last taken off the told list. */
enum snib__news {
    /* WAITING became SERVED or REFUSED, LEAVING became REFUSED, or either
     * became DEAD (`passes`: it was granted, and the grant is over already). */
    SNIB__NEWS_SETTLED = 1,
    SNIB__NEWS_RELEASED = 2, /* ENDING became GONE: err */
    SNIB__NEWS_STATE = 4,    /* held / at risk / lost has changed */
    SNIB__NEWS_RENEWED = 8   /* the renewal of snib__engine_renew: err */
};

#define SNIB__OWNER_FREE (UINT64_C(1) << 63) /* any thread may release */

/* How an owner asks; plain data, copied. */
struct snib__acquire_spec {
    uint64_t owner;     /* never 0; SNIB__OWNER_FREE set if the caller drew
                           it */
    snib_instant limit; /* give up then; NEVER: no limit */
    snib_duration lease, hold_max; /* hold_max 0: none */
    bool try_only;                 /* do not queue */
    bool timed; /* the engine itself ends the wait at limit */
    bool fixed, aggressive, confirm, no_reentry, no_hand_over, spin;
    /* To have been granted is all that the owner wants (a latch; a BARRIER
     * always): see snib__engine_give_up. */
    bool passes;
    uint16_t keep_ms; /* after the release; 0: not (core/claim_keep.c) */
    snib_kind kind;
    int8_t priority;                 /* in the queue: higher ones first */
    uint32_t permits, capacity;      /* PERMITS; BARRIER: permits = parties */
    snib_duration delay;             /* lock-delay */
    const char *reason;              /* NULL: the client's; copied */
    const struct snib__above *above; /* NULL: none; copied */
    void *user;
    /* Filled when the acquire is refused or its release fails; NULL, or valid
     * until then. */
    struct snib_error *reterr;
};

/* Grants of clients above this process (snib run in snib run) that cannot end
 * before this wait has ended: the first halves of their requests' ids. */
struct snib__above {
    uint32_t count;
    uint64_t id[SNIB__ABOUT_HELD];
};

/* One owner waiting for, then holding, a lock. The driver reads it and writes
 * only the fields marked (d). Valid until snib__acquisition_done or, for a
 * SERVED one, until the call that releases its last hold. The states:
 * core/acquisition.c. */
struct snib__acquisition {
    struct snib__link link;     /* local lock's list `waiting` or `dead` */
    struct snib__link by_owner; /* engine's owners[] */
    struct snib__link nested;   /* engine's nested waits; only while WAITING */
    struct snib__link told;     /* engine's told list */
    struct snib__timer timer;   /* limit, if timed; LEAVING: how long it
                                   stays */
    struct snib__local_lock *local;
    uint64_t ticket, owner;
    int64_t token;
    snib_instant since; /* when it was granted; of a nested wait: when it began
                         */
    struct snib__acquisition_options {
        snib_duration lease, hold_max;
        snib_duration delay;
        uint64_t upgrade_of;        /* ticket of the owner's other grant */
        uint32_t permits, capacity; /* permits: as granted */
        uint32_t slot;              /* of PERMITS, as granted */
        uint8_t kind;               /* snib_kind */
        int8_t priority;
        uint16_t keep_ms;
        bool fixed, aggressive, confirm, no_reentry, no_hand_over, try_only,
            spin;
        bool passes;
    } options;
    snib_instant limit;
    /* nested: when to scan for a deadlock; before it says what its owner holds:
     * when to leave the local queue for that (core/move.c) */
    snib_instant scan_at;
    snib_instant deadlock_at;  /* when that deadlock was first seen */
    uint64_t deadlock_id;      /* the one it was seen in; 0: none */
    char *reason;              /* owned; NULL: the client's */
    char *trouble;             /* owned; NULL: none; see core/explain.c */
    struct snib__above *above; /* owned; NULL: none */
    uint32_t holds;
    uint32_t batch; /* the batch it was tried in; 0: none */
    uint8_t news;   /* SNIB__NEWS_… */
    uint8_t state;  /* snib__acquisition_state */
    uint8_t shown;  /* snib_state, as last told */
    uint8_t cause;  /* snib_cause of a loss or a risk */
    bool unawaited; /* no caller waits for the end of its release */
    bool unsure;    /* LEAVING: it ends as UNKNOWN if nothing more is heard */
    /* WAITING at a claim that is LEAVING: the request which that claim gives up
     * was made for this acquisition too. */
    bool ended;
    bool other_lease; /* SERVED: renewed to another one than it has asked for */
    snib_err err;
    struct snib_error *reterr; /* (d) */
    void *user;                /* (d) */
};

/* Is a blocking store executing the acquire of this acquisition just now? The
 * store ends it by the same limit, within 1 ms, or within 15 ms if it executes
 * other requests besides; later only while a disk hangs or its thread gets no
 * processor. Its answer is the truth, so a caller whose limit has come waits
 * for it, at most snib__engine_run. Across a network a peer that stalls is
 * nothing rare, so there that is no more than the store takes to see the
 * limit. */
#define SNIB__RUN_MS     400
#define SNIB__RUN_FAR_MS 20
bool snib__engine_is_run(struct snib__engine *, uint64_t ticket);
snib_duration snib__engine_run(const struct snib__engine *);

/* OK: *ret is SERVED (re-entry, no I/O), WAITING (news will come) or REFUSED
 * (call snib__acquisition_done). Errors without an acquisition: LOST (the owner
 * lost this lock and has not unwound), DEADLOCK (no_reentry, and the owner
 * holds it), BUSY (a try, and another owner of this client has it), UNSUPPORTED
 * (keep_ms, and the store cannot tell us who waits), LIMIT, NOMEM, CLOSED. */
snib_err snib__engine_acquire(struct snib__engine *, snib_instant now,
                              struct snib__local_lock *,
                              const struct snib__acquire_spec *,
                              struct snib__acquisition **ret,
                              struct snib_error *reterr);
/* All tries between gather and gathered reach the store together: as one step,
 * if the store can do that, in this order, until one is refused. The ones
 * behind it are refused with CANCELLED; `all`: the ones before it too.
 * Nothing else may be asked of the engine in between. A try whose local lock is
 * busy (a release or cancel of this client is under way) cannot join; it is
 * asked for later, alone. */
void snib__engine_gather(struct snib__engine *, bool all);
/* How many tries have joined so far. */
uint32_t snib__engine_batch(const struct snib__engine *);
/* Is nothing asked for this one before a release or cancel of its client is
 * answered? */
bool snib__engine_asks_later(const struct snib__acquisition *);
enum snib__batch_way {
    SNIB__BATCH_GO,
    SNIB__BATCH_PART, /* each one alone */
    SNIB__BATCH_DROP  /* not at all: refused with CANCELLED */
};
void snib__engine_gathered(struct snib__engine *, snib_instant now,
                           enum snib__batch_way);
/* A WAITING acquisition gives up for the cause `why`, at once, and is freed.
 * Returns the outcome to report: why, or UNKNOWN when the store was asked and
 * has not answered. A LEAVING acquisition is freed too; its outcome is the one
 * that it left for, or UNKNOWN. Any other acquisition is left alone, and OK is
 * returned. */
snib_err snib__engine_give_up_now(struct snib__engine *, snib_instant now,
                                  struct snib__acquisition *, snib_err why);
/* A WAITING acquisition gives up; why = TIMEOUT: its limit has come. A caller
 * should hear TIMEOUT, CANCELLED or CLOSED only when the store has confirmed
 * that nothing of the acquisition is left. OK: news SETTLED will come, by the
 * acquisition's timer at the latest. Otherwise it is freed as by
 * snib__engine_give_up_now: nothing is to be confirmed, or the store cannot be
 * reached (which is then the outcome of a TIMEOUT). *ret has the outcome in
 * words. An acquisition with `passes` may hear from the store that it was
 * granted before its end arrived there. It is DEAD then, with the token of that
 * grant: the grant is given back, but the barrier has opened with it. So a
 * party that the store had in its queue is UNKNOWN until the store has
 * answered. */
snib_err snib__engine_give_up(struct snib__engine *, snib_instant now,
                              struct snib__acquisition *, snib_err why,
                              struct snib_error *ret);
/* How long a LEAVING acquisition stays at most, beyond its limit or its cancel:
 * a part of cfg.request. That is far less than the wait for an answer, since
 * the caller has waited already; it is more where UNKNOWN would have to be said
 * afterwards, since that costs the caller more than a moment. */
#define SNIB__CONFIRM_PART 20 /* cfg.request divided by it */
#define SNIB__UNSURE_PART  5
/* Give back one hold of a ticket. owner: the owner of the calling thread. OK
 * with *ret NULL: done. OK with *ret: the acquisition is ENDING, its reterr is
 * `later`, and news RELEASED will come (then call snib__acquisition_done).
 * Errors: NOT_HELD, WRONG_OWNER, LOST, CLOSED (not held, and the engine is
 * closed, which has released it; the same for every call that takes a
 * ticket). */
snib_err snib__engine_release(struct snib__engine *, snib_instant now,
                              uint64_t ticket, uint64_t owner,
                              struct snib_error *later, void *user,
                              struct snib__acquisition **ret,
                              struct snib_error *reterr);
/* Ask for a renewal now, to `lease` if that is > 0. OK: news RENEWED will come
 * on *ret. Errors: NOT_HELD, LOST, CLOSED. */
snib_err snib__engine_renew(struct snib__engine *, snib_instant now,
                            uint64_t ticket, snib_duration lease,
                            struct snib__acquisition **ret,
                            struct snib_error *reterr);
/* -- detached grants ------------------------------------------------------
 *
 * A grant of a fixed lease may outlive its client: the store keeps it until its
 * lease ends, under the client's id, the request's id and the token. A client
 * that is opened with that id can adopt it. */

/* Tells what names the grant of a ticket at the store. Errors: NOT_HELD, LOST,
 * CLOSED; of `fixed`, which is for a grant that is to be detached: USAGE when the
 * lease is renewed, UNSUPPORTED when the store is SNIB__TIED. */
snib_err snib__engine_grant_id(struct snib__engine *, snib_instant now,
                               uint64_t ticket, bool fixed, uint64_t ret_id[2],
                               int64_t *ret_token, struct snib_error *reterr);
/* Detach a grant: forget it with all its holds and tell the store nothing. The
 * acquisition is freed. owner: as for release. Errors: NOT_HELD, WRONG_OWNER,
 * CLOSED, USAGE (not a fixed lease); LOST: it was over; the acquisition is
 * freed all the same. */
snib_err snib__engine_detach_grant(struct snib__engine *, snib_instant now,
                                   uint64_t ticket, uint64_t owner,
                                   struct snib_error *reterr);
/* Adopt a grant of this client id: a renewal to spec->lease must confirm it.
 * OK: *ret is WAITING, and news SETTLED will come: SERVED, or REFUSED with LOST
 * (the store says that the grant is over), UNKNOWN, or why the store could not
 * be asked. The engine never asks for a new grant in its place, and when the
 * adoption is given up it releases and cancels nothing. Errors without an
 * acquisition: BUSY (this client holds the lock, waits for it or gives it back
 * just now), CLOSED, LOST (this owner lost the lock and has not unwound),
 * NOMEM. */
snib_err snib__engine_adopt(struct snib__engine *, snib_instant now,
                            struct snib__local_lock *,
                            const struct snib__acquire_spec *,
                            const uint64_t id[2], int64_t token,
                            struct snib__acquisition **ret,
                            struct snib_error *reterr);
/* The driver does not wait for this acquisition any more (its caller's limit
 * came while it was ENDING): it is freed when the store has answered. */
void snib__engine_stop_awaiting(struct snib__engine *,
                                struct snib__acquisition *);
/* Free a REFUSED or GONE acquisition. */
void snib__acquisition_done(struct snib__engine *, struct snib__acquisition *);

/* The live acquisition of a ticket, or NULL. */
struct snib__acquisition *snib__engine_acquisition(struct snib__engine *,
                                                   uint64_t ticket);
/* Was it given out by this engine, so that its grant is over by now? */
bool snib__engine_gave_ticket(const struct snib__engine *, uint64_t ticket);
/* The local lock of the name that the acquisition is for. */
const struct snib__local_lock *
snib__acquisition_home(const struct snib__acquisition *);
/* Nobody has news: neither of the two below would return any. */
bool snib__engine_told_all(const struct snib__engine *);
/* The next acquisition with news, taken off the told list; its news move to
 * *ret_news. */
struct snib__acquisition *snib__engine_told(struct snib__engine *,
                                            uint8_t *ret_news);
/* The state at this instant: every call compares the clock with the deadline,
 * so a loss is told even if no timer has run. */
void snib__engine_status(struct snib__engine *, snib_instant now,
                         const struct snib__acquisition *,
                         struct snib_status *ret);
/* Why it is at risk or lost, in one line cut to size; else "". */
void snib__engine_explain(struct snib__engine *, snib_instant now,
                          const struct snib__acquisition *, char *ret,
                          size_t size);

/* -- direct requests ------------------------------------------------------ */

/* May this verb change something at the store? One that may and is not answered
 * is UNKNOWN; one that only reads cannot have been applied: UNREACHABLE. */
bool snib__verb_changes(snib__verb, int op);

/* A direct request, which belongs to no claim: INSPECT, LIST, FORCE, DOCTOR,
 * PARAMS, VALUE_…. It is the caller's memory, and must live until it is done or
 * snib__engine_direct_forget was called. */
struct snib__direct {
    struct snib__link told; /* engine's answered direct requests */
    snib__verb verb;
    const char *name; /* raw; NULL: LIST, DOCTOR */
    size_t name_size;
    const char *text; /* glob or reason */
    snib__params_op op;
    int64_t amount; /* of a PARAMS, a RECOVERY */
    /* only for VALUE_… */
    uint64_t id[2]; /* 0: drawn and set here; a repeat brings the same */
    bool resent;    /* set for a repeat */
    int64_t expected;
    int64_t version; /* the answer, as request.token */
    const void *bytes;
    size_t bytes_size;
    snib_duration keep;
    snib_instant born; /* when id was first used; set together with it */
    snib__answer answer;
    snib_instant limit;
    struct snib__buf result; /* rows, base/record.h; freed by caller */
    struct snib_error error;
    snib_err err;
    bool awaited_only;  /* LIST: only locks that are waited for */
    snib_duration took; /* LIST's answer, as request.left */
    bool done;
    void *user;                  /* (d) */
    struct snib__pending *inner; /* the engine's */
};
snib_err snib__engine_direct(struct snib__engine *, snib_instant now,
                             struct snib__direct *);
void snib__engine_direct_forget(struct snib__engine *, struct snib__direct *);
/* Has its limit come before a worker of the store has sent anything of it? Then
 * nothing will be sent; *ret: what kept it. */
bool snib__engine_direct_unsent(const struct snib__engine *, snib_instant now,
                                const struct snib__direct *,
                                struct snib__unsent *ret);
/* By when it is answered: the store of a LIST may have moved the limit. */
snib_instant snib__engine_direct_limit(const struct snib__direct *);
struct snib__direct *snib__engine_told_direct(struct snib__engine *);

/* -- shutting down, counting ---------------------------------------------- */

/* No owner of this client will come any more: what is kept goes back, and
 * nothing that is released from now on is kept. */
void snib__engine_keep_no_more(struct snib__engine *, snib_instant now);
/* End all waiting acquisitions with CLOSED and release everything that is
 * held. */
void snib__engine_close(struct snib__engine *, snib_instant now);
/* The store owes us no answer any more. */
bool snib__engine_idle(const struct snib__engine *);

struct snib__counts {
    uint32_t local_locks, own_claims, claims, acquisitions, waiting, held,
        leaving, requests;
    uint64_t passes, yields, renewals, acquires;
};
void snib__engine_counts(const struct snib__engine *, struct snib__counts *);

#endif
