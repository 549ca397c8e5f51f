/* store/redis/session_i.h — a connection to the server: its state, its greeting,
 * its logins, and its *flights*: the requests sent on it whose replies are
 * awaited, in the order of sending. For redis_i.h, which includes it.
 *
 * A greeting is what is asked on a connection before anything else: HELLO and
 * the rest of the states from SESSION_HELLO to SESSION_TIME (or
 * SESSION_SUBSCRIBE). One that passes makes the session READY. */
#ifndef SNIB__REDIS_SESSION_I_H
#define SNIB__REDIS_SESSION_I_H

#include "core/store.h"
#include "proto/resp.h"
#include "redis_scripts.h"

struct snib__redis;

/* The connections. Requests of callers prefer CALLERS, those of the background
 * (renewals, clean-up, the search for deadlocks) BACKGROUND; while its own is
 * not up a request takes the other one (snib__send_on). SUBS is the
 * subscription, and carries no requests. These lead to the primary; WATCH, which
 * is there only with a struct topology, leads to who knows which one that is. */
enum { CALLERS, BACKGROUND, SUBS, SESSIONS, WATCH = SESSIONS, SESSIONS_MOST };

#define MUST_LOAD UINT64_MAX

/* Where the number of the keys' layout stands, and ours (docs/REDIS.md). */
#define SNIB__REDIS_LAYOUT_KEY "snib:layout"
#define SNIB__REDIS_LAYOUT     "2"
/* The mark, whose ids are tokens (scripts/enter.lua). */
#define SNIB__REDIS_MARK_KEY "snib:m"
/* The epoch, which stands in its place with ?recovery= (scripts/epoch.lua). */
#define SNIB__REDIS_EPOCH_KEY "snib:epoch"

typedef enum session_state {
    SESSION_DOWN,    /* not connected, and never wanted so far              */
    SESSION_OPENING, /* the driver is to connect                            */
    SESSION_LOGIN,   /* connected; the program is asked for a login         */
    SESSION_HELLO,   /* connected; the answer to HELLO is awaited           */
    SESSION_SLOTS,   /* of a cluster: who serves which slot is being read    */
    SESSION_SELECT,
    SESSION_PROBE, /* with a login: may it run our scripts to their end?    */
    SESSION_LAYOUT_SET, /* the layout's number is written where there is none   */
    SESSION_LAYOUT_GET, /* the number is being read                             */
    SESSION_RECOVERY, /* with ?recovery=: the epoch is read, and may begin   */
    SESSION_INFO, /* which life of the server this is, for who asked       */
    SESSION_TIME, /* the server's clock is being read                      */
    SESSION_SUBSCRIBE,
    SESSION_EPOCH,   /* WATCH: a Sentinel is asked for its epoch, …         */
    SESSION_ASKED,   /* … and for the address                               */
    SESSION_REPLICA, /* a replica answered; ROLE asks which its primary is  */
    SESSION_READY,
    SESSION_CLOSING, /* the driver is to close it                           */
    SESSION_RESTING  /* failed; no new attempt before rest_until            */
} session_state;

typedef enum job {
    JOB_HELLO,
    JOB_SLOTS, /* CLUSTER NODES                                              */
    JOB_SELECT,
    JOB_PROBE,
    JOB_LAYOUT_SET,
    JOB_LAYOUT_GET,
    JOB_RECOVERY,
    JOB_INFO,
    JOB_TIME,
    JOB_SUBSCRIBE,
    JOB_UNSUBSCRIBE, /* for a login: see login.c */
    JOB_AUTH,
    JOB_PING,
    JOB_ROLE,
    JOB_EPOCH,  /* SENTINEL MASTER                                          */
    JOB_MASTER, /* SENTINEL GET-MASTER-ADDR-BY-NAME                         */
    JOB_STRAY,  /* ends a grant that nobody waits for any more               */
    JOB_ENDED,  /* do grants stand that were ended (ended.c)? id: from, to  */
    JOB_ASKING, /* lets the next command in where a slot is coming          */
    JOB_MULTI,  /* of a packet: begins it                                   */
    JOB_QUEUED, /* … is to be executed with it                              */
    JOB_CONFIRM, /* asks whether replicas have it: confirm.c                */
    JOB_REQUEST
} job;

