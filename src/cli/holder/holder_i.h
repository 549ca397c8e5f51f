/* holder_i.h — what the holder's files share.
 *
 * A lock is "held above" when a snib run or snib acquire further up the process
 * tree holds it, as SNIB_HELD says and that holder confirms.
 *
 * All of it runs in one thread but for two things: on_change
 * (holder_acquire.c), which only writes an eventfd, and the thread that waits
 * for several names (holder_multi.c).
 *
 * Files, the lower ones first (each calls only files that stand before it):
 * holder_multi.c (the wait for several names) · holder_hold.c (the grants) ·
 * holder_above.c (locks held above) · holder_end.c (the end) · holder_fds.c (no
 * descriptor of the user's) · holder_fail.c (nothing is acquired) ·
 * holder_nested.c (waiting for oneself) · holder_offer.c, holder_detached.c,
 * holder_inner.c, holder_answer.c (grants are offered, kept without a
 * supervisor, run under by other runs, asked for) ·
 * holder_grant.c (all is held) ·
 * holder_acquire.c (from the names to that) · holder.c (the loop).
 */
#ifndef SNIB_CLI_HOLDER_I_H
#define SNIB_CLI_HOLDER_I_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/store/look.h"
#include "cli/supervisor/plan.h"
#include "cli/supervisor/proc.h"
#include "cli/words/waitline.h"
#include "snib/inspect.h"
#include "snib/multi.h"

enum slot_state { SLOT_IDLE, SLOT_REQUESTED, SLOT_HELD, SLOT_LOST, SLOT_OUTER };

/* Ids of requests of 16 digits, each with a comma. */
enum { HOLDER_ABOVE_MAX = 8, HOLDER_ABOVE_TEXT = 17 * HOLDER_ABOVE_MAX + 1 };

/* One name. The fields marked OUTER are those of a lock held above. */
struct slot {
    enum slot_state state;
    struct snib_lock *lock;
    uint64_t ticket;
    struct snib_grant grant;
    int64_t permit_slot; /* of a semaphore; -1: none */
    int64_t deadline_ns;
    snib_cause cause;                  /* of its loss */
    char lost_text[SNIB_EXPLAIN_TEXT]; /* the cause in words; "": not known */
    bool at_risk;                      /* and the supervisor was told */
    char outer[CONTROL_ADDRESS_MAX];   /* OUTER: address of its holder */
    bool under;      /* OUTER: its holder knows of this run, and waits for it */
    pid_t outer_pid; /* OUTER: its holder; 0: not seen */
    char client_id[PLAN_OWNER_MAX]; /* OUTER: who holds it */
    bool covered;                   /* OUTER: its kind is strong enough */
    int64_t outer_ttl_ns;           /* OUTER: its lease; 0: not known */
    /* Not OUTER though SNIB_HELD has the name: errno of asking that holder, or
     * the store it holds the name at; 0, "": no such entry. */
    int outer_error;
    char outer_store[CONTROL_STORE_MAX];
};

/* ACQUIRING -> HOLDING -> (RELEASE) -> end; LEAVING: give up, hold nothing. */
enum phase { PHASE_ACQUIRING, PHASE_HOLDING, PHASE_LEAVING };

/* Two or more names that are not held above. While `waiting` is set, only
 * `thread` writes grants, error and code, and `answered` last. */
struct several {
    struct snib_multi *multi; /* NULL: none, or one name only */
    size_t count, slot[PLAN_NAMES_MAX];
    struct snib_grant grants[PLAN_NAMES_MAX];
    struct snib_acquire_options options;
    int64_t wait_ms;
    struct snib_error error;
    snib_err code;
    pthread_t thread;
    bool waiting;
    atomic_bool answered;
};

enum { INNER_MAX = 32 };

/* A snib run --reentrant that runs its command under a lock of this holder. */
struct inner {
    int64_t id;       /* what it has drawn; 0: this one is free */
    int64_t until_ns; /* the deadline that it was told last */
    /* Its two processes, and when they started; 0: not known. */
    pid_t holder, supervisor;
    int64_t holder_start, supervisor_start;
};

