/* core/engine_i.h — what the engine is made of; core/ only.
 *
 *   local lock   a name in this client: waiting acquisitions (by rank, then as they came),
 *          dead acquisitions, one turn
 *   turn   the client's business at the store for that name
 *   own claim  a local lock of one acquisition, which asks the store by a turn of its own, beside
 *          the one that all exclusive owners share: each reader, each lot of
 *          permits, each party of a barrier, an owner that writes beside its own
 *          read grant, a nested wait
 *   acquisition   one owner's place (engine.h)
 *   pending request  a request under way; lives apart from the turn, so that a held
 *            lock that is not talking costs no request, and a turn can end
 *            while an answer is still due (the pending request is orphaned then)
 */
#ifndef SNIB__ENGINE_I_H
#define SNIB__ENGINE_I_H

#include "core/engine.h"

enum {
    SNIB__RESERVE = 31,         /* local passes a grant reserves (H21)        */
    SNIB__HAND_OVER_MS = 5,     /* longest local turn (P7)                    */
    SNIB__NOT_AFTER_MS = 10000, /* an acquire is never executed later (P4)  */
    SNIB__RETRY_MS = 100,       /* pause after "not applied"                  */
    SNIB__LISTEN_MS = 1000,     /* who holds for so long listens for hints    */
    SNIB__SPARE = 16, /* pending requests made at open                     */
    SNIB__SPARE_MAX =
        256,           /* idle pending requests kept                        */
    SNIB__OWNERS = 256 /* lists of acquisitions by owner                     */
};

typedef enum snib__claim_state {
    SNIB__CLAIM_ACQUIRING, /* ACQUIRE sent or to be sent                      */
    SNIB__CLAIM_QUEUED,    /* in the store's queue                            */
    SNIB__CLAIM_CONFIRM,   /* granted; served when a renewal has confirmed it */
    SNIB__CLAIM_HELD,
    SNIB__CLAIM_RISK,   /* a renewal failed, or the machine slept          */
    SNIB__CLAIM_LEAVING /* RELEASE or CANCEL under way                     */
} snib__claim_state;

struct snib__pending {
    struct snib__request rq;
    struct snib__claim *claim;   /* NULL: orphan or query                     */
    struct snib__direct *direct; /* NULL: none or left                        */
    struct snib__local_lock
        *local;              /* one reference; NULL: a query              */
    struct snib__name *name; /* a query's own                             */
    struct snib__link idle;  /* engine's spare or busy list               */
    struct snib__buf text;   /* about, glob, reason                       */
    struct snib__buf result;
    struct snib_error error;
};

struct snib__claim {
    struct snib__timer timer;
    struct snib__link held; /* engine's list of HELD and RISK        */
    struct snib__local_lock *local;
    struct snib__acquisition
        *holder; /* SERVED acquisition; NULL while nobody is     */
    struct snib__acquisition
        *ender; /* ENDING or LEAVING acquisition that waits for
                                   the answer; of the latter there may be
                                   more, linked to it                    */
    struct snib__acquisition *adopter; /* CONFIRM: it takes up a grant that was
                                      left behind; whatever happens, that is
                                      not ended, and not asked for anew     */
    struct snib__pending *acquiring, *renewing, *ending;
    uint64_t id[2];        /* of the grant or the acquire           */
    int64_t token0;        /* as registered at the store            */
    int64_t token;         /* as passed on, <= token0 + room        */
    int64_t prior;         /* token that asking ends first, or 0    */
    snib_instant deadline; /* HELD, RISK, CONFIRM                   */
    snib_instant granted;  /* start of the local turn               */
    snib_instant renew_at; /* auto-renewal or retry                 */
    snib_instant hold_end; /* holder's hold_max                     */
    snib_instant gone_by;  /* LEAVING: our lease is over by then    */
    snib_duration lease;   /* asked for, and renewed to             */
    snib_duration most;    /* the longest of what may stand         */
    snib_duration delay;   /* lock-delay, as the store has it       */
    uint32_t reserve;
    uint8_t state, cause, refusals;
    bool placed;     /* the store said "queued" to asking's request          */
    bool doubt;      /* some send of asking is unanswered                   */
    bool copies;     /* … of this grant's acquire: late copies may arrive   */
    bool want_renew; /* a caller asked (snib__engine_renew)                 */
    bool aggressive;
    bool hinted; /* it is said to have been ended by force, and no renewal
                    that was sent since has shown that it is not so         */
    bool stale;  /* … and the one under way was sent before                 */
    bool
        outlives; /* the store was told that it does not end with our process */
};

struct snib__local_lock {
    struct snib__link bucket;
    struct snib__name *name;
    struct snib__list
        waiting;            /* acquisitions, in order                       */
    struct snib__list dead; /* acquisitions lost and not yet unwound        */
    struct snib__claim *claim;
    struct snib__list own_claims; /* of this name, by their bucket link    */
    struct snib__local_lock
        *parent; /* of an own claim; NULL: it is none          */
    uint32_t
        refs; /* handles, acquisitions, turn, pending requests, own claims */
};

