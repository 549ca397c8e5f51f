/* store/redis/redis_i.h — what the Redis store is made of; this folder only.
 *
 *   session     the state of one connection, and its *flights*: the requests
 *               sent on it whose replies are awaited, in the order of sending
 *   request     the core's. While the store owns it, the request is UNSENT, in
 *               FLIGHT, due for a RETRY, or waiting: an ACQUIRE that is QUEUED
 *               at the server (and polled, so in flight too, now and then), or
 *               one that was told "held" by somebody else (HELD) and asks again
 *               when it may queue
 *   inspection  the steps of an INSPECT, LIST or DOCTOR
 *
 * Files, the lower ones first (each calls only files that stand before it):
 * errors.c (what an error word means) · state.c (how the server is) · encode.c,
 * keep.c (verbs to bytes; what a quorum asks of a node) · inspection.c,
 * inspect_rows.c, doctor.c (what was found) · request.c (requests, their flights
 * and ends) · value.c, doctor_steps.c, inspect.c (verbs of more steps) · send.c
 * (choosing a connection, sending) · queue.c (waiting, polls, pushed grants) ·
 * reply_error.c, decode.c (replies) · session_end.c (a connection's end) ·
 * login.c, session.c (its logins and greeting) · open.c · store.c (the table and
 * its steps).
 *
 * `now` is the instant of the step that a function runs in. */
#ifndef SNIB__REDIS_I_H
#define SNIB__REDIS_I_H

#include "core/store.h"
#include "proto/resp.h"
#include "redis_scripts.h"
#include "store/redis/redis.h"

enum { CALLERS, BACKGROUND, SUBS, SESSIONS };

enum {
    FLIGHTS_MAX = 1024,         /* replies awaited on one connection        */
    RENEWALS_MAX = 128,         /* renewals in one script call              */
    BATCH_MAX = 8,              /* acquires in one script call              */
    RENEWALS_BYTES = 32 * 1024, /* keys, arguments of one call, about       */
    OUT_SPARE = 96 * 1024,      /* free in a buffer before a command        */
    OUT_LIMIT = 4 * 1024 * 1024,
    BUCKETS = 256,
    ABANDONED = 256, /* ids of ended requests that are remembered           */
    INSPECTS_MAX = 64,
    POLL_LEAST_MS = 50, /* pause of a waiter with a short lease, at least   */
    QUIET_PART = 4,     /* an answer is overdue after patience / 4          */
    MOMENT_PART = 40,   /* silence: patience / 40 after that was seen       */
    POLL_MS = 1000,     /* p: a waiter polls as often as that               */
    WINDOW_MS = 3000,   /* 3p: so long a poll shows that a waiter is alive  */
    POLL_FLOOR_MS = 10,
    SPIN_FIRST_MS = 10, /* first pause of a request that spins; it doubles  */
    SPIN_MOST_MS = 500,
    NOT_AFTER_MS = 9900,       /* after sending: too late to be executed    */
    LATE_COPY_MS = 10000,      /* after a loss: no copy is executed later   */
    FAR_MS = 24 * 3600 * 1000, /* no clock made a token so far ahead        */
    SHOWN_MAX = 1000,          /* holders of a lock: each page reads all    */
    REST_FIRST_MS = 20,        /* back-off: doubles, with jitter            */
    REST_MAX_MS = 1000,
    REST_BARRED_MS = 5000, /* after a greeting that was refused for good    */
    LOGIN_PART = 20, /* a login in vain: again after that part of its time  */
    LOGIN_REST_MS = 100, /* … at least; at most REST_BARRED_MS              */
    LOGIN_ROOM = 16 * 1024, /* bytes that follow a login in one write       */
    RETRY_MS = 100,         /* mean pause after LOADING and the like         */
    MISREAD_MAX = 6,        /* count of strange answers: the pause before a
                              repeat doubles with each up to here           */
    ADDRESS_SHOWN = 100     /* bytes of an address in a text                 */
};

#define MUST_LOAD UINT32_MAX

/* Where the number of the keys' layout stands, and ours (docs/REDIS.md). */
#define SNIB__REDIS_LAYOUT_KEY "snib:layout"
#define SNIB__REDIS_LAYOUT     "1"

