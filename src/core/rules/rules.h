/* core/rules/rules.h — the rules of a lock, for stores that can look at all
 * claims of a name in one atomic step (memory, a mapped file).
 *
 * A *claim* is what one request has made at one name. It waits, or it holds, or
 * it only records that something has ended (a tombstone, a revoked grant). A
 * *book* keeps claims: in plain memory, in the records of a file, in a snapshot
 * of a database's rows. snib__rules_run() is the only place that decides. It
 * does to a book what the Lua scripts do to Redis:
 *
 *   settle   Along with its step a request drops dead holders and grants the
 *            name to the waiters that it fits, in the order of the queue and
 *            up to the first that it does not fit. It does not matter which
 *            client asked. The end of a lease runs no code of its own, so no
 *            newcomer can barge in. (The renewal of a grant that stands, and
 *            a PARAMS that changes nothing, grant nothing.)
 *   step     acquire, renew, release, cancel, force, params.
 *   notify   The book tells each waiter that was granted the name, by
 *            ops->granted, *after* the step has become durable.
 *
 * A name has one queue. Its holders are either one exclusive grant or any
 * number of shared ones; an exclusive holder may also have shared grants of its
 * own owner. rules_fit_fits() in rules_fit.c alone says what fits.
 *
 * The caller makes the step atomic: by one mutex, one compare-and-swap, one
 * guarded transaction. An
 * operation of the book that fails sets book->err, and later ones do nothing
 * useful. The caller checks err once at the end, rolls back and answers
 * NOT_APPLIED. Nothing here allocates, reads a clock or blocks. */
#ifndef SNIB__RULES_H
#define SNIB__RULES_H

#include "core/store.h"

/* A pushed grant must be confirmed within C = min(lease, this). */
#define SNIB__PUSH_LEASE_MS 3000
/* A waiter that has not polled for so long is unresponsive and is passed
 * over. */
#define SNIB__ALIVE_MS 3000
/* An unresponsive waiter keeps its rank for so long. */
#define SNIB__ASIDE_MS 60000
/* An ended request is remembered for so long: a late copy of it is refused by
 * its not_after, which is at most 10 s ahead. */
#define SNIB__TOMBSTONE_MS 10000
/* The most tokens that one grant reserves for local hand-overs. */
#define SNIB__RESERVE_MAX 31
/* Tokens stay below 2^53, so that every language can hold them. */
#define SNIB__TOKEN_END (INT64_C(1) << 53)
/* Can t be the last token of a name, or a floor? Above this bound the next
 * token and its reserve would not stay below SNIB__TOKEN_END. */
static inline bool snib__is_token(int64_t t)
{
    return t >= 0 && t < SNIB__TOKEN_END - 1 - SNIB__RESERVE_MAX;
}
/* Positions in the queue are counted up to here: each poll of a waiter counts
 * anew who is ahead of it. When it polls next depends on the first two only. */
#define SNIB__POSITION_MAX 64

enum snib__stored_state {
    SNIB__WAITS = 0,
    SNIB__HOLDS = 1,     /* exclusively; a name has at most one */
    SNIB__TOMBSTONE = 2, /* the request is over; its late copies do nothing */
    SNIB__UNRESPONSIVE = 3, /* waits but does not poll; keeps its rank */
    SNIB__REVOKED = 4,      /* was held until it was force-released */
    SNIB__SHARES = 5 /* holds as a reader, some permits, or past a barrier */
};

/* The state of a name besides its claims. */
struct snib__params {
    int64_t size; /* of the semaphore; -1: it has none */
    /* what the latch still has to count down; 0: open, or none */
    int64_t latch;
};

struct snib__stored_claim {
    int64_t id; /* order of arrival; the book's add() sets it */
    uint64_t request[2], client[2];
    int state; /* enum snib__stored_state */
    snib_kind kind;
    uint32_t permits, reserve;
    uint32_t slot; /* of a grant of PERMITS */
    /* How long its client may keep the grant after a release (only in stores
     * with SNIB__CAN_KEEP). */
    uint16_t keep_ms;
    int64_t token, floor;
    int rank; /* lower ones are served first */
    /* The request of the same owner's own grant that is not in the way; 0:
     * none. */
    uint64_t upgrade_of[2];
    snib_duration lease, delay;
    snib_instant since; /* of the grant; of a waiter: its arrival */
    /* Of a holder: the end of its lease. Of a waiter: until when it counts as
     * alive. Of any other: until when it is remembered. */
    snib_instant until;
    /* The process behind the claim, for gone(). pid 0: it is not known, or must
     * not be asked about since the grant may outlive it (a supervised command,
     * a fixed lease). */
    int64_t pid, start, pidns;
    char notifier[40]; /* whom to notify; "": nobody */
    char note[252];    /* REVOKED: who forced it, and the reason given */
};

struct snib__book;

/* The operations of a book. `name` is always the request's. A claim that is
 * passed in was filled by find, next or the rules; the book tells claims apart
 * by id. */
