/* store/etcd/etcd_i.h — what the store is made of; for the files of this folder
 * only. store.c says how it works, and why two cannot hold one lock. */
#ifndef SNIB__ETCD_I_H
#define SNIB__ETCD_I_H

#include "core/nonblocking.h"
#include "core/snapshot/snapshot.h"
#include "proto/grpc/h2.h"
#include "store/etcd/message.h"
#include "store/etcd/recipe.h"

enum {
    ETCD_PORT = 2379,
    ETCD_SLOTS = 1024,        /* names under way, by their hashes */
    ETCD_STEPS = 64,          /* under way at once, */
    ETCD_STEPS_KEPT = 16,     /* so many of them only of the background */
    ETCD_OPS = 120,           /* of a step: a server takes 128 */
    ETCD_GRANTS = 56,         /* of a step: each is two puts */
    ETCD_KEPT = 256,          /* names whose memory is known to be young */
    ETCD_GUESSES = 64,        /* names whose rows are known */
    ETCD_PREFIX_MAX = 64,     /* of ?prefix= */
    ETCD_PLACES = 1024,       /* free ones that are remembered */
    ETCD_SEEN_MAX = 64 << 10, /* an answer that is larger is not kept */
    /* PREFIX l/ NAME /c/ OPENED.PLACE; a name's bytes may be three each. */
    ETCD_KEY_MAX = ETCD_PREFIX_MAX + 3 * SNIB_NAME_MAX + 48
};

struct snib__etcd;
struct etcd_call;

/* -- errors.c --------------------------------------------------------------- */

/* How a call has ended. */
typedef enum etcd_end {
    ETCD_OK,
    ETCD_REFUSED,  /* nothing was done: err and text say why */
    ETCD_NO_LEASE, /* nothing was done: a lease in it is over */
    ETCD_AGAIN,    /* nothing was done: another member, or a later call, may */
    ETCD_LOST      /* nobody knows whether it was, or will be, done */
} etcd_end;

struct etcd_reply {
    etcd_end end;
    snib_err err;         /* not OK: why */
    char text[252];       /* the same for people */
    const uint8_t *bytes; /* OK: the message; borrowed */
    size_t size;
    snib_instant sent;
    bool login; /* the login is not taken as valid any more */
    bool bare;  /* there was none, and it wants one */
    bool leave; /* this member does not serve: ask another one */
    bool compacted;
};

/* What a stream's end says. changes: a call that may have changed something. */
void snib__etcd_judge(const struct snib__h2_stream *, bool changes,
                      struct etcd_reply *ret);
/* The text of a server, clean, and without this secret. */
void snib__etcd_clean(const char *secret, const char *text, char *ret,
                      size_t size);

/* -- call.c ----------------------------------------------------------------- */

typedef void etcd_done(struct snib__etcd *, snib_instant now,
                       struct etcd_call *, const struct etcd_reply *);
typedef void etcd_heard(struct snib__etcd *, struct etcd_call *,
                        const uint8_t *bytes, size_t size);

struct etcd_call {
    struct snib__h2_stream stream; /* first member */
    struct snib__link link;        /* on session.calls, or on none */
    snib_instant sent;
    int64_t revision; /* the highest one that was seen when it was sent */
    uint32_t login;   /* session.login, then */
    bool changes;     /* if it is lost, it may have changed something */
    etcd_done *done;
    /* Its answers have no end (a watch): what to do with each. Else NULL. */
    etcd_heard *heard;
};

void snib__etcd_call_init(struct etcd_call *, etcd_done *);
void snib__etcd_call_free(struct snib__etcd *, struct etcd_call *);
/* Send it on the connection, which is there. done() is called once, from a later
 * input or tick; if it could not be sent, also. */
void snib__etcd_call(struct snib__etcd *, snib_instant now, struct etcd_call *,
                     const char *path, struct snib__buf *message);
/* Its answer is not wanted any more, nor its memory; if it has not come, done() is
 * not called. */
void snib__etcd_call_drop(struct snib__etcd *, struct etcd_call *);
/* What has come for the calls. */
void snib__etcd_calls_heard(struct snib__etcd *, snib_instant now);
/* Is none under way, but for the watch? */
bool snib__etcd_calls_none(const struct snib__etcd *);
/* The connection is no more: all calls on it end. */
void snib__etcd_calls_lost(struct snib__etcd *, snib_instant now, snib_err,
                           const char *text);

