/* store/quorum/quorum_i.h — what the quorum is made of; for this folder only.
 *
 *   node   one server: a store of its own (Redis), with three of our
 *          connections
 *   task   one request of the core and what it takes at the nodes. It may live
 *          on after the core has its answer: for nodes that are late, that
 *          missed the grant, or that still have to be told of its end.
 *   part   a task's dealings with one node: at most one request under way
 *
 * Files, the lower ones first (each calls only files that stand before it):
 * task.c (a task's memory, timer, answer to the core) · part.c (asking a node,
 * counting) · vote.c (a round's votes) · merge.c (what N nodes saw, as one) ·
 * sweep.c (release, cancel, lost rounds) · renew.c (renew, and bringing nodes in
 * line) · round.c (acquire) · inspect.c (inspect, list, force, doctor) ·
 * answer.c (a node's answers) · state.c · store.c (the table, nodes, timers). */
#ifndef SNIB__QUORUM_I_H
#define SNIB__QUORUM_I_H

#include "core/store.h"
#include "store/quorum/quorum.h"

enum {
    NODES_MAX = SNIB__URL_NODES,
    NODE_CONNS = 3, /* connections of a node */
    BUCKETS = 256,
    SPARE_MAX = 64,      /* tasks kept for later requests */
    SWEEPS_MAX = 128,    /* tasks that end what nobody waits for */
    RESERVE_MAX = 31,    /* tokens a grant may reserve */
    NODE_LEAST_MS = 50,  /* limit of one request to a node */
    FLOOR_AHEAD_MS = 10, /* how far ahead the first token asked for is */
    CLOCKS_APART_MS = 3600 * 1000, /* no node's clock pulls tokens further */
    /* a node that is off by more is not counted */
    TOKENS_APART_MS = 24 * 3600 * 1000,
    POLL_FIRST_MS = 10, /* while another holds: first pause; grows by half … */
    POLL_MOST_MS = 200, /* … up to this */
    /* a split vote: a pause of 0 … 4 round trips, at least 0 … this */
    SPLIT_LEAST_MS = 4,
    SPLIT_MOST_MS = 100,
    SPLIT_ROUNDS = 8,   /* so many such pauses, each longer */
    YIELD_LEAST_MS = 2, /* pause between the end of our grant and asking anew */
    YIELD_MOST_MS = 20,
    REST_FIRST_MS = 50, /* a node that failed is left alone; doubles */
    REST_MOST_MS = 1000,
    BEHIND_MAX = 256,     /* answers a node may owe more than the others */
    LATE_COPY_MS = 10000, /* an acquire is not executed later than this */
    REPAIRS = 2,          /* how often a node that misses a grant is told */
    REPAIR_MS = 30,
    TRY_ROUNDS = 3,   /* how often a try repeats a split vote */
    INSPECT_MS = 1000 /* patience for one node when asking who holds */
};

typedef enum stage {
    ST_PRIOR,   /* ACQUIRE: our own earlier grant is being ended (yield) */
    ST_ROUND,   /* … all nodes are asked */
    ST_RAISE,   /* … a majority granted, under different tokens */
    ST_REST,    /* … a pause before the next round */
    ST_RENEW,   /* RENEW: all nodes are asked */
    ST_SET,     /* … nodes that do not know the grant are told of it */
    ST_AFTER,   /* both: answered; nodes that miss the grant are told of it */
    ST_SWEEP,   /* RELEASE, CANCEL, lost rounds: ending it everywhere */
    ST_INSPECT, /* INSPECT, LIST, FORCE, DOCTOR */
    ST_DRAIN    /* nothing more to do; answers are still due */
} stage;

typedef enum has {
    HAS_NOTHING, /* surely nothing of this task */
    HAS_MAYBE,   /* asked, no answer */
    HAS_OURS,    /* granted, under a token of its own */
    HAS_GOOD,    /* granted, under the quorum's token */
    HAS_OTHER,   /* said no: it is another's, or not ours any more */
    HAS_FAILED   /* could not be asked */
} has;

typedef enum doing {
    DO_NOTHING,
    DO_ACQUIRE,
    DO_RENEW,
    DO_KEEP,
    DO_RELEASE,
    DO_CANCEL,
    DO_INSPECT
} doing;

