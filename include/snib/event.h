/* snib/event.h — calls that are started, and their events: for event loops, and
 * for waits that somebody may end.
 *
 *   snib_try_for_start(lock, 500, NULL, me, &ticket, &err);
 *   … snib_client_fd(client) becomes readable …
 *   while (snib_client_next(client, &event, sizeof event))
 *       if (event.kind == SNIB_EVENT_GRANTED)
 *           pay(event.grant.token);
 *
 * A threaded client reads its connections itself, and the loop only fetches
 * events. A pull client (snib_client_options.pull) has no thread of its own,
 * and nothing in it ever blocks: the loop calls snib_client_process when
 * snib_client_fd is readable, then snib_client_next until it says false.
 *
 * Started forms. A call f that may block has a form f_start in the same header
 * (those of snib.h are here). It takes the arguments of f, then `user`, which
 * comes back in the event, and ret_ticket, which may be NULL: the ticket names
 * the *operation* for snib_client_cancel. A start never blocks. One that
 * returns OK ends in exactly one event; after an error there is none.
 *
 *   GRANTED, REFUSED  answer the starts of an acquire
 *   RELEASED          answers snib_release_start
 *   PASSED, REFUSED   answer the waits for a latch or barrier (snib/latch.h)
 *   DONE              answers all others
 *
 * Of DONE, event.error is what f would have returned. f's results are written
 * by the call of snib_client_next that takes the event, on its thread, before
 * it returns, and by the rules of f ("Results" in snib.h). So what ret, ret_…
 * and data point to must stay valid until then. The start itself sets what is
 * NULL, 0 or "" after an error. If the client is freed before the event was
 * taken, nothing is written. All other arguments are copied.
 *
 *   struct snib_view *view;
 *   snib_client_inspect_start(client, "nightly", 0, &view, me, NULL, &err);
 *   … snib_client_next(client, &event, sizeof event): DONE …
 *   if (!event.error.code)
 *       printf("%zu wait\n", view->waiter_count);
 *
 * An operation ends by itself as its call would, so after request_ms (two scans
 * of snib_client_deadlocks_start: twice that, and 600 ms) if the store does not
 * answer.
 *
 * Some operations are made of several requests: several locks as one, an update
 * of a value, a watch, a join, a policy. They go from one to the next inside
 * snib_client_next, and call the program's functions there, with no lock held.
 * So take events whenever snib_client_fd is readable; one that is true while
 * snib_client_next says false was such a step.
 *
 * No started form have snib_client_open, which opens a lock file and so reads a
 * disk, and what is a block of the program's text (SNIB_WITH, snib_scope_begin
 * and its like: snib_policy_run_start runs a function under a lock). The frees
 * of a lock and of a candidate wait for nothing but a callback of theirs that
 * runs on another thread. */
#ifndef SNIB_EVENT_H
#define SNIB_EVENT_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum snib_event_kind {
    SNIB_EVENT_GRANTED, /* answer to an acquire_start                         */
    SNIB_EVENT_REFUSED, /* answer to an acquire_start; see error              */
    SNIB_EVENT_RELEASED, /* answer to a release_start; see error               */
    SNIB_EVENT_STATE,  /* a grant acquired by acquire_start changed          */
    SNIB_EVENT_PASSED, /* answer to a wait_start of snib/latch.h: passed;
                        * nothing is held */
    SNIB_EVENT_DONE,   /* answer to any other start; see error                */
    SNIB_EVENT_STORE_CHANGED /* another server answers (store_events) */
} snib_event_kind;

