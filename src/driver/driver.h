/* driver/driver.h — the functions of the driver, the lowest first: a file calls
 * those above it. Those of its connections stand in sockets.h: below `step`,
 * above `op`. For src/driver and src/api only.
 *
 * The nine rules of the driver, and where each is held:
 *
 * 1. Leave in this order: take the call off the list, pass the role on,
 *    unlock. A call that passes its role on first may pass it to itself.
 *                                               [roles.c, snib__roles_leave]
 * 2. Collect the threads to be woken, unlock, then wake them. A thread that
 *    is woken under the mutex runs straight into it.      [snib__step_pause]
 * 3. One sender. A caller appends its bytes. It sends them itself only when
 *    no call reads that socket, or its reader is asleep in poll. A reader sends
 *    all that gathered just before it sleeps.
 *                                        [sockets_may_send, pump_sleep_reading]
 * 4. The role of a call that leaves is passed to a thread that still waits;
 *    else, if anything is awaited, to the background thread; else to nobody. A
 *    socket that finds no reader goes to the background thread.
 *                                        [roles.c, roles_pass, roles_assign]
 * 5. The limit belongs to the caller, the request to the engine. A call that
 *    gives up leaves its acquisition. If nobody else waits there the engine
 *    sends cancel(request id), and the next reader takes both replies off the
 *    stream. No reply is ever skipped.          [give_up.c, snib__call_give_up]
 * 6. Requests in flight are capped (1 024 a connection). Calls that give up
 *    leave work behind: without a cap a storm of time-outs would build an
 *    endless pipeline. A call holds a pointer to its request and never
 *    searches for it.                [api/acquire.c, acquire_wait_for_replies]
 * 7. A call sleeps in slices of at most 1 s. The true clock is BOOTTIME,
 *    which is read again after each slice. futex and ppoll count MONOTONIC
 *    and do not see a suspend. Lease deadlines are on a BOOTTIME timerfd,
 *    which fires at resume.                                     [pump_slice]
 * 8. The engine gets `now` once per input. A request's valid_from is the
 *    `now` of the step that encoded it, which is never later than the send.
 *                                                         [snib__step_again]
 * 9. A command connection without a reply is closed after a time-out (a reply
 *    that may still come must never meet another request). But it is closed
 *    only when the *oldest* awaited reply is older than request_ms, not when
 *    some impatient caller leaves. Otherwise each short wait limit would tear
 *    down everybody's pipeline.  [the store; nothing here closes for a limit]
 */
#ifndef SNIB__DRIVER_H
#define SNIB__DRIVER_H

#include "driver/client.h"
#include "driver/clock.h"
#include "driver/sockets.h"
#include "snib/event.h"

/* -- loop.c: epoll, timer, eventfds ---------------------------------------- */

snib_err snib__loop_open(struct snib_client *, struct snib_error *reterr);
void snib__loop_close(struct snib_client *);
/* For stop: from now on nothing of the set or the timers becomes ready. */
void snib__loop_end(struct snib_client *);
void snib__loop_watch(struct snib_client *, uint32_t sock);
void snib__loop_arm(struct snib_client *, uint32_t sock, bool reads);
void snib__loop_set_timer(struct snib_client *, snib_instant);
snib_err snib__loop_event_fd(struct snib_client *, struct snib_error *reterr);
/* The witness has ended: its descriptor is looked at no more. */
void snib__loop_unwatch_witness(struct snib_client *);
void snib__eventfd_set(int fd);
void snib__eventfd_clear(int fd);
/* REALTIME − BOOTTIME in ns. */
int64_t snib__wall_offset(void);
/* Note what it is now, for the store too. Returns by how much it has changed. */
int64_t snib__loop_wall_clock(struct snib_client *);

/* -- threads.c ------------------------------------------------------------- */

/* Start a thread with all signals blocked. */
int snib__thread_start(pthread_t *, void *(*body)(void *), void *);
/* Start the worker if it does not run. False: there is none. */
bool snib__worker_need(struct snib_client *);
/* The worker's thread (worker.c). */
void *snib__worker_body(void *client);
/* The same for the thread that asks the program for logins (login.c). */
bool snib__login_need(struct snib_client *);
void *snib__login_body(void *client);
/* Start the workers of both sessions, once, as the last step of open. Errors:
 * LIMIT; then snib__sessions_end ends the one that runs. */
snib_err snib__sessions_start(struct snib_client *, struct snib_error *reterr);
/* The thread of one of them (sessions.c). */
void *snib__session_body(void *worker);

/* -- step.c: a visit to the client ----------------------------------------- */

