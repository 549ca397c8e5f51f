/* supervisor_step.c — the supervisor's table.
 *
 * One promise is kept here: the command is dead before anyone else can hold the
 * lock. The holder moves the deadline forward, and only after a renewal that
 * the store confirmed, counted from before it was sent. Between now and that
 * deadline stand two instants:
 *
 *     TERM at  deadline - margin - grace
 *     KILL at  deadline - margin
 *
 * A renewal that has not come by the first instant comes too late. STOPPING has
 * no way back, because a command that was told to stop is stopping.
 *
 * | state    | ENDED             | TIMER            | holder EOF  | INT …   |
 * |----------|-------------------|------------------|-------------|---------|
 * | WAITING  | -                 | limit: leave, 75 | exit 70     | leave   |
 * | LEAVING  | -                 | exit             | exit        | exit    |
 * | RUNNING  | others: TERM, go  | TERM, go to      | KILL, go to | forward |
 * |          | to ENDING; or out | STOPPING         | STOPPING    |         |
 * | STOPPING | others: TERM; or  | KILL, again      | KILL        | forward |
 * |          | out               |                  |             |         |
 * | ENDING   | -                 | KILL, again      | KILL        | forward |
 * | HOLDING  | -                 | release -> GONE  | exit, warn  | release |
 * | GONE     | -                 | exit, warn       | exit, warn  | -       |
 *
 * "out" means: wait for --hold-min, tell the holder to release, exit when it
 * has. STOPPING and ENDING also go out at EMPTY, and send TERM (after KILL:
 * KILL) at ADOPTED.
 *
 * DEADLINE moves the instant of TERM in RUNNING. KILL, once armed, stays where
 * it is. A lease that ends in STOPPING or ENDING is told then. With --on-lost
 * signal or ignore the holder's EOF in RUNNING is a loss like any other.
 *
 * A grant may come too late to begin anything, because the host was suspended.
 * The supervisor refuses such a grant, the holder gives it back and asks again,
 * and the supervisor stays in WAITING.
 *
 * LEAVING waits for the holder's message that the position in the queue is
 * given up, so that somebody who sees snib exit knows that the queue is one
 * shorter. HOLDING serves --hold-min.
 *
 * The exit status: a loss wins over every status of the command, since its 0
 * may be untrue about shared data. With --on-lost ignore the user took that
 * risk: the command's status stays, and the cause is that of the loss.
 *
 * Forbidden: system calls, allocation, and any path from STOPPING back.
 */
#include "cli/supervisor/supervisor_moves.h"

#include <signal.h>

static void supervisor_step_granted(struct supervisor *l,
                                    struct supervisor_actions *a,
                                    int64_t deadline, int64_t now)
{
    l->deadline = deadline;
    if (now >= supervisor_step_lease_stop(l)) {
        l->deadline = 0;
        a->todo |= SUPERVISOR_DO_REFUSE;
        return;
    }
    l->granted = now;
    l->state = SUPERVISOR_RUNNING;
    l->ran = true;
    a->todo |= SUPERVISOR_DO_START;
    supervisor_step_arm_running(l);
}

static void supervisor_step_waiting(struct supervisor *l,
                                    const struct supervisor_event *ev,
                                    struct supervisor_actions *a, int64_t now)
{
    switch (ev->kind) {
    case SUPERVISOR_EV_GRANT:
        supervisor_step_granted(l, a, ev->at, now);
        break;
    case SUPERVISOR_EV_FAILED:
        supervisor_step_set_outcome(l, ev->code, false, ev->why);
        supervisor_step_act_exit(l, a);
        break;
    case SUPERVISOR_EV_RELEASED:
    case SUPERVISOR_EV_HOLDER_EOF:
        supervisor_step_set_outcome(l, EXIT_INTERNAL, false,
                                    SUPERVISOR_CAUSE_HOLDER);
        a->todo |= SUPERVISOR_SAY_HOLDER;
        supervisor_step_act_exit(l, a);
        break;
    case SUPERVISOR_EV_TIMER:
        if (now >= l->timer) {
            supervisor_step_set_outcome(l, EXIT_NOT_ACQUIRED, false,
                                        SUPERVISOR_CAUSE_TIMEOUT);
            supervisor_step_leave(l, a, l->rules.slack, now);
        }
        break;
    case SUPERVISOR_EV_SIGNAL:
        if (supervisor_step_terminates(ev->code)) {
            supervisor_step_set_outcome(l, EXIT_SIGNAL + ev->code, false,
                                        SUPERVISOR_CAUSE_INTERRUPTED);
            supervisor_step_leave(l, a, l->rules.request, now);
        }
        break;
    case SUPERVISOR_EV_DEADLINE:
    case SUPERVISOR_EV_RISK:
    case SUPERVISOR_EV_LOST:
    case SUPERVISOR_EV_ENDED:
    case SUPERVISOR_EV_ADOPTED:
    case SUPERVISOR_EV_EMPTY:
        break;
    }
}