typedef enum session_state {
    SESSION_DOWN,    /* not connected, and never wanted so far              */
    SESSION_OPENING, /* the driver is to connect                            */
    SESSION_LOGIN,   /* connected; the program is asked for a login         */
    SESSION_HELLO,   /* connected; the answer to HELLO is awaited           */
    SESSION_SELECT,
    SESSION_PROBE,  /* with a login: may it run our scripts to their end?    */
    SESSION_MARK,   /* the layout's number is written where there is none   */
    SESSION_LAYOUT, /* the number is being read                             */
    SESSION_INFO,   /* which life of the server this is, for who asked       */
    SESSION_TIME,   /* the server's clock is being read                      */
    SESSION_SUBSCRIBE,
    SESSION_REPLICA, /* a replica answered; ROLE asks which its primary is  */
    SESSION_READY,
    SESSION_CLOSING, /* the driver is to close it                           */
    SESSION_RESTING  /* failed; no new attempt before rest_until            */
} session_state;

typedef enum job {
    JOB_HELLO,
    JOB_SELECT,
    JOB_PROBE,
    JOB_MARK,
    JOB_LAYOUT,
    JOB_INFO,
    JOB_TIME,
    JOB_SUBSCRIBE,
    JOB_UNSUBSCRIBE, /* for a login: see login.c */
    JOB_AUTH,
    JOB_PING,
    JOB_ROLE,
    JOB_STRAY, /* ends a grant that nobody waits for any more               */
    JOB_REQUEST
} job;

struct flight {
    struct snib__request *rq; /* NULL: the store's own, or ended meanwhile  */
    uint64_t id[2];
    snib_instant sent;
    /* Set if a pushed grant was delivered while this poll was under way: the
     * grant's token, the server's ms at which its claim lease ends, and the
     * lock's safe name (owned). Else safe is NULL. */
    int64_t delivered, claim_end_ms;
    char *safe;
    uint32_t number; /* in the order of sending on this connection          */
    uint8_t job;
    uint8_t script; /* the script's number + 1; 0: a plain command          */
    uint8_t verb;   /* of a JOB_REQUEST                                     */
    bool last;      /* one reply answers all flights up to this one         */
};

/* What a greeting says of the server; text "" and number 0: it does not say. */
struct greeting {
    char product[32], version[48], role[16], run_id[48];
    int64_t number; /* of the connection, counted since the server began    */
};

struct session {
    session_state state;
    struct greeting greeting;
    snib_instant opened; /* when it was connected                           */
    bool barred; /* resting because the greeting was refused for good       */
    bool doomed; /* closed when nothing is awaited: it answered READONLY    */
    bool ended;  /* … or that its login is over                             */
    bool probes; /* its greeting has the probe: it logs in                  */
    bool unread; /* LOADING hid the layout: doomed by the first answer      */
    /* Logins that the program gives (login.c). */
    bool asked;   /* for one, which has not come                            */
    bool refused; /* the server has refused the latest                      */
    bool proven;  /* a request was answered since it was connected          */
    snib_duration valid;   /* of the latest; 0: for ever                    */
    snib_instant login_at; /* when to ask for the next; 0: not              */
    struct snib__resp *resp;
    struct flight *ring; /* cap is a power of two                           */
    uint32_t cap, head, count, number;
    uint32_t loaded[SNIB__SCRIPTS]; /* number of the last EVAL; 0: none yet;
                                       MUST_LOAD: the next one is an EVAL   */
    snib_instant overdue; /* when we saw that the oldest answer is overdue;
                             0: it is not                                   */
    snib_instant since;   /* when OPENING, the greeting, CLOSING began      */
    snib_instant rest_until;
    snib_instant ping_at; /* SUBS: when the next PING is due                */
    snib_duration rest;   /* the next back-off                              */
    snib_err err;         /* why it failed last; OK since it was READY      */
    char text[252];       /* as much as a struct snib_error shows           */
};

/* Where a request is: the upper bits of request.conn while the store owns the
 * request. The lower two are the connection that it was sent on. */
enum mark {
    M_CONN = 0x03,
    M_UNSENT = 0x04, /* request.link is on an unsent list                   */
    M_FLIGHT = 0x08,
    M_QUEUED = 0x10, /* has a position in the server's queue                */
    M_HELD = 0x20,   /* was told "held"; asks again when it may queue       */
    M_RETRY = 0x40,  /* definitely not applied; its timer sends it again    */
    M_OWNED = 0x80
};

struct inspection;