/* In development builds (SNIB_CHECKS) a client knows which thread has its mutex
 * in a step. What needs the mutex asserts that it is this one. */
#ifdef SNIB_CHECKS
static inline void snib__mu_taken(struct snib_client *c)
{
    c->mu_taken = true;
    c->mu_thread = pthread_self();
}
static inline void snib__mu_given(struct snib_client *c)
{
    c->mu_taken = false;
}
static inline bool snib__mu_is_mine(const struct snib_client *c)
{
    return c->mu_taken && pthread_equal(c->mu_thread, pthread_self());
}
#else
static inline void snib__mu_taken(struct snib_client *c)
{
    (void)c;
}
static inline void snib__mu_given(struct snib_client *c)
{
    (void)c;
}
static inline bool snib__mu_is_mine(const struct snib_client *c)
{
    (void)c;
    return true;
}
#endif
/* In a step: let others have the mutex until the condition is signalled. It may
 * return for no reason; the step's clock stands still meanwhile. */
static inline void snib__mu_wait(struct snib_client *c, pthread_cond_t *changed)
{
    snib__mu_given(c);
    pthread_cond_wait(changed, &c->mu);
    snib__mu_taken(c);
}
/* The time by the client's virtual clock, if it has one. */
snib_instant snib__step_virtual_now(const struct snib_client *);
/* Read the clock again, with the mutex held. */
static inline void snib__step_refresh(struct snib__step *s)
{
    struct snib_client *c = s->c;
    c->clock =
        snib__later(c->clock, c->virtual_clock ? snib__step_virtual_now(c)
                                               : snib__boottime());
    s->now = c->clock;
}
/* Lock again after a pause. */
static inline void snib__step_again(struct snib__step *s)
{
    pthread_mutex_lock(&s->c->mu);
    snib__mu_taken(s->c);
    snib__step_refresh(s);
}
/* Lock, read the clock. */
static inline void snib__step_begin(struct snib__step *s, struct snib_client *c)
{
    /* The fields are set one by one: the array of words need not be cleared. */
    s->c = c;
    s->me = NULL;
    s->background = s->event = s->kick = s->away = false;
    snib__socks_clear(&s->wakers);
    s->words = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &s->cancel_state);
    snib__step_again(s);
}
/* Unlock for a sleep or a callback. Wake-ups and log lines go out. */
void snib__step_pause(struct snib__step *);
/* Unlock; then wake and log. */
static inline void snib__step_end(struct snib__step *s)
{
    if (!s->away) {
        snib__step_pause(s);
    }
    pthread_setcancelstate(s->cancel_state, NULL);
}
/* A call has its answer. */
void snib__call_settle(struct snib__step *, struct snib__call *, snib_err);
/* Wake the call, so that it compares its limit again. */
void snib__call_wake(struct snib__step *, struct snib__call *);
/* Wake the call that sleeps at this socket. */
void snib__socket_wake(struct snib__step *, uint32_t sock);
/* For the functions of roles.h, with the step as data. */
void snib__waiter_wake(void *step, struct snib__waiter *);

/* -- op.c ------------------------------------------------------------------ */

void snib__op_push(struct snib__step *, struct snib__op *);
/* Answer a start: the operation becomes an event. */
void snib__op_answer(struct snib__step *, struct snib__op *, snib_event_kind,
                     struct snib_grant, snib_err,
                     const struct snib_error *detail);
/* Free an operation that is on no list, with what it owns. */
void snib__op_free(struct snib__op *);
/* Answer one that ends in DONE; its ticket stays. */
void snib__op_done(struct snib__step *, struct snib__op *, snib_err,
                   const struct snib_error *detail);
/* Make room for one more operation that asks. False: no memory. */
bool snib__op_reserve(struct snib__step *);
/* Give it a ticket of its own. */
void snib__op_give_ticket(struct snib__step *, struct snib__op *);
/* The operation asks from now on, and has a ticket. due: when its timer
 * comes. */
void snib__op_open(struct snib__step *, struct snib__op *, snib_instant due);
/* The one with this ticket that is not answered. NULL: there is none. */
struct snib__op *snib__op_asking(struct snib_client *, uint64_t ticket);
/* Make the next request of a direct operation, with request_ms for its answer
 * (or until q.limit, if that is sooner). The answer settles the call; NULL:
 * the operation was started. After an error nothing was asked, and why is in
 * q.error. */
snib_err snib__direct_op_ask(struct snib__step *, struct snib__direct_op *,
                             struct snib__call *);
