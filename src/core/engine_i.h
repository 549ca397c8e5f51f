/* core/engine_i.h — what the engine is made of; core/ only.
 *
 *   site   a name in this client: waiting seats (by rank, then as they came),
 *          dead seats, one turn
 *   turn   the client's business at the store for that name
 *   stake  a site of one seat, which asks the store by a turn of its own, beside
 *          the one that all exclusive lanes share: each reader, each lot of
 *          permits, each party of a barrier, a lane that writes beside its own
 *          read grant, a nested wait
 *   seat   one lane's place (engine.h)
 *   inquiry  a request under way; lives apart from the turn, so that a held
 *            lock that is not talking costs no request, and a turn can end
 *            while an answer is still due (the inquiry is orphaned then)
 */
#ifndef SNIB__ENGINE_I_H
#define SNIB__ENGINE_I_H

#include "core/engine.h"

enum {
    SNIB__ROOM = 31,            /* local passes a grant reserves (H21)        */
    SNIB__TURN_MS = 5,          /* longest local turn (P7)                    */
    SNIB__NOT_AFTER_MS = 10000, /* an acquire is never executed later (P4)  */
    SNIB__RETRY_MS = 100,       /* pause after "not applied"                  */
    SNIB__LISTEN_MS = 1000,     /* who holds for so long listens for hints    */
    SNIB__SPARE = 16,           /* inquiries made at open                     */
    SNIB__SPARE_MAX = 256,      /* idle inquiries kept                        */
    SNIB__LANES = 256           /* lists of seats by lane                     */
};

typedef enum snib__turn_state {
    SNIB__TURN_ASKING,  /* ACQUIRE sent or to be sent                      */
    SNIB__TURN_QUEUED,  /* in the store's queue                            */
    SNIB__TURN_CONFIRM, /* granted; served when a renewal has confirmed it */
    SNIB__TURN_HELD,
    SNIB__TURN_RISK,   /* a renewal failed, or the machine slept          */
    SNIB__TURN_LEAVING /* RELEASE or CANCEL under way                     */
} snib__turn_state;

struct snib__inquiry {
    struct snib__request rq;
    struct snib__turn *turn;   /* NULL: orphan or query                     */
    struct snib__query *query; /* NULL: none or left                        */
    struct snib__site *site;   /* one reference; NULL: a query              */
    struct snib__name *name;   /* a query's own                             */
    struct snib__link idle;    /* engine's spare or busy list               */
    struct snib__buf text;     /* about, glob, reason                       */
    struct snib__buf result;
    struct snib_error error;
};

