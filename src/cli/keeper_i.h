/* keeper_i.h — the keeper's parts among themselves. One thread but for
 * on_change (keeper_acquire.c), which only writes an eventfd, and the one that
 * waits for several names (keeper_multi.c). */
#ifndef SNIB_CLI_KEEPER_I_H
#define SNIB_CLI_KEEPER_I_H

#include <pthread.h>
#include <stdatomic.h>

#include "look.h"
#include "plan.h"
#include "snib/multi.h"
#include "waitline.h"

enum slot_state { SLOT_IDLE, SLOT_ASKED, SLOT_HELD, SLOT_LOST, SLOT_OUTER };

/* Ids of requests of 16 digits, each with a comma. */
enum { KEEPER_ABOVE_MAX = 8, KEEPER_ABOVE_TEXT = 17 * KEEPER_ABOVE_MAX + 1 };

/* One name. */
struct slot {
    enum slot_state state;
    struct snib_lock *lock;
    uint64_t ticket;
    struct snib_grant grant;
    int64_t permit_slot; /* of a semaphore; -1: none */
    int64_t deadline_ns;
    snib_reason reason;                /* of its loss */
    char lost_text[SNIB_EXPLAIN_TEXT]; /* the same in words; "": not known */
    bool at_risk;                      /* and told */
    char outer[CONTROL_ADDRESS_MAX];   /* OUTER: whom to ask */
    char owner[PLAN_OWNER_MAX];        /* OUTER: who holds */
    bool covered;                      /* OUTER: its kind is enough for us */
    int64_t outer_ttl_ns;              /* OUTER: of its lease; 0: not known */
};

/* ACQUIRING -> HOLDING -> (RELEASE) -> end; LEAVING: give up, hold nothing. */
enum phase { PHASE_ACQUIRING, PHASE_HOLDING, PHASE_LEAVING };

/* More than one name that is not held up the tree. While `waiting`, thread
 * alone writes grants, error and code, and `answered` last. */
struct several {
    struct snib_multi *multi; /* NULL: none, or one name only               */
    size_t count, slot[PLAN_NAMES_MAX];
    struct snib_grant grants[PLAN_NAMES_MAX];
    struct snib_acquire_options options;
    struct snib_error error;
    snib_err code;
    pthread_t thread;
    bool waiting;
    atomic_bool answered;
};

struct keeper {
    const struct plan *plan;
    struct plan_page *page;
    int socket;  /* to the leash; -1 when detached */
    pid_t leash; /* who forked us                                          */
    int listener;
    int spare;   /* for the next asker, when there is no other descriptor  */
    int changed; /* eventfd: on_change was called, or several has answered */
    struct snib_client *client;
    char above[KEEPER_ABOVE_TEXT]; /* snib_acquire_options.above           */
    uint64_t lane; /* one for all names: who holds one and waits for another
                      shows that in the store                              */
    struct slot slots[PLAN_NAMES_MAX];
    size_t at; /* the name being acquired; of several: the missing one */
    struct several several;
    struct leash_rules rules; /* the plan's, fitted to what is held above */
    enum phase phase;
    bool detached;
    int holder_pidfd;   /* detached: whose end is the lock's; -1: nobody's    */
    int64_t holder_pid; /* which one that is                                */
    int signals;        /* signalfd of what ends us; -1                       */
    int told;           /* what came there, for the leash                     */
    int64_t told_ns;    /* pass it on then                                    */
    int64_t tie_ns;     /* --sh: release then, unless it is tied by then      */
    bool lost;
    snib_reason lost_reason;
    const struct slot *first_lost; /* whose loss that was; NULL: none's     */
    int64_t stay_ns; /* detached, lost, tied to none: end then              */
    bool paused; /* the leash is stopped, and has said so                  */
    bool said_elsewhere; /* of keeper_is_elsewhere() */
    bool aside; /* a grant was given back: nothing is asked for just now  */
    bool again; /* ... all is, at the next turn of the loop                */
    int64_t again_ns; /* ... or then; INT64_MAX: not                        */
    bool local;       /* the store is a file on this host */
    bool asked;   /* the store, for a lock                                  */
    bool reached; /* the store, once                                       */
    bool lingers; /* goes on alone until what it asked for is cancelled    */
    int64_t reached_ns; /* look then whether it is                         */
    struct waitline line;
    int64_t look_ns;   /* next look at the grants                          */
    int64_t renew_ns;  /* our own renewal, when the grace is long          */
    int64_t guard_ns;  /* kill the group ourselves then                    */
    int clean;         /* looks for who left it that found nobody          */
    int64_t offer_ns;  /* withdraw what the leash has not taken by then    */
    struct look *look; /* for the line: under way, or NULL                */
};

/* keeper.c: the end. */

/* Before the last word: must we outlive the leash, as what we asked for may
 * be granted yet? */
bool keeper_lingers(struct keeper *);
void keeper_note_reached(struct keeper *);
void keeper_drop(int null, int fd);
_Noreturn void keeper_end(struct keeper *, int code);
_Noreturn void keeper_release_and_end(struct keeper *);
/* Give all back: we lack what it takes to keep it; errno. */
_Noreturn void keeper_cannot(struct keeper *, const char *what);

