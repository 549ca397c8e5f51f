/* core/engine_i.h — what the engine is made of; only core/ includes it.
 *
 *   local lock   A name in this client: its waiting acquisitions (by rank, then
 *                in order of arrival), its dead ones, and one shared claim.
 *   claim        What this client asked for or holds at the store. State table:
 *                core/claim.c.
 *   own claim    A claim for one acquisition alone, beside the one that all
 *                exclusive owners of the name share: for each reader, each
 *                holder of permits, each party of a barrier, an owner that
 *                upgrades (writes with a read grant, or reads with a write
 *                grant), and a nested wait that has left the local queue
 *                (core/move.c). It sits in a local lock of its own (an own
 *                lock), whose `parent` is the local lock of the name.
 *   acquisition  One owner waiting for, then holding, a lock (engine.h). State
 *                table: core/acquisition.c.
 *   pending request  A request under way. It lives apart from the claim, so a
 *                held lock that asks nothing costs no request, and a claim can
 *                end while an answer is still due (the request is an orphan
 *                then: its `claim` is NULL).
 *
 * In this folder `e` is the engine, `t` a claim, `s` an acquisition, `q` a
 * pending request, `rq` a request, `l` a link of a list. (In driver/ `s` is a
 * step, in store/ the store.) */
#ifndef SNIB__ENGINE_I_H
#define SNIB__ENGINE_I_H

#include "core/engine.h"

enum {
    SNIB__TEXT_LIMIT = 4096, /* bytes of a request's text */
    SNIB__RESULT_LIMIT = 256 << 20,
    SNIB__RESERVE = 31,     /* tokens reserved for local hand-overs */
    SNIB__HAND_OVER_MS = 5, /* how long an owner may hand over locally */
    /* How long after a grant its client may enter again what it kept. Then the
     * store is asked, whoever was told of whom. */
    SNIB__KEEP_CHAIN_MS = 1000,
    SNIB__NOT_AFTER_MS = 10000, /* an ACQUIRE is never executed later */
    SNIB__RETRY_MS = 100,       /* pause after "not applied" */
    /* After holding for so long, listen for forced releases. When the way to
     * hear of them is there, all that is held is asked for, since something may
     * have been ended before. So the first grant that a client holds for a
     * second is asked for then, whatever its third. (Each thin grant of a longer
     * lease than 10 s is renewed after a second anyway: core/claim.c.) */
    SNIB__LISTEN_MS = 1000,
    SNIB__SPARE = 16,      /* pending requests made at open */
    SNIB__SPARE_MAX = 256, /* spare ones kept */
    SNIB__OWNERS = 256     /* lists of acquisitions by owner */
};

typedef enum snib__claim_state {
    SNIB__CLAIM_ACQUIRING, /* an ACQUIRE is sent or to be sent */
    SNIB__CLAIM_QUEUED,    /* the ACQUIRE stands in the store's queue */
    SNIB__CLAIM_CONFIRM,   /* granted; to be confirmed by a renewal, then
                              served */
    SNIB__CLAIM_HELD,
    SNIB__CLAIM_RISK,    /* a renewal failed, or the machine slept */
    SNIB__CLAIM_LEAVING, /* a RELEASE or CANCEL is under way */
    SNIB__CLAIM_KEPT     /* released by its owner, and kept for the next one */
} snib__claim_state;

/* What may have become of a send that was not answered. Only grows, until the
 * store has answered. */
typedef enum snib__doubt {
    SNIB__DOUBT_NONE,
    /* A late copy of the ACQUIRE may still be executed: only a RELEASE or
     * CANCEL with a tombstone keeps it out. */
    SNIB__DOUBT_COPIES,
    /* A send of ACQUIRE, CANCEL or adoption is unanswered. */
    SNIB__DOUBT_OPEN
} snib__doubt;

/* Is the grant said to have been ended by force? */
typedef enum snib__hint {
    SNIB__HINT_NONE,
    SNIB__HINT_HEARD, /* and no renewal sent since has shown that it stands */
    SNIB__HINT_STALE  /* the renewal under way was sent before that was heard */
} snib__hint;