/* -- session.c -------------------------------------------------------------- */

typedef enum etcd_state {
    ETCD_DOWN,    /* nobody needs it */
    ETCD_OPENING, /* the driver connects */
    ETCD_LOGIN,   /* the program is asked for a login */
    ETCD_AUTH,    /* Authenticate is sent */
    ETCD_GREETS,  /* Status and the watch are sent */
    ETCD_READY,
    ETCD_CLOSING, /* shut, until the driver says so */
    ETCD_RESTING  /* until the next attempt */
} etcd_state;

struct etcd_session {
    etcd_state state;
    struct snib__h2 h2;
    struct snib__list calls;
    uint32_t at;   /* the member: index of its connection */
    uint32_t vain; /* members that were tried in vain in this round: */
    uint32_t vain_barred;
    struct {
        snib_err err;
        char text[252];
    } mild; /* why, of one that was neither barred nor hopeless */
    snib_instant since, rest_until, login_at;
    /* When it began to serve, or ceased to, or was first to: attempts in between
     * change nothing. idle: it went while nobody needed it, which says nothing. */
    snib_instant turned;
    bool idle;
    snib_instant heard;  /* the last bytes */
    snib_instant pinged; /* it was asked whether it is there; 0: it was not */
    snib_instant logged_in; /* the last time, and */
    uint32_t logins;        /* so many, each soon after the one before */
    uint32_t login;         /* the number of the one in use */
    snib_duration rest, valid;
    struct etcd_call auth, status, watch;
    bool seen_status, watching;
    bool ever;       /* it was READY once */
    bool anew;       /* the login in use is to be replaced */
    bool renews;     /* a login is made before the old one ends */
    bool refused;    /* the program's last login was refused */
    bool asked;      /* conn.login is under way */
    bool hopeless;   /* there is no such host */
    bool barred;     /* it cannot be better before somebody changes something */
    bool watch_came; /* to be heeded when this step is over, as is the next */
    bool leave;      /* cut it, for this reason */
    bool leave_barred;
    snib_err leave_err;
    char leave_text[252];
    snib_err err; /* why it is not READY */
    char text[252];
    char *token;
    char *user, *password; /* of the program's login, while it is sent */
    char version[48];
    uint64_t cluster, member;
    uint64_t left; /* the cluster that answered before this one */
};

/* At the end of each step: connect, leave, log in anew, as is to be done. */
void snib__etcd_session_settle(struct snib__etcd *, snib_instant now);
void snib__etcd_session_input(struct snib__etcd *, snib_instant now,
                              const struct snib__input *);
void snib__etcd_session_tick(struct snib__etcd *, snib_instant now);
snib_instant snib__etcd_session_due(const struct snib__etcd *);
/* Leave this member: its calls end. shut: the connection is still there. */
void snib__etcd_session_cut(struct snib__etcd *, snib_instant now, bool shut,
                            snib_err, const char *text, bool barred);
/* What comes, or is to be sent, is no HTTP/2. */
void snib__etcd_session_broken(struct snib__etcd *, snib_instant now);
/* The login is made, or none is needed. */
void snib__etcd_session_greet(struct snib__etcd *, snib_instant now);
void snib__etcd_session_init(struct snib__etcd *);
void snib__etcd_session_free(struct snib__etcd *);

/* Was the login made within the last second? */
static inline bool snib__etcd_login_is_fresh(const struct etcd_session *s,
                                             snib_instant now)
{
    return s->logged_in.ns &&
           snib__between(s->logged_in, now).ns < snib__ms(1000).ns;
}

static inline bool snib__etcd_is_ready(const struct etcd_session *s)
{
    return s->state == ETCD_READY;
}

/* It is READY, or its login is made anew. */
static inline bool snib__etcd_serves(const struct etcd_session *s)
{
    return s->state == ETCD_READY || (s->watching && !s->err);
}

/* -- members.c -------------------------------------------------------------- */

enum { ETCD_REST_MS = 50 }; /* between two rounds at first */
/* A connection has ended: the next one. ordered: the server has asked for it. */
void snib__etcd_members_next(struct snib__etcd *, snib_instant now,
                             bool ordered);

/* -- history.c -------------------------------------------------------------- */

/* Grants that stood may be forgotten: all that is held is asked about. */
void snib__etcd_forgets(struct snib__etcd *, const char *what);
/* The cluster that answers now. False: the list has hosts of several. */
bool snib__etcd_cluster_is(struct snib__etcd *, uint64_t cluster);
/* The answer to this call, a linearizable one, is of that revision. */
void snib__etcd_saw(struct snib__etcd *, const struct etcd_call *,
                    int64_t revision);

