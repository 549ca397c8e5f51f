/* store/memory/claims.h — the rules of a lock, for stores that can look at
 * all claims of a name in one atomic step (memory, SQLite).
 *
 * A *claim* is one request's own claim at one name: it waits, it holds, or it is
 * a mark that something has ended. A *book* keeps claims: plain memory or an
 * SQL table. snib__rules_run() is the only place that decides; it does to a
 * book what the Lua scripts do to Redis:
 *
 *   settle   first, whatever was asked: drop dead holders; grant the name to
 *            whom it fits, in the order of the queue and up to the first that
 *            it does not fit, whoever called. Expiry runs no code of its own,
 *            so nobody can barge (H08).
 *   step     acquire, renew, release, cancel, force.
 *
 * A name has one queue, and holders of which either one is exclusive or all
 * are shared (an exclusive one may have shared ones of its own owner beside
 * it). What fits is said in one place, fits() in claims_fit.c.
 *
 *   ring     whoever was granted the name, by ops->granted: *after* the step
 *            has become durable.
 *
 * The caller makes the step atomic: one transaction, one mutex. An op that
 * fails sets book->err and later ops do nothing useful; the caller looks once
 * at the end, rolls back and answers NOT_APPLIED. Nothing here allocates,
 * reads a clock or blocks. */
#ifndef SNIB__RULES_H
#define SNIB__RULES_H

#include "core/store.h"

/* A pushed grant must be confirmed within C = min(lease, this). */
#define SNIB__PUSH_LEASE_MS 3000
/* A waiter that did not poll for so long is unresponsive: it is passed over. */
#define SNIB__ALIVE_MS 3000
/* An unresponsive waiter keeps its rank for so long. */
#define SNIB__ASIDE_MS 60000
/* How long an ended request is remembered: not_after is at most 10 s ahead. */
#define SNIB__TOMBSTONE_MS 10000
/* Reserve of tokens in a grant (DESIGN §5). */
#define SNIB__RESERVE_MAX 31
/* Tokens stay below 2^53, so that every language can hold them. */
#define SNIB__TOKEN_END (INT64_C(1) << 53)
/* What may be the last token of a name, or a floor: with another one a next
 * token, and what is kept in reserve, would not stay below the end. */
static inline bool snib__is_token(int64_t t)
{
    return t >= 0 && t < SNIB__TOKEN_END - 1 - SNIB__RESERVE_MAX;
}
/* Places in the queue are counted up to here. */
#define SNIB__POSITION_MAX 1024

enum snib__stored_state {
    SNIB__WAITS = 0,
    SNIB__HOLDS = 1, /* exclusively: at most one of a name                 */
    SNIB__TOMBSTONE =
        2, /* the request is over; a late copy does nothing      */
    SNIB__UNRESPONSIVE =
        3,             /* waits, but does not poll; keeps its rank           */
    SNIB__REVOKED = 4, /* held until it was force-released                  */
    SNIB__SHARES = 5   /* holds as a reader, some permits, past a barrier   */
};

/* What a name is besides its claims. */
struct snib__params {
    int64_t size;  /* of the semaphore; -1: it has none                      */
    int64_t latch; /* a latch that has this far to go; 0: open, or none      */
};

struct snib__stored_claim {
    int64_t id; /* order of arrival; the book's, set by add            */
    uint64_t request[2], client[2];
    int state; /* enum snib__stored_state                              */
    snib_kind kind;
    uint32_t permits, reserve;
    uint32_t slot; /* of PERMITS that hold                           */
    int64_t token, floor;
    int rank;               /* lower ones are served first                    */
    uint64_t upgrade_of[2]; /* of the same owner, not in the way; 0: none     */
    snib_duration lease, delay;
    snib_instant since; /* of the grant; a waiter: of its coming          */
    snib_instant until; /* holder: lease's end · waiter: alive until ·
                           mark: remembered until                           */
    /* The process behind it, for gone(); pid 0: not known or must not be
     * looked at (a leashed command, a fixed lease may outlive it). */
    int64_t pid, start, pidns;
    char notifier[40]; /* where to ring; "": nowhere                          */
    char note[252];    /* REVOKED: by whom, why                               */
};

struct snib__book;

/* name is always the request's. A claim passed in was filled by find, first
 * or the rules; the book compares claims by id. */