struct snib__book_ops {
    /* Find the claim of this request, in any state. Fills note of REVOKED. */
    bool (*find)(struct snib__book *, const struct snib__name *,
                 const uint64_t request[2], struct snib__stored_claim *ret);
    /* The first claim in this state, or the first behind `after`. WAITS are in
     * order of rank, then arrival; all other states in order of arrival. */
    bool (*next)(struct snib__book *, const struct snib__name *, int state,
                 const struct snib__stored_claim *after,
                 struct snib__stored_claim *ret);
    /* How many WAITS claims are ahead of this one, up to SNIB__POSITION_MAX. */
    uint32_t (*before)(struct snib__book *, const struct snib__name *,
                       const struct snib__stored_claim *);
    /* Can `count` (at least 1) of the WAITS claims be alive? False: certainly
     * not, and no claim has to be looked at. Each poll of a party of a barrier
     * asks this, so it should cost less than next() for each of them. */
    bool (*may_wait)(struct snib__book *, const struct snib__name *,
                     uint32_t count);
    /* The last token of the name, its reserve included; never lower than any
     * token that was forgotten with its name. 0: there is none.
     * SNIB__TOKEN_END: what the book has is not a token. */
    int64_t (*token)(struct snib__book *, const struct snib__name *);
    void (*set_token)(struct snib__book *, const struct snib__name *, int64_t);
    /* The last token in the book was not a token (see token()): this is the
     * last token from now on. Wherever else token() took its answer from is
     * made a token again, too. */
    void (*mend_token)(struct snib__book *, const struct snib__name *, int64_t);
    /* The name has `by` SHARES claims more than before (fewer if negative). */
    void (*share)(struct snib__book *, const struct snib__name *, int by);
    void (*params)(struct snib__book *, const struct snib__name *,
                   struct snib__params *ret);
    void (*set_params)(struct snib__book *, const struct snib__name *,
                       const struct snib__params *);
    /* The highest token in the whole book. Rarely called; may be slow. */
    int64_t (*highest)(struct snib__book *);
    /* Add a claim at the tail. Sets id, notifier, pid, start, pidns. about is
     * the text that the request shows to others (tombstones have none). */
    void (*add)(struct snib__book *, const struct snib__name *,
                struct snib__stored_claim *, const void *about, size_t size);
    /* These fields of the claim have changed: state, token, slot, reserve,
     * since, until, lease, and note of REVOKED. */
    void (*change)(struct snib__book *, const struct snib__name *,
                   const struct snib__stored_claim *);
    void (*remove)(struct snib__book *, const struct snib__name *,
                   const struct snib__stored_claim *);
    /* Forget tombstones, revoked grants and unresponsive waiters whose until
     * has passed. */
    void (*sweep)(struct snib__book *);
    /* True only when the process behind this claim has certainly ended. */
    bool (*gone)(struct snib__book *, const struct snib__stored_claim *);
    /* This waiter was granted the name, or this holder was force-released, or it
     * may keep the name and somebody waits: notify it after the commit. */
    void (*granted)(struct snib__book *, const struct snib__name *,
                    const struct snib__stored_claim *);
};

struct snib__book {
    const struct snib__book_ops *ops;
    snib_instant now; /* the store's clock, read inside the atomic step */
    /* The client's clock before the step read the store's: from here the
     * client's lease counts, while the claim ends by the store's clock. A store
     * of this host has one clock: now. */
    snib_instant sent;
    int64_t token_clock; /* Unix time in 1/1024 ms: no new token is below it */
    /* At most so many waiters are granted the name by one step, for a book whose
     * step may not write more; the next step, be it a poll, goes on. Only a
     * barrier that is complete is let through as a whole. 0: no bound. */
    uint32_t most;
    uint64_t client[2]; /* the client whose request is run */
    snib_err err; /* sticky; CORRUPT: a stored token or floor is not a token */
    /* The request that is being run; set by rules.c. */
    const struct snib__request *asker;
};

/* Run one request of a verb that changes claims: ACQUIRE, RENEW, RELEASE,
 * CANCEL, FORCE, PARAMS. Fills the answer, which means nothing when book->err
 * is set. */
void snib__rules_run(struct snib__book *, struct snib__request *);

/* End the grant of this request if it still stands with this token, and settle.
 * For a waiter that turned out to be dead when it was notified. True: it was
 * there. */
bool snib__rules_end(struct snib__book *, const struct snib__name *,
                     const uint64_t request[2], int64_t token);

/* Does this claim hold the name, exclusively or shared? */
static inline bool snib__rules_claim_holds(const struct snib__stored_claim *c)
{
    return c->state == SNIB__HOLDS || c->state == SNIB__SHARES;
}

/* Until when the claim is shown: a holder until the end of its lock-delay, a
 * waiter as long as it counts as alive. */
static inline snib_instant
snib__rules_claim_till(const struct snib__stored_claim *c)
{
    return snib__rules_claim_holds(c) ? snib__after(c->until, c->delay)
                                      : c->until;
}

/* End every grant of the name; nobody is granted it afterwards. */
void snib__rules_clear(struct snib__book *, const struct snib__name *);

/* Give the name to this new claim at once, past the queue: the steal switch of
 * the memory store. Returns book->err. */
snib_err snib__rules_put(struct snib__book *, const struct snib__name *,
                         struct snib__stored_claim *);

/* After a request has become durable: if it is a FORCE or PARAMS, write its row
 * into result (which may be NULL). Without memory result->failed is set; the
 * step stands all the same. */
void snib__rules_count(struct snib__request *);

/* Answer the ACQUIRE of a waiter that finds, by reading only, that its claim
 * holds. The deadline counts from the grant as the row shows it. False: the
 * claim does not hold, or less than half of the push lease is left; the caller
 * then runs the request instead. */
bool snib__rules_answer_if_granted(snib_instant now,
                                   const struct snib__stored_claim *,
                                   struct snib__request *);

/* Write one claim as a row of inspect and list. */
void snib__rules_row(struct snib__buf *, snib_instant now,
                     const struct snib__stored_claim *, const void *about,
                     size_t size);

#endif