/* The next request of one that was started. An error is its answer. */
void snib__direct_op_ask_again(struct snib__step *, struct snib__direct_op *);
/* The request of one that was started is answered. */
void snib__direct_op_answered(struct snib__step *, struct snib__direct_op *);

/* The store says that another server answers: an event, where they are wanted. */
void snib__op_store_changed(struct snib__step *);

/* -- watch.c: telling the owner -------------------------------------------- */

snib_err snib__extra_new(struct snib_lock *, bool events, void *user,
                         struct snib__extra **ret);
/* The hold re-enters a grant: it is told of the changes from now on. */
void snib__extra_entered(struct snib__extra *,
                         const struct snib__acquisition *);
/* Tell the whole chain the acquisition's state, as the engine says it. */
void snib__holds_changed(struct snib__step *, struct snib__hold *first,
                         const struct snib__acquisition *);
/* The hold has ended. Withdraw what was not told yet. If the hold has the
 * grant's descriptor, make it readable. */
void snib__watch_ended(struct snib__step *, struct snib__hold *);
/* Run the callbacks that are due, with the mutex released around each. */
void snib__notices_tell(struct snib__step *);
void snib__retired_close(struct snib_client *);

/* -- hold.c ---------------------------------------------------------------- */

/* The first hold of an acquire through this handle. It has an extra where a
 * callback or events (for this user) tell of its states. NULL: no memory. */
struct snib__hold *snib__hold_new(struct snib__step *, struct snib_lock *,
                                  bool events, void *user);
/* Free the chain and its extras. */
void snib__holds_free(struct snib__step *, struct snib__hold *);
/* The first hold of a chain ends: the next one gets what belongs to the
 * grant. */
void snib__hold_hand_on(struct snib__hold *from, struct snib__hold *to);
/* The grant is no longer this client's: take its holds off the locks' lists,
 * and end what watches it. */
void snib__holds_ended(struct snib__step *, struct snib__hold *);
/* Deliver the news of one acquisition. */
void snib__hold_news(struct snib__step *, struct snib__acquisition *,
                     uint8_t news);
/* Release one hold, as snib_release does. The answer goes to call or op; at
 * most one of them is given. OK with *ret_awaited: the answer will come. */
snib_err snib__hold_release(struct snib__step *, struct snib_lock *,
                            uint64_t ticket, uint64_t owner,
                            struct snib__call *, struct snib__op *,
                            bool *ret_awaited, struct snib_error *reterr);
/* Begin an acquire. *ret_awaited: the answer will come; else it is there
 * already, in call->err and grant, or in op. */
snib_err snib__hold_acquire(struct snib__step *, struct snib_lock *,
                            const struct snib__how *, snib_instant limit,
                            uint64_t owner, struct snib__call *,
                            struct snib__op *, void *user, bool *ret_awaited,
                            uint64_t *ret_ticket, struct snib_error *reterr);
/* What the engine is to acquire, by the options of the handle and the call. */
struct snib__acquire_spec snib__hold_spec(const struct snib_lock *,
                                          const struct snib__how *,
                                          snib_instant limit, uint64_t owner);
/* The engine has started the acquire of this hold. True: the answer will come;
 * else it is there, and told. */
bool snib__hold_begun(struct snib__step *, struct snib__acquisition *,
                      struct snib__hold *, struct snib__call *,
                      struct snib__op *);

/* -- hold_adopt.c ---------------------------------------------------------- */

/* Begin to adopt a grant. Owner, lease and limit are those of the request.
 * *ret_awaited is as above. */
snib_err snib__hold_adopt(struct snib__step *, struct snib_lock *,
                          const struct snib__detached *, int64_t lease_ms,
                          snib_instant limit, uint64_t owner,
                          struct snib__call *, struct snib__op *,
                          bool *ret_awaited, uint64_t *ret_ticket,
                          struct snib_error *reterr);
/* Forget a grant with all its holds. */
snib_err snib__hold_detach(struct snib__step *, uint64_t ticket, uint64_t owner,
                           struct snib_error *reterr);

/* -- background_socks.c ---------------------------------------------------- */

/* The background thread reads these sockets from now on. */
void snib__background_given(struct snib__step *, const struct snib__socks *);
/* An operation is pending: watch now what was to be watched later. */
void snib__background_hurry(struct snib__step *);
/* Before the background thread sleeps: watch the sockets that it reads, and let
 * go of those that need no reader. Returns when to look again. */
snib_instant snib__background_watch(struct snib__step *);

/* -- exec.c ---------------------------------------------------------------- */

