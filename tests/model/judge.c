/* judge.c — what the manual promises about `snib run`, said of the model.
 *
 * It is written from the manual page, not from the product. Which exit statuses
 * are possible follows from what has happened outside (`facts`), as an onlooker
 * would note it that sees all processes, the store and the page. "May": there
 * is a reason that the supervisor could have. "Must": the reason was there when
 * a tick passed while the supervisor could run. */
#include "model.h"

const char *wrong;
int exit_status = -1;

/* The command, or a process of it, is or may be at work, as far as the
 * supervisor can know. */
static bool is_open(const struct world *w)
{
    return w->page_offer == TAKEN && w->mind.state != SUPERVISOR_HOLDING &&
           w->mind.state != SUPERVISOR_GONE && w->mind.state != SUPERVISOR_DONE;
}

/* Is so little of the lease left that the command must be stopped, or its loss
 * be told? */
static bool lease_short(const struct world *w)
{
    int before = setup.on_lost == SUPERVISOR_LOST_IGNORE ? 0 : MARGIN + GRACE;

    return w->page_deadline != NONE && w->page_deadline - before <= 0;
}

static bool reason_for_loss(const struct world *w)
{
    return lease_short(w) || w->holder >= KILLED || w->facts & F_TOLD_LOST;
}

/* A command that is being stopped for --max-run is killed before the lease
 * ends; it is a loss only if the lease has ended. */
static bool must_be_told(const struct world *w)
{
    bool stops = w->facts & F_RAN_OUT_MAY && w->facts & F_TERM;

    return w->holder >= KILLED || w->facts & F_TOLD_LOST ||
           (lease_short(w) && (!stops || w->page_deadline <= 0));
}

static bool out(enum runs r)
{
    return r == STOPPED || r == KILLED;
}

static void note_facts(struct world *w)
{
    if (is_open(w) &&
        (reason_for_loss(w) || (w->facts & F_FORCED && not_ours(w)))) {
        w->facts |= F_LOST_MAY;
    }
    if (setup.max_run && is_open(w) && w->age >= MAX_RUN) {
        w->facts |= F_RAN_OUT_MAY;
    }
    if (w->page_offer == TAKEN && out((enum runs)w->sup) &&
        out((enum runs)w->holder)) {
        w->facts |= F_BOTH_OUT;
    }
}

static bool excused(const struct world *w)
{
    return setup.on_lost != SUPERVISOR_LOST_KILL ||
           w->facts & (F_BOTH_OUT | F_FORCED);
}

void judge_move(struct world *w, enum move m)
{
    exit_status = m == SUP_STEP ? exit_status : -1;
    note_facts(w);
    if (not_ours(w) && anybody(w) && !excused(w)) {
        WRONG("the command lives, and another can hold the lock");
    }
    if (w->sup >= KILLED && w->leader == RUNNING) {
        WRONG("the command outlives the supervisor");
    }
    if (!is_end(w)) {
        return;
    }
    if (anybody(w) && !(w->facts & F_BOTH_OUT)) {
        WRONG("somebody of the command is left at the end");
    }
    if (w->holder == EXITED && w->lock == OURS && !(w->facts & F_SILENT)) {
        WRONG("the lock is not given back at the end");
    }
}

bool is_end(const struct world *w)
{
    return w->sup >= KILLED && w->holder >= KILLED;
}

/* A tick passes: all processes that can run have done what there is to do. */
void judge_tick(struct world *w)
{
    bool at_work = w->leader == RUNNING && w->sup == RUNS;

    if (at_work && must_be_told(w)) {
        w->facts |= F_LOST_MUST;
        if (w->lease_fd) {
            WRONG("a loss is not told at SNIB_LEASE_FD");
        }
        if (setup.on_lost == SUPERVISOR_LOST_SIGNAL &&
            !(w->facts & F_LOST_SIGNAL)) {
            WRONG("the signal of --on-lost is not sent");
        }
        if (setup.on_lost == SUPERVISOR_LOST_KILL && !(w->facts & F_TERM)) {
            WRONG("a command without a lock is not told to end");
        }
    }
    if (w->sup == STOPPED && w->leader == RUNNING && w->page_deadline != NONE &&
        w->page_deadline <= 0) {
        w->facts |= F_LOST_MUST;
    }
    if (at_work && setup.max_run && w->age >= MAX_RUN) {
        w->facts |= F_RAN_OUT_MUST;
        if (!(w->facts & F_TERM)) {
            WRONG("--max-run is over, and the command is not told to end");
        }
    }
    if (at_work && w->facts & F_RAN_OUT_MUST && w->age >= MAX_RUN + GRACE &&
        w->term_age >= GRACE) {
        WRONG("--max-run and the grace are over, and the command lives");
    }
    if (w->sup == RUNS && w->mind.state == SUPERVISOR_HOLDING &&
        w->asked_to_end) {
        WRONG("asked to end, it holds on for --hold-min");
    }
    if (w->sup == RUNS && w->mind.state == SUPERVISOR_WAITING &&
        w->facts & F_ASKED) {
        WRONG("asked to end, it waits on");
    }
    if (w->mind.state == SUPERVISOR_LEAVING && w->facts & F_ASKED &&
        !(w->facts & F_LIMIT)) {
        w->facts |= F_LEFT;
    }
    if (w->page_offer == OFFERED && w->holder == RUNS &&
        w->holder_at == LIVES && w->age > OFFER) {
        WRONG("nobody takes the grant, and it is kept");
    }
}