struct task;

struct part {
    struct snib__request rq;
    /* of rq, since several answers may come in one step */
    struct snib_error error;
    struct task *task;
    int64_t token; /* HAS_OURS, HAS_GOOD: as the node has recorded it */
    /* HAS_OURS, HAS_GOOD: the node's lease counts from here */
    snib_instant from;
    snib_duration left; /* … and is so long */
    uint8_t node, has, doing;
    bool far; /* HAS_OURS: the token is far ahead of the node's clock */
    /* RENEW: the node does not know the grant. RAISE, AFTER: the node was told
     * of it. SWEEP: a copy may come, so the end must leave a tombstone. */
    bool missed;
    bool revoked;   /* RENEW: force-released there */
    bool forgotten; /* RENEW: nobody holds it there */
    bool plain;     /* SWEEP: a RELEASE will do; else a CANCEL is needed */
};

struct task {
    struct snib__link link; /* in the bucket of its id */
    struct snib__timer timer;
    struct snib__request *parent; /* NULL: answered */
    struct snib__name *name;      /* owned; NULL: none */
    struct snib__buf text;        /* what the request shows to others */
    struct snib__buf *results;    /* one for each node; only for ST_INSPECT */
    /* Of the grant at the nodes. id[0] is the core's; id[1] is drawn anew for
     * each round, since an id that was cancelled is never used again. */
    uint64_t id[2], core_id;
    int64_t token, prior, floor;
    snib_duration lease, left, pause;
    snib_instant began, round_began;
    snib_instant next; /* SWEEP: when nodes that failed are told again */
    /* AFTER: the end of the lease. SWEEP: the end of the lease everywhere.
     * INSPECT: from then on the answers of a majority may do. */
    snib_instant until;
    uint32_t reserve, permits, busy, round, tries, noes;
    uint8_t stage;
    bool background, may_queue, queued, is_sweep;
    bool held; /* lost the last round to another; else too few answered */
    bool far; /* the token is far ahead of the clock of the node that gave it */
    bool revoked; /* RELEASE: a node says that the grant was force-released */
    struct part part[];
};

struct node {
    struct snib__store *store;
    struct snib__out out;    /* its connections are ours, too */
    struct snib__list chain; /* requests of this step */
    struct snib_error error; /* last failure */
    snib_instant rests_until;
    snib_duration rest;
    uint32_t due; /* requests under way */
    bool ever;    /* it has answered at least once */
    bool failing; /* its last request got no answer */
    bool probed;  /* … and one request is out that finds out if it is back */
    bool no_such; /* never answered, and its name is no host's */
};

struct snib__quorum {
    struct snib__out *out;
    const struct snib__node_kind *kind;
    struct snib__rng rng;
    snib_duration patience, node_limit; /* node_limit 0: from the lease */
    snib_duration rtt;                  /* smoothed */
    uint32_t count, majority, sweeps, tasks, spares;
    struct snib__heap timers;
    struct snib__list bucket[BUCKETS];
    struct snib__list spare;
    struct node node[];
};

/* task.c */
struct task *snib__task_new(struct snib__quorum *, const struct snib__name *,
                            const uint64_t id[2]);
void snib__task_free(struct snib__quorum *, struct task *);
/* Free the task as soon as no answer is due. */
void snib__task_end(struct snib__quorum *, struct task *);
void snib__task_timer(struct snib__quorum *, struct task *, snib_instant);
/* Give the core its final answer. snib__task_lost: NO with LOST; revoked: with
 * the text that a node told, which is in parent->reterr. snib__task_tell: any
 * answer; text NULL: the standard text of err. */
void snib__task_lost(struct snib__quorum *, struct task *, bool revoked);
void snib__task_tell(struct snib__quorum *, struct task *, snib__answer,
                     snib_err, const char *text);
int64_t snib__quorum_between(struct snib__quorum *, int64_t least,
                             int64_t most); /* random, both included */

/* part.c */
void snib__part_acquire(struct snib__quorum *, snib_instant now, struct task *,
                        uint32_t k, int64_t floor);
void snib__part_renew(struct snib__quorum *, snib_instant now, struct task *,
                      uint32_t k);