/* A blocking store has something to do, and no thread is at it. */
static inline bool snib__may_execute(const struct snib_client *c)
{
    return c->exec.ops && !c->exec.running && !snib__list_empty(&c->out->exec);
}
/* Execute it on this thread, with the mutex released meanwhile. */
void snib__execute(struct snib__step *);
/* The same on the worker of a pull client, whose engine must not move there:
 * snib_client_process takes the results. */
void snib__execute_for_pull(struct snib__step *);
/* Take them. */
void snib__executed(struct snib__step *);
/* On this worker: execute what is listed for its session. */
void snib__execute_in(struct snib__step *, struct snib__worker *);
/* There is something to execute, and nobody executes. A sleeping call does it;
 * else the background thread or the worker. (A call that is awake checks by
 * itself.) */
void snib__exec_assign(struct snib__step *);
/* The same for a store across a network: its workers do it. (Those that are in
 * the library check by themselves.) */
void snib__exec_assign_sessions(struct snib_client *);
/* Is a thread of the client in the store's library, or in a function of the
 * program's? */
bool snib__exec_inside(const struct snib_client *);

/* -- conditions.c ---------------------------------------------------------- */

/* What a call of kind FEWER, IDLE or CAUGHT_UP waits for, or OUT stands for: is
 * it so? Any other kind: no. */
bool snib__condition_holds(const struct snib__step *, snib__call_kind);
/* Answer the calls, and the operation, that wait for a condition of the whole
 * client. */
void snib__conditions_settle(struct snib__step *);

/* -- pump.c ---------------------------------------------------------------- */

/* Do what the engine wants until it wants nothing: deliver news, open and shut
 * connections, send bytes, set the timer. Call it after every call into the
 * engine. */
void snib__step_act(struct snib__step *);
/* When something is due: at the engine, or for an operation. */
snib_instant snib__client_due(const struct snib_client *);
/* Execute what a blocking store has to do. False: nothing to do, or another
 * thread executes. */
static inline bool snib__step_exec(struct snib__step *s)
{
    if (!snib__may_execute(s->c)) {
        return false;
    }
    snib__execute(s);
    snib__step_act(s);
    return true;
}
/* Pull clients: take what the worker has executed. */
static inline void snib__step_executed(struct snib__step *s)
{
    if (!snib__list_empty(&s->c->exec.done)) {
        snib__executed(s);
        snib__step_act(s);
    }
}
/* Begin a call: see the head of pump.c. */
void snib__call_begin(struct snib__step *, struct snib__call *, snib__call_kind,
                      snib_instant limit);
/* Do what the engine wants, and wait. True: the call is answered, and err is
 * set; if s->away, the mutex is not held any more. False: the limit is over,
 * and doing what was due then did not answer it either. */
bool snib__call_wait(struct snib__step *, struct snib__call *);
/* Take the call off the list and pass its roles on. */
void snib__call_end(struct snib__step *, struct snib__call *);
/* How long a call with this wait_ms may wait. */
static inline snib_duration snib__patience(const struct snib_client *c,
                                           int64_t wait_ms)
{
    return wait_ms ? snib__ms(wait_ms) : c->request;
}

/* -- give_up.c ------------------------------------------------------------- */

/* Cancel the acquire of a blocking call whose acquisition is WAITING. why: the
 * error of the call. The call is answered now, or when the store has confirmed
 * the cancel; this function does not wait for that. */
void snib__call_cancel(struct snib__step *, struct snib__acquisition *,
                       snib_err why);
/* A call still waits at its limit. Cancel its request at the store, and wait a
 * little. If the store answers in that time the call gets that answer; else the
 * request goes on without it (rule 5). */
void snib__call_give_up(struct snib__step *, struct snib__call *, snib_err why);
/* The client is closed, or stopped: end the calls that wait. */
void snib__calls_close(struct snib__step *);
/* The error of a call without an answer at its limit: UNKNOWN. The text says
 * why, if the store is known to be out of reach. */
snib_err snib__unanswered(const struct snib__step *, struct snib_error *ret);
/* UNKNOWN for what was to change something and was given up: CANCELLED,
 * CLOSED. */
snib_err snib__left_open(snib_err why, struct snib_error *ret);
/* As snib__unanswered, of a direct request, which is forgotten. One that only
 * asks was surely not applied, so it is UNREACHABLE and never UNKNOWN. */
snib_err snib__direct_unanswered(struct snib__step *, struct snib__direct *,
                                 struct snib_error *ret);
/* For the kind of a direct operation. */
void snib__direct_op_due(struct snib__step *, struct snib__op *);
void snib__direct_op_give_up(struct snib__step *, struct snib__op *,
                             snib_err why);