struct snib__book_ops {
    /* The claim of this request, in any state; fills note of REVOKED. */
    bool (*find)(struct snib__book *, const struct snib__name *,
                 const uint64_t request[2], struct snib__stored_claim *ret);
    /* The first that is in this state, or the first behind `after`: WAITS by
     * rank and order of arrival, all others by order of arrival. */
    bool (*next)(struct snib__book *, const struct snib__name *, int state,
                 const struct snib__stored_claim *after,
                 struct snib__stored_claim *ret);
    /* WAITS claims before this one, counted up to SNIB__POSITION_MAX. */
    uint32_t (*before)(struct snib__book *, const struct snib__name *,
                       const struct snib__stored_claim *);
    /* Last token of the name, room included; never lower than any that was
     * forgotten with its name. 0: none; SNIB__TOKEN_END: what the book has is
     * no token. */
    int64_t (*token)(struct snib__book *, const struct snib__name *);
    void (*set_token)(struct snib__book *, const struct snib__name *, int64_t);
    /* That was no token: from now on this is the last one; and whatever else
     * token() took it from is a token again. */
    void (*mend_token)(struct snib__book *, const struct snib__name *, int64_t);
    /* There are so many SHARES claims more now (or less). */
    void (*share)(struct snib__book *, const struct snib__name *, int by);
    void (*params)(struct snib__book *, const struct snib__name *,
                   struct snib__params *ret);
    void (*set_params)(struct snib__book *, const struct snib__name *,
                       const struct snib__params *);
    /* Highest token in the whole book; rare, may be slow. */
    int64_t (*highest)(struct snib__book *);
    /* A new claim at the tail; sets id, bell, pid, start, pidns. about is the
     * request's text (none for marks). */
    void (*add)(struct snib__book *, const struct snib__name *,
                struct snib__stored_claim *, const void *about, size_t size);
    /* state, token, slot, room, since, until, lease (and note of REVOKED) have
     * changed. */
    void (*change)(struct snib__book *, const struct snib__name *,
                   const struct snib__stored_claim *);
    void (*remove)(struct snib__book *, const struct snib__name *,
                   const struct snib__stored_claim *);
    /* Forget marks and unresponsive waiters whose until has passed. */
    void (*sweep)(struct snib__book *);
    /* True only when this holder's process has certainly ended. */
    bool (*gone)(struct snib__book *, const struct snib__stored_claim *);
    /* This waiter was granted the name, or this holder lost it: ring it after
     * the commit. */
    void (*granted)(struct snib__book *, const struct snib__name *,
                    const struct snib__stored_claim *);
};

struct snib__book {
    const struct snib__book_ops *ops;
    snib_instant now;   /* read inside the atomic step                     */
    int64_t wall_ms;    /* Unix time, for tokens only                      */
    uint64_t client[2]; /* who asks                                        */
    snib_err err;       /* sticky; CORRUPT: a token or a floor is none     */
    /* The request being run; claims.c's. */
    const struct snib__request *asker;
};

/* Run one request of a verb that changes claims: ACQUIRE, RENEW, RELEASE,
 * CANCEL, FORCE, TERMS. Fills the answer; with book->err set it means nothing. */
void snib__rules_run(struct snib__book *, struct snib__request *);

/* End this grant if it is still there with this token, and settle: for a waiter
 * that proved dead when its bell was rung. True when it was there. */
bool snib__rules_end(struct snib__book *, const struct snib__name *,
                     const uint64_t request[2], int64_t token);

/* Does it hold, exclusively or not? */
static inline bool snib__rules_claim_holds(const struct snib__stored_claim *c)
{
    return c->state == SNIB__HOLDS || c->state == SNIB__SHARES;
}

/* Until when it is shown: as a holder (its lock-delay included) or a waiter. */
static inline snib_instant
snib__rules_claim_till(const struct snib__stored_claim *c)
{
    return snib__rules_claim_holds(c) ? snib__after(c->until, c->delay)
                                      : c->until;
}

/* End every grant of the name; nobody is granted it. */
void snib__rules_clear(struct snib__book *, const struct snib__name *);

/* Hold the name now with this new claim, past the queue: the steal switch of
 * the memory store. Returns book->err. */
snib_err snib__rules_put(struct snib__book *, const struct snib__name *,
                         struct snib__stored_claim *);

/* After a FORCE or TERMS that is durable: its row into result (NULL allowed).
 * Without memory result->failed stays set; the grants are ended all the
 * same. */
void snib__rules_count(struct snib__request *);

/* The answer of a waiter that finds its claim HOLDS by reading only: the
 * deadline counts from the grant as the row tells it. False: too little is
 * left, or it is not held; run the request instead. */
bool snib__rules_inspect(snib_instant now, const struct snib__stored_claim *,
                         struct snib__request *);

/* One row of inspect and list. */
void snib__rules_row(struct snib__buf *, snib_instant now,
                     const struct snib__stored_claim *, const void *about,
                     size_t size);

#endif
