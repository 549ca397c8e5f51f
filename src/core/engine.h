/* core/engine.h — the lock client as a step function.
 *
 * The engine holds everything a client knows about its locks: local locks (names),
 * turns (the client's own claim at the store), acquisitions (one owner's place). It is
 * told what happened and when; what it wants done is data: bytes in
 * out->chan[].out, requests in out->exec, and acquisitions with news on the told
 * list. No I/O, no clock, no thread, no callback (but log). The caller holds
 * one mutex around every call; `now` never runs backwards.
 *
 * Acquire, local lock and query allocate what they need before anything is sent, and
 * fail cleanly. A step later on that finds no memory (for a renewal, an end)
 * tries again a little later: late, never wrong.
 *
 * After every call that is given `now`, the driver: (1) takes told acquisitions and
 * queries, (2) opens/shuts channels and sends their bytes, (3) executes
 * out->exec if the store is a blocking one, (4) arms its timer for
 * snib__engine_due. */
#ifndef SNIB__ENGINE_H
#define SNIB__ENGINE_H

#include "core/about.h"
#include "core/store.h"

struct snib__engine;
struct snib__local_lock;

struct snib__engine_config {
    const struct snib__store_ops *ops; /* one of these two          */
    const struct snib__blocking_ops *blocking;
    const struct snib__url *url; /* borrowed during open      */
    struct snib__seed seed;
    const uint64_t *client;         /* [2]: be that owner; NULL:
                                                  draw one. Borrowed        */
    snib_duration request;          /* patience for one answer   */
    const struct snib__about *self; /* host, pid, …; copied      */
    int64_t wall_offset_ns;         /* REALTIME − BOOTTIME, only
                                                  for "since" shown to others */
    bool deadlocks;                 /* look for them, and let others see   */
    void (*log)(void *data, int level, const char *line);
    void *log_data;
};

snib_err snib__engine_open(const struct snib__engine_config *,
                           struct snib__engine **ret,
                           struct snib_error *reterr);
/* Frees everything; tells nobody. NULL allowed. */
void snib__engine_free(struct snib__engine *);

struct snib__out *snib__engine_out(struct snib__engine *);
struct snib__store *snib__engine_store(struct snib__engine *);
/* How the store is, as far as is known: no I/O. */
void snib__engine_store_state(const struct snib__engine *, snib_instant now,
                              struct snib__store_state *ret);
/* The client's id, as the store shows it to others (inspect). */
void snib__engine_client_id(const struct snib__engine *, uint64_t ret[2]);
void snib__engine_input(struct snib__engine *, snib_instant now,
                        const struct snib__input *);
/* Blocking stores: an executed chain comes back. */
void snib__engine_executed(struct snib__engine *, snib_instant now,
                           struct snib__list *chain);
/* Do what is due. */
void snib__engine_tick(struct snib__engine *, snib_instant now);
/* Earliest instant at which tick has something to do. */
snib_instant snib__engine_due(const struct snib__engine *);
/* REALTIME jumped against BOOTTIME, or the process stood still: every held
 * grant is at risk until the store confirms it. */
void snib__engine_jumped(struct snib__engine *, snib_instant now);

/* -- local locks ---------------------------------------------------------------- */

/* The local lock of a name, made if new; one reference. */
snib_err snib__engine_local_lock(struct snib__engine *, const char *name,
                                 size_t size, struct snib__local_lock **ret,
                                 struct snib_error *reterr);
void snib__engine_local_lock_unref(struct snib__engine *,
                                   struct snib__local_lock *);
const struct snib__name *snib__local_lock_name(const struct snib__local_lock *);

/* -- acquisitions ---------------------------------------------------------------- */

typedef enum snib__acquisition_state {
    SNIB__ACQ_WAITING, /* in the local lock's queue                            */
    SNIB__ACQ_LEAVING, /* gave up: whether anything of it is left at the
                           store is being asked                           */
    SNIB__ACQ_SERVED,  /* holds >= 1                                     */
    SNIB__ACQ_REFUSED, /* err, reterr; freed by snib__acquisition_done          */
    SNIB__ACQ_ENDING, /* released; the store's answer is awaited        */
    SNIB__ACQ_DEAD,   /* lost; until the owner has unwound               */
    SNIB__ACQ_GONE    /* outcome of the release in err; freed by _done  */
} snib__acquisition_state;