struct holder {
    const struct plan *plan;
    struct plan_page *page;
    int socket;       /* to the supervisor; -1 when detached */
    pid_t supervisor; /* the parent */
    int listener;
    /* Spare descriptors for when all others are in use: to accept a connection
     * with, or to look at processes. */
    int spare[PROC_DESCRIPTORS];
    /* eventfd: on_change was called, or `several` is answered. */
    int changed;
    struct snib_client *client;
    char above[HOLDER_ABOVE_TEXT]; /* snib_acquire_options.above */
    /* One owner for all names: the store then shows that it holds one name and
     * waits for another. */
    uint64_t owner;
    struct slot slots[PLAN_NAMES_MAX];
    /* The name that is being acquired; of several: the missing one. */
    size_t at;
    struct several several;
    /* The plan's rules, made to fit the leases of locks held above. */
    struct supervisor_rules rules;
    enum phase phase;
    bool detached;
    /* detached: a process whose end releases the lock; -1: none. */
    int holder_pidfd;
    int64_t holder_pid; /* its pid */
    int signals;        /* signalfd of TERM and INT; -1: none */
    int told;           /* the signal that came there */
    int64_t told_ns;    /* tell the supervisor of it then */
    int64_t tie_ns;     /* --sh: release then if not tied by then */
    bool lost;
    snib_cause lost_cause;
    const struct slot *first_lost; /* whose loss that was; NULL: none */
    /* detached, lost and tied to no process: end then. */
    int64_t stay_ns;
    /* The supervisor is stopped, and had said so before. */
    bool paused;
    bool said_elsewhere; /* holder_is_elsewhere() has said it */
    /* A grant was given back: nothing is requested just now. */
    bool aside;
    /* ... everything is requested again in the next round of the loop */
    bool again;
    int64_t again_ns; /* ... or then; INT64_MAX: not */
    bool local;       /* the store is a file on this host */
    bool requested;   /* a request for a lock was started */
    bool reached;     /* the store answered once */
    /* It goes on alone until its request is cancelled or too old. */
    bool lingers;
    int64_t reached_ns; /* check `reached` again then */
    struct waitline line;
    int64_t check_ns; /* check the grants again then */
    /* Renew by an explicit request then, when the grace is long. */
    int64_t renew_ns;
    int64_t guard_ns; /* kill the command's group then */
    /* How many scans in a row found no process that had left the group; how
     * many there were. */
    int clean, scans;
    int64_t id; /* CONTROL_UNDER: drawn by this run; 0: not yet */
    struct inner inner[INNER_MAX];
    int64_t more_until_ns; /* the latest until_ns of those beyond these */
    bool ending;           /* release when no inner run is left */
    int64_t asked_ns;      /* somebody asked for the release then */
    /* Withdraw an offer that the supervisor has not taken by then. */
    int64_t offer_ns;
    /* The inspection for the waiting line that is under way, or NULL. */
    struct look *look;
};

/* holder_end.c */
void holder_nap(int64_t ms);
/* Does the store not answer, as far as is known or can be seen in a moment? */
bool holder_unanswered(struct holder *);
/* Called before the last message. Must this process outlive the supervisor,
 * since a request that it sent may be granted yet? */
bool holder_lingers(struct holder *);
void holder_note_reached(struct holder *);
void holder_drop(int null, int fd);
_Noreturn void holder_end(struct holder *, int code);
_Noreturn void holder_release_and_end(struct holder *);
/* Give everything back and end, because `what` failed with errno and the lock
 * cannot be kept without it. */
_Noreturn void holder_cannot(struct holder *, const char *what);

/* holder_fds.c: keep stderr until the grant, the socket to the supervisor, and
 * the plan's holder_pidfd. */
void holder_close_inherited(struct holder *);

/* holder_hold.c */
bool holder_tell(const struct holder *, enum plan_message_kind, int code,
                 enum supervisor_why, const char *text);
/* Ask the holder at address how long its lease of name still is. False: errno,
 * as of control_ask. */
bool holder_ask_outer(const char *address, const char *name,
                      struct control_reply *ret, pid_t *ret_holder);
/* Check all grants; publish the earliest deadline if it is later than before;
 * tell the supervisor what is at risk or lost. */
void holder_check(struct holder *);
/* Add the cause of the loss of s: its own, or that of the lock that was lost
 * first, since both are held together. Adds nothing where it is not known. */
void holder_why_lost(const struct holder *, const struct slot *s,
                     struct text *);
/* Renew earlier than the library does: with a long grace a third of the lease
 * is too late. */
void holder_renew_early(struct holder *);
/* The result of giving back, so far. */
struct holder_giving {
    bool lost; /* the store said that a grant had ended */
    enum supervisor_why why;
    char text[SNIB_EXPLAIN_TEXT]; /* the cause in words; "": none */
    /* Why one name was not answered; "": all were. */
    char silence[SNIB_EXPLAIN_TEXT];
    bool unanswered[PLAN_NAMES_MAX];
};

/* Ask the store once to end everything. */
void holder_give_back(struct holder *, struct holder_giving *ret);
/* The library repeats the release of names that were not answered. Wait until
 * it is answered, or the lease is over. */
void holder_see_given_back(struct holder *, const struct holder_giving *);
/* Do both. True when the store said that a grant had ended before; ret_text, of
 * SNIB_EXPLAIN_TEXT bytes or NULL, gets the cause in words. */
