/* store/redis/redis_i.h — what the Redis store is made of; this folder only.
 *
 *   session     the state of one connection, and its flights (session_i.h)
 *   request     the core's. While the store owns it, the request is UNSENT, in
 *               FLIGHT, due for a RETRY, or waiting: an ACQUIRE that is QUEUED
 *               at the server (and polled, so in flight too, now and then), or
 *               one that was told that another holds the lock, and asks again
 *               when it may queue (TO_QUEUE)
 *   inspection  the steps of an INSPECT, LIST or DOCTOR (inspect_i.h)
 *
 * Files, the lower ones first (each calls only files that stand before it, but
 * that watch.c and session.c call each other): errors.c (what an error word
 * means) · slot.c (the slot of a key) · slots.c (which node of a cluster serves
 * what) · topology.c (which of several servers is the primary, as far as is
 * known) · state.c (how the server is) · layout.c (the number of the keys'
 * layout) · encode.c, keep.c (verbs to bytes; setting what was forgotten) ·
 * recovery.c (?recovery=) · inspection.c, inspect_rows.c, doctor_keys.c,
 * doctor.c (what was found) · request.c (requests, their flights and ends) ·
 * confirm.c (?replicas=) · node.c (of a cluster: what the nodes say of each
 * other) · value.c, doctor_steps.c, inspect.c (verbs of more steps) · packet.c
 * (which requests go without their scripts, and what they are granted) · send.c
 * (choosing a connection, sending) · late.c (limits) · queue.c (waiting, polls,
 * pushed grants) · ended.c (releases that a failover loses) · reply_error.c,
 * packet_reply.c, decode.c (replies) ·
 * session_end.c (a connection's end) · watch.c (asking for the primary) ·
 * login.c, rights.c, session.c (logins and greeting) · open.c · store.c (steps).
 *
 * In this folder `s` is the store, `i` the number of a connection, `l` its
 * session, `f` a flight, `rq` a request, `c` a reply, `t` the topology, `k` an
 * inspection, `b` what is written to. `now` is the instant of the step that a
 * function runs in. */
#ifndef SNIB__REDIS_I_H
#define SNIB__REDIS_I_H

#include "core/store.h"
#include "proto/resp.h"
#include "store/redis/redis.h"
#include "store/redis/session_i.h"
#include "store/redis/slots.h"
#include "store/redis/topology_i.h"

enum {
    FLIGHTS_MAX = 1024,         /* replies awaited on one connection        */
    RENEWALS_MAX = 128,         /* renewals in one script call              */
    RENEWALS_BYTES = 32 * 1024, /* keys, arguments of one call, about       */
    BATCH_MAX = 8,              /* acquires in one script call              */
    PACKET_MAX = 32,            /* acquires in one packet (packet.c)        */
    PACKET_CUTS = 2, /* connections lost by packets before one was answered,
                         and no more are sent                               */
    PACKETS_MS = 12 * 3600 * 1000, /* so long a script has kept the mark    */
    CLOCK_MS = 5000,  /* no packet by an older reading of the clock         */
    MET_NAMES = 256,  /* names at which somebody was met                    */
    MET_MS = 1000,    /* … are remembered so long                           */
    DROPS_MAX = 64,   /* releases in one call of drop.lua                   */
    LOOKED_MAX = 256, /* … are looked for among so many requests            */
    BUNDLES = 3,      /* calls under way that others wait for,              */
    CROWD = 8,        /* … if there are so many requests in them,           */
    COLLECT_MS = 5,   /* … for so long at most                              */
    OUT_SPARE = 96 * 1024, /* free in a buffer before a command        */
    BUCKETS = 256,
    ENDED_IDS = 256, /* ids of ended requests that are remembered           */
    /* So many ends of grants, not older than that, are remembered (ended.c).
     * Count: in the second or two between a promotion and the news of it a task
     * that takes a lock every 2 ms ends so many. Time: Sentinels wait for 30 s
     * before they call a server dead, if they are not told otherwise; twice that
     * until another one is reached. */
    ENDED_MAX = 1024,
    ENDED_MS = 60000,
    INSPECTS_MAX = 64,
    POLL_LEAST_MS = 50, /* pause of a waiter with a short lease, at least   */
    QUIET_PART = 4,     /* an answer is overdue after patience / 4          */
    MOMENT_PART = 40,   /* silence: patience / 40 after that was seen       */
    POLL_MS = 1000,     /* a waiter polls each POLL_MS to 1.5 × that        */
    WINDOW_MS = 3000,   /* a poll shows for so long that a waiter is alive  */
    POLL_FLOOR_MS = 10,
    SPIN_FIRST_MS = 10, /* first pause of a request that spins; it doubles  */
    SPIN_MOST_MS = 500,
    SEND_LIVES_MS = 9900,      /* after sending: too late to be executed    */
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
    ADDRESS_SHOWN = 100,    /* bytes of an address in a text                 */
    /* A Sentinel that is listened to is asked so often whether it is there. */
    WATCH_PING_MS = 5000
};

