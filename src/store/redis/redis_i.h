/* store/redis/redis_i.h — what the Redis store is made of; this folder only.
 *
 *   line    a connection: a byte stream, its session state, and the *flights*:
 *           what is awaited on it, in the order of sending
 *   request the core's; here it is UNSENT, in FLIGHT, or waiting (an ACQUIRE
 *           that is QUEUED at the server, or HELD off until we may queue)
 *   look    the steps of an INSPECT, LIST or DOCTOR
 *
 * Files: store.c (the table, due, tick) · session.c (a line's states) ·
 * flights.c (flights, silence, cutting) · send.c (choosing a line, sending) ·
 * encode.c, decode.c (verbs to bytes and back) · queue.c (waiting, polls,
 * pushed grants) · value.c (versioned values) · inspect.c, doctor.c · errors.c
 * (what an error word means) · state.c (how the server is).
 *
 * Every function takes `now` from the step it runs in. */
#ifndef SNIB__REDIS_I_H
#define SNIB__REDIS_I_H

#include "core/store.h"
#include "proto/resp.h"
#include "redis_scripts.h"
#include "store/redis/redis.h"

enum { CALLERS, BACKGROUND, SUBS, SESSIONS };

enum {
    FLIGHTS_MAX = 1024, /* awaited on one line                          */
    RENEWALS_MAX = 128, /* renewals in one script                       */
    BATCH_MAX = 8,      /* acquires in one script                       */
    RENEWALS_BYTES =
        32 * 1024,         /* of names in one batch                       */
    OUT_SPARE = 96 * 1024, /* room left in a line's buffer for one command */
    OUT_LIMIT = 4 * 1024 * 1024,
    BUCKETS = 256,
    ABANDONED = 256, /* cancelled ids remembered                     */
    INSPECTS_MAX = 64,
    POLL_LEAST_MS = 50, /* short leases poll as often as that          */
    QUIET_PART = 4,     /* of the patience: an answer is overdue       */
    MOMENT_PART = 40,   /* … and when we have seen that: silence       */
    POLL_MS = 1000,     /* p: a waiter's sign of life                   */
    WINDOW_MS = 3000,   /* alive for 3p                                 */
    POLL_FLOOR_MS = 10,
    SPIN_FIRST_MS = 10, /* doubles                                 */
    SPIN_MOST_MS = 500,
    NOT_AFTER_MS = 9900, /* a request is not executed later than that    */
    LATE_COPY_MS = 10000,
    FAR_MS = 24 * 3600 * 1000, /* a token beyond that is no clock's          */
    SHOWN_MAX = 1000,          /* holders of a lock: each page reads all      */
    REST_FIRST_MS = 20, /* back-off: doubles, with jitter               */
    REST_MAX_MS = 1000,
    REST_BARRED_MS = 5000, /* after a refused login                        */
    RETRY_MS = 100,        /* LOADING and the like                         */
    MISREAD_MAX = 6,       /* doublings of REST_FIRST_MS between repeats   */
    ADDRESS_SHOWN = 100    /* bytes of an address in a text                */
};

#define MUST_LOAD UINT32_MAX

typedef enum session_state {
    SESSION_DOWN,    /* not connected, nobody wants it                      */
    SESSION_OPENING, /* run was asked to connect                            */
    SESSION_HELLO,   /* connected; the answer to HELLO is awaited           */
    SESSION_SELECT,
    SESSION_PROBE, /* with a login: may it run our scripts to their end?  */
    SESSION_TIME,  /* learning the server's clock                         */
    SESSION_SUBSCRIBE,
    SESSION_REPLICA, /* the wrong server: which is its primary?             */
    SESSION_READY,
    SESSION_CLOSING, /* run was asked to close it                           */
    SESSION_RESTING  /* failed; back-off until rest_until                   */
} session_state;

typedef enum job {
    JOB_HELLO,
    JOB_SELECT,
    JOB_PROBE,
    JOB_TIME,
    JOB_SUBSCRIBE,
    JOB_PING,
    JOB_ROLE,
    JOB_STRAY, /* ends a grant that nobody waits for any more         */
    JOB_REQUEST
} job;

struct flight {
    struct snib__request *rq; /* NULL: the store's own, or over meanwhile   */
    uint64_t id[2];
    snib_instant sent;
    /* A poll that a pushed grant has overtaken: the token that was delivered,
     * the server's ms at which its claim ends, the lock's safe name (owned). */
    int64_t delivered, claim_end_ms;
    char *safe;
    uint32_t number; /* in order of sending on this line           */
    uint8_t job;
    uint8_t script; /* + 1; 0: a plain command                    */
    uint8_t verb;   /* JOB_REQUEST                                */
    bool last;      /* the reply answers up to this one           */
};