struct snib__pending {
    struct snib__request rq;
    struct snib__claim *claim;      /* NULL: an orphan, or a direct request */
    struct snib__direct *direct;    /* NULL: none, or its caller has left */
    struct snib__local_lock *local; /* one reference; NULL: a direct request */
    struct snib__name *name;        /* a direct request's own */
    struct snib__link link;         /* engine's spare or busy list */
    struct snib__buf text;          /* about, glob, reason, value */
    struct snib__buf result;
    struct snib_error error;
};

struct snib__claim {
    struct snib__timer timer;
    struct snib__link held; /* engine's list of HELD, RISK and KEPT claims */
    struct snib__local_lock *local;
    struct snib__acquisition *holder; /* the SERVED acquisition, or NULL */
    /* The ENDING or LEAVING acquisition that waits for the answer to `ending`.
     * Of LEAVING ones there may be more, linked behind it. */
    struct snib__acquisition *ender;
    /* CONFIRM: the acquisition that adopts a detached grant. Whatever happens,
     * that grant is not ended, and no other is asked for in its place. */
    struct snib__acquisition *adopter;
    /* ACQUIRING, QUEUED, CONFIRM: the nested wait whose holds the text of the
     * ACQUIRE names; the first that waits. NULL: it names nothing. */
    struct snib__acquisition *says;
    struct snib__pending *acquiring, *renewing, *ending;
    uint64_t id[2];          /* of the grant, or of the ACQUIRE */
    int64_t token0;          /* as the store has it */
    int64_t token;           /* after local hand-overs, <= token0 + reserve */
    int64_t prior;           /* own grant that the ACQUIRE ends first, or 0 */
    uint64_t prior_id[2];    /* its id */
    int64_t late;            /* the store's note of the last ACQUIRE answered */
    snib_instant deadline;   /* HELD, RISK, CONFIRM */
    snib_instant granted;    /* when; local hand-overs end soon after it */
    snib_instant renew_at;   /* next renewal, or retry */
    snib_instant hold_end;   /* the holder's hold_max is over */
    snib_instant gone_by;    /* LEAVING: nothing of ours is there after it */
    snib_instant kept_until; /* KEPT */
    snib_duration lease;     /* asked for, and renewed to */
    snib_duration most;      /* the longest lease that may stand there */
    snib_duration delay;     /* lock-delay, as the store has it */
    uint32_t reserve;
    uint32_t entry;             /* its number in the registry; 0: it has none */
    uint8_t state, doubt, hint; /* enums above */
    uint8_t cause, refusals;
    uint8_t asked;    /* tries that a client which may merely keep it refused */
    uint16_t keep_ms; /* as the store was told; 0: it is not kept */
    bool wanted;      /* others wait for it, or may: it is not kept */
    bool placed;      /* the store has answered the ACQUIRE "queued" */
    bool end_sent; /* LEAVING: a copy of the RELEASE or CANCEL was unanswered */
    bool want_renew; /* a caller waits for it (snib__engine_renew) */
    bool aggressive;
    /* The store was told that the grant does not end with our process. */
    bool outlives;
    bool thin; /* the store's note of the grant, for its RELEASE */
};

struct snib__local_lock {
    struct snib__link bucket;
    struct snib__name *name;
    /* Acquisitions, by rank, then in order of arrival. */
    struct snib__list waiting;
    struct snib__list dead; /* acquisitions that lost it and have not unwound */
    struct snib__claim *claim;
    struct snib__list own_locks; /* local locks, by their bucket link */
    struct snib__local_lock
        *parent; /* of an own claim: the name's local lock; else NULL */
    /* Counts handles, acquisitions, the claim, pending requests, own claims. */
    uint32_t refs;
};

