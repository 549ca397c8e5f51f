/* store/redis/inspect_i.h — INSPECT, LIST and DOCTOR: the verbs of more steps
 * than one command and its reply.
 *
 * Each has an inspection while the store owns its request: which step it is at,
 * and what the steps before have found. */
#ifndef SNIB__REDIS_INSPECT_I_H
#define SNIB__REDIS_INSPECT_I_H

#include "snib/inspect.h"
#include "store/redis/redis_i.h"

static inline bool snib__redis_inspects(const struct snib__request *rq)
{
    return rq->verb == SNIB__INSPECT || rq->verb == SNIB__LIST ||
           rq->verb == SNIB__DOCTOR;
}

/* Does it name the epoch, so that a recovery is seen? Not where the store has
 * none, nor where nobody looks at that, nor if this user may not. */
static inline bool snib__inspect_shows(const struct snib__redis *s,
                                       const struct snib__request *rq)
{
    return s->recovery_ms || (!s->slots && !s->scripts_only &&
                              !rq->store.unmarked && !rq->list.awaited_only);
}

/* inspection.c */
struct inspection {
    struct snib__link link;
    struct snib__request *rq;
    uint32_t step;    /* DOCTOR: a question; INSPECT: first position of
                         the next page                                      */
    uint32_t awaited; /* replies due                                        */
    /* LIST: names found (length u32, bytes), and where each is, by hash    */
    struct snib__buf names;
    uint32_t *table; /* offset + 1; 0: free                                 */
    uint32_t table_size, name_count;
    uint32_t shown; /* offset of the next name to inspect                   */
    int64_t cursor;
    bool scanned;
    snib_instant sent;   /* when the last page was asked for                */
    snib_duration busy;  /* time of all pages, without the pauses           */
    snib_instant resume; /* pauses until then; 0: it does not pause         */
    snib_instant opened; /* `since` of the session below: the scan goes on  */
    int session;         /* only if that is still the same connection       */
    /* DOCTOR */
    snib_instant begun, time_at;
    int64_t time_ms;
    bool waits_subs, refuses; /* PING said that the server will not work    */
    bool down;  /* it said that the cluster is                              */
    bool stuck; /* MULTI was taken, and EXEC not yet or not at all          */
    char life[41];      /* its replication id; "": it does not say          */
    uint32_t connected; /* replicas                                         */
};

struct inspection *snib__inspection_new(struct snib__redis *,
                                        struct snib__request *);
/* NULL: this request has none. */
struct inspection *snib__inspection_find(struct snib__redis *,
                                         const struct snib__request *);
void snib__inspection_end(struct snib__redis *, struct snib__request *);
/* Add a name unless it is there. False: there is no memory for it. */
bool snib__inspection_add(struct inspection *, const char *safe, uint32_t size);
/* The name at this offset. An entry of names is its length (u32) and its
 * bytes. */
const char *snib__inspection_name(const struct inspection *, uint32_t offset,
                                  uint32_t *ret_size);

/* findings, written to the request's rows */
enum doctor_step {
    DOCTOR_PING,
    DOCTOR_TIME,
    DOCTOR_INFO,
    DOCTOR_POLICY,
    DOCTOR_AOF,
    DOCTOR_FSYNC,
    DOCTOR_SAVE,
    DOCTOR_LAYOUT,
    DOCTOR_MARK,
    DOCTOR_MULTI,
    DOCTOR_EXEC,
    DOCTOR_PROBE,
    DOCTOR_EARS,
    DOCTOR_TIME_AGAIN,
    DOCTOR_SUBS /* no command: the subscription's state */
};

/* doctor_keys.c */
void snib__doctor_row(struct snib__buf *, snib_level, const char *check,
                      const char *text, const char *remedy);
void snib__doctor_tell(struct inspection *, snib_level, const char *check,
                       const char *text, const char *remedy);
/* True: the server refuses to say what this check looks at, and that is told. */
bool snib__doctor_refused(struct inspection *, const struct snib__resp_cell *,
                          const char *check, const char *what);
/* True: the error is none of rights; the server refuses to work. */
bool snib__doctor_no_right(const struct snib__resp_cell *);
/* Has the node refused to answer because the cluster is down? Then that is told,
 * once. */
bool snib__doctor_down(const struct snib__redis *, struct inspection *,
                       const struct snib__resp_cell *);
void snib__doctor_layout(struct inspection *, const struct snib__resp_cell *);
void snib__doctor_mark(struct inspection *, const struct snib__resp_cell *);
void snib__doctor_epoch(const struct snib__redis *, struct inspection *,
                        const struct snib__resp_cell *);
void snib__doctor_packet(struct inspection *, const struct snib__resp_cell *);

/* doctor_info.c: what the answer to INFO says. */
void snib__doctor_info(const struct snib__redis *, struct inspection *,
                       const struct snib__resp_cell *);

/* doctor.c: what the answer to the question k->step says. */
void snib__doctor_judge(const struct snib__redis *, snib_instant now,
                        struct inspection *, const struct snib__resp_cell *);
void snib__doctor_subscription(struct snib__redis *, struct inspection *);
/* The server could not be asked: that becomes a finding, too. */
void snib__doctor_failed(struct snib__request *, snib_err, const char *text);

/* doctor_steps.c */
bool snib__doctor_send(struct snib__redis *, snib_instant now, int i,
                       struct inspection *);
void snib__doctor_reply(struct snib__redis *, snib_instant now, int i,
                        struct inspection *, const struct snib__resp_cell *);
/* The subscription came up or was refused: each DOCTOR waits for that. */
void snib__inspect_subs(struct snib__redis *, snib_instant now);

/* inspect_rows.c: write one reply of inspect.lua as rows. first: begin with the
 * row of the lock itself. False: this is no reply of our script. */
bool snib__inspect_rows(struct snib__redis *, struct snib__request *,
                        const char *safe, size_t size,
                        const struct snib__resp_cell *, bool first);

/* inspect.c */
/* May an inspection be sent on this session now? Else it waits, unsent. */
bool snib__inspect_has_room(struct snib__redis *, int i);
/* Send it; there is room. False: no memory. */
bool snib__inspect_send(struct snib__redis *, snib_instant now, int i,
                        struct snib__request *);
void snib__inspect_reply(struct snib__redis *, snib_instant now, int i,
                         struct snib__request *,
                         const struct snib__resp_cell *);
/* False: this request does not pause. True: it does, or has just gone on. */
bool snib__inspect_due(struct snib__redis *, snib_instant now,
                       struct snib__request *);
/* Has a LIST that finds more and more gone on for as long as it may? Then
 * *text says so. */
bool snib__inspect_too_long(struct snib__redis *, snib_instant now,
                            const struct snib__request *, char *text,
                            size_t size);
/* A LIST leaves out the lock whose answer is due now, logs why, and goes on.
 * damaged: its row says so, too. False: it is not a LIST that is inspecting its
 * names. */
bool snib__inspect_leaves_out(struct snib__redis *, snib_instant now, int i,
                              struct snib__request *, const char *why,
                              bool damaged);

/* inspect_reply.c: the reply to a flight of an inspection. */
void snib__inspect_answered(struct snib__redis *, snib_instant now, int i,
                            const struct flight *,
                            const struct snib__resp_cell *);

/* request.c */
/* One of the flights of an inspection. script: -1: a plain command. */
void snib__inspect_flight(struct snib__redis *, snib_instant now, int i,
                          struct inspection *, int script);

#endif
