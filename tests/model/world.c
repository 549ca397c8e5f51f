/* world.c — the kernel's part, the store's, and the senders of signals. */
#include "model.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

bool anybody(const struct world *w)
{
    return w->leader == RUNNING || w->member == ALIVE || w->away == ALIVE;
}

bool not_ours(const struct world *w)
{
    return w->lock != OURS;
}

/* -- the command ----------------------------------------------------------- */

static void child_news(struct world *w)
{
    if (w->sup < KILLED) {
        w->pending |= SIG_CHLD;
    }
}

void end_leader(struct world *w, int code)
{
    w->leader = w->sup < KILLED ? ZOMBIE : REAPED;
    w->leader_stopped = w->gate = w->stop_news = 0;
    w->code = (uint8_t)code;
    child_news(w);
}

/* Its parent reaps it: the command, or the process that adopted it. */
static void end_other(struct world *w, uint8_t *other)
{
    if (*other != ALIVE) {
        return;
    }
    if (w->leader == RUNNING || w->sup >= KILLED) {
        *other = NOBODY;
        return;
    }
    *other = OTHER_ZOMBIE;
    child_news(w);
}

void group_kill(struct world *w)
{
    if (w->leader == AT_GATE) {
        w->facts |= F_KILLED_AT_GATE;
    }
    if (w->leader == AT_GATE || w->leader == RUNNING) {
        end_leader(w, BY_KILL);
    }
    end_other(w, &w->member);
}

void away_kill(struct world *w)
{
    end_other(w, &w->away);
}

/* Between gate and exec all signals are blocked. When they are unblocked, they
 * do what they do to a program that handles none. */
static void signal_at_gate(struct world *w, int sig)
{
    if (sig != SIGCONT && sig != SIGTSTP) {
        w->facts |= F_KILLED_AT_GATE;
        end_leader(w, 128 + sig);
    }
}

void group_signal(struct world *w, int sig)
{
    if (w->leader == AT_GATE) {
        signal_at_gate(w, sig);
        return;
    }
    if (sig == SIGUSR1 && w->leader == RUNNING) {
        if (w->facts & F_LOST_SIGNAL) {
            WRONG("the signal of --on-lost is sent twice");
        }
        w->facts |= F_LOST_SIGNAL;
    }
    if (sig == SIGCONT) {
        w->leader_stopped = 0;
    }
    if (sig == SIGTSTP && w->leader == RUNNING && !w->leader_stopped) {
        w->leader_stopped = w->stop_news = 1;
        child_news(w);
    }
}

/* -- signals to ours ------------------------------------------------------- */

static void sup_signal(struct world *w, int sig)
{
    if (sig == SIG_CONT) {
        w->pending &= (uint8_t)~SIG_TSTP;
        w->sup = RUNS;
    }
    if (sig == SIG_TSTP) {
        w->pending &= (uint8_t)~SIG_CONT;
    }
    w->pending |= (uint8_t)sig;
    if (sig == SIG_HUP || sig == SIG_INT || sig == SIG_TERM) {
        w->sent |= (uint8_t)sig;
        w->facts |= F_ASKED;
    }
}

static void sup_stop(struct world *w)
{
    w->sup = STOPPED;
    w->pending &= (uint8_t)~SIG_CONT;
}

/* -- time ------------------------------------------------------------------ */

static void sooner_to(int8_t *at, int past)
{
    if (*at != NEVER && *at != NONE && *at > past) {
        --*at;
    }
}

static void sooner(int8_t *at)
{
    sooner_to(at, PAST);
}

static void older(int8_t *age, int most)
{
    if (*age < most) {
        ++*age;
    }
}