struct session {
    session_state state;
    bool barred; /* resting because login was refused          */
    bool doomed; /* READONLY: close when nothing is awaited    */
    struct snib__resp *resp;
    struct flight *ring; /* cap is a power of two                      */
    uint32_t cap, head, count, number;
    uint32_t loaded[SNIB__SCRIPTS]; /* number of the last EVAL; 0: none yet;
                                       MUST_LOAD: the next one is an EVAL   */
    snib_instant overdue; /* when we saw that its oldest answer is; 0: not */
    snib_instant since;   /* OPENING, handshake: began                  */
    snib_instant rest_until;
    snib_instant ping_at; /* SUBS                                       */
    snib_duration rest;   /* next back-off                              */
    snib_err err;         /* why it failed last, OK: it did not         */
    char text[252];       /* as much as a struct snib_error shows       */
};

/* Where a request is: in the upper bits of request.chan while the store owns
 * it (the lower two are the line it went out on). */
enum mark {
    M_CONN = 0x03,
    M_UNSENT = 0x04, /* request.link is on an unsent list                  */
    M_FLIGHT = 0x08,
    M_QUEUED = 0x10, /* has a place at the server                          */
    M_HELD = 0x20,   /* was told "held"; asks again when it may queue      */
    M_RETRY = 0x40,  /* definitely not applied; its timer sends it again   */
    M_OWNED = 0x80
};

struct snib__redis {
    struct snib__out *out;
    struct snib__rng rng;
    snib_duration patience;
    int64_t wall_offset_ns; /* for doctor                       */
    char client[33];
    char *user, *password;
    uint32_t db;
    struct session session[SESSIONS];
    struct snib__list unsent[2]; /* callers', background'                */
    struct snib__list waiting[BUCKETS]; /* every ACQUIRE we own, by id      */
    struct snib__list inspections;
    uint32_t inspection_count, queued, held, owned, poll;
    struct snib__heap timers;
    bool spin;    /* nobody queues: ?wait=spin          */
    bool ever;    /* a line was READY once             */
    bool misread; /* the reply that is being read is none of our scripts' */
    int64_t server_ms; /* 0: not known                      */
    snib_instant server_at;
    uint64_t abandoned[ABANDONED][2];
    uint32_t abandoned_at;
    snib_instant copies_until; /* copies of unknown acquires may
                                          still arrive until then           */
    uint32_t generation;       /* of the subscription               */
    bool heard;                /* it was up once                    */
    char channel[64];
    /* What is known of the server; the instants are 0 until it is so. */
    struct {
        snib_instant wanted;    /* first asked for a connection            */
        snib_instant good, bad; /* since when it answers; since when not   */
        snib_err err;
        char text[252];
    } state;
};

/* errors.c */
typedef enum error_kind {
    E_RETRY, /* not applied, passes by itself                            */
    E_DROP,  /* not applied, this server is the wrong one: reconnect     */
    E_DENIED,
    E_STORE,
    E_CORRUPT,
    E_NOSCRIPT,
    E_BUG
} error_kind;
error_kind snib__redis_error_kind(const char *text, uint32_t size);
snib_err snib__redis_error_code(error_kind);
/* One clean line for people: printable ASCII, at most size - 1 bytes. */
void snib__redis_error_text(char *ret, size_t size, const char *text,
                            uint32_t text_size);
/* … of an error reply: its word, and what that means. */
void snib__redis_error_words(char *ret, size_t size, const char *text,
                             uint32_t text_size);

/* state.c: how the server is, for who asks the client */
void snib__state_good(struct snib__redis *, snib_instant now);
/* since: when it answered last, or began not to. */
void snib__state_bad(struct snib__redis *, snib_instant since, snib_err,
                     const char *text);
void snib__state_read(const struct snib__redis *, snib_instant now,
                      struct snib__store_state *);

/* flights.c */
void snib__session_want(struct snib__redis *, snib_instant now, int i);
void snib__session_push(struct snib__redis *, int i, const struct flight *);
bool snib__session_pop(struct session *, struct flight *ret);
bool snib__session_has_room(struct snib__redis *, int i, uint32_t flights);
/* The line is no more: everything awaited on it is unknown. shut: ask run to
 * close it (else it is closed already). */
void snib__session_cut(struct snib__redis *, snib_instant now, int i, bool shut,
                       snib_err, const char *text, bool barred);
void snib__session_forget(struct snib__redis *, const struct snib__request *);
/* A grant of this token is about to be delivered: polls of it that are still
 * under way remember that. */
void snib__session_overtaken(struct snib__redis *, const struct snib__request *,
                             int64_t claim_end_ms);