/* -- login.c ---------------------------------------------------------------- */

/* The connection is there. */
void snib__etcd_login_begin(struct snib__etcd *, snib_instant now);
void snib__etcd_login_came(struct snib__etcd *, snib_instant now,
                           const struct snib__input *);
etcd_done snib__etcd_login_done;

/* -- watch.c ---------------------------------------------------------------- */

void snib__etcd_watch_begin(struct snib__etcd *, snib_instant now);
etcd_done snib__etcd_watch_done;
/* A message came on the watch's stream. */
etcd_heard snib__etcd_watch_heard;

/* -- lease.c ---------------------------------------------------------------- */

/* A lease of etcd's: it is granted once, never kept alive, and never used again
 * when it is over. */
struct etcd_lease {
    struct snib__link link; /* on leases, the newest last */
    struct etcd_call call;
    int64_t id;        /* 0: not granted yet */
    int64_t asked;     /* s */
    int64_t ttl;       /* s; a server may give more than was asked for */
    snib_instant sent; /* the grant, by our clock */
    bool failed;       /* it is used no more */
};

/* What a key needs of its lease. */
struct etcd_ttl {
    int64_t ttl;         /* s */
    snib_duration age;   /* so old it may be */
    snib_instant begun;  /* one that was sent since is never too old */
    snib_instant ending; /* it lasts until then at least, by our clock */
};

/* A lease for this; NULL: it is being granted, and the steps are told. */
const struct etcd_lease *snib__etcd_lease_for(struct snib__etcd *,
                                              snib_instant now,
                                              const struct etcd_ttl *);
/* The lease of this id, if it is one of ours that is remembered. */
const struct etcd_lease *snib__etcd_lease_of(const struct snib__etcd *,
                                             int64_t id);
static inline snib_instant snib__etcd_lease_end(const struct etcd_lease *l)
{
    return snib__after(l->sent, snib__ms(l->ttl * 1000));
}
/* Until when its keys stay, also at a member whose clock is fast. */
snib_instant snib__etcd_lease_sure(const struct etcd_lease *);
/* By how much sooner than its end a grant of this length is to be believed over. */
snib_duration snib__etcd_lease_drift(int64_t ttl, snib_duration lease);
/* How long a late copy of this ACQUIRE can do something: request.late, in s. */
void snib__etcd_lease_note(const struct snib__etcd *, struct snib__request *);
/* It is over, the server says: not one of those that we take for alive is used
 * any more. */
void snib__etcd_leases_doubt(struct snib__etcd *);
void snib__etcd_leases_free(struct snib__etcd *);

/* What a key needs. lease: as the request asks, delay included. */
struct etcd_ttl snib__etcd_ttl_hold(snib_duration lease, snib_instant begun);
struct etcd_ttl snib__etcd_ttl_seconds(int64_t ttl, int64_t age_ms,
                                       snib_instant begun);

/* -- step.c ----------------------------------------------------------------- */

struct etcd_step;

/* What a step is about. */
struct etcd_work {
    /* The connection is there, and nobody is in its way: send. */
    void (*begin)(struct snib__etcd *, snib_instant now, struct etcd_step *);
    etcd_done *done;
    /* A lease that it waited for has come, or the watch. */
    void (*go_on)(struct snib__etcd *, snib_instant now, struct etcd_step *);
    /* Its time is over, and what it has sent may yet be done. */
    void (*late)(struct snib__etcd *, snib_instant now, struct etcd_step *);
    /* Nothing was done: its requests are again as they came. NULL: they are. */
    void (*undo)(struct etcd_step *);
};

typedef enum etcd_phase {
    STEP_WAITS,  /* for the connection */
    STEP_ASKS,   /* a call that changes nothing is under way */
    STEP_LEASES, /* for leases */
    STEP_WRITES, /* a call that may change something is under way */
    STEP_PAUSES  /* after a conflict, or between two pages of a list */
} etcd_phase;

/* Where a claim stands (place.c): it is a part of its key. */
struct etcd_place {
    uint64_t opened[2]; /* the store that has made it */
    uint32_t number;
};

/* A place of this client's, and for which request. */
struct etcd_taken {
    uint64_t request[2];
    uint32_t number;
};

