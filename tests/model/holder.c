/* holder.c — the holder (holder.c, holder_hold.c, holder_offer.c,
 * holder_acquire.c and holder_detached.c of src/cli/holder) by hand, for one
 * name.
 *
 * It hears the supervisor, its library and its clock in any order: more orders
 * than its loop has. While it kills, or waits for the answer to a release, it
 * hears nothing. Left out: several names, locks held up the tree, the private
 * socket, its messages to the user; exits for want of descriptors or memory. */
#include "model.h"

#include <assert.h>
#include <string.h>

static void ask(struct world *w)
{
    w->ask = ASKED;
}

void holder_begin(struct world *w)
{
    w->holder_socket = 1;
    w->offer_at = w->guard_at = w->told_at = w->patience_at = NEVER;
    w->slot_deadline = w->page_deadline = NONE;
    w->limit_at = setup.limit ? LIMIT : NEVER;
    ask(w);
}

static bool queued(const struct world *w, enum message m)
{
    return memchr(w->to_sup, (int)m, w->to_sup_count) != NULL;
}

bool holder_tell(struct world *w, enum message m)
{
    if (!w->holder_socket || w->sup >= KILLED) {
        return false;
    }
    if ((m == MSG_RISK || m == MSG_SIG_TERM) && queued(w, m)) {
        return true; /* one is as good as two */
    }
    if (w->to_sup_count == TO_SUP) {
        WRONG("more messages than the model has room for");
        return false;
    }
    w->to_sup[w->to_sup_count++] = (uint8_t)m;
    return true;
}

void holder_gone(struct world *w, enum runs how)
{
    w->holder = (uint8_t)how;
    if (w->to_holder_count > 0 && w->sup < KILLED) {
        w->sup_reset = 1;
    }
    w->phase = w->holder_at = w->then = w->holder_socket = 0;
    w->aside = w->paused = w->again = w->slot_lost = w->at_risk = 0;
    w->lost = w->told_signal = w->holder_reset = w->to_holder_count = 0;
    memset(w->to_holder, 0, sizeof w->to_holder);
    w->told_at = w->guard_at = w->offer_at = w->patience_at = NEVER;
    w->slot_deadline = NONE;
    w->ask = w->renewal = 0;
    w->renewal_at = 0;
}

/* -- giving back ----------------------------------------------------------- */

static void begin_release(struct world *w, enum after_release then)
{
    w->holder_at = RELEASES;
    w->then = (uint8_t)then;
    w->patience_at = PATIENCE;
    w->renewal = NOT_RENEWING;
    w->renewal_at = 0;
}

/* holder_offer.c| atomic_store(&k->page->deadline_ns, 0); */
static void forget(struct world *w)
{
    w->page_deadline = w->slot_deadline = NONE;
    w->guard_at = w->offer_at = NEVER;
    /* holder_offer.c| atomic_store(&k->page->group, 0); */
    w->page_group = NO_GROUP;
    w->lost = w->slot_lost = w->at_risk = 0;
    /* holder_offer.c| k->phase = PHASE_ACQUIRING; */
    w->phase = ACQUIRING;
    w->aside = 1;
}

static void say_released(struct world *w, bool lost)
{
    /* holder_end.c| holder_tell(k, PLAN_RELEASED, lost ? 1 : 0, why, text); */
    w->facts |= F_TOLD_RELEASED;
    if (holder_tell(w, lost ? MSG_RELEASED_LOST : MSG_RELEASED) && lost &&
        w->mind.state == SUPERVISOR_GONE && w->mind.timer > 0 &&
        w->facts & F_TAKEN_AWAY) {
        w->facts |= F_LOST_MUST;
    }
    if (lost) {
        w->facts |= F_LOST_MAY;
    }
    holder_gone(w, EXITED);
}

static void end_release(struct world *w, bool lost)
{
    enum after_release then = (enum after_release)w->then;

    w->holder_at = LIVES;
    w->then = 0;
    w->patience_at = NEVER;
    if (then == THEN_END) {
        say_released(w, lost);
        return;
    }
    forget(w);
    if (then == THEN_ASK_AGAIN && !w->paused) {
        w->aside = 0;
        ask(w);
    }
}

/* End; a lock that is held is released first. */
static void release_and_end(struct world *w)
{
    if (w->phase == HOLDING) {
        begin_release(w, THEN_END);
    } else {
        say_released(w, false);
    }
}