/* Where a request is: the upper bits of request.store.where while the store
 * owns the request. The lower two are the connection that it was sent on. */
enum where {
    M_CONN = 0x03,
    M_UNSENT = 0x04, /* request.link is on an unsent list                   */
    M_FLIGHT = 0x08,
    M_QUEUED = 0x10,   /* has a position in the server's queue                */
    M_TO_QUEUE = 0x20, /* another holds; asks again when it may queue         */
    M_RETRY = 0x40,    /* definitely not applied; its timer sends it again    */
    M_OWNED = 0x80
};

struct snib__redis {
    struct snib__out *out;
    struct snib__rng rng;
    snib_duration patience;
    int64_t wall_offset_ns; /* REALTIME - BOOTTIME, for the doctor          */
    char client[33];
    char *user, *password;
    bool asks; /* the program gives both, each time                         */
    uint32_t db;
    struct topology *topology; /* NULL: the URL names one server */
    struct snib__slots *slots; /* NULL: it is no node of a cluster          */
    uint32_t home;             /* … its number there                        */
    int sessions;              /* how many there are */
    struct session session[SESSIONS_MOST];
    struct snib__list unsent[2]; /* the callers' and the background's       */
    struct snib__list acquires[BUCKETS]; /* every ACQUIRE we own, by id      */
    struct snib__list inspections;
    uint32_t failures; /* connections for calls that did not come up         */
    uint32_t inspection_count, queued, to_queue, owned, sends;
    struct snib__heap timers;
    bool spin; /* ?wait=spin: only upgrades queue                        */
    bool unverified; /* ?tls_verify=no: for the doctor                      */
    bool ever;    /* a connection was READY once                            */
    bool misread; /* the reply being read is not one of our scripts'        */
    bool scripts_only; /* no packets at all: a node of a quorum or cluster  */
    bool no_mark; /* this user may not use the mark                         */
    int64_t recovery_ms; /* ?recovery=; 0: it is not asked for              */
    int64_t replicas;    /* ?replicas=; 0: it is not asked for              */
    bool wants, served;  /* recovery.c                               */
    bool put_off;        /* one that waits, and is `hinted`, found no room  */
    bool packets_work;   /* one was answered                         */
    uint8_t packet_cuts; /* connections lost by packets before that  */
    snib_instant packets_until;   /* the mark is there, as far as we know     */
    snib_instant packets_rest;    /* none before that                         */
    uint32_t bundles_most, crowd; /* BUNDLES, CROWD                         */
    snib_instant collect_until;   /* callers' requests are collected; NEVER:
                                   none are                                 */
    struct {
        uint64_t name; /* its hash; 0: none */
        snib_instant until;
    } met_at_name[MET_NAMES];
    int64_t
        not_after; /* the latest of all that we have written, in server ms */
    int64_t server_ms; /* the server's clock at server_at; 0: not known     */
    snib_instant server_at;
    uint64_t ended_ids[ENDED_IDS][2];
    uint32_t ended_ids_at;
    struct ended *ended; /* a ring of ENDED_MAX; NULL: none was noted       */
    uint64_t ended_count;
    bool ended_unsure; /* a connection was lost since they were asked for   */
    snib_instant copies_until; /* acquires that ended as unknown may still
                                  arrive at the server until then           */
    uint32_t generation;       /* of the subscription's connection          */
    bool heard;                /* the subscription was up once              */
    char channel[64];
    struct greeting shown; /* of the latest greeting                        */
    /* The server that was READY last, to know it again (state.c). */
    struct greeting met;
    snib_instant met_at; /* its highest number was heard; 0: none was       */
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
    E_CONFIG,
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
/* Does it say that it serves nothing, or not this slot (CLUSTERDOWN)? Then the
 * words are ours, and the map of the slots is to be asked for anew. */
bool snib__redis_error_down(const struct snib__redis *, const char *text,
                            char *ret, size_t size);
/* Replace the server's WRONGTYPE in text by one that says what to do, with a
 * pattern that finds the keys of the lock of that name. */
void snib__redis_error_remedy(const char *safe, uint32_t safe_size, char *text,
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
/* The server on this connection has become a replica, or is one. */
void snib__state_demoted(struct snib__redis *, int i);
void snib__state_server(const struct snib__redis *, snib_instant now,
                        struct snib__server *);

/* recovery.c */
/* Ask for the epoch, and begin it if somebody wants a lock; is that an answer? */
void snib__recovery_encode(const struct snib__redis *, struct snib__buf *);
bool snib__recovery_read(struct snib__redis *, const struct snib__resp_cell *);
/* Why it is not let in, for so many ms more. */
void snib__recovery_closed(struct snib__request *, int64_t ms);
void snib__encode_ready(const struct snib__redis *, struct snib__buf *,
                        const struct snib__request *, bool full);
/* Is this an answer to that? Then its row is in the result. */
bool snib__ready_read(struct snib__request *, const struct snib__resp_cell *);

/* request.c */
/* What a reply says of the server's clock. */
void snib__server_time(struct snib__redis *, snib_instant now, int64_t ms);

/* The connection that stands in the way of the others: why it failed is why
 * nothing goes on. */
const struct session *snib__session_first(const struct snib__redis *);

/* Is a server asked for its run id? Where several take turns it tells a restart
 * from a connection that was merely lost. */
static inline bool snib__session_asks_info(const struct snib__redis *s)
{
    return s->watch || s->topology || s->slots;
}

/* Can requests be sent on this connection? */
static inline bool snib__session_up(const struct snib__redis *s, int i)
{
    return s->session[i].state == SESSION_READY && !s->session[i].doomed;
}

static inline void snib__request_set_where(struct snib__request *rq, int set,
                                           int clear)
{
    rq->store.where = (uint8_t)((rq->store.where & ~clear) | set);
}

/* Is the mark of the server among the keys that it names? */
static inline bool snib__redis_marks(const struct snib__redis *s,
                                     const struct snib__request *rq)
{
    return s->recovery_ms || (!s->no_mark && !rq->store.unmarked);
}

struct snib__request *snib__request_find(struct snib__redis *,
                                         const uint64_t id[2]);
void snib__request_put(struct snib__redis *, struct snib__request *);
/* It does not wait any more. */
void snib__request_waits_no_more(struct snib__redis *, struct snib__request *);
/* Remember an id that was ended: a grant for it is given back. */
void snib__request_remember_end(struct snib__redis *, const uint64_t id[2]);
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
/* The subscription is refused for good: the requests fail that wait for it, so
 * that they may queue (TO_QUEUE). */
void snib__request_fail_to_queue(struct snib__redis *, snib_err,
                                 const char *text);
/* Fail the callers' requests where no connection is up. Queued ones cannot poll
 * then, so all that wait (TO_QUEUE, QUEUED) fail, too. The background's
 * requests stay. */
void snib__request_fail_callers(struct snib__redis *, snib_err,
                                const char *text);
/* One attempt to connect has failed: fail the requests that were to wait for no
 * more than one (`once`). */
void snib__request_fail_once(struct snib__redis *, snib_err, const char *text);

/* Does its RELEASE leave a tombstone? It does where a copy of the acquire may
 * still come. */
bool snib__request_leaves_tombstone(struct snib__redis *, snib_instant now,
                                    const struct snib__request *);

/* request.c: going out */
/* Its timer stands at its limit. The core may move that later while the request
 * waits, because more owners of the client wait for it. */
void snib__fly_limit(struct snib__redis *, struct snib__request *);
/* The send of an ACQUIRE or PARAMS gets a number. Of the last two it is known
 * when they were sent: a pushed grant names the last one that the server
 * saw. */
void snib__fly_number(struct snib__redis *, snib_instant now,
                      struct snib__request *);
/* Is the script to be sent as text? */
bool snib__fly_must_load(const struct snib__redis *, int i, enum snib__script);
/* The request was written on that connection, as a call of this script or as
 * part of one; last: its last part. */
void snib__fly(struct snib__redis *, snib_instant now, int i,
               struct snib__request *, enum snib__script, bool last);
/* The same of a packet; till: e. */
void snib__fly_packet(struct snib__redis *, snib_instant now, int i,
                      struct snib__request *, int64_t till, bool last);

/* packet.c */
/* Somebody was met at this name. */
void snib__packet_met(struct snib__redis *, snib_instant now,
                      const struct snib__name *);
/* A reply to MULTI, or to what is queued behind it. */
void snib__packet_queued(struct snib__redis *, int i, const struct flight *,
                         const struct snib__resp_cell *);
/* Packets are in vain at the moment. */
void snib__packet_rest(struct snib__redis *, snib_instant now);
/* A script has granted this, and so, as a rule, seen to it that the mark is
 * there. */
void snib__packet_marked(struct snib__redis *, snib_instant now,
                         const struct snib__request *);
/* Are these requests of callers to wait, until others travel with them? */
bool snib__packet_waits(struct snib__redis *, snib_instant now, int i,
                        struct snib__list *);
/* The releases among the first of the list that drop.lua may do; how many. */
uint32_t snib__packet_drops(struct snib__redis *, snib_instant now,
                            struct snib__list *,
                            struct snib__request *ret[DROPS_MAX]);
/* The acquires at the head of the list that may go as one packet on that
 * connection; how many. */
uint32_t snib__packet_acquires(const struct snib__redis *, snib_instant now,
                               int i, struct snib__list *,
                               struct snib__request *ret[PACKET_MAX]);
/* Take the grant that the reply to a flight of a packet tells. k: its index
 * among those that this reply answers. False: there is none. */
bool snib__packet_granted(struct snib__redis *, snib_instant now,
                          const struct flight *, const struct snib__resp_cell *,
                          uint32_t k);

/* packet_reply.c: such a reply that grants nothing. */
void snib__packet_reply(struct snib__redis *, snib_instant now, int i,
                        const struct flight *, const struct snib__resp_cell *,
                        uint32_t k);

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
/* Send it now: the poll of one that waits; or, ahead of others, one that was
 * surely not applied. */
void snib__send_again(struct snib__redis *, snib_instant now,
                      struct snib__request *);
void snib__send_due(struct snib__redis *, snib_instant now,
                    struct snib__request *);

/* encode.c */
/* The server's time so many ms after that instant, which is then the latest
 * not_after that was written if it is. */
int64_t snib__encode_not_after(struct snib__redis *, snib_instant, int64_t ms);
/* One packet (packet.c) for so many acquires. ret_till: e of each. */
void snib__encode_packet(struct snib__redis *, struct snib__buf *,
                         struct snib__request *const rq[], uint32_t count,
                         int64_t ret_till[]);
/* End so many thin grants. */
void snib__encode_drop(struct snib__buf *, struct snib__request *const rq[],
                       uint32_t count, bool full);
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
                          bool epoch, bool full);
/* End the grant with this token; 0: end whatever became of the request. */
void snib__encode_stray(struct snib__redis *, struct snib__buf *,
                        const char *safe, size_t size, const uint64_t id[2],
                        int64_t token);
void snib__encode_script(struct snib__buf *, enum snib__script, bool full,
                         uint32_t keys, uint32_t args);
/* The last of a script's keys: the mark of the server, if this login may use it
 * (scripts/enter.lua), or the epoch. */
void snib__encode_mark(const struct snib__redis *, struct snib__buf *,
                       bool marked);
/* The last of their arguments, with recovery alone: its ms. */
void snib__encode_recovery(const struct snib__redis *, struct snib__buf *);
static inline uint32_t snib__encode_args(const struct snib__redis *s,
                                         uint32_t others)
{
    return others + (s->recovery_ms > 0);
}
void snib__encode_key(struct snib__buf *, const char *safe, size_t size,
                      const char *suffix);
/* probe.lua, on keys that belong to no lock; in a cluster of a slot that this
 * connection's node serves */
void snib__encode_probe(struct snib__redis *, int i, struct snib__buf *);
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
/* The server has said that the request is queued, or that another one holds the
 * lock, and it may queue: from now on it waits. */
void snib__queue_waits(struct snib__redis *, snib_instant now,
                       struct snib__request *, bool queued);
/* A request that does not queue was told "held": it asks again after a pause,
 * which grows. */
void snib__queue_spin(struct snib__redis *, snib_instant now,
                      struct snib__request *);
/* All waiting requests ask again at once. */
void snib__queue_poll_all(struct snib__redis *, snib_instant now);
void snib__queue_poll_put_off(struct snib__redis *, snib_instant now);
/* True: this is an array ["message", channel, text], and the text was heeded if
 * the channel is one of ours. */
bool snib__queue_hears(struct snib__redis *, snib_instant now,
                       const struct snib__resp_cell *);
/* The answer to a poll during which a pushed grant was delivered. If that poll
 * was granted or queued anew, nobody waits for it, so it is ended. */
void snib__queue_overtaken(struct snib__redis *, snib_instant now, int i,
                           const struct flight *,
                           const struct snib__resp_cell *);
/* End a grant that nobody waits for. Where the connection has no room the grant
 * ends with its lease. token 0: whatever became of the request. */
void snib__queue_end_stray(struct snib__redis *, snib_instant now, int i,
                           const char *safe, size_t size, const uint64_t id[2],
                           int64_t token);
void snib__queue_channel(struct snib__redis *);
/* Another channel than any before. A message of one node of a cluster comes to
 * the subscriptions at all of them, so each has a channel of its own. */
void snib__queue_channel_anew(struct snib__redis *);
/* The channel of notices (forced releases; somebody waits for what is kept) is the
 * same for all subscriptions of the client. Grants must not come there: a waiter's
 * record from before a failover (on the promoted replica) names an earlier channel,
 * and must not be granted before the waiter has polled again. */
enum { CHANNEL_NOTICE_MAX = 40 };
void snib__queue_notice_channel(const struct snib__redis *,
                                char ret[CHANNEL_NOTICE_MAX]);

/* ended.c */
/* This grant was ended by a request of ours. token 0: there was none. */
void snib__ended_note(struct snib__redis *, snib_instant now,
                      const struct snib__name *, const uint64_t id[2],
                      int64_t token);
/* Was any of late? */
bool snib__ended_any(const struct snib__redis *, snib_instant now);
/* Ask whether they stand at the server of this connection; and the answer. */
void snib__ended_ask(struct snib__redis *, snib_instant now, int i);
void snib__ended_told(struct snib__redis *, snib_instant now, int i,
                      const struct flight *, const struct snib__resp_cell *);
void snib__ended_free(struct snib__redis *);

/* open.c */
snib_err snib__redis_open(const struct snib__store_config *,
                          struct snib__store **ret, struct snib_error *reterr);
void snib__redis_free(struct snib__store *);

#endif