struct snib__redis {
    struct snib__out *out;
    struct snib__rng rng;
    snib_duration patience;
    int64_t wall_offset_ns; /* REALTIME - BOOTTIME, for the doctor          */
    char client[33];
    char *user, *password;
    bool asks; /* the program gives both, each time                         */
    uint32_t db;
    struct session session[SESSIONS];
    struct snib__list unsent[2]; /* the callers' and the background's       */
    struct snib__list waiting[BUCKETS]; /* every ACQUIRE we own, by id      */
    struct snib__list inspections;
    uint32_t inspection_count, queued, held, owned, poll;
    struct snib__heap timers;
    bool spin;    /* ?wait=spin: only upgrades queue                        */
    bool ever;    /* a connection was READY once                            */
    bool misread; /* the reply being read is not one of our scripts'        */
    int64_t server_ms; /* the server's clock at server_at; 0: not known     */
    snib_instant server_at;
    uint64_t abandoned[ABANDONED][2];
    uint32_t abandoned_at;
    snib_instant copies_until; /* acquires that ended as unknown may still
                                  arrive at the server until then           */
    uint32_t generation;       /* of the subscription's connection          */
    bool heard;                /* the subscription was up once              */
    char channel[64];
    struct greeting shown; /* of the latest greeting                        */
    /* The server that was READY last, and when its highest number was heard:
     * to know it again (state.c). */
    struct greeting met;
    snib_instant met_at; /* 0: none was                                     */
    bool watch;          /* tell when it is another one                     */
    /* What is known of the server. An instant of 0: that is not so. */
    struct {
        snib_instant wanted;    /* when a connection was first asked for    */
        snib_instant good, bad; /* since when it answers; since when not    */
        snib_err err;
        char text[252];
    } state;
};

/* errors.c */
typedef enum error_kind {
    E_RETRY, /* not applied; the cause passes by itself                     */
    E_DROP,  /* not applied; this server is the wrong one: reconnect        */
    E_DENIED,
    E_STORE,
    E_CORRUPT,
    E_NOSCRIPT,
    E_BUG
} error_kind;
error_kind snib__redis_error_kind(const char *text, uint32_t size);
snib_err snib__redis_error_code(error_kind);
/* The text as one clean line for people: printable ASCII, at most size - 1
 * bytes. */
void snib__redis_error_text(char *ret, size_t size, const char *text,
                            uint32_t text_size);
/* The same of an error reply: its first word, and what that word means. */
void snib__redis_error_words(char *ret, size_t size, const char *text,
                             uint32_t text_size);

/* layout.c: the number of the keys' layout */
typedef enum layout_verdict {
    LAYOUT_OURS,   /* or nobody may know                                    */
    LAYOUT_OTHER,  /* of another release, or the key is not ours; the text  */
    LAYOUT_UNREAD, /* the server is loading                                 */
    LAYOUT_STRANGE /* no answer to a GET                                    */
} layout_verdict;
/* Write the number of our layout where none is; read the number. */
void snib__layout_encode_mark(struct snib__buf *);
void snib__layout_encode_get(struct snib__buf *);
/* The answer to the latter. */
layout_verdict snib__layout_read(const struct snib__resp_cell *, char *ret_text,
                                 size_t size);

/* state.c: how the server is, for callers that ask the client */
void snib__state_good(struct snib__redis *, snib_instant now);
/* Read a reply to TIME. */
bool snib__state_clock(const struct snib__resp_cell *, int64_t *ret_ms);
/* since: when the request was sent that is not answered, or else when the
 * trouble was seen. */
void snib__state_bad(struct snib__redis *, snib_instant since, snib_err,
                     const char *text);
/* From when on its oldest answer, which was seen to be overdue, counts as
 * silence of the server. */
snib_instant snib__state_silent_at(const struct snib__redis *,
                                   const struct session *);
void snib__state_read(const struct snib__redis *, snib_instant now,
                      struct snib__store_state *);
/* The value of a field of HELLO's answer; NULL: it has none. */
const struct snib__resp_cell *snib__state_field(const struct snib__resp_cell *,
                                                const char *name);
/* Keep what that answer says of the server, and what the one to INFO does. */
void snib__state_hello(struct snib__redis *, int i,
                       const struct snib__resp_cell *);
void snib__state_info(struct snib__redis *, int i,
                      const struct snib__resp_cell *);
/* The connection is READY: is the server another one than the last? */
void snib__state_met(struct snib__redis *, snib_instant now, int i);
void snib__state_server(const struct snib__redis *, snib_instant now,
                        struct snib__server *);

/* request.c: connections and their flights */
void snib__session_want(struct snib__redis *, snib_instant now, int i);
bool snib__session_has_room(struct snib__redis *, int i, uint32_t flights);
void snib__session_push(struct snib__redis *, int i, const struct flight *);
/* One of the flights of an inspection. script: -1: a plain command. */
void snib__inspect_flight(struct snib__redis *, snib_instant now, int i,
                          struct inspection *, int script);