/* holder.c| snib_client_cancel(k->client, s->ticket); */
static void leave(struct world *w)
{
    if (w->phase == ACQUIRING && w->ask != NOT_ASKED) {
        w->phase = LEAVING;
        w->patience_at = PATIENCE;
        return;
    }
    release_and_end(w);
}

/* -- the supervisor -------------------------------------------------------- */

/* Withdraw the offer. False: the supervisor has taken it already. */
static bool withdraw(struct world *w)
{
    w->offer_at = NEVER;
    if (w->page_offer != OFFERED) {
        return false;
    }
    w->page_offer = WITHDRAWN;
    return true;
}

static void sup_died(struct world *w)
{
    /* holder.c| close(k->socket); */
    w->holder_socket = w->holder_reset = w->to_holder_count = 0;
    memset(w->to_holder, 0, sizeof w->to_holder);
    if (w->phase == HOLDING) {
        /* holder.c| k->phase == PHASE_HOLDING && !holder_kill_command(k) */
        w->holder_at = KILLS;
        return;
    }
    /* holder.c| if (k->phase != PHASE_LEAVING) { */
    if (w->phase != LEAVING) {
        leave(w);
    }
}

static void go_on(struct world *w)
{
    w->paused = 0;
    if (w->phase == HOLDING) {
        /* holder_offer.c| atomic_load(&k->page->offer) == PLAN_WITHDRAWN) { */
        if (w->page_offer == WITHDRAWN) {
            begin_release(w, THEN_ASK_AGAIN);
        }
        return;
    }
    if (w->phase == ACQUIRING && w->aside) {
        w->aside = 0;
        ask(w);
    }
}

static void hear(struct world *w)
{
    enum message m;

    if (w->holder_reset || w->to_holder_count == 0) {
        sup_died(w);
        return;
    }
    m = (enum message)w->to_holder[0];
    memmove(w->to_holder, w->to_holder + 1, TO_HOLDER - 1);
    w->to_holder[--w->to_holder_count] = NO_MESSAGE;
    switch (m) {
    case MSG_LEAVE:
        leave(w);
        break;
    case MSG_RELEASE:
        release_and_end(w);
        break;
    case MSG_STOPPED:
        /* holder_offer.c| k->paused = true; */
        w->paused = 1;
        if (withdraw(w)) {
            begin_release(w, THEN_ASIDE);
        }
        break;
    case MSG_HERE:
        go_on(w);
        break;
    case NO_MESSAGE:
    case MSG_GRANT:
    case MSG_RISK:
    case MSG_LOST:
    case MSG_FAILED:
    case MSG_RELEASED:
    case MSG_RELEASED_LOST:
    case MSG_SIG_TERM:
        assert(false);
    }
}

/* -- the library ----------------------------------------------------------- */

/* holder_hold.c| atomic_load(&k->page->deadline_ns) - k->rules.margin / 2; */
static void publish(struct world *w)
{
    if (w->lost) {
        return;
    }
    if (w->slot_deadline > w->page_deadline) {
        w->page_deadline = w->slot_deadline;
    }
    w->guard_at = (int8_t)(w->page_deadline - MARGIN / 2);
}

static void lose(struct world *w)
{
    w->slot_lost = 1;
    /* holder_hold.c| if (!k->lost && k->phase == PHASE_HOLDING) { */
    if (!w->lost && holder_tell(w, MSG_LOST)) {
        w->facts |= F_TOLD_LOST;
    }
    w->lost = 1;
}

/* The supervisor ignores what was told of an earlier grant:
 * supervisor.c| b->supervisor.state != SUPERVISOR_WAITING &&
 * m->grant != b->page->grants; */
static void forget_told(struct world *w)
{
    uint8_t kept = 0;

    for (uint8_t i = 0; i < w->to_sup_count; i++) {
        if (w->to_sup[i] != MSG_LOST && w->to_sup[i] != MSG_RISK) {
            w->to_sup[kept++] = w->to_sup[i];
        }
    }
    memset(w->to_sup + kept, 0, (size_t)(TO_SUP - kept));
    w->to_sup_count = kept;
}

