/* supervisor.c — supervisor.c, supervisor_act.c, supervisor_group.c and
 * supervisor_command.c of src/cli/supervisor by hand, around the product's own
 * supervisor_step().
 *
 * A round of the loop is poll, the page, the clock, the holder's messages, the
 * signals. Between any two of these, and between the steps of starting the
 * command, the supervisor may be stopped or killed: `at` and `start` say where
 * it is. Left out: what it prints on stderr and in the status line; that it
 * waits up to 2 s for the end of a holder that has sent its last message. */
#include "model.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

#define TICK_NS SUPERVISOR_KILL_AGAIN
#define BASE    1000 /* now, in ticks */

enum { KILLED_ = 1, RAN = 2, ASKED_ = 4, ENDED = 8, LOST_ = 16, RISK_ = 32 };
enum { MAX_RUN_OVER = 64, BY_COMMAND = 128 };

/* A new field must be added to struct mind, too. */
static_assert(sizeof(struct supervisor) == sizeof(struct supervisor_rules) + 80,
              "struct leash has changed");

static int64_t to_ns(int8_t tick)
{
    return tick == NEVER  ? SUPERVISOR_NEVER
           : tick == NONE ? 0
                          : (BASE + tick) * TICK_NS;
}

static int8_t to_tick(int64_t ns, int past)
{
    int64_t tick = ns / TICK_NS - BASE;

    if (ns == SUPERVISOR_NEVER || ns == 0) {
        return ns == 0 ? NONE : NEVER;
    }
    if (ns % TICK_NS != 0 || tick > 100) {
        WRONG("a time that no rule leads to");
    }
    return (int8_t)(tick < past ? past : tick);
}

static struct supervisor unpack(const struct mind *m)
{
    struct supervisor l = {.rules = rules,
                           .state = (enum supervisor_state)m->state,
                           .granted = to_ns(m->granted),
                           .deadline = to_ns(m->deadline),
                           .timer = to_ns(m->timer),
                           .kill_at = to_ns(m->kill_at),
                           .killed = m->flags & KILLED_,
                           .ran = m->flags & RAN,
                           .asked = m->flags & ASKED_,
                           .ended = m->flags & ENDED,
                           .lost = m->flags & LOST_,
                           .risk = m->flags & RISK_,
                           .max_run_over = m->flags & MAX_RUN_OVER,
                           .risk_why = (enum supervisor_why)m->risk_why,
                           .lost_why = (enum supervisor_why)m->lost_why,
                           .exit = m->exit,
                           .by_command = m->flags & BY_COMMAND,
                           .why = (enum supervisor_why)m->why};

    return l;
}

static void pack(struct mind *m, const struct supervisor *l)
{
    *m = (struct mind){
        .state = (uint8_t)l->state,
        .exit = (uint8_t)l->exit,
        .why = (uint8_t)l->why,
        .risk_why = (uint8_t)l->risk_why,
        .lost_why = (uint8_t)l->lost_why,
        .flags = (uint8_t)((l->killed ? KILLED_ : 0) | (l->ran ? RAN : 0) |
                           (l->asked ? ASKED_ : 0) | (l->ended ? ENDED : 0) |
                           (l->lost ? LOST_ : 0) | (l->risk ? RISK_ : 0) |
                           (l->max_run_over ? MAX_RUN_OVER : 0) |
                           (l->by_command ? BY_COMMAND : 0)),
        .granted = to_tick(l->granted, LONG_AGO),
        .deadline = to_tick(l->deadline, PAST),
        .timer = to_tick(l->timer, PAST),
        .kill_at = to_tick(l->kill_at, PAST)};
}

void sup_begin(struct world *w)
{
    struct supervisor l;

    memset(&l, 0, sizeof l);
    supervisor_init(&l, &rules, to_ns(0));
    same_init(&l);
    pack(&w->mind, &l);
    w->sup_socket = 1;
}

static void step(struct world *w, struct supervisor_event ev);

static void step_of(struct world *w, enum supervisor_event_kind kind)
{
    step(w, (struct supervisor_event){.kind = kind});
}