/* Give up an acquire that was started and has not answered. If it is being
 * cancelled already, end it now. */
void snib__op_give_up(struct snib__step *, struct snib__acquisition *,
                      snib_err why);
/* Do what is due for operations; answer those whose limit has passed. */
void snib__ops_due(struct snib__step *);
/* The client is closed, or stopped: end what was started. */
void snib__ops_close(struct snib__step *);

/* -- background.c, worker.c, login.c, sessions.c --------------------------- */

snib_err snib__background_start(struct snib_client *,
                                struct snib_error *reterr);
/* Start the background thread if it does not run. Errors: LIMIT, NOMEM. */
static inline snib_err snib__background_need(struct snib_client *c,
                                             struct snib_error *reterr)
{
    return c->background.on || c->pull ? SNIB_ERR_OK
                                       : snib__background_start(c, reterr);
}
/* One round of the background thread: in its thread (patience_ms -1), or in
 * snib_client_process (0). patience_ms is as for epoll_wait. The mutex is held
 * before and after. */
void snib__background_round(struct snib__step *, int patience_ms);
/* For stop, once: end the thread. Its `on` stays as it is: stop clears both
 * under the mutex when both threads have ended. */
void snib__background_join(struct snib_client *);
void snib__worker_join(struct snib_client *);
/* The same in two steps: with the mutex held (false: there is none), and then
 * without it, which waits for the program's answer. */
bool snib__login_end(struct snib_client *);
void snib__login_join(struct snib_client *);
/* For stop, once: end the workers of a store across a network. One that stays
 * in the library for more than SNIB__COME_BACK_MS is left behind. */
void snib__sessions_end(struct snib_client *);
/* For free: true if a worker was left behind and has not come back. Then all
 * but what that worker may touch is freed now, and the rest by the worker. */
bool snib__sessions_free(struct snib_client *);

/* -- secure.c --------------------------------------------------------------- */

/* What TLS needs, where the URL wants it; else nothing. Errors: USAGE (the
 * URL's keys), CONFIG (its files), UNSUPPORTED (not in this build), NOMEM. */
snib_err snib__secure_open(struct snib_client *, const struct snib__url *,
                           struct snib_error *reterr);

/* -- passfile.c ------------------------------------------------------------- */

/* Where the URL says password_file=: it is read for each login, in place of a
 * function of the program's. Errors: USAGE (there is another login), NOMEM. */
snib_err snib__passfile_open(struct snib_client *, const struct snib__url *,
                             struct snib_error *reterr);
void snib__passfile_free(struct snib_client *);

/* -- spawn.c, witness.c ---------------------------------------------------- */

/* Starts this program as nobody's child, in a session of its own; fds: the three
 * descriptors of a witness (driver/witness.h). *ret_over: a pidfd of it; -1 after
 * an error. Errors: CONFIG (it cannot be executed), LIMIT, NOMEM. */
snib_err snib__spawn(const char *path, char *const argv[], const int fds[],
                     int *ret_over, struct snib_error *reterr);
/* The memory of a registry; before the engine is opened. Errors: LIMIT,
 * UNSUPPORTED (in another PID namespace nobody can watch). */
snib_err snib__witness_room(struct snib_client *, struct snib_error *reterr);
/* Starts the witness, and waits until it is ready. path NULL: the installed one;
 * url: the store's, password and all. Errors: CONFIG, UNSUPPORTED, LIMIT, NOMEM,
 * USAGE, and why it cannot open that URL. */
snib_err snib__witness_start(struct snib_client *, const char *path,
                             const char *url, struct snib_error *reterr);
/* With the mutex held: has the witness ended, though the client has not? The
 * first time that is logged. */
bool snib__witness_ended(struct snib_client *);
/* The witness has nothing to do any more, and ends. In a forked child: only gives
 * back what is the child's. */
void snib__witness_free(struct snib_client *);

/* -- parts.c, process.c ---------------------------------------------------- */

void snib__parts_init(struct snib_client *);
/* Free all but the engine and the client itself. No thread runs, and nobody is
 * inside but, with the mutex held, a worker that was left behind. */
void snib__parts_free(struct snib_client *);
/* Free these two as well. */
void snib__parts_free_last(struct snib_client *);
/* In a forked child: what can be freed without disturbing the parent. */
void snib__parts_free_in_child(struct snib_client *);
/* Keep the engine's log lines until the mutex is free. data: the client. */
void snib__parts_keep_log(void *data, int level, const char *text);
void snib__self_about(struct snib__about *, const char *program,
                      const char *reason);
snib_err snib__self_seed(struct snib__seed *, struct snib_error *reterr);

#endif