static void granted(struct world *w)
{
    w->ask = NOT_ASKED;
    if (w->phase == LEAVING) {
        w->phase = HOLDING;
        begin_release(w, THEN_END);
        return;
    }
    w->phase = HOLDING;
    if (w->slot_deadline <= 0) { /* holder_grant.c| holder_request_again(k); */
        begin_release(w, THEN_ASK_AGAIN);
        return;
    }
    publish(w);
    if (w->paused) {
        begin_release(w, THEN_ASIDE);
        return;
    }
    w->offer_at = OFFER;
    w->age = 0;
    forget_told(w);
    /* holder_offer.c| atomic_store(&k->page->offer, PLAN_OFFERED); */
    w->page_offer = OFFERED;
    if (!holder_tell(w, MSG_GRANT) && withdraw(w)) {
        begin_release(w, THEN_END);
    }
}

static void fail(struct world *w, int code)
{
    w->holder_code = (uint8_t)code;
    if (w->phase == LEAVING) {
        release_and_end(w);
        return;
    }
    /* holder_fail.c| holder_tell(k, PLAN_FAILED, snib_err_exit(code),
     * holder_fail_why_of_error(code), ""); */
    if (holder_tell(w, MSG_FAILED) && !(w->facts & F_LIMIT)) {
        w->facts |= F_FAILED_FIRST;
    }
    if (w->ask == GRANTED) { /* the cancel ends the grant */
        w->lock = FREE;
        w->lock_end = 0;
    }
    holder_gone(w, EXITED);
}

static void renewed(struct world *w)
{
    int8_t deadline = (int8_t)(w->renewal_at + TTL);
    bool refused = w->renewal == REFUSED;

    w->renewal = NOT_RENEWING;
    w->renewal_at = 0;
    if (w->slot_lost) {
        return;
    }
    if (refused) {
        lose(w);
        return;
    }
    w->at_risk = 0;
    if (deadline > w->slot_deadline) {
        w->slot_deadline = deadline;
    }
    publish(w);
}

static void not_renewed(struct world *w)
{
    w->renewal = NOT_RENEWING;
    w->renewal_at = 0;
    /* holder_hold.c| if (!s->at_risk && k->phase == PHASE_HOLDING) { */
    if (setup.risk && !w->at_risk && !w->slot_lost) {
        w->at_risk = 1;
        holder_tell(w, MSG_RISK);
    }
}

/* -- the clock ------------------------------------------------------------- */

/* The supervisor is stopped, and its time to kill is over: the holder kills. */
static void guard(struct world *w)
{
    publish(w);
    /* holder.c| if (proc_now() < k->guard_ns) { */
    if (w->guard_at > 0) {
        return;
    }
    /* holder.c| atomic_load(&k->page->offer) == PLAN_TAKEN && */
    if (w->page_offer == TAKEN && setup.on_lost == SUPERVISOR_LOST_KILL) {
        if (!w->lost) {
            w->lost = 1;
            if (holder_tell(w, MSG_LOST)) {
                w->facts |= F_TOLD_LOST;
            }
        }
        /* holder.c| if (!atomic_compare_exchange_strong(&k->page->group,
         * &group, PLAN_TOO_LATE) && */
        if (w->page_group == PUBLISHED) {
            group_kill(w);
            /* holder.c| proc_kill_marked(k->page->address, true) */
            away_kill(w);
        } else {
            w->page_group = TOO_LATE;
        }
    }
    /* holder.c| k->guard_ns = proc_now() + SUPERVISOR_KILL_AGAIN; */
    w->guard_at = 1;
}

static void go_on_with(struct world *w)
{
    switch ((enum holder_at)w->holder_at) {
    case KILLS:
        /* holder.c| if (group <= 0) { */
        if (w->page_group == PUBLISHED) {
            group_kill(w);
        }
        w->holder_at = w->page_group == PUBLISHED ? KILLS_MARKED : LIVES;
        break;
    case KILLS_MARKED:
        /* holder.c| holder_kill_marked(k); */
        away_kill(w);
        w->holder_at = LIVES;
        break;
    case SEES_RELEASED:
        /* holder_hold.c| while (proc_now() < s->deadline_ns) { */
        end_release(w, w->slot_lost);
        return;
    case LIVES:
    case RELEASES:
        assert(false);
    }
    if (w->holder_at == LIVES) {
        leave(w);
    }
}

static void give_up(struct world *w)
{
    w->facts |= F_SILENT;
    say_released(w, false);
}

static void store_releases(struct world *w)
{
    if (w->lock == OURS) {
        judge_release(w);
        w->lock = FREE;
        w->lock_end = 0;
    }
}

static bool due(int8_t at)
{
    return at != NEVER && at <= 0;
}

static bool can_release(const struct world *w, enum move m)
{
    return w->holder_at == RELEASES ||
           (w->holder_at == SEES_RELEASED && m == RELEASE_ANSWERED);
}

