/* core/snapshot/snapshot.h — the rules of a lock over the rows of a store
 * across a network.
 *
 * Such a store is a table: a key has bytes and a stamp. A step *fetches* a few
 * rows at once, *decides* on them in memory by core/rules, and *writes* what
 * differs. The write is guarded: for each row that the decision relied on it
 * names the stamp with which the row was fetched, and the store applies all of
 * the write or, when one stamp is another by now (a *conflict*), nothing. No
 * lock of the store is held while a client thinks, so one that freezes there is
 * in nobody's way. This part is pure; who fetches and writes is its *driver*,
 * in the store's folder.
 *
 *            begin
 *              v
 *   +---> the driver fetches: moment, row …, queue
 *   |          v
 *   |       decide --ANSWERED--> the answers are final; nothing is written
 *   |          |  `--APART-----> each request by itself
 *   +--FETCH---+
 *   |          | WRITE
 *   |          v
 *   |      the driver writes
 *   |          |--applied------> written: the answers are final; now notify
 *   +--again---+--conflict
 *              `--no reply-----> lost: the answers are UNKNOWN
 *
 * After a lost reply the core sends the same request again, or cancels it. It
 * is found by its id then: its claim has a row of its own. A late copy of the
 * write does nothing: once the request was answered or cancelled, a row that
 * the copy guards has another stamp; and when what a cancel leaves is
 * forgotten, not_after has passed.
 *
 * The rows of a name, and one of the whole store:
 *
 *   lock      the last token, and the params. It is written, be it with the
 *             same bytes, by whatever changes who holds, who waits, or in what
 *             order. Left out are a renewal and a sign of life, which put off
 *             an end, and the arrival of a waiter behind all others: they
 *             matter only to who saw that end pass, or the end of the queue.
 *   arrivals  the last number that a waiter was given; written by each arrival.
 *   claim     one for each request.
 *   floor     the highest token of names whose lock row the cleaner removed.
 *
 * What is guarded: the row of the request itself; each row that is written, and
 * each claim that was seen to be past its end; the lock row, if anything of the
 * name was looked at besides the own claim; the arrivals, if the queue was
 * looked through to its end, or was found too short. So renewals conflict with
 * nothing, and who queues behind somebody disturbs no release.
 *
 * What the driver owes:
 *   - a fetch shows all rows as of one moment; the clock is read with them, or
 *     behind them, and never before `sent`
 *   - no key gets a stamp twice, not even after it was deleted; none is 0
 *   - a write is applied as one, and not at all in another epoch than it was
 *     fetched from, nor after not_after by the store's clock
 *
 * Forbidden: to notify before the write was applied; to answer from a write of
 * which no reply came; to count a lease from the store's clock. */
#ifndef SNIB__SNAPSHOT_H
#define SNIB__SNAPSHOT_H

#include "core/snapshot/layout.h"

/* The most requests that are decided on together. */
#define SNIB__SNAPSHOT_MAX 32
/* So many waiters are fetched at first; a step that looks further fetches
 * all. */
#define SNIB__SNAPSHOT_WAITERS 16

typedef enum snib__key_kind {
    SNIB__KEY_LOCK,
    SNIB__KEY_ARRIVALS,
    SNIB__KEY_CLAIM,
    SNIB__KEY_FLOOR
} snib__key_kind;

struct snib__key {
    snib__key_kind kind;
    const struct snib__name *name; /* borrowed; NULL: FLOOR */
    uint64_t request[2];           /* CLAIM */
};

/* One row of a guarded write. */
typedef enum snib__guard_todo {
    SNIB__GUARD_KEEP, /* only compare its stamp */
    SNIB__GUARD_PUT,
    SNIB__GUARD_DELETE
} snib__guard_todo;

struct snib__guard {
    struct snib__key key;
    uint64_t stamp; /* the row must have it still; 0: must be absent */
    snib__guard_todo todo;
    size_t at, size; /* PUT: its bytes in snapshot.bytes */
};

/* A waiter that was granted the name, or a holder that was ended by force. */
struct snib__told {
    const struct snib__name *name;
    uint64_t client[2], request[2];
    char notifier[40];
};

/* What the driver learns together with the rows. */
struct snib__moment {
    snib_instant sent; /* the client's clock, before the fetch was sent */
    snib_instant now;  /* the store's clock, Unix time */
    uint64_t epoch;  /* one life of the server; a restored backup is another */
    int64_t highest; /* highest token of all lock rows, if it was asked for */
};

