/* core/objects_i.h — what the engine is made of. For engine_i.h, which includes
 * it.
 *
 *   local lock   A name in this client: its waiting acquisitions (by rank, then
 *                in order of arrival), its dead ones, and one shared claim.
 *   claim        What this client asked for or holds at the store. State table:
 *                core/claim.c.
 *   own claim    A claim for one acquisition alone, besides the one that all
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
#ifndef SNIB__OBJECTS_I_H
#define SNIB__OBJECTS_I_H

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
    bool no_latch;             /* the store: SNIB__NO_LATCH */
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