/* An event. What is set in it, by kind; all else is 0 (acquire_start stands for
 * try_start and try_for_start, too):
 *
 *            grant          user                  error        state, cause
 *   GRANTED  ticket, token  of acquire_start      OK           HELD, NONE
 *   REFUSED  ticket only    of acquire_start      the error    RELEASED, NONE
 *   RELEASED ticket, token  of release_start      OK or error  RELEASED, NONE
 *   STATE    ticket, token  of the acquire_start  OK           the new ones
 *                           that got the grant
 *                           for this handle
 *   PASSED   ticket, token  of the …_start        OK           RELEASED, NONE
 *   DONE     ticket only    of the …_start        OK or error  RELEASED, NONE
 *   STORE_CHANGED
 *            0              NULL                  OK           RELEASED, NONE
 *
 * Errors of SNIB_EVENT_REFUSED: those of snib_try_for, CANCELLED
 * (snib_client_cancel), never FORKED (a child gets no events), LIMIT, USAGE
 * (the start says so). Errors of SNIB_EVENT_RELEASED: LOST, UNKNOWN (as for
 * snib_release; also when stop came first).
 *
 * Errors of SNIB_EVENT_DONE: those of snib_client_inspect, snib_value_put,
 * snib_renew, snib_semaphore_add, snib_semaphore_drain, snib_elect_try_for,
 * snib_multi_try_for, snib_multi_release, CANCELLED (snib_client_cancel), never FORKED (a child
 * gets no events). Which of them a start may end in says its call.
 *
 * state says whether anything is held. cause is NONE except with STATE. The
 * ticket of a REFUSED or DONE is the one that the start gave; it is no grant's,
 * unless DONE answers a start that acquires something: then grant, state and
 * what follows are as for GRANTED. An event names no lock: let user lead to it.
 *
 * A grant that is LOST still needs its release_start (which answers LOST), as
 * with snib_release: until then its owner cannot acquire the lock. Several
 * handles may hold one grant (re-entry). Each has a STATE of its own, with its
 * `user`, if its first hold was an acquire_start. After a handle's last hold is
 * given back no STATE comes of it any more.
 *
 * STORE_CHANGED comes only to a client with the option store_events. Another
 * server answers under its URL than before, or the same one was restarted: it
 * may have forgotten what it was told. Nothing has to be done for locks: what is
 * held is at risk until that server has confirmed it, and what it does not know
 * is lost, FORGOTTEN. The event is for programs that keep something of their
 * own on that server, and for logs. snib_client_server says which server it is.
 * However often it happens, at most one such event waits to be fetched. A client
 * notices it when it connects again: one that neither holds nor waits nor asks
 * for anything does not. Redis: by the server's run id, if the user has the
 * right to INFO; else by another name or version, or by connections whose
 * numbers begin anew, which may miss a change; and by another address, where
 * the URL names Sentinels or a list. A quorum: of any of its servers. A cluster:
 * the same, and by a server that takes over slots though it had none: a replica
 * in its primary's place, or a node that was added. A lock file: never. */
struct snib_event {
    snib_event_kind kind;
    struct snib_grant grant;
    void *user;
    snib_state state;
    snib_cause cause;
    struct snib_error error;
};

/* Start an acquire or a release: an acquire without a limit, a try, or an
 * acquire that ends wait_ms after this call at the latest. Every start that
 * returns OK ends in exactly one event from snib_client_next, which also has
 * what the store says. After an error there is no event. *ret_ticket names the
 * attempt for snib_client_cancel, and is the grant's ticket afterwards. There
 * is no calling thread as owner: owner 0 makes a new owner for this grant.
 *
 * Errors of snib_acquire_start: USAGE (options), DEADLOCK (this owner holds a
 * no_reentry lock), LOST (this owner lost the lock), LIMIT (no thread or file
 * descriptor is left), CLOSED, FORKED, NOMEM. Errors of snib_try_start: BUSY
 * (another owner of this client has it, which is known at once), and those of
 * snib_acquire_start. Errors of snib_try_for_start: BUSY (the same, and
 * wait_ms <= 0), and those of snib_acquire_start. Errors of snib_release_start:
 * USAGE (a grant of another lock), NOT_HELD, WRONG_OWNER, LIMIT, CLOSED,
 * FORKED, NOMEM. */