/* What a row that was fetched hangs on, and where it stands. */
struct etcd_fetched {
    struct etcd_place place;
    int64_t lease; /* etcd's */
    bool held;
    snib_duration length; /* the claim's lease */
};

struct etcd_step {
    struct etcd_call call;  /* first member */
    struct snib__link link; /* on steps or spare */
    struct snib__timer timer;
    const struct etcd_work *work;
    etcd_phase phase;
    struct snib__request *r[SNIB__SNAPSHOT_MAX];
    uint32_t count;
    /* Taken apart from these, each to be answered alone. */
    struct snib__request *apart[SNIB__SNAPSHOT_MAX];
    uint32_t aparts;
    uint32_t conflicts;
    snib_instant until; /* its requests are not under way longer than that */
    snib_instant sent;  /* its fetch, or the time of its last write */
    snib_instant begun; /* leases granted since are new enough */
    bool decides;       /* s has begun */
    /* claims.c */
    struct snib__snapshot s;
    struct etcd_fetched *fetched; /* of s.claim[i], as far as it was fetched */
    uint32_t fetched_count, fetched_capacity;
    /* The lock row and the arrivals of each lock, as fetched. */
    struct etcd_memory {
        int64_t lease;
        struct snib__etcd_text bytes;
        bool put; /* this step puts it */
    } row[SNIB__SNAPSHOT_MAX], arrivals[SNIB__SNAPSHOT_MAX];
    /* When the lease under which the claim of r[i] was put ends at the earliest;
     * 0: it was not put. */
    snib_instant ends[SNIB__SNAPSHOT_MAX];
    int64_t under[SNIB__SNAPSHOT_MAX]; /* … and which lease of etcd's it is */
    /* For claims that are not there yet. */
    struct etcd_taken taken[SNIB__SNAPSHOT_MAX];
    uint32_t takens;
    bool guessed;          /* it was decided without a fetch */
    struct snib__buf seen; /* of one ACQUIRE: the answer that has the rows */
    bool rests;            /* a list pauses between two pages */
    snib_duration busy;    /* for so long the server has worked on it */
    /* value.c, look.c, doctor.c */
    struct snib__buf from; /* a list goes on from this key */
    int64_t revision;
    uint32_t asked, answered;
    struct etcd_recipe recipe; /* recipe.c */
};

/* Renewals guard nothing but their own claims, and looks nothing: they are in
 * nobody's way. */
static inline bool snib__etcd_names(const struct snib__request *r)
{
    return r->name && r->verb != SNIB__INSPECT && r->verb != SNIB__RENEW;
}
/* How many steps are under way about names of its hash. */
uint16_t *snib__etcd_slot(struct snib__etcd *, const struct snib__request *);
/* Is the connection there, and may calls be made on it? */
bool snib__etcd_may_call(const struct snib__etcd *);
/* Begin a step for these, which were taken. False: no memory. */
bool snib__etcd_step_begin(struct snib__etcd *, snib_instant now,
                           const struct etcd_work *,
                           struct snib__request *const r[], uint32_t count);
/* This CANCEL is about to be started: its ACQUIRE is withdrawn, unless what it
 * has sent may change something. */
void snib__etcd_steps_cancel(struct snib__etcd *, const struct snib__request *);
/* Begin those that may by now. */
void snib__etcd_steps_begin(struct snib__etcd *, snib_instant now);
void snib__etcd_steps_tick(struct snib__etcd *, snib_instant now);
void snib__etcd_steps_free(struct snib__etcd *);
/* take.c: begin what is listed and may be begun. */
void snib__etcd_steps_take(struct snib__etcd *, snib_instant now);
/* A lease has come; none came. */
void snib__etcd_steps_go_on(struct snib__etcd *, snib_instant now);
void snib__etcd_steps_no_lease(struct snib__etcd *, snib_instant now,
                               const struct etcd_reply *);
/* A connection could not be made, and nothing of these was sent. */
void snib__etcd_steps_in_vain(struct snib__etcd *, snib_instant now,
                              bool refused, snib_err, const char *text);
/* All of its requests have their answers, or are to come again (PENDING). */
void snib__etcd_step_over(struct snib__etcd *, struct etcd_step *);
/* Nothing was done for it: its requests come again, unless somebody wants to
 * hear of it. It is over. */
void snib__etcd_step_in_vain(struct snib__etcd *, snib_instant now,
                             struct etcd_step *, bool refused, snib_err,
                             const char *text);