typedef enum snib__snapshot_todo {
    SNIB__SNAPSHOT_ANSWERED,
    SNIB__SNAPSHOT_WRITE,
    SNIB__SNAPSHOT_FETCH, /* again: more is asked for than before */
    SNIB__SNAPSHOT_APART  /* one request is refused for a reason that would undo
                             the others: begin with each of them alone */
} snib__snapshot_todo;

struct snib__snapshot_lock {
    const struct snib__name *name; /* borrowed from a request */
    uint64_t stamp, arrivals_stamp;
    struct snib__lock_row row;
    int64_t arrivals;
    /* Fewer waiters were fetched than there are: how many, the lowest rank of
     * all, and the last one of which it is known that nobody is missing before
     * it. */
    bool cut;
    uint32_t waiting, fetched;
    int last_rank;
    struct snib__stored_claim last;
    /* What the step has relied on, and what it has changed. */
    bool read, read_end, counted;
    bool changed, arrived;
};

struct snib__snapshot_claim {
    struct snib__stored_claim c;
    uint32_t lock;
    uint64_t stamp; /* 0: made by this step */
    bool changed, gone;
    bool left;         /* it waits, and its party has certainly ended */
    bool seen_over;    /* the step saw that its `until` had passed */
    const void *about; /* borrowed from the fetched row or from the request */
    size_t about_size;
};

struct snib__snapshot {
    struct snib__book book; /* first member: see snapshot_book.c */
    char notifier[40]; /* how this client is notified; the driver sets it */

    /* What to fetch: of each name the lock row, the arrivals, all claims that
     * do not wait, the claims of these requests, and so many waiters, the first
     * of the queue; the floor; and the highest token, if that is set. */
    struct snib__request *request[SNIB__SNAPSHOT_MAX];
    uint32_t requests;
    struct snib__snapshot_lock lock[SNIB__SNAPSHOT_MAX];
    uint32_t locks;
    uint32_t waiters;
    bool want_highest;

    /* What to write. */
    struct snib__guard *guard;
    uint32_t guards;
    struct snib__buf bytes;
    snib_instant not_after; /* by the store's clock */
    uint64_t epoch;

    /* Whom to notify once that is applied. */
    struct snib__told *told;
    uint32_t tolds;

    /* Inside. */
    struct {
        int64_t token, floor;
        uint32_t reserve, permits;
        snib__answer answer;
    } asked[SNIB__SNAPSHOT_MAX];
    struct snib__snapshot_claim *claim;
    uint32_t claims, claim_capacity, guard_capacity, told_capacity;
    int64_t floor, highest;
    uint64_t floor_stamp;
    bool floor_changed, more;
    struct snib_error error; /* of a row that could not be read */
};

void snib__snapshot_init(struct snib__snapshot *, const uint64_t client[2]);
void snib__snapshot_free(struct snib__snapshot *);

/* Begin a step for these requests, at most SNIB__SNAPSHOT_MAX, of verbs that
 * change claims. They are borrowed until the step has ended; their `resent` is
 * true when an earlier send may be executed later. */
void snib__snapshot_begin(struct snib__snapshot *,
                          struct snib__request *const request[],
                          uint32_t count);

/* The fetch has come: first the moment, then each row that there is. The bytes
 * are borrowed until decide() has returned. What cannot be read is answered by
 * decide(). */
void snib__snapshot_moment(struct snib__snapshot *,
                           const struct snib__moment *);
void snib__snapshot_row(struct snib__snapshot *, const struct snib__key *,
                        uint64_t stamp, const void *bytes, size_t size);
/* Whoever waits by this claim, which was handed in before, is there no more: the
 * store sees that the way by which it would be notified is closed. A barrier
 * counts it no longer. (Of a holder a store cannot know that.) */
void snib__snapshot_left(struct snib__snapshot *, const struct snib__key *);
/* This name has more waiters than were fetched: so many in all, and the last of
 * them has this rank. */
void snib__snapshot_queue(struct snib__snapshot *, const struct snib__name *,
                          uint32_t waiting, int last_rank);

snib__snapshot_todo snib__snapshot_decide(struct snib__snapshot *);

/* The write was applied. */
void snib__snapshot_written(struct snib__snapshot *);
/* The write was not applied: fetch again. */
void snib__snapshot_again(struct snib__snapshot *);
/* It is not known whether the write was, or will be, applied. */
void snib__snapshot_lost(struct snib__snapshot *);

#endif