static void tell(struct world *w, enum message m)
{
    if (!w->sup_socket) {
        /* supervisor_act.c| supervisor_take_event(b, &eof); */
        step_of(w, SUPERVISOR_EV_HOLDER_EOF);
        return;
    }
    /* supervisor_act.c| errno == EPIPE || errno == ECONNRESET)) { */
    if (w->holder >= KILLED || !w->holder_socket) {
        return;
    }
    if (w->to_holder_count == TO_HOLDER) {
        WRONG("more messages than the model has room for");
        return;
    }
    w->to_holder[w->to_holder_count++] = (uint8_t)m;
}

/* -- the command's people -------------------------------------------------- */

/* supervisor_group.c| if (b->command > 0 && !b->group_gone) { */
static bool has_group(const struct world *w)
{
    return w->leader != NOT_BORN && w->start == NOT_STARTING && !w->group_gone;
}

static void signal_group(struct world *w, int sig)
{
    if (has_group(w)) {
        group_signal(w, sig);
    }
}

/* The process outside of the group is a child of the supervisor only when its
 * parent is gone. */
static bool adopted(const struct world *w)
{
    return w->away == ALIVE && w->leader >= ZOMBIE;
}

/* supervisor_group.c| return b->group_gone ? supervisor_signal_adopted(b, 0)
 * : 1; */
static bool others_left(struct world *w)
{
    if (w->reaped && w->leader == REAPED && w->member == NOBODY) {
        w->group_gone = 1;
    }
    return !w->group_gone || adopted(w);
}

static void stop_self(struct world *w)
{
    /* supervisor_group.c| b->stopped_self = true; */
    w->stopped_self = 1;
    /* supervisor_group.c| kill(getpid(), SIGSTOP); */
    w->sup = STOPPED;
    w->pending &= (uint8_t)~SIG_CONT;
}

/* -- what the step wants done ---------------------------------------------- */

static void act_term(struct world *w)
{
    judge_term(w);
    if (!w->term_sent) {
        if (has_group(w) && w->leader == RUNNING) {
            w->facts |= F_TERM;
            w->term_age = 0;
        }
        signal_group(w, SIGTERM);
        signal_group(w, SIGCONT);
    }
    /* supervisor_act.c| b->term_sent = true; */
    w->term_sent = 1;
    if (adopted(w)) { /* it may ignore TERM */
        w->facts |= F_TERM;
    }
}

static void act_kill(struct world *w)
{
    judge_kill(w);
    if (has_group(w)) {
        group_kill(w);
    }
    if (adopted(w)) {
        away_kill(w);
    }
}

static void act(struct world *w, struct supervisor_actions a)
{
    if (a.todo & SUPERVISOR_DO_REFUSE) {
        /* supervisor_act.c| atomic_store(&b->page->offer, PLAN_WITHDRAWN); */
        w->page_offer = WITHDRAWN;
        tell(w, MSG_HERE);
    }
    if (a.todo & SUPERVISOR_DO_KILL) {
        act_kill(w);
    }
    if (a.todo & SUPERVISOR_DO_TERM) {
        act_term(w);
    }
    if (a.todo & SUPERVISOR_DO_SIGNAL) {
        signal_group(w, a.signal);
    }
    if (a.todo & SUPERVISOR_DO_EOF) {
        w->lease_fd = 0;
    }
    if (a.todo & SUPERVISOR_DO_START) {
        w->start = TO_FORK;
    }
    if (a.todo & SUPERVISOR_DO_LEAVE) {
        tell(w, MSG_LEAVE);
    }
    if (a.todo & SUPERVISOR_DO_RELEASE) {
        tell(w, MSG_RELEASE);
    }
}

static void step_now(struct world *w, struct supervisor_event ev)
{
    struct supervisor before = unpack(&w->mind), l = before;
    struct supervisor_actions a;

    /* supervisor_act.c| supervisor_act(b, supervisor_step(&b->supervisor, ev,
     * now)); */
    a = supervisor_step(&l, &ev, to_ns(0));
    same_step(&before, &ev, &l, a);
    pack(&w->mind, &l);
    act(w, a);
}

