/* holder_offer.c — a grant becomes the supervisor's, or is given back.
 *
 * A supervisor that is stopped (Ctrl-Z, SIGSTOP, a debugger) while the holder
 * waits for the lock would never start its command. The holder would then hold
 * and renew the lock for nothing, while everybody else waits. So a grant is
 * only an offer: the supervisor takes it, in the page that both see, right
 * before it starts the command. An offer that is not taken within a second (or
 * half the ttl, if that is less) is withdrawn and the grant given back; so
 * others wait that long, once. When the supervisor goes on it finds the
 * withdrawn offer and says that it is here (PLAN_HERE), and the holder requests
 * the lock again, at the end of the queue.
 *
 * A supervisor that stops itself (Ctrl-Z) says so before (PLAN_STOPPED), and
 * then others lose no time: the position in the queue is kept, and a grant that
 * comes meanwhile is given back at once.
 *
 * The page decides and not messages. Messages could cross, and then the command
 * would run under a lock that was given back.
 */
#define _GNU_SOURCE
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"

#include <string.h>
#include <unistd.h>

#define OFFER_MOST SUPERVISOR_S

/* False: the supervisor has taken the offer first. */
static bool holder_offer_withdraw(struct holder *k)
{
    int32_t offered = PLAN_OFFERED;

    k->offer_ns = INT64_MAX;
    return atomic_compare_exchange_strong(&k->page->offer, &offered,
                                          PLAN_WITHDRAWN);
}

/* Reset to the state before the first request. */
static void holder_offer_forget(struct holder *k)
{
    snib_multi_free(k->several.multi);
    k->several = (struct several){0};
    for (size_t i = 0; i < k->plan->name_count; i++) {
        snib_lock_free(k->slots[i].lock);
        k->slots[i] = (struct slot){0};
        k->page->tokens[i] = 0;
    }
    if (k->listener >= 0) {
        close(k->listener);
        k->listener = -1;
    }
    atomic_store(&k->page->deadline_ns, 0);
    atomic_store(&k->page->group, 0);
    k->check_ns = k->renew_ns = k->guard_ns = INT64_MAX;
    k->at = 0;
    k->lost = false;
    k->lost_cause = SNIB_CAUSE_NONE;
    k->first_lost = NULL;
    k->phase = PHASE_ACQUIRING;
}

static void holder_offer_step_aside(struct holder *k)
{
    enum supervisor_why why = SUPERVISOR_CAUSE_EXPIRED;

    holder_release_all(k, &why, NULL);
    holder_offer_forget(k);
    k->aside = true;
}

/* Not by a call from here: a loss at each attempt would make the stack one call
 * deeper each time. */
void holder_request_again(struct holder *k)
{
    holder_offer_step_aside(k);
    k->again = true;
    holder_wake(k);
}

void holder_request_later(struct holder *k)
{
    holder_offer_step_aside(k);
    k->again_ns = proc_now() + SUPERVISOR_S / 20;
}

void holder_offer(struct holder *k)
{
    int64_t most = k->rules.ttl / 2;

    if (k->paused) {
        holder_offer_step_aside(k);
        return;
    }
    k->offer_ns = proc_now() + (most < OFFER_MOST ? most : OFFER_MOST);
    k->page->grants++;
    atomic_store(&k->page->offer, PLAN_OFFERED);
    if (!holder_tell(k, PLAN_GRANT, 0, SUPERVISOR_CAUSE_EXITED, "") &&
        holder_offer_withdraw(k)) {
        holder_cannot(k, "tell of the grant");
    }
}

void holder_offer_due(struct holder *k)
{
    if (holder_offer_withdraw(k)) {
        holder_offer_step_aside(k);
    }
}

void holder_pause(struct holder *k)
{
    k->paused = true;
    waitline_wipe(&k->line);
    k->line.due_ns = INT64_MAX;
    if (holder_offer_withdraw(k)) {
        holder_offer_step_aside(k);
    }
}

bool holder_offer_again(struct holder *k)
{
    bool again;

    k->paused = k->again = false;
    k->again_ns = INT64_MAX;
    if (k->phase == PHASE_HOLDING &&
        atomic_load(&k->page->offer) == PLAN_WITHDRAWN) {
        holder_offer_step_aside(k);
    }
    if (k->phase != PHASE_ACQUIRING) {
        return false;
    }
    k->line.due_ns = proc_now();
    again = k->aside;
    k->aside = false;
    return again;
}
