/* supervisor_moves.c — the moves that several states of the supervisor's table
 * share (supervisor_step.c), and the instants that they set.
 *
 * Forbidden, as there: system calls, allocation. */
#include "cli/supervisor/supervisor_moves.h"

#include <signal.h>

const char *supervisor_why_text(enum supervisor_why why)
{
    static const char *const texts[] = {
#define SUPERVISOR_CAUSE_TEXT_(name, text) text,
        SUPERVISOR_WHYS(SUPERVISOR_CAUSE_TEXT_)
#undef SUPERVISOR_CAUSE_TEXT_
    };

    return texts[why];
}

int64_t supervisor_step_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t supervisor_step_after(int64_t instant, int64_t duration)
{
    if (duration >= SUPERVISOR_NEVER - instant) {
        return SUPERVISOR_NEVER;
    }
    return instant + duration;
}

int64_t supervisor_margin(int64_t ttl)
{
    return supervisor_step_smaller(100 * SUPERVISOR_MS + ttl / 100, ttl / 10);
}

int64_t supervisor_default_grace(int64_t ttl)
{
    return supervisor_step_smaller(5 * SUPERVISOR_S, ttl / 3);
}

void supervisor_fit(struct supervisor_rules *ret,
                    const struct supervisor_rules *asked, int64_t ttl)
{
    *ret = *asked;
    if (ttl > 0) {
        ret->ttl = supervisor_step_smaller(ret->ttl, ttl);
        ret->grace = supervisor_step_smaller(ret->grace, ttl / 3);
        ret->margin = supervisor_margin(ret->ttl);
    }
}

void supervisor_init(struct supervisor *l, const struct supervisor_rules *rules,
                     int64_t now)
{
    *l = (struct supervisor){.rules = *rules, .started = now};
    l->timer = supervisor_step_after(now, rules->wait);
    l->exit = EXIT_INTERNAL;
    l->why = SUPERVISOR_CAUSE_HOLDER;
}

int64_t supervisor_step_lease_stop(const struct supervisor *l)
{
    switch (l->rules.on_lost) {
    case SUPERVISOR_LOST_KILL:
    case SUPERVISOR_LOST_SIGNAL:
        return l->deadline - l->rules.margin - l->rules.grace;
    case SUPERVISOR_LOST_IGNORE:
        break; /* stop nothing: tell the loss when it happens */
    }
    return l->deadline;
}

int64_t supervisor_step_max_run_stop(const struct supervisor *l)
{
    if (l->rules.max_run == 0 || l->max_run_over) {
        return SUPERVISOR_NEVER;
    }
    return supervisor_step_after(l->granted, l->rules.max_run);
}

void supervisor_step_arm_running(struct supervisor *l)
{
    l->timer = supervisor_step_smaller(l->lost ? SUPERVISOR_NEVER
                                               : supervisor_step_lease_stop(l),
                                       supervisor_step_max_run_stop(l));
}

void supervisor_step_arm_stopping(struct supervisor *l)
{
    l->timer = supervisor_step_smaller(l->kill_at, l->lost ? SUPERVISOR_NEVER
                                                           : l->deadline);
}

void supervisor_step_arm_kill(struct supervisor *l, int64_t now)
{
    l->kill_at = supervisor_step_after(now, l->rules.grace);
    if (l->rules.on_lost == SUPERVISOR_LOST_KILL) {
        l->kill_at =
            supervisor_step_smaller(l->kill_at, l->deadline - l->rules.margin);
    }
    supervisor_step_arm_stopping(l);
}

void supervisor_step_act_kill(struct supervisor *l,
                              struct supervisor_actions *a, int64_t now)
{
    l->killed = true;
    l->kill_at = now + SUPERVISOR_KILL_AGAIN;
    supervisor_step_arm_stopping(l);
    a->todo |= SUPERVISOR_DO_KILL;
}