bool holder_release_all(struct holder *, enum supervisor_why *ret_why,
                        char *ret_text);

/* holder_fail.c */
/* What is left of the limit; INT64_MAX: there is none. */
int64_t holder_wait_left_ms(const struct holder *);
bool holder_limit_over(const struct holder *);
/* Is one attempt in this thread quick enough? */
bool holder_may_try_here(const struct holder *);
/* About the name at k->at. If the store was unreachable, that replaces the
 * error. */
void holder_say_not_acquired(struct holder *, struct snib_error *);
/* The error is said already: give all back, tell the supervisor, end. */
_Noreturn void holder_fail(struct holder *, snib_err);
/* The limit is over and the store is unreachable. To end the wait for several
 * names takes longer then than the supervisor's patience: so say it and tell
 * the supervisor first. */
_Noreturn void holder_fail_away(struct holder *);

/* holder_grant.c: all names are held, as far as this process knows: publish
 * that. */
void holder_all_acquired(struct holder *);

/* holder_acquire.c */
void holder_acquire(struct holder *);
void holder_take_events(struct holder *);
void holder_take_changes(struct holder *);
void holder_show_waiting(struct holder *);
/* The supervisor goes on: what was given back is requested again. */
void holder_go_on(struct holder *);

/* holder_offer.c: a grant becomes the supervisor's, or is given back. */
void holder_offer(struct holder *);
void holder_offer_due(struct holder *);
void holder_pause(struct holder *);
/* The supervisor goes on. If a grant is held, its offer was withdrawn before the
 * supervisor could take it. True: all names are to be requested again. */
bool holder_offer_again(struct holder *);
/* A grant that was just acquired is lost again, and the supervisor knows of
 * none: give the rest back, and request all names anew. */
void holder_request_again(struct holder *);
/* The same a little later: a lock held above may have been renewed, or lost, by
 * then. */
void holder_request_later(struct holder *);

/* holder_detached.c: TERM and INT; life without a supervisor, from DETACH
 * on. */
void holder_hear_signals(struct holder *);
void holder_detach(struct holder *);
/* Release when the process pid ends. 0 or errno. */
int holder_tie(struct holder *, int64_t pid);
/* The lock is lost: stay to tell the cause, or end. */
void holder_stay_lost(struct holder *, int64_t now);
/* TERM or INT came. */
void holder_told_to_end(struct holder *);
/* Act on that signal: tell the supervisor. */
void holder_pass_on(struct holder *);

/* holder_above.c: the locks held above by commands that surely wait for this
 * one. Sets k->above; returns it for snib_acquire_options, or NULL when it is
 * empty. */
const char *holder_find_above(struct holder *);

/* holder_nested.c: a command that this one runs inside holds the name, so the
 * wait would never end. The first finds that in an inspection: is one of the
 * view's holders such a process? The second is for a name that a living holder
 * above has confirmed; its pid, 0: not seen from here. */
void holder_refuse_nested(struct holder *, const struct snib_view *);
_Noreturn void holder_refuse_outer(struct holder *, const char *name,
                                   pid_t holder);
/* Does that holder belong to a snib run of which this command is surely no
 * descendant? Says so, once. */
bool holder_is_elsewhere(struct holder *, pid_t holder, const char *name);

/* holder_multi.c: several names. */

/* Make `changed` readable. Any thread. */
void holder_wake(const struct holder *);
/* A multi of the names that are not held above. False: there is none. */
bool holder_multi_make(struct holder *, struct snib_error *);
/* One attempt in this thread. The slots are not changed. */
snib_err holder_multi_try(struct holder *);
/* Wait in a thread. False: there is none. */
bool holder_multi_begin(struct holder *, struct snib_error *);
/* True, once: that thread has its answer, and the slots say so. */
bool holder_multi_answered(struct holder *);
/* Say in the slots what was answered. */
void holder_multi_set_slots(struct holder *);
/* End the wait at once; the grants that were acquired are in the slots. */
void holder_multi_stop(struct holder *);
/* The missing name, of one or several; NULL: none is missing just now. */
const char *holder_missing_name(struct holder *);

/* holder_inner.c: the runs that run under a lock of this holder. */

/* The process at fd runs under it until until_ns, at least. */
void holder_inner_add(struct holder *, int fd, int64_t id, int64_t until_ns);
void holder_inner_remove(struct holder *, int64_t id);
/* When is the last of them over, at the latest? 0: there is none. */
int64_t holder_inner_until(struct holder *);

/* holder_answer.c: answer one request at the private socket; keep a spare
 * descriptor for that. False: there is none, errno. Free those, for a look at
 * processes. */
void holder_hear_asker(struct holder *);
bool holder_keep_spare(struct holder *);
void holder_free_spare(struct holder *);

#endif