/* keeper_hold.c */
bool keeper_tell(const struct keeper *, enum plan_message_kind, int code,
                 enum leash_why, const char *text);
/* Ask the keeper at address how long its lease of name still is. */
bool keeper_ask_outer(const char *address, const char *name,
                      struct control_reply *ret, pid_t *ret_keeper);
/* Look at all grants; publish the earliest deadline if it is later than
 * before; tell the leash what is at risk or lost. */
void keeper_look(struct keeper *);
/* Why s is lost: itself, or since it is held together with what was lost.
 * Nothing is added where that is not known. */
void keeper_why_lost(const struct keeper *, const struct slot *s,
                     struct text *);
/* With a long grace a third of the lease is too late. */
void keeper_renew_early(struct keeper *);
/* How giving back went so far. */
struct keeper_giving {
    bool lost; /* the store said that one had ended                        */
    enum leash_why why;
    char text[SNIB_EXPLAIN_TEXT]; /* the words for that; "": none          */
    char
        silence[SNIB_EXPLAIN_TEXT]; /* why one was not answered; "": all were */
    bool unanswered[PLAN_NAMES_MAX];
};

/* Ask the store once to end everything. */
void keeper_give_back(struct keeper *, struct keeper_giving *ret);
/* What was not answered: the library repeats it; until it is through, or the
 * lease is over. */
void keeper_see_given_back(struct keeper *, const struct keeper_giving *);
/* Both. True when the store said that one had ended; ret_text, of
 * SNIB_EXPLAIN_TEXT bytes or NULL, has the words for it. */
bool keeper_release_all(struct keeper *, enum leash_why *ret_why,
                        char *ret_text);

/* keeper_acquire.c */
void keeper_acquire(struct keeper *);
/* All names are held, as far as one knows: publish that. */
void keeper_all_acquired(struct keeper *);
/* Is one attempt in this thread quick enough? */
bool keeper_may_try_here(const struct keeper *);
/* For snib_acquire_options.wait_ms. */
int64_t keeper_wait_left_ms(const struct keeper *);
/* Of the name at k->at. Where the store was away, that becomes the error. */
void keeper_say_not_acquired(struct keeper *, struct snib_error *);
/* Make `changed` readable. Any thread. */
void keeper_wake(const struct keeper *);
void keeper_take_events(struct keeper *);
void keeper_take_changes(struct keeper *);
void keeper_show_waiting(struct keeper *);
/* Said already: give all back, tell the leash, end. */
_Noreturn void keeper_fail(struct keeper *, snib_err);
bool keeper_limit_over(const struct keeper *);
/* The limit is over and the store is away. To end the wait for several names
 * takes longer then than the leash has patience: say and tell it first. */
_Noreturn void keeper_fail_away(struct keeper *);

/* keeper_offer.c: a grant becomes the leash's, or is given back. */
void keeper_offer(struct keeper *);
void keeper_offer_due(struct keeper *);
void keeper_pause(struct keeper *);
void keeper_go_on(struct keeper *);
/* What was just acquired is no longer held, and the leash knows of nothing:
 * give the rest back, and ask for all of it anew. */
void keeper_ask_again(struct keeper *);
/* The same, in a while: what is held up the tree may be renewed, or lost, then. */
void keeper_ask_later(struct keeper *);

/* keeper_detached.c: TERM and INT; alone from DETACH on. */
void keeper_hear_signals(struct keeper *);
void keeper_detach(struct keeper *);
/* Release when this process ends. 0 or errno. */
int keeper_tie(struct keeper *, int64_t pid);
/* What was held is lost: stay to tell why, or end. */
void keeper_stay_lost(struct keeper *, int64_t now);
/* TERM or INT came. */
void keeper_told_to_end(struct keeper *);
/* … and so it is for the leash, now. */
void keeper_pass_on(struct keeper *);

/* keeper_above.c: what is held up the tree by who surely waits for us. Sets
 * k->above; for snib_acquire_options: that, or NULL when it is empty. */
const char *keeper_find_above(struct keeper *);

/* keeper_nested.c: what this command runs inside holds the name, so the wait
 * would never end. By a look: does one of the view's holders? Of a living
 * keeper up the tree that is surely so. */
void keeper_refuse_nested(struct keeper *, const struct snib_view *);
_Noreturn void keeper_refuse_outer(struct keeper *, const char *name);
/* Is it a snib run's, of which this command is surely no descendant? Says so,
 * once. */
bool keeper_is_elsewhere(struct keeper *, pid_t keeper, const char *name);

/* keeper_multi.c: several names */
void keeper_multi_start(struct keeper *);
void keeper_multi_take_answer(struct keeper *);
/* End the wait here and now; what was acquired is in the slots. */
void keeper_multi_stop(struct keeper *);
/* Of one name or several; NULL: none is, just now. */
const char *keeper_missing_name(struct keeper *);

/* keeper_answer.c: one question at the private socket; a descriptor for it,
 * whatever comes. False: there is none, errno. */
void keeper_hear_asker(struct keeper *);
bool keeper_keep_spare(struct keeper *);

#endif