void supervisor_step_act_stop(struct supervisor *l,
                              struct supervisor_actions *a, int64_t now)
{
    supervisor_step_arm_kill(l, now);
    if (now >= l->kill_at) {
        supervisor_step_act_kill(l, a, now);
        return;
    }
    a->todo |= SUPERVISOR_DO_TERM;
}

void supervisor_step_act_exit(struct supervisor *l,
                              struct supervisor_actions *a)
{
    l->state = SUPERVISOR_DONE;
    l->timer = SUPERVISOR_NEVER;
    a->todo |= SUPERVISOR_DO_EXIT;
}

void supervisor_step_set_outcome(struct supervisor *l, int code,
                                 bool by_command, enum supervisor_why why)
{
    l->exit = code;
    l->by_command = by_command;
    l->why = why;
}

void supervisor_step_note_lost(struct supervisor *l,
                               struct supervisor_actions *a,
                               enum supervisor_why why)
{
    l->lost = true;
    l->lost_why = why;
    if (l->rules.on_lost != SUPERVISOR_LOST_IGNORE) {
        supervisor_step_set_outcome(l, EXIT_LOST, false, why);
    }
    a->todo |= SUPERVISOR_DO_EOF | SUPERVISOR_SAY_LOST;
    l->risk_why = why;
}

void supervisor_step_learn(struct supervisor *l, enum supervisor_why why)
{
    if (l->lost && l->lost_why == SUPERVISOR_CAUSE_EXPIRED &&
        l->rules.on_lost != SUPERVISOR_LOST_IGNORE) {
        l->lost_why = why;
        l->why = l->why == SUPERVISOR_CAUSE_EXPIRED ? why : l->why;
    }
}

void supervisor_step_lose(struct supervisor *l, struct supervisor_actions *a,
                          enum supervisor_why why, int64_t now)
{
    supervisor_step_note_lost(l, a, why);
    switch (l->rules.on_lost) {
    case SUPERVISOR_LOST_KILL:
        l->state = SUPERVISOR_STOPPING;
        supervisor_step_act_stop(l, a, now);
        break;
    case SUPERVISOR_LOST_SIGNAL:
        a->todo |= SUPERVISOR_DO_SIGNAL;
        a->signal = l->rules.lost_signal;
        supervisor_step_arm_running(l);
        break;
    case SUPERVISOR_LOST_IGNORE:
        supervisor_step_arm_running(l);
        break;
    }
}

void supervisor_step_tell_release(struct supervisor *l,
                                  struct supervisor_actions *a, int64_t now)
{
    l->state = SUPERVISOR_GONE;
    l->timer = supervisor_step_after(now, l->rules.request);
    a->todo |= SUPERVISOR_DO_RELEASE | SUPERVISOR_DO_EOF;
}

void supervisor_step_out(struct supervisor *l, struct supervisor_actions *a,
                         int64_t now)
{
    int64_t until = supervisor_step_after(l->granted, l->rules.hold_min);

    if (!l->lost && l->ran && !l->asked && now < until) {
        l->state = SUPERVISOR_HOLDING;
        l->timer = until;
        return;
    }
    supervisor_step_tell_release(l, a, now);
}

bool supervisor_step_terminates(int sig)
{
    return sig == SIGHUP || sig == SIGINT || sig == SIGQUIT || sig == SIGTERM;
}

void supervisor_step_forward(struct supervisor *l, struct supervisor_actions *a,
                             int sig)
{
    l->asked = l->asked || (supervisor_step_terminates(sig) && sig != SIGHUP);
    a->todo |= SUPERVISOR_DO_SIGNAL;
    a->signal = sig;
}

void supervisor_step_leave(struct supervisor *l, struct supervisor_actions *a,
                           int64_t patience, int64_t now)
{
    l->state = SUPERVISOR_LEAVING;
    l->timer = supervisor_step_after(now, patience);
    a->todo |= SUPERVISOR_DO_LEAVE;
}