/* See core/cycles.c. */
struct snib__cycles {
    struct snib__list
        nested; /* WAITING acquisitions whose owners hold something    */
    struct snib__direct direct;
    snib_instant
        asked; /* when the query began, or was sent, if that is known */
    snib_instant again; /* not before                                        */
    snib_duration took; /* the last look; 0: there was none                  */
    bool acquiring;
};

struct snib__slot {
    struct snib__acquisition *acq;
    uint32_t generation;
    uint32_t next_free; /* 1-based; 0: end                       */
};

struct snib__engine {
    struct snib__engine_config cfg;
    struct snib__about self;
    const struct snib__store_ops *ops;
    struct snib__store *store;
    struct snib__out out;
    struct snib__rng rng;
    struct snib__list chain; /* requests of this step                 */
    struct snib__list told, told_directs, held, spare, busy;
    struct snib__heap claims,
        acquisitions; /* timers                               */
    struct snib__list *buckets;
    struct snib__slot *slots;
    uint32_t bucket_count, slot_cap, slot_free, spares;
    uint64_t client[2];    /* the client's id                       */
    int64_t floor;         /* highest token seen on this store      */
    int64_t version_floor; /* highest version of a value seen there */
    uint32_t out_requests; /* pending requests at the store                */
    uint32_t leaving;      /* turns that are being ended            */
    bool closed;
    bool pushes; /* the store does, see SNIB__CAN_PUSH    */
    struct {     /* the acquires that are gathered, see snib__engine_gather */
        uint32_t number;
        uint8_t count;
        bool open, all;
    } batch;
    struct snib__list
        owners[SNIB__OWNERS]; /* acquisitions, by owner                */
    struct snib__cycles cycles;
    struct snib__counts counts;
};

/* request.c */
snib_err snib__pending_init(struct snib__engine *);
void snib__pending_free(struct snib__engine *);
struct snib__pending *snib__pending_get(struct snib__engine *,
                                        struct snib__local_lock *);
void snib__pending_put(struct snib__engine *, struct snib__pending *);
void snib__pending_start(struct snib__engine *, struct snib__pending *);
/* A request of no turn, from INSPECT on, is answered. */
void snib__direct_answer(struct snib__engine *, snib_instant now,
                         struct snib__pending *);

/* batch.c */
/* One more acquire of those that are gathered, if they are. */
void snib__batch_join(struct snib__engine *, struct snib__acquisition *);