static void tick(struct world *w)
{
    judge_tick(w);
    sooner_to(&w->mind.granted, LONG_AGO);
    sooner(&w->mind.deadline);
    sooner(&w->mind.timer);
    sooner(&w->mind.kill_at);
    sooner(&w->page_deadline);
    sooner(&w->told_at);
    sooner(&w->slot_deadline);
    sooner(&w->guard_at);
    sooner(&w->offer_at);
    sooner(&w->limit_at);
    sooner(&w->patience_at);
    if (w->renewal != NOT_RENEWING) {
        sooner_to(&w->renewal_at, -TTL);
    }
    if (w->lock == OURS) {
        sooner(&w->lock_end);
        if (w->lock_end <= 0) {
            w->lock = FREE;
            w->lock_end = 0;
        }
    }
    older(&w->age, -LONG_AGO);
    older(&w->term_age, GRACE);
    if (w->limit_at != NEVER && w->limit_at <= -SLACK &&
        w->page_offer != TAKEN) {
        w->facts |= F_LIMIT;
    }
}

bool urgent(const struct world *w)
{
    static const enum move at_once[] = {
        HOLDER_HEARS, HOLDER_LIMIT,   HOLDER_OFFER_DUE, HOLDER_EXPIRED,
        HOLDER_GUARD, HOLDER_PASS_ON, HOLDER_GOES_ON,   HOLDER_GIVES_UP};

    if (sup_can_step(w) || world_can(w, CHILD_EXEC)) {
        return true;
    }
    for (size_t i = 0; i < sizeof at_once / sizeof at_once[0]; i++) {
        if (holder_can(w, at_once[i])) {
            return true;
        }
    }
    return w->holder == RUNS && w->holder_at == RELEASES && w->patience_at <= 0;
}

/* -- moves ----------------------------------------------------------------- */

static bool sup_signal_can(const struct world *w, int sig)
{
    return w->sup < KILLED && !(w->pending & sig) && !(w->batch & sig);
}

static bool command_can(const struct world *w, enum move m)
{
    bool runs = w->leader == RUNNING && !w->leader_stopped;
    bool lives = w->leader == RUNNING || w->leader == AT_GATE;

    switch (m) {
    case CHILD_EXEC:
    case CHILD_NOT_FOUND:
        return w->leader == AT_GATE && w->gate && !w->leader_stopped;
    case COMMAND_ENDS_0:
    case COMMAND_ENDS_1:
    case COMMAND_ENDS_TERM:
        return runs;
    case MEMBER_BORN:
        return setup.others && runs && w->member == NOBODY;
    case AWAY_BORN:
        return setup.others && runs && w->away == NOBODY;
    case MEMBER_ENDS:
        return w->member == ALIVE;
    case AWAY_ENDS:
        return w->away == ALIVE;
    case CONT_COMMAND:
        return lives && w->leader_stopped;
    case STOP_COMMAND:
        return lives && !w->leader_stopped;
    case KILL_COMMAND:
        return lives;
    default:
        return false;
    }
}

static bool outside_can(const struct world *w, enum move m)
{
    switch (m) {
    case CONT_SUP:
        return w->sup == STOPPED || (w->sup == RUNS && w->leader_stopped &&
                                     sup_signal_can(w, SIG_CONT));
    case CONT_HOLDER:
        return w->holder == STOPPED;
    case STOP_SUP:
        return w->sup == RUNS;
    case KILL_SUP:
        return w->sup < KILLED;
    case STOP_HOLDER:
        return w->holder == RUNS;
    case KILL_HOLDER:
        return w->holder < KILLED;
    case HUP_SUP:
        return sup_signal_can(w, SIG_HUP);
    case INT_SUP:
        return sup_signal_can(w, SIG_INT);
    case TERM_SUP:
        return sup_signal_can(w, SIG_TERM);
    case TSTP_SUP:
        return w->sup == RUNS && sup_signal_can(w, SIG_TSTP);
    case TERM_HOLDER:
        return w->holder < KILLED && w->told_at == NEVER;
    case FORCED:
        return w->lock == OURS;
    default:
        return false;
    }
}

bool world_can(const struct world *w, enum move m)
{
    switch (m) {
    case TICK:
        return !urgent(w);
    case SUP_STEP:
        return sup_can_step(w);
    case ANOTHER_FREES:
        return w->lock == ANOTHERS;
    case STORE_GRANTS:
        return w->lock == FREE && w->ask == ASKED;
    case RENEWAL_EXECUTED:
        return w->renewal == SENT && (setup.slow || w->renewal_at == 0);
    default:
        break;
    }
    if (m >= STOP_SUP && m <= FORCED) {
        return w->left > 0 && (command_can(w, m) || outside_can(w, m));
    }
    return holder_can(w, m) || command_can(w, m) || outside_can(w, m);
}