/* The holder gave no cause for the end of the wait: say that the limit was
 * reached. */
static void supervisor_step_left(struct supervisor *l,
                                 struct supervisor_actions *a)
{
    if (l->why == SUPERVISOR_CAUSE_TIMEOUT) {
        a->todo |= SUPERVISOR_SAY_LIMIT;
    }
    supervisor_step_act_exit(l, a);
}

static void supervisor_step_leaving(struct supervisor *l,
                                    const struct supervisor_event *ev,
                                    struct supervisor_actions *a, int64_t now)
{
    switch (ev->kind) {
    case SUPERVISOR_EV_FAILED: /* late, but its cause is better */
        if (l->why == SUPERVISOR_CAUSE_TIMEOUT) {
            supervisor_step_set_outcome(l, ev->code, false, ev->why);
        }
        supervisor_step_act_exit(l, a);
        break;
    case SUPERVISOR_EV_RELEASED:
    case SUPERVISOR_EV_HOLDER_EOF:
        supervisor_step_left(l, a);
        break;
    case SUPERVISOR_EV_TIMER:
        if (now >= l->timer) {
            supervisor_step_left(l, a);
        }
        break;
    case SUPERVISOR_EV_SIGNAL: /* a second signal: leave the tidying to the
                                  holder */
        if (supervisor_step_terminates(ev->code)) {
            supervisor_step_act_exit(l, a);
        }
        break;
    case SUPERVISOR_EV_GRANT: /* granted meanwhile; the holder releases */
    case SUPERVISOR_EV_DEADLINE:
    case SUPERVISOR_EV_RISK:
    case SUPERVISOR_EV_LOST:
    case SUPERVISOR_EV_ENDED:
    case SUPERVISOR_EV_ADOPTED:
    case SUPERVISOR_EV_EMPTY:
        break;
    }
}

static void supervisor_step_running_timer(struct supervisor *l,
                                          struct supervisor_actions *a,
                                          int64_t now)
{
    if (!l->lost && now >= supervisor_step_lease_stop(l)) {
        supervisor_step_lose(
            l, a, l->risk ? l->risk_why : SUPERVISOR_CAUSE_EXPIRED, now);
        return;
    }
    if (now >= supervisor_step_max_run_stop(l)) {
        l->max_run_over = true;
        l->state = SUPERVISOR_STOPPING;
        a->todo |= SUPERVISOR_SAY_MAX_RUN;
        supervisor_step_act_stop(l, a, now);
    }
}

static void supervisor_step_running_ended(struct supervisor *l,
                                          const struct supervisor_event *ev,
                                          struct supervisor_actions *a,
                                          int64_t now)
{
    bool in_time = l->lost || now < l->deadline;

    l->ended = true;
    if (!in_time) { /* the clock counts even when nobody told of a loss */
        supervisor_step_note_lost(l, a, SUPERVISOR_CAUSE_EXPIRED);
    }
    if (!l->lost || l->rules.on_lost == SUPERVISOR_LOST_IGNORE) {
        supervisor_step_set_outcome(l, ev->code,
                                    ev->why == SUPERVISOR_CAUSE_EXITED ||
                                        ev->why == SUPERVISOR_CAUSE_SIGNALLED,
                                    l->lost ? l->lost_why : ev->why);
    }
    if (ev->why == SUPERVISOR_CAUSE_NOT_FOUND ||
        ev->why == SUPERVISOR_CAUSE_NOT_EXECUTABLE ||
        ev->why == SUPERVISOR_CAUSE_INTERNAL) {
        l->ran = false;
    }
    if (!ev->others) {
        supervisor_step_out(l, a, now);
        return;
    }
    l->state = SUPERVISOR_ENDING;
    a->todo |= SUPERVISOR_SAY_LEFT;
    supervisor_step_act_stop(l, a, now);
}

/* The lease was renewed. False: it was lost before, or that was known. */
static bool supervisor_step_extends(struct supervisor *l, int64_t deadline)
{
    if (l->lost || deadline <= l->deadline) {
        return false;
    }
    l->deadline = deadline;
    l->risk = false;
    return true;
}