static void look_at_page(struct world *w)
{
    struct supervisor_event ev = {.kind = SUPERVISOR_EV_DEADLINE,
                                  .at = to_ns(w->page_deadline)};

    /* supervisor_act.c| if (ev.at > b->supervisor.deadline) { */
    if (w->page_deadline > w->mind.deadline) {
        step_now(w, ev);
    }
}

static void step(struct world *w, struct supervisor_event ev)
{
    /* supervisor_act.c| supervisor_look_at_page(b, now); */
    look_at_page(w);
    step_now(w, ev);
}

/* -- a round of the loop --------------------------------------------------- */

static bool socket_ready(const struct world *w)
{
    return w->sup_socket && (w->to_sup_count > 0 || w->sup_reset ||
                             w->holder >= KILLED || !w->holder_socket);
}

static bool timer_due(const struct world *w)
{
    return w->mind.timer != NEVER && w->mind.timer <= 0;
}

/* Skip the steps at which there is nothing to do. */
static void skip(struct world *w)
{
    if (w->at == AT_SOCKET && !w->hear_socket) {
        w->at = AT_SIGNALS;
    }
    if (w->at == AT_SIGNALS && !w->hear_signals) {
        w->at = IN_POLL;
    }
}

static void leave_poll(struct world *w)
{
    w->hear_socket = socket_ready(w);
    w->hear_signals = w->pending != 0;
    look_at_page(w);
    w->at = AT_CLOCK;
}

/* supervisor.c| if (proc_now() < b->supervisor.timer) { */
static void look_at_clock(struct world *w)
{
    bool waits =
        /* supervisor.c| if (b->supervisor.state == SUPERVISOR_LEAVING ||
         * b->supervisor.state == SUPERVISOR_GONE) { */
        w->mind.state == SUPERVISOR_LEAVING || w->mind.state == SUPERVISOR_GONE;

    w->at = AT_SOCKET;
    if (timer_due(w) && waits && socket_ready(w)) {
        w->hear_socket = 1; /* the clock is checked again in the next round */
    } else if (timer_due(w)) {
        step_of(w, SUPERVISOR_EV_TIMER);
    }
    skip(w);
}

static void hear_signal(struct world *w, int sig);

static void hear_message(struct world *w, enum message m)
{
    struct supervisor_event ev = {.kind = SUPERVISOR_EV_GRANT};

    switch (m) {
    case MSG_GRANT:
        /* supervisor.c| if (b->supervisor.state == SUPERVISOR_WAITING &&
         * !supervisor_take_offer(b)) { */
        if (w->mind.state == SUPERVISOR_WAITING) {
            if (w->page_offer != OFFERED) {
                tell(w, MSG_HERE);
                return;
            }
            w->page_offer = TAKEN;
            w->age = 0;
            w->facts &= ~(uint32_t)(F_TOLD_LOST | F_LOST_MAY | F_LOST_MUST);
        }
        ev.at = to_ns(w->page_deadline);
        break;
    case MSG_RISK:
        ev.kind = SUPERVISOR_EV_RISK;
        ev.why = SUPERVISOR_CAUSE_UNREACHABLE;
        break;
    case MSG_LOST:
        ev.kind = SUPERVISOR_EV_LOST;
        ev.why = SUPERVISOR_CAUSE_EXPIRED;
        break;
    case MSG_FAILED:
        ev.kind = SUPERVISOR_EV_FAILED;
        ev.code = w->holder_code;
        ev.why = ev.code == 69 ? SUPERVISOR_CAUSE_UNREACHABLE
                               : SUPERVISOR_CAUSE_TIMEOUT;
        break;
    case MSG_RELEASED:
    case MSG_RELEASED_LOST:
        ev.kind = SUPERVISOR_EV_RELEASED;
        ev.lost = m == MSG_RELEASED_LOST;
        ev.why = SUPERVISOR_CAUSE_EXPIRED;
        break;
    case MSG_SIG_TERM:
        /* supervisor.c| if (b->asked_to_end == 0) { */
        if (w->asked_to_end == 0) {
            hear_signal(w, SIGTERM);
        }
        return;
    case NO_MESSAGE:
    case MSG_LEAVE:
    case MSG_RELEASE:
    case MSG_STOPPED:
    case MSG_HERE:
        assert(false);
    }
    step(w, ev);
}