bool snib__session_pop(struct session *, struct flight *ret);
void snib__session_forget(struct snib__redis *, const struct snib__request *);
/* The pushed grant rq->token is about to be delivered: polls of that request
 * that are still under way remember it. */
void snib__session_overtaken(struct snib__redis *, const struct snib__request *,
                             int64_t claim_end_ms);
bool snib__session_copy_due(struct snib__redis *, const uint64_t id[2]);
/* What a reply says of the server's clock. */
void snib__server_time(struct snib__redis *, snib_instant now, int64_t ms);

/* Can requests be sent on this connection? */
static inline bool snib__session_up(const struct snib__redis *s, int i)
{
    return s->session[i].state == SESSION_READY && !s->session[i].doomed;
}

/* request.c: requests that the store owns */
static inline void snib__request_mark(struct snib__request *rq, int set,
                                      int clear)
{
    rq->store.conn = (uint8_t)((rq->store.conn & ~clear) | set);
}

struct snib__request *snib__request_find(struct snib__redis *,
                                         const uint64_t id[2]);
void snib__request_put(struct snib__redis *, struct snib__request *);
/* It does not wait any more. */
void snib__request_unmark(struct snib__redis *, struct snib__request *);
/* Remember an id that was ended: a grant for it is given back. */
void snib__request_abandon(struct snib__redis *, const uint64_t id[2]);
void snib__request_later(struct snib__redis *, snib_instant now,
                         struct snib__request *, int64_t ms);
/* Final answers. */
void snib__request_finish(struct snib__redis *, struct snib__request *,
                          snib__answer);
void snib__request_fail(struct snib__redis *, struct snib__request *,
                        snib__answer, snib_err, const char *text);
/* An answer that no script of ours gives: the request may have been applied. */
#define SNIB__MISREAD                                                          \
    "the server's answer is not one of our scripts': is something else "       \
    "between it and us?"
void snib__request_misread(struct snib__redis *, struct snib__request *);
/* Fail every unsent request: no connection can be had. */
void snib__request_fail_unsent(struct snib__redis *, snib_err,
                               const char *text);
/* The subscription is refused for good: requests that wait for it to queue
 * (HELD) fail. */
void snib__request_fail_held(struct snib__redis *, snib_err, const char *text);
/* Fail the callers' requests where no connection is up. Queued ones cannot poll
 * then, so all that wait (HELD, QUEUED) fail, too. The background's requests
 * stay. */
void snib__request_fail_callers(struct snib__redis *, snib_err,
                                const char *text);
/* One attempt to connect has failed: fail the requests that were to wait for no
 * more than one (`once`). */
void snib__request_fail_once(struct snib__redis *, snib_err, const char *text);

/* login.c: logins that the program gives */
void snib__login_ask(struct snib__redis *, int i);
/* A login came for this connection. It is good for so long from now on. */
void snib__login_came(struct session *, snib_instant now,
                      const struct snib__input *);
/* Why there is none, for people. */
void snib__login_why(const struct snib__redis *, int i,
                     const struct snib__input *, char *ret, size_t size);
/* Write the SUBSCRIBE of all our channels. */
void snib__login_subscribe(struct snib__redis *, snib_instant now);
/* The connection is READY: log in on it once more. */
void snib__login_renew(struct snib__redis *, snib_instant now, int i,
                       const struct snib__input *);
/* A reply to what snib__login_renew sent. */
void snib__login_reply(struct snib__redis *, snib_instant now, int i, job,
                       const struct snib__resp_cell *);

/* session.c */
void snib__session_opened(struct snib__redis *, snib_instant now, int i);
/* The login came that was asked for, or why there is none. */
void snib__session_login(struct snib__redis *, snib_instant now, int i,
                         const struct snib__input *);
/* A reply to the greeting. */
void snib__session_greeted(struct snib__redis *, snib_instant now, int i,
                           const struct snib__resp_cell *);

/* session_end.c */
/* The connection is no more: everything awaited on it is answered UNKNOWN.
 * shut: ask the driver to close it (else it is closed already). barred: the server
 * refused for good, so the back-off is long and waiting requests end. */
void snib__session_cut(struct snib__redis *, snib_instant now, int i, bool shut,
                       snib_err, const char *text, bool barred);
/* The server refuses the login, and the program may have a newer one by now:
 * connect again, at once. Nobody is told. */
void snib__session_anew(struct snib__redis *, snib_instant now, int i,
                        const char *text);

/* send.c */
void snib__send_start(struct snib__redis *, snib_instant now,
                      struct snib__request *);
