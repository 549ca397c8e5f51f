/* api/sequence.h — a started call that is made of several requests, one after
 * another. For src/api only. */
#ifndef SNIB__SEQUENCE_H
#define SNIB__SEQUENCE_H

#include "api/api.h"

struct snib__sequence;

struct snib__sequence_rules {
    /* How the operation ends, and go_on NULL; due and give_up are
     * snib__sequence_due and snib__sequence_give_up, or its own. drop also
     * takes off their lists the operations that are parts of it. */
    struct snib__op_kind kind;
    /* All that was asked for is answered, or the pause is over: ask for more
     * (false), or end (true) with *ret. On the thread of the start or of
     * snib_client_next, without the mutex; never on two threads at once. */
    bool (*next)(struct snib__sequence *, struct snib_error *ret);
    /* It was cancelled: give up what is under way. NULL: nothing can be. With
     * the mutex held. */
    void (*cancel)(struct snib__step *, struct snib__sequence *);
};

struct snib__sequence {
    /* On `asking` from the start to the end; its timer is a pause. */
    struct snib__op op;
    struct snib__op resume;   /* an event that the program does not see */
    struct snib__batch batch; /* what was asked for and is not answered    */
    struct snib_client *client;
    const struct snib__sequence_rules *rules;
    snib_err quit; /* CANCELLED or CLOSED, since then; OK                  */
    bool pauses;
};

static inline struct snib__sequence *snib__sequence_of(struct snib__op *op)
{
    return SNIB__CONTAINER(op, struct snib__sequence, op);
}

/* Make one, as the first member of a struct of that size, all else zero. NULL:
 * no memory. */
void *snib__sequence_new(size_t size, struct snib_client *,
                         const struct snib__sequence_rules *, void *user);
/* It is there from now on, and has a ticket. ends: it only ends something, and
 * may be started until stop. NULL: NOMEM. After an error it still belongs to the
 * caller, who frees it. Errors: CLOSED, LIMIT, NOMEM. */
snib_err snib__sequence_open(struct snib__sequence *, bool ends,
                             uint64_t *ret_ticket, struct snib_error *reterr);
/* The first `next` of one that is open. */
void snib__sequence_go(struct snib__sequence *);
/* Both. It frees the sequence (by its kind's drop) after an error. */
snib_err snib__sequence_start(struct snib__sequence *, bool ends,
                              uint64_t *ret_ticket, struct snib_error *reterr);
/* For each drop: take the sequence off the list of events. */
void snib__sequence_drop(struct snib__sequence *);
/* For each drop: this request is not awaited any more. */
void snib__sequence_drop_direct(struct snib__direct_op *);
/* The request is answered: write its results, and free what it has. */
snib_err snib__sequence_answer(struct snib__direct_op *,
                               struct snib_error *ret);

/* In `next`: what has ended it meanwhile, CANCELLED or CLOSED; OK: nothing. */
snib_err snib__sequence_over(struct snib__sequence *);
/* In `next`: visit the client to ask. Returns what has ended the sequence
 * meanwhile; OK: nothing has. */
snib_err snib__sequence_begin(struct snib__step *, struct snib__sequence *);
/* The same, and leave again: it ends so. Returns true. */
bool snib__sequence_ends(struct snib__step *, struct snib__sequence *, snib_err,
                         struct snib_error *ret);
/* Ask past claims; d is a part of the sequence, and is answered in its error.
 * False: nothing was asked, and that is there now. */
bool snib__sequence_ask(struct snib__step *, struct snib__sequence *,
                        struct snib__direct_op *d);
/* Release a grant by this operation, in the owner's name. Its error says what
 * became of it. */
void snib__sequence_release(struct snib__step *, struct snib__sequence *,
                            struct snib_lock *, struct snib_grant,
                            uint64_t owner, struct snib__op *);
/* Acquire the lock by this operation. Its event says what became of it. */
void snib__sequence_acquire(struct snib__step *, struct snib__sequence *,
                            struct snib_lock *, const struct snib__how *,
                            uint64_t owner, snib_duration patience,
                            struct snib__op *);
/* Ask again when that time is over. False: no memory for its timer. */
bool snib__sequence_pause(struct snib__step *, struct snib__sequence *,
                          snib_duration);
/* End the visit; what was asked for goes out. When all of it is answered, now
 * or later, `next` is called again. */
void snib__sequence_asked(struct snib__step *, struct snib__sequence *);

/* An operation of the sequence's batch is made ready for a request. */
void snib__sequence_part(struct snib__sequence *, struct snib__op *);
/* It is answered without the store: with *why, whose code may be OK. */
void snib__sequence_said(struct snib__step *, struct snib__op *,
                         snib_event_kind, struct snib_grant,
                         const struct snib_error *why);
/* With the mutex held: give up the request past claims, if it is under way. */
void snib__sequence_quit_direct(struct snib__step *, struct snib__direct_op *,
                                snib_err why);
/* With the mutex held: give up the acquire that waits by this operation. */
void snib__sequence_quit(struct snib__step *, const struct snib__op *,
                         snib_err why);

/* For kinds. */
void snib__sequence_due(struct snib__step *, struct snib__op *);
void snib__sequence_give_up(struct snib__step *, struct snib__op *,
                            snib_err why);

#endif