static enum message take(uint8_t *queue, uint8_t *count)
{
    enum message first = (enum message)queue[0];

    memmove(queue, queue + 1, (size_t)*count - 1);
    queue[--*count] = NO_MESSAGE;
    return first;
}

/* The kernel reports an error before it gives what was sent. "Reset": the
 * holder closed its end while a message of the supervisor lay there unread. */
static void hear_holder(struct world *w)
{
    if (!w->hear_socket || !w->sup_socket || !socket_ready(w)) {
        w->at = AT_SIGNALS;
        w->hear_socket = 0;
        skip(w);
        return;
    }
    if (w->sup_reset) {
        /* plan.c| } while (size < 0 && (errno == EINTR || errno ==
         * ECONNRESET)); */
        w->sup_reset = 0;
        return;
    }
    if (w->to_sup_count == 0) {
        /* supervisor.c| b->socket = -1; */
        w->sup_socket = 0;
        /* supervisor.c| supervisor_take_event(b, &eof); */
        step_of(w, SUPERVISOR_EV_HOLDER_EOF);
        return;
    }
    hear_message(w, take(w->to_sup, &w->to_sup_count));
}

static void reap(struct world *w)
{
    struct supervisor_event ev = {.kind = SUPERVISOR_EV_EMPTY};
    bool ended_now = false, news = false;

    if (w->stop_news) {
        w->stop_news = 0;
        /* supervisor_group.c| if (b->terminal < 0 || b->supervisor.state !=
         * SUPERVISOR_RUNNING) { */
        if (setup.terminal && w->mind.state == SUPERVISOR_RUNNING &&
            w->leader == RUNNING && w->leader_stopped) {
            stop_self(w);
        }
    }
    if (w->leader == ZOMBIE) {
        news = ended_now = true;
        w->leader = REAPED;
        w->reaped = 1;
    }
    if (w->leader == REAPED && w->member == OTHER_ZOMBIE) {
        news = true;
        w->member = NOBODY;
    }
    if (w->leader == REAPED && w->away == OTHER_ZOMBIE) {
        news = true;
        w->away = NOBODY;
    }
    if (!news || !w->reaped) {
        return;
    }
    /* supervisor_act.c| int left = supervisor_others_left(b); */
    ev.others = others_left(w);
    if (ended_now) {
        ev.kind = SUPERVISOR_EV_ENDED;
        ev.code = w->code;
        ev.why = w->code == NOT_FOUND ? SUPERVISOR_CAUSE_NOT_FOUND
                 : w->code >= 128     ? SUPERVISOR_CAUSE_SIGNALLED
                                      : SUPERVISOR_CAUSE_EXITED;
    } else if (ev.others) {
        ev.kind = SUPERVISOR_EV_ADOPTED;
    }
    step(w, ev);
}

static void hear_signal(struct world *w, int sig)
{
    struct supervisor_event ev = {.kind = SUPERVISOR_EV_SIGNAL, .code = sig};

    if (sig == SIGCHLD) {
        reap(w);
        return;
    }
    if (sig == SIGTSTP) {
        /* supervisor.c| if (b->command > 0 && !b->command_ended) { */
        if (w->leader != NOT_BORN && !w->reaped) {
            signal_group(w, SIGTSTP);
        } else if (w->mind.state == SUPERVISOR_WAITING) {
            tell(w, MSG_STOPPED);
            stop_self(w);
            w->ctrl_z = 1;
        }
        return;
    }
    if (sig == SIGCONT) {
        /* supervisor_group.c| b->stopped_self = false; */
        w->stopped_self = 0;
    }
    if (sig == SIGINT || sig == SIGTERM) {
        /* supervisor.c| b->asked_to_end = sig; */
        w->asked_to_end = 1;
    }
    step(w, ev);
}