SNIB_API SNIB_CHECK snib_err
snib_acquire_start(struct snib_lock *, const struct snib_acquire_options *,
                   void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_try_start(struct snib_lock *,
                                            const struct snib_acquire_options *,
                                            void *user, uint64_t *ret_ticket,
                                            struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_try_for_start(
    struct snib_lock *, int64_t wait_ms, const struct snib_acquire_options *,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_release_start(struct snib_lock *,
                                                struct snib_grant, void *user,
                                                struct snib_error *reterr);

/* Start a renewal: snib_renew. Errors: USAGE (lease out of bounds; a grant of
 * another lock), LOST, NOT_HELD (that is known at once), LIMIT, CLOSED (as
 * snib_renew), FORKED, NOMEM; all others come with the event. */
SNIB_API SNIB_CHECK snib_err snib_renew_start(struct snib_lock *,
                                              struct snib_grant,
                                              int64_t lease_ms, void *user,
                                              uint64_t *ret_ticket,
                                              struct snib_error *reterr);

/* Give up a start that has not answered. Does not block; a pull client
 * goes on with snib_client_process. A ticket that is not known does nothing.
 *
 * The acquire ends REFUSED with CANCELLED when the store has confirmed that
 * nothing of it is left (what it had been granted meanwhile is given back
 * first). It ends GRANTED (PASSED) when it was faster. If the store does not
 * answer the cancel, the event comes all the same: CANCELLED after a twentieth
 * of request_ms when the store had said that the request stands in the queue,
 * else UNKNOWN after a fifth. The cancel then goes on in the background, and a
 * grant that comes all the same is given back. (A drain or a campaign, which is
 * an acquire, ends in the same way, with DONE. A release and a resignation are
 * not cancelled.)
 *
 * Any other operation that would end in DONE ends at once. The error is
 * CANCELLED if it only reads. If it was to change something (a put, a
 * count-down, a forced release, a renewal) the error is UNKNOWN: that may be
 * done already, or be done yet, as when a reply is lost. Nothing is taken
 * back. */
SNIB_API void snib_client_cancel(struct snib_client *, uint64_t ticket);

/* Start a stop: close the client, release what is held, end the threads. It ends
 * in SNIB_EVENT_DONE; snib_client_free, or snib_client_stop, then returns without
 * waiting for the store. For pull clients, too: go on with snib_client_process.
 * It takes as long as snib_client_stop would, and is not cancelled. All other
 * operations have their events before this one's. It may be called from
 * on_change.
 *
 * The event's error is OK; UNKNOWN when the store did not answer for request_ms
 * (what was held may stand there until its leases end); STORE when a thread is
 * inside the store's library, or in a function of the program's (login,
 * on_change), and has not come back for request_ms: a free waits for it then, as
 * snib_client_stop would.
 *
 * Errors: CLOSED (the client was stopped, or is being stopped), LIMIT (no file
 * descriptor is left), FORKED, NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_client_stop_start(struct snib_client *,
                                                    void *user,
                                                    uint64_t *ret_ticket,
                                                    struct snib_error *reterr);

/* The client's file descriptor for an event loop. It is readable when there is
 * something for snib_client_process (pull client) or for snib_client_next
 * (threaded client). It is level-triggered: readable as long as something is
 * left. So with poll, select or plain epoll one event may be taken at a time;
 * with EPOLLET call snib_client_next until it says false. In a pull client call
 * snib_client_process first, then snib_client_next until it says false. It is
 * one descriptor, open until snib_client_free. It belongs to the library: do
 * not read, write or close it. -1: none could be made, or this is a forked
 * child. */
SNIB_API int snib_client_fd(struct snib_client *);

/* Milliseconds until snib_client_process has something to do; -1: no timer. For
 * pull clients only. snib_client_fd covers timers; this is for loops that
 * prefer their own. */
SNIB_API int64_t snib_client_timeout_ms(struct snib_client *);

/* Do what is due, and never block. Errors: USAGE (not a pull client),
 * FORKED. */
SNIB_API SNIB_CHECK snib_err snib_client_process(struct snib_client *);

/* Take one event. False when there is none: *ret is then as it was. On the way
 * the next steps of operations of several requests are done, on this thread,
 * with what they call of the program's (compute, body). Does not block. */
SNIB_API bool snib_client_next(struct snib_client *, struct snib_event *ret,
                               size_t ret_size);

#ifdef __cplusplus
}
#endif
#endif