struct flight {
    struct snib__request *rq; /* NULL: the store's own, or ended meanwhile  */
    uint64_t id[2];
    snib_instant sent;
    /* Set if a pushed grant was delivered while this poll was under way: the
     * grant's token, the server's ms at which its push lease ends, and the
     * lock's safe name (owned). Else safe is NULL. */
    int64_t delivered, push_end_ms;
    char *safe;
    uint64_t number; /* in the order of sending on this connection          */
    uint8_t job;
    uint8_t script; /* the script's number + 1; 0: a plain command          */
    int64_t till;   /* of a packet: e, in server ms; else 0                 */
    uint8_t verb;   /* of a JOB_REQUEST                                     */
    bool last;      /* one reply answers all flights up to this one         */
    bool marked;    /* a script that has the mark, or who inspects the epoch,
                       among its keys                                       */
};

/* A grant that this client has ended (ended.c). */
struct ended {
    uint64_t id[2];
    int64_t token;
    snib_instant at;
    char *safe; /* the lock's safe name */
    uint32_t safe_size;
};

/* What a greeting says of the server; text "" and number 0: it does not say. */
struct greeting {
    char product[32], version[48], role[16], run_id[48];
    int64_t number; /* of the connection, counted since the server began    */
};

/* With ?replicas=: what asks whether they have what was sent (confirm.c). */
struct confirm {
    struct snib__resp *ahead; /* reads what is kept; NULL: without replicas= */
    struct snib__buf held;    /* what came since it was asked               */
    uint32_t left; /* so many replies have to come before they are read     */
    bool due;      /* something was sent that it has to be asked for        */
    bool judged;   /* all have come, and are being read, …                  */
    bool stands;   /* … and they may rely on this                           */
    bool gone;     /* it is not in the life in which it was greeted         */
    bool cut;      /* it refuses for more than a while                      */
    char refused[120]; /* the error of one of them; "": there is none       */
    int64_t acks;
    char life[41]; /* the server's replication id in the greeting           */
};