static void store_does(struct world *w, enum move m)
{
    if (m == ANOTHER_FREES) {
        w->lock = FREE;
    } else if (m == STORE_GRANTS) {
        w->ask = GRANTED;
        w->lock = OURS;
        w->lock_end = w->slot_deadline = TTL;
        w->facts &= ~(uint32_t)(F_FORCED | F_TAKEN_AWAY);
    } else if (w->lock == OURS) {
        w->renewal = EXECUTED;
        w->lock_end = TTL;
    } else {
        w->renewal = REFUSED;
    }
}

static void command_does(struct world *w, enum move m)
{
    switch (m) {
    case CHILD_EXEC:
        w->leader = RUNNING;
        w->gate = 0;
        w->facts |= F_RAN;
        break;
    case CHILD_NOT_FOUND:
        w->facts |= F_NOT_FOUND;
        end_leader(w, NOT_FOUND);
        break;
    case COMMAND_ENDS_0:
        end_leader(w, EXITED_0);
        break;
    case COMMAND_ENDS_1:
        end_leader(w, EXITED_1);
        break;
    case COMMAND_ENDS_TERM:
        end_leader(w, BY_TERM);
        break;
    case MEMBER_BORN:
        w->member = ALIVE;
        break;
    case AWAY_BORN:
        w->away = ALIVE;
        break;
    case MEMBER_ENDS:
        end_other(w, &w->member);
        break;
    case AWAY_ENDS:
        end_other(w, &w->away);
        break;
    case CONT_COMMAND:
        w->leader_stopped = 0;
        break;
    case STOP_COMMAND:
        w->leader_stopped = 1;
        break;
    case KILL_COMMAND:
        if (w->leader == AT_GATE) {
            w->facts |= F_KILLED_AT_GATE;
        }
        end_leader(w, BY_KILL);
        break;
    default:
        assert(false);
    }
}

static void outside_does(struct world *w, enum move m)
{
    switch (m) {
    case CONT_SUP:
        sup_signal(w, SIG_CONT);
        break;
    case CONT_HOLDER:
        w->holder = RUNS;
        break;
    case STOP_SUP:
        sup_stop(w);
        break;
    case KILL_SUP:
        sup_gone(w, KILLED);
        break;
    case STOP_HOLDER:
        w->holder = STOPPED;
        break;
    case KILL_HOLDER:
        holder_gone(w, KILLED);
        break;
    case HUP_SUP:
        sup_signal(w, SIG_HUP);
        break;
    case INT_SUP:
        sup_signal(w, SIG_INT);
        break;
    case TERM_SUP:
        sup_signal(w, SIG_TERM);
        break;
    case TSTP_SUP:
        sup_signal(w, SIG_TSTP);
        break;
    case TERM_HOLDER:
        /* holder_detached.c| k->told_ns = proc_now() + PASS_ON; */
        w->told_at = PASS_ON;
        w->sent |= SIG_TERM;
        break;
    case FORCED:
        w->lock = FREE;
        w->lock_end = 0;
        w->facts |= F_FORCED;
        if (w->leader == RUNNING && w->page_offer == TAKEN) {
            w->facts |= F_TAKEN_AWAY;
        }
        break;
    default:
        assert(false);
    }
}

void world_do(struct world *w, enum move m)
{
    if (m >= STOP_SUP && m <= FORCED) {
        w->left--;
    }
    if (m == TICK) {
        tick(w);
    } else if (m == SUP_STEP) {
        sup_step(w);
    } else if (m == ANOTHER_FREES || m == STORE_GRANTS ||
               m == RENEWAL_EXECUTED) {
        store_does(w, m);
    } else if (m >= HOLDER_HEARS && holder_can(w, m)) {
        holder_do(w, m);
    } else if (m >= CHILD_EXEC && command_can(w, m)) {
        command_does(w, m);
    } else {
        outside_does(w, m);
    }
    judge_move(w, m);
}