/* What happened to an acquisition since it was last taken from the told list. */
enum snib__news {
    SNIB__NEWS_SETTLED = 1,  /* WAITING became SERVED or REFUSED, or LEAVING
                                became REFUSED, or either became DEAD: had it,
                                and it is over already (what passes)        */
    SNIB__NEWS_RELEASED = 2, /* ENDING became GONE: err                     */
    SNIB__NEWS_STATE = 4,    /* held / at risk / lost changed               */
    SNIB__NEWS_RENEWED = 8   /* a renewal asked by snib__engine_renew: err  */
};

/* How an owner asks; plain data, copied. */
#define SNIB__OWNER_FREE (UINT64_C(1) << 63) /* any thread may release it     */

struct snib__acquire_spec {
    uint64_t owner;     /* never 0; SNIB__OWNER_FREE set if explicit    */
    snib_instant limit; /* give up then; NEVER: no limit               */
    snib_duration lease, hold_max; /* hold_max 0: none                      */
    bool try_only; /* do not queue                                */
    bool timed;    /* the engine itself ends it at limit          */
    bool fixed, aggressive, confirm, no_reentry, no_hand_over, spin;
    bool passes; /* to have been granted is all it wants (a latch; a BARRIER
                    always): see snib__engine_give_up          */
    snib_kind kind;
    int8_t rank;                /* in the queue: higher ones first          */
    uint32_t permits, capacity; /* PERMITS; permits of BARRIER: parties     */
    snib_duration delay;        /* lock-delay                               */
    const char *reason; /* NULL: the client's; copied                  */
    const struct snib__above *above; /* NULL: none; copied                  */
    void *user;
    struct snib_error *reterr; /* filled when it is refused or its release
                                  fails; NULL or valid until then           */
};

/* Grants of clients above this process that cannot end before this wait has:
 * the first halves of their requests' ids. */
struct snib__above {
    uint32_t count;
    uint64_t id[SNIB__ABOUT_HELD];
};

/* One owner's place at a local lock. The driver reads; only the fields marked (d)
 * are the driver's to write. Valid until snib__acquisition_done, or, for a
 * SERVED one, until the call that releases its last hold. */
struct snib__acquisition {
    struct snib__link link; /* local lock's waiting list or dead list         */
    struct snib__link by_owner; /* engine's owners                          */
    struct snib__link nested;   /* engine's nested waits, while WAITING    */
    struct snib__link told;     /* engine's told list                       */
    struct snib__timer timer;   /* limit, if timed; LEAVING: until when     */
    struct snib__local_lock *local;
    uint64_t ticket, owner;
    int64_t token;
    snib_instant since; /* of the grant                             */
    struct snib__acquisition_options {
        snib_duration lease, hold_max;
        snib_duration delay;
        uint64_t upgrade_of;        /* ticket of the owner's other grant   */
        uint32_t permits, capacity; /* permits: as granted                */
        uint32_t slot;              /* of PERMITS, as granted             */
        uint8_t kind;               /* snib_kind                          */
        int8_t rank;
        bool fixed, aggressive, confirm, no_reentry, no_hand_over, try_only,
            spin;
        bool passes;
    } options;
    snib_instant limit;
    snib_instant scan_at;      /* nested: when to look for a cycle         */
    snib_instant marked_at;    /* when it was last seen in one             */
    uint64_t mark;             /* of that one; 0: none seen                */
    char *reason;              /* owned; NULL: the client's                */
    char *trouble;             /* owned; NULL: none, see core/explain.c    */
    struct snib__above *above; /* owned; NULL: none                         */
    uint32_t holds;
    uint32_t batch; /* it was gathered in; 0: none              */
    uint8_t news;   /* SNIB__NEWS_…                             */
    uint8_t state;  /* snib__acquisition_state                         */
    uint8_t shown;  /* snib_state as last told                  */
    uint8_t cause;  /* snib_cause of a loss or risk            */
    bool abandoned; /* nobody waits for the end of its release  */
    bool unsure;    /* LEAVING: UNKNOWN if nothing more is heard */
    bool ended;     /* WAITING at a turn that is LEAVING: the request that
                         it gives up was made for this acquisition, too   */
    snib_err err;
    struct snib_error *reterr; /* (d)                                      */
    void *user;                /* (d)                                      */
};

/* A blocking store runs the acquire of this acquisition just now: it ends by its
 * limit, too, within a millisecond or, where it runs others' besides, 15; later
 * only while a disk hangs or its thread gets no processor. What it says is true
 * (P4), so who comes to its limit waits for it, at most so long. */
#define SNIB__RUN_MS 400
bool snib__engine_is_run(struct snib__engine *, uint64_t ticket);