/* Send what can be sent. */
void snib__send_flush(struct snib__redis *, snib_instant now);
/* The connection for a request of this kind, or -1. One that is missing is
 * asked for. */
int snib__send_on(struct snib__redis *, snib_instant now, bool background);
/* Send one now; false: no connection is ready, or its buffers are full. */
bool snib__send_now(struct snib__redis *, snib_instant now,
                    struct snib__request *);
/* Definitely not applied: send it once more, ahead of others. */
void snib__send_again(struct snib__redis *, snib_instant now,
                      struct snib__request *);
void snib__send_due(struct snib__redis *, snib_instant now,
                    struct snib__request *);

/* encode.c */
void snib__encode_acquire(struct snib__redis *, struct snib__buf *,
                          const struct snib__request *, bool full,
                          bool may_queue);
/* A batch, in the order given; rq[0]->batch.all: all or none. */
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
/* End the grant with this token; 0: end whatever became of the request. */
void snib__encode_stray(struct snib__redis *, struct snib__buf *,
                        const char *safe, size_t size, const uint64_t id[2],
                        int64_t token);
void snib__encode_script(struct snib__buf *, enum snib__script, bool full,
                         uint32_t keys, uint32_t args);
void snib__encode_key(struct snib__buf *, const char *safe, size_t size,
                      const char *suffix);
/* probe.lua, on keys that belong to no lock */
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
/* keep.c: a RENEW with a floor, which a quorum sends to one of its nodes */
void snib__encode_keep(struct snib__redis *, struct snib__buf *,
                       snib_instant now, const struct snib__request *,
                       bool full);

/* reply_error.c */
void snib__reply_error(struct snib__redis *, snib_instant now, int i,
                       const struct flight *, const char *text, uint32_t size);

/* decode.c: the reply to a flight of JOB_REQUEST. k: the index of the flight
 * among those that this reply answers. */
void snib__decode_reply(struct snib__redis *, snib_instant now, int i,
                        const struct flight *, const struct snib__resp_cell *,
                        uint32_t k);

/* queue.c */
void snib__queue_told(struct snib__redis *, snib_instant now,
                      struct snib__request *, bool queued);
/* A request that does not queue was told "held": it asks again after a pause,
 * which grows. */
void snib__queue_spin(struct snib__redis *, snib_instant now,
                      struct snib__request *);
/* All waiting requests ask again at once. */
void snib__queue_poll_all(struct snib__redis *, snib_instant now);
/* True: this is an array ["message", channel, text], and the text was heeded if
 * the channel is one of ours. */
bool snib__queue_hears(struct snib__redis *, snib_instant now,
                       const struct snib__resp_cell *);
/* The answer to a poll during which a pushed grant was delivered. If that poll
 * was granted or queued anew, nobody waits for it, so it is ended. */
void snib__queue_overtaken(struct snib__redis *, snib_instant now, int i,
                           const struct flight *,
                           const struct snib__resp_cell *);
void snib__queue_channel(struct snib__redis *);
/* The channel on which the client is told of forced releases only, whatever the
 * generation of its subscription. Grants must not come there: a waiter's record
 * from before a failover (on the promoted replica) names an earlier channel of
 * the client, and must not be granted before the waiter has polled again. */
enum { CHANNEL_TOLD_MAX = 40 };
void snib__queue_told_channel(const struct snib__redis *,
                              char ret[CHANNEL_TOLD_MAX]);

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

/* doctor.c: findings, written to the request's rows */
enum doctor_step {
    DOCTOR_PING,
    DOCTOR_TIME,
    DOCTOR_INFO,
    DOCTOR_POLICY,
    DOCTOR_AOF,
    DOCTOR_FSYNC,
    DOCTOR_SAVE,
    DOCTOR_LAYOUT,
    DOCTOR_PROBE,
    DOCTOR_EARS,
    DOCTOR_TIME_AGAIN,
    DOCTOR_SUBS /* no command: the subscription's state */
};

/* What the answer to the question k->step says. */
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
/* A LIST leaves out the lock whose answer is due now, logs why, and goes on.
 * False: it is not a LIST that is inspecting its names. */
bool snib__inspect_leaves_out(struct snib__redis *, snib_instant now, int i,
                              struct snib__request *, const char *why);

/* open.c */
snib_err snib__redis_open(const struct snib__store_config *,
                          struct snib__store **ret, struct snib_error *reterr);
void snib__redis_free(struct snib__store *);

static inline bool snib__redis_inspects(const struct snib__request *rq)
{
    return rq->verb == SNIB__INSPECT || rq->verb == SNIB__LIST ||
           rq->verb == SNIB__DOCTOR;
}

#endif