/* Set the grant at a node. anyway: also if the node has given later tokens. */
void snib__part_keep(struct snib__quorum *, snib_instant now, struct task *,
                     uint32_t k, snib_duration lease, bool anyway);
void snib__part_end(struct snib__quorum *, snib_instant now, struct task *,
                    uint32_t k, bool release, bool resent);
void snib__part_inspect(struct snib__quorum *, snib_instant now, struct task *,
                        uint32_t k, snib_instant limit);
uint32_t snib__parts_with(const struct snib__quorum *, const struct task *,
                          has);
/* Does the node owe so many answers more than the others that it is not
 * asked? */
bool snib__node_behind(const struct snib__quorum *, uint32_t k);
/* Is the node not asked, since the others are a majority? It failed, or it is
 * behind. */
bool snib__node_rests(const struct snib__quorum *, snib_instant now,
                      uint32_t k);
/* Append "; ADDRESS: why" to the text. Of a why that does not fit the last
 * advice is left out, or the last words are. */
void snib__node_why(char *text, size_t size, const char *address,
                    const char *why);
/* Why there is no majority, as a text ("no majority: 1 of 3 servers answered, 2
 * must agree; …") and an error. */
snib_err snib__nodes_why(const struct snib__quorum *, const struct task *,
                         char *ret, size_t size);

/* vote.c */
/* Has this part's node granted, and not taken it back? */
bool snib__vote_holds(const struct part *);
bool snib__vote_is_pending(const struct task *, const struct part *);
bool snib__vote_in_good_time(const struct snib__quorum *, snib_instant now,
                             const struct task *);
int64_t snib__vote_first_token(const struct snib__quorum *, snib_instant now);
bool snib__vote_hopeless(const struct snib__quorum *);
bool snib__vote_far_ahead(int64_t token, int64_t than);
int64_t snib__vote_middle(const struct snib__quorum *, const struct task *);

/* round.c */
void snib__round_start(struct snib__quorum *, snib_instant now, struct task *);
void snib__round_check(struct snib__quorum *, snib_instant now, struct task *);
void snib__round_due(struct snib__quorum *, snib_instant now, struct task *);

/* renew.c */
void snib__renew_start(struct snib__quorum *, snib_instant now, struct task *);
void snib__renew_check(struct snib__quorum *, snib_instant now, struct task *);
/* A majority holds the grant: tell the nodes that miss it. */
void snib__after_begin(struct snib__quorum *, snib_instant now, struct task *,
                       snib_instant from);
void snib__after_check(struct snib__quorum *, snib_instant now, struct task *,
                       struct part *);
void snib__after_due(struct snib__quorum *, snib_instant now, struct task *);

/* sweep.c */
void snib__sweep_start(struct snib__quorum *, snib_instant now, struct task *,
                       struct snib__request *);
void snib__sweep_check(struct snib__quorum *, snib_instant now, struct task *,
                       struct part *, doing was);
void snib__sweep_due(struct snib__quorum *, snib_instant now, struct task *);
/* End an id of this task at the nodes of mask; nobody waits for that. token:
 * what the node granted under it, then a RELEASE will do; 0: not known. */
void snib__sweep_behind(struct snib__quorum *, snib_instant now,
                        const struct task *, const uint64_t id[2],
                        uint32_t mask, int64_t token);

/* inspect.c, merge.c */
void snib__inspect_start(struct snib__quorum *, snib_instant now,
                         struct task *);
void snib__inspect_check(struct snib__quorum *, snib_instant now,
                         struct task *);
void snib__merge_locks(const struct snib__quorum *, const struct task *,
                       struct snib__buf *out);
/* True: no answer that is still to come can change who holds which lock. */
bool snib__merge_settled(const struct snib__quorum *, const struct task *);

/* answer.c */
void snib__part_answered(struct snib__quorum *, snib_instant now,
                         struct part *);

/* state.c */
void snib__quorum_state(const struct snib__store *, snib_instant now,
                        struct snib__store_state *ret);
bool snib__quorum_server(const struct snib__store *, snib_instant now,
                         uint32_t node, struct snib__server *ret);

static inline snib_duration snib__quorum_allowance(snib_duration lease)
{
    return (snib_duration){lease.ns / 100 + 5000000};
}

#endif