struct session {
    session_state state;
    struct confirm confirm;
    struct greeting greeting;
    snib_instant opened; /* when it was connected                           */
    bool barred; /* resting because the greeting was refused for good       */
    bool doomed; /* closed when nothing is awaited: it answered READONLY    */
    bool ended;  /* … or that its login is over                             */
    bool stuck;  /* … or EXEC was refused: closed whatever is awaited       */
    bool probes; /* its greeting has the probe: it logs in                  */
    bool maps;   /* of a cluster: CLUSTER NODES is awaited                  */
    int tag; /* of a cluster: {%nodeN} is of a slot of this server; -1: none */
    bool unread; /* LOADING came for the layout: the first answer dooms it  */
    bool mark_denied; /* the probe says so                                  */
    bool no_packets;  /* this user, or what is between us, has no MULTI     */
    /* Why the server took no part of the packet whose answers are being read, if
     * that is for a cause that passes by itself; "": it is not. */
    char untaken[120];
    /* Logins that the program gives (login.c). */
    bool asked;   /* for one, which has not come                            */
    bool refused; /* the server has refused the latest                      */
    bool proven;  /* a request was answered since it was connected          */
    snib_duration valid;   /* of the latest; 0: for ever                    */
    snib_instant login_at; /* when to ask for the next; 0: not              */
    struct snib__resp *resp;
    struct flight *ring; /* cap is a power of two                           */
    uint32_t cap, head, count;
    uint32_t bundles, bundled; /* packets, releases of their grants: calls that
                                  are under way, and requests in them       */
    snib_instant bundle_sent;  /* the latest of them                        */
    uint64_t number; /* of the latest flight                                */
    uint64_t loaded[SNIB__SCRIPTS]; /* number of the last EVAL; 0: none yet;
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

/* layout.c: the number of the keys' layout */
typedef enum layout_verdict {
    LAYOUT_OURS,   /* or nobody may know                                    */
    LAYOUT_OTHER,  /* of another release, or the key is not ours; the text  */
    LAYOUT_UNREAD, /* the server is loading                                 */
    LAYOUT_STRANGE /* no answer to a GET                                    */
} layout_verdict;
enum { LAYOUT_KEY_MAX = 40 };
/* The key of that number; in a cluster the one of this connection's node. */
void snib__layout_key(const struct snib__redis *, int i,
                      char ret[LAYOUT_KEY_MAX]);
/* Write the number of our layout where none is; read the number. */
void snib__layout_encode_set(struct snib__buf *, const char *key);
void snib__layout_encode_get(struct snib__buf *, const char *key);
/* The answer to the latter. */
layout_verdict snib__layout_read(const struct snib__resp_cell *, char *ret_text,
                                 size_t size);

/* request.c: connections and their flights */
void snib__session_want(struct snib__redis *, snib_instant now, int i);
/* Is there room for so many flights on it, and may they go now? */
bool snib__session_has_room(struct snib__redis *, int i, uint32_t flights);
/* Is there room, though replicas may be waited for? */
bool snib__session_fits(struct snib__redis *, int i, uint32_t flights);
void snib__session_push(struct snib__redis *, int i, const struct flight *);
bool snib__session_pop(struct session *, struct flight *ret);
void snib__session_forget(struct snib__redis *, const struct snib__request *);
/* The pushed grant rq->token is about to be delivered: polls of that request
 * that are still under way remember it. */
void snib__session_overtaken(struct snib__redis *, const struct snib__request *,
                             int64_t push_end_ms);
bool snib__session_copy_due(struct snib__redis *, const uint64_t id[2]);

/* node.c: one node of a cluster */
/* Ask who serves which slot. */
void snib__node_ask(struct snib__redis *, snib_instant now, int i);
/* The answer to that. False: it is none, and nothing was changed; or the node is
 * of another cluster, and the connection was cut. */
bool snib__node_told(struct snib__redis *, snib_instant now, int i,
                     const struct snib__resp_cell *);
/* Has a node refused the request because another one serves its slot, or is
 * about to? Then it has ended, and says so (core/request.h, moved). */
bool snib__node_moved(struct snib__redis *, struct snib__request *,
                      const char *text, uint32_t size);
/* Is an inspection to be sent on by ASK? It has keys at both nodes, so it waits
 * where its slot is left. */
bool snib__node_asks(const struct snib__redis *, const struct snib__request *,
                     const char *text, uint32_t size);

/* confirm.c: for requests that replicas have to acknowledge */
/* May its answer say that somebody holds, or has passed? The latter is said of a
 * barrier or a latch, and by a CANCEL, too, whose acquire.kind is what send.c
 * knows of it. */
static inline bool snib__confirm_wanted(const struct snib__request *rq)
{
    bool passes = rq->acquire.kind == SNIB_KIND_BARRIER ||
                  rq->acquire.kind == SNIB_KIND_READ; /* a latch */
    return rq->verb == SNIB__ACQUIRE || rq->verb == SNIB__RENEW ||
           (rq->verb == SNIB__CANCEL && passes);
}
bool snib__confirm_open(struct snib__redis *); /* false: no memory           */
void snib__confirm_free(struct snib__redis *);
/* Nothing is awaited on it any more. */
void snib__confirm_reset(struct session *);
/* The answer to the greeting's epoch says which life of the server it is. */
void snib__confirm_greeted(struct session *, const struct snib__resp_cell *);
/* Behind all that was written in this step, where anything of that has to be
 * confirmed. */
void snib__confirm_ask(struct snib__redis *, snib_instant now);
typedef enum confirm_bytes {
    CONFIRM_READ, /* these are to be read, behind all that was kept before    */
    CONFIRM_KEPT, /* they are kept, more has to come                          */
    CONFIRM_MUCH, /* more have come than are kept                             */
    CONFIRM_NOMEM
} confirm_bytes;
/* Bytes have come on CALLERS or BACKGROUND. */
confirm_bytes snib__confirm_keeps(struct snib__redis *, int i,
                                  const void **bytes, size_t *size);
/* What was kept was read, and what follows from that for the connection; all
 * false: nothing was kept. */
struct confirm_verdict {
    /* Not OK: the server is not in the life in which it was greeted, or refuses
     * what was asked, so the connection is to be cut. */
    snib_err err;
    bool barred;
    bool demoted; /* it has become a replica                                */
    bool stands;  /* enough have acknowledged                                */
    bool few;     /* too few have, and nothing was refused                   */
    int behind;   /* stands: the connection that leads to another primary, or
                    another life of this one; -1: none does                 */
    char text[200];
};
void snib__confirm_over(struct snib__redis *, int i, struct confirm_verdict *);
/* The server says that this is granted, renewed, or not ours. True: too few
 * replicas have that, so the request has ended as UNKNOWN. */
bool snib__confirm_failed(struct snib__redis *, struct snib__request *);
/* Its limit has passed. True: too few had acknowledged it before, and it is asked
 * again, or pauses before that; so it has ended with the text of then. */
bool snib__confirm_late(struct snib__redis *, struct snib__request *);

/* late.c: its limit has passed */
void snib__late(struct snib__redis *, snib_instant now, struct snib__request *);

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

/* rights.c: the answer to the probe. False: this user may not run some command
 * inside a script, and the connection was cut as refused for good. */
bool snib__rights_suffice(struct snib__redis *, snib_instant now, int i,
                          const struct snib__resp_cell *);

/* role.c */
/* Judge the server by its answer to HELLO. False: it must not be asked for
 * locks; the connection was cut, or is in REPLICA and ROLE was sent. */
bool snib__role_is_primary(struct snib__redis *, snib_instant now, int i,
                           const struct snib__resp_cell *);
/* A replica's answer to ROLE, ["slave", host, port, …], or an error where this
 * user may not ask that. The connection is cut. */
void snib__role_told(struct snib__redis *, snib_instant now, int i,
                     const struct snib__resp_cell *);

/* session.c */
void snib__session_opened(struct snib__redis *, snib_instant now, int i);
/* The login came that was asked for, or why there is none. */
void snib__session_login(struct snib__redis *, snib_instant now, int i,
                         const struct snib__input *);
/* A reply to the greeting. */
void snib__session_greeted(struct snib__redis *, snib_instant now, int i,
                           const struct snib__resp_cell *);

/* True: c, in reply to HELLO, says that it is not known, and the connection was
 * cut as refused for good. */
bool snib__session_no_hello(struct snib__redis *, snib_instant now, int i,
                            const struct snib__resp_cell *);

/* watch.c: who knows which server is the primary */
/* Ask what is asked behind HELLO. */
void snib__watch_ask(struct snib__redis *, snib_instant now);
/* A reply to that, or to HELLO. */
void snib__watch_greeted(struct snib__redis *, snib_instant now,
                         const struct snib__resp_cell *);
/* True: this is an array ["message", channel, text], and it was heeded. */
bool snib__watch_hears(struct snib__redis *, snib_instant now,
                       const struct snib__resp_cell *);
/* At the end of each step: a round is over, or the primary is in doubt. */
void snib__watch_settle(struct snib__redis *, snib_instant now);

/* session_end.c */
/* The connection is no more: everything awaited on it is answered UNKNOWN.
 * shut: ask the driver to close it (else it is closed already). barred: the
 * server refused for good, so the back-off is long and waiting requests end. */
void snib__session_cut(struct snib__redis *, snib_instant now, int i, bool shut,
                       snib_err, const char *text, bool barred);
/* The server refuses the login, and the program may have a newer one by now:
 * connect again, at once. Nobody is told. */
void snib__session_anew(struct snib__redis *, snib_instant now, int i,
                        const char *text);
/* The driver says that it is closed, or could not be had. */
void snib__session_closed(struct snib__redis *, snib_instant now,
                          const struct snib__input *);
/* With ?replicas=: the replies that were kept on it have been read. */
void snib__session_confirmed(struct snib__redis *, snib_instant now, int i);
/* Nothing is awaited on it any more, or nothing that will come: cut it. */
void snib__session_end_doomed(struct snib__redis *, snib_instant now, int i);
/* It has served: close it. It may be opened again at once. */
void snib__session_leave(struct snib__redis *, snib_instant now, int i);
/* The round of WATCH was in vain: what stands in the topology is told, and the
 * next round comes after a pause. */
void snib__session_in_vain(struct snib__redis *, snib_instant now);

#endif