static void hear_next_signal(struct world *w)
{
    static const struct {
        uint8_t bit;
        int sig;
    } order[] = {{SIG_HUP, SIGHUP},   {SIG_INT, SIGINT},   {SIG_TERM, SIGTERM},
                 {SIG_CHLD, SIGCHLD}, {SIG_CONT, SIGCONT}, {SIG_TSTP, SIGTSTP}};

    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (w->batch & order[i].bit) {
            w->batch &= (uint8_t)~order[i].bit;
            hear_signal(w, order[i].sig);
            break;
        }
    }
    if (w->batch == 0) {
        w->at = IN_POLL;
    }
}

/* -- starting -------------------------------------------------------------- */

static void start_command(struct world *w)
{
    switch ((enum start)w->start) {
    case NOT_STARTING:
        assert(false);
        break;
    case TO_FORK:
        w->leader = AT_GATE;
        w->lease_fd = 1;
        w->start = TO_PUBLISH;
        break;
    case TO_PUBLISH:
        w->start = TO_OPEN_GATE;
        /* supervisor_act.c| if (!atomic_compare_exchange_strong(&b->page->group,
         * &none, (int32_t)pid)) { */
        if (w->page_group == TOO_LATE) {
            w->start = NOT_STARTING;
            group_kill(w);
            break;
        }
        w->page_group = PUBLISHED;
        break;
    case TO_OPEN_GATE:
        w->start = NOT_STARTING;
        /* supervisor_act.c| if (TEMP_FAILURE_RETRY(send(b->gate, "g", 1,
         * MSG_NOSIGNAL)) == 1) { */
        if (w->leader == AT_GATE) {
            w->gate = 1;
        }
        break;
    }
}

/* -- one step -------------------------------------------------------------- */

bool sup_can_step(const struct world *w)
{
    if (w->sup != RUNS) {
        return false;
    }
    return w->start != NOT_STARTING || w->ctrl_z || w->at != IN_POLL ||
           timer_due(w) || socket_ready(w) || w->pending != 0;
}

void sup_gone(struct world *w, enum runs how)
{
    w->sup = (uint8_t)how;
    if (w->to_sup_count > 0) {
        w->holder_reset = 1;
    }
    w->at = w->start = w->ctrl_z = 0;
    w->hear_socket = w->hear_signals = w->batch = w->pending = 0;
    w->stop_news = w->stopped_self = w->lease_fd = w->sup_socket = 0;
    w->sup_reset = w->to_sup_count = w->term_sent = 0;
    memset(w->to_sup, 0, sizeof w->to_sup);
    /* supervisor_command.c| if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
     * { */
    if (w->leader == AT_GATE || w->leader == RUNNING) {
        end_leader(w, BY_KILL);
    }
    w->pending = 0;
    if (w->leader == ZOMBIE) { /* init reaps it */
        w->leader = REAPED;
    }
    w->member = w->member == OTHER_ZOMBIE ? NOBODY : w->member;
    w->away = w->away == OTHER_ZOMBIE ? NOBODY : w->away;
}

static void one_step(struct world *w)
{
    if (w->start != NOT_STARTING) {
        start_command(w);
        return;
    }
    if (w->ctrl_z) {
        w->ctrl_z = 0;
        tell(w, MSG_HERE);
        return;
    }
    switch ((enum sup_at)w->at) {
    case IN_POLL:
        leave_poll(w);
        break;
    case AT_CLOCK:
        look_at_clock(w);
        break;
    case AT_SOCKET:
        hear_holder(w);
        break;
    case AT_SIGNALS:
        w->at = w->pending != 0 ? AT_BATCH : IN_POLL;
        w->batch = w->pending;
        w->pending = w->hear_signals = 0;
        break;
    case AT_BATCH:
        hear_next_signal(w);
        break;
    }
}

void sup_step(struct world *w)
{
    one_step(w);
    /* supervisor.c| return b->supervisor.state == SUPERVISOR_DONE || */
    if (w->mind.state == SUPERVISOR_DONE && w->sup == RUNS &&
        w->start == NOT_STARTING) {
        judge_exit(w);
        sup_gone(w, EXITED);
    }
}