void snib__etcd_step_by_reply(struct snib__etcd *, snib_instant now,
                              struct etcd_step *, const struct etcd_reply *);
/* Nobody knows what was done for it. It is over. */
void snib__etcd_step_lost(struct snib__etcd *, struct etcd_step *);
/* It waits for the connection, then begins. */
void snib__etcd_step_again(struct snib__etcd *, snib_instant now,
                           struct etcd_step *);
/* Somebody was faster. False: too often, and it is over. */
bool snib__etcd_step_pause(struct snib__etcd *, snib_instant now,
                           struct etcd_step *);
/* It begins again then. */
void snib__etcd_step_rest(struct snib__etcd *, struct etcd_step *,
                          snib_instant then);
/* Each of its requests alone. It is over. */
void snib__etcd_step_apart(struct snib__etcd *, snib_instant now,
                           struct etcd_step *);
/* It goes on when a lease has come. */
void snib__etcd_step_wait(struct snib__etcd *, struct etcd_step *);
/* Ask (or write) and wait for the answer. */
void snib__etcd_step_call(struct snib__etcd *, snib_instant now,
                          struct etcd_step *, etcd_phase, const char *path,
                          struct snib__buf *message);

extern const struct etcd_work snib__etcd_claims_work; /* claims.c */
extern const struct etcd_work snib__etcd_value_work;  /* value.c */
extern const struct etcd_work snib__etcd_look_work;   /* look.c */
extern const struct etcd_work snib__etcd_doctor_work; /* doctor.c */

/* -- token.c ---------------------------------------------------------------- */

/* What the clock of a token counts for, where `last` is the highest one that is
 * known; 0: none is. */
int64_t snib__etcd_token_clock(int64_t clock, int64_t last);
/* Is it more than a day ahead of our clock? */
bool snib__etcd_token_far(const struct snib__etcd *, snib_instant now,
                          int64_t token);

/* -- place.c ---------------------------------------------------------------- */

struct etcd_places {
    /* Drawn when the store was opened: a client's id may be had by several, as by
     * who adopts its grants. */
    uint64_t opened[2];
    uint32_t next; /* from here on none was ever taken */
    uint32_t free[ETCD_PLACES], frees;
    uint32_t takens; /* by steps that are under way */
    /* Of writes that were lost: each stays its request's. */
    struct etcd_taken *lost;
    uint32_t losts, capacity;
};

bool snib__etcd_place_same(const struct etcd_place *,
                           const struct etcd_place *);
/* Where this claim stands, or is about to. False: nowhere. */
bool snib__etcd_place_find(const struct snib__etcd *, const struct etcd_step *,
                           const struct snib__key *, struct etcd_place *ret);
/* The same; one that stands nowhere gets a place. False: no memory. */
bool snib__etcd_place_take(struct snib__etcd *, struct etcd_step *,
                           const struct snib__key *, struct etcd_place *ret);
/* Nothing was done: its claims stand nowhere yet. */
void snib__etcd_places_back(struct snib__etcd *, struct etcd_step *);
/* The write of this step was applied. */
void snib__etcd_places_written(struct snib__etcd *, struct etcd_step *);
/* Nobody knows whether it was, or will be. */
void snib__etcd_places_lost(struct snib__etcd *, struct etcd_step *);
/* The step is over. */
void snib__etcd_places_over(struct snib__etcd *, struct etcd_step *);

/* -- guess.c ---------------------------------------------------------------- */

/* The rows of a name as this client's last write has left them, if nobody else had
 * a claim there. */
struct etcd_guess {
    uint64_t hash;
    snib_instant at; /* so they were; 0: nothing is known */
    uint32_t vain;   /* so many times more it is not noted: others are about */
    uint64_t row_stamp, claim_stamp, arrivals_stamp;
    /* If there is a claim: where it stands, on which lease of etcd's. */
    struct etcd_place place;
    int64_t lease;
    size_t name_size, row_size, claim_size, arrivals_size;
    struct snib__buf bytes;  /* the name, and these rows */
    struct snib__buf others; /* an answer with the rows of others, or nothing */
};

/* What is known of the name of this step, which is of one request; NULL: nothing
 * that it could be decided on. It is known no more. */
const struct etcd_guess *snib__etcd_guess_take(struct snib__etcd *,
                                               snib_instant now,
                                               const struct etcd_step *);
/* The write of this step was applied, with that revision. */
void snib__etcd_guess_note(struct snib__etcd *, const struct etcd_step *,
                           uint64_t revision);
