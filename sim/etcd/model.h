/* sim/etcd/model.h — what the files of the model share. No other file includes
 * this. */
#ifndef SIM_ETCD_MODEL_H
#define SIM_ETCD_MODEL_H

#include "proto/grpc/pb.h"
#include "sim/etcd/etcd.h"
#include "sim/see.h"
#include "store/etcd/message.h"

enum { SIM_ETCD_BUF = 8 << 20, SIM_ETCD_ANSWER = 1 << 20, SIM_ETCD_OPS = 128 };

/* -- what calls are for: said.c --------------------------------------------- */

struct sim_etcd_note {
    int client;
    uint32_t life;
    int node, conn; /* the server's end of its connection */
    int32_t stream;
    const void *step; /* of the store; only compared */
    int64_t sent;     /* true time at which it was sent, … */
    int64_t decided;  /* … and by which its tokens were drawn */
    int64_t done_at;  /* true time; 0: it has not come so far */
    bool applied;     /* it has changed something */
    bool said;        /* its answers were told to the theorems */
    bool several, all;
    int missed, count, tells;
    struct sim_seen part[]; /* count, then tells */
};

/* The note of a call, the last one that has this number; or NULL. */
struct sim_etcd_note *sim_etcd_note_of(struct sim_etcd *, int node, int conn,
                                       int32_t stream);
/* A call was executed. changed: and has changed something. */
void sim_etcd_say(struct sim_world *, struct sim_etcd_note *, bool changed);
/* Somebody has changed keys in a way that is not known. */
void sim_etcd_say_other(struct sim_world *);
/* After a step of the client's store: what it has sent, and what it answers. */
void sim_etcd_sends(struct sim_world *, int client);
void sim_etcd_answers(struct sim_world *, int client);
void sim_etcd_notes_free(struct sim_etcd *);

/* -- keys.c ----------------------------------------------------------------- */

struct sim_etcd_key *sim_etcd_find(const struct sim_etcd_keys *,
                                   struct snib__etcd_text);
/* The first key that is not before this one. */
int sim_etcd_from(const struct sim_etcd_keys *, struct snib__etcd_text);
/* A put at the present revision. */
void sim_etcd_put(struct sim_etcd_keys *, struct snib__etcd_text key,
                  struct snib__etcd_text value, int64_t lease);
void sim_etcd_delete(struct sim_etcd_keys *, struct sim_etcd_key *);
void sim_etcd_keys_copy(struct sim_etcd_keys *to,
                        const struct sim_etcd_keys *from);
void sim_etcd_keys_free(struct sim_etcd_keys *);

/* -- leases.c --------------------------------------------------------------- */

struct sim_etcd_leases {
    struct sim_etcd_lease *lease;
    int count, room;
};

/* It was granted just now; its number. */
int64_t sim_etcd_lease_grant(struct sim_world *, int64_t ttl);
/* Another member leads: each has its whole time anew. */
void sim_etcd_leases_anew(struct sim_world *);
/* … and one that has led before ends those that are over by its own clock. */
void sim_etcd_leases_old(struct sim_world *);
/* Those that ended while nobody led end now. */
void sim_etcd_leases_due(struct sim_world *);
/* That lease is over, if it is. */
void sim_etcd_lease_ends(struct sim_world *, int64_t id);

/* -- h2.c ------------------------------------------------------------------- */

struct sim_etcd_stream {
    struct sim_etcd_stream *next;
    struct sim_etcd_conn *conn;
    int32_t id;
    char path[64];
    struct snib__buf in, out; /* messages with their prefixes */
    bool answered;            /* out is all that comes */
    int status;               /* of gRPC */
    char text[120];
};

struct sim_etcd_conn {
    struct sim_etcd_conn *next;
    int id;
    struct sim_etcd_member *member;
    struct nghttp2_session *session;
    struct sim_etcd_stream *streams;
    struct snib__buf out; /* bytes for the client */
    bool broken;
    /* The key that is watched, and on which stream; "": none. */
    char watched[SIM_ETCD_KEY];
    int32_t watch;
};