static bool may_stop(const struct world *w)
{
    return w->leader != RUNNING ||
           (setup.on_lost == SUPERVISOR_LOST_KILL && w->facts & F_LOST_MAY) ||
           w->facts & F_RAN_OUT_MAY;
}

void judge_term(struct world *w)
{
    if (!may_stop(w)) {
        WRONG("TERM without a reason");
    }
}

/* KILL may come before the end of the grace only if the lease that was known at
 * TERM ends earlier, or if nobody holds the lock. */
void judge_kill(struct world *w)
{
    if (!may_stop(w)) {
        WRONG("KILL without a reason");
    }
    if (w->leader != RUNNING || w->holder >= KILLED ||
        (setup.on_lost == SUPERVISOR_LOST_KILL &&
         (w->mind.deadline - MARGIN <= 0 || w->facts & F_TOLD_LOST))) {
        return;
    }
    if (!(w->facts & F_TERM) || w->term_age < GRACE) {
        WRONG("KILL before the grace is over");
    }
}

/* The holder releases the lock. */
void judge_release(struct world *w)
{
    bool asked = w->sent & (SIG_INT | SIG_TERM | SIG_HUP);

    if (anybody(w)) {
        WRONG("the lock is given back while the command lives");
    }
    if (setup.hold_min && w->facts & F_RAN && w->page_offer == TAKEN &&
        w->age < HOLD_MIN && !asked && w->sup != KILLED &&
        !(w->facts & (F_LOST_MAY | F_TOLD_LOST))) {
        WRONG("the lock is given back before --hold-min is over");
    }
}

/* -- the exit status ------------------------------------------------------- */

static bool is_signal(const struct world *w, int code)
{
    return (code == 128 + 1 && w->sent & SIG_HUP) ||
           (code == 128 + 2 && w->sent & SIG_INT) ||
           (code == 128 + 15 && w->sent & SIG_TERM);
}

static void judge_not_ran(const struct world *w, int code)
{
    bool told = w->facts & F_FAILED_FIRST, possible;

    switch (code) {
    case 69:
        possible = w->holder_code == 69;
        break;
    case 70: /* it was killed before it was executed, or the holder was */
        possible = w->holder == KILLED ||
                   (w->facts & F_KILLED_AT_GATE && !(w->facts & F_LOST_MUST));
        break;
    case 75:
        possible = w->holder_code == 75 || w->facts & F_LIMIT;
        break;
    case 76:
        possible = w->facts & F_LOST_MAY;
        break;
    case NOT_FOUND:
        possible = w->facts & F_NOT_FOUND;
        break;
    default:
        possible = is_signal(w, code) ||
                   (w->facts & F_KILLED_AT_GATE && code == w->code);
        break;
    }
    if (!possible) {
        WRONG("nothing ran, and the exit status is none that fits");
    }
    /* After a signal the holder's last message is not awaited, either. */
    if (told && code != w->holder_code && w->sent == 0) {
        WRONG("what the holder told in time is not the exit status");
    }
    if (w->facts & F_LEFT && !is_signal(w, code)) {
        WRONG("a signal came while it waited, and that is not told");
    }
    if (w->holder == KILLED && !told && code != 70 && !is_signal(w, code) &&
        w->page_offer != TAKEN && !(w->facts & F_LIMIT)) {
        WRONG("the holder was killed while it waited, and that is not told");
    }
}

static void judge_ran(const struct world *w, int code)
{
    bool keeps =
        setup.on_lost == SUPERVISOR_LOST_IGNORE; /* the command's status */
    int own = w->code;

    if (!keeps && w->facts & F_LOST_MUST && code != 76) {
        WRONG("the lock was lost, and the exit status is not 76");
    }
    if (code == 76) {
        if (keeps || !(w->facts & F_LOST_MAY)) {
            WRONG("76, and the lock was not lost");
        }
        return;
    }
    if (w->facts & F_RAN_OUT_MUST && own == EXITED_0) {
        if (code != BY_TERM) {
            WRONG("stopped for --max-run, and the exit status is not 143");
        }
        return;
    }
    if (code != own &&
        !(w->facts & F_RAN_OUT_MAY && own == EXITED_0 && code == BY_TERM)) {
        WRONG("the exit status is not the command's");
    }
}

void judge_exit(struct world *w)
{
    note_facts(w);
    exit_status = w->mind.exit;
    if (w->leader == AT_GATE || anybody(w)) {
        WRONG("the supervisor exits before the command is gone");
    }
    if (w->facts & F_RAN) {
        judge_ran(w, w->mind.exit);
    } else {
        judge_not_ran(w, w->mind.exit);
    }
    if (w->facts & F_TOLD_RELEASED && w->lock == OURS &&
        !(w->facts & F_SILENT)) {
        WRONG("the supervisor exits, and the lock is still held");
    }
}