struct snib__turn {
    struct snib__timer timer;
    struct snib__link held; /* engine's list of HELD and RISK        */
    struct snib__site *site;
    struct snib__seat *holder;  /* SERVED seat; NULL while nobody is     */
    struct snib__seat *ender;   /* ENDING or LEAVING seat that waits for
                                   the answer; of the latter there may be
                                   more, linked to it                    */
    struct snib__seat *adopter; /* CONFIRM: it takes up a grant that was
                                      left behind; whatever happens, that is
                                      not ended, and not asked for anew     */
    struct snib__inquiry *asking, *renewing, *ending;
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
    uint32_t room;
    uint8_t state, why, refusals;
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

struct snib__site {
    struct snib__link bucket;
    struct snib__name *name;
    struct snib__list waiting; /* seats, in order                       */
    struct snib__list dead;    /* seats lost and not yet unwound        */
    struct snib__turn *turn;
    struct snib__list stakes;  /* of this name, by their bucket link    */
    struct snib__site *parent; /* of a stake; NULL: it is none          */
    uint32_t refs;             /* handles, seats, turn, inquiries, stakes */
};

/* See core/cycles.c. */
struct snib__cycles {
    struct snib__list nested; /* WAITING seats whose lanes hold something    */
    struct snib__query query;
    snib_instant
        asked; /* when the query began, or was sent, if that is known */
    snib_instant again; /* not before                                        */
    snib_duration took; /* the last look; 0: there was none                  */
    bool asking;
};

struct snib__slot {
    struct snib__seat *seat;
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
    struct snib__list told, told_queries, held, spare, busy;
    struct snib__heap turns, seats; /* timers                               */
    struct snib__list *buckets;
    struct snib__slot *slots;
    uint32_t bucket_count, slot_cap, slot_free, spares;
    uint64_t client[2];    /* the client's id                       */
    int64_t floor;         /* highest token seen on this store      */
    int64_t version_floor; /* highest version of a value seen there */
    uint32_t out_requests; /* inquiries at the store                */
    uint32_t leaving;      /* turns that are being ended            */
    bool closed;
    bool pushes; /* the store does, see SNIB__CAN_PUSH    */
    struct {     /* the acquires that are gathered, see snib__engine_gather */
        uint32_t number;
        uint8_t count;
        bool open, all;
    } company;
    struct snib__list lanes[SNIB__LANES]; /* seats, by lane                */
    struct snib__cycles cycles;
    struct snib__counts counts;
};

/* query.c */
snib_err snib__inquiries_init(struct snib__engine *);
void snib__inquiries_free(struct snib__engine *);
struct snib__inquiry *snib__inquiry_get(struct snib__engine *,
                                        struct snib__site *);
void snib__inquiry_put(struct snib__engine *, struct snib__inquiry *);
void snib__inquiry_start(struct snib__engine *, struct snib__inquiry *);
/* A request of no turn, from INSPECT on, is answered. */
void snib__query_answer(struct snib__engine *, snib_instant now,
                        struct snib__inquiry *);

/* company.c */
/* One more acquire of those that are gathered, if they are. */
void snib__company_join(struct snib__engine *, struct snib__seat *);

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

/* site.c */
/* A site of one seat at the name of `parent`. NULL: no memory. */
struct snib__site *snib__stake_new(struct snib__engine *, struct snib__site *);
void snib__site_drop(struct snib__engine *, struct snib__site *);
/* NULL: nobody refers to that name. */
struct snib__site *snib__site_find(const struct snib__engine *,
                                   const struct snib__name *);
snib_err snib__sites_init(struct snib__engine *);
void snib__sites_free(struct snib__engine *);

/* seat.c */
void snib__seat_tell(struct snib__engine *, struct snib__seat *, uint8_t news);
void snib__seat_refuse(struct snib__engine *, struct snib__seat *, snib_err,
                       const struct snib_error *detail);
void snib__seat_gone(struct snib__engine *, struct snib__seat *, snib_err,
                     const struct snib_error *detail);
void snib__seat_free(struct snib__engine *, struct snib__seat *);

/* seat_leave.c */
/* A WAITING seat, the last one of its turn, which is about to be ended: it
 * stays until the store has confirmed that, to be refused with err then, and
 * with UNKNOWN (if unsure) or err when that takes too long. False: it need not
 * or must not wait. */
bool snib__seat_stay(struct snib__engine *, snib_instant now,
                     struct snib__seat *, snib_err, bool unsure);
/* LEAVING: the end of what it asked for is confirmed, or not heard of. */
void snib__seat_left(struct snib__engine *, struct snib__seat *,
                     bool confirmed);
/* It was granted with that token, which is no longer to be held: true when that
 * is all it wanted, and it is told so. s: NULL allowed; WAITING or LEAVING, else
 * false. */
bool snib__seat_had(struct snib__engine *, snib_instant now,
                    struct snib__seat *, int64_t token);
void snib__seat_due(struct snib__engine *, snib_instant now,
                    struct snib__seat *);
/* Refuse it with DEADLOCK; it leaves the queue. */
void snib__seat_deadlock(struct snib__engine *, snib_instant now,
                         struct snib__seat *, const struct snib_error *);

/* explain.c */
/* The store says this of a renewal (not of a question whether a fixed lease
 * stands: it extends nothing, so it ends nothing); s NULL, text NULL or "":
 * nothing. */
void snib__seat_trouble(struct snib__seat *s, const char *text);
/* A renewal succeeded. */
void snib__seat_recovered(struct snib__seat *s);
/* Who forces a release, and why, for those whose grants are ended. */
void snib__explain_force(const struct snib__about *by, const char *reason,
                         struct snib__buf *out);
/* What a release is told of that; one line, which begins with "revoked". */
void snib__explain_revoked(struct snib_error *);

/* cycles.c */
void snib__cycles_init(struct snib__engine *);
void snib__cycles_free(struct snib__engine *);
/* Does this lane hold anything at all of this client? */
bool snib__cycles_holds(const struct snib__engine *, uint64_t lane);
/* Does this lane wait, and has it said what it holds? */
bool snib__cycles_waits(const struct snib__engine *, uint64_t lane);
/* The lane of s, and what it holds, for others to see. */
void snib__cycles_about(const struct snib__engine *, const struct snib__seat *s,
                        struct snib__about *);
/* s has sat down at a stake of its own; its lane holds something. */
void snib__cycles_enter(struct snib__engine *, snib_instant now,
                        struct snib__seat *s);
snib_instant snib__cycles_due(const struct snib__engine *);
void snib__cycles_tick(struct snib__engine *, snib_instant now);
/* sent: when its question went out; 0: not known. */
void snib__cycles_answer(struct snib__engine *, snib_instant now,
                         snib_instant sent);
static inline bool snib__cycles_is_mine(const struct snib__engine *e,
                                        const struct snib__query *q)
{
    return q == &e->cycles.query;
}
static inline void snib__cycles_served(struct snib__seat *s)
{
    snib__unlink(&s->nested);
}

/* turn.c and its rooms (turn_i.h) */
snib_err snib__turn_new(struct snib__engine *, struct snib__site *);
/* Have the grant confirmed that the waiting seat s takes up. A new turn. */
void snib__turn_adopt(struct snib__engine *, snib_instant now,
                      struct snib__turn *, struct snib__seat *s,
                      const uint64_t id[2], int64_t token);
/* The holder goes and leaves its grant behind. Frees the holder's seat. */
void snib__turn_abandon(struct snib__engine *, snib_instant now,
                        struct snib__turn *);
/* Ask the store on behalf of the waiting seats. */
void snib__turn_ask(struct snib__engine *, snib_instant now,
                    struct snib__turn *, int64_t prior);
void snib__turn_answer(struct snib__engine *, snib_instant now,
                       struct snib__turn *, struct snib__inquiry *);
void snib__turn_due(struct snib__engine *, snib_instant now,
                    struct snib__turn *);
void snib__turn_renew(struct snib__engine *, snib_instant now,
                      struct snib__turn *);
/* Only those who try are refused: it is held now, or held still. */
void snib__turn_refuse_tries(struct snib__engine *, struct snib__site *);
/* Somebody may have ended its grant. */
void snib__turn_hint(struct snib__engine *, snib_instant now,
                     struct snib__turn *);
/* The holder gave back its last hold: pass, yield or leave. Sets the seat
 * ENDING when the store has to answer, else frees it and returns true. */
bool snib__turn_release(struct snib__engine *, snib_instant now,
                        struct snib__turn *);
/* No seat is waiting any more for a turn that was not granted yet, or the one
 * that adopts has left. */
void snib__turn_desert(struct snib__engine *, snib_instant now,
                       struct snib__turn *);
/* Why a grant is lost whose deadline has come. */
snib_reason snib__turn_cause(const struct snib__turn *);
/* Past its deadline or hold limit: lose it now. True when it was lost. */
bool snib__turn_check(struct snib__engine *, snib_instant now,
                      struct snib__turn *);
void snib__turn_risk(struct snib__engine *, snib_instant now,
                     struct snib__turn *, snib_reason);
/* A renewal fails: at risk, and if nothing else comes, lost as UNREACHABLE. */
void snib__turn_fails(struct snib__engine *, struct snib__turn *);
/* s has joined those who wait: the request under way waits for it, too. */
void snib__turn_limits(struct snib__turn *, const struct snib__seat *s);

/* Where those who have lost the lock are, and its stakes. */
static inline struct snib__site *snib__site_home(struct snib__site *s)
{
    return s->parent ? s->parent : s;
}

static inline bool snib__is_exclusive(uint8_t kind)
{
    return kind == SNIB_MUTEX || kind == SNIB_WRITE;
}

#endif