/* engine.c */
/* Send the step's requests, take answers, until nothing moves. */
void snib__engine_settle(struct snib__engine *, snib_instant now);
void snib__engine_log(struct snib__engine *, int level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* engine_open.c */
/* What somebody is told whose limit has passed while the store had not granted
 * it: why, or the cause if the store is not there. Returns ret->code. */
snib_err snib__engine_late(const struct snib__engine *, snib_instant now,
                           snib_err why, struct snib_error *ret);

/* UNKNOWN, and the cause if the store is not there. */
snib_err snib__engine_unsure(const struct snib__engine *, snib_instant now,
                             struct snib_error *ret);

/* local_lock.c */
/* A local lock of one acquisition at the name of `parent`. NULL: no memory. */
struct snib__local_lock *snib__own_claim_new(struct snib__engine *,
                                             struct snib__local_lock *);
void snib__local_lock_drop(struct snib__engine *, struct snib__local_lock *);
/* NULL: nobody refers to that name. */
struct snib__local_lock *snib__local_lock_find(const struct snib__engine *,
                                               const struct snib__name *);
snib_err snib__local_locks_init(struct snib__engine *);
void snib__local_locks_free(struct snib__engine *);

/* acquisition.c */
void snib__acquisition_tell(struct snib__engine *, struct snib__acquisition *,
                            uint8_t news);
void snib__acquisition_refuse(struct snib__engine *, struct snib__acquisition *,
                              snib_err, const struct snib_error *detail);
void snib__acquisition_gone(struct snib__engine *, struct snib__acquisition *,
                            snib_err, const struct snib_error *detail);
void snib__acquisition_free(struct snib__engine *, struct snib__acquisition *);

/* leave.c */
/* A WAITING acquisition, the last one of its turn, which is about to be ended: it
 * stays until the store has confirmed that, to be refused with err then, and
 * with UNKNOWN (if unsure) or err when that takes too long. False: it need not
 * or must not wait. */
bool snib__acquisition_stay(struct snib__engine *, snib_instant now,
                            struct snib__acquisition *, snib_err, bool unsure);
/* LEAVING: the end of what it asked for is confirmed, or not heard of. */
void snib__acquisition_left(struct snib__engine *, struct snib__acquisition *,
                            bool confirmed);
/* It was granted with that token, which is no longer to be held: true when that
 * is all it wanted, and it is told so. s: NULL allowed; WAITING or LEAVING, else
 * false. */
bool snib__acquisition_had(struct snib__engine *, snib_instant now,
                           struct snib__acquisition *, int64_t token);
void snib__acquisition_due(struct snib__engine *, snib_instant now,
                           struct snib__acquisition *);
/* Refuse it with DEADLOCK; it leaves the queue. */
void snib__acquisition_deadlock(struct snib__engine *, snib_instant now,
                                struct snib__acquisition *,
                                const struct snib_error *);

/* explain.c */
/* The store says this of a renewal (not of a question whether a fixed lease
 * stands: it extends nothing, so it ends nothing); s NULL, text NULL or "":
 * nothing. */
void snib__acquisition_trouble(struct snib__acquisition *s, const char *text);
/* A renewal succeeded. */
void snib__acquisition_recovered(struct snib__acquisition *s);
/* Who forces a release, and why, for those whose grants are ended. */
void snib__explain_force(const struct snib__about *by, const char *reason,
                         struct snib__buf *out);
/* What a release is told of that; one line, which begins with "revoked". */
void snib__explain_revoked(struct snib_error *);

/* cycles.c */
void snib__cycles_init(struct snib__engine *);
void snib__cycles_free(struct snib__engine *);
/* Does this owner hold anything at all of this client? */
bool snib__cycles_holds(const struct snib__engine *, uint64_t owner);
/* Does this owner wait, and has it said what it holds? */
bool snib__cycles_waits(const struct snib__engine *, uint64_t owner);
/* The owner of s, and what it holds, for others to see. */
void snib__cycles_about(const struct snib__engine *,
                        const struct snib__acquisition *s,
                        struct snib__about *);
/* s has sat down at an own claim of its own; its owner holds something. */
void snib__cycles_enter(struct snib__engine *, snib_instant now,
                        struct snib__acquisition *s);
snib_instant snib__cycles_due(const struct snib__engine *);
void snib__cycles_tick(struct snib__engine *, snib_instant now);
/* sent: when its question went out; 0: not known. */
void snib__cycles_answer(struct snib__engine *, snib_instant now,
                         snib_instant sent);
static inline bool snib__cycles_is_mine(const struct snib__engine *e,
                                        const struct snib__direct *q)
{
    return q == &e->cycles.direct;
}
static inline void snib__cycles_served(struct snib__acquisition *s)
{
    snib__unlink(&s->nested);
}

/* claim.c and its rooms (claim_i.h) */
snib_err snib__claim_new(struct snib__engine *, struct snib__local_lock *);
/* Have the grant confirmed that the waiting acquisition s takes up. A new turn. */
void snib__claim_adopt(struct snib__engine *, snib_instant now,
                       struct snib__claim *, struct snib__acquisition *s,
                       const uint64_t id[2], int64_t token);
/* The holder goes and leaves its grant behind. Frees the holder's acquisition. */
void snib__claim_abandon(struct snib__engine *, snib_instant now,
                         struct snib__claim *);
/* Ask the store on behalf of the waiting acquisitions. */
void snib__claim_acquire(struct snib__engine *, snib_instant now,
                         struct snib__claim *, int64_t prior);
void snib__claim_answer(struct snib__engine *, snib_instant now,
                        struct snib__claim *, struct snib__pending *);
void snib__claim_due(struct snib__engine *, snib_instant now,
                     struct snib__claim *);
void snib__claim_renew(struct snib__engine *, snib_instant now,
                       struct snib__claim *);
/* Only those who try are refused: it is held now, or held still. */
void snib__claim_refuse_tries(struct snib__engine *, struct snib__local_lock *);
/* Somebody may have ended its grant. */
void snib__claim_hint(struct snib__engine *, snib_instant now,
                      struct snib__claim *);
/* The holder gave back its last hold: pass, yield or leave. Sets the acquisition
 * ENDING when the store has to answer, else frees it and returns true. */
bool snib__claim_release(struct snib__engine *, snib_instant now,
                         struct snib__claim *);
/* No acquisition is waiting any more for a turn that was not granted yet, or the one
 * that adopts has left. */
void snib__claim_give_up(struct snib__engine *, snib_instant now,
                         struct snib__claim *);
/* Why a grant is lost whose deadline has come. */
snib_cause snib__claim_cause(const struct snib__claim *);
/* Past its deadline or hold limit: lose it now. True when it was lost. */
bool snib__claim_check(struct snib__engine *, snib_instant now,
                       struct snib__claim *);
void snib__claim_risk(struct snib__engine *, snib_instant now,
                      struct snib__claim *, snib_cause);
/* A renewal fails: at risk, and if nothing else comes, lost as UNREACHABLE. */
void snib__claim_fails(struct snib__engine *, struct snib__claim *);
/* s has joined those who wait: the request under way waits for it, too. */
void snib__claim_limits(struct snib__claim *,
                        const struct snib__acquisition *s);

/* Where those who have lost the lock are, and its own claims. */
static inline struct snib__local_lock *
snib__local_lock_home(struct snib__local_lock *s)
{
    return s->parent ? s->parent : s;
}

static inline bool snib__is_exclusive(uint8_t kind)
{
    return kind == SNIB_MUTEX || kind == SNIB_WRITE;
}

#endif