/* OK: *ret is SERVED (re-entry, no I/O), WAITING (news will come), or REFUSED
 * (take snib__acquisition_done). Errors without an acquisition: LOST (the owner lost this
 * lock and has not unwound), DEADLOCK (no_reentry, and the owner holds it),
 * NOMEM, LIMIT. */
snib_err snib__engine_acquire(struct snib__engine *, snib_instant now,
                              struct snib__local_lock *,
                              const struct snib__acquire_spec *,
                              struct snib__acquisition **ret,
                              struct snib_error *reterr);
/* What is acquired between these two by tries reaches the store together, as
 * one step of it if it can do that: in this order, until one is refused, and
 * those behind it are refused with CANCELLED; all: those before it, too.
 * Nothing else may be asked of the engine in between. One whose local lock is busy
 * (a release or cancel of this client is under way) cannot join: it is asked
 * for later, alone. */
void snib__engine_gather(struct snib__engine *, bool all);
/* How many have joined so far. */
uint32_t snib__engine_batch(const struct snib__engine *);
enum snib__batch_way {
    SNIB__BATCH_GO,
    SNIB__BATCH_PART, /* each for itself                                  */
    SNIB__BATCH_DROP  /* not at all: refused with CANCELLED               */
};
void snib__engine_gathered(struct snib__engine *, snib_instant now,
                           enum snib__batch_way);
/* A WAITING acquisition gives up for reason why, here and now. Returns the outcome to
 * report: why, or UNKNOWN when the store was asked and has not answered. The
 * acquisition is freed. One that is LEAVING: the same, for the reason that it leaves
 * for. Any other acquisition is left alone and OK returned. */
snib_err snib__engine_leave(struct snib__engine *, snib_instant now,
                            struct snib__acquisition *, snib_err why);
/* A WAITING acquisition gives up; TIMEOUT: its limit has come. Of that, CANCELLED and
 * CLOSED the caller is to hear when the store has confirmed that nothing of it
 * is left. OK: news SETTLED come, by the acquisition's timer at the latest. Else as
 * snib__engine_leave: nothing is to be confirmed, or the store is not there;
 * of a TIMEOUT that is the outcome then. *ret says it in words.
 * One that passes, and of which the store says that it was granted before its
 * end came there, is DEAD with the token of that: the grant is given back, but
 * the barrier has opened with it. So a party which the store had in its queue
 * is UNKNOWN until that has answered. */
snib_err snib__engine_give_up(struct snib__engine *, snib_instant now,
                              struct snib__acquisition *, snib_err why,
                              struct snib_error *ret);
/* How long that may take at most, beyond the limit or the cancel: far less than
 * the patience for an answer, since who gives up has waited already. More where
 * UNKNOWN would have to be said after it: that costs the caller more than a
 * moment does. */
#define SNIB__CONFIRM_PART 20 /* of cfg.request */
#define SNIB__UNSURE_PART  5
/* Give back one hold of a ticket. owner: the caller's thread owner.
 * OK with *ret NULL: done. OK with *ret: the acquisition is ENDING, news RELEASED
 * will come (then snib__acquisition_done). reterr in the acquisition is set to `later`.
 * Errors: NOT_HELD, WRONG_OWNER, LOST, CLOSED (not held, and the engine is
 * closed, which has released it; as for all that is asked of a ticket). */
snib_err snib__engine_release(struct snib__engine *, snib_instant now,
                              uint64_t ticket, uint64_t owner,
                              struct snib_error *later, void *user,
                              struct snib__acquisition **ret,
                              struct snib_error *reterr);
/* Ask for a renewal now. OK: news RENEWED will come on *ret. Errors: NOT_HELD,
 * LOST, CLOSED. */
snib_err snib__engine_renew(struct snib__engine *, snib_instant now,
                            uint64_t ticket, snib_duration lease,
                            struct snib__acquisition **ret,
                            struct snib_error *reterr);
/* -- grants left behind ----------------------------------------------------
 *
 * A grant of a fixed lease may outlive its client: the store has it until its
 * lease ends, under the client's id, the request's id and the token. Whoever
 * opens a client with that id can take it up again. */

/* What names the grant of a ticket at the store. Errors: NOT_HELD, LOST, CLOSED,
 * and when `fixed` is asked for, USAGE (its lease is renewed: it is not one to
 * be left behind). */
snib_err snib__engine_grant_id(struct snib__engine *, snib_instant now,
                               uint64_t ticket, bool fixed, uint64_t ret_id[2],
                               int64_t *ret_token, struct snib_error *reterr);
