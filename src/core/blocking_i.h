/* core/blocking_i.h — the table of a blocking store's requests and their
 * states; for blocking.c, its parts blocking_table.c and blocking_state.c, and
 * sharing.c only. */
#ifndef SNIB__BLOCKING_I_H
#define SNIB__BLOCKING_I_H

#include "core/blocking.h"

/* The state of a request, in its store.where: blocking.c has the table. */
enum {
    SNIB__RQ_WAITING = 0,
    SNIB__RQ_LISTED = 1, /* to be executed, or being executed; bits from here */
    SNIB__RQ_AGAIN = 2,
    SNIB__RQ_ENDING = 4,
    SNIB__RQ_STANDS = 8, /* it was QUEUED once, now or before it was started
                            again: something of it may be there */
    /* Only with sessions: */
    SNIB__RQ_TAKEN = 16, /* LISTED, and a worker has it */
    SNIB__RQ_BEHIND = 32 /* LISTED, and on no list yet */
};

struct snib__store {
    const struct snib__blocking_ops *ops;
    void *instance;
    struct snib__out *out;
    struct snib__heap heap;
    struct snib__rng rng;
    struct snib__list *bucket; /* by id; power of two; in order of starts */
    uint32_t buckets, owned;
    struct { /* what the library said last; err OK: it works */
        snib_err err;
        snib_instant since; /* 0: no request was executed yet */
        /* When the first request was executed since the library last worked, or
         * since a time without requests; 0: not yet. */
        snib_instant asked;
        snib_instant heard;
        bool blocked; /* by other processes */
        char text[sizeof((struct snib_error *)0)->text];
    } last;
    /* A library across a network; else all unused. */
    snib_duration request; /* how long to wait for one answer */
    struct {               /* snib__blocking_crowded */
        uint32_t under_way;
        snib_instant heard;
    } crowd;
    struct snib__sharing {
        struct snib__list listed; /* for its worker to take, in this order */
        bool inside;              /* its worker is in the library */
        snib_instant since;       /* inside: since when */
        bool slow;                /* inside: it may take its time (a scan) */
    } session[SNIB__SESSIONS];
};

static inline struct snib__request *snib__rq_of_own(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__request, store.link);
}

static inline struct snib__request *snib__rq_of_link(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__request, link);
}

static inline bool snib__rq_same_id(const struct snib__request *r,
                                    const uint64_t id[2])
{
    return r->id[0] == id[0] && r->id[1] == id[1];
}

/* blocking_table.c */
struct snib__list *snib__blocking_bucket(struct snib__store *,
                                         const uint64_t id[2]);
/* False: no memory. */
bool snib__blocking_grow(struct snib__store *, uint32_t buckets);
/* Makes room for one more request in the table and the heap. A table that
 * cannot grow only gets slower; a heap that cannot grow refuses the request. */
bool snib__blocking_reserve(struct snib__store *);
/* NULL: there is none. */
struct snib__request *snib__blocking_find_acquire(struct snib__store *,
                                                  const uint64_t id[2]);
/* Is this very request in the table? (The fields of a new one may be
 * garbage.) */
bool snib__blocking_owns(struct snib__store *, const struct snib__request *);
void snib__blocking_forget(struct snib__store *, struct snib__request *);

/* blocking_state.c */
/* Keep what the answer says of the store. A request that was refused for its
 * own sake says nothing of it. */
void snib__blocking_remember(struct snib__store *, snib_instant now,
                             const struct snib__request *);

/* blocking.c */
/* Forget it; its answer goes to out->answered. */
void snib__blocking_answer(struct snib__store *, struct snib__request *);
/* If the library has got neither to this CANCEL nor to its ACQUIRE, both are
 * answered, and true returned. */
bool snib__blocking_cancelled(struct snib__store *, struct snib__request *);

/* sharing.c: only for a library with sessions */
void snib__sharing_init(struct snib__store *, snib_duration request);
/* A RELEASE or CANCEL of this id is about to be started: what no worker has
 * taken of the id is not executed any more. */
void snib__sharing_end(struct snib__store *, const uint64_t id[2]);
/* The request is LISTED now. */
void snib__sharing_list(struct snib__store *, struct snib__request *);
/* Its timer has come, and no worker has taken it. */
void snib__sharing_late(struct snib__store *, snib_instant now,
                        struct snib__request *);
/* It came back, and was dealt with. */
void snib__sharing_back(struct snib__store *, struct snib__request *);
/* True: a call has been inside for too long, and *ret says so. */
bool snib__sharing_stalls(const struct snib__store *, snib_instant now,
                          struct snib__store_state *ret);

#endif