bool snib__session_copy_due(struct snib__redis *, const uint64_t id[2]);
snib_instant snib__session_due(const struct snib__redis *, int i);
/* When its oldest answer, seen to be overdue, counts as silence. */
snib_instant snib__session_silent_at(const struct snib__redis *,
                                     const struct session *);
void snib__session_tick(struct snib__redis *, snib_instant now, int i);
bool snib__session_wanted(const struct snib__redis *, int i);

/* session.c */
void snib__session_opened(struct snib__redis *, snib_instant now, int i);
void snib__session_bytes(struct snib__redis *, snib_instant now, int i,
                         const void *, size_t);

/* send.c */
void snib__send_start(struct snib__redis *, snib_instant now,
                      struct snib__request *);
/* Send what can be sent. */
void snib__send_flush(struct snib__redis *, snib_instant now);
/* The line for a request of this kind, or -1; asks for one to be opened. */
int snib__send_on(struct snib__redis *, snib_instant now, bool background);
/* Send one now; false: no line is free. */
bool snib__send_now(struct snib__redis *, snib_instant now,
                    struct snib__request *);
void snib__send_later(struct snib__redis *, snib_instant now,
                      struct snib__request *, int64_t ms);
/* Definitely not applied: send it once more, ahead of others. */
void snib__send_again(struct snib__redis *, snib_instant now,
                      struct snib__request *);
void snib__send_due(struct snib__redis *, snib_instant now,
                    struct snib__request *);
/* Final answers. */
void snib__request_finish(struct snib__redis *, struct snib__request *,
                          snib__answer);
void snib__request_fail(struct snib__redis *, struct snib__request *,
                        snib__answer, snib_err, const char *text);
/* An answer that is none of our scripts': it may have been applied. */
#define SNIB__MISREAD                                                          \
    "the server's answer is not one of our scripts': is something else "       \
    "between it and us?"
void snib__request_misread(struct snib__redis *, struct snib__request *);
/* Every unsent request: no line can be had. */
void snib__request_fail_unsent(struct snib__redis *, snib_err,
                               const char *text);
/* Waiting would not help: all who wait, in the queue too. What background want
 * stays. */
void snib__request_fail_callers(struct snib__redis *, snib_err,
                                const char *text);
/* One attempt to connect has failed: those who want no more than that. */
void snib__request_fail_once(struct snib__redis *, snib_err, const char *text);

/* encode.c */
void snib__encode_acquire(struct snib__redis *, struct snib__buf *,
                          const struct snib__request *, bool full,
                          bool may_queue);
/* In the order given; rq[0] says whether all or none. */
void snib__encode_several(struct snib__redis *, struct snib__buf *,
                          struct snib__request *const rq[], uint32_t count,
                          bool full);
void snib__encode_release(struct snib__redis *, struct snib__buf *,
                          const struct snib__request *, bool full,
                          bool tombstone);
void snib__encode_cancel(struct snib__redis *, struct snib__buf *,
                         const struct snib__request *, bool full);
void snib__encode_force(struct snib__redis *, struct snib__buf *,
                        const struct snib__request *, bool full);
void snib__encode_params(struct snib__redis *, struct snib__buf *,
                         const struct snib__request *, bool full);
void snib__encode_inspect(struct snib__redis *, struct snib__buf *,
                          const char *safe, size_t size, uint32_t from,
                          bool full);
/* token 0: whatever became of the request */
void snib__encode_stray(struct snib__redis *, struct snib__buf *,
                        const char *safe, size_t size, const uint64_t id[2],
                        int64_t token);
void snib__encode_script(struct snib__buf *, enum snib__script, bool full,
                         uint32_t keys, uint32_t args);
void snib__encode_key(struct snib__buf *, const char *safe, size_t size,
                      const char *suffix);
/* probe.lua, on keys that no lock can have */
void snib__encode_probe(struct snib__redis *, struct snib__buf *);
void snib__encode_hex(char ret[33], const uint64_t id[2]);
void snib__encode_renew_head(struct snib__redis *, struct snib__buf *,
                             uint32_t count, bool full);
void snib__encode_renew_keys(struct snib__buf *, const struct snib__request *);
void snib__encode_renew_args(struct snib__buf *, const struct snib__request *);

/* value.c */
void snib__encode_value_get(struct snib__buf *, const struct snib__request *,
                            bool full);
void snib__encode_value_put(struct snib__redis *, snib_instant now,
                            struct snib__buf *, const struct snib__request *,
                            bool full);
void snib__value_reply(struct snib__redis *, snib_instant now,
                       struct snib__request *, const struct snib__resp_cell *);
/* keep.c: a RENEW with a floor, to a node of a quorum */
void snib__encode_keep(struct snib__redis *, struct snib__buf *,
                       snib_instant now, const struct snib__request *,
                       bool full);