static void supervisor_step_running(struct supervisor *l,
                                    const struct supervisor_event *ev,
                                    struct supervisor_actions *a, int64_t now)
{
    switch (ev->kind) {
    case SUPERVISOR_EV_DEADLINE:
        if (supervisor_step_extends(l, ev->at)) {
            supervisor_step_arm_running(l);
        }
        break;
    case SUPERVISOR_EV_RISK:
        if (l->lost) {
            supervisor_step_learn(l, ev->why);
        } else if (!l->risk) {
            l->risk = true;
            l->risk_why = ev->why;
            a->todo |= SUPERVISOR_SAY_RISK;
        }
        break;
    case SUPERVISOR_EV_LOST:
        if (l->lost) {
            supervisor_step_learn(l, ev->why);
        } else {
            supervisor_step_lose(l, a, ev->why, now);
        }
        break;
    case SUPERVISOR_EV_HOLDER_EOF:
        if (l->rules.on_lost != SUPERVISOR_LOST_KILL) {
            if (!l->lost) {
                supervisor_step_lose(l, a, SUPERVISOR_CAUSE_HOLDER, now);
            }
            break;
        }
        supervisor_step_note_lost(l, a, SUPERVISOR_CAUSE_HOLDER);
        l->state = SUPERVISOR_STOPPING;
        supervisor_step_act_kill(l, a, now);
        break;
    case SUPERVISOR_EV_ENDED:
        supervisor_step_running_ended(l, ev, a, now);
        break;
    case SUPERVISOR_EV_TIMER:
        supervisor_step_running_timer(l, a, now);
        break;
    case SUPERVISOR_EV_SIGNAL:
        supervisor_step_forward(l, a, ev->code);
        break;
    case SUPERVISOR_EV_EMPTY: /* EMPTY and ADOPTED: only after ENDED */
    case SUPERVISOR_EV_ADOPTED:
    case SUPERVISOR_EV_GRANT:
    case SUPERVISOR_EV_FAILED:
    case SUPERVISOR_EV_RELEASED:
        break;
    }
}

/* The command's own status counts unless the lock was lost. A command that was
 * stopped for --max-run has not succeeded, whatever its status. */
static void supervisor_step_stopping_ended(struct supervisor *l,
                                           const struct supervisor_event *ev)
{
    l->ended = true;
    if (l->lost && l->rules.on_lost != SUPERVISOR_LOST_IGNORE) {
        return;
    }
    if (l->max_run_over) {
        supervisor_step_set_outcome(
            l, ev->code != 0 ? ev->code : EXIT_SIGNAL + SIGTERM, false,
            SUPERVISOR_CAUSE_MAX_RUN);
        return;
    }
    supervisor_step_set_outcome(l, ev->code, true,
                                l->lost ? l->lost_why : ev->why);
}

static void supervisor_step_stopping_timer(struct supervisor *l,
                                           struct supervisor_actions *a,
                                           int64_t now)
{
    if (!l->lost && now >= l->deadline) {
        supervisor_step_note_lost(
            l, a, l->risk ? l->risk_why : SUPERVISOR_CAUSE_EXPIRED);
    }
    if (now >= l->kill_at) {
        supervisor_step_act_kill(l, a, now);
        return;
    }
    supervisor_step_arm_stopping(l);
}

/* STOPPING and ENDING: they differ in what made them, and so in when KILL is
 * due. */
static void supervisor_step_stopping(struct supervisor *l,
                                     const struct supervisor_event *ev,
                                     struct supervisor_actions *a, int64_t now)
{
    switch (ev->kind) {
    case SUPERVISOR_EV_DEADLINE:
        /* The lease goes on while the processes end (ENDING, or --max-run).
         * KILL stays where it is; only the instant of the loss moves. */
        if (supervisor_step_extends(l, ev->at)) {
            supervisor_step_arm_stopping(l);
        }
        break;
    case SUPERVISOR_EV_LOST:
        if (!l->lost) {
            supervisor_step_note_lost(l, a, ev->why);
            if (l->rules.on_lost == SUPERVISOR_LOST_KILL) {
                supervisor_step_act_kill(l, a, now);
            }
        } else {
            supervisor_step_learn(l, ev->why);
        }
        break;
    case SUPERVISOR_EV_RISK:
        supervisor_step_learn(l, ev->why);
        break;
    case SUPERVISOR_EV_HOLDER_EOF:
        if (!l->lost) {
            supervisor_step_note_lost(l, a, SUPERVISOR_CAUSE_HOLDER);
        }
        supervisor_step_act_kill(l, a, now);
        break;
    case SUPERVISOR_EV_ENDED:
        supervisor_step_stopping_ended(l, ev);
        if (!ev->others) {
            supervisor_step_out(l, a, now);
            break;
        }
        a->todo |= l->killed ? SUPERVISOR_DO_KILL : SUPERVISOR_DO_TERM;
        break;
    case SUPERVISOR_EV_ADOPTED:
        a->todo |= l->killed ? SUPERVISOR_DO_KILL : SUPERVISOR_DO_TERM;
        break;
    case SUPERVISOR_EV_EMPTY:
        supervisor_step_out(l, a, now);
        break;
    case SUPERVISOR_EV_TIMER:
        supervisor_step_stopping_timer(l, a, now);
        break;
    case SUPERVISOR_EV_SIGNAL:
        supervisor_step_forward(l, a, ev->code);
        break;
    case SUPERVISOR_EV_GRANT:
    case SUPERVISOR_EV_FAILED:
    case SUPERVISOR_EV_RELEASED:
        break;
    }
}