static bool can_live(const struct world *w, enum move m)
{
    bool holds = w->phase == HOLDING;

    switch (m) {
    case HOLDER_HEARS:
        return w->holder_socket &&
               (w->to_holder_count > 0 || w->holder_reset || w->sup >= KILLED);
    case HOLDER_GRANT:
        return w->ask == GRANTED;
    case HOLDER_LIMIT:
        return w->phase == ACQUIRING && w->ask != NOT_ASKED && due(w->limit_at);
    case HOLDER_OFFER_DUE:
        return due(w->offer_at);
    case HOLDER_EXPIRED:
        return holds && !w->slot_lost && w->slot_deadline <= 0;
    case HOLDER_GUARD:
        return holds && due(w->guard_at);
    case HOLDER_PASS_ON:
        return due(w->told_at);
    case HOLDER_GIVES_UP:
        return w->phase == LEAVING && due(w->patience_at);
    case STORE_CANCELS:
        return w->phase == LEAVING;
    case STORE_REFUSES:
        return w->phase == ACQUIRING && w->ask == ASKED;
    case RENEWAL_SENT:
        /* holder_hold.c| The library renews at each third of the lease */
        return !setup.fixed && holds && !w->slot_lost &&
               w->renewal == NOT_RENEWING && w->slot_deadline <= RENEWED;
    case RENEWAL_ANSWERED:
        return w->renewal == EXECUTED || w->renewal == REFUSED;
    case RENEWAL_LOST:
        return w->renewal != NOT_RENEWING;
    case FORCED_TOLD:
        return holds && !w->slot_lost && w->lock != OURS && w->facts & F_FORCED;
    default:
        return false;
    }
}

bool holder_can(const struct world *w, enum move m)
{
    if (w->holder != RUNS) {
        return false;
    }
    switch (m) {
    case RELEASE_ANSWERED:
    case RELEASE_SILENT:
    case RELEASE_DROPPED:
        return can_release(w, m);
    case HOLDER_GOES_ON:
        return w->holder_at == KILLS || w->holder_at == KILLS_MARKED ||
               (w->holder_at == SEES_RELEASED && w->slot_deadline <= 0);
    default:
        return w->holder_at == LIVES && can_live(w, m);
    }
}

static void do_release(struct world *w, enum move m)
{
    bool lost = w->slot_lost || w->lock != OURS;

    if (m == RELEASE_ANSWERED && w->holder_at == SEES_RELEASED) {
        lost = w->slot_lost; /* an inspect does not say since when */
    }
    if (m != RELEASE_DROPPED) {
        store_releases(w);
    }
    if (m == RELEASE_ANSWERED) {
        end_release(w, lost);
        return;
    }
    w->facts |= F_SILENT;
    w->holder_at = SEES_RELEASED;
    w->patience_at = NEVER;
}

void holder_do(struct world *w, enum move m)
{
    switch (m) {
    case HOLDER_HEARS:
        hear(w);
        break;
    case HOLDER_GRANT:
        granted(w);
        break;
    case HOLDER_LIMIT:
        fail(w, 75);
        break;
    case STORE_REFUSES:
        fail(w, 69);
        break;
    case HOLDER_OFFER_DUE:
        if (withdraw(w)) {
            begin_release(w, THEN_ASIDE);
        }
        break;
    case HOLDER_EXPIRED:
    case FORCED_TOLD:
        lose(w);
        break;
    case HOLDER_GUARD:
        guard(w);
        break;
    case HOLDER_PASS_ON:
        w->told_at = NEVER;
        holder_tell(w, MSG_SIG_TERM);
        break;
    case HOLDER_GOES_ON:
        go_on_with(w);
        break;
    case HOLDER_GIVES_UP:
        give_up(w);
        break;
    case STORE_CANCELS:
        if (w->ask == GRANTED) {
            w->lock = FREE;
            w->lock_end = 0;
        }
        w->ask = NOT_ASKED;
        release_and_end(w);
        break;
    case RENEWAL_SENT:
        w->renewal = SENT;
        w->renewal_at = 0;
        break;
    case RENEWAL_ANSWERED:
        renewed(w);
        break;
    case RENEWAL_LOST:
        not_renewed(w);
        break;
    case RELEASE_ANSWERED:
    case RELEASE_SILENT:
    case RELEASE_DROPPED:
        do_release(w, m);
        break;
    default:
        assert(false);
    }
}