/* The rows of this step's name were not as they were known. */
void snib__etcd_guess_vain(struct snib__etcd *, const struct etcd_step *);
void snib__etcd_guesses_forget(struct snib__etcd *);
void snib__etcd_guesses_free(struct snib__etcd *);

/* -- key.c ------------------------------------------------------------------ */

struct etcd_key {
    char text[ETCD_KEY_MAX];
    size_t size;
};

enum { ETCD_ID = 32, ETCD_PLACE = 8 };
/* An id as hexadecimal digits, with a NUL; and back. */
void snib__etcd_id_text(const uint64_t id[2], char ret[ETCD_ID + 1]);
bool snib__etcd_id_read(const char *text, size_t size, uint64_t ret[2]);

/* All keys of this name's lock: from here on, before `to`. */
void snib__etcd_key_lock(const struct snib__etcd *, const struct snib__name *,
                         struct etcd_key *from, struct etcd_key *to);
/* place: of a claim. */
void snib__etcd_key_row(const struct snib__etcd *, const struct snib__key *,
                        const struct etcd_place *, struct etcd_key *ret);
void snib__etcd_key_notifier(const struct snib__etcd *,
                             const uint64_t client[2], struct etcd_key *ret);
/* suffix: "r" the record, "v" the bytes, "" both of them, "0" their end. */
void snib__etcd_key_value(const struct snib__etcd *, const struct snib__name *,
                          const char *suffix, struct etcd_key *ret);
/* All locks. */
void snib__etcd_key_all(const struct snib__etcd *, struct etcd_key *from,
                        struct etcd_key *to);

/* A key of a lock, taken apart. */
struct etcd_parts {
    char name[SNIB_NAME_MAX];
    size_t size;
    const char *safe; /* borrowed: as it stands in the key */
    size_t safe_size;
    snib__key_kind kind;
    struct etcd_place place; /* of a claim */
};

/* False: it is none of ours. */
bool snib__etcd_key_read(const struct snib__etcd *, struct snib__etcd_text,
                         struct etcd_parts *ret);
/* It may be a claim of another version, which holds: what whoever wants the lock, or
 * looks at it, is told. */
snib_err snib__etcd_key_strange(struct snib__etcd_text,
                                struct snib_error *reterr);
static inline struct snib__etcd_text
snib__etcd_text_of(const struct etcd_key *k)
{
    return (struct snib__etcd_text){k->text, k->size};
}

/* -- the store --------------------------------------------------------------- */

struct snib__etcd {
    struct snib__out *out;
    struct snib__nonblocking requests;
    uint64_t client[2];
    snib_duration request; /* how long to wait for one answer */
    struct snib__rng rng;
    struct snib__nghttp2 *lib;
    bool asks, secure, recipe; /* ?dialect=concurrency: recipe.c */
    char *user, *password;
    char prefix[ETCD_PREFIX_MAX + 1];
    struct etcd_waits waits; /* recipe_wait.c */
    struct etcd_session session;
    struct snib__list leases;
    int64_t least_ttl; /* s: the server gives no less, as far as is known */
    struct etcd_kept { /* when we have put the memory of a name, by its hash */
        uint64_t hash;
        snib_instant at;
    } kept[ETCD_KEPT][2];                  /* the lock row, the arrivals */
    struct etcd_guess guess[ETCD_GUESSES]; /* by the hashes of names */
    struct etcd_places places;
    int64_t revision; /* the highest one that was seen */
    struct snib__list steps, spare;
    struct snib__heap timers;
    snib_instant now; /* of the call that the store is in */
    uint32_t under_way;
    uint16_t busy[ETCD_SLOTS]; /* steps about names of this hash */
    struct snib__buf message;  /* being written */
};

/* Unix time by this host's clock as it is set now. The store has none. */
static inline snib_instant snib__etcd_wall(const struct snib__etcd *e,
                                           snib_instant now)
{
    return (snib_instant){now.ns + e->out->wall_offset_ns};
}

/* state.c */
void snib__etcd_state(const struct snib__store *, snib_instant now,
                      struct snib__store_state *ret);
bool snib__etcd_server(const struct snib__store *, snib_instant now,
                       uint32_t node, struct snib__server *ret);

snib_err snib__etcd_open(const struct snib__store_config *,
                         struct snib__store **ret, struct snib_error *reterr);
void snib__etcd_free(struct snib__store *);

#endif