static void supervisor_step_holding(struct supervisor *l,
                                    const struct supervisor_event *ev,
                                    struct supervisor_actions *a, int64_t now)
{
    switch (ev->kind) {
    case SUPERVISOR_EV_TIMER:
        if (now >= l->timer) {
            supervisor_step_tell_release(l, a, now);
        }
        break;
    case SUPERVISOR_EV_SIGNAL:
        if (supervisor_step_terminates(ev->code)) {
            supervisor_step_tell_release(l, a, now);
        }
        break;
    case SUPERVISOR_EV_LOST:
        /* No process of the command runs. Nobody can tell whether the lock was
         * taken away before the command had ended. The release (GONE) says that
         * it is lost, and that counts. */
        supervisor_step_tell_release(l, a, now);
        break;
    case SUPERVISOR_EV_RELEASED:
        supervisor_step_act_exit(l, a);
        break;
    case SUPERVISOR_EV_HOLDER_EOF:
        a->todo |= SUPERVISOR_SAY_UNRELEASED;
        supervisor_step_act_exit(l, a);
        break;
    case SUPERVISOR_EV_GRANT:
    case SUPERVISOR_EV_DEADLINE:
    case SUPERVISOR_EV_RISK:
    case SUPERVISOR_EV_FAILED:
    case SUPERVISOR_EV_ENDED:
    case SUPERVISOR_EV_ADOPTED:
    case SUPERVISOR_EV_EMPTY:
        break;
    }
}

static void supervisor_step_gone(struct supervisor *l,
                                 const struct supervisor_event *ev,
                                 struct supervisor_actions *a, int64_t now)
{
    switch (ev->kind) {
    case SUPERVISOR_EV_RELEASED:
        /* The lock was taken away, perhaps while the command ran, and the
         * release is the first to find out. */
        if (ev->lost && !l->lost && l->ran) {
            supervisor_step_note_lost(l, a, ev->why);
        } else if (ev->lost) {
            supervisor_step_learn(l, ev->why);
        }
        supervisor_step_act_exit(l, a);
        break;
    case SUPERVISOR_EV_RISK:
    case SUPERVISOR_EV_LOST:
        supervisor_step_learn(l, ev->why);
        break;
    case SUPERVISOR_EV_HOLDER_EOF:
        if (!l->lost) {
            a->todo |= SUPERVISOR_SAY_UNRELEASED;
        }
        supervisor_step_act_exit(l, a);
        break;
    case SUPERVISOR_EV_TIMER:
        if (now >= l->timer) {
            if (!l->lost) {
                a->todo |= SUPERVISOR_SAY_UNRELEASED;
            }
            supervisor_step_act_exit(l, a);
        }
        break;
    case SUPERVISOR_EV_GRANT:
    case SUPERVISOR_EV_DEADLINE:
    case SUPERVISOR_EV_FAILED:
    case SUPERVISOR_EV_ENDED:
    case SUPERVISOR_EV_ADOPTED:
    case SUPERVISOR_EV_EMPTY:
    case SUPERVISOR_EV_SIGNAL:
        break;
    }
}

struct supervisor_actions supervisor_step(struct supervisor *l,
                                          const struct supervisor_event *ev,
                                          int64_t now)
{
    struct supervisor_actions a = {0};

    switch (l->state) {
    case SUPERVISOR_WAITING:
        supervisor_step_waiting(l, ev, &a, now);
        break;
    case SUPERVISOR_LEAVING:
        supervisor_step_leaving(l, ev, &a, now);
        break;
    case SUPERVISOR_RUNNING:
        supervisor_step_running(l, ev, &a, now);
        break;
    case SUPERVISOR_STOPPING:
    case SUPERVISOR_ENDING:
        supervisor_step_stopping(l, ev, &a, now);
        break;
    case SUPERVISOR_HOLDING:
        supervisor_step_holding(l, ev, &a, now);
        break;
    case SUPERVISOR_GONE:
        supervisor_step_gone(l, ev, &a, now);
        break;
    case SUPERVISOR_DONE:
        break;
    }
    return a;
}