/* decode.c: the reply to a flight of JOB_REQUEST; k: its place among those
 * that this reply answers */
void snib__decode_reply(struct snib__redis *, snib_instant now, int i,
                        const struct flight *, const struct snib__resp_cell *,
                        uint32_t k);
void snib__server_time(struct snib__redis *, snib_instant now, int64_t ms);

/* queue.c */
struct snib__request *snib__queue_find(struct snib__redis *,
                                       const uint64_t id[2]);
void snib__queue_put(struct snib__redis *, struct snib__request *);
void snib__queue_told(struct snib__redis *, snib_instant now,
                      struct snib__request *, bool queued);
/* "Held", to one that does not queue: asks again after a pause that grows. */
void snib__queue_spin(struct snib__redis *, snib_instant now,
                      struct snib__request *);
void snib__queue_unmark(struct snib__redis *, struct snib__request *);
/* All waiting requests ask again at once. */
void snib__queue_poll_all(struct snib__redis *, snib_instant now);
void snib__queue_message(struct snib__redis *, snib_instant now,
                         const char *text, uint32_t size);
/* The answer to a poll that was overtaken: what it granted is nobody's. */
void snib__queue_overtaken(struct snib__redis *, snib_instant now, int i,
                           const struct flight *,
                           const struct snib__resp_cell *);
void snib__queue_abandon(struct snib__redis *, const uint64_t id[2]);
void snib__queue_channel(struct snib__redis *);
/* Where the client is told of forced releases only, whatever the number of its
 * subscription. Grants must not come there: a waiter's record of before (the
 * promoted replica's) names the client's first channel, and is not to be
 * believed before it has polled. */
enum { CHANNEL_TOLD_MAX = 40 };
void snib__queue_told_channel(const struct snib__redis *,
                              char ret[CHANNEL_TOLD_MAX]);
/* The subscription is refused for good: who waits for it cannot queue. */
void snib__queue_barred(struct snib__redis *, snib_err, const char *text);
/* Neither can those who wait there be polled: all who wait end. */
void snib__queue_end(struct snib__redis *, snib_err, const char *text);

/* inspect.c, doctor.c */
bool snib__inspect_send(struct snib__redis *, snib_instant now, int i,
                        struct snib__request *);
void snib__inspect_reply(struct snib__redis *, snib_instant now, int i,
                         struct snib__request *,
                         const struct snib__resp_cell *);
void snib__inspect_end(struct snib__redis *, struct snib__request *);
/* The subscription came up or was refused: doctors wait for that. */
void snib__inspect_subs(struct snib__redis *, snib_instant now);

struct inspection {
    struct snib__link link;
    struct snib__request *rq;
    uint32_t step;    /* of a doctor; next first place (inspect)   */
    uint32_t awaited; /* replies due                               */
    /* LIST: names found (length u32, bytes), and where each is, by hash    */
    struct snib__buf names;
    uint32_t *table; /* offset + 1; 0: free                       */
    uint32_t table_size, name_count;
    uint32_t shown; /* offset of the next name to inspect        */
    int64_t cursor;
    bool scanned;
    snib_instant sent;   /* the last page                             */
    snib_duration busy;  /* what all of it has taken, but for pauses  */
    snib_instant resume; /* it pauses until then; 0: it does not      */
    snib_instant opened; /* … and goes on on this line, if that is    */
    int session;         /* still the connection that it was          */
    /* DOCTOR */
    snib_instant begun, time_at;
    int64_t time_ms;
    bool waits_subs, refuses; /* … to work, says PING                  */
};
/* True: it pauses, and may have gone on now. */
bool snib__inspect_due(struct snib__redis *, snib_instant now,
                       struct snib__request *);
/* A LIST goes on without the lock that it looks at, and says why. False: it is
 * no such look. */
bool snib__inspect_leaves_out(struct snib__redis *, snib_instant now, int i,
                              struct snib__request *, const char *why);
/* The server could not be asked: that is a finding, too. */
void snib__doctor_failed(struct snib__request *, snib_err, const char *text);
bool snib__doctor_send(struct snib__redis *, snib_instant now, int i,
                       struct inspection *);
void snib__doctor_reply(struct snib__redis *, snib_instant now, int i,
                        struct inspection *, const struct snib__resp_cell *);
bool snib__inspect_rows(struct snib__redis *, struct snib__request *,
                        const char *safe, size_t size,
                        const struct snib__resp_cell *, bool first);
void snib__inspect_flight(struct snib__redis *, snib_instant now, int i,
                          struct inspection *, int script);

static inline bool snib__redis_inspects(const struct snib__request *rq)
{
    return rq->verb == SNIB__INSPECT || rq->verb == SNIB__LIST ||
           rq->verb == SNIB__DOCTOR;
}

#endif