/* Forget a grant, with all its holds, and tell the store nothing. The acquisition is
 * freed. owner: as for release. Errors: NOT_HELD, WRONG_OWNER, CLOSED, USAGE (not
 * a fixed lease); LOST: it was over, the acquisition is freed all the same. */
snib_err snib__engine_abandon_grant(struct snib__engine *, snib_instant now,
                                    uint64_t ticket, uint64_t owner,
                                    struct snib_error *reterr);
/* Take up a grant of this client id: a renewal to ask->lease must confirm it.
 * OK: *ret is WAITING (news SETTLED will come; REFUSED with LOST when the store
 * says that it is over, UNKNOWN, or why the store could not be asked). Never
 * asks for a new grant; given up, nothing is released or cancelled. Errors
 * without an acquisition: BUSY (this client has business of its own at the local lock),
 * CLOSED, LOST (this owner lost the lock and has not unwound), NOMEM. */
snib_err snib__engine_adopt(struct snib__engine *, snib_instant now,
                            struct snib__local_lock *,
                            const struct snib__acquire_spec *,
                            const uint64_t id[2], int64_t token,
                            struct snib__acquisition **ret,
                            struct snib_error *reterr);
/* The driver does not wait for this acquisition any more (its caller's patience
 * ended while ENDING): it is freed when the store has answered. */
void snib__engine_abandon(struct snib__engine *, struct snib__acquisition *);
/* Free a REFUSED or GONE acquisition. */
void snib__acquisition_done(struct snib__engine *, struct snib__acquisition *);

/* Live acquisition of a ticket or NULL. */
struct snib__acquisition *snib__engine_acquisition(struct snib__engine *,
                                                   uint64_t ticket);
/* Next acquisition with news, taken off the list (news is reset into *ret_news). */
struct snib__acquisition *snib__engine_told(struct snib__engine *,
                                            uint8_t *ret_news);
/* State at this instant; compares the clock (P5). */
void snib__engine_status(struct snib__engine *, snib_instant now,
                         const struct snib__acquisition *,
                         struct snib_status *ret);
/* Why it is at risk or lost, in one line, cut to size; else "". */
void snib__engine_explain(struct snib__engine *, snib_instant now,
                          const struct snib__acquisition *, char *ret,
                          size_t size);

/* -- queries --------------------------------------------------------------- */

/* May it change something at the store? One that does and is not answered is
 * UNKNOWN; what only asks cannot have been applied: UNREACHABLE. */
bool snib__verb_changes(snib__verb, int op);

/* INSPECT, LIST, FORCE, DOCTOR, VALUE_…. The caller's memory, alive until done or
 * snib__engine_direct_leave. */
struct snib__direct {
    struct snib__link told; /* engine's answered queries               */
    snib__verb verb;
    const char *name; /* raw; NULL for LIST, DOCTOR              */
    size_t name_size;
    const char *text; /* glob or reason                          */
    snib__params_op op;
    int64_t amount; /* of a TERMS                              */
    /* VALUE_… only */
    uint64_t id[2]; /* 0: drawn and set here; a repeat has the same    */
    bool resent;    /* … and says so                                   */
    int64_t expected;
    int64_t version; /* with the answer: as request.token               */
    const void *bytes;
    size_t bytes_size;
    snib_duration keep;
    snib_instant born; /* of the id; set with it                       */
    snib__answer answer;
    snib_instant limit;
    struct snib__buf result; /* rows, base/record.h; freed by caller    */
    struct snib_error error;
    snib_err err;
    bool awaited_only;  /* LIST: of locks that are waited for            */
    snib_duration took; /* LIST: as request.left                        */
    bool done;
    void *user;                  /* (d)                                     */
    struct snib__pending *inner; /* the engine's                            */
};
snib_err snib__engine_direct(struct snib__engine *, snib_instant now,
                             struct snib__direct *);
void snib__engine_direct_leave(struct snib__engine *, struct snib__direct *);
struct snib__direct *snib__engine_told_direct(struct snib__engine *);

/* -- shutting down, counting ------------------------------------------------ */

/* End all waiting acquisitions with CLOSED and release all that is held. */
void snib__engine_close(struct snib__engine *, snib_instant now);
/* Nothing of ours is awaited from the store any more. */
bool snib__engine_idle(const struct snib__engine *);

struct snib__counts {
    uint32_t local_locks, own_claims, claims, acquisitions, waiting, held,
        leaving, requests;
    uint64_t passes, yields, renewals, asks;
};
void snib__engine_counts(const struct snib__engine *, struct snib__counts *);

#endif