/* The search for deadlocks: core/cycles.c. */
struct snib__cycles {
    /* WAITING acquisitions whose owners held something when they began. */
    struct snib__list nested;
    struct snib__direct direct;
    /* When the scan under way was started or, if that is known, sent. */
    snib_instant asked;
    snib_instant again; /* no scan before this instant */
    snib_duration took; /* by the last scan; 0: there was none */
    bool scanning;
};

struct snib__ticket {
    struct snib__acquisition *acq;
    uint32_t generation;
    uint32_t next_free; /* 1-based; 0: end */
};

struct snib__engine {
    struct snib__engine_config cfg;
    struct snib__about self;
    struct snib__about_head self_head;
    const struct snib__store_ops *ops;
    struct snib__store *store;
    struct snib__out out;
    struct snib__rng rng;
    struct snib__list chain; /* requests that this step starts */
    struct snib__list told, told_directs, held, spare, busy;
    struct snib__heap claims, acquisitions; /* timers */
    struct snib__list *buckets;
    struct snib__ticket *tickets;
    uint32_t bucket_count, ticket_cap, ticket_free, spares;
    uint32_t first_generation; /* of a ticket */
    uint64_t client[2];        /* the client's id */
    int64_t floor;             /* highest token seen on this store */
    int64_t version_floor;     /* highest version of a value seen on it */
    uint32_t out_requests;     /* pending requests at the store */
    uint32_t leaving;          /* claims that are LEAVING */
    uint32_t unchecked;        /* steps since core/check.c has looked */
    bool closed, pushes;       /* the store does: SNIB__CAN_PUSH */
    bool can_keep;             /* the store: SNIB__CAN_KEEP */
    bool tied;                 /* the store: SNIB__TIED */
    bool keeps;                /* somebody has asked for a grant to be kept */
    bool keeps_none;           /* … and nothing is kept any more */
    struct {                   /* the tries between gather and gathered */
        uint32_t number;
        uint8_t count;
        bool open, all;
    } batch;
    struct snib__list owners[SNIB__OWNERS]; /* acquisitions, by owner */
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
/* Writes down for a witness what the claim has at the store from now on. */
void snib__claim_note(struct snib__engine *, struct snib__claim *);

/* direct.c */
snib_err snib__direct_start(struct snib__engine *, snib_instant now,
                            struct snib__direct *);
/* A direct request (INSPECT or a verb after it) is answered, and its caller
 * told. True: it was the scan of core/cycles.c, which is to be told yet. */
bool snib__direct_answer(struct snib__engine *, snib_instant now,
                         struct snib__pending *);

/* batch.c */
/* The batch is complete: its requests go, or are refused. */
void snib__batch_end(struct snib__engine *, enum snib__batch_way);
/* The acquire of s joins the open batch, if there is one and it can. */
void snib__batch_join(struct snib__engine *, struct snib__acquisition *);

/* heard.c */
/* Takes what an input has brought beside answers, mostly nothing. */
void snib__heard_all(struct snib__engine *, snib_instant now);
static inline void snib__heard(struct snib__engine *e, snib_instant now)
{
    const struct snib__out *o = &e->out;
    if (o->moved || o->missed || o->stuck || o->wanted_all || o->ended_count ||
        o->wanted_count || e->keeps) {
        snib__heard_all(e, now);
    }
}
/* Of that, after a tick of the store: who waits for what is kept, and renewals
 * that cannot be sent. */
void snib__heard_wanted(struct snib__engine *, snib_instant now);
void snib__heard_stuck(struct snib__engine *);
/* What is kept goes back. */
void snib__heard_give_back_all(struct snib__engine *, snib_instant now);

/* What the entry points of core/engine.c call. Each does what engine.h says of
 * the entry point of its name, but sends nothing yet. */
/* acquire.c */
/* Loses grants of this name whose deadline is past. True: there was one. */
bool snib__owner_check(struct snib__engine *, snib_instant now,
                       struct snib__local_lock *);
/* May a lease be so long at this store? */
snib_err snib__lease_fits(const struct snib__engine *, snib_duration lease,
                          snib_duration delay, struct snib_error *reterr);
snib_err snib__owner_acquire(struct snib__engine *, snib_instant now,
                             struct snib__local_lock *,
                             const struct snib__acquire_spec *,
                             struct snib__acquisition **ret,
                             struct snib_error *reterr);
snib_err snib__owner_adopt(struct snib__engine *, snib_instant now,
                           struct snib__local_lock *,
                           const struct snib__acquire_spec *,
                           const uint64_t id[2], int64_t token,
                           struct snib__acquisition **ret,
                           struct snib_error *reterr);
/* release.c */
snib_err snib__grant_release(struct snib__engine *, snib_instant now,
                             uint64_t ticket, uint64_t owner,
                             struct snib_error *later, void *user,
                             struct snib__acquisition **ret,
                             struct snib_error *reterr);
snib_err snib__grant_renew(struct snib__engine *, snib_instant now,
                           uint64_t ticket, snib_duration lease,
                           struct snib__acquisition **ret,
                           struct snib_error *reterr);
snib_err snib__grant_id(struct snib__engine *, snib_instant now,
                        uint64_t ticket, bool fixed, uint64_t ret_id[2],
                        int64_t *ret_token, struct snib_error *reterr);
snib_err snib__grant_detach(struct snib__engine *, snib_instant now,
                            uint64_t ticket, uint64_t owner,
                            struct snib_error *reterr);

/* request.c */
/* Has the limit of its ACQUIRE come, before a worker of the store has sent
 * anything of it? Then nothing of it will be sent. *ret: for how long the store
 * was in its way. */
bool snib__claim_unsent(const struct snib__engine *, snib_instant now,
                        const struct snib__claim *, snib_duration *ret);

/* unreachable.c */
/* For a caller whose limit has passed before the store granted it anything:
 * fills ret with why, or with the store's own trouble if it cannot be reached.
 * Returns ret->code. */
snib_err snib__engine_late(const struct snib__engine *, snib_instant now,
                           snib_err why, struct snib_error *ret);

/* The same where a worker of the store has sent nothing of the request, and will
 * not. waited: for how long the store was in its way. */
snib_err snib__engine_unsent(const struct snib__engine *, snib_instant now,
                             snib_duration waited, snib_err why,
                             struct snib_error *ret);

/* UNKNOWN, with the store's trouble in the text if it cannot be reached. */
snib_err snib__engine_unsure(const struct snib__engine *, snib_instant now,
                             struct snib_error *ret);

/* local_lock.c */
/* A local lock for an own claim, below the given one. NULL: no memory. */
struct snib__local_lock *snib__own_lock_new(struct snib__engine *,
                                            struct snib__local_lock *);
/* Nothing refers to it any more. */
void snib__local_lock_free(struct snib__engine *, struct snib__local_lock *);
static inline void snib__local_lock_drop(struct snib__engine *e,
                                         struct snib__local_lock *s)
{
    if (--s->refs == 0) {
        snib__local_lock_free(e, s);
    }
}
/* NULL: nothing refers to that name. */
struct snib__local_lock *snib__local_lock_find(const struct snib__engine *,
                                               const struct snib__name *);
snib_err snib__local_locks_init(struct snib__engine *);
void snib__local_locks_free(struct snib__engine *);

/* acquisition.c */
/* A new acquisition that will wait. NULL: no memory. */
struct snib__acquisition *
snib__acquisition_new(struct snib__engine *, struct snib__local_lock *,
                      const struct snib__acquire_spec *);
/* It queues behind the acquisitions of its rank and of higher ones, and behind
 * one that adopts, which stays first. timed: its timer is its limit. */
void snib__acquisition_queue_up(struct snib__engine *,
                                struct snib__acquisition *, bool timed);
/* Writes the text that others are shown of a request for it. True: the text
 * says what its owner holds. */
bool snib__acquisition_about(const struct snib__engine *, snib_instant now,
                             const struct snib__acquisition *,
                             struct snib__buf *out);
/* The request id of its owner's other grant, which is not in the way. False:
 * that grant is over by now. */
bool snib__acquisition_upgrade_of(struct snib__engine *,
                                  const struct snib__acquisition *,
                                  uint64_t ret[2]);
/* Drops its news: the caller returns them at once. */
void snib__acquisition_untell(struct snib__acquisition *);
void snib__acquisition_tell(struct snib__engine *, struct snib__acquisition *,
                            uint8_t news);
void snib__acquisition_refuse(struct snib__engine *, struct snib__acquisition *,
                              snib_err, const struct snib_error *detail);
void snib__acquisition_gone(struct snib__engine *, struct snib__acquisition *,
                            snib_err, const struct snib_error *detail);
void snib__acquisition_free(struct snib__engine *, struct snib__acquisition *);
/* A WAITING acquisition, the last one of its claim, is about to be ended. True:
 * it stays as LEAVING until the store has confirmed the end, to be refused with
 * err then; if that takes too long it is refused with UNKNOWN (unsure) or with
 * err. False: it need not or must not wait. */
bool snib__acquisition_start_leaving(struct snib__engine *, snib_instant now,
                                     struct snib__acquisition *, snib_err,
                                     bool unsure);
/* A LEAVING acquisition ends: the end of its request is confirmed, or too long
 * nothing was heard of it. */
void snib__acquisition_left(struct snib__engine *, struct snib__acquisition *,
                            bool confirmed);
/* The store says that it granted this acquisition that token, which is not to
 * be held any more. True: to have been granted is all it wanted (`passes`), and
 * it is told so. s: NULL allowed; neither WAITING nor LEAVING: false. */
bool snib__acquisition_had(struct snib__engine *, snib_instant now,
                           struct snib__acquisition *, int64_t token);
/* The outcome of a LEAVING acquisition. */
snib_err snib__acquisition_outcome(const struct snib__acquisition *,
                                   bool confirmed);
/* It does not wait any more for the end of its claim; others may. */
void snib__acquisition_awaits_no_end(struct snib__acquisition *);

/* leave.c */
snib_err snib__acquisition_give_up_now(struct snib__engine *, snib_instant now,
                                       struct snib__acquisition *,
                                       snib_err why);
snib_err snib__acquisition_give_up(struct snib__engine *, snib_instant now,
                                   struct snib__acquisition *, snib_err why,
                                   struct snib_error *ret);
void snib__acquisition_due(struct snib__engine *, snib_instant now,
                           struct snib__acquisition *);
/* Refuse it with DEADLOCK; it leaves the queue. */
void snib__acquisition_deadlock(struct snib__engine *, snib_instant now,
                                struct snib__acquisition *,
                                const struct snib_error *);

/* explain.c */
/* Keeps what the store said of a renewal. (Not for a RENEW that only asks
 * whether a fixed lease stands: it extends nothing, so its failure ends
 * nothing.) s NULL, text NULL or "": does nothing. */
void snib__acquisition_trouble(struct snib__acquisition *s, const char *text);
/* A renewal succeeded: forget that text. s: NULL allowed. */
void snib__acquisition_recovered(struct snib__acquisition *s);
/* The text of a forced release, who and why, for the holders that it ends. */
void snib__explain_force(const struct snib__about *by, const char *reason,
                         struct snib__buf *out);
/* Drops what a cut has left of a UTF-8 character at the end. */
void snib__explain_drop_half(char *text);
/* Makes of that text the error of a release: LOST, one line, which begins with
 * "revoked". */
void snib__explain_revoked(struct snib_error *);

/* nested.c */
/* Does this owner hold anything of this client? */
bool snib__nested_holds(const struct snib__engine *, uint64_t owner);
/* Is this owner in a nested wait, whose request tells others what it holds, or
 * will do so? */
bool snib__nested_waits(const struct snib__engine *, uint64_t owner);
/* Does the request of s, as it was last sent, tell others what its owner
 * holds? */
static inline bool snib__nested_says(const struct snib__acquisition *s)
{
    return s->local->claim && s->local->claim->says == s;
}
/* Writes what the owner of s, a nested wait, holds, for others to see. Nothing:
 * it must not say it. */
void snib__nested_about(const struct snib__engine *,
                        const struct snib__acquisition *s,
                        struct snib__about *);
/* The request of its claim, which is about to be sent, says what the owner of s
 * holds. */
void snib__nested_said(struct snib__acquisition *s);
/* s waits, and its owner holds something. */
void snib__nested_enter(struct snib__engine *, snib_instant now,
                        struct snib__acquisition *s);
/* s waits no longer. */
static inline void snib__nested_leave(struct snib__acquisition *s)
{
    snib__unlink(&s->nested);
    if (snib__nested_says(s)) {
        s->local->claim->says = NULL;
    }
}

/* move.c */
/* When the next nested wait is to leave its local queue. */
snib_instant snib__moves_due(const struct snib__engine *);
void snib__moves_tick(struct snib__engine *, snib_instant now);

/* cycles.c */
void snib__cycles_init(struct snib__engine *);
void snib__cycles_free(struct snib__engine *);
snib_instant snib__cycles_due(const struct snib__engine *);
void snib__cycles_tick(struct snib__engine *, snib_instant now);
/* The scan is answered. sent: when it was sent; 0: not known. */
void snib__cycles_answer(struct snib__engine *, snib_instant now,
                         snib_instant sent);
static inline bool snib__cycles_is_mine(const struct snib__engine *e,
                                        const struct snib__direct *q)
{
    return q == &e->cycles.direct;
}

/* claim.c */
/* A new acquisition waits at this local lock; its claim, a new one if there was
 * none, asks for it too. upgrade_of: the ticket of the owner's grant that is
 * not in the way, or 0. nested: its owner holds something. NULL: no memory. */
struct snib__acquisition *snib__claim_join(struct snib__engine *,
                                           snib_instant now,
                                           struct snib__local_lock *,
                                           const struct snib__acquire_spec *,
                                           uint64_t upgrade_of, bool nested);
/* The ACQUIRE of a claim is answered DONE. */
void snib__claim_granted(struct snib__engine *, snib_instant now,
                         struct snib__claim *, const struct snib__request *);

/* claim_keep.c */
/* An owner of this client asks for what is KEPT here, by the claim of the name:
 * it is served at once, or the store is asked to end the grant and to give
 * another one in the same step. NULL: no memory, and nothing has changed. */
struct snib__acquisition *snib__claim_take(struct snib__engine *,
                                           snib_instant now,
                                           struct snib__local_lock *,
                                           const struct snib__acquire_spec *,
                                           bool nested);
/* Would that owner be served at once with what is KEPT here? */
bool snib__claim_keep_serves(const struct snib__claim *, snib_instant now,
                             const struct snib__acquire_spec *);
/* A KEPT grant goes back to the store. */
void snib__claim_give_back(struct snib__engine *, snib_instant now,
                           struct snib__claim *);
/* Somebody waits for this grant: it is not kept. */
void snib__claim_wanted(struct snib__engine *, snib_instant now,
                        struct snib__claim *);

/* claim_adopt.c */
/* The acquisition, which waits at the local lock of its name, goes to an own
 * claim, which asks for it. The claim that it leaves stays as it is, even if
 * nobody waits for it any more. False: no memory, and nothing has changed. */
bool snib__claim_move(struct snib__engine *, snib_instant now,
                      struct snib__acquisition *);
/* A new acquisition adopts a detached grant: a new claim has it confirmed.
 * NULL: no memory. */
struct snib__acquisition *
snib__claim_adopt(struct snib__engine *, snib_instant now,
                  struct snib__local_lock *, const struct snib__acquire_spec *,
                  const uint64_t id[2], int64_t token);
/* A claim that ends what a dead client of our id has left at this name. False: no
 * memory. */
bool snib__claim_end_left(struct snib__engine *, snib_instant now,
                          struct snib__local_lock *,
                          const struct snib__registry_record *, int64_t late);
/* Detaches the grant: frees the holder's acquisition, tells the store
 * nothing. */
void snib__claim_detach(struct snib__engine *, snib_instant now,
                        struct snib__claim *);

/* claim_refuse.c */
/* It is answered otherwise. */
void snib__claim_not_granted(struct snib__engine *, snib_instant now,
                             struct snib__claim *, struct snib__pending *);

/* claim_due.c */
/* The claim's timer has come. */
void snib__claim_due(struct snib__engine *, snib_instant now,
                     struct snib__claim *);

/* claim_renew.c */
void snib__claim_renewal_answered(struct snib__engine *, snib_instant now,
                                  struct snib__claim *, struct snib__pending *);
/* Somebody may have ended the grant: ask by a renewal, if it is held. */
void snib__claim_hint(struct snib__engine *, snib_instant now,
                      struct snib__claim *);
/* Another server answers than the one that granted it: the grant is at risk, and
 * the store is asked about it. */
void snib__claim_moved(struct snib__engine *, snib_instant now,
                       struct snib__claim *);
/* Why a grant is lost whose deadline has come. */
snib_cause snib__claim_cause(const struct snib__claim *);
/* Loses the grant if its deadline or hold limit is past, and gives back one that
 * was kept for long enough. True: it was lost, or given back, now. */
bool snib__claim_check(struct snib__engine *, snib_instant now,
                       struct snib__claim *);
/* The grant is at risk, for this cause; unless a renewal is under way, one asks
 * the store whether it stands. */
void snib__claim_risk_and_ask(struct snib__engine *, snib_instant now,
                              struct snib__claim *, snib_cause);
/* A renewal fails: the grant is at risk, and if nothing else comes it will be
 * lost as UNREACHABLE. Asks nothing. */
void snib__claim_mark_failing(struct snib__engine *, struct snib__claim *);

/* claim_leave.c */
/* The holder gave back its last hold: hand over locally, yield or leave. If the
 * store has to answer, the acquisition is ENDING and false is returned; else it
 * is freed and true returned. */
bool snib__claim_release(struct snib__engine *, snib_instant now,
                         struct snib__claim *);
/* No acquisition waits any more for a claim that was not granted yet, or the
 * one that adopts has left. */
void snib__claim_give_up(struct snib__engine *, snib_instant now,
                         struct snib__claim *);
/* The ACQUIRE that a LEAVING claim cancels is answered. The cancel's answer
 * counts, not this one; but an acquisition with `passes` is served by having
 * been granted. */
void snib__claim_overtaken(struct snib__engine *, snib_instant now,
                           struct snib__claim *, struct snib__pending *);
void snib__claim_end_answered(struct snib__engine *, snib_instant now,
                              struct snib__claim *, struct snib__pending *);

/* claim_send.c */
void snib__claim_send_renew(struct snib__engine *, snib_instant now,
                            struct snib__claim *);
/* Held exclusively, and renewed: may it be set again where the store has
 * forgotten it? Ask for that. */
bool snib__claim_may_reclaim(snib_instant now, const struct snib__claim *);
void snib__claim_send_reclaim(struct snib__engine *, snib_instant now,
                              struct snib__claim *);

/* Is nothing of this claim at the store? It pauses between two ACQUIREs of a
 * try (core/claim_refuse.c), or there was no memory for one. */
static inline bool snib__claim_asks_nothing(const struct snib__claim *t)
{
    return t->state == SNIB__CLAIM_ACQUIRING && !t->acquiring && !t->prior &&
           !t->doubt;
}

/* The local lock of the name: it has the dead acquisitions and the own
 * claims. */
static inline struct snib__local_lock *
snib__local_lock_home(struct snib__local_lock *s)
{
    return s->parent ? s->parent : s;
}

static inline bool snib__is_exclusive(uint8_t kind)
{
    return kind == SNIB_KIND_MUTEX || kind == SNIB_KIND_WRITE;
}

#endif