struct sim_etcd_conn *sim_etcd_conn_new(struct sim_etcd_member *, int id);
void sim_etcd_conn_free(struct sim_etcd_conn *);
void sim_etcd_conn_input(struct sim_etcd_conn *, const void *, size_t);
/* All that it has to say is in `out`. */
void sim_etcd_conn_flush(struct sim_etcd_conn *);
/* A message goes out on a stream; the stream ends with it if it is no watch. */
void sim_etcd_answer(struct sim_etcd_stream *, const struct snib__buf *);
void sim_etcd_refuse(struct sim_etcd_stream *, int status, const char *text);
void sim_etcd_goes_away(struct sim_etcd_conn *, bool at_once);
struct sim_etcd_stream *sim_etcd_stream(struct sim_etcd_conn *, int32_t id);

/* -- calls.c ---------------------------------------------------------------- */

/* A call that cannot be done while its member reaches no majority. */
struct sim_etcd_wait {
    struct sim_etcd_wait *next;
    int conn;
    int32_t stream;
    char path[64];
    size_t size;
    uint8_t message[];
};

/* A message came on this stream. */
void sim_etcd_called(struct sim_etcd_stream *, const void *, size_t);
/* Those that wait at a member are done, or lost. */
void sim_etcd_waits_done(struct sim_etcd_member *);
void sim_etcd_waits_free(struct sim_etcd_member *);
/* Keys from here on were changed at the present revision: who watches them is
 * told. */
void sim_etcd_tell_watches(struct sim_world *, const struct sim_etcd_key *,
                           bool deleted);

/* -- members.c -------------------------------------------------------------- */

struct sim_etcd_member {
    struct sim_world *world;
    struct sim_etcd *cluster;
    int node, ppm; /* of its monotonic clock */
    int64_t apart_until;
    struct sim_etcd_keys old; /* what it knows while it is alone */
    bool alone, led;          /* led: before it was alone */
    struct sim_etcd_conn *conns;
    struct sim_etcd_wait *waits;
};

struct sim_etcd {
    struct sim_etcd_member member[SIM_MEMBERS];
    int members;
    int leader;       /* -1: none */
    int64_t lost_at;  /* nobody leads since then; 0: somebody does */
    int64_t led_at;   /* the last time that somebody became the leader */
    int64_t elect_at; /* the next election */
    uint64_t term, cluster;
    struct sim_etcd_keys keys, backup;
    struct sim_etcd_leases leases, backup_leases;
    bool has_backup;
    unsigned faults;            /* enum sim_redis_fault */
    int64_t left_at[SIM_NAMES]; /* a claim there has ended with its lease */
    struct snib__rng rng;
    int64_t lease_id;
    int last_conn;               /* numbers are those of the cluster */
    struct sim_etcd_note **note; /* a ring */
    uint64_t notes;
};

void sim_etcd_settle(struct sim_world *);

/* -- known.c ----------------------------------------------------------------- */

/* Does it run, and reach the others? */
bool sim_etcd_takes_part(const struct sim_world *, int node);
bool sim_etcd_has_majority(const struct sim_world *);
bool sim_etcd_is_led(const struct sim_world *);
/* Does it reach a majority, and is there a leader? */
bool sim_etcd_serves_at(const struct sim_world *, int node);
/* The leader, as this member knows it; -1: none. */
int sim_etcd_leader_at(const struct sim_world *, int node);
/* The connection of that number; NULL: it has gone. */
struct sim_etcd_conn *sim_etcd_conn(const struct sim_etcd_member *, int id);
/* One that is not over. */
struct sim_etcd_lease *sim_etcd_lease_find(struct sim_etcd *, int64_t id);
/* The store of a client. */
struct snib__etcd;
const struct snib__etcd *sim_etcd_store(const struct sim_world *, int client);

static inline bool sim_etcd_dice(struct sim_etcd *e, int pct)
{
    return (int)snib__rng_below(&e->rng, 100) < pct;
}
static inline int64_t sim_etcd_upto(struct sim_etcd *e, int64_t n)
{
    return (int64_t)snib__rng_below(&e->rng, (uint64_t)n);
}

#endif
