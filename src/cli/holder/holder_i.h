/* holder_i.h — the holder's parts among themselves. One thread but for
 * on_change (holder_acquire.c), which only writes an eventfd, and the one that
 * waits for several names (holder_multi.c). */
#ifndef SNIB_CLI_HOLDER_I_H
#define SNIB_CLI_HOLDER_I_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/store/look.h"
#include "cli/supervisor/plan.h"
#include "cli/words/waitline.h"
#include "snib/multi.h"

enum slot_state { SLOT_IDLE, SLOT_ASKED, SLOT_HELD, SLOT_LOST, SLOT_OUTER };

/* Ids of requests of 16 digits, each with a comma. */
enum { HOLDER_ABOVE_MAX = 8, HOLDER_ABOVE_TEXT = 17 * HOLDER_ABOVE_MAX + 1 };

/* One name. */
struct slot {
    enum slot_state state;
    struct snib_lock *lock;
    uint64_t ticket;
    struct snib_grant grant;
    int64_t permit_slot; /* of a semaphore; -1: none */
    int64_t deadline_ns;
    snib_cause cause;                  /* of its loss */
    char lost_text[SNIB_EXPLAIN_TEXT]; /* the same in words; "": not known */
    bool at_risk;                      /* and told */
    char outer[CONTROL_ADDRESS_MAX];   /* OUTER: whom to ask */
    char client_id[PLAN_OWNER_MAX];    /* OUTER: who holds */
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

struct holder {
    const struct plan *plan;
    struct plan_page *page;
    int socket; /* to the supervisor; -1 when detached */
    pid_t
        supervisor; /* who forked us                                          */
    int listener;
    int spare;   /* for the next asker, when there is no other descriptor  */
    int changed; /* eventfd: on_change was called, or several has answered */
    struct snib_client *client;
    char above[HOLDER_ABOVE_TEXT]; /* snib_acquire_options.above           */
    uint64_t owner; /* one for all names: who holds one and waits for another
                      shows that in the store                              */
    struct slot slots[PLAN_NAMES_MAX];
    size_t at; /* the name being acquired; of several: the missing one */
    struct several several;
    struct supervisor_rules
        rules; /* the plan's, fitted to what is held above */
    enum phase phase;
    bool detached;
    int holder_pidfd;   /* detached: whose end is the lock's; -1: nobody's    */
    int64_t holder_pid; /* which one that is                                */
    int signals;        /* signalfd of what ends us; -1                       */
    int told; /* what came there, for the supervisor                     */
    int64_t told_ns; /* pass it on then                                    */
    int64_t tie_ns;  /* --sh: release then, unless it is tied by then      */
    bool lost;
    snib_cause lost_cause;
    const struct slot *first_lost; /* whose loss that was; NULL: none's     */
    int64_t stay_ns; /* detached, lost, tied to none: end then              */
    bool
        paused; /* the supervisor is stopped, and has said so                  */
    bool said_elsewhere; /* of holder_is_elsewhere() */
    bool aside; /* a grant was given back: nothing is asked for just now  */
    bool again; /* ... all is, at the next turn of the loop                */
    int64_t again_ns; /* ... or then; INT64_MAX: not                        */
    bool local;       /* the store is a file on this host */
    bool asked;   /* the store, for a lock                                  */
    bool reached; /* the store, once                                       */
    bool lingers; /* goes on alone until what it asked for is cancelled    */
    int64_t reached_ns; /* look then whether it is                         */
    struct waitline line;
    int64_t look_ns;  /* next look at the grants                          */
    int64_t renew_ns; /* our own renewal, when the grace is long          */
    int64_t guard_ns; /* kill the group ourselves then                    */
    int clean;        /* looks for who left it that found nobody          */
    int64_t
        offer_ns; /* withdraw what the supervisor has not taken by then    */
    struct look *look; /* for the line: under way, or NULL                */
};

/* holder.c: the end. */

/* Before the last word: must we outlive the supervisor, as what we asked for may
 * be granted yet? */
bool holder_lingers(struct holder *);
void holder_note_reached(struct holder *);
void holder_drop(int null, int fd);
_Noreturn void holder_end(struct holder *, int code);
_Noreturn void holder_release_and_end(struct holder *);
/* Give all back: we lack what it takes to keep it; errno. */
_Noreturn void holder_cannot(struct holder *, const char *what);

/* holder_hold.c */
bool holder_tell(const struct holder *, enum plan_message_kind, int code,
                 enum supervisor_why, const char *text);
/* Ask the holder at address how long its lease of name still is. */
bool holder_ask_outer(const char *address, const char *name,
                      struct control_reply *ret, pid_t *ret_holder);
/* Look at all grants; publish the earliest deadline if it is later than
 * before; tell the supervisor what is at risk or lost. */
void holder_look(struct holder *);
/* Why s is lost: itself, or since it is held together with what was lost.
 * Nothing is added where that is not known. */
void holder_why_lost(const struct holder *, const struct slot *s,
                     struct text *);
/* With a long grace a third of the lease is too late. */
void holder_renew_early(struct holder *);
/* How giving back went so far. */
struct holder_giving {
    bool lost; /* the store said that one had ended                        */
    enum supervisor_why why;
    char text[SNIB_EXPLAIN_TEXT]; /* the words for that; "": none          */
    char
        silence[SNIB_EXPLAIN_TEXT]; /* why one was not answered; "": all were */
    bool unanswered[PLAN_NAMES_MAX];
};

/* Ask the store once to end everything. */
void holder_give_back(struct holder *, struct holder_giving *ret);
/* What was not answered: the library repeats it; until it is through, or the
 * lease is over. */
void holder_see_given_back(struct holder *, const struct holder_giving *);
/* Both. True when the store said that one had ended; ret_text, of
 * SNIB_EXPLAIN_TEXT bytes or NULL, has the words for it. */
bool holder_release_all(struct holder *, enum supervisor_why *ret_why,
                        char *ret_text);

/* holder_acquire.c */
void holder_acquire(struct holder *);
/* All names are held, as far as one knows: publish that. */
void holder_all_acquired(struct holder *);
/* Is one attempt in this thread quick enough? */
bool holder_may_try_here(const struct holder *);
/* For snib_acquire_options.wait_ms. */
int64_t holder_wait_left_ms(const struct holder *);
/* Of the name at k->at. Where the store was away, that becomes the error. */
void holder_say_not_acquired(struct holder *, struct snib_error *);
/* Make `changed` readable. Any thread. */
void holder_wake(const struct holder *);
void holder_take_events(struct holder *);
void holder_take_changes(struct holder *);
void holder_show_waiting(struct holder *);
/* Said already: give all back, tell the supervisor, end. */
_Noreturn void holder_fail(struct holder *, snib_err);
bool holder_limit_over(const struct holder *);
/* The limit is over and the store is away. To end the wait for several names
 * takes longer then than the supervisor has patience: say and tell it first. */
_Noreturn void holder_fail_away(struct holder *);

/* holder_offer.c: a grant becomes the supervisor's, or is given back. */
void holder_offer(struct holder *);
void holder_offer_due(struct holder *);
void holder_pause(struct holder *);
void holder_go_on(struct holder *);
/* What was just acquired is no longer held, and the supervisor knows of nothing:
 * give the rest back, and ask for all of it anew. */
void holder_ask_again(struct holder *);
/* The same, in a while: what is held up the tree may be renewed, or lost, then. */
void holder_ask_later(struct holder *);

/* holder_detached.c: TERM and INT; alone from DETACH on. */
void holder_hear_signals(struct holder *);
void holder_detach(struct holder *);
/* Release when this process ends. 0 or errno. */
int holder_tie(struct holder *, int64_t pid);
/* What was held is lost: stay to tell why, or end. */
void holder_stay_lost(struct holder *, int64_t now);
/* TERM or INT came. */
void holder_told_to_end(struct holder *);
/* … and so it is for the supervisor, now. */
void holder_pass_on(struct holder *);

/* holder_above.c: what is held up the tree by who surely waits for us. Sets
 * k->above; for snib_acquire_options: that, or NULL when it is empty. */
const char *holder_find_above(struct holder *);

/* holder_nested.c: what this command runs inside holds the name, so the wait
 * would never end. By a look: does one of the view's holders? Of a living
 * holder up the tree that is surely so. */
void holder_refuse_nested(struct holder *, const struct snib_view *);
_Noreturn void holder_refuse_outer(struct holder *, const char *name);
/* Is it a snib run's, of which this command is surely no descendant? Says so,
 * once. */
bool holder_is_elsewhere(struct holder *, pid_t holder, const char *name);

/* holder_multi.c: several names */
void holder_multi_start(struct holder *);
void holder_multi_take_answer(struct holder *);
/* End the wait here and now; what was acquired is in the slots. */
void holder_multi_stop(struct holder *);
/* Of one name or several; NULL: none is, just now. */
const char *holder_missing_name(struct holder *);

/* holder_answer.c: one question at the private socket; a descriptor for it,
 * whatever comes. False: there is none, errno. */
void holder_hear_asker(struct holder *);
bool holder_keep_spare(struct holder *);

#endif
